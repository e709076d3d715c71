"""Plan to NumPy over many points: the mathematics of a block of points as in-place ufuncs, and the loop over blocks.

Assumes a batch Plan. Guarantees that nothing as large as the batch is allocated but the outputs, and that with an `out`
that overlaps no input a thread's second call allocates no array memory.
"""

import math
from collections.abc import Mapping, Sequence

from symdiff.codegen.exceptions import POINT, Raised
from symdiff.codegen.expressions import formula, printed_operands
from symdiff.codegen.names import Names, cell_name, cell_suffix, emitted_argument_names
from symdiff.codegen.shells import (
    ARRAY,
    CHECK_OUT,
    POINTS,
    UNEVALUATED,
    annotated_array,
    annotated_result,
    checked_input,
    emit_out_check,
)
from symdiff.codegen.source import PythonFile, Source
from symdiff.codegen.text import Result, dtype_text, emitted_result, packed, packed_lines, tuple_text, unpacked, wrapped_text
from symdiff.lowering.plan import Plan
from symdiff.lowering.program import Program, is_leaf
from symdiff.vocabulary.literals import docstring_literal, number_literal
from symdiff.vocabulary.ops import OPS

INDENT = "    "
OWN = ("np", "out", "MISS", "found", "result", "special", "threading", "Any", "ArrayLike", "NDArray", "Result", "start", "stop",
       "point", "_local", "_array", "_check_out", "_points", "_apart", "_work")  # fmt: skip
LONGEST, SHORTEST = 8192, 64  # points a block; 4096 took 1.2 times as long on the cubic, 1024 2.4 times
CELLS = 2**19  # numbers in all work arrays of a thread, so that long programs take shorter blocks
_APART = '''def _apart(arrays: tuple[Any, ...], results: tuple[Any, ...]) -> list[NDArray[Any]]:
    """Arrays, copies of those that may share memory with results."""
    return [a.copy() if any(np.may_share_memory(a, r) for r in results) else a for a in arrays]'''


def emit(
    plan: Plan, *, name: str, style: str = "runtime", header: Sequence[str] = (), doc: str = "",
    result: Result | None = None, raised: Sequence[Raised] = (), before: Plan | None = None, calls: Mapping[int, str] = {},
) -> Source:  # fmt: skip
    """The plan as a function over points: style "runtime" for arguments already normalised, "export" for a stand-alone file.

    `raised` are the exceptions of the checks of the plan `before`; `calls` the names of opaque functions.
    """
    program = plan.program
    result = emitted_result(len(program.outputs)) if result is None else result
    names = Names((*OWN, *calls.values(), *(f"error{k}" for k in range(len(raised)))))
    arguments = emitted_argument_names(program.inputs, names)
    entry = names.fresh(name)
    targets = [names.fresh(o.name) for o in program.outputs]
    n = names.fresh("n")
    blocks = [_Block(plan, names.fresh(f"{name}_block"), arguments, targets, names, calls)]
    if before is not None:
        checks = _Checks(before, names.fresh(f"{name}_checks"), arguments, [], names, {})
        checks.raised = raised
        blocks.insert(0, checks)
    shell = _Shell(plan, arguments, targets, n, result)
    exported = style == "export"
    lines = [
        *(shell.checked() if exported else []),
        *shell.count(exported),
        *shell.results(exported),
        *[line for block in blocks for line in (*block.kept(), *block.loop(n))],
        *shell.returned(exported),
    ]
    typed = ": ArrayLike" if exported else ""
    head = wrapped_text(f"def {entry}(", [*(a + typed for a in arguments), "out: Any = None" if exported else "out=None"],
                        ") -> Result:" if exported else "):", "")  # fmt: skip
    function = "\n".join([*head, *docstring_literal(doc), *(INDENT + line for line in lines)])
    functions = [*(block.function() for block in blocks), function]
    works = [block.work() for block in blocks if block.buffers]
    if not exported:
        return Source("\n\n\n".join([UNEVALUATED, *functions, *works, _APART]) + "\n", entry, "numpy")
    special = any(OPS[i.op].is_special for block in blocks for i in block.program.nodes)
    packages = ["import numpy as np", "from numpy.typing import ArrayLike, NDArray"]
    packages += ["from scipy import special"] if special else []
    alias = f"Result = {annotated_result(result, [annotated_array(o, True) for o in program.outputs])}"
    support = [*works, ARRAY, CHECK_OUT, POINTS, _APART]
    standard = ["from typing import Any", *(["import threading"] if works else [])]
    head = [alias, *(["_local = threading.local()"] if works else [])]
    return PythonFile(tuple(header), tuple(standard), tuple(packages), tuple(head), tuple(functions), tuple(support)).source(
        entry, "numpy"
    )


class _Shell:
    """What the function over points does before and after the loop."""

    def __init__(self, plan: Plan, arguments: list[str], targets: list[str], n: str, result: Result) -> None:
        self.plan, self.program = plan, plan.program
        self.arguments, self.targets, self.n, self.result = arguments, targets, n, result
        leaves = zip(self.program.inputs, arguments, plan.in_axes, strict=True)
        self.inputs = [(leaf, argument, axis) for leaf, argument, axis in leaves]
        self.batched = [(argument, axis) for _, argument, axis in self.inputs if axis is not None]
        self.shapes = []
        for output, axis in zip(self.program.outputs, plan.out_axes, strict=True):
            sizes = [str(k) for k in output.shape]
            self.shapes.append(tuple_text([n, *sizes] if axis == 0 else [*sizes, n]))

    def checked(self) -> list[str]:
        """The checks of the arguments, a line each."""
        return [f"{argument} = {checked_input(leaf, argument, axis)}" for leaf, argument, axis in self.inputs]

    def count(self, exported: bool) -> list[str]:
        """The number of points."""
        counts = [f"{argument}={argument}.shape[{axis}]" for argument, axis in self.batched]
        if not exported or len(counts) == 1:
            return [f"{self.n} = {counts[0].partition('=')[2]}"]
        return wrapped_text(f"{self.n} = _points(", counts, ")", "")

    def results(self, exported: bool) -> list[str]:
        """The arrays of the results: made here, or given, and then the arguments apart from them."""
        made = [
            f"np.empty({shape if output.shape else self.n}, np.{dtype_text(output.dtype)})"
            for output, shape in zip(self.program.outputs, self.shapes, strict=True)
        ]
        several = not isinstance(self.result, int)
        names = self.targets if several else [*self.targets]
        opening = unpacked(self.result, names, "") if several else f"{names[0]} = "
        lines = ["if out is None:", *packed_lines(opening, self.result, made, INDENT), "else:"]
        given = [unpacked(self.result, names, "out")] if several else [f"{names[0]} = out"]
        check = emit_out_check(self.program.outputs, self.shapes, self.result) if exported else []
        arrays = tuple_text([argument for argument, _ in self.batched])
        given.append(f"{arrays[1:-1]} = _apart({arrays}, {tuple_text(names)})")
        return [*lines, *(INDENT + line for line in [*check, *given])]

    def returned(self, exported: bool) -> list[str]:
        """The results, in `out` where it is given."""
        own = packed(self.result, self.targets)
        if not exported:
            return [f"return {own} if out is None else out"]
        return [f"result: Result = {own} if out is None else out", "return result"]


class _Block:
    """The function of a block of points: it takes parts of arguments, results and the work arrays that a thread keeps."""

    store = "work"

    def __init__(
        self, plan: Plan, name: str, arguments: list[str], targets: list[str], taken: Names, calls: Mapping[int, str]
    ) -> None:
        self.plan, self.program, self.name, self.calls = plan, plan.program, name, calls
        self.used = {i.params for i in self.program.nodes if i.op == "input"}
        self.arguments = arguments[: len(self.program.inputs)]
        self.targets = targets
        self.names = Names(taken.taken)
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

    def loop(self, n: str) -> list[str]:
        """The calls of the function, one for each block."""
        parts = [self.part(a, axis) for k, (a, axis) in enumerate(self.places(self.arguments)) if self.cells(k)]
        parts += [self.part(t, axis) for t, axis in zip(self.targets, self.plan.out_axes, strict=False)]
        parts += [f"{name}[:, : stop - start]" for name, _, _ in self.buffers]
        return [
            'with np.errstate(all="ignore"):',
            f"{INDENT}for start in range(0, {n}, {self.block}):",
            f"{INDENT * 2}stop = min(start + {self.block}, {n})",
            *wrapped_text(f"{self.name}(", [*parts, *self.more()], ")", INDENT * 2),
        ]

    def kept(self) -> list[str]:
        """The thread's work arrays by their names."""
        names = [name for name, _, _ in self.buffers]
        return [f"{', '.join(names)}{',' if len(names) == 1 else ''} = _{self.store}()"] if names else []

    def work(self) -> str:
        """The function that has them."""
        made = [f"np.empty(({rows}, {self.block}), np.{dtype_text(code)})" for _, rows, code in self.buffers]
        return emit_kept_arrays(self.store, made)

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
                lines.append(f"np.copyto({self.row_names[place]}, {picked}.T)")
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
            lines += [f"np.copyto({self.final_names[final]}, {self.texts[value]})" for final in places if final != home]
        for place, (target, rows) in enumerate(zip(self.targets, self.target_rows, strict=True)):
            if rows:
                shaped = "" if len(self.program.outputs[place].shape) == 1 else f".reshape({target}.shape)"
                lines.append(f"np.copyto({target}, {rows}.T{shaped})")
        return lines


class _Checks(_Block):
    """The function that raises where a point of a block takes a path that raises; all blocks are checked first."""

    store = "checks"
    raised: Sequence[Raised] = ()

    def more(self) -> list[str]:
        return ["start"]

    def doc(self) -> str:
        return "Raise where a point of a block has no result; `start` is the number of its first."

    def ends(self) -> list[str]:
        shown = {leaf.name: a + POINT[x] for leaf, (a, x) in zip(self.program.inputs, self.places(self.arguments), strict=True)}
        lines = []
        for k, (raised, check) in enumerate(zip(self.raised, self.program.checks, strict=True)):
            name = self.texts[check]
            found = raised.at_point(k, f"{name}.argmax()", shown, "start")
            lines += [f"if {name}.any():", *(INDENT + line for line in found)]
        return lines


def emit_kept_arrays(store: str, made: Sequence[str]) -> str:
    """The function that gives the arrays which a thread keeps under a name of its store, made in the thread's first call."""
    return "\n".join([
        f"def _{store}() -> Any:",
        f'{INDENT}"""The work arrays that this thread keeps."""',
        f'{INDENT}if not hasattr(_local, "{store}"):',
        f"{INDENT * 2}_local.{store} = (",
        *(f"{INDENT * 3}{text}," for text in made),
        f"{INDENT * 2})",
        f"{INDENT}return _local.{store}",
    ])  # fmt: skip


def noted(lines: Sequence[tuple[str, str]]) -> list[str]:
    """Statements with comments beside them, one below the other where they are short."""
    width = max((len(text) for text, _ in lines if len(text) <= 60), default=0)
    return [f"{text:{width}}  # {note}" if note else text for text, note in lines]


def _unpacked(names: list[str], array: str) -> list[str]:
    """The rows of an array by their names."""
    return wrapped_text("", names, f" = {array}", "") if len(names) > 1 else [f"{name}, = {array}" for name in names]


def emit_in_place(program: Program, position: int, operands: list[str], target: str, calls: Mapping[int, str]) -> str:
    """One node as a NumPy statement that writes into a given array; `calls` are the names of opaque functions."""
    node = program.nodes[position]
    if node.op == "add" and printed_operands(program, position) != node.operands:
        operands = operands[::-1]
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
