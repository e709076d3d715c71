"""Reads rule files in Julia's syntax: DiffRules' `@define_diffrule`, ChainRules' `@scalar_rule`, Yota's `@diffrule`.

Assumes UTF-8 text of at most 4 MB. Guarantees one `JuliaRow` for each rule that can be read, and a `Problem` with line
and reason for each that cannot; nothing in the file is executed. Refuses larger files and longer lines with `RuleError`.
"""

import ast
import keyword
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from symdiff.errors import RuleError
from symdiff.rulebooks.julia_expressions import Parser
from symdiff.rulebooks.julia_meanings import as_formula_number, number
from symdiff.rulebooks.julia_tokens import JuliaError, Token, tokens
from symdiff.rulebooks.precision import NAMED
from symdiff.vocabulary.outside import opened

MAX_BYTES = 4_000_000
MAX_LINE = 20_000
MAX_NODES = 10_000
MAX_HEIGHT = 100
MAX_REASON = 200
_BIDIRECTIONAL = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\x00")
_MACROS = {"@define_diffrule": "_diffrules_row", "@scalar_rule": "_chainrules_row", "@diffrule": "_yota_row"}
_OPENING = frozenset({"for", "while", "function", "macro", "let", "module", "if", "begin", "quote", "struct", "do", "try"})
_LOOPS = frozenset({"for", "while", "function", "macro", "let"})
_NUMBERS = frozenset({"Real", "Number", "Complex", "AbstractFloat", "Integer", "Float64", "Float32", "T", ""})
_HEADS = frozenset({"+", "-", "*", "/", "\\", "^", "%", "//"})
_TAKEN = frozenset({"out", "ds", *NAMED})


class JuliaRow(NamedTuple):
    """A rule: partials in the parameters and `out`, None where the file has none (NaN, NoTangent()).

    `out_name` is the file's own name for the primal result, where it has one. `kinds` are the arguments' types as
    written, such as "Real", None where there are none.
    """

    module: str
    name: str
    parameters: tuple[str, ...]
    partials: tuple[ast.expr | None, ...]
    line: int
    out_name: str | None = None
    kinds: tuple[str | None, ...] = ()


class _Head(NamedTuple):
    """What a rule is of."""

    module: str
    name: str
    parameters: tuple[str, ...]
    kinds: tuple[str | None, ...]


class Problem(NamedTuple):
    """A rule that could not be read."""

    line: int
    reason: str


def is_julia(path: Path) -> bool:
    """Whether a file is read as Julia: by its name."""
    return path.suffix == ".jl"


def read_julia(path: Path) -> tuple[list[JuliaRow], list[Problem]]:
    """The rules of a file, and what could not be read. Raises `RuleError` for a file that is too large or no text."""
    with opened(path) as file:
        raw = file.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise RuleError(f"{path.name}: more than {MAX_BYTES} bytes; rule files are smaller")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RuleError(f"{path.name}: not UTF-8 text: {error.reason} at byte {error.start}") from None
    for count, line in enumerate(text.splitlines(), 1):
        if len(line) > MAX_LINE:
            raise RuleError(f"{path.name}:{count}: a line of {len(line)} characters; at most {MAX_LINE} are read")
        if not _BIDIRECTIONAL.isdisjoint(line):
            raise RuleError(f"{path.name}:{count}: bidirectional control characters")
    return _Reader(tokens(text)).read()


class _Reader:
    def __init__(self, found: list[Token]) -> None:
        self.tokens = found
        self.rows: list[JuliaRow] = []
        self.problems: list[Problem] = []
        self.blocks: list[str] = []
        self.loops: list[str] = []  # those of the blocks whose names only running Julia would tell
        self.pullbacks: dict[_Head, int] = {}  # the rows of Yota's rules, which have one argument a line

    def read(self) -> tuple[list[JuliaRow], list[Problem]]:
        at, brackets = 0, 0
        while at < len(self.tokens):
            token = self.tokens[at]
            if token.kind == "macro" and token.text in _MACROS:
                at = self._rule(token, at + 1)
                continue
            if token.kind == "operator":
                brackets = max(0, brackets + (token.text in "([{") - (token.text in ")]}"))
            elif token.kind == "name" and not brackets and not self._is_symbol(at):
                self._enter_or_leave(token.text, at)
            at += 1
        return self.rows, self.problems

    def _is_symbol(self, at: int) -> bool:
        """Whether it is `:end`, quoted, and not the word itself."""
        return at > 0 and self.tokens[at - 1].text == ":" and not self.tokens[at].after_space

    def _enter_or_leave(self, word: str, at: int) -> None:
        if word in _OPENING:
            binds = word in _LOOPS and not (word == "let" and self.tokens[at + 1].kind == "newline")
            self.blocks.append(word if binds else "begin")
            self.loops += [word] * binds
        elif word == "end" and self.blocks and self.blocks.pop() != "begin":
            self.loops.pop()

    def _rule(self, macro: Token, at: int) -> int:
        if self.loops:
            reason = f"a rule inside a `{self.loops[-1]}`, whose names only running Julia would tell"
            self.problems.append(Problem(macro.line, reason))
            return at
        parser = Parser(self.tokens, at, {})
        try:
            getattr(self, _MACROS[macro.text])(parser, macro.line)
        except (JuliaError, RuleError, ValueError, TypeError, OverflowError, RecursionError) as error:
            self.problems.append(Problem(macro.line, str(error)[:MAX_REASON]))
            return self._next_line(at)
        return parser.at

    def _next_line(self, at: int) -> int:
        while self.tokens[at].kind not in ("newline", "end"):
            at += 1
        return at

    # -- heads

    def _head(self, parser: Parser) -> _Head:
        """`Mod.f(x, y)`, `Base.:^(x, y)`, `$(Mod.f)(x)`, `-x`, `x + y`; the parser learns the parameters' names."""
        first, second, third = (parser.peek(k) for k in range(3))
        if first.text in ("-", "+") and second.kind == "name":
            parser.at += 2
            return self._named(parser, "Base", first.text, [second.text], [None])
        if first.kind == "name" and second.text in _HEADS and third.kind == "name":
            parser.at += 3
            return self._named(parser, "Base", second.text, [first.text, third.text], [None, None])
        parts = self._dotted(parser)
        parser.expect("(")
        parameters, kinds = [], []
        while not parser.is_next(")"):
            name, kind = self._argument(parser)
            parameters.append(name)
            kinds.append(kind)
            if not parser.is_next(")"):
                parser.expect(",")
        parser.take()
        return self._named(parser, ".".join(parts[:-1]) or "Base", parts[-1], parameters, kinds)

    def _argument(self, parser: Parser) -> tuple[str, str | None]:
        """`x` or `x::Real`."""
        name = parser.take()
        if name.kind != "name":
            raise JuliaError(f"{name.text!r} is no argument name")
        if not parser.is_next("::"):
            return name.text, None
        parser.take()
        kind = parser.type_name()
        if not _NUMBERS.issuperset(kind.removeprefix("Union{").removesuffix("}").split(", ")):
            raise JuliaError(f"argument {name.text} of type {kind}: rules of the table are elementwise")
        return name.text, kind

    def _named(self, parser: Parser, module: str, name: str, parameters: list[str], kinds: list[str | None]) -> _Head:
        if len(set(parameters)) != len(parameters) or not parameters:
            raise JuliaError("arguments need different names" if parameters else "a function without arguments")
        parser.names = {}
        for parameter in parameters:
            ours = julia_identifier(parameter)
            while ours in parser.names.values():
                ours += "_"
            parser.names[parameter] = ours
        return _Head(module, name, tuple(parser.names.values()), tuple(kinds))

    def _dotted(self, parser: Parser) -> list[str]:
        """The parts of a function's name, the last of which may be an operator."""
        wrapped = parser.is_next("$")
        if wrapped:
            parser.take()
            parser.expect("(")
        parts = [self._part(parser)]
        while parser.is_next("."):
            parser.take()
            parts.append(self._part(parser))
        if wrapped:
            parser.expect(")")
        if not all(part.isidentifier() for part in parts[:-1]):
            raise JuliaError(f"{'.'.join(parts)!r} is no function")
        return parts

    def _part(self, parser: Parser) -> str:
        """`f`, `:f`, `+`, `:+`, `(+)` or `:(+)`."""
        if parser.is_next(":"):
            parser.take()
        wrapped = parser.is_next("(")
        if wrapped:
            parser.take()
        token = parser.take()
        if token.kind != "name" and token.text not in _HEADS:
            raise JuliaError(f"{token.text or 'the end'!r} is no function")
        if wrapped:
            parser.expect(")")
        return token.text

    # -- the three kinds of file

    def _diffrules_row(self, parser: Parser, line: int) -> None:
        head = self._head(parser)
        parser.newlines()
        parser.expect("=")
        parser.newlines()
        found = [self._partial(parser)]
        while parser.is_next(","):
            parser.take()
            parser.newlines()
            found.append(self._partial(parser))
        self._add(head, found, line, parser)

    def _partial(self, parser: Parser) -> ast.expr:
        parser.locals = {}
        return parser.expression()

    def _chainrules_row(self, parser: Parser, line: int) -> None:
        wrapped = self._opens(parser)
        parser.in_macro = not wrapped
        with parser.in_brackets(wrapped):
            head = self._head(parser)
            out_name = None if "Ω" in parser.names else "Ω"
            parser.names = {"Ω": "out"} | parser.names
            found = []
            while parser.peek().kind not in ("newline", "end") and not (wrapped and parser.is_next(")")):
                if parser.is_next(","):
                    parser.take()
                elif parser.peek().text == "@setup":
                    self._setup(parser)
                else:
                    found.append(parser.expression())
        if len(found) == 1 and isinstance(found[0], ast.Tuple):
            found = found[0].elts
        self._add(head, found, line, parser, out_name)

    def _setup(self, parser: Parser) -> None:
        """`@setup(u = ..., v = ...)` and `@setup u = ...`."""
        parser.at += 1
        wrapped = self._opens(parser)
        with parser.in_brackets(wrapped):
            while True:
                name = parser.take()
                if name.kind != "name":
                    raise JuliaError(f"{name.text!r} is no name to set up")
                parser.expect("=")
                parser.locals[name.text] = parser.expression()
                if not (wrapped and parser.is_next(",")):
                    break
                parser.take()

    def _opens(self, parser: Parser) -> bool:
        """Whether a macro's arguments stand in a parenthesis, which is consumed."""
        wrapped = parser.is_next("(") and not parser.peek().after_space
        if wrapped:
            parser.take()
        return wrapped

    def _yota_row(self, parser: Parser, line: int) -> None:
        parser.in_macro = True
        head = self._head(parser)
        wanted = parser.names.get(parser.take().text)
        if wanted is None:
            raise JuliaError("the second word of @diffrule is an argument")
        out_name = None if "y" in parser.names else "y"
        parser.names = {"y": "out", "ds": "ds", "dy": "ds"} | parser.names
        pullback = parser.expression()
        at = self.pullbacks.setdefault(head, len(self.rows))
        before = self.rows[at] if at < len(self.rows) else None
        partials: list[ast.expr | None] = list(before.partials) if before else [None] * len(head.parameters)
        partials[head.parameters.index(wanted)] = _without_seed(pullback, _parts(pullback))
        self._add(head, partials, before.line if before else line, parser, out_name)
        if before is not None:
            self.rows[at] = self.rows.pop()

    def _add(
        self, head: _Head, partials: Sequence[ast.expr | None], line: int, parser: Parser, out_name: str | None = None
    ) -> None:
        if parser.peek().kind not in ("newline", "end") and not parser.is_next(";", "end"):
            raise JuliaError(f"{parser.peek().text!r} after the rule")
        if len(partials) != len(head.parameters):
            raise JuliaError(f"{len(partials)} partials for {len(head.parameters)} arguments")
        checked = tuple(None if p is None or _is_missing(p) else as_formula_number(p) for p in partials)
        for partial in checked:
            if partial is not None:
                _parts(partial)
        self.rows.append(JuliaRow(*head[:3], checked, line, out_name, head.kinds))


def julia_identifier(name: str) -> str:
    """An argument's name as a Python identifier that is not taken: Greek letters stay."""
    plain = unicodedata.normalize("NFKC", name).replace("′", "_p")
    if not plain.isidentifier():
        raise JuliaError(f"{name!r} is no argument name")
    return f"{plain}_" if keyword.iskeyword(plain) or plain in _TAKEN else plain


def _is_missing(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "nan"


class _Part(NamedTuple):
    """Of a part of a formula: the nodes it has unfolded, its height, and whether `ds` is in it."""

    nodes: int
    height: int
    seeded: bool


def _parts(root: ast.expr) -> dict[int, _Part]:
    """The parts of a formula by identity; refuses what shared local names unfold to more than can be lowered."""
    found: dict[int, _Part] = {}
    stack: list[ast.AST] = [root]
    while stack:
        children = list(ast.iter_child_nodes(stack[-1]))
        waiting = [child for child in children if id(child) not in found]
        if waiting:
            stack += waiting
            continue
        node = stack.pop()
        below = [found[id(child)] for child in children]
        seeded = (isinstance(node, ast.Name) and node.id == "ds") or any(p.seeded for p in below)
        part = _Part(1 + sum(p.nodes for p in below), 1 + max((p.height for p in below), default=0), seeded)
        if part.nodes > MAX_NODES or part.height > MAX_HEIGHT:
            raise JuliaError(f"a formula of more than {MAX_NODES} parts or nested deeper than {MAX_HEIGHT}")
        found[id(node)] = part
    return found


def _without_seed(node: ast.expr, parts: dict[int, _Part]) -> ast.expr:
    """The partial in a pullback that is linear in `ds`: ds replaced by 1. Raises `JuliaError` where it is not."""
    if not parts[id(node)].seeded:
        raise JuliaError("the cotangent ds does not occur")
    match node:
        case ast.Name():
            return number(1)
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return ast.UnaryOp(ast.USub(), _without_seed(inner, parts))
        case ast.BinOp(left=left, op=ast.Mult(), right=right) if parts[id(left)].seeded != parts[id(right)].seeded:
            seeded, other = (left, right) if parts[id(left)].seeded else (right, left)
            rest = _without_seed(seeded, parts)
            return other if isinstance(rest, ast.Constant) and rest.value == 1 else ast.BinOp(rest, ast.Mult(), other)
        case ast.BinOp(left=left, op=ast.Div(), right=right) if not parts[id(right)].seeded:
            return ast.BinOp(_without_seed(left, parts), ast.Div(), right)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=right):
            return ast.BinOp(_without_seed(left, parts), op, _without_seed(right, parts))
        case ast.IfExp(test=test, body=body, orelse=ast.Constant(value=0) as zero) if not parts[id(test)].seeded:
            return ast.IfExp(test, _without_seed(body, parts), zero)
    raise JuliaError("the pullback is not ds times a partial")
