"""Conditions on traced values: every way to write them, merged and guarded, on every backend, against the plain function."""

import importlib.util
import math
import os
import pickle
import signal
import subprocess
import sys

import branching_programs
import numpy as np
import optree
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inside import Builder, Conditions, Function, Numbered, Plain, Tracer, Values, branching, paths, program_of
from stepped_numbers import STEP, Stepped
from threads import together

import symdiff as sd

BACKENDS = ("python", "numpy", *(["native"] if importlib.util.find_spec("llvmlite") else []))


def steps(x):
    if x > 1:
        return x * x
    elif x < -1:
        return -x
    else:
        return x**3


def ternary(x):
    return np.sin(x) if x > 0.5 else x * x


def logic(x):
    if (x > 0 and x < 2) or not (x > -1):
        return 3.0 * x
    return x * x * x


def chained(x):
    return x * x if -1 < x <= 1 else 1.0 / x


def extremes(x):
    return max(x, 1.0 - x, 0.25) * min(x * x, 2.0)


def ordered(x):
    low, middle, high = sorted([x, x * x, 0.5])
    return low + 2.0 * middle + 4.0 * high


def rounded(x):
    if abs(x) < 0.4 or round(x) == 2:
        return x
    return x * x if math.floor(x) % 2 == 0 else np.exp(x)


def counted(x):
    n = 0
    while x > 0.5 and n < 5:
        x = x * 0.6
        n += 1
    return x * n


def broken(x):
    total = 0.0
    for k in range(1, 6):
        if total > 1.5:
            break
        if x < 0:
            continue
        total += x / k
    return total


def early(x):
    for k in range(4):
        if x * k > 1:
            return k * np.sqrt(x)
    return x


def recursive(x, depth=0):
    return x if x < 1 or depth == 5 else x * recursive(x - 1, depth + 1)


def caught(x):
    try:
        if x < 0:
            raise ValueError("negative")
        return np.sqrt(x + 1)
    except ValueError:
        return -x


def filtered(x):
    return sum(c for c in (x, x * x, 0.3) if c > 0.4) + (2.0 if any(c > 1 for c in (x, 2 * x)) else x)


def truthy(x):
    return x * x if x else 1.0


def member(x):
    return 5.0 * x if x in (1.0, 2.0) else x * x


def in_lists(x):
    cells, table = [x, 1.0], {"y": x}
    if x > 0:
        cells[1] = x * x
        table["y"] = cells[0] * 3.0
        cells.append(x)
    cells[0] = 2.0 * cells[1]
    return sum(cells) + table["y"]


FORMS = [
    steps, ternary, logic, chained, extremes, ordered, rounded, counted, broken, early, recursive, caught, filtered, truthy,
    member, in_lists,
]  # fmt: skip
POINTS = [0.0, 0.3, 0.5, 0.7, 1.0, 1.3, 2.0, 2.5, 3.2, 5.0, -0.3, -1.0, -1.7, np.nan, np.inf, -np.inf]


def points(f):
    return POINTS if f is not rounded else POINTS[:13]  # Python's round refuses NaN and infinities


def plainly(f, x):
    with np.errstate(all="ignore"):
        return np.float64(f(np.float64(x)))


def slope(f, x):
    """The derivative on the path taken, by the complex step."""
    found = f(Stepped(complex(x, STEP)))
    return getattr(found, "value", 0.0).imag / STEP if not isinstance(found, (int, float)) else 0.0


OPERATIONS = (extremes, ordered)  # max, min and sorted are operations, with equal shares at ties
SMOOTH = [f for f in FORMS if f not in (rounded, in_lists)]  # the Stepped numbers know neither round nor exp


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("f", FORMS, ids=lambda f: f.__name__)
def test_every_form_has_the_plain_functions_value(f, backend):
    compiled = Plain(f, backend=backend)
    assert ("paths merged" in str(compiled.graph(sd.Spec()))) == (f not in OPERATIONS)
    for x in points(f):
        np.testing.assert_allclose(compiled(x), plainly(f, x), rtol=1e-13, err_msg=f"at {x}")


@pytest.mark.parametrize("mode", ["merge", "guard"])
@pytest.mark.parametrize("f", SMOOTH, ids=lambda f: f.__name__)
def test_every_form_has_the_derivative_of_the_path_taken(f, mode):
    df = sd.grad(f, paths=mode)
    for x in POINTS[:13]:
        if f in OPERATIONS and x in (0.0, 0.5, 1.0):  # ties
            continue
        np.testing.assert_allclose(df(x), slope(f, x), rtol=1e-12, atol=1e-14, err_msg=f"at {x}")


def test_values_are_bit_for_bit_with_exact():
    for f in FORMS:
        exact = Plain(f, exact=True, backend="numpy")
        np.testing.assert_array_equal([exact(np.float64(x)) for x in points(f)], [plainly(f, x) for x in points(f)], f.__name__)


# -- merging


def counts(f, *args):
    program = program_of(sd.trace(f, *args, paths="merge"))
    return program.operations(), program.by_kind()


def test_the_gradient_of_six_ifs_is_that_by_hand():
    def f(x):
        total = 0.0
        for i in range(6):
            total = total + x[i] ** 2 if x[i] > i else total - x[i]
        return total

    assert program_of(sd.grad(f).graph(np.ones(6))).by_kind() == {"gt": 6, "mul": 6, "select": 6}


def test_six_ifs_are_six_selects():
    def f(x):
        s = 0.0
        for k in range(6):
            if x[k] > 0:
                s = s + x[k]
            else:
                s = s - x[k]
        return s

    operations, kinds = counts(f, np.ones(6))
    assert kinds["select"] <= 6 and operations <= 30
    compiled = Plain(f)
    for x in np.random.default_rng(0).standard_normal((20, 6)):
        assert compiled(x) == pytest.approx(f(x))


def test_conditions_may_depend_on_branched_values():
    def f(x):
        s = x
        for k in range(6):
            if s > 0.3 * k:
                s = s * 0.7
            else:
                s = s + 0.4
        return s

    operations, kinds = counts(f, 1.0)
    assert kinds["select"] == 6 and operations <= 24
    compiled = Plain(f)
    for x in np.linspace(-3, 3, 50):
        assert compiled(x) == pytest.approx(f(x))


def test_a_loop_with_exits_has_a_select_for_each():
    def newton(a):
        x = a
        for _ in range(6):
            dx = (x * x - a) / (2.0 * x)
            x = x - dx
            if abs(dx) < 1e-9:
                break
        return x

    assert counts(newton, 2.0)[1]["select"] == 5
    compiled = Plain(newton)
    for a in (1.0, 2.0, 4.0, 100.0):
        assert compiled(a) == pytest.approx(newton(a), rel=1e-15)


def test_equal_operations_are_done_once():
    def f(x, y):
        if x > y:
            u, v = y, x
        else:
            u, v = x, y
        return np.exp(u) * np.sin(v) + np.sqrt(v) / (1.0 + u * u)

    _, kinds = counts(f, 1.0, 2.0)
    assert kinds["select"] == 2
    assert all(kinds[name] == 1 for name in ("exp", "sin", "sqrt", "div"))


def test_exponents_are_not_selected():
    def f(x):
        n = 2 if x > 0 else 3
        return x**n

    assert "pow" not in counts(f, 1.0)[1]
    assert [sd.grad(f)(v) for v in (2.0, -2.0)] == [4.0, 12.0]


@pytest.mark.parametrize("seed", range(25))
def test_merging_costs_no_more_than_the_paths_with_their_shared_parts_once(seed, monkeypatch):
    seen = []

    def recorded(values, tree, original=paths.joined_paths):
        seen.append((values, tree, original(values, tree)))
        return seen[-1][2]

    monkeypatch.setattr(paths, "joined_paths", recorded)
    f, _ = branching_programs.program(seed)
    try:
        sd.trace(f, sd.Spec(), sd.Spec())
    except sd.TraceError as error:
        assert "more than 64 paths" in str(error) or "every path of the function raises" in str(error)
        return
    for values, tree, results in seen:
        ways = paths.leaves(tree)
        conditions = {c for way, _ in ways for c, _ in way}
        kept = {c for way, leaf in ways if leaf.error is not None for c, _ in way}  # of paths that raise
        ends = {r for _, leaf in ways for r in leaf.results or ()}

        def cost(numbers, values=values):
            cone = values.cone(list(numbers))
            return sum(values.nodes[n].op not in ("const", "input", "select") for n in cone)

        assert cost({*results} | kept) <= cost(ends | conditions)


@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (lambda x, y: 1 if (x < 1 and x < 2) or x > 3 else 2, 3),
        (lambda x, y: (1 if x > y else 2) if x > y else (3 if x > y else 4), 2),
        (lambda x, y: 1 if x > y and y < x else 2, 2),
        (lambda x, y: 1 if x > y and not (x <= y) else 2, 2),
        (lambda x, y: 1 if x == 2 and x > 1 else 2, 2),
        (lambda x, y: 1 if x > 2 and x > 1 and x != 0 and not x < 0.5 else 2, 2),
        (lambda x, y: 1 if x < y else 2 if x > y else 3 if x == y else 4, 4),  # the last is for NaN
        (lambda x, y: 1 if abs(x) < 0 else 2, 1),
    ],
)
def test_impossible_paths_are_left_out(f, expected):
    graph = sd.trace(lambda x, y: x * float(f(x, y)), sd.Spec(), sd.Spec())
    branches = graph.notes.get("branches")
    assert (branches.paths if branches else 1) == expected
    for x in (-1.0, 0.0, 0.4, 1.0, 1.5, 2.0, 2.5, 4.0, np.nan, np.inf):
        for y in (-1.0, 1.5, np.nan):
            np.testing.assert_equal(graph(x, y), x * float(f(x, y)))


@given(st.data())
@settings(max_examples=150)
def test_implications_hold_for_all_numbers(data):
    values = Values()
    builder = Builder()
    atoms = [Tracer(builder, builder.input(n, (), "d")) for n in "xy"]
    numbered = Numbered(values, builder)
    known = Conditions(values)
    point = data.draw(st.tuples(*[st.sampled_from([-1.0, 0.0, 0.5, 1.0, 2.0, np.nan, np.inf, -np.inf])] * 2))
    compare = {
        "lt": lambda a, b: a < b, "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
        "eq": lambda a, b: a == b, "ne": lambda a, b: a != b,
    }  # fmt: skip
    for _ in range(6):
        a, b = data.draw(st.sampled_from([(0, 1), (1, 0), (0, 0), (0, 0.5), (0, 1.0), (1, 0.5), (1, -1.0), (0, np.nan)]))
        test = compare[data.draw(st.sampled_from(sorted(compare)))]
        sides = [(atoms[i], point[i]) if type(i) is int else (i, i) for i in (a, b)]
        number = numbered.of(test(sides[0][0], sides[1][0]).atom)
        truth = bool(test(np.float64(sides[0][1]), np.float64(sides[1][1])))
        found = known.known(number)
        assert found in (None, truth)
        known.learn(number, truth)
        assert known.known(number) == truth


def test_results_of_different_kinds():
    assert [Plain(lambda x: 1 if x > 0 else 0.5)(v) for v in (1.0, -1.0)] == [1.0, 0.5]
    assert [Plain(lambda x: x if x > 0 else 1j * x)(v) for v in (1.0, -1.0)] == [1.0, -1j]
    for backend in BACKENDS:
        truth = Plain(lambda x: (x > 1 if x > 0 else x < -1, x), backend=backend)
        assert [bool(truth(v)[0]) for v in (2.0, 0.5, -0.5, -2.0)] == [True, False, False, True]
    single = Plain(lambda x: x * 2 if x > 0 else x + 1)
    assert single(np.float32(0.5)).dtype == single(np.float32(-0.5)).dtype == np.float32
    table = Plain(lambda p: {"u": p["a"] * p["b"], "v": p["b"]} if p["a"] > 0 else {"u": p["b"], "v": 1.0})
    assert table({"a": 2.0, "b": 3.0}) == {"u": 6.0, "v": 3.0}
    assert table({"a": -2.0, "b": 3.0}) == {"u": 3.0, "v": 1.0}


def test_a_branch_not_taken_does_not_leak():
    def root(x):
        return np.sqrt(x) if x > 0 else 0.0

    def entropy(x):
        return x * np.log(x) if x > 0 else 0.0 * x

    def sinc(x):
        return 1.0 if x == 0 else np.sin(x) / x

    for f, second in ((root, 0.0), (entropy, 0.0), (sinc, -1 / 3)):
        assert sd.derivative(f)(0.0) == 0.0
        assert sd.derivative(f, 2)(0.0) == pytest.approx(second)
    assert sd.grad(lambda x: x if x < 700 else np.exp(x))(-1e4) == 1.0


def test_whole_arrays():
    def f(x):
        if np.linalg.norm(x) < 2:
            return np.sum(x**2)
        if np.any(x > 3) and not np.all(x > 0):
            x = x * 2
        return np.sum(np.sin(x)) if x[0] > 0 else np.sum(x * x[1])

    rng = np.random.default_rng(0)
    for n, scalarize in ((3, None), (3, False), (300, None)):
        df = sd.value_and_grad(f, scalarize=scalarize)
        xs = rng.standard_normal((8, n)) * np.array([0.01, 0.4, 1, 3] * 2)[:, None]
        for x in xs:
            value, slopes = df(x)
            assert value == pytest.approx(f(x))
            step = 1e-6 * rng.standard_normal(n)
            assert slopes @ step == pytest.approx((f(x + step) - f(x - step)) / 2, rel=1e-4, abs=1e-10)
        values, slopes = sd.vmap(df)(xs)
        np.testing.assert_allclose(values, [f(x) for x in xs])
        np.testing.assert_allclose(slopes, [df(x)[1] for x in xs])


def test_arrays_assigned_in_one_branch():
    def f(x):
        y = np.zeros(3)
        if x[0] > x[1]:
            y[0] = x[0]
            y[1:] += x[1]
        else:
            y[1] = x[1] ** 2
        y[2] += 1
        return y

    for x in (np.array([2.0, 1.0]), np.array([1.0, 2.0]), np.array([1.0, 1.0])):
        np.testing.assert_array_equal(Plain(f)(x), f(x))
    np.testing.assert_array_equal(sd.jacobian(f)(np.array([1.0, 2.0])), [[0, 0], [0, 4], [0, 0]])
    np.testing.assert_array_equal(sd.jacobian(f)(np.array([2.0, 1.0])), [[1, 0], [0, 1], [0, 1]])


# -- exceptions


class Worse(ValueError):
    def __init__(self, size, text):
        super().__init__(f"{text} {size}")


def strict(x):
    if x < 0:
        raise ValueError(f"negative: {x}")
    if x > 100:
        raise Worse(3, "far")
    assert x != 50, "fifty"
    return np.sqrt(x)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_path_that_raises_raises_when_it_is_taken(backend):
    df = sd.grad(strict, backend=backend)
    for _ in range(2):
        assert df(4.0) == 0.25
        with pytest.raises(ValueError, match=r"negative: -1.0") as caught:
            df(-1.0)
        assert caught.traceback[-1].path.name == "test_branches.py"
        with pytest.raises(AssertionError, match="fifty"):
            df(50.0)
        with pytest.raises(Worse, match="far 3"):
            df(200.0)
    out = np.array(7.0)
    with pytest.raises(ValueError, match="negative"):
        df(-1.0, out=out)
    assert out == 7.0


def test_graphs_and_compiled_specialisations_raise_too():
    graph = sd.trace(strict, sd.Spec())
    assert "4 paths merged, 3 of them raising ValueError at test_branches.py:" in str(graph)
    assert graph(9.0) == 3.0
    with pytest.raises(AssertionError) as caught:
        graph(50.0)
    assert caught.value.__notes__[-1].startswith("raised at test_branches.py:")
    compiled = pickle.loads(pickle.dumps(sd.grad(strict).compile(4.0)))
    assert compiled(4.0) == 0.25
    with pytest.raises(RuntimeError, match="Worse: far 3"):
        compiled(101.0)  # a class that pickle cannot make again
    with pytest.raises(sd.BackendError, match="bare kernel"):
        _ = compiled.kernel


def test_points_that_raise():
    df = sd.vmap(sd.grad(strict))
    np.testing.assert_array_equal(df(np.array([1.0, 4.0])), [0.5, 0.25])
    with pytest.raises(ValueError, match=r"negative: -4.0") as caught:
        df(np.array([1.0, 4.0, -4.0, -5.0]))
    assert caught.value.__notes__ == ["at point 2"]
    with pytest.raises(AssertionError, match="fifty"):
        sd.derivative(strict)(np.array([1.0, 50.0]))


def test_every_path_raises():
    def f(x):
        if x > 0:
            raise ValueError(f"positive {x}")
        raise KeyError("other")

    with pytest.raises(ValueError, match=r"positive 2.0"):
        sd.grad(f)(2.0)
    with pytest.raises(KeyError):
        sd.grad(f)(-2.0)
    with pytest.raises(sd.TraceError, match="every path of the function raises"):
        sd.trace(f, sd.Spec())


def test_a_path_that_cannot_be_traced_is_refused_only_where_it_is_taken():
    def f(x):
        return x * x if x > 0 else float(f"{x:.3f}") * x

    assert sd.grad(f)(3.0) == 6.0
    for call in (lambda: sd.grad(f)(-3.0), lambda: sd.trace(f, sd.Spec()), lambda: sd.vmap(sd.grad(f))(np.ones(2))):
        with pytest.raises(sd.TraceError, match=r"test_branches.py:\d+: a text"):
            call()


# -- guarding


def root(a):
    x = 1.0 + a
    while abs(x * x - a) > 1e-12 * a:
        x = x - (x * x - a) / (2.0 * x)
    return x


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_loop_with_a_tolerance_is_never_stale(backend):
    df = sd.value_and_grad(root, backend=backend)
    for a in (2.0, 3.0, 1e6, 1e-3, 2.0, 7.0, 1e6):
        value, slope = df(a)
        assert value == pytest.approx(np.sqrt(a), rel=1e-12) and slope == pytest.approx(0.5 / np.sqrt(a), rel=1e-6)
    kept = next(iter(df._compiled.values())).kept
    assert 3 <= len(kept) <= 6  # a path for each number of rounds, found again


def long_on_both_ways(x):
    v = x
    for i in range(400):
        v = 0.6 * v + np.sin(v + i)
    if x >= 1.0:
        return {"a": [x * x + v], "b": (v, x)}
    return {"a": [v], "b": (2 * v, x)}


@pytest.mark.parametrize("argnums", [0, (0,)])
@pytest.mark.parametrize("part", [lambda found: found, lambda found: found["a"], lambda found: found["b"][0]])
def test_results_have_their_structure_on_every_path_at_every_call(part, argnums):
    def f(x):
        return part(long_on_both_ways(x))

    found = sd.jacobian(f, argnums=argnums, paths="guard")
    again = sd.jacobian(f, argnums=argnums)
    for x in (0.3, 0.5, 2.0, 0.2, 1.5, 3.0):
        assert optree.tree_structure(found(x)) == optree.tree_structure(again(x))
        for a, b in zip(optree.tree_leaves(found(x)), optree.tree_leaves(again(x)), strict=True):
            assert a == pytest.approx(b, rel=1e-9)


def test_kept_paths_are_bounded(monkeypatch):
    monkeypatch.setattr(branching, "KEPT_PATHS", 3)
    df = sd.grad(lambda x: next(x * k for k in range(1, 20) if x < k), paths="guard")
    assert [df(k + 0.5) for k in (*range(10), 0, 9, 5)] == [*range(1, 11), 1, 10, 6]
    assert len(next(iter(df._compiled.values())).kept) == 3


def test_guarding_is_seen():
    graph = sd.grad(root).graph(2.0)
    assert "1 path, kept with its" in str(graph)
    assert "1 path, kept with its" in str(sd.cost(root, 2.0))
    assert "3 paths merged" in str(sd.cost(steps, 2.0))
    assert graph(2.0) == pytest.approx(0.5 / np.sqrt(2.0))
    with pytest.raises(sd.TraceError, match="other arguments"):
        graph(1e6)
    compiled = sd.grad(root).compile(2.0)
    with pytest.raises(sd.TraceError, match="other arguments"):
        compiled(1e6)


def halved(a):
    return a if a < 1e-9 else a * halved(0.5 * a)


@pytest.mark.parametrize(
    "ask",
    [
        lambda: sd.trace(halved, sd.Spec()),
        lambda: sd.vmap(sd.grad(halved), paths="merge")(np.ones(3)),
        lambda: sd.vmap(sd.grad(halved, paths="merge"))(np.ones(3)),
        lambda: sd.vmap(sd.grad(halved)).source(np.ones(3)),
        lambda: sd.grad(halved).source(2.0),
        lambda: sd.grad(halved, paths="merge")(2.0),
        lambda: sd.derivative(halved, paths="merge")(np.ones(3)),
        lambda: sd.grad(halved).graph(sd.Spec()),
    ],
)
def test_what_needs_all_paths_says_so(ask):
    with pytest.raises(sd.TraceError, match=r"test_branches.py:\d+: .*more than 64 paths.*np.where, bound the loop"):
        ask()


def test_a_loop_that_counts_its_rounds_is_one_path_for_what_needs_all():
    points = np.array([1.0, 2.0, 3.0])
    for found in (
        sd.vmap(sd.grad(root), paths="merge")(points),
        sd.derivative(root, paths="merge")(points),
        [sd.grad(root, paths="merge")(a) for a in points],
        [sd.grad(root).graph(sd.Spec())(a) for a in points],
    ):
        np.testing.assert_allclose(found, 0.5 / np.sqrt(points), rtol=1e-9)
    for target in ("numpy", "python", "c"):
        assert "while" in sd.grad(root).source(2.0, target=target)


def test_paths_takes_three_values():
    with pytest.raises(ValueError, match="paths='both'"):
        sd.grad(steps, paths="both")
    with pytest.raises(ValueError, match="paths='both'"):
        sd.trace(steps, 1.0, paths="both")
    with pytest.raises(sd.TraceError, match="values are not known"):
        sd.trace(steps, sd.Spec(), paths="guard")


def test_endless_paths():
    def f(x):
        while x > 0:
            pass
        return x * x

    assert sd.grad(f)(-1.0) == -2.0
    with pytest.raises(sd.TraceError, match="may not end"):
        sd.trace(f, sd.Spec())


def test_random_conditions_are_noticed():
    state = iter(range(1000))
    with pytest.raises(sd.TraceError, match="asked for another condition"):
        sd.grad(lambda x: x if x > next(state) else -x)(0.5)
    rng = np.random.default_rng(0)
    with pytest.raises(sd.TraceError, match="draws a random number"):
        sd.grad(lambda x: x if x > rng.random() else -x)(0.5)


def test_structures_that_differ_are_guarded():
    df = sd.jacobian(lambda x: (x, 2.0 * x) if x > 0 else x)
    assert df(1.0) == (1.0, 2.0) and df(-1.0) == 1.0
    with pytest.raises(sd.TraceError, match="different structures"):
        sd.trace(lambda x: (x, x) if x > 0 else x, sd.Spec())


def test_many_threads_over_guarded_paths():
    df = sd.grad(root)
    found = {}

    def work(k):
        found[k] = [df(10.0 ** ((k + j) % 7 - 3)) for j in range(20)]

    together(work, range(6))
    for k, values in found.items():
        np.testing.assert_allclose(values, [0.5 / np.sqrt(10.0 ** ((k + j) % 7 - 3)) for j in range(20)], rtol=1e-6)


# -- nesting


def test_transforms_nest():
    for x in (2.0, 0.5):
        expected = 6 * x if x <= 1 else 2.0
        assert sd.grad(sd.grad(steps))(x) == sd.hessian(steps)(x) == sd.hvp(steps)(x, 1.0) == expected
    np.testing.assert_array_equal(sd.vmap(sd.grad(sd.grad(steps)))(np.array([2.0, 0.5, -3.0])), [2.0, 3.0, 0.0])
    assert sd.grad(lambda y: sd.grad(root)(y) * y)(2.0) == pytest.approx(0.25 / np.sqrt(2))
    assert sd.jvp(steps)(2.0, 3.0) == (4.0, 12.0)


def test_inner_conditions_on_outer_values():
    def f(x, y):
        def inner(t):
            if y > 0:
                return t * t * y
            return t if t > x else t**3

        return sd.grad(inner)(2.0 * x) + (sd.grad(inner)(x) if x > 0 else 0.0)

    assert sd.grad(f, (0, 1))(1.0, 2.0) == (12.0, 6.0)
    assert sd.grad(f, (0, 1))(1.0, -2.0) == (6.0, 0.0)
    assert sd.grad(f, (0, 1))(-1.0, -2.0) == (-24.0, 0.0)


def test_inner_paths_capture_different_outer_values():
    def f(x, y, z):
        return sd.grad(lambda t: t * y if t > 0 else t * z * z)(x)

    assert sd.grad(f, (0, 1, 2))(1.0, 2.0, 3.0) == (0.0, 1.0, 0.0)
    assert sd.grad(f, (0, 1, 2))(-1.0, 2.0, 3.0) == (0.0, 0.0, 6.0)


def test_inner_exceptions_are_paths_of_the_outer_function():
    df = sd.grad(lambda y: sd.grad(strict)(y) * y)
    assert df(4.0) == 0.125
    with pytest.raises(ValueError, match=r"negative: -4.0"):
        df(-4.0)
    over = sd.grad(lambda x: np.sum(sd.vmap(sd.grad(strict))(x)))
    np.testing.assert_allclose(over(np.array([1.0, 4.0])), [-0.25, -0.03125])
    with pytest.raises(ValueError, match=r"negative: -4.0"):
        over(np.array([1.0, -4.0]))


def test_functions_with_a_rule_may_branch():
    def logistic(x):
        if x > 0:
            return 1.0 / (1.0 + np.exp(-x))
        e = np.exp(x)
        return e / (1.0 + e)

    @sd.diffrule(logistic)
    def _(out, x):
        return out * (1 - out)

    def f(x):
        return 2.0 * logistic(x)

    found = sd.vmap(sd.value_and_grad(f))(np.array([0.0, 800.0, -800.0]))
    np.testing.assert_allclose(found, [[1.0, 2.0, 0.0], [0.5, 0.0, 0.0]])


# -- what the runs leave behind


class Counter:
    def __init__(self):
        self.scale = 1.0
        self.calls = [0]

    def __call__(self, x):
        self.scale = self.scale * 2.0
        self.calls.append(1)
        if x > 0:
            self.scale = 3.0 * x
        if x > 2:
            self.calls.append(self.scale)
        return self.scale * len(self.calls) * x


def test_what_the_function_changes_outside_is_put_back():
    counter = Counter()
    assert [sd.grad(counter)(v) for v in (1.0, 3.0, -1.0)] == [12.0, 54.0, 4.0]
    assert counter.scale == 1.0 and counter.calls == [0]
    cache, log = {}, []

    def f(x):
        if "square" not in cache:
            cache["square"] = x * x
        if x > 1:
            log.append(x)
            raise ValueError("late")
        return cache["square"] * x if x > 0 else cache["square"]

    df = sd.grad(f)
    assert df(0.5) == 0.75 and df(-0.5) == -1.0
    assert cache == {} and log == []


def test_what_a_function_without_branches_changes_is_put_back(monkeypatch):
    class Model:
        def __init__(self):
            self.calls, self.last, self.history = 0, None, []

        def energy(self, x):
            self.calls += 1
            self.last = x * x
            self.history.append(self.last)
            return self.last * x

    model = Model()
    df = sd.grad(model.energy)
    assert df(2.0) == 12.0
    monkeypatch.setattr(Function, "_traced_at", lambda *args, **kwargs: 1 / 0)
    assert df(3.0) == 27.0  # not traced anew because of the counter
    assert (model.calls, model.last, model.history) == (0, None, [])


def test_arguments_are_left_alone():
    def f(p):
        if p["x"][0] > 0:
            p["x"].append(p["x"][0] * 2)
        p["y"] = p["x"][-1] * 3
        return p["y"]

    given_ = {"x": [2.0, 1.0]}
    df = sd.grad(f)
    assert df(given_) == {"x": [6.0, 0.0]} and df({"x": [-2.0, 1.0]}) == {"x": [0.0, 3.0]}
    assert given_ == {"x": [2.0, 1.0]}


# -- files


def run_alone(text, call, tmp_path):
    path = tmp_path / "made.py"
    path.write_text(text + f"\n\nprint({call})\n")
    code = f"import sys; sys.modules['symdiff'] = None; exec(open({str(path)!r}).read())"
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=False)


@pytest.mark.parametrize("target", ["numpy", "python"])
def test_files_branch_and_raise_alone(target, tmp_path):
    with pytest.raises(sd.ExportError, match="Worse"):
        sd.grad(strict).source(4.0, target=target)

    def careful(x, y):
        if x < 0:
            raise ValueError(f"negative: {x}")
        if not y > x:
            raise AssertionError("not above")  # an `assert` has another message under pytest
        return np.sqrt(x) if x > 1 else x * y

    text = sd.value_and_grad(careful).source(4.0, 5.0, target=target)
    for x, y in ((4.0, 5.0), (0.5, 2.0)):
        done = run_alone(text, f"[float(v) for v in careful_value_and_grad({x}, {y})]", tmp_path)
        assert done.stdout.strip() == str([float(v) for v in sd.value_and_grad(careful)(x, y)]), done.stderr
    assert run_alone(text, "careful_value_and_grad(-1.0, 2.0)", tmp_path).stderr.endswith("ValueError: negative: -1.0\n")
    assert run_alone(text, "careful_value_and_grad(1.0, 0.0)", tmp_path).stderr.endswith("AssertionError: not above\n")


def test_files_over_points_raise(tmp_path):
    def careful(x):
        assert np.all(x < 5), "big"
        return np.sum(x * x) if x[0] > x[1] else np.sum(np.sin(x))

    for n in (3, 400):
        text = sd.vmap(sd.grad(careful)).source(np.ones((2, n)))
        call = f"careful_grad(np.stack([np.ones({n}), np.arange({n}, 0, -1) / {n}])).sum()"
        points = np.stack([np.ones(n), np.arange(n, 0, -1) / n])
        assert float(run_alone(text, call, tmp_path).stdout) == pytest.approx(sd.vmap(sd.grad(careful))(points).sum())
        assert "AssertionError: big" in run_alone(text, f"careful_grad(np.full((2, {n}), 9.0))", tmp_path).stderr


def test_c_has_branches_and_devices_have_no_exceptions():
    assert "?" in sd.grad(steps).source(1.0, target="c")
    for target in ("cuda", "cupy"):
        with pytest.raises(sd.ExportError, match="has no exceptions"):
            sd.grad(strict).source(1.0, target=target)


# -- random programs


@given(st.integers(0, 10**6))
@settings(max_examples=30)
def test_random_programs(seed):
    branching_programs.compare(seed, 4)


# -- places in tables


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("edges", [np.array([-1.0, 0.0, 0.0, 2.5]), np.array([3.0, 1.0, -1.0])])
def test_places_in_tables_are_numpys(edges, right):
    def place(x):
        rising = np.sort(edges)
        return x * (1.0 * np.digitize(x, edges, right) + 10.0 * np.searchsorted(rising, x, "right" if right else "left"))

    graph = sd.trace(place, 1.0)
    for x in (-2.0, -1.0, 0.0, 1.0, 2.5, 3.0, 9.0, np.inf):
        assert graph(x) == place(x)
    assert np.searchsorted(edges[:1], np.nan) == sd.trace(lambda x: 1.0 * np.searchsorted(edges[:1], x) + 0.0 * (x > 0), 1.0)(
        np.nan
    )


def test_a_spline_on_data_has_a_derivative():
    knots = np.linspace(0.0, 5.0, 11)
    values, slopes = np.sin(knots), np.cos(knots)

    def spline(x):
        i = np.clip(np.searchsorted(knots, x) - 1, 0, len(knots) - 2)
        h = knots[i + 1] - knots[i]
        t = (x - knots[i]) / h
        ends = (1 + 2 * t) * (1 - t) ** 2 * values[i] + t * t * (3 - 2 * t) * values[i + 1]
        return ends + h * t * (1 - t) * ((1 - t) * slopes[i] - t * slopes[i + 1])

    x = np.array([-0.1, 0.7, 2.3, 4.9, 5.2])
    differences = (spline(x + 1e-6) - spline(x - 1e-6)) / 2e-6
    np.testing.assert_allclose(sd.vmap(sd.grad(spline))(x), differences, rtol=1e-8)
    np.testing.assert_allclose(sd.grad(lambda x: np.sum(spline(x)))(x), differences, rtol=1e-8)
    with pytest.raises(sd.TraceError, match="sorter"):
        sd.grad(lambda x: values[np.searchsorted(knots, x, sorter=np.arange(11))] * x)(1.0)


@pytest.mark.parametrize("count", [5, 8, 12, 40])
def test_conditions_in_a_loop_are_one_trace_however_many_there_are(count):
    def f(x):
        t = 0.0
        for k in range(len(x)):
            if x[k] > 0:
                t += x[k] ** 2 * np.sin(t)
            else:
                t -= 0.5 * x[k]
        return t

    rng = np.random.default_rng(count)
    graph = sd.value_and_grad(f).graph(rng.normal(size=count))
    for x in rng.normal(size=(5, count)):
        value, slope = graph(x)
        d = rng.normal(size=count)
        assert value == pytest.approx(f(x), rel=1e-12)
        assert slope @ d == pytest.approx((f(x + 1e-7 * d) - f(x - 1e-7 * d)) / 2e-7, rel=1e-5, abs=1e-6)


def spanned(x):
    above = [0, 1, 2, 3]

    def top(k):
        while above[k] != k:
            k = above[k]
        return k

    total = 0.0
    for w, i, j in sorted((x[p] * x[q], p, q) for p in range(4) for q in range(p)):
        a, b = top(i), top(j)
        if a != b:
            above[a] = b
            total += w
    return total


def test_too_many_paths_are_not_traced_again_for_the_sake_of_loops(monkeypatch):
    """Kept loops do not make fewer of them, as the first one shows."""
    made, begin = [], paths.Path.__init__
    monkeypatch.setattr(paths.Path, "__init__", lambda self, *args, **kwargs: made.append(1) or begin(self, *args, **kwargs))
    x = np.array([0.3, 0.1, 0.5, 0.7])
    assert sd.grad(spanned)(x) == pytest.approx([0.1, 1.5, 0.1, 0.1], rel=1e-12)
    assert len(made) < 200


def many_ways_before_much(x):
    a = 0.0
    for k in range(12):
        a += x[k] if x[k] > 0.1 * k else 0.5
    for k in range(600):
        a = np.sin(a) + x[k % 12] * (3.0 if k % 7 else np.cos(a))
    return a


def test_paths_that_promise_too_much_are_given_up_early(monkeypatch):
    """What comes behind the conditions counts, too: the first path tells how long another one is."""
    made, begin = [], paths.Path.__init__
    monkeypatch.setattr(paths.Path, "__init__", lambda self, *args, **kwargs: made.append(1) or begin(self, *args, **kwargs))
    x = np.linspace(0.9, 0.2, 12)
    derivative = sd.grad(many_ways_before_much, loops="unroll")(x)
    wanted = [(many_ways_before_much_complex(x + 1e-20j * e) / 1e-20).imag for e in np.eye(12)]
    np.testing.assert_allclose(derivative, wanted, rtol=1e-9)
    assert len(made) < 20


def many_ways_before_much_complex(z):
    """The same on the path of the real parts."""
    a = sum(c if c.real > 0.1 * k else 0.5 for k, c in enumerate(z))
    for k in range(600):
        a = np.sin(a) + z[k % 12] * (3.0 if k % 7 else np.cos(a))
    return a


def long_sum(x):
    s = 0.0
    for k in range(1000):
        s = np.sin(s + k * x)
    return s


class Ended(BaseException):
    """What is no `Exception`."""


@pytest.mark.parametrize("kind", [TimeoutError, ValueError, Ended])
@pytest.mark.parametrize("place", [1, 2, 3])
def test_what_the_handler_of_a_signal_raises_is_not_the_functions(monkeypatch, kind, place):
    """Not a condition of a path either, and no reason not to keep a loop."""
    made, begin = [], paths.Path.__init__

    def counted(self, *args, **kwargs):
        made.append(1)
        if len(made) == place:
            signal.raise_signal(signal.SIGTERM)
        begin(self, *args, **kwargs)

    def ended(number, frame):
        raise kind("too long")

    monkeypatch.setattr(paths.Path, "__init__", counted)
    before = signal.signal(signal.SIGTERM, ended)
    try:
        with pytest.raises(kind, match="too long"):
            sd.grad(long_sum)(0.3)
        assert sd.grad(long_sum)(0.3) == pytest.approx((long_sum(0.3 + 1e-20j) / 1e-20).imag, rel=1e-9)
    finally:
        signal.signal(signal.SIGTERM, before)


def placed(x):
    found = np.array([x[0], 0.5 * x[1]])
    np.place(found, found > 0.2, [np.array([x[0] * x[0], x[0] * x[1], x[1] * x[1]]).max(), 0.5])
    return np.sum(found * np.array([1.0, 0.5]))


@pytest.mark.parametrize("backend", ["python", "numpy", "auto"])
@pytest.mark.parametrize("transform", [sd.grad, sd.value_and_grad, sd.hessian])
def test_arrays_that_stay_whole_decline_another_path(backend, transform):
    """On the last of them none of the paths before."""
    asked = transform(placed, backend=backend, scalarize=False)
    for x in ([-0.407, 1.048], [-0.89, 1.12], [0.344, 1.133], [0.344, 0.1], [0.1, 0.1]):
        found, fresh = asked(np.array(x)), transform(placed, paths="guard")(np.array(x))
        for a, b in zip(found, fresh, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)
