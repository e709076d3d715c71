"""Rows as Markdown.

Assumes rows of one run. Guarantees a summary line for each case and a table for each problem, with the ratios that count.
Refuses nothing.
"""

from collections.abc import Sequence
from itertools import groupby

from benchmarks.contenders import HAND, OURS, PEER
from benchmarks.measuring import Row
from benchmarks.timing import shown as stated
from benchmarks.timing import table

DIRECT = "C by hand, direct call"


def shown(seconds: float | None) -> str:
    """A time as text, empty where there is none."""
    return "" if seconds is None else stated(seconds)


def quotient(a: float | None, b: float | None) -> str:
    """A ratio as text, empty where one of the two is missing."""
    if a is None or b is None:
        return ""
    ratio = a / b
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"


def least(rows: Sequence[Row], side: str) -> Row | None:
    """The fastest row of a side."""
    return min((r for r in rows if r.contender.side == side), key=lambda r: r.derivative, default=None)


def direct_c(rows: Sequence[Row]) -> float | None:
    """The time of C behind a direct call."""
    return next((r.derivative for r in rows if r.contender.label == DIRECT), None)


def summary(cases: Sequence[Sequence[Row]]) -> str:
    """A line for each case: symdiff's fastest door, the best peer, and C behind a direct call."""
    heads = ["problem", "n", "asked for", "symdiff", "best peer", "", "to best peer", "to C", "to NumPy by hand"]
    lines = []
    for rows in cases:
        ours, peer = least(rows, OURS), least(rows, PEER)
        by_hand = next((r.derivative for r in rows if r.contender.side == HAND and "NumPy" in r.contender.label), None)
        mine = None if ours is None else ours.derivative
        other = None if peer is None else peer.derivative
        case = rows[0].case
        lines.append([
            case.name, f"{case.n:,}", case.asks, shown(mine), "" if peer is None else peer.contender.label, shown(other),
            quotient(mine, other), quotient(mine, direct_c(rows)), quotient(mine, by_hand),
        ])  # fmt: skip
    return table(heads, lines)


def problems(cases: Sequence[Sequence[Row]]) -> str:
    """A table for each problem: a row for each size and contender."""
    parts = []
    for name, group in groupby(cases, key=lambda rows: rows[0].case.name):
        sized = list(group)
        lines = [line for rows in sized for line in _lines(rows)]
        asks = sized[0][0].case.asks
        heads = ["n", "contender", "f", asks, "ratio", "to best peer", "to C", "one-off"]
        parts.append(f"### {name}\n\n{table(heads, lines)}")
    return "\n\n".join(parts)


def _lines(rows: Sequence[Row]) -> list[list[str]]:
    peer = least(rows, PEER)
    best, c = None if peer is None else peer.derivative, direct_c(rows)
    return [
        [
            f"{row.case.n:,}",
            row.contender.label,
            *(shown(seconds) for seconds in (row.value, row.derivative)),
            *(quotient(row.derivative, other) for other in (row.value, best, c)),
            shown(row.once),
        ]
        for row in rows
    ]
