"""What code asks of a value beside its number, which a traced value answers only where the code is followed.

Assumes that `isinstance` and class patterns are no such question: a traced value has the class of the number it stands for.
Guarantees that `type(x)`, attributes asked for by name, `is` between truths, and handlers of what arithmetic and attributes
raise are found, by the names of builtins and by global names that stand for them.
"""

import builtins
import dis
import functools
import types
from typing import Any, NamedTuple

import numpy as np

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


def questions(code: types.CodeType, namespace: dict[str, Any]) -> tuple[Question, ...]:
    """What a function asks, without those nested in it; those that `dataclass` writes ask for no kinds."""
    if code.co_qualname.startswith("__create_fn__"):
        return ()
    found = _questions(code, code.co_filename)  # equal code may stand in two files
    names = [name for name in code.co_names if id(namespace.get(name)) in _BUILTIN]
    return (*found, *(Question(code.co_firstlineno, name, None) for name in names))


def asks(code: types.CodeType, namespace: dict[str, Any]) -> bool:
    """Whether a function, or one nested in it, asks what a value is."""
    nested = (c for c in code.co_consts if isinstance(c, types.CodeType))
    return bool(questions(code, namespace)) or any(asks(c, namespace) for c in nested)
