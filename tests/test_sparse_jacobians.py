"""Jacobians of functions of matrices: how many products of matrices they take, and the numbers of many linear operations."""

import numpy as np
import pytest
from inside import program_of

import symdiff as sd

RNG = np.random.default_rng(11)
A, B, C = RNG.uniform(0.5, 1.5, (3, 4)), RNG.uniform(0.5, 1.5, (4, 3)), RNG.uniform(0.5, 1.5, (3, 3))
FUNCTIONS = {
    "two products": lambda a: (a @ B) @ (a @ B).T,
    "from the left": lambda a: C @ a,
    "from the right": lambda a: a @ B,
    "with a row": lambda a: np.ones((1, 3)) @ a,
    "with a column": lambda a: a @ B[:, :1],
    "with itself transposed": lambda a: a.T @ C @ a,
    "cell by cell": lambda a: np.tanh(a) * a / (1 + a * a),
    "before a product": lambda a: np.sin(a) @ B,
    "after a product": lambda a: np.exp(-(a @ B)) / C,
    "by a row": lambda a: a * B[:, 0],
    "by a column": lambda a: a / C[:, :1],
    "by a number": lambda a: -2.5 * a,
    "sums of rows": lambda a: (a @ B).sum(1, keepdims=True) * C,
    "sums of columns": lambda a: np.outer(a.sum(0), a.sum(1)),
    "spread": lambda a: a[:, :1] + a,
    "regions": lambda a: np.concatenate([a[1:], a[:1] @ B @ a], 0),
    "another shape": lambda a: a.reshape(2, 6) @ a.reshape(6, 2),
    "three axes": lambda a: a[:, None, :] * B.T[None],
    "batches": lambda a: np.stack([a @ B, 2 * a @ B]),
    "the largest": lambda a: np.maximum(a, 1.0) @ np.max(B, 1, keepdims=True),
    "an inverse": lambda a: np.linalg.inv(a @ B + 3 * np.eye(3)),
    "a constant": lambda a: C @ C + 0 * a[:, :3],
}


@pytest.mark.parametrize("backend", ["numpy", "native"])
@pytest.mark.parametrize("mode", ["reverse", "forward"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_jacobians_are_the_differences_of_the_function(name, mode, backend):
    """Against central differences of the function itself."""
    if backend == "native":
        pytest.importorskip("llvmlite", reason="machine code needs llvmlite: pip install 'symdiff[native]'")
    f = FUNCTIONS[name]
    found = sd.jacobian(f, mode=mode, backend=backend, scalarize=False)(A)
    assert found.shape == f(A).shape + A.shape
    for at in np.ndindex(A.shape):
        step = np.zeros(A.shape)
        step[at] = 1e-5
        np.testing.assert_allclose(found[(..., *at)], (f(A + step) - f(A - step)) / 2e-5, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("code", "fFD")
def test_other_dtypes(code):
    def f(a, b):
        return a @ b @ a + a * b[0]

    a = RNG.uniform(0.5, 1.5, (3, 3)).astype(code)
    b = (RNG.uniform(0.5, 1.5, (3, 3)) + (1j * C if code in "FD" else 0)).astype(code)
    by_a, by_b = sd.jacobian(f, (0, 1), scalarize=False)(a, b)
    wide = sd.jacobian(f, (0, 1), scalarize=True)(a.astype("D"), b.astype("D"))
    assert by_a.dtype == by_b.dtype == np.dtype(code)
    for found, expected in zip((by_a, by_b), wide, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5 if code in "fF" else 1e-12)


def test_second_derivatives():
    def f(a):
        return np.sum(np.tanh(a @ B) * C)

    found = sd.hessian(f, scalarize=False)(A)
    gradient = sd.grad(f)
    for at in np.ndindex(A.shape):
        step = np.zeros(A.shape)
        step[at] = 1e-5
        np.testing.assert_allclose(found[at], (gradient(A + step) - gradient(A - step)) / 2e-5, rtol=1e-6, atol=1e-6)


def products(f, *args):
    """The shapes of the products of matrices that a Jacobian takes."""
    steps = program_of(sd.jacobian(f, tuple(range(len(args))), scalarize=False).graph(*args)).program.nodes
    return [step.shape for step in steps if step.op == "matmul"]


def test_products_with_unit_matrices_are_not_made():
    square = np.eye(10)
    assert products(lambda a, b: (a + b) @ (a @ b).T, square, square) == [(10, 10), (10, 10)]
    assert products(lambda a, b: a @ b, A, B) == []
    assert products(lambda a: np.tanh(a @ B), A) == [(3, 3)]  # its value is part of the derivative


def test_one_pass_fills_the_jacobians_of_two_products():
    """Both by one kernel over all cells, so that nothing as large as a Jacobian is kept besides them."""
    plan = sd.jacobian(lambda a, b: (a + b) @ (a @ b).T, (0, 1)).graph(np.eye(10), np.eye(10))
    fused = program_of(plan)
    whole = [task for task in fused.tasks if getattr(task, "domain", ()) == (10, 10, 10, 10)]
    assert [[sink.kind for sink in task.sinks] for task in whole] == [["store", "store"]]


def test_zeros_stay_zeros_beside_infinities():
    a = np.full((2, 2), np.inf)
    found = sd.jacobian(lambda x: x @ a, scalarize=False)(np.eye(2))
    assert np.isinf(found[0, 0, 0, 0]) and found[0, 0, 1, 0] == 0


def rosen(x):
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def replaced(x):
    y = 2 * x
    y[1:-1] = x[1:-1] * x[2:] - x[:-2]
    y[:1] = 0
    return y * x


def heat(u):
    inside = u[1:-1, 1:-1]
    return inside**2 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * inside)


def around(u):
    """Differences along both axes, the edges by themselves."""
    return np.concatenate([(np.diff(u, axis=0) ** 3).ravel(), (u[:, 1:] * u[:, :-1]).ravel(), u[0] ** 2, u[:, -1] ** 2])


STENCILS = {
    "a row of cells": (lambda x: x[2:] - 2 * x[1:-1] + x[:-2] - x[1:-1] ** 3, (8,)),
    "differences": (lambda x: np.diff(x, 2) * x[1:-1], (8,)),
    "neighbours in a ring": (lambda x: np.sin(x - np.roll(x, 1)) * np.roll(x, -2), (8,)),
    "backwards": (lambda x: x * x[::-1], (7,)),
    "every second": (lambda x: x[::2] ** 2 * x[1::2], (8,)),
    "every third, backwards": (lambda x: x[7::-3] * x[:3], (8,)),
    "twice in strides": (lambda x: x[1::2][::-1][:3] * x[::3], (9,)),
    "in place of cells": (replaced, (8,)),
    "where": (lambda x: np.where(x[1:] > x[:-1], x[1:] ** 2, x[:-1]) * x[1:], (8,)),
    "single cells": (lambda x: x[1:] * x[0] + x[-1] ** 2, (6,)),
    "joined": (lambda x: np.concatenate([x[:2] ** 2, x[1:], x[::-1] * x]), (6,)),
    "gradient": (lambda x: np.gradient(x) ** 2, (8,)),
    "a grid": (heat, (5, 6)),
    "a grid in a row": (lambda x: heat(x.reshape(5, 6)).ravel(), (30,)),
    "a grid with edges": (around, (4, 4)),
    "a row of a grid": (lambda u: u[1, 1:] * u[0, :-1] + u[2, :-1], (3, 5)),
    "other axes": (lambda u: u.T[1:] * u.T[:-1], (4, 5)),
    "axes joined": (lambda u: (u[1:] * u[:-1]).reshape(2, 2, 3)[:, 1:], (5, 3)),
    "sums of slices": (lambda u: u[1:].sum(0) * u[0] + (u[:, 1:] * u[:, :1]).sum(1)[:2], (4, 2)),
    "pairs of cells": (lambda x: x[1:, None] * x[None, :-1], (5,)),
    "before a product": (lambda x: np.diff(x) @ A, (4,)),
    "after a product": (lambda x: np.diff(A.T @ x) * x, (3,)),
    "one cell": (lambda x: np.concatenate([x, x[1:], 2 * x * x[:1]]), (1,)),
    "two cells": (lambda x: (x[1:] - x[:-1] ** 2) * x[1:], (2,)),
    "repeated": (lambda u: u[1:] * u[:1] + np.ones(3) * u[:2, :1] - u[0, 0] ** 2, (3, 1)),
    "tiles": (lambda u: np.tile(u, (2, 2))[1:, ::2] ** 2, (2, 3)),
    "a long reach": (lambda x: sum(x[k:].sum() * x[: len(x) - k] [0] + 0 * x for k in range(1, 9)) * x, (9,)),
    "many diagonals": (lambda x: np.concatenate([x[k:] * x[: len(x) - k] for k in range(1, 12)]), (12,)),
}  # fmt: skip


def energy_of_grid(u):
    return np.sum(np.diff(u, axis=0) ** 4) + np.sum((u[:, 1:] * u[:, :-1]) ** 2) + np.sum(u[0] ** 4) + np.sum(heat(u))


def by_complex_steps(f, x):
    found = np.empty((*f(x).shape, *x.shape))
    for at in np.ndindex(x.shape):
        step = x.astype(complex)
        step[at] += 1e-40j
        found[(..., *at)] = f(step).imag / 1e-40
    return found


@pytest.mark.parametrize("backend", ["numpy", "native"])
@pytest.mark.parametrize("name", STENCILS)
def test_derivatives_of_stencils(name, backend):
    """Against complex steps; second derivatives against differences of the gradient."""
    if backend == "native":
        pytest.importorskip("llvmlite", reason="machine code needs llvmlite: pip install 'symdiff[native]'")
    f, shape = STENCILS[name]
    x = np.random.default_rng(5).uniform(0.5, 1.5, shape)
    expected = by_complex_steps(f, x)
    for mode in ("reverse", "forward"):
        np.testing.assert_allclose(sd.jacobian(f, mode=mode, backend=backend, scalarize=False)(x), expected, 1e-12, 1e-12)

    def energy(x):
        return np.sum(f(x) ** 2)

    found, gradient = sd.hessian(energy, backend=backend, scalarize=False)(x), sd.grad(energy, scalarize=True)
    of_gradient = sd.jacobian(sd.grad(energy, scalarize=False), backend=backend, scalarize=False)(x)
    for at in np.ndindex(shape):
        step = np.zeros(shape)
        step[at] = 1e-5
        differences = (gradient(x + step) - gradient(x - step)) / 2e-5
        np.testing.assert_allclose(found[(..., *at)], differences, 1e-5, 1e-5 * abs(found).max())
    np.testing.assert_allclose(of_gradient, found, 1e-12, 1e-12 * abs(found).max())


def test_stencils_of_other_dtypes():
    def f(z):
        return (z[2:] - z[1:-1] * z[:-2]) * np.conj(z[1:-1])

    z = RNG.uniform(0.5, 1.5, 6) + 1j * RNG.uniform(0.5, 1.5, 6)
    for code, tolerance in ("F", 1e-5), ("D", 1e-12):
        found, wide = (sd.wirtinger(f, scalarize=s)(z.astype(c)) for s, c in ((False, code), (True, "D")))
        for own, other in zip(found, wide, strict=True):
            assert own.dtype == np.dtype(code)
            np.testing.assert_allclose(own, other, tolerance, tolerance)
    single = sd.hessian(rosen, scalarize=False)(np.linspace(0, 1, 9).astype("f"))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, sd.hessian(rosen)(np.linspace(0, 1, 9)), 1e-4, 1e-3)


def test_stencils_of_nothing():
    for shape in ((0,), (1,)):
        np.testing.assert_equal(
            sd.jacobian(lambda x: np.diff(x) * x[1:], scalarize=False)(np.ones(shape)), np.ones((0, *shape))
        )
    assert sd.jacobian(lambda x: x * 2, scalarize=False)(np.ones(0)).shape == (0, 0)
    assert sd.hessian(lambda u: np.sum(u[1:] * u[:-1]), scalarize=False)(np.ones((3, 0))).shape == (3, 0, 3, 0)


def large(derivative, f, shape):
    """The operations of a derivative on more than a few arrays as large as its input."""
    graph = derivative(f, scalarize=False).graph(np.linspace(0.5, 1.5, int(np.prod(shape))).reshape(shape))
    nodes = getattr(program_of(graph), "program", program_of(graph)).nodes
    return [node.op for node in nodes if np.prod(node.shape) > 4 * np.prod(shape)]


LINEAR = {
    "a chain": (sd.hessian, rosen, (50,)),
    "a ring": (sd.hessian, lambda x: np.sum((x - np.roll(x, 1)) ** 4), (50,)),
    "two steps": (sd.hessian, lambda x: np.sum(np.diff(x, 2) ** 4), (50,)),
    "conditions": (sd.hessian, lambda x: np.sum(np.where(x[1:] > x[:-1], x[1:] ** 2, x[:-1]) ** 2) + x[0] ** 2 * x[-1], (50,)),
    "in place of cells": (sd.hessian, lambda x: np.sum(replaced(x) ** 2), (100,)),
    "strides": (sd.hessian, lambda x: np.sum(x[::2] ** 2 * x[1::2]), (50,)),
    "a field": (sd.jacobian, lambda u: u[2:] - 2 * u[1:-1] + u[:-2] - u[1:-1] ** 3, (50,)),
    "a grid": (sd.hessian, energy_of_grid, (12, 12)),
    "a grid in a row": (sd.hessian, lambda x: energy_of_grid(x.reshape(12, 12)), (144,)),
    "a field on a grid": (sd.jacobian, heat, (9, 9)),
}


@pytest.mark.parametrize("name", LINEAR)
def test_nothing_is_as_large_as_the_result_beside_it(name):
    """One array is filled, and looked at in the shape of the result."""
    found = large(*LINEAR[name])
    assert len([op for op in found if op in ("assemble", "scatter")]) == 1
    assert set(found) <= {"assemble", "scatter", "reshape"}


def test_diagonals_are_added_to_what_is_dense():
    """In the row of all its cells: no matrix is made of a diagonal."""
    found = large(sd.hessian, lambda x: np.sum(x) ** 2 * np.sum(x**2) + rosen(x), (50,))
    assert found.count("assemble") == 1 and "embed" not in found[found.index("assemble") - 2 :]


def test_cells_beside_what_is_repeated_keep_their_places():
    """The cotangent of a sum over an axis is narrower than that of a cell beside it."""
    x = RNG.uniform(0.5, 1.5, (2, 3))

    def f(x):
        return np.sum(np.sum(x + x[0, 0] ** 2, 1) ** 2)

    np.testing.assert_allclose(sd.hessian(f, scalarize=False)(x), sd.hessian(f, scalarize=True)(x), 1e-12)


SQUARE = RNG.uniform(0.5, 1.5, (12, 12))


@pytest.mark.parametrize(
    ("f", "products"),
    [
        (lambda a: np.trace(a @ SQUARE), 0),
        (lambda a: np.trace(-2 * (a @ SQUARE)), 0),
        (lambda a: np.trace((a @ SQUARE) / a[0, 0]), 2),
        (lambda a: np.sum(np.tanh(np.diagonal(a @ SQUARE))), 1),
        (lambda a: np.sum(np.log(np.diagonal(np.linalg.cholesky(a @ a.T + 9 * np.eye(12))))), 5),
    ],
)
def test_a_diagonal_cotangent_needs_no_product_of_matrices(f, products):
    """Only the products that the value itself has, and those of the rule for cholesky."""
    graph = sd.grad(f, scalarize=False).graph(SQUARE)
    assert [b.op for b in graph.bindings].count("matmul") == products


def filtered(x):
    y, s = np.zeros(len(x)), 0.0
    for k in range(len(x)):
        s = 0.5 * np.sin(s) + x[k]
        y[k] = s
    return y


def chained(x):
    s = 0.0
    for k in range(len(x) - 1):
        s = 0.5 * np.sin(s) * x[k + 1] + x[k]
    return s


def valley(x):
    s = 0.0
    for i in range(len(x) - 1):
        s += 100 * (x[i + 1] - x[i] ** 2) ** 2 + (1 - x[i]) ** 2
    return s


@pytest.mark.parametrize("transform, f", [(sd.jacobian, filtered), (sd.hessian, chained)])
def test_derivatives_without_zeros_keep_their_rounds(transform, f):
    x = np.linspace(0.1, 1.0, 120)
    df = transform(f)
    found = df(x)
    assert found.shape == (120, 120) and "for (" in df.source(x, target="c") and len(df.source(x, target="c")) < 20_000
    np.testing.assert_allclose(found[:, 7], _differences(transform, f, x, 7), rtol=1e-6, atol=1e-8)


def _differences(transform, f, x, k):
    g, e = (f if transform is sd.jacobian else sd.grad(f)), np.zeros(len(x))
    e[k] = 1e-6
    return (g(x + e) - g(x - e)) / 2e-6


def test_derivatives_of_which_most_is_zero_are_written_out():
    x = np.linspace(0.1, 1.0, 60)
    df = sd.hessian(valley)
    assert df.cost(x).derivative.operations < 60 * 20
    np.testing.assert_allclose(df(x)[:, 7], _differences(sd.hessian, valley, x, 7), rtol=1e-6, atol=1e-6)


def test_terms_of_single_cells_under_conditions_are_cells():
    def banded(a):
        u, n = a.copy(), len(a)
        for k in range(n - 1):
            for i in range(k + 1, min(k + 3, n)):
                f = u[i, k] / u[k, k]
                for j in range(k, min(k + 3, n)):
                    u[i, j] -= f * u[k, j]
        return np.sum(np.log(np.abs(np.diag(u))))

    a = np.random.default_rng(3).normal(size=(30, 30)) * 0.3 + 3 * np.eye(30)
    df = sd.grad(banded, loops="unroll")
    assert sum(b.shape == (30, 30) for b in df.graph(a).bindings) < 12  # not one for each cell
    d = np.random.default_rng(4).normal(size=a.shape)
    assert np.sum(df(a) * d) == pytest.approx((banded(a + 1e-6 * d) - banded(a - 1e-6 * d)) / 2e-6, rel=1e-6)
