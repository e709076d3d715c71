"""Thermodynamics and transport (Smith and Van Ness; Perry): equations of state, properties, equilibrium, heat transfer."""

import math
from types import SimpleNamespace

import numpy as np
from numpy import exp, log, sqrt

R = 8.314462618
ANTOINE = {"water": (8.07131, 1730.63, 233.426), "ethanol": (8.20417, 1642.89, 230.300)}
SHOMATE = [
    (100.0, 500.0, (28.98641, 1.853978, -9.647459, 16.63537, 0.000117)),
    (500.0, 2000.0, (19.50583, 19.88705, -8.598535, 1.369784, 0.527601)),
]


def ideal_gas(n, T, V):
    return n * R * T / V


def van_der_waals(T, V, a=0.3640, b=4.267e-5):
    return R * T / (V - b) - a / V**2


def redlich_kwong(T, V, Tc=190.6, Pc=4.599e6):
    a = 0.42748 * R**2 * Tc**2.5 / Pc
    b = 0.08664 * R * Tc / Pc
    return R * T / (V - b) - a / (math.sqrt(T) * V * (V + b))


class PengRobinson:
    """The equation of state of Peng and Robinson (1976)."""

    def __init__(self, Tc, Pc, omega):
        self.Tc, self.Pc = Tc, Pc
        self.kappa = 0.37464 + 1.54226 * omega - 0.26992 * omega**2
        self.b = 0.07780 * R * Tc / Pc

    def alpha(self, T):
        return (1.0 + self.kappa * (1.0 - math.sqrt(T / self.Tc))) ** 2

    def pressure(self, T, V):
        a = 0.45724 * R**2 * self.Tc**2 / self.Pc * self.alpha(T)
        return R * T / (V - self.b) - a / (V**2 + 2 * self.b * V - self.b**2)


def methane_pressure(T, V):
    return PengRobinson(190.6, 4.599e6, 0.012).pressure(T, V)


def compressibility(A, B, steps=25):
    z = 1.0
    for _ in range(steps):
        f = z**3 - (1 - B) * z**2 + (A - 3 * B**2 - 2 * B) * z - (A * B - B**2 - B**3)
        df = 3 * z**2 - 2 * (1 - B) * z + A - 3 * B**2 - 2 * B
        z -= f / df
    return z


def antoine(T, name="water"):
    a, b, c = ANTOINE[name]
    return 10.0 ** (a - b / (c + T)) * 133.322368


def bubble_pressure(x, T):
    fractions = dict(zip(ANTOINE, (x, 1.0 - x), strict=True))
    return sum(fractions[name] * antoine(T, name) for name in fractions)


def wilson(x1, a12, a21):
    x2 = 1.0 - x1
    common = a12 / (x1 + a12 * x2) - a21 / (x2 + a21 * x1)
    return exp(-log(x1 + a12 * x2) + x2 * common), exp(-log(x2 + a21 * x1) - x1 * common)


def nrtl(x, tau, alpha=0.3):
    n = len(x)
    G = [[math.exp(-alpha * tau[i][j]) for j in range(n)] for i in range(n)]
    excess = 0.0
    for i in range(n):
        top = sum(tau[j][i] * G[j][i] * x[j] for j in range(n))
        bottom = sum(G[k][i] * x[k] for k in range(n))
        excess += x[i] * top / bottom
    return excess


def heat_capacity(T):
    for low, high, (a, b, c, d, e) in SHOMATE:
        if low <= T < high:
            t = T / 1000.0
            return a + b * t + c * t**2 + d * t**3 + e / t**2
    raise ValueError("temperature out of range")


def rachford_rice(V, z, K):
    return sum(zi * (Ki - 1.0) / (1.0 + V * (Ki - 1.0)) for zi, Ki in zip(z, K, strict=True))


def flash(z, K):
    V = 0.5
    for _ in range(15):
        slope = -sum(a * (k - 1) ** 2 / (1 + V * (k - 1)) ** 2 for a, k in zip(z, K, strict=True))
        V -= rachford_rice(V, z, K) / slope
    return {"vapour": V, "liquid": [a / (1 + V * (k - 1)) for a, k in zip(z, K, strict=True)]}


def friction_factor(reynolds, roughness):
    if reynolds < 2300:
        return 64.0 / reynolds
    f = 0.02
    for _ in range(10):
        f = (-2.0 * math.log10(roughness / 3.7 + 2.51 / (reynolds * math.sqrt(f)))) ** -2
    return f


def radiation_balance(T, absorbed, emissivity=0.9, h=12.0, ambient=293.0):
    return absorbed - 5.670374419e-8 * emissivity * (T**4 - ambient**4) - h * (T - ambient)


def lmtd(hot_in, hot_out, cold_in, cold_out):
    streams = SimpleNamespace(first=hot_in - cold_out, second=hot_out - cold_in)
    return (streams.first - streams.second) / math.log(streams.first / streams.second)


def rod(conductivity, left, right, cells=12, steps=30):
    T = np.linspace(left, right, cells) + 10.0 * np.sin(np.arange(cells))
    for _ in range(steps):
        new = T.copy()
        new[1:-1] = T[1:-1] + 0.1 * conductivity * (T[2:] - 2.0 * T[1:-1] + T[:-2])
        new[0], new[-1] = left, right
        T = new
    return T.mean()


def humidity(T, relative):
    saturation = 610.94 * exp(17.625 * T / (T + 243.04))
    pressure = relative * saturation
    return 0.622 * pressure / (101325.0 - pressure), 243.04 * log(pressure / 610.94) / (17.625 - log(pressure / 610.94))


def speed_of_sound(T, gamma=1.4, M=0.0289647):
    return sqrt(gamma * R * T / M)


EXAMPLES = [
    (ideal_gas, (2.0, 300.0, 0.05)),
    (van_der_waals, (300.0, 0.001)),
    (redlich_kwong, (250.0, 0.001)),
    (methane_pressure, (250.0, 0.001)),
    (compressibility, (0.2, 0.03)),
    (antoine, (60.0,)),
    (bubble_pressure, (0.3, 70.0)),
    (wilson, (0.4, 0.7, 1.3)),
    (nrtl, ([0.3, 0.7], [[0.0, 0.8], [1.1, 0.0]])),
    (heat_capacity, (800.0,)),
    (flash, ([0.3, 0.4, 0.3], [2.5, 1.1, 0.3])),
    (friction_factor, (5e4, 1e-4)),
    (radiation_balance, (450.0, 2000.0)),
    (lmtd, (380.0, 340.0, 300.0, 325.0)),
    (rod, (0.8, 20.0, 80.0)),
    (humidity, (25.0, 0.6)),
    (speed_of_sound, (290.0,)),
]
