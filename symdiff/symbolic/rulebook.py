"""Rules, and rulebooks that hold them: values that join with `+`.

Assumes rows of rule tables or rules declared in Python. Guarantees a mapping from (module, name, number of arguments) to
`Rule`, found also by operation, and a digest that is equal for equal rules. Refuses malformed tables with `RuleError`.
"""

import functools
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from symdiff.errors import RuleError
from symdiff.ops import OPS
from symdiff.symbolic.tables import Functions, Template, parse_formula, read_lines

_HEAD = re.compile(r"(?P<module>\w+(\.\w+)*)\.(?P<name>\w+)\((?P<parameters>[\w\s,]*)\)(?P<item>\[\d\])?")
KINDS = ("yes", "no", "real", "half")
Emit = Callable[[str, tuple[Any, ...], Any], Any]


def apply(template: Template, args: tuple[Any, ...], out: Any, emit: Emit) -> Any:
    """Instantiate a template: `emit(op, operands, payload)` makes each step."""
    values = [*args, out]
    for op, refs, payload in template.steps:
        values.append(emit(op, tuple(values[r] for r in refs), payload))
    return values[template.result]


@dataclass(frozen=True, slots=True)
class Rule:
    """The derivative of one function. See the head of `rules/numpy.rules` for the columns.

    `op` is the operation that computes the function, `primal` a template where it takes several. `partials` holds a
    template for each argument, None where there is none; `conj_partials` those by the conjugates, for functions that
    are not holomorphic. `singular`: a partial may be infinite where the function is finite. `body` holds the Python
    bodies of rules declared with `diffrule`.
    """

    module: str
    name: str
    parameters: tuple[str, ...]
    partials: tuple[Template | None, ...]
    op: str | None = None
    primal: Template | None = None
    conj_partials: tuple[Template, ...] | None = None
    holomorphic: str = "yes"  # "half": for arguments with a positive real part
    singular: bool = False
    interval: tuple[tuple[float, float], ...] = ()
    kinks: tuple[tuple[tuple[float, ...], tuple[float, ...]], ...] = ()
    function: Any = None
    body: Any = None
    source: str = ""

    def evaluate(self, *numbers: Any) -> tuple[Any, ...]:
        """The partials at numbers (or arrays), one for each argument, computed with NumPy."""
        if len(numbers) != len(self.parameters):
            raise RuleError(f"{self.source}: {self.name} takes {len(self.parameters)} arguments, {len(numbers)} given")
        for name, template in zip(self.parameters, self.partials, strict=True):
            if template is None:
                raise RuleError(f"{self.source}: {self.name} has no derivative by {name}")
        return self.evaluate_known(*numbers)

    def evaluate_known(self, *numbers: Any) -> tuple[Any, ...]:
        """The partials at numbers (or arrays), None where there is none; by a real number alone, not by its conjugate."""
        out = self.value(*numbers)
        found = [None if t is None else _with_numpy(t, numbers, out) for t in self.partials]
        if self.conj_partials and not any(np.iscomplexobj(n) for n in numbers):
            conjugate = [_with_numpy(t, numbers, out) for t in self.conj_partials]
            found = [np.real(f + c) for f, c in zip(found, conjugate, strict=True)]
        return tuple(found)

    def value(self, *numbers: Any) -> Any:
        """The function itself at numbers (or arrays), computed with NumPy."""
        with np.errstate(all="ignore"):
            if self.function is not None:
                return self.function(*numbers)
            if self.op is not None:
                return OPS[self.op].function()(*numbers)
            if self.primal is None:
                raise RuleError(f"{self.source}: the table does not say how {self.name} is computed")
            return _with_numpy(self.primal, numbers, None)

    @property
    def is_user_function(self) -> bool:
        """Whether it is the rule of a Python function outside symdiff, which traces must watch for."""
        return self.op is None and self.primal is None and not self.module.startswith("symdiff.")

    @property
    def key(self) -> tuple[str, str, int]:
        return self.module, self.name, len(self.parameters)


def _with_numpy(template: Template, numbers: tuple[Any, ...], out: Any) -> Any:
    def emit(op: str, operands: tuple[Any, ...], payload: Any) -> Any:
        return payload if op == "const" else OPS[op].function()(*operands)

    with np.errstate(all="ignore"):
        return apply(template, numbers, out, emit)


class Rulebook(Mapping[tuple[str, str, int], Rule]):
    """A mapping from (module, name, number of arguments) to `Rule`; a value, so `+` makes a new one (the right wins).

    `problems` are the lines that could not be read, each with file, line and reason.
    """

    def __init__(self, rules: Iterable[Rule] = (), problems: Iterable[str] = ()) -> None:
        self.problems = tuple(problems)
        self._rules = {rule.key: rule for rule in rules}
        self._by_op = {rule.op: rule for rule in self._rules.values() if rule.op is not None}
        self._functions = {(rule.module, rule.name): rule for rule in self._rules.values() if rule.is_user_function}

    def __getitem__(self, key: tuple[str, str, int]) -> Rule:
        return self._rules[key]

    def __iter__(self) -> Iterator[tuple[str, str, int]]:
        return iter(self._rules)

    def __len__(self) -> int:
        return len(self._rules)

    def __add__(self, other: "Rulebook") -> "Rulebook":
        return Rulebook([*self._rules.values(), *other._rules.values()], self.problems + other.problems)

    def lookup(self, module: str, name: str, arity: int) -> Rule | None:
        """The rule of a function, None where there is none."""
        return self._rules.get((module, name, arity))

    def for_op(self, op: str) -> Rule | None:
        """The rule of an operation of `ops.OPS`."""
        return self._by_op.get(op)

    def functions(self) -> dict[tuple[str, str], Rule]:
        """The rules of Python functions, by module and name."""
        return self._functions

    def digest(self) -> str:
        """The first eight hex digits of the SHA-256 of the rules' canonical text."""
        lines = sorted(
            f"{r.key} {r.op} {r.primal} {r.partials} {r.conj_partials} {r.holomorphic} {r.singular}{r.source if r.body else ''}"
            for r in self._rules.values()
        )
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:8]

    def used_in(self, bindings: Iterable[Any]) -> "Rulebook":
        """The rules of the operations and calls in a graph's bindings."""
        found = {id(rule): rule for b in bindings if (rule := b.params.rule if b.op == "call" else self._by_op.get(b.op))}
        return Rulebook(found.values())

    def __repr__(self) -> str:
        return f"<Rulebook of {len(self)} rules, {self.digest()}>"


def read_table(path: Path, functions: Functions | None = None) -> Rulebook:
    """The rules of a table in symdiff's own format, with its problems. Raises `RuleError` where it is no text.

    `functions` are formulas by name and number of arguments that the table's own formulas may call.
    """
    try:
        lines = read_lines(path)
    except (OSError, UnicodeDecodeError) as error:
        raise RuleError(f"{path}: {error}") from None
    rules, problems = table_rules(lines, functions or {})
    return Rulebook(rules, problems)


def table_rules(lines: list[tuple[str, list[str]]], known: Functions) -> tuple[list[Rule], list[str]]:
    """The rules of a table's rows, and what is wrong with the others.

    Formulas may call the functions that the table defines by formulas.
    """
    functions = dict(known)
    heads = []
    problems = []
    for where, cells in lines:
        try:
            heads.append((where, cells, _head(where, cells, functions)))
        except RuleError as error:
            problems.append(str(error))
    rules = []
    for where, cells, head in heads:
        try:
            rules.append(_rule(where, cells, *head, functions))
        except RuleError as error:
            problems.append(str(error))
    return rules, problems


def table_folder() -> Path:
    """Where the package's tables are: `symdiff/rules` in an installed wheel, `rules` beside the package in a checkout."""
    installed = Path(str(resources.files("symdiff"))) / "rules"
    return installed if installed.is_dir() else installed.parents[1] / "rules"


@functools.cache
def default_rules() -> Rulebook:
    """The rulebook of the package's own tables."""
    tables = sorted(table_folder().glob("*.rules"))
    if not tables:
        raise RuleError(f"no rule tables in {table_folder()}; the installation is broken")
    book = Rulebook()
    for table in tables:
        book = book + read_table(table)
    if book.problems:
        raise RuleError("\n".join(book.problems))
    return book


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


def _head(
    where: str, cells: list[str], functions: dict[tuple[str, int], Template]
) -> tuple[str, str, tuple[str, ...], Template | None]:
    """Module, name, parameters and formula of a row; the formula is entered into `functions`."""
    if len(cells) != 6:
        raise RuleError(f"{where}: {len(cells)} columns; function | computed by | partials | kind | interval | kinks")
    head, computed = cells[:2]
    found = _HEAD.fullmatch(head)
    parameters = tuple(p.strip() for p in found["parameters"].split(",")) if found else ("",)
    if found is None or not all(p.isidentifier() for p in parameters):
        raise RuleError(f"{where}: {head!r} is not module.name(x, y), or module.name(x)[0] for one of several results")
    module, name = found["module"], found["name"] + (found["item"] or "")
    if not computed.startswith("="):
        return module, name, parameters, None
    primal = parse_formula(computed[1:], parameters, where, functions)
    functions[name, len(parameters)] = primal
    return module, name, parameters, primal


def _rule(
    where: str,
    cells: list[str],
    module: str,
    name: str,
    parameters: tuple[str, ...],
    primal: Template | None,
    functions: Functions,
) -> Rule:
    _, computed, formulas, kind, interval, kinks = cells
    plain, _, conjugate = formulas.partition(";;")
    partials = tuple(None if t.strip() == "none" else parse_formula(t, parameters, where, functions) for t in plain.split(";"))
    if len(partials) != len(parameters):
        raise RuleError(f"{where}: {len(partials)} partials for {len(parameters)} arguments")
    conj = tuple(parse_formula(t, parameters, where, functions) for t in conjugate.split(";")) if conjugate else None
    op = None if primal is not None else computed
    if op is not None and op not in OPS:
        raise RuleError(f"{where}: {op!r} is no operation; write one of symdiff.ops.OPS, or = formula")
    words = kind.split()
    if not words or words[0] not in KINDS or set(words[1:]) - {"singular"}:
        raise RuleError(f"{where}: kind {kind!r}; {', '.join(KINDS)}, then singular")
    return Rule(
        module, name, parameters, partials, op, primal, conj, words[0], "singular" in words,
        _intervals(interval, len(parameters), where), _kinks(kinks, where), source=where,
    )  # fmt: skip


def _intervals(text: str, count: int, where: str) -> tuple[tuple[float, float], ...]:
    try:
        pairs = tuple((float(low), float(high)) for low, high in (part.split("..") for part in text.split(",")))
    except ValueError:
        raise RuleError(f"{where}: interval {text!r}; write low..high, one for each argument") from None
    if len(pairs) != count:
        raise RuleError(f"{where}: {len(pairs)} intervals for {count} arguments")
    return pairs


def _kinks(text: str, where: str) -> tuple[tuple[tuple[float, ...], tuple[float, ...]], ...]:
    if not text:
        return ()
    try:
        found = []
        for part in text.split(";"):
            point, values = part.split(":")
            found.append((tuple(map(float, point.split(","))), tuple(map(float, values.split(",")))))
        return tuple(found)
    except ValueError:
        raise RuleError(f"{where}: kinks {text!r}; write point: partials, as 0: 0") from None
