"""What arguments, options and rules mean: nothing given is taken for something else, and nothing goes on for ever."""

import functools
import pickle

import numpy as np
import pytest
from inside import Plain as Function

import symdiff as sd

X, W, V = np.arange(3.0), np.full(3, 10.0), np.ones(3)


def by_leaf(value):
    return value if isinstance(value, tuple) else (value,)


def weighted(x, w=None):
    return np.sum(x**3) if w is None else np.sum(w * x**3)


# -- arrays given by position are arguments


@pytest.mark.parametrize("kind", ["grad", "value_and_grad", "hvp", "jvp", "hessian"])
@pytest.mark.parametrize("options", [{}, {"backend": "numpy"}, {"frozen": True}], ids=str)
def test_an_array_more_is_an_argument(kind, options):
    more = (V,) if kind in ("hvp", "jvp") else ()
    g, w = getattr(sd, kind)(weighted, **options), W.copy()
    g(X, *more)
    found = g(X, w, *more)
    np.testing.assert_array_equal(w, W)
    for a, b in zip(by_leaf(found), by_leaf(getattr(sd, kind)(weighted)(X, W, *more)), strict=True):
        np.testing.assert_array_equal(a, b)
    with pytest.raises(sd.ArgumentError, match="positional"):
        g(X, w, *more, w)
    np.testing.assert_array_equal(w, W)


def test_captured_arrays_and_surplus_ones():
    large = np.arange(100.0)

    def f(x, w=None):
        return np.sum(large * x * x) if w is None else np.sum(large * w * x * x)

    g, x, w = sd.grad(f), np.ones(100), np.full(100, 2.0)
    g(x)
    np.testing.assert_array_equal(g(x, w), 4 * large)
    assert np.all(w == 2.0)


def test_arguments_by_name_do_not_tell_where_they_stand():
    def f(x, b, a):
        return x * b + x * x * a

    def named(x, *, a, b):
        return f(x, b, a)

    g, h = sd.grad(f), sd.grad(named)
    assert g(1.0, b=2.0, a=3.0) == g(1.0, 2.0, 3.0) == h(1.0, b=2.0, a=3.0) == 8.0
    with pytest.raises(sd.ArgumentError, match=r"test_never_wrong_calls.py:\d+: named .*positional"):
        h(1.0, 2.0, 3.0)


def test_a_function_with_an_argument_called_out():
    def f(x, out=None):
        return np.sum(x * x) if out is None else np.sum(x * out)

    g, w = sd.grad(f), W.copy()
    np.testing.assert_array_equal(g(X), 2 * X)
    np.testing.assert_array_equal(g(X, w), W)
    with pytest.raises(sd.ArgumentError, match="`out` of its own"):
        g(X, out=w)
    np.testing.assert_array_equal(w, W)
    sd.vmap(np.sin)(X, out=w)
    np.testing.assert_array_equal(w, np.sin(X))


# -- rules belong to functions


def test_a_rule_is_one_functions():
    def made():
        def h(x):
            return x**3

        return h, lambda x: x**3

    (h, lam), (again, lam_again) = made(), made()
    sd.diffrule(h)(lambda out, x: -702.0)
    sd.diffrule("lam(x)", x="7")
    for f, slope in ((h, -702.0), (lam, 7.0), (again, 27.0), (lam_again, 27.0), (lambda x: x**3, 27.0)):
        assert sd.grad(f)(3.0) == sd.grad(lambda x, f=f: f(x))(3.0) == slope


def test_methods_wrappers_and_arguments_by_name():
    class Model:
        def h(self, x):
            return x * x

    model, other = Model(), Model()
    sd.diffrule(model.h)(lambda out, x: 13.0)
    assert sd.grad(lambda x: model.h(x))(1.0) == 13.0
    assert sd.grad(lambda x: other.h(x))(1.0) == 2.0

    def inner(x, a=2.0):
        return a * x * x

    sd.diffrule(inner)(lambda out, x, a: (100 * a, x))

    @functools.wraps(inner)
    def outer(x):
        return 3 * x * x

    assert sd.grad(outer)(1.0) == 6.0
    assert sd.grad(lambda x: inner(x))(3.0) == 200.0
    assert sd.grad(lambda x: inner(a=3.0, x=x))(3.0) == 300.0
    with pytest.raises(sd.ArgumentError, match="inner"):
        sd.grad(lambda x: inner(x, 1.0, 2.0))(3.0)
    with pytest.raises(sd.RuleError, match="too many"):
        sd.diffrule("inner(x, y, z)", x="1")


def squared(x):
    return x * x


def test_rulebooks_find_functions_by_themselves():
    book = sd.Rulebook([sd.Rule(__name__, "squared", ("x",), (None,), function=squared)])
    assert squared in book and list(book) == [squared] and book[squared].name == "squared"
    copy = pickle.loads(pickle.dumps(book))
    assert squared in copy and copy.digest() == book.digest()


# -- what has no end


@pytest.mark.parametrize("text", ["9**9**9**9", "exp(exp(exp(exp(10))))", "gamma(gamma(gamma(6)))", "x*" + "9" * 400,
                                  "gamma(-1)",
                                  "0**1j", "sqrt(-1)*x", "2**-9**9**9", "1 if 9**9**9 > 0 else 2", "x*log(-2)",
                                  "x*exp(1000)*exp(-999)"])  # fmt: skip
def test_constants_without_a_value_are_refused(text, tmp_path):
    def f(x):
        return x

    with pytest.raises(sd.RuleError, match=r"test_never_wrong_calls.py:\d+: "):
        sd.diffrule("f(x)", x=text)
    (tmp_path / "a.rules").write_text(f"numpy.sin(x) | sin | {text} | yes | 0..1 |\n")
    (tmp_path / "a.jl").write_text(f"@define_diffrule Base.sin(x) = :( {text.replace('**', '^')} )\n")
    for name in ("a.rules", "a.jl"):
        with pytest.raises(sd.RuleError, match=f"{name}:1: "):
            sd.load_rules(tmp_path / name, strict=True)


def test_large_constants_that_have_a_value():
    def f(x):
        return x

    for text, value in (("x*(exp(1000)*exp(-999))", np.e), ("2**2000/2**1999", 2.0), ("inf**inf", np.inf)):
        sd.diffrule("f(x)", x=text)
        np.testing.assert_allclose(sd.grad(f)(1.0), value, rtol=1e-15)


def itself(x):
    return sd.grad(itself)(x)


def first(x):
    return sd.grad(second)(x) * x


def second(x):
    return sd.jvp(first)(x, 1.0)[1]


def over_points(x):
    return np.sum(sd.vmap(sd.grad(over_points))(np.ones((3, 2)) * x))


def compiled(x):
    return sd.grad(compiled).compile(2.0)(2.0) * x


def counting_up(x, n=0):
    return sd.grad(counting_up)(x, n + 1)


def caught(x):
    try:
        return sd.grad(caught)(x) * x
    except Exception:
        return x


def ruled(x):
    return x * x


@pytest.mark.parametrize("f", [itself, first, over_points, compiled, counting_up, caught, ruled], ids=lambda f: f.__name__)
def test_a_function_of_its_own_gradient(f):
    sd.diffrule(ruled)(lambda out, x: sd.grad(ruled)(x))
    x = np.ones(2) if f is over_points else 1.5
    for call in (sd.grad(f), sd.grad(f).graph, sd.vmap(sd.grad(f), in_axes=0)):
        with pytest.raises(sd.TraceError, match=r"test_never_wrong_calls.py:\d+: .*again and again"):
            call(x if not isinstance(call, type(sd.vmap(f))) or call.suffix != "vmap" else np.array([x, x]))


def test_recursions_that_end():
    def down(x, n):
        return x**2 if n == 0 else x * sd.grad(down)(x, n - 1)

    def until(x):
        return x * x if x > 3.0 else sd.grad(until)(x + 1.0) * x

    assert sd.grad(down)(1.5, 4) == 48.0
    assert sd.grad(until)(2.5) == 12.0
    np.testing.assert_allclose(sd.vmap(until)(np.array([1.2, 2.5])), [12.96, 17.5])


# -- options


BAD = [
    (lambda: sd.grad(weighted, argnum=1), "did you mean argnums"), (lambda: sd.grad(weighted, argnums="x"), "argnums='x'"),
    (lambda: sd.grad(weighted, argnums=True), "argnums"), (lambda: sd.grad(weighted, rules=5), "rules=5.*Rulebook"),
    (lambda: sd.grad(weighted, exact="yes"), "exact='yes'"), (lambda: sd.grad(weighted, backend=3), "backend=3.*native"),
    (lambda: sd.grad(weighted, scalarize="no"), "scalarize='no'"), (lambda: sd.vmap(np.sin, threads="many"), "threads='many'"),
    (lambda: sd.jacobian(weighted, mode="both"), "mode='both'.*reverse"),
    (lambda: sd.hvp(weighted, mode="auto"), "no option mode"),
    (lambda: sd.derivative(np.sin, order=2.5), "order=2.5"), (lambda: sd.derivative(np.sin, argnums=(0, 1)), "argnums"),
    (lambda: sd.vmap(np.sin, in_axes="x"), "in_axes='x'"), (lambda: sd.vmap(np.sin, out_axes=True), "out_axes=True"),
    (lambda: sd.vmap(sd.grad(weighted), exact=True), "exact belongs to grad"),
    (lambda: sd.grad(weighted)(X, exact=True), "exact is an option of the transform"),
    (lambda: sd.grad(weighted).compile(X, backned="native"), "did you mean backend"),
    (lambda: sd.grad(weighted).compile(X, backend=3), "backend=3"), (lambda: sd.grad(weighted).source(X, target=[]), "target="),
    (lambda: sd.grad(weighted).export("f.py", X, target="d"), "target='d'"),
    (lambda: sd.trace(weighted, X, path="merge"), "paths"),
    (lambda: sd.trace(weighted, X, primitives=np.sin), "primitives"), (lambda: sd.explain(weighted, X, rules=5), "rules=5"),
    (lambda: sd.check_grads(weighted, (X,), order=2.5), "order=2.5"), (lambda: sd.check_grads(weighted, (X,), rtoll=1), "rtol"),
    (lambda: sd.Spec(2.5), "shape=2.5"), (lambda: sd.Spec((-1,)), "shape"), (lambda: sd.Spec((2,), "abc"), "dtype='abc'"),
    (lambda: sd.export(weighted, "f.py", X), "sd.grad"), (lambda: sd.cost(weighted, X, y=1.0), "'y'"),
    (lambda: sd.grad(weighted, exact=True, fastmath=True), "exclude each other"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "match"), BAD, ids=range(len(BAD)))
def test_bad_options_are_refused_by_name(call, match):
    with pytest.raises(sd.SymdiffError, match=rf"test_never_wrong_calls.py:\d+: .*{match}"):
        call()


def test_frozen_functions_do_not_look():
    scale, large = [2.0], np.ones(100)
    f = lambda x: scale[0] * np.sum(large * x)  # noqa: E731
    g, h, v = sd.grad(f, frozen=True), sd.grad(f), sd.vmap(f, frozen=True)
    x = np.ones(100)
    assert g(x)[0] == h(x)[0] == 2.0 and v(x[None])[0] == 200.0
    scale[0], large[0] = 3.0, 5.0
    assert g(x)[0] == 2.0 and h(x)[0] == 15.0 and v(x[None])[0] == 200.0
    assert pickle.loads(pickle.dumps(sd.grad(squared, frozen=True))).frozen


def test_a_function_without_source_may_have_the_name_of_what_it_calls():
    space = {"functools": functools}
    exec("def h(x): return x**2\ndef made():\n    def h(x): return 2*globals_h(x)\n    return h\nglobals_h = h", space)
    exec("def around(x): return 2*h(x)", space)
    space["around"].__name__ = "h"
    assert sd.grad(space["around"])(3.0) == 12.0
    assert sd.grad(space["made"]())(3.0) == 12.0


def test_arguments_by_name_and_large_integers():
    def f(x, y=2.0, *, k=1.0):
        return x * x * y * k

    assert sd.grad(f)(x=3.0) == 12.0
    assert sd.grad(f)(x=3.0, y=5.0, k=2.0) == 60.0
    assert sd.grad(f, argnums=1)(3.0, y=5.0) == 9.0
    assert sd.grad(f, argnums=(0, 1))(y=5.0, x=3.0) == (30.0, 9.0)
    assert sd.vmap(lambda v: sd.grad(f)(x=v))(np.array([3.0]))[0] == 12.0
    assert sd.grad(f)(10**20) == 4e20
    with pytest.raises(sd.ShapeError, match="called with 1 arguments"):
        sd.grad(f, argnums=1)(3.0, k=2.0)


def test_derivatives_at_points_have_points_in_one_argument():
    df = sd.derivative(lambda x, y: x * x * y)
    np.testing.assert_array_equal(df(np.arange(3.0), 2.0), [0.0, 4.0, 8.0])
    with pytest.raises(sd.ShapeError, match=r"calls.py:\d+: at one point the derivative has shape \(3,\).*vmap"):
        df(np.arange(3.0), np.arange(3.0))
    np.testing.assert_array_equal(sd.vmap(df)(np.arange(3.0), np.arange(3.0)), [0.0, 2.0, 8.0])


@pytest.mark.parametrize("backend", ["auto", "numpy", "python"])
def test_truths_are_factors(backend):
    def f(x):
        return np.sum((x > 0.3) * np.arange(1.0, 4.0))

    assert Function(f, backend=backend)(np.array([0.7, -0.2, 0.45])) == 4.0


@pytest.mark.parametrize("options", [{}, {"backend": "numpy"}, {"backend": "python"}], ids=str)
def test_loops_take_arguments_of_their_own_dtype(options):
    def f(x):
        return np.sum(x * x.conj()) * x

    over = Function(f, scalarize=False, **options)
    for x in (
        np.ones(3),
        1j * np.ones(3),
        np.ones(3, "f4"),
        np.ones(3, "F") * 1j,
        np.ones(3, ">f8"),
        np.ones((1, 3)),
        np.ones(3),
    ):
        for _ in range(2):
            assert over(x).dtype == f(x).dtype.newbyteorder("=")
            np.testing.assert_array_equal(over(x), f(x))
