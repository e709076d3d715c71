"""Second derivatives of functions of eigenvalues and singular values, where these are equal, nearly equal or zero but for
rounding: right by the function itself in 60 digits, or NaN, never another number."""

import functools
import importlib.util

import mpmath as mp
import numpy as np
import pytest

import symdiff as sd

WORST = 1e-9
values, singular, norm = np.linalg.eigvalsh, np.linalg.svdvals, np.linalg.norm
source = np.random.default_rng(3)
Q, P, R = (np.linalg.qr(source.normal(size=(n, n)))[0] for n in (3, 4, 5))


def turned(w, q=Q):
    x = (q * np.array(w)) @ q.T
    return (x + x.T) / 2


def entropy(x):
    w = values(x)
    return -np.sum(w * np.log(w))


def by_cells(x):
    total = 0.0
    for v in values(x):
        total += np.exp(-v) * v
    return total


def written_twice(x):
    return np.exp(np.sum(values(x) ** 2) / 9) * np.sum(np.tanh(values(x)))


def total(f):
    return lambda w: sum(map(f, w))


# name: function, the same of the values in many digits
SYMMETRIC = {
    "exp": (lambda x: np.sum(np.exp(values(x))), total(mp.exp)),
    "cubes": (lambda x: np.sum(values(x) ** 3), total(lambda v: v**3)),
    "sin": (lambda x: np.sum(np.sin(3 * values(x))), total(lambda v: mp.sin(3 * v))),
    "logsumexp": (lambda x: sd.special.logsumexp(values(x)), lambda w: mp.log(total(mp.exp)(w))),
    "product": (lambda x: np.prod(values(x)), mp.fprod),
    "length": (lambda x: norm(values(x)), lambda w: mp.sqrt(total(lambda v: v * v)(w))),
    "by cells": (by_cells, total(lambda v: mp.exp(-v) * v)),
    "written twice": (written_twice, lambda w: mp.exp(total(lambda v: v * v)(w) / 9) * total(mp.tanh)(w)),
    "largest": (lambda x: np.max(values(x)) ** 2, lambda w: max(w) ** 2),
    "two smallest": (lambda x: np.sum(values(x)[:2]), lambda w: sum(sorted(w)[:2])),
}
POSITIVE = {
    "log det": (lambda x: np.sum(np.log(values(x))), total(mp.log)),
    "entropy": (entropy, total(lambda v: -v * mp.log(v))),
}
SINGULAR = {
    "nuclear norm": (lambda x: norm(x, "nuc"), sum),
    "spectral norm": (lambda x: norm(x, 2), max),
    "squares": (lambda x: np.sum(singular(x) ** 2), total(lambda v: v * v)),
    "Schatten norm 3": (lambda x: np.sum(singular(x) ** 3) ** (1 / 3), lambda s: mp.cbrt(total(lambda v: v**3)(s))),
    "Schatten norm 4": (lambda x: np.sum(singular(x) ** 4) ** 0.25, lambda s: mp.sqrt(mp.sqrt(total(lambda v: v**4)(s)))),
    "cosh": (lambda x: np.sum(np.cosh(singular(x))), total(mp.cosh)),
    "lengths": (lambda x: np.sum(np.sqrt(1 + singular(x) ** 2)), total(lambda v: mp.sqrt(1 + v * v))),
    "second and third": (lambda x: np.sum(singular(x)[1:3]), lambda s: sum(sorted(s)[-3:-1])),
}
FULL = {
    "three": turned([0.7, 1.0, 2.5]),
    "all equal": 1.5 * np.eye(3),
    "the largest equal": turned([0.6, 1.7, 1.7]),
    "the smallest equal": turned([1.7, 1.7, 2.2]),
    "exactly equal": np.diag([1.25, 1.25, 2.5]),
    "two and three": turned([1.0, 1, 2, 2, 2], R),
} | {f"beside one another by {gap}": turned([1.2, 1.2 + gap, 2.5]) for gap in (1e-3, 1e-5, 1e-7, 1e-10, 1e-13, 4e-16)}
OTHERS = {"zero": np.zeros((3, 3)), "rank one": turned([0.0, 0, 2]), "signs": turned([-1.2, -1.2, 2.5])}
RECTANGULAR = {
    "high": (P[:, :3] * np.array([2.0, 1.5, 0.3])) @ Q,
    "wide": Q @ (P[:, :3] * np.array([2.0, 1.5, 0.3])).T,
    "high, two equal": (P[:, :3] * np.array([2.0, 0.5, 0.5])) @ Q,
    "wide, two equal": Q @ (P[:, :3] * np.array([2.0, 2, 0.3])).T,
    "high, of rank two": (P[:, :3] * np.array([2.0, 1, 0])) @ Q,
    "wide, of rank one": Q @ (P[:, :3] * np.array([2.0, 0, 0])).T,
    "orthogonal": Q,
}
NONE = {  # where there is no second derivative: names of functions and matrices
    "largest": "all equal|the largest equal|two and three|zero",
    "two smallest": "all equal|the largest equal|zero",
    "length": "zero",
    "nuclear norm": "zero|rank one|high, of rank two|wide, of rank one",
    "spectral norm": "all equal|the largest equal|two and three|zero|wide, two equal|orthogonal",
    "Schatten norm 3": "zero",
    "Schatten norm 4": "zero",
    "second and third": "all equal|the largest equal|two and three|zero|rank one|wide, two equal|high, of rank two|"
    "wide, of rank one|orthogonal",
}
CASES = {
    f"{name} at {at}": (kind, *pair, x)
    for kind, functions, matrices in (
        ("eigenvalues", SYMMETRIC, FULL | OTHERS),
        ("eigenvalues", POSITIVE, FULL),
        ("singular", SINGULAR, FULL | OTHERS | RECTANGULAR),
    )
    for name, pair in functions.items()
    for at, x in matrices.items()
}


def second(kind, f, x, d):
    """The second derivative along d of a function of the values, by differences in 60 digits."""

    def at(t):
        matrix = mp.matrix(x.tolist()) + t * mp.matrix(d.tolist())
        own = mp.eigsy(matrix, eigvals_only=True) if kind == "eigenvalues" else mp.svd_r(matrix, compute_uv=False)
        return f(list(own))

    with mp.workdps(60):
        h = mp.mpf(10) ** -16
        return float((at(h) - 2 * at(0) + at(-h)) / h**2)


@functools.cache
def second_derivatives(f):
    """What gives its second derivative along a direction; one for all matrices, as in a program."""
    product, columns = sd.hvp(f), sd.hessian(f, backend="numpy")
    slope = sd.grad(lambda x, d: np.sum(sd.grad(f)(x) * d), backend="numpy")
    return product, lambda x, d: np.tensordot(columns(x), d), slope


@pytest.mark.parametrize("case", CASES)
def test_second_derivatives(case):
    kind, f, exact, x = CASES[case]
    d = source.normal(size=x.shape)
    d = d + d.T if kind == "eigenvalues" else d
    found = [second_derivative(x, d) for second_derivative in second_derivatives(f)]
    name, at = case.split(" at ")
    if at in NONE.get(name, "").split("|"):
        assert all(np.isnan(v).any() for v in found)
    else:
        scale = 1e-3 + np.max(np.abs(found[0])) * np.sum(np.abs(d))
        for v in found:
            assert np.sum(v * d) == pytest.approx(second(kind, exact, x, d), rel=WORST, abs=WORST * scale)


def test_rules_of_vectors():
    """What takes vectors apart whose values rounding cannot tell apart is NaN; others may have such values beside them."""
    low = P[:, :2] @ np.diag([3.0, 1.0]) @ P[:2, :]

    def projected(x):
        u, s, vh = np.linalg.svd(x)
        return np.sum((u[:, :2] * s[:2]) @ vh[:2])

    u, _, vh = np.linalg.svd(low)
    rest = u[:, 2:] @ u[:, 2:].T @ np.ones((4, 4)) @ vh[2:].T @ vh[2:]
    np.testing.assert_allclose(sd.grad(projected)(low), 1 - rest, atol=1e-13)
    assert np.any(np.isnan(sd.grad(lambda x: np.linalg.eigh(x)[1][0, 0])(turned([1.7, 1.7, 2.2]))))
    along = turned([0.2, -0.4, 1.0], np.eye(3)[:, ::-1])
    for order in (3, 4):
        assert np.isnan(
            sd.derivative(lambda t: np.sum(np.exp(values(FULL["the smallest equal"] + t * along))), order=order)(0.0)
        )


def root(x):
    w, v = np.linalg.eigh(x)
    return (v * np.sqrt(w)) @ v.T


def logarithm(x):
    w, v = np.linalg.eigh(x)
    return v @ np.diag(np.log(w)) @ v.conj().T


def nearest(x):
    u, _, vh = np.linalg.svd(x, full_matrices=False)
    return u @ vh


def damped(x):
    u, s, vh = np.linalg.svd(x, full_matrices=False)
    return (u * np.tanh(s)) @ vh


@pytest.mark.parametrize("f", [root, logarithm, nearest, damped])
@pytest.mark.parametrize("at", ["three", "all equal", "the smallest equal", "two and three", "beside one another by 1e-07"])
def test_functions_of_matrices_by_their_values(f, at):
    """Right where values are equal, too, by differences of the function itself; second derivatives are NaN there."""
    x = FULL[at]
    weights, d = source.normal(size=(2, *x.shape))
    d = d + d.T

    def weighted(x):
        return np.sum(weights * f(x))

    slope = (weighted(x + 1e-4 * d) - weighted(x - 1e-4 * d)) / 2e-4
    bend = (weighted(x + 1e-3 * d) - 2 * weighted(x) + weighted(x - 1e-3 * d)) / 1e-6
    for found in (np.sum(sd.grad(weighted)(x) * d), sd.jvp(weighted)(x, d)[1]):
        assert found == pytest.approx(slope, rel=1e-4, abs=1e-5)
    second = np.sum(sd.hvp(weighted)(x, d) * d)
    assert np.isnan(second) if "equal" in at or at == "two and three" else second == pytest.approx(bend, rel=1e-3, abs=1e-3)


def test_complex_matrices_and_batches():
    z = source.normal(size=(2, 3, 3)) + 1j * source.normal(size=(2, 3, 3))
    q, e = np.linalg.qr(z[0])[0], z[1] + z[1].conj().T
    x = (q * np.array([1.0, 1.0, 2.0])) @ q.conj().T

    def f(t):
        return np.sum(np.exp(values(x + t * e)))

    def exact(t):
        return total(mp.exp)(mp.eighe(mp.matrix(x.tolist()) + t * mp.matrix(e.tolist()), eigvals_only=True))

    with mp.workdps(50):
        h = mp.mpf(10) ** -15
        want = float((exact(h) - 2 * exact(0) + exact(-h)) / h**2)
    assert sd.derivative(f, order=2)(0.0) == pytest.approx(want, rel=1e-12)
    many = np.stack([FULL[at] for at in ("three", "all equal", "the smallest equal")])
    whole = sd.hessian(lambda x: np.sum(np.exp(values(x))))(many)
    one = sd.hessian(lambda x: np.sum(np.exp(values(x))))
    for k, x_ in enumerate(many):
        np.testing.assert_allclose(whole[k, :, :, k], one(x_), atol=1e-13)


@pytest.mark.parametrize("name", ["exp", "nuclear norm", "spectral norm", "cosh"])
def test_doors(name, tmp_path):
    f, _ = (SYMMETRIC | SINGULAR)[name]
    x, made = FULL["the smallest equal"], sd.hessian(f)
    many = np.stack([x, FULL["three"], FULL["all equal"], OTHERS["rank one"]])
    want = np.stack([made(point) for point in many])
    np.testing.assert_allclose(sd.vmap(made)(many), want, atol=1e-13)
    np.testing.assert_allclose(made.compile(x, backend="numpy")(x), want[0], atol=1e-13)
    np.testing.assert_allclose(sd.hessian(f, exact=True)(x), want[0], atol=1e-13)
    np.testing.assert_allclose(sd.hessian(f, scalarize=False)(x), want[0], atol=1e-13)
    np.testing.assert_allclose(made(x.astype("f")), want[0], atol=1e-4)
    made.export(tmp_path / "made.py", x)
    spec = importlib.util.spec_from_file_location("made", tmp_path / "made.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    exported = [v for k, v in vars(module).items() if k.endswith("_hessian")]
    np.testing.assert_allclose(exported[0](x), want[0], atol=1e-13)


def fed(x):
    """Each round's matrix has what the values of the last one told."""
    total = 1.0
    for _ in range(30):
        w = values(x)
        total = total * (1 + 0.01 * np.sum(np.exp(w)))
        x = x * (1 + 0.001 * np.sum(w * w))
    return total


def summed(many):
    total = 0.0
    for x in many:
        total = total + np.sum(np.exp(values(x)))
    return total


@pytest.mark.parametrize("f", [fed, summed])
def test_loops(f):
    """Of what rounds hand on to one another slopes are not known where values are equal."""
    for at in ("three", "the smallest equal"):
        x = FULL[at] if f is fed else np.stack([FULL[at]] * 30)
        d = np.ones_like(x)
        written, kept = (sd.hvp(f, loops=loops)(x, d) for loops in ("unroll", "keep"))
        if f is fed and at != "three":
            assert np.isnan(written).any() and np.isnan(kept).any()
        else:
            np.testing.assert_allclose(kept, written, rtol=1e-12)
