"""The gradient of the cubic at one point and at many: symdiff, SymPy's lambdify, NumPy and Python by hand, and peers.

Assumes `problems.cubic`. Guarantees that each candidate agrees with the formulas written by hand before it is timed.
Refuses nothing.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import sympy as sp

import symdiff as sd
from benchmarks import peers, problems, timing


def factored(x: Any) -> list[Any]:
    """The gradient as one would write it, common parts named."""
    x0, x1, x2, x3, x4, x5, x6, x7 = x
    a, b, c, d = x4 * x4, x5 * x5, x6 * x6, x7 * x7
    return [
        x5 * (3 * d - b), x6 * (3 * a - c), x7 * (d - 3 * b), x4 * (a - 3 * c),
        3 * (x3 * (a - c) + 2 * x1 * x4 * x6), 3 * (x0 * (d - b) - 2 * x2 * x5 * x7),
        3 * (x1 * (a - c) - 2 * x3 * x4 * x6), 3 * (x2 * (d - b) + 2 * x0 * x5 * x7),
    ]  # fmt: skip


def products(x: Any) -> list[Any]:
    """The derivatives term by term, powers written as products, nothing named."""
    x0, x1, x2, x3, x4, x5, x6, x7 = x
    return [
        -x5 * x5 * x5 + 3 * x5 * x7 * x7, -x6 * x6 * x6 + 3 * x4 * x4 * x6,
        -3 * x5 * x5 * x7 + x7 * x7 * x7, x4 * x4 * x4 - 3 * x4 * x6 * x6,
        6 * x1 * x4 * x6 + 3 * x3 * x4 * x4 - 3 * x3 * x6 * x6,
        -3 * x0 * x5 * x5 + 3 * x0 * x7 * x7 - 6 * x2 * x5 * x7,
        3 * x1 * x4 * x4 - 3 * x1 * x6 * x6 - 6 * x3 * x4 * x6,
        6 * x0 * x5 * x7 - 3 * x2 * x5 * x5 + 3 * x2 * x7 * x7,
    ]  # fmt: skip


def lambdified(cse: bool, array: bool = False) -> Callable[..., Any]:
    """SymPy's gradient through `lambdify`, called with eight arguments, or with one array."""
    symbols = sp.symbols("x0:8")
    expr = problems.cubic(symbols)
    return sp.lambdify([symbols] if array else symbols, [sp.diff(expr, s) for s in symbols], cse=cse)


def one_point(rounds: int) -> str:
    """A Markdown table: the gradient at one point, from an array."""
    x, out, own = np.arange(1.0, 9.0), np.full(8, np.nan), np.full(8, np.nan)
    gradient = sd.grad(problems.cubic)
    unpacked, arrayed, plain = lambdified(True), lambdified(True, array=True), lambdified(False)

    def by_hand() -> Any:
        own[:] = factored(x.tolist())
        return own

    interpreted = sd.grad(problems.cubic, backend="python")
    candidates: timing.Candidates = {
        **_machine(gradient, x, out),
        "symdiff, out= given": lambda: gradient(x, out=out),
        "symdiff": lambda: gradient(x),
        "symdiff, backend python, out= given": lambda: interpreted(x, out=out),
        "lambdify(cse=True), f(*x)": lambda: unpacked(*x),
        "lambdify(cse=True), f(x)": lambda: arrayed(x),
        "lambdify(cse=True), f(*x.tolist())": lambda: unpacked(*x.tolist()),
        "lambdify, f(*x)": lambda: plain(*x),
        "by hand, NumPy scalars": lambda: factored(x),
        "by hand, x.tolist(), into an array": by_hand,
        **peers.cubic_gradients(x),
    }
    timing.checked(candidates, factored(x))
    floor: timing.Candidates = {
        "floor: np.copyto of 8 numbers": lambda: np.copyto(own, x),
        "floor: np.add(x, x, out=out)": lambda: np.add(x, x, out=own),
        "floor: len(x)": lambda: len(x),
    }
    return timing.compared(timing.medians(candidates | floor, rounds), "lambdify(cse=True), f(*x)")


def _machine(gradient: Any, x: Any, out: Any) -> timing.Candidates:
    """The bare builtin, where there is machine code."""
    try:
        kernel = gradient.compile(x).kernel
    except sd.BackendError:
        return {}
    return {"symdiff, .kernel(x, out)": lambda: kernel(x, out)}


def many_points(n: int, rounds: int) -> str:
    """Two Markdown tables: the gradient at n points, points first and points last."""
    points = np.random.default_rng(0).standard_normal((8, n))
    first = timing.compared(timing.medians(_batch(np.ascontiguousarray(points.T), 0), rounds), "lambdify")
    last = timing.compared(timing.medians(_batch(points, -1), rounds), "lambdify")
    return f"{n} points, points first:\n\n{first}\n\n{n} points, points last:\n\n{last}"


def _batch(x: Any, axis: int) -> timing.Candidates:
    """Candidates for an array of points, checked; variables are columns (axis 0) or rows (axis -1)."""
    out, copied = np.full_like(x, np.nan), np.empty_like(x)
    variables = x.T if axis == 0 else x
    shared, plain = lambdified(True), lambdified(False)

    def ours(backend: str) -> Callable[[], Any]:
        gradient = sd.vmap(sd.grad(problems.cubic), in_axes=axis, backend=backend)

        def call() -> Any:
            gradient(x, out=out)
            return out.T if axis == 0 else out

        return call

    candidates: timing.Candidates = {
        "symdiff, out= given": ours("auto"),
        "symdiff, backend numpy, out= given": ours("numpy"),
        "lambdify": lambda: plain(*variables),
        "lambdify(cse=True)": lambda: shared(*variables),
        "by hand, powers as products": lambda: products(variables),
        "by hand, factored": lambda: factored(variables),
    }
    timing.checked(candidates, factored(variables))
    return candidates | {"floor: np.copyto of the same bytes": lambda: np.copyto(copied, x)}
