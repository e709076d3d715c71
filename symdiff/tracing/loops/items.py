"""What loops run over, by the number of a round: ranges, arrays by their rows, lists, `zip`, `enumerate`, `reversed` of these.

Assumes that an array keeps its rows while the loop runs (see `rounds`, which refuses writes). Guarantees the items of Python's
own iterator, for a number and for a symbol of one; what has parts then stands for the item of the list. The items of a list
have few structures, but for their numbers and arrays. Other values have no items by number.
"""

import functools
import gc
import itertools
import math
from collections.abc import Callable, Container, Iterator, Sequence
from types import NoneType
from typing import Any, NamedTuple

import numpy as np

from symdiff.ir.arrays.algebra import Arrays
from symdiff.ir.building import Builder, active_builders
from symdiff.tracing.loops.collected import Collected, plain_list
from symdiff.tracing.loops.growing import Growing
from symdiff.tracing.loops.iterators import written_in_python
from symdiff.tracing.loops.parts import is_cell, is_list_of_arrays, leaves_of, parts_of
from symdiff.tracing.loops.stores import Listed
from symdiff.tracing.state.attempt import current_keeping
from symdiff.tracing.values.integers import Integer, integers_among, traced_range
from symdiff.tracing.values.kinds import kind_of_several, traced_form
from symdiff.tracing.values.operands import as_atom, traced_result
from symdiff.tracing.values.selecting import is_same_mask
from symdiff.tracing.values.storage import Storage, View, root_of
from symdiff.tracing.values.traced_keys import item_of, read
from symdiff.tracing.values.tracer import Tracer
from symdiff.vocabulary.libraries import user_line

_VIEWS = (type({}.keys()), type({}.values()), type({}.items()))
_WAYS = 8  # structures of items, by which rounds go on
_CHOICES = 1_000_000  # of places, which are written out
_SPREAD = 100  # traced numbers that make an array, each by itself
_LONG = 10_000_000  # rounds beyond which the values of an index are not worked out


_CHOOSING: dict[Any, Callable[..., int]] = {
    itertools.combinations: math.comb,
    itertools.permutations: math.perm,
    itertools.combinations_with_replacement: lambda n, r: math.comb(n + r - 1, r) if n else 0,
}  # with how many choices there are
_PARTS = (itertools.chain, itertools.cycle, itertools.islice, itertools.repeat, itertools.count, itertools.accumulate)
_HEADS = (
    range, zip, enumerate, reversed, map, itertools.pairwise, itertools.product, *_CHOOSING, *_PARTS, np.ndenumerate,
    np.ndindex, filter, itertools.starmap,
)  # fmt: skip
_STEPPING = (zip, enumerate, type(reversed([])), *(type(iter(v)) for v in ([], (), "", range(0), range(1 << 70))))
_ENDLESS = 1 << 62  # rounds


class Header(NamedTuple):
    """A call of one of `_HEADS` that has not been made; `called` is what to call in place of a function."""

    function: Any
    args: tuple[Any, ...]
    options: dict[str, Any]
    called: Callable[[Any], Any]

    def values(self, call: Callable[[Any], Any]) -> Any:
        """What the call gives."""
        return call(self.function)(*(plain_values(a, call) for a in self.args), **self.options)


class Items(NamedTuple):
    """How many items there are, and the one of a round, whose number may be a symbol."""

    count: int | None  # None where each round tells whether there is one
    item: Callable[[Any], Any]
    goes_on: Callable[[Any], Any] | None = None  # whether there is an item, of which there are at most `count`
    reach: tuple[int, int] = (0, 0)  # the first and last integers that such items may be
    over: Any = None  # what the loop runs over
    of: Callable[[Any], Any] = lambda item: item  # what a round has, by such an item
    stop: Any = None  # the integer that such items are below
    given: Callable[[Any], Any] | None = None  # whether a round has an item


def header(call: Callable[[Any], Any], function: Any, *args: Any, **options: Any) -> Any:
    """`function(*args)` in the head of a loop: a `Header` where it is one of `_HEADS`."""
    if any(function is f for f in _HEADS):
        found = Header(function, args, options, call)
        own = written_in_python(function, args, options)
        return found if own is None or _items(found) is not None else call(own)(*(plain_values(a, call) for a in args))
    return call(function)(*(plain_values(a, call) for a in args), **options)


def plain_values(values: Any, call: Callable[[Any], Any]) -> Any:
    """What a loop runs over, as Python has it."""
    return values.values(call) if isinstance(values, Header) else values


def items_of(values: Any) -> Items | None:
    """The items of what a loop runs over, by number; None where they have none, or too many."""
    found = _items(values)
    return None if found is None or (found.count or 0) > _LONG else found._replace(over=values)


def run_over(values: Any, beside: Container[int] = ()) -> Iterator[Any]:
    """The lists, dicts and objects of which a loop's items are: its rounds have them as they were before it. Those `beside` it,
    by their identity, and what is in them, are left out.
    """
    stack, seen = [values], dict[int, Any]()
    while stack:
        value = stack.pop()
        if id(value) in seen or id(value) in beside:
            continue
        seen[id(value)] = value
        if type(value) is Growing:
            yield value.owner
        elif isinstance(value, (Header, *_VIEWS, *_STEPPING)):
            stack += value.args if isinstance(value, Header) else gc.get_referents(value)
        elif not is_cell(value) and (found := parts_of(value)) is not None:
            yield value
            yield from (own for own in (getattr(value, "__dict__", None),) if type(own) is dict)
            stack += found.parts


def is_stepping(values: Any) -> bool:
    """Whether what a loop runs over is an iterator, which others may have, too."""
    return isinstance(values, _STEPPING)


def _items(values: Any) -> Items | None:
    if isinstance(values, Header):
        return _of_header(*values)
    if isinstance(values, _STEPPING):
        return _of_iterator(*values.__reduce__())
    if type(values) is range:
        start, step = values.start, values.step
        return Items(len(values), lambda k: values[k] if type(k) is int else _affine(k, start, step))
    if type(values) is Collected:
        return _of_rows([values], lambda items: items[0]) or _items(values.whole())
    if type(values) is Growing:
        most, stop = values.reaches()
        return Items(most, lambda k: k, lambda found: found < stop, (0, most - 1), None, values.__getitem__, stop)
    if isinstance(values, Listed):
        return Items(len(values), values.__getitem__)
    if isinstance(values, Tracer):
        return Items(values.shape[0], lambda k: _now(values)[k]) if values.shape else None
    if type(values) is np.ndarray and values.ndim and values.dtype.kind in "fciub":
        return Items(len(values), lambda k: values[k] if type(k) is int else read(values, k, user_line()))
    keeping = current_keeping()
    if keeping is not None and id(values) in keeping.columns:
        return Items(len(values), lambda k: values[k] if type(k) is int else keeping.columns[id(values)].item(k))
    listed = list(values) if type(values) in (*_VIEWS, str) else values
    if type(listed) in (list, tuple) and (column := _column(listed, active_builders()[-1])) is not None:
        return Items(len(listed), lambda k: listed[k] if type(k) is int else _noted(listed, column(k)))
    return None


def _now(array: Tracer) -> Any:
    """An array, or what stands for it in rounds that change it."""
    copied = getattr(array.shared().storage, "copied", None)
    return array if copied is None else copied(array)


def _noted(values: Any, item: Any) -> Any:
    """What stands for an item of a list."""
    keeping = current_keeping()
    if keeping is not None and not is_cell(item):
        keeping.items[id(item)] = item, values
    return item


def _of_rows(lists: Sequence[Collected], together: Callable[[list[Any]], Any]) -> Items | None:
    """The items of lists to which the same rounds have appended; None where they are not known to be so."""
    rows = [values.rows() for values in lists]
    if rows[0] is None or not all(r is not None and is_same_mask(rows[0].mask, r.mask) for r in rows):
        return None

    def of(k: Any) -> Any:
        return together([values.at(r, k) for values, r in zip(lists, rows, strict=True)])

    return Items(rows[0].mask.shape[0], lambda k: k, of=of, given=rows[0].mask.__getitem__)


def _column(values: Sequence[Any], builder: Builder) -> Callable[[Any], Any] | None:
    """What gives the items of a list by a symbol of their number; None where they have too little in common."""
    ways: dict[Any, Any] = {}
    which = []
    for value in values:
        which.append(ways.setdefault(_structure(value), (len(ways), value))[0])
        if len(ways) > _WAYS:
            return None
    found: list[Any] = [
        _of_structure([v if w == way else first for v, w in zip(values, which, strict=True)], builder)
        for way, first in ways.values()
    ]
    if None in found:
        return None
    return (found or [lambda k: None])[0] if len(found) < 2 else lambda k: found[item_of(which, k).decided()](k)


def item_by_number(values: Sequence[Any], k: Any) -> Callable[[Any], Any] | None:
    """What gives the items of a list by an integer that a round tells, where they have few structures; None for numbers, and
    for lists of others, or of what the round has made.
    """
    path = k.builder.path
    if path is None or not path.is_round or not values or k.shape:
        return None
    if all(is_cell(v) and not np.shape(v) for v in values):
        return None
    opened = path.keeping.open
    if id(values) in path.keeping.columns:
        return lambda k: opened[-1].standing(path.keeping.columns[id(values)].item(within(k, len(values))))
    known = opened[0].numbered
    if id(values) not in known:
        if any(id(part) in loop.fresh for part in run_over(values) for loop in opened):
            return None  # a list of the round's own, which it may change
        builders = [v.builder for v in leaves_of(values) if isinstance(v, Tracer)]
        builder = max(builders, key=lambda b: b.level, default=opened[0].outer)
        made: Any = Listed.read(path.loop, builder, values)
        made = _column(values, builder) if made is None else made
        known[id(values)] = {id(part): part for part in run_over(values)}, builder.level, made
    read, level, found = known[id(values)]
    if found is None or level >= k.builder.level:
        return None
    for loop in opened:
        loop.read.update(read)
    if isinstance(found, Listed):
        return lambda k: opened[-1].standing(found[k])
    are_rows = is_list_of_arrays(values)

    def item(k: Any) -> Any:
        one = opened[-1].standing(_noted(values, found(within(k, len(values)))))
        if are_rows:
            root_of(one.shared().storage).watch = functools.partial(path.keeping.note_rows, values)
        return one

    return item


def within(k: Any, count: int) -> Any:
    """A place in a list, which raises where there is none, and counts from the front."""
    known = traced_range(k)
    return k if not known.nan and known.low >= 0 and known.high < count else item_of(range(count), k)


def _structure(value: Any) -> Any:
    """What items have in common that are the same but for their numbers and arrays."""
    if is_cell(value):
        return traced_form(value)[::3]
    if type(value) in (str, NoneType):
        return value
    found = parts_of(value)
    return id(value) if found is None else (found.kind, found.names, *map(_structure, found.parts))


def by_number(values: Sequence[Any], builder: Builder) -> Callable[[Any], Any] | None:
    """What gives what is alike but for its numbers and arrays; None for other things, and where too many numbers are traced."""
    alike = len({_structure(v) for v in values}) == 1
    return _of_structure(values, builder) if alike else None


def _of_structure(values: Sequence[Any], builder: Builder) -> Callable[[Any], Any] | None:
    """What gives items of one structure; None where many of them are traced, and lie nowhere together."""
    found = parts_of(values[0])
    if found is not None:
        columns: list[Any] = [_of_structure(c, builder) for c in zip(*(parts_of(v).parts for v in values), strict=True)]  # type: ignore[union-attr]
        return None if None in columns else lambda k: found.together([column(k) for column in columns])
    if not is_cell(values[0]):
        return lambda k: values[0]
    if len(values) > _SPREAD and any(isinstance(v, Tracer) and not v.shape for v in values):
        atom = as_atom(values, builder, user_line())
        if atom.op == "array":
            return None
    return lambda k: _one_of(values, k)


def _one_of(values: Sequence[Any], k: Any) -> Any:
    """One of several numbers, truths or arrays, which the run around the rounds has as one array."""
    builder, origin = k.builder.parent, user_line()
    found = traced_result(Arrays(builder, origin), as_atom(values, builder, origin))
    numbers = integers_among(found, values)
    if numbers is None:
        return values[k.decided()]
    one = read(numbers, k, origin)
    if not np.shape(values[0]):
        return one.of_kind(kind_of_several([traced_form(v) for v in values], k.decided))
    view = View.over(Storage(one.builder, one.atom, one.dtype.char, "a round changes an array that is an item of a list"))
    return type(one).showing(one.builder, view, one.dtype)


def is_number(value: Any) -> bool:
    """Whether a value is one floating number, traced or not."""
    return type(value) is float or (isinstance(value, Tracer) and not value.shape and not isinstance(value, Integer))


def _affine(k: Any, start: int, step: int) -> Any:
    found = k if step == 1 else k * step
    return found + start if start else found


def _of_ends(args: tuple[Any, ...]) -> Items | None:
    """A range whose ends the rounds of outer loops tell; None for other values."""
    start, stop, step = args if len(args) == 3 else (0, *args, 1) if len(args) == 1 else (*args, 1)
    first, last = _span(start), _span(stop)
    if first is None or last is None or type(step) is not int or not step:
        return None
    reach = (first[0], last[1] - 1) if step > 0 else (last[0] + 1, first[1])
    most = max(0, (reach[1] - reach[0]) // abs(step) + 1)

    def item(k: Any) -> Any:
        return k * step + start

    goes_on = (lambda found: found < stop) if step > 0 else (lambda found: found > stop)
    return Items(most, item, goes_on, reach, stop=stop if step > 0 else None)


def _span(end: Any) -> tuple[int, int] | None:
    """The least and the largest integer that the end of a range may be."""
    if type(end) is int or isinstance(end, np.integer):
        return int(end), int(end)
    path = end.builder.path if isinstance(end, Integer) and not end.shape else None
    if path is None or not path.is_round:
        return None
    known = path.fact(end.atom)
    low, high = known.low, known.high
    return (int(low), int(high)) if not known.nan and abs(low) < _LONG and abs(high) < _LONG else None


def _of_header(function: Any, args: tuple[Any, ...], options: dict[str, Any], called: Callable[[Any], Any]) -> Items | None:
    if function is enumerate and len(args) == 1 and options.keys() <= {"start"}:
        args, options = (*args, options.get("start", 0)), {}
    if options and (function is not zip or type(options.get("strict")) is not bool):
        return None
    if function is range:
        plain = [a for a in args if type(a) is int or isinstance(a, np.integer)]
        if plain and len(plain) == len(args) <= 3 and 0 not in plain[2:]:
            return _items(range(*map(int, plain)))
        return _of_ends(args)
    if function in (np.ndenumerate, np.ndindex):
        return _of_places(function, args)
    if function in _PARTS:
        return _of_parts(function, args)
    if function is zip and args and all(type(a) is Collected for a in args) and (rows := _of_rows(args, tuple)) is not None:
        return rows
    args = tuple(map(plain_list, args))
    if function is enumerate and type(args[0]) is Growing and type(args[1]) is int:
        found = _items(args[0])
        return found._replace(of=lambda k: (_affine(k, args[1], 1), args[0][k]))  # type: ignore[union-attr]
    inner = [_items(a) for a in (args[1:] if function is map else args[:1] if function in (enumerate, *_CHOOSING) else args)]
    if (
        any(i is None or i.goes_on for i in inner)
        or not inner
        or (options.get("strict") and len({i.count for i in inner if i}) > 1)
    ):
        return None
    counts: list[int] = [i.count for i in inner]  # type: ignore[union-attr, misc]
    if function is zip:
        return Items(min(counts), lambda k: tuple([i.item(k) for i in inner]))  # type: ignore[union-attr]
    if function is map:
        return Items(min(counts), lambda k: called(args[0])(*[i.item(k) for i in inner]))  # type: ignore[union-attr]
    if function is itertools.product:
        return _of_choices(inner, math.prod(counts), function, *map(range, counts))
    of: Any = inner[0]
    if function in _CHOOSING:
        r = args[1] if len(args) == 2 and type(args[1]) is int and args[1] > 0 else None
        return r and _of_choices([of] * r, _CHOOSING[function](of.count, r), function, range(of.count), r)
    if function is itertools.pairwise:
        return Items(max(of.count - 1, 0), lambda k: (of.item(k), of.item(k + 1))) if len(args) == 1 else None
    if function is reversed:
        if len(args) > 1 or (isinstance(args[0], Header) and args[0].function is not range):
            return None
        return Items(of.count, lambda k: of.item(of.count - 1 - k if type(k) is int else k * -1 + (of.count - 1)))
    start = args[1]
    if len(args) > 2 or type(start) is not int:
        return None
    return Items(of.count, lambda k: (start + k if type(k) is int else _affine(k, start, 1), of.item(k)))


def _of_iterator(function: Any, args: tuple[Any, ...], place: Any = 0) -> Items | None:
    """The items that an iterator still has."""
    if function not in (iter, reversed):
        steps = [a for a in args if is_stepping(a)]
        known = len(set(map(id, steps))) == len(steps) and not place and not any(isinstance(a, (zip, enumerate)) for a in steps)
        return _of_header(function, args, {}, lambda f: f) if known else None
    of, at = _items(args[0]), place or 0
    if of is None or of.count is None or of.goes_on is not None:
        return None
    if function is reversed:
        return Items(at + 1 if args[0] else 0, lambda k: of.item(k * -1 + at))
    return Items(of.count - at, lambda k: of.item(k + at))


def _of_parts(function: Any, args: tuple[Any, ...]) -> Items | None:
    """The items of what joins, repeats, picks or adds those of others."""
    if function is itertools.repeat:
        value = args[0] if args and not isinstance(args[0], Header) else None
        count = args[1] if len(args) == 2 else _ENDLESS
        return Items(max(count, 0), lambda k: value) if type(count) is int and value is not None else None
    if function is itertools.count:
        start, step = (*args, *(0, 1)[len(args) :])
        return Items(_ENDLESS, lambda k: k * step + start) if type(start) is type(step) is int else None
    inner = [_items(a) for a in (args if function is itertools.chain else args[:1])]
    if not inner or any(i is None or i.goes_on or i.count is None for i in inner):
        return None
    of, count, rest = inner[0], inner[0].count, args[1:]  # type: ignore[union-attr]
    if function is itertools.cycle:
        return Items(_ENDLESS if count else 0, lambda k: of.item(k % count))  # type: ignore[union-attr]
    if function is itertools.islice:
        if not all(v is None or (type(v) is int and v >= 0) for v in rest):
            return None
        places = range(count)[slice(*rest)]
        return Items(len(places), lambda k: of.item(k * places.step + places.start))  # type: ignore[union-attr]
    if sum(i.count for i in inner) > _LONG:  # type: ignore[union-attr, misc]
        return None
    listed = [i.item(k) for i in inner for k in range(i.count)]  # type: ignore[union-attr, arg-type]
    if function is itertools.accumulate:
        if rest or not all(type(v) in (int, float) for v in listed):
            return None
        listed = list(itertools.accumulate(listed))
    return _items(listed)


def _of_choices(inner: Sequence[Any], count: int, function: Any, *args: Any) -> Items | None:
    """The items of what chooses among those of others by their places, of which `function` gives the choices."""
    if count > _CHOICES:
        return None
    choices = list(function(*args))
    columns = list(zip(*choices, strict=True))

    def item(k: Any) -> Any:
        places = choices[k] if type(k) is int else [item_of(column, k) for column in columns]
        return tuple([i.item(place) for i, place in zip(inner, places, strict=True)])

    return Items(count, item)


def _of_places(function: Any, args: tuple[Any, ...]) -> Items | None:
    """The items of `np.ndindex` and `np.ndenumerate`."""
    told = args[0] if len(args) == 1 and (function is np.ndenumerate or type(args[0]) is tuple) else args
    shape = told.shape if isinstance(told, (Tracer, np.ndarray)) else told if function is np.ndindex else ()
    if not shape or not all(type(n) is int for n in shape):
        return None
    found = _of_choices([_items(range(n)) for n in shape], math.prod(shape), itertools.product, *map(range, shape))
    if function is np.ndindex or found is None:
        return found
    places = found.item
    return found._replace(
        item=lambda k: (place := places(k), told[place] if type(k) is int else read(told, place, user_line()))
    )
