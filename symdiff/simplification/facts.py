"""What is known of the values of a graph: intervals, sums of squares, growth, which are the same and which have one sign.

Assumes bindings in order. Guarantees facts that hold for every input but NaN, each worked out once, when it is first asked
for; that values found equal are so up to rounding (x**2 counts as x*x), and that those of one direction are constant multiples
of each other. What it cannot tell is unknown, or different.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any

from symdiff.ir.building import is_constant
from symdiff.ir.loops import MOST
from symdiff.ir.node import Atom, Constant, Known, Node
from symdiff.rulebooks.book import operation_facts
from symdiff.rulebooks.calls import extreme_by_rule
from symdiff.rulebooks.columns import Column, rule_column
from symdiff.rulebooks.structural import moves_by_rule
from symdiff.simplification.interning import Values
from symdiff.simplification.intervals import (
    FOLLOWED,
    TRUTH,
    UNKNOWN,
    Fact,
    constant_fact,
    image,
    in_precision,
    joined,
    known_exponent,
    power,
    square,
)
from symdiff.vocabulary.heads import HEADS, Static
from symdiff.vocabulary.traits import operations
from symdiff.vocabulary.walking import worked_out

ALONE = 2  # the growth of a value that one exponential decides
RATES = {"exp": 1.0, "exp2": math.log(2), "exp10": math.log(10)}
LOGARITHMS = {"log": 1.0, "log2": 1 / math.log(2), "log10": 1 / math.log(10), "log1p": 1.0}  # by natural ones
_PASSING = operations("keeps_growth")  # keep one exponential's growth
_GROWING = operations("keeps_growth", "grows") | {"item", *HEADS}
_OVERWRITING = operations("overwrites")
_NONE = Column()
_MANY = 32  # operations among which factors are looked for
_TURNED, _UNSEEN = frozenset({-1}), -2  # in place of the number of a factor: a change of sign, and factors not looked at
Direction = tuple[int, float]  # the number of a value, or of a difference turned one way, and the factor to it


class Facts:
    """The facts of values, which are `made` by bindings; equal ones have one number."""

    strict = False  # whether an operand that is NaN counts where another one is the result

    def __init__(self, bindings: Sequence[Node] = ()) -> None:
        self.bindings = list(bindings)
        self.made: dict[Atom, Node] = {b.result: b for b in bindings}
        self._facts: dict[Any, Fact] = {}
        self._values = Values()
        self._numbers: dict[Atom, int] = {}

    def node(self, atom: Any) -> Node:
        """The operation that computes a value."""
        return self.made.get(atom, atom)

    def include(self, binding: Node) -> None:
        """A binding that comes after those known."""
        self.made[binding.result] = binding

    def of(self, atom: Any) -> Fact:
        """What is known of a value."""
        found = self._facts.get(atom)
        return worked_out(atom, self._facts, self._read, self._known) if found is None else found  # type: ignore[no-any-return]

    def _read(self, atom: Any) -> tuple[Any, ...]:
        """The values of which the facts of a real one can follow."""
        node = self.node(atom)
        if node.op == "const" or node.dtype is None or node.dtype not in "fd":
            return ()
        followed = node.op in FOLLOWED or node.op in _GROWING or known_column(node).words
        return node.operands if followed or extreme_by_rule(node) else ()

    def _known(self, atom: Any) -> Fact:
        """What is computed of a value."""
        node = self.node(atom)
        if node.op == "const":
            return constant_fact(node.params)
        if node.dtype == "?":
            return TRUTH
        if node.dtype is None or node.dtype not in "fd":
            return UNKNOWN
        parts = [self._facts[o] for o in self._read(atom)]
        found = in_precision(self._image(node, parts), node.dtype)
        if node.op in ("mul", "div") and found.low < 0.0 < found.high:
            odd = self._odd_factors(atom)
            found = found._replace(low=found.low if odd else 0.0, high=0.0 if odd == _TURNED else found.high)
        return found._replace(growth=self._growth(node, parts))

    def _odd_factors(self, atom: Any) -> frozenset[int]:
        """The numbers of the factors that stand an odd number of times in a value and are not known to be positive, and -1
        where it is turned: a value without any is never negative."""
        odd, pending = frozenset[int](), [atom]
        for _ in range(_MANY):
            if not pending:
                return odd
            top = pending.pop()
            node, fact = self.node(top), self._facts.get(top, UNKNOWN)
            if node.op in ("mul", "div"):
                pending += node.operands
            elif node.op == "cast" or (node.op == "pow" and self.exponent(node) % 2 == 1):
                pending.append(node.operands[0])
            elif node.op == "neg":
                pending.append(node.operands[0])
                odd ^= _TURNED
            elif not fact.low >= 0.0:
                odd ^= _TURNED if fact.high <= 0.0 else {self.number(top)}
        return odd | {_UNSEEN}

    @functools.cached_property
    def grows(self) -> bool:
        """Whether there is a value that can overflow because an exponential does."""
        return any(self.is_exponential(b) and self.of(b.result).growth for b in self.made.values())

    def is_explosive(self, atom: Any) -> bool:
        """Whether a value can overflow because an exponential does."""
        return self.grows and self.of(atom).growth > 0

    def is_exponential(self, node: Node) -> bool:
        """Whether an operation makes large values of small ones."""
        return self.exponential(node) is not None or "grows" in known_column(node).words

    def is_alone(self, atom: Any) -> bool:
        """Whether one exponential decides whether a value overflows."""
        return self.grows and self.of(atom).growth == ALONE

    def _image(self, node: Node, parts: list[Fact]) -> Fact:
        op, operands = node.op, node.operands
        extreme = extreme_by_rule(node) if op in ("call", "amax", "amin") else ""
        if op == "select":
            return self._chosen(node, parts)
        if op == "part" and self._counts_rounds(node):
            return Fact(0.0, MOST, nan=False, finite=True, whole=True)
        if op == "cast" or moves_by_rule(node):
            return parts[0]
        if op in _OVERWRITING:
            return joined(parts[0], parts[-1])
        if op == "mul":
            (base, first), (other, second) = map(self.multiple, operands)
            scale = constant_fact(first * second)
            return FOLLOWED["mul"](square(self.of(base)), scale) if base == other else FOLLOWED["mul"](*parts)
        if op == "pow":
            base, exponent = (self.node(o) for o in operands)
            positive = base.op == "const" and parts[0].low > 0.0
            return UNKNOWN._replace(low=0.0) if positive else power(parts[0], known_exponent(exponent))
        if extreme:
            parts = parts if op == "call" else self._compared(node, parts)
            unordered = self.strict and any(p.nan for p in parts)
            return joined(*parts) if unordered else FOLLOWED[extreme](*parts)
        if op in FOLLOWED:
            found: Fact = FOLLOWED[op](*parts)
            gap = self._largest_of(operands[1], operands[0]) if op == "sub" else None
            return found if gap is None else found._replace(high=min(found.high, gap))
        if op in HEADS and HEADS[op].result == "count" and isinstance(node.params, Static):
            return self._place(node)
        return image(op, known_column(node), parts)

    def _counts_rounds(self, node: Node) -> bool:
        """Whether a part is the number of rounds of a loop that alone tells it."""
        several = self.node(node.operands[0])
        loop = several.params
        return several.op == "loop" and loop.tested and node.params == loop.carried + len(loop.stacks) + loop.sums

    def _compared(self, node: Node, parts: list[Fact]) -> list[Fact]:
        """The values among which an extreme of an array is found: in every place one of each of those that it was joined of."""
        made, axes = self.node(node.operands[0]), node.params.params["axes"]
        joined_along = made.params.params["axis"] if made.op == "concatenate" else 0 if made.op == "array" else None
        if joined_along not in axes or (made.op == "array" and len(axes) < len(made.shape)):
            return parts
        return [self.of(o) for o in made.operands if 0 not in self.node(o).shape]

    def _chosen(self, node: Node, parts: list[Fact]) -> Fact:
        """A selected value; a rounded one that is smaller than a constant in magnitude is whole and finite."""
        condition, chosen, instead = (self.node(o) for o in node.operands)
        size = self.node(condition.operands[0]) if condition.op == "lt" else condition
        if size.op == "abs" and size.operands == chosen.operands and "whole" in known_column(chosen).words:
            limit, least = (self.of(o) for o in (condition.operands[1], node.operands[2]))
            if instead.op == "const" and least.low == least.high == -limit.low == -limit.high:
                return Fact(least.low, -least.low, nan=False, finite=True, whole=True)
        return joined(*parts[1:])._replace(powers=min(p.powers for p in parts[1:]))

    def _place(self, node: Node) -> Fact:
        """A place along an axis, or a truth as a number."""
        shape, axis = self.node(node.operands[0]).shape, node.params.params.get("axis", 0)
        last = shape[axis] - (node.op != "searchsorted") if shape and node.op != "is_definite" else 1
        return Fact(0.0, float(last) if isinstance(last, int) else math.inf, nan=False, finite=True, whole=True)

    def _largest_of(self, atom: Any, among: Any) -> float | None:
        """0 where `atom` is the largest of numbers of which `among` is one, and half where that is rounded; else None."""
        pending, gap = [atom], 0.0
        while pending:
            node = self.node(pending.pop())
            if node.op in ("rint", "cast") or moves_by_rule(node):
                gap = max(gap, 0.5 * (node.op == "rint"))
                pending.append(node.operands[0])
            elif extreme_by_rule(node) == "max":
                if among in node.operands:
                    return gap
                pending += node.operands
        return None

    def _growth(self, node: Node, parts: list[Fact]) -> int:
        op, operands = node.op, node.operands
        argument = self.exponential(node)
        if argument is not None:
            w, rate = self.of(argument[0]), argument[1]
            grows = self.node(argument[0]).op != "const" and max(rate * w.low, rate * w.high) > 1.0
            return ALONE if grows else 0
        if "grows" in known_column(node).words:
            return int(parts[0].high > 1.0 or (op != "expm1" and parts[0].low < -1.0))
        if not any(p.growth for p in parts):
            return 0
        rises = known_exponent(self.node(operands[1])) > 0 if op == "pow" else False
        if not (rises or (op == "div" and parts[0].growth) or op in _GROWING - {"div", "pow"} or extreme_by_rule(node)):
            return 0
        alone = [p.growth for p in parts if p.growth] == [ALONE]
        return ALONE if alone and (rises or op in _PASSING) else 1

    def exponential(self, node: Node) -> tuple[Any, float] | None:
        """(w, k) of an exponential exp(k*w), a power of a positive constant for example; None for anything else."""
        if node.op in RATES:
            return node.operands[0], RATES[node.op]
        if node.op != "pow":
            return None
        base, exponent = (self.node(o) for o in node.operands)
        number = known_exponent(base)
        return (node.operands[1], math.log(number)) if 0 < number != 1 and exponent.op != "const" else None

    def exponent(self, node: Node) -> float:
        """The constant exponent of a power, 0 for everything else."""
        return known_exponent(self.node(node.operands[1])) if node.op == "pow" else 0.0

    def root(self, node: Node) -> float:
        """The constant exponent of a power or root, 0 for everything else."""
        return {"sqrt": 1 / 2, "cbrt": 1 / 3}.get(node.op) or self.exponent(node)

    # -- which values are the same

    def same(self, a: Atom, b: Atom) -> bool:
        """Whether two atoms have one value."""
        return a is b or self.number(a) == self.number(b)

    def direction(self, atom: Atom) -> Direction:
        """What an atom is a multiple of, and the factor."""
        at, factor = self.multiple(atom, "cast")
        made = self.made.get(at)
        if made is not None and made.op == "mul":
            (a, first), (b, second) = (self.multiple(o) for o in made.operands)
            if first * second != 1.0 and a.shape == b.shape == made.shape:
                product = self._values.put("mul", (self.number(a), self.number(b)), made.shape, made.dtype)
                return product, factor * first * second
        if made is None or made.op != "sub":
            return self.number(at), factor
        first, second = (self.number(o) for o in made.operands)
        turned = self._values.put("sub", (min(first, second), max(first, second)), (), "d")
        return turned, -factor if second < first else factor

    def ratio(self, atom: Atom, other: Atom) -> float | None:
        """The constant factor between two values; None where there is none."""
        (first, above), (second, below) = self.direction(atom), self.direction(other)
        return above / below if first == second and below else None

    def multiple(self, atom: Atom, *through: str) -> tuple[Atom, float]:
        """What an atom is a multiple of, without constant factors, and their product; operations `through` change nothing."""
        factor = 1.0
        while (binding := self.made.get(atom)) is not None:
            op, operands = binding.op, binding.operands
            if op == "neg" or op in through:
                factor, atom = -factor if op == "neg" else factor, operands[0]
                continue
            if not operands:  # a size, or an array of no cells
                break
            place = 0 if _is_factor(operands[-1]) else 1
            if op not in ("mul", "div") or not _is_factor(operands[1 - place]) or (op == "div" and place):
                break
            scale = float(operands[1 - place].params)
            factor, atom = factor * scale if op == "mul" else factor / scale, operands[place]
        return atom, factor

    def number(self, atom: Atom) -> int:
        """The number of an atom's value."""
        return worked_out(atom, self._numbers, self._below, self._put)  # type: ignore[no-any-return]

    def _below(self, atom: Atom) -> tuple[Atom, ...]:
        return self.made[atom].operands if atom in self.made else ()

    def _put(self, atom: Atom) -> int:
        v, binding = self._values, self.made.get(atom)
        if isinstance(atom, Known):
            return v.constant(atom)
        if binding is None:
            return v.put("input", (), atom.shape, atom.dtype, atom)
        operands = tuple(self._numbers[o] for o in binding.operands)
        if binding.op == "pow" and is_constant(binding.operands[1], 2):
            return v.put("mul", (operands[0], operands[0]), binding.shape, binding.dtype)
        return v.put(binding.op, operands, binding.shape, binding.dtype, binding.params)


def known_column(node: Node) -> Column:
    """What the tables say of an operation."""
    if node.op != "call":
        return operation_facts().get(node.op, _NONE)
    rule = node.params.rule
    return rule_column(rule.facts, rule.parameters, rule.source)


def _is_factor(atom: Atom) -> bool:
    return isinstance(atom, Constant) and not isinstance(atom.value, complex) and atom.value != 0
