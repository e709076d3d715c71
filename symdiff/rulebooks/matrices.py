"""What the rules of matrix decompositions say: words of `rules/structural.table` over atoms.

Assumes matrices in the last two axes. Guarantees NaN where two eigenvalues or singular values are equal and the derivative
takes the vectors apart: these have none there. What depends on the values alone has derivatives there too, by the slopes of
the function that gave it (Ju. L. Daleckii and S. G. Krein, 1956; A. S. Lewis and H. S. Sendov, Twice differentiable spectral
functions, 2001); NaN where these are not known. So too where a matrix without full rank has an inverse in the sense of least
squares, which jumps beside it.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from symdiff.ir.arrays.algebra import Arrays
from symdiff.ir.building import array_atom
from symdiff.ir.node import Atom, Constant

_WITHIN = {"f": 1e-4}  # of what counts as rounding, relative
_ALIKE = 1e-3  # by which slopes of one function at values that are nearly equal may differ
UNKNOWN = Constant(math.nan)  # slopes of values by those of a matrix; zero or a matrix where they are known
_ROUNDING = 32.0  # units in the last place, by which a decomposition and what is computed of it may be wrong


def _columns(a: Arrays, s: Atom) -> Atom:
    """A factor for each column of a matrix."""
    return a.reshape(s, (*s.shape[:-1], 1, s.shape[-1]))


def _pairs(a: Arrays, op: str, x: Atom) -> Atom:
    """An operation on all pairs of values, the column's first."""
    return a.emit(op, _columns(a, x), a.reshape(x, (*x.shape, 1)))


def _largest(a: Arrays, x: Atom) -> Atom:
    """The largest absolute value, beside all pairs."""
    return a.reshape(a.bind("amax", a.emit("abs", x), axes=(len(x.shape) - 1,)), (*x.shape[:-1], 1, 1))


def within_rounding(a: Arrays, x: Atom, size: Atom) -> Atom:
    """Where a difference of results of a decomposition, or of what is computed of them, is no more than rounding."""
    eps = _ROUNDING * float(np.finfo(x.dtype or "d").eps)
    return a.emit("le", a.emit("abs", x), a.builder.mul(Constant(eps), size))


def rule_over_gaps(a: Arrays, w: Atom, y: Atom, asked: Atom | None = None) -> Atom:
    """y/(w_j - w_i) of all pairs, 0 between one and itself; NaN where rounding cannot tell two values apart, but for those of
    which nothing is `asked`: their columns are zero."""
    b, gap = a.builder, _pairs(a, "sub", w)
    away = b.select(array_atom(np.eye(w.shape[-1], dtype=bool)), Constant(0.0), y)
    columns = a.sum(a.emit("abs", y if asked is None else asked), (len(y.shape) - 2,))
    apart = array_atom(np.where(np.eye(w.shape[-1], dtype=bool), 0.0, np.nan))
    unknown = b.select(a.emit("eq", _pairs(a, "add", columns), Constant(0.0)), Constant(0.0), apart)
    lost = within_rounding(a, gap, _largest(a, w))
    return b.select(lost, unknown, a.emit("div", away, b.select(lost, Constant(1.0), gap)))


def rule_apart(a: Arrays, w: Atom) -> Atom:
    """1 for a value that no other equals, else NaN."""
    n = w.shape[-1]
    others = a.emit("select", _pairs(a, "eq", w), array_atom(np.where(np.eye(n, dtype=bool), 0.0, np.nan)), Constant(0.0))
    return a.emit("add", Constant(1.0), a.sum(others, (len(w.shape) - 1,)))


def rule_ranked(a: Arrays, x: Atom, inverse: Atom, dx: Atom | None = None) -> Atom:
    """1 for a matrix of full rank, the trace of x @ inverse, and for one that keeps its rank along dx; else NaN."""
    rank = a.sum(a.emit("mul", x, a.swapped(inverse)), (len(x.shape) - 2, len(x.shape) - 1))
    unknown = a.emit("lt", a.reshape(rank, (*rank.shape, 1, 1)), Constant(min(x.shape[-2:]) - 0.5))
    if dx is not None:
        away = a.emit("sub", dx, a.matmul(a.matmul(x, inverse), dx))
        away = a.emit("sub", away, a.matmul(a.matmul(away, inverse), x))
        within = a.emit("le", _size(a, away), a.emit("mul", Constant(_WITHIN.get(x.dtype or "d", 1e-9)), _size(a, dx)))
        unknown = a.emit("and", unknown, a.emit("not", within))
    return a.emit("select", unknown, Constant(np.nan), Constant(1.0))


def _size(a: Arrays, x: Atom) -> Atom:
    """The sum of absolute values of a matrix, of shape (..., 1, 1)."""
    total = a.sum(a.emit("abs", x), (len(x.shape) - 2, len(x.shape) - 1))
    return a.reshape(total, (*total.shape, 1, 1))


def _quotients(a: Arrays, w: Atom, g: Atom, slopes: Atom, odd: bool = False) -> Atom:
    """(g_j - g_i)/(w_j - w_i) of all pairs; of odd functions (g_j + g_i)/(w_j + w_i), each and itself too.

    The mean slope where rounding cannot tell it from the quotient; else NaN where it cannot tell values of w apart.
    """
    b, size, op = a.builder, a.emit("abs", g), "add" if odd else "sub"
    rise, run = _pairs(a, op, g), _pairs(a, op, w)
    top, most = _largest(a, w), _largest(a, g)
    found = a.emit("div", rise, b.select(within_rounding(a, run, top), UNKNOWN, run))
    if slopes is not UNKNOWN:
        steep = a.emit("div", most, b.select(a.emit("gt", top, Constant(0.0)), top, Constant(math.inf)))
        mean, far, within = slopes, rise, b.add(_pairs(a, "add", size), b.mul(steep, a.emit("abs", run)))
        if slopes.shape:
            mean = b.mul(Constant(0.5), _twice_slopes(a, slopes, steep, odd))
            far = b.sub(rise, b.mul(mean, run))
            within = b.add(within, b.mul(a.emit("abs", mean), _pairs(a, "add", a.emit("abs", w))))
        found = b.select(within_rounding(a, far, within), mean, found)
    return found if odd else b.select(array_atom(np.eye(w.shape[-1], dtype=bool)), Constant(0.0), found)


def _twice_slopes(a: Arrays, slopes: Atom, steep: Atom, odd: bool) -> Atom:
    """Of all pairs the slope of one's difference, or sum, by its own, twice; NaN where they are not slopes of one function."""
    b, rows = a.builder, a.sum(slopes, (len(slopes.shape) - 1,))
    total = _pairs(a, "add", a.diagonal(slopes))
    total = total if odd else a.emit("sub", total, a.emit("add", slopes, a.swapped(slopes)))
    alike = b.mul(Constant(_ALIKE), _pairs(a, "add", a.emit("abs", rows)))
    away = a.emit("max", b.sub(a.emit("abs", _pairs(a, "sub", rows)), alike), Constant(0.0))
    return b.select(within_rounding(a, away, steep), total, UNKNOWN)


def rule_along_spectrum(a: Arrays, x: Atom, g: Atom, slopes: Atom, e: Atom) -> Atom:
    """The derivative along e of the matrix with the eigenvectors of x and the eigenvalues g, these kept."""
    v, w = a.bind("eigenvectors", x), a.builder.real(a.bind("eigenvalues", x))
    inside = a.matmul(a.matmul(a.mirrored(v), e), v)
    return a.matmul(a.matmul(v, a.builder.mul(_quotients(a, w, g, slopes), inside)), a.mirrored(v))


def rule_along_singular(a: Arrays, x: Atom, g: Atom, slopes: Atom, e: Atom) -> Atom:
    """The derivative along e of the matrix with the singular vectors of x and the singular values g, these kept."""
    b = a.builder
    u, s, vh = (a.bind(name, x) for name in ("left_vectors", "singular_values", "right_vectors"))
    left, right = a.matmul(a.swapped(u), e), a.matmul(e, a.swapped(vh))
    inside = a.matmul(left, a.swapped(vh))
    even, odd = (b.mul(Constant(0.5), a.emit(op, inside, a.swapped(inside))) for op in ("add", "sub"))
    sums = _quotients(a, s, g, slopes, True)
    found = a.matmul(a.matmul(u, b.add(b.mul(_quotients(a, s, g, slopes), even), b.mul(sums, odd))), vh)
    scaled = a.diagonal(sums)
    if x.shape[-2] > x.shape[-1]:
        away = b.mul(a.emit("sub", right, a.matmul(u, inside)), _columns(a, scaled))
        found = b.add(found, a.matmul(away, vh))
    if x.shape[-2] < x.shape[-1]:
        away = b.mul(a.emit("sub", left, a.matmul(inside, vh)), a.reshape(scaled, (*scaled.shape, 1)))
        found = b.add(found, a.matmul(u, away))
    return found


def rule_turned(a: Arrays, u: Atom, s: Atom, v: Atom, dx: Atom) -> Atom:
    """The tangent of left singular vectors. J. Townsend, Differentiating the singular value decomposition, 2016."""
    b = a.builder
    pushed = a.matmul(dx, v)
    inside = a.matmul(a.swapped(u), pushed)
    scaled = b.mul(inside, _columns(a, s))
    found = a.matmul(u, rule_over_gaps(a, s, a.emit("div", b.add(scaled, a.swapped(scaled)), _pairs(a, "add", s))))
    if u.shape[-2] == u.shape[-1]:
        return found
    outside = a.emit("sub", pushed, a.matmul(u, inside))
    return b.add(found, b.mul(outside, _columns(a, a.emit("div", Constant(1.0), s))))


def rule_turned_back(a: Arrays, u: Atom, s: Atom, v: Atom, ds: Atom) -> Atom:
    """The cotangent of a matrix from that of its left singular vectors."""
    b = a.builder
    inside = a.matmul(a.swapped(u), ds)
    skew = rule_over_gaps(a, s, a.emit("div", a.emit("sub", inside, a.swapped(inside)), _pairs(a, "add", s)), inside)
    found = a.matmul(u, b.mul(skew, _columns(a, s)))
    if u.shape[-2] != u.shape[-1]:
        away = b.mul(ds, _columns(a, a.emit("div", Constant(1.0), s)))
        found = b.add(found, a.emit("sub", away, a.matmul(u, a.matmul(a.swapped(u), away))))
    return a.matmul(found, a.swapped(v))


def _below(a: Arrays, x: Atom) -> Atom:
    """The cells below the diagonal."""
    n = x.shape[-1]
    return a.builder.mul(x, array_atom(np.tri(n, k=-1)))


def rule_upper(a: Arrays, x: Atom) -> Atom:
    """A matrix less its skew part: what is below the diagonal is added above it."""
    low = _below(a, x)
    return a.emit("sub", x, a.emit("sub", low, a.swapped(low)))


def rule_upper_back(a: Arrays, x: Atom) -> Atom:
    """The cotangent of x in `rule_upper(x)`."""
    return a.emit("sub", x, _below(a, a.emit("sub", x, a.swapped(x))))


def rule_divided(a: Arrays, x: Atom, y: Atom) -> Atom:
    """x @ inv(y), infinite or NaN where y is singular."""
    return a.matmul(x, a.swapped(a.bind("inverse_transposed", y)))


def rule_along(a: Arrays, x: Atom, e: Atom) -> Atom:
    """The derivative of exp(x) along e, a block of exp([[x, e], [0, x]]). N. J. Higham, Functions of Matrices, 3.2."""
    n = x.shape[-1]
    rank = len(x.shape)
    shape = np.broadcast_shapes(x.shape, e.shape)
    x, e = a.broadcast_to(x, shape), a.broadcast_to(e, shape)
    zeros = a.broadcast_to(Constant(0.0, x.dtype), shape)
    top, bottom = a.concatenate([x, e], rank - 1), a.concatenate([zeros, x], rank - 1)
    whole = a.bind("expm", a.concatenate([top, bottom], rank - 2))
    key = (*((0, m, 1) for m in shape[:-2]), (0, n, 1), (n, 2 * n, 1))
    return a.getitem(whole, key)


WORDS: dict[str, Callable[..., Any]] = {
    "H": lambda a, x: a.mirrored(x),
    "conj": lambda a, x: a.builder.conj(x),
    "inverse_of": lambda a, x: a.bind("pinv", x, rcond=1e-15),
    "least": lambda a, x: a.bind("pinv", x, rcond=float(np.finfo(float).eps) * max(x.shape)),
} | {
    f.__name__.removeprefix("rule_"): f
    for f in (
        rule_over_gaps,
        rule_apart,
        rule_ranked,
        rule_along_spectrum,
        rule_along_singular,
        rule_turned,
        rule_turned_back,
        rule_upper,
        rule_upper_back,
        rule_divided,
        rule_along,
    )
}
