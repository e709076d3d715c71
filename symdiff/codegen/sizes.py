"""Text for any size: what the arguments tell, with a check for each condition, and the names that sizes cannot have."""

import builtins
import keyword
from collections.abc import Callable, Sequence
from typing import NamedTuple

from symdiff.vocabulary.extents import Extent, Shape, sizes_in, spaced_extent

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

    def check(test: str, text: str) -> None:
        lines.extend([f"if {test}:", f'{INDENT}raise ValueError(f"{text}")'])

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
            check(f"{cells(name, axis)} != {spaced_extent(n)}", f"{has}, {spaced_extent(n)} expected, where {others}")
    for size in sizes_in(tuple(n for _, _, n in axes)):
        shown = f"{size.name} = {{{size.name}}} in {teller[size.name][0]}"
        if size.least > 0:
            check(f"{size.name} < {size.least}", f"{shown}, {size.least} or more expected")
        if size.most is not None:
            check(f"{size.name} > {size.most}", f"{shown}, {size.most} or less expected")
    return lines


NAMES_OF_FILES = {*_TAKEN, *dir(builtins), *keyword.kwlist}
