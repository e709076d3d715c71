"""What a function and its derivative cost: operations counted on the shared Programs.

Assumes example arguments. Guarantees machine-independent figures: one operation is one of + - * / negation, comparison,
select or function call; an integer power counts its multiplications; folded constants count nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from symdiff.api.derivatives import Gradient, Jacobian, ValueAndGradient
from symdiff.api.functions import Function, Plain, costed
from symdiff.ir.branches import branches_of
from symdiff.ir.generalising import counts_in, example_graph, first_sizes
from symdiff.ir.graph import Graph
from symdiff.ir.joining import join_graphs
from symdiff.ir.node import has_loops
from symdiff.lowering.arrays.fusing import Fused
from symdiff.lowering.program import Program
from symdiff.pipeline import is_sized, plan_of, program_of
from symdiff.vocabulary.seams import Seam

charted = Seam("the bars of a cost")
_SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "neg": "neg"}


@dataclass(frozen=True, slots=True)
class Operations:
    """A count of operations, and how often each kind occurs, most frequent first.

    `memory` are the bytes of results and work arrays of a program of whole arrays, None for an unrolled one, which has
    its results only.
    """

    operations: int
    by_kind: dict[str, int]
    memory: int | None = None

    def __str__(self) -> str:
        kinds = ", ".join(f"{n!s} {_SIGNS.get(kind, kind)}" for kind, n in self.by_kind.items())
        text = f"{self.operations!s}" + (f" ({kinds})" if kinds else "")
        return text if self.memory is None else f"{text} in {self.memory!s} bytes"


@dataclass(frozen=True, slots=True)
class Cost:
    """Operations of the value alone, the derivative alone, both computed together, and the ratio both / value.

    `branches` tells what became of a branching function's paths. The conditions of a guarded path, and those of paths that
    raise, are computed in every call as well, where they share what they can with the value, and are not counted.
    """

    value: Operations
    derivative: Operations
    both: Operations
    branches: str = ""

    @property
    def ratio(self) -> float:
        """Operations of value and derivative together over those of the value (infinite for a free value)."""
        return self.both.operations / self.value.operations if self.value.operations else float("inf")

    def plot(self, ax: Any = None) -> Any:
        """Bars of the operations by their kinds, of the value, the derivative and both; returns matplotlib's Axes."""
        return charted(self, ax)

    def _repr_markdown_(self) -> str:
        counts = (("value", self.value), ("derivative", self.derivative), ("both", self.both))
        rows = [f"| {name} | {count.operations!s} | {str(count).partition(' (')[2].rstrip(')')} |" for name, count in counts]
        told = [f"ratio {self.ratio:.3g}", *([self.branches] if self.branches else [])]
        return "\n".join(["| operations of | | |", "|---|---:|---|", *rows, "", ", ".join(told)]).replace("*", r"\*")

    def __str__(self) -> str:
        lines = ["operations of", f"value       {self.value}", f"derivative  {self.derivative}", f"both        {self.both}"]
        paths = [f"branches    {self.branches}"] if self.branches else []
        return "\n".join([*lines, f"ratio       {self.ratio:.3g}", *paths])


def operation_cost(program: Program | Fused) -> Operations:
    """The count of a program."""
    memory = None
    if isinstance(program, Fused):
        plan = plan_of(program)
        memory = plan.output_bytes() + plan.work_bytes()
    return Operations(program.operations(), program.by_kind(), memory)


def cost(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Cost:
    """The cost of f and of its derivative by the first argument: the gradient, or the Jacobian where f is not scalar.

    `f` may be a transform of symdiff, whose own derivative kind and argnums count then.

    >>> print(cost(lambda x: x**3, 2.0))
    operations of
    value       2 (2 *)
    derivative  2 (2 *)
    both        3 (3 *)
    ratio       1.5
    """
    function = f if isinstance(f, Function) else Jacobian(f, 0)
    return cost_of(function, args, kwargs)


def _countable(graph: Graph) -> Graph:
    """The graph; an example of one with named sizes, whose counts are expressions of these."""
    if not is_sized(graph) or has_loops(graph.bindings):
        return graph
    return example_graph(graph, first_sizes(graph), counts_in(graph))


@costed.written
def cost_of(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Cost:
    """The cost of a transform at example arguments."""
    inner = getattr(function, "inner", function)
    if inner is not function:
        args = function.point_arguments(args)[0]
    args = inner.own_arguments(args, kwargs)
    options: Any = {name: getattr(inner, name) for name in ("rules", "scalarize", "paths", "loops", "backend")}
    value = Plain(inner.f, **options).graph(*args, **kwargs)
    both = None
    if isinstance(inner, ValueAndGradient):
        both = inner.graph(*args, **kwargs)
        inner = Gradient(inner.f, inner.argnums, exact=inner.options.exact, fastmath=inner.options.fastmath, **options)
    derivative = inner.graph(*args, **kwargs)
    graphs = value, derivative, both or join_graphs(value, derivative)
    counts = [operation_cost(program_of(_countable(graph), inner.options)) for graph in graphs]
    return Cost(*counts, str(branches_of(value) or ""))
