"""What the user's own source says of a line: the variable that it assigns, what a function returns, where a loop stands.

Assumes origins of bindings that are `Line`s. Guarantees no name rather than a wrong one: a file that is not found says nothing.
"""

import ast
import linecache
from collections.abc import Container
from functools import lru_cache
from typing import NamedTuple

from symdiff.ir.graph import Graph
from symdiff.ir.node import Atom, Node
from symdiff.rulebooks.tables import FORMULA_OPERATORS
from symdiff.vocabulary.libraries import name_unless_library


class Assigned(NamedTuple):
    """What a statement assigns: the variables, the operation that gives each ("" where it is not known), its first line, and
    whether it stands in a loop and has one operation once only, of which each is another round."""

    names: tuple[str, ...]
    operations: tuple[str, ...]
    line: int
    is_single: bool


class Lines(NamedTuple):
    """What a file says, by line: assigned variables, returned names of functions, where a `while` begins; lines in loops."""

    assigned: dict[int, Assigned]
    returned: dict[int, tuple[str, ...]]
    loops: dict[int, int]
    rounds: set[int]


_OPERATIONS = FORMULA_OPERATORS | {ast.USub: "neg"}
NOTHING = Lines({}, {}, {}, set())


class Sources:
    """The files that origins name, each looked for once."""

    def __init__(self) -> None:
        self._files: dict[str, Lines] = {}

    def _at(self, origin: str) -> tuple[Lines, int]:
        """What the file of an origin says, and its line."""
        path, line = getattr(origin, "path", ""), origin.rpartition(":")[2]
        if path not in self._files:
            self._files[path] = _lines_of_text("".join(linecache.getlines(path)) if name_unless_library(path) else "")
        return (self._files[path], int(line)) if line.isdigit() else (NOTHING, 0)

    def assigned_variables(self, origin: str) -> Assigned | None:
        """What the statement at an origin assigns, None for one that assigns no variables."""
        lines, line = self._at(origin)
        return lines.assigned.get(line)

    def returned_names(self, origin: str) -> tuple[str, ...]:
        """The variables that the function defined at an origin returns, "" for what is none."""
        lines, line = self._at(origin)
        return lines.returned.get(line, ())

    def loop_line(self, origin: str) -> int | None:
        """The line of the innermost `while` whose condition, or whose body, stands at an origin."""
        lines, line = self._at(origin)
        return lines.loops.get(line)

    def is_in_loop(self, origin: str) -> bool:
        """Whether a `for` or a `while` stands around an origin."""
        lines, line = self._at(origin)
        return line in lines.rounds


@lru_cache(64)
def _lines_of_text(text: str) -> Lines:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return NOTHING
    found = Lines({}, {}, {}, set())
    for node in ast.walk(tree):
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            parts = _pairs(targets[0], node.value) if len(targets) == 1 else []
            if parts:
                names, operations = zip(*parts, strict=True)
                is_single = node.lineno in found.rounds and _is_single(operations, node.value)
                others = {line for inner in ast.walk(node.value) if isinstance(inner, ast.Lambda) for line in _lines_at(inner)}
                for line in (k for k in _lines_at(node) if k not in others):  # what stands in a lambda is not assigned
                    found.assigned[line] = Assigned(names, operations, node.lineno, is_single)
        elif isinstance(node, (ast.FunctionDef, ast.Lambda)):
            for line in (node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))):
                found.returned[line] = _returned(node)
        elif isinstance(node, (ast.For, ast.While)):
            found.rounds.update(_lines_at(node))
            for line in _lines_at(node) if isinstance(node, ast.While) else ():
                found.loops[line] = max(found.loops.get(line, 0), node.lineno)
    return found


def _lines_at(node: ast.stmt | ast.expr) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _pairs(target: ast.expr, value: ast.expr) -> list[tuple[str, str]]:
    """The variables of an assignment with the operations of their values; none where not all are plain variables."""
    targets = target.elts if isinstance(target, ast.Tuple) else [target]
    values = value.elts if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) else [value]
    if len(targets) != len(values) or not all(isinstance(t, ast.Name) for t in targets):
        return []
    return [(t.id, _operation(v)) for t, v in zip(targets, values, strict=True)]


def _operation(value: ast.expr) -> str:
    """The operation that gives a value: of an operator, or the name of a function that is called."""
    if isinstance(value, ast.Call):
        return getattr(value.func, "attr", getattr(value.func, "id", ""))  # type: ignore[no-any-return]
    return _OPERATIONS.get(type(getattr(value, "op", None)), "")


def _is_single(operations: tuple[str, ...], value: ast.expr) -> bool:
    inside = [_operation(node) for node in ast.walk(value) if isinstance(node, ast.expr)]
    return len(operations) == 1 and inside.count(operations[0]) == 1


def _returned(function: ast.FunctionDef | ast.Lambda) -> tuple[str, ...]:
    """The names of what every `return` of a function returns."""
    if isinstance(function, ast.Lambda):
        return ()
    found = set()
    stack: list[ast.AST] = list(function.body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Return) and node.value is not None:
            parts = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
            found.add(tuple(p.id if isinstance(p, ast.Name) else "" for p in parts))
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            stack += ast.iter_child_nodes(node)
    return found.pop() if len(found) == 1 else ()


def assigned_values(
    graph: Graph, sources: Sources, known: Container[Atom]
) -> dict[tuple[str, Assigned], dict[str, list[Node]]]:
    """The bindings that are the values of statements, by these and by their variables; of bindings that are `known`."""
    uses: dict[Atom, list[Node]] = {}
    for b in graph.bindings:
        for o in b.operands:
            uses.setdefault(o, []).append(b)
    found: dict[tuple[str, Assigned], list[Node]] = {}
    for b in graph.bindings:
        assigned = sources.assigned_variables(b.origin) if b in known else None
        if assigned is not None:
            users = uses.get(b, [])
            within = len(users) == 1 and sources.assigned_variables(users[0].origin) == assigned
            if not within or (assigned.is_single and b.op in assigned.operations):
                found.setdefault((getattr(b.origin, "path", ""), assigned), []).append(b)
    return {key: _by_variable(key[1], bindings) for key, bindings in found.items()}


def _by_variable(assigned: Assigned, bindings: list[Node]) -> dict[str, list[Node]]:
    """The values of a statement by its variables; none where it cannot be told which are whose."""
    names, operations = assigned.names, assigned.operations
    if len(names) == 1:
        return {names[0]: bindings}
    values: dict[str, list[Node]] = {name: [] for name in names}
    told = len(set(operations)) == len(names) and "" not in operations
    if told and all(b.op in operations for b in bindings):
        for b in bindings:
            values[names[operations.index(b.op)]].append(b)
        return values
    ops = [(operations[k % len(names)], b.op) for k, b in enumerate(bindings)]
    if len(bindings) % len(names) or any(wanted in _OPERATIONS.values() and wanted != op for wanted, op in ops):
        return {}
    return {name: bindings[k :: len(names)] for k, name in enumerate(names)}
