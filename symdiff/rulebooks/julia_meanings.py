"""What Julia's names, literals and operators mean in formulas: constants, functions of other names, types, Booleans.

Assumes arguments that are formulas already, as Python's syntax trees. Guarantees Julia's conventions (order of arguments,
`false` as a strong zero). Refuses, with `JuliaError`, wrong numbers of arguments, unknown names and types, huge literals.
"""

import ast
import math

from symdiff.rulebooks.book import table_pairs
from symdiff.rulebooks.elsewhere import ELSEWHERE
from symdiff.rulebooks.julia_tokens import JuliaError

MAX_DIGITS = 300
JULIA = dict(table_pairs("julia", "name | = formula, or the name of ours"))
_CONSTANTS = {name: text[1:] for name, text in JULIA.items() if text.startswith("=")}
_CONSTANTS |= {name.replace("π", "pi"): text for name, text in list(_CONSTANTS.items()) if name != "π"}
FUNCTIONS = {row.julia: op for op, row in ELSEWHERE.items() if row.julia}
_TYPED = frozenset(
    "float big complex Float64 Float32 Float16 BigFloat Complex ComplexF64 AbstractFloat Real Number Int T S R".split()
)
_REAL = frozenset("Real AbstractFloat Float64 Float32 Float16 BigFloat".split())
_COMPLEX = frozenset("Complex ComplexF64 ComplexF32".split())
_ARITY: dict[str, tuple[int, ...]] = {"ifelse": (3,), "NoTangent": (0,), "ZeroTangent": (0,)}
_ARITY |= dict.fromkeys(("one", "oneunit", "zero", "signbit", "iszero", "angle"), (1,))
_ARITY |= dict.fromkeys(("*", "/", "\\", "^", "%"), (2,)) | dict.fromkeys(("+", "-", "log", "atan", "expint"), (1, 2))
_OPERATORS = {"+": ast.Add, "-": ast.Sub, "*": ast.Mult, "/": ast.Div, "\\": ast.Div, "^": ast.Pow, "%": ast.Mod}


def number(value: complex) -> ast.Constant:
    """A constant of a formula."""
    return ast.Constant(value)


def formula(text: str) -> ast.expr:
    """A formula of our own, as a tree."""
    return ast.parse(text.strip(), mode="eval").body


def called(name: str, args: list[ast.expr]) -> ast.expr:
    """A call, with Julia's names and conventions turned into ours."""
    if len(args) not in _ARITY.get(name, (len(args),)):
        raise JuliaError(f"{name} of {len(args)} arguments")
    if name in ("one", "oneunit", "zero", "ZeroTangent"):
        return number(int(name.startswith("one")))
    if name == "NoTangent":
        return ast.Name("nan")
    if len(args) == 1 and name in _TYPED:
        return args[0]
    if name == "ifelse":
        return ast.IfExp(args[0], as_formula_number(args[1]), as_formula_number(args[2]))
    if name in ("signbit", "iszero"):
        return ast.Compare(args[0], [ast.Lt() if name == "signbit" else ast.Eq()], [number(0)])
    if name == "angle":
        return call_of("atan2", [call_of("imag", args), call_of("real", args)])
    if name == "log" and len(args) == 2:
        return ast.BinOp(call_of("log", args[1:]), ast.Div(), call_of("log", args[:1]))
    if name == "atan" and len(args) == 2:
        return call_of("atan2", args)
    if name == "expint":
        return call_of("exp1" if len(args) == 1 else "expn", args)
    return julia_operator(name, args) if name in _OPERATORS else call_of(FUNCTIONS.get(name, name), args)


def julia_operator(op: str, args: list[ast.expr]) -> ast.expr:
    """`+(a, b)`: an operator written as a function."""
    if len(args) not in _ARITY.get(op, ()):
        raise JuliaError(f"{op} of {len(args)} arguments")
    if len(args) == 1:
        return ast.UnaryOp(ast.USub(), as_formula_number(args[0])) if op == "-" else args[0]
    first, second = reversed(args) if op == "\\" else args
    return call_of("fmod", args) if op == "%" else binary_formula(first, _OPERATORS[op](), second)


def call_of(name: str, args: list[ast.expr]) -> ast.Call:
    """A call of one of our functions."""
    return ast.Call(ast.Name(name), args, [])


def julia_isa(value: ast.expr, type_name: str) -> ast.expr:
    """`x isa Real` of a formula for numbers: real ones are equal to their real part."""
    if type_name not in _REAL | _COMPLEX:
        raise JuliaError(f"isa {type_name}; only real and complex numbers are told apart")
    real = ast.Compare(call_of("imag", [value]), [ast.Eq()], [number(0)])
    return real if type_name in _REAL else ast.UnaryOp(ast.Not(), real)


def literal(text: str) -> complex:
    """A number as Julia writes it."""
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


def is_formula_condition(node: ast.expr) -> bool:
    """Whether a formula is a comparison or made of them."""
    match node:
        case ast.UnaryOp(op=op):
            return isinstance(op, ast.Not)
        case ast.Call(func=ast.Name(id=name)):
            return name in ("isnan", "isinf", "isfinite")
    return isinstance(node, (ast.Compare, ast.BoolOp))


def as_formula_number(node: ast.expr) -> ast.expr:
    """A Boolean as 1 or 0."""
    return ast.IfExp(node, number(1), number(0)) if is_formula_condition(node) else node


def binary_formula(left: ast.expr, op: ast.operator, right: ast.expr) -> ast.expr:
    """An operation on numbers. Julia's `false` is a strong zero: a product with a Boolean selects."""
    if isinstance(op, ast.Mult) and is_formula_condition(left):
        return ast.IfExp(left, as_formula_number(right), number(0))
    if isinstance(op, ast.Mult) and is_formula_condition(right):
        return ast.IfExp(right, left, number(0))
    return ast.BinOp(as_formula_number(left), op, as_formula_number(right))


def julia_constant(name: str) -> ast.expr:
    """A named constant."""
    if name not in _CONSTANTS:
        raise JuliaError(f"unknown name {name!r}")
    return formula(_CONSTANTS[name])
