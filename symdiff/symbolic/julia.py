"""Reads rule files in Julia's syntax: DiffRules' `@define_diffrule`, ChainRules' `@scalar_rule`, Yota's `@diffrule`.

Assumes UTF-8 text of at most 4 MB. Guarantees one `JuliaRow` for each rule that can be read, and a `Problem` with line
and reason for each that cannot; nothing in the file is executed. Refuses larger files and longer lines with `RuleError`.
"""

import ast
import keyword
import unicodedata
from pathlib import Path
from typing import NamedTuple

from symdiff.errors import RuleError
from symdiff.symbolic.julia_expressions import JuliaError, Parser, formula, is_condition, number
from symdiff.symbolic.julia_tokens import Token, tokens

MAX_BYTES = 4_000_000
MAX_LINE = 20_000
MAX_NODES = 10_000
_BIDIRECTIONAL = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\x00")
_MACROS = {"@define_diffrule": "_diffrules_row", "@scalar_rule": "_chainrules_row", "@diffrule": "_yota_row"}
_OPENING = frozenset({"for", "while", "function", "macro", "let", "module", "if", "begin", "quote", "struct", "do", "try"})
_LOOPS = frozenset({"for", "while", "function", "macro", "let"})
_NUMBERS = frozenset({"Real", "Number", "Complex", "AbstractFloat", "Integer", "Float64", "Float32", "T", ""})


class JuliaRow(NamedTuple):
    """A rule: partials in the parameters and `out`, None where the file has none (NaN, NoTangent())."""

    module: str
    name: str
    parameters: tuple[str, ...]
    partials: tuple[ast.expr | None, ...]
    line: int


class Problem(NamedTuple):
    """A rule that could not be read."""

    line: int
    reason: str


def is_julia(path: Path) -> bool:
    """Whether a file is read as Julia: by its name."""
    return path.suffix == ".jl"


def read_julia(path: Path) -> tuple[list[JuliaRow], list[Problem]]:
    """The rules of a file, and what could not be read. Raises `RuleError` for a file that is too large or no text."""
    with path.open("rb") as file:
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

    def read(self) -> tuple[list[JuliaRow], list[Problem]]:
        at, blocks, brackets = 0, [], 0  # type: ignore[var-annotated]
        while at < len(self.tokens):
            token = self.tokens[at]
            if token.kind == "macro" and token.text in _MACROS:
                at = self._rule(token, at + 1, [b for b in blocks if b in _LOOPS])
                continue
            if token.kind == "operator":
                brackets = max(0, brackets + (token.text in "([{") - (token.text in ")]}"))
            elif token.kind == "name" and not brackets:
                if token.text in _OPENING:
                    blocks.append(token.text)
                elif token.text == "end" and blocks:
                    blocks.pop()
            at += 1
        return self.rows, self.problems

    def _rule(self, macro: Token, at: int, loops: list[str]) -> int:
        if loops:
            self.problems.append(
                Problem(macro.line, f"a rule inside a `{loops[-1]}`, whose names only running Julia would tell")
            )
            return at
        parser = Parser(self.tokens, at, {})
        try:
            getattr(self, _MACROS[macro.text])(parser, macro.line)
        except (JuliaError, RuleError, ValueError, TypeError, OverflowError) as error:
            self.problems.append(Problem(macro.line, str(error)))
            return self._next_line(at)
        return parser.at

    def _next_line(self, at: int) -> int:
        while self.tokens[at].kind not in ("newline", "end"):
            at += 1
        return at

    # -- heads

    def _head(self, parser: Parser) -> tuple[str, str, tuple[str, ...]]:
        """`Mod.f(x, y)`, `Base.:^(x, y)`, `$(Mod.f)(x)`: module, name, parameters; the parser learns their names."""
        parts = self._dotted(parser)
        parser.expect("(")
        parameters = []
        while not parser.is_next(")"):
            name = parser.take()
            if name.kind != "name":
                raise JuliaError(f"{name.text!r} is no argument name")
            kind = ""
            if parser.is_next("::"):
                parser.take()
                kind = parser.type_name()
            if kind not in _NUMBERS:
                raise JuliaError(f"argument {name.text} of type {kind}: rules of the table are elementwise")
            parameters.append(name.text)
            if not parser.is_next(")"):
                parser.expect(",")
        parser.take()
        return ".".join(parts[:-1]) or "Base", parts[-1], self._named(parser, parameters)

    def _named(self, parser: Parser, parameters: list[str]) -> tuple[str, ...]:
        ours = tuple(identifier(p) for p in parameters)
        if len(set(ours)) != len(ours) or not ours:
            raise JuliaError("arguments need different names")
        parser.names = dict(zip(parameters, ours, strict=True))
        return ours

    def _dotted(self, parser: Parser) -> list[str]:
        wrapped = parser.is_next("$")
        if wrapped:
            parser.take()
            parser.expect("(")
        parts = [parser.take().text]
        while parser.is_next("."):
            parser.take()
            parts.append(parser.member())
        if wrapped:
            parser.expect(")")
        return parts

    # -- the three kinds of file

    def _diffrules_row(self, parser: Parser, line: int) -> None:
        module, name, parameters = self._head(parser)
        parser.newlines()
        parser.expect("=")
        parser.newlines()
        found = [self._partial(parser)]
        while parser.is_next(","):
            parser.take()
            parser.newlines()
            found.append(self._partial(parser))
        self._add(module, name, parameters, found, line, parser)

    def _partial(self, parser: Parser) -> ast.expr:
        parser.locals = {}
        return parser.expression()

    def _chainrules_row(self, parser: Parser, line: int) -> None:
        wrapped = parser.is_next("(") and not parser.peek().after_space
        if wrapped:
            parser.take()
            parser.inside += 1
        parser.in_macro = not wrapped
        module, name, parameters = self._operator_head(parser) or self._head(parser)
        parser.names |= {"Ω": "out", "y": parser.names.get("y", "y")} if "y" in parser.names else {"Ω": "out"}
        found = []
        while parser.peek().kind not in ("newline", "end") and not (wrapped and parser.is_next(")")):
            if parser.is_next(","):
                parser.take()
            elif parser.peek().text == "@setup":
                self._setup(parser)
            else:
                found.append(parser.expression())
        if wrapped:
            parser.inside -= 1
            parser.expect(")")
        if len(found) == 1 and isinstance(found[0], ast.Tuple):
            found = found[0].elts
        self._add(module, name, parameters, found, line, parser)

    def _operator_head(self, parser: Parser) -> tuple[str, str, tuple[str, ...]] | None:
        """`x + y` and `-x` as heads."""
        first, second, third = (parser.peek(k) for k in range(3))
        if first.text in ("-", "+") and second.kind == "name":
            parser.at += 2
            return "Base", first.text, self._named(parser, [second.text])
        if first.kind == "name" and second.text in ("+", "-", "*", "/", "\\", "^") and third.kind == "name":
            parser.at += 3
            return "Base", second.text, self._named(parser, [first.text, third.text])
        return None

    def _setup(self, parser: Parser) -> None:
        """`@setup(u = ..., v = ...)` and `@setup u = ...`."""
        parser.at += 1
        wrapped = parser.is_next("(") and not parser.peek().after_space
        if wrapped:
            parser.take()
            parser.inside += 1
        while True:
            name = parser.take()
            parser.expect("=")
            parser.locals[name.text] = parser.expression()
            if not (wrapped and parser.is_next(",")):
                break
            parser.take()
        if wrapped:
            parser.inside -= 1
            parser.expect(")")

    def _yota_row(self, parser: Parser, line: int) -> None:
        parser.in_macro = True
        module, name, parameters = self._operator_head(parser) or self._head(parser)
        wanted = parser.names.get(parser.take().text)
        if wanted is None:
            raise JuliaError("the second word of @diffrule is an argument")
        parser.names = {"y": "out", "ds": "ds", "dy": "ds"} | parser.names
        partial = _without_seed(parser.expression())
        before = next((row for row in self.rows if row[:3] == (module, name, parameters)), None)
        partials = list(before.partials) if before is not None else [None] * len(parameters)
        partials[parameters.index(wanted)] = partial
        if before is not None:
            self.rows.remove(before)
        self._add(module, name, parameters, partials, line, parser)

    def _add(
        self, module: str, name: str, parameters: tuple[str, ...], partials: list[ast.expr | None], line: int, parser: Parser
    ) -> None:
        if parser.peek().kind not in ("newline", "end") and not parser.is_next(";", ")", "end"):
            raise JuliaError(f"{parser.peek().text!r} after the rule")
        if len(partials) != len(parameters):
            raise JuliaError(f"{len(partials)} partials for {len(parameters)} arguments")
        checked = tuple(None if p is None or _is_missing(p) else _as_number(p) for p in partials)
        for partial in checked:
            _bound_nodes(partial)
        self.rows.append(JuliaRow(module, name, parameters, checked, line))


def identifier(name: str) -> str:
    """An argument's name as a Python identifier that is not taken: Greek letters stay."""
    plain = unicodedata.normalize("NFKC", name).replace("′", "_p")
    return f"{plain}_" if keyword.iskeyword(plain) or plain in ("out", "ds") else plain


def _is_missing(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "nan"


def _as_number(node: ast.expr) -> ast.expr:
    """A Boolean partial as 1 or 0, which masks like a strong zero."""
    return ast.IfExp(node, number(1), number(0)) if is_condition(node) else node


def _bound_nodes(partial: ast.expr | None) -> None:
    """Refuse formulas that unfold to more than `MAX_NODES` nodes through shared local names."""
    if partial is None:
        return
    sizes: dict[int, int] = {}

    def size(node: ast.AST) -> int:
        if id(node) not in sizes:
            sizes[id(node)] = 1 + sum(size(child) for child in ast.iter_child_nodes(node))
            if sizes[id(node)] > MAX_NODES:
                raise JuliaError(f"a formula of more than {MAX_NODES} parts")
        return sizes[id(node)]

    try:
        size(partial)
    except RecursionError:
        raise JuliaError("a formula nested too deeply through local names") from None


def _without_seed(node: ast.expr) -> ast.expr:
    """The partial in a pullback that is linear in `ds`: ds replaced by 1. Raises `JuliaError` where it is not."""
    if not _has_seed(node):
        raise JuliaError("the cotangent ds does not occur")
    match node:
        case ast.Name():
            return formula("1")
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return ast.UnaryOp(ast.USub(), _without_seed(inner))
        case ast.BinOp(left=left, op=ast.Mult(), right=right) if _has_seed(left) != _has_seed(right):
            return _times(left, right)
        case ast.BinOp(left=left, op=ast.Div(), right=right) if not _has_seed(right):
            return ast.BinOp(_without_seed(left), ast.Div(), right)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=right) if _has_seed(left) and _has_seed(right):
            return ast.BinOp(_without_seed(left), op, _without_seed(right))
    raise JuliaError("the pullback is not ds times a partial")


def _times(left: ast.expr, right: ast.expr) -> ast.expr:
    seeded, other = (left, right) if _has_seed(left) else (right, left)
    rest = _without_seed(seeded)
    return other if isinstance(rest, ast.Constant) and rest.value == 1 else ast.BinOp(rest, ast.Mult(), other)


def _has_seed(node: ast.expr) -> bool:
    return any(isinstance(n, ast.Name) and n.id == "ds" for n in ast.walk(node))
