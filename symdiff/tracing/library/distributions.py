"""Methods of SciPy's distributions at traced values: formulas of the distribution's own class, between the ends of its support.

Assumes an object of `scipy.stats` with one variable, its public method, and SciPy's arguments. Guarantees SciPy's values up to
rounding: NaN where a parameter is out of range, and what SciPy says outside the support. Refuses, with `TraceError`, what SciPy
integrates, searches or differentiates numerically, and formulas that are compiled: rules/distributions.table has the others.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from symdiff.errors import TraceError
from symdiff.rulebooks.book import distributions_followed
from symdiff.tracing.values.answers import check_answer
from symdiff.tracing.values.operands import as_array
from symdiff.tracing.values.tracer import is_traced
from symdiff.vocabulary.libraries import user_line
from symdiff.vocabulary.signatures import Arguments, Function, Keywords, Lookup

_FORMULAS = tuple(f"scipy.stats._{name}" for name in ("continuous_distns", "discrete_distns", "distn_infrastructure"))


class Method(NamedTuple):
    """What a method says below and above the support, whether its ends belong to it, and how the scale enters."""

    below: float
    above: float
    closed: bool = False
    scaled: Callable[[Any, Any], Any] = lambda value, scale: value


METHODS = {
    "pdf": Method(0.0, 0.0, True, lambda value, scale: value / scale),
    "logpdf": Method(-math.inf, -math.inf, True, lambda value, scale: value - np.log(scale)),
    "pmf": Method(0.0, 0.0, True),
    "logpmf": Method(-math.inf, -math.inf, True),
    "cdf": Method(0.0, 1.0),
    "logcdf": Method(-math.inf, 0.0),
    "sf": Method(1.0, 0.0),
    "logsf": Method(0.0, -math.inf),
}
QUANTILES = ("ppf", "isf")


def of_distribution(owner: Any, name: str, follow: Lookup, args: Arguments, kwargs: Keywords) -> Any:
    """A method of a distribution, with the parameters that a frozen one keeps; `follow` gives what runs in place of SciPy's."""
    if name in ("freeze", "__call__") and (hasattr(owner, "numargs") or (type(owner).__name__, "pdf") in _JOINT):
        return _frozen(owner, args, kwargs)
    while (dist := getattr(owner, "dist", None)) is not None:
        args, kwargs, owner = (*args, *owner.args), kwargs | owner.kwds, dist
    joint = _JOINT.get((type(owner).__name__, name))
    found = _single(owner, name, follow, args, kwargs) if joint is None else joint(*args, **kwargs)
    check_answer(getattr(owner, name), f"{_name(owner)}.{name} of scipy.stats", args, kwargs, found)
    return found


def _single(owner: Any, name: str, follow: Lookup, args: Arguments, kwargs: Keywords) -> Any:
    """A method of a distribution of one variable."""
    if name not in distributions_followed().get(getattr(owner, "name", ""), ()):
        raise _refused(owner, name)
    if not args:
        key = "q" if name in QUANTILES else "k" if _is_discrete(owner) else "x"
        args, kwargs = (kwargs[key],), {k: v for k, v in kwargs.items() if k != key}
    shapes, loc, scale = owner._parse_args(*args[1:], **kwargs)
    x, loc, scale, *shapes = map(as_array, (args[0], loc, scale, *shapes))
    valid = as_array(follow(owner._argcheck)(*shapes)) != 0
    ends = [as_array(end) for end in follow(owner._get_support)(*shapes)]
    formula = _formula(owner, name, follow)
    if name in QUANTILES:
        value = _between(x, (0.0, 1.0), formula(x, *shapes), ends if name == "ppf" else ends[::-1]) * scale + loc
        value = np.where((x < 0) | (x > 1), math.nan, value)
    else:
        method, z = METHODS[name], (x - loc) / scale
        closed = method.closed and type(owner)._support_mask is not type(owner)._open_support_mask
        value = formula(z, *shapes)
        if _is_discrete(owner) and method.closed:
            value = np.where(np.floor(z) < z, method.below, value)
        if method.closed and not any(map(_is_endless, ends)):  # a density may be a number there, which NaN does not reach
            value = np.where(np.isnan(z), math.nan, value)
        value = method.scaled(_between(z, ends, value, method[:2], _is_discrete(owner) or closed, closed), scale)
    valid = valid if name == "logpdf" else valid & (scale > 0)  # of a negative one the logarithm is NaN
    return value if _is_known(valid) and np.all(valid) else value * np.where(valid, 1.0, math.nan)  # so are its slopes


def _formula(owner: Any, name: str, follow: Lookup) -> Function:
    """The formula of a distribution's own class, a density by its logarithm. Raises `TraceError` where it has none."""
    general = next(base for base in type(owner).__mro__ if base.__name__ in ("rv_continuous", "rv_discrete"))

    def has(part: str) -> bool:
        return getattr(type(owner), part, None) is not getattr(general, part, None)

    def own(part: str) -> Any:
        return follow(getattr(owner, part))

    if name in ("pdf", "pmf") and has(f"_log{name}"):
        return lambda *args: np.exp(own(f"_log{name}")(*args))
    if has(f"_{name}"):
        return own(f"_{name}")
    base = name.removeprefix("log")
    other = {"cdf": "sf", "sf": "cdf"}.get(base, "")
    if base in ("pdf", "pmf") and has(f"_{base}"):
        return lambda *args: np.log(own(f"_{base}")(*args))
    if other and has("_cdf"):
        if base == name:
            return lambda *args: 1.0 - own("_cdf")(*args)

        def logarithm(*args: Any) -> Any:
            value = own(f"_{base}")(*args)
            return np.where(value < 0.5, np.log(value), np.log1p(-own(f"_{other}")(*args)))

        return logarithm
    if name == "isf" and has("_ppf"):
        return lambda q, *args: own("_ppf")(1.0 - q, *args)
    raise _refused(owner, name)


def _is_discrete(owner: Any) -> bool:
    return hasattr(owner, "pmf")


def _name(owner: Any) -> str:
    return type(owner).__name__.removesuffix("_gen")


def _refused(owner: Any, name: str) -> TraceError:
    return TraceError(
        f"{user_line()}: {_name(owner)}.{name} of scipy.stats at a traced value; write its formula: "
        "np.exp, np.log and scipy.special's gammaln, gammainc, betainc, ndtr, ... are followed"
    )


def _between(z: Any, ends: Any, value: Any, outside: Any, has_low: bool = False, has_high: bool = False) -> Any:
    """A value between two ends, which may belong to it, and what there is to say outside; NaN is in no place."""
    low, high = ends
    if not _is_endless(low):
        value = np.where(z < low if has_low else z <= low, outside[0], value)
    if not _is_endless(high):
        value = np.where(z > high if has_high else z >= high, outside[1], value)
    return value


def _is_endless(end: Any) -> bool:
    return _is_known(end) and bool(np.all(np.isinf(end)))


def _is_known(value: Any) -> bool:
    return not is_traced(value)


def _frozen(owner: Any, args: Arguments, kwargs: Keywords) -> Any:
    """A distribution with traced parameters, as SciPy makes it but for the ends of its support."""
    made = object.__new__(type(owner(*[1.0] * getattr(owner, "numargs", 0))))
    made.dist, made.args, made.kwds = owner, args, kwargs
    return made


def _normal_logpdf(x: Any, mean: Any = None, cov: Any = 1) -> Any:
    """The logarithm of the density of several normal variables, of whose covariance the lower triangle is read."""
    x, mean, cov = map(as_array, (x, 0.0 if mean is None else mean, cov))
    n = cov.shape[-1] if cov.ndim else mean.size
    cov = np.diag(np.ones(n) * cov) if cov.ndim < 2 else np.tril(cov) + np.swapaxes(np.tril(cov, -1), -1, -2)
    x = x.reshape(-1, 1) if x.ndim < 2 and n == 1 else x
    factor = np.linalg.cholesky(cov)
    off = np.linalg.solve(factor, (x - mean.reshape(-1))[..., None])[..., 0]
    found = -0.5 * (n * math.log(2 * math.pi) + np.sum(off * off, axis=-1)) - np.sum(np.log(np.diag(factor)))
    return np.squeeze(found)


_JOINT: dict[tuple[str, str], Function] = {
    ("multivariate_normal_gen", "logpdf"): _normal_logpdf,
    ("multivariate_normal_gen", "pdf"): lambda *args, **kwargs: np.exp(_normal_logpdf(*args, **kwargs)),
}


def formula_part(f: Any) -> Function | None:
    """What runs in place of a function in SciPy's formulas: itself, where its source is followed; None for other functions."""
    if f.__name__ == "apply_where" and f.__module__.startswith("scipy."):
        return _apply_where
    return f if f.__module__ in _FORMULAS and f.__name__.startswith("_") else None


def _apply_where(cond: Any, args: Any, f1: Any, f2: Any = None, /, *, fill_value: Any = None) -> Any:
    """One function's value where a condition holds, another's elsewhere."""
    args = args if isinstance(args, tuple | list) else (args,)
    return np.where(cond, f1(*args), fill_value if f2 is None else f2(*args))
