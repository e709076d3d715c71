"""Loops that a `return`, `raise` or `assert` leaves, or that have an `else`, as loops that only `break` leaves; functions that
every round makes anew are made before the loop.

Assumes the tree of one function. Guarantees the same run of it: what is returned is computed behind the loop, where all names
are as they were when it was left; a function sees the variables around it as they are when it is called, wherever it was made.
What is raised is raised behind the loop, likewise. Leaves these in a `try` or a `with` of a round as they are.
"""

import ast
from collections.abc import Iterator
from typing import Any

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_APART = (*_FUNCTIONS, ast.Try, ast.TryStar, ast.With, ast.AsyncWith, ast.Match)
_LOOPS = (ast.For, ast.While)


def leave_by_break(function: Any) -> None:
    """Rewrite the loops of a function in place."""
    if isinstance(function, ast.FunctionDef):
        _Leaving(function).body(function)


class _Leaving:
    """Loops are rewritten from the inside out; flags tell how they were left."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self.flags = 0

    def body(self, node: Any) -> None:
        """Rewrite the loops among the statements of a node."""
        for field in ("body", "orelse"):
            statements = getattr(node, field, None)
            if isinstance(statements, list):
                setattr(node, field, [made for statement in statements for made in self.statement(statement)])

    def statement(self, node: Any) -> list[Any]:
        """A statement as those that do the same."""
        if isinstance(node, ast.FunctionDef):
            leave_by_break(node)
        elif not isinstance(node, (ast.AsyncFunctionDef, ast.ClassDef)):
            self.body(node)
        if not isinstance(node, _LOOPS):
            return [node]
        if isinstance(node, ast.While) and not node.orelse and any(isinstance(p, ast.NamedExpr) for p in ast.walk(node.test)):
            ends = ast.If(ast.UnaryOp(ast.Not(), node.test), [ast.Break()], [])
            node.body, node.test = [ends, *node.body], ast.Constant(True)
            for part in (ends, ends.test, *ends.body, node.test):
                ast.copy_location(part, node)
        before = [s for s in node.body if (name := _function_name(s)) and _knows_alone(node, name, self.function)]
        node.body = [s for s in node.body if s not in before] or [ast.copy_location(ast.Pass(), node)]
        behind: list[Any] = []
        returns = _own(node, ast.Return)
        raises = [end for end in _own(node, (ast.Raise, ast.Assert)) if getattr(end, "exc", end) is not None]
        endless = isinstance(node, ast.While) and isinstance(node.test, ast.Constant) and bool(node.test.value)
        sure = endless and len(returns) == 1 and not _own(node, ast.Break) and not node.orelse
        for end in returns:
            flag = self.flag(before, node, False)
            _replace(node, end, [*([] if sure else [_set(flag, True, end)]), ast.copy_location(ast.Break(), end)])
            left = ast.Return(end.value)
            behind.append(left if sure else ast.If(ast.Name(flag, ast.Load()), [left], []))
            for part in (behind[-1], getattr(behind[-1], "test", left), left):
                ast.copy_location(part, end)
        for end in raises:
            behind.append(self.raised(before, node, end))
        if node.orelse:
            rest, node.orelse = node.orelse, []
            own = [end for end in _own(node, ast.Break) if not any(end in _breaks(e, node) for e in returns)]
            if own:
                flag = self.flag(before, node, True)
                for end in own:
                    _replace(node, end, [_set(flag, False, end), end])
                test = ast.copy_location(ast.Name(flag, ast.Load()), node)
                rest = [ast.copy_location(ast.If(test, rest, []), node)]
            behind += rest
        return [*before, node, *behind]

    def raised(self, before: list[Any], node: Any, end: Any) -> Any:
        """What raises behind a loop that is left where it was raised; the `break` is marked: there may be no such round."""
        flag, left = self.flag(before, node, False), ast.Break()
        left.raises = True  # type: ignore[attr-defined]
        ends: Any = [_set(flag, True, end), ast.copy_location(left, end)]
        again = end
        if isinstance(end, ast.Assert):
            again = ast.Assert(ast.Constant(False), end.msg)
            ends = [ast.If(ast.UnaryOp(ast.Not(), end.test), ends, [])]
        _replace(node, end, ends)
        behind = ast.If(ast.Name(flag, ast.Load()), [again], [])
        for part in (again, behind, behind.test, *([ends[0], ends[0].test, again.test] if again is not end else [])):
            ast.copy_location(part, end)
        return behind

    def flag(self, before: list[Any], node: Any, value: bool) -> str:
        """A new name, which has a value before a loop."""
        self.flags += 1
        name = f".left{self.flags}"
        before.append(_set(name, value, node))
        return name


def _function_name(node: Any) -> str:
    """The name to which a statement gives a function that takes nothing from where it is made; "" for other statements."""
    if isinstance(node, ast.FunctionDef):
        parts = [*node.args.defaults, *node.args.kw_defaults, *node.decorator_list, node.returns]
        notes = [a.annotation for a in ast.walk(node.args) if isinstance(a, ast.arg)]
        return "" if any(p is not None for p in (*parts, *notes)) else node.name
    made = node.value if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
    alone = isinstance(made, ast.Lambda) and not made.args.defaults and not any(made.args.kw_defaults)
    return node.targets[0].id if alone and isinstance(node.targets[0], ast.Name) else ""


def _knows_alone(loop: Any, name: str, function: Any) -> bool:
    """Whether a name is given once in a function, and called nowhere but in a loop."""
    called = {id(p.func) for p in ast.walk(loop) if isinstance(p, ast.Call)}
    given = 0
    for part in ast.walk(function):
        if isinstance(part, ast.Name) and part.id == name and isinstance(part.ctx, ast.Load):
            if id(part) not in called:
                return False
        else:
            names = (getattr(part, field, None) for field in ("id", "name", "arg", "asname", "rest"))
            given += name in names or name in getattr(part, "names", ())
    return given == 1


def _set(name: str, value: bool, node: Any) -> Any:
    made = ast.Assign([ast.Name(name, ast.Store())], ast.Constant(value))
    for part in (made, made.targets[0], made.value):
        ast.copy_location(part, node)
    return made


def _own(loop: Any, kind: Any) -> list[Any]:
    """The statements of a kind that leave a loop: a `break` of the loop itself, a `return` of its function, what raises."""
    found: list[Any] = []
    stack = list(loop.body)
    while stack:
        part = stack.pop(0)
        if isinstance(part, kind):
            found.append(part)
        inside = [] if isinstance(part, _FUNCTIONS if kind is ast.Break else _APART) else [*_statements_in(part)]
        inside = [part.orelse] if isinstance(part, _LOOPS) and kind is ast.Break else inside
        stack += [s for statements in inside for s in statements]
    return found


def _statements_in(part: Any) -> Iterator[list[Any]]:
    """The lists of statements in a statement, those of handlers and cases among them."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        statements = getattr(part, field, None)
        if not isinstance(statements, list):
            continue
        if field in ("handlers", "cases"):
            yield from (inner.body for inner in statements)
        else:
            yield statements


def _breaks(end: Any, loop: Any) -> list[Any]:
    """The `break` that stands for a `return`: it is at its place."""
    return [b for b in _own(loop, ast.Break) if (b.lineno, b.col_offset) == (end.lineno, end.col_offset)]


def _replace(root: Any, old: Any, new: list[Any]) -> None:
    """Other statements in place of one."""
    stack = [root]
    while stack:
        for statements in _statements_in(stack.pop()):
            if old in statements:
                k = statements.index(old)
                statements[k : k + 1] = new
                return
            stack += statements
