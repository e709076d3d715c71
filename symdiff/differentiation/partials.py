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
from symdiff.rulebooks.rule import apply
from symdiff.rulebooks.tables import Template
from symdiff.simplification.facts import Facts
from symdiff.vocabulary.ops import OPS, is_complex

ZERO = Constant(0.0)
_ON_REAL = {"abs": None, "conj": Constant(1.0), "real": Constant(1.0), "imag": ZERO}
TINY = 1e-300  # a value above it has a finite root, and the root a finite partial


class Partials:
    """Instantiates the partials of bindings on a builder, each at most once."""

    def __init__(self, builder: Builder, facts: Facts, rules: Any) -> None:
        self.builder = builder
        self.rules = rules
        self.facts = facts
        self._built: dict[tuple[Node, int, bool], Atom | None] = {}
        self._decided: dict[tuple[Any, ...], Template] = {}

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
        operand = binding.operands[place]
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
        if rule.conj_partials and not is_complex(operand.dtype or "d"):
            result = self._on_real(binding, rule, place)
        else:
            on_complex = any(is_complex(o.dtype or "d") for o in binding.operands)
            templates = rule.conj_partials if conjugate else rule.partials_on(complex_=on_complex)
            template = templates[place]
            if template is None:
                raise RuleError(f"{binding.origin}: {rule.name} has no derivative by {rule.parameters[place]}")
            result = apply(self._of_constants(template, binding.operands), binding.operands, binding.result, self._emit)
        if rule.singular and self.is_singular(binding) and self.is_root_of_squares(binding):
            return self._norm(binding)
        return result

    def _norm(self, binding: Node) -> Atom:
        """The partial of a root of a sum of squares: of the kink at zero its zero, and NaN where the sum overflows."""
        b, under = self.builder, binding.operands[0]
        slope = b.mul(Constant(self.facts.root(binding)), b.emit("div", (binding.result, under)))
        return b.select(b.emit("eq", (under, ZERO)), b.emit("edge", (under,)), slope)

    def _of_constants(self, template: Template, args: tuple[Atom, ...]) -> Template:
        """A template without the branches that constant arguments decide against."""
        key = id(template), *(a.value if isinstance(a, Constant) else None for a in args)
        if key not in self._decided:
            self._decided[key] = decided_partial(template, args)
        return self._decided[key]

    def _on_real(self, binding: Node, rule: Any, place: int) -> Atom:
        """On a real operand, which is its own conjugate, the sum of both partials."""
        if binding.op in _ON_REAL:
            simple = _ON_REAL[binding.op]
            return simple if simple is not None else self.builder.emit("sign", (binding.operands[place],))
        parts = [apply(t[place], binding.operands, binding.result, self._emit) for t in (rule.partials, rule.conj_partials)]
        return self.builder.real(self.builder.add(*parts))

    def _emit(self, op: str, operands: tuple[Atom, ...], payload: Any = None) -> Atom:
        b = self.builder
        if op == "mul":
            # A constant zero in a partial is structural: the derivative of x**0 has no x**-1 in it.
            zero = next((o for o in operands if is_constant(o, 0)), None)
            return zero if zero is not None else b.mul(*operands)
        if op == "add":
            return b.add(*operands)
        if op == "neg":
            return b.neg(*operands)
        if op == "conj":
            return b.conj(*operands)
        if op == "real":
            return b.real(*operands)
        if op == "sub":
            return b.sub(*operands)
        if op == "eq" and is_constant(operands[1], 0) and self.facts.of(operands[0]).low > 0:
            return Constant(False)
        if op == "select" and isinstance(operands[0], Constant):
            return operands[1 if operands[0].value else 2]
        if op == "pow" and isinstance(operands[1], Constant):
            if operands[1].value == 1:
                return operands[0]
            if operands[1].value == 0:
                return Constant(1)
        return b.emit(op, operands, payload)

    def counts(self, binding: Node, place: int) -> tuple[Atom, bool] | None:
        """A condition and its value where operand `place` has a part in the result; None where it always has."""
        counts = binding.params.counts if binding.op == "call" else None
        return None if counts is None else counts(self.builder, binding, place)

    def is_root_of_squares(self, binding: Node) -> bool:
        """Whether a root stands over a sum of squares, or of higher powers, so that it has no cusp, as in a norm."""
        return self.facts.of(binding.operands[0]).powers * self.facts.root(binding) >= 1

    def is_singular(self, binding: Node) -> bool:
        """Whether the head's partial can be infinite where its value is finite, for these operands."""
        rule = None if binding.op in ("cast", "edge") or has_structural_partials(binding) else self.rule(binding)
        if rule is None or not rule.singular:
            return False
        if binding.op == "pow" and isinstance(binding.operands[1], Constant):
            exponent = binding.operands[1].value
            if isinstance(exponent, complex) or not 0 < exponent < 1:
                return False
        if binding.op in ("sqrt", "cbrt", "pow"):
            return self.facts.of(binding.operands[0]).low < TINY
        return True


def decided_partial(template: Template, args: tuple[Atom, ...]) -> Template:
    """A template without the branches that constant arguments decide against."""
    count = len(args) + 1
    if not any(op == "select" for op, _, _ in template.steps) or not any(isinstance(a, Constant) for a in args):
        return template
    known: dict[int, Any] = {i: a.value for i, a in enumerate(args) if isinstance(a, Constant)}
    stands: list[int] = list(range(count))  # the reference that stands for each
    for step, (op, refs, payload) in enumerate(template.steps, count):
        refs = tuple(stands[r] for r in refs)
        stands.append(step)
        if op == "const":
            known[step] = payload
        elif op == "eq" and all(r in known for r in refs):
            known[step] = known[refs[0]] == known[refs[1]]
        elif op == "abs" and refs[0] in known:
            known[step] = abs(known[refs[0]])
        elif op == "and" and any(known.get(r, True) is False for r in refs):
            known[step] = False
        elif op == "select" and refs[0] in known:
            stands[step] = refs[1] if known[refs[0]] else refs[2]
    needed = {stands[template.result]}
    for step in range(len(template.steps) + count - 1, count - 1, -1):
        if step in needed:
            needed.update(stands[r] for r in template.steps[step - count][1])
    place = list(range(count))
    steps = []
    for step, (op, refs, payload) in enumerate(template.steps, count):
        place.append(count + len(steps))
        if step in needed:
            steps.append((op, tuple(place[stands[r]] for r in refs), payload))
    return Template(tuple(steps), place[stands[template.result]])


def has_structural_partials(binding: Node) -> bool:
    """Whether a binding moves, adds up or multiplies whole arrays, rather than working cell by cell."""
    return binding.op not in OPS
