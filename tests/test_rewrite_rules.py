"""The table of rewrites, each row in 50 digits and in a function; and what the last column of the rule tables tells."""

import math
import random
import re

import mpmath
import numpy as np
import pytest
from inside import (
    COMPLEX,
    CONSTANTS,
    Builder,
    Facts,
    Saturation,
    default_rules,
    evaluate_formula,
    exact_formula,
    formula_locus,
    operation_facts,
    rewrite_rules,
    rewrites_by_operation,
    rewritten,
    rule_column,
)
from mpmath import mp

import symdiff as sd

ROWS = [row for op in rewrites_by_operation() for row in rewrite_rules(op)]
NUMBERS = {
    "c": [2.0, 0.5, -3.0],
    "d": [0.25, 3.0],
    "k": [0.5 + 2j, -1j],
    "n": [2, 3, 4, 6, 9],
    "p": [0.5, 0.25, 1.5],
    "q": [0.5, 1, 1.5, 2],
}


def samples(row, count=6):
    """Values of a row's variables for which its conditions hold."""
    rng, found = random.Random(row.text), []
    while len(found) < count:
        values = []
        for name in row.parameters:
            real = rng.uniform(*row.sample)
            of = complex(real, rng.uniform(-1, 1)) if name in COMPLEX else real
            values.append(rng.choice(NUMBERS[name]) if name in CONSTANTS else of)
        if all(evaluate_formula(c, tuple(values), None) for c in row.where):
            found.append(tuple(values))
    return found


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.text)
def test_a_row_in_50_digits(row):
    with mp.workdps(50):
        for values in samples(row):
            point = tuple(map(mpmath.mpmathify, values))
            whole = exact_formula(row.form, point, None)
            if row.becomes is not None:
                assert mpmath.almosteq(whole, exact_formula(row.becomes, point, None), 1e-45, 1e-45)
            moving = [place for place, name in enumerate(row.parameters) if name not in CONSTANTS]
            for place, partial in zip(moving if row.partials else (), row.partials, strict=True):
                if partial is not None:

                    def along(x, place=place, point=point):
                        return exact_formula(row.form, (*point[:place], x, *point[place + 1 :]), None)

                    slope = mpmath.diff(along, point[place])
                    assert mpmath.almosteq(slope, exact_formula(partial, point, whole), 1e-18, 1e-18)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.text)
def test_a_row_is_seen_in_a_function(row):
    words = {w: getattr(np, {"max": "maximum", "min": "minimum"}.get(w, w)) for w in re.findall(r"(\w+)\(", row.text)}
    moving = [name for name in row.parameters if name not in CONSTANTS]
    for values in samples(row, 3):
        named = dict(zip(row.parameters, values, strict=True))

        def written(*args, named=named):
            form = {**named, **dict(zip(moving, args, strict=True))}
            if row.text in ("(x*y)**n", "(x/y)**n", "(-x)**n", "abs(x)"):  # with a root, or positive
                form["x"] = np.sqrt(form["x"])
            if row.text in ("max(x, c)", "min(x, c)"):  # on one side of c
                size = np.sqrt(abs(form["x"]))
                form["x"] = form["c"] + (size if row.where[0].steps[-1][0] == "ge" else -size)
            return eval(row.text, words, form)  # the table's own text

        graph = sd.trace(written, *(named[name] for name in moving))
        seen = rewritten(Facts(graph.bindings), Builder())
        if row.becomes is not None:
            assert any(a is not b for a, b in zip(seen, graph.bindings, strict=False))
        else:
            assert Saturation(Builder(), Facts(seen)).slopes(seen[-1])[0]


FACTS = [rule for rule in default_rules().values() if rule.facts]


@pytest.mark.parametrize("rule", FACTS, ids=lambda rule: rule.name)
def test_facts_of_a_row_hold(rule):
    pytest.importorskip("scipy", reason="special functions need SciPy")
    column = rule_column(rule.facts, rule.parameters)
    rng = np.random.default_rng(0)
    wide = [np.sort(np.concatenate([rng.uniform(-9, 9, 200), 10.0 ** rng.uniform(-300, 300, 50), [0.0, np.inf, -np.inf]]))]
    points = wide * len(rule.parameters)
    with np.errstate(all="ignore"):
        out = rule.value(*points)
    known = np.asarray(out)[~np.isnan(out)]
    finite = known[np.isfinite(known)]
    assert np.all(known >= column.low) and np.all(known <= column.high)
    if column.words & {"rising", "falling"}:
        assert np.all(np.diff(finite) * (-1 if "falling" in column.words else 1) >= -1e-15 * np.abs(finite[1:]))
    if "levels" in column.words:
        with np.errstate(all="ignore"):
            ends = sorted(float(rule.value(end)) for end in (-np.inf, np.inf))
        assert all(np.isfinite(at) for at, level in zip(ends, (column.low, column.high), strict=True) if np.isfinite(level))
    assert "whole" not in column.words or np.array_equal(known, np.rint(known))
    inside = [np.full(3, low) + rng.uniform(0.1, 0.9, 3) * (high - low) for low, high in rule.interval]
    loci = [formula_locus(locus) for locus in column.loci if locus.kind != "cut"]
    assert not any(np.any(evaluate_formula(condition, tuple(inside), None)) for condition in loci)


def test_every_operation_that_grows_or_is_rounded_says_so():
    words = {op: column.words for op, column in operation_facts().items()}
    assert {op for op, found in words.items() if "grows" in found} == {"exp", "exp2", "exp10", "expm1", "sinh", "cosh"}
    assert {op for op, found in words.items() if "whole" in found} == {"sign", "floor", "ceil", "trunc", "rint", "floordiv"}


@pytest.mark.parametrize("text", ["0..x", "raising", "0..1 rising soft", "rising; bend x == 0"])
def test_a_column_that_says_something_else_is_refused(text):
    with pytest.raises(sd.RuleError, match="here: "):
        rule_column(text, ("x",), "here")


def test_an_integer_made_of_sums_of_itself_takes_no_longer_than_its_operations():
    def f(x):
        y = np.floor(x)
        for _ in range(60):
            y = y + y
        return x * int(y * 2.0**-60)

    assert sd.grad(f)(3.5) == 3.0


def test_an_image_in_single_precision_has_its_ends_there():
    def f(x):
        y = np.arctan(x)
        return 2 * x if y == y and y >= np.float32(math.pi / 2) else x

    assert [sd.grad(f)(np.float32(x)) for x in (1.0, 1e30)] == [1.0, 2.0]


def test_facts_follow_operations():
    def of(f, *args):
        graph = sd.trace(f, *args)
        return Facts(graph.bindings).of(graph.outputs[0].atom)

    assert of(lambda x: 2 + np.sin(x), 0.3)[:2] == (1.0, 3.0)
    assert of(lambda x: np.exp(-x * x) / (1 + x**2), 0.3)[:2] == (0.0, 1.0)
    assert of(lambda x, y: np.sum(x**4, axis=0) + y * y, np.ones((3, 2)), np.ones(2)).powers == 2
    assert of(lambda x: np.tanh(x) ** 3 - np.floor(np.arctan(x)), 0.3)[:2] == (-2.0, 3.0)
    assert math.isinf(of(lambda x, y: x / y, 1.0, 2.0).high) and of(lambda x: 1 / np.cosh(x), 0.1)[:2] == (0.0, 1.0)
    assert of(lambda x: np.float32(1) + abs(x), np.float32(2)).low == 1.0
