"""What stands for Python's builtin functions in a trace: those that ask for a number, compare, or look at types.

Assumes arguments that may be traced; without traced ones Python's own functions are called. Guarantees that
`isinstance` and `type` answer for the number or array that a traced value stands for. Refuses `id`, and numbers that a trace
cannot hold (decimal ones, fractions, texts of numbers), with `TraceError`.
"""

import decimal
import fractions
import operator
import sys
from typing import Any

import numpy as np

from symdiff.errors import TraceError
from symdiff.tracing.library.mathematics import as_cmath_number, pythons, real, traced
from symdiff.tracing.library.ordering import largest, least, sorted_list
from symdiff.tracing.library.stopping import joined_truths
from symdiff.tracing.loops.collected import Collected
from symdiff.tracing.loops.growing import Growing, Unknown
from symdiff.tracing.loops.stores import Listed
from symdiff.tracing.state.late import Late
from symdiff.tracing.state.raising import may_catch
from symdiff.tracing.values.integers import Integer, as_int
from symdiff.tracing.values.operands import holds_traced
from symdiff.tracing.values.operators import check_modulus
from symdiff.tracing.values.selecting import Selected
from symdiff.tracing.values.standing import replaces
from symdiff.tracing.values.stretches import Stretch
from symdiff.tracing.values.tracer import Tracer, rounded_value
from symdiff.tracing.values.truths import traced_is
from symdiff.vocabulary.libraries import user_line
from symdiff.vocabulary.signatures import Function

_SPLIT = 2.0**27 + 1
_WHOLE = 2.0**52  # doubles from here on have no fraction


_MARK = "<traced "
_SAMPLES = (
    0, 0.0, 0j, False, np.float64(0), np.float32(0), np.complex128(0), np.complex64(0), np.bool_(0), np.int64(0), np.empty(0),
)  # fmt: skip
_matching: dict[Any, Any] = {}


def _without_traced(kind: Any) -> Function:
    """A type of numbers that a trace cannot hold."""

    @replaces(kind)
    def made(*args: Any, **kwargs: Any) -> Any:
        if any(holds_traced(a) or (isinstance(a, str) and _MARK in a) for a in args):
            raise TraceError(
                f"{user_line()}: {kind.__module__}.{kind.__name__} of a traced value; derivatives are computed with floating "
                "numbers, so leave it as it is"
            )
        return kind(*args, **kwargs)

    return made


for _kind in (decimal.Decimal, fractions.Fraction):
    _without_traced(_kind)


def check_number(name: str, value: Any) -> None:
    """Refuse the text that shows a traced value, which is no text of a number."""
    if isinstance(value, str) and _MARK in value:
        raise TraceError(f"{user_line()}: {name}() of a text that shows a traced value; use the value itself")


@replaces(float)
def _float(*args: Any) -> Any:
    check_number("float", args[0] if args else None)
    return real(args[0], "float") if args and traced(args[0]) else float(*args)


@replaces(complex)
def _complex(*args: Any, **kwargs: Any) -> Any:
    values = [*args, *kwargs.values()]
    if not traced(*values):
        return complex(*args, **kwargs)
    if kwargs:
        args = (kwargs.get("real", args[0] if args else 0.0), kwargs.get("imag", 0.0))
    first = as_cmath_number(args[0], "complex")
    return first if len(args) == 1 else first + 1j * pythons(args[1])


@replaces(round)
def _round(number: Any, ndigits: Any = None) -> Any:
    return round(number) if ndigits is None else round(number, ndigits)


@replaces(pow)
def _pow(base: Any, exp: Any, mod: Any = None) -> Any:
    if mod is not None and traced(base, exp, mod):
        check_modulus()
    return pow(base, exp) if mod is None else pow(base, exp, mod)


@replaces(int)
def _int(*args: Any, **kwargs: Any) -> Any:
    check_number("int", args[0] if args else None)
    if not args or not traced(args[0]):
        return int(*args, **kwargs)
    return as_int(args[0] if isinstance(args[0], Integer) else real(args[0], "int"))


@replaces(range)
def _range(*args: Any) -> range:
    return range(*(a.decided() if isinstance(a, Integer) else a for a in args))


@replaces(len)
def _len(value: Any, /) -> Any:
    if type(value) is Tracer and value.shape:
        return value.shape[0]  # which may be a number that remembers what it is compared with
    if type(value) is list and value and type(value[0]) is Unknown:
        return value[0].count()
    if type(value) is Collected:
        return value.length()
    return value.count() if type(value) in (Growing, Selected, Stretch) else len(value)


@rounded_value.written
def builtin_round(x: Any, digits: int) -> Any:
    """x rounded to decimal digits, halves by the number's own last bits as Python does: T. J. Dekker's exact product.

    Operands on the right of a plus are computed as they stand, so that no factor is taken out of them.
    """
    if digits > 22:
        raise TraceError(f"{user_line()}: round(x, {digits}) of a traced number; 22 digits or fewer are computed exactly")
    if digits <= 0:
        scale = 10.0**-digits
        return np.rint(x / scale) * scale
    scale = 10.0**digits
    high = x * scale
    top, scale_top = _split(x), _split(scale)
    rest, scale_rest = x - top, scale - scale_top
    low = rest * scale_rest + (rest * scale_top + (top * scale_rest + (top * scale_top - high)))
    half = (abs(high - np.trunc(high)) == 0.5) & (low != 0)
    whole = np.where(half, np.where(low > 0, np.ceil(high), np.floor(high)), np.rint(high))
    return np.where(abs(high) < _WHOLE, whole / scale, x)


def _split(x: Any) -> Any:
    """The upper half of a number's bits."""
    shifted = _SPLIT * x
    return shifted - (shifted - x)


@replaces(isinstance)
def is_instance(value: Any, classes: Any, /) -> bool:
    """`isinstance(value, classes)`."""
    if not isinstance(value, Tracer):
        return isinstance(value, classes)
    return bool(value.asked(lambda example: isinstance(example, classes)))


@replaces(type)
def kind_of(*args: Any, **kwargs: Any) -> Any:
    """`type(x)`."""
    if len(args) != 1 or not isinstance(args[0], Tracer):
        return args[0].__class__ if len(args) == 1 and type(args[0]) in (Late, Collected, Listed) else type(*args, **kwargs)
    return args[0].asked(type)


@replaces(hasattr)
def _hasattr(value: Any, name: str, /) -> bool:
    return bool(value.asked(lambda example: hasattr(example, name))) if isinstance(value, Tracer) else hasattr(value, name)


@replaces(getattr)
def _getattr(value: Any, name: str, /, *default: Any) -> Any:
    if isinstance(value, Tracer):
        return attribute_of(value, name) if not default or _hasattr(value, name) else default[0]
    return getattr(value, name, *default)


def attribute_of(value: Tracer, name: str) -> Any:
    """`value.name` of a traced value. What its kind has not is an `AttributeError` where the user's code may catch it;
    elsewhere Python's numbers have what NumPy's have.
    """
    if name == "__class__":
        return kind_of(value)
    if not value.ndim and may_catch() and not _hasattr(value, name):
        raise AttributeError(f"{user_line()}: {value.named()!r} object has no attribute {name!r}")
    return value.own_dtype() if name == "dtype" else getattr(value, name)


@replaces(dir)
def _dir(*args: Any) -> list[str]:
    if not args:
        return sorted(sys._getframe(1).f_locals)
    return args[0].asked(dir) if isinstance(args[0], Tracer) else dir(*args)


@replaces(np.isscalar)
def _is_scalar(element: Any) -> bool:
    return bool(element.asked(np.isscalar)) if isinstance(element, Tracer) else np.isscalar(element)


@replaces(id)
def _id(value: Any, /) -> int:
    if isinstance(value, Tracer):
        raise TraceError(
            f"{user_line()}: id() of a traced value; which object it is does not depend on its number, so compare values"
        )
    return id(value)


def pattern(cls: Any) -> Any:
    """What stands for a class, or for True and False, in a `match` statement of a clone; itself where no number is of it."""
    if not isinstance(cls, (bool, type)) or (type(cls) is not bool and not any(isinstance(v, cls) for v in _SAMPLES)):
        return cls
    key = (type(cls), cls)
    if key not in _matching:
        _matching[key] = _stand_in(cls)
    return _matching[key]


def _stand_in(cls: Any) -> Any:
    def matches(_: Any, subject: Any) -> bool:
        return bool(traced_is(subject, cls)) if type(cls) is bool else is_instance(subject, cls)

    base = int if cls is bool else cls if cls in (int, float) else object  # `case float(x)` names the subject itself
    return type("Matching", (type,), {"__instancecheck__": matches})(getattr(cls, "__name__", str(cls)), (base,), {})


def is_other(a: Any, b: Any) -> Any:
    """`a is not b`."""
    return np.logical_not(traced_is(a, b))


for _function, _stand in {
    max: largest, min: least, sorted: sorted_list, any: joined_truths(True, np.logical_or),
    all: joined_truths(False, np.logical_and),
    operator.is_: traced_is, operator.is_not: is_other,
}.items():  # fmt: skip
    replaces(_function)(_stand)
