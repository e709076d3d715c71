"""The derivative of one function, and the rows of rule tables that become one when it is needed.

Assumes rows as `tables.read_lines` gives them. Guarantees that a row's head is read at once and its formulas when its rule is
asked for: reading all formulas of the package's tables takes as long as tracing and compiling a function. Refuses malformed
rows with `RuleError`, naming file and line.
"""

import re
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from symdiff.errors import RuleError
from symdiff.rulebooks.columns import rule_column
from symdiff.rulebooks.tables import Functions, Template, parse_formula
from symdiff.vocabulary.ops import OPS

_HEAD = re.compile(r"(?P<module>\w+(\.\w+)*)\.(?P<name>\w+)\((?P<parameters>[\w\s,]*)\)(?P<item>\[\d\])?")
ITSELF = "itself"  # in the column of what computes a function: Python runs it
KINDS = ("yes", "no", "real", "half")
Emit = Callable[[str, tuple[Any, ...], Any], Any]


def apply(template: Template, args: tuple[Any, ...], out: Any, emit: Emit) -> Any:
    """Instantiate a template: `emit(op, operands, payload)` makes each step."""
    values = [*args, out]
    for op, refs, payload in template.steps:
        values.append(emit(op, tuple(values[r] for r in refs), payload))
    return values[template.result]


def rule_key(function: Any) -> Any:
    """What tells a function from others: the object itself; a bound method is another object whenever it is looked up."""
    if isinstance(function, types.MethodType):
        return id(function.__func__), id(function.__self__)
    return id(function)


@dataclass(frozen=True, slots=True)
class Rule:
    """The derivative of one function. See the head of `rules/numpy.rules` for the columns.

    `op` is the operation that computes the function, `primal` a template where it takes several. `partials` holds a
    template for each argument, None where there is none; `complex_partials` those for complex arguments, where they need
    other formulas; `conj_partials` those by the conjugates, for functions that are not holomorphic. `singular`: a partial
    may be infinite where the function is finite. `function` is the Python function whose rule it is, and no other's of that
    name; `body` holds the Python bodies of rules declared with `diffrule`. `facts` is the last column, see `columns`.
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
    complex_partials: tuple[Template | None, ...] | None = None
    facts: str = ""

    def partials_on(self, *, complex_: bool) -> tuple[Template | None, ...]:
        """The partials by the arguments, for complex ones or for real ones."""
        return self.complex_partials if complex_ and self.complex_partials else self.partials

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
        on_complex = any(np.iscomplexobj(n) for n in numbers)
        found = [None if t is None else evaluate_formula(t, numbers, out) for t in self.partials_on(complex_=on_complex)]
        if self.conj_partials and not on_complex:
            conjugate = [evaluate_formula(t, numbers, out) for t in self.conj_partials]
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
            return evaluate_formula(self.primal, numbers, None)

    @property
    def is_user_function(self) -> bool:
        """Whether it is the rule of a Python function outside symdiff, which traces must watch for."""
        return self.op is None and self.primal is None and not self.module.startswith("symdiff.")

    @property
    def key(self) -> tuple[str, str, int]:
        return self.module, self.name, len(self.parameters)

    @property
    def place(self) -> Any:
        """Where a rulebook has it: under its function where there is one, else under its key."""
        return self.key if self.function is None else rule_key(self.function)

    def rule(self) -> Self:
        """Itself, as a `Row` gives its rule."""
        return self


def evaluate_formula(template: Template, numbers: tuple[Any, ...], out: Any) -> Any:
    """A formula at numbers (or arrays), computed with NumPy."""

    def emit(op: str, operands: tuple[Any, ...], payload: Any) -> Any:
        return payload if op == "const" else OPS[op].function()(*operands)

    with np.errstate(all="ignore"):
        return apply(template, numbers, out, emit)


def with_source(rule: Rule, source: str) -> Rule:
    """A rule that is told to come from elsewhere."""
    return replace(rule, source=source)


class Row:
    """A row of a table. Its function is computed by the operation `op`, or where that is None by a formula or by itself."""

    def __init__(self, where: str, cells: list[str], formulas: "Formulas") -> None:
        self.where = where
        self.cells = cells
        self.module, self.name, self.parameters = _head(where, cells)
        self.key = self.place = self.module, self.name, len(self.parameters)
        self.is_user_function = cells[1] == ITSELF
        self.op = None if self.is_user_function or cells[1].startswith("=") else cells[1]
        self.facts = cells[6] if len(cells) > 6 else ""
        self._formulas = formulas
        self._earlier = formulas.so_far()
        self._primal: Template | None = None
        self._rule: Rule | None = None
        if cells[1].startswith("="):
            formulas.enter(self)

    def primal(self) -> Template | None:
        """The function's own formula, which may call those of earlier rows."""
        if self._primal is None and self.cells[1].startswith("="):
            self._primal = parse_formula(self.cells[1][1:], self.parameters, self.where, self._earlier)
        return self._primal

    def rule(self) -> Rule:
        """The rule, whose partials may call the formulas of all rows. Raises `RuleError` where it cannot be read."""
        if self._rule is None:
            self._rule = self._read()
        return self._rule

    def _read(self) -> Rule:
        _, computed, formulas, kind, interval, kinks, *facts = self.cells
        column, count = "".join(facts), len(self.parameters)
        rule_column(column, self.parameters, self.where)
        plain, _, conjugate = formulas.partition(";;")
        plain, _, on_complex = plain.partition("::")
        partials, complex_partials = self._partials(plain), self._partials(on_complex) if on_complex else None
        conj = tuple(map(self._formula, conjugate.split(";"))) if conjugate else None
        if self.op is not None and self.op not in OPS:
            known = f"symdiff.vocabulary.ops.OPS, = formula, or {ITSELF}"
            raise RuleError(f"{self.where}: {computed!r} is no operation; write one of {known}")
        words = kind.split()
        if not words or words[0] not in KINDS or set(words[1:]) - {"singular"}:
            raise RuleError(f"{self.where}: kind {kind!r}; {', '.join(KINDS)}, then singular")
        return Rule(
            self.module, self.name, self.parameters, partials, self.op, self.primal(), conj, words[0], "singular" in words,
            _intervals(interval, count, self.where), _kinks(kinks, self.where), source=self.where,
            complex_partials=complex_partials, facts=column,
        )  # fmt: skip

    def _formula(self, text: str) -> Template:
        return parse_formula(text, self.parameters, self.where, self._formulas)

    def _partials(self, text: str) -> tuple[Template | None, ...]:
        found = tuple(None if t.strip() == "none" else self._formula(t) for t in text.split(";"))
        if len(found) != len(self.parameters):
            raise RuleError(f"{self.where}: {len(found)} partials for {len(self.parameters)} arguments")
        return found


class Formulas(Mapping[tuple[str, int], Template]):
    """The formulas that others may call, by name and number of arguments: `known` ones, and those of a table's rows."""

    def __init__(self, known: Functions, rows: list[Row] | None = None, count: int | None = None) -> None:
        self._known = known
        self._rows: list[Row] = [] if rows is None else rows
        self._count = count

    def enter(self, row: Row) -> None:
        """Add a row with a formula."""
        self._rows.append(row)

    def so_far(self) -> "Formulas":
        """The formulas without those of rows that are entered from now on."""
        return Formulas(self._known, self._rows, len(self._rows))

    def __getitem__(self, key: tuple[str, int]) -> Template:
        for row in reversed(self._rows[: self._count]):
            if key == (row.name, len(row.parameters)):
                return row.primal()  # type: ignore[return-value]
        return self._known[key]

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return iter({**self._known, **{(row.name, len(row.parameters)): None for row in self._rows[: self._count]}})

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _head(where: str, cells: list[str]) -> tuple[str, str, tuple[str, ...]]:
    """Module, name and parameters of a row."""
    if len(cells) not in (6, 7):
        raise RuleError(f"{where}: {len(cells)} columns; function | computed by | partials | kind | interval | kinks | facts")
    found = _HEAD.fullmatch(cells[0])
    parameters = tuple(p.strip() for p in found["parameters"].split(",")) if found else ("",)
    if found is None or not all(p.isidentifier() for p in parameters):
        raise RuleError(f"{where}: {cells[0]!r} is not module.name(x, y), or module.name(x)[0] for one of several results")
    return found["module"], found["name"] + (found["item"] or ""), parameters


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
