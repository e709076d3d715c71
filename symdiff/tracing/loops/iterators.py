"""Python's iterators that hand on one item after the other, in Python, so that they are followed as generators of the user's.

Assumes functions that are followed where they are called. Guarantees the items of Python's own, in their order.
"""

import itertools
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any


def filtered(function: Any, values: Iterable[Any]) -> Iterator[Any]:
    """`filter`."""
    for value in values:
        if value if function is None else function(value):
            yield value


def accumulated(values: Iterable[Any], function: Any = None) -> Iterator[Any]:
    """`itertools.accumulate`."""
    total, begun = 0, False
    for value in values:
        total = value if not begun else total + value if function is None else function(total, value)
        begun = True
        yield total


def numbered(values: Iterable[Any], start: int = 0) -> Iterator[Any]:
    """`enumerate`."""
    number = start
    for value in values:
        yield number, value
        number += 1


def starred(function: Any, values: Iterable[Any]) -> Iterator[Any]:
    """`itertools.starmap`."""
    for args in values:
        yield function(*args)


def listed(values: Iterable[Any]) -> list[Any]:
    """`list`."""
    found = []
    for value in values:
        found.append(value)
    return found


_WRITTEN: dict[Any, Callable[..., Any]] = {
    filter: filtered, itertools.accumulate: accumulated, enumerate: numbered, itertools.starmap: starred, list: listed,
}  # fmt: skip
WRITTEN = frozenset(_WRITTEN.values())
_OF_GENERATORS = (enumerate, list)  # others have their items by number


def written_in_python(function: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Callable[..., Any] | None:
    """What gives the same as one of Python's iterators; None where it need not be followed, or is not written here."""
    if options or not args or not any(function is f for f in _WRITTEN):
        return None
    return _WRITTEN[function] if function not in _OF_GENERATORS or type(args[0]) is types.GeneratorType else None
