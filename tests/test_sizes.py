"""Named sizes: one graph and one file for any, which are what plain calls give at each; what is a condition or refused."""

import ctypes
import itertools
import pickle
import re
import shutil
import subprocess
import warnings

import numpy as np
import pytest
from inside import Function, Machine, engine, main

import symdiff as sd

S = sd.Spec


def layer(W, X, b):
    return np.mean(np.tanh(W @ X + b) ** 2)


def rosenbrock(x):
    s = 0.0
    for i in range(len(x) - 1):
        s += 100.0 * (x[i + 1] - x[i] ** 2) ** 2 + (1.0 - x[i]) ** 2
    return s


def differences(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def product(x):
    p = 1.0
    for v in x:
        p *= v
    return p


def horner(c, t):
    s = 0.0
    for v in c[::-1]:
        s = s * t + v
    return s


def grid(x):
    n = len(x)
    h = 1.0 / (n - 1)
    return np.sum((x[2:] - 2 * x[1:-1] + x[:-2]) ** 2) / h**2 + np.sum(x * np.arange(n) + x * np.linspace(0.0, 2.0, n))


def pairs(P):
    D = P[:, None, :] - P[None, :, :]
    return np.sum(1.0 / (1.0 + np.sum(D**2, axis=2)))


def stencil(u):
    return np.sum((4 * u[1:-1, 1:-1] - u[2:, 1:-1] - u[:-2, 1:-1] - u[1:-1, 2:] - u[1:-1, :-2]) ** 2)


def covariance(X):
    Z = X - X.mean(axis=0)
    return np.sum((Z.T @ Z / (len(X) - 1)) ** 2)


def log_softmax(W, x):
    z = W @ x
    return np.log(np.sum(np.exp(z - np.max(z)))) + np.max(z)


def joined(x, y):
    return np.sum(np.concatenate([x, y]) ** 3) / np.sqrt(len(x) + 1)


def squeezed(x):
    return np.sum(np.squeeze(x) ** 2)


def heat(u):
    for _ in range(3):
        u = u.copy()
        u[1:-1] += 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
    return np.sum(u**2)


def own(x):
    y = np.zeros(len(x))
    y[1:] = x[1:] - x[:-1]
    y[0] = x[0]
    return np.sum(y**2) + sd.special.logsumexp(x)


def read_before(x):
    y = np.zeros(len(x))
    y[1:] = x[1:] - x[:-1]
    y[0] = x[0]
    return np.sum(y**2) + np.sum(np.sin(x))


CASES = [
    (layer, [("m", "k"), ("k", "n"), ("m", 1)]), (rosenbrock, [("n",)]), (differences, [("n",)]), (product, [("n",)]),
    (horner, [("n",), ()]), (grid, [("n",)]), (pairs, [("n", 3)]), (stencil, [("m", "n")]), (covariance, [("n", "m")]),
    (log_softmax, [("m", "n"), ("n",)]), (joined, [("n",), ("2*n+1",)]), (squeezed, [(1, "n")]), (heat, [("n",)]),
    (own, [("n",)]), (read_before, [("n",)]),
]  # fmt: skip
BEYOND = {"c": (own,)}  # by target what it has no words for
SIZES = {1: [(0,), (1,), (2,), (3,), (9,), (1000,)], 2: [*itertools.product((0, 1, 3, 20), repeat=2)]}
SIZES[3] = [(2, 3, 4), (1, 1, 1), (1, 4, 1), (4, 1, 3), (7, 2, 7), (20, 30, 9)]
names = [f.__name__ for f, _ in CASES]


def specs(shapes):
    return [S(shape) for shape in shapes]


def points(graph, shapes):
    """Arguments at many sizes, each with whether it is within the bounds of the graph."""
    sizes = list(
        {size.name: size for leaf in graph.inputs for n in leaf.shape if not isinstance(n, int) for size, _ in n.terms}.values()
    )
    rng = np.random.default_rng(3)
    for numbers in SIZES[len(sizes)]:
        at = dict(zip([s.name for s in sizes], numbers, strict=True))
        known = [tuple(n if isinstance(n, int) else n.at(at) for n in leaf.shape) for leaf in graph.inputs]
        if min(itertools.chain(*known), default=0) >= 0:
            yield (
                [rng.uniform(0.5, 1.5, shape) for shape in known],
                all(n >= s.least for n, s in zip(numbers, sizes, strict=True)),
            )


def agrees(found, f, args):
    """Whether a value and gradient by the first argument are the function's, the gradient along one direction."""
    value, slope = found
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of NumPy's, means of nothing
        plain = f(*args)
        d = np.cos(np.arange(np.size(args[0]))).reshape(np.shape(args[0]))
        steps = [f(args[0] + h * d, *args[1:]) for h in (1e-6, -1e-6)]
    if not np.isfinite(plain):
        return np.array_equal(value, plain, equal_nan=True)
    expected = (steps[0] - steps[1]) / 2e-6
    return np.isclose(value, plain, 1e-9) and np.isclose(
        np.sum(np.reshape(slope, d.shape) * d), expected, 1e-4, 1e-4 * abs(plain)
    )


@pytest.mark.parametrize("f, shapes", CASES, ids=names)
def test_one_graph_is_the_function_at_any_size(f, shapes):
    graph = sd.value_and_grad(f).graph(*specs(shapes))
    assert "for any " in str(graph)
    within = 0
    for args, fits in points(graph, shapes):
        if fits:
            assert agrees(graph(*args), f, args)
        else:
            with pytest.raises(sd.ShapeError, match="for any"):
                graph(*args)
        within += fits
    assert within >= 4


@pytest.mark.parametrize("target", ["numpy", "python"])
@pytest.mark.parametrize("f, shapes", CASES, ids=names)
def test_one_file_is_the_function_at_any_size(f, shapes, target):
    transform = sd.value_and_grad(f)
    text = transform.source(*specs(shapes), target=target)
    assert "# For any " in text and "symdiff" not in text.partition("import")[2]
    space = {}
    exec(text, space)
    called = space[f"{f.__name__}_value_and_grad"]
    for args, fits in points(transform.graph(*specs(shapes)), shapes):
        given = [a.tolist() for a in args] if target == "python" else args
        if fits:
            assert agrees(called(*given), f, args)
            if target == "numpy" and args[0].size:
                out = (np.full((), np.nan), np.full(args[0].shape, np.nan))
                assert called(*given, out=out) is out and agrees(out, f, args)
        else:
            with pytest.raises(ValueError, match="expected"):
                called(*given)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")
def test_c_has_sizes_as_parameters(tmp_path):
    called = {}
    texts = []
    for f, shapes in CASES:
        if f not in BEYOND["c"]:
            text = sd.value_and_grad(f).source(*specs(shapes), target="c")
            texts.append(re.sub(r"np_(room|zeros)", rf"np_\1_{f.__name__}", text))
    (tmp_path / "f.c").write_text("\n".join(texts), encoding="utf-8")
    subprocess.run(
        ["gcc", "-O1", "-shared", "-fPIC", "-Wall", "-Werror", "-o", tmp_path / "f.so", tmp_path / "f.c", "-lm"], check=True
    )
    library = ctypes.CDLL(str(tmp_path / "f.so"))
    for f, shapes in CASES:
        if f in BEYOND["c"]:
            continue
        graph = sd.value_and_grad(f).graph(*specs(shapes))
        called = getattr(library, f"{f.__name__}_value_and_grad")
        for args, fits in points(graph, shapes):
            if not fits:
                continue
            axes = [
                pair for leaf, a in zip(graph.inputs, args, strict=True) for pair in zip(leaf.shape, np.shape(a), strict=True)
            ]
            told = {str(n): m for n, m in axes if not isinstance(n, int) and len(str(n)) == 1}
            value, slope = np.zeros(()), np.zeros(np.shape(args[0]))
            given = [ctypes.c_double(a) if np.ndim(a) == 0 else ctypes.c_void_p(a.ctypes.data) for a in args]
            sizes = [ctypes.c_long(told[name]) for name in sorted(told)]
            called(*sizes, *given, *(ctypes.c_void_p(a.ctypes.data) for a in (value, slope)))
            assert agrees((value, slope), f, args)


def test_a_condition_names_both_arguments():
    space = {}
    exec(sd.grad(layer).source(*specs(CASES[0][1])), space)
    called = space["layer_grad"]
    with pytest.raises(ValueError, match=r"^X has 5 cells along axis 0, k expected, where k = 4 in W$"):
        called(np.ones((3, 4)), np.ones((5, 2)), np.ones((3, 1)))
    with pytest.raises(ValueError, match=r"^b has 2 cells along axis 0, m expected, where m = 3 in W$"):
        called(np.ones((3, 4)), np.ones((4, 2)), np.ones((2, 1)))
    with pytest.raises(ValueError, match=r"W has shape \(3,\), \(m, k\) is expected"):
        called(np.ones(3), np.ones((4, 2)), np.ones((2, 1)))


def bounded(x):
    return np.sum(x**2) if len(x) <= 100 else np.sum(x)


def spot(x):
    return np.sum(x**2) if len(x) == 200 else np.sum(x)


def few(x):
    if x.shape[0] < 3:
        raise ValueError("too few")
    return np.sum(x**2)


def derived(x):
    y = 2 * x
    n = len(y) - 1
    return np.sum(y) if n >= 120 else np.sum(y**2)


@pytest.mark.parametrize(
    "f, bounds",
    [(bounded, "0 <= n <= 100"), (spot, "0 <= n <= 199"), (few, "n >= 3"), (derived, "0 <= n <= 120"), (np.max, "n >= 1")],
)
def test_what_sizes_are_compared_with_bounds_them(f, bounds):
    graph = sd.grad(lambda x: f(x)).graph(S("n"))
    assert str(graph).splitlines()[-1] == f"  for any {bounds}"
    if graph.inputs[0].shape[0].terms[0][0].most:
        with pytest.raises(sd.ShapeError, match=bounds):
            graph(np.ones(300))


@pytest.mark.parametrize(
    "cut, bounds", [(slice(5), "n >= 5"), (slice(-3, None), "n >= 3"), (slice(3, -3), "n >= 6"), (slice(10, 20), "n >= 20")]
)
def test_slices_that_are_cut_short_bound_sizes(cut, bounds):
    graph = sd.grad(lambda x: np.sum(x[cut] ** 2)).graph(S("n"))
    assert str(graph).splitlines()[-1] == f"  for any {bounds}"
    weights = np.linspace(0.0, 1.0, 100)
    graph = sd.grad(lambda x: np.sum(x[cut] ** 2) + np.sum(x) * (weights @ weights)).graph(S("n"))
    assert str(graph).splitlines()[-1] == f"  for any {bounds}"


def halved(x):
    return np.sum(x[: len(x) // 2])


def parity(x):
    return np.sum(x) if len(x) % 2 else np.sum(x**2)


def ordered(x, y):
    return np.sum(x) * np.sum(y) if len(x) > len(y) else np.sum(x) + np.sum(y)


def twice(x, y):
    return np.sum(x) * np.sum(y) if len(x) > 2 * len(y) else np.sum(x) + np.sum(y)


def equal(x, y):
    return x @ y if len(x) == len(y) else np.sum(x) + np.sum(y)


@pytest.mark.parametrize("f", [halved, parity, ordered, twice, equal])
def test_a_graph_for_each_size_is_refused_at_its_line(f):
    given = [S("n"), S("m")][: f.__code__.co_argcount]
    with pytest.raises(sd.TraceError, match=r"test_sizes.py:\d+: .* where n = .*no graph for any size"):
        sd.grad(f).graph(*given)


def test_sizes_that_do_not_fit_are_told_with_their_numbers():
    with pytest.raises(sd.TraceError, match="do not broadcast"):
        sd.trace(lambda x, y: x + y, S("n"), S("m"))
    with pytest.raises(sd.TraceError, match="scalarize=True takes numbers"):
        sd.grad(bounded, scalarize=True).graph(S("n"))
    with pytest.raises(sd.ExportError, match="target 'cuda' has no named sizes"):
        sd.grad(bounded).source(S("n"), target="cuda")


@pytest.mark.parametrize("text", ["", "m*n", "n**2", "n n", "for", "n/2", "-1", "n-", "2n"])
def test_a_size_is_an_affine_expression(text):
    with pytest.raises(sd.ShapeError, match="a size that a call tells is a text"):
        S(text)
    assert str(S((" 2*n - m + 1", 3)).shape) == "(-m+2*n+1, 3)"


def test_the_command_line_takes_names(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(
        "import numpy as np\n\n\ndef loss(W, X, b):\n    return np.mean(np.tanh(W @ X + b)**2)\n", encoding="utf-8"
    )
    words = ["export", "model.py:loss", "--arg", "W=m,k", "--arg", "X=k,n", "--arg", "b=m,1"]
    for target, name in (("numpy", "f.py"), ("c", "f.c")):
        assert main([*words, "--target", target, "-o", name]) == 0
        assert "--arg W=m,k --arg X=k,n --arg b=m,1" in (tmp_path / name).read_text(encoding="utf-8")
        assert main(["check", name]) == 0
    path = tmp_path / "f.py"
    path.write_text(path.read_text(encoding="utf-8").replace("np.tanh(", "np.sin("), encoding="utf-8")
    assert main(["check", "f.py"]) == 1
    assert main(["show", *words[1:]]) == 0
    assert main(["export", "model.py:loss", "--arg", "W=m*k,2"]) == 2
    assert "with names for sizes" in capsys.readouterr().err


def test_names_of_sizes_may_be_those_of_anything_else():
    text = sd.grad(lambda n, np_: np.sum(n**2) + np.sum(np_)).source(S("n"), S("out"))
    space = {}
    exec(text, space)
    called = next(v for k, v in space.items() if k.endswith("_grad"))
    assert np.array_equal(called(np.ones(4), np.ones(7)), np.full(4, 2.0))


@pytest.mark.parametrize("backend", ["auto", "native"])
def test_another_size_neither_traces_nor_compiles(backend, monkeypatch):
    if backend == "native" and engine.supported():
        pytest.skip(engine.supported())
    made = [(f, shapes, sd.value_and_grad(f).compile(*specs(shapes), backend=backend)) for f, shapes in CASES[::3]]

    def again(*_, **__):
        raise AssertionError("traced or compiled again")

    for owner, name in ((Function, "_traced"), (engine.Code, "__init__"), (Machine, "__init__")):
        monkeypatch.setattr(owner, name, again)
    for f, shapes, compiled in made:
        for args, fits in points(compiled.graph, shapes):
            if not fits:
                with pytest.raises(sd.ShapeError, match="for any"):
                    compiled(*args)
                continue
            assert agrees(compiled(*args), f, args)
            if args[0].size:
                out = (np.full((), np.nan), np.full((*args[0].shape, 2), np.nan)[..., 1])
                assert compiled(*args, out=out) is out and agrees(out, f, args)
    with pytest.raises((AssertionError, sd.TraceError), match="again"):
        sd.grad(layer)(np.ones((2, 3)), np.ones((3, 4)), np.ones((2, 1)))


def test_arguments_of_one_compiled_function_are_checked():
    compiled = sd.grad(layer).compile(*specs(CASES[0][1]))
    assert np.array_equal(compiled(np.ones((2, 3), np.float32), [[1, 2]] * 3, np.ones((2, 1))).shape, (2, 3))
    with pytest.raises(sd.ShapeError, match=r"X has shape \(5, 4\), \(k, n\) is expected, where m = 2, k = 3, n = 4"):
        compiled(np.ones((2, 3)), np.ones((5, 4)), np.ones((2, 1)))
    with pytest.raises(sd.ShapeError, match="W is complex"):
        compiled(np.ones((2, 3), complex), np.ones((3, 4)), np.ones((2, 1)))
    with pytest.raises(sd.ArgumentError, match="3 arguments"):
        compiled(np.ones((2, 3)))
    again = pickle.loads(pickle.dumps(compiled))
    W = np.ones((2, 3))
    assert np.array_equal(again(W, np.ones((3, 4)), np.ones((2, 1))), compiled(W, np.ones((3, 4)), np.ones((2, 1))))
    with pytest.raises(sd.BackendError, match="numbers in place of named sizes"):
        sd.grad(bounded).compile(S("n"), backend="cupy")


def test_costs_are_in_terms_of_sizes():
    cost = sd.cost(lambda W, x: np.sum((W @ x) ** 2), S(("m", "n")), S("n"))
    assert str(cost.value.operations) == "2*m*n + 2*m" and str(cost.value.by_kind["matmul"]) == "2*m*n"
    assert str(sd.cost(rosenbrock, S("n")).value.operations) == "7*n-7"


def halved(x):
    s = x[0]
    while s > 0.01:
        s = s * 0.5
    return np.sum(x) * s


def counted(x):
    k = 0
    while k < 5:
        k += 1
    return x[0] * k


def listed(x):
    s, found = 1.0, []
    while s > 0.1:
        s = s * 0.5
        found.append(s * x[0])
    return sum(found) + x[0]


def shrunk(x):
    s = x * 1.0
    while np.sum(s * s) > 0.01:
        s = s * 0.5
    return np.sum(s)


@pytest.mark.parametrize("f", [halved, counted, listed, shrunk])
def test_loops_that_count_their_rounds_are_for_any_size(f):
    df = sd.value_and_grad(f)
    graph = df.graph(sd.Spec(("n",)))
    for n in (1, 2, 5, 40):
        x = np.linspace(0.4, 1.3, n)
        for found, wanted in zip(graph(x), df(x), strict=True):
            np.testing.assert_allclose(found, wanted)
