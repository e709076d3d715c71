"""NumPy's decompositions, norms and solvers of traced matrices, around the heads of `rules/structural.table`.

Assumes matrices in the last two axes. Guarantees NumPy's results; least squares and the pseudo-inverse are differentiated at
constant rank, singular and eigenvectors as far as they are unique: where the values differ, and up to their phase. Refuses
what is an integer, with `TraceError`.
"""

from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from symdiff.errors import TraceError
from symdiff.ir.arrays import products
from symdiff.tracing.values.operands import as_array, bound, holds_traced, squares, traced_operands, traced_result
from symdiff.tracing.values.standing import Array, stands_for
from symdiff.vocabulary.heads import Shape
from symdiff.vocabulary.libraries import user_line
from symdiff.vocabulary.signatures import Function


def _matrices(x: Any) -> Any:
    x = as_array(x)
    if x.ndim < 2:
        raise ValueError(f"matrices are needed, not shape {x.shape}")
    return x


def _square(x: Any) -> Any:
    x = _matrices(x)
    if x.shape[-1] != x.shape[-2]:
        raise ValueError(f"square matrices are needed, not shape {x.shape}")
    return x


def adjoint(x: Any) -> Any:
    """The conjugate transposes of matrices."""
    return np.conj(np.swapaxes(x, -1, -2))


def _parts(function: Function, *parts: Any) -> Any:
    """A result of several parts under NumPy's names."""
    return type(function(np.eye(1)))(*parts)


def _refuse(what: str, instead: str) -> TraceError:
    return TraceError(f"{user_line()}: {what} of a traced matrix; {instead}")


def _real(x: Any, name: str) -> Any:
    if x.dtype.kind == "c":
        raise _refuse(f"np.linalg.{name} (complex)", "write it with np.linalg.eigh(A.conj().T @ A)")
    return x


# -- decompositions


@stands_for(np.linalg.svd)
def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    x = _real(_matrices(a), "svd")
    if hermitian and compute_uv:
        raise _refuse("np.linalg.svd(hermitian=True)", "write it with np.linalg.eigh")
    if not compute_uv:
        return np.sort(np.abs(eigvalsh(x)), axis=-1)[..., ::-1] if hermitian else svdvals(x)
    u, s, vh = bound("left_vectors", x), bound("singular_values", x), bound("right_vectors", x)
    m, n = x.shape[-2:]
    if full_matrices and m > n:
        u = np.concatenate([u, bound("left_rest", x, count=n)], axis=-1)
    if full_matrices and m < n:
        vh = np.concatenate([vh, bound("right_rest", x, count=m)], axis=-2)
    return _parts(np.linalg.svd, u, s, vh)


@stands_for(np.linalg.svdvals, "scipy.linalg.svdvals")
def svdvals(x: Any) -> Any:
    return bound("singular_values", _real(_matrices(x), "svd"))


@stands_for(np.linalg.qr)
def qr(a: Any, mode: str = "reduced") -> Any:
    x = _real(_matrices(a), "qr")
    m, n = x.shape[-2:]
    if mode not in ("reduced", "r") and (mode != "complete" or m > n):
        raise _refuse(f"np.linalg.qr(mode={mode!r})", "mode='reduced': the other vectors span what the matrix does not")
    if m >= n:
        q, r = bound("orthogonal", x), bound("triangular", x)
    else:
        square = x[..., :m]
        q = bound("orthogonal", square)
        r = np.concatenate([bound("triangular", square), np.swapaxes(q, -1, -2) @ x[..., m:]], axis=-1)
    return r if mode == "r" else _parts(np.linalg.qr, q, r)


@stands_for(np.linalg.eig, fails="Array must not contain infs or NaNs")
def eig(a: Any) -> Any:
    """Complex always; each vector has norm 1, its phase is LAPACK's in the value and kept in the derivative."""
    x = _square(a)
    v = bound("general_eigenvectors", x)
    length = np.sqrt(np.sum(v.real**2 + v.imag**2, axis=-2, keepdims=True))
    return _parts(np.linalg.eig, bound("general_eigenvalues", x), v / length)


@stands_for(np.linalg.eigvals, fails="Array must not contain infs or NaNs")
def eigvals(a: Any) -> Any:
    return bound("general_eigenvalues", _square(a))


@stands_for(np.linalg.eigh)
def eigh(a: Any, UPLO: str = "L") -> Any:
    x = _hermitian(a, UPLO)
    return _parts(np.linalg.eigh, _eigenvalues(x), bound("eigenvectors", x))


@stands_for(np.linalg.eigvalsh)
def eigvalsh(a: Any, UPLO: str = "L") -> Any:
    return _eigenvalues(_hermitian(a, UPLO))


def _eigenvalues(x: Any) -> Any:
    found = bound("eigenvalues", x)
    return found.real if found.dtype.kind == "c" else found


def _hermitian(x: Any, uplo: str) -> Any:
    """The Hermitian matrices of which LAPACK reads one triangle."""
    a, (atom,) = traced_operands(_matrices(x))
    atom = a.mirrored(atom) if uplo.upper() == "U" else atom
    return traced_result(a, products.bind_hermitian(a, atom))


@stands_for(np.linalg.cholesky, fails="Matrix is not positive definite")
def cholesky(a: Any, /, *, upper: bool = False) -> Any:
    found = bound("cholesky", _hermitian(a, "U" if upper else "L"))
    return adjoint(found) if upper else found


# -- solvers

_ROUNDING = 1e-12  # of the largest singular value: what is cut below it moves no derivative by more


@stands_for(np.linalg.pinv)
def pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:
    x = _real(_matrices(a), "pinv")
    x = _hermitian(x, "L") if hermitian else x
    given_ = rcond if rcond is not None else rtol
    least = 1e-15 if given_ is None else float(given_)
    if least <= _ROUNDING:
        return bound("pinv", x, rcond=least)
    u, s, vh = svd(x, full_matrices=False)
    kept = s > least * np.max(s, axis=-1, keepdims=True)
    inverse = np.where(kept, 1 / np.where(kept, s, 1), 0)
    return np.swapaxes(vh, -1, -2) @ (inverse[..., None] * np.swapaxes(u, -1, -2))


@stands_for(np.linalg.lstsq, "scipy.linalg.lstsq")
def lstsq(a: Any, b: Array, rcond: Any = None) -> Any:
    """Residuals are those of full rank, and NaN where a singular value vanishes."""
    x = _matrices(a)
    if not x.size:
        raise ValueError("matrices without cells")
    m, n = x.shape
    columns = b if b.ndim == 2 else np.reshape(b, (-1, 1))
    if columns.shape[0] != m:
        raise ValueError("the numbers of rows do not fit")
    if rcond is not None and rcond > _ROUNDING:
        found = pinv(x, rcond) @ columns
    elif m >= n and n:
        found = bound("lstsq", x, columns)
    else:
        found = np.linalg.pinv(x, float(np.finfo(float).eps) * max(m, n)) @ columns
    away = columns - x @ found
    left = np.sum(squares(away), axis=0) if m > n else np.zeros(0)
    found = found if b.ndim == 2 else found[:, 0]
    if not holds_traced(a):
        rank, s = np.linalg.lstsq(np.asarray(a), np.zeros(m), rcond)[2:]
        return found, left if rank == n else np.zeros(0), rank, s
    gram = np.conj(x.T) @ x if m >= n else x @ np.conj(x.T)
    s = np.sqrt(np.linalg.eigvalsh(gram)[::-1]) if x.dtype.kind == "c" else np.linalg.svd(x, compute_uv=False)
    least = (np.finfo(x.dtype).eps * max(m, n) if rcond is None else max(rcond, np.finfo(x.dtype).eps)) * s[0]
    rank = np.count_nonzero(s > least)
    return found, np.where(rank == n, left, np.nan), rank, s


@stands_for(np.einsum, memory="view")
def einsum(*operands: Any, optimize: Any = False) -> Any:
    """With subscripts as text, or behind each operand as a list of integers."""
    spec, rest = operands[0], operands[1:]
    if not isinstance(spec, str):
        lists = list(operands[1::2])
        letters = [_letters(part) for part in lists]
        spec = ",".join(letters[: len(operands) // 2])
        spec += f"->{_letters(operands[-1])}" if len(operands) % 2 else ""
        rest = operands[: len(operands) // 2 * 2 : 2]
    a, found = traced_operands(*rest)
    return traced_result(a, products.bind_einsum(a, spec, *found))


def _letters(sublist: Any) -> str:
    """Axes given as integers, and an ellipsis, as letters."""
    return "".join("..." if axis is Ellipsis else chr(ord("a") + int(axis)) for axis in sublist)


@stands_for(np.linalg.tensorsolve)
def tensorsolve(a: Array, b: Array, axes: Any = None) -> Any:
    if axes is not None:
        rest = [i for i in range(a.ndim) if i not in axes]
        a = np.transpose(a, (*rest, *axes))
    shape = a.shape[b.ndim :]
    n = int(np.prod(shape, dtype=int))
    return np.reshape(np.linalg.solve(np.reshape(a, (-1, n)), np.ravel(b)), shape)


@stands_for(np.linalg.tensorinv)
def tensorinv(a: Array, ind: int = 2) -> Any:
    shape = (*a.shape[ind:], *a.shape[:ind])
    n = int(np.prod(a.shape[ind:], dtype=int))
    return np.reshape(np.linalg.inv(np.reshape(a, (-1, n))), shape)


# -- norms


@stands_for(np.linalg.norm, "scipy.linalg.norm")
def norm(x: Array, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    places = None if axis is None else normalize_axis_tuple(axis, x.ndim)
    if ord in (2, -2, "nuc") and (x.ndim if places is None else len(places)) == 2:
        return _of_singular_values(x, ord, places or (0, 1), keepdims)
    a, (atom,) = traced_operands(x)
    return traced_result(a, products.reducing.bind_norm(a, atom, ord, axis, keepdims))


@stands_for(np.linalg.matrix_norm)
def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    return norm(_matrices(x), ord, (-2, -1), keepdims)


def _of_singular_values(x: Any, ord: Any, axes: Shape, keepdims: bool) -> Any:
    kept = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
    s = svdvals(np.moveaxis(x, axes, (-2, -1)))
    found = np.sum(s, axis=-1) if ord == "nuc" else np.max(s, axis=-1) if ord == 2 else np.min(s, axis=-1)
    return np.reshape(found, kept) if keepdims else found


@stands_for(np.linalg.cond)
def cond(x: Any, p: Any = None) -> Any:
    x = _matrices(x)
    if 0 in x.shape[-2:]:
        raise ValueError("no condition number of matrices without cells")
    if p in (None, 2, -2):
        s = svdvals(x)
        found = s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    else:
        x = _square(x)
        singular = np.linalg.slogdet(x)[0] == 0
        wide = singular[..., None, None] if singular.shape else singular
        inverse = np.linalg.inv(np.where(wide, np.eye(x.shape[-1], dtype=x.dtype), x))
        found = np.where(singular, np.nan, norm(x, p, (-2, -1)) * norm(inverse, p, (-2, -1)))
    known = np.all(x == x, axis=(-2, -1))
    endless = np.exp(1e3 + np.sum(np.abs(x), axis=(-2, -1)))  # infinite, without a finite slope
    return np.where(np.logical_and(np.isnan(found), known), endless, found)
