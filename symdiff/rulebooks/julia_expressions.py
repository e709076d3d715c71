"""Julia expressions, read into the syntax tree of Python's formulas (`ast`), which `tables` lowers to templates.

Assumes the text of formulas as rule files write them. Guarantees Julia's precedences, that nothing is executed, and
bounds on nesting and length. Refuses, with `JuliaError`, what has no place in a formula.
"""

import ast

from symdiff.rulebooks.julia_meanings import (
    as_formula_number,
    binary_formula,
    call_of,
    called,
    julia_constant,
    julia_isa,
    julia_operator,
    literal,
    number,
)
from symdiff.rulebooks.julia_tokens import Cursor, JuliaError, Token


class RawName(ast.Name):
    """A name as it stands in the file, which may turn out to be a function, a module or a value."""


_COMPARE = {"<": ast.Lt, "<=": ast.LtE, "≤": ast.LtE, ">": ast.Gt, ">=": ast.GtE, "≥": ast.GtE, "==": ast.Eq, "!=": ast.NotEq,
            "≠": ast.NotEq}  # fmt: skip
_LOGIC = (("||", ast.Or), ("&&", ast.And))  # the loosest first
_BINARY = (frozenset("+ - .+ .- |".split()), frozenset("* / .* ./ % \\ &".split()), frozenset({"//"}))
_JOINED = {"|": ast.Or, "&": ast.And}
_WORDS = frozenset({"end", "else", "elseif", "if", "begin", "quote", "let", "for", "while", "function", "in", "isa", "do"})


class Parser(Cursor):
    """A recursive descent over tokens. `names` are the known names and ours for them; `locals` what `z = ...` bound."""

    def __init__(self, found: list[Token], start: int, names: dict[str, str]) -> None:
        super().__init__(found, start)
        self.names = names
        self.locals: dict[str, ast.expr | None] = {}  # None: bound in one branch only

    def expression(self) -> ast.expr:
        """One expression, a ternary at the loosest."""
        with self.deeper():
            condition = self.logic()
            if not self.is_next("?"):
                return condition
            self.take()
            self.newlines()
            before = dict(self.locals)
            yes = self.expression()
            self.newlines()
            self.expect(":")
            self.newlines()
            after, self.locals = self.locals, before
            no = self.expression()
            return self.choice(condition, yes, no, after)

    def choice(self, test: ast.expr, yes: ast.expr, no: ast.expr, after: dict[str, ast.expr | None]) -> ast.expr:
        """`test ? yes : no`; `after` are the local names after `yes`, and those after `no` are the parser's."""
        for name in after.keys() | self.locals.keys():
            first, second = (known[name] if name in known else self.parameter(name) for known in (after, self.locals))
            both = None if first is None or second is None else ast.IfExp(test, first, second)
            self.locals[name] = first if first is second else both
        return ast.IfExp(test, as_formula_number(yes), as_formula_number(no))

    def parameter(self, name: str) -> ast.expr | None:
        """A parameter by the file's name for it, None where there is none."""
        return ast.Name(self.names[name]) if name in self.names else None

    def logic(self, level: int = 0) -> ast.expr:
        """`a || b`, and in it `a && b`. What is right of these is not always evaluated and so binds no names."""
        if level == len(_LOGIC):
            return self.comparison()
        sign, op = _LOGIC[level]
        parts = [self.logic(level + 1)]
        before = dict(self.locals)
        while self.is_next(sign):
            self.take()
            self.newlines()
            parts.append(self.logic(level + 1))
            if self.locals != before:
                raise JuliaError("a name bound inside a condition")
        return parts[0] if len(parts) == 1 else ast.BoolOp(op(), parts)

    def comparison(self) -> ast.expr:
        """`a < b`, chains of them, and `x isa Type`."""
        left = self.binary()
        found: list[ast.expr] = []
        while True:
            if self.is_next("isa"):
                self.take()
                left = julia_isa(left, self.type_name())
            elif self.peek().text in _COMPARE and self.peek().kind == "operator":
                op = _COMPARE[self.take().text]()
                self.newlines()
                right = self.binary()
                found.append(ast.Compare(left, [op], [right]))
                left = right
            elif not found:
                return left
            else:
                return found[0] if len(found) == 1 else ast.BoolOp(ast.And(), found)

    def binary(self, level: int = 0) -> ast.expr:
        """`a + b - c | d`, in it `a * b / c \\ d % e & f`, and in that `1//3`, each from the left."""
        if level == len(_BINARY):
            return self.unary()
        left = self.binary(level + 1)
        while self.peek().text in _BINARY[level] and self.peek().kind == "operator" and not (level == 0 and self.splits()):
            op = self.take().text
            self.newlines()
            both = [left, self.binary(level + 1)]
            left = ast.BoolOp(_JOINED[op](), both) if op in _JOINED else julia_operator(op.strip(".")[:1], both)
        return left

    def splits(self) -> bool:
        """Whether `x -1` are two arguments of a macro rather than a difference."""
        return self.in_macro and not self.inside and self.peek().after_space and not self.peek(1).after_space

    def unary(self) -> ast.expr:
        """`-x`, `!x`; a minus binds looser than a power."""
        with self.deeper():
            if not self.is_next("-", "+", "!", ".-"):
                return self.juxtaposed()
            op = self.take().text
            operand = self.unary()
            if isinstance(operand, ast.Tuple):
                return julia_operator(op, operand.elts)
            if op == "!":
                return ast.UnaryOp(ast.Not(), operand)
            return operand if op == "+" else ast.UnaryOp(ast.USub(), as_formula_number(operand))

    def juxtaposed(self) -> ast.expr:
        """`2x`, `2(x + 1)`, `2π`: a product that binds closer than `*`."""
        left = self.factor()
        while self.adjoins(self.tokens[self.at - 1], self.tokens[self.at]):
            left = binary_formula(left, ast.Mult(), self.factor())
        return left

    def adjoins(self, before: Token, token: Token) -> bool:
        """Whether a factor follows without a sign between."""
        if token.after_space or token.text in _WORDS:
            return False
        if before.kind == "number":
            return token.kind == "name" or token.text in ("(", "$", "√")
        return before.text == ")" and token.kind == "name"

    def factor(self) -> ast.expr:
        """A power, or `√x`, which takes a power but no juxtaposed factor."""
        if not self.is_next("√"):
            return self.power()
        self.take()
        with self.deeper():
            return call_of("sqrt", [self.unary() if self.is_next("-", "+") else self.factor()])

    def power(self) -> ast.expr:
        """`a^b`, from the right."""
        base = self.postfix()
        if self.is_next("^", ".^"):
            self.take()
            self.newlines()
            return binary_formula(base, ast.Pow(), self.unary())
        return base

    def postfix(self) -> ast.expr:
        """Calls, dotted names, type annotations."""
        node = self.primary()
        while True:
            token = self.peek()
            if token.text == "(" and not token.after_space and isinstance(node, RawName):
                node = self.call(node.id)
            elif token.text == "." and token.kind == "operator" and isinstance(node, RawName):
                self.take()
                if self.is_next("("):
                    continue
                if node.id in self.names or node.id in self.locals:
                    raise JuliaError(f"an attribute of {node.id!r}: formulas are of numbers")
                node = RawName(self.member())
            elif token.text == "::":
                self.take()
                self.type_name()
            else:
                break
        return self.resolved(node) if isinstance(node, RawName) else node

    def member(self) -> str:
        """The name after a dot: `erf`, or `:^` as an operator."""
        if self.is_next(":"):
            self.take()
        token = self.take()
        if token.kind not in ("name", "operator"):
            raise JuliaError(f"{token.text!r} after a dot")
        return token.text

    def type_name(self) -> str:
        """A type without its parameters: `Real`, `Complex{T}` is `Complex`; `Union{Real, Complex}` has its members."""
        name = self.type_word()
        while self.is_next("."):
            self.take()
            name = self.type_word()
        words = []
        if self.is_next("{"):
            depth = 0
            while True:
                token = self.take()
                depth += (token.text == "{") - (token.text == "}")
                words += [token.text] * (token.kind == "name")
                if depth == 0 or token.kind == "end":
                    break
        return f"Union{{{', '.join(words)}}}" if name == "Union" else name

    def type_word(self) -> str:
        """One word of a type's name."""
        token = self.take()
        if token.kind != "name":
            raise JuliaError(f"{token.text or 'the end'!r} is no type")
        return token.text

    def primary(self) -> ast.expr:
        """A number, a name, a parenthesis, `if ... end`, `begin ... end`, or what `$` and `:` quote."""
        token = self.take()
        if token.kind == "number":
            return number(literal(token.text))
        if token.text == "$" and token.kind == "operator":
            with self.deeper():
                return self.interpolated() or self.primary()
        if token.text == ":" and token.kind == "operator":
            return self.quoted()
        if token.text == "(":
            return self.parenthesis()
        if token.text == "if":
            return self.conditional()
        if token.text in ("begin", "quote", "let"):
            return self.block("end")
        if token.kind == "name" and (token.text not in _WORDS or (token.text == "isa" and self.is_next("("))):
            return RawName(token.text)
        raise JuliaError(f"{token.text or 'the end of the file'!r} has no place in a formula")

    def interpolated(self) -> RawName | None:
        """The function in `$(f)` or `$(Mod.f)`, consumed; None where `$` stands before something else."""
        if not self.is_next("("):
            return None
        at = self.at + 1
        while self.tokens[at].kind == "name" and self.tokens[at + 1].text == ".":
            at += 2
        if self.tokens[at].kind != "name" or self.tokens[at + 1].text != ")":
            return None
        self.at = at + 2
        return RawName(self.tokens[at].text)

    def quoted(self) -> ast.expr:
        """What follows a colon: `:(...)`, `:x`."""
        if self.is_next("("):
            self.take()
            return self.parenthesis()
        return RawName(self.take().text)

    def parenthesis(self) -> ast.expr:
        """The inside of parentheses: an expression, statements, or a tuple."""
        with self.in_brackets():
            value = self.statements(")")
            if self.is_next(","):
                parts = [value]
                while self.is_next(","):
                    self.take()
                    if not self.is_next(")"):
                        parts.append(self.expression())
                value = ast.Tuple(parts)
        return value

    def block(self, *ends: str) -> ast.expr:
        """Statements up to a closing word, which is consumed."""
        with self.in_block():
            value = self.statements(*ends)
            self.expect_one(ends)
        return value

    def statements(self, *ends: str) -> ast.expr:
        """`z = ...; body`: the value of the last statement, local names bound on the way."""
        value: ast.expr | None = None
        self.skip_newlines()
        while not self.is_next(*ends, ",") and self.peek().kind != "end":
            token, following = self.peek(), self.peek(1)
            if token.kind == "name" and following.text == "=" and following.kind == "operator":
                self.take()
                self.take()
                self.newlines()
                value = self.expression()
                self.locals[token.text] = value
            else:
                value = self.expression()
            before = self.at
            self.skip_newlines()
            if self.at == before and not self.is_next(*ends, ","):
                raise JuliaError(f"{self.peek().text or 'the end of the file'!r} after an expression")
        if value is None:
            raise JuliaError("an empty formula")
        return value

    def conditional(self) -> ast.expr:
        """`if a; b; elseif c; d; else e end`."""
        with self.deeper(), self.in_block():
            test = self.expression()
            before = dict(self.locals)
            body = self.statements("elseif", "else", "end")
            word = self.expect_one(("elseif", "else", "end"))
            if word == "end":
                raise JuliaError("an `if` without `else`")
            after, self.locals = self.locals, before
            orelse = self.conditional() if word == "elseif" else self.block("end")
            return self.choice(test, body, orelse, after)

    def arguments(self) -> list[ast.expr]:
        """`(a, b)` after a function's name."""
        self.expect("(")
        found = []
        with self.in_brackets():
            while not self.is_next(")"):
                found.append(self.expression())
                if not self.is_next(")"):
                    self.expect(",")
        return found

    def call(self, name: str) -> ast.expr:
        """A call, or the type of something asked for or converted to."""
        if name in ("isa", "oftype", "convert"):
            return self.typed_call(name)
        return called(name, self.arguments())

    def typed_call(self, name: str) -> ast.expr:
        """`isa(x, Real)`, `oftype(x, v)`, `convert(T, v)`."""
        self.expect("(")
        with self.in_brackets():
            first = number(0) if name == "convert" else self.expression()
            if name == "convert":
                self.type_name()
            self.expect(",")
            return julia_isa(first, self.type_name()) if name == "isa" else self.expression()

    def resolved(self, name: RawName) -> ast.expr:
        """A name on its own: a local, a constant, or itself."""
        if name.id in self.locals:
            value = self.locals[name.id]
            if value is None:
                raise JuliaError(f"{name.id!r} is bound in one branch only")
            return value
        if name.id in self.names:
            return ast.Name(self.names[name.id])
        return julia_constant(name.id)
