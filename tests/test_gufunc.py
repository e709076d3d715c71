"""Compiled functions as NumPy's generalised ufuncs: broadcasting, casting, overlaps, threads, lifetimes, refusals."""

import gc
import pickle
import resource
import subprocess
import sys

import numpy as np
import pytest
from inside import Plain
from inside import gufunc as door
from threads import together

import symdiff as sd

pytest.importorskip("llvmlite", reason="machine code needs llvmlite: pip install 'symdiff[native]'")


def weighted(x, a):
    return a * x[0] * x[1] ** 2 + np.exp(x[2])


def slope(x, a):
    p, q, r = np.moveaxis(x, -1, 0)
    return np.stack(np.broadcast_arrays(a * q**2, 2 * a * p * q, np.exp(r)), -1)


def numbers(*shape):
    return np.random.default_rng(3).standard_normal(shape)


@pytest.fixture(scope="module")
def gradient():
    return sd.grad(weighted).compile(np.ones(3), 1.0).gufunc


@pytest.mark.parametrize(
    ("left", "right"),
    [((3,), ()), ((7, 3), ()), ((7, 3), (7,)), ((3,), (7,)), ((5, 1, 3), (4,)), ((2, 1, 4, 3), (6, 1)), ((0, 3), ()),
     ((33, 3), (33,))],
)  # fmt: skip
def test_leading_axes_broadcast(gradient, left, right):
    x, a = numbers(*left), numbers(*right)
    assert gradient.signature == "(3),()->(3)"
    np.testing.assert_allclose(gradient(x, a), slope(x, a), rtol=1e-14)


def test_axes_views_and_out(gradient):
    x, a = numbers(3, 5, 8), numbers(5, 8)
    wanted = np.moveaxis(slope(np.moveaxis(x, 0, -1), a), -1, 0)
    np.testing.assert_allclose(gradient(x, a, axes=[0, (), 0]), wanted, rtol=1e-14)
    np.testing.assert_allclose(gradient(x[::-1, ::2, ::-3], a[::2, ::-3], axes=[0, (), 0])[1], wanted_part(x, a), rtol=1e-14)
    room = np.full((10, 3, 16), np.nan)
    out = room[::2, :, ::2].transpose(1, 0, 2)
    assert gradient(x, a, out=out, axes=[0, (), 0]) is out
    np.testing.assert_allclose(out, wanted, rtol=1e-14)
    assert np.isnan(room[1::2]).all() and np.isnan(room[:, :, 1::2]).all()
    with pytest.raises(ValueError, match="size"):
        gradient(numbers(5, 4), 1.0)


def wanted_part(x, a):
    return (2 * a * x[2] * x[1])[::2, ::-3]


def test_overlaps(gradient):
    x = numbers(40, 3)
    for shift in (0, 1, 2):
        own = np.concatenate([x, np.zeros((2, 3))])
        gradient(own[:40], 2.0, out=own[shift : 40 + shift])
        np.testing.assert_allclose(own[shift : 40 + shift], slope(x, 2.0), rtol=1e-14)
    own = numbers(3, 3)
    wanted = slope(own, 1.0)
    gradient(own, 1.0, out=own.T)
    np.testing.assert_allclose(own.T, wanted, rtol=1e-14)


def test_casting(gradient):
    x = np.arange(12).reshape(4, 3)
    np.testing.assert_allclose(gradient(x, 2), slope(x.astype(float), 2.0), rtol=1e-14)
    assert gradient(x.astype(np.float32), np.int8(2)).dtype == np.float64
    with pytest.raises(TypeError):
        gradient(x * 1j, 2)
    with pytest.raises(TypeError):
        gradient(x, 2, out=np.empty((4, 3), np.int64))
    out = np.empty((4, 3), np.float32)
    np.testing.assert_allclose(gradient(x, 2, out=out), slope(x.astype(float), 2.0), rtol=1e-6)
    np.testing.assert_allclose(gradient(x.astype(">f8"), 2.0), slope(x.astype(float), 2.0), rtol=1e-14)


@pytest.mark.parametrize("dtype", ["f", "d", "F", "D"])
def test_dtypes(dtype):
    z = (numbers(9, 2) + 1j * numbers(9, 2)[::-1]).astype(dtype) if dtype in "FD" else numbers(9, 2).astype(dtype)
    f = Plain(lambda z: (z[0] * z[1], z[0] - z[1])).compile(z[0])
    first, second = f.gufunc(z)
    assert first.dtype == second.dtype == np.dtype(dtype)
    np.testing.assert_allclose(first, z[:, 0] * z[:, 1], rtol=1e-5 if dtype in "fF" else 1e-13)
    np.testing.assert_allclose(second, z[:, 0] - z[:, 1], rtol=1e-5 if dtype in "fF" else 1e-13)


def test_several_results_and_matrices():
    nested = sd.value_and_grad(lambda m, v: v @ m @ v, (0, 1)).compile(np.ones((2, 2)), np.ones(2))
    with pytest.raises(sd.BackendError, match="gufunc returns one array or a tuple"):
        _ = nested.gufunc
    product = Plain(lambda m, v: m @ v).compile(np.ones((2, 3)), np.ones(3)).gufunc
    assert product.signature == "(2,3),(3)->(2)"
    m, v = numbers(5, 2, 3), numbers(3)
    np.testing.assert_allclose(product(m, v), m @ v, rtol=1e-13)
    np.testing.assert_allclose(product(m.transpose(0, 2, 1).copy().transpose(0, 2, 1), v), m @ v, rtol=1e-13)
    pair = sd.value_and_grad(weighted).compile(np.ones(3), 1.0).gufunc
    value, gradient = pair(numbers(6, 3), 2.0)
    assert pair.signature == "(3),()->(),(3)" and value.shape == (6,) and gradient.shape == (6, 3)
    np.testing.assert_allclose(gradient, slope(numbers(6, 3), 2.0), rtol=1e-14)


def test_functions_of_two_numbers_reduce_and_accumulate():
    f = Plain(lambda a, b: a * 0.5 + b).compile(1.0, 1.0).gufunc
    x = numbers(37)
    steps = [x[0]]
    for number in x[1:]:
        steps.append(steps[-1] * 0.5 + number)
    np.testing.assert_allclose(f.accumulate(x), steps, rtol=1e-14)
    np.testing.assert_allclose(f.reduce(x), steps[-1], rtol=1e-14)
    np.testing.assert_allclose(f.outer(x, x[:3]), x[:, None] * 0.5 + x[:3], rtol=1e-14)
    own = x.copy()
    np.testing.assert_allclose(f(own[:-1], own[1:], out=own[1:]), x[:-1] * 0.5 + x[1:], rtol=1e-14)
    np.testing.assert_allclose(f(x, 2.0, where=x > 0, out=np.zeros(37)), np.where(x > 0, x * 0.5 + 2, 0), rtol=1e-14)


def test_no_warnings():
    f = Plain(lambda x: np.where(x > 0, 1 / x, 0.0) + np.exp(x)).compile(1.0).gufunc
    with np.errstate(all="raise"):
        found = f(np.array([0.0, 1e3, -1e3, np.nan, 2.0]))
    np.testing.assert_allclose(found, [1.0, np.inf, 0.0, np.nan, 0.5 + np.exp(2)])


def test_many_threads(gradient):
    failures = []

    def hammer(seed):
        x = np.random.default_rng(seed).standard_normal((3000, 3))
        for _ in range(10):
            if not np.allclose(gradient(x, 2.0), slope(x, 2.0), rtol=1e-13):
                failures.append(seed)

    together(hammer, range(16))
    assert not failures


# -- lifetimes


def test_the_code_lives_as_long_as_the_ufunc():
    made = sd.grad(weighted).compile(np.ones(3), 1.0).gufunc
    alive = [o for o in gc.get_objects() if isinstance(o, door._Kept)]
    gc.collect()
    np.testing.assert_allclose(made(numbers(9, 3), 2.0), slope(numbers(9, 3), 2.0), rtol=1e-14)
    assert made.__name__ == "weighted_grad" and "x float64" in made.__doc__
    count = len(alive)
    del made, alive
    gc.collect()
    assert len([o for o in gc.get_objects() if isinstance(o, door._Kept)]) == count - 1


def test_compile_and_drop():
    def cycle(k):
        made = sd.grad(lambda x: x[0] ** 2 * k).compile(np.ones(1)).gufunc
        assert made(np.ones((4, 1)))[3, 0] == 2 * k

    for k in range(10):
        cycle(float(k))
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for k in range(60):
        cycle(float(k))
    gc.collect()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30_000  # kilobytes


def test_at_the_end_of_a_process():
    code = """
import numpy as np, symdiff as sd
kept = sd.grad(lambda x: x[0]**2).compile(np.ones(1)).gufunc
class Late:
    def __del__(self, f=kept, x=np.ones((3, 1))):
        f(x)
late = Late()
sd.grad(lambda x: x[0]**3).compile(np.ones(1)).gufunc(np.ones((5, 1)))
print(kept(np.full((2, 1), 3.0)).tolist())
"""
    found = subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout == "[[6.0], [6.0]]\n"


# -- refusals


def test_pickling_a_ufunc_is_an_error_and_its_source_is_not(gradient):
    with pytest.raises(pickle.PicklingError, match="weighted_grad"):
        pickle.dumps(gradient)
    again = pickle.loads(pickle.dumps(sd.grad(weighted).compile(np.ones(3), 1.0)))
    np.testing.assert_array_equal(again.gufunc(numbers(3), 1.0), gradient(numbers(3), 1.0))


def test_what_is_no_gufunc(monkeypatch):
    with pytest.raises(sd.BackendError, match="whole arrays"):
        _ = sd.grad(lambda x: np.sum(x**2)).compile(np.ones(2000)).gufunc
    with pytest.raises(sd.BackendError, match="truth values"):
        _ = Plain(lambda x: x[0] > x[1]).compile(np.ones(2)).gufunc
    with pytest.raises(sd.BackendError, match="gufunc returns one array or a tuple"):
        _ = sd.grad(lambda p: p["a"] * p["b"]).compile({"a": 1.0, "b": 2.0}).gufunc
    with pytest.raises(sd.BackendError, match="NumPy makes no ufunc of it"):
        _ = Plain(lambda *x: sum(x)).compile(*[1.0] * 80).gufunc
    with pytest.raises(sd.BackendError, match="empty"):
        _ = Plain(lambda x: x * 2.0).compile(np.ones(0)).gufunc
    monkeypatch.setattr(door, "_ABI", 0x3000000)
    door._constructor.cache_clear()
    with pytest.raises(sd.BackendError, match="binary interface of NumPy 2"):
        _ = sd.grad(weighted).compile(np.ones(3), 1.0).gufunc
    monkeypatch.undo()
    door._constructor.cache_clear()
    monkeypatch.setattr(door, "_NAME", 64)
    with pytest.raises(sd.BackendError, match="laid out in another way"):
        _ = sd.grad(weighted).compile(np.ones(3), 1.0).gufunc


def test_without_llvmlite():
    code = """
import sys
sys.modules["llvmlite"] = None
import numpy as np, symdiff as sd
try:
    sd.grad(lambda x: x[0]**2).compile(np.ones(1)).gufunc
except sd.BackendError as error:
    assert "pip install 'symdiff[native]'" in str(error), error
else:
    raise AssertionError
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
