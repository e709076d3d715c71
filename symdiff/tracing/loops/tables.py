"""Lists that rounds append to and of which they read any item: arrays that rounds hand on, with room for all items.

Assumes items of one structure, dtype and shape, of which there is one before the loop. Guarantees the item that Python has at a
place, counted from either end; where it is not known to be within the list, Python's own error is a way through the round.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from symdiff.ir.arrays.algebra import Arrays
from symdiff.ir.building import dtype_of_atoms
from symdiff.ir.node import ArrayConstant
from symdiff.tracing.loops.parts import is_cell, parts_of
from symdiff.tracing.values.integers import Integer
from symdiff.tracing.values.kinds import Form, traced_form
from symdiff.tracing.values.operands import as_atom
from symdiff.tracing.values.spans import gap, reach
from symdiff.tracing.values.storage import Storage, View
from symdiff.tracing.values.tracer import Tracer
from symdiff.vocabulary.libraries import user_line


class Table:
    """All items of a list so far, as arrays in which there is room for those of all rounds, `most` of each."""

    def __init__(self, loop: Any, cells: list[Any], most: int) -> None:
        self.loop = loop
        self.cells = cells
        self.most = most
        self.size = len(cells) + most * loop.count
        self.example = cells[-1]
        self.forms = [dict.fromkeys(map(traced_form, column)) for column in self._columns()]
        self.arrays: list[Tracer] = []  # in a round

    def _refuse(self, what: str) -> BaseException:
        return self.loop.keeping.refuse(f"a round reads any items of a list, and they have different {what}")  # type: ignore[no-any-return]

    def _columns(self) -> list[Any]:
        return [*zip(*(self.leaves(v) for v in self.cells), strict=True)]

    def leaves(self, value: Any) -> list[Any]:
        """The numbers and arrays of an item."""
        found = []
        stack = [(value, self.example)]
        while stack:
            one, like = stack.pop()
            parts, others = parts_of(one), parts_of(like)
            if parts is not None and others is not None and parts[:2] == others[:2] and len(parts.parts) == len(others.parts):
                stack += zip(parts.parts, others.parts, strict=True)
            elif parts is None and others is None and np.shape(one) == np.shape(like) and is_cell(one) and is_cell(like):
                found.append(one)
            else:
                raise self._refuse("structures")
        return found

    def first(self) -> tuple[Any, ...]:
        """The arrays before the loop."""
        outer, origin, found = self.loop.outer, user_line(), []
        for column in self._columns():
            atom = as_atom([*column], outer, origin)
            code = dtype_of_atoms((atom,))
            rest = ArrayConstant(np.zeros((self.size - len(column), *atom.shape[1:]), np.dtype(code)))
            found.append(Tracer(outer, Arrays(outer, origin).concatenate([outer.cast(atom, code), rest], 0)))
        return tuple(found)

    def begin(self, arrays: tuple[Tracer, ...]) -> None:
        """Begin a round."""
        self.arrays = [Tracer.showing(x.builder, View.over(Storage(x.builder, x.atom, x.dtype.char)), x.dtype) for x in arrays]

    def write(self, place: Any, value: Any) -> None:
        """An item more."""
        for array, leaf in zip(self.arrays, self.leaves(value), strict=True):
            if traced_form(leaf).code != array.dtype.char:
                raise self._refuse("dtypes")
            array[place] = leaf

    def learn(self, forms: list[Form]) -> bool:
        """Whether an item of a round has forms of which none was known to be."""
        before = sum(map(len, self.forms))
        for known, form in zip(self.forms, reversed(forms), strict=True):
            known |= dict.fromkeys(form.kind.several.forms if form.kind.several else (form,))
        return sum(map(len, self.forms)) > before

    def read(self, key: Any, count: Any, ends: list[tuple[Any, Any]]) -> Any:
        """The item at a place, among so many; `ends` are integers, and others that they are below."""
        behind = reach(key)[1] < 0
        place = count + key if behind else key
        front = reach(place)[0] >= 0 or any(gap(place + item, stop)[0] >= -1 for item, stop in ends)
        if not front and not behind:
            place = Integer.of(np.where(np.less(key, 0), key + count, key))
        within = gap(place, count)[1] < 0 or any(gap(place, item)[1] + gap(stop, count)[1] < 1 for item, stop in ends)
        if not (front or np.greater_equal(place, 0)) or not (within or np.less(place, count)):
            raise IndexError("list index out of range")
        found = iter([self._kept(x[place], [*forms]) for x, forms in zip(self.arrays, self.forms, strict=True)])
        return self._like(self.example, found)

    def _kept(self, found: Any, forms: list[Form]) -> Any:
        if found.shape:
            storage = Storage(found.builder, found.atom, found.dtype.char, "a round changes an item of a list; copy it first")
            return found.like(View.over(storage))
        return self.loop.of_forms(Integer.of(found) if all(f.whole for f in forms) else found, forms)

    def _like(self, like: Any, leaves: Iterator[Any]) -> Any:
        parts = parts_of(like)
        if parts is None:
            return next(leaves)
        made = [self._like(p, leaves) for p in reversed(parts.parts)]
        return parts.together(made[::-1])
