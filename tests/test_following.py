"""What the user's code calls is followed: the value is that of the plain call, the derivative that of differences."""

import cmath
import collections
import contextlib
import copy
import dataclasses
import functools
import itertools
import math
import operator
import random
import statistics
import threading
import traceback
import typing
from math import exp
from math import sin as sine

import followed_code
import numpy as np
import pytest
from inside import cloning, following
from threads import together

import symdiff as sd

X = np.array([0.7, 1.3, 0.4])


def square(v):
    return v * v


def logistic(v):
    return 1.0 / (1.0 + math.exp(-v))


def doubled(f):
    @functools.wraps(f)
    def wrapper(*args, **kwargs):
        return 2.0 * f(*args, **kwargs)

    return wrapper


@doubled
def decorated(v):
    return math.sin(v)


@functools.cache
def chebyshev(n, v):
    return (1.0, v)[n] if n < 2 else 2.0 * v * chebyshev(n - 1, v) - chebyshev(n - 2, v)


@functools.wraps(math.exp)
def bounded_exp(v):
    return math.exp(v) + 1.0


@contextlib.contextmanager
def scaled(v):
    yield math.sqrt(v)


@functools.singledispatch
def generic(v):
    return 0.0


@generic.register
def _(v: float):
    return math.exp(v)


class Point(typing.NamedTuple):
    x: float
    y: float

    def length(self):
        return math.hypot(self.x, self.y)


@dataclasses.dataclass(frozen=True)
class Gas:
    temperature: float
    pressure: float = 2.0
    factors: list = dataclasses.field(default_factory=lambda: [math.sqrt(2.0)])
    density: float = dataclasses.field(init=False)
    offset: dataclasses.InitVar[float] = 0.5

    def __post_init__(self, offset):
        object.__setattr__(self, "density", self.pressure / math.sqrt(self.temperature) + offset)


@dataclasses.dataclass(slots=True)
class Slotted:
    v: float
    w: float = 0.0

    def __post_init__(self):
        self.w = math.exp(self.v)


class Vector:
    def __init__(self, *parts):
        self.parts = [float(p) for p in parts]

    def __add__(self, other):
        return Vector(*map(operator.add, self.parts, other.parts))

    def __radd__(self, other):
        return Vector(*(math.fabs(other) + p for p in self.parts))

    def __mul__(self, factor):
        return Vector(*(math.ldexp(factor * p, 1) for p in self.parts))

    def __neg__(self):
        return Vector(*(-1.0 * math.fabs(p) for p in self.parts))

    def __iter__(self):
        for p in self.parts:
            yield math.sqrt(p)

    def __call__(self, v):
        return math.fsum(p * math.exp(v) for p in self.parts)

    @functools.cached_property
    def norm(self):
        return math.sqrt(math.fsum(p * p for p in self.parts))


@functools.cache
def squared_length(vector):
    return math.fsum(p * p for p in vector.parts)


@dataclasses.dataclass(frozen=True)
class Scale:
    factor: float

    def __call__(self, v):
        return math.exp(self.factor * v)


class Dial:
    """Everything that Python calls without parentheses."""

    def __init__(self, value):
        self.value = value

    @property
    def value(self):
        return math.exp(self._value)

    @value.setter
    def value(self, v):
        self._value = math.sqrt(v)

    def __getitem__(self, i):
        return math.sin(self._value) * i

    def __abs__(self):
        return math.fabs(self._value)

    def __float__(self):
        return math.exp(self._value)

    def __enter__(self):
        self._value = math.exp(self._value)
        return self

    def __exit__(self, *error):
        self._value = math.log(self._value)

    def __iadd__(self, other):
        self._value = math.hypot(self._value, other)
        return self

    def __matmul__(self, other):
        return math.fsum([self._value * other._value, 1.0])

    @functools.cache  # noqa: B019
    def power(self, n):
        return 1.0 if n == 0 else math.cos(self._value) * self.power(n - 1)


class Made:
    def __new__(cls, v):
        self = super().__new__(cls)
        self.sine = math.sin(v)
        return self

    def __init__(self, v):
        self.cosine = math.cos(v)


def dial(x):
    turned = Dial(x[0])
    with turned as inside:
        total = inside.value * x[1]
    turned += x[2]
    turned.value = turned[2] ** 2
    return total + turned @ Dial(x[1]) + abs(turned) * float(turned) + turned.power(5)


def sent(x):
    def running():
        total = 0.0
        while True:
            total += math.exp((yield total))

    mean = running()
    next(mean)
    return mean.send(x[0]) * mean.send(x[1])


def swallowed(x):
    y = np.zeros(2)
    try:
        y[0] = x[0]
    except (TypeError, ValueError, sd.TraceError):
        return 5.0 * x[0]
    return 2.0 * y[0] * x[1]


def matched(x):
    match list(x):
        case [a, b, *rest]:
            return math.exp(a) * b + sum(rest)


def written_into(x):
    y = np.empty(3)
    np.multiply(x, 2.0, out=y)
    np.add.at(y, [0, 2, 0], x)
    z = np.empty((2, 2))
    z.fill(x[1])
    w = np.ones(3)
    np.copyto(w, y * x)
    np.sin(w, out=w)
    return y.prod() * z.sum() + w.sum()


def columns(x):
    a = np.outer(x, [1.0, 2.0]) + 0.5
    b = MATRIX[:, [0, 1]].copy()
    b[1] = a[0] * math.exp(x[2])
    k = np.eye(3) * 2.0
    k += np.diag(x)
    k[0, 1:] -= a[1:, 1]
    return np.sum(b.T @ k @ b)


class Model:
    """Work arrays filled in methods of its own."""

    def __init__(self, n):
        self.n = n

    def fill(self, u, x):
        for i in range(1, self.n):
            u[i] = u[i - 1] * 0.5 + math.sin(x)

    def run(self, x):
        u = np.zeros(self.n)
        self.fill(u, x)
        return float(np.sum(u**2))


def closure(x):
    count = 0.0

    def add(v):
        nonlocal count
        count += math.exp(v)
        return count

    for v in x:
        add(v)
    return count


def memo(x):
    @functools.cache
    def term(n):
        return x[0] if n == 0 else math.sin(term(n - 1)) + x[1]

    return term(12)


def generator(x):
    def powers(v):
        p = 1.0
        while True:
            yield p
            p = p * v

    return sum(itertools.islice(powers(x[0]), 6))


def keywords(a, /, b, *rest, scale=1.0, **named):
    return scale * math.fsum([a, b, *rest, *named.values()])


def context(x):
    with scaled(x[0]) as root:
        return root * x[1]


def inner_class(x):
    class Local:
        offset = math.sqrt(4.0)

        def value(self):
            return math.exp(x[0]) + self.offset

    return Local().value()


def accumulated(x):
    ys = []
    table = {"a": math.sqrt(x[0])}
    ys.append(table["a"])
    ys.extend(map(math.cos, x))
    table["b"] = ys[-1] ** 2
    ys.sort(reverse=True)
    return sum(ys) + table["b"]


def copied_array(x):
    work = TABLE.copy()
    work[1] = x[0]
    stiffness = 2.0 * MATRIX
    stiffness[0, 0] += x[1]
    return work @ stiffness @ work


TABLE = np.array([1.0, 2.0, 3.0])
MATRIX = np.arange(9.0).reshape(3, 3)
NAMED = {"square": square, "exp": math.exp}

USAGES = {
    "math": lambda x: math.exp(x[0]) * math.sin(x[1]) + math.atan2(x[0], x[2]) + math.pow(x[1], 1.5) + math.log(x[0], 3.0),
    "more of math": lambda x: math.log2(x[0]) + math.log1p(x[1]) + math.cbrt(x[2]) + math.tanh(x[0]) + math.degrees(x[1]),
    "inverse": lambda x: math.asin(x[0] / 2) + math.acos(x[2]) + math.atanh(x[2]) + math.asinh(x[1]) + math.acosh(x[1]),
    "special": lambda x: math.erf(x[0]) + math.erfc(x[1]) + math.gamma(x[2] + 1) + math.lgamma(x[0] + 2),
    "hypot and dist": lambda x: math.hypot(*x) + math.dist(x, [1.0, 2.0, 3.0]) + math.hypot(x[0]),
    "fsum and prod": lambda x: math.fsum(x) * math.prod(x) + math.prod([x[0], 2.0], start=3.0),
    "floor and its like": lambda x: (math.floor(x[1]) + math.ceil(x[0]) + math.trunc(x[1]) + round(x[1])) * x[2],
    "parts": lambda x: math.modf(x[1])[0] + math.fmod(x[1], 0.4) + math.remainder(x[1], 0.4) + math.copysign(x[0], -1.0),
    "mantissa": lambda x: math.frexp(x[1])[0] * 3.0 + math.ldexp(x[0], 3) + math.fabs(-x[2]),
    "imported names": lambda x: exp(x[0]) + sine(x[1]),
    "cmath": lambda x: abs(cmath.exp(1j * x[0]) + cmath.sqrt(-x[1])) + cmath.phase(complex(x[0], x[1])),
    "polar": lambda x: cmath.polar(complex(x[0], x[2]))[0] + cmath.rect(x[0], x[1]).real + cmath.log(x[0] + 2j, 3.0).imag,
    "float and complex": lambda x: float(x[0]) * complex(x[1]).real + complex(x[0], 2.0).imag * float("1.5") + float(3),
    "int": lambda x: x[int("1")] * int(2.7) + x[0] ** int(True),
    "abs pow sum": lambda x: abs(-x[0]) + pow(x[1], 3) + pow(2.0, x[2]) + sum(x) + sum([x[0], x[1]], start=1.0),
    "divmod": lambda x: sum(divmod(x[1], 0.4)) + divmod(3.0, x[0])[1],
    "round": lambda x: round(x[1], 1) * x[0] + round(2.675, 2),
    "max and min": lambda x: max(x) * min(x) + max(x[0], 0.1) + min(x[0], x[1], 2.0) + max([x[2], 0.0]) + max(1, 2),
    "sorted": lambda x: sum(a * b for a, b in zip(sorted(x), sorted([x[0], 0.5, x[1]], reverse=True), strict=True)),
    "map filter zip enumerate": lambda x: sum(map(logistic, x)) + sum(i * a for i, a in enumerate(x))
    + sum(filter(lambda v: v is not None, [x[0], None])) + sum(a * b for a, b in zip(x, reversed(list(x)), strict=True)),
    "reduce": lambda x: functools.reduce(max, x) + functools.reduce(operator.mul, map(math.exp, x), 2.0),
    "operator": lambda x: operator.add(x[0], 1.0) * operator.itemgetter(1)(x) + operator.pow(x[2], 2)
    + operator.methodcaller("length")(Point(x[0], x[1])) + operator.truediv(1.0, x[1]),
    "itertools": lambda x: sum(itertools.accumulate(x, lambda a, b: a * math.sin(b)))
    + sum(a * b for a, b in itertools.combinations(x, 2)) + sum(itertools.starmap(math.hypot, [(x[0], x[1])])),
    "more itertools": lambda x: sum(itertools.chain(x, [1.0])) + sum(a * b for a, b in itertools.pairwise(x)),
    "statistics": lambda x: statistics.mean(x) + statistics.fmean(list(x), weights=[1, 2, 3]) + statistics.stdev(x)
    + statistics.variance([x[0], 1.0, x[2]]) + statistics.median(x) + statistics.geometric_mean(x)
    + statistics.harmonic_mean(x) + statistics.pstdev([1.0, 2.0]) * x[0],
    "list comprehension": lambda x: sum([math.exp(a) * b for a in x for b in x]),
    "dict and set comprehension": lambda x: sum({k: math.sin(v) for k, v in enumerate(x)}.values())
    + len({i % 2 for i in range(3)}),
    "generator expression": lambda x: math.fsum(math.sqrt(v) for v in x),
    "generator": generator,
    "closure with nonlocal": closure,
    "lambda in a lambda": lambda x: (lambda v: math.exp(v))(x[0]) + [lambda v: v, lambda v: math.cos(v)][1](x[1]),
    "helper": lambda x: logistic(x[0]) + square(logistic(x[1])),
    "helper of another module": lambda x: followed_code.growth(x[0]),
    "star import": lambda x: followed_code.starred(x[0]),
    "functions in a dict": lambda x: NAMED["square"](x[0]) + NAMED["exp"](x[1]),
    "decorated": lambda x: decorated(x[0]) * decorated(v=x[1]),
    "a wrapper with another's name": lambda x: bounded_exp(x[0]),
    "lru_cache": lambda x: chebyshev(9, x[2]) + chebyshev(5, 0.3) * x[0],
    "cache of a closure": memo,
    "partial": lambda x: functools.partial(math.pow, x[0])(2.0) + functools.partial(keywords, 1.0, scale=x[1])(x[2]),
    "keywords": lambda x: keywords(x[0], x[1], x[2], 4.0, scale=math.exp(x[0]), extra=x[1]),
    "recursion": lambda x: (lambda f: f(f, x[0], 6))(lambda f, v, n: v if n == 0 else math.sin(f(f, v, n - 1)) + v),
    "method": lambda x: followed_code.Spring(x[0], x[1]).energy(x[2]),
    "class method": lambda x: followed_code.Spring.soft(x[0]).energy(x[2]),
    "super": lambda x: followed_code.Damped(x[0], x[1], x[2]).energy(2.0),
    "property": lambda x: followed_code.Spring(x[0], x[1]).period,
    "property through super": lambda x: followed_code.Damped(x[0], x[1], x[2]).period,
    "cached property": lambda x: Vector(*x).norm ** 2 + Vector(*x).norm,
    "named tuple": lambda x: Point(x[0], x[1]).length() + Point(x=x[2], y=1.0).y * Point(*x[:2])[0],
    "dataclass": lambda x: Gas(x[0]).density + Gas(x[1], pressure=x[2], offset=1.0).density * Gas(1.0).factors[0],
    "dataclass with slots": lambda x: Slotted(x[0]).w,
    "operators of a class": lambda x: sum((Vector(*x) + Vector(*x) * x[0]).parts) + sum((-Vector(*x)).parts),
    "reflected operator": lambda x: sum((x[0] + Vector(*x)).parts),
    "sums of objects": lambda x: sum(sum([Vector(*x), Vector(1.0, 2.0, 3.0)], Vector(0.0, 0.0, 0.0)).parts)
    + sum(functools.reduce(operator.add, [Vector(*x), Vector(x[0], x[1], 1.0)]).parts),
    "iteration over an object": lambda x: sum([v * 2.0 for v in Vector(*x)]),
    "callable object": lambda x: Vector(*x)(x[0]),
    "context manager": context,
    "single dispatch": lambda x: generic(x[0]) * generic("text") + generic(x[1]),
    "inner class": inner_class,
    "lists and dicts": accumulated,
    "deque": lambda x: collections.deque(map(math.exp, x), maxlen=2)[0],
    "work array in a method": lambda x: Model(5).run(x[0]),
    "copies of captured arrays": copied_array,
    "array of traced numbers": lambda x: np.array([math.exp(x[0]), 1.0, x[1]], dtype=float) @ np.asarray([x[2], x[0], 2.0]),
    "nested lists": lambda x: np.linalg.det(np.array([[x[0], 1.0], [math.sin(x[1]), x[2]]])),
    "full and linspace": lambda x: np.sum(np.full(3, x[0]) * np.linspace(x[1], x[2], 3)),
    "vectorize": lambda x: np.sum(np.vectorize(logistic)(x)),
    "interpolation": lambda x: np.interp(x[0], [0.0, 0.5, 1.0, 2.0], [1.0, 3.0, 2.0, 5.0]) + np.interp(0.8, [0.0, 1.0], x[:2]),
    "isinstance": lambda x: (x[0] if isinstance(x[0], float) else 0.0) + (x[1] if isinstance(x, np.ndarray) else 0.0),
    "types": lambda x: x[0] * np.isscalar(x[0]) + x[1] * hasattr(x[1], "__len__") + type(x[0])(x[2]),
    "any and all of static": lambda x: x[0] * any(i > 1 for i in range(3)) * all([True, 1]),
    "seeded random numbers": lambda x: x[0] * np.random.default_rng(3).normal() + x[1] * random.Random(5).random(),
    "calls without parentheses": dial,
    "own __new__": lambda x: Made(x[0]).sine * Made(x[1]).cosine,
    "values sent to a generator": sent,
    "errors that the user catches": swallowed,
    "match": matched,
    "written into arrays": written_into,
    "matrices": columns,
    "piecewise": lambda x: np.sum(np.piecewise(x, [x < 0.5, x > 1.0], [lambda v: v**2, 3.0, lambda v: math.e * np.exp(v)])),
    "fromfunction": lambda x: np.sum(np.fromfunction(lambda i, j: (i + j) * math.exp(x[0]), (2, 3))),
    "replace": lambda x: dataclasses.replace(Slotted(x[0]), v=x[1]).w + dataclasses.asdict(Slotted(x[2]))["w"],
    "operator.call": lambda x: operator.call(math.exp, x[0]),
    "transforms inside": lambda x: sd.grad(lambda v: math.exp(v * x[0]))(x[1]) + np.sum(sd.vmap(lambda v: math.sin(v))(x)),
    "eval of arithmetic": lambda x: eval("x[0]*x[1]"),
    "assigned in an expression": lambda x: sum(y * y for v in x if (y := math.exp(v)) is not None),
    "copies": lambda x: copy.deepcopy([x[0], 1.0])[0] * np.sum(copy.copy(x)) + copy.deepcopy({"a": x})["a"][1],
    "cached function of an object": lambda x: squared_length(Vector(x[0], x[1])) + squared_length(Vector(x[0], 1.0)),
    "frozen callable": lambda x: Scale(x[0])(2.0) * Scale(x[1])(3.0),
    "scipy": lambda x: np.sum(scipy_special().logsumexp(x)) + scipy_linalg().solve(MATRIX + np.eye(3), x)[0],
}  # fmt: skip


def scipy_special():
    return pytest.importorskip("scipy.special")


def scipy_linalg():
    return pytest.importorskip("scipy.linalg")


@pytest.mark.parametrize("name", USAGES)
def test_value_and_derivative(name):
    f = USAGES[name]
    before = X.copy()
    value, gradient = sd.value_and_grad(f)(X)
    assert value == pytest.approx(f(X), rel=1e-13, abs=1e-14)
    step = 1e-6
    numeric = [(f(X + step * e) - f(X - step * e)) / (2 * step) for e in np.eye(3)]
    np.testing.assert_allclose(gradient, numeric, rtol=2e-7, atol=2e-8)
    np.testing.assert_array_equal(X, before)


GENERATOR = np.random.default_rng(0)


def formatted(x):
    return float(f"{x[0]:.3f}")


def as_key(x):
    return {x[0]: 1.0}[x[0]]


def evaluated(x):
    return eval("math.exp(x[0])")


def into_a_captured_array(x):
    TABLE[0] = x[0]
    return TABLE.sum()


def dumped(x):
    import json

    return len(json.dumps([x[0]]))


def packed(x):
    import struct

    return struct.pack("d", x[0])


def logarithm_of_a_matrix(x):
    return scipy_linalg().logm(MATRIX * x[0])


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (lambda x: int(x[0] * 1j), "real number"),
        (lambda x: list(range(3))[x[0]], "static"),
        (lambda x: TABLE[x[0]], r"int\(x\)"),
        (formatted, "print"),
        (lambda x: "%.3f" % x[0], "not followed"),  # noqa: UP031
        (as_key, "key"),
        (lambda x: {x[0]}, "key"),
        (lambda x: hash(x[0]), "key"),
        (lambda x: id(x[0]) * x[0], "compare values"),
        (lambda x: x[0] * random.random(), "random number"),
        (lambda x: x[0] * random.gauss(0.0, 1.0), "random number"),
        (lambda x: x * np.random.rand(3), "random number"),
        (lambda x: x * np.random.default_rng().normal(size=3), "random number"),
        (lambda x: x * GENERATOR.normal(size=3), "random number"),
        (lambda x: sum(map(random.uniform, [0.0], x)), "random number"),
        (evaluated, "eval"),
        (dumped, "json.dumps.* sd.primitive"),
        (packed, "struct.pack.* sd.primitive|not followed"),
        (logarithm_of_a_matrix, "logm|not followed"),
        (into_a_captured_array, r"np.array\(y\)"),
        (lambda x: math.factorial(x[0]), "integers"),
        (lambda x: math.sqrt(x[0] * 1j), "cmath"),
        (lambda x: np.unique(x), "not supported"),
    ],
)
def test_what_cannot_be_followed_is_refused_at_the_users_line(f, message):
    table = TABLE.copy()
    with pytest.raises(sd.TraceError, match=rf"test_following.py:\d+: .*({message})") as caught:
        sd.trace(f, X)
    line = int(str(caught.value).split(":")[1])
    first = f.__code__.co_firstlineno
    assert first <= line <= first + 4
    np.testing.assert_array_equal(TABLE, table)


def test_a_whole_array_in_math_is_what_it_is_in_the_plain_call():
    for f in (lambda x: math.sqrt(x), lambda x: float(x)):
        with pytest.raises(TypeError):
            f(X)
        with pytest.raises(TypeError, match=r"test_following.py:\d+"):
            sd.trace(f, X)


def test_printing_shows_a_traced_value(capsys):
    def f(x):
        print("x is", x, f"{x}")
        return x * x

    assert sd.grad(f)(3.0) == 6.0
    assert "<traced" in capsys.readouterr().out


def test_results_are_ieee_where_python_raises():
    for f, x, expected in (
        (math.sqrt, -1.0, math.nan),
        (lambda x: math.log(x), 0.0, -math.inf),
        (lambda x: math.exp(x), 1000.0, math.inf),
        (lambda x: math.fsum([x, 1.0]), math.inf, math.inf),
    ):
        np.testing.assert_equal(sd.trace(f, 1.0)(x), expected)


def test_fsum_is_nearly_exact():
    def f(x):
        return math.fsum([1e16, x, -1e16, 1e-8 * x, x])

    value, slope = sd.value_and_grad(f)(1.1)
    assert value == pytest.approx(f(1.1), rel=1e-15) and slope == pytest.approx(2 + 1e-8)


@pytest.mark.parametrize("digits", [1, 2, 3, 7, 0, -1])
def test_round_is_pythons(digits):
    graph = sd.trace(lambda x: round(x, digits), 0.5)
    points = [
        2.675,
        0.15,
        0.25,
        0.35,
        1.005,
        -2.675,
        25.0,
        35.0,
        1e9 / 3,
        1e10 / 3,
        1e300,
        math.inf,
        0.0,
        1.0,
        -0.5,
        *np.random.default_rng(0).normal(size=50),
    ]
    for point in points:
        assert graph(point) == round(float(point), digits)


def test_sums_of_conditions_are_one_condition():
    asked = []

    class Watched(following.Tracer):
        __slots__ = ()

        def __bool__(self):
            asked.append(self)
            return True

    def f(x):
        found = any([v > 2.0 for v in x] + [False]), all(v < 3.0 for v in x)
        return np.where(found[0], 1.0, 0.0) + np.where(found[1], x[0], x[1])

    graph = sd.trace(f, X)
    assert graph(X) == 0.7 and graph(np.array([4.0, 5.0, 1.0])) == 6.0 and not asked


def failing(x):
    y = math.exp(x)
    raise RuntimeError(f"at {len([y])}")  # this line


def test_tracebacks_show_the_users_lines():
    def f(x):
        return failing(x) + 1.0

    with pytest.raises(RuntimeError, match="at 1") as caught:
        sd.grad(f)(1.0)
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert frames[-1].filename == __file__ and "this line" in frames[-1].line and frames[-1].name == "failing"
    assert frames[-1].lineno == failing.__code__.co_firstlineno + 2
    assert frames[-2].name == "f" and len(frames) <= 5 and caught.value.__context__ is None  # the test's, two of ours
    with pytest.raises(AttributeError) as caught:
        sd.grad(lambda x: (2 * x).lstrip())(1.0)
    assert len(traceback.extract_tb(caught.value.__traceback__)) <= 4 and caught.value.__context__ is None


def test_other_threads_see_the_plain_functions():
    stop, wrong, rounds = threading.Event(), [], []

    def run():
        while not stop.is_set():
            if logistic(0.0) != 0.5 or Model(5).run(0.5) != expected or type(np.zeros(2)) is not np.ndarray or max(1, 2) != 2:
                wrong.append(True)
            rounds.append(True)

    expected = Model(5).run(0.5)
    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        sd.trace(USAGES["work array in a method"], X)
        sd.trace(USAGES["helper"], X)
    stop.set()
    for thread in threads:
        thread.join()
    assert rounds and not wrong


def test_constants_that_only_one_specialisation_reads_are_watched(monkeypatch):
    class Law:
        def value(self, x):
            return followed_code.starred(x) if isinstance(x, float) else np.sum(x * followed_code.rate())

    slope = sd.grad(Law().value)
    plain = slope(0.5)
    for rate in (0.7, 0.2):
        monkeypatch.setattr(followed_code, "RATE", rate)
        np.testing.assert_allclose(slope(X), rate)
        assert slope(0.5) == plain


def test_many_threads_trace_at_once():
    wrong = []

    def run(name):
        graph = sd.trace(USAGES[name], X)
        if abs(graph(X) - USAGES[name](X)) > 1e-12:
            wrong.append(name)

    names = ["helper", "calls without parentheses", "work array in a method", "matrices", "dataclass"]
    together(run, names * 3)
    assert not wrong


def test_nothing_is_patched():
    before = math.exp, np.zeros, logistic.__code__, Model.fill, vars(np).copy(), vars(math).copy()
    sd.grad(USAGES["work array in a method"])(X)
    assert before == (math.exp, np.zeros, logistic.__code__, Model.fill, vars(np), vars(math))


def test_functions_without_source():
    text = """
import math
from math import exp
def helper(v): return math.sqrt(v)
def f(x):
    y = float(x)
    return helper(y) * exp(y) + max(y, 0.1) + sum(map(helper, [y]))
def power(x, n): return 1.0 if n == 0 else math.fabs(x) * power(x, n - 1)
"""
    namespace = {"__name__": "made"}
    exec(text, namespace)
    f = namespace["f"]
    assert sd.grad(f)(0.7) == pytest.approx((f(0.7 + 1e-6) - f(0.7 - 1e-6)) / 2e-6, rel=1e-8)
    assert sd.grad(lambda x: namespace["power"](x, 3))(2.0) == 12.0
    assert cloning.clone(f, following.CELLS, False) is None


def test_functions_without_source_read_functions_as_they_are():
    text = """
import functools, inspect, math, types
def h(x):
    "ab"
    return math.sqrt(x)
def other(x): return 2.0*x
h.k = 3.0
L, D = [h], {h: 5.0, other: 7.0}
def helper(x): return x*helper.k
helper.k = 4.0
def apply(g, x): return g(x)
def chosen(g, x): return g(x) if g is other else 100.0*x
def pick(x): return (h if x is L else other)(4.0)*x
def inner(x):
    def own(u): return h(u)*D[h]
    return own(x) if h is L[0] else x
functions = [
    lambda x: x if h is L[0] else 100*x,
    lambda x: h(x) if h is L[0] else 100*x,
    lambda x: x*D.get(h, 100.0),
    lambda x: x if h in L and h == L[0] and not h != L[0] else 100.0*x,
    lambda x: x if isinstance(h, types.FunctionType) else 100*x,
    lambda x: x if type(h) == types.FunctionType and callable(h) else 100*x,
    lambda x: float(x) if isinstance(h, float) or isinstance(x, float) else 100*float(x),
    lambda x: x*len(inspect.signature(h).parameters)*len(h.__doc__)*len(h.__name__)*h.__code__.co_argcount*h.k,
    lambda x: x*len(repr(h))*h.__dict__["k"]*getattr(h, "k")*len(vars(h)),
    lambda x: functools.wraps(h)(lambda u: u)(x)*2.0,
    lambda x: functools.partial(h)(x)*sum(map(h, [x])),
    lambda x: apply(h, x), lambda x: chosen(other, x), lambda x: chosen(h, x), helper, lambda x: helper(x), inner,
    lambda x: pick(x),
]
"""
    space = {"__name__": "made", "__builtins__": __builtins__}
    exec(text, space)
    for place, f in enumerate(space["functions"]):
        value, slope = sd.value_and_grad(f)(1.5)
        assert value == pytest.approx(f(1.5)), place
        assert slope == pytest.approx((f(1.5 + 1e-6) - f(1.5 - 1e-6)) / 2e-6, rel=1e-8), place


DRAWN = """
x*secrets.randbelow(100)
x*int(np.datetime64("now", "ms").astype(int))
x*len(tempfile.mktemp())
x*datetime.datetime.now().microsecond
x*datetime.date.today().day
x*random.SystemRandom().random()
x*np.random.default_rng().random()
x*np.random.RandomState().rand()
x*random.Random().random()
x*random.random()
x*time.time()
""".strip().splitlines()


@pytest.mark.parametrize("text", DRAWN)
def test_numbers_that_differ_at_every_call_are_refused_with_and_without_source(text, tmp_path, monkeypatch):
    path = tmp_path / "drawing.py"
    path.write_text(f"import datetime, random, secrets, tempfile, time\nimport numpy as np\ndef f(x): return {text}\n")
    found, made = {}, {"__name__": "made"}
    exec(compile(path.read_text(), path, "exec"), found)
    exec(path.read_text(), made)
    for f in (found["f"], made["f"]):
        with pytest.raises(sd.TraceError, match=r"draws a random number|gives another value"):
            sd.grad(f)(1.0)


def test_seeded_generators_and_dates_without_source():
    space = {"np": np, "random": __import__("random"), "datetime": __import__("datetime")}
    for text in ("np.random.default_rng(3).random()", "random.Random(3).random()", "np.random.RandomState(3).rand()",
                 "datetime.date(2020, 1, 5).day", "int(np.datetime64('2020-01-05').astype(int))",
                 "isinstance(np.random.RandomState(1), np.random.RandomState)"):  # fmt: skip
        assert sd.grad(eval(f"lambda x: x*{text}", space))(1.0) == float(eval(text, space))


def test_a_file_that_changed_since_it_was_imported_is_noticed(tmp_path, monkeypatch):
    import importlib
    import linecache

    path = tmp_path / "changing_code.py"
    path.write_text("import math\ndef f(x):\n    return math.exp(x) * 2.0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    f = importlib.import_module("changing_code").f
    path.write_text("import math\ndef f(x):\n    return math.exp(x) * 3.0\n")
    linecache.clearcache()
    assert sd.grad(f)(0.0) == 2.0
    assert cloning.clone(f, following.CELLS, False) is None


def test_lambdas_on_one_line_are_told_apart():
    first, second = (lambda v: math.exp(v), lambda v: math.exp(2.0 * v))
    assert (sd.grad(first)(0.0), sd.grad(second)(0.0)) == (1.0, 2.0)
    wide = [lambda v: (
        math.exp(
            3.0 * v
        )
    )]  # fmt: skip
    assert sd.grad(wide[0])(0.0) == 3.0
    for g in (first, second, wide[0]):
        assert cloning.clone(g, following.CELLS, False) is not None


def test_every_usage_has_a_clone():
    for f in (*USAGES.values(), logistic, Model.run, Gas.__post_init__, Vector.__iter__, closure, decorated, keywords):
        for thorough in (False, True):
            assert cloning.clone(f, following.CELLS, thorough) is not None


def test_builtins_themselves_can_be_traced():
    assert sd.grad(math.exp)(0.5) == pytest.approx(math.exp(0.5))
    assert sd.grad(math.hypot, argnums=(0, 1))(3.0, 4.0) == (0.6, 0.8)
    assert sd.grad(functools.partial(math.pow, 2.0))(1.0) == pytest.approx(2 * math.log(2.0))
    assert sd.grad(Vector(1.0, 2.0))(0.0) == pytest.approx(3.0)


def test_nothing_traced_stays_in_caches():
    f = USAGES["lru_cache"]
    chebyshev.cache_clear()
    first = sd.grad(f)(X)
    assert chebyshev.cache_info().currsize == 0
    np.testing.assert_array_equal(sd.grad(f)(X), first)
    vector = Vector(1.0, 2.0)
    sd.grad(lambda x: math.exp(x) * vector.norm)(1.0)
    assert all(type(v) is not following.Tracer for v in vars(vector).values())


@pytest.mark.parametrize("rows", [lambda x: [x], lambda x: x, lambda x: [(x[0], 1.0)], lambda x: [frozenset([(1.0, x)])]])
def test_caches_take_no_arrays(rows):
    total = functools.lru_cache(lambda row: 1.0)

    def f(x):
        return sum(total(row) for row in rows(x)) * x.sum()

    for call in (f, sd.grad(f), sd.grad(f, scalarize=False)):
        with pytest.raises(TypeError, match="unhashable"):
            call(np.ones((3, 2)))


def test_a_wrapper_with_a_rule_is_recorded_where_it_is_called():
    def opaque(v):
        return float(math.exp(v))

    sd.primitive(opaque)
    sd.diffrule(opaque)(lambda out, v: out)

    class Caller:
        def run(self, x):
            return [opaque(x)][0]

    assert "opaque" in str(sd.trace(Caller().run, 1.0))
    assert sd.grad(Caller().run)(0.5) == pytest.approx(math.exp(0.5))


def test_bodies_of_rules_are_followed():
    def opaque(v):
        return v

    sd.primitive(opaque)
    sd.diffrule(opaque)(lambda out, v: math.exp(v) * max(v, 0.1))
    assert sd.grad(opaque)(0.5) == pytest.approx(0.5 * math.exp(0.5))


def test_constants_of_followed_functions_are_watched(monkeypatch):
    class Law:
        def value(self, x):
            return followed_code.growth(x) * followed_code.FACTOR

    slope = sd.grad(Law().value)
    for rate, factor in ((0.7, 1.0), (0.2, 1.0), (0.2, 3.0)):
        monkeypatch.setattr(followed_code, "RATE", rate)
        monkeypatch.setattr(followed_code, "FACTOR", factor)
        value = Law().value
        assert slope(0.9) == pytest.approx((value(0.9 + 1e-6) - value(0.9 - 1e-6)) / 2e-6, rel=1e-8)


def kept(*_):
    return lambda f: f


@kept()
@kept(
    1,
    2,
)
def with_decorators(x):
    y = x * x
    return y + under_it(x)


@kept()
def under_it(x):
    return x**3


@pytest.mark.parametrize(("op", "line"), [("mul", "y = x * x"), ("pow", "return x**3")])
def test_lines_of_decorated_functions_are_the_users(op, line):
    graph = sd.trace(with_decorators, 2.0)
    name, _, number = next(b.origin for b in graph.bindings if b.op == op).partition(":")
    assert name == "test_following.py"
    with open(__file__) as file:
        assert file.read().split("\n")[int(number) - 1].strip() == line


def test_objects_that_have_items_are_compared_themselves():
    class Pair(collections.namedtuple("Pair", "a b")):
        def total(self):
            return self.a + self.b

    class Row:
        def __init__(self, a):
            self.a = a

        def __iter__(self):
            yield self.a

        def __gt__(self, other):
            return self.a > other.a

    def f(x):
        best = Pair(x[0], 2.0)
        for k in range(40):
            best = max(best, Pair(1.0 + 0.1 * k, x[0]))
        return max(best, Pair(x[0], 2.0)).total() + min(Pair(3.0, x[0])) + max(Row(x[0]), Row(100.0)).a + max(Row(0.0))

    for at in (0.25, 7.5):
        value, (slope,) = sd.value_and_grad(f, loops="keep")(np.array([at]))
        assert value == pytest.approx(f(np.array([at])))
        assert slope == pytest.approx(2.0 if at < 1 else 1.0)
