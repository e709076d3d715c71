"""Where cells of arrays may be other than zero: between two places along each axis, which the numbers of rounds and sizes tell.

A part of a line or of a triangle is an array of the full size that is zero outside; sums over it, and what is added from it,
need no more than what lies inside. Assumes values of a nest. Guarantees places within the axes. That zero times any number is
zero holds in derivatives alone: products that the user wrote are not zero where the other factor is infinite or NaN.
"""

from collections.abc import Sequence
from typing import Any

from symdiff.codegen.nest_words import Words
from symdiff.ir.node import Node
from symdiff.vocabulary.extents import Count, Shape
from symdiff.vocabulary.ops import OPS
from symdiff.vocabulary.traits import operations

Span = tuple[Count, Count]  # from the first place to that behind the last one
Spans = tuple[Span, ...]  # along each axis
_OTHERWISE = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}
_TURNED = {"lt": "gt", "gt": "lt", "ge": "le", "le": "ge"}
_KEEPING = operations("linear") & OPS.keys() | {"or", "mul"}  # zero where all operands are


class Spanning:
    """The spans of a nest's values, by positions; `given` are those of inputs, if any is known."""

    def __init__(self, values: Any, given: Sequence[Spans | None]) -> None:
        self.values = values
        self.words: Words = values.words
        self.given = given
        self.known: list[Spans] = []

    def of(self, position: int) -> Spans:
        """The span along each axis of a value."""
        for node in self.values.program.nodes[len(self.known) : position + 1]:
            self.known.append(self._found(node) if node.shape else ())
        return self.known[position]

    def _node(self, position: int) -> Node:
        found: Node = self.values.program.nodes[position]
        return found

    def _found(self, node: Node) -> Spans:
        op, operands, shape = node.op, node.operands, node.shape
        whole = whole_spans(shape)
        if op == "input":
            return (self.given[node.params[0]] if node.params[1] is None and self.given else None) or whole
        if op in _OTHERWISE:
            return self._compared(op, node)
        if op == "not":
            return self._false(operands[0], shape)
        if op == "and" or (op in ("mul", "div") and not node.primal):
            return self._inside([self._spread(o, shape) for o in operands[: 1 if op == "div" else 2]])
        if op == "select":
            asked, *chosen = operands
            ways = [self._spread(asked, shape), self._spread(asked, shape, self._false(asked, self._node(asked).shape))]
            kept = [
                self._inside([way, self._spread(o, shape)]) for way, o in zip(ways, chosen, strict=True) if not self._is_zero(o)
            ]
            return self._around(kept, shape)
        if op in _KEEPING:
            return self._around([self._spread(o, shape) for o in operands if not self._is_zero(o)], shape)
        if op == "broadcast_to":
            return self._spread(operands[0], shape)
        if op == "transpose":
            return tuple(self.of(operands[0])[axis] for axis in node.params["axes"])
        if op == "sum":
            return tuple(span for axis, span in enumerate(self.of(operands[0])) if axis not in node.params["axes"])
        if op == "reshape":
            return self._reshaped(operands[0], shape)
        return self.of_product(node) if op == "matmul" else whole

    def of_product(self, node: Node) -> Spans:
        """The spans of a product of two arrays."""
        first, second = node.operands
        if node.primal or not len(self._node(first).shape) == len(self._node(second).shape) == 2:
            return whole_spans(node.shape)
        return self.of(first)[0], self.of(second)[1]

    def of_terms(self, node: Node) -> Spans:
        """Those of the terms that a product of two arrays sums up."""
        first, second = node.operands
        rows = 0 if len(self._node(second).shape) == 1 else -2
        both = [(self.of(first)[-1],), (self.of(second)[rows],)]
        return self._around(both, self._node(first).shape[-1:]) if node.primal else self._inside(both)

    def _is_zero(self, position: int) -> bool:
        node = self._node(position)
        return node.op == "const" and not node.shape and node.params == 0

    def _spread(self, position: int, shape: Shape, spans: Spans | None = None) -> Spans:
        """The spans of an operand, or others of its shape, over the shape that it is spread to."""
        own, whole = self._node(position).shape, whole_spans(shape)
        lead = len(shape) - len(own)
        rows = zip(own, self.of(position) if spans is None else spans, whole[lead:], strict=True)
        return (*whole[:lead], *(span if n == full[1] else full for n, span, full in rows))

    def _reshaped(self, position: int, shape: Shape) -> Spans:
        """Those of an array with axes of one cell more or less."""
        own, spans = self._node(position).shape, self.of(position)
        if [n for n in own if n != 1] != [n for n in shape if n != 1]:
            return whole_spans(shape)
        rest = iter([span for n, span in zip(own, spans, strict=True) if n != 1])
        return tuple((0, 1) if n == 1 else next(rest) for n in shape)

    def _false(self, position: int, shape: Shape) -> Spans:
        """Where a truth is false."""
        node = self._node(position)
        if node.op == "not":
            return self.of(node.operands[0])
        return self._compared(_OTHERWISE[node.op], node) if node.op in _OTHERWISE else whole_spans(shape)

    def _compared(self, op: str, node: Node) -> Spans:
        """Where whole numbers, of which the places along one axis are the distances, compare so."""
        shape, whole = node.shape, whole_spans(node.shape)
        lines = [self.values.line_of(o) for o in node.operands]
        if None in lines:
            return whole
        steps = [0] * len(shape)
        for sign, o, (_, own) in zip((1, -1), node.operands, lines, strict=True):
            many = self._node(o).shape
            for axis, (n, step) in enumerate(zip(many, own, strict=True), len(shape) - len(many)):
                steps[axis] += sign * step if n != 1 else 0
        moving = [axis for axis, step in enumerate(steps) if step]
        if len(moving) != 1 or abs(steps[moving[0]]) != 1:
            return whole
        (axis,) = moving
        before = lines[1][0] - lines[0][0]  # the place where they are equal
        if steps[axis] < 0:
            op, before = _TURNED[op], -before
        place = self._placed(before + (op in ("gt", "le")), shape[axis])
        if place is None:
            return whole
        span = (0, place) if op in ("lt", "le") else (place, shape[axis])
        return (*whole[:axis], span, *whole[axis + 1 :])

    def _placed(self, place: Count, size: Count) -> Count | None:
        """A place that is known to be one, or that behind the last one."""
        return place if self.words.within(place, size + 1) and not self.words.is_varied(place) else None

    def _inside(self, many: Sequence[Spans]) -> Spans:
        """What lies in all of these, or a little more."""
        rows = zip(*many, strict=True)
        return tuple((self._more([a for a, _ in spans]), self._less([b for _, b in spans])) for spans in rows)

    def _around(self, many: Sequence[Spans], shape: Shape) -> Spans:
        """What lies in one of these, or between them."""
        rows = zip(shape, *many, strict=True)
        found = ((self._less([a for a, _ in spans], 0), self._more([b for _, b in spans], n)) for n, *spans in rows)
        return tuple(found) if many else tuple((0, 0) for _ in shape)

    def _more(self, places: Sequence[Count], unknown: Count | None = None) -> Count:
        """The largest, `unknown` where it is not known; without that, one of them."""
        found, *others = places
        for place in others:
            if self.words.is_not_negative(place - found):
                found = place
            elif not self.words.is_not_negative(found - place) and unknown is not None:
                return unknown
        return found

    def _less(self, places: Sequence[Count], unknown: Count | None = None) -> Count:
        """The smallest, likewise."""
        return -self._more([-place for place in places], None if unknown is None else -unknown)


def whole_spans(shape: Shape) -> Spans:
    """Those of an array of which nothing is known."""
    return tuple((0, n) for n in shape)
