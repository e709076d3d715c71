"""Programs with loops as machine code, against the evaluator."""

import random

import numpy as np
import pytest
from inside import Constant, Place, Stack, default_rules, extent, pipeline, program_of, transforming
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
