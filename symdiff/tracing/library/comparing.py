"""NumPy's comparisons of whole arrays, and functions that round or count, on traced arrays, written with simpler functions.

Assumes an array with a traced cell among the arguments. Guarantees NumPy's truth values, as conditions that a branch may use;
a count is a floating number.
"""

from typing import Any

import numpy as np

from symdiff.tracing.values.kinds import ARRAY
from symdiff.tracing.values.operands import as_array
from symdiff.tracing.values.operations import narrow_traced, real_by_value, record
from symdiff.tracing.values.standing import Array, gives_new, stands_for
from symdiff.tracing.values.tracer import Tracer, traced_atom, traced_builder
from symdiff.vocabulary.libraries import user_line


@stands_for(np.isclose)
def isclose(a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Any:
    a, b = (v if isinstance(v, (int, float, complex)) else as_array(v) for v in (a, b))
    near = (np.abs(a - b) <= atol + rtol * np.abs(b)) & np.isfinite(b)
    found = near | (a == b)
    return found | (np.isnan(a) & np.isnan(b)) if equal_nan else found


@stands_for(np.allclose)
def allclose(a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Any:
    return np.all(isclose(a, b, rtol, atol, equal_nan))


@stands_for(np.array_equal)
def array_equal(a1: Array, a2: Array, equal_nan: bool = False) -> Any:
    if a1.shape != a2.shape:
        return False
    same = a1 == a2
    return np.all(same | (np.isnan(a1) & np.isnan(a2)) if equal_nan else same)


@stands_for(np.array_equiv)
def array_equiv(a1: Array, a2: Array) -> Any:
    return np.all(a1 == a2)


@stands_for(np.isin)
def isin(element: Array, test_elements: Array, assume_unique: bool = False, invert: bool = False, *, kind: Any = None) -> Any:
    found = np.any(element[..., None] == np.ravel(test_elements), axis=-1)
    return ~found if invert else found


@stands_for(np.astype, memory="itself")
def astype(x: Array, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    return x.astype(dtype, copy=copy)


# -- choices and parts of numbers


@stands_for(np.where)
def where(condition: Any, *arms: Any) -> Any:
    if not arms:
        return np.nonzero(condition)
    origin = user_line()
    condition, a, b = (as_array(v) if isinstance(v, (list, tuple)) else v for v in (condition, *arms))
    builder = traced_builder((condition, a, b))
    asked, *operands = (traced_atom(v, builder, origin) for v in (condition, a, b))
    operands = (asked, *narrow_traced(builder, tuple(operands), a, b))
    return Tracer(builder, record(builder, "select", operands, origin, (a, b)), ARRAY)


@gives_new(np.select)
def select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    result = default
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        result = np.where(condition, choice, result)
    return result


@stands_for(np.clip)
def clip(a: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None) -> Any:
    low, high = a_min if min is None else min, a_max if max is None else max
    a = a if low is None else np.maximum(a, low)
    return a if high is None else np.minimum(a, high)


@gives_new(np.round, np.around)
def around(a: Array, decimals: int = 0) -> Any:
    return np.rint(a) if decimals == 0 else np.rint(a * 10.0**decimals) / 10.0**decimals


def is_complex_object(x: Array) -> bool:
    """Whether the numbers are complex, also by their values."""
    real = real_by_value(x.builder, [x.atom]) if isinstance(x, Tracer) and x.dtype.kind == "c" else None
    return x.dtype.kind == "c" and not (real is not None and bool(real))


def _typed(value: Any) -> Any:
    """What stands for a value where dtypes are joined."""
    if not isinstance(value, Tracer):
        return value
    return value.asked(type)(0) if value.kind.python else value.own_dtype()


for _function, _stand in {
    np.fix: lambda x: np.trunc(x),
    np.signbit: lambda x: np.copysign(1.0, x) < 0,
    np.isposinf: lambda x: x == np.inf,
    np.isneginf: lambda x: x == -np.inf,
    np.isreal: lambda x: np.imag(x) == 0,
    np.iscomplex: lambda x: np.not_equal(np.imag(x), 0),
    np.tril_indices_from: lambda arr, k=0: np.tril_indices(arr.shape[-2], k, arr.shape[-1]),
    np.triu_indices_from: lambda arr, k=0: np.triu_indices(arr.shape[-2], k, arr.shape[-1]),
    np.diag_indices_from: lambda arr: np.diag_indices(arr.shape[0], arr.ndim),
    np.shape: lambda a: a.shape,
    np.ndim: lambda a: a.ndim,
    np.iscomplexobj: is_complex_object,
    np.isrealobj: lambda x: not is_complex_object(x),
    np.result_type: lambda *xs: np.result_type(*map(_typed, xs)),
    np.copy: lambda a, order="K", subok=False: a.copy(order),
}.items():
    _stand.__annotations__[_stand.__code__.co_varnames[0]] = Array
    stands_for(_function)(_stand)


@stands_for(np.real, memory="itself")
def real(val: Array) -> Any:
    return val.real


@stands_for(np.imag, memory="itself")
def imag(val: Array) -> Any:
    return val.imag


@stands_for(np.size)
def size(a: Array, axis: Any = None) -> Any:
    return np.size(np.empty(a.shape, np.int8), axis)
