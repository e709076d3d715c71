"""Nested arguments and results: containers, named tuples, dataclasses and registered types, by optree.

Guarantees that a structure is rebuilt as it was, frozen or not, with leaves that are not differentiated passed through
untouched: objects of dataclasses and named tuples without running their constructors, and with all other state that they
had. Structures are alike whatever the order of their keys, and hold their leaves in the same order; `marks` tells more.
Other objects are leaves.
"""

import collections
import contextlib
import dataclasses
import functools
import inspect
import types
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import optree

from symdiff.errors import ShapeError, TraceError
from symdiff.vocabulary.libraries import user_line

NAMESPACE = "symdiff"


class Kept:
    """A leaf that takes no part: it belongs to the structure, and is given back when that is rebuilt."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Setting:
    """A leaf of a result that is what a leaf of the arguments is in each call, by its place among these."""

    __slots__ = ("place",)

    def __init__(self, place: int) -> None:
        self.place = place


def holds_settings(tree: Any) -> bool:
    """Whether a structure has such leaves."""
    return tree is not None and any(type(leaf) is Setting for leaf in leaves(unflatten(tree, range(tree.num_leaves))))


def with_settings(value: Any, given: Any) -> Any:
    """A result with the leaves of arguments in the places of such ones."""
    return map_leaves(lambda leaf: own_copy(given[leaf.place]) if type(leaf) is Setting else _own_setting(leaf), value)


def _own_setting(leaf: Any) -> Any:
    return leaf.copy() if isinstance(leaf, np.ndarray) and leaf.dtype.kind in "iub" else leaf


def with_own_arrays(tree: Any) -> Any:
    """A structure whose arrays that take no part are copies."""
    if tree is None:
        return None
    place = object()
    made = unflatten(tree, [place] * tree.num_leaves)
    if not any(isinstance(leaf, np.ndarray) for leaf in leaves(made)):
        return tree
    return structure(map_leaves(lambda leaf: leaf if leaf is place else Kept(own_copy(leaf)), made))


def own_copy(value: Any) -> Any:
    """A copy of an array, any other value itself."""
    return value.copy() if isinstance(value, np.ndarray) else value


optree.register_pytree_node(Kept, lambda kept: ((), kept.value), lambda value, _: value, namespace=NAMESPACE)  # type: ignore


def register(cls: type, flatten: Callable[[Any], tuple[Iterable[Any], Any]], unflatten: Callable[[Any, Any], Any]) -> None:
    """Make a class a structure: `flatten(object)` gives (children, rest), `unflatten(rest, children)` makes it again.

    The children are differentiated; `rest` must be comparable. Raises `ValueError` for a class that is registered already.
    """
    optree.register_pytree_node(cls, flatten, unflatten, namespace=NAMESPACE)
    _registered[cls] = flatten
    _sort.cache_clear()


_registered: dict[type, Callable[[Any], tuple[Iterable[Any], Any]]] = {}


class _Object:
    """What an object holds: `names` are its children's, `rest` is its other state. Alike are two with the same names.

    `plain`: its children are all its attributes.
    """

    __slots__ = ("kind", "names", "plain", "rest")

    def __init__(self, kind: type, names: tuple[str, ...], rest: dict[str, Any], plain: bool = False) -> None:
        self.kind = kind
        self.plain = plain
        self.names = names
        self.rest = rest

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Object) and self.names == other.names

    def __hash__(self) -> int:
        return hash(self.names)

    def with_children(self, children: Iterable[Any]) -> Any:
        """An object in this state, made without its class's constructor."""
        kind: Any = self.kind
        base = _base(kind)
        made = base.__new__(kind) if base is not tuple else tuple.__new__(kind, children)
        if self.plain:
            _attributes(made).update(zip(self.names, children, strict=True))
            return made
        for name, value in self.rest.items():
            _put(made, name, value)
        if base is not tuple:
            for name, child in zip(self.names, children, strict=True):
                _put(made, name, child)
        return made


_HEAP = 1 << 9  # in a type's flags: made at run time, by a class statement


@functools.lru_cache(maxsize=1024)
def _base(cls: type) -> Any:
    """The class written in C that says how objects of a class lie in memory."""
    return next(c for c in cls.__mro__ if not c.__flags__ & _HEAP)


def _put(made: Any, name: str, value: Any) -> None:
    """Set an attribute where it is stored, also of a frozen object."""
    kind: Any = type(made)
    if is_accessor(kind, name):
        object.__setattr__(made, name, value)
    else:
        _attributes(made)[name] = value


@functools.lru_cache(maxsize=4096)
def is_accessor(cls: type, name: str) -> bool:
    """Whether a class says itself how an attribute is set: it has a slot or a property for it."""
    return hasattr(type(inspect.getattr_static(cls, name, None)), "__set__")


def _held(value: Any) -> dict[str, Any]:
    """What the attributes and slots of an object hold, without what it keeps of values that it has computed once."""
    kind: Any = type(value)
    found = {n: v for n, v in _attributes(value).items() if not _is_cached(kind, n)}
    for name in _slots(kind):
        try:
            found[name] = object.__getattribute__(value, name)
        except AttributeError:
            continue
    return found


def _attributes(value: Any) -> dict[str, Any]:
    try:
        return object.__getattribute__(value, "__dict__")  # type: ignore[no-any-return]
    except AttributeError:
        return {}


@functools.lru_cache(maxsize=4096)
def _is_cached(cls: type, name: str) -> bool:
    return isinstance(inspect.getattr_static(cls, name, None), functools.cached_property)


@functools.lru_cache(maxsize=1024)
def _slots(cls: type) -> tuple[str, ...]:
    return tuple(n for c in cls.__mro__ for n, v in vars(c).items() if isinstance(v, types.MemberDescriptorType))


def _of_object(value: Any) -> tuple[list[Any], _Object]:
    """The fields of a dataclass's object that its constructor takes, and its other state."""
    kind: Any = type(value)
    plain: Any = _plain(kind)
    if plain is not None and tuple(held := _attributes(value)) == plain.names:
        return list(held.values()), plain
    slotted = _slotted(kind)
    if slotted is not None:
        with contextlib.suppress(AttributeError):  # where one is empty
            return [object.__getattribute__(value, name) for name in slotted.names], slotted
    rest = _held(value)
    children: dict[str, Any] = {}
    for name in _fields(kind):
        if name in rest:
            children[name] = rest.pop(name)
        elif is_accessor(kind, name):
            with contextlib.suppress(AttributeError):
                children[name] = getattr(value, name)
    return list(children.values()), _Object(kind, tuple(children), rest)


@functools.lru_cache(maxsize=1024)
def _plain(cls: Any) -> Any:
    """What objects of a class hold that have its fields alone; None where they are stored otherwise than as attributes."""
    fields = _fields(cls)
    return None if _slots(cls) or any(is_accessor(cls, name) for name in fields) else _Object(cls, fields, {}, True)


@functools.lru_cache(maxsize=1024)
def _slotted(cls: Any) -> Any:
    """What objects of a class hold that has a slot for each of its fields, and room for nothing else; None for others."""
    fields = _fields(cls)
    return _Object(cls, fields, {}) if not cls.__dictoffset__ and sorted(fields) == sorted(_slots(cls)) else None


@functools.lru_cache(maxsize=1024)
def _fields(cls: type) -> tuple[str, ...]:
    return tuple(f.name for f in dataclasses.fields(cls) if f.init)


def _of_tuple(value: Any) -> tuple[tuple[Any, ...], _Object]:
    return tuple(value), _Object(type(value), value._fields, _held(value))


class Layout(NamedTuple):
    """Where code finds the children of a structure: as "items", as "values" of keys that are all texts or all integers, as
    "attributes", whose dict `found` gets, or in "slots", which `found` gets one by one; `how` is "" where only its class knows.
    """

    how: str
    children: list[Any]
    names: tuple[Any, ...] = ()
    found: tuple[Callable[[Any], Any], ...] = ()


def layout_of(value: Any) -> Layout | None:
    """How the children of a structure lie; None for a leaf."""
    kind: Any = type(value)
    sort = _sort(kind)
    if sort is None:
        return None
    if kind in (list, tuple) or (sort is list and issubclass(kind, tuple) and kind.__base__ is tuple):
        return Layout("items", list(value))
    if kind is dict and (not value or ({*map(type, value)} <= _KEYS and len({*map(type, value)}) == 1)):
        return Layout("values", list(value.values()), tuple(value))
    if sort is kind and sort not in _registered and _base(kind) is object:
        children, held = _of_object(value)
        if held is _plain(kind):
            return Layout("attributes", children, held.names, _getters(kind, ("__dict__",)))
        if held is _slotted(kind):
            return Layout("slots", children, held.names, _getters(kind, held.names))
    return Layout("", [])


@functools.lru_cache(maxsize=1024)
def _getters(cls: Any, names: tuple[str, ...]) -> tuple[Callable[[Any], Any], ...]:
    """What gets these of an object, past all that its class says of attributes."""
    return tuple(inspect.getattr_static(cls, name).__get__ for name in names)


def fields_of(value: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The children of a dataclass's object by name, and its other state."""
    children, held = _of_object(value)
    return dict(zip(held.names, children, strict=True)), held.rest


def is_constructed_structure(value: Any) -> bool:
    """Whether the constructor of a dataclass's object does more than set its fields, or the object holds more."""
    kind: Any = type(value)
    made = getattr(kind.__init__, "__code__", None)
    written = made is not None and made.co_filename in ("<string>", dataclasses.__file__)
    plain = kind.__setattr__ is object.__setattr__ or kind.__dataclass_params__.frozen
    return (
        not (written and plain)
        or kind.__new__ is not object.__new__
        or hasattr(kind, "__post_init__")
        or bool(fields_of(value)[1])
    )


@functools.cache
def _learn(cls: type) -> None:
    """Register a dataclass, or a named tuple that has a constructor or attributes of its own."""
    taken, entry = (_of_tuple, optree.NamedTupleEntry) if issubclass(cls, tuple) else (_of_object, optree.GetAttrEntry)

    def flatten(value: Any) -> Any:
        children, held = taken(value)
        return children, held, held.names if taken is _of_object else tuple(range(len(children)))

    def unflatten(held: Any, children: Any) -> Any:
        return held.with_children(children)

    with warnings.catch_warnings(action="ignore"), contextlib.suppress(ValueError):  # or the user registered it otherwise
        optree.register_pytree_node(cls, flatten, unflatten, path_entry_type=entry, namespace=NAMESPACE)


class Same:
    """Stands for an object among `marks`: alike are those that are equal by their class's own rule, and else the same one."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Same) or type(self.value) is not type(other.value):
            return False
        kind: Any = type(self.value)
        return self.value is other.value or (_has_equality(kind) and bool(self.value == other.value))

    def __hash__(self) -> int:
        kind: Any = type(self.value)
        return hash(kind) if _has_equality(kind) else id(self.value)


class Itself:
    """Stands for an object that is like itself alone, whatever its class says of equality."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Itself) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


@functools.lru_cache(maxsize=1024)
def _has_equality(cls: type) -> bool:
    """Whether objects of a class say what they are equal to, and cannot change in it."""
    return vars(object)["__eq__"] is not inspect.getattr_static(cls, "__eq__") and cls.__hash__ is not None


_ATOMS = frozenset({str, bytes, int, bool, type(None)})
_TEXTS = frozenset({str})
_KEYS = frozenset({str, int, bytes})
_DEEP = 6  # containers and objects in each other that are told by their contents, as they may hold themselves


def _mark(value: Any, depth: int = _DEEP) -> Any:
    """What tells a value from all that code can tell it from, 1 from True and from 1.0; other objects by `Same`."""
    kind = type(value)
    if kind in _ATOMS:
        return kind, value
    if kind in (float, complex):
        return kind, repr(value)
    if isinstance(value, (np.ndarray, np.generic)) and not value.dtype.hasobject:
        return kind, value.shape, value.dtype.str, value.tobytes()
    if not depth:
        return Same(value)
    if kind in (tuple, list, set, frozenset):
        return kind, *(_mark(v, depth - 1) for v in value)
    if kind is dict:
        return kind, *((_mark(k, depth - 1), _mark(v, depth - 1)) for k, v in value.items())
    if kind is not type and dataclasses.is_dataclass(kind):
        return kind, _mark(_held(value), depth - 1)
    if _has_equality(kind) and (held := _attributes(value)):  # type: ignore[arg-type]
        return Same(value), _mark(held, depth - 1)
    return Same(value)


def _walk(value: Any) -> list[Any]:
    """Register the classes in a structure. Returns its marks, see `marks`."""
    found: list[Any] = []
    stack, seen = [value], dict[int, tuple[int, Any]]()  # with what has this identity, as long as it is asked for
    while stack:
        top = stack.pop()
        sort = _sort(type(top))  # type: ignore[arg-type]
        if sort is None:
            continue
        if id(top) in seen and type(top) is not tuple:
            found.append((Same, seen[id(top)][0], len(seen)))
        seen.setdefault(id(top), (len(seen), top))
        if sort is dict:
            keys = tuple(top)
            found.append(keys if _TEXTS.issuperset(map(type, keys)) else tuple(map(_mark, keys)))
            stack += top.values()
        elif sort is list:
            stack += top
        else:
            if sort not in _registered:
                _learn(sort)
            children, rest = _opened(sort, top)
            if rest is not None and (type(rest) is not dict or rest):
                found.append(_mark(rest))
            stack += children
    return found


def _opened(sort: Any, value: Any) -> tuple[Iterable[Any], Any]:
    """The children of an object, and its other state."""
    children, rest = _registered[sort](value) if sort in _registered else _taken(sort)(value)
    return children, rest.rest if type(rest) is _Object else rest


def marks(value: Any) -> tuple[Any, ...]:
    """What tells structures apart that are alike: order and types of keys, state of objects beside their children, and which
    containers and objects are the same one.
    """
    return tuple(_walk(value))


def _visited(value: Any) -> Iterator[tuple[Any, list[Any], Any]]:
    """The containers and objects in a structure, with their children and other state."""
    stack = [value]
    while stack:
        top = stack.pop()
        sort = _sort(type(top))  # type: ignore[arg-type]
        if sort is not None:
            children, rest = (top.values(), None) if sort is dict else (top, None) if sort is list else _opened(sort, top)
            yield top, [*children], rest
            stack += children


def states(value: Any) -> list[Any]:
    """What the objects in a structure hold beside their children."""
    return [rest for _, _, rest in _visited(value) if rest is not None]


def containers(value: Any) -> list[tuple[Any, list[Any]]]:
    """The containers and objects in a structure, with their children, in an order that all that are alike have."""
    return [(top, children) for top, children, _ in _visited(value)]


def objects_of(found: Any) -> Iterator[Any]:
    """The objects that `marks` tell by their identity alone, so that their state can change."""
    if isinstance(found, Same):
        yield found.value
    elif type(found) is tuple:
        for part in found:
            yield from objects_of(part)


@functools.lru_cache(maxsize=1024)
def _taken(cls: type) -> Callable[[Any], tuple[Iterable[Any], Any]]:
    return _of_tuple if issubclass(cls, tuple) else _of_object


@functools.lru_cache(maxsize=1024)
def _sort(cls: type) -> type | None:
    """How the parts of instances of a class are found: as those of a dict, a list or the class; None for a leaf."""
    if cls in _registered:
        return cls
    if issubclass(cls, dict):
        return dict
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        made = getattr(cls.__new__, "__code__", None)
        return list if cls.__base__ is tuple and made is not None and made.co_filename == "<string>" else cls
    if issubclass(cls, (list, tuple, collections.deque)):
        return list
    return cls if dataclasses.is_dataclass(cls) and not cls.__module__.startswith("symdiff.") else None


def structure_taken_apart(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], Any, list[Any]]:
    """The leaves of arguments, None among them, the structure of `(args, kwargs)`, and its marks."""
    found = _walk(args)
    if kwargs:
        found += _walk(kwargs)
    return *_flattened((args, kwargs), True), found


def _flattened(value: Any, none_is_leaf: bool) -> tuple[list[Any], Any]:
    try:
        return optree.tree_flatten(value, none_is_leaf=none_is_leaf, namespace=NAMESPACE)
    except ValueError as error:  # optree puts keys in order, where they have one
        raise TraceError(f"{user_line()}: keys of a dict that have no order: {error}; use keys of one type") from None


def flatten(value: Any, none_is_leaf: bool = False) -> tuple[list[Any], Any]:
    """The leaves of a structure, and the structure itself."""
    _walk(value)
    return _flattened(value, none_is_leaf)


def unflatten(tree: Any, leaves: Iterable[Any]) -> Any:
    """A structure with these leaves."""
    return optree.tree_unflatten(tree, leaves)


def structure(value: Any, none_is_leaf: bool = False) -> Any:
    """The structure of a value."""
    return flatten(value, none_is_leaf)[1]


def leaves(value: Any, none_is_leaf: bool = False) -> list[Any]:
    """The leaves of a value, in order."""
    return flatten(value, none_is_leaf)[0]


def all_leaves(value: Any) -> list[Any]:
    """The leaves of a structure, None among them."""
    return leaves(value, none_is_leaf=True)


def map_leaves(function: Callable[..., Any], value: Any, *others: Any) -> Any:
    """A structure with `function` of each leaf (and of those at its place in the others)."""
    _walk(value)
    return optree.tree_map(function, value, *others, namespace=NAMESPACE)


def structure_paths(value: Any) -> list[tuple[Any, ...]]:
    """For every leaf, None included, the way to it as entries that `codify`."""
    _walk(value)
    return list(optree.tree_accessors(value, none_is_leaf=True, namespace=NAMESPACE))


def structures_otherwise_keyed(tree: Any, leaves: Iterable[Any]) -> Iterator[Any]:
    """A structure with the same entries in dicts that hold them in other orders, or under equal keys of other types."""
    for order in (*ORDERS, _retyped):
        made = unflatten(tree, leaves)
        changed = [d for d in _dicts(made) if _reordered(d, order)]
        if changed:
            yield made


def _dicts(value: Any) -> list[dict[Any, Any]]:
    found, stack = [], [value]
    while stack:
        top = stack.pop()
        if type(top) in (dict, collections.defaultdict):
            found.append(top)
        elif _sort(type(top)) is None:  # type: ignore[arg-type]
            continue
        stack += optree.tree_flatten_one_level(top, none_is_leaf=True, namespace=NAMESPACE)[0]
    return found


def _reordered(held: dict[Any, Any], order: Callable[[list[Any]], list[Any]]) -> bool:
    """Whether a dict, put in an order, has changed."""
    before, values = list(held), dict(held)
    held.clear()
    held.update((key, values[key]) for key in order(before))
    return tuple(map(_mark, before)) != tuple(map(_mark, held))


def _turned(keys: list[Any]) -> list[Any]:
    return keys[1:] + keys[:1]


def _swapped(keys: list[Any]) -> list[Any]:
    return keys[1::-1] + keys[2:]


def _reversed(keys: list[Any]) -> list[Any]:
    return keys[::-1]


ORDERS = (_turned, _swapped, _reversed)  # which together move each key to another place, and between other neighbours


def _retyped(keys: list[Any]) -> list[Any]:
    return [_equal_of_another_type(k) for k in keys]


def _equal_of_another_type(key: Any) -> Any:
    """A number that is equal to a key and of another type, the key itself where there is none."""
    if type(key) is int:
        return float(key) if abs(key) < 2**53 else key
    return int(key) if type(key) is bool or (type(key) is float and key.is_integer()) else key


def by_path(value: Any) -> dict[str, Any]:
    """The leaves of a gradient (or of any structure) by their path.

    >>> by_path({"layers": [{"W": 1.0, "b": 2.0}]})
    {"['layers'][0]['W']": 1.0, "['layers'][0]['b']": 2.0}
    """
    found, _ = flatten(value, none_is_leaf=True)
    names = ["".join(entry.codify("") for entry in path).removeprefix(".") for path in structure_paths(value)]
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
        or (_is_whole(p) and _is_whole(dp) and np.array_equal(p, dp))  # a setting, which the gradient gives back
    ):
        return p
    value = step(p, dp)
    if isinstance(p, np.ndarray):
        found = np.asarray(value)
        if found.shape != p.shape or not np.can_cast(found.dtype, p.dtype, "same_kind"):
            raise ShapeError(f"a step gives {found.dtype}{list(found.shape)} for a parameter of {p.dtype}{list(p.shape)}")
    return value


def _is_whole(value: Any) -> bool:
    return value.dtype.kind in "iu" if isinstance(value, (np.ndarray, np.generic)) else isinstance(value, int)


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
        held: Any = _of_tuple(old)[1]
        return held.with_children(parts) if hasattr(old, "_fields") else tuple(parts)
    if dataclasses.is_dataclass(old) and not isinstance(old, type):
        held, theirs = _of_object(old)[1], fields_of(new)[0]
        parts = [_settled(part, theirs[name]) for name, part in fields_of(old)[0].items()]
        if type(old).__dataclass_params__.frozen:  # type: ignore[attr-defined]
            return held.with_children(parts)
        for name, part in zip(held.names, parts, strict=True):
            setattr(old, name, part)
        return old
    return new
