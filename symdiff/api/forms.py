"""Short ways of calls by the form of their arguments: structure, settings, names, how arrays lie, kinds of numbers.

Assumes ways of compiled code that take the leaves of a function's arguments in order, and decline what they were not made for.
Guarantees that a way is taken for arguments only which the long way would take to it, too.
"""

import functools
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import optree

from symdiff.codegen.source import MISS
from symdiff.codegen.taking import making_source, taking_source
from symdiff.runtime.guards import Given
from symdiff.runtime.loading import load
from symdiff.tracing.values.layouts import traced_order
from symdiff.vocabulary import structures
from symdiff.vocabulary.libraries import user_line
from symdiff.vocabulary.plain import EXACT, check_digits, loses_digits, packed

KEPT_FORMS = 8  # of arguments of the same classes, the newest
KEPT = 256  # values of static arguments for which a form keeps a way, the newest
INTEGERS = (int, np.integer)
_METHODS = (types.MethodType, types.BuiltinMethodType, types.MethodWrapperType)  # others each time that they are looked up
Way = Callable[..., Any]  # leaves in order and `out=`; it declines with `MISS`


class Taking:
    """Takes arguments apart that have a structure, and its marks; None where they have another one."""

    __slots__ = ("_marks", "_take", "_tree")

    def __init__(self, tree: Any, marks: list[Any]) -> None:
        self._tree = tree
        self._marks = marks
        self._take: Callable[[Any], list[Any] | None] | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Taking) and (self._tree, self._marks) == (other._tree, other._marks)

    __hash__ = None  # type: ignore[assignment]

    @property
    def is_flat(self) -> bool:
        """Whether each argument is a leaf."""
        return all(map(optree.treespec_is_leaf, self._tree.children()[0].children()))

    def __call__(self, args: tuple[Any, ...]) -> list[Any] | None:
        leaves = None if self._take is None else self._take(args)
        if leaves is None:
            leaves, tree, marks = structures.structure_taken_apart(args, {})
            if marks != self._marks or tree != self._tree:
                return None
            self._take = self._take or load(taking_source(args))
        return leaves


class Making:
    """Puts results together that have a structure: a tuple of them, or a single one where they are not `several`."""

    __slots__ = ("_make", "_several", "_tree")

    def __init__(self, tree: Any, several: bool) -> None:
        self._tree = tree
        self._several = several
        self._make: Callable[[Any], Any] | None = None

    def __call__(self, found: Any) -> Any:
        self._make = self._make or load(making_source(self._tree))
        return self._make(found if self._several else (found,))


class Form:
    """Calls whose arguments are of the types and have the names and structure of those in an earlier call: to the
    specialisations for the values of those leaves that are no inputs, and how arrays lie in memory; where they are `typed`, for
    the types of all leaves. `own` are the places of the leaves of the function's own arguments among all.
    """

    __slots__ = ("_fixed", "_last", "_order", "_own", "_taking", "_typed", "_ways")

    def __init__(
        self, fixed: tuple[int, ...], order: tuple[tuple[int, np.dtype | None], ...], taking: Taking | None, typed: bool,
        own: Sequence[int],
    ) -> None:  # fmt: skip
        self._fixed = fixed
        self._typed = typed
        self._own = own
        self._order = order  # of the inputs among the leaves, and the dtypes of integers and truths that count as numbers
        self._taking = taking  # None where each argument is a leaf
        self._ways: dict[tuple[Any, ...], tuple[Way, bool]] = {}  # and whether results have settings of the arguments
        self._last: Way | None = None  # for leaves that are the inputs in order, the one taken last

    def is_like(self, other: "Form") -> bool:
        """Whether the same leaves are inputs, counted in the same way."""
        return (self._fixed, self._order, self._taking) == (other._fixed, other._order, other._taking)

    def add(self, leaves: Sequence[Any], way: Way, gives_back: bool) -> None:
        """Take a way for arguments like these from now on; in its results it `gives_back` settings among these."""
        told = self._told(leaves)
        self._ways[told] = way, gives_back
        if not self._typed and self._order == tuple((k, None) for k in range(len(leaves))) and not any(told[-1]):
            self._last = way
        if len(self._ways) > KEPT:
            self._ways.pop(next(iter(self._ways)))

    def _told(self, leaves: Sequence[Any]) -> tuple[Any, ...]:
        """What tells the way for these leaves."""
        classes = tuple(map(type, leaves if self._typed else [leaves[k] for k in self._fixed]))
        arrays = [v for v in leaves if type(v) is np.ndarray]
        lie = tuple([() if v.flags.c_contiguous else traced_order(v) for v in arrays])
        return classes, *[setting(leaves[k]) for k in self._fixed], tuple([v.shape for v in arrays]), lie

    def given(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Given | None:
        """What machine code takes of these arguments, where all others, and integers that count, are the same objects; None
        where some of those are arrays, which may change, or arguments are no leaves.
        """
        if self._taking is not None:
            return None
        all_given = (*args, *kwargs.values())
        counted = {k: all_given[k] for k, own in self._order if own is not None}
        same = {k: all_given[k] for k in self._fixed} | counted
        if any(isinstance(value, np.ndarray) for value in same.values()):
            return None
        sources = tuple([(k, None) if own is None else (-1, float(all_given[k])) for k, own in self._order])
        return Given(len(args), tuple(kwargs), same, sources)

    def through(self, given: tuple[Any, ...], out: Any) -> Any:
        """The result by the way that was taken for such arguments before, or `MISS`."""
        leaves: Sequence[Any] | None = given if self._taking is None else self._taking(given)
        if leaves is None:
            return MISS
        if self._last is not None:
            found = self._last(*leaves) if out is None else self._last(*leaves, out=out)
            if found is not MISS:
                return found
        way, gives_back = self._ways.get(self._told(leaves), (None, False))
        if way is None:
            return MISS
        inputs = [packed(leaves[k]) if own is None else _number(leaves[k], own) for k, own in self._order]
        if any(leaf is MISS for leaf in inputs):
            return MISS
        if out is not None:
            return way(*inputs, out=out)
        found = way(*inputs)
        return structures.with_settings(found, [leaves[k] for k in self._own]) if gives_back and found is not MISS else found


class Forms:
    """The forms of earlier calls, those of one key in turn, the newest first. `door` takes arguments by position."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], list[Any]] = {}
        self.door = self.named_door(())

    def like(self, form: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The form that is like one of these arguments: this one from now on, where there is none. What is called a form tells
        whether another one `is_like` it, and takes arguments `through`.
        """
        known = self._known.setdefault((*map(type, args), *map(type, kwargs.values()), *kwargs), [])
        found = next(filter(form.is_like, known), None)
        if found is None:
            known[:] = [form, *known][:KEPT_FORMS]
        return found or form

    def named_door(self, names: Iterable[str]) -> Way:
        """The ways that arguments of one form, with the same static values, went before; the last ones have these names."""
        return functools.partial(_known_way, self._known, tuple(names))


def _known_way(known: dict[tuple[Any, ...], list[Any]], names: tuple[str, ...], *given: Any, out: Any = None) -> Any:
    for form in known.get((*map(type, given), *names), ()):
        found = form.through(given, out)
        if found is not MISS:
            return found
    return MISS


def setting(value: Any) -> Any:
    """What tells a setting from others."""
    if not isinstance(value, np.ndarray):
        own = callable(value) and type(value).__eq__ is not object.__eq__ and not isinstance(value, _METHODS)
        return structures.Itself(value) if own else value
    return value.shape, value.dtype.str, value.tobytes(), traced_order(value), value.flags.num, value.base is None


def _number(value: Any, own: np.dtype) -> Any:
    """An integer, or an array of them or of truths, as floating-point numbers; `MISS` for others."""
    if isinstance(value, np.ndarray):
        return value.astype(float) if value.dtype == own and not loses_digits(value) else MISS
    if isinstance(value, bool) or not isinstance(value, INTEGERS):
        return MISS
    number = float(value)
    if not -EXACT < number < EXACT:
        check_digits(user_line(), value)
    return number
