"""Partials of bindings, each instantiated once on a builder, by the rules in force.

Assumes a rulebook with a rule for every operation that is asked for. Guarantees that only the partials that are asked for
are built, and that a constant zero in a partial is structural. Refuses missing rules, and rules for real arguments on complex
ones, with `RuleError`.
"""

import math
from typing import Any

from symdiff.differentiation.bodies import python_partials
from symdiff.differentiation.holomorphy import check_holomorphic
from symdiff.errors import RuleError
from symdiff.ir.building import Builder, is_constant
from symdiff.ir.node import Atom, Constant, Node
from symdiff.rulebooks.tables import Template
from symdiff.simplification.facts import Facts
from symdiff.vocabulary.ops import OPS, is_complex

ZERO = Constant(0.0)
TINY = 1e-300  # a value above it has a finite root, and the root a finite partial


class Partials:
    """Instantiates the partials of bindings on a builder, each at most once."""

    def __init__(self, builder: Builder, facts: Facts, rules: Any) -> None:
        self.builder = builder
        self.rules = rules
        self.facts = facts
        self._built: dict[tuple[Node, int, bool], Atom | None] = {}

    def rule(self, binding: Node) -> Any:
        """The rule of a binding's head."""
        if binding.op == "call":
            return binding.params.rule
        rule = self.rules.for_op(binding.op)
        if rule is None:
            raise RuleError(
                f"{binding.origin}: no derivative rule for {binding.op}; a table row or "
                f'sd.diffrule("{OPS[binding.op].numpy}({", ".join("xyz"[: len(binding.operands)])})", x="...") adds one'
            )
        return rule

    def partial(self, binding: Node, place: int, conjugate: bool = False) -> Atom | None:
        """The partial of a binding by operand `place` (by its conjugate), None where it is structurally zero."""
        key = (binding.result, place, conjugate)
        if key not in self._built:
            self._built[key] = self._build(binding, place, conjugate)
        found = self._built[key]
        return None if found is None or is_constant(found, 0) else found

    def _build(self, binding: Node, place: int, conjugate: bool) -> Atom | None:
        if binding.op == "cast":
            return None if conjugate else Constant(1)
        if binding.op == "edge":  # whose further derivatives are NaN, too
            again = self.builder.emit("edge", (binding.operands[0],))
            return None if conjugate else self.builder.emit("add", (Constant(math.nan), again))
        rule = self.rule(binding)
        if conjugate and not rule.conj_partials:
            return None
        if rule.holomorphic == "real" and any(o.dtype is not None and is_complex(o.dtype) for o in binding.operands):
            raise RuleError(f"{binding.origin}: the rule of {rule.name} holds for real arguments only")
        b = self.builder
        b.at(binding)
        if rule.body is not None:
            found = python_partials(rule, b, binding, place)
            self._built |= {(binding.result, k, conjugate): atom for k, atom in found.items()}
            return found[place]
        if rule.is_user_function and binding.op == "call":
            check_holomorphic(binding, place, False)
        on_complex = any(is_complex(o.dtype or "d") for o in binding.operands)
        templates = rule.conj_partials if conjugate else rule.partials_on(complex_=on_complex)
        template = templates[place]
        if template is None:
            raise RuleError(f"{binding.origin}: {rule.name} has no derivative by {rule.parameters[place]}")
        result = self._instance(template, (*binding.operands, binding.result))
        if rule.singular and self.is_singular(binding) and self.is_root_of_squares(binding):
            return self._norm(binding)
        return result

    def _norm(self, binding: Node) -> Atom:
        """The partial of a root of a sum of squares: of the kink at zero its zero, and NaN where the sum overflows."""
        b, under = self.builder, binding.operands[0]
        slope = b.mul(Constant(self.facts.root(binding)), b.emit("div", (binding.result, under)))
        return b.select(b.emit("eq", (under, ZERO)), b.emit("edge", (under,)), slope)

    def _instance(self, template: Template, args: tuple[Atom, ...]) -> Atom:
        """What a template gives; what constants decide against is not in it."""
        values = dict(enumerate(args))

        def made(ref: int) -> Atom:
            if ref not in values:
                op, refs, payload = template.steps[ref - len(args)]
                known = made(refs[0]) if op in ("and", "select") else None
                if isinstance(known, Constant):
                    values[ref] = made(refs[1]) if known.value else made(refs[2]) if op == "select" else known
                else:
                    values[ref] = self._emit(op, tuple(map(made, refs)), payload)
            return values[ref]

        return made(template.result)

    def _emit(self, op: str, operands: tuple[Atom, ...], payload: Any) -> Atom:
        b = self.builder
        if op == "mul":
            zero = next((o for o in operands if is_constant(o, 0)), None)
            if zero is not None:
                return zero  # it is structural: the derivative of x**0 has no x**-1 in it
        if op == "eq" and all(isinstance(o, Constant) for o in operands):
            return Constant(operands[0].params == operands[1].params)
        if op == "eq" and is_constant(operands[1], 0) and self.facts.of(operands[0]).low > 0:
            return Constant(False)
        if op == "abs" and isinstance(operands[0], Constant):
            return Constant(abs(operands[0].value))
        if op == "and" and any(is_constant(o, 0) for o in operands):
            return Constant(False)
        if op == "pow" and isinstance(operands[1], Constant):
            if operands[1].value == 1:
                return operands[0]
            if operands[1].value == 0:
                return Constant(1)
        return b.folded(op, operands, payload)

    def counts(self, binding: Node, place: int) -> tuple[Atom, bool] | None:
        """A condition and its value where operand `place` has a part in the result; None where it always has."""
        counts = binding.params.counts if binding.op == "call" else None
        return None if counts is None else counts(self.builder, binding, place)

    def is_root_of_squares(self, binding: Node) -> bool:
        """Whether a root stands over a sum of squares, or of higher powers, so that it has no cusp, as in a norm."""
        return self.facts.of(binding.operands[0]).powers * self.facts.root(binding) >= 1

    def is_singular(self, binding: Node) -> bool:
        """Whether the head's partial can be infinite where its value is finite, for these operands."""
        op, operands = binding.op, binding.operands
        if op in ("cast", "edge", "select") or has_structural_partials(binding) or not self.rule(binding).singular:
            return False
        if op not in ("sqrt", "cbrt", "pow"):
            return True
        is_known = op != "pow" or isinstance(operands[1], Constant)
        return not (is_known and not 0 < self.facts.root(binding) < 1) and self.facts.of(operands[0]).low < TINY


def has_structural_partials(binding: Node) -> bool:
    """Whether a binding moves, adds up or multiplies whole arrays, rather than working cell by cell."""
    return binding.op not in OPS
