"""Adds to a generated file the exceptions in which paths of its function end.

Assumes text in Python that defines the function, and conditions over its first arguments. Guarantees that the file raises
the exception of a path, with its type and message, before it computes anything. Refuses other languages, and exceptions that
are not Python's own, with `ExportError`.
"""

import ast
import builtins
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from symdiff.codegen.source import Source
from symdiff.errors import ExportError
from symdiff.pipeline import Options, plan_of, program_of, source_of
from symdiff.symbolic.branches import Branches
from symdiff.symbolic.scalarizing import settled

_TRACED = re.compile(r"<traced (\w+)[^>]*>")


def with_exceptions(source: Source, branches: Branches, axes: Sequence[int | None], where: str) -> Source:
    """The source of a function with the exceptions of its paths; `axes` tell the points of its arguments, () for one point."""
    if source.target not in ("python", "numpy"):
        raise ExportError(
            f"{where}: the function raises on some paths ({branches}), and target {source.target!r} has no exceptions; "
            "targets python and numpy have"
        )
    assert branches.conditions is not None
    name = f"{source.entry}_path"
    count = len(branches.conditions.inputs)
    batch = any(axis is not None for axis in axes)
    program: Any = program_of(settled(branches.conditions, batch or None), Options(exact=True), name)
    if batch:
        padded = (*axes, *(None,) * (count - len(axes)))[:count]
        plan = plan_of(program, "batch", padded, (0,) * len(program.outputs))
    else:
        plan = plan_of(program)
    doc = "Which of the paths that raise the arguments take."
    other = source_of(plan, source.target, name=name, style="export", header="", doc=doc, result="tuple")
    return replace(source, text=_joined(source, other.text, branches, count, where))


def _joined(source: Source, other: str, branches: Branches, count: int, where: str) -> str:
    """The text of both functions, the first of which calls the second."""
    text = source.text
    other = other.replace("_local", "_path_local")
    tree = ast.parse(text)
    lines = text.splitlines()
    function = next(s for s in tree.body if isinstance(s, ast.FunctionDef) and s.name == source.entry)
    arguments = ", ".join(a.arg for a in function.args.args[:count])
    flags = [f"raises{k}" for k in range(len(branches.raised))]
    added = [f"    {', '.join(flags)} = {source.entry}_path({arguments})"]
    for flag, error in zip(flags, branches.raised, strict=True):
        test = f"{flag}.any()" if "np.empty(n" in other else flag
        added += [f"    if {test}:", f"        raise {_spelled(error, where)}"]
    after = function.body[0].end_lineno or function.lineno  # the docstring
    lines[after:after] = added
    known = {ast.unparse(s) for s in tree.body}
    imports, rest = [], []
    for statement in ast.parse(other).body:
        if ast.unparse(statement) not in known:
            target = imports if isinstance(statement, (ast.Import, ast.ImportFrom)) else rest
            target.append(ast.get_source_segment(other, statement) or "")
    first = next(s for s in tree.body if isinstance(s, ast.Import)).lineno - 1 if imports else 0
    lines[first:first] = imports
    return "\n".join(lines).rstrip("\n") + "\n\n\n" + "\n\n\n".join(rest) + "\n"


def _spelled(error: Exception, where: str) -> str:
    """An exception as Python text; where its message has traced values, their names."""
    kind = type(error)
    if getattr(builtins, kind.__name__, None) is not kind:
        raise ExportError(
            f"{where}: a path raises {kind.__module__}.{kind.__name__}; a file can raise Python's own exceptions only"
        )
    parts = [repr(_TRACED.sub(r"\1", a)) if isinstance(a, str) else repr(a) for a in error.args]
    return f"{kind.__name__}({', '.join(parts)})"
