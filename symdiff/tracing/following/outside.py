"""What a function finds outside its arguments through a library: the clock, files, modules, the state of the process, numbers
that are drawn.

Assumes functions that `outside.table` names, and random generators. Guarantees that a trace notes what it has read, so that
this is compared before each call. Refuses, with `TraceError` at the user's line, what gives another value at every call, and
numbers drawn without a seed.
"""

import functools
import os
import random
from collections.abc import Callable
from typing import Any

import numpy as np

from symdiff.errors import TraceError
from symdiff.tracing.captures.reaching import HOLDING
from symdiff.tracing.captures.telling import Asked, File, Imported, Used
from symdiff.tracing.following.doors import holds_traced_inside
from symdiff.tracing.state.attempt import Attempt, current
from symdiff.tracing.values.tracer import Tracer
from symdiff.vocabulary.libraries import user_line
from symdiff.vocabulary.signatures import Arguments, Function, Keywords

RANDOM_MODULES = ("random", "numpy.random.mtrand", "numpy.random._generator")
SEEDED = ("default_rng", "RandomState", "Random")
UNSEEDED = (random.SystemRandom, np.random.default_rng, np.random.RandomState, random.Random)
_NOW = ("now", "today", b"now", b"today")


def looking(f: Any, look: Callable[[Arguments, Keywords], None]) -> Function:
    """A function that is called after a look at what it is given."""

    def looked(*args: Any, **kwargs: Any) -> Any:
        look(args, kwargs)
        return f(*args, **kwargs)

    return looked


def noting_use(f: Any, owner: Any, attempt: Attempt) -> Function:
    """A method of an object that the trace may not be able to compare."""

    def look(args: Arguments, kwargs: Keywords) -> None:
        if args or kwargs or f.__name__ not in HOLDING:
            attempt.known[Used(owner, f.__name__, user_line())] = None

    return looking(f, look)


def asked_again(f: Any, attempt: Attempt) -> Function:
    """A library's function that reads the state of the process: it is asked again before each call."""

    def asking(*args: Any, **kwargs: Any) -> Any:
        try:
            result = f(*args, **kwargs)
        except Exception:
            if not holds_traced_inside((args, kwargs)):
                attempt.known[Asked(f, args, kwargs, None)] = None
            raise
        if (result is not None or f.__name__.startswith("get")) and not holds_traced_inside((args, kwargs)):
            asked = Asked(f, args, kwargs, result)
            if asked.is_settled:
                attempt.known[asked] = None
            elif isinstance(result, (int, float, str, bytes)):
                refuse_clock(f)
        return result

    return asking


def dated(cls: Any) -> Function:
    """NumPy's dates: not those of the clock."""

    def look(args: Arguments, _: Keywords) -> None:
        if any(isinstance(a, (str, bytes)) and a in _NOW for a in args):
            refuse_clock(cls)

    return looking(cls, look)


def refuse_clock(f: Any, *_: Any) -> Any:
    """Refuse what is another value at every call."""
    raise TraceError(
        f"{user_line()}: {f.__name__} gives another value at every call, which would become a constant of the traced function; "
        "read it outside and pass it as an argument"
    )


def reading_file(f: Any, attempt: Attempt) -> Function:
    """A function that reads a file: the file is watched."""

    def look(args: Arguments, kwargs: Keywords) -> None:
        for value in (*args[:1], *kwargs.values()):
            if isinstance(value, (str, bytes, os.PathLike)):
                attempt.known[File(value)] = None

    return looking(f, look)


def _refuse(what: str, f: Any, *_: Any, **__: Any) -> Any:
    raise TraceError(f"{user_line()}: {f.__name__} {what}")


def _refusing(what: str) -> Function:
    """A function that is refused where it is called."""
    return functools.partial(functools.partial, _refuse, what)


def _importing(f: Any, attempt: Attempt) -> Function:
    """A function that imports a module: this is watched."""

    def importing(*args: Any, **kwargs: Any) -> Any:
        result = f(*args, **kwargs)
        name = str(args[0] if args else kwargs["name"])
        attempt.known[Imported(result.__name__ if name.startswith(".") else name)] = None
        return result

    return importing


OUTSIDE: dict[str, Function] = {
    "frames": _refusing(
        "looks at the running code or the objects of this process, which are others in a trace; pass what it gives as an "
        "argument"
    ),
    "elsewhere": _refusing(
        "reads from outside this process, which would become a constant of the traced function; read it outside and pass it as "
        "an argument, or read a file by open"
    ),
    "clock": refuse_clock,
    "file": reading_file,
    "import": _importing,
}


def watch_files(args: Arguments, kwargs: Keywords) -> None:
    """Files that a library's function is told to read are watched."""
    attempt = current()
    given = (*args, *kwargs.values()) if attempt is not None else ()
    listed = (item for value in given for item in (value if type(value) in (list, tuple) else (value,)))
    for value in listed:
        if isinstance(value, os.PathLike) or (isinstance(value, (str, bytes)) and _is_file(value)):
            attempt.known[File(value)] = None  # type: ignore[union-attr]


def _is_file(value: str | bytes) -> bool:
    try:
        return os.path.exists(value)
    except ValueError:  # it holds a zero
        return False


# -- random numbers


def seeding(f: Any, attempt: Attempt) -> Function:
    """A function that makes or seeds a random generator."""

    def seeding(*args: Any, **kwargs: Any) -> Any:
        result = f(*args, **kwargs)
        if any(v is not None for v in (*args, *kwargs.values())):
            attempt.seeded.append(result)  # None for np.random.seed
        return result

    return seeding


def drawing(f: Any, owner: Any, attempt: Attempt) -> Any:
    """A method of a random generator: allowed where the generator was made in this run, with a seed."""
    if any(owner is s for s in attempt.seeded) or (None in attempt.seeded and _is_shared(owner)):
        return _shuffling(f) if f.__name__ == "shuffle" else f
    if f.__name__ == "seed":
        return seeding(f, attempt)
    raise TraceError(drawn(f))


def _shuffling(f: Any) -> Function:
    """`rng.shuffle`, asked where it moves the cells of an array of this shape."""

    def shuffling(x: Any, *args: Any, **kwargs: Any) -> None:
        if not isinstance(x, Tracer):
            return f(x, *args, **kwargs)
        places = np.arange(x.size).reshape(x.shape)
        f(places, *args, **kwargs)
        x[...] = np.ravel(x)[places]  # type: ignore[call-overload]

    return shuffling


def drawn(f: Any) -> str:
    """Why a random number is not drawn."""
    return (
        f"{user_line()}: {f.__name__} draws a random number inside a traced function, which would become a constant; "
        "draw it outside and pass it as an argument, or make the generator inside with a seed"
    )


def _is_shared(owner: Any) -> bool:
    return owner is None or owner is random._inst or type(owner) is np.random.RandomState  # type: ignore[attr-defined]
