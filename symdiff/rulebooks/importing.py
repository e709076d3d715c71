"""Rule files of any known format to a Rulebook: symdiff's own tables, and Julia's.

Assumes a path. Guarantees that nothing in the file is executed, and that rules of functions we have are entered under our
names, so that they take the place of ours in `rules=`. Refuses, with `strict=True`, a file with a line it cannot read.
"""

import ast
import dataclasses
import functools
import warnings
from pathlib import Path
from typing import Any

from symdiff.errors import RuleError, RuleWarning
from symdiff.rulebooks.book import Rulebook, default_rules, read_table
from symdiff.rulebooks.julia import JuliaRow, is_julia, read_julia
from symdiff.rulebooks.julia_meanings import FUNCTIONS, JULIA
from symdiff.rulebooks.rule import Rule
from symdiff.rulebooks.tables import Template, formula_template
from symdiff.vocabulary.choices import check_options

_NAMES = FUNCTIONS | {name: ours for name, ours in JULIA.items() if not ours.startswith("=")}
_NAN_SAFE = {"max": "fmax", "min": "fmin", "pow": "power"}
_MODULES = ("numpy", "symdiff.special", "scipy.special")


def load_rules(path: Any, strict: bool = False) -> Rulebook:
    """The rules of a file: symdiff's table, or Julia's DiffRules, ChainRules and Yota syntax (by the ending `.jl`).

    Nothing in the file is executed. A line that cannot be read is reported by a `RuleWarning` and in `problems`, the
    others are loaded; with `strict=True` it raises `RuleError`, as a file that is no text always does.
    """
    check_options("load_rules", {"strict": strict})
    place = Path(path)
    try:
        book = _julia_book(place) if is_julia(place) else read_table(place, formulas_by_name())
    except OSError as error:
        raise RuleError(f"{place}: {error.strerror}") from None
    if book.problems and strict:
        raise RuleError("\n".join(book.problems))
    if book.problems:
        warnings.warn("\n".join(book.problems), RuleWarning, stacklevel=2)
    return book


def _julia_book(path: Path) -> Rulebook:
    rules, problems = _julia_rules(path)
    return Rulebook((rule for _, rule in rules), problems)


def _julia_rules(path: Path) -> tuple[list[tuple[JuliaRow, Rule]], list[str]]:
    """The rows of a file with their rules, and what could not be read."""
    try:
        rows, unread = read_julia(path)
    except OSError as error:
        raise RuleError(f"{path}: {error.strerror}") from None
    rules = []
    problems = [f"{path.name}:{problem.line}: {problem.reason}" for problem in unread]
    for row in rows:
        try:
            rules.append((row, _rule(row, f"{path.name}:{row.line}")))
        except RuleError as error:
            problems.append(str(error))
    return rules, problems


def _rule(row: JuliaRow, where: str) -> Rule:
    order = -1 if row.name == "\\" else 1  # Julia's x \ y is our divide(y, x)
    parameters = row.parameters[::order]
    partials = tuple(
        None if p is None else formula_template(p, parameters, where, formulas_by_name()) for p in row.partials[::order]
    )
    ours = our_rule(row.module, row.name, len(row.parameters))
    if ours is None:
        return Rule(row.module, row.name, parameters, partials, source=where)
    kind = ours.holomorphic if ours.holomorphic != "no" else "real"
    return dataclasses.replace(
        ours,
        parameters=parameters,
        partials=partials,
        conj_partials=None,
        complex_partials=None,
        holomorphic=kind,
        kinks=(),
        source=where,
    )


def our_rule(module: str, name: str, arity: int) -> Rule | None:
    """The rule of our own for a function by its Julia name."""
    book = default_rules()
    known = _NAN_SAFE.get(name) if module.endswith("NaNMath") else None
    known = known or _NAMES.get(f"{name}/{arity}") or _NAMES.get(name, name)
    for place in _MODULES:
        found = book.lookup(place, known, arity)
        if found is not None:
            return found
    return None


@functools.cache
def formulas_by_name() -> dict[tuple[str, int], Template]:
    """The functions of our tables that formulas of other files may call by name."""
    found = {}
    for module in ("scipy.special", "numpy", "symdiff.special"):
        for rule in default_rules().values():
            if rule.module == module and rule.primal is not None and "[" not in rule.name:
                found[rule.name, len(rule.parameters)] = rule.primal
    return found


def table_text(path: Any) -> tuple[str, tuple[str, ...]]:
    """A Julia rule file as a table of ours, and the lines that could not be read."""
    place = Path(path)
    rules, problems = _julia_rules(place)
    lines = [f"# Imported from {place.name} by symdiff; the columns are those of rules/numpy.rules."]
    for row, rule in rules:
        try:
            lines.append(_line(row, rule))
        except RuleError as error:
            problems.append(str(error))
    return "\n".join(lines) + "\n", tuple(problems)


def _line(row: JuliaRow, rule: Rule) -> str:
    order = -1 if row.name == "\\" else 1
    partials = "; ".join("none" if p is None else ast.unparse(ast.fix_missing_locations(p)) for p in row.partials[::order])
    ours = our_rule(row.module, row.name, len(row.parameters))
    if ours is None or (ours.op is None and ours.primal is None):
        raise RuleError(
            f"{rule.source}: {row.module}.{row.name} is no function of ours, so a table cannot say how it is computed"
        )
    computed = ours.op or f"= {ours.name}({', '.join(rule.parameters)})"
    interval = ", ".join(f"{low:g}..{high:g}" for low, high in ours.interval)
    kind = rule.holomorphic + (" singular" if rule.singular else "")
    return f"{ours.module}.{ours.name}({', '.join(rule.parameters)}) | {computed} | {partials} | {kind} | {interval} |"
