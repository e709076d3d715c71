"""Plan to plain Python: straight-line arithmetic on Python's own floats and complex numbers.

Assumes a point Plan whose values are float64, complex128 or Boolean. Guarantees the Program's order of operations, and
that outputs are written only after every input was read. Refuses other dtypes and operations that plain Python lacks
for complex numbers with `BackendError`; errors of Python's `math` (1/0, log(0)) are the caller's to handle.
"""

import cmath
import math
import re
import struct
from typing import Any

import numpy as np

from symdiff.codegen.expressions import ATOM, emit_statements, leaf_texts, parenthesis_levels
from symdiff.codegen.names import Names, emitted_argument_names, emitted_cell_names
from symdiff.codegen.nest_heads import refuse_heads
from symdiff.codegen.source import MISS, Source
from symdiff.errors import BackendError
from symdiff.lowering.plan import Plan
from symdiff.lowering.program import Output, Program, is_leaf
from symdiff.vocabulary.literals import number_literal
from symdiff.vocabulary.ops import OPS, is_complex
from symdiff.vocabulary.traits import operations

INDENT = "    "
# Spellings beyond one function or operator, for real operands, with NumPy's treatment of NaN and of ties: numbers of which none
# is larger, nor are equal, have a NaN for a sum. Linters forbid comparing a number with itself.
_REAL = {
    "sign": "(1.0 if {0} > 0 else -1.0 if {0} < 0 else {0}*0.0 + 0.0)",
    "floor": "(math.floor({0}) + 0.0)",
    "ceil": "math.copysign(math.ceil({0}), {0})",
    "trunc": "math.copysign(math.trunc({0}), {0})",
    "rint": "math.copysign(round({0}), {0})",
    "max": "({0} if {0} >= {1} else {1} if {0} < {1} else {0} + {1})",
    "min": "({0} if {0} <= {1} else {1} if {0} > {1} else {0} + {1})",
    "fmax": "({0} if {0} >= {1} or math.isnan({1}) else {1})",
    "fmin": "({0} if {0} <= {1} or math.isnan({1}) else {1})",
    "mod": "({0} % {1})",
    "floordiv": "({0} // {1})",
    "logaddexp": "({0} + math.log(2.0) if {0} == {1} else max({0}, {1}) + math.log1p(math.exp(-abs({0} - {1}))))",
    "logaddexp2": "({0} + 1.0 if {0} == {1} else max({0}, {1}) + math.log2(1.0 + 2.0**-abs({0} - {1})))",
}
_KNOWN: dict[str, object] = {  # the globals of a function that runs in this process
    "MISS": MISS, "ndarray": np.ndarray, "float64": np.float64, "complex128": np.complex128, "bool_": np.bool_,
    "float64_dtype": np.dtype("f8"), "complex128_dtype": np.dtype("c16"), "bool__dtype": np.dtype("?"),
    "array": np.array, "math": math, "cmath": cmath,
}  # fmt: skip
_MODULE = re.compile(r"\b(c?math)\.")
_WRAPPED = operations("compares", "logic") | {"select"}


def _template(program: Program, position: int) -> str | None:
    """How plain Python spells one operation on numbers of these dtypes; None where it does not."""
    node = program.nodes[position]
    if node.op == "call":
        return None
    row = OPS[node.op]
    if node.op == "select":
        return row.python
    on_complex = any(is_complex(program.nodes[o].dtype) for o in node.operands)
    return row.python_complex if on_complex else _REAL.get(node.op, row.python)


def lacking_in_python(program: Program) -> str:
    """Why plain Python does not compute a program; "" where it does."""
    if has_single_precision(program):
        return "the python backend computes in double precision; float32 and complex64 run with NumPy"
    for position, node in enumerate(program.nodes):
        if node.op == "loop" and (problem := lacking_in_python(node.params.body)):
            return problem
        if is_leaf(node) or node.op not in OPS or _template(program, position) is not None:
            continue
        if node.op == "call":
            return f"{getattr(node.params, '__name__', 'a primitive')} is opaque; it runs with NumPy only"
        on_complex = any(is_complex(program.nodes[o].dtype) for o in node.operands)
        return f"{node.op} of {'complex' if on_complex else 'real'} numbers has no plain Python spelling"
    return refuse_heads(program, "plain Python")


def has_single_precision(program: Program) -> bool:
    """Whether a program computes with float32 or complex64, or is given them, which are NumPy's."""
    return any(v.dtype in "fF" for values in (program.nodes, program.inputs, program.outputs) for v in values)


def check_python(program: Program) -> None:
    """Raise `BackendError` for a program that plain Python does not compute."""
    problem = lacking_in_python(program)
    if problem:
        raise BackendError(problem)


def spelling(program: Program, position: int) -> tuple[str, int, tuple[int, ...]]:
    """Template, level and operand levels of one instruction."""
    node = program.nodes[position]
    template = _template(program, position)
    assert template is not None  # by `check_python`
    arity = OPS[node.op].arity
    if node.op in _WRAPPED:
        return f"({template})", ATOM, (ATOM,) * arity
    on_complex = any(is_complex(program.nodes[o].dtype) for o in node.operands)
    if node.op == "pow" and on_complex:
        return f"({template})", ATOM, (ATOM, ATOM)
    if (node.op in _REAL and not on_complex) or node.op in ("conj", "real", "imag", "cast"):
        return template, ATOM, (ATOM,) * arity
    level, needed = parenthesis_levels(node.op, arity)
    return template, level, needed


def called_modules(text: str) -> list[str]:
    """The modules that a spelling or a literal calls."""
    return _MODULE.findall(text)


def literal(value: Any) -> str:
    """A constant as Python text with all its bits."""
    return number_literal(value, "math")


def emit(plan: Plan, name: str) -> Source:
    """The Plan as a Python function for calls with arrays in this process; `point_files` has stand-alone files."""
    program = plan.program
    packed = {f"pack_{n}d": struct.Struct(f"{n}d").pack_into for n in sorted({_doubles(o) for o in program.outputs} - {0})}
    names = Names([*_KNOWN, *packed])
    arguments = emitted_argument_names(program.inputs, names)
    cells = [emitted_cell_names(leaf, a, names) for leaf, a in zip(program.inputs, arguments, strict=True)]
    entry = names.fresh(name)
    lines = [f"def {entry}({', '.join([*arguments, 'out=None'])}):"]
    dtype = {"d": "float64", "D": "complex128", "?": "bool_"}
    for leaf, argument in zip(program.inputs, arguments, strict=True):
        kind = dtype[leaf.dtype]
        if leaf.shape:
            order = f" or not {argument}.flags.c_contiguous" if len(leaf.shape) > 1 else ""
            lines.append(
                f"{INDENT}if {argument}.__class__ is not ndarray or {argument}.dtype is not {kind}_dtype "
                f"or {argument}.shape != {leaf.shape!r}{order}:\n{INDENT * 2}return MISS"
            )
        else:
            scalar = "float" if leaf.dtype == "d" else "complex"
            lines.append(f"{INDENT}if {argument}.__class__ is not {scalar}:")
            lines.append(f"{INDENT * 2}if {argument}.__class__ is not {kind}:\n{INDENT * 3}return MISS")
            lines.append(f"{INDENT * 2}{argument} = {scalar}({argument})")
    for leaf, argument, own in zip(program.inputs, arguments, cells, strict=True):
        if leaf.shape and own:
            flat = argument if len(leaf.shape) == 1 else f"{argument}.ravel()"
            lines.append(f"{INDENT}{_targets(own)} = {flat}.tolist()")
    leaves = leaf_texts(program, lambda place, cell: cells[place][cell], lambda node: literal(node.params))
    ends = lambda k, condition: [f"if {condition}:", f"{INDENT}return MISS"]  # noqa: E731
    steps, values = emit_statements(program, leaves, lambda i: spelling(program, i), names, ends=ends)
    lines += [INDENT + step for step in steps]
    lines += _results(program, values, names)
    text = "\n".join(lines) + "\n"
    return Source(text, entry, "python", (*_KNOWN.items(), *packed.items()))


def _doubles(output: Output) -> int:
    """The cells of an array of doubles, which are written all at once."""
    return len(output.cells) if output.dtype == "d" and output.shape else 0


def _targets(own: list[str]) -> str:
    return ", ".join(own) + ("," if len(own) == 1 else "")


def _results(program: Program, values: dict[int, str], names: Names) -> list[str]:
    several = len(program.outputs) > 1
    lines = []
    fresh = []
    for output in program.outputs:
        fresh.append(_fresh(output, values))
    arrays = [f"{fresh_array}" for fresh_array in fresh]
    lines.append(f"{INDENT}if out is None:")
    lines.append(f"{INDENT * 2}return {', '.join(arrays)}")
    targets = [names.numbered("out") for _ in program.outputs] if several else ["out"]
    if several:
        lines.append(f"{INDENT}if out.__class__ is not tuple or len(out) != {len(targets)}:\n{INDENT * 2}return MISS")
        lines.append(f"{INDENT}{', '.join(targets)} = out")
    dtype = {"d": "float64", "D": "complex128", "?": "bool_"}
    for output, target in zip(program.outputs, targets, strict=True):
        checks = [f"{target}.__class__ is not ndarray", f"{target}.dtype is not {dtype[output.dtype]}_dtype"]
        checks.append(f"{target}.shape != {output.shape!r}")
        if several or not output.shape or output.dtype != "d":
            # A single float64 array needs no more: pack_into refuses what is not contiguous and writeable.
            checks.append(f"not {target}.flags.writeable")
            if output.shape:
                checks.append(f"not {target}.flags.c_contiguous")
        lines.append(f"{INDENT}if {' or '.join(checks)}:\n{INDENT * 2}return MISS")
    for output, target in zip(program.outputs, targets, strict=True):
        lines.append(INDENT + _store(output, target, values))
    lines.append(f"{INDENT}return out")
    return lines


def _cells(output: Output, values: dict[int, str]) -> str:
    return ", ".join(values[c] for c in output.cells)


def _fresh(output: Output, values: dict[int, str]) -> str:
    kind = {"d": "float64", "D": "complex128", "?": "bool_"}[output.dtype]
    if output.shape == ():
        return f"{kind}({values[output.cells[0]]})"
    flat = f"array([{_cells(output, values)}], {kind}_dtype)"
    return flat if len(output.shape) == 1 else f"{flat}.reshape({output.shape!r})"


def _store(output: Output, target: str, values: dict[int, str]) -> str:
    if output.shape == ():
        return f"{target}[()] = {values[output.cells[0]]}"
    count = len(output.cells)
    if output.dtype == "d" and count:
        return f"pack_{count}d({target}, 0, {_cells(output, values)})"
    flat = target if len(output.shape) == 1 else f"{target}.reshape(-1)"
    return f"{flat}[:] = [{_cells(output, values)}]"
