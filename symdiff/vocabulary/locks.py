"""What the child of a fork must not take over: the threads that hold locks, and what else is under way, are not in it.

Assumes that what a lock guards is whole whenever other threads run. Guarantees that a lock stays held in a child where the
thread that forks held it.
"""

import os
import weakref
from collections.abc import Callable
from typing import Any

_locks: "weakref.WeakSet[Any]" = weakref.WeakSet()
free_in_children = _locks.add  # an `RLock`


def in_children(what: Callable[[], None]) -> None:
    """Call `what` in each child of a fork, before anything else runs there."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=what)


@in_children
def _free() -> None:
    for lock in _locks:
        if lock.acquire(blocking=False):
            lock.release()
        else:
            lock._at_fork_reinit()
