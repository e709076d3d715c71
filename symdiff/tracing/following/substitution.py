"""Functions without source: a copy whose globals and cells hold what is to be called instead.

Assumes functions made by `exec`, lambdas that cannot be found, and files changed since they were imported. Guarantees that
nothing is patched: the copy has globals of its own, so what it assigns to globals stays in the copy. Refuses `is True` and
patterns of classes; calls of functions and methods of what it receives or makes are not followed. Functions that it reads in
another way than calling them stand as a `Late`, which only `is` tells from them; where the code asks that, as themselves.
"""

import datetime
import dis
import functools
import itertools
import opcode
import random
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from symdiff.errors import TraceError
from symdiff.tracing.captures.mentioning import nested_codes, steps_of_code
from symdiff.tracing.following.implicit import JOINING, joined_by
from symdiff.tracing.state.late import Late, itself
from symdiff.vocabulary.libraries import FOLLOWED, user_line
from symdiff.vocabulary.signatures import Function, Lookup

_LOAD = opcode.opmap["LOAD_GLOBAL"]
_ATTRIBUTE = opcode.opmap["LOAD_ATTR"]
_STORES = frozenset(opcode.opmap[name] for name in ("STORE_GLOBAL", "DELETE_GLOBAL"))
_USES = frozenset("LOAD_GLOBAL LOAD_NAME LOAD_DEREF LOAD_CLASSDEREF LOAD_FROM_DICT_OR_DEREF STORE_DEREF DELETE_DEREF".split())
_REACHES = frozenset(("LOAD_ATTR", "LOAD_METHOD"))
_BUILTIN = (types.BuiltinFunctionType, np.ufunc, type(np.linspace))
_FUNCTIONS = (types.FunctionType, *_BUILTIN)
_DATES = (datetime.datetime, datetime.date)
_MAKING = (random.SystemRandom, random.Random, np.random.RandomState, np.datetime64)  # classes that may be refused
_CALLED = "called "  # before the name of a global, where it is called only


def substituted(f: types.FunctionType, call: Lookup) -> Function:
    """The copy of a function; `call` says what to call in place of a function."""
    if _tells(f.__code__):
        raise TraceError(
            f"{user_line()}: {f.__name__} has no source, and asks `is True` or a class pattern; write it in a file"
        )
    mentioned = _names(f.__code__)
    if "shuffle" in mentioned:  # rows, which are views of each other
        raise TraceError(f"{user_line()}: {f.__name__} has no source, and shuffles; write it in a file")
    if any(any(f.__globals__.get(name) is d for d in (datetime, *_DATES)) for name in mentioned):
        for name in {*mentioned}.intersection(dir(datetime.datetime)):
            call(getattr(datetime.datetime, name))  # which refuses what reads the clock
    namespace = dict(f.__globals__) | {FOLLOWED: True}
    own = f.__builtins__  # type: ignore[attr-defined]
    called, read, stored = _uses(f.__code__)
    compares = _compares(f.__code__)
    bare = read if compares else _bare(f.__code__)
    renamed = set()
    for name in mentioned:
        value = f.__globals__.get(name, own.get(name))
        place = name
        reached = value is not None and name in read and name not in bare and not isinstance(value, type)
        if name in read and callable(value) and (compares or type(value) not in _FUNCTIONS) and not reached:
            if name not in called or name in stored:
                continue
            place = _CALLED + name
            renamed.add(name)
        if isinstance(value, types.ModuleType):
            namespace[place] = _Module(value, call)
        elif isinstance(value, JOINING):
            namespace[place] = _Joining(value)
        elif isinstance(value, type) or type(value) in _BUILTIN:
            namespace[place] = call(value)
        elif callable(value) or reached:
            namespace[place] = Late(value, call)
    free = zip(f.__closure__ or (), f.__code__.co_freevars, strict=True)
    cells = tuple(_cell(cell, call, compares, compares or name in bare) for cell, name in free)
    copy = types.FunctionType(_renamed(f.__code__, renamed), namespace, f.__name__, f.__defaults__, cells or None)
    copy.__kwdefaults__ = f.__kwdefaults__
    return _of_functions(copy) if compares else copy


def _of_functions(copy: types.FunctionType) -> Function:
    """A copy that compares objects by identity: it receives functions themselves."""

    @functools.wraps(copy)
    def received(*args: Any, **kwargs: Any) -> Any:
        return copy(*map(itself, args), **{name: itself(value) for name, value in kwargs.items()})

    return received


def _loads(code: types.CodeType) -> Iterator[tuple[int, int, int, bool, bool]]:
    """The steps of code, and whether each reads a global that is called right there; an attribute of it may be."""
    steps = list(steps_of_code(code))
    for step, (_, after, *_) in itertools.pairwise([*steps, steps[-1]]):
        yield *step, step[1] == _LOAD and bool(step[2] & 1) and after != _ATTRIBUTE


def _names(code: types.CodeType) -> list[str]:
    """The names that a function and those nested in it look up outside themselves."""
    return [*code.co_names, *(name for inner in nested_codes(code) for name in _names(inner))]


def _uses(code: types.CodeType) -> tuple[set[str], set[str], set[str]]:
    """The globals that are called where they are read, those read in another way, as `float` in `isinstance(x, float)`, and
    those that are assigned."""
    called, read, stored = set(), set(), set()
    for _, op, arg, _, calls in _loads(code):
        if op == _LOAD:
            (called if calls else read).add(code.co_names[arg >> 1])
        elif op == opcode.opmap["LOAD_NAME"]:
            read.add(code.co_names[arg])
        elif op in _STORES:
            stored.add(code.co_names[arg])
    for inner in map(_uses, nested_codes(code)):
        called, read, stored = called | inner[0], read | inner[1], stored | inner[2]
    return called, read, stored


def _renamed(code: types.CodeType, names: set[str]) -> types.CodeType:
    """Code that reads these globals under another name where it calls them."""
    constants = tuple(_renamed(c, names) if isinstance(c, types.CodeType) else c for c in code.co_consts)
    text, known = bytearray(code.co_code), list(code.co_names)
    for place, _, arg, extended, calls in _loads(code):
        if not calls or code.co_names[arg >> 1] not in names:
            continue
        name = _CALLED + code.co_names[arg >> 1]
        if name not in known:
            known.append(name)
        new = known.index(name) << 1 | 1
        if new > (0xFFFF if extended else 0xFF):
            raise TraceError(f"{user_line()}: {code.co_name} has no source, and reads many names; write it in a file")
        text[2 * place + 1] = new & 0xFF
        if extended:
            text[2 * place - 1] = new >> 8
    return code.replace(co_code=bytes(text), co_names=tuple(known), co_consts=constants)


def _bare(code: types.CodeType) -> set[str]:
    """The globals and variables of cells that are read for something else than an attribute, or assigned."""
    steps = [(i.opname, i.argval) for i in dis.get_instructions(code)]
    found = {name for (op, name), (after, _) in itertools.pairwise(steps) if op in _USES and after not in _REACHES}
    return found.union(*map(_bare, nested_codes(code)))


def _compares(code: types.CodeType) -> bool:
    """Whether a function compares objects, other than with None, by identity."""
    steps = [(i.opname, i.argval) for i in dis.get_instructions(code)]
    found = any(after == "IS_OP" and before != ("LOAD_CONST", None) for before, (after, _) in itertools.pairwise(steps))
    return found or any(map(_compares, nested_codes(code)))


def _tells(code: types.CodeType) -> bool:
    """Whether a function compares with True or False by `is`, or matches classes: what a traced value is must be looked up."""
    steps = [(i.opname, i.argval) for i in dis.get_instructions(code)]
    told = any(after == "IS_OP" and type(value) is bool for (_, value), (after, _) in itertools.pairwise(steps))
    return told or any(name == "MATCH_CLASS" for name, _ in steps) or any(map(_tells, nested_codes(code)))


def _cell(cell: types.CellType, call: Lookup, compares: bool, bare: bool) -> types.CellType:
    try:
        value = cell.cell_contents
    except ValueError:
        return cell  # an empty cell
    if isinstance(value, types.ModuleType):
        return types.CellType(_Module(value, call))
    if (isinstance(value, types.FunctionType) and not compares) or not (bare or isinstance(value, type)):
        return types.CellType(Late(value, call))
    return cell


@dataclass(eq=False)
class _Module:
    """A module whose functions are looked up."""

    _module: types.ModuleType
    _call: Lookup

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._module, name)
        if isinstance(found, types.ModuleType):
            return _Module(found, self._call)
        if isinstance(found, type):
            return Late(found, self._call) if found in _MAKING else found
        if isinstance(found, JOINING):
            return _Joining(found)
        if type(found) in _FUNCTIONS:
            return self._call(found)
        return Late(found, self._call) if callable(found) else found


@dataclass(eq=False)
class _Joining:
    """`np.r_` or `np.c_`."""

    _owner: Any

    def __getitem__(self, key: Any) -> Any:
        return joined_by(self._owner, key)
