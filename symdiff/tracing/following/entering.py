"""Notices code of the user's that runs without being followed, and asks what a traced value is, see `questions`.

Assumes that Python enters such code by itself, for an operator, a property, an item or a loop, or a library's function does.
Guarantees that a run in which this happens is repeated as a thorough one. Refuses what a thorough run does not follow either,
with `TraceError` at the line that asks.
"""

import contextlib
import gc
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any

from symdiff.errors import TraceError
from symdiff.tracing.captures.questions import Question, questions
from symdiff.tracing.captures.reaching import is_users
from symdiff.tracing.following.substitution import FOLLOWED
from symdiff.tracing.state.attempt import current
from symdiff.tracing.values.tracer import is_traced
from symdiff.vocabulary.libraries import is_library, name_unless_library

_known: dict[int, tuple[types.CodeType, tuple[Question, ...]]] = {}
_MOST = 20_000  # functions that are known
_FURTHEST = 10_000  # objects that are looked at


@contextlib.contextmanager
def noticed(wanted: bool) -> Iterator[None]:
    """A block in which this thread looks at each function that starts; a profiler is told, too."""
    outer = sys.getprofile()
    if not wanted or getattr(outer, "notices", False):
        yield
        return

    def look(frame: types.FrameType, event: str, arg: Any) -> None:
        if event == "call":
            code = frame.f_code
            known = _known.get(id(code))
            found = _remembered(frame) if known is None else known[1]
            if found:
                _look(frame, found)
        if callable(outer):
            outer(frame, event, arg)

    look.notices = True  # type: ignore[attr-defined]
    sys.setprofile(look)
    try:
        yield
    finally:
        sys.setprofile(outer if callable(outer) else None)
        if hasattr(outer, "enable"):
            outer.enable()  # a profiler written in C


def _remembered(frame: types.FrameType) -> tuple[Question, ...]:
    """What a function of the user's asks that is no clone."""
    if len(_known) >= _MOST:
        _known.clear()
    code = frame.f_code
    followed = is_library(code.co_filename) or any(name.startswith(".") for name in code.co_freevars)
    found = () if followed else questions(code, frame.f_globals)
    _known[id(code)] = code, found
    return found


def _look(frame: types.FrameType, found: tuple[Question, ...]) -> None:
    attempt = current()
    if attempt is None or FOLLOWED in frame.f_globals or (attempt.stuck and not attempt.thorough):
        return
    told = next((q for q in found if _meets(frame, q)), None)
    if told is None:
        return
    attempt.stuck = True
    if attempt.thorough:
        code = frame.f_code
        place = name_unless_library(code.co_filename) or code.co_filename
        TraceError(
            f"{place}:{told.line}: {code.co_name} is entered by Python itself, where calls are not followed, and asks "
            f"`{told.what}` of a traced value; ask isinstance(), or call a function instead"
        )  # noted: the trace ends with it, see `errors`


def _meets(frame: types.FrameType, question: Question) -> bool:
    """Whether a question may be about a traced value: about a parameter that is one, or one within the function's reach."""
    values = frame.f_locals
    if question.subject is not None:
        return is_traced(values.get(question.subject))
    space = frame.f_globals
    waiting = [*values.values(), *(space[name] for name in frame.f_code.co_names if name in space)]
    seen: dict[int, Any] = {}
    while waiting and len(seen) < _FURTHEST:
        value = waiting.pop()
        if is_traced(value):
            return True
        if id(value) not in seen:
            seen[id(value)] = value
            waiting += _within(value)
    return bool(waiting)


def _within(value: Any) -> Iterable[Any]:
    """What an object holds; modules, and what belongs to libraries, hold no traced values."""
    if isinstance(value, type):
        return vars(value).values() if is_users(value) else ()
    if isinstance(value, types.FunctionType):
        return (*(value.__closure__ or ()), *(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values())
    if isinstance(value, types.ModuleType) or str(type(value).__module__).startswith("symdiff."):
        return ()
    return gc.get_referents(value)
