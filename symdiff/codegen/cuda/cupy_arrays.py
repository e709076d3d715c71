"""ArrayPlan to a Python file for CuPy: fused CUDA kernels between CuPy's own matmul, sum and linalg.

Assumes an ArrayPlan. Guarantees that a thread's second call on a device and stream makes no array but its results, and with
an `out` that overlaps no input none at all (but for what CuPy's own functions make); numbers stay on the device. Refuses what
CUDA cannot compute, with `BackendError`; the file refuses other than CuPy arrays.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from symdiff.codegen.array_text import constant_text, emit_step
from symdiff.codegen.cuda.arrays import (
    SUM_DECLARED,
    SUM_OF_LANES,
    SUM_ROWS,
    Cells,
    KernelText,
    Launch,
    cells_kernel,
    cuda_kernel_with,
    joins_in_cuda,
    split,
)
from symdiff.codegen.cuda.cupy import CupyShell, code_text, cuda_compiler_options
from symdiff.codegen.cuda.functions import cuda_type
from symdiff.codegen.cuda.header import name_of, preamble
from symdiff.codegen.cuda.parts import PartsText
from symdiff.codegen.cuda.reciprocals import with_reciprocals
from symdiff.codegen.numpy_arrays import APART, ArrayWriter
from symdiff.codegen.shells import INDENT
from symdiff.codegen.source import Source, Wanted
from symdiff.codegen.text import dtype_text, wrapped_text
from symdiff.lowering.arrays.fusing import Kernel
from symdiff.lowering.arrays.layouts import Layout, contiguous_strides, region, viewed
from symdiff.lowering.arrays.plan import ArrayPlan, is_planned
from symdiff.lowering.program import Input, Program, is_leaf, is_view_step
from symdiff.vocabulary.heads import HEADS, Shape
from symdiff.vocabulary.literals import number_literal


def emit(
    plan: ArrayPlan, *, by_value: frozenset[int] | None = None, exact: bool = False, style: str = "export", **asked: Any
) -> Source:
    """The plan as the Python file that is `asked` for, `Wanted`; inputs `by_value` are numbers of the host (all numbers, by
    default). In style "runtime" it has no constants, which are among the names of the text."""
    if by_value is None:
        by_value = frozenset(k for k, leaf in enumerate(plan.program.inputs) if leaf.shape == ())
    writer = _Writer(plan, Wanted(raised=(), **asked), style, by_value, exact)
    functions = writer.functions()
    source = writer.source(functions, head=writer.kernels_text(), support=writer.called_heads())
    if style == "export":
        return source
    return replace(source, names=tuple((f"_{n}", c) for n, c in writer.constants))


class _Writer(CupyShell, ArrayWriter):
    """The names and places of the NumPy writer; kernels are launches, numbers live in arrays of the device."""

    support: ClassVar[dict[str, str]] = {
        **CupyShell.support, "_apart": APART.substitute(np="cp", together="c_contiguous"),
    }  # fmt: skip

    def __init__(self, plan: ArrayPlan, want: Wanted, style: str, by_value: frozenset[int], exact: bool) -> None:
        super().__init__(plan, want)
        self.style = style
        self.host = frozenset(self.arguments[place] for place in by_value)
        self.as_written = exact
        self.stem = name_of(want.name)
        self.pending: list[str] = []
        self.by_value = by_value
        self.launches: list[Launch] = []
        self.kernels: list[tuple[str, str]] = []  # the names of launches in the file, and in the CUDA source
        self.programs: list[Program] = []
        self.summed: set[str] = set()
        self.numbers: dict[str, int] = {}
        self.partials: dict[str, int] = {}
        self.homes: dict[int, Cells] = {}
        for k, output in enumerate(self.program.outputs):
            node = self.nodes[output.value]
            if output.shape == () and not is_leaf(node) and not is_view_step(node) and output.value not in self.homes:
                self.homes[output.value] = Cells(self.targets[k], output.dtype)

    def own_names(self) -> tuple[str, ...]:
        kept = (f"{stem}_{code}" for stem in ("numbers", "partial") for code in "bfdFD")
        return "_code", *kept, *(f"_sum_rows_{code}" for code in "fdFD")

    # -- where values lie

    def number(self, value: int) -> Cells:
        """A home on the device for a number: a result's own array, or a cell that is kept."""
        if value not in self.homes:
            code = self.nodes[value].dtype
            k = self.numbers.get(code, 0)
            self.numbers[code] = k + 1
            self.homes[value] = Cells(f"numbers_{'b' if code == '?' else code}", code, k)
        cells = self.homes[value]
        self.texts[value] = f"{cells.variable}[{cells.offset}]" if cells.variable.startswith("numbers_") else cells.variable
        return cells

    def home(self, value: int) -> Cells:
        """Where the cells of a value lie."""
        node = self.nodes[value]
        if value in self.homes:
            return self.homes[value]
        if node.op == "input" and node.params[0] in self.by_value:
            return Cells(self.arguments[node.params[0]], node.dtype, alone=True)
        if not is_view_step(node):
            kind, k = self.plan.places.get(value, ("", 0))
            name = self.targets[k] if kind == "output" else self.slot_names[k] if kind == "work" else self.texts[value]
            return Cells(name, node.dtype, 0, contiguous_strides(node.shape), node.shape)
        source = self.home(node.operands[0])
        if source.alone or source.shape != self.nodes[node.operands[0]].shape:
            return source if node.shape == () else self.copied(value)
        found = viewed(node, source.shape, Layout(0, source.offset, source.strides))
        return self.copied(value) if found is None else _at(source, found, node.shape)

    def copied(self, value: int) -> Cells:
        """A view that has no strides of its own, as an array: named where it is first read."""
        node = self.nodes[value]
        name = self.names.numbered("copy")
        self.pending.append(f"{name} = cp.ascontiguousarray({self.text(value)})")
        self.homes[value] = found = Cells(name, node.dtype, 0, contiguous_strides(node.shape), node.shape)
        return found

    def text(self, value: int) -> str:
        """A value as an expression of CuPy; a number of the host is moved to the device."""
        node = self.nodes[value]
        if value not in self.homes and node.shape == () and (node.op == "const" or node.op == "input"):
            if node.op == "const":
                if value not in self.texts or not self.texts[value].startswith("constant"):
                    self.texts[value] = self.array(np.array(node.params, dtype=node.dtype))
                return self.texts[value]
            return (
                f"cp.asarray({self.arguments[node.params[0]]})"
                if node.params[0] in self.by_value
                else self.arguments[node.params[0]]
            )
        if value not in self.texts and self.plan.places.get(value, ("",))[0] in ("output", "work"):
            self.pending += super().made(value)
        return super().text(value)

    # -- the functions

    def taken(self, leaf: Input, argument: str, axis: int | None) -> str:
        """The check of an argument; arrays are made contiguous."""
        call = super().taken(leaf, argument, axis)
        return f"cp.ascontiguousarray({call})" if leaf.shape else call

    def body(self) -> list[str]:
        """The statements of the steps."""
        body: list[str] = []
        for task in self.plan.fused.tasks:
            lines = self.launched(task) if isinstance(task, Kernel) else self.structural(task)
            body += [*self.pending, *lines]
            self.pending = []
        return body

    def call(self, taken: list[str]) -> list[str]:
        """The call of the steps."""
        return wrapped_text(f"{self.steps}(", taken, ")")

    def numbers_made(self) -> list[str]:
        """None: all results lie on the device."""
        return []

    def keep(self, store: str, made: Sequence[str]) -> str:
        """The call that gives a thread's arrays for the current device and stream."""
        self.used["threading"] = "import threading"
        self.stores.append("\n".join([
            f"def _{store}() -> Any:",
            f'{INDENT}"""The arrays that this thread keeps for the current device and stream."""',
            f'{INDENT}kept = vars(_local).setdefault("{store}", {{}})',
            f"{INDENT}key = cp.cuda.Device().id, cp.cuda.get_current_stream().ptr",
            f"{INDENT}if key not in kept:",
            f"{INDENT * 2}kept[key] = (",
            *(f"{INDENT * 3}{text}," for text in made),
            f"{INDENT * 2})",
            f"{INDENT}return kept[key]",
        ]))  # fmt: skip
        return f"_{store}()"

    def made_once(self) -> list[tuple[str, str]]:
        """The arrays that a thread keeps for a device and stream: names and how they are made."""
        made = [
            (name, f"cp.empty({cells}, dtype=cp.{dtype_text(code)})")
            for name, (code, cells) in zip(self.slot_names, self.plan.slots, strict=True)
        ]
        for stem, sizes in (("numbers", self.numbers), ("partial", self.partials)):
            for code, cells in sorted(sizes.items()):
                name = f"{stem}_{'b' if code == '?' else code}"
                made.append((name, f"cp.empty({cells}, dtype=cp.{dtype_text(code)})"))
        for name, value in self.constants:
            text = f"cp.asarray(_{name})"
            if value.ndim == 0:
                text = f"cp.asarray({number_literal(value.item(), 'cp')}, dtype=cp.{dtype_text(value.dtype.char)})"
            elif self.style == "export":
                text = constant_text(value, self.words)
            made.append((name, text))
        return made

    def copies(self) -> list[str]:
        lines = super().copies()
        return [*self.pending, *lines]

    def number_copied(self, k: int, value: int) -> list[str]:
        node = self.nodes[value]
        if is_leaf(node):
            number = node.op == "const" or node.params[0] in self.by_value
            text = number_literal(node.params, "cp") if node.op == "const" else self.arguments[node.params[0]]
            return [f"{self.targets[k]}.fill({text})" if number else self.copy_text(k, text)]
        known = self.homes.get(value)
        return [] if known is not None and known.variable == self.targets[k] else [self.copy_text(k, self.text(value))]

    def made(self, value: int) -> list[str]:
        """Arrays take a name where CuPy's functions need one: kernels take the array that holds them."""
        if self.nodes[value].shape == ():
            self.number(value)
        elif self.plan.places[value][0] == "fresh":
            return super().made(value)
        return []

    # -- tasks

    def step(self, value: int) -> list[str]:
        node = self.nodes[value]
        if node.op == "cells":
            lines = self.made(value)
            sources = [self.home(o) if self.nodes[o].op != "const" else self.constant_cell(o) for o in node.operands]
            return [*lines, *self.add(cells_kernel(self.kernel_name(), sources, self.home(value)))]
        texts = [self.text(o) for o in node.operands]
        planned = is_planned(node) and (node.shape != () or HEADS[node.op].out)
        lines = self.made(value)
        self.text(value)
        if node.shape == () and not planned:
            target, made = self.texts[value], self.fresh()
            lines += emit_step(self.nodes, value, texts, made, False, self.array, self.words)
            return [*lines, f"cp.copyto({target}, {made})  # {target} = {made}"]
        around = "{}" if node.dtype == "l" else "cp.ascontiguousarray({})"
        return [*lines, *emit_step(self.nodes, value, texts, self.texts[value], planned, self.array, self.words, around)]

    def constant_cell(self, value: int) -> Cells:
        """A constant among the cells of an array, by value."""
        node = self.nodes[value]
        return Cells(f"cp.{dtype_text(node.dtype)}({number_literal(node.params, 'cp')})", node.dtype, alone=True)

    def kernel_name(self) -> str:
        return f"{self.stem}_kernel{len(self.launches)}"

    def launched(self, task: Kernel) -> list[str]:
        """The launches of a kernel."""
        if any(n == 0 for n in task.domain):
            return [line for s in task.sinks if s.kind == "store" for line in self.made(s.value)]
        lines: list[str] = []
        for sink in task.sinks:
            if sink.kind in ("store", "sum"):
                lines += self.made(sink.value)
        for kernel in split(task if self.as_written else replace(task, program=with_reciprocals(task.program))):
            used = {i.params[0] for i in kernel.program.nodes if i.op == "input"}
            nowhere = Cells("", "d")
            operands = [self.home(o) if k in used else nowhere for k, o in enumerate(kernel.operands)]
            self.programs.append(kernel.program)
            if joins_in_cuda(kernel):
                whole = self.home(kernel.sinks[0].value)
                assert whole.variable not in {cells.variable for cells in operands}
                parts = [cuda_kernel_with(kernel, [sink]) for sink in sorted(kernel.sinks, key=lambda s: s.kind != "put")]
                lines += self.add(PartsText(self.kernel_name(), parts, operands, whole).launch())
                continue
            targets = [self.target(sink.value, sink.kind, sink.key) for sink in kernel.sinks]
            lines += self.add(KernelText(self.kernel_name(), kernel, operands, targets).launch())
        return lines

    def target(self, value: int, kind: str, key: Any) -> Cells:
        """Where a sink goes: the array of a value, or a region of it."""
        home = self.home(value)
        shape = HEADS["getitem"].shape(home.shape, key=key) if kind in ("add", "put") else ()
        return _at(home, region(Layout(0, home.offset, home.strides), key), shape) if shape else home

    def add(self, launch: Launch) -> list[str]:
        """The lines that launch a kernel and add up what its blocks leave."""
        self.launches.append(launch)
        self.kernels.append((self.names.numbered("_kernel"), launch.name))
        call = _call(self.kernels[-1][0], launch.grid, launch.block, launch.passed)
        lines = [f"{call}  # fills {', '.join(launch.fills)}"]
        for total in launch.totals:
            self.summed.add(total.code)
            last = total.first + total.rows * total.cells
            self.partials[total.code] = max(self.partials.get(total.code, 0), last)
            home = self.home(total.sink.value)
            target = f"{home.variable}[{home.offset}:]" if home.offset else home.variable
            passed = [f"partial_{total.code}", str(total.first), str(total.rows), str(total.cells), target]
            block = 32 if total.rows <= 64 else 256
            lines.append(f"{_call(f'_sum_rows_{total.code}', (total.cells,), block, passed)}  # fills {target}")
        return lines

    # -- the file

    def kernels_text(self) -> list[str]:
        """The source of the kernels, and their names."""
        codes = {code for launch in self.launches for code in launch.shared}
        functions = [line for launch in self.launches for line in launch.lines]
        rows = [SUM_ROWS.format(name=f"{self.stem}_sum_rows_{c}", t=cuda_type(c))
                for c in sorted(self.summed)]  # fmt: skip
        first, last = ([SUM_DECLARED], [SUM_OF_LANES]) if codes else ([], [])
        text = [*preamble(self.programs, frozenset(codes)), *first, *functions, *rows, *last]
        kernels = [*self.kernels, *((f"_sum_rows_{c}", f"{self.stem}_sum_rows_{c}") for c in sorted(self.summed))]
        options = cuda_compiler_options(self.as_written)
        made = [f'{own} = cp.RawKernel(_code, "{kernel}"{options})' for own, kernel in kernels]
        return ["\n".join([code_text("\n".join(text)), *made])] if kernels else []


def _at(cells: Cells, found: Layout, shape: Shape) -> Cells:
    """Cells in another layout of their array."""
    return cells._replace(offset=found.offset, strides=found.strides, shape=shape)


def _call(name: str, grid: tuple[int, ...], block: int, passed: list[str]) -> str:
    return f"{name}({grid!r}, ({block},), ({', '.join(passed)}{',' if len(passed) == 1 else ''}))"
