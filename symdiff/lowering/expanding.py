"""Heads written out as simpler or quicker ones: before differentiation where the head has no rule, before numbering where no
call has it.

Assumes graphs in the array regime. Guarantees the same values up to rounding, and right derivatives of products with zeros
among their factors.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any

from symdiff.ir.arrays.algebra import Arrays, full_key, kept_shape
from symdiff.ir.building import Builder
from symdiff.ir.graph import Graph, outputs_at
from symdiff.ir.node import Atom, Constant, Node
from symdiff.simplification.activity import active_symbols
from symdiff.vocabulary.extents import has_extents
from symdiff.vocabulary.heads import HEADS
from symdiff.vocabulary.ops import is_complex
from symdiff.vocabulary.traits import operations

Expansion = Callable[[Arrays, Node, tuple[Atom, ...]], Atom]


def expanded(graph: Graph, expansions: dict[str, Expansion], which: set[Atom] | None = None) -> Graph:
    """The graph with some heads written out; `which` limits this to some symbols."""
    if not any(b.op in expansions and (which is None or b in which) for b in graph.bindings):
        return graph
    builder = Builder()
    builder.inputs = list(graph.inputs)
    builder._count = len(graph.bindings)
    atoms: dict[Atom, Atom] = {}
    for binding in graph.bindings:
        operands = tuple(atoms.get(o, o) for o in binding.operands)
        if binding.op in expansions and (which is None or binding in which):
            builder.origin, builder.primal = binding.origin, binding.primal
            atoms[binding] = expansions[binding.op](Arrays(builder, binding.origin), binding, operands)
            continue
        kept = binding if operands == binding.operands else binding.on(operands)
        builder.bindings.append(kept)
        if kept is not binding:
            atoms[binding] = kept
        if binding.op in HEADS:
            builder.structural[kept] = kept
    outputs = outputs_at(graph.outputs, atoms)
    return builder.graph(graph.name, outputs, graph.out_tree, origin=graph.origin, doc=graph.doc, notes=dict(graph.notes))


def lower_products(graph: Graph, wrt: list[Node]) -> Graph:
    """The graph with products written out where they depend on `wrt`."""
    active = active_symbols(graph.bindings, set(wrt))
    return expanded(graph, {"prod": _product, "cumprod": _running_product}, active)


def computable(graph: Graph, exact: bool = False) -> Graph:
    """The graph with heads that no NumPy call computes written out, and products of two vectors as sums, which join kernels.

    `exact`: the cells that a mask selects are added in the order in which NumPy adds them.
    """
    which = {b for b in graph.bindings if b.op == "matmul" and all(len(o.shape) == 1 for o in b.operands)}
    which |= {b for b in graph.bindings if b.op in _EXPONENTIAL}
    if not exact:
        graph = with_joined_products(graph)
        which |= {b for b in graph.bindings if b.op == "sum_of" or (b.op in _TRIANGULAR and _has_halves(b.operands[0]))}
    halves: dict[str, Expansion] = dict.fromkeys(_TRIANGULAR, _by_halves)
    return lower_decompositions(expanded(graph, {**_EXPONENTIAL, **halves, "matmul": _inner, "sum_of": _sum_of}, which))


def _sum_of(a: Arrays, binding: Node, operands: tuple[Atom, ...]) -> Atom:
    """The sum of selected cells; the others are zero."""
    return a.sum(operands[0], binding.params.params["axes"])


Factor = tuple[Atom, bool]  # a matrix, and whether it is transposed
Product = tuple[Factor, Factor]
Group = tuple[int, list[int]]  # on which side terms have a factor in common, and their places
_LINES = 8  # of a product, from which on it is worth a sum of matrices


def with_joined_products(graph: Graph) -> Graph:
    """The graph with terms of sums that are products with a factor in common as one: A @ B + A @ C as A @ (B + C)."""
    if sum(b.op == "matmul" for b in graph.bindings) < 2:
        return graph
    uses = Counter(o for b in graph.bindings for o in b.operands)
    uses.update(o.atom for o in graph.outputs)
    inner = {o for b in graph.bindings if b.op == "add" for o in b.operands if uses[o] == 1 and o.shape == b.shape}
    found: dict[Atom, list[Group]] = {}  # for sums that are no terms of others
    for b in graph.bindings:
        if b.op == "add" and len(b.shape) == 2 and b not in inner:
            groups = _grouped([_product_of(x, uses) for x, _ in _terms(b, b, uses)])
            found |= {b: groups} if any(len(places) > 1 for _, places in groups) else {}

    def joined(a: Arrays, binding: Node, operands: tuple[Atom, ...]) -> Atom:
        terms = [made for _, made in _terms(binding, binding.on(operands), uses)]
        return reduce(a.builder.add, [_joined(a, side, [terms[k] for k in places]) for side, places in found[binding]])

    return expanded(graph, {"add": joined}, {*found}) if found else graph


def _terms(total: Node, made: Atom, uses: Counter[Atom]) -> list[tuple[Atom, Atom]]:
    """The terms of a sum, with those of the same sum as it has been made."""
    found, stack = [], [(total, made)]
    while stack:
        x, new = stack.pop()
        if x.op == "add" and x.shape == total.shape and (x is total or uses[x] == 1):
            stack += reversed([*zip(x.operands, new.operands, strict=True)])
        else:
            found.append((x, new))
    return found


def _grouped(products: list[Product | None]) -> list[Group]:
    """The terms of a sum, products with those that have the factor in common which most of them have."""
    sides = [[(side, id(x), turned) for side, (x, turned) in enumerate(p or ())] for p in products]
    counts = Counter(key for keys in sides for key in keys)
    groups: dict[Any, Group] = {}
    for place, keys in enumerate(sides):
        key = max(keys, key=counts.__getitem__, default=(0, place))
        groups.setdefault(key, (key[0], []))[1].append(place)
    return [*groups.values()]


def _joined(a: Arrays, side: int, terms: list[Atom]) -> Atom:
    """The sum of products that have the factor on a side in common; a single term as it is."""
    if len(terms) == 1:
        return terms[0]
    products = [p for x in terms if (p := _product_of(x)) is not None]
    same, *others = (a.swapped(x) if turned else x for x, turned in (products[0][side], *(p[1 - side] for p in products)))
    total = reduce(a.builder.add, others)
    return a.matmul(same, total) if side == 0 else a.matmul(total, same)


def _product_of(x: Atom, uses: Counter[Atom] | None = None) -> Product | None:
    """The factors of a product of matrices, which may have been transposed; None for others, and for what others read, too."""
    turned, seen = False, [x]
    while len(x.shape) == 2 and x.op in ("reshape", "transpose"):
        source = x.operands[0]
        if x.op == "reshape" and not (source.op == "reshape" and source.operands[0].shape == x.shape):
            return None
        turned ^= x.op == "transpose"
        x = source if x.op == "transpose" else source.operands[0]
        seen.append(x)
    if x.op != "matmul" or x.dtype not in "df" or any(len(o.shape) != 2 or has_extents(o.shape) for o in x.operands):
        return None
    if min(*x.shape, x.operands[0].shape[1]) < _LINES or (uses is not None and any(uses[o] > 1 for o in seen)):
        return None
    first, second = (_oriented(o, turned) for o in x.operands)
    return (second, first) if turned else (first, second)


def _oriented(x: Atom, turned: bool) -> Factor:
    while x.op == "transpose":
        x, turned = x.operands[0], not turned
    return x, turned


_LOWER, _UPPER = operations("lower"), operations("upper")
_TRIANGULAR = {"inv": "triangular_inverse", "solve": "triangular_solution"}
_FEW = 96  # rows up to which one call of LAPACK's is quicker than halves


def _has_halves(matrix: Atom) -> bool:
    """Whether a matrix is known to be triangular, and has many rows."""
    n = matrix.shape[-1]
    return isinstance(n, int) and n > _FEW and _is_lower(matrix) is not None


def _is_lower(matrix: Atom) -> bool | None:
    """Whether a matrix is lower triangular; None where it is not known to be triangular."""
    rank = len(matrix.shape)
    if matrix.op == "conj":
        return _is_lower(matrix.operands[0])
    if matrix.op == "transpose" and matrix.params.params["axes"] == (*range(rank - 2), rank - 1, rank - 2):
        lower = _is_lower(matrix.operands[0])
        return None if lower is None else not lower
    return True if matrix.op in _LOWER else False if matrix.op in _UPPER else None


def _by_halves(a: Arrays, binding: Node, operands: tuple[Atom, ...]) -> Atom:
    """An inverse or a solution of a triangular matrix."""
    return a.bind(_TRIANGULAR[binding.op], *operands, lower=_is_lower(binding.operands[0]))


_DECOMPOSITIONS = {
    "eigh": ("eigenvalues", "eigenvectors"),
    "eig": ("general_eigenvalues", "general_eigenvectors"),
    "svd": ("left_vectors", "singular_values", "right_vectors"),
    "qr": ("orthogonal", "triangular"),
}


def lower_decompositions(graph: Graph) -> Graph:
    """The graph with parts of one decomposition, each a call of its own, as views of one call's results."""
    graph = with_vectors(graph)
    whole = {part: name for name, parts in _DECOMPOSITIONS.items() for part in parts}
    asked: dict[tuple[str, Atom], set[str]] = {}
    for b in graph.bindings:
        if b.op in whole:
            asked.setdefault((whole[b.op], b.operands[0]), set()).add(b.op)
    which = {
        b
        for b in graph.bindings
        if b.op in whole and (len(asked[whole[b.op], b.operands[0]]) > 1 or (b.op == "eigenvalues" and is_complex(b.dtype)))
    }

    def part(a: Arrays, binding: Node, operands: tuple[Atom, ...]) -> Atom:
        x = operands[0]
        lead = (*x.shape[:-2], -1)
        name = whole[binding.op]
        found = a.bind(name, x, lead=lead)
        start = 0
        for other in _DECOMPOSITIONS[name]:
            shape = HEADS[other].shape(x.shape)
            count = math.prod(shape[len(lead) - 1 :])
            if other == binding.op:
                break
            start += count
        return a.reshape(a.getitem(found, (*full_key(lead[:-1]), (start, start + count, 1))), binding.shape)

    return expanded(graph, dict.fromkeys(whole, part), which)


def with_vectors(graph: Graph, seeds: Iterable[Atom] = ()) -> Graph:
    """The graph with spectral heads, but those of matrices that depend on the seeds, as products with the vectors."""
    if not any(b.op in _SPECTRAL for b in graph.bindings):
        return graph
    moving = active_symbols(graph.bindings, seeds)
    return expanded(graph, _SPECTRAL, {b for b in graph.bindings if b.operands and b.operands[0] not in moving})


def _with_eigenvalues(a: Arrays, binding: Node, operands: tuple[Atom, ...]) -> Atom:
    v = a.bind("eigenvectors", operands[0])
    return a.matmul(_scaled(a, v, operands[1]), a.mirrored(v))


def _with_singular_values(a: Arrays, binding: Node, operands: tuple[Atom, ...]) -> Atom:
    u, vh = a.bind("left_vectors", operands[0]), a.bind("right_vectors", operands[0])
    return a.matmul(_scaled(a, u, operands[1]), vh)


_SPECTRAL: dict[str, Expansion] = {"with_eigenvalues": _with_eigenvalues, "with_singular_values": _with_singular_values}


def _scaled(a: Arrays, vectors: Atom, g: Atom) -> Atom:
    """The columns of a matrix, each times a number."""
    return a.emit("mul", vectors, a.reshape(g, (*g.shape[:-1], 1, g.shape[-1])))


def _inner(a: Arrays, binding: Node, operands: tuple[Atom, ...]) -> Atom:
    """The product of two vectors."""
    return a.sum(a.emit("mul", *operands), (0,))


def lower_fastmath(graph: Graph) -> Graph:
    """The graph with sums over products of matrices taken apart, where all sums may be regrouped (`fastmath`)."""

    def regrouped(a: Arrays, binding: Node, operands: tuple[Atom, ...]) -> Atom:
        product = operands[0]
        x, y = product.operands if product.op == "matmul" else product.operands[0].operands
        if product.op == "matmul":  # sum(x @ y): the sums of columns times the sums of rows
            return a.sum(a.emit("mul", a.sum(x, (0,)), a.sum(y, (1,))), (0,))
        return a.sum(a.emit("mul", x, a.swapped(y)), (0, 1))  # trace(x @ y)

    def fits(binding: Node) -> bool:
        product = binding.operands[0]
        if product.op == "diagonal":
            product = product.operands[0]
        return binding.shape == () and product.op == "matmul" and all(len(o.shape) == 2 for o in product.operands)

    found: set[Atom] = {b for b in graph.bindings if b.op == "sum" and fits(b)}
    return expanded(graph, {"sum": regrouped}, found) if found else graph


def _product(a: Arrays, binding: Node, operands: tuple[Atom, ...]) -> Atom:
    """A product by halves, so that its derivative divides by nothing."""
    x = operands[0]
    axes = binding.params.params["axes"]
    rest = tuple(i for i in range(len(x.shape)) if i not in axes)
    lead = tuple(x.shape[i] for i in rest)
    count = 1
    for i in axes:
        count *= x.shape[i]
    x = a.reshape(a.transpose(x, (*rest, *axes)), (*lead, count))
    if count == 0:
        return a.broadcast_to(Constant(1.0), lead)
    while count > 1:
        half, odd = divmod(count, 2)
        first, second = _part(a, x, 0, half), _part(a, x, half, 2 * half)
        found = a.emit("mul", first, second)
        if odd:
            found = a.concatenate([found, _part(a, x, count - 1, count)], len(lead))
        x, count = found, half + odd
    return a.reshape(x, lead)


def _part(a: Arrays, x: Atom, start: int, stop: int) -> Atom:
    return a.getitem(x, (*full_key(x.shape)[:-1], (start, stop, 1)))


def _running_product(a: Arrays, binding: Node, operands: tuple[Atom, ...]) -> Atom:
    """Running products by doubling (Hillis and Steele's scan): log2(n) passes."""
    axis = binding.params.params["axis"]
    last = len(binding.shape) - 1
    order = list(range(last + 1))
    order[axis], order[last] = order[last], order[axis]
    x = a.transpose(operands[0], tuple(order))
    n, step = x.shape[-1], 1
    while step < n:
        head, tail = _part(a, x, 0, step), _part(a, x, step, n)
        x = a.concatenate([head, a.emit("mul", tail, _part(a, x, 0, n - step))], last)
        step *= 2
    return a.transpose(x, tuple(order))


def _log_sum_exp(a: Arrays, binding: Node, operands: tuple[Atom, ...]) -> Atom:
    """The largest cell, where it is finite, is taken out of the exponentials."""
    axes = binding.params.params["axes"]
    shift, away = _away(a, operands[0], axes)
    return a.emit("add", a.emit("log", a.sum(a.emit("exp", away), axes)), shift)


def _softmax(a: Arrays, binding: Node, operands: tuple[Atom, ...]) -> Atom:
    axes = binding.params.params["axes"]
    terms = a.emit("exp", _away(a, operands[0], axes)[1])
    finite = a.emit("isfinite", a.bind("amax", operands[0], axes=axes))
    total = a.emit("select", finite, a.sum(terms, axes), Constant(math.nan))
    return a.emit("div", terms, a.reshape(total, kept_shape(terms.shape, axes)))


def _log_softmax(a: Arrays, binding: Node, operands: tuple[Atom, ...]) -> Atom:
    axes = binding.params.params["axes"]
    _, away = _away(a, operands[0], axes)
    total = a.emit("log", a.sum(a.emit("exp", away), axes))
    return a.emit("sub", away, a.reshape(total, kept_shape(away.shape, axes)))


def _away(a: Arrays, x: Atom, axes: tuple[int, ...]) -> tuple[Atom, Atom]:
    top = a.bind("amax", x, axes=axes)
    shift = a.emit("select", a.emit("isfinite", top), top, Constant(0.0))
    return shift, a.emit("sub", x, a.reshape(shift, kept_shape(x.shape, axes)))


_EXPONENTIAL = {"logsumexp": _log_sum_exp, "softmax": _softmax, "log_softmax": _log_softmax}
