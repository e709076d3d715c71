"""`python -m benchmarks.gpu`: derivatives on a GPU through CuPy, beside a copy of the same bytes and other packages.

Assumes CuPy and a GPU; says so and ends with exit code 2 where there is none. Guarantees that every answer is checked before
it is timed, and that all candidates of a table take turns, timed by events of the device. Refuses nothing: packages that are
not installed are left out, and nothing is installed.
"""

import argparse
import datetime
import importlib.util
import os
import platform
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import symdiff as sd
from benchmarks import problems, timing
from benchmarks.cubic import factored

Candidates = dict[str, Callable[[], Any]]


def missing() -> str:
    """Why nothing can be measured here; "" where it can."""
    if importlib.util.find_spec("cupy") is None:
        return "CuPy is not installed: pip install 'symdiff[gpu]'"
    import cupy as cp

    try:
        count = cp.cuda.runtime.getDeviceCount()
    except cp.cuda.runtime.CUDARuntimeError as error:
        return f"CuPy finds no GPU here: {error}"
    return "" if count else "CuPy finds no GPU here"


def machine() -> str:
    """The device and the versions, on one line."""
    import cupy as cp

    device = cp.cuda.runtime.getDeviceProperties(cp.cuda.Device().id)
    runtime = cp.cuda.runtime.runtimeGetVersion()
    name = device["name"].decode() if isinstance(device["name"], bytes) else device["name"]
    versions = f"CUDA {runtime // 1000}.{runtime % 1000 // 10}, CuPy {cp.__version__}, NumPy {np.__version__}"
    memory = f"{device['totalGlobalMem'] / 2**30:.0f} GiB"
    return f"{name}, {memory}; {versions}, Python {platform.python_version()}, symdiff {sd.__version__}"


def medians(candidates: Candidates, rounds: int) -> dict[str, float]:
    """The seconds of one call of each candidate on the device: the median of interleaved rounds."""
    import cupy as cp

    times: dict[str, list[float]] = {name: [] for name in candidates}
    begin, end = cp.cuda.Event(), cp.cuda.Event()
    for place in range(rounds + 2):
        for name, call in candidates.items():
            cp.cuda.Device().synchronize()
            begin.record()
            call()
            end.record()
            cp.cuda.Device().synchronize()
            if place >= 2:  # the first calls compile
                times[name].append(cp.cuda.get_elapsed_time(begin, end) / 1e3)
    return {name: statistics.median(found) for name, found in times.items()}


def bandwidth_table(candidates: Candidates, moved: int, copy: str, rounds: int) -> str:
    """A Markdown table of times, and of the bandwidth as a part of the copy's; `moved` are the bytes read and written."""
    times = medians(candidates, rounds)
    rows = [[name, timing.shown(t), f"{moved / t / 1e9:.0f} GB/s", f"{times[copy] / t:.2f}"] for name, t in times.items()]
    return timing.table(["", "time of a call", "bytes in and out once", "of a copy's bandwidth"], rows)


def checked(found: Any, wanted: Any, name: str) -> None:
    """Raise `AssertionError` where an answer on the device differs from the reference."""
    import cupy as cp

    _same([cp.asnumpy(a) for a in found], wanted, name)


def fused(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same arithmetic through `cupy.fuse`; the kernel bears the function's name."""
    import cupy as cp

    return cp.fuse(kernel_name=function.__name__)(function)  # type: ignore[no-any-return]


def room() -> None:
    """Give back the memory that CuPy and PyTorch hold and nobody uses, for the next table and for other packages."""
    import cupy as cp

    cp.get_default_memory_pool().free_all_blocks()
    if "torch" in sys.modules:
        sys.modules["torch"].cuda.empty_cache()


def cubic(n: int, rounds: int, axis: int) -> str:
    """The gradient of the cubic at n points."""
    import cupy as cp

    room()
    points = cp.random.default_rng(0).standard_normal((8, n) if axis == -1 else (n, 8))
    out, copied = cp.empty_like(points), cp.empty_like(points)
    gradient = sd.vmap(sd.grad(problems.cubic), in_axes=axis)

    def variables(a: Any) -> list[Any]:
        return [a[k] if axis == -1 else a[:, k] for k in range(8)]

    def cubic_by_hand(*x: Any) -> Any:
        return tuple(factored(x))

    def some(place: slice) -> Any:
        return (slice(None), place) if axis == -1 else (place, slice(None))

    gradient(points, out=out)
    few, last = some(slice(0, 1000)), some(slice(n - min(n, 1000), n))
    for key in (few, last):
        checked(variables(out[key]), factored(variables(cp.asnumpy(points[key]))), "symdiff")
    wanted = factored(variables(cp.asnumpy(points[few])))
    together = fused(cubic_by_hand)
    candidates: Candidates = {
        "copy of the same bytes": lambda: cp.copyto(copied, points),
        "symdiff, out= given": lambda: gradient(points, out=out),
        "symdiff": lambda: gradient(points),
        "CuPy, by hand": lambda: factored(variables(points)),
        "cupy.fuse, by hand": lambda: together(*variables(points)),
    }
    checked(together(*variables(points[few])), wanted, "cupy.fuse")
    peers, left_out = _peers(lambda x, package: problems.cubic(x), points if axis == -1 else points.T, wanted, value=False)
    return bandwidth_table(candidates | peers, 2 * points.nbytes, "copy of the same bytes", rounds) + left_out


def logistic(n: int, rounds: int) -> str:
    """Value and derivative of the logistic function at n points."""
    import cupy as cp

    room()
    x = cp.random.default_rng(0).standard_normal(n)
    out = cp.empty_like(x), cp.empty_like(x)
    both = sd.vmap(sd.value_and_grad(problems.logistic))

    def logistic_by_hand(x: Any) -> Any:
        value = 1 / (1 + cp.exp(-x))
        return value, value * (1 - value)

    together = fused(logistic_by_hand)
    both(x, out=out)
    for few in (slice(n - min(n, 1000), n), slice(0, 1000)):
        reference = 1 / (1 + np.exp(-cp.asnumpy(x[few])))
        wanted = [reference, reference * (1 - reference)]
        checked([part[few] for part in out], wanted, "symdiff")
    for name, call in (("by hand", logistic_by_hand), ("cupy.fuse", together)):
        checked(call(x[few]), wanted, name)
    source = cp.empty(3 * n // 2)
    target = cp.empty_like(source)
    candidates: Candidates = {
        "copy of the same bytes": lambda: cp.copyto(target, source),
        "symdiff, out= given": lambda: both(x, out=out),
        "symdiff": lambda: both(x),
        "CuPy, by hand": lambda: logistic_by_hand(x),
        "cupy.fuse, by hand": lambda: together(x),
    }
    peers, left_out = _peers(lambda x, package: 1 / (1 + package.exp(-x)), x, wanted, value=True)
    return bandwidth_table(candidates | peers, 3 * x.nbytes, "copy of the same bytes", rounds) + left_out


def layer(rows: int, inner: int, columns: int, rounds: int) -> str:
    """Value and gradients of a layer with bias, beside its two products alone and one pass over the activations."""
    import cupy as cp

    room()

    def loss(W: Any, b: Any, X: Any) -> Any:
        return np.sum(np.tanh(W @ X + b))

    rng = cp.random.default_rng(0)
    W, b = rng.standard_normal((rows, inner)) / inner**0.5, rng.standard_normal((rows, 1))
    X = rng.standard_normal((inner, columns))
    f = sd.value_and_grad(loss, (0, 1))
    out = cp.empty(()), (cp.empty_like(W), cp.empty_like(b))

    def activated(z: Any, b: Any) -> Any:
        activations = cp.tanh(z + b)
        return activations, 1 - activations * activations

    together = fused(activated)

    def by_hand(function: Callable[..., Any] = activated) -> Any:
        activations, slopes = function(W @ X, b)
        return activations.sum(), slopes @ X.T, slopes.sum(1, keepdims=True)

    value, gradients = f(W, b, X, out=out)
    wanted = [cp.asnumpy(p) for p in by_hand()]
    checked((value, *gradients), wanted, "symdiff")
    checked(by_hand(together), wanted, "cupy.fuse")
    activations, passed = cp.empty((rows, columns)), cp.empty((rows, columns))

    def floor() -> None:
        cp.matmul(W, X, out=activations)
        cp.copyto(passed, activations)
        cp.matmul(passed, X.T, out=out[1][0])

    candidates: Candidates = {
        "cuBLAS twice, and one copy of the activations": floor,
        "symdiff, out= given": lambda: f(W, b, X, out=out),
        "CuPy, by hand": by_hand,
        "cupy.fuse, by hand": lambda: by_hand(together),
    }
    peers, left_out = _layer_peers(W, b, X, wanted)
    times = medians(candidates | peers, rounds)
    first = next(iter(times.values()))
    rows_of = [[name, timing.shown(t), f"{t / first:.2f}"] for name, t in times.items()]
    return timing.table(["", "time of a call", "to the first row"], rows_of) + left_out


def _same(found: Any, wanted: Any, name: str) -> None:
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9, err_msg=name)


def _jax() -> Any:
    """JAX in double precision, where it is installed and sees the GPU; else None."""
    if importlib.util.find_spec("jax") is None:
        return None
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # else it takes most of the memory at once
    import jax

    jax.config.update("jax_enable_x64", True)
    return jax if jax.default_backend() == "gpu" else None


def _torch() -> Any:
    """PyTorch, where it is installed and sees the GPU; else None."""
    if importlib.util.find_spec("torch") is None:
        return None
    import torch

    return torch if torch.cuda.is_available() else None


def _tried(packages: dict[str, Callable[[], Callable[[], Any]]]) -> tuple[Candidates, str]:
    """The candidates of other packages, and a line below the table on those that could not be run; wrong answers raise."""
    found: Candidates = {}
    reasons = []
    for name, made in packages.items():
        room()
        try:
            found[name] = made()
        except AssertionError:
            raise
        except Exception as error:
            reasons.append(f"{name} ({type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''})")
    return found, f"\n\nLeft out: {', '.join(reasons)}." if reasons else ""


def _peers(f: Callable[..., Any], points: Any, wanted: list[Any], value: bool) -> tuple[Candidates, str]:
    """The gradient by JAX and PyTorch, in layouts of their own, or value and derivative.

    `f(x, package)` is the function in the words of a package; the points lie last; `wanted` are the results at the first 1000.
    """
    jax, torch = _jax(), _torch()

    def by_jax() -> Callable[[], Any]:
        shared = jax.dlpack.from_dlpack(points.T.copy())
        derived = jax.value_and_grad if value else jax.grad
        step = jax.jit(jax.vmap(derived(lambda x: f(x, jax.numpy))))
        found = step(shared[:1000])
        _same([np.asarray(part) for part in found] if value else np.asarray(found).T, wanted, "JAX")
        return lambda: jax.block_until_ready(step(shared))

    def by_torch() -> Callable[[], Any]:
        variables = torch.from_dlpack(points.copy()).requires_grad_()

        def step(x: Any) -> Any:
            values = f(x, torch)
            (slopes,) = torch.autograd.grad(values.sum(), x)
            return (values.detach(), slopes) if value else slopes

        few = variables[..., :1000].detach().clone().requires_grad_()
        _same([part.cpu().numpy() for part in step(few)], wanted, "PyTorch")
        return lambda: step(variables)

    packages = {"JAX, jit(vmap)": by_jax} if jax is not None else {}
    return _tried(packages | ({"PyTorch": by_torch} if torch is not None else {}))


def _layer_peers(W: Any, b: Any, X: Any, wanted: list[Any]) -> tuple[Candidates, str]:
    jax, torch = _jax(), _torch()

    def by_jax() -> Callable[[], Any]:
        arrays = [jax.dlpack.from_dlpack(a) for a in (W, b, X)]
        step = jax.jit(jax.value_and_grad(lambda W, b, X: jax.numpy.sum(jax.numpy.tanh(W @ X + b)), (0, 1)))
        value, gradients = step(*arrays)
        _same([np.asarray(p) for p in (value, *gradients)], wanted, "JAX")
        return lambda: jax.block_until_ready(step(*arrays))

    def by_torch() -> Callable[[], Any]:
        w, c, x = (torch.from_dlpack(a.copy()).requires_grad_(a is not X) for a in (W, b, X))

        def step() -> Any:
            return torch.autograd.grad(torch.tanh(w @ x + c).sum(), (w, c))

        _same([p.cpu().numpy() for p in step()], wanted[1:], "PyTorch")
        return step

    packages = {"JAX, jit(value_and_grad)": by_jax} if jax is not None else {}
    return _tried(packages | ({"PyTorch": by_torch} if torch is not None else {}))


def document(points: int, rounds: int, size: int) -> str:
    """The header and all tables."""
    parts = [
        "# Benchmarks on a GPU",
        f"{datetime.date.today()}, {machine()}.",
        f"float64. Every answer is checked before it is timed; a time is the median of {rounds} rounds by events of the "
        "device, in which all candidates of a table take turns.",
        f"## The cubic's gradient at {points} points, points last\n\n{cubic(points, rounds, -1)}",
        f"## The same, points first\n\n{cubic(points, rounds, 0)}",
        f"## Logistic value and derivative at {points} points\n\n{logistic(points, rounds)}",
        f"## A layer with bias: W {size} x {size}, X {size} x {size}\n\n{layer(size, size, size, rounds)}",
    ]
    return "\n\n".join(parts) + "\n"


def main() -> int:
    """Print the tables, or write them to a file; 2 where there is no GPU."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--points", type=int, default=10**8, help="points of the first three tables (default: 100000000)")
    parser.add_argument("--size", type=int, default=4096, help="rows and columns of the layer's matrices (default: 4096)")
    parser.add_argument("--rounds", type=int, default=15, help="rounds (default: 15)")
    parser.add_argument("-o", "--output", help="the file to write (default: standard output)")
    options = parser.parse_args()
    problem = missing()
    if problem:
        print(f"python -m benchmarks.gpu: {problem}. Nothing was measured.", file=sys.stderr)
        return 2
    text = document(options.points, options.rounds, options.size)
    if options.output:
        Path(options.output).write_text(text, encoding="utf-8")
    else:
        print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
