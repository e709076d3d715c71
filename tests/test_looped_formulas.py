"""Formulas of kept loops have the values of the function and of its derivative, and are what textbooks print."""

import re

import numpy as np
import pytest
import sympy as sp
from inside import latex_name
from latex_values import page_values

import symdiff as sd

RNG = np.random.default_rng(0)


class Values:
    """The values of a formula at numbers: recurrences are run, sums added up."""

    def __init__(self, formula, given, rounds):
        self.given = dict(given)
        self.rounds = rounds
        self.pieces = {}
        self.steps = []
        for equation in formula.where:
            name = equation.left.name
            if equation.at is None and "[" not in name:
                self.pieces[name] = equation.right
            else:
                self.steps.append(equation)
        self.pieces |= {e.left.name: e.right for e in formula.where if "[" not in e.left.name}
        pending = self.steps
        for _ in range(3):  # bars begin with what other recurrences end with
            pending = [e for e in pending if not self.run(e, pending)]
        self.together([e for e in self.steps if e.at is not None])

    def run(self, equation, pending):
        if equation.at is not None:
            return False
        try:
            self.given[self.named(equation.left.name, None)] = self.of(equation.right, None)
        except KeyError:
            return False
        return True

    def together(self, steps):
        """Forward steps from the first round on, then those that come back; each loop's lines have one range."""
        forward = [e for e in steps if "+1]" in e.left.name]
        for k in range(self.rounds):
            for e in forward:
                self.given[self.named(e.left.name, k)] = self.of(e.right, k)
        for e in self.steps:
            if e.at is None:
                self.given[self.named(e.left.name, None)] = self.of(e.right, None)
        for k in reversed(range(self.rounds)):
            for e in steps:
                if e not in forward:
                    self.given[self.named(e.left.name, k)] = self.of(e.right, k)

    def named(self, name, k):
        array, found, place = name.partition("[")
        if not found:
            return name
        place = place[:-1].replace("n", str(self.rounds)) if re.fullmatch(r"[a-z]", place[0]) and k is None else place[:-1]
        if k is not None:
            place = re.sub(r"[a-z]", str(k), place)
        return f"{array}[{eval(place)}]"

    def of(self, expr, k):
        if isinstance(expr, sp.Sum):
            body, (_, low, high) = expr.args[0], expr.args[1]
            high = int(high.subs(dict.fromkeys(high.free_symbols, self.rounds)))
            return sum(self.of(body, j) for j in range(int(low), high + 1))
        if type(expr).__name__ == "Bracketed":
            index = dict.fromkeys(expr.free_symbols, k)
            return float(bool(expr.args[0].subs(index)))
        if isinstance(expr, sp.Symbol):
            if expr.name in self.pieces:
                return self.of(self.pieces[expr.name], k)
            if k is not None and expr.name in "ijk" and expr.name not in self.given:
                return k
            return self.given[self.named(expr.name, k)]
        if not expr.args:
            return float(expr)
        if isinstance(expr, sp.Add):
            return sum(self.of(a, k) for a in expr.args)
        if isinstance(expr, sp.Mul):
            factors = [self.of(a, k) if type(a).__name__ == "Bracketed" else None for a in expr.args]
            if 0.0 in factors:
                return 0.0  # what a bracket leaves out need not exist
            return np.prod([self.of(a, k) if f is None else f for a, f in zip(expr.args, factors, strict=True)])
        if isinstance(expr, sp.Pow):
            return self.of(expr.base, k) ** self.of(expr.exp, k)
        return float(expr.func(*(sp.Float(self.of(a, k)) for a in expr.args)))


def rosenbrock(x):
    s = 0.0
    for i in range(len(x) - 1):
        s += 100.0 * (x[i + 1] - x[i] ** 2) ** 2 + (1 - x[i]) ** 2
    return s


def product(x):
    p = 1.0
    for a in x:
        p = p * a
    return p


def chebyshev(x):
    a, b = 1.0, x
    for _ in range(8):
        a, b = b, 2 * x * b - a
    return b


def pendulum(q, p, h):
    for _ in range(9):
        b = -np.sin(q)
        d = -np.sin(q + h / 2 * p)
        q = q + h * (p + h / 2 * b)
        p = p + h * d
    return q * q + p


def filtered(x, a, b):
    y, before, total = x[0], x[1] * b, 0.0
    for n in range(2, len(x)):
        y, before = b * x[n] + a * y - 0.2 * before, y
        total += y * y
    return total * a + y


def sums_after_sums(x, y):
    mean = 0.0
    for a in x:
        mean += a / len(x)
    spread = 0.0
    for a in x:
        spread += (a - mean) ** 2 * y
    return np.sqrt(spread)


def newton(a):
    x = a
    while abs(x * x - a) > 1e-12:
        x = 0.5 * (x + a / x)
    return x


def with_index(x, c):
    s = 0.0
    for i in range(len(x)):
        s += np.sin(c * i) * x[i]
    return s * s


LOOPS = {
    "rosenbrock": (rosenbrock, (RNG.uniform(size=10),), 9),
    "product": (product, (RNG.uniform(0.5, 2, 10),), 10),
    "chebyshev": (chebyshev, (0.3,), 8),
    "pendulum": (pendulum, (0.5, 0.2, 0.1), 9),
    "filter": (filtered, (RNG.uniform(size=11), 0.5, 0.3), 9),
    "sums": (sums_after_sums, (RNG.uniform(size=8), 1.5), 8),
    "newton": (newton, (2.0,), 5),
    "index": (with_index, (RNG.uniform(size=7), 0.3), 7),
}


@pytest.mark.parametrize("name", LOOPS)
def test_a_formula_of_a_kept_loop_has_the_values(name):
    f, args, rounds = LOOPS[name]
    df = sd.value_and_grad(f, tuple(range(len(args))), loops="keep")
    value, slopes = df(*args)
    formula = df.formula
    assert "loop" not in formula.unicode and "_bar" not in formula.latex and formula.mathml
    names = f.__code__.co_varnames
    given = {
        f"{n}[{k}]" if np.ndim(arg) else n: cell
        for n, arg in zip(names, args, strict=False)
        for k, cell in enumerate(np.atleast_1d(arg))
    }
    found = Values(formula, given, rounds)
    first, *others = formula.equations
    assert found.of(first.right, None) == pytest.approx(value, rel=1e-12)
    assert len(others) == len(args)
    for equation, slope in zip(others, slopes, strict=True):
        places = range(np.size(slope)) if equation.at else [None]
        assert equation.at is None or equation.at[1:] == (0, np.size(slope) - 1)
        np.testing.assert_allclose([found.of(equation.right, k) for k in places], np.atleast_1d(slope), 1e-10, 1e-12)


def test_rosenbrocks_loop_as_in_a_textbook():
    formula = sd.value_and_grad(rosenbrock)
    formula(np.linspace(0.9, 1.1, 1000))
    assert (
        r"\sum_{i=0}^{998} \left(100 \left(x_{i+1} - x_{i}^{2}\right)^{2} + \left(1 - x_{i}\right)^{2}\right)"
        in formula.formula.latex
    )
    assert r"200 \left(x_{i} - x_{i-1}^{2}\right) \left[i \geq 1\right]" in formula.formula.latex
    assert r"\left[i \leq 998\right]" in formula.formula.latex


@pytest.mark.parametrize("transform", [sd.hessian, sd.jvp])
def test_kinds_without_recurrences_are_read_as_before(transform):
    df = transform(chebyshev, loops="keep") if transform is sd.jvp else transform(chebyshev)
    df(0.3, 1.0) if transform is sd.jvp else df(0.3)
    assert df.formula.latex


def smoothed(e, phi):
    x = 0.0
    s = 0.0
    for a in e:
        x = phi * x + a
        s = s + x**2 * a
    return s


def horner(c, x):
    s = 0.0
    for a in c:
        s = s * x + a
    return s


def relaxed(y, k):
    for _ in range(20):
        rate = np.sin(y) - k * y
        y = y + 0.1 * rate
    return y * k


def doubled(x, a):
    u = x * a
    for _ in range(15):
        u = u * u - a
        v = u + x
    return u * v


@pytest.mark.parametrize(
    ("f", "args", "begins"),
    [
        (smoothed, (RNG.uniform(size=16), 0.7), 0),
        (horner, (RNG.uniform(size=18), 0.8), 0),
        (relaxed, (0.5, 1.2), 0),
        (doubled, (0.3, 0.4), 1),
    ],
)
def test_rounds_of_an_unrolled_loop_are_a_recurrence(f, args, begins):
    df = sd.value_and_grad(f, (0, 1), loops="unroll")
    value, slopes = df(*args)
    formula = df.formula
    assert {e.at[1] for e in formula.where if e.at} == {begins} and len(formula.latex) < 1_000
    names = {
        latex_name(f"{n}[{k}]" if np.ndim(arg) else n): cell
        for n, arg in zip(f.__code__.co_varnames, args, strict=False)
        for k, cell in enumerate(np.atleast_1d(arg))
    }
    first, *found = page_values(formula.latex, names).values()
    assert first == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(found, np.concatenate([np.atleast_1d(s) for s in slopes]), 1e-12)
