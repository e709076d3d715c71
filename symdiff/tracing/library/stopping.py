"""`any` and `all` of traced conditions: one condition, where it is the same whether the rest of the items is asked for or not.

Assumes what Python's own functions take. Guarantees that an iterator of which others may take the rest, or whose items do more
than compare numbers, ends with the item that decides: each traced condition is a choice of ways then.
"""

import dis
import functools
import gc
import itertools
import math
import sys
import types
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from symdiff.tracing.library.mathematics import pythons
from symdiff.tracing.values.tracer import Tracer
from symdiff.vocabulary.libraries import is_ours
from symdiff.vocabulary.signatures import Function

_CONTAINERS = (list, tuple, range, dict, set, frozenset, str, np.ndarray, Tracer)
_PLAIN = frozenset("abs bool float int len max min round isinstance np numpy math real imag shape size ndim T".split())
_DATA = (int, float, complex, str, type(None), np.generic, *_CONTAINERS)
_METHODS = frozenset(name for kind in (list, dict, set, deque) for name in dir(kind))
_JOINED: dict[type, Any] = {
    zip: lambda: zip([0], [0], strict=False),
    enumerate: lambda: enumerate([0]),
    itertools.pairwise: lambda: itertools.pairwise([0]),
}
_STEPS = tuple(type(iter(v)) for v in (reversed([]), [], (), range(0), {}, {}.values(), {}.items(), set(), np.empty(0)))


def joined_truths(stop: bool, join: Function) -> Function:
    """`any` (stop at True) or `all` (stop at False)."""

    def standing(iterable: Any, /) -> Any:
        joins, result, items = _is_plain(iterable), None, iter(iterable)
        while True:
            try:
                value = next(items)
            except StopIteration:
                return (not stop) if result is None else pythons(result)
            except Exception:
                if result is not None and bool(result) is stop:
                    return stop
                raise
            if isinstance(value, Tracer) and value.shape == ():
                truth = value if value.dtype.kind == "b" else value != 0
                if joins:
                    result = truth if result is None else join(result, truth)
                elif bool(truth) is stop:
                    return stop
            elif bool(value) is stop:
                return stop

    return standing


def _is_plain(iterable: Any) -> bool:
    """Whether it is the same for others how many items are taken."""
    if isinstance(iterable, _CONTAINERS) or not hasattr(type(iterable), "__next__"):
        return True
    if type(iterable) is not types.GeneratorType or iterable.gi_code.co_name != "<genexpr>" or iterable.gi_frame is None:
        return False
    holders = _holders(iterable)
    held = dict(iterable.gi_frame.f_locals)
    items = held.pop(".0", None)
    return _is_pure(iterable.gi_code) and all(map(_is_data, held.items())) and _is_alone(items, holders)


def _holders(generator: Any) -> list[int]:
    """How many hold what a generator runs over, and the iterators in that."""
    items = generator.gi_frame.f_locals[".0"]
    return [sys.getrefcount(items), *(sys.getrefcount(inner) for inner in _inner(items))]


def _inner(items: Any) -> Iterator[Any]:
    """The iterators of which a `zip` and the like takes items."""
    for part in gc.get_referents(items) if type(items) in _JOINED else ():
        yield from (v for v in (part if type(part) is tuple else (part,)) if hasattr(type(v), "__next__"))


@functools.cache
def _alone(kind: type) -> list[int]:
    """These where nobody else takes them."""
    values = _JOINED.get(kind, lambda: [0])()
    return _holders(v for v in values)


def _is_alone(items: Any, holders: list[int]) -> bool:
    """Whether nobody else takes items of an iterator."""
    joined = type(items) in _JOINED
    first, *inner = _alone(type(items) if joined else list)
    known = all(map(_is_over_container, _inner(items) if joined else [items]))
    return known and holders[0] <= first and all(n <= max(inner) for n in holders[1:])


def _is_over_container(items: Any) -> bool:
    """Whether an iterator is Python's own of a container, or one of ours for a traced one."""
    frame = items.gi_frame if type(items) is types.GeneratorType and is_ours(items.gi_code.co_filename) else None
    if frame is None:
        return type(items) in _STEPS
    held = frame.f_locals.values()
    return bool(held) and all(type(v) in _STEPS or not hasattr(type(v), "__next__") for v in held)


def _is_data(item: tuple[str, Any]) -> bool:
    """Whether a variable of the items' code is one of ours, or a number or array of the function's."""
    name, value = item
    return name.startswith(".") or isinstance(value, _DATA)


def _is_pure(code: types.CodeType) -> bool:
    """Whether code that makes items calls nothing but functions of numbers, and sets no other names."""
    if any(isinstance(c, types.CodeType) for c in code.co_consts):
        return False
    names = {step.opname for step in dis.get_instructions(code)} - {"STORE_FAST"}
    if any(name.startswith(("STORE_", "DELETE_")) for name in names):
        return False
    return all(
        name in _PLAIN or (name not in _METHODS and (hasattr(np, name) or hasattr(math, name))) for name in code.co_names
    )
