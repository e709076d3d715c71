"""Formulas as text, read into SymPy: numbers, names, + - * / **, comparisons and calls of functions that are known.

Assumes nothing of the text. Guarantees that nothing of it is executed: Python's parser gives a tree, of which a few kinds of
nodes are read. Refuses, with `TraceError`, attributes, subscripts, texts, keywords, unknown functions, and powers of numbers
that are too large to write down.
"""

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

import sympy as sp
from sympy.core.function import Application

from symdiff.errors import TraceError
from symdiff.inspection.expressions import HEADS_READ
from symdiff.inspection.sympy_heads import ROWS
from symdiff.rulebooks.tables import COMPARISONS
from symdiff.vocabulary.literals import printable
from symdiff.vocabulary.ops import OPS

LONGEST = 100_000  # characters
DEEPEST = 200  # parentheses and operators inside each other
_BITS = 4096
_CONSTANTS = {"pi": sp.pi, "E": sp.E, "I": sp.I, "oo": sp.oo, "inf": sp.oo, "nan": sp.nan, "True": sp.true, "False": sp.false}
_NAMED = {"ln": sp.log, "sqrt": sp.sqrt, "cbrt": lambda x: sp.Pow(x, sp.Rational(1, 3)), "root": sp.root}


def _power(base: Any, exponent: Any) -> Any:
    if base.is_Rational and exponent.is_Integer and abs(int(exponent)) * (abs(base.p * base.q)).bit_length() > _BITS:
        raise TraceError("a power of numbers in the formula is too large to write down; write its base as a float")
    return base**exponent


_OPERATORS: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv, ast.Mod: sp.Mod,
    ast.Pow: _power, ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Not: sp.Not, ast.Invert: sp.Not, ast.And: sp.And,
    ast.BitAnd: sp.And, ast.Or: sp.Or, ast.BitOr: sp.Or, ast.BitXor: sp.Xor,
    **{kind: HEADS_READ[op][0] for kind, op in COMPARISONS.items()},
}  # fmt: skip


def _functions() -> dict[str, Any]:
    heads = {
        kind.__name__: kind
        for kind in ROWS
        if isinstance(kind, type) and issubclass(kind, Application) and hasattr(sp, kind.__name__)
    }
    ours = {name: found[0] for op, found in HEADS_READ.items() if found for name in (op, OPS[op].numpy or op)}
    return (
        ours
        | heads
        | {n: getattr(sp, n) for n in ("And", "Or", "Not", "Xor", "Eq", "Ne", "Lt", "Le", "Gt", "Ge", "ITE")}
        | {"Sum": sp.Sum, "Product": sp.Product}
        | _NAMED
    )


def sympy_of_text(text: str, symbols: Mapping[str, Any]) -> Any:
    """The expression that a text writes; names other than functions' and constants' are symbols, `symbols` before others."""
    if len(text) > LONGEST:
        raise TraceError(f"the formula has {len(text)} characters; up to {LONGEST} are read")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise TraceError(f"{printable(text[:60])!r} is no formula: {error}") from None
    return _Reader(symbols).read(tree, 0)


class _Reader:
    def __init__(self, symbols: Mapping[str, Any]) -> None:
        self.symbols = dict(symbols)
        self.functions = _functions()

    def read(self, node: ast.AST, depth: int) -> Any:
        """The expression of a node."""
        if depth > DEEPEST:
            raise TraceError(f"the formula is more than {DEEPEST} levels deep")
        inner = depth + 1
        match node:
            case ast.Constant(value=bool() | int() | float() | complex() as value):
                return sp.sympify(value)
            case ast.Name(id=name):
                return self._named(name)
            case ast.UnaryOp(op=op, operand=operand):
                return _operator(op)(self.read(operand, inner))
            case ast.BinOp(left=left, op=op, right=right):
                return _operator(op)(self.read(left, inner), self.read(right, inner))
            case ast.BoolOp(op=op, values=parts):
                return _operator(op)(*(self.read(v, inner) for v in parts))
            case ast.Compare(left=left, ops=ops, comparators=others):
                values = [self.read(v, inner) for v in (left, *others)]
                found = [_operator(op)(a, b) for op, a, b in zip(ops, values, values[1:], strict=False)]
                return found[0] if len(found) == 1 else sp.And(*found)
            case ast.Call():
                return self._call(node, inner)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return (tuple if isinstance(node, ast.Tuple) else list)(self.read(v, inner) for v in parts)
        raise TraceError(f"{type(node).__name__} does not belong in a formula: numbers, names, + - * / **, and calls do")

    def _named(self, name: str) -> Any:
        if name.startswith("__"):
            raise TraceError(f"{name} is no name of a variable here")
        found = self.symbols.get(name, _CONSTANTS.get(name))
        if found is None:
            found = self.symbols[name] = sp.Symbol(name)
        return found

    def _call(self, node: ast.Call, depth: int) -> Any:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name not in self.functions:
            raise TraceError(f"{name or 'what is called'} is no function that is known in a formula")
        if node.keywords or any(isinstance(a, ast.Starred) for a in node.args):
            raise TraceError(f"{name} takes its arguments by position")
        args = [self.read(a, depth) for a in node.args]
        if name == "factorial" and args and getattr(args[0], "is_Integer", False) and args[0] > 170:
            raise TraceError("a factorial in the formula is too large to write down")
        try:
            return self.functions[name](*args)
        except Exception as error:
            raise TraceError(f"{name}: {error}") from None


def _operator(op: ast.AST) -> Callable[..., Any]:
    if type(op) not in _OPERATORS:
        raise TraceError(f"{type(op).__name__} does not belong in a formula; operators are + - * / ** % < <= > >= == !=")
    return _OPERATORS[type(op)]
