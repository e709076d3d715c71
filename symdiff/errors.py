"""One exception per stage: the user's input and a defect of ours are told apart.

Everything a user can cause derives from `SymdiffError` and names the file and line of the user's code where there is
one. `InvariantError` is the exception of the `check_*` functions: whoever sees it has found a defect in symdiff.

Errors that are made while a function is traced are noted, so that the trace ends with them, whatever the function's own
handlers do.
"""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

_notes = threading.local()


class SymdiffError(Exception):
    """Base of every error that symdiff raises about its user's input."""

    catchable = False  # whether the plain function raises, too, and may handle it

    def __init__(self, *args: Any, **facts: Any) -> None:
        super().__init__(*args, **facts)
        note_error(self)


def note_error(error: SymdiffError) -> None:
    """Keep an error for the run that this thread traces, if it traces one."""
    errors = getattr(_notes, "errors", None)
    if errors is not None and not error.catchable:
        errors.append(error)


def forgive_error(error: SymdiffError) -> None:
    """Take back an error after which something else works."""
    errors = getattr(_notes, "errors", None) or []
    errors[:] = [e for e in errors if e is not error]


@contextlib.contextmanager
def noted_errors() -> Iterator[list[SymdiffError]]:
    """The errors that are made meanwhile, in a list."""
    outer = getattr(_notes, "errors", None)
    found: list[SymdiffError] = []
    _notes.errors = found
    try:
        yield found
    finally:
        _notes.errors = outer


class TraceError(SymdiffError):
    """The function does something with a traced value that cannot become part of a graph."""


class TruthError(TraceError, ValueError):
    """An array of several cells is asked for one truth value, which is NumPy's error, too."""

    catchable = True


class ItemError(TraceError, TypeError):
    """An item of a number is assigned to, which is Python's error, too."""

    catchable = True


class PathsError(TraceError):
    """The paths of a function are too many, or too different, to be merged; a call with values takes one of them."""


class RuleError(SymdiffError):
    """A derivative rule is missing, malformed or applied to arguments it does not cover."""


class RuleWarning(UserWarning):
    """Lines of a rule file that could not be read; the others are loaded."""


class NonHolomorphicError(SymdiffError):
    """The derivative by a complex input does not exist, because the output depends on its conjugate."""


class ShapeError(SymdiffError, ValueError):
    """An argument or `out` has the wrong shape, dtype, number or layout."""


class ArgumentError(SymdiffError, TypeError):
    """A call has too few, too many or unknown arguments."""


class OptionError(ArgumentError, ValueError):
    """An option does not exist, or cannot have this value."""


class ExportError(SymdiffError):
    """A function cannot be written as a source file, or a committed file does not match its function."""


class BackendError(SymdiffError):
    """A backend is unknown, not installed, or cannot run this program."""


class MissingPackageError(SymdiffError, ImportError):
    """An optional package is not installed; the message has the command that installs it."""


class InvariantError(AssertionError):
    """A Graph, Program or Plan breaks its written invariant: a defect of symdiff, please report it."""
