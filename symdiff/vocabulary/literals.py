"""Text from outside in generated files and on terminals: literals, messages, comments, docstrings, identifiers.

Whatever a user names or writes (arguments, keys, fields, settings, docstrings, messages of exceptions, places of files) reaches
a file through here and nowhere else. Guarantees that it stays one expression, comment, string or name; that nothing of it is
executed, and no method of an object's own class asked. Refuses, with `ExportError`, values that no literal holds.
"""

import keyword
import math
import re
import unicodedata
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from symdiff.errors import ExportError

WIDTH = 100  # of lines in generated files, where their parts allow it
_CODING = re.compile("coding[:=]")
DIGITS = 4000  # of a decimal integer; Python refuses to read longer ones


class Shown(NamedTuple):
    """A Python expression whose value stands in a message; `conversion` is "" or "!r"."""

    expression: str
    conversion: str = ""


def literal(value: Any) -> str:
    """A constant as a Python expression that gives an equal one, of the plain type that it extends.

    >>> literal("x\\n"), literal(float("-inf")), literal((True, b"a"))
    ("'x\\\\n'", 'float("-inf")', "(True, b'a')")
    """
    if value is None or value is Ellipsis or value is True or value is False:
        return repr(value)
    if isinstance(value, np.generic):
        plain = value.item()
        if not isinstance(plain, np.generic):
            return literal(plain)
    elif isinstance(value, str):
        text = str.__str__(value)
        return f'"{text}"' if text.isprintable() and '"' not in text and "\\" not in text else repr(text)
    elif isinstance(value, bytes):
        return bytes.__repr__(value)
    elif isinstance(value, int):
        whole = int.__index__(value)
        return repr(whole) if whole.bit_length() < 3 * DIGITS else hex(whole)
    elif isinstance(value, float):
        return number_literal(float.__float__(value), None)
    elif isinstance(value, complex):
        return number_literal(complex.__complex__(value), None)
    elif type(value) is tuple:
        return f"({', '.join(map(literal, value))}{',' if len(value) == 1 else ''})"
    raise ExportError(f"a {type(value).__name__} cannot be written into a file; numbers, strings, bytes and tuples of them can")


def is_literal(value: Any) -> bool:
    """Whether `literal` can write a value."""
    if type(value) is tuple:
        return all(map(is_literal, value))
    if isinstance(value, np.generic):
        return not isinstance(value.item(), np.generic)
    return value is None or isinstance(value, (str, bytes, int, float, complex))


def number_literal(value: Any, module: str | None = "np") -> str:
    """A number as text with all its bits; infinities and NaN in the words of a module, "np" or "math", or of none.

    >>> number_literal(0.25j), number_literal(float("-inf"))
    ('0.25j', '-np.inf')
    """
    if isinstance(value, complex):
        if value.real == 0 and math.copysign(1.0, value.real) > 0 and 0 < value.imag < math.inf:
            short = f"{value.imag:g}"
            return f"{short if float(short) == value.imag else repr(value.imag)}j"
        return f"complex({number_literal(value.real, module)}, {number_literal(value.imag, module)})"
    if isinstance(value, float) and not math.isfinite(value):
        word = "nan" if value != value else "inf"
        if module is None:
            return f'float("{"-" if value < 0 else ""}{word}")'
        return f"{'-' if value < 0 else ''}{module}.{word}"
    return repr(value)


def message_literal(*parts: str | Shown) -> str:
    """A message as an expression: texts, with the values of expressions between them.

    An f-string; where an expression has quotes or braces itself, which older Pythons do not read there, a call of `format`.

    >>> message_literal("{x} is ", Shown("x", "!r")), message_literal("got ", Shown('p["x"]'))
    ('f"{{x}} is {x!r}"', '"got {}".format(p["x"])')
    """
    shown = [part for part in parts if isinstance(part, Shown)]
    if not shown:
        return literal("".join(map(str, parts)))
    inside = not any(c in part.expression for part in shown for c in "\"'\\{}#\n")
    texts = [
        f"{{{part.expression if inside else ''}{part.conversion}}}"
        if isinstance(part, Shown)
        else part.replace("{", "{{").replace("}", "}}")
        for part in parts
    ]
    text = literal("".join(texts))
    return f"f{text}" if inside else f"{text}.format({', '.join(part.expression for part in shown)})"


def printable(text: str) -> str:
    """A line of text on which no character acts: line ends, escape sequences, marks of direction and the like are spelled.

    >>> printable("a\\nb\\u202e")
    'a\\\\nb\\\\u202e'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def printable_lines(text: str) -> list[str]:
    """The lines of a text, each `printable`; tabs are spaces."""
    return [printable(line) for line in text.replace("\r\n", "\n").replace("\r", "\n").expandtabs().split("\n")]


def comment_literal(lines: Iterable[str]) -> str:
    """Lines as a Python comment at the head of a file: none of them names an encoding, which Python looks for in the first two.

    >>> comment_literal(["of f, with encoding=8"])
    '# coding: utf-8\\n# of f, with encoding=8\\n'
    """
    shown = [f"# {printable(line)}".rstrip() + "\n" for line in lines]
    return "".join(["# coding: utf-8\n" if any(map(_CODING.search, shown[:2])) else "", *shown])


def c_comment_literal(lines: Iterable[str]) -> str:
    """Lines as a comment of C's languages, which nothing in them can end."""
    closed = (re.sub(r"(?<=\*)(?=/)|(?<=/)(?=\*)|(?<=\?)(?=\?)", " ", printable(line)) for line in lines)  # and no trigraphs
    return "\n".join(["/*", *(f" * {line}".rstrip() for line in closed), " */"]) + "\n"


def docstring_literal(doc: str) -> list[str]:
    """A docstring, indented as the first statement of a function; it evaluates to the text's own characters.

    Halves of surrogate pairs, which Python takes in no docstring from 3.13 on, are spelled.
    """
    if not doc:
        return []
    escaped = doc.encode("utf-8", "backslashreplace").decode().replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    first, *rest = printable_lines(escaped)
    if not rest:
        first = f'{first[:-1]}\\"' if first.endswith('"') else first
        return [f'    """{line}' if i == 0 else f"    {line}" for i, line in enumerate(folded(first + '"""'))]
    lines = [f'    """{folded(first)[0]}', *(f"    {line}" for line in folded(first)[1:])]
    lines += [f"    {line}".rstrip() for line in rest]
    return [*lines, '    """']


def folded(text: str) -> list[str]:
    """A line as several that are not too long."""
    lines = [""]
    for word in text.split(" "):
        if lines[-1] and len(lines[-1]) + len(word) + 1 > WIDTH - 7:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + word
    return lines


def identifier(text: str, plain: bool = False) -> str:
    """The Python identifier nearest to a text, as Python itself spells it; with `plain`, one of C's languages, in ASCII.

    >>> identifier("m['W'][0]"), identifier("\\u03b1", plain=True)
    ('m_W_0', 'u03b1')
    """
    text = unicodedata.normalize("NFKC", text)
    if plain:
        text = "".join(c if c.isascii() or not f"_{c}".isidentifier() else f"u{ord(c):04x}" for c in text)
    words = "".join(c if f"_{c}".isidentifier() else " " for c in text).split()
    found = unicodedata.normalize("NFKC", "_".join(words))
    if plain and (found.startswith("__") or (found.startswith("_") and found[1:2].isupper())):
        return f"x{found}"
    return found if found.isidentifier() else f"x{found}"


def is_attribute_identifier(name: str) -> bool:
    """Whether Python's source can name an attribute so."""
    return name.isidentifier() and not keyword.iskeyword(name) and unicodedata.normalize("NFKC", name) == name


def literal_name(value: Any) -> tuple[str, str] | None:
    """The module and name of a function or class; None where it has none."""
    module, name = getattr(value, "__module__", None), getattr(value, "__name__", None)
    return (module, name) if isinstance(module, str) and isinstance(name, str) else None


def stem_of_steps(taken: list[str]) -> str:
    """The stem of numbered names, v0 or v_0, of which none is taken."""
    stem = "v"
    while any(name.startswith(stem) and name[len(stem) :].isdecimal() for name in taken):
        stem += "_"
    return stem
