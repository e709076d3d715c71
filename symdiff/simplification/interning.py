"""Bindings of several runs of one function in one table, equal ones once.

Assumes deterministic operations. Guarantees that two symbols have one number exactly when the same operations, parameters
and constants (by their bits) gave them, from whichever run they are; operands have lower numbers than their users. Refuses
nothing: what cannot be compared counts as different.
"""

import itertools
import math
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from symdiff.ir.building import Builder, dtype_of_atoms
from symdiff.ir.graph import Graph, GraphOutput
from symdiff.ir.joining import renamed_graph
from symdiff.ir.loops import Loop
from symdiff.ir.node import ArrayConstant, Atom, Constant, Known, Node
from symdiff.rulebooks.calls import CallSite
from symdiff.vocabulary.extents import renamed_sizes
from symdiff.vocabulary.heads import HEADS, Static
from symdiff.vocabulary.ops import OPS

_PARTIAL = frozenset(name for name, row in HEADS.items() if row.defined)


class Values:
    """The table: `nodes[number]`, whose operands are numbers; `statics` tell their parameters apart."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.statics: list[Any] = []
        self._seen: dict[tuple[Any, ...], int] = {}
        self.masked: dict[int, int] = {}  # for what one way does that which does nothing in the other

    def put(
        self,
        op: str,
        operands: tuple[int, ...],
        shape: tuple[int, ...],
        dtype: str | None,
        params: Any = None,
        origin: str = "",
        primal: bool = True,
    ) -> int:
        """The number of an operation."""
        row = OPS.get(op)
        ordered = tuple(sorted(operands)) if row is not None and row.commutes else operands
        return self._once(Node(op, operands, shape, dtype, params, origin, primal), ordered, _static(params))

    def constant(self, atom: Known) -> int:
        """The number of a constant."""
        value = atom.value
        return self._once(atom, (), _frozen(value) if atom.shape else (type(value).__name__, repr(value)))

    def _once(self, node: Node, ordered: tuple[int, ...], static: Any) -> int:
        key = (node.op, ordered, node.shape, node.dtype, static)
        found = self._seen.get(key)
        if found is None:
            found = self._seen[key] = len(self.nodes)
            self.nodes.append(node)
            self.statics.append(static)
        return found

    def is_alike(self, one: int, other: int) -> bool:
        """Whether two numbers are of one operation, whatever its operands."""
        a, b = self.nodes[one], self.nodes[other]
        return (a.op, a.shape, a.dtype) == (b.op, b.shape, b.dtype) and bool(self.statics[one] == self.statics[other])

    def like(self, number: int, operands: tuple[int, ...]) -> int:
        """The operation of a node on other operands."""
        node = self.nodes[number]
        return self.put(node.op, operands, node.shape, node.dtype, node.params, node.origin, node.primal)

    def select(self, condition: int, yes: int, no: int, origin: str, own: Collection[int] = ()) -> int:
        """`yes` where the condition holds, else `no`, in their common dtype; `own`: what only one of the two ways reads."""
        if yes == no:
            return yes
        a, b = self.nodes[yes], self.nodes[no]
        truths = {self.truth(yes), self.truth(no)}
        if truths == {True, False}:
            return condition if self.truth(yes) else self.negation(condition)
        code = dtype_of_atoms((a, b))
        shape = np.broadcast_shapes(a.shape, b.shape)
        is_array = a.shape == b.shape != () and a.dtype == b.dtype
        written = self._written(condition, yes, no, origin, own) if is_array else None
        if written is not None:
            return written
        return self.put("select", (condition, self._cast(yes, code), self._cast(no, code)), shape, code, None, origin)

    def _written(self, condition: int, yes: int, no: int, origin: str, own: Collection[int]) -> int | None:
        """An array of which ways write some rows: the values that are written are selected; None for other arrays."""
        ways = [self._writes(yes, own), self._writes(no, own)]
        base = next((n for n in ways[0] if n in ways[1] and self.nodes[n].shape == self.nodes[yes].shape), None)
        if base is None:
            return None
        found = base
        for way, holds in zip(ways, (True, False), strict=True):
            for number in reversed(way[: way.index(base)]):
                node = self.nodes[number]
                rest: tuple[int, ...] = node.operands[1:]
                if node.op == "part":
                    masked = self._masked(node.operands[0], condition if holds else self.negation(condition), True, origin)
                    if masked is None:
                        return None
                    first = self.nodes[masked].operands
                    masked = self.like(masked, (*first[: node.params], found, *first[node.params + 1 :]))
                    self.masked[node.operands[0]], found = masked, self.like(number, (masked,))
                    continue
                if rest:
                    rows = self._rows_within(condition, rest[0], holds, origin)
                    shape = (*self.nodes[rows].shape, *node.shape[1:])
                    was = self.put("gather", (found, rows), shape, node.dtype, Static("gather", {}), origin)
                    rest = (rows, self.select(condition, *((rest[1], was) if holds else (was, rest[1])), origin))
                found = self.like(number, (found, *rest))
                if number in own and found != number:
                    self.masked[number] = found
        return found

    def mask_decompositions(self, numbers: Iterable[int], holds: int, thin: bool, origin: str) -> None:
        """What raises for some matrices is done, where a condition does not hold, to one with 1, 2, ... on its diagonal. With
        `thin`, where both ways may be the function's, see `equalities`, it is that of its own matrix, or NaN where it has none.
        """
        for number in numbers:
            node = self.nodes[number]
            if node.op in _PARTIAL:
                matrix = self.nodes[node.operands[0]]
                *_, rows, columns = matrix.shape
                regular = np.broadcast_to(np.eye(rows, columns) * np.arange(1.0, columns + 1), matrix.shape)
                other = self.constant(ArrayConstant(regular.astype(matrix.dtype)))
                own = self.put("or", (holds, self._defined(node)), (), "?", None, origin, False) if thin else holds
                found = self.put("select", (own, node.operands[0], other), matrix.shape, matrix.dtype, None, origin, False)
                found = self.like(number, (found, *node.operands[1:]))
                if thin:
                    missing = self.constant(Constant(math.nan, node.dtype))
                    found = self.put("select", (own, found, missing), node.shape, node.dtype, None, origin, False)
                self.masked[number] = found
            elif number not in self.masked and _decomposes(node):
                masked = self._masked(number, holds, origin, thin, writes=False)
                if masked is not None:
                    self.masked[number] = masked

    def _defined(self, node: Node) -> int:
        """Whether a matrix has the decomposition that a node makes of it; false of several matrices, which may differ."""
        matrix, how = self.nodes[node.operands[0]], HEADS[node.op].defined
        if len(matrix.shape) > 2:
            return self.constant(Constant(False))

        def told(op: str, operands: tuple[int, ...], code: str, params: Any = None) -> int:
            return self.put(op, operands, (), code, params, node.origin, False)

        code = matrix.dtype or "d"
        total = told("sum", node.operands[:1], code, Static("sum", {"axes": (0, 1)}))
        found = told("isfinite", (total,), "?")
        if how == "isfinite":
            return found
        value = told(how, node.operands[:1], "d" if HEADS[how].result == "count" else code, Static(how, {}))
        return told("and", (found, told("ne", (value, self.constant(Constant(0.0))), "?")), "?")

    def _masked(self, number: int, holds: int, origin: str, thin: bool, writes: bool = True) -> int | None:
        """A loop as one that changes arrays, if it `writes`, and does decompositions only where a condition holds; None if
        rounds do more to an array than write some rows of it, or others have the sizes that it counts.
        """
        node, loop = self.nodes[number], self.nodes[number].params
        if loop.tested and loop.stacks:
            return None
        values, builder = Values(), Builder()
        builder.inputs, builder.bindings = list(loop.body.inputs), list(loop.body.bindings)
        mask = builder.fresh_input("holds", (), "?").node
        run = Numbered(values, builder)
        condition, outputs = run.of(mask), [run.of(o.atom) for o in loop.body.outputs]
        carried = [k for k in range(loop.carried) if writes and loop.body.outputs[k].shape]
        arrays = {k: run.of(loop.body.inputs[k + 1].node) for k in carried}
        own = range(len(values.nodes))
        for k, leaf in arrays.items():
            found = outputs[k] if outputs[k] == leaf else values._written(condition, outputs[k], leaf, origin, own)
            if found is None:
                return None
            outputs[k] = found
        values.mask_decompositions(own, condition, thin, origin)
        if loop.tested and not values.cone(outputs[-1:]).isdisjoint(arrays.values()):  # which would never change
            outputs[-1] = values.conjunction([(condition, True), (outputs[-1], True)])
        inside = Builder()
        inside.inputs = builder.inputs
        atoms = values.rebuilt(inside, {run.of(leaf.node): leaf.node for leaf in inside.inputs}, values.with_masks(outputs))
        given = tuple(GraphOutput(o.name, atom) for o, atom in zip(loop.body.outputs, atoms, strict=True))
        body = inside.graph(loop.body.name, given, origin=loop.body.origin)
        return self.put("loop", (*node.operands, holds), (), node.dtype, replace(loop, body=body), node.origin, node.primal)

    def with_masks(self, roots: list[int]) -> list[int]:
        """The roots with what changes nothing in the other way in place of what one way writes."""
        made: dict[int, int] = {}
        stack = list(roots) if self.masked else []
        while stack:
            number = stack[-1]
            needs = [self.masked[number]] if number in self.masked else list(self.nodes[number].operands)
            missing = [n for n in needs if n not in made] if number not in made else []
            if missing:
                stack += missing
                continue
            stack.pop()
            found = [made[n] for n in needs]
            if number in self.masked:
                made[number] = found[0]
            else:
                made[number] = number if found == needs else self.like(number, tuple(found))
        self.masked.clear()
        return [made.get(r, r) for r in roots]

    def _rows_within(self, condition: int, rows: int, holds: bool, origin: str) -> int:
        """The rows that one way writes; in the other way, where they might be beyond the array, as many within it."""
        node = self.nodes[rows]
        if not math.prod(node.shape) or not node.shape or node.op == "const":
            return rows
        if node.op == "add":
            (shape, first), table = min((self.nodes[o].shape, o) for o in node.operands), self.nodes[node.operands[-1]]
            if shape == () and isinstance(table, ArrayConstant):  # from a number on
                other = self.constant(Constant(float(-table.value.min())))
                found = self.select(condition, *((first, other) if holds else (other, first)), origin)
                return self.like(rows, (found, node.operands[-1]))
        other = self.constant(ArrayConstant(np.arange(float(math.prod(node.shape))).reshape(node.shape)))
        return self.select(condition, *((rows, other) if holds else (other, rows)), origin)

    def _writes(self, number: int, own: Collection[int]) -> list[int]:
        """An array, and before it those in which rows were written, the latest first; also by a loop of its `own`."""
        found = [number]
        while True:
            node = self.nodes[found[-1]]
            if node.op in ("assign_at", "reshape"):
                found.append(node.operands[0])
            elif node.op == "part" and node.operands[0] in own and node.params < self.nodes[node.operands[0]].params.carried:
                found.append(self.nodes[node.operands[0]].operands[node.params])
            else:
                return found

    def truth(self, number: int) -> bool | None:
        """The value of a constant truth, None for anything else."""
        node = self.nodes[number]
        value = node.params if node.op == "const" and node.shape == () else None
        return bool(value) if isinstance(value, (bool, np.bool_)) else None

    def _cast(self, number: int, code: str) -> int:
        node = self.nodes[number]
        if node.op == "const" and node.shape == () and node.dtype in (None, code):
            return number
        return number if node.dtype == code else self.put("cast", (number,), node.shape, code, None, node.origin)

    def negation(self, number: int) -> int:
        """The opposite of a truth value."""
        node = self.nodes[number]
        if node.op == "not" and self.nodes[node.operands[0]].dtype == "?":
            return node.operands[0]
        if node.op in ("eq", "ne"):
            return self.put("ne" if node.op == "eq" else "eq", node.operands, (), "?", None, node.origin)
        return self.put("not", (number,), (), "?", None, node.origin)

    def conjunction(self, facts: Iterable[tuple[int, bool]]) -> int:
        """Whether all these conditions have these values."""
        total: int | None = None
        for number, value in facts:
            fact = number if value else self.negation(number)
            total = fact if total is None else self.put("and", (total, fact), (), "?", None, self.nodes[fact].origin)
        return self.constant(Constant(True)) if total is None else total

    def cone(self, roots: list[int], known: set[int] | frozenset[int] = frozenset()) -> set[int]:
        """The numbers that the roots are computed from, the roots included, those in `known` left out."""
        found: set[int] = set()
        stack = [r for r in roots if r not in known]
        while stack:
            number = stack.pop()
            if number not in found:
                found.add(number)
                stack += [o for o in self.nodes[number].operands if o not in known and o not in found]
        return found

    def rebuilt(self, builder: Builder, symbols: dict[int, Atom], roots: list[int]) -> list[Atom]:
        """The roots bound on a builder; `symbols` are the inputs, by their numbers, and gather what is bound."""
        counted: set[str] = set()
        for number in sorted(self.cone(roots, symbols.keys())):  # type: ignore[arg-type]
            node = self.nodes[number]
            if node.op == "const":
                symbols[number] = node
                continue
            operands, params = tuple(symbols[o] for o in node.operands), node.params
            if node.op == "loop" and params.tested:
                name = next(n for k in itertools.count(1) if (n := f"{params.counted}{f'_{k}' * (k > 1)}") not in counted)
                counted.add(name)
                params = replace(params, rounds=renamed_sizes(params.rounds, {params.counted: name}))
            builder.primal = node.primal
            symbols[number] = builder.bind(node.op, operands, node.shape, node.dtype or "d", params, node.origin)
        return [symbols[r] for r in roots]


class Numbered:
    """The symbols of one run by their numbers in a table. `own` are the inputs before captured ones."""

    def __init__(self, values: Values, builder: Builder) -> None:
        self.values = values
        self.builder = builder
        self.numbers: dict[Atom, int] = {}
        self._inputs = 0
        self._bindings = 0

    def of(self, atom: Atom) -> int:
        """The number of an atom of this run."""
        self._advance()
        return self._number(atom)

    def _number(self, atom: Atom) -> int:
        found = self.numbers.get(atom)
        return self.values.constant(atom) if found is None else found  # type: ignore[arg-type]

    def _advance(self) -> None:
        builder = self.builder
        own = len(builder.inputs) - len(builder.captures)
        for place in range(self._inputs, len(builder.inputs)):
            symbol = builder.inputs[place].node
            source: Any = place
            if place >= own:
                outer = list(builder.captures)[place - own]
                owner = builder.captured[place - own].builder
                known = id(outer) if owner.path is None else owner.path.number(outer)
                source = ("captured", owner.level, known)  # each level has numbers of its own
            self.numbers[symbol] = self.values.put("input", (), symbol.shape, symbol.dtype, source)
        self._inputs = len(builder.inputs)
        for k in range(self._bindings, len(builder.bindings)):
            b = builder.bindings[k]
            operands = tuple([self._number(o) for o in b.operands])
            self.numbers[b.result] = self.values.put(b.op, operands, b.shape, b.dtype, b.params, b.origin, b.primal)
        self._bindings = len(builder.bindings)


def _decomposes(node: Node) -> bool:
    """Whether a loop has operations that raise for some matrices."""
    return node.op == "loop" and any(b.op in _PARTIAL or _decomposes(b) for b in node.params.body.bindings)


def _static(params: Any) -> Any:
    """What tells parameters apart."""
    if isinstance(params, Static):
        return (params.head, *((key, _frozen(value)) for key, value in params.params.items()))
    if isinstance(params, CallSite):
        return id(params.rule), id(params.function) if params.graph is None else 0
    if isinstance(params, Loop):
        names = {name: f"#{n}" for n, name in enumerate(_counted(params.body))}
        if params.tested and not params.stacks:  # nothing else has a size that it counts
            names[params.counted or ""] = "#"
        loop = replace(params, body=renamed_graph(params.body, names))
        known = params.carried, params.rows, params.stacks, params.sums, params.limit, params.backward
        return ("loop", loop.fingerprint(), params.tested, renamed_sizes(params.rounds, names), *known)
    return params


def _counted(graph: Graph) -> list[str]:
    """The names of the numbers of rounds that loops in a graph count."""
    loops = [b.params for b in graph.bindings if b.op == "loop"]
    return [name for loop in loops for name in (*filter(None, [loop.counted]), *_counted(loop.body))]


def _frozen(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.char, value.tobytes()
    return tuple(value) if isinstance(value, list) else value
