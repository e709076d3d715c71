"""Clones in which every value that the code gets hold of passes through a function: names, attributes, items, calls.

Assumes what `cloning` assumes. Guarantees that no array reaches an operation but through `read`, and that what could run code
that is not cloned is shown first: operands, what attributes are taken of, what is assigned to.
"""

import ast
from typing import Any

from symdiff.tracing.following.cloning import OPERATORS, Rewriter

NAMES = (".read", ".reached", ".operand", ".stored", ".changed")
_OPERANDS = {
    ast.BinOp: ("left", "right"), ast.UnaryOp: ("operand",), ast.BoolOp: ("values",), ast.Compare: ("left", "comparators"),
    ast.If: ("test",), ast.While: ("test",), ast.IfExp: ("test",), ast.Assert: ("test",), ast.For: ("iter",),
    ast.comprehension: ("iter",), ast.withitem: ("context_expr",), ast.Starred: ("value",), ast.YieldFrom: ("value",),
    ast.FormattedValue: ("value",), ast.AugAssign: ("value",), ast.Subscript: ("value",), ast.Match: ("subject",),
}  # fmt: skip
_LOADS = (ast.Name, ast.Attribute, ast.Subscript, ast.Call, ast.NamedExpr, ast.IfExp, ast.Await)


class Loads(Rewriter):
    """Calls are looked up as before, and loads too."""

    def __init__(self, names: tuple[str, ...], thorough: bool) -> None:
        super().__init__(names[: -len(NAMES)], thorough)
        self.read, self.reached, self.operand, self.stored, self.changed = names[-len(NAMES) :]

    def visit(self, node: ast.AST) -> Any:
        for field in _OPERANDS.get(type(node), ()):  # type: ignore[call-overload]
            child = getattr(node, field)
            shown = [self._shown(c) for c in child] if isinstance(child, list) else self._shown(child)
            setattr(node, field, shown)
        return super().visit(node)

    def _shown(self, node: Any) -> Any:
        if not isinstance(node, _LOADS) or isinstance(getattr(node, "ctx", None), (ast.Store, ast.Del)):
            return node
        found = self.through(self.operand, node, node)
        found.ours = True
        return found

    def visit_Name(self, node: ast.Name) -> Any:
        return self.through(self.read, node, node) if isinstance(node.ctx, ast.Load) else node

    def visit_Call(self, node: ast.Call) -> Any:
        if getattr(node, "ours", False):
            node.args = [self.visit(a) for a in node.args]
            return node
        if isinstance(node.func, ast.Attribute):
            node.func = self._attribute(node.func)
            return self.through(self.read, node, self.called(node))
        return self.through(self.read, node, super().visit_Call(node))

    def _attribute(self, node: ast.Attribute) -> Any:
        return self.through(self.reached, node, self.visit(node.value), ast.Constant(node.attr))

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        if isinstance(node.ctx, ast.Load):
            return self._attribute(node)
        node.value = self.through(self.stored, node, self.visit(node.value), ast.Constant(node.attr))
        return node

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        found = super().visit_Subscript(node)
        return self.through(self.read, node, found) if isinstance(node.ctx, ast.Load) else found

    def visit_Global(self, node: ast.Global) -> Any:
        shown = ast.Expr(self.through(self.stored, node, ast.Constant(...), ast.Constant(None)))
        return [node, ast.copy_location(shown, node)]

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        target, name = node.target, OPERATORS.get(type(node.op))
        if isinstance(target, ast.Name) and name is not None:
            old = self.through(self.read, target, ast.copy_location(ast.Name(target.id, ast.Load()), target))
            way = self.operator if self.thorough else self.changed
            new = self.through(way, node, ast.Constant("i" + name.rstrip("_")), old, self.visit(node.value))
            return ast.copy_location(ast.Assign([target], new), node)
        node.value = self.visit(node.value)
        if isinstance(target, ast.Attribute):
            target.value = self.through(self.stored, target, self.visit(target.value), ast.Constant(None))
        elif isinstance(target, ast.Subscript):
            target.value = self.through(self.stored, target, self.visit(target.value), ast.Constant(None))
            target.slice = self.visit(target.slice)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        node.target = self.visit(node.target)
        node.value = None if node.value is None else self.visit(node.value)
        return node

    def visit_arg(self, node: ast.arg) -> Any:
        return node

    def visit_match_case(self, node: ast.match_case) -> Any:
        node.guard = None if node.guard is None else self.visit(node.guard)
        node.body = [self.visit(part) for part in node.body]
        return node
