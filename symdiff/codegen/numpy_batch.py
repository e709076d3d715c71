"""Plan to NumPy over many points: the mathematics of a block of points as in-place ufuncs, and the loop over blocks.

Assumes a batch Plan. Guarantees that nothing as large as the batch is allocated but the outputs, and that with an `out`
that overlaps no input a thread's second call allocates no array memory.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from symdiff.codegen.exceptions import POINT
from symdiff.codegen.expressions import ATOM, Expression
from symdiff.codegen.names import Names, cell_name, cell_suffix
from symdiff.codegen.nest_heads import refuse_heads
from symdiff.codegen.nest_words import Buffer, Cells
from symdiff.codegen.numpy import called, calls_scipy, emitted_globals
from symdiff.codegen.row_nests import Row, RowNests
from symdiff.codegen.shells import INDENT, PointsShell
from symdiff.codegen.source import Source, Wanted
from symdiff.codegen.text import dtype_text, few_names, indented, tuple_text, wrapped_text
from symdiff.errors import BackendError
from symdiff.lowering.plan import Plan
from symdiff.lowering.program import Input, Output, is_nest
from symdiff.lowering.walks import nodes_with_bodies
from symdiff.vocabulary.ops import OPS

OWN = ("start", "stop", "point", "work")
LONGEST, SHORTEST = 8192, 64  # points a block; 4096 took 1.2 times as long on the cubic, 1024 2.4 times
CELLS = 2**19  # numbers in all work arrays of a thread, so that long programs take shorter blocks


def emit(plan: Plan, *, before: Plan | None = None, **asked: Any) -> Source:
    """The plan as the function over points that is `asked` for, `Wanted`: of a file, or for arguments already normalised. The
    exceptions are those of the checks of the plan `before`.
    """
    want = Wanted(**asked)
    if problem := refuse_heads(plan.program, "NumPy's files"):
        raise BackendError(problem)
    nodes = [node for own in (plan, *([before] if before else [])) for node in nodes_with_bodies(own.program) if node.op in OPS]
    calls = called(nodes)
    own = (*OWN, *calls.values(), *(f"error{k}" for k in range(len(want.raised))))
    shell = PointsShell(plan.program, want, own, plan.in_axes, plan.out_axes)
    shell.constants = {}
    blocks = [_Block(plan, f"{want.name}_block", shell, calls)]
    if before is not None:
        blocks.insert(0, _Checks(before, f"{want.name}_checks", shell, calls))
    lines = [*shell.accepted(), *shell.count(), *shell.arrays_for_results(shell.given())]
    lines += [line for block in blocks for line in (*block.kept(), *block.loop())]
    lines += shell.returned(shell.targets, [])
    functions = [*(block.function() for block in blocks), shell.function(lines)]
    known = [] if shell.exported else emitted_globals(nodes)
    return shell.source(functions, special=calls_scipy(nodes), known=known, constants=blocks[0].words.constant_texts())


class _Block:
    """The function of a block of points: it takes parts of arguments, results and the work arrays that a thread keeps."""

    store = "work"

    def __init__(self, plan: Plan, name: str, shell: PointsShell, calls: Mapping[int, str]) -> None:
        self.plan, self.program, self.shell = plan, plan.program, shell
        self.name = shell.names.fresh(name)
        self.arguments = shell.arguments[: len(self.program.inputs)]
        self.targets = shell.targets[: len(self.program.outputs)]
        self.names = Names(shell.names.taken)
        self.looped = is_nest(self.program)
        every = [list(range(math.prod(leaf.shape))) for leaf in self.program.inputs]
        used = {i.params for i in self.program.nodes if i.op == "input"}
        self.cells = every if self.looped else [[c for c in own if (k, c) in used] for k, own in enumerate(every)]
        self.rows: dict[str, tuple[int, str]] = {}  # the work arrays of arguments and results: how many rows, and the dtype
        self.head: list[str] = []
        self.opened: list[str] = []
        given = [self.argument(k, leaf, a) for k, (leaf, a) in enumerate(zip(self.program.inputs, self.arguments, strict=True))]
        self.ends: list[str] = []
        places = [self.result(k, output) for k, output in enumerate(self.program.outputs)]
        first, axis = [*zip(self.targets, plan.out_axes, strict=False), *self.places(self.arguments)][0]
        self.words = RowNests(self.names, calls, self.program, places, self.check, f"{first}.shape[{axis or 0}]")
        arrays = [(c.buffer.name, x) for c, x in zip(given, plan.in_axes, strict=True) if isinstance(c, Cells) and c.buffer]
        self.words.given, self.words.shared = {name for name, _ in arrays}, {name for name, x in arrays if x is None}
        self.words.constants = shell.constants
        body = self.words.body_of_block(given)
        shell.names.taken.update(shell.constants)
        work, rooms = self.words.rooms(self.store)
        self.lines = [*self.head, *work, *self.opened, *body, *self.ends]
        self.buffers = [*rooms, *((name, rows, code) for name, (rows, code) in self.rows.items())]
        rows = sum(rows for _, rows, _ in self.buffers)
        self.block = LONGEST
        while self.block > SHORTEST and self.block * rows > CELLS:
            self.block //= 2

    # -- in the function over all points

    def loop(self) -> list[str]:
        """The calls of the function, one for each block."""
        parts = [self.part(a, axis) for a, axis in self.places(self.arguments)]
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
        """Those of the names of arguments that are read, with the axes of points."""
        return [(n, axis) for n, axis, own in zip(names, self.plan.in_axes, self.cells, strict=True) if own]

    def part(self, name: str, axis: int | None) -> str:
        """The block's points of an array."""
        return name if axis is None else f"{name}[start:stop]" if axis == 0 else f"{name}[..., start:stop]"

    def more(self) -> list[str]:
        """Further arguments of the function."""
        return []

    # -- the function itself

    def function(self) -> str:
        """The function of a block."""
        taken = [*(a for a, _ in self.places(self.arguments)), *self.targets, *(name for name, _, _ in self.buffers)]
        head = wrapped_text(f"def {self.name}(", [f"{a}: Any" for a in [*taken, *self.more()]], ") -> None:")
        return "\n".join([*head, f'{INDENT}"""{self.doc()}"""', *indented(self.lines)])

    def doc(self) -> str:
        """What the function computes."""
        where = f" in {', '.join(name for name, _, _ in self.buffers)}" if self.buffers else ""
        return f"{few_names(self.targets)} at a block of points; intermediate values are{where or ' results'}."

    def check(self, k: int, condition: str) -> list[str]:
        """The statements where a check holds."""
        raise NotImplementedError

    def argument(self, place: int, leaf: Input, argument: str) -> Any:
        """A number of each point, or the cells of an array, which are rows under names of their own where there are no loops.

        A block's cells of points that come first are copied to rows: its columns are strided.
        """
        axis, own, size = self.plan.in_axes[place], self.cells[place], math.prod(leaf.shape)
        if not leaf.shape or not own:
            return Expression(argument, ATOM, 0) if axis is None else Row(argument)
        named, picked = self.cells_by_name(argument, leaf, own, axis)
        rows, copied = argument, axis == 0 and len(own) > 1
        if copied or (not named and (axis == 0 or len(leaf.shape) > 1)):
            rows = self.names.fresh(f"{argument}_rows")
        if copied:
            self.rows[rows] = len(own), leaf.dtype
            flat = argument if len(leaf.shape) == 1 else f"{argument}.reshape(len({argument}), {size})"
            flat = flat if len(own) == size else f"{flat}[:, {own}]"
            self.head.append(f"np.copyto({rows}, {flat}.T)  # a row for each cell of {argument}")
            self.head += _unpacked(named, rows) if named else []
        elif rows == argument:
            self.head += picked
        else:
            self.head.append(f"{rows} = {argument}.reshape({1 if axis == 0 else size}{'' if axis is None else ', -1'})")
        names = dict(zip(own, named, strict=False))
        buffer = Buffer(rows, leaf.shape, leaf.dtype)
        return Cells(leaf.shape, leaf.dtype, lambda index: self.words.read(buffer, index, names), buffer)

    def cells_by_name(
        self, array: str, leaf: Input | Output, own: Sequence[int], axis: int | None
    ) -> tuple[list[str], list[str]]:
        """Names for cells of an array where there are no loops, and what gives them these."""
        named = [] if self.looped else [self.names.fresh(cell_name(array, leaf.shape, c)) for c in own]
        at = [cell_suffix(leaf.shape, c).replace("_", ", ") for c in own]
        return named, [f"{n} = {array}[{':, ' * (axis == 0)}{k}]" for n, k in zip(named, at, strict=False)]

    def result(self, place: int, output: Output) -> tuple[Buffer, list[str]]:
        """Where the rows of a result lie, and their names where they have some."""
        target, axis, size = self.targets[place], self.plan.out_axes[place], math.prod(output.shape)
        if not output.shape:
            return Buffer(target, (), output.dtype), [target]
        named, picked = self.cells_by_name(target, output, range(size), axis)
        rows = target
        if size and ((axis == 0 and size > 1) or (self.looped and (axis == 0 or len(output.shape) > 1))):
            rows = self.names.fresh(f"{target}_rows")
            self.rows[rows] = size, output.dtype
            self.opened += _unpacked(named, rows) if named else []
            shaped = "" if len(output.shape) == 1 else f".reshape({target}.shape)"
            turned = f"{rows}.T" if axis == 0 else rows
            self.ends.append(f"np.copyto({target}, {turned}{shaped})  # {target} of {rows}, a row for each cell")
        else:
            self.opened += picked
        return Buffer(rows, output.shape, output.dtype), named


class _Checks(_Block):
    """The function that raises where a point of a block takes a path that raises; all blocks are checked first."""

    store = "checks"

    def more(self) -> list[str]:
        return ["start"]

    def doc(self) -> str:
        return "Raise where a point of a block has no result; `start` is the number of its first."

    def check(self, k: int, condition: str) -> list[str]:
        inputs = zip(self.program.inputs, self.arguments, self.plan.in_axes, strict=True)
        shown = {leaf.name: a + POINT[x] for leaf, a, x in inputs}
        found = self.shell.raised[k].at_point(k, f"{condition}.argmax()", shown, "start")
        return [f"if {condition}.any():", *indented(found)]


def _unpacked(names: list[str], array: str) -> list[str]:
    """The rows of an array by their names."""
    return wrapped_text("", names, f" = {array}") if len(names) > 1 else [f"{name}, = {array}" for name in names]
