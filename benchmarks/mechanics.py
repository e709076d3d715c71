"""`python -m benchmarks.mechanics`: equations of motion of a pendulum of n links by SymPy, and their Jacobian, as a table.

Assumes SymPy's mechanics; symengine where it is installed. Guarantees answers that agree before they are timed, and one-off
times without SymPy's cache: for the Jacobian by SymPy and symengine they hold its differentiation, which is told beside them.
Refuses nothing.
"""

import argparse
import datetime
import os
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import sympy as sp
from sympy.core.cache import clear_cache
from sympy.physics import mechanics

import symdiff as sd
from benchmarks import calls, timing
from benchmarks.__main__ import machine

EXPLAINED = """A pendulum of some links on a cart, by Kane's method. Every answer is checked against that of `lambdify` before
it is timed; a time of a call is the least of several rounds in which all take turns. symengine is called with its arguments in
one array. *One-off*: from SymPy's matrices to the first answer, in processor time, the median of several turns; the Jacobian by
SymPy and symengine is differentiated by them, which is told in parentheses. *symdiff to it*: symdiff's time to that of the
line's contender."""
TURNS = 5
Built = tuple[Callable[..., Any], float, float]


def pendulum(links: int) -> tuple[list[Any], Any, Any]:
    """The arguments (state, force, parameters), the mass matrix and the forcing of links on a cart, by Kane's method."""
    q, u = mechanics.dynamicsymbols(f"q:{links + 1}"), mechanics.dynamicsymbols(f"u:{links + 1}")
    force, g = mechanics.dynamicsymbols("f"), sp.Symbol("g")
    masses, lengths = sp.symbols(f"m:{links + 1}"), sp.symbols(f"l:{links}")
    frame, origin, point = mechanics.ReferenceFrame("I"), mechanics.Point("O"), mechanics.Point("P0")
    origin.set_vel(frame, 0)
    point.set_pos(origin, q[0] * frame.x)
    point.set_vel(frame, u[0] * frame.x)
    bodies = [mechanics.Particle("b0", point, masses[0])]
    loads = [(point, force * frame.x - masses[0] * g * frame.y)]
    kinematic = [q[0].diff() - u[0]]
    for k in range(links):
        link = frame.orientnew(f"B{k}", "Axis", [q[k + 1], frame.z])
        link.set_ang_vel(frame, u[k + 1] * frame.z)
        below = point.locatenew(f"P{k + 1}", lengths[k] * link.x)
        below.v2pt_theory(point, frame, link)
        bodies.append(mechanics.Particle(f"b{k + 1}", below, masses[k + 1]))
        loads.append((below, -masses[k + 1] * g * frame.y))
        kinematic.append(q[k + 1].diff() - u[k + 1])
        point = below
    kane = mechanics.KanesMethod(frame, q_ind=q, u_ind=u, kd_eqs=kinematic)
    kane.kanes_equations(bodies, loads)
    return [[*q, *u], force, [g, *masses, *lengths]], kane.mass_matrix_full, kane.forcing_full


def by_symdiff(args: list[Any], mass: Any, forcing: Any, jacobian: bool, values: list[Any]) -> Built:
    """The compiled function, its one-off time with the first call, and that of differentiating, which is a part of it."""
    start = time.process_time()
    found = sd.jacobian(sd.lambdify(args, forcing)) if jacobian else sd.lambdify(args, (mass, forcing))
    found(*values)
    return found, time.process_time() - start, 0.0


def by_sympy(args: list[Any], mass: Any, forcing: Any, jacobian: bool, values: list[Any]) -> Built:
    """`lambdify(cse=True)`."""
    start = time.process_time()
    wanted = forcing.jacobian(args[0]) if jacobian else (mass, forcing)
    apart = time.process_time() - start
    found = sp.lambdify(args, wanted, cse=True)
    found(*values)
    return found, time.process_time() - start, apart if jacobian else 0.0


def by_symengine(args: list[Any], mass: Any, forcing: Any, jacobian: bool, values: list[Any]) -> Built:
    """symengine's machine code, with common parts shared, over one array of all arguments."""
    import symengine

    plain = {v: sp.Symbol(v.func.__name__) for v in (*args[0], args[1])}  # it takes no functions of time
    mass, forcing = mass.subs(plain), forcing.subs(plain)
    start = time.process_time()
    symbols = [symengine.sympify(plain.get(s, s)) for s in (*args[0], args[1], *args[2])]
    force = symengine.sympify(forcing)
    apart = 0.0
    if jacobian:
        before = time.process_time()
        wanted = (force.jacobian(symengine.Matrix(symbols[: len(args[0])])),)
        apart = time.process_time() - before
    else:
        wanted = symengine.sympify(mass), force
    backend = "llvm" if symengine.have_llvm else "lambda"
    compiled = symengine.Lambdify(symbols, *wanted, backend=backend, cse=True)
    packed = np.concatenate([values[0], [values[1]], values[2]])

    def found(*_: Any) -> Any:
        return compiled(packed)

    found()
    return found, time.process_time() - start, apart


CONTENDERS: dict[str, Callable[..., Built]] = {
    "symdiff": by_symdiff, "lambdify(cse=True)": by_sympy,
    **({"symengine": by_symengine} if find_spec("symengine") else {}),
}  # fmt: skip


def rows(links: int, rounds: int) -> Iterator[list[str]]:
    """A line for each contender and what is asked for."""
    args, mass, forcing = pendulum(links)
    r = np.random.default_rng(links)
    values = [r.uniform(-1, 1, len(args[0])), 0.3, r.uniform(0.5, 1.5, len(args[2]))]
    for jacobian in (False, True):
        built, turns = {}, {name: [] for name in CONTENDERS}
        for _ in range(TURNS):
            for name, build in CONTENDERS.items():
                clear_cache()
                built[name] = build(args, mass, forcing, jacobian, values)
                turns[name].append(built[name][1:])
        answers = {name: parts(function(*values)) for name, (function, *_) in built.items()}
        for name, found in answers.items():
            calls.check(name, found, calls.flat(answers["lambdify(cse=True)"]))
        times = calls.times({name: calls.Call(f, tuple(values)) for name, (f, *_) in built.items()}, rounds)
        once = {name: [median(parts) for parts in zip(*found, strict=True)] for name, found in turns.items()}
        for name, (spent, apart) in once.items():
            of_it = f" ({timing.shown(apart)} differentiating)" if apart else ""
            yield [
                str(links), "Jacobian" if jacobian else "mass matrix and forcing", name, timing.shown(times[name]),
                f"{times['symdiff'] / times[name]:.3f}", timing.shown(spent) + of_it, f"{once['symdiff'][0] / spent:.2f}",
            ]  # fmt: skip


def parts(answer: Any) -> tuple[Any, ...]:
    """The arrays of an answer."""
    return tuple(answer) if isinstance(answer, (list, tuple)) else (answer,)


def main() -> None:
    """Print the table, or write it to a file."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mechanics", description=__doc__)
    parser.add_argument("-o", "--output", type=Path, help="the Markdown file")
    parser.add_argument("--links", type=int, nargs="*", default=[3, 4, 5, 6])
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    os.environ["SYMDIFF_CACHE"] = "off"  # one-off costs are those of a first process
    list(rows(1, 1))  # all packages are imported, and have compiled once
    heads = ["links", "asked for", "contender", "a call", "symdiff to it", "one-off", "symdiff to it"]
    table = timing.table(heads, [line for links in options.links for line in rows(links, options.rounds)])
    text = f"# Equations of motion\n\n{datetime.date.today()}, {machine()}.\n\n{EXPLAINED}\n\n{table}\n"
    if options.output:
        options.output.write_text(text, encoding="utf-8")
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
