"""Plan to a stand-alone file of Python for one point: the steps as a function of numbers, then the one that takes arrays.

Assumes a point Plan, for plain Python one in double precision. Guarantees that the function of the steps does arithmetic only,
so that numba and Cython compile it as it stands; that `out` is written only after everything is computed; annotations that a
strict type checker accepts; for NumPy IEEE results without warnings, for plain Python results as IEEE has them where Python's
own functions raise. Refuses what plain Python cannot spell, with `BackendError`.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from symdiff.codegen import python
from symdiff.codegen.exceptions import Raised
from symdiff.codegen.expressions import ATOM, Spell, emit_statements, leaf_texts
from symdiff.codegen.names import Names, emitted_argument_names, emitted_cell_names
from symdiff.codegen.numpy import joining_checks, spelling
from symdiff.codegen.shells import (
    ARRAY,
    CHECK_OUT,
    annotated_array,
    annotated_result,
    checked_input,
    emit_out_check,
    targets_text,
)
from symdiff.codegen.source import PythonFile, Source
from symdiff.codegen.text import Result, dtype_text, emitted_result, output_texts, packed, packed_lines, wrapped_text
from symdiff.lowering.plan import Plan
from symdiff.lowering.program import Input, Output, Program
from symdiff.lowering.walks import program_in_two, uses_of
from symdiff.vocabulary.literals import WIDTH, docstring_literal, number_literal
from symdiff.vocabulary.ops import OPS, is_complex

INDENT = "    "
Statements = tuple[list[str], dict[int, str]]
Ends = Callable[[int, str], list[str]]
# What a raising operation returns instead: the IEEE result, by the arguments that make Python's math raise.
_DIVIDE = '''def _divide(a: Any, b: Any) -> Any:
    """a/b by IEEE 754."""
    if b:
        return a / b
    return math.nan if not a or a != a else math.copysign(math.inf, a) * math.copysign(1.0, b)'''
_CALL = '''def _ieee(function: Any, *args: float) -> Any:
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
_COMPLEX = '''def _ieee_complex(function: Any, *args: complex) -> Any:
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
_PLAIN = '''def _plain(x: Any, kinds: str) -> Any:
    """x itself; arrays of other classes than NumPy's own, and numbers of other kinds, are refused."""
    dtype = getattr(x, "dtype", None)
    other = hasattr(x, "__len__") and type(x).__name__ not in ("ndarray", "memmap")
    if dtype is not None and (other or getattr(dtype, "kind", "") not in kinds):
        raise TypeError(f"{type(x).__name__} of {dtype} is given; a list or a NumPy array of another dtype is expected")
    return x'''
_NUMBERS = '''def _numbers(name: str, x: Any, kind: Any, *shape: int) -> Any:
    """The numbers of nested sequences of a shape, in order; the number itself for none."""
    _plain(x, "fiubc" if kind is complex else "fiub")
    if not shape:
        return kind(x)
    rows = [x]
    for n in shape:
        if any(not hasattr(row, "__len__") or len(row) != n for row in rows):
            raise ValueError(f"{name} has another shape than {shape}, which is expected")
        rows = [part for row in rows for part in row]
    return map(kind, rows)'''
_NESTED = '''def _nested(numbers: Sequence[Any], *shape: int) -> Any:
    """Numbers as nested lists of a shape."""
    if len(shape) < 2:
        return list(numbers)
    size = len(numbers) // shape[0] if shape[0] else 0
    return [_nested(numbers[size * k : size * (k + 1)], *shape[1:]) for k in range(shape[0])]'''
_CHECK_LISTS = '''def _check_out(arrays: Sequence[Any], kinds: str) -> None:
    """Raise where what takes results is no list or array for numbers of these kinds, or the same twice."""
    for a, kind in zip(arrays, kinds, strict=True):
        _plain(a, kind)
    if len({id(a) for a in arrays}) < len(arrays):
        raise ValueError("out has one array for several results")'''
_SUPPORT = {
    "_numbers": _NUMBERS, "_nested": _NESTED, "_check_out": _CHECK_LISTS, "_plain": _PLAIN, "_divide": _DIVIDE, "_ieee": _CALL,
    "_ieee_complex": _COMPLEX,
}  # fmt: skip
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
    result: Result | None = None, raised: Sequence[Raised] = (), target: str = "python",
) -> Source:  # fmt: skip
    """The file for a target, python or numpy; `raised` are the exceptions of the program's checks."""
    result = emitted_result(len(plan.program.outputs)) if result is None else result
    if target == "python":
        python.check_python(plan.program)
    return {"python": _PlainFile, "numpy": _NumpyFile}[target](plan.program, name, result, raised).source(header, doc)


class _PointFile(ABC):
    """A file in parts: `functions` are those of the steps, `used` the modules and support that it calls."""

    target: ClassVar[str]
    own: ClassVar[tuple[str, ...]]
    returns_types: ClassVar[bool]  # whether a type checker knows what functions of numbers return

    def __init__(self, program: Program, name: str, result: Result, raised: Sequence[Raised]) -> None:
        self.whole = self.program = program
        self.result, self.raised = result, raised
        self.names = names = Names((*self.own, "Any", "Sequence", "Result"))
        self.arguments = emitted_argument_names(program.inputs, names)
        self.entry, self.steps = names.fresh(name), names.fresh(f"{name}_steps")
        self.cells = [emitted_cell_names(leaf, a, names) for leaf, a in zip(program.inputs, self.arguments, strict=True)]
        self.targets = [names.fresh(o.name) for o in program.outputs]
        self.functions: list[str] = []
        self.used: set[str] = set()

    def source(self, header: Sequence[str], doc: str) -> Source:
        """The file."""
        accepted = [f"{a}: {self.accepted(leaf)}" for a, leaf in zip(self.arguments, self.whole.inputs, strict=True)]
        lines = wrapped_text(f"def {self.entry}(", [*accepted, "out: Any = None"], ") -> Result:", "")
        lines += [*docstring_literal(doc), *(INDENT + line for line in self.body())]
        kinds = [self.annotation(o) for o in self.program.outputs]
        return self.file(header, f"Result = {annotated_result(self.result, kinds)}", "\n".join(lines)).source(
            self.entry, self.target
        )

    def body(self) -> list[str]:
        """The statements after the docstring."""
        lines = []
        for leaf, argument, own in zip(self.whole.inputs, self.arguments, self.cells, strict=True):
            lines += _assigned(own if leaf.shape else [argument], self.read(leaf, argument), bool(leaf.shape))
        lines += ["if out is not None:", *(INDENT + line for line in self.out_check())]
        lines += [*self.checks(), *self.computed(), "if out is None:"]
        made = [self.made(o, name) for o, name in zip(self.whole.outputs, self.targets, strict=True)]
        flat = f"{INDENT}return {packed(self.result, made, bare=True)}"
        lines += [flat] if len(flat) < WIDTH - 4 else packed_lines("return ", self.result, made, INDENT)
        for output, place, name in zip(self.whole.outputs, output_texts(self.result, "out"), self.targets, strict=True):
            lines.append(self.filling(output, place, name))
        return [*lines, "result: Result = out", "return result"]

    def checks(self) -> list[str]:
        """What raises; what is computed for it is given to the steps."""
        if not self.program.checks:
            return []
        first, self.program = program_in_two(self.program)
        shown = {leaf.name: argument for leaf, argument in zip(first.inputs, self.arguments, strict=True)}
        for leaf, own in zip(first.inputs, self.cells, strict=True):
            places = np.ndindex(leaf.shape) if leaf.shape else ()
            shown |= {f"{leaf.name}[{', '.join(map(str, place))}]": cell for place, cell in zip(places, own, strict=False)}

        def ends(k: int, condition: str) -> list[str]:
            return [f"if {condition}:", f"{INDENT}raise {self.raised[k].text(shown)}"]

        lines, values = self.checking(first, ends)
        carried = [values[output.cells[0]] for output in first.outputs]
        self.cells += [[name] for name in carried]
        self.names.taken.update(carried)
        return lines

    def statements(self, program: Program, spell: Spell, **options: Any) -> Statements:
        """The statements of a program, in which results have their own names, and the texts of its results."""
        names, wished = Names(self.names.taken), dict[int, str]()
        for output, name in zip(program.outputs, self.targets if program is self.program else [], strict=False):
            leaf = Input(name, output.shape, output.dtype)
            for value, own in zip(output.cells, emitted_cell_names(leaf, name, names), strict=True):
                wished.setdefault(value, own)
        leaves = leaf_texts(program, lambda place, cell: self.cells[place][cell], lambda node: self.literal(node.params))
        return emit_statements(program, leaves, spell, names, wished=wished, **options)

    def steps_function(self, name: str, doc: str, made: Statements) -> str:
        """A function of the numbers that the steps read; it returns a number for each result, or a tuple of its cells."""
        steps, values = made
        kinds = {c: leaf.dtype for own, leaf in zip(self.cells, self.program.inputs, strict=True) for c in own}
        returned = [f"tuple[{_number(o.dtype)}, ...]" if o.shape else _number(o.dtype) for o in self.program.outputs]
        typed = self.returns_types and name == self.steps
        whole = f"tuple[{', '.join(returned)}]" if len(returned) > 1 else returned[0] if typed else "Any"
        lines = wrapped_text(f"def {name}(", [f"{c}: {_number(kinds[c])}" for c in self.order()], f") -> {whole}:", "")
        lines += [f'{INDENT}"""{doc}"""', *(INDENT + step for step in steps)]
        results = [[values[c] for c in o.cells] if o.shape else values[o.cells[0]] for o in self.program.outputs]
        flat = [f"({', '.join(r)}{',' if len(r) == 1 else ''})" if isinstance(r, list) else r for r in results]
        line = f"{INDENT}return {', '.join(flat)}"
        if len(line) <= WIDTH:
            return "\n".join([*lines, line])
        if len(results) == 1:
            return "\n".join([*lines, *wrapped_text("return (", [*results[0]], ")", INDENT)])
        parts = [wrapped_text("(", r, "),", INDENT * 2) if isinstance(r, list) else [f"{INDENT * 2}{r},"] for r in results]
        return "\n".join([*lines, f"{INDENT}return (", *(text for part in parts for text in part), f"{INDENT})"])

    def order(self) -> list[str]:
        """The numbers that the steps read."""
        read = {i.params for i, uses in zip(self.program.nodes, uses_of(self.program), strict=True) if i.op == "input" and uses}
        return [c for place, own in enumerate(self.cells) for k, c in enumerate(own) if (place, k) in read]

    def call(self, steps: str) -> list[str]:
        """The results by their names, of a function of steps."""
        return [*wrapped_text(f"{', '.join(self.targets)} = {steps}(", self.order(), ")", "")]

    @abstractmethod
    def accepted(self, leaf: Input) -> str:
        """The type of an argument."""

    @abstractmethod
    def annotation(self, output: Output) -> str:
        """The type of a result."""

    @abstractmethod
    def literal(self, value: Any) -> str:
        """A constant."""

    @abstractmethod
    def read(self, leaf: Input, argument: str) -> str:
        """The call that checks an argument and gives its numbers."""

    @abstractmethod
    def out_check(self) -> list[str]:
        """The check of a given `out`."""

    @abstractmethod
    def checking(self, first: Program, ends: Ends) -> Statements:
        """The statements of the checks that raise."""

    @abstractmethod
    def computed(self) -> list[str]:
        """The statements that call the steps, which become one of the `functions`."""

    @abstractmethod
    def made(self, output: Output, name: str) -> str:
        """A new result from what the steps return for it."""

    @abstractmethod
    def filling(self, output: Output, place: str, name: str) -> str:
        """The statement that fills a given result."""

    @abstractmethod
    def file(self, header: Sequence[str], alias: str, function: str) -> PythonFile:
        """The parts of the file."""


class _NumpyFile(_PointFile):
    """Numbers of NumPy's, whose arithmetic is IEEE's."""

    target, returns_types = "numpy", False
    own = ("np", "special", "ArrayLike", "NDArray", "_array", "_check_out")

    def accepted(self, leaf: Input) -> str:
        return "ArrayLike"

    def annotation(self, output: Output) -> str:
        return annotated_array(output)

    def literal(self, value: Any) -> str:
        return number_literal(value)

    def read(self, leaf: Input, argument: str) -> str:
        call = checked_input(leaf, argument)
        return f"{call}{'' if len(leaf.shape) == 1 else '.ravel()'}" if leaf.shape else f"np.{dtype_text(leaf.dtype)}({call})"

    def out_check(self) -> list[str]:
        return emit_out_check(self.whole.outputs, [repr(o.shape) for o in self.whole.outputs], self.result)

    def spell(self, program: Program) -> Spell:
        """NumPy's spellings; operations that only join the conditions of checks have Python's."""
        joined = joining_checks(program)
        spelled = {"and": "({0} and {1})", "or": "({0} or {1})", "not": "(not {0})"}

        def spell(position: int) -> tuple[str, int, tuple[int, ...]]:
            op = program.nodes[position].op
            return (spelled[op], ATOM, (ATOM,) * OPS[op].arity) if position in joined else spelling(program, position, {})

        return spell

    def checking(self, first: Program, ends: Ends) -> Statements:
        lines, values = self.statements(first, self.spell(first), ends=ends)
        return _quietly(lines), values

    def computed(self) -> list[str]:
        made = self.statements(self.program, self.spell(self.program))
        self.functions = [self.steps_function(self.steps, _shown(self.targets), made)]
        return _quietly(self.call(self.steps))

    def made(self, output: Output, name: str) -> str:
        kind = f"np.{dtype_text(output.dtype)}"
        reshaped = "" if len(output.shape) == 1 else f".reshape({output.shape!r})"
        return f"np.array({name}, {kind}){reshaped}" if output.shape else f"{kind}({name})"

    def filling(self, output: Output, place: str, name: str) -> str:
        value = f"np.reshape({name}, {output.shape!r})" if len(output.shape) > 1 else name
        return f"{place}[{'...' if output.shape else '()'}] = {value}"

    def file(self, header: Sequence[str], alias: str, function: str) -> PythonFile:
        special = any(OPS[node.op].is_special for node in self.whole.nodes)
        packages = ["import numpy as np", "from numpy.typing import ArrayLike, NDArray"]
        packages += ["from scipy import special"] if special else []
        return PythonFile(
            tuple(header),
            ("from typing import Any",),
            tuple(packages),
            (alias,),
            (*self.functions, function),
            (ARRAY, CHECK_OUT),
        )


class _PlainFile(_PointFile):
    """Numbers of Python's own; where its functions raise, the steps run once more with IEEE results."""

    target, returns_types = "python", True
    own = tuple(_SUPPORT)

    def accepted(self, leaf: Input) -> str:
        return _nested_type("Sequence", leaf.shape, _number(leaf.dtype))

    def annotation(self, output: Output) -> str:
        return _nested_type("list", output.shape, _number(output.dtype))

    def literal(self, value: Any) -> str:
        self.used |= _modules([python.literal(value)])
        return python.literal(value)

    def read(self, leaf: Input, argument: str) -> str:
        self.used.add("_numbers")
        kind = "complex" if is_complex(leaf.dtype) else "float"
        return f'_numbers("{argument}", {", ".join([argument, kind, *map(str, leaf.shape)])})'

    def out_check(self) -> list[str]:
        self.used.add("_check_out")
        kinds = "".join("b" if o.dtype == "?" else "c" if is_complex(o.dtype) else "f" for o in self.whole.outputs)
        return [f'_check_out({targets_text(self.result)}, "{kinds}")']

    def spell(self, program: Program, careful: bool) -> Spell:
        """Python's spellings; `careful` ones have a form that does not raise instead of one that does."""

        def spell(position: int) -> tuple[str, int, tuple[int, ...]]:
            spelled = _careful(program, position) if careful else python.spelling(program, position)
            self.used |= {*_modules([spelled[0]]), *_MENTIONED.findall(spelled[0])}
            return spelled

        return spell

    def checking(self, first: Program, ends: Ends) -> Statements:
        return self.statements(first, self.spell(first, True), ends=ends)

    def computed(self) -> list[str]:
        program = self.program
        made = self.statements(program, self.spell(program, False))
        self.functions = [self.steps_function(self.steps, _shown(self.targets), made)]
        if not any(i.op in (_COMPLEX_RAISING if is_complex(i.dtype) else _RAISING) for i in program.nodes):
            return self.call(self.steps)
        slow = self.names.fresh(f"{self.steps.removesuffix('_steps')}_ieee_steps")
        made = self.statements(program, self.spell(program, True))
        self.slow = [self.steps_function(slow, "The same steps, with IEEE results where Python's math raises.", made)]
        tried, caught = ([INDENT + line for line in self.call(steps)] for steps in (self.steps, slow))
        return ["try:", *tried, "except (ZeroDivisionError, OverflowError, ValueError):", *caught]

    slow: Sequence[str] = ()

    def made(self, output: Output, name: str) -> str:
        if len(output.shape) < 2:
            return f"list({name})" if output.shape else name
        self.used.add("_nested")
        return f"_nested({', '.join([name, *map(str, output.shape)])})"

    def filling(self, output: Output, place: str, name: str) -> str:
        return f"{place}[{':' if output.shape else '0'}] = {name if len(output.shape) < 2 else self.made(output, name)}"

    def file(self, header: Sequence[str], alias: str, function: str) -> PythonFile:
        support = [text for name, text in _SUPPORT.items() if name in self.used | {"_plain"}]
        texts = "\n".join([alias, *self.functions, function, *self.slow, *support])
        standard = [f"import {module}" for module in sorted({*self.used & {"math", "cmath"}, *_modules(support)})]
        standard += ["from collections.abc import Sequence"] if "Sequence[" in texts else []
        return PythonFile(
            tuple(header),
            (*standard, "from typing import Any"),
            (),
            (alias,),
            (*self.functions, function),
            (*self.slow, *support),
        )


def _assigned(names: list[str], call: str, several: bool) -> list[str]:
    """A call's result by its names, those of its parts for `several`."""
    if not several or not names:
        return [f"{names[0]} = {call}" if names else call]
    return (
        wrapped_text("", names, f"{',' if len(names) == 1 else ''} = {call}", "")
        if len(names) > 1
        else [f"{names[0]}, = {call}"]
    )


def _quietly(lines: list[str]) -> list[str]:
    """Statements without NumPy's warnings."""
    return ['with np.errstate(all="ignore"):', *(INDENT + line for line in lines)] if lines else []


def _shown(targets: list[str]) -> str:
    """What the steps compute."""
    return f"{', '.join(targets if len(targets) < 5 else [*targets[:3], '...'])}: arithmetic on numbers."


def _number(code: str) -> str:
    """The type of a number."""
    return {"d": "float", "D": "complex", "?": "bool"}.get(code, "Any")


def _nested_type(holder: str, shape: tuple[int, ...], kind: str) -> str:
    """The type of nested sequences."""
    for _ in shape:
        kind = f"{holder}[{kind}]"
    return kind


def _modules(templates: Iterable[str]) -> frozenset[str]:
    """The modules that texts of our own call."""
    return frozenset(module for template in templates for module in _MODULE.findall(template))


def _careful(program: Program, position: int) -> tuple[str, int, tuple[int, ...]]:
    """The spelling of an operation that gives the IEEE result where Python's raises."""
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
