"""The body of a batch function: in-place ufuncs over blocks of points, in work arrays that each thread keeps.

Assumes a batch Plan. Guarantees that nothing as large as the batch is allocated but the outputs, and that with an `out`
that overlaps no input a thread's second call allocates no array memory.
"""

from collections.abc import Callable, Mapping, Sequence

from symdiff.codegen.exceptions import POINT, Raised
from symdiff.codegen.expressions import printed_operands
from symdiff.codegen.names import Names, cell_suffix
from symdiff.codegen.text import Result, dtype_text, emits_flat_result, emitted_result, output_texts, packed_lines, unpacked
from symdiff.lowering.plan import Plan
from symdiff.lowering.program import Program, is_leaf
from symdiff.vocabulary.literals import number_literal
from symdiff.vocabulary.ops import OPS

INDENT = "    "
LONGEST, SHORTEST = 8192, 64  # points a block; 4096 took 1.2 times as long on the cubic, 1024 2.4 times
CELLS = 2**19  # numbers in all work arrays of a thread, so that long programs take shorter blocks


def batch_lines(
    plan: Plan, arguments: list[str], names: Names, result: Result, calls: Mapping[int, str], before: Plan | None = None,
    raised: Sequence[Raised] = (), out_check: Callable[..., list[str]] | None = None,
) -> tuple[list[str], bool]:  # fmt: skip
    """The statements after the argument checks, and whether threads keep work arrays; the program of the plan `before` has the
    checks that raise, `calls` are the names of opaque functions, `out_check` gives the check of arrays for results."""
    checks = None
    if before is not None:
        checks = _Checks(before, arguments[: len(before.program.inputs)], Names(names.taken), raised)
    batch = _Batch(plan, arguments, names, result, calls)
    given = [] if out_check is None else out_check(plan.program.outputs, batch.shapes(), result)
    lines = batch.lines([*given, *(checks.loop() if checks is not None else [])])
    return lines, bool(batch.buffers or (checks is not None and checks.buffers))


class _Batch:
    def __init__(self, plan: Plan, arguments: list[str], names: Names, result: Result, calls: Mapping[int, str]) -> None:
        self.plan = plan
        self.program = plan.program
        self.arguments = arguments
        self.names = names
        self.result = result
        self.calls = calls
        self.several = not isinstance(result, int)
        self.targets = [names.fresh(o.name) for o in self.program.outputs] if self.several else ["out"]
        self.n, self.start, self.stop, self.m, self.work = (names.fresh(w) for w in ("n", "start", "stop", "m", "work"))
        self.used = {i.params for i in self.program.nodes if i.op == "input"}
        self.work_names = {code: names.fresh(f"work_{'b' if code == '?' else code}") for code in sorted(self.plan.work)}
        self.row_names = [names.fresh(f"{a}_rows") if self.gathered(k) else "" for k, a in enumerate(arguments)]
        self.target_rows = [names.fresh(f"{t}_rows") if self.scattered(k) else "" for k, t in enumerate(self.targets)]
        self.buffers = self.listed_buffers()
        self.shortens = False
        rows = sum(rows for _, rows, _ in self.buffers)
        self.block = LONGEST
        while self.block > SHORTEST and self.block * rows > CELLS:
            self.block //= 2

    def lines(self, before: list[str]) -> list[str]:
        body = [*self.inputs(), *self.slots(), *self.steps(), *self.outputs()]
        return [*self.count(), *before, *self.allocation(), *self.kept(), *self.over_blocks(body), f"{INDENT}return out"]

    def over_blocks(self, body: list[str]) -> list[str]:
        """The loop over blocks of points."""
        lines = [f'{INDENT}with np.errstate(all="ignore"):']
        lines.append(f"{INDENT * 2}for {self.start} in range(0, {self.n}, {self.block}):")
        lines.append(f"{INDENT * 3}{self.stop} = min({self.start} + {self.block}, {self.n})")
        if self.shortens:
            lines.append(f"{INDENT * 3}{self.m} = {self.stop} - {self.start}")
        return [*lines, *(INDENT * 3 + line for line in body)]

    def count(self) -> list[str]:
        batched = [(a, axis) for a, axis in zip(self.arguments, self.plan.in_axes, strict=True) if axis is not None]
        argument, axis = batched[0]
        lines = [f"{INDENT}{self.n} = {argument}.shape[{axis}]"]
        for other, its_axis in batched[1:]:
            lines.append(f"{INDENT}if {other}.shape[{its_axis}] != {self.n}:")
            message = f"{{{other}.shape[{its_axis}]}} points in {other}, {{{self.n}}} in {argument}"
            lines.append(f'{INDENT * 2}raise ValueError(f"{message}")')
        return lines

    def shapes(self) -> list[str]:
        """The shapes of the results."""
        found = []
        for output, axis in zip(self.program.outputs, self.plan.out_axes, strict=True):
            sizes = [str(k) for k in output.shape]
            listed = [self.n, *sizes] if axis == 0 else [*sizes, self.n]
            found.append(f"({', '.join(listed)}{',' if len(listed) == 1 else ''})")
        return found

    def allocation(self) -> list[str]:
        shapes = [
            f"np.empty({shape if output.shape else self.n}, dtype=np.{dtype_text(output.dtype)})"
            for output, shape in zip(self.program.outputs, self.shapes(), strict=True)
        ]
        lines = [f"{INDENT}if out is None:", *packed_lines("out = ", self.result, shapes, INDENT * 2)]
        places = output_texts(self.result, "out")
        given = (
            "out"
            if self.several and emits_flat_result(self.result)
            else f"({', '.join(places)}{',' if len(places) == 1 else ''})"
        )
        arrays = [a for a, axis in zip(self.arguments, self.plan.in_axes, strict=True) if axis is not None]
        listed_arrays = ", ".join(arrays) + ("," if len(arrays) == 1 else "")
        lines.append(f"{INDENT}elif any(np.may_share_memory(a, b) for a in ({listed_arrays}) for b in {given}):")
        lines += [f"{INDENT * 2}{a} = {a}.copy()" for a in arrays]
        if self.several:
            lines.append(INDENT + unpacked(self.result, self.targets, "out"))
        return lines

    def gathered(self, place: int) -> bool:
        """Whether a block of an input's cells is copied to contiguous rows first: points-first columns are strided."""
        return self.plan.in_axes[place] == 0 and len(self.cells(place)) > 1

    def cells(self, place: int) -> list[int]:
        return sorted(cell for p, cell in self.used if p == place)

    def scattered(self, place: int) -> bool:
        """Whether an output's cells are computed in contiguous rows and copied to their columns at the end."""
        return self.plan.out_axes[place] == 0 and len(self.program.outputs[place].cells) > 1

    def listed_buffers(self) -> list[tuple[str, int, str]]:
        """The thread's work arrays as (name, rows, dtype)."""
        found = [(name, self.plan.work[code], code) for code, name in self.work_names.items()]
        for place, leaf in enumerate(self.program.inputs):
            if self.gathered(place):
                found.append((self.row_names[place], len(self.cells(place)), leaf.dtype))
        for place, output in enumerate(self.program.outputs):
            if self.scattered(place):
                found.append((self.target_rows[place], len(output.cells), output.dtype))
        return found

    def row(self, array: str, row: int) -> str:
        """A row of a work array, as long as the block."""
        self.shortens = True
        return f"{array}[{row}, :{self.m}]"

    def kept(self, store: str = "work") -> list[str]:
        """The thread's work arrays, under a name of its store."""
        buffers = self.buffers
        if not buffers:
            return []
        lines = [f'{INDENT}{self.work} = getattr(_local, "{store}", None)', f"{INDENT}if {self.work} is None:"]
        lines.append(f"{INDENT * 2}{self.work} = _local.{store} = (")
        lines += [f"{INDENT * 3}np.empty(({rows}, {self.block}), dtype=np.{dtype_text(code)})," for _, rows, code in buffers]
        lines.append(f"{INDENT * 2})")
        names = ", ".join(name for name, _, _ in buffers)
        lines.append(f"{INDENT}{names}{',' if len(buffers) == 1 else ''} = {self.work}")
        return lines

    def cell(self, position: int) -> str:
        address: tuple[int, int] = self.program.nodes[position].params
        place, cell = address
        leaf = self.program.inputs[place]
        return self.arguments[place] + (cell_suffix(leaf.shape, cell) if leaf.shape else "")

    def inputs(self) -> list[str]:
        lines = []
        self.input_names: dict[int, str] = {}
        for place, leaf in enumerate(self.program.inputs):
            argument, axis = self.arguments[place], self.plan.in_axes[place]
            own = self.cells(place)
            if self.gathered(place):
                every = own == list(range(len(own))) and len(own) == _size(leaf.shape)
                block = f"{argument}[{self.start}:{self.stop}]"
                flat = block if len(leaf.shape) == 1 else f"{block}.reshape(-1, {_size(leaf.shape)})"
                picked = flat if every else f"{flat}[:, {own}]"
                lines.append(f"np.copyto({self.row_names[place]}[:, :{self.stop} - {self.start}], {picked}.T)")
        for position, node in enumerate(self.program.nodes):
            if node.op != "input":
                continue
            place, cell = node.params
            leaf = self.program.inputs[place]
            argument, axis = self.arguments[place], self.plan.in_axes[place]
            name = self.names.fresh(self.cell(position) if leaf.shape else f"{argument}_part")
            self.input_names[position] = name
            index = _index(leaf.shape, cell)
            part = f"{self.start}:{self.stop}"
            if axis is None:
                text = f"{argument}[{index or '()'}]"
            elif self.gathered(place):
                text = self.row(self.row_names[place], self.cells(place).index(cell))
            elif axis == 0:
                text = f"{argument}[{part}{', ' + index if index else ''}]"
            else:
                text = f"{argument}[{index + ', ' if index else ''}{part}]"
            lines.append(f"{name} = {text}")
        return lines

    def slots(self) -> list[str]:
        lines = []
        self.slot_names: dict[tuple[str, int], str] = {}
        for code, rows in sorted(self.plan.work.items()):
            for row in range(rows):
                name = self.names.fresh(f"{'w' if code == 'd' else 'b' if code == '?' else 'w' + code}{row}")
                self.slot_names[code, row] = name
                lines.append(f"{name} = {self.row(self.work_names[code], row)}")
        self.final_names: dict[tuple[int, int], str] = {}
        for place, output in enumerate(self.program.outputs):
            target, axis = self.targets[place], self.plan.out_axes[place]
            for cell in range(len(output.cells)):
                base = target if self.several else output.name
                name = self.names.fresh(f"{base}{cell_suffix(output.shape, cell)}" if output.shape else f"{base}_part")
                self.final_names[place, cell] = name
                index = _index(output.shape, cell)
                part = f"{self.start}:{self.stop}"
                if self.scattered(place):
                    lines.append(f"{name} = {self.row(self.target_rows[place], cell)}")
                elif axis == 0:
                    lines.append(f"{name} = {target}[{part}{', ' + index if index else ''}]")
                else:
                    lines.append(f"{name} = {target}[{index + ', ' if index else ''}{part}]")
        return lines

    def steps(self) -> list[str]:
        lines = []
        self.value_names: dict[int, str] = {}
        count = 0
        for position, node in enumerate(self.program.nodes):
            if node.op == "input":
                self.value_names[position] = self.input_names[position]
                continue
            if node.op == "const":
                self.value_names[position] = number_literal(node.params)
                continue
            slot = self.plan.slots[position]
            target = self.slot_names[slot] if slot is not None else self.final_names[self.plan.finals[position][0]]
            ordered = printed_operands(self.program, position) if node.op == "add" else node.operands
            operands = [self.value_names[o] for o in ordered]
            text = emit_in_place(self.program, position, operands, target, self.calls)
            note = f"  # v{count}"
            lines.append(f"{text}{note}" if len(text) < 80 else text)
            self.value_names[position] = target
            count += 1
        return lines

    def outputs(self) -> list[str]:
        lines = []
        for value, places in sorted(self.plan.finals.items()):
            home = places[0] if self.plan.slots[value] is None and not is_leaf(self.program.nodes[value]) else None
            for final in places:
                if final != home:
                    lines.append(f"np.copyto({self.final_names[final]}, {self.value_names[value]})")
        for place, output in enumerate(self.program.outputs):
            if self.scattered(place):
                block = f"{self.targets[place]}[{self.start}:{self.stop}]"
                self.shortens = True
                rows = f"{self.target_rows[place]}[:, :{self.m}].T"
                if len(output.shape) > 1:
                    shape = ", ".join(str(k) for k in output.shape)
                    rows = f"{rows}.reshape(-1, {shape})"
                lines.append(f"np.copyto({block}, {rows})")
        return lines


class _Checks(_Batch):
    """The loop that looks whether a point takes a path that raises, before anything is written."""

    def __init__(self, plan: Plan, arguments: list[str], names: Names, raised: Sequence[Raised]) -> None:
        super().__init__(plan, arguments, names, emitted_result(len(plan.program.outputs)), {})
        self.raised = raised

    def loop(self) -> list[str]:
        """The statements."""
        body = [*self.inputs(), *self.slots(), *self.steps()]
        shown = {
            leaf.name: argument + POINT[axis]
            for leaf, argument, axis in zip(self.program.inputs, self.arguments, self.plan.in_axes, strict=True)
        }
        for raised, check in zip(self.raised, self.program.checks, strict=True):
            name = self.value_names[check]
            body.append(f"if {name}.any():")
            body += [INDENT + line for line in raised.at_point(f"{self.start} + {name}.argmax()", shown)]
        return [*self.kept("checks"), *self.over_blocks(body)]


def emit_in_place(program: Program, position: int, operands: list[str], target: str, calls: Mapping[int, str]) -> str:
    """One node as a NumPy statement that writes into a given array; `calls` are the names of opaque functions."""
    node = program.nodes[position]
    listed = ", ".join(operands)
    if node.op == "call":
        points = f"zip(*np.broadcast_arrays({listed}), strict=True)"
        return f"{target}[...] = [{calls[id(node.params)]}(*p) for p in {points}]"
    if node.op == "select":
        condition, yes, no = operands
        return f"np.copyto({target}, {no}); np.copyto({target}, {yes}, where={condition})"
    if node.op == "cast":
        return f"np.copyto({target}, {operands[0]}, casting='same_kind')"
    if node.op in ("real", "imag"):
        return f"np.copyto({target}, np.{node.op}({operands[0]}))"
    op = OPS[node.op]
    if not op.takes_out:
        return f"np.copyto({target}, {op.spelled(*operands)})"
    return op.spelled(*operands, f"out={target}")


def _size(shape: tuple[int, ...]) -> int:
    size = 1
    for n in shape:
        size *= n
    return size


def _index(shape: tuple[int, ...], cell: int) -> str:
    return cell_suffix(shape, cell).replace("_", ", ") if shape else ""
