"""Nested arguments and results: containers, named tuples, dataclasses and registered types, by optree.

Assumes dataclasses whose fields are set by their constructor. Guarantees that a structure is rebuilt as it was, frozen or
not, with leaves that are not differentiated passed through untouched. Other objects are leaves.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import optree

from symdiff.errors import ShapeError

NAMESPACE = "symdiff"


class Kept:
    """A leaf that takes no part: it belongs to the structure, and is given back when the structure is rebuilt."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


optree.register_pytree_node(Kept, lambda kept: ((), kept.value), lambda value, _: value, namespace=NAMESPACE)  # type: ignore


def register(cls: type, flatten: Callable[[Any], tuple[Iterable[Any], Any]], unflatten: Callable[[Any, Any], Any]) -> None:
    """Make a class a structure: `flatten(object)` gives (children, rest), `unflatten(rest, children)` makes it again.

    The children are differentiated; `rest` must be comparable. Raises `ValueError` for a class that is registered already.
    """
    optree.register_pytree_node(cls, flatten, unflatten, namespace=NAMESPACE)


@functools.cache
def _register_dataclass(cls: type) -> None:
    names = tuple(f.name for f in dataclasses.fields(cls) if f.init)

    def flatten(value: Any) -> Any:
        return tuple(getattr(value, name) for name in names), None, names

    def unflatten(_: Any, children: Any) -> Any:
        return cls(**dict(zip(names, children, strict=True)))

    try:
        optree.register_pytree_node(cls, flatten, unflatten, path_entry_type=optree.GetAttrEntry, namespace=NAMESPACE)
    except ValueError:
        pass  # the user registered it otherwise


def _learn(value: Any) -> None:
    """Register the dataclasses in a structure."""
    stack = [value]
    while stack:
        top = stack.pop()
        sort = _sort(type(top))  # type: ignore[arg-type]
        if sort is dict:
            stack += top.values()
        elif sort is list:
            stack += top
        elif sort is not None:
            _register_dataclass(sort)
            stack += [getattr(top, f.name, None) for f in dataclasses.fields(top)]


@functools.lru_cache(maxsize=1024)
def _sort(cls: type) -> type | None:
    """How the parts of instances of a class are found: as those of a dict, a list or the dataclass; None for a leaf."""
    if issubclass(cls, dict):
        return dict
    if issubclass(cls, (list, tuple)):
        return list
    return cls if dataclasses.is_dataclass(cls) and not cls.__module__.startswith("symdiff.") else None


def flatten(value: Any, none_is_leaf: bool = False) -> tuple[list[Any], Any]:
    """The leaves of a structure, and the structure itself."""
    _learn(value)
    return optree.tree_flatten(value, none_is_leaf=none_is_leaf, namespace=NAMESPACE)


def unflatten(tree: Any, leaves: Iterable[Any]) -> Any:
    """A structure with these leaves."""
    return optree.tree_unflatten(tree, leaves)


def structure(value: Any, none_is_leaf: bool = False) -> Any:
    """The structure of a value."""
    return flatten(value, none_is_leaf)[1]


def leaves(value: Any, none_is_leaf: bool = False) -> list[Any]:
    """The leaves of a value, in order."""
    return flatten(value, none_is_leaf)[0]


def mapped(function: Callable[..., Any], value: Any, *others: Any) -> Any:
    """A structure with `function` of each leaf (and of those at its place in the others)."""
    _learn(value)
    return optree.tree_map(function, value, *others, namespace=NAMESPACE)


def paths(value: Any) -> list[tuple[Any, ...]]:
    """For every leaf, None included, the way to it as entries that `codify`."""
    _learn(value)
    return list(optree.tree_accessors(value, none_is_leaf=True, namespace=NAMESPACE))


def by_path(value: Any) -> dict[str, Any]:
    """The leaves of a gradient (or of any structure) by their path.

    >>> by_path({"layers": [{"W": 1.0, "b": 2.0}]})
    {"['layers'][0]['W']": 1.0, "['layers'][0]['b']": 2.0}
    """
    found, _ = flatten(value, none_is_leaf=True)
    names = ["".join(entry.codify("") for entry in path).removeprefix(".") for path in paths(value)]
    return dict(zip(names, found, strict=True))


def update(params: Any, grads: Any, step: Callable[[Any, Any], Any]) -> Any:
    """Set every differentiated leaf p of `params` to `step(p, dp)`, dp from `grads`, a structure like it.

    Arrays and fields of mutable containers change in place; frozen ones and tuples come back as new objects. Returns the
    updated structure. Every step is computed and checked before anything changes. Raises `ShapeError` where a step changes
    the shape of an array or gives a dtype that does not fit it, or where the structures differ.

    >>> update({"w": 2.0}, {"w": 10.0}, lambda p, dp: p - 0.1*dp)
    {'w': 1.0}
    """
    old, tree = flatten(params, none_is_leaf=True)
    given, given_tree = flatten(grads, none_is_leaf=True)
    if len(old) != len(given) or tree != given_tree:
        raise ShapeError(f"the gradient's structure {given_tree} is not that of the parameters, {tree}")
    new = [_stepped(p, dp, step) for p, dp in zip(old, given, strict=True)]
    for p, value in zip(old, new, strict=True):
        if isinstance(p, np.ndarray) and p.flags.writeable:
            p[...] = value
    kept = [p if isinstance(p, np.ndarray) and p.flags.writeable else v for p, v in zip(old, new, strict=True)]
    return _settled(params, unflatten(tree, kept))


def _stepped(p: Any, dp: Any, step: Callable[[Any, Any], Any]) -> Any:
    if (
        dp is None
        or isinstance(p, (str, bytes, bool, type(None)))
        or not isinstance(p, (int, float, complex, np.ndarray, np.generic))
    ):
        return p
    value = step(p, dp)
    if isinstance(p, np.ndarray):
        found = np.asarray(value)
        if found.shape != p.shape or not np.can_cast(found.dtype, p.dtype, "same_kind"):
            raise ShapeError(f"a step gives {found.dtype}{list(found.shape)} for a parameter of {p.dtype}{list(p.shape)}")
    return value


def _settled(old: Any, new: Any) -> Any:
    """The new values put into the old containers where these can change; new containers where they cannot."""
    if isinstance(old, dict):
        for key in old:
            old[key] = _settled(old[key], new[key])
        return old
    if isinstance(old, list):
        old[:] = [_settled(a, b) for a, b in zip(old, new, strict=True)]
        return old
    if isinstance(old, tuple):
        parts = [_settled(a, b) for a, b in zip(old, new, strict=True)]
        return type(old)(*parts) if hasattr(old, "_fields") else tuple(parts)
    if dataclasses.is_dataclass(old) and not isinstance(old, type):
        names = [f.name for f in dataclasses.fields(old) if f.init]
        parts = [_settled(getattr(old, n), getattr(new, n)) for n in names]
        if type(old).__dataclass_params__.frozen:  # type: ignore[attr-defined]
            return dataclasses.replace(old, **dict(zip(names, parts, strict=True)))
        for name, part in zip(names, parts, strict=True):
            setattr(old, name, part)
        return old
    return new
