"""What the last column of a rule table says of a function: between which numbers its values lie, and where it is not smooth.

Assumes the column as text: an image low..high, words, and loci "kind condition: what the derivative takes there", separated
by semicolons. Guarantees that conditions are parsed like formulas, and only when they are asked for. Refuses other text with
`RuleError`.
"""

import functools
import math
from typing import NamedTuple

from symdiff.errors import RuleError
from symdiff.rulebooks.tables import Functions, Template, parse_formula

WORDS = frozenset({"rising", "falling", "levels", "grows", "whole"})
_INFINITE, _FLAT = "the derivative is infinite", "slope 0 is taken"
KINDS = {
    "kink": _FLAT, "jump": _FLAT, "pole": _INFINITE, "edge": _INFINITE,
    "cut": "the side of the imaginary part's signed zero is taken",
}  # fmt: skip


class Locus(NamedTuple):
    """Where a function is not smooth: the kind, the condition as text over parameters, and what the derivative takes there."""

    kind: str
    condition: str
    parameters: tuple[str, ...]
    chosen: str


class Column(NamedTuple):
    """The real values that are not NaN lie between `low` and `high`.

    The words tell that they rise (or fall) with each argument, level off towards a finite end, grow as an exponential does, or
    are whole.
    """

    low: float = -math.inf
    high: float = math.inf
    words: frozenset[str] = frozenset()
    loci: tuple[Locus, ...] = ()


@functools.cache
def rule_column(text: str, parameters: tuple[str, ...] = (), where: str = "") -> Column:
    """The column of a function of `parameters` from its text."""
    column = Column()
    for part in filter(None, map(str.strip, text.split(";"))):
        kind, _, rest = part.partition(" ")
        if kind in KINDS:
            condition, _, chosen = rest.partition(":")
            column = column._replace(loci=(*column.loci, Locus(kind, condition, parameters, chosen.strip() or KINDS[kind])))
            continue
        words = part.split()
        low, dots, high = words[0].partition("..")
        try:
            column = column._replace(low=float(low), high=float(high)) if dots else column
        except ValueError:
            raise RuleError(f"{where}: image {words[0]!r}; write low..high") from None
        column = column._replace(words=column.words.union(words[bool(dots) :]))
    if column.words - WORDS:
        raise RuleError(f"{where}: {text!r}; an image low..high, {', '.join(sorted(WORDS))}, then {', '.join(KINDS)} and where")
    return column


@functools.cache
def formula_locus(locus: Locus) -> Template:
    """The condition of a locus as a formula of the function's arguments."""
    return parse_formula(locus.condition, locus.parameters, locus.kind, _PREDICATES)


_PREDICATES: Functions = {("_whole", 1): parse_formula("isfinite(x) and x == rint(x)", ("x",), "columns")}
