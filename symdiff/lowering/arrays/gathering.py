"""Program to Program: sums of regions gathered into one array.

Assumes a Program of whole arrays. Guarantees that zeros around a region are not made only to be added, nor those beside a
diagonal.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from symdiff.ir.node import Node
from symdiff.lowering.program import ASSEMBLE, Program, key_of
from symdiff.lowering.walks import live_only, uses_of


class _Part(NamedTuple):
    """What is added to a region of an array: a value, or one whose cells are a `line` in the row of all cells."""

    value: int
    key: Any
    row: int = -1
    line: Any = None


def assemble_steps(program: Program) -> Program:
    """Sums of `put` and `embed` nodes that nothing else uses, as one `assemble` node: parts are added in their regions of one
    array, which is a row of all cells where all parts are diagonals, or whole.
    """
    nodes, uses = program.nodes, uses_of(program)
    parts: dict[int, list[_Part]] = {}
    made: list[Node] = []
    known: dict[Any, int] = {}
    place: list[int] = []

    def put(node: Node) -> int:
        found = known.setdefault(key_of(node), len(made))
        made.extend([node] if found == len(made) else [])
        return found

    for position, node in enumerate(nodes):
        if node.op in ("put", "embed") and node.dtype != "?":
            parts[position] = [_part(nodes, position)]
        elif node.op == "add" and all(nodes[o].shape == node.shape and nodes[o].dtype == node.dtype for o in node.operands):
            gathered = [o for o in node.operands if o in parts and uses[o] == 1]
            lines = all(part.line for o in gathered for part in parts[o])
            if len(gathered) < 2 or not lines:
                gathered = [o for o in gathered if nodes[o].op != "embed"]
            if gathered:
                line = ((0, math.prod(node.shape), 1),) if lines else None
                whole = _Part(-1, tuple((0, n, 1) for n in node.shape), line=line)
                each = [parts[o] if o in gathered else [whole._replace(value=o, row=o)] for o in node.operands]
                parts[position] = [part for found in each for part in found]
        if position in parts and node.op != "embed":
            place.append(_assembled(nodes, node, parts[position], place, put))
        else:
            place.append(put(node.on(tuple([place[o] for o in node.operands]))))
    return live_only(program.over(made, place))


def _part(nodes: list[Node], position: int) -> _Part:
    node = nodes[position]
    whole = tuple((0, n, 1) for n in node.shape)
    value, key = (node.operands[0], node.params["key"]) if node.op == "put" else (position, whole)
    found = _Part(value, key)
    known = all(isinstance(n, int) for n in (*node.shape, *(end for cut in key for end in cut)))
    if not known or nodes[value].op != "embed" or len(node.shape) != 2 or any(step < 1 for *_, step in key):
        return found
    (row, _, down), (column, _, right) = key
    start, step = row * node.shape[1] + column, down * node.shape[1] + right
    return found._replace(row=nodes[value].operands[0], line=((start, start + (nodes[value].shape[0] - 1) * step + 1, step),))


def _assembled(nodes: list[Node], node: Node, parts: list[_Part], place: list[int], put: Callable[[Node], int]) -> int:
    """Put the nodes of a sum; the place of the sum."""

    def made(op: str, operands: list[int], shape: tuple[Any, ...], params: dict[str, Any]) -> int:
        return put(Node(op, tuple(operands), shape, node.dtype, params, node.origin, node.primal))

    if not all(part.line for part in parts):
        return made(ASSEMBLE, [place[part.value] for part in parts], node.shape, {"keys": tuple(part.key for part in parts)})
    size = (math.prod(node.shape),)
    operands = [
        made("reshape", [place[part.row]], size, {"shape": size}) if nodes[part.row].shape == node.shape else place[part.row]
        for part in parts
    ]
    whole = made(ASSEMBLE, operands, size, {"keys": tuple(part.line for part in parts)})
    return made("reshape", [whole], node.shape, {"shape": node.shape})
