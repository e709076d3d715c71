"""Between which numbers a traced value lies, as far as its operations and the conditions before it tell.

Assumes a path with a table of values. Guarantees bounds that hold for every argument that takes the path; cells of arrays
share theirs. Refuses to guess: what it cannot tell is unbounded, and may be NaN.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from symdiff.ir.node import Atom, Node
from symdiff.rulebooks.calls import extreme_by_rule
from symdiff.vocabulary.heads import HEADS, Static

_DEEP = 60  # operations below a value that are looked at
_ROUNDED = {"floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "rint": np.rint}
_JOINED = frozenset({"array", "concatenate"})
_KEPT = frozenset({"cast", "reshape", "transpose", "broadcast_to", "getitem", "item", "take", "gather"})


@dataclass(frozen=True, slots=True)
class Between:
    """The least and the greatest value. `may_be_nan` and `finite` tell of all values; `whole`: integers."""

    low: float = -math.inf
    high: float = math.inf
    may_be_nan: bool = True
    finite: bool = False
    whole: bool = False

    @property
    def is_finite(self) -> bool:
        """Whether no value is infinite or NaN."""
        return self.finite or not (self.may_be_nan or math.isinf(self.low) or math.isinf(self.high))


def known_range(path: Any, atom: Atom) -> Between:
    """The range of a value on a path."""
    return _of(path, path.number(atom), _DEEP)


def _of(path: Any, number: int, deep: int) -> Between:
    found = _computed(path, path.values.nodes[number], deep) if deep else Between()
    known, ordered, finite = path.bounds(number)
    low, high = known.low, known.high
    if found.whole and math.isfinite(low):
        low = math.floor(low) + 1 if known.low_strict else math.ceil(low)
    if found.whole and math.isfinite(high):
        high = math.ceil(high) - 1 if known.high_strict else math.floor(high)
    nan = found.may_be_nan and not ordered
    return Between(max(found.low, low), min(found.high, high), nan, found.finite or finite, found.whole)


def _computed(path: Any, node: Node, deep: int) -> Between:
    op = node.op
    if op == "const":
        return _constant(node)
    if node.dtype == "?":
        return Between(0.0, 1.0, False, True, True)
    if op == "select" and _is_cut(path, node):
        least = _constant(path.values.nodes[node.operands[2]]).low
        return Between(least, -least, False, True, True)
    if op in HEADS and HEADS[op].result == "count" and isinstance(node.params, Static):
        shape = path.values.nodes[node.operands[0]].shape
        last = shape[0] if op == "searchsorted" else shape[node.params.params["axis"]] - 1
        return Between(0.0, float(last), False, True, True)
    if op == "call" and extreme_by_rule(node):
        parts = [_of(path, o, deep - 1) for o in node.operands]
        return _extreme(extreme_by_rule(node), parts)
    if op in _KEPT:
        return _of(path, node.operands[0], deep - 1)
    if op in _JOINED and node.operands:
        parts = [_of(path, o, deep - 1) for o in node.operands]
        return _joint(min(p.low for p in parts), max(p.high for p in parts), *parts)
    if op in _ROUNDED:
        x = _of(path, node.operands[0], deep - 1)
        return Between(*(float(_ROUNDED[op](end)) for end in (x.low, x.high)), x.may_be_nan, x.finite, True)
    if op in _RULES:
        found: Between = _RULES[op](*(_of(path, o, deep - 1) for o in node.operands))
        return found
    return Between()


def _is_cut(path: Any, node: Node) -> bool:
    """Whether a rounded number is selected where it is smaller than a constant in magnitude."""
    nodes = path.values.nodes
    condition, chosen, instead = (nodes[o] for o in node.operands)
    if condition.op != "lt" or chosen.op not in _ROUNDED:
        return False
    size, limit = (nodes[o] for o in condition.operands)
    constant = limit.op == instead.op == "const" and size.op == "abs" and size.operands == chosen.operands
    return constant and np.array_equal(instead.params, -limit.params)


def _constant(node: Node) -> Between:
    cells = np.asarray(node.params)
    if cells.size == 0 or cells.dtype.kind not in "biuf" or not np.isfinite(cells).all():
        return Between()
    return Between(float(cells.min()), float(cells.max()), False, True, bool(np.all(np.floor(cells) == cells)))


def _joint(low: float, high: float, *parts: Between) -> Between:
    """Bounds of what cannot be NaN or infinite unless one of the parts is."""
    finite = all(p.is_finite for p in parts)
    return Between(low, high, any(p.may_be_nan for p in parts), finite, all(p.whole for p in parts))


def _add(a: Between, b: Between) -> Between:
    found = _joint(a.low + b.low, a.high + b.high, a, b)
    opposite = not a.is_finite and not b.is_finite  # infinities whose sum is NaN
    return replace(found, may_be_nan=True) if opposite else found


def _neg(a: Between) -> Between:
    return replace(a, low=-a.high, high=-a.low)


def _extreme(name: str, parts: list[Between]) -> Between:
    """Python's own extreme, which a NaN may leave to any of the others."""
    lows, highs = [p.low for p in parts], [p.high for p in parts]
    if any(p.may_be_nan for p in parts):
        return _joint(min(lows), max(highs), *parts)
    best = max if name == "max" else min
    return _joint(best(lows), best(highs), *parts)


def _mul(a: Between, b: Between) -> Between:
    ends = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
    return _joint(min(ends), max(ends), a, b) if all(map(math.isfinite, ends)) else Between()


def _mod(a: Between, b: Between) -> Between:
    if b.low <= 0.0 or not b.is_finite:
        return Between()
    whole = a.whole and b.whole
    return Between(0.0, b.high - whole, not a.is_finite, a.is_finite, whole)


def _floordiv(a: Between, b: Between) -> Between:
    if b.low <= 0.0 or not b.is_finite:
        return Between()
    low = math.floor(a.low / (b.low if a.low < 0.0 else b.high)) if math.isfinite(a.low) else a.low
    high = math.floor(a.high / (b.high if a.high < 0.0 else b.low)) if math.isfinite(a.high) else a.high
    return _joint(low, high, a, b)


def _abs(a: Between) -> Between:
    ends = (abs(a.low), abs(a.high))
    return replace(a, low=0.0 if a.low <= 0.0 <= a.high else min(ends), high=max(ends))


_RULES: dict[str, Any] = {
    "add": _add,
    "sub": lambda a, b: _add(a, _neg(b)),
    "neg": _neg,
    "mul": _mul,
    "mod": _mod,
    "floordiv": _floordiv,
    "abs": _abs,
    "select": lambda _, a, b: _joint(min(a.low, b.low), max(a.high, b.high), a, b),
    "max": lambda a, b: _joint(max(a.low, b.low), max(a.high, b.high), a, b),
    "min": lambda a, b: _joint(min(a.low, b.low), min(a.high, b.high), a, b),
}
