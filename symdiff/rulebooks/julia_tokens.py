"""The tokens of a Julia file: numbers, names, macros, operators and line ends, comments left out.

Assumes text. Guarantees time in proportion to it, and bounds on nesting and on the tokens of one rule. Refuses, with
`JuliaError`, what goes beyond them; a character that starts no token is one of its own.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

MAX_DEPTH = 100
MAX_TOKENS = 5000


class JuliaError(Exception):
    """A construct that cannot be read; the message says which."""


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


class Cursor:
    """A place among the tokens of a file, with the brackets and the nesting around it."""

    def __init__(self, found: list[Token], start: int) -> None:
        self.tokens = found
        self.at = start
        self.start = start
        self.depth = 0
        self.inside = 0  # brackets around: newlines do not end an expression there
        self.in_macro = False

    def peek(self, ahead: int = 0) -> Token:
        """The next token; inside brackets newlines are passed over."""
        if self.at - self.start > MAX_TOKENS:
            raise JuliaError(f"a rule of more than {MAX_TOKENS} tokens")
        while self.inside and self.tokens[self.at].kind == "newline":
            self.at += 1
        return self.tokens[min(self.at + ahead, len(self.tokens) - 1)]

    def take(self) -> Token:
        """The next token, consumed."""
        token = self.peek()
        self.at += token.kind != "end"
        return token

    def is_next(self, *texts: str) -> bool:
        """Whether the next token is one of these operators or words."""
        token = self.peek()
        return token.text in texts and token.kind in ("operator", "name")

    def expect(self, text: str) -> Token:
        """The next token, which must be this one."""
        token = self.take()
        if token.text != text:
            raise JuliaError(f"{text!r} expected, {token.text or 'the end'!r} found")
        return token

    def skip_newlines(self) -> None:
        """Pass over empty lines and semicolons."""
        while self.tokens[self.at].kind == "newline" or self.is_next(";"):
            self.at += 1

    def expect_one(self, ends: tuple[str, ...]) -> str:
        """The closing word of a block."""
        token = self.take()
        if token.text not in ends:
            raise JuliaError(f"{' or '.join(ends)} expected, {token.text or 'the end'!r} found")
        return token.text

    def newlines(self) -> None:
        """Pass over line ends after an operator that wants another operand."""
        while self.tokens[self.at].kind == "newline":
            self.at += 1

    @contextmanager
    def deeper(self) -> Iterator[None]:
        """One level of nesting; a parenthesis is two, an expression and an operand."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise JuliaError(f"nested deeper than {MAX_DEPTH}")
        yield
        self.depth -= 1

    @contextmanager
    def in_brackets(self, opened: bool = True) -> Iterator[None]:
        """Line ends do not count, up to the closing parenthesis, which is consumed; where one was opened."""
        self.inside += opened
        yield
        if opened:
            self.expect(")")
            self.inside -= 1

    @contextmanager
    def in_block(self) -> Iterator[None]:
        """Line ends count again, and spaces no longer, up to the block's end."""
        outer = self.inside, self.in_macro
        self.inside, self.in_macro = 0, False
        yield
        self.inside, self.in_macro = outer
