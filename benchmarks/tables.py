"""The tables of growth with n and of operations.

Assumes the problems of `problems.py`. Guarantees that values and gradients are checked against formulas written by hand
before they are timed. Refuses nothing.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import symdiff as sd
from benchmarks import problems, timing


def rosenbrock_gradient(x: Any) -> Any:
    """Value and gradient of Rosenbrock's function, in NumPy."""
    rest = x[1:] - x[:-1] ** 2
    gradient = np.zeros_like(x)
    gradient[:-1] = -2 * (1 - x[:-1]) - 400 * x[:-1] * rest
    gradient[1:] += 200 * rest
    return np.sum((1 - x[:-1]) ** 2 + 100 * rest**2), gradient


def product_gradient(x: Any) -> Any:
    """Value and gradient of the product, for factors other than 0."""
    return np.prod(x), np.prod(x) / x


def chain_gradient(x: Any, n: int) -> Any:
    """Value and derivative of n nested sines."""
    slope = 1.0
    for _ in range(n):
        x, slope = np.sin(x), slope * np.cos(x)
    return x, slope


@dataclass(frozen=True, slots=True)
class Sized:
    """A problem at one size: the function, its point, and its value and gradient by hand."""

    name: str
    n: int
    f: Callable[..., Any]
    x: Any
    answer: Any


def _rosenbrock(n: int) -> Sized:
    x = np.arange(1, n + 1) / n
    return Sized("Rosenbrock loop", n, problems.rosenbrock, x, rosenbrock_gradient(x))


def _product(n: int) -> Sized:
    x = np.exp(np.sin(np.arange(n)) / n)  # near 1: the product of i/n underflows
    return Sized("product", n, problems.product, x, product_gradient(x))


def _chain(n: int) -> Sized:
    x = np.float64(0.7)
    return Sized("chain of sines", n, lambda x: problems.sine_chain(x, n), x, chain_gradient(x, n))


def growth(sizes: tuple[int, ...], rounds: int) -> str:
    """A Markdown table: time of f called plainly, of value and gradient, their ratios, and the one-off cost."""
    first, again = (_once(problems.factored, np.ones(4))[1] for _ in range(2))
    heads = [
        "problem", "n", "operations of f", "of value and gradient", "f on numbers", "f on an array", "value and gradient",
        "to f on numbers", "to f on an array", "backend numpy", "one-off cost", "per traced operation",
    ]  # fmt: skip
    smaller = tuple(n for n in sizes if n <= 1000)
    sized = [made(n) for made, of in ((_rosenbrock, sizes), (_product, smaller), (_chain, smaller)) for n in of]
    rows = [_growth_row(problem, rounds) for problem in sized]
    note = f"The first derivative in a process costs {timing.shown(first)}, the same one made again {timing.shown(again)}."
    return f"{timing.table(heads, rows)}\n\n{note}"


def _once(f: Callable[..., Any], x: Any) -> tuple[Any, float]:
    """A new value-and-gradient function after its first call, and the seconds which that took."""
    start = time.perf_counter()
    gradient = sd.value_and_grad(f)
    gradient(x)
    return gradient, time.perf_counter() - start


def _growth_row(problem: Sized, rounds: int) -> list[str]:
    f, x = problem.f, problem.x
    made = [_once(f, x) for _ in range(3)]
    gradient, once = made[0][0], min(seconds for _, seconds in made)
    arrays = sd.value_and_grad(f).compile(x, backend="numpy")
    traced, numbers = sd.trace(f, x).operations(), x.tolist()
    plain: timing.Candidates = {"numbers": lambda: f(numbers), "array": lambda: f(x)}
    ours: timing.Candidates = {"auto": lambda: gradient(x), "numpy": lambda: arrays(x)}
    timing.checked(plain, problem.answer[0])
    timing.checked(ours, problem.answer)
    t = timing.medians(plain | ours, rounds)
    ratios = [f"{t['auto'] / t[name]:.2f}" for name in plain]
    one_off = f"{float(f'{once * 1e3:.3g}'):g} ms"
    return [
        problem.name, str(problem.n), str(traced), str(arrays.program.operations()), timing.shown(t["numbers"]),
        timing.shown(t["array"]), timing.shown(t["auto"]), *ratios, timing.shown(t["numpy"]), one_off,
        f"{once / traced * 1e6:.0f} us",
    ]  # fmt: skip


# Value and gradient, counted by others.
KNOWN = {"cubic": "by hand 42, wrenfold 52, SymForce 60, SymPy 71, CasADi 80", "rosenbrock": "by hand 107, best peer 125"}


def operations() -> str:
    """A Markdown table: counted operations of the problems, with what others need."""
    points: dict[str, tuple[Any, ...]] = {
        "cubic": (np.ones(8),), "factored": (np.ones(4),), "f10": (np.ones(10),), "rosenbrock": (np.ones(10),),
        "chebyshev": (0.3,), "product": (np.ones(16),), "logistic": (0.5,), "heart_real": (np.ones(8),),
        "heart_complex": (np.ones(4, complex),), "complex_polynomial": (0.7,), "real_through_complex": (0.7,),
        "branches": (1.0, 2.0, 3.0, 4.0), "sine_chain": (0.7,),
    }  # fmt: skip
    rows = []
    for name, args in points.items():
        f = getattr(problems, name)
        cost = sd.cost(sd.grad(f, argnums=range(len(args))) if len(args) > 1 else f, *args)
        counts = [str(part.operations) for part in (cost.value, cost.derivative, cost.both)]
        rows.append([name, *counts, f"{cost.ratio:.2f}", KNOWN.get(name, "")])
    return timing.table(["problem", "value", "derivative", "both", "both to value", "both, counted elsewhere"], rows)
