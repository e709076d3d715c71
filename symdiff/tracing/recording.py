"""Calls of functions that have a rule of their own, in a trace: each is one binding.

Assumes a rule with one parameter for each argument. Guarantees that the function itself is traced for its value, unless it is
opaque; over arrays, number by number. Refuses, with `TraceError`, functions that return anything but one number.
"""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from symdiff.errors import ArgumentError, RuleError, TraceError
from symdiff.ir.building import Builder
from symdiff.ir.node import Constant
from symdiff.rulebooks.calls import CallSite
from symdiff.rulebooks.rule import Rule
from symdiff.tracing.following.following import recorded_call
from symdiff.tracing.trace import trace_leaves
from symdiff.tracing.values.tracer import Tracer, traced_atom, traced_builder
from symdiff.vocabulary import structures
from symdiff.vocabulary.libraries import user_line


@recorded_call.written
def record(function: Callable[..., Any], rule: Rule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call of a function with a rule, as one binding; over arrays, elementwise."""
    return _record(function, rule, _in_order(function, rule, args, kwargs))


def _in_order(function: Callable[..., Any], rule: Rule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """The arguments of a call, one for each that the rule has: those given by name in their places, and defaults."""
    if not kwargs and len(args) == len(rule.parameters):
        return args
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
    except TypeError as error:
        raise ArgumentError(f"{user_line()}: {rule.name}: {error}") from None
    bound.apply_defaults()
    found = tuple(bound.arguments.values())
    if len(found) != len(rule.parameters):
        raise RuleError(
            f"{user_line()}: {rule.name} of {len(found)} arguments; its rule ({rule.source}) has {', '.join(rule.parameters)}"
        )
    return found


def _record(function: Callable[..., Any], rule: Rule, args: tuple[Any, ...]) -> Any:
    origin = user_line()
    builder = traced_builder([c for a in args for c in (a.ravel().tolist() if isinstance(a, np.ndarray) else [a])])
    atoms = [traced_atom(a, builder, origin) for a in args]
    shape = np.broadcast_shapes(*(a.shape for a in atoms))
    if shape:
        grids = [np.broadcast_to(_grid(a, builder), shape).ravel() for a in args]
        cells = np.empty(len(grids[0]), dtype=object)
        cells[:] = [_record(function, rule, point) for point in zip(*grids, strict=True)]
        return Tracer(builder, traced_atom(cells.reshape(shape), builder, origin))  # type: ignore[arg-type]
    opaque = rule.body.get("opaque") if isinstance(rule.body, dict) else None
    codes = ["D" if isinstance(a, Constant) and isinstance(a.value, complex) else a.dtype or "d" for a in atoms]
    graph = None
    code = "D" if "D" in codes else "F" if "F" in codes and "d" not in codes else "d" if "d" in codes else "f"
    if opaque is None:
        leaves = [Tracer(builder, a) if not isinstance(a, Constant) else complex(a.value) if c in "FD" else float(a.value)
                  for a, c in zip(atoms, codes, strict=True)]  # fmt: skip
        _, tree = structures.flatten((tuple(leaves), {}))
        places = list(range(len(leaves)))
        graph = trace_leaves(function, leaves, tree, places, [f"x{i}" for i in places], builder, mode="merge").graph
        if len(graph.outputs) != 1 or graph.outputs[0].shape != ():
            raise TraceError(f"{origin}: {function.__name__} has a rule, so it must return one number for numbers")
        code = graph.outputs[0].dtype
    site = CallSite(opaque or function, rule, graph)
    return Tracer(builder, builder.bind("call", tuple(atoms), (), code, site, origin))


def _grid(value: Any, builder: Builder) -> np.ndarray:
    if isinstance(value, Tracer):
        return np.array(value, dtype=object)
    return np.asarray(value, dtype=object)
