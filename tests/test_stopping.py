"""`any` and `all` end with the item that decides, also where others take the rest or items do more than compare."""

import itertools

import numpy as np
import pytest

import symdiff as sd


def the_rest_is_summed(x):
    items = iter(x)
    found = any(v > 0.3 for v in items)
    return sum(items) + found


def the_next_one_is_taken(x):
    items = iter(list(x))
    return (5.0 if any(v > 0.3 for v in items) else 7.0) * x[0] + next(items, 1.0)


def pairs_of_one_iterator(x):
    items = iter(list(x))
    return (5.0 if any(a > b for a, b in zip(items, items, strict=False)) else 7.0) * x[0] + next(items, 1.0)


def items_are_noted(x):
    noted = []
    any(noted.append(v) or v > 0.3 for v in x)
    return sum(noted)


def items_are_named(x):
    s = 0.0
    all((s := s + v) < 0.6 for v in x)
    return s * x[0]


def items_of_an_own_generator(x):
    s = [0.0]

    def items():
        for v in x:
            s[0] += v
            yield v > 0.3

    all(items())
    return s[0]


def items_by_a_function(x):
    noted = []

    def is_large(v):
        noted.append(v)
        return v > 0.3

    any(map(is_large, x))
    return sum(noted) * x[1]


def items_beyond_the_end(x):
    values = list(x)
    return any(values[k + 1] > 0.3 for k in range(9)) * x[2]


def an_exception_behind_the_item(x):
    def items():
        for v in x:
            yield v > 0.4
        raise ValueError

    try:
        return any(items()) * x[0]
    except ValueError:
        return -5.0 * x[1]


def items_without_an_end(x):
    return any(x[k] > 0.3 for k in itertools.count()) * x[0]


FUNCTIONS = (
    the_rest_is_summed, the_next_one_is_taken, pairs_of_one_iterator, items_are_noted, items_are_named,
    items_of_an_own_generator, items_by_a_function, items_beyond_the_end, an_exception_behind_the_item, items_without_an_end,
)  # fmt: skip


@pytest.mark.parametrize("how", [{}, {"loops": "keep"}, {"paths": "guard"}], ids=str)
@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_items_are_taken_as_in_python(f, how):
    df = sd.value_and_grad(f, **how)
    for seed in range(6):
        x = np.random.default_rng(seed).normal(size=5)
        try:
            wanted = f(x)
        except IndexError:
            with pytest.raises(IndexError):
                df(x)
            continue
        assert df(x)[0] == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x[0] if any(abs(v) > 3 for v in x) else x[1],
        lambda x: x[0] if all(a < b for a, b in zip(x, x[::-1], strict=True)) else x[1],
        lambda x: x[0] if all(a < b for a, b in itertools.pairwise(x)) else x[1],
        lambda x: x[0] if any(v > 2 for v in reversed(list(x))) else x[1],
        lambda x: x[0] if any(v < 0.1 * k for k, v in enumerate(x)) else x[1],
        lambda x: x[0] if all(np.abs(x[k]) < 9 for k in range(len(x))) else x[1],
    ],
)
def test_plain_comparisons_are_one_condition(f):
    assert "2 paths" in str(sd.trace(f, np.random.default_rng(1).normal(size=6))).splitlines()[0]
