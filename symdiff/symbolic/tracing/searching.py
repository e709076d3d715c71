"""`np.searchsorted` and `np.digitize` of traced numbers: where they fall among sorted ones, found by conditions.

Assumes sorted numbers along one axis. Guarantees NumPy's places, those of NaN at the end included, as plain integers that
index arrays: each comparison is a condition like that of an `if`, so that paths are merged or kept. Refuses `sorter=`, with
`TraceError`.
"""

from typing import Any

import numpy as np

from symdiff.errors import TraceError
from symdiff.symbolic.tracing.tracer import Tracer


def searchsorted(origin: str, a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    """The places before which `v` keeps `a` sorted; `side` tells whether before or after equal ones."""
    if sorter is not None:
        raise TraceError(f"{origin}: np.searchsorted(sorter=...) of a traced value; sort the array first: a[sorter]")
    if side not in ("left", "right"):
        raise ValueError(f"{origin}: np.searchsorted(side={side!r}); 'left' or 'right'")
    places = list(a if isinstance(a, Tracer) else np.asarray(a).tolist())
    if np.ndim(v) == 0:
        return _place(places, v, side == "left")
    found = [_place(places, cell, side == "left") for cell in (v if isinstance(v, Tracer) else np.asarray(v)).ravel()]
    return np.array(found, dtype=np.intp).reshape(np.shape(v))


def digitize(origin: str, x: Any, bins: Any, right: bool = False) -> Any:
    """The bins of `x`, whose edges rise or fall."""
    if isinstance(bins, Tracer):
        raise TraceError(f"{origin}: np.digitize with traced edges; use np.searchsorted for edges that rise")
    edges = np.asarray(bins)
    side = "left" if right else "right"
    if edges.size and edges[-1] < edges[0]:
        return edges.size - searchsorted(origin, edges[::-1], x, side)
    return searchsorted(origin, edges, x, side)


def _place(places: list[Any], x: Any, before: bool) -> np.intp:
    low, high = 0, len(places)
    while low < high:
        middle = (low + high) // 2
        if x <= places[middle] if before else x < places[middle]:
            high = middle
        else:
            low = middle + 1
    return np.intp(low)
