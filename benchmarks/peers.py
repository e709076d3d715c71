"""The gradient of the cubic at one point, by other packages that happen to be installed.

Assumes a float64 array of eight numbers. Guarantees that each candidate takes that array and leaves its answer in an
array, as fast as the package's documentation allows. Refuses nothing: `presence` says what is not installed.
"""

import importlib.metadata
import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import problems
from benchmarks.timing import Candidates


def _autograd(x: Any) -> Candidates:
    import autograd

    gradient = autograd.grad(problems.cubic)
    return {"autograd": lambda: gradient(x)}


def _jax(x: Any) -> Candidates:
    import jax

    jax.config.update("jax_enable_x64", True)
    gradient = jax.jit(jax.grad(problems.cubic))
    return {"JAX, jit": lambda: np.asarray(gradient(x))}


def _casadi(x: Any) -> Candidates:
    import casadi

    point, out = casadi.SX.sym("x", 8), np.full(8, np.nan)
    entries = [point[i] for i in range(8)]
    function = casadi.Function("cubic", [point], [casadi.densify(casadi.gradient(problems.cubic(entries), point))])
    buffer, run = function.buffer()
    buffer.set_arg(0, memoryview(x))
    buffer.set_res(0, memoryview(out))

    def buffered(kept: Any = buffer) -> Any:  # without its buffer, `run` reads freed memory and the process dies
        run()
        return out

    return {"CasADi": lambda: np.asarray(function(x)), "CasADi, buffers bound before": buffered}


def _symengine(x: Any) -> Candidates:
    import symengine

    symbols, out = symengine.symbols("x0:8"), np.full(8, np.nan)
    expr = problems.cubic(symbols)
    run = symengine.Lambdify(symbols, [expr.diff(s) for s in symbols], cse=True)

    def into() -> Any:
        run(x, out=out)
        return out

    return {"symengine Lambdify(cse=True), out= given": into}


PEERS: dict[str, Callable[[Any], Candidates]] = {
    "autograd": _autograd,
    "jax": _jax,
    "casadi": _casadi,
    "symengine": _symengine,
}


def _present(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def cubic_gradients(x: Any) -> Candidates:
    """The candidates of the installed packages, at the point x."""
    return {label: call for name, made in PEERS.items() if _present(name) for label, call in made(x).items()}


def presence() -> str:
    """Which peers are compared, with their versions, and which are not installed here."""
    names = [*PEERS, "torch"]  # PyTorch takes part in the table of whole arrays only
    found = [f"{name} {importlib.metadata.version(name)}" for name in names if _present(name)]
    missing = [name for name in names if not _present(name)]
    lines = [f"Compared with {', '.join(found)}."] if found else []
    if missing:
        lines.append(f"Not installed here, and so not compared: {', '.join(missing)}.")
    return " ".join(lines)
