"""Whole arrays on a Builder: structural bindings with NumPy's shapes, and what can be said of them without computing.

Assumes atoms of one builder. Guarantees canonical parameters (see `heads`). In what the derivative adds, broadcast and
diagonal arrays stay symbolic: a product with a matrix of equal rows or columns becomes a sum, one with a diagonal matrix
scales rows, a sum over repeated cells multiplies. What the user wrote is kept as it stands, but for views of views.
Refuses shapes that do not fit, with `TraceError` at the user's line.
"""

import math
from functools import reduce
from itertools import permutations
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from symdiff.errors import TraceError
from symdiff.ir.arrays.regions import Box, lattice_of, merged, overlap, within
from symdiff.ir.building import Builder, array_atom, dtype_of_atoms, is_constant
from symdiff.ir.constants import data_of
from symdiff.ir.node import ArrayConstant, Atom, Constant, Node
from symdiff.vocabulary.extents import Extent, broadcast_extents
from symdiff.vocabulary.heads import HEADS, Shape, Slice, Static
from symdiff.vocabulary.ops import is_complex, real_counterpart
from symdiff.vocabulary.traits import operations

_FOLDED = operations("moves_constants")

_INDEXED = operations("takes_places")  # the second operand tells places
_SPARSE = 4  # cells of an array to those that are set, up to which all are listed
_TRUTHS = _FOLDED | _INDEXED | operations("moves_truths")  # kept truth values


def full_key(shape: Shape) -> tuple[Slice, ...]:
    """The index of everything."""
    return tuple((0, n, 1) for n in shape)


def kept_shape(shape: Shape, axes: tuple[int, ...]) -> Shape:
    """A shape with size 1 along some axes."""
    return tuple(1 if axis in axes else n for axis, n in enumerate(shape))


def number_of_cell(key: tuple[Slice, ...], value: Atom, shape: Shape) -> int | None:
    """The cell, by its number in C order, that a region is; None where it is several, or sizes are not known."""
    if value.shape != (1,) * len(shape) or not all(isinstance(n, int) for n in (*shape, *(k[0] for k in key))):
        return None
    return int(np.ravel_multi_index([k[0] for k in key], shape))


class Arrays:
    """Structural operations on atoms, appended to a builder."""

    def __init__(self, builder: Builder, origin: str = "") -> None:
        self.builder = builder
        self.origin = origin

    # -- bindings

    def bind(self, name: str, *operands: Atom, **params: Any) -> Atom:
        """One structural binding, with shape and dtype; views of constant arrays are folded."""
        head = HEADS[name]
        b = self.builder
        if name in _FOLDED and isinstance(operands[0], ArrayConstant):
            return array_atom(np.asarray(head.function(operands[0].value, **params)))
        operands = b.in_precision(operands)
        try:
            shape = head.shape(*(o.shape for o in operands), **params)
        except (ValueError, IndexError) as error:
            raise TraceError(f"{self.origin or b.origin}: {name}: {error}") from None
        code = {"index": "l", "count": "d"}.get(head.result) or dtype_of_atoms(operands[:1] if name in _INDEXED else operands)
        if head.result == "real":
            code = real_counterpart(code)
        elif head.result == "complex":
            code = "F" if code in "fF" else "D"
        if code == "?" and name not in _TRUTHS:
            code = "d"
            operands = tuple(b.cast(o, code) for o in operands)
        symbol = b.bind(name, operands, shape, code, Static(name, params), self.origin)
        b.structural[symbol] = symbol
        return symbol

    def made_by(self, atom: Atom, name: str) -> Node | None:
        """The binding of an atom, when it is by that head."""
        binding = self.builder.structural.get(atom)
        return binding if binding is not None and binding.op == name else None

    def emit(self, op: str, *operands: Atom) -> Atom:
        """An elementwise operation; in derivatives, broadcast operands take part unbroadcast."""
        return self.builder.emit(op, operands, None, self.origin)

    def repeated(self, atom: Atom) -> tuple[Atom, Shape]:
        """What an array broadcasts, and its shape filled with ones to the array's rank."""
        binding = self.made_by(atom, "broadcast_to") if not self.builder.primal else None
        source = atom if binding is None else binding.operands[0]
        return source, (1,) * (len(atom.shape) - len(source.shape)) + source.shape

    # -- views

    def reshape(self, x: Atom, shape: Shape) -> Atom:
        """The cells in another shape."""
        if x.shape == shape:
            return x
        source, _ = self.repeated(x)
        if source is not x and source.shape == ():
            return self.broadcast_to(source, shape)
        inner = self.made_by(x, "reshape")
        if inner is not None:
            return self.reshape(inner.operands[0], shape)
        if isinstance(x, Constant):
            return self.broadcast_to(x, shape)
        return self.bind("reshape", x, shape=shape)

    def transpose(self, x: Atom, axes: tuple[int, ...]) -> Atom:
        """The axes in another order."""
        if axes == tuple(range(len(axes))):
            return x
        source, shape = self.repeated(x)
        if source is not x:
            moved = source if source.shape == () else self.transpose(self.reshape(source, shape), axes)
            return self.broadcast_to(moved, tuple(x.shape[a] for a in axes))
        inner = self.made_by(x, "transpose")
        if inner is not None:
            first = inner.params.params["axes"]
            return self.transpose(inner.operands[0], tuple(first[a] for a in axes))
        n = len(axes)
        if self.made_by(x, "embed") is not None and axes == (*range(n - 2), n - 1, n - 2):
            return x
        return self.bind("transpose", x, axes=axes)

    def swapped(self, x: Atom) -> Atom:
        """Matrices transposed: the last two axes swapped."""
        n = len(x.shape)
        return self.transpose(x, (*range(n - 2), n - 1, n - 2))

    def broadcast_to(self, x: Atom, shape: Shape) -> Atom:
        """x repeated to a shape."""
        if x.shape == shape:
            return x
        inner = self.made_by(x, "broadcast_to")
        return self.bind("broadcast_to", x if inner is None else inner.operands[0], shape=shape)

    def spread(self, x: Atom, shape: Shape, axes: tuple[int, ...]) -> Atom:
        """The result of a reduction over `axes` repeated along them."""
        return self.broadcast_to(self.reshape(x, kept_shape(shape, axes)), shape)

    def getitem(self, x: Atom, key: tuple[Slice, ...]) -> Atom:
        """A region of x, by slices."""
        if key == full_key(x.shape):
            return x
        source, shape = self.repeated(x)
        if source is not x and source.shape == ():
            return self.broadcast_to(source, HEADS["getitem"].shape(x.shape, key=key))
        if source is not x:
            found = self.getitem(
                self.reshape(source, shape), tuple((0, 1, 1) if n == 1 else k for n, k in zip(shape, key, strict=True))
            )
            return self.broadcast_to(found, HEADS["getitem"].shape(x.shape, key=key))
        put = self.made_by(x, "put")
        common = None if put is None else overlap(put.params.params["key"], key)
        if put is not None and common is not None:
            shape = HEADS["getitem"].shape(x.shape, key=key)
            if any(start == stop for start, stop, _ in common[0]):
                return self.broadcast_to(Constant(False if x.dtype == "?" else 0.0), shape)
            return self.put(self.getitem(put.operands[0], common[0]), common[1], shape)
        return self.bind("getitem", x, key=key)

    def chosen(self, condition: Atom) -> Atom:
        """A condition, worked out where data tell it."""
        found = data_of(condition, self.builder.data)
        return condition if found is None or not found.irregular else array_atom(np.asarray(found.value))

    def table_of(self, places: Atom, size: Any) -> np.ndarray | None:
        """Places of rows as integers, where data tell them, within an array of that size; None for others."""
        found = data_of(places, self.builder.data) if isinstance(size, int) else None
        if found is None or not found.irregular or not ((found.value >= 0) & (found.value < size)).all():
            return None
        return found.value.astype(np.intp)  # type: ignore[no-any-return]

    def gather(self, x: Atom, places: Atom) -> Atom:
        """The rows at places, which may be a region."""
        known, rest = lattice_of(places, x.shape[0]), x.shape[1:]
        if known is None:
            rows = self.table_of(places, x.shape[0])
            return self.bind("gather", x, places) if rows is None else self.bind("take", x, indices=rows)
        found = self.getitem(self.reshape(x, (*known.shape, *rest)), (*known.key, *full_key(rest)))
        rows = self.reshape(found, (*(b - a for a, b, _ in known.key[:-1]), *rest))
        n = len(known.order)
        return self.reshape(self.transpose(rows, (*known.order, *range(n, n + len(rest)))), (*places.shape, *rest))

    def scatter_at(self, x: Atom, places: Atom, size: int) -> Atom:
        """Zeros with `size` rows, to which those of x are added at places, which may be a region."""
        known, rest = lattice_of(places, size), x.shape[len(places.shape) :]
        if known is None:
            own = self.table_of(places, size)
            return (
                self.bind("scatter_at", x, places, size=size)
                if own is None
                else self.bind("scatter", x, indices=own, size=size)
            )
        n = len(known.order)
        rows = self.reshape(x, (*(m for m in places.shape if m > 1), *rest))
        rows = self.transpose(rows, (*np.argsort(known.order).tolist(), *range(n, n + len(rest))))
        sizes = tuple(b - a for a, b, _ in known.key)
        found = self.put(self.reshape(rows, (*sizes, *rest)), (*known.key, *full_key(rest)), (*known.shape, *rest))
        return self.reshape(found, (size, *rest))

    def flip(self, x: Atom, axis: Any = None) -> Atom:
        """The cells of x in the opposite order, along all axes or some."""
        axes = tuple(range(len(x.shape))) if axis is None else normalize_axis_tuple(axis, len(x.shape))
        return self.getitem(x, tuple((n - 1, None, -1) if i in axes and n else (0, n, 1) for i, n in enumerate(x.shape)))

    def put(self, x: Atom, key: tuple[Slice, ...], shape: Shape) -> Atom:
        """Zeros with x in a region."""
        inner = self.made_by(x, "put")
        whole = None if inner is None else within(key, inner.params.params["key"])
        if inner is not None and whole is not None:
            return self.put(inner.operands[0], whole, shape)
        return x if key == full_key(shape) else self.bind("put", x, key=key, shape=shape)

    def by_region(self, values: list[Atom]) -> list[Atom]:
        """Terms of a sum, those that fill the same region of zeros added up first, regions side by side as one, and single
        cells set at once."""
        shape = broadcast_extents(*(value.shape for value in values))
        groups: dict[Any, list[Node]] = {}
        found: list[Atom] = []
        for value in values:
            put = self.made_by(value, "put") if value.shape == shape else None  # of what is broadcast another region is filled
            if put is None:
                found.append(value)
            else:
                groups.setdefault((put.params.params["key"], value.dtype), []).append(put)
        boxes: dict[Box, Atom | None] = {}  # what has been put there, if that is one term
        for (key, _), puts in groups.items():
            boxes[key, reduce(self.builder.add, [put.operands[0] for put in puts])] = puts[0] if len(puts) == 1 else None
        cells: dict[str, dict[int, Atom]] = {}
        single = all(total.shape == (1,) * len(shape) for _, total in boxes)
        for key, total in boxes if single else merged(boxes, len(shape), self.concatenate):
            number = number_of_cell(key, total, shape)
            if number is None:
                found.append(boxes.get((key, total)) or self.put(total, key, shape))
            else:
                cells.setdefault(total.dtype or "d", {})[number] = self.reshape(total, ())
        return found + [self.with_cells(known, shape, code) for code, known in cells.items()]

    def covering(self, masks: list[Atom]) -> list[Atom]:
        """Where one of some masks holds, those that hold in a region as the regions that they make up together."""
        shape, true = masks[0].shape, Constant(True)
        puts = {m: put for m in masks if m.shape == shape and (put := self.made_by(m, "put")) is not None}
        whole = {m: put.params.params["key"] for m, put in puts.items() if is_constant(self.repeated(put.operands[0])[0], 1)}
        regions = merged([(key, true) for key in whole.values()], len(shape), lambda *_: true, overlapping=True)
        sizes = [HEADS["getitem"].shape(shape, key=key) for key, _ in regions]
        found = [self.put(self.broadcast_to(true, size), key, shape) for size, (key, _) in zip(sizes, regions, strict=True)]
        return [*(m for m in masks if m not in whole), *found]

    def with_cells(self, known: dict[int, Atom], shape: Shape, code: str) -> Atom:
        """Zeros but for some cells, by their numbers in C order."""
        if len(known) == 1:
            (number,) = known
            key = tuple((int(i), int(i) + 1, 1) for i in np.unravel_index(number, shape))
            return self.put(self.reshape(known[number], (1,) * len(shape)), key, shape)
        size = math.prod(shape)
        if _SPARSE * len(known) >= size:
            return self.builder.array([known.get(k, Constant(0.0)) for k in range(size)], shape, code)
        row = self.builder.array([*known.values()], (len(known),), code)
        return self.reshape(self.bind("scatter", row, indices=np.array([*known]), size=size), shape)

    def cell(self, x: Atom, number: int | Extent) -> Atom:
        """A cell, by its number in C order."""
        source, _ = self.repeated(x)
        if source.shape == ():
            return source
        if isinstance(number, int) and (x.op == "array" or isinstance(x, ArrayConstant)):
            return x.operands[number] if x.op == "array" else Constant(x.value.flat[number].item(), x.dtype)
        return self.builder.bind("item", (x,), (), x.dtype or "d", number, self.origin)

    def embed(self, x: Atom) -> Atom:
        """Diagonal matrices."""
        return self.bind("embed", x)

    def diagonal(self, x: Atom) -> Atom:
        """The diagonals of matrices."""
        inner = self.made_by(x, "embed")
        return self.bind("diagonal", x) if inner is None else inner.operands[0]

    # -- reductions and products

    def sum(self, x: Atom, axes: tuple[int, ...], keepdims: bool = False) -> Atom:
        """The sum over some axes."""
        if keepdims:
            return self.reshape(self.sum(x, axes), kept_shape(x.shape, axes))
        if not axes:
            return x
        source, shape = self.repeated(x)
        if source is not x:
            times = math.prod(x.shape[a] for a in axes if shape[a] == 1)
            inside = tuple(a for a in axes if shape[a] != 1)
            total = self.sum(self.reshape(source, shape), inside, keepdims=True)
            total = self.reshape(total, tuple(n for a, n in enumerate(total.shape) if a not in axes))
            scaled = self.builder.mul(Constant(float(times)), total)
            return self.broadcast_to(scaled, tuple(n for a, n in enumerate(x.shape) if a not in axes))
        if all(x.shape[a] == 1 for a in axes):
            return self.reshape(x, tuple(n for a, n in enumerate(x.shape) if a not in axes))
        if self.builder.primal:
            return self.bind("sum", x, axes=axes)
        known = self.builder.sums.get((x, axes)) or self._sum_known(x, axes)
        if known is None:
            known = self.builder.sums[x, axes] = self.bind("sum", x, axes=axes)
        return known

    def _sum_known(self, x: Atom, axes: tuple[int, ...]) -> Atom | None:
        """A sum whose terms have factors in common: the factors times the sum of the rest; None where there is none."""
        factors: list[tuple[Atom | None, Shape]] = []
        while (found := self._common_factor(x, axes)) is not None:
            factor, shape, x = found
            factors.append((factor, shape))
            if (x, axes) in self.builder.sums or self.repeated(x)[0] is not x:
                break
        total = self.sum(x, axes) if factors else None
        for factor, shape in reversed(factors):
            assert total is not None
            total = self.builder.neg(total) if factor is None else self._times(factor, total, shape)
        return total

    def _common_factor(self, x: Atom, axes: tuple[int, ...]) -> tuple[Atom | None, Shape, Atom] | None:
        """A factor of all terms of a sum, its shape beside it, and the rest; a sign, None, or nothing at all."""
        negated = self.made_by(x, "neg")
        if negated is not None:
            return None, (), negated.operands[0]
        product = self.made_by(x, "mul")
        for factor, rest in permutations(product.operands) if product is not None else ():
            shape = (1,) * (len(x.shape) - len(factor.shape)) + factor.shape
            if rest.shape == x.shape and all(shape[a] == 1 for a in axes):
                return factor, tuple(n for a, n in enumerate(shape) if a not in axes), rest
        return None

    def _times(self, factor: Atom, total: Atom, shape: Shape) -> Atom:
        """A factor, in another shape, times a sum; what was divided by that sum is as it was before."""
        moved = self.made_by(factor, "reshape")
        quotient = self.made_by(factor if moved is None else moved.operands[0], "div")
        if quotient is not None and quotient.operands[1] is total:
            return self.broadcast_to(quotient.operands[0], total.shape)
        return self.builder.mul(self.reshape(factor, shape) if factor.shape else factor, total)

    def matmul(self, a: Atom, b: Atom) -> Atom:
        """The matrix product of arrays with two axes or more."""
        return (None if self.builder.primal else self._matmul_known(a, b)) or self.bind("matmul", a, b)

    def _matmul_known(self, a: Atom, b: Atom) -> Atom | None:
        """A product that needs no multiplication of matrices, or a smaller one; None where there is none."""
        if is_constant(a, 0) or is_constant(b, 0):
            return None
        diagonal = self.made_by(a, "embed")
        if diagonal is not None:
            d = diagonal.operands[0]
            return self.builder.mul(self.reshape(d, (*d.shape, 1)), b)
        diagonal = self.made_by(b, "embed")
        if diagonal is not None:
            d = diagonal.operands[0]
            return self.builder.mul(a, self.reshape(d, (*d.shape[:-1], 1, d.shape[-1])))
        shape = HEADS["matmul"].shape(a.shape, b.shape)
        first, first_shape = self.repeated(a)
        second, second_shape = self.repeated(b)
        rank = len(a.shape)
        if first is not a and first_shape[-1] == 1 != a.shape[-1]:
            column = self.broadcast_to(self.reshape(first, first_shape), (*first_shape[:-1], 1))
            return self.broadcast_to(self.builder.mul(column, self.sum(b, (len(b.shape) - 2,), True)), shape)
        if second is not b and second_shape[-2] == 1 != b.shape[-2]:
            row = self.reshape(second, second_shape)
            return self.broadcast_to(self.builder.mul(self.sum(a, (rank - 1,), True), row), shape)
        if first is not a and first_shape[-2] == 1 != a.shape[-2]:
            row = self.broadcast_to(self.reshape(first, first_shape), (*a.shape[:-2], 1, a.shape[-1]))
            return self.broadcast_to(self.matmul(row, b), shape)
        if second is not b and second_shape[-1] == 1 != b.shape[-1]:
            column = self.broadcast_to(self.reshape(second, second_shape), (*b.shape[:-1], 1))
            return self.broadcast_to(self.matmul(a, column), shape)
        return None

    def concatenate(self, parts: list[Atom], axis: int) -> Atom:
        """Arrays one after the other."""
        return parts[0] if len(parts) == 1 else self.bind("concatenate", *parts, axis=axis)

    # -- what every rule needs

    def unbroadcast(self, x: Atom, shape: Shape) -> Atom:
        """A cotangent summed over the axes along which its operand was broadcast."""
        if x.shape == shape:
            return x
        if len(x.shape) < len(shape):
            return self.broadcast_to(x, shape)
        away = len(x.shape) - len(shape)
        axes = tuple(range(away)) + tuple(i + away for i, n in enumerate(shape) if n == 1 != x.shape[i + away])
        found = self.reshape(self.sum(x, axes, keepdims=True), kept_shape(x.shape, axes)[away:])
        return self.broadcast_to(found, shape)

    def mirrored(self, x: Atom) -> Atom:
        """The Hermitian transpose of matrices."""
        swapped = self.swapped(x)
        return self.emit("conj", swapped) if is_complex(x.dtype or "d") else swapped
