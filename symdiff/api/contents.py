"""Integers, and arrays of integers and truths, as arguments: settings of a specialisation while few are seen in their places,
and inputs of one for any numbers from then on, where the function can be traced so.

Assumes calls of one function in turn. Guarantees that a function which must know the numbers, as the ends of a range, or which
takes one of several paths by them, has a specialisation for each.
"""

from typing import Any, NamedTuple

import numpy as np

from symdiff.api.arguments import Call, is_own
from symdiff.tracing.state.raising import check_signal
from symdiff.vocabulary.plain import loses_digits

FEW = 8  # integers that are settings, as exponents are; of arrays it is one


class Seen(NamedTuple):
    """What calls that differ in nothing else had as settings, by their places; and whether there is a specialisation for any
    numbers in some of these places.
    """

    settings: dict[int, list[Any]]
    serve: dict[tuple[int, ...], bool]


def moving_call(function: Any, call: Call, seen: dict[Any, Seen]) -> Call:
    """The call with such arguments as inputs, or as it is."""
    places = [k for k in range(len(call.leaves)) if k not in call.traced and _may_move(call.leaves[k])]
    if not places:
        return call
    known = seen.setdefault(function.signature_of(call.with_inputs(places)), Seen({}, {}))
    moving = tuple(k for k in places if _has_moved(call.leaves[k], known.settings.setdefault(k, [])))
    for group in (moving, tuple(k for k in moving if isinstance(call.leaves[k], np.ndarray))) if moving else ():
        found = call.with_inputs(group)
        if group not in known.serve:
            known.serve[group] = bool(group) and _serves_any(function, found)
        if known.serve[group]:
            return found
    return call


def refused_inputs(function: Any, call: Call, seen: dict[Any, Seen]) -> bool:
    """Whether the call had such inputs, which are settings from now on: of numbers that the function itself takes."""
    group = tuple(k for k in call.traced if is_own(call.leaves[k]))
    places = [k for k in range(len(call.leaves)) if k not in call.traced and _may_move(call.leaves[k])]
    known = seen.get(function.signature_of(call.with_inputs(places))) if group else None
    if known is None or not known.serve.get(group):
        return False
    known.serve[group] = False
    return True


def _may_move(leaf: Any) -> bool:
    if isinstance(leaf, np.ndarray):
        return leaf.dtype.kind in "iub" and leaf.flags.c_contiguous and leaf.size > 0 and not loses_digits(leaf)
    return isinstance(leaf, (int, np.integer)) and not isinstance(leaf, bool) and not loses_digits(leaf)


def _has_moved(leaf: Any, known: list[Any]) -> bool:
    """Whether more have been seen in this place than settings are."""
    few, value = (1, leaf.tobytes()) if isinstance(leaf, np.ndarray) else (FEW, leaf)
    if len(known) <= few and value not in known:
        known.append(value)
    return len(known) > few


def _serves_any(function: Any, moving: Call) -> bool:
    """Whether the function is traced to what serves any numbers."""
    try:
        function.specialised(moving, function.signature_of(moving), "merge")
    except Exception as error:  # it is traced with the numbers then, and raises there what is its own
        check_signal(error)
        return False
    return True
