"""Notices code of the user's that runs without being followed, and asks what a traced value is, see `mentioning`, or calls what
finds something outside its arguments, see `outside.table`, or reads captured arrays that stand as inputs.

Assumes that Python enters such code by itself, for an operator, a property, an item or a loop, or a library's function does.
Guarantees that a run in which this happens is repeated as a thorough one. Refuses what a thorough run does not follow either,
with `TraceError` at the line that asks.
"""

import contextlib
import dis
import functools
import gc
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any

from symdiff.errors import TraceError
from symdiff.rulebooks.book import outside_word
from symdiff.tracing.captures.mentioning import Question, handed_outside, home_of, questions, word_of
from symdiff.tracing.captures.reaching import HOLDING
from symdiff.tracing.captures.telling import PRINTING, Used, is_opaque_capture
from symdiff.tracing.state.attempt import current
from symdiff.tracing.values.tracer import is_traced
from symdiff.vocabulary.libraries import FOLLOWED, Line, is_library, is_users, name_unless_library, user_line

_USERS, _LIBRARYS = "a user's", "a library's"  # whose code it is; clones and symdiff's own are nobody's
_Known = tuple[types.CodeType, tuple[Question, ...], str]
_known: dict[int, _Known] = {}
_RANDOM = ("random", "numpy.random.mtrand", "numpy.random._generator")
_READING = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_ATTR", "LOAD_METHOD", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_SUPER", "CALL")
_STARTING = ("start_new_thread", "start_joinable_thread")
_OTHER = "calls {}, whose result may be another one at each call; pass it as an argument"
_MOST = 20_000  # functions that are known
_FURTHEST = 10_000  # objects that are looked at


@contextlib.contextmanager
def noticed(outside: bool) -> Iterator[None]:
    """A block in which this thread looks at each function that starts; a profiler is told, too. `outside`: whether some code
    may call what finds something outside its arguments.
    """
    outer = sys.getprofile()
    if getattr(outer, "notices", False):
        yield
        return

    def look(frame: types.FrameType, event: str, arg: Any) -> None:
        if event == "call":
            _, found, whose = _known_of(frame)
            if found:
                _look(frame, found)
            if whose == _USERS:
                _look_at_arrays(frame)
                _look_at_handed(frame)
            elif whose == _LIBRARYS:
                module, name = frame.f_globals.get("__name__", ""), frame.f_code.co_name
                _look_outside(frame.f_back, "random" if module in _RANDOM else outside_word(module, name), name)
        elif event == "c_call" and (whose := _known_of(frame)[2]):
            if arg.__name__ in _STARTING and home_of(arg) == "_thread":
                _look_at_thread(outside)
            _look_outside(frame, word_of(arg), arg.__name__)
            if whose == _USERS:
                _look_at_opaque(frame, arg)
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


@contextlib.contextmanager
def unnoticed() -> Iterator[None]:
    """A block of symdiff's own in which nothing of the user's runs: each call of long work would be looked at."""
    look = sys.getprofile()
    notices = getattr(look, "notices", False)
    if notices:
        sys.setprofile(None)
    try:
        yield
    finally:
        if notices:
            sys.setprofile(look)


def _known_of(frame: types.FrameType) -> _Known:
    """What a function of the user's asks that is no clone, and whose it is."""
    code = frame.f_code
    known = _known.get(id(code))
    if known is None:
        if len(_known) >= _MOST:
            _known.clear()
        written = code.co_filename.startswith("<")  # by the module's own code, as mpmath's operators
        library = is_library(str(frame.f_globals.get("__file__", code.co_filename)) if written else code.co_filename)
        own = not (library or any(name.startswith(".") for name in code.co_freevars))
        whose = _USERS if own else _LIBRARYS if library and not _is_ours(frame) else ""
        known = code, questions(code, frame.f_globals) if own else (), whose
        _known[id(code)] = known
    return known


def _is_ours(frame: types.FrameType) -> bool:
    """Whether it is of symdiff's own code."""
    return str(frame.f_globals.get("__name__")).startswith("symdiff.")


def _look(frame: types.FrameType, found: tuple[Question, ...]) -> None:
    if _repeats(frame):
        told = next((q for q in found if _meets(frame, q)), None)
        if told is not None:
            _stop(frame, told.line, f"asks `{told.what}` of a traced value; ask isinstance(), or call a function instead")


def _look_at_arrays(frame: types.FrameType) -> None:
    """Code of the user's that is not followed reads captured arrays as they stand: a trace takes them as constants."""
    attempt = current()
    if attempt is None or attempt.reading is None or FOLLOWED in frame.f_globals or not frame.f_builtins:
        return  # what `namedtuple` writes has no builtins
    if _reads(frame.f_code):
        attempt.reading.needed = list(attempt.reading.captured)


def _look_at_handed(frame: types.FrameType) -> None:
    """Code of the user's that is not followed hands a function that finds something outside to what may call it unseen."""
    if _repeats(frame):
        cells = {name: value for name, value in frame.f_locals.items() if name in frame.f_code.co_freevars}
        handed = handed_outside(frame.f_code, frame.f_globals, cells)
        if handed is not None:
            _stop(frame, frame.f_lineno, _OTHER.format(getattr(handed, "__name__", handed)))


def _look_at_thread(outside: bool) -> None:
    """A thread is started, in which no calls are noticed."""
    attempt = current()
    if attempt is None:
        return
    if attempt.reading is not None:
        attempt.reading.needed = list(attempt.reading.captured)
    if outside:
        attempt.stuck = True
        if attempt.thorough:
            TraceError(
                f"{user_line()}: a thread is started, in which calls are not followed, and which may read the state of the "
                "process; pass what it gives as an argument"
            )  # noted


@functools.lru_cache(maxsize=4096)
def _reads(code: types.CodeType) -> bool:
    """Whether code reads anything beside its arguments; what `dataclass` writes does not."""
    generated = code.co_qualname.startswith("__create_fn__")
    return not generated and any(step.opname.startswith(_READING) for step in dis.get_instructions(code))


def _look_outside(frame: types.FrameType | None, word: str, name: str) -> None:
    """A function of a library is called: for code of the user's that is not followed, itself or by another library's."""
    attempt = current()
    if word == "printing" and attempt is not None:
        attempt.known.setdefault(PRINTING)
    if word in ("", "printing"):
        return
    while word in ("file", "elsewhere") and frame is not None and _known_of(frame)[2] == _LIBRARYS:
        frame = frame.f_back
    if frame is not None and _known_of(frame)[2] == _USERS and _repeats(frame):
        _stop(frame, frame.f_lineno, _OTHER.format(name))


def _look_at_opaque(frame: types.FrameType, method: Any) -> None:
    """A method of an object that nothing else tells of, which the trace may not be able to compare."""
    attempt = current()
    if attempt is not None and is_opaque_capture(method.__self__) and method.__name__ not in HOLDING:
        attempt.known[Used(method.__self__, method.__name__, Line.of(frame.f_code.co_filename, frame.f_lineno))] = None


def _repeats(frame: types.FrameType) -> bool:
    """Whether what is noticed matters: in a run that is not to be repeated already."""
    attempt = current()
    return attempt is not None and FOLLOWED not in frame.f_globals and (attempt.thorough or not attempt.stuck)


def _stop(frame: types.FrameType, line: int, what: str) -> None:
    attempt = current()
    assert attempt is not None
    attempt.stuck = True
    if attempt.thorough:
        code = frame.f_code
        place = name_unless_library(code.co_filename) or code.co_filename
        TraceError(
            f"{place}:{line}: {code.co_name} is entered by Python itself, where calls are not followed, and {what}"
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
