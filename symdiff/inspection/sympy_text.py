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
_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv, ast.Mod: sp.Mod,
    ast.BitAnd: sp.And, ast.BitOr: sp.Or, ast.BitXor: sp.Xor,
}  # fmt: skip
_NAMED = {"ln": sp.log, "sqrt": sp.sqrt, "cbrt": lambda x: sp.Pow(x, sp.Rational(1, 3)), "root": sp.root}


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
            case ast.Constant(value=value):
                return self._number(value)
            case ast.Name(id=name):
                return self._named(name)
            case ast.UnaryOp(op=ast.Invert() | ast.Not(), operand=operand):
                return sp.Not(self.read(operand, inner))
            case ast.UnaryOp(op=op, operand=operand):
                value = self.read(operand, inner)
                return -value if isinstance(op, ast.USub) else value
            case ast.BinOp():
                return self._binary(node, inner)
            case ast.BoolOp(op=op, values=parts):
                return (sp.And if isinstance(op, ast.And) else sp.Or)(*(self.read(v, inner) for v in parts))
            case ast.Compare(left=left, ops=ops, comparators=others):
                values = [self.read(v, inner) for v in (left, *others)]
                found = [self._compared(op, a, b) for op, a, b in zip(ops, values, values[1:], strict=False)]
                return found[0] if len(found) == 1 else sp.And(*found)
            case ast.Call():
                return self._call(node, inner)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return (tuple if isinstance(node, ast.Tuple) else list)(self.read(v, inner) for v in parts)
        raise TraceError(f"{type(node).__name__} does not belong in a formula: numbers, names, + - * / **, and calls do")

    def _number(self, value: Any) -> Any:
        if isinstance(value, (int, float, complex)):
            return sp.sympify(value)
        raise TraceError(f"{printable(repr(value)[:60])} is no number")

    def _named(self, name: str) -> Any:
        if name.startswith("__"):
            raise TraceError(f"{name} is no name of a variable here")
        found = self.symbols.get(name, _CONSTANTS.get(name))
        if found is None:
            found = self.symbols[name] = sp.Symbol(name)
        return found

    def _compared(self, op: ast.cmpop, a: Any, b: Any) -> Any:
        if type(op) not in COMPARISONS:
            raise TraceError(f"{type(op).__name__} does not belong in a formula; comparisons are < <= > >= == !=")
        return HEADS_READ[COMPARISONS[type(op)]][0](a, b)

    def _binary(self, node: ast.BinOp, depth: int) -> Any:
        a, b = self.read(node.left, depth), self.read(node.right, depth)
        if isinstance(node.op, ast.Pow):
            if a.is_Rational and b.is_Integer and abs(int(b)) * (abs(a.p * a.q)).bit_length() > _BITS:
                raise TraceError("a power of numbers in the formula is too large to write down; write its base as a float")
            return a**b
        if type(node.op) not in _BINARY:
            raise TraceError(f"{type(node.op).__name__} does not belong in a formula; operators are + - * / ** %")
        return _BINARY[type(node.op)](a, b)

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
