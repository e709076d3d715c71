"""What rounds compute of data alone, worked out when their loop is bound: places, conditions and ends that no argument tells.

Assumes a symbolic round whose carried values keep shape and dtype, and a known number of rounds. Guarantees the values that
the loop would compute, round by round, in NumPy's arithmetic; nothing is worked out that takes more than `MOST` operations.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from symdiff.ir.evaluating import Steps, applied, value_of
from symdiff.ir.loops import Loop, narrowed_binding
from symdiff.ir.node import Atom, Node
from symdiff.tracing.loops.assembling import STAYING, Carried
from symdiff.vocabulary.traits import operations

MOST = 100_000  # operations, some 2 us each
_AT_PLACES = operations("takes_places")
_UNKNOWN = -1  # what arguments tell; else the carried values that something depends on, a bit each


class OfData:
    """What data alone tell of a loop: `columns` are values in all rounds, `ends` carried values behind it, and its `rounds`."""

    def __init__(
        self, bindings: list[Node], k: Node, carried: list[Carried], begins: list[Any], outside: Mapping[Node, Any]
    ) -> None:  # fmt: skip
        self.bindings = bindings
        self.carried = carried
        self.begins = begins  # the values of carried values before the loop, None where arguments tell them
        self.outside = outside  # the values of what the round takes from around it, None where arguments tell them
        own = {c.symbol: 1 << n for n, c in enumerate(carried)}
        self.needs: dict[Atom, Any] = {k: 0, **own, **{s: _UNKNOWN if v is None else 0 for s, v in outside.items()}}
        for b in bindings:
            self.needs[b] = _needs_of(b, [self._of(o) for o in b.operands])
        known = sum(own[c.symbol] for c, begin in zip(carried, begins, strict=True) if begin is not None)
        while True:
            less = sum(own[c.symbol] for c in carried if own[c.symbol] & known and not self._within(c.end, known))
            if not less:
                break
            known &= ~less
        self.known = known
        self.columns: dict[Atom, np.ndarray] = {}
        self.ends: dict[Node, np.ndarray] = {}
        self.rounds: int | None = None

    def _of(self, atom: Atom) -> Any:
        return 0 if atom.op == "const" else self.needs[atom]

    def _within(self, atom: Atom, known: int) -> bool:
        need = self._of(atom)
        return type(need) is int and need != _UNKNOWN and not need & ~known

    def told(self, atom: Atom) -> bool:
        """Whether data tell a value in all rounds, some of what rounds hand on among them."""
        return self._within(atom, self.known) and self._of(atom) != 0

    def places(self) -> list[Atom]:
        """Where values of arguments are read or written, and what chooses among these, as far as data tell it."""
        found: dict[Atom, None] = {}
        for b in self.bindings:
            if b.op in _AT_PLACES and not self._within(b, self.known):
                found[b.operands[1]] = None
            elif b.op == "select" and not self._within(b, self.known):
                found[b.operands[0]] = None
        return [atom for atom in found if self.told(atom)]

    def work_out(self, k: Node, most: int | None, wanted: Iterable[Atom], test: Atom | None) -> None:
        """Fill `columns` for the wanted values, `ends` and `rounds`; nothing is known where it takes too long."""
        kept = [n for n in range(len(self.carried)) if self.known >> n & 1]
        carried = [self.carried[n] for n in kept]
        columns: dict[Atom, list[Any]] = {atom: [] for atom in wanted}
        order, smaller = self._needed({*columns, *(c.end for c in carried), *([] if test is None else [test])})
        values = dict(self.outside)
        values.update([(c.symbol, _of_dtype(self.begins[n], c.symbol)) for n, c in zip(kept, carried, strict=True)])
        steps = Steps(MOST)

        rounds = 0
        try:
            with np.errstate(all="ignore"):
                while rounds != most:
                    values[k] = float(rounds)
                    steps.take(1 + len(order))
                    for b in order:
                        if b.op == "part":
                            values[b] = values[b.operands[0]][smaller[b.operands[0]][1][b.params]]
                        else:
                            node = smaller[b][0] if b.op == "loop" else b
                            values[b] = applied(node, [value_of(o, values) for o in node.operands], {}, steps)
                    if test is not None and not value_of(test, values):
                        break
                    rounds += 1
                    for atom, column in columns.items():
                        column.append(values[atom])
                    values.update([(c.symbol, _of_dtype(value_of(c.end, values), c.symbol)) for c in carried])
        except Steps.Spent:
            rounds = 0
        if not rounds:
            self.known = 0
            return
        self.rounds = rounds
        self.columns = {a: np.array(column, a.dtype).reshape(rounds, *a.shape) for a, column in columns.items()}
        self.ends = {c.symbol: values[c.symbol] for c in carried}

    def _needed(self, needed: set[Atom]) -> tuple[list[Node], dict[Node, tuple[Node, tuple[int, ...]]]]:
        """The bindings that some atoms need, in order, and the loops among these without what nobody reads."""
        order: list[Node] = []
        parts: dict[Node, set[int]] = {}
        smaller: dict[Node, tuple[Node, tuple[int, ...]]] = {}
        for b in reversed(self.bindings):
            if b in needed:
                order.append(b)
                if b.op == "part":
                    parts.setdefault(b.operands[0], set()).add(b.params)
                if b.op == "loop":
                    smaller[b] = narrowed_binding(b, parts[b])
                needed.update(smaller[b][0].operands if b.op == "loop" else b.operands)
        return order[::-1], smaller


def _of_dtype(value: Any, like: Node) -> Any:
    return np.broadcast_to(np.asarray(value, like.dtype), like.shape)[()]


def _needs_of(b: Node, operands: list[Any]) -> Any:
    """What a binding depends on; a tuple for the results of a loop."""
    if b.op in STAYING:
        return _UNKNOWN
    if b.op == "part":
        return operands[0][b.params] if type(operands[0]) is tuple else operands[0]
    if b.op == "loop":
        return _needs_of_results(b.params, operands)
    return _joined(operands)


def _joined(needs: Iterable[int]) -> int:
    found = 0
    for need in needs:
        if need == _UNKNOWN:
            return _UNKNOWN
        found |= need
    return found


def _needs_of_results(loop: Loop, operands: list[int]) -> tuple[int, ...]:
    body = loop.body
    begun, tested = list(operands[: loop.carried]), 0
    while True:
        given = [tested, *(_joined((tested, need)) for need in begun), *operands[loop.carried :]]
        needs: dict[Atom, Any] = {leaf.node: need for leaf, need in zip(body.inputs, given, strict=True)}
        for b in body.bindings:
            needs[b] = _needs_of(b, [0 if o.op == "const" else needs[o] for o in b.operands])
        outputs = [0 if o.atom.op == "const" else needs[o.atom] for o in body.outputs]
        now = [_joined(pair) for pair in zip(begun, outputs, strict=False)]
        test = outputs[-1] if loop.tested else 0
        if now == begun and test == tested:
            break
        begun, tested = now, test
    found = [_joined((tested, need)) for need in (*begun, *outputs[loop.carried : len(outputs) - loop.tested])]
    return (*found, *([tested] if loop.tested else []))
