"""What every binding keeps to: the shape and the dtype that its operation gives its operands.

Assumes operations of `ops.OPS`, heads of `heads.HEADS`, `item` and `array`. Guarantees that a rewrite which mixes shapes fails
where it is made, and never becomes loops over memory that nobody wrote. Refuses with `InvariantError`: a defect of ours.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from symdiff.errors import InvariantError
from symdiff.ir.building import result_code
from symdiff.ir.graph import Graph
from symdiff.ir.node import Atom, Node, Seen
from symdiff.vocabulary.heads import HEADS, Shape
from symdiff.vocabulary.ops import OPS, real_counterpart

_FREE = frozenset({"cast", "call"})  # operations whose dtype their operands do not tell


def rebound(binding: Node, op: str, operands: tuple[Atom, ...], params: Any = None) -> Seen:
    """A binding as a rewrite sees it, with the same value."""
    found = Seen(binding.result, op, operands, params)
    check_binding(found)
    return found


def check_bindings(graph: Graph) -> None:
    """Raise `InvariantError` where a binding has not its operation's shape or dtype."""
    for binding in graph.bindings:
        check_binding(binding)


def check_binding(binding: Node) -> None:
    """Raise `InvariantError` where a binding has not its operation's shape or dtype."""
    try:
        shape, code = _shape(binding), _code(binding)
    except (ValueError, IndexError) as error:
        raise InvariantError(f"{binding.origin}: {binding}: {error}") from None
    if shape != binding.shape or (code is not None and code != binding.dtype):
        made, found = f"{binding.dtype}{binding.shape}", f"{code or binding.dtype}{shape}"
        raise InvariantError(f"{binding.origin}: {binding}: is {made}, but its operands make {found}")


def _shape(binding: Node) -> Shape:
    params = binding.params.params if binding.op in HEADS else binding.params
    return shape_of(binding.op, [o.shape for o in binding.operands], params, binding.shape)


def shape_of(op: str, shapes: list[Shape], params: Any, own: Shape) -> Shape:
    """The shape that an operation gives operands of these shapes; its `own` where they do not tell."""
    if op in HEADS:
        return tuple(HEADS[op].shape(*shapes, **params))
    if op == "item":
        if not 0 <= params < math.prod(shapes[0]):
            raise IndexError(f"there is no cell {params}")
        return ()
    if op == "array":
        if any(s != () for s in shapes) or len(shapes) != math.prod(own):
            raise ValueError(f"{len(shapes)} cells for the shape {own}")
        return own
    found = {s for s in shapes if s != ()}
    return () if not found else found.pop() if len(found) == 1 else np.broadcast_shapes(*found)


def _code(binding: Node) -> str | None:
    """The dtype code; None where the operands do not tell."""
    op, operands = binding.op, binding.operands
    if op == "item":
        return str(operands[0].dtype)
    return code_of(op, lambda: result_code(operands[1:] if op == "select" else operands))


def code_of(op: str, common: Callable[[], str]) -> str | None:
    """The dtype code that an operation gives operands with a `common` one; None where they do not tell."""
    row = OPS.get(op)
    if row is None or op in _FREE:
        return None
    if row.result == "bool":
        return "?"
    code = common()
    if op != "select" and code == "?" and op not in ("conj", "real"):
        return "d"
    if row.result == "real":
        return real_counterpart(code)
    return ("F" if code in "fF" else "D") if row.result == "complex" else code
