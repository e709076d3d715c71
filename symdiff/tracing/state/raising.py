"""What Python's own functions raise, in blocks whose handlers may wait for it.

Assumes code cloned with its `try` and `with` statements announced (see `cloning`). Guarantees that inside such a block the
function goes on as it does with numbers: `math.log(x)` asks whether x is positive, and raises `ValueError` on the path on which
it is not. Elsewhere nothing is asked, and the results are IEEE's.
"""

import contextlib
import dis
import functools
import itertools
import opcode
import signal
import sys
import traceback
import types
import warnings
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from symdiff.errors import SymdiffError, TraceError
from symdiff.tracing.state.attempt import current
from symdiff.vocabulary.libraries import is_library, is_of_graphs, is_ours, name_unless_library, user_line
from symdiff.vocabulary.signatures import Arguments, Function, Lookup

_RAISE = opcode.opmap["RAISE_VARARGS"]
_SWALLOWING = frozenset({"ExitStack", "_AssertRaisesContext", "RaisesContext", "RaisesExc"})  # of libraries


@contextlib.contextmanager
def handled(kinds: Callable[[], Any]) -> Iterator[None]:
    """A block whose handlers wait for what `kinds` gives: classes, tuples of them, None for everything."""
    attempt = current()
    if attempt is None:
        yield
        return
    attempt.handlers.append(kinds)
    keeping = attempt.keeping
    rounds = 0 if keeping is None else len(keeping.open)
    try:
        yield
    except Exception as error:
        _note_defect(error)
        if keeping is not None:
            keeping.check_bound(error)
        if keeping is not None and keeping.open:
            keeping.check_raised(error, rounds, _is_functions(error))
        raise
    finally:
        attempt.handlers[:] = [h for h in attempt.handlers if h is not kinds]


def _is_functions(error: Exception) -> bool:
    """Whether an exception is one that the plain function raises: by a statement of its own, or asked for here."""
    step = error.__traceback__
    while step.tb_next is not None:
        step = step.tb_next
    code = step.tb_frame.f_code
    ours = code is raise_if_awaited.__code__ or code is check_awaited_floating.__code__
    return ours or (not is_library(code.co_filename) and code.co_code[step.tb_lasti] == _RAISE)


def _note_defect(error: Exception) -> None:
    """Note a defect of ours: the trace ends with it, whatever handlers do."""
    if is_defect(error):
        TraceError(f"{user_line()}: {type(error).__name__}: {error}: a defect of symdiff, which f itself does not raise")


def is_defect(error: BaseException) -> bool:
    """Whether the plain function does not raise an exception: it comes out of rooms that only reason about graphs, or is one
    that none of ours raises for Python or NumPy.
    """
    if isinstance(error, SymdiffError) or not isinstance(error, Exception):
        return False
    steps = reversed(list(traceback.walk_tb(error.__traceback__)))
    ours = [
        frame.f_code.co_filename
        for frame, _ in itertools.takewhile(lambda step: not name_unless_library(step[0].f_code.co_filename), steps)
    ]
    never = isinstance(error, (NameError, AssertionError)) and bool(ours) and is_ours(ours[0])
    return never or any(map(is_of_graphs, ours))


def check_signal(error: BaseException) -> None:
    """Raise again what the handler of a signal has raised, as those that end what takes too long do: the function did not."""
    handlers = {getattr(signal.getsignal(known), "__code__", None) for known in signal.valid_signals()}
    if any(frame.f_code in handlers for frame, _ in traceback.walk_tb(error.__traceback__)):
        raise error


def managed(owner: Any, followed: Any = None) -> Any:
    """A context manager of a `with` statement, as it is followed: its block is announced where the manager may keep exceptions
    to itself.
    """
    followed = owner if followed is None else followed
    if isinstance(owner, contextlib.suppress):
        return _Managed(owner, lambda: owner._exceptions)  # type: ignore[attr-defined]
    return _Managed(followed, lambda: None) if _may_swallow(owner) else followed


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
        self._block.__exit__(*error)
        return type(self._owner).__exit__(self._owner, *error)


def is_awaited(kind: type[Exception]) -> bool:
    """Whether a handler around the place waits for an exception of this class."""
    attempt = current()
    return attempt is not None and any(_waits(kinds(), kind) for kinds in attempt.handlers)


def _waits(kinds: Any, kind: type[Exception]) -> bool:
    if isinstance(kinds, tuple):
        return any(_waits(k, kind) for k in kinds)
    return kinds is None or (isinstance(kinds, type) and issubclass(kind, kinds))


def may_catch() -> bool:
    """Whether an exception now may be caught by the user's traced code: in a `try` or a `with`."""
    frame = sys._getframe(1)
    while frame is not None and not (frame.f_code.co_name == "run" and frame.f_code.co_filename.endswith("following.py")):
        if name_unless_library(frame.f_code.co_filename) and any(
            first <= frame.f_lasti < last for first, last in _handled(frame.f_code)
        ):
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


@functools.lru_cache(maxsize=1024)
def _handled(code: Any) -> list[tuple[int, int]]:
    """The parts of a function whose exceptions are handled in it."""
    return [(entry.start, entry.end) for entry in dis._parse_exception_table(code)]  # type: ignore[attr-defined]


def raise_if_awaited(condition: Callable[[], Any], kind: type[Exception], text: str) -> None:
    """Raise what Python raises where a condition holds, if a handler waits for it."""
    if is_awaited(kind) and condition():
        raise kind(text)


# -- math


def _either(*conditions: Any) -> Any:
    return functools.reduce(np.logical_or, conditions)


def _both(*conditions: Any) -> Any:
    return functools.reduce(np.logical_and, conditions)


def _is_pole(x: Any) -> Any:
    return _both(x <= 0, np.floor(x) == x)


def _no_power(x: Any, y: Any) -> Any:
    fractional = _both(np.isfinite(x), x < 0, np.isfinite(y), np.floor(y) != y)
    return _either(fractional, _both(x == 0, y < 0, np.isfinite(y)))


def _no_remainder(x: Any, y: Any) -> Any:
    return _either(_both(np.isinf(x), y == y), _both(y == 0, x == x))


_DOMAINS: dict[str, Function] = {
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


def _is_endless(turning: str, other: Lookup) -> Lookup:
    """Whether one part of a complex number is infinite, and the other such that the result has no direction."""
    rest = "real" if turning == "imag" else "imag"
    return lambda z: _both(np.isinf(getattr(z, turning)), other(getattr(z, rest)))


_COMPLEX_DOMAINS: dict[str, Function] = {
    "log": lambda z, base=1.0: _either(z == 0, base == 0),
    "log10": lambda z: z == 0,
    "atanh": lambda z: _either(z == 1, z == -1),
    "exp": _is_endless("imag", lambda part: part > -np.inf),
    **dict.fromkeys(("sinh", "cosh"), _is_endless("imag", lambda part: part == part)),
    **dict.fromkeys(("sin", "cos"), _is_endless("real", lambda part: part == part)),
    "tanh": _is_endless("imag", np.isfinite),
    "tan": _is_endless("real", np.isfinite),
}
_GROWING = frozenset("exp exp2 expm1 cosh sinh pow gamma lgamma ldexp".split())
_COMPLEX_GROWING = frozenset("exp sin cos sinh cosh".split())
_WHOLE = frozenset({"floor", "ceil", "trunc"})


def awaited_mathematics(name: str, function: Function, args: Arguments) -> Any:
    """What a function of `math` gives; raises what it raises for arguments with an IEEE result of its own."""
    if name in _DOMAINS:
        raise_if_awaited(lambda: _DOMAINS[name](*args), ValueError, "math domain error")
    if name == "log" and len(args) > 1:
        raise_if_awaited(lambda: args[1] == 1, ZeroDivisionError, "float division by zero")
    if name in _WHOLE:
        check_awaited_whole(args[0])
    found = function(*args)
    if name in _GROWING:
        raise_if_awaited(lambda: _both(np.isinf(found), *map(np.isfinite, args)), OverflowError, "math range error")
    return found


def awaited_complex(name: str, function: Function, args: Arguments) -> Any:
    """What a function of `cmath` gives, likewise."""
    if name in _COMPLEX_DOMAINS:
        raise_if_awaited(lambda: _COMPLEX_DOMAINS[name](*args), ValueError, "math domain error")
    found = function(*args)
    if name in _COMPLEX_GROWING:
        check_awaited_range(found, args, "math range error")
    if name == "polar":
        check_awaited_range(found[0], args, "math range error")
    return found


def check_awaited_range(found: Any, operands: Any, text: str) -> None:
    """Raise what Python raises where a result of finite numbers is not finite."""
    raise_if_awaited(lambda: _both(np.logical_not(np.isfinite(found)), *map(np.isfinite, operands)), OverflowError, text)


def check_awaited_whole(x: Any) -> None:
    """Raise what `int(x)` raises for what is no whole number."""
    raise_if_awaited(lambda: np.isnan(x), ValueError, "cannot convert float NaN to integer")
    raise_if_awaited(lambda: np.isinf(x), OverflowError, "cannot convert float infinity to integer")


# -- operators

_DIVIDING = {"div": "float division by zero", "floordiv": "float floor division by zero", "mod": "float modulo"}


def check_awaited_operator(op: str, left: Any, right: Any, found: Any) -> None:
    """Raise what an operator raises where the result that is found is IEEE's."""
    told = op in _DIVIDING or op == "pow"
    left, right = (float(v) if isinstance(v, Fraction) else v for v in (left, right))
    if not found.shape and (found.asked(_is_pythons) if told else found.kind.python):
        _check_arithmetic(op, left, right, found)
    else:
        check_awaited_floating(op, (left, right), found)


def _is_pythons(value: Any) -> bool:
    return not isinstance(value, (np.generic, np.ndarray))


def _check_arithmetic(op: str, left: Any, right: Any, found: Any) -> None:
    """What Python's own numbers raise."""
    if op in _DIVIDING:
        raise_if_awaited(lambda: right == 0, ZeroDivisionError, _DIVIDING[op])
    elif op == "pow":
        text = "0.0 cannot be raised to a negative power"
        raise_if_awaited(lambda: _both(left == 0, right < 0), ZeroDivisionError, text)
        over = (
            functools.partial(_both, np.isinf(found), np.isfinite(left), np.isfinite(right))
            if found.dtype.kind == "f"
            else None
        )
        if over is not None:
            raise_if_awaited(over, OverflowError, "(34, 'Numerical result out of range')")


# -- NumPy's floating errors, where the function itself asks for exceptions

_POLES = frozenset(
    "div divide true_divide floordiv floor_divide log log2 log10 log1p pow power reciprocal atanh arctanh".split()
)
_TINY = float(np.finfo(float).tiny)
_TEXTS = {"divide": "divide by zero", "over": "overflow", "under": "underflow", "invalid": "invalid value"}


def check_awaited_floating(name: str, operands: Arguments, found: Any) -> None:
    """Raise what a function of NumPy's raises in `np.errstate(all="raise")`, or where warnings are errors."""
    for kind, error in _floating_errors():
        if not is_awaited(error) or found.dtype.kind not in "fc":
            continue
        finite = _both(*map(np.isfinite, operands))
        if kind == "invalid":
            condition = _both(np.isnan(found), *(np.logical_not(np.isnan(o)) for o in operands))
        elif kind == "under":
            condition = _both(abs(found) < _TINY, finite, *(o != 0 for o in operands))
            condition = None if name in ("add", "sub", "subtract") else condition
        else:
            infinite = _both(np.isinf(found), finite)
            at_pole = _at_pole(name, operands)
            condition = (
                infinite if at_pole is None else _both(infinite, at_pole if kind == "divide" else np.logical_not(at_pole))
            )
            condition = None if at_pole is None and kind == "divide" else condition
        if condition is not None and (condition if np.ndim(condition) == 0 else np.any(condition)):
            raise error(f"{_TEXTS[kind]} encountered in {name}")


def _at_pole(name: str, operands: Arguments) -> Any:
    """Where a function with poles has one; None for others."""
    if name not in _POLES:
        return None
    if "div" in name or name == "reciprocal":
        return operands[-1] == 0
    return True if name not in ("pow", "power") else operands[0] == 0


def _floating_errors() -> list[tuple[str, type[Exception]]]:
    """The kinds of floating errors that are exceptions by the function's own doing."""
    attempt = current()
    if attempt is None:
        return []
    modes, filters = attempt.modes
    now = np.geterr()
    found = [(k, FloatingPointError) for k in _TEXTS if now[k] == "raise" != modes[k]]  # type: ignore[literal-required]
    if tuple(warnings.filters) != filters and _is_error(RuntimeWarning):
        found += [(k, RuntimeWarning) for k in _TEXTS if now[k] == "warn"]  # type: ignore[literal-required]
    return found


def _is_error(category: type[Warning]) -> bool:
    """Whether a warning is raised as an exception."""
    action = next((f[0] for f in warnings.filters if issubclass(category, f[2]) and not f[1] and not f[3]), "default")
    return action == "error"
