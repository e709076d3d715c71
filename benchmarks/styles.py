"""`python -m benchmarks.styles`: programs that people write in several ways, and what each way costs, as a table.

Assumes nothing beyond symdiff. Guarantees that all ways of a program agree before they are timed, with themselves and with the
value of the plain function. Refuses nothing.
"""

import argparse
import datetime
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import symdiff as sd
from benchmarks import calls, timing
from benchmarks.__main__ import machine

EXPLAINED = """Value and gradient of each program (of the polynomials the Jacobian), written in several ways that take and give
the same. A time of a call is the least of several rounds in which all ways take turns; *one-off*, in processor time, is
tracing, compiling and the first call, without a cache if `SYMDIFF_CACHE=off`. *to the best*: to the quickest way of a program.
*operations*: those of the derivative with its value, loops written out."""
RNG = np.random.default_rng(11)


class Program(NamedTuple):
    """The ways of a program, and what they are given; `points`: the Jacobian is taken at so many of them."""

    ways: dict[str, Callable[..., Any]]
    args: tuple[Any, ...]
    points: int = 0


def runge_kutta(y: Any, rounds: int, slope: Callable[[Any], Any]) -> Any:
    """The state after some steps of the classical method."""
    h = 0.02
    for _ in range(rounds):
        k1 = slope(y)
        k2 = slope(y + h / 2 * k1)
        k3 = slope(y + h / 2 * k2)
        k4 = slope(y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return y


def _filled(y: Any) -> Any:
    slope = np.zeros(2)
    slope[0] = y[1]
    slope[1] = -np.sin(y[0])
    return slope


@dataclass
class State:
    """An angle and its velocity, with the arithmetic of vectors."""

    angle: Any
    speed: Any

    def __add__(self, other: "State") -> "State":
        return State(self.angle + other.angle, self.speed + other.speed)

    def __rmul__(self, factor: float) -> "State":
        return State(factor * self.angle, factor * self.speed)


def _pendulum_by_numbers(y: Any) -> Any:
    a, b, h = y[0], y[1], 0.02
    for _ in range(100):
        a1, b1 = b, -np.sin(a)
        a2, b2 = b + h / 2 * b1, -np.sin(a + h / 2 * a1)
        a3, b3 = b + h / 2 * b2, -np.sin(a + h / 2 * a2)
        a4, b4 = b + h * b3, -np.sin(a + h * a3)
        a = a + h / 6 * (a1 + 2 * a2 + 2 * a3 + a4)
        b = b + h / 6 * (b1 + 2 * b2 + 2 * b3 + b4)
    return a


def _pendulum() -> Program:
    ways = {
        "numbers": _pendulum_by_numbers,
        "np.array([...])": lambda y: runge_kutta(y, 100, lambda y: np.array([y[1], -np.sin(y[0])]))[0],
        "np.stack": lambda y: runge_kutta(y, 100, lambda y: np.stack([y[1], -np.sin(y[0])]))[0],
        "slices": lambda y: runge_kutta(y, 100, lambda y: np.concatenate([y[1:], -np.sin(y[:1])]))[0],
        "assignment": lambda y: runge_kutta(y, 100, _filled)[0],
        "class": lambda y: runge_kutta(State(y[0], y[1]), 100, lambda s: State(s.speed, -np.sin(s.angle))).angle,
    }
    return Program(ways, (np.array([1.0, 0.2]),))


def _turned_by_numbers(v: Any, angles: Any) -> Any:
    x, y = v[0], v[1]
    for a in angles:
        x, y = np.cos(a) * x - np.sin(a) * y, np.sin(a) * x + np.cos(a) * y
    return x


def _turned(matrix: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    def f(v: Any, angles: Any) -> Any:
        for a in angles:
            v = matrix(a) @ v
        return v[0]

    return f


def _turned_as_complex(v: Any, angles: Any) -> Any:
    z = v[0] + 1j * v[1]
    for a in angles:
        z = z * np.exp(1j * a)
    return z.real


def _rotations() -> Program:
    ways = {
        "numbers": _turned_by_numbers,
        "np.array([[...]])": _turned(lambda a: np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]])),
        "np.stack": _turned(
            lambda a: np.stack([np.stack([np.cos(a), -np.sin(a)]), np.stack([np.sin(a), np.cos(a)])]),
        ),
        "complex": _turned_as_complex,
    }
    return Program(ways, (np.array([1.0, 0.5]), np.linspace(0.0, 1.0, 40)))


def _products(z: Any) -> list[Any]:
    n = len(z)
    return [z[k] * z[(k + 1) % n] * z[(k + 3) % n] - (k + 1j) * z[k] ** 2 + 1 for k in range(n)]


def _system_filled(z: Any) -> Any:
    found = np.zeros(11, complex)
    for k, row in enumerate(_products(z)):
        found[k] = row
    return found


def _system() -> Program:
    k = np.arange(11)
    ways = {
        "np.array(list)": lambda z: np.array(_products(z)),
        "np.stack(list)": lambda z: np.stack(_products(z)),
        "assignment": _system_filled,
        "np.roll": lambda z: z * np.roll(z, -1) * np.roll(z, -3) - (k + 1j) * z**2 + 1,
    }
    return Program(ways, (RNG.standard_normal((10_000, 11)) + 1j * RNG.standard_normal((10_000, 11)),), 10_000)


def _pairs_of_rows(p: Any) -> Any:
    energy = 0.0
    for i in range(len(p)):
        for j in range(i):
            d = p[i] - p[j]
            s = 1 / (d @ d) ** 3
            energy = energy + s * s - s
    return energy


def _pairs_of_numbers(p: Any) -> Any:
    energy = 0.0
    for i in range(len(p)):
        for j in range(i):
            r = (p[i, 0] - p[j, 0]) ** 2 + (p[i, 1] - p[j, 1]) ** 2 + (p[i, 2] - p[j, 2]) ** 2
            s = 1 / r**3
            energy = energy + s * s - s
    return energy


def _pairs_by_index(p: Any) -> Any:
    i, j = np.tril_indices(len(p), -1)
    d = p[i] - p[j]
    s = 1 / np.sum(d * d, axis=1) ** 3
    return np.sum(s * s - s)


def _pairs_broadcast(p: Any) -> Any:
    d = p[:, None, :] - p[None, :, :]
    s = 1 / (np.sum(d * d, axis=2) + 1e6 * np.eye(len(p))) ** 3
    return 0.5 * np.sum((s * s - s) * (1 - np.eye(len(p))))


def _atoms() -> Program:
    ways = {
        "double loop, rows": _pairs_of_rows,
        "double loop, numbers": _pairs_of_numbers,
        "index arrays": _pairs_by_index,
        "broadcasting": _pairs_broadcast,
    }
    return Program(ways, (3 * RNG.random((20, 3)),))


def _rosenbrock_by_index(x: Any) -> Any:
    i = np.arange(len(x) - 1)
    return np.sum(100 * (x[i + 1] - x[i] ** 2) ** 2 + (1 - x[i]) ** 2)


def _rosenbrock() -> Program:
    ways = {
        "loop": lambda x: sum(100 * (x[i + 1] - x[i] ** 2) ** 2 + (1 - x[i]) ** 2 for i in range(len(x) - 1)),
        "pairwise": lambda x: sum(100 * (b - a**2) ** 2 + (1 - a) ** 2 for a, b in itertools.pairwise(x)),
        "slices": lambda x: np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2),
        "index arrays": _rosenbrock_by_index,
        "np.array(list)": lambda x: np.sum(
            np.array([100 * (x[i + 1] - x[i] ** 2) ** 2 + (1 - x[i]) ** 2 for i in range(len(x) - 1)])
        ),
    }
    return Program(ways, (RNG.standard_normal(30),))


MASSES = (1.0, 0.5, 0.3)


def _bodies_by_rows(y: Any) -> Any:
    x, v = [y[2 * k : 2 * k + 2] for k in range(3)], [y[6 + 2 * k : 8 + 2 * k] for k in range(3)]
    for _ in range(20):
        forces = []
        for i in range(3):
            total = np.zeros(2)
            for j in range(3):
                if i != j:
                    d = x[j] - x[i]
                    total = total + MASSES[j] * d / (d @ d + 0.1) ** 1.5
            forces.append(total)
        v = [v[k] + 0.01 * forces[k] for k in range(3)]
        x = [x[k] + 0.01 * v[k] for k in range(3)]
    return x[0] @ x[1]


def _bodies_by_matrix(y: Any) -> Any:
    x, v, m = y[:6].reshape(3, 2), y[6:].reshape(3, 2), np.array(MASSES)
    for _ in range(20):
        d = x[None, :, :] - x[:, None, :]
        v = v + 0.01 * np.sum(m[None, :, None] * d / (np.sum(d * d, axis=2) + 0.1)[:, :, None] ** 1.5, axis=1)
        x = x + 0.01 * v
    return x[0] @ x[1]


def _bodies_by_numbers(y: Any) -> Any:
    x, v = [y[k] for k in range(6)], [y[6 + k] for k in range(6)]
    for _ in range(20):
        forces = [0.0] * 6
        for i in range(3):
            for j in range(3):
                if i != j:
                    a, b = x[2 * j] - x[2 * i], x[2 * j + 1] - x[2 * i + 1]
                    s = MASSES[j] / (a * a + b * b + 0.1) ** 1.5
                    forces[2 * i] = forces[2 * i] + a * s
                    forces[2 * i + 1] = forces[2 * i + 1] + b * s
        v = [a + 0.01 * b for a, b in zip(v, forces, strict=True)]
        x = [a + 0.01 * b for a, b in zip(x, v, strict=True)]
    return x[0] * x[2] + x[1] * x[3]


def _bodies() -> Program:
    ways = {"numbers": _bodies_by_numbers, "rows": _bodies_by_rows, "one matrix": _bodies_by_matrix}
    return Program(ways, (RNG.standard_normal(12),))


def _filtered(F: Any, x: Any, zs: Any) -> Any:
    P, H, total = np.eye(2), np.array([[1.0, 0.0]]), 0.0
    for z in zs:
        x, P = F @ x, F @ P @ F.T + 0.1 * np.eye(2)
        S = (H @ P @ H.T)[0, 0] + 0.2
        K, r = (P @ H.T)[:, 0] / S, z - (H @ x)[0]
        x, P = x + K * r, P - np.outer(K, H[0]) @ P
        total = total + r * r / S + np.log(S)
    return total


def _filtered_by_numbers(F: Any, x: Any, zs: Any) -> Any:
    a, b, p, q, s, total = x[0], x[1], 1.0, 0.0, 1.0, 0.0
    (f, g), (h, k) = (F[0, 0], F[0, 1]), (F[1, 0], F[1, 1])
    for z in zs:
        a, b = f * a + g * b, h * a + k * b
        m, n, o, w = f * p + g * q, f * q + g * s, h * p + k * q, h * q + k * s
        p, q, s = m * f + n * g + 0.1, m * h + n * k, o * h + w * k + 0.1
        t, r = p + 0.2, z - a
        total = total + r * r / t + np.log(t)
        a, b = a + p / t * r, b + q / t * r
        p, q, s = p - p / t * p, q - p / t * q, s - q / t * q
    return total


def _filtered_by_einsum(F: Any, x: Any, zs: Any) -> Any:
    P, total = np.eye(2), 0.0
    for z in zs:
        x, P = np.einsum("ij,j->i", F, x), np.einsum("ij,jk,lk->il", F, P, F) + 0.1 * np.eye(2)
        S, r = P[0, 0] + 0.2, z - x[0]
        total = total + r * r / S + np.log(S)
        x, P = x + P[:, 0] / S * r, P - np.einsum("i,j->ij", P[:, 0] / S, P[0])
    return total


def _kalman() -> Program:
    ways = {"numbers": _filtered_by_numbers, "matrices": _filtered, "einsum": _filtered_by_einsum}
    args = np.array([[1.0, 0.1], [0.0, 1.0]]), np.zeros(2), np.linspace(0.0, 1.0, 40)
    return Program(ways, args)


def _horner(c: Any, x: Any) -> Any:
    total = 0.0
    for k in range(len(c)):
        total = total * x + c[k]
    return total


def _polynomial() -> Program:
    ways = {
        "Horner": _horner,
        "powers": lambda c, x: sum(a * x ** (len(c) - 1 - k) for k, a in enumerate(c)),
        "np.polyval": lambda c, x: np.polyval(c, x),
        "array of powers": lambda c, x: c @ x ** np.arange(len(c) - 1, -1, -1),
        "np.vander": lambda c, x: (np.vander(np.array([x]), len(c)) @ c)[0],
    }
    return Program(ways, (RNG.standard_normal(25), 0.7))


def _chained_by_loops(W: Any, x: Any) -> Any:
    for _ in range(30):
        x = [np.tanh(sum(W[i, j] * x[j] for j in range(3))) for i in range(3)]
    return sum(a * a for a in x)


def _chained(product: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def f(W: Any, x: Any) -> Any:
        for _ in range(30):
            x = np.tanh(product(W, x))
        return np.sum(x * x)

    return f


def _network() -> Program:
    ways = {
        "loops": _chained_by_loops,
        "W @ x": _chained(lambda W, x: W @ x),
        "np.dot": _chained(np.dot),
        "sum of products": _chained(lambda W, x: np.sum(W * x, axis=1)),
        "rows": _chained(lambda W, x: np.array([row @ x for row in W])),
    }
    return Program(ways, (RNG.standard_normal((3, 3)), RNG.standard_normal(3)))


def _multiplied(p: Any, q: Any) -> Any:
    a, b, c, d = p
    e, f, g, h = q
    return (
        a * e - b * f - c * g - d * h,
        a * f + b * e + c * h - d * g,
        a * g - b * h + c * e + d * f,
        a * h + b * g - c * f + d * e,
    )


def _multiplied_as_vectors(p: Any, q: Any) -> Any:
    scalar = p[0] * q[0] - p[1:] @ q[1:]
    return np.concatenate([[scalar], p[0] * q[1:] + q[0] * p[1:] + np.cross(p[1:], q[1:])])


def _multiplied_as_matrix(p: Any, q: Any) -> Any:
    a, b, c, d = p
    return np.array([[a, -b, -c, -d], [b, a, -d, c], [c, d, a, -b], [d, -c, b, a]]) @ q


def _spun(product: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    def f(w: Any) -> Any:
        q = np.array([1.0, 0.0, 0.0, 0.0])
        for k in range(20):
            q = product(q, np.array([1.0, w[0], w[1], w[2]]) * np.cos(0.1 * k))
        return q[1] + q[2] * q[3]

    return f


def _quaternions() -> Program:
    ways = {
        "tuples": _spun(_multiplied),
        "np.array([...])": _spun(lambda p, q: np.array(_multiplied(p, q))),
        "vectors": _spun(_multiplied_as_vectors),
        "matrices": _spun(_multiplied_as_matrix),
    }
    return Program(ways, (np.array([0.1, 0.2, 0.3]),))


def _chain_by_assignment(P: Any) -> Any:
    p = np.array([1.0, 0.0, 0.0])
    for _ in range(50):
        after = np.zeros(3)
        for i in range(3):
            for j in range(3):
                after[j] += p[i] * P[i, j]
        p = after / np.sum(after)
    return p[2]


def _chain(product: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    def f(P: Any) -> Any:
        p = np.array([1.0, 0.0, 0.0])
        for _ in range(50):
            p = product(p, P)
            p = p / np.sum(p)
        return p[2]

    return f


def _markov() -> Program:
    ways = {
        "p @ P": _chain(lambda p, P: p @ P),
        "P.T @ p": _chain(lambda p, P: P.T @ p),
        "einsum": _chain(lambda p, P: np.einsum("i,ij->j", p, P)),
        "lists": _chain(lambda p, P: np.array([sum(p[i] * P[i, j] for i in range(3)) for j in range(3)])),
        "assignment": _chain_by_assignment,
    }
    return Program(ways, (RNG.random((3, 3)) + 0.1,))


def _springs_by_loop(x: Any) -> Any:
    total = 0.0
    for k in range(len(x) - 1):
        total = total + 0.5 * (np.sqrt((x[k + 1, 0] - x[k, 0]) ** 2 + (x[k + 1, 1] - x[k, 1]) ** 2) - 0.1) ** 2
    return total


def _springs() -> Program:
    ways = {
        "loop": _springs_by_loop,
        "np.diff": lambda x: 0.5 * np.sum((np.sqrt(np.sum(np.diff(x, axis=0) ** 2, axis=1)) - 0.1) ** 2),
        "slices": lambda x: 0.5 * np.sum((np.linalg.norm(x[1:] - x[:-1], axis=1) - 0.1) ** 2),
        "rows": lambda x: 0.5 * sum((np.linalg.norm(b - a) - 0.1) ** 2 for a, b in itertools.pairwise(x)),
        "columns": lambda x: 0.5 * np.sum((np.hypot(np.diff(x[:, 0]), np.diff(x[:, 1])) - 0.1) ** 2),
    }
    return Program(ways, (RNG.standard_normal((30, 2)),))


PROGRAMS: dict[str, Callable[[], Program]] = {
    "pendulum, 100 steps of RK4": _pendulum,
    "40 rotations": _rotations,
    "11 complex polynomials at 10,000 points": _system,
    "20 atoms": _atoms,
    "Rosenbrock, n = 30": _rosenbrock,
    "three bodies, 20 steps": _bodies,
    "Kalman filter, 40 measurements": _kalman,
    "polynomial of degree 24": _polynomial,
    "recurrent network of 3 cells, 30 rounds": _network,
    "20 quaternions": _quaternions,
    "Markov chain, 50 steps": _markov,
    "29 springs": _springs,
}


def derived(program: Program, way: str, **options: Any) -> Callable[..., Any]:
    """What is measured of a way: value and gradient, or the Jacobian at many points."""
    f = program.ways[way]
    if program.points:
        return sd.vmap(sd.jacobian(f))
    return sd.value_and_grad(f, argnums=tuple(range(len(program.args))), **options)


def operations(program: Program, way: str) -> int:
    """The operations of a way's derivative with its value, at one point, loops written out."""
    f = program.ways[way]
    if program.points:
        return sd.jacobian(f).cost(program.args[0][0]).both.operations
    return derived(program, way, loops="unroll").cost(*program.args).both.operations


def leaves_of(found: Any) -> Any:
    """All numbers of nested tuples in one array."""
    if isinstance(found, tuple):
        return np.concatenate([leaves_of(part) for part in found])
    return np.ravel(found)


def warm_up() -> None:
    """What the first calls of a process wait for beside their own functions: modules, rules, the compiler."""

    def f(x: Any) -> Any:
        for _ in range(1_000):
            x = np.sin(x) * x[::-1]
        return np.sum(x)

    numbers = Program({"loop": f}, (np.ones(2),))
    points = Program({"squares": lambda z: z * z}, (np.ones((4, 2), complex),), 4)
    for program in (numbers, points):
        for way in program.ways:
            derived(program, way)(*program.args)


def measured(program: Program, rounds: int) -> tuple[dict[str, float], dict[str, float]]:
    """Seconds of a call and of the first call, by ways."""
    first, ready = {}, {}
    reference: Any = None
    for way in program.ways:
        start = time.process_time()
        df = derived(program, way)
        found = df(*program.args)
        first[way] = time.process_time() - start
        reference = leaves_of(found) if reference is None else reference
        np.testing.assert_allclose(leaves_of(found), reference, 1e-8, 1e-9, err_msg=f"{way} gives another answer")
        out = found
        ready[way] = calls.Call(lambda df=df, out=out: df(*program.args, out=out) if program.points else df(*program.args))
    return calls.times(ready, rounds), first


def main(argv: list[str] | None = None) -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.styles", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="programs whose names contain one of these; all by default")
    parser.add_argument("-o", "--output", type=Path, help="the file; standard output by default")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args(argv)
    rows = []
    warm_up()
    for name, made in PROGRAMS.items():
        if options.names and not any(part in name for part in options.names):
            continue
        program = made()
        times, first = measured(program, options.rounds)
        best, least = min(times.values()), min(first.values())
        for way in program.ways:
            ratios = f"{times[way] / best:.2f}", f"{first[way] / least:.1f}"
            counted = str(operations(program, way))
            rows.append([name, way, counted, timing.shown(times[way]), ratios[0], timing.shown(first[way]), ratios[1]])
            name = ""
    heads = ["program", "way", "operations", "call", "to the best", "one-off", "to the best"]
    parts = ["# Ways of writing", f"{datetime.date.today()}, {machine()}.", EXPLAINED, timing.table(heads, rows)]
    text = "\n\n".join(parts) + "\n"
    if options.output:
        options.output.write_text(text)
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
