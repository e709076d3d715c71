"""Checks rules against the functions themselves, in 50 digits: the oracle is the primal, never another formula.

Assumes rules with a sampling interval for each argument. Guarantees, for every row, the largest relative difference
between each partial and the derivative of the primal at real and, where the rule says so, complex points, and the error of
the partial in double precision in units of its condition. A row that cannot be checked says why.
"""

import functools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import mpmath
import numpy as np
from mpmath import mp

from symdiff.rulebooks.elsewhere import OPERATIONS, exact_step
from symdiff.rulebooks.rule import Rule, apply
from symdiff.rulebooks.tables import Template
from symdiff.vocabulary.ops import OPS

DIGITS = 50
ROUGH = 30  # those that conditions are computed in
POINTS = 16
TOLERANCE = 1e-30
ULPS = 8.0
EPS = 2.0**-53
Point = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class RowCheck:
    """One row: the largest relative error of a partial in 50 digits, and in double precision in ulps of its condition.

    `ulps` is the error of the formula, special functions rounded correctly; `computed` that of NumPy and SciPy as they are.
    """

    function: str
    source: str
    error: float
    ulps: float
    computed: float
    verdict: str

    @property
    def passed(self) -> bool:
        return self.verdict in ("ok", "no partials")


@dataclass(frozen=True, slots=True)
class RuleReport:
    """The checks of a rulebook, one a rule; prints as a table, the worst rows first."""

    rows: tuple[RowCheck, ...]

    @property
    def failed(self) -> tuple[RowCheck, ...]:
        """The rows that are wrong, imprecise or could not be checked."""
        return tuple(row for row in self.rows if not row.passed)

    def __str__(self) -> str:
        width = max((len(row.function) for row in self.rows), default=8)
        lines = [f"{'function':<{width}}  {'error':>8}  {'ulps':>6}  {'computed':>8}  verdict"]
        for row in sorted(self.rows, key=lambda r: (r.passed, -r.error, -r.ulps)):
            note = "" if row.passed else f" ({row.source})"
            lines.append(
                f"{row.function:<{width}}  {row.error:8.1e}  {row.ulps:6.1f}  {row.computed:8.1f}  {row.verdict}{note}"
            )
        lines.append(f"{len(self.rows)} rules, {len(self.failed)} failed")
        return "\n".join(lines)


def check_rules(book: Iterable[Any], points: int = POINTS) -> RuleReport:
    """Check every rule of a rulebook (or of an iterable of rules) at `points` real and as many complex points each.

    >>> from symdiff.rulebooks.book import default_rules
    >>> check_rules([default_rules().lookup("numpy", "sin", 1)]).failed
    ()
    """
    rules = book.values() if hasattr(book, "values") else book
    return RuleReport(tuple(check_rule(rule, points) for rule in rules))


def check_rule(rule: Rule, points: int = POINTS) -> RowCheck:
    """Check one rule."""
    name = f"{rule.module}.{rule.name}({', '.join(rule.parameters)})"
    if all(p is None for p in rule.partials) and not rule.body:
        return RowCheck(name, rule.source, 0.0, 0.0, 0.0, "no partials")
    unchecked = functools.partial(RowCheck, name, rule.source, math.nan, math.nan, math.nan)
    if rule.body is not None:
        return unchecked("declared in Python; sd.check_grads checks it")
    if rule.primal is None and rule.op is None:
        return unchecked("the table does not say how it is computed")
    if not rule.interval:
        return unchecked("no interval where it can be sampled")
    try:
        error = max((_difference(rule, point) for point in _samples(rule, points)), default=0.0)
        found = [_ulps(rule, point) for point in _points(rule.interval, points, 0)]
        ulps, computed = (max((pair[k] for pair in found), default=0.0) for k in (0, 1))
    except (KeyError, ZeroDivisionError, ValueError, TypeError, mp.NoConvergence) as problem:
        return unchecked(f"cannot be computed: {problem}")
    verdict = "WRONG" if not error < TOLERANCE else "imprecise" if not ulps <= ULPS else "ok"
    return RowCheck(name, rule.source, error, ulps, computed, verdict)


def _samples(rule: Rule, count: int) -> Iterator[Point]:
    yield from _points(rule.interval, count, 0)
    if rule.holomorphic in ("yes", "no", "half"):
        yield from _points(rule.interval, count, 1)


def _points(interval: tuple[tuple[float, float], ...], count: int, complex_: int) -> Iterator[Point]:
    """Points spread over the interval by multiples of irrational numbers, the same in every run."""
    for k in range(1, count + 1):
        point: list[Any] = []
        for i, (low, high) in enumerate(interval):
            share = math.modf(k * (0.6180339887498949 + 0.1 * i))[0]
            x: Any = low + (high - low) * share
            if complex_ and low < high:
                x = complex(x, 0.1 + 0.4 * math.modf(k * (0.7548776662466927 + 0.1 * i))[0])
            point.append(x)
        yield tuple(point)


def exact_formula(template: Template, args: Point, out: Any, nudged: int = -1, nudge: Any = 0) -> Any:
    """A formula in mpmath's working precision; the value of the special function number `nudged` is 1 + nudge as large."""
    count = 0

    def emit(op: str, operands: tuple[Any, ...], payload: Any) -> Any:
        nonlocal count
        value = exact_step(op, operands, payload)
        if OPS[op].is_special:
            count += 1
            value = value * (1 + nudge) if count - 1 == nudged else value
        return value

    return apply(template.exact or template, args, out, emit)


def rule_primal(rule: Rule) -> Callable[..., Any]:
    """The function itself in mpmath's working precision."""
    if rule.op is not None:
        return OPERATIONS[rule.op]
    assert rule.primal is not None
    formula = rule.primal
    return lambda *args: exact_formula(formula, args, None)


def _difference(rule: Rule, point: Point) -> float:
    """The largest relative difference of a partial from the derivative of the primal at a point."""
    primal = rule_primal(rule)
    worst = 0.0
    with mp.workdps(DIGITS):
        args = tuple(mpmath.mpmathify(x) for x in point)
        out = primal(*args)
        on_complex = any(isinstance(x, mpmath.mpc) for x in args)
        for place, template in enumerate(rule.partials_on(complex_=on_complex)):
            if template is None:
                continue
            partial = exact_formula(template, args, out)
            crossed = rule.conj_partials if on_complex else None
            across = exact_formula(crossed[place], args, out) if crossed else 0
            for direction in (1, 1j) if crossed else (1,):
                found = partial * direction + across * mpmath.conj(direction)
                worst = max(worst, _relative(found, _slope(primal, args, place, direction)))
    return worst


def _slope(primal: Callable[..., Any], args: Point, place: int, direction: complex) -> Any:
    """The derivative along a direction, by a central difference: its step's square is beyond the precision, and half as many
    digits more are what it cancels.
    """
    with mp.workdps(DIGITS + DIGITS // 2):
        step = mpmath.mpf(10) ** (-DIGITS // 2)
        moved = [[x + sign * step * direction if i == place else x for i, x in enumerate(args)] for sign in (1, -1)]
        return (primal(*moved[0]) - primal(*moved[1])) / (2 * step)


def _relative(found: Any, expected: Any) -> float:
    if not (mpmath.isfinite(found) and mpmath.isfinite(expected)):
        return math.inf
    return float(abs(found - expected) / max(abs(expected), mpmath.mpf(10) ** -10))


def _ulps(rule: Rule, point: Point) -> tuple[float, float]:
    """The errors of the partials in double precision, in units of roundoff times the condition: formula, as computed."""
    primal = rule_primal(rule)
    numbers = [np.float64(x) for x in point]
    computed = rule.evaluate_known(*numbers)
    worst = [0.0, 0.0]
    with mp.workdps(DIGITS):
        args = tuple(mpmath.mpf(x) for x in point)
        out = primal(*args)
        for place, template in enumerate(rule.partials):
            if template is None:
                continue
            exact = exact_formula(template, args, out)
            with mp.workdps(ROUGH):
                condition = formula_condition(template, args, out, exact)
            scale = EPS * max(condition, mpmath.mpf(10) ** -300)
            values = [_rounded_form(template, numbers, _double(out)), computed[place]]
            for k, value in enumerate(values):
                error = abs(mpmath.mpmathify(_plain(value)) - exact) / scale if np.all(np.isfinite(value)) else math.inf
                worst[k] = max(worst[k], float(error))
    return worst[0], worst[1]


def formula_condition(template: Template, args: Point, out: Any, exact: Any) -> Any:
    """How much a partial, `exact` here, moves with its inputs, with `out`, and with its special functions, added up; to half
    the digits of mpmath's working precision.
    """
    partial = functools.partial(exact_formula, template)
    total, tiny = abs(exact), mpmath.mpf(10) ** (-mp.dps // 2)
    for i, x in enumerate((*args, out)):
        total += abs(x * _by_input(partial, args, out, i, exact, tiny))
    for k in range(sum(OPS[op].is_special for op, _, _ in (template.exact or template).steps)):
        total += abs(partial(args, out, k, tiny) - exact) / tiny
    return total


def _rounded_form(template: Template, args: Any, out: Any) -> Any:
    """A formula in double precision, every special function rounded correctly."""

    def emit(op: str, operands: tuple[Any, ...], payload: Any) -> Any:
        if op == "const":
            return payload
        if OPS[op].is_special:
            return _double(OPERATIONS[op](*(mpmath.mpmathify(_plain(o)) for o in operands)))
        return OPS[op].function()(*operands)

    with np.errstate(all="ignore"):
        return apply(template, tuple(args), out, emit)


def _double(value: Any) -> Any:
    return np.complex128(complex(value)) if isinstance(value, mpmath.mpc) else np.float64(float(value))


def _plain(value: Any) -> Any:
    return complex(value) if np.iscomplexobj(value) else float(value)


def _by_input(partial: Callable[[Point, Any], Any], args: Point, out: Any, place: int, exact: Any, step: Any) -> Any:
    """The derivative of a partial, `exact` here, by one of the inputs, or by `out`; on that side which its domain has."""

    def slope(step: Any) -> Any:
        moved = [x + step if i == place else x for i, x in enumerate((*args, out))]
        return (partial(tuple(moved[:-1]), moved[-1]) - exact) / step

    try:
        return slope(step)
    except ValueError:  # no real number
        return slope(-step)
