"""What clones of the user's functions call at their loops, and where they change or make things.

Assumes loops that `rewriting` handed over. Guarantees that a loop which may not be kept runs as it is, round by round.
"""

import itertools
import sys
from collections.abc import Callable, Iterator, Mapping
from types import GeneratorType, MappingProxyType
from typing import Any

from symdiff.tracing.loops.collected import plain_list
from symdiff.tracing.loops.items import Items, items_of, plain_values
from symdiff.tracing.loops.keeping import FEW, Keeping
from symdiff.tracing.loops.rounds import KeptRounds, Told
from symdiff.tracing.loops.states import Taker
from symdiff.tracing.loops.stores import Listed
from symdiff.tracing.state.attempt import current
from symdiff.tracing.values.tracer import Tracer

_PLAINLY = sum([1e16, 1.0, 1.0]) == 1e16  # whether the running Python's `sum` keeps nothing of what rounding loses


class AsWritten:
    """A loop that runs as it is; a `while` over nothing."""

    moved = False
    values: Mapping[str, Any] = MappingProxyType({})
    unbound: tuple[str, ...] = ()

    def __init__(self, values: Any) -> None:
        self._values = values
        self._left = False

    def __iter__(self) -> Iterator[Any]:
        for value in self._values:
            yield value
            if self._left:
                return

    def ends(self, goes_on: Any) -> bool:
        """Whether a `while` has no further round."""
        return not goes_on

    def leave(self) -> None:
        """The loop ends with this round."""
        self._left = True


def rounds(call: Callable[[Any], Any], values: Any, *told: Any) -> Any:
    """What a loop runs over: `values`, or rounds of which most are one of symbols. A `while` has no values."""
    *parts, reason = told
    found = Told(*parts)
    attempt = current()
    keeping: Keeping | None = None if attempt is None else attempt.keeping
    frame = sys._getframe(1)
    where = (frame.f_code.co_filename, *found.place)
    if keeping is not None and where in keeping.settled:
        values = plain_list(values)
    if keeping is not None and where not in keeping.reasons:
        items = Items(None, lambda k: None) if values is None else items_of(values)
        if not reason and type(values) is GeneratorType:
            apart = {*found.stored, *found.reached}.difference(found.added)
            return Taker(keeping, values, found.names, apart, found.targets, found.behind, frame)
        if not reason and found.yields and frame not in keeping.takers:
            reason = "a round yields to what is no loop"
        if not reason and items is None and not (type(values) is list and len(values) <= FEW):
            reason = "what it runs over has no items by number"
        if not reason and items is not None and not keeping.is_few(items.count):
            return KeptRounds(keeping, where, items, found, frame)
        if reason:
            keeping.reasons[where] = reason
    plain = itertools.repeat(None) if values is None else plain_values(values, call)
    if keeping is not None and where not in keeping.reasons and type(getattr(items, "count", None)) is int:
        plain = keeping.few(plain, items.count)
    return plain if told[-1] else AsWritten(plain)


def summed(
    call: Callable[[Any], Any], function: Any, terms: Callable[[Any], Iterator[Any]] | None, values: Any, place: tuple[int, int]
) -> Any:
    """`sum(terms(values))`, or `sum(values)`, as the loop that it is where Python's own adds term by term."""
    attempt = current()
    keeping: Keeping | None = None if attempt is None else attempt.keeping
    where = (sys._getframe(1).f_code.co_filename, *place)
    if keeping is not None and where in keeping.settled:
        values = plain_list(values)
    items = items_of(values) if keeping is not None and where not in keeping.reasons and function is sum and _PLAINLY else None
    taken = keeping is not None and type(values) is GeneratorType and function is sum and _PLAINLY
    if keeping is None or (not taken and (items is None or items.count is None or keeping.is_few(items.count))):
        plain = plain_values(values, call)
        return call(function)(plain if terms is None else terms(plain))
    total: Any = 0
    told = Told(("total",), (), (), (), (), (), ("total",), False, False, place)
    loop: Any
    if taken:
        loop = Taker(keeping, values, told.names, set(), (), told.behind, sys._getframe())
    else:
        loop = KeptRounds(keeping, where, items, told, sys._getframe())  # type: ignore[arg-type]
    for item in loop:
        total = loop.values.get("total", total)
        (term,) = [item] if terms is None else terms([item])
        total = total + term
    return loop.values.get("total", total)


def storing(owner: Any, grows: bool = False) -> Any:
    """What is assigned to an item or attribute of, or, with `grows`, a list to which items are appended."""
    attempt = current()
    if attempt is not None and attempt.keeping is not None and not isinstance(owner, (Tracer, Listed)):
        attempt.keeping.check_change(owner, grows)
    return owner


def made(value: Any) -> Any:
    """A list, a dict or an object that is made here."""
    attempt = current()
    return value if attempt is None or attempt.keeping is None else attempt.keeping.made(value)
