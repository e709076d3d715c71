"""Text for any size: what the arguments tell, and the same text from several examples of a graph.

Assumes graphs with named sizes. Guarantees that text which is made at several sizes, each time with names in place of
numbers, is the same: a number that is left somewhere makes two of them differ. Refuses, with `ExportError`, such texts.
"""

import builtins
import keyword
from collections.abc import Callable, Sequence
from typing import NamedTuple

from symdiff.codegen.array_text import LOCALS
from symdiff.codegen.source import Source
from symdiff.errors import BackendError, ExportError
from symdiff.ir.generalising import counts_in, example_graph, first_sizes
from symdiff.ir.graph import Graph
from symdiff.ir.joining import renamed_graph
from symdiff.vocabulary.extents import Extent, Shape, sizes_in, spaced_extent

EXAMPLES = 3
INDENT = "    "
_TAKEN = (
    "np special threading out result found work start stop rows point Any ArrayLike NDArray Result MISS ndarray _local _work "
    "_array _check_out _apart _points _checks array cmath math"
).split()  # names of a file's own


class Sizes(NamedTuple):
    """What a function for any size is told by its arguments: their shapes, with extents, and the sizes that it computes with,
    which are the program's inputs after the arguments.
    """

    shapes: tuple[Shape, ...]
    counts: tuple[Extent, ...] = ()


def shape_cells(name: str, axis: int) -> str:
    """The number of an array's cells along an axis."""
    return f"{name}.shape[{axis}]"


def told_sizes(arguments: Sequence[tuple[str, Shape]], cells: Callable[[str, int], str] = shape_cells) -> list[str]:
    """The statements that work out the sizes which the shapes of arguments tell, with a check for each other axis that speaks
    of them, and each bound; `cells` is the number of an argument's cells along an axis.
    """
    axes = [(name, axis, n) for name, shape in arguments for axis, n in enumerate(shape) if isinstance(n, Extent)]
    lines: list[str] = []
    teller: dict[str, tuple[str, int]] = {}
    telling: set[tuple[str, int]] = set()
    for _ in axes:
        for name, axis, n in axes:
            open_ = [(size, times) for size, times in n.terms if size.name not in teller]
            if len(open_) != 1:
                continue
            (size, times), = open_  # fmt: skip
            rest = n - Extent(0, ((size, times),))
            found = cells(name, axis)
            found += "" if rest == 0 else f" - ({spaced_extent(rest)})" if isinstance(rest, Extent) else f" - {rest}"
            found = found.replace("- -", "+ ")
            lines.append(f"{size.name} = {found}" if times == 1 else f"{size.name} = ({found})//{times}")
            teller[size.name] = (name, axis)
            telling |= {(name, axis)} if times == 1 else set()
    for name, axis, n in axes:
        if (name, axis) not in telling:
            others = ", ".join(f"{size.name} = {{{size.name}}} in {teller[size.name][0]}" for size, _ in n.terms)
            has = f"{name} has {{{cells(name, axis)}}} cells along axis {axis}"
            text = f"{has}, {spaced_extent(n)} expected, where {others}"
            lines += [f"if {cells(name, axis)} != {spaced_extent(n)}:", f'{INDENT}raise ValueError(f"{text}")']
    for size in sizes_in(tuple(n for _, _, n in axes)):
        shown = f"{size.name} = {{{size.name}}} in {teller[size.name][0]}"
        if size.least > 0:
            text = f"{shown}, {size.least} or more expected"
            lines += [f"if {size.name} < {size.least}:", f'{INDENT}raise ValueError(f"{text}")']
        if size.most is not None:
            text = f"{shown}, {size.most} or less expected"
            lines += [f"if {size.name} > {size.most}:", f'{INDENT}raise ValueError(f"{text}")']
    return lines


def with_free_sizes(graph: Graph, name: str) -> Graph | None:
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


def emitted_for_sizes(graph: Graph, checks: Graph | None, written: Callable[[Graph, Graph | None, Sizes], Source]) -> Source:
    """The text for any size that is `written` for each example of a graph and of its `checks`.

    Raises `BackendError` for loops, and `ExportError` where the text is not the same for all.
    """
    if any(b.op == "loop" for b in graph.bindings):
        raise BackendError(
            f"{graph.origin}: {graph.name} has loops whose rounds need each other: with named sizes these are for the targets "
            "python and c"
        )
    counts = counts_in(*([graph] if checks is None else [checks, graph]))
    told = Sizes(tuple(leaf.shape for leaf in graph.inputs), counts)
    sources = []
    for turn in range(EXAMPLES):
        at = first_sizes(graph, turn)
        also = None if checks is None else example_graph(checks, at, counts)
        sources.append(written(example_graph(graph, at, counts), also, told))
    first, *others = sources
    for other in others:
        for line, found in zip(first.text.splitlines(), other.text.splitlines(), strict=False):
            if line != found:
                raise ExportError(
                    f"{first.entry}: no text for any size: {line.strip()!r} at one is {found.strip()!r} at another"
                )
        if first.text != other.text:
            raise ExportError(f"{first.entry}: no text for any size: it is longer at one than at another")
    return first
