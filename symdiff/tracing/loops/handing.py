"""What clones of the user's functions call at their loops, and where they change or make things.

Assumes loops that `rewriting` handed over. Guarantees that a loop which may not be kept runs as it is, round by round.
"""

import itertools
import math
import operator
import sys
from collections.abc import Callable, Iterator
from types import GeneratorType
from typing import Any, NamedTuple

from symdiff.tracing.loops.collected import plain_list
from symdiff.tracing.loops.columns import Changing, Placing, begin_columns
from symdiff.tracing.loops.items import Items, by_number, items_of, plain_values
from symdiff.tracing.loops.keeping import FEW, Keeping
from symdiff.tracing.loops.of_integers import are_integers
from symdiff.tracing.loops.parts import is_list_of_arrays
from symdiff.tracing.loops.rounds import KeptRounds, Told
from symdiff.tracing.loops.states import Taker
from symdiff.tracing.loops.stores import Listed
from symdiff.tracing.state.attempt import current
from symdiff.tracing.values.flat import Flat
from symdiff.tracing.values.tracer import Tracer

_WHOLE = (list, tuple, max, min, sorted, math.fsum)  # which take all that a generator gives


class Fold(NamedTuple):
    """How all that a generator gives becomes one value, two joined at a time."""

    join: Callable[[Any, Any], Any]
    begin: Any = None  # a number, where there is a function that does the same
    function: Any = None

    @property
    def grows(self) -> bool:
        """Whether it is a list."""
        return self.function is None


class AsWritten:
    """A loop that runs as it is; a `while` over nothing."""

    moved = False
    unbound: tuple[str, ...] = ()

    def __init__(self, values: Any) -> None:
        self.written = values
        self.values: dict[str, Any] = {}
        self._left = False

    def __iter__(self) -> Iterator[Any]:
        values, self.written = self.written, None  # a generator that nobody has any more ends with its loop
        for value in values:
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
    frame = sys._getframe(1)
    found = _rounds(call, values, Told(*parts), reason, frame, frame.f_code.co_filename, None)
    return found.written if reason else found


def _rounds(call: Callable[[Any], Any], values: Any, found: Told, reason: str, frame: Any, file: str, terms: Any) -> Any:
    """`terms` is the function that has the names of a comprehension; those of others are the frame's."""
    attempt = current()
    keeping: Keeping | None = None if attempt is None else attempt.keeping
    where = (file, *found.place)
    if keeping is not None:
        keeping.note_taken(values)
    if keeping is not None and where in keeping.settled:
        values = plain_list(values)
    if keeping is not None and not reason and keeping.runs(found.read, lambda read: are_integers(values, read, frame, terms)):
        plain = itertools.repeat(None) if values is None else plain_values(values, call)
        return AsWritten(keeping.integers(where, plain))
    if keeping is not None and where not in keeping.reasons:
        if not reason:
            begin_columns(keeping, where, frame.f_locals, by_number)
        items = Items(None, lambda k: None) if values is None else items_of(values)
        if not reason and type(values) is GeneratorType:
            apart = {*found.stored, *found.reached}.difference(found.added)
            return Taker(keeping, values, found.names, apart, found.targets, found.behind, frame)
        if not reason and found.yields and frame not in keeping.takers:
            reason = "a round yields to what is no loop"
        if not reason and items is None and not (type(values) in (list, tuple) and len(values) <= FEW):
            reason = "what it runs over has no items by number"
        if not reason and items is not None and not keeping.is_few(where, items.count):
            return KeptRounds(keeping, where, items, found, frame)
        if reason:
            keeping.reasons[where] = reason
    if keeping is not None:
        keeping.end_columns(where)
    plain = itertools.repeat(None) if values is None else plain_values(values, call)
    if keeping is not None and where not in keeping.reasons and type(getattr(items, "count", None)) is int:
        plain = keeping.few(where, plain, items.count)
    return AsWritten(plain)


def given_to(call: Callable[[Any], Any], function: Any, *source: Any) -> Any:
    """`function(items)` of a generator, which are all made before where it takes all of them; sums and products are the loops
    that they are, where Python's own adds term by term.

    `source`: how many loops the generator has, one in another; what makes items from some of those that the outermost one runs
    over, or the inner ones for each; what it runs over; what it reads, where it is one of integers alone; its place.
    """
    attempt, file = current(), sys._getframe(1).f_code.co_filename
    if attempt is not None and attempt.keeping is not None:
        fold = next((fold for fold in _FOLDS if fold.function is function), None)
        if fold is not None:
            return _folded(call, file, fold, fold.begin, source)
        if any(function is f for f in _WHOLE):
            return call(function)(_folded(call, file, _LIST, attempt.keeping.made([]), source))
    return call(function)(_generated(call, *source))


def listed(call: Callable[[Any], Any], *source: Any) -> Any:
    """The list that a comprehension makes; its `source` as that of `given_to`."""
    attempt = current()
    if attempt is None or attempt.keeping is None:
        return [*_generated(call, *source)]
    return _folded(call, sys._getframe(1).f_code.co_filename, _LIST, attempt.keeping.made([]), source)


def _generated(call: Callable[[Any], Any], depth: int, terms: Any, values: Any, read: Any, place: Any) -> Any:
    """What makes the items of all loops of a generator, one after the other."""
    found = terms(plain_values(values, call))
    return found if depth < 2 else (item for inner in found for item in _generated(call, depth - 1, *inner))


def _folded(call: Any, file: str, fold: Fold, found: Any, source: tuple[Any, ...]) -> Any:
    """What `found` becomes with all items, the inner loops for each of the outer one's."""
    depth, terms, values, read, place = source  # one argument: a tuple of all of them would hold what is found, too
    grown = ("found",) if fold.grows else ()
    told = Told(("found",), (), grown, (), (), (), ("found",), False, False, read, place)
    loop = _rounds(call, values, told, "", sys._getframe(), file, terms)
    if type(loop) is AsWritten and depth < 2 and type(found) is int and found == fold.begin:
        return call(fold.function)(terms(loop.written))
    for item in loop:
        found = loop.values.pop("found", found)
        for term in terms([item]):
            found = fold.join(found, term) if depth < 2 else _folded(call, file, fold, found, (depth - 1, *term))
    return loop.values.pop("found", found)


def _appended(items: Any, item: Any) -> Any:
    storing(items, True)
    items.append(item)
    return items


_LIST = Fold(_appended)
_FOLDS = [Fold(operator.mul, 1, math.prod)]
if sum([1e16, 1.0, 1.0]) == 1e16:  # as long as the running Python's keeps nothing of what rounding loses
    _FOLDS.append(Fold(operator.add, 0, sum))


def storing(owner: Any, grows: bool = False) -> Any:
    """What is assigned to an item or attribute of, or, with `grows`, a list to which items are appended."""
    attempt = current()
    if attempt is not None and attempt.keeping is not None and not isinstance(owner, (Tracer, Flat, Listed, Changing, Placing)):
        if attempt.keeping.open and not grows and is_list_of_arrays(owner):
            return Placing(attempt.keeping, owner)
        columns = attempt.keeping.columns_with(owner)
        if columns is not None and not grows:
            return Changing(columns, owner)
        attempt.keeping.check_change(owner, grows)
    return owner


def made(value: Any) -> Any:
    """A list, a dict or an object that is made here."""
    attempt = current()
    return value if attempt is None or attempt.keeping is None else attempt.keeping.made(value)
