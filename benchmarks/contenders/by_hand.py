"""Derivatives by hand in Python, NumPy and numba.

Assumes the formulas of `formulas.py` and `whole.py`. Guarantees that a single point is taken in Python's numbers, which
are faster one by one than NumPy's, and that answers at a point go into an array. Refuses nothing.
"""

from typing import Any

import numpy as np

from benchmarks.calls import Call
from benchmarks.cases import Case
from benchmarks.contenders.contender import HAND, PEER, Contender
from benchmarks.words import problems_in


def _derivative(case: Case) -> Call:
    if case.whole is not None:
        return Call(case.whole, case.args, answers=tuple)
    formula, n, rows = case.formula, case.n, case.rows
    assert formula is not None
    answers: list[Any] = [0.0] * case.outputs
    if case.kind == "batch":
        first = case.axis == 0
        return Call(formula, (n, rows, answers), answers=lambda _: [np.stack(answers, -1)] if first else answers)
    packed = case.packed
    out = np.full(case.outputs, np.nan, np.result_type(packed, case.value()))

    def from_and_into_arrays() -> None:
        formula(n, packed.tolist(), answers)
        out[:] = answers

    return Call(from_and_into_arrays, answers=lambda _: (out,))


def _value(case: Case) -> Call:
    return Call(case.value)


def _over_points(formula: Any) -> Any:
    import numba

    @numba.njit
    def over_points(n: int, x: Any, y: Any) -> None:
        for i in range(n):
            formula(0, x[i], y[i])

    return over_points


def _numba_derivative(case: Case) -> Call:
    import numba

    formula = numba.njit(case.formula)
    x = case.packed
    if case.kind != "batch":
        y = np.full(case.outputs, np.nan, np.result_type(x, case.value()))
        return Call(formula, (case.n, x, y), answers=lambda _: (y,))
    last = case.axis == -1
    y = np.full((case.outputs, case.n) if last else (case.n, case.outputs), np.nan, x.dtype)
    points = x.reshape(-1, case.n).T if last else x
    return Call(_over_points(formula), (case.n, points, y.T if last else y), answers=lambda _: (y,))


def _numba_value(case: Case) -> Call | None:
    import numba

    if case.function in ("heart_real", "heart_complex", "matrix_function") or case.axis == 0:
        return None  # written with unpacked arrays, object arrays or rows, which numba does not take
    function, static = numba.njit(getattr(problems_in(np), case.function)), case.static
    run = numba.njit(lambda *args: function(*args, *static)) if static else function
    return Call(run, case.args)


def _has_formula(case: Case) -> bool:
    return case.formula is not None


CONTENDERS = (
    Contender("by hand, Python and NumPy", HAND, _derivative, _value),
    Contender("numba, by hand", PEER, _numba_derivative, _numba_value, _has_formula, "numba"),
)
