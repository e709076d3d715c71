"""What the conditions decided so far imply for others, and for the values of a run: `x < 1` for `x < 2`, `x > y` for `y < x`.

Assumes conditions over numbers in one table. Guarantees only implications that hold for every argument, NaN included: of an
order that does not hold nothing is known but that. Refuses to guess: what simple bounds do not decide is open.
"""

import math
from typing import Any

import numpy as np

from symdiff.ir.node import Node
from symdiff.rulebooks.book import operation_facts
from symdiff.simplification.facts import Facts
from symdiff.simplification.interning import Values
from symdiff.simplification.intervals import UNKNOWN, Fact, in_precision, real_number
from symdiff.vocabulary.walking import worked_out

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


class Conditions(Facts):
    """The conditions of one path, and what follows from them; the values are those of a table, by their numbers."""

    strict = True

    def __init__(self, values: Values) -> None:
        super().__init__()
        self.values = values
        self._truths: dict[int, bool] = {}
        self._relations: dict[tuple[int, int], int] = {}
        self._learned: dict[int, Fact] = {}

    def node(self, number: Any) -> Node:
        """The operation that computes a value."""
        return self.values.nodes[number]

    def number(self, number: Any) -> int:
        """A value's number."""
        return number  # type: ignore[no-any-return]

    def _known(self, number: Any) -> Fact:
        found = super()._known(number)
        return found.met(self._learned[number]) if number in self._learned else found

    def known(self, number: int) -> bool | None:
        """The value of a condition, None where it is open."""
        found: dict[int, bool | None] = {}

        def below(n: int) -> tuple[int, ...]:
            return () if n in self._truths or not self._is_joined(n) else self.values.nodes[n].operands

        return worked_out(number, found, below, lambda n: self._told(n, found))  # type: ignore[no-any-return]

    def _is_joined(self, number: int) -> bool:
        return self.values.nodes[number].op in ("not", "and", "or")

    def _told(self, number: int, parts_known: dict[int, bool | None]) -> bool | None:
        """The value of a condition whose parts are known as far as they are."""
        found = self._truths.get(number)
        if found is not None:
            return found
        node = self.values.nodes[number]
        if node.op == "const":
            return bool(node.params)
        parts = [parts_known[o] for o in node.operands] if self._is_joined(number) else []
        if node.op == "not":
            return None if parts[0] is None else not parts[0]
        if parts:
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
        waiting = [(number, value)]
        while waiting:
            number, value = waiting.pop()
            self._truths[number] = value
            node = self.values.nodes[number]
            if node.op == "not":
                waiting.append((node.operands[0], not value))
            elif node.op == "isfinite" and value:
                self._narrow(node.operands[0], Fact(nan=False, finite=True))
            elif node.op in ("and", "or") and value == (node.op == "and"):
                waiting += [(operand, value) for operand in reversed(node.operands)]
            elif node.op in _HOLDS:
                holds = _HOLDS[node.op] if value else _ANY & ~_HOLDS[node.op]
                self._restrict(*node.operands, self._possible(*node.operands) & holds)

    def _possible(self, a: int, b: int) -> int:
        """The relations that a and b can have."""
        relations = self._relations.get((a, b), _ANY)
        if a == b:
            relations &= _EQUAL | _UNORDERED
        first, second = self._range(a, b), self._range(b, a)
        if not (first.nan or second.nan):
            relations &= ~_UNORDERED
        if first.low >= second.high:
            relations &= ~_LESS
        if first.high <= second.low:
            relations &= ~_GREATER
        for low, high in ((first, second), (second, first)):
            if low.high < high.low or (low.high == high.low and (low.high_open or high.low_open)):
                relations &= ~_EQUAL
        return relations

    def _restrict(self, a: int, b: int, relations: int) -> None:
        self._relations |= {(b, a): _mirrored(relations), (a, b): relations}
        if not relations & _UNORDERED:
            self._narrow(a, Fact(nan=False))
            self._narrow(b, Fact(nan=False))
        strict = not relations & _EQUAL
        if not relations & _GREATER:
            self._bound(a, b, strict)
        if not relations & _LESS:
            self._bound(b, a, strict)

    def _bound(self, small: int, large: int, strict: bool) -> None:
        """`small <= large` unless one is NaN."""
        below, above = self._range(small, large), self._range(large, small)
        if not above.nan:
            self._narrow(small, Fact(high=above.high, high_open=strict or above.high_open))
        if not below.nan:
            self._narrow(large, Fact(low=below.low, low_open=strict or below.low_open))

    def _narrow(self, number: int, fact: Fact) -> None:
        """Note what a condition tells of a value, and forget what was worked out for those computed of it."""
        if self.values.nodes[number].op != "const":
            self._learned[number] = self._learned.get(number, UNKNOWN).met(fact)
            self._facts = {n: found for n, found in self._facts.items() if n < number}

    def _range(self, number: int, other: int) -> Fact:
        """What is known of a number itself, a constant as it is compared with `other`."""
        node = self.values.nodes[number]
        value = real_number(node)
        if value is not None and not math.isnan(value):
            if self.values.nodes[other].dtype in ("f", "F") and node.dtype is None:
                with np.errstate(over="ignore"):
                    value = float(np.float32(value))
            return Fact(value, value, nan=False)
        found = self._learned.get(number, UNKNOWN)
        column = operation_facts().get(node.op) if node.dtype in ("f", "d") else None
        return found if column is None else found.met(in_precision(Fact(column.low, column.high), node.dtype))


def _mirrored(relations: int) -> int:
    """The relations of (b, a) from those of (a, b)."""
    kept = relations & (_EQUAL | _UNORDERED)
    return kept | (_GREATER if relations & _LESS else 0) | (_LESS if relations & _GREATER else 0)
