"""NumPy's ufuncs and functions on tracers: elementwise ones by their rule's row, array ones on arrays of cells.

Assumes the protocols `__array_ufunc__` and `__array_function__`. Guarantees NumPy's shapes. Refuses, with `TraceError`,
functions it does not know, `where=` and `dtype=`, naming the user's line.
"""

import contextlib
import functools
import inspect
import sys
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from symdiff.errors import TraceError
from symdiff.ir.arrays.algebra import Arrays
from symdiff.ir.arrays.indexing import bind_item, is_basic, view_key
from symdiff.ir.arrays.products import bind_hermitian
from symdiff.ir.building import array_atom
from symdiff.rulebooks.book import default_rules, functions_without_rule
from symdiff.tracing.library.atoms import trace_rule_call
from symdiff.tracing.state.attempt import awaits, need_contents, note_stuck
from symdiff.tracing.state.raising import check_awaited_floating, is_awaited
from symdiff.tracing.values.answers import Call, check_answer, check_call, check_written
from symdiff.tracing.values.assigning import compute_untraced, untraced
from symdiff.tracing.values.flat import Flat
from symdiff.tracing.values.integers import Integer, by_zero
from symdiff.tracing.values.kinds import ARRAY, NUMPY, refuse_integers, resulting, traced_sample, unheard
from symdiff.tracing.values.layouts import has_traced_order, in_traced_order, lying_as
from symdiff.tracing.values.operands import as_array
from symdiff.tracing.values.operations import narrow_traced, record
from symdiff.tracing.values.selecting import Selected
from symdiff.tracing.values.standing import STANDING, Row, call_standing, name_of, way_out
from symdiff.tracing.values.storage import Storage, View, root_of, storage_cells, storage_memory
from symdiff.tracing.values.stretches import Stretch, as_it_is
from symdiff.tracing.values.traced_keys import is_traced_key, read, traced_key_parts, written_where
from symdiff.tracing.values.tracer import (
    ARITHMETIC,
    Tracer,
    function_called,
    item_of,
    traced_atom,
    traced_builder,
    ufunc_called,
)
from symdiff.tracing.values.truths import is_truth
from symdiff.vocabulary import structures
from symdiff.vocabulary.libraries import user_line
from symdiff.vocabulary.ops import OPS
from symdiff.vocabulary.plain import check_plain
from symdiff.vocabulary.signatures import Arguments, Function, Keywords, Lookup

_OP_OF_UFUNC: dict[Any, str] = {}
for _op in OPS.values():
    _function = getattr(np, _op.numpy, None) if _op.numpy else None
    if isinstance(_function, np.ufunc) and _op.item is None:
        _OP_OF_UFUNC[_function] = _op.name
_BITWISE = {"bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor", "invert": "not", "left_shift": "lshift",
            "right_shift": "rshift"}  # fmt: skip
_TRUTHFUL = {"add": "add", "sub": "sub", "mul": "mul", "neg": "neg"}  # what NumPy does otherwise to truths
_REDUCTIONS: dict[Any, Function] = {
    np.add: np.sum, np.multiply: np.prod, np.maximum: np.max, np.minimum: np.min,
}  # fmt: skip


@ufunc_called.written
def call_ufunc(ufunc: Any, method: str, inputs: Arguments, kwargs: Keywords, origin: str) -> Any:
    """`ufunc(*inputs)` recorded."""
    name = ufunc.__name__
    check_plain(origin, *inputs, *(kwargs.get("out") or ()))
    if method == "at":
        return _applied_at(ufunc, inputs)
    out = kwargs.pop("out", None)
    if out is not None:
        return _written(getattr(ufunc, method), inputs, kwargs, out)
    if all(untraced(v) is not None for v in (*inputs, kwargs.get("where"))):
        return compute_untraced(getattr(ufunc, method), inputs, kwargs)
    if method == "reduce" and ufunc in _REDUCTIONS:
        kwargs = {k: v for k, v in kwargs.items() if (v is not None or k == "axis") and not (k == "keepdims" and v is False)}
        return call_library_function(_REDUCTIONS[ufunc], inputs, {"axis": 0, **kwargs}, origin)
    row = STANDING.get(f"ufunc.{method}")
    if row is not None and ufunc.nin == 2 and ufunc.nout == 1:
        row = row._replace(name=f"np.{name}.{method}")
        found = call_standing(f"ufunc.{method}", row, (ufunc, *inputs), kwargs)
        found = check_answer(getattr(ufunc, method), f"np.{name}.{method}", inputs, kwargs, found)
        found = _alone([v for v in inputs if isinstance(v, Tracer)], found)
        asks = any(map(has_traced_order, (*inputs, found)))
        return turned(Call.of(getattr(ufunc, method), inputs, kwargs), found) if asks else found
    if method != "__call__":
        raise TraceError(f"{origin}: np.{name}.{method} of a traced value is not supported; write it with np.sum or a loop")
    kwargs = {k: v for k, v in kwargs.items() if v is not _DEFAULTS.get(k, _DEFAULTS)}
    if kwargs:
        raise TraceError(f"{origin}: np.{name}({', '.join(kwargs)}=...) of a traced value; use np.where and x.astype")
    if ufunc in STANDING:
        return call_library_function(ufunc, inputs, {}, origin)
    special = getattr(np, name, None) is not ufunc and _is_scipy(ufunc)
    op = _OP_OF_UFUNC.get(ufunc)
    if any(map(is_truth, inputs)):
        inputs = tuple(v.settled() if isinstance(v, Tracer) else v for v in inputs)
    if name in _BITWISE or (op in _TRUTHFUL and all(map(is_truth, inputs))):
        bare = [v.of_kind(NUMPY) if isinstance(v, Tracer) and not v.shape else v for v in inputs]
        of = next(v for v in bare if isinstance(v, Tracer))  # NumPy's own operators would come back here
        sign = _BITWISE.get(name) or _TRUTHFUL[op]
        return of._unary(sign) if len(bare) == 1 else of._binary(sign, *bare)
    if all(map(is_truth, inputs)) and _is_rough(ufunc):
        raise TraceError(f"{origin}: np.{name} of truths, which NumPy computes in half precision; write x.astype(float) first")
    if op is not None:
        builder = traced_builder(inputs)
        rounds = op in ARITHMETIC and not any(getattr(value, "whole", False) for value in inputs)
        operands = tuple(traced_atom(value, builder, origin, rounds) for value in inputs)
        made = record(builder, op, narrow_traced(builder, operands, *inputs), origin, inputs)
        return _checked(ufunc, inputs, Tracer(builder, made))
    if ufunc.nin > 1 and any(isinstance(v, Tracer) and v.kind.python for v in inputs):
        builder = traced_builder(inputs)
        operands = narrow_traced(builder, tuple(traced_atom(v, builder, origin) for v in inputs), *inputs)
        inputs = tuple(
            v.like(o) if isinstance(v, Tracer) and v.kind.python else v for v, o in zip(inputs, operands, strict=True)
        )
    book = default_rules()
    module = "scipy.special" if special else "numpy"
    if ufunc.nout > 1:
        parts = [book.lookup(module, f"{name}[{k}]", len(inputs)) for k in range(ufunc.nout)]
        if all(part is not None for part in parts):
            found = tuple(in_traced_order(trace_rule_call(part, inputs), inputs) for part in parts)
            return check_answer(ufunc, f"np.{name}", inputs, {}, found)
    rule = book.lookup(module, name, len(inputs))
    if ufunc is np.reciprocal and (inputs[0].whole or inputs[0].is_of_integers()):
        refuse_integers("np.reciprocal of")
    if rule is None:
        reason = functions_without_rule().get((module, name), "no rule; sd.diffrule adds one")
        raise TraceError(f"{origin}: {'special' if special else 'np'}.{name} has no derivative: {reason}")
    return _checked(ufunc, inputs, trace_rule_call(rule, inputs))


def _checked(ufunc: np.ufunc, inputs: Arguments, found: Any) -> Any:
    """A result of NumPy's in its order in memory, where NumPy raises no floating error."""
    name = ufunc.__name__
    found = by_zero(name, NUMPY, inputs[-1], check_answer(ufunc, f"np.{name}", inputs, {}, found))
    if awaits():
        check_awaited_floating(name, inputs, found)
    return in_traced_order(found, inputs)


@functools.cache
def _is_rough(ufunc: np.ufunc) -> bool:
    """Whether a function of truths gives numbers of less than double precision."""
    found = ufunc.resolve_dtypes((np.dtype(bool),) * ufunc.nin + (None,) * ufunc.nout)  # type: ignore[arg-type]
    return any(dtype.char in "ef" for dtype in found)


_DEFAULTS = {"where": True, "dtype": None, "casting": "same_kind", "order": "K", "subok": True}


def _written(function: Any, args: Arguments, kwargs: Keywords, out: Any) -> Any:
    """`function(*args, out=out, **kwargs)`; with `where=`, cells of `out` for which it does not hold stay."""
    each = isinstance(getattr(function, "__self__", function), np.ufunc) and function.__name__ != "reduce"
    where = kwargs.pop("where", True) if each else True
    name = getattr(getattr(function, "__self__", None) or function, "__name__", "function")
    outs = out if isinstance(out, tuple) else (out,)
    if any(o is not None and not isinstance(o, Tracer) and o.dtype != object for o in outs):
        note_stuck()
        raise TraceError(
            f"{user_line()}: np.{name} writes a traced value into an existing array; use `y = y + x` instead of `y += x`, "
            "and leave out= away"
        )
    if all(o is None or isinstance(o, Tracer) for o in outs):  # arrays of objects are read-only
        if name.startswith(("cum", "nancum")) and not np.ndim(args[0]):  # which ends the process in NumPy 2
            raise TraceError(f"{user_line()}: np.{name} of an array without axes with out=; leave out= away")
        check_written(function, f"np.{name}", args, kwargs, out)
        if not (function.__name__ == "__call__" and function.__self__.signature is None):
            _check_overlap(function, args, {**kwargs, "out": out}, f"{user_line()}: np.{name}")
    results = function(*args, **kwargs)
    shape = np.broadcast_shapes(*(o.shape for o in outs if o is not None))
    if len(outs) > 1 and outs[0] is not None and outs[1] is not None and _overlap(*outs[:2]):
        raise TraceError(f"{user_line()}: np.{name}: the arrays of out= share memory; give each one of its own")
    found = []
    for target, result in zip(outs, results if isinstance(results, tuple) else (results,), strict=False):
        if target is None:
            if where is not True:
                raise TraceError(f"{user_line()}: np.{name}(where=...) leaves cells open; give out=, or use np.where")
            found.append(result if np.shape(result) == shape else np.broadcast_to(result, shape).copy())
            continue
        if function.__name__ in _CUMULATIVE and target.shape != np.shape(result):
            raise TraceError(f"{user_line()}: np.{name}: out= has shape {target.shape}, the result {np.shape(result)}")
        result = result if where is True else written_where(where, result, target)
        target[...] = result.__array__(copy=True) if isinstance(target, np.ndarray) and isinstance(result, Tracer) else result
        found.append(target)
    return tuple(found) if isinstance(results, tuple) else found[0]


def _check_overlap(function: Any, args: Arguments, kwargs: Keywords, name: str) -> None:
    """Refuse arrays of `out=` that NumPy writes to before it has read them as arguments: it is asked, with cells of numbers."""
    held: dict[int, np.ndarray] = {}

    def shown(value: Any) -> Any:
        if not isinstance(value, Tracer) or value.held is None:
            return value if not isinstance(value, Tracer) else traced_sample(value.form)
        view, dtype = value.held, np.dtype(value.form.whole or value.dtype.char)
        size = view.storage.memory.size
        memory = held.setdefault(id(view.storage), (1 + np.cos(1.3 * np.arange(size) ** 2)).astype(dtype))
        steps = [step * dtype.itemsize for step in view.place.strides]
        return np.lib.stride_tricks.as_strided(memory[view.first() :], view.place.shape, steps)

    together = structures.map_leaves(shown, (args, kwargs))
    outs = structures.leaves(together[1]["out"])
    if not any(isinstance(a, np.ndarray) and np.shares_memory(a, o) for a in structures.leaves(together[0]) for o in outs):
        return
    apart = structures.map_leaves(lambda v: v.copy() if isinstance(v, np.ndarray) else v, together)
    for args, kwargs in (together, apart):
        with unheard():
            function(*args, **kwargs)
    if any(not np.array_equal(a, b, equal_nan=True) for a, b in zip(outs, structures.leaves(apart[1]["out"]), strict=True)):
        raise TraceError(
            f"{name}: NumPy writes to out= before it has read what shares its memory; give out= an array of its own"
        )


_CUMULATIVE = frozenset("accumulate reduceat cumsum cumprod nancumsum nancumprod".split())  # which write into some of the cells


def _overlap(x: Any, y: Any) -> bool:
    if isinstance(x, Tracer) and isinstance(y, Tracer):
        return x.shared().overlaps(y.shared())
    return type(x) is type(y) and np.shares_memory(x, y)


def _applied_at(ufunc: Any, inputs: Arguments) -> None:
    """`ufunc.at(y, index, values)`: cell by cell, so that an index may occur twice."""
    target, index, *values = inputs
    values = [v.copy() if isinstance(v, Tracer) else v for v in values]  # for they may be cells of the target, as places may
    if not isinstance(target, Tracer):
        note_stuck()
        raise TraceError(
            f"{user_line()}: np.{ufunc.__name__}.at writes a traced value into an array made elsewhere; copy it first"
        )
    target = target.settled()
    if is_traced_key(index):
        _applied_at_traced(ufunc, target, index, values)
        return
    cells = np.arange(target.size).reshape(target.shape)[index]
    given = [np.broadcast_to(v, cells.shape) for v in values]
    for place in np.ndindex(cells.shape):
        cell = tuple(int(i) for i in np.unravel_index(cells[place], target.shape))
        target[cell] = ufunc(target[cell], *(v[place] if place else v for v in given))


def _applied_at_traced(ufunc: Any, target: Tracer, index: Any, values: list[Any]) -> None:
    """`ufunc.at` at traced places, one after the other."""
    parts = [as_it_is(p) for p in traced_key_parts(index)]
    shape = np.broadcast_shapes(*map(np.shape, parts))
    spread = [np.broadcast_to(p, shape) for p in parts]
    given = [np.broadcast_to(v, shape + target.shape[len(spread) :]) for v in values]
    for place in np.ndindex(shape):
        cell = tuple(Integer.of(p[place]) if isinstance(p, Tracer) else int(p[place]) for p in spread)
        target[cell] = ufunc(target[cell], *(v[place] for v in given))


def _is_scipy(ufunc: Any) -> bool:
    special = sys.modules.get("scipy.special")
    return special is not None and getattr(special, ufunc.__name__, None) is ufunc


@function_called.written
def call_library_function(function: Any, args: Arguments, kwargs: Keywords, origin: str) -> Any:
    """`function(*args, **kwargs)` recorded."""
    row, call = STANDING.get(function, _UNKNOWN_ROW), Call.of(function, args, kwargs)
    leaves, traced = call.leaves, call.traced
    check_plain(origin, *leaves)
    if any(isinstance(leaf, Flat) for leaf in leaves):
        cells = structures.map_leaves(lambda v: v.cells() if isinstance(v, Flat) else v, (args, kwargs))
        return call_library_function(function, *cells, origin)
    selected = next((leaf for leaf in leaves if isinstance(leaf, (Selected, Stretch))), None)
    if selected is not None:  # where NumPy was not asked first
        return selected.__array_function__(function, (), args, kwargs)
    out = _out_of(function, args, kwargs)
    if out is not None:
        args, kwargs, target = out
        return _written(function, args, kwargs, target)
    if not minds_memory(function) and all(leaf is None or untraced(leaf) is not None for leaf in leaves):
        known = compute_untraced(function, args, kwargs)
        if known is not None:
            return known
    if getattr(function, "__module__", None) == "numpy.linalg":
        _once(traced)
    if function in _EACH and len(args) > 1:
        return tuple(function(a) for a in args)
    integers = any(leaf.whole or leaf.is_of_integers() for leaf in traced)
    if row.memory == "view" and not (function is np.einsum and sum(isinstance(v, (Tracer, np.ndarray)) for v in leaves) > 1):
        found = _viewed(call, args, kwargs)
        return check_call(call, name_of(function), found) if integers else found
    if args and row.fails and is_awaited(np.linalg.LinAlgError):
        args = (_factored(function, args, kwargs), *args[1:])
    found = _recorded(function, args, kwargs)
    if row.memory == "itself" and (found is None or not integers):
        return found
    found = check_call(call, name_of(function), found)
    if row.memory == "itself":
        return found
    found = _of_their_kinds(call, _each(functools.partial(_alone, traced), found))
    if row.memory != "own" and not any(map(callable, leaves)):
        found = _perhaps_viewed(call, found)
    made = structures.all_leaves(found)
    asks = row.memory == "view" or any(map(has_traced_order, (*leaves, *made)))
    return turned(call, found) if asks else found


def _each(function: Lookup, found: Any) -> Any:
    """A result, or each part of one."""
    return function(found) if isinstance(found, Tracer) else structures.map_leaves(function, found)


def _of_their_kinds(call: Call, found: Any) -> Any:
    """Single results of the kinds that NumPy gives: one of Python's truths, its own scalars, arrays of shape ()."""
    if isinstance(found, Tracer) and found.shape:
        return found
    results, shape = structures.flatten(found, none_is_leaf=True)
    if not any(isinstance(v, Tracer) and v.shape == () and not isinstance(v, (Selected, Stretch)) for v in results):
        return found
    places = [k for k, leaf in enumerate(call.leaves) if isinstance(leaf, Tracer)]
    rest = tuple(_told(v) for k, v in enumerate(call.leaves) if k not in places)

    def asked(number: int, *samples: Any) -> Any:
        given = iter(samples)
        return structures.all_leaves(call.shown(lambda _: next(given)))[number]

    for k, value in enumerate(results):
        if isinstance(value, Tracer) and value.shape == ():
            key = call.function, str(call.tree), tuple(places), rest, k
            form = resulting(key, functools.partial(asked, k), tuple(leaf.form for leaf in call.traced))
            if form is not None and form.kind != value.kind:
                value = value.of_kind(form.kind)
            results[k] = Integer.of(value) if form is not None and form.whole else value
    return structures.unflatten(shape, results)


def _told(value: Any) -> Any:
    """What of a plain argument the kind of a result may depend on."""
    if isinstance(value, np.ndarray):
        return value.dtype.char, value.shape
    return type(value), value if isinstance(value, Hashable) else repr(value)


def _factored(function: Any, args: Arguments, kwargs: Keywords) -> Any:
    """The matrices, where none makes NumPy raise; those that would, on other paths, are the identity there."""
    x = as_array(args[0])
    if x.ndim < 2 or x.shape[-1] != x.shape[-2] or (function is np.linalg.matrix_power and args[1] >= 0):
        return x
    if function is np.linalg.cholesky:
        upper = kwargs.get("upper", False)
        arrays = Arrays(x.builder, user_line())
        lower = bind_hermitian(arrays, arrays.mirrored(x.atom) if upper else x.atom)
        fails = Tracer(x.builder, arrays.bind("is_definite", lower)) == 0
    elif function in (np.linalg.eig, np.linalg.eigvals):
        fails = np.logical_not(np.all(np.isfinite(x), axis=(-2, -1)))
    else:
        fails = np.linalg.slogdet(x)[0] == 0  # a pivot is zero
    if np.any(fails) if fails.shape else fails:
        raise np.linalg.LinAlgError(STANDING[function].fails)
    return np.where(fails[..., None, None] if fails.shape else fails, np.eye(x.shape[-1], dtype=x.dtype), x)


def _alone(given: list[Tracer], found: Any) -> Any:
    """A result in memory of its own."""
    if not isinstance(found, Tracer):
        return found
    storage = None if found.held is None else found.held.storage
    shares = any(found is x or (x.held is not None and x.held.storage is storage) for x in given)
    return found.copy() if shares else found


def _perhaps_viewed(call: Call, found: Any) -> Any:
    """A result that NumPy has in memory of its own, but for some arguments: `np.polyder(p, 0)` is p itself."""
    if not any(isinstance(f, Tracer) and f.shape for f in structures.all_leaves(found)):
        return found
    try:
        asked, arrays = _asked(call)
    except Exception:  # of zeros, where the function takes other numbers
        return structures.map_leaves(lambda f: _locked(f, _UNASKED) if isinstance(f, Tracer) and f.shape else f, found)
    shares = [isinstance(m, np.ndarray) and any(_shares(m, x) for x in arrays) for m in structures.leaves(asked)]
    if not any(shares):
        return found
    if isinstance(asked, np.ndarray):
        return _as_asked(found, asked, arrays)
    return type(found)(_as_asked(f, p, arrays) for f, p in zip(found, asked, strict=True))


def _locked(found: Tracer, why: str) -> Tracer:
    """An array that is not assigned to."""
    return Tracer.showing(found.builder, View.over(Storage(found.builder, found.atom, found.dtype.char, why)), found.dtype)  # type: ignore[no-any-return]


def turned(call: Call, found: Any) -> Any:
    """Arrays made of others whose cells lie in another order in memory than their own: NumPy tells how their cells lie."""
    roots = [root_of(v.held.storage) for v in call.traced if v.held is not None]
    results, tree = structures.flatten(found, none_is_leaf=True)

    def is_new(made: Any) -> bool:
        if not isinstance(made, Tracer) or made.ndim < 2:
            return False
        return made.held is None or not (any(map(callable, call.leaves)) or root_of(made.held.storage) in roots)

    if not any(map(is_new, results)):
        return found
    asked = structures.all_leaves(asked_with_zeros(call))
    for k, made in enumerate(results):
        if is_new(made):
            place = asked[k] if len(asked) == len(results) else None
            same = isinstance(place, np.ndarray) and place.shape == made.shape
            results[k] = lying_as(made, place) if same else _locked(made, _UNKNOWN)
    return structures.unflatten(tree, results)


def asked_with_zeros(call: Call) -> Any:
    """What a function gives for zeros in place of traced values, or with ones on diagonals; None where it raises."""

    def sample(diagonal: bool, value: Tracer) -> Any:
        place = value._place()
        cells = storage_memory(place.shape, place.strides, value.form.whole or value.dtype)
        if diagonal and cells.ndim > 1:
            line = range(min(cells.shape[-2:]))
            cells[..., line, line] = 1
        return cells[... if value.shape else ()]

    for diagonal in (False, True):
        with np.errstate(all="ignore"), contextlib.suppress(Exception):  # where the function takes other numbers
            return call.shown(functools.partial(sample, diagonal))
    return None


_UNASKED = "whether NumPy has this array in memory of its own is not known; assign to a copy of it: y = y.copy()"
_UNKNOWN = "how the cells of this array lie in memory is not known; assign to a copy of it: y = y.copy()"


def _recorded(function: Any, args: Arguments, kwargs: Keywords) -> Any:
    """The result of a function by what stands for it."""
    row = STANDING.get(function)
    if row is not None:
        return call_standing(function, row, args, kwargs)
    name = getattr(function, "__name__", str(function))
    rule = default_rules().lookup("numpy", name, len(args)) if getattr(np, name, None) is function else None
    if rule is not None and not kwargs and (rule.primal is not None or rule.op is not None):
        return trace_rule_call(rule, args)
    raise TraceError(f"{user_line()}: {name_of(function)} of a traced value is not supported; {way_out(name_of(function))}")


def _out_of(function: Any, args: Arguments, kwargs: Keywords) -> Any:
    """The arguments without `out`, and this; None where there is none."""
    if kwargs.get("out") is not None:
        return args, {k: v for k, v in kwargs.items() if k != "out"}, kwargs["out"]
    place = _place_of_out(function)
    if place is None or len(args) <= place or args[place] is None:
        return None
    behind = args[place + 1 :]
    return (*args[:place], None, *behind) if behind else args[:place], kwargs, args[place]


@functools.lru_cache(maxsize=512)
def _place_of_out(function: Any) -> int | None:
    """Where `out` stands among the arguments."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return None
    names = [n for n, p in parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD or p.kind is p.POSITIONAL_ONLY]
    return names.index("out") if "out" in names else None


def _viewed(call: Call, args: Arguments, kwargs: Keywords) -> Any:
    """A function that NumPy may give a view for: it is asked with the memory of the arrays."""
    function, moves = call.function, _is_of_atoms(call.function)
    found = None if moves else _recorded(function, args, kwargs)
    try:
        asked, arrays = _asked(call)
    except (ValueError, TypeError, IndexError) as error:
        raise TraceError(f"{user_line()}: {name_of(function)}: {error}") from None
    is_number = isinstance(asked, np.generic) or (isinstance(asked, np.ndarray) and asked.shape == ())
    if is_number and (isinstance(asked, np.generic) or _stays_number(call)):
        found = _recorded(function, args, kwargs) if found is None else found
        return found.of_kind(NUMPY) if isinstance(found, Tracer) else found
    if is_number and not any(v.has_memory() for v in call.traced):
        return _number_as_array(_recorded(function, args, kwargs) if found is None else found)
    if isinstance(asked, np.ndarray):
        if moves and len(arrays) == 1 and _shares(asked, arrays[0]) and not _is_of(asked, arrays[0]):
            return arrays[0].like(_moved(call, arrays[0], asked))
        return _as_asked(_recorded(function, args, kwargs) if found is None else found, asked, arrays)
    own = [*(m for x in arrays for m in (x.shared().layout(), x.shared().place)), *args]
    for part in asked if function is np.broadcast_arrays else ():
        if not any(part is place for place in own):
            part.flags.writeable = False  # as it will be in NumPy; today it warns
    return type(found)(_as_asked(f, p, arrays) for f, p in zip(found, asked, strict=True))


def _stays_number(call: Call) -> bool:
    """Whether NumPy gives a number for a number: `np.squeeze(x)`, not `np.broadcast_to(x, ())`."""
    if any(v.has_memory() for v in call.traced):
        return False
    return isinstance(call.shown(lambda v: v.asked(lambda own: own)), np.generic)


def _asked(call: Call) -> tuple[Any, list[Tracer]]:
    """What NumPy gives for the memory of traced arrays, and these."""
    arrays = [v if v.has_memory() else v.like(v.atom) for v in call.traced]

    def answer(memory: Callable[[View], np.ndarray]) -> Any:
        found = [memory(x.shared()) for x in arrays]
        places = iter([place.view(bool) if x.dtype.kind == "b" else place for x, place in zip(arrays, found, strict=True)])
        with np.errstate(all="ignore"):
            return call.shown(lambda _: next(places))

    asked = answer(View.layout)
    gaps = [s.layout for s in (x.shared().storage for x in arrays) if s.layout is not s.memory]
    made = [m for m in structures.all_leaves(asked) if isinstance(m, np.ndarray)] if gaps else []
    if any(np.may_share_memory(m, gap) for m in made for gap in gaps):
        asked = answer(lambda view: view.place)  # whose cells have numbers
    return asked, arrays


def _moved(call: Call, x: Tracer, place: np.ndarray) -> View:
    """The view at a place, read by the function itself."""

    def how(arrays: Arrays, atom: Any) -> Any:
        if atom.op == "const":
            return array_atom(np.asarray(call.shown(lambda _: atom.value)))
        base = Tracer(arrays.builder, atom)
        given = structures.unflatten(call.tree, [base if isinstance(v, Tracer) else v for v in call.leaves])
        found = call_standing(call.function, STANDING[call.function], *given)
        return found.atom if isinstance(found, Tracer) else array_atom(np.asarray(found))

    return View(x.shared().storage, place, x.shared(), None, how)


def _as_asked(found: Any, place: np.ndarray, arrays: list[Tracer]) -> Any:
    """A result as a view where NumPy gives one, in memory of its own where it does not."""
    of = next((x for x in arrays if _shares(place, x)), None)
    if of is not None and not place.shape and not of.kind.array:
        return _number_as_array(found)
    if of is not None and _is_of(place, of):
        return of
    held = found.held if isinstance(found, Tracer) else None
    if of is None:
        found = found.copy() if held is not None and any(held.storage is x.shared().storage for x in arrays) else found
        return lying_as(found, place) if isinstance(found, Tracer) else found
    view = View(of.shared().storage, place)
    return (
        found
        if held is not None and held.place.flags.writeable == place.flags.writeable and held.is_at(view)
        else of.like(view)
    )


def _number_as_array(found: Any) -> Any:
    """A number as a new array without axes."""
    return found.of_kind(ARRAY) if isinstance(found, Tracer) else np.asarray(found)


def _shares(place: np.ndarray, x: Tracer) -> bool:
    return np.may_share_memory(place, x.shared().storage.memory)


def _is_of(place: np.ndarray, x: Tracer) -> bool:
    """Whether NumPy gives the array itself, no view of it: a shape given to one is the other's, too."""
    return place is x.shared().layout()


def _once(operands: list[Tracer]) -> None:
    """Linear algebra on captured arrays alone is done once, for what it costs and for the errors that it may raise."""
    if operands and all(value.atom in value.builder.fixed for value in operands):
        need_contents(operands[0])


@item_of.written
def get_item(x: Tracer, key: Any, origin: str) -> Any:
    """`x[key]` recorded."""
    if is_traced_key(key):
        return read(x, key, origin)
    x = x if x.has_memory() else x.like(x.atom)
    if isinstance(key, (bool, np.bool_)):
        return np.repeat(np.expand_dims(x, 0), int(key), axis=0)  # x[True] is a copy of x[None]
    try:
        if is_basic(key):
            found = x.shared().sliced(view_key(key))
            if found.place.shape or any(part is Ellipsis for part in (key if isinstance(key, tuple) else (key,))):
                return x.like(found)
            return x.like(found.storage.cell(found.first(), origin))
        cells = x._shown()
        if cells is not None:
            picked = cells[key]
            if not isinstance(picked, np.ndarray):
                return x.like(picked)
            return x.like(storage_cells(x.builder, picked, x.dtype.char, x._place()[key], origin))
    except IndexError as error:
        raise IndexError(f"{origin}: {error}") from None
    found = x.like(bind_item(Arrays(x.builder, origin), x.atom, key))
    return lying_as(found, x._place()[key]) if isinstance(found, Tracer) and found.ndim > 1 else found


def minds_memory(function: Any) -> bool:
    """Whether a function's result may be a view of its argument, or its argument is changed."""
    return STANDING.get(function, _UNKNOWN_ROW).memory in ("view", "itself") or function in (
        np.shares_memory,
        np.may_share_memory,
    )


def _is_of_atoms(function: Any) -> bool:
    """Whether a function only moves cells, as a function of atoms says."""
    return hasattr(STANDING[function].stand, "__wrapped__")


_UNKNOWN_ROW = Row(lambda: None, "")
_EACH = (np.atleast_1d, np.atleast_2d, np.atleast_3d)  # arguments are arrays of their own
