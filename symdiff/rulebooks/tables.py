"""Rule tables and formulas as text, to rules and templates.

Assumes UTF-8 text with one rule a line. Guarantees that nothing in a file is executed: a formula is parsed to a syntax
tree after its length and nesting are bounded, and only listed kinds of nodes and names pass. Refuses everything else
with `RuleError`, naming file, line and reason.
"""

import ast
import cmath
import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from symdiff.errors import RuleError
from symdiff.rulebooks.precision import NAMED, Unfoldable, fold_formula_step
from symdiff.vocabulary.ops import OPS
from symdiff.vocabulary.outside import opened

MAX_LINE = 2000
MAX_BYTES = 4_000_000
MAX_DEPTH = 100
MAX_STEPS = 2000
FORMULA_OPERATORS = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.Pow: "pow", ast.Mod: "mod"}
COMPARISONS = {ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne"}
_BOOLEAN = {ast.And: "and", ast.Or: "or"}
FORMULA_CALLS = {op.numpy: op.name for op in OPS.values() if op.arity > 0 and op.numpy and not op.is_special}
FORMULA_CALLS |= {name: name for name, op in OPS.items() if op.arity > 0}
Step = tuple[str, tuple[int, ...], Any]


class Template(NamedTuple):
    """A formula as steps `(op, operand references, payload)`.

    References 0..n-1 are the n arguments, n is `out`, n+1+k is step k. `result` is the reference of the value. `exact`
    is the same without rounded constants: payloads are integers, decimals as written, and names such as "pi".
    """

    steps: tuple[Step, ...]
    result: int
    exact: "Template | None" = None


Functions = Mapping[tuple[str, int], Template]


def parse_formula(text: str, parameters: tuple[str, ...], where: str, functions: Functions | None = None) -> Template:
    """The Template of a formula over `parameters` and `out`; raises `RuleError` at `where`.

    `functions` are formulas by name and number of arguments that the formula may call.
    """
    _bound(text, where)
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise RuleError(f"{where}: {text.strip()!r} is not a formula: {error}") from None
    return formula_template(tree, parameters, where, functions)


def formula_template(tree: ast.expr, parameters: tuple[str, ...], where: str, functions: Functions | None = None) -> Template:
    """The Template of a formula's syntax tree."""
    lowering = _Lowering(parameters, where, functions or {})
    try:
        result = lowering.lower(tree, 0)
        return _folded(Template(tuple(lowering.steps), result), len(parameters) + 1)
    except Unfoldable as error:
        raise RuleError(f"{where}: {error}") from None
    except RecursionError:
        raise RuleError(f"{where}: formulas that call one another too deep") from None


def _folded(exact: Template, first: int) -> Template:
    """The template with its constant parts as one correctly rounded number each."""
    place = list(range(first))
    constants: dict[int, Any] = {}
    steps: list[Step] = []
    for op, refs, payload in exact.steps:
        reference = len(place)
        if op == "const":
            constants[reference] = payload
        elif refs and all(r in constants for r in refs):
            value = fold_formula_step(op, [constants[r] for r in refs])
            if value is not None:
                constants[reference] = value
        place.append(-1)
        if reference not in constants:
            operands = []
            for r in refs:
                if place[r] < 0:
                    steps.append(("const", (), _rounded(constants[r])))
                    place[r] = first + len(steps) - 1
                operands.append(place[r])
            steps.append((op, tuple(operands), payload))
            place[reference] = first + len(steps) - 1
    if place[exact.result] < 0:
        steps.append(("const", (), _rounded(constants[exact.result])))
        place[exact.result] = first + len(steps) - 1
    return Template(tuple(steps), place[exact.result], exact)


def _rounded(value: Any) -> Any:
    """A constant as Python's own number, rounded once."""
    if isinstance(value, str):
        value = NAMED[value]()
    if isinstance(value, int) and abs(value) >= 2**1024:
        raise Unfoldable("an integer that is too large for float64")
    if isinstance(value, (bool, int, float, complex)):
        return value
    found = complex(value) if getattr(value, "imag", 0) else float(value.real)
    if not cmath.isfinite(found) or (value and not found):
        raise Unfoldable("a constant that is too large or too small for float64")
    return found


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
    def __init__(self, parameters: tuple[str, ...], where: str, functions: Functions) -> None:
        self.names = {name: i for i, name in enumerate((*parameters, "out"))}
        self.where = where
        self.functions = functions
        self.steps: list[Step] = []
        self._known: dict[Step, int] = {}
        self._lowered: dict[int, int] = {}  # by identity: trees from other languages share their parts

    def put(self, op: str, refs: tuple[int, ...], payload: Any = None) -> int:
        step = (op, refs, payload)
        if op != "const" and step in self._known:
            return self._known[step]
        if len(self.steps) >= MAX_STEPS:
            raise RuleError(f"{self.where}: a formula of more than {MAX_STEPS} steps")
        self.steps.append(step)
        self._known[step] = len(self.names) + len(self.steps) - 1
        return self._known[step]

    def lower(self, node: ast.expr, depth: int) -> int:
        if depth > MAX_DEPTH:
            raise RuleError(f"{self.where}: a formula nested deeper than {MAX_DEPTH}")
        if id(node) not in self._lowered:
            self._lowered[id(node)] = self.lower_new(node, depth + 1)
        return self._lowered[id(node)]

    def lower_new(self, node: ast.expr, deeper: int) -> int:
        match node:
            case ast.Constant(value=bool() | int() | float() | complex() as value):
                return self.put("const", (), value)
            case ast.Name(id=name) if name in self.names:
                return self.names[name]
            case ast.Name(id=name) if name in NAMED:
                return self.put("const", (), name)
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self.lower(operand, deeper)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() | complex() as value)):
                return self.put("const", (), -value)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self.put("neg", (self.lower(operand, deeper),))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self.put("not", (self.lower(operand, deeper),))
            case ast.BinOp(left=ast.UnaryOp(op=ast.USub(), operand=left), op=ast.Mult() | ast.Div() as op, right=right) if not (
                isinstance(left, ast.Constant)
            ):
                return self.put("neg", (self.lower_new(ast.BinOp(left, op, right), deeper),))  # -x*x is -(x*x)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in FORMULA_OPERATORS:
                return self.put(FORMULA_OPERATORS[type(op)], (self.lower(left, deeper), self.lower(right, deeper)))
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in COMPARISONS:
                return self.put(COMPARISONS[type(op)], (self.lower(left, deeper), self.lower(right, deeper)))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self.put("select", tuple(self.lower(part, deeper) for part in (test, body, orelse)))
            case ast.BoolOp(op=op, values=values):
                refs = [self.lower(v, deeper) for v in values]
                result = refs[0]
                for ref in refs[1:]:
                    result = self.put(_BOOLEAN[type(op)], (result, ref))
                return result
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
                return self.call(name, tuple(self.lower(a, deeper) for a in args))
            case ast.Name(id=name):
                raise RuleError(f"{self.where}: unknown name {name!r}; a formula has {', '.join(self.names)}, pi and e")
        raise RuleError(f"{self.where}: {type(node).__name__} has no place in a formula")

    def call(self, name: str, args: tuple[int, ...]) -> int:
        template = self.functions.get((name, len(args)))
        if template is not None:
            return self.inlined(template.exact or template, args)
        if name not in FORMULA_CALLS:
            raise RuleError(f"{self.where}: unknown function {name!r} in a formula")
        op = OPS[FORMULA_CALLS[name]]
        if len(args) != op.arity:
            raise RuleError(f"{self.where}: {name} takes {op.arity} arguments, {len(args)} given")
        return self.put(op.name, args)

    def inlined(self, template: Template, args: tuple[int, ...]) -> int:
        """The steps of another formula, with these arguments."""
        place = [*args, -1]
        for op, refs, payload in template.steps:
            place.append(self.put(op, tuple(place[r] for r in refs), payload))
        return place[template.result]


def read_lines(path: Path) -> list[tuple[str, list[str]]]:
    """The table's rows as ("file:line", cells), comments and empty lines left out."""
    rows = []
    with opened(path) as raw, io.TextIOWrapper(raw, encoding="utf-8") as file:
        if os.fstat(raw.fileno()).st_size > MAX_BYTES:
            raise RuleError(f"{path.name}: more than {MAX_BYTES} bytes; rule files are smaller")
        number = 0
        while line := file.readline(MAX_LINE + 2):
            number += 1
            where = f"{path.name}:{number}"
            if len(line) > MAX_LINE:
                raise RuleError(f"{where}: a line of more than {MAX_LINE} characters")
            if line.strip().startswith("#") or not line.strip():
                continue
            rows.append((where, [cell.strip() for cell in line.split("|")]))
    return rows
