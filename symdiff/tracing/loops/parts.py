"""What the names of a loop hold, taken apart: lists, tuples, deques, dicts, objects of the user's classes by their attributes,
and variables that functions share.

Assumes that an object has nothing beside its attributes: its classes were written in Python. Guarantees that what is put
together again has the class, the keys in their order and the attributes of what was taken apart; no constructor is run.
"""

import types
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from symdiff.tracing.values.tracer import PLAIN_NUMBERS, Tracer
from symdiff.vocabulary.libraries import is_users, module_of

_KEYS = (str, int, bytes, type(None))
COLUMNS = ".columns"  # the name by which loops have the columns of lists
_LOOKED_AT = 2_000  # things in which an array is looked for
_WITHOUT_STATE = ("abc", "typing")  # modules of classes to inherit from


class Parts(NamedTuple):
    """The class of a value, the keys or attributes of its parts, where they have any (of a deque its length), and the parts."""

    kind: type
    names: tuple[Any, ...]
    parts: tuple[Any, ...]
    own: Any = None  # the value itself, where it is from before

    def together(self, parts: Iterable[Any]) -> Any:
        """Such a value with other parts."""
        if self.kind is dict:
            return dict(zip(self.names, parts, strict=True))
        if self.kind is deque:
            return deque(parts, *self.names)
        if issubclass(self.kind, (list, tuple)):
            return self.kind(parts) if self.kind in (list, tuple) else tuple.__new__(self.kind, parts)
        plain = types.SimpleNamespace if issubclass(self.kind, types.SimpleNamespace) else object
        return self.into(plain.__new__(self.kind), parts)

    def into(self, owner: Any, parts: Iterable[Any]) -> Any:
        """A list, a deque, a dict, an object or the cell of a variable, which has these parts from now on."""
        if isinstance(owner, list):
            owner[:] = parts
        elif isinstance(owner, deque):
            owner.clear()
            owner.extend(parts)
        elif isinstance(owner, types.CellType):
            (owner.cell_contents,) = parts
        elif isinstance(owner, dict):
            owner.clear()
            owner.update(zip(self.names, parts, strict=True))
        else:
            for name in [name for name in getattr(owner, "__dict__", ()) if name not in self.names]:
                del vars(owner)[name]
            for name, part in zip(self.names, parts, strict=True):
                if _is_slot(self.kind, name):
                    object.__setattr__(owner, name, part)
                else:
                    vars(owner)[name] = part
        return owner


def parts_of(value: Any) -> Parts | None:
    """The parts of a value; None for what has none, or may have more."""
    kind = type(value)
    if kind in (list, tuple) or (issubclass(kind, tuple) and hasattr(kind, "_fields") and not hasattr(value, "__dict__")):
        return Parts(kind, (), tuple(value))
    if kind is deque:
        return Parts(kind, (value.maxlen,), tuple(value))
    if kind is types.CellType:
        return Parts(kind, (), (value.cell_contents,)) if value != types.CellType() else None
    if kind is dict:
        return Parts(kind, tuple(value), tuple(value.values())) if all(type(k) in _KEYS for k in value) else None
    plain = (object, types.SimpleNamespace)
    if not all(cls in plain or is_users(cls) or module_of(cls) in _WITHOUT_STATE for cls in kind.__mro__):
        return None
    own = getattr(value, "__dict__", {})
    slots = [name for cls in kind.__mro__ for name in vars(cls) if _is_slot(cls, name) and hasattr(value, name)]
    names = (*own, *slots)
    return Parts(kind, names, tuple([own[n] if n in own else getattr(value, n) for n in names])) if names else None


def is_list_of_arrays(owner: Any) -> bool:
    """Whether a list holds arrays that may be the rows of one."""
    return type(owner) is list and are_arrays(owner)


def are_arrays(values: Sequence[Any]) -> bool:
    """Whether all of some values, of which there are any, are arrays of floating numbers of one shape and dtype."""
    found = all(isinstance(v, Tracer) and v.shape and v.dtype.char in "dD" for v in values)
    return found and len({(v.shape, v.dtype, type(v)) for v in values}) == 1


def leaves_of(value: Any, beside: Container[Any] = ()) -> Iterator[Any]:
    """What has no parts, in a value, and not in what is `beside` it."""
    stack, seen = [value], {}
    while stack:
        part = stack.pop()
        found = parts_of(part)
        if found is None:
            yield part
        elif part is not value and part in beside:
            continue
        elif id(part) not in seen:
            seen[id(part)] = part
            stack += reversed(found.parts)


def ways_to(values: dict[str, Any], wanted: Callable[[Any], bool]) -> list[tuple[Any, ...]]:
    """The ways to where lists, deques, dicts and objects have a wanted value: a name, and the places of parts in parts."""
    found: list[tuple[Any, ...]] = []
    waiting: deque[tuple[tuple[Any, ...], Any]] = deque(((name,), value) for name, value in values.items())
    seen = dict[int, Any]()
    while waiting and len(seen) < _LOOKED_AT:
        way, value = waiting.popleft()
        parts = None if is_cell(value) or id(value) in seen else parts_of(value)
        if parts is not None:
            seen[id(value)] = value
            for place, part in enumerate(parts.parts):
                if wanted(part) and not isinstance(value, tuple):
                    found.append((*way, place))
                waiting.append(((*way, place), part))
    return found


def at_way(values: dict[Any, Any], way: tuple[Any, ...]) -> Any:
    """What is where a way leads; None where there is nothing."""
    name, *places = way
    value = values.get(name)
    for place in places:
        parts = parts_of(value)
        if parts is None or place >= len(parts.parts):
            return None
        value = parts.parts[place]
    return value


def ways_alike(values: dict[str, Any], way: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """A way, and those to the same place in the other items of the lists, deques and dicts on it, but for columns."""
    yield way
    for n in range(1, 0 if way[0] == COLUMNS else len(way)):
        holder = at_way(values, way[:n])
        if type(holder) in (list, dict, deque):
            yield from ((*way[:n], k, *way[n + 1 :]) for k in range(len(holder)) if k != way[n])


def is_cell(value: Any) -> bool:
    """Whether a value is a number, a truth or an array, traced or not."""
    return type(value) in PLAIN_NUMBERS or isinstance(value, (np.number, np.bool_, np.ndarray, Tracer))


def replaced_in(holder: Any, old: Any, new: Any) -> bool:
    """Whether something that held one value holds another one now in its place."""
    kind = type(holder)
    if kind is dict:
        places: Any = [k for k, v in holder.items() if v is old]
    elif kind in (list, deque):
        places = [k for k, v in enumerate(holder) if v is old]
    elif kind is types.CellType:
        holder.cell_contents = new
        return True
    elif (parts := None if issubclass(kind, tuple) else parts_of(holder)) is not None:
        for name, part in zip(parts.names, parts.parts, strict=True):
            if part is old:
                object.__setattr__(holder, name, new)
        return True
    else:
        return False
    for place in places:
        holder[place] = new
    return bool(places)


def _is_slot(cls: type, name: str) -> bool:
    return type(getattr(cls, name, None)) is types.MemberDescriptorType
