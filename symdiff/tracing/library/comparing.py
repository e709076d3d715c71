"""NumPy's comparisons of whole arrays, and functions that round or count, on traced arrays, written with simpler functions.

Assumes an array with a traced cell among the arguments. Guarantees NumPy's truth values, as conditions that a branch may use;
a count is a floating number.
"""

from typing import Any

import numpy as np

from symdiff.tracing.values.operands import as_array


def isclose(a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Any:
    a, b = as_array(a), as_array(b)
    near = (np.abs(a - b) <= atol + rtol * np.abs(b)) & np.isfinite(b)
    found = near | (a == b)
    return found | (np.isnan(a) & np.isnan(b)) if equal_nan else found


def allclose(a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Any:
    return np.all(isclose(a, b, rtol, atol, equal_nan))


def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    a1, a2 = as_array(a1), as_array(a2)
    if a1.shape != a2.shape:
        return False
    same = a1 == a2
    return np.all(same | (np.isnan(a1) & np.isnan(a2)) if equal_nan else same)


def array_equiv(a1: Any, a2: Any) -> Any:
    return np.all(as_array(a1) == as_array(a2))


def count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return np.sum(np.where(as_array(a) != 0, 1.0, 0.0), axis=axis, keepdims=keepdims)


def fix(x: Any) -> Any:
    return np.trunc(as_array(x))


def isposinf(x: Any) -> Any:
    return as_array(x) == np.inf


def isneginf(x: Any) -> Any:
    return as_array(x) == -np.inf


def isreal(x: Any) -> Any:
    return np.imag(as_array(x)) == 0


def iscomplex(x: Any) -> Any:
    return np.imag(as_array(x)) != 0


def isin(element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *, kind: Any = None) -> Any:
    found = np.any(as_array(element)[..., None] == np.ravel(as_array(test_elements)), axis=-1)
    return ~found if invert else found


def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    return as_array(x).astype(dtype, copy=copy)


def tril_indices_from(arr: Any, k: int = 0) -> Any:
    return np.tril_indices(arr.shape[-2], k, arr.shape[-1])


def triu_indices_from(arr: Any, k: int = 0) -> Any:
    return np.triu_indices(arr.shape[-2], k, arr.shape[-1])


def diag_indices_from(arr: Any) -> Any:
    return np.diag_indices(arr.shape[0], arr.ndim)


COMPARING = (
    isclose, allclose, array_equal, array_equiv, count_nonzero, fix, isposinf, isneginf, isreal, iscomplex, isin, astype,
    tril_indices_from, triu_indices_from, diag_indices_from,
)  # fmt: skip
