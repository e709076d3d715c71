"""What Python's own functions raise, in blocks whose handlers may wait for it.

Assumes code cloned with its `try` and `with` statements announced (see `cloning`). Guarantees that inside such a block the
function goes on as it does with numbers: `math.log(x)` asks whether x is positive, and raises `ValueError` on the path on which
it is not. Elsewhere nothing is asked, and the results are IEEE's.
"""

import contextlib
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from symdiff.symbolic.tracing.attempt import current
from symdiff.symbolic.tracing.libraries import is_library

_SWALLOWING = frozenset({"ExitStack", "_AssertRaisesContext", "RaisesContext", "RaisesExc"})  # of libraries


@contextlib.contextmanager
def handled(kinds: Callable[[], Any]) -> Iterator[None]:
    """A block whose handlers wait for what `kinds` gives: classes, tuples of them, None for everything."""
    attempt = current()
    if attempt is None:
        yield
        return
    attempt.handlers.append(kinds)
    try:
        yield
    finally:
        attempt.handlers[:] = [h for h in attempt.handlers if h is not kinds]


def managed(owner: Any) -> Any:
    """A context manager of a `with` statement: its block is announced where the manager may keep exceptions to itself."""
    if isinstance(owner, contextlib.suppress):
        return _Managed(owner, lambda: owner._exceptions)  # type: ignore[attr-defined]
    return _Managed(owner, lambda: None) if _may_swallow(owner) else owner


def _may_swallow(owner: Any) -> bool:
    if isinstance(owner, contextlib._GeneratorContextManager):
        return not is_library(owner.gen.gi_code.co_filename)  # type: ignore[attr-defined]
    leave = getattr(type(owner), "__exit__", None)
    written = isinstance(leave, types.FunctionType) and not is_library(leave.__code__.co_filename)
    return written or type(owner).__name__ in _SWALLOWING


class _Managed:
    """A context manager whose block is announced."""

    def __init__(self, owner: Any, kinds: Callable[[], Any]) -> None:
        self._owner = owner
        self._block = handled(kinds)

    def __enter__(self) -> Any:
        entered = type(self._owner).__enter__(self._owner)
        self._block.__enter__()
        return entered

    def __exit__(self, *error: Any) -> Any:
        self._block.__exit__(None, None, None)
        return type(self._owner).__exit__(self._owner, *error)


def is_awaited(kind: type[Exception]) -> bool:
    """Whether a handler around the place waits for an exception of this class."""
    attempt = current()
    return attempt is not None and any(_waits(kinds(), kind) for kinds in attempt.handlers)


def _waits(kinds: Any, kind: type[Exception]) -> bool:
    if isinstance(kinds, tuple):
        return any(_waits(k, kind) for k in kinds)
    return kinds is None or (isinstance(kinds, type) and issubclass(kind, kinds))


def raise_where(condition: Callable[[], Any], kind: type[Exception], text: str) -> None:
    """Raise what Python raises where a condition holds, if a handler waits for it."""
    if is_awaited(kind) and condition():
        raise kind(text)


# -- math


def _either(*conditions: Any) -> Any:
    found = conditions[0]
    for condition in conditions[1:]:
        found = np.logical_or(found, condition)
    return found


def _both(*conditions: Any) -> Any:
    found = conditions[0]
    for condition in conditions[1:]:
        found = np.logical_and(found, condition)
    return found


def _is_pole(x: Any) -> Any:
    return _both(x <= 0, np.floor(x) == x)


def _no_power(x: Any, y: Any) -> Any:
    fractional = _both(np.isfinite(x), x < 0, np.isfinite(y), np.floor(y) != y)
    return _either(fractional, _both(x == 0, y < 0, np.isfinite(y)))


def _no_remainder(x: Any, y: Any) -> Any:
    return _either(_both(np.isinf(x), y == y), _both(y == 0, x == x))


_DOMAINS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("log", "log2", "log10"), lambda x, base=None: x <= 0 if base is None else _either(x <= 0, base <= 0)),
    **dict.fromkeys(("sin", "cos", "tan"), np.isinf),
    **dict.fromkeys(("asin", "acos"), lambda x: abs(x) > 1),
    **dict.fromkeys(("fmod", "remainder"), _no_remainder),
    "log1p": lambda x: x <= -1,
    "sqrt": lambda x: x < 0,
    "acosh": lambda x: x < 1,
    "atanh": lambda x: abs(x) >= 1,
    "gamma": _is_pole,
    "lgamma": lambda x: _both(np.isfinite(x), _is_pole(x)),
    "pow": _no_power,
}
_GROWING = frozenset("exp exp2 expm1 cosh sinh pow gamma lgamma ldexp".split())
_WHOLE = frozenset({"floor", "ceil", "trunc"})


def check_mathematics(name: str, args: tuple[Any, ...], found: Any) -> None:
    """Raise what the function of `math` raises for arguments with an IEEE result of its own."""
    if name in _DOMAINS:
        raise_where(lambda: _DOMAINS[name](*args), ValueError, "math domain error")
    if name == "log" and len(args) > 1:
        raise_where(lambda: args[1] == 1, ZeroDivisionError, "float division by zero")
    if name in _GROWING:
        raise_where(lambda: _both(np.isinf(found), *map(np.isfinite, args)), OverflowError, "math range error")
    if name in _WHOLE:
        check_whole(args[0])


def check_whole(x: Any) -> None:
    """Raise what `int(x)` raises for what is no whole number."""
    raise_where(lambda: np.isnan(x), ValueError, "cannot convert float NaN to integer")
    raise_where(lambda: np.isinf(x), OverflowError, "cannot convert float infinity to integer")


# -- Python's arithmetic

_DIVIDING = {"div": "float division by zero", "floordiv": "float floor division by zero", "mod": "float modulo"}


def check_arithmetic(op: str, left: Any, right: Any, result: Callable[[], Any]) -> None:
    """Raise what an operator of Python's floating numbers raises; `result` is its IEEE result."""
    if op in _DIVIDING:
        raise_where(lambda: right == 0, ZeroDivisionError, _DIVIDING[op])
    elif op == "pow":
        text = "0.0 cannot be raised to a negative power"
        raise_where(lambda: _both(left == 0, right < 0), ZeroDivisionError, text)
        over = lambda: _both(np.isinf(result()), np.isfinite(left), np.isfinite(right))  # noqa: E731
        raise_where(over, OverflowError, "(34, 'Numerical result out of range')")
