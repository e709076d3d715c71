"""Texts with traced values in them: `f"{x}"`, `str(x)`, `"%s" % x`, `"{}".format(x)`.

Assumes clones, in which these are looked up. Guarantees that such a text can be printed, logged, raised and put into others.
Refuses, with `TraceError`, whatever depends on its letters, which are not those of the number.
"""

import functools
import warnings
from typing import Any

from symdiff.errors import TraceError
from symdiff.tracing.captures.telling import PRINTING
from symdiff.tracing.state.attempt import current
from symdiff.tracing.values.standing import replaces
from symdiff.vocabulary.libraries import user_line
from symdiff.vocabulary.signatures import Function

_MADE = frozenset({"format", "format_map", "join"})  # texts of others
_FREE = frozenset(vars(object)) - {"__eq__", "__ne__", "__hash__", "__lt__", "__le__", "__gt__", "__ge__"} | {
    "__add__",
    "__mod__",
}


class Text(str):
    """A text in which a traced value stands as its name."""

    __slots__ = ()

    def __add__(self, other: Any) -> Any:
        return Text(str.__add__(self, other))

    def __radd__(self, other: Any) -> Any:
        return Text(str.__add__(other, self))

    def __mod__(self, other: Any) -> Any:
        return of_text(str.__mod__, self, other)


def _refused(self: Text, *_: Any, **__: Any) -> Any:
    raise TraceError(
        f"{user_line()}: a text that shows a traced value is looked into; its letters are not those of the number, so it can "
        "only be printed or raised; use the value itself"
    )


for _name in frozenset(dir(str)) - _FREE:
    setattr(Text, _name, _refused)


def of_text(function: Function, *args: Any, **kwargs: Any) -> Any:
    """What a function writes; a `Text` where it writes a traced value or another `Text`."""
    attempt = current()
    if attempt is None:
        return function(*args, **kwargs)
    outer, attempt.shown = attempt.shown, False
    try:
        result = function(*args, **kwargs)
        if function is not print and any(type(a) not in (float, int, str, bool) for a in args):
            attempt.known.setdefault(PRINTING)
        shown = attempt.shown or any(type(a) is Text for a in (*args, *kwargs.values()))
    finally:
        attempt.shown = outer
    return Text(result) if shown and isinstance(result, str) else result


def method(text: str, f: Any) -> Any:
    """A method of a text: it may write traced values, and looks into the texts that it is given."""
    if f.__name__ in _MADE:
        return lambda *args, **kwargs: of_text(_joined(text) if f.__name__ == "join" else f, *args, **kwargs)

    def looking(*args: Any, **kwargs: Any) -> Any:
        if any(type(a) is Text for a in args):
            _refused(text)  # type: ignore[arg-type]
        return f(*args, **kwargs)

    return looking


def _joined(text: str) -> Any:
    def join(parts: Any) -> Any:
        parts = list(parts)
        found = text.join(parts)
        return Text(found) if any(type(p) is Text for p in parts) else found

    return join


_CONVERSIONS: dict[int, Any] = {ord("s"): str, ord("r"): repr, ord("a"): ascii}


def format_traced(value: Any, conversion: int, spec: str) -> Any:
    """A field of an f-string."""
    if conversion in _CONVERSIONS:
        value = of_text(_CONVERSIONS[conversion], value)
    return of_text(format, value, spec)


def join_traced_texts(*parts: str) -> Any:
    """An f-string of its parts."""
    return _joined("")(parts)


@replaces(print)
def _print(*values: Any, **options: Any) -> None:
    of_text(print, *(str(v) if type(v) is Text else v for v in values), **options)


@replaces(warnings.warn)
def _warn(message: Any, category: Any = None, stacklevel: int = 1, *args: Any, **kwargs: Any) -> None:
    warnings.warn(str(message) if type(message) is Text else message, category, stacklevel + 1, *args, **kwargs)


for _function in (str, repr, ascii, format):
    replaces(_function)(functools.partial(of_text, _function))
