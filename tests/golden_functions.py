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


def root(x, bounds):
    """Raises outside its bounds; the paths inside are merged."""
    if x < bounds[0]:
        raise ValueError(f"{x} is below {bounds[0]}")
    if x > bounds[1]:
        raise OverflowError("too large")
    return np.sqrt(x) if x > 1.0 else 0.5 * (1.0 + x)


def tax(income, rate):
    """Three paths, merged by selects."""
    if income < 10.0:
        return 0.1 * income
    if income < 50.0:
        return 1.0 + rate * (income - 10.0)
    return 1.0 + 40.0 * rate + 2 * rate * (income - 50.0)


def newton(a):
    """A loop of three rounds."""
    x = 1.0
    for _ in range(3):
        x = 0.5 * (x + a / x)
    return x


def smoothed(x, alpha):
    """A loop that fills an array."""
    y = np.zeros(4)
    y[0] = x[0]
    for i in range(1, 4):
        y[i] = alpha * x[i] + (1 - alpha) * y[i - 1]
    return np.sum(y * y)


def spring(state, law):
    """An energy of a dictionary and a dataclass."""
    return 0.5 * law.stiffness * (state["x"] - law.rest) ** 2 + 0.5 * state["v"][0] ** 2


def impedance(w, z):
    """A complex load at a real frequency."""
    return np.exp(1j * w) * z / (1 + 1j * w * z)


def pendulum(angle, speed, damping):
    """The angle after 400 steps."""
    if damping < 0:
        raise ValueError(f"a damping of {damping} drives")
    for _ in range(400):
        speed = speed - 0.01 * (np.sin(angle) + damping * speed)
        angle = angle + 0.01 * speed
    return angle


def recurrent(W, U, b, inputs):
    """The energy of a gated state after each input."""
    h = np.zeros(16)
    energy = 0.0
    for x in inputs:
        z = W @ h + U @ x + b
        h = np.tanh(z[:16]) / (1 + np.exp(-z[16:]))
        energy += np.sum(h * h)
    return energy


def eliminated(A):
    """The logarithm of a determinant by Gaussian elimination."""
    A = A.copy()
    for i in range(len(A)):
        for j in range(i + 1, len(A)):
            A[j] -= A[j, i] / A[i, i] * A[i]
    return np.sum(np.log(np.abs(np.diag(A))))


def relaxed(A, b):
    """A fixed point, in as many rounds as it takes."""
    x = np.zeros(20)
    while np.max(np.abs(A @ x - b)) > 1e-9:
        x = x - 0.2 * (A @ x - b)
    return np.sum(x * b)


ROUGHNESS = [[(7 * i * j + i) % 10 / 10 for j in range(9)] for i in range(9)]


def hopped(x, stride):
    """A walk over a table: what it holds stands below what is computed."""
    for k in range(200):
        x = x + stride * ROUGHNESS[k % 9][(k * k) % 9] * np.sin(x)
    return x


def weathered(x):
    """A table as an array, in an operation on whole arrays."""
    return np.sum(np.tanh(np.array(ROUGHNESS) * x) ** 2)
