"""Values as sums of multiples of others and of the size of one such sum: max(x, min(x, y)) is x, max(x, -x) the size of x.

Assumes bindings in order. Guarantees the same values where those that are compared are numbers, and that kinks of kinks which
tie together are one kink, or none. What has kinks in several directions counts as a value of its own.
"""

from typing import NamedTuple

from symdiff.ir.arrays.algebra import Arrays
from symdiff.ir.building import Builder
from symdiff.ir.invariants import binding_with
from symdiff.ir.node import Atom, Constant, Node
from symdiff.rulebooks.calls import extreme_by_rule
from symdiff.simplification.facts import Facts
from symdiff.simplification.interning import worked_out
from symdiff.vocabulary.ops import OPS
from symdiff.vocabulary.traits import operations

_MANY = 8  # values in a sum
KINDS = {"abs": "abs", "max": "max", "min": "min", "fmax": "max", "fmin": "min"}
_FOLLOWED = operations("linear", "scales") & OPS.keys()
Terms = dict[int | None, float]  # factors by the numbers of values, that of 1 by None
Direction = tuple[tuple[int | None, float], ...]  # a sum whose first factor is 1


class Form(NamedTuple):
    """A sum, and a multiple of the size of another one."""

    terms: Terms
    kink: Direction = ()
    size: float = 0.0


class Piecewise:
    """The forms of the values of a list of bindings, and of others that are noted in `made`."""

    def __init__(self, facts: Facts, made: dict[Atom, Node]) -> None:
        self.facts = facts
        self.made = made
        self.atoms: dict[int, Atom] = {}
        self._forms: dict[Atom, Form] = {}

    def of(self, atom: Atom) -> Form:
        """What a value is a sum of."""
        return worked_out(atom, self._forms, self._parts, self._form)  # type: ignore[no-any-return]

    def _parts(self, atom: Atom) -> tuple[Atom, ...]:
        made = self.made.get(atom)
        is_followed = made is not None and made.dtype in "fd" and (made.op in _FOLLOWED or kind_of(made))
        return made.operands if is_followed else ()  # type: ignore[union-attr]

    def _form(self, atom: Atom) -> Form:
        if isinstance(atom, Constant) and isinstance(atom.value, (int, float)) and abs(atom.value) < 1e300:
            return Form({None: float(atom.value)} if atom.value else {})
        parts = [self._forms[o] for o in self._parts(atom)]
        found = self._computed(self.made[atom], parts) if parts else None
        if found is not None and len(found.terms) <= _MANY:
            return found
        number = self.facts.number(atom)
        self.atoms.setdefault(number, atom)
        return Form({number: 1.0})

    def _computed(self, made: Node, parts: list[Form]) -> Form | None:
        op, kind = made.op, kind_of(made)
        if kind:
            a, b = parts if kind != "abs" else (parts[0], combined(parts[0], None, -1.0, 0.0))
            return extreme(a, b, -1.0 if kind == "min" else 1.0)  # type: ignore[arg-type]
        if op in ("add", "sub"):
            return combined(*parts, 1.0, 1.0 if op == "add" else -1.0)
        if op in ("neg", "cast"):
            return combined(parts[0], None, -1.0 if op == "neg" else 1.0, 0.0)
        if op not in ("mul", "div"):
            return None
        factors = [p.terms[None] if p.terms.keys() == {None} and not p.size else 0.0 for p in parts]
        place = next((k for k, c in enumerate(factors) if c and (k or op == "mul")), None)
        if place is None:
            return None
        return combined(parts[1 - place], None, factors[place] if op == "mul" else 1 / factors[place], 0.0)

    def emitted(self, builder: Builder, form: Form) -> Atom:
        """A form as operations."""
        found = self._sum(builder, form.terms)
        size = builder.emit("abs", (self._sum(builder, dict(form.kink)),)) if form.size else None
        return found if size is None else builder.add(found, builder.mul(Constant(form.size), size))

    def _sum(self, b: Builder, terms: Terms) -> Atom:
        found: Atom | None = None
        for n, c in terms.items():
            term = Constant(c) if n is None else b.mul(Constant(c), self.atoms[n])
            found = term if found is None else b.add(found, term)
        return Constant(0.0) if found is None else found


def kind_of(binding: Node) -> str:
    """Which kink of a value, or of two, a binding is; "" for others."""
    is_call = binding.op == "call" and len(binding.operands) == 2
    return extreme_by_rule(binding) if is_call else KINDS.get(binding.op, "")


def combined(a: Form, b: Form | None, first: float, second: float) -> Form | None:
    """A sum of multiples of two forms; None where their kinks have two directions."""
    if b is None:
        b = Form({})
    if a.size and b.size and a.kink != b.kink:
        return None
    keys = [*a.terms, *(n for n in b.terms if n not in a.terms)]
    terms = {n: c for n in keys if (c := first * a.terms.get(n, 0.0) + second * b.terms.get(n, 0.0))}
    size = first * a.size + second * b.size
    return Form(terms, (a.kink or b.kink) if size else (), size)


def extreme(a: Form, b: Form, sign: float) -> Form | None:
    """The larger of two forms, or, of the sign -1, the smaller one; None where there are kinks in two directions."""
    gap = combined(a, b, sign, -sign)
    if gap is None:
        return None
    direction, scale = directed(gap.terms)
    if gap.size and not (gap.terms and direction != gap.kink):
        direction = gap.kink
    elif gap.size:
        return None
    elif not direction:
        return a if gap.terms.get(None, 0.0) >= 0 else b
    along, back = gap.size + scale, gap.size - scale
    if along * back >= 0:
        return a if along + back >= 0 else b
    if any(f.size and f.kink != direction for f in (a, b)):
        return None
    sides = [_beside(f, direction, side) for f, side in zip((a, b) if along > 0 else (b, a), (1.0, -1.0), strict=True)]
    half, mean = combined(*sides, 0.5, -0.5), combined(*sides, 0.5, 0.5)
    return Form(mean.terms, direction, directed(half.terms)[1])  # type: ignore[union-attr]


def _beside(form: Form, direction: Direction, side: float) -> Form:
    """A form on one side of its kink."""
    return combined(Form(form.terms), Form(dict(direction)), 1.0, side * form.size)  # type: ignore[return-value]


def directed(terms: Terms) -> tuple[Direction, float]:
    """The direction of a sum, and the multiple of it that the sum is; none where it is constant."""
    numbers = sorted(n for n in terms if n is not None)
    if not numbers:
        return (), 0.0
    scale = terms[numbers[0]]
    last = terms.get(None, 0.0) / scale
    return (*((n, terms[n] / scale) for n in numbers), *([(None, last)] if last else [])), scale


def flattened(facts: Facts, builder: Builder) -> list[Node]:
    """The bindings with kinks of kinks that tie together as one kink, or none; new symbols are bound on the builder."""
    pieces = Piecewise(facts, facts.made)
    found: list[Node] = []
    for binding in facts.bindings:
        kind = kind_of(binding) if binding.primal else ""
        form = pieces.of(binding.result) if kind else None
        is_one = form is None or form.terms == {facts.number(binding.result): 1.0}
        if is_one or (form.size and not any(pieces.of(o).size for o in binding.operands)):  # type: ignore[union-attr]
            found.append(binding)
            continue
        builder.at(binding)
        start, outer, builder.primal = len(builder.bindings), builder.primal, False
        seen = builder.cast(pieces.emitted(builder, form), binding.dtype)
        seen = Arrays(builder, binding.origin).broadcast_to(seen, binding.shape)
        builder.primal = outer
        found += builder.bindings[start:]
        found.append(binding_with(binding, "cast", (seen,)))
    return found
