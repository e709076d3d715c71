"""Lists behind a loop of which conditions tell which rounds appended to them, or that has rounds which are not counted before.

Assumes that what rounds gave lies in arrays, with which of it there is, or that the last items are handed on. Guarantees the
length, single items, sums and what else `selecting` has of such cells at every argument; what needs the list itself takes the
rounds that appended as they are at the given arguments, and keeps that as a condition.
"""

import copy
import functools
import gc
import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from symdiff.ir.arrays.algebra import Arrays
from symdiff.tracing.loops.parts import replaced_in
from symdiff.tracing.values.integers import Integer
from symdiff.tracing.values.kinds import PYTHON, Form, traced_form
from symdiff.tracing.values.operands import as_atom
from symdiff.tracing.values.selecting import Selected, count_mask
from symdiff.tracing.values.spans import gap
from symdiff.tracing.values.tracer import Tracer
from symdiff.vocabulary.libraries import module_of, user_line


class Rows(NamedTuple):
    """What rounds gave, in their order: whether there is an item, its numbers and arrays with their forms, and the item."""

    mask: Tracer
    columns: list[Tracer]
    forms: list[list[Form]]
    item: Callable[[Iterator[Any]], Any]  # of its numbers and arrays
    alone: bool  # whether it is one of these itself


class Collected:
    """Stands for a list, `owner`, which has `head` and then some of the items of rounds, or ends with `ends`."""

    __slots__ = ("_head", "_length", "_rows", "_whole", "ends", "loop", "owner")

    def __init__(self, owner: list[Any]) -> None:
        self.owner = owner
        self._whole: Any = None

    def become(
        self, loop: Any, head: list[Any], whole: Callable[[], Any], rows: Rows | None, length: Any = None, ends: Any = ()
    ) -> None:
        """It has these items now; `whole` gives those behind the head."""
        self.loop, self._head, self._whole, self._rows, self._length, self.ends = loop, head, whole, rows, length, ends

    def whole(self) -> list[Any]:
        """The list itself."""
        if self._whole is not None:
            items = [*self._head, *self._whole()]
            self._whole = None
            self.owner[:] = items
        return self.owner

    def length(self) -> Any:
        """The length."""
        if self._whole is None:
            return len(self.owner)
        return len(self._head) + count_mask(self._rows.mask).of_kind(PYTHON) if self._rows is not None else self._length

    def rows(self) -> Rows | None:
        """All items as rows; None where some are none."""
        rows = None if self._whole is None else self._rows
        if rows is None or not self._head:
            return rows
        (values, *others), told = rows.columns, [*map(traced_form, self._head)]
        shape, code = values.shape[1:], values.dtype.char
        unlike = any((f.shape, f.code, f.whole) != (shape, code, "") for f in told)
        if others or unlike or not rows.alone or isinstance(values, Integer):
            return None
        arrays = Arrays(rows.mask.builder, user_line())
        found = arrays.concatenate([as_atom([*self._head], arrays.builder, arrays.origin), values.atom], 0)
        mask = np.concatenate([np.ones(len(told), bool), rows.mask])
        return Rows(mask, [Tracer(arrays.builder, found)], [[*dict.fromkeys((*rows.forms[0], *told))]], rows.item, True)

    def array(self) -> Any:
        """The items as an array, of which it is not known how many cells it has; None where they are no numbers or arrays."""
        rows = self.rows()
        alone = rows is not None and rows.alone and not isinstance(rows.columns[0], Integer)
        return Selected.of(rows.columns[0], rows.mask) if alone else None  # type: ignore[union-attr]

    def at(self, rows: Rows, row: Any) -> Any:
        """The item of a row."""
        found = []
        for x, forms in zip(rows.columns, rows.forms, strict=True):
            one = x[row]
            found.append(one if one.shape else self.loop.of_forms(one, forms))
        return rows.item(iter(found))

    def __getitem__(self, key: Any) -> Any:
        if self._whole is not None and type(key) is int and -len(self.ends) <= key < 0:
            self._check(-key)
            return self.ends[-key - 1]
        rows = self.rows() if type(key) is int or (isinstance(key, Integer) and not key.shape) else None
        if rows is None:
            return self.whole()[key.decided() if isinstance(key, Integer) else key]
        places = np.cumsum(np.where(rows.mask, 1.0, 0.0))  # type: ignore[call-overload]
        if type(key) is int and key < 0:
            self._check(-key)
            key = self.length() + key
        elif np.less(key, 0):
            return self.whole()[key.decided()]
        else:
            self._check(key + 1)
        row = Integer.of(np.sum(np.where(places <= key, 1.0, 0.0)))  # type: ignore[call-overload]
        return self.at(rows, Integer.of(np.minimum(row, rows.mask.shape[0] - 1)))

    def _check(self, least: Any) -> None:
        """There are so many items, or Python's own error."""
        if gap(self.length(), least)[0] < 0 and not np.greater_equal(self.length(), least):
            raise IndexError(f"{user_line()}: list index out of range")

    def __bool__(self) -> bool:
        return bool(self._head or np.greater(self.length(), 0)) if self._whole is not None else bool(self.owner)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__array"):
            raise AttributeError(name)
        return getattr(self.whole(), name)

    __class__ = property(lambda self: list)  # type: ignore[assignment]
    __hash__ = None  # type: ignore[assignment]


def end_all(collected: Iterable[Collected]) -> None:
    """Whoever has one of these has the list itself again; all objects that there are are looked at once."""
    kept = tuple(collected)
    known = frozenset(map(id, kept))
    for holder in gc.get_referrers(*kept) if kept else ():
        for part in gc.get_referents(holder):
            if id(part) in known:
                replaced_in(holder, part, part.owner)


def _delegated(name: str) -> Callable[..., Any]:
    def method(self: Collected, *args: Any) -> Any:
        found = getattr(self.whole(), name)(*(a.whole() if type(a) is Collected else a for a in args))
        return self if name in ("__iadd__", "__imul__") else found

    return method


for _name in "iter len reversed contains setitem delitem add iadd mul rmul imul eq ne lt le gt ge repr".split():
    setattr(Collected, f"__{_name}__", _delegated(f"__{_name}__"))
Collected.__radd__ = lambda self, other: operator.add(other, self.whole())  # type: ignore[attr-defined]
Collected.__copy__ = lambda self: [*self.whole()]  # type: ignore[attr-defined]
Collected.__deepcopy__ = lambda self, memo: copy.deepcopy(self.whole(), memo)  # type: ignore[attr-defined]


_REDUCED: dict[Any, Any] = {sum: np.sum, max: np.max, min: np.min}
_ASKING = (len, type, isinstance, bool)


def with_lists(f: Any, found: Any) -> Any:
    """`found`, called in place of a function that is none of the user's, with lists in place of what stands for them."""
    if f in _ASKING:
        return found
    numpys = module_of(f).partition(".")[0] == "numpy" or f in _REDUCED

    def shown(*args: Any, **kwargs: Any) -> Any:
        given = [plain_list(a, numpys) for a in args]
        alone = len(given) == 1 or (f is sum and len(given) == 2)
        if f in _REDUCED and alone and isinstance(given[0], Selected) and type(args[0]) is Collected and not kwargs:
            number = _REDUCED[f](given[0])
            number = number if number.shape else args[0].loop.of_forms(number, args[0].rows().forms[0])
            return functools.reduce(operator.add, given[1:], number)
        return found(*given, **{name: plain_list(v, numpys) for name, v in kwargs.items()})

    return shown


def plain_list(value: Any, array: bool = False) -> Any:
    """A value, or the list that is meant, also in a list or a tuple; where it may be, as an `array`."""
    if type(value) is Collected:
        found = value.array() if array else None
        return value.whole() if found is None else found
    if type(value) in (list, tuple) and any(type(v) is Collected for v in value):
        return type(value)(map(plain_list, value))
    return value
