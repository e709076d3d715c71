"""Plain Python's words for one operation on its own floats and complex numbers.

Assumes values that are float64, complex128 or Boolean. Refuses other dtypes and operations that plain Python lacks for complex
numbers with `BackendError`; errors of Python's `math` (1/0, log(0)) are the caller's to handle.
"""

import re
from typing import Any

from symdiff.codegen.expressions import Spelled, parenthesis_levels
from symdiff.codegen.formulas import FORMULAS, formula_program
from symdiff.codegen.nest_heads import refuse_heads
from symdiff.errors import BackendError
from symdiff.lowering.program import Program, is_leaf, takes_complex
from symdiff.vocabulary.literals import number_literal
from symdiff.vocabulary.ops import OPS

_MODULE = re.compile(r"\b(c?math)\.")


def _template(program: Program, position: int) -> str | None:
    """How plain Python spells one operation on numbers of these dtypes; None where it does not."""
    node = program.nodes[position]
    row = OPS[node.op]
    return row.python_complex if node.op != "select" and takes_complex(program, node) else row.python


def lacking_in_python(program: Program) -> str:
    """Why plain Python does not compute a program; "" where it does."""
    if has_single_precision(program):
        return "the python backend computes in double precision; float32 and complex64 run with NumPy"
    for position, node in enumerate(program.nodes):
        if node.op == "loop" and (problem := lacking_in_python(node.params.body)):
            return problem
        if is_leaf(node) or node.op not in OPS:
            continue
        if node.op == "call":
            return f"{getattr(node.params, '__name__', 'a primitive')} is opaque; it runs with NumPy only"
        spelled = spelling(program, position)
        if spelled is None or (isinstance(spelled, Program) and lacking_in_python(spelled)):
            kind = "complex" if takes_complex(program, node) else "real"
            return f"{node.op} of {kind} numbers has no plain Python spelling"
    return refuse_heads(program, "plain Python")


def has_single_precision(program: Program) -> bool:
    """Whether a program computes with float32 or complex64, or is given them, which are NumPy's."""
    return any(v.dtype in "fF" for values in (program.nodes, program.inputs, program.outputs) for v in values)


def check_python(program: Program) -> None:
    """Raise `BackendError` for a program that plain Python does not compute."""
    problem = lacking_in_python(program)
    if problem:
        raise BackendError(problem)


def spelling(program: Program, position: int) -> Spelled | Program | None:
    """Template, level and operand levels of one instruction, or its formula; None where Python has neither."""
    node, template = program.nodes[position], _template(program, position)
    if template is not None:
        return Spelled(template, *parenthesis_levels(node.op, OPS[node.op].arity, template))
    return formula_program(node.op, node.dtype)[0] if node.op in FORMULAS and not takes_complex(program, node) else None


def called_modules(text: str) -> list[str]:
    """The modules that a spelling or a literal calls."""
    return _MODULE.findall(text)


def literal(value: Any) -> str:
    """A constant as Python text with all its bits."""
    return number_literal(value, "math")
