"""`accumulate`, `outer` and `reduceat` of ufuncs on traced arrays, written with the ufunc itself.

Assumes ufuncs with two operands. Guarantees NumPy's values. Refuses other ufuncs, with `TraceError`.
"""

from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from symdiff.errors import TraceError
from symdiff.tracing.values.operands import as_array, holds_traced
from symdiff.vocabulary.libraries import user_line

_RUNNING = {np.add: np.cumsum, np.multiply: np.cumprod}
_EXACT = frozenset({np.maximum, np.minimum, np.fmax, np.fmin, np.logical_and, np.logical_or})  # in any order of the operands


def accumulate(ufunc: Any, array: Any, axis: int = 0, dtype: Any = None) -> Any:
    x = as_array(array)
    axis = normalize_axis_index(axis, x.ndim)
    if ufunc in _RUNNING:
        return _RUNNING[ufunc](x, axis=axis)
    n = x.shape[axis]
    if ufunc in _EXACT:  # by doubling (Hillis and Steele's scan)
        lead = (slice(None),) * axis
        step = 1
        while step < n:
            later = ufunc(x[(*lead, slice(step, None))], x[(*lead, slice(None, n - step))])
            x = np.concatenate([x[(*lead, slice(None, step))], later], axis=axis)
            step *= 2
        return x
    lines = np.moveaxis(x, axis, 0)
    found = [lines[0]]
    for k in range(1, n):
        found.append(ufunc(found[-1], lines[k]))
    return np.stack(found, axis=axis)


def outer(ufunc: Any, a: Any, b: Any) -> Any:
    a, b = as_array(a), as_array(b)
    return ufunc(np.reshape(a, a.shape + (1,) * b.ndim), b)


def reduceat(ufunc: Any, array: Any, indices: Any, axis: int = 0, dtype: Any = None) -> Any:
    if holds_traced(indices):
        raise TraceError(f"{user_line()}: np.{ufunc.__name__}.reduceat at traced places; pass them as integers")
    x = as_array(array)
    axis = normalize_axis_index(axis, x.ndim)
    lead = (slice(None),) * axis
    n = x.shape[axis]
    starts = [int(i) for i in np.atleast_1d(indices)]
    found = []
    for start, stop in zip(starts, [*starts[1:], n], strict=True):
        part = x[(*lead, slice(start, stop if stop > start else start + 1))]
        found.append(ufunc.reduce(part, axis=axis))
    return np.stack(found, axis=axis)


METHODS = {"accumulate": accumulate, "outer": outer, "reduceat": reduceat}
