"""Whole arrays: values, derivatives in both modes and to second order, vmap, against NumPy and differences."""

import numpy as np
import pytest
from inside import Plain, structural_rules, structures
from test_numpy_functions import TRIED_HEADS

import symdiff as sd

rng = np.random.default_rng(0)
A, B, C = rng.standard_normal((3, 4)), rng.standard_normal((4, 2)), rng.standard_normal((2, 3, 4))
S = rng.standard_normal((3, 3))
P = S @ S.T + 3 * np.eye(3)
v, w = rng.standard_normal(4), rng.standard_normal(3)
FEW = np.array([1.0, 2.0, 3.0])

CASES = {
    "matmul": (lambda a, b: a @ b, (A, B)),
    "matvec": (lambda a, b: a @ b, (A, v)),
    "vecmat": (lambda a, b: a @ b, (w, A)),
    "dot": (lambda a, b: np.dot(a, b), (v, v * 2)),
    "batched matmul": (lambda a, b: a @ b, (C, B)),
    "batched matmul2": (lambda a, b: a @ b, (A.reshape(1, 3, 4) * 1.0, np.stack([B, 2 * B]))),
    "inner": (lambda a, b: np.inner(a, b), (A, A * 2)),
    "outer": (lambda a, b: np.outer(a, b), (w, v)),
    "tensordot": (lambda a, b: np.tensordot(a, b, axes=([1, 2], [0, 1])), (C, A)),
    "einsum": (lambda a, b: np.einsum("ij,jk->ik", a, b), (A, B)),
    "einsum2": (lambda a, b: np.einsum("bij,ij->b", a, b), (C, A)),
    "einsum3": (lambda a: np.einsum("ii->i", a), (S,)),
    "einsum4": (lambda a, b, c: np.einsum("ij,jk,i->k", a, b, c), (A, B, w)),
    "einsum5": (lambda a: np.einsum("ij->j", a), (A,)),
    "einsum6": (lambda a, b: np.einsum("...ij,jk", a, b), (C, B)),
    "kron": (lambda a, b: np.kron(a, b), (A, B)),
    "trace": (lambda a: np.trace(a), (S,)),
    "sum": (lambda a: np.sum(a), (A,)),
    "sum0": (lambda a: a.sum(0), (A,)),
    "sumk": (lambda a: a.sum(axis=-1, keepdims=True), (C,)),
    "sum01": (lambda a: a.sum(axis=(0, 2)), (C,)),
    "mean": (lambda a: a.mean(1), (A,)),
    "prod": (lambda a: np.prod(a), (A,)),
    "prod1": (lambda a: np.prod(a, axis=1), (A,)),
    "prod zeros": (lambda a: np.prod(a, axis=1), (np.where(A > 0.5, 0.0, A),)),
    "max": (lambda a: a.max(1), (A,)),
    "min": (lambda a: np.min(a), (A,)),
    "var": (lambda a: np.var(a, axis=1), (A,)),
    "std": (lambda a: np.std(a, ddof=1), (A,)),
    "norm": (lambda a: np.linalg.norm(a), (A,)),
    "norm1": (lambda a: np.linalg.norm(a, axis=1), (A,)),
    "normfro": (lambda a: np.linalg.norm(a, "fro"), (A,)),
    "normm1": (lambda a: np.linalg.norm(a, 1), (A,)),
    "norm3": (lambda a: np.linalg.norm(a, 3), (v,)),
    "lse": (lambda a: sd.special.logsumexp(a, axis=1), (A,)),
    "softmax": (lambda a: sd.special.softmax(a, axis=1), (A,)),
    "cumsum": (lambda a: np.cumsum(a), (A,)),
    "cumsum1": (lambda a: np.cumsum(a, axis=1), (A,)),
    "cumprod": (lambda a: np.cumprod(a, axis=1), (A,)),
    "cumprod z": (lambda a: np.cumprod(a), (np.array([1.0, 0.0, 2.0, 0.0, 3.0]),)),
    "average": (lambda a: np.average(a, axis=0, weights=np.array([1.0, 2.0, 3.0])), (A,)),
    "averagew": (lambda a, b: np.average(a, axis=0, weights=b), (A, w**2)),
    "reshape": (lambda a: a.reshape(2, -1), (A,)),
    "ravel": (lambda a: a.ravel(), (A,)),
    "T": (lambda a: a.T, (C,)),
    "transpose": (lambda a: a.transpose(1, 0, 2), (C,)),
    "swapaxes": (lambda a: a.swapaxes(0, 1), (C,)),
    "moveaxis": (lambda a: np.moveaxis(a, 0, -1), (C,)),
    "squeeze": (lambda a: np.squeeze(a[:1]), (A,)),
    "expand": (lambda a: np.expand_dims(a, 1), (A,)),
    "bto": (lambda a: np.broadcast_to(a, (3, 4)), (v,)),
    "flip": (lambda a: np.flip(a, 0), (A,)),
    "flipall": (lambda a: np.flip(a), (A,)),
    "roll": (lambda a: np.roll(a, 1), (A,)),
    "roll1": (lambda a: np.roll(a, -2, axis=1), (A,)),
    "pad": (lambda a: np.pad(a, 1), (A,)),
    "padc": (lambda a: np.pad(a, ((1, 2), (0, 1)), constant_values=2.0), (A,)),
    "pade": (lambda a: np.pad(a, 1, mode="edge"), (A,)),
    "tile": (lambda a: np.tile(a, (2, 1)), (A,)),
    "repeat": (lambda a: np.repeat(a, 2, axis=1), (A,)),
    "repeat2": (lambda a: np.repeat(a, [1, 0, 2], axis=0), (A,)),
    "getitem": (lambda a: a[1:, ::2], (A,)),
    "getitem neg": (lambda a: a[::-1, 1], (A,)),
    "getitem none": (lambda a: a[None, :, 1:3], (A,)),
    "getitem adv": (lambda a: a[[0, 2, 0]], (A,)),
    "getitem adv2": (lambda a: a[[0, 2], [1, 3]], (A,)),
    "getitem adv3": (lambda a: a[:, [1, 1, 0]], (C,)),
    "getitem adv4": (lambda a: a[[0, 1], :, [1, 2]], (C,)),
    "getitem mask": (lambda a: a[np.array([True, False, True])], (A,)),
    "getitem mask2": (lambda a: a[np.arange(12).reshape(3, 4) % 2 == 0], (A,)),
    "getitem int": (lambda a: a[1, 2] * a[0, 0], (A,)),
    "ell": (lambda a: a[..., 0], (C,)),
    "take": (lambda a: np.take(a, [0, 3], axis=1), (A,)),
    "concat": (lambda a, b: np.concatenate([a, b.T], axis=0), (A, B)),
    "stack": (lambda a: np.stack([a, 2 * a], axis=1), (A,)),
    "vstack": (lambda a, b: np.vstack([a, b]), (A, v)),
    "hstack": (lambda a: np.hstack([a, a]), (A,)),
    "split": (lambda a: tuple(np.split(a, 2, axis=1)), (A,)),
    "where": (lambda a: np.where(a > 0, np.sqrt(np.abs(a)), a * a), (A,)),
    "wherebc": (lambda a, b: np.where(b > 0, a, b), (A, v)),
    "select": (lambda a: np.select([a > 0.5, a < -0.5], [a**2, np.sin(a)], default=3 * a), (A,)),
    "clip": (lambda a: np.clip(a, -0.5, 0.5), (A,)),
    "sort": (lambda a: np.sort(a, axis=1), (A,)),
    "median": (lambda a: np.median(a, axis=0), (A,)),
    "diff": (lambda a: np.diff(a, axis=1), (A,)),
    "diff2": (lambda a: np.diff(a, n=2), (A,)),
    "convolve": (lambda a, b: np.convolve(a, b), (v, w)),
    "convolve same": (lambda a, b: np.convolve(a, b, "same"), (v, w)),
    "convolve valid": (lambda a, b: np.convolve(a, b, "valid"), (v, w)),
    "correlate": (lambda a, b: np.correlate(a, b, "full"), (v, w)),
    "diag": (lambda a: np.diag(a), (v,)),
    "diagk": (lambda a: np.diag(a, 1), (v,)),
    "diag2": (lambda a: np.diag(a, -1), (S,)),
    "diagonal": (lambda a: np.diagonal(a, 1), (A,)),
    "triu": (lambda a: np.triu(a), (A,)),
    "tril": (lambda a: np.tril(a, -1), (S,)),
    "inv": (lambda a: np.linalg.inv(a), (P,)),
    "solve": (lambda a, b: np.linalg.solve(a, b), (P, w)),
    "solvem": (lambda a, b: np.linalg.solve(a, b), (P, A)),
    "det": (lambda a: np.linalg.det(a), (S,)),
    "sign": (lambda a: np.linalg.slogdet(a)[0] * a, (S,)),
    "slogdet": (lambda a: np.linalg.slogdet(a)[1], (S,)),
    "cholesky": (lambda a: np.linalg.cholesky(a), (P,)),
    "eigh": (lambda a: np.linalg.eigh(a)[0], (P,)),
    "eighv": (lambda a: np.abs(np.linalg.eigh(a)[1]), (P,)),
    "lstsq": (lambda a, b: np.linalg.lstsq(a, b)[0], (A.T, v)),
    "matpow": (lambda a: np.linalg.matrix_power(a, 3), (S,)),
    "matpowneg": (lambda a: np.linalg.matrix_power(a, -2), (P,)),
    "cross": (lambda a, b: np.cross(a, b), (S, S.T * 2)),
    "bcast": (lambda a, b: a * b + b, (A, v)),
    "bcast2": (lambda a, b: a / b[:, None], (A, w)),
    "size1": (lambda a, b: a + b, (np.ones((3, 1)), np.ones((1, 4)))),
    "tanh layer": (lambda W, b, X: np.sum(np.tanh(W @ X + b)), (A, w[:, None], B)),
    "trapz": (lambda a: np.trapezoid(a, dx=0.5), (A,)),
    "trapzx": (lambda a, b: np.trapezoid(a, b), (A, v)),
    "insert": (lambda a: np.insert(a, 1, 7.0, axis=1), (A,)),
    "delete": (lambda a: np.delete(a, 1, axis=0), (A,)),
    "append": (lambda a, b: np.append(a, b), (A, v)),
    "item": (lambda a: np.array([a[0, 0] * a[1, 1], a[2, 3]]), (A,)),
    "ptp": (lambda a: np.ptp(a, axis=0), (A,)),
    "polyval": (lambda a: np.polyval([1.0, 2.0, 3.0], a), (A,)),
    "iter": (lambda a: sum(r @ r for r in a), (A,)),
}


def weighted(h):
    """A smooth number from all results of h."""

    def f(*args):
        total = 0.0
        for k, part in enumerate(structures.leaves(h(*args))):
            size = int(np.prod(np.shape(part), dtype=int))
            total = total + np.sum(np.cos(np.arange(size) + k).reshape(np.shape(part)) * np.sin(part) * part)
        return total

    return f


def points(args):
    return tuple(np.asarray(a, dtype=float) for a in args)


@pytest.mark.parametrize("name", CASES)
def test_values_are_numpys(name):
    h, args = CASES[name]
    found, wanted = Plain(h, scalarize=False)(*args), h(*args)
    for leaf, expected in zip(structures.leaves(found), structures.leaves(wanted), strict=True):
        assert np.shape(leaf) == np.shape(expected)
        np.testing.assert_allclose(leaf, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", CASES)
def test_derivatives_in_both_modes_and_to_second_order(name):
    h, args = CASES[name]
    args = points(args)
    sd.check_grads(weighted(h), args, order=2, rtol=2e-5, atol=1e-6, scalarize=False)
    for i in range(len(args)):
        rows, columns = (sd.jacobian(h, i, mode=mode, scalarize=False)(*args) for mode in ("reverse", "forward"))
        for row, column in zip(structures.leaves(rows), structures.leaves(columns), strict=True):
            np.testing.assert_allclose(row, column, rtol=1e-8, atol=1e-9)
    d = np.cos(np.arange(args[0].size)).reshape(args[0].shape)
    hessian = sd.hessian(weighted(h), scalarize=False)(*args)
    product = sd.hvp(weighted(h), scalarize=False)(*args, d)
    np.testing.assert_allclose(np.tensordot(hessian, d, axes=d.ndim), product, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("name", CASES)
def test_many_points(name):
    h, args = CASES[name]
    args = points(args)
    f = Plain(h, scalarize=False)
    many = [np.stack([a, a * 1.1, a + 0.05]) for a in args]
    for axes in [(0,) * len(args), (0,) + (None,) * (len(args) - 1)]:
        fed = [m if axis == 0 else a for m, a, axis in zip(many, args, axes, strict=True)]
        found = sd.vmap(f, in_axes=axes)(*fed)
        wanted = [h(*(m[k] if axis == 0 else m for m, axis in zip(fed, axes, strict=True))) for k in range(3)]
        for i, leaf in enumerate(structures.leaves(found)):
            expected = np.stack([structures.leaves(one)[i] for one in wanted])
            np.testing.assert_allclose(leaf, expected, rtol=1e-10, atol=1e-12)


def test_sums_of_long_products_need_no_recursion():
    def f(x, a):
        z = x
        for _ in range(700):
            z = 0.999 * z + a
        return np.sum(np.sin(z))

    x = np.linspace(0.1, 0.9, 8)
    found = sd.grad(f, 1, loops="unroll", scalarize=False)(x, 0.3)
    np.testing.assert_allclose(found, (f(x, 0.3 + 1e-7) - f(x, 0.3 - 1e-7)) / 2e-7, rtol=1e-5)


def test_every_structural_rule_is_tried():
    tried = set()
    for h, args in CASES.values():
        graph = sd.hessian(weighted(h), scalarize=False).graph(*points(args))
        tried |= {b.op for b in graph.bindings}
        tried |= {b.op for b in Plain(h, scalarize=False).graph(*points(args)).bindings}
    elsewhere = {"set", "set_at", "expm", "is_definite"}  # test_mutation, test_scipy_functions, test_numpys_own_ways
    elsewhere |= {"softmax", "log_softmax"}  # in test_cancelling.py
    elsewhere |= {"with_eigenvalues", "with_singular_values"}  # in test_spectral.py
    placed = {"gather", "scatter_at", "assign_at", "argmax", "argmin", "order", "searchsorted", "sum_of"}  # in test_indices.py
    assert set(structural_rules()) - tried <= elsewhere | TRIED_HEADS | placed


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_ufuncs_fold_along_an_axis(axis):
    x = np.linspace(-1.0, 2.0, 12).reshape(3, 4)

    def f(x):
        return np.sum(np.logaddexp.reduce(x, axis=axis) ** 2)

    differences = [(f(x + 1e-6 * e) - f(x - 1e-6 * e)) / 2e-6 for e in np.eye(12).reshape(12, 3, 4)]
    np.testing.assert_allclose(sd.grad(f)(x).ravel(), differences, rtol=1e-7)
    np.testing.assert_allclose(sd.trace(f, x)(x), f(x), rtol=1e-14)
    assert sd.grad(np.logaddexp.reduce)(np.array([1.5]))[0] == 1.0
    with pytest.raises(sd.TraceError, match=r"logaddexp\.reduce"):
        sd.grad(lambda x: np.logaddexp.reduce(x, axis=None))(x)


def test_refused_functions_name_what_works():
    n = np.arange(4.0)
    for f, instead in [(np.unique, "np.where"), (np.trim_zeros, "np.polyval")]:
        with pytest.raises(sd.TraceError, match=rf"test_arrays.py:\d+: .*{instead}"):
            sd.grad(lambda x, f=f: np.sum(f(x)))(n)


@pytest.mark.parametrize("f", [np.transpose, np.flip, lambda x: np.concatenate([x, x])])
def test_moves_of_many_cells_stay_whole(f):
    """Moves count no operations, but each moved cell would be a statement of its own."""
    x = np.arange(2400.0).reshape(2, 120, 10)
    plain = sd.vmap(f)
    np.testing.assert_array_equal(plain(x), np.stack([f(point) for point in x]))
    assert len(Plain(f).graph(x[0]).bindings) < 10


def test_powers_of_a_range():
    """A comparison of integers with 0 (x**0) and one of floats share the 0 of their kernel."""

    def f(u):
        j = np.arange(600)
        return np.sum(u**j * 0.5**j)

    step = 1e-30j
    np.testing.assert_allclose(sd.grad(f)(0.9), f(0.9 + step).imag / 1e-30, rtol=1e-13)


def test_products_of_no_cells():
    def f(x):
        m = np.outer(x, x)
        m[0, 0] = 1.0
        return np.sin(x[0] / (2 + m[0, :0] @ m[:0, 1] * m[0, :0] @ m[:0, 1]))

    x = np.linspace(0.1, 0.9, 3)
    for scalarize in (None, False):
        np.testing.assert_allclose(sd.grad(f, scalarize=scalarize)(x), [0.5 * np.cos(x[0] / 2), 0, 0])


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.insert(x, 0, np.max(x, keepdims=True)[None]),
        lambda x: np.insert(x, [0, 2], x[None, :2]),
        lambda x: np.insert(np.outer(x, x), 1, x[None, None], axis=0),
    ],
)
def test_inserted_values_may_have_leading_axes_of_one_cell(f):
    x = np.array([[1.0, 2.0, 3.0], [0.5, -1.0, 2.0]])
    np.testing.assert_array_equal(sd.vmap(f)(x), [f(p) for p in x])
    np.testing.assert_array_equal(sd.jvp(f, scalarize=False)(x[0], x[0])[0], f(x[0]))
