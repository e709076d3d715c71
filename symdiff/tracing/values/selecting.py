"""`x[mask]` for a traced mask: cells of which it is not known how many there are.

Assumes a mask of the array's first axes. Guarantees that elementwise functions of them, and sums, means, extremes, products
and counts, are those of the cells selected, at every argument: cells that are not selected are replaced before they are
joined. What needs the cells themselves (an order, a loop, a result) takes the mask as it is at the given arguments, and keeps
that as a condition. Refuses nothing by itself; where all paths are needed, `TraceError`.
"""

import functools
import math
import operator
from dataclasses import dataclass
from typing import Any

import numpy as np

from symdiff.errors import TraceError
from symdiff.ir.arrays.algebra import Arrays
from symdiff.tracing.values.integers import Integer
from symdiff.tracing.values.kinds import ARRAY, PYTHON
from symdiff.tracing.values.operands import as_array
from symdiff.tracing.values.operators import asked_first
from symdiff.tracing.values.tracer import Tracer
from symdiff.vocabulary import structures
from symdiff.vocabulary.libraries import user_line
from symdiff.vocabulary.signatures import Arguments, Function, Keywords

_SHARED = "what a mask has picked is changed after columns were taken; copy it first: y[mask].copy()"
_ELEMENTWISE = {
    "where": 3, "clip": 3, "round": 2, "around": 2, "real": 1, "imag": 1, "nan_to_num": 1, "sinc": 1, "angle": 2,
}  # functions, and how many arguments there are before those that name an array to write to  # fmt: skip


@dataclass(eq=False, slots=True)
class Parts:
    """The array, the mask, and the cells once the mask is known; without the array once they are in a storage."""

    values: Any
    mask: Tracer
    known: Any = None
    columns: bool = False  # whether columns of the cells were taken, or the cells are such columns


class Chosen(Tracer):
    """Cells of an array of which nobody knows how many there are. `elementwise` gives a function of each cell alone, None where
    the cells themselves are needed; `joined` any other one.
    """

    __slots__ = ()
    kind = ARRAY

    @classmethod
    def made(cls, builder: Any, dtype: Any, value: Any) -> Any:
        """Some cells, as `value` tells them."""
        self = object.__new__(cls)
        self.builder, self._dtype, self._value, self._held = builder, dtype, value, None
        return self

    def has_memory(self) -> bool:
        return True

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if len(args) <= _ELEMENTWISE.get(function.__name__, -1) and not kwargs.keys() & {"out", "copy"}:
            found = self.elementwise(function, args, kwargs)
            if found is not None:
                return found
        return self.joined(function, args, kwargs)


@asked_first
class Selected(Chosen):
    """The cells of an array where a traced mask is true."""

    __slots__ = ()

    @classmethod
    def of(cls, values: Tracer, mask: Tracer) -> "Selected":
        """`values[mask]`."""
        return cls.made(mask.builder, values.dtype, Parts(values, mask))

    @property
    def parts(self) -> Parts:
        """The array and the mask."""
        return self._value  # type: ignore[no-any-return]

    @property
    def known(self) -> Any:
        """The cells themselves: the mask is taken as it is at the given arguments."""
        parts = self.parts
        if parts.known is None:
            parts.known = parts.values[pattern(parts.mask)]
        return parts.known

    def integers_held(self) -> Any:
        return (self.parts.known if self.parts.values is None else self.parts.values).integers_held()

    def settled(self) -> Any:
        """The cells as an array that views share and assignments change."""
        self._check_alone()
        known = self.known
        self.parts.values = None
        return known

    @property
    def atom(self) -> Any:
        """The cells as a symbol."""
        return self.known.atom

    def like(self, found: Any) -> Any:
        """A symbol, or the cells of a view, as an array that is no selection."""
        return self.known.like(found)

    @property
    def held(self) -> Any:
        """The cells that others may show, too; None as long as nobody does."""
        return self.known.held if self.parts.values is None else None

    def shared(self) -> Any:
        """The cells, from now on kept where views find them."""
        return self.settled().shared()

    @property
    def shape(self) -> Any:  # type: ignore[override]
        return self.known.shape

    @shape.setter
    def shape(self, value: Any) -> None:
        self.settled().shape = value

    @property
    def size(self) -> Any:
        """How many cells are selected."""
        parts = self.parts
        return (
            self.known.size
            if parts.values is None
            else count_mask(parts.mask).of_kind(PYTHON) * math.prod(parts.values.shape[parts.mask.ndim :])
        )

    @property
    def ndim(self) -> int:
        parts = self.parts
        return self.known.ndim if parts.values is None else parts.values.ndim - parts.mask.ndim + 1

    def count(self) -> Any:
        """`len` of the cells."""
        return count_mask(self.parts.mask).of_kind(PYTHON)

    def __len__(self) -> int:
        return len(self.known)

    def __bool__(self) -> bool:
        return bool(self.known)

    def __getitem__(self, key: Any) -> Any:
        parts = self.parts
        rows = isinstance(key, tuple) and isinstance(key[0], slice) and key[0] == slice(None) and parts.mask.ndim == 1
        if not rows or parts.values is None:
            return (self.known if parts.columns else self.settled())[key]
        found = Selected.of(parts.values[key], parts.mask)
        found.parts.columns = parts.columns = True
        return found

    def __setitem__(self, key: Any, value: Any) -> None:
        self.settled()[key] = value

    def shown(self) -> Any:
        """The cells themselves; where columns of them were taken, nobody changes them."""
        if not self.parts.columns:
            return self.settled()
        self.known.shared().storage.refusal = _SHARED
        return self.known

    def _check_alone(self) -> None:
        if self.parts.columns and self.parts.values is not None:
            raise TraceError(f"{user_line()}: {_SHARED}")

    def _in_place(self, op: str, other: Any) -> Any:
        self._check_alone()
        found = getattr(operator, op)(self, other)
        if isinstance(found, Selected) and found.parts.values is not None and self.parts.values is not None:
            self.parts.values, self.parts.known = found.parts.values.astype(self.dtype), None
        else:
            self.settled()[...] = found
        return self

    def _binary(self, op: str, left: Any, right: Any) -> Any:
        binary = functools.partial(super()._binary, op)
        found = self.elementwise(binary, (left, right), {})
        return binary(left, right) if found is None else found

    def _unary(self, op: str) -> Any:
        if self.parts.values is None:
            return self.known._unary(op)
        return Selected.of(self.parts.values._unary(op), self.parts.mask)

    def full(self, operands: Any) -> Any:
        """Operands of an elementwise function as arrays of all cells; None where the cells themselves are needed."""
        parts = self.parts
        if any(isinstance(o, Selected) and o.parts.values is None for o in (self, *operands)):
            return None
        rest = parts.values.ndim - parts.mask.ndim
        found = []
        for operand in operands:
            if isinstance(operand, Selected):
                if operand.parts.values.ndim != parts.values.ndim or not is_same_mask(operand.parts.mask, parts.mask):
                    return None
                found.append(operand.parts.values)
            elif np.ndim(operand) <= rest:
                found.append(operand)
            else:
                return None
        return found

    def elementwise(self, function: Function, operands: Arguments, kwargs: Keywords) -> Any:
        full = self.full(operands)
        found = None if full is None else function(*full, **kwargs)
        if found is None or found is NotImplemented:
            return found
        mask = self.parts.mask
        return tuple(Selected.of(f, mask) for f in found) if isinstance(found, tuple) else Selected.of(found, mask)

    def astype(self, dtype: Any, **options: Any) -> Any:
        """The cells with another dtype."""
        if self.parts.values is None:
            return self.known.astype(dtype, **options)
        return Selected.of(self.parts.values.astype(dtype, **options), self.parts.mask)

    def copy(self) -> Any:
        """The cells in memory of their own."""
        parts = self.parts
        return self.known.copy() if parts.values is None else Selected.of(parts.values, parts.mask)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.known.__array__(dtype, copy)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if kwargs.get("out") is not None:
            return super().__array_ufunc__(ufunc, method, *inputs, **kwargs)
        if method == "__call__" and not kwargs:
            product = _dot(*inputs) if ufunc is np.matmul else None
            if product is not None:
                return product
            found = self.elementwise(ufunc, inputs, {}) if ufunc.signature is None else None
            if found is not None:
                return found
        return self._as_known(getattr(ufunc, method), inputs, kwargs)

    def joined(self, function: Function, args: Arguments, kwargs: Keywords) -> Any:
        reduction = _REDUCTIONS.get(function.__name__)
        spread = args and isinstance(args[0], Selected) and args[0].parts.values is not None
        if reduction is not None and spread and kwargs.keys() <= {"axis", "ddof", "weights", "ord"}:
            found = reduction(*args, **kwargs)
            if found is not None:
                return found
        return self._as_known(function, args, kwargs)

    @staticmethod
    def _as_known(function: Any, args: Any, kwargs: Any = None) -> Any:
        """A function of the cells themselves, which it may change."""
        args, kwargs = structures.map_leaves(lambda v: v.shown() if isinstance(v, Selected) else v, (args, kwargs or {}))
        return function(*args, **kwargs)


def is_same_mask(a: Tracer, b: Tracer) -> bool:
    """Whether two masks are the same by their operations."""
    path = a.builder.path
    return a.builder is b.builder and (a.atom is b.atom or (path is not None and path.number(a.atom) == path.number(b.atom)))


def pattern(mask: Tracer) -> np.ndarray:
    """A mask as it is at the given arguments, which becomes a condition."""
    path = mask.builder.path
    if path is None:
        raise mask._refuse("which cells a mask selects", "write np.where(mask, x, 0)")
    if not path.is_given:
        raise path.unmergeable(f"{user_line()}: which cells a traced mask selects must be known here")
    found = np.array(path.value(mask.atom), dtype=bool)
    bool(np.all(np.equal(mask, found)))
    return found


def count_mask(mask: Tracer) -> Any:
    """How many cells of a mask are true."""
    found = Integer.of(np.sum(np.where(mask, 1.0, 0.0)))  # type: ignore[call-overload]
    if found.builder.path is not None:
        found.builder.path.reaches(found.atom, 0, mask.size)
    return found


# -- reductions: what stands for the cells that are not selected changes nothing


def _reduced(x: Selected, axis: Any, nothing: Any, function: Function) -> Any:
    """A reduction along the first axis or all; along others it is one of each row. None for other axes."""
    values, mask = x.parts.values, x.parts.mask
    rest = values.ndim - mask.ndim
    if axis is not None and (not isinstance(axis, (int, np.integer)) or not -1 - rest <= axis <= rest):
        return None
    if axis is not None and axis % (rest + 1):
        return Selected.of(function(values, axis=axis % (rest + 1) + mask.ndim - 1), mask)
    wide = mask.reshape((*mask.shape, *(1,) * rest))
    kept = np.logical_and(wide, values) if isinstance(nothing, bool) and not nothing else None
    if kept is None:
        kept = np.logical_or(np.logical_not(wide), values) if nothing is True else np.where(wide, values, nothing)
    return function(kept, axis=None if axis is None else tuple(range(mask.ndim)))


def _sum(x: Selected, axis: Any = None) -> Any:
    truths, mask = x.dtype.kind == "b", x.parts.mask
    found = _reduced(x, axis, not truths and 0.0, np.sum if truths else functools.partial(_added, mask))
    return Integer.of(found) if truths or isinstance(x.parts.values, Integer) else found


def _added(mask: Tracer, x: Any, axis: Any) -> Any:
    """The sum of cells that are zero where the mask is false."""
    if isinstance(axis, int):
        return np.sum(x, axis=axis)
    a = Arrays(x.builder, user_line())
    axes = tuple(range(x.ndim)) if axis is None else axis
    return Tracer(x.builder, a.bind("sum_of", x.atom, mask.atom, axes=axes, along=None if axis is None else 0))  # type: ignore[arg-type]


def truths_of(x: Any) -> Any:
    """Whether cells are not zero."""
    x = as_array(x)
    return x if x.dtype.kind == "b" else x != 0


def _extreme(nothing: float, function: Function, name: str) -> Function:
    def extreme(x: Selected, axis: Any = None) -> Any:
        if not np.any(x.parts.mask):
            raise ValueError(f"zero-size array to reduction operation {name} which has no identity")
        return _reduced(x, axis, nothing, function)

    return extreme


_max = _extreme(-math.inf, np.max, "maximum")
_min = _extreme(math.inf, np.min, "minimum")


def _cells(x: Selected, axis: Any) -> Any:
    return x.size if axis is None else x.count()


def _mean(x: Selected, axis: Any = None) -> Any:
    total = _sum(x, axis)
    return total if total is None or isinstance(total, Selected) else total / _cells(x, axis)


def _var(x: Selected, axis: Any = None, ddof: int = 0) -> Any:
    centre = _mean(x, axis)
    if centre is None or isinstance(centre, Selected):
        return None
    away = x - centre
    return _sum(abs(away) ** 2 if x.dtype.kind == "c" else away * away, axis) / np.maximum(_cells(x, axis) - ddof, 0)


def _std(x: Selected, axis: Any = None, ddof: int = 0) -> Any:
    found = _var(x, axis, ddof)
    return None if found is None else np.sqrt(found)


def _average(x: Selected, axis: Any = None, weights: Any = None) -> Any:
    if weights is None:
        return _mean(x, axis)
    if axis is not None or x.full((weights,)) is None:
        return None
    return np.sum(x * weights) / np.sum(weights)


def _norm(x: Selected, ord: Any = None) -> Any:
    values, mask = x.parts.values, x.parts.mask
    if ord not in (None, 1, 2) or (x.ndim > 1 and ord is not None):
        return None
    wide = mask.reshape((*mask.shape, *(1,) * (values.ndim - mask.ndim)))
    return np.linalg.norm(np.where(wide, values, 0.0).ravel(), ord)  # type: ignore[call-overload]


def _dot(a: Any, b: Any) -> Any:
    """`a @ b` of two vectors of cells; None where the cells themselves are needed."""
    both = isinstance(a, Selected) and isinstance(b, Selected) and a.ndim == b.ndim == 1
    return np.sum(a * b) if both and a.full((b,)) is not None else None


_REDUCTIONS: dict[str, Function] = {
    "prod": lambda x, axis=None: _reduced(x, axis, 1.0, np.prod),
    "any": lambda x, axis=None: _reduced(truths_of(x), axis, False, np.any),
    "all": lambda x, axis=None: _reduced(truths_of(x), axis, True, np.all),
    "sum": _sum, "mean": _mean, "var": _var, "std": _std, "average": _average,
    "max": _max, "amax": _max, "min": _min, "amin": _min, "norm": _norm, "dot": _dot, "inner": _dot,
    "vdot": lambda a, b: _dot(np.conj(a), b),
    "ptp": lambda x, axis=None: _max(x, axis) - _min(x, axis),
    "size": lambda x, axis=None: _cells(x, axis),
    "ndim": lambda x: x.ndim,
    "count_nonzero": lambda x, axis=None: _sum(truths_of(x), axis),
    "copy": lambda x: x.copy(),
}  # fmt: skip
