"""The closed vocabulary of structural operations: what is done to whole arrays rather than to each cell.

One row a head: how NumPy computes it, the shape of its result, its cost, and how it is written in generated code. Assumes
static parameters in one canonical form (axes not negative, slices normalised). Guarantees that every structural binding of
a Graph names a row of `HEADS`. NumPy's own errors pass.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from symdiff.vocabulary.extents import broadcast_extents, reshaped_extents, sliced_extent
from symdiff.vocabulary.matrices import (
    cofactors,
    cofactors_along,
    expm,
    inverse_transposed,
    is_definite,
    packed,
    permuted,
    triangular_inverse,
    triangular_solution,
    with_eigenvalues,
    with_singular_values,
)

Shape = tuple[int, ...]
Slice = tuple[int, int | None, int]


@dataclass(frozen=True, slots=True)
class Head:
    """One structural operation.

    `function(*arrays, **params)` computes it with NumPy and `shape(*shapes, **params)` tells the result's shape. `text`
    is a format string over the operands {0}, {1}, the parameters, and a library's `Words`; where it begins with an underscore,
    files have the source of `function`. `result` is "same" (the operands'
    common dtype), "real" or "complex" (its counterparts), "index" (integers) or "count" (whole numbers as doubles). `out`: the
    code takes `out=`. `view`: the result is a view of the operand. `cells`: `function` works on arrays of traced cells, so that
    the head can be unrolled, which takes `unrolled` operations where these are not its `cost`. `defined`: for what raises
    `LinAlgError` for some first operands, what is not 0 of others, or "isfinite". `traits`: words of `TRAITS`.
    """

    name: str
    function: Callable[..., Any]
    shape: Callable[..., Shape]
    text: str = ""
    result: str = "same"
    out: bool = False
    view: bool = False
    cells: bool = True
    cost: Callable[..., int] = lambda *shapes, **params: 0
    unrolled: Callable[..., int] | None = None
    defined: str = ""
    traits: str = ""


class Words(NamedTuple):
    """What a library of arrays is called in generated code, and how its `take` is told to keep within bounds."""

    np: str
    clip: str


NUMPY, CUPY = Words("np", ", mode='clip'"), Words("cp", "")


class Static:
    """The static part of a structural binding: its head and its parameters."""

    __slots__ = ("head", "params")

    def __init__(self, head: str, params: dict[str, Any]) -> None:
        self.head = head
        self.params = params

    def function(self, *arrays: Any) -> Any:
        """The operation, by NumPy."""
        return HEADS[self.head].function(*arrays, **self.params)

    def items(self) -> list[tuple[str, Any]]:
        """The parameters as they are shown."""
        return [(key, head_parameter(key, value)) for key, value in self.params.items()]

    def __reduce__(self) -> tuple[Any, ...]:
        return Static, (self.head, self.params)


def head_parameter(name: str, value: Any) -> str:
    """A parameter as text."""
    if name == "key":
        return f"[{key_literal(value)}]"
    if isinstance(value, np.ndarray):
        return f"int{list(value.shape)}"
    return repr(value)


def key_literal(key: tuple[Slice, ...], shape: Shape | None = None) -> str:
    """A normalised index as NumPy text: 1:, :-1, ::2. With the shape of the array, full ends are left out."""
    parts = []
    for place, (start, stop, step) in enumerate(key):
        n = None if shape is None else shape[place]
        first = "" if (start == 0 and step > 0) or (step < 0 and n is not None and start == n - 1) else str(start)
        last = "" if stop is None or (n is not None and stop == n and step > 0) else str(stop)
        if n is not None and stop is not None and step == 1 and stop - start > 1 and 0 < n - stop < min(stop, 10):
            last = str(stop - n)
        parts.append(f"{first}:{last}" + ("" if step == 1 else f":{step}"))
    while parts and parts[-1] == ":":
        parts.pop()
    return ", ".join(parts) or "..."


def head_slices(key: tuple[Slice, ...]) -> tuple[slice, ...]:
    """The NumPy index of a normalised one."""
    return tuple(slice(*part) for part in key)


def _without(shape: Shape, axes: tuple[int, ...]) -> Shape:
    return tuple(n for axis, n in enumerate(shape) if axis not in axes)


def _sliced(shape: Shape, key: tuple[Slice, ...]) -> Shape:
    return tuple(sliced_extent(n, part) for n, part in zip(shape, key, strict=True))


def _zeros(shape: Shape, like: Any) -> Any:
    like = np.asarray(like)
    if like.dtype != object:
        return np.zeros(shape, like.dtype)
    made = np.empty(shape, dtype=object)
    made.fill(0.0)
    return made


def head_put(x: Any, key: tuple[Slice, ...], shape: Shape) -> Any:
    """Zeros of `shape` with x in the region `key`."""
    made = _zeros(shape, x)
    made[head_slices(key)] = x
    return made


def head_set(x: Any, y: Any, key: tuple[Slice, ...]) -> Any:
    """x with y in the region `key`."""
    made = np.array(x)
    made[head_slices(key)] = y
    return made


def head_set_at(x: Any, y: Any, indices: np.ndarray) -> Any:
    """x with y in the cells of flat index `indices`."""
    made = np.array(x)
    made.reshape(-1)[indices] = y
    return made


def head_scatter(x: Any, indices: np.ndarray, size: int) -> Any:
    """Zeros with `size` rows, to which the rows of x are added where `indices` say."""
    rows = np.reshape(x, (indices.size, *np.shape(x)[indices.ndim :]))
    made = _zeros((size, *rows.shape[1:]), x)
    np.add.at(made, indices.ravel(), rows)
    return made


def head_gather(x: Any, i: Any) -> Any:
    """The rows of x at whole numbers; one out of bounds, as where a branch is not taken, stands for the first or last row."""
    return np.take(x, np.asarray(i).astype(np.intp), axis=0, mode="clip")


def head_scatter_at(x: Any, i: Any, size: int) -> Any:
    """Zeros with `size` rows, to which the rows of x are added at whole numbers."""
    return head_scatter(x, np.clip(np.asarray(i).astype(np.intp), 0, size - 1), size)


def head_assign_at(x: Any, i: Any, y: Any) -> Any:
    """x with y in the rows at whole numbers, the nearest ones there are."""
    made = np.array(x)
    made[np.clip(np.asarray(i).astype(np.intp), 0, len(made) - 1)] = y
    return made


def head_embed(x: Any) -> Any:
    """Matrices of zeros with the last axis of x on their diagonals."""
    n = np.shape(x)[-1]
    made = _zeros((*np.shape(x), n), x)
    made[..., range(n), range(n)] = x
    return made


def head_logsumexp(x: Any, axes: Any = None, keepdims: bool = False) -> Any:
    """log(sum(exp(x))) of plain numbers, the largest taken out."""
    x = np.asarray(x)
    with np.errstate(all="ignore"):
        top = np.max(x, axis=axes, keepdims=True)
        shift = np.where(np.isfinite(top), top, 0.0)
        total = np.log(np.sum(np.exp(x - shift), axis=axes, keepdims=True)) + shift
    return total if keepdims else np.squeeze(total, axis=axes)[()]


def head_softmax(x: Any, axes: Any) -> Any:
    """exp(x)/sum(exp(x)) of plain numbers, the largest taken out; NaN where that is infinite."""
    terms = np.exp(_away(x, axes))
    total = np.sum(terms, axis=axes, keepdims=True)
    return terms / np.where(np.isfinite(np.max(x, axis=axes, keepdims=True)), total, np.nan)


def head_log_softmax(x: Any, axes: Any) -> Any:
    """log(exp(x)/sum(exp(x))) of plain numbers, the largest taken out."""
    away = _away(x, axes)
    return away - np.log(np.sum(np.exp(away), axis=axes, keepdims=True))


def _away(x: Any, axes: Any) -> Any:
    top = np.max(x, axis=axes, keepdims=True)
    return x - np.where(np.isfinite(top), top, 0.0)


def half_weights(n: int) -> np.ndarray:
    """How often each number of a half spectrum occurs in a whole one of n."""
    weights = np.full(n // 2 + 1, 2.0)
    weights[0] = 1.0
    if n % 2 == 0:
        weights[-1] = 1.0
    return weights


def _matmul_shape(a: Shape, b: Shape) -> Shape:
    if a[-1] != b[-2]:
        raise ValueError(f"shapes {a} and {b} do not fit: {a[-1]} (axis {len(a) - 1}) is not {b[-2]} (axis {len(b) - 2})")
    return (*broadcast_extents(a[:-2], b[:-2]), a[-2], b[-1])


def _size(*shapes: Shape, **_: Any) -> int:
    return math.prod(shapes[0])


def _cubic(*shapes: Shape, **_: Any) -> int:
    return math.prod(shapes[0]) * shapes[0][-1]


def _fast(shape: Shape, axis: int, **_: Any) -> int:
    """The operations of a Fourier transform: 5 n log2(n) for each line."""
    return round(5 * math.prod(shape) * math.log2(max(shape[axis], 2)))


def _with(shape: Shape, axis: int, n: int) -> Shape:
    return (*shape[:axis], n, *shape[axis + 1 :])


def _left(s: Shape) -> Shape:
    return (*s[:-1], min(s[-2:]))


def _right(s: Shape) -> Shape:
    return (*s[:-2], min(s[-2:]), s[-1])


def _with_values(s: Shape, g: Shape) -> Shape:
    return (*broadcast_extents(s[:-2], g[:-1]), *s[-2:])


def _first(*shapes: Shape, **_: Any) -> Shape:
    return shapes[0]


_ROWS = [
    Head("sum", lambda x, axes: np.sum(x, axis=axes), lambda s, axes: _without(s, axes), "{np}.sum({0}, axis={axes})",
         out=True, cost=_size, traits="linear of_axes masked keeps_zero analytic integral"),
    Head("sum_of", lambda x, m, axes, along: np.sum(x[np.asarray(m, bool)], axis=along),
         lambda s, m, axes, along: _without(s, axes), "{np}.sum({0}[{1}], axis={along})", cost=_size,
         traits="reduces of_axes cellwise analytic"),
    Head("amax", lambda x, axes: np.max(x, axis=axes), lambda s, axes: _without(s, axes), "{np}.max({0}, axis={axes})",
         out=True, cost=_size, traits="reduces of_axes cellwise integral"),
    Head("amin", lambda x, axes: np.min(x, axis=axes), lambda s, axes: _without(s, axes), "{np}.min({0}, axis={axes})",
         out=True, cost=_size, traits="reduces of_axes cellwise integral"),
    Head("kth", lambda x, k, axes: np.take(np.partition(x, k, axis=axes[0]), k, axis=axes[0]),
         lambda s, k, axes: _without(s, axes), "{np}.partition({0}, {k}, axis={axes}).take({k}, axis={axes})", cells=False,
         cost=_size, traits="reduces of_axes cellwise integral"),
    Head("any", lambda x, axes: np.any(x, axis=axes), lambda s, axes: _without(s, axes), "{np}.any({0}, axis={axes})",
         out=True, cost=_size, traits="of_axes moves_truths asks"),
    Head("all", lambda x, axes: np.all(x, axis=axes), lambda s, axes: _without(s, axes), "{np}.all({0}, axis={axes})",
         out=True, cost=_size, traits="of_axes moves_truths asks"),
    Head("logsumexp", head_logsumexp, lambda s, axes: _without(s, axes), cost=_size, traits="reduces of_axes"),
    Head("softmax", head_softmax, _first, cost=_size, traits="of_axes"),
    Head("log_softmax", head_log_softmax, _first, cost=_size, traits="of_axes"),
    Head("prod", lambda x, axes: np.prod(x, axis=axes), lambda s, axes: _without(s, axes), "{np}.prod({0}, axis={axes})",
         out=True, cost=_size, traits="of_axes analytic integral"),
    Head("cumsum", lambda x, axis: np.cumsum(x, axis=axis), _first, "{np}.cumsum({0}, axis={axis})", out=True, cost=_size,
         traits="linear of_axis analytic integral"),
    Head("cumprod", lambda x, axis: np.cumprod(x, axis=axis), _first, "{np}.cumprod({0}, axis={axis})", out=True, cost=_size,
         traits="of_axis integral"),
    Head("reshape", lambda x, shape: np.reshape(x, shape), reshaped_extents, "{0}.reshape({shape})", view=True,
         traits="linear moves_constants rearranges masked keeps_zero thin analytic asks integral"),
    Head("transpose", lambda x, axes: np.transpose(x, axes), lambda s, axes: tuple(s[a] for a in axes),
         "{0}.transpose({axes})", view=True,
         traits="linear moves_constants rearranges masked keeps_zero thin analytic integral"),
    Head("broadcast_to", lambda x, shape: np.broadcast_to(x, shape), lambda s, shape: broadcast_extents(s, shape),
         "{np}.broadcast_to({0}, {shape})", view=True, traits="linear moves_constants keeps_zero thin analytic asks integral"),
    Head("getitem", lambda x, key: np.asarray(x)[head_slices(key)], _sliced, "{0}[{key}]", view=True,
         traits="linear moves_constants picks masked keeps_zero thin analytic asks integral"),
    Head("put", head_put, lambda s, key, shape: shape, traits="linear moves_constants written_out keeps_zero fills integral"),
    Head("set", head_set, lambda s, v, key: s, traits="written_out cellwise moves_truths keeps_zero fills overwrites integral"),
    Head("set_at", head_set_at, lambda s, v, indices: s, traits="written_out cellwise moves_truths fills overwrites integral"),
    Head("take", lambda x, indices: np.take(x, indices, axis=0), lambda s, indices: (*indices.shape, *s[1:]),
         "{np}.take({0}, {indices}, axis=0{clip})", out=True,
         traits="linear moves_constants written_out picks keeps_zero analytic integral"),
    Head("scatter", head_scatter, lambda s, indices, size: (size, *s[indices.ndim:]), cost=_size,
         traits="linear moves_truths fills integral"),
    Head("concatenate", lambda *xs, axis: np.concatenate(xs, axis=axis),
         lambda *ss, axis: tuple(sum(s[axis] for s in ss) if i == axis else n for i, n in enumerate(ss[0])),
         "{np}.concatenate(({operands}), axis={axis})", out=True,
         traits="of_axis linear written_out masked cellwise moves_truths keeps_zero analytic integral"),
    Head("cells", lambda *xs, shape: np.array(xs).reshape(shape), lambda *ss, shape: shape,
         traits="written_out fills analytic integral"),
    Head("diagonal", lambda x: np.diagonal(x, axis1=-2, axis2=-1), lambda s: (*s[:-2], min(s[-2:])),
         "{np}.diagonal({0}, axis1=-2, axis2=-1)", view=True,
         traits="linear of_last_axes moves_constants picks masked analytic integral"),
    Head("embed", head_embed, lambda s: (*s, s[-1]),
         traits="linear of_last_axes moves_constants written_out fills analytic integral"),
    Head("matmul", np.matmul, _matmul_shape, "{np}.matmul({0}, {1})", out=True,
         cost=lambda a, b: 2 * math.prod(_matmul_shape(a, b)) * a[-1], traits="bilinear analytic integral"),
    Head("convolve", np.convolve, lambda a, b: (a[0] + b[0] - 1,), "{np}.convolve({0}, {1})",
         cost=lambda a, b: 2 * a[0] * b[0], traits="bilinear integral"),
    Head("convolve_inside", lambda x, y: np.convolve(x, y, "valid"), lambda a, b: (a[0] - b[0] + 1,),
         "{np}.convolve({0}, {1}, 'valid')", cost=lambda a, b: 2 * (a[0] - b[0] + 1) * b[0], traits="bilinear integral"),
    Head("fft", lambda x, axis: np.fft.fft(x, axis=axis), _first, "{np}.fft.fft({0}, axis={axis})", result="complex",
         cost=_fast, traits="of_axis"),
    Head("bfft", lambda x, axis: np.fft.ifft(x, axis=axis, norm="forward"), _first,
         "{np}.fft.ifft({0}, axis={axis}, norm='forward')", result="complex", cost=_fast, traits="of_axis"),
    Head("rfft", lambda x, axis: np.fft.rfft(x, axis=axis), lambda s, axis: _with(s, axis, s[axis] // 2 + 1),
         "{np}.fft.rfft({0}, axis={axis})", result="complex", cost=_fast, traits="of_axis"),
    Head("brfft", lambda x, n, axis: np.fft.irfft(x, n, axis=axis, norm="forward"), lambda s, n, axis: _with(s, axis, n),
         "{np}.fft.irfft({0}, {n}, axis={axis}, norm='forward')", result="real", cells=False, cost=_fast),
    Head("argsort", lambda x, axis: np.argsort(x, axis=axis, kind="stable"), _first,
         "{np}.argsort({0}, axis={axis}, kind='stable')", result="index", cells=False, cost=_size,
         traits="of_axis tells_places"),
    Head("argpartition", lambda x, kth, axis: np.argpartition(x, kth, axis=axis), _first,
         "{np}.argpartition({0}, {kth}, axis={axis})", result="index", cells=False, cost=_size, traits="of_axis"),
    Head("take_along", lambda x, i, axis: np.take_along_axis(x, np.asarray(i).astype(np.intp), axis), lambda s, i, axis: i,
         "{np}.take_along_axis({0}, {1}, axis={axis})", cells=False,
         traits="takes_places gathers of_axis cellwise integral"),
    Head("put_along", permuted, lambda s, i, axis: s, "_permuted({0}, {1}, {axis})", cells=False,
         traits="takes_places of_axis cellwise integral"),
    Head("gather", head_gather, lambda s, i: (*i, *s[1:]),
         "{np}.take({0}, {np}.asarray({1}).astype({np}.intp), axis=0{clip})", out=True,
         unrolled=lambda s, i: 2 * math.prod(s) * math.prod(i), traits="takes_places gathers cellwise integral"),
    Head("scatter_at", head_scatter_at, lambda s, i, size: (size, *s[len(i):]), cost=_size,
         unrolled=lambda s, i, size: 3 * size * math.prod(s), traits="takes_places cellwise fills integral"),
    Head("assign_at", head_assign_at, lambda s, i, y: s, cost=lambda s, i, y: math.prod(y),
         unrolled=lambda s, i, y: 3 * math.prod(s) * math.prod(i),
         traits="takes_places cellwise moves_truths fills overwrites integral"),
    Head("argmax", lambda x, axis: np.argmax(x, axis=axis), lambda s, axis: _without(s, (axis,)),
         "{np}.argmax({0}, axis={axis}).astype(float)", result="count", cost=_size, unrolled=lambda s, axis: 5 * math.prod(s),
         traits="flat of_axis tells_places"),
    Head("argmin", lambda x, axis: np.argmin(x, axis=axis), lambda s, axis: _without(s, (axis,)),
         "{np}.argmin({0}, axis={axis}).astype(float)", result="count", cost=_size, unrolled=lambda s, axis: 5 * math.prod(s),
         traits="flat of_axis tells_places"),
    Head("order", lambda x, axis: np.argsort(x, axis=axis, kind="stable"), _first,
         "{np}.argsort({0}, axis={axis}, kind='stable').astype(float)", result="count", cells=False, cost=_size,
         traits="flat of_axis tells_places"),
    Head("searchsorted", np.searchsorted, lambda a, v, side: v, "{np}.searchsorted({0}, {1}, {side}).astype(float)",
         result="count", cost=lambda a, v, side: math.prod(v) * a[0].bit_length(),
         unrolled=lambda a, v, side: 2 * math.prod(v) * a[0], traits="flat tells_places"),
    Head("inv", np.linalg.inv, _first, "{np}.linalg.inv({0})", cells=False, cost=_cubic,
         traits="of_last_axes", defined="det_sign"),
    Head("solve", np.linalg.solve, lambda a, b: (*broadcast_extents(a[:-2], b[:-2]), *b[-2:]),
         "{np}.linalg.solve({0}, {1})", cells=False, cost=_cubic, defined="det_sign"),
    Head("triangular_inverse", triangular_inverse, lambda s, lower: s, "_triangular_inverse({0}, lower={lower})", cells=False,
         cost=_cubic),
    Head("triangular_solution", triangular_solution, lambda a, b, lower: (*broadcast_extents(a[:-2], b[:-2]), *b[-2:]),
         "_triangular_solution({0}, {1}, lower={lower})", cells=False, cost=_cubic),
    Head("det", np.linalg.det, lambda s: s[:-2], "{np}.linalg.det({0})", cells=False, cost=_cubic,
         traits="of_last_axes analytic"),
    Head("cofactors", cofactors, _first, "_cofactors({0})", cells=False, cost=_cubic, traits="of_last_axes"),
    Head("cofactors_along", cofactors_along, _first, "_cofactors_along({0}, {1})", cells=False,
         cost=_cubic, traits="of_last_axes"),
    Head("inverse_transposed", inverse_transposed, _first, "_inverse_transposed({0})", cells=False, cost=_cubic,
         traits="of_last_axes"),
    Head("det_sign", lambda x: np.linalg.slogdet(x)[0], lambda s: s[:-2], "{np}.linalg.slogdet({0})[0]", cells=False,
         cost=_cubic, traits="flat of_last_axes"),
    Head("log_abs_det", lambda x: np.linalg.slogdet(x)[1], lambda s: s[:-2], "{np}.linalg.slogdet({0})[1]", result="real",
         cells=False, cost=_cubic, traits="of_last_axes"),
    Head("cholesky", np.linalg.cholesky, _first, "{np}.linalg.cholesky({0})", cells=False, cost=_cubic,
         traits="of_last_axes lower", defined="is_definite"),
    Head("is_definite", is_definite, lambda s: s[:-2], "_is_definite({0})", result="count", cells=False, cost=_cubic,
         traits="flat of_last_axes"),
    Head("eigenvalues", np.linalg.eigvalsh, lambda s: s[:-1], "{np}.linalg.eigvalsh({0})", cells=False, cost=_cubic,
         traits="of_last_axes decomposes", defined="isfinite"),
    Head("eigenvectors", lambda x: np.linalg.eigh(x)[1], _first, "{np}.linalg.eigh({0})[1]", cells=False, cost=_cubic,
         traits="of_last_axes decomposes", defined="isfinite"),
    Head("general_eigenvalues", lambda x: np.linalg.eigvals(x) + 0j, lambda s: s[:-1], "{np}.linalg.eigvals({0}) + 0j",
         result="complex", cells=False, cost=_cubic, traits="of_last_axes decomposes", defined="isfinite"),
    Head("general_eigenvectors", lambda x: np.linalg.eig(x)[1] + 0j, _first, "{np}.linalg.eig({0})[1] + 0j",
         result="complex", cells=False, cost=_cubic, traits="of_last_axes decomposes", defined="isfinite"),
    Head("singular_values", lambda x: np.linalg.svd(x, compute_uv=False), lambda s: (*s[:-2], min(s[-2:])),
         "{np}.linalg.svd({0}, compute_uv=False)", cells=False, cost=_cubic,
         traits="of_last_axes decomposes", defined="isfinite"),
    Head("with_eigenvalues", with_eigenvalues, _with_values, cells=False, cost=_cubic, traits="spectral decomposes"),
    Head("with_singular_values", with_singular_values, _with_values, cells=False, cost=_cubic, traits="spectral decomposes"),
    Head("left_vectors", lambda x: np.linalg.svd(x, full_matrices=False)[0], _left,
         "{np}.linalg.svd({0}, full_matrices=False)[0]", cells=False, cost=_cubic,
         traits="of_last_axes decomposes", defined="isfinite"),
    Head("right_vectors", lambda x: np.linalg.svd(x, full_matrices=False)[2], _right,
         "{np}.linalg.svd({0}, full_matrices=False)[2]", cells=False, cost=_cubic,
         traits="of_last_axes decomposes", defined="isfinite"),
    Head("left_rest", lambda x, count: np.linalg.svd(x)[0][..., count:], lambda s, count: (*s[:-1], s[-2] - count),
         "{np}.linalg.svd({0})[0][..., {count}:]", cells=False, cost=_cubic, traits="of_last_axes", defined="isfinite"),
    Head("right_rest", lambda x, count: np.linalg.svd(x)[2][..., count:, :], lambda s, count: (*s[:-2], s[-1] - count, s[-1]),
         "{np}.linalg.svd({0})[2][..., {count}:, :]", cells=False, cost=_cubic, traits="of_last_axes", defined="isfinite"),
    Head("orthogonal", lambda x: np.linalg.qr(x)[0], _left, "{np}.linalg.qr({0})[0]", cells=False, cost=_cubic,
         traits="of_last_axes"),
    Head("triangular", lambda x: np.linalg.qr(x)[1], _right, "{np}.linalg.qr({0})[1]", cells=False, cost=_cubic,
         traits="of_last_axes upper"),
    Head("eigh", lambda x, lead: packed(np.linalg.eigh(x), lead), lambda s, lead: (*s[:-2], s[-1] * (s[-1] + 1)),
         "{np}.concatenate([p.reshape({lead}) for p in {np}.linalg.eigh({0})], -1)", cells=False, cost=_cubic),
    Head("eig", lambda x, lead: packed(np.linalg.eig(x), lead) + 0j, lambda s, lead: (*s[:-2], s[-1] * (s[-1] + 1)),
         "{np}.concatenate([p.reshape({lead}) for p in {np}.linalg.eig({0})], -1) + 0j", result="complex", cells=False,
         cost=_cubic),
    Head("svd", lambda x, lead: packed(np.linalg.svd(x, full_matrices=False), lead),
         lambda s, lead: (*s[:-2], min(s[-2:]) * (s[-1] + s[-2] + 1)),
         "{np}.concatenate([p.reshape({lead}) for p in {np}.linalg.svd({0}, full_matrices=False)], -1)", cells=False,
         cost=_cubic),
    Head("qr", lambda x, lead: packed(np.linalg.qr(x), lead), lambda s, lead: (*s[:-2], min(s[-2:]) * (s[-1] + s[-2])),
         "{np}.concatenate([p.reshape({lead}) for p in {np}.linalg.qr({0})], -1)", cells=False, cost=_cubic),
    Head("pinv", lambda x, rcond: np.linalg.pinv(x, rcond), lambda s, rcond: (*s[:-2], s[-1], s[-2]),
         "{np}.linalg.pinv({0}, {rcond})", cells=False, cost=_cubic, traits="of_last_axes", defined="isfinite"),
    Head("expm", expm, _first, "_expm({0})", cells=False, cost=lambda *shapes, **params: 12 * _cubic(*shapes),
         traits="of_last_axes"),
    Head("site", lambda *arrays, site: site(*arrays), lambda *shapes, site: site.shape, "{site}({operands})", out=True,
         cells=False, cost=lambda *shapes, site: sum(map(math.prod, shapes))),
    Head("lstsq", lambda a, b: np.linalg.lstsq(a, b, rcond=None)[0], lambda a, b: (a[1], b[1]),
         "{np}.linalg.lstsq({0}, {1}, rcond=None)[0]", cells=False, cost=_cubic, defined="isfinite"),
]  # fmt: skip

HEADS: dict[str, Head] = {row.name: row for row in _ROWS}
