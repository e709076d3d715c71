"""`python -m benchmarks.native_batches`: batches as machine code against what their memory traffic and NumPy's calls cost.

Assumes llvmlite. Guarantees checked answers, and ratios of processor time of one thread, the least of interleaved rounds, so
that other work on the machine counts little. Refuses to run without llvmlite.
"""

import argparse
import ctypes
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import symdiff as sd
from benchmarks import problems, timing
from benchmarks.cubic import factored
from symdiff.runtime import engine, memory

_LINE = 64


def streaming_copy() -> Callable[[Any, Any], None]:
    """A copy of contiguous arrays with nontemporal stores: no read of what is overwritten, a third of the traffic less."""
    wide = 8 * engine.machine_lanes()
    moves = []
    for k in range(0, 4 * wide, wide):
        moves += [
            f"  %at{k} = add i64 %i, {k}",
            f"  %from{k} = getelementptr i8, ptr %from, i64 %at{k}",
            f"  %to{k} = getelementptr i8, ptr %to, i64 %at{k}",
            f"  %part{k} = load <{wide} x i8>, ptr %from{k}, align 1",
            f"  store <{wide} x i8> %part{k}, ptr %to{k}, align {wide}, !nontemporal !0",
        ]
    code = engine.Code(
        "\n".join(
            [
                "define void @copy(ptr noalias %to, ptr noalias %from, i64 %bytes) {",
                "entry:",
                "  br label %test",
                "test:",
                "  %i = phi i64 [0, %entry], [%next, %body]",
                f"  %next = add i64 %i, {4 * wide}",
                "  %more = icmp sle i64 %next, %bytes",
                "  br i1 %more, label %body, label %end",
                "body:",
                *moves,
                "  br label %test",
                "end:",
                "  fence seq_cst",
                "  ret void",
                "}",
                "!0 = !{i32 1}",
            ]
        ),
        2,
    )
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_ssize_t)(code.address("copy"))

    def copy(target: Any, source: Any) -> None:
        """The few bytes before the first whole line and after the last block are left to NumPy."""
        flat, given = target.reshape(-1).view(np.uint8), source.reshape(-1).view(np.uint8)
        head = -flat.ctypes.data % _LINE
        whole = (flat.size - head) // (4 * wide) * 4 * wide
        function(flat.ctypes.data + head, given.ctypes.data + head, whole)
        np.copyto(flat[:head], given[:head])
        np.copyto(flat[head + whole :], given[head + whole :])

    copy.code = code  # type: ignore[attr-defined]
    return copy


def least(candidates: timing.Candidates, rounds: int) -> dict[str, float]:
    """Seconds of this thread's processor time for one call of each: the least of interleaved rounds."""
    found = dict.fromkeys(candidates, np.inf)
    repeats = {}
    for name, call in candidates.items():
        call()
        started = time.perf_counter()
        call()
        repeats[name] = max(1, round(2e-3 / (time.perf_counter() - started)))
    for _ in range(rounds):
        for name, call in candidates.items():
            started = time.thread_time()
            for _ in range(repeats[name]):
                call()
            found[name] = min(found[name], (time.thread_time() - started) / repeats[name])
    return found


def gradients(n: int, rounds: int) -> str:
    """The cubic's gradient at n points, in both layouts and three dtypes, beside copies of the same bytes."""
    copy, rows = streaming_copy(), []
    for dtype in ("float64", "complex128", "float32"):
        points = np.random.default_rng(0).standard_normal((8, n)).astype(dtype)
        if dtype == "complex128":
            points += 1j * points[::-1].real
        for axis in (-1, 0):
            x = points if axis == -1 else np.ascontiguousarray(points.T)
            out, copied = np.full_like(x, np.nan), np.zeros_like(x)
            gradient = sd.vmap(sd.grad(problems.cubic), in_axes=axis, backend="native", threads=1)
            gradient(x, out=out)
            checked = out if axis == -1 else out.T
            tolerance = 1e-3 if dtype == "float32" else 1e-9
            np.testing.assert_allclose(checked, factored(points), tolerance, tolerance)
            copy(copied, x)
            np.testing.assert_array_equal(copied, x)
            times = least(
                {
                    "gradient": lambda g=gradient, x=x, out=out: g(x, out=out),  # type: ignore[misc]
                    "streaming": lambda x=x, copied=copied: copy(copied, x),  # type: ignore[misc]
                    "copyto": lambda x=x, copied=copied: np.copyto(copied, x),  # type: ignore[misc]
                },
                rounds,
            )
            ratio = f"{times['gradient'] / times['streaming']:.2f}"
            shown = [timing.shown(t) for t in times.values()]
            rows.append([f"{dtype}, points {'last' if axis else 'first'}", *shown, ratio])
    return timing.table(["", "gradient", "streaming copy", "np.copyto", "gradient to streaming copy"], rows)


def logistic(n: int, rounds: int) -> str:
    """Value and derivative of the logistic function, against one exponential and one copy by NumPy."""
    x = np.random.default_rng(0).standard_normal(n)
    value, slope, made, copied = (np.empty(n) for _ in range(4))
    both = sd.vmap(sd.value_and_grad(problems.logistic), backend="native", threads=1)
    both(x, out=(value, slope))
    np.testing.assert_allclose(value, problems.logistic(x), 1e-12)
    np.testing.assert_allclose(slope, value * (1 - value), 1e-12, 1e-15)
    times = least(
        {
            "value and derivative": lambda: both(x, out=(value, slope)),
            "np.exp and np.copyto": lambda: (np.exp(x, out=made), np.copyto(copied, x)),
        },
        rounds,
    )
    return timing.compared(times, "np.exp and np.copyto")


def few(rounds: int) -> str:
    """The cubic's gradient at few points: vmap and the gufunc, with `out=`, beside one call of NumPy and NumPy by hand."""
    gradient = sd.vmap(sd.grad(problems.cubic), backend="native")
    ufunc = sd.grad(problems.cubic).compile(np.ones(8)).gufunc
    rows = []
    for n in (1, 10, 100, 1000):
        x = np.random.default_rng(0).standard_normal((n, 8))
        out, copied = np.empty_like(x), np.empty_like(x)
        candidates: timing.Candidates = {
            "vmap": lambda x=x, out=out: gradient(x, out=out),  # type: ignore[misc]
            "gufunc": lambda x=x, out=out: ufunc(x, out=out),  # type: ignore[misc]
        }
        for _ in range(3):
            timing.checked(candidates, np.stack(factored(x.T), 1))
        candidates["hand"] = lambda x=x: factored(x.T)  # type: ignore[misc]
        candidates["add"] = lambda x=x, copied=copied: np.add(x, x, out=copied)  # type: ignore[misc]
        times = least(candidates, rounds)
        rows.append([str(n), *(timing.shown(t) for t in times.values()), f"{times['vmap'] / times['add']:.2f}"])
    heads = ["points", "vmap", "gufunc", "NumPy by hand", "np.add(x, x, out=)", "vmap to np.add"]
    return timing.table(heads, rows)


def threaded(n: int, rounds: int) -> str:
    """A function that takes some time at each point, in one thread, two, and as many as pay, by the clock."""
    x = np.random.default_rng(0).standard_normal(n)
    out = np.empty(n)
    candidates: timing.Candidates = {}
    for threads in (1, 2, None):
        f = sd.vmap(sd.grad(lambda v: np.sin(v) * np.exp(np.cos(v))), backend="native", threads=threads)
        candidates[f"threads={threads}"] = lambda f=f: f(x, out=out)  # type: ignore[misc]
    timing.checked(candidates, np.exp(np.cos(x)) * (np.cos(x) - np.sin(x) ** 2))
    return timing.compared(timing.times(candidates, rounds), "threads=1")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.native_batches", description=__doc__)
    parser.add_argument("--points", type=int, default=10**6, help="points of the large batches (default: 1000000)")
    parser.add_argument("--rounds", type=int, default=25)
    options = parser.parse_args()
    n, rounds = options.points, options.rounds
    print(f"Last cache: {memory.last_cache() >> 20} MiB; vectors of {engine.machine_lanes()} float64.\n")
    print(f"## The cubic's gradient at {n} points\n\n{gradients(n, rounds)}\n")
    print(f"## The logistic function and its derivative at {n} points\n\n{logistic(n, rounds)}\n")
    print(f"## Few points\n\n{few(rounds)}\n")
    print(f"## Threads at {n} points\n\n{threaded(n, min(rounds, 9))}")


if __name__ == "__main__":
    main()
