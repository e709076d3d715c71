"""Comprehensions, and what takes all that a generator gives, as loops; with Python's meaning of their names."""

import itertools
import math

import numpy as np
import pytest

import symdiff as sd

X = 0.83
POINTS = np.linspace(0.0, 2.0, 60)


def mean_of_items(x):
    return float(np.mean([abs(x - p) for p in POINTS]))


def array_of_items(x):
    v = np.array([math.sin(x * i) for i in range(300)])
    return v @ v


def rows(x):
    return np.sum(np.array([[x * i + j for j in range(5)] for i in range(60)]) ** 2)


def matrices(x):
    m = [[x * (i + j) if i <= j else 0.0 for j in range(6)] for i in range(6)]
    turned = [[row[j] for row in m] for j in range(6)]
    return sum(m[i][k] * turned[k][i] for i in range(6) for k in range(6))


def largest(x):
    return max(math.sin(x * i) for i in range(100) if i % 3 != 1)


def several_loops(x):
    return sum(a * b * x for a in (0.3, 0.5, 0.7) for b in range(80) if b % 2)


def product(x):
    return math.prod(1.0 + 0.01 * x * i for i in range(40)) + math.prod([x, x, 2.0])


def pairs(x):
    points = [(0.1 * i, math.sin(x * i)) for i in range(100)]
    return sum((p[1] - q[1]) ** 2 for p, q in itertools.pairwise(points))


def smoothed(x):
    s = [x, 0.5, x * x]
    for _ in range(40):
        s = [0.45 * (a + b) + 0.01 for a, b in zip(s, s[1:] + s[:1], strict=True)]
    return sum(s)


def in_order(x):
    return tuple(x * i for i in range(30))[7] + sorted(math.cos(x * i) for i in range(30))[3]


KEPT = (mean_of_items, array_of_items, rows, largest, several_loops, product, pairs, smoothed, in_order)


def late_names(x):
    made = [lambda: i * x for i in range(6)]  # noqa: B023
    return sum(f() for f in made)


def late_generators(x):
    made = [(x * i * j for j in range(4)) for i in range(6)]
    return sum(sum(g) for g in made)


def names_around(x):
    i = 5.0
    v = [i * x for i in range(25)]
    return sum([y := x * 2, y * 3, *[y * k for k in range(7)]]) + sum(v) * i + y


def in_a_class(x):
    class Weights:
        factors = [j * x for j in range(7)]  # noqa: RUF012

    return sum(Weights.factors)


def first_one(x):
    return next(x * i for i in range(10) if x * i > 2)


def chosen(x):
    primes = [p for p in range(2, 60) if all(p % q for q in range(2, p))]
    return sum(x ** (1 / p) for p in primes)


def of_a_dict(x):
    d = {k: [x * k * j for j in range(10)] for k in "abc" for k in [ord(k) - 96]}
    return sum(sum(v) for v in d.values())


PLAIN = (matrices, late_names, late_generators, names_around, in_a_class, first_one, chosen, of_a_dict)


@pytest.mark.parametrize("options", [{}, {"loops": "keep"}, {"loops": "unroll"}, {"exact": True}], ids=str)
@pytest.mark.parametrize("f", KEPT + PLAIN, ids=lambda f: f.__name__)
def test_values_and_slopes_are_pythons(f, options):
    value, slope = sd.value_and_grad(f, **options)(X)
    h = 1e-5
    near, far = ((f(X + k * h) - f(X - k * h)) / (2 * k * h) for k in (1, 2))
    np.testing.assert_allclose(value, f(X), rtol=1e-12)
    np.testing.assert_allclose(slope, near + (near - far) / 3, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("f", KEPT, ids=lambda f: f.__name__)
def test_comprehensions_are_loops(f):
    graph = sd.trace(f, X, loops="keep")
    assert "kept" in graph.notes["loops"].values(), graph.notes["loops"]
    assert len(graph.bindings) < 60
