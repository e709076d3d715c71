"""Formulas on vectors written with operators, which put down LLVM IR: `x*y + 1.0` is two instructions.

Assumes fused multiply-add, and rounding to nearest. Guarantees one IEEE operation for each operator, in the order written, so
that one number and a vector of them have the same bits.
"""

from __future__ import annotations

import math

from symdiff.codegen.math.lines import Bits, Lines, Mask, Real, call_intrinsic, real, where

_SHIFTER = 1.5 * 2.0**52  # added to a number, it leaves the nearest integer in the last bits


class Body(Lines):
    """The lines of one function over vectors, which may call others of its kind."""

    def __init__(self, lanes: int) -> None:
        super().__init__(lanes, "f", lanes)
        self.block = "start"
        self.run("start:")
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
        self.run(f"br i1 {every}, label %common{self.count}, label %seldom{self.count}")
        self._begin(f"seldom{self.count}")

    def joined(self, usual: list[Real], seldom: list[Real]) -> list[Real]:
        """End the lines begun with `unless`; the results are those from before it, or `seldom`."""
        before, place = self._branches.pop()
        self.run(f"br label %common{place}")
        last = self.block
        self._begin(f"common{place}")
        kind = self.kind("d")
        pairs = zip(usual, seldom, strict=True)
        return [Real(self, self.put(f"phi {kind} [{a.name}, %{before}], [{b.name}, %{last}]")) for a, b in pairs]

    def _begin(self, label: str) -> None:
        self.run(f"{label}:")
        self.block = label

    @property
    def whole(self) -> str:
        """The IR type of 64-bit integers."""
        return "i64" if self.lanes == 1 else f"<{self.lanes} x i64>"

    def argument(self, name: str) -> Real:
        """A parameter."""
        return Real(self, name)


def exact(*texts: str) -> tuple[float, ...]:
    """Numbers by all their bits."""
    return tuple(map(float.fromhex, texts))


def pair(name: str, *operands: Real) -> tuple[Real, Real]:
    """Another function on vectors, which has two results."""
    body = operands[0].body
    first, second = body.formula(name, "d", *(o.name for o in operands))
    return Real(body, first), Real(body, second)


def by_lanes(name: str, *operands: Real) -> Real:
    """A function of libm, number by number."""
    body = operands[0].body
    return Real(body, body.by_lanes(name, "d", *(o.name for o in operands)))


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
