"""How the cells of traced arrays lie in memory, which NumPy tells of what it gives for arrays that lie like their operands.

Assumes views (see `storage`). Guarantees NumPy's own order for what is made of arrays whose cells do not lie in C's. Refuses,
with `TraceError`, questions about parts of arguments that lie apart.
"""

from typing import Any

import numpy as np

from symdiff.errors import TraceError
from symdiff.tracing.state.attempt import given_argument, given_arguments, need_contents, note_kinds
from symdiff.tracing.values.kinds import LAYOUT
from symdiff.tracing.values.operators import Operators
from symdiff.tracing.values.storage import root_of, storage_cells
from symdiff.vocabulary.heads import Shape
from symdiff.vocabulary.libraries import user_line
from symdiff.vocabulary.signatures import Arguments


def in_traced_order(value: Any, operands: Arguments, copies: bool = False) -> Any:
    """What an elementwise function gives, in the order in memory that NumPy gives it for these operands; `copies`: that of a
    copy of the only one.
    """
    if len(value._shape) > 1 and any(has_traced_order(o) for o in operands):
        places = [o._place() if isinstance(o, Operators) and o.shape else np.empty(np.shape(o), np.int8)  # type: ignore[call-overload]
                  if isinstance(o, (Operators, list, tuple)) else o for o in operands]  # fmt: skip
        lying_as(value, np.copy(places[0], "K") if copies else np.nditer([*places, None], flags=["zerosize_ok"]).operands[-1])
    return value


def lying_as(value: Any, place: np.ndarray) -> Any:
    """A new array whose cells lie in the order of another's."""
    if value.ndim > 1 and not (place.flags.c_contiguous and value.held is None):
        value._held = storage_cells(value.builder, value.atom, value.dtype.char, place, user_line())
    return value


def has_traced_order(value: Any) -> bool:
    """Whether the cells of an array do not lie in memory in their own order."""
    place = _memory(value)
    return isinstance(place, np.ndarray) and place.ndim > 1 and not place.flags.c_contiguous


def traced_order(value: Any) -> Shape:
    """What NumPy makes the order of new arrays from: the strides of an array without gaps, those that are 0 or the same kept
    so; empty where that is C's order.
    """
    place = _memory(value)
    if not isinstance(place, np.ndarray):
        return () if isinstance(place, Operators) else getattr(place, "order", ())  # of one that stands for an array
    return _order(place)


def traced_layout(value: Any) -> Any:
    """All that tells how an array lies in memory."""
    return (
        (value.strides, value.flags.num, value.dtype.str)
        if type(value) is np.ndarray
        else (traced_order(value), lies_apart(value))
    )


def traced_memory(value: Any, whole: bool = True) -> Any:
    """An array that lies in memory as a traced one does, for a function that asks: calls are then told apart by how arguments
    lie. Not followed are parts of arguments that lie apart; without `whole` nor are these.
    """
    root = root_of(value.shared().storage) if value.has_memory() else None
    if root is None or not root.refusal:
        return value._place()
    need_contents(value)
    note_kinds(LAYOUT)
    own = given_argument(value) if whole else None
    for lies in [own] if own is not None else [a for made, a in given_arguments() if root is root_of(made.shared().storage)]:
        lies = traced_memory(lies, whole) if isinstance(lies, Operators) else lies
        if own is not None and isinstance(lies, np.ndarray):
            return lies
        if lies_apart(lies):
            raise TraceError(
                f"{user_line()}: asks how a part of an argument lies in memory, whose cells lie apart or are read-only; "
                "take np.ascontiguousarray(x) before"
            )
    return value._place()


def lies_apart(array: Any) -> bool:
    """Whether an array, or what stands for one, lies in memory otherwise than new ones."""
    if not isinstance(array, np.ndarray):
        return getattr(array, "apart", False)
    return not (array.flags.behaved and (array.flags.c_contiguous or np.empty_like(array).strides == array.strides))


def traced_points_order(value: Any, axis: int) -> Shape:
    """The same of the arrays that a value has along its first axis, 0, or its last one, -1."""
    place = _memory(value)
    if not isinstance(place, np.ndarray) or place.ndim < 3 or place.flags.c_contiguous or not place.size:
        return ()
    return _order(place[0] if axis == 0 else place[..., 0])


def _memory(value: Any) -> Any:
    """The layout of a traced array that shows cells; anything else as it is."""
    return value._held.layout() if isinstance(value, Operators) and value._held is not None else value


def _order(place: np.ndarray) -> Shape:
    if place.ndim < 2 or place.flags.c_contiguous:
        return ()
    like = np.empty_like(place, np.int8)  # for NumPy decides about axes of one cell, too
    steps = [abs(step) for step in place.strides]
    found = tuple(
        own if n == 1 else step and min(o for o, s in zip(like.strides, steps, strict=True) if s == step)
        for n, step, own in zip(place.shape, steps, like.strides, strict=True)
    )
    return () if like.flags.c_contiguous and found == like.strides else found
