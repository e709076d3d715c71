"""Where the cells of a value lie in the array that holds them: offsets and strides that are known ahead.

Assumes that arrays which hold values are contiguous. Guarantees layouts of views down to that array, and that axes which
lie in one line for all operands are one. A view that NumPy itself copies has no layout.
"""

import math
from typing import NamedTuple

from symdiff.ir.node import Node
from symdiff.lowering.program import is_view_step
from symdiff.vocabulary.heads import Shape, Slice

Strides = tuple[int, ...]


class Layout(NamedTuple):
    """A view of the array of node `base`: the cell where it begins and its strides, counted in cells of that array."""

    base: int
    offset: int
    strides: Strides


def contiguous_strides(shape: Shape) -> Strides:
    """The strides of an array in C order."""
    found = []
    step = 1
    for n in reversed(shape):
        found.append(step)
        step *= n
    return tuple(reversed(found))


def layout(nodes: list[Node], value: int) -> Layout | None:
    """The layout of a value; None for a view that needs a copy."""
    node = nodes[value]
    if not is_view_step(node):
        return Layout(value, 0, contiguous_strides(node.shape))
    inner = layout(nodes, node.operands[0])
    return None if inner is None else viewed(node, nodes[node.operands[0]].shape, inner)


def viewed(node: Node, shape: Shape, inner: Layout) -> Layout | None:
    """The layout of a view of a layout with a shape; None for a view that needs a copy."""
    if node.op == "getitem":
        return region(inner, node.params["key"])
    if node.op == "transpose":
        return inner._replace(strides=tuple(inner.strides[a] for a in node.params["axes"]))
    if node.op == "broadcast_to":
        return inner._replace(strides=broadcast_strides(inner.strides, shape, node.shape))
    if node.op == "diagonal":
        return inner._replace(strides=(*inner.strides[:-2], inner.strides[-2] + inner.strides[-1]))
    strides = _reshaped(shape, inner.strides, node.shape) if node.op == "reshape" else None
    return None if strides is None else inner._replace(strides=strides)


def region(whole: Layout, key: tuple[Slice, ...]) -> Layout:
    """The layout of a region of a view."""
    offset = whole.offset + sum(start * s for (start, _, _), s in zip(key, whole.strides, strict=True))
    return Layout(whole.base, offset, tuple(s * step for (_, _, step), s in zip(key, whole.strides, strict=True)))


def broadcast_strides(strides: Strides, shape: Shape, domain: Shape) -> Strides:
    """The strides of an operand along the axes of a domain, 0 along those that it lacks or repeats."""
    lacking = len(domain) - len(shape)
    own = (0 if n == 1 and d != 1 else s for s, n, d in zip(strides, shape, domain[lacking:], strict=True))
    return (0,) * lacking + tuple(own)


def _reshaped(shape: Shape, strides: Strides, wanted: Shape) -> Strides | None:
    """The strides under another shape: axes are taken together until their cells are equally many on both sides."""
    if 0 in wanted:
        return contiguous_strides(wanted)
    old = [(n, s) for n, s in zip(shape, strides, strict=True) if n != 1]
    found: list[int] = []
    place = at = 0
    while at < len(wanted):
        if wanted[at] == 1 or place == len(old):
            found.append(1)
            at += 1
            continue
        first, n, own, upto = place, old[place][0], wanted[at], at + 1
        while n != own:
            if n < own:
                place += 1
                n *= old[place][0]
            else:
                own *= wanted[upto]
                upto += 1
        if any(old[k][1] != old[k + 1][0] * old[k + 1][1] for k in range(first, place)):
            return None
        found += [s * old[place][1] for s in contiguous_strides(wanted[at:upto])]
        place += 1
        at = upto
    return tuple(found)


def merge_domain_axes(domain: Shape, strides: list[Strides]) -> tuple[Shape, list[Strides]]:
    """A domain with its axes in the order of memory, the nearest cells last, and fewer of them: those of one cell go, and
    neighbours over which every operand runs in one line become one.
    """
    order = sorted((a for a, n in enumerate(domain) if n > 1), key=lambda a: -sum(abs(s[a]) for s in strides))
    groups: list[list[int]] = []
    for axis in order:
        if groups and all(s[groups[-1][-1]] == domain[axis] * s[axis] for s in strides):
            groups[-1].append(axis)
        else:
            groups.append([axis])
    groups = groups or [[len(domain) - 1]]
    sizes = tuple(math.prod(domain[a] for a in group) for group in groups)
    return sizes, [tuple(s[group[-1]] for group in groups) for s in strides]
