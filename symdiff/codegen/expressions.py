"""Straight-line statements of a Program: single-use values are written into their users while that stays readable.

Assumes spellings as templates over operands. Guarantees the Program's association: parentheses stand wherever leaving
them out would change the order of operations.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from symdiff.codegen.names import Names
from symdiff.ir.node import Node
from symdiff.lowering.program import Program, is_leaf

# How tightly an expression binds: its own level, and the least level its operands need without parentheses.
SUM, TERM, SIGN, ATOM = 1, 2, 3, 5
_LEVELS = {
    "add": (SUM, SUM, TERM), "sub": (SUM, SUM, TERM), "mul": (TERM, TERM, SIGN), "div": (TERM, TERM, SIGN),
    "neg": (SIGN, SIGN, SIGN),
}  # fmt: skip
WIDTH = 80
DEPTH = 5


class Expression:
    """A text, how tightly it binds, and how deeply it nests."""

    __slots__ = ("depth", "level", "text")

    def __init__(self, text: str, level: int, depth: int) -> None:
        self.text = text
        self.level = level
        self.depth = depth

    def __str__(self) -> str:
        return self.text

    def at(self, level: int) -> str:
        """The text as an operand that needs `level`."""
        return self.text if self.level >= level else f"({self.text})"


Spelled = tuple[str, int, tuple[int, ...]]  # a template, how tightly it binds, and how tightly its operands must
Spell = Callable[[int], Spelled]
Statements = tuple[list[str], dict[int, str]]  # and the texts of values
Ends = Callable[[int, str], list[str]]  # the lines where a check holds, by its number and condition


def emit_statements(
    program: Program,
    leaves: dict[int, str],
    spell: Spell,
    names: Names,
    inline: bool = True,
    declare: Callable[[int], str] | None = None,
    ends: Ends | None = None,
    wished: Mapping[int, str] = MappingProxyType({}),
    stop: str = "",
) -> Statements:
    """Assignments in order, and the expression of every output value.

    `leaves` names inputs and constants; `spell(i)` gives (template, own level, levels its operands need);
    `declare(i)` gives what stands before the name of a value, a type for example; `ends(k, condition)` are the lines for
    the program's check k, which stand where its condition is known; `wished` are the names of some values, which others do not
    have; `stop` ends an assignment.
    """
    uses = [0] * len(program.nodes)
    for node in program.nodes:
        for operand in node.operands:
            uses[operand] += 1
    outputs = {cell for output in program.outputs for cell in output.cells}
    checks = list(enumerate(program.checks if ends is not None else ()))
    once = {check: program.checks.count(check) == 1 and uses[check] == 0 for check in program.checks}
    made: list[Expression | None] = [None] * len(program.nodes)
    lines: list[str] = []
    for position in range(len(program.nodes)):
        while ends is not None and checks and checks[0][1] < position:
            k, check = checks.pop(0)
            lines += ends(k, bare_text(made[check].text))  # type: ignore[union-attr]
        if position in leaves:
            text = leaves[position]
            made[position] = Expression(text, SIGN if text.startswith("-") else ATOM, 0)
            continue
        template, level, needed = spell(position)
        parts = [made[o] for o in printed_operands(program, position)]
        text = template.format(*(p.at(n) for p, n in zip(parts, needed, strict=True)))  # type: ignore[union-attr]
        depth = 1 + max((p.depth for p in parts), default=0)  # type: ignore[union-attr]
        alone = once.get(position, uses[position] == 1) and position not in outputs
        if inline and alone and depth < DEPTH and len(text) <= WIDTH:
            made[position] = Expression(text, level, depth)
            continue
        name = wished.get(position) or names.numbered("v")
        lines.append(f"{declare(position) if declare else ''}{name} = {text}{stop}")
        made[position] = Expression(name, ATOM, 0)
    for k, check in checks:
        lines += ends(k, bare_text(made[check].text))  # type: ignore[union-attr, misc]
    return lines, {cell: made[cell].text for cell in outputs}  # type: ignore[union-attr]


def bare_text(text: str) -> str:
    """An expression without parentheses around all of it."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for character in text[:-1]:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if not depth:
            return text
    return text[1:-1]


def leaf_texts(program: Program, read: Callable[[int, int], str], literal: Callable[[Node], str]) -> dict[int, str]:
    """The text of every input, by its place among the arguments and its cell, and of every constant."""
    leaves = [(position, node) for position, node in enumerate(program.nodes) if is_leaf(node)]
    return {position: read(*node.params) if node.op == "input" else literal(node) for position, node in leaves}


def printed_operands(program: Program, position: int) -> tuple[int, ...]:
    """The operands as people write them: a constant before a product, and after a sum."""
    node = program.nodes[position]
    if node.op in ("mul", "add"):
        first, second = node.operands
        if (program.nodes[second if node.op == "mul" else first].op == "const") and first != second:
            return second, first
    return node.operands


_SIGNS = {
    "add": "{} + {}", "sub": "{} - {}", "mul": "{}*{}", "div": "{}/{}", "neg": "-{}", "pow": "{}**{}", "lt": "{} < {}",
    "le": "{} <= {}", "gt": "{} > {}", "ge": "{} >= {}", "eq": "{} == {}", "ne": "{} != {}", "and": "{} & {}", "or": "{} | {}",
    "not": "~{}", "cast": "{}", "select": "where({}, {}, {})",
}  # fmt: skip


def formula(node: Node, texts: Sequence[str], calls: Mapping[int, str] = MappingProxyType({})) -> str:
    """An operation on values as people write it in a comment; `calls` are the names of opaque functions."""
    name = calls.get(id(node.params), node.op)
    return _SIGNS.get(node.op, f"{name}({', '.join(['{}'] * len(texts))})").format(*texts)


def parenthesis_levels(op: str, arity: int) -> tuple[int, tuple[int, ...]]:
    """The binding level of an operation's result and the levels that its operands need."""
    if op in _LEVELS:
        own, *needed = _LEVELS[op]
        return own, tuple(needed[:arity])
    return ATOM, (0,) * arity
