"""What code mentions: the names that it reads, the modules that it imports, whether it hands on a function that finds something
outside its arguments, and what it asks of a value beside its number, which a traced value answers only where code is followed.

Assumes bytecode, and `outside.table`; `isinstance` and class patterns are no question: a traced value has the class of the
number it stands for. Guarantees that `type(x)`, attributes asked for by name, `is` between truths, and handlers of what
arithmetic and attributes raise are found, by the names of builtins and by global names that stand for them.
"""

import builtins
import dis
import functools
import opcode
import random
import sys
import types
from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from symdiff.rulebooks.book import functions_outside, outside_word
from symdiff.tracing.captures.telling import RANDOM
from symdiff.vocabulary.libraries import is_users, module_of, root_of, root_of_class
from symdiff.vocabulary.signatures import Namespace

_CALLED = (types.FunctionType, types.BuiltinFunctionType, types.MethodType)


BUILTINS = frozenset(vars(builtins))


def finds_outside(value: Any, names: Collection[str]) -> bool:
    """Whether a function, or of a module or a class something of these names, finds something outside its arguments."""
    if isinstance(value, types.ModuleType):
        own = {name: vars(value)[name] for name in names if name in vars(value)}
        kinds = (v for v in own.values() if isinstance(v, type))
        return (
            value in _DRAWING
            or any(outside_word(value.__name__, n) for n in own)
            or any(finds_outside(v, names) for v in kinds)
        )
    if isinstance(value, _CALLED):
        return bool(word_of(value))
    kind = value if isinstance(value, type) else type(value)
    return root_of_class(kind) in functions_outside() and any(
        outside_word(root_of_class(kind), n) for n in names if hasattr(kind, n)
    )


def reads_outside(values: Iterable[Any], names: set[str]) -> bool:
    """Whether code that mentions these names, and reaches these values, may call what finds something outside its arguments."""
    own = (vars(builtins)[name] for name in names & BUILTINS)
    return (
        "__subclasses__" in names
        or any(map(calls_outside, own))
        or any(finds_outside(value, names) for value in with_modules(values, names))
    )


def home_of(function: Any) -> str:
    """The module of a function, or of the class whose method it is."""
    owner = getattr(function, "__self__", None)
    if owner is None or isinstance(function, types.MethodType) or isinstance(owner, types.ModuleType):
        return module_of(function)
    return module_of(owner if isinstance(owner, type) else type(owner))


def word_of(function: Any) -> str:
    """What a trace does with a function for what it finds outside its arguments, a word of `outside.table`."""
    if isinstance(getattr(function, "__self__", None), RANDOM):
        return "random"
    return "state" if function.__name__ == "__subclasses__" else outside_word(home_of(function), function.__name__)


def calls_outside(value: Any) -> bool:
    """Whether a value is a function that finds something outside its arguments, whoever calls it: code in C, too."""
    if isinstance(value, functools.partial):
        given = (value.func, *value.args, *value.keywords.values())
        return any(isinstance(v, RANDOM) or calls_outside(v) for v in given)
    if isinstance(value, (staticmethod, classmethod)):
        return calls_outside(value.__func__)
    return isinstance(value, _CALLED) and bool(word_of(value))


def handed_outside(code: types.CodeType, namespace: Namespace, cells: Namespace) -> Any:
    """A function that finds something outside and that code hands to others, or by which it draws numbers of NumPy's shared
    generator, of which a profiler is not told; None where there is none.
    """
    _, mentioned, _, read = names_of_code(code)
    modules = with_modules((namespace.get(name) for name in mentioned), mentioned)
    spaces = (vars(builtins), namespace, *(vars(m) for m in modules if isinstance(m, types.ModuleType)))
    found = [*cells.items(), *((name, space[name]) for space in spaces for name in mentioned if name in space)]
    kinds = {v for _, v in found if isinstance(v, type) and not is_users(v)}
    found += [(name, getattr(kind, name)) for kind in kinds for name in mentioned if hasattr(kind, name)]
    return next((v for name, v in found if (name in read or _is_of_numpy(v)) and calls_outside(v)), None)


def _is_of_numpy(value: Any) -> bool:
    return isinstance(getattr(value, "__self__", None), np.random.RandomState)


def with_modules(values: Iterable[Any], names: Collection[str]) -> Iterable[Any]:
    """These values, and the modules of these names that are found in modules."""
    found = {id(value): value for value in values}
    waiting = [value for value in found.values() if isinstance(value, types.ModuleType)]
    while waiting:
        space = vars(waiting.pop())
        held = (space.get(name) for name in names)
        new = {id(v): v for v in held if isinstance(v, types.ModuleType) and id(v) not in found}
        found |= new
        waiting += new.values()
    return found.values()


def libraries_of(values: Iterable[Any], names: Collection[str]) -> set[str]:
    """The libraries of these values and of the modules of these names in them; Python's own for the user's."""
    found = with_modules(values, names)
    return {home_of(v).partition(".")[0] if isinstance(v, types.BuiltinFunctionType) else root_of(v) for v in found}


_DRAWING = (random, np.random)


@functools.lru_cache(maxsize=4096)
def builds_class(code: types.CodeType) -> bool:
    """Whether a function, or one nested in it, makes a class."""
    return opcode.opmap["LOAD_BUILD_CLASS"] in code.co_code[::2] or any(map(builds_class, nested_codes(code)))


def nested_codes(code: types.CodeType) -> list[types.CodeType]:
    """The code of the functions that stand in one."""
    return [c for c in code.co_consts if isinstance(c, types.CodeType)]


def steps_of_code(code: types.CodeType) -> Iterator[tuple[int, int, int, bool]]:
    """The place, operation and argument of each instruction, and whether another one before it extends the argument."""
    more, extended = 0, False
    for place, (op, arg) in enumerate(zip(code.co_code[::2], code.co_code[1::2], strict=True)):
        if op == opcode.EXTENDED_ARG:
            more, extended = (more | arg) << 8, True
        elif op != opcode.opmap["CACHE"]:
            yield place, op, more | arg, extended
            more, extended = 0, False


@functools.lru_cache(maxsize=4096)
def names_of_code(code: types.CodeType) -> tuple[frozenset[str], frozenset[str], tuple[tuple[int, str], ...], frozenset[str]]:
    """The globals that code reads, all names and words that it mentions, the modules that it imports, with their levels, and
    the globals, attributes and names of cells that it does more with than call them.
    """
    loaded: set[str] = set()
    read: set[str] = set()
    mentioned = {*code.co_names, *(c for c in code.co_consts if type(c) is str and c.isidentifier())}
    imported: list[tuple[int, str]] = []
    constants = []
    last = 0
    held = ""  # the name of a cell that the last step loaded, unless it is called
    for _, op, full, _ in steps_of_code(code):
        if held and op != _NULL:
            read.add(held)
        held = code._varname_from_oparg(full) if op == _CELL and last != _NULL else ""  # type: ignore[attr-defined]
        last = op
        if op == _GLOBAL:
            loaded.add(code.co_names[full >> 1])
            if not full & 1:
                read.add(code.co_names[full >> 1])
        elif op == _NAME:
            loaded.add(code.co_names[full])
        elif op == _ATTRIBUTE and not (_PAIRED and full & 1):
            read.add(code.co_names[full >> _PAIRED])
        elif op == _CONSTANT:
            constants.append(code.co_consts[full])
        elif op == _INTEGER:
            constants.append(full)
        elif op in _FORMATS:
            mentioned.add("format")
        elif op == _IMPORT:
            level = constants[-2] if len(constants) > 1 and isinstance(constants[-2], int) else 0
            imported.append((level, code.co_names[full]))
    for inner in map(names_of_code, nested_codes(code)):
        loaded |= inner[0]
        mentioned |= inner[1]
        imported += inner[2]
        read |= inner[3]
    return frozenset(loaded), frozenset(mentioned), tuple(imported), frozenset(read)


_GLOBAL, _NAME, _CONSTANT, _IMPORT, _CELL, _NULL, _ATTRIBUTE = (
    opcode.opmap[n] for n in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_CONST", "IMPORT_NAME", "LOAD_DEREF", "PUSH_NULL", "LOAD_ATTR")
)


_PAIRED = sys.version_info >= (3, 12)  # whether an attribute that is called right there is read by this, too


_FORMATS = {opcode.opmap.get(n) for n in ("FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC")}


_INTEGER = opcode.opmap.get("LOAD_SMALL_INT")  # from Python 3.14 on


# -- questions

KIND_NAMES = (frozenset(dir(np.ndarray)) ^ frozenset(dir(float))) | {"__class__"}  # what arrays have, or Python's numbers


_ASKING = frozenset("type hasattr getattr dir id isscalar suppress attrgetter is_ is_not".split())


_BUILTIN = frozenset(id(vars(builtins)[name]) for name in ("type", "hasattr", "getattr", "dir", "id"))


_NAMED = ("getattr", "hasattr", "attrgetter")  # which ask for an attribute by its name


_EXPECTED = frozenset("KeyError IndexError LookupError StopIteration ImportError ModuleNotFoundError OSError".split())


_READS = ("LOAD_FAST", "LOAD_DEREF", "LOAD_FAST_BORROW", "LOAD_FAST_CHECK")


_SILENT = ("PUSH_NULL", "CACHE", "PRECALL", "NOP", "COPY", "EXTENDED_ARG")


class Question(NamedTuple):
    """A line that asks; `subject` is the parameter that it asks about, None where it is another value."""

    line: int
    what: str
    subject: str | None


@functools.lru_cache(maxsize=4096)
def _questions(code: types.CodeType, filename: str) -> tuple[Question, ...]:
    steps = [s for s in dis.get_instructions(code) if s.opname not in _SILENT]
    parameters = set(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    parameters -= {s.argval for s in steps if s.opname.startswith("STORE_")}
    words = {*code.co_names, *(c for c in code.co_consts if type(c) is str)}
    found = []
    for k, step in enumerate(steps):
        before, after = steps[max(k - 1, 0)], steps[min(k + 1, len(steps) - 1)]
        line = (step.positions.lineno if step.positions else None) or code.co_firstlineno
        whole = after.opname in _READS and _ends(steps[min(k + 2, len(steps) - 1)])
        subject = after.argval if whole and after.argval in parameters else None
        if step.argval in _ASKING and step.opname.startswith("LOAD_") and step.opname != "LOAD_CONST":
            if step.argval not in _NAMED or step.argval == "hasattr" or not KIND_NAMES.isdisjoint(words):
                found.append(Question(line, str(step.argval), subject))
        elif step.opname == "IS_OP" and not (_is_named(before) or (_is_name(before) and _is_named(steps[max(k - 2, 0)]))):
            found.append(Question(line, "is", None))
        elif step.opname == "CHECK_EXC_MATCH" and before.argval not in _EXPECTED:
            found.append(Question(line, f"except {before.argval}", None))
    return tuple(found)


def _ends(step: dis.Instruction) -> bool:
    """Whether the first argument of a call is complete before this step."""
    return step.opname.startswith("CALL") or (step.opname == "LOAD_CONST" and type(step.argval) is str)


def _is_name(step: dis.Instruction) -> bool:
    return step.opname in (*_READS, "LOAD_GLOBAL")


def _is_named(step: dis.Instruction) -> bool:
    """Whether a side of `is` is no truth: None, an object that a global name stands for, or the object of a method."""
    if step.opname == "LOAD_CONST":
        return type(step.argval) is not bool
    return step.opname == "LOAD_GLOBAL" or (step.opname in _READS and step.argval == "self")


def questions(code: types.CodeType, namespace: Namespace) -> tuple[Question, ...]:
    """What a function asks, without those nested in it; those that `dataclass` writes ask for no kinds."""
    if code.co_qualname.startswith("__create_fn__"):
        return ()
    found = _questions(code, code.co_filename)  # equal code may stand in two files
    names = [name for name in code.co_names if id(namespace.get(name)) in _BUILTIN]
    return (*found, *(Question(code.co_firstlineno, name, None) for name in names))


def asks(code: types.CodeType, namespace: Namespace) -> bool:
    """Whether a function, or one nested in it, asks what a value is."""
    return bool(questions(code, namespace)) or any(asks(c, namespace) for c in nested_codes(code))
