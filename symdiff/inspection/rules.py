"""A rule as people read it: its partials in text and LaTeX, where they hold, and how each target spells the function.

Assumes a rule of a table. Guarantees the formulas as the table writes them, constants unrounded.
"""

from typing import Any

import sympy as sp

from symdiff.inspection.expressions import build_sympy, latex, number
from symdiff.rulebooks.rule import Rule, apply
from symdiff.rulebooks.tables import Template
from symdiff.vocabulary.ops import OPS

_NAMED = {"pi": sp.pi, "e": sp.E}
_KINDS = {
    "yes": "holomorphic", "no": "not holomorphic", "real": "real arguments only",
    "half": "arguments with a positive real part",
}  # fmt: skip


def shown_rule(rule: Rule) -> str:
    """A rule as text and LaTeX: the function, its partials, where they hold, how each target spells it."""
    head = f"{rule.module}.{rule.name}({', '.join(rule.parameters)})"
    lines = [f"{head}   [{rule.source}]"]
    symbols = [sp.Symbol(p) for p in rule.parameters]
    if rule.primal is not None:
        lines.append(f"  = {sp.sstr(_formula(rule.primal, symbols), order='none')}")
    for name, partial in zip(rule.parameters, rule.partials, strict=True):
        if partial is None:
            lines.append(f"  by {name}: none")
            continue
        expr = _formula(partial, symbols)
        lines.append(f"  by {name}: {sp.sstr(expr, order='none')}")
        lines.append(f"      LaTeX: {latex(expr)}")
    for name, partial in zip(rule.parameters, rule.complex_partials or (), strict=bool(rule.complex_partials)):
        if partial is not None:
            lines.append(f"  by complex {name}: {sp.sstr(_formula(partial, symbols), order='none')}")
    if rule.conj_partials:
        for name, partial in zip(rule.parameters, rule.conj_partials, strict=True):
            lines.append(f"  by the conjugate of {name}: {sp.sstr(_formula(partial, symbols), order='none')}")
    lines.append(f"  {_KINDS[rule.holomorphic]}{'; a partial can be infinite' if rule.singular else ''}")
    for point, values in rule.kinks:
        lines.append(f"  at the kink {', '.join(map(repr, point))}: {', '.join(map(repr, values))}")
    if rule.op is not None:
        op = OPS[rule.op]
        spellings = {
            "numpy": op.spelled(*rule.parameters), "python": op.python and op.python.format(*rule.parameters),
            "c": op.c, "cuda": op.cuda_name,
        }  # fmt: skip
        lines.append("  " + ", ".join(f"{target}: {text}" for target, text in spellings.items() if text))
    return "\n".join(lines)


def _formula(template: Template, symbols: list[Any]) -> Any:
    """A formula of the table over its parameters and the function's own result `out`."""

    def emit(op: str, operands: tuple[Any, ...], payload: Any) -> Any:
        if op == "const":
            return _NAMED.get(payload) or sp.Symbol(payload) if isinstance(payload, str) else number(payload)
        return build_sympy(op, list(operands))

    return apply(template.exact or template, tuple(symbols), sp.Symbol("out"), emit)
