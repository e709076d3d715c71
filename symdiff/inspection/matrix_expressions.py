"""The outputs of a graph as SymPy: over whole arrays as formulas of matrices, over cells with everything inlined.

Assumes any graph. Guarantees that what is unrolled because it is small has the formula of what is large. Inlining builds
unevaluated heads with an explicit stack, so that nothing is expanded, reordered or cancelled. Refuses, with `TraceError`,
formulas beyond `LIMIT` nodes.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import sympy as sp

from symdiff.differentiation import transforming
from symdiff.errors import SymdiffError, TraceError
from symdiff.inspection.expressions import build_sympy, number
from symdiff.inspection.matrix_terms import Wordless
from symdiff.inspection.matrix_values import Values
from symdiff.inspection.matrix_words import Words
from symdiff.ir.graph import Graph, derivation_of, shared_by_sympy, sympy_expressions, written_graph
from symdiff.ir.node import Atom, Constant
from symdiff.rulebooks.calls import called_name
from symdiff.rulebooks.declared import rules_in_force
from symdiff.tracing.unrolling.scalarizing import in_unrolled_regime, scalarize, unroll_calls
from symdiff.vocabulary.heads import HEADS

LIMIT = 20_000


def array_graph(graph: Graph) -> Graph | None:
    """The graph of whole arrays that computes the same; None where there are only numbers and cells."""
    derivation = derivation_of(graph)
    if derivation is None:
        found = written_graph(graph)
    elif in_unrolled_regime(derivation.primal) or derivation.kind not in _DERIVED:
        return None
    else:
        try:
            found = _DERIVED[derivation.kind](derivation.primal, list(derivation.wrt), rules_in_force(derivation.rules))
        except SymdiffError:  # a rule that only numbers have
            return None
    return None if in_unrolled_regime(found) else found


_DERIVED: dict[str, Callable[[Graph, list[int], Any], Graph]] = {
    "grad": lambda graph, wrt, rules: transforming.gradient(graph, wrt, rules, False),
    "value_and_grad": lambda graph, wrt, rules: transforming.gradient(graph, wrt, rules, True),
    "jacobian": lambda graph, wrt, rules: transforming.jacobian(graph, wrt, rules, "auto", Graph.operations),
    "hessian": transforming.hessian,
    "jvp": transforming.push_tangents,
    "vjp": transforming.pull_cotangents,
    "hvp": transforming.hessian_product,
}


@sympy_expressions.written
def sympy_outputs(graph: Graph) -> Any:
    """The outputs of a graph as SymPy expressions."""
    whole = array_graph(graph)
    found = None if whole is None else sympy_words(whole)
    if found is None:
        _refuse_whole(graph)
        found = _inlined(unroll_calls(scalarize(graph)))
        return found[0] if len(graph.outputs) == 1 and graph.outputs[0].shape == () else found
    return found[0] if len(found) == 1 else found


def _refuse_whole(graph: Graph) -> None:
    """Raise `TraceError` for an operation that is neither a word nor made of cells."""
    for b in graph.bindings:
        if b.op in HEADS and not HEADS[b.op].cells:
            raise TraceError(
                f"{b.origin}: {called_name(b)} of a whole array is no expression of SymPy's; graph.bindings has one for each "
                "operation"
            )


def sympy_words(graph: Graph) -> list[Any] | None:
    """The outputs of a graph of whole arrays as formulas of matrices; None where one of them has no words."""
    try:
        values = Values(graph, [leaf.name for leaf in graph.inputs])
        constants = {n: sp.ImmutableDenseMatrix(a.reshape(len(a), -1).tolist()) for n, a in values.arrays.items() if a.ndim < 3}
        words = Words(values.algebra, {leaf.name for leaf in graph.inputs}, constants)
        return [words.of(value).replace(_is_turned_sum, _turned) for value in values.outputs]
    except Wordless:
        return None


def _is_turned_sum(expr: Any) -> bool:
    return isinstance(expr, sp.Transpose) and isinstance(expr.arg, sp.MatAdd)


def _turned(transpose: Any) -> Any:
    """The sum of the terms' transposes."""
    terms = (sp.transpose(term).doit() if term.is_MatMul else sp.transpose(term) for term in transpose.arg.args)
    return sp.MatAdd(*sorted(terms, key=sp.default_sort_key))


def _inlined(graph: Graph) -> list[Any]:
    """The cells of the outputs of a scalar graph."""
    exprs: dict[Atom, Any] = {}
    sizes: dict[Atom, int] = {}
    for leaf in graph.inputs:
        exprs[leaf.node] = sp.IndexedBase(leaf.name, shape=leaf.shape) if leaf.shape else sp.Symbol(leaf.name)
        sizes[leaf.node] = 1
    for binding in graph.bindings:
        if binding.op == "array":
            continue
        if binding.op == "item":
            (base,) = binding.operands
            exprs[binding] = exprs[base][tuple(map(int, np.unravel_index(binding.params, base.shape)))]
            sizes[binding] = 1
            continue
        size = 1 + sum(sizes.get(o, 1) for o in binding.operands)
        if size > LIMIT:
            raise TraceError(
                f"{binding.origin}: the inlined formula of {graph.name} has more than {LIMIT} nodes; "
                "use graph.bindings, which keeps shared parts shared"
            )
        sizes[binding] = size
        args = [number(o.value) if isinstance(o, Constant) else exprs[o] for o in binding.operands]
        exprs[binding] = build_sympy(called_name(binding), args)
    arrays = {b: b.operands for b in graph.bindings if b.op == "array"}

    def cells(atom: Atom) -> list[Any]:
        found = arrays.get(atom, (atom,))  # type: ignore[arg-type]
        return [number(c.value) if isinstance(c, Constant) else exprs[c] for c in found]

    return [e for output in graph.outputs for e in cells(output.atom)]


@shared_by_sympy.written
def sympy_cse(graph: Graph) -> tuple[list[tuple[Any, Any]], list[Any]]:
    """SymPy's common subexpressions of the inlined outputs."""
    found = sympy_outputs(graph)
    return sp.cse(found if isinstance(found, list) else [found])  # type: ignore[no-any-return]
