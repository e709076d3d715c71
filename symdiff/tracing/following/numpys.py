"""NumPy's functions where they are given traced numbers in lists or in arrays of objects, and the new arrays that they make.

Assumes functions of NumPy's as code calls them by name. Guarantees that such numbers are recorded as if they were arrays, and,
in a thorough run, that new arrays can take traced values. Refuses, with `TraceError`, what neither a row stands for nor NumPy's
own source gives.
"""

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from symdiff.errors import SymdiffError, TraceError
from symdiff.tracing.following.implicit import check_kept_owner
from symdiff.tracing.library.functions import call_library_function, minds_memory
from symdiff.tracing.library.making import fresh_numpy_array
from symdiff.tracing.state.attempt import Attempt, note_stuck
from symdiff.tracing.values.answers import check_answer
from symdiff.tracing.values.operands import as_array, holds_traced, takes_traced
from symdiff.tracing.values.standing import STANDING, name_of, way_out
from symdiff.tracing.values.tracer import Tracer
from symdiff.vocabulary import structures
from symdiff.vocabulary.libraries import user_line
from symdiff.vocabulary.signatures import Arguments, Function, Keywords

DISPATCHER = type(np.linspace)
_JOINING = frozenset(getattr(np, name, None) for name in "concatenate concat stack vstack hstack dstack column_stack".split())
OF_PARTS = _JOINING | {np.block, np.select, np.result_type, np.linalg.multi_dot}  # whose first argument is a list of arrays


def _note_objects(args: Arguments, kwargs: Keywords) -> None:
    """NumPy's arrays of traced objects share no memory with what becomes of them here: in a thorough run they are traced."""
    objects = [a for a in (*args, *kwargs.values()) if isinstance(a, np.ndarray) and a.dtype == object]
    if any(isinstance(cell, Tracer) for a in objects for cell in a.flat):
        note_stuck()


def _gives_views(f: Any, args: Arguments) -> bool:
    """Whether a function gives views of arrays of objects, or writes to them, which is NumPy's own affair."""
    if not minds_memory(f) or not any(isinstance(a, np.ndarray) and a.dtype == object for a in args):
        return False
    if any(isinstance(a, Tracer) and a.shape for a in args):
        raise TraceError(
            f"{user_line()}: np.{f.__name__} of an array of objects beside a traced one, which would not see each other's "
            "changes; make an array of numbers first: np.array(list(y))"
        )
    return True


def _locked(array: Any) -> Any:
    """An array of traced objects as a traced one, which NumPy would write to the objects: itself as `out`."""
    found = as_array(array)
    if isinstance(array, np.ndarray) and isinstance(found, Tracer):
        found.shared().storage.refusal = "an array of objects is assigned to by another name; take a copy first: y = y.copy()"
    return found


def of_lists(f: Function) -> Function:
    """A function of NumPy's that is given traced numbers in lists: it is recorded as if they were arrays."""

    def recorded(*args: Any, **kwargs: Any) -> Any:
        _note_objects(args, kwargs)
        if _gives_views(f, args):
            return f(*args, **kwargs)
        own = args and isinstance(args[0], Tracer) and type(args[0]) is not Tracer  # integers have a protocol of their own
        if not own and takes_traced(args, kwargs):
            args = tuple(_locked(a) if isinstance(a, np.ndarray) and a.dtype == object else a for a in args)
            return call_library_function(f, args, kwargs, user_line())
        return f(*args, **kwargs)

    return recorded


@dataclass(eq=False)
class _Standing:
    """What stands for a function of NumPy's, and has its attributes."""

    _function: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)


class OfCells(_Standing):
    """A function of NumPy's that may be given traced numbers in lists or arrays of objects: recorded as if they were arrays."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        f = self._function
        if type(f) is np.ufunc and len(args) > f.nin:
            args, kwargs = args[: f.nin], {**kwargs, "out": (*args[f.nin :], *(None,) * (f.nargs - len(args)))}
        if f.__name__ == "at":
            check_kept_owner(args[0])
        _note_objects(args, kwargs)
        if _gives_views(f, args):
            return f(*args, **kwargs)
        first = args[:1] if type(f) is DISPATCHER else args  # of which the first argument alone is an array
        held = [not isinstance(a, Tracer) and holds_traced(a) for a in first]
        if f.__name__ == "at" and len(args) > 1 and isinstance(args[1], tuple):
            held[1] = False  # an index
        if any(held) and f in _JOINING and isinstance(args[0], (list, tuple)):
            args = ([as_array(part) if isinstance(part, (list, tuple)) else part for part in args[0]], *args[1:])
        elif any(held) and f not in OF_PARTS:
            args = (*(_locked(a) if h else a for a, h in zip(args, held, strict=False)), *args[len(held) :])
        elif not any(map(holds_traced, args)):
            return f(*args, **kwargs)
        try:
            return f(*args, **kwargs)
        except (TypeError, AttributeError) as error:
            if isinstance(error, SymdiffError) or str(error).startswith(user_line()):  # what the function itself raises
                raise
            raise TraceError(unfollowed(f, error)) from error


class Made(_Standing):
    """A function of NumPy's in a thorough run: its new arrays can take traced values."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return fresh_numpy_array(self._function(*args, **kwargs), (*args, *kwargs.values()))


def answering(f: Function, name: str, attempt: Attempt) -> Function:
    """NumPy's own Python, run with traced values, where its row says that this gives what it gives for numbers."""

    @functools.wraps(f)
    def answering(*args: Any, **kwargs: Any) -> Any:
        if not takes_traced(args, kwargs):
            return f(*args, **kwargs)
        if f not in STANDING or not STANDING[f].followed:
            raise TraceError(f"{user_line()}: {name} of a traced value is not supported; {way_out(name_of(f))}")
        attempt.followed.add("NumPy")
        found = structures.map_leaves(_of_objects, f(*args, **kwargs))
        check_answer(f, name, args, kwargs, found)
        return found

    return answering


def _of_objects(value: Any) -> Any:
    """An array of traced objects as a traced array."""
    return as_array(value.tolist()) if isinstance(value, np.ndarray) and value.dtype == object else value


def takes_lists(f: Any) -> bool:
    """Whether a function of NumPy's takes traced numbers in lists as they are."""
    return f in STANDING and not hasattr(STANDING[f].stand, "__wrapped__") and f not in OF_PARTS


def unfollowed(name: str, why: str) -> str:
    """Why a library's function is refused."""
    return (
        f"{user_line()}: {name} cannot be followed with a traced value ({why}); write it with NumPy, "
        "or keep your function around it opaque with sd.primitive and give its derivative with sd.diffrule"
    )
