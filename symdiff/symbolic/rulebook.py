"""Rules, and rulebooks that hold them: values that join with `+`.

Assumes rows of rule tables or rules declared in Python. Guarantees a mapping from (module, name, number of arguments) to
`Rule`, found also by operation, and a digest that is equal for equal rules. Refuses malformed tables with `RuleError`.
"""

import functools
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from symdiff.errors import RuleError
from symdiff.ops import OPS
from symdiff.symbolic.tables import Template, parse_formula, read_lines

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
    holomorphic: str = "yes"
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
        out = self.value(*numbers)
        found = []
        for name, template in zip(self.parameters, self.partials, strict=True):
            if template is None:
                raise RuleError(f"{self.source}: {self.name} has no derivative by {name}")
            found.append(_with_numpy(template, numbers, out))
        return tuple(found)

    def value(self, *numbers: Any) -> Any:
        """The function itself at numbers (or arrays), computed with NumPy."""
        with np.errstate(all="ignore"):
            if self.function is not None:
                return self.function(*numbers)
            if self.op is not None:
                return getattr(np, OPS[self.op].numpy)(*numbers)
            if self.primal is None:
                raise RuleError(f"{self.source}: the table does not say how {self.name} is computed")
            return _with_numpy(self.primal, numbers, None)

    @property
    def key(self) -> tuple[str, str, int]:
        return self.module, self.name, len(self.parameters)


def _with_numpy(template: Template, numbers: tuple[Any, ...], out: Any) -> Any:
    def emit(op: str, operands: tuple[Any, ...], payload: Any) -> Any:
        return payload if op == "const" else getattr(np, OPS[op].numpy)(*operands)

    with np.errstate(all="ignore"):
        return apply(template, numbers, out, emit)


class Rulebook(Mapping[tuple[str, str, int], Rule]):
    """A mapping from (module, name, number of arguments) to `Rule`; a value, so `+` makes a new one (the right wins)."""

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        self._rules = {rule.key: rule for rule in rules}
        self._by_op = {rule.op: rule for rule in self._rules.values() if rule.op is not None}
        self._functions = {
            (rule.module, rule.name): rule for rule in self._rules.values() if rule.op is None and rule.primal is None
        }

    def __getitem__(self, key: tuple[str, str, int]) -> Rule:
        return self._rules[key]

    def __iter__(self) -> Iterator[tuple[str, str, int]]:
        return iter(self._rules)

    def __len__(self) -> int:
        return len(self._rules)

    def __add__(self, other: "Rulebook") -> "Rulebook":
        return Rulebook([*self._rules.values(), *other._rules.values()])

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

    def __repr__(self) -> str:
        return f"<Rulebook of {len(self)} rules, {self.digest()}>"


def load_rules(path: Any) -> Rulebook:
    """The rules of a table in symdiff's own format; nothing in the file is executed. Raises `RuleError`."""
    place = Path(path)
    try:
        return Rulebook(_rule(where, cells) for where, cells in read_lines(place))
    except (OSError, UnicodeDecodeError) as error:
        raise RuleError(f"{place}: {error}") from None


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
        book = book + load_rules(table)
    return book


def _rule(where: str, cells: list[str]) -> Rule:
    if len(cells) != 6:
        raise RuleError(f"{where}: {len(cells)} columns; function | computed by | partials | kind | interval | kinks")
    head, computed, formulas, kind, interval, kinks = cells
    name, _, rest = head.removesuffix(")").partition("(")
    module, _, name = name.rpartition(".")
    parameters = tuple(p.strip() for p in rest.split(","))
    if not module or not name or not all(p.isidentifier() for p in parameters):
        raise RuleError(f"{where}: {head!r} is not module.name(x, y)")
    plain, _, conjugate = formulas.partition(";;")
    partials = tuple(None if t.strip() == "none" else parse_formula(t, parameters, where) for t in plain.split(";"))
    if len(partials) != len(parameters):
        raise RuleError(f"{where}: {len(partials)} partials for {len(parameters)} arguments")
    conj = tuple(parse_formula(t, parameters, where) for t in conjugate.split(";")) if conjugate else None
    op = None if computed.startswith("=") else computed
    if op is not None and op not in OPS:
        raise RuleError(f"{where}: {op!r} is no operation; write one of symdiff.ops.OPS, or = formula")
    words = kind.split()
    if not words or words[0] not in ("yes", "no", "real") or set(words[1:]) - {"singular"}:
        raise RuleError(f"{where}: kind {kind!r}; yes, no or real, then singular")
    return Rule(
        module, name, parameters, partials, op,
        None if op is not None else parse_formula(computed[1:], parameters, where),
        conj, words[0], "singular" in words, _intervals(interval, len(parameters), where), _kinks(kinks, where), source=where,
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
