"""Julia expressions, read into the syntax tree of Python's formulas (`ast`), which `tables` lowers to templates.

Assumes the text of formulas as rule files write them. Guarantees Julia's precedences, that nothing is executed, and
bounds on nesting and length. Refuses, with `JuliaError`, what has no place in a formula.
"""

import ast

from symdiff.symbolic.julia_tokens import Token

MAX_DEPTH = 100
MAX_TOKENS = 5000


class JuliaError(Exception):
    """A construct that cannot be read; the message says which."""


class RawName(ast.Name):
    """A name as it stands in the file, which may turn out to be a function, a module or a value."""


_CONSTANTS = {
    "logtwo": "log(2)", "loghalf": "-log(2)", "logten": "log(10)", "logπ": "log(pi)", "log2π": "log(2*pi)", "twoπ": "2*pi",
    "fourπ": "4*pi", "halfπ": "pi/2", "quartπ": "pi/4", "sqrtπ": "sqrt(pi)", "sqrt2": "sqrt(2)", "sqrt2π": "sqrt(2*pi)",
    "sqrthalfπ": "sqrt(pi/2)", "sqrt4π": "sqrt(4*pi)", "invπ": "1/pi", "twoinvπ": "2/pi", "invsqrtπ": "1/sqrt(pi)",
    "invsqrt2": "1/sqrt(2)", "invsqrt2π": "1/sqrt(2*pi)", "twoinvsqrtπ": "2/sqrt(pi)", "π": "pi", "pi": "pi", "ℯ": "e",
    "Inf": "inf", "NaN": "nan", "true": "1", "false": "0", "im": "1j",
}  # fmt: skip
_CONSTANTS |= {name.replace("π", "pi"): text for name, text in list(_CONSTANTS.items()) if name != "π"}
_FUNCTIONS = {
    "besselj": "jv", "bessely": "yv", "besseli": "iv", "besselk": "kv", "besseljx": "jve", "besselyx": "yve",
    "besselix": "ive", "besselkx": "kve", "hankelh1": "hankel1", "hankelh2": "hankel2", "hankelh1x": "hankel1e",
    "hankelh2x": "hankel2e", "besselj0": "j0", "besselj1": "j1", "bessely0": "y0", "bessely1": "y1", "dawson": "dawsn",
    "logbeta": "betaln", "rem": "fmod", "round": "rint", "_abs_deriv": "sign", "angle": "arctan2",
}  # fmt: skip
_TYPED = ("float", "Float64", "Float32", "big", "complex")
_COMPARE = {"<": ast.Lt, "<=": ast.LtE, "≤": ast.LtE, ">": ast.Gt, ">=": ast.GtE, "≥": ast.GtE, "==": ast.Eq, "!=": ast.NotEq,
            "≠": ast.NotEq}  # fmt: skip
_SUM = {"+": ast.Add, "-": ast.Sub, ".+": ast.Add, ".-": ast.Sub}
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
        self.locals: dict[str, ast.expr] = {}

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

    def expression(self) -> ast.expr:
        """One expression, a ternary at the loosest."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise JuliaError(f"nested deeper than {MAX_DEPTH}")
        condition = self.disjunction()
        if self.is_next("?"):
            self.take()
            self.newlines()
            yes = self.expression()
            self.newlines()
            self.expect(":")
            self.newlines()
            condition = ast.IfExp(condition, yes, self.expression())
        self.depth -= 1
        return condition

    def newlines(self) -> None:
        """Pass over line ends after an operator that wants another operand."""
        while self.tokens[self.at].kind == "newline":
            self.at += 1

    def disjunction(self) -> ast.expr:
        """`a || b`."""
        parts = [self.conjunction()]
        while self.is_next("||"):
            self.take()
            self.newlines()
            parts.append(self.conjunction())
        return parts[0] if len(parts) == 1 else ast.BoolOp(ast.Or(), parts)

    def conjunction(self) -> ast.expr:
        """`a && b`."""
        parts = [self.comparison()]
        while self.is_next("&&"):
            self.take()
            self.newlines()
            parts.append(self.comparison())
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
            left = ast.BoolOp(ast.Or(), [left, right]) if op == "|" else ast.BinOp(left, _SUM[op](), right)
        return left

    def splits(self) -> bool:
        """Whether `x -1` are two arguments of a macro rather than a difference."""
        return self.in_macro and self.peek().after_space and not self.peek(1).after_space

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
                left = ast.BinOp(right, ast.Div(), left)
            else:
                left = ast.BinOp(left, _TERM[op](), right)  # type: ignore[misc]
        return left

    def rational(self) -> ast.expr:
        """`1//3`."""
        left = self.unary()
        while self.is_next("//"):
            self.take()
            left = ast.BinOp(left, ast.Div(), self.unary())
        return left

    def unary(self) -> ast.expr:
        """`-x`, `!x`, `√x`; a minus binds looser than a power."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise JuliaError(f"nested deeper than {MAX_DEPTH}")
        if self.is_next("-", "+", "!", "√", ".-"):
            op = self.take().text
            operand = self.unary()
            if isinstance(operand, ast.Tuple):
                operand = self.operator_call(op, operand.elts)
            elif op == "√":
                operand = _call("sqrt", [operand])
            elif op != "+":
                operand = ast.UnaryOp(ast.Not() if op == "!" else ast.USub(), operand)
            self.depth -= 1
            return operand
        result = self.juxtaposed()
        self.depth -= 1
        return result

    def juxtaposed(self) -> ast.expr:
        """`2x`, `2(x + 1)`, `2π`: a product that binds closer than `*`."""
        left = self.power()
        before, token = self.tokens[self.at - 1], self.tokens[self.at]
        if token.after_space or token.text in _WORDS:
            return left
        opens = token.kind == "name" or (before.kind == "number" and token.text in ("(", "$"))
        if opens and (before.kind == "number" or before.text == ")"):
            return ast.BinOp(left, ast.Mult(), self.juxtaposed())
        return left

    def power(self) -> ast.expr:
        """`a^b`, from the right."""
        base = self.postfix()
        if self.is_next("^", ".^"):
            self.take()
            self.newlines()
            return ast.BinOp(base, ast.Pow(), self.unary())
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
        """A type: `Real`, `Union{Real, Complex}`; its last plain word."""
        name = self.take().text
        while self.is_next("."):
            self.take()
            name = self.take().text
        if self.is_next("{"):
            depth = 0
            while True:
                token = self.take()
                depth += (token.text == "{") - (token.text == "}")
                if depth == 0 or token.kind == "end":
                    break
        return name

    def primary(self) -> ast.expr:
        """A number, a name, a parenthesis, `if ... end`, `begin ... end`, or what `$` and `:` quote."""
        token = self.take()
        if token.kind == "number":
            return number(_number(token.text))
        if token.text == "$" and self.is_next("(") and self.peek(1).kind == "name" and self.peek(2).text == ")":
            name = self.peek(1).text
            self.at += 3
            return RawName(name)
        if token.text in ("$", ":") and token.kind == "operator":
            return self.quoted() if token.text == ":" else self.primary()
        if token.text == "(":
            return self.parenthesis()
        if token.text == "if":
            return self.conditional()
        if token.text in ("begin", "quote", "let"):
            return self.block("end")
        if token.kind == "name" and (token.text not in _WORDS or (token.text == "isa" and self.is_next("("))):
            return RawName(token.text)
        raise JuliaError(f"{token.text or 'the end of the file'!r} has no place in a formula")

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
        outer, self.inside = self.inside, 0
        value = self.statements(*ends)
        self.expect_one(ends)
        self.inside = outer
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
        outer, self.inside = self.inside, 0
        test = self.expression()
        body = self.statements("elseif", "else", "end")
        word = self.expect_one(("elseif", "else", "end"))
        if word == "end":
            raise JuliaError("an `if` without `else`")
        orelse = self.conditional() if word == "elseif" else self.block("end")
        self.inside = outer
        return ast.IfExp(test, body, orelse)

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
        if name in ("one", "oneunit", "zero"):
            return number(0 if name == "zero" else 1)
        if len(args) == 1 and (name in _TYPED or (name[0].isupper() and name not in ("NoTangent", "ZeroTangent"))):
            return args[0]
        if name in ("NoTangent", "ZeroTangent"):
            return ast.Name("nan") if name == "NoTangent" else number(0)
        if name == "ifelse":
            return ast.IfExp(*args)
        if name == "signbit":
            return ast.Compare(args[0], [ast.Lt()], [number(0)])
        if name == "log" and len(args) == 2:
            return ast.BinOp(_call("log", args[1:]), ast.Div(), _call("log", args[:1]))
        if name == "atan" and len(args) == 2:
            return _call("atan2", args)
        if name == "expint":
            return _call("exp1" if len(args) == 1 else "expn", args)
        if name in ("+", "-", "*", "/", "^", "\\"):
            return self.operator_call(name, args)
        return _call(_FUNCTIONS.get(name, name), args)

    def operator_call(self, name: str, args: list[ast.expr]) -> ast.expr:
        """`+(a, b)`: an operator written as a function."""
        if len(args) == 1:
            return ast.UnaryOp(ast.USub(), args[0]) if name == "-" else args[0]
        ops = {**_SUM, **_TERM, "^": ast.Pow}
        first, second = reversed(args) if name == "\\" else args
        return ast.BinOp(first, ast.Div() if name == "\\" else ops[name](), second)  # type: ignore[misc]

    def typed_call(self, name: str) -> ast.expr:
        """`isa(x, Real)`, `oftype(x, v)`, `convert(T, v)`."""
        self.expect("(")
        self.inside += 1
        first = self.expression()
        self.expect(",")
        if name == "isa":
            value = _is_a(first, self.type_name())
        else:
            value = self.expression()
        self.expect(")")
        self.inside -= 1
        return value

    def resolved(self, name: RawName) -> ast.expr:
        """A name on its own: a local, a constant, or itself."""
        if name.id in self.locals:
            return self.locals[name.id]
        if name.id in self.names:
            return ast.Name(self.names[name.id])
        if name.id not in _CONSTANTS:
            raise JuliaError(f"unknown name {name.id!r}")
        return formula(_CONSTANTS[name.id])


_WORDS = frozenset({"end", "else", "elseif", "if", "begin", "quote", "let", "for", "while", "function", "in", "isa", "do"})


def _call(name: str, args: list[ast.expr]) -> ast.Call:
    return ast.Call(ast.Name(name), args, [])


def _is_a(value: ast.expr, type_name: str) -> ast.expr:
    """`x isa Real` of a formula for numbers: real ones are compared with their real part."""
    real = ast.Compare(_call("imag", [value]), [ast.Eq()], [number(0)])
    return real if type_name in ("Real", "AbstractFloat", "Integer") else ast.UnaryOp(ast.Not(), real)


def _number(text: str) -> complex:
    plain = text.replace("_", "")
    if plain.startswith("0x"):
        return int(plain, 16)
    plain = plain.replace("f", "e")
    return float(plain) if any(c in plain for c in ".e") else int(plain)


def is_condition(node: ast.expr) -> bool:
    """Whether a formula is a comparison or made of them."""
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.Not)
    return isinstance(node, (ast.Compare, ast.BoolOp))
