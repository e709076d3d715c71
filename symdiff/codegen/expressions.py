"""Straight-line statements of a Program: single-use values are written into their users while that stays readable.

Assumes spellings as templates over operands. Guarantees the Program's association: parentheses stand wherever leaving
them out would change the order of operations. What is added to a negative number is written as a difference.
"""

import functools
import re
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from symdiff.codegen.names import Names
from symdiff.ir.node import Node
from symdiff.lowering.program import Program
from symdiff.lowering.walks import uses_of
from symdiff.vocabulary.ops import OPS
from symdiff.vocabulary.traits import operations

# How tightly an expression binds: its own level, and the least level its operands need without parentheses.
CHOICE, EITHER, BOTH, NOT, ORDER, SUM, TERM, SIGN, ATOM = range(1, 10)
_LEVELS = {
    "add": (SUM, SUM, TERM), "sub": (SUM, SUM, TERM), "mul": (TERM, TERM, SIGN), "div": (TERM, TERM, SIGN),
    "mod": (TERM, ATOM, ATOM), "floordiv": (TERM, ATOM, ATOM), "neg": (SIGN, SIGN), "not": (NOT, ATOM),
    "cast": (ATOM, ATOM), "xor": (ORDER, ATOM, ATOM), "or": (EITHER, NOT, NOT), "and": (BOTH, BOTH, BOTH),
    "select": (CHOICE, EITHER, EITHER, CHOICE),
    **dict.fromkeys(operations("compares"), (ORDER, SUM, SUM)),
}  # fmt: skip
WIDTH, LONG = 80, 100  # of an expression within another, and of one alone
DEPTH = 5


class Expression:
    """A text, how tightly it binds, and how deeply it nests; `bare` is the same number as Python's own, where it may be."""

    __slots__ = ("bare", "depth", "level", "text")

    def __init__(self, text: str, level: int, depth: int, bare: "Expression | None" = None) -> None:
        self.text = text
        self.level = level
        self.depth = depth
        self.bare = bare

    def __str__(self) -> str:
        return self.text

    @property
    def is_short(self) -> bool:
        """Whether it may be written into others."""
        return self.depth < DEPTH and len(self.text) <= WIDTH

    def at(self, level: int) -> str:
        """The text as an operand that needs `level`."""
        return self.text if self.level >= level else f"({self.text})"


def leaf_expression(text: str) -> Expression:
    """A name or a number."""
    return Expression(text, SIGN if text.startswith("-") else ATOM, 0)


class Spelled(NamedTuple):
    """A template, how tightly it binds, and how tightly its operands must; `around` makes a number of the target's of it."""

    template: str
    level: int = ATOM
    needed: tuple[int, ...] = ()
    around: str = ""


Spell = Callable[[Program, int], Spelled | Program]  # or the formula that is written in an operation's place
Statements = tuple[list[str], dict[int, str]]  # and the texts of values
Ends = Callable[[int, str], list[str]]  # the lines where a check holds, by its number and condition
Named = Callable[[Expression, Any], Expression]  # of a dtype
Literal = Callable[[Node], str]


def printed_operation(
    program: Program, position: int, values: MutableMapping[int, Any], spell: Spell, literal: Literal, named: Named
) -> Expression:  # fmt: skip
    """An operation on expressions; those that are read twice, or too long together, get names in the text."""
    node = program.nodes[position]
    if node.op == "const":
        return leaf_expression(literal(node))
    spelled = spell(program, position)
    if isinstance(spelled, Program):
        inside: dict[int, Expression] = {}
        for k, (part, uses) in enumerate(zip(spelled.nodes, uses_of(spelled), strict=True)):
            given = values[node.operands[part.params[0]]] if part.op == "input" else None
            found = given or printed_operation(spelled, k, inside, spell, literal, named)
            inside[k] = named(found, part.dtype) if uses > 1 and found.depth else found
        return inside[spelled.outputs[0].value]
    places = printed_operands(program, position)
    while True:
        parts = [values[o] for o in places]
        text = _written(node.op, spelled, parts)
        twice = [spelled.template.count(f"{{{k}}}") > 1 for k in range(len(parts))]
        deep = [(again, len(p.text), o) for again, p, o in zip(twice, parts, places, strict=True) if p.depth]
        repeated, _, longest = max(deep, default=(False, 0, -1))
        if not repeated and (len(text) <= LONG or not deep):
            break
        values[longest] = named(values[longest], program.nodes[longest].dtype)
    depth = 1 + max((p.depth for p in parts), default=0)
    if not spelled.around:
        return Expression(text, spelled.level, depth)
    return Expression(spelled.around.format(text), ATOM, depth, Expression(text, spelled.level, depth))


def _written(op: str, spelled: Spelled, parts: list[Any]) -> str:
    """A template with its operands; a sum with a negative number is a difference."""
    template = spelled.template
    if spelled.around:
        parts = [part.bare or part for part in parts]
    if op in ("add", "sub") and spelled.level == SUM:
        signs = [p.text.startswith("-") and p.level >= TERM for p in parts]
        if op == "add" and signs == [True, False]:
            parts, signs = parts[::-1], signs[::-1]
        if signs[1]:
            template = template.translate(_TURNED)
            parts = [parts[0], Expression(parts[1].text[1:], parts[1].level, 0)]
    if op == "neg" and parts[0].text.startswith("-"):
        parts = [Expression(parts[0].text, CHOICE, 0)]  # C decrements by two signs
    needed = (*spelled.needed, *[0] * len(parts))
    return template.format(*(part.at(level) for part, level in zip(parts, needed, strict=False)))


_TURNED = str.maketrans("+-", "-+")


def emit_statements(
    program: Program,
    read: Callable[[int, int], str],
    literal: Literal,
    spell: Spell,
    names: Names,
    declare: Callable[[Any], str] | None = None,
    ends: Ends | None = None,
    wished: Mapping[int, str] = MappingProxyType({}),
    stop: str = "",
) -> Statements:
    """Assignments in order, and the expression of every output value.

    `read` names inputs by their place among the arguments and their cell, `literal` writes constants; `spell` gives a
    template, its level, and those that its operands need; `declare` what stands before the name of a value of a dtype;
    `ends(k, condition)` are the lines for the program's check k, which stand where its condition is known; `wished` are the
    names of some values, which others do not have; `stop` ends an assignment.
    """
    uses, outputs = uses_of(program), {cell for output in program.outputs for cell in output.cells}
    checks = list(enumerate(program.checks if ends is not None else ()))
    made: dict[int, Expression] = {}
    lines: list[str] = []

    def named(value: Expression, code: Any, name: str = "") -> Expression:
        name = name or names.numbered("v")
        lines.append(f"{declare(code) if declare else ''}{name} = {value}{stop}")
        return leaf_expression(name)

    for position, node in enumerate(program.nodes):
        while checks and checks[0][1] < position:
            k, check = checks.pop(0)
            lines += ends(k, str(made[check]))  # type: ignore[misc]
        if node.op == "input":
            made[position] = leaf_expression(read(*node.params))
            continue
        found = printed_operation(program, position, made, spell, literal, named)
        alone = uses[position] + program.checks.count(position) * (ends is not None) == 1 and position not in outputs
        if found.depth and not (alone and found.is_short):
            found = named(found, node.dtype, wished.get(position, ""))
        made[position] = found
    for k, check in checks:
        lines += ends(k, str(made[check]))  # type: ignore[misc]
    return lines, {cell: str(made[cell]) for cell in outputs}


def printed_operands(program: Program, position: int) -> tuple[int, ...]:
    """The operands as people write them: a constant before a product, and after a sum."""
    node = program.nodes[position]
    if node.op in ("mul", "add"):
        first, second = node.operands
        if (program.nodes[second if node.op == "mul" else first].op == "const") and first != second:
            return second, first
    return node.operands


_SIGNS = {op: OPS[op].python or "" for op in operations("arithmetic", "compares") | {"neg"}} | {
    "pow": "{0}**{1}", "and": "{0} & {1}", "or": "{0} | {1}", "not": "~{0}", "cast": "{0}", "select": "where({0}, {1}, {2})",
}  # fmt: skip


def formula(node: Node, texts: Sequence[str], calls: Mapping[int, str] = MappingProxyType({})) -> str:
    """An operation on values as people write it in a comment; `calls` are the names of opaque functions."""
    name = calls.get(id(node.params), node.op)
    if node.op == "add" and texts[1].startswith("-"):
        return f"{texts[0]} - {texts[1][1:]}"
    return _SIGNS[node.op].format(*texts) if node.op in _SIGNS else f"{name}({', '.join(texts)})"


@functools.cache
def parenthesis_levels(op: str, arity: int, template: str) -> tuple[int, tuple[int, ...]]:
    """The binding level of an operation's result and the levels that its operands need."""
    if op in _LEVELS:
        own, *needed = _LEVELS[op]
        return own, tuple(needed[:arity])
    places = [f"{{{k}}}" for k in range(arity)]
    alone = [template.count(p) == len(re.findall(rf"(?:\(|, ){re.escape(p)}(?=[,)])", template)) for p in places]
    return SIGN if "**" in template else ATOM, tuple(0 if a else ATOM for a in alone)
