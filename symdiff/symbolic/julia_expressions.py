"""Julia expressions, read into the syntax tree of Python's formulas (`ast`), which `tables` lowers to templates.

Assumes the text of formulas as rule files write them. Guarantees Julia's precedences, that nothing is executed, and
bounds on nesting and length. Refuses, with `JuliaError`, what has no place in a formula.
"""

import ast
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from symdiff.symbolic.julia_tokens import Token

MAX_DEPTH = 100
MAX_TOKENS = 5000
MAX_DIGITS = 300


class JuliaError(Exception):
    """A construct that cannot be read; the message says which."""


class RawName(ast.Name):
    """A name as it stands in the file, which may turn out to be a function, a module or a value."""


_CONSTANTS = {
    "logtwo": "log(2)", "loghalf": "-log(2)", "logten": "log(10)", "logπ": "log(pi)", "log2π": "log(2*pi)", "twoπ": "2*pi",
    "fourπ": "4*pi", "halfπ": "pi/2", "quartπ": "pi/4", "sqrtπ": "sqrt(pi)", "sqrt2": "sqrt(2)", "sqrt2π": "sqrt(2*pi)",
    "sqrthalfπ": "sqrt(pi/2)", "sqrt4π": "sqrt(4*pi)", "invπ": "1/pi", "twoinvπ": "2/pi", "invsqrtπ": "1/sqrt(pi)",
    "fourinvπ": "4/pi", "inv2π": "1/(2*pi)", "inv4π": "1/(4*pi)", "sqrt3": "sqrt(3)", "log4π": "log(4*pi)",
    "invsqrt2": "1/sqrt(2)", "invsqrt2π": "1/sqrt(2*pi)", "twoinvsqrtπ": "2/sqrt(pi)", "π": "pi", "pi": "pi", "ℯ": "e",
    "Inf": "inf", "NaN": "nan", "true": "1", "false": "0", "im": "1j",
}  # fmt: skip
_CONSTANTS |= {name.replace("π", "pi"): text for name, text in list(_CONSTANTS.items()) if name != "π"}
FUNCTIONS = {
    "besselj": "jv", "bessely": "yv", "besseli": "iv", "besselk": "kv", "besseljx": "jve", "besselyx": "yve",
    "besselix": "ive", "besselkx": "kve", "hankelh1": "hankel1", "hankelh2": "hankel2", "hankelh1x": "hankel1e",
    "hankelh2x": "hankel2e", "besselj0": "j0", "besselj1": "j1", "bessely0": "y0", "bessely1": "y1", "dawson": "dawsn",
    "logbeta": "betaln", "rem": "fmod", "round": "rint", "_abs_deriv": "sign",
}  # fmt: skip
_TYPED = frozenset(
    "float big complex Float64 Float32 Float16 BigFloat Complex ComplexF64 AbstractFloat Real Number Int T S R".split()
)
_REAL = frozenset("Real AbstractFloat Float64 Float32 Float16 BigFloat".split())
_COMPLEX = frozenset("Complex ComplexF64 ComplexF32".split())
_ARITY: dict[str, tuple[int, ...]] = {"ifelse": (3,), "NoTangent": (0,), "ZeroTangent": (0,)}
_ARITY |= dict.fromkeys(("one", "oneunit", "zero", "signbit", "iszero", "angle"), (1,))
_ARITY |= dict.fromkeys(("*", "/", "\\", "^", "%"), (2,)) | dict.fromkeys(("+", "-", "log", "atan", "expint"), (1, 2))
_COMPARE = {"<": ast.Lt, "<=": ast.LtE, "≤": ast.LtE, ">": ast.Gt, ">=": ast.GtE, "≥": ast.GtE, "==": ast.Eq, "!=": ast.NotEq,
            "≠": ast.NotEq}  # fmt: skip
_SUM = {"+": ast.Add, "-": ast.Sub, ".+": ast.Add, ".-": ast.Sub}
_OPERATORS = {"+": ast.Add, "-": ast.Sub, "*": ast.Mult, "/": ast.Div, "\\": ast.Div, "^": ast.Pow, "%": ast.Mod}
_TERM = {"*": ast.Mult, "/": ast.Div, ".*": ast.Mult, "./": ast.Div, "%": None, "\\": None}


def number(value: complex) -> ast.Constant:
    """A constant of a formula."""
    return ast.Constant(value)


def formula(text: str) -> ast.expr:
    """A formula of our own, as a tree."""
    return ast.parse(text, mode="eval").body


class Parser:
    """A recursive descent over tokens. `names` are the known names and ours for them; `locals` what `z = ...` bound."""

    def __init__(self, found: list[Token], start: int, names: dict[str, str]) -> None:
        self.tokens = found
        self.names = names
        self.at = start
        self.start = start
        self.depth = 0
        self.inside = 0  # brackets around: newlines do not end an expression there
        self.in_macro = False
        self.locals: dict[str, ast.expr | None] = {}  # None: bound in one branch only

    # -- tokens

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

    # -- expressions, loosest first

    @contextmanager
    def deeper(self) -> Iterator[None]:
        """One level of nesting; a parenthesis is two, an expression and an operand."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise JuliaError(f"nested deeper than {MAX_DEPTH}")
        yield
        self.depth -= 1

    @contextmanager
    def in_block(self) -> Iterator[None]:
        """Line ends count again, and spaces no longer, up to the block's end."""
        outer = self.inside, self.in_macro
        self.inside, self.in_macro = 0, False
        yield
        self.inside, self.in_macro = outer

    def expression(self) -> ast.expr:
        """One expression, a ternary at the loosest."""
        with self.deeper():
            condition = self.disjunction()
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
        return ast.IfExp(test, as_number(yes), as_number(no))

    def parameter(self, name: str) -> ast.expr | None:
        """A parameter by the file's name for it, None where there is none."""
        return ast.Name(self.names[name]) if name in self.names else None

    def guarded(self, operand: Callable[[], ast.expr]) -> ast.expr:
        """The right side of `&&` or `||`, which is not always evaluated and so binds no names."""
        self.take()
        self.newlines()
        before = dict(self.locals)
        value = operand()
        if self.locals != before:
            raise JuliaError("a name bound inside a condition")
        return value

    def newlines(self) -> None:
        """Pass over line ends after an operator that wants another operand."""
        while self.tokens[self.at].kind == "newline":
            self.at += 1

    def disjunction(self) -> ast.expr:
        """`a || b`."""
        parts = [self.conjunction()]
        while self.is_next("||"):
            parts.append(self.guarded(self.conjunction))
        return parts[0] if len(parts) == 1 else ast.BoolOp(ast.Or(), parts)

    def conjunction(self) -> ast.expr:
        """`a && b`."""
        parts = [self.comparison()]
        while self.is_next("&&"):
            parts.append(self.guarded(self.comparison))
        return parts[0] if len(parts) == 1 else ast.BoolOp(ast.And(), parts)

    def comparison(self) -> ast.expr:
        """`a < b`, chains of them, and `x isa Type`."""
        left = self.sum()
        found: list[ast.expr] = []
        while True:
            if self.is_next("isa"):
                self.take()
                left = _is_a(left, self.type_name())
            elif self.peek().text in _COMPARE and self.peek().kind == "operator":
                op = _COMPARE[self.take().text]()
                self.newlines()
                right = self.sum()
                found.append(ast.Compare(left, [op], [right]))
                left = right
            elif not found:
                return left
            else:
                return found[0] if len(found) == 1 else ast.BoolOp(ast.And(), found)

    def sum(self) -> ast.expr:
        """`a + b - c | d`."""
        left = self.term()
        while (self.peek().text in _SUM or self.is_next("|")) and self.peek().kind == "operator" and not self.splits():
            op = self.take().text
            self.newlines()
            right = self.term()
            left = ast.BoolOp(ast.Or(), [left, right]) if op == "|" else _binary(left, _SUM[op](), right)
        return left

    def splits(self) -> bool:
        """Whether `x -1` are two arguments of a macro rather than a difference."""
        return self.in_macro and not self.inside and self.peek().after_space and not self.peek(1).after_space

    def term(self) -> ast.expr:
        """`a * b / c \\ d % e & f`."""
        left = self.rational()
        while (self.peek().text in _TERM or self.is_next("&")) and self.peek().kind == "operator":
            op = self.take().text
            self.newlines()
            right = self.rational()
            if op == "&":
                left = ast.BoolOp(ast.And(), [left, right])
            elif op == "%":
                left = _call("fmod", [left, right])
            elif op == "\\":
                left = _binary(right, ast.Div(), left)
            else:
                left = _binary(left, _TERM[op](), right)  # type: ignore[misc]
        return left

    def rational(self) -> ast.expr:
        """`1//3`."""
        left = self.unary()
        while self.is_next("//"):
            self.take()
            left = _binary(left, ast.Div(), self.unary())
        return left

    def unary(self) -> ast.expr:
        """`-x`, `!x`; a minus binds looser than a power."""
        with self.deeper():
            if not self.is_next("-", "+", "!", ".-"):
                return self.juxtaposed()
            op = self.take().text
            operand = self.unary()
            if isinstance(operand, ast.Tuple):
                return self.operator_call(op, operand.elts)
            if op == "!":
                return ast.UnaryOp(ast.Not(), operand)
            return operand if op == "+" else ast.UnaryOp(ast.USub(), as_number(operand))

    def juxtaposed(self) -> ast.expr:
        """`2x`, `2(x + 1)`, `2π`: a product that binds closer than `*`."""
        left = self.factor()
        while self.adjoins(self.tokens[self.at - 1], self.tokens[self.at]):
            left = _binary(left, ast.Mult(), self.factor())
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
            return _call("sqrt", [self.unary() if self.is_next("-", "+") else self.factor()])

    def power(self) -> ast.expr:
        """`a^b`, from the right."""
        base = self.postfix()
        if self.is_next("^", ".^"):
            self.take()
            self.newlines()
            return _binary(base, ast.Pow(), self.unary())
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
            return number(_number(token.text))
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
        self.inside += 1
        value = self.statements(")")
        if self.is_next(","):
            parts = [value]
            while self.is_next(","):
                self.take()
                if not self.is_next(")"):
                    parts.append(self.expression())
            value = ast.Tuple(parts)
        self.expect(")")
        self.inside -= 1
        return value

    def block(self, *ends: str) -> ast.expr:
        """Statements up to a closing word, which is consumed."""
        with self.in_block():
            value = self.statements(*ends)
            self.expect_one(ends)
        return value

    def expect_one(self, ends: tuple[str, ...]) -> str:
        """The closing word of a block."""
        token = self.take()
        if token.text not in ends:
            raise JuliaError(f"{' or '.join(ends)} expected, {token.text or 'the end'!r} found")
        return token.text

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
        self.inside += 1
        found = []
        while not self.is_next(")"):
            found.append(self.expression())
            if not self.is_next(")"):
                self.expect(",")
        self.take()
        self.inside -= 1
        return found

    def call(self, name: str) -> ast.expr:
        """A call, with Julia's names and conventions turned into ours."""
        if name in ("isa", "oftype", "convert"):
            return self.typed_call(name)
        args = self.arguments()
        if len(args) not in _ARITY.get(name, (len(args),)):
            raise JuliaError(f"{name} of {len(args)} arguments")
        if name in ("one", "oneunit", "zero", "ZeroTangent"):
            return number(int(name.startswith("one")))
        if name == "NoTangent":
            return ast.Name("nan")
        if len(args) == 1 and name in _TYPED:
            return args[0]
        if name == "ifelse":
            return ast.IfExp(args[0], as_number(args[1]), as_number(args[2]))
        if name in ("signbit", "iszero"):
            return ast.Compare(args[0], [ast.Lt() if name == "signbit" else ast.Eq()], [number(0)])
        if name == "angle":
            return _call("atan2", [_call("imag", args), _call("real", args)])
        if name == "log" and len(args) == 2:
            return ast.BinOp(_call("log", args[1:]), ast.Div(), _call("log", args[:1]))
        if name == "atan" and len(args) == 2:
            return _call("atan2", args)
        if name == "expint":
            return _call("exp1" if len(args) == 1 else "expn", args)
        return self.operator_call(name, args) if name in _OPERATORS else _call(FUNCTIONS.get(name, name), args)

    def operator_call(self, op: str, args: list[ast.expr]) -> ast.expr:
        """`+(a, b)`: an operator written as a function."""
        if len(args) not in _ARITY.get(op, ()):
            raise JuliaError(f"{op} of {len(args)} arguments")
        if len(args) == 1:
            return ast.UnaryOp(ast.USub(), as_number(args[0])) if op == "-" else args[0]
        first, second = reversed(args) if op == "\\" else args
        return _call("fmod", args) if op == "%" else _binary(first, _OPERATORS[op](), second)

    def typed_call(self, name: str) -> ast.expr:
        """`isa(x, Real)`, `oftype(x, v)`, `convert(T, v)`."""
        self.expect("(")
        self.inside += 1
        first = number(0) if name == "convert" else self.expression()
        if name == "convert":
            self.type_name()
        self.expect(",")
        value = _is_a(first, self.type_name()) if name == "isa" else self.expression()
        self.expect(")")
        self.inside -= 1
        return value

    def resolved(self, name: RawName) -> ast.expr:
        """A name on its own: a local, a constant, or itself."""
        if name.id in self.locals:
            value = self.locals[name.id]
            if value is None:
                raise JuliaError(f"{name.id!r} is bound in one branch only")
            return value
        if name.id in self.names:
            return ast.Name(self.names[name.id])
        if name.id not in _CONSTANTS:
            raise JuliaError(f"unknown name {name.id!r}")
        return formula(_CONSTANTS[name.id])


_WORDS = frozenset({"end", "else", "elseif", "if", "begin", "quote", "let", "for", "while", "function", "in", "isa", "do"})


def _call(name: str, args: list[ast.expr]) -> ast.Call:
    return ast.Call(ast.Name(name), args, [])


def _is_a(value: ast.expr, type_name: str) -> ast.expr:
    """`x isa Real` of a formula for numbers: real ones are equal to their real part."""
    if type_name not in _REAL | _COMPLEX:
        raise JuliaError(f"isa {type_name}; only real and complex numbers are told apart")
    real = ast.Compare(_call("imag", [value]), [ast.Eq()], [number(0)])
    return real if type_name in _REAL else ast.UnaryOp(ast.Not(), real)


def _number(text: str) -> complex:
    plain = text.replace("_", "")
    if len(plain) > MAX_DIGITS:
        raise JuliaError(f"a number of {len(plain)} digits")
    if plain.startswith("0x"):
        return int(plain, 16)
    plain = plain.replace("f", "e")
    value = float(plain)
    if math.isinf(value):
        raise JuliaError(f"{text} is too large for float64")
    return value if any(c in plain for c in ".eE") else int(plain)


def is_condition(node: ast.expr) -> bool:
    """Whether a formula is a comparison or made of them."""
    match node:
        case ast.UnaryOp(op=op):
            return isinstance(op, ast.Not)
        case ast.Call(func=ast.Name(id=name)):
            return name in ("isnan", "isinf", "isfinite")
    return isinstance(node, (ast.Compare, ast.BoolOp))


def as_number(node: ast.expr) -> ast.expr:
    """A Boolean as 1 or 0."""
    return ast.IfExp(node, number(1), number(0)) if is_condition(node) else node


def _binary(left: ast.expr, op: ast.operator, right: ast.expr) -> ast.expr:
    """An operation on numbers. Julia's `false` is a strong zero: a product with a Boolean selects."""
    if isinstance(op, ast.Mult) and is_condition(left):
        return ast.IfExp(left, as_number(right), number(0))
    if isinstance(op, ast.Mult) and is_condition(right):
        return ast.IfExp(right, left, number(0))
    return ast.BinOp(as_number(left), op, as_number(right))
