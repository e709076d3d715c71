"""Arrays made inside a traced function, which can be assigned to: `y = np.zeros(n); y[i] = ...; y[1:-1] += ...`.

Assumes floating, complex, integer or Boolean arrays. Guarantees NumPy's own meaning of assignments: a value takes the array's
dtype, and every view of the array sees it (see `storage`). Refuses assignments to the caller's arrays, and complex values in
real arrays, with `TraceError`.
"""

from typing import Any

import numpy as np

from symdiff.errors import ItemError, TraceError
from symdiff.ir.arrays.indexing import is_basic, view_key
from symdiff.ir.building import Builder
from symdiff.ir.node import ArrayConstant, Atom, Constant
from symdiff.tracing.values.integers import Integer, is_integer_value, truncated
from symdiff.tracing.values.kinds import integers_held, refuse_integers, refuse_wrapping
from symdiff.tracing.values.members import copy_of
from symdiff.tracing.values.operands import as_array, as_atom
from symdiff.tracing.values.storage import (
    CELLS,
    Storage,
    View,
    is_read_late,
    read_late,
    root_of,
    storage_cells,
    storage_constant,
)
from symdiff.tracing.values.traced_keys import is_traced_key, write
from symdiff.tracing.values.tracer import Tracer, assigned, home_builder, traced_atom, traced_builder
from symdiff.vocabulary import structures
from symdiff.vocabulary.libraries import user_line
from symdiff.vocabulary.signatures import Arguments, Function, Keywords


@assigned.written
def assign(target: Tracer, key: Any, value: Any) -> None:
    """`target[key] = value` on a traced array."""
    origin = user_line()
    if not target.has_memory():
        raise ItemError(f"{origin}: assignment into a traced number")
    if is_traced_key(key):
        write(target, key, value, origin)
        return
    view = target.shared()
    view.storage.check_open(origin)
    counted = target.own_dtype() if isinstance(target, Integer) else root_of(view.storage).counted
    if counted is not None:
        if not isinstance(target, Integer):
            check_integers(value)
        own = _integers_given(value)
        if own is not None and not np.can_cast(own, counted) and (counted.itemsize < 4 or counted.kind == "u"):
            refuse_wrapping(counted)
    try:
        found = view.sliced(view_key(key)) if is_basic(key) else view.numbers()[key]
    except IndexError as error:
        raise IndexError(f"{origin}: {error}") from None
    given = value.held if isinstance(value, Tracer) else None
    if given is not None and (found.reads_written(given) if isinstance(found, View) else _masked_late(view, key, found, given)):
        raise read_late(origin)
    if isinstance(found, View):
        if given is None or not given.is_at(found):
            found.write(converted(target, value, origin), origin)
        return  # without assigning where `y[1:] += 1` ends by assigning the slice to itself
    view.storage.write_at(np.asarray(found), converted(target, value, origin), origin)


def _masked_late(view: View, key: Any, found: np.ndarray, given: View) -> bool:
    """Whether cells are read after they were written: under a mask of the whole array NumPy takes no copy before."""
    mask = key[0] if isinstance(key, tuple) and len(key) == 1 else key
    whole = not isinstance(mask, tuple) and np.asarray(mask).dtype == bool and np.shape(mask) == view.place.shape
    return whole and view.storage is given.storage and given.place.size == found.size and is_read_late(found, given.numbers())


def converted(target: Tracer, value: Any, origin: str) -> Atom | np.ndarray:
    """A value with the array's dtype, as NumPy's assignment gives it: an atom, or an array of atoms."""
    builder, dtype = target.builder, target.dtype
    if isinstance(value, Tracer) and value.is_of_integers() and not target.is_of_integers():
        value = value * 1.0
    if isinstance(target, Integer):
        value = _whole(value)
    elif dtype.kind == "b" and not (isinstance(value, Tracer) and value.dtype.kind == "b"):
        value = as_array(value) != 0
    cells = value._shown() if isinstance(value, Tracer) else None
    if cells is not None and value.builder is builder:
        found = np.empty(cells.shape, dtype=object)
        found.reshape(-1)[:] = [_cast(builder, c, dtype, origin) for c in cells.flat]
        return found
    return _cast(builder, as_atom(value, builder, origin), dtype, origin)


def _cast(builder: Builder, atom: Atom, dtype: Any, origin: str) -> Atom:
    complexes = isinstance(atom.value, complex) if isinstance(atom, Constant) else (atom.dtype or "d") in "FD"
    if complexes and dtype.kind != "c":
        raise TraceError(f"{origin}: a complex value in an array of {dtype}; make the array with dtype=complex")
    if isinstance(atom, ArrayConstant):
        return ArrayConstant(atom.value.astype(dtype))
    if isinstance(atom, Constant):
        return Constant(dtype.type(atom.value).item(), "D" if dtype.char == "D" else None)
    return builder.cast(atom, dtype.char)


def _integers_given(value: Any) -> Any:
    """The dtype of integers that are assigned; None for a number of Python's, which takes the array's, and for others."""
    if isinstance(value, Tracer):
        return value.own_dtype() if isinstance(value, Integer) else value.integers_held()
    dtype = None if type(value) in (int, bool, float, complex) else np.asarray(value).dtype
    return dtype if dtype is not None and dtype.kind in "iu" else None


def check_integers(value: Any) -> None:
    """Refuse other numbers for what NumPy has as integers."""
    if not _holds_integers(value):
        refuse_integers("assignment of other numbers into what is made of")


def _holds_integers(value: Any) -> bool:
    if isinstance(value, Tracer):
        return value.is_of_integers() or is_integer_value(value)
    return is_integer_value(value if isinstance(value, int) else np.asarray(value))


def array_dtype(x: Any) -> Any:
    """The dtype of the array that a value is, or becomes: what is assigned to its cells takes it."""
    return x.own_dtype() if isinstance(x, Integer) else x.dtype if isinstance(x, Tracer) else np.asarray(x).dtype


def _whole(value: Any) -> Any:
    """What an array of integers holds of a value."""
    if is_integer_value(value):
        return value
    found = as_array(value)
    return truncated(found) if isinstance(found, Tracer) else np.trunc(found)


# -- arrays without traced cells


def untraced(value: Any) -> Any:
    """A value without traced cells as NumPy's own; None where there are some."""
    if isinstance(value, Tracer):
        cells = value._shown()
        if cells is None or not all(isinstance(c, Constant) for c in cells.flat):
            return None
        found = np.array([c.value for c in cells.flat]).reshape(cells.shape)
        return found.astype(np.int64 if isinstance(value, Integer) else value.dtype)
    return None if isinstance(value, np.ndarray) and value.dtype == object else value


def compute_untraced(function: Function, args: Arguments, kwargs: Keywords) -> Any:
    """A function of arrays without traced cells, computed by NumPy; arrays come back as ones that can be assigned to.

    None where the result is a view of an argument.
    """
    builder = traced_builder(structures.all_leaves((args, kwargs)))
    args, kwargs = structures.map_leaves(lambda v: untraced(v) if isinstance(v, Tracer) else v, (args, kwargs))
    with np.errstate(all="ignore"):
        result = function(*args, **kwargs)
    given = [v for v in structures.all_leaves((args, kwargs)) if isinstance(v, np.ndarray)]
    made = [v for v in structures.all_leaves(result) if isinstance(v, np.ndarray)]
    if any(np.may_share_memory(a, b) for a in given for b in made):
        return None
    return structures.map_leaves(lambda v: filled(builder, v) if isinstance(v, np.ndarray) else v, result)


# -- new arrays


def own(builder: Builder, held: Atom | np.ndarray, dtype: Any) -> Tracer:
    """A traced array over cells of its own: an atom, or an array of atoms."""
    return Tracer.showing(builder, View.over(Storage(builder, held, np.dtype(dtype).char)), np.dtype(dtype))


@copy_of.written
def copied(value: Tracer, place: np.ndarray) -> Tracer:
    """A traced array in memory of its own, which lies like `place`."""
    home = home_builder(value.builder)
    cells = value._shown() if home is value.builder else None
    held = traced_atom(value, home, user_line()) if cells is None else cells
    found = storage_cells(home, held, value.dtype.char, place, user_line())
    copy = value.like(found) if home is value.builder else type(value).showing(home, found, value.dtype)
    if (dtype := value.integers_held()) is not None:
        copy.note_integers(dtype)
    return copy  # type: ignore[no-any-return]


def filled(builder: Builder, plain: np.ndarray, counted: bool = False) -> Any:
    """An array that NumPy made, of numbers or traced numbers, as one to assign to; integers and Booleans stay as they are, but
    where they are `counted`.
    """
    builder = home_builder(builder)
    if plain.dtype == object:
        return _of_objects(builder, plain)
    if plain.dtype.kind in "iu" and counted:
        found = Integer.of(filled(builder, plain.astype(float)))
        found.note_integers(plain.dtype)
        return found
    if plain.dtype.char not in ("fdFD?" if counted else "fdFD"):
        return plain
    held = storage_constant(builder, plain, user_line()) if plain.size > CELLS else np.empty(plain.shape, dtype=object)
    if plain.size <= CELLS:
        code = "D" if plain.dtype.char == "D" else None  # that it is complex is told by its dtype
        held.reshape(-1)[:] = [Constant(v, code) for v in plain.ravel().tolist()]
    view = storage_cells(builder, held, plain.dtype.char, plain, user_line())
    return Tracer.showing(builder, view, plain.dtype)


def array_of(values: list[Any]) -> Any:
    """Traced and plain numbers as a traced array."""
    cells = np.empty(len(values), dtype=object)
    cells[:] = values
    return filled(traced_builder(values), cells)


def _of_objects(builder: Builder, cells: np.ndarray) -> Any:
    """An array of traced and plain numbers; one of anything else stays as it is."""
    kinds = []
    for cell in cells.flat:
        if isinstance(cell, (Tracer, np.generic)) and cell.shape == ():
            kinds.append(array_dtype(cell))
        elif isinstance(cell, (float, int, complex)):
            kinds.append(type(cell))
        else:
            return cells
    joined = np.result_type(*kinds) if kinds else np.dtype(float)
    dtype = joined if joined.kind in "fcb" else np.dtype(float)
    origin = user_line()
    atoms = np.empty(cells.shape, dtype=object)
    atoms.reshape(-1)[:] = [as_atom(c, builder, origin) for c in cells.ravel()]
    counted = integers_held(atoms)
    atoms.reshape(-1)[:] = [_cast(builder, a, dtype, origin) for a in atoms.ravel()]
    found = own(builder, atoms, dtype)
    found.note_integers(counted or found.dtype)
    return found
