"""What loops run over, by the number of a round: ranges, arrays by their rows, `zip`, `enumerate` and `reversed` of these.

Assumes that an array keeps its rows while the loop runs (see `rounds`, which refuses writes). Guarantees the items of Python's
own iterator, for a number and for a symbol of one. Other values have no items by number.
"""

import builtins
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from symdiff.ir.building import stack_of_cells
from symdiff.tracing.loops.keeping import FEW
from symdiff.tracing.values.integers import Integer
from symdiff.tracing.values.kinds import kind_of_several, traced_form
from symdiff.tracing.values.traced_keys import item_of, read
from symdiff.tracing.values.tracer import Tracer
from symdiff.vocabulary.libraries import user_line

_LONG = 10_000_000  # rounds beyond which the values of an index are not worked out
_CELLS = 1_000  # of a list


class Header(NamedTuple):
    """A call of `range`, `zip`, `enumerate` or `reversed` that has not been made."""

    function: Any
    args: tuple[Any, ...]
    options: dict[str, Any]

    def values(self, call: Callable[[Any], Any]) -> Any:
        """What the call gives."""
        return call(self.function)(*(plain_values(a, call) for a in self.args), **self.options)


class Items(NamedTuple):
    """How many items there are, and the one of a round, whose number may be a symbol."""

    count: int | None  # None where each round tells whether there is one
    item: Callable[[Any], Any]
    goes_on: Callable[[Any], Any] | None = None  # whether there is an item, of which there are at most `count`
    reach: tuple[int, int] = (0, 0)  # the first and last integers that such items may be


def header(call: Callable[[Any], Any], function: Any, *args: Any, **options: Any) -> Any:
    """`function(*args)` in the head of a loop: a `Header` where it is one of Python's own."""
    if any(function is f for f in (builtins.range, builtins.zip, builtins.enumerate, builtins.reversed)):
        return Header(function, args, options)
    return call(function)(*(plain_values(a, call) for a in args), **options)


def plain_values(values: Any, call: Callable[[Any], Any]) -> Any:
    """What a loop runs over, as Python has it."""
    return values.values(call) if isinstance(values, Header) else values


def items_of(values: Any) -> Items | None:
    """The items of what a loop runs over, by number; None where they have none, or too many."""
    found = _items(values)
    return None if found is None or (found.count or 0) > _LONG else found


def _items(values: Any) -> Items | None:
    if isinstance(values, Header):
        return _of_header(values.function, values.args, values.options)
    if type(values) is range:
        start, step = values.start, values.step
        return Items(len(values), lambda k: values[k] if type(k) is int else _affine(k, start, step))
    if isinstance(values, Tracer):
        return Items(values.shape[0], lambda k: values[k]) if values.shape else None
    if type(values) is np.ndarray and values.ndim and values.dtype.kind in "fciu":
        return Items(len(values), lambda k: values[k] if type(k) is int else read(values, k, user_line()))
    if type(values) is list and (appended := _appended(values)) is not None:
        return Items(len(values), lambda k: values[k] if type(k) is int else appended(k))
    alike = type(values) in (list, tuple) and (all(map(is_number, values)) or all(type(v) is int for v in values))
    if alike and len(values) <= _CELLS:
        return Items(len(values), lambda k: values[k] if type(k) is int else item_of(values, k))
    return None


def _appended(values: list[Any]) -> Callable[[Any], Any] | None:
    """What gives the items of a list to which the rounds of another loop have appended all but a few."""
    cell = values[-1].atom if values and is_number(values[-1]) and isinstance(values[-1], Tracer) else None
    count = math.prod(cell.operands[0].shape) if cell is not None and cell.op == "item" else 0
    before, behind = values[: len(values) - count], values[len(values) - count :]
    if not (len(before) <= FEW and count and all(map(is_number, values)) and all(isinstance(v, Tracer) for v in behind)):
        return None
    whole = stack_of_cells([v.atom for v in behind])
    if whole is None or any(v.kind is not behind[0].kind for v in behind):
        return None
    rest = Tracer(behind[0].builder, whole)
    found = np.concatenate([np.stack(before), rest]) if before else rest  # type: ignore[arg-type, list-item]
    forms = [traced_form(v) for v in (*before, behind[0])]
    return lambda k: read(found, k, user_line()).of_kind(kind_of_several(forms, lambda: min(k.decided(), len(before))))


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

    return Items(most, item, lambda found: found < stop if step > 0 else found > stop, reach)


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


def _of_header(function: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Items | None:
    if options and (function is not builtins.zip or type(options["strict"]) is not bool):
        return None
    if function is builtins.range:
        plain = [a for a in args if type(a) is int or isinstance(a, np.integer)]
        if plain and len(plain) == len(args) <= 3 and 0 not in plain[2:]:
            return _items(range(*map(int, plain)))
        return _of_ends(args)
    inner = [_items(a) for a in (args[:1] if function is builtins.enumerate else args)]
    if (
        any(i is None or i.goes_on for i in inner)
        or not inner
        or (options.get("strict") and len({i.count for i in inner if i}) > 1)
    ):
        return None
    if function is builtins.zip:
        return Items(min(i.count for i in inner), lambda k: tuple([i.item(k) for i in inner]))  # type: ignore[union-attr]
    of: Any = inner[0]
    if function is builtins.reversed:
        if len(args) > 1 or (isinstance(args[0], Header) and args[0].function is not builtins.range):
            return None
        return Items(of.count, lambda k: of.item(of.count - 1 - k if type(k) is int else k * -1 + (of.count - 1)))
    start = args[1] if len(args) == 2 else 0
    if len(args) > 2 or type(start) is not int:
        return None
    return Items(of.count, lambda k: (start + k if type(k) is int else _affine(k, start, 1), of.item(k)))
