"""Plain numbers and arrays: what counts as one, which compiled code takes as they are, and how others are brought into form.

A plain array is an `np.ndarray` itself, one in a file (`np.memmap`), or of a class that changes none of its operations.
Compiled code takes it as it is where it is contiguous, aligned and of exactly NumPy's dtype in this machine's byte order; all
others are copied. Arrays for results are written as they are or from a copy, which their callers decide by the same flags.

Refuses, with `TraceError`, objects of other classes, whose operations may mean something else; with `ShapeError`, results in
memory that cannot hold them.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from symdiff.errors import ShapeError, TraceError

CONTIGUOUS, ALIGNED, WRITEABLE = 0x1, 0x100, 0x400  # of the flags of NumPy's array objects
READABLE = CONTIGUOUS | ALIGNED
WRITTEN = READABLE | WRITEABLE
EXACT = 2**53  # whole doubles below are all the integers that there are
_LARGEST = 2**1023
_ARRAYS = (np.ndarray, np.memmap)
_NUMBERS = (float, int, complex, bool, str, bytes, type(None))
_BASES = (np.ndarray, float, complex, int)
_COMPARING = frozenset(f"__{name}__" for name in "eq ne lt le gt ge class getattribute".split())
_HARMLESS = frozenset({*dir(object), "__getnewargs__", "__module__", "__dict__", "__slots__"} - _COMPARING)
_PROTOCOLS = ("__array__", "__array_ufunc__", "__array_function__", "__array_interface__")
_WAYS = {
    "filled": "x.filled()", "to_value": "x.to_value(unit)", "magnitude": "x.magnitude", "to_numpy": "x.to_numpy()",
    "detach": "x.detach().numpy()",
}  # fmt: skip


def foreign(value: Any) -> str:
    """What is wrong with a value that NumPy takes for a number or an array and that is no plain one; "" for all others."""
    kind = type(value)
    if kind in _ARRAYS or kind in _NUMBERS or kind.__module__.partition(".")[0] == "symdiff":
        return ""
    if kind.__module__ == "numpy" and isinstance(value, np.generic):
        return ""
    if isinstance(value, _BASES):
        if not _changes(kind):
            return ""
    elif isinstance(value, (list, tuple, dict, type)) or not any(hasattr(kind, name) for name in _PROTOCOLS):
        return ""
    way = next((text for name, text in _WAYS.items() if hasattr(kind, name)), "np.asarray(x)")
    return f"{kind.__name__} is no plain NumPy array, and its operations may mean something else; take {way}"


def own_class(value: Any) -> type | None:
    """The class of a number or an array of a class that is neither Python's, nor NumPy's, nor ours; None for others."""
    kind = type(value)
    plain = kind in _NUMBERS or kind.__module__.partition(".")[0] in ("numpy", "symdiff")
    return kind if isinstance(value, _BASES) and not plain else None


def _changes(kind: type) -> bool:
    """Whether a class of numbers or arrays defines an operation anew that its plain base has."""
    base = next(b for b in kind.__mro__ if b in _BASES or (b.__module__ == "numpy" and issubclass(b, np.generic)))
    own = [name for cls in kind.__mro__[: kind.__mro__.index(base)] for name in vars(cls) if name not in _HARMLESS]
    return any(name.startswith("__array") or hasattr(base, name) for name in own)


def check_plain(where: str, *values: Any) -> None:
    """Raise `TraceError` for a value of another class than plain numbers and arrays are of."""
    for value in values:
        wrong = foreign(value)
        if wrong:
            raise TraceError(f"{where}: {wrong}")


def loses_digits(value: Any) -> bool:
    """Whether a value is an integer, or an array of them, that no double holds."""
    if isinstance(value, (int, np.integer)):
        return not -EXACT <= value <= EXACT and not (abs(int(value)) < _LARGEST and int(float(value)) == value)
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "iu" or value.dtype.itemsize < 8 or not value.size:
        return False
    return not (value.min() >= -EXACT and value.max() <= EXACT) and any(map(loses_digits, value.ravel().tolist()))


def check_digits(where: str, *values: Any) -> None:
    """Raise `TraceError` for integers that would be other ones as floating-point numbers."""
    for value in values:
        if loses_digits(value):
            raise TraceError(
                f"{where}: an integer beyond 2**53 that no floating-point number holds is taken as one; give float(n) or "
                "n.astype(float) where its last digits do not matter, or compute with it outside"
            )


def packed(value: Any) -> Any:
    """An array whose cells lie apart as one whose cells lie together, one without axes as its number, as doors take them."""
    if type(value) is not np.ndarray or (value.ndim and value.flags.c_contiguous):
        return value
    return np.ascontiguousarray(value) if value.ndim else value[()]


def as_plain_array(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """An array as compiled code takes it: itself, or a copy."""
    if type(array) is np.ndarray and array.dtype is dtype and array.flags.num & READABLE == READABLE:
        return array
    made = np.empty(array.shape, dtype)
    made[...] = array
    return made


def is_plain_target(array: np.ndarray) -> bool:
    """Whether compiled code can write into an array of the right dtype and shape."""
    return array.flags.num & WRITTEN == WRITTEN


def check_targets(name: str, targets: Sequence[Any], wanted: Sequence[tuple[str, tuple[int, ...], Any]]) -> None:
    """Raise `ShapeError` where arrays for results are not writeable plain ones of their (name, shape, dtype), each with memory
    of its own for every number.
    """
    for target, (output, shape, dtype) in zip(targets, wanted, strict=True):
        if not isinstance(target, np.ndarray):
            raise ShapeError(f"{name}: out for {output} is {type(target).__name__}; a NumPy array is needed")
        if foreign(target):
            raise ShapeError(f"{name}: out for {output}: {foreign(target)}")
        if target.shape != shape:
            raise ShapeError(f"{name}: out for {output} has shape {target.shape}, {shape} expected")
        if target.dtype != np.dtype(dtype):
            raise ShapeError(f"{name}: out for {output} has dtype {target.dtype}, {np.dtype(dtype)} expected")
        if not target.flags.writeable:
            raise ShapeError(f"{name}: out for {output} is not writeable")
        if _repeats(target):
            raise ShapeError(f"{name}: out for {output} has the same memory for several numbers")
    for k, target in enumerate(targets):
        for j in range(k):
            if np.shares_memory(target, targets[j]):
                raise ShapeError(f"{name}: out for {wanted[j][0]} and out for {wanted[k][0]} share memory")


def _repeats(array: np.ndarray) -> bool:
    """Whether cells of an array may lie in one another's memory; those of one in C order, in any order of its axes, do not."""
    reach = array.itemsize
    for stride, size in sorted(zip(map(abs, array.strides), array.shape, strict=True)):
        if size > 1 and stride < reach:
            return array.size > 0
        reach += stride * (size - 1)
    return False
