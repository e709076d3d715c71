"""Calls of functions that have a rule of their own, in a trace: each is one binding.

Assumes a rule with one parameter for each argument. Guarantees that the function itself is traced for its value, unless it is
opaque; over arrays, number by number. Refuses, with `TraceError`, functions that return anything but one number.
"""

import inspect
from typing import Any

import numpy as np

from symdiff.errors import ArgumentError, RuleError, TraceError
from symdiff.ir.arrays.algebra import Arrays
from symdiff.ir.building import Builder, dtype_of_atoms
from symdiff.ir.node import Atom, Constant
from symdiff.rulebooks.calls import CallSite
from symdiff.rulebooks.declared import rules_in_force
from symdiff.rulebooks.rule import Rule
from symdiff.rulebooks.sites import Site, site_key, site_results, takes_whole
from symdiff.tracing.following.following import recorded_call
from symdiff.tracing.trace import Spec, trace_leaves
from symdiff.tracing.values.tracer import Tracer, traced_atom, traced_builder
from symdiff.vocabulary import structures
from symdiff.vocabulary.heads import Shape, Static
from symdiff.vocabulary.libraries import user_line
from symdiff.vocabulary.signatures import Arguments, Function, Keywords


@recorded_call.written
def record(function: Function, rule: Rule, args: Arguments, kwargs: Keywords) -> Any:
    """A call of a function with a rule, as one binding; over arrays, elementwise."""
    ordered = _in_order(function, rule, args, kwargs)
    return (_record_whole if takes_whole(rule, ordered) else _record)(function, rule, ordered)


def _in_order(function: Function, rule: Rule, args: Arguments, kwargs: Keywords) -> tuple[Any, ...]:
    """The arguments of a call, one for each that the rule has: those given by name in their places, and defaults."""
    if not kwargs and len(args) == len(rule.parameters):
        return args
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
    except TypeError as error:
        raise ArgumentError(f"{user_line()}: {rule.name}: {error}") from None
    bound.apply_defaults()
    found = tuple(bound.arguments.values())
    if len(found) != len(rule.parameters):
        raise RuleError(
            f"{user_line()}: {rule.name} of {len(found)} arguments; its rule ({rule.source}) has {', '.join(rule.parameters)}"
        )
    return found


def _record(function: Function, rule: Rule, args: Arguments) -> Any:
    origin = user_line()
    builder = traced_builder([c for a in args for c in (a.ravel().tolist() if isinstance(a, np.ndarray) else [a])])
    atoms = [traced_atom(a, builder, origin) for a in args]
    shape = np.broadcast_shapes(*(a.shape for a in atoms))
    if shape:
        grids = [np.broadcast_to(_grid(a, builder), shape).ravel() for a in args]
        cells = np.empty(len(grids[0]), dtype=object)
        cells[:] = [_record(function, rule, point) for point in zip(*grids, strict=True)]
        return Tracer(builder, traced_atom(cells.reshape(shape), builder, origin))  # type: ignore[arg-type]
    opaque = rule.body.get("opaque") if isinstance(rule.body, dict) else None
    codes = ["D" if isinstance(a, Constant) and isinstance(a.value, complex) else a.dtype or "d" for a in atoms]
    graph = None
    code = "D" if "D" in codes else "F" if "F" in codes and "d" not in codes else "d" if "d" in codes else "f"
    if opaque is None:
        leaves = [Tracer(builder, a) if not isinstance(a, Constant) else complex(a.value) if c in "FD" else float(a.value)
                  for a, c in zip(atoms, codes, strict=True)]  # fmt: skip
        _, tree = structures.flatten((tuple(leaves), {}))
        places = list(range(len(leaves)))
        graph = trace_leaves(function, leaves, tree, places, [f"x{i}" for i in places], builder, mode="merge").graph
        if len(graph.outputs) != 1 or graph.outputs[0].shape != ():
            raise TraceError(f"{origin}: {function.__name__} has a rule, so it must return one number for numbers")
        code = graph.outputs[0].dtype
    site = CallSite(opaque or function, rule, graph)
    return Tracer(builder, builder.bind("call", tuple(atoms), (), code, site, origin))


def _grid(value: Any, builder: Builder) -> np.ndarray:
    if isinstance(value, Tracer):
        return np.array(value, dtype=object)
    return np.asarray(value, dtype=object)


def _record_whole(function: Function, rule: Rule, args: Arguments) -> Any:
    """A call with arrays and structures as a whole."""
    origin = user_line()
    leaves, tree = structures.flatten(args, none_is_leaf=True)
    builder = traced_builder(leaves)
    is_operand = [isinstance(leaf, (Tracer, float, complex, np.inexact, np.ndarray)) for leaf in leaves]
    atoms = [traced_atom(leaf, builder, origin) for leaf, is_one in zip(leaves, is_operand, strict=True) if is_one]
    arrays = Arrays(builder, origin)
    codes = [o.dtype or ("D" if isinstance(o.value, complex) else "d") for o in atoms]  # type: ignore[union-attr]
    given = [leaf for leaf, is_one in zip(leaves, is_operand, strict=True) if is_one]
    own = [_whole_code(leaf, o, builder) or c for leaf, o, c in zip(given, atoms, codes, strict=True)]
    codes = ["d" if c in "l?" else c for c in codes]
    atoms = [o if isinstance(o, Constant) or o.dtype == c else builder.cast(o, c) for o, c in zip(atoms, codes, strict=True)]
    static = tuple((k, leaf) for k, (leaf, is_one) in enumerate(zip(leaves, is_operand, strict=True)) if not is_one)
    kinds = tuple((o.shape, c if c in "l?" else code) for o, c, code in zip(atoms, own, codes, strict=True))
    graph = None
    if "shapes" in rule.body:
        results, out_tree = _told_results(function, rule, leaves, tree, dtype_of_atoms(tuple(atoms)), origin)
    else:
        places = [k for k, is_one in enumerate(is_operand) if is_one]
        given = [Tracer(builder, o) if not isinstance(o, Constant) else _python_number(o) for o in atoms]
        whole = list(leaves)
        for place, value in zip(places, given, strict=True):
            whole[place] = value
        _, full = structures.flatten((args, {}), none_is_leaf=True)
        paths = [f"x{k}" for k in range(len(leaves))]
        graph = trace_leaves(
            function, whole, full, places, paths, builder, rules=rules_in_force().without(rule), mode="merge"
        ).graph
        results, out_tree = tuple((o.shape, "d" if o.dtype in "l?" else o.dtype) for o in graph.outputs), graph.out_tree
    try:
        hash(static)
    except TypeError:
        raise RuleError(f"{origin}: {rule.name}: an argument is no number, array or setting that can be compared") from None
    key = site_key(function, tree, tuple((k, type(v), v) for k, v in static), (kinds, results))
    site = Site(key, rule, function, tree, static, kinds, out_tree, results, graph, single=graph)
    packed = builder.bind("site", tuple(atoms), site.shape, site.code, Static("site", {"site": site}), origin)
    return structures.unflatten(out_tree, [Tracer(builder, part) for part in site_results(arrays, site, packed)])


def _whole_code(leaf: Any, atom: Atom, builder: Builder) -> str | None:
    """The code of an array of whole numbers or truths, which the graph computes as others; None for others."""
    if isinstance(leaf, np.ndarray):
        return {"i": "l", "u": "l", "b": "?"}.get(leaf.dtype.kind)
    return builder.whole.get(atom)


def _python_number(constant: Constant) -> float | complex:
    return complex(constant.value) if isinstance(constant.value, complex) else float(constant.value)


def _told_results(function: Function, rule: Rule, leaves: list[Any], tree: Any, code: str, origin: str) -> tuple[Any, Any]:
    """The shapes and dtypes of a primitive's results, and their structure; `code` is the arguments' dtype."""
    shapes = rule.body["shapes"]
    stand = [_stand_in(leaf, shapes == "run") for leaf in leaves]
    args = structures.unflatten(tree, stand)
    try:
        found = function(*args) if shapes == "run" else shapes(*args)
    except Exception as error:
        raise RuleError(f"{origin}: the shapes of {rule.name} ({rule.source}): {type(error).__name__}: {error}") from error
    if shapes == "run":
        arrays, out_tree = structures.flatten(found)
        found = list(map(np.asarray, arrays))
        return tuple((a.shape, a.dtype.char if a.dtype.char in "fFdD" else "d") for a in found), out_tree
    several = isinstance(found, (tuple, list)) and any(isinstance(n, (tuple, list, Spec)) for n in found)
    told = [_told(entry, code) for entry in (found if several else [found])]
    if None in told:
        raise RuleError(f"{origin}: the shapes of {rule.name} ({rule.source}) are {found!r}; a shape, or a list of shapes")
    return tuple(told), structures.structure(tuple(0.0 for _ in told) if several else 0.0)


def _told(entry: Any, code: str) -> tuple[Shape, str] | None:
    """The shape and dtype of one result; None for what is neither a shape nor a `Spec`."""
    if isinstance(entry, Spec):
        found = np.dtype(entry.dtype).char
        return entry.shape, found if found in "fFdD" else "d"
    shape = tuple(entry) if isinstance(entry, (tuple, list)) else (entry,)
    return (shape, code) if all(isinstance(n, (int, np.integer)) and n >= 0 for n in shape) else None


def _stand_in(leaf: Any, runs: bool) -> Any:
    """An array in place of an argument, or a number of NumPy's, for its shape."""
    shape = getattr(leaf, "shape", None)
    if shape is None:
        return np.asarray(leaf)[()] if isinstance(leaf, (float, complex)) and not runs else leaf
    code = "d" if leaf.dtype.kind in "biu" and runs is None else leaf.dtype
    if shape == ():
        one = np.dtype(code).type(1)
        return one.item() if runs else one
    square = len(shape) > 1 and shape[-1] == shape[-2]
    return np.broadcast_to(np.eye(shape[-1], dtype=code), shape).copy() if runs and square else np.ones(shape, code)
