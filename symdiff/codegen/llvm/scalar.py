"""Program to LLVM IR: straight-line code on numbers or on vectors of them.

Assumes a Program whose operations C99's libm has. Guarantees IEEE arithmetic in the Program's order (nothing is contracted
or reassociated), NumPy's treatment of NaN, ties and signed zeros, and that all inputs are read before an output is written.
What it has no lines for, such as opaque primitives and special functions that `functions` lacks, `lacking_in_llvm` tells
beforehand.
"""

import functools
import math
import operator
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np

from symdiff.codegen.formulas import formula_program
from symdiff.codegen.llvm.calls import Calls, Group
from symdiff.codegen.math.lines import (
    LIBM,
    OPERATORS,
    PAIRS,
    VECTORS,
    Lines,
    Mask,
    Real,
    Value,
    call_intrinsic,
    real,
    where,
)
from symdiff.codegen.math.numbers import powers_at_zero
from symdiff.errors import InvariantError
from symdiff.ir.node import Node
from symdiff.lowering.program import Input, Output, Program, zero_value_number
from symdiff.lowering.sharing.sharing import expand_powers, integer_power
from symdiff.vocabulary.ops import (
    OPS,
    is_complex,
    part_of_code,
    real_counterpart,
)
from symdiff.vocabulary.scipy_kernels import MORE, PREFIX, scipy_kernel
from symdiff.vocabulary.traits import operations

LINE = 64  # bytes: arrays of our own begin at multiples of these
_COMPLEX_LIBM = operations("complex_libm")


def emit_instructions(program: Program, lines: Lines, load: Callable[[Node], Value]) -> dict[int, Value]:
    """The values of all instructions; an input is loaded where it is first needed, so that few wait in registers."""
    values: dict[int, Value] = {}
    calls = Calls(program, lines.most)
    nodes = program.nodes
    inside = (position for position, node in enumerate(nodes) if node.op != "input")
    for wanted in chain(inside, (cell for output in program.outputs for cell in output.cells)):
        for position in calls.before(wanted, values):
            if nodes[position].op == "input":
                values[position] = load(nodes[position])
            else:
                values |= emit_joint(program, position, calls, lines, values)
    return values


def emit_joint(program: Program, position: int, calls: Calls, lines: Lines, values: dict[int, Value]) -> dict[int, Value]:
    """The value of an instruction whose operands' are among `values`, and those of all that are made together with it."""
    group = calls.groups.get(position)
    if group is None:
        node = program.nodes[position]
        value = emit_instruction(program, node, lines, values)
        if len(value) != 1 + is_complex(node.dtype):  # stored, it would fill another cell
            raise InvariantError(f"{node.op}: {len(value)} parts for the dtype {node.dtype}")
        return {position: value}
    return _together(program, group, lines, values)


def _together(program: Program, group: Group, lines: Lines, values: dict[int, Value]) -> dict[int, Value]:
    nodes = program.nodes
    operands = [[lines.converted(values[o], nodes[o].dtype, group.dtype)[0] for o in operands] for operands in group.operands]
    results = lines.formulas(group.function, group.dtype, operands)
    return {member: (results[k][place],) for member, (k, place) in group.members.items()}


def emit_instruction(program: Program, node: Node, lines: Lines, values: dict[int, Value]) -> Value:
    """The value of one instruction, whose operands' are among `values`."""
    code = node.dtype
    if node.op == "const":
        number = node.params
        if is_complex(code):
            part = real_counterpart(code)
            return lines.literal(complex(number).real, part), lines.literal(complex(number).imag, part)
        return (lines.literal(number, code),)
    codes = [program.nodes[o].dtype for o in node.operands]
    operands = [values[o] for o in node.operands]
    if node.op == "pow" and (exponent := integer_power(program.nodes, node)) is not None:
        product = _product(exponent, code)
        found: dict[int, Value] = {}
        for position, factor in enumerate(product.nodes):
            found[position] = operands[0] if factor.op == "input" else emit_instruction(product, factor, lines, found)
        return found[product.outputs[0].cells[0]]
    if code in ("d", "f") and node.op in _REAL and codes.count(code) == len(codes):
        return (emit_real(lines, node.op, code, [value[0] for value in operands]),)
    if node.op == "select":
        yes, no = (lines.converted(v, c, code) for v, c in zip(operands[1:], codes[1:], strict=True))
        condition = lines.truth(operands[0], codes[0])
        part = part_of_code(code)
        return tuple(lines.select(condition, part, y, n) for y, n in zip(yes, no, strict=True))
    if node.op == "cast":
        return lines.converted(operands[0], codes[0], code)
    if node.op in ("and", "or", "xor"):
        first, second = (lines.truth(v, c) for v, c in zip(operands, codes, strict=True))
        return (lines.op(node.op, "?", first, second),)
    if node.op == "not":
        return (lines.op("xor", "?", lines.truth(operands[0], codes[0]), lines.literal(True, "?")),)
    if node.op == "exp" and lines.most and _is_imaginary(program, node.operands[0]):
        return lines.formula("sincos", real_counterpart(code), operands[0][1])[::-1]
    if any(is_complex(c) for c in codes):
        return _on_complex(lines, node, operands, codes)
    common = code if code != "?" else ("d" if "d" in codes else "f" if "f" in codes else "?")
    if common == "?":
        return (lines.put(f"icmp {node.op} {lines.kind('?')} {operands[0][0]}, {operands[1][0]}"),)
    parts = [lines.converted(v, c, common)[0] for v, c in zip(operands, codes, strict=True)]
    return (emit_real(lines, node.op, common, parts),)


@functools.cache
def _product(exponent: int, code: str) -> Program:
    """A power as multiplications."""
    nodes = [Node("input", (), (), code, (0, 0)), Node("const", (), (), "d", float(exponent)), Node("pow", (0, 1), (), code)]
    return expand_powers(Program("", (Input("x", (), code),), (Output("y", (), code, (2,)),), nodes))


def _is_imaginary(program: Program, position: int) -> bool:
    """Whether a value is a real number times one on the imaginary axis."""
    node = program.nodes[position]
    if node.op != "mul" or not is_complex(node.dtype):
        return False
    real = [o for o in node.operands if not is_complex(program.nodes[o].dtype)]
    others = [program.nodes[o] for o in node.operands if o not in real]
    return len(real) == 1 and all(o.op == "const" and complex(o.params).real == 0.0 for o in others)


def emit_real(lines: Lines, op: str, code: str, parts: list[str]) -> str:
    """One operation on real numbers of one precision."""
    if op not in _REAL:
        return lines.by_lanes(f"{PREFIX}{op}", code, *parts, more=MORE)
    return _REAL[op](*[Real(lines, part, code) for part in parts]).name  # type: ignore[no-any-return]


Parts = tuple[Real, ...]  # of complex numbers, or real ones


def _by_formula(op: str, *parts: Real) -> Real:
    """An operation that is put together from others, by its row in `formulas`."""
    lines, (program, _) = parts[0].body, formula_program(op, parts[0].code)
    values: dict[int, Value] = {}
    for position, node in enumerate(program.nodes):
        given = node.op == "input"
        values[position] = (parts[node.params[0]].name,) if given else emit_instruction(program, node, lines, values)
    return Real(lines, values[program.outputs[0].value][0], parts[0].code)


_REAL: dict[str, Callable[..., Any]] = {
    **{op: functools.partial(call_intrinsic, op) for op in (*LIBM, *VECTORS)},
    **{op: functools.partial(call_intrinsic, f"llvm.{op}") for op in "sqrt floor ceil trunc rint copysign".split()},
    **{op: functools.partial(_by_formula, op) for op in "sign max min fmax fmin mod floordiv logaddexp logaddexp2".split()},
    **{op: form for op, form in OPERATORS.items() if op not in ("and", "not", "select")},
    "isinf": lambda x: abs(x).equals(math.inf),
    "isfinite": lambda x: abs(x) < math.inf,
    "conj": lambda x: x,
    "real": lambda x: x,
    "imag": lambda x: real(x, 0.0),
}


def _on_complex(lines: Lines, node: Node, operands: list[Value], codes: list[str]) -> Value:
    """One operation with a complex operand."""
    joined = "d" if any(c in "dD" for c in codes) else "f"
    code = joined if node.dtype == "?" else real_counterpart(node.dtype)
    wide = [
        tuple(Real(lines, lines.converted((v,), part_of_code(c), code)[0], code) for v in value)
        for value, c in zip(operands, codes, strict=True)
    ]
    return tuple(part.name for part in _COMPLEX[node.op](node.op, wide))


def _equal(op: str, wide: list[Parts]) -> tuple[Mask]:
    pairs = zip(*((v[0], v[1] if len(v) > 1 else 0.0) for v in wide), strict=True)
    same = functools.reduce(operator.and_, [x.equals(y) if isinstance(x, Real) else y.equals(x) for x, y in pairs])
    return (same if op == "eq" else ~same,)


def _tested_parts(op: str, wide: list[Parts]) -> tuple[Mask]:
    first, second = map(_REAL[op], wide[0])
    return (first & second if op == "isfinite" else first | second,)


def _complex_function(op: str, wide: list[Parts]) -> Parts:
    """A function of complex numbers: by their parts in vectors, else libm's for each number, in double precision."""
    name, like = f"c{op}", wide[0][0]
    lines, code = like.body, like.code
    flat = [part.name for v in wide for part in (v if len(v) == 2 else (v[0], real(like, 0.0)))]
    if lines.width and name in PAIRS:
        return tuple(Real(lines, part, code) for part in lines.formula(name, code, *flat))
    flat = [lines.converted((part,), code, "d")[0] for part in flat]
    lines.declared[name] = f"declare {{ double, double }} @{name}({', '.join(['double'] * len(flat))})"
    results = ["undef", "undef"]
    for lane in range(lines.lanes):
        parts = flat if lines.lanes == 1 else [lines.lane(part, "d", lane) for part in flat]
        pair = lines.put(f"call {{ double, double }} @{name}({', '.join(f'double {part}' for part in parts)})")
        found = [lines.put(f"extractvalue {{ double, double }} {pair}, {k}") for k in (0, 1)]
        if lines.lanes > 1:
            kind = lines.kind("d")
            pairs = zip(results, found, strict=True)
            found = [lines.put(f"insertelement {kind} {r}, double {f}, i32 {lane}") for r, f in pairs]
        results = found
    made: Parts = tuple(Real(lines, part) for part in results)
    if op == "pow":
        given = [Real(lines, part) for part in flat]
        made = powers_at_zero(given[:2], given[2:], list(made))
    return tuple(Real(lines, lines.converted((part.name,), "d", code)[0], code) for part in made)


def _added(op: str, wide: list[Parts]) -> Parts:
    joined, (a, b) = OPERATORS[op], wide
    first = joined(a[0], b[0])
    if len(a) == len(b) == 2:
        return first, joined(a[1], b[1])
    return first, a[1] if len(a) == 2 else b[1] if op == "add" else -b[1]


def _multiplied(op: str, wide: list[Parts]) -> Parts:
    a, b = wide
    if len(a) == 1 or len(b) == 1:
        number, pair = (a[0], b) if len(a) == 1 else (b[0], a)
        return tuple(number * part for part in pair)
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


def _quotient(op: str, wide: list[Parts]) -> Parts:
    """Smith's method, as NumPy divides."""
    a, b = wide
    if len(b) == 1:
        return tuple(part / b[0] for part in a)
    x, y = a if len(a) == 2 else (a[0], real(a[0], 0.0))
    sizes = [abs(part) for part in b]
    first = sizes[0] >= sizes[1]
    large, small = where(first, b[0], b[1]), where(first, b[1], b[0])
    ratio = small / large
    scale = 1.0 / (large + small * ratio)
    up, down = where(first, x, y), where(first, y, x)
    imag = (down - up * ratio) * scale
    found = (up + down * ratio) * scale, where(first, imag, -imag)
    nothing = (sizes[0] + sizes[1]).equals(0.0)
    return tuple(where(nothing, part / sizes[0], one) for part, one in zip((x, y), found, strict=True))


ComplexForm = Callable[[str, list[Parts]], tuple[Real | Mask, ...]]
_COMPLEX: dict[str, ComplexForm] = {
    **dict.fromkeys(_COMPLEX_LIBM, _complex_function),
    **dict.fromkeys(("add", "sub"), _added),
    **dict.fromkeys(("eq", "ne"), _equal),
    **dict.fromkeys(("isnan", "isinf", "isfinite"), _tested_parts),
    "mul": _multiplied,
    "div": _quotient,
    "neg": lambda op, wide: tuple(-v for v in wide[0]),
    "conj": lambda op, wide: (wide[0][0], -wide[0][1]),
    "real": lambda op, wide: wide[0][:1],
    "imag": lambda op, wide: wide[0][1:],
    "abs": lambda op, wide: (call_intrinsic("hypot", *wide[0]),),
}
_EVERYWHERE = _REAL.keys() & _COMPLEX.keys()


def lacking_in_llvm(program: Program) -> str:
    """Which operation of a program there is no machine code for; "" where all are there."""
    for node in program.nodes:
        if node.op not in _EVERYWHERE or node.dtype not in ("d", "f"):
            found = _lacking(node, [program.nodes[o].dtype for o in node.operands])
            if found:
                return found
    return ""


def _lacking(node: Node, codes: list[str]) -> str:
    """Why there is no machine code for an operation on operands of these dtypes; "" where there is."""
    op = node.op
    if op == "loop":
        return lacking_in_llvm(node.params.body)
    if op not in OPS or op in ("input", "const", "select", "cast", "and", "or", "xor", "not"):
        return ""
    if op not in _REAL and OPS[op].is_special and {node.dtype, *codes} == {"d"} and scipy_kernel(op):
        return ""
    if op == "call" or (OPS[op].is_special and op not in VECTORS):
        return f"{getattr(node.params, '__name__', op)} runs with NumPy and SciPy only, not as machine code"
    if any(is_complex(c) for c in codes):
        return "" if op in _COMPLEX else f"{op} of complex numbers runs with NumPy only, not as machine code"
    if is_complex(node.dtype):
        return f"{op} of real numbers with a complex result runs with NumPy only"
    if node.dtype == "?" and "d" not in codes and "f" not in codes:
        return "" if op in ("eq", "ne") else f"{op} of truth values runs with NumPy only"
    return "" if op in _REAL else f"{op} runs with NumPy only, not as machine code"


def called(lines: Lines) -> tuple[list[str], dict[str, str]]:
    """The IR of the elementary functions that are called, and its declarations; their formulas are imported where one is."""
    if not lines.used:
        return [], {}
    from symdiff.codegen.llvm.functions import llvm_vector_functions

    return llvm_vector_functions(lines.used)


def point_function(program: Program, name: str, together: int = 0) -> str:
    """A function over pointers to contiguous inputs and outputs, with the declarations it needs; the elementary functions
    of `llvm_functions` that it calls are only declared.

    `together`: the calls of elementary functions that are made at once, 0 where the machine has none of our own. The
    function of a program with checks returns whether one of them holds, and has written nothing then.
    """
    lines = Lines(most=together)
    values = emit_instructions(program, lines, lambda i: lines.read(f"%in{i.params[0]}", i.dtype, i.params[1]))
    if program.checks:
        holds = functools.reduce(lambda a, b: lines.op("or", "?", a, b), [values[check][0] for check in program.checks])
        lines.text += returning(holds, "checked")
    for place, output in enumerate(program.outputs):
        zero = zero_value_number(program, output)
        if zero >= 0:
            lines.clear_cells(f"%out{place}", output)
        for cell, value in enumerate(output.cells):
            if value != zero:
                own = lines.converted(values[value], program.nodes[value].dtype, output.dtype)
                lines.write(f"%out{place}", own, output.dtype, cell)
    opening, end = kernel_frame(program, name)
    return "\n".join([*lines.declared.values(), *lines.used.values(), opening, *lines.text, end, ""])


def kernel_frame(program: Program, name: str, more: Sequence[str] = ()) -> tuple[str, str]:
    """The first line of a function over pointers to inputs, outputs and `more`, and its end: it returns whether a check holds
    where there are some."""
    pointers = [f"ptr %in{k}" for k in range(len(program.inputs))] + [f"ptr %out{k}" for k in range(len(program.outputs))]
    kind, end = ("i1", "  ret i1 false\n}") if program.checks else ("void", "  ret void\n}")
    return f"define {kind} @{name}({', '.join([*pointers, *more])}) noinline nounwind {{", end


def returning_checked(lines: Lines, pointers: Iterable[str]) -> list[str]:
    """The end of a function where one of the truths at some pointers holds."""
    total = functools.reduce(lambda a, b: lines.put(f"or i8 {a}, {b}"), [lines.put(f"load i8, ptr {p}") for p in pointers])
    return returning(lines.put(f"icmp ne i8 {total}, 0"), "checked")


def returning(condition: str, label: str) -> list[str]:
    """The end of a function where a condition holds; it goes on at `label` where not."""
    return [f"  br i1 {condition}, label %{label}.end, label %{label}", f"{label}.end:", "  ret i1 true", f"{label}:"]


def emitted_constant(name: str, value: np.ndarray) -> str:
    """The cells of an array as bytes of the module."""
    cells = "\\" * bool(value.nbytes) + value.tobytes().hex("\\")
    return f'{name} = private constant [{value.nbytes} x i8] c"{cells}", align {LINE}'
