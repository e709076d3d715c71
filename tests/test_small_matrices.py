"""Inverses, solutions and determinants of small matrices in loops that are kept: operations on cells, in machine code."""

import ctypes
import shutil
import subprocess

import numpy as np
import pytest
from inside import engine

import symdiff as sd

native = pytest.mark.skipif(bool(engine.supported()), reason=engine.supported() or "")
RNG = np.random.default_rng(8)
P = np.array([0.4, 0.7])
SIZES = (1, 2, 3, 4)
MATRICES = {n: RNG.normal(size=(n, n)) for n in SIZES}
RIGHT = {n: RNG.normal(size=n) for n in SIZES}


def inverses(n, p):
    x = MATRICES[n] * p[0]
    for _ in range(12):
        x = np.linalg.inv(x) * p[1] + 0.3 * x
    return np.sum(x)


def solutions(n, p):
    a, x = MATRICES[n] * p[0], RIGHT[n] * p[1]
    for k in range(12):
        x = np.linalg.solve(a + 0.1 * k * np.eye(n), x) + RIGHT[n]
    return np.sum(x * x)


def several_right_sides(n, p):
    a, x = MATRICES[n] * p[0], np.eye(n)[:, :2] * p[1]
    for _ in range(12):
        x = np.linalg.solve(a, x) * 0.5 + 0.1
    return np.sum(x * x)


def determinants(n, p):
    s = p[1]
    for k in range(12):
        a = MATRICES[n] * p[0] + s * 0.1 * np.eye(n)
        s = s * 0.5 + np.linalg.det(a) + np.linalg.slogdet(a)[1] * k * 0.01 + np.linalg.slogdet(a)[0]
    return s


def over_zeros(n, p):
    s = 0.0
    for k in range(12):
        a = p[0] * np.eye(n)[::-1] + p[1] * k * np.diag(np.arange(n) % 2)  # zeros where the first pivots would be
        s = s + np.sum(np.linalg.inv(a + 0.01 * s)) + np.linalg.det(a)
    return s


@native
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("f", [inverses, solutions, several_right_sides, determinants, over_zeros], ids=lambda f: f.__name__)
def test_small_matrices_in_loops(f, n):
    def g(p):
        return f(n, p)

    kept = sd.value_and_grad(g, loops="keep", backend="native")  # which has no call of NumPy's
    value, derivative = kept(P)
    expected = sd.value_and_grad(g, loops="unroll", backend="numpy")(P)
    np.testing.assert_allclose(value, g(P), rtol=1e-9)
    np.testing.assert_allclose(derivative, expected[1], rtol=1e-7)
    np.testing.assert_allclose(sd.hessian(g, loops="keep")(P), sd.hessian(g, loops="unroll")(P), rtol=1e-6)


@native
def test_a_filter_is_machine_code():
    def kalman(p):
        x, cov, s = np.zeros(2), np.eye(2), 0.0
        for y in RIGHT[4]:
            cov = MATRICES[2] @ cov @ MATRICES[2].T + p[0] * np.eye(2)
            var = cov[:1, :1] + p[1]
            gain = cov[:, :1] @ np.linalg.inv(var)
            error = y - (MATRICES[2] @ x)[:1]
            x = MATRICES[2] @ x + gain @ error
            cov = cov - gain @ cov[:1]
            s -= 0.5 * (error @ np.linalg.solve(var, error) + np.log(np.linalg.det(var)))
        return s

    kept = sd.value_and_grad(kalman, loops="keep", backend="native")
    unrolled = sd.value_and_grad(kalman, loops="unroll", backend="numpy")
    np.testing.assert_allclose(kept(P)[0], kalman(P), rtol=1e-12)
    np.testing.assert_allclose(kept(P)[1], unrolled(P)[1], rtol=1e-10)


@native
def test_singular_matrices_in_loops_give_no_numbers():
    def f(x):
        for _ in range(9):
            x = np.sum(np.linalg.inv(np.array([[x, 1.0], [1.0, 1.0]])))
        return x

    value, derivative = sd.value_and_grad(f, loops="keep", backend="native")(1.0)
    assert not np.isfinite(value)
    assert not np.isfinite(derivative)


MATRIX = np.array([[2.0, 0.3, -0.2, 0.1], [0.1, 1.7, 0.4, 0.0], [-0.3, 0.2, 2.2, 0.5], [0.4, -0.1, 0.3, 1.9]])
IN_FILES = {
    "solve": lambda x: np.linalg.solve(MATRIX[: len(x), : len(x)] + np.outer(x, x), x) @ x,
    "inv": lambda x: np.sum(np.linalg.inv(MATRIX[: len(x), : len(x)] + np.outer(x, x))),
    "det": lambda x: np.linalg.det(MATRIX[: len(x), : len(x)] * x[0] + np.outer(x, x)),
    "slogdet": lambda x: np.linalg.slogdet(MATRIX[: len(x), : len(x)] + np.outer(x, x))[1],
}


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("name", IN_FILES)
@pytest.mark.parametrize("target", ["python", "c"])
def test_small_matrices_in_files_without_numpy(target, name, n, tmp_path):
    def f(x):
        return IN_FILES[name](x)

    x, df = np.array([0.3, 0.7, -0.2, 0.5])[:n], sd.grad(f)
    text, wanted = df.source(x, target=target), df(x)
    if target == "python":
        space = {}
        exec(text, space)
        found = space["f_grad"](x.tolist())
    else:
        if shutil.which("cc") is None:
            pytest.skip("there is no compiler called cc")
        (tmp_path / "f.c").write_text(text)
        subprocess.run(
            ["cc", "-O1", "-std=c99", "-shared", "-fPIC", "-o", tmp_path / "f.so", tmp_path / "f.c", "-lm"], check=True
        )
        found = np.empty(n)
        ctypes.CDLL(str(tmp_path / "f.so")).f_grad(ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(found.ctypes.data))
    np.testing.assert_allclose(found, wanted, rtol=1e-9)
    five = np.linspace(0.1, 0.5, 5)
    with pytest.raises(sd.BackendError, match="NumPy takes it"):
        sd.grad(lambda x: np.linalg.det(np.eye(5) + np.outer(x, x))).source(five, target=target)


def test_a_singular_matrix_raises_where_numpy_does():
    def f(x):
        return np.sum(np.linalg.solve(np.outer(x, x), x))

    for call in (f, sd.grad(f)):
        with pytest.raises(np.linalg.LinAlgError, match="Singular"):
            call(np.ones(2))
    space = {}
    exec(sd.grad(f).source(np.ones(2), target="python"), space)
    assert np.isnan(space["f_grad"]([1.0, 1.0])).all()


@pytest.mark.parametrize("n", SIZES)
def test_determinants_of_singular_matrices_in_loops_are_zero(n):
    def f(a):
        s = 0.0
        for k in range(20):
            s = np.sin(0.1 * s + np.linalg.det(a * k / 20) + 0.1)
        return s, np.linalg.det(a), np.linalg.slogdet(a)[0]

    singular = [np.zeros((n, n)), np.outer(np.arange(n), np.ones(n)), np.eye(n), *RNG.integers(-1, 2, (40, n, n)).astype(float)]
    for target in (sd.vmap(f), sd.vmap(f, backend="numpy")):
        found = target(np.array(singular))
        for k, a in enumerate(singular):
            np.testing.assert_allclose([part[k] for part in found], f(a), rtol=1e-9, atol=1e-12)
