"""What the conditions decided so far imply for others: `x < 1` for `x < 2`, `x > y` for `y < x`.

Assumes conditions over numbers in one table. Guarantees only implications that hold for every argument, NaN included: of an
order that does not hold nothing is known but that. Refuses to guess: what simple bounds do not decide is open.
"""

import math
from dataclasses import dataclass

import numpy as np

from symdiff.ir.node import Node
from symdiff.simplification.interning import Values

_LESS, _EQUAL, _GREATER, _UNORDERED = 1, 2, 4, 8
_ANY = 15
_HOLDS = {
    "lt": _LESS,
    "le": _LESS | _EQUAL,
    "gt": _GREATER,
    "ge": _GREATER | _EQUAL,
    "eq": _EQUAL,
    "ne": _LESS | _GREATER | _UNORDERED,
}  # the relations of two numbers under which a comparison is true
_NOT_NEGATIVE = frozenset({"abs", "sqrt", "exp", "exp2", "cosh", "hypot"})


@dataclass(slots=True)
class Range:
    """Where a number lies unless it is NaN; `strict` bounds are not reached."""

    low: float = -math.inf
    high: float = math.inf
    low_strict: bool = False
    high_strict: bool = False


class Implications:
    """The conditions of one path, and what follows from them."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self._truths: dict[int, bool] = {}
        self._relations: dict[tuple[int, int], int] = {}
        self._ranges: dict[int, Range] = {}
        self._ordered: set[int] = set()  # numbers that are not NaN
        self._finite: set[int] = set()

    def known(self, number: int) -> bool | None:
        """The value of a condition, None where it is open."""
        found = self._truths.get(number)
        if found is not None:
            return found
        node = self.values.nodes[number]
        if node.op == "const":
            return bool(node.params)
        if node.op == "not":
            inside = self.known(node.operands[0])
            return None if inside is None else not inside
        if node.op in ("and", "or"):
            parts = [self.known(o) for o in node.operands]
            deciding = node.op == "or"
            return deciding if deciding in parts else None if None in parts else not deciding
        if node.op not in _HOLDS:
            return None
        relations = self._possible(*node.operands)
        if not relations & _HOLDS[node.op]:
            return False
        return True if not relations & ~_HOLDS[node.op] else None

    def learn(self, number: int, value: bool) -> None:
        """Take a condition as true or false from here on."""
        self._truths[number] = value
        node = self.values.nodes[number]
        if node.op == "not":
            self.learn(node.operands[0], not value)
        elif node.op == "isfinite" and value:
            self._ordered.add(node.operands[0])
            self._finite.add(node.operands[0])
        elif node.op in ("and", "or") and value == (node.op == "and"):
            for operand in node.operands:
                self.learn(operand, value)
        elif node.op in _HOLDS:
            holds = _HOLDS[node.op] if value else _ANY & ~_HOLDS[node.op]
            self._restrict(*node.operands, self._possible(*node.operands) & holds)

    def bounds(self, number: int) -> tuple[Range, bool, bool]:
        """Where a number lies, whether it is not NaN, and whether it is finite, as far as conditions tell."""
        return self._ranges.get(number) or Range(), number in self._ordered, number in self._finite

    def _possible(self, a: int, b: int) -> int:
        """The relations that a and b can have."""
        relations = _mirrored(self._relations.get((b, a), _ANY)) if a > b else self._relations.get((a, b), _ANY)
        if a == b:
            relations &= _EQUAL | _UNORDERED
        if self._is_ordered(a) and self._is_ordered(b):
            relations &= ~_UNORDERED
        first, second = self._range(a, b), self._range(b, a)
        if first.low >= second.high:
            relations &= ~_LESS
        if first.high <= second.low:
            relations &= ~_GREATER
        for low, high in ((first, second), (second, first)):
            if low.high < high.low or (low.high == high.low and (low.high_strict or high.low_strict)):
                relations &= ~_EQUAL
        return relations

    def _restrict(self, a: int, b: int, relations: int) -> None:
        self._relations[min(a, b), max(a, b)] = _mirrored(relations) if a > b else relations
        if not relations & _UNORDERED:
            self._ordered |= {a, b}
        strict = not relations & _EQUAL
        if not relations & _GREATER:
            self._bound(a, b, strict)
        if not relations & _LESS:
            self._bound(b, a, strict)

    def _bound(self, small: int, large: int, strict: bool) -> None:
        """`small <= large` unless one is NaN."""
        below, above = self._range(small, large), self._range(large, small)
        if self._is_ordered(large) and (above.high, not (strict or above.high_strict)) < (below.high, not below.high_strict):
            below.high, below.high_strict = above.high, strict or above.high_strict
            self._ranges[small] = below
        if self._is_ordered(small) and (-below.low, not (strict or below.low_strict)) < (-above.low, not above.low_strict):
            above.low, above.low_strict = below.low, strict or below.low_strict
            self._ranges[large] = above

    def _is_ordered(self, number: int) -> bool:
        value = _number(self.values.nodes[number])
        return number in self._ordered or (value is not None and not math.isnan(value))

    def _range(self, number: int, other: int) -> Range:
        """The range of a number, a constant as it is compared with `other`."""
        node = self.values.nodes[number]
        value = _number(node)
        if value is not None and not math.isnan(value):
            if self.values.nodes[other].dtype in ("f", "F") and node.dtype is None:
                with np.errstate(over="ignore"):
                    value = float(np.float32(value))
            return Range(value, value)
        found = self._ranges.get(number)
        if found is None:
            return Range(0.0) if node.op in _NOT_NEGATIVE and node.dtype in ("f", "d") else Range()
        return found


def _number(node: Node) -> float | None:
    """A constant real number."""
    value = node.params if node.op == "const" and node.shape == () else None
    try:
        return float(value) if isinstance(value, (bool, int, float)) else None
    except OverflowError:
        return None


def _mirrored(relations: int) -> int:
    """The relations of (b, a) from those of (a, b)."""
    kept = relations & (_EQUAL | _UNORDERED)
    return kept | (_GREATER if relations & _LESS else 0) | (_LESS if relations & _GREATER else 0)
