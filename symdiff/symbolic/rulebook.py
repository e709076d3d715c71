"""Rulebooks, which hold rules: values that join with `+`.

Assumes rule tables or rules declared in Python. Guarantees a mapping from (module, name, number of arguments) to
`Rule`, found also by operation, and a digest that is equal for equal rules. Refuses malformed tables with `RuleError`.
"""

import functools
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from symdiff.errors import RuleError
from symdiff.symbolic.rule import Formulas, Row, Rule
from symdiff.symbolic.tables import Functions, read_lines


class Rulebook(Mapping[tuple[str, str, int], Rule]):
    """A mapping from (module, name, number of arguments) to `Rule`; a value, so `+` makes a new one (the right wins).

    `problems` are the lines that could not be read, each with file, line and reason. Rows become rules when looked up.
    """

    def __init__(self, rules: Iterable[Rule | Row] = (), problems: Iterable[str] = ()) -> None:
        self.problems = tuple(problems)
        self._rules = {rule.key: rule for rule in rules}
        self._by_op = {rule.op: rule for rule in self._rules.values() if rule.op is not None}
        self._functions = {(rule.module, rule.name): rule for rule in self._rules.values() if rule.is_user_function}

    def __getitem__(self, key: tuple[str, str, int]) -> Rule:
        return self._rules[key].rule()

    def __iter__(self) -> Iterator[tuple[str, str, int]]:
        return iter(self._rules)

    def __len__(self) -> int:
        return len(self._rules)

    def __add__(self, other: "Rulebook") -> "Rulebook":
        return Rulebook([*self._rules.values(), *other._rules.values()], self.problems + other.problems)

    def lookup(self, module: str, name: str, arity: int) -> Rule | None:
        """The rule of a function, None where there is none."""
        found = self._rules.get((module, name, arity))
        return None if found is None else found.rule()

    def for_op(self, op: str) -> Rule | None:
        """The rule of an operation of `ops.OPS`."""
        found = self._by_op.get(op)
        return None if found is None else found.rule()

    def functions(self) -> dict[tuple[str, str], Rule]:
        """The rules of Python functions, by module and name."""
        return self._functions

    def digest(self) -> str:
        """The first eight hex digits of the SHA-256 of the rules' canonical text."""
        lines = sorted(
            f"{r.key} {r.op} {r.primal} {r.partials} {r.conj_partials} {r.holomorphic} {r.singular}{r.source if r.body else ''}"
            for r in self.values()
        )
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:8]

    def used_in(self, bindings: Iterable[Any]) -> "Rulebook":
        """The rules of the operations and calls in a graph's bindings."""
        found = {id(rule): rule for b in bindings if (rule := b.params.rule if b.op == "call" else self.for_op(b.op))}
        return Rulebook(found.values())

    def __repr__(self) -> str:
        return f"<Rulebook of {len(self)} rules, {self.digest()}>"


def read_table(path: Path, functions: Functions | None = None) -> Rulebook:
    """The rules of a table in symdiff's own format, with its problems. Raises `RuleError` where it is no text.

    `functions` are formulas by name and number of arguments that the table's own formulas may call.
    """
    rows, problems = table_rows(path, functions or {})
    rules = []
    for row in rows:
        try:
            rules.append(row.rule())
        except RuleError as error:
            problems.append(str(error))
    return Rulebook(rules, dict.fromkeys(problems))


def table_rows(path: Path, functions: Functions) -> tuple[list[Row], list[str]]:
    """The rows of a table, and what is wrong with the heads of others."""
    try:
        lines = read_lines(path)
    except (OSError, UnicodeDecodeError) as error:
        raise RuleError(f"{path}: {error}") from None
    rows, problems = [], []
    formulas = Formulas(functions)
    for where, cells in lines:
        try:
            rows.append(Row(where, cells, formulas))
        except RuleError as error:
            problems.append(str(error))
    return rows, problems


def table_folder() -> Path:
    """Where the package's tables are: `symdiff/rules` in an installed wheel, `rules` beside the package in a checkout."""
    package = Path(__file__).parents[1]
    return package / "rules" if (package / "rules").is_dir() else package.parent / "rules"


@functools.cache
def default_rules() -> Rulebook:
    """The rulebook of the package's own tables."""
    tables = sorted(table_folder().glob("*.rules"))
    if not tables:
        raise RuleError(f"no rule tables in {table_folder()}; the installation is broken")
    read = [table_rows(table, {}) for table in tables]
    problems = [problem for _, found in read for problem in found]
    if problems:
        raise RuleError("\n".join(problems))
    return Rulebook(row for rows, _ in read for row in rows)


REASONS = ("integer-valued", "Boolean", "piecewise constant", "no closed form known")


@functools.cache
def without_derivative() -> Mapping[tuple[str, str], str]:
    """The elementwise functions of NumPy and SciPy that have no derivative: (module, name) to the reason."""
    found = {}
    for where, cells in read_lines(table_folder() / "without.table"):
        module, _, name = cells[0].rpartition(".")
        if len(cells) != 2 or cells[1].partition(":")[0] not in REASONS:
            raise RuleError(f"{where}: function | reason, one of {', '.join(REASONS)}")
        found[module, name] = cells[1]
    return found
