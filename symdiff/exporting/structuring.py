"""Adds to a generated file the function that takes the user's own arguments: settings, and structures as dicts and objects.

Assumes a file in Python whose function takes and returns the leaves. Guarantees that a structure of other lengths or with
other settings raises `ValueError`, and that the file imports none of the user's classes. Of arrays of integers beyond `SHOWN`
cells digests are compared, of functions their names, of other objects their classes. Refuses, with `ExportError`, results that
cannot be made from the arguments, and keys that cannot be written.
"""

import dataclasses
import hashlib
import keyword
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from symdiff.codegen.names import Names
from symdiff.codegen.source import Source
from symdiff.codegen.text import Result, wrapped_text
from symdiff.errors import ExportError
from symdiff.vocabulary import structures
from symdiff.vocabulary.literals import (
    WIDTH,
    Shown,
    docstring_literal,
    is_attribute_identifier,
    is_literal,
    literal,
    literal_name,
    message_literal,
)

SUFFIX = "_leaves"
SHOWN = 64  # cells up to which a file, and the command in its header, hold the values of an array of integers
INDENT = "    "
_ASKING = ("getattr", "len", "list", "repr", "type", "ValueError")  # what checks of structures call
OWN = ("copy", "dataclasses", "hashlib", "_made_for", "_digest", "_like")
_LIKE = '''def _like(given: Any, **fields: Any) -> Any:
    """A copy of an object with other fields; the constructor of its class does not run."""
    made = copy.copy(given)
    for name, value in fields.items():
        object.__setattr__(made, name, value)
    return made'''
_MADE_FOR = '''def _made_for(name: str, given: Any, made: Any) -> None:
    """Raise ValueError where an argument is not the one that this file was made for."""
    plain = given.tolist() if hasattr(given, "tolist") else given
    if not isinstance(plain, type(made)) or isinstance(plain, bool) != isinstance(made, bool) or plain != made:
        given, made = (hex(v) if isinstance(v, int) and abs(v) >> 999 else repr(v) for v in (given, made))
        raise ValueError(f"{name} is {given}, {made} expected: this file was made for that; generate another one")'''
_DIGEST = '''def _digest(given: Any) -> str:
    """A digest of the numbers of an array."""
    return hashlib.sha256(repr(given.tolist() if hasattr(given, "tolist") else given).encode()).hexdigest()[:16]'''


@dataclass(frozen=True)
class Leaf:
    """The place of a number or array: the function of the leaves takes or returns it with this name, at this position."""

    name: str
    position: int


@dataclass(frozen=True)
class Default:
    """An argument that the file was made without: it has its default, and no other value."""

    value: Any


@dataclass(frozen=True)
class Argument:
    """An argument of a file's function: a structure with a `Leaf` at each place that is traced, or a setting of the file.

    `default` is its text in the signature, "" for none; `literal_name` ones are given by name only; settings in a tangent are
    not `checked`. `keyed`: the order of keys and their types are those that the file was made with. `kind` is its type, where
    that is not its leaf's.
    """

    name: str
    value: Any
    default: str = ""
    named: bool = False
    checked: bool = True
    keyed: bool = False
    kind: str = ""

    def typed(self, types: Sequence[str]) -> "Argument":
        """With its type, from those of the leaves."""
        return replace(self, kind=self.kind or (types[self.value.position] if isinstance(self.value, Leaf) else "Any"))

    def __str__(self) -> str:
        return f"{self.name}: {self.kind}" + (f" = {self.default}" if self.default else "")


def exported_default(value: Any) -> str:
    """A default in a signature; of what cannot be written there an ellipsis, which stands for the argument left out."""
    return literal(value) if fits_in_file(value) else "..."


def fits_in_file(value: Any) -> bool:
    """Whether a file can hold a value, and tell it from others: NaN is unlike itself."""
    return is_literal(value) and value == value


def exported_parameters(arguments: Iterable[Argument]) -> list[Argument]:
    """Arguments as a signature takes them: those given by name last, and no default before one that has to be given."""
    placed = [a for a in arguments if not a.named]
    last = max((k for k, a in enumerate(placed) if not a.default), default=-1)
    placed = [replace(a, default="") if k < last else a for k, a in enumerate(placed)]
    return placed + [a for a in arguments if a.named]


def is_exported_structure(value: Any) -> bool:
    """Whether an argument holds others."""
    return not isinstance(value, (Leaf, Default)) and structures.leaves(value, none_is_leaf=True) != [value]


def exports_plainly(value: Any) -> bool:
    """Whether a result is a leaf or nested tuples and lists of leaves, which a function of leaves returns as it is."""
    if type(value) in (tuple, list):
        return all(map(exports_plainly, value))
    return isinstance(value, Leaf)


def exported_positions(value: Any) -> Result:
    """A plain result with the position of each leaf."""
    if isinstance(value, Leaf):
        return value.position
    return [exported_positions(v) for v in value] if type(value) is list else tuple(exported_positions(v) for v in value)


def with_structures(source: Source, name: str, arguments: Sequence[Argument], result: Any, doc: str, where: str) -> Source:
    """The source of a function of leaves, `source.entry`, with the function `name` of the user's arguments after it.

    `result` has a `Leaf` for each output; None for what the function of leaves returns as it is.
    """
    assert source.file is not None
    asks = any(not isinstance(a.value, Leaf) for a in arguments)
    names = Names((*OWN, source.entry), reserved=[*keyword.kwlist, "out", *(_ASKING if asks else ())])
    parameters = [a.typed(source.file.types) for a in exported_parameters(arguments)]
    arguments = [replace(a, name=names.fresh(a.name)) for a in parameters]
    if any(a.name != p.name and _is_parameter(p.name) for a, p in zip(arguments, parameters, strict=True)):
        shown = [p if _is_parameter(p.name) else a for a, p in zip(arguments, parameters, strict=True)]
        names.taken |= {p.name for p in shown}
        inner = _structured(source, names.fresh(f"_{name}"), arguments, result, "", where, names)
        return _renamed(inner, names.fresh(name), shown, arguments, doc)
    return _structured(source, names.fresh(name), arguments, result, doc, where, names)


def _is_parameter(name: str) -> bool:
    """Whether a function of a file can have a parameter of this name, whatever its text calls."""
    return is_attribute_identifier(name) and name != "out"


def _signature(entry: str, arguments: Sequence[Argument], returns: str) -> list[str]:
    placed, by_name = [str(a) for a in arguments if not a.named], [str(a) for a in arguments if a.named]
    taken = [*placed, *(["*", *by_name] if by_name else []), "out: Any = None"]
    return wrapped_text(f"def {entry}(", taken, f") -> {returns}:", "")


def _renamed(source: Source, entry: str, shown: Sequence[Argument], arguments: Sequence[Argument], doc: str) -> Source:
    """The source with a function around its own whose parameters have names that the text of that one needs itself."""
    assert source.file is not None
    call = [f"{a.name}={p.name}" if a.named else p.name for a, p in zip(arguments, shown, strict=True)]
    lines = [*_signature(entry, shown, "Any"), *docstring_literal(doc)]
    lines += wrapped_text(f"return {source.entry}(", [*call, "out=out"], ")", INDENT)
    return source.file.with_entry("\n".join(lines), ["from typing import Any"], ()).source(entry, source.target)


def _structured(
    source: Source, entry: str, arguments: Sequence[Argument], result: Any, doc: str, where: str, names: Names
) -> Source:
    """The source with the function `entry` of structures."""
    assert source.file is not None
    values = {a.name: a.value for a in arguments}
    writer = _Writer({a.name: a for a in arguments if a.checked}, where)
    call = [place for place, _ in _leaves(values, where)]
    lines = _signature(entry, arguments, "Result" if result is None else "Any")
    lines += [*docstring_literal(doc), *writer.checks]
    if result is None:
        lines += wrapped_text(f"return {source.entry}(", [*call, "out=out"], ")", INDENT)
        return _added(source, writer, entry, lines)
    results = _leaves({"out": result}, where)
    into, targets = [place for place, _ in results], [names.fresh(leaf.name) for _, leaf in results]
    writer.targets = targets
    given = f"out={into[0]}" if len(into) == 1 else ("out=(", into, ")")
    lines.append("    if out is not None:")
    lines += _laid("", (f"{source.entry}(", [*call, given], ")"), "", INDENT * 2)
    lines.append("        return out")
    *head, last = wrapped_text("", targets, "", INDENT)
    lines += [*head, *wrapped_text(f"{last.strip()} = {source.entry}(", call, ")", INDENT)]
    made = writer.made(result)
    bare = f"{INDENT}return {_flat(made)[1:-1]}"
    short = made[0] == "(" and len(made[1]) > 1 and len(bare) <= WIDTH
    lines += [bare] if short else _laid("return ", made, "", INDENT)
    return _added(source, writer, entry, lines)


def _added(source: Source, writer: "_Writer", entry: str, lines: list[str]) -> Source:
    """The file with the function of these lines, and what it calls."""
    assert source.file is not None
    text = "\n".join(lines)
    modules = (("copy", writer.copies), ("dataclasses", writer.replaces), ("hashlib", writer.digests))
    standard = ["from typing import Any", *(f"import {module}" for module, used in modules if used)]
    texts = ((_MADE_FOR, writer.settles), (_DIGEST, writer.digests), (_LIKE, writer.copies))
    support = [text for text, used in texts if used]
    return source.file.with_entry(text, standard, support).source(entry, source.target)


def _children(value: Any, where: str) -> list[tuple[str, Any]] | None:
    """What a structure holds, each with the text that reaches it; None for what is no structure."""
    if isinstance(value, dict):
        return [(f"[{_key(key, where)}]", child) for key, child in value.items()]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return [(_attribute(name, where), getattr(value, name)) for name in value._fields]
    if isinstance(value, (tuple, list)):
        return [(f"[{k}]", child) for k, child in enumerate(value)]
    if isinstance(value, (Leaf, type)):
        return None
    if dataclasses.is_dataclass(value):
        return [(_attribute(name, where), child) for name, child in structures.fields_of(value)[0].items()]
    if structures.leaves(value, none_is_leaf=True) != [value]:
        raise ExportError(f"{where}: a file cannot take apart {type(value).__name__}; export takes containers and dataclasses")
    return None


def _attribute(name: str, where: str) -> str:
    if not is_attribute_identifier(name):
        raise ExportError(f"{where}: the field {name!r} cannot be written into a file; Python would read another name")
    return f".{name}"


def _key(key: Any, where: str) -> str:
    """A key as a literal that finds the same entry."""
    kind = next((k for k in (str, bytes, bool, int, float, type(None)) if isinstance(key, k)), None)
    if kind is None or key != key or type(key).__eq__ is not kind.__eq__ or type(key).__hash__ is not kind.__hash__:
        raise ExportError(f"{where}: the key {key!r} cannot be written into a file; strings and numbers can")
    return literal(key)


def _leaves(values: dict[str, Any], where: str) -> list[tuple[str, Leaf]]:
    """Every `Leaf` in structures by name, in order, with the text that reaches it."""
    found: list[tuple[str, Leaf]] = []
    stack = list(values.items())
    while stack:
        place, value = stack.pop()
        if isinstance(value, Leaf):
            found.append((place, value))
        else:
            stack += [(place + text, child) for text, child in _children(value, where) or ()]
    return sorted(found, key=lambda pair: pair[1].position)


class _Writer:
    """The text of a function of structures: its arguments taken apart and checked, its result put together."""

    def __init__(self, arguments: dict[str, Argument], where: str) -> None:
        self.where = where
        self.targets: list[str] = []
        self.checks: list[str] = []
        self.replaces = self.settles = self.digests = self.copies = self.keyed = False
        self._objects: list[tuple[str, Any]] = []
        self._settings: list[tuple[str, Any]] = []
        for name, argument in arguments.items():
            self.keyed = argument.keyed
            self._take(name, argument.value)

    def _take(self, place: str, value: Any) -> None:
        if isinstance(value, Leaf):
            return
        if isinstance(value, Default):
            self._settle(place, place, literal(value.value) if fits_in_file(value.value) else "...")
            return
        children = _children(value, self.where)
        if children is None:
            self._check_setting(place, value)
            return
        if isinstance(value, (dict, list)) or type(value) is tuple:
            count = len(children)
            self._check(f"len({place}) != {count}", f"{place} has ", Shown(f"len({place})"), f" entries, {count} expected")
        else:
            self._objects.append((place, value))
            for name, held in structures.fields_of(value)[1].items() if dataclasses.is_dataclass(value) else ():
                self._check_setting(place + _attribute(name, self.where), held)
        if self.keyed and isinstance(value, dict):
            texts = all(type(key) is str for key in value)
            given, made = (f"list({place})", [*value]) if texts else (f"[repr(k) for k in {place}]", [*map(repr, value)])
            self._settle(f"list({place})", given, repr(made))
        for text, child in children:
            self._take(place + text, child)

    def _check_setting(self, place: str, value: Any) -> None:
        """What is part of the file must be what it was made with."""
        self._settings.append((place, value))
        if is_literal(value):
            self._settle(place, place, literal(value))
        elif isinstance(value, np.ndarray) and value.size <= SHOWN:
            self._settle(place, place, repr(value.tolist()))
        elif isinstance(value, np.ndarray):
            self.digests = True
            digest = hashlib.sha256(repr(value.tolist()).encode()).hexdigest()[:16]
            self._settle(f"the digest of {place}", f"_digest({place})", literal(digest))
        else:
            known, of = literal_name(value), place
            if known is None:
                known, of = (type(value).__module__, type(value).__qualname__), f"type({place})"
            words = ("__module__", "__name__" if of == place else "__qualname__")
            found = ", ".join(f'getattr({of}, "{word}", None)' for word in words)
            self._settle(of, f"({found})", literal(known))

    def _settle(self, shown: str, given: str, made: str) -> None:
        self.settles = True
        self.checks += wrapped_text("_made_for(", [literal(shown), given, made], ")", INDENT)

    def _check(self, condition: str, *message: str | Shown) -> None:
        self.checks += [f"    if {condition}:", f"        raise ValueError({message_literal(*message)})"]

    def made(self, value: Any) -> Any:
        """A result as nested text: a string, or the opening, parts and closing of something that holds more."""
        if isinstance(value, Leaf):
            return self.targets[value.position]
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            place, changed = self._like(value)
            return f"{place}._replace(", changed, ")"
        if type(value) is dict:
            return "{", [_prefixed(f"{_key(k, self.where)}: ", self.made(v)) for k, v in value.items()], "}"
        if type(value) in (list, tuple):
            parts = [self.made(v) for v in value]
            return ("[", parts, "]") if type(value) is list else ("(", parts, ",)" if len(parts) == 1 else ")")
        if value is None or type(value) in (bool, str, bytes, int, float):
            return literal(value)
        if dataclasses.is_dataclass(value):
            place, changed = self._like(value)
            if structures.is_constructed_structure(value):
                self.copies = True
                return f"_like({place}, ", changed, ")"
            self.replaces = True
            return f"dataclasses.replace({place}, ", changed, ")"
        kept = next((place for place, setting in self._settings if setting is value), None)
        if kept is not None:
            return kept
        raise ExportError(
            f"{self.where}: a file cannot make a {type(value).__name__}; let the function return numbers, arrays, tuples, "
            "lists or dicts, or what its arguments are"
        )

    def _like(self, value: Any) -> tuple[str, list[Any]]:
        """An argument's object of the same class, and the fields in which the result differs from it."""
        for place, found in self._objects:
            if type(found) is type(value):
                mine, theirs = _children(value, self.where) or [], _children(found, self.where) or []
                changed = [(n, v) for (n, v), (_, old) in zip(mine, theirs, strict=True) if v is not old]
                return place, [_prefixed(f"{name[1:]}=", self.made(v)) for name, v in changed]
        raise ExportError(
            f"{self.where}: the result holds a {type(value).__name__}, which a file cannot import; return a tuple, list or dict"
        )


def _prefixed(prefix: str, made: Any) -> Any:
    return prefix + made if isinstance(made, str) else (prefix + made[0], *made[1:])


def _flat(made: Any) -> str:
    return made if isinstance(made, str) else f"{made[0]}{', '.join(map(_flat, made[1]))}{made[2]}"


def _laid(prefix: str, made: Any, suffix: str, indent: str) -> list[str]:
    """Nested text on one line, or every part on lines of its own."""
    line = f"{indent}{prefix}{_flat(made)}{suffix}"
    if len(line) <= WIDTH or isinstance(made, str):
        return [line]
    opening, parts, closing = made
    head, _, first = opening.rpartition("(") if opening.endswith(", ") else (opening, "", "")
    opening, parts = (f"{head}(", [first[:-2], *parts]) if first else (opening, parts)
    closing = closing.removeprefix(",") + suffix
    if all(isinstance(part, str) for part in parts):
        return wrapped_text(prefix + opening, parts, closing, indent)
    inner = [text for part in parts for text in _laid("", part, ",", indent + INDENT)]
    return [f"{indent}{prefix}{opening}", *inner, f"{indent}{closing}"]
