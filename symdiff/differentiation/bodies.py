"""Derivative rules with Python bodies, run on traced values while a derivative is being built.

Assumes a rule declared with `diffrule` and a `call` binding of its function. Guarantees that the body's operations are
appended like those of built-in rules. Refuses, with `RuleError`, a missing partial or a wrong number of them.
"""

from typing import Any

from symdiff.differentiation.holomorphy import check_holomorphic
from symdiff.errors import RuleError
from symdiff.ir.building import Builder
from symdiff.ir.node import Atom, Constant, Node
from symdiff.rulebooks.rule import Rule
from symdiff.rulebooks.sites import OWN, fitting_rule
from symdiff.tracing.following.following import followed_calls
from symdiff.tracing.state.attempt import Attempt
from symdiff.tracing.state.nesting import nested_trace
from symdiff.tracing.values.tracer import Tracer, traced_atom
from symdiff.vocabulary.ops import is_complex


def python_partials(rule: Rule, builder: Builder, binding: Node, place: int) -> dict[int, Atom]:
    """The partial by argument `place` from a rule's Python body, and the others that it gives, by argument."""
    args = [Tracer(builder, o) if not isinstance(o, Constant) else o.value for o in binding.operands]
    out = Tracer(builder, binding.result)
    builder.single = False  # numbers in bodies are NumPy's
    name = rule.parameters[place]
    if binding.op == "call":
        check_holomorphic(binding, place, _is_declared_complex(rule, place))
    kinds = ["complex" if is_complex(o.dtype or "d") or isinstance(a, complex) else "real"
             for o, a in zip(binding.operands, args, strict=True)]  # fmt: skip
    bodies = {key: fitting_rule(entries, args) for key, entries in rule.body.items() if key not in OWN}
    if bodies.get(name) is not None:
        result = _run(bodies[name], rule, kinds, out, *args)
    elif bodies.get("all") is not None:
        result = _run(bodies["all"], rule, kinds, out, *args)
        count = len(rule.parameters)
        if count > 1 and (not isinstance(result, tuple) or len(result) != count):
            raise RuleError(f"{rule.source}: the rule of {rule.name} must return {count} partials")
    elif bodies.get("pullback") is not None:
        result = _run(bodies["pullback"], rule, kinds, 1.0, out, *args)
    elif rule.body.keys() & {name, "all", "pullback"}:
        raise RuleError(f"{binding.origin}: no rule of {rule.name} is for {', '.join(kinds)} arguments ({rule.source})")
    else:
        raise RuleError(
            f"{binding.origin}: no derivative of {rule.name} by {name}; write\n"
            f"    @sd.diffrule({rule.name}, wrt={name!r})\n    def _(out, {', '.join(rule.parameters)}): return ..."
        )
    if not isinstance(result, tuple):
        return {place: traced_atom(result, builder, binding.origin)}
    return {k: traced_atom(r, builder, binding.origin) for k, r in enumerate(result)}


def _run(body: Any, rule: Rule, kinds: list[str], *args: Any) -> Any:
    """What a body returns."""
    with nested_trace(body, f"the rule of {rule.name}", kinds):
        return followed_calls(body, Attempt(None, True))(*args)


def _is_declared_complex(rule: Rule, place: int) -> bool:
    """Whether a body's annotation says that the rule holds for complex values of an argument."""
    entries = [entry for key, found in rule.body.items() if key not in OWN for entry in found]
    return any(wanted[place] == "complex" for wanted, _ in entries)
