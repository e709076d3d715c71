"""NumPy's ufuncs and functions on tracers: elementwise ones by their rule's row, array ones on arrays of cells.

Assumes the protocols `__array_ufunc__` and `__array_function__`. Guarantees NumPy's shapes. Refuses, with `TraceError`,
functions it does not know, `where=` and `dtype=`, naming the user's line.
"""

import functools
import inspect
import operator
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from symdiff import structures
from symdiff.errors import TraceError
from symdiff.ops import OPS
from symdiff.symbolic.arrays.algebra import Arrays
from symdiff.symbolic.calls import formula_site
from symdiff.symbolic.graph import Atom, Var
from symdiff.symbolic.rule import apply
from symdiff.symbolic.rulebook import default_rules, without_derivative
from symdiff.symbolic.tracing.attempt import note_stuck
from symdiff.symbolic.tracing.composed.table import COMPOSED, called
from symdiff.symbolic.tracing.composed.ufunc_methods import METHODS
from symdiff.symbolic.tracing.indexing import indexed, is_basic
from symdiff.symbolic.tracing.integers import Integer
from symdiff.symbolic.tracing.kinds import ARRAY, NUMPY
from symdiff.symbolic.tracing.moving import MOVING, diagonal
from symdiff.symbolic.tracing.mutable import Mutable, computed, filled, plain
from symdiff.symbolic.tracing.operands import as_atom
from symdiff.symbolic.tracing.products import LINALG, PRODUCTS, trace
from symdiff.symbolic.tracing.reducing import REDUCING
from symdiff.symbolic.tracing.raising import awaits, check_floating
from symdiff.symbolic.tracing.searching import SEARCHING
from symdiff.symbolic.tracing.selecting import Selected
from symdiff.symbolic.tracing.traced_keys import Row, is_traced_key, parts_of, read
from symdiff.symbolic.tracing.tracer import IN_PLACE, VIEWS, Tracer, atom_of, builder_of, need_contents, record
from symdiff.symbolic.tracing.truths import is_truth
from symdiff.symbolic.tracing.whole import View, parsed

_OP_OF_UFUNC: dict[Any, str] = {}
for _op in OPS.values():
    _function = getattr(np, _op.numpy, None) if _op.numpy else None
    if isinstance(_function, np.ufunc) and _op.item is None:
        _OP_OF_UFUNC[_function] = _op.name
_BITWISE = {"bitwise_and": "and_", "bitwise_or": "or_", "bitwise_xor": "xor", "invert": "invert", "left_shift": "lshift",
            "right_shift": "rshift"}  # fmt: skip
_TRUTHFUL = {"add": "add", "sub": "sub", "mul": "mul", "neg": "neg"}  # what NumPy does otherwise to truths
_REDUCTIONS: dict[Any, Callable[..., Any]] = {
    np.add: np.sum, np.multiply: np.prod, np.maximum: np.max, np.minimum: np.min,
}  # fmt: skip
_ARITHMETIC = {getattr(np, name) for name in ("matmul", "vecdot", "matvec", "vecmat") if hasattr(np, name)}


def call_ufunc(ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any], origin: str) -> Any:
    """`ufunc(*inputs)` recorded."""
    name = ufunc.__name__
    if method == "at":
        return _applied_at(ufunc, inputs, origin)
    if all(plain(v) is not None for v in inputs) and kwargs.get("out") is None:
        return computed(getattr(ufunc, method), inputs, kwargs)
    if kwargs.get("out") is not None and isinstance(kwargs["out"][0], Tracer):
        (out,) = kwargs.pop("out")
        out[...] = getattr(ufunc, method)(*inputs, **kwargs)
        return out
    if method == "reduce" and ufunc in _REDUCTIONS:
        kwargs = {k: v for k, v in kwargs.items() if (v is not None or k == "axis") and not (k == "keepdims" and v is False)}
        return call_function(_REDUCTIONS[ufunc], inputs, {"axis": 0, **kwargs}, origin)
    if method in METHODS and ufunc.nin == 2 and ufunc.nout == 1:
        return called(functools.partial(METHODS[method], ufunc), f"np.{name}.{method}", inputs, kwargs, origin)
    if method == "reduce" and _folds(ufunc, inputs, kwargs):
        return functools.reduce(ufunc, np.moveaxis(inputs[0], kwargs.get("axis", 0), 0))
    if method != "__call__":
        raise TraceError(f"{origin}: np.{name}.{method} of a traced value is not supported; write it with np.sum or a loop")
    if kwargs.get("out") is not None:
        note_stuck()
        raise TraceError(
            f"{origin}: np.{name} writes a traced value into an existing array; use `y = y + x` instead of `y += x`, "
            "and leave out= away"
        )
    if kwargs:
        raise TraceError(f"{origin}: np.{name}({', '.join(kwargs)}=...) of a traced value; use np.where and x.astype")
    if ufunc in _ARITHMETIC:
        return call_function(ufunc, inputs, {}, origin)
    special = getattr(np, name, None) is not ufunc and _is_scipy(ufunc)
    op = _OP_OF_UFUNC.get(ufunc)
    if name in _BITWISE or (op in _TRUTHFUL and all(map(is_truth, inputs))):
        bare = [v.of_kind(NUMPY) if isinstance(v, Tracer) and not v.shape else v for v in inputs]
        return getattr(operator, _BITWISE.get(name) or _TRUTHFUL[op])(*bare)
    if op is not None:
        builder = builder_of(inputs)
        operands = tuple(atom_of(value, builder, origin) for value in inputs)
        return _checked(name, inputs, Tracer(builder, record(builder, op, operands, origin)))
    book = default_rules()
    module = "scipy.special" if special else "numpy"
    if ufunc.nout > 1:
        parts = [book.lookup(module, f"{name}[{k}]", len(inputs)) for k in range(ufunc.nout)]
        if all(part is not None for part in parts):
            return tuple(call_rule(part, inputs, origin) for part in parts)
    rule = book.lookup(module, name, len(inputs))
    if rule is None:
        reason = without_derivative().get((module, name), "no rule; sd.diffrule adds one")
        raise TraceError(f"{origin}: {'special' if special else 'np'}.{name} has no derivative: {reason}")
    return _checked(name, inputs, call_rule(rule, inputs, origin))


def _checked(name: str, inputs: tuple[Any, ...], found: Any) -> Any:
    """A result of NumPy's, where it raises no floating error."""
    if awaits():
        check_floating(name, inputs, found)
    return found


def _folds(ufunc: Any, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a reduction is the ufunc applied again and again along one axis that has cells."""
    axis = kwargs.get("axis", 0)
    others = [k for k, v in kwargs.items() if k != "axis" and v is not None and v is not False]
    return ufunc.nin == 2 and not others and isinstance(axis, int) and inputs[0].ndim > 0 and inputs[0].shape[axis] > 0


def _applied_at(ufunc: Any, inputs: tuple[Any, ...], origin: str) -> None:
    """`ufunc.at(y, index, values)`: cell by cell, so that an index may occur twice."""
    target, index, *values = inputs
    if not isinstance(target, Tracer):
        note_stuck()
        raise TraceError(f"{origin}: np.{ufunc.__name__}.at writes a traced value into an array made elsewhere; copy it first")
    if is_traced_key(index):
        _applied_at_traced(ufunc, target, index, values)
        return
    places = np.broadcast_arrays(*(index if isinstance(index, tuple) else (index,)))
    if any(p.dtype.kind not in "iu" for p in places) or len(places) != target.ndim:
        raise TraceError(f"{origin}: np.{ufunc.__name__}.at of a traced value takes one array of integers for each axis")
    given = [np.broadcast_to(v, places[0].shape) for v in values]
    for place in np.ndindex(places[0].shape):
        cell = tuple(int(p[place]) for p in places)
        target[cell] = ufunc(target[cell], *(v[place] for v in given))


def _applied_at_traced(ufunc: Any, target: Tracer, index: Any, values: list[Any]) -> None:
    """`ufunc.at` at traced places, one after the other."""
    parts = parts_of(index)
    shape = np.broadcast_shapes(*(np.shape(p) for p in parts))
    spread = [np.broadcast_to(p, shape) for p in parts]
    given = [np.broadcast_to(v, shape) for v in values]
    for place in np.ndindex(shape):
        cell = tuple(p[place] if isinstance(p, Tracer) else int(p[place]) for p in spread)
        target[cell] = ufunc(target[cell], *(v[place] for v in given))


def _is_scipy(ufunc: Any) -> bool:
    special = sys.modules.get("scipy.special")
    return special is not None and getattr(special, ufunc.__name__, None) is ufunc


def call_rule(rule: Any, args: tuple[Any, ...], origin: str) -> Any:
    """A function of the rule table on traced values: its operation, or a call that its formula replaces later."""
    builder = builder_of(c for a in args for c in (a.ravel().tolist() if isinstance(a, np.ndarray) else [a]))
    operands = tuple(atom_of(a, builder, origin) for a in args)
    if rule.op is not None:
        return Tracer(builder, record(builder, rule.op, operands, origin))
    if rule.primal is None:
        raise TraceError(f"{origin}: the rule table does not say how {rule.module}.{rule.name} is computed")
    if rule.module == "numpy" and not (rule.kinks and any(op == "select" for op, _, _ in rule.primal.steps)):
        outer, builder.origin = builder.origin, origin
        try:
            return Tracer(builder, apply(rule.primal, operands, None, builder.emit))
        finally:
            builder.origin = outer
    site = formula_site(rule, operands)
    shape = np.broadcast_shapes(*(o.shape for o in operands))
    code = site.graph.outputs[0].dtype  # type: ignore[union-attr]
    return Tracer(builder, builder.bind("call", operands, shape, code, site, origin))


def call_function(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], origin: str) -> Any:
    """`function(*args, **kwargs)` recorded."""
    name = getattr(function, "__name__", str(function))
    leaves = structures.leaves((args, kwargs), none_is_leaf=True)
    selected = next((leaf for leaf in leaves if isinstance(leaf, Selected)), None)
    if selected is not None:  # where NumPy was not asked first
        return selected.__array_function__(function, (), args, kwargs)
    bare = kwargs.get("out") is None and all(leaf is None or plain(leaf) is not None for leaf in leaves)
    if bare and name not in VIEWS and name not in IN_PLACE:
        return computed(function, args, kwargs)
    if getattr(function, "__module__", None) == "numpy.linalg":
        _once([leaf for leaf in leaves if isinstance(leaf, Tracer)])
    special = _SPECIAL.get(name)
    if special is not None and _of_numpy(function, name):
        return special(origin, *args, **kwargs)
    if isinstance(kwargs.get("out"), Tracer):
        out = kwargs.pop("out")
        out[...] = function(*args, **kwargs)
        return out
    if kwargs.get("out") is not None:
        note_stuck()
        raise TraceError(f"{origin}: np.{name}(out=...) of a traced value; leave out= away")
    if name in VIEWS and args and isinstance(args[0], Mutable):
        return args[0].view(lambda cells: function(cells, *args[1:], **kwargs))
    if function in COMPOSED:
        return called(COMPOSED[function], _full_name(function), args, kwargs, origin)
    implementation = _IMPLEMENTED.get(function)
    if implementation is not None:
        found = on_arrays(implementation, args, kwargs, origin, name)
        if name in ("sum", "cumsum") and getattr(args[0], "dtype", None) == np.bool_:
            return Integer.of(found)
        return _SlogdetResult(*found) if name == "slogdet" else found
    rule = default_rules().lookup("numpy", name, len(args))
    if rule is not None and not kwargs and (rule.primal is not None or rule.op is not None):
        return call_rule(rule, args, origin)
    instead = _INSTEAD.get(name, "write it with elementwise functions")
    raise TraceError(f"{origin}: {_full_name(function)} of a traced value is not supported; {instead}")


def _full_name(function: Any) -> str:
    module = getattr(function, "__module__", "numpy") or "numpy"
    return f"{module}.{getattr(function, '__name__', function)}".replace("numpy.", "np.", 1)


def _once(operands: list[Tracer]) -> None:
    """Linear algebra on captured arrays alone is done once, for what it costs and for the errors that it may raise."""
    if operands and all(value.atom in value.builder.fixed for value in operands):
        need_contents(operands[0])


def _of_numpy(function: Any, name: str) -> bool:
    return getattr(np, name, None) is function or getattr(np.linalg, name, None) is function


def on_arrays(implementation: Any, args: tuple[Any, ...], kwargs: dict[str, Any], origin: str, name: str) -> Any:
    """A function on whole arrays recorded: its array arguments become operands, the others are static."""
    signature, operands, lists = _parameters(implementation)
    builder = builder_of(_cells_of((args, kwargs)))
    kwargs = {k: v for k, v in kwargs.items() if not (v is None and k in ("out", "dtype"))}
    arrays = Arrays(builder, origin)
    try:
        bound = signature.bind(arrays, *args, **kwargs)
    except TypeError as error:
        raise TraceError(f"{origin}: np.{name} of a traced value: {error}; leave these arguments away") from None
    for key, value in bound.arguments.items():
        if key in operands:
            several = signature.parameters[key].kind is inspect.Parameter.VAR_POSITIONAL
            if several:
                bound.arguments[key] = tuple(as_atom(v, builder, origin) for v in value)
            elif value is not None:
                bound.arguments[key] = as_atom(value, builder, origin)
        elif key in lists:
            bound.arguments[key] = [as_atom(v, builder, origin) for v in value]
    outer, builder.origin = builder.origin, origin
    try:
        found = implementation(*bound.args, **bound.kwargs)
    except IndexError as error:
        raise IndexError(str(error) if str(error).startswith(origin) else f"{origin}: np.{name}: {error}") from None
    except ValueError as error:
        raise TraceError(f"{origin}: np.{name}: {error}") from None
    finally:
        builder.origin = outer
    if name in VIEWS and isinstance(found, Var):
        builder.viewed.update(o for o in bound.arguments.values() if isinstance(o, Var))
        builder.views.add(found)
    return tuple(_given(f, builder) for f in found) if isinstance(found, tuple) else _given(found, builder)


@functools.lru_cache(maxsize=512)
def _parameters(implementation: Any) -> tuple[inspect.Signature, frozenset[str], frozenset[str]]:
    """The signature, the parameters that are arrays, and those that are lists of arrays."""
    signature = inspect.signature(implementation)
    kinds = (Atom, Atom | None)
    plain = inspect.Parameter.empty  # the parameters of lambdas
    named = signature.parameters.items()
    arrays = frozenset(n for n, p in named if p.annotation in kinds or (n == "x" and p.annotation is plain))
    return signature, arrays, frozenset(n for n, _ in named if n == "parts")


def _cells_of(values: Any) -> list[Any]:
    found: list[Any] = []
    for leaf in structures.leaves(values, none_is_leaf=True):
        found += leaf.ravel().tolist() if isinstance(leaf, np.ndarray) and leaf.dtype == object else [leaf]
    return found


def _given(atom: Any, builder: Any) -> Any:
    return Tracer(builder, atom) if isinstance(atom, Var) else atom.value


def get_item(x: Tracer, key: Any, origin: str) -> Any:
    """`x[key]` recorded."""
    if is_traced_key(key):
        return read(x, key, origin)
    builder = x.builder
    if is_basic(key) and not any(part is None for part in (key if isinstance(key, tuple) else (key,))):
        slices, dropped = parsed(key, x.shape, origin)
        if len(dropped) < len(x.shape):
            return View.over(x, slices, dropped)
    atom = indexed(Arrays(builder, origin), x.atom, key)
    found = Tracer(builder, atom)  # type: ignore[arg-type]
    return Row.of(x, key if isinstance(key, tuple) else (key,), found) if is_basic(key) and atom.shape else found


def _shape_of(origin: str, x: Any) -> Any:
    return x.shape


def _zeros_like(origin: str, x: Any, dtype: Any = None, **_: Any) -> Any:
    return filled(x.builder, np.zeros(x.shape, dtype or x.dtype))


def _ones_like(origin: str, x: Any, dtype: Any = None, **_: Any) -> Any:
    return filled(x.builder, np.ones(x.shape, dtype or x.dtype))


def _full_like(origin: str, x: Any, fill: Any, dtype: Any = None, **_: Any) -> Any:
    made = filled(x.builder, np.zeros(x.shape, dtype or x.dtype))
    made[...] = fill
    return made


def _where(origin: str, condition: Any, *arms: Any) -> Any:
    if not arms:
        return np.nonzero(condition)
    a, b = arms
    builder = builder_of((condition, a, b))
    operands = tuple(atom_of(v, builder, origin) for v in (condition, a, b))
    return Tracer(builder, record(builder, "select", operands, origin), ARRAY)


def _select(origin: str, condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    result = default
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        result = np.where(condition, choice, result)
    return result


def _clip(origin: str, x: Any, low: Any = None, high: Any = None, *, a_min: Any = None, a_max: Any = None,
          min: Any = None, max: Any = None) -> Any:  # fmt: skip
    low = next((v for v in (low, a_min, min) if v is not None), None)
    high = next((v for v in (high, a_max, max) if v is not None), None)
    if low is not None:
        x = np.maximum(x, low)
    return x if high is None else np.minimum(x, high)


def _around(origin: str, x: Any, decimals: int = 0) -> Any:
    return np.rint(x) if decimals == 0 else np.rint(x * 10.0**decimals) / 10.0**decimals


def _real(origin: str, x: Any) -> Any:
    return x.real


def _imag(origin: str, x: Any) -> Any:
    return x.imag


def _copyto(origin: str, dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    if not isinstance(dst, Tracer):
        note_stuck()
        raise TraceError(f"{origin}: np.copyto writes a traced value into an array made elsewhere; copy it first")
    dst[...] = src if where is True else np.where(where, src, dst)


_SHOWN = "a trace has no numbers to show or store; do it outside, with what the function returns"
_COUNTED = "how many cells it gives depends on the numbers; np.where(condition, a, b) keeps them all"
_INSTEAD = {
    "lexsort": "np.sort gives the numbers of one array in order",
    "real_if_close": "x.real, where the imaginary part is known to vanish",
    "sort_complex": "complex numbers have no order; sort np.abs(x) or x.real",
    "trim_zeros": "how long its result is depends on the numbers; np.polyval(c, x) takes leading zeros",
    **dict.fromkeys("unique intersect1d union1d setdiff1d setxor1d".split(), _COUNTED),
    **dict.fromkeys("save savez savetxt array2string array_str array_repr".split(), _SHOWN),
}
_SPECIAL: dict[str, Callable[..., Any]] = {
    "shape": _shape_of,
    "ndim": lambda origin, x: len(x.shape),
    "size": lambda origin, x: x.size,
    "zeros_like": _zeros_like,
    "empty_like": _zeros_like,
    "ones_like": _ones_like,
    "full_like": _full_like,
    "where": _where,
    "select": _select,
    "clip": _clip,
    "round": _around,
    "around": _around,
    "real": _real,
    "imag": _imag,
    "copyto": _copyto,
    **SEARCHING,
    "iscomplexobj": lambda origin, x: x.dtype.kind == "c",
    "isrealobj": lambda origin, x: x.dtype.kind != "c",
    "result_type": lambda origin, *xs: np.result_type(*(x.dtype if isinstance(x, Tracer) else x for x in xs)),
    "copy": lambda origin, x, **_: x.copy(),
}
_SlogdetResult = type(np.linalg.slogdet(np.eye(1)))


def _implementations() -> dict[Any, Any]:
    """What stands for NumPy's functions on whole arrays, by function."""
    found = {}
    for module, table in ((np, MOVING | REDUCING | PRODUCTS), (np.linalg, PRODUCTS | LINALG | MOVING)):
        for name, implementation in table.items():
            function = getattr(module, name, None)
            if function is not None:
                found.setdefault(function, implementation)
    found[np.linalg.vector_norm] = REDUCING["vector_norm"]
    found[np.linalg.trace] = lambda a, x, *, offset=0: trace(a, x, offset, -2, -1)
    found[np.linalg.diagonal] = lambda a, x, *, offset=0: diagonal(a, x, offset, -2, -1)
    return found


_IMPLEMENTED = _implementations()
