"""Plain functions at points where the formula of a derivative is not a number: name, function, point, order, what is right.

In SINGULAR it exists, or a kink's row decides. In DIRECTIONAL no derivative exists. In OVERFLOW nothing is singular, but parts
overflow or vanish. What is not right is NaN: that of UNSETTLED, which no row and no rewrite settles.
"""

import numpy as np

z, z2 = 0.0, np.zeros(2)


def norm(x):
    return np.sqrt(x[0] * x[0] + x[1] * x[1])


SINGULAR = [
    ("cos(sqrt x)", lambda x: np.cos(np.sqrt(x)), (z,), 1, -0.5),
    ("d2 cos(sqrt x)", lambda x: np.cos(np.sqrt(x)), (z,), 2, 1 / 12),
    ("sin(sqrt x)/sqrt x", lambda x: np.sin(np.sqrt(x)) / np.sqrt(x), (z,), 1, -1 / 6),
    ("cosh(sqrt)", lambda x: np.cosh(np.sqrt(x)), (z,), 1, 0.5),
    ("sin(sqrt)^2", lambda x: np.sin(np.sqrt(x)) ** 2, (z,), 1, 1.0),
    ("sqrt*sin(sqrt)", lambda x: np.sqrt(x) * np.sin(np.sqrt(x)), (z,), 1, 1.0),
    ("exp(-sqrt)(1+sqrt)", lambda x: np.exp(-np.sqrt(x)) * (1 + np.sqrt(x)), (z,), 1, -0.5),
    ("grad cos(norm)", lambda x: np.cos(norm(x)), (z2,), 1, z2),
    ("hess cos(norm)", lambda x: np.cos(norm(x)), (z2,), 2, -np.eye(2)),
    ("hess norm^2", lambda x: norm(x) ** 2, (z2,), 2, 2 * np.eye(2)),
    ("hess exp(-norm^2)", lambda x: np.exp(-(norm(x) ** 2)), (z2,), 2, -2 * np.eye(2)),
    ("hess norm^3", lambda x: norm(x) ** 3, (z2,), 2, np.zeros((2, 2))),
    ("hess sqrt(1+norm^2)", lambda x: np.sqrt(1 + norm(x) ** 2), (z2,), 2, np.eye(2)),
    ("hess norm*sin(norm)", lambda x: norm(x) * np.sin(norm(x)), (z2,), 2, 2 * np.eye(2)),
    ("exp(-1/x2)", lambda x: np.exp(-1 / x**2), (z,), 1, 0.0),
    ("d2 exp(-1/x2)", lambda x: np.exp(-1 / x**2), (z,), 2, 0.0),
    ("arccos^2 @1", lambda x: np.arccos(x) ** 2, (1.0,), 1, -2.0),
    ("d2 arccos^2 @1", lambda x: np.arccos(x) ** 2, (1.0,), 2, 2 / 3),
    ("arccosh^2 @1", lambda x: np.arccosh(x) ** 2, (1.0,), 1, 2.0),
    ("(1-x)sqrt(1-x2) @1", lambda x: (1 - x) * np.sqrt(1 - x * x), (1.0,), 1, 0.0),
    ("log1p(x)/x", lambda x: np.log1p(x) / x, (z,), 1, -0.5),
    ("d2 log1p(x)/x", lambda x: np.log1p(x) / x, (z,), 2, 2 / 3),
    ("sin(x)/x", lambda x: np.sin(x) / x, (z,), 2, -1 / 3),
    ("(1-cos x)/x^2", lambda x: (1 - np.cos(x)) / x**2, (z,), 2, -1 / 12),
    ("x/tanh x", lambda x: x / np.tanh(x), (z,), 2, 2 / 3),
    ("abs(x)^1.5", lambda x: np.abs(x) ** 1.5, (z,), 1, 0.0),
    ("sqrt(x^4) d2", lambda x: np.sqrt(x**4), (z,), 2, 2.0),
    ("(x^6)^(1/3) d2", lambda x: (x**6) ** (1 / 3), (z,), 2, 2.0),
    ("abs(sin x)", lambda x: np.abs(np.sin(x)), (z,), 1, 0.0),
    ("sqrt(x*x)", lambda x: np.sqrt(x * x), (z,), 1, 0.0),
    ("sqrt(1-cos x)", lambda x: np.sqrt(1 - np.cos(x)), (z,), 1, 0.0),
    ("abs*abs d2", lambda x: np.abs(x) * np.abs(x), (z,), 2, 2.0),
    ("x*abs(x)", lambda x: x * np.abs(x), (z,), 1, 0.0),
    ("where(x>0,exp(-1/x),0)", lambda x: np.where(x > 0, np.exp(-1 / x), 0.0), (z,), 1, 0.0),
    ("where(x!=0,sin(x)/x,1) d2", lambda x: np.where(x != 0, np.sin(x) / x, 1.0), (z,), 2, -1 / 3),
    ("y*cos(sqrt x)", lambda x, y: y * np.cos(np.sqrt(x)), (z, 3.0), 1, [-1.5, 1.0]),
    ("sqrt(x)+0 (inf)", lambda x: np.sqrt(x), (z,), 1, np.inf),
]

DIRECTIONAL = [
    ("x2y/(x2+y2)", lambda x: x[0] ** 2 * x[1] / (x[0] ** 2 + x[1] ** 2), (z2,), 1, np.nan),
    ("x3/(x2+y2)", lambda x: x[0] ** 3 / (x[0] ** 2 + x[1] ** 2), (z2,), 1, np.nan),
    ("Peano", lambda x: x[0] * x[1] * (x[0] ** 2 - x[1] ** 2) / (x[0] ** 2 + x[1] ** 2), (z2,), 2, np.nan),
    ("arctan2", lambda x: np.arctan2(x[0], x[1]), (z2,), 1, np.nan),
    ("sqrt|xy|", lambda x: np.sqrt(np.abs(x[0] * x[1])), (z2,), 1, np.nan),
    ("hess norm", lambda x: norm(x), (z2,), 2, np.nan),
]

OVERFLOW = [
    ("log(1+exp x)", lambda x: np.log(1 + np.exp(x)), (800.0,), 1, 1.0),
    ("d2", lambda x: np.log(1 + np.exp(x)), (800.0,), 2, 0.0),
    ("sigmoid", lambda x: 1 / (1 + np.exp(-x)), (-800.0,), 1, 0.0),
    ("sigmoid d2", lambda x: 1 / (1 + np.exp(-x)), (-800.0,), 2, 0.0),
    ("softmax", lambda x: np.exp(x) / (np.exp(x) + np.exp(2 * x)), (500.0,), 1, -7.124576406741286e-218),
    ("log sum", lambda x: np.log(np.exp(x) + np.exp(2 * x)), (1000.0,), 1, 2.0),
    ("tanh(exp)", lambda x: np.tanh(np.exp(x)), (800.0,), 1, 0.0),
    ("exp(-exp)", lambda x: np.exp(-np.exp(x)), (800.0,), 1, 0.0),
    ("log cosh", lambda x: np.log(np.cosh(x)), (1000.0,), 1, 1.0),
    ("log sqrt(1+exp)", lambda x: np.log(np.sqrt(1 + np.exp(x))), (1500.0,), 1, 0.5),
    ("x2/(1+x2)", lambda x: x**2 / (1 + x**2), (1e200,), 1, 0.0),
    ("x3/(x3+1)", lambda x: x**3 / (x**3 + 1), (1e120,), 1, 0.0),
    ("sqrt(1+x2)", lambda x: np.sqrt(1 + x * x), (1e200,), 1, 1.0),
    ("log(1+x2)", lambda x: np.log(1 + x * x), (1e200,), 1, 2e-200),
    ("atan(x3)", lambda x: np.arctan(x**3), (1e120,), 1, 0.0),
    ("1/(1+x4)", lambda x: 1 / (1 + x**4), (1e100,), 1, 0.0),
    ("mixture", lambda x: np.log(0.5 * np.exp(-((x - 1) ** 2)) + 0.5 * np.exp(-((x + 1) ** 2))), (100.0,), 1, -198.0),
    ("x exp(-x)", lambda x: x * np.exp(-x), (1e3,), 1, 0.0),
    ("exp(-1/x2) small", lambda x: np.exp(-1 / x**2), (1e-160,), 1, 0.0),
]

UNSETTLED = {
    "exp(-sqrt)(1+sqrt)",
    "hess norm^3",
    "exp(-1/x2)",
    "d2 exp(-1/x2)",
    "(x^6)^(1/3) d2",
    "log sqrt(1+exp)",
    "x2/(1+x2)",
    "x3/(x3+1)",
    "exp(-1/x2) small",
}
