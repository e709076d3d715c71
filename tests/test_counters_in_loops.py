"""Integers that conditions count in kept loops, as indices and ends; conditions beside loops, with paths that raise."""

import ctypes
import shutil
import subprocess

import numpy as np
import pytest

import symdiff as sd

MATRIX = np.random.default_rng(1).normal(size=(9, 9))


def picked(a):
    y, k = np.zeros(9), 0
    for i in range(9):
        if a[0, i] > 0.1:
            y[k] = a[1, i]
            k += 1
    return np.sum(y * np.arange(9)) + k * a[0, 0]


def modular(a):
    s, k = 0.0, 1
    for i in range(9):
        if a[0, i] > 0.1:
            k = (k + 2) % 9
        s += np.sum(a[i, :k]) * a[k, i]
    return s


def two_counters(a):
    s, n, m = 0.0, 0, 0
    for i in range(9):
        if a[i, 0] > 0:
            n += 1
        else:
            m -= 2
        s += a[i, 1] * n + m
    return s / max(n, 1)


def halving(a):
    total, s = np.cumsum(np.abs(a[0])), 0.0
    for j in range(9):
        t, low, high = abs(a[1, j]) * 3, 0, 9
        while low < high:
            middle = (low + high) // 2
            if total[middle] < t:
                low = middle + 1
            else:
                high = middle
        s += (low + 1) * t
    return s


def largest(a):
    best = 0
    for i in range(1, 9):
        if a[0, i] > a[0, best]:
            best = i
    return a[1, best] * best


def rounds_until(a):
    x, n = a[0, 0], 0
    while abs(x) > 1e-3:
        x = 0.7 * x
        n += 1
        if n > 50:
            break
    return x * n + a[1, 1]


@pytest.mark.parametrize("f", [picked, modular, two_counters, halving, largest, rounds_until], ids=lambda f: f.__name__)
def test_integers_that_conditions_count(f):
    graph = sd.trace(f, MATRIX, loops="keep", paths="guard")
    assert set(graph.notes["loops"].values()) == {"kept"}, graph.notes["loops"]
    for a in (MATRIX, MATRIX.T.copy(), -MATRIX):
        np.testing.assert_allclose(graph(a), f(a), rtol=1e-12)
    value, slope = sd.value_and_grad(f, loops="keep", scalarize=False)(MATRIX)
    np.testing.assert_allclose(value, f(MATRIX), rtol=1e-12)
    np.testing.assert_allclose(slope, sd.grad(f, loops="unroll")(MATRIX), rtol=1e-9, atol=1e-12)


def test_integers_without_bounds_are_written_out():
    def grows(a):
        n, s = 3, 0.0
        for i in range(9):
            n = n * n if a[0, i] > 0.1 else n + 1
            s += a[1, i] * (n % 7)
        return s

    def last(x):
        k = 0
        for i in range(9):
            if k == 3:
                k = 9
            elif x[i] > 0:
                k += 1
        return k * x[0]

    graph = sd.trace(grows, MATRIX, loops="keep", paths="guard")
    assert "kept" not in graph.notes["loops"].values()
    assert graph(MATRIX) == grows(MATRIX)
    x = np.ones(9)
    assert sd.trace(last, x, loops="keep")(x) == last(x) == 14


# -- conditions beside loops


def either(x):
    s = x[1] if x[0] > 0.05 else 0.0
    for i in range(1, len(x)):
        s = np.sin(s * x[i]) + x[i - 1]
    return s if s > 0 else -s


def checked(x):
    if x[0] < 0:
        raise ValueError("negative")
    s = 0.0
    for i in range(1, len(x)):
        s = np.sin(s * x[i]) + x[i - 1]
    if s < 1e-3:
        raise ArithmeticError("small")
    return s


POINTS = np.random.default_rng(2).uniform(0.1, 0.9, (3, 400))


@pytest.mark.parametrize("paths", [None, "guard"])
@pytest.mark.parametrize("backend", ["auto", "numpy", "python"])
def test_loops_are_kept_beside_conditions(backend, paths):
    for f in (either, checked):
        df = sd.value_and_grad(f, backend=backend, paths=paths, loops="keep")
        for x in POINTS:
            value, slope = df(x)
            np.testing.assert_allclose(value, f(x), rtol=1e-12)
            way = np.cos(np.arange(len(x)))
            expected = (f(x + 1e-6 * way) - f(x - 1e-6 * way)) / 2e-6
            np.testing.assert_allclose(slope @ way, expected, rtol=1e-6, atol=1e-8)
        assert df.graph(POINTS[0]).notes["loops"].popitem()[1] == "kept"
    for x, error, text in ((-POINTS[0], ValueError, "negative"), (np.zeros(400), ArithmeticError, "small")):
        with pytest.raises(error, match=text):
            df(x)
    np.testing.assert_allclose(df(POINTS[1])[0], checked(POINTS[1]))
    with pytest.raises(ValueError, match="negative"):
        sd.vmap(sd.grad(checked, loops="keep"))(np.stack([POINTS[0], -POINTS[0]]))


def test_files_have_loops_beside_conditions_and_paths_that_raise():
    x = POINTS[0]
    for target in ("python", "numpy"):
        for f in (either, checked):
            text = sd.value_and_grad(f, loops="keep").source(x, target=target)
            space = {"__name__": "file"}
            exec(compile(text, f"<{target}>", "exec"), space)
            made = space[f"{f.__name__}_value_and_grad"]
            np.testing.assert_allclose(made(x)[0], f(x))
            assert len(text.splitlines()) < 400
        with pytest.raises(ValueError, match="negative"):
            made(-x)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_c_reads_cells_before_they_are_overwritten(tmp_path):
    def f(a):
        k = a.copy()
        for i in range(9):
            for j in range(1, 3):
                row = k[j]
                row[i] *= 2.0
            k[i] *= 0.9
        return np.sum(np.sin(k))

    df = sd.value_and_grad(f, loops="keep", scalarize=False)
    assert "kept" in df.graph(MATRIX).notes["loops"].values()
    (tmp_path / "f.c").write_text(df.source(MATRIX, target="c"))
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", tmp_path / "f.so", tmp_path / "f.c", "-lm"], check=True)
    value, slope = ctypes.c_double(), np.zeros((9, 9))
    pointer = ctypes.c_void_p
    ctypes.CDLL(str(tmp_path / "f.so")).f_value_and_grad(
        MATRIX.ctypes.data_as(pointer), ctypes.byref(value), slope.ctypes.data_as(pointer)
    )
    np.testing.assert_allclose(value.value, f(MATRIX), rtol=1e-12)
    np.testing.assert_allclose(slope, sd.grad(f, loops="unroll")(MATRIX), rtol=1e-12)


@pytest.mark.parametrize("loops", ["keep", "unroll"])
def test_a_number_of_rounds_is_one_of_pythons(loops):
    def f(x):
        k, s = 0, x
        while s > 0.01:
            s = s * 0.9
            k += 1
        return s * k if type(k) is int and isinstance(k, int) else k * 1.0

    value, slope = sd.value_and_grad(f, loops=loops, paths="guard")(3.0)
    assert value == pytest.approx(f(3.0), rel=1e-12)
    assert slope == pytest.approx(f(3.0) / 3.0, rel=1e-12)
