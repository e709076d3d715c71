"""Calls of functions with a rule of their own: what a `call` binding holds.

Assumes a function of numbers that gives one number. Guarantees that a function given by a formula has a Graph of its own,
made once for each dtypes, which takes the place of the call after differentiation.
"""

import functools
from collections.abc import Callable
from typing import Any

from symdiff.ir.building import Builder, dtype_of_atoms
from symdiff.ir.graph import Graph, GraphOutput
from symdiff.ir.node import Atom, Constant, Node
from symdiff.rulebooks.rule import Rule, apply
from symdiff.rulebooks.tables import Template
from symdiff.vocabulary.literals import identifier

Counts = Callable[[Builder, Node, int], tuple[Atom, bool]]


class CallSite:
    """The static part of a `call` binding: the function, its rule, and its own Graph (None when it is opaque).

    `counts(builder, binding, place)` is a condition and its value where an operand has a part in the result, as a branch has
    that is taken.
    """

    __slots__ = ("counts", "function", "graph", "rule")

    def __init__(self, function: Callable[..., Any], rule: Rule, graph: Graph | None, counts: Counts | None = None) -> None:
        self.function = function
        self.rule = rule
        self.graph = graph
        self.counts = counts

    @property
    def __name__(self) -> str:
        return identifier(self.rule.name)


def formula_site(rule: Rule, operands: tuple[Atom, ...]) -> CallSite:
    """The call of a function that the rule table gives by a formula."""
    assert rule.primal is not None
    common = dtype_of_atoms(operands)
    codes = tuple(common if isinstance(o, Constant) and o.dtype is None else o.dtype or common for o in operands)
    return CallSite(rule.value, rule, _formula_graph(rule.name, rule.parameters, rule.primal, codes))


def called_name(binding: Node) -> str:
    """What people call an operation: the name of the function that it calls, or its own."""
    if binding.op == "site":
        return identifier(binding.params.params["site"].rule.name)
    return binding.params.__name__ if binding.op == "call" else binding.op


_KINKS = {"abs": "abs", "max": "max", "min": "min", "fmax": "max", "fmin": "min"}


def extreme_by_rule(binding: Node) -> str:
    """Which extreme of its operands a binding is, NumPy's or Python's own: "max", "min", or "" for none."""
    if binding.op in ("max", "min", "amax", "amin"):
        return binding.op[-3:]
    rule = binding.params.rule if binding.op == "call" else None
    known = rule is not None and rule.module in ("numpy", "builtins") and rule.name in ("max", "min")
    return rule.name if known else ""


def kink_by_rule(binding: Node) -> str:
    """Which kink of a value, or extreme of several numbers, a binding is: "abs", "max", "min", or "" for none."""
    return extreme_by_rule(binding) if binding.op == "call" else _KINKS.get(binding.op, "")


@functools.lru_cache(maxsize=4096)
def _formula_graph(name: str, parameters: tuple[str, ...], formula: Template, codes: tuple[str, ...]) -> Graph:
    builder = Builder()
    inputs = tuple(builder.input(p, (), "d" if c == "?" else c) for p, c in zip(parameters, codes, strict=True))
    return builder.graph(name, (GraphOutput(name, apply(formula, inputs, None, builder.emit)),))
