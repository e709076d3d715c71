"""What `sd.explain` says: differentiable or not, where the kinks are, and what the derivative takes there."""

import inspect

import numpy as np
import pytest

import symdiff as sd


def relu(x):
    return np.maximum(x, 0)


def softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


ZEROS = np.zeros(3)
TIED = np.array([1.0, 2.0, 2.0])
# function, point, differentiable, the kinds of the entries, a part of the text
CASES = {
    "smooth": (lambda x: x * np.sin(x), (0.3,), True, [], "no kink"),
    "relu": (relu, (0.0,), False, ["kink"], "max(0, 0): kink; half of the slope"),
    "relu beside its kink": (relu, (1e-3,), True, [], "no kink"),
    "softplus": (softplus, (0.0,), True, ["kink", "kink"], "the kinks cancel"),
    "abs": (np.abs, (0.0,), False, ["kink"], "slope 0, between -1 and 1"),
    "x|x|": (lambda x: x * abs(x), (0.0,), True, ["kink"], "the kinks cancel"),
    "root": (np.sqrt, (0.0,), False, ["edge"], "infinite"),
    "log": (np.log, (0.0,), False, ["pole"], "infinite"),
    "1/x": (lambda x: 1 / x, (0.0,), False, ["pole"], "not finite"),
    "outside": (np.sqrt, (-1.0,), False, ["edge"], "not a number"),
    "branch": (lambda x: np.where(x > 0, x, 0), (0.0,), False, ["boundary"], "the other has the same value"),
    "smooth branches": (lambda x: np.where(x > 0, x * x, 0), (0.0,), True, ["boundary"], "the kinks cancel"),
    "a gap closed": (lambda x: np.where(x == 0, 1.0, np.sin(x) / x), (0.0,), True, ["boundary"], "the other's value is nan"),
    "an equality": (lambda x: np.where(x == 0, 0.0, x), (0.0,), True, ["boundary"], "the same value, and its slope is taken"),
    "a gap closed with another slope": (
        lambda x: np.where(x == 0, 1.0, np.sin(x) / x + x), (0.0,), True, ["boundary"], "cancel",
    ),
    "a gap closed by two conditions": (
        lambda x: np.where((x >= 0) & (x <= 0), 1.0, np.sin(x) / x + x),
        (0.0,), True, ["boundary", "boundary"], "that of the branch",
    ),
    "a gap closed wrongly": (lambda x: np.where(x == 0, 5.0, x), (0.0,), False, ["boundary"], "its value jumps"),
    "a branch not taken": (lambda x: np.where(x > 0, np.sqrt(x) + abs(x + 1), -x), (-1.0,), True, [], "no kink"),
    "conditions joined": (
        lambda x: np.where((x > 0) & np.logical_not(x >= 1), x, 0.0), (1.0,), False, ["boundary"], "ge(1, 1)",
    ),
    "norm times norm": (lambda x: np.linalg.norm(x) * np.linalg.norm(x), (ZEROS,), True, ["kink", "kink"], "cancel"),
    "cosine of abs": (lambda x: np.cos(abs(x)), (0.0,), True, ["kink"], "cancel"),
    "x**x": (lambda x: x**x, (0.0,), False, ["jump"], "pow(0, 0): jump"),
    "x**0": (lambda x: x**0, (0.0,), True, [], "no kink"),
    "xlogx": (lambda x: sd.special.xlogy(x, x), (0.0,), False, ["pole"], "xlogy(0, 0): pole"),
    "cube of a cube root": (lambda x: np.cbrt(x) ** 3, (0.0,), True, ["edge"], "cancel"),
    "log of a sum of exponentials": (lambda x: np.log(np.sum(np.exp(x))), (TIED,), True, [], "no kink"),
    "norm": (np.linalg.norm, (ZEROS,), False, ["kink"], "sum of squares; slope 0"),
    "square of a norm": (lambda x: np.linalg.norm(x) ** 2, (ZEROS,), True, ["kink"], "cancel"),
    "std": (np.std, (np.ones(3),), False, ["kink"], "sqrt"),
    "max": (np.max, (TIED,), False, ["kink"], "2 equal cells"),
    "median": (np.median, (np.array([1.0, 3.0, 1.0]),), False, ["kink"], "2 equal cells share the slope"),
    "cells read": (lambda x: np.sum(np.abs(x[1:])), (np.array([0.0, 2.0, 0.0]),), False, ["kink"], "abs(0): kink"),
    "cells not read": (lambda x: np.sum(np.abs(x)[1:]), (np.array([0.0, 2.0, 1.0]),), True, [], "no kink"),
    "several cells": (lambda x: np.sum(np.abs(x)), (ZEROS,), False, ["kink"], "at 3 cells"),
    "floor": (np.floor, (2.0,), False, ["jump"], "its value jumps"),
    "sinc": (np.sinc, (0.0,), True, ["kink"], "sinc(0)"),
    "branch cut": (np.sqrt, (-1.0 + 0j,), False, ["cut"], "signed zero"),
    "complex, off the cut": (np.sqrt, (-1.0 + 1j,), True, [], "no kink"),
    "complex abs": (lambda z: np.abs(z) ** 2, (1.0 + 1j,), True, [], "no kink"),
    "structures": (lambda p: p["a"] + abs(p["b"][1]), ({"a": 1.0, "b": [2.0, 0.0]},), False, ["kink"], "abs(0)"),
    "a static exponent": (lambda x, n: abs(x) ** n, (0.0, 2), True, ["kink"], "cancel"),
    "eigenvalues": (lambda x: np.linalg.eigvalsh(x)[0], (np.eye(2),), False, ["kink"], "equal eigenvalues"),
    "an integer": (abs, (0,), False, ["kink"], "abs(0)"),
    "not a number": (lambda x: abs(x) + 1, (np.nan,), False, [], "the value is not finite"),
    "a step": (lambda x: np.heaviside(x, 0.5), (0.0,), False, ["boundary"], "its value jumps"),
    "singular": (lambda x: np.linalg.slogdet(x)[1], (np.zeros((2, 2)),), False, ["pole"], "not finite"),
    "derivatives themselves": (sd.grad(lambda x: abs(x) ** 3), (0.0,), True, ["kink", "jump"], "cancel"),
    "an empty array": (lambda x: np.sum(np.abs(x)), (np.zeros(0),), True, [], "no kink"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_explanations(name):
    f, args, differentiable, kinds, text = CASES[name]
    found = sd.explain(f, *args)
    assert found.differentiable is differentiable, found
    assert [entry.kind for entry in found.entries] == kinds, found
    assert text in str(found) and str(found) == repr(found)


def test_an_entry_names_line_and_operands():
    line = inspect.getsourcelines(relu)[1] + 1
    (entry,) = sd.explain(relu, 0.0).entries
    assert (entry.line, entry.operation, entry.operands) == (f"test_explaining.py:{line}", "max", (0.0, 0.0))


def test_rules_of_the_users_own():
    def kinked(x):
        return np.abs(x)

    book = sd.trace(kinked, 1.0)  # without a rule the body is seen
    assert [b.op for b in book.bindings] == ["abs"]
    assert not sd.explain(kinked, 0.0).differentiable
    sd.diffrule(kinked)(lambda out, x: np.sign(x))
    found = sd.explain(lambda x: kinked(x) + x, 0.5)
    assert found.differentiable and not found.entries


def test_single_precision():
    for f, differentiable in ((relu, False), (softplus, True), (np.floor, False)):
        assert sd.explain(f, np.float32(0)).differentiable is differentiable
    assert sd.explain(lambda z: z * np.abs(z), np.complex64(0)).differentiable


def summed_moduli(x):
    s = 0.0
    for k in range(len(x)):
        s = 0.999 * s + abs(x[k])
    return s


def choices_in_rounds(x):
    y, s = np.zeros(len(x)), 0.0
    for k in range(1, len(x)):
        y[k] = 0.5 * y[k - 1] + np.sqrt(x[k] - 0.25)
        if x[k] > 1:
            y[k] += 1.0
        for j in range(3):
            s += max(x[k] - j, 0.0)
    return np.sum(y) + s


def until_small(x):
    y, d = x[0], 1.0
    while abs(d) > 1e-3:
        d = 0.25 * y
        y = y - d + 0.0 * abs(x[1])
    return y * abs(x[2])


@pytest.mark.parametrize("loops", [20, 1500])
def test_rounds_of_loops_are_looked_at(loops):
    x = np.full(loops, 0.5)
    assert sd.explain(summed_moduli, x).differentiable
    x[[5, 9]] = 0.0
    found = sd.explain(summed_moduli, x)
    assert not found.differentiable
    assert {(kink.operation, kink.kind, kink.line.rpartition(":")[2]) for kink in found.entries} == {
        ("abs", "kink", str(summed_moduli.__code__.co_firstlineno + 3))
    }
    assert sum(kink.cells for kink in found.entries) == 2


@pytest.mark.parametrize("loops", [12, 900])
def test_choices_in_rounds_are_told(loops):
    x = np.linspace(0.3, 0.9, loops)
    assert sd.explain(choices_in_rounds, x).differentiable
    x[3], x[4], x[7] = 0.25, 1.0, 2.0
    kinds = {(kink.operation, kink.kind) for kink in sd.explain(choices_in_rounds, x).entries}
    assert ("sqrt", "edge") in kinds and {kind for _, kind in kinds} >= {"edge", "boundary", "kink"}


def test_rounds_of_a_while_are_looked_at():
    assert [k.kind for k in sd.explain(until_small, np.array([1.0, 2.0, 3.0])).entries] == []
    found = sd.explain(until_small, np.array([1.0, 2.0, 0.0]))
    assert not found.differentiable and [k.kind for k in found.entries] == ["kink"]
