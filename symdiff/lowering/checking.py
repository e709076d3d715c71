"""What every Program keeps to, on numbers and on whole arrays.

Operands come before their users, no two nodes are the same operation on the same operands, every node is used, and each has the
shape and the dtype that its operation gives its operands. Refuses with `InvariantError`: a defect of ours.
"""

import functools
from typing import Any

import numpy as np

from symdiff.errors import InvariantError
from symdiff.ir.invariants import code_of, shape_of
from symdiff.ir.node import Node
from symdiff.lowering.program import ASSEMBLE, Program, domain_size, key_of
from symdiff.lowering.walks import counting_loops
from symdiff.vocabulary.heads import HEADS
from symdiff.vocabulary.ops import OPS, check_dtype_cast, is_complex, join_dtype_codes


def check_program(program: Program) -> None:
    """Raise `InvariantError` where the program breaks its invariant."""
    seen: dict[tuple[Any, ...], int] = {}
    used = bytearray(len(program.nodes))
    for value in program.results:
        used[value] = 1
    for position, node in enumerate(program.nodes):
        for operand in node.operands:
            if not 0 <= operand < position:
                raise InvariantError(f"node {position} uses {operand}, which does not come before it")
            used[operand] = 1
        wrong = _wrong(program, node)
        if wrong:
            raise InvariantError(f"node {position}, {node.op}{node.operands}: {wrong}")
        other = seen.setdefault(key_of(node), position)
        if other != position:
            raise InvariantError(f"nodes {other} and {position} are the same: {node.op}{node.operands}")
    for output in program.outputs:
        for cell in output.cells:
            check_dtype_cast(program.nodes[cell].dtype, output.dtype)
        whole = len(output.cells) == 1 and program.nodes[output.value].shape == output.shape
        if not whole and len(output.cells) != domain_size(output.shape):
            raise InvariantError(f"output {output.name}: {len(output.cells)} cells for shape {output.shape}")
        if whole and program.nodes[output.value].dtype != output.dtype:
            raise InvariantError(f"output {output.name}: {program.nodes[output.value].dtype} for {output.dtype}")
    unused = [p for p, u in enumerate(used) if not u and p not in counting_loops(program).values()]
    if unused:
        raise InvariantError(f"unused nodes: {unused[:5]}")


def _wrong(program: Program, node: Node) -> str:
    """What is wrong with a node, "" where nothing is."""
    if node.op in ("loop", "part", "size"):
        return _several(program, node)
    row = OPS.get(node.op)
    if row is None and node.op not in HEADS and node.op != ASSEMBLE:
        return "unknown operation"
    if row is not None and row.arity not in (-1, len(node.operands)):
        return f"{len(node.operands)} operands"
    if node.dtype not in ("?", "f", "d", "F", "D", *("l" if row is None or node.op == "cast" else "")):
        return f"dtype {node.dtype!r}"
    if node.op == "cast":
        check_dtype_cast(program.nodes[node.operands[0]].dtype, node.dtype)
    if node.op == "broadcast_to" and is_complex(node.dtype) and not is_complex(program.nodes[node.operands[0]].dtype):
        return f"is {node.dtype}, but the number that it repeats is real"
    shape, codes = _made(program, node)
    if node.shape != shape or (codes and node.dtype not in codes):
        return f"is {node.dtype}{node.shape}, but its operands make {' or '.join(codes) or node.dtype}{shape}"
    return ""


def _several(program: Program, node: Node) -> str:
    """What is wrong with a loop or one of its results, "" where nothing is."""
    if node.op == "loop":
        check_program(node.params.body)
        leaves = zip(node.operands, node.params.body.inputs[1:], node.params.places(), strict=True)
        for operand, leaf, place in leaves:
            given = program.nodes[operand]
            if (given.shape if place is None else given.shape[1:], given.dtype) != (leaf.shape, leaf.dtype):
                return f"{leaf.name} is {leaf.dtype}{leaf.shape}, but {given.dtype}{given.shape} is given"
    if node.op == "part":
        result = program.nodes[node.operands[0]].params.results[node.params]
        if (result.shape, result.dtype) != (node.shape, node.dtype):
            return f"is {node.dtype}{node.shape}, but the result is {result.dtype}{result.shape}"
    return ""


def _made(program: Program, node: Node) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The shape and the dtypes that a node's operation may give its operands; none where they do not tell the dtype.

    The zeros of an `edge` are one number, which a kernel spreads over the shape of its result.
    """
    operands = [program.nodes[o] for o in node.operands]
    if node.op == "input":
        place, cell = node.params
        leaf = program.inputs[place]
        return leaf.shape if cell is None else (), (leaf.dtype,)
    if node.op == "const":
        return np.shape(node.params), ()
    if node.op == ASSEMBLE:
        return node.shape, ()
    try:
        spread = [node.shape] if node.op in OPS else []
        shape = shape_of(node.op, [o.shape for o in operands] + spread, node.params, node.shape)
    except (ValueError, IndexError) as error:
        raise InvariantError(f"{node.origin}: {node.op}{node.operands}: {error}") from None
    around = operands[1:] if node.op == "select" else operands
    if all(o.op == "const" for o in around):
        return shape, ()
    own, typed = (code_of(node.op, lambda weak=weak: _common(around, weak)) for weak in (True, False))  # type: ignore[misc]
    return shape, tuple(code for code in dict.fromkeys((own, typed)) if code is not None)


def _common(operands: list[Node], weak: bool) -> str:
    """The dtype of values together, constants among them `weak`, without a precision of their own."""
    code = functools.reduce(join_dtype_codes, [o.dtype for o in operands if o.op != "const" or not weak])
    return join_dtype_codes(code, "F") if any(isinstance(o.params, complex) for o in operands if o.op == "const") else code
