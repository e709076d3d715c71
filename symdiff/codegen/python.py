"""Plain Python's words for one operation on its own floats and complex numbers.

Assumes values that are float64, complex128 or Boolean. Refuses other dtypes and operations that plain Python lacks for complex
numbers with `BackendError`; errors of Python's `math` (1/0, log(0)) are the caller's to handle.
"""

import re
from typing import Any

from symdiff.codegen.expressions import ATOM, Spelled, parenthesis_levels
from symdiff.codegen.nest_heads import refuse_heads
from symdiff.errors import BackendError
from symdiff.lowering.program import Program, is_leaf, takes_complex
from symdiff.vocabulary.literals import number_literal
from symdiff.vocabulary.ops import OPS
from symdiff.vocabulary.traits import operations

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
    on_complex = takes_complex(program, node)
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
        on_complex = takes_complex(program, node)
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


def spelling(program: Program, position: int) -> Spelled:
    """Template, level and operand levels of one instruction."""
    node = program.nodes[position]
    template = _template(program, position)
    assert template is not None  # by `check_python`
    arity = OPS[node.op].arity
    if node.op in _WRAPPED:
        return f"({template})", ATOM, (ATOM,) * arity
    on_complex = takes_complex(program, node)
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
