"""Plan to NumPy: scalar arithmetic for one point, in-place ufuncs over blocks for a batch.

Assumes a Plan of any dtypes. Guarantees IEEE results without warnings, the dtypes of the Program, and outputs that are
written only after the inputs they overlap were read. Refuses nothing that a Program can hold, but exporting opaque
primitives.
"""

import threading
from collections.abc import Mapping, Sequence

import numpy as np

from symdiff.codegen.exceptions import Raised
from symdiff.codegen.expressions import ATOM, emit_statements, leaf_texts, parenthesis_levels
from symdiff.codegen.names import Names, emitted_argument_names, emitted_cell_names
from symdiff.codegen.numpy_batch import batch_lines
from symdiff.codegen.source import MISS, PythonFile, Source
from symdiff.codegen.text import (
    Result,
    dtype_text,
    emits_flat_result,
    emitted_result,
    output_texts,
    packed,
    unpacked,
    wrapped_text,
)
from symdiff.ir.node import Node
from symdiff.lowering.plan import Plan
from symdiff.lowering.program import Input, Output, Program
from symdiff.lowering.walks import uses_of
from symdiff.vocabulary.literals import docstring_literal, number_literal
from symdiff.vocabulary.operation import scipy_special
from symdiff.vocabulary.ops import OPS

INDENT = "    "
PLACES = ("{0}", "{1}", "{2}", "{3}")
OWN = ("np", "out", "MISS", "special", "threading", "_local", "_array", "_check_out")
_ARRAY = '''def _array(x, kind):
    """x as an array of a dtype; classes of arrays with other operations are refused, and complex numbers for real ones."""
    if hasattr(x, "__array__") and not isinstance(x, np.generic) and type(x) not in (np.ndarray, np.memmap):
        raise TypeError(f"{type(x).__name__} is given; a plain NumPy array, as of np.asarray(x), expected")
    found = np.asarray(x)
    if found.dtype.kind not in ("biufc" if np.dtype(kind).kind == "c" else "biuf"):
        raise TypeError(f"numbers of {found.dtype} are given, {kind.__name__} expected")
    return np.require(found, kind, ["C", "A"])'''
_CHECK_OUT = '''def _check_out(arrays, *expected):
    """Raise ValueError where arrays for results are not writeable, of their shape and dtype, and apart."""
    for k, (a, (shape, kind)) in enumerate(zip(arrays, expected, strict=True)):
        if type(a) not in (np.ndarray, np.memmap) or a.shape != shape or a.dtype != kind or not a.flags.writeable:
            raise ValueError(f"out {k} is no writeable NumPy array of {kind.__name__} {shape}")
        if any(s == 0 and n > 1 for s, n in zip(a.strides, a.shape)) or any(np.shares_memory(a, b) for b in arrays[:k]):
            raise ValueError(f"out {k} has the same memory for several numbers")'''
_WRAPPED = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}


def emit(
    plan: Plan, *, name: str, style: str = "runtime", header: Sequence[str] = (), doc: str = "",
    result: Result | None = None, raised: Sequence[Raised] = (), before: Plan | None = None,
) -> Source:  # fmt: skip
    """The Plan as a NumPy function: style "runtime" for arguments already normalised, "export" for a stand-alone file.

    `raised` are the exceptions of the program's checks; a batch has these in a plan of their own, which runs `before`.
    """
    program = plan.program
    result = emitted_result(len(program.outputs)) if result is None else result
    calls = called(program.nodes)
    names = Names((*OWN, *calls.values(), *(("point", "error") if before is not None else ())))
    arguments = emitted_argument_names(program.inputs, names)
    entry = names.fresh(name)
    axes = plan.in_axes if plan.kind == "batch" else ()
    tests = emit_argument_checks(program.inputs, arguments, axes) if style == "export" else []
    if plan.kind == "batch":
        lines, threads = batch_lines(plan, arguments, names, result, calls, before, raised, emit_out_check if tests else None)
    else:
        lines, threads = _point_lines(plan, arguments, names, result, calls, style == "export", raised), False
    signature = wrapped_text(f"def {entry}(", [*arguments, "out=None"], "):", "")
    text = "\n".join([*signature, *docstring_literal(doc), *tests, *lines])
    special = any(OPS[i.op].is_special for i in [*program.nodes, *(before.program.nodes if before else ())])
    if style == "export":
        return emit_numpy_file(header, threads, special, [], text).source(entry, "numpy")
    return Source(text + "\n", entry, "numpy", (*emitted_globals(program.nodes, special), ("_local", threading.local())))


def emit_numpy_file(header: Sequence[str], threads: bool, special: bool, constants: list[str], text: str) -> PythonFile:
    """A stand-alone file of one function, with its threads' own store where it has one."""
    packages = ("import numpy as np", *(["from scipy import special"] if special else []))
    head = [*(["_local = threading.local()"] if threads else []), *(["\n".join(constants)] if constants else [])]
    return PythonFile(
        tuple(header), frozenset(["threading"] if threads else []), packages, tuple(head), (_ARRAY, _CHECK_OUT), (text,)
    )


def emit_out_check(outputs: Sequence[Output], shapes: Sequence[str], result: Result) -> list[str]:
    """The check of a given `out` in a stand-alone file."""
    parts = [f"({shape}, np.{dtype_text(o.dtype)})" for o, shape in zip(outputs, shapes, strict=True)]
    places = output_texts(result, "out")
    given = (
        "out"
        if isinstance(result, tuple) and emits_flat_result(result)
        else f"({', '.join(places)}{',' if len(places) == 1 else ''})"
    )
    return [f"{INDENT}if out is not None:", *wrapped_text("_check_out(", [given, *parts], ")", INDENT * 2)]


def emitted_globals(nodes: list[Node], special: bool) -> list[tuple[str, object]]:
    """The globals of a function that runs in this process."""
    functions = {id(i.params): i.params for i in nodes if i.op == "call"}
    known: list[tuple[str, object]] = [("np", np), ("MISS", MISS)]
    known += [(name, functions[key]) for key, name in called(nodes).items()]
    return [*known, ("special", scipy_special())] if special else known


def called(nodes: list[Node]) -> dict[int, str]:
    """The names of the opaque functions that nodes call, by identity: two may have one name."""
    found: dict[int, str] = {}
    names = Names()
    for node in nodes:
        if node.op == "call" and id(node.params) not in found:
            found[id(node.params)] = names.fresh(f"call_{getattr(node.params, '__name__', '')}")
    return found


def emit_argument_checks(inputs: tuple[Input, ...], arguments: list[str], axes: tuple[int | None, ...] = ()) -> list[str]:
    """Conversion and shape checks of an exported function's arguments."""
    lines = []
    for place, (leaf, argument) in enumerate(zip(inputs, arguments, strict=True)):
        axis = axes[place] if axes else None
        kind = dtype_text(leaf.dtype)
        lines.append(f"{INDENT}{argument} = _array({argument}, np.{kind})")
        if axis is None:
            condition, shown = f"{argument}.shape != {leaf.shape!r}", f"{leaf.shape!r}"
        else:
            sizes = [str(n) for n in leaf.shape]
            shown = ", ".join(["n", *sizes] if axis == 0 else [*sizes, "n"])
            part = "[1:]" if axis == 0 else "[:-1]"
            shown = f"({shown})" if leaf.shape else "(n,)"
            condition = f"{argument}.ndim != {len(leaf.shape) + 1}"
            condition += f" or {argument}.shape{part} != {leaf.shape!r}" if leaf.shape else ""
        lines.append(f"{INDENT}if {condition}:")
        lines.append(f'{INDENT * 2}raise ValueError(f"{argument} has shape {{{argument}.shape}}, {shown} expected")')
    return lines


def spelling(program: Program, position: int, calls: Mapping[int, str]) -> tuple[str, int, tuple[int, ...]]:
    """Template, level and operand levels of one node on NumPy scalars; `calls` are the names of opaque functions."""
    node = program.nodes[position]
    op = OPS[node.op]
    kind = dtype_text(node.dtype)
    if node.op == "call":
        places = ", ".join(f"{{{k}}}" for k in range(len(node.operands)))
        return f"np.{kind}({calls[id(node.params)]}({places}))", ATOM, (0,) * len(node.operands)
    if node.op in ("add", "sub", "mul", "div", "neg"):
        if all(program.nodes[o].op == "const" for o in node.operands):
            text = op.spelled(*PLACES[: op.arity])
            return (f"np.{kind}({text})" if node.dtype in "fF" else text), ATOM, (0,) * op.arity
        level, needed = parenthesis_levels(node.op, op.arity)
        return op.python or "", level, needed
    if node.op in _WRAPPED:
        return f"({{0}} {_WRAPPED[node.op]} {{1}})", ATOM, (ATOM, ATOM)
    if node.op == "select":
        return f"np.{kind}({{1}} if {{0}} else {{2}})", ATOM, (0, ATOM, 0)
    if node.op == "cast":
        return f"np.{kind}({{0}})", ATOM, (0,)
    if node.op in ("real", "imag"):
        return f"{{0}}.{node.op}", ATOM, (ATOM,)
    if not op.takes_out and op.item is None:
        return f"np.{kind}({op.spelled(*PLACES[: op.arity])})", ATOM, (0,) * op.arity  # a Python function gives a 0-d array
    return op.spelled(*PLACES[: op.arity]), ATOM, (0,) * op.arity


def _joining(program: Program) -> set[int]:
    """The operations that only join the conditions of checks."""
    uses = uses_of(program)
    found = set()
    stack = [check for check in program.checks if not uses[check]]
    while stack:
        position = stack.pop()
        node = program.nodes[position]
        if node.op in ("and", "or", "not"):
            found.add(position)
            stack += [o for o in node.operands if uses[o] == 1]
    return found


def _point_lines(
    plan: Plan, arguments: list[str], names: Names, result: Result, calls: Mapping[int, str], checked: bool,
    raised: Sequence[Raised],
) -> list[str]:  # fmt: skip
    program = plan.program
    cells = [emitted_cell_names(leaf, a, names) for leaf, a in zip(program.inputs, arguments, strict=True)]
    lines = emit_out_check(program.outputs, [repr(o.shape) for o in program.outputs], result) if checked else []
    for leaf, argument, own in zip(program.inputs, arguments, cells, strict=True):
        if leaf.shape == ():
            lines.append(f"{INDENT}{argument} = np.{dtype_text(leaf.dtype)}({argument})")
        elif own:
            flat = argument if len(leaf.shape) == 1 else f"{argument}.ravel()"
            tail = f"{',' if len(own) == 1 else ''} = {flat}"
            lines += wrapped_text("", own, tail, INDENT) if len(own) > 1 else [f"{INDENT}{own[0]}{tail}"]
    leaves = leaf_texts(program, lambda place, cell: cells[place][cell], lambda node: number_literal(node.params))
    texts = {leaf.name: argument for leaf, argument in zip(program.inputs, arguments, strict=True)}

    def ends(k: int, condition: str) -> list[str]:
        return [f"if {condition}:", INDENT + (f"raise {raised[k].text(texts)}" if raised else "return MISS")]

    joined = _joining(program)
    spelled = {"and": "({0} and {1})", "or": "({0} or {1})", "not": "(not {0})"}

    def spell(position: int) -> tuple[str, int, tuple[int, ...]]:
        if position in joined:
            op = program.nodes[position].op
            return spelled[op], ATOM, (ATOM,) * OPS[op].arity
        return spelling(program, position, calls)

    steps, values = emit_statements(program, leaves, spell, names, ends=ends)
    if steps:
        lines.append(f'{INDENT}with np.errstate(all="ignore"):')
        lines += [INDENT * 2 + step for step in steps]
    several = not isinstance(result, int)
    own_names = [names.fresh(o.name) for o in program.outputs]
    lines.append(f"{INDENT}if out is None:")
    fresh = []
    for output in program.outputs:
        kind = dtype_text(output.dtype)
        listed = [values[c] for c in output.cells]
        if output.shape == ():
            bare = program.nodes[output.cells[0]].op != "const"
            fresh.append([listed[0] if bare else f"np.{kind}({listed[0]})"])
        else:
            tail = f"], dtype=np.{kind})" + ("" if len(output.shape) == 1 else f".reshape({output.shape!r})")
            fresh.append(wrapped_text("np.array([", listed, tail, INDENT * 2))
    if not several:
        lines.append(f"{INDENT * 2}return {fresh[0][0].strip()}")
        lines += fresh[0][1:]
        target_names = ["out"]
    else:
        shown = []
        for own_name, parts in zip(own_names, fresh, strict=True):
            if len(parts) == 1 and len(parts[0].strip()) < 20:
                shown.append(parts[0].strip())
                continue
            lines.append(f"{INDENT * 2}{own_name} = {parts[0].strip()}")
            lines += parts[1:]
            shown.append(own_name)
        lines.append(f"{INDENT * 2}return {packed(result, shown, bare=True)}")
        lines.append(INDENT + unpacked(result, own_names, "out"))
        target_names = own_names
    for output, target in zip(program.outputs, target_names, strict=True):
        listed = [values[c] for c in output.cells]
        if output.shape == ():
            lines.append(f"{INDENT}{target}[()] = {listed[0]}")
        elif listed:
            tail = "]" if len(output.shape) == 1 else f"]).reshape({output.shape!r})"
            opening = "[" if len(output.shape) == 1 else "np.array(["
            lines += wrapped_text(f"{target}[...] = {opening}", listed, tail, INDENT)
    lines.append(f"{INDENT}return out")
    return lines
