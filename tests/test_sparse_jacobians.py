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
