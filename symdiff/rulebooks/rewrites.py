"""The table of rewrites, `rules/rewrites.table`: forms of operations, and what the sweeps see in their place.

Assumes formulas of the rule tables. Guarantees a row for each line, by the operation that its form ends in. Refuses malformed
lines with `RuleError`, naming file and line.
"""

import ast
import functools
from typing import NamedTuple

from symdiff.errors import RuleError
from symdiff.rulebooks.book import table_folder
from symdiff.rulebooks.tables import FORMULA_CALLS, FORMULA_OPERATORS, Template, parse_formula, read_lines

CONSTANTS = frozenset("cdknpq")
COMPLEX = frozenset("kz")
OWN = "own"


class Rewrite(NamedTuple):
    """`form` is seen as `becomes`, or has these `partials` by its parameters, None for the operation's own.

    It is where the comparisons in `where` hold, and the parameters in `plain` are no sums of squares.
    """

    text: str
    parameters: tuple[str, ...]
    form: Template
    becomes: Template | None
    partials: tuple[Template | None, ...]
    where: tuple[Template, ...]
    plain: tuple[str, ...]
    sample: tuple[float, float]


@functools.cache
def rewrite_rules(op: str) -> list[Rewrite]:
    """The rows whose forms end in an operation."""
    return [_row(where, cells) for where, cells in rewrites_by_operation().get(op, ())]


@functools.cache
def rewrites_by_operation() -> dict[str, list[tuple[str, list[str]]]]:
    """The lines of the table, as "file:line" and cells, by the operation that their forms end in."""
    found: dict[str, list[tuple[str, list[str]]]] = {}
    for where, cells in read_lines(table_folder() / "rewrites.table"):
        match ast.parse(cells[0], mode="eval").body:
            case ast.Call(func=ast.Name(id=name)) if name in FORMULA_CALLS:
                found.setdefault(FORMULA_CALLS[name], []).append((where, cells))
            case ast.BinOp(op=op):
                found.setdefault(FORMULA_OPERATORS[type(op)], []).append((where, cells))
            case _:
                raise RuleError(f"{where}: {cells[0]} ends in no operation")
    return found


def _row(where: str, cells: list[str]) -> Rewrite:
    if len(cells) != 4:
        raise RuleError(f"{where}: {len(cells)} columns; form | becomes | where | sample")
    form, becomes, conditions, sample = cells
    names = [n for n in ast.walk(ast.parse(form, mode="eval")) if isinstance(n, ast.Name) and n.id not in FORMULA_CALLS]
    parameters = tuple(dict.fromkeys(n.id for n in sorted(names, key=lambda n: n.col_offset)))
    comparisons = [c.strip() for c in conditions.split(";") if c.strip()]
    plain = tuple(c.removeprefix("plain ") for c in comparisons if c.startswith("plain "))
    read = functools.partial(parse_formula, parameters=parameters, where=where)
    partials = [p.strip() for p in becomes[1:].split(";")] if becomes.startswith(":") else []
    if partials and len(partials) != len(set(parameters) - CONSTANTS):
        raise RuleError(f"{where}: {len(partials)} partials of {form}")
    low, _, high = sample.partition("..")
    built = tuple(None if p == OWN else read(p) for p in partials)
    comparing = tuple(read(c) for c in comparisons if not c.startswith("plain "))
    seen = None if partials else read(becomes)
    return Rewrite(form, parameters, read(form), seen, built, comparing, plain, (float(low), float(high)))
