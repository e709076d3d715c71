"""What following the user's calls must remember while his function runs on tracers.

Assumes that a run stays in its thread. Guarantees that only the followed functions outlive a run, for the next one of the
same trace.
"""

import contextlib
import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from symdiff.ir.building import active_builders

_active = threading.local()


class Stuck(BaseException):
    """A traced value met code that was not followed; the run is repeated, and everything is followed."""


class Contents(BaseException):
    """The contents of captured arrays are needed; the run is repeated with these as constants."""


@dataclass(eq=False, slots=True)
class Attempt:
    """A function's runs in one trace. `rules` is the rulebook, None where it has no rules of Python functions.

    `thorough`: implicit calls are followed too, and arrays can take traced values. `known` are the followed functions, `memo`
    the results of cached functions, `seeded` the random generators made with a seed. `stuck`: a number was asked for where
    only thorough following can give none. `reading` are the captured arrays that stand as inputs, see `reading.Reading`.
    `kinds`: what was asked of the kinds of arguments, see `kinds`. `shown`: whether a text that is being written shows a
    traced value; None where none is. `opened`: a library's function is running that may make arrays of traced values;
    `followed` are the libraries whose own source has run. `handlers` are those of the blocks that the run is in, `keeping`
    what is known of loops that may be kept, None where none may, `given` the arguments by the traced values that stand for
    them, `holders` their containers and objects by those that stand for these, `compared` what was asked to be one of them,
    `patient` how much is written out before loops are kept, `looped` whether there are any, `modes` what NumPy and `warnings`
    do about floating errors where it begins, see `raising`. `integers`: the dtypes that NumPy has for atoms of integers alone,
    of which arguments are; None of others.
    """

    rules: Any
    thorough: bool
    reading: Any = None
    keeping: Any = None
    patient: int = 0
    looped: bool = False
    stuck: bool = False
    kinds: int = 0
    opened: bool = False
    shown: bool | None = None
    modes: Any = None
    known: dict[Any, Any] = field(default_factory=dict)
    memo: dict[Any, Any] = field(default_factory=dict)
    seeded: list[Any] = field(default_factory=list)
    handlers: list[Any] = field(default_factory=list)
    compared: list[Any] = field(default_factory=list)
    given: dict[int, tuple[Any, Any]] = field(default_factory=dict)
    holders: dict[int, tuple[Any, Any]] = field(default_factory=dict)
    integers: dict[Any, Any] = field(default_factory=dict)
    followed: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.rules = self.rules if self.rules is not None and self.rules.names_functions else None

    def __enter__(self) -> "Attempt":
        self.stuck = False
        self.memo.clear()
        self.seeded.clear()
        self.handlers.clear()
        self.modes = np.geterr(), tuple(warnings.filters)
        _active.stack = (*getattr(_active, "stack", ()), self)
        _active.attempt = self
        return self

    def __exit__(self, *_: Any) -> None:
        _active.stack = _active.stack[:-1]
        _active.attempt = _active.stack[-1] if _active.stack else None


def current() -> Attempt | None:
    """The innermost run of this thread."""
    return getattr(_active, "attempt", None)


def awaits() -> bool:
    """Whether the run is in a block with handlers, see `raising`."""
    attempt = current()
    return attempt is not None and bool(attempt.handlers)


@contextlib.contextmanager
def beside_traces() -> Iterator[None]:
    """A block in which this thread is in no trace: what is made there is for all calls."""
    builders, held = active_builders(), vars(_active).copy()
    outer = builders.copy()
    builders.clear()
    vars(_active).clear()
    try:
        yield
    finally:
        builders[:] = outer
        vars(_active).update(held)


def note_stuck() -> None:
    """A traced value was asked for its number."""
    attempt = current()
    if attempt is not None:
        attempt.stuck = True


def note_shown() -> bool:
    """A traced value is shown: whether in a text that may show one, or where no run is under way."""
    attempt = current()
    if attempt is not None and attempt.shown is not None:
        attempt.shown = True
    return attempt is None or attempt.shown is not None


def note_kinds(asked: int) -> None:
    """A result depends on the kinds of arguments: those of enclosing runs, too, whose values they may be."""
    for attempt in getattr(_active, "stack", ()):
        attempt.kinds |= asked


def note_compared(array: Any) -> None:
    """A result depends on whether an argument is this object."""
    for attempt in getattr(_active, "stack", ()):
        attempt.compared.append(array)


def given_arguments() -> Iterator[tuple[Any, Any]]:
    """Traced values of the runs of this thread, with the arguments that they stand for."""
    for attempt in getattr(_active, "stack", ()):
        yield from attempt.given.values()


def given_argument(value: Any) -> Any:
    """The argument that a traced value stands for in a run of this thread, None for all others."""
    pairs = (attempt.given.get(id(value), (None, None)) for attempt in getattr(_active, "stack", ()))
    return next((argument for made, argument in pairs if made is value), None)


def given_holder(value: Any) -> Any:
    """The container or object among the arguments that one in a run of this thread stands for, None for all others."""
    found = None
    for attempt in reversed(getattr(_active, "stack", ())):
        if id(value) in attempt.holders:
            found = value = attempt.holders[id(value)][1]
    return found


def note_given(value: Any, argument: Any) -> None:
    """A traced value stands for what NumPy makes of an argument."""
    attempt = current()
    if attempt is not None:
        attempt.given[id(value)] = value, argument


def current_reading() -> Any:
    """The captured arrays that stand as inputs in the innermost run of this thread, None where there are none."""
    attempt = current()
    return None if attempt is None else attempt.reading


def current_keeping() -> Any:
    """What is known of loops that may be kept, None where none may."""
    attempt = current()
    return None if attempt is None else attempt.keeping


def need_contents(value: Any) -> None:
    """A traced value is asked for what only its contents tell: one of captured arrays alone can tell them, see `reading`."""
    reading = current_reading()
    if reading is not None:
        reading.need(value)


def need_all_contents() -> None:
    """What is done next reads captured arrays as they stand: a trace that is under way takes them as constants."""
    reading = current_reading()
    if reading is not None:
        reading.need_all()
