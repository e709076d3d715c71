"""Program to LLVM IR over many points: a loop over explicit vectors of points, and one last vector for those that remain.

Assumes points at any steps, outputs that overlap no input, operations that `scalar` has, and no truth values as arguments or
results. Guarantees the arithmetic of `scalar` for every point, whichever other points are computed in the same call.
"""

from collections.abc import Sequence

from symdiff.codegen.llvm.functions import llvm_vector_functions
from symdiff.codegen.llvm.layouts import Array, Points, emit_shared_cells
from symdiff.codegen.llvm.scalar import emit_instructions
from symdiff.codegen.math.lines import TYPES, Lines, Value
from symdiff.lowering.program import Program

Layout = tuple[str, int]


class BatchModule:
    """Functions over points of one Program, and what they need, as one text of IR.

    Each is a `name(data, steps, start, stop)`: `data` holds the addresses of inputs and outputs, `steps` their steps in
    bytes: from point to point for each array, then along the axes of a point for each array. So NumPy's gufuncs have it.
    """

    def __init__(self, program: Program, lanes: int, fused: bool) -> None:
        """`fused`: the machine has fused multiply-add, on which the functions of `llvm_functions` rely."""
        self.program = program
        self.lanes = lanes
        self.width = lanes if fused else 0
        self.texts: list[str] = []
        self.declared: dict[str, str] = {}
        self._used: set[str] = set()
        self._cells: dict[int, list[int]] = {place: [] for place in range(len(program.inputs))}
        for node in program.nodes:
            if node.op == "input":
                self._cells[node.params[0]].append(node.params[1])

    def arrays(self, layouts: Sequence[Layout]) -> list[Array]:
        """The inputs and then the outputs: the layout of each in the words of `llvm_layouts`, and `Array.stream`."""
        leaves = self.program.leaves
        count = len(self.program.inputs)
        names = [f"in{i}" if i < count else f"out{i - count}" for i in range(len(leaves))]
        return [Array(n, leaf.shape, leaf.dtype, *x) for n, leaf, x in zip(names, leaves, layouts, strict=True)]

    def add(self, name: str, arrays: list[Array], linkage: str = "", fence: bool = False) -> None:
        """A function over such arrays; `fence`: an x86, where what was written past the caches needs one to be seen."""
        lines = Lines(self.lanes, width=self.width)
        put, run = lines.put, lines.run
        emit_addresses(lines, arrays)
        last, limit = put("sub i64 %stop, 1"), put(f"sub i64 %stop, {self.lanes - 1}")
        fixed = {p: emit_shared_cells(lines, arrays[p], own) for p, own in self._cells.items() if arrays[p].layout == "one"}
        packed, start, carried = [a for a in arrays if a.layout == "packed"], "%start", list[tuple[str, str, str, str]]()
        waiting = {a.name: [f"%{a.name}.kept{k}" for k in range(a.kept(self.lanes))] for a in packed}
        if packed:  # the first full vector begins these outputs, each hands on the pieces that wait
            run(f"br i1 {put(f'icmp slt i64 %start, {limit}')}, label %begin, label %tail", "begin:")
            first = Points(lines, start)
            self._body(arrays, fixed, first)
            start = put(f"add i64 %start, {self.lanes}")
            carried = [
                (f"<{a.piece(self.lanes)} x {TYPES[a.part]}>", kept, one, f"{kept}.next")
                for a in packed
                for kept, one in zip(waiting[a.name], first.kept[a.name], strict=True)
            ]
        with lines.loop(limit, self.lanes, start, carried=carried) as at:
            points = Points(lines, at, kept=waiting)
            self._body(arrays, fixed, points)
            handed = [piece for a in packed for piece in points.kept[a.name]]
            run(*(f"{c[3]} = bitcast {c[0]} {piece} to {c[0]}" for c, piece in zip(carried, handed, strict=True)))
        if packed:
            ending = Points(lines, at, kept=waiting)
            for array in packed:
                ending.drain(array)
            run("br label %tail", "tail:")
            at = put(f"phi i64 [%start, %entry], [{at}, %{at[1:-2]}.exit]")
        run(f"br i1 {put(f'icmp sle i64 {at}, {last}')}, label %remain, label %end", "remain:")
        self._body([a.plain() for a in arrays], fixed, Points(lines, at, last))
        run("br label %end", "end:")
        if fence and (packed or any(a.stream for a in arrays)):
            self.declared["fence"] = "declare void @llvm.x86.sse.sfence()"
            run("call void @llvm.x86.sse.sfence()")
        self.declared.update(lines.declared)
        self._used.update(lines.used)
        head = f"define {linkage} void @{name}(ptr noalias %data, ptr noalias %steps, i64 %start, i64 %stop) {{"
        self.texts.append("\n".join([head, "entry:", *lines.text, "  ret void", "}"]))

    def _body(self, arrays: list[Array], fixed: dict[int, dict[int, Value]], points: Points) -> None:
        """The instructions for one vector of points."""
        lines = points.lines
        values = fixed | {p: points.load(arrays[p], own) for p, own in self._cells.items() if p not in fixed}
        nodes = self.program.nodes
        found = emit_instructions(self.program, lines, lambda i: values[i.params[0]][i.params[1]])
        for array, output in zip(arrays[len(self._cells) :], self.program.outputs, strict=True):
            own = [lines.converted(found[v], nodes[v].dtype, output.dtype) for v in output.cells]
            points.store(array, own)

    def text(self) -> str:
        """The module."""
        bodies, needed = llvm_vector_functions(self._used, callers=self.texts)
        declared = {**self.declared, **needed}
        return "\n".join([*declared.values(), *bodies, *self.texts, "!0 = !{i32 1}"]) + "\n"


def emit_addresses(lines: Lines, arrays: list[Array]) -> None:
    """The addresses and steps of all arrays, from `%data` and `%steps`."""

    def word(name: str, kind: str, base: str, k: int) -> None:
        place = lines.put(f"getelementptr {kind}, ptr {base}, i64 {k}")
        lines.run(f"%{name} = load {kind}, ptr {place}")

    place = len(arrays)
    for k, array in enumerate(arrays):
        word(array.name, "ptr", "%data", k)
        if array.layout == "last":
            lines.run(f"%{array.name}.point = add i64 0, {array.item}")
        else:
            word(f"{array.name}.point", "i64", "%steps", k)
        for axis in range(len(array.shape)):
            word(f"{array.name}.step{axis}", "i64", "%steps", place)
            place += 1
