"""Derivative rules of structural heads: the rows of `rules/structural.table`, applied to atoms.

Assumes formulas over the vocabulary of `_Words`. Guarantees that reading a table executes nothing: formulas are parsed and
walked, never evaluated as Python. Refuses malformed rows, and complex arrays where a rule holds for real ones, with
`RuleError`.
"""

import ast
import functools
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from symdiff.errors import RuleError
from symdiff.ir.arrays.algebra import Arrays, full_key, kept_shape
from symdiff.ir.building import array_atom, is_constant
from symdiff.ir.node import Atom, Constant, Node
from symdiff.rulebooks.book import table_folder
from symdiff.rulebooks.matrices import UNKNOWN, WORDS
from symdiff.rulebooks.tables import FORMULA_OPERATORS
from symdiff.vocabulary.heads import HEADS
from symdiff.vocabulary.ops import is_complex

ZERO = Constant(0.0)
_HEAD = re.compile(r"(?P<name>\w+)\((?P<operands>[\w, ]+)(;(?P<params>[\w, ]+))?\)")


@dataclass(frozen=True, slots=True)
class StructuralRule:
    """One row: a formula for each operand, None where it has no derivative; `tangents` is None for linear heads."""

    name: str
    operands: tuple[str, ...]
    parameters: tuple[str, ...]
    tangents: tuple[ast.expr | None, ...] | None
    cotangents: tuple[ast.expr | None, ...]
    real: bool
    source: str
    text: str = ""

    def __str__(self) -> str:
        return self.text


@functools.cache
def structural_rules() -> dict[str, StructuralRule]:
    """The rules of all heads, by name."""
    found = {}
    file = table_folder() / "structural.table"
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            rule = parsed_row(line, f"structural.table:{number}")
            found[rule.name] = rule
    return found


def parsed_row(line: str, source: str) -> StructuralRule:
    """A row of the table. Raises `RuleError` naming the row."""
    columns = [c.strip() for c in line.split("|")]
    head = _HEAD.fullmatch(columns[0])
    if head is None or len(columns) != 4 or columns[3] not in ("yes", "real", "yes moves"):
        raise RuleError(
            f"{source}: head(operands; parameters) | tangents | cotangents | yes, yes moves or real is expected: {line.strip()}"
        )
    operands, parameters = (
        tuple(map(str.strip, filter(None, (head[part] or "").split(",")))) for part in ("operands", "params")
    )
    if head["name"] not in HEADS:
        raise RuleError(f"{source}: unknown operation {head['name']}; there are {', '.join(HEADS)}")

    def formulas(text: str) -> tuple[ast.expr | None, ...]:
        parts = [p.strip() for p in text.split(";")]
        if len(parts) != len(operands):
            raise RuleError(f"{source}: {len(operands)} formulas are needed, not {len(parts)}: {text}")
        try:
            return tuple(None if p == "none" else ast.parse(p, mode="eval").body for p in parts)
        except SyntaxError as error:
            raise RuleError(f"{source}: {error.msg}: {text}") from None

    tangents = None if columns[1] == "linear" else formulas(columns[1])
    shown, real = _shown(columns, operands), columns[3] == "real"
    return StructuralRule(head["name"], operands, parameters, tangents, formulas(columns[2]), real, source, shown)


def moves_by_rule(binding: Node) -> bool:
    """Whether each cell of a result is a cell of the operation's only or first operand."""
    return binding.op == "item" or binding.op in moving_heads()


@functools.cache
def moving_heads() -> frozenset[str]:
    """The heads whose rows say that they move cells."""
    lines = (table_folder() / "structural.table").read_text(encoding="utf-8").splitlines()
    return frozenset(line.partition("(")[0] for line in lines if line.endswith(" moves"))


def _shown(columns: list[str], operands: tuple[str, ...]) -> str:
    """A row for people: the operation, then the tangent and the cotangent of each operand."""
    lines = [columns[0] + (", for real arrays" if columns[3] == "real" else "")]
    for title, text in (("tangent by", columns[1]), ("cotangent of", columns[2])):
        parts = [p.strip() for p in text.split(";")]
        if parts == ["linear"]:
            lines.append("  linear in each operand: the tangent is the operation itself on the operand's tangent")
            continue
        lines += [f"  {title} {o:<2} {part}" for o, part in zip(operands, parts, strict=True)]
    return "\n".join(lines)


def rule_pullback(arrays: Arrays, binding: Node, place: int, cotangent: Atom, slopes: Atom = UNKNOWN) -> Atom | None:
    """The cotangent of operand `place` from the result's; None where the operand has no derivative.

    `slopes` are those of a spectral head's second operand by the values of the first.
    """
    if binding.op == "concatenate":
        axis = binding.params.params["axis"]
        start = sum(o.shape[axis] for o in binding.operands[:place])
        key = list(full_key(binding.shape))
        key[axis] = (start, start + binding.operands[place].shape[axis], 1)
        return arrays.getitem(cotangent, tuple(key))
    if binding.op == "item":
        key = _cell(binding)
        shape = binding.operands[0].shape
        return arrays.put(arrays.reshape(cotangent, (1,) * len(shape)), key, shape)
    if binding.op == "array":
        return arrays.cell(cotangent, place)
    if binding.op == "part":
        several = binding.operands[0].params.results
        return arrays.builder.bundle(tuple(cotangent if k == binding.params else ZERO for k in range(len(several))))
    rule = rule_of(binding)
    formula = rule.cotangents[place]
    return None if formula is None else _walk(formula, _Words(arrays, binding, rule, {"ds": cotangent, "slopes": slopes}), rule)


def rule_pushforward(arrays: Arrays, binding: Node, tangents: dict[int, Atom], slopes: Atom = UNKNOWN) -> Atom | None:
    """The tangent of the result from those of some operands, by their places; None where it has none. `slopes` as above."""
    if binding.op == "concatenate":
        parts = [tangents[i] if i in tangents else arrays.broadcast_to(ZERO, o.shape) for i, o in enumerate(binding.operands)]
        return arrays.concatenate(parts, binding.params.params["axis"])
    if binding.op == "item":
        return arrays.cell(tangents[0], binding.params)
    if binding.op == "array":
        cells = tuple(tangents.get(i, ZERO) for i in range(len(binding.operands)))
        return arrays.builder.array(list(cells), binding.shape, binding.dtype)
    if binding.op == "part":
        dot = arrays.builder.part(tangents[0], binding.params)  # type: ignore[arg-type]
        return None if is_constant(dot, 0) else dot
    rule = rule_of(binding)
    total: Atom | None = None
    for place, tangent in tangents.items():
        if rule.tangents is None:
            term = _applied(arrays, binding.op, [tangent], binding.params.params)
        else:
            formula = rule.tangents[place]
            if formula is None:
                continue
            given = {f"d{rule.operands[place]}": tangent, "slopes": slopes}
            term = _walk(formula, _Words(arrays, binding, rule, given), rule)
        total = term if total is None else arrays.builder.add(total, term)
    return total


def _applied(arrays: Arrays, name: str, operands: Sequence[Atom], params: dict[str, Any]) -> Atom:
    """A head applied to operands, simplified where the algebra knows more."""
    known = getattr(arrays, name, None)
    found: Atom = known(*operands, **params) if known is not None else arrays.bind(name, *operands, **params)
    return found


def _cell(binding: Node) -> tuple[tuple[int, int, int], ...]:
    shape, place = binding.operands[0].shape, binding.params
    at = (place,) if len(shape) == 1 else map(int, np.unravel_index(place, shape))
    return tuple((i, i + 1, 1) for i in at)


def rule_of(binding: Node) -> StructuralRule:
    """The rule of a structural binding. Raises `RuleError` where there is none for its operands."""
    rule = structural_rules().get(binding.op)
    if rule is None:
        raise RuleError(f"{binding.origin}: no derivative rule for {binding.op}")
    if rule.real and any(is_complex(o.dtype or "d") for o in binding.operands):
        raise RuleError(f"{binding.origin}: the derivative of {binding.op} is for real arrays only")
    return rule


class _Words:
    """What a formula can say."""

    def __init__(self, arrays: Arrays, binding: Node, rule: StructuralRule, given: dict[str, Atom]) -> None:
        self.arrays = arrays
        self.names: dict[str, Any] = dict(zip(rule.operands, binding.operands, strict=True))
        self.names |= binding.params.params | given | {"out": binding.result}

    def call(self, name: str, args: list[Any], rule: StructuralRule) -> Any:
        a = self.arrays
        function = _VOCABULARY.get(name)
        if function is not None:
            return function(a, *args)
        head = structural_rules().get(name)
        if head is not None and len(args) == len(head.operands) + len(head.parameters):
            count = len(head.operands)
            return _applied(a, name, args[:count], dict(zip(head.parameters, args[count:], strict=True)))
        raise RuleError(f"{rule.source}: unknown function {name}")


def _shares(a: Arrays, x: Atom, out: Atom, axes: tuple[int, ...]) -> Atom:
    """1/n at each of n tied cells of an extreme, 0 elsewhere."""
    hits = a.emit("eq", x, a.reshape(out, kept_shape(x.shape, axes)))
    hits = a.emit("select", hits, Constant(1.0), ZERO)
    return a.emit("div", hits, a.sum(hits, axes, keepdims=True))


def _weights(a: Arrays, x: Atom, out: Atom, axes: tuple[int, ...]) -> Atom:
    """exp(x)/sum(exp(x)), equal shares to the infinite cells of an infinite sum."""
    top = a.reshape(out, kept_shape(x.shape, axes))
    return a.emit("select", a.emit("isfinite", top), a.bind("softmax", x, axes=axes), _shares(a, x, out, axes))


def _spread_at(a: Arrays, x: Atom, indices: np.ndarray, of: Atom) -> Atom:
    """Zeros like `of` with x in the cells of flat index `indices`."""
    rows = a.broadcast_to(x, indices.shape)
    return a.reshape(a.bind("scatter", rows, indices=indices, size=math.prod(of.shape)), of.shape)


def _embed_in(a: Arrays, x: Atom, of: Atom) -> Atom:
    """Matrices of the shape of `of` with x on their diagonals."""
    square = a.embed(x)
    key = tuple((0, n, 1) for n in square.shape)
    return a.put(square, key, of.shape)


def _filled(a: Arrays, x: Atom, of: Atom, axis: int) -> Atom:
    """x with zeros behind its cells along an axis, in the shape of `of`."""
    key = tuple((0, m if i == axis else n, 1) for i, (m, n) in enumerate(zip(x.shape, of.shape, strict=True)))
    return a.put(x, key, of.shape)


def _lower_half(a: Arrays, x: Atom) -> Atom:
    """The lower triangle with half of the diagonal."""
    n = x.shape[-1]
    half = np.tril(np.ones((n, n))) - 0.5 * np.eye(n)
    return a.builder.mul(x, array_atom(half))


_VOCABULARY: dict[str, Callable[..., Any]] = {
    "T": lambda a, x: a.swapped(x),
    "spread": lambda a, x, of, axes: a.spread(x, of.shape, axes),
    "spread_to": lambda a, x, of: a.broadcast_to(x, of.shape),
    "unbroadcast": lambda a, x, of: a.unbroadcast(x, of.shape),
    "like": lambda a, x, of: a.reshape(x, of.shape),
    "inverse": lambda a, axes: tuple(axes.index(i) for i in range(len(axes))),
    "last_two": lambda a, x: (len(x.shape) - 2, len(x.shape) - 1),
    "put": lambda a, x, key, of: a.put(x, key, of.shape),
    "erase": lambda a, x, key: a.bind("set", x, ZERO, key=key),
    "scatter": lambda a, x, indices, of: a.bind("scatter", x, indices=indices, size=of.shape[0]),
    "erase_at": lambda a, x, indices: a.bind("set_at", x, ZERO, indices=indices),
    "spread_at": _spread_at,
    "take_at": lambda a, x, indices: a.bind("take", a.reshape(x, (math.prod(x.shape),)), indices=indices),
    "flip": lambda a, x, axis: a.flip(x, axis),
    "erase_rows": lambda a, x, i: a.bind("assign_at", x, i, ZERO),
    "scatter_at": lambda a, x, i, of: a.bind("scatter_at", x, i, size=of.shape[0]),
    "embed_in": _embed_in,
    "filled": _filled,
    "reversed": lambda a, x: a.flip(x),
    "inside": lambda a, x, y: a.bind("convolve_inside", x, y),
    "shares": _shares,
    "weights": _weights,
    "lower_half": _lower_half,
    **WORDS,
}


def _walk(node: ast.expr, words: _Words, rule: StructuralRule) -> Any:
    """The value of a formula, its operations appended to the builder."""
    a = words.arrays
    if isinstance(node, ast.Name):
        if node.id not in words.names:
            raise RuleError(f"{rule.source}: unknown name {node.id}")
        return words.names[node.id]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        return words.call(node.func.id, [_walk(arg, words, rule) for arg in node.args], rule)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return a.builder.neg(_walk(node.operand, words, rule))
    if isinstance(node, ast.BinOp):
        left, right = _walk(node.left, words, rule), _walk(node.right, words, rule)
        if isinstance(node.op, ast.MatMult):
            return a.matmul(left, right)
        op = FORMULA_OPERATORS.get(type(node.op))
        if op in ("mul", "add"):
            return getattr(a.builder, op)(left, right)
        if op is not None:
            return a.emit(op, left, right)
    raise RuleError(f"{rule.source}: {ast.unparse(node)} is not part of the formulas of structural rules")
