"""One CUDA kernel that adds several parts to regions of one array: each thread adds up a cell.

Assumes parts whose operands do not lie in that array. Guarantees that parts are added in their order, whatever their regions.
Refuses what `cuda` refuses.
"""

from copy import deepcopy

from symdiff.codegen.c_like import INDENT
from symdiff.codegen.cuda.arrays import Cells, KernelText, Launch, cuda_box, cuda_index
from symdiff.codegen.cuda.grids import BLOCK, BLOCKS, cuda_grid_loop, cuda_place
from symdiff.codegen.cuda.header import LANGUAGE
from symdiff.codegen.text import indented
from symdiff.lowering.arrays.fusing import Kernel, Sink
from symdiff.lowering.arrays.layouts import contiguous_strides
from symdiff.lowering.program import domain_size


class PartsText(KernelText):
    """The writer of one launch; `target` is the whole array, `parts` are kernels of one sink each."""

    def __init__(self, name: str, parts: list[Kernel], operands: list[Cells], target: Cells) -> None:
        super().__init__(name, parts[0], operands, [target])
        self.parts, self.target = parts, target
        self.box = cuda_box(self.domain, [part.sinks[0] for part in parts])
        self.extent = tuple(last - first + 1 for first, last in self.box)
        self.total = self.names.fresh("total")
        for letter in ("c", *(f"c{axis}" for axis in range(len(self.domain)))):
            self.names.fresh(letter)

    def launch(self) -> Launch:
        """The kernel's text and how it is launched."""
        kind = LANGUAGE.types[self.target.code]
        place = cuda_place(((step, f"c{axis}") for axis, step in enumerate(self.target.strides)), self.target.offset)
        cell = f"{self.parameter(self.target)}[{place}]"
        self.written.add(self.target.variable)
        body = [*self.indices(), f"{kind} {self.total}{'' if self.parts[0].sinks[0].kind == 'put' else f' = {cell}'};"]
        for cells in self.operands:
            if cells.variable:
                self.parameter(cells)
        for part in self.parts:
            body += self.added(part, cell)
        body.append(f"{cell} = {self.total};")
        count = domain_size(self.extent)
        blocks = min(-(-count // BLOCK), BLOCKS)
        return self.finished(cuda_grid_loop("c", count, body, self.index), (blocks,), BLOCK)

    def comment(self) -> list[str]:
        return [f"// {' x '.join(map(str, self.extent))} cells, to which {len(self.parts)} parts are added."]

    def indices(self) -> list[str]:
        """The place of a thread's cell along each axis."""
        strides = contiguous_strides(self.extent)
        lines = []
        for axis, (n, (first, _)) in enumerate(zip(self.extent, self.box, strict=True)):
            text = cuda_index("c", strides[axis], n, axis == 0) if n > 1 else "0"
            lines.append(f"const {self.index} c{axis} = {text}{f' + {first}' if first else ''};")
        return lines

    def added(self, part: Kernel, cell: str) -> list[str]:
        """The statements that add a part where its region has the cell."""
        sink = part.sinks[0]
        self.kernel, self.used, self.flat_used = part, set(), False
        outer, self.names = self.names, deepcopy(self.names)  # each part has a block of its own
        body, values = self.body()
        self.names = outer
        value = values[part.program.outputs[0].cells[0]]
        first = sink.kind == "put"
        lines = [*self.place_of_part(sink), *body, f"{self.total} = {value if first else f'{self.total} + {value}'};"]
        tests = self.tests(sink)
        if not tests:
            return ["{", *indented(lines), "}"]
        otherwise = ["} else", f"{INDENT}{self.total} = {cell};"] if first else ["}"]
        return [f"if ({' && '.join(tests)}) {{", *indented(lines), *otherwise]

    def tests(self, sink: Sink) -> list[str]:
        """What holds for the cells of a part's region."""
        found = []
        for axis, (n, (start, _, step)) in enumerate(zip(self.domain, sink.key, strict=True)):
            low, high = sorted((start, start + (n - 1) * step))
            first, last = self.box[axis]
            found += [f"c{axis} >= {low}"] if low > first else []
            found += [f"c{axis} <= {high}"] if high < last else []
            found += [f"(c{axis} - {low}) % {abs(step)} == 0"] if abs(step) > 1 and n > 1 else []
        return found

    def place_of_part(self, sink: Sink) -> list[str]:
        """The cell's place in the part, along each axis and flat."""
        lines = []
        for axis, n in enumerate(self.domain):
            if n == 1 or not (axis in self.used or self.flat_used):
                continue
            start, _, step = sink.key[axis]
            text = f"{start} - c{axis}" if step < 0 else f"c{axis} - {start}" if start else f"c{axis}"
            lines.append(f"const {self.index} i{axis} = {f'({text}) / {abs(step)}' if abs(step) > 1 else text};")
        if self.flat_used:
            lines.append(self.flat_index())
        return lines
