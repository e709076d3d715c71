"""A walk over what depends on one another, however deep.

Assumes dependences without circles. Guarantees that each thing is worked out once, after what it depends on.
"""

from collections.abc import Callable, Iterable
from typing import Any


def worked_out(key: Any, known: dict[Any, Any], below: Callable[[Any], Iterable[Any]], made: Callable[[Any], Any]) -> Any:
    """What is `known` of a key; where nothing is, it is `made` of what is known of the keys `below` it, however deep."""
    stack = [key]
    while stack:
        top = stack[-1]
        missing = () if top in known else [o for o in below(top) if o not in known]
        if missing:
            stack += missing
        elif stack.pop() not in known:
            known[top] = made(top)
    return known[key]
