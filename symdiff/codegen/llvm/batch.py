"""Program to LLVM IR over many points: a loop over explicit vectors of points, and one last vector for those that remain.

Assumes points at any steps, outputs that overlap no input, operations that `scalar` has, and no truth values as arguments or
results. Guarantees the arithmetic of `scalar` for every point, whichever other points are computed in the same call.
"""

from collections.abc import Sequence

from symdiff.codegen.llvm.functions import llvm_vector_functions
from symdiff.codegen.llvm.layouts import Array, Points, emit_shared_cells
from symdiff.codegen.llvm.scalar import emit_conversion, emit_instructions
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

    def arrays(self, layouts: Sequence[Layout]) -> list[Array]:
        """The inputs and then the outputs: the layout of each in the words of `llvm_layouts`, and `Array.stream`."""
        leaves = self.program.leaves
        count = len(self.program.inputs)
        names = [f"in{i}" if i < count else f"out{i - count}" for i in range(len(leaves))]
        return [Array(n, leaf.shape, leaf.dtype, *x) for n, leaf, x in zip(names, leaves, layouts, strict=True)]

    def add(self, name: str, arrays: list[Array], linkage: str = "", fence: bool = False) -> None:
        """A function over such arrays; `fence`: an x86, where what was written past the caches needs one to be seen."""
        once = Lines(self.lanes, "once", self.width)
        cells: dict[int, list[int]] = {place: [] for place in range(len(self.program.inputs))}
        for node in self.program.nodes:
            if node.op == "input":
                cells[node.params[0]].append(node.params[1])
        fixed = {p: emit_shared_cells(once, arrays[p], cells[p]) for p in cells if arrays[p].layout == "one"}
        packed = [a for a in arrays if a.layout == "packed"]
        text = [
            f"define {linkage} void @{name}(ptr noalias %data, ptr noalias %steps, i64 %start, i64 %stop) {{",
            "entry:",
            *emit_addresses(arrays),
            "  %last = sub i64 %stop, 1",
            *once.text,
            *(self._packed(arrays, packed, cells, fixed) if packed else self._loop(arrays, cells, fixed)),
            "tail:",
            f"  %at = phi i64 {'[%start, %entry], [%i, %drain]' if packed else '[%i, %test]'}",
            "  %some = icmp sle i64 %at, %last",
            "  br i1 %some, label %remain, label %end",
            "remain:",
            *self._body([a.plain() for a in arrays], cells, fixed, Points(self._lines("rest"), "%at", "%last")),
            "  br label %end",
            "end:",
        ]
        if fence and (packed or any(a.stream for a in arrays)):
            self.declared["fence"] = "declare void @llvm.x86.sse.sfence()"
            text.append("  call void @llvm.x86.sse.sfence()")
        text += ["  ret void", "}"]
        self.texts.append("\n".join(text))

    def _lines(self, label: str) -> Lines:
        return Lines(self.lanes, label, self.width)

    def _loop(self, arrays: list[Array], cells: dict[int, list[int]], fixed: dict[int, dict[int, Value]]) -> list[str]:
        """All full vectors of points."""
        return [
            "  br label %test",
            "test:",
            "  %i = phi i64 [%start, %entry], [%next, %body]",
            f"  %next = add i64 %i, {self.lanes}",
            "  %full = icmp sle i64 %next, %stop",
            "  br i1 %full, label %body, label %tail",
            "body:",
            *self._body(arrays, cells, fixed, Points(self._lines("wide"), "%i")),
            "  br label %test",
        ]

    def _packed(
        self, arrays: list[Array], packed: list[Array], cells: dict[int, list[int]], fixed: dict[int, dict[int, Value]]
    ) -> list[str]:
        """All full vectors of points: the first one begins packed outputs, each hands on the pieces that wait."""
        begin, wide, drain = (self._lines(label) for label in ("begin", "wide", "drain"))
        first = Points(begin, "%start")
        opening = self._body(arrays, cells, fixed, first)
        waiting = {a.name: [f"%{a.name}.kept{k}" for k in range(a.kept(self.lanes))] for a in packed}
        following = Points(wide, "%i", kept=waiting)
        body = self._body(arrays, cells, fixed, following)
        ending = Points(drain, "%i", kept=waiting)
        for array in packed:
            ending.drain(array)
        carried = [
            f"  {name} = phi <{a.piece(self.lanes)} x {TYPES[a.part]}> [{one}, %begin], [{other}, %body]"
            for a in packed
            for name, one, other in zip(waiting[a.name], first.kept[a.name], following.kept[a.name], strict=True)
        ]
        return [
            f"  %second = add i64 %start, {self.lanes}",
            "  %enough = icmp sle i64 %second, %stop",
            "  br i1 %enough, label %begin, label %tail",
            "begin:",
            *opening,
            "  br label %test",
            "test:",
            "  %i = phi i64 [%second, %begin], [%next, %body]",
            *carried,
            f"  %next = add i64 %i, {self.lanes}",
            "  %full = icmp sle i64 %next, %stop",
            "  br i1 %full, label %body, label %drain",
            "body:",
            *body,
            "  br label %test",
            "drain:",
            *drain.text,
            "  br label %tail",
        ]

    def _body(
        self, arrays: list[Array], cells: dict[int, list[int]], fixed: dict[int, dict[int, Value]], points: Points
    ) -> list[str]:
        """The instructions for one vector of points."""
        lines = points.lines
        values = {p: fixed[p] if p in fixed else points.load(arrays[p], cells[p]) for p in cells}
        nodes = self.program.nodes
        found = emit_instructions(self.program, lines, lambda i: values[i.params[0]][i.params[1]])
        for array, output in zip(arrays[len(cells) :], self.program.outputs, strict=True):
            own = [emit_conversion(lines, found[v], nodes[v].dtype, output.dtype) for v in output.cells]
            points.store(array, own)
        self.declared.update(lines.declared)
        self._used.update(lines.used)
        return lines.text

    def text(self) -> str:
        """The module."""
        bodies, needed = llvm_vector_functions(self._used, callers=self.texts)
        declared = {**self.declared, **needed}
        return "\n".join([*declared.values(), *bodies, *self.texts, "!0 = !{i32 1}"]) + "\n"


def emit_addresses(arrays: list[Array]) -> list[str]:
    """The addresses and steps of all arrays, from `%data` and `%steps`."""
    lines = []
    place = len(arrays)
    for k, array in enumerate(arrays):
        name = array.name
        lines += [
            f"  %{name}.data = getelementptr ptr, ptr %data, i64 {k}",
            f"  %{name} = load ptr, ptr %{name}.data",
            f"  %{name}.at = getelementptr i64, ptr %steps, i64 {k}",
            f"  %{name}.point = " + (f"add i64 0, {array.item}" if array.layout == "last" else f"load i64, ptr %{name}.at"),
        ]
        for axis in range(len(array.shape)):
            lines.append(f"  %{name}.at{axis} = getelementptr i64, ptr %steps, i64 {place}")
            lines.append(f"  %{name}.step{axis} = load i64, ptr %{name}.at{axis}")
            place += 1
    return lines
