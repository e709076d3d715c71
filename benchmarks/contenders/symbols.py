"""Packages that build expressions of symbols and compile them: SymPy, symengine, CasADi and heyoka.

Assumes functions of few variables, or unrolled ones. Guarantees common subexpressions shared where the package offers it,
and buffers bound before. Refuses whole arrays, but for CasADi, which has matrices of symbols.
"""

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.calls import Call
from benchmarks.cases import BOTH, JACOBIAN, Case
from benchmarks.contenders.contender import PEER, Contender
from benchmarks.words import problems_in, scalar_words

Diff = Callable[[Any, Sequence[Any]], list[Any]]


def outputs(case: Case, words: Any, symbols: Sequence[Any]) -> list[Any]:
    """The function's values, each an expression of the symbols."""
    given, start = [], 0
    for a in case.args:
        if np.ndim(a) == (case.kind == "batch"):  # a number at each point
            given.append(symbols[start])
            start += 1
        else:
            given.append(symbols[start:])  # an array stands alone
    value = case.f(problems_in(words))(*given)
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _asked(case: Case, values: list[Any], symbols: Sequence[Any], partials: Diff) -> list[Any]:
    """All partials, then the value where it is asked for."""
    found = [partial for value in values for partial in partials(value, symbols)]
    return [*found, *values] if case.asks == BOTH else found


def _scalar(case: Case) -> bool:
    return case.kind != "array"


# SymPy


def lambdified(case: Case, derivative: bool = True) -> Callable[..., Any]:
    """SymPy's generated function of the variables one by one."""
    import sympy as sp

    symbols = sp.symbols(f"x0:{case.inputs}", real=None if case.is_complex else True)
    wanted = outputs(case, scalar_words(sp), symbols)
    if derivative:
        wanted = _asked(case, wanted, symbols, lambda value, wrt: [sp.diff(value, s) for s in wrt])
    complex_steps = case.is_complex or case.complex_of_real or case.function == "real_through_complex"
    modules = "numpy" if complex_steps or case.kind == "batch" else "math"
    return sp.lambdify(symbols, wanted, modules=modules, cse=True)  # type: ignore[no-any-return]


def _sympy(case: Case, derivative: bool) -> Call:
    run = lambdified(case, derivative)
    if case.kind == "batch":
        first = case.axis == 0
        return Call(run, tuple(case.rows), answers=lambda r: np.stack(np.broadcast_arrays(*r), -1) if first else r)
    packed = case.packed
    return Call(lambda: run(*packed.tolist()), answers=tuple)


# symengine


def _symengine(case: Case, derivative: bool) -> Call:
    import symengine

    symbols = symengine.symbols(f"x0:{case.inputs}") if case.inputs > 1 else [symengine.Symbol("x0")]
    wanted = outputs(case, scalar_words(symengine), symbols)
    if derivative:
        wanted = _asked(case, wanted, symbols, lambda value, wrt: [value.diff(s) for s in wrt])
    is_complex = case.is_complex or case.complex_of_real
    run = symengine.Lambdify(symbols, wanted, cse=True, real=not is_complex)
    x = case.packed.astype(complex) if is_complex else case.packed
    x = x.reshape(case.n, case.inputs) if case.kind == "batch" else x
    out = np.full((*x.shape[:-1], len(wanted)), np.nan, x.dtype)
    return Call(run, (x,), {"out": out}, lambda _: (out,))


def _symengine_takes(case: Case) -> bool:
    """Points of a batch lie first in its arrays."""
    return _scalar(case) and case.function != "real_through_complex" and (case.kind != "batch" or case.axis == 0)


# CasADi


def _casadi(case: Case, derivative: bool) -> Call:
    import casadi

    x = casadi.SX.sym("x", case.inputs)
    answers = casadi_answers(case, x, derivative)
    function = casadi.Function(case.function, [x], [casadi.densify(a) for a in answers])
    count = case.n if case.kind == "batch" else 1
    if count > 1:
        function = function.map(count)
    point, outs = case.packed, [np.full(a.numel() * count, np.nan) for a in answers]
    buffer, run = function.buffer()
    buffer.set_arg(0, memoryview(point))
    for i, out in enumerate(outs):
        buffer.set_res(i, memoryview(out))
    # Without its buffer, `run` reads freed memory and the process dies.
    return Call(run, answers=lambda _, kept=(buffer, point): outs)


def casadi_answers(case: Case, x: Any, derivative: bool) -> list[Any]:
    """Columns of expressions; CasADi lays matrices out by columns, so all are transposed on the way in and out."""
    import casadi

    if case.function == "matrix_function":
        half = case.inputs // 2
        A, B = (casadi.reshape(x[part], 10, 10).T for part in (slice(0, half), slice(half, None)))
        values = [casadi.vec(case.f()(A, B).T)]
    else:
        words = scalar_words(casadi)
        words.abs = casadi.fabs
        values = [casadi.vertcat(*outputs(case, words, casadi.vertsplit(x)))]
    if not derivative:
        return values
    if case.asks != JACOBIAN:
        gradient = casadi.gradient(values[0], x)
        return [gradient, *values] if case.asks == BOTH else [gradient]
    sizes = np.cumsum([0, *(np.size(a) for a in case.args)])
    jacobian = casadi.jacobian(values[0], x)
    return [casadi.vec(jacobian[:, int(a) : int(b)].T) for a, b in itertools.pairwise(sizes)]


def _casadi_takes(case: Case) -> bool:
    real = not case.is_complex and case.function not in ("complex_polynomial", "real_through_complex")
    points_first = case.kind != "batch" or case.axis == 0 or case.inputs == 1
    return real and points_first and (case.kind != "array" or case.function == "matrix_function")


# heyoka


def _heyoka(case: Case, derivative: bool) -> Call:
    import heyoka

    symbols = heyoka.make_vars(*[f"x{i}" for i in range(case.inputs)])
    symbols = [symbols] if case.inputs == 1 else symbols
    wanted = [heyoka.expression(v) if isinstance(v, float) else v for v in outputs(case, scalar_words(heyoka), symbols)]
    if derivative:
        tensors = heyoka.diff_tensors(wanted, diff_args=symbols, diff_order=1)
        partials = tensors.jacobian.ravel().tolist() if len(wanted) > 1 else list(tensors.gradient)
        wanted = [*partials, *wanted] if case.asks == BOTH else partials
    run = heyoka.cfunc(wanted, vars=symbols, compact_mode=case.inputs * len(wanted) > 10_000 or case.kind == "unrolled")
    x = case.packed.reshape(case.inputs, -1) if case.kind == "batch" else case.packed
    out = np.full((len(wanted), *x.shape[1:]), np.nan)
    return Call(run, (), {"inputs": x, "outputs": out}, lambda _: (out,))


def _heyoka_takes(case: Case) -> bool:
    real = not case.is_complex and case.function not in ("complex_polynomial", "real_through_complex")
    return _scalar(case) and real and (case.kind != "batch" or case.axis == -1)


def _contender(label: str, made: Callable[[Case, bool], Call], takes: Callable[[Case], bool], package: str) -> Contender:
    derivative, value = functools.partial(made, derivative=True), functools.partial(made, derivative=False)
    return Contender(label, PEER, derivative, value, takes, package)


CONTENDERS = (
    _contender("SymPy lambdify(cse=True)", _sympy, _scalar, "sympy"),
    _contender("symengine Lambdify(cse=True)", _symengine, _symengine_takes, "symengine"),
    _contender("CasADi", _casadi, _casadi_takes, "casadi"),
    _contender("heyoka", _heyoka, _heyoka_takes, "heyoka"),
)
