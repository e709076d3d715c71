"""Which operations of a graph of whole arrays are done cell by cell: those on few cells, where that costs less than arrays do.

Assumes what `scalarizing` assumes. Guarantees that what is chosen works on few cells, with heads that can be unrolled. A
state of two cells is two numbers, between two large products or in a loop of a thousand rounds.
"""

import math
from collections import Counter

from symdiff.ir.graph import Graph
from symdiff.ir.node import Atom, Node
from symdiff.vocabulary.heads import HEADS
from symdiff.vocabulary.ops import OPS
from symdiff.vocabulary.traits import operations

FEW = 16  # cells of an array that may be as many numbers
WORK = 8 * FEW  # operations on cells of one binding: a product of matrices of 4 x 4
_PICKING = operations("picks")  # of large arrays, too: cells are read one by one

# In operations on numbers: what a reduction, product or move of an array takes, what an operation does in a chain of them, a
# number that is moved into an array or out of one, and by how much numbers have to be cheaper.
_KERNEL, _FUSED, _MOVE, _BETTER = 30, 6, 2, 1.5


def cells_of_binding(binding: Node) -> int:
    """The operations on cells that a binding unrolls to, where moving them is none."""
    head = HEADS.get(binding.op)
    if head is None:
        return 0 if binding.op in ("item", "array") else math.prod(binding.shape)
    shapes = [o.shape for o in binding.operands]
    return (head.unrolled or head.cost)(*shapes, **binding.params.params)


def chosen_bindings(graph: Graph) -> set[Node]:
    """The bindings to be unrolled: groups that hang together by their operands, where numbers are cheaper than arrays."""
    candidates = [b for b in graph.bindings if is_small(b)]
    groups = _Groups()
    own = set(candidates)
    for binding in candidates:
        for operand in binding.operands:
            if operand in own:
                groups.join(binding, operand)
    arrays: Counter[Node] = Counter()
    numbers: Counter[Node] = Counter()
    moved: set[Atom] = set()
    for binding in candidates:
        group = groups.of(binding)
        if binding.shape != () or any(o.shape != () for o in binding.operands):
            arrays[group] += cost_of_array(binding)
            numbers[group] += cells_of_binding(binding)
        for operand in binding.operands:
            if operand.shape != () and operand not in own and operand not in moved and operand.op != "const":
                moved.add(operand)
                numbers[group] += _MOVE * min(math.prod(operand.shape), FEW)
    for atom in (*(o for b in graph.bindings if b not in own for o in b.operands), *(o.atom for o in graph.outputs)):
        if atom in own and atom.shape != () and atom not in moved:
            moved.add(atom)
            numbers[groups.of(atom)] += _KERNEL + _MOVE * math.prod(atom.shape)
    return {b for b in candidates if arrays[groups.of(b)] > _BETTER * numbers[groups.of(b)]}


def cost_of_array(binding: Node) -> int:
    """What an operation takes that works on arrays."""
    if binding.op in OPS:
        return _FUSED
    return 0 if binding.op == "item" or (binding.op in HEADS and HEADS[binding.op].view) else _KERNEL


def is_small(binding: Node) -> bool:
    """Whether a binding works on few cells, and may be unrolled."""
    if binding.op in OPS or binding.op in ("item", "array"):
        return math.prod(binding.shape) <= FEW
    head = HEADS.get(binding.op)
    if head is None or not head.cells or math.prod(binding.shape) > FEW:
        return False
    few = binding.op in _PICKING or all(math.prod(o.shape) <= FEW for o in binding.operands)
    return few and cells_of_binding(binding) <= WORK


class _Groups:
    """Sets of bindings that are joined (union and find)."""

    def __init__(self) -> None:
        self._parent: dict[Node, Node] = {}

    def of(self, node: Node) -> Node:
        """What stands for a node's set."""
        parent = self._parent
        top = node
        while (above := parent.get(top, top)) is not top:
            top = above
        while node is not top:
            parent[node], node = top, parent.get(node, top)
        return top

    def join(self, a: Node, b: Node) -> None:
        """Make the sets of two nodes one."""
        a, b = self.of(a), self.of(b)
        if a is not b:
            self._parent[a] = b
