"""Loops whose rounds change more than names: variables of functions around, deques, lists that stay as long; and loops whose
rounds handle or raise exceptions, enter contexts or delete names; against the plain functions and the loops written out.
"""

import collections
import contextlib
import math

import numpy as np
import pytest
from followed_code import raises_within

import symdiff as sd

TABLE = {0: 1.0, 1: 0.5}
HISTORY = collections.deque([0.1, 0.2], maxlen=2)


def variable_of_the_function_around(x):
    s = 0.1

    def step(k):
        nonlocal s
        s = math.sin(s * x) + 0.1 * k

    for k in range(12):
        step(k)
    return s


def variable_that_both_set(x):
    s, t = 0.1, 0.0

    def step(k):
        nonlocal s
        s = s * x + 0.1 * k
        return s

    for k in range(12):
        t += step(k)
        s = 0.5 * s + t
        t -= 0.1 * step(k)
    return s + t


def variable_that_is_read_in_turns(x):
    s = [x]
    factor = 0.5

    def turn():
        nonlocal factor
        factor = 1.1 * factor if factor < 1 else 0.5
        return factor

    for _ in range(12):
        s[0] = math.sin(s[0]) * turn() + factor
    return s[0] + turn()


def loop_in_the_inner_function(x):
    s = x

    def run(n):
        nonlocal s
        for k in range(n):
            s = s + 0.1 * math.sin(s * k)

    run(9)
    run(7)
    return s


def counted_calls(x):
    calls = 0

    def cost(v):
        nonlocal calls
        calls += 1
        return v * v + 0.01 * calls

    for _ in range(12):
        x = x - 0.1 * cost(x)
    return x * calls


def deque_of_two(x):
    past = collections.deque([x, 2 * x], maxlen=2)
    for _ in range(12):
        past.append(0.5 * math.sin(past[0]) + 0.3 * past[1])
    return past[-1] + 2 * past[0] + len(past)


def deque_as_a_queue(x):
    queue, s = collections.deque([x, 2 * x, x * x]), 0.0
    other = queue
    for k in range(12):
        first = queue.popleft()
        s += first * k
        other.append(math.sin(first) * 0.9)
    return s + queue[1] * other[2]


def deque_that_rounds_replace(x):
    past = collections.deque([x, x], 2)
    for k in range(12):
        if k % 3 == 0:
            past.rotate(1)
        past[0] = past[0] * 0.9 + past[-1] * x
    return sum(past)


def deque_from_outside(x):
    for _ in range(9):
        HISTORY.append(HISTORY[0] * x + 0.1)
    found = HISTORY[1]
    HISTORY.extend([0.1, 0.2])
    return found


def list_as_a_queue(x):
    queue = [x, 2 * x]
    for _ in range(12):
        first = queue.pop(0)
        queue.append(math.sin(first) + 0.1 * queue[0])
    return queue[0]


def list_from_the_front(x):
    past = [x, 0.3, 0.1]
    for k in range(12):
        past.insert(0, math.cos(past[1] * k))
        past.pop()
    return past[0] * past[2]


def list_by_two_names(x):
    past = [x, 0.3]
    same = past
    for _ in range(12):
        past.append(0.5 * same[0] + math.sin(past[-1]))
        del same[0]
    return same[0] + past[1]


def handles(x):
    for k in range(12):
        try:
            x = math.sqrt(x - 0.3) + 0.1 * k
        except ValueError:
            x = 1.0 + 0.1 * x
    return x


def handles_what_it_raises(x):
    s = 0.0
    for k in range(12):
        try:
            if s > 1.5:
                raise OverflowError("large")
            s = s + x
        except OverflowError as error:
            s = s - 1.2 * len(error.args[0]) / 5
        finally:
            s = s * 0.9 + 0.01 * k
    return s


def divide(a, b):
    try:
        return a / b
    except ZeroDivisionError:
        return 0.3
    finally:
        pass


def handles_in_a_call(x):
    s = 0.5
    for k in range(12):
        s = 0.5 * s + divide(x, k + 1.0 - s) * 0.1
    return s


def suppresses(x):
    s = 0.0
    for _ in range(12):
        with contextlib.suppress(ValueError), np.errstate(all="ignore"):
            s += math.log(x - s)
        s += 0.4
    return s


def raises(x):
    s = 0.0
    for k in range(12):
        if s > 40:
            raise ValueError(f"round {k}: {s}")
        s += math.exp(x) * (k + 1) / (12 + k)
    return s


def never_raises(x):
    y = np.zeros(12)
    for k in range(12):
        if k < 0:
            raise IndexError(k)
        y[k] = x * k + (y[k - 1] if k else 0.0)
    return np.sum(y * y)


def caught_behind(x):
    s = 0.0
    try:
        for k in range(12):
            if s > 9:
                raise ValueError(k)
            s += math.exp(x) * (k + 1) / 30
    except ValueError as error:
        s = s + 0.1 * error.args[0]
    return s


def names_in_expressions(x):
    s = 0.0
    for k in range(12):
        if (t := math.sin(s + x) * k) > 0.5:
            s += 0.1 * t
        s += sum((last := x * j) for j in range(3)) + 0.1 * last
    return s + t


def while_with_a_name(x):
    s = 0.0
    while (t := s * x + 0.3) < 2:
        s += 0.25 * t
    return s + t


def deletes(x):
    s, seen = 0.1, {"a": x}
    for k in range(12):
        t = math.sin(s) * x
        seen["b"] = t * k
        s = 0.5 * t + seen["b"]
        del t, seen["b"]
    return s


def adds_at(x):
    found, places = np.zeros(5), np.array([1, 3, 1])
    for k in range(12):
        np.add.at(found, places, x * k)
        np.multiply.at(found, k % 5, 0.9 + found[k % 2])
    return np.sum(found * np.arange(5))


def caught_around_a_loop(x):
    s = 0.0
    for k in range(9):
        try:
            for m in range(6):
                s += math.sqrt(x - 0.1 * k * m)
        except ValueError:
            s += 0.5
    return s


def terms(x, n):
    t = 1.0
    for k in range(n):
        t = 0.9 * t * x + 0.1
        yield k, t
    yield n, 0.5 * t


def smoothed(values, factor):
    last = 0.0
    for value in values:
        last = factor * last + (1 - factor) * value
        yield last


def waves(x):
    for k in range(12):
        yield math.sin(x * k)


def yielded_in_a_loop(x):
    s = x
    for k, t in terms(x, 12):
        square = t * t
        s += square * k + 0.1 * s
    return s


def yielded_to_a_sum(x):
    return sum(k * math.sin(t) for k, t in terms(x, 12)) + sum(smoothed([x * k for k in range(9)], 0.3))


def yielded_by_an_inner_function(x):
    def states():
        q, p = x, 0.1
        for _ in range(12):
            yield q, p
            p = p - 0.1 * math.sin(q)
            q = q + 0.1 * p

    energy, largest = 0.0, 0.0
    for q, p in states():
        energy += 0.5 * p * p
        if q > largest:
            largest = q
    return energy + largest


def yielded_through_another(x):
    s, last = 0.0, x
    for value in smoothed(waves(x), 0.4):
        s += value * last
        last = value
    return s


def yielded_twice_in_nested_loops(x):
    def pairs():
        for k in range(7):
            yield x * k
            for m in range(6):
                yield math.cos(x * m) + k
        yield 0.1

    s, t = 0.0, x
    for value in pairs():
        s, t = 0.9 * s + 0.1 * value * t, s
    return s * t


def yielded_by_a_while(x):
    def halves(h):
        while h > 1e-3:
            yield h
            h = 0.5 * h

    s = 0.0
    for h in halves(x):
        s += h * math.sin(s + h)
    return s


YIELDED = (
    yielded_in_a_loop, yielded_to_a_sum, yielded_by_an_inner_function, yielded_through_another, yielded_twice_in_nested_loops,
    yielded_by_a_while,
)  # fmt: skip


def left_by_who_takes(x):
    s = 0.0
    for k, t in terms(x, 12):
        if s > 2:
            break
        s += t * k
    return s


def taken_by_hand(x):
    values, s = terms(x, 12), 0.0
    for k, t in values:
        s += t * k + next(values)[1]
        if k == 10:
            break
    return s


def taken_by_two(x):
    values = terms(x, 13)
    return sum(a[1] * b[1] for a, b in zip(values, values, strict=True))


def shared_variable(x):
    n = 0

    def multiples():
        for k in range(9):
            yield x * (n + k)

    s = 0.0
    for value in multiples():
        s += value
        n += 1
    return s


def read_behind(x):
    s = 0.0
    for k, t in terms(x, 12):
        last = t
        s += last * k
    return s + last + k


def collected(x):
    found = []
    for _, t in terms(x, 12):
        found.append(t)
    return found[3] * found[5]


def never_exhausted(x):
    values = waves(x)
    s = next(values)
    for value in values:
        s = 0.5 * s + value
    return s


LEVEL = 0.5


def name_of_the_module(x):
    global LEVEL
    LEVEL = x
    for k in range(12):
        LEVEL = 0.9 * LEVEL + 0.1 * math.sin(level() * k)
    found, LEVEL = LEVEL + level(), 0.5
    return found


def level():
    return LEVEL


def name_of_the_module_from_before(x):
    global LEVEL
    for k in range(12):
        LEVEL = 0.9 * LEVEL * x + 0.1 * k
    found, LEVEL = LEVEL, 0.5
    return found


def cases(x):
    s, last = 0.1, 0.0
    for k in range(12):
        match (k % 4, s):
            case (0, _):
                s = s + x
            case (1, v):
                s = last * v
            case (2, _) if s > 0.4:
                continue
            case [_, *rest]:
                s = math.sin(rest[0])
        last = 0.9 * s
    return s + last


def added_at_several_places(x):
    y = np.zeros(5)
    for k in range(12):
        np.add.at(y, [k % 5, (k + 3) % 5, k % 5], x * k)
        np.multiply.at(y, [k % 2, 2], 0.9)
    return np.sum(y**2)


def cases_of_classes(x):
    s = x
    for k in range(12):
        match s:
            case float(v) if k > 6:
                s = 0.9 * v
            case int() | str():
                s = 100.0
            case _:
                s = s + 0.1 * x
    return s


KEPT = (
    collected, left_by_who_takes,
    name_of_the_module, name_of_the_module_from_before, cases, cases_of_classes, added_at_several_places,
    *YIELDED,
    variable_of_the_function_around, variable_that_both_set, variable_that_is_read_in_turns, loop_in_the_inner_function,
    counted_calls, deque_of_two, deque_as_a_queue, deque_that_rounds_replace, list_as_a_queue, list_from_the_front,
    list_by_two_names, handles, handles_what_it_raises, handles_in_a_call, suppresses, raises, raises_within, never_raises,
    caught_behind, caught_around_a_loop, deque_from_outside, names_in_expressions, while_with_a_name, deletes, adds_at,
)  # fmt: skip


def longer_deque(x):
    past = collections.deque([x])
    for _ in range(9):
        past.append(past[-1] * 1.1)
    return past[3]


def known_key(x):
    for k in range(9):
        try:
            x = x * TABLE[k]
        except KeyError:
            x = x + 0.1
    return x


def deletes_what_was_before(x):
    t = x
    for k in range(9):
        if k == 4:
            del t
        x = x * 1.01
    return x


def makes_variables(x):
    def counter():
        n = 0.0

        def count(v):
            nonlocal n
            n += v
            return n

        return count

    for _ in range(9):
        count = counter()
        x = x + 0.1 * count(x) * count(0.5)
    return x


WRITTEN = (
    longer_deque,
    known_key,
    deletes_what_was_before,
    makes_variables,
    taken_by_hand,
    taken_by_two,
    shared_variable,
    read_behind,
    never_exhausted,
)


@pytest.mark.parametrize("f", (*KEPT, *WRITTEN), ids=lambda f: f.__name__)
def test_what_rounds_change(f):
    graph = sd.trace(f, 0.7, loops="keep")
    outcomes = {v.partition(":")[0] for v in graph.notes["loops"].values()}
    assert ("kept" in outcomes) == (f in KEPT), graph.notes["loops"]
    kept, written = (sd.value_and_grad(f, loops=loops) for loops in ("keep", "unroll"))
    for x in (0.7, 0.4, 1.3):
        value, slope = kept(x)
        np.testing.assert_allclose(value, f(x), rtol=1e-13)
        np.testing.assert_allclose(slope, written(x)[1], rtol=1e-12)


@pytest.mark.parametrize("f", (raises, raises_within), ids=lambda f: f.__name__)
def test_rounds_raise_what_they_raise_in_python(f):
    df = sd.value_and_grad(f, loops="keep")
    for x in (0.7, 2.9, 0.4, 3.3):
        try:
            expected = f(x)
        except Exception as error:
            with pytest.raises(type(error)) as found:
                df(x)
            assert str(found.value) == str(error)
        else:
            np.testing.assert_allclose(df(x)[0], expected, rtol=1e-13)
