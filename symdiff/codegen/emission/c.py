"""Plan to C99: a function over pointers to the cells of its arguments and results, with nothing but libm behind it.

Assumes a point Plan. Guarantees the Program's order of operations, and NumPy's treatment of NaN, ties and signed zeros where
the compiler keeps to IEEE 754. Refuses special functions but erf and erfc, opaque primitives, and functions that C99 lacks for
complex numbers, with `BackendError`.
"""

import math
from typing import Any

from symdiff.codegen.emission.expressions import ATOM, levels, statements
from symdiff.codegen.emission.names import Names
from symdiff.codegen.emission.text import wrapped
from symdiff.codegen.plan import Plan
from symdiff.codegen.program import Input, Output, Program
from symdiff.codegen.source import Source
from symdiff.errors import BackendError
from symdiff.ops import OPS, is_complex

INDENT = "    "
TYPES = {"d": "double", "f": "float", "D": "double complex", "F": "float complex", "?": "bool"}
_RESERVED = tuple(
    """
    auto break case char const continue default do double else enum extern float for goto if inline int long register
    restrict return short signed sizeof static struct switch typedef union unsigned void volatile while bool true false
    complex I main y0 y1 yn j0 j1 jn gamma
    """.split()
)
_PARTS = {"conj": "conj", "real": "creal", "imag": "cimag", "abs": "cabs"}
_COMPLEX = frozenset("exp sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh log sqrt pow".split())
_C99_SPECIAL = frozenset({"erf", "erfc"})
_LOGIC = {"and": "({0} && {1})", "or": "({0} || {1})", "xor": "(!{0} != !{1})", "not": "!{0}"}
_COMPARED = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
# NumPy's functions that C99 lacks: {t} is the type, {f} the suffix of libm's functions.
_HELPERS = {
    "sign": "static {t} np_sign({t} x)\n{{\n    return x > 0 ? 1 : x < 0 ? -1 : x == 0 ? 0 : x;\n}}\n",
    "max": "static {t} np_maximum({t} x, {t} y)\n{{\n    return x >= y || isnan(x) ? x : y;\n}}\n",
    "min": "static {t} np_minimum({t} x, {t} y)\n{{\n    return x <= y || isnan(x) ? x : y;\n}}\n",
    "mod": (
        "static {t} np_remainder({t} x, {t} y)\n{{\n    {t} r = fmod{f}(x, y);\n"
        "    if (r == 0)\n        return copysign{f}(0, y);\n    return (r < 0) != (y < 0) ? r + y : r;\n}}\n"
    ),
    "floordiv": (
        "static {t} np_floor_divide({t} x, {t} y)\n{{\n    if (y == 0)\n        return x / y;\n"
        "    {t} r = fmod{f}(x, y), q = (x - r) / y;\n    if (r != 0 && (r < 0) != (y < 0))\n        q -= 1;\n"
        "    if (q == 0)\n        return copysign{f}(0, x / y);\n"
        "    return floor{f}(q) + (q - floor{f}(q) > 0.5 ? 1 : 0);\n}}\n"
    ),
    "logaddexp": (
        "static {t} np_logaddexp({t} x, {t} y)\n{{\n    if (x == y)\n        return x + ({t})0.6931471805599453;\n"
        "    return (x > y ? x : y) + log1p{f}(exp{f}(-fabs{f}(x - y)));\n}}\n"
    ),
    "logaddexp2": (
        "static {t} np_logaddexp2({t} x, {t} y)\n{{\n    if (x == y)\n        return x + 1;\n"
        "    return (x > y ? x : y) + log1p{f}(exp2{f}(-fabs{f}(x - y))) * ({t})1.4426950408889634;\n}}\n"
    ),
}  # fmt: skip
_CALLED = {"max": "np_maximum", "min": "np_minimum", "sign": "np_sign", "mod": "np_remainder", "floordiv": "np_floor_divide",
           "logaddexp": "np_logaddexp", "logaddexp2": "np_logaddexp2"}  # fmt: skip


def emit(plan: Plan, *, name: str, style: str = "export", header: str = "", doc: str = "", result: str = "tuple") -> Source:
    """The Plan as a C file."""
    program = plan.program
    if plan.kind != "point":
        raise BackendError(f"{program.name}: the C target takes one point; call it in a loop over the points")
    names = Names(_RESERVED)
    entry = names.fresh(name)
    arguments = [names.fresh(leaf.name) for leaf in program.inputs]
    targets = [names.fresh(o.name) for o in program.outputs]
    leaves = {
        position: _leaf(program, position, arguments) for position, i in enumerate(program.instrs) if i.op in ("input", "const")
    }
    instrs = program.instrs
    steps, values = statements(
        program, leaves, lambda i: spelling(program, i), names, declare=lambda i: f"const {TYPES[instrs[i].dtype]} "
    )
    lines = [f"{INDENT}{step};" for step in steps]
    for output, target in zip(program.outputs, targets, strict=True):
        for cell, value in enumerate(output.cells):
            place = f"*{target}" if output.shape == () else f"{target}[{cell}]"
            lines.append(f"{INDENT}{place} = {values[value]};")
    head = _includes(program) + _helpers(program)
    signature = signature_text(program.inputs, program.outputs, arguments, targets, entry)
    comment = _comment(header, doc)
    text = "\n".join([comment, head, *signature, "{", *lines, "}"]) + "\n"
    return Source(text, entry, "c", companion=_declared(header, program, signature, entry))


def _declared(header: str, program: Program, signature: list[str], entry: str) -> str:
    """The header file of the function."""
    guard = f"{entry.upper()}_H"
    signature = [*signature[:-1], f"{signature[-1]};"]
    codes = {i.dtype for i in program.inputs} | {o.dtype for o in program.outputs}
    includes = [f"#include <{h}>" for h, used in (("complex.h", codes & {"D", "F"}), ("stdbool.h", codes & {"?"})) if used]
    parts = [_comment(header, ""), f"#ifndef {guard}", f"#define {guard}", "", *includes, *([""] if includes else [])]
    return "\n".join([*parts, *signature, "", f"#endif /* {guard} */"]) + "\n"


def signature_text(
    inputs: tuple[Input, ...], outputs: tuple[Output, ...], arguments: list[str], targets: list[str], entry: str
) -> list[str]:
    """The function's head: numbers by value, arrays as pointers to their cells in C order, results last."""
    parts = []
    for leaf, argument in zip(inputs, arguments, strict=True):
        kind = TYPES[leaf.dtype]
        parts.append(f"{kind} {argument}" if leaf.shape == () else f"const {kind} *restrict {argument}")
    parts += [f"{TYPES[o.dtype]} *restrict {target}" for o, target in zip(outputs, targets, strict=True)]
    return (
        wrapped(f"void {entry}(", parts, ")", "")
        if len(", ".join(parts)) < 80
        else [f"void {entry}(", *(f"{INDENT}{p}{',' if k < len(parts) - 1 else ')'}" for k, p in enumerate(parts))]
    )


def _leaf(program: Program, position: int, arguments: list[str]) -> str:
    instr = program.instrs[position]
    if instr.op == "const":
        return literal(instr.payload, instr.dtype)
    place, cell = instr.payload
    leaf = program.inputs[place]
    return arguments[place] if leaf.shape == () else f"{arguments[place]}[{cell}]"


def literal(value: Any, code: str) -> str:
    """A constant as C text with all its bits."""
    if isinstance(value, bool) or code == "?":
        return "true" if value else "false"
    if isinstance(value, complex):
        part = "f" if code == "F" else "d"
        return f"({literal(value.real, part)} + {literal(value.imag, part)} * I)"
    value = float(value)
    if not math.isfinite(value):
        return "NAN" if value != value else "INFINITY" if value > 0 else "-INFINITY"
    return repr(value) + ("f" if code in "fF" else "")


def spelling(program: Program, position: int) -> tuple[str, int, tuple[int, ...]]:
    """Template, level and operand levels of one instruction."""
    instr = program.instrs[position]
    op = OPS[instr.op]
    codes = [program.instrs[o].dtype for o in instr.operands]
    if instr.op == "call" or (op.is_special and instr.op not in _C99_SPECIAL):
        raise BackendError(f"{getattr(instr.payload, '__name__', op.name)} is not part of C99's libm")
    if instr.op in ("add", "sub", "mul", "div", "neg"):
        level, needed = levels(instr.op, op.arity)
        text = {"add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "div": "{0} / {1}", "neg": "-{0}"}[instr.op]
        return text, level, needed
    if instr.op in _COMPARED:
        return f"({{0}} {_COMPARED[instr.op]} {{1}})", ATOM, (ATOM, ATOM)
    if instr.op == "select":
        return "({0} ? {1} : {2})", ATOM, (ATOM, ATOM, ATOM)
    if instr.op in _LOGIC:
        return _LOGIC[instr.op], ATOM, (ATOM,) * op.arity
    if instr.op == "cast":
        return f"({TYPES[instr.dtype]}){{0}}", ATOM, (ATOM,)
    places = ", ".join(f"{{{k}}}" for k in range(op.arity))
    on_complex = any(is_complex(c) for c in codes)
    suffix = "f" if instr.dtype in "fF" else ""
    if instr.op in _PARTS and (on_complex or instr.op in ("conj", "real", "imag")):
        if not on_complex:
            return ("0.0" if instr.op == "imag" else "{0}"), ATOM, (ATOM,)
        return f"{_PARTS[instr.op]}{suffix}({places})", ATOM, (0,)
    if on_complex:
        if instr.op in _COMPLEX:
            return f"c{instr.op}{suffix}({places})", ATOM, (0,) * op.arity
        raise BackendError(f"{instr.op} of complex numbers is not part of C99")
    if instr.op in ("isnan", "isinf", "isfinite"):
        return f"{instr.op}({{0}})", ATOM, (0,)
    if instr.op in _CALLED:
        return f"{_CALLED[instr.op]}({places})", ATOM, (0,) * op.arity
    if op.c is None:
        raise BackendError(f"{instr.op} is not part of C99's libm")
    return f"{op.c}{suffix}({places})", ATOM, (0,) * op.arity


def _includes(program: Program) -> str:
    codes = {i.dtype for i in program.instrs} | {o.dtype for o in program.outputs}
    found = ["complex.h"] if codes & {"D", "F"} else []
    found += ["math.h"]
    found += ["stdbool.h"] if "?" in codes else []
    return "\n".join(f"#include <{h}>" for h in found) + "\n"


def _helpers(program: Program) -> str:
    texts = []
    for op in _HELPERS:
        codes = {i.dtype for i in program.instrs if i.op == op}
        if codes:
            single = codes == {"f"}
            texts.append(_HELPERS[op].format(t="float" if single else "double", f="f" if single else ""))
    return "\n".join(["", *texts]) if texts else ""


def _comment(header: str, doc: str) -> str:
    lines = [line.removeprefix("# ").removeprefix("#") for line in header.splitlines()]
    if doc:
        lines += ["", *doc.splitlines()]
    return "\n".join(["/*", *(f" * {line.replace('*/', '* /')}".rstrip() for line in lines), " */"]) + "\n"
