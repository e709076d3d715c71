"""What no program can do without, timed beside symdiff: a copy of the same bytes, a pass of NumPy's, an empty call.

Assumes the cases of a run. Guarantees floor and symdiff in one interleaved measurement. Refuses nothing: a floor whose case
is not measured is left out.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import symdiff as sd
from benchmarks import problems
from benchmarks.calls import Call, times
from benchmarks.cases import Case
from benchmarks.contenders import ours
from benchmarks.contenders.compiled_c import Bound, is_possible
from benchmarks.contenders.contender import Contender
from benchmarks.measuring import Row
from benchmarks.tables import quotient, shown, table

KERNEL, PUBLIC = ours.CONTENDERS[0], ours.CONTENDERS[1]


def _add(case: Case) -> Call:
    x = case.args[0]
    return Call(np.add, (x, x), {"out": np.empty_like(x)})


def _copy(case: Case) -> Call:
    x = case.packed.view(float).ravel()
    bound = Bound("streamed_copy_point", x.size, x, np.empty_like(x))
    return Call(bound.builtin(), answers=lambda _: (bound.y,))


def _pass_and_copy(function: Any) -> Callable[[Case], Call]:
    def made(case: Case) -> Call:
        x = case.args[0]
        first, second = np.empty_like(x), np.empty_like(x)

        def run() -> None:
            function(x, out=first)
            np.copyto(second, x)

        return Call(run)

    return made


def _sine(case: Case) -> Call:
    return Call(np.sin, case.args, {"out": np.empty_like(case.args[0])})


def _layer(case: Case) -> Call:
    W, _, X = case.args
    product, gradient = np.empty((len(W), X.shape[1])), np.empty_like(W)

    def run() -> None:
        np.matmul(W, X, out=product)
        np.tanh(product, out=product)
        np.multiply(product, product, out=product)
        np.matmul(product, X.T, out=gradient)

    return Call(run)


def _fresh(case: Case) -> Call:
    return Call(sd.grad(problems.cubic), case.args)


# case, what of symdiff, its call, floor, its call, the mark for the ratio
FLOORS: tuple[tuple[str, str, Contender | Callable[[Case], Call], str, Callable[[Case], Call], str], ...] = (
    ("cubic", "`.kernel`", KERNEL, "`len(x)`", lambda case: Call(len, case.args), "2"),
    ("cubic", "`out=` given", PUBLIC, "`np.add(x, x, out=out)`", _add, "0.25"),
    ("cubic", "fresh result", _fresh, "`np.add(x, x, out=out)`", _add, "0.6"),
    ("cubic, points first", "`out=` given", PUBLIC, "copy past the caches (C)", _copy, "1.15"),
    ("cubic, points last", "`out=` given", PUBLIC, "copy past the caches (C)", _copy, "1.15"),
    ("cubic, complex, points first", "`out=` given", PUBLIC, "copy past the caches (C)", _copy, "1.4"),
    ("logistic, many points", "`out=` given", PUBLIC, "`np.exp`, `np.copyto`", _pass_and_copy(np.exp), "1.1"),
    ("exponential, many points", "`out=` given", PUBLIC, "`np.exp`, `np.copyto`", _pass_and_copy(np.exp), "1.05"),
    ("sine, many points", "`out=` given", PUBLIC, "`np.sin`", _sine, "0.5"),
    ("layer", "`out=` given", PUBLIC, "two products, one tanh pass, one other", _layer, ""),
)


def floor_table(measured: Sequence[Sequence[Row]], rounds: int) -> str:
    """A Markdown table: symdiff's time to each floor, and the mark it is to stay under."""
    cases = {rows[0].case.name: rows[0].case for rows in measured}
    lines = []
    for name, what, ours_, floor, made, mark in FLOORS:
        absent = (ours_ is KERNEL and not KERNEL.is_installed) or (made is _copy and not is_possible())
        if name not in cases or absent:
            continue
        case = cases[name]
        call = ours_.derivative(case) if isinstance(ours_, Contender) else ours_(case)
        call()
        seconds = times({"ours": call, "floor": made(case)}, rounds)
        lines.append([
            name, f"{case.n:,}", what, shown(seconds["ours"]), floor, shown(seconds["floor"]),
            quotient(seconds["ours"], seconds["floor"]), mark,
        ])  # fmt: skip
    return table(["problem", "n", "symdiff", "", "floor", "", "ratio", "mark"], lines)
