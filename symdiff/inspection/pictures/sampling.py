"""Where a curve is broken: poles and jumps between samples, found by bisection.

Assumes a function that takes arrays of points. Guarantees that a line through the samples that keep together crosses no jump
larger than a thousandth of the curve, and no pole. Refuses nothing: a place where the function is not finite is a break.
"""

from collections.abc import Callable

import numpy as np

HALVINGS = 24
VISIBLE = 1e-3  # of the extent of a curve


def broken_intervals(g: Callable[[np.ndarray], np.ndarray], x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Whether g, which is y at the increasing points x, is broken between each pair of neighbours.

    An interval whose chord misses g in the middle is cut in three parts; these are halved, and three neighbours kept over which
    g varies most, again and again. What is continuous varies less and less; a jump stays, and a pole grows. (Around a pole,
    where g is convex on either side, the part that holds it and its two neighbours vary more than any other three; at an end
    the neighbour that lacks is taken for like the one on the other side.)

    >>> x = np.linspace(-1, 1, 6)
    >>> broken_intervals(lambda x: 1/x, x, 1/x)
    array([False, False,  True, False, False])
    """
    extent = _extent(y)
    middle = g((x[:-1] + x[1:]) / 2)
    broken = ~(np.isfinite(y[:-1]) & np.isfinite(middle) & np.isfinite(y[1:]))
    with np.errstate(all="ignore"):
        missed = np.abs(middle - (y[:-1] + y[1:]) / 2)
        suspect = np.flatnonzero(~broken & (missed > VISIBLE * extent))
        if len(suspect):
            broken[suspect] = ~(_remaining(g, x, y, suspect) <= VISIBLE * np.maximum(extent, missed[suspect]))
    return broken


def _remaining(g: Callable[[np.ndarray], np.ndarray], x: np.ndarray, y: np.ndarray, places: np.ndarray) -> np.ndarray:
    """By how much g still varies, somewhere within each interval, when the part looked at is tiny."""
    left, right, each = x[places], x[places + 1], np.arange(len(places))
    points = np.stack([left, left + (right - left) / 3, right - (right - left) / 3, right])
    values = np.concatenate([y[None, places], g(points[1:3].ravel()).reshape(2, -1), y[None, places + 1]])
    for _ in range(HALVINGS):
        between = (points[:-1] + points[1:]) / 2
        points = _refined(points, between)
        values = _refined(values, g(between.ravel()).reshape(between.shape))
        steps = np.nan_to_num(np.abs(np.diff(values, axis=0)), nan=np.inf, posinf=np.inf)
        around = np.pad(steps, ((1, 1), (0, 0)), mode="reflect")
        start = np.clip(np.argmax(around[:-2] + steps + around[2:], axis=0) - 1, 0, 3)
        points, values = (np.stack([rows[start + k, each] for k in range(4)]) for rows in (points, values))
    return np.sum(np.abs(np.diff(values, axis=0)), axis=0)


def _refined(rows: np.ndarray, between: np.ndarray) -> np.ndarray:
    """Rows with others between them."""
    found = np.empty((7, rows.shape[1]), rows.dtype)
    found[::2], found[1::2] = rows, between
    return found


def _extent(y: np.ndarray) -> float:
    """An extent in which nine tenths of the cells lie; 0 where none is finite."""
    found = y[np.isfinite(y)]
    if not len(found):
        return 0.0
    low, high = np.quantile(found, [0.05, 0.95])
    return float(high - low) or float(np.ptp(found))
