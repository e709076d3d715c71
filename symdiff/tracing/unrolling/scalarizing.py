"""Graph to Graph, from the array regime to the unrolled one: every cell becomes a scalar symbol.

Assumes bindings whose operations are elementwise, `item`, `array`, a call, or structural with a function of cells.
Guarantees that afterwards arrays occur only as inputs (read by `item`) and in `array` bindings that feed outputs.
Refuses, with `TraceError`, graphs that would unroll to more than `LIMIT` scalar bindings.
"""

import math
from collections.abc import Set
from typing import Any

import numpy as np

from symdiff.errors import TraceError
from symdiff.ir.arrays.algebra import Arrays
from symdiff.ir.building import Builder, array_atom
from symdiff.ir.graph import Graph, GraphOutput
from symdiff.ir.loops import repeated_bindings, sizes_of_binding
from symdiff.ir.node import ArrayConstant, Atom, Constant, Node, has_loops
from symdiff.tracing.unrolling import placing, reductions
from symdiff.tracing.unrolling.choosing import cells_of_binding, chosen_bindings
from symdiff.tracing.unrolling.fourier_cells import FOURIER_CELLS
from symdiff.tracing.unrolling.rounds import rewritten, unrolled
from symdiff.tracing.values.kinds import PYTHON
from symdiff.tracing.values.tracer import Tracer, traced_atom
from symdiff.vocabulary.extents import Extent
from symdiff.vocabulary.heads import HEADS, Shape
from symdiff.vocabulary.ops import OPS
from symdiff.vocabulary.traits import operations

_CELLS = reductions.CELLS | placing.CELLS | FOURIER_CELLS
LIMIT = 2_000_000
UNROLLED = 500  # operations on cells up to which whole arrays are unrolled without being asked
EAGER = 10_000  # cells of an input up to which each becomes a symbol at once, in order; those of larger ones when they are read
WHOLE = "whole"  # the note of a graph that is differentiated as one of whole arrays
MOVED = 1_000  # cells of results up to which they are: moving cells is no operation, but each becomes a statement


def in_unrolled_regime(graph: Graph) -> bool:
    """Whether a graph is in the unrolled regime already."""
    if any(isinstance(n, Extent) for leaf in graph.inputs for n in leaf.shape):
        return False
    arrays = {leaf.node for leaf in graph.inputs if leaf.node.shape != ()}
    results: set[Atom] = set()
    for binding in graph.bindings:
        if binding.op == "array":
            results.add(binding)
            if any(o in arrays or o in results for o in binding.operands):
                return False
        elif binding.op == "item":
            if binding.operands[0] not in arrays:
                return False
        elif (
            (binding.op not in OPS and binding.op != "call")
            or binding.shape != ()
            or any(o.shape != () for o in binding.operands)
        ):
            return False
    return not any(o.atom in arrays or isinstance(o.atom, ArrayConstant) for o in graph.outputs)


def is_unrolled(graph: Graph) -> bool:
    """Whether the derivatives of a graph are unrolled, too."""
    return in_unrolled_regime(graph) and not graph.notes.get(WHOLE)


def settled(graph: Graph, unroll: bool | None = None, differentiated: int = 0, most: int = UNROLLED) -> Graph:
    """The graph in its regime: unrolled up to `most` operations on cells, `MOVED` results and `EAGER` cells of arrays
    that are `differentiated`, or as `unroll` says; beyond that, and with -1 for `most`, what works on few cells is
    (`chosen_bindings`).

    A few operations on numbers out of such an array stay as they are; its derivatives are noted to be whole arrays.
    """
    wide = unroll is None and differentiated > EAGER
    if wide and len(graph.bindings) <= UNROLLED:
        graph.notes[WHOLE] = True
    if unroll is False or in_unrolled_regime(graph):
        return graph
    if unroll or (not wide and most >= 0 and _is_short(graph, most)):
        return scalarize(graph)
    if has_loops(graph.bindings):
        return graph
    chosen = chosen_bindings(graph)
    return scalarize(graph, chosen) if chosen else graph


def _is_short(graph: Graph, most: int) -> bool:
    """Whether all of a graph is unrolled without being asked."""
    if sum(math.prod(output.shape) for output in graph.outputs) > MOVED:
        return False
    cells, most = 0.0, max(most, len(graph.bindings))  # where most bindings have a cell each, there are no more afterwards
    for binding in graph.bindings:
        if _counts_rounds(binding) or (binding.op == "loop" and sizes_of_binding(binding)):
            return False
        if _is_whole(binding):
            return False
        cells += repeated_bindings((binding,), cells_of_binding)
        if cells > most:
            return False
    return True


def _is_whole(binding: Node) -> bool:
    """Whether an operation, or one in a loop, works on whole arrays only."""
    inside = binding.params.body.bindings if binding.op == "loop" else ()
    return (binding.op in HEADS and not HEADS[binding.op].cells) or any(map(_is_whole, inside))


def _counts_rounds(binding: Node) -> bool:
    """Whether a loop, or one in it, has rounds whose number nobody knows before."""
    return binding.op == "loop" and (binding.params.tested or any(map(_counts_rounds, binding.params.body.bindings)))


def scalarize(graph: Graph, chosen: Set[Node] | None = None) -> Graph:
    """The same function over scalar symbols only; or only the `chosen` bindings cell by cell, the others as they are."""
    if in_unrolled_regime(graph):
        return graph
    graph = unrolled(graph) if chosen is None else graph
    builder = Builder()
    cells = Cells(builder, graph.origin)
    scalars: dict[Atom, Atom] = {}
    for leaf in graph.inputs:
        symbol = builder.input(leaf.name, leaf.node.shape, leaf.node.dtype, leaf.path)
        if leaf.node.shape == ():
            scalars[leaf.node] = symbol
        else:
            cells.read(leaf.node, symbol, chosen is not None)
    for binding in graph.bindings:
        builder.origin = binding.origin
        builder.primal = binding.primal
        if len(builder.bindings) > LIMIT:
            raise TraceError(f"{binding.origin}: unrolling {graph.name} passes {LIMIT} scalar operations; use smaller arrays")
        if chosen is None or binding in chosen or (binding.op in OPS and all(o.shape == () for o in binding.operands)):
            _unroll(binding, builder, cells, scalars)
        else:
            operands = tuple(_whole(o, builder, cells, scalars) for o in binding.operands)
            made = builder.bind(binding.op, operands, binding.shape, binding.dtype, binding.params, binding.origin)
            if binding.shape == ():
                scalars[binding] = made
            else:
                cells.read(binding, made, True)
    outputs = []
    for output in graph.outputs:
        if chosen is not None or output.shape == ():
            atom = _whole(output.atom, builder, cells, scalars)
        else:
            atom = builder.array(list(_cells_of(output.atom, cells, scalars).ravel()), output.shape, output.dtype)
        outputs.append(GraphOutput(output.name, atom))
    return builder.graph(
        graph.name, tuple(outputs), graph.out_tree, origin=graph.origin, doc=graph.doc, notes=dict(graph.notes)
    )


class Cells(dict[Atom, np.ndarray]):
    """The cells of arrays as scalar symbols; those of a large input, and of parts of it, are bound when they are asked for."""

    def __init__(self, builder: Builder, origin: str) -> None:
        super().__init__()
        self._builder = builder
        self._origin = origin
        self._parts: dict[Atom, tuple[Node, np.ndarray]] = {}
        self._items: dict[tuple[Node, int], Node] = {}
        self._arrays: dict[Atom, Node] = {}

    def read(self, leaf: Node, symbol: Node, late: bool) -> None:
        """An array that stays one: `symbol` is the builder's. Its cells are bound `late`, or at once."""
        self._parts[leaf] = symbol, np.arange(math.prod(leaf.shape)).reshape(leaf.shape)
        self._arrays[leaf] = symbol
        if not late and math.prod(leaf.shape) <= EAGER:
            self[leaf] = self.__missing__(leaf)

    def whole(self, atom: Atom) -> Atom:
        """An array, put together from its cells where it has become numbers."""
        found = self._arrays.get(atom)
        if found is None:
            found = self._arrays[atom] = self._builder.array(list(self[atom].ravel()), atom.shape, atom.dtype)
        return found

    def move(self, binding: Node) -> bool:
        """Cells moved by a structural binding; False where it is none."""
        if binding.op not in _MOVING or len(binding.operands) != 1 or binding.operands[0] not in self:
            return False
        source, moved = binding.operands[0], HEADS[binding.op].function
        if dict.__contains__(self, source):
            self[binding] = np.asarray(moved(self[source], **binding.params.params))
        else:
            symbol, places = self._parts[source]
            self._parts[binding] = symbol, np.asarray(moved(places, **binding.params.params))
        return True

    def item(self, atom: Atom, place: int) -> Atom:
        """One cell, by its place in C order."""
        if isinstance(atom, ArrayConstant):
            return Constant(atom.value.flat[place].item(), None if atom.value.dtype.kind in "iu" else atom.dtype)
        if dict.__contains__(self, atom):
            return self[atom].ravel()[place]  # type: ignore[no-any-return]
        symbol, places = self._parts[atom]
        return self._item(symbol, int(places.ravel()[place]))

    def __contains__(self, atom: object) -> bool:
        return dict.__contains__(self, atom) or atom in self._parts

    def __missing__(self, atom: Atom) -> np.ndarray:
        symbol, places = self._parts[atom]
        found = self[atom] = _grid([self._item(symbol, k) for k in places.ravel().tolist()], places.shape)
        return found

    def _item(self, symbol: Node, place: int) -> Node:
        found = self._items.get((symbol, place))
        if found is None:
            found = self._items[symbol, place] = self._builder.bind("item", (symbol,), (), symbol.dtype, place, self._origin)
        return found


_MOVING = operations("picks", "rearranges") - {"diagonal"}


def _grid(atoms: list[Any], shape: Shape) -> np.ndarray:
    grid = np.empty(len(atoms), dtype=object)
    grid[:] = atoms
    return grid.reshape(shape)


def _unroll(binding: Node, builder: Builder, cells: Cells, scalars: dict[Atom, Atom]) -> None:
    symbol = binding
    if binding.op == "item":
        scalars[symbol] = cells.item(binding.operands[0], binding.params)
    elif binding.op == "array":
        cells[symbol] = _grid([scalars.get(o, o) for o in binding.operands], symbol.shape)
    elif binding.op in OPS or binding.op == "call":
        if symbol.shape == () and all(o.shape == () for o in binding.operands):
            operands = tuple(scalars.get(o, o) for o in binding.operands)
            scalars[symbol] = builder.bind(binding.op, operands, (), symbol.dtype, binding.params, binding.origin)
            return
        if binding.op == "select" and isinstance(binding.operands[0], ArrayConstant):
            cells[symbol] = _picked(binding, builder, cells, scalars)
            return
        single = any(o.dtype in ("f", "F") for o in binding.operands)  # beside which a number's precision tells
        grids = [
            np.broadcast_to(_of_precision(o, _cells_of(o, cells, scalars), single), symbol.shape).ravel()
            for o in binding.operands
        ]
        made = [
            builder.bind(binding.op, operands, (), symbol.dtype, binding.params, binding.origin)
            for operands in zip(*grids, strict=True)
        ]
        cells[symbol] = _grid(made, symbol.shape)
    elif cells.move(binding):
        if symbol.shape == ():
            scalars[symbol] = cells.item(symbol, 0)
    else:
        _run(binding, builder, cells, scalars)


def _of_precision(atom: Atom, cells: np.ndarray, single: bool) -> np.ndarray:
    """The cells of an array, numbers among them with the array's own dtype."""
    if not single or atom.dtype not in ("f", "d", "F", "D"):
        return cells
    own = [Constant(c.value, atom.dtype) if isinstance(c, Constant) and c.dtype is None else c for c in cells.ravel()]
    return _grid(own, cells.shape)


def _picked(binding: Node, builder: Builder, cells: Cells, scalars: dict[Atom, Atom]) -> np.ndarray:
    """A selection by a constant mask: the cells themselves."""
    mask, yes, no = (np.broadcast_to(_cells_of(o, cells, scalars), binding.shape).ravel() for o in binding.operands)
    chosen = [a if m.value else b for m, a, b in zip(mask, yes, no, strict=True)]
    return _grid([_typed(c, binding.dtype, builder) for c in chosen], binding.shape)


def _whole(atom: Atom, builder: Builder, cells: Cells, scalars: dict[Atom, Atom]) -> Atom:
    """What stands for an atom where it is not looked into."""
    return cells.whole(atom) if atom in cells else scalars.get(atom, atom)


def _cells_of(atom: Atom, cells: Cells, scalars: dict[Atom, Atom]) -> np.ndarray:
    if atom in cells:
        return cells[atom]
    if isinstance(atom, ArrayConstant):
        return _grid([array_atom(v) for v in atom.value.ravel()], atom.shape)
    return _grid([scalars.get(atom, atom)], ())


def _run(binding: Node, builder: Builder, cells: Cells, scalars: dict[Atom, Atom]) -> None:
    """A structural binding: its function runs on object arrays of traced scalars of Python's kind, whose truths are numbers."""
    symbol = binding
    arrays = []
    codes = {o.dtype for o in binding.operands}
    mixed = not codes.isdisjoint({"f", "F"}) and not {*codes, symbol.dtype}.isdisjoint({"d", "D", "l"})
    for operand in binding.operands:
        grid = _cells_of(operand, cells, scalars)
        if mixed and operand.dtype in _DOUBLE:
            grid = _grid([builder.cast(c, _DOUBLE[operand.dtype]) for c in grid.ravel()], grid.shape)
        wrapped = [Tracer(builder, c, PYTHON) if c.op != "const" else c.value for c in grid.ravel()]
        arrays.append(_grid(wrapped, grid.shape))
    static = binding.params
    head = HEADS[static.head]
    if not head.cells:
        raise TraceError(f"{binding.origin}: {static.head} works on whole arrays only; leave scalarize=True away")
    function = _CELLS.get(static.head, head.function)
    before = len(builder.bindings)
    result = function(*arrays, **static.params)
    for made in builder.bindings[before:]:
        made.origin = binding.origin  # not the line that has the graph unrolled
    found = np.asarray(result, dtype=object)
    atoms = [_typed(traced_atom(c, builder, binding.origin), symbol.dtype, builder) for c in found.ravel()]
    if symbol.shape == ():
        scalars[symbol] = atoms[0]
    else:
        cells[symbol] = _grid(atoms, symbol.shape)


_DOUBLE = {"f": "d", "F": "D"}


def _typed(atom: Atom, code: str, builder: Builder) -> Atom:
    """A cell with the dtype of its array, as NumPy would have it."""
    if isinstance(atom, Constant) and code == "?":
        return atom
    return atom if atom.dtype == code else builder.cast(atom, code)


def unroll_calls(graph: Graph) -> Graph:
    """The Graph with the bodies of called functions in place of the calls, over whole arrays cell by cell; opaque ones stay."""
    return rewritten(graph, _append) if any(_body(b) is not None for b in graph.bindings) else graph


def _body(binding: Node) -> Graph | None:
    """The graph of the function that a binding calls."""
    site = binding.params.params["site"] if binding.op == "site" else binding.params if binding.op == "call" else None
    return None if site is None else site.graph


def _inlined(binding: Node, operands: tuple[Atom, ...], builder: Builder) -> Atom:
    """The results of a call with whole arrays, as one array."""
    arrays, site = Arrays(builder, binding.origin), binding.params.params["site"]
    inside = {leaf.node: o for leaf, o in zip(site.graph.inputs, operands, strict=True)}
    _append(site.graph.bindings, builder, inside)
    points = (site.count,) if site.moving else ()
    found = []
    for output, (shape, _) in zip(site.graph.outputs, site.results, strict=True):
        atom = arrays.broadcast_to(builder.cast(inside.get(output.atom, output.atom), binding.dtype), (*points, *shape))
        found.append(atom if len(site.results) == 1 else arrays.reshape(atom, (*points, math.prod(shape))))
    return found[0] if len(found) == 1 else arrays.concatenate(found, len(points))


def _append(bindings: list[Node], builder: Builder, atoms: dict[Atom, Atom]) -> None:
    for b in bindings:
        operands = tuple(atoms.get(o, o) for o in b.operands)
        if b.op == "site" and _body(b) is not None:
            builder.primal = b.primal
            atoms[b] = _inlined(b, operands, builder)
            continue
        if b.op == "call" and b.params.graph is not None:
            body = scalarize(b.params.graph)
            inside = {leaf.node: o for leaf, o in zip(body.inputs, operands, strict=True)}
            _append(body.bindings, builder, inside)
            result = inside.get(body.outputs[0].atom, body.outputs[0].atom)
            result = builder.cast(result, b.dtype) if isinstance(result, Constant) else result
            atoms[b] = Arrays(builder, b.origin).broadcast_to(result, b.shape)
            continue
        builder.primal = b.primal
        cellwise = b.op in OPS and b.shape == ()  # a body of numbers may be given whole arrays
        shape = np.broadcast_shapes(*(o.shape for o in operands)) if cellwise else b.shape
        atoms[b] = builder.bind(b.op, operands, shape, b.dtype, b.params, b.origin)
