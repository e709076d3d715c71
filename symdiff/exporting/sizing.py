"""Files for any size: what a graph with named sizes is before text is made of it, and what must hold for the text.

Guarantees for NumPy that the text is the same when it is made at several sizes, each time with names in place of numbers: a
number that is left somewhere makes two of them differ. Refuses, with `ExportError`, such texts, and targets without sizes.
"""

import builtins
import keyword
from collections.abc import Iterable, Iterator

from symdiff.api.sizing import FIRST
from symdiff.codegen.array_text import LOCALS
from symdiff.codegen.shells import Sizes
from symdiff.codegen.source import Source
from symdiff.errors import BackendError, ExportError
from symdiff.ir.generalising import counts_in, example_graph
from symdiff.ir.graph import Graph
from symdiff.ir.joining import renamed_graph
from symdiff.vocabulary.extents import sizes_in

_TAKEN = (
    "np special threading out result found work start stop rows point Any ArrayLike NDArray Result MISS ndarray _local _work "
    "_array _check_out _apart _points _checks array cmath math"
).split()  # names of a file's own


def refuse_sizes(target: str, points: bool, where: str) -> None:
    """Raise where a file cannot be for any size."""
    if points:
        raise ExportError(f"{where}: a vmap is exported for numbers in place of named sizes; its points may be any number")
    if target not in ("numpy", "python", "c"):
        raise ExportError(f"{where}: target {target!r} has no named sizes yet; numpy, python and c have them")


def sized_graph(graph: Graph, name: str) -> Graph | None:
    """The graph, whose sizes have no name that a file has for something else; None where it has no named sizes."""
    sizes = sizes_in(tuple(leaf.shape for leaf in graph.inputs))
    if not sizes:
        return None
    own = {leaf.name for leaf in graph.inputs} | {o.name for o in graph.outputs} | {name, f"{name}_steps"}
    taken = (
        own
        | {word for b in graph.bindings for word in LOCALS.get(b.op, "").split()}
        | {*_TAKEN, *dir(builtins), *keyword.kwlist}
    )
    return renamed_graph(graph, {size.name: f"{size.name}_size" for size in sizes if size.name in taken})


def shown_bounds(graph: Graph | None) -> str:
    """The bounds of a graph's sizes, as a header has them."""
    return "" if graph is None else ", ".join(size.bounds() for size in sizes_in(tuple(leaf.shape for leaf in graph.inputs)))


def arguments_told(graph: Graph, checks: Graph | None) -> Sizes:
    """What the arguments of a graph tell, and the sizes that it computes with."""
    counts = counts_in(*([graph] if checks is None else [checks, graph]))
    return Sizes(tuple(leaf.shape for leaf in graph.inputs), counts)


def examples_of(graph: Graph, checks: Graph | None, told: Sizes) -> Iterator[tuple[Graph, Graph | None]]:
    """A graph, and that of its checks, at several sizes."""
    if any(b.op == "loop" for b in graph.bindings):
        raise BackendError(
            f"{graph.origin}: {graph.name} has loops whose rounds need each other: with named sizes these are for the targets "
            "python and c"
        )
    sizes = sizes_in(told.shapes)
    for turn in range(3):
        numbers = [n + 2 * turn for n in FIRST[: len(sizes)]]
        at = {size.name: n for size, n in zip(sizes, numbers[:: -1 if turn == 1 else 1], strict=True)}
        yield example_graph(graph, at, told.counts), None if checks is None else example_graph(checks, at, told.counts)


def one_text(sources: Iterable[Source]) -> Source:
    """The first of several sources. Raises `ExportError` where another has another text."""
    first, *others = sources
    for other in others:
        for line, found in zip(first.text.splitlines(), other.text.splitlines(), strict=False):
            if line != found:
                raise ExportError(
                    f"{first.entry}: no file for any size: {line.strip()!r} at one is {found.strip()!r} at another"
                )
        if first.text != other.text:
            raise ExportError(f"{first.entry}: no file for any size: its text is longer at one than at another")
    return first
