"""Numbers or arrays, value by value: one program in several ways of writing takes the same operations, of any length."""

import numpy as np
import pytest
from inside import Clear, Kernels, program_of

import symdiff as sd

RNG = np.random.default_rng(5)
W = RNG.standard_normal((40, 40)) / 40


def pendulum(y):
    return np.array([y[1], -np.sin(y[0])])


def integrated(y, rounds, slope):
    h = 0.05
    for _ in range(rounds):
        k1 = slope(y)
        k2 = slope(y + h / 2 * k1)
        k3 = slope(y + h / 2 * k2)
        k4 = slope(y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return y


def by_numbers(a, b, rounds):
    h = 0.05
    for _ in range(rounds):
        a1, b1 = b, -np.sin(a)
        a2, b2 = b + h / 2 * b1, -np.sin(a + h / 2 * a1)
        a3, b3 = b + h / 2 * b2, -np.sin(a + h / 2 * a2)
        a4, b4 = b + h * b3, -np.sin(a + h * a3)
        a = a + h / 6 * (a1 + 2 * a2 + 2 * a3 + a4)
        b = b + h / 6 * (b1 + 2 * b2 + 2 * b3 + b4)
    return a


SLOPES = {
    "array": pendulum,
    "stack": lambda y: np.stack([y[1], -np.sin(y[0])]),
    "concatenate": lambda y: np.concatenate([y[1:], -np.sin(y[:1])]),
    "assignment": lambda y: assigned(y),
}


def assigned(y):
    found = np.zeros(2)
    found[0] = y[1]
    found[1] = -np.sin(y[0])
    return found


@pytest.mark.parametrize("rounds", [8, 10, 50])
@pytest.mark.parametrize("way", SLOPES)
def test_a_state_of_two_cells_is_two_numbers(way, rounds):
    def f(y):
        return integrated(y, rounds, SLOPES[way])[0]

    y = np.array([1.0, 0.2])
    df, numbers = sd.grad(f), sd.grad(lambda a, b: by_numbers(a, b, rounds), argnums=(0, 1))
    assert df.cost(y).both.operations <= 1.05 * numbers.cost(*y).both.operations
    assert np.allclose(df(y), numbers(*y), rtol=1e-12)


def between_products(W, y):
    """A small state between large arrays."""
    y = integrated(y + np.sum(np.tanh(W @ W)) * np.array([1.0, 0.5]), 20, pendulum)
    return np.sum(np.sin(W @ W * y[0])) + y[1]


def test_a_small_state_between_large_arrays():
    y = np.array([0.3, 0.1])
    df = sd.value_and_grad(between_products, argnums=(0, 1))
    graph = df.graph(W, y)
    assert not [b for b in graph.bindings if b.shape == (2,) and b.op not in ("array", "put", "add", "reshape")]
    value, (dW, dy) = df(W, y)
    whole = sd.value_and_grad(between_products, argnums=(0, 1), scalarize=False)(W, y)
    assert value == pytest.approx(between_products(W, y), rel=1e-13)
    assert np.allclose(dW, whole[1][0], rtol=1e-10) and np.allclose(dy, whole[1][1], rtol=1e-10)


def network(W1, W2, x):
    z = W2 @ np.tanh(W1 @ x)
    p = np.exp(z - np.max(z))
    return -np.log(p[3] / np.sum(p))


def test_a_few_operations_on_a_short_array_stay_whole():
    args = W, RNG.standard_normal((10, 40)), RNG.standard_normal(40)
    assert len(sd.grad(network, (0, 1)).graph(*args).bindings) < 60


def pairs(p, i, j):
    d = p[i] - p[j]
    s = 1 / np.sum(d * d, axis=1) ** 3
    return np.sum(s * s - s)


@pytest.mark.parametrize("dtype", [float, complex, np.float32])
@pytest.mark.parametrize("shape", [(20, 3), (20,), (20, 17), (20, 2, 3)])
def test_rows_that_are_picked_and_added(shape, dtype):
    places = RNG.integers(0, 20, (19, 3))
    x = RNG.standard_normal(shape).astype(dtype)
    if dtype is complex:
        x = x + 1j * RNG.standard_normal(shape)

    def f(x):
        t = x[places]
        return np.sum(np.sin(t) * t[::-1])

    found, wanted = (sd.grad(f, scalarize=False, backend=backend)(x) for backend in ("auto", "numpy"))
    assert found.dtype == wanted.dtype and np.allclose(found, wanted, rtol=1e-5 if dtype is np.float32 else 1e-13)


def nested_tasks(df, *args):
    """How many tasks of a program NumPy computes, and how many there are."""
    fused = program_of(df.graph(*args))
    tasks = [task for task in fused.tasks if not isinstance(task, Clear)]
    return len(tasks) - len(Kernels(fused).nests), len(tasks)


def test_few_cells_and_rows_move_in_machine_code():
    pytest.importorskip("llvmlite")
    i, j = np.tril_indices(20, -1)
    left, tasks = nested_tasks(sd.value_and_grad(lambda p: pairs(p, i, j)), RNG.standard_normal((20, 3)))
    assert left == 0 and tasks > 3

    def joined(x, y):
        z = np.concatenate([x[1:], y, x[:2] * y[0]])
        z[3:5] = y[:2]
        return np.sum(np.sin(np.diag(z)[2:] @ z))

    left, tasks = nested_tasks(sd.value_and_grad(joined, scalarize=False), RNG.standard_normal(5), RNG.standard_normal(3))
    assert left == 0 and tasks > 5
