"""Derivative rules with Python bodies, run on traced values while a derivative is being built.

Assumes a rule declared with `diffrule` and a `call` binding of its function. Guarantees that the body's operations are
appended like those of built-in rules. Refuses, with `RuleError`, a missing partial or a wrong number of them.
"""

from symdiff.errors import RuleError
from symdiff.symbolic.building import Builder
from symdiff.symbolic.graph import Atom, Binding, Constant
from symdiff.symbolic.rulebook import Rule
from symdiff.symbolic.tracing.tracer import Tracer, atom_of


def python_partial(rule: Rule, builder: Builder, binding: Binding, place: int) -> Atom:
    """The partial by argument `place` from a rule's Python body, its operations appended to the builder."""
    bodies = rule.body
    args = [Tracer(builder, o) if not isinstance(o, Constant) else o.value for o in binding.operands]
    out = Tracer(builder, binding.symbol)
    name = rule.parameters[place]
    if name in bodies:
        result = bodies[name](out, *args)
    elif "all" in bodies:
        result = bodies["all"](out, *args)
        if len(rule.parameters) > 1:
            if not isinstance(result, tuple) or len(result) != len(rule.parameters):
                raise RuleError(f"{rule.source}: the rule of {rule.name} must return {len(rule.parameters)} partials")
            result = result[place]
    elif "pullback" in bodies:
        result = bodies["pullback"](1.0, out, *args)
        result = result[place] if isinstance(result, tuple) else result
    else:
        raise RuleError(
            f"{binding.origin}: no derivative of {rule.name} by {name}; write\n"
            f"    @sd.diffrule({rule.name}, wrt={name!r})\n    def _(out, {', '.join(rule.parameters)}): return ..."
        )
    return atom_of(result, builder, binding.origin)
