"""Many points at once in the array regime: every binding with a leading axis of points.

Assumes graphs of whole arrays. Guarantees one binding for each, or a few where NumPy's function has no batched form; what
does not depend on the points is computed once. Refuses heads that have no batched form, with `TraceError`.
"""

import math
from dataclasses import replace

import numpy as np

from symdiff.differentiation.deltas import Sparse, applied, dense, turned
from symdiff.errors import TraceError
from symdiff.ir.arrays.algebra import Arrays
from symdiff.ir.building import Builder, array_atom, is_constant
from symdiff.ir.graph import Graph, GraphInput, GraphOutput
from symdiff.ir.loops import Rounds
from symdiff.ir.node import Atom, Constant, Node
from symdiff.lowering.expanding import with_vectors
from symdiff.vocabulary.heads import HEADS, Static
from symdiff.vocabulary.ops import OPS
from symdiff.vocabulary.traits import operations
from symdiff.vocabulary.walking import worked_out

_AXES = operations("of_axes")
_AXIS = operations("of_axis")
_LAST = operations("of_last_axes")
_LINEAR = operations("linear") & HEADS.keys()
_PICKING = operations("picks", "reduces") & _LINEAR
_BILINEAR = operations("bilinear")
_SPECTRAL = operations("spectral")
_SCALING = operations("scales") | {"matmul"}


def vectorize_graph(graph: Graph, axes: list[int | None], count: int, out_axis: int) -> Graph:
    """The graph over `count` points: `axes` tells for each input where its points are, 0, -1 or None for nowhere."""
    builder = Builder()
    builder.primal = False
    builder.origin = graph.origin
    arrays = Arrays(builder, graph.origin)
    seeds: dict[Atom, Atom | Sparse] = {}
    for leaf, axis in zip(graph.inputs, axes, strict=True):
        shape = leaf.node.shape
        if axis is None:
            builder.inputs.append(leaf)
            continue
        whole = (count, *shape) if axis == 0 else (*shape, count)
        symbol = builder.input(leaf.name, whole, leaf.node.dtype, leaf.path)
        last = len(shape)
        seeds[leaf.node] = symbol if axis == 0 else arrays.transpose(symbol, (last, *range(last)))
    results = append_batched(graph, builder, seeds, count, out_axis != 0)
    outputs = tuple(GraphOutput(o.name, r) for o, r in zip(graph.outputs, results, strict=True))
    return builder.graph(graph.name, outputs, graph.out_tree, origin=graph.origin, doc=graph.doc)


def append_batched(
    graph: Graph, builder: Builder, seeds: dict[Atom, Atom | Sparse], count: int, last: bool = False, sums: int = 0
) -> list[Atom]:
    """Append a graph's bindings, some inputs given with a leading axis of `count`; its outputs with that axis, last or not.

    Of the last outputs, `sums` of them, the sums over that axis.
    """
    graph = with_vectors(graph, seeds)
    batch = _Batch(builder, seeds, count)
    builder.after(graph.bindings)
    known = {b.result for b in builder.bindings}
    for binding in graph.bindings:
        if any(o in batch.points or o in batch.sparse for o in binding.operands):
            builder.at(binding)
            batch.append(binding)
        elif binding.result not in known:
            builder.bindings.append(binding)
            if binding.op in HEADS:
                builder.structural[binding.result] = binding
    start = len(graph.outputs) - sums
    return [batch.result(o.atom, last) if n < start else batch.total(o.atom) for n, o in enumerate(graph.outputs)]


class _Batch:
    def __init__(self, builder: Builder, seeds: dict[Atom, Atom | Sparse], count: int) -> None:
        self.builder = builder
        self.points: dict[Atom, Atom] = {k: v for k, v in seeds.items() if not isinstance(v, Sparse)}
        self.sums: dict[Atom, Atom | None] = {}  # over the points
        self.parts: dict[Atom, bool] = {}  # whether parts of arrays are among the terms of sums
        self.sparse: dict[Atom, Sparse] = {k: v for k, v in seeds.items() if isinstance(v, Sparse)}
        self.count = count

    def append(self, binding: Node) -> None:
        """A binding with an axis of points; it stays sparse as far as the algebra of sparse arrays goes."""
        operands = [self.sparse.get(o, o) for o in binding.operands]
        if any(isinstance(o, Sparse) for o in operands) and not any(o in self.points for o in binding.operands):
            found = applied(Arrays(self.builder, binding.origin), binding, operands)
            if found is not None:
                self.sparse[binding.result] = found
                return
        for operand in binding.operands:
            self.settle(operand)
        self.points[binding.result] = self.bind(binding)

    def settle(self, atom: Atom) -> None:
        """A sparse array becomes one like others."""
        if atom in self.sparse and atom not in self.points:
            self.points[atom] = dense(Arrays(self.builder), self.sparse[atom])

    def result(self, atom: Atom, last: bool) -> Atom:
        """An atom with the axis of points as the first, or the last."""
        if last and atom in self.sparse and atom not in self.points:
            return dense(Arrays(self.builder), self.sparse[atom], last)
        found = self.full(atom)
        return Arrays(self.builder).transpose(found, (*range(1, len(found.shape)), 0)) if last else found

    def full(self, atom: Atom) -> Atom:
        """An atom with the axis of points, repeated along it where it does not depend on them."""
        self.settle(atom)
        if atom in self.points:
            return self.points[atom]
        return Arrays(self.builder).broadcast_to(atom, (self.count, *atom.shape))

    def total(self, atom: Atom) -> Atom:
        """The sum over the points."""
        found = self.regrouped(atom) if atom in self.points else self.builder.mul(Constant(float(self.count)), atom)
        return Arrays(self.builder).sum(self.full(atom), (0,)) if found is None else found

    def regrouped(self, atom: Atom) -> Atom | None:
        """The sum over the points without one array of all terms: products as products of matrices, factors and moves that
        are the same at all points taken out; None where the terms are added up as they are.
        """
        return worked_out(atom, self.sums, lambda x: self._terms(x) if self._adds_parts(x) else (), self._regrouped)  # type: ignore[no-any-return]

    def _adds_parts(self, atom: Atom) -> bool:
        """Whether parts of arrays are among the terms of a sum, which would fill whole arrays for each point."""
        return worked_out(  # type: ignore[no-any-return]
            atom, self.parts, self._terms, lambda x: x.op == "scatter_at" or any(self.parts[o] for o in self._terms(x))
        )

    def _terms(self, atom: Atom) -> tuple[Atom, ...]:
        return tuple(o for o in atom.operands if o in self.points) if atom.op in ("add", "sub") else ()

    def _regrouped(self, atom: Atom) -> Atom | None:
        a, op, operands = Arrays(self.builder), atom.op, atom.operands
        moving = [o in self.points for o in operands]
        if atom.dtype == "?" or op == "cast":
            return None
        if op in ("add", "sub"):
            return a.emit(op, *map(self.total, operands)) if self._adds_parts(atom) else None
        if op in _PICKING or (op == "select" and moving == [False, True, False] and is_constant(operands[2], 0)):
            inside = self.regrouped(operands[moving.index(True)])
            if inside is None:
                return None
            return a.emit(op, operands[0], inside, operands[2]) if op == "select" else a.bind(op, inside, **atom.params.params)
        if op in _LINEAR:
            return a.bind(op, *map(self.total, operands), **atom.params.params)
        if op == "scatter_at":
            rows, places = map(self.full, operands) if moving[1] else (self.total(operands[0]), operands[1])
            return a.scatter_at(rows, places, **atom.params.params)
        if op in _SCALING and sum(moving) == 1 and (moving[0] or op in _BILINEAR):
            parts = [self.total(o) if own else o for o, own in zip(operands, moving, strict=True)]
            return a.broadcast_to(a.matmul(*parts) if op == "matmul" else a.emit(op, *parts), atom.shape)
        if op == "matmul" and len(operands[0].shape) == len(operands[1].shape) == 2:
            (_, rows, inner), (*_, columns) = (x := self.full(operands[0])).shape, operands[1].shape
            y = a.reshape(self.full(operands[1]), (self.count, 1, inner, columns))
            return self.contracted(a, a.reshape(x, (self.count, rows, inner, 1)), y, (0, 2))
        return self.product_sum(a, atom, (0,)) if op == "mul" else None

    def product_sum(self, a: Arrays, product: Node, axes: tuple[int, ...]) -> Atom | None:
        """The sum over axes of a product that has more cells than its operands, as one of matrices; None where it is none."""
        rank = len(product.shape)
        sides = [self.points.get(o, o) for o in product.operands]
        leads = [(self.count if o in self.points else 1, *(1,) * (rank - len(o.shape))) for o in product.operands]
        x, y = (a.reshape(side, (*lead, *o.shape)) for side, lead, o in zip(sides, leads, product.operands, strict=True))
        cells = math.prod(map(max, zip(x.shape, y.shape, strict=True)))
        return self.contracted(a, x, y, axes) if cells > math.prod(x.shape) + math.prod(y.shape) else None

    def contracted(self, a: Arrays, x: Atom, y: Atom, axes: tuple[int, ...]) -> Atom | None:
        """The sum over axes of the product of arrays with as many axes, as a product of matrices; None where it is none."""
        pairs = list(enumerate(zip(x.shape, y.shape, strict=True)))
        rows = [axis for axis, (m, n) in pairs if m != 1 == n]
        columns = [axis for axis, (m, n) in pairs if m == 1 != n]
        inner = [axis for axis, (m, n) in pairs if m != 1 != n]
        if not inner or not (rows or columns) or not set(inner) <= set(axes) or not {*rows, *columns}.isdisjoint(axes):
            return None

        def matrix(of: Atom, *sides: list[int]) -> Atom:
            order = [axis for side in sides for axis in side]
            long = a.reshape(of, tuple(of.shape[axis] for axis in sorted(order)))
            return a.reshape(
                a.transpose(long, tuple(sorted(order).index(axis) for axis in order)),
                tuple(math.prod(of.shape[axis] for axis in side) for side in sides),
            )

        found = a.matmul(matrix(x, rows, inner), matrix(y, inner, columns))
        found = a.reshape(found, (*(x.shape[axis] for axis in rows), *(y.shape[axis] for axis in columns)))
        found = a.transpose(found, tuple(np.argsort(rows + columns).tolist()))
        return a.reshape(found, tuple(max(pair) for axis, pair in pairs if axis not in axes))

    def aligned(self, atom: Atom, rank: int, a: Arrays) -> Atom:
        """A batched operand with ones after the points, so that it broadcasts against arrays with `rank` axes."""
        found = self.points.get(atom)
        if found is None:
            return atom
        missing = rank - len(atom.shape)
        return a.reshape(found, (self.count, *(1,) * missing, *atom.shape)) if missing > 0 else found

    def bind(self, binding: Node) -> Atom:
        a = Arrays(self.builder, binding.origin)
        op, operands = binding.op, binding.operands
        if op == "cast":
            return self.builder.cast(self.points[operands[0]], binding.dtype)
        if op == "loop":
            return self.loop(a, binding)
        if op == "part":
            return self.builder.part(self.points[operands[0]], binding.params)  # type: ignore[arg-type]
        if op == "call":
            parts = tuple(self.aligned(o, len(binding.shape), a) for o in operands)
            return self.builder.bind(op, parts, (self.count, *binding.shape), binding.dtype, binding.params, binding.origin)
        if op in OPS:
            given = [self.aligned(o, len(binding.shape), a) for o in operands]
            found = a.emit(op, *([a.chosen(given[0]), *given[1:]] if op == "select" else given))
            return a.broadcast_to(found, (self.count, *binding.shape))
        if op == "item":
            at = np.unravel_index(binding.params, operands[0].shape)
            key = ((0, self.count, 1), *((int(i), int(i) + 1, 1) for i in at))
            return a.reshape(a.getitem(self.points[operands[0]], key), (self.count,))
        if op == "array":
            cells = [a.reshape(self.full(o), (self.count, 1)) for o in operands]
            return a.reshape(a.concatenate(cells, 1), (self.count, *binding.shape))
        return self.structural(a, binding)

    def loop(self, a: Arrays, binding: Node) -> Atom:
        """The results of a loop over all points at once, those that depend on the points with an axis of them."""
        body, inside, rounds = binding.params.body, Builder(), Rounds.of(binding)
        moving = self.moving(binding)
        if rounds.test is not None and rounds.test.atom in moving:
            raise TraceError(f"{binding.origin}: a loop of which each point has rounds of its own, at many points at once")
        inside.inputs = [body.inputs[0]]
        seeds: dict[Atom, Atom | Sparse] = {}

        def given(leaf: GraphInput, operand: Atom, row: bool = False) -> tuple[GraphInput, Atom]:
            if leaf.node not in moving:
                inside.inputs.append(leaf)
                return leaf, operand
            seeds[leaf.node] = inside.input(leaf.name, (self.count, *leaf.shape), leaf.dtype)
            whole = self.builder.cast(self.full(operand), leaf.dtype)
            return inside.inputs[-1], a.transpose(whole, (1, 0, *range(2, len(whole.shape)))) if row else whole

        carried = [given(leaf, operand) for leaf, operand, _ in rounds.carried]
        rounds.rows = [(*given(leaf, operand, True), place) for leaf, operand, place in rounds.rows]
        rounds.others = [given(leaf, operand) for leaf, operand in rounds.others]
        apart = [o.atom in moving or any(o is c[2] and c[0].node in moving for c in rounds.carried) for o in rounds.outputs()]
        found = zip(append_batched(body, inside, seeds, self.count), rounds.outputs(), apart, strict=True)
        outputs = tuple(GraphOutput(o.name, inside.cast(f, o.dtype)) if own else o for f, o, own in found)
        whole = inside.graph("", outputs)
        rounds.carried = [(*pair, output) for pair, output in zip(carried, whole.outputs, strict=False)]
        made = rounds.bound(binding, whole)
        made = self.builder.loop(made.params, made.operands, binding.origin)
        results = []
        for k in range(len(made.params.results)):
            part = self.builder.part(made, k)
            if k >= rounds.ends or not apart[k]:
                part = a.broadcast_to(part, (self.count, *part.shape))
            elif len(carried) <= k < len(carried) + len(rounds.stacks):
                part = a.transpose(part, (1, 0, *range(2, len(part.shape))))
            results.append(part)
        return self.builder.bundle(tuple(results))

    def moving(self, binding: Node) -> set[Atom]:
        """What in the body of a loop depends on the points."""
        body, carried = binding.params.body, binding.params.carried
        given = zip(body.inputs[1:], binding.operands, strict=True)
        found: set[Atom] = {leaf.node for leaf, operand in given if operand in self.points}
        while True:
            for b in body.bindings:
                if not found.isdisjoint(b.operands):
                    found.add(b)
            more = {i.node for i, o in zip(body.inputs[1 : carried + 1], body.outputs, strict=False) if o.atom in found} - found
            if not more:
                return found
            found |= more

    def structural(self, a: Arrays, binding: Node) -> Atom:
        op, operands, params = binding.op, binding.operands, binding.params.params
        if op in ("gather", "searchsorted") and operands[0] not in self.points:
            given = operands[0], self.points[operands[1]]
            return a.gather(*given) if op == "gather" else a.bind(op, *given, **params)
        x = self.full(operands[0])
        lead = (0, self.count, 1)
        if op in _AXES:
            axes = tuple(i + 1 for i in params["axes"])
            if op == "sum" and operands[0].op == "mul" and (found := self.product_sum(a, operands[0], axes)) is not None:
                return found
            return a.sum(x, axes) if op in ("sum", "sum_of") else a.bind(op, x, **{**params, "axes": axes})
        if op in _AXIS:
            return a.bind(op, *map(self.full, operands), **{**params, "axis": params["axis"] + 1})
        if op in _LAST:
            return a.diagonal(x) if op == "diagonal" else a.bind(op, *map(self.full, operands), **params)
        if op == "reshape":
            return a.reshape(x, (self.count, *params["shape"]))
        if op == "transpose":
            return turned(a, x, (0, *(i + 1 for i in params["axes"])))
        if op == "broadcast_to":
            return a.broadcast_to(self.aligned(operands[0], len(params["shape"]), a), (self.count, *params["shape"]))
        if op == "getitem":
            return a.getitem(x, (lead, *params["key"]))
        if op == "put":
            return a.put(x, (lead, *params["key"]), (self.count, *params["shape"]))
        if op == "set":
            region = HEADS["getitem"].shape(operands[0].shape, key=params["key"])
            value = a.broadcast_to(self.aligned(operands[1], len(region), a), (self.count, *region))
            return a.bind("set", x, value, key=(lead, *params["key"]))
        if op == "set_at":
            cells = math.prod(operands[0].shape)
            every = (np.arange(self.count)[:, None] * cells + params["indices"]).ravel()
            value = a.broadcast_to(self.aligned(operands[1], 1, a), (self.count, len(params["indices"])))
            return a.bind("set_at", x, a.reshape(value, (every.size,)), indices=every)
        if op in ("take", "scatter"):
            rank, place = (1, params["indices"].ndim)[:: 1 if op == "take" else -1]
            inside = a.transpose(x, (*range(1, rank + 1), 0, *range(rank + 1, len(x.shape))))
            found = a.bind(op, inside, **params)
            return a.transpose(found, (place, *range(place), *range(place + 1, len(found.shape))))
        if op == "gather":
            n = operands[0].shape[0]
            rows = a.reshape(x, (self.count * n, *operands[0].shape[1:]))
            return a.gather(rows, self.numbered(a, operands[1], n))
        if op == "scatter_at":
            places = self.numbered(a, operands[1], params["size"])
            found = a.scatter_at(x, places, self.count * params["size"])
            return a.reshape(found, (self.count, *binding.shape))
        if op == "assign_at":
            n, rest = operands[0].shape[0], operands[0].shape[1:]
            rows = a.broadcast_to(self.aligned(operands[2], len(rest), a), (self.count, *operands[1].shape, *rest))
            found = a.bind("assign_at", a.reshape(x, (self.count * n, *rest)), self.numbered(a, operands[1], n), rows)
            return a.reshape(found, (self.count, *binding.shape))
        if op == "searchsorted":
            return self.places(a, operands, params["side"])
        if op == "matmul":
            return self.product(a, operands)
        if op in _SPECTRAL:
            return a.bind(op, *(self.points.get(o, o) for o in operands))
        if op == "solve":
            rank = max(len(o.shape) for o in operands)
            return a.bind("solve", *(self.aligned(o, rank, a) for o in operands))
        if op == "lstsq":
            rcond = float(np.finfo(binding.dtype).eps) * max(operands[0].shape)
            return a.matmul(a.bind("pinv", x, rcond=rcond), self.full(operands[1]))
        if op == "site":
            return self.site(a, binding)
        if op in ("convolve", "convolve_inside"):
            whole = self.convolution(a, operands)
            first = 0 if op == "convolve" else operands[1].shape[0] - 1
            return a.getitem(whole, (lead, (first, first + binding.shape[0], 1)))
        raise TraceError(f"{binding.origin}: {op} has no batched form; call it point by point")

    def site(self, a: Arrays, binding: Node) -> Atom:
        """A call of a function with a rule: its own graph over the points, or a loop over them at run time."""
        site = binding.params.params["site"]
        moving, operands = (
            tuple(o in self.points for o in binding.operands),
            tuple(self.points.get(o, o) for o in binding.operands),
        )
        count = self.count
        if site.moving:  # points within points are as many points
            operands = tuple(self._flat(a, o, p, site.count) if m or p else o
                             for o, m, p in zip(binding.operands, moving, site.moving, strict=True))  # fmt: skip
            moving, count = tuple(m or p for m, p in zip(moving, site.moving, strict=True)), count * site.count
        graph = site.single and vectorize_graph(site.single, [0 if m else None for m in moving], count, 0)
        many = replace(site, moving=moving, count=count, graph=graph)
        found = self.builder.bind("site", operands, many.shape, binding.dtype, Static("site", {"site": many}), binding.origin)
        return a.reshape(found, (self.count, *binding.shape))

    def _flat(self, a: Arrays, operand: Atom, inner: bool, count: int) -> Atom:
        """An operand at each inner point of each outer one, along one axis."""
        x = self.full(operand)
        own = operand.shape[1:] if inner else operand.shape
        if not inner:
            x = a.broadcast_to(a.reshape(x, (self.count, 1, *own)), (self.count, count, *own))
        return a.reshape(x, (self.count * count, *own))

    def numbered(self, a: Arrays, places: Atom, rows: int) -> Atom:
        """Places among `rows` rows as places among those of all points."""
        own = np.arange(self.count, dtype=float).reshape(self.count, *(1,) * len(places.shape)) * rows
        return a.emit("add", self.full(places), array_atom(own))

    def places(self, a: Arrays, operands: tuple[Atom, ...], side: str) -> Atom:
        """Places in tables that depend on the points: how many numbers lie before."""
        table, v = self.points[operands[0]], self.full(operands[1])
        rank = len(v.shape)
        table = a.reshape(table, (self.count, *(1,) * (rank - 1), table.shape[-1]))
        behind = a.emit("le" if side == "left" else "lt", a.reshape(v, (*v.shape, 1)), table)
        return a.sum(a.emit("select", behind, Constant(0.0), Constant(1.0)), (rank,))

    def product(self, a: Arrays, operands: tuple[Atom, ...]) -> Atom:
        first, second = operands
        if second not in self.points and len(second.shape) == 2:
            x = self.points[first]
            flat = a.reshape(x, (int(np.prod(x.shape[:-1])), x.shape[-1]))
            if a.made_by(x, "broadcast_to") is None:
                return a.reshape(a.matmul(flat, second), (*x.shape[:-1], second.shape[-1]))
        if first not in self.points and len(first.shape) == 2 and second.shape == (first.shape[1], 1):
            rows = a.reshape(self.points[second], (self.count, first.shape[1]))  # columns of all points: one product
            return a.reshape(a.matmul(rows, a.swapped(first)), (self.count, first.shape[0], 1))
        rank = max(len(first.shape), len(second.shape))
        return a.matmul(self.aligned(first, rank, a), self.aligned(second, rank, a))

    def convolution(self, a: Arrays, operands: tuple[Atom, ...]) -> Atom:
        """A product with the matrix whose rows are the second operand, backwards and moved."""
        n, m = operands[0].shape[0], operands[1].shape[0]
        x, y = self.full(operands[0]), self.full(operands[1])
        wide = a.put(y, ((0, self.count, 1), (n - 1, n - 1 + m, 1)), (self.count, m + 2 * (n - 1)))
        places = np.arange(n + m - 1)[:, None] - np.arange(n)[None, :] + n - 1
        rows = a.bind("take", a.transpose(wide, (1, 0)), indices=places)
        found = a.matmul(a.transpose(rows, (2, 0, 1)), a.reshape(x, (self.count, n, 1)))
        return a.reshape(found, (self.count, n + m - 1))
