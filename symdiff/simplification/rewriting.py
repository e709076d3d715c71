"""Bindings as the sweeps see them, by the rows of the table of rewrites: sqrt(x*x) is |x|, a*sqrt(s)*b*sqrt(s) is a*s*b.

Assumes bindings in order. Guarantees the same values where these are real, and derivatives of every order where the form that
was written has a kink, a vertical slope or an overflow and its value has none. What the user wrote is computed as it stands.
Each operation is rewritten at most once, what comes of it has fewer roots: a rewrite ends.
"""

import itertools
import operator
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np

from symdiff.ir.arrays.algebra import Arrays
from symdiff.ir.building import Builder, is_constant
from symdiff.ir.invariants import binding_with
from symdiff.ir.node import Atom, Constant, Node, Seen
from symdiff.rulebooks.calls import extreme_by_rule
from symdiff.rulebooks.rewrites import COMPLEX, CONSTANTS, Rewrite, rewrite_rules
from symdiff.rulebooks.rule import apply
from symdiff.simplification.facts import Facts
from symdiff.simplification.intervals import known_exponent
from symdiff.vocabulary.ops import OPS, is_complex
from symdiff.vocabulary.traits import operations

_LONG = 16  # factors of a product that are looked at
_ROOTS = operations("root")
_TRIED = operations("in_forms")  # one of these, or a root, is in every form
_SCALING = operations("scales")
_NUMBERS = {name: getattr(operator, name) for name in ("add", "mul", "mod", "eq", "gt", "ge", "lt", "le")}
ZERO = Constant(0.0)
Found = dict[str, Any]  # what the variables of a form stand for: values, and numbers


class Forms:
    """Matches the forms of rows on values; multiples and equal values are told by `facts`, operations by `made`."""

    def __init__(self, made: dict[Atom, Node], facts: Facts) -> None:
        self.made = made
        self.facts = facts

    def first(self, binding: Node, partials: bool) -> tuple[Rewrite, Found] | None:
        """The first row of this kind whose form a binding has."""
        for row in rewrite_rules(_head(binding)):
            if bool(row.partials) is partials:
                for found in self.matches(row, row.form.result, binding.result, {}):
                    if self.holds(row, found):
                        return row, found
        return None

    def holds(self, row: Rewrite, found: Found) -> bool:
        """Whether the conditions of a row hold."""
        plain = not any(self.facts.of(found[x]).powers for x in row.plain)
        return plain and all(self._compares(row, c, found) for c in row.where)

    def _compares(self, row: Rewrite, condition: Any, found: Found) -> bool:
        end = "high" if condition.steps[-1][0] in ("le", "lt") else "low"
        values = [getattr(self.facts.of(v), end) if isinstance(v, Node) else v for v in map(found.__getitem__, row.parameters)]
        return bool(apply(condition, tuple(values), None, _computed))

    def matches(self, row: Rewrite, ref: int, atom: Atom, found: Found) -> Iterator[Found]:
        """What the variables stand for where step `ref` of a row's form is a value, with those found so far."""
        count = len(row.parameters)
        if ref < count:
            yield from self._bound(row.parameters[ref], atom, found)
            return
        op, refs, payload = row.form.steps[ref - count - 1]
        made = self.made.get(atom)
        name = row.parameters[refs[-1]] if op == "pow" and refs[-1] < count else ""
        if op == "const":
            yield from [found] if is_constant(atom, payload) else []
        elif op == "mul" and refs[0] < count and row.parameters[refs[0]] in CONSTANTS:
            yield from self._multiples(row, refs, atom, found)
        elif name in CONSTANTS and name:
            for base, power in self._powers(atom, made):
                if found.get(name, power) == power:
                    yield from self.matches(row, refs[0], base, found | {name: power})
        elif made is not None and _head(made) == op:
            orders = [made.operands, made.operands[::-1]] if OPS[op].commutes else [made.operands]
            for operands in orders:
                yield from self.all_match(row, refs, operands, found)

    def all_match(self, row: Rewrite, refs: tuple[int, ...], atoms: tuple[Atom, ...], found: Found) -> Iterator[Found]:
        """The same for several steps and values."""
        if not refs:
            yield found
            return
        for first in self.matches(row, refs[0], atoms[0], found):
            yield from self.all_match(row, refs[1:], atoms[1:], first)

    def _bound(self, name: str, atom: Atom, found: Found) -> Iterator[Found]:
        if name in CONSTANTS:
            number = isinstance(atom, Constant) and not isinstance(atom.value, bool)
            if number and isinstance(atom.value, complex) is (name in COMPLEX) and found.get(name, atom.value) == atom.value:
                yield found | {name: atom.value}
        elif name in found:
            other = found[name]
            yield from [found] if other.shape == atom.shape and self.facts.same(other, atom) else []
        elif is_complex(atom.dtype or "d") is (name in COMPLEX):
            yield found | {name: atom}

    def _multiples(self, row: Rewrite, refs: tuple[int, ...], atom: Atom, found: Found) -> Iterator[Found]:
        """A multiple of the second factor by the first, a constant."""
        constant, of = row.parameters[refs[0]], refs[1]
        if constant in COMPLEX:
            made = self.made.get(atom)
            for pair in (made.operands, made.operands[::-1]) if made is not None and made.op == "mul" else ():
                yield from self.all_match(row, refs, pair, found)
        elif of >= len(row.parameters) and row.form.steps[of - len(row.parameters) - 1][0] != "mul":
            base, factor = self.facts.multiple(atom)
            yield from (other | {constant: factor} for other in self.matches(row, of, base, found))
        elif of >= len(row.parameters):
            square = self._square(atom)
            if square is not None:
                squared = row.form.steps[of - len(row.parameters) - 1][1][0]
                yield from self._bound(row.parameters[squared], square[0], found | {constant: square[1]})
        elif (name := row.parameters[of]) in found:
            factor = self.facts.ratio(atom, found[name])
            if factor is not None and (atom.shape, atom.dtype) == (found[name].shape, found[name].dtype):
                yield found | {constant: factor}

    def _powers(self, atom: Atom, made: Node | None) -> Iterator[tuple[Atom, float]]:
        """A real value as powers of others with constant exponents."""
        if atom.op == "const" or is_complex(atom.dtype or "d"):
            return
        if made is not None and made.op == "sqrt":
            yield made.operands[0], 0.5
        elif made is not None and made.op == "pow" and self.facts.exponent(made):
            yield made.operands[0], self.facts.exponent(made)
        elif made is not None and made.op == "mul" and self.facts.same(*made.operands):
            yield made.operands[0], 2
        yield atom, 1

    def _square(self, under: Atom) -> tuple[Atom, float] | None:
        """x and c of c*x*x, a product of multiples of one value."""
        product, factor = self.facts.multiple(under)
        made = self.made.get(product, product)
        pair = made.operands if made.op == "mul" else made.operands[:1] * 2 if self.facts.exponent(made) == 2 else ()
        (base, first), (other, second) = map(self.facts.multiple, pair or (under, ZERO))
        return (base, factor * first * second) if base.shape == other.shape and self.facts.same(base, other) else None


def _computed(op: str, numbers: tuple[Any, ...], payload: Any) -> Any:
    """A step of a condition."""
    return payload if op == "const" else _NUMBERS[op](*numbers)


def _head(made: Node) -> str:
    """What an operation is in the table: Python's own extremes of two numbers are NumPy's."""
    return made.op if made.op != "call" or len(made.operands) != 2 else extreme_by_rule(made)


def _is_root(made: Node) -> bool:
    """Whether an operation is a root, or a power with a fraction in its exponent."""
    power = known_exponent(made.operands[1]) if made.op == "pow" else 0.0
    return made.op in _ROOTS or (power > 0 and power % 1 > 0)


def row_partials(row: Rewrite, found: Found, binding: Node, builder: Builder) -> list[tuple[Atom, Atom]]:
    """The values that a form is made of and the partials by them, but for those that are the operation's own."""
    values = tuple(v if isinstance(v, Node) else Constant(v) for v in (found[name] for name in row.parameters))
    moving = [found[name] for name in row.parameters if name not in CONSTANTS]
    emit = partial(emit_folded, builder)
    pairs = zip(moving, row.partials, strict=True)
    return [(x, apply(formula, values, binding.result, emit)) for x, formula in pairs if formula is not None]


def emit_folded(b: Builder, op: str, operands: tuple[Atom, ...], payload: Any = None) -> Atom:
    """An operation of a row: constants folded, structural zeros and ones left out."""
    if op == "const":
        return Constant(payload)
    if all(isinstance(o, Constant) for o in operands):
        value = np.asarray(OPS[op].function()(*(o.params for o in operands))).item()
        return Constant(int(value) if not isinstance(value, complex) and value % 1 == 0 else value)
    if op == "mul" and any(is_constant(o, 0) for o in operands):
        return Constant(0.0)
    return b.folded(op, operands)


def replaced(bindings: Iterable[Node], builder: Builder, seen: Callable[[Node], Atom | Seen | None]) -> list[Node]:
    """The bindings, in place of which a value or a binding may be seen; new symbols are bound on the builder."""
    found: list[Node] = []
    start = len(builder.bindings)
    for binding in bindings:
        builder.at(binding)
        other = seen(binding)
        if other is not None and not isinstance(other, Seen):
            whole = Arrays(builder, binding.origin).broadcast_to(builder.cast(other, binding.dtype), binding.shape)
            other = binding_with(binding, "cast", (whole,))
        found += [*builder.bindings[start:], binding if other is None else other]
        start = len(builder.bindings)
    return found


def rewritten(facts: Facts, builder: Builder) -> list[Node]:
    """The bindings as the sweeps see them; new symbols are bound on the builder."""
    tried = any(b.op in _TRIED or b.op == "call" or _is_root(b) for b in facts.bindings)
    return _Rewriting(facts, builder).run() if tried else facts.bindings


class _Rewriting:
    def __init__(self, facts: Facts, builder: Builder) -> None:
        self.builder = builder
        self.made = facts.made  # where what is seen takes the place of what was written
        self.facts = facts
        self.forms = Forms(self.made, self.facts)
        self.rooted: set[Atom] = set()  # what has a root among its factors

    def run(self) -> list[Node]:
        return replaced(self.facts.bindings, self.builder, self._replaced)

    def _replaced(self, binding: Node) -> Seen | None:
        self._note(binding)
        other = self._seen(binding)
        seen = None if other is None else self._renamed(other, binding)
        if seen is not None:
            self._note(seen)
        return seen

    def _note(self, binding: Node) -> None:
        self.made[binding.result] = binding
        scaled = binding.operands[: 1 if binding.op == "div" else 2] if binding.op in _SCALING else ()
        if _is_root(binding) or not self.rooted.isdisjoint(scaled):
            self.rooted.add(binding.result)
        else:
            self.rooted.discard(binding.result)

    def _seen(self, binding: Node) -> Atom | None:
        """What a binding is for the sweeps; None where that is what it is."""
        if binding.op in ("mul", "pow") and self.rooted.isdisjoint((binding.result, *binding.operands)):
            return None
        if binding.op == "mul":
            return self._product(binding)
        found = self.forms.first(binding, partials=False)
        return None if found is None else self._built(*found)

    def _product(self, product: Node) -> Atom | None:
        """A product in which the first pair of factors that has a form is replaced; None where there is none."""
        factors = self._factors(product)
        plain = [k for k, (op, _) in enumerate(factors) if op == "mul"]
        for first, second in itertools.permutations(plain, 2):
            pair = factors[first][1], factors[second][1]
            for row in rewrite_rules("mul") if _is_root(self.facts.node(pair[0])) else ():
                refs = row.form.steps[row.form.result - len(row.parameters) - 1][1]
                for found in self.forms.all_match(row, refs, pair, {}):
                    if self.forms.holds(row, found):
                        rest = [f for k, f in enumerate(factors) if k not in (first, second)]
                        return self._multiplied(self._built(row, found), rest)
        return None

    def _factors(self, product: Node) -> list[tuple[str, Atom]]:
        """The factors and divisors of a product, each with "mul", "div" or, for a sign, "neg"."""
        found: list[tuple[str, Atom]] = []
        pending: list[Atom] = [product.result]
        while pending:
            atom = pending.pop()
            binding = self.made.get(atom) if atom in self.rooted else None
            if binding is None or binding.op not in ("mul", "neg", "div") or len(found) + len(pending) > _LONG:
                found.append(("mul", atom))
                continue
            pending += reversed(binding.operands[: 2 if binding.op == "mul" else 1])
            found += [("neg", atom)] if binding.op == "neg" else [("div", binding.operands[1])] if binding.op == "div" else []
        return found

    def _multiplied(self, whole: Atom, rest: list[tuple[str, Atom]]) -> Atom:
        for op, atom in rest:
            whole = self._bound(op, (whole,) if op == "neg" else (whole, atom))
        return whole

    def _built(self, row: Rewrite, found: Found) -> Atom:
        """What a form becomes."""
        assert row.becomes is not None
        values = tuple(v if isinstance(v, Node) else Constant(v) for v in (found[name] for name in row.parameters))
        return apply(row.becomes, values, None, self._emit)

    def _emit(self, op: str, operands: tuple[Atom, ...], payload: Any = None) -> Atom:
        """An operation as it is seen, in whose place another one may be seen."""
        b = self.builder
        if op == "pow" and (is_constant(operands[1], 1) or is_constant(operands[1], 2)):
            return operands[0] if operands[1].params == 1 else self._emit("mul", (operands[0], operands[0]))
        made = self._bound(op, operands, payload)
        other = self._seen(b.bindings[-1]) if b.bindings and b.bindings[-1] is made else None
        return made if other is None else other

    def _bound(self, op: str, operands: tuple[Atom, ...], payload: Any = None) -> Atom:
        """An operation of known operands."""
        start = len(self.builder.bindings)
        made = emit_folded(self.builder, op, operands, payload)
        for binding in self.builder.bindings[start:]:
            self._note(binding)
        return made

    def _renamed(self, found: Atom, binding: Node) -> Seen:
        """The binding of what was found, under the symbol of `binding` where what was written does not overflow before it."""
        bindings = self.builder.bindings
        if bindings and bindings[-1].result is found and not any(map(self.facts.is_explosive, binding.operands)):
            last = bindings.pop()
            if last.shape == binding.shape and last.dtype == binding.dtype:
                return binding_with(binding, last.op, last.operands, last.params)
            bindings.append(last)
        if found.shape != binding.shape:
            found = Arrays(self.builder, binding.origin).broadcast_to(found, binding.shape)
        return binding_with(binding, "cast", (found,))
