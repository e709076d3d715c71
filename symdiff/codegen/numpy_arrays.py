"""ArrayPlan to NumPy: one line for each structural call, kernels as in-place ufuncs over blocks.

Assumes an ArrayPlan. Guarantees that a thread's second call allocates its results only, and with an `out` that overlaps no
input nothing at all (but for what `np.linalg` and sorting allocate themselves); IEEE results without warnings. Refuses, with
`ExportError`, to write large constant arrays into a file.
"""

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from symdiff.codegen.array_kernels import KernelLines
from symdiff.codegen.array_text import (
    clearing_text,
    constant_text,
    emit_step,
    imported_text,
    primitive_text,
    region,
    shape_text,
    view_text,
)
from symdiff.codegen.exceptions import POINT, Raised
from symdiff.codegen.names import Names, emitted_argument_names
from symdiff.codegen.numpy import called, emitted_globals
from symdiff.codegen.numpy_batch import OWN, emit_kept_arrays
from symdiff.codegen.shells import (
    ARRAY,
    CHECK_OUT,
    UNEVALUATED,
    annotated_array,
    annotated_result,
    checked_input,
    emit_out_check,
)
from symdiff.codegen.source import PythonFile, Source
from symdiff.codegen.text import Result, dtype_text, emitted_result, output_texts, packed, tuple_text, wrapped_text
from symdiff.ir.node import Node
from symdiff.lowering.arrays.fusing import Call, Clear, Kernel
from symdiff.lowering.arrays.plan import ArrayPlan, is_planned
from symdiff.lowering.program import ASSEMBLE, domain_size, is_leaf, is_view_step
from symdiff.vocabulary.heads import NUMPY
from symdiff.vocabulary.literals import docstring_literal, number_literal
from symdiff.vocabulary.ops import OPS, dtype_of_code
from symdiff.vocabulary.plain import READABLE, WRITTEN

INDENT = "    "
_DTYPES = {code: f"dtype_{'b' if code == '?' else code}" for code in "?fdFD"}
_WORDS = (
    "work", "start", "stop", "rows", "value", "r", "a", "u", "s", "vh", "others", "sign", "i", "inner", "own", "turned",
    "diagonal",
)  # fmt: skip


def emit(
    plan: ArrayPlan, *, name: str, style: str = "runtime", header: Sequence[str] = (), doc: str = "",
    result: Result | None = None, builtins: Mapping[int, Any] | None = None, raised: Sequence[Raised] = (),
    points: Sequence[int | None] = (),
) -> Source:  # fmt: skip
    """The plan as a NumPy function: style "runtime" with checks that decline, "export" for a stand-alone file.

    `builtins` compute the kernels that have a nest in the plan; `raised` are the exceptions of the program's checks, and
    `points` the axes of points in the arguments where they have some.
    """
    writer = ArrayWriter(plan, name, style, result, raised, points)
    functions, works = writer.functions(doc)
    special = any(OPS[i.op].is_special for i in writer.scalars)
    if style == "export":
        packages = [
            "import numpy as np",
            "from numpy.typing import ArrayLike, NDArray",
            *(["from scipy import special"] if special else []),
        ]
        alias = f"Result = {annotated_result(writer.result, [annotated_array(o) for o in writer.program.outputs])}"
        own = [(n, c) for n, c in writer.constants if not isinstance(c, np.ndarray)]
        aliases = {f: writer.names.fresh(f.__name__) for f in dict.fromkeys(c.function for _, c in own)}
        sites = [(n, c, aliases[c.function]) for n, c in own]
        packages += dict.fromkeys(imported_text(site, alias) for _, site, alias in sites)
        held = [f"{n} = {constant_text(c)}" for n, c in writer.constants if isinstance(c, np.ndarray)]
        constants = ["\n".join(held)] if held else []
        head = [alias, *(["_local = threading.local()"] if works else []), *constants]
        standard = ["from typing import Any", *(["import threading"] if works else [])]
        calls = [primitive_text(site, name, alias) for name, site, alias in sites]
        support = [*works, *calls, ARRAY, CHECK_OUT, *([_APART] if writer.uses_apart else [])]
        return PythonFile(
            tuple(header), tuple(standard), tuple(packages), tuple(head), tuple(functions), tuple(support)
        ).source(writer.entry, "numpy")
    known = [*emitted_globals(writer.scalars, special), *((name, dtype_of_code(code)) for code, name in _DTYPES.items())]
    known += [("_local", threading.local())]
    compiled = [(writer.compiled[index], builtin) for index, builtin in (builtins or {}).items()]
    text = "\n\n\n".join([UNEVALUATED, *functions, *works, _APART]) + "\n"
    return Source(text, writer.entry, "numpy", (*known, *writer.constants, *compiled))


_APART = '''def _apart(results: tuple[Any, ...], arrays: tuple[Any, ...]) -> list[NDArray[Any]]:
    """Arrays for results: those given, or new ones for what lies scattered or may share memory with arrays."""
    return [
        r if r.flags.carray and not any(np.may_share_memory(r, a) for a in arrays) else np.empty(r.shape, r.dtype)
        for r in results
    ]'''


class ArrayWriter:
    """Names, texts and places of the values of a plan, and the function that computes them in the words of a library."""

    words = NUMPY

    def __init__(
        self,
        plan: ArrayPlan,
        name: str,
        style: str,
        result: Result | None,
        raised: Sequence[Raised] = (),
        points: Sequence[int | None] = (),
    ) -> None:
        self.plan = plan
        self.points = points or (None,) * len(plan.program.inputs)
        self.raised = raised
        self.program = plan.program
        self.nodes = plan.program.nodes
        self.style = style
        self.result = emitted_result(len(plan.program.outputs)) if result is None else result
        self.scalars = plan.fused.scalars
        self.calls = called(self.scalars)
        self.read = {node.params[0] for node in self.nodes if node.op == "input"}
        self.uses_apart = False
        words = (*_WORDS, *(("point", *(f"error{k}" for k in range(len(raised)))) if raised else ()))
        self.names = Names((*OWN, *_DTYPES.values(), *self.own_names(), *self.calls.values(), *words))
        self.arguments = emitted_argument_names(self.program.inputs, self.names)
        # An argument that has the name of a variable of ours keeps it in the signature.
        self.shown = [i.name if i.name in words else a for i, a in zip(self.program.inputs, self.arguments, strict=True)]
        self.entry, self.steps = self.names.fresh(name), self.names.fresh(f"{name}_steps")
        self.several = not isinstance(self.result, int)
        self.targets = [self.names.fresh(o.name) for o in self.program.outputs]
        self.texts: dict[int, str] = {}
        self.constants: list[tuple[str, Any]] = []
        self.count = 0
        self.slot_names = [self.names.fresh(f"slot{k}") for k in range(len(plan.slots))]
        blocks = {code: f"blocks_{'b' if code == '?' else code}" for code in plan.scratch}
        self.scratch_names = {code: self.names.fresh(name) for code, name in blocks.items()}
        sums = {code: "partial" if code == "d" else f"partial_{code}" for code in plan.partial}
        self.partial_names = {code: self.names.fresh(name) for code, name in sums.items()}
        self.compiled = {index: self.names.fresh(f"kernel{index}") for index in plan.nests}
        self.cells: list[tuple[str, str]] = []
        self.exact = {o for o, node in enumerate(self.nodes) if node.op == "input"}
        self.known_ones: dict[tuple[int, str], str] = {}
        self.block_names: dict[tuple[str, int], str] = {}
        for position, node in enumerate(self.nodes):
            if node.op == "input":
                self.texts[position] = self.arguments[node.params[0]]
            elif node.op == "const":
                self.texts[position] = self.constant(node)

    def own_names(self) -> tuple[str, ...]:
        """Further names that the file has for its own use."""
        return ()

    def constant(self, node: Node) -> str:
        if not isinstance(node.params, np.ndarray):
            return number_literal(node.params, self.words.np)
        return self.array(np.ascontiguousarray(node.params))

    def array(self, value: Any) -> str:
        """The name of a constant array, or of what calls an opaque function."""
        for name, known in self.constants:
            if known is value:
                return name
        site = not isinstance(value, np.ndarray)
        name = self.names.fresh(f"call_{value.rule.name}" if site else f"constant{len(self.constants)}")
        self.constants.append((name, value))
        return name

    def ones(self, count: int, code: str) -> str:
        """The name of a constant array of ones."""
        if (count, code) not in self.known_ones:
            self.known_ones[count, code] = self.array(np.ones(count, dtype=code))
        return self.known_ones[count, code]

    def text(self, value: int) -> str:
        """A value as an expression: a name, or a view of one."""
        found = self.texts.get(value)
        if found is None:
            node = self.nodes[value]
            assert is_view_step(node), f"v{value} ({node.op}) is read before it is made"
            found = view_text(self.nodes, value, self.text, self.words)
            self.texts[value] = found
        return found

    def fresh(self, _: str = "v") -> str:
        """The next name for a value."""
        name = self.names.fresh(f"v{self.count}")
        self.count += 1
        return name

    # -- the functions

    def functions(self, doc: str) -> tuple[list[str], list[str]]:
        """The functions of the steps and of all, and that of the arrays which a thread keeps where it keeps some."""
        body = [*self.body(), *self.copies()]
        made = self.made_once()
        kept = [name for name, _ in made]
        arrays = [t for t, o in zip(self.targets, self.program.outputs, strict=True) if o.shape != ()]
        taken = [*(a for place, a in enumerate(self.arguments) if place in self.read), *arrays, *kept]
        returned = self.numbers_made()
        body += [f"return {', '.join(returned)}"] if returned else []
        steps = wrapped_text(f"def {self.steps}(", [f"{name}: Any" for name in taken], ") -> Any:", "")
        steps += [f'{INDENT}"""{self.steps_doc(kept)}"""', *(INDENT + line for line in body)]
        exported = self.style == "export"
        shell = [f"{a} = {n}" for a, n in zip(self.arguments, self.shown, strict=True) if a != n]
        shell += self.accepted() if exported else self.declined()
        shell += self.allocation()
        shell += [f"{', '.join(kept)}{',' if len(kept) == 1 else ''} = _work()"] if kept else []
        shell += self.call(taken)
        parameters = [*(f"{a}: ArrayLike" for a in self.shown), "out: Any = None"] if exported else [*self.shown, "out=None"]
        lines = wrapped_text(f"def {self.entry}(", parameters, ") -> Result:" if exported else "):", "")
        lines += [*docstring_literal(doc), *(INDENT + line for line in [*shell, *self.results(arrays)])]
        works = [emit_kept_arrays("work", [text for _, text in made])] if made else []
        return ["\n".join(steps), "\n".join(lines)], works

    def body(self) -> list[str]:
        """The statements of the steps."""
        body: list[str] = []
        for index, task in enumerate(self.plan.fused.tasks):
            if index == self.plan.fused.checked:
                body += self.checks()
            if isinstance(task, Kernel):
                body += self.kernel(index, task)
            elif index in self.plan.nests:
                body += [*(self.made(task.value) if self.nodes[task.value].shape else []), *self.builtin(index)]
            else:
                body += self.structural(task)
        return body + (self.checks() if self.plan.fused.checked == len(self.plan.fused.tasks) else [])

    def steps_doc(self, kept: list[str]) -> str:
        """What the steps compute."""
        shown = self.targets if len(self.targets) < 5 else [*self.targets[:3], "..."]
        return ", ".join(shown) + (f"; intermediate values are in {', '.join(kept)}." if kept else ".")

    def call(self, taken: list[str]) -> list[str]:
        """The call of the steps, without NumPy's warnings."""
        numbers = [t for t, o in zip(self.targets, self.program.outputs, strict=True) if o.shape == ()]
        found = ", ".join(numbers)
        declines = bool(self.program.checks) and not self.raised
        lines = wrapped_text(f"{'found = ' if declines else f'{found} = ' if found else ''}{self.steps}(", taken, ")", INDENT)
        lines.insert(0, 'with np.errstate(all="ignore"):')
        if declines:
            lines += ["if found is MISS:", f"{INDENT}return MISS", *([f"{found} = found"] if found else [])]
        return lines

    def checks(self) -> list[str]:
        """What ends the steps where a check holds: an exception, or the sentinel by which the caller is told."""
        lines = []
        names = [leaf.name for leaf in self.program.inputs]
        for k, value in enumerate(self.program.checks):
            text = self.text(value)
            if self.nodes[value].shape == ():
                lines.append(f"if {text}:")
                shown = dict(zip(names, self.arguments, strict=True))
                found = [f"raise {self.raised[k].text(shown)}"] if self.raised else ["return MISS"]
            else:
                lines.append(f"if {text}.any():")
                shown = {n: a + POINT[x] for n, a, x in zip(names, self.arguments, self.points, strict=True)}
                found = self.raised[k].at_point(k, f"{text}.argmax()", shown)
            lines += [INDENT + line for line in found]
        return lines

    def accepted(self) -> list[str]:
        """The checks of a file's arguments, a line each."""
        checks = [checked_input(leaf, a) for leaf, a in zip(self.program.inputs, self.arguments, strict=True)]
        return [
            f"{a} = {check}" if leaf.shape else f"{a} = np.{dtype_text(leaf.dtype)}({check})"
            for leaf, a, check in zip(self.program.inputs, self.arguments, checks, strict=True)
        ]

    def declined(self) -> list[str]:
        """A runtime function declines arguments that are not exactly what it was made for."""
        lines = []
        for leaf, argument in zip(self.program.inputs, self.arguments, strict=True):
            if leaf.shape == ():
                kinds = "float, np.floating" + (", complex, np.complexfloating" if leaf.dtype in "FD" else "")
                lines += [f"if not isinstance({argument}, ({kinds})):", f"{INDENT}return MISS"]
                lines.append(f"{argument} = np.{dtype_text(leaf.dtype)}({argument})")
                continue
            lines += [f"if {self.unfit(argument, leaf, READABLE)}:", f"{INDENT}return MISS"]
        return lines

    def unfit(self, name: str, leaf: Any, flags: int) -> str:
        """The condition that something is not an array that compiled code takes as it is, with these flags of NumPy's."""
        types = f"type({name}) is not np.ndarray or {name}.dtype is not {_DTYPES[leaf.dtype]}"
        return f"{types} or {name}.shape != {leaf.shape!r} or {name}.flags.num & {flags} != {flags}"

    def given(self) -> list[str]:
        """The checks of a given `out`."""
        outputs, places = self.program.outputs, output_texts(self.result, "out")
        if self.style == "export":
            return emit_out_check(outputs, [repr(o.shape) for o in outputs], self.result)
        tests = [f"type(out) is not tuple or len(out) != {len(places)}"] if self.several else []
        tests += [self.unfit(place, output, WRITTEN) for place, output in zip(places, outputs, strict=True)]
        tests += [f"np.may_share_memory({a}, {b})" for k, a in enumerate(places) for b in places[:k]]
        return [line for test in tests for line in (f"if {test}:", f"{INDENT}return MISS")]

    def allocation(self) -> list[str]:
        """The arrays that results are computed in: new ones, or those given if they lie together and apart from arguments."""
        outputs = [
            (target, place, o)
            for target, place, o in zip(self.targets, output_texts(self.result, "out"), self.program.outputs, strict=True)
            if o.shape != ()
        ]
        given = self.given()
        if not outputs:
            return ["if out is not None:", *(INDENT + line for line in given)]
        made = [f"{target} = np.empty({o.shape!r}, np.{dtype_text(o.dtype)})" for target, _, o in outputs]
        read = [a for a, leaf in zip(self.arguments, self.program.inputs, strict=True) if leaf.shape != ()]
        self.uses_apart = True
        computed, places = tuple_text([target for target, _, _ in outputs]), tuple_text([place for _, place, _ in outputs])
        given.append(f"{computed[1:-1]} = _apart({places}, {tuple_text(read)})")
        return ["if out is None:", *(INDENT + line for line in made), "else:", *(INDENT + line for line in given)]

    def made_once(self) -> list[tuple[str, str]]:
        """The arrays that a thread keeps: names and how they are made."""
        made = []
        for name, (code, cells) in zip(self.slot_names, self.plan.slots, strict=True):
            made.append((name, f"np.empty({cells}, np.{dtype_text(code)})"))
        for code, (rows, cells) in sorted(self.plan.scratch.items()):
            made.append((self.scratch_name(code), f"np.empty(({rows}, {cells}), np.{dtype_text(code)})"))
        for code, (rows, blocks) in sorted(self.plan.partial.items()):
            made.append((self.partial_name(code), f"np.empty(({rows}, {blocks}), np.{dtype_text(code)})"))
        return made + [(name, f"np.empty((), np.{dtype_text(code)})") for name, code in self.cells]

    def block_name(self, code: str, row: int) -> str:
        """The name of a work block, the same in all kernels."""
        if (code, row) not in self.block_names:
            stem = "w" if code == "d" else "b" if code == "?" else f"w{code}"
            self.block_names[code, row] = self.names.fresh(f"{stem}{row}")
        return self.block_names[code, row]

    def scratch_name(self, code: str) -> str:
        return self.scratch_names[code]

    def partial_name(self, code: str) -> str:
        return self.partial_names[code]

    def numbers_made(self) -> list[str]:
        """The results that are numbers, as the steps return them."""
        found = []
        for output in self.program.outputs:
            if output.shape == ():
                node, text = self.nodes[output.value], self.text(output.value)
                found.append(text if not is_leaf(node) and not is_view_step(node) else f"np.{dtype_text(output.dtype)}({text})")
        return found

    def results(self, arrays: list[str]) -> list[str]:
        """The results, in `out` where it is given."""
        places = output_texts(self.result, "out")
        outputs = list(zip(self.program.outputs, self.targets, places, strict=True))
        filled = [f"{place}[()] = {target}" for output, target, place in outputs if output.shape == ()]
        for output, target, place in outputs:
            if output.shape != ():
                filled += [f"if {target} is not {place}:", f"{INDENT}np.copyto({place}, {target})"]
        own = packed(self.result, self.targets)
        lines = ["if out is not None:", *(INDENT + line for line in filled)]
        if len(filled) == 2 and filled[0].startswith("if "):
            lines = [filled[0].replace("if ", "if out is not None and ", 1), filled[1]]
        if self.style == "export":
            return [*lines, f"result: Result = {own} if out is None else out", "return result"]
        return [*lines, f"return {own} if out is None else out"]

    def copies(self) -> list[str]:
        """Results that were not computed in their own arrays."""
        lines = []
        for k, output in enumerate(self.program.outputs):
            value = output.value
            while self.nodes[value].op == "reshape":
                value = self.nodes[value].operands[0]
            if output.shape != () and self.plan.places.get(value) != ("output", k):
                source = self.nodes[output.value]
                shown = source.operands[0] if source.op == "broadcast_to" else output.value
                lines.append(f"np.copyto({self.targets[k]}, {self.text(shown)})")
        return lines

    # -- places

    def made(self, value: int) -> list[str]:
        """The lines that give a value its array, under a name."""
        kind, k = self.plan.places[value]
        node = self.nodes[value]
        if kind == "output":
            output = self.program.outputs[k]
            if output.shape == node.shape:
                self.texts[value] = self.targets[k]
                return []
            self.texts[value] = self.names.fresh(f"{self.targets[k]}_{'flat' if len(node.shape) == 1 else 'view'}")
            return [f"{self.texts[value]} = {self.targets[k]}.reshape({shape_text(node.shape)})"]
        self.texts[value] = self.fresh()
        if kind != "work":
            return []
        cells = self.plan.slots[k][1]
        own = domain_size(node.shape)
        part = self.slot_names[k] if own == cells else f"{self.slot_names[k]}[:{own}]"
        return [f"{self.texts[value]} = {part}" + ("" if len(node.shape) == 1 else f".reshape({shape_text(node.shape)})")]

    # -- tasks

    def structural(self, task: Call | Clear) -> list[str]:
        value = task.value
        node = self.nodes[value]
        if isinstance(task, Clear):
            lines = self.made(value)
            return lines + clearing_text(self.texts[value], task.besides, node.shape)
        if node.op == ASSEMBLE:
            target = self.text(value)
            lines = []
            for operand, key in task.pending:
                place = region(target, key, node.shape)
                lines.append(f"np.add({place}, {self.text(operand)}, out={place})")
            return lines
        texts = [self.text(o) for o in node.operands]
        planned = is_planned(node) and node.shape != ()
        source = node.operands[0] if node.operands else -1
        if node.op in ("set", "set_at") and self.plan.places.get(source) == self.plan.places[value]:
            self.texts[value] = self.texts[source]
            return emit_step(self.nodes, value, texts, self.texts[value], planned, self.array)[1:]
        lines = self.made(value)
        target = self.texts[value]
        return lines + emit_step(self.nodes, value, texts, target, planned, self.array)

    def kernel(self, index: int, task: Kernel) -> list[str]:
        stored: list[str] = []
        for sink in task.sinks:
            if sink.kind in ("store", "sum") and self.nodes[sink.value].shape != ():
                stored += self.made(sink.value)
            elif sink.kind in ("store", "sum") and task.domain != () and index not in self.plan.nests:
                self.texts[sink.value] = self.fresh()
        if index in self.plan.nests:
            return [*stored, *self.builtin(index)]
        return [*stored, *KernelLines(self, index, task).lines()]

    def builtin(self, index: int) -> list[str]:
        """The call of a compiled kernel; its numbers are read from arrays of one cell."""
        nest = self.plan.nests[index]
        made = {r.cells.array for r in nest.results}
        texts = []
        numbers = []
        for place, held in enumerate(nest.arrays):
            node = self.nodes[held.value]
            if place in made and node.shape == ():
                cell = self.names.numbered("cell")
                self.cells.append((cell, node.dtype))
                self.texts[held.value] = self.fresh()
                self.exact.add(held.value)
                numbers.append(f"{self.texts[held.value]} = {cell}[()]")
                texts.append(cell)
                continue
            text = self.text(held.value)
            if held.copied or (node.shape != () and self.plan.places.get(held.value) == ("fresh", 0)):
                text = f"np.ascontiguousarray({text})"
            elif node.shape == () and held.value not in self.exact:
                text = f"np.{dtype_text(node.dtype)}({text})"
            texts.append(text)
        return [f"{self.compiled[index]}({', '.join(texts)})", *numbers]
