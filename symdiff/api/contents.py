"""Arrays of integers and truths as arguments: settings of a specialisation while they hold the same numbers, and inputs of one
for any numbers once they have held others, where the function can be traced so.

Assumes calls of one function in turn. Guarantees that a function which must know the numbers, as the ends of a range, or which
takes one of several paths by them, has a specialisation for each contents. What is seen of arrays are their only contents so
far, then whether there is a specialisation for any.
"""

from typing import Any

import numpy as np

from symdiff.api.arguments import Call
from symdiff.api.compiled import Guarded
from symdiff.tracing.trace import OwnArray
from symdiff.vocabulary.plain import loses_digits

Seen = dict[Any, list[bytes] | bool]  # by the signatures of calls that have the arrays as inputs


def moving_call(function: Any, call: Call, seen: Seen) -> Call:
    """The call with these arrays as inputs, or as it is."""
    settings = [k for k in range(len(call.leaves)) if k not in call.traced and _is_array(call.leaves[k])]
    if not settings:
        return call
    moving = call.with_inputs(settings)
    key = function.signature_of(moving)
    contents = [call.leaves[k].tobytes() for k in settings]
    known = seen.setdefault(key, contents)
    if isinstance(known, list) and known != contents:
        known = seen[key] = _serves_any(function, moving, key)
    return moving if known is True else call


def refused_inputs(function: Any, call: Call, seen: Seen) -> bool:
    """Whether the call had such inputs, which are settings from now on: of numbers that the function itself takes."""
    inputs = any(type(leaf) is OwnArray for leaf in call.leaves)
    if inputs:
        seen[function.signature_of(call)] = False
    return inputs


def _is_array(leaf: Any) -> bool:
    plain = isinstance(leaf, np.ndarray) and leaf.dtype.kind in "iub" and leaf.flags.c_contiguous
    return plain and leaf.size > 0 and not loses_digits(leaf)


def _serves_any(function: Any, moving: Call, key: Any) -> bool:
    """Whether the function is traced to what serves any contents."""
    try:
        compiled = function.specialised(moving, key)
    except Exception:  # it is traced with the numbers then, and raises there what is its own
        return False
    return not isinstance(compiled, Guarded)
