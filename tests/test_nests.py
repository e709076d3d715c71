"""Programs with loops as machine code and as C, against the evaluator."""

import ctypes
import random
import shutil
import subprocess

import numpy as np
import pytest
from inside import (
    Constant,
    Place,
    Stack,
    default_rules,
    extent,
    looped_function,
    numbers,
    outlining,
    pipeline,
    plan_of,
    program_of,
    solved,
    source_of,
    transforming,
)
from test_loop_bindings import (
    EXAMPLES,
    FIXED,
    K,
    Writer,
    adaptive,
    checked,
    close,
    counted_rounds,
    gathering,
    gradient,
    in_python,
    in_tuple,
    nested,
    newton,
    random_loop,
)

import symdiff as sd

GRAPHS = {
    **{name: made(EXAMPLES[name][2][0]) for name, made in FIXED.items()},
    "nested": nested(4),
    "gathering": gathering(),
    "newton": newton()[0],
    "adaptive": adaptive()[0],
}


def native(graph, loops=True):
    """The machine code of a graph, whose sums are taken round by round."""
    program = program_of(graph, loops=loops)
    assert any(node.op == "loop" for node in program.nodes)
    call = pipeline.machine_of(program, exact=True).builtin()
    codes = [np.dtype(leaf.node.dtype) for leaf in graph.inputs]
    return lambda *args: call(
        *(np.ascontiguousarray(a, c) if np.ndim(a) else c.type(a) for a, c in zip(args, codes, strict=True))
    )


@pytest.mark.parametrize("name", GRAPHS)
def test_parts_are_the_same_as_functions_of_their_own(name, monkeypatch):
    graph, args = gradient(GRAPHS[name]), EXAMPLES[name][2][0]
    found = []
    for loop, block in ((10**9, 10**9), (1, 10**9), (1, 1), (10**9, 5)):  # lines of a function
        monkeypatch.setattr(outlining, "PART", min(loop, block))
        monkeypatch.setattr(outlining, "BLOCK", block)
        monkeypatch.setattr(outlining, "STRAIGHT", block)
        found.append(in_tuple(native(graph)(*args)))
    for whole, *parted in zip(*found, strict=True):
        for one in parted:
            np.testing.assert_array_equal(whole, one)


def test_long_blocks_are_parted(monkeypatch):
    monkeypatch.setattr(outlining, "BLOCK", 2000)

    def eliminated(x):
        a, b = np.outer(x, x) + 3 * np.eye(len(x)), x.copy()
        for k in range(len(b)):
            p = k + int(np.argmax(np.abs(a[k:, k])))
            if p != k:
                a[[k, p]], b[[k, p]] = a[[p, k]], b[[p, k]]
            for i in range(k + 1, len(b)):
                w = a[i, k] / a[k, k]
                a[i, k:] -= w * a[k, k:]
                b[i] -= w * b[k]
        return b[-1] / a[-1, -1]

    graph = sd.hessian(eliminated, paths="merge").graph(sd.Spec((3,)))
    text = looped_function(program_of(graph, loops=True), "kernel").text
    functions = [part.partition("\n}")[0] for part in text.split("\ndefine ")[1:]]
    sizes = [function.count("\n") for function in functions]
    assert sum(sizes) > 6000
    assert max(sizes) < 2000


def test_functions_of_long_programs_are_short():
    def steps(x):
        for _ in range(10):
            x = np.sin(np.cumsum(x) * x[::-1])
            x = np.cos(np.cumsum(x) + x[::-1]) * x
            x = np.sinh(np.cumsum(x) - x[::-1]) / x
            x = np.tanh(np.cumsum(x) / x[::-1]) - x
            x = np.arctan(np.cumsum(x) * x[::-1]) + x
        return x.sum()

    graph = sd.grad(steps, loops="unroll").graph(sd.Spec((100,)))
    text = looped_function(program_of(graph, loops=True), "kernel").text
    functions = [part.partition("\n}")[0] for part in text.split("\ndefine ")[1:]]
    assert len(functions) > 100
    long = [function for function in functions if function.count("\n") > outlining.PART]
    assert len(long) == 1
    assert "phi" not in long[0]


def test_cells_of_rounds_are_a_loop_from_five_on():
    def rows(x):
        total = 0.0
        for k in range(x.shape[0]):
            total = total + np.sum(np.cumsum(x[k], 0) * total)
        return total

    texts = [sd.grad(rows).source(sd.Spec((50, 90, n)), target="c") for n in (3, 9)]
    assert [text.count(" df_dx[") for text in texts] == [3, 1]


@pytest.mark.parametrize("name", GRAPHS)
def test_values_gradients_and_second_derivatives(name):
    graph, args = GRAPHS[name], EXAMPLES[name][2][0]
    wrt = list(range(len(args)))
    more = [np.ones(np.shape(a)) for a in args]
    product = checked(transforming.hessian_product(graph, wrt, default_rules()))
    for one, given in ((graph, args), (gradient(graph), args), (product, (*args, *more))):
        for found, expected in zip(in_tuple(native(one)(*given)), in_tuple(one(*given)), strict=True):
            assert type(found) is type(expected)
            close(found, expected)


@pytest.mark.parametrize("seed", range(12))
def test_random_loops(seed):
    source, numbers = random.Random(seed), np.random.default_rng(seed)
    graph = random_loop(source, source.randint(1, 5))
    args = [numbers.normal(size=leaf.node.shape) for leaf in graph.inputs]
    for one in (graph, gradient(graph)):
        for found, expected in zip(in_tuple(native(one)(*args)), in_tuple(one(*args)), strict=True):
            close(found, expected)


def test_bits_are_those_of_the_evaluator():
    w = Writer(x=(40,), s=())
    body = lambda k, s, t, a: (s * 0.5 + a / (1.0 + t * t), t - s * a + k, s + t, s * t)  # noqa: E731
    results = w.loop(body, 38, (w.s, Constant(1.0)), [(w.x, Place(-1, 38))], (), [Stack(Place(1, 1), 40)], 1)
    graph = w.graph(*results)
    for n in range(5):
        args = np.random.default_rng(n).normal(size=40), 0.1 * n
        for found, expected in zip(native(graph)(*args), graph(*args), strict=True):
            assert np.array_equal(found, expected)


def test_complex_numbers_and_large_carried_arrays():
    w = Writer(x=(100,))
    z = w.builder.input("z", (), "D")
    x, e = w.loop(lambda k, x, z, c: (np.sin(x) * c + x[::-1], z * z * 0.5 + 0.1j), 7, (w.x, z), (), (w.x,))
    graph = w.graph(x, e)
    args = np.linspace(-1, 1, 100), 0.3 + 0.2j
    for found, expected in zip(native(graph)(*args), graph(*args), strict=True):
        close(found, expected, 1e-13)


def test_a_loop_that_only_counts_and_grows_its_memory():
    w = Writer(y=())
    end, _ = w.loop(lambda k, y: (y * (1.001 + 0.0 * y), y < 1e4), counted_rounds("m"), (w.y,), tested=True)
    graph = w.graph(end)
    derivative = gradient(graph)
    for y in (1.0, 1e-3, 1e5):
        close(native(derivative)(y), derivative(y))
    w = Writer(y=())
    end, _ = w.loop(lambda k, y: (y * 1.5, y < 1e4), counted_rounds("m"), (w.y,), tested=True)
    assert native(gradient(w.graph(end)))(1.0) == 1.5**23


def test_a_call_checks_its_arguments_and_takes_out():
    graph = GRAPHS["pendulum"]
    call = pipeline.machine_of(program_of(gradient(graph))).builtin(lambda *args: "other")
    out = tuple(np.empty(()) for _ in range(3))
    assert call(1.0, 0.5, 0.1, out=out) is out
    close(out, gradient(graph)(1.0, 0.5, 0.1))
    assert call(1, 0.5, 0.1) == "other"


def test_sizes_that_a_call_tells_are_refused():
    w = Writer(x=(extent("n"),))
    (end,) = w.loop(lambda k, s, a: s * a, extent("n"), (Constant(1.0),), [(w.x, K)])
    with pytest.raises(sd.BackendError, match="sizes a call tells"):
        pipeline.machine_of(program_of(w.graph(end)))


# -- many points


POINTS = {**GRAPHS, "rounds in rounds": None}


def rounds_in_rounds():
    """Newton's rounds within rounds that end where the point says."""
    w, inner = Writer(a=(), s=()), Writer(k=(), s=(), a=())
    newtons = lambda k, x, a: (0.5 * (x + a / x), abs(x * x - a) > 1e-12 * a)  # noqa: E731
    begin = inner.emit("add", inner.a, inner.s)
    root, _ = inner.loop(newtons, counted_rounds("i"), (Constant(1.0),), (), (begin,), tested=True)
    more = inner.emit("lt", inner.s, inner.emit("mul", inner.a, Constant(3.0)))
    body = inner.graph(inner.emit("add", inner.emit("mul", inner.s, Constant(1.5)), root), more, name="body")
    end, rounds = w.loop(body, counted_rounds("r"), (w.s,), (), (w.a,), tested=True)
    return w.graph(w.emit("add", end, w.emit("mul", rounds, w.a)))


def over_points(graph, points, axes, backend="native"):
    """The results at points, compared with those of the evaluator; `axes` are those of the arguments."""
    program = program_of(graph, loops=True)
    kernel = pipeline.batch_kernel_of(program, axes, (0,) * len(program.outputs), pipeline.DEFAULT, backend)
    args = [
        np.stack([p[k] for p in points], axis) if axis is not None else np.asarray(points[0][k]) for k, axis in enumerate(axes)
    ]
    found = in_tuple(kernel(*map(np.asarray, args)))
    for place, point in enumerate(points):
        given = [points[0][k] if axis is None else x for k, (x, axis) in enumerate(zip(point, axes, strict=True))]
        for one, expected in zip(found, in_tuple(graph(*given)), strict=True):
            close(one[place], expected)


@pytest.mark.parametrize("backend", ["native", "numpy"])
@pytest.mark.parametrize("name", POINTS)
def test_many_points_at_once(name, backend):
    graph = rounds_in_rounds() if POINTS[name] is None else GRAPHS[name]
    base = (3.0, 0.5) if POINTS[name] is None else EXAMPLES[name][2][0]
    values = np.random.default_rng(0)
    points = [[np.asarray(b) * (1 + 0.4 * values.random(np.shape(b))) for b in base] for _ in range(19)]
    over_points(graph, points, (-1,) + (None,) * (len(base) - 1), backend)
    over_points(gradient(graph), points, (0,) * len(base), backend)


@pytest.mark.parametrize("backend", ["native", "numpy"])
@pytest.mark.parametrize("seed", range(30, 36))
def test_random_loops_at_many_points(seed, backend):
    source, values = random.Random(seed), np.random.default_rng(seed)
    graph = random_loop(source, source.randint(1, 5))
    points = [[values.normal(size=leaf.node.shape) for leaf in graph.inputs] for _ in range(11)]
    over_points(gradient(graph), points, (0,) * len(graph.inputs), backend)


def test_vmap_of_rounds_that_points_count():
    root = newton()[0]
    a, x = np.linspace(1.0, 9.0, 3000), np.ones(3000)
    many = sd.vmap(sd.value_and_grad(root, argnums=(0, 1)))
    value, (by_a, by_x) = many(a, x)
    assert np.allclose(value, a, rtol=1e-14, atol=0.0)
    assert np.allclose(by_a[1:], 1.0, rtol=1e-12, atol=0.0) and np.abs(by_x[1:]).max() < 1e-7  # at 1 there is no round
    out = np.empty(3000), (np.empty((2, 3000))[1], a)
    assert many(a.copy(), x, out=out) is out and np.array_equal(out[1][0], by_a) and np.array_equal(a, by_x)
    assert np.array_equal(sd.derivative(root)(np.linspace(1.0, 9.0, 3000), 1.0), by_a)
    assert np.allclose(sd.vmap(root, exact=True)(np.array([4.0, 9.0]), x[:2]), [4.0, 9.0], rtol=1e-15)
    total = sd.grad(lambda a: np.sum(sd.vmap(root, in_axes=(0, None))(a, 1.0)))  # each loop counts rounds of its own
    assert np.allclose(total(np.array([1.0, 3.0, 700.0])), [0.0, 1.0, 1.0], rtol=1e-12, atol=0.0)


def test_loops_in_loops_stay_in_machine_code():
    graph, args = nested(30), (np.linspace(0.1, 3.0, 30), 0.7)
    for backend in ("auto", "numpy"):
        call = sd.value_and_grad(graph, argnums=(0, 1)).compile(*args, backend=backend)
        assert any(node.op == "loop" for node in getattr(call.program, "nodes", ())) == (backend == "auto")
        value, (by_x, by_c) = call(*args)
        for found, expected in zip((value, by_x, by_c), (graph(*args), *gradient(graph)(*args)), strict=True):
            close(found, expected)
    many = sd.vmap(sd.grad(graph), in_axes=(0, None))(np.stack([args[0], args[0] + 1.0]), 0.7)
    close(many[1], gradient(graph)(args[0] + 1.0, 0.7)[0])


ARRAYS = {
    "embed": lambda k, x: 0.3 * (np.diag(x) @ x) + x,
    "diagonal": lambda k, x: 0.1 * np.diagonal(np.outer(x, x) + k),
    "max": lambda k, x: x / np.max(np.abs(x)) + 0.1 * k,
    "rows' min": lambda k, x: np.min(np.outer(x, np.sin(x)), axis=1) + x,
    "prod": lambda k, x: 0.5 * x + np.prod(np.cos(0.1 * x)),
    "cumsum": lambda k, x: 0.1 * np.cumsum(np.outer(x, x), axis=0)[2],
    "cumprod": lambda k, x: np.cumprod(np.cos(0.1 * x)) * x,
    "any, all": lambda k, x: np.where(np.any(x > 1.4), 0.5 * x, np.where(np.all(x < 0.9), x + 1.0, x * x)),
    "take": lambda k, x: x[np.arange(x.size)[::-1] // 2] * x[[0, 3, 1, 1] * (x.size // 4)],
    "set": lambda k, x: smoothed(x),
    "set at": lambda k, x: assigned(x),
}


def smoothed(x):
    y = 1.0 * x
    y[1:-1] = 0.25 * (y[:-2] + y[2:])
    return y


def assigned(x):
    y = np.sin(x)
    y[np.array([1, 5, 3] * 8)] += x[:24]
    return y


@pytest.mark.parametrize("name", ARRAYS)
def test_operations_on_whole_arrays_in_rounds(name):
    w, body = Writer(x=(40,)), ARRAYS[name]
    end, total = w.loop(lambda k, x: (body(k, x), body(k, x) * x), 3, (w.x,), (), (), [], 1)
    graph = w.graph(w.head("sum", w.emit("mul", end, total), axes=(0,)))
    points = [[np.random.default_rng(k).uniform(0.2, 1.5, size=40)] for k in range(9)]
    close(native(graph)(*points[0]), graph(*points[0]))
    for backend in ("native", "numpy"):
        over_points(gradient(graph), points, (0,), backend)


def layer(W, X, b):
    return np.sum(np.tanh(W @ X + b) ** 2)


def moved(W, X, b):
    y = np.zeros((31, 20))
    y[1:] = np.cumsum(W @ X, axis=0)
    y[0] = X[3] * b[0]
    y[:30:2, 1:] += W[::2, :19].max(axis=1, keepdims=True)
    return np.sum(np.concatenate([y, X], axis=0)[5:-5] ** 3) + np.prod(1 + 0.01 * b)


def spread(W, X, b):
    place = np.array([3, 1, 2, 1])
    return np.sum(np.exp(-((W[:, :20] - X[:30]) ** 2))) + np.sum(W[place] * 2.0) + np.sum(np.where(W > 0, W, b))


def quotients(W, X, b):
    return np.sum(X[:30] / b) + np.log(np.sum(W * W))


WHOLE = (layer, moved, spread, quotients)


def matrices(zeros=False):
    values = np.random.default_rng(7)
    return [values.normal(size=shape) * (not zeros or k < 2) for k, shape in enumerate([(30, 40), (40, 20), (30, 1)])]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("f", WHOLE)
def test_whole_arrays_in_files_of_plain_python(f):
    graph = sd.value_and_grad(f, (0, 1, 2)).graph(*matrices())
    text, function = in_python(graph)
    assert "for i in range(30):" in text
    for args in (matrices(), matrices(True)):
        with np.errstate(all="ignore"):
            expected = graph(*args)
        for found, other in zip(function(*args), expected, strict=True):
            close(np.array(found), other)
    call = sd.value_and_grad(f, (0, 1, 2)).compile(*matrices(), backend="python")
    for found, other in zip((lambda v, s: (v, *s))(*call(*matrices())), graph(*matrices()), strict=True):
        close(found, other)


@pytest.mark.parametrize("target", ["python", "numpy"])
@pytest.mark.parametrize("name", ARRAYS)
def test_operations_on_whole_arrays_in_rounds_of_files(name, target):
    w, body = Writer(x=(24,)), ARRAYS[name]
    end, total = w.loop(lambda k, x: (body(k, x), body(k, x) * x), 3, (w.x,), (), (), [], 1)
    graph = w.graph(w.head("sum", w.emit("mul", end, total), axes=(0,)))
    x = np.random.default_rng(3).uniform(0.2, 1.5, size=24)
    for one in (graph, gradient(graph)):
        close(in_python(one, target=target)[1](x), one(x))


# -- C


COMPILER = shutil.which("gcc") or shutil.which("cc") or shutil.which("clang")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler (cc, gcc or clang) here")


def c_text(graph, name="f"):
    return source_of(plan_of(program_of(graph, name=name, loops=True)), "c", name=name)


@pytest.fixture(scope="module")
def in_c(tmp_path_factory):
    """A function that compiles graphs as one library, and gives a function of arguments for each."""

    def compile_all(graphs):
        folder = tmp_path_factory.mktemp("c")
        for k, graph in enumerate(graphs):
            (folder / f"f{k}.c").write_text(c_text(graph, f"f{k}").text)
        command = [COMPILER, "-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-shared", "-fPIC"]
        files = [str(folder / f"f{k}.c") for k in range(len(graphs))]
        subprocess.run([*command, *files, "-o", str(folder / "all.so"), "-lm"], check=True, capture_output=True)
        library = ctypes.CDLL(str(folder / "all.so"))
        return [calling(getattr(library, f"f{k}"), graph) for k, graph in enumerate(graphs)]

    return compile_all


def calling(function, graph):
    function.restype = None

    def call(*args):
        arrays = [np.array(a, leaf.node.dtype, order="C") for a, leaf in zip(args, graph.inputs, strict=True)]
        sizes = solved([(leaf.name, leaf.node.shape, a.shape) for leaf, a in zip(graph.inputs, arrays, strict=True)])
        results = [np.full(numbers(o.shape, sizes), 7.0, o.dtype) for o in graph.outputs]
        given = [a.ctypes.data_as(ctypes.c_void_p) if a.ndim else ctypes.c_double(a) for a in arrays]
        function(
            *(ctypes.c_long(sizes[s]) for s in sorted(sizes)), *given, *(r.ctypes.data_as(ctypes.c_void_p) for r in results)
        )
        return tuple(results) if len(results) > 1 else results[0]

    return call


@needs_compiler
def test_loops_in_c_for_all_sizes(in_c):
    cases = [(sd.value_and_grad(f, (0, 1, 2)).graph(*matrices()), [matrices()]) for f in WHOLE]
    for graph, _, points in EXAMPLES.values():
        cases += [(one, points) for one in (graph, gradient(graph))]
    for seed in range(20, 24):
        source, values = random.Random(seed), np.random.default_rng(seed)
        graph = random_loop(source, source.randint(1, 5))
        args = [values.normal(size=leaf.node.shape) for leaf in graph.inputs]
        cases += [(one, [args]) for one in (graph, gradient(graph))]
    for (graph, points), function in zip(cases, in_c([graph for graph, _ in cases]), strict=True):
        for args in points:
            for found, expected in zip(in_tuple(function(*args)), in_tuple(graph(*args)), strict=True):
                close(found, expected)


NEWTON = """
void newton_grad(double a, double x, double *restrict df_da)
{
    double *x_was = NULL;
    size_t x_was_room = 0;
    const double v0 = 1e-15 * a;
    double x_ = x;
    long r = 0;
    while (fabs(x_ * x_ - a) > v0) {
        x_was = np_room(x_was, &x_was_room, sizeof(double) * (size_t)(r + 1));
        x_was[r] = x_;
        x_ = 0.5 * (x_ + a / x_);
        r++;
    }
    double x_bar = x_ + x_;
    double a_bar = 0.0;
    for (long k = r - 1; k >= 0; k--) {
        const double x__ = x_was[k];
        const double v1 = 0.5 * x_bar;
        a_bar += v1 / x__;
        x_bar = v1 - a * v1 / x__ / x__;
    }
    *df_da = a_bar;
    free(x_was);
}
"""


def test_the_text_of_loops_in_c():
    source = c_text(gradient(newton()[0], [0]), "newton_grad")
    assert source.text[source.text.index("void newton_grad") :] == NEWTON.lstrip()
    source = c_text(gradient(EXAMPLES["product"][0]), "product_grad")
    assert "void product_grad(long n, const double *restrict x, double *restrict df_dx)" in source.text
    assert "for (long k = n - 1; k >= 0; k--) {" in source.text
    assert (
        "n      long, a size, any n >= 1\n" in source.companion
        and "void product_grad(long n, const double *x" in source.companion
    )


AROUND = {
    "prod": lambda y: np.prod(y, axis=1),
    "amax": lambda y: np.max(y, axis=0) + np.min(y),
    "any": lambda y: np.where(np.any(y > 1.5, axis=1) & np.all(y > -9, axis=1), y[:, 0], 0.0),
    "take": lambda y: y[[2, 0, 2]] * y[np.array([[1, 0], [2, 2]]), 1].sum(),
    "cumsum": lambda y: np.cumsum(y, axis=1) * np.cumprod(y, axis=0),
    "diagonal": lambda y: np.diagonal(y[:, 1:]) + np.trace(y[:, :3]),
    "diag": lambda y: np.diag(y[0]) @ y.T,
    "reversed": lambda y: y[::-1, 1::2] * 2.0,
    "concatenate": lambda y: np.concatenate([y, y[:1]]).T @ y[[0, 1, 2, 0], 1],
}


def written(y):
    z = np.zeros_like(y)
    z[1:, ::2] = y[1:, ::2] ** 2
    z[[0, 2], [3, 1]] = y[0, 1] * y[1, 0]
    z[0] += y[2]
    return z


@pytest.mark.parametrize("name", [*AROUND, "written"])
def test_arrays_around_loops(name):
    shown = {**AROUND, "written": written}[name]

    def f(x):
        s = 0.0
        for i in range(150):
            s = np.sin(s * x[1]) + x[0] / (1 + i)
        return np.sum(shown(x.reshape(3, 4) * s)) * s

    x = np.random.default_rng(3).uniform(0.5, 2.0, 12)
    df = sd.value_and_grad(f, loops="keep")
    graph = df.graph(x)
    program = program_of(graph, loops=True)
    assert any(node.op == "loop" for node in program.nodes)
    found = pipeline.machine_of(program).builtin()(x)
    value, gradient = sd.value_and_grad(f)(x)
    np.testing.assert_allclose(found[0], value, 1e-12)
    np.testing.assert_allclose(found[1], gradient, 1e-11, 1e-11)


def test_sums_that_many_cells_read_are_computed_once():
    w = Writer(x=(40, 30))
    away = w.emit("sub", w.x, w.emit("mul", w.head("sum", w.x, axes=(0,)), Constant(0.1)))
    (found,) = w.loop(lambda k, x: 0.5 * x, 3, (away,))
    assert max(line.count("    ") for line in c_text(w.graph(found)).text.splitlines() if "for (" in line) == 3
