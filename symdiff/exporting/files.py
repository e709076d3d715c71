"""Derivatives as stand-alone source files: header, text, atomic writing, and checking committed files.

Assumes example arguments that fix shapes and dtypes. Guarantees files that need nothing of symdiff, equal to the byte for
equal functions, written whole or not at all. Refuses opaque primitives with `ExportError`.
"""

import dataclasses
import os
import secrets
import shlex
import stat
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from symdiff.api.arguments import Call, is_differentiable_argument
from symdiff.api.batching import Vectorised
from symdiff.api.device import placed_on_device
from symdiff.api.expressions import is_of_sympy
from symdiff.api.functions import Plain, exported_source, stored
from symdiff.api.kernels import WholeBatched
from symdiff.codegen.names import keeps_name
from symdiff.codegen.sizes import Sizes
from symdiff.codegen.source import Source
from symdiff.codegen.text import tuple_text
from symdiff.differentiation.mapping import loops_as_arrays
from symdiff.differentiation.partials import Partials
from symdiff.differentiation.vectorizing import vectorize_graph as over_points
from symdiff.errors import ArgumentError, BackendError, ExportError, forgive_error
from symdiff.exporting.raising import raised_in
from symdiff.exporting.structuring import (
    SHOWN,
    SUFFIX,
    Argument,
    Default,
    Leaf,
    exported_default,
    exported_positions,
    exports_plainly,
    is_exported_structure,
    with_structures,
)  # fmt: skip
from symdiff.ir.branches import branches_of
from symdiff.ir.building import Builder
from symdiff.ir.graph import FOLLOWED, Graph
from symdiff.ir.hidden import Hidden, hidden_of
from symdiff.ir.node import Node, has_loops
from symdiff.lowering.arrays.fusing import Fused
from symdiff.lowering.arrays.plan import ArrayPlan
from symdiff.lowering.program import Program, is_nest
from symdiff.pipeline import DEFAULT, check_plan_of, plan_of, program_of, sized_source_of, source_of, with_free_sizes
from symdiff.rulebooks.declared import rules_in_force
from symdiff.rulebooks.sites import Site
from symdiff.simplification.facts import Facts, known_column
from symdiff.tracing.loops.keeping import IN_FILES
from symdiff.tracing.trace import own_dtype, traced_argument_names, traced_path_name
from symdiff.tracing.unrolling.scalarizing import UNROLLED, in_unrolled_regime, settled
from symdiff.vocabulary import structures
from symdiff.vocabulary.choices import LOOPING
from symdiff.vocabulary.extents import Amount, Example, Extent, sizes_in
from symdiff.vocabulary.libraries import user_line
from symdiff.vocabulary.literals import is_literal, literal
from symdiff.vocabulary.ops import OPS, bytes_of_code
from symdiff.vocabulary.version import __version__

EDGES = 4  # places that a header names
FORMAT = 2  # of generated files, counted up where committed files must be made anew
_NEEDS = {
    "python": "Needs nothing.",
    "c": "Needs a C99 compiler and libm only.",
    "cuda": "Needs a CUDA compiler only.",
    "cupy": "Needs CuPy only.",
}


def _needs(target: str, nodes: list[Node]) -> str:
    if target in _NEEDS:
        return _NEEDS[target]
    return f"Needs NumPy{' and SciPy' if any(i.op in OPS and OPS[i.op].is_special for i in nodes) else ''} only."


def _primitives(bindings: list[Any]) -> list[Site]:
    """The calls of opaque functions with arrays."""
    found = []
    for binding in bindings:
        if binding.op == "loop":
            found += _primitives(binding.params.body.bindings)
        elif binding.op == "site":
            site = binding.params.params["site"]
            found += [site] if site.graph is None else _primitives(site.graph.bindings)
    return found


def _imported(sites: list[Site]) -> list[str]:
    """The functions that a file imports, for its header."""
    names = dict.fromkeys(f"{s.function.__module__}.{s.function.__qualname__}" for s in sites)
    return [f"Imports {', '.join(names)}, which it calls as they stand."] if names else []


def _nodes(program: Program | Fused) -> list[Node]:
    """The nodes of a program of numbers, those of all kernels for whole arrays."""
    return program.nodes if isinstance(program, Program) else program.scalars


@exported_source.written
def exported(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], target: str, command: str = "") -> Source:
    """The Source of a transform at example arguments; loops that were kept by themselves are written out for a target that
    does not take them.
    """
    inner = function.inner if isinstance(function, Vectorised) else function
    backend = target if inner is function or target in ("numpy", "cupy") else ""
    try:
        return _exported(function, inner, args, kwargs, target, command, backend)
    except BackendError:
        if inner.loops is not None or target not in LOOPING:
            raise
    return _exported(function, inner, args, kwargs, target, command, "")


def _exported(
    function: Any, inner: Any, args: tuple[Any, ...], kwargs: dict[str, Any], target: str, command: str, backend: str
) -> Source:
    args, kwargs = placed_on_device((args, kwargs))
    inner.refresh()
    if isinstance(function, Vectorised):
        if target not in ("numpy", "cupy"):
            raise ExportError(f"{function.where}: vmap is exported to numpy and cupy; target {target!r} takes one point")
        shown, _, axes = function.point_arguments(args)
    else:
        shown, axes = args, []
    call = Call(inner, inner.own_arguments(shown, kwargs), kwargs)
    if call.is_sized():
        _refuse_sizes(target, function is not inner, inner.where)
    primal, graph, tree = inner.stages(call, "merge", backend=backend, finish=loops_as_arrays if target == "numpy" else None)
    hidden = hidden_of(graph)
    arguments = _arguments(inner, call, graph, primal)
    result = _marked(tree, [output.name for output in graph.outputs])
    bare = all(isinstance(a.value, Leaf) and (a.value, a.named) == (Leaf(a.name, k), False) for k, a in enumerate(arguments))
    branches = branches_of(primal)
    raised = raised_in(branches, target, inner.where) if branches is not None and _raises(primal) else ()
    bare = bare and all(keeps_name(a.name, target, bool(raised)) for a in arguments)
    plain = target in ("c", "cuda") or (bare and exports_plainly(result))
    name = inner.__name__ if plain else inner.__name__ + SUFFIX
    shape = exported_positions(result) if exports_plainly(result) else None
    batch, axes = isinstance(function, Vectorised), hidden.pad(axes)
    checks = branches.conditions if branches is not None and raised else None
    options: dict[str, Any] = {"raised": raised} if raised else {}
    looped = (target == "cupy" or batch) and has_loops(graph.bindings)
    if batch and not looped and not (in_unrolled_regime(graph) and (checks is None or in_unrolled_regime(settled(checks)))):
        padded = [*axes, *[None] * (len(graph.inputs) - len(axes))]
        whole = WholeBatched(graph, tree, padded, function.out_axes, inner.options)
        flat = structures.leaves(args, none_is_leaf=True)  # in the function's own, settings are no inputs
        fed = [flat[i] for i in call.traced] + [leaf for leaf in flat[len(call.leaves) :] if is_differentiable_argument(leaf)]
        count = whole.points(hidden.fill(fed, len(graph.inputs)))
        graph, batch = whole.over(count), False
        if checks is not None:
            checks = over_points(checks, padded[: len(checks.inputs)], count, 0)
            options["points"] = padded
    sites = _primitives(graph.bindings)
    if sites and target != "numpy":
        rule = sites[0].rule
        raise ExportError(
            f"{inner.where}: {rule.name} ({rule.source}) is a primitive of arrays, which Python computes; target {target!r} "
            "cannot call it: export to target 'numpy', or give it a body instead of @sd.primitive"
        )
    rules = rules_in_force(inner.rules).used_in([*primal.bindings, *graph.bindings])
    digest = ", ".join([f"graph {graph.digest()}", f"rules {rules.digest()}", *filter(None, [primal.notes.get(FOLLOWED)])])
    edges = _edges(primal, inner) if inner.differentiates else ""
    if target == "cupy" and inner.options.exact:
        options["exact"] = True

    inputs = graph.inputs

    def written(graph: Graph, checks: Graph | None, **told: Sizes) -> Source:
        """The file's text, but for the function in the user's structures."""
        most = UNROLLED if batch or target in ("cuda", "cupy") else -1 if target == "numpy" else IN_FILES
        loops = looped or target in ("python", "c", "cuda")
        program = program_of(graph, inner.options, name, None if batch else checks, loops, most)
        nodes = _nodes(program)
        opaque = next((str(getattr(i.params, "__name__", "?")) for i in nodes if i.op == "call"), None)
        if opaque is not None:
            raise ExportError(
                f"{inner.where}: {opaque} is an opaque primitive and cannot be exported; give it a body and a rule"
            )
        operations = program.operations()
        if batch:
            padded = tuple(axes) + (None,) * (len(program.inputs) - len(axes))
            plan = plan_of(program, "batch", padded, (function.out_axes,) * len(program.outputs))
            if checks is not None:
                options["before"] = check_plan_of(checks, padded[: len(checks.inputs)])
                operations += options["before"].program.operations()
                nodes = [*nodes, *options["before"].program.nodes]
        else:
            plan = plan_of(program)
        dtypes = ", ".join(sorted({_dtype(leaf.dtype) for leaf in (*program.inputs, *program.outputs)}))
        before = getattr(program, "operations_before", None) or graph.operations()
        shared = f" ({before} before sharing)" if isinstance(program, Program) and not is_nest(program) else ""
        made_from = f"from {inner.name} ({inner.where}). Do not edit; regenerate with"
        lines = [
            f"Generated by symdiff {__version__}, format {FORMAT}, {made_from}",
            f"  {command or _command(function, args, kwargs, target, call)}",
            f"{digest}, {dtypes}. {_needs(target, nodes)} Belongs to the project that generated it.",
            f"{_counted(operations, 'operation')}{_by_loops(operations, program)}{shared}"
            f"{_work(plan) if target != 'cupy' else _kept(plan)}.",
        ]
        if bounds := _bounds(sized):
            lines.append(f"For any {bounds}.")
        lines += _imported(sites)
        if edges:
            shown = textwrap.wrap(f"May be infinite or NaN where {edges}.", 120, subsequent_indent="  ", break_long_words=False)
            lines += shown
        return source_of(
            plan, target, name=name, style="export", header=lines,
            doc=_doc(inner, plan, _defaults(inner, call), hidden, plain, len(inputs)), result=shape, **options, **told,
        )  # fmt: skip

    sized = with_free_sizes(graph, name)
    if sized is None:
        source = written(graph, checks)
    elif target == "numpy" and not has_loops(sized.bindings):
        source = sized_source_of(sized, checks, lambda *example: written(*example[:2], sizes=example[2]))
    else:
        source = written(sized, checks)
    if plain:
        return source
    doc = f"{_what(inner)} of {inner.name}, in its own structures; `{name}` takes and returns their leaves."
    made = None if exports_plainly(result) else result
    if made is None and not any(is_exported_structure(a.value) for a in arguments):
        doc = f"{_what(inner)} of {inner.name}, with its own arguments; `{name}` takes numbers and arrays only."
    doc += f" Made with {settings}." if (settings := _defaults(inner, call)) else ""
    return with_structures(source, inner.__name__, arguments, made, _described(inner, doc), inner.where)


def _raises(primal: Graph) -> bool:
    """Whether paths of a function end in an exception."""
    branches = branches_of(primal)
    return branches is not None and bool(branches.raised)


def _refuse_sizes(target: str, points: bool, where: str) -> None:
    """Raise where a file cannot be for any size."""
    if points:
        raise ExportError(f"{where}: a vmap is exported for numbers in place of named sizes; its points may be any number")
    if target not in ("numpy", "python", "c"):
        raise ExportError(f"{where}: target {target!r} has no named sizes yet; numpy, python and c have them")


def _bounds(graph: Graph | None) -> str:
    """The bounds of a graph's sizes, as a header has them."""
    return "" if graph is None else ", ".join(size.bounds() for size in sizes_in(tuple(leaf.shape for leaf in graph.inputs)))


def _arguments(function: Any, call: Call, graph: Graph, primal: Graph) -> list[Argument]:
    """The arguments of a transform: those of its function, with a `Leaf` at each input, what it adds, and captured arrays.

    Before an argument that has to be given, others have no default: the first that the file was made without, and those after
    it, are given by name.
    """
    hidden, names = hidden_of(graph), [leaf.name for leaf in graph.inputs]
    count = len(call.traced)
    captured = {id(a.array): Leaf(names[count + k], count + k) for k, a in enumerate(hidden.arrays)}
    keyed = _sees_keys(function, call, primal)
    own = [replace(a, keyed=keyed) for a in _own_arguments(function, call, captured)]
    if function.extra:
        more = structures.structure(function.extra_structure(call, primal))
        start = count + len(hidden.arrays)
        added = _marked(more, names[start:], start)
        left = next((k for k, a in enumerate(own) if isinstance(a.value, Default)), len(own))
        own = [replace(a, default="") for a in own[:left]] + [replace(a, named=True) for a in own[left:]]
        own.append(Argument(added.name if isinstance(added, Leaf) else function.extra_name, added, checked=False))
    by_name = any(a.default for a in own)
    return own + [Argument(leaf.name, leaf, named=by_name) for leaf in captured.values()]


def _sees_keys(function: Any, call: Call, primal: Graph) -> bool:
    """Whether the function's graph is another one where the keys of its dicts come in another order, or are of other types.
    Refuses functions that look at the order of arguments given by name.
    """

    def sees(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        try:
            graph: Graph = function._traced(Call(function, args, kwargs), None, "merge").graph
        except Exception as error:  # it takes no others
            forgive_error(error)  # type: ignore[arg-type]
            return True
        return graph.digest() != primal.digest()

    given, named = structures.unflatten(call.tree, call.leaves)
    parameters = () if function.signature is None else function.signature.parameters.values()
    for order in structures.ORDERS if any(p.kind is p.VAR_KEYWORD for p in parameters) else ():
        if sees(given, {name: named[name] for name in order([*named])}):
            raise ExportError(
                f"{function.where}: {function.name} looks at the order of arguments that are given by name, which a file's "
                "function cannot see; let it take a dict"
            )
    return any(sees(*other) for other in structures.structures_otherwise_keyed(call.tree, call.leaves))


def _own_arguments(function: Any, call: Call, captured: dict[int, Leaf]) -> list[Argument]:
    """The arguments of a function in its own order; defaults that are captured arrays are taken from these."""
    places = {i: position for position, i in enumerate(call.traced)}
    marked = [Leaf(traced_path_name(call.paths[i]), places[i]) if i in places else leaf for i, leaf in enumerate(call.leaves)]
    args, kwargs = structures.unflatten(call.tree, marked)
    given = dict(zip(traced_argument_names(function.f, len(args)), args, strict=False)) | kwargs
    found = []
    for p in [] if function.signature is None else function.signature.parameters.values():
        default = "" if p.default is p.empty else exported_default(p.default)
        named = p.kind is p.KEYWORD_ONLY
        if p.name in given:
            kind = "" if not default or isinstance(p.default, (int, float, complex)) else "Any"
            found.append(Argument(p.name, given.pop(p.name), default, named, kind=kind))
        elif id(p.default) in captured:
            found.append(Argument(p.name, captured.pop(id(p.default)), "", named))
        elif default:
            found.append(Argument(p.name, Default(p.default), default, named))
    return found + [Argument(n, value, "", n in kwargs) for n, value in given.items()]


def _marked(tree: Any, names: Sequence[str], start: int = 0) -> Any:
    """A structure with a `Leaf` at each place, of these names and from a position on."""
    leaves = [Leaf(name, k) for k, name in enumerate(names, start)]
    return leaves[0] if tree is None else structures.unflatten(tree, leaves)


def _work(plan: Any) -> str:
    if not isinstance(plan, ArrayPlan):
        return ""
    arrays = [*plan.slots, *plan.scratch.values(), *plan.partial.values()]
    if any(isinstance(cells, Example) for _, cells in arrays):
        return f", {_counted(len(arrays), 'work array')}"
    return f", {_counted(plan.work_bytes(), 'byte')} of work arrays"


def _kept(plan: Any) -> str:
    """What a CuPy function keeps on the device."""
    if not isinstance(plan, ArrayPlan):
        return ""
    return f", {_counted(sum(bytes_of_code(code) * cells for code, cells in plan.slots), 'byte')} of work arrays"


def _edges(primal: Graph, function: Any) -> str:
    """Where the derivative may be infinite or NaN although the value is finite: the edges of operations' domains, where no
    known fact keeps their arguments from them.
    """
    partials = Partials(Builder(), Facts(primal.bindings), function._rules())
    found = {
        f"{locus.condition} in {binding.op}({', '.join(locus.parameters)}) of {binding.origin}": None
        for binding in primal.bindings
        for locus in known_column(binding).loci
        if locus.kind == "edge" and partials.is_singular(binding) and not partials.is_root_of_squares(binding)
    }
    shown = list(found)[:EDGES]
    return "; ".join(shown) + (f"; and at {len(found) - EDGES} more places" if len(found) > EDGES else "")


def _by_loops(operations: Any, program: Program | Fused) -> str:
    """Which numbers of rounds a count of operations speaks of."""
    given = {size.name for size in sizes_in(tuple(leaf.shape for leaf in program.inputs))}
    told = {name for names in Amount.of(operations).terms for name in names} - given
    return f", where loops tell {', '.join(sorted(told))}" if told else ""


def _counted(count: int, noun: str) -> str:
    return f"{count!s} {noun}{'' if count == 1 else 's'}"


def _dtype(code: str) -> str:
    return {"?": "bool", "f": "float32", "d": "float64", "F": "complex64", "D": "complex128"}[code]


def _command(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], target: str, call: Any) -> str:
    """The command that makes the file again: the command line's where it can say it, else Python's."""
    inner = function.inner if isinstance(function, Vectorised) else function
    f = inner.f
    place = f"{getattr(f, '__module__', '__main__')}:{getattr(f, '__qualname__', '<')}"
    leaves = zip(call.paths, call.leaves, strict=True)
    shapes = [_spec_text(path, leaf, k in call.traced) for k, (path, leaf) in enumerate(leaves)]
    named = "<" not in place and not place.startswith("__main__") and place.isprintable()
    plain = inner is function and not kwargs and inner.options == DEFAULT
    plain = plain and not inner.frozen and inner.rules is None and inner.scalarize is None and inner.paths is None
    mode = getattr(inner, "mode", "auto")
    if plain and named and None not in shapes and inner.suffix and mode == "auto":
        words = ["symdiff", "export", place]
        for text in shapes:
            words += ["--arg", str(text)]
        wrt = ",".join(call.paths[i] for i in call.wrt)
        words += ["--wrt", wrt, *([] if inner.suffix == "grad" else ["--kind", inner.suffix])]
        words += ["--order", str(inner.order)] if getattr(inner, "order", 1) > 1 else []
        return shlex.join([*words, "--target", target])
    options = [f"argnums={inner.argnums!r}"] if inner.differentiates and inner.argnums != 0 else []
    options += [f"mode={mode!r}"] if mode != "auto" else []
    options += [f"order={inner.order}"] if getattr(inner, "order", 1) > 1 else []
    options += [f"{name}=True" for name in ("exact", "fastmath") if getattr(inner.options, name)]
    options += [f"scalarize={inner.scalarize}"] if inner.scalarize is not None else []
    options += [f"paths={inner.paths!r}"] if inner.paths is not None else []
    options += ["frozen=True"] if inner.frozen else []
    options += ["rules=rules"] if inner.rules is not None else []
    shown = place.replace(":", ".") if named else inner.name
    text = f"symdiff.{inner.suffix}({', '.join([shown, *options])})" if inner.suffix else shown
    if inner is not function:
        axes = [f"in_axes={function.in_axes!r}"]
        axes += [f"out_axes={function.out_axes!r}"] if function.out_axes != function.in_axes else []
        text = f"symdiff.vmap({', '.join([text, *axes, *([] if inner.suffix else options)])})"
    examples = [*map(_example, args), *(f"{name}={_example(a)}" for name, a in kwargs.items())]
    return f"{text}.export(path, {', '.join(examples)}, target={target!r})"


def _spec_text(path: str, leaf: Any, traced: bool) -> str | None:
    if isinstance(leaf, (bool, np.bool_)) or not path.isidentifier() or (isinstance(leaf, np.ndarray) and not traced):
        return None
    if isinstance(leaf, (int, np.integer)):
        return f"{path}=int:{leaf}"
    if isinstance(leaf, str):
        return f"{path}=str:{leaf}" if leaf.isidentifier() else None
    dtype = own_dtype(leaf) or getattr(leaf, "dtype", complex if isinstance(leaf, complex) else float)
    sizes = ",".join(str(n) for n in getattr(leaf, "shape", ())) or "scalar"
    kind = np.dtype(dtype).name
    return f"{path}={sizes}" + ("" if kind == "float64" else f":{kind}")


class _Example:
    """A leaf of an argument as the text of an example of it: its shape, or the values that the file was made for."""

    def __init__(self, leaf: Any) -> None:
        shape = getattr(leaf, "shape", None)
        if isinstance(leaf, np.ndarray) and leaf.dtype.kind in "iub":
            dtype = "" if leaf.dtype in (np.dtype(int), np.dtype(bool)) else f", dtype={leaf.dtype.name!r}"
            self.text = f"numpy.array({leaf.tolist() if leaf.size <= SHOWN else ...!r}{dtype})"
        elif shape is None or isinstance(leaf, (np.integer, np.bool_)):
            plain = leaf if shape is None else leaf.item()
            self.text = literal(plain) if is_literal(plain) else repr(plain)
        else:
            dtype = np.dtype(leaf.dtype).name
            sizes = tuple(str(n) if isinstance(n, Extent) else n for n in shape)
            self.text = f"symdiff.Spec({sizes}{'' if dtype == 'float64' else f', {dtype!r}'})"

    def __repr__(self) -> str:
        return self.text


def _example(arg: Any) -> str:
    """An argument as the text of an example of it, its classes by their modules."""
    return _text_of(structures.map_leaves(_Example, arg))


def _text_of(value: Any) -> str:
    if type(value) is dict:
        return "{" + ", ".join(f"{key!r}: {_text_of(v)}" for key, v in value.items()) + "}"
    if type(value) is list:
        return f"[{', '.join(map(_text_of, value))}]"
    if type(value) is tuple:
        return tuple_text([_text_of(v) for v in value])
    fields = structures.fields_of(value)[0] if dataclasses.is_dataclass(value) else getattr(value, "_asdict", dict)()
    if not fields:
        return repr(value)
    named = ", ".join(f"{name}={_text_of(v)}" for name, v in fields.items())
    return f"{type(value).__module__}.{type(value).__qualname__}({named})"


def _defaults(function: Any, call: Any) -> str:
    """What is part of the file: arguments at their defaults (rate=2.0), settings (n=3), arrays of integers (y=int64[30])."""
    given = {path.partition(".")[0].partition("[")[0] for path in call.paths}
    parameters = function.signature.parameters.values() if function.signature is not None else ()
    parts = [f"{p.name}={p.default!r}" for p in parameters if p.default is not p.empty and p.name not in given]
    fixed = [(path, leaf) for i, (path, leaf) in enumerate(zip(call.paths, call.leaves, strict=True)) if i not in call.traced]
    settings = [f"{path}={_Example(leaf)}" for path, leaf in fixed if path.isidentifier() and not isinstance(leaf, np.ndarray)]
    arrays = [f"{path}={leaf.dtype.name}{list(leaf.shape)}" for path, leaf in fixed if isinstance(leaf, np.ndarray)]
    return ", ".join([*parts, *settings, *arrays])


def _what(function: Any) -> str:
    if function.suffix == "taylor":
        return f"Coefficients of the Taylor series to order {function.order}"
    if getattr(function, "order", 1) > 1:
        return f"Derivative of order {function.order}"
    return {
        "grad": "Gradient", "value_and_grad": "Value and gradient", "jacobian": "Jacobian", "hessian": "Hessian",
        "jvp": "Value and its tangent", "vjp": "Value and cotangents", "hvp": "Hessian times vector",
        "derivative": "Derivative", "wirtinger": "Derivatives by z and by its conjugate",
    }.get(function.suffix, "Value")  # fmt: skip


def _doc(function: Any, plan: Any, defaults: str, hidden: Hidden, whole: bool, given: int | None = None) -> str:
    program = plan.program
    batch = plan.kind == "batch"
    own = len(program.inputs) if given is None else given
    inputs, outputs = (
        ", ".join(_described_leaf(leaf, axis) for leaf, axis in zip(leaves, axes, strict=False))
        for leaves, axes in (
            (program.inputs[:own], plan.in_axes if batch else [None] * len(program.inputs)),
            (program.outputs, plan.out_axes if batch else [None] * len(program.outputs)),
        )
    )
    first = f"{_what(function)} of {function.name}. Takes {inputs}; returns {outputs}."
    captured = [i.name for i in program.inputs[hidden.place : hidden.place + len(hidden.arrays)]]
    if captured:
        first += f" {function.name} itself captures {', '.join(captured)}."
    if defaults:
        first += f" Made with {defaults}."
    return _described(function, first) if whole else first


def _described_leaf(leaf: Any, axis: int | None) -> str:
    """An input or output by name, dtype and shape, with the axis of a batch's points."""
    points = [] if axis is None else ["n"]
    shape = [*points, *map(str, leaf.shape)] if axis == 0 else [*map(str, leaf.shape), *points]
    return f"{leaf.name} {_dtype(leaf.dtype)}" + (f"[{', '.join(shape)}]" if shape else "")


def _described(function: Any, first: str) -> str:
    """A docstring with the user's own after its first line."""
    own = (function.__doc__ or "").strip()
    return first if not own else f"{first}\n\n{textwrap.dedent(own)}"


@stored.written
def write_export_file(path: Any, source: Source) -> None:
    """Write generated text, and its C header beside it."""
    if source.companion:
        header = _place(path).with_suffix(".h")
        if header == _place(path):
            raise ExportError(f"{path}: its header would take its place; give the C file another suffix than .h")
        write(header, source.companion)
    write(path, source.text)


def write(path: Any, text: str) -> None:
    """Write a file whole or not at all: to a temporary neighbour first, then moved into place.

    A new file has the permissions that the umask leaves, an old one keeps its own, and a link leads to the new text.
    """
    target = _place(path)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        mode = os.stat(target).st_mode if os.path.lexists(target) else None
        if mode is not None and not stat.S_ISREG(mode):
            raise ExportError(f"{path}: is no file that could be written anew")
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if mode is None else 0o600)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
                file.write(text)
            if mode is not None:
                os.chmod(temporary, stat.S_IMODE(mode))
            os.replace(temporary, target)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise ExportError(f"{path}: cannot be written: {error.strerror}") from None


def _place(path: Any) -> Path:
    """Where a file lies that is written to a path, behind links."""
    try:
        place = Path(os.path.realpath(path))
        place.with_name(place.name)
    except (TypeError, ValueError) as error:
        raise ExportError(f"{path!r}: cannot be written: {error}") from None
    return place


def export(function: Any, path: Any, *args: Any, target: str | None = None, **kwargs: Any) -> None:
    """Write a transform as a stand-alone file; the same as its method `export`. Graphs and SymPy's expressions as they are."""
    if isinstance(function, Graph) or is_of_sympy(function):
        function = Plain(function)
    if not hasattr(function, "export"):
        raise ArgumentError(
            f"{user_line()}: export takes a transform as sd.grad(f), then a path; got {type(function).__name__}"
        )
    function.export(path, *args, target=target, **kwargs)
