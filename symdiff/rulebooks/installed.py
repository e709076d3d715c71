"""The rule tables of installed packages: those that name a folder of tables in the entry points `symdiff.rules`.

Assumes entry points whose value is a package, or a folder in one, as `mypackage.rules`, that holds `*.rules` files. Guarantees
that no code of the package runs, and that each rule's `source` names its package. A function with a rule from two packages has
none, and one of symdiff's own keeps that: both are told once, by a `RuleWarning` with both origins, as lines are that cannot
be read.
"""

import functools
import importlib.util
import warnings
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from symdiff.errors import RuleError, RuleWarning
from symdiff.rulebooks.book import Rulebook, default_rules, read_table
from symdiff.rulebooks.importing import formulas_by_name
from symdiff.rulebooks.rule import Rule, with_source

GROUP = "symdiff.rules"


@functools.cache
def installed_rules() -> Rulebook:
    """The rules that installed packages have for their functions, with what is wrong among the `problems`."""
    found: dict[tuple[str, str, int], list[Rule]] = {}
    problems: list[str] = []
    for point in sorted(entry_points(group=GROUP), key=lambda p: (p.name, p.value)):
        try:
            rules = _rules_of(point, problems)
        except RuleError as error:
            problems.append(str(error))
            continue
        for rule in rules:
            found.setdefault(rule.key, []).append(rule)
    own, kept = default_rules(), []
    for (module, name, arity), rules in found.items():
        theirs = " and ".join(rule.source for rule in rules)
        ours = own.lookup(module, name, arity)
        if ours is not None:
            problems.append(f"{module}.{name} has a rule of symdiff ({ours.source}), which counts, and one of {theirs}")
        elif len(rules) > 1:
            problems.append(f"{module}.{name} has rules of {theirs}; none of them counts, pass one of the tables as rules=")
        else:
            kept += rules
    if problems:
        warnings.warn("\n".join(problems), RuleWarning, stacklevel=2)
    return Rulebook(kept, problems)


def _rules_of(point: EntryPoint, problems: list[str]) -> list[Rule]:
    """The rules of all tables in the folder that an entry point names."""
    origin = point.name if point.dist is None else f"{point.dist.name} {point.dist.version}"
    top, *rest = point.module.split(".")
    spec = importlib.util.find_spec(top)
    folders = [Path(place, *rest) for place in (spec.submodule_search_locations or () if spec is not None else ())]
    tables = [table for folder in folders for table in sorted(folder.glob("*.rules"))]
    if not tables:
        raise RuleError(f"{origin}: the entry point {GROUP} names {point.value}, where there are no *.rules files")
    found: list[Rule] = []
    for table in tables:
        book = read_table(table, formulas_by_name())
        problems += [f"{origin}: {problem}" for problem in book.problems]
        found += [with_source(rule, f"{origin}, {rule.source}") for rule in book.values()]
    return found
