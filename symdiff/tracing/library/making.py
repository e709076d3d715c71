"""What stands for NumPy's makers of arrays, and for what SciPy writes in Python, in a trace.

Assumes arguments that may be traced. Guarantees that arrays of traced numbers are traced arrays, and, in a thorough run,
that every floating or complex array NumPy makes can take traced values. Refuses, with `TraceError`, arguments that must be
static.
"""

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np

from symdiff.errors import TraceError
from symdiff.ir.building import active_builders
from symdiff.rulebooks.book import default_rules
from symdiff.tracing.library.atoms import trace_rule_call
from symdiff.tracing.library.polynomials import PACKAGES, fit
from symdiff.tracing.state.attempt import current_keeping, given_argument, note_given
from symdiff.tracing.values.assigning import array_dtype, check_integers, copied, filled
from symdiff.tracing.values.integers import Integer, is_integer_value
from symdiff.tracing.values.kinds import ARRAY, NUMPY
from symdiff.tracing.values.layouts import in_traced_order, lying_as, traced_memory
from symdiff.tracing.values.operands import as_array, as_atom, holds_traced, takes_traced
from symdiff.tracing.values.selecting import Selected
from symdiff.tracing.values.standing import Array, replaces, stands_for
from symdiff.tracing.values.storage import View, numbers, storage_memory
from symdiff.tracing.values.tracer import Tracer, is_traced, traced_builder
from symdiff.tracing.values.truths import is_truth
from symdiff.vocabulary import structures
from symdiff.vocabulary.libraries import user_line
from symdiff.vocabulary.signatures import Arguments, Function, Keywords


def fresh_numpy_array(result: Any, args: Arguments) -> Any:
    """A new array that NumPy made as one that can take traced values; a view of what an argument holds stays as it is.

    So does an array of objects that was asked for.
    """
    if type(result) is not np.ndarray or not active_builders():
        return result
    counted, keeping = result.dtype.char not in "fdFDO", current_keeping()
    if counted and (keeping is None or not keeping.fills(result)):
        return result
    if result.dtype == object and any(map(_asks_for_objects, args)):
        return result
    if any(type(a) is np.ndarray and np.may_share_memory(a, result) for given in args for a in _held_arrays(given)):
        return result
    return filled(active_builders()[-1], result, counted)


def _held_arrays(given: Any) -> Iterable[Any]:
    """What an argument holds: itself, a list's items, the attributes of an object such as a polynomial."""
    return given if isinstance(given, (list, tuple)) else (given, *getattr(given, "__dict__", {}).values())


def _asks_for_objects(given: Any) -> bool:
    return given.dtype == object if isinstance(given, np.ndarray) else _is_objects(given)


def _is_objects(dtype: Any) -> bool:
    """Whether what is given for dtype= is that of objects."""
    return isinstance(dtype, (type, str, np.dtype)) and dtype in (object, "O", "object")


def _array(native: Function) -> Function:
    @replaces(native)
    def standing(values: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
        if not holds_traced(values):
            return native(values, dtype, *args, **kwargs)
        if isinstance(values, np.ndarray) or _is_objects(dtype):
            values = values.__array__(object, True) if isinstance(values, Tracer) else values
            return native(values, dtype, *args, **kwargs)
        if isinstance(values, Tracer):
            return _as_array(native, values, dtype, args, kwargs)
        cells = _cells(values)
        result = _stacked(values) if cells is None or not cells.size else filled(traced_builder(cells.flat), cells)
        while result.ndim < kwargs.get("ndmin", 0):
            result = result[None]
        lying_as(result, native(result._place(), None, *args, **kwargs))
        parts = structures.all_leaves(list(values))
        if dtype is None and result.dtype.kind == "f" and parts and all(is_integer_value(v) or is_truth(v) for v in parts):
            return Integer.of(result)
        if dtype is not None and np.dtype(dtype) != result.dtype:
            result = result.astype(dtype)
        return result

    return standing


def _as_array(native: Function, x: Tracer, dtype: Any, args: Arguments, kwargs: Keywords) -> Any:
    """A traced value as NumPy's maker gives it: itself, another view or a copy, as NumPy answers for its memory."""
    if isinstance(x, Selected) and native in (np.array, np.asarray) and dtype is None and not args and not kwargs:
        return x.copy() if native is np.array else x
    place = x._place()
    asked = native(place, None, *args, **kwargs)
    x = x.astype(dtype) if dtype is not None and (np.dtype(dtype) != x.dtype or x.is_of_integers()) else x
    if asked.shape != x.shape:
        x = x[(None,) * (asked.ndim - x.ndim)]
    if not x.has_memory():
        return x.of_kind(ARRAY)
    return _told(native, x, place, args, kwargs) if np.may_share_memory(asked, place) else copied(x, asked)


def _told(native: Function, x: Tracer, place: np.ndarray, args: Arguments, kwargs: Keywords) -> Tracer:
    """An array that NumPy gives itself where it lies in memory as asked: of an argument that is told when somebody asks."""
    argument = given_argument(x)
    if not isinstance(argument, (np.ndarray, Tracer)):
        return x
    apart = storage_memory(place.shape, [2 * step for step in place.strides])
    apart.flags.writeable = False
    if np.may_share_memory(native(apart, None, *args, **kwargs), apart):
        return x
    found = x.like(x.shared())
    traced = isinstance(argument, Tracer)
    note_given(found, (_as_array(native, argument, None, args, kwargs) if traced else native(argument, None, *args, **kwargs)))
    return found


@replaces(np.require)
def require(a: Any, dtype: Any = None, requirements: Any = None, **kwargs: Any) -> Any:
    if isinstance(a, np.ndarray) or not holds_traced(a):
        return np.require(a, dtype, requirements, **kwargs)
    a = a if isinstance(a, Tracer) else _array_of(a, dtype)
    if {"O", "OWNDATA"}.intersection([requirements] if isinstance(requirements, str) else requirements or ()):
        raise TraceError(
            f"{user_line()}: np.require: whether a traced array owns its memory is not known; take a copy: x.copy()"
        )
    return _as_array(lambda x, dtype, *args: np.require(x, dtype, requirements, **kwargs), a, dtype, (), {})


@replaces(np.ma.getdata)
def getdata(a: Any, subok: bool = True) -> Any:
    return a if isinstance(a, Tracer) else np.ma.getdata(a, subok)


@replaces(np.lib.stride_tricks.as_strided)
def as_strided(x: Any, shape: Any = None, strides: Any = None, subok: bool = False, writeable: bool = True) -> Any:
    if not isinstance(x, Tracer):
        return np.lib.stride_tricks.as_strided(x, shape, strides, subok, writeable)
    view, origin = x.shared(), user_line()
    steps = None if strides is None else tuple(int(n) for n in strides)
    if steps is not None and any(n % x.itemsize for n in steps):
        raise TraceError(f"{origin}: as_strided: strides {steps} that are no multiples of {x.itemsize} bytes")
    if steps is not None:
        traced_memory(x, whole=False)
        steps = tuple(n // x.itemsize for n in steps)
    found = np.lib.stride_tricks.as_strided(view.place, shape, steps, subok, writeable)
    chosen = numbers(found, view.storage.memory)
    if chosen.size and not (chosen.min() >= 0 and chosen.max() < view.storage.memory.size):
        raise TraceError(f"{origin}: as_strided: the view reaches beyond the array")
    return x.like(View(view.storage, found))


def _cells(values: Any) -> np.ndarray | None:
    """Nested lists of numbers as an array of them; None where they hold arrays."""
    if any(isinstance(v, (Tracer, np.ndarray)) and v.shape != () for v in values):
        return None
    cells = np.array(values, dtype=object)
    return None if any(isinstance(c, (Tracer, np.ndarray)) and c.shape != () for c in cells.flat) else cells


def _stacked(values: Any) -> Any:
    builder = active_builders()[-1]
    return Tracer(builder, as_atom(list(values), builder, user_line())).copy()  # type: ignore[arg-type]


def _fit(module: str, short: str) -> Function:
    """A fit of `numpy.polynomial` by the matrix of its basis."""
    functions = getattr(np.polynomial, module)
    native, traced = getattr(functions, f"{short}fit"), fit(getattr(functions, f"{short}vander"))

    @replaces(native)
    def standing(*args: Any, **kwargs: Any) -> Any:
        return (traced if takes_traced(args, kwargs) else native)(*args, **kwargs)

    return standing


@replaces(np.fromiter)
def fromiter(iter: Any, dtype: Any, count: int = -1, **kwargs: Any) -> Any:
    values = list(iter if count < 0 else itertools.islice(iter, count))
    if len(values) < count or not any(map(holds_traced, values)):
        return np.fromiter([0.0] * len(values) if len(values) < count else values, dtype, count, **kwargs)
    found = _array_of(values)
    return found if found.dtype == np.dtype(dtype) else found.astype(dtype)


@replaces(np.piecewise)
def piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kwargs: Any) -> Any:
    if not any(map(holds_traced, (x, condlist, funclist))):
        return np.piecewise(x, condlist, funclist, *args, **kwargs)
    conditions = list(condlist) if isinstance(condlist, (list, tuple)) or np.ndim(condlist) > 1 else [condlist]
    if any(np.shape(c) not in ((), np.shape(x)) for c in conditions):
        raise TraceError(f"{user_line()}: np.piecewise with conditions of other shapes than the array's; use np.select")
    values = [f(x, *args, **kwargs) if callable(f) and not is_traced(f) else f for f in funclist]
    for value in values if isinstance(x, Tracer) and x.is_of_integers() else ():
        check_integers(value)
    rest = values[len(conditions)] if len(values) > len(conditions) else 0.0
    found = np.select(conditions[::-1], values[: len(conditions)][::-1], rest)  # the last condition that holds tells
    dtype = array_dtype(x)
    found = found if found.dtype == dtype and not isinstance(found, Integer) else found.astype(dtype)
    return in_traced_order(found, (x,), copies=True) if isinstance(found, Tracer) else found


def _number_type(kind: Any) -> Function:
    @replaces(kind)
    def standing(*args: Any) -> Any:
        if not args or not isinstance(args[0], Tracer):
            return kind(*args)
        found = args[0].astype(kind)
        return found if found.shape or not isinstance(found, Tracer) else found.of_kind(NUMPY)

    return standing


def _known(value: Any) -> Any:
    return tuple(map(_known, value)) if isinstance(value, tuple) else value.decided() if isinstance(value, Integer) else value


def _decided(native: Function) -> Function:
    """A maker of arrays whose shape, and all other integers, must be known."""

    @replaces(native)
    def standing(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = tuple(map(_known, args)), {k: _known(v) for k, v in kwargs.items()}
        return _MADE.get(native, native)(*args, **kwargs)

    return standing


@replaces(np.ndarray)
def ndarray(shape: Any, dtype: Any = float, buffer: Any = None, offset: int = 0, strides: Any = None, order: Any = None) -> Any:
    if buffer is not None or offset or strides is not None:
        return np.ndarray(shape, dtype, buffer, offset, strides, order)
    return np.zeros(shape, dtype, order or "C")  # whatever there was in memory would be part of the graph


@replaces(np.full)
def _full(shape: Any, fill_value: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
    """An array of traced numbers in memory of its own, as all other arrays of them are."""
    if not holds_traced(fill_value):
        return np.full(_known(shape), fill_value, dtype, *args, **kwargs)
    value, shape = as_array(fill_value), _known(shape)
    made = np.full(
        shape, 0, value.form.whole or value.dtype if dtype is None or np.dtype(dtype) == object else dtype, *args, **kwargs
    )
    if made.dtype.kind not in "fc":
        return copied(np.broadcast_to(value.astype(made.dtype), made.shape), made)
    found = filled(value.builder, made)
    found[...] = value
    if dtype is None and value.is_of_integers():
        found.note_integers(value.integers_held())
    return found


_MADE = {np.empty: ndarray}
_array_of = _array(np.array)
for _native in (np.asarray, np.asanyarray, np.ascontiguousarray, np.asfortranarray, np.asarray_chkfinite):
    _array(_native)
for _module, _short in PACKAGES.items():
    _fit(_module, _short)
for _kind in (np.float64, np.float32, np.complex128, np.complex64, np.int64, np.int32, np.intp):
    _number_type(_kind)
for _maker in (np.arange, np.zeros, np.ones, np.empty, np.eye, np.identity):
    _decided(_maker)


# -- arrays like others


@stands_for(np.zeros_like, np.empty_like)
def zeros_like(a: Array, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None) -> Any:
    kind = a.form.whole or a.dtype
    found = filled(a.builder, np.zeros_like(a._place(), dtype or kind, order, subok, shape))  # type: ignore[call-overload]
    if dtype is None and a.is_of_integers():
        found.note_integers(a.integers_held())
    return found


@stands_for(np.full_like)
def full_like(a: Any, fill_value: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None) -> Any:
    if holds_traced(a):
        made = np.zeros_like(as_array(a), dtype, order, subok, shape)  # type: ignore[call-overload]
    else:
        made = filled(as_array(fill_value).builder, np.zeros_like(a, dtype, order, subok, shape))  # type: ignore[call-overload]
    made[...] = fill_value
    return made


@stands_for(np.ones_like)
def ones_like(a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None) -> Any:
    return full_like(a, 1, dtype, order, subok, shape)


# -- functions of SciPy's that are written in Python, by their rules


def _ruled(name: str, wide: bool = False) -> None:
    @stands_for(f"scipy.special.{name}")
    def standing(*args: Any) -> Any:
        if wide:  # SciPy's is of integers and numbers, which is double precision
            args = tuple(a.astype(float) if isinstance(a, Tracer) and a.dtype.kind == "f" else a for a in args)
        rule = default_rules().lookup("symdiff.special", name, len(args))
        if rule is None:
            raise TypeError(f"{len(args)} arguments")
        return trace_rule_call(rule, args)


_ruled("polygamma", wide=True)
_ruled("zeta")
