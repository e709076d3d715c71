"""Rows and terms that differ in their place only, as one: what a loop over cells wrote out, with an index again.

Assumes cells of arrays of one axis. Guarantees that what is put together is the same term at each place of its range.
"""

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import groupby
from typing import Any, NamedTuple

from symdiff.inspection.reading.terms import Term, inside_first
from symdiff.inspection.reading.written import Writer

SERIES = "series"  # a sum over an index: its body, and the first and last place
PRODUCTS = "products"  # the same as a product; with a place that is left out
_FEWEST = 3  # places that are put together
_MANY = 6  # terms of a sum from which on places are looked for
_MOST, _DEEP = 20_000, 40  # terms of a sum, and their nesting, up to which they are
_INDEX = "ijklmn"


class Placed(NamedTuple):
    """A cell of an array of one axis."""

    array: str
    place: int


def placed_cell(name: str) -> Placed | None:
    """The array and the place of a cell's name, None for another name."""
    array, _, rest = name.partition("[")
    return Placed(array, int(rest[:-1])) if rest.endswith("]") and rest[:-1].isdigit() else None


def cell_beside(array: str, shift: int, index: str) -> str:
    """The name of a cell beside the one at an index."""
    return f"{array}[{index}{shift:+d}]" if shift else f"{array}[{index}]"


def _is_long(term: Term, kind: str) -> bool:
    return term.kind == kind and _MANY <= len(term.parts) <= _MOST and term.depth <= _DEEP


class Patterns:
    """Finds patterns in the terms of a writer; `indices` are two free letters, for places and for sums within them."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        taken = {name.partition("[")[0] for name in writer.bits} | {"i" if "i " in writer.bits else ""}
        self.indices = [*(letter for letter in _INDEX if letter not in taken), "index_1", "index_2"][:2]

    def cells(self, term: Term) -> dict[Term, Placed]:
        """The cells in a term."""
        found: dict[Term, Placed | None] = {}
        for part in inside_first(term, found):
            found[part] = placed_cell(part.parts[0]) if part.kind == "symbol" else None
        return {part: cell for part, cell in found.items() if cell is not None}

    def at_index(self, term: Term, place: int, index: str) -> Term:
        """A term with the index for a place, and places beside it as they lie to it."""
        cells = self.cells(term)

        def moved(part: Term) -> Term | None:
            if part not in cells:
                return None
            array, own = cells[part]
            return self.writer.symbol(cell_beside(array, own - place, index), part.is_complex)

        return self.writer.rewritten(term, moved)

    def runs(self, rows: list[Any], place_of: Callable[[Any], Placed | None], term_of: Callable[[Any], Term]) -> Iterator[Any]:
        """Rows as they are, or (first row, last row, term at the index) for a run of consecutive ones of one pattern."""
        keyed = []
        for k, row in enumerate(rows):
            cell = place_of(row)
            term = None if cell is None else self.at_index(term_of(row), cell.place, self.indices[0])
            keyed.append((cell and (cell.array, cell.place - k), term, row))
        for (offset, term), group in groupby(keyed, lambda entry: entry[:2]):
            found = [row for _, _, row in group]
            if offset is None or term is None or len(found) < _FEWEST or term is term_of(found[0]):
                yield from found
            else:
                yield found[0], found[-1], term

    def _groups(self, term: Term, index: str) -> dict[tuple[Term, Fraction], dict[int, tuple[Term, Fraction]]]:
        """The parts of one pattern, by the pattern with their number, and by their places."""
        groups: dict[tuple[Term, Fraction], dict[int, tuple[Term, Fraction]]] = {}
        for part, c in term.parts:
            place = min((cell.place for cell in self.cells(part).values()), default=None)
            if place is not None:
                groups.setdefault((self.at_index(part, place, index), c), {})[place] = part, c
        return groups

    def with_products(self, term: Term, index: str) -> Term:
        """A long product, or a number times one, with its factors of one pattern as products over an index."""
        inner, times = term.multiple
        if inner is not term and inner.kind == "product":
            return self.writer.scaled(self.with_products(inner, index), times)
        if not _is_long(term, "product"):
            return term
        t = self.writer
        factors = dict(term.parts)
        for (body, exponent), places in self._groups(term, index).items():
            first, last = min(places), max(places)
            left_out = [k for k in range(first, last + 1) if k not in places]
            if len(places) < _MANY - 1 or len(left_out) > 1:
                continue
            for part, _ in places.values():
                del factors[part]
            own = [t.symbol(index), t.number(first), t.number(last), *(t.symbol(f"[{k}]") for k in left_out)]
            factors[t.call(PRODUCTS, t.power(body, exponent), *own)] = Fraction(1)
        return t.powers(factors.items())

    def with_series(self, term: Term, index: str) -> Term:
        """A long sum with its terms of one pattern as sums over an index."""
        if not _is_long(term, "sum"):
            return term
        groups = self._groups(term, index)
        bodies: dict[tuple[int, int], list[tuple[Term, Fraction]]] = {}
        gone: set[tuple[Term, Fraction]] = set()
        for (body, c), places in groups.items():
            first, last = min(places), max(places)
            if len(places) >= _FEWEST and last - first + 1 == len(places):
                bodies.setdefault((first, last), []).append((body, c))
                gone.update(places.values())
        t = self.writer
        series = [
            (t.call(SERIES, t.add(parts), t.symbol(index), t.number(first), t.number(last)), Fraction(1))
            for (first, last), parts in bodies.items()
        ]
        return t.add([*series, *(part for part in term.parts if part not in gone)])
