"""NumPy's functions that are written with simpler ones: values, derivatives, vmap, dtypes, edges, refusals."""

import decimal
import fractions
import math

import numpy as np
import pytest
from inside import HEADS, Plain, structures

import symdiff as sd

rng = np.random.default_rng(0)
v, w, b = rng.standard_normal(6), rng.standard_normal(6), rng.standard_normal(4)
u = np.sort(rng.uniform(0, 1, 6))
A, C, S = rng.standard_normal((3, 4)), rng.standard_normal((2, 3, 4)), rng.standard_normal((4, 4))
P = S @ S.T + 4 * np.eye(4)
N = np.where(np.arange(6) == 2, np.nan, v)
NODES = np.linspace(-2.0, 2.0, 105)


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
    "quantile": (
        lambda A: (np.quantile(A, [0.1, 0.5, 0.9], axis=1), np.percentile(A, 30), np.median(A, axis=0, keepdims=True)),
        (A,),
    ),
    "quantile methods": (lambda v: [np.quantile(v, 0.3, method=m) for m in ("lower", "midpoint", "hazen", "weibull")], (v,)),
    "median of several axes": (lambda C: (np.median(C, axis=(0, 2)), np.median(C)), (C,)),
    "nan": (
        lambda v: (np.nansum(v), np.nanmean(v), np.nanvar(v, ddof=1), np.nanstd(v), np.nanmax(v), np.nanmin(v), np.nanprod(v)),
        (N,),
    ),
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
    "picked": (
        lambda v: (
            np.compress([True, False, True], v),
            np.extract(np.arange(6) % 2 == 0, v),
            np.choose([0, 1, 1], [v[:3], v[3:]]),
        ),
        (v,),
    ),
    "along": (lambda A: np.take_along_axis(A, np.array([[0, 1], [3, 2], [1, 1]]), 1), (A,)),
    "placed": (placed, (v,)),
    "diagonal": (filled_diagonal, (S,)),
    "triangles": (lambda S: (S[np.tril_indices_from(S)], S[np.triu_indices_from(S, 1)], S[np.diag_indices_from(S)]), (S,)),
    "pad": (
        lambda A: (np.pad(A, 2, mode="linear_ramp", end_values=1.0), np.pad(A, ((0, 2), (1, 0)), mode="mean", stat_length=2)),
        (A,),
    ),
    "pad extremes": (lambda A: [np.pad(A, 1, mode=m) for m in ("maximum", "minimum", "median", "reflect", "wrap")], (A,)),
    "pad odd": (lambda v: (np.pad(v, 2, mode="reflect", reflect_type="odd"), np.pad(v, 1, constant_values=v[0])), (v,)),
    "rows": (lambda A: (np.apply_along_axis(lambda r: r / np.sum(r * r), 1, A), np.apply_over_axes(np.sum, A, [0])), (A,)),
    "vectorize": (
        lambda v: (np.vectorize(ramp)(v[:2]), np.vectorize(lambda r: r @ r, signature="(n)->()")(v.reshape(2, 3))),
        (v,),
    ),
    "excluded": (lambda v: np.vectorize(lambda t, k: t**k, excluded=["k"])(v, k=3), (v,)),
    "made": (
        lambda v: (np.fromiter((t * t for t in v), dtype=float), np.fromfunction(lambda i, j: v[0] * i + v[1] * j, (2, 3))),
        (v,),
    ),
    "lists": (
        lambda v: (np.gradient([v[0], v[1], v[2]]), np.median([v[0], v[1], 2.0]), np.meshgrid([v[0], 1.0], [v[1]])[0]),
        (v,),
    ),
    # differences, interpolation, running functions
    "diff": (
        lambda A: (np.diff(A, prepend=0.0), np.diff(A, 2, axis=0, append=A[:1]), np.ediff1d(A, to_begin=1.0, to_end=[A[0, 0]])),
        (A,),
    ),
    "gradient": (lambda A: (*np.gradient(A, 0.5, edge_order=2), np.gradient(A, [0.0, 0.3, 1.0], axis=0)), (A,)),
    "uneven gradient": (lambda v, u: (np.gradient(v, u), np.gradient(v, u, edge_order=2)), (v, u)),
    "interp": (lambda v: np.interp(v, NODES[::15], np.sin(NODES[::15])), (v,)),
    "interp nodes": (lambda v, u, w: (np.interp(v, 3 * u - 1, w), np.interp(0.3, u, w, left=0.0)), (v, u, w)),
    "interp many": (lambda v, y: (np.interp(v, NODES, y), np.interp(0.3, NODES, y)), (v[:2], np.sin(NODES))),
    "interp periodic": (lambda v, w: np.interp(v, np.linspace(-1, 0.9, 6), w, period=2.0), (v, w)),
    "unwrap": (lambda v: (np.unwrap(5 * v), np.unwrap(np.angle(np.exp(3j * v)))), (v,)),
    "running": (lambda A: (np.cumulative_sum(A, axis=1, include_initial=True), np.cumulative_prod(A, axis=0)), (A,)),
    "accumulate": (lambda v: (np.maximum.accumulate(v), np.add.accumulate(v), np.logaddexp.accumulate(v)), (v,)),
    "outer": (
        lambda v, b: (np.subtract.outer(v, b), np.add.reduceat(v, [0, 2, 4]), np.multiply.reduceat(v, [3, 1, 4])),
        (v, b),
    ),
    "comparisons": (
        lambda v: (
            np.isclose(v, v[0]) * v,
            np.allclose(v, v) * v,
            np.array_equal(v, v) * v,
            np.count_nonzero(v > 0) * v,
            np.isin(v, v[:2]) * v,
        ),
        (v,),
    ),
    # polynomials
    "polyval": (lambda b, v: (np.polyval(b, v), np.polyval(np.polyder(b, 2), v), np.polyint(b, 2, k=[1.0, 2.0])), (b, v)),
    "polynomials": (
        lambda b, v: (np.polyadd(b, v), np.polysub(b, v), np.polymul(b, v), *np.polydiv(v, b), np.poly(b)),
        (b + 2, v),
    ),
    "vander": (lambda v: (np.vander(v, 3), np.vander(v, 3, increasing=True)), (v,)),
    "roots": (lambda b: np.sum(np.roots(b * 0.1 + np.array([1.0, -2.0, -5.0, 6.0])) ** 3).real, (b,)),
    "polyfit": (lambda u, v: (np.polyfit(u, v, 2), np.polyfit(u, v, 1, w=1 + u)), (u * 3, v)),
    "numpy.polynomial": (
        lambda b, v: (np.polynomial.Polynomial(b).deriv()(v), np.polynomial.chebyshev.chebfit(u, v, 2)),
        (b, v),
    ),
    # Fourier transforms
    "fft": (lambda v: (np.fft.fft(v), np.fft.ifft(v, 9), np.fft.fft(v, 4, norm="ortho")), (v,)),
    "rfft": (
        lambda v: (np.fft.rfft(v), np.fft.rfft(v, 9, norm="ortho"), np.fft.ihfft(v, norm="forward"), np.fft.hfft(v)),
        (v,),
    ),
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
    "norms": (
        lambda A: [np.linalg.norm(A, k) for k in (2, -2, "nuc")] + [np.linalg.matrix_norm(A), np.linalg.norm(A[0], -1)],
        (A,),
    ),
    "cond": (lambda S: (np.linalg.cond(S), np.linalg.cond(S, 1), np.linalg.cond(S, "fro"), np.linalg.cond(S, -2)), (S,)),
    "tensors": (
        lambda P: (np.linalg.tensorsolve(P.reshape(2, 2, 2, 2), np.eye(2)), np.linalg.tensorinv(P.reshape(2, 2, 2, 2))),
        (P,),
    ),
    "einsum of lists": (lambda A: np.einsum(A, [0, 1], A, [2, 1], [2, 0]), (A,)),
}
OWN_HEADS = "quantile|half and full|rfft|svd|singular values|null space|qr|eigvals|eig|eigh|pinv".split("|")
SAMPLE = sorted({*OWN_HEADS, *list(CASES)[::3]})
TRIED_HEADS = frozenset(
    """
    kth fft bfft rfft singular_values left_vectors right_vectors left_rest right_rest orthogonal triangular general_eigenvalues
    general_eigenvectors pinv
    """.split()
)
SINGLE = "quantile|nan|nanquantile|cov|gradient|pad|fft|half and full|svd|qr|pinv|eigvals|interp".split("|")


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
    return tuple(np.where(np.isfinite(a), own.standard_normal(np.shape(a)), 0.0) for a in args)  # NaN cells stay


def unrolls(h, args):
    """Whether all operations of a function have a form for single cells."""
    return all(HEADS[b.op].cells for b in sd.trace(h, *args).bindings if b.op in HEADS)


def check_values(h, args):
    """In both regimes; cells by the graph itself."""
    wanted = parts(h(*args))
    ways = [Plain(h, scalarize=False, backend="numpy")]
    ways += [Plain(h, scalarize=True).graph(*args)] if unrolls(h, args) else []
    for way in ways:
        found = parts(way(*args))
        assert [f.shape for f in found] == [e.shape for e in wanted]
        for f, expected in zip(found, wanted, strict=True):
            np.testing.assert_allclose(f, expected, rtol=1e-9, atol=1e-10)


def check_derivatives(h, args, backend):
    """Value and gradient against differences of the function; cells against whole arrays."""
    f, d = weighted(h), directions(args)
    places = tuple(range(len(args)))
    expected = along(f, args, d)
    value, gradient = sd.value_and_grad(f, places, scalarize=False, backend=backend)(*args)
    scale = max(1.0, abs(expected))
    assert value == pytest.approx(f(*args), rel=1e-9)
    dot = sum(np.sum(g * e) for g, e in zip(gradient, d, strict=True))
    assert dot == pytest.approx(expected, rel=1e-5, abs=1e-6 * scale)
    if unrolls(h, args):
        cells = sd.grad(f, places, scalarize=True).graph(*args)(*args)
        for cell, whole in zip(parts(cells), gradient, strict=True):
            np.testing.assert_allclose(cell, whole, rtol=1e-8, atol=1e-9 * scale)


def check_second_derivatives(h, args):
    """Tangents pushed through the gradient, and so through the heads, against differences of the gradient."""
    f, d = weighted(h), directions(args)
    places = tuple(range(len(args)))
    slopes = sd.grad(f, places, scalarize=False, backend="numpy")
    for k, product in enumerate(sd.hvp(f, places, scalarize=False, backend="numpy")(*args, d)):
        wanted = along(lambda *x, k=k: slopes(*x)[k], args, d)
        np.testing.assert_allclose(product, wanted, rtol=1e-4, atol=1e-5 * max(1.0, np.max(np.abs(wanted))))


def check_many_points(h, args):
    many = [np.stack([a, a * 1.01]) for a in args]
    found = parts(sd.vmap(h, scalarize=False, backend="numpy")(*many))
    for k, wanted in enumerate(zip(*(parts(h(*(m[i] for m in many))) for i in range(2)), strict=True)):
        np.testing.assert_allclose(found[k], np.stack(wanted), rtol=1e-8, atol=1e-9)


def check_single_precision(h, args):
    args = tuple(a.astype(np.float32) for a in args)
    found = parts(Plain(h, scalarize=False)(*args))
    for f, wanted in zip(found, parts(h(*args)), strict=True):
        np.testing.assert_allclose(f, wanted, rtol=2e-4, atol=2e-4)
        assert f.dtype == wanted.dtype
    gradient = sd.grad(weighted(h), scalarize=False)(*args)
    assert gradient.dtype in (np.float32, np.float64) and np.all(np.isfinite(gradient[np.isfinite(args[0])]))


@pytest.mark.parametrize("name", CASES)
def test_values_are_numpys(name):
    check_values(*CASES[name])


@pytest.mark.parametrize("name", CASES)
def test_derivatives(name):
    check_derivatives(*CASES[name], backend="auto" if name in SAMPLE else "numpy")


@pytest.mark.parametrize("name", OWN_HEADS)
def test_second_derivatives(name):
    check_second_derivatives(*CASES[name])


@pytest.mark.parametrize("name", SAMPLE)
def test_many_points(name):
    check_many_points(*CASES[name])


@pytest.mark.parametrize("name", SINGLE)
def test_single_precision(name):
    check_single_precision(*CASES[name])


def test_every_head_of_these_functions_is_tried():
    tried = set()
    for name in OWN_HEADS:
        h, args = CASES[name]
        tried |= {b.op for b in sd.grad(weighted(h), tuple(range(len(args))), scalarize=False).graph(*args).bindings}
    assert tried >= TRIED_HEADS


# -- kinks and degenerate values


WEAK = [
    1,
    2.5,
    True,
    1j,
    1e300,
    np.float32(2),
    np.float64(2),
    np.int8(2),
    np.array(2.5),
    np.array([1.0, 2, 3]),
    [1.0, 2.0, 3.0],
]
CHOOSING = {
    "where": lambda x, c: np.where([True, False, True], x, c),
    "where_first": lambda x, c: np.where([True, False, True], c, x),
    "where_traced": lambda x, c: np.where(x > 0, x, c),
    "where_number": lambda x, c: np.where(x[0] > 0, x[0], c),
    "select": lambda x, c: np.select([x > 0, x < -5], [x, x * 2], c),
    "maximum": lambda x, c: np.maximum(x, c),
    "clip": lambda x, c: np.clip(x, c, None),
    "fill": lambda x, c: np.nan_to_num(x, nan=c),
    "add": lambda x, c: c + x,
    "power": lambda x, c: abs(x) ** c,
    "stack": lambda x, c: np.stack([x, np.broadcast_to(c, x.shape)]),
}


@pytest.mark.parametrize("name", CHOOSING)
@pytest.mark.parametrize("c", WEAK, ids=repr)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_numbers_beside_single_precision_promote_as_numpys(name, c):
    x, f = np.array([1, -2, np.nan], np.float32), CHOOSING[name]
    try:
        wanted = f(x, c)
    except (TypeError, ValueError):
        return
    for found in (sd.trace(lambda x: f(x, c), x)(x), sd.vmap(lambda x: f(x, c))(x[None])[0]):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
        assert found.dtype == np.asarray(wanted).dtype


FEW = ([2.0], [2.0, 3.0], [2.0, 2.0, 2.0], [np.nan], [2.0, np.nan], [3.0, np.nan, 2.0], [[np.nan, 1.0], [np.nan, 2.0]])


def spread(name, axis, ddof):
    return lambda x: getattr(np, name)(x, axis=axis, ddof=ddof)


@pytest.mark.parametrize("name", ["var", "std", "nanvar", "nanstd"])
@pytest.mark.parametrize("axis", [None, 0])
@pytest.mark.parametrize("ddof", [0, 1, 1.5])
@pytest.mark.parametrize("x", FEW, ids=str)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_spreads_of_few_cells(name, axis, ddof, x):
    """Values are NumPy's; where one is no number its slope by cells that count is none, without spread it is that of a norm."""
    x = np.array(x)
    f, plain = spread(name, axis, ddof), spread(name.removeprefix("nan"), None, ddof)
    value, slopes = sd.vjp(f)(x, np.ones(np.shape(f(x))))
    np.testing.assert_allclose(value, f(x), rtol=1e-14)
    columns = [np.ravel] if axis is None else [lambda a, k=k: a.reshape(len(x), -1)[:, k] for k in range(x[0].size)]
    for column, found in zip(columns, np.ravel(value), strict=True):
        cells, row = column(x), column(slopes)
        counted = ~np.isnan(cells) | (not name.startswith("nan"))
        assert not np.any(row[~counted])
        if np.isfinite(found):
            np.testing.assert_allclose(row[counted], sd.grad(plain)(cells[counted]), rtol=1e-12, atol=1e-15)
        else:
            assert np.all(np.isnan(row[counted]))


def test_quantiles_share_ties_and_see_nan():
    x = np.array([2.0, 1.0, 2.0, 5.0, 2.0])
    np.testing.assert_allclose(sd.grad(np.median)(x), [1 / 3, 0, 1 / 3, 0, 1 / 3])
    np.testing.assert_allclose(
        sd.grad(lambda x: np.quantile(x, 0.8))(np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])), [0, 0, 0, 0, 1, 0]
    )
    spoilt = np.array([1.0, np.nan, 3.0])
    assert np.isnan(sd.trace(np.median, spoilt)(spoilt))
    np.testing.assert_array_equal(sd.grad(np.median)(spoilt), [0, 0, 0])
    np.testing.assert_array_equal(sd.grad(np.nanmedian)(spoilt), [0.5, 0, 0.5])
    assert np.isnan(sd.trace(np.nanmax, spoilt)(np.full(3, np.nan)))


@pytest.mark.parametrize("n", [3, 4])
def test_equal_singular_and_eigenvalues(n):
    """Right for what depends on the values; NaN where the vectors are taken apart, whose derivative does not exist."""
    x = np.eye(n) * 2.0

    def span(x):
        w, q = np.linalg.eigh(x)
        return np.sum(w**3) + np.sum((q @ np.abs(q.T))[0])

    assert np.all(np.isnan(sd.grad(span)(x)[np.tril_indices(n)]))
    for f, smooth in (
        (lambda x: np.linalg.norm(x, "nuc"), True),
        (lambda x: np.sum(np.linalg.svdvals(x) ** 2), True),
        (np.linalg.cond, False),
    ):
        assert np.all(np.isfinite(sd.grad(f)(x)))
        assert np.all(np.isfinite(sd.hessian(f)(x))) == smooth
    np.testing.assert_allclose(sd.grad(lambda x: np.linalg.norm(x, "nuc"))(x), np.eye(n), atol=1e-12)


# -- complex numbers


def test_transforms_of_complex_signals():
    z = v + 1j * w

    def power(z):
        return np.sum(np.arange(6.0) * np.abs(np.fft.fft(z)) ** 2)

    _, by_conjugate = sd.wirtinger(power)(z)
    for k in range(6):
        for turn in (1, 1j):
            e = 1e-6 * turn * np.eye(6)[k]
            slope = (power(z + e) - power(z - e)) / 2e-6
            assert 2 * (by_conjugate[k] * np.conj(turn)).real == pytest.approx(slope, rel=1e-6)
    matrix = sd.jacobian(np.fft.fft)(z)
    np.testing.assert_allclose(matrix, np.fft.fft(np.eye(6)), atol=1e-14)
    np.testing.assert_allclose(
        sd.jacobian(lambda z: np.fft.ifft(z, norm="ortho"))(z), np.fft.ifft(np.eye(6), norm="ortho"), atol=1e-14
    )
    with pytest.raises(sd.NonHolomorphicError):
        sd.grad(power)(z)
    with pytest.raises(sd.TraceError, match=r"test_numpy_functions.py:\d+: np.fft.rfft: real numbers are needed"):
        sd.trace(np.fft.rfft, z)


@pytest.mark.parametrize("f", [
    lambda x: np.sum(np.abs(np.linalg.cholesky(x)) ** 3),
    lambda x: np.sum(np.arange(4) * np.linalg.eigvalsh(x) ** 2),
    lambda x: (lambda d, q: np.sum(np.abs((q * np.sqrt(d)) @ np.conj(q.T)) ** 3))(*np.linalg.eigh(x)),
])  # fmt: skip
def test_complex_hermitian_matrices(f):
    x = P + 1j * (S - S.T)
    by, by_conjugate = sd.wirtinger(f, scalarize=False)(x)
    for e in directions((S, S, S)):
        for turned in (e, 1j * e):
            slope = (f(x + 1e-6 * turned) - f(x - 1e-6 * turned)) / 2e-6
            assert np.sum(by * turned + by_conjugate * np.conj(turned)).real == pytest.approx(slope, rel=2e-5, abs=1e-6)


# -- dtypes, edges, speed


def test_empty_arrays_and_numbers():
    nothing = np.zeros((0, 3))
    for f in (
        np.nansum,
        lambda x: np.sum(np.pad(x, 1)),
        lambda x: np.sum(np.meshgrid(x[:, 0], x[0:0, 1])[0]),
        lambda x: np.sum(np.diff(x)),
    ):
        assert sd.trace(f, nothing)(nothing) == f(nothing)
        assert sd.grad(f)(nothing).shape == (0, 3)
    assert np.isnan(sd.trace(np.median, np.zeros(0))(np.zeros(0)))
    for f in (np.fft.fft, lambda x: np.quantile(x, 0.5), np.gradient):
        with pytest.raises((sd.TraceError, IndexError)):
            sd.trace(f, np.zeros(0))
    for f in (
        np.nansum,
        np.median,
        np.nan_to_num,
        lambda x: np.interp(x, [0.0, 1.0], [3.0, 5.0]),
        lambda x: np.meshgrid(x)[0][0],
    ):
        assert sd.trace(f, 0.4)(0.4) == pytest.approx(float(f(0.4)))
        assert sd.derivative(f)(0.4) == pytest.approx((f(0.4 + 1e-6) - f(0.4 - 1e-6)) / 2e-6)


def test_half_spectra_take_half_transforms():
    """The gradient of a function of a real signal's spectrum computes no complex transform of it."""
    program = sd.grad(lambda x: np.sum(np.abs(np.fft.rfft(x)) ** 2)).program(np.zeros(64))
    assert [s.op for s in program.program.nodes if "fft" in s.op] == ["rfft", "brfft"]
    filtered = sd.grad(lambda x: np.sum(np.sin(np.fft.irfft(3 * np.fft.rfft(x))))).program(np.zeros(64))
    assert [s.op for s in filtered.program.nodes if "fft" in s.op] == ["rfft", "brfft", "rfft", "brfft"]


@pytest.mark.parametrize("f, head", [(low_rank, "svd"), (lambda x: np.linalg.qr(x)[0] @ np.linalg.qr(x)[1], "qr")])
def test_parts_of_a_decomposition_come_from_one_call(f, head):
    program = sd.grad(lambda x: np.sum(f(x) ** 3)).program(A)
    decompositions = {"svd", "qr", "left_vectors", "right_vectors", "singular_values", "orthogonal", "triangular"}
    assert [s.op for s in program.program.nodes if s.op in decompositions] == [head]


def test_interpolation_among_many_nodes_has_few_operations():
    few, many = (
        len(sd.trace(lambda x, y: np.interp(x, np.linspace(0, 1, len(y)), y), v, np.zeros(n)).bindings) for n in (200, 4000)
    )
    assert few == many


# -- what is refused


def test_refusals_name_the_line_and_what_works():
    for f, message in {
        np.linalg.matrix_rank: "pass it as an int",
        np.unique: "np.where",
        np.trim_zeros: "np.polyval",
        np.array2string: "outside",
        lambda x: np.histogram(x)[0]: "smooth kernel",
        lambda x: np.take_along_axis(x, x, 0): r"x.astype\(int\)",
        lambda x: np.quantile(x, x[0]): "traced levels",
        lambda x: np.pad(x, 1, mode="empty"): "linear_ramp",
        lambda x: np.polyfit(u, x, 1, full=True): "leave them away",
        lambda x: np.meshgrid(x, indexing="yx"): "'xy' or 'ij'",
        lambda x: np.gradient(x, x[:2]): "coordinates of shape",
        lambda x: np.quantile(x, 0.5, weights=x): "leave weights away",
        lambda x: float(str(x[0])): "use the value itself",
        lambda x: decimal.Decimal(x[0]): "floating numbers",
        lambda x: fractions.Fraction(x[0]): "floating numbers",
        np.matrix: "np.array and @",
    }.items():
        with pytest.raises(sd.TraceError, match=rf"test_numpy_functions.py:\d+: .*{message}"):
            sd.trace(f, S if f is np.linalg.matrix_rank else v)


SPECTRA = {
    "sqrt": lambda A: np.sum(np.abs(np.sqrt(np.linalg.eigvals(A)))),
    "log": lambda A: np.sum(np.abs(np.log(np.linalg.eigvals(A)))),
    "power": lambda A: np.sum(np.abs(np.linalg.eigvals(A) ** 0.5)),
    "square": lambda A: np.sum(np.abs(np.linalg.eigvals(A) ** 2)),
    "arcsin": lambda A: np.sum(np.abs(np.arcsin(np.linalg.eigvals(A)))),
    "pairs": lambda A: np.sum(np.abs(np.sqrt(np.linalg.eig(A)[0]))),
    "moved": lambda A: np.sum(np.abs(np.sqrt(np.linalg.eigvals(A) * 2 + A[0, 1]))),
    "product": lambda A: abs(np.sqrt(np.prod(np.linalg.eigvals(A)))),
    "skipped": lambda A: np.nansum(np.abs(np.sqrt(np.linalg.eigvals(A)))),
    "roots": lambda A: np.sum(np.abs(np.sqrt(np.roots([1.0, A[0, 0], A[1, 1]])))),
    "asked": lambda A: np.sum(np.abs(np.linalg.eigvals(A))) * (2.0 if np.iscomplexobj(np.linalg.eigvals(A)) else 3.0),
    "asked_real": lambda A: np.sum(np.abs(np.linalg.eigvals(A))) * (2.0 if np.isrealobj(np.linalg.eigvals(A)) else 3.0),
    "complex_sum": lambda A: np.sum(np.abs(np.sqrt(np.linalg.eigvals(A) + 0j))),
    "complex_matrix": lambda A: np.sum(np.abs(np.sqrt(np.linalg.eigvals(A + 0j)))),
}


@pytest.mark.parametrize("name", SPECTRA)
@pytest.mark.parametrize("A", [[[1.0, 0.5], [0.5, 2.0]], [[1.0, 0.2], [0.3, -2.0]], [[0.1, 1.0], [-1.0, 0.2]]], ids=str)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_eigenvalues_are_real_where_all_of_them_are(name, A):
    """As NumPy has them, whose square roots of negative ones are no numbers then."""
    f, A = SPECTRA[name], np.array(A)
    steps = 1e-6 * np.eye(4).reshape(4, 2, 2)
    slope = np.array([f(A + h) - f(A - h) for h in steps]).reshape(2, 2) / 2e-6
    for backend in ("auto", "numpy"):
        value, gradient = sd.value_and_grad(f, backend=backend)(A)
        np.testing.assert_allclose(value, f(A), rtol=1e-12)
        assert np.isfinite(value) or np.isnan(gradient[1, 1])
        np.testing.assert_allclose(gradient[np.isfinite(slope)], slope[np.isfinite(slope)], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(sd.vmap(f)(np.stack([A, -A])), [f(A), f(-A)], rtol=1e-12)


@pytest.mark.parametrize(
    "f", [lambda x: np.modf(x)[0], lambda x: np.modf(x)[1], lambda x: np.array([math.modf(v)[0] for v in x])]
)
def test_parts_of_numbers_have_their_signs(f):
    x = np.array([np.inf, -np.inf, np.nan, -4.0, 3.0, -0.0, 0.0, 2.5, -2.5])
    for found in (sd.jvp(f)(x, np.ones(9))[0], sd.jvp(f, backend="numpy")(x, np.ones(9))[0]):
        np.testing.assert_array_equal(found, f(x))
        np.testing.assert_array_equal(np.signbit(found), np.signbit(f(x)))


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_decompositions_without_cells(shape):
    for f in (
        lambda x: np.linalg.qr(2 * x)[1],
        lambda x: np.linalg.qr(x)[0] * 2,
        lambda x: np.exp(x.T.reshape(shape)).sum(axis=0),
    ):
        x = np.zeros(shape)
        value, slope = sd.jvp(f)(x, x)
        np.testing.assert_array_equal(value, f(x))
        assert slope.shape == value.shape


def test_arrays_without_cells_have_a_place():
    def f(x):
        return np.concatenate([x, np.ravel(np.c_[x[:0], x[:0]])])

    x = np.array([0.1, 0.2, 0.4])
    for options in ({}, {"scalarize": False}, {"backend": "numpy"}):
        np.testing.assert_array_equal(sd.jvp(f, **options)(x, x), (x, x))


def test_sums_of_no_terms_are_no_minus_zero():
    def f(x):
        return np.angle(np.einsum("i,jk,l->kj", x[:0, 0], x, x[0]))

    x = np.array([[0.3, -0.2], [-0.5, 0.1]])
    np.testing.assert_array_equal(sd.jvp(f)(x, x)[0], f(x))


def test_steps_end_where_they_are_told_to():
    for f in (lambda b: np.linspace(0.1, b, 7)[-1] == b, lambda b: np.geomspace(0.1, b, 7)[-1] == b):
        assert sd.vmap(f)(np.linspace(0.01, 1.0, 200)).all()
    np.testing.assert_array_equal(sd.jvp(lambda a: np.linspace(a, 0.7, 3))(np.nan, 1.0)[0], [np.nan, np.nan, 0.7])


@pytest.mark.parametrize(
    "f", [lambda x: np.any(x > 0, axis=1), lambda x: np.all(x[:0] > 0, axis=1), lambda x: np.all(x > 0, axis=0)]
)
def test_truths_of_no_cells(f):
    x = np.zeros((2, 0))
    np.testing.assert_array_equal(sd.jvp(lambda x: f(x) * 1.0)(x, x)[0], f(x) * 1.0)


def test_arrays_without_cells_are_not_those_of_integers():
    def f(x):
        y = np.zeros_like(x)
        y[...] = x
        return np.append(y, 1.0)

    np.testing.assert_array_equal(sd.jvp(f)(np.zeros((0, 3)), np.zeros((0, 3)))[0], [1.0])


def test_arguments_in_single_precision_that_are_not_needed():
    x = np.array([1.5, 2.0], np.float32)
    for options in ({"exact": True}, {"backend": "python"}, {}):
        np.testing.assert_array_equal(sd.vmap(lambda x: np.zeros(2) + 1.0, **options)(x[None]), [[1.0, 1.0]])


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.full_like(np.zeros((2, 3)), x),
        lambda x: np.full_like(np.zeros((3, 2), order="F"), x[0]),
        lambda x: np.array([[np.sin(x[:0]), x[:0]]]),
    ],
)
def test_arrays_that_are_made_like_others(f):
    x = np.array([0.3, -0.2, 0.7])
    value = sd.jvp(f)(x, x)[0]
    np.testing.assert_array_equal(value, f(x))
    assert value.dtype == f(x).dtype
