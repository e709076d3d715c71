"""Work on points split over threads: a few that stay, made when they are first needed.

Assumes functions of compiled code that let other threads run. Guarantees that all parts are done when `run_in_threads` returns,
also in a forked child and while the interpreter shuts down.
"""

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait

from symdiff.vocabulary.locks import free_in_children, in_children

_lock = threading.RLock()
free_in_children(_lock)
_pool: ThreadPoolExecutor | None = None


def processors() -> int:
    """The processors that this process may run on."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def split(first: int, count: int, parts: int, block: int) -> list[tuple[int, int]]:
    """Ranges of nearly equal length from point `first` to `count`; the length of each but the last is a multiple of `block`.

    >>> split(1, 10, 2, 4)
    [(1, 9), (9, 10)]
    """
    length = max(-(-(count - first) // (parts * block)), 1) * block
    return [(start, min(start + length, count)) for start in range(first, count, length)] or [(first, count)]


def run_in_threads(function: Callable[[int, int], None], parts: list[tuple[int, int]]) -> None:
    """`function(start, stop)` for each part, the first one in this thread."""
    futures = []
    rest = parts[1:]
    try:
        while rest:
            futures.append(_threads().submit(function, *rest[-1]))
            rest.pop()
    except RuntimeError:  # the interpreter shuts down and starts no more threads
        pass
    for part in [parts[0], *rest]:
        function(*part)
    wait(futures)
    for future in futures:
        future.result()


def _threads() -> ThreadPoolExecutor:
    global _pool
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(max(processors() - 1, 1), thread_name_prefix="symdiff")
        return _pool


@in_children
def _forget() -> None:
    """A forked child has none of its parent's threads."""
    global _pool
    _pool = None
