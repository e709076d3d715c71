"""Formulas of textbooks, from several fields: what is shown has the derivative's values, and reads as it is printed there."""

import math

import numpy as np
import pytest
import scipy.special
from inside import cell_name, input_names, latex_name, latex_of
from latex_values import page_values
from shown_values import formula_values

import symdiff as sd

RNG = np.random.default_rng(11)
NEVER = ("isfinite", "matmul", "transpose", "--", "+ -", "1 x", "conj(conj", "hypot", r"\frac{1}{1}")


def spd(n):
    a = RNG.uniform(0.2, 1, (n, n))
    return a @ a.T + n * np.eye(n)


def normal(*shape):
    return RNG.normal(size=shape)


def planck(nu, T, h):
    return 2 * h * nu**3 / (math.exp(h * nu / T) - 1)


def butler_volmer(eta, alpha, i0, f):
    return i0 * (np.exp(alpha * f * eta) - np.exp(-(1 - alpha) * f * eta))


def fresnel(theta, n1, n2):
    ct = math.cos(theta)
    cr = math.sqrt(1 - (n1 / n2 * math.sin(theta)) ** 2)
    return ((n1 * ct - n2 * cr) / (n1 * ct + n2 * cr)) ** 2


def airy_disk(x, a, b):
    return (2 * scipy.special.j1(a * x) / (a * x)) ** 2 * b


def put(S, K, T, r, sigma):
    d1 = (np.log(S / K) + (r + sigma**2 / 2) * T) / (sigma * np.sqrt(T))
    d2 = d1 - sigma * np.sqrt(T)
    return K * np.exp(-r * T) * scipy.special.ndtr(-d2) - S * scipy.special.ndtr(-d1)


def student_t(x, mu, s, nu):
    z = (x - mu) / s
    return scipy.special.gammaln((nu + 1) / 2) - scipy.special.gammaln(nu / 2) - (nu + 1) / 2 * np.log(1 + z**2 / nu)


def gelu(x):
    return 0.5 * x * (1 + scipy.special.erf(x / math.sqrt(2)))


def haversine(phi1, phi2, dlon):
    a = math.sin((phi2 - phi1) / 2) ** 2 + math.cos(phi1) * math.cos(phi2) * math.sin(dlon / 2) ** 2
    return 2 * math.asin(math.sqrt(a))


def second_order(omega, zeta, omega_n):
    s = 1j * omega
    return abs(omega_n**2 / (s**2 + 2 * zeta * omega_n * s + omega_n**2))


def rlc(omega, R, L, C):
    Z = R + 1j * omega * L + 1 / (1j * omega * C)
    return abs(Z)


def friction(Re, eps):
    return 64 / Re if Re < 2300 else 0.25 / math.log10(eps / 3.7 + 5.74 / Re**0.9) ** 2


def clipped(r, eps, A):
    return np.minimum(r * A, np.clip(r, 1 - eps, 1 + eps) * A)


def gamma_density(x, a):
    return scipy.special.gamma(a) * x ** (a - 1)


def upper_gamma(a, x):
    return scipy.special.gammaincc(2.0, x) * a


def euler(y, h):
    for _ in range(3):
        y = y + h * (-(y**2))
    return y


def damped(p, t):
    zeta = p["c"] / (2 * math.sqrt(p["k"] * p["m"]))
    omega0 = math.sqrt(p["k"] / p["m"])
    return math.exp(-zeta * omega0 * t) * math.cos(omega0 * math.sqrt(1 - zeta**2) * t)


def charges(x, y, q, p):
    return q * p / abs(x - y)


def two_link(q1, q2, l1, l2):
    return l1 * math.sin(q1) + l2 * math.sin(q1 + q2)


def mahalanobis(x, mu, S):
    d = x - mu
    return np.sqrt(d @ np.linalg.inv(S) @ d)


def log_likelihood(x, mu, Sigma):
    d = x - mu
    return -0.5 * (d @ np.linalg.solve(Sigma, d) + np.linalg.slogdet(Sigma)[1])


def ridge(w, X, y, lam):
    r = X @ w - y
    return r @ r + lam * w @ w


def kalman(P, H, R):
    S = H @ P @ H.T + R
    K = P @ H.T @ np.linalg.inv(S)
    return np.trace((np.eye(4) - K @ H) @ P)


def process(ell, noise, X, y):
    D = (X - X.T) ** 2
    K = np.exp(-D / (2 * ell**2)) + noise**2 * np.eye(5)
    return 0.5 * y @ np.linalg.solve(K, y) + 0.5 * np.linalg.slogdet(K)[1]


def attention(Q, K, V):
    A = sd.special.softmax(Q @ K.T / np.sqrt(3), axis=1)
    return np.sum(A @ V)


def components(W, X):
    return np.sum((X - X @ W @ W.T) ** 2)


def schur(A, B, C):
    return np.linalg.slogdet(A - B @ np.linalg.solve(C, B.T))[1]


def commutator(A, B):
    return np.linalg.norm(A @ B - B @ A)


def rayleigh(x, A, B):
    return (x @ A @ x) / (x @ B @ x)


def logistic(w, X, y):
    z = X @ w
    return np.mean(np.log(1 + np.exp(z)) - y * z)


def correlation(x, y):
    a = x - x.mean()
    b = y - y.mean()
    return a @ b / np.sqrt((a @ a) * (b @ b))


def residuals(X, y):
    b = np.linalg.solve(X.T @ X, X.T @ y)
    return np.sum((y - X @ b) ** 2)


def layer_norm(X, gamma, beta):
    mu, s = X.mean(axis=1, keepdims=True), X.std(axis=1, keepdims=True)
    return np.sum(gamma * (X - mu) / s + beta)


def hinge(w, X, y):
    return np.mean(np.maximum(0, 1 - y * (X @ w))) + 0.5 * w @ w


def contrastive(A, B, t):
    S = A @ B.T / t
    return -np.sum(np.diag(S)) + np.sum(np.log(np.sum(np.exp(S), axis=1)))


def variation(x):
    return np.sum(np.sqrt(np.diff(x) ** 2 + 0.01))


def autocorrelation(x):
    return np.sum(x[1:] * x[:-1]) / np.sum(x**2)


def centred(X):
    J = np.eye(5) - np.ones((5, 5)) / 5
    return np.sum((J @ X) ** 2)


T = r"^{\top}"
# functions, arguments, and parts of what is shown
GRADIENTS = {
    planck: ((0.8, 1.3, 0.7), ()),
    butler_volmer: ((1.0, 0.5, 0.3, 0.2), ("i_{0} f u", r"\eta i_{0} u")),
    fresnel: ((0.4, 1.0, 1.5), (r"\mathrm{ct} &= \cos", "4 n_{1}")),
    airy_disk: ((0.3, 2.0, 0.5), (r"J_{1}^{2}\left(a x\right)",)),
    put: (
        (100.0, 95.0, 0.5, 0.02, 0.2),
        (r"d_{2} &= d_{1} - \sqrt{T} \sigma", r"\Phi\left(- d_{2}\right)", r"e^{- \frac{d_{1}^{2}}{2}}"),
    ),
    student_t: ((0.7, 0.2, 0.5, 4.0), ()),
    gelu: ((0.3,), (r"\frac{\sqrt{2} x e^{- \frac{x^{2}}{2}}}{\sqrt{\pi}}",)),
    haversine: ((0.2, 0.3, 0.4), (r"\sqrt{a} \sqrt{1 - a}",)),
    second_order: ((2.0, 0.5, 1.3), (r"- \frac{4 \omega^{2} \zeta \omega_{n}^{4}}{u^{3}}",)),
    rlc: ((1.0, 2.0, 0.5, 0.3), (r"\frac{R}{\left|{Z}\right|}", "Z &= R")),
    friction: ((1e5, 0.01), (r"\frac{\mathrm{eps}}{3.7}",)),
    clipped: ((0.3, 0.9, 1.1), (r"- A \left[r \leq 1 - \mathrm{eps}\right]",)),
    gamma_density: ((0.4, 2.5), ("x^{a - 2}",)),
    upper_gamma: ((0.6, 1.4), ("- a x e^{- x}",)),
    euler: ((0.3, 0.1), (r"\left(1 - 2 h y\right) \left(1 - 2 h",)),
    damped: (({"k": 1.0, "c": 0.3, "m": 2.0}, 0.7), (r"\omega_{0} &= \sqrt{\frac{k}{m}}", r"e^{- \zeta \omega_{0} t}")),
    charges: ((0.2, 0.7, 0.4, 0.9), (r"\left(x - y\right)^{2}",)),
    two_link: ((0.2, 0.3, 1.0, 1.5), (r"l_{2} \cos{\left(q_{1} + q_{2} \right)} \\",)),
    mahalanobis: ((normal(4), normal(4), spd(4)), (r"d &= x - \mu", r"\sqrt{d^{\top} S^{-1} d}")),
    log_likelihood: ((normal(4), normal(4), spd(4)), (r"\Sigma^{-\top} d d^{\top} \Sigma^{-\top} - \Sigma^{-\top}",)),
    ridge: ((normal(4), normal(5, 4), normal(5), 0.3), (rf"2 \lambda w + 2 X{T} r", "&= - 2 r")),
    kalman: ((spd(4), normal(3, 4), spd(3)), (rf"S &= H P H{T} + R",)),
    process: ((0.7, 0.3, normal(5, 1), normal(5)), (r"K &= E + \mathrm{noise}^{2}\, I", r"\left(K^{-\top} + K^{-1}\right) y")),
    attention: ((normal(5, 3), normal(5, 3), normal(5, 3)), (r"\frac{u K}{\sqrt{3}}", rf"\frac{{Q K{T}}}{{\sqrt{{3}}}}")),
    components: ((normal(4, 3), normal(5, 4)), (rf"u &= X - X W W{T}",)),
    schur: ((spd(4), normal(4, 3), spd(3)), (r"u^{-\top}",)),
    commutator: ((normal(4, 4), normal(4, 4)), (rf"\frac{{u B{T} - B{T} u}}{{\left\lVert u \right\rVert_F}}",)),
    rayleigh: ((normal(4), spd(4), spd(4)), (r"\frac{x x^{\top}}{x^{\top} B x}",)),
    logistic: ((normal(4), normal(5, 4), np.array([0.0, 1, 1, 0, 1])), (rf"\frac{{1}}{{n}} X{T} u",)),
    correlation: ((normal(5), normal(5)), (r"\left\lVert a \right\rVert^{3} \left\lVert b \right\rVert",)),
    residuals: ((normal(5, 3), normal(5)), ()),
    layer_norm: ((normal(5, 4), normal(4), normal(4)), ()),
    hinge: ((normal(4), normal(5, 4), np.array([-1.0, 1, 1, -1, 1])), (r"\left[1 - y \circ \left(X w\right) > 0\right]",)),
    contrastive: ((normal(3, 4), normal(3, 4), 0.2), (r"\operatorname{softmax}",)),
    variation: ((normal(5),), (r"\sqrt{\left(x_{i} - x_{i-1}\right)^{2} + 0.01}",)),
    autocorrelation: ((normal(5),), (r"\left\lVert x \right\rVert^{2}", r"\sum_{k=0}^{n - 2} x_{k} x_{k+1}")),
    centred: ((normal(5, 3),), ("2 C C X",)),
}  # fmt: skip


def numbers_of(args):
    return [v for a in args for v in ([a[k] for k in sorted(a)] if isinstance(a, dict) else [a])]


@pytest.mark.parametrize("f", GRADIENTS, ids=lambda f: f.__name__)
def test_a_gradient_is_shown_as_in_books(f):
    args, wanted = GRADIENTS[f]
    slope = sd.grad(f, argnums=tuple(range(len(args))))
    graph, exact = slope.graph(*args), numbers_of(slope(*args))
    formula = graph.formula.full
    for part in wanted:
        assert part in formula.latex
    for text in (formula.latex, formula.unicode, formula.mathml):
        assert not any(pattern in text for pattern in NEVER), text
    given = dict(zip(input_names(sd.trace(f, *args).inputs), numbers_of(args), strict=True))
    given |= {e.left.name: e.right for e in formula.where if hasattr(e.right, "tolist")}
    if not any(np.ndim(v) for v in given.values()):
        found = list(page_values(formula.latex, {latex_name(name): v for name, v in given.items()}).values())
        np.testing.assert_allclose(found, exact, rtol=1e-9, atol=1e-14)
        return
    if f is centred:  # whose constant is too large to be shown
        given["C"] = np.eye(5) - np.ones((5, 5)) / 5
    for found, number in zip(formula_values(formula, given, [np.shape(e) for e in exact]), exact, strict=True):
        np.testing.assert_allclose(found, number, rtol=1e-9, atol=1e-11)


HIGHER = {
    "Gauss": (
        lambda: sd.derivative(lambda x: math.exp(-(x**2)), order=3),
        (1.2,),
        [r"- 4 x \left(2 x^{2} - 3\right) e^{- x^{2}}"],
    ),
    "norm": (lambda: sd.hessian(lambda x: np.linalg.norm(x)), (normal(4),), None),
    "form": (
        lambda: sd.hessian(lambda x, A: np.exp(-0.5 * x @ A @ x)),
        (normal(4), spd(4)),
        [r"e^{- \frac{x^{\top} A x}{2}} \left(\frac{1}{4} u x x^{\top} u - \frac{1}{2} u\right)"],
    ),
    "log of a sum": (
        lambda: sd.hessian(lambda w, X: np.log(np.sum(np.exp(X @ w)))),
        (normal(4), normal(5, 4)),
        [rf"- X{T} \left(u u{T} X - \operatorname{{diag}}{{\left(u \right)}} X\right)"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HIGHER)
def test_a_higher_derivative_is_shown_as_in_books(name):
    make, args, wanted = HIGHER[name]
    slope = make()
    formula, exact = slope.graph(*args).formula, np.asarray(slope(*args))
    if wanted is not None:
        assert [latex_of(e.right) for e in formula.equations] == wanted
    given = dict(zip("xA" if name == "form" else "wX" if len(args) > 1 else "x", args, strict=True))
    if exact.shape:
        (found,) = formula_values(formula, given, [exact.shape])
        np.testing.assert_allclose(found, exact, rtol=1e-9, atol=1e-12)
    else:
        assert page_values(formula.latex, {cell_name(k, (), 0) if np.ndim(v) else k: v for k, v in given.items()})
