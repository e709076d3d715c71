"""Traced integers: `int(x)`, `math.floor(x)`, `np.argmax(x)`, `x.astype(int)`, and what is computed of them by whole numbers.

Assumes values that Python or NumPy holds as integers; here they are whole doubles. Guarantees that one which must be known, as
the end of a range, becomes a condition: all its values where few are possible, else the one at the given arguments.
Refuses, with `TraceError`, integers that must be known and are not.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from symdiff.errors import TraceError
from symdiff.ir.building import Builder
from symdiff.ir.node import Atom
from symdiff.simplification.intervals import UNKNOWN, Fact
from symdiff.tracing.branches.paths import LIMIT
from symdiff.tracing.state.attempt import current, note_stuck
from symdiff.tracing.values.kinds import PYTHON, Kind, asked
from symdiff.tracing.values.operations import kind_after
from symdiff.tracing.values.tracer import Tracer, check_wide, integer_of, is_in_rounds, raises_behind, truncation, whole_number
from symdiff.vocabulary.heads import HEADS
from symdiff.vocabulary.libraries import user_line
from symdiff.vocabulary.ops import OPS
from symdiff.vocabulary.plain import EXACT, loses_digits
from symdiff.vocabulary.traits import operations

_CLOSED = operations("whole")
_UFUNCS = frozenset(getattr(np, OPS[op].numpy).__name__ for op in _CLOSED)
_LARGEST = 2.0**63
_WRAPS = "which wraps round in NumPy"
_INEXACT = "traced integers are computed as doubles, exact below 2**53; keep it smaller, or compute it outside"
_POLYNOMIAL = operations("polynomial") - {"div", "neg"}
_MOVING = frozenset().union(*map(operations, ("picks", "rearranges", "gathers", "overwrites", "tells_places")))
_DIVIDING = frozenset({"floordiv", "mod", "floor_divide", "remainder", "fmod"})
_SIGNED = frozenset(
    """mul floordiv mod multiply floor_divide remainder negative prod cumprod dot vdot inner outer matmul tensordot einsum kron
        convolve correlate cross vecdot matvec vecmat""".split()
)  # which may give a minus zero, as no integer is


class Integer(Tracer):
    """A traced integer, or an array of them, held as doubles."""

    __slots__ = ()
    whole = True

    @classmethod
    def of(cls, value: Any) -> Any:
        """A traced value of whole numbers as an integer; other values as they are."""
        if not isinstance(value, Tracer) or isinstance(value, cls):
            return value
        if value.held is not None:
            return cls.showing(value.builder, value.held, value.dtype)
        return cls(value.builder, value.atom, value.kind) if value.atom.op != "const" else value

    def _number(self, found: Any) -> Any:
        return self.own_dtype().type(found.value) if found.shape == () else found.value.astype(self.own_dtype())

    def _binary(self, op: str, left: Any, right: Any) -> Any:
        found = super()._binary(op, left, right)
        if not (is_integer_value(left) and is_integer_value(right)) or found is NotImplemented:
            return found
        _check_exact(left, right)
        for one, other in ((left, right), (right, left)) if op == "add" else ():
            if isinstance(other, Integer) and other.atom.op == "sub" and getattr(one, "atom", None) is other.atom.operands[1]:
                return Integer(found.builder, other.atom.operands[0], found.kind)  # whole numbers are exact
        if op == "pow":
            return self._power(left, right, found)
        if op == "div" or op in _DIVIDING:
            _check_divisor(kind_after(op, left, right), right, found)
        if op not in _CLOSED:
            return found
        found = by_zero(op, kind_after(op, left, right), right, Integer.of(found))
        if op in _SIGNED and not (type(right) is int and right > 0) and not (type(left) is int and left > 0 and op == "mul"):
            found = _without_sign(found)
        return _exact(Integer.of(found), op)

    def _power(self, left: Any, right: Any, found: Any) -> Any:
        """A power is an integer where its exponent is not negative, of NumPy's always."""
        if isinstance(right, (int, np.integer)) and right >= 0:
            return _exact(Integer.of(found), "pow")
        kind = kind_after("pow", left, right)
        check_traced_power(kind, right)
        asked(kind)
        if kind.python and (not isinstance(right, Tracer) or bool(right < 0)):
            return found
        return _exact(Integer.of(found._unary("rint").of_kind(found.kind)), "pow")

    def _unary(self, op: str) -> Any:
        found = super()._unary(op)
        if op == "neg":
            found = _without_sign(found)
        return _exact(Integer.of(found), op) if op in _CLOSED else found

    def _in_place(self, op: str, other: Any) -> Any:
        if self.shape and not is_integer_value(other):
            raise TraceError(f"{user_line()}: a value of another kind in an array of traced integers; use x.astype(float)")
        return super()._in_place(op, other)

    def __int__(self) -> int:
        return self.__index__()

    def __index__(self) -> int:
        attempt = current()
        if attempt is not None and not attempt.thorough:
            note_stuck()
            raise self._refuse("an integer", "which only a thorough run can follow")
        return self.decided()

    def __hash__(self) -> int:
        return hash(self.__index__())

    def __float__(self) -> float:
        return float(self.__index__())

    def __floor__(self) -> Any:
        return self.of_kind(PYTHON)

    __ceil__ = __trunc__ = __floor__

    def __round__(self, digits: int | None = None) -> Any:
        return self.of_kind(PYTHON) if digits is None else super().__round__(digits)

    @property
    def denominator(self) -> int:
        """As of a fraction."""
        return 1

    def is_integer(self) -> bool:
        """Whether it is a whole number."""
        return True

    def astype(self, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True) -> Any:
        """The same numbers, as integers or as floating ones."""
        if np.dtype(dtype).kind not in "iu":
            found = Tracer(self.builder, self.atom, self.kind).astype(dtype, order, casting, subok, copy)
            return self._ordered(found, order)
        own, dtype = self.own_dtype(), np.dtype(dtype)
        if own == dtype:
            return self if not copy and self._lies_in(order) else self._ordered(self.copy(), order)
        if not np.can_cast(own, dtype):
            check_wide(dtype)
        return self._ordered(integers_of(Tracer.astype(self, float) + 0.0, dtype, "").of_kind(self.kind), order)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        note_stuck()  # an index of an array made elsewhere, whose items a thorough run sees
        return super().__array__(dtype, copy)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        found = super().__array_ufunc__(ufunc, method, *inputs, **kwargs)
        name, made = ufunc.__name__, _growing(ufunc.__name__, found)
        if not (method == "__call__" and all(map(is_integer_value, inputs))):
            return _exact(found, made)
        if ufunc is np.divmod:
            return np.floor_divide(*inputs), np.remainder(*inputs)
        if name in _UFUNCS:
            found = Integer.of(_without_sign(found) if name in _SIGNED else found)
        return _exact(found, made)

    def decided(self) -> int:
        """The integer itself: a condition tells which it is."""
        if self.shape != ():
            raise TypeError(f"{user_line()}: only a single integer can be an index or an end, not an array of them")
        path = self.builder.path
        if path is None:
            raise self._refuse("an integer that must be known", "pass the argument as an int, which is static")
        if path.is_given:
            found = int(path.value(self.atom))
            bool(self == found)
            return found
        known = path.fact(self.atom)
        if known.high - known.low >= LIMIT:
            raise path.unmergeable(
                f"{user_line()}: an integer that must be known here, as the end of a range or an item of a list"
            )
        low, high = math.ceil(known.low), math.floor(known.high)
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self <= middle else (middle + 1, high)
        if known.nan and self != low:
            raise ValueError("cannot convert float NaN to integer")
        return low


def _check_divisor(kind: Kind, divisor: Any, found: Any) -> None:
    """Raise what Python raises where it divides an integer by a traced one that is 0."""
    if kind.python and not found.shape and isinstance(divisor, Integer):
        known = traced_range(divisor)
        if known.low <= 0 <= known.high and divisor == 0:
            raise ZeroDivisionError("integer division or modulo by zero")


def by_zero(op: str, kind: Kind, divisor: Any, found: Any) -> Any:
    """A quotient or remainder of NumPy's integers: 0 where they are divided by 0."""
    if op not in _DIVIDING or (kind.python and not found.shape) or not isinstance(found, Integer):
        return found
    known = traced_range(divisor) if isinstance(divisor, Tracer) else None
    if known is not None and (known.low > 0 or known.high < 0):
        return found
    zero = np.equal(divisor, 0)
    return Integer.of(np.where(zero, 0.0, found).of_kind(found.kind)) if known is not None or np.any(zero) else found


def _check_exact(*operands: Any) -> None:
    for value in operands:
        if loses_digits(value):
            raise TraceError(f"{user_line()}: an integer beyond 2**53 beside a traced one; {_INEXACT}")


def _without_sign(found: Any) -> Any:
    """Computed integers without the minus zero that no integer is."""
    plain = found + 0.0
    if isinstance(plain, Tracer) and (dtype := found.integers_held()) is not None:
        plain.note_integers(dtype)
    return plain


def integers_of(value: Any, dtype: Any, name: str) -> Any:
    """A result of a function as the integers that NumPy has; counts of truths, by no name, are exact."""
    made = _growing(name, value)
    found = Integer.of(_without_sign(value) if name in _SIGNED else value)
    if isinstance(found, Integer):
        found.note_integers(dtype)
    return _exact(found, made)


def _exact(found: Any, op: str) -> Any:
    """An integer that is computed exactly; at a point where it is too large, the call raises. What no `op` made is as large
    as before, or counts truths."""
    if not isinstance(found, Integer) or (found.builder.path is None and (op in ("add", "sub") or current() is None)):
        return found  # a sum of truths: where numbers became integers, there is a path; or written out behind a trace
    known, dtype = traced_range(found), found.own_dtype()
    if dtype.itemsize < 8 or dtype.kind == "u":
        low, high = max(np.iinfo(dtype).min, -EXACT), min(np.iinfo(dtype).max, EXACT)
        wrapped = OverflowError(f"{user_line()}: an integer beyond {dtype}, {_WRAPS}; give n.astype(int)")
        if known.high > high:
            raises_behind(Tracer._binary(found, "gt", found, high), wrapped)
        if known.low < low:
            raises_behind(Tracer._binary(found, "lt", found, low), wrapped)
    elif op and (op in _POLYNOMIAL or op not in OPS) and max(-known.low, known.high) > EXACT:
        large = Tracer._binary(found, "ge", Tracer._unary(found, "abs"), EXACT)
        raises_behind(large, OverflowError(f"{user_line()}: an integer of 2**53 or more; {_INEXACT}"))
    return found


def is_inexact(error: BaseException) -> bool:
    """Whether an exception says that an integer is larger than what doubles or its dtype hold, which is ours, not Python's."""
    return isinstance(error, OverflowError) and (_INEXACT in str(error) or _WRAPS in str(error))


def _growing(name: str, found: Any) -> str:
    """A function's name where integers that it gives may be larger than those that it is given, what moves cells looked
    through; else ""."""
    pending = [found.atom] if isinstance(found, Tracer) and name else []
    seen = set(pending)
    while pending:
        made = pending.pop()
        if made.op in _POLYNOMIAL or (made.op in HEADS and made.op not in _MOVING):
            return name
        more = [o for o in (() if made.op in OPS else made.operands) if o not in seen]
        seen.update(more)
        pending += more
    return ""


def check_traced_power(kind: Kind, exponent: Any) -> None:
    """Raise what NumPy raises for a negative power of integers, of which Python makes a floating number."""
    asked(kind)
    if not kind.python and np.any(np.less(exponent, 0)):
        raise ValueError(f"{user_line()}: Integers to negative integer powers are not allowed.")


def dtype_of_integer(value: Any) -> Any:
    """The dtype that NumPy has for an integer, or an array of them, traced or not; that of its own for Python's."""
    return value.own_dtype() if isinstance(value, Integer) else np.dtype(int) if isinstance(value, int) else value.dtype


def integers_among(found: Any, values: Sequence[Any]) -> Any:
    """What is one of several values, as an integer where all are; None where these have different dtypes for NumPy."""
    if not all(map(is_integer_value, values)) or found.dtype.kind == "b":
        return found
    dtypes = {dtype_of_integer(v) for v in values}
    return integers_of(found, dtypes.pop(), "") if len(dtypes) == 1 else None


def is_integer_value(value: Any) -> bool:
    """Whether a value, or every cell of it, is an integer, traced or not."""
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "iu"
    return isinstance(value, (Integer, int, np.integer))


@truncation.written
def truncated(x: Tracer) -> Any:
    """`x.astype(int)`: what an integer cannot hold, NaN and infinities too, becomes the least one."""
    if isinstance(x, Integer):
        return x
    if x.dtype.kind == "b":
        return Integer.of(x.astype(float))
    whole = x._unary("trunc")
    known = traced_range(x)
    if known.nan or max(-known.low, known.high) >= _LARGEST:
        whole = np.where(abs(x) < _LARGEST, whole, -_LARGEST)
    return Integer.of(_in_double(whole) + 0.0)


def _in_double(x: Any) -> Any:
    """A number of single precision as one of double, in which integers are computed."""
    return x.astype(float).of_kind(x.kind) if x.dtype.char == "f" else x


@integer_of.written
def as_int(x: Tracer) -> Any:
    """`int(x)`; NaN and infinities raise as they do in Python."""
    if isinstance(x, Integer):
        return x.of_kind(PYTHON)
    if x.dtype.kind == "b":
        return Integer.of(x.astype(float).of_kind(PYTHON))
    known = traced_range(x)
    errors = ValueError("cannot convert float NaN to integer"), OverflowError("cannot convert float infinity to integer")
    bounded = math.isfinite(known.low) and math.isfinite(known.high)
    if not known.is_finite and is_in_rounds():
        raises_behind(np.isnan(x), errors[0])
        raises_behind(np.isinf(x), errors[1])
    elif not known.is_finite and not np.isfinite(x):
        raise errors[not (bounded or np.isnan(x))]
    return Integer.of((_in_double(x._unary("trunc")) + 0.0).of_kind(PYTHON))


def traced_range(x: Tracer) -> Fact:
    """What is known of a traced value's range."""
    return UNKNOWN if x.builder.path is None else x.builder.path.fact(x.atom)


@whole_number.written
def integer_without_sign(x: Any) -> Any:
    """A traced value of whole numbers as an integer, which has no minus zero."""
    return x if isinstance(x, Integer) else Integer.of((_in_double(x) + 0.0).of_kind(x.kind))


def integer(builder: Builder, atom: Atom) -> Any:
    """Whole numbers as traced integers, constant ones as they are."""
    return Integer(builder, atom) if atom.op != "const" else atom.value
