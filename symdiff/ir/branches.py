"""How a branching function became one Graph: its paths merged, or the path of some arguments with its conditions.

Assumes a Graph of conditions over the function's own inputs. Guarantees that a merged graph tells which arguments take a
path that ends in an exception, and a guarded one which arguments it is for. Refuses other arguments when it is checked.
"""

import copy
from dataclasses import dataclass
from typing import Any

from symdiff.errors import TraceError
from symdiff.ir.graph import Graph

KEY = "branches"  # where a Graph's notes have it, and its text


@dataclass(frozen=True, slots=True)
class Branches:
    """What is known of a Graph's branches.

    A merged graph stands for `paths` paths, and the first output of `conditions` that is true tells that the arguments take
    a path that ends in the exception at its place in `raised`. A guarded one holds the path of the arguments for which its
    one condition is false, after `paths` decisions.
    """

    guarded: bool
    paths: int
    conditions: Graph | None = None
    raised: tuple[Exception, ...] = ()

    def __str__(self) -> str:
        if self.guarded:
            return f"1 path, kept with its {self.paths} condition{'' if self.paths == 1 else 's'}"
        ends = [f"{type(e).__name__} at {_place(e)}" for e in self.raised]
        return f"{self.paths} paths merged" + (f", {len(ends)} of them raising {', '.join(ends)}" if ends else "")

    def __reduce__(self) -> tuple[Any, ...]:
        raised = tuple(_portable(error) for error in self.raised)
        return Branches, (self.guarded, self.paths, self.conditions, raised)

    def exception(self, flags: Any) -> Exception | None:
        """The exception of the path taken, from the values of the conditions; None where it ends well."""
        return next((_copied(e) for e, flag in zip(self.raised, flags, strict=True) if flag), None)

    def flags(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The values of the conditions at `args`: where one is true, the graph has no result."""
        if self.conditions is None:
            return ()
        found = self.conditions(*args[: len(self.conditions.inputs)])
        return found if isinstance(found, tuple) else (found,)

    def check(self, name: str, args: tuple[Any, ...]) -> None:
        """Raise the exception that the function raises at `args`; `TraceError` where a guarded path is not for them."""
        flags = self.flags(args)
        if self.guarded:
            if any(flags):
                raise TraceError(f"{name}: this graph holds the path taken at other arguments; trace the function at these")
            return
        error = self.exception(flags)
        if error is not None:
            raise error


def graph_exception(error: Exception, place: str) -> Exception:
    """An exception to be raised later, without the frames of the run that raised it."""
    error.__traceback__ = error.__context__ = error.__cause__ = None
    error.add_note(f"raised at {place}")
    return error


def _copied(error: Exception) -> Exception:
    try:
        return copy.copy(error)
    except TypeError:
        return error  # its class takes other arguments than it keeps


def _portable(error: Exception) -> Exception:
    """An exception that can be pickled: another one, with its name, for a class that cannot be made from what it keeps."""
    try:
        copy.copy(error)
    except TypeError:
        other = RuntimeError(f"{type(error).__name__}: {error}")
        other.add_note(error.__notes__[-1])
        return other
    return error


def _place(error: Exception) -> str:
    return error.__notes__[-1].removeprefix("raised at ")


def branches_of(graph: Graph) -> Branches | None:
    """What is known of a Graph's branches, None where the function has none."""
    return graph.notes.get(KEY)
