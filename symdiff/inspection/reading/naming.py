"""Which pieces of a derivation get a name, and which: those that stand at least twice and are long, by the user's variables.

Assumes rows in print order. Guarantees names that nothing else has, pieces of bounded width and depth, and no name for what
stands once, but where a single line would be longer than a page.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from itertools import count
from typing import NamedTuple

from symdiff.inspection.exact import ONCE
from symdiff.inspection.reading.names import latex_name, spelled, unicode_name
from symdiff.inspection.reading.sources import Sources, assigned_values
from symdiff.inspection.reading.terms import ONE, WIDE, ZERO, Term, inside_first, number_width
from symdiff.inspection.reading.written import Writer
from symdiff.ir.graph import Graph, GraphInput
from symdiff.ir.node import Atom

OFTEN = 4  # times from which on a shorter piece is named
FEW = 50  # sums of one first term that others are looked for in
ROOTS = 12  # up to which one is told from a power with a decimal exponent
DIGITS = 18  # characters of a number that is named where it stands twice
SHORT = 5  # printed width of a root or a function that the user has named, from which on it has its name so often
PAGE = 320  # characters of a line beyond which its pieces are named, whether they stand twice or not
DEEP = 24  # the same for nesting
PRIVATE = 0xE000  # the first of Unicode's private letters, which stand for those of pieces until it is known how many there are
_LETTERS = "uvwpqstabcghkmn"


class Piece(NamedTuple):
    """A shared piece: its name as a symbol, and the term that it stands for."""

    symbol: Term
    term: Term


class Naming:
    """Rewrites terms over names of their shared pieces. `own` are the user's names of values, by terms without coefficients,
    each with the coefficient of the value."""

    def __init__(self, writer: Writer, own: Mapping[Term, tuple[str | None, Fraction]], taken: Iterable[str]) -> None:
        self.writer = writer
        self.own = own
        self.names = Names(taken)
        self.pieces: list[Piece] = []
        self._letters: dict[Term, str] = {}  # of pieces that have one of their own, by the symbols that stand for them
        self.constants: frozenset[str] = frozenset()  # the names of pieces that are numbers
        self._within: dict[tuple[str, Term], list[Term]] = {}  # what the user has named, by its first part, the longest first
        self._known_parts: dict[Term, list[tuple[Term, Fraction]]] = {}
        self._look_for(t for t in own if t.width >= min(SHORT, writer.OWN))

    def _look_for(self, terms: Iterable[Term]) -> None:
        """Take sums and products as what longer ones may be made of."""
        self._known_parts.clear()
        for term in terms:
            if term.kind in ("sum", "product") and len(term.parts) > 1 and term.width < WIDE:
                found = self._within.setdefault((term.kind, term.parts[0][0]), [])
                found += [term] if term in self.own or len(found) < FEW else []
        for found in self._within.values():
            found[:] = sorted(dict.fromkeys(found), key=lambda t: (t not in self.own, -t.width))

    def named(self, roots: list[Term]) -> list[Term]:
        """The terms over names; `pieces` has what these stand for, each after those that it uses."""
        order = self._in_order(roots)
        self._look_for(t for t in order if t.kind == "sum" and t.width >= self.writer.long(t, False))
        order = self._in_order(roots)
        uses: dict[Term, int] = dict.fromkeys(order, 0)
        for term in order:
            for piece in self._pieces_of(term):
                uses[piece] += 1
        for root in roots:
            uses[root] += 1
        results = set(roots)
        below = self._denominators(order)
        shown = self._shown(roots, order)
        found: dict[Term, Term] = {}
        for term in order:
            new = found[term] = self._over_names(term, found)
            if _is_plain(new) or term.needs & self.writer.indices or (uses[term] == 1 and term in results):
                continue
            if self.own.get(term, (None,))[0] is not None:
                enough = SHORT if shown[term] >= OFTEN and not _is_polynomial(new) else self.writer.OWN
                twice = shown[term] > 1 and new.width >= enough
            else:
                twice = uses[term] > 1 and new.width >= self.writer.long(term, uses[term] >= OFTEN)
            if twice or new.width > PAGE or new.depth > DEEP:
                found[term] = self._name(term, new, -ONCE if term in below else ONCE)
        self._within.clear()
        self._known_parts.clear()
        return self._with_constants(self._with_letters(self._without_single([found[root] for root in roots])))

    def _shown(self, roots: list[Term], order: list[Term]) -> Counter[Term]:
        """How often each part of some terms stands in them as they are printed, up to some number."""
        shown = Counter(roots)
        for term in reversed(order):
            for piece in self._pieces_of(term):
                shown[piece] = min(shown[piece] + shown[term], OFTEN)
        return shown

    def _with_constants(self, roots: list[Term]) -> list[Term]:
        """The terms with names for numbers of many digits that stand twice."""
        terms = [*(piece.term for piece in self.pieces), *roots]
        counts: Counter[Fraction] = Counter()
        for term in self._in_order(terms):
            counts.update(abs(n) for n in _numbers_of(term) if _has_many_digits(n))
        named = {n: self.writer.symbol(self.names.next("c")) for n, times in counts.items() if times > 1}

        def over_names(term: Term) -> Term | None:
            if not any(abs(n) in named for n in _numbers_of(term)):
                return None
            t = self.writer

            def times(number: Fraction, *rest: Term) -> Term:
                return t.scaled(t.mul([named[abs(number)], *rest]), ONCE if number > 0 else -ONCE)

            if term.kind == "number":
                return times(*term.parts)
            if term.kind == "sum":
                return t.add((times(c, u), ONCE) if abs(c) in named else (u, c) for u, c in term.parts)
            return t.mul(
                t.call("exp", times(e, *b.operands)) if b.op == "exp" and abs(e) in named else t.power(b, e)
                for b, e in term.parts
            )

        if not named:
            return roots
        done: dict[Term, Term] = {}
        found = [self.writer.rewritten(term, over_names, done) for term in terms]
        self.constants = frozenset(symbol.parts[0] for symbol in named.values())
        before = dict(self.pieces)
        self.pieces = [Piece(symbol, term) for symbol, term in zip(before, found, strict=False)]

        def short(symbol: Term, term: Term) -> Term | None:
            """A piece that was long by its digits only."""
            return term if term is not before[symbol] and term.width < self.writer.long(term, True) else None

        roots = self._substituted(found[len(terms) - len(roots) :], short)
        self.pieces[:0] = [Piece(symbol, self.writer.number(n)) for n, symbol in named.items()]
        return roots

    def _substituted(self, roots: list[Term], change: Callable[[Term, Term], Term | None]) -> list[Term]:
        """The terms, and those of pieces, with what `change(symbol, term)` gives in the place of pieces: another symbol, or the
        term itself, so that there is no piece."""
        stands: dict[Term, Term] = {}
        done: dict[Term, Term] = {}
        kept: list[Piece] = []
        for symbol, term in self.pieces:
            term = self.writer.rewritten(term, stands.get, done)
            new = change(symbol, term)
            if new is not None:
                stands[symbol] = new
            if new is not term:
                kept.append(Piece(new or symbol, term))
        self.pieces = kept
        return [self.writer.rewritten(root, stands.get, done) for root in roots]

    def _without_single(self, roots: list[Term]) -> list[Term]:
        """The terms with pieces in their places that, as it turned out, stand once, where that makes no line too long."""
        terms = [*(piece.term for piece in self.pieces), *roots]
        uses = self._shown(terms, self._in_order(terms))

        def single(symbol: Term, term: Term) -> Term | None:
            return term if uses[symbol] == 1 and term.width < PAGE // 2 and term.depth < DEEP else None

        return self._substituted(roots, single)

    def _with_letters(self, roots: list[Term]) -> list[Term]:
        """The terms with letters for pieces that have one of their own, numbered where several have the same."""
        counts = Counter(self._letters[piece.symbol] for piece in self.pieces if piece.symbol in self._letters)
        numbers: Counter[str] = Counter()

        def lettered(symbol: Term, term: Term) -> Term | None:
            letter = self._letters.get(symbol)
            if letter is None:
                return None
            numbers[letter] += 1
            name = letter if counts[letter] == 1 else f"{letter}_{numbers[letter]}"
            return self.writer.standing(self.names.next(name), term)

        return self._substituted(roots, lettered)

    def _denominators(self, order: list[Term]) -> set[Term]:
        """Exponentials that stand with negative exponents only: the others are named."""
        below: set[Term] = set()
        above: set[Term] = set()
        for term in order:
            for piece, exponent in self._weighed(term):
                (below if term.kind == "product" and exponent < 0 else above).add(piece)
        return {t for t in below - above if _base(t).op == "exp" and t not in self.own}

    def _name(self, term: Term, new: Term, power: Fraction) -> Term:
        name, times = self.own.get(term, (None, ONCE))
        if power < 0:
            return self.writer.power(self._name(self.writer.power(term, power), self.writer.power(new, power), ONCE), power)
        letter = None if name else self.writer.letter(term)
        symbol = self.writer.standing(chr(PRIVATE + len(self.pieces)) if letter else self.names.next(name), new)
        if letter is not None:
            self._letters[symbol] = letter
        self.pieces.append(Piece(symbol, self.writer.scaled(new, times)))
        return self.writer.scaled(symbol, 1 / times)

    def _over_names(self, term: Term, found: Mapping[Term, Term]) -> Term:
        """A term over the names of its parts."""
        if term.kind not in ("product", "sum"):
            return self.writer.rebuilt(term, found)
        parts = [(found[piece], times) for piece, times in self._weighed(term)]
        return self.writer.powers(parts) if term.kind == "product" else self.writer.add(parts)

    def _weighed(self, term: Term) -> list[tuple[Term, Fraction]]:
        """The parts of a term as they are printed, with their exponents in a product, and their coefficients in a sum."""
        if term.kind not in ("product", "sum"):
            return [(part, ONCE) for part in term.below()]
        if term not in self._known_parts:
            self._known_parts[term] = self._factors(term) if term.kind == "product" else self._summands(term)
        return self._known_parts[term]

    def _pieces_of(self, term: Term) -> list[Term]:
        """The parts of a term as they are printed."""
        return [piece for piece, _ in self._weighed(term)]

    def _candidates(self, term: Term) -> list[Term]:
        """What the user has named that may be a part of a sum or product."""
        found = {p: None for base, _ in term.parts for p in self._within.get((term.kind, base), ())}
        return [
            p for p in found if len(p.parts) < len(term.parts) or (len(p.parts) == len(term.parts) and p.place < term.place)
        ]

    def _summands(self, term: Term) -> list[tuple[Term, Fraction]]:
        """The terms of a sum: sums that the user has named, then what is left."""
        left = dict(term.parts)
        summands: list[tuple[Term, Fraction]] = []
        for total in self._candidates(term):
            first, c = total.parts[0]
            times = left.get(first, Fraction(0)) / c
            named = self.own.get(total, (None,))[0] is not None or self.writer.is_array(total)
            if times and (abs(times) == 1 or named) and all(left.get(t) == k * times for t, k in total.parts):
                summands.append((total, times))
                for t, _ in total.parts:
                    del left[t]
        return [*summands, *left.items()]

    def _factors(self, term: Term) -> list[tuple[Term, Fraction]]:
        """The factors of a product with whole exponents: products that the user has named, of sqrt(b)**-3 the root, not b."""
        powers = dict(term.parts)
        factors: list[tuple[Term, Fraction]] = []
        for product in self._candidates(term):
            times = _times(product, powers) if product is not term else 0
            if times:
                factors.append((product, Fraction(times)))
                for base, exponent in product.parts:
                    powers[base] -= times * exponent
        for base, exponent in powers.items():
            root = self._root(term, base, exponent)
            if root is not None:
                factors.append((root, exponent * exponent.denominator))
            elif exponent:
                factors.append((base, exponent))
        return factors

    def _root(self, term: Term, base: Term, exponent: Fraction) -> Term | None:
        """The root that a power of a factor is one of; None where it is none, or is the term itself."""
        if not 1 < exponent.denominator <= ROOTS:
            return None
        root = self.writer.power(base, Fraction(1, exponent.denominator))
        return None if root is term or root.kind != "product" or len(root.parts) != 1 else root

    def _in_order(self, roots: list[Term]) -> list[Term]:
        """All parts of some terms, each after its own."""
        done: dict[Term, None] = {}
        for root in roots:
            done |= ((t, None) for t in inside_first(root, done, lambda term: self._pieces_of(term)[::-1]))
        return list(done)


def _is_polynomial(term: Term) -> bool:
    """Whether it is made of symbols and numbers by sums, products and whole powers."""
    powers = term.parts if term.kind == "product" else ()
    whole = term.kind not in ("call", "brace") and all(e.denominator == 1 for _, e in powers)
    return whole and all(map(_is_polynomial, term.below()))


def _base(term: Term) -> Term:
    """What a term is a power of."""
    return term.parts[0][0] if term.kind == "product" and len(term.parts) == 1 else term  # type: ignore[no-any-return]


def _has_many_digits(value: Fraction) -> bool:
    return number_width(abs(value)) >= DIGITS and len(f"{float(value):.15g}") >= DIGITS


def _numbers_of(term: Term) -> list[Fraction]:
    """The numbers that are printed with a term and are no parts of its parts."""
    if term.kind == "number":
        return [term.parts[0]]
    if term.kind == "sum":
        return [c for _, c in term.parts]
    return [e for b, e in term.parts if b.op == "exp"] if term.kind == "product" else []


def _times(product: Term, powers: Mapping[Term, Fraction]) -> int:
    """How often a product is a factor of some powers, its inverse -1 times; 0 where it is none."""
    found = [int(powers.get(b, Fraction(0)) / e) for b, e in product.parts]
    nearest = min(found, key=abs)
    return nearest if min(found) > 0 or max(found) < 0 else 0


def _is_plain(term: Term) -> bool:
    """Whether a term is as short as a name, or a condition."""
    if term.kind == "brace":  # Iverson's bracket
        return len(term.parts) == 2 and term.parts[0][1] is ONE and term.parts[1][1] is ZERO
    is_name = term.multiple[0].kind in ("symbol", "number") or (term.kind == "call" and not term.operands)
    return is_name or term.is_condition


class Names:
    """Hands out names that are shown as nothing else is, nor as a cell of an array: a wanted one, numbered where it is taken,
    else free letters. Arrays are known by their cells: `v[0]`, or `v[]`."""

    def __init__(self, taken: Iterable[str]) -> None:
        names = dict.fromkeys(part for name in taken for part in (name, name.partition("[")[0], spelled(name).base))
        self._used = {text for name in names for text in _shown(name)}
        self._arrays = {text for name in names if "[" in name for text in _shown(name.partition("[")[0])}
        self._letters = self._more_letters()
        self._numbers: dict[str, int] = {}

    def next(self, wanted: str | None) -> str:
        """The next name."""
        if wanted is None or self._is_of_array(wanted):
            found = next(letter for letter in self._letters if not _shown(letter) & self._used)
        else:
            found = wanted
            while _shown(found) & self._used:
                self._numbers[wanted] = self._numbers.get(wanted, 0) + 1
                found = f"{wanted}_{self._numbers[wanted]}"
        self._used |= _shown(found)
        return found

    def _is_of_array(self, name: str) -> bool:
        """Whether a name is that of an array, or is shown as a cell of one."""
        return any(_shown(part) & self._arrays for part in (name, name.partition("_")[0], spelled(name).base))

    def _more_letters(self) -> Iterator[str]:
        yield from _LETTERS
        stems = [stem for stem in "uvw" if not self._is_of_array(stem)]
        stems = stems or [next(stem for k in count(2) if not self._is_of_array(stem := "u" * k))]
        for number in count(1):
            yield from (f"{stem}_{number}" for stem in stems)


def _shown(name: str) -> set[str]:
    """What readers see of a name."""
    return {latex_name(name), unicode_name(name)}


def own_names(graph: Graph, known: Mapping[Atom, Term], sources: Sources) -> dict[Term, tuple[str, Fraction]]:
    """The names that the user has given to values, at their terms without a coefficient."""
    order = {b: k for k, b in enumerate(graph.bindings)}
    names: dict[Term, tuple[str, Fraction]] = {}
    for values in assigned_values(graph, sources, known).values():
        pairs = [(order[b], name, b) for name, bindings in values.items() for b in bindings]
        for _, name, b in sorted(pairs, key=lambda pair: pair[0]):
            term, times = known[b].multiple
            if term.kind not in ("symbol", "number"):
                names.setdefault(term, (name, times))
    return names


def numbered_names(names: dict[Term, tuple[str, Fraction]]) -> dict[Term, tuple[str, Fraction]]:
    """The names of values, with numbers where a variable takes several: in their order."""
    counts = Counter(name for name, _ in names.values())
    numbers: Counter[str] = Counter()
    found = {}
    for term, (name, times) in names.items():
        numbers[name] += 1
        found[term] = (f"{name}_{numbers[name]}" if counts[name] > 1 else name), times
    return found


def input_names(inputs: tuple[GraphInput, ...]) -> list[str]:
    """The names that readers see: of an attribute or a key its own, where no other input has it."""
    short = [_last(leaf.path) or leaf.name for leaf in inputs]
    return [name if short.count(name) == 1 else leaf.name for name, leaf in zip(short, inputs, strict=True)]


def _last(path: str) -> str:
    """The attribute, key or name that a path ends with: semi_major of p.semi_major, k of p['k']; "" for a position."""
    tail = path.rpartition(".")[2]
    if tail.endswith("]"):
        key = tail[tail.rfind("[") + 1 : -1].strip("'\"")
        return key if key.isidentifier() else ""
    return tail if tail.isidentifier() else ""
