"""Notices traces inside each other that would go on for ever: a function that asks for its own derivative.

Assumes that a trace stays in its thread. Guarantees that a recursion which ends, on a setting that counts down or on a value,
is left alone up to `LEVELS` traces of one function with the same settings inside each other, and `DEEPEST` of any: each level
takes more than twice as long as the one before it. Refuses, with `TraceError` at the user's line, what goes deeper.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from symdiff.errors import TraceError
from symdiff.rulebooks.rule import rule_key
from symdiff.vocabulary.libraries import user_line
from symdiff.vocabulary.locks import free_in_children, in_children
from symdiff.vocabulary.seams import TRACES
from symdiff.vocabulary.signatures import Function

LEVELS = 16
DEEPEST = 64
_LONG = 8  # levels from which on Python's own limit is reached by them rather than by the function


class Endless(BaseException):
    """Traces without an end. Not an `Exception`, so that the user's own handlers and second tries let it pass.

    `asked`: they are those of all paths; the path that is taken may end.
    """

    def __init__(self, error: TraceError) -> None:
        super().__init__(str(error))
        self.error = error
        self.asked = False


class _Nest(threading.local):
    def __init__(self) -> None:
        self.traced: list[Any] = []


_nest = _Nest()
_counting = threading.RLock()
free_in_children(_counting)


@in_children
def _count_own() -> None:
    TRACES.value = len(_nest.traced)


@contextmanager
def nested_trace(f: Function, name: str, settings: Any) -> Iterator[None]:
    """A trace of f, told apart from others by its `settings`, inside those that this thread is making."""
    own, stack = (rule_key(f), settings), _nest.traced
    if stack and (stack.count(own) >= LEVELS or len(stack) >= DEEPEST):
        raise Endless(_refusal(name))
    stack.append(own)
    with _counting:
        TRACES.value += 1
    try:
        yield
    except RecursionError:
        if len(stack) < _LONG:
            raise
        raise Endless(_refusal(name)) from None
    except Endless as endless:
        if len(stack) > 1:
            raise
        raise endless.error from None
    finally:
        with _counting:
            TRACES.value -= 1
        stack.pop()


def _refusal(name: str) -> TraceError:
    return TraceError(
        f"{user_line()}: {name} is traced while it is traced, again and again: it asks for its own derivative, and nothing "
        "ends that; let an integer argument count down to a value that is written without the derivative"
    )
