"""Equalities that hold beside nothing: `x == c` chooses a value at one place, and says nothing of the slope there.

Assumes bindings in order and the inputs by which is differentiated. Guarantees, for `if x == c: return a` and its relatives,
that a stored value of the function does not stop its derivative: where both arms are finite and equal up to rounding, the
function is the other arm all around, and the sweeps see that one. Where they differ, or a function on its way is given what is
infinite there, as in x*exp(-1/y**2), the arm taken counts. Conditions that can hold all around a point, as `floor(x) == 1` and
`max(x, 0) == 0`, stay what they are. An equation between polynomials and the like, such as that the determinant of a matrix is
zero, is tried at a point taken at random: what fails there fails almost everywhere. What is known at one number of one value
(`removable`) is not asked for in calls.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from symdiff.ir.building import Builder
from symdiff.ir.evaluating import applied
from symdiff.ir.node import Atom, Constant, Node, Seen
from symdiff.simplification.activity import Activity
from symdiff.simplification.facts import Facts
from symdiff.simplification.rewriting import replaced
from symdiff.vocabulary.traits import operations
from symdiff.vocabulary.walking import worked_out

_TOLERANCE = {"f": 1e-5, "F": 1e-5}  # of values that count as equal, relative
_NEAR = 1e-9  # in double precision
_APART = 1e-4  # of values that count as different at a point taken at random, relative
_MOVING = operations("thin") | {"item"}
_STEPS = operations("steps")
_ANALYTIC = operations("analytic") | {"const", "item", "array"}
_BEYOND = {"isnan": True, "isinf": True, "isfinite": False}
_ASKING = operations("asks") | {"item"}
_POLES = operations("pole")
_RATIONAL = operations("arithmetic") | {"neg", "cast"}


class Thinness:
    """Which conditions hold on a set without inside, and which beside one."""

    def __init__(self, wrt: Iterable[Atom]) -> None:
        self.activity = Activity(wrt)
        self.wrt = set(wrt)
        self.made: dict[Atom, Node] = {}
        self._free: dict[Atom, frozenset[Any]] = {}
        self._thin: dict[Atom, bool | None] = {}
        self._trials: dict[Atom, Any] = {}

    def include(self, bindings: Iterable[Node]) -> None:
        """Bindings that come after those known."""
        for binding in bindings:
            self.made[binding.result] = binding
            self.activity.include(binding)

    def of(self, condition: Atom) -> bool | None:
        """Whether a condition holds on a set without inside (True), beside one (False), or neither (None)."""
        return worked_out(condition, self._thin, self._parts_of, self._is_thin)  # type: ignore[no-any-return]

    def _parts_of(self, condition: Atom) -> tuple[Atom, ...]:
        """The conditions that a condition is put together of."""
        made = self.made.get(condition)
        return () if made is None or made.op not in _ASKING or made.op in ("eq", "ne") or made.op in _BEYOND else made.operands

    def _is_thin(self, condition: Atom) -> bool | None:
        made = self.made.get(condition)
        op = "" if made is None else made.op
        if made is None or op not in _ASKING:
            return None
        if op in ("eq", "ne"):
            return (op == "eq") if self._parts(*made.operands) else None
        if op in _BEYOND:
            return _BEYOND[op] if self._inputs(made.operands[0]) else None
        parts = [self._thin[o] for o in made.operands]
        if op not in ("and", "or"):
            return (None if parts[0] is None else not parts[0]) if op == "not" else parts[0]
        deciding = op == "and"  # a thin part makes "and" thin, one beside a thin set makes "or" such
        return deciding if deciding in parts else None if None in parts else not deciding

    def _parts(self, a: Atom, b: Atom) -> bool:
        """Whether an equation holds on a set without inside."""
        made = self.made.get(a)
        if made is not None and made.op in ("sign", "det_sign") and isinstance(b, Constant) and b.value == 0:
            return self._parts(made.operands[0], b) if made.op == "sign" else self._is_regular(made.operands[0])
        a = self._multiplied(a, b)
        first, second = self._inputs(a), self._inputs(b)
        if first and second and first != second:
            return True
        if bool(first) != bool(second) and self._is_level(b if first else a):
            return True
        return self._is_broken(a, b)

    def _multiplied(self, a: Atom, b: Atom) -> Atom:
        """The value that is the same wherever this one, a multiple or an exponential of it, is a finite constant but 0."""
        made = self.made.get(a)
        while made is not None and isinstance(b, Constant) and np.all(np.abs(b.value) < np.inf) and np.all(b.value):
            moving = [o for o in made.operands if self.activity.has(o)]
            if made.op not in ("mul", "div", "exp", "exp2") or len(moving) != 1 or moving[0].shape != a.shape:
                break
            a = moving[0]
            made = self.made.get(a) if made.op in ("mul", "div") else None
        return a

    def _is_broken(self, a: Atom, b: Atom) -> bool:
        """Whether two values that are analytic in the inputs differ at a point taken at random."""
        tried = self._tried(a), self._tried(b)
        if tried[0] is None or tried[1] is None or not (self.activity.has(a) or self.activity.has(b)):
            return False
        with np.errstate(all="ignore"):
            return bool(np.all(np.abs(tried[0] - tried[1]) > _APART * (np.abs(tried[0]) + np.abs(tried[1]))))

    def _is_regular(self, matrix: Atom) -> bool:
        """Whether a matrix whose cells are analytic in the inputs has an inverse at a point taken at random."""
        tried = self._tried(matrix)
        if tried is None or not self.activity.has(matrix) or not np.all(np.isfinite(tried)):
            return False
        return bool(np.all(np.linalg.cond(tried) < 1 / _APART))

    def _tried(self, atom: Atom) -> Any:
        """A value at inputs taken at random; None where it is not analytic in those by which is differentiated alone."""
        return worked_out(atom, self._trials, self._analytic_in, self._trial)

    def _analytic_in(self, atom: Atom) -> tuple[Atom, ...]:
        made = None if atom in self.wrt else self.made.get(atom)
        return made.operands if made is not None and (made.op in _ANALYTIC or _is_whole_power(made)) else ()

    def _trial(self, atom: Atom) -> Any:
        if isinstance(atom, Constant):
            return atom.value
        if atom in self.wrt:
            return _random(atom, len(self._trials))
        values = [self._trials[o] for o in self._analytic_in(atom)]
        with np.errstate(all="ignore"):
            return None if not values or any(v is None for v in values) else applied(self.made[atom], values)

    def _is_level(self, atom: Atom) -> bool:
        """Whether a value stays, or moves in steps, where the inputs move."""
        made = self.made.get(atom)
        return not self.activity.has(atom) or (made is not None and made.op in _STEPS)

    def _inputs(self, atom: Atom) -> frozenset[Any]:
        """The inputs that a value is a function of which is no number all around a point; empty where it is none such."""
        return worked_out(atom, self._free, self._moving_in, self._found)  # type: ignore[no-any-return]

    def _moving_in(self, atom: Atom) -> tuple[Atom, ...]:
        made = None if atom in self.wrt or not self.activity.has(atom) else self.made.get(atom)
        return () if made is None else made.operands

    def _found(self, atom: Atom) -> frozenset[Any]:
        if atom in self.wrt:
            return frozenset([atom])
        return self._computed(self.made[atom]) if self._moving_in(atom) else frozenset()

    def _computed(self, made: Node) -> frozenset[Any]:
        op, operands = made.op, made.operands
        if op == "item" and operands[0] in self.wrt:
            return frozenset([(operands[0], made.params)])
        found = [self._free[o] for o in operands]
        if op == "array":
            return frozenset().union(*found) if all(found) else frozenset()
        if op in _MOVING or (op == "pow" and isinstance(operands[1], Constant) and operands[1].value != 0):
            return found[0]
        if op in ("select", "max", "min") and all(found[-2:]):
            return found[-2] | found[-1]
        if op not in ("add", "sub", "mul", "div", "hypot"):
            return frozenset()
        if all(found) and (found[0].isdisjoint(found[1]) or op == "hypot" or (op == "mul" and operands[0] is operands[1])):
            return found[0] | found[1]
        still = [isinstance(o, Constant) and (op not in ("mul", "div") or o.value != 0) for o in operands]
        if op in ("add", "sub"):
            still = [not self.activity.has(o) for o in operands]
        return found[0] if still[1] else found[1] if still[0] else frozenset()


def _is_whole_power(made: Node) -> bool:
    exponent = made.operands[-1]
    return made.op == "pow" and isinstance(exponent, Constant) and np.ndim(exponent.value) == 0 and exponent.value % 1 == 0


def _random(atom: Atom, seed: int) -> Any:
    source = np.random.default_rng(seed)
    found = source.uniform(0.5, 2.0, atom.shape)
    dtype = np.dtype(atom.dtype)
    return np.asarray(found + 1j * source.uniform(0.5, 2.0, atom.shape) if dtype.kind == "c" else found, dtype)[()]


class Poles:
    """Which values have functions of what may be infinite on their way, beyond sums, products and quotients, as exp(-1/x)."""

    def __init__(self, thinness: Thinness, builder: Builder) -> None:
        self.thinness = thinness
        self.builder = builder
        self._known: dict[Atom, tuple[Atom | None, Atom | None]] = {}

    def missed(self, atom: Atom) -> Atom | None:
        """The condition that all that such functions are given is finite; None where there are none."""
        return worked_out(atom, self._known, self._passed, self._through)[1]  # type: ignore[no-any-return]

    def _passed(self, atom: Atom) -> tuple[Atom, ...]:
        made = self.thinness.made.get(atom) if self.thinness.activity.has(atom) else None
        return () if made is None else made.operands

    def _through(self, atom: Atom) -> tuple[Atom | None, Atom | None]:
        """That no pole was met, and that none reached a function."""
        operands = self._passed(atom)
        if not operands:
            return None, None
        made = self.thinness.made[atom]
        if made.op == "select":
            (_, *first), (_, *second) = zip(*(self._known[o] for o in operands), strict=True)
            return self._either(first, made), self._either(second, made)
        finite, missed = ([found for o in operands if (found := self._known[o][k]) is not None] for k in (0, 1))
        if made.op not in _RATIONAL:
            finite, missed = [], missed + finite
        if made.op in _POLES and self.thinness.activity.has(operands[-1 if made.op == "div" else 0]):
            finite = [*finite, self.builder.emit("isfinite", (atom,))]
        return self._together(finite, made), self._together(missed, made)

    def _either(self, arms: list[Atom | None], made: Node) -> Atom | None:
        """What is asked of the arm that is taken."""
        asked = [Constant(True) if a is None or a.shape not in ((), made.shape) else a for a in arms]
        return None if all(isinstance(a, Constant) for a in asked) else self.builder.select(made.operands[0], *asked)

    def _together(self, parts: list[Atom], made: Node) -> Atom | None:
        whole: Atom | None = None
        for part in dict.fromkeys(parts):
            if part.shape in ((), made.shape):  # those of other cells are left to the arm's own value
                whole = part if whole is None else self.builder.emit("and", (whole, part))
        return whole


def simplified_selects(facts: Facts, b: Builder, wrt: Iterable[Atom]) -> list[Node]:
    """The bindings with the conditions of such selects false where both arms agree; new symbols are bound on the builder."""
    if not any(b.op == "select" and b.primal for b in facts.bindings):
        return facts.bindings
    thinness = Thinness(wrt)
    thinness.include(facts.bindings)
    poles = Poles(thinness, b)

    def seen(binding: Node) -> Seen | None:
        is_asked = binding.op == "select" and binding.primal and thinness.activity.has(binding.result)
        is_thin = thinness.of(binding.operands[0]) if is_asked else None
        if is_thin is None:
            return None
        condition, first, second = binding.operands
        if not (isinstance(first, Constant) and isinstance(second, Constant)) or agree(first.value, second.value):
            gap = b.emit("abs", (b.emit("sub", (first, second)),))
            least = b.emit("min", (b.emit("abs", (first,)), b.emit("abs", (second,))))
            near = b.emit("le", (gap, b.emit("mul", (Constant(_TOLERANCE.get(binding.dtype, _NEAR)), least))))
            missed = poles.missed(second if is_thin else first)
            if missed is not None and missed.shape in ((), near.shape):
                near = b.emit("and", (near, missed))
            condition = b.emit("and", (condition, b.emit("not", (near,)))) if is_thin else b.emit("or", (condition, near))
        return Seen(binding.result, "select", (condition, first, second))

    return replaced(facts.bindings, b, seen)


def agree(a: Any, b: Any) -> bool:
    """Whether two values are finite and equal up to rounding."""
    tolerance = _TOLERANCE.get(np.result_type(a, b).char, _NEAR)
    with np.errstate(all="ignore"):
        return bool(np.all(np.abs(np.subtract(a, b)) <= tolerance * np.minimum(np.abs(a), np.abs(b))))
