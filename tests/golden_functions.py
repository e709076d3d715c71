"""The functions behind the files in `golden/`; a moved line changes their headers."""

import numpy as np


def polynomial(x, y):
    """A polynomial in two variables."""
    return x**3 * y - 2 * x * y**2 + 0.5 * y


def linear_form(x):
    """l**4 - l**2 of a linear form l, as it stands."""
    s = x[0] + 3 * x[1] + 2 * x[2]
    return s**4 - s**2


def bump(x, y):
    """y*exp(-x**2)."""
    return y * np.exp(-(x**2))


def rotation(z):
    """A holomorphic function of a complex number."""
    return np.exp(1j * z) * (z**2 + 1)


def residuals(p):
    """Two residuals of three parameters."""
    return np.array([p[0] * np.exp(p[1]) - 1.5, p[2] / p[0] + np.log(p[1])])


def kinked(x):
    """A branch, an absolute value and a logarithm."""
    return np.where(x > 0, x * np.log(np.abs(x) + 1), 0.0)


def logistic(x):
    """1/(1 + exp(-x))."""
    return 1 / (1 + np.exp(-x))


def layer(W, b, X):
    """The sum of a layer's activations."""
    return np.sum(np.tanh(W @ X + b))


def differences(x):
    """Rosenbrock's function by slices."""
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)
