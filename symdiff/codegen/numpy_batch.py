"""Plan to NumPy over many points: the mathematics of a block of points as in-place ufuncs, and the loop over blocks.

Assumes a batch Plan. Guarantees that nothing as large as the batch is allocated but the outputs, and that with an `out`
that overlaps no input a thread's second call allocates no array memory.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from symdiff.codegen.exceptions import POINT, Raised
from symdiff.codegen.expressions import formula, printed_operands
from symdiff.codegen.names import Names, cell_name, cell_suffix
from symdiff.codegen.numpy import called, calls_scipy, emit_in_place, emitted_globals
from symdiff.codegen.shells import INDENT, PointsShell, Shell
from symdiff.codegen.source import Source
from symdiff.codegen.text import Result, dtype_text, tuple_text, wrapped_text
from symdiff.lowering.plan import Plan
from symdiff.lowering.program import is_leaf
from symdiff.vocabulary.literals import number_literal

OWN = ("start", "stop", "point", "work")
LONGEST, SHORTEST = 8192, 64  # points a block; 4096 took 1.2 times as long on the cubic, 1024 2.4 times
CELLS = 2**19  # numbers in all work arrays of a thread, so that long programs take shorter blocks


def emit(
    plan: Plan, *, name: str, style: str = "runtime", header: Sequence[str] = (), doc: str = "",
    result: Result | None = None, raised: Sequence[Raised] = (), before: Plan | None = None,
) -> Source:  # fmt: skip
    """The plan as a function over points: style "runtime" for arguments already normalised, "export" for a stand-alone file.

    `raised` are the exceptions of the checks of the plan `before`.
    """
    calls = called(plan.program.nodes)
    own = (*OWN, *calls.values(), *(f"error{k}" for k in range(len(raised))))
    axes: dict[str, Any] = {"in_axes": plan.in_axes, "out_axes": plan.out_axes}
    shell = PointsShell(plan.program, name, own, exported=style == "export", result=result, raised=raised, **axes)
    blocks = [_Block(plan, f"{name}_block", shell, calls)]
    if before is not None:
        blocks.insert(0, _Checks(before, f"{name}_checks", shell, {}))
    lines = [*shell.accepted(), *shell.count(), *shell.arrays_for_results(shell.given())]
    lines += [line for block in blocks for line in (*block.kept(), *block.loop())]
    lines += shell.returned(shell.targets, [])
    nodes = [node for block in blocks for node in block.program.nodes]
    functions = [*(block.function() for block in blocks), shell.function(doc, lines)]
    known = [] if shell.exported else emitted_globals(nodes)
    return shell.source(functions, header, special=calls_scipy(nodes), known=known)


class _Block:
    """The function of a block of points: it takes parts of arguments, results and the work arrays that a thread keeps."""

    store = "work"

    def __init__(self, plan: Plan, name: str, shell: Shell, calls: Mapping[int, str]) -> None:
        self.plan, self.program, self.shell, self.calls = plan, plan.program, shell, calls
        self.name = shell.names.fresh(name)
        self.used = {i.params for i in self.program.nodes if i.op == "input"}
        self.arguments = shell.arguments[: len(self.program.inputs)]
        self.targets = shell.targets[: len(self.program.outputs)]
        self.names = Names(shell.names.taken)
        codes = sorted(self.plan.work)
        self.work_names = {code: self.names.fresh(f"{self.store}_{'b' if code == '?' else code}") for code in codes}
        self.row_names = [self.names.fresh(f"{a}_rows") if self.gathered(k) else "" for k, a in enumerate(self.arguments)]
        self.target_rows = [self.names.fresh(f"{t}_rows") if self.scattered(k) else "" for k, t in enumerate(self.targets)]
        self.buffers = self.listed_buffers()
        rows = sum(rows for _, rows, _ in self.buffers)
        self.block = LONGEST
        while self.block > SHORTEST and self.block * rows > CELLS:
            self.block //= 2
        self.texts: dict[int, str] = {}  # where a value is, and what it is called in formulas
        self.labels: dict[int, str] = {}

    # -- in the function over all points

    def loop(self) -> list[str]:
        """The calls of the function, one for each block."""
        parts = [self.part(a, axis) for k, (a, axis) in enumerate(self.places(self.arguments)) if self.cells(k)]
        parts += [self.part(t, axis) for t, axis in zip(self.targets, self.plan.out_axes, strict=False)]
        parts += [f"{name}[:, : stop - start]" for name, _, _ in self.buffers]
        return [
            'with np.errstate(all="ignore"):',
            f"{INDENT}for start in range(0, {self.shell.points}, {self.block}):",
            f"{INDENT * 2}stop = min(start + {self.block}, {self.shell.points})",
            *wrapped_text(f"{self.name}(", [*parts, *self.more()], ")", INDENT * 2),
        ]

    def kept(self) -> list[str]:
        """The thread's work arrays by their names."""
        if not self.buffers:
            return []
        made = [f"np.empty(({rows}, {self.block}), np.{dtype_text(code)})" for _, rows, code in self.buffers]
        return [f"{tuple_text([name for name, _, _ in self.buffers])[1:-1]} = {self.shell.keep(self.store, made)}"]

    def places(self, names: Sequence[str]) -> list[tuple[str, int | None]]:
        """Names with the axes of points."""
        return list(zip(names, self.plan.in_axes, strict=True))

    def part(self, name: str, axis: int | None) -> str:
        """The block's points of an array."""
        return name if axis is None else f"{name}[start:stop]" if axis == 0 else f"{name}[..., start:stop]"

    def more(self) -> list[str]:
        """Further arguments of the function."""
        return []

    # -- the function itself

    def function(self) -> str:
        """The function of a block."""
        taken = (
            [a for k, a in enumerate(self.arguments) if self.cells(k)] + self.targets + [name for name, _, _ in self.buffers]
        )
        body = [*self.inputs(), *self.slots(), *self.steps(), *self.ends()]
        head = wrapped_text(f"def {self.name}(", [f"{a}: Any" for a in [*taken, *self.more()]], ") -> None:", "")
        return "\n".join([*head, f'{INDENT}"""{self.doc()}"""', *(INDENT + line for line in body)])

    def doc(self) -> str:
        """What the function computes."""
        shown = self.targets if len(self.targets) < 5 else [*self.targets[:3], "..."]
        where = f" in {', '.join(name for name, _, _ in self.buffers)}" if self.buffers else ""
        return f"{', '.join(shown)} at a block of points; intermediate values are{where or ' results'}."

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
        for place, name in enumerate(self.target_rows):
            if name:
                output = self.program.outputs[place]
                found.append((name, len(output.cells), output.dtype))
        return found

    def inputs(self) -> list[str]:
        """The cells of the arguments, under names of their own."""
        lines, named = [], {}
        for place, (leaf, argument) in enumerate(zip(self.program.inputs, self.arguments, strict=True)):
            axis, own = self.plan.in_axes[place], self.cells(place)
            for cell in own:
                named[place, cell] = self.names.fresh(cell_name(argument, leaf.shape, cell)) if leaf.shape else argument
            if self.gathered(place):
                size = math.prod(leaf.shape)
                flat = argument if len(leaf.shape) == 1 else f"{argument}.reshape(len({argument}), {size})"
                picked = flat if len(own) == size else f"{flat}[:, {own}]"
                lines.append(f"np.copyto({self.row_names[place]}, {picked}.T)  # a row for each cell of {argument}")
                lines += _unpacked([named[place, cell] for cell in own], self.row_names[place])
            elif leaf.shape:
                at = [cell_suffix(leaf.shape, cell).replace("_", ", ") for cell in own]
                lines += [
                    f"{named[place, cell]} = {argument}[{':, ' if axis == 0 else ''}{k}]"
                    for cell, k in zip(own, at, strict=True)
                ]
        for position, node in enumerate(self.program.nodes):
            if node.op == "input":
                self.texts[position] = self.labels[position] = named[node.params]
            elif node.op == "const":
                self.texts[position] = self.labels[position] = number_literal(node.params)
        return lines

    def slots(self) -> list[str]:
        """The rows of the work arrays, and the cells of the results, under names of their own."""
        lines = []
        self.slot_names: dict[tuple[str, int], str] = {}
        for code, rows in sorted(self.plan.work.items()):
            own = [self.names.fresh(f"{'w' if code == 'd' else 'b' if code == '?' else 'w' + code}{k}") for k in range(rows)]
            self.slot_names |= {(code, k): name for k, name in enumerate(own)}
            lines += _unpacked(own, self.work_names[code])
        self.final_names: dict[tuple[int, int], str] = {}
        for place, (output, target) in enumerate(zip(self.program.outputs, self.targets, strict=False)):
            cells = [self.names.fresh(cell_name(target, output.shape, k)) for k in range(len(output.cells))]
            self.final_names |= {(place, k): name if output.shape else target for k, name in enumerate(cells or [target])}
            if self.target_rows[place]:
                lines += _unpacked(cells, self.target_rows[place])
            elif output.shape:
                before = ":, " if self.plan.out_axes[place] == 0 else ""
                at = [cell_suffix(output.shape, k).replace("_", ", ") for k in range(len(cells))]
                lines += [f"{name} = {target}[{before}{k}]" for name, k in zip(cells, at, strict=True)]
        return lines

    def steps(self) -> list[str]:
        """One statement for each operation, with its formula."""
        lines = []
        count = 0
        for position, node in enumerate(self.program.nodes):
            if is_leaf(node):
                continue
            finals = self.plan.finals.get(position, [])
            slot = self.plan.slots[position]
            target = self.slot_names[slot] if slot is not None else self.final_names[finals[0]]
            ordered = printed_operands(self.program, position)
            text = emit_in_place(self.program, position, [self.texts[o] for o in node.operands], target, self.calls)
            self.texts[position], label = target, self.final_names[finals[0]] if finals else f"v{count}"
            self.labels[position] = label
            count += not finals
            lines.append((text, f"{label} = {formula(node, [self.labels[o] for o in ordered], self.calls)}"))
        return noted(lines)

    def ends(self) -> list[str]:
        """Results that several outputs have, or that lie in rows, copied to their places."""
        lines = []
        for value, places in sorted(self.plan.finals.items()):
            home = places[0] if self.plan.slots[value] is None and not is_leaf(self.program.nodes[value]) else None
            copied = [(self.final_names[final], self.texts[value]) for final in places if final != home]
            lines += [f"np.copyto({name}, {text})  # {name} = {self.labels[value]}" for name, text in copied]
        for place, (target, rows) in enumerate(zip(self.targets, self.target_rows, strict=True)):
            if rows:
                shaped = "" if len(self.program.outputs[place].shape) == 1 else f".reshape({target}.shape)"
                lines.append(f"np.copyto({target}, {rows}.T{shaped})  # {target} of {rows}, a row for each cell")
        return lines


class _Checks(_Block):
    """The function that raises where a point of a block takes a path that raises; all blocks are checked first."""

    store = "checks"

    def more(self) -> list[str]:
        return ["start"]

    def doc(self) -> str:
        return "Raise where a point of a block has no result; `start` is the number of its first."

    def ends(self) -> list[str]:
        shown = {leaf.name: a + POINT[x] for leaf, (a, x) in zip(self.program.inputs, self.places(self.arguments), strict=True)}
        lines = []
        for k, (raised, check) in enumerate(zip(self.shell.raised, self.program.checks, strict=True)):
            name = self.texts[check]
            found = raised.at_point(k, f"{name}.argmax()", shown, "start")
            lines += [f"if {name}.any():", *(INDENT + line for line in found)]
        return lines


def noted(lines: Sequence[tuple[str, str]]) -> list[str]:
    """Statements with comments beside them, one below the other where they are short."""
    width = max((len(text) for text, _ in lines if len(text) <= 60), default=0)
    return [f"{text:{width}}  # {note}" if note else text for text, note in lines]


def _unpacked(names: list[str], array: str) -> list[str]:
    """The rows of an array by their names."""
    return wrapped_text("", names, f" = {array}", "") if len(names) > 1 else [f"{name}, = {array}" for name in names]
