"""Arrays that the traced function makes and assigns into: NumPy's meaning, or an error; never the caller's arrays."""

import numpy as np
import pytest
from numpy import zeros

import symdiff as sd


def heat(u0):
    u = np.zeros(6)
    u[1:-1] = u0
    for _ in range(4):
        new = u.copy()
        new[1:-1] += 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
        u = new
    return np.sum(u**2)


def recurrence(x):
    y = zeros(6)
    y[0], y[1] = x[0], x[1] * x[2]
    for i in range(2, 6):
        y[i] = y[i - 1] * y[i - 2] + i * x[3]
    return y[5]


def in_place(x):
    y = np.ones(4)
    alias = y
    y += x * 2
    y /= 3
    y **= 2
    y -= x
    return np.sum(alias * np.arange(4))


def views(x):
    y = np.empty((2, 4))
    y[...] = x
    flat = y.reshape(-1)
    flat[0] = x[2] * 7
    y.T[3, 1] = x[0]
    row = y[1]
    row[1:3] *= x[1]
    return np.sum(y * np.arange(8.0).reshape(2, 4))


def likes(x):
    y = np.zeros_like(x)
    y[::2] = x[::2] ** 2
    z = np.full_like(x, 2.0)
    z[1] = y[0]
    w = np.array([1.0, 2.0, 3.0, 4.0])
    w[w > 2] = x[:2]
    return np.sum(y * z * w)


def own_copy(x):
    x = x.copy()
    x[0] = 0
    x[1] = x[2] * x[3]
    s = np.sin(x)
    s[0] = 5 * x[1]
    return np.sum(s * x)


def gathered(x):
    y = np.array([x[0] * 2, 1.0, x[1], 3])
    z = np.sin(y)
    y[1] = x[2]
    y[2:] *= z[:2]
    return np.sum(np.exp(y) * z)


def matrix(x):
    a = np.eye(4)
    index = np.arange(4)
    a[index, index] = x
    a[0] = a[1] + 1
    return np.sum(a @ a)


def through_a_helper(x):
    def fill(target, values):
        for i, v in enumerate(values):
            target[i] = v * v

    y = np.linspace(0.0, 1.0, 4)
    fill(y, x[:2])
    return np.prod(y)


def constants_stay_numbers(x):
    a = np.array([[2.0, 1.0], [1.0, 3.0]])
    b = np.linalg.solve(a, np.array([1.0, 2.0]))
    weights = np.linspace(0.0, 1.0, 4)
    if weights.sum() > 1 and weights[1] < 0.5 and np.max(np.abs(a)) == 3:
        weights[0] = x[0]
    assert len(weights.tolist()) == 4 and np.sin(b).shape == (2,)
    return np.sum(weights * x) * b[0] * np.linalg.det(a)


@pytest.mark.parametrize(
    "f", [constants_stay_numbers, heat, recurrence, in_place, views, likes, own_copy, matrix, through_a_helper]
)
def test_value_and_gradient(f):
    x = np.array([0.7, 1.3, -0.4, 0.9])
    before = x.copy()
    value, gradient = sd.value_and_grad(f)(x)
    assert value == pytest.approx(f(x.copy()), rel=1e-14)
    step = 1e-6
    numeric = [(f(before + step * e) - f(before - step * e)) / (2 * step) for e in np.eye(4)]
    np.testing.assert_allclose(gradient, numeric, rtol=1e-6, atol=1e-7)
    np.testing.assert_array_equal(x, before)
    np.testing.assert_allclose(sd.vmap(sd.grad(f))(np.stack([x, x]))[1], gradient)


def test_dtypes():
    def single(x):
        y = np.zeros(2, dtype=np.float32)
        y[0] = x
        return y

    assert sd.jacobian(single)(0.3).dtype == np.float64 and sd.trace(single, 0.3)(0.3).dtype == np.float32

    def rotated(z):
        y = np.zeros(2, dtype=complex)
        y[0] = z * 1j
        y[1] = y[0] ** 2
        return y[1]

    assert sd.derivative(rotated)(0.3) == pytest.approx(-0.6)

    def counted(x):
        n = np.zeros(2, dtype=int)
        n[1] = 3
        return x[n[1]] * n.sum()

    assert sd.grad(counted)(np.ones(4)).tolist() == [0, 0, 0, 3]


def complex_into_real(x):
    y = np.zeros(2)
    y[0] = x[0] * 1j
    return y


def after_a_view(x):
    y = x * 2
    v = y[1:]
    y[0] = 1
    return v


def into_a_view(x):
    y = x * 2
    v = y[1:]
    v[0] = 1
    return y


def out_of_bounds(x):
    y = np.zeros(2)
    y[5] = x[0]
    return y


def wrong_shape(x):
    y = np.zeros(2)
    y[:] = x
    return y


def into_the_argument(x):
    x[0] = 1.0
    return x


def traced_index(x):
    y = np.zeros(3)
    y[x[0]] = 1.0
    return y


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (complex_into_real, "dtype=complex"),
        (after_a_view, "was taken before"),
        (into_a_view, "through the array itself"),
        (out_of_bounds, "out of bounds"),
        (wrong_shape, "broadcast"),
        (into_the_argument, "x = x.copy"),
        (traced_index, "np.where"),
    ],
)
def test_refusals(f, message):
    with pytest.raises(sd.TraceError, match=rf"test_mutation.py:\d+: .*{message}"):
        sd.jacobian(f)(np.ones(3))
