"""What stands for the functions of NumPy, SciPy and Python in a trace: one row each, by the function itself.

Assumes plain functions of traced values that have the parameters of the function that they stand for, or some of them.
Guarantees that every other argument has its default or is refused by name, with what works in its place.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple, TypeVar

import numpy as np

from symdiff.errors import TraceError
from symdiff.rulebooks.book import functions_instead
from symdiff.tracing.values.answers import STEERING, check_read, raises_itself, signature_of, unread
from symdiff.tracing.values.operands import as_array
from symdiff.vocabulary.libraries import user_line
from symdiff.vocabulary.signatures import Arguments, Function, Keywords

Anything = TypeVar("Anything", bound=Function)
Array = Annotated[Any, "as an array"]  # of parameters that stand-ins are given as NumPy's arrays or traced ones
_UNLIKE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class Row(NamedTuple):
    """What is known of a function besides what stands for it."""

    stand: Function
    name: str
    memory: str = ""  # of its result: "own" always, a "view" perhaps, an argument "itself"; else NumPy is asked
    fails: str = ""  # what NumPy's LinAlgError says of some matrices
    calls: bool = False  # it calls a function of the user's, whose errors stay as they are
    always: bool = False  # it is asked in place of the function, traced values or not
    followed: bool = False  # it is the function's own source, of this version of the library


STANDING: dict[Any, Row] = {}  # by the function, or its public name where the package may be missing


def stands_for(*functions: Any, **facts: Any) -> Callable[[Anything], Anything]:
    """Say that a function of traced values stands for others: `@stands_for(np.diff)`."""

    def decorated(stand: Anything) -> Anything:
        for function in functions:
            own = getattr(function, "__module__", "") in ("numpy.linalg", "numpy.fft") or isinstance(function, str)
            STANDING[function] = Row(stand, name_of(function), **({"memory": "own"} if own else {}) | facts)
        return stand

    return decorated


replaces = functools.partial(stands_for, always=True)  # asked in place of the function, traced values or not
gives_new = functools.partial(stands_for, memory="own")  # results are never views of arguments


def follows_source(*functions: Function) -> None:
    """Say that the library's own source, which is written in Python, stands for these functions."""
    for function in functions:
        STANDING[function] = Row(function, name_of(function), followed=True)


def name_of(function: Any) -> str:
    """The name by which a function is told: np.diff, scipy.linalg.solve, len."""
    if isinstance(function, str):
        return function
    module = getattr(function, "__module__", "numpy") or "numpy"
    return f"{module}.{getattr(function, '__name__', function)}".replace("numpy.", "np.", 1).removeprefix("builtins.")


def way_out(name: str, otherwise: str = "write it with elementwise functions") -> str:
    """What works in place of a function or a keyword."""
    return functions_instead().get(name, otherwise)


def _is_default(value: Any, default: Any) -> bool:
    return value is default or value is np._NoValue or (type(value) is type(default) and value == default)


def call_standing(function: Any, row: Row, args: Arguments, kwargs: Keywords) -> Any:
    """What stands for a function, called; its own errors are told at the user's line."""
    taken, named = _given(function, row, args, kwargs)
    if row.calls:
        return row.stand(*taken, **named)
    try:
        if found := _arrays(row.stand):
            taken = tuple([as_array(v) if k in found and v is not None else v for k, v in enumerate(taken)])
            named = {k: as_array(v) if k in found and v is not None else v for k, v in named.items()}
        return row.stand(*taken, **named)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        own = isinstance(error, np.linalg.LinAlgError) or str(error).startswith(user_line())  # what NumPy raises, too
        kind = IndexError if isinstance(error, IndexError) and raises_itself(function, args, kwargs) else TraceError
        raise (error if own else kind(f"{user_line()}: {row.name}: {error}")) from None


@functools.cache
def _arrays(stand: Function) -> frozenset[int | str]:
    """The places and names of the parameters that are given as arrays."""
    own = enumerate(signature_of(stand).parameters.values())
    return frozenset(way for k, p in own if p.annotation is Array and p.kind is not p.VAR_POSITIONAL for way in (k, p.name))


def _given(function: Any, row: Row, args: Arguments, kwargs: Keywords) -> tuple[Arguments, Keywords]:
    """The arguments as the stand-in takes them."""
    theirs, own, straight = _match(function, row.stand)
    if not kwargs and len(args) <= straight:
        return args, kwargs
    try:
        bound = (theirs or signature_of(row.stand)).bind(*args, **kwargs)
    except TypeError as error:
        raise TraceError(f"{user_line()}: {row.name} of a traced value: {error}; leave these arguments away") from None
    if theirs is not None:
        for key, value in bound.arguments.items():
            if key not in own and key not in STEERING and not _is_default(value, theirs.parameters[key].default):
                instead = way_out(f"keyword.{key}", f"leave {key} away")
                raise TraceError(f"{user_line()}: {row.name}({key}=...) of a traced value is not supported; {instead}")
        given = {key: value for key, value in bound.arguments.items() if key in own and value is not np._NoValue}
        found = {own[key]: value for key, value in given.items()}
        bound = inspect.BoundArguments(signature_of(row.stand), found)  # type: ignore[arg-type]
    check_read(row.stand, bound, row.name)
    return bound.args, bound.kwargs


@functools.cache
def _match(function: Any, stand: Function) -> tuple[inspect.Signature | None, dict[str, str], int]:
    """The function's own signature, the stand-in's name for each of its parameters, and how many of them are its first ones."""
    mine = signature_of(stand).parameters
    try:
        theirs = inspect.signature(function)
    except (TypeError, ValueError):
        return None, {}, 0
    if any(p.kind in _UNLIKE for p in (*mine.values(), *theirs.parameters.values())):
        return None, {}, 0
    placed = [p.name for p in mine.values() if p.kind is not p.KEYWORD_ONLY]
    own, straight = {}, 0
    for place, (key, parameter) in enumerate(theirs.parameters.items()):
        if key in mine:
            own[key] = key
        elif place < len(placed) and placed[place] not in theirs.parameters and parameter.kind is not parameter.KEYWORD_ONLY:
            own[key] = placed[place]
        if place == straight < len(placed) and parameter.kind is not parameter.KEYWORD_ONLY and own.get(key) == placed[place]:
            straight += 1
    return theirs, own, min([straight, *(k for k, key in enumerate(mine) if key in unread(stand))])


def followed_keywords(function: Any) -> tuple[list[str], list[str]]:
    """The parameters of a function that may be given for traced values, and those that must have their defaults."""
    row = STANDING[function]
    theirs, own, _ = _match(function, row.stand)
    if theirs is None:
        return [n for n in signature_of(row.stand).parameters if n not in unread(row.stand) or n in STEERING], []
    works = [
        key
        for key, parameter in theirs.parameters.items()
        if key in STEERING
        or key == "out"
        or parameter.default is parameter.empty
        or (key in own and (own[key] not in unread(row.stand) or own[key] in STEERING))
    ]
    return works, [key for key in theirs.parameters if key not in works]
