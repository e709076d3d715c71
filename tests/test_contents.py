"""Integers, and arrays of integers and truths, as arguments: settings while few are seen, inputs from then on."""

import math

import numpy as np
import pytest
from inside import main

import symdiff as sd

X = np.random.default_rng(1).normal(size=(6, 4))
POINT = np.random.default_rng(2).normal(size=6)
KINDS = (np.int64, np.int32, np.uint8, np.int8, bool)


def cross_entropy(x, k):
    z = X[:5] * x[:4]
    return -np.mean((z - np.log(np.sum(np.exp(z), axis=1, keepdims=True)))[np.arange(5), k % 4])


def assigned(x, k):
    y = np.zeros(8)
    y[k] = x[:5] ** 2
    return np.sum(y * np.arange(8))


def added(x, k):
    y = np.zeros(8)
    np.add.at(y, k, x[:5] ** 2)
    return np.sum(y**2)


def by_branch(x, k):
    return np.sum(x**2) if k[0] > 2 else np.sum(x**3)


def by_loop(x, k):
    total = 0.0
    for i in k:
        total = total + x[i] ** 2
    return total


ANY = {  # functions that can do with any numbers
    "labels": cross_entropy,
    "rows": lambda x, k: np.sum(np.tanh(x[k])) ** 2,
    "rows before": lambda x, k: np.sum(x[k.astype(int) - 1] ** 2),
    "one hot": lambda x, k: np.sum(np.eye(6)[k.astype(int)] @ x**2),
    "products that wrap round": lambda x, k: np.sum(x[:5] * (k * k * k)),
    "quotients": lambda x, k: np.sum(x[:5] * (k // 2) + x[:5] ** 2 / (k + 1)),
    "assigned": assigned,
    "added": added,
    "branch": by_branch,
    "loop": by_loop,
    "where": lambda x, k: np.sum(np.where(k > 2, x[:5] ** 2, x[:5])),
    "mask": lambda x, k: np.sum(x[:5][k > 2] ** 2),
    "sorted": lambda x, k: np.sum(x[np.sort(k.astype(int))] * np.arange(5)),
    "the largest": lambda x, k: x[int(k.max())] ** 2,
    "mean": lambda x, k: x[0] ** 2 * k.mean() + x[1] * k.std(),
}
KNOWN = {  # those that must know them
    "unique": lambda x, k: np.sum(x[np.unique(k.astype(int))] ** 2),
    "end of a range": lambda x, k: sum(x[i] ** 2 for i in range(int(k[0]))),
    "size": lambda x, k: np.sum(np.zeros(int(k.max()) + 1) + x[0]),
    "keys": lambda x, k: sum({1: 2.0, 2: 3.0}.get(int(q), 1.0) * x[i] for i, q in enumerate(k)),
    "bytes": lambda x, k: x[0] * sum(k.tobytes()),
    "text": lambda x, k: x[0] * len(str(k)),
}
PLACES = ("rows", "assigned", "added", "loop")  # where truths are a mask


@pytest.mark.parametrize(
    "name, kind",
    [(name, kind) for name in (*ANY, *KNOWN) for kind in KINDS if kind is not bool or name not in PLACES],
)
def test_each_contents_has_its_own_derivative(name, kind):
    f = (ANY | KNOWN)[name]
    df, rng = sd.value_and_grad(f), np.random.default_rng(3)
    for turn in range(4):
        k = rng.integers(0, 6, 5).astype(kind)
        if turn == 3:
            k = np.stack([k, k], axis=1)[:, 0]
        kept = k.copy()
        for found, wanted in zip(df(POINT, k), sd.value_and_grad(f)(POINT, k), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-15)
            assert np.asarray(found).dtype == np.asarray(wanted).dtype
        np.testing.assert_array_equal(k, kept)


LONG = np.random.default_rng(7).normal(size=16)
NUMBERS = {  # functions of an array and an integer that can do with any
    "a cell": lambda x, n: x[n] ** 2 + x[-n],
    "a sample": lambda x, n: (X[n % 6] @ x[:4] - n) ** 2,
    "powers": lambda x, n: np.sum(x**n) + np.sum(x) * 1.1**n + x[0] * n**2 + x[1] * 2**n,
    "equalities": lambda x, n: np.sum(x ** (2 if n == 3 else 3)) if n in (1, 3, 9) else np.sum(x),
    "one of a list": lambda x, n: [x[0], x[1] ** 2, x[2] ** 3][n % 3],
    "a truth": lambda x, n: x[0] if n else x[1] ** 2,
    "whole quotients": lambda x, n: x[0] * divmod(n, 3)[0] + x[1] * (n % 4) + x[2] * (7 // (n + 1)),
    "what may be divided by zero": lambda x, n: x[0] * (7 // n) + x[1] / n,
    "a slope of 0 to no power": lambda x, n: (x[0] - LONG[0]) ** n,
    "extremes": lambda x, n: x[0] * min(n, 3) + x[1] * max(n, 5) * abs(n - 5),
    "a mask": lambda x, n: np.sum(x[np.arange(16) < n] ** 2) + np.sum(np.where(np.arange(16) == n, x, 0)),
    "waves": lambda x, n: np.sum(np.sin(n * x) / math.sqrt(n + 1)) + round(n / 3) * x[0],
    "sums": lambda x, n: np.cumsum(x)[n],
}
NEEDED = {  # those that must know it
    "rounds": lambda x, n: sum((x[0] ** k for k in range(n)), 0.0 * x[0]),
    "a size": lambda x, n: np.sum(np.eye(n + 1)) * x[0] + np.sum(x[:n] ** 2),
    "a key": lambda x, n: x[0] * {1: 2.0, 2: 5.0}.get(n, 7.0),
    "text": lambda x, n: x[0] * len(str(n)),
    "a step": lambda x, n: np.sum(x[:: n + 1]),
    "a rolled array": lambda x, n: np.sum(np.roll(x, n) * np.arange(16)),
}


def result(df, *args):
    try:
        with np.errstate(all="ignore"):
            return df(*args)
    except (ArithmeticError, IndexError, ValueError) as error:
        return type(error).__name__


@pytest.mark.parametrize("kind", [int, np.int64, np.int32])
@pytest.mark.parametrize("name", [*NUMBERS, *NEEDED])
def test_each_integer_has_its_own_derivative(name, kind):
    f = (NUMBERS | NEEDED)[name]
    df = sd.value_and_grad(f)
    for n in (*range(12), 3, 0, 15):
        found, wanted = result(df, LONG, kind(n)), result(sd.value_and_grad(f), LONG, kind(n))
        assert type(found) is type(wanted), n
        if isinstance(found, str):
            assert found == wanted, n
            continue
        for own, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(own, other, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("name", [name for name in NUMBERS if name != "what may be divided by zero"])
def test_new_integers_are_not_traced_again(name):
    calls = [*range(1, 16)]
    f = NUMBERS[name]
    assert traces(f, calls, LONG) == traces(f, calls[:10], LONG)


def test_each_argument_moves_alone():
    def f(w, rows, depth):
        h = X[rows] @ w
        for _ in range(depth):
            h = np.tanh(h)
        return np.sum(h)

    rng = np.random.default_rng(8)
    for turn in range(24):
        rows, depth = rng.integers(0, 6, 3), turn % 12
        if turn == 0:
            df = sd.grad(f)
        np.testing.assert_allclose(df(POINT[:4], rows, depth), sd.grad(f)(POINT[:4], rows, depth), rtol=1e-12)


def traces(f, calls, point=POINT):
    """How often a function runs in calls of its gradient."""
    ran = []

    def counting(x, k):
        ran.append(1)
        return f(x, k)

    df = sd.grad(counting, frozen=True)
    for k in calls:
        df(point, k)
    return len(ran)


@pytest.mark.parametrize("name", ANY)
def test_new_contents_are_not_traced_again(name):
    rng = np.random.default_rng(4)
    calls = [rng.integers(0, 6, 5) for _ in range(20)]
    assert traces(ANY[name], calls) == traces(ANY[name], calls[:3])


@pytest.mark.parametrize("transform", [sd.grad, sd.hessian, sd.jacobian, sd.wirtinger])
@pytest.mark.parametrize("options", [{}, {"exact": True}, {"backend": "numpy"}, {"frozen": True}])
def test_transforms_and_options(transform, options):
    rng = np.random.default_rng(5)
    df = transform(cross_entropy, **options)
    for _ in range(4):
        k = rng.integers(0, 4, 5)
        np.testing.assert_allclose(df(POINT, k), transform(cross_entropy, **options)(POINT, k), rtol=1e-12)


def test_names_structures_and_out():
    def f(w, batch, *, rows):
        return np.sum((batch["x"][rows] @ w - batch["y"][rows]) ** 2)

    batch = {"x": X, "y": POINT}
    df, rng, out = sd.grad(f), np.random.default_rng(6), np.empty(4)
    for _ in range(5):
        rows = rng.integers(0, 6, 3)
        wanted = 2 * X[rows].T @ (X[rows] @ POINT[:4] - POINT[rows])
        assert df(POINT[:4], batch, rows=rows, out=out) is out
        np.testing.assert_allclose(out, wanted, rtol=1e-12)


def test_errors_are_the_functions_own():
    df = sd.grad(ANY["rows"])
    for k in ([0, 1, 2, 3, 4], [1, 1, 1, 1, 1], [0, 0, 0, 0, 5]):
        df(POINT, np.array(k))
    with pytest.raises(IndexError, match="index 6 is out of bounds for axis 0 with size 6"):
        df(POINT, np.array([0, 1, 2, 3, 6]))
    np.testing.assert_allclose(df(POINT, np.array([0, 0, 0, 0, -1])), sd.grad(ANY["rows"])(POINT, np.array([0, 0, 0, 0, -1])))
    np.testing.assert_allclose(df(POINT, np.arange(3)), sd.grad(ANY["rows"])(POINT, np.arange(3)))


def test_numbers_that_doubles_do_not_hold_are_settings():
    def f(x, k):
        return x * float(k[0] % 7)

    df = sd.grad(f)
    for k in (1, 2**62 + 1, 2**61 + 3, 5):
        assert df(2.0, np.array([k])) == k % 7


PRODUCTS = (np.dot, np.inner, np.vdot, np.outer, np.kron, np.convolve, lambda n, m: np.einsum("i,i->", n, m),
            lambda n, m: np.tensordot(n, m, 1), lambda n, m: np.square(m), lambda n, m: n @ m)  # fmt: skip


@pytest.mark.parametrize("product", PRODUCTS)
def test_products_of_integers_that_wrap_round_are_numpys(product):
    def f(x, n, m):
        return np.sum(x) * product(n, m).ravel()[0]

    df, x = sd.value_and_grad(f), np.ones(2)
    for k in range(3):
        n, m = np.roll([2**30, -3, 7], k), np.roll([2**40, -3, 7], k)
        assert [df(x, n, m)[0] for _ in range(2)] == [f(x, n, m)] * 2


def test_captured_state_is_still_watched():
    scale = {"by": 2.0}

    def f(x, k):
        return scale["by"] * np.sum(x[k])

    df = sd.grad(f)
    for by in (2.0, 3.0):
        scale["by"] = by
        for k in ([0, 1], [1, 2], [2, 2], [0, 0]):
            np.testing.assert_allclose(df(POINT, np.array(k)), by * np.bincount(k, minlength=6))


@pytest.mark.parametrize("target", ["numpy", "python"])
def test_files_take_them_where_a_spec_has_their_dtype(target):
    df = sd.value_and_grad(ANY["rows"])
    given = (sd.Spec((6,)), sd.Spec((5,), "int64"))
    source = df.source(*given, target=target)
    names: dict = {"__name__": "made"}
    exec(compile(source, "made.py", "exec"), names)
    made = next(value for name, value in names.items() if name.startswith("_lambda") or name.endswith("value_and_grad"))
    for k in ([0, 1, 2, 3, 4], [-1, 5, 5, 0, 0]):
        for found, wanted in zip(made(POINT, np.array(k)), df(POINT, np.array(k)), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-12)
    with pytest.raises(IndexError):
        made(POINT, np.array([0, 0, 0, 0, 6]))


def test_commands_say_which_arrays_are_arguments(tmp_path, monkeypatch):
    (tmp_path / "rows.py").write_text("import numpy as np\ndef f(x, k):\n    return np.sum(x[k] ** 2)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    command = ["export", "rows:f", "--arg", "x=6", "--arg", "k=5:int64", "--wrt", "x", "--target", "numpy", "-o", "made.py"]
    assert main(command) == 0
    assert "--arg k=5:int64 --wrt x" in (tmp_path / "made.py").read_text()
    assert main(["check", "made.py"]) == 0
    from rows import f

    source = sd.grad(f).source(POINT, np.arange(5), target="numpy")
    assert "numpy.array([0, 1, 2, 3, 4])" in source and "k=int64[5]" in source  # they are part of the file


def with_a_cell_assigned(x, k):
    m = k.copy()
    m[0] = 3
    return (m * m)[1] * 1.0 * x[0]


def with_cells_of_numbers_assigned(x, k):
    m = k.copy()
    m[1:3] = 7
    m[0] = x[0] * 10
    return (m * m)[1] * 1.0 * x[0] + (m * m * m)[3]


def with_a_copy_of_a_view_assigned(x, k):
    m = k.reshape(2, 2).T.copy()
    m[0, :] = k[:2]
    m.flat[3] = 9
    return ((m * m).sum() * 1.0 + (m[1] * m[1])[0] + (-m)[0, 1]) * x[0]


def with_cells_added_in_rounds(x, k):
    m = k.copy()
    for i in range(1, len(k)):
        m[i] = m[i] + m[i - 1] * m[i]
    return (m - 100)[1] * x[0] + m[3]


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int32, np.int64])
@pytest.mark.parametrize(
    "f", [with_a_cell_assigned, with_cells_of_numbers_assigned, with_a_copy_of_a_view_assigned, with_cells_added_in_rounds]
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_integers_wrap_round_in_arrays_that_are_assigned_to(f, dtype):
    x, df = np.array([0.3, 0.7]), sd.value_and_grad(f)
    for cells in ([5, 5, 2, 0], [82, 48, 74, 16], [7, 100, 90, 80]):
        k = np.array(cells, dtype)
        assert df(x, k)[0] == pytest.approx(f(x, k), rel=1e-13)
