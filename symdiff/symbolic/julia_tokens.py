"""The tokens of a Julia file: numbers, names, macros, operators and line ends, comments left out.

Assumes text. Guarantees time in proportion to it. Refuses nothing: a character that starts no token is one of its own.
"""

import re
from typing import NamedTuple


class Token(NamedTuple):
    """`kind` is number, name, macro, operator, newline or end; `after_space` tells what stands before it."""

    kind: str
    text: str
    line: int
    after_space: bool


_TOKEN = re.compile(
    r"""
    (?P<space>[ \t\r]+)
  | (?P<comment>\#(?!=)[^\n]*)
  | (?P<newline>\n)
  | (?P<string>\"\"\"(?:[^"\\]|\\.|"(?!""))*+(?:\"\"\"|\\?\Z)|"(?:[^"\\\n]|\\.)*+(?:"|(?=\n)|\\?\Z))
  | (?P<number>0x[0-9a-fA-F_]+|(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eEf][+-]?\d+)?)
  | (?P<macro>@[^\W\d]\w*!?)
  | (?P<name>[^\W\d][\w′]*)
  | (?P<operator>//|\|\||&&|==|!=|<=|>=|::|=>|->|\.\.\.|\.\*|\./|\.\^|\.\+|\.-|[-+*/\\^%÷<>=≤≥≠!?:;,()\[\]{}$.&|'~√∘])
    """,
    re.VERBOSE | re.DOTALL,
)
_MARK = re.compile(r"#=|=#")


def tokens(text: str) -> list[Token]:
    """The tokens of a file, comments and strings left out; raises `JuliaError` at a character that starts none."""
    found: list[Token] = []
    position, line, space = 0, 1, True
    while position < len(text):
        if text.startswith("#=", position):
            end = _comment_end(text, position)
            line += text.count("\n", position, end)
            position, space = end, True
            continue
        match = _TOKEN.match(text, position)
        if match is None:
            found.append(Token("unknown", text[position], line, space))
            position += 1
            continue
        kind = match.lastgroup or ""
        if kind in ("space", "comment"):
            space = True
        else:
            found.append(Token(kind, match.group(), line, space))
            space = kind == "newline"
        line += match.group().count("\n")
        position = match.end()
    found.append(Token("end", "", line, True))
    return found


def _comment_end(text: str, start: int) -> int:
    """The position after a block comment, which nests."""
    depth, position = 0, start
    for mark in _MARK.finditer(text, start):
        depth += 1 if mark.group() == "#=" else -1
        position = mark.end()
        if depth == 0:
            return position
    return len(text)
