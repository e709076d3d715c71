"""Python functions that take one structure apart, or put it together, as `vocabulary/structures.py` does for all.

Assumes a structure of optree's. Guarantees leaves in its order, and a function that declines whatever code can tell from it,
the order of keys and the state of objects among that; objects are made without their constructors. Parts that only their
classes know are left to `structures`.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from symdiff.codegen.source import Source
from symdiff.vocabulary import structures
from symdiff.vocabulary.literals import is_attribute_identifier, literal

TAKE, MAKE = "take", "make"
_NUMBERS = (bool, int, float, complex, np.ndarray, *(t for t in np.sctypeDict.values() if issubclass(t, (np.number, np.bool_))))
_LEAVES = frozenset({*_NUMBERS, str, bytes, type(None)}).issuperset
_KINDS = {kinds: kinds.issuperset for kinds in map(frozenset, ((), (str,), (int,), (bytes,)))}  # of keys


class _Place(int):
    """A leaf of a structure that is put together, by its place."""


class _Function:
    """The lines of a function, and what they name."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {"leaves": _LEAVES}
        self.mutable: dict[str, Any] = {}  # containers and objects by their names
        self._held: dict[int, str] = {}
        self._count = 0

    def held(self, value: Any) -> str:
        """A name for an object."""
        name = self._held.get(id(value))
        if name is None:
            name = self._held[id(value)] = f"c{len(self.names)}"
            self.names[name] = value
        return name

    def fresh(self) -> str:
        """A name for a value."""
        self._count += 1
        return f"v{self._count}"

    def source(self, head: str, entry: str) -> Source:
        text = "".join(f"    {line}\n" for line in self.lines)
        return Source(f"def {head}:\n{text}", entry, "python", tuple(self.names.items()))


def taking_source(sample: Any) -> Source:
    """A function of a value: the list of its leaves, or None where its structure is not that of `sample`."""
    function, leaves = _Function(), list[str]()
    _take(function, "v", sample, leaves)
    lines = [*function.lines, f"found = [{', '.join(leaves)}]", "return found if leaves(map(type, found)) else None"]
    count = len(function.mutable)
    if count > len({*map(id, function.mutable.values())}):
        lines = ["return None  # something is given twice"]
    elif count > 1:
        lines[-2:-2] = [f"if len({{*map(id, ({', '.join(function.mutable)}))}}) < {count}:", "    return None"]
    function.lines = ["try:", *(f"    {line}" for line in lines), "except AttributeError:  # an empty slot", "    return None"]
    return function.source(f"{TAKE}(v)", TAKE)


def _take(function: _Function, name: str, value: Any, leaves: list[str]) -> None:
    """Write how a part like `value` is taken apart; `leaves` are the items of the list of leaves."""
    found = structures.layout_of(value)
    if found is None:
        leaves.append(name)
        return
    if type(value) is not tuple:
        function.mutable[name] = value
    tests, children = [f"type({name}) is not {function.held(type(value))}"], name
    order = range(len(found.children))
    if found.how == "items":
        tests.append(f"len({name}) != {len(order)}")
    elif found.how == "values":
        same = function.held(_KINDS[frozenset(map(type, found.names))])
        tests += [f"tuple({name}) != {function.held(found.names)}", f"not {same}(map(type, {name}))"]
        children = f"{name}.values()"
        order = sorted(order, key=found.names.__getitem__)  # type: ignore[assignment]
    elif found.how == "attributes":
        held = function.fresh()
        tests.append(f"tuple({held} := {function.held(found.found[0])}({name})) != {function.held(found.names)}")
        children = f"{held}.values()"
    elif found.how == "slots":
        children = f"({''.join(f'{function.held(get)}({name}), ' for get in found.found)})"
    else:
        children = function.fresh()
        function.lines.append(f"{children} = {function.held(_taken_by_class(value))}({name})")
        if len(structures.containers(value)) > 1:
            function.lines.append("return None")  # which may be given elsewhere, too
        tests = [f"{children} is None"]
    function.lines += [f"if {' or '.join(tests)}:", "    return None"]
    if all(structures.layout_of(child) is None for child in found.children) and [*order] == sorted(order):
        leaves.append(f"*{children}")
        return
    names = [function.fresh() for _ in found.children]
    function.lines.append(f"{', '.join(names)}, = {children}")
    for k in order:
        _take(function, names[k], found.children[k], leaves)


def _taken_by_class(sample: Any) -> Callable[[Any], list[Any] | None]:
    expected, marks = structures.structure(sample, none_is_leaf=True), structures.marks(sample)

    def take(value: Any) -> list[Any] | None:
        leaves, tree = structures.flatten(value, none_is_leaf=True)
        return leaves if tree == expected and structures.marks(value) == marks else None

    return take


def making_source(tree: Any) -> Source:
    """A function of leaves: the structure that `tree` has with them."""
    function = _Function()
    made = _make(function, structures.unflatten(tree, map(_Place, range(tree.num_leaves))))
    function.lines.append(f"return {made}")
    return function.source(f"{MAKE}(r)", MAKE)


def _make(function: _Function, value: Any) -> str:
    """Write how a part is made; the expression that it is."""
    if type(value) is _Place:
        return f"r[{int(value)}]"
    found = structures.layout_of(value)
    if found is None:
        held = function.held(value)
        return f"{held}.copy()" if isinstance(value, np.ndarray) else held
    name = function.fresh()
    if not found.how:
        leaves, tree = structures.flatten(value)
        parts = ", ".join(_make(function, leaf) for leaf in leaves)
        function.lines.append(f"{name} = {function.held(functools.partial(structures.unflatten, tree))}([{parts}])")
        return name
    cls: Any = type(value)
    kind, filled = function.held(cls), list[str]()
    made = [_make(function, child) for child in found.children]
    if found.how == "items":
        items = _run(found.children) or "".join(f"{part}, " for part in made)
        text = f"[{items}]" if cls is list else f"({items})"
        text = text if cls in (list, tuple) else f"{function.held(tuple.__new__)}({kind}, {text})"
    elif found.how == "values":
        text = f"{{{', '.join(f'{literal(key)}: {part}' for key, part in zip(found.names, made, strict=True))}}}"
    else:
        text = f"{function.held(object.__new__)}({kind})"
        if cls.__setattr__ is object.__setattr__ and all(map(is_attribute_identifier, found.names)):
            filled = [f"{name}.{key} = {part}" for key, part in zip(found.names, made, strict=True)]
        else:
            put = function.held(object.__setattr__)
            filled = [f"{put}({name}, {literal(key)}, {part})" for key, part in zip(found.names, made, strict=True)]
    function.lines += [f"{name} = {text}", *filled]
    return name


def _run(children: list[Any]) -> str:
    """Leaves that follow each other, as one item; an empty text for others, and for few."""
    places = [int(child) for child in children if type(child) is _Place]
    if len(places) < max(len(children), 3) or places != [*range(places[0], places[0] + len(places))]:
        return ""
    return f"*r[{places[0]}:{places[-1] + 1}], "
