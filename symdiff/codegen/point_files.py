"""Plan to a Python file for one point: the steps as a function of numbers, then the one that takes arrays.

Assumes a point Plan, for plain Python, and for loops, one in double precision. Guarantees that the function of the steps does
arithmetic only, so that numba and Cython compile it as it stands; that `out` is written only after everything is computed;
annotations that a strict type checker accepts; for NumPy IEEE results without warnings, for plain Python results as IEEE has
them where Python's own functions raise. Steps with loops take and return arrays as lists in C order. Refuses what plain Python
cannot spell, with `BackendError`.
"""

import cmath
import math
from ast import literal_eval
from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any, ClassVar

import numpy as np

from symdiff.codegen import python
from symdiff.codegen.array_nests import ArrayNests
from symdiff.codegen.array_text import support_texts
from symdiff.codegen.expressions import ATOM, CHOICE, Ends, Spell, Spelled, Statements, emit_statements
from symdiff.codegen.names import Names, emitted_cell_names
from symdiff.codegen.numpy import called, calls_scipy, emitted_globals, joining_checks, spelling
from symdiff.codegen.python_nests import PythonNests
from symdiff.codegen.shells import INDENT, Shell, declining, extent_texts, unfit_array
from symdiff.codegen.sizes import Sizes, told_sizes
from symdiff.codegen.source import Source, Wanted
from symdiff.codegen.text import dtype_text, few_names, indented, nested_type, number_type, tuple_text, wrapped_text
from symdiff.errors import BackendError
from symdiff.lowering.plan import Plan
from symdiff.lowering.program import Input, Output, Program, is_nest
from symdiff.lowering.walks import nodes_with_bodies, program_in_two, uses_of
from symdiff.vocabulary.extents import Count, names_in_extents, spaced_extent
from symdiff.vocabulary.literals import WIDTH, number_literal
from symdiff.vocabulary.ops import OPS, is_complex
from symdiff.vocabulary.plain import READABLE
from symdiff.vocabulary.traits import operations

# What a raising operation returns instead: the IEEE result, by the arguments that make Python's math raise.
_DIVIDE = '''def _divide(a: Any, b: Any) -> Any:
    """a/b by IEEE 754."""
    if b:
        return a / b
    return math.nan if not a or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1.0, b)'''
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
    rows = [x]
    for n in shape:
        if any(not hasattr(row, "__len__") or len(row) != n for row in rows):
            raise ValueError(f"{name} has another shape than {shape}, which is expected")
        rows = [part for row in rows for part in row]
    for of in set(map(type, rows)):
        if not hasattr(of, "__float__") and not (kind is complex and hasattr(of, "__complex__")):
            raise TypeError(f"{name} is or holds {of.__name__}, {kind.__name__} is expected")
    return map(kind, rows) if shape else kind(x)'''
_NESTED = '''def _nested(numbers: Sequence[Any], *shape: int) -> list[Any]:
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
_NEEDS = {  # what support calls
    "_numbers": ("_plain",), "_check_out": ("_plain", "Sequence"), "_nested": ("Sequence",), "_divide": ("math",),
    "_ieee": ("math",), "_ieee_complex": ("math", "cmath"),
}  # fmt: skip
_IMPORTS = {"math": "import math", "cmath": "import cmath", "Sequence": "from collections.abc import Sequence"}
_COMPLEX_RAISING = operations("raises_complex")
_RAISING = operations("raises")


def emit(plan: Plan, *, target: str = "numpy", **asked: Any) -> Source:
    """The file that is `asked` for, `Wanted`, for a target, python or numpy, or the function for this process: NumPy's takes
    arguments in the program's own form, plain Python's declines others."""
    program, want = plan.program, Wanted(**asked)
    if is_nest(program):
        return _looped(program, want, target).text()
    if target == "numpy":
        return _PointFile(program, want).text()
    python.check_python(program)
    return (_DirectFile if want.style == "runtime" else _PlainFile)(program, want).text()


def _looped(program: Program, want: Wanted, target: str) -> "_LoopFile":
    """The file of a program with loops, or for any size."""
    assert want.style == "export"
    problem = python.lacking_in_python(program) if target == "python" else ""
    shapes = tuple(leaf.shape for leaf in program.inputs)
    if target == "numpy" and names_in_extents(tuple(o.shape for o in program.outputs)) - names_in_extents(shapes):
        problem = f"{program.name}: a result as long as a call tells is not part of NumPy's files; python has them"
    if problem:
        raise BackendError(problem)
    sizes = Sizes(shapes) if names_in_extents(shapes) else None
    return (_LoopFile if target == "numpy" else _PlainLoopFile)(program, replace(want, sizes=sizes))


class _PointFile(Shell):
    """The function of the steps and its host, with numbers of NumPy's, whose arithmetic is IEEE's."""

    returns_types: ClassVar[bool] = False  # whether a type checker knows what functions of numbers return
    arithmetic = "arithmetic on numbers"

    def __init__(self, program: Program, want: Wanted) -> None:
        self.nodes = [node for node in nodes_with_bodies(program) if node.op in OPS]
        self.calls = called(self.nodes)
        super().__init__(program, want, tuple(self.calls.values()))
        self.rest = program  # the steps', without the checks
        self.steps = self.names.fresh(f"{want.name}_steps")
        self.cells = self.taken_apart()
        self.functions: list[str] = []
        self.slow: list[str] = []

    def taken_apart(self) -> list[list[str]]:
        """The names that the steps have for the numbers of each argument."""
        return [emitted_cell_names(leaf, a, self.names) for leaf, a in self.taking]

    def text(self) -> Source:
        """The file."""
        lines = [*self.accepted(), *self.arrays_for_results([]), *self.checks(), *self.computed()]
        made = [self.made(o, name) for o, name in self.making]
        outputs = zip(self.making, self.places, strict=True)
        lines += self.returned(made, [self.filling(o, place, name) for (o, name), place in outputs])
        functions = [*self.functions, self.function(lines)]
        known = () if self.exported else self.known()
        support = [*self.slow, *support_texts((node.op for node in nodes_with_bodies(self.program)), "np")]
        special, constants = calls_scipy(self.nodes), self.constant_texts()
        return self.source(functions, special=special, support=support, known=known, constants=constants)

    def checks(self) -> list[str]:
        """What ends the function where a check holds; what is computed for it is given to the steps."""
        if not self.rest.checks:
            return []
        first, self.rest = program_in_two(self.rest)
        numbers = {leaf.name: k for k, leaf in enumerate(first.inputs)}
        shown = {leaf.name: argument for leaf, argument in zip(first.inputs, self.arguments, strict=True)}
        asked = {place for raised in self.raised for place in raised.places() if place.cell and place.name in numbers}
        shown |= {str(place): self.cell_at(numbers[place.name], literal_eval(f"{place.cell[:-1]},]")) for place in asked}

        def ends(k: int, condition: str) -> list[str]:
            return [f"if {condition}:", f"{INDENT}raise {self.raised[k].text(shown)}"] if self.raised else declining(condition)

        lines, values = self.statements(first, True, ends=ends)
        carried = [values[output.cells[0]] for output in first.outputs]
        self.cells += [[name] for name in carried]
        self.names.taken.update(carried)
        return self.quietly(lines)

    def constant_texts(self) -> list[tuple[str, int]]:
        """Constants of the file, and how many cells they have."""
        return []

    def known(self) -> list[tuple[str, object]]:
        """The globals of a function in this process."""
        return emitted_globals(self.nodes)

    def cell_at(self, place: int, index: Sequence[int]) -> str:
        """A cell of an argument."""
        return self.cells[place][int(np.ravel_multi_index(tuple(index), self.program.inputs[place].shape))]

    def statements(self, program: Program, careful: bool, **options: Any) -> Statements:
        """The statements of a program, in which results have their own names, and the texts of its results."""
        names, wished = Names(self.names.taken), dict[int, str]()
        for output, name in zip(program.outputs, self.targets if program is self.rest else [], strict=False):
            leaf = Input(name, output.shape, output.dtype)
            for value, own in zip(output.cells, emitted_cell_names(leaf, name, names), strict=True):
                wished.setdefault(value, own)
        spell = self.careful(program) if careful else self.spell
        read = lambda place, cell: self.cells[place][cell]  # noqa: E731
        return emit_statements(program, read, lambda node: self.literal(node.params), spell, names, wished=wished, **options)

    def computed(self) -> list[str]:
        """The statements that call the steps, which become one of the functions."""
        made = self.statements(self.rest, False)
        self.functions = [self.steps_function(self.steps, f"{few_names(self.targets)}: {self.arithmetic}.", made)]
        return self.quietly(self.call(self.steps))

    def steps_function(self, name: str, doc: str, made: Statements) -> str:
        """A function of the numbers that the steps read; it returns a number for each result, or its cells."""
        steps, values = made
        returned = [self.result_type(o) for o in self.rest.outputs]
        typed = self.returns_types and name == self.steps
        whole = f"tuple[{', '.join(returned)}]" if len(returned) > 1 else returned[0] if typed else "Any"
        lines = wrapped_text(f"def {name}(", self.parameters(), f") -> {whole}:")
        lines += [f'{INDENT}"""{doc}"""', *indented(steps)]
        results = self.results(values)
        flat = [tuple_text(r) if isinstance(r, list) else r for r in results]
        line = f"{INDENT}return {', '.join(flat)}"
        if len(line) <= WIDTH or results == flat[:1]:
            return "\n".join([*lines, line])
        if len(results) == 1:
            return "\n".join([*lines, *wrapped_text("return (", results[0], ")", INDENT)])
        parts = []
        for text, cells in zip(flat, results, strict=True):
            alone = f"{INDENT * 2}{text},"
            parts += [alone] if len(alone) <= WIDTH or text is cells else wrapped_text("(", cells, "),", INDENT * 2)
        return "\n".join([*lines, f"{INDENT}return (", *parts, f"{INDENT})"])

    def parameters(self) -> list[str]:
        """The numbers that the steps take, with their types."""
        kinds = {c: leaf.dtype for own, leaf in zip(self.cells, self.rest.inputs, strict=True) for c in own}
        return [f"{c}: {number_type(kinds[c])}" for c in self.order()]

    def result_type(self, output: Input | Output) -> str:
        """What the steps return for a result."""
        return f"tuple[{number_type(output.dtype)}, ...]" if output.shape else number_type(output.dtype)

    def results(self, values: dict[int, str]) -> list[Any]:
        """The text of each result in the steps, or those of its cells."""
        return [[values[c] for c in o.cells] if o.shape else values[o.cells[0]] for o in self.rest.outputs]

    def order(self) -> list[str]:
        """The numbers that the steps read."""
        read = {i.params for i, uses in zip(self.rest.nodes, uses_of(self.rest), strict=True) if i.op == "input" and uses}
        return [c for place, own in enumerate(self.cells) for k, c in enumerate(own) if (place, k) in read]

    def call(self, steps: str) -> list[str]:
        """The results by their names, of a function of steps."""
        *names, opening = wrapped_text("", self.targets, f" = {steps}(", "")
        return [*names, *wrapped_text(opening, self.order(), ")")]

    def accepted(self) -> list[str]:
        """The numbers of the arguments by their names."""
        lines = self.renamed()
        for (leaf, argument), own in zip(self.taking, self.cells, strict=True):
            call = self.taken(leaf, argument, None) if self.exported else argument
            if not leaf.shape or not own:
                lines.append(f"{argument} = {self.one(leaf, call)}" if own else call)
            else:
                flat = self.flat(leaf, call)
                lines += wrapped_text("", own, f" = {flat}") if len(own) > 1 else [f"{own[0]}, = {flat}"]
        return lines

    # -- words: NumPy's, which plain Python replaces

    def literal(self, value: Any) -> str:
        """A constant."""
        return number_literal(value)

    def flat(self, leaf: Input, call: str) -> str:
        """A checked argument as its numbers in order."""
        return call if len(leaf.shape) == 1 else f"{call}.ravel()"

    def spell(self, program: Program, position: int) -> Spelled | Program:
        """How an operation is spelled."""
        return spelling(program, position, self.calls)

    def careful(self, program: Program) -> Spell:
        """The spellings of checks, in which operations that only join conditions have Python's."""
        joined = joining_checks(program)

        def spell(own: Program, position: int) -> Spelled | Program:
            joins = own is program and position in joined
            return python.spelling(own, position) if joins else self.spell(own, position)  # type: ignore[return-value]

        return spell

    def quietly(self, lines: list[str]) -> list[str]:
        """Statements without warnings."""
        return ['with np.errstate(all="ignore"):', *indented(lines)] if lines else []

    def made(self, output: Output, name: str) -> str:
        """A new result from what the steps return for it."""
        kind = f"np.{dtype_text(output.dtype)}"
        reshaped = "" if len(output.shape) == 1 else f".reshape({output.shape!r})"
        return f"np.array({name}, {kind}){reshaped}" if output.shape else f"{kind}({name})"

    def filling(self, output: Output, place: str, name: str) -> str:
        """The statement that fills a given result."""
        value = f"np.reshape({name}, {output.shape!r})" if len(output.shape) > 1 else name
        return f"{place}[{'...' if output.shape else '()'}] = {value}"

    def arrays_for_results(self, given: list[str]) -> list[str]:
        """The check of `out`: nothing is computed in place."""
        return ["if out is not None:", *indented(self.out_check())] if self.exported else []


class _PlainFile(_PointFile):
    """Numbers of Python's own; where its functions raise, the steps run once more with IEEE results."""

    language, returns_types = "python", True
    support, named = _SUPPORT, ()

    def uses(self, *names: str) -> None:
        for name in names:
            self.used[name] = self.support.get(name) or _IMPORTS[name]
            self.uses(*(need for need in _NEEDS.get(name, ()) if need not in self.used))

    def accepted_type(self, leaf: Input) -> str:
        if leaf.shape:
            self.uses("Sequence")
        return nested_type("Sequence", leaf.shape, number_type(leaf.dtype))

    def annotation(self, output: Output, points: bool = False) -> str:
        return nested_type("list", output.shape, number_type(output.dtype))

    def literal(self, value: Any) -> str:
        text = python.literal(value)
        self.uses(*python.called_modules(text))
        return text

    def taken(self, leaf: Input, argument: str, axis: int | None) -> str:
        self.uses("_numbers")
        kind = "complex" if is_complex(leaf.dtype) else "float"
        return f'_numbers("{argument}", {", ".join([argument, kind, *extent_texts(leaf.shape)])})'

    def one(self, leaf: Input, call: str) -> str:
        return call

    def flat(self, leaf: Input, call: str) -> str:
        return call

    def out_check(self) -> list[str]:
        self.uses("_check_out")
        kinds = "".join("b" if o.dtype == "?" else "c" if is_complex(o.dtype) else "f" for o in self.program.outputs)
        return [f'_check_out({self.given_arrays()}, "{kinds}")']

    def spell(self, program: Program, position: int) -> Spelled | Program:
        found = python.spelling(program, position)
        assert found is not None  # by `check_python`
        self.uses(*(python.called_modules(found.template) if isinstance(found, Spelled) else ()))
        return found

    def careful(self, program: Program) -> Spell:
        """The spellings with a form that does not raise instead of one that does."""

        def spell(own: Program, position: int) -> Spelled | Program:
            found = self.spell(own, position)
            if isinstance(found, Spelled):
                called, found = _careful(own, position, found)
                self.uses(*called, *python.called_modules(found.template))
            return found

        return spell

    def quietly(self, lines: list[str]) -> list[str]:
        return lines

    def computed(self) -> list[str]:
        lines = super().computed()
        program = self.rest
        if not any(i.op in (_COMPLEX_RAISING if is_complex(i.dtype) else _RAISING) for i in nodes_with_bodies(program)):
            return lines
        slow = self.names.fresh(f"{self.steps.removesuffix('_steps')}_ieee_steps")
        made = self.statements(program, True)
        self.slow = [self.steps_function(slow, "The same steps, with IEEE results where Python's math raises.", made)]
        tried, caught = (indented(found) for found in (lines, self.call(slow)))
        return ["try:", *tried, "except (ZeroDivisionError, OverflowError, ValueError):", *caught]

    def made(self, output: Output, name: str) -> str:
        if len(output.shape) < 2:
            return f"list({name})" if output.shape else name
        self.uses("_nested")
        return f"_nested({', '.join([name, *map(str, output.shape)])})"

    def filling(self, output: Output, place: str, name: str) -> str:
        return f"{place}[{':' if output.shape else '0'}] = {name if len(output.shape) < 2 else self.made(output, name)}"

    def packages(self, special: bool) -> list[str]:
        return []


class _DirectFile(_PlainFile):
    """The function for calls in this process, which declines other arguments than those of the program's own form."""

    def known(self) -> list[tuple[str, object]]:
        return [*super().known(), ("math", math), ("cmath", cmath)]

    def accepted(self) -> list[str]:
        lines = []
        for (leaf, argument), own in zip(self.taking, self.cells, strict=True):
            if leaf.shape:
                lines += declining(unfit_array(argument, leaf, READABLE if len(leaf.shape) > 1 else 0))
                lines += [f"{', '.join(own)}, = {_PointFile.flat(self, leaf, argument)}.tolist()"] if own else []
                continue
            kind = number_type(leaf.dtype)
            others = [*declining(f"type({argument}) is not type_{leaf.dtype}"), f"{argument} = {kind}({argument})"]
            lines += [f"if type({argument}) is not {kind}:", *indented(others)]
        return lines

    def checks(self) -> list[str]:
        return []

    def out_check(self) -> list[str]:
        return self.declined_out()

    def arrays_for_results(self, given: list[str]) -> list[str]:
        return ["if out is not None:", *indented(self.out_check())]

    def computed(self) -> list[str]:
        lines, values = self.statements(self.rest, False, ends=lambda _, condition: declining(condition))
        results = zip(self.targets, self.results(values), strict=True)
        self.texts = {name: f"[{', '.join(found)}]" if isinstance(found, list) else found for name, found in results}
        return lines

    def made(self, output: Output, name: str) -> str:
        text = self.texts[name]
        kind = "b" if output.dtype == "?" else output.dtype
        return _PointFile.made(self, output, text) if output.shape else f"type_{kind}({text})"

    def filling(self, output: Output, place: str, name: str) -> str:
        return _PointFile.filling(self, output, place, self.texts[name])


class _LoopFile(_PointFile):
    """The same with loops: steps over numbers and arrays."""

    nests: ClassVar[type[PythonNests]] = ArrayNests
    arithmetic = "arithmetic on numbers and arrays"

    def taken_apart(self) -> list[list[str]]:
        self.constants: dict[str, np.ndarray] = {}
        return [[argument] for argument in self.arguments]

    def cell_at(self, place: int, index: Sequence[int]) -> str:
        return f"{self.arguments[place]}[{', '.join(map(str, index))}]"

    def statements(self, program: Program, careful: bool, ends: Ends | None = None, **options: Any) -> Statements:
        spell = self.careful(program) if careful else self.spell
        words = self.said = self.nests(Names(self.names.taken), self.size_names, spell, self.literal, ends)
        words.constants = self.constants
        targets = self.targets if program is self.rest else [words.names.numbered("v") for _ in program.outputs]
        names = self.inside() if program is self.rest else self.order()
        lines = words.body(program, names[: len(program.inputs)], targets)
        self.names.taken.update(self.constants)
        return lines, {o.cells[0]: name for o, name in zip(program.outputs, targets, strict=True)}

    def constant_texts(self) -> list[tuple[str, int]]:
        return self.said.constant_texts()

    def inside(self) -> list[str]:
        """The names of what the steps are given, in there."""
        return [*(own for (own,) in self.cells), *self.size_names]

    def order(self) -> list[str]:
        return self.inside()

    def parameters(self) -> list[str]:
        typed = zip(self.inside(), [*map(self.result_type, self.rest.inputs), *("int" for _ in self.size_names)], strict=True)
        return [f"{name}: {kind}" for name, kind in typed]

    def result_type(self, output: Input | Output) -> str:
        return "Any" if output.shape else number_type(output.dtype)

    def results(self, values: dict[int, str]) -> list[Any]:
        return self.targets

    def accepted(self) -> list[str]:
        return Shell.accepted(self)

    def made(self, output: Output, name: str) -> str:
        kind = f"np.{dtype_text(output.dtype)}"
        return f"{kind}({name})" if not output.shape else name if len(self.targets) > 1 else f"np.asarray({name}, {kind})"

    def filling(self, output: Output, place: str, name: str) -> str:
        return f"{place}[{'...' if output.shape else '()'}] = {name}"


class _PlainLoopFile(_LoopFile, _PlainFile):
    """Numbers of Python's own, and lists, which hold the cells of arrays in C order."""

    nests = PythonNests
    arithmetic = "arithmetic on numbers and lists, which hold the cells of arrays in C order"
    filling = _PlainFile.filling

    def taken_apart(self) -> list[list[str]]:
        self.lists = [self.names.fresh(f"{a}_cells") if leaf.shape else "" for leaf, a in self.taking]
        return super().taken_apart()

    def cell_at(self, place: int, index: Sequence[int]) -> str:
        at: Count = 0
        for n, i in zip(self.program.inputs[place].shape, index, strict=True):
            at = at * n + i
        return f"{self.lists[place]}[{spaced_extent(at)}]"

    def order(self) -> list[str]:
        return [*(cells or own for cells, (own,) in zip_longest(self.lists, self.cells)), *self.size_names]

    def result_type(self, output: Input | Output) -> str:
        return f"list[{number_type(output.dtype)}]" if output.shape else number_type(output.dtype)

    def accepted(self) -> list[str]:
        lines = self.renamed()
        lines += told_sizes([(a, leaf.shape) for leaf, a in self.taking], _cells_along)
        calls = [(self.taken(leaf, a, None), a, cells) for (leaf, a), cells in zip(self.taking, self.lists, strict=True)]
        return [*lines, *(f"{cells} = list({call})" if cells else f"{a} = {call}" for call, a, cells in calls)]

    def made(self, output: Output, name: str) -> str:
        if len(output.shape) < 2:
            return name
        self.uses("_nested")
        rows, *row = extent_texts(output.shape)
        if names_in_extents(output.shape[:1]) - {*self.size_names}:  # a loop counts them
            rows = f"len({name})//({'*'.join(row)})"
        return f"_nested({', '.join([name, rows, *row])})"


def _cells_along(name: str, axis: int) -> str:
    """The number of entries of nested sequences."""
    return f"(len({name}[0]) if len({name}) else 0)" if axis else f"len({name})"


def _careful(program: Program, position: int, spelled: Spelled) -> tuple[tuple[str, ...], Spelled]:
    """The support that an operation calls to give the IEEE result where Python's raises, and the spelling."""
    node, template = program.nodes[position], spelled.template
    on_complex = is_complex(node.dtype)
    if node.op not in (_COMPLEX_RAISING if on_complex else _RAISING):
        return (), spelled
    if node.op in ("floor", "ceil", "trunc", "rint"):
        return (), Spelled(f"{template} if math.isfinite({{0}}) else {{0}}", CHOICE)
    if on_complex and node.op in ("div", "pow"):
        sign = "/" if node.op == "div" else "**"
        return ("_ieee_complex",), Spelled(f"_ieee_complex(lambda a, b: a {sign} b, {{0}}, {{1}})")
    if node.op == "div":
        return ("_divide",), Spelled("_divide({0}, {1})")
    if node.op in ("mod", "floordiv"):
        support, other = ("math", "math.nan") if node.op == "mod" else ("_divide", "_divide({0}, {1})")
        return (support,), Spelled(f"{template} if {{1}} else {other}", CHOICE, (ATOM, ATOM))
    call = "_ieee_complex" if on_complex else "_ieee"
    function, _, rest = template.partition("(")
    return (call,), Spelled(f"{call}({function}, {rest}")
