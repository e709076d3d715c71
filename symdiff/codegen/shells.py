"""The host function around a program's mathematics, and its file: arguments, `out`, overlap, results, work arrays, imports.

Assumes inputs and outputs of a Program. A target's words are the methods of `Shell` that its own class writes anew: `kinds` of
arguments and results, `taken` (how an argument is checked), `out_check`, `filling`, `packages` and `support`; `words` is the
module's name, np or cp. Guarantees one line a check, annotations that a strict type checker accepts, and that a file has what
was called as its text was written.
"""

from collections.abc import Sequence
from string import Template
from typing import Any, ClassVar

from symdiff.codegen.names import UNCALLED, Names, emitted_argument_names
from symdiff.codegen.sizes import told_sizes
from symdiff.codegen.source import MISS, PythonFile, Source, Wanted
from symdiff.codegen.text import (
    LARGE,
    Result,
    dtype_text,
    emits_flat_result,
    emitted_result,
    indented,
    output_texts,
    packed,
    packed_lines,
    tuple_text,
    unpacked,
    wrapped_text,
)
from symdiff.lowering.program import Input, Output, Program
from symdiff.vocabulary.extents import Example, Extent, Shape, sizes_in, spaced_extent
from symdiff.vocabulary.heads import NUMPY, Words
from symdiff.vocabulary.literals import WIDTH, docstring_literal
from symdiff.vocabulary.ops import dtype_of_code
from symdiff.vocabulary.plain import WRITTEN

INDENT = "    "
POINTS = '"n"'  # the number of points in a shape that is expected
UNEVALUATED = "from __future__ import annotations"  # in text for this process, whose functions are a file's
DTYPES: dict[str, Any] = {f"dtype_{'b' if code == '?' else code}": dtype_of_code(code) for code in "?fdFD"}
DTYPES |= {name.replace("dtype", "type"): dtype.type for name, dtype in DTYPES.items()}
_ARRAY = '''def _array(name: str, x: Any, kind: Any, shape: tuple[Any, ...]) -> NDArray[Any]:
    """x as a NumPy array of a dtype and shape, "n" for points; what would lose something is refused."""
    if hasattr(x, "__array__") and not isinstance(x, np.generic) and type(x) not in (np.ndarray, np.memmap):
        raise TypeError(f"{name} is {type(x).__name__}; a plain NumPy array, as of np.asarray(x), is expected")
    found = np.asarray(x)
    if found.dtype.kind not in ("biufc" if np.dtype(kind).kind == "c" else "biuf"):
        raise TypeError(f"{name} has numbers of {found.dtype}, {kind.__name__} is expected")
    if len(shape) != found.ndim or any(n not in (m, "n") for m, n in zip(found.shape, shape, strict=True)):
        raise ValueError(f"{name} has shape {found.shape}, ({', '.join(map(str, shape))}) is expected")
    return np.require(found, kind, ["C", "A"])'''
_ANY_ARRAY = _ARRAY.replace('"n" for points', "with names for sizes").replace(
    'n not in (m, "n")', "isinstance(n, int) and n != m"
)
_CHECK_OUT = '''def _check_out(arrays: Any, *expected: Any) -> None:
    """Raise ValueError where arrays for results are not writeable, of their shape and dtype, and apart."""
    for k, (a, (shape, kind)) in enumerate(zip(arrays, expected, strict=True)):
        if type(a) not in (np.ndarray, np.memmap) or a.shape != shape or a.dtype != kind or not a.flags.writeable:
            raise ValueError(f"out {k} is no writeable NumPy array of {kind.__name__} {shape}")
        repeated = any(s == 0 and n > 1 for s, n in zip(a.strides, a.shape, strict=True))
        if repeated or any(np.shares_memory(a, b) for b in arrays[:k]):
            raise ValueError(f"out {k} has the same memory for several numbers")'''

_POINTS = '''def _points(**counts: int) -> int:
    """The number of points, in which all arguments agree."""
    first, n = next(iter(counts.items()))
    for name, count in counts.items():
        if count != n:
            raise ValueError(f"{count} points in {name}, {n} in {first}")
    return n'''
COPIED = Template('''def _apart(arrays: tuple[Any, ...], results: tuple[Any, ...]) -> list[$array]:
    """Arrays, copies of those that may share memory with results."""
    return [a.copy() if any($np.may_share_memory(a, r) for r in results) else a for a in arrays]''')


class Shell:
    """Names and texts of a host function of arrays.

    That of a file refuses arguments that do not fit, another takes them in the program's own form, or declines with `MISS`.
    `own` are its variables; `in_axes` and `out_axes` tell where points are.
    """

    words: ClassVar[Words] = NUMPY
    language: ClassVar[str] = "numpy"
    support: ClassVar[dict[str, str]] = {"_array": _ARRAY, "_check_out": _CHECK_OUT}  # by name, as files have them
    named: ClassVar[tuple[str, ...]] = ("special", "ArrayLike", "NDArray", "threading", "_local")

    def __init__(
        self, program: Program, want: Wanted, own: Sequence[str] = (), in_axes: Sequence[int | None] = (),
        out_axes: Sequence[int | None] = (),
    ) -> None:  # fmt: skip
        self.want, self.exported, self.sizes = want, want.style == "export", (sizes := want.sizes)
        self.given_count = len(program.inputs) if sizes is None else len(sizes.shapes)
        self.size_names = [] if sizes is None else [size.name for size in sizes_in(sizes.shapes)]
        if sizes is not None:
            self.support = self.support | {"_array": _ANY_ARRAY}  # type: ignore[misc]
        self.program, self.raised = program, want.raised
        self.in_axes = in_axes or (None,) * len(program.inputs)
        self.out_axes = out_axes or (None,) * len(program.outputs)
        self.result = emitted_result(len(program.outputs)) if want.result is None else want.result
        own = (*own, *self.named, "Any", "Sequence", "Result", "result")  # which the host function itself does not call
        called = (self.words.np, "out", "_work", "_checks", *(() if self.exported else ("MISS", "ndarray", *DTYPES)))
        self.names = Names((*called, *self.support, *own, *self.size_names))
        self.arguments = emitted_argument_names(program.inputs, self.names)
        # An argument that has the name of a variable of ours, or of what a file calls elsewhere, keeps it in the signature.
        kept = {*own, *(UNCALLED if self.exported and not want.raised else ())}
        self.shown = [i.name if i.name in kept else a for i, a in zip(program.inputs, self.arguments, strict=True)]
        self.entry = self.names.fresh(want.name)
        self.targets = [self.names.fresh(o.name) for o in program.outputs]
        self.taking = list(zip(program.inputs, self.arguments, strict=True))
        self.making = list(zip(program.outputs, self.targets, strict=True))
        self.points = self.names.fresh("n") if any(axis is not None for axis in self.in_axes) else ""
        self.places = output_texts(self.result, "out")
        self.used = {"Any": "from typing import Any"}  # the modules and support that the text calls, by their names
        self.stores: list[str] = []  # functions that give the arrays which a thread keeps

    def uses(self, *names: str) -> None:
        """The file has these functions of `support`."""
        self.used |= {name: self.support[name] for name in names}

    # -- arguments

    def accepted_type(self, leaf: Input) -> str:
        """The type of an argument."""
        return "ArrayLike"

    def taken(self, leaf: Input, argument: str, axis: int | None) -> str:
        """The call that checks and converts an argument; `axis` is that of its points."""
        self.uses("_array")
        return f'_array("{argument}", {argument}, {self.words.np}.{dtype_text(leaf.dtype)}, {_expected(leaf, axis)})'

    def renamed(self) -> list[str]:
        """Arguments that have other names inside."""
        return [f"{a} = {n}" for a, n in zip(self.arguments, self.shown, strict=True) if a != n]

    def accepted(self) -> list[str]:
        """The checks of the arguments, a line each; numbers as NumPy's."""
        lines = self.renamed()
        leaves = list(zip(self.taking, self.in_axes, strict=True))[: self.given_count]
        for (leaf, argument), axis in leaves if self.exported else ():
            call = self.taken(leaf, argument, axis)
            lines.append(f"{argument} = {self.one(leaf, call) if leaf.shape == () and axis is None else call}")
        return lines + self.told()

    def told(self) -> list[str]:
        """The sizes that the arguments tell, and what they have to keep to."""
        if self.sizes is None:
            return []
        lines = told_sizes(list(zip(self.arguments, self.sizes.shapes, strict=False)))
        for argument, count in zip(self.arguments[self.given_count :], self.sizes.counts, strict=True):
            lines.append(f"{argument} = {self.words.np}.float64({spaced_extent(count)})")
        return lines

    def one(self, leaf: Input, call: str) -> str:
        """A checked argument as a number."""
        return f"{self.words.np}.{dtype_text(leaf.dtype)}({call})"

    def lies(self, leaf: Input, argument: str) -> bool:
        """Whether an argument, one that all points share, is an array."""
        return bool(leaf.shape)

    # -- results

    def held(self, output: Output) -> bool:
        """Whether a result is computed in an array."""
        return bool(self.points or output.shape)

    def annotation(self, output: Output, points: bool = False) -> str:
        """The type of an output: NumPy's number, or an array of them."""
        kind = f"{self.words.np}.{dtype_text(output.dtype)}"
        return f"NDArray[{kind}]" if output.shape or points else kind

    def shapes(self) -> list[str]:
        """The shapes of the results."""
        return [_shape(o, axis, self.points) for o, axis in zip(self.program.outputs, self.out_axes, strict=True)]

    def out_check(self) -> list[str]:
        """The check of a given `out`, before anything is computed."""
        if not self.exported:
            return []
        self.uses("_check_out")
        outputs = zip(self.program.outputs, self.shapes(), strict=True)
        parts = [f"({shape}, {self.words.np}.{dtype_text(o.dtype)})" for o, shape in outputs]
        return wrapped_text("_check_out(", [self.given_arrays(), *parts], ")")

    def declined_out(self) -> list[str]:
        """The check of `out` in this process, which declines what is not written to as it is."""
        tests = [] if isinstance(self.result, int) else [f"type(out) is not tuple or len(out) != {len(self.places)}"]
        tests += [unfit_array(place, o, WRITTEN) for place, o in zip(self.places, self.program.outputs, strict=True)]
        given = self.given_arrays()
        pairs = f"for k, a in enumerate({given}) for b in {given}[:k]"
        return declining(*tests, *([f"any(np.may_share_memory(a, b) {pairs})"] if len(self.places) > 1 else []))

    def given_arrays(self) -> str:
        """The arrays of `out`, side by side, as one tuple."""
        flat = isinstance(self.result, tuple) and emits_flat_result(self.result)
        return "out" if flat else tuple_text(self.places)

    def arrays_for_results(self, given: list[str]) -> list[str]:
        """New arrays for what is computed in place, or the statements `given` for an `out`."""
        np = self.words.np
        made = [
            f"{target} = {np}.empty({self.points if self.points and not o.shape else shape}, {np}.{dtype_text(o.dtype)})"
            for (o, target), shape in zip(self.making, self.shapes(), strict=True)
            if self.held(o)
        ]
        check = self.out_check()
        if not made:
            return ["if out is not None:", *indented(check)]
        return ["if out is None:", *indented(made), "else:", *indented([*check, *given])]

    def returned(self, made: Sequence[str], filled: Sequence[str]) -> list[str]:
        """The results as the texts `made`, or `out` after the statements that fill it."""
        ends = ["result: Result = out", "return result"] if self.exported else ["return out"]
        if not filled and len(own := packed(self.result, made)) < WIDTH - 36:
            whole = f"{own} if out is None else out"
            return [f"result: Result = {whole}", "return result"] if self.exported else [f"return {whole}"]
        flat = f"{INDENT}return {packed(self.result, made, bare=True)}"
        lines = [flat] if len(flat) < WIDTH - 4 else packed_lines("return ", self.result, made, INDENT)
        return ["if out is None:", *lines, *filled, *ends]

    # -- functions and the file

    def function(self, lines: Sequence[str]) -> str:
        """The host function with these statements."""
        inputs = list(zip(self.shown, self.program.inputs, strict=True))[: self.given_count]
        typed = [*(f"{n}: {self.accepted_type(leaf)}" for n, leaf in inputs), "out: Any = None"]
        head = wrapped_text(f"def {self.entry}(", typed, ") -> Result:")
        return "\n".join([*head, *docstring_literal(self.want.doc), *indented(lines)])

    def keep(self, store: str, made: Sequence[str]) -> str:
        """The call that gives a thread's arrays under a name of its store; they are made in the thread's first call."""
        self.used["threading"] = "import threading"
        sizes = tuple_text(self.size_names)
        kept = "this thread keeps, for its last sizes." if self.size_names else "this thread keeps."
        test = f'getattr(_local, "sizes", None) != {sizes}' if self.size_names else f'not hasattr(_local, "{store}")'
        self.stores.append("\n".join([
            f"def _{store}({', '.join(f'{name}: int' for name in self.size_names)}) -> Any:",
            f'{INDENT}"""The work arrays that {kept}"""',
            f"{INDENT}if {test}:",
            f"{INDENT * 2}_local.{store} = (",
            *(f"{INDENT * 3}{text}," for text in made),
            f"{INDENT * 2})",
            *([f"{INDENT * 2}_local.sizes = {sizes}"] if self.size_names else []),
            f"{INDENT}return _local.{store}",
        ]))  # fmt: skip
        return f"_{store}({', '.join(self.size_names)})"

    def packages(self, special: bool) -> list[str]:
        """The imports from other packages."""
        found = ["import numpy as np", "from numpy.typing import ArrayLike, NDArray"]
        return [*found, "from scipy import special"] if special else found

    def source(
        self, functions: Sequence[str], *, special: bool = False, packages: Sequence[str] = (),
        head: Sequence[str] = (), support: Sequence[str] = (), known: Sequence[tuple[str, Any]] = (),
        constants: Sequence[tuple[str, int]] = (),
    ) -> Source:  # fmt: skip
        """The functions, the mathematics first, as a file, or as text for this process, whose globals are `known`, too.

        `constants`, texts and how many cells they have, stand below the functions where they are long.
        """
        called = [text for name, text in self.support.items() if name in self.used]
        below = [text for text, cells in constants if cells > LARGE and "\n" in text]
        above = "\n".join(text for text, _ in constants if text not in below)
        if not self.exported:
            text = "\n\n\n".join([UNEVALUATED, *functions, *self.stores, *support, *called, *(text for text, _ in constants)])
            return Source(f"{text}\n", self.entry, self.language, (("MISS", MISS), *DTYPES.items(), *known))
        kinds = [self.annotation(o, bool(self.points)) for o in self.program.outputs]
        standard = tuple(text for name, text in self.used.items() if name not in self.support)
        local = ["_local = threading.local()"] if self.stores else []
        return PythonFile(
            tuple(self.want.header),
            standard,
            (*self.packages(special), *packages),
            (self.result_named(kinds), *local, *filter(None, [above]), *head),
            tuple(functions),
            (*self.stores, *support, *called, *below),
            tuple(map(self.accepted_type, self.program.inputs[: self.given_count])),
        ).source(self.entry, self.language)

    def result_named(self, kinds: Sequence[str]) -> str:
        """The name of the result's type, that of a long one in several lines."""
        if not isinstance(self.result, tuple):
            return f"Result = {annotated_result(self.result, kinds)}"
        parts = [annotated_result(part, kinds) for part in self.result]
        return "\n".join(wrapped_text("Result = tuple[", parts or ["()"], "]"))


class PointsShell(Shell):
    """The function over points, before and after the loop."""

    constants: dict[str, Any]  # those that its blocks share
    support: ClassVar[dict[str, str]] = {
        **Shell.support,
        "_points": _POINTS,
        "_apart": COPIED.substitute(np="np", array="NDArray[Any]"),
    }

    def count(self) -> list[str]:
        """The number of points."""
        counts = [(a, f"{a}.shape[{axis}]") for a, axis in zip(self.arguments, self.in_axes, strict=True) if axis is not None]
        if not counts or not self.exported or len(counts) == 1:
            return [f"{self.points} = {count}" for _, count in counts[:1]]
        self.uses("_points")
        return wrapped_text(f"{self.points} = _points(", [f"{a}={count}" for a, count in counts], ")")

    def given(self) -> list[str]:
        """The arrays of `out` by their names, and the arguments apart from them."""
        inputs = zip(self.taking, self.in_axes, strict=True)
        arrays = tuple_text([a for (leaf, a), axis in inputs if axis is not None or self.lies(leaf, a)])
        lines = [unpacked(self.result, self.targets, "out")]
        if len(lines[0]) > WIDTH and emits_flat_result(self.result):
            lines = wrapped_text("", self.targets, " = out")
        if arrays == "()":
            return lines
        self.uses("_apart")
        return [*lines, f"{arrays[1:-1]} = _apart({arrays}, {tuple_text(self.targets)})"]


def _shape(leaf: Input | Output, axis: int | None, points: str) -> str:
    """A shape as text, with that of the points before or behind it."""
    sizes = [*([points] if axis == 0 else []), *extent_texts(leaf.shape), *([points] if axis == -1 else [])]
    return tuple_text(sizes)


def extent_texts(shape: Shape) -> list[str]:
    """The numbers of cells along the axes of a shape, as expressions of sizes."""
    return [spaced_extent(n) if isinstance(n, Extent) else str(n) for n in shape]


def _expected(leaf: Input, axis: int | None) -> str:
    """The shape that is expected, with names for sizes that a call tells."""
    if not any(isinstance(n, (Example, Extent)) for n in leaf.shape):
        return _shape(leaf, axis, POINTS)
    return tuple_text([f'"{n}"' if isinstance(n, (Example, Extent)) else str(n) for n in leaf.shape])


def annotated_result(result: Result, kinds: Sequence[str]) -> str:
    """The type of a result, from those of its outputs."""
    if isinstance(result, int):
        return kinds[result]
    parts = [annotated_result(part, kinds) for part in result]
    if isinstance(result, list):
        return f"list[{' | '.join(dict.fromkeys(parts))}]" if parts else "list[Any]"
    return f"tuple[{', '.join(parts) or '()'}]"


def unfit_array(name: str, leaf: Input | Output, flags: int = 0) -> str:
    """The condition that something is not an array that compiled code takes as it is, with these flags of NumPy's."""
    kind = "dtype_" + ("b" if leaf.dtype == "?" else leaf.dtype)
    types = f"type({name}) is not ndarray or {name}.dtype is not {kind} or {name}.shape != {leaf.shape!r}"
    return f"{types} or {name}.flags.num & {flags} != {flags}" if flags else types


def declining(*tests: str) -> list[str]:
    """The statements by which a function declines a call where a test holds."""
    return [line for test in tests for line in (f"if {test}:", f"{INDENT}return MISS")]
