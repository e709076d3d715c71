"""Batches of arrays that are mostly zero: sums of terms that vanish but where some pairs of indices agree.

Assumes batches whose points are the cells of an array, so that their axis stands for as many as that array has, as in the
sweeps of a Jacobian. Guarantees that a product with a matrix over an index that must agree with another needs no
multiplication of matrices. Knows of linear operations only; `applied` tells by None where nothing is known.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from symdiff.ir.arrays.algebra import Arrays
from symdiff.ir.building import array_atom
from symdiff.ir.node import Atom, Constant, Node
from symdiff.vocabulary.heads import Shape
from symdiff.vocabulary.traits import operations

_EACH = operations("termwise")


class Term(NamedTuple):
    """`source` where the indices of each pair of axes are equal, else 0.

    The source has all axes, of size 1 where it is the same along them, as it is along the second one of a pair.
    """

    source: Atom
    pairs: tuple[tuple[int, int], ...]


class Sparse(NamedTuple):
    """The sum of terms, with one axis for each of the array `lead`, whose cells are the points, and then those of `shape`.

    The first axis of each pair is one of `lead`, the second one of `shape`.
    """

    lead: Shape
    shape: Shape
    terms: tuple[Term, ...]

    @property
    def axes(self) -> Shape:
        """The sizes of all axes."""
        return self.lead + self.shape


def unit_seeds(a: Arrays, shape: Shape, code: str) -> Sparse:
    """All unit arrays of a shape."""
    n = len(shape)
    one = a.broadcast_to(Constant(1.0, code), (1,) * (2 * n))
    return Sparse(shape, shape, (Term(one, tuple((k, n + k) for k in range(n))),))


def dense(a: Arrays, x: Sparse) -> Atom:
    """The array itself, its points along one axis."""
    total: Atom = Constant(0.0)
    for source, pairs in x.terms:
        value = source
        for first, second in pairs:
            here, there = (_index(x.axes, axis) for axis in (first, second))
            value = a.builder.select(a.emit("eq", here, there), value, Constant(0.0))
        total = a.builder.add(total, value)
    return a.reshape(a.broadcast_to(total, x.axes), (math.prod(x.lead), *x.shape))


def _index(axes: Shape, axis: int) -> Atom:
    """The index along an axis."""
    return array_atom(np.arange(float(axes[axis])).reshape(_at(len(axes), {axis: axes[axis]})))


def _at(rank: int, sizes: dict[int, int]) -> Shape:
    """The shape of an array with some sizes along some axes."""
    return tuple(sizes.get(axis, 1) for axis in range(rank))


def applied(a: Arrays, binding: Node, operands: list[Sparse | Atom]) -> Sparse | None:
    """The result of a binding whose operands are sparse or the same for all points; None where it is not known as sparse."""
    sparse = [o for o in operands if isinstance(o, Sparse)]
    x, op = sparse[0], binding.op
    if op in _EACH:
        params = (binding.dtype,) if op == "cast" else ()
        return _mapped(x, lambda t: getattr(a.builder, op)(t.source, *params))
    if len(sparse) > 1:
        alike = op == "add" and all(s.axes == x.axes for s in sparse)
        return x._replace(terms=_merged(a, [t for s in sparse for t in s.terms])) if alike else None
    if op == "mul" or (op == "div" and operands[0] is x):
        return _scaled(a, op, x, next(o for o in operands if o is not x), binding.shape)
    if op == "transpose":
        return _transposed(a, x, binding.params.params["axes"])
    if op == "sum":
        return _summed(a, x, binding.params.params["axes"])
    if op == "matmul" and all(len(o.shape) == 2 for o in operands):
        first, second = operands
        if isinstance(first, Sparse):
            return _by_matrix(a, first, second, len(x.axes) - 1)  # type: ignore[arg-type]
        return _by_matrix(a, x, a.swapped(first), len(x.axes) - 2)
    return None


def _mapped(x: Sparse, function: Callable[[Term], Atom]) -> Sparse:
    return x._replace(terms=tuple(t._replace(source=function(t)) for t in x.terms))


def _merged(a: Arrays, terms: list[Term]) -> tuple[Term, ...]:
    """Terms that vanish at the same places, added up where none repeats along another's axes."""
    found: dict[tuple[object, Shape], Term] = {}
    for term in terms:
        key = term.pairs, term.source.shape
        known = found.get(key)
        found[key] = term if known is None else term._replace(source=a.builder.add(known.source, term.source))
    return tuple(found.values())


def _scaled(a: Arrays, op: str, x: Sparse, factor: Atom, shape: Shape) -> Sparse | None:
    """Each cell times or by one of an array that is the same for all points."""
    if shape != x.shape:
        return None
    whole = a.reshape(factor, (1,) * (len(x.axes) - len(factor.shape)) + factor.shape) if factor.shape else factor

    def scaled(term: Term) -> Atom:
        order = list(range(len(x.axes)))
        for first, second in term.pairs:
            order[first], order[second] = second, first
        own = a.transpose(whole, tuple(order)) if factor.shape else whole
        return a.builder.mul(term.source, own) if op == "mul" else a.emit(op, term.source, own)

    return _mapped(x, scaled)


def _transposed(a: Arrays, x: Sparse, axes: tuple[int, ...]) -> Sparse:
    n = len(x.lead)
    order = (*range(n), *(n + axis for axis in axes))
    terms = [Term(a.transpose(t.source, order), tuple((f, order.index(s)) for f, s in t.pairs)) for t in x.terms]
    return Sparse(x.lead, tuple(x.shape[axis] for axis in axes), tuple(terms))


def _summed(a: Arrays, x: Sparse, axes: tuple[int, ...]) -> Sparse:
    """The sum over axes of `shape`: over the second axis of a pair, it finds one cell."""
    n = len(x.lead)
    gone = [n + axis for axis in axes]
    kept = [axis for axis in range(len(x.axes)) if axis not in gone]
    terms = []
    for source, pairs in x.terms:
        single = {second for _, second in pairs}
        whole = a.broadcast_to(
            source, tuple(x.axes[k] if k in gone and k not in single else s for k, s in enumerate(source.shape))
        )
        total = a.sum(whole, tuple(gone))
        left = tuple((first, kept.index(second)) for first, second in pairs if second in kept)
        terms.append(Term(total, left))
    return Sparse(x.lead, tuple(s for axis, s in enumerate(x.shape) if axis not in axes), _merged(a, terms))


def _by_matrix(a: Arrays, x: Sparse, matrix: Atom, axis: int) -> Sparse:
    """The product with a matrix over an axis: x[..., i, ...] matrix[i, j] summed over i."""
    rank, (size, after) = len(x.axes), matrix.shape
    terms = []
    for source, pairs in x.terms:
        agreeing = [first for first, second in pairs if second == axis]
        if agreeing:
            factor = a.reshape(matrix, _at(rank, {agreeing[0]: size, axis: after}))
            found = a.builder.mul(source, factor)
        elif source.shape[axis] == 1 != size:
            found = a.builder.mul(source, a.reshape(a.sum(matrix, (0,)), _at(rank, {axis: after})))
        else:
            found = _contracted(a, source, matrix, axis)
        terms.append(Term(found, tuple(p for p in pairs if p[1] != axis)))
    sizes = tuple(after if k == axis else n for k, n in enumerate(x.axes))
    return Sparse(x.lead, sizes[len(x.lead) :], tuple(terms))


def _contracted(a: Arrays, source: Atom, matrix: Atom, axis: int) -> Atom:
    """An array's product with a matrix over an axis, as one product of matrices."""
    last = len(source.shape) - 1
    order = list(range(last + 1))
    order[axis], order[last] = last, axis
    moved = a.transpose(source, tuple(order))
    found = a.matmul(a.reshape(moved, (math.prod(moved.shape[:-1]), moved.shape[-1])), matrix)
    return a.transpose(a.reshape(found, (*moved.shape[:-1], matrix.shape[1])), tuple(order))
