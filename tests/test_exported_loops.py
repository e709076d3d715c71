"""Files of long functions have loops as loops, and are run here as a stranger would."""

import ctypes
import math
import shutil
import subprocess
import tracemalloc

import numpy as np
import pytest
from inside import structures

import symdiff as sd

X = np.linspace(0.9, 1.1, 1000)
STRICT = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror"]


def rosenbrock(x):
    s = 0.0
    for i in range(len(x) - 1):
        s += 100.0 * (x[i + 1] - x[i] ** 2) ** 2 + (1 - x[i]) ** 2
    return s


def mathematics(text):
    """The function of the steps of a file, or all of it where there is none."""
    return text[text.index("_steps(") :].partition("\ndef ")[0] if "_steps(" in text else text


def compiled(text, folder):
    """The functions of a file of C."""
    if shutil.which("cc") is None:
        pytest.skip("there is no compiler called cc")
    (folder / "f.c").write_text(text)
    subprocess.run(["cc", "-O1", *STRICT, "-shared", "-fPIC", "-o", folder / "f.so", folder / "f.c", "-lm"], check=True)
    return ctypes.CDLL(str(folder / "f.so"))


@pytest.mark.parametrize("target", ["python", "c"])
def test_a_loop_is_a_loop_in_a_file(target, tmp_path):
    df = sd.value_and_grad(rosenbrock)
    text = df.source(X, target=target)
    assert len(mathematics(sd.grad(rosenbrock).source(X, target=target)).splitlines()) < (20 if target == "python" else 40)
    assert mathematics(text).count("for ") == (2 if target == "python" else 3)  # C writes the zeros one by one
    value, slope = df(X)
    if target == "python":
        space = {}
        exec(text, space)
        found = space["rosenbrock_value_and_grad"](X)
        out = [0.0], np.empty(1000)
        assert space["rosenbrock_value_and_grad"](X, out=out) is out
        assert out[0][0] == found[0] and np.array_equal(out[1], found[1])
    else:
        f, slopes = ctypes.c_double(), np.empty(1000)
        run = compiled(text, tmp_path).rosenbrock_value_and_grad
        run(ctypes.c_void_p(X.ctypes.data), ctypes.byref(f), ctypes.c_void_p(slopes.ctypes.data))
        found = f.value, slopes
    assert found[0] == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(found[1], slope, 1e-12, 1e-12)


def test_a_loop_in_c_is_one_text_for_all_sizes():
    """Rows that are added up have no memory of their own."""
    texts = [sd.value_and_grad(rosenbrock).source(sd.Spec((n,)), target="c") for n in (1000, 100_000)]
    first, second = (text[text.index("#include") :] for text in texts)
    assert first.replace("1000", "100000").replace("999;", "99999;") == second
    assert len(second.splitlines()) < 25 and "df_dx[k] -= 2.0 *" in second and "alloc" not in second


@pytest.mark.parametrize("target", ["python", "numpy"])
def test_rows_that_are_added_up_do_not_lie_where_the_round_reads(target):
    def stepped(x):
        total = 0.0
        for _ in range(70):
            first, second, t = np.zeros(60), np.zeros(60), 0.1
            for i in range(60):
                t = np.sin(t + x[i])
                first[i] = t * x[59 - i] * 0.2
                second[i] = t * 0.1 + 0.3 * x[i]
            total = total + np.sum(x * x)
            x = first + second
        return total

    df, x, space = sd.value_and_grad(stepped, loops="keep"), np.linspace(0.1, 0.9, 60), {}
    exec(df.source(x, target=target), space)
    for found, known in zip(space["stepped_value_and_grad"](x), df(x), strict=True):
        np.testing.assert_allclose(found, known, 1e-9)


def test_rounds_that_a_loop_counts_are_within_its_limit():
    """What is read at the number of a round needs no clamping where the loop has a limit."""

    def until(x):
        total = 0.0
        for i in range(len(x)):
            if x[i] < 0:
                break
            total += math.sqrt(x[i])
        return total

    x = np.linspace(2.0, -1.0, 80)
    for target in ("python", "numpy", "c"):
        text = sd.grad(until, paths="merge").source(x, target=target)
        assert "min(" not in mathematics(text) and "np_index" not in text, target


def test_maps_and_sums_are_slices_in_a_file_of_numpy():
    steps = mathematics(sd.value_and_grad(rosenbrock).source(X, target="numpy"))
    assert len(steps.splitlines()) < 30 and "for " not in steps


TABLE = np.array([-1.6, -1.2, -0.5, -0.5, 0.0, 0.3, 0.9, 1.4, 1.5, np.nan, np.nan])


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("target", ["python", "numpy", "c"])
def test_places_among_sorted_numbers_and_of_the_largest_in_files(target, side, tmp_path):
    def f(x):
        s = 0.0
        for k in range(150):
            q = np.round(np.sin(x[0] * k) * 2.0, 1) + 0.0 * x[0]
            s = s + np.searchsorted(TABLE, q, side=side) * x[1]
            m = np.cos(x * k)
            s = s + m[np.argmax(m)] * x[0] - m[np.argmin(m)] * x[2]
        return s

    x = np.array([0.3, 0.7, 0.2])
    df = sd.value_and_grad(f, loops="keep")
    value, slope = df(x)
    assert value == pytest.approx(f(x), rel=1e-12)
    np.testing.assert_allclose(sd.vmap(sd.grad(f, loops="keep"))(np.array([x, 2 * x, -x]))[0], slope, rtol=1e-12)
    text, space = df.source(x, target=target), {}
    if target == "c":
        found, slopes = ctypes.c_double(), np.empty(3)
        run = compiled(text, tmp_path).f_value_and_grad
        run(ctypes.c_void_p(x.ctypes.data), ctypes.byref(found), ctypes.c_void_p(slopes.ctypes.data))
        result = found.value, slopes
    else:
        exec(text, space)
        result = space["f_value_and_grad"](x if target == "numpy" else x.tolist())
    assert result[0] == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(result[1], slope, rtol=1e-12)


@pytest.mark.parametrize("joined", [np.median, lambda x: np.sort(x)[1]])
def test_what_a_target_does_not_take_is_refused_with_one_that_does(joined):
    def climbing(x):
        for _ in range(150):
            x = np.sin(x) * 0.9 + 0.1 * joined(x)
        return np.sum(x)

    x = np.array([0.1, 0.5, 0.3])
    assert "for k in" in sd.grad(climbing).source(x, target="numpy")
    for options in ({}, {"loops": "keep"}):
        with pytest.raises(sd.BackendError, match=r"is not part of C99's libm; (NumPy takes it|scalarize=True)"):
            sd.grad(climbing, **options).source(x, target="c")


def layered(W, U, b, xs):
    h, s = np.zeros(12), 0.0
    for x in xs:
        z = W @ h + U @ x + b
        h = np.tanh(z[:12]) / (1 + np.exp(-z[12:]))
        s += np.sum(h * h)
    return s


def adam(x, target):
    m, v = np.zeros(40), np.zeros(40)
    for t in range(1, 31):
        g = 2 * (x - target) + np.sin(x)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        x = x - 0.01 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    return np.sum((x - target) ** 2)


def filtered(F, H, zs):
    x, P, s = np.zeros(5), np.eye(5), 0.0
    for z in zs:
        x, P = F @ x, F @ P @ F.T + 0.1 * np.eye(5)
        y, S = z - H @ x, H @ P @ H.T + 0.2 * np.eye(2)
        K = np.linalg.solve(S, H @ P).T
        x, P = x + K @ y, P - K @ H @ P
        s += y @ np.linalg.solve(S, y) + np.log(np.linalg.det(S))
    return s


def heated(u, alpha):
    for _ in range(20):
        new = u.copy()
        inner = u[1:-1, 1:-1]
        new[1:-1, 1:-1] = inner + alpha * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * inner)
        u = new
    return np.sum(u**2)


def eliminated(A):
    A = A.copy()
    for i in range(len(A)):
        for j in range(i + 1, len(A)):
            A[j, i:] -= A[j, i] / A[i, i] * A[i, i:]
    return np.sum(np.log(np.abs(np.diag(A))))


def factored(A):
    A = A.copy()
    for i in range(len(A)):
        A[i, i] = np.sqrt(A[i, i])
        A[i + 1 :, i] = A[i + 1 :, i] / A[i, i]
        for j in range(i + 1, len(A)):
            A[j:, j] = A[j:, j] - A[j:, i] * A[j, i]
    return np.sum(np.log(np.diag(A)))


def relaxed(A, x):
    y = np.ones(len(x))
    while np.sum((A @ y - x) ** 2) > 1e-10:
        y = y - 0.1 * (A.T @ (A @ y - x))
    return np.sum(y * x)


def swapped(a, b):
    for _ in range(10):
        a, b = b, 0.5 * (a + np.cos(b))
        a = a + 0.1 * b
    return np.sum(a * b)


def same_twice(a):
    b = a
    for k in range(10):
        c = np.sin(a + b)
        c[k] *= 2.0
        a, b = c, c
        a = a * 1.0
        a[k + 1] += b[k]
    return np.sum(a + b * b)


def turned(A):
    B = A
    for _ in range(6):
        B = B.T * 0.5 + A
        B[0] = B[1] * 2.0
        B[:, 2] += np.sin(A[3])
    return np.sum(B * B)


def rolled(y):
    y = y.copy()
    for k in range(1, len(y)):
        y[k] = 0.5 * y[k - 1] + np.sin(y[k])
        y[k, 1:] += y[k, :-1] * 0.1
    return np.sum(y**2)


def inner_rounds(x, W):
    s = 0.0
    for i in range(5):
        y = x * i
        for j in range(6):
            y = np.tanh(W @ y) + 0.1 * x
            s += y[i] * y[j]
    return s


def sorted_each_round(x):
    for _ in range(8):
        x = np.sort(x) * 0.9 + x * 0.1
    return np.sum(x * x)


def counted_before(W, h):
    s = 0.0
    for _ in range(8):
        n, first = np.sum(h * h), h[0]
        h = np.tanh(W @ h)
        s += n * np.sum(h) + first * h[1]
    return s


def exchanged(A):
    B = 0.3 * np.eye(9)
    s = 0.0
    for k in range(5):
        A = A.copy()
        A[k, 0] = s
        B, A = A, B * 0.5
        s = np.sin(B[k, 2]) * 0.2
    return np.sum(np.sin(A)) + s


def replaced(a):
    b, c = np.cos(a), np.zeros(9)
    for _ in range(6):
        for _ in range(5):
            a = b
        a, b = b, a
        c = a * 0.5 - c
    return c @ a + np.sum(a)


def doubly_counted(a, A, t):
    b, c, B, k = np.cos(a), np.zeros(9), np.eye(9) * 0.3, 0
    while np.sum(np.abs(a)) > -1 and k < 6:
        c = np.where(b > t * 0.1, (A @ (a + a)) * 0.2, np.sin(t) * 0.5 * np.tanh(c))
        b = a
        B = ((np.cos(A) @ (A @ B) * 0.1) * 0.04 + a[:, None]) * 0.7
        c = np.sin(B[:, 1])
        A, B = B, A * 0.5
        b, c = c, b
        k += 1
    return np.sum(np.sin(A)) + b[0] + np.sum(a)


def single(W, x):
    h = np.zeros(12, np.float32)
    for _ in range(30):
        h = np.where(x > 0, 1.0, np.tanh(W @ h + x)) * np.float32(0.9)
        h = np.sin(h.astype(np.float64) * 0.5).astype(np.float32)
    return np.sum(h * h)


def complex_rounds(A, v):
    for k in range(10):
        v = np.sin(A @ v) * 0.5 + 0.1 * v * k
    return v


def _normal(*shape):
    return np.random.default_rng(5).normal(size=shape)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "f, args, derivative, longest",
    [
        (layered, (_normal(24, 12) / 4, _normal(24, 12) / 4, _normal(24), _normal(20, 12)), sd.value_and_grad, 40),
        (layered, (_normal(24, 12) / 4, _normal(24, 12) / 4, _normal(24), _normal(20, 12)), sd.grad, 40),
        (adam, (_normal(40), _normal(40)[::-1].copy()), sd.value_and_grad, 50),
        (filtered, (np.eye(5) + _normal(5, 5) / 20, _normal(2, 5), _normal(30, 2)), sd.value_and_grad, 75),
        (heated, (_normal(20, 20), 0.1), sd.value_and_grad, 30),
        (eliminated, (_normal(12, 12) + np.eye(12) * 9,), sd.value_and_grad, 65),
        (factored, (_normal(12, 12) @ _normal(12, 12).T + np.eye(12) * 9,), sd.value_and_grad, 95),
        (relaxed, (np.eye(20) + _normal(20, 20) / 30, _normal(20)), sd.value_and_grad, 35),
        (swapped, (_normal(30), _normal(30)[::-1].copy()), sd.hessian, 70),
        (same_twice, (_normal(30),), sd.value_and_grad, 40),
        (turned, (_normal(9, 9),), sd.value_and_grad, 40),
        (rolled, (_normal(30, 10),), sd.value_and_grad, 40),
        (inner_rounds, (_normal(10), _normal(10, 10) / 5), sd.value_and_grad, 45),
        (sorted_each_round, (_normal(8),), sd.value_and_grad, 40),
        (exchanged, (_normal(9, 9),), sd.value_and_grad, 60),
        (replaced, (_normal(9),), sd.value_and_grad, 50),
        (doubly_counted, (_normal(9), _normal(9, 9), 0.3), sd.value_and_grad, 90),
        (counted_before, (_normal(10, 10) / 3, _normal(10)), sd.value_and_grad, 40),
        (single, (_normal(12, 12).astype(np.float32) / 5, _normal(12).astype(np.float32)), sd.value_and_grad, 30),
        (complex_rounds, (_normal(6, 6) + 1j * _normal(6, 6).T, _normal(6) + 0j), sd.jacobian, 40),
    ],
)
def test_arrays_stay_whole_in_the_loops_of_a_file_of_numpy(f, args, derivative, longest):
    df = derivative(f, tuple(range(len(args))), loops="keep")
    text = df.source(*args, target="numpy")
    steps = mathematics(text)
    assert len(steps.splitlines()) < longest and ("for k in" in steps or "while " in steps)
    space = {}
    exec(text, space)
    run = space[space["__all__"][0]]
    given = [np.array(a) for a in args]
    expected, found = (structures.leaves(value) for value in (df(*args), run(*args)))
    assert all(np.array_equal(a, b) for a, b in zip(args, given, strict=True))
    scale = max(np.max(np.abs(e)) for e in expected)
    tolerance = 1e-4 if f is single else 1e-9
    for e, v in zip(expected, found, strict=True):
        assert (np.shape(v), np.asarray(v).dtype) == (np.shape(e), np.asarray(e).dtype)
        np.testing.assert_allclose(v, e, tolerance, tolerance * scale)


STEPS = {
    "counts": lambda x, A, k: x * 0.9 + np.sum(x < A, axis=0) * 0.01,
    "any": lambda x, A, k: np.where(np.any(x > 1), x * 0.5, x * 1.1),
    "sorts": lambda x, A, k: np.searchsorted(np.sort(x), 0.1) * 0.1 + np.sort(x) * 0.8,
    "argmax": lambda x, A, k: x * 0.9 + x[np.argmax(x)] * A[np.argmin(x)],
    "running": lambda x, A, k: np.cumsum(x) * 0.2 + np.cumprod(np.tanh(x)),
    "largest": lambda x, A, k: np.max(A * x, axis=1) * 0.5 + np.min(A * x, axis=0) * 0.2 * np.max(x * k),
    "inverse": lambda x, A, k: np.linalg.inv(A + 5 * np.eye(8)) @ x + np.linalg.det(A * 0.3 + np.eye(8)),
    "cholesky": lambda x, A, k: np.linalg.cholesky(A @ A.T + (1 + k) * np.eye(8)).T @ x * 0.3,
    "eigenvalues": lambda x, A, k: np.linalg.eigh(A + A.T)[1] @ np.tanh(np.linalg.eigh(A + A.T)[0]) + x * 0.1,
    "joined": lambda x, A, k: np.concatenate([x[4:], np.sin(x[:4])]) * 0.9 + np.append(np.diff(x), x[0]) * 0.1,
    "triangles": lambda x, A, k: (np.tril(A) @ x + np.triu(A, 1) @ np.cos(x)) * 0.2,
    "norms": lambda x, A, k: x / np.linalg.norm(x) + np.linalg.norm(A, axis=1) * 0.1,
    "turned": lambda x, A, k: (A.T[::-1] @ x[::-1]) * 0.2,
    "picked": lambda x, A, k: x[[3, 1, 2, 0, 7, 6, 5, 4]] * 0.9 + A[[0, 2, 4, 6, 1, 3, 5, 7], [1, 1, 2, 2, 3, 3, 4, 4]],
    "complex": lambda x, A, k: np.real(np.exp(x * 1j) * x * 1j) + np.abs(x * 1j) * 0.1,
    "outer": lambda x, A, k: np.outer(x, np.sin(x)) @ A[k] * 0.1 + np.diag(np.outer(x, A[:, k])),
    "quantile": lambda x, A, k: np.sin(x) + np.median(x) * 0.1 + np.std(x),
}


@pytest.mark.parametrize("name", STEPS)
def test_operations_on_arrays_in_the_rounds_of_a_file_of_numpy(name):
    def f(x, A):
        for k in range(8):
            x = STEPS[name](x, A, k)
        return np.sum(x * x)

    x, A = _normal(8), _normal(8, 8)
    df = sd.value_and_grad(f, (0, 1), loops="keep")
    text = df.source(x, A, target="numpy")
    space = {}
    exec(text, space)
    assert "for k in range(8)" in mathematics(text)
    (value, slopes), (found, others) = df(x, A), space["f_value_and_grad"](x, A)
    for e, v in zip((value, *slopes), (found, *others), strict=True):
        assert np.asarray(v).dtype == np.float64
        np.testing.assert_allclose(v, e, 1e-8, 1e-10 * max(1, np.max(np.abs(e))))


@pytest.mark.parametrize("f, args", [(eliminated, (_normal(6, 6) + np.eye(6) * 9,)), (rolled, (_normal(9, 4),))])
def test_rows_of_rounds_that_are_known_before_are_kept_in_files_of_python(f, args):
    df = sd.grad(f, loops="keep")
    space = {}
    exec(df.source(*args, target="python"), space)
    np.testing.assert_allclose(space[f"{f.__name__}_grad"](*args), df(*args), 1e-10, 1e-12)


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


def rotated(x, rate, table):
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
    "f, derivative", [(swung, sd.jacobian), (rotated, sd.value_and_grad), (settled, sd.value_and_grad), (settled, sd.hessian)]
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
    if f is rotated:
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


ROWS = [[math.sin(7.0 * i + j) for j in range(12)] for i in range(9)]


def hopped(x, rate):
    for k in range(300):
        x = x + rate * ROWS[k % 9][k * k % 12] * np.sin(x)
    return x


@pytest.mark.parametrize("target", ["python", "numpy", "points", "c"])
def test_large_constants_stand_below_the_mathematics(target, tmp_path):
    df, args = sd.value_and_grad(hopped), (0.3, 0.1)
    known, number = df(*args), repr(ROWS[8][11])
    if target == "points":
        many = sd.vmap(df, (0, None))
        text, points = many.source(np.ones(5), 0.1, target="numpy"), np.linspace(0.1, 0.5, 5)
    else:
        text = df.source(*args, target=target)
    assert text.count(number) == 1 and text.index(number) > text.rindex("sin(")
    if target == "c":
        found = ctypes.c_double(), ctypes.c_double()
        run = compiled(text, tmp_path).hopped_value_and_grad
        run(*map(ctypes.c_double, args), *map(ctypes.byref, found))
        found = [part.value for part in found]
    else:
        space = {}
        exec(text, space)
        found = space["hopped_value_and_grad"](*((points, 0.1) if target == "points" else args))
        known = many(points, 0.1) if target == "points" else known
    np.testing.assert_allclose(found, known, rtol=1e-12)


def test_constants_with_zeros_of_both_signs_are_two():
    plus, minus = np.zeros(50), -np.zeros(50)

    def turned(x):
        for _ in range(200):
            x = x - 0.01 * np.arctan2(plus, x) + 0.02 * np.arctan2(minus, x)
        return np.sum(x * x)

    df, x, space = sd.value_and_grad(turned, loops="keep"), -np.linspace(0.1, 0.9, 50), {}
    text = df.source(x, target="numpy")
    exec(text, space)
    assert "-0.0" in text
    np.testing.assert_allclose(space["turned_value_and_grad"](x)[0], df(x)[0], rtol=1e-12)


def cholesky(A):
    n = len(A)
    L = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            s = A[i, j]
            for k in range(j):
                s -= L[i, k] * L[j, k]
            if i == j:
                L[i, i] = np.sqrt(s)
            else:
                L[i, j] = s / L[j, j]
    return np.sum(L**3)


def triangular(A):
    B = A.T.copy()
    for i in range(len(B)):
        for j in range(B.shape[1]):
            s = 0.0
            for k in range(i + 1, len(B)):
                s += A[k, i] * B[k, j]
            B[i, j] += s
    return np.sum(B * B)


@pytest.mark.parametrize("f", [cholesky, triangular])
def test_rounds_of_loops_within_loops_copy_no_matrices(f):
    n = 23
    A = np.random.default_rng(4).random((n, n)) + n * np.eye(n)
    df = sd.grad(f)
    step, along = 1e-6, np.random.default_rng(5).normal(size=(n, n))
    slope = (f(A + step * along) - f(A - step * along)) / (2 * step)
    assert np.sum(df(A) * along) == pytest.approx(slope, rel=1e-7)
    inside = False
    for line in df.source(A, target="c").splitlines():
        inside = (inside and not line.startswith("    }")) or line.lstrip().startswith("for (long k_ ")
        assert not (inside and ("for (long j " in line or f"< {n * n};" in line)), line  # over all cells
