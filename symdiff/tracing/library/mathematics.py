"""What stands for the functions of `math`, `cmath`, `statistics` and `np.emath` in a trace.

Assumes numbers, traced or not; without traced ones Python's own functions are called. Guarantees IEEE results where Python
raises: `math.sqrt(-1.0)` of a traced value is NaN, `math.log(0.0)` is -inf, `math.exp(1000.0)` is inf. Refuses, with
`TraceError`, complex values in `math` and functions of integers.
"""

import cmath
import functools
import math
import statistics
import warnings
from typing import Any

import numpy as np

from symdiff.errors import TraceError
from symdiff.rulebooks.book import default_rules
from symdiff.tracing.library.atoms import trace_rule_call
from symdiff.tracing.library.summing import traced_fsum
from symdiff.tracing.state.raising import awaited_complex, awaited_mathematics, check_awaited_range, raise_if_awaited
from symdiff.tracing.values.assigning import array_dtype, array_of
from symdiff.tracing.values.integers import Integer
from symdiff.tracing.values.kinds import PYTHON, resulting, traced_form
from symdiff.tracing.values.standing import replaces, stands_for
from symdiff.tracing.values.tracer import Tracer
from symdiff.vocabulary.libraries import user_line
from symdiff.vocabulary.signatures import Function

_SAME = """
    sqrt exp expm1 sin cos tan sinh cosh tanh cbrt exp2 log1p log2 log10 fabs degrees radians isnan isinf
    isfinite fmod copysign nextafter
""".split()
_RENAMED = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh",
            "atan2": "arctan2", "pow": "power"}  # fmt: skip
_COMPLEX = "exp sqrt log10 sin cos tan sinh cosh tanh isnan isinf isfinite asin acos atan asinh acosh atanh".split()
_OF_INTEGERS = "factorial comb perm gcd lcm isqrt ulp".split()
_OF_SCIPY = {"gamma": "gamma", "lgamma": "gammaln", "erf": "erf", "erfc": "erfc"}


def traced(*values: Any) -> bool:
    """Whether a value among these is traced."""
    return any(isinstance(v, Tracer) for v in values)


@functools.cache
def _takes_cells() -> bool:
    """Whether this NumPy gives the number of an array of one cell, as before 2.4."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return float(np.ones(1)) == 1.0
        except TypeError:
            return False


def math_takes(value: Tracer) -> bool:
    """Whether Python's functions of numbers take a traced array."""
    return value.shape == () or (value.size == 1 and _takes_cells())


def real(value: Any, name: str) -> Any:
    """A traced value as the double that Python's own functions take; other values as they are."""
    if isinstance(value, Tracer) and value.dtype.kind == "c" and math_takes(value):
        raise TraceError(f"{user_line()}: {name} takes a real number; a complex one is given, for which there is cmath")
    return _as_number(value, name, float)


def as_cmath_number(value: Any, name: str) -> Any:
    """A traced value as a complex number."""
    return _as_number(value, name, complex)


def _as_number(value: Any, name: str, kind: type) -> Any:
    if not isinstance(value, Tracer):
        return value
    if value.shape != () and not math_takes(value):
        raise TypeError(
            f"{user_line()}: {name} takes a number; an array of shape {value.shape} is given, for which there is NumPy"
        )
    cell = value.item() if value.shape or value.has_memory() else value
    return cell.astype(kind).of_kind(PYTHON) if traced(cell) else kind(cell)


def _through(module: Any, name: str, function: Function, number: Function) -> Function:
    native = getattr(module, name)
    called = f"{module.__name__}.{name}"

    def standing(*args: Any) -> Any:
        if not traced(*args):
            return native(*args)
        numbers = tuple(number(a, called) for a in args)
        if name == "trunc" and not args[0].asked(lambda value: hasattr(value, "__trunc__")):
            raise TypeError(f"{user_line()}: type {args[0].named()} doesn't define __trunc__ method")
        return pythons((awaited_mathematics if module is math else awaited_complex)(name, function, numbers))

    return standing


def pythons(found: Any) -> Any:
    """Traced numbers as Python's own."""
    return tuple(map(pythons, found)) if isinstance(found, tuple) else found.of_kind(PYTHON) if traced(found) else found


def _in_python(function: Function, *args: Any, **kwargs: Any) -> Any:
    return pythons(function(*args, **kwargs))


def _whole(function: Function) -> Function:
    return lambda x: Integer.of(function(x) + 0.0)


def _of_numbers(name: str) -> Function:
    def standing(*args: Any, **kwargs: Any) -> Any:
        args = tuple(a.decided() if isinstance(a, Integer) else a for a in args)
        if traced(*args):
            raise TraceError(f"{user_line()}: math.{name} takes integers, which are not traced; pass the argument as an int")
        return getattr(math, name)(*args, **kwargs)

    return standing


def _special(name: str) -> Function:
    def standing(x: Any) -> Any:
        return trace_rule_call(default_rules().lookup("scipy.special", name, 1), (x,))

    return standing


def _hypot(*args: Any) -> Any:
    return functools.reduce(np.hypot, args) if len(args) > 1 else abs(args[0])


def _dist(p: Any, q: Any) -> Any:
    p, q = list(p), list(q)
    if not traced(*p, *q):
        return math.dist(p, q)
    if len(p) != len(q):
        raise ValueError("both points must have the same number of dimensions")
    return _hypot(*(real(a, "math.dist") - real(b, "math.dist") for a, b in zip(p, q, strict=True)))


def _fsum(seq: Any) -> Any:
    values = list(seq)
    if not traced(*values):
        return math.fsum(values)
    found = traced_fsum([real(v, "math.fsum") for v in values])
    check_awaited_range(found, values, "intermediate overflow in fsum")
    return found


def _prod(seq: Any, *, start: Any = 1) -> Any:
    values = list(seq)
    if not traced(start, *values):
        return math.prod(values, start=start)
    return functools.reduce(lambda a, b: a * b, values if start == 1 and not traced(start) else [start, *values])


def _sumprod(p: Any, q: Any) -> Any:
    p, q = list(p), list(q)
    if not traced(*p, *q):
        return math.sumprod(p, q)  # type: ignore[attr-defined,unused-ignore]
    return sum(a * b for a, b in zip(p, q, strict=True))


def _isclose(a: Any, b: Any, *, rel_tol: Any = 1e-09, abs_tol: Any = 0.0) -> Any:
    if not traced(a, b, rel_tol, abs_tol):
        return math.isclose(a, b, rel_tol=rel_tol, abs_tol=abs_tol)
    near = abs(a - b) <= np.maximum(rel_tol * np.maximum(abs(a), abs(b)), abs_tol)
    return near & np.isfinite(a) & np.isfinite(b) | (a == b)


def _rect(r: Any, phi: Any) -> Any:
    if not traced(r, phi):
        return cmath.rect(r, phi)
    return r * np.cos(phi) + 1j * (r * np.sin(phi))


# -- statistics


def _of_sample(name: str, formula: Function) -> Function:
    def standing(sample: Any, *args: Any, **kwargs: Any) -> Any:
        values = list(sample)
        weights = [w for a in (*args, *kwargs.values()) for w in (a if isinstance(a, (list, tuple)) else [a])]
        if not traced(*values, *weights):
            return getattr(statistics, name)(values, *args, **kwargs)
        numbers = [real(v, f"statistics.{name}") for v in values]
        if not args and not kwargs:
            getattr(statistics, name)([1.0] * len(values))  # which raises for too few
        if name in _SAMPLES:
            unfit, text = _SAMPLES[name]
            raise_if_awaited(lambda: functools.reduce(np.logical_or, map(unfit, numbers)), statistics.StatisticsError, text)
        try:
            sample = array_of(numbers) if traced(*values) else np.array(numbers, dtype=float)
            found = pythons(formula(sample, *args, **kwargs))
            forms = tuple(map(traced_form, values))
            form = (
                resulting((name, str((args, kwargs))), lambda *v: getattr(statistics, name)(v), forms) if not weights else None
            )
            return found if form is None or not traced(found) else found.of_kind(form.kind)
        except TypeError as error:
            raise TraceError(f"{user_line()}: statistics.{name} of traced values: {error}") from None

    return standing


def _fmean(x: Any, weights: Any = None) -> Any:
    return np.mean(x) if weights is None else sum(v * w for v, w in zip(x, weights, strict=True)) / sum(weights)


def _spread(x: Any, centre: Any, count: int) -> Any:
    away = x - (np.mean(x) if centre is None else centre)
    return np.sum(away * away) / count


@functools.cache
def _takes_zeros() -> bool:
    """Whether Python has a geometric mean of zeros, as from 3.13 on."""
    try:
        return statistics.geometric_mean([0.0]) == 0.0
    except statistics.StatisticsError:
        return False


_SAMPLES: dict[str, tuple[Function, str]] = {
    "geometric_mean": (
        lambda x: x < 0 if _takes_zeros() else x <= 0,
        "geometric mean requires a non-empty dataset containing positive numbers",
    ),
    "harmonic_mean": (lambda x: x < 0, "harmonic mean does not support negative values"),
}  # numbers for which there is none
_STATISTICS: dict[str, Function] = {
    "mean": np.mean,
    "fmean": _fmean,
    "geometric_mean": lambda x: np.exp(np.mean(np.log(x))),
    "harmonic_mean": lambda x: len(x) / np.sum(1 / x),
    "median": np.median,
    "variance": lambda x, xbar=None: _spread(x, xbar, len(x) - 1),
    "pvariance": lambda x, mu=None: _spread(x, mu, len(x)),
    "stdev": lambda x, xbar=None: np.sqrt(_spread(x, xbar, len(x) - 1)),
    "pstdev": lambda x, mu=None: np.sqrt(_spread(x, mu, len(x))),
}


def _enter() -> None:
    names = {n: n for n in _SAME} | _RENAMED
    formulas = {name: getattr(np, numpy) for name, numpy in names.items()}
    formulas |= {name: _special(scipy) for name, scipy in _OF_SCIPY.items()}
    formulas |= {name: _whole(getattr(np, name)) for name in ("floor", "ceil", "trunc")}
    log = {"log": lambda x, base=None: np.log(x) if base is None else np.log(x) / np.log(base)}
    formulas |= log | {
        "hypot": _hypot,
        "remainder": lambda x, y: x - y * np.rint(x / y),
        "modf": np.modf,
        "frexp": np.frexp,
        "ldexp": lambda x, power: x * 2.0**power,
    }
    found = {(math, name): _through(math, name, formula, real) for name, formula in formulas.items() if hasattr(math, name)}
    found |= {(math, name): _of_numbers(name) for name in _OF_INTEGERS} | {(math, "prod"): _prod, (cmath, "rect"): _rect}
    found |= {(math, f.__name__[1:]): functools.partial(_in_python, f) for f in (_dist, _fsum, _sumprod, _isclose)}
    of_complex = {name: getattr(np, names[name]) for name in _COMPLEX} | log
    of_complex |= {"phase": np.angle, "polar": lambda z: (abs(z), np.angle(z))}
    found |= {(cmath, name): _through(cmath, name, formula, as_cmath_number) for name, formula in of_complex.items()}
    found |= {(statistics, name): _of_sample(name, formula) for name, formula in _STATISTICS.items()}
    for (module, name), stand in found.items():
        if hasattr(module, name):  # older versions of Python have fewer
            replaces(getattr(module, name))(stand)


def _extended(native: Any, function: Any, lowest: float, highest: float) -> None:
    """A function of `np.emath`, where it is that of NumPy's name; elsewhere its numbers are complex ones."""

    @stands_for(native)
    def standing(x: Any, *p: Any) -> Any:
        if array_dtype(x).kind != "c" and np.any(np.logical_or(np.less(x, lowest), np.greater(x, highest))):
            raise ValueError(f"{user_line()}: np.emath.{native.__name__} is complex here; give it x.astype(complex)")
        return function(x, *p)


for _name in "sqrt log log2 log10 power".split():
    _extended(getattr(np.emath, _name), getattr(np, _name), 0.0, math.inf)
for _name in "arccos arcsin arctanh".split():
    _extended(getattr(np.emath, _name), getattr(np, _name), -1.0, 1.0)


@stands_for(np.emath.logn)
def _logn(n: Any, x: Any) -> Any:
    return np.emath.log(x) / np.emath.log(n)


_enter()
