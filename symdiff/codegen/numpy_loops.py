"""Programs with loops to NumPy files: `for` and `while` over NumPy's numbers and lists of them.

Assumes a point Plan in double precision without sizes that a call tells: numbers, vectors and matrices in loops and around.
Guarantees the rounds' order and IEEE results without warnings. Refuses other operations on whole arrays with `BackendError`.
"""

from collections.abc import Iterator, Sequence

from symdiff.codegen.expressions import ATOM, Expression
from symdiff.codegen.numpy import calls_scipy, spelling
from symdiff.codegen.python import has_single_precision
from symdiff.codegen.python_loops import Block, Writer, beyond
from symdiff.codegen.shells import INDENT, Shell
from symdiff.codegen.source import Source
from symdiff.codegen.text import Result, dtype_text
from symdiff.ir.node import Node
from symdiff.lowering.plan import Plan
from symdiff.lowering.program import Program
from symdiff.vocabulary.extents import sizes_in
from symdiff.vocabulary.literals import number_literal
from symdiff.vocabulary.ops import OPS


def emit(
    plan: Plan, *, name: str, style: str = "export", header: Sequence[str] = (), doc: str = "", result: Result | None = None
) -> Source:
    """The file: NumPy's checks of arguments and `out`, the loops over its numbers in between."""
    program = plan.program
    programs = list(_programs(program))
    if style != "export":
        raise beyond("a call in this process")
    if any(map(has_single_precision, programs)):
        raise beyond("single precision")
    if sizes_in(tuple(leaf.shape for leaf in program.inputs)):
        raise beyond("a size that a call tells")
    shell = Shell(program, name, result=result)
    writer = _Writer(shell)
    outputs = list(zip(program.outputs, shell.places, strict=True))
    block = Block(writer, program, [Expression(a, ATOM, 0) for a in shell.arguments])
    for position in range(len(program.nodes)):
        block.add(position)
    results = [block.output(o) for o in program.outputs]
    lists = [_listed(leaf.shape, a) for leaf, a in zip(program.inputs, shell.arguments, strict=True) if leaf.shape]
    steps = [*lists, *block.lines, *(f"{t} = {r}" for t, r in zip(shell.targets, results, strict=True) if t != r)]
    lines = [*shell.accepted(), "if out is not None:", *(INDENT + line for line in shell.out_check())]
    lines += ['with np.errstate(all="ignore"):', *(INDENT + line for line in steps)]
    kinds = [f"np.{dtype_text(o.dtype)}" for o in program.outputs]
    shaped = [f"np.array({t}, {k}).reshape({o.shape!r})" for t, k, o in zip(shell.targets, kinds, program.outputs, strict=True)]
    made = [a if o.shape else f"{k}({t})" for a, k, t, o in zip(shaped, kinds, shell.targets, program.outputs, strict=True)]
    lines += shell.returned(made, [f"{p}[...] = {m}" for (_, p), m in zip(outputs, made, strict=True)])
    special = any(calls_scipy(n for n in p.nodes if n.op in OPS) for p in programs)
    return shell.source([shell.function(doc, lines)], header, special=special)


class _Writer(Writer):
    """NumPy's words for the parts of loops: numbers that are kept are NumPy's, so that their arithmetic is IEEE's."""

    zero = "np.float64(0.0)"

    def __init__(self, shell: Shell) -> None:
        self.program, self.names, self.sizes = shell.program, shell.names, {}
        self.names.taken.update(("list", "reversed"))

    def spelling(self, program: Program, position: int) -> tuple[str, int, tuple[int, ...]]:
        return spelling(program, position, {})

    def literal(self, value: object) -> str:
        return number_literal(value)

    def counted(self, text: str) -> str:
        return f"np.float64({text})"

    def kept(self, node: Node, text: str) -> str:
        if node.op != "const":
            return text
        if len(node.shape) > 1:
            raise beyond("a constant matrix")
        return f"list(np.array({text}))" if node.shape else f"np.{dtype_text(node.dtype)}({text})"


def _programs(program: Program) -> Iterator[Program]:
    """A program and its loops' bodies."""
    yield program
    for node in program.nodes:
        if node.op == "loop":
            yield from _programs(node.params.body)


def _listed(shape: tuple[int, ...], argument: str) -> str:
    """The statement that makes an array a list of its numbers or rows."""
    if len(shape) > 2:
        raise beyond(f"an argument with {len(shape)} axes")
    return f"{argument} = " + (f"list({argument})" if len(shape) == 1 else f"[list(row) for row in {argument}]")
