"""Batches of arrays that are mostly zero: sums of terms that vanish but in a region, where some pairs of indices agree.

Assumes batches whose points are the cells of an array, so that their axis stands for as many as that array has, as in the
sweeps of a Jacobian. Guarantees that what slices, moves and sums arrays moves the regions, so that a stencil's derivatives stay
as many diagonals, and that a product with a matrix over an index that must agree with another needs no multiplication of
matrices. Knows of linear operations only; `applied` tells by None where nothing is known.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from symdiff.ir.arrays.algebra import Arrays
from symdiff.ir.building import array_atom, is_constant
from symdiff.ir.node import Atom, Constant, Node
from symdiff.vocabulary.heads import HEADS, Shape, Slice
from symdiff.vocabulary.traits import operations

_FEW, _MOST = 8, 24  # terms, beyond which those on the same diagonals are one, and all are one array
Region = tuple[range, ...]
Pairs = tuple[tuple[int, int], ...]
_EACH, _BILINEAR, _OVERWRITING = operations("termwise"), operations("bilinear"), operations("overwrites")


class Term(NamedTuple):
    """`source` in a region, where the indices of each pair of axes, counted within the region, are equal; else 0.

    The source has size 1 along axes along which it is the same, as it is along the first one of a pair, and may lack leading
    ones.
    """

    source: Atom
    region: Region
    pairs: Pairs

    @property
    def sizes(self) -> Shape:
        """The sizes of the source, those that it lacks included."""
        return (1,) * (len(self.region) - len(self.source.shape)) + self.source.shape

    def full(self, a: Arrays) -> Atom:
        """The source with all axes."""
        return a.reshape(self.source, self.sizes)


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


Operands = list[Sparse | Atom]


def unit_seeds(shape: Shape, code: str) -> Sparse:
    """All unit arrays of a shape."""
    n = len(shape)
    return Sparse(shape, shape, (Term(Constant(1.0, code), _whole(2 * shape), tuple((k, n + k) for k in range(n))),))


# -- as arrays


def dense(a: Arrays, x: Sparse, last: bool = False) -> Atom:
    """The array itself, its points along the first axis, or the last one."""
    n, points, cells = len(x.lead), math.prod(x.lead), math.prod(x.shape)
    order = (*range(n, len(x.axes)), *range(n)) if last else tuple(range(len(x.axes)))
    sides, weights, turn = (points, cells), _strides(x.lead) + _strides(x.shape), -1 if last else 1
    filled, lines, rows, places = [], [], [], []
    for term in _some(x.terms):
        line = _line(a, x, term) if _follows(term) else None
        if line is not None:
            row, along = line
            lines.append(a.put(a.embed(row), _key(along[::turn]), sides[::turn]))
        elif _follows(term):
            ends, values = _numbers(term, n, weights), _spread(a, term)
            places.append(ends[1] * points + ends[0] if last else ends[0] * cells + ends[1])
            rows.append(values)
        else:
            moved = a.transpose(_filled(a, term), order)
            filled.append(a.put(moved, _key(term.region[axis] for axis in order), tuple(x.axes[axis] for axis in order)))
    shape = (*x.shape, points) if last else (points, *x.shape)
    if rows:
        row = a.bind("scatter", a.concatenate(rows, 0), indices=np.concatenate(places), size=points * cells)
        lines.append(a.reshape(row, sides[::turn]))
    total = a.reshape(reduce(a.builder.add, filled), shape) if filled else Constant(0.0)
    total = a.builder.add(total, a.reshape(reduce(a.builder.add, lines), shape)) if lines else total
    return a.broadcast_to(total, shape)


def _line(a: Arrays, x: Sparse, term: Term) -> tuple[Atom, Region] | None:
    """A term as a row of cells along a diagonal of the matrix of points and cells, and its rows and columns in there."""
    n, region = len(x.lead), term.region
    long = [pair for pair in term.pairs if len(region[pair[0]]) > 1]
    if len(long) > 1:
        matrix = _joined(a, x.axes, term, range(n), range(n, len(x.axes)))
        return None if matrix is None else (_spread(a, matrix), matrix.region)
    weights, runs = _strides(x.lead) + _strides(x.shape), []
    for place, side in enumerate((range(n), range(n, len(x.axes)))):
        start = sum(weights[k] * region[k][0] for k in side)
        step = weights[long[0][place]] * region[long[0][place]].step if long else 1
        if step < 1:
            return None
        runs.append(_run(start, step, len(region[long[0][0]]) if long else 1))
    return _spread(a, term), tuple(runs)


def _some(terms: Iterable[Term]) -> list[Term]:
    """Those that have cells."""
    return [term for term in terms if all(map(len, term.region))]


def _follows(term: Term) -> bool:
    """Whether a point has one cell at most, and that no other point."""
    paired = {axis for pair in term.pairs for axis in pair}
    return all(axis in paired or len(cells) == 1 for axis, cells in enumerate(term.region))


def _spread(a: Arrays, term: Term) -> Atom:
    """The cells of a term in one row."""
    single = {first for first, _ in term.pairs}
    sizes = tuple(1 if axis in single else len(cells) for axis, cells in enumerate(term.region))
    return a.reshape(a.broadcast_to(term.full(a), sizes), (math.prod(sizes),))


def _numbers(term: Term, n: int, weights: Shape) -> tuple[np.ndarray, np.ndarray]:
    """The points of the cells of a term in one row, and their places among those of a point."""
    own = [np.array(cells) for cells in term.region]
    found = [np.zeros((), int), np.zeros((), int)]
    partner = dict(term.pairs)
    for axis, cells in enumerate(own):
        along = partner.get(axis, axis)
        found[axis >= n] = found[axis >= n] + weights[axis] * cells.reshape(_at(len(own), {along: len(cells)}))
    shape = np.broadcast_shapes(found[0].shape, found[1].shape)
    points, places = (np.broadcast_to(numbers, shape).ravel() for numbers in found)
    return points, places


def _filled(a: Arrays, term: Term) -> Atom:
    """The cells of a term in its region, with zeros where indices differ."""
    sizes, value = tuple(map(len, term.region)), term.source
    for first, second in term.pairs:
        here, there = (array_atom(np.arange(float(sizes[k])).reshape(_at(len(sizes), {k: sizes[k]}))) for k in (first, second))
        value = a.builder.select(a.emit("eq", here, there), value, Constant(0.0))
    return a.broadcast_to(value, sizes)


def _strides(shape: Shape) -> Shape:
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _at(rank: int, sizes: dict[int, int]) -> Shape:
    """The shape of an array with some sizes along some axes."""
    return tuple(sizes.get(axis, 1) for axis in range(rank))


# -- regions


def _whole(shape: Shape) -> Region:
    return tuple(map(range, shape))


def _key(region: Iterable[range]) -> tuple[Slice, ...]:
    """A region as an index."""
    return tuple((r.start, r.stop if r.stop >= 0 else None, r.step) for r in region)


def _run(start: int, step: int, count: int) -> range:
    """So many numbers, the end beside the last of them."""
    step = step if count > 1 else 1
    return range(start, start + (count - 1) * step + (1 if step > 0 else -1), step)


def _progression(numbers: np.ndarray) -> range | None:
    """Numbers at equal distances as what they are; None for others."""
    steps = set(np.diff(numbers).tolist()) or {1}
    return _run(int(numbers[0]), *steps, len(numbers)) if len(numbers) and len(steps) == 1 and 0 not in steps else None


def _meeting(own: range, cut: range) -> tuple[range, range]:
    """The places in each of two progressions of the numbers that are in both, the first ones rising."""
    period = abs(cut.step) // math.gcd(own.step, cut.step)
    first = next((k for k in range(min(period, len(own))) if (own[k] - cut.start) % cut.step == 0), len(own))
    alike, sign = own[first::period], 1 if own.step > 0 else -1
    low, high = sorted((sign * cut[0], sign * cut[-1])) if cut else (0, -1)
    ends = [side(alike, end, key=lambda v: sign * v) for side, end in ((bisect_left, low), (bisect_right, high))]
    found = alike[ends[0] : ends[1]]
    if not found:
        return range(0), range(0)
    places = _run(first + ends[0] * period, period, len(found))
    return places, _run(cut.index(found[0]), own.step * period // cut.step, len(found))


def _within(a: Arrays, term: Term, axis: int, places: range) -> Term:
    """The part of a term at some places along an axis of its region."""
    along = {axis, *(k for pair in term.pairs if axis in pair for k in pair)}
    key, cut = slice(places.start, places.stop, places.step), _key([places])
    region = tuple(cells[key] if k in along else cells for k, cells in enumerate(term.region))
    sizes = list(enumerate(term.sizes))[-len(term.source.shape) or len(region) :]
    whole = tuple(cut[0] if k in along and n > 1 else (0, n, 1) for k, n in sizes)
    return Term(a.getitem(term.source, whole) if whole else term.source, region, term.pairs)


def turned(a: Arrays, x: Atom, order: tuple[int, ...]) -> Atom:
    """An array's axes in another order; where only those of size 1 move, in another shape."""
    long = [axis for axis in order if x.shape[axis] != 1]
    return a.reshape(x, tuple(x.shape[axis] for axis in order)) if long == sorted(long) else a.transpose(x, order)


def _lean(a: Arrays, x: Atom) -> Atom:
    """An array without leading axes of size 1."""
    return a.reshape(x, x.shape[next((k for k, n in enumerate(x.shape) if n != 1), len(x.shape)) :])


def _pointed(a: Arrays, term: Term, axes: Iterable[int]) -> Term:
    """A term whose cells along some axes that are paired are along those of the points, which are paired no longer."""
    order = list(range(len(term.region)))
    gone = [(first, second) for first, second in term.pairs if second in axes]
    for first, second in gone:
        order[first], order[second] = second, first
    source = _lean(a, turned(a, term.full(a), tuple(order))) if gone else term.source
    return Term(source, term.region, tuple(pair for pair in term.pairs if pair not in gone))


# -- what operations make of them


def applied(a: Arrays, binding: Node, operands: Operands) -> Sparse | None:
    """The result of a binding whose operands are sparse or the same for all points; None where it is not known as sparse."""
    rule, fixed = _RULES.get(binding.op, (None, ()))
    rule = _each if binding.op in _EACH else rule
    sparse = [place for place, o in enumerate(operands) if isinstance(o, Sparse)]
    if rule is None or any(place in fixed for place in sparse) or (binding.op in _BILINEAR and len(sparse) > 1):
        return None
    for place, o in enumerate(operands):
        if not (isinstance(o, Sparse) or place in fixed or binding.op in _BILINEAR or is_constant(a.repeated(o)[0], 0)):
            return None
    found = []
    for place in sparse:
        part = rule(a, operands[place], binding, operands, place)  # type: ignore[arg-type]
        if part is None or (found and part.lead != found[0].lead):
            return None
        found.append(part)
    return _merged(a, found[0], [t for part in found for t in part.terms], binding.dtype)


def _merged(a: Arrays, x: Sparse, terms: list[Term], code: str) -> Sparse:
    """The sum of terms, those added up that vanish at the same places unless each repeats along axes of the other; all as one
    where they are many, or as large as the array.
    """
    found: list[Term] = []
    for term in _some(terms):
        for place, known in enumerate(found):
            sizes = tuple(map(max, known.sizes, term.sizes))
            if known[1:] == term[1:] and sizes in (known.sizes, term.sizes):
                found[place] = known._replace(source=a.builder.add(known.source, term.source))
                break
        else:
            found.append(term)
    found = _on_diagonals(a, found) if len(found) > _FEW else found
    cells = sum(math.prod(t.sizes) for t in found)
    if len(found) == 1 or (1 < len(found) <= _MOST and cells <= math.prod(x.axes)):
        return x._replace(terms=tuple(found))
    whole = a.reshape(dense(a, x._replace(terms=tuple(found))), x.axes) if found else Constant(0.0, code)
    return x._replace(terms=(Term(whole, _whole(x.axes), ()),))


def _on_diagonals(a: Arrays, terms: list[Term]) -> list[Term]:
    """Terms, those on the same diagonals as one, which is zero between them."""
    groups: dict[Any, list[Term]] = {}
    for term in terms:
        paired = {axis for pair in term.pairs for axis in pair}
        rest = tuple(None if k in paired and cells.step == 1 else cells for k, cells in enumerate(term.region))
        offsets = tuple(term.region[second].start - term.region[first].start for first, second in term.pairs)
        groups.setdefault((term.pairs, offsets, rest), []).append(term)
    found = []
    for (pairs, _, rest), group in groups.items():
        ends = zip(*([(cells.start, cells.stop) for cells in term.region] for term in group), strict=True)
        hull = tuple(known or range(min(axis)[0], max(end for _, end in axis)) for known, axis in zip(rest, ends, strict=True))
        seconds = {second for _, second in pairs}
        total: Atom = Constant(0.0)
        for term in group if len(group) > 1 else ():
            sizes = tuple(len(term.region[k]) if k in seconds else n for k, n in enumerate(term.sizes))
            starts = [term.region[k].start - hull[k].start if k in seconds else 0 for k in range(len(hull))]
            key = tuple((start, start + n, 1) for start, n in zip(starts, sizes, strict=True))
            whole = tuple(len(hull[k]) if k in seconds else n for k, n in enumerate(sizes))
            total = a.builder.add(total, a.put(a.broadcast_to(term.full(a), sizes), key, whole))
        found.append(group[0] if len(group) == 1 else Term(_lean(a, total), hull, pairs))
    return found


def _mapped(x: Sparse, function: Callable[[Term], Atom]) -> Sparse:
    return x._replace(terms=tuple(t._replace(source=function(t)) for t in x.terms))


def _each(a: Arrays, x: Sparse, binding: Node, operands: Operands, place: int) -> Sparse:
    params = (binding.dtype,) if binding.op == "cast" else ()
    return _mapped(x, lambda t: getattr(a.builder, binding.op)(t.source, *params))


def _added(a: Arrays, x: Sparse, binding: Node, operands: Operands, place: int) -> Sparse:
    found = _repeated(a, x, binding.shape)
    return _mapped(found, lambda t: a.builder.neg(t.source)) if binding.op == "sub" and place == 1 else found


def _repeated(a: Arrays, x: Sparse, shape: Shape) -> Sparse:
    """The array broadcast to a shape: it is the same along its new axes, and along those that had the size 1."""
    n, new = len(x.lead), len(shape) - len(x.shape)
    longer = {n + axis for axis, size in enumerate(shape) if axis < new or size != x.shape[axis - new]}
    terms = []
    for term in x.terms:
        source, region, pairs = term
        if len(source.shape) > len(x.shape):
            source = a.reshape(source, (*term.sizes[:n], *(1,) * new, *term.sizes[n:]))
        cells = (
            *region[:n],
            *(range(size) if n + axis in longer else region[n + axis - new] for axis, size in enumerate(shape)),
        )
        left = tuple((first, second + new) for first, second in pairs if second + new not in longer)
        terms.append(Term(source, cells, left))
    return Sparse(x.lead, shape, tuple(terms))


def _scaled(a: Arrays, x: Sparse, binding: Node, operands: Operands, place: int) -> Sparse:
    """Each cell times or by one of an array that is the same for all points, or where a condition chooses it."""
    op = binding.op

    def scaled(term: Term) -> Atom:
        def own(factor: Sparse | Atom) -> Atom:
            region = term.region[len(term.region) - len(factor.shape) :]
            key = tuple((0, 1, 1) if n == 1 else k for n, k in zip(factor.shape, _key(region), strict=True))
            return a.getitem(factor, key) if key else factor  # type: ignore[arg-type, return-value]

        if op == "select":
            arms = (term.source, Constant(0.0))
            return a.builder.select(own(operands[0]), *(arms if place == 1 else arms[::-1]))
        factor = own(operands[1 - place])
        return a.builder.mul(term.source, factor) if op == "mul" else a.emit(op, term.source, factor)

    return _mapped(_repeated(a, x, binding.shape), scaled)


def _transposed(a: Arrays, x: Sparse, binding: Node, operands: Operands, place: int) -> Sparse:
    n, axes = len(x.lead), binding.params.params["axes"]
    order = (*range(n), *(n + axis for axis in axes))
    terms = [
        Term(
            _lean(a, turned(a, t.full(a), order)),
            tuple(t.region[k] for k in order),
            tuple((f, order.index(s)) for f, s in t.pairs),
        )
        for t in x.terms
    ]
    return Sparse(x.lead, binding.shape, tuple(terms))


def _summed(a: Arrays, x: Sparse, binding: Node, operands: Operands, place: int) -> Sparse:
    """The sum over axes of `shape`: over the second axis of a pair, it finds one cell."""
    gone = [len(x.lead) + axis for axis in binding.params.params["axes"]]
    kept = [axis for axis in range(len(x.axes)) if axis not in gone]
    terms = []
    for term in x.terms:
        single = {second for _, second in term.pairs}
        alone = _pointed(a, term, gone)
        sizes = tuple(len(cells) if k in gone and k not in single else n
                      for k, (n, cells) in enumerate(zip(alone.sizes, term.region, strict=True)))  # fmt: skip
        left = tuple((first, kept.index(second)) for first, second in alone.pairs)
        total = a.sum(a.broadcast_to(alone.full(a), sizes), tuple(gone))
        terms.append(Term(total, tuple(term.region[k] for k in kept), left))
    return Sparse(x.lead, binding.shape, tuple(terms))


def _multiplied(a: Arrays, x: Sparse, binding: Node, operands: Operands, place: int) -> Sparse | None:
    """The product with a matrix over an axis: x[..., i, ...] matrix[i, j] summed over i."""
    matrix, rank, n = operands[1 - place], len(x.axes), len(x.lead)
    if len(matrix.shape) != 2:
        return None
    matrix, axis = (a.swapped(matrix), rank - 2) if place else (matrix, rank - 1)  # type: ignore[arg-type]
    after = matrix.shape[1]
    terms = []
    for term in x.terms:
        alone = _pointed(a, term, (axis,))
        rows = a.getitem(matrix, (*_key(term.region[axis : axis + 1]), (0, after, 1)))  # type: ignore[arg-type]
        agreeing = [first for first, second in term.pairs if second == axis]
        if agreeing:
            found = a.builder.mul(alone.source, a.reshape(rows, _at(rank, {agreeing[0]: rows.shape[0], axis: after})))
        elif alone.sizes[axis] == 1 != rows.shape[0]:
            found = a.builder.mul(alone.source, a.reshape(a.sum(rows, (0,)), _at(rank, {axis: after})))
        else:
            found = _contracted(a, alone.full(a), rows, axis)
        cells = (*term.region[:axis], range(after), *term.region[axis + 1 :])
        terms.append(Term(found, cells, alone.pairs))
    return Sparse(x.lead, (*x.axes[n:axis], after, *x.axes[axis + 1 :]), tuple(terms))


def _contracted(a: Arrays, source: Atom, matrix: Atom, axis: int) -> Atom:
    """An array's product with a matrix over an axis, as one product of matrices."""
    last = len(source.shape) - 1
    order = list(range(last + 1))
    order[axis], order[last] = last, axis
    moved = turned(a, source, tuple(order))
    found = a.matmul(a.reshape(moved, (math.prod(moved.shape[:-1]), moved.shape[-1])), matrix)
    return turned(a, a.reshape(found, (*moved.shape[:-1], matrix.shape[1])), tuple(order))


def _cut(a: Arrays, x: Sparse, key: tuple[Slice, ...], erased: bool = False) -> Sparse | None:
    """What is in a region, as an array; or, without it, the array where that is `erased`. None for what is between strides."""
    n, terms = len(x.lead), []
    for term in x.terms:
        inside = term
        for axis, (size, part) in enumerate(zip(x.shape, key, strict=True), n):
            own, cut = inside.region[axis], range(size)[slice(*part)]
            places, found = _meeting(own, cut)
            if erased and len(places) > 1 and places.step > 1:
                return None
            for rest in (range(places.start), range(places.stop, len(own))) if erased else ():
                terms.append(_within(a, inside, axis, rest))
            inside = _within(a, inside, axis, places)
            if not erased:
                inside = inside._replace(region=(*inside.region[:axis], found, *inside.region[axis + 1 :]))
        if not erased:
            terms.append(inside)
    return x._replace(terms=tuple(_some(terms)), shape=x.shape if erased else HEADS["getitem"].shape(x.shape, key=key))


def _put(x: Sparse, key: tuple[Slice, ...], shape: Shape) -> Sparse:
    """Zeros with the array in a region."""
    n = len(x.lead)
    cuts = [range(size)[slice(*part)] for size, part in zip(shape, key, strict=True)]

    def moved(region: Region) -> Region:
        return tuple(
            _run(cut[own[0]], cut.step * own.step, len(own)) if own else range(0)
            for cut, own in zip(cuts, region[n:], strict=True)
        )

    return Sparse(x.lead, shape, tuple(t._replace(region=(*t.region[:n], *moved(t.region))) for t in x.terms))


def _placed(a: Arrays, x: Sparse, binding: Node, operands: Operands, place: int) -> Sparse | None:
    """What is put somewhere: in a region, beside others, at places in a row, or in place of something."""
    if binding.op == "scatter":
        return _scattered(x, **binding.params.params)
    if binding.op == "concatenate":
        axis = binding.params.params["axis"]
        start = sum(o.shape[axis] for o in operands[:place])
        key = tuple((start, start + n, 1) if k == axis else (0, n, 1) for k, n in enumerate(x.shape))
        return _put(x, key, binding.shape)
    if binding.op == "set_at":
        run = _progression(binding.params.params["indices"].ravel()) if len(binding.shape) == 1 else None
        if run is None:
            return None
        key = _key([run])
    else:
        key = binding.params.params["key"]
    if binding.op in _OVERWRITING and place == 0:
        return _cut(a, x, key, True)
    return _put(_repeated(a, x, HEADS["getitem"].shape(binding.shape, key=key)), key, binding.shape)


def _scattered(x: Sparse, indices: np.ndarray, size: int) -> Sparse | None:
    """Rows added to those of zeros; None where a term's are not in one progression."""
    n, terms = len(x.lead), []
    for term in x.terms:
        run = _progression(indices[np.array(term.region[n], int)]) if indices.ndim == 1 else None
        if run is None:
            return None
        terms.append(term._replace(region=(*term.region[:n], run, *term.region[n + 1 :])))
    return Sparse(x.lead, (size, *x.shape[1:]), tuple(terms))


def _cell(a: Arrays, x: Sparse, binding: Node, operands: Operands, place: int) -> Sparse | None:
    """One cell of an array, or an array's one cell."""
    whole = x.shape or binding.shape
    at = np.unravel_index(place if binding.op == "array" else binding.params, whole)
    key = tuple((int(i), int(i) + 1, 1) for i in at)
    if binding.op == "array":
        typed = _mapped(_repeated(a, x, (1,) * len(whole)), lambda t: a.builder.cast(t.source, binding.dtype))
        return _put(typed, key, whole)
    found = _cut(a, x, key)
    return None if found is None else _regrouped(a, found, ())


def _regrouped(a: Arrays, x: Sparse, shape: Shape) -> Sparse | None:
    """The array in another shape."""
    at, found = 0, None if 0 in shape else x
    for old, new in _groups(x.shape, shape) if found else ():
        found = found and (found if old == new else _replaced(a, found, at, old, new))
        at += len(new)
    return found


def _replaced(a: Arrays, x: Sparse, at: int, old: Shape, new: Shape) -> Sparse | None:
    """Some axes for others with as many cells, as are the axes of the points where all terms are paired with these; None where
    only some are, or have not all the cells.
    """
    n, size = len(x.lead), math.prod(old)
    axes = range(n + at, n + at + len(old))
    spans = [axes]
    if size > 1:
        partners = [{second: first for first, second in term.pairs} for term in x.terms]
        start = next((own[axis] - k for own in partners for k, axis in enumerate(axes) if axis in own), None)
        for own, term in zip(partners, x.terms, strict=True):
            for k, axis in enumerate(axes):
                single = start is not None and len(old) > 1 and len(term.region[axis]) == len(term.region[start + k]) == 1
                if own.get(axis) != (None if start is None else start + k) and not (single and axis not in own):
                    return None
        if start is not None:
            spans.insert(0, range(start, start + len(old)))
    terms = [_with_axes(a, x.axes, t, spans, new) for t in x.terms]
    lead = x.lead
    if len(spans) > 1:
        points = (math.prod(lead[k] for k in spans[0]),) if len(new) == 1 else new
        lead = (*lead[: spans[0].start], *points, *lead[spans[0].stop :])
    shape = (*x.shape[:at], *new, *x.shape[at + len(old) :])
    return None if None in terms else Sparse(lead, shape, tuple(terms))  # type: ignore[arg-type]


def _with_axes(a: Arrays, axes: Shape, term: Term, spans: list[range], new: Shape) -> Term | None:
    """A term with new axes in place of one span of its axes, or of two that are paired."""
    if len(spans) > 1 and len(new) == 1 < len(spans[0]):
        return _joined(a, axes, term, *spans)
    gone = [k for span in spans for k in span]
    own = [tuple(term.sizes[k] for k in span) for span in spans]
    if any(term.region[k] != range(axes[k]) for k in gone):
        return None
    if any(max(sizes, default=1) > 1 and sizes != axes[span.start : span.stop] for sizes, span in zip(own, spans, strict=True)):
        return None
    parts = [new if max(sizes, default=1) > 1 else (1,) * len(new) for sizes in own]
    region = _exchanged(term.region, spans, [_whole(new)] * len(spans))
    return _rebuilt(a, term, term.source, spans, region, _exchanged(term.sizes, spans, parts), len(new))


def _joined(a: Arrays, axes: Shape, term: Term, first: range, second: range) -> Term | None:
    """A term with one axis for a span of its axes, and one for those paired with them: each diagonal goes on in the next."""
    region, weights = term.region, _strides(tuple(axes[k] for k in second))
    paired = all((f, s) in term.pairs or len(region[f]) == len(region[s]) == 1 for f, s in zip(first, second, strict=False))
    steps = [region[k].step if len(region[k]) > 1 else 1 for k in (*first, *second)]
    if not paired or weights != _strides(tuple(axes[k] for k in first)) or steps[: len(first)] != steps[len(first) :]:
        return None
    sizes = tuple(len(region[k]) if k in second else n for k, n in enumerate(term.sizes))
    key = tuple(_key(region)[k] if k in second else (0, n, 1) for k, n in enumerate(sizes))
    whole = a.put(a.broadcast_to(term.full(a), sizes), key, tuple(axes[k] if k in second else n for k, n in enumerate(sizes)))
    points, cells = (math.prod(axes[k] for k in span) for span in (first, second))
    offset = sum(w * (region[s][0] - region[f][0]) for w, f, s in zip(weights, first, second, strict=True))
    columns = range(max(0, offset), min(cells, points + offset))
    spans, rows = [first, second], range(columns.start - offset, columns.stop - offset)
    row = a.reshape(whole, _exchanged(whole.shape, spans, [(1,), (cells,)]))
    place = second.start - len(first) + 1
    row = a.getitem(row, tuple(_key([columns])[0] if k == place else (0, n, 1) for k, n in enumerate(row.shape)))
    return _rebuilt(a, term, row, spans, _exchanged(region, spans, [(rows,), (columns,)]), row.shape, 1)


def _exchanged(values: tuple[Any, ...], spans: list[range], new: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Values with others in place of those of some spans."""
    for span, part in zip(spans[::-1], new[::-1], strict=True):
        values = (*values[: span.start], *part, *values[span.stop :])
    return values


def _rebuilt(a: Arrays, term: Term, source: Atom, spans: list[range], region: Region, sizes: Shape, count: int) -> Term:
    """A term with `count` axes in place of each of some spans: where these are two, they are paired."""
    gone = {axis for span in spans for axis in span}

    def moved(axis: int) -> int:
        return axis + sum(count - len(span) for span in spans if span.stop <= axis)

    pairs = [(moved(f), moved(s)) for f, s in term.pairs if s not in gone]
    if len(spans) > 1:
        pairs += [(spans[0].start + k, spans[1].start + count - len(spans[0]) + k) for k in range(count)]
    return Term(_lean(a, a.reshape(source, sizes)), region, tuple(sorted(pairs)))


def _groups(old: Shape, new: Shape) -> list[tuple[Shape, Shape]]:
    """The sizes of a shape that become, together, some of another one; those of 1 come and go by themselves."""
    groups: list[tuple[Shape, Shape]] = []
    i = j = 0
    while i < len(old) or j < len(new):
        start, end = i, j
        if old[i : i + 1] == (1,):
            i += 1
        elif new[j : j + 1] == (1,):
            j += 1
        else:
            i, j = i + 1, j + 1
            while (before := math.prod(old[start:i])) != (after := math.prod(new[end:j])):
                i, j = (i + 1, j) if before < after else (i, j + 1)
        groups.append((old[start:i], new[end:j]))
    return groups


_RULES: dict[str, tuple[Callable[..., Sparse | None], tuple[int, ...]]] = {  # with fixed operands
    "add": (_added, ()), "sub": (_added, ()), "mul": (_scaled, ()), "div": (_scaled, (1,)), "select": (_scaled, (0,)),
    "transpose": (_transposed, ()), "sum": (_summed, ()), "matmul": (_multiplied, ()),
    "item": (_cell, ()), "array": (_cell, ()),
    **dict.fromkeys(("put", "set", "set_at", "scatter", "concatenate"), (_placed, ())),
    "broadcast_to": (lambda a, x, binding, *_: _repeated(a, x, binding.shape), ()),
    "getitem": (lambda a, x, binding, *_: _cut(a, x, binding.params.params["key"]), ()),
    "reshape": (lambda a, x, binding, *_: _regrouped(a, x, binding.shape), ()),
}  # fmt: skip
