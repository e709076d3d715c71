"""Loops of a clone that are handed to `rounds`: the names that a round binds are set before it, from what `rounds` says.

Assumes a thorough clone (see `cloning`). Guarantees that a loop stays where it is, in its own frame, so that names, cells and
tracebacks are Python's. Handed over with a reason not to keep them are those of which a round may do more than go on to the
next one, bind names and assign to items of what has a name.
"""

import ast
from collections.abc import Iterator
from typing import Any

from symdiff.tracing.loops.leaving import leave_by_break
from symdiff.tracing.loops.of_integers import integer_names

_LEAVES, _BINDS = "a round may leave the function", "a round binds or deletes names in another way than by assignment"
_UNKEPT: dict[type, str] = {
    **dict.fromkeys((ast.Return, ast.YieldFrom, ast.Await), _LEAVES),
    **dict.fromkeys((ast.AsyncWith, ast.AsyncFor), "a round waits"),
    **dict.fromkeys((ast.AsyncFunctionDef, ast.ClassDef), "a round makes a class"),
    **dict.fromkeys((ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal), _BINDS),
}
_HEADS = (
    "range zip enumerate reversed map pairwise product combinations permutations combinations_with_replacement ndenumerate "
    "ndindex chain cycle islice repeat count accumulate filter starmap"
).split()  # calls that the head of a loop makes round by round
_TAKING = "sum prod max min list tuple set frozenset dict sorted fsum any all join fromiter".split()  # what a generator gives
_LATER = (ast.NamedExpr, ast.Await, ast.Lambda, ast.Yield)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_SCOPES = (*_FUNCTIONS, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_NAMING: dict[type, tuple[str, ...]] = {
    **dict.fromkeys((ast.ExceptHandler, ast.FunctionDef, ast.MatchAs, ast.MatchStar), ("name",)), ast.MatchMapping: ("rest",),
}  # fmt: skip
STORING = ".storing"
NAMES = (".rounds", ".header", ".given_to", ".listed", STORING, ".made")


def _bindings(parts: list[Any]) -> Iterator[ast.Name]:
    """Where parts of a function bind a name; those of functions and comprehensions, which have their own, left out."""
    stack = list(parts)
    while stack:
        part = stack.pop()
        if isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load):
            yield part
        for name in (getattr(part, field, None) for field in _NAMING.get(type(part), ())):
            if name:
                yield ast.Name(name, ast.Store())
        if not isinstance(part, _SCOPES):
            stack += ast.iter_child_nodes(part)
        elif not isinstance(part, _FUNCTIONS):
            yield from (p.target for p in ast.walk(part) if isinstance(p, ast.NamedExpr))


def bound_names(node: Any) -> list[str]:
    """The names that a loop binds."""
    return sorted({part.id for part in _bindings([*_head(node), *node.body])})


def _head(node: Any) -> tuple[Any, ...]:
    """What a loop binds, or asks, before each round."""
    return (node.target,) if isinstance(node, ast.For) else (node.test,)


def unkept_reason(node: Any) -> str:
    """Why a loop cannot be kept, by its text alone; "" where it may be."""
    if node.orelse:
        return "it has an `else`"
    parts = [p for statement in (*_head(node), *node.body) for p in ast.walk(statement)]
    for part in parts:
        if reason := _UNKEPT.get(type(part)):
            return reason
        if isinstance(part, (ast.For, ast.While)) and part.orelse:
            return "a loop in it has an `else`"
    return ""


def _stores(node: Any) -> Iterator[ast.Name]:
    """What a statement assigns to items of."""
    for part in ast.walk(node):
        if isinstance(part, ast.Subscript) and isinstance(part.ctx, ast.Store):
            while isinstance(part, ast.Subscript):
                part = part.value
            if isinstance(part, ast.Name):
                yield part


def _changed(node: Any) -> tuple[set[str], set[str]]:
    """The names of what a loop does not bind: what it assigns to items of, and what it changes in place."""
    inside = [p for statement in node.body for p in ast.walk(statement)]
    places = [p.target for p in inside if isinstance(p, ast.AugAssign) and isinstance(p.target, ast.Name)]
    names = {p.id for p in _bindings([*_head(node), *node.body]) if p not in places}
    return {p.id for p in _stores(node)} - names, {p.id for p in places} - names


def _loaded(node: Any) -> set[str]:
    return {p.id for p in ast.walk(node) if isinstance(p, ast.Name) and isinstance(p.ctx, ast.Load)}


def _reached(root: Any, node: Any) -> set[str]:
    """The names that a loop does not bind, and reads, itself or in functions that are made around it: calls may change what
    they have.
    """
    found = _loaded(node)
    for part in ast.walk(root):
        if isinstance(part, ast.FunctionDef) and part is not root and part.name in found:
            found |= _loaded(part)
    return found - {p.id for p in _bindings([*_head(node), *node.body])}


def _leaves(node: Any) -> bool:
    """Whether a loop has a `break` of its own, apart from those that stand for what raises."""
    stack: list[Any] = list(node.body)
    while stack:
        part = stack.pop()
        if isinstance(part, ast.Break) and not hasattr(part, "raises"):
            return True
        if not isinstance(part, (ast.For, ast.While)):
            stack += ast.iter_child_nodes(part)
    return False


def _read_outside(root: Any, loop: Any) -> set[str]:
    """The names that a function reads outside a loop, or in functions that may be called there."""
    found: set[str] = set()
    stack: list[Any] = [root]
    while stack:
        part = stack.pop()
        if part is loop:
            stack += [p for p in ast.walk(loop) if isinstance(p, (ast.FunctionDef, ast.Lambda))]
            continue
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load):
            found.add(part.id)
        if isinstance(part, (ast.FunctionDef, ast.Lambda)) and part is not root:
            found |= _loaded(part) - _own_names(part)
        else:
            stack += ast.iter_child_nodes(part)
    return found


def _appended(node: Any) -> Iterator[str]:
    """The names of what a loop may append to."""
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and part.attr == "append" and isinstance(part.value, ast.Name):
            yield part.value.id


def _own_names(function: Any) -> set[str]:
    """The names that a function binds itself."""
    args = function.args
    found = {a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg) if a is not None}
    body: list[Any] = list(function.body) if isinstance(function.body, list) else [function.body]
    others = {n for b in body for p in ast.walk(b) if isinstance(p, (ast.Global, ast.Nonlocal)) for n in p.names}
    return (found | {p.id for p in _bindings(body)}) - others


def _called(node: ast.Call) -> Any:
    """The name of what is called, without the object that it is of."""
    return getattr(node.func, "id", getattr(node.func, "attr", None))


def _names(names: list[str] | None) -> ast.Constant:
    return ast.Constant(None if names is None else tuple(names))


def _place(node: Any) -> ast.Tuple:
    return ast.Tuple([ast.Constant(node.lineno), ast.Constant(node.col_offset)], ast.Load())


class Kept:
    """What a `cloning.Rewriter` does where loops may be kept; `kept` are the names of the cells."""

    thorough: bool
    through: Any
    iteration: str
    kept = NAMES
    _loops = 0
    _root: Any = None
    _own: Any = frozenset()

    def __init__(self, names: tuple[str, ...], thorough: bool) -> None:
        super().__init__(tuple(n for n in names if n not in NAMES), thorough)  # type: ignore[call-arg]
        self._names: list[str] = []

    def visit(self, node: Any) -> Any:
        """Names are those of the innermost function that binds them."""
        if self._root is not None and not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            return super().visit(node)  # type: ignore[misc]
        around = self._root, self._own
        if self._root is None and self.thorough:
            leave_by_break(node)
        self._root, self._own = node, _own_names(node)
        made = super().visit(node)  # type: ignore[misc]
        self._root, self._own = around
        return made

    def visit_For(self, node: ast.For) -> Any:
        """The loop over what `rounds` gives, which sets names before each round and behind the last one."""
        if not self.thorough:
            return super().visit_For(node)  # type: ignore[misc]
        reason, name, names = unkept_reason(node), self._named(), self._bound(node)
        told = self._told(node, names)
        head = node.iter.args[0] if getattr(node.iter, "ours", False) else node.iter  # type: ignore[attr-defined]
        values = None if reason else self._header(head)
        if values is not None:
            node.iter = ast.copy_location(ast.Constant(None), head)
        made = self._inside(node, "" if reason else name, super().visit_For)  # type: ignore[misc]
        if values is not None:
            made.iter = values
        given = self.through(self.kept[0], head, made.iter, *told, ast.Constant(reason))
        if reason:
            made.iter = given
            return made
        made.iter = ast.Name(name, ast.Load())
        return self._looped(node, name, names, given, made)

    def visit_While(self, node: ast.While) -> Any:
        """The loop as one over rounds of which each first asks whether it is one."""
        if not self.thorough:
            return self._inside(node, "", super().generic_visit)  # type: ignore[misc]
        reason, name, names = unkept_reason(node), self._named(), self._bound(node)
        told = self._told(node, names)
        made = self._inside(node, "" if reason else name, super().generic_visit)  # type: ignore[misc]
        given = self.through(self.kept[0], node, ast.Constant(None), *told, ast.Constant(reason))
        if reason:
            return [ast.copy_location(ast.Expr(given), node), made]
        ends = ast.Attribute(ast.Name(name, ast.Load()), "ends", ast.Load())
        asked = ast.If(ast.Call(ends, [made.test], []), self._left(node, name), [])
        rounds = ast.For(ast.Name(".round", ast.Store()), ast.Name(name, ast.Load()), [asked, *made.body], [])
        for part in (rounds, asked, asked.test, ends):
            ast.copy_location(part, node)
        return self._looped(node, name, names, given, rounds)

    def visit_Break(self, node: ast.Break) -> Any:
        """The end of a loop, which its rounds are told."""
        return self._left(node, self._names[-1]) if self._names and self._names[-1] else node

    def visit_Call(self, node: ast.Call) -> Any:
        """What takes a generator, with what gives its items; sums and products of something else."""
        source: Any = node.args[0] if len(node.args) == 1 and not node.keywords else None
        if not self.thorough or source is None or isinstance(source, ast.Starred):
            return super().visit_Call(node)  # type: ignore[misc]
        if given := self._items(source) if isinstance(source, ast.GeneratorExp) else []:
            return self.through(self.kept[2], node, self.visit(node.func), *given)
        if isinstance(source, ast.GeneratorExp) or _called(node) not in ("sum", "prod"):
            return super().visit_Call(node)  # type: ignore[misc]
        values, same = self._header(source) or self.visit(source), ast.parse("lambda values: values", mode="eval").body
        for part in ast.walk(same):
            ast.copy_location(part, node)
        return self.through(
            self.kept[2], node, self.visit(node.func), ast.Constant(1), same, values, _names(None), _place(node)
        )

    def visit_ListComp(self, node: ast.ListComp) -> Any:
        """A list with what gives its items."""
        given = self._items(node) if self.thorough else []
        return self.through(self.kept[3], node, *given) if given else self._made(node)

    def _items(self, node: Any) -> list[Any]:
        """What gives the items of a comprehension from those that it runs over: how many loops it has, a generator for some of
        the outermost one's, these, and its place; what is of an inner one is given in place of items. Empty where it binds
        names around it, or where what it makes may ask for its names later, which have their last values then.
        """
        over, *inner = node.generators
        read = _names(integer_names(node))
        parts = [*ast.walk(node)]
        taken = [p.args[0] for p in parts if isinstance(p, ast.Call) and p.args and _called(p) in _TAKING]
        later = any(isinstance(p, _LATER) or (isinstance(p, ast.GeneratorExp) and p not in (node, *taken)) for p in parts)
        if later or any(generator.is_async for generator in node.generators):
            return []
        depth, values = len(node.generators), self._header(over.iter) or self.visit(over.iter)
        if inner:
            made: Any = ast.Tuple(self._items(ast.copy_location(ast.GeneratorExp(node.elt, inner), node))[1:], ast.Load())
        else:
            made = self.visit(node.elt)
        one = ast.comprehension(self.visit(over.target), ast.Name(".values", ast.Load()), [*map(self.visit, over.ifs)], 0)
        args = ast.arguments([], [ast.arg(".values")], None, [], [], None, [])
        terms = ast.copy_location(ast.Lambda(args, ast.copy_location(ast.GeneratorExp(made, [one]), node)), node)
        return [ast.Constant(depth), terms, values, read, _place(over.target)]

    def _named(self) -> str:
        self._loops += 1
        return f".loop{self._loops}"

    def _bound(self, node: Any) -> list[str]:
        others = (*_appended(node), *_changed(node)[0], *_reached(self._root, node))
        return sorted({*bound_names(node), *self._own.intersection(others)})

    def _told(self, node: Any, names: list[str]) -> list[Any]:
        """What `rounds` is told of a loop: the names it binds, those its head does, those it appends to, those of whose
        items it assigns to, those of what it changes in place, those of what calls may change, and those read elsewhere;
        whether it may be left before its end, and whether rounds yield; the names that it reads where it is one of integers
        alone; and its place.
        """
        appended = self._own.intersection(_appended(node)).difference(p.id for p in _bindings(node.body))
        targets = [p.id for p in ast.walk(node.target) if isinstance(p, ast.Name)] if isinstance(node, ast.For) else []
        changed = [sorted(self._own.intersection(part)) for part in (*_changed(node), _reached(self._root, node))]
        behind = _read_outside(self._root, node).intersection(names)
        lists: list[Any] = [names, targets, sorted(appended), *changed, sorted(behind)]
        yields = any(isinstance(p, ast.Yield) for statement in node.body for p in ast.walk(statement))
        read = _names(integer_names(*_head(node), *node.body))
        return [*map(_names, lists), ast.Constant(_leaves(node)), ast.Constant(yields), read, _place(node)]

    def _inside(self, node: Any, name: str, visit: Any) -> Any:
        self._names.append(name)
        made = visit(node)
        self._names.pop()
        return made

    def _looped(self, node: Any, name: str, names: list[str], given: Any, made: Any) -> list[Any]:
        begun = ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], given), node)
        made.body = [self._set(node, name, names), *made.body]
        return [begun, made, self._set(node, name, names)]

    def _left(self, node: Any, name: str) -> list[Any]:
        found = ast.parse("while 1:\n L.leave()\n continue").body[0].body  # type: ignore[attr-defined]
        for part in (p for statement in found for p in ast.walk(statement)):
            if isinstance(part, ast.Name):
                part.id = name
            ast.copy_location(part, node)
        return found  # type: ignore[no-any-return]

    def _header(self, node: Any) -> Any:
        """What a loop runs over, its `range`, `zip` and so on not called yet; None where it is anything else."""
        if not isinstance(node, ast.Call) or _called(node) not in _HEADS:
            return None
        if any(k.arg not in ("strict", "start") for k in node.keywords) or any(isinstance(a, ast.Starred) for a in node.args):
            return None
        given = [self._header(a) or self.visit(a) for a in node.args]
        found = self.through(self.kept[1], node, self.visit(node.func), *given)
        found.keywords = [ast.keyword(k.arg, self.visit(k.value)) for k in node.keywords]
        return found

    def _set(self, node: Any, loop: str, names: list[str]) -> Any:
        """`if loop.moved:` each name gets the value that there is for it, or is unbound where there is none."""
        text = "\n".join(
            f" if {n!r} in L.values: N{k} = L.values.pop({n!r})\n elif {n!r} in L.unbound:\n  N{k} = None\n  del N{k}"
            for k, n in enumerate(names)
        )
        called = {"L": loop} | {f"N{k}": n for k, n in enumerate(names)}
        found = ast.parse(f"if L.moved:\n pass\n{text}").body[0]
        for part in ast.walk(found):
            if isinstance(part, ast.Name):
                part.id = called[part.id]
            ast.copy_location(part, node)
        return found

    def _stored(self, node: Any) -> Any:
        """What an item or an attribute is assigned to, or deleted of, is shown first."""
        if self.thorough and not isinstance(node.ctx, ast.Load):
            node.value = self.through(STORING, node, node.value)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        made = super().visit_Subscript(node)  # type: ignore[misc]
        return made if made is not node else self._stored(node)

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        made = super().visit_Attribute(node)  # type: ignore[misc]
        return made if made is not node else self._stored(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        made = super().visit_AugAssign(node)  # type: ignore[misc]
        return made if made is not node or isinstance(node.target, ast.Name) else self._stored(node.target) and node

    def _made(self, node: Any) -> Any:
        """A list or a dict that code makes is shown."""
        self.generic_visit(node)  # type: ignore[attr-defined]
        shown = self.thorough and not isinstance(getattr(node, "ctx", None), ast.Store)
        return self.through(NAMES[5], node, node) if shown else node

    visit_List = visit_Dict = visit_DictComp = visit_Set = visit_SetComp = _made
