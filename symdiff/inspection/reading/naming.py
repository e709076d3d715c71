"""Which pieces of a derivation get a name, and which: those that stand at least twice and are long, by the user's variables.

Assumes rows in print order. Guarantees names that nothing else has, pieces of bounded width and depth, and no name for what
stands once, but where a single line would be longer than a page.
"""

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from itertools import count
from typing import NamedTuple

from symdiff.inspection.reading.names import spelled
from symdiff.inspection.reading.terms import Term
from symdiff.inspection.reading.written import Writer

LONG = 28  # printed characters of a piece that is named where it stands twice
OWN = 14  # the same for one that the user has named
PAGE = 600  # characters of a line beyond which its pieces are named, whether they stand twice or not
DEEP = 24  # the same for nesting
_LETTERS = "uvwpqstabcghkmn"


class Piece(NamedTuple):
    """A shared piece: its name as a symbol, and the term that it stands for."""

    symbol: Term
    term: Term


class Naming:
    """Rewrites terms over names of their shared pieces. `own` are the user's names of values, by terms without coefficients,
    each with the coefficient of the value."""

    def __init__(self, writer: Writer, own: Mapping[Term, tuple[str, Fraction]], taken: Iterable[str]) -> None:
        self.writer = writer
        self.own = own
        self.names = Names(taken)
        self.pieces: list[Piece] = []

    def named(self, roots: list[Term]) -> list[Term]:
        """The terms over names; `pieces` has what these stand for, each after those that it uses."""
        order = self._in_order(roots)
        uses: dict[Term, int] = dict.fromkeys(order, 0)
        for term in order:
            for piece in self._pieces_of(term):
                uses[piece] += 1
        for root in roots:
            uses[root] += 1
        results = set(roots)
        found: dict[Term, Term] = {}
        for term in order:
            new = found[term] = self._over_names(term, found)
            if _is_plain(new) or (uses[term] == 1 and term in results):
                continue
            twice = uses[term] > 1 and new.width >= (OWN if term in self.own else LONG)
            if twice or new.width > PAGE or new.depth > DEEP:
                found[term] = self._name(term, new)
        return [found[root] for root in roots]

    def _name(self, term: Term, new: Term) -> Term:
        name, times = self.own.get(term, (None, Fraction(1)))
        symbol = self.writer.symbol(self.names.next(name), term.is_complex)
        self.pieces.append(Piece(symbol, self.writer.scaled(new, times)))
        return self.writer.scaled(symbol, 1 / times)

    def _over_names(self, term: Term, found: Mapping[Term, Term]) -> Term:
        """A term over the names of its parts."""
        if term.kind != "product":
            return self.writer.rebuilt(term, found)
        factors = []
        for base, exponent in term.parts:
            root = self._root(term, base, exponent)
            factors.append((found[base], exponent) if root is None else (found[root], exponent * exponent.denominator))
        return self.writer.powers(factors)

    def _root(self, term: Term, base: Term, exponent: Fraction) -> Term | None:
        """The root that a power of a factor is one of; None where it is none, or is the term itself."""
        if exponent.denominator == 1:
            return None
        root = self.writer.power(base, Fraction(1, exponent.denominator))
        return None if root is term or root.kind != "product" or len(root.parts) != 1 else root

    def _pieces_of(self, term: Term) -> list[Term]:
        """The parts of a term as they are printed: of sqrt(b)**-3 the root, not b."""
        if term.kind != "product":
            return list(term.below())
        return [self._root(term, b, e) or b for b, e in term.parts]

    def _in_order(self, roots: list[Term]) -> list[Term]:
        """All parts of some terms, each after its own."""
        done: dict[Term, None] = {}
        stack = list(reversed(roots))
        while stack:
            found = stack[-1]
            missing = [] if found in done else [t for t in self._pieces_of(found) if t not in done]
            if missing:
                stack += reversed(missing)
                continue
            done.setdefault(stack.pop())
        return list(done)


def _is_plain(term: Term) -> bool:
    """Whether a term is as short as a name, or a condition."""
    single = term.kind == "sum" and len(term.parts) == 1 and term.parts[0][0].kind in ("symbol", "number")
    return term.kind in ("symbol", "number") or (term.kind == "call" and len(term.parts) == 1) or term.is_condition or single


class Names:
    """Hands out names that nothing else has: a wanted one, numbered where it is taken, else free letters."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._used = {part for name in taken for part in (name, name.partition("[")[0], spelled(name).base)}
        self._arrays = {name.partition("[")[0] for name in taken if "[" in name}
        self._letters = _more_letters()
        self._numbers: dict[str, int] = {}

    def next(self, wanted: str | None) -> str:
        """The next name."""
        if wanted is None or wanted in self._arrays:
            found = next(letter for letter in self._letters if letter not in self._used)
        elif wanted not in self._used:
            found = wanted
        else:
            found = wanted
            while found in self._used:
                self._numbers[wanted] = self._numbers.get(wanted, 0) + 1
                found = f"{wanted}_{self._numbers[wanted]}"
        self._used.add(found)
        return found


def _more_letters() -> Iterator[str]:
    yield from _LETTERS
    for number in count(1):
        for letter in "uvw":
            yield f"{letter}_{number}"
