"""Linear functions of one axis, recorded as products with their matrix: transforms and filters with static parameters.

Assumes a function that is linear in its first argument. Guarantees its values up to rounding. Refuses matrices beyond `LARGEST`
cells, with `TraceError`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from symdiff.errors import TraceError
from symdiff.vocabulary.libraries import user_line

LARGEST = 16_000_000


def along(matrix: np.ndarray, x: Any, axis: int) -> Any:
    """The product of a matrix with the lines of x along an axis."""
    axis = normalize_axis_index(axis, x.ndim)
    return np.moveaxis(np.tensordot(matrix, x, axes=(1, axis)), 0, axis)


def linear_along_axis(function: Callable[[np.ndarray], np.ndarray], x: Any, axis: int, name: str) -> Any:
    """`function`, linear and acting on the first axis, of the lines of x along an axis."""
    n = x.shape[axis]
    if n * n > LARGEST:
        raise TraceError(f"{user_line()}: {name} of {n} traced cells would be a matrix of {n}x{n} numbers; use shorter lines")
    return along(np.asarray(function(np.eye(n, dtype=x.dtype.char.lower()))), x, axis)
