"""Rulebooks, which hold rules: values that join with `+`.

Assumes rule tables or rules declared in Python. Guarantees a mapping from (module, name, number of arguments) to
`Rule`, found also by operation, and a digest that is equal for equal rules. The rule of a function of the user's stands under
the function itself: another one of the same name has none. Refuses malformed tables with `RuleError`.
"""

import copy
import fnmatch
import functools
import hashlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from symdiff.errors import RuleError
from symdiff.rulebooks.columns import Column, rule_column
from symdiff.rulebooks.rule import Formulas, Row, Rule, rule_key
from symdiff.rulebooks.tables import Functions, read_lines
from symdiff.vocabulary.choices import CHOICES, Choice


class Rulebook(Mapping[Any, Rule]):
    """A mapping from (module, name, number of arguments) to `Rule`; a value, so `+` makes a new one (the right wins).

    The key of a rule of a Python function is the function. `problems` are the lines that could not be read,
    each with file, line and reason. Rows become rules when looked up.
    """

    def __init__(self, rules: Iterable[Rule | Row] = (), problems: Iterable[str] = ()) -> None:
        self.problems = tuple(problems)
        self._rules: dict[Any, Rule | Row] = {rule.place: rule for rule in rules}
        self._by_op = {rule.op: rule for rule in self._rules.values() if rule.op is not None}
        listed = [rule.rule() for rule in self._rules.values() if rule.is_user_function]
        self._named = {(rule.module, rule.name): rule for rule in listed if rule.function is None}
        self.names_functions = bool(listed)

    def __getitem__(self, key: Any) -> Rule:
        return self._rules[rule_key(key) if callable(key) else key].rule()

    def __iter__(self) -> Iterator[Any]:
        return (rule.key if rule.place == rule.key else rule.rule().function for rule in self._rules.values())

    def __reduce__(self) -> Any:
        return Rulebook, (tuple(self._rules.values()), self.problems)

    def __len__(self) -> int:
        return len(self._rules)

    def __add__(self, other: "Rulebook") -> "Rulebook":
        return Rulebook([*self._rules.values(), *other._rules.values()], self.problems + other.problems)

    def without(self, rule: Rule) -> "Rulebook":
        """The other rules: a function's own call in the body of it is no call of it."""
        made = copy.copy(self)
        made._rules = {place: other for place, other in self._rules.items() if other is not rule}
        return made

    def lookup(self, module: str, name: str, arity: int) -> Rule | None:
        """The rule of a table for a function, None where there is none."""
        found = self._rules.get((module, name, arity))
        return None if found is None else found.rule()

    def for_op(self, op: str) -> Rule | None:
        """The rule of an operation of `ops.OPS`."""
        found = self._by_op.get(op)
        return None if found is None else found.rule()

    def of(self, function: Any) -> Rule | None:
        """The rule of a Python function: its own, or that of a name under which its module has this very function."""
        found = self._rules.get(rule_key(function))
        if found is not None:
            return found.rule()
        module, name = getattr(function, "__module__", None), getattr(function, "__name__", None)
        if not self._named or not isinstance(module, str) or not isinstance(name, str):
            return None
        return self._named.get((module, name)) if getattr(sys.modules.get(module), name, None) is function else None

    def digest(self) -> str:
        """The first eight hex digits of the SHA-256 of the rules' canonical text."""
        lines = sorted(
            f"{r.key} {r.op} {r.primal} {r.partials} {r.conj_partials} {r.holomorphic} {r.singular}"
            f"{r.complex_partials or ''}{r.source if r.body else ''}"
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


CHOICES["rules"] = Choice(
    "a Rulebook, as sd.load_rules gives it, and None are possible", lambda value: value is None or isinstance(value, Rulebook)
)


@functools.cache
def default_rules() -> Rulebook:
    """The rulebook of the package's own tables."""
    tables = sorted(table_folder().glob("*.rules"))
    if not tables:
        raise RuleError(f"no rule tables in {table_folder()}; the installation is broken")
    auxiliary = Formulas({})  # those of earlier tables whose names begin with an underscore
    read = []
    for table in tables:
        rows, found = table_rows(table, auxiliary.so_far())
        read.append((rows, found))
        for row in rows:
            if row.op is None and row.name.startswith("_"):
                auxiliary.enter(row)
    problems = [problem for _, found in read for problem in found]
    if problems:
        raise RuleError("\n".join(problems))
    return Rulebook(row for rows, _ in read for row in rows)


@functools.cache
def operation_facts() -> Mapping[str, Column]:
    """The last column of the package's tables, by operation."""
    rows = default_rules()._rules.values()
    return {row.op: rule_column(row.facts, row.parameters, row.where) for row in rows if row.op is not None and row.facts}


OUTSIDE = "clock elsewhere frames file import state printing".split()
REASONS = ("integer-valued", "Boolean", "piecewise constant", "no closed form known")


def table_pairs(table: str, columns: str, words: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    """The rows of a table of two columns; the second begins with one of some words, where there are such."""
    for where, cells in read_lines(table_folder() / f"{table}.table"):
        if len(cells) != 2 or (words and cells[1].partition(":")[0] not in words):
            raise RuleError(f"{where}: {columns}{', one of ' if words else ''}{', '.join(words)}")
        yield cells[0], cells[1]


@functools.cache
def functions_without_rule() -> Mapping[tuple[str, str], str]:
    """The elementwise functions of NumPy and SciPy that have no derivative: (module, name) to the reason."""
    rows = table_pairs("without", "function | reason", REASONS)
    return {function.rpartition(".")[::2]: reason for function, reason in rows}


@functools.cache
def functions_instead() -> Mapping[str, str]:
    """What works in place of the functions, methods and keywords that a trace refuses, by name."""
    rows = ((*f.partition(": ")[::2], text) for f, text in table_pairs("instead", "function | what works in its place"))
    return {f"{module}.{name}": text for module, names, text in rows for name in names.split()}


@functools.cache
def functions_outside() -> Mapping[str, list[tuple[str, str]]]:
    """What a trace does with functions that find something outside their arguments: names or patterns and words, by module."""
    found: dict[str, list[tuple[str, str]]] = {}
    for functions, word in table_pairs("outside", "functions | word", OUTSIDE):
        modules, _, names = functions.partition(": ")
        for module in modules.split():
            found.setdefault(module, []).extend((name, word) for name in names.split())
    return found


@functools.lru_cache(maxsize=4096)
def outside_word(module: str, name: str) -> str:
    """What a trace does with a function for what it finds outside, a word of `outside.table`; empty for most."""
    rows = functions_outside().get(module.partition(".")[0].lstrip("_"), ())
    return next((word for pattern, word in rows if fnmatch.fnmatchcase(name, pattern)), "")


@functools.cache
def distributions_followed() -> Mapping[str, frozenset[str]]:
    """The methods of SciPy's distributions whose formulas are followed, by the distribution's name."""
    return {name: frozenset(methods.split()) for name, methods in table_pairs("distributions", "distribution | methods")}
