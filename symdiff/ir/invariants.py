"""What every binding keeps to: the shape and the dtype that its operation gives its operands.

Assumes operations of `ops.OPS`, heads of `heads.HEADS`, `item` and `array`. Guarantees that a rewrite which mixes shapes fails
where it is made, and never becomes loops over memory that nobody wrote. Refuses with `InvariantError`: a defect of ours.
"""

import math
from collections.abc import Callable
from typing import Any

from symdiff.errors import InvariantError, TraceError
from symdiff.ir.building import dtype_of_atoms
from symdiff.ir.graph import Graph
from symdiff.ir.loops import check_loop, sizes_of_binding
from symdiff.ir.node import Atom, Node, Seen
from symdiff.vocabulary.extents import broadcast_extents, names_in_extents
from symdiff.vocabulary.heads import HEADS, Shape
from symdiff.vocabulary.ops import OPS, check_dtype_cast, real_counterpart
from symdiff.vocabulary.traits import operations

_FREE = operations("any_dtype")  # operations whose dtype their operands do not tell


def binding_with(binding: Node, op: str, operands: tuple[Atom, ...], params: Any = None) -> Seen:
    """A binding as a rewrite sees it, with the same value."""
    found = Seen(binding.result, op, operands, params)
    check_binding(found)
    return found


def check_bindings(graph: Graph) -> None:
    """Raise `InvariantError` where a binding has not its operation's shape or dtype, or speaks of a size that nothing tells."""
    _check(graph, names_in_extents(tuple(leaf.node.shape for leaf in graph.inputs)))


def _check(graph: Graph, told: set[str]) -> None:
    """Check the bindings of a graph, or of a loop's body, where some sizes are told outside."""
    known = set(told)
    for binding in graph.bindings:
        check_binding(binding)
        if unknown := sizes_of_binding(binding) - known:
            raise InvariantError(f"{binding.origin}: {binding}: no argument and no loop before it tells {min(unknown)}")
        if binding.op == "loop":
            _check(binding.params.body, known)
            if binding.params.counted in told:
                raise InvariantError(f"{binding.origin}: {binding}: {binding.params.counted} is told by something else, too")
            known |= {binding.params.counted} - {None}


def check_binding(binding: Node) -> None:
    """Raise `InvariantError` where a binding has not its operation's shape or dtype."""
    try:
        shape, code = _shape(binding), _code(binding)
    except (ValueError, IndexError, TraceError) as error:
        raise InvariantError(f"{binding.origin}: {binding}: {error}") from None
    if shape != binding.shape or (code is not None and code != binding.dtype):
        made, found = f"{binding.dtype}{binding.shape}", f"{code or binding.dtype}{shape}"
        raise InvariantError(f"{binding.origin}: {binding}: is {made}, but its operands make {found}")


def _shape(binding: Node) -> Shape:
    if binding.op == "loop":
        check_loop(binding)
    if binding.op == "part":
        return binding.operands[0].params.results[binding.params].shape  # type: ignore[no-any-return]
    if binding.op in ("loop", "size"):
        return ()
    params = binding.params.params if binding.op in HEADS else binding.params
    return shape_of(binding.op, [o.shape for o in binding.operands], params, binding.shape)


def shape_of(op: str, shapes: list[Shape], params: Any, own: Shape) -> Shape:
    """The shape that an operation gives operands of these shapes; its `own` where they do not tell."""
    if op in HEADS:
        return tuple(HEADS[op].shape(*shapes, **params))
    if op == "item":
        if not (params >= 0 and params < math.prod(shapes[0])):
            raise IndexError(f"there is no cell {params}")
        return ()
    if op == "array":
        if any(s != () for s in shapes) or len(shapes) != math.prod(own):
            raise ValueError(f"{len(shapes)} cells for the shape {own}")
        return own
    found = {s for s in shapes if s != ()}
    return () if not found else found.pop() if len(found) == 1 else broadcast_extents(*found)


def _code(binding: Node) -> str | None:
    """The dtype code; None where the operands do not tell."""
    op, operands = binding.op, binding.operands
    if op == "part":
        return operands[0].params.results[binding.params].dtype  # type: ignore[no-any-return]
    if op == "item":
        return str(operands[0].dtype)
    if op in ("cast", "array"):
        for operand in operands:
            check_dtype_cast(operand.dtype, binding.dtype)
    if op == "select" and all(o.op == "const" and o.dtype is None for o in operands[1:]):
        return None  # numbers that take the dtype of what they are selected for
    return code_of(op, lambda: dtype_of_atoms(operands[1:] if op == "select" else operands))


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
