"""Option pricing and fixed income (Hull): closed formulas, trees, quadrature, curves."""

import math
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import accumulate, pairwise
from statistics import mean

import numpy as np


def normal_cdf(x):
    return 0.5 * (1.0 + math.erf(x / math.sqrt(2.0)))


def normal_pdf(x):
    return math.exp(-0.5 * x**2) / math.sqrt(2.0 * math.pi)


def black_scholes(S, K, T, r, sigma, kind="call"):
    d1 = (math.log(S / K) + (r + 0.5 * sigma**2) * T) / (sigma * math.sqrt(T))
    d2 = d1 - sigma * math.sqrt(T)
    if kind == "call":
        return S * normal_cdf(d1) - K * math.exp(-r * T) * normal_cdf(d2)
    return K * math.exp(-r * T) * normal_cdf(-d2) - S * normal_cdf(-d1)


def hastings_cdf(x):
    """Abramowitz and Stegun, 26.2.17."""
    coefficients = (0.319381530, -0.356563782, 1.781477937, -1.821255978, 1.330274429)
    t = 1.0 / (1.0 + 0.2316419 * abs(x))
    tail = normal_pdf(x) * sum(c * t**k for k, c in enumerate(coefficients, start=1))
    return 1.0 - tail if x >= 0 else tail


def binomial_tree(S, K, T, r, sigma, steps=6, american=False):
    dt = T / steps
    up = math.exp(sigma * math.sqrt(dt))
    p = (math.exp(r * dt) - 1.0 / up) / (up - 1.0 / up)
    values = [max(S * up ** (2 * j - steps) - K, 0.0) for j in range(steps + 1)]
    for i in range(steps - 1, -1, -1):
        for j in range(i + 1):
            held = math.exp(-r * dt) * (p * values[j + 1] + (1.0 - p) * values[j])
            values[j] = max(held, S * up ** (2 * j - i) - K) if american else held
    return values[0]


american_call = partial(binomial_tree, american=True)


def garman_kohlhagen(spot, strike, years, domestic, foreign, sigma):
    forward = spot * math.exp((domestic - foreign) * years)
    deviation = sigma * math.sqrt(years)
    d1 = math.log(forward / strike) / deviation + deviation / 2
    return math.exp(-domestic * years) * (forward * normal_cdf(d1) - strike * normal_cdf(d1 - deviation))


def bond_price(rate, coupon, years, face=100.0):
    flows = [coupon * face] * (years - 1) + [(1.0 + coupon) * face]
    return sum(flow / (1.0 + rate) ** t for t, flow in enumerate(flows, 1))


def duration(rate, coupon, years):
    flows = [coupon] * (years - 1) + [1.0 + coupon]
    weights = [c * math.exp(-rate * t) for t, c in enumerate(flows, 1)]
    return math.fsum(t * w for t, w in enumerate(weights, 1)) / math.fsum(weights)


def nelson_siegel(t, beta, tau):
    ratio = t / tau
    loading = (1.0 - math.exp(-ratio)) / ratio
    return beta[0] + beta[1] * loading + beta[2] * (loading - math.exp(-ratio))


@dataclass
class Curve:
    """Discount factors by linear interpolation of zero rates."""

    times: list
    rates: list

    def rate(self, t):
        return np.interp(t, self.times, self.rates)

    def discount(self, t):
        return math.exp(-self.rate(t) * t)


def swap_rate(rates):
    curve = Curve([0.5, 1.0, 2.0, 5.0], rates)
    dates = [1.0, 1.7, 2.5, 3.5]
    annuity = sum((b - a) * curve.discount(b) for a, b in pairwise([0.0, *dates]))
    return (1.0 - curve.discount(dates[-1])) / annuity


def implied_volatility(price, S, K, T, r):
    sigma = 0.3
    for _ in range(12):
        d1 = (math.log(S / K) + (r + sigma**2 / 2) * T) / (sigma * math.sqrt(T))
        sigma -= (black_scholes(S, K, T, r, sigma) - price) / (S * normal_pdf(d1) * math.sqrt(T))
    return sigma


def asian_path(S, sigma, r, shocks):
    dt = 1.0 / len(shocks)
    path = accumulate(shocks, lambda s, z: s * math.exp((r - sigma**2 / 2) * dt + sigma * math.sqrt(dt) * z), initial=S)
    return max(mean(list(path)[1:]) - 100.0, 0.0)


def heston_characteristic(u, v0, kappa, theta, xi, rho, T=1.0):
    i = 1j
    d = np.sqrt((rho * xi * u * i - kappa) ** 2 + xi**2 * (u * i + u**2))
    g = (kappa - rho * xi * u * i - d) / (kappa - rho * xi * u * i + d)
    bracket = (1 - g * np.exp(-d * T)) / (1 - g)
    c = kappa * theta / xi**2 * ((kappa - rho * xi * u * i - d) * T - 2 * np.log(bracket))
    e = (kappa - rho * xi * u * i - d) / xi**2 * (1 - np.exp(-d * T)) / (1 - g * np.exp(-d * T))
    return abs(np.exp(c + e * v0)) ** 2


def sabr(F, K, T, alpha, beta, rho, nu):
    log_ratio = math.log(F / K)
    mid = (F * K) ** ((1 - beta) / 2)
    z = nu / alpha * mid * log_ratio
    x = math.log((math.sqrt(1 - 2 * rho * z + z * z) + z - rho) / (1 - rho))
    a = ((1 - beta) * alpha / mid) ** 2 / 24
    b = rho * beta * nu * alpha / (4 * mid)
    c = (2 - 3 * rho**2) * nu**2 / 24
    return alpha / (mid * (1 + ((1 - beta) * log_ratio) ** 2 / 24)) * z / x * (1 + (a + b + c) * T)


def barrier_payoff(path, strike, barrier):
    if any(s >= barrier for s in path):
        return 0.0
    return max(path[-1] - strike, 0.0)


def bachelier(F, K, T, sigma):
    @lru_cache
    def moneyness():
        return (F - K) / (sigma * math.sqrt(T))

    return (F - K) * normal_cdf(moneyness()) + sigma * math.sqrt(T) * normal_pdf(moneyness())


def mean_variance(weights, returns, covariance, aversion=3.0):
    w = np.asarray(weights)
    return w @ returns - aversion / 2 * np.sqrt(w @ covariance @ w)


EXAMPLES = [
    (black_scholes, (100.0, 95.0, 0.7, 0.03, 0.25)),
    (hastings_cdf, (0.8,)),
    (binomial_tree, (100.0, 97.0, 0.8, 0.02, 0.3)),
    (american_call, (100.0, 97.0, 0.8, 0.02, 0.3)),
    (garman_kohlhagen, (1.1, 1.15, 0.5, 0.02, 0.01, 0.1)),
    (bond_price, (0.04, 0.05, 8)),
    (duration, (0.04, 0.05, 8)),
    (nelson_siegel, (3.0, [0.04, -0.02, 0.01], 1.7)),
    (swap_rate, (np.array([0.02, 0.025, 0.03, 0.035]),)),
    (implied_volatility, (12.0, 100.0, 97.0, 0.8, 0.02)),
    (asian_path, (110.0, 0.2, 0.03, [0.3, -0.2, 0.9, 0.1])),
    (heston_characteristic, (0.8, 0.04, 1.5, 0.05, 0.4, -0.6)),
    (sabr, (0.03, 0.025, 2.0, 0.02, 0.5, -0.3, 0.4)),
    (barrier_payoff, ([100.0, 104.0, 109.0], 101.0, 120.0)),
    (bachelier, (100.0, 103.0, 0.5, 12.0)),
    (mean_variance, ([0.5, 0.3, 0.2], np.array([0.05, 0.07, 0.03]), np.diag([0.04, 0.09, 0.01]))),
]
