"""Files of long functions have loops as loops, and are run here as a stranger would."""

import ctypes
import shutil
import subprocess
import tracemalloc

import numpy as np
import pytest
from inside import structures

import symdiff as sd

X = np.linspace(0.9, 1.1, 1000)


def rosenbrock(x):
    s = 0.0
    for i in range(len(x) - 1):
        s += 100.0 * (x[i + 1] - x[i] ** 2) ** 2 + (1 - x[i]) ** 2
    return s


def mathematics(text):
    """The function of the steps of a file, or all of it where there is none."""
    return text[text.index("_steps(") :].partition("\ndef ")[0] if "_steps(" in text else text


@pytest.mark.parametrize("target", ["python", "c"])
def test_a_loop_is_a_loop_in_a_file(target, tmp_path):
    df = sd.value_and_grad(rosenbrock)
    text = df.source(X, target=target)
    assert len(mathematics(sd.grad(rosenbrock).source(X, target=target)).splitlines()) < (20 if target == "python" else 40)
    assert mathematics(text).count("for ") == 3
    value, slope = df(X)
    if target == "python":
        space = {}
        exec(text, space)
        found = space["rosenbrock_value_and_grad"](X)
        out = [0.0], np.empty(1000)
        assert space["rosenbrock_value_and_grad"](X, out=out) is out
        assert out[0][0] == found[0] and np.array_equal(out[1], found[1])
    else:
        if shutil.which("cc") is None:
            pytest.skip("there is no compiler called cc")
        (tmp_path / "f.c").write_text(text)
        subprocess.run(
            ["cc", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o", tmp_path / "f.so", tmp_path / "f.c", "-lm"], check=True
        )
        f, slopes = ctypes.c_double(), np.empty(1000)
        run = ctypes.CDLL(str(tmp_path / "f.so")).rosenbrock_value_and_grad
        run(ctypes.c_void_p(X.ctypes.data), ctypes.byref(f), ctypes.c_void_p(slopes.ctypes.data))
        found = f.value, slopes
    assert found[0] == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(found[1], slope, 1e-12, 1e-12)


def test_maps_and_sums_are_slices_in_a_file_of_numpy():
    steps = mathematics(sd.value_and_grad(rosenbrock).source(X, target="numpy"))
    assert len(steps.splitlines()) < 30 and "for " not in steps


def test_what_a_target_does_not_take_is_written_out():
    def chain(x):
        for _ in range(600):
            x = np.sin(x) + x
        return x

    single = np.float32(0.3)
    space = {}
    exec(sd.grad(chain).source(single, target="numpy"), space)
    assert space["chain_grad"](single) == pytest.approx(sd.grad(chain)(single), rel=1e-3)
    with pytest.raises(sd.BackendError, match="single precision"):
        sd.grad(chain, loops="keep").source(single, target="numpy")


def test_products_of_large_matrices_are_numpys():
    def chain(A, x):
        for _ in range(300):
            x = np.tanh(A @ x)
        return np.sum(x)

    for n, looped in ((4, True), (50, False)):
        args = np.eye(n), np.full(n, 0.5)
        text = sd.grad(chain, (0, 1)).source(*args, target="numpy")
        assert ("for k in range(300)" in text) == looped and ("np.matmul(" in text) != looped
        space = {}
        exec(text, space)
        for found, expected in zip(space["chain_grad"](*args), sd.grad(chain, (0, 1))(*args), strict=True):
            np.testing.assert_allclose(found, expected, 1e-9, 1e-12)
    with pytest.raises(sd.BackendError, match="large arrays"):
        sd.grad(chain, loops="keep").source(np.eye(50), np.ones(50), target="numpy")


def logistic(r, x):
    for _ in range(600):
        x = r * x * (1 - x)
    return x


def pole(x):
    s = 0.0
    for k in range(400):
        s = x / (s * s) + x / (k - 200.0)
    return s


def clenshaw(c, x):
    a = b = 0.0
    for k in range(len(c)):
        a, b = c[k] + 2 * x * a - b, a
    return a


def root(a):
    x = a
    while abs(x * x - a) > 1e-9:
        x = 0.5 * (x + a / x)
    return x


def spiral(z):
    w = 0.0
    for _ in range(300):
        w = w * w * 0.3 + z
    return w


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("order", [sd.value_and_grad, sd.jacobian])
@pytest.mark.parametrize(
    "f, args",
    [
        (logistic, (3.5, 0.2)),
        (pole, (0.7,)),
        (clenshaw, (np.cos(np.arange(400.0)), 0.3)),
        (root, (2.0,)),
        (spiral, (0.2 + 0.1j,)),
    ],
)
def test_a_recurrence_is_a_loop_in_a_file_of_numpy(f, args, order):
    if f is spiral and order is sd.value_and_grad:
        order = sd.jacobian
    df = order(f, loops="keep")
    text = df.source(*args, target="numpy")
    steps = mathematics(text)
    assert ("for " in steps or "while " in steps) and len(steps.splitlines()) < 30
    space = {}
    exec(text, space)
    run = space[space["__all__"][0]]
    expected, found = df(*args), run(*args)
    out = tuple(np.empty_like(e) for e in expected) if isinstance(expected, tuple) else np.empty_like(expected)
    assert run(*args, out=out) is out
    for value in (found, out):
        for e, v in zip(*((x if isinstance(x, tuple) else (x,)) for x in (expected, value)), strict=True):
            np.testing.assert_allclose(v, e, rtol=1e-9)
    assert type(found) is type(expected)


@pytest.mark.parametrize("x", [0.7, 0.0, np.inf])
def test_loops_in_a_file_of_python_have_ieee_results(x):
    df = sd.value_and_grad(pole, loops="keep")
    space = {}
    exec(df.source(x, target="python"), space)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(space["pole_value_and_grad"](x), df(x), rtol=1e-12)


def test_a_file_of_python_has_the_functions_own_arguments():
    def swing(start, n, *, step):
        q, p = start["q"], start["p"]
        for _ in range(n):
            q, p = q + step * p, p - step * np.sin(q + step * p)
        return q

    df = sd.value_and_grad(swing)
    start = {"q": 0.3, "p": 1.0}
    value, slope = df(start, 400, step=0.01)
    text = df.source(start, 400, step=0.01, target="python")
    assert len(mathematics(text).splitlines()) < 40
    space = {}
    exec(text, space)
    found = space["swing_value_and_grad"](start, 400, step=0.01)
    assert found[0] == pytest.approx(value, rel=1e-12) and found[1] == pytest.approx(slope, rel=1e-12)


def growing(x):
    values = [x[0]]
    for i in range(2000):
        values.append(values[-1] * 0.99 + x[1] * i)
    total = 0.0
    for v in values:
        total = total + v * v
    return total


@pytest.mark.parametrize("target", ["c", "python"])
def test_a_list_that_grows_long_is_written(target):
    assert len(sd.value_and_grad(growing, loops="keep").source(np.ones(2), target=target)) > 1000


def swung(x, rate, table):
    q, p = x[0], x[1]
    path = np.empty((150, 2))
    for k in range(150):
        p = p - rate * np.sin(q) * table[k % 40]
        q = q + rate * p
        path[k, 0], path[k, 1] = q, p
    return path


def turned(x, rate, table):
    if rate < 0:
        raise ValueError(f"{rate} turns back")
    z = x[0] + 1j * x[1]
    for k in range(300):
        z = z * np.exp(1j * rate * table[k % 40]) / (1 + 0.001 * abs(z))
    return z.real


def settled(x, rate, table):
    a, y = 1 + x[0] * x[0], 1.0
    while abs(y * y - a) > 1e-9 * rate:
        y = 0.5 * (y + a / y) + 0 * table[0]
    return y * x[1]


@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize(
    "f, derivative", [(swung, sd.jacobian), (turned, sd.value_and_grad), (settled, sd.value_and_grad), (settled, sd.hessian)]
)
def test_files_of_points_have_loops(f, derivative, axis):
    n = 3000
    points = np.random.default_rng(3).uniform(0.2, 1.2, size=(n, 2))
    x, rate, table = points if axis == 0 else points.T.copy(), np.linspace(0.01, 0.02, n), np.linspace(0.8, 1.2, 40)
    args, axes = (x, rate, table), (axis, 0, None)
    df = sd.vmap(derivative(f, loops="keep"), in_axes=axes, out_axes=axis)
    text = df.source(*args, target="numpy")
    assert ("for k in " in text or "while " in text) and len(text.splitlines()) < 300
    space = {}
    exec(text, space)
    run = space[space["__all__"][0]]
    expected, found = sd.vmap(derivative(f), in_axes=axes, out_axes=axis)(*args), run(*args)
    out = structures.map_leaves(np.empty_like, found)
    assert run(*args, out=out) is out
    tracemalloc.start()
    run(*args, out=out)
    assert f is settled or tracemalloc.get_traced_memory()[1] < 20_000  # memory that grows with rounds is made anew
    tracemalloc.stop()
    for value in (found, out):
        for e, v in zip(structures.leaves(expected), structures.leaves(value), strict=True):
            np.testing.assert_allclose(v, e, 1e-10, 1e-12)
    if f is turned:
        with pytest.raises(ValueError, match=r"-1\.0 turns back"):
            run(x, np.where(np.arange(n) == 2900, -1.0, rate), table)


def triangle(x):
    total = 0.0
    for i in range(len(x)):
        s = 1.0
        for j in range(i + 1):
            s = np.sin(s * x[j])
        total += s
    return total


def eliminated(x):
    a = np.outer(x, x**2) + np.diag(x)
    for k in range(len(a) - 1):
        for i in range(k + 1, len(a)):
            for j in range(k + 1, len(a)):
                a[i, j] -= a[i, k] * a[k, j]
    return np.sum(a)


@pytest.mark.parametrize("target", ["python", "numpy", "c"])
@pytest.mark.parametrize("f", [triangle, eliminated])
def test_rows_that_rounds_of_an_outer_loop_count(f, target, tmp_path):
    x = np.linspace(0.5, 0.9, 7)
    df = sd.value_and_grad(f, loops="keep", scalarize=False)
    value, slope = df(x)
    text, found = df.source(x, target=target), np.empty(7)
    if target != "c":
        space = {}
        exec(text, space)
        f_, found = space[f"{f.__name__}_value_and_grad"](x.tolist())
    elif shutil.which("cc") is None:
        pytest.skip("there is no compiler called cc")
    else:
        (tmp_path / "f.c").write_text(text)
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", tmp_path / "f.so", tmp_path / "f.c", "-lm"], check=True)
        f_ = ctypes.c_double()
        run = ctypes.CDLL(str(tmp_path / "f.so"))[f"{f.__name__}_value_and_grad"]
        run(ctypes.c_void_p(x.ctypes.data), ctypes.byref(f_), ctypes.c_void_p(found.ctypes.data))
        f_ = f_.value
    assert f_ == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(found, slope, 1e-10)
