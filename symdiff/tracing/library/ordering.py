"""Python's own `max`, `min`, `sorted` and `list.sort` of traced numbers.

Assumes arguments that may be traced; without traced ones, with a key, or of what are no numbers, Python's own functions are
called. Guarantees what Python gives, NaN and the signs of zeros included, for extremes and for two numbers in order. Of three
and more in order all are NaN where one is, since Python's own order of them differs from version to version; zeros may change
places. Tied numbers share the slope: n of an extreme 1/n each, two that are put in order 1/2.
"""

import functools
import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from symdiff.ir.building import Builder
from symdiff.ir.graph import Graph, GraphOutput
from symdiff.ir.node import Atom, Node
from symdiff.rulebooks.rule import Rule
from symdiff.tracing.library.mathematics import traced
from symdiff.tracing.loops.stores import in_order
from symdiff.tracing.unrolling.reductions import called, rule_of_numbers
from symdiff.tracing.values.assigning import array_of
from symdiff.tracing.values.integers import Integer, is_integer_value
from symdiff.tracing.values.kinds import kind_of_several, traced_form
from symdiff.tracing.values.storage import CELLS
from symdiff.tracing.values.tracer import Tracer
from symdiff.tracing.values.truths import is_truth
from symdiff.vocabulary.signatures import Function

EXCHANGED = 8  # numbers up to which `sorted` is a network of minima and maxima
_NATIVE: dict[str, Function] = {"max": max, "min": min}


def _numbers(values: Sequence[Any]) -> bool:
    """Whether all are numbers of one precision, and one is traced."""
    truths = sum(is_truth(v) and isinstance(v, (Tracer, np.bool_)) for v in values)
    return (
        traced(*values)
        and truths in (0, len(values))
        and all(
            (isinstance(v, Tracer) and v.shape == () and v.dtype.kind != "c")
            or isinstance(v, (int, float, np.integer, np.floating))
            for v in values
        )
        and len({code for v in values if (code := _code(v))}) < 2
    )


def _code(value: Any) -> str:
    """The dtype of a number; "" of one of Python's that has the same digits in single precision."""
    if isinstance(value, (Tracer, np.generic)):
        return str(value.dtype.char)
    return "" if float(np.float32(value)) == value else "d"


def _extreme(name: str, *args: Any, key: Any = None, **default: Any) -> Any:
    values = args[0] if len(args) == 1 else args
    if key is not None:
        return _NATIVE[name](values, key=key, **default)
    if isinstance(values, Tracer) and values.ndim == 1 and values.size > CELLS and values.dtype.kind != "c":
        return _of_array(name, values)
    values = list(values)
    if len(values) < 2 or not _numbers(values):
        return _NATIVE[name](values, **default)
    wins = operator.gt if name == "max" else operator.lt
    kind = kind_of_several(
        [traced_form(v) for v in values],
        lambda: functools.reduce(lambda k, j: j if wins(values[j], values[k]) else k, range(len(values))),
    )
    found = (_of_array(name, array_of(values)) if len(values) > CELLS else _of_numbers(name, values)).of_kind(kind)
    return Integer.of(found) if all(map(is_integer_value, values)) else found


largest = functools.partial(_extreme, "max")
least = functools.partial(_extreme, "min")


def _of_numbers(name: str, numbers: list[Any]) -> Any:
    count = len(numbers)
    counts = functools.partial(_counts, name) if count > 2 else None
    return called(numbers, functools.partial(_folded, name), _rule(name, count), lambda code: _body(name, count, code), counts)


def _of_array(name: str, x: Any) -> Any:
    """The extreme of a large array, where a NaN counts only in the first cell."""
    return (np.max if name == "max" else np.min)(np.where(np.isnan(x), x[0], x))


def _folded(name: str, numbers: Any) -> Any:
    wins = np.less if name == "max" else np.greater
    return functools.reduce(lambda a, b: np.where(wins(a, b), b, a)[()], numbers)


def _wins(builder: Builder, name: str, new: Atom, old: Atom) -> Atom:
    """Whether a number takes the place of the largest (smallest) one so far."""
    return builder.emit("lt", (old, new) if name == "max" else (new, old))


@functools.lru_cache(maxsize=256)
def _body(name: str, count: int, code: str) -> Graph:
    builder = Builder()
    result: Atom
    result, *others = (builder.input(f"x{k}", (), code) for k in range(count))
    for other in others:
        result = builder.select(_wins(builder, name, other, result), other, result)
    return builder.graph(name, (GraphOutput(name, result),))


def _counts(name: str, builder: Builder, binding: Node, place: int) -> tuple[Atom, bool]:
    """A condition and its value where an operand is the extreme; the first one is where nothing wins over it, NaN or not."""
    if place:
        return builder.emit("eq", (binding.operands[place], binding.result)), True
    return _wins(builder, name, binding.result, binding.operands[0]), False


@functools.lru_cache(maxsize=256)
def _rule(name: str, count: int) -> Rule:
    """1/n to each of n operands that are equal to the extreme; the others do not count."""

    def halves(out: Any, first: Any, second: Any) -> Any:
        beaten = first < second if name == "max" else second < first
        return tuple(np.where(beaten, p, np.where(first == second, 0.5, 1.0 - p)) for p in (0.0, 1.0))

    def shares(out: Any, first: Any, *others: Any) -> Any:
        beaten = first < out if name == "max" else first > out
        ties = sum((np.where(x == out, 1.0, 0.0) for x in others), start=np.where(beaten, 0.0, 1.0))
        return (1.0 / ties,) * count

    return rule_of_numbers("builtins", name, count, halves if count == 2 else shares, f"{name} of {count} numbers")


@in_order.written
def sorted_list(iterable: Iterable[Any], /, *, key: Any = None, reverse: bool = False) -> list[Any]:
    """`sorted(iterable)`."""
    values = list(iterable)
    if key is not None or len(values) < 2 or not _numbers(values):
        return sorted(values, key=key, reverse=reverse)
    if reverse:
        values.reverse()  # so that equal numbers keep their order
    forms, numbers = [traced_form(v) for v in values], tuple(values)
    found = [
        v.of_kind(kind_of_several(forms, functools.partial(_place, numbers, k))) if isinstance(v, Tracer) else v
        for k, v in enumerate(_ordered(values))
    ]
    return found[::-1] if reverse else found


def _place(numbers: tuple[Any, ...], k: int) -> int:
    """Which of some numbers is the kth in order; conditions tell."""

    def compared(i: int, j: int) -> int:
        return -1 if numbers[i] < numbers[j] else 1 if numbers[j] < numbers[i] else 0

    return sorted(range(len(numbers)), key=functools.cmp_to_key(compared))[k]


def sort_list(values: list[Any], *, key: Any = None, reverse: bool = False) -> None:
    """`values.sort()`."""
    values[:] = sorted_list(values, key=key, reverse=reverse)


def _ordered(values: list[Any]) -> list[Any]:
    if len(values) == 2:
        return [_of_numbers("min", values), _of_numbers("max", values[::-1])]
    if len(values) <= EXCHANGED:
        return _exchanged(values)
    found = np.sort(array_of(values))
    return list(np.where(np.isnan(found[-1]), np.nan, found))  # NumPy has them last


def _exchanged(values: list[Any]) -> list[Any]:
    """A few numbers in order, by minima and maxima of pairs: Batcher's merge exchange (Knuth, TAOCP 3, 5.2.2 M)."""
    n = len(values)
    first = distance = 1 << max(n - 1, 1).bit_length() - 1
    while first:
        upper, bit, apart = distance, 0, first
        while True:
            for i in range(n - apart):
                if i & first == bit:
                    a, b = values[i], values[i + apart]
                    values[i], values[i + apart] = np.minimum(a, b), np.maximum(a, b)
            if upper == first:
                break
            apart, upper, bit = upper - first, upper // 2, first
        first //= 2
    return values
