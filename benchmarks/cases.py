"""What is compared: each problem at its sizes, at one point and at many, with what is asked of it.

Assumes the functions of `problems.py` and the derivatives of `formulas.py` and `whole.py`. Guarantees arguments that are
the same in each run. Refuses names of problems that do not exist, with `ValueError`.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks import formulas, problems, whole
from benchmarks.calls import flat

GRADIENT, BOTH, JACOBIAN = "gradient", "value and gradient", "Jacobian"
KINDS = ("point", "unrolled", "batch", "array")


@dataclass(frozen=True, slots=True)
class Case:
    """A function of `problems.py` at some arguments, and what is asked of it.

    `kind`: "point" (straight-line code), "unrolled" (a loop of n rounds), "batch" (straight-line code at n points) or
    "array". `wrt` are the positions of the arguments that are differentiated, `static` further arguments that are not
    traced, `axis` where the points of a batch lie: 0 first, -1 last. `formula` and `whole` are its derivatives by hand.
    """

    name: str
    kind: str
    function: str
    args: tuple[Any, ...]
    n: int
    asks: str = BOTH
    wrt: tuple[int, ...] = (0,)
    static: tuple[Any, ...] = ()
    axis: int = -1
    formula: Callable[..., None] | None = None
    whole: Callable[..., Any] | None = None

    def f(self, module: Any = problems) -> Callable[..., Any]:
        """The function, of `args` only, from `problems` or from a copy of it in other words."""
        function = getattr(module, self.function)
        if not self.static:
            return function  # type: ignore[no-any-return]
        return lambda *args: function(*args, *self.static)

    @property
    def rows(self) -> list[Any]:
        """The variables one by one: numbers at a point, arrays of points in a batch."""
        first = self.axis == 0 and self.kind == "batch"
        arrays = [np.moveaxis(a, 0, -1) if first else a for a in map(np.asarray, self.args)]
        cell = 1 if self.kind == "batch" else 0
        return [row for a in arrays for row in (a.reshape(-1, *a.shape[a.ndim - cell :]))]

    @property
    def packed(self) -> Any:
        """All arguments in one array, as the formulas of C and numba take them; a point after another if they lie first."""
        if len(self.args) == 1 and np.ndim(self.args[0]):
            return np.ascontiguousarray(self.args[0])
        return np.stack([np.asarray(a) for a in self.args]) if self.kind == "batch" else flat(self.args)

    @property
    def inputs(self) -> int:
        """How many variables a point has."""
        return sum(np.size(a) for a in self.args) // (self.n if self.kind == "batch" else 1)

    @property
    def is_complex(self) -> bool:
        """Whether an argument is complex."""
        return any(np.iscomplexobj(a) for a in self.args)

    @property
    def complex_of_real(self) -> bool:
        """Whether the value is complex and no argument is."""
        return not self.is_complex and bool(np.iscomplexobj(self.value()))

    def value(self) -> Any:
        """What the function itself gives, in NumPy; for points that lie first, the variables are rows."""
        f = self.f()
        first = self.kind == "batch" and self.axis == 0
        return f(*(np.moveaxis(a, 0, -1) for a in self.args)) if first else f(*self.args)

    def expected(self) -> Any:
        """The answers written by hand, as one flat array."""
        if self.whole is not None:
            return flat(self.whole(*self.args))
        assert self.formula is not None
        answers: list[Any] = [0.0] * self.outputs
        self.formula(self.n, self.rows, answers)
        if self.kind == "batch" and self.axis == 0:
            return np.stack(answers, -1).ravel()
        return flat(answers)

    @property
    def outputs(self) -> int:
        """How many numbers are asked for at a point."""
        if self.asks == JACOBIAN:
            return int(np.size(self.value())) * self.inputs
        return self.inputs + (self.asks == BOTH)


def _normal(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape)


def _complex(*shape: int) -> Any:
    return _normal(*shape) + 1j * np.random.default_rng(1).standard_normal(shape)


def _points() -> Iterator[Case]:
    def point(name: str, *args: Any, asks: str = BOTH, label: str = "") -> Case:
        wrt = tuple(range(len(args)))
        inputs = sum(np.size(a) for a in args)
        return Case(label or name, "point", name, args, inputs, asks, wrt, formula=getattr(formulas, name))

    yield point("cubic", np.arange(1.0, 9.0), asks=GRADIENT)
    yield point("cubic", _complex(8), asks=GRADIENT, label="cubic, complex")
    yield point("heart_real", np.linspace(-0.7, 0.9, 8), asks=JACOBIAN)
    yield point("heart_complex", _complex(4), asks=JACOBIAN)
    yield point("factored", np.array([0.1, 0.2, 0.3, 0.4]))
    yield point("f10", np.arange(1.0, 11.0))
    yield point("logistic", 0.7)
    yield point("exponential", 0.7)
    yield point("complex_polynomial", 0.7)
    yield point("real_through_complex", 0.7)
    yield point("branches", 0.1, 0.2, 0.3, 0.4)


def _unrolled(largest: int) -> Iterator[Case]:
    sizes = [n for n in (10, 100, 1000, 10_000, 100_000) if n <= largest]
    for n in sizes:
        x = np.arange(1, n + 1) / n
        yield Case("rosenbrock", "unrolled", "rosenbrock", (x,), n, formula=formulas.rosenbrock, whole=whole.rosenbrock)
    for n in sizes:
        x = np.exp(np.sin(np.arange(n)) / n)  # near 1: the product of i/n underflows
        yield Case("product", "unrolled", "product", (x,), n, formula=formulas.product, whole=whole.product)
    for n in sorted({20, *sizes}):  # a step that shows who grows exponentially
        yield Case("chebyshev", "unrolled", "chebyshev", (0.3,), n, static=(n,), formula=formulas.chebyshev)
    for n in sizes:
        yield Case("sine_chain", "unrolled", "sine_chain", (0.7,), n, static=(n,), formula=formulas.sine_chain)


def _batches(n: int) -> Iterator[Case]:
    def batch(name: str, *args: Any, **more: Any) -> Case:
        label = more.pop("label", "points last" if np.ndim(args[0]) > 1 else "many points")
        wrt = tuple(range(len(args)))
        return Case(f"{name}, {label}", "batch", name, args, n, wrt=wrt, formula=getattr(formulas, name), **more)

    yield batch("cubic", _normal(n, 8), asks=GRADIENT, axis=0, label="points first")
    yield batch("cubic", _normal(8, n), asks=GRADIENT)
    yield batch("cubic", _complex(n, 8), asks=GRADIENT, axis=0, label="complex, points first")
    yield batch("factored", _normal(4, n))
    yield batch("f10", _normal(10, n))
    yield batch("logistic", _normal(n))
    yield batch("exponential", _normal(n))
    yield batch("sine", _normal(n))
    yield batch("real_through_complex", _normal(n))
    yield batch("branches", *_normal(4, n))


def _arrays(largest: int) -> Iterator[Case]:
    for n in (10**3, 10**4, 10**5, 10**6, 10**7):
        if n <= largest:
            slices = functools.partial(Case, "rosenbrock by slices", "array", "rosenbrock_slices")
            yield slices((np.arange(1, n + 1) / n,), n, formula=formulas.rosenbrock, whole=whole.rosenbrock)
    for n in (5, 10**3, 10**6):
        if n <= largest:
            yield Case("lse", "array", "lse", (1000 + _normal(n),), n, formula=formulas.lse, whole=whole.lse)
    A, B = (np.arange(100).reshape(10, 10) + 1) / 100, (np.arange(100).reshape(10, 10)[::-1] + 1) / 50
    jacobian = functools.partial(Case, "matrix_function", "array", "matrix_function", asks=JACOBIAN, wrt=(0, 1))
    yield jacobian((A, B), 10, formula=formulas.matrix_function, whole=whole.matrix_function)
    W, b, X = _normal(256, 512) / 20, _normal(256, 1), _normal(512, 128)
    yield Case("linear", "array", "linear", (W, X), 256, GRADIENT, (0, 1), whole=whole.linear)
    yield Case("trace", "array", "trace", (_normal(512, 512), _normal(512, 512) + 1), 512, GRADIENT, (0, 1), whole=whole.trace)
    system = _normal(200, 200) + 200 * np.eye(200), _normal(200)
    yield Case("solve", "array", "solve", system, 200, BOTH, (0, 1), whole=whole.solve)
    yield Case("layer", "array", "layer", (W, b, X), 256, BOTH, (0, 1), whole=whole.layer)
    args = (_normal(25), _normal(25, 10), _normal(25, 10) / 10, _normal(1000, 10))
    yield Case("mixture", "array", "mixture", args, 1000, BOTH, (0, 1, 2), whole=whole.mixture)


def cases(quick: bool, names: Sequence[str] = (), kinds: Sequence[str] = KINDS) -> list[Case]:
    """All cases of some kinds in order, or those whose name starts with one of `names`; `quick` takes small sizes only."""
    largest = (100, 10**4, 10**4) if quick else (100_000, 10**6, 10**7)
    made = (_points(), _unrolled(largest[0]), _batches(largest[1]), _arrays(largest[2]))
    found = [case for kind, some in zip(KINDS, made, strict=True) if kind in kinds for case in some]
    for name in names:
        if not any(case.name.startswith(name) for case in found):
            raise ValueError(f"no problem {name!r}; there are {', '.join(dict.fromkeys(case.name for case in found))}")
    return [case for case in found if not names or case.name.startswith(tuple(names))]
