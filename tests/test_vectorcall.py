"""The public object as a class of its own: calls go to machine code, everything else is Python's."""

import copy
import gc
import pickle
import sys
import weakref

import numpy as np
import pytest
from inside import direct_vectorcall, structures, with_vectorcall, without_vectorcall
from threads import together

import symdiff as sd


def cubic(x):
    return x[0] ** 3 * x[1] + x[1] * x[1]


def expected(x):
    return np.array([3 * x[0] ** 2 * x[1], x[0] ** 3 + 2 * x[1]])


x = np.array([2.0, 3.0])


class Adding:
    """Calls add one."""

    def __init__(self, start=0):
        self.start = start

    def __call__(self, value):
        return self.start + value + 1


def test_a_class_keeps_its_name_and_its_methods():
    made = with_vectorcall(Adding)
    assert issubclass(made, Adding) and without_vectorcall(made) is Adding and without_vectorcall(Adding) is Adding
    assert made.__name__ == "Adding" and made.__module__ == __name__ and made.__doc__ == "Calls add one."
    assert with_vectorcall(made) is made and with_vectorcall(Adding) is made
    assert made(4)(5) == 10


def test_objects_of_other_classes_take_no_machine_code():
    assert not direct_vectorcall(Adding(), 0)


def test_instances_are_collected_also_in_cycles():
    made = with_vectorcall(Adding)
    one = made(1)
    one.itself = one
    seen = weakref.ref(one)
    del one
    gc.collect()
    assert seen() is None


def test_a_derivative_is_an_object_like_any_other():
    gradient = sd.grad(cubic)
    gradient(x)
    np.testing.assert_allclose(gradient(x), expected(x))
    gradient.remark = "kept"
    assert gradient.remark == "kept" and type(gradient).__name__ == "Gradient"
    assert weakref.ref(gradient)() is gradient
    assert isinstance(gradient, without_vectorcall(type(gradient)))
    for other in (copy.copy(gradient), copy.deepcopy(gradient), pickle.loads(pickle.dumps(gradient))):
        assert type(other) is type(gradient)
        np.testing.assert_allclose(other(x), expected(x))


def test_specialisations_take_turns():
    gradient = sd.grad(lambda v: np.sum(v * v * v))
    for _ in range(3):
        for n in (1, 2, 3):
            values = np.arange(1.0, n + 1)
            np.testing.assert_allclose(gradient(values), 3 * values**2)
            np.testing.assert_allclose(gradient(values, out=np.empty(n)), 3 * values**2)


def test_arguments_by_name_and_as_collections():
    gradient = sd.grad(lambda v, w=2.0: w * v[0] * v[1])
    assert gradient(x).tolist() == gradient(*[x], **{"w": 2.0}).tolist() == [6.0, 4.0]
    with pytest.raises(sd.SymdiffError):
        gradient()
    with pytest.raises(sd.SymdiffError):
        gradient(x, wrong=1)


def test_references_are_counted_right():
    gradient = sd.value_and_grad(cubic)
    gradient(x)
    outs = (np.empty(()), np.empty(2))
    gc.collect()
    before = [sys.getrefcount(o) for o in (gradient, x, outs, *outs, float)]
    for _ in range(100):
        gradient(x)
        gradient(x, out=outs)
        gradient(x.tolist())  # the long way
    gc.collect()
    assert [sys.getrefcount(o) for o in (gradient, x, outs, *outs, float)] == before


def test_a_dropped_derivative_leaves_no_code_behind():
    gradient = sd.grad(cubic, backend="auto")
    gradient(x)
    machines = [weakref.ref(m) for m in gradient._machines]
    del gradient
    gc.collect()
    assert all(m() is None for m in machines)


def test_threads_that_specialise_while_others_call():
    gradient = sd.grad(lambda v: np.sum(v * v))
    wrong = []

    def hammer(n):
        values = np.arange(1.0, n + 1)
        for _ in range(300):
            if not np.array_equal(gradient(values), 2 * values):
                wrong.append(n)

    together(hammer, range(1, 9))
    assert not wrong


@pytest.mark.parametrize("wrt", [0, (0,), (0, 1), (1, 0)])
@pytest.mark.parametrize("transform", [sd.grad, sd.value_and_grad, sd.jacobian, sd.hessian])
def test_results_in_nested_tuples(transform, wrt):
    def f(v, w):
        return np.sum(v * v * w)

    v, w = np.arange(1.0, 4.0), np.arange(2.0, 5.0)
    made, plain = (transform(f, wrt, backend=b) for b in ("auto", "numpy"))
    expected = plain(v, w)
    assert structures.structure(made(v, w)) == structures.structure(made(v, w)) == structures.structure(expected)
    out = structures.map_leaves(lambda leaf: np.full(np.shape(leaf), np.nan), expected)
    for _ in range(2):
        assert made(v, w, out=out) is out
        for a, b, c in zip(*map(structures.leaves, (made(v, w), out, expected)), strict=True):
            np.testing.assert_allclose(a, c)
            np.testing.assert_allclose(b, c)
    with pytest.raises(sd.SymdiffError):
        made(v, w, out=(out, None))


def entered(f, *args):
    """The functions of Python's that a call enters."""
    names = []
    sys.setprofile(lambda frame, event, arg: names.append(frame.f_code.co_name) if event == "call" else None)
    try:
        f(*args)
    finally:
        sys.setprofile(None)
    return names


def results_in_lists(v):
    return [v[0] * v[1], [np.sin(v)], (v[1],)]


def results_by_names(v):
    return {"second": v[1] ** 2, "first": [v, {"inner": v[0]}]}


@pytest.mark.parametrize("f", [results_in_lists, results_by_names])
@pytest.mark.parametrize("transform", [sd.jacobian, lambda f: sd.trace(f, x)])
def test_machine_code_makes_lists_and_dictionaries(f, transform):
    pytest.importorskip("llvmlite")
    g = transform(f)
    first, last = [g(x) for _ in range(3)][::2]
    if not isinstance(g, sd.Graph):
        assert entered(g, x) == []
    assert repr(first) == repr(last) and type(last) is type(f(x))
    assert not isinstance(last, dict) or [*last] == ["second", "first"]
    objects = sys.getrefcount(last)
    assert objects == 2


def test_results_in_structures_are_written_into_theirs():
    g = sd.jacobian(results_by_names)
    expected = g(x)
    out = structures.map_leaves(np.zeros_like, expected)
    assert g(x, out=out) is out
    assert repr(structures.map_leaves(np.asarray, out)) == repr(structures.map_leaves(np.asarray, expected))
    with pytest.raises(sd.SymdiffError):
        g(x, out={"first": out["first"]})


def test_nothing_is_left_of_results_in_structures():
    g = sd.jacobian(results_by_names)
    g(x), g(x)
    before = sys.getallocatedblocks()
    for _ in range(1000):
        g(x)
    assert sys.getallocatedblocks() - before < 100


def test_slots_are_looked_at_by_machine_code():
    pytest.importorskip("llvmlite")

    class Model:
        __slots__ = ("factor", "shift")

    model = Model()
    model.factor = 2.0
    g = sd.grad(lambda v: model.factor * v[0] + (model.shift * v[1] if hasattr(model, "shift") else 0))
    assert np.array_equal(g(x), [2.0, 0.0]) and np.array_equal(g(x), [2.0, 0.0])
    assert entered(g, x) == []
    model.factor = 3.0
    assert np.array_equal(g(x), [3.0, 0.0])
    model.shift = 4.0
    assert np.array_equal(g(x), [3.0, 4.0]) and np.array_equal(g(x), [3.0, 4.0])
    assert entered(g, x) == []
    del model.shift
    assert np.array_equal(g(x), [3.0, 0.0])


def repeated(x, n, c=2):
    for _ in range(n):
        x = c * x * x - 1
    return x


def by_hand(x, n, c=2):
    d = 1.0
    for _ in range(n):
        x, d = c * x * x - 1, 2 * c * x * d
    return d


def test_machine_code_looks_at_whole_numbers_that_are_no_inputs():
    pytest.importorskip("llvmlite")
    df = sd.grad(repeated)
    for n in (5, 5, 7, 7, 5):
        assert df(0.3, n) == pytest.approx(by_hand(0.3, n), rel=1e-12)
    assert entered(df, 0.1, 7) == []  # what was compiled last
    assert df(0.1, 7) == pytest.approx(by_hand(0.1, 7), rel=1e-12)
    assert df(0.1, 5) == pytest.approx(by_hand(0.1, 5), rel=1e-12)
    assert df(0.1, 7, 3) == pytest.approx(by_hand(0.1, 7, 3), rel=1e-12)
    assert df(0.1, n=7) == pytest.approx(by_hand(0.1, 7), rel=1e-12)
    assert df(0.1, c=3, n=7) == pytest.approx(by_hand(0.1, 7, 3), rel=1e-12)
    out = np.empty(())
    assert df(0.1, 7, out=out) is out
    assert out == pytest.approx(by_hand(0.1, 7), rel=1e-12)
    for wrong in ((), (0.1,), (0.1, 7, 3, 4), (0.1, None), ("a", 7)):
        with pytest.raises((sd.SymdiffError, TypeError)):
            df(*wrong)
    assert df(np.float32(0.5), 7).dtype == np.float32


def test_whole_numbers_that_count_as_numbers_go_to_machine_code():
    pytest.importorskip("llvmlite")
    df = sd.grad(lambda x, y: x * x * y)
    for y in (5, 5.0, 10**30, True, np.int64(3), 5):
        assert df(0.5, y) == pytest.approx(float(y), rel=1e-12)
    df = sd.grad(lambda x, y: x * x * y)
    df(0.5, 5)
    assert df(0.25, 5) == 2.5 and entered(df, 0.25, 5) == []
    assert df(0.25, 6) == 3.0


def test_numbers_that_all_points_share_go_to_machine_code():
    pytest.importorskip("llvmlite")
    x, v = np.linspace(0.1, 1.0, 5), np.linspace(0.1, 1.0, 15).reshape(5, 3)
    df = sd.vmap(sd.grad(lambda x, a: a * x**2), in_axes=(0, None))
    np.testing.assert_allclose([df(x, 3.0), df(x, 3.0)], [6 * x, 6 * x], 1e-15)
    assert entered(df, x, 3.0) == []
    for a in (2.0, np.float64(0.5), np.float32(0.5), 3, True, np.array(1.5), 4.0):
        np.testing.assert_allclose(df(x, a), 2 * float(a) * x, 1e-15)
    dg = sd.vmap(sd.value_and_grad(lambda v, a: a.real * np.sum(v**2) + a.imag), in_axes=(0, None))
    for a in (2 + 3j, 4 + 5j, 4 + 5j):
        value, slope = dg(v, a)
        np.testing.assert_allclose(value, a.real * np.sum(v**2, 1) + a.imag, 1e-15)
        np.testing.assert_allclose(slope, 2 * a.real * v, 1e-15)
    assert entered(dg, v, 2 + 3j) == []
    dg(v, 2 + 3j, out=(value, v))  # an output that is an argument
    np.testing.assert_allclose(v, 4 * np.linspace(0.1, 1.0, 15).reshape(5, 3), 1e-15)


def test_captured_values_are_looked_at_beside_fixed_arguments():
    pytest.importorskip("llvmlite")
    scale = [2.0]

    def f(x, n):
        return scale[0] * x**n

    df = sd.grad(f)
    assert df(2.0, 3) == df(2.0, 3) == 24.0
    assert df(3.0, 3) == 54.0 and entered(df, 3.0, 3) == []
    scale[0] = 1.0
    assert df(2.0, 3) == 12.0
    large = np.arange(1000.0)
    dg = sd.grad(lambda x, n: np.sum(large * x**n))
    assert dg(1.0, 2) == dg(1.0, 2) == 2 * large.sum()
    large[0] = 10.0
    assert dg(1.0, 2) == 2 * large.sum()


def test_fixed_arguments_are_not_kept_longer_than_their_code():
    class Setting(str):
        pass

    setting = Setting("cube")
    df = sd.grad(lambda x, how: x**3 if how == "cube" else x)
    assert df(2.0, setting) == df(2.0, setting) == 12.0
    seen = weakref.ref(setting)
    del setting, df
    gc.collect()
    assert seen() is None


def layer(p, X):
    return scale * np.sum(np.tanh(X @ p["W"] + shift))


scale, shift = 2.0, np.linspace(0.0, 1.0, 30)


@pytest.mark.parametrize("structured", [False, True])
def test_calls_of_whole_arrays_enter_the_generated_code_and_see_what_has_changed(structured, monkeypatch):
    pytest.importorskip("llvmlite")
    rng = np.random.default_rng(4)
    W, X = rng.normal(size=(30, 30)), rng.normal(size=(40, 30))
    f = layer if structured else lambda W, X: layer({"W": W}, X)
    g = sd.grad(f)
    p = {"W": W} if structured else W
    plain = sd.grad(f, backend="numpy")

    def same(found, wanted):
        return all(np.allclose(a, b) for a, b in zip(structures.leaves(found), structures.leaves(wanted), strict=True))

    assert [same(g(p, X), plain(p, X)) for _ in range(3)] == [True] * 3
    assert not {"refresh", "changed", "_long_way"} & {*entered(g, p, X)}
    monkeypatch.setitem(globals(), "scale", 3.0)
    assert same(g(p, X), plain(p, X)) and same(g(p, X), plain(p, X))
    shift[0] += 1.0
    assert same(g(p, X), plain(p, X))
    monkeypatch.setitem(globals(), "shift", 2 * shift)
    assert same(g(p, X), plain(p, X))
    assert same(g(p, X=X), plain(p, X)) and same(g(p, X[::-1]), plain(p, X[::-1]))
    with pytest.raises(sd.SymdiffError):
        g(p, X[:, 1:])


@pytest.mark.parametrize("order", ["strided", "fortran"])
@pytest.mark.parametrize("size", [4, 40])
def test_arrays_whose_cells_lie_apart_or_in_columns_take_a_short_way(order, size):
    pytest.importorskip("llvmlite")
    rng = np.random.default_rng(5)
    plain = rng.normal(size=(size, size)), rng.normal(size=size)
    wide = np.repeat(np.repeat(plain[0], 2, 0), 2, 1)[::2, ::2], np.repeat(plain[1], 2)[::2]
    given = wide if order == "strided" else (np.asfortranarray(plain[0]), plain[1])
    g = sd.grad(lambda A, x: np.sum(np.tanh(A @ x)) + A.reshape(-1, order="A")[1], (0, 1))
    for args in (given, given, plain, given, given):
        A, x = args
        slope = (1 - np.tanh(A @ x) ** 2)[:, None] * x
        slope[(1, 0) if A.flags.f_contiguous else (0, 1)] += 1.0
        found = g(*args)
        np.testing.assert_allclose(found[0], slope, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found[1], A.T @ (1 - np.tanh(A @ x) ** 2), rtol=1e-9, atol=1e-12)
    assert not {"_call", "attempt"} & {*entered(g, *given)}
