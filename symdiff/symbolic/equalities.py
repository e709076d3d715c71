"""Equalities that hold beside nothing: `x == c` chooses a value at one place, and says nothing of the slope there.

Assumes bindings in order and the inputs by which is differentiated. Guarantees, for `if x == c: return a` and its relatives,
that a stored value of the function does not stop its derivative: where both arms are finite and equal up to rounding, the
function is the other arm all around, and the sweeps see that one. Where they differ, or the other arm is not finite, the arm
taken counts. Conditions that can hold all around a point, as `floor(x) == 1` and `max(x, 0) == 0`, stay what they are.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from symdiff.symbolic.activity import Activity
from symdiff.symbolic.building import Builder
from symdiff.symbolic.graph import Atom, Binding, Constant

_TOLERANCE = {"f": 1e-5, "F": 1e-5}  # of values that count as equal, relative
_NEAR = 1e-9  # in double precision
_MOVING = frozenset({"item", "getitem", "reshape", "transpose", "broadcast_to", "neg", "cast", "abs", "sqrt", "cbrt"})
_STEPS = frozenset({"floor", "ceil", "trunc", "rint", "sign"})
_ASKING = frozenset({"eq", "ne", "and", "or", "not", "all", "any", "item", "getitem", "reshape", "broadcast_to"})


def beside(bindings: list[Binding], builder: Builder, wrt: Iterable[Atom]) -> list[Binding]:
    """The bindings with the conditions of such selects false where both arms agree; new symbols are bound on the builder."""
    if not any(b.op == "select" and b.primal for b in bindings):
        return bindings
    thinness = Thinness(wrt)
    thinness.include(bindings)
    found: list[Binding] = []
    start = len(builder.bindings)
    for binding in bindings:
        if binding.op == "select" and binding.primal and thinness.activity.has(binding.symbol):
            builder.origin = binding.origin
            binding = _seen(binding, thinness.of(binding.operands[0]), builder)
        found += [*builder.bindings[start:], binding]
        start = len(builder.bindings)
    return found


def _seen(binding: Binding, is_thin: bool | None, b: Builder) -> Binding:
    """A select as the sweeps see it."""
    condition, first, second = binding.operands
    if is_thin is None or (isinstance(first, Constant) and isinstance(second, Constant)):
        return binding
    gap = b.emit("abs", (b.emit("sub", (first, second)),))
    least = b.emit("min", (b.emit("abs", (first,)), b.emit("abs", (second,))))
    agree = b.emit("le", (gap, b.emit("mul", (Constant(_TOLERANCE.get(binding.dtype, _NEAR)), least))))
    seen = b.emit("and", (condition, b.emit("not", (agree,)))) if is_thin else b.emit("or", (condition, agree))
    return Binding(binding.symbol, "select", (seen, first, second), None, binding.origin, binding.primal)


def agree(a: Any, b: Any) -> bool:
    """Whether two values are finite and equal up to rounding."""
    tolerance = _TOLERANCE.get(np.result_type(a, b).char, _NEAR)
    with np.errstate(all="ignore"):
        return bool(np.all(np.abs(np.subtract(a, b)) <= tolerance * np.minimum(np.abs(a), np.abs(b))))


class Thinness:
    """Which conditions hold on a set without inside, and which beside one."""

    def __init__(self, wrt: Iterable[Atom]) -> None:
        self.activity = Activity(wrt)
        self.wrt = set(wrt)
        self.made: dict[Atom, Binding] = {}
        self._free: dict[Atom, bool] = {}

    def include(self, bindings: Iterable[Binding]) -> None:
        """Bindings that come after those known."""
        for binding in bindings:
            self.made[binding.symbol] = binding
            self.activity.include(binding)

    def of(self, condition: Atom) -> bool | None:
        """Whether a condition holds on a set without inside (True), beside one (False), or neither (None)."""
        made = self.made.get(condition)
        if made is None or made.op not in _ASKING:
            return None
        op = made.op
        if op in ("eq", "ne"):
            return (op == "eq") if self._parts(*made.operands) else None
        parts = [self.of(o) for o in made.operands]
        if op not in ("and", "or"):
            return (None if parts[0] is None else not parts[0]) if op == "not" else parts[0]
        deciding = op == "and"  # a thin part makes "and" thin, one beside a thin set makes "or" such
        return deciding if deciding in parts else None if None in parts else not deciding

    def _parts(self, a: Atom, b: Atom) -> bool:
        """Whether an equation holds on a set without inside."""
        return a is not b and any(self._is_free(x) and self._is_level(y) for x, y in ((a, b), (b, a)))

    def _is_level(self, atom: Atom) -> bool:
        """Whether a value stays, moves in steps, or freely, where the inputs move."""
        made = self.made.get(atom)
        return not self.activity.has(atom) or self._is_free(atom) or (made is not None and made.op in _STEPS)

    def _is_free(self, atom: Atom) -> bool:
        """Whether a value is no number all around a point: an input, moved and scaled, or the length of inputs."""
        if atom in self.wrt:
            return True
        made = self.made.get(atom)
        if made is None or not self.activity.has(atom):
            return False
        if atom not in self._free:
            self._free[atom] = self._computed_freely(made)
        return self._free[atom]

    def _computed_freely(self, made: Binding) -> bool:
        op, operands = made.op, made.operands
        free = [self._is_free(o) for o in operands]
        if op in _MOVING or (op == "pow" and isinstance(operands[1], Constant) and operands[1].value > 0):
            return free[0]
        if op in ("add", "sub"):
            return any(f and not self.activity.has(o) for f, o in zip(free, reversed(operands), strict=True))
        if op in ("mul", "div"):
            scale = [isinstance(o, Constant) and o.value != 0 for o in operands]
            square = op == "mul" and operands[0] is operands[1] and free[0]
            return square or (free[0] and scale[1]) or (op == "mul" and free[1] and scale[0])
        return op == "hypot" and all(free)
