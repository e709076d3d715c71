"""Times of several functions in one run, each checked for the right answer first.

Assumes functions without side effects but into their own outputs. Guarantees interleaved measurements, so that a slow
moment of the machine meets all candidates. Refuses a candidate whose answer differs from the reference.
"""

import statistics
import timeit
from collections.abc import Callable
from typing import Any

import numpy as np

Candidates = dict[str, Callable[[], Any]]

LEAST = 0.02  # seconds a round lasts at least, so that the clock's own time does not count


def checked(candidates: Candidates, reference: Any, tolerance: float = 1e-9) -> None:
    """Raise `AssertionError` where a candidate's answer differs from the reference."""
    expected = _flat(reference)
    for name, call in candidates.items():
        np.testing.assert_allclose(_flat(call()), expected, tolerance, tolerance, err_msg=f"{name} gives another answer")


def _flat(answer: Any) -> Any:
    parts = answer if isinstance(answer, (list, tuple)) else [answer]
    return np.concatenate([np.ravel(part) for part in parts])


def medians(candidates: Candidates, rounds: int) -> dict[str, float]:
    """The seconds of one call of each candidate: the median of interleaved rounds, the collector off."""
    timers = {name: timeit.Timer(call) for name, call in candidates.items()}
    repeats = {name: _repeats(timer) for name, timer in timers.items()}
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(rounds):
        for name, timer in timers.items():
            times[name].append(timer.timeit(repeats[name]) / repeats[name])
    return {name: statistics.median(found) for name, found in times.items()}


def _repeats(timer: timeit.Timer) -> int:
    timer.timeit(1)
    return max(1, round(LEAST / timer.timeit(1)))


def shown(seconds: float) -> str:
    """A time as text with three digits and its unit."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def table(heads: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def compared(times: dict[str, float], reference: str) -> str:
    """A Markdown table of times, with their ratios to the reference's."""
    rows = [[name, shown(t), f"{t / times[reference]:.3f}"] for name, t in times.items()]
    return table(["", "time of a call", f"to {reference}"], rows)
