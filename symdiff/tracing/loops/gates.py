"""What a symbolic round may call: functions that change nothing but what they return.

Assumes that writes to traced arrays are noticed where they are kept (`values.storage`), and other writes to items where clones
show them (`rounds.storing`). Guarantees that a round calls functions of the user's whose code, with that nested in it, sets no
global, attribute or variable of another function, handles no exception and makes no generator; and Python's and NumPy's own
of the lists below.
"""

import builtins
import dis
import functools
import math
import operator
import types
from typing import Any

import numpy as np

from symdiff.tracing.loops.stores import Growing
from symdiff.tracing.values.tracer import Tracer
from symdiff.vocabulary.libraries import is_library

_WRITING = frozenset(
    "STORE_GLOBAL DELETE_GLOBAL STORE_ATTR DELETE_ATTR DELETE_SUBSCR STORE_NAME DELETE_NAME "
    "DELETE_DEREF IMPORT_NAME IMPORT_FROM BEFORE_WITH SETUP_WITH LOAD_BUILD_CLASS RAISE_VARARGS "
    "LIST_APPEND_OUTER".split()
)
_BUILTINS = frozenset(
    getattr(builtins, n)
    for n in "abs min max sum len range zip enumerate reversed float int complex bool round pow divmod tuple slice "
    "all any".split()
)
_CHANGING = frozenset(
    "save savez savez_compressed savetxt load loadtxt genfromtxt fromfile tofile put put_along_axis place putmask copyto "
    "fill_diagonal seterr seterrcall setbufsize set_printoptions printoptions errstate vectorize frompyfunc nditer shuffle at "
    "apply_along_axis apply_over_axes fromfunction piecewise fromiter memmap".split()
)
_MATHS = frozenset(f for f in (*vars(math).values(), *vars(operator).values()) if type(f) is types.BuiltinFunctionType) - {
    f for name, f in vars(operator).items() if name.startswith("i") and name not in ("index", "invert", "is_", "is_not")
} - {operator.setitem, operator.delitem, operator.call} - {getattr(math, "sumprod", None)}  # fmt: skip
_OWNERS = (str, bytes, int, float, complex, tuple, np.generic)
_ARRAYS = frozenset(
    "sum prod mean std var min max dot copy reshape ravel transpose astype conj conjugate any all cumsum cumprod flatten "
    "squeeze swapaxes trace diagonal clip round argmax argmin item tolist repeat take".split()
)


def unkept_call(f: Any) -> str:
    """Why a symbolic round may not call a function; "" where it may."""
    return "" if _is_pure(f) else f"a round calls {getattr(f, '__qualname__', None) or type(f).__name__}"


def _is_pure(f: Any) -> bool:
    kind = type(f)
    if f is Growing.append:
        return True
    if kind is types.FunctionType:
        return _is_numpys(f) or (not is_library(f.__code__.co_filename) and is_pure_code(f.__code__))
    if kind is types.MethodType:
        own = f.__func__
        if type(f.__self__) is Growing:
            return f.__name__ == "append"
        if isinstance(f.__self__, Tracer):
            return f.__name__ not in ("sort", "partition", "fill", "put", "resize", "setflags", "itemset")
        return type(own) is types.FunctionType and not is_library(own.__code__.co_filename) and is_pure_code(own.__code__)
    if kind is types.BuiltinFunctionType and f.__self__ is not None and not isinstance(f.__self__, types.ModuleType):
        return isinstance(f.__self__, _OWNERS) or (type(f.__self__) is np.ndarray and f.__name__ in _ARRAYS)
    try:
        return f in _BUILTINS or f in _MATHS or _is_numpys(f)
    except TypeError:
        return False


def _is_numpys(f: Any) -> bool:
    if isinstance(f, type):
        return issubclass(f, np.generic)
    module, name = getattr(f, "__module__", None) or "", getattr(f, "__name__", "")
    if isinstance(f, np.ufunc):
        return f.__name__ in vars(np)
    ours = module in ("numpy", "numpy.linalg", "numpy.fft", "numpy._core.multiarray", "numpy.core.multiarray")
    return ours and name not in _CHANGING and getattr(np, name, getattr(np.linalg, name, getattr(np.fft, name, None))) is f


@functools.lru_cache(maxsize=4096)
def assigns_items(code: types.CodeType) -> bool:
    """Whether a function's code, or that nested in it, assigns to items."""
    own = any(step.opname in ("STORE_SUBSCR", "STORE_SLICE") for step in dis.get_instructions(code))
    return own or any(assigns_items(c) for c in code.co_consts if isinstance(c, types.CodeType))


@functools.lru_cache(maxsize=4096)
def is_pure_code(code: types.CodeType) -> bool:
    """Whether a function's code, and that nested in it, sets nothing but its own names."""
    if code.co_flags & 0x2A0 or code.co_exceptiontable:  # generators and coroutines
        return False
    for step in dis.get_instructions(code):
        if step.opname in _WRITING or (step.opname == "STORE_DEREF" and step.argval in code.co_freevars):
            return False
        if step.opname == "BINARY_OP" and step.argrepr.endswith("="):
            continue  # in place: `operate` looks at what it changes
    return all(is_pure_code(c) for c in code.co_consts if isinstance(c, types.CodeType))
