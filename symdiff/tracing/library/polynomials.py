"""NumPy's polynomials with traced coefficients, points or data, written with simpler functions.

Assumes coefficients along one axis, the highest power first as in `np.polyval`. Guarantees NumPy's values, leading zeros kept.
Refuses results whose length depends on traced values, with `TraceError`.
"""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from symdiff.errors import TraceError
from symdiff.tracing.values.operands import as_array, holds_traced
from symdiff.tracing.values.standing import Array, follows_source, gives_new, replaces, stands_for
from symdiff.vocabulary.libraries import user_line
from symdiff.vocabulary.signatures import Function


@gives_new(np.polyval)
def polyval(p: Array, x: Array) -> Any:
    y = x * 0
    for k in range(p.shape[0]):
        y = y * x + p[k]
    return y


@stands_for(np.polyder, memory="itself")
def polyder(p: Array, m: int = 1) -> Any:
    for _ in range(m):
        n = p.shape[0]
        p = p[: n - 1] * np.arange(n - 1, 0, -1)
    return p


@stands_for(np.polyint, memory="itself")
def polyint(p: Array, m: int = 1, k: Array = None) -> Any:
    constants = np.zeros(m) if k is None else k
    constants = np.broadcast_to(constants, (m,)) if constants.ndim == 0 or constants.shape == (1,) else constants
    for step in range(m):
        n = p.shape[0]
        p = np.concatenate([p / np.arange(n, 0, -1), np.reshape(constants[step], (1,))])
    return p


def _termwise(function: Function) -> Function:
    def matched(a1: Array, a2: Array) -> Any:
        both = np.atleast_1d(a1), np.atleast_1d(a2)
        n = max(map(len, both))
        return function(*(np.pad(p, (n - len(p), 0)) for p in both))

    return matched


stands_for(np.polyadd)(_termwise(operator.add))
stands_for(np.polysub)(_termwise(operator.sub))


@stands_for(np.polymul)
def polymul(a1: Array, a2: Array) -> Any:
    return np.convolve(np.atleast_1d(a1), np.atleast_1d(a2))


@stands_for(np.polydiv)
def polydiv(u: Array, v: Array) -> Any:
    u, v = np.atleast_1d(u), np.atleast_1d(v)
    n, m = u.shape[0], v.shape[0]
    rest = [u[i] for i in range(n)]
    quotient = []
    for k in range(n - m + 1):
        quotient.append(rest[k] / v[0])
        for j in range(m):
            rest[k + j] = rest[k + j] - quotient[k] * v[j]
    if not quotient:
        return np.zeros(1), u
    return np.stack(quotient), np.stack(rest[n - m + 1 :]) if m > 1 else np.zeros(1)


@stands_for(np.poly)
def poly(zeros: Array) -> Any:
    if not zeros.size:
        return 1.0
    if zeros.ndim == 2:
        zeros = np.linalg.eigvals(zeros)
    found = np.ones(1)
    for k in range(zeros.shape[0]):
        found = np.concatenate([found, np.zeros(1)]) - zeros[k] * np.concatenate([np.zeros(1), found])
    return found


@gives_new(np.roots)
def roots(p: Array) -> Any:
    """The eigenvalues of the companion matrix, complex ones always; the first coefficient is not zero."""
    n = p.shape[0] - 1
    if n < 1:
        return np.zeros(0)
    first = np.reshape(-p[1:] / p[0], (1, n))
    return np.linalg.eigvals(np.concatenate([first, np.eye(n - 1, n)], axis=0))


@stands_for(np.vander)
def vander(x: Array, N: int | None = None, increasing: bool = False) -> Any:
    if x.ndim != 1:
        raise ValueError("an array with one axis is needed")
    count = x.shape[0] if N is None else N
    if not count:
        return np.zeros((x.shape[0], 0))
    powers = [np.ones(x.shape[0], dtype=x.dtype)]
    for _ in range(count - 1):
        powers.append(powers[-1] * x)
    return np.stack(powers if increasing else powers[::-1], axis=1)


@gives_new(np.polyfit)
def polyfit(x: Array, y: Any, deg: int, rcond: Any = None, full: bool = False, w: Any = None, cov: bool = False) -> Any:
    if full or cov:
        raise TraceError(f"{user_line()}: np.polyfit(full=True or cov=True) of traced values; leave them away")
    return _fitted(vander(x, deg + 1), y, w)


def _fitted(rows: Any, y: Any, w: Any) -> Any:
    """Least squares with columns scaled to norm 1, as NumPy does."""
    y = as_array(y)
    if w is not None:
        w = as_array(w)
        rows, y = rows * w[:, None], y * (w if y.ndim == 1 else w[:, None])
    scale = np.sqrt(np.sum(rows * rows, axis=0))
    found = np.linalg.lstsq(rows / scale, y, rcond=None)[0]
    return found / (scale if y.ndim == 1 else scale[:, None])


def fit(basis: Callable[[Any, int], Any]) -> Function:
    """`polyfit`, `chebfit`, ... of `numpy.polynomial`, by the matrix of the basis."""

    def fitted(x: Any, y: Any, deg: int, rcond: Any = None, full: bool = False, w: Any = None) -> Any:
        if full or np.ndim(deg):
            raise TraceError(f"{user_line()}: a fit of traced values gives the coefficients of one degree alone")
        return _fitted(as_array(basis(as_array(x), deg)), y, w)

    return fitted


# -- numpy.polynomial, by its own source


@replaces(np.polynomial.polyutils.mapdomain)
def mapdomain(x: Any, old: Any, new: Any) -> Any:
    offset, scale = np.polynomial.polyutils.mapparms(old, new)
    if isinstance(x, (list, tuple)):
        x = as_array(x) if holds_traced(x) else np.asarray(x)
    return offset + scale * x


@replaces(np.polynomial.Polynomial.__call__)
def value_of_polynomial(series: Any, arg: Any) -> Any:
    return series._val(mapdomain(arg, series.domain, series.window), series.coef)


_OF_COEFFICIENTS = ("{0}add", "{0}sub", "{0}mul", "{0}mulx", "{0}der", "{0}int", "{0}fromroots", "{0}val", "{0}vander")
PACKAGES = {
    "polynomial": "poly",
    "chebyshev": "cheb",
    "legendre": "leg",
    "hermite": "herm",
    "hermite_e": "herme",
    "laguerre": "lag",
}
for _package, _short in PACKAGES.items():
    _module = getattr(np.polynomial, _package)
    _names = [name.format(_short) for name in (*_OF_COEFFICIENTS, "{0}weight", "{0}2poly")]
    follows_source(*(getattr(_module, name) for name in _names if hasattr(_module, name)))
follows_source(np.polynomial.polyutils.mapparms, np.isfortran, np.iterable)
follows_source(*(getattr(np, name) for name in ("row_stack",) if hasattr(np, name)))
