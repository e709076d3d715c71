"""Where a curve is broken: poles and jumps between samples, found by bisection.

Assumes a function that takes arrays of points. Guarantees that a line through the samples that keep together crosses no jump
larger than a thousandth of the curve, and no pole. Refuses nothing: a place where the function is not finite is a break.
"""

from collections.abc import Callable

import numpy as np

HALVINGS = 24
VISIBLE = 1e-3  # of the extent of a curve
NOISE = 256.0  # roundings that are no jump
GROWTH = 8.0  # from samples to the part looked at, of a pole
WHOLE, BROKEN, POLE = 0, 1, 2


def broken_intervals(g: Callable[[np.ndarray], np.ndarray], x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """What g, which is y at the increasing points x, is between each two of them: 0 whole, 1 broken, 2 infinite somewhere.

    An interval whose chord misses g in the middle is cut in three parts; these are halved, and three neighbours kept over which
    g varies most, again and again. What is continuous varies less and less; a jump stays, and a pole grows. (Around a pole,
    where g is convex on either side, the part that holds it and its two neighbours vary more than any other three; at an end
    the neighbour that lacks is taken for like the one on the other side.)

    >>> x = np.linspace(-1, 1, 6)
    >>> broken_intervals(lambda x: 1/x, x, 1/x)
    array([0, 0, 2, 0, 0])
    """
    least = max(VISIBLE * _extent(y), NOISE * float(np.finfo(x.dtype).eps) * np.max(np.abs(y[np.isfinite(y)]), initial=0.0))
    sampled = np.stack([y[:-1], g((x[:-1] + x[1:]) / 2), y[1:]])
    found = np.where(np.isfinite(sampled).all(axis=0), WHOLE, np.where(np.isinf(sampled).any(axis=0), POLE, BROKEN))
    with np.errstate(all="ignore"):
        missed = np.abs(sampled[1] - (sampled[0] + sampled[2]) / 2)
        suspect = np.flatnonzero((found == WHOLE) & (missed > least))
        if len(suspect):
            values = _steepest(g, x, y, suspect)
            broken = ~(np.sum(np.abs(np.diff(values, axis=0)), axis=0) <= np.maximum(least, VISIBLE * missed[suspect]))
            ends, inner = np.abs(sampled[::2, suspect]), np.abs([sampled[1, suspect], *values])
            grown = np.max(inner, axis=0) > GROWTH * np.max(ends, axis=0)
            found[suspect] = np.where(broken, np.where(grown, POLE, BROKEN), WHOLE)
    return found


def _steepest(g: Callable[[np.ndarray], np.ndarray], x: np.ndarray, y: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Four values of g from a tiny part of each interval, in which g varies most."""
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
    return values


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
