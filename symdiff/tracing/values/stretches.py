"""`x[a:b]` where a round of a loop tells the ends: as many cells as it says, of an axis whose length is known.

Assumes slices of `spans`. Guarantees NumPy's results of what is elementwise, of sums, products and extremes, of products of
matrices, and of assignments, in every round: cells beside those that are meant are computed too, and replaced before they are
joined. It is a view: a change of the array is seen, and one of the cells changes the array. What needs the number of cells ends
the attempt to keep the loop.
"""

import functools
import math
import operator
from dataclasses import dataclass
from typing import Any

import numpy as np

from symdiff.ir.arrays.algebra import Arrays
from symdiff.ir.arrays.indexing import normal_key
from symdiff.ir.building import active_builders
from symdiff.tracing.values.integers import Integer
from symdiff.tracing.values.operators import asked_first
from symdiff.tracing.values.selecting import Chosen, truths_of
from symdiff.tracing.values.spans import Span, difference, is_span, reach, span_of
from symdiff.tracing.values.tracer import Tracer, traced_atom, traced_builder
from symdiff.vocabulary.heads import Shape
from symdiff.vocabulary.libraries import user_line
from symdiff.vocabulary.signatures import Arguments, Function, Keywords

_FEW = 2  # how many times the cells that a slice may have an axis has at least, where no others are computed
Spans = tuple[Span | None, ...]


@dataclass(eq=False, slots=True)
class Cells:
    """Arrays of which some cells are meant: by themselves, or those at a key of an array."""

    values: Any
    spans: Spans
    target: Any
    key: Any
    shown: bool = False  # whether they are those of an array that cannot be changed here


@asked_first
class Stretch(Chosen):
    """Some cells of an array, along axes that have `spans`."""

    __slots__ = ()

    @classmethod
    def of(cls, values: Any, spans: Spans, target: Any = None, key: Any = None) -> Any:
        """Cells of an array; of `target[key]`, if that is given. An array where all its cells are meant."""
        if not any(spans):
            return values
        builder = traced_builder([values, *(end for s in spans if s for end in (s.start, s.length))])
        return cls.made(builder, values.dtype, Cells(values if target is None else None, spans, target, key))

    @property
    def spans(self) -> Spans:
        """Which cells of each axis are meant."""
        return self._value.spans  # type: ignore[no-any-return]

    @property
    def values(self) -> Any:
        """The array, with other cells than those meant, as it is now."""
        cells = self._value
        if cells.shown and cells.target is not None:
            return cells.target.values[cells.key]
        return cells.values if cells.target is None else cells.target[cells.key]

    def is_of(self, target: Any, other: "Stretch") -> bool:
        """Whether these are the same cells of an array as others, so that assigning them changes nothing."""
        mine, theirs = self._value, other._value
        if mine.shown or mine.target is not target or len(mine.key) != len(theirs.key):
            return False
        same = all(a is b or (isinstance(a, (int, slice)) and a == b) for a, b in zip(mine.key, theirs.key, strict=True))
        return same and all(
            a is b or (a is not None and b is not None and a.size == b.size and difference(a.start, b.start) == 0
                       and difference(a.length, b.length) == 0)
            for a, b in zip(self.spans, other.spans, strict=True)
        )  # fmt: skip

    def _unknown(self, *_: Any, **__: Any) -> Any:
        path = (active_builders() or [self.builder])[-1].path or self.builder.path
        assert path is not None
        raise path.unmergeable(f"{user_line()}: a round needs to know how many cells there are in a slice")

    atom = shape = held = property(_unknown)  # type: ignore[assignment]
    __array__ = __iter__ = __bool__ = __len__ = shared = reshape = _unknown  # type: ignore[assignment]

    @property
    def ndim(self) -> int:
        return len(self.spans)

    @property
    def size(self) -> Any:
        """How many cells are meant."""
        return functools.reduce(operator.mul, map(self.count, range(self.ndim)), 1)

    @property
    def T(self) -> Any:
        return np.transpose(self)  # type: ignore[call-overload]

    def integers_held(self) -> Any:
        of = self._value.values if self._value.target is None else self._value.target
        return of.integers_held() if isinstance(of, Tracer) else None

    def count(self, axis: int = 0) -> Any:
        """How many cells an axis has; `len`."""
        span = self.spans[axis]
        return np.shape(self.values)[axis] if span is None else span.length

    # -- cells of these

    def __getitem__(self, key: Any) -> Any:
        values, spans, drops = self.values, list(self.spans), []
        parts = normal_key(key, self.ndim, user_line())
        plain = []
        found: list[Span | None] = []
        whole = True
        for part in parts:
            if part is None:
                plain.append(None)
                found.append(None)
                whole = False
                continue
            span = spans.pop(0)
            axis = len([p for p in plain if p is not None])
            if span is None:
                plain.append(part)
                whole = whole and part == slice(None)
                found += [None] if isinstance(part, slice) else []
            elif isinstance(part, slice) and part.step in (None, 1):
                plain.append(slice(None))
                found.append(span if part == slice(None) else span.within(part))
            elif isinstance(part, slice) and part == slice(None, None, -1):
                plain.append(part)
                found.append(span.turned())
                whole = False
            elif isinstance(part, (int, np.integer, Integer)) and not np.ndim(part):
                drops.append((axis, part, span))
                plain.append(slice(None))
                found.append(None)
                whole = False
            else:
                self._unknown()
        if drops:
            return self._at(drops)[
                tuple(p for p, s in zip(parts, self.spans, strict=True) if s is None or isinstance(p, slice))
            ]
        cells = self._value
        if whole and cells.target is not None and not cells.shown:
            return Stretch.of(values, tuple(found), cells.target, cells.key)
        made = _shown(Stretch.of(values[tuple(plain)], tuple(found)))
        if isinstance(made, Stretch) and all(p in (slice(None), slice(None, None, -1)) for p in parts if isinstance(p, slice)):
            made._value.target = None if None in parts else self
            made._value.key = tuple(parts)
        return made

    def _at(self, drops: list[Any]) -> Any:
        """The lines at single places of axes."""
        values, spans = self.values, list(self.spans)
        for axis, part, span in reversed(drops):
            place = self._place_of(part, span)
            values = values[(slice(None),) * axis + (place,)]
            del spans[axis]
        return Stretch.of(values, tuple(spans))

    def _place_of(self, part: Any, span: Span) -> Any:
        """The place of a cell in the axis of the array."""
        low, high = reach(part)
        most = reach(span.length)[0]
        inside = -most <= low and high < most
        if not inside and not np.logical_and(np.less(part, span.length), np.greater_equal(part + span.length, 0)):
            raise IndexError(f"{user_line()}: an index is out of bounds")
        if low < 0:
            part = Integer.of(np.where(np.less(part, 0), part + span.length, part)) if high >= 0 else part + span.length
        return span.start + part

    def __setitem__(self, key: Any, value: Any) -> None:
        parts = normal_key(key, self.ndim, user_line())
        if any(p is None for p in parts) or not all(isinstance(p, (int, np.integer, slice, Integer)) for p in parts):
            self._unknown()
        cells = self._value
        if cells.shown:
            self._unknown()
        inner, spans, drops = [], [], []
        for axis, (part, span) in enumerate(zip(parts, self.spans, strict=True)):
            if span is None:
                inner.append(part)
                spans += [None] if isinstance(part, slice) else []
            elif isinstance(part, slice) and part.step in (None, 1):
                inner.append(slice(None))
                spans.append(span if part == slice(None) else span.within(part))
            elif isinstance(part, slice):
                self._unknown()
            else:
                place = self._place_of(part, span)
                inner.append(place)
                drops.append(axis)
        key = tuple(inner)
        if all(isinstance(p, slice) and p == slice(None) for p in key):
            self.assign(value, tuple(spans))
            return
        target = self.values
        if cells.target is None:
            target = target.copy()
        if any(spans):
            Stretch.of(target, tuple(spans), target, key).assign(value, tuple(spans))
        else:
            target[key] = value
        if cells.target is None:
            cells.values = target
        else:
            cells.target[cells.key] = target

    def assign(self, value: Any, spans: Spans | None = None) -> None:
        """The cells get a value, which broadcasts to them."""
        cells, base, spans = self._value, self.values, self.spans if spans is None else spans
        if cells.shown and cells.target is not None and spans is self.spans:  # the same cells, some axes turned
            key = cells.key
            cells.target.assign(value[key[len(key) - np.ndim(value) :]] if np.ndim(value) else value)
            return
        if cells.shown or np.ndim(value) > len(spans):
            self._unknown()
        new = _moved_to(value, spans, self)
        found = np.where(_mask(spans), new, base)
        if cells.target is None:
            cells.values = found.astype(self.dtype) if found.dtype != self.dtype else found
        else:
            cells.target[cells.key] = found

    def _in_place(self, op: str, other: Any) -> Any:
        self.assign(getattr(operator, op)(self, other))
        return self

    # -- what is computed of them

    def _binary(self, op: str, left: Any, right: Any) -> Any:
        (a, b), spans = _together((left, right), self)
        if not isinstance(a, Tracer) and not isinstance(b, Tracer):
            self._unknown()
        first = a if isinstance(a, Tracer) else b
        found = first._binary(op, a, b)
        return found if found is NotImplemented else Stretch.of(found, spans)

    def _unary(self, op: str) -> Any:
        values = self.values
        return Stretch.of(values._unary(op), self.spans) if isinstance(values, Tracer) else self._unknown()

    def astype(self, dtype: Any, **options: Any) -> Any:
        """The cells with another dtype."""
        return Stretch.of(self.values.astype(dtype, **options), self.spans)

    def copy(self, order: str = "C") -> Any:
        """The cells in memory of their own."""
        return Stretch.of(as_it_is(self.values), self.spans)

    def filled(self, nothing: Any, axes: Shape) -> Any:
        """The array with a number in place of cells that are not meant along axes."""
        mask = _mask(tuple(s if k in axes else None for k, s in enumerate(self.spans)))
        return self.values if mask is None else np.where(mask, self.values, nothing)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method == "reduce" and kwargs.get("out") is None:
            name = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min"}.get(ufunc.__name__, "")
            return _REDUCTIONS.get(name, self._unknown)(*inputs, **{"axis": 0, **kwargs})
        out = kwargs.pop("out", None)
        if method != "__call__" or kwargs or (out is not None and len(out) != 1):
            self._unknown()
        if ufunc is np.matmul:
            found = _matmul(*inputs)
        elif ufunc.signature is not None:
            self._unknown()
        else:
            found = self.elementwise(ufunc, inputs, {})
        if out is None:
            return found
        out[0][...] = found
        return out[0]

    def elementwise(self, function: Function, operands: Arguments, kwargs: Keywords) -> Any:
        arrays, spans = _together(operands, self)
        found = function(*arrays, **kwargs)
        return tuple(Stretch.of(f, spans) for f in found) if isinstance(found, tuple) else Stretch.of(found, spans)

    def joined(self, function: Function, args: Arguments, kwargs: Keywords) -> Any:
        found = _REDUCTIONS.get(function.__name__)
        if found is None or kwargs.keys() - {"axis", "keepdims", "ddof", "axes"}:
            self._unknown()
        return found(*args, **kwargs)  # type: ignore[misc]


def _shown(found: Any) -> Any:
    """Cells of another array, which a change of them would have to change."""
    if isinstance(found, Stretch):
        found._value.shown = True
    return found


def as_it_is(value: Any) -> Any:
    """A value that sees no later change of an array that it shows."""
    return value.like(value.atom) if isinstance(value, Tracer) else value


def _mask(spans: Spans) -> Any:
    """Which cells are meant; None where all are."""
    found = None
    for axis, span in enumerate(spans):
        here = None if span is None else span.holds()
        if here is not None:
            here = here.reshape((-1,) + (1,) * (len(spans) - axis - 1))
            found = here if found is None else np.logical_and(found, here)
    return found


def _together(operands: Any, asking: Stretch) -> tuple[list[Any], Spans]:
    """Operands of an elementwise function as arrays, and which cells of the result are meant."""
    operands = [np.asarray(o) if isinstance(o, list) else o for o in operands]
    rank = max(o.ndim if isinstance(o, Stretch) else np.ndim(o) for o in operands)
    spans = [None] * rank
    for o in operands:
        for axis in range(-o.ndim, 0) if isinstance(o, Stretch) else ():
            spans[axis] = spans[axis] or o.spans[axis]
    return [_moved_to(o, tuple(spans), asking) for o in operands], tuple(spans)


def _moved_to(value: Any, spans: Spans, asking: Stretch) -> Any:
    """An array whose cells that are meant lie where `spans` are; what broadcasts to them as it is."""
    if not isinstance(value, Stretch):
        shape = np.shape(value)
        if any(n != 1 and spans[axis] is not None for axis, n in zip(range(-len(shape), 0), shape, strict=True)):
            asking._unknown()
        return value
    values = value.values
    for axis in range(-value.ndim, 0):
        have, want = value.spans[axis], spans[axis]
        if have is None or want is None:
            if want is not have and not (have is None and np.shape(values)[axis] == 1):
                asking._unknown()
            continue
        if difference(have.length, want.length) != 0:
            asking._unknown()
        shift = have.start - want.start
        known = difference(have.start, want.start)
        if known == 0 and have.size == want.size:
            continue
        places = np.arange(want.size)
        if known is not None:
            values = np.take(values, np.clip(places + known, 0, have.size - 1), axis)
        else:
            values = _picked(values, shift + places, axis + value.ndim)
    return values


def _picked(values: Any, places: Any, axis: int) -> Any:
    """The lines of an axis at traced places; the first or last one in place of those out of bounds."""
    builder = traced_builder([values, places])
    arrays = Arrays(builder, user_line())
    lines = np.moveaxis(values, axis, 0) if axis else values
    atom = arrays.bind("gather", traced_atom(lines, builder, user_line()), traced_atom(places, builder, user_line()))
    found = Tracer(builder, atom)  # type: ignore[arg-type]
    found = Integer.of(found) if isinstance(values, Integer) else found
    return np.moveaxis(found, 0, axis) if axis else found


# -- joined cells


def _axes(x: Stretch, axis: Any) -> Shape:
    axes = range(x.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    return tuple(a % x.ndim for a in axes)


def _joining(function: Function, nothing: Any, empty: bool = True) -> Function:
    """A function that joins cells along axes, for which `nothing` changes nothing; `empty`: also of no cells."""

    def joined(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        axes = _axes(x, axis)
        if not empty and any(reach(x.count(a))[0] < 1 and bool(np.less(x.count(a), 1)) for a in axes):
            raise ValueError(f"zero-size array to reduction operation {function.__name__} which has no identity")
        found = function(x.filled(nothing, axes), axis=axes, keepdims=keepdims)
        spans = [None if k in axes else s for k, s in enumerate(x.spans) if keepdims or k not in axes]
        return Stretch.of(found, tuple(spans))

    return joined


_sum = _joining(np.sum, 0.0)
_max, _min = _joining(np.max, -math.inf, False), _joining(np.min, math.inf, False)


def _mean(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    cells = functools.reduce(operator.mul, map(x.count, _axes(x, axis)), 1)
    return _sum(x, axis, keepdims) / cells


def _var(x: Any, axis: Any = None, ddof: int = 0) -> Any:
    away, cells = x - _mean(x, axis, True), functools.reduce(operator.mul, map(x.count, _axes(x, axis)), 1)
    return _sum(abs(away) ** 2 if x.dtype.kind == "c" else away * away, axis) / np.maximum(cells - ddof, 0)


def _std(x: Any, axis: Any = None, ddof: int = 0) -> Any:
    """By a norm, which has a derivative where all cells are the same."""
    if x.ndim > 1:
        x._unknown()
    return _norm(x - _mean(x, axis)) / np.sqrt(np.maximum(x.count() - ddof, 0))


def _norm(x: Any, axis: Any = None) -> Any:
    return np.linalg.norm(x.filled(0.0, tuple(range(x.ndim))), axis=axis) if x.ndim == 1 else x._unknown()


def _matmul(a: Any, b: Any) -> Any:
    """`a @ b`: along the axes that are joined, both have the same number of cells."""
    first = a if isinstance(a, Stretch) else b
    spans = [list(v.spans) if isinstance(v, Stretch) else [None] * np.ndim(v) for v in (a, b)]
    if not spans[0] or not spans[1] or max(map(len, spans)) > 2:
        first._unknown()
    inner = -2 if len(spans[1]) > 1 else -1
    one, other = spans[0][-1], spans[1][inner]
    if (one is None) != (other is None):
        first._unknown()
    if one is not None:
        spans[1][inner] = one
        a, b = a.filled(0.0, (a.ndim - 1,)), Stretch.of(_moved_to(b, tuple(spans[1]), first), tuple(spans[1]))
        b = b.filled(0.0, (b.ndim + inner,))
    a, b = (v.values if isinstance(v, Stretch) else v for v in (a, b))
    rest = [*spans[0][:-1], *(s for k, s in enumerate(spans[1]) if k != len(spans[1]) + inner)]
    found = np.matmul(a, b)
    return Stretch.of(found, tuple(rest)) if rest else found


def _inner(a: Any, b: Any) -> Any:
    return _matmul(a, b) if np.ndim(a) == np.ndim(b) == 1 else (a if isinstance(a, Stretch) else b)._unknown()


def _outer(a: Any, b: Any) -> Any:
    a, b = (v if isinstance(v, Stretch) else np.ravel(v) for v in (a, b))
    return a[:, None] * b[None, :]


def _flip(x: Any, axis: Any = None) -> Any:
    axes = _axes(x, axis)
    return x[tuple(slice(None, None, -1) if k in axes else slice(None) for k in range(x.ndim))]


def _transpose(x: Any, axes: Any = None) -> Any:
    order = tuple(range(x.ndim))[::-1] if axes is None else tuple(a % x.ndim for a in axes)
    return _shown(Stretch.of(np.transpose(x.values, order), tuple(x.spans[k] for k in order)))


def _cumulated(function: Function, nothing: float) -> Function:
    def cumulated(x: Any, axis: Any = None) -> Any:
        axis = 0 if axis is None and x.ndim == 1 else x._unknown() if axis is None else axis % x.ndim
        return Stretch.of(function(x.filled(nothing, (axis,)), axis=axis), x.spans)

    return cumulated


def _placing(function: Function, nothing: float) -> Function:
    """A function that gives the place of an extreme among the cells; where all are `nothing`, it is the first one."""

    def placing(x: Any, axis: Any = None) -> Any:
        if x.ndim != 1 or bool(np.less(x.count(), 1)):
            x._unknown()
        start = x.spans[0].start
        return np.maximum(function(x.filled(nothing, (0,))), start) - start

    return placing


def _diff(x: Any, axis: int = -1) -> Any:
    if x.ndim != 1:
        x._unknown()
    return x[1:] - x[:-1]


_REDUCTIONS: dict[str, Function] = {
    "sum": _sum, "prod": _joining(np.prod, 1.0), "max": _max, "amax": _max, "min": _min, "amin": _min, "mean": _mean,
    "var": _var, "std": _std, "norm": _norm,
    "any": lambda x, axis=None: _joining(np.any, False)(truths_of(x), axis),
    "all": lambda x, axis=None: _joining(np.all, True)(truths_of(x), axis),
    "count_nonzero": lambda x, axis=None: Integer.of(_sum(np.where(truths_of(x), 1.0, 0.0), axis)),
    "dot": lambda a, b: _matmul(a, b) if np.ndim(a) and np.ndim(b) else a * b,
    "inner": _inner, "vdot": lambda a, b: _inner(np.conj(a), b), "outer": _outer, "flip": _flip,
    "transpose": _transpose, "cumsum": _cumulated(np.cumsum, 0.0), "cumprod": _cumulated(np.cumprod, 1.0), "diff": _diff,
    "size": lambda x, axis=None: x.size if axis is None else x.count(axis), "ndim": lambda x: x.ndim,
    "argmax": _placing(np.argmax, -math.inf), "argmin": _placing(np.argmin, math.inf),
    "copy": lambda x: x.copy(), "ravel": lambda x: x if x.ndim == 1 else x._unknown(),
}  # fmt: skip


def _narrowed(span: Span) -> tuple[slice, Span]:
    """A slice of as many cells as a span may have at most, in which it is, where these are few; all cells of the axis, else."""
    most = reach(span.length)[1]
    if not most * _FEW <= span.size:
        return slice(None), span
    start = np.minimum(span.start, span.size - int(most))
    return slice(start, start + int(most)), Span(span.start - start, span.length, int(most))


def indexed(x: Any, places: Stretch) -> Any:
    """`x[places]` of places that are cells of an array of integers, all of which are places."""
    values, n = places.values, np.shape(x)[0]
    low, high = reach(values) if isinstance(values, Tracer) else (np.min(values), np.max(values))
    if places.ndim != 1 or not 0 <= low <= high < n:
        places._unknown()
    return Stretch.of(_picked(x, values, 0), (*places.spans, *(None,) * (np.ndim(x) - 1)))


def stretched_key(parts: list[Any], sizes: Shape) -> tuple[tuple[Any, ...], Spans] | None:
    """An index with the same number of cells in each round, and which of these are meant; None where all are."""
    key = []
    spans: list[Span | None] = []
    shape = iter(sizes)
    for part in parts:
        if part is None:
            key.append(None)
            spans.append(None)
            continue
        n = next(shape)
        span = span_of(part, n, n) if is_span(part) else None
        if span is not None and isinstance(span.length, Tracer):
            region, span = _narrowed(span)
            key.append(region)
            spans.append(span)
            continue
        key.append(part)
        spans += [None] if isinstance(part, slice) else []
    return (tuple(key), tuple(spans)) if any(spans) else None
