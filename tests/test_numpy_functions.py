"""NumPy's and SciPy's functions that are written with simpler ones: values, derivatives, vmap, dtypes, edges, refusals."""

import decimal
import fractions

import numpy as np
import pytest
import scipy.fft
import scipy.integrate
import scipy.interpolate
import scipy.linalg
import scipy.ndimage
import scipy.optimize
import scipy.signal
import scipy.stats

import symdiff as sd
from symdiff import structures
from symdiff.functions import Plain

rng = np.random.default_rng(0)
v, w, b = rng.standard_normal(6), rng.standard_normal(6), rng.standard_normal(4)
u = np.sort(rng.uniform(0, 1, 6))
A, C, S = rng.standard_normal((3, 4)), rng.standard_normal((2, 3, 4)), rng.standard_normal((4, 4))
P = S @ S.T + 4 * np.eye(4)
N = np.where(np.arange(6) == 2, np.nan, v)
NODES = np.linspace(-2.0, 2.0, 30)


def half_and_full(v):
    spectrum = np.fft.rfft(v)
    return np.abs(spectrum) ** 2, np.fft.irfft(spectrum * np.exp(-np.arange(4.0)), 7), np.fft.ifft(np.fft.fft(v, 8)).real


def placed(v):
    y = np.zeros(6) + v
    np.put(y, [0, -1], [v[1], 2.0])
    np.place(y, np.arange(6) == 3, [v[0]])
    np.putmask(y, y > 1, v * v)
    return y


def filled_diagonal(S):
    y = S * 2.0
    np.fill_diagonal(y, S[0])
    return y


def low_rank(A):
    p, s, q = np.linalg.svd(A, full_matrices=False)
    return (p * np.sqrt(s)) @ q


def ramp(t):
    return t * t if t > 0 else -t


CASES = {
    # statistics
    "quantile": (lambda A: (np.quantile(A, [0.1, 0.5, 0.9], axis=1), np.percentile(A, 30), np.median(A, axis=0, keepdims=True)), (A,)),
    "quantile methods": (lambda v: [np.quantile(v, 0.3, method=m) for m in ("lower", "midpoint", "hazen", "weibull")], (v,)),
    "median of several axes": (lambda C: (np.median(C, axis=(0, 2)), np.median(C)), (C,)),
    "nan": (lambda v: (np.nansum(v), np.nanmean(v), np.nanvar(v, ddof=1), np.nanstd(v), np.nanmax(v), np.nanmin(v), np.nanprod(v)), (N,)),
    "running nan": (lambda v: (np.nancumsum(v), np.nancumprod(v), np.nan_to_num(v, nan=2.0)), (N,)),
    "nanquantile": (lambda v: (np.nanmedian(v), np.nanquantile(v, 0.3), np.nanpercentile(v, [10, 70])), (N,)),
    "nan axes": (lambda A: (np.nanmean(A, axis=0), np.nansum(A, axis=1, keepdims=True), np.nanmedian(A, axis=1)), (A,)),
    "cov": (lambda A: (np.cov(A), np.cov(A, rowvar=False, ddof=0), np.cov(A, aweights=np.arange(1.0, 5.0))), (A,)),
    "correlation": (lambda v, w: (np.cov(v, w, fweights=[1, 2, 1, 1, 3, 1]), np.corrcoef(v, w)), (v, w)),
    "bins": (lambda v: (np.bincount([0, 1, 1, 2, 0, 1], weights=v), np.histogram(u, bins=3, weights=v)[0]), (v,)),
    # grids and pieces
    "meshgrid": (lambda v, b: (*np.meshgrid(v, b), *np.meshgrid(v, b, indexing="ij", sparse=True)), (v, b)),
    "spaces": (lambda v: (np.linspace(v[0], v[1], 5), np.linspace(v[:2], v[2:4], 3, axis=1), np.logspace(v[0], 1.0, 4)), (v,)),
    "geomspace": (lambda v: np.geomspace(v[0] ** 2, 4.0, 5), (v,)),
    "block": (lambda A, b: (np.block([[A, A], [2 * A, A]]), np.block([[A], [b]])), (A, b)),
    "split": (lambda A: (*np.hsplit(A, 2), *np.vsplit(A, 3), *np.array_split(A, 3, axis=1)), (A,)),
    "windows": (lambda v: np.lib.stride_tricks.sliding_window_view(v, 3), (v,)),
    "resize": (lambda A: (np.resize(A, (2, 5)), *np.broadcast_arrays(A, A[0])), (A,)),
    "picked": (lambda v: (np.compress([True, False, True], v), np.extract(np.arange(6) % 2 == 0, v), np.choose([0, 1, 1], [v[:3], v[3:]])), (v,)),
    "along": (lambda A: np.take_along_axis(A, np.array([[0, 1], [3, 2], [1, 1]]), 1), (A,)),
    "placed": (placed, (v,)),
    "diagonal": (filled_diagonal, (S,)),
    "triangles": (lambda S: (S[np.tril_indices_from(S)], S[np.triu_indices_from(S, 1)], S[np.diag_indices_from(S)]), (S,)),
    "pad": (lambda A: (np.pad(A, 2, mode="linear_ramp", end_values=1.0), np.pad(A, ((0, 2), (1, 0)), mode="mean", stat_length=2)), (A,)),
    "pad extremes": (lambda A: [np.pad(A, 1, mode=m) for m in ("maximum", "minimum", "median", "reflect", "wrap")], (A,)),
    "pad odd": (lambda v: (np.pad(v, 2, mode="reflect", reflect_type="odd"), np.pad(v, 1, constant_values=v[0])), (v,)),
    "rows": (lambda A: (np.apply_along_axis(lambda r: r / np.sum(r * r), 1, A), np.apply_over_axes(np.sum, A, [0])), (A,)),
    "vectorize": (lambda v: (np.vectorize(ramp)(v), np.vectorize(lambda r: r @ r, signature="(n)->()")(v.reshape(2, 3))), (v,)),
    "excluded": (lambda v: np.vectorize(lambda t, k: t**k, excluded=["k"])(v, k=3), (v,)),
    "made": (lambda v: (np.fromiter((t * t for t in v), dtype=float), np.fromfunction(lambda i, j: v[0] * i + v[1] * j, (2, 3))), (v,)),
    "lists": (lambda v: (np.gradient([v[0], v[1], v[2]]), np.median([v[0], v[1], 2.0]), np.meshgrid([v[0], 1.0], [v[1]])[0]), (v,)),
    # differences, interpolation, running functions
    "diff": (lambda A: (np.diff(A, prepend=0.0), np.diff(A, 2, axis=0, append=A[:1]), np.ediff1d(A, to_begin=1.0, to_end=[A[0, 0]])), (A,)),
    "gradient": (lambda A: (*np.gradient(A, 0.5, edge_order=2), np.gradient(A, [0.0, 0.3, 1.0], axis=0)), (A,)),
    "uneven gradient": (lambda v, u: (np.gradient(v, u), np.gradient(v, u, edge_order=2)), (v, u)),
    "interp": (lambda v: np.interp(v, NODES[::5], np.sin(NODES[::5])), (v,)),
    "interp nodes": (lambda v, u, w: (np.interp(v, 3 * u - 1, w), np.interp(0.3, u, w, left=0.0)), (v, u, w)),
    "interp many": (lambda v, y: (np.interp(v, NODES, y), np.interp(0.3, NODES, y)), (v, np.sin(NODES))),
    "interp periodic": (lambda v, w: np.interp(v, np.linspace(-1, 0.9, 6), w, period=2.0), (v, w)),
    "unwrap": (lambda v: (np.unwrap(5 * v), np.unwrap(np.angle(np.exp(3j * v)))), (v,)),
    "running": (lambda A: (np.cumulative_sum(A, axis=1, include_initial=True), np.cumulative_prod(A, axis=0)), (A,)),
    "accumulate": (lambda v: (np.maximum.accumulate(v), np.add.accumulate(v), np.logaddexp.accumulate(v)), (v,)),
    "outer": (lambda v, b: (np.subtract.outer(v, b), np.add.reduceat(v, [0, 2, 4]), np.multiply.reduceat(v, [3, 1, 4])), (v, b)),
    "comparisons": (lambda v: (np.isclose(v, v[0]) * v, np.allclose(v, v) * v, np.array_equal(v, v) * v, np.count_nonzero(v > 0) * v), (v,)),
    # polynomials
    "polyval": (lambda b, v: (np.polyval(b, v), np.polyval(np.polyder(b, 2), v), np.polyint(b, 2, k=[1.0, 2.0])), (b, v)),
    "polynomials": (lambda b, v: (np.polyadd(b, v), np.polysub(b, v), np.polymul(b, v), *np.polydiv(v, b), np.poly(b)), (b + 2, v)),
    "vander": (lambda v: (np.vander(v, 3), np.vander(v, 3, increasing=True)), (v,)),
    "roots": (lambda b: np.sum(np.roots(b * 0.1 + np.array([1.0, -2.0, -5.0, 6.0])) ** 3).real, (b,)),
    "polyfit": (lambda u, v: (np.polyfit(u, v, 2), np.polyfit(u, v, 1, w=1 + u)), (u * 3, v)),
    "numpy.polynomial": (lambda b, v: (np.polynomial.Polynomial(b).deriv()(v), np.polynomial.chebyshev.chebfit(u, v, 2)), (b, v)),
    # Fourier transforms
    "fft": (lambda v: (np.fft.fft(v), np.fft.ifft(v, 9), np.fft.fft(v, 4, norm="ortho")), (v,)),
    "rfft": (lambda v: (np.fft.rfft(v), np.fft.rfft(v, 9, norm="ortho"), np.fft.ihfft(v, norm="forward"), np.fft.hfft(v)), (v,)),
    "half and full": (half_and_full, (v,)),
    "fft axes": (lambda A: (np.fft.rfft(A, axis=0), np.fft.fft2(A), np.fft.irfft2(np.fft.rfft2(A, norm="ortho"))), (A,)),
    "fftn": (lambda C: (np.fft.fftn(C, axes=(0, 2)), np.fft.irfftn(np.fft.rfftn(C), s=(2, 3, 5), axes=(0, 1, 2))), (C,)),
    "fftshift": (lambda A: (np.fft.fftshift(A, axes=1), np.fft.ifftshift(A)), (A,)),
    # matrices
    "svd": (low_rank, (A,)),
    "singular values": (lambda A: (np.linalg.svd(A)[1], np.linalg.svdvals(A.T), np.linalg.svd(A, compute_uv=False)), (A,)),
    "null space": (lambda A: (lambda q, p: (q.T @ q, p @ p.T))(np.linalg.svd(A)[2][3:], np.linalg.svd(A.T)[0][:, 3:]), (A,)),
    "qr": (lambda A: (*np.linalg.qr(A), *np.linalg.qr(A.T), np.linalg.qr(A.T, mode="r")), (A,)),
    "eigvals": (lambda S: (np.sum(np.abs(np.linalg.eigvals(S)) ** 2), np.prod(np.linalg.eigvals(S + P)).real), (S,)),
    "eig": (lambda P: np.abs((lambda d, V: (V * np.exp(0.1 * d)) @ np.linalg.inv(V))(*np.linalg.eig(P))), (P + 0.1 * S,)),
    "eigh": (lambda P: (np.linalg.eigvalsh(P, UPLO="U"), (lambda d, V: (V * np.sqrt(d)) @ V.T)(*np.linalg.eigh(P))), (P,)),
    "cholesky": (lambda P: (np.linalg.cholesky(P), np.linalg.cholesky(P, upper=True)), (P,)),
    "pinv": (lambda A: (np.linalg.pinv(A), np.linalg.pinv(A.T)), (A,)),
    "lstsq": (lambda A, b: (*np.linalg.lstsq(A.T, b)[:2], np.linalg.lstsq(A, b[:3])[0]), (A, b)),
    "norms": (lambda A: [np.linalg.norm(A, k) for k in (2, -2, "nuc")] + [np.linalg.matrix_norm(A), np.linalg.norm(A[0], -1)], (A,)),
    "cond": (lambda S: (np.linalg.cond(S), np.linalg.cond(S, 1), np.linalg.cond(S, "fro"), np.linalg.cond(S, -2)), (S,)),
    "tensors": (lambda P: (np.linalg.tensorsolve(P.reshape(2, 2, 2, 2), np.eye(2)), np.linalg.tensorinv(P.reshape(2, 2, 2, 2))), (P,)),
    "einsum of lists": (lambda A: np.einsum(A, [0, 1], A, [2, 1], [2, 0]), (A,)),
    # SciPy
    "expm": (lambda S: (scipy.linalg.expm(S), scipy.linalg.expm(3 * S) * 1e-3), (S,)),
    "triangular": (lambda S, b: (scipy.linalg.solve_triangular(S + 3 * np.eye(4), b, trans=1), scipy.linalg.cholesky(S @ S.T + P)), (S, b)),
    "factored": (lambda P, b: (scipy.linalg.cho_solve(scipy.linalg.cho_factor(P), b), scipy.linalg.solve(P, b, assume_a="pos")), (P, b)),
    "scipy eigh": (lambda P, S: (scipy.linalg.eigh(P, S @ S.T + P, eigvals_only=True), scipy.linalg.eigvalsh(P), scipy.linalg.pinv(P)), (P, S)),
    "equations": (lambda P, S: (scipy.linalg.solve_sylvester(P, P, S), scipy.linalg.solve_discrete_lyapunov(0.05 * P, S)), (P, S)),
    "polar": (lambda S: (*scipy.linalg.polar(S), scipy.linalg.circulant(S[0]), scipy.linalg.qr(S, mode="economic")[1]), (S,)),
    "simpson": (lambda v: (scipy.integrate.simpson(v, dx=0.1), scipy.integrate.simpson(v, x=u), scipy.integrate.cumulative_trapezoid(v)), (v,)),
    "scipy.fft": (lambda v: (scipy.fft.dct(v), scipy.fft.idst(v, type=3, norm="ortho"), scipy.fft.rfft(v, workers=1)), (v,)),
    "convolutions": (lambda v, b: [g(v, b, mode=m) for g in (scipy.signal.convolve, scipy.signal.correlate) for m in ("same", "valid")], (v, b)),
    "convolve2d": (lambda A, S: (scipy.signal.convolve2d(A, S, mode="same"), scipy.signal.fftconvolve(A, S)), (A, S)),
    "filters": (lambda v: (scipy.signal.lfilter([0.5, 0.2], [1.0, -0.3], v), scipy.signal.detrend(v), scipy.signal.savgol_filter(v, 5, 2)), (v,)),
    "hilbert": (lambda v: (np.abs(scipy.signal.hilbert(v)), scipy.ndimage.gaussian_filter(v, 1.0)), (v,)),
    "normal distribution": (lambda v, w: (scipy.stats.norm.logpdf(v, w, 2.0), scipy.stats.norm.cdf(v), scipy.stats.norm.ppf(0.4 + 0.1 * v)), (v, w)),
}  # fmt: skip


def parts(value):
    return [np.asarray(leaf) for leaf in structures.leaves(value)]


def weighted(h):
    """A smooth real number from all results of h, complex ones too."""

    def f(*args):
        total = 0.0
        for k, part in enumerate(structures.leaves(h(*args))):
            shape = np.shape(part)
            waves = np.cos(np.arange(int(np.prod(shape, dtype=int))) + k).reshape(shape)
            total = total + np.sum(waves * (np.real(part) + np.imag(part)) * np.real(part))
        return total

    return f


def along(f, args, direction, step=1e-6):
    """A central difference along a direction."""
    ahead, behind = (f(*(a + s * d for a, d in zip(args, direction, strict=True))) for s in (step, -step))
    return (np.asarray(ahead) - np.asarray(behind)) / (2 * step)


def directions(args, seed=1):
    own = np.random.default_rng(seed)
    return tuple(np.where(np.isfinite(a), own.standard_normal(np.shape(a)), 0.0) for a in args)


def unrolls(h, args):
    """Whether all operations of a function have a form for single cells."""
    try:
        sd.trace(h, *args)
        Plain(h, scalarize=True).graph(*args)
    except sd.TraceError as error:
        assert "works on whole arrays only" in str(error)
        return False
    return True


REGIMES = {
    "arrays": {"scalarize": False, "backend": "numpy"},
    "machine code": {"scalarize": False, "backend": "native"},
    "cells": {"scalarize": True, "backend": "numpy"},
}


def in_regime(regime, h, args):
    """The options of a regime; skips where it does not apply."""
    if regime == "machine code":
        pytest.importorskip("llvmlite", reason="machine code needs llvmlite")
    if regime == "cells" and not unrolls(h, args):
        return None
    return REGIMES[regime]


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("name", CASES)
def test_values_are_numpys(name, regime):
    h, args = CASES[name]
    options = in_regime(regime, h, args)
    if options is None:
        return  # heads of linear algebra work on whole arrays, which `test_regimes` checks
    wanted = parts(h(*args))
    found = parts(Plain(h, **options)(*args))
    assert [f.shape for f in found] == [e.shape for e in wanted]
    for f, expected in zip(found, wanted, strict=True):
        np.testing.assert_allclose(f, expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", CASES)
def test_derivatives(name):
    """Gradient and tangent against differences of the function, their derivatives against differences of the gradient."""
    h, args = CASES[name]
    f, d = weighted(h), directions(args)
    places = tuple(range(len(args)))
    expected = along(f, args, d)
    slopes = sd.grad(f, places, scalarize=False)
    gradient = slopes(*args)
    scale = max(1.0, abs(expected))
    dot = sum(np.sum(g * e) for g, e in zip(gradient, d, strict=True))
    assert dot == pytest.approx(expected, rel=1e-5, abs=1e-6 * scale)
    assert sd.jvp(f, places, scalarize=False)(*args, d)[1] == pytest.approx(dot, rel=1e-8, abs=1e-9 * scale)
    if unrolls(h, args):
        for cell, whole in zip(sd.grad(f, places, scalarize=True)(*args), gradient, strict=True):
            np.testing.assert_allclose(cell, whole, rtol=1e-8, atol=1e-9 * scale)
    second = sd.hvp(f, places, scalarize=False)(*args, d)
    for k, product in enumerate(second):
        wanted = along(lambda *x, k=k: slopes(*x)[k], args, d)
        np.testing.assert_allclose(product, wanted, rtol=1e-4, atol=1e-5 * max(1.0, np.max(np.abs(wanted))))


@pytest.mark.parametrize("name", CASES)
def test_many_points(name):
    h, args = CASES[name]
    many = [np.stack([a, a * 1.01]) for a in args]
    found = parts(sd.vmap(Plain(h, scalarize=False))(*many))
    for k, wanted in enumerate(zip(*(parts(h(*(m[i] for m in many))) for i in range(2)), strict=True)):
        np.testing.assert_allclose(found[k], np.stack(wanted), rtol=1e-8, atol=1e-9)
