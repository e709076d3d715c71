"""Rule tables and formulas as text, to rules and templates.

Assumes UTF-8 text with one rule a line. Guarantees that nothing in a file is executed: a formula is parsed to a syntax
tree after its length and nesting are bounded, and only listed kinds of nodes and names pass. Refuses everything else
with `RuleError`, naming file, line and reason.
"""

import ast
import math
from pathlib import Path
from typing import Any, NamedTuple

from symdiff.errors import RuleError
from symdiff.ops import OPS

MAX_LINE = 2000
MAX_DEPTH = 100
_BINARY = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.Pow: "pow"}
_COMPARE = {ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne"}
_BOOLEAN = {ast.And: "and", ast.Or: "or"}
_CONSTANTS = {"pi": math.pi, "e": math.e, "inf": math.inf, "nan": math.nan}
_CALLS = {op.numpy: op.name for op in OPS.values() if op.arity and op.numpy} | {n: n for n, op in OPS.items() if op.arity}


class Template(NamedTuple):
    """A formula as steps `(op, operand references, payload)`.

    References 0..n-1 are the n arguments, n is `out`, n+1+k is step k. `result` is the reference of the value.
    """

    steps: tuple[tuple[str, tuple[int, ...], Any], ...]
    result: int


def parse_formula(text: str, parameters: tuple[str, ...], where: str) -> Template:
    """The Template of a formula over `parameters` and `out`; raises `RuleError` at `where`."""
    _bound(text, where)
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise RuleError(f"{where}: {text.strip()!r} is not a formula: {error}") from None
    return _Lowering(parameters, where).template(tree)


def _bound(text: str, where: str) -> None:
    if len(text) > MAX_LINE:
        raise RuleError(f"{where}: a line of {len(text)} characters; at most {MAX_LINE} are read")
    if any(not c.isprintable() and c != "\t" for c in text):
        raise RuleError(f"{where}: control or bidirectional characters in a formula")
    depth = 0
    for c in text:
        depth += (c in "([{") - (c in ")]}")
        if depth > MAX_DEPTH:
            raise RuleError(f"{where}: parentheses nested deeper than {MAX_DEPTH}")


class _Lowering:
    def __init__(self, parameters: tuple[str, ...], where: str) -> None:
        self.names = {name: i for i, name in enumerate((*parameters, "out"))}
        self.where = where
        self.steps: list[tuple[str, tuple[int, ...], Any]] = []

    def template(self, tree: ast.expr) -> Template:
        result = self.lower(tree, 0)
        return Template(tuple(self.steps), result)

    def put(self, op: str, refs: tuple[int, ...], payload: Any = None) -> int:
        step = (op, refs, payload)
        if op != "const" and step in self.steps:
            return len(self.names) + self.steps.index(step)
        self.steps.append(step)
        return len(self.names) + len(self.steps) - 1

    def lower(self, node: ast.expr, depth: int) -> int:
        if depth > MAX_DEPTH:
            raise RuleError(f"{self.where}: a formula nested deeper than {MAX_DEPTH}")
        deeper = depth + 1
        match node:
            case ast.Constant(value=bool() | int() | float() | complex() as value):
                return self.put("const", (), value)
            case ast.Name(id=name) if name in self.names:
                return self.names[name]
            case ast.Name(id=name) if name in _CONSTANTS:
                return self.put("const", (), _CONSTANTS[name])
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() | complex() as value)):
                return self.put("const", (), -value)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self.put("neg", (self.lower(operand, deeper),))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self.put("not", (self.lower(operand, deeper),))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
                return self.put(_BINARY[type(op)], (self.lower(left, deeper), self.lower(right, deeper)))
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARE:
                return self.put(_COMPARE[type(op)], (self.lower(left, deeper), self.lower(right, deeper)))
            case ast.BoolOp(op=op, values=values):
                refs = [self.lower(v, deeper) for v in values]
                result = refs[0]
                for ref in refs[1:]:
                    result = self.put(_BOOLEAN[type(op)], (result, ref))
                return result
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _CALLS:
                op_name = _CALLS[name]
                if len(args) != OPS[op_name].arity:
                    raise RuleError(f"{self.where}: {name} takes {OPS[op_name].arity} arguments, {len(args)} given")
                return self.put(op_name, tuple(self.lower(a, deeper) for a in args))
            case ast.Name(id=name):
                raise RuleError(f"{self.where}: unknown name {name!r}; a formula has {', '.join(self.names)}, pi and e")
            case ast.Call(func=ast.Name(id=name)):
                raise RuleError(f"{self.where}: unknown function {name!r} in a formula")
        raise RuleError(f"{self.where}: {type(node).__name__} has no place in a formula")


def read_lines(path: Path) -> list[tuple[str, list[str]]]:
    """The table's rows as ("file:line", cells), comments and empty lines left out."""
    rows = []
    with path.open(encoding="utf-8") as file:
        number = 0
        while line := file.readline(MAX_LINE + 2):
            number += 1
            where = f"{path.name}:{number}"
            if line.strip().startswith("#") or not line.strip():
                continue
            _bound(line.rstrip("\n"), where)
            rows.append((where, [cell.strip() for cell in line.split("|")]))
    return rows
