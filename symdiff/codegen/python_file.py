"""Plan to a stand-alone file of plain Python, with IEEE results where Python's math raises.

Assumes a point Plan in double precision. Guarantees a file without imports beyond `math` and `cmath`, that reads any
sequences and writes `out` only after everything is computed. Refuses what plain Python cannot spell, with `BackendError`.
"""

import re
from collections.abc import Callable, Iterable, Sequence

from symdiff.codegen import python
from symdiff.codegen.exceptions import Raised
from symdiff.codegen.expressions import ATOM, emit_statements, leaf_texts
from symdiff.codegen.names import Names, emitted_argument_names, emitted_cell_names
from symdiff.codegen.source import PythonFile, Source
from symdiff.codegen.text import Result, emitted_result, output_texts, packed, wrapped_text
from symdiff.lowering.plan import Plan
from symdiff.lowering.program import Input, Output, Program, is_leaf
from symdiff.lowering.walks import program_in_two, uses_of
from symdiff.vocabulary.literals import docstring_literal, message_literal
from symdiff.vocabulary.ops import is_complex

INDENT = "    "
# What a raising operation returns instead: the IEEE result, by the arguments that make Python's math raise.
_DIVIDE = '''def _divide(a, b):
    """a/b by IEEE 754."""
    if b:
        return a / b
    return math.nan if not a or a != a else math.copysign(math.inf, a) * math.copysign(1.0, b)'''
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
        return math.copysign(math.inf, x) if function is math.atanh and abs(x) == 1 else math.nan'''
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
    return complex(math.nan, math.nan)'''
_PLAIN = '''def _plain(x, kinds):
    """x itself; arrays of other classes than NumPy's own, and numbers of other kinds, are refused."""
    dtype = getattr(x, "dtype", None)
    other = hasattr(x, "__len__") and type(x).__name__ not in ("ndarray", "memmap")
    if dtype is not None and (other or getattr(dtype, "kind", "") not in kinds):
        raise TypeError(f"{type(x).__name__} of {dtype} is given; a list or a NumPy array of another dtype is expected")
    return x'''
_SUPPORT = {"_plain": _PLAIN, "_divide": _DIVIDE, "_ieee": _CALL, "_ieee_complex": _COMPLEX}
_MENTIONED = re.compile(r"\b(_\w+)\(")
_MODULE = re.compile(r"\b(c?math)\.")  # both in templates of ours
_COMPLEX_RAISING = {
    "exp", "log", "log10", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan", "acosh", "atanh", "div", "pow",
}  # fmt: skip
_RAISING = {
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "sin", "cos", "tan", "asin", "acos", "acosh", "atanh",
    "sinh", "cosh", "pow", "fmod", "div", "floor", "ceil", "trunc", "rint",
}  # fmt: skip


def emit(
    plan: Plan, *, name: str, style: str = "export", header: Sequence[str] = (), doc: str = "",
    result: Result | None = None, raised: Sequence[Raised] = (),
) -> Source:  # fmt: skip
    """The stand-alone file; `raised` are the exceptions of the program's checks."""
    program = plan.program
    python.check_python(program)
    result = emitted_result(len(program.outputs)) if result is None else result
    names = Names(_SUPPORT)
    arguments = emitted_argument_names(program.inputs, names)
    entry, quick, slow = names.fresh(name), names.fresh(f"{name}_steps"), names.fresh(f"{name}_ieee_steps")
    cells = [emitted_cell_names(leaf, a, names) for leaf, a in zip(program.inputs, arguments, strict=True)]
    unpacking = [
        INDENT + line for leaf, a, own in zip(program.inputs, arguments, cells, strict=True) for line in _unpacked(leaf, a, own)
    ]
    used = {"_plain"}  # modules, and functions of our own
    if program.checks:
        first, program = program_in_two(program)
        shown = {leaf.name: a for leaf, a in zip(first.inputs, arguments, strict=True) if len(leaf.shape) < 2}
        checking, found = _careful(
            first, cells, names, used, lambda k, text: [f"if {text}:", f"{INDENT}raise {raised[k].text(shown)}"]
        )
        unpacking += [INDENT + step for step in checking]
        cells += [[found[output.cells[0]]] for output in first.outputs]
    raising = {i.op for i in program.nodes if i.op in (_COMPLEX_RAISING if is_complex(i.dtype) else _RAISING)}
    used |= _modules(python.spelling(program, p)[0] for p, i in enumerate(program.nodes) if not is_leaf(i))
    used |= _modules(python.literal(i.params) for i in program.nodes if i.op == "const")
    steps, values = python.emit_body(program, cells, names)
    flat_cells = [v for output in program.outputs for v in (values[c] for c in output.cells)]
    lines = [*wrapped_text(f"def {entry}(", [*arguments, "out=None"], "):", ""), *docstring_literal(doc), *unpacking]
    functions: list[str] = []
    if raising:
        read = {i.params for i, uses in zip(program.nodes, uses_of(program), strict=True) if i.op == "input" and uses}
        order = [c for place, own in enumerate(cells) for k, c in enumerate(own) if (place, k) in read]
        call = f"({', '.join(order)})"
        count = len(flat_cells)
        targets = [names.fresh(f"r{k}") for k in range(count)]
        left = ", ".join(targets) + ("," if count == 1 else "")
        lines.append(f"{INDENT}try:")
        lines.append(f"{INDENT * 2}{left} = {quick}{call}")
        lines.append(f"{INDENT}except (ZeroDivisionError, OverflowError, ValueError):")
        lines.append(f"{INDENT * 2}{left} = {slow}{call}")
        lines += _results(program, dict(enumerate(targets)), result)
        careful, slow_values = _careful(program, cells, Names(names.taken), used)
        functions = [
            _function(quick, order, "The steps, on Python's own arithmetic.", steps, flat_cells),
            _function(
                slow, order, "The same steps, with IEEE results where Python's math raises.", careful,
                [slow_values[c] for output in program.outputs for c in output.cells],
            ),
        ]  # fmt: skip
    else:
        lines += [INDENT + step for step in steps]
        lines += _results(program, dict(enumerate(flat_cells)), result)
    support = tuple(text for name, text in _SUPPORT.items() if name in used)
    standard = frozenset(used & {"math", "cmath"}) | _modules(support)
    return PythonFile(tuple(header), standard, (), (), support, ("\n".join(lines), *functions)).source(entry, "python")


def _modules(templates: Iterable[str]) -> frozenset[str]:
    """The modules that texts of our own call."""
    return frozenset(module for template in templates for module in _MODULE.findall(template))


def _unpacked(leaf: Input, argument: str, own: list[str]) -> list[str]:
    """An argument as Python's own numbers: NumPy's would warn where Python's raise."""
    number = "complex" if is_complex(leaf.dtype) else "float"
    kinds = "fiubc" if is_complex(leaf.dtype) else "fiub"
    if leaf.shape == ():
        return [f'{argument} = {number}(_plain({argument}, "{kinds}"))']
    first, *others = leaf.shape
    checks = [f'len(_plain({argument}, "{kinds}")) != {first}']
    flattening = []
    if others:
        checks.append(f"any(len(row) != {others[0]} for row in {argument})")
        flattening = [f"{argument} = [v for row in {argument} for v in row]"] * len(others)
    message = message_literal(f"{argument} has another shape than {leaf.shape!r}, which is expected")
    lines = [f"if {' or '.join(checks)}:", f"{INDENT}raise ValueError({message})", *flattening]
    if own:
        lines += (
            wrapped_text("", own, f"{',' if len(own) == 1 else ''} = map({number}, {argument})", "")
            if len(own) > 1
            else [f"{own[0]}, = map({number}, {argument})"]
        )
    return lines


def _careful(
    program: Program, cells: list[list[str]], names: Names, used: set[str],
    ends: Callable[[int, str], list[str]] | None = None,
) -> tuple[list[str], dict[int, str]]:  # fmt: skip
    """The statements with every raising operation replaced by its careful form; what they call is noted in `used`."""
    leaves = leaf_texts(program, lambda place, cell: cells[place][cell], lambda node: python.literal(node.params))
    used |= _modules(python.literal(i.params) for i in program.nodes if i.op == "const")

    def spell(position: int) -> tuple[str, int, tuple[int, ...]]:
        spelled = careful(position)
        used.update(_modules([spelled[0]]), _MENTIONED.findall(spelled[0]))
        return spelled

    def careful(position: int) -> tuple[str, int, tuple[int, ...]]:
        node = program.nodes[position]
        template, level, needed = python.spelling(program, position)
        if is_complex(node.dtype):
            if node.op not in _COMPLEX_RAISING:
                return template, level, needed
            if node.op in ("div", "pow"):
                sign = "/" if node.op == "div" else "**"
                return f"_ieee_complex(lambda a, b: a {sign} b, {{0}}, {{1}})", ATOM, (0, 0)
            function, _, rest = template.partition("(")
            return f"_ieee_complex({function}, {rest}", ATOM, needed
        if node.op not in _RAISING:
            return template, level, needed
        if node.op in ("floor", "ceil", "trunc", "rint"):
            return f"({template} if math.isfinite({{0}}) else {{0}})", ATOM, needed
        if node.op == "div":
            return "_divide({0}, {1})", ATOM, (0, 0)
        function, _, rest = template.partition("(")
        return f"_ieee({function}, {rest}", ATOM, needed

    return emit_statements(program, leaves, spell, names, ends=ends)


def _function(name: str, arguments: list[str], doc: str, steps: list[str], results: list[str]) -> str:
    returned = wrapped_text("return ", results, "", INDENT) if len(results) > 1 else [f"{INDENT}return ({results[0]},)"]
    lines = [*wrapped_text(f"def {name}(", arguments, "):", ""), f'{INDENT}"""{doc}"""', *(INDENT + s for s in steps)]
    if len(returned) > 1:
        returned[0] = f"{INDENT}return ("
        returned[-1] = f"{INDENT})"
    return "\n".join([*lines, *returned])


def _results(program: Program, flat: dict[int, str], result: Result) -> list[str]:
    """Returning fresh results, or filling `out`."""
    lines = [f"{INDENT}if out is None:"]
    starts = [0]
    for output in program.outputs:
        starts.append(starts[-1] + len(output.cells))
    texts = [
        _nested(output.shape, [flat[start + k] for k in range(len(output.cells))])
        for output, start in zip(program.outputs, starts, strict=False)
    ]
    if not isinstance(result, int):
        opening, closing = ("[", "]") if isinstance(result, list) else ("(", ",)" if len(result) == 1 else ")")
        lines += wrapped_text(f"return {opening}", [packed(part, texts) for part in result], closing, INDENT * 2)
    elif program.outputs[0].shape == ():
        lines.append(f"{INDENT * 2}return {texts[0]}")
    else:
        lines += _wrapped_list("return ", program.outputs[0], flat, 0, INDENT * 2)
    targets = output_texts(result, "out")
    for output, target in zip(program.outputs, targets, strict=True):
        kinds = "b" if output.dtype == "?" else "c" if is_complex(output.dtype) else "f"
        lines.append(f'{INDENT}_plain({target}, "{kinds}")')
    if len(targets) > 1:
        lines += wrapped_text("if len({", [f"id({target})" for target in targets], f"}}) < {len(targets)}:", INDENT)
        lines.append(f'{INDENT * 2}raise ValueError("out has one array for several results")')
    places = zip(program.outputs, targets, starts, texts, strict=False)
    for output, target, start, text in places:
        if output.shape == ():
            lines.append(f"{INDENT}{target}[0] = {text}")
        else:
            lines += _wrapped_list(f"{target}[:] = ", output, flat, start, INDENT)
    return [*lines, f"{INDENT}return out"]


def _wrapped_list(opening: str, output: Output, flat: dict[int, str], start: int, indent: str) -> list[str]:
    cells = [flat[start + k] for k in range(len(output.cells))]
    if len(output.shape) == 1:
        return wrapped_text(f"{opening}[", cells, "]", indent)
    rows = output.shape[0]
    width = len(cells) // rows if rows else 0
    parts = [_nested(output.shape[1:], cells[k * width : (k + 1) * width]) for k in range(rows)]
    return wrapped_text(f"{opening}[", parts, "]", indent)


def _nested(shape: tuple[int, ...], cells: list[str]) -> str:
    if shape == ():
        return cells[0]
    if len(shape) == 1:
        return f"[{', '.join(cells)}]"
    width = len(cells) // shape[0] if shape[0] else 0
    return f"[{', '.join(_nested(shape[1:], cells[k * width : (k + 1) * width]) for k in range(shape[0]))}]"
