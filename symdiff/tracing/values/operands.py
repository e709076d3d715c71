"""Values that a traced function is given, as operands of a Builder or as arrays: traced ones, numbers, nested lists of both.

Assumes a trace. Guarantees that lists of arrays are stacked and lists of numbers become one array, as NumPy has it. Refuses
values that are no numbers, with `TraceError`.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from symdiff.ir.arrays.algebra import Arrays
from symdiff.ir.arrays.moving import bind_stack
from symdiff.ir.building import Builder
from symdiff.ir.node import Atom
from symdiff.tracing.values.runs import stack_of_rows
from symdiff.tracing.values.tracer import Tracer, is_traced, traced_atom, traced_builder
from symdiff.vocabulary.libraries import user_line


def as_atom(value: Any, builder: Builder, origin: str) -> Atom:
    """A value as an operand; lists of arrays are stacked."""
    if isinstance(value, (list, tuple)) and any(np.ndim(v) if not isinstance(v, Tracer) else v.ndim for v in value):
        arrays = Arrays(builder, origin)
        found = stack_of_rows(arrays, value, lambda v: as_atom(v, builder, origin))
        return found or bind_stack(arrays, [as_atom(v, builder, origin) for v in value])
    return traced_atom(value, builder, origin)


def holds_traced(value: Any) -> bool:
    """Whether nested lists and tuples hold a traced value."""
    if isinstance(value, (list, tuple)):
        return any(map(holds_traced, value))
    return is_traced(value)


def takes_traced(args: Iterable[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a call is given a traced value, also in nested lists and tuples."""
    return any(map(holds_traced, (*args, *kwargs.values())))


def as_array(value: Any) -> Any:
    """A traced value, or nested lists that hold one, as a traced array; anything else as NumPy's array."""
    if isinstance(value, Tracer):
        return value
    if not holds_traced(value):
        return np.asarray(value)
    origin = user_line()
    builder = traced_builder(cells(value))
    atom = as_atom(value, builder, origin)
    return Tracer(builder, atom) if atom.op != "const" else np.asarray(atom.value)


def cells(value: Any) -> list[Any]:
    """The numbers and arrays that nested lists and arrays of objects hold."""
    if isinstance(value, (list, tuple)):
        return [c for v in value for c in cells(v)]
    return value.ravel().tolist() if isinstance(value, np.ndarray) and value.dtype == object else [value]


def traced_operands(*values: Any) -> tuple[Arrays, tuple[Atom, ...]]:
    """Values as operands of the innermost trace among them, and the structural operations there."""
    origin = user_line()
    builder = traced_builder([c for v in values for c in cells(v)])
    return Arrays(builder, origin), tuple(as_atom(v, builder, origin) for v in values)


def bound(name: str, *values: Any, **params: Any) -> Any:
    """The head of this name, of values that are given, as the user's function goes on with it."""
    arrays, atoms = traced_operands(*values)
    return traced_result(arrays, arrays.bind(name, *atoms, **params))


def squares(x: Any) -> Any:
    """The squares of absolute values."""
    return x.real**2 + x.imag**2 if x.dtype.kind == "c" else x * x


def part_of(x: Any, axis: int, part: Any) -> Any:
    """The cells at a part of an index along an axis, which is counted from the front."""
    return x[(slice(None),) * axis + (part,)]


def traced_result(arrays: Arrays, atom: Atom) -> Any:
    """An atom as the value that the user's function goes on with."""
    return Tracer(arrays.builder, atom) if atom.op != "const" else atom.value
