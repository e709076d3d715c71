"""Functions that neither NumPy nor SciPy has, or has in a form that overflows or cancels: `sd.special.log1pexp(x)`.

Assumes numbers, arrays or traced values. Guarantees elementwise results with NumPy's broadcasting, and derivatives by the
rows of `rules/special.rules`, where each function's formula stands. Refuses unknown names with `AttributeError`.

NaN-safe variants need no names of their own: NumPy's sqrt, log and power give NaN outside their domains, and `np.fmax`
and `np.fmin` pass over NaN.

>>> from symdiff import special
>>> float(special.log1pexp(1000.0))
1000.0
"""

import functools
from typing import Any

import numpy as np

from symdiff.rulebooks.book import default_rules
from symdiff.rulebooks.rule import Rule
from symdiff.tracing.library.atoms import trace_rule_call
from symdiff.tracing.values.standing import STANDING, call_standing
from symdiff.tracing.values.tracer import is_traced
from symdiff.vocabulary.heads import head_log_softmax, head_logsumexp, head_softmax

_MODULE = "symdiff.special"


class SpecialFunction:
    """A function of the rule table, called with numbers, arrays or traced values; `rules` by number of arguments."""

    def __init__(self, name: str, rules: dict[int, Rule]) -> None:
        self.__name__ = self.__qualname__ = name
        self.__module__ = _MODULE
        heads = " or ".join(f"{name}({', '.join(rule.parameters)})" for rule in rules.values())
        self.__doc__ = f"{heads}, elementwise."
        self._rules = rules

    def __call__(self, *args: Any) -> Any:
        rule = self._rules.get(len(args))
        if rule is None:
            raise TypeError(f"{self.__doc__.rstrip('.')}; called with {len(args)} arguments")
        if any(is_traced(a) for a in args):
            return trace_rule_call(rule, args)
        return rule.value(*(np.asarray(a)[()] if not isinstance(a, np.ndarray) else a for a in args))

    def __repr__(self) -> str:
        return f"<{_MODULE}.{self.__name__}>"

    def __reduce__(self) -> str:
        return self.__name__


@functools.cache
def _functions() -> dict[str, SpecialFunction]:
    found: dict[str, dict[int, Rule]] = {}
    for (module, name, arity), rule in default_rules().items():
        if module == _MODULE and not name.startswith("_"):
            found.setdefault(name, {})[arity] = rule
    return {name: SpecialFunction(name, rules) for name, rules in found.items()}


def _over_axes(name: str, x: Any, **options: Any) -> Any:
    """A function along axes on traced values; None on plain ones."""
    if is_traced(x) or (isinstance(x, (list, tuple)) and any(map(is_traced, x))):
        public = f"{_MODULE}.{name}"
        return call_standing(public, STANDING[public], (x,), options)
    return None


def logsumexp(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """log(sum(exp(x))) over an axis (all by default), float64; neither it nor its derivative overflows.

    >>> float(logsumexp(np.array([1000.0, 0.0])))
    1000.0
    """
    found = _over_axes("logsumexp", x, axis=axis, keepdims=keepdims)
    return head_logsumexp(x, axis, keepdims) if found is None else found


def log_softmax(x: Any, axis: Any = None) -> Any:
    """x - logsumexp(x) over an axis (all by default), float64.

    >>> log_softmax(np.array([0.0, -1000.0]))
    array([    0., -1000.])
    """
    found = _over_axes("log_softmax", x, axis=axis)
    return head_log_softmax(np.asarray(x, float), axis) if found is None else found


def softmax(x: Any, axis: Any = None) -> Any:
    """exp(x)/sum(exp(x)) over an axis (all by default), float64, without overflow.

    >>> softmax(np.array([1000.0, 1000.0]))
    array([0.5, 0.5])
    """
    found = _over_axes("softmax", x, axis=axis)
    return head_softmax(np.asarray(x, float), axis) if found is None else found


def __getattr__(name: str) -> Any:
    function = _functions().get(name)
    if function is None:
        raise AttributeError(f"symdiff.special has no function {name!r}; it has {', '.join(sorted(_functions()))}")
    return function


def __dir__() -> list[str]:
    return sorted([*_functions(), "log_softmax", "logsumexp", "softmax"])
