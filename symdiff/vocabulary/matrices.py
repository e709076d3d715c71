"""Functions of matrices that NumPy has not, or not in one array: the exponential, cofactors, parts of a decomposition together.

Assumes arrays whose last two axes are matrices. Generated files have the source of these functions, which therefore call NumPy
and one another only, by NumPy's names and their own.
"""

import inspect
import io
import tokenize
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np


def expm(x: Any) -> Any:
    """The matrix exponential: scaling, a Padé approximant of degree 13, squaring.

    N. J. Higham, SIAM J. Matrix Anal. Appl. 26(4), 2005.
    """
    b = (64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0, 10559470521600.0,
         670442572800.0, 33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0)  # fmt: skip
    reach = 5.371920351148152  # the norm up to which these coefficients give an error below that of rounding
    norm = np.max(np.abs(x).sum(-2)) if np.size(x) else 0.0
    k = max(0, int(np.ceil(np.log2(norm / reach)))) if 0 < norm < np.inf else 0
    a = x / 2.0**k
    eye = np.eye(np.shape(x)[-1], dtype=np.asarray(a).dtype)
    a2 = a @ a
    a4 = a2 @ a2
    a6 = a4 @ a2
    u = a @ (a6 @ (b[13] * a6 + b[11] * a4 + b[9] * a2) + b[7] * a6 + b[5] * a4 + b[3] * a2 + b[1] * eye)
    v = a6 @ (b[12] * a6 + b[10] * a4 + b[8] * a2) + b[6] * a6 + b[4] * a4 + b[2] * a2 + b[0] * eye
    result = np.linalg.solve(v - u, v + u)
    for _ in range(k):
        result = result @ result
    return result


def packed(parts: Any, lead: tuple[int, ...]) -> Any:
    """The parts of a decomposition behind one another; `lead` is the shape to which each is flattened."""
    return np.concatenate([np.reshape(p, lead) for p in parts], -1)


def singular_vectors(x: Any) -> Any:
    """Which matrices are finite, and their singular vectors and values; those of zeros for others, which have none."""
    finite = np.all(np.isfinite(x), axis=(-2, -1), keepdims=True)
    return finite, *np.linalg.svd(np.where(finite, x, 0.0))


def cofactors(x: Any) -> Any:
    """The cofactors of square matrices, singular ones included: det(u) det(vh) u diag(products of the other s) vh."""
    finite, u, s, vh = singular_vectors(x)
    others = np.prod(np.where(np.eye(s.shape[-1], dtype=bool), 1.0, s[..., None, :]), -1)
    sign = np.linalg.det(u) * np.linalg.det(vh)
    return np.where(finite, sign[..., None, None] * ((np.conj(u) * others[..., None, :]) @ np.conj(vh)), np.nan)


def cofactors_along(x: Any, e: Any) -> Any:
    """The derivative of the cofactors of x along e, singular matrices included: in the singular vectors, a matrix of products
    of the other singular values."""
    finite, u, s, vh = singular_vectors(x)
    n = s.shape[-1]
    own = np.eye(n, dtype=bool)
    pairs = np.prod(np.where(own[:, None] | own, 1.0, s[..., None, None, :]), -1) * ~own
    inner = np.conj(u.swapaxes(-1, -2)) @ e @ np.conj(vh.swapaxes(-1, -2))
    turned = -pairs * inner.swapaxes(-1, -2)
    diagonal = np.diagonal(inner, axis1=-2, axis2=-1)
    turned[..., range(n), range(n)] = (pairs @ diagonal[..., None])[..., 0]
    sign = np.linalg.det(u) * np.linalg.det(vh)
    return np.where(finite, sign[..., None, None] * (np.conj(u) @ turned @ np.conj(vh)), np.nan)


def inverse_transposed(x: Any) -> Any:
    """The transposed inverse; cofactors over zero, infinite or NaN, where a matrix is singular."""
    try:
        return np.linalg.inv(x).swapaxes(-1, -2)
    except np.linalg.LinAlgError:
        with np.errstate(all="ignore"):
            return cofactors(x) / np.linalg.det(x)[..., None, None]


def triangular_inverse(x: Any, lower: bool) -> Any:
    """The inverses of triangular matrices, by halves: nearly all of the work is products."""
    n = x.shape[-1]
    if n <= 48:
        return (np.tril if lower else np.triu)(np.linalg.inv(x))
    h = n // 2
    found = np.zeros_like(x)
    first = found[..., :h, :h] = triangular_inverse(x[..., :h, :h], lower)
    second = found[..., h:, h:] = triangular_inverse(x[..., h:, h:], lower)
    if lower:
        found[..., h:, :h] = -second @ (x[..., h:, :h] @ first)
    else:
        found[..., :h, h:] = -first @ (x[..., :h, h:] @ second)
    return found


def triangular_solution(x: Any, b: Any, lower: bool) -> Any:
    """The solutions of triangular systems, by halves: nearly all of the work is products."""
    n = x.shape[-1]
    if n <= 48:
        return np.linalg.solve(x, b)
    h = n // 2
    if lower:
        first = triangular_solution(x[..., :h, :h], b[..., :h, :], lower)
        second = triangular_solution(x[..., h:, h:], b[..., h:, :] - x[..., h:, :h] @ first, lower)
    else:
        second = triangular_solution(x[..., h:, h:], b[..., h:, :], lower)
        first = triangular_solution(x[..., :h, :h], b[..., :h, :] - x[..., :h, h:] @ second, lower)
    return np.concatenate([first, second], -2)


def with_eigenvalues(x: Any, g: Any) -> Any:
    """The matrix with the eigenvectors of a Hermitian one, and other eigenvalues."""
    v = np.linalg.eigh(x)[1]
    return (v * g[..., None, :]) @ np.conj(v.swapaxes(-1, -2))


def with_singular_values(x: Any, g: Any) -> Any:
    """The matrix with the singular vectors of another one, and other singular values."""
    u, _, vh = np.linalg.svd(x, full_matrices=False)
    return (u * g[..., None, :]) @ vh


def is_definite(x: Any) -> Any:
    """1 for each Hermitian matrix that has a Cholesky factor, 0 for others."""
    found = np.ones(x.shape[:-2])
    for k in np.ndindex(found.shape):
        try:
            np.linalg.cholesky(x[k])
        except np.linalg.LinAlgError:
            found[k] = 0.0
    return found[()]


def permuted(x: Any, places: Any, axis: int) -> Any:
    """The cells of x where a permutation along an axis took them from."""
    found = np.empty_like(x)
    np.put_along_axis(found, places.astype(int), x, axis)
    return found


def sources_of(functions: Iterable[Callable[..., Any]], module: str) -> list[str]:
    """The sources of functions of this file, with those that they call; names get an underscore, and NumPy's is `module`."""
    own = {name: f for name, f in globals().items() if inspect.isfunction(f)}
    found: dict[str, None] = dict.fromkeys(f.__name__ for f in functions)
    stack = list(found)
    while stack:
        stack += [name for name in own[stack.pop()].__code__.co_names if name in own and name not in found]
        found |= dict.fromkeys(stack)
    return [_renamed(inspect.getsource(own[name]).rstrip(), {"np": module} | {n: f"_{n}" for n in own}) for name in found]


def _renamed(text: str, names: dict[str, str]) -> str:
    lines = text.splitlines()
    for token in reversed(list(tokenize.generate_tokens(io.StringIO(text).readline))):
        if token.type == tokenize.NAME and token.string in names:
            (row, start), (_, end) = token.start, token.end
            lines[row - 1] = lines[row - 1][:start] + names[token.string] + lines[row - 1][end:]
    return "\n".join(line.removesuffix("  # fmt: skip") for line in lines)
