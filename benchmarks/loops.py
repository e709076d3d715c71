"""Plain Python loops: value and gradient as symdiff makes them, by hand in C and by JAX's scans, for rising numbers of rounds.

`python -m benchmarks.loops [n ...]` prints the table; each row is measured in a process of its own, after the gradient of a
cubic, whose first call is the measure of the others'. A row that takes longer than a minute is told as such. C needs a
compiler called `cc`, JAX an installation; their cells stay empty without. All answers are compared first.
"""

import ctypes
import importlib.util
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import symdiff as sd
from benchmarks import calls, timing

LIMIT = 60  # seconds that a row may take
HEADS = [
    "case", "n", "first call", "cubics", "memory, MB", "f in Python", "value and gradient", "to f", "C by hand", "symdiff to C",
    "JAX", "symdiff to JAX",
]  # fmt: skip
SOURCE = Path(__file__).parent / "loops.c"


def rosenbrock(x: Any) -> Any:
    """Its sum over neighbours."""
    s = 0.0
    for i in range(len(x) - 1):
        s += 100.0 * (x[i + 1] - x[i] ** 2) ** 2 + (1 - x[i]) ** 2
    return s


def product(x: Any) -> Any:
    """The product of all elements."""
    p = 1.0
    for a in x:
        p = p * a
    return p


def chebyshev(x: Any, n: int) -> Any:
    """The polynomial of degree n by its recurrence."""
    a, b = 1.0, x
    for _ in range(n - 1):
        a, b = b, 2 * x * b - a
    return b


def sine_chain(a: Any, b: Any, n: int) -> Any:
    """Sines of sines."""
    s = a
    for i in range(n):
        s = np.sin(s * a) + b * i
    return s


def logistic(x: Any, r: float, n: int) -> Any:
    """The logistic map."""
    for _ in range(n):
        x = r * x * (1 - x)
    return x


def slopes(q: Any, p: Any) -> Any:
    """Of a pendulum."""
    return p, -np.sin(q)


def pendulum(q: Any, p: Any, h: float, n: int) -> Any:
    """A pendulum by the method of Runge and Kutta."""
    for _ in range(n):
        a, b = slopes(q, p)
        c, d = slopes(q + h / 2 * a, p + h / 2 * b)
        e, g = slopes(q + h / 2 * c, p + h / 2 * d)
        i, j = slopes(q + h * e, p + h * g)
        q = q + h / 6 * (a + 2 * c + 2 * e + i)
        p = p + h / 6 * (b + 2 * d + 2 * g + j)
    return q * q + p


def bodies(r: Any, v: Any, h: float, n: int) -> Any:
    """Three bodies, as rows of arrays."""
    masses = [1.0, 0.5, 0.3]
    for _ in range(n):
        a = np.zeros((3, 3))
        for i in range(3):
            for j in range(3):
                if i != j:
                    d = r[j] - r[i]
                    a[i] += masses[j] * d / (np.sum(d * d) + 0.01) ** 1.5
        v = v + h * a
        r = r + h * v
    return np.sum(r * r)


def filtered(x: Any, a: float, b: float) -> Any:
    """A recursive filter of second order."""
    y = np.zeros(len(x))
    y[0], y[1] = x[0], x[1]
    for n in range(2, len(x)):
        y[n] = b * x[n] + a * y[n - 1] - 0.2 * y[n - 2]
    return np.sum(y**2)


def atoms(p: Any) -> Any:
    """The energy of all pairs, each counted once."""
    e = 0.0
    for i in range(len(p)):
        for j in range(i + 1, len(p)):
            d = p[i] - p[j]
            s = 1 / (d[0] ** 2 + d[1] ** 2 + d[2] ** 2) ** 3
            e += 4 * (s * s - s)
    return e


def newton(a: Any, tolerance: float) -> Any:
    """A square root."""
    x = a
    while abs(x * x - a) > tolerance:
        x = 0.5 * (x + a / x)
    return x


def adaptive(y: Any, k: float, end: float, tolerance: float) -> Any:
    """Heun's method with steps of their own size."""
    t, h = 0.0, 0.01
    while t < end:
        if t + h > end:
            h = end - t
        first = -k * y + np.sin(t)
        second = -k * (y + h * first) + np.sin(t + h)
        error = abs(0.5 * h * (second - first))
        if error <= tolerance:
            t = t + h
            y = y + 0.5 * h * (first + second)
        h = h * min(2.0, max(0.2, 0.9 * np.sqrt(tolerance / (error + 1e-16))))
    return y


def matrix_product(a: Any, b: Any) -> Any:
    """The square of a product of matrices by three loops."""
    c = np.zeros((len(a), len(b[0])))
    for i in range(len(a)):
        for j in range(len(b[0])):
            s = 0.0
            for k in range(len(b)):
                s += a[i, k] * b[k, j]
            c[i, j] = s
    return np.sum(c * c)


def stencil(u: Any, n: int) -> Any:
    """Diffusion in time."""
    u = u.copy()
    for _ in range(n):
        u[1:-1] += 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
    return np.sum(u * u)


def case(name: str, n: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A function with about n rounds, and arguments."""
    random = np.random.default_rng(0)
    x, root, third = random.uniform(0.9, 1.1, n), round((2 * n) ** 0.5), round(n ** (1 / 3))
    arguments: dict[str, tuple[Any, ...]] = {
        "rosenbrock": (x,), "product": (x ** (1 / n),), "chebyshev": (0.3, n), "sine_chain": (0.5, 1e-3, n),
        "logistic": (0.3, 3.2, n), "pendulum": (0.3, 0.1, 0.01, n), "bodies": (*random.normal(size=(2, 3, 3)), 1e-5, n),
        "filtered": (x, 0.5, 0.3), "atoms": (random.uniform(0, 5, (root, 3)),), "newton": (2.0, 1e-12),
        "adaptive": (1.0, 2.0, 0.01 * n, 1e-6), "matrix_product": tuple(random.normal(size=(2, third, third))),
        "stencil": (random.normal(size=100), n),
    }  # fmt: skip
    return globals()[name], arguments[name]


NAMES = (
    "rosenbrock", "product", "chebyshev", "sine_chain", "logistic", "pendulum", "bodies", "filtered", "atoms", "newton",
    "adaptive", "matrix_product", "stencil",
)  # fmt: skip


def first_call(f: Callable[..., Any], args: tuple[Any, ...]) -> float:
    """Seconds."""
    began = time.perf_counter()
    f(*args)
    return time.perf_counter() - began


def peak() -> float:
    """Megabytes that the process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def derived(args: tuple[Any, ...]) -> tuple[int, ...]:
    """The places of the arguments that are differentiated: all but whole numbers."""
    return tuple(i for i, a in enumerate(args) if not isinstance(a, int))


def answers(returned: Any) -> tuple[Any, ...]:
    """The value and the derivatives in one row."""
    value, gradient = returned
    return (value, *gradient) if isinstance(gradient, tuple) else (value, gradient)


def by_hand(name: str, args: tuple[Any, ...]) -> calls.Call | None:
    """The function of `loops.c` with its pointers bound before; None where there is none, or no compiler."""
    if f"double {name}(" not in SOURCE.read_text(encoding="utf-8") or shutil.which("cc") is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder) / "loops.so"
        flags = ["-O3", "-march=native", "-fopenmp-simd", "-shared", "-fPIC"]
        subprocess.run(["cc", *flags, "-o", built, SOURCE, "-lm"], check=True)
        run = ctypes.CDLL(str(built))[name]
    rounds = next((a for a in args if isinstance(a, int)), np.shape(args[0])[0] if np.ndim(args[0]) else 0)
    packed = np.concatenate([np.ravel(args[i]) for i in derived(args)])
    gradient = np.zeros(packed.size)
    run.restype, pointer = ctypes.c_double, ctypes.c_void_p
    given = pointer(packed.ctypes.data), ctypes.c_long(rounds), pointer(gradient.ctypes.data)
    return calls.Call(run, given, answers=lambda value, keep=packed: (value, gradient))


def by_jax(name: str, args: tuple[Any, ...]) -> calls.Call | None:
    """The same loop written with `scan`, or `while_loop` and forward mode, compiled by `jit`; None where there is none."""
    if importlib.util.find_spec("jax") is None:
        return None
    from benchmarks import scans

    f = getattr(scans, name, None)
    return f and scans.compiled(f, args, derived(args))


def row(name: str, n: int) -> str:
    """One row of the table, measured here."""
    first_call(sd.grad(lambda x: x**3 + x), (2.0,))  # what is loaded once
    cubic = first_call(sd.grad(lambda x: x**3), (2.0,))
    f, args = case(name, n)
    before, df = peak(), sd.value_and_grad(f, derived(args))
    first = first_call(df, args)
    memory = peak() - before
    found = {"C": by_hand(name, args), "JAX": by_jax(name, args)}
    known = {"symdiff": calls.Call(df, args, answers=answers)} | {k: call for k, call in found.items() if call is not None}
    expected = calls.flat(answers(df(*args)))
    for who, call in known.items():
        calls.check(f"{who}, {name}", call.answers(call()), expected)
    times = calls.times(known, 9)
    ours, python = times["symdiff"], first_call(f, args)
    cells = [name.replace("_", " "), str(n), timing.shown(first), f"{first / cubic:.1f}", f"{memory:.0f}"]
    cells += [timing.shown(python), timing.shown(ours), f"{ours / python:.4f}"]
    for who in found:
        cells += [timing.shown(times[who]), f"{ours / times[who]:.2f}"] if who in times else ["", ""]
    return timing.row(cells)


def measured(name: str, n: int) -> str:
    """One row of the table, measured in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.loops", name, str(n)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=LIMIT, env={**os.environ, "SYMDIFF_CACHE": "off"}
        )
    except subprocess.TimeoutExpired:
        return told(name, n, f"over {LIMIT} s")
    return told(name, n, done.stderr.splitlines()[-1][:100]) if done.returncode else done.stdout.strip()


def told(name: str, n: int, why: str) -> str:
    """A row without times."""
    return timing.row([name.replace("_", " "), str(n), why, *[""] * (len(HEADS) - 3)])


if __name__ == "__main__":
    if sys.argv[1:] and sys.argv[1] in NAMES:
        print(row(sys.argv[1], int(sys.argv[2])))
    else:
        print(timing.table(HEADS, []))
        for size in map(int, sys.argv[1:] or ("1000", "1000000")):
            for each in NAMES:
                print(measured(each, size), flush=True)
