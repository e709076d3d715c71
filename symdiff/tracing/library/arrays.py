"""NumPy's functions that move, reduce and multiply cells, of traced arrays: those of atoms, under NumPy's names.

Assumes an array with a traced cell among the arguments. Guarantees NumPy's results with its `dtype=`, `initial=` and `where=`.
Refuses what these functions of atoms refuse, with `TraceError`.
"""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from symdiff.errors import TraceError
from symdiff.ir.arrays import moving, products, reducing
from symdiff.tracing.library.atoms import of_atoms
from symdiff.tracing.values.integers import Integer, is_integer_value
from symdiff.tracing.values.operands import as_array, squares
from symdiff.tracing.values.standing import Array, gives_new, stands_for
from symdiff.tracing.values.tracer import Tracer
from symdiff.vocabulary.libraries import user_line
from symdiff.vocabulary.signatures import Function

_VIEWS = frozenset(
    """reshape ravel transpose matrix_transpose permute_dims swapaxes moveaxis rollaxis squeeze expand_dims broadcast_to flip
        fliplr flipud rot90 atleast_1d atleast_2d atleast_3d diagonal diag delete""".split()
)
for _name, _bind in moving.MOVING.items():
    stands_for(getattr(np, _name), memory="view" if _name in _VIEWS else "")(of_atoms(_bind))


def _joining(name: str) -> Function:
    """What joins arrays, which NumPy converts before."""
    one = of_atoms(moving.MOVING[name])

    def stand(
        arrays: Any, axis: Any = np._NoValue, *, dtype: Any = None, casting: Literal["same_kind", "unsafe"] = "same_kind"
    ) -> Any:
        if dtype is not None:
            arrays = [as_array(v) for v in arrays]
            if not all(np.can_cast(v.dtype, dtype, casting) for v in arrays):
                raise TypeError(f"{arrays[0].dtype} is not cast to {np.dtype(dtype)} by the rule {casting!r}")
            arrays = [v.astype(dtype) for v in arrays]
        return one(arrays) if axis is np._NoValue else one(arrays, axis)

    return stand


for _name in ("concatenate", "stack", "vstack", "hstack"):
    stands_for(getattr(np, _name))(_joining(_name))
gives_new(np.linalg.cross)(of_atoms(products.bind_cross))
for _name, _bind in products.PRODUCTS.items():
    gives_new(*(getattr(m, _name) for m in (np, np.linalg) if hasattr(m, _name)))(of_atoms(_bind))
stands_for(np.linalg.matrix_transpose, memory="view")(of_atoms(moving.bind_matrix_transpose))
for _name, _fails in (("inv", "Singular matrix"), ("solve", "Singular matrix"), ("det", ""), ("multi_dot", "")):
    stands_for(getattr(np.linalg, _name), fails=_fails)(of_atoms(products.LINALG[_name]))
stands_for(np.linalg.matrix_power, memory="", fails="Singular matrix")(of_atoms(products.bind_matrix_power))
for _function in (np.sort, np.partition):
    gives_new(_function)(of_atoms(reducing.REDUCING[_function.__name__]))
stands_for(np.linalg.vector_norm)(of_atoms(reducing.bind_vector_norm))
for _name in ("logsumexp", "softmax", "log_softmax"):
    stands_for(f"symdiff.special.{_name}", f"scipy.special.{_name}")(of_atoms(reducing.REDUCING[_name]))
_cross, _average = of_atoms(products.bind_cross), of_atoms(reducing.bind_average)
_slogdet, _diagonal = of_atoms(products.bind_slogdet), of_atoms(moving.bind_diagonal)


@gives_new(np.cross)
def cross(a: Array, b: Array, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Any:
    axisa, axisb, axisc = (axisa, axisb, axisc) if axis is None else (axis,) * 3
    return np.moveaxis(_cross(np.moveaxis(a, axisa, -1), np.moveaxis(b, axisb, -1)), -1, axisc)


@gives_new(np.average)
def average(a: Array, axis: Any = None, weights: Array = None, returned: bool = False, *, keepdims: bool = False) -> Any:
    found = _average(a, axis, weights, keepdims)
    if not returned:
        return found
    kind = found.dtype
    if weights is None:
        return found, np.full(found.shape, a.size / max(found.size, 1), dtype=kind)
    total = np.sum(weights, axis=axis, keepdims=keepdims) if weights.shape == a.shape else np.sum(weights)
    return found, np.broadcast_to(total.astype(kind), found.shape).copy()


@stands_for(np.linalg.slogdet)
def slogdet(a: Any) -> Any:
    return type(np.linalg.slogdet(np.eye(1)))(*_slogdet(a))


@stands_for(np.linalg.diagonal, memory="view")
def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    return _diagonal(x, offset, -2, -1)


@gives_new(np.trace)
def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Any:
    return np.sum(_diagonal(a, offset, axis1, axis2), axis=-1, dtype=dtype)


@stands_for(np.linalg.trace)
def trace_of_last(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    return trace(x, offset, -2, -1, dtype)


# -- reductions


def typed(a: Any, dtype: Any) -> Any:
    x = as_array(a)
    return x if dtype is None else x.astype(dtype)


_OF_TRUTHS = {"sum": np.any, "prod": np.all}


def _reduction(name: str, nothing: Any, join: Callable[[Any, Any], Any] | None) -> Function:
    """A reduction; cells that do not count are what changes nothing in it."""
    one = of_atoms(reducing.REDUCING[name])

    def stand(
        a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False, initial: Any = None, where: Any = True
    ) -> Any:
        if dtype is not None and np.dtype(dtype) == np.bool_ and name in _OF_TRUTHS:
            return _OF_TRUTHS[name](a, axis=axis, keepdims=keepdims, where=where)
        x = typed(a, dtype)
        whole = name in _OF_TRUTHS and x.dtype == np.bool_
        integral = whole or is_integer_value(x) or (isinstance(x, Tracer) and x.is_of_integers())
        x = x if where is True else np.where(where, x, nothing)
        if initial is not None and join is not None and not x.size:
            found = getattr(np, name)(np.empty(x.shape, x.dtype), axis=axis, keepdims=keepdims, initial=nothing)
            return join(typed(initial, int if integral else x.dtype), found)
        found = one(x, None if not x.ndim and axis in (0, -1) else axis, keepdims)
        found = Integer.of(found * 1) if whole else found  # of a single truth there is nothing to add
        if initial is None or join is None:
            return found
        return join(typed(initial, int if integral else as_array(found).dtype), found)

    return stand


for _name, _nothing, _join in (
    ("sum", 0, np.add), ("prod", 1, np.multiply), ("max", -np.inf, np.maximum), ("min", np.inf, np.minimum),
    ("amax", -np.inf, np.maximum), ("amin", np.inf, np.minimum), ("any", False, None), ("all", True, None),
):  # fmt: skip
    gives_new(getattr(np, _name))(_reduction(_name, _nothing, _join))
_mean, _var, _ptp = (of_atoms(reducing.REDUCING[name]) for name in ("mean", "var", "ptp"))


def _counted(x: Any, where: Any, axis: Any, keepdims: bool) -> Any:
    """How many cells count."""
    return np.sum(np.where(np.broadcast_to(where, x.shape), 1.0, 0.0).astype(x.real.dtype), axis=axis, keepdims=keepdims)


@gives_new(np.mean)
def mean(a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False, *, where: Any = True) -> Any:
    x = typed(a, dtype)
    axis = None if not x.ndim and axis in (0, -1) else axis
    if where is True:
        return typed(_mean(x, axis, keepdims), dtype)
    return np.sum(x, axis=axis, keepdims=keepdims, where=where) / _counted(x, where, axis, keepdims)


def _spread(root: bool) -> Function:
    """The variance, or its root."""

    def stand(a: Any, axis: Any = None, dtype: Any = None, ddof: Any = 0, keepdims: bool = False, *, where: Any = True,
              mean: Any = None, correction: Any = None) -> Any:  # fmt: skip
        if dtype is not None and np.dtype(dtype).kind not in "fc":
            raise TraceError(f"{user_line()}: a variance in {np.dtype(dtype)}, whose steps NumPy rounds; leave dtype= away")
        x, ddof = typed(a, dtype), ddof if correction is None else correction
        if where is True and mean is None:
            found = typed(_var(x, axis, ddof, keepdims), dtype)
            return np.sqrt(found) if root else found
        away = x - (np.mean(x, axis=axis, keepdims=True, where=where) if mean is None else mean)
        squared, count = squares(away), _counted(x, where, axis, keepdims)
        found = np.sum(squared, axis=axis, keepdims=keepdims, where=where) / np.maximum(count - ddof, 1 - ddof % 1)
        found = np.sqrt(found) if root else found  # of a positive multiple of a sum of squares
        return typed(np.where(count > ddof, found, found / 0.0), dtype)

    return stand


gives_new(np.var)(_spread(False))
gives_new(np.std)(_spread(True))


@gives_new(np.ptp)
def ptp(a: Array, axis: Any = None, keepdims: bool = False) -> Any:
    return _ptp(np.atleast_1d(a), axis, keepdims)


def _running(bind: Function) -> Function:
    one = of_atoms(bind)

    def stand(a: Any, axis: int | None = None, dtype: Any = None) -> Any:
        x = np.atleast_1d(typed(a, dtype))
        if dtype is not None and x.dtype == np.bool_:
            name = "logical_or" if bind is reducing.bind_cumsum else "logical_and"
            return getattr(np, name).accumulate(np.ravel(x) if axis is None else x, axis=axis or 0)
        found = one(x, axis)
        return Integer.of(found) if x.dtype == np.bool_ else found

    return stand


gives_new(np.cumsum)(_running(reducing.bind_cumsum))
gives_new(np.cumprod)(_running(reducing.bind_cumprod))
