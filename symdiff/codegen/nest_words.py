"""What a target says for the parts of a nest, and the numbers, places and arrays that it speaks of.

A target gives a class of `Words`. Guarantees that cells lie in C order.
"""

import functools
import itertools
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from symdiff.lowering.program import Program, cell_program
from symdiff.vocabulary.extents import Count, Extent, Shape, has_extents

Index = tuple[Count, ...]
Number = Any  # a target's text of a number: names of registers, or an expression
Formula = Callable[[Index], Number]  # for a cell


class Buffer(NamedTuple):
    """Cells in memory, in C order from `start` on."""

    name: str
    shape: Shape
    dtype: str
    start: Count = 0


Nexts = list[tuple[Buffer, Number, bool]]  # variables with their next values; whether others' are computed from these


@dataclass(frozen=True, slots=True)
class Cells:
    """An array, by the formula for a cell; `buffer` where it is in memory; `flat` finds the formula by a cell's place alone;
    `lasting` is a constant's memory, for who needs it.
    """

    shape: Shape
    dtype: str
    at: Formula
    buffer: Buffer | None = None
    flat: Callable[[], Formula | None] = lambda: None
    lasting: Callable[[], Buffer] | None = None


class Matrix(NamedTuple):
    """Cells in memory with two axes, and their strides."""

    buffer: Buffer
    shape: Shape
    strides: Shape


class InOrder:
    """One value after the other."""

    def before(self, position: int, known: Collection[int]) -> Iterable[int]:
        """What is to be computed for a value, itself the last, none of the `known`."""
        return () if position in known else (position,)


class Words:
    """What a target says for the parts of a nest."""

    few = 16  # cells that are written one by one, without a loop
    inner = 4  # such cells of each round of a loop
    many = 64  # such cells in one another
    deep = 50  # arrays inside one another, at which one is put into memory
    own = 64  # cells of an array that is a variable of the function, also where a result could be written to at once
    names_cells = False  # whether a cell has a name as a variable has one
    adds_rows = True  # whether the rows of two stacks that are added up are added to one array
    ordered = False  # whether sums are taken in their order
    takes_places = False  # whether the cells of an array are taken one after the other, in one loop, where they can be
    says_arrays = False  # whether an array is said whole, by `array`, `fill` and `place`, and not by its cells

    def __init__(self) -> None:
        self.bounds: dict[str, Count] = {}  # the largest values of rounds' numbers
        self.unrolled = 1  # rounds that are being written one by one
        self.varied: set[str] = set()  # sizes that differ from point to point, where a target takes many together

    def calls(self, program: Program) -> Any:
        """The order of a program's values."""
        return InOrder()

    def operation(self, nest: Any, position: int) -> dict[int, Number]:
        """An operation on numbers among the nest's values, with those that are made together with it."""
        raise NotImplementedError

    def cell(self, program: Program, position: int, values: dict[int, Number]) -> Number:
        """An operation on numbers, in a formula for a cell."""
        raise NotImplementedError

    def holds(self, array: Cells, depth: int) -> bool:
        """Whether an array that is read once, so many deep inside one another, is put into memory."""
        return depth > self.deep

    def named(self, name: str, value: Number, code: str) -> Number:
        """A number that is read several times, or in another place."""
        return value

    def held(self, value: Number) -> Number:
        """A number that its only user may read more than once."""
        return value

    def note(self, text: Callable[[], str]) -> None:
        """What the next lines compute, where they are for people to read."""

    def table(self, value: np.ndarray) -> Buffer:
        """The cells of a constant."""
        raise NotImplementedError

    def buffer(self, name: str, shape: Shape, code: str) -> Buffer:
        """A variable, or an array, which has no value yet."""
        raise NotImplementedError

    def reserve(self, buffer: Buffer, rows: Count) -> None:
        """Room for so many rows, which the target may have given already."""

    def clear(self, buffer: Buffer) -> None:
        """Zeros in all cells."""
        raise NotImplementedError

    def load(self, buffer: Buffer, index: Index) -> Number:
        """The value of a cell."""
        raise NotImplementedError

    def store(self, buffer: Buffer, index: Index, value: Number, add: bool = False) -> None:
        """Write a cell, or `add` to it."""
        raise NotImplementedError

    def assign(self, pairs: Nexts) -> None:
        """Variables' next values; `True` with those that others' are computed from."""
        for buffer, value, _ in pairs:
            self.store(buffer, (), value)

    def rounds(
        self, name: str, count: Count | None, backward: bool = False, size: str = "", start: Count = 0
    ) -> AbstractContextManager[Extent]:
        """A loop around what is said inside; the round's number, which is the size `size` afterwards, from `start` on."""
        raise NotImplementedError

    def tell(self, size: str, count: Count) -> None:
        """What a size is that a loop counts, where it is known before."""
        self.bound(size, count)
        self.varied.update([size] if self.is_varied(count) else [])

    def end_where(self, place: int, condition: Number) -> None:
        """The end of the function where the check of this place holds."""
        raise NotImplementedError

    def leave_unless(self, condition: Number) -> None:
        """The end of the loop where a condition does not hold."""
        raise NotImplementedError

    def real(self, whole: Count) -> Number:
        """A whole number as float64."""
        raise NotImplementedError

    def compared(self, op: str, first: Count, second: Count) -> Number:
        """How two whole numbers compare."""
        return self.cell(cell_program(op, ("d", "d"), "?"), 2, {0: self.real(first), 1: self.real(second)})

    def whole(self, value: Number, size: Count) -> Extent:
        """The whole part of a number, the nearest of 0 to size - 1."""
        raise NotImplementedError

    def nearest(self, whole: Count, size: Count) -> Count:
        """The nearest of 0 to size - 1 to a whole number."""
        return self.whole(self.real(whole), size)

    def product(self, a: Count, b: Count) -> Count:
        """A product of two whole numbers, of which none is known before."""
        raise NotImplementedError

    def times(self, a: Count, b: Count) -> Count:
        """A product of two whole numbers."""
        return self.product(a, b) if isinstance(a, Extent) and isinstance(b, Extent) else a * b

    def count(self, shape: Shape) -> Count:
        """The cells of an array."""
        count: Count = 1
        for n in shape:
            count = self.times(count, n)
        return count

    def flat(self, buffer: Buffer, index: Index) -> Count:
        """The place of a cell in memory."""
        place: Count = 0
        for n, i in zip(buffer.shape, index, strict=True):
            place = self.times(place, n) + i
        return buffer.start + place

    def cells(self, buffer: Buffer) -> Cells:
        """An array in memory."""

        def flat() -> Formula | None:
            if has_extents(buffer.shape):
                return None
            return functools.partial(self.load, buffer._replace(shape=(math.prod(buffer.shape),)))

        return Cells(buffer.shape, buffer.dtype, functools.partial(self.load, buffer), buffer, flat)

    def multiply(self, target: Buffer, first: Matrix, second: Matrix, spans: Sequence[tuple[Count, Count]]) -> bool:
        """Add a product of matrices to an array in memory, where the target has a function for it.

        `spans`: the rows, columns and terms that need be taken, from the first to that behind the last one of each.
        """
        return False

    def call(self, program: Program, node: Any, target: Buffer, operands: Sequence[Buffer]) -> None:
        """Write what NumPy's function of a head gives."""
        raise NotImplementedError

    def row(self, array: Cells, k: Count) -> Any:
        """A row of an array, a number where it has one axis."""
        if len(array.shape) == 1:
            return array.at((k,))
        shape, buffer = array.shape[1:], array.buffer
        if buffer is not None and not has_extents(shape):
            return self.cells(Buffer(buffer.name, shape, buffer.dtype, buffer.start + k * math.prod(shape)))
        return Cells(shape, array.dtype, lambda index: array.at((k, *index)))

    def copy(self, source: Buffer, target: Buffer) -> None:
        """Write all cells of an array into those of another."""
        self.each(source.shape, lambda index: self.store(target, index, self.load(source, index)))

    def each(self, shape: Shape, action: Callable[[Index], None], before: Index = ()) -> None:
        """Do something for all cells of a shape."""
        count = 0 if has_extents(shape) else math.prod(shape)
        if not has_extents(shape) and count <= min(self.inner if before else self.few, self.many // self.unrolled):
            around, self.unrolled = self.unrolled, self.unrolled * max(count, 1)
            for index in itertools.product(*map(range, shape)):
                action((*before, *index))
            self.unrolled = around
        elif shape[0] == 1:
            self.each(shape[1:], action, (*before, 0))
        else:
            with self.rounds("i", shape[0]) as i:
                self.each(shape[1:], action, (*before, i))

    def bound(self, name: str, most: Count) -> None:
        """The largest value of a number that is told inside all those that are bounded so far."""
        self.bounds.pop(name, None)
        self.bounds[name] = most

    def is_small(self, shape: Shape) -> bool:
        """Whether an array is a variable of the function."""
        return not has_extents(shape) and math.prod(shape) <= self.own

    def is_varied(self, whole: Count) -> bool:
        """Whether a whole number differs from point to point."""
        return isinstance(whole, Extent) and any(size.name in self.varied for size, _ in whole.terms)

    def within(self, whole: Count, size: Count) -> bool:
        """Whether a whole number is known to be among 0 to size - 1."""
        return all(self.is_not_negative(difference) for difference in (whole, size - 1 - whole))

    def is_not_negative(self, whole: Count) -> bool:
        while isinstance(whole, Extent):
            inside = {name: depth for depth, name in enumerate(self.bounds)}  # rounds' bounds may tell of those around them
            size, times = max(whole.terms, key=lambda term: inside.get(term[0].name, -1))
            if times < 0 and size.name not in self.bounds:
                return False
            least = 0 if size.name in self.bounds else size.least
            whole = whole + times * ((least if times > 0 else self.bounds[size.name]) - Extent(0, ((size, 1),)))
        return whole >= 0
