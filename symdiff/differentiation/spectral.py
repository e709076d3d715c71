"""The slopes of what a spectral head is given, by the values of its matrix: what quotients of differences tend to where two of
these are equal.

Assumes a head whose second operand is a derivative by eigenvalues or singular values, as sweeps make it. Guarantees NaN in the
rows of values that are chosen by comparing with an equal one, as the largest is. Slopes are `UNKNOWN` where the operand has
vectors or values of another matrix, too, and in a loop, whose rounds hand on what depends on them.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from symdiff.differentiation.deltas import Sparse, unit_seeds
from symdiff.differentiation.forward import Forward
from symdiff.differentiation.moving import slopes_of_values
from symdiff.differentiation.partials import ZERO
from symdiff.differentiation.slopes import Slopes
from symdiff.differentiation.vectorizing import append_batched
from symdiff.ir.arrays.algebra import Arrays
from symdiff.ir.building import Builder, array_atom
from symdiff.ir.graph import GraphOutput
from symdiff.ir.node import Atom, Node
from symdiff.rulebooks.calls import extreme_by_rule
from symdiff.rulebooks.matrices import UNKNOWN, within_rounding
from symdiff.vocabulary.traits import operations
from symdiff.vocabulary.walking import worked_out

_DECOMPOSING = operations("decomposes")
_COMPARING = operations("compares")
_MOVING = operations("picks", "rearranges") | {"item"}


@slopes_of_values.written
def spectral_slopes(builder: Builder, binding: Node, slopes: Slopes) -> Atom:
    """The slopes of a spectral head's second operand by the values of its matrix, along the last axis; zero where it does not
    depend on these."""
    x, g = binding.operands
    name = binding.op.removeprefix("with_")

    def is_value(atom: Atom) -> bool:
        return atom.op == name and slopes.facts.same(atom.operands[0], x)

    between = _above(g, is_value)  # what the operand is made of, in order
    outside = {o for o in between if o.op == "input"}
    handed_on = builder.in_round and not outside <= _above(x, lambda _: False).keys()
    if handed_on or any(o.op in _DECOMPOSING and not is_value(o) for o in between):
        return UNKNOWN
    values = [o for o in between if is_value(o)]
    moving = set(values)
    for atom in between:
        if not moving.isdisjoint(atom.operands):
            moving.add(atom)
    if g not in moving:
        return ZERO
    found = _Spectrum(Arrays(builder, binding.origin), values, [o for o in between if o in moving])
    return found.chosen(found.of(g, slopes.partials.rules))


def _above(atom: Atom, first: Callable[[Atom], bool]) -> dict[Atom, None]:
    """What a value is made of, in order, from where it is `first`."""
    found: dict[Atom, None] = {}
    worked_out(atom, found, lambda o: () if first(o) else o.operands, lambda o: None)
    return found


class _Spectrum:
    """By the values of a matrix; `between` depends on them, and they are of it."""

    def __init__(self, arrays: Arrays, values: list[Node], between: list[Node]) -> None:
        self.arrays = arrays
        self.values = values
        self.between = between

    def of(self, g: Atom, rules: Any) -> Atom:
        """The slopes of one of the bindings."""
        a, w = self.arrays, self.values[0]
        inner = Builder()
        inner.primal = False
        inner.after(a.builder.bindings)
        dot = inner.input("w_dot", w.shape, w.dtype)
        dots = Forward(inner, self.between, self.values, rules).sweep(dict.fromkeys(self.values, dot), [g])
        n, rest = w.shape[-1], (1,) * (len(w.shape) - 1)
        if g not in dots:
            return a.broadcast_to(ZERO, (*w.shape, n))
        each: Atom | Sparse = unit_seeds(w.shape, w.dtype)
        if rest:
            each = a.broadcast_to(array_atom(np.eye(n, dtype=w.dtype).reshape(n, *rest, n)), (n, *w.shape))
        graph = inner.graph("", (GraphOutput("", dots[g]),), None, origin=a.origin)
        return a.builder.real(append_batched(graph, a.builder, {dot: each}, n, True)[0])

    def chosen(self, slopes: Atom) -> Atom:
        """The slopes, NaN in the rows of values that are as large as what they are compared with."""
        a, w = self.arrays, self.values[0]
        for binding in self.between:
            if binding.op in _COMPARING:
                pair = [self._at_values(o) for o in binding.operands]
                if None in pair:
                    return UNKNOWN
                equal = self._are_equal(*pair)
                for operand, value in zip(binding.operands, pair, strict=True):
                    if value.shape != w.shape and self._is_one(operand):
                        equal = a.emit("and", equal, self._are_equal(w, value))
                slopes = a.emit("select", a.reshape(equal, (*equal.shape, 1)), UNKNOWN, slopes)
        return slopes

    def _are_equal(self, x: Atom, y: Atom) -> Atom:
        a = self.arrays
        return within_rounding(a, a.emit("sub", x, y), a.emit("add", a.emit("abs", x), a.emit("abs", y)))

    def _at_values(self, atom: Atom) -> Atom | None:
        """A number beside each of the values."""
        shape = self.values[0].shape
        found = self.arrays.reshape(atom, (*shape[:-1], 1)) if atom.shape in ((), shape[:-1]) else atom
        return found if len(found.shape) == len(shape) and found.shape[-1] in (1, shape[-1]) else None

    def _is_one(self, atom: Atom) -> bool:
        """Whether a number is one of the values, whichever."""
        moved = atom.op in _MOVING or bool(extreme_by_rule(atom))
        return atom in self.values or (moved and all(map(self._is_one, atom.operands)))
