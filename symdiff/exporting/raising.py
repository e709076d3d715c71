"""The exceptions in which paths of a function end, for the files that raise them.

Assumes exceptions that `branches` keeps, with traced values in their messages. Guarantees type and message of the user's
exception; an argument stands in the message as the value that it has. Refuses exceptions that are neither Python's own nor,
in a file that needs NumPy, `LinAlgError`, and targets that can neither raise nor return a code, with `ExportError`.
"""

import builtins
import re

import numpy as np

from symdiff.codegen.exceptions import Constant, Message, Place, Raised
from symdiff.errors import ExportError
from symdiff.ir.branches import Branches
from symdiff.vocabulary.literals import is_literal

_TRACED = re.compile(r"<traced (\w+)((?:\[[\d, ]+\])?)[^>]*>")
_TARGETS = ("python", "numpy", "c")


def raised_in(branches: Branches, target: str, where: str) -> tuple[Raised, ...]:
    """The exceptions of a function's paths as a file for a target has them, in order."""
    if target not in _TARGETS:
        raise ExportError(
            f"{where}: the function raises on some paths ({branches}), and target {target!r} has no exceptions; "
            "targets python and numpy have, and c returns a code"
        )
    assert branches.conditions is not None
    names = {leaf.name for leaf in branches.conditions.inputs}
    return tuple(_raised(error, target, where, names) for error in branches.raised)


def _raised(error: Exception, target: str, where: str, names: set[str]) -> Raised:
    return Raised(_spelled(type(error), target, where), tuple(_argument(a, names) for a in error.args))


def _spelled(kind: type[Exception], target: str, where: str) -> str:
    """The name of an exception in a file for a target."""
    if target == "c" or getattr(builtins, kind.__name__, None) is kind:
        return kind.__name__
    if target == "numpy" and kind is np.linalg.LinAlgError:
        return "np.linalg.LinAlgError"
    raise ExportError(
        f"{where}: a path raises {kind.__module__}.{kind.__name__}; a file can raise Python's own exceptions only, "
        "and with target 'numpy' LinAlgError"
    )


def _argument(value: object, names: set[str]) -> Message | Place | Constant:
    """An argument of an exception: texts with the traced values in them, a traced value itself, or a constant; of other
    objects their text."""
    text = str.__str__(value) if isinstance(value, str) else "" if is_literal(value) else str(value)
    if not text:
        return Constant(value)
    found = _TRACED.split(text)  # texts, and between two the name and the index of a traced value
    places = [Place(*pair) if pair[0] in names else "<computed>" for pair in zip(found[1::3], found[2::3], strict=True)]
    if isinstance(value, str) or not places:
        return tuple(part for k, part in enumerate(found[::3]) for part in (part, *places[k : k + 1]) if part)
    return places[0] if isinstance(places[0], Place) and found[::3] == ["", ""] else ("<computed>",)
