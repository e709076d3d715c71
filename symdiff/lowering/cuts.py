"""Complex values that functions with branch cuts take: computed as NumPy does, so that zeros keep the signs that tell the side.

Assumes a Program. Guarantees that sums, products and quotients of the value part on the way to such a function are of two
complex numbers each, as NumPy makes them of a complex and a real one: (-1.5-0j)/1.3 lies above the cut, where the quotients of
the parts lie below it. Other values keep their real operands, which cost half as much.
"""

from symdiff.ir.node import Node
from symdiff.lowering.program import Program
from symdiff.lowering.walks import live_only
from symdiff.vocabulary.traits import operations

CUTS = operations("cut")
_ARITHMETIC = operations("arithmetic")
_PASSING = operations("before_cut")


def before_cuts(program: Program) -> set[int]:
    """The positions of the complex values of the value part that reach functions with branch cuts by arithmetic alone."""
    nodes = program.nodes
    found: set[int] = set()
    for position in range(len(nodes) - 1, -1, -1):
        node = nodes[position]
        if node.primal and (node.op in CUTS or (position in found and node.op in _PASSING)):
            found.update(o for o in node.operands if nodes[o].dtype in "FD" or nodes[o].op == "imag")
    return {p for p in found if nodes[p].primal and nodes[p].op in _PASSING}


def promote_program(program: Program) -> Program:
    """The Program with the real operands of such values made complex."""
    strict = before_cuts(program)
    if not any(_is_mixed(program, p) for p in strict):
        return program
    nodes: list[Node] = []
    place: list[int] = []
    casts: dict[tuple[int, str], int] = {}

    def put(node: Node) -> int:
        nodes.append(node)
        return len(nodes) - 1

    def complex_of(operand: int, code: str, origin: str) -> int:
        own = program.nodes[operand]
        if own.dtype in "FD":
            return place[operand]
        if (operand, code) not in casts:
            number = Node("const", (), (), code, complex(own.params), origin) if own.op == "const" else None
            casts[operand, code] = put(number or Node("cast", (place[operand],), (), code, None, origin, True))
        return casts[operand, code]

    for position, node in enumerate(program.nodes):
        operands = tuple([place[o] for o in node.operands])
        if position in strict and _is_mixed(program, position):
            operands = tuple(complex_of(o, node.dtype, node.origin) for o in node.operands)
        place.append(put(node.on(operands)))
    return live_only(program.over(nodes, place))


def _is_mixed(program: Program, position: int) -> bool:
    node = program.nodes[position]
    return node.op in _ARITHMETIC and node.dtype in "FD" and any(program.nodes[o].dtype in "fd" for o in node.operands)
