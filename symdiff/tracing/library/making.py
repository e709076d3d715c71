"""What stands for NumPy's makers of arrays, and for what SciPy writes in Python, in a trace.

Assumes arguments that may be traced. Guarantees that arrays of traced numbers are traced arrays, and, in a thorough run,
that every floating or complex array NumPy makes can take traced values. Refuses, with `TraceError`, arguments that must be
static.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from symdiff.errors import TraceError
from symdiff.ir.arrays.reducing import REDUCING
from symdiff.ir.building import active_builders
from symdiff.rulebooks.book import default_rules
from symdiff.tracing.library.functions import on_arrays, trace_rule_call
from symdiff.tracing.library.polynomials import fit
from symdiff.tracing.library.searching import take
from symdiff.tracing.values.assigning import array_dtype, copied, filled
from symdiff.tracing.values.integers import Integer, is_integer_value
from symdiff.tracing.values.kinds import ARRAY, NUMPY
from symdiff.tracing.values.operands import as_array, as_atom, holds_traced
from symdiff.tracing.values.storage import View, numbers
from symdiff.tracing.values.tracer import Tracer, is_traced, traced_builder
from symdiff.vocabulary.libraries import user_line

Standing = Callable[..., Any]


def fresh_numpy_array(result: Any, args: tuple[Any, ...]) -> Any:
    """A new array that NumPy made as one that can take traced values; a view of an argument stays as it is."""
    if type(result) is not np.ndarray or result.dtype.char not in "fdFDO" or not active_builders():
        return result
    if any(type(a) is np.ndarray and np.may_share_memory(a, result) for a in args):
        return result
    return filled(active_builders()[-1], result)


def _array(native: Standing) -> Standing:
    def standing(values: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
        if not holds_traced(values):
            return native(values, dtype, *args, **kwargs)
        if isinstance(values, np.ndarray):
            return native(values, dtype, *args, **kwargs)
        if isinstance(values, Tracer):
            return _as_array(native, values, dtype, args, kwargs)
        cells = _cells(values)
        result = _stacked(values) if cells is None else filled(traced_builder(cells.flat), cells)
        if dtype is None and cells is not None and all(map(is_integer_value, cells.flat)):
            return Integer.of(result)
        if dtype is not None and np.dtype(dtype) != result.dtype and np.dtype(dtype) != object:
            result = result.astype(dtype)
        while result.ndim < kwargs.get("ndmin", 0):
            result = result[None]
        return result

    return standing


def _as_array(native: Standing, x: Tracer, dtype: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A traced value as NumPy's maker gives it: itself, another view or a copy, as NumPy answers for its memory."""
    place = x._place()
    asked = native(place, None, *args, **kwargs)
    x = x.astype(dtype) if dtype is not None and np.dtype(dtype) not in (x.dtype, object) else x
    if asked.shape != x.shape:
        x = x[(None,) * (asked.ndim - x.ndim)]
    if not x.has_memory():
        return x.of_kind(ARRAY)
    return x if np.may_share_memory(asked, place) else copied(x, asked)


def _require(a: Any, dtype: Any = None, requirements: Any = None, **kwargs: Any) -> Any:
    if not isinstance(a, Tracer):
        return np.require(a, dtype, requirements, **kwargs)
    return _as_array(lambda x, dtype, *args: np.require(x, dtype, requirements, **kwargs), a, dtype, (), {})


def _getdata(a: Any, subok: bool = True) -> Any:
    return a if isinstance(a, Tracer) else np.ma.getdata(a, subok)


def _as_strided(x: Any, shape: Any = None, strides: Any = None, subok: bool = False, writeable: bool = True) -> Any:
    if not isinstance(x, Tracer):
        return np.lib.stride_tricks.as_strided(x, shape, strides, subok, writeable)
    view, origin = x.shared(), user_line()
    steps = None if strides is None else tuple(int(n) for n in strides)
    if steps is not None and any(n % x.itemsize for n in steps):
        raise TraceError(f"{origin}: as_strided: strides {steps} that are no multiples of {x.itemsize} bytes")
    steps = None if steps is None else tuple(n // x.itemsize for n in steps)
    found = np.lib.stride_tricks.as_strided(view.place, shape, steps, subok, writeable)
    chosen = numbers(found, view.storage.memory)
    if chosen.size and not (chosen.min() >= 0 and chosen.max() < view.storage.memory.size):
        raise TraceError(f"{origin}: as_strided: the view reaches beyond the array")
    return x.like(View(view.storage, found))


def _unfit(name: str, instead: str) -> Standing:
    """A function of NumPy's that knows plain arrays only."""
    native = getattr(np, name)

    def standing(*args: Any, **kwargs: Any) -> Any:
        if any(map(holds_traced, (*args, *kwargs.values()))):
            raise TraceError(f"{user_line()}: np.{name} of a traced value; {instead}")
        return native(*args, **kwargs)

    return standing


def _cells(values: Any) -> np.ndarray | None:
    """Nested lists of numbers as an array of them; None where they hold arrays."""
    if any(isinstance(v, (Tracer, np.ndarray)) and v.shape != () for v in values):
        return None
    cells = np.array(values, dtype=object)
    return None if any(isinstance(c, (Tracer, np.ndarray)) and c.shape != () for c in cells.flat) else cells


def _stacked(values: Any) -> Any:
    builder = active_builders()[-1]
    return Tracer(builder, as_atom(list(values), builder, user_line())).copy()  # type: ignore[arg-type]


_FITS = {
    "polynomial": "poly",
    "chebyshev": "cheb",
    "legendre": "leg",
    "hermite": "herm",
    "hermite_e": "herme",
    "laguerre": "lag",
}


def _fit(module: str, short: str) -> Standing:
    """A fit of `numpy.polynomial` by the matrix of its basis."""
    functions = getattr(np.polynomial, module)
    native, traced = getattr(functions, f"{short}fit"), fit(getattr(functions, f"{short}vander"))
    return lambda *args, **kwargs: (traced if any(map(holds_traced, (*args, *kwargs.values()))) else native)(*args, **kwargs)


def _fromiter(native: Standing) -> Standing:
    def standing(iter: Any, dtype: Any, count: int = -1, **kwargs: Any) -> Any:
        values = list(iter)
        if not any(map(holds_traced, values)):
            return native(values, dtype, count, **kwargs)
        found = _array(np.array)(values if count < 0 else values[:count])
        return found if found.dtype == np.dtype(dtype) else found.astype(dtype)

    return standing


def _piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kwargs: Any) -> Any:
    if not any(map(holds_traced, (x, condlist, funclist))):
        return np.piecewise(x, condlist, funclist, *args, **kwargs)
    conditions = list(condlist) if isinstance(condlist, (list, tuple)) or np.ndim(condlist) > 1 else [condlist]
    if any(np.shape(c) not in ((), np.shape(x)) for c in conditions):
        raise TraceError(f"{user_line()}: np.piecewise with conditions of other shapes than the array's; use np.select")
    values = [f(x, *args, **kwargs) if callable(f) and not is_traced(f) else f for f in funclist]
    found = np.select(list(conditions), values[: len(conditions)], values[-1] if len(values) > len(conditions) else 0.0)
    dtype = array_dtype(x)
    return found if found.dtype == dtype and not isinstance(found, Integer) else found.astype(dtype)


def _take(a: Any, indices: Any, *args: Any, **kwargs: Any) -> Any:
    """NumPy asks the array only, not the places, whether it is traced."""
    if is_traced(a) or not holds_traced(indices):
        return np.take(a, indices, *args, **kwargs)
    return take(user_line(), a, indices, *args, **kwargs)


def _of_scipy(name: str, count: int | None) -> Standing:
    """A Python function of SciPy's: by its rule on traced values, else as it stands."""

    def standing(*args: Any, **kwargs: Any) -> Any:
        from scipy import special  # type: ignore[import-untyped]

        if not any(map(holds_traced, args)):
            return getattr(special, name)(*args, **kwargs)
        if count is None:
            return on_arrays(REDUCING[name], args, kwargs, user_line(), name)
        rule = default_rules().lookup("symdiff.special", name, len(args))
        if rule is None or kwargs:
            raise TraceError(f"{user_line()}: special.{name} of a traced value takes {count} arguments")
        return trace_rule_call(rule, args, user_line())

    return standing


def _number_type(kind: Any) -> Standing:
    def standing(*args: Any) -> Any:
        if not args or not isinstance(args[0], Tracer):
            return kind(*args)
        found = args[0].astype(kind)
        return found if found.shape or not isinstance(found, Tracer) else found.of_kind(NUMPY)

    return standing


def _decided(native: Standing) -> Standing:
    """A maker of arrays whose shape must be known."""

    def known(value: Any) -> Any:
        return (
            tuple(map(known, value)) if isinstance(value, tuple) else value.decided() if isinstance(value, Integer) else value
        )

    return lambda *args, **kwargs: native(*map(known, args), **{k: known(v) for k, v in kwargs.items()})


def _full(shape: Any, fill_value: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
    """An array of traced numbers in memory of its own, as all other arrays of them are."""
    if not holds_traced(fill_value):
        return np.full(shape, fill_value, dtype, *args, **kwargs)
    value = as_array(fill_value)
    made = np.full(shape, 0, value.dtype if dtype is None or np.dtype(dtype) == object else dtype, *args, **kwargs)
    if made.dtype.kind not in "fc":
        return copied(np.broadcast_to(value.astype(made.dtype), made.shape), made)
    found = filled(value.builder, made)
    found[...] = value
    return found


MAKING: dict[tuple[str, str], Standing] = {
    ("numpy", "array"): _array(np.array),
    ("numpy", "require"): _require,
    ("numpy.ma.core", "getdata"): _getdata,
    **{("numpy", n): _unfit(n, "loop over its rows, over x.flat or np.ndindex(x.shape)") for n in ("nditer", "nested_iters")},
    **{("numpy", n): _unfit(n, "write it with arrays: np.block, a @ b") for n in ("bmat", "asmatrix", "matrix")},
    **{("numpy", n): _unfit(n, "a trace has no bytes; x itself does") for n in ("frombuffer", "from_dlpack", "fromstring")},
    ("numpy.lib.stride_tricks", "as_strided"): _as_strided,
    **{("numpy", n): _array(getattr(np, n)) for n in ("asarray", "asanyarray", "ascontiguousarray", "asfortranarray")},
    ("numpy", "asarray_chkfinite"): _array(np.asarray_chkfinite),
    ("numpy", "piecewise"): _piecewise,
    ("numpy", "fromiter"): _fromiter(np.fromiter),
    **{(f"numpy.polynomial.{module}", f"{short}fit"): _fit(module, short) for module, short in _FITS.items()},
    **{("numpy", k.__name__): _number_type(k) for k in (np.float64, np.float32, np.complex128, np.complex64)},
    **{("numpy", k.__name__): _number_type(k) for k in (np.int64, np.int32, np.intp)},
    ("numpy", "take"): _take,
    **{("numpy", name): _decided(getattr(np, name)) for name in "arange zeros ones empty eye identity linspace".split()},
    ("numpy", "full"): _decided(_full),
    ("scipy.special._basic", "polygamma"): _of_scipy("polygamma", 2),
    ("scipy.special._basic", "zeta"): _of_scipy("zeta", 2),
    **{("scipy.special._logsumexp", n): _of_scipy(n, None) for n in ("logsumexp", "softmax", "log_softmax")},
}
