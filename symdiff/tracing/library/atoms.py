"""Functions of atoms, and of the rule table, on traced values: their operands are symbols, their results traced again.

Assumes a traced value among the arguments. Guarantees that bindings name the user's line. Refuses rules that say no formula,
with `TraceError`.
"""

import functools
import inspect
from typing import Any

import numpy as np

from symdiff.errors import TraceError
from symdiff.ir.arrays.algebra import Arrays
from symdiff.ir.node import Atom
from symdiff.rulebooks.calls import formula_site
from symdiff.rulebooks.rule import apply
from symdiff.tracing.values.operands import as_atom, cells, traced_result
from symdiff.tracing.values.operations import record
from symdiff.tracing.values.tracer import Tracer, traced_atom, traced_builder
from symdiff.vocabulary import structures
from symdiff.vocabulary.libraries import user_line
from symdiff.vocabulary.signatures import Arguments, Function


def of_atoms(bind: Function) -> Function:
    """A function that appends bindings as one of traced values: arrays become operands, other arguments are static."""
    _, *parameters = inspect.signature(bind).parameters.values()
    names = [p.name for p in parameters]
    several = [p.name for p in parameters if p.name == "parts"]
    single = [p.name for p in parameters if p.annotation in (Atom, Atom | None) or (p.name == "x" and p.annotation is p.empty)]

    @functools.wraps(bind)
    def stand(*args: Any, **kwargs: Any) -> Any:
        origin = user_line()
        given = dict(zip(names, args, strict=False)) | kwargs
        builder = traced_builder([c for v in structures.all_leaves(given) for c in cells(v)])
        for key in single:
            if given.get(key) is not None:
                given[key] = as_atom(given[key], builder, origin)
        for key in several:
            given[key] = [as_atom(v, builder, origin) for v in given[key]]
        arrays = Arrays(builder, origin)
        outer, builder.origin = builder.origin, origin
        try:
            found = bind(arrays, **given)
        finally:
            builder.origin = outer
        return tuple(traced_result(arrays, f) for f in found) if isinstance(found, tuple) else traced_result(arrays, found)

    stand.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return stand


def trace_rule_call(rule: Any, args: Arguments) -> Any:
    """A function of the rule table on traced values: its operation, or a call that its formula replaces later."""
    origin = user_line()
    builder = traced_builder(c for a in args for c in (a.ravel().tolist() if isinstance(a, np.ndarray) else [a]))
    operands = tuple(traced_atom(a, builder, origin) for a in args)
    if rule.op is not None:
        return Tracer(builder, record(builder, rule.op, operands, origin, args))
    if rule.primal is None:
        raise TraceError(f"{origin}: the rule table does not say how {rule.module}.{rule.name} is computed")
    if rule.module == "numpy" and not (rule.kinks and any(op == "select" for op, _, _ in rule.primal.steps)):
        outer, builder.origin = builder.origin, origin
        try:
            return Tracer(builder, apply(rule.primal, operands, None, builder.emit))
        finally:
            builder.origin = outer
    site = formula_site(rule, operands)
    shape = np.broadcast_shapes(*(o.shape for o in operands))
    code = site.graph.outputs[0].dtype  # type: ignore[union-attr]
    return Tracer(builder, builder.bind("call", operands, shape, code, site, origin))
