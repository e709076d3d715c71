"""Calls of elementary functions that machine code makes together: which ones, and the numbers that come of it."""

import re

import numpy as np
import pytest
from inside import Plain, engine, llvm, llvm_parts

import symdiff as sd

pytest.importorskip("llvmlite", reason="machine code needs llvmlite: pip install 'symdiff[native]'")

from inside import machine_fuses

needs_fused = pytest.mark.skipif(not machine_fuses(), reason="without fused multiply-add the functions are libm's")


def called(f, *args, most=8):
    """The functions that the code for one point calls, those that others call left out."""
    text = llvm.point_function(Plain(f).program(*args), "kernel", most).partition("@kernel(")[2]
    return re.findall(r"call [^@]*@(\w+)\(", text)


def test_sine_and_cosine_of_a_number_are_one_call():
    assert called(lambda x: np.array([np.sin(x), np.cos(x)]), 0.3) == ["vec1_sincos"]
    assert called(lambda x: np.sin(np.sin(x)), 0.3) == ["vec1_sincos", "vec1_sincos"]
    assert called(np.sin, 0.3, most=0) == ["sin"]


@pytest.mark.parametrize(
    ("count", "expected"), [(1, ["exp"]), (2, ["exp", "exp"]), (3, ["vec4_exp"]), (8, ["vec8_exp"]), (9, ["vec8_exp", "exp"])]
)
def test_independent_calls_are_one_vector(count, expected):
    assert called(lambda x: np.array([np.exp(x[k]) for k in range(count)]), np.ones(count)) == expected


def test_calls_that_wait_for_one_another_are_made_one_by_one():
    def f(x):
        first = [np.exp(x[k]) for k in range(3)]
        second = [np.exp(a * x[0]) for a in first]
        return second[0] + np.exp(second[1]) + second[2]

    assert called(f, np.ones(3)) == ["vec4_exp", "vec4_exp", "exp"]


def test_the_exponential_of_an_imaginary_number_is_sine_and_cosine():
    assert called(lambda x: np.exp(2j * x), 0.3) == ["vec1_sincos"]
    assert called(lambda x: np.exp((1 + 2j) * x), 0.3) == ["cexp"]
    f = Plain(lambda x: np.exp(2j * x), backend="native")
    for x in (0.0, -0.0, 1.0, -700.0, 1e300, np.inf, np.nan):
        with np.errstate(all="ignore"):
            found, wanted = f(x), np.exp(2j * np.float64(x))
        assert np.isnan(found.real) == np.isnan(wanted.real) and np.isnan(found.imag) == np.isnan(wanted.imag)
        if np.isfinite(wanted):
            assert abs(found - wanted) < 4e-16 and (x or np.signbit(found.imag) == np.signbit(x))


def many(x, y):
    """Functions of numbers of both precisions, in an order that no vector has."""
    total, parts = 0.0, []
    for k in range(11):
        angle = x[k] * (k + 1)
        total = total * np.cos(angle) + np.sin(angle) * np.exp(-x[k])
        parts.append(np.arctan2(x[k], total) + np.power(x[k] + 2, y[k % 3]) + np.log(y[k % 3] + k) + np.tanh(y[1] * k))
    return np.array(parts), total, np.array([np.sin(v) * np.sqrt(np.exp(v)) for v in y])


@pytest.mark.parametrize("size", [7, 40, 10_000])
def test_numbers_are_those_of_numpy(size, monkeypatch):
    """In one function and in parts, which cut groups."""
    monkeypatch.setattr("symdiff.pipeline.WHOLE", size)
    monkeypatch.setattr(llvm_parts, "PART", size)
    x, y = np.linspace(-2, 2, 11), np.array([0.3, 0.7, 2.5], np.float32)
    found = Plain(many, backend="native")(x, y)
    for value, wanted, bound in zip(found, many(x, y), (1e-6, 1e-13, 1e-6), strict=True):
        np.testing.assert_allclose(value, wanted, rtol=bound)
        assert value.dtype == wanted.dtype
    np.testing.assert_allclose(sd.jacobian(many, backend="native")(x, y)[1], sd.jacobian(many, backend="numpy")(x, y)[1], 1e-12)


@needs_fused
@pytest.mark.parametrize("name", ["sin", "cos"])
def test_one_number_has_the_bits_of_a_vector(name):
    """Below pi/4, where a single number goes another way, around it, and where libm takes over."""
    x = np.array([0.0, -0.0, 5e-324, 1e-9, 0.1, -0.5, 0.7799999, 0.78, -0.78, 0.7853, 0.8, 1.5, 3.0, 1e4, 2e5, np.inf, np.nan])
    one, some = Plain(getattr(np, name), backend="native"), sd.vmap(getattr(np, name), backend="native")
    assert np.array([one(v) for v in x]).tobytes() == some(x).tobytes()


def rounds(x):
    total, s = 0.0, x[0]
    for k in range(len(x)):
        for j in range(k):
            total = total + np.sin(x[j]) * x[k]
        s = 0.5 * s + total
    return s + np.sum(np.exp(x) * total)


def test_work_of_loops_tells_how_often_they_are_run_before(monkeypatch):
    """What takes long is made well at once; so is what takes nobody knows how long."""
    made = []
    compiled = engine._compiled
    monkeypatch.setenv("SYMDIFF_CACHE", "off")
    monkeypatch.setattr(engine, "_compiled", lambda text, *rest: made.append(rest[0]) or compiled(text, *rest))

    def halved(x):
        while abs(x) > 1e-3:
            x = x * 0.5
        return x

    some = {"small": (rounds, np.ones(20)), "large": (rounds, np.ones(3000)), "unknown": (halved, 3.0)}
    for name, (f, x) in some.items():
        made.clear()
        sd.value_and_grad(f, backend="native", loops="keep")(x)
        assert (0 in made, 1 in made) == (name == "small", name != "small"), name


def test_code_that_is_called_often_is_made_better(monkeypatch):
    """The same bits before and after, for objects, for those that look at captured values first, and for builtins."""
    made = []
    compiled = engine._compiled
    monkeypatch.setenv("SYMDIFF_CACHE", "off")
    monkeypatch.setattr("symdiff.runtime.fastcall.OFTEN", 50)
    x = np.linspace(0.1, 0.9, 5)
    functions = {
        "object": sd.grad(lambda x: x[0] ** 2 * x[1] + x[2] / x[3] - x[4] ** 3, backend="native"),
        "guarded": sd.grad(lambda x: np.sin(x[0]) * x[1] + np.exp(x[2]), backend="native"),
        "builtin": sd.grad(lambda x: x[0] * x[1] * x[2] + x[3] * x[4]).compile(x, backend="native").kernel,
        "arrays": sd.grad(lambda x: np.sum(np.exp(x) * np.sin(x)) * np.prod(x), backend="native", scalarize=False),
        "loop": sd.grad(rounds, backend="native", loops="keep"),
    }
    for name, f in functions.items():
        first = f(x).tobytes()
        monkeypatch.setattr(engine, "_compiled", lambda text, *rest: made.append(rest) or compiled(text, *rest))
        assert {f(x).tobytes() for _ in range(100)} == {first}, name
        monkeypatch.setattr(engine, "_compiled", compiled)
        assert {effort for effort, _ in made} == {1}, name
        made.clear()
        assert f(x).tobytes() == first


def test_functions_of_vectors_are_compiled_once(monkeypatch):
    texts = []
    compiled = engine._compiled
    monkeypatch.setenv("SYMDIFF_CACHE", "off")
    monkeypatch.setattr(engine, "_compiled", lambda text, *rest: texts.append(text) or compiled(text, *rest))
    sd.grad(lambda x: np.tanh(x[0]) + np.tanh(x[1]) + np.tanh(x[2]), backend="native")(np.ones(3))
    sd.grad(lambda x: np.tanh(x[0]) * np.tanh(x[1]) * np.tanh(x[2]), backend="native")(np.ones(3))
    assert sum(bool(re.search(r"call .*@vec4_tanh\(", text)) for text in texts) == 2
    assert sum(bool(re.search(r"define .*@vec4_tanh\(", text)) for text in texts) <= 1  # or another test's
