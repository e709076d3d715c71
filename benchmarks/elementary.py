"""`python -m benchmarks.elementary`: errors and times of machine code's elementary functions, as a Markdown table.

Assumes llvmlite; errors need a long double of 80 bits. Guarantees arguments of every size, half of them in the interval that
the table names, and the largest error over all of them. Refuses nothing: without 80 bits the errors are left out.
"""

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np

import symdiff as sd
from benchmarks import timing

WIDE = np.finfo(np.longdouble).nmant == 63
ONE = {
    "exp": (-745, 709), "exp2": (-1074, 1023), "expm1": (-40, 709), "log": (0, 4), "log2": (0, 4), "log10": (0, 4),
    "log1p": (-1, 4), "sin": (-100, 100), "cos": (-100, 100), "tan": (-100, 100), "sinh": (-20, 20), "cosh": (-20, 20),
    "tanh": (-3, 3), "arcsin": (-1, 1), "arccos": (-1, 1), "arctan": (-4, 4), "arcsinh": (-4, 4), "arccosh": (1, 5),
    "arctanh": (-1, 1), "cbrt": (-8, 8),
}  # fmt: skip
TWO = {"power": (0, 5), "arctan2": (-4, 4), "hypot": (-4, 4)}
COMPLEX = ("exp", "log", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh")


def arguments(low: float, high: float, points: int, seed: int) -> Any:
    """Numbers of an interval, and as many with exponents from -40 to 10."""
    r = np.random.default_rng(seed)
    sizes = np.ldexp(r.uniform(1, 2, points // 2), r.integers(-40, 11, points // 2)) * r.choice([-1, 1], points // 2)
    return np.concatenate([r.uniform(low, high, points - points // 2), sizes])


def error(found: Any, exact: Any) -> float:
    """The largest error in units of the last place of the exact result's size."""
    size = np.abs(exact).astype(found.real.dtype)
    finite = np.isfinite(size) & np.isfinite(found) & (size > 0)
    return float(np.max(np.abs(found - exact)[finite] / np.spacing(size[finite])))


def row(name: str, function: Callable[..., Any], arrays: list[Any], inside: list[Any], rounds: int) -> list[str]:
    """One line of the table: the errors over `arrays`, the times over `inside`."""
    stacked = len(arrays) > 1

    def over(points: list[Any]) -> Any:
        return np.stack(points) if stacked else points[0]

    compiled = sd.vmap((lambda p: function(*p)) if stacked else function, in_axes=-1, backend="native")
    worst = "-"
    if WIDE:
        wide = np.clongdouble if np.iscomplexobj(arrays[0]) else np.longdouble
        worst = f"{error(compiled(over(arrays)), function(*(a.astype(wide) for a in arrays))):.2f}"
    points, reference = over(inside), function(*inside)
    ours, theirs = np.empty_like(reference), np.empty_like(reference)
    candidates = {"machine code": lambda: compiled(points, out=ours), "NumPy": lambda: function(*inside, out=theirs)}
    timing.checked(candidates, reference, 1e-4 if reference.dtype.itemsize == 4 else 1e-9)
    times = timing.times(candidates, rounds)
    counts = [f"{1e9 * times[key] / reference.size:.2f}" for key in candidates]
    return [name, worst, *counts, f"{times['machine code'] / times['NumPy']:.2f}"]


def table(points: int, rounds: int) -> str:
    """The table: real functions in both precisions, then complex ones."""
    rows = []
    with np.errstate(all="ignore"):
        for kind in (np.float64, np.float32):
            for name, (low, high) in (ONE | TWO).items():
                count = 2 if name in TWO else 1
                arrays = [arguments(low, high, points, k).astype(kind) for k in range(count)]
                inside = [np.random.default_rng(k).uniform(low, high, points).astype(kind) for k in range(count)]
                rows.append(row(f"{name}, {kind.__name__}, {low} to {high}", getattr(np, name), arrays, inside, rounds))
        for name in COMPLEX:
            z = arguments(-3, 3, points, 0) + 1j * arguments(-3, 3, points, 1)
            inside = [z[: points // 2]]
            rows.append(row(f"{name}, complex128, -3 to 3", getattr(np, name), [z], inside, rounds))
    return timing.table(["function", "largest error, ulp", "ns", "ns, NumPy", "ratio"], rows)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.elementary", description=__doc__)
    parser.add_argument("--points", type=int, default=1_000_000, help="arguments of each function")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of which a time is the median")
    options = parser.parse_args()
    print(table(options.points, options.rounds))


if __name__ == "__main__":
    main()
