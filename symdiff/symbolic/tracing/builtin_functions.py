"""What stands for Python's builtin functions in a trace: those that ask for a number, compare, or look at types.

Assumes arguments that may be traced; without traced ones Python's own functions are called. Guarantees that `any` and `all`
are one condition, and that `isinstance` and `type` answer for the number or array that a traced value stands for. Refuses
`id`, with `TraceError`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from symdiff.errors import TraceError
from symdiff.symbolic.tracing.integers import Integer, as_int
from symdiff.symbolic.tracing.mathematics import compound, real, traced
from symdiff.symbolic.tracing.ordering import largest, least, sorted_list
from symdiff.symbolic.tracing.selecting import Selected
from symdiff.symbolic.tracing.tracer import Tracer, user_line

Standing = Callable[..., Any]
_SPLIT = 2.0**27 + 1
_WHOLE = 2.0**52  # doubles from here on have no fraction


def _float(*args: Any) -> Any:
    return real(args[0], "float") if args and traced(args[0]) else float(*args)


def _complex(*args: Any, **kwargs: Any) -> Any:
    values = [*args, *kwargs.values()]
    if not traced(*values):
        return complex(*args, **kwargs)
    if kwargs:
        args = (kwargs.get("real", args[0] if args else 0.0), kwargs.get("imag", 0.0))
    first = compound(args[0], "complex")
    return first if len(args) == 1 else first + 1j * args[1]


def _round(number: Any, ndigits: Any = None) -> Any:
    return round(number) if ndigits is None else round(number, ndigits)


def _int(*args: Any, **kwargs: Any) -> Any:
    if not args or not traced(args[0]):
        return int(*args, **kwargs)
    return as_int(args[0] if isinstance(args[0], Integer) else real(args[0], "int"))


def _range(*args: Any) -> range:
    return range(*(a.decided() if isinstance(a, Integer) else a for a in args))


def _len(value: Any, /) -> Any:
    return value.count() if isinstance(value, Selected) else len(value)


def rounded(x: Any, digits: int) -> Any:
    """x rounded to decimal digits, halves by the number's own last bits as Python does: T. J. Dekker's exact product."""
    if not 0 < digits <= 22:
        scale = 10.0**-digits
        return np.rint(x / scale) * scale if digits <= 0 else x
    scale = 10.0**digits
    high = x * scale
    top, scale_top = _split(x), _split(scale)
    low = ((top * scale_top - high) + top * (scale - scale_top) + (x - top) * scale_top) + (x - top) * (scale - scale_top)
    half = (abs(high - np.trunc(high)) == 0.5) & (low != 0)
    whole = np.where(half, np.where(low > 0, np.ceil(high), np.floor(high)), np.rint(high))
    return np.where(abs(high) < _WHOLE, whole / scale, x)


def _split(x: Any) -> Any:
    """The upper half of a number's bits."""
    shifted = _SPLIT * x
    return shifted - (shifted - x)


def _joined(stop: bool, join: Standing) -> Standing:
    """`any` (stop at True) or `all` (stop at False); traced conditions are joined into one."""

    def standing(iterable: Any, /) -> Any:
        result: Any = None
        for value in iterable:
            if isinstance(value, Tracer) and value.shape == ():
                truth = value if value.dtype.kind == "b" else value != 0
                result = truth if result is None else join(result, truth)
            elif bool(value) is stop:
                return stop
        return (not stop) if result is None else result

    return standing


def _example(value: Tracer) -> Any:
    """A value of the kind that a traced one stands for."""
    if isinstance(value, Integer):
        return 0 if value.shape == () else np.empty((0,) * value.ndim, int)
    return value.dtype.type(0) if value.shape == () else np.empty((0,) * value.ndim, value.dtype)


def _isinstance(value: Any, classes: Any, /) -> bool:
    if not isinstance(value, Tracer) or isinstance(value, classes):
        return isinstance(value, classes)
    return isinstance(_example(value), classes)


def _type(*args: Any, **kwargs: Any) -> Any:
    if len(args) != 1 or not isinstance(args[0], Tracer):
        return type(*args, **kwargs)
    value = args[0]
    python = int if isinstance(value, Integer) else {"d": float, "D": complex, "?": bool}.get(value.dtype.char)
    return python if python is not None and value.shape == () else type(_example(value))


def _hasattr(value: Any, name: str, /) -> bool:
    return hasattr(_example(value) if isinstance(value, Tracer) else value, name)


def _id(value: Any, /) -> int:
    if isinstance(value, Tracer):
        raise TraceError(
            f"{user_line()}: id() of a traced value; which object it is does not depend on its number, so compare values"
        )
    return id(value)


BUILTINS: dict[tuple[str, str], Standing] = {
    ("builtins", "float"): _float,
    ("builtins", "complex"): _complex,
    ("builtins", "int"): _int,
    ("builtins", "range"): _range,
    ("builtins", "len"): _len,
    ("builtins", "round"): _round,
    ("builtins", "max"): largest,
    ("builtins", "min"): least,
    ("builtins", "sorted"): sorted_list,
    ("builtins", "any"): _joined(True, np.logical_or),
    ("builtins", "all"): _joined(False, np.logical_and),
    ("builtins", "isinstance"): _isinstance,
    ("builtins", "type"): _type,
    ("builtins", "hasattr"): _hasattr,
    ("builtins", "id"): _id,
    ("numpy", "isscalar"): lambda element: element.shape == () if isinstance(element, Tracer) else np.isscalar(element),
}
