"""Which pieces of a derivation get a name, and which: those that stand at least twice and are long, by the user's variables.

Assumes rows in print order. Guarantees names that nothing else has, pieces of bounded width and depth, and no name for what
stands once, but where a single line would be longer than a page.
"""

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction

from symdiff.inspection.reading.names import spelled
from symdiff.inspection.reading.terms import WIDE, Term, Terms

LONG = 28  # printed characters of a piece that is named where it stands twice
OWN = 14  # the same for one that the user has named
PAGE = 600  # characters of a line beyond which its pieces are named, whether they stand twice or not
DEEP = 24  # the same for nesting
_LETTERS = "uvwpqstabcghkmn"


def pieces_of(term: Term, terms: Terms) -> Iterator[Term]:
    """The parts of a term as they are printed: of sqrt(b)**-3 the root, not b."""
    if term.kind != "product":
        yield from term.below()
        return
    for base, exponent in term.parts:
        if exponent.denominator > 1 and not (len(term.parts) == 1 and exponent == Fraction(1, exponent.denominator)):
            yield terms.power(base, Fraction(1, exponent.denominator))
        else:
            yield base


def in_order(roots: Iterable[Term], terms: Terms) -> list[Term]:
    """All parts of some terms, each after its own."""
    done: dict[Term, None] = {}
    stack = list(reversed(list(roots)))
    while stack:
        found = stack[-1]
        missing = [] if found in done else [t for t in pieces_of(found, terms) if t not in done]
        if missing:
            stack += reversed(missing)
            continue
        done.setdefault(stack.pop())
    return list(done)


def shared_pieces(roots: list[Term], terms: Terms, own: Mapping[Term, str]) -> list[Term]:
    """The pieces that get a name, each after those that it uses; `own` has those that the user has named."""
    order = in_order(roots, terms)
    uses: dict[Term, int] = dict.fromkeys(order, 0)
    for term in order:
        for piece in pieces_of(term, terms):
            uses[piece] += 1
    for root in roots:
        uses[root] += 1
    width: dict[Term, int] = {}
    depth: dict[Term, int] = {}
    named: list[Term] = []
    for term in order:
        pieces = list(pieces_of(term, terms))
        shorter = sum(t.width - width[t] for t in pieces)
        wide = min(WIDE, max(1, term.width - shorter)) if term.width < WIDE else sum(width[t] + 2 for t in pieces)
        deep = 1 + max((depth[t] for t in pieces), default=0)
        plain = term.kind in ("symbol", "number") or (term.kind == "call" and len(term.parts) == 1) or term.is_condition
        twice = uses[term] > 1 and wide >= (OWN if term in own else LONG)
        if not plain and (twice or wide > PAGE or deep > DEEP) and not (uses[term] == 1 and term in roots):
            named.append(term)
            wide, deep = 2, 0
        width[term], depth[term] = wide, deep
    return named


def letters(named: list[Term], own: Mapping[Term, str], taken: Iterable[str]) -> dict[Term, str]:
    """A name for each piece: the user's own, with a number where several values had it; else a free letter."""
    used = {part for name in taken for part in (name, name.partition("[")[0], spelled(name).base)}
    cells = {name.partition("[")[0] for name in taken if "[" in name}
    counts: dict[str, int] = {}
    for term in named:
        if term in own:
            counts[own[term]] = counts.get(own[term], 0) + 1
    found: dict[Term, str] = {}
    numbers: dict[str, int] = {}
    free = (letter for letter in _more_letters() if letter not in used and letter.partition("_")[0] not in {*cells, *counts})
    for term in named:
        name = own.get(term)
        if name is None or name in cells or (counts[name] > 1 and not spelled(name).base):
            found[term] = next(free)
        elif counts[name] == 1 and name not in used:
            found[term] = name
        else:
            numbers[name] = numbers.get(name, 0) + 1
            while f"{name}_{numbers[name]}" in used:
                numbers[name] += 1
            found[term] = f"{name}_{numbers[name]}"
        used.add(found[term])
    return found


def _more_letters() -> Iterator[str]:
    yield from _LETTERS
    number = 1
    while True:
        for letter in "uvw":
            yield f"{letter}_{number}"
        number += 1
