"""Calls of libraries with compiled code that is not made for traced values, and loses references where it meets one.

Assumes functions that have no stand-in. Guarantees that a traced value goes into such a library through the functions of
`OPEN` only, which are written with NumPy's, and comes back from no callback. Refuses the others, with `TraceError`, before
they are called.
"""

import functools
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from symdiff.errors import TraceError
from symdiff.tracing.state.attempt import current
from symdiff.tracing.values.tracer import is_traced
from symdiff.vocabulary.libraries import COMPILED, user_line
from symdiff.vocabulary.signatures import Arguments, Function, Keywords

_CALLBACKS = (types.FunctionType, types.MethodType, functools.partial)
_DEEP = 4  # levels of containers and objects that are looked into
_NAMES = {
    "scipy.optimize": "rosen rosen_der rosen_hess rosen_hess_prod",
    "scipy.signal": "cspline1d_eval czt_points gauss_spline gausspulse kaiser_atten sweep_poly",
    "scipy.linalg": "block_diag convolution_matrix fiedler fiedler_companion hankel khatri_rao solve_circulant solve_lyapunov "
    "toeplitz",
    "scipy.integrate": "cumulative_simpson cumulative_trapezoid romb trapezoid fixed_quad simpson",
    "scipy.spatial.distance": "chebyshev cityblock euclidean hamming jaccard minkowski norm sqeuclidean",
    "scipy.fft": "dctn dstn fftfreq fhtoffset idctn idstn rfftfreq",
    "scipy.special": "assoc_laguerre ivp jvp kvp log_softmax logsumexp polygamma sinc softmax softplus yvp zeta",
    "scipy.constants": "lambda2nu nu2lambda",
    "scipy.stats": "boxcox gmean hmean kstat kstatvar median_abs_deviation pmean rankdata scoreatpercentile sem tiecorrect "
    "tmin",
}
OPEN = {(package, name) for package, names in _NAMES.items() for name in names.split()}


def is_door_closed(f: Any) -> bool:
    """Whether a function may be given no traced value."""
    module = getattr(f, "__module__", None) or type(getattr(f, "__self__", None)).__module__
    name = getattr(f, "__name__", "")
    if type(f).__name__ == "fortran":  # what f2py makes
        return True
    if module.partition(".")[0] not in COMPILED:
        return False
    packages = (package for package, other in OPEN if other == name)
    return not any(getattr(sys.modules.get(package), name, None) is f for package in packages)


def holds_traced_inside(value: Any, depth: int = _DEEP) -> bool:
    """Whether a value, a container or the attributes of an object hold a traced one."""
    if is_traced(value) or depth == 0:
        return is_traced(value)
    if isinstance(value, dict):
        return any(holds_traced_inside(v, depth - 1) for v in value.values())
    if isinstance(value, (list, tuple, set, frozenset)):
        return any(holds_traced_inside(v, depth - 1) for v in value)
    if isinstance(value, functools.partial):
        return holds_traced_inside(value.args, depth - 1) or holds_traced_inside(value.keywords, depth - 1)
    return not isinstance(value, (type, types.ModuleType, types.FunctionType)) and holds_traced_inside(
        getattr(value, "__dict__", ()), depth - 1
    )


def watched(value: Any, name: str) -> Any:
    """A callback that may return no traced value into the library."""
    if not isinstance(value, _CALLBACKS):
        return value

    @functools.wraps(value)
    def callback(*args: Any, **kwargs: Any) -> Any:
        result = value(*args, **kwargs)
        if holds_traced_inside(result):
            raise TraceError(
                f"{user_line()}: a function that is given to {name} returns a traced value, which {name} cannot take"
            )
        return result

    return callback


def without_traced(f: Function, name: str, args: Arguments, kwargs: Keywords) -> Any:
    """A call of a library's function without traced arguments; what it calls back may use traced values."""
    args, kwargs = tuple(watched(a, name) for a in args), {k: watched(v, name) for k, v in kwargs.items()}
    return f(*args, **kwargs)


@contextmanager
def opened() -> Iterator[None]:
    """A library's function that is written with NumPy's may make arrays of traced values."""
    attempt = current()
    if attempt is None:
        yield
        return
    outer, attempt.opened = attempt.opened, True
    try:
        yield
    finally:
        attempt.opened = outer
