"""Plan to a stand-alone file of plain Python, with IEEE results where Python's math raises.

Assumes a point Plan in double precision. Guarantees a file without imports beyond `math` and `cmath`, that reads any
sequences and writes `out` only after everything is computed. Refuses what plain Python cannot spell, with `BackendError`.
"""

import re
from collections.abc import Callable, Sequence

from symdiff.codegen.emission import python
from symdiff.codegen.emission.exceptions import Raised
from symdiff.codegen.emission.expressions import ATOM, leaf_names, statements
from symdiff.codegen.emission.names import Names, argument_names, cell_names
from symdiff.codegen.emission.text import docstring, wrapped
from symdiff.codegen.program import Input, Output, Program, in_two
from symdiff.codegen.source import Source
from symdiff.ops import is_complex

INDENT = "    "
# What a raising operation returns instead: the IEEE result, by the arguments that make Python's math raise.
_DIVIDE = '''def _divide(a, b):
    """a/b by IEEE 754."""
    if b:
        return a / b
    return math.nan if not a or a != a else math.copysign(math.inf, a) * math.copysign(1.0, b)
'''
_CALL = '''def _ieee(function, *args):
    """A function of math by IEEE 754: infinite where it overflows, -inf at the pole of a logarithm, else NaN."""
    try:
        return function(*args)
    except OverflowError:
        odd = function is math.sinh or (function is math.pow and args[1] % 2 == 1)
        return -math.inf if odd and args[0] < 0 else math.inf
    except ValueError:
        x = args[0]
        if x == 0 and function in (math.log, math.log10, math.log2):
            return -math.inf
        if x == 0 and function is math.pow:
            return math.inf
        if function is math.log1p and x == -1:
            return -math.inf
        return math.copysign(math.inf, x) if function is math.atanh and abs(x) == 1 else math.nan
'''
_COMPLEX = '''def _ieee_complex(function, *args):
    """A function of complex numbers by IEEE 754: NaN where Python raises, infinite where exp overflows or log has its pole."""
    try:
        return function(*args)
    except OverflowError:
        z = args[0]
        if function is cmath.exp:
            return complex(math.copysign(math.inf, math.cos(z.imag)), math.copysign(math.inf, math.sin(z.imag)))
    except (ValueError, ZeroDivisionError):
        if function in (cmath.log, cmath.log10) and args[0] == 0:
            return complex(-math.inf, 0.0)
    return complex(math.nan, math.nan)
'''
_PLAIN = '''def _plain(x, kinds):
    """x itself; arrays of other classes than NumPy's own, and numbers of other kinds, are refused."""
    dtype = getattr(x, "dtype", None)
    other = hasattr(x, "__len__") and type(x).__name__ not in ("ndarray", "memmap")
    if dtype is not None and (other or getattr(dtype, "kind", "") not in kinds):
        raise TypeError(f"{type(x).__name__} of {dtype} is given; a list or a NumPy array of another dtype is expected")
    return x
'''
_COMPLEX_RAISING = {
    "exp", "log", "log10", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan", "acosh", "atanh", "div", "pow",
}  # fmt: skip
_RAISING = {
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "sin", "cos", "tan", "asin", "acos", "acosh", "atanh",
    "sinh", "cosh", "pow", "fmod", "div", "floor", "ceil", "trunc", "rint",
}  # fmt: skip


def emit_file(program: Program, name: str, header: str, doc: str, result: str, raised: Sequence[Raised]) -> Source:
    """The stand-alone file; `raised` are the exceptions of the program's checks."""
    names = Names(("_plain", "_divide", "_ieee", "_ieee_complex", "_steps"))
    arguments = argument_names(program.inputs, names)
    entry = names.fresh(name)
    cells = [cell_names(leaf, a, names) for leaf, a in zip(program.inputs, arguments, strict=True)]
    unpacking = [
        INDENT + line for leaf, a, own in zip(program.inputs, arguments, cells, strict=True) for line in _unpacked(leaf, a, own)
    ]
    if program.checks:
        first, program = in_two(program)
        shown = {leaf.name: a for leaf, a in zip(first.inputs, arguments, strict=True) if len(leaf.shape) < 2}
        checking, found = _careful(
            first, cells, names, lambda k, text: [f"if {text}:", f"{INDENT}raise {raised[k].text(shown)}"]
        )
        unpacking += [INDENT + step for step in checking]
        cells += [[found[output.cells[0]]] for output in first.outputs]
    raising = {i.op for i in program.instrs if i.op in (_COMPLEX_RAISING if is_complex(i.dtype) else _RAISING)}
    steps, values = python.body(program, cells, names)
    flat_cells = [v for output in program.outputs for v in (values[c] for c in output.cells)]
    lines = [*wrapped(f"def {entry}(", [*arguments, "out=None"], "):", ""), *docstring(doc), *unpacking]
    if raising:
        used = sorted({c for own in cells for c in own if re.search(rf"\b{c}\b", " ".join([*steps, *flat_cells]))})
        order = [c for own in cells for c in own if c in used]
        call = f"({', '.join(order)})"
        count = len(flat_cells)
        targets = [names.fresh(f"r{k}") for k in range(count)]
        left = ", ".join(targets) + ("," if count == 1 else "")
        lines.append(f"{INDENT}try:")
        lines.append(f"{INDENT * 2}{left} = {entry}_steps{call}")
        lines.append(f"{INDENT}except (ZeroDivisionError, OverflowError, ValueError):")
        lines.append(f"{INDENT * 2}{left} = {entry}_ieee_steps{call}")
        lines += _results(program, dict(enumerate(targets)), result)
        slow, slow_values = _careful(program, cells, Names(tuple(names.taken)))
        fast = _function(f"{entry}_steps", order, "The steps, on Python's own arithmetic.", steps, flat_cells)
        careful = _function(
            f"{entry}_ieee_steps", order, "The same steps, with IEEE results where Python's math raises.", slow,
            [slow_values[c] for output in program.outputs for c in output.cells],
        )  # fmt: skip
        parts = ["\n".join(lines) + "\n", fast, careful]
    else:
        lines += [INDENT + step for step in steps]
        lines += _results(program, dict(enumerate(flat_cells)), result)
        parts = ["\n".join(lines) + "\n"]
    text = "\n\n".join(parts)
    helpers = [_PLAIN] if "_plain(" in text else []
    if "_divide(" in text:
        helpers.append(_DIVIDE)
    if "_ieee(" in text:
        helpers.append(_CALL)
    if "_ieee_complex(" in text:
        helpers.append(_COMPLEX)
    whole = "\n\n".join([*helpers, text])
    imports = "".join(f"import {module}\n" for module in ("cmath", "math") if re.search(rf"\b{module}\.", whole))
    return Source(header + (f"{imports}\n\n" if imports else "\n\n") + whole, entry, "python")


def _unpacked(leaf: Input, argument: str, own: list[str]) -> list[str]:
    """An argument as Python's own numbers: NumPy's would warn where Python's raise."""
    number = "complex" if is_complex(leaf.dtype) else "float"
    kinds = "fiubc" if number == "complex" else "fiub"
    if leaf.shape == ():
        return [f'{argument} = {number}(_plain({argument}, "{kinds}"))']
    first, *others = leaf.shape
    checks = [f"len({argument}) != {first}"]
    flattening = []
    if others:
        checks.append(f"any(len(row) != {others[0]} for row in {argument})")
        flattening = [f"{argument} = [v for row in {argument} for v in row]"] * len(others)
    message = f"{argument} has another shape than {leaf.shape!r}, which is expected"
    lines = [
        f'_plain({argument}, "{kinds}")',
        f"if {' or '.join(checks)}:",
        f'{INDENT}raise ValueError("{message}")',
        *flattening,
    ]
    if own:
        lines += (
            wrapped("", own, f"{',' if len(own) == 1 else ''} = map({number}, {argument})", "")
            if len(own) > 1
            else [f"{own[0]}, = map({number}, {argument})"]
        )
    return lines


def _careful(
    program: Program, cells: list[list[str]], names: Names, ends: Callable[[int, str], list[str]] | None = None
) -> tuple[list[str], dict[int, str]]:
    """The statements with every raising operation replaced by its careful form."""
    leaves = leaf_names(program, cells, python.literal)

    def spell(position: int) -> tuple[str, int, tuple[int, ...]]:
        instr = program.instrs[position]
        template, level, needed = python.spelling(program, position)
        if is_complex(instr.dtype):
            if instr.op not in _COMPLEX_RAISING:
                return template, level, needed
            if instr.op in ("div", "pow"):
                sign = "/" if instr.op == "div" else "**"
                return f"_ieee_complex(lambda a, b: a {sign} b, {{0}}, {{1}})", ATOM, (0, 0)
            function, _, rest = template.partition("(")
            return f"_ieee_complex({function}, {rest}", ATOM, needed
        if instr.op not in _RAISING:
            return template, level, needed
        if instr.op in ("floor", "ceil", "trunc", "rint"):
            return f"({template} if math.isfinite({{0}}) else {{0}})", ATOM, needed
        if instr.op == "div":
            return "_divide({0}, {1})", ATOM, (0, 0)
        function, _, rest = template.partition("(")
        return f"_ieee({function}, {rest}", ATOM, needed

    return statements(program, leaves, spell, names, ends=ends)


def _function(name: str, arguments: list[str], doc: str, steps: list[str], results: list[str]) -> str:
    returned = wrapped("return ", results, "", INDENT) if len(results) > 1 else [f"{INDENT}return ({results[0]},)"]
    lines = [*wrapped(f"def {name}(", arguments, "):", ""), f'{INDENT}"""{doc}"""', *(INDENT + s for s in steps)]
    if len(returned) > 1:
        returned[0] = f"{INDENT}return ("
        returned[-1] = f"{INDENT})"
    return "\n".join([*lines, *returned]) + "\n"


def _results(program: Program, flat: dict[int, str], result: str) -> list[str]:
    """Returning fresh results, or filling `out`."""
    lines = []
    start = 0
    texts = []
    for output in program.outputs:
        cells = [flat[start + k] for k in range(len(output.cells))]
        start += len(cells)
        texts.append(_nested(output.shape, cells))
    several = len(texts) > 1
    lines.append(f"{INDENT}if out is None:")
    if several:
        inside = wrapped("return " + ("[" if result == "list" else "("), texts, "]" if result == "list" else ")", INDENT * 2)
        lines += inside
    elif program.outputs[0].shape == ():
        lines.append(f"{INDENT * 2}return {texts[0]}")
    else:
        lines += _wrapped_list("return ", program.outputs[0], flat, 0, INDENT * 2)
    start = 0
    for place, output in enumerate(program.outputs):
        kinds = "b" if output.dtype == "?" else "c" if is_complex(output.dtype) else "f"
        lines.append(f'{INDENT}_plain({f"out[{place}]" if several else "out"}, "{kinds}")')
    if several:
        lines += [f"{INDENT}if len({{id(part) for part in out}}) < {len(texts)}:"]
        lines += [f'{INDENT * 2}raise ValueError("out has one array for several results")']
    for place, output in enumerate(program.outputs):
        target = f"out[{place}]" if several else "out"
        key = "0" if output.shape == () else ":"
        if output.shape == ():
            lines.append(f"{INDENT}{target}[{key}] = {texts[place]}")
        else:
            lines += _wrapped_list(f"{target}[{key}] = ", output, flat, start, INDENT)
        start += len(output.cells)
    return [*lines, f"{INDENT}return out"]


def _wrapped_list(opening: str, output: Output, flat: dict[int, str], start: int, indent: str) -> list[str]:
    cells = [flat[start + k] for k in range(len(output.cells))]
    if len(output.shape) == 1:
        return wrapped(f"{opening}[", cells, "]", indent)
    rows = output.shape[0]
    width = len(cells) // rows if rows else 0
    parts = [_nested(output.shape[1:], cells[k * width : (k + 1) * width]) for k in range(rows)]
    return wrapped(f"{opening}[", parts, "]", indent)


def _nested(shape: tuple[int, ...], cells: list[str]) -> str:
    if shape == ():
        return cells[0]
    if len(shape) == 1:
        return f"[{', '.join(cells)}]"
    width = len(cells) // shape[0] if shape[0] else 0
    return f"[{', '.join(_nested(shape[1:], cells[k * width : (k + 1) * width]) for k in range(shape[0]))}]"
