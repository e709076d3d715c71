"""Who takes part: symdiff, derivatives by hand, and other packages.

Assumes a `Case`. Guarantees that each contender leaves its answers in arrays of its own kind, as fast as its documentation
allows. Refuses nothing: a contender says which cases it takes, and which package it misses.
"""

from benchmarks.contenders import arrays, by_hand, compiled_c, ours, symbols
from benchmarks.contenders.contender import HAND, OURS, PEER, Contender

ALL: tuple[Contender, ...] = (
    *ours.CONTENDERS,
    *compiled_c.CONTENDERS,
    *by_hand.CONTENDERS,
    *symbols.CONTENDERS,
    *arrays.CONTENDERS,
)

__all__ = ["ALL", "HAND", "OURS", "PEER", "Contender"]
