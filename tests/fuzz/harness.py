"""Runs trials of families of random programs, each from its seed alone, and tells what became of them.

A trial that ends is right or refused by an error of ours. One that raises anything else, gives another value than the plain
function, never ends, or takes its process along, is a bug.
"""

import contextlib
import importlib
import pkgutil
import random
import signal
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from . import families

SECONDS = 60  # of the processor that one trial may take


class Verdict(NamedTuple):
    """What became of a program: "right", "refused" or "wrong", and why."""

    kind: str
    why: str = ""


RIGHT = Verdict("right")


class TooLong(KeyboardInterrupt):
    """A trial has no end; nothing between catches it."""


class Wrong(Exception):
    """A program and how symdiff's answer differs from the plain function's."""


def names() -> list[str]:
    """The families there are."""
    return sorted(module.name for module in pkgutil.iter_modules(families.__path__))


def family(name: str) -> Callable[[random.Random], Verdict]:
    """The function that makes and runs one program of a family."""
    return importlib.import_module(f"{families.__name__}.{name}").trial


def run(name: str, seed: int) -> Verdict:
    """The trial of a family with this seed."""
    try:
        with limited(SECONDS), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return family(name)(random.Random(f"{name} {seed}"))
    except (Exception, TooLong) as error:
        shown = str(error) if isinstance(error, Wrong) else "".join(traceback.format_exception(error))
        return Verdict("wrong", shown)


@contextlib.contextmanager
def limited(seconds: int) -> Iterator[None]:
    """Raise `TooLong` in a block that takes longer, where the platform has alarms."""
    if not hasattr(signal, "setitimer"):
        yield
        return

    def ring(*_: Any) -> None:
        raise TooLong(f"no end after {seconds} s")

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
