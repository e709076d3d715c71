"""Derivatives written by hand, variable by variable: for Python's numbers, for NumPy's rows of many points, and for numba.

Assumes variables in `x` and a place for each answer in `y`: all partials in the order of the variables, then the value
where it is asked for; `n` is the problem's size. `formulas.c` says the same in C. Guarantees no more operations than a
careful person would write. Refuses nothing.
"""

import numpy as np


def cubic(n, x, y):
    """The gradient, common parts named."""
    a, b, c, d = x[4] * x[4], x[5] * x[5], x[6] * x[6], x[7] * x[7]
    y[0] = x[5] * (3 * d - b)
    y[1] = x[6] * (3 * a - c)
    y[2] = x[7] * (d - 3 * b)
    y[3] = x[4] * (a - 3 * c)
    y[4] = 3 * (x[3] * (a - c) + 2 * x[1] * x[4] * x[6])
    y[5] = 3 * (x[0] * (d - b) - 2 * x[2] * x[5] * x[7])
    y[6] = 3 * (x[1] * (a - c) - 2 * x[3] * x[4] * x[6])
    y[7] = 3 * (x[2] * (d - b) + 2 * x[0] * x[5] * x[7])


def cubic_with_value(n, x, y):
    """The gradient, then the value."""
    cubic(n, x, y)
    y[8] = x[0] * y[0] + x[1] * y[1] + x[2] * y[2] + x[3] * y[3] - 1.2342523


def heart_complex(n, x, y):
    """The Jacobian: rows k = 0..3 of z^k, y^k, p (z^k)', q (y^k)'."""
    p, q, z, w = x[0], x[1], x[2], x[3]
    zz, ww, pz, qw = z * z, w * w, p * z, q * w
    y[0], y[1], y[2], y[3] = 1, 1, 0, 0
    y[4], y[5], y[6], y[7] = z, w, p, q
    y[8], y[9], y[10], y[11] = zz, ww, 2 * pz, 2 * qw
    y[12], y[13], y[14], y[15] = zz * z, ww * w, 3 * pz * z, 3 * qw * w


def heart_real(n, x, y):
    """The Jacobian from the complex one: a block [[re, -im], [im, re]] for each of its entries."""
    for pair in range(2):
        a, c, t, v = x[pair], x[2 + pair], x[4 + pair], x[6 + pair]
        re, im, slope_re, slope_im = 1.0, 0.0, 0.0, 0.0
        for k in range(4):
            row, below = 16 * k + pair, 16 * k + 8 + pair
            y[row], y[row + 2], y[below], y[below + 2] = re, -im, im, re
            y[row + 4], y[row + 6], y[below + 4], y[below + 6] = slope_re, -slope_im, slope_im, slope_re
            factor = k + 1
            slope_re, slope_im = factor * (a * re - c * im), factor * (a * im + c * re)
            re, im = re * t - im * v, re * v + im * t


def factored(n, x, y):
    """One scalar times constants."""
    form = x[0] + 3 * x[1] + 2 * x[2] + 5 * x[3]
    square = form * form
    slope = form * (4 * square - 2)
    y[0] = slope
    y[1] = 3 * slope
    y[2] = 2 * slope
    y[3] = 5 * slope
    y[4] = square * (square - 1)


def f10(n, x, y):
    """Squares of the five sums; each variable stands in two of them."""
    a, b, c = x[0] + x[1] + x[3] + x[6], x[0] + x[2] + x[4] + x[7], x[1] + x[2] + x[5] + x[8]
    d, e = x[3] + x[4] + x[5] + x[9], x[6] + x[7] + x[8] + x[9]
    p, q, r, s, t = 24 * (a * a), 24 * (b * b), 24 * (c * c), 24 * (d * d), 24 * (e * e)
    y[10] = a * p + b * q + c * r + d * s + e * t
    p, q, r, s, t = 3 * p, 3 * q, 3 * r, 3 * s, 3 * t
    y[0], y[1], y[2], y[3], y[4] = p + q, p + r, q + r, p + s, q + s
    y[5], y[6], y[7], y[8], y[9] = r + s, p + t, q + t, r + t, s + t


def rosenbrock(n, x, y):
    """One pass; each step adds to the partial of its neighbour."""
    total, carried = 0.0, 0.0
    for i in range(n - 1):
        gap, rest = 1 - x[i], x[i + 1] - x[i] * x[i]
        push = 200 * rest
        y[i] = carried - 2 * (gap + x[i] * push)
        carried = push
        total += gap * gap + 100 * (rest * rest)
    y[n - 1] = carried
    y[n] = total


def chebyshev(n, x, y):
    """The recurrence and its derivative."""
    z = x[0]
    before, now, slope_before, slope = 1.0, z, 0.0, 1.0
    for _ in range(n - 1):
        before, now, slope_before, slope = now, 2 * z * now - before, slope, 2 * (now + z * slope) - slope_before
    y[0] = slope
    y[1] = now


def product(n, x, y):
    """Products from the left, then from the right: no division."""
    y[0] = 1.0
    for i in range(1, n):
        y[i] = y[i - 1] * x[i - 1]
    right = x[n - 1]
    y[n] = y[n - 1] * right
    for i in range(n - 2, -1, -1):
        y[i] *= right
        right *= x[i]


def logistic(n, x, y):
    """One exponential."""
    s = 1 / (1 + np.exp(-x[0]))
    y[0] = s * (1 - s)
    y[1] = s


def exponential(n, x, y):
    """Its own derivative."""
    e = np.exp(x[0])
    y[0] = e
    y[1] = e


def sine(n, x, y):
    """Sine and cosine."""
    y[0] = np.cos(x[0])
    y[1] = np.sin(x[0])


def sine_chain(n, x, y):
    """The chain rule along the way."""
    z, slope = x[0], 1.0
    for _ in range(n):
        slope, z = slope * np.cos(z), np.sin(z)
    y[0] = slope
    y[1] = z


def complex_polynomial(n, x, y):
    """Horner's rule for both."""
    square = x[0] * x[0]
    y[0] = (3 + 6j) * square + (0.5 - 1j)
    y[1] = ((1 + 2j) * square + (0.5 - 1j)) * x[0] + 2j


def real_through_complex(n, x, y):
    """1 + x**2 + 2 x cos x, in real numbers."""
    c = np.cos(x[0])
    y[0] = 2 * (x[0] + c - x[0] * np.sin(x[0]))
    y[1] = 1 + x[0] * (x[0] + 2 * c)


def branches(n, x, y):
    """By x, y, z and w: x + y once, and one exponential."""
    both = x[0] + x[1]
    e = np.exp(both + x[3])
    value = (both + x[2]) * e
    y[0] = e + value
    y[1] = y[0]
    y[2] = e
    y[3] = value
    y[4] = value


def matrix_function(n, x, y):
    """The Jacobian of (A + B)(A B)^T by A, then by B: each entry has at most two terms."""
    size = 10
    A, B = x[: size * size].reshape(size, size), x[size * size :].reshape(size, size)
    M, S = A @ B, A + B
    SB = S @ B.T
    by_a, by_b = y[: size**4].reshape(size, size, size, size), y[size**4 :].reshape(size, size, size, size)
    y[:] = 0
    for i in range(size):
        for j in range(size):
            for q in range(size):
                by_a[i, j, i, q] += M[j, q]
                by_a[i, j, j, q] += SB[i, q]
                by_b[i, j, i, q] += M[j, q]
                for p in range(size):
                    by_b[i, j, p, q] += A[j, p] * S[i, q]


def lse(n, x, y):
    """The softmax, then the value."""
    top = x[0]
    for i in range(1, n):
        top = max(top, x[i])
    total = 0.0
    for i in range(n):
        y[i] = np.exp(x[i] - top)
        total += y[i]
    for i in range(n):
        y[i] /= total
    y[n] = top + np.log(total)
