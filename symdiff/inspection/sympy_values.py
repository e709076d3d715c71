"""Values while a tape of SymPy's is played: atoms of a trace, or integers and truths that are known and computed exactly.

Assumes one builder, that of the running trace. Guarantees that an operation on known integers is done at once, in Python's
integers, and that everything else is bound. Refuses, with `TraceError`, bounds and indices that are not known.
"""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from symdiff.errors import ShapeError, TraceError
from symdiff.ir.building import Builder, dtype_of_atoms
from symdiff.ir.node import ArrayConstant, Atom, Constant, Node
from symdiff.tracing.values.tracer import Tracer, traced_atom
from symdiff.vocabulary.ops import OPS
from symdiff.vocabulary.traits import operations

Value = Any  # an Atom, a number, or an array of objects: integers or truths
_EXACT: dict[str, Callable[..., Any]] = {
    **{op: getattr(operator, op) for op in ("add", "sub", "mul", "neg", "abs", *operations("compares"))},
    **{op: getattr(np, OPS[op].numpy) for op in ("max", "min", *operations("logic"))},
}
_SAME = frozenset({("pow", 1), ("div", 1), ("mul", 1), ("add", 0), ("sub", 0)})  # what leaves the first operand as it is
_WHOLE = 2**53  # from here on integers are floats
_BITS = 4096  # of a power that is computed at once


class Outside:
    """A cell that an array does not have: refused where it is used, and not where a condition that is known leaves it out."""

    def __init__(self, refusal: str) -> None:
        self.refusal = refusal


class CellByCell(Exception):
    """What cannot be computed along an axis of terms, but for each of them."""


class Playing:
    """Appends what a tape computes to a builder; `origin` is the line that all of it is told at."""

    __slots__ = ("_outside", "builder", "origin")

    def __init__(self, builder: Builder, origin: str) -> None:
        self.builder = builder
        self.origin = origin
        self._outside = False  # whether a cell was asked for that an array does not have

    def atom(self, value: Value) -> Atom:
        """A value as an operand."""
        if isinstance(value, Node):
            return value
        if isinstance(value, Outside):
            raise ShapeError(value.refusal)
        if isinstance(value, np.ndarray):
            return ArrayConstant(value.astype(bool if value.size and isinstance(value.flat[0], (bool, np.bool_)) else float))
        if isinstance(value, (bool, np.bool_)):
            return Constant(bool(value))
        if isinstance(value, int) and abs(value) >= _WHOLE:
            try:
                return Constant(float(value))
            except OverflowError:
                raise TraceError(f"{self.origin}: an integer of {value.bit_length()} bits is beyond double precision") from None
        return Constant(value)

    def emit(self, op: str, *values: Value) -> Value:
        """An elementwise operation."""
        if op == "select" and isinstance(values[0], (bool, np.bool_)):
            return values[1] if values[0] else values[2]
        if self._outside and (outside := next((v for v in values if isinstance(v, Outside)), None)):
            return outside
        for value in values:
            if isinstance(value, (Node, float, complex)):
                break
        else:
            found = _exactly(op, values)
            if found is not None:
                return found
        if len(values) == 2 and type(values[1]) is int and (op, values[1]) in _SAME:
            return values[0]
        return self.builder.emit(op, tuple(self.atom(v) for v in values), None, self.origin)

    __call__ = emit

    def call(self, function: Callable[..., Any], *values: Value) -> Value:
        """A function of NumPy's, or the user's, of traced values."""
        return self.value(function(*map(self.traced, values)))

    def traced(self, value: Value) -> Any:
        """A value as user code sees it."""
        if isinstance(value, Node):
            return value.params if value.op == "const" else Tracer(self.builder, value)
        if isinstance(value, Outside):
            raise ShapeError(value.refusal)
        return value.astype(float) if isinstance(value, np.ndarray) else value

    def value(self, found: Any) -> Value:
        """What user code gives, as a value."""
        if isinstance(found, (bool, int)):
            return found
        return traced_atom(found, self.builder, self.origin)

    def cells(self, values: tuple[Value, ...], shape: tuple[int, ...]) -> Value:
        """An array of numbers; of arrays, all of which are broadcast, one with their axes after its own."""
        atoms = tuple(map(self.atom, values))
        if not atoms:
            return ArrayConstant(np.zeros(shape))
        if all(a.op == "const" and a.shape == () for a in atoms):
            return ArrayConstant(np.array([a.params for a in atoms], None if _mixed(atoms) else float).reshape(shape))
        if all(a.shape == () for a in atoms):
            code = dtype_of_atoms(atoms)
            return self.builder.bind("array", atoms, shape, code, None, self.origin)
        traced = [self.traced(a) for a in atoms]
        inner = np.broadcast_shapes(*(a.shape for a in atoms))
        return self.value(np.reshape(np.stack([np.broadcast_to(t, inner) for t in traced]), shape + inner))

    def whole(self, value: Value, what: str) -> int:
        """A value that must be an integer that is known."""
        value = value.params if isinstance(value, Constant) else value
        if isinstance(value, (int, float)) and value == value // 1:
            return int(value)
        raise TraceError(f"{self.origin}: {what} must be an integer that is known at the call: give it as a Python int")

    def item(self, base: Value, index: tuple[Value, ...]) -> Value:
        """The cell of an array, or the cells at arrays of known integers."""
        base = self.atom(base)
        if len(base.shape) < len(index):  # a vector for a matrix of one column or row
            varying = tuple(i for i in index if type(i) is not int or i != 0)
            index = (varying or index)[: len(base.shape)]
        if len(base.shape) != len(index):
            raise ShapeError(f"{self.origin}: {len(index)} indices for {base.name}, which has shape {base.shape}")
        if any(isinstance(i, np.ndarray) for i in index):
            places = np.broadcast_arrays(*(np.asarray(i, dtype=object) for i in index))
            if any(p.min() < 0 or p.max() >= n for p, n in zip(places, base.shape, strict=True)):
                raise CellByCell
            return self.value(self.traced(base)[tuple(p.astype(np.intp) for p in places)])
        cell = [self.whole(i, f"an index of {base.name}") for i in index]
        for i, n in zip(cell, base.shape, strict=True):
            if not 0 <= i < n:
                self._outside = True
                return Outside(f"{self.origin}: index {i} is out of bounds for {base.name}, which has shape {base.shape}")
        flat = int(np.ravel_multi_index(cell, base.shape))
        if isinstance(base, ArrayConstant):
            return Constant(base.params.ravel()[flat].item())
        return self.builder.bind("item", (base,), (), base.dtype, flat, self.origin)


def _mixed(atoms: tuple[Atom, ...]) -> bool:
    """Whether numbers are complex, or truths."""
    return any(isinstance(a.params, complex) for a in atoms) or all(isinstance(a.params, bool) for a in atoms)


def _exactly(op: str, values: tuple[Value, ...]) -> Value:
    """An operation on known integers and truths; None where its result is none."""
    function = _EXACT.get(op)
    if function is not None:
        found = function(*values)
        return bool(found) if isinstance(found, np.bool_) else found
    if op == "pow":
        base, power = values
        lowest, highest = (power, power) if isinstance(power, int) else (power.min(), power.max())
        largest = base if isinstance(base, int) else max(abs(base.min()), abs(base.max()))
        return base**power if lowest >= 0 and highest * abs(largest).bit_length() <= _BITS else None
    if op == "mod" and isinstance(values[1], int) and values[1]:
        return values[0] % values[1]
    if op == "div" and all(isinstance(v, int) for v in values) and values[1] and values[0] % values[1] == 0:
        return values[0] // values[1]
    return values[0] if op in ("floor", "ceil", "real", "conj", "trunc") else None
