"""NumPy's statistics of traced arrays, written with simpler functions: quantiles, covariances, sums that skip NaN, bins.

Assumes an array with a traced cell among the arguments. Guarantees NumPy's values; a quantile shares its derivative among
tied cells, NaN cells that are skipped have derivative 0. Refuses methods of quantiles that jump between cells by rules of
their own, and bins that depend on traced values, with `TraceError`.
"""

from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from symdiff.errors import TraceError
from symdiff.tracing.library.arrays import typed
from symdiff.tracing.values.integers import Integer
from symdiff.tracing.values.layouts import in_traced_order
from symdiff.tracing.values.operands import as_array, bound, holds_traced
from symdiff.tracing.values.standing import Array, stands_for
from symdiff.tracing.values.tracer import Tracer
from symdiff.vocabulary.heads import Shape
from symdiff.vocabulary.libraries import user_line
from symdiff.vocabulary.signatures import Function

# -- quantiles

# Where a quantile lies among n sorted cells, counted from 0 (Hyndman and Fan, The American Statistician 50(4), 1996).
_PLACES = {
    "linear": lambda n, q: q * (n - 1),
    "weibull": lambda n, q: q * (n + 1) - 1,
    "hazen": lambda n, q: q * n - 0.5,
    "median_unbiased": lambda n, q: q * (n + 1 / 3) - 2 / 3,
    "normal_unbiased": lambda n, q: q * (n + 1 / 4) - 5 / 8,
    "interpolated_inverted_cdf": lambda n, q: q * n - 1,
    "lower": lambda n, q: np.floor(q * (n - 1)),
    "higher": lambda n, q: np.ceil(q * (n - 1)),
    "nearest": lambda n, q: np.rint(q * (n - 1)),
    "middle": lambda n, q: q * (n - 1),  # of the median, whose two cells may both be infinite
    "midpoint": lambda n, q: 0.5 * (np.floor(q * (n - 1)) + np.ceil(q * (n - 1))),
}

_METHODS = tuple(name for name in _PLACES if name != "middle")


def _merged(x: Any, axis: Any) -> tuple[Any, Shape]:
    """The array with some axes as its last one, and the shape of a result that keeps them."""
    x = as_array(x)
    axes = tuple(range(x.ndim)) if axis is None else tuple(sorted(normalize_axis_tuple(axis, x.ndim)))
    rest = [i for i in range(x.ndim) if i not in axes]
    kept = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
    moved = x if axes == (x.ndim - 1,) else np.transpose(x, (*rest, *axes)).reshape((*(x.shape[i] for i in rest), -1))
    return moved, kept


def _order(x: Any, k: int) -> Any:
    """The k-th smallest cell along the last axis; tied cells share its derivative."""
    return bound("kth", x, k=k, axes=(x.ndim - 1,))


def _spoilt(x: Any, found: Any) -> Any:
    """NaN where the last axis holds one."""
    return np.where(np.any(np.isnan(x), axis=-1), np.nan, found)


def _at(x: Any, q: float, method: str) -> Any:
    """One quantile along the last axis."""
    n = x.shape[-1]
    place = float(np.clip(_PLACES[method](n, q), 0, n - 1))
    low = int(np.floor(place))
    first = _order(x, low)
    if place == low:
        return first
    second = _order(x, low + 1)
    return (first + second) / 2 if method == "middle" else _between(first, second, place - low)


def _between(first: Any, second: Any, share: float) -> Any:
    """As NumPy has it: from the nearer one, so that an infinite one stays."""
    return first + share * (second - first) if share < 0.5 else second - (1 - share) * (second - first)


def _levels(q: Any, method: str, name: str) -> np.ndarray:
    if holds_traced(q):
        raise TraceError(f"{user_line()}: np.{name} at traced levels; pass q as a number, it chooses cells")
    if method not in _PLACES:
        raise TraceError(f"{user_line()}: np.{name}(method={method!r}) of traced values; one of {', '.join(_METHODS)}")
    levels = np.asarray(q, dtype=float)
    if not np.all((levels >= 0) & (levels <= 1)):
        raise ValueError("quantiles must be in the range [0, 1]")
    return levels


def _stacked(levels: np.ndarray, one: Any) -> Any:
    """Results for each level, the levels' axes first, in their precision where they are an array."""
    if not levels.ndim:
        return one(float(levels))
    found = [one(float(q)) for q in levels.ravel()]
    whole = np.reshape(np.stack(found), (*levels.shape, *found[0].shape))
    return whole.astype(np.result_type(whole.dtype, levels.dtype))


def _quantile(way: Function, name: str, a: Any, q: Any, axis: Any, method: str, keepdims: bool) -> Any:
    levels = _levels(q, method, name)
    x, kept = _merged(a, axis)
    if not x.shape[-1] and way is _among_all:
        if name != "median":
            raise ValueError("an array with cells is needed")
        return np.full(kept if keepdims else x.shape[:-1], np.nan)[()]
    one = way(x, method)
    return _stacked(levels, (lambda level: np.reshape(one(level), kept)) if keepdims else one)


def _among_all(x: Any, method: str) -> Function:
    return lambda level: _spoilt(x, _at(x, level, method))


def _among_numbers(x: Any, method: str) -> Function:
    """Sorted cells, NaN last, weighted by their distance from the quantile's place, which depends on how many are NaN."""
    cells = np.sort(x, axis=-1)
    count = _counted(x, -1, True)
    places = np.arange(x.shape[-1], dtype=x.dtype)

    def one(level: float) -> Any:
        place = np.clip(_PLACES[method](count, level), 0.0, count - 1)
        weights = np.maximum(1 - np.abs(places - place), 0.0)
        low = np.floor(place)
        used = (places >= low) & (places <= low + 1) & (places < count)  # an infinite cell of weight 0 gives NaN
        last = np.where(low == count - 1, cells - cells, 0.0)  # of infinities, NaN
        found = np.sum(np.where(used, cells * weights + last, 0.0), axis=-1)
        return np.where(count[..., 0] > 0, found, np.nan)

    return one


def _enter(prefix: str, way: Function, method: str) -> None:
    @stands_for(getattr(np, f"{prefix}quantile"))
    def quantile(a: Any, q: Any, axis: Any = None, method: str = "linear", keepdims: bool = False) -> Any:
        return _quantile(way, f"{prefix}quantile", a, q, axis, method, keepdims)

    @stands_for(getattr(np, f"{prefix}percentile"))
    def percentile(a: Any, q: Any, axis: Any = None, method: str = "linear", keepdims: bool = False) -> Any:
        return _quantile(way, f"{prefix}percentile", a, np.true_divide(q, 100), axis, method, keepdims)

    @stands_for(getattr(np, f"{prefix}median"))
    def median(a: Any, axis: Any = None, overwrite_input: bool = False, keepdims: bool = False) -> Any:
        return _quantile(way, f"{prefix}median", a, 0.5, axis, method, keepdims)


_enter("", _among_all, "middle")
_enter("nan", _among_numbers, "linear")


# -- cells that are NaN are skipped


def _counted(a: Any, axis: Any, keepdims: bool, where: Any = True) -> Any:
    one = np.ones((), dtype=a.dtype).real[()]
    return np.sum(np.where(np.isnan(a), 0 * one, one), axis=axis, keepdims=keepdims, where=where)


def _filled(a: Any, value: float) -> Any:
    return np.where(np.isnan(a), value, a)


def _skipping(name: str, nothing: float, extreme: bool = False) -> Function:
    """A reduction or a running one in which NaN is what changes nothing; an extreme of nothing else is NaN."""
    reduced = getattr(np, name)

    def stand(a: Array, axis: Any = None, dtype: Any = None, keepdims: Any = np._NoValue, initial: Any = np._NoValue,
              where: Any = np._NoValue) -> Any:  # fmt: skip
        given = {"keepdims": keepdims, "initial": initial, "where": where}
        given = {key: value for key, value in given.items() if value is not np._NoValue}
        found = reduced(_filled(a if dtype is None else a.astype(dtype), nothing), axis=axis, **given)
        if not extreme or "initial" in given:
            return found
        return np.where(_counted(a, axis, bool(given.get("keepdims"))) > 0, found, np.nan)

    return stand


for _name, _nothing in (("sum", 0.0), ("prod", 1.0), ("cumsum", 0.0), ("cumprod", 1.0)):
    stands_for(getattr(np, f"nan{_name}"))(_skipping(_name, _nothing))
stands_for(np.nanmax)(_skipping("max", -np.inf, True))
stands_for(np.nanmin)(_skipping("min", np.inf, True))


@stands_for(np.nanmean)
def nanmean(a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False, *, where: Any = True) -> Any:
    a = typed(a, dtype)
    return np.mean(a, axis=axis, keepdims=keepdims, where=_known(a, where))


def _known(a: Any, where: Any) -> Any:
    return np.logical_and(np.logical_not(np.isnan(a)), where)


def _spread(reduced: Function) -> Function:
    """The variance of the cells that are numbers, or its root; NaN, and of slope NaN, where they are too few."""

    def stand(a: Any, axis: Any = None, dtype: Any = None, ddof: Any = 0, keepdims: bool = False, *, where: Any = True,
              mean: Any = None, correction: Any = None) -> Any:  # fmt: skip
        a, ddof = typed(a, dtype), ddof if correction is None else correction
        known, given = _known(a, where), {} if mean is None else {"mean": mean}
        found = reduced(_filled(a, 0.0), axis=axis, ddof=ddof, keepdims=keepdims, where=known, **given)
        return np.where(_counted(a, axis, keepdims, where) > ddof, found, found * np.nan)

    return stand


stands_for(np.nanvar)(_spread(np.var))
stands_for(np.nanstd)(_spread(np.std))


@stands_for(np.nan_to_num, memory="itself")
def nan_to_num(x: Array, copy: bool = True, nan: float = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    if not copy and isinstance(x, Tracer):
        x[...] = nan_to_num(x, True, nan, posinf, neginf)
        return x if x.ndim else x[()]
    if x.dtype.kind == "c":
        return nan_to_num(x.real, copy, nan, posinf, neginf) + 1j * nan_to_num(x.imag, copy, nan, posinf, neginf)
    if isinstance(x, Integer):
        return x.copy() if x.ndim else x[()]
    largest = float(np.finfo(x.dtype).max)
    nan, posinf, neginf = (
        v if v is None or type(v) in (int, float) else as_array(v).astype(x.dtype) for v in (nan, posinf, neginf)
    )
    found = np.where(x == np.inf, largest if posinf is None else posinf, x)
    found = np.where(x == -np.inf, -largest if neginf is None else neginf, found)
    found = np.where(np.isnan(x), nan, found)
    return in_traced_order(found, (x,), copies=True) if found.ndim else found[()]


# -- covariances


@stands_for(np.cov)
def cov(m: Array, y: Array = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None,
        fweights: Array = None, aweights: Array = None, *, dtype: Any = None) -> Any:  # fmt: skip
    kind = np.result_type(*(v.dtype for v in (m, y) if v is not None), np.float64) if dtype is None else dtype
    x = _variables(m, rowvar).astype(kind)
    x = x if y is None else np.concatenate([x, _variables(y, rowvar).astype(kind)], axis=0)
    ddof = (0 if bias else 1) if ddof is None else ddof
    n = x.shape[1]
    if fweights is None and aweights is None:
        away = x - np.mean(x, axis=1, keepdims=True)
        return np.squeeze(away @ np.conj(away.T) / max(n - ddof, 0))
    whole = np.ones(n) if fweights is None else fweights
    weights = whole if aweights is None else whole * aweights
    total = np.sum(weights)
    away = x - np.sum(x * weights, axis=1, keepdims=True) / total
    freedom = total - ddof if aweights is None or ddof == 0 else total - ddof * np.sum(weights * aweights) / total
    return np.squeeze((away * weights) @ np.conj(away.T) / freedom)


def _variables(x: Any, rowvar: bool) -> Any:
    """One variable a row."""
    if x.ndim > 2:
        raise ValueError("an array with one or two axes is needed")
    return np.atleast_2d(x) if rowvar or x.ndim < 2 or x.shape[0] == 1 else x.T


@stands_for(np.corrcoef)
def corrcoef(x: Array, y: Array = None, rowvar: bool = True, *, dtype: Any = None) -> Any:
    c = cov(x, y, rowvar, dtype=dtype)
    if c.ndim == 0:
        return c / c
    d = np.sqrt(np.diagonal(c).real)
    found = c / d[:, None] / d[None, :]
    return np.clip(found, -1, 1) if found.dtype.kind != "c" else found


# -- bins


def _added_up(places: np.ndarray, size: int, weights: Any) -> Any:
    """Weights added up where integers say."""
    return bound("scatter", weights, indices=places.astype(np.intp), size=size)


@stands_for(np.bincount)
def bincount(x: Any, weights: Array = None, minlength: int = 0) -> Any:
    if holds_traced(x):
        raise TraceError(f"{user_line()}: np.bincount of traced places; pass them as integers, the weights may be traced")
    places = np.asarray(x)
    return _added_up(places, max(int(places.max(initial=-1)) + 1, minlength), weights)


@stands_for(np.histogram)
def histogram(a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Array = None) -> Any:
    if any(map(holds_traced, (a, bins, range))):
        raise TraceError(
            f"{user_line()}: np.histogram of traced values counts them, so that its derivative is 0; "
            "the weights may be traced, or write a smooth kernel: np.sum(np.exp(-((x - centres[:, None])/h)**2), axis=1)"
        )
    edges = np.histogram_bin_edges(a, bins, range)
    inside = np.asarray(a).ravel()
    kept = (inside >= edges[0]) & (inside <= edges[-1])
    places = np.minimum(np.searchsorted(edges, inside[kept], "right") - 1, len(edges) - 2)
    found = _added_up(places, len(edges) - 1, np.ravel(weights)[kept])
    return (found / np.diff(edges) / np.sum(found) if density else found), edges
