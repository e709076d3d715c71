"""What stands for SciPy's functions of traced arrays: NumPy's, or products with the matrix of a linear function.

Assumes SciPy's own arguments, one of them with a traced cell; those that only steer the computation are passed over. Guarantees
SciPy's results up to rounding. Refuses parameters of filters that are traced, with `TraceError`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from symdiff.errors import TraceError
from symdiff.tracing.library import fourier, linear_algebra
from symdiff.tracing.library.shaping import along
from symdiff.tracing.values.operands import as_array, bound, holds_traced, part_of
from symdiff.tracing.values.standing import Array, stands_for
from symdiff.vocabulary.heads import Shape
from symdiff.vocabulary.libraries import user_line
from symdiff.vocabulary.signatures import Arguments, Function

# -- scipy.linalg


def _symmetric(a: Any, lower: bool) -> Any:
    return linear_algebra._hermitian(a, "L" if lower else "U")


@stands_for("scipy.linalg.solve")
def solve(a: Array, b: Array, lower: bool = False, assume_a: str | None = None, transposed: bool = False) -> Any:
    if assume_a in ("sym", "symmetric") and a.dtype.kind == "c":
        raise TraceError(f"{user_line()}: scipy.linalg.solve(assume_a={assume_a!r}) of a complex matrix; leave assume_a away")
    if assume_a in ("sym", "her", "pos", "symmetric", "hermitian", "positive definite"):
        a = _symmetric(a, lower)
    elif assume_a in ("upper triangular", "lower triangular"):
        a = np.tril(a) if assume_a.startswith("lower") else np.triu(a)
    elif assume_a in ("diagonal", "tridiagonal"):
        beside = int(assume_a == "tridiagonal")
        a = np.triu(np.tril(a, beside), -beside)
    return np.linalg.solve(a.T if transposed else a, b)


@stands_for("scipy.linalg.solve_triangular")
def solve_triangular(a: Array, b: Array, trans: Any = 0, lower: bool = False, unit_diagonal: bool = False) -> Any:
    a = np.tril(a) if lower else np.triu(a)
    if unit_diagonal:
        n = a.shape[-1]
        a = np.where(np.eye(n, dtype=bool), np.ones((), dtype=a.dtype), a)
    turned = a if trans in (0, "N") else np.swapaxes(a, -1, -2)
    return np.linalg.solve(np.conj(turned) if trans in (2, "C") else turned, b)


@stands_for("scipy.linalg.cholesky")
def cholesky(a: Any, lower: bool = False) -> Any:
    return linear_algebra.cholesky(a, upper=not lower)


@stands_for("scipy.linalg.cho_factor")
def cho_factor(a: Array, lower: bool = False) -> Any:
    import scipy.linalg

    factor = cholesky(a, lower)
    if (
        scipy.linalg.cho_factor(np.array([[2.0, 1.0], [1.0, 2.0]]))[0][1, 0] == 0.0
    ):  # SciPy 1.18; before, LAPACK leaves it as it is
        return factor, lower
    return factor + (np.triu(a, 1) if lower else np.tril(a, -1)), lower


@stands_for("scipy.linalg.cho_solve")
def cho_solve(c_and_lower: Any, b: Array) -> Any:
    factor, lower = c_and_lower
    factor = np.tril(as_array(factor)) if lower else linear_algebra.adjoint(np.triu(as_array(factor)))
    return np.linalg.solve(linear_algebra.adjoint(factor), np.linalg.solve(factor, b))


@stands_for("scipy.linalg.eigh")
def eigh(a: Any, b: Any = None, *, lower: bool = True, eigvals_only: bool = False) -> Any:
    x = _symmetric(a, lower)
    if b is None:
        return np.linalg.eigvalsh(x) if eigvals_only else tuple(np.linalg.eigh(x))
    factor = np.linalg.cholesky(_symmetric(b, lower))
    half = np.linalg.solve(factor, x)
    inner = np.linalg.solve(factor, linear_algebra.adjoint(half))
    if eigvals_only:
        return np.linalg.eigvalsh(inner)
    w, v = np.linalg.eigh(inner)
    return w, np.linalg.solve(linear_algebra.adjoint(factor), v)


@stands_for("scipy.linalg.eigvalsh")
def eigvalsh(a: Any, b: Any = None, *, lower: bool = True) -> Any:
    return eigh(a, b, lower=lower, eigvals_only=True)


@stands_for("scipy.linalg.svd")
def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    found = linear_algebra.svd(a, full_matrices, compute_uv)
    return tuple(found) if compute_uv else found


@stands_for("scipy.linalg.qr")
def qr(a: Any, mode: str = "full", pivoting: bool = False) -> Any:
    if pivoting:
        raise TraceError(f"{user_line()}: scipy.linalg.qr(pivoting=True) of a traced matrix; leave it away")
    found = linear_algebra.qr(a, {"full": "complete", "economic": "reduced"}.get(mode, mode))
    return (found,) if mode == "r" else tuple(found)


@stands_for("scipy.linalg.eig")
def eig(a: Array, b: Any = None, left: bool = False, right: bool = True) -> Any:
    if left or b is not None:
        raise TraceError(f"{user_line()}: scipy.linalg.eig(a, b) or with left=True of traced matrices; use eig(solve(b, a))")
    found = np.linalg.eig(a)
    return tuple(found) if right else found[0]


@stands_for("scipy.linalg.eigvals")
def eigvals(a: Array, b: Array = None) -> Any:
    return np.linalg.eigvals(a if b is None else np.linalg.solve(b, a))


@stands_for("scipy.linalg.pinv")
def pinv(a: Array, *, atol: Any = None, rtol: Any = None, return_rank: bool = False) -> Any:
    if atol is not None or return_rank:
        raise TraceError(f"{user_line()}: scipy.linalg.pinv with atol or return_rank of a traced matrix; rtol is possible")
    return linear_algebra.pinv(a, max(a.shape[-2:]) * float(np.finfo(a.dtype).eps) if rtol is None else rtol)


@stands_for("scipy.linalg.expm")
def expm(A: Any) -> Any:
    return bound("expm", linear_algebra._matrices(A))


@stands_for("scipy.linalg.null_space")
def null_space(A: Array, rcond: Any = None) -> Any:
    """Of matrices of full rank, which is a condition."""
    _, s, vh = np.linalg.svd(A)
    least = np.finfo(A.dtype).eps * max(A.shape[-2:]) if rcond is None else rcond
    if s.size and np.any(s[..., -1] <= least * s[..., 0]):
        raise TraceError(f"{user_line()}: null_space of a matrix without full rank, whose shape depends on its values")
    return np.swapaxes(vh[..., min(A.shape[-2:]) :, :], -1, -2)


@stands_for("scipy.linalg.polar")
def polar(a: Array, side: str = "right") -> Any:
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    s = s[..., None, :]
    return u @ vh, (np.swapaxes(vh, -1, -2) * s) @ vh if side == "right" else (u * s) @ np.swapaxes(u, -1, -2)


@stands_for("scipy.linalg.solve_sylvester")
def solve_sylvester(a: Array, b: Array, q: Array) -> Any:
    """By one system for all cells of the solution, of size n*m."""
    system = np.kron(a, np.eye(b.shape[0])) + np.kron(np.eye(a.shape[0]), b.T)
    return np.reshape(np.linalg.solve(system, np.ravel(q)), q.shape)


@stands_for("scipy.linalg.solve_continuous_lyapunov")
def solve_continuous_lyapunov(a: Array, q: Array) -> Any:
    return solve_sylvester(a, np.conj(a.T), np.reshape(q, q.shape or a.shape))


@stands_for("scipy.linalg.solve_discrete_lyapunov")
def solve_discrete_lyapunov(a: Array, q: Array, method: Any = None) -> Any:
    q = np.reshape(q, q.shape or a.shape)
    system = np.eye(q.size) - np.kron(a, np.conj(a))
    return np.reshape(np.linalg.solve(system, np.ravel(q)), q.shape)


@stands_for("scipy.linalg.circulant")
def circulant(c: Array) -> Any:
    n = c.shape[-1]
    return np.take(c, (np.arange(n)[:, None] - np.arange(n)) % n, axis=-1)


@stands_for("scipy.linalg.inv")
def inv(a: Array) -> Any:
    return np.linalg.inv(a)


@stands_for("scipy.linalg.det")
def det(a: Array) -> Any:
    return np.linalg.det(a)


# -- linear functions of one axis

LARGEST = 16_000_000  # cells of the matrix of such a function


def linear_along_axis(function: Callable[[np.ndarray], np.ndarray], x: Any, axis: int, name: str) -> Any:
    """`function`, linear and acting on the first axis, of the lines of x along an axis."""
    n = x.shape[axis]
    if n * n > LARGEST:
        raise TraceError(f"{user_line()}: {name} of {n} traced cells would be a matrix of {n}x{n} numbers; use shorter lines")
    matrix = np.asarray(function(np.eye(n, dtype=x.dtype.char.lower())))
    return along(matrix, x, normalize_axis_index(axis, x.ndim))


# -- scipy.integrate


@stands_for("scipy.integrate.simpson")
def simpson(y: Array, x: Any = None, *, dx: float = 1.0, axis: int = -1) -> Any:
    from scipy import integrate  # type: ignore[import-untyped]

    if holds_traced(x):
        raise TraceError(f"{user_line()}: scipy.integrate.simpson at traced points; np.trapezoid(y, x) takes them")
    axis = normalize_axis_index(axis, y.ndim)
    if np.ndim(x) > 1:
        raise TraceError(f"{user_line()}: scipy.integrate.simpson of traced values takes points with one axis")
    weights = integrate.simpson(np.eye(y.shape[axis]), x=x, dx=dx, axis=0)
    return np.tensordot(y, weights.astype(y.dtype), axes=(axis, 0))


# -- scipy.fft


def _cosines(name: str) -> Function:
    def transformed(x: Array, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None,
                    orthogonalize: bool | None = None) -> Any:  # fmt: skip
        from scipy import fft

        if orthogonalize and x.dtype.kind == "c":
            raise ValueError("orthogonalize=True of complex numbers; transform x.real and x.imag")
        x = x if n is None else part_of(x, normalize_axis_index(axis, x.ndim), slice(n))
        return linear_along_axis(
            lambda e: getattr(fft, name)(e, type, n, 0, norm, orthogonalize=orthogonalize), x, axis, f"scipy.fft.{name}"
        )

    return transformed


for _name in ("dct", "idct", "dst", "idst"):
    stands_for(f"scipy.fft.{_name}")(_cosines(_name))


# -- scipy.signal and scipy.ndimage


@stands_for("scipy.signal.convolve")
def convolve(in1: Array, in2: Array, mode: str = "full", method: str = "auto") -> Any:
    if in1.ndim != in2.ndim:
        raise ValueError("arrays with the same number of axes are needed")
    if in1.ndim == 0:
        return in1 * in2
    whole = np.convolve(in1, in2) if in1.ndim == 1 else _spectral(in1, in2, tuple(range(in1.ndim)))
    return _centred(whole, in1.shape, in2.shape, mode)


@stands_for("scipy.signal.correlate")
def correlate(in1: Array, in2: Array, mode: str = "full", method: str = "auto") -> Any:
    return convolve(in1, np.conj(np.flip(in2)) if in2.dtype.kind == "c" else np.flip(in2), mode)


@stands_for("scipy.signal.fftconvolve", "scipy.signal.oaconvolve")
def fftconvolve(in1: Array, in2: Array, mode: str = "full", axes: Any = None) -> Any:
    places = (
        tuple(range(in1.ndim)) if axes is None else tuple(normalize_axis_index(int(i), in1.ndim) for i in np.atleast_1d(axes))
    )
    return _centred(_spectral(in1, in2, places), in1.shape, in2.shape, mode, places)


@stands_for("scipy.signal.convolve2d")
def convolve2d(in1: Array, in2: Array, mode: str = "full", boundary: str = "fill", fillvalue: float = 0) -> Any:
    """By shifted copies for each cell of the smaller array."""
    if boundary != "fill" or holds_traced(fillvalue) or fillvalue != 0:
        raise TraceError(
            f"{user_line()}: scipy.signal.convolve2d of traced values beyond zeros at the edges; pad with np.pad first"
        )
    small, large = (in2, in1) if in2.size <= in1.size else (in1, in2)
    whole = None
    for i, j in np.ndindex(small.shape):
        rows, columns = (i, small.shape[0] - 1 - i), (j, small.shape[1] - 1 - j)
        term = np.pad(large, (rows, columns)) * small[i, j]
        whole = term if whole is None else whole + term
    return _centred(whole, in1.shape, in2.shape, mode)


def _spectral(x: Any, y: Any, axes: Shape) -> Any:
    sizes = [x.shape[i] + y.shape[i] - 1 for i in axes]
    if x.dtype.kind == "c" or y.dtype.kind == "c":
        return fourier.ifftn(fourier.fftn(x, sizes, axes) * fourier.fftn(y, sizes, axes), sizes, axes)
    return fourier.irfftn(fourier.rfftn(x, sizes, axes) * fourier.rfftn(y, sizes, axes), sizes, axes)


def _centred(whole: Any, first: Shape, second: Shape, mode: str, axes: Shape | None = None) -> Any:
    """The part of a full convolution that a mode of SciPy's keeps."""
    if mode == "full":
        return whole
    if mode not in ("same", "valid"):
        raise ValueError(f"mode={mode!r}; 'full', 'same' or 'valid'")
    key = [slice(None)] * len(first)
    for i in range(len(first)) if axes is None else axes:
        n, m = first[i], second[i]
        count = n if mode == "same" else max(n, m) - min(n, m) + 1
        start = (n + m - 1 - count) // 2
        key[i] = slice(start, start + count)
    return whole[tuple(key)]


@stands_for("scipy.signal.lfilter")
def lfilter(b: Any, a: Any, x: Array, axis: int = -1, zi: Any = None) -> Any:
    if zi is not None:
        raise TraceError(f"{user_line()}: scipy.signal.lfilter(zi=...) of traced values; write the recursion as a loop")
    return _filtered("signal", "lfilter", lambda f, e: f(b, a, e, axis=0), x, axis, (a, b))


@stands_for("scipy.signal.filtfilt")
def filtfilt(b: Any, a: Any, x: Array, axis: int = -1, **options: Any) -> Any:
    return _filtered("signal", "filtfilt", lambda f, e: f(b, a, e, axis=0, **options), x, axis, (a, b))


@stands_for("scipy.signal.sosfilt")
def sosfilt(sos: Any, x: Array, axis: int = -1) -> Any:
    return _filtered("signal", "sosfilt", lambda f, e: f(sos, e, axis=0), x, axis, (sos,))


@stands_for("scipy.signal.sosfiltfilt")
def sosfiltfilt(sos: Any, x: Array, axis: int = -1, **options: Any) -> Any:
    return _filtered("signal", "sosfiltfilt", lambda f, e: f(sos, e, axis=0, **options), x, axis, (sos,))


@stands_for("scipy.signal.detrend")
def detrend(data: Array, axis: int = -1, type: str = "linear", bp: Any = 0) -> Any:
    return _filtered("signal", "detrend", lambda f, e: f(e, axis=0, type=type, bp=bp), data, axis, (bp,))


@stands_for("scipy.signal.savgol_filter")
def savgol_filter(x: Array, window_length: int, polyorder: int, deriv: int = 0, delta: float = 1.0, axis: int = -1,
                  mode: str = "interp", cval: float = 0.0) -> Any:  # fmt: skip
    if mode == "constant" and cval:
        raise TraceError(f"{user_line()}: scipy.signal.savgol_filter with cval={cval} of traced values; pad with np.pad first")

    def lines(f: Any, e: np.ndarray) -> Any:
        return f(e, window_length, polyorder, deriv, delta, axis=0, mode=mode)

    return _filtered("signal", "savgol_filter", lines, x, axis, (window_length, polyorder, deriv, delta))


@stands_for("scipy.signal.hilbert")
def hilbert(x: Array, N: int | None = None, axis: int = -1) -> Any:
    return _filtered("signal", "hilbert", lambda f, e: f(e, N, axis=0), x, axis, ())


def _along_axis(name: str) -> Function:
    """A filter of `scipy.ndimage` along one axis."""

    def filtered(input: Array, *args: Any, axis: int = -1, **options: Any) -> Any:
        if options.get("mode") == "constant" and options.get("cval"):
            raise TraceError(f"{user_line()}: scipy.ndimage.{name} with cval of traced values; pad with np.pad first")
        return _filtered("ndimage", name, lambda f, e: f(e, *args, axis=0, **options), input, axis, args)

    return filtered


def _along_axes(name: str) -> Function:
    """A filter of `scipy.ndimage` that works along one axis after the other, with a parameter for each."""

    def filtered(input: Array, parameter: Any = None, **options: Any) -> Any:
        x, key = input, {"gaussian_filter": "sigma", "uniform_filter": "size"}[name]
        parameter = options.pop(key, parameter)
        for axis, own in enumerate(np.broadcast_to(parameter, (x.ndim,)).tolist()):
            x = _along_axis(f"{name}1d")(x, own, axis=axis, **options)
        return x

    return filtered


def _filtered(package: str, name: str, lines: Callable[[Any, np.ndarray], Any], x: Any, axis: int, static: Arguments) -> Any:
    """A linear function of the lines of x along an axis, SciPy's own with static parameters."""
    import importlib

    if any(map(holds_traced, static)):
        raise TraceError(f"{user_line()}: scipy.{package}.{name} with traced parameters; write it as a loop")
    function = getattr(importlib.import_module(f"scipy.{package}"), name)
    return linear_along_axis(lambda e: lines(function, e), x, axis, f"scipy.{package}.{name}")


for _name in ("gaussian_filter1d", "uniform_filter1d", "convolve1d", "correlate1d"):
    stands_for(f"scipy.ndimage.{_name}")(_along_axis(_name))
for _name in ("gaussian_filter", "uniform_filter"):
    stands_for(f"scipy.ndimage.{_name}")(_along_axes(_name))
