"""The problems that tests, notebooks and benchmarks share: plain functions, and points with known answers."""

import numpy as np


def cubic(x):
    """The last equation of the heart dipole system, a cubic in eight variables."""
    return (
        x[2]*x[7]**3 - 3*x[2]*x[7]*x[5]**2 - x[0]*x[5]**3 + 3*x[0]*x[5]*x[7]**2
        + x[3]*x[4]**3 - 3*x[3]*x[4]*x[6]**2 - x[1]*x[6]**3 + 3*x[1]*x[6]*x[4]**2 - 1.2342523
    )  # fmt: skip


def factored(x):
    """l**4 - l**2 of a linear form l."""
    l = x[0] + 3 * x[1] + 2 * x[2] + 5 * x[3]  # noqa: E741
    return l**4 - l**2


def f10(x):
    """Five cubes of sums of four variables out of ten."""
    return 24*(
        (x[0] + x[1] + x[3] + x[6])**3 + (x[0] + x[2] + x[4] + x[7])**3 + (x[1] + x[2] + x[5] + x[8])**3
        + (x[3] + x[4] + x[5] + x[9])**3 + (x[6] + x[7] + x[8] + x[9])**3
    )  # fmt: skip


def rosenbrock(x):
    """Rosenbrock's function, as a Python loop."""
    total = 0.0
    for i in range(len(x) - 1):
        total = total + (1 - x[i]) ** 2 + 100 * (x[i + 1] - x[i] ** 2) ** 2
    return total


def chebyshev(x, n=10):
    """The Chebyshev polynomial T_n by its recurrence."""
    before, now = 1.0, x
    for _ in range(n - 1):
        before, now = now, 2 * x * now - before
    return now


def product(x):
    """x[0]*x[1]*...*x[n-1]."""
    result = x[0]
    for i in range(1, len(x)):
        result = result * x[i]
    return result


def logistic(x):
    """1/(1 + exp(-x))."""
    return 1 / (1 + np.exp(-x))


def heart_real(p):
    """The heart dipole system: eight real equations in a, b, c, d, t, u, v, w."""
    a, b, c, d, t, u, v, w = p
    return np.array([
        a + b - 0.63254,
        c + d + 1.34534,
        t*a + u*b - v*c - w*d + 0.8365348,
        v*a + w*b + t*c + u*d - 1.7345334,
        a*t**2 - a*v**2 - 2*c*t*v + b*u**2 - b*w**2 - 2*d*u*w - 1.352352,
        c*t**2 - c*v**2 + 2*a*t*v + d*u**2 - d*w**2 + 2*b*u*w + 0.843453,
        a*t**3 - 3*a*t*v**2 + c*v**3 - 3*c*v*t**2 + b*u**3 - 3*b*u*w**2 + d*w**3 - 3*d*w*u**2 + 0.9563453,
        c*t**3 - 3*c*t*v**2 - a*v**3 + 3*a*v*t**2 + d*u**3 - 3*d*u*w**2 - b*w**3 + 3*b*w*u**2 - 1.2342523,
    ])  # fmt: skip


def heart_complex(s):
    """The same system as four holomorphic equations in p = a+ic, q = b+id, z = t+iv, y = u+iw."""
    p, q, z, y = s
    return np.array([
        p + q - (0.63254 - 1.34534j),
        p*z + q*y - (-0.8365348 + 1.7345334j),
        p*z**2 + q*y**2 - (1.352352 - 0.843453j),
        p*z**3 + q*y**3 - (-0.9563453 + 1.2342523j),
    ])  # fmt: skip


def complex_polynomial(x):
    """A polynomial with complex coefficients in a real variable."""
    return (1 + 2j) * x**3 + (0.5 - 1j) * x + 2j


def real_through_complex(x):
    """|exp(i x) + x|**2 = 1 + x**2 + 2 x cos x."""
    return np.abs(np.exp(1j * x) + x) ** 2


def branches(x, y, z, w):
    """Two sums that share x + y."""
    return (x + y + z) * np.exp(x + y + w)


def exponential(x):
    """exp(x)."""
    return np.exp(x)


def sine(x):
    """sin(x)."""
    return np.sin(x)


def sine_chain(x, n=10):
    """sin(sin(...sin(x)...)), n times."""
    for _ in range(n):
        x = np.sin(x)
    return x


def rosenbrock_slices(x):
    """Rosenbrock's function, by slices."""
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def matrix_function(A, B):
    """(A + B)(A B)^T."""
    return (A + B) @ (A @ B).T


def linear(W, X):
    """The sum of all cells of a product of matrices."""
    return np.sum(W @ X)


def trace(A, B):
    """The trace of a product of matrices."""
    return np.trace(A @ B)


def solve(A, b):
    """The squared size of the solution of a linear system."""
    return np.sum(np.linalg.solve(A, b) ** 2)


def layer(W, b, X):
    """The sum of a layer's activations."""
    return np.sum(np.tanh(W @ X + b))


def lse(x):
    """The logarithm of a sum of exponentials, safe from overflow."""
    m = np.max(x)
    return m + np.log(np.sum(np.exp(x - m)))


def mixture(alpha, mu, scale, X):
    """The log likelihood of a mixture of Gaussians with diagonal scales, up to a constant."""
    y = (X[:, None, :] - mu) * np.exp(scale)
    inner = alpha + np.sum(scale, 1) - 0.5 * np.sum(y * y, 2)
    top = np.max(inner, 1, keepdims=True)
    ends = np.max(alpha)
    return np.sum(np.log(np.sum(np.exp(inner - top), 1)) + top[:, 0]) - len(X) * (np.log(np.sum(np.exp(alpha - ends))) + ends)
