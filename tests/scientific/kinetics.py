"""Chemical kinetics, enzymes and populations: rates, right-hand sides, and simple integrators around them."""

import math
from dataclasses import dataclass, field

import numpy as np

R = 8.314462618


def arrhenius(temperature, factor, energy):
    return factor * math.exp(-energy / (R * temperature))


def modified_arrhenius(T, A, n, Ea, T0=298.15):
    return A * pow(T / T0, n) * math.exp(-Ea / (R * T))


def michaelis_menten(s, vmax, km):
    return vmax * s / (km + s)


def substrate_inhibition(s, vmax=2.0, km=0.5, ki=3.0):
    return vmax * s / (km + s * (1 + s / ki))


def hill(x, k, n):
    return x**n / (k**n + x**n)


def robertson(t, y):
    a, b, c = y
    return [-0.04 * a + 1e4 * b * c, 0.04 * a - 1e4 * b * c - 3e7 * b**2, 3e7 * b**2]


def oregonator(y, s=77.27, q=8.375e-6, w=0.161):
    dy = np.empty_like(y)
    dy[0] = s * (y[1] - y[0] * y[1] + y[0] - q * y[0] ** 2)
    dy[1] = (-y[1] - y[0] * y[1] + y[2]) / s
    dy[2] = w * (y[0] - y[2])
    return dy


def brusselator_steps(y0, a, b, h=0.02, steps=20):
    u, v = y0
    for _ in range(steps):
        du = a + u * u * v - (b + 1.0) * u
        dv = b * u - u * u * v
        u, v = u + h * du, v + h * dv
    return u, v


def rk4(f, y, h, steps):
    for _ in range(steps):
        k1 = f(y)
        k2 = f(y + h / 2 * k1)
        k3 = f(y + h / 2 * k2)
        k4 = f(y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return y


def lotka_volterra(parameters, y0):
    alpha, beta, gamma, delta = parameters
    return rk4(lambda y: np.array([alpha * y[0] - beta * y[0] * y[1], delta * y[0] * y[1] - gamma * y[1]]), y0, 0.05, 10)


def monod_chemostat(x, s, dilution, feed=10.0):
    mu = 0.5 * s / (0.2 + s)
    return {"biomass": (mu - dilution) * x, "substrate": dilution * (feed - s) - mu * x / 0.4}


@dataclass
class Reaction:
    """A mass-action reaction between numbered species."""

    rate: float
    reactants: dict
    products: dict = field(default_factory=dict)

    def speed(self, c):
        v = self.rate
        for species, order in self.reactants.items():
            v *= math.pow(c[species], order)
        return v


def mass_action(c, k1, k2):
    network = [Reaction(k1, {0: 1, 1: 1}, {2: 1}), Reaction(k2, {2: 2}, {0: 1, 1: 1})]
    change = [0.0] * 3
    for reaction in network:
        v = reaction.speed(c)
        for species, count in reaction.reactants.items():
            change[species] -= count * v
        for species, count in reaction.products.items():
            change[species] += count * v
    return change


def lindemann(T, M):
    k0 = arrhenius(T, 1e3, 1e4)
    kinf = arrhenius(T, 1e2, 2e4)
    pr = k0 * M / kinf
    log_fc = math.log10(0.6)
    c = -0.4 - 0.67 * log_fc
    n = 0.75 - 1.27 * log_fc
    x = math.log10(pr) + c
    broadening = log_fc / (1.0 + (x / (n - 0.14 * x)) ** 2)
    return kinf * pr / (1.0 + pr) * 10.0**broadening


def logistic_growth(t, r, k, p0):
    return k / (1.0 + (k - p0) / p0 * math.exp(-r * t))


def bateman(t, lambdas):
    total = 0.0
    n = len(lambdas)
    for i in range(n):
        denominator = 1.0
        for j in range(n):
            if j != i:
                denominator *= lambdas[j] - lambdas[i]
        total += math.exp(-lambdas[i] * t) / denominator
    return math.prod(lambdas[:-1]) * total


def implicit_euler_decay(k, h, steps=5):
    c = 1.0
    for _ in range(steps):
        guess = c
        for _ in range(6):
            guess -= (guess - c + h * k * guess**2) / (1.0 + 2.0 * h * k * guess)
        c = guess
    return c


def dose(concentration, times, clearance):
    area = 0.0
    for (t0, c0), (t1, c1) in zip(
        zip(times, concentration, strict=True), list(zip(times, concentration, strict=True))[1:], strict=False
    ):
        if c1 < c0:
            area += (c0 - c1) * (t1 - t0) / math.log(c0 / c1)
        else:
            area += 0.5 * (c0 + c1) * (t1 - t0)
    return area * clearance


def sir_peak(beta, gamma):
    s, i, r = 0.99, 0.01, 0.0
    peak = 0.0
    for _ in range(40):
        new, gone = beta * s * i, gamma * i
        s, i, r = s - new, i + new - gone, r + gone
        peak = max(peak, i)
    return peak


EXAMPLES = [
    (arrhenius, (350.0, 1e5, 4e4)),
    (modified_arrhenius, (900.0, 2.0, 1.5, 2e4)),
    (michaelis_menten, (0.7, 2.0, 0.4)),
    (substrate_inhibition, (0.9,)),
    (hill, (0.7, 0.5, 2.3)),
    (robertson, (0.0, [0.9, 1e-5, 0.1])),
    (oregonator, (np.array([1.1, 2.0, 3.0]),)),
    (brusselator_steps, ((1.2, 2.8), 1.0, 3.0)),
    (lotka_volterra, (np.array([1.1, 0.4, 0.4, 0.1]), np.array([2.0, 1.0]))),
    (monod_chemostat, (1.3, 0.4, 0.2)),
    (mass_action, ([0.5, 0.7, 0.2], 2.0, 0.3)),
    (lindemann, (1200.0, 0.05)),
    (logistic_growth, (2.0, 0.8, 10.0, 0.5)),
    (bateman, (1.5, [0.3, 0.9, 2.0])),
    (implicit_euler_decay, (0.8, 0.1)),
    (dose, ([0.1, 2.0, 1.4, 0.6, 0.2], [0.0, 1.0, 2.0, 4.0, 8.0], 1.7)),
    (sir_peak, (0.6, 0.2)),
]
