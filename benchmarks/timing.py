"""Times of several functions in one run, each checked for the right answer first.

Assumes functions without side effects but into their own outputs. Guarantees interleaved measurements, so that a slow
moment of the machine meets all candidates. Refuses a candidate whose answer differs from the reference.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import calls

Candidates = dict[str, Callable[[], Any]]


def checked(candidates: Candidates, reference: Any, tolerance: float = 1e-9) -> None:
    """Raise `AssertionError` where a candidate's answer differs from the reference."""
    expected = _flat(reference)
    for name, call in candidates.items():
        np.testing.assert_allclose(_flat(call()), expected, tolerance, tolerance, err_msg=f"{name} gives another answer")


def _flat(answer: Any) -> Any:
    return calls.flat(answer if isinstance(answer, (list, tuple)) else [answer])


def times(candidates: Candidates, rounds: int) -> dict[str, float]:
    """The seconds of one call of each candidate, see `calls.times`."""
    return calls.times({name: calls.Call(call) for name, call in candidates.items()}, rounds)


def shown(seconds: float) -> str:
    """A time as text with three digits and its unit."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def table(heads: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    return "\n".join(row(cells) for cells in [heads, ["---"] * len(heads), *rows])


def row(cells: list[str]) -> str:
    """A row of a Markdown table."""
    return f"| {' | '.join(cells)} |"


def compared(times: dict[str, float], reference: str) -> str:
    """A Markdown table of times, with their ratios to the reference's."""
    rows = [[name, shown(t), f"{t / times[reference]:.3f}"] for name, t in times.items()]
    return table(["", "time of a call", f"to {reference}"], rows)
