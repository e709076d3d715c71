"""Test functions of optimisation, as collections print them (Moré, Garbow and Hillstrom; Jamil and Yang)."""

import math
from functools import reduce
from itertools import pairwise
from math import cos, exp, pi, sin, sqrt

import numpy as np


def sphere(x):
    return sum(v**2 for v in x)


def rosenbrock(x):
    total = 0.0
    for i in range(len(x) - 1):
        total += 100.0 * (x[i + 1] - x[i] ** 2) ** 2 + (1.0 - x[i]) ** 2
    return total


def rastrigin(x):
    return 10.0 * len(x) + sum(v * v - 10.0 * cos(2.0 * pi * v) for v in x)


def ackley(x, a=20.0, b=0.2, c=2.0 * pi):
    n = len(x)
    s1 = math.fsum(v**2 for v in x)
    s2 = math.fsum(cos(c * v) for v in x)
    return -a * exp(-b * sqrt(s1 / n)) - exp(s2 / n) + a + math.e


def griewank(x):
    product = 1.0
    for i, v in enumerate(x, start=1):
        product *= cos(v / sqrt(i))
    return sum(v**2 for v in x) / 4000.0 - product + 1.0


def levy(x):
    w = [1.0 + (v - 1.0) / 4.0 for v in x]
    head = sin(pi * w[0]) ** 2
    tail = (w[-1] - 1.0) ** 2 * (1.0 + sin(2.0 * pi * w[-1]) ** 2)
    return head + sum((v - 1.0) ** 2 * (1.0 + 10.0 * sin(pi * v + 1.0) ** 2) for v in w[:-1]) + tail


def schwefel(x):
    return 418.9829 * len(x) - sum(v * sin(sqrt(abs(v))) for v in x)


def himmelblau(x, y):
    return (x**2 + y - 11.0) ** 2 + (x + y**2 - 7.0) ** 2


def beale(x, y):
    data = [1.5, 2.25, 2.625]
    return sum((d - x * (1.0 - y**k)) ** 2 for k, d in enumerate(data, 1))


def branin(x1, x2):
    a, b, c, r, s, t = 1.0, 5.1 / (4.0 * pi**2), 5.0 / pi, 6.0, 10.0, 1.0 / (8.0 * pi)
    return a * (x2 - b * x1**2 + c * x1 - r) ** 2 + s * (1.0 - t) * cos(x1) + s


def powell_singular(x):
    f = [x[0] + 10.0 * x[1], sqrt(5.0) * (x[2] - x[3]), (x[1] - 2.0 * x[2]) ** 2, sqrt(10.0) * (x[0] - x[3]) ** 2]
    return np.array(f)


def helical_valley(x):
    if x[0] > 0:
        theta = math.atan(x[1] / x[0]) / (2.0 * pi)
    else:
        theta = math.atan(x[1] / x[0]) / (2.0 * pi) + 0.5
    return [10.0 * (x[2] - 10.0 * theta), 10.0 * (math.hypot(x[0], x[1]) - 1.0), x[2]]


def bard(x):
    y = [0.14, 0.18, 0.22, 0.25, 0.29, 0.32, 0.35, 0.39, 0.37, 0.58, 0.73, 0.96, 1.34, 2.10, 4.39]
    f = np.zeros(15)
    for i in range(15):
        u, v = i + 1.0, 15.0 - i
        w = min(u, v)
        f[i] = y[i] - (x[0] + u / (v * x[1] + w * x[2]))
    return f


HARTMANN_A = np.array([[3.0, 10, 30], [0.1, 10, 35], [3.0, 10, 30], [0.1, 10, 35]])
HARTMANN_P = 1e-4 * np.array([[3689.0, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547], [381, 5743, 8828]])
HARTMANN_C = [1.0, 1.2, 3.0, 3.2]


def hartmann3(x):
    outer = 0.0
    for i in range(4):
        inner = 0.0
        for j in range(3):
            inner = inner + HARTMANN_A[i, j] * (x[j] - HARTMANN_P[i, j]) ** 2
        outer = outer + HARTMANN_C[i] * exp(-inner)
    return -outer


def penalty(x):
    def u(v, a=10.0, k=100.0, m=4):
        if v > a:
            return k * (v - a) ** m
        if v < -a:
            return k * (-v - a) ** m
        return 0.0

    y = [1.0 + (v + 1.0) / 4.0 for v in x]
    wave = sum((a - 1.0) ** 2 * (1.0 + 10.0 * sin(pi * b) ** 2) for a, b in pairwise(y))
    return pi / len(x) * (10.0 * sin(pi * y[0]) ** 2 + wave + (y[-1] - 1.0) ** 2) + sum(u(v) for v in x)


def michalewicz(x, m=10):
    return -sum(sin(v) * sin((i + 1) * v * v / pi) ** (2 * m) for i, v in enumerate(x))


def chained_wood(x):
    terms = []
    for i in range(0, len(x) - 3, 2):
        a, b, c, d = x[i : i + 4]
        terms.append(100.0 * (b - a**2) ** 2 + (1.0 - a) ** 2 + 90.0 * (d - c**2) ** 2 + (1.0 - c) ** 2)
        terms.append(10.0 * (b + d - 2.0) ** 2 + 0.1 * (b - d) ** 2)
    return reduce(lambda s, t: s + t, terms, 0.0)


POINT = np.array([0.3, -0.7, 1.2, 0.5])
EXAMPLES = [
    (sphere, (POINT,)),
    (rosenbrock, (POINT,)),
    (rastrigin, (POINT,)),
    (ackley, (POINT,)),
    (griewank, (POINT,)),
    (levy, (POINT,)),
    (schwefel, (100.0 * POINT,)),
    (himmelblau, (1.5, 2.5)),
    (beale, (1.5, 0.7)),
    (branin, (2.0, 3.0)),
    (powell_singular, (POINT,)),
    (helical_valley, (np.array([-0.8, 0.6, 0.2]),)),
    (bard, (np.array([0.1, 1.1, 2.3]),)),
    (hartmann3, (np.array([0.2, 0.5, 0.8]),)),
    (penalty, (np.array([11.0, -12.0, 3.0]),)),
    (michalewicz, (np.array([2.1, 1.4, 1.2]),)),
    (chained_wood, (np.array([0.3, -0.7, 1.2, 0.5, 0.9, 1.1]),)),
]
