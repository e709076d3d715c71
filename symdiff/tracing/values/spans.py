"""Slices whose ends the rounds of a loop tell: the cell at which they begin, and how many they are.

Assumes ends that are integers of a symbolic round. Guarantees NumPy's own meaning: negative ends are counted from the end,
those beyond an axis are cut off. Integers are compared by what they are made of, through the rounds of enclosing loops.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from symdiff.ir.building import Builder
from symdiff.ir.node import Atom
from symdiff.simplification.intervals import whole_ends
from symdiff.tracing.values.integers import Integer, traced_range
from symdiff.tracing.values.tracer import Tracer
from symdiff.vocabulary.traits import operations

_STEPS = 256  # operations that are looked through
_OVERWRITING, _GATHERING = operations("overwrites"), operations("gathers")


class Span(NamedTuple):
    """Cells of an axis of `size`."""

    start: Any  # numbers, or traced integers
    length: Any
    size: int

    def holds(self) -> Any:
        """Which cells of the axis are meant; None where all are."""
        places = np.arange(float(self.size))
        stop = self.start + self.length
        low = None if _is_known(self.start, 0) else np.greater_equal(places, self.start)
        high = None if _is_known(stop, self.size) else np.less(places, stop)
        return high if low is None else low if high is None else np.logical_and(low, high)

    def turned(self) -> "Span":
        """The same cells, counted from the end."""
        return Span(self.size - self.start - self.length, self.length, self.size)

    def within(self, part: slice) -> "Span":
        """Cells of these."""
        inner = span_of(part, self.length, self.size)
        return Span(self.start + inner.start, inner.length, self.size)


def _is_known(value: Any, number: int) -> bool:
    return difference(value, number) == 0


def is_span(part: Any) -> bool:
    """Whether an index is a slice, forwards, of which a symbolic round tells an end."""
    if type(part) is not slice or not (part.step is None or (type(part.step) is int and part.step in (1, -1))):
        return False
    ends = [end for end in (part.start, part.stop) if isinstance(end, Integer)]
    return bool(ends) and all(end.builder.path is not None and end.builder.path.is_round and not end.shape for end in ends)


def span_of(part: slice, n: Any, size: int) -> Span:
    """The cells of a slice with step 1, among `n` of an axis of `size`."""
    start, stop = (_end(end, n, default) for end, default in ((part.start, 0), (part.stop, n)))
    length = stop - start
    known = difference(stop, start)
    if known is not None:
        return Span(start, max(known, 0), size)
    return Span(start, length if reach(length)[0] >= 0 else np.maximum(length, 0), size)


def backward_span(part: slice, n: int) -> Span:
    """The cells of a slice with step -1, in their own order."""
    last = n - 1 if part.start is None else _end(part.start, n, n, -1)
    first = -1 if part.stop is None else _end(part.stop, n, -1, -1)
    return span_of(slice(first + 1, last + 1), n, n)


def _end(end: Any, n: Any, default: Any, least: int = 0) -> Any:
    """The end of a slice, from `least` to `n` (or the last cell, backwards)."""
    if end is None:
        return default
    most = n + least
    if not isinstance(end, Tracer) and not isinstance(n, Tracer):
        return max(end + n, least) if end < 0 else min(end, most)
    low, high = reach(end)
    found = end
    if low < 0:
        found = np.where(np.less(end, 0), end + n, end)
        if reach(n)[0] + low < least:
            found = np.maximum(found, least)
    gap = difference(most, end)
    if (gap is None or gap < 0) and high > reach(most)[0]:
        found = np.minimum(found, most)
    return Integer.of(found)


def reach(value: Any) -> tuple[float, float]:
    """The least and the largest that an integer may be."""
    if not isinstance(value, Tracer):
        return float(value), float(value)
    return whole_ends(traced_range(value))


def difference(a: Any, b: Any) -> int | None:
    """a - b, where it is one number; None where it is not known to be."""
    low, high = gap(a, b)
    return int(low) if low == high else None


def gap(a: Any, b: Any, reached: Callable[[Any], tuple[float, float]] = reach) -> tuple[float, float]:
    """The least and the largest that a - b may be, by what both are made of, and what these parts may be."""
    if not isinstance(a, Tracer) and not isinstance(b, Tracer):
        return a - b, a - b
    total, parts, low, high = 0, {}, 0.0, 0.0
    stack = [(v.builder, v.atom, s) if isinstance(v, Tracer) else (None, v, s) for v, s in ((a, 1), (b, -1))]
    for _ in range(_STEPS):
        if not stack:
            break
        builder, atom, times = stack.pop()
        if builder is None:
            total += int(atom) * times
        elif atom.op == "const":
            total += int(atom.params) * times
        elif atom.op in ("add", "sub", "neg", "cast") or atom.op == "reshape":
            signs = {"sub": (1, -1), "neg": (-1,)}.get(atom.op, (1, 1))
            stack += [(builder, o, times * s) for o, s in zip(atom.operands, signs, strict=False)]
        elif atom.op == "mul" and (found := [o for o in atom.operands if o.op == "const"]):
            other = atom.operands[0] if found[0] is atom.operands[1] else atom.operands[1]
            stack.append((builder, other, times * int(found[0].params)))
        elif (outer := _captured(builder, atom)) is not None:
            stack.append((outer.builder, outer.atom, times))
        elif builder.path is not None and atom in builder.path.moved:
            atom, ends = builder.path.moved[atom]
            stack.append((builder, atom, times))
            low, high = low + min(times * e for e in ends), high + max(times * e for e in ends)
        else:
            key = builder, builder.path.number(atom) if builder.path is not None else atom
            parts[key] = atom, parts[key][1] + times if key in parts else times
    low, high = low + total, high + total
    for (builder, _), (atom, times) in parts.items():
        if times:
            ends = [times * end for end in reached(Tracer(builder, atom))]
            low, high = low + min(ends), high + max(ends)
    return (-math.inf, math.inf) if stack else (low, high)


def moves(path: Any, found: Any, begin: Tracer, reached: Callable[[Any], tuple[float, float]], most: float) -> tuple[Any, Any]:
    """How far an integer, or the cells of an array of them, may be beyond what was there before, as far as they are no farther
    from that than `most`; and the least and the largest that the others may be.
    """
    builder, low, high, away = path.builder, 0.0, 0.0, (math.inf, -math.inf)

    def include(cells: Iterable[tuple[Any, Any]]) -> None:
        nonlocal low, high, away
        far, near = away, (0.0, 0.0)
        for cell, before in cells:
            ends = (math.inf, math.inf) if before is None else gap(cell, before, reached)
            if max(-ends[0], ends[1]) <= most:
                near = min(near[0], ends[0]), max(near[1], ends[1])
            else:
                ends = reached(cell)
                far = min(far[0], ends[0] + low), max(far[1], ends[1] + high)
        low, high, away = low + near[0], high + near[1], far

    if not begin.shape or not isinstance(found, Tracer) or found.builder is not builder:
        include([(found, None if begin.shape else begin)])
        return (low, high), away
    atom, first = found.atom, path.number(begin.atom)
    while path.number(atom) != first:
        if atom.op == "reshape":
            atom = atom.operands[0]
        elif atom.op in _OVERWRITING:
            include([_beside(path, atom.operands[-1], first)])
            atom = atom.operands[0]
        elif atom in path.moved:
            atom, ends = path.moved[atom]
            low, high = low + ends[0], high + ends[1]
        else:
            include(_beside(path, y, first) for y in (atom.operands if atom.op == "array" else [atom]))
            break
    return (low, high), away


def _beside(path: Any, value: Atom, array: int) -> tuple[Any, Any]:
    """A value beside a cell of an array, by its number, that it is computed of; None where there is none."""
    if value.op == "const":
        return int(value.params), None
    stack, seen = [value], set[Atom]()
    while stack:
        atom = stack.pop()
        if atom in seen or atom.op == "const":
            continue
        seen.add(atom)
        of = atom.operands[0] if atom.op == "item" or atom.op in _GATHERING else None
        while of is not None and (of.op == "reshape" or of.op in _OVERWRITING):
            of = of.operands[0]
        if of is not None and path.number(of) == array:
            return Tracer(path.builder, value), Tracer(path.builder, atom)
        stack += atom.operands
    return Tracer(path.builder, value), None


def _captured(builder: Builder, atom: Atom) -> Any:
    """What a symbol stands for in an enclosing run; None for others."""
    if atom.op != "input":
        return None
    return next((t for t, symbol in zip(builder.captured, builder.captures.values(), strict=True) if symbol is atom), None)
