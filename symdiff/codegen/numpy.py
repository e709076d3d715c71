"""Plan to NumPy: scalar arithmetic for one point, in-place ufuncs over blocks for a batch.

Assumes a Plan of any dtypes. Guarantees IEEE results without warnings, the dtypes of the Program, and outputs that are
written only after the inputs they overlap were read. Refuses nothing that a Program can hold, but exporting opaque
primitives.
"""

import threading
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from symdiff.codegen import numpy_batch
from symdiff.codegen.expressions import ATOM, emit_statements, leaf_texts, parenthesis_levels
from symdiff.codegen.names import Names, emitted_argument_names, emitted_cell_names
from symdiff.codegen.numpy_batch import OWN
from symdiff.codegen.source import MISS, Source
from symdiff.codegen.text import dtype_text
from symdiff.ir.node import Node
from symdiff.lowering.plan import Plan
from symdiff.lowering.program import Program
from symdiff.lowering.walks import uses_of
from symdiff.vocabulary.literals import number_literal
from symdiff.vocabulary.operation import scipy_special
from symdiff.vocabulary.ops import OPS

INDENT = "    "
PLACES = ("{0}", "{1}", "{2}", "{3}")
_WRAPPED = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}


def emit(plan: Plan, *, name: str, style: str = "runtime") -> Source:
    """The Plan as a NumPy function that takes arguments in the program's own form; stand-alone files are `point_files`'."""
    program = plan.program
    calls = called(program.nodes)
    special = any(OPS[i.op].is_special for i in program.nodes)
    known = (*emitted_globals(program.nodes, special), ("_local", threading.local()))
    if plan.kind == "batch":
        return replace(numpy_batch.emit(plan, name=name, calls=calls), names=known)
    names = Names((*OWN, *calls.values()))
    arguments = emitted_argument_names(program.inputs, names)
    entry = names.fresh(name)
    lines = _point_lines(plan, arguments, names, len(program.outputs) > 1, calls)
    return Source("\n".join([f"def {entry}({', '.join([*arguments, 'out=None'])}):", *lines, ""]), entry, "numpy", known)


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


def joining_checks(program: Program) -> set[int]:
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


def _point_lines(plan: Plan, arguments: list[str], names: Names, several: bool, calls: Mapping[int, str]) -> list[str]:
    """The statements for one point: its results are numbers and new arrays, or fill `out`."""
    program = plan.program
    cells = [emitted_cell_names(leaf, a, names) for leaf, a in zip(program.inputs, arguments, strict=True)]
    lines = []
    for leaf, argument, own in zip(program.inputs, arguments, cells, strict=True):
        if leaf.shape == ():
            lines.append(f"{argument} = np.{dtype_text(leaf.dtype)}({argument})")
        elif own:
            lines.append(f"{', '.join(own)}, = {argument}{'' if len(leaf.shape) == 1 else '.ravel()'}")
    leaves = leaf_texts(program, lambda place, cell: cells[place][cell], lambda node: number_literal(node.params))
    steps, values = emit_statements(
        program,
        leaves,
        lambda i: spelling(program, i, calls),
        names,
        ends=lambda _, test: [f"if {test}:", f"{INDENT}return MISS"],
    )
    lines += ['with np.errstate(all="ignore"):', *(INDENT + step for step in steps)] if steps else []
    results = []
    for output in program.outputs:
        listed = [values[c] for c in output.cells]
        shaped = "" if len(output.shape) == 1 else f".reshape({output.shape!r})"
        kind = f"np.{dtype_text(output.dtype)}"
        results.append(f"np.array([{', '.join(listed)}], {kind}){shaped}" if output.shape else f"{kind}({listed[0]})")
    lines += ["if out is None:", f"{INDENT}return {', '.join(results)}"]
    targets = [f"out[{k}]" for k in range(len(results))] if several else ["out"]
    lines += [f"{target}[...] = {text}" for target, text in zip(targets, results, strict=True)]
    return [INDENT + line for line in [*lines, "return out"]]
