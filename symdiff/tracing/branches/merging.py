"""Joins the paths of a branching function, bottom-up, by anti-unification: equal operations on both arms are done once.

Assumes the arms' values in one table. Guarantees both arms as one function of what is selected, by the cheapest of three
ways: the fewest selects (a minimum vertex cut over pairs of values), selects as deep as can be, one for each result; so it
never costs more than the last. Values of different kinds are selected where they meet.
"""

from collections import deque
from dataclasses import dataclass
from math import prod

from symdiff.ir.node import Node
from symdiff.simplification.interning import Values
from symdiff.vocabulary.ops import OPS
from symdiff.vocabulary.traits import operations

_NUMERIC = operations("arithmetic", "compares") | {"array"}  # may take other constants
_FIXED = frozenset({"const", "input", "item"})
_ROUNDS = 100  # that are reckoned for a loop
_UNCUT = 1 << 40  # the capacity of what cannot be selected


@dataclass(frozen=True, slots=True)
class Fork:
    """A decision: the subtree where the condition holds, and the other; `thin` where one is for a set without inside."""

    condition: int
    origin: str
    yes: "Tree"
    no: "Tree"
    thin: bool = False


@dataclass(frozen=True, slots=True)
class Leaf:
    """The results of one path, or the exception that it ends in."""

    results: tuple[int, ...] | None
    error: Exception | None = None


Tree = Fork | Leaf
Facts = tuple[tuple[int, bool], ...]  # conditions and how they turn out


def joined_paths(values: Values, tree: Tree, decided: tuple[int, ...] = ()) -> tuple[int, ...] | None:
    """The results of a tree of paths as numbers of the table; `decided` are the conditions above it."""
    if isinstance(tree, Leaf):
        return tree.results
    above = (*decided, tree.condition)
    yes, no = joined_paths(values, tree.yes, above), joined_paths(values, tree.no, above)
    if yes is None or no is None:
        return no if yes is None else yes
    return _Join(values, tree, above, yes, no).results()


class _Join:
    """Two arms of one condition. A pair of values, one of each arm, is a vertex; its operands' pairs lie below it."""

    def __init__(self, values: Values, fork: Fork, decided: tuple[int, ...], yes: tuple[int, ...], no: tuple[int, ...]) -> None:
        self.values = values
        self.fork = fork
        self.roots = list(zip(yes, no, strict=True))
        self.fixed = values.cone(list(decided))  # computed in any case
        ways = values.cone(list(yes), self.fixed), values.cone(list(no), self.fixed)
        self.yes, self.no = ways[0] - ways[1], ways[1] - ways[0]
        self.own = self.yes | self.no
        self.below: dict[tuple[int, int], tuple[tuple[int, int], ...] | None] = {}

    def results(self) -> tuple[int, ...]:
        """The joined results, in which what one way does changes nothing and does not raise in the other."""
        found = self._cheapest()
        for own, holds in ((self.yes, self.fork.condition), (self.no, self.values.negation(self.fork.condition))):
            self.values.mask_decompositions(own, holds, self.fork.thin, self.fork.origin)
        return tuple(self.values.with_masks(list(found)))

    def _cheapest(self) -> tuple[int, ...]:
        """The joined results with the fewest operations: by the fewest selects, selected as deep as can be, or at once."""
        plain = tuple(self._select(pair) for pair in self.roots)
        if self.fork.thin:
            return plain  # whose arms are compared, see `equalities`
        self._explore()
        if not self.below:
            return plain
        return min((self._rebuilt(self._cut()), self._rebuilt(set()), plain), key=self._cost)

    def _select(self, pair: tuple[int, int]) -> int:
        return self.values.select(self.fork.condition, *pair, self.fork.origin, self.own)

    def _cost(self, results: tuple[int, ...]) -> int:
        nodes = self.values.nodes
        cone = self.values.cone(list(results), self.fixed)
        return sum(_work(nodes[n]) for n in cone)

    # -- pairs

    def _explore(self) -> None:
        """Fill `below`: the pairs of operands of every pair of equal operations, None where two values just differ."""
        stack = [pair for pair in self.roots if pair[0] != pair[1]]
        while stack:
            pair = stack.pop()
            if pair in self.below:
                continue
            found = self._operands(pair)
            self.below[pair] = found
            if found is not None:
                stack += [p for p in found if p[0] != p[1] and p not in self.below]

    def _operands(self, pair: tuple[int, int]) -> tuple[tuple[int, int], ...] | None:
        nodes = self.values.nodes
        a, b = nodes[pair[0]], nodes[pair[1]]
        if not self.values.is_alike(*pair) or a.op in _FIXED or len(a.operands) != len(b.operands):
            return None
        if pair[0] in self.fixed and pair[1] in self.fixed:
            return None
        if a.op == "loop" and a.params.tested and a.params.stacks:
            return None  # others have the sizes that it counts
        pairs = tuple(zip(a.operands, b.operands, strict=True))
        if a.op == "part" and pairs[0][0] != pairs[0][1] and self._operands(pairs[0]) is None:
            return None
        if a.op in OPS and OPS[a.op].commutes:
            crossed = tuple(zip(a.operands, reversed(b.operands), strict=True))
            if self._likeness(crossed) > self._likeness(pairs):
                pairs = crossed
        return pairs if all(self._fits(a, nodes[p], nodes[q]) for p, q in pairs if p != q) else None

    def _likeness(self, pairs: tuple[tuple[int, int], ...]) -> int:
        nodes = self.values.nodes
        return sum(2 if p == q else nodes[p].op == nodes[q].op for p, q in pairs)

    def _fits(self, user: Node, a: Node, b: Node) -> bool:
        """Whether an operation can take a selected value instead of one of two operands."""
        if "?" in (a.dtype, b.dtype) and a.dtype != b.dtype and None not in (a.dtype, b.dtype):
            return False
        if user.op not in OPS and user.op != "array" and (a.shape != b.shape or a.dtype != b.dtype):
            return False
        constants = [n for n in (a, b) if n.op == "const"]
        if not constants or user.op == "select":
            return not constants or user.dtype in ("d", "D") or len(constants) == 1
        if user.op not in _NUMERIC:
            return False
        operands = [self.values.nodes[o].dtype for o in user.operands]
        if user.op == "array":
            return user.dtype in ("d", "D")
        return len(constants) == 1 or all(code in ("d", "D", None) for code in operands)

    # -- the cut

    def _cut(self) -> set[tuple[int, int]]:
        """The pairs to select: the minimum cut nearest to the values that differ."""
        pairs = list(self.below)
        place = {pair: k for k, pair in enumerate(pairs)}
        network = _Network(2 * len(pairs) + 2)
        source, target = 2 * len(pairs), 2 * len(pairs) + 1
        for k, pair in enumerate(pairs):
            network.edge(2 * k, 2 * k + 1, self._capacity(pair))
            operands = self.below[pair]
            if operands is None:
                network.edge(source, 2 * k, _UNCUT)
            for below in operands or ():
                if below[0] != below[1]:
                    network.edge(2 * place[below] + 1, 2 * k, _UNCUT)
        for pair in set(self.roots):
            if pair[0] != pair[1]:
                network.edge(2 * place[pair] + 1, target, _UNCUT)
        reached = network.reached_at_most(source, target)
        return {pair for k, pair in enumerate(pairs) if reached[2 * k] and not reached[2 * k + 1]}

    def _capacity(self, pair: tuple[int, int]) -> int:
        node, other = (self.values.nodes[n] for n in pair)
        if node.dtype not in (None, *"?fdFD") or other.dtype not in (None, *"?fdFD"):
            return _UNCUT
        return max(1, prod(node.shape), prod(other.shape))

    def _rebuilt(self, cut: set[tuple[int, int]]) -> tuple[int, ...]:
        made: dict[tuple[int, int], int] = {}
        stack = list(self.roots)
        while stack:
            pair = stack[-1]
            if pair in made:
                stack.pop()
            elif pair[0] == pair[1]:
                made[pair] = pair[0]
            elif pair in cut or self.below[pair] is None:
                made[pair] = self._select(pair)
            else:
                operands = self.below[pair] or ()
                missing = [p for p in operands if p not in made]
                if missing:
                    stack += missing
                else:
                    made[pair] = self.values.like(pair[0], tuple(made[p] for p in operands))
        return tuple(made[pair] for pair in self.roots)


def _work(node: Node) -> int:
    """About how much a binding costs, a loop by its body."""
    if node.op == "loop":
        return _ROUNDS * sum(map(_work, node.params.body.bindings))
    return OPS[node.op].cost if node.op in OPS else prod(node.shape)


class _Network:
    """Maximum flow by shortest augmenting paths (Edmonds and Karp, 1972)."""

    def __init__(self, size: int) -> None:
        self.leaving: list[list[int]] = [[] for _ in range(size)]
        self.ends: list[int] = []
        self.room: list[int] = []

    def edge(self, start: int, end: int, capacity: int) -> None:
        for a, b, room in ((start, end, capacity), (end, start, 0)):
            self.leaving[a].append(len(self.ends))
            self.ends.append(b)
            self.room.append(room)

    def reached_at_most(self, source: int, target: int) -> list[bool]:
        """Which vertices the source still reaches when the flow is greatest."""
        while True:
            by = {source: -1}
            queue = deque([source])
            while queue and target not in by:
                vertex = queue.popleft()
                for e in self.leaving[vertex]:
                    if self.room[e] and self.ends[e] not in by:
                        by[self.ends[e]] = e
                        queue.append(self.ends[e])
            if target not in by:
                return [v in by for v in range(len(self.leaving))]
            way: list[int] = []
            vertex = target
            while vertex != source:
                way.append(by[vertex])
                vertex = self.ends[by[vertex] ^ 1]
            amount = min(self.room[e] for e in way)
            for e in way:
                self.room[e] -= amount
                self.room[e ^ 1] += amount


def raising(tree: Tree, facts: Facts = ()) -> list[tuple[Facts, Exception]]:
    """The paths of a tree that raise, in program order, with what tells the first one that is taken.

    Where an arm always raises, what comes after need not ask the arm's condition again.
    """
    if isinstance(tree, Leaf):
        return [] if tree.error is None else [(facts, tree.error)]
    yes, no = (*facts, (tree.condition, True)), (*facts, (tree.condition, False))
    if _ends(tree.yes):
        return raising(tree.yes, yes) + raising(tree.no, facts)
    if _ends(tree.no):
        return raising(tree.no, no) + raising(tree.yes, facts)
    return raising(tree.yes, yes) + raising(tree.no, no)


def _ends(tree: Tree) -> bool:
    """Whether every path of a tree raises."""
    return tree.error is not None if isinstance(tree, Leaf) else _ends(tree.yes) and _ends(tree.no)


def leaves(tree: Tree) -> list[tuple[list[tuple[int, bool]], Leaf]]:
    """Every path of a tree with the conditions on its way, in order."""
    found: list[tuple[list[tuple[int, bool]], Leaf]] = []
    stack = [(tree, [])]
    while stack:
        top, way = stack.pop()
        if isinstance(top, Leaf):
            found.append((way, top))
        else:
            stack.append((top.no, [*way, (top.condition, False)]))
            stack.append((top.yes, [*way, (top.condition, True)]))
    return found
