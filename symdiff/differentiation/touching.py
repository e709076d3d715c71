"""Kinks whose operands touch where they tie: second derivatives there are those of neither, nor their mean.

Assumes bindings in order, with the shares of kinks that a sweep has made, and operands that few elementwise operations make of
few inputs. Guarantees that a share has a derivative that is NaN where the operands' slopes by all inputs are equal, too, and
their second derivatives are not: an extreme of x*x and y*y may be either beside zero. Where the operands cross, the share is
its row's. Kinks that tie in one direction turn together.
"""

from collections.abc import Iterable
from functools import reduce
from itertools import combinations, combinations_with_replacement, starmap
from typing import NamedTuple

from symdiff.differentiation.partials import ZERO, Partials
from symdiff.ir.arrays.algebra import Arrays
from symdiff.ir.building import is_constant
from symdiff.ir.invariants import binding_with
from symdiff.ir.node import Atom, Constant, Node
from symdiff.simplification.activity import active_symbols
from symdiff.simplification.interning import worked_out
from symdiff.simplification.sign_factors import sides_of
from symdiff.vocabulary.ops import OPS, is_complex

_OPERATIONS, _INPUTS = 16, 3


class Gap(NamedTuple):
    """The difference of what a kink compares, and its slopes by the inputs."""

    value: Atom
    inputs: list[Atom]
    slopes: list[Atom]


class Touching:
    """The slopes of what kinks compare."""

    def __init__(self, partials: Partials, wrt: Iterable[Atom]) -> None:
        self.partials = partials
        self.builder = partials.builder
        self.facts = partials.facts
        self.moving = active_symbols(partials.facts.bindings, wrt)
        self._slopes: dict[tuple[Atom, Atom], Atom] = {}
        self._gaps: dict[tuple[Atom, Atom], Gap | None] = {}

    def guarded(self) -> list[Node]:
        """The bindings with such derivatives of shares."""
        b, found = self.builder, list[Node]()
        for binding in self.facts.bindings:
            sides = None if binding.primal or is_complex(binding.dtype) else sides_of(self.facts.made, binding)
            start, outer, b.primal = len(b.bindings), b.primal, False
            b.at(binding)
            touch = self._touch(sides[:2]) if sides is not None else None
            if touch is not None:
                share = b.bind(binding.op, binding.operands, binding.shape, binding.dtype, binding.params)
                gap = self._gap(sides[:2]).value  # type: ignore[index, union-attr]
                unknown = b.select(touch, b.emit("edge", (gap,)), ZERO)
                total = Arrays(b, binding.origin).broadcast_to(b.emit("add", (share, unknown)), binding.shape)
                binding = binding_with(binding, "cast", (b.cast(total, binding.dtype),))
            b.primal = outer
            found += [*b.bindings[start:], binding]
        return found

    def _touch(self, pair: tuple[Atom, Atom]) -> Atom | None:
        """Where two values touch; None where they never do, or that is not known."""
        gap, b = self._gap(pair), self.builder
        if gap is None or any(isinstance(s, Constant) and s.value for s in gap.slopes):
            return None
        inputs = combinations_with_replacement(range(len(gap.inputs)), 2)
        bends = [s for i, j in inputs if not is_constant(s := self._slope(gap.slopes[i], gap.inputs[j]), 0)]
        still = self._vanish([gap.value, *gap.slopes])
        is_bent = any(isinstance(s, Constant) for s in bends)
        return still if is_bent else b.emit("and", (still, b.emit("not", (self._vanish(bends),)))) if bends else None

    def aligned(self, first: tuple[Atom, Atom], second: tuple[Atom, Atom]) -> Atom | None:
        """1 or -1 where two kinks tie in one direction, or in opposite ones, and 0 elsewhere; None where they never do."""
        (p, q), b = (self._gap(pair) for pair in (first, second)), self.builder
        if p is None or q is None or all(isinstance(s, Constant) for s in (*p.slopes, *q.slopes)):
            return None
        own = [dict(zip(gap.inputs, gap.slopes, strict=True)) for gap in sorted((p, q), key=lambda gap: -len(gap.inputs))]
        if not own[1].keys() <= own[0].keys():
            return None
        pairs = [(s, own[1].get(v, ZERO)) for v, s in own[0].items()]
        minors = [b.sub(b.mul(s, v), b.mul(t, u)) for (s, t), (u, v) in combinations(pairs, 2)]
        if any(isinstance(m, Constant) and m.value for m in minors):
            return None
        return b.select(
            self._vanish([p.value, q.value, *minors]), b.emit("sign", (reduce(b.add, starmap(b.mul, pairs)),)), ZERO
        )

    def _vanish(self, values: list[Atom]) -> Atom:
        """Whether some values are all zero."""
        b = self.builder
        zero = [b.emit("eq", (v, ZERO)) for v in values if not is_constant(v, 0)]
        return reduce(lambda p, q: b.emit("and", (p, q)), zero)

    def _gap(self, pair: tuple[Atom, Atom]) -> Gap | None:
        """The difference of two values and its slopes; None where that is made of too much."""
        if pair not in self._gaps:
            inputs = self._inputs(*pair)
            if inputs is not None:
                value = self.builder.emit("sub", pair)
                self.facts.include(self.builder.bindings[-1])
            self._gaps[pair] = inputs and Gap(value, inputs, [self._slope(value, v) for v in inputs])
        return self._gaps[pair]

    def _inputs(self, *of: Atom) -> list[Atom] | None:
        """What moves of that which values are made of by elementwise operations; None where these are many."""
        pending, seen, found = [*of], dict.fromkeys(of), list[Atom]()
        while pending:
            atom = pending.pop()
            made = self.facts.made.get(atom)
            if made is None or made.op not in OPS:
                found += [atom] if atom in self.moving else []
                continue
            new = [o for o in dict.fromkeys(made.operands) if o not in seen and not isinstance(o, Constant)]
            seen |= dict.fromkeys(new)
            pending += new
            if len(seen) > _OPERATIONS or len(found) > _INPUTS:
                return None
        return sorted(found, key=lambda a: a.name) if 0 < len(found) <= _INPUTS else None

    def _slope(self, of: Atom, by: Atom) -> Atom:
        return worked_out((of, by), self._slopes, self._below, self._found)  # type: ignore[no-any-return]

    def _below(self, key: tuple[Atom, Atom]) -> list[tuple[Atom, Atom]]:
        made = self.facts.made.get(key[0])
        is_moving = made is not None and key[0] is not key[1] and made.op in OPS and made.dtype in "fd"
        return [(o, key[1]) for o in made.operands[made.op == "select" :]] if is_moving else []  # type: ignore[union-attr]

    def _found(self, key: tuple[Atom, Atom]) -> Atom:
        b, start = self.builder, len(self.builder.bindings)
        dots = [self._slopes[part] for part in self._below(key)]
        if not dots:
            return Constant(1.0) if key[0] is key[1] else ZERO
        made = self.facts.made[key[0]]
        if made.op == "select":
            found = dots[0] if dots[0] is dots[1] else b.select(made.operands[0], *dots)
        else:
            terms = [(self.partials.partial(made, k), dot) for k, dot in enumerate(dots) if not is_constant(dot, 0)]
            found = reduce(b.add, [b.mul(p, dot) for p, dot in terms if p is not None], ZERO)
        for binding in b.bindings[start:]:
            self.facts.include(binding)
        return found
