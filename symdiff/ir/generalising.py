"""One Graph for any size, from graphs of the same function at several.

What is the same in all of them stays; an integer that differs is an affine expression of the sizes, a number that differs one
over or times such an expression, with products of several. Assumes samples of which the first is the base, one for each size
differs from it in this size alone, and others tell whether an expression holds. Guarantees that the result, at the sizes of
each sample, is the sample's graph. Refuses, with `Differs`, graphs that are built otherwise, or have another number.
"""

import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from symdiff.errors import TraceError
from symdiff.ir.branches import KEY as BRANCHES
from symdiff.ir.branches import Branches
from symdiff.ir.graph import Graph, GraphInput, GraphOutput, outputs_at
from symdiff.ir.loops import Place
from symdiff.ir.node import ArrayConstant, Constant, Node
from symdiff.vocabulary.extents import Count, Extent, Shape, Size, examples, sizes_in
from symdiff.vocabulary.heads import Static

FIRST = (71, 83, 97, 103, 113, 127, 137, 149)  # sizes to begin with, above those up to which arrays are kept as cells
_PARTS = 4  # times a size that a number may have as its count: 2*n + 1


class Sample(NamedTuple):
    """Numbers for sizes, and the graph that is traced there."""

    sizes: Mapping[str, int]
    graph: Graph


class Differs(TraceError):
    """Graphs of a function at several sizes are not one graph."""


def generalised_graph(samples: Sequence[Sample], sizes: Sequence[Size]) -> Graph:
    """The graph of all samples, the first one's where nothing differs. Raises `Differs` where there is none."""
    return _Merging(samples, sizes).graph([sample.graph for sample in samples])


def _equal(values: Sequence[Any]) -> bool:
    """Whether numbers are the same, to the bit."""
    first = values[0]
    return all(v is first or (type(v) is type(first) and repr(v) == repr(first)) for v in values)


class _Merging:
    """Values of the samples, side by side, as one."""

    def __init__(self, samples: Sequence[Sample], sizes: Sequence[Size]) -> None:
        self.sizes = sizes
        self.rows = [[sample.sizes[size.name] for size in sizes] for sample in samples]
        self.steps = [next(k for k, row in enumerate(self.rows) if self._only(row, place)) for place in range(len(sizes))]
        self.where = ""
        self.loops = samples[0].graph.notes.get("loops", {})
        self.known: dict[tuple[int, ...], Count] = {}

    def _only(self, row: list[int], place: int) -> bool:
        return all((n != m) == (k == place) for k, (n, m) in enumerate(zip(row, self.rows[0], strict=True)))

    def differs(self, what: str, values: Sequence[Any], at: int | None = None) -> Differs:
        """The error that tells two different values, the sizes at which they are found, and a loop that may be why."""
        if at is None:
            at = next((k for k, v in enumerate(values) if repr(v) != repr(values[0])), 0)
        told = [", ".join(f"{s.name} = {n}" for s, n in zip(self.sizes, self.rows[k], strict=True)) for k in (0, at)]
        text = f"{self.where}: {what} is {values[0]} where {told[0]}, and {values[at]} where {told[1]}"
        loops = [f"; the loop at {place} is {why}" for place, why in self.loops.items() if why != "kept"]
        return Differs(f"{text}: this is no graph for any size, give numbers for sizes{''.join(loops[:1])}")

    def same(self, what: str, values: Sequence[Any]) -> None:
        """Raise where values are not all the same."""
        if any(v != values[0] for v in values):
            raise self.differs(what, values)

    # -- graphs

    def graph(self, graphs: Sequence[Graph]) -> Graph:
        """Graphs as one."""
        first = graphs[0]
        self.where = first.origin or self.where
        self.same("the number of arguments", [len(g.inputs) for g in graphs])
        one = _Bindings(self, graphs)
        inputs = [
            GraphInput(one.add([i.node for i in leaves]), leaves[0].path)
            for leaves in zip(*(g.inputs for g in graphs), strict=True)
        ]
        one.bindings.clear()
        for nodes in zip(*(g.bindings for g in graphs), strict=False):
            self.where = nodes[0].origin or self.where
            one.add(nodes)
        counts = [len(g.bindings) for g in graphs]
        longest = graphs[counts.index(max(counts))].bindings
        self.where = longest[min(counts)].origin if len(longest) > min(counts) else self.where
        self.same("the number of operations", counts)
        self.same("the number of results", [len(g.outputs) for g in graphs])
        self.same("the structure of the result", [str(g.out_tree) for g in graphs])
        outputs = [
            GraphOutput(o[0].name, one.operand([x.atom for x in o])) for o in zip(*(g.outputs for g in graphs), strict=True)
        ]
        notes = dict(first.notes)
        if any(BRANCHES in g.notes for g in graphs):
            notes[BRANCHES] = self.branches([g.notes.get(BRANCHES) for g in graphs])
        return Graph(first.name, tuple(inputs), tuple(outputs), one.bindings, first.out_tree, first.origin, first.doc, notes)

    def branches(self, found: Sequence[Branches | None]) -> Branches:
        """What is known of the paths of the function."""
        self.same("the paths of the function", [str(b) for b in found])
        known = [b for b in found if b is not None]
        self.same("the exceptions", [[f"{type(e).__name__}: {e}" for e in b.raised] for b in known])
        conditions = [b.conditions for b in known if b.conditions is not None]
        return replace(known[0], conditions=self.graph(conditions) if conditions else None)

    # -- what is static

    def value(self, what: str, values: Sequence[Any]) -> Any:
        """Static parameters as one."""
        first = values[0]
        self.same(what, [type(v).__name__ for v in values])
        if isinstance(first, (int, np.integer)) and not isinstance(first, bool):
            return self.extent(what, tuple(map(int, values)))
        if isinstance(first, Graph):
            return self.graph(values)
        if isinstance(first, Static):
            self.same(what, [v.head for v in values])
            return Static(first.head, self.value(f"a parameter of {first.head}", [v.params for v in values]))
        if isinstance(first, Place):
            self.same(f"{what}, its step", [v.step for v in values])
        if isinstance(first, dict):
            self.same(what, [list(v) for v in values])
            return {key: self.value(f"{what}, {key}", [v[key] for v in values]) for key in first}
        if isinstance(first, tuple):
            self.same(f"{what}, its length", [len(v) for v in values])
            parts = [self.value(what, parts) for parts in zip(*values, strict=True)]
            return type(first)(*parts) if hasattr(first, "_fields") else tuple(parts)
        if is_dataclass(first) and not isinstance(first, type):
            found = {f.name: self.value(f.name, [getattr(v, f.name) for v in values]) for f in fields(first)}
            return type(first)(**found)
        if isinstance(first, np.ndarray):
            self.same(f"{what}, its shape", [v.shape for v in values])
            self.same(what, [v.tolist() for v in values])
        elif hasattr(first, "function") and hasattr(first, "graph"):  # a call of a function with a rule
            self.same(what, [(v.function, None if v.graph is None else v.graph.fingerprint()) for v in values])
        elif not _equal(values) and any(v != first for v in values):
            raise self.differs(what, values)
        return first

    def extent(self, what: str, values: tuple[int, ...]) -> Count:
        """Integers as one, or as an affine expression of the sizes."""
        if values not in self.known:
            found: Count = values[0]
            for place, (size, step) in enumerate(zip(self.sizes, self.steps, strict=True)):
                base, other = self.rows[0][place], self.rows[step][place]
                times, rest = divmod(values[step] - values[0], other - base)
                if rest:
                    raise self.differs(what, values, step)
                found = found + times * (Extent(0, ((size, 1),)) - base)
            at = next((k for k, row in enumerate(self.rows) if self.at(found, row) != values[k]), None)
            if at is not None:
                raise self.differs(what, values, at)
            self.known[values] = found
        return self.known[values]

    def at(self, count: Count, row: list[int]) -> int:
        """A count at the sizes of a sample."""
        return count.at(dict(zip((s.name for s in self.sizes), row, strict=True))) if isinstance(count, Extent) else count


class _Bindings:
    """The bindings of one graph, with those that make a number from sizes before its first user."""

    def __init__(self, merging: _Merging, graphs: Sequence[Graph]) -> None:
        self.merging = merging
        self.places = [{node: k for k, node in enumerate((*(i.node for i in g.inputs), *g.bindings))} for g in graphs]
        self.names = {node.name for node in self.places[0]}
        self.made: dict[Node, Node] = {}
        self.bindings: list[Node] = []
        self.spoken: dict[Any, Node] = {}

    def add(self, nodes: Sequence[Node]) -> Node:
        """A binding of each sample as one."""
        first, merging = nodes[0], self.merging
        merging.same("the operation", [node.op for node in nodes])
        merging.same("the dtype", [node.dtype for node in nodes])
        merging.same("the number of operands", [len(node.operands) for node in nodes])
        operands = tuple(self.operand(atoms) for atoms in zip(*(node.operands for node in nodes), strict=True))
        shape = merging.value("the shape", [node.shape for node in nodes])
        if first.op == "item" and len(first.operands[0].shape) > 1:
            found = self.cell(nodes, operands)
        else:
            params = merging.value(f"a parameter of {first.op}", [node.params for node in nodes])
            found = Node(first.op, operands, shape, first.dtype, params, first.origin, first.primal, first.name)
        self.made[first] = found
        self.bindings.append(found)
        return found

    def cell(self, nodes: Sequence[Node], operands: tuple[Node, ...]) -> Node:
        """A cell of an array, by its index: its place in memory may be a product of sizes."""
        first, shape = nodes[0], operands[0].shape
        cells = [tuple(map(int, np.unravel_index(node.params, node.operands[0].shape))) for node in nodes]
        index = self.merging.value("the index of a cell", cells)
        if not any(isinstance(n, Extent) for n in (*index, *shape)):
            return first.on(operands)
        key = Static("getitem", {"key": tuple((i, i + 1, 1) for i in index)})
        small = Node("getitem", operands, (1,) * len(shape), first.dtype, key, first.origin, first.primal, self.name())
        self.bindings.append(small)
        return Node(
            "reshape", (small,), (), first.dtype, Static("reshape", {"shape": ()}), first.origin, first.primal, first.name
        )

    def name(self) -> str:
        """A name for a binding that no sample has."""
        name = next(n for k in itertools.count() if (n := f"s{k}") not in self.names)
        self.names.add(name)
        return name

    def operand(self, atoms: Sequence[Node]) -> Node:
        """An operand of each sample as one."""
        first, merging = atoms[0], self.merging
        merging.same("an operand", [place.get(a, "a constant") for a, place in zip(atoms, self.places, strict=True)])
        if first.op != "const":
            return self.made[first]
        merging.same("the kind of a constant", [(type(a).__name__, a.dtype, len(a.shape)) for a in atoms])
        if not isinstance(first, ArrayConstant):
            values = [a.params for a in atoms]
            return first if _equal(values) else self.number(values)
        if all(a.shape == first.shape and a.params.tobytes() == first.params.tobytes() for a in atoms):
            return first
        return self.array([a.params for a in atoms])

    # -- constants that sizes tell

    def bind(self, op: str, operands: tuple[Node, ...], shape: Shape = (), code: str = "d", params: Any = None) -> Node:
        """A binding of our own, the same one for the same operation."""
        key = (op, operands, shape, code, str(params))
        if key not in self.spoken:
            self.spoken[key] = Node(op, operands, shape, code, params, self.merging.where, False, self.name())
            self.bindings.append(self.spoken[key])
        return self.spoken[key]

    def array(self, values: Sequence[np.ndarray]) -> Node:
        """An array: of one number, the identity, or whole numbers that follow each other."""
        shape = self.merging.value("the shape of a constant", [v.shape for v in values])
        code = values[0].dtype.char
        code = code if code in "fdFD" else "d"
        firsts = [v.ravel()[0] if v.size else values[0].ravel()[0] for v in values]
        if all(v.tobytes() == np.full(v.shape, first, v.dtype).tobytes() for v, first in zip(values, firsts, strict=True)):
            numbers = [first.item() for first in firsts]
            return self.filled(self.constant(numbers), shape, code)
        if len(shape) == 2 and shape[0] == shape[1] and all(np.array_equal(v, np.eye(len(v))) for v in values):
            return self.bind("embed", (self.filled(Constant(1.0), shape[:1], code),), shape, code, Static("embed", {}))
        if len(shape) == 1 and code == "d":
            return self.ramp([v.astype(float) for v in values], shape)
        raise self.merging.differs("a constant array", [f"{v.dtype}{list(v.shape)}" for v in values])

    def ramp(self, values: Sequence[np.ndarray], shape: Shape) -> Node:
        """Numbers at equal distances."""
        if not all(map(len, values)):
            raise self.merging.differs("a constant array", [f"float64[{len(v)}]" for v in values])
        steps = [(v[-1] - v[0]) / (len(v) - 1) if len(v) > 1 else math.nan for v in values]
        close = [
            np.allclose(v, v[0] + np.arange(len(v)) * s, 1e-15, 1e-15 * np.abs(v).max())
            for v, s in zip(values, steps, strict=True)
            if len(v) > 1
        ]
        if not all(close):
            raise self.merging.differs("a constant array", [f"float64[{len(v)}]" for v in values])
        start, step = (self.constant([float(x) for x in numbers]) for numbers in ([v[0] for v in values], steps))
        ones = self.filled(Constant(1.0), shape, "d")
        total = self.bind("cumsum", (ones,), shape, "d", Static("cumsum", {"axis": 0}))
        places = self.bind("sub", (total, Constant(1.0)), shape)
        return self.bind("add", (self.bind("mul", (places, step), shape), start), shape)

    def constant(self, values: Sequence[Any]) -> Node:
        """A number, which sizes may tell."""
        return Constant(values[0]) if _equal(values) else self.number(values)

    def filled(self, value: Node, shape: Shape, code: str) -> Node:
        return self.bind("broadcast_to", (value,), shape, code, Static("broadcast_to", {"shape": shape}))

    def number(self, values: Sequence[Any]) -> Node:
        """A number that is one times or over the product of some counts, its square or its root. Others: `Differs`."""
        if all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values):
            for power in (1.0, -1.0, 2.0, -2.0, 0.5, -0.5):
                counts = self.counts(values, power)
                if counts is None:
                    continue
                value = self.product(values, power, counts)
                if value is not None:
                    return value
        raise self.merging.differs("a constant", values)

    def counts(self, values: Sequence[Any], power: float) -> list[Extent] | None:
        """The counts whose product is a multiple of the values to a power; None where there are none such."""
        merging = self.merging
        with np.errstate(all="ignore"):
            plain = np.abs(np.array(values, float)) ** (1 / power)
        if not np.all(np.isfinite(plain)) or np.any(plain == 0):
            return None
        found = []
        for place, step in enumerate(merging.steps):
            ratio, n, m = plain[step] / plain[0], merging.rows[0][place], merging.rows[step][place]
            if abs(ratio - 1) < 1e-12:
                continue
            off = Fraction((m - ratio * n) / (ratio - 1)).limit_denominator(_PARTS)  # (m + off)/(n + off) = ratio
            size = Extent(off.numerator, ((merging.sizes[place], off.denominator),))
            if any(merging.at(size, row) <= 0 for row in merging.rows[:3]):
                return None
            found.append(size)
        return found or None

    def product(self, values: Sequence[Any], power: float, counts: list[Extent]) -> Node | None:
        """Such a number as bindings, where they give it to the bit at all samples."""
        products = [math.prod(float(self.merging.at(c, row)) for c in counts) for row in self.merging.rows]
        if any(p <= 0 for p in products):
            return None
        for text, function in _FORMS[power]:
            guess = values[0] / function(1.0, products[0])
            for c in dict.fromkeys((float(round(guess)), guess)):
                if all(function(c, p) == v for p, v in zip(products, values, strict=True)):
                    return self.said(text, c, counts)
        return None

    def said(self, text: str, c: float, counts: list[Extent]) -> Node:
        """The bindings of a number: `text` has operations in the order in which they are done."""
        value = self.bind("size", (), params=counts[0])
        for count in counts[1:]:
            value = self.bind("mul", (value, self.bind("size", (), params=count)))
        for word in text.split():
            operands = {"square": (value, value), "over": (Constant(c), value), "times": (Constant(c), value)}.get(
                word, (value,)
            )
            if word != "times" or c != 1:
                value = self.bind({"square": "mul", "over": "div", "times": "mul"}.get(word, word), operands)
        return value


_FORMS: dict[float, list[tuple[str, Callable[[float, float], float]]]] = {
    1.0: [("times", lambda c, p: c * p)],
    -1.0: [("over", lambda c, p: c / p)],
    2.0: [("square times", lambda c, p: c * (p * p))],
    -2.0: [("square over", lambda c, p: c / (p * p)), ("over square", lambda c, p: (c / p) * (c / p))],
    0.5: [("sqrt times", lambda c, p: c * math.sqrt(p))],
    -0.5: [("sqrt over", lambda c, p: c / math.sqrt(p))],
}  # fmt: skip


def first_sizes(graph: Graph, turn: int = 0) -> dict[str, int]:
    """Numbers for the sizes of a graph's arguments, others at each turn."""
    sizes = sizes_in(tuple(leaf.shape for leaf in graph.inputs))
    numbers = [n + 2 * turn for n in FIRST[: len(sizes)]]
    return {size.name: n for size, n in zip(sizes, numbers[:: -1 if turn == 1 else 1], strict=True)}


def counts_in(*graphs: Graph) -> tuple[Extent, ...]:
    """The sizes that graphs compute with as numbers, in order."""
    return tuple(dict.fromkeys(b.params for graph in graphs for b in graph.bindings if b.op == "size"))


def example_graph(graph: Graph, sizes: Mapping[str, int], counts: Sequence[Extent]) -> Graph:
    """The graph at some sizes, its extents as examples of themselves, so that text which is made of it names them.

    Sizes that it computes with are further inputs, one for each of the `counts`.
    """
    made: dict[Node, Node] = {}
    inputs = []
    for leaf in graph.inputs:
        made[leaf.node] = _example(leaf.node, (), sizes)
        inputs.append(GraphInput(made[leaf.node], leaf.path))
    numbers = {}
    for count in counts:
        name = "size_" + re.sub(r"\W+", "_", str(count)).strip("_")
        numbers[count] = Node("input", (), (), "d", None, "", True, name)
        inputs.append(GraphInput(numbers[count], name))
    bindings = []
    for binding in graph.bindings:
        if binding.op == "size":
            made[binding] = numbers[binding.params]
        else:
            made[binding] = _example(binding, tuple(made.get(o, o) for o in binding.operands), sizes)
            bindings.append(made[binding])
    outputs = outputs_at(graph.outputs, made)
    return Graph(graph.name, tuple(inputs), outputs, bindings, graph.out_tree, graph.origin, graph.doc, graph.notes)


def _example(node: Node, operands: tuple[Node, ...], sizes: Mapping[str, int]) -> Node:
    params = node.params
    params = Static(params.head, examples(params.params, sizes)) if isinstance(params, Static) else examples(params, sizes)
    return Node(node.op, operands, examples(node.shape, sizes), node.dtype, params, node.origin, node.primal, node.name)
