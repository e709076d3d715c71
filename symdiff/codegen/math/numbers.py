"""Formulas on vectors written with operators, which put down LLVM IR: `x*y + 1.0` is two instructions.

Assumes fused multiply-add, and rounding to nearest. Guarantees one IEEE operation for each operator, in the order written, so
that one number and a vector of them have the same bits.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from symdiff.codegen.math.lines import Lines

_SHIFTER = 1.5 * 2.0**52  # added to a number, it leaves the nearest integer in the last bits


class Body(Lines):
    """The lines of one function over vectors, which may call others of its kind."""

    def __init__(self, lanes: int) -> None:
        super().__init__(lanes, "f", lanes)
        self.block = "start"
        self.text.append("start:")
        self._branches: list[tuple[str, int]] = []

    def unless(self, mask: Mask) -> None:
        """Begin the lines that run where the mask does not hold for all numbers, up to `joined`."""
        every = mask.name
        if self.lanes > 1:
            name = f"llvm.vector.reduce.and.v{self.lanes}i1"
            self.declared[name] = f"declare i1 @{name}({self.kind('?')})"
            every = self.put(f"call i1 @{name}({self.kind('?')} {mask.name})")
        self.count += 1
        self._branches.append((self.block, self.count))
        self.text.append(f"  br i1 {every}, label %common{self.count}, label %seldom{self.count}")
        self._begin(f"seldom{self.count}")

    def joined(self, usual: list[Real], seldom: list[Real]) -> list[Real]:
        """End the lines begun with `unless`; the results are those from before it, or `seldom`."""
        before, place = self._branches.pop()
        self.text.append(f"  br label %common{place}")
        last = self.block
        self._begin(f"common{place}")
        kind = self.kind("d")
        pairs = zip(usual, seldom, strict=True)
        return [Real(self, self.put(f"phi {kind} [{a.name}, %{before}], [{b.name}, %{last}]")) for a, b in pairs]

    def _begin(self, label: str) -> None:
        self.text.append(f"{label}:")
        self.block = label

    @property
    def whole(self) -> str:
        """The IR type of 64-bit integers."""
        return "i64" if self.lanes == 1 else f"<{self.lanes} x i64>"

    def argument(self, name: str) -> Real:
        """A parameter."""
        return Real(self, name)


class _Value:
    """A value's name in the lines of a function."""

    __slots__ = ("body", "name")

    def __init__(self, body: Any, name: str) -> None:
        self.body: Body = body
        self.name = name


def _on_reals(name: str) -> Callable[[Real, Real | float], Real]:
    """An operation on two numbers."""
    return lambda x, y: Real(x.body, x.body.op(name, x.code, x.name, real(x, y).name), x.code)


def _compared(predicate: str) -> Callable[[Real, Real | float], Mask]:
    """A comparison; none of NaN holds but "uno"."""
    return lambda x, y: Mask(x.body, x.body.compare(predicate, x.code, x.name, real(x, y).name))


def _on_masks(name: str) -> Callable[[Mask, Mask], Mask]:
    return lambda x, y: Mask(x.body, x.body.op(name, "?", x.name, y.name))


def _on_bits(name: str) -> Callable[[Bits, Bits | int], Bits]:
    def operation(x: Bits, y: Bits | int) -> Bits:
        lanes = x.body.lanes
        constant = str(y) if lanes == 1 else f"<{', '.join([f'i64 {y}'] * lanes)}>"
        return Bits(x.body, x.body.put(f"{name} {x.body.whole} {x.name}, {y.name if isinstance(y, Bits) else constant}"))

    return operation


class Real(_Value):
    """A vector of float64, or of another dtype `code`."""

    __slots__ = ("code",)

    def __init__(self, body: Lines, name: str, code: str = "d") -> None:
        super().__init__(body, name)
        self.code = code

    __add__ = __radd__ = _on_reals("fadd")
    __mul__ = __rmul__ = _on_reals("fmul")
    __sub__, __truediv__ = _on_reals("fsub"), _on_reals("fdiv")
    __lt__, __le__, __gt__, __ge__ = (_compared(predicate) for predicate in ("olt", "ole", "ogt", "oge"))
    equals = _compared("oeq")

    def __rsub__(self, other: float) -> Real:
        return real(self, other) - self

    def __rtruediv__(self, other: float) -> Real:
        return real(self, other) / self

    def __neg__(self) -> Real:
        return Real(self.body, self.body.neg(self.code, self.name), self.code)

    def __abs__(self) -> Real:
        return call_intrinsic("llvm.fabs", self)

    def missing(self) -> Mask:
        """Where this is NaN."""
        return _compared("uno")(self, self)

    def negative(self) -> Mask:
        """Where the sign bit is set, -0.0 included."""
        return copysign(1.0, self) < 0.0

    def bits(self) -> Bits:
        """The same bits as integers."""
        return Bits(self.body, self.body.put(f"bitcast {self.body.kind('d')} {self.name} to {self.body.whole}"))


class Mask(_Value):
    """A vector of truth values."""

    __slots__ = ()

    __and__, __or__, __xor__ = (_on_masks(name) for name in ("and", "or", "xor"))

    def __invert__(self) -> Mask:
        return Mask(self.body, self.body.op("xor", "?", self.name, self.body.literal(True, "?")))


class Bits(_Value):
    """A vector of 64-bit integers."""

    __slots__ = ()

    __add__, __sub__, __and__, __or__ = (_on_bits(name) for name in ("add", "sub", "and", "or"))
    __xor__, __lshift__, __rshift__ = (_on_bits(name) for name in ("xor", "shl", "lshr"))

    def real(self) -> Real:
        """The same bits as float64."""
        return Real(self.body, self.body.put(f"bitcast {self.body.whole} {self.name} to {self.body.kind('d')}"))

    def last(self) -> Mask:
        """Where the number is odd."""
        return Mask(self.body, self.body.put(f"trunc {self.body.whole} {self.name} to {self.body.kind('?')}"))


def exact(*texts: str) -> tuple[float, ...]:
    """Numbers by all their bits."""
    return tuple(map(float.fromhex, texts))


def real(like: Real, value: Real | float) -> Real:
    """A constant as a vector like another one; a vector as it is."""
    return value if isinstance(value, Real) else Real(like.body, like.body.literal(value, like.code), like.code)


def call_intrinsic(name: str, *operands: Real) -> Real:
    """An intrinsic, or another function on vectors."""
    body, code = operands[0].body, operands[0].code
    return Real(body, body.call(name, code, *(o.name for o in operands)), code)


def pair(name: str, *operands: Real) -> tuple[Real, Real]:
    """Another function on vectors, which has two results."""
    body = operands[0].body
    first, second = body.formula(name, "d", *(o.name for o in operands))
    return Real(body, first), Real(body, second)


def by_lanes(name: str, *operands: Real) -> Real:
    """A function of libm, number by number."""
    body = operands[0].body
    return Real(body, body.by_lanes(name, "d", *(o.name for o in operands)))


def where(mask: Mask, yes: Real | float, no: Real | float) -> Real:
    """yes where the mask holds, no elsewhere."""
    like = next((v for v in (yes, no) if isinstance(v, Real)), Real(mask.body, ""))
    return Real(mask.body, mask.body.select(mask.name, like.code, real(like, yes).name, real(like, no).name), like.code)


def nan_of(x: Real, found: Real | float) -> Real:
    """A result, but NaN where a number is."""
    return where(x.missing(), x, found)


def fma(a: Real, b: Real | float, c: Real | float) -> Real:
    """a*b + c, rounded once."""
    return call_intrinsic("llvm.fma", a, real(a, b), real(a, c))


def sqrt(x: Real) -> Real:
    """The square root."""
    return call_intrinsic("llvm.sqrt", x)


def rint(x: Real) -> Real:
    """The nearest integer."""
    return call_intrinsic("llvm.rint", x)


def copysign(size: Real | float, sign: Real) -> Real:
    """A size with another number's sign."""
    return call_intrinsic("llvm.copysign", real(sign, size), sign)


def lane_max(x: Real, y: Real | float) -> Real:
    """The larger of two numbers; y where one is NaN."""
    return where(x > y, x, y)


def lane_min(x: Real, y: Real | float) -> Real:
    """The smaller of two numbers; y where one is NaN."""
    return where(x < y, x, y)


def horner(x: Real, *coefficients: float) -> Real:
    """A polynomial, the constant first."""
    total = real(x, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = fma(total, x, c)
    return total


def round_to_bits(x: Real, scale: float = 1.0) -> tuple[Real, Bits]:
    """x*scale rounded to an integer below 2**51 in size, as a number and in the last bits of an integer."""
    shifted = fma(x, scale, _SHIFTER)
    return shifted - _SHIFTER, shifted.bits()


def two_sum(a: Real, b: Real | float) -> tuple[Real, Real]:
    """a + b and what its rounding lost."""
    total = a + b
    other = total - a
    return total, (a - (total - other)) + (b - other)


def fast_two_sum(a: Real | float, b: Real) -> tuple[Real, Real]:
    """a + b and what its rounding lost, where a is zero or has no smaller exponent than b."""
    first = real(b, a)
    total = first + b
    return total, (first - total) + b


def two_product(a: Real, b: Real | float) -> tuple[Real, Real]:
    """a*b and what its rounding lost."""
    product = a * b
    return product, fma(a, b, -product)


def powers_at_zero(base: list[Real], exponent: list[Real], found: list[Real]) -> tuple[Real, ...]:
    """The parts of a power as `found`, but for those of zero and with exponent zero, which NumPy has without a logarithm."""
    nothing, one = (parts[0].equals(0.0) & parts[1].equals(0.0) for parts in (base, exponent))
    empty = where(exponent[0] > 0.0, real(exponent[0], 0.0), math.nan)
    return tuple(where(one, at, where(nothing, empty, part)) for at, part in zip((1.0, 0.0), found, strict=True))


# The operations on numbers, and on truths, that are an operator or a method.
OPERATORS: dict[str, Callable[..., Any]] = {
    **{op: getattr(operator, name) for op, name in {"div": "truediv", "and": "and_", "not": "invert"}.items()},
    **{op: getattr(operator, op) for op in "add sub mul neg abs lt le gt ge".split()},
    "eq": Real.equals, "ne": _compared("une"), "fmod": _on_reals("frem"), "isnan": Real.missing, "select": where,
}  # fmt: skip
