"""Large programs as machine code: the same bits as in one function, on small stacks, by any number of threads."""

import itertools
import re
import threading
from importlib import import_module

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inside import ARGUMENTS, MISS, Machine, llvm, llvm_parts
from threads import together

import symdiff as sd
from benchmarks import whole
from benchmarks.problems import heart_complex, rosenbrock

pytest.importorskip("llvmlite", reason="machine code needs llvmlite: pip install 'symdiff[native]'")


def in_parts(program, size, effort=1):
    """The builtin of a Program in parts of `size` statements."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(llvm_parts, "PART", size)
        text, workspace = llvm_parts.in_parts(program, "kernel")
    return Machine(program, text, effort, workspace, passes="none").builtin()


def in_one(program):
    return Machine(program, llvm.point_function(program, "kernel"), 2).builtin()


def bits(results):
    return [np.asarray(r).tobytes() for r in (results if isinstance(results, tuple) else (results,))]


def mixed(x, z, single):
    """All dtypes across parts: conditions, single precision, complex numbers; outputs that are inputs or constants."""
    below = x[0] < x[1]
    a, b = np.sin(x[0]) * single, np.exp(z) * x[1]
    c = np.where(below & ~(x[2] < 0.5), a, x[2]) + np.remainder(x[0], x[1])
    d = b / (z + 2.0) + np.conj(b) * c
    return [np.array([c, x[1], 1.5, a]), np.abs(d), np.array([d, z * d]), single * np.float32(3.0), single, below]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
@pytest.mark.parametrize("effort", [0, 1])
def test_the_same_bits_for_all_dtypes(size, effort):
    args = np.array([0.3, 1.7, 0.9]), np.array(0.5 - 2j), np.array([0.7], np.float32)
    program = sd.value_and_grad(lambda x, z, s: np.real(mixed(x, z, s[0])[2][1])).program(*args)
    assert bits(in_parts(program, size, effort)(args[0], 0.5 - 2j, args[2])) == bits(
        in_one(program)(args[0], 0.5 - 2j, args[2])
    )
    from inside import Plain

    plain = Plain(lambda x, z, s: mixed(x, z, s[0])).program(*args)
    found = in_parts(plain, size, effort)(args[0], 0.5 - 2j, args[2])
    assert bits(found) == bits(in_one(plain)(args[0], 0.5 - 2j, args[2]))
    assert [np.asarray(f).dtype.char for f in found] == ["d", "d", "D", "f", "f", "?"]


OPERATIONS = [
    lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, lambda a, b: a / (b * b + 1), lambda a, b: np.sin(a),
    lambda a, b: np.where(a < b, a, b), lambda a, b: np.maximum(a, b), lambda a, b: np.logaddexp(a, b),
]  # fmt: skip


@given(st.lists(st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 30), st.integers(0, 30)), min_size=5, max_size=40),
       st.integers(1, 20))  # fmt: skip
@settings(max_examples=25)
def test_random_programs_in_parts(steps, size):
    def f(x):
        values = [x[0], x[1], x[2]]
        for operation, i, j in steps:
            values.append(operation(values[i % len(values)], values[j % len(values)]))
        return values[-1] + values[-2]

    x = np.array([0.3, -1.2, 0.8])
    program = sd.value_and_grad(f).program(x)
    assert bits(in_parts(program, size)(x)) == bits(in_one(program)(x))


def test_results_may_overlap_arguments():
    x = np.linspace(0.1, 2, 40)
    program = sd.grad(rosenbrock).program(x)
    kernel = in_parts(program, 20)
    expected = kernel(x)
    padded = np.concatenate([x, [0.0]])
    kernel(padded[:-1], out=padded[1:])
    np.testing.assert_array_equal(padded[1:], expected)
    own = x.copy()
    assert kernel(own, out=own) is own
    np.testing.assert_array_equal(own, expected)


def test_values_find_free_memory():
    x = np.linspace(0.1, 2, 300)

    def chain(x):
        for k in range(3000):
            x = x * 0.5 + k
        return x

    from inside import Plain

    assert llvm_parts.in_parts(Plain(chain, loops="unroll").program(0.5), "kernel")[1] <= 4 * 64
    text, workspace = llvm_parts.in_parts(sd.grad(rosenbrock, loops="unroll").program(x), "kernel")
    assert workspace < 8 * 300 * 4
    lengths = [function.count("\n") for function in re.split(r"^define", text, flags=re.MULTILINE)[1:]]
    assert len(lengths) > 8 and max(lengths) < 8 * llvm_parts.PART


def test_without_memory():
    program = sd.value_and_grad(rosenbrock).program(np.ones(40))
    text, _ = llvm_parts.in_parts(program, "kernel")
    kernel = Machine(program, text, 0, 2**62, passes="none").builtin()
    out = np.empty(()), np.empty(40)
    for call in (lambda: kernel(np.ones(40)), lambda: kernel(np.ones(40), out=out)):
        with pytest.raises(MemoryError):
            call()
    program = sd.grad(rosenbrock).program(np.ones(40))
    text, _ = llvm_parts.in_parts(program, "kernel")
    with pytest.raises(MemoryError):
        Machine(program, text, 0, 2**62, passes="none").builtin()(np.ones(40))


@pytest.mark.parametrize("n", [300, 1800], ids=["optimised", "quickly compiled"])
def test_unrolled_loops_in_threads_with_small_stacks(n):
    f = sd.value_and_grad(rosenbrock, backend="native")
    points = [np.arange(1, n + 1) / n + k for k in range(8)]
    f(points[0])
    failures = []

    def work(x):
        out = np.empty(()), np.empty(n)
        for _ in range(20):
            value, gradient = f(x, out=out)
            by_hand, value_by_hand = whole.rosenbrock(x)
            if not np.isclose(value, value_by_hand) or not np.allclose(gradient, by_hand, rtol=1e-9, atol=1e-6):
                failures.append(x)

    before = threading.stack_size(512 * 1024)
    try:
        together(work, points)
    finally:
        threading.stack_size(before)
    assert not failures


def test_many_complex_numbers():
    x = np.array([1.5 - 0.5j, -0.25 + 2j, 0.3 + 0.1j, 1.1 - 1j])
    program = sd.jacobian(heart_complex).program(x)
    found = {size: bits(in_parts(program, size)(x)) for size in (4, 9, 16)}
    assert all(f == bits(in_one(program)(x)) for f in found.values())


def test_many_arguments():
    args = [float(k) for k in range(ARGUMENTS)]
    f = sd.grad(lambda values: sum(a * b for a, b in itertools.pairwise(values)))
    expected = [a + b for a, b in zip([0.0, *args], [*args[1:], 0.0], strict=False)]
    assert f(args) == [*expected[:-1], args[-2]]
    with pytest.raises(sd.BackendError, match="1000 floating-point arguments"):
        sd.grad(lambda values: sum(a * b for a, b in itertools.pairwise(values)), backend="native")(args)


@pytest.mark.parametrize(
    ("kind", "n"), [(lambda n: [np.arange(3.0) + k for k in range(n)], 60), (lambda n: [1.5 + k for k in range(n)], 600)]
)
def test_lists_of_many_are_checked_in_text_of_linear_length(monkeypatch, kind, n):
    written = []

    def noting(made):
        def note(*args):
            found = made(*args)
            written.append(len(found if isinstance(found, str) else args[0].text))
            return found

        return note

    monkeypatch.setattr("symdiff.runtime.fastcall._entry", noting(import_module("symdiff.runtime.fastcall")._entry))
    monkeypatch.setattr("symdiff.pipeline.load", noting(import_module("symdiff.pipeline").load))
    for size in (n, 2 * n):
        sd.grad(lambda values: sum(np.sum(a * b) for a, b in itertools.pairwise(values)))(kind(size))
    short, long = written
    assert long < 2.5 * short


def test_lists_of_many_pairs_have_a_door():
    pairs = [(1.0 * k, 2.0) for k in range(600)]
    g = sd.grad(lambda pairs: sum(a * a * b for a, b in pairs))
    expected = [(2 * a * b, a * a) for a, b in pairs]
    assert g(pairs) == g(pairs) == expected
    assert g._door is not None
    assert g([(np.float64(a), b) for a, b in pairs]) == expected


def test_other_arguments_are_declined():
    kernel = in_parts(sd.grad(rosenbrock).program(np.ones(40)), 30)
    assert kernel([1.0] * 40) is MISS and kernel(np.ones(41)) is MISS


@pytest.mark.parametrize(
    ("f", "slopes"),
    [
        (lambda x: x[0] * x[-1], lambda x: {0: x[-1], len(x) - 1: x[0]}),
        (lambda x: x[3:6].sum() ** 2, lambda x: dict.fromkeys(range(3, 6), 2 * x[3:6].sum())),
        (lambda x: np.sum(x[:4] ** 3) if x[1] > 0 else x[0], lambda x: dict(enumerate(3 * x[:4] ** 2))),
    ],
)
def test_a_few_cells_of_a_large_array(f, slopes):
    gradient = sd.grad(f)
    x = np.random.default_rng(5).uniform(0.1, 1.0, 10**6)
    assert len(gradient.graph(x).bindings) < 100
    wanted = np.zeros(len(x))
    for cell, slope in slopes(x).items():
        wanted[cell] = slope
    np.testing.assert_allclose(gradient(x), wanted, rtol=1e-14)


def test_an_array_that_is_read_a_thousand_times_and_more():
    def f(x):
        y = np.sin(x)
        t = 0.0 * x
        for _ in range(1200):
            t = t + y * np.cos(1e-3 * t)
        return np.sum(t * y)

    x = np.arange(80.0) / 80
    value, slope = sd.value_and_grad(f, loops="unroll")(x)
    assert value == pytest.approx(f(x), rel=1e-12)
    assert np.sum(slope) == pytest.approx((f(x + 1e-6) - f(x - 1e-6)) / 2e-6, rel=1e-6)
