"""What a target lacks, as formulas of what it has: a table of functions of real numbers, each row read as a Program.

Every target prints these Programs with its own printer: C and CUDA as functions of their own, plain Python and LLVM in the
place of the operation, LLVM also as a function of vectors. Assumes a table that is right. Guarantees the same operations in
the same order for all of them, and NumPy's and SciPy's treatment of NaN, ties and signed zeros.
"""

import ast
import functools
import math
from typing import Any

from symdiff.ir.node import Node
from symdiff.lowering.program import Input, Output, Program
from symdiff.vocabulary.ops import OPS

# A row is a head and its result, with names before it for what occurs several times. A row stands after those that it uses.
TABLE = """
sign(x)
    where(x > 0, 1, where(x < 0, -1, where(x == 0, 0, x)))
max(x, y)
    where((x >= y) | isnan(x), x, y)
min(x, y)
    where((x <= y) | isnan(x), x, y)
fmax(x, y)
    where((x >= y) | isnan(y), x, y)
fmin(x, y)
    where((x <= y) | isnan(y), x, y)
mod(x, y)
    r = fmod(x, y)
    where(r == 0, copysign(0, y), where((r < 0) ^ (y < 0), r + y, r))
floordiv(x, y)
    r = fmod(x, y)
    exact = (x - r) / y
    q = where((r != 0) & ((r < 0) ^ (y < 0)), exact - 1, exact)
    whole = floor(q)
    nearest = where(q - whole > 0.5, whole + 1, whole)
    found = where(q == 0, copysign(0, x / y), nearest)
    where(y == 0, x / y, found)
logaddexp(x, y)
    where(x == y, x + 0.6931471805599453, where(x > y, x, y) + log1p(exp(-abs(x - y))))
logaddexp2(x, y)
    where(x == y, x + 1, where(x > y, x, y) + log1p(exp2(-abs(x - y))) * 1.4426950408889634)
expit(x)
    e = exp(-abs(x))
    where(x < 0, e, 1) / (1 + e)
log_expit(x)
    where(isnan(x), x, -(log1p(exp(-abs(x))) - where(x < 0, x, 0)))
logit(x)
    half = atanh(where(x > 0.25, x - 0.5, 0) * 2)
    where(x > 0.25, half + half, log(x / (1 - x)))
xlogy(x, y)
    where((x == 0) & ~isnan(y), 0, x * log(y))
xlog1py(x, y)
    where((x == 0) & ~isnan(y), 0, x * log1p(y))
cosm1(x)
    s = sin(x * 0.5)
    0 - s * s * 2
exprel(x)
    where(abs(x) < 5.551115123125783e-17, 1, where(x == inf, x, expm1(x) / x))
ndtr(x)
    erfc(x * -0.7071067811865476) * 0.5
log_ndtr(x)
    z = x * 0.7071067811865476
    where(x < -1, log(erfcx(-z) / 2) - z * z, log1p(-(erfc(z) / 2)))
rgamma(x)
    where((x <= 0) & (floor(x) == x), 0, 1 / gamma(x))
loggamma(x)
    where(x < 0, nan, gammaln(x))
betaln(x, y)
    gammaln(x) + gammaln(y) - gammaln(x + y)
beta(x, y)
    direct = gamma(x) * gamma(y) / gamma(x + y)
    where(isfinite(direct) & (direct != 0), direct, exp(gammaln(x) + gammaln(y) - gammaln(x + y)))
k0(x)
    exp(-x) * k0e(x)
k1(x)
    exp(-x) * k1e(x)
"""
_SIGNS: dict[type, str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.USub: "neg", ast.BitAnd: "and", ast.BitOr: "or",
    ast.BitXor: "xor", ast.Invert: "not", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq",
    ast.NotEq: "ne",
}  # fmt: skip


def _rows() -> dict[str, tuple[list[str], str]]:
    """The parameters and the text of each function."""
    found = {}
    for paragraph in TABLE.strip().replace("\n    ", ";").splitlines():
        head, *lines = paragraph.split(";")
        name, _, parameters = head.rstrip(")").partition("(")
        found[name] = parameters.split(", "), "\n".join(lines)
    return found


_ROWS = _rows()
FORMULAS = tuple(_ROWS)


@functools.cache
def formula_program(name: str, code: str) -> tuple[Program, dict[int, str]]:
    """A row as a Program of one dtype, and the names that it gives to values.

    >>> print(formula_program("xlogy", "d")[0].by_kind())
    {'and': 1, 'eq': 1, 'isnan': 1, 'log': 1, 'mul': 1, 'not': 1, 'select': 1}
    """
    parameters, text = _ROWS[name]
    reader = _Reader(parameters, code)
    found = [reader.statement(statement) for statement in ast.parse(text).body]
    inputs = tuple(Input(p, (), code) for p in parameters)
    program = Program(name, inputs, (Output("value", (), code, (found[-1],)),), reader.nodes)
    return program, {value: own for own, value in reader.named.items() if own not in parameters}


class _Reader:
    """The values of a row: equal ones are one node."""

    def __init__(self, parameters: list[str], code: str) -> None:
        self.code = code
        self.nodes: list[Node] = []
        self.places: dict[tuple[Any, ...], int] = {}
        self.named = {name: self.put("input", (), code, (k, 0)) for k, name in enumerate(parameters)}

    def put(self, op: str, operands: tuple[int, ...], code: str, params: Any = None) -> int:
        key = op, operands, params
        if key not in self.places:
            self.places[key] = len(self.nodes)
            self.nodes.append(Node(op, operands, (), code, params))
        return self.places[key]

    def statement(self, tree: ast.stmt) -> int:
        if isinstance(tree, ast.Assign):
            assert isinstance(tree.targets[0], ast.Name)
            found = self.named[tree.targets[0].id] = self.value(tree.value)
            return found
        assert isinstance(tree, ast.Expr)
        return self.value(tree.value)

    def value(self, tree: ast.expr) -> int:
        """The place of an expression's value."""
        match tree:
            case ast.Name(id="inf" | "nan" as number):
                return self.put("const", (), self.code, getattr(math, number))
            case ast.Name(id=name):
                return self.named[name]
            case ast.Constant() | ast.UnaryOp(op=ast.USub(), operand=ast.Constant()):
                return self.put("const", (), self.code, float(ast.literal_eval(tree)))
            case ast.UnaryOp():
                return self.applied(_SIGNS[type(tree.op)], [tree.operand])
            case ast.BinOp():
                return self.applied(_SIGNS[type(tree.op)], [tree.left, tree.right])
            case ast.Compare():
                return self.applied(_SIGNS[type(tree.ops[0])], [tree.left, tree.comparators[0]])
            case ast.Call(func=ast.Name(id=name)):
                return self.applied("select" if name == "where" else name, tree.args)
        raise AssertionError(ast.unparse(tree))

    def applied(self, op: str, operands: list[ast.expr]) -> int:
        places = tuple(map(self.value, operands))
        return self.put(op, places, "?" if OPS[op].result == "bool" else self.code)
