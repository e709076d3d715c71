"""What the rules of matrix decompositions say: words of `rules/structural.table` over atoms.

Assumes matrices in the last two axes. Guarantees NaN where two eigenvalues or singular values are equal and the derivative
takes the vectors apart: these have none there, and of what depends on the space that they span the limit is not known. So
too where a matrix without full rank has an inverse in the sense of least squares, which jumps beside it.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from symdiff.ir.arrays.algebra import Arrays
from symdiff.ir.building import array_atom
from symdiff.ir.node import Atom, Constant

_WITHIN = {"f": 1e-4}  # of what counts as rounding, relative


def _columns(a: Arrays, s: Atom) -> Atom:
    """A factor for each column of a matrix."""
    return a.reshape(s, (*s.shape[:-1], 1, s.shape[-1]))


def _reciprocal(a: Arrays, x: Atom) -> Atom:
    """1/x of differences between all pairs, NaN where two are equal, 0 between one and itself."""
    zero = a.emit("eq", x, Constant(0.0))
    n = x.shape[-1]
    equal = array_atom(np.where(np.eye(n, dtype=bool), 0.0, np.nan))
    return a.emit("select", zero, equal, a.emit("div", Constant(1.0), a.emit("select", zero, Constant(1.0), x)))


def rule_gaps(a: Arrays, w: Atom) -> Atom:
    """1/(w_j - w_i), 0 on the diagonal."""
    return _reciprocal(a, a.emit("sub", _columns(a, w), a.reshape(w, (*w.shape, 1))))


def rule_apart(a: Arrays, w: Atom) -> Atom:
    """1 for a value that no other equals, else NaN."""
    n = w.shape[-1]
    equal = a.emit("eq", _columns(a, w), a.reshape(w, (*w.shape, 1)))
    others = a.emit("select", equal, array_atom(np.where(np.eye(n, dtype=bool), 0.0, np.nan)), Constant(0.0))
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


def _square_gaps(a: Arrays, s: Atom) -> Atom:
    """1/(s_j**2 - s_i**2), 0 on the diagonal."""
    rows = a.reshape(s, (*s.shape, 1))
    return _reciprocal(a, a.emit("mul", a.emit("sub", _columns(a, s), rows), a.emit("add", _columns(a, s), rows)))


def rule_turned(a: Arrays, u: Atom, s: Atom, v: Atom, dx: Atom) -> Atom:
    """The tangent of left singular vectors. J. Townsend, Differentiating the singular value decomposition, 2016."""
    b = a.builder
    pushed = a.matmul(dx, v)
    inside = a.matmul(a.swapped(u), pushed)
    scaled = b.mul(inside, _columns(a, s))
    found = a.matmul(u, b.mul(_square_gaps(a, s), b.add(scaled, a.swapped(scaled))))
    if u.shape[-2] == u.shape[-1]:
        return found
    outside = a.emit("sub", pushed, a.matmul(u, inside))
    return b.add(found, b.mul(outside, _columns(a, a.emit("div", Constant(1.0), s))))


def rule_turned_back(a: Arrays, u: Atom, s: Atom, v: Atom, ds: Atom) -> Atom:
    """The cotangent of a matrix from that of its left singular vectors."""
    b = a.builder
    inside = a.matmul(a.swapped(u), ds)
    skew = b.mul(_square_gaps(a, s), a.emit("sub", inside, a.swapped(inside)))
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
        rule_gaps,
        rule_apart,
        rule_ranked,
        rule_turned,
        rule_turned_back,
        rule_upper,
        rule_upper_back,
        rule_divided,
        rule_along,
    )
}
