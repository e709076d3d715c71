"""What a traced value is for Python: a number of its own, NumPy's scalar, or an array.

Assumes a dtype and a shape beside it. Guarantees that what is asked of a type, of an attribute or of a truth is answered for
the value's own kind, and is noted in the run where another kind of argument would be answered otherwise: calls are then told
apart by the kinds of their arguments. Refuses nothing.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from symdiff.symbolic.tracing.attempt import note_kinds

SCALARS, ARRAYS = 1, 2  # what a run has asked: whether a number is Python's or NumPy's, whether it is an array of shape ()


class Kind(NamedTuple):
    """`python`: a number of Python's own; `array`: an array, of shape () too; `given`: as the arguments of this call are."""

    python: bool = False
    array: bool = False
    given: bool = False


NUMPY, PYTHON, ARRAY = Kind(), Kind(python=True), Kind(array=True)
_NUMBERS = {"d": float, "D": complex, "?": bool}


def kind_of(value: Any) -> Kind:
    """The kind of an operand, traced or not."""
    own = getattr(value, "kind", None)
    if type(own) is Kind:
        return own
    if isinstance(value, (bool, int, float, complex)) and not isinstance(value, np.generic):
        return PYTHON
    return ARRAY if isinstance(value, np.ndarray) else NUMPY


def argument_kind(value: Any) -> Kind:
    """The kind of an argument: a number may be of another one in the next call."""
    plain = isinstance(value, (int, float, complex, np.generic, np.ndarray)) and np.shape(value) == ()
    return kind_of(value)._replace(given=True) if plain else kind_of(value)


@functools.cache
def joined(*kinds: Kind) -> Kind:
    """The kind of what an operator gives: Python's where all operands are."""
    fixed = any(not k.python and not k.given for k in kinds)
    return Kind(all(k.python for k in kinds), False, not fixed and any(k.given for k in kinds))


def example(code: str, shape: tuple[int, ...], whole: bool, kind: Kind) -> Any:
    """A value of a dtype, a shape and a kind."""
    dtype = np.dtype(int if whole else code)
    if shape != () or kind.array:
        return np.empty((0,) * len(shape), dtype)
    return (int if whole else _NUMBERS.get(code, dtype.type))(0) if kind.python else dtype.type(0)


def answered(question: Callable[[Any], Any], code: str, shape: tuple[int, ...], whole: bool, kind: Kind) -> Any:
    """What a question says of a value; noted where it says something else of another kind of argument."""
    own = question(example(code, shape, whole, kind))
    for other in (PYTHON, NUMPY, ARRAY) if kind.given else ():
        if question(example(code, shape, whole, other)) != own:
            asked(kind, ARRAYS if kind.array or other.array else SCALARS)
    return own


def asked(kind: Kind, what: int = SCALARS) -> None:
    """Note that a result depends on the kind of an argument."""
    if kind.given:
        note_kinds(what)
