"""The tables of the benchmark command: growth with n, one point, many points, operations.

Assumes the problems of `problems.py`. Guarantees that every candidate of a row is checked before it is timed. Refuses
nothing: peers that are not installed are left out with a line that says so.
"""

import importlib.util
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import problems
import sympy as sp
import timing

import symdiff as sd

PEERS = ("jax", "casadi", "symengine", "autograd", "torch", "numba")
# Value and gradient, counted by others: by hand, the best peer.
KNOWN = {"cubic": "42 by hand, wrenfold 52, SymForce 60, SymPy 71, CasADi 80", "rosenbrock": "107 by hand, the best peer 125"}


def growth(sizes: tuple[int, ...]) -> str:
    """n, time of f called plainly, time of its gradient, their ratio, and the one-off cost."""
    rows = []
    for name, f in (("Rosenbrock loop", problems.rosenbrock), ("product of n", problems.product)):
        for n in sizes:
            x = np.arange(1, n + 1) / n
            start = time.perf_counter()
            gradient = sd.value_and_grad(f)
            gradient(x)
            once = time.perf_counter() - start
            operations = sd.trace(f, x).operations()
            values = x.tolist()
            best = timing.seconds({"f": lambda f=f, v=values: f(v), "gradient": lambda g=gradient, x=x: g(x)})
            rows.append([
                name, str(n), timing.shown(best["f"]), timing.shown(best["gradient"]), f"{best['gradient'] / best['f']:.2f}",
                timing.shown(once), f"{once / operations * 1e6:.0f} us",
            ])  # fmt: skip
    heads = ["problem", "n", "f on a list", "value and gradient", "ratio", "one-off cost", "per traced operation"]
    return timing.table(heads, rows)


def lambdified(f: Callable[..., Any], n: int, cse: bool) -> Callable[..., Any]:
    """SymPy's gradient of f, through `lambdify`, called with one array."""
    symbols = sp.symbols(f"x0:{n}")
    expr = sd.trace(f, np.ones(n)).expr
    return sp.lambdify([symbols], [sp.diff(expr, s) for s in symbols], cse=cse)


def cubic_by_hand(x: Any) -> list[Any]:
    """The gradient of the cubic as one would write it in NumPy, powers as products and common parts named."""
    a, b, c, d = x[4] * x[4], x[5] * x[5], x[6] * x[6], x[7] * x[7]
    return [
        x[5] * (3 * d - b), x[6] * (3 * a - c), x[7] * (d - 3 * b), x[4] * (a - 3 * c),
        3 * (x[3] * (a - c) + 2 * x[1] * x[4] * x[6]), 3 * (x[0] * (d - b) - 2 * x[2] * x[5] * x[7]),
        3 * (x[1] * (a - c) - 2 * x[3] * x[4] * x[6]), 3 * (x[2] * (d - b) + 2 * x[0] * x[5] * x[7]),
    ]  # fmt: skip


def cubic_by_products(x: Any) -> list[Any]:
    """The derivatives term by term, powers written as products, nothing named."""
    return [
        -x[5] * x[5] * x[5] + 3 * x[5] * x[7] * x[7], -x[6] * x[6] * x[6] + 3 * x[4] * x[4] * x[6],
        -3 * x[5] * x[5] * x[7] + x[7] * x[7] * x[7], x[4] * x[4] * x[4] - 3 * x[4] * x[6] * x[6],
        6 * x[1] * x[4] * x[6] + 3 * x[3] * x[4] * x[4] - 3 * x[3] * x[6] * x[6],
        -3 * x[0] * x[5] * x[5] + 3 * x[0] * x[7] * x[7] - 6 * x[2] * x[5] * x[7],
        3 * x[1] * x[4] * x[4] - 3 * x[1] * x[6] * x[6] - 6 * x[3] * x[4] * x[6],
        6 * x[0] * x[5] * x[7] - 3 * x[2] * x[5] * x[5] + 3 * x[2] * x[7] * x[7],
    ]  # fmt: skip


def one_point() -> str:
    """The gradient of the cubic at one point, from an array into an array."""
    x, out = np.arange(1.0, 9.0), np.empty(8)
    gradient = sd.grad(problems.cubic)
    shared, plain = (lambdified(problems.cubic, 8, cse) for cse in (True, False))
    candidates = {
        "symdiff, out= given": lambda: gradient(x, out=out),
        "symdiff": lambda: gradient(x),
        "SymPy lambdify(cse=True)": lambda: shared(x),
        "SymPy lambdify": lambda: plain(x),
        "NumPy by hand, factored": lambda: cubic_by_hand(x),
        "np.add(x, x, out=out)": lambda: np.add(x, x, out=out),
    }
    timing.checked({name: call for name, call in candidates.items() if not name.startswith("np.")})
    return _against(candidates, "SymPy lambdify(cse=True)")


def many_points(n: int) -> str:
    """The gradient of the cubic at many points, points first and points last."""
    parts = []
    plain, shared = lambdified(problems.cubic, 8, False), lambdified(problems.cubic, 8, True)
    for axis, title in ((0, "points first"), (-1, "points last")):
        points = np.random.default_rng(0).standard_normal((8, n))
        x = np.ascontiguousarray(points.T) if axis == 0 else points
        out = np.empty_like(x)
        batch = sd.vmap(sd.grad(problems.cubic), in_axes=axis)
        view = x.T if axis == 0 else x

        def ours(batch: Any = batch, x: Any = x, out: Any = out, axis: int = axis) -> Any:
            batch(x, out=out)
            return out.T if axis == 0 else out

        candidates = {
            "symdiff, out= given": ours,
            "SymPy lambdify": lambda view=view: plain(view),
            "SymPy lambdify(cse=True)": lambda view=view: shared(view),
            "NumPy, powers as products": lambda view=view: cubic_by_products(view),
            "NumPy by hand, factored": lambda view=view: cubic_by_hand(view),
            "np.copyto of the same bytes": lambda x=x, out=out: np.copyto(out, x),
        }
        timing.checked({name: call for name, call in candidates.items() if not name.startswith("np.copyto")})
        parts.append(f"{n} points, {title}:\n\n{_against(candidates, 'SymPy lambdify')}")
    return "\n\n".join(parts)


def _against(candidates: dict[str, Callable[[], Any]], reference: str) -> str:
    best = timing.seconds(candidates)
    rows = [[name, timing.shown(t), f"{t / best[reference]:.3f}"] for name, t in best.items()]
    return timing.table(["", "time of a call", f"to {reference}"], rows)


def operations() -> str:
    """Counted operations of the problems, with what others need."""
    points: dict[str, tuple[Any, ...]] = {
        "cubic": (np.ones(8),), "factored": (np.ones(4),), "f10": (np.ones(10),), "rosenbrock": (np.ones(10),),
        "chebyshev": (0.3,), "product": (np.ones(16),), "logistic": (0.5,), "real_through_complex": (0.7,),
    }  # fmt: skip
    rows = []
    for name, args in points.items():
        cost = sd.cost(getattr(problems, name), *args)
        counts = [str(part.operations) for part in (cost.value, cost.derivative, cost.both)]
        rows.append([name, *counts, f"{cost.ratio:.2f}", KNOWN.get(name, "")])
    return timing.table(["problem", "value", "gradient", "both", "both to value", "elsewhere (both)"], rows)


def missing_peers() -> str:
    """The peers that are not installed here, as a line."""
    missing = [name for name in PEERS if importlib.util.find_spec(name) is None]
    return f"Not installed here, and so not compared: {', '.join(missing)}." if missing else ""
