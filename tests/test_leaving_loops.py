# ruff: noqa: B023, E731
"""Kept loops that are left by `return`, loops with an `else`, and functions that rounds make."""

import ast
import contextlib
import inspect

import numpy as np
import pytest
from inside import leave_by_break

import symdiff as sd

MATRIX = np.random.default_rng(1).normal(size=(9, 9))


def newton(a):
    x = 1.0
    for _ in range(50):
        d = (x * x - 2 - a[0, 0] ** 2) / (2 * x)
        x = x - d
        if abs(d) < 1e-10:
            return x * a[1, 1]
    return -1.0 * x


def until_it_stays(a):
    x = 1.0 + abs(a[0, 0])
    while True:
        y = 0.5 * (x + 3 / x)
        if abs(y - x) < 1e-12:
            return y * a[0, 1]
        x = y


def first_large(a):
    for i in range(9):
        for j in range(9):
            if a[i, j] > 1.5:
                return a[i, j] ** 2 * (i + 1)
    return 0.0


def otherwise(a):
    s = 0.0
    for i in range(9):
        s += a[0, i]
        if s > 5:
            break
    else:
        s = s * 2
    return s


def both_ways(a):
    s = 0.0
    for i in range(9):
        s += a[0, i]
        if s > 100:
            break
        if s < -100:
            return s * 3
    else:
        s = s * 2
    return s


def otherwise_within(a):
    s = 0.0
    for i in range(9):
        for j in range(9):
            s += 0.1 * a[i, j]
            if s > 0.9:
                break
        else:
            s -= 0.05
        if s < -50:
            return s
    return s


def while_otherwise(a):
    n = 0
    while n < 40:
        n += 1
        if np.sum(a[n % 9]) > 2:
            return n * a[0, 0]
    else:
        return a[0, 1]


def in_endless_loops(a):
    while True:
        z = a[0, 0]
        for k in range(12):
            z = z * z + a[1, 1] * 0.1
            if abs(z) > 2:
                return z * k
        a = a * 1.1
        if a[0, 1] > 1e6:
            break
    return a[2, 2]


def in_inner_functions(a):
    def g(v):
        for _ in range(20):
            v = np.sin(v) + 0.1
            if v < 0.3:
                return v
        return v * 2

    s = 0.0
    for i in range(9):
        s += g(a[0, i])
    return s


def functions_of_rounds(a):
    h = np.zeros(9)
    for t in range(9):
        gate = lambda v: 1 / (1 + np.exp(-v * a[0, t]))
        for k in range(3):

            def inner(v, w):
                return gate(v) * w + 0.1 * k * h[t]

            h = inner(h, np.tanh(a[t]))
    return h @ h


LEFT = (
    newton, until_it_stays, first_large, otherwise, both_ways, otherwise_within, while_otherwise, in_endless_loops,
    in_inner_functions, functions_of_rounds,
)  # fmt: skip
OTHERS = (MATRIX.T.copy(), 2 * MATRIX, -MATRIX, 40 * np.abs(MATRIX), -40 * np.abs(MATRIX))


@pytest.mark.parametrize("f", LEFT, ids=lambda f: f.__name__)
def test_loops_that_are_left(f):
    graph = sd.trace(f, MATRIX, loops="keep")
    assert set(graph.notes["loops"].values()) == {"kept"}, graph.notes["loops"]
    df = sd.value_and_grad(f, loops="keep", scalarize=False)
    for a in (MATRIX, *OTHERS):
        np.testing.assert_allclose(df(a)[0], f(a), rtol=1e-12)
    np.testing.assert_allclose(df(MATRIX)[1], sd.grad(f, loops="unroll")(MATRIX), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("f", LEFT, ids=lambda f: f.__name__)
def test_the_rewritten_function_runs_as_it_did(f):
    tree = ast.parse(inspect.getsource(f)).body[0]
    leave_by_break(tree)
    for k, name in enumerate(sorted({n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id.startswith(".")})):
        for part in ast.walk(tree):
            if isinstance(part, ast.Name) and part.id == name:
                part.id = f"left{k}"
    assert not any(isinstance(part, (ast.For, ast.While)) and part.orelse for part in ast.walk(tree))
    space = {"np": np}
    exec(compile(ast.Module([tree], []), "<rewritten>", "exec"), space)
    for a in (MATRIX, *OTHERS):
        np.testing.assert_equal(space[f.__name__](a), f(a))


def with_defaults(a):
    s = 0.0
    for t in range(9):
        f = lambda v, t=t: v * t
        s = s + f(a[0, t])
    return s


def used_behind(a):
    s = 0.0
    for t in range(9):
        f = lambda v: v * t * s
        s = s + f(a[0, t])
    return s + f(a[1, 1])


def collected(a):
    found, s = [], 0.0
    for t in range(9):
        f = lambda v: v * t
        found.append(f)
        s = s + f(a[0, t])
    return s + sum(g(a[1, 1]) for g in found)


def one_of_two(a):
    s = 0.0
    for t in range(9):
        f = lambda v: v * t
        s = s + f(a[0, t])
        f = lambda v: v - t
        s = s + f(a[1, t])
    return s


def with_defaults_behind(a):
    s = 0.0
    for t in range(9):
        f = lambda v, s=s: v * s
        s = s + f(a[0, t])
    return s + f(a[1, 1])


@pytest.mark.parametrize(
    "f", [with_defaults, used_behind, one_of_two, collected, with_defaults_behind], ids=lambda f: f.__name__
)
def test_functions_that_a_round_makes(f):
    graph = sd.trace(f, MATRIX, loops="keep")
    handed_on = f in (collected, used_behind, with_defaults_behind)
    assert ("kept" in graph.notes["loops"].values()) != handed_on
    value, derivative = sd.value_and_grad(f, loops="keep")(MATRIX)
    np.testing.assert_allclose(value, f(MATRIX), rtol=1e-12)
    np.testing.assert_allclose(derivative, sd.grad(f, loops="unroll")(MATRIX), rtol=1e-12)


def left_in_a_try(x):
    for e in x:
        try:
            if e > 1.5:
                break
        finally:
            pass
    else:
        return 7 * x[0]
    return x[1]


def left_in_a_with(x):
    for e in x:
        with contextlib.nullcontext():
            if e > 1.5:
                break
    else:
        return 7 * x[0]
    return x[1]


def left_in_a_while(x):
    k = 0
    while k < len(x):
        try:
            if x[k] > 1.5:
                break
        except ValueError:
            pass
        k += 1
    else:
        return 7 * x[0]
    return x[1] + k


def left_in_a_handler(x):
    s = 0.0
    for e in x:
        try:
            if e > 1.5:
                raise ValueError
            s += e
        except ValueError:
            break
    else:
        s += 100.0
    return s * x[0]


def left_in_a_case(x):
    s = 0.0
    for e in x:
        match 1:
            case 1:
                if e > 1.5:
                    break
        s += e
    else:
        s += 100.0
    return s * x[0]


def left_behind_an_inner_else(x):
    s = 0.0
    for e in x[:40]:
        for q in x[:12]:
            if q * e > 1.2:
                s += 1
                break
        else:
            s += e
            if s > 5:
                break
    else:
        s += 100.0
    return s * x[0]


def left_in_an_inner_loop(x):
    t = 0.0
    for i in range(40):
        for k in range(40):
            try:
                if x[i] + x[k] > 1.5:
                    break
            finally:
                t += 0.1
        else:
            t += x[i]
    return t


def left_in_an_else_of_a_try(x):
    s = 0.0
    for e in x:
        try:
            s += 1 / (e * e + 1)
        except ZeroDivisionError:
            for q in range(3):
                if q == 2:
                    break
            else:
                s += 50
        else:
            if s > 30:
                break
    else:
        s += 100.0
    return s * x[0]


@pytest.mark.parametrize(
    "f",
    [
        left_in_a_try, left_in_a_with, left_in_a_while, left_in_a_handler, left_in_a_case, left_behind_an_inner_else,
        left_in_an_inner_loop, left_in_an_else_of_a_try,
    ],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_an_else_is_not_run_behind_a_break(f):
    df = sd.value_and_grad(f, loops="keep")
    for seed, size in ((3, 0.8), (4, 0.8), (5, 0.3)):
        x = np.random.default_rng(seed).normal(size=40) * size
        assert df(x)[0] == pytest.approx(f(x), rel=1e-12)


def unbound_behind_an_exception(x):
    try:
        for v in x:
            if v > 1.5:
                raise ValueError
            last = v
        last = 9.0
    except ValueError:
        pass
    try:
        return last * 2
    except UnboundLocalError:
        return -3.0 * x[0]


def unbound_behind_a_break(x):
    for v in x:
        if v > 1.5:
            break
        last = v
    try:
        return last * 2
    except Exception:
        return -3.0 * x[0]


@pytest.mark.parametrize("f", [unbound_behind_an_exception, unbound_behind_a_break], ids=lambda f: f.__name__)
def test_handlers_do_not_hide_that_rounds_bind_a_name(f):
    x = np.random.default_rng(4).normal(size=3000) * 0.8
    for points in (x, np.append(2.0, x), 0.1 * x):
        assert sd.value_and_grad(f)(points)[0] == pytest.approx(f(points), rel=1e-12)
