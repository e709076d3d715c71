"""Times of several functions in one run, each checked for the right answer first.

Assumes functions without side effects but into their own outputs. Guarantees interleaved measurements, so that a slow
moment of the machine meets all candidates. Refuses a candidate whose answer differs from the first one's.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

ROUNDS = 7


def checked(candidates: dict[str, Callable[[], Any]], rtol: float = 1e-9) -> None:
    """Raise `AssertionError` where a candidate's answer differs from the first candidate's."""
    expected: Any = None
    for name, call in candidates.items():
        found = np.asarray(call(), dtype=complex).ravel()
        expected = found if expected is None else expected
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol, err_msg=f"{name} gives another answer")


def seconds(candidates: dict[str, Callable[[], Any]], least: float = 0.02) -> dict[str, float]:
    """The time of one call of each candidate: the best of `ROUNDS` interleaved rounds of at least `least` seconds."""
    repeats = {name: _repeats(call, least) for name, call in candidates.items()}
    best = dict.fromkeys(candidates, float("inf"))
    for _ in range(ROUNDS):
        for name, call in candidates.items():
            best[name] = min(best[name], _round(call, repeats[name]))
    return best


def _repeats(call: Callable[[], Any], least: float) -> int:
    call()
    return max(1, int(least / max(_round(call, 1), 1e-9)))


def _round(call: Callable[[], Any], repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


def shown(value: float) -> str:
    """A time as text with three digits and its unit."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value:.2g} s"


def table(heads: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
