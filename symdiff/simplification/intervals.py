"""What is known of one real value, and what follows from it for the result of an operation: the columns of the rule tables,
and the arithmetic of intervals.

Assumes facts of the operands. Guarantees facts that hold for every value that is not NaN.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from symdiff.ir.node import Node
from symdiff.rulebooks.columns import Column
from symdiff.vocabulary.ops import OPS

INF = math.inf
_LARGEST = {"f": float(np.finfo(np.float32).max)}


class Fact(NamedTuple):
    """A value lies between `low` and `high`, ends that are `open` not reached, unless it is NaN, which it may be with `nan`.

    `finite`: it is never infinite or NaN; `whole`: it is an integer. `powers`: it is a sum of squares or of higher powers, zero
    only where all its partials are, and this the least of the powers, infinite of 0 itself; else 0. `growth` is 1 where it can
    overflow because an exponential does, 2 where it is at the end of a path of sums, factors and powers from one exponential
    alone; else 0.
    """

    low: float = -INF
    high: float = INF
    low_open: bool = False
    high_open: bool = False
    nan: bool = True
    finite: bool = False
    whole: bool = False
    powers: float = 0
    growth: int = 0

    @property
    def is_finite(self) -> bool:
        """Whether no value is infinite or NaN."""
        return self.finite or not (self.nan or math.isinf(self.low) or math.isinf(self.high))

    def may_be(self, number: float) -> bool:
        """Whether a value may be that number."""
        return (self.low, self.low_open) <= (number, False) and (number, self.high_open) <= (self.high, False)

    def met(self, other: "Fact") -> "Fact":
        """What is known where both hold."""
        low, low_open = max((self.low, self.low_open), (other.low, other.low_open))
        high, reached = min((self.high, not self.high_open), (other.high, not other.high_open))
        high_open, whole = not reached, self.whole or other.whole
        nan, finite = self.nan and other.nan, self.finite or other.finite
        if whole:
            low, high = map(float, _within(low, high, low_open, high_open))
            low_open = high_open = False
        return self._replace(low=low, high=high, low_open=low_open, high_open=high_open, nan=nan, finite=finite, whole=whole)


def whole_ends(fact: Fact) -> tuple[float, float]:
    """The least and the largest integer that a value may be."""
    return (-INF, INF) if fact.nan else _within(*fact[:4])


def _within(low: float, high: float, low_open: bool, high_open: bool) -> tuple[float, float]:
    """The least and the largest integer in an interval."""
    ends = [end if math.isinf(end) else f(end) for f, end in ((math.ceil, low), (math.floor, high))]
    return ends[0] + (low_open and ends[0] == low), ends[1] - (high_open and ends[1] == high)


UNKNOWN = Fact()
TRUTH = Fact(0.0, 1.0, nan=False, whole=True)


def constant_fact(value: object) -> Fact:
    """What is known of a number or an array."""
    if type(value) in (int, float) and abs(value) <= 1e308:  # type: ignore[operator]
        number = float(value)  # type: ignore[arg-type]
        return Fact(number, number, nan=False, whole=number % 1 == 0, powers=0 if number else INF)
    cells = np.asarray(value)
    if cells.size == 0 or cells.dtype.kind not in "biuf" or np.isnan(cells).any():
        return UNKNOWN
    low, high = float(cells.min()), float(cells.max())
    return Fact(low, high, nan=False, whole=bool(np.all(np.floor(cells) == cells) and np.isfinite(cells).all()))


def real_number(node: Node) -> float | None:
    """A constant real number; None for other values."""
    value = node.params if node.op == "const" and node.shape == () else None
    try:
        return float(value) if isinstance(value, (bool, int, float)) else None
    except OverflowError:
        return None


def known_exponent(exponent: Node) -> float:
    """A constant real exponent, 0 for everything else."""
    return real_number(exponent) or 0.0


def interval(ends: list[float], *parts: Fact, nan: bool = False) -> Fact:
    """The values between the least and the greatest of these, whole and as finite where all parts are; `nan` adds to theirs."""
    ends = [e for e in ends if e == e]
    if not ends:
        return UNKNOWN
    whole = all(p.whole for p in parts)
    finite = whole and all(p.is_finite for p in parts)  # what Python holds as an integer is
    return Fact(min(ends), max(ends), nan=nan or any(p.nan for p in parts), finite=finite, whole=whole)


def joined(*parts: Fact) -> Fact:
    """What holds of a value that is one of some."""
    found = interval([e for p in parts for e in (p.low, p.high)], *parts)
    return found._replace(finite=all(p.is_finite for p in parts))


def image(op: str, column: Column, parts: list[Fact]) -> Fact:
    """What a function's column says of its value."""
    low, high = column.low, column.high
    if "rising" in column.words and op in OPS and not OPS[op].is_special:
        with np.errstate(all="ignore"):
            ends = [float(OPS[op].function()(*each)) for each in ([p.low for p in parts], [p.high for p in parts])]
        low, high = max(low, ends[0]), min(high, ends[1])  # an end that is NaN, beyond the domain, tells nothing
    if "whole" not in column.words:
        return Fact(low, high)
    return Fact(low, high, nan=any(p.nan for p in parts), finite=all(p.is_finite for p in parts), whole=True)


def _add(a: Fact, b: Fact) -> Fact:
    nan = not a.is_finite and not b.is_finite  # infinities whose sum is NaN
    low, high = (e if e == e else unknown for e, unknown in ((a.low + b.low, -INF), (a.high + b.high, INF)))
    found = interval([low, high], a, b, nan=nan)
    return found._replace(powers=min(a.powers, b.powers) if a.low >= 0.0 and b.low >= 0.0 else 0)


def _neg(a: Fact) -> Fact:
    return a._replace(low=-a.high, high=-a.low, low_open=a.high_open, high_open=a.low_open, powers=0)


def _times(x: float, y: float) -> float:
    return 0.0 if x == 0.0 or y == 0.0 else x * y


def _mul(a: Fact, b: Fact) -> Fact:
    ends = [_times(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    found = interval(ends, a, b, nan=not (a.is_finite and b.is_finite))
    scaled = any(p.low > 0.0 for p in (a, b)) and a.low >= 0.0 and b.low >= 0.0
    return found._replace(powers=max(a.powers, b.powers) if scaled else 0)


def _div(a: Fact, b: Fact) -> Fact:
    nan = not (a.is_finite and b.is_finite and not b.low <= 0.0 <= b.high)
    whole = UNKNOWN._replace(nan=a.nan or b.nan or nan)
    if b.low > 0.0 or b.high < 0.0:
        with np.errstate(all="ignore"):
            ends = [float(np.float64(x) / y) for x in (a.low, a.high) for y in (b.low, b.high)]
        found = interval(ends, whole)
    elif b.low >= 0.0 and (a.low >= 0.0 or a.high <= 0.0):
        found = whole._replace(low=0.0) if a.low >= 0.0 else whole._replace(high=0.0)
    else:
        return whole
    return found._replace(powers=a.powers if b.low > 0.0 else 0)


def _mod(a: Fact, b: Fact) -> Fact:
    if b.low <= 0.0 or not b.is_finite:
        return UNKNOWN
    whole = a.whole and b.whole
    return Fact(0.0, b.high - whole, nan=not a.is_finite, finite=a.is_finite, whole=whole)


def _floordiv(a: Fact, b: Fact) -> Fact:
    if b.low <= 0.0 or not b.is_finite:
        return UNKNOWN
    low = math.floor(a.low / (b.low if a.low < 0.0 else b.high)) if math.isfinite(a.low) else a.low
    high = math.floor(a.high / (b.high if a.high < 0.0 else b.low)) if math.isfinite(a.high) else a.high
    return Fact(low, high, nan=a.nan or b.nan or not a.is_finite, finite=a.is_finite, whole=True)


def _abs(a: Fact) -> Fact:
    ends = (abs(a.low), abs(a.high))
    within = a.low <= 0.0 <= a.high
    return a._replace(low=0.0 if within else min(ends), high=max(ends), low_open=False, high_open=False, powers=0)


def power(base: Fact, n: float) -> Fact:
    """What is known of a power with a constant exponent, which rises with its base or falls and rises again."""
    if n == 0 or (n % 1 and base.low < 0.0) or (n < 0 and base.low <= 0.0):
        return UNKNOWN if n % 2 or n == 0 else UNKNOWN._replace(low=0.0)
    a = base if n % 2 == 1 else _abs(base)
    with np.errstate(all="ignore"):
        found = interval([float(np.float64(e) ** n) for e in (a.low, a.high)], base, nan=not base.is_finite)
    return found._replace(whole=False, finite=False, powers=n if n > 1 and found.low >= 0.0 else 0)


def square(a: Fact) -> Fact:
    """What is known of x*x."""
    return power(a, 2)._replace(nan=a.nan, finite=a.whole and a.is_finite, whole=a.whole)


def _hypot(a: Fact, b: Fact) -> Fact:
    return Fact(max(_abs(a).low, _abs(b).low))


def _sum(a: Fact) -> Fact:
    signed = a._replace(low=0.0 if a.low >= 0.0 else -INF, high=0.0 if a.high <= 0.0 else INF, low_open=False, high_open=False)
    return signed._replace(nan=a.nan or not a.is_finite, finite=False)


def _largest(*parts: Fact) -> Fact:
    return joined(*parts)._replace(low=max(p.low for p in parts), high=max(p.high for p in parts))


def _least(*parts: Fact) -> Fact:
    return joined(*parts)._replace(low=min(p.low for p in parts), high=min(p.high for p in parts))


FOLLOWED: dict[str, Callable[..., Fact]] = {
    "add": _add, "sub": lambda a, b: _add(a, _neg(b)), "neg": _neg, "mul": _mul, "div": _div, "mod": _mod,
    "floordiv": _floordiv, "abs": _abs, "hypot": _hypot, "max": _largest, "min": _least, "sum": _sum,
    "sum_of": lambda a, m: _sum(a), "array": joined, "concatenate": joined,
}  # fmt: skip


def in_precision(found: Fact, dtype: str) -> Fact:
    """What is known of a value that is rounded to single precision."""
    largest = _LARGEST.get(dtype)
    if largest is None:
        return found
    low, high = (float(np.float32(e)) if abs(e) <= largest else e for e in (found.low, found.high))
    return found._replace(low=low, high=high)
