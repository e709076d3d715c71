"""`python -m benchmarks.npbench PATH`: gradients of NPBench's kernels as they stand, with a sum over their results.

Assumes a checkout of NPBench (Ziogas et al., NPBench: A Benchmarking Suite for High-Performance NumPy, ICS 2021) at PATH.
Guarantees a process of its own for each kernel, on one core, with a limit of time, and a gradient that is compared with
differences before it is timed. A kernel without real or complex arrays among its arguments has no derivative and says so.
"""

import argparse
import datetime
import importlib.metadata
import importlib.util
import json
import math
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

EXPLAINED = """The gradient of the sum over a kernel's results by all its arrays of real or complex numbers, at the sizes of the
preset; single precision where the kernel has it. *status*: right, where the slope along a random direction agrees with central
differences (all zero: as of a sum over softmax); what a refusal says; or wrong. *first call*: tracing, compiling, running;
*call*, and *NumPy*, the kernel itself: the least of several. *JAX*: `jax.jit(jax.grad(...))` of NPBench's variant for it, with
its loops rewritten by hand."""
ONE_CORE = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class Kernel:
    """A kernel with its arguments, at the sizes of a preset."""

    def __init__(self, folder: Path, name: str, preset: str) -> None:
        import numpy as np

        self.told = json.loads((folder / "bench_info" / f"{name}.json").read_text())["benchmark"]
        self.stem = folder / "npbench" / "benchmarks" / self.told["relative_path"] / self.told["module_name"]
        sizes = dict(self.told["parameters"][preset])
        if start := self.told.get("init"):
            made = getattr(_module(self.stem.with_suffix(".py")), start["func_name"])(*(sizes[n] for n in start["input_args"]))
            names = start["output_args"]
            sizes.update(zip(names, made if len(names) > 1 else [made], strict=True))
        self.arguments = [sizes[name] for name in self.told["input_args"]]
        self.places = [k for k, a in enumerate(self.arguments) if isinstance(a, np.ndarray) and a.dtype.kind in "fc"]
        self.points = [self.arguments[k] for k in self.places]
        names = self.told["input_args"]
        self.outputs = [names.index(name) for name in self.told["output_args"] if name in names] or self.changed()

    def changed(self) -> list[int]:
        """The arrays of numbers that the kernel changes."""
        import numpy as np

        given = [a.copy() if isinstance(a, np.ndarray) else a for a in self.arguments]
        self.kernel("numpy")(*given)
        return [k for k in self.places if not np.array_equal(given[k], self.arguments[k])]

    def kernel(self, package: str) -> Callable[..., Any]:
        """The kernel as it is written for a package."""
        module = _module(self.stem.with_name(f"{self.stem.name}_{package}.py"))
        return getattr(module, self.told["func_name"])  # type: ignore[no-any-return]

    def total(self, package: str) -> Callable[..., Any]:
        """The sum over the results, as a function of the arrays of numbers; what the kernel changes is a copy."""
        import numpy as np

        kernel = self.kernel(package)

        def total(*points: Any) -> Any:
            given = [a.copy() if isinstance(a, np.ndarray) else a for a in self.arguments]
            for k, point in zip(self.places, points, strict=True):
                given[k] = point.copy()
            found = kernel(*given)
            if found is None or type(found) is int:  # a kernel that counts its steps
                found = [given[k] for k in self.outputs]
            parts = found if isinstance(found, (tuple, list)) else [found]
            return sum(part.sum() if hasattr(part, "sum") else part for part in parts)

        return total


def _module(path: Path) -> ModuleType:
    found = importlib.util.spec_from_file_location(path.stem, path)
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def least(call: Callable[[], Any], seconds: float = 2.0) -> float:
    """The least time of several calls."""
    best, begin = math.inf, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def agrees(kernel: Kernel, gradients: Any) -> bool:
    """Whether the slope along a random direction is that of central differences, in at least one of several steps."""
    import numpy as np

    rng = np.random.default_rng(3)
    total = kernel.total("numpy")
    ways = [rng.uniform(0.5, 1.0, p.shape).astype(p.dtype) * np.maximum(np.abs(p), 1e-3).astype(p.dtype) for p in kernel.points]
    slope = sum(complex(np.sum(g.astype(complex) * w)) for g, w in zip(gradients, ways, strict=True))
    single = any(p.dtype.char in "fF" for p in kernel.points)
    for h in (3e-2, 1e-2, 3e-3) if single else (1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10):
        points = [[p + p.dtype.type(s * h) * w for p, w in zip(kernel.points, ways, strict=True)] for s in (1, -1, 2, -2)]
        try:
            ends = [complex(total(*given)) for given in points]
        except np.linalg.LinAlgError:  # as of a matrix that is definite nearer to the point only
            continue
        noise = (1e-7 if single else 1e-16) * abs(ends[0]) / h
        near, far = (ends[0] - ends[1]) / (2 * h), (ends[2] - ends[3]) / (4 * h)
        found = (near, near + (near - far) / 3)  # of second, and of fourth order, which chaotic motions need
        if any(abs(d - slope) <= (2e-2 if single else 1e-4) * abs(slope) + 100 * noise for d in found):
            return True
    return False


def ours(kernel: Kernel) -> dict[str, Any]:
    """Status and times of symdiff."""
    import symdiff as sd

    sd.grad(lambda x: x**3)(2.0)
    start = time.perf_counter()
    df = sd.grad(kernel.total("numpy"), argnums=tuple(range(len(kernel.points))))
    try:
        found = df(*kernel.points)
    except sd.SymdiffError as error:
        return {"status": f"refused: {error}".splitlines()[0]}
    first = time.perf_counter() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    status = "wrong" if not agrees(kernel, found) else "right" if any(g.any() for g in found) else "right, all zero"
    return {"status": status, "first": first, "call": least(lambda: df(*kernel.points)), "memory": memory}


def numpys(kernel: Kernel) -> dict[str, Any]:
    """The time of the kernel itself."""
    total = kernel.total("numpy")
    return {"numpy": least(lambda: total(*kernel.points))}


def jaxs(kernel: Kernel) -> dict[str, Any]:
    """Times of JAX."""
    import jax

    jax.config.update("jax_enable_x64", True)
    if not kernel.stem.with_name(f"{kernel.stem.name}_jax.py").exists():
        return {}
    whole = any(p.dtype.kind == "c" for p in kernel.points)
    total = kernel.total("jax")
    points = [jax.numpy.asarray(p) for p in kernel.points]
    start = time.perf_counter()
    df = jax.jit(jax.grad(total, argnums=tuple(range(len(points))), holomorphic=whole))
    jax.block_until_ready(df(*points))
    return {"jax_first": time.perf_counter() - start, "jax": least(lambda: jax.block_until_ready(df(*points)))}


PARTS = {"symdiff": ours, "numpy": numpys, "jax": jaxs}


def run(folder: Path, name: str, part: str, preset: str, limit: float) -> dict[str, Any]:
    """What a process of its own finds."""
    command = [sys.executable, "-m", "benchmarks.npbench", str(folder), name, "--preset", preset, "--part", part]
    environment = {**os.environ, **ONE_CORE, "SYMDIFF_CACHE": "off", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, env=environment)
    except subprocess.TimeoutExpired:
        return {"status": f"over {limit:.0f} s"}
    if done.returncode:
        return {"status": f"failed: {(done.stderr.strip().splitlines() or [f'signal {-done.returncode}'])[-1]}"}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def row(name: str, found: dict[str, Any]) -> list[str]:
    """A row of the table."""
    from benchmarks.timing import shown

    def told(key: str) -> str:
        return shown(found[key]) if key in found else ""

    ratio = f"{found['call'] / found['jax']:.2f}" if {"call", "jax"} <= found.keys() else ""
    memory = f"{found['memory']:.0f} MB" if "memory" in found else ""
    own = [found.get("status", ""), told("first"), told("call"), memory]
    return [name, *own, told("numpy"), told("jax_first"), told("jax"), ratio]


def main(argv: list[str] | None = None) -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.npbench", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="a checkout of NPBench")
    parser.add_argument("names", nargs="*", help="kernels; all by default")
    parser.add_argument("-o", "--output", type=Path, help="the file; standard output by default")
    parser.add_argument("--preset", default="S", help="the sizes")
    parser.add_argument("--limit", type=float, default=150.0, help="seconds for a kernel")
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.part:
        kernel = Kernel(options.folder, options.names[0], options.preset)
        print(json.dumps(PARTS[options.part](kernel) if kernel.points else {"status": "no arrays of numbers"}))
        return
    from benchmarks.__main__ import machine
    from benchmarks.timing import table

    rows = []
    for name in options.names or sorted(p.stem for p in (options.folder / "bench_info").glob("*.json")):
        found: dict[str, Any] = {}
        for part in PARTS if importlib.util.find_spec("jax") else ("symdiff", "numpy"):
            found = {**run(options.folder, name, part, options.preset, options.limit), **found}
        rows.append(row(name, found))
        print(" | ".join(rows[-1]), file=sys.stderr, flush=True)
    packages = "".join(f", JAX {importlib.metadata.version(p)}" for p in ("jax",) if importlib.util.find_spec(p))
    load = (
        f"A load of {os.getloadavg()[2]:.0f} on {os.cpu_count()} cores" if hasattr(os, "getloadavg") else "The load is unknown"
    )
    made = f"{datetime.date.today()}, {machine()}{packages}. {load}; made by `python -m benchmarks.npbench PATH`."
    heads = ["kernel", "status", "first call", "call", "memory", "NumPy", "JAX, first call", "JAX", "to JAX"]
    text = "\n\n".join(["# NPBench", made, EXPLAINED, table(heads, rows)]) + "\n"
    if options.output:
        options.output.write_text(text)
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
