"""What can be chosen in calls of symdiff: every option with what is possible for it, and the one check of them all.

Assumes options as keywords. Guarantees that an option that does not exist, or a value that it cannot have, is refused before
anything is traced. Refuses them with `OptionError`, or the error of the option's own kind, naming the user's line and what is
possible.
"""

import difflib
import inspect
import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from symdiff.errors import ArgumentError, BackendError, ExportError, OptionError, ShapeError, SymdiffError
from symdiff.vocabulary.extents import Extent, extent_of_text
from symdiff.vocabulary.libraries import user_line

BACKENDS = ("auto", "python", "numpy", "native", "cupy")
LOOPING = ("auto", "python", "numpy", "native", "c", "cuda", "cupy")  # backends and targets that take loops
TARGETS = ("python", "numpy", "c", "cupy", "cuda")
_BY_SUFFIX = {".c": "c", ".h": "c", ".cu": "cuda", ".cuh": "cuda"}  # the targets of files that are no Python
COMMON = ("rules", "exact", "fastmath", "backend", "scalarize", "paths", "loops", "frozen")


class Choice(NamedTuple):
    """What an option may be, in words and as a test, and the error for what it may not."""

    possible: str
    fits: Callable[[Any], bool]
    error: type[SymdiffError] = OptionError


def is_integer_option(value: Any) -> bool:
    """Whether a value is an integer, and no Boolean."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _among(*values: Any) -> Callable[[Any], bool]:
    return lambda value: any(value is v or (type(value) is type(v) and value == v) for v in values)


def _is_positive(value: Any) -> bool:
    return is_integer_option(value) and value > 0


def _all(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Whether a value, or each of a list or tuple of them, fits."""
    return lambda value: all(map(fits, value)) if isinstance(value, (list, tuple, range)) else fits(value)


def _is_axis(value: Any) -> bool:
    return is_integer_option(value) and value in (0, -1)


def _are_axes(value: Any) -> bool:
    axes = value if isinstance(value, (list, tuple)) else (value,)
    return _all(lambda a: a is None or _is_axis(a))(axes) and any(a is not None for a in axes)


def _is_dtype(value: Any) -> bool:
    try:
        return value is not None and np.dtype(value).kind in "biufc"
    except TypeError:
        return False


def _is_extent(value: Any) -> bool:
    try:
        value = extent_of_text(value) if isinstance(value, str) else value
    except ValueError:
        return False
    return isinstance(value, Extent) or (is_integer_option(value) and value >= 0)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool) and bool(value >= 0)


_TRUTH = Choice("True and False are possible", lambda value: isinstance(value, (bool, np.bool_)))
CHOICES = {
    "argnums": Choice("the position of an argument, an integer, or a tuple of them is possible", _all(is_integer_option)),
    "exact": _TRUTH,
    "fastmath": _TRUTH,
    "frozen": _TRUTH,
    "strict": _TRUTH,
    "backend": Choice(f"unknown backend; there are {', '.join(BACKENDS)}", _among(*BACKENDS), BackendError),
    "target": Choice(f"unknown target; there are {', '.join(TARGETS)}", _among(*TARGETS), ExportError),
    "scalarize": Choice("True, False and None (where it pays) are possible", _among(None, True, False)),
    "paths": Choice("'merge', 'guard' and None (merge where possible) are possible", _among(None, "merge", "guard")),
    "loops": Choice("'keep', 'unroll' and None (keep those of long functions) are possible", _among(None, "keep", "unroll")),
    "mode": Choice("'auto', 'forward' and 'reverse' are possible", _among("auto", "forward", "reverse")),
    "order": Choice("a positive integer is needed", _is_positive),
    "threads": Choice("a positive integer, or None for as many as pay, is possible",
                      lambda value: value is None or _is_positive(value)),
    "in_axes": Choice("0 (points first), -1 (points last) and None (shared) are possible, for all arguments or one entry each; "
                      "at least one argument must have an axis of points", _are_axes, ShapeError),
    "out_axes": Choice("0 (points first), -1 (points last) and None (as in_axes) are possible",
                       lambda value: value is None or _is_axis(value), ShapeError),
    "primitives": Choice("a list or tuple of functions is needed",
                         lambda value: isinstance(value, (list, tuple, set, frozenset)) and all(map(callable, value))),
    "rtol": Choice("a number that is not negative is needed", _is_number),
    "atol": Choice("a number that is not negative is needed", _is_number),
    "seed": Choice("an integer that is not negative is needed", lambda value: is_integer_option(value) and value >= 0),
    "shape": Choice("an integer or a tuple of integers that are not negative is needed; a size that a call tells is a text: "
                    "'n', 'n + 1', '2*n'", _all(_is_extent), ShapeError),
    "dtype": Choice("a dtype of numbers is needed, as 'float64'", _is_dtype, ShapeError),
    "pullback": _TRUTH,
    "pushforward": _TRUTH,
    "boxes": Choice("a positive integer is needed", _is_positive),
    "layout": Choice("'dot' (Graphviz), 'layers' and None (dot where it is installed) are possible",
                     _among(None, "dot", "layers")),
}  # fmt: skip
_OF_METHODS = ("out", "backend", "target")


def check_options(what: str, given: Mapping[str, Any], names: Iterable[str] | None = None) -> None:
    """Raise where `what` has no such option among `names`, or where a value is not possible for one."""
    listed = list(given if names is None else names)
    for name, value in given.items():
        if name not in listed:
            raise OptionError(f"{user_line()}: {what} has no option {name}{_near(name, listed)}; there are {', '.join(listed)}")
        choice = CHOICES[name]
        if not choice.fits(value):
            shown = repr(value) if len(repr(value)) < 80 else type(value).__name__
            raise choice.error(f"{user_line()}: {what}: {name}={shown}: {choice.possible}")


def check_call(signature: inspect.Signature | None, what: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Raise `ArgumentError` for arguments that a function cannot be called with; `what` names it and its line."""
    if signature is None:
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        unknown = re.search(r"unexpected keyword argument '(\w+)'", str(error))
        name = unknown[1] if unknown else ""
        if name in (*COMMON, "argnums", "mode", "order", "in_axes", "out_axes", "threads"):
            hint = f"; {name} is an option of the transform, as in sd.grad(f, ...)"
        else:
            hint = _near(name, [*_OF_METHODS, *COMMON, *signature.parameters]) if name else ""
        raise ArgumentError(f"{user_line()}: {what}: {error}{hint}") from None


def _near(name: str, names: list[str]) -> str:
    found = difflib.get_close_matches(name, names, 1)
    return f"; did you mean {found[0]}?" if found else ""


def target_of(path: Any) -> str:
    """The target of a file of this name, where none is given."""
    return _BY_SUFFIX.get(os.path.splitext(str(path))[1].lower(), "numpy")
