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
from symdiff.codegen.array_text import clearing_text, constant_text, emit_step, region, shape_text, view_text
from symdiff.codegen.exceptions import POINT, Raised
from symdiff.codegen.names import Names, emitted_argument_names
from symdiff.codegen.numpy import OWN, called, emit_argument_checks, emit_numpy_file, emit_out_check, emitted_globals
from symdiff.codegen.source import Source
from symdiff.codegen.text import Result, dtype_text, emits_flat_result, emitted_result, packed, unpacked, wrapped_text
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
    text = "\n".join(writer.lines(doc))
    special = any(OPS[i.op].is_special for i in writer.scalars)
    if style == "export":
        constants = [f"{n} = {constant_text(c)}" for n, c in writer.constants]
        return emit_numpy_file(header, writer.keeps, special, constants, text).source(writer.entry, "numpy")
    known = [*emitted_globals(writer.scalars, special), *((name, dtype_of_code(code)) for code, name in _DTYPES.items())]
    compiled = [(writer.compiled[index], builtin) for index, builtin in (builtins or {}).items()]
    return Source(text + "\n", writer.entry, "numpy", (*known, ("_local", threading.local()), *writer.constants, *compiled))


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
        self.keeps = False
        words = (*_WORDS, *(("point", "error") if raised else ()))
        self.names = Names((*OWN, *_DTYPES.values(), *self.own_names(), *self.calls.values(), *words))
        self.arguments = emitted_argument_names(self.program.inputs, self.names)
        # An argument that has the name of a variable of ours keeps it in the signature.
        self.shown = [i.name if i.name in words else a for i, a in zip(self.program.inputs, self.arguments, strict=True)]
        self.entry = self.names.fresh(name)
        self.several = not isinstance(self.result, int)
        self.targets = [self.names.fresh(o.name) for o in self.program.outputs]
        self.texts: dict[int, str] = {}
        self.constants: list[tuple[str, np.ndarray]] = []
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

    def array(self, value: np.ndarray) -> str:
        """The name of a constant array."""
        for name, known in self.constants:
            if known is value:
                return name
        name = self.names.fresh(f"constant{len(self.constants)}")
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

    # -- the function

    def lines(self, doc: str) -> list[str]:
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
        if self.plan.fused.checked == len(self.plan.fused.tasks):
            body += self.checks()
        body += self.copies()
        signature = wrapped_text(f"def {self.entry}(", [*self.shown, "out=None"], "):", "")
        lines = [*signature, *docstring_literal(doc)]
        lines += [f"{INDENT}{a} = {n}" for a, n in zip(self.arguments, self.shown, strict=True) if a != n]
        if self.style == "export":
            lines += emit_argument_checks(self.program.inputs, self.arguments)
            lines += emit_out_check(self.program.outputs, [repr(o.shape) for o in self.program.outputs], self.result)
        else:
            lines += self.declined()
        lines += self.allocation()
        lines += self.work()
        if body:
            lines.append(f'{INDENT}with np.errstate(all="ignore"):')
            lines += [f"{INDENT * 2}{line}" for line in body]
        return [*lines, *self.results()]

    def checks(self) -> list[str]:
        """What ends the call where a check holds: an exception, or the sentinel by which the caller is told."""
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
                found = self.raised[k].at_point(f"{text}.argmax()", shown)
            lines += [INDENT + line for line in found]
        return lines

    def declined(self) -> list[str]:
        """A runtime function declines arguments that are not exactly what it was made for."""
        lines = []
        for leaf, argument in zip(self.program.inputs, self.arguments, strict=True):
            if leaf.shape == ():
                kinds = "float, np.floating" + (", complex, np.complexfloating" if leaf.dtype in "FD" else "")
                lines += [f"{INDENT}if not isinstance({argument}, ({kinds})):", f"{INDENT * 2}return MISS"]
                lines.append(f"{INDENT}{argument} = np.{dtype_text(leaf.dtype)}({argument})")
                continue
            lines += [f"{INDENT}if {self.unfit(argument, leaf, READABLE)}:", f"{INDENT * 2}return MISS"]
        return lines

    def unfit(self, name: str, leaf: Any, flags: int) -> str:
        """The condition that something is not an array that compiled code takes as it is, with these flags of NumPy's."""
        types = f"type({name}) is not np.ndarray or {name}.dtype is not {_DTYPES[leaf.dtype]}"
        return f"{types} or {name}.shape != {leaf.shape!r} or {name}.flags.num & {flags} != {flags}"

    def given(self) -> list[str]:
        """The checks of a given `out`, and the way for one in which results cannot be computed."""
        lines = []
        own = self.results_names()
        if self.several:
            if self.style == "runtime":
                lines += [f"if type(out) is not tuple or len(out) != {len(own)}:", f"{INDENT}return MISS"]
            lines.append(unpacked(self.result, own, "out"))
        elif own != ["out"]:
            lines.append(f"{own[0]} = out")
        if self.style == "runtime":
            tests = [self.unfit(name, output, WRITTEN) for name, output in zip(own, self.program.outputs, strict=True)]
            tests += [f"np.may_share_memory({a}, {b})" for k, a in enumerate(own) for b in own[:k]]
            lines += [line for test in tests for line in (f"if {test}:", f"{INDENT}return MISS")]
        return lines + self.elsewhere()

    def results_names(self) -> list[str]:
        """The names of the results' arrays: `out` itself for a single number."""
        return self.targets if self.several or self.program.outputs[0].shape != () else ["out"]

    def elsewhere(self) -> list[str]:
        """Results that overlap arguments, or lie scattered, are computed in arrays of their own and copied."""
        arrays = [a for a, leaf in zip(self.arguments, self.program.inputs, strict=True) if leaf.shape != ()]
        tests = [] if self.style == "runtime" else ["not r.flags.carray"]
        tests += ["np.may_share_memory(r, a)"] if arrays else []
        if not tests:
            return []
        own = self.results_names()
        given = (
            "out" if self.several and emits_flat_result(self.result) else f"({', '.join(own)}{',' if len(own) == 1 else ''})"
        )
        loops = [f"for r in {given}"]
        if arrays:
            loops += wrapped_text("for a in (", arrays, ",)" if len(arrays) == 1 else ")", "")
        lines = [f"if any({' '.join([' or '.join(tests), *loops])}):"]
        if len(lines[0]) > 90:
            lines = ["if any(", *(INDENT + line for line in (" or ".join(tests), *loops)), "):"]
        call = f"{self.entry}({', '.join(self.arguments)})"
        if self.program.checks and not self.raised:
            lines += [f"{INDENT}value = {call}", f"{INDENT}if value is MISS:", f"{INDENT * 2}return MISS"]
            call = "value"
        if self.several:
            values = [self.names.numbered("value") for _ in own]
            lines.append(INDENT + unpacked(self.result, values, call))
            lines += [f"{INDENT}{target}[...] = {value}" for target, value in zip(own, values, strict=True)]
        else:
            lines.append(f"{INDENT}out[...] = {call}")
        return [*lines, f"{INDENT}return out"]

    def allocation(self) -> list[str]:
        """The arrays of the results: made here, or given and checked."""
        made = [
            f"{target} = np.empty({output.shape!r}, dtype=np.{dtype_text(output.dtype)})"
            for target, output in zip(self.targets, self.program.outputs, strict=True)
            if output.shape != ()
        ]
        given = self.given()
        if not made:
            return [f"{INDENT}if out is not None:", *(INDENT * 2 + line for line in given)]
        lines = [f"{INDENT}if out is None:", *(INDENT * 2 + line for line in made)]
        return [*lines, f"{INDENT}else:", *(INDENT * 2 + line for line in given)]

    def work(self) -> list[str]:
        """The thread's work arrays, made in its first call."""
        made = []
        for name, (code, cells) in zip(self.slot_names, self.plan.slots, strict=True):
            made.append((name, f"np.empty({cells}, dtype=np.{dtype_text(code)})"))
        for code, (rows, cells) in sorted(self.plan.scratch.items()):
            made.append((self.scratch_name(code), f"np.empty(({rows}, {cells}), dtype=np.{dtype_text(code)})"))
        for code, (rows, blocks) in sorted(self.plan.partial.items()):
            made.append((self.partial_name(code), f"np.empty(({rows}, {blocks}), dtype=np.{dtype_text(code)})"))
        made += [(name, f"np.empty((), dtype=np.{dtype_text(code)})") for name, code in self.cells]
        if not made:
            return []
        self.keeps = True
        lines = [f'{INDENT}work = getattr(_local, "work", None)', f"{INDENT}if work is None:"]
        lines.append(f"{INDENT * 2}work = _local.work = (")
        lines += [f"{INDENT * 3}{text}," for _, text in made]
        lines.append(f"{INDENT * 2})")
        names = ", ".join(n for n, _ in made)
        return [*lines, f"{INDENT}{names}{',' if len(made) == 1 else ''} = work"]

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

    def results(self) -> list[str]:
        values = []
        for target, output in zip(self.targets, self.program.outputs, strict=True):
            if output.shape != ():
                values.append(target)
                continue
            node = self.nodes[output.value]
            bare = not is_leaf(node) and not is_view_step(node)
            text = self.text(output.value)
            values.append(text if bare else f"np.{dtype_text(output.dtype)}({text})")
        if all(o.shape != () for o in self.program.outputs):
            given = " if out is None else out" if self.several else ""
            return [f"{INDENT}return {packed(self.result, values)}{given}"]
        lines = [f"{INDENT}if out is None:", f"{INDENT * 2}return {packed(self.result, values, bare=True)}"]
        for name, output, value in zip(self.results_names(), self.program.outputs, values, strict=True):
            if output.shape == ():
                lines.append(f"{INDENT}{name}[()] = {value}")
        return [*lines, f"{INDENT}return out"]

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
            self.texts[value] = self.fresh()
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
