"""Private clones of the user's functions, in which calls are looked up first: `f(x)` becomes `call(f)(x)`.

Assumes functions whose source is at hand. Guarantees the function's own globals, cells, defaults, file and lines, so that
tracebacks and debuggers show the user's code; the source is compared with the bytecode, so a file that changed since it
was imported is noticed. Refuses, by giving None, functions without source or with another one.
"""

import __future__

import ast
import contextlib
import copy
import dis
import functools
import linecache
import opcode
import sys
import threading
import types
import warnings
from collections.abc import Iterator
from typing import Any

from symdiff.tracing.captures.mentioning import KIND_NAMES, nested_codes, steps_of_code
from symdiff.tracing.following.entering import unnoticed
from symdiff.vocabulary.locks import free_in_children

_CALLS = frozenset(opcode.opmap[name] for name in ("CALL", "CALL_FUNCTION_EX", "CALL_KW") if name in opcode.opmap)
_TELLING = "CONTAINS_OP FOR_ITER IS_OP MATCH_CLASS FORMAT_VALUE FORMAT_SIMPLE FORMAT_WITH_SPEC CONVERT_VALUE".split()
_ASKING = _CALLS | {opcode.opmap[name] for name in _TELLING if name in opcode.opmap}
_FUTURE = functools.reduce(lambda a, b: a | b, (getattr(__future__, n).compiler_flag for n in __future__.all_feature_names))
_PLACE = sum(flag for flag, name in dis.COMPILER_FLAG_NAMES.items() if name in ("NESTED", "METHOD"))  # where a function stands
_SILENT = frozenset(opcode.opmap[n] for n in ("CACHE", "PUSH_NULL", "PRECALL", "NOP") if n in opcode.opmap)
_JUMPS = frozenset(opcode.hasjrel + opcode.hasjabs)
_PAIRED = frozenset(opcode.opmap[n] for n in ("LOAD_GLOBAL", "LOAD_ATTR")[: 2 if sys.version_info >= (3, 12) else 1])
_ALIKE = {opcode.opmap["LOAD_METHOD"]: opcode.opmap["LOAD_ATTR"]} if "LOAD_METHOD" in opcode.opmap else {}
_MORE = 40  # lines tried after the last one that has code: closing brackets
OPERATORS = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv", ast.Mod: "mod",
    ast.Pow: "pow", ast.MatMult: "matmul", ast.BitAnd: "and_", ast.BitOr: "or_", ast.BitXor: "xor", ast.Lt: "lt",
    ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne", ast.USub: "neg", ast.UAdd: "pos",
    ast.Invert: "invert", ast.Is: "is_", ast.IsNot: "is_not", ast.In: "in_", ast.NotIn: "not_in",
}  # fmt: skip


def clone(
    function: types.FunctionType, names: dict[str, types.CellType], thorough: bool, rewriter: Any = None
) -> types.FunctionType | None:
    """A function that looks its calls up in the cells `names`; itself where it has none, None without its source.

    `rewriter` is a subclass of `Rewriter`, for functions in which more than calls is looked up.
    """
    code = function.__code__
    if not names.keys().isdisjoint(code.co_freevars) or not (thorough or rewriter or has_calls(code)):
        return function
    found = _rewritten(code, code.co_filename, tuple(names), thorough, rewriter or Rewriter)
    if found is None:
        return None
    cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True)) | names
    made = types.FunctionType(
        found, function.__globals__, function.__name__, function.__defaults__, tuple(cells[n] for n in found.co_freevars)
    )
    made.__kwdefaults__ = function.__kwdefaults__
    made.__qualname__, made.__module__, made.__doc__ = function.__qualname__, function.__module__, function.__doc__
    made.__dict__.update(function.__dict__)
    return made


@functools.lru_cache(maxsize=4096)
def has_calls(code: types.CodeType) -> bool:
    """Whether a function, or one nested in it, calls anything, asks what a value is, has loops, or handles exceptions."""
    asks = not _ASKING.isdisjoint(code.co_code[::2]) or not KIND_NAMES.isdisjoint(code.co_names)
    return asks or bool(code.co_exceptiontable) or any(map(has_calls, nested_codes(code)))


def _leaves(body: list[Any]) -> bool:
    """Whether a `finally` ends with `return`, `break` or `continue`, which ends an exception, too."""
    return any(isinstance(part, (ast.Return, ast.Break, ast.Continue)) for node in body for part in ast.walk(node))


_DEEP = 12_000  # calls: some for each level of the longest expressions that Python compiles, sums of 3,000 terms
_going_deep = threading.RLock()
free_in_children(_going_deep)


@contextlib.contextmanager
def _deeply() -> Iterator[None]:
    """Meanwhile `ast` may go down long expressions, by recursion."""
    with _going_deep:
        before = sys.getrecursionlimit()
        sys.setrecursionlimit(max(before, _DEEP))
        try:
            yield
        finally:
            sys.setrecursionlimit(before)


@functools.lru_cache(maxsize=4096)
def _rewritten(
    code: types.CodeType, filename: str, names: tuple[str, ...], thorough: bool, rewriter: Any
) -> types.CodeType | None:
    """The code of a clone; the file name is part of the key, since equal code may stand in two files."""
    # What Python warns of in a file it said when it compiled that.
    with unnoticed(), _deeply(), warnings.catch_warnings(action="ignore"):
        for node in _candidates(code, linecache.getlines(filename)):
            _mangle(node, _class_of(code.co_qualname))
            _bare(node)
            try:
                plain = _compiled(node, code, ())
                if _same(plain, code):
                    found = _compiled(rewriter(names, thorough).visit(node), code, names)
                    return found.replace(co_qualname=code.co_qualname)
            except (SyntaxError, ValueError, RecursionError):
                continue
    return None


# -- the function's node


def _candidates(code: types.CodeType, lines: list[str]) -> Iterator[Any]:
    """Nodes that may be the function's: first those of the few lines around it, then those of the whole file."""
    if not 0 < code.co_firstlineno <= len(lines):
        return
    yield from _lambdas(code, lines) if code.co_name == "<lambda>" else _block(code, lines)
    yield from _in_file("".join(lines), code.co_firstlineno, code.co_name)


def _block(code: types.CodeType, lines: list[str]) -> Iterator[Any]:
    first, last = code.co_firstlineno, _end(code)[0]
    text = "if 1:\n" + "".join(lines[first - 1 : last])
    if not lines[first - 1][:1].isspace():
        text = "\n" + text.removeprefix("if 1:\n")
    for extra in range(_MORE):
        try:
            body = ast.parse(text).body
        except SyntaxError:
            if last + extra >= len(lines):
                return
            text += lines[last + extra]
            continue
        body = getattr(body[0], "body", ()) if text.startswith("if") else body
        if len(body) == 1 and getattr(body[0], "name", "") == code.co_name:
            yield ast.increment_lineno(body[0], first - 2)
        return


def _lambdas(code: types.CodeType, lines: list[str]) -> Iterator[Any]:
    first = code.co_firstlineno
    last, column = _end(code)
    start = lines[first - 1]
    place = -1
    while (place := start.find("lambda", place + 1)) >= 0:
        rest = "".join(lines[first - 1 : last + 3])[place:]
        done = len("".join(lines[first - 1 : last - 1])) + len(lines[last - 1].encode()[:column].decode()) - place
        for end in range(done, min(done + 8, len(rest)) + 1):  # closing brackets of the body
            try:
                node = ast.parse(f"({rest[:end]})", mode="eval").body
            except SyntaxError:
                continue
            if isinstance(node, ast.Lambda):
                offset = len(start[:place].encode()) - 1
                for part in ast.walk(node):
                    for line, col in (("lineno", "col_offset"), ("end_lineno", "end_col_offset")):
                        if getattr(part, line, None) == 1:
                            setattr(part, col, getattr(part, col) + offset)
                yield ast.increment_lineno(node, first - 1)


@functools.lru_cache(maxsize=4)
def _functions_of(text: str) -> dict[tuple[int, str], list[Any]]:
    found: dict[tuple[int, str], list[Any]] = {}
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return found
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            line = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            found.setdefault((line, node.name), []).append(node)
        elif isinstance(node, ast.Lambda):
            found.setdefault((node.lineno, "<lambda>"), []).append(node)
    return found


def _in_file(text: str, line: int, name: str) -> Iterator[Any]:
    return (copy.deepcopy(node) for node in _functions_of(text).get((line, name), ()))


def _end(code: types.CodeType) -> tuple[int, int]:
    """The last line and column of a function's code, those of functions nested in it included."""
    ends = [(p[1] or 0, p[3] or 0) for p in code.co_positions()]
    return max([(code.co_firstlineno, 0), *ends, *map(_end, nested_codes(code))])


def _class_of(qualified: str) -> str:
    """The class whose body a function stands in, directly or through other functions."""
    parts = qualified.split(".")[:-1]
    while parts and parts[-1] == "<locals>":
        parts = parts[:-2]
    return parts[-1].lstrip("_") if parts else ""


def _mangle(node: Any, name: str) -> None:
    """Private names `__x` as Python spells them inside a class."""
    if not name:
        return
    for part in ast.walk(node):
        field = {ast.Name: "id", ast.Attribute: "attr", ast.arg: "arg", ast.keyword: "arg"}.get(type(part))
        text = getattr(part, field) if field else None
        if text and text.startswith("__") and not text.endswith("__"):
            setattr(part, field, f"_{name}{text}")


def _bare(node: Any) -> None:
    """The function without what its definition evaluates: decorators, defaults, annotations."""
    if not isinstance(node, ast.Lambda):
        node.decorator_list, node.returns = [], None
        if hasattr(node, "type_params"):
            node.type_params = []
    args = node.args
    args.defaults, args.kw_defaults = [], [None] * len(args.kwonlyargs)
    for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg):
        if arg is not None:
            arg.annotation = None


# -- compiling


def _compiled(node: Any, code: types.CodeType, names: tuple[str, ...]) -> types.CodeType:
    """The code of a function inside one whose parameters are the names in its cells."""
    module = ast.parse("def outer(): pass")
    outer = module.body[0]
    outer.args.args = [ast.arg(n) for n in (*code.co_freevars, *names)]
    if isinstance(node, ast.Lambda):
        outer.body = [ast.Expr(node)]
    else:
        outer.body = [node] if node.name in code.co_freevars else [ast.Global([node.name]), node]
    ast.fix_missing_locations(module)
    compiled = compile(module, code.co_filename, "exec", flags=code.co_flags & _FUTURE, dont_inherit=True)
    return nested_codes(nested_codes(compiled)[0])[0]


def _same(a: types.CodeType, b: types.CodeType) -> bool:
    """Whether two functions do the same, wherever they stand."""
    if any(
        getattr(a, name) != getattr(b, name)
        for name in ("co_names", "co_varnames", "co_freevars", "co_cellvars", "co_argcount", "co_kwonlyargcount")
    ):
        return False
    if (a.co_flags | _PLACE) != (b.co_flags | _PLACE) or len(a.co_consts) != len(b.co_consts):
        return False
    if a.co_code != b.co_code and _steps(a) != _steps(b):
        return False
    return all(
        _same(x, y) if isinstance(x, types.CodeType) and isinstance(y, types.CodeType) else type(x) is type(y) and _bits(x, y)
        for x, y in zip(a.co_consts, b.co_consts, strict=True)
    )


def _steps(code: types.CodeType) -> list[tuple[int, int]]:
    """The bytecode without what depends on where a function stands: Python calls functions of imported modules otherwise."""
    found = []
    for _, op, arg, _ in steps_of_code(code):
        if op not in _SILENT:
            shift = 0 if op in _JUMPS else arg
            found.append((_ALIKE.get(op, op), shift >> 1 if op in _PAIRED else shift))
    return found


def _bits(x: Any, y: Any) -> bool:
    return x == y if isinstance(x, frozenset) else repr(x) == repr(y)


def _is_none(node: Any) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


class _Patterns(ast.NodeTransformer):
    """The classes of a pattern as names, which stand for those in a list."""

    def __init__(self, classes: list[Any]) -> None:
        self.classes = classes

    def visit_MatchClass(self, node: ast.MatchClass) -> Any:
        self.generic_visit(node)
        self.classes.append(node.cls)
        node.cls = ast.copy_location(ast.Name(f".class{len(self.classes) - 1}", ast.Load()), node)
        return node

    def visit_MatchSingleton(self, node: ast.MatchSingleton) -> Any:
        if node.value is None:
            return node
        return self.visit_MatchClass(ast.copy_location(ast.MatchClass(ast.Constant(node.value), [], [], []), node))


class Rewriter(ast.NodeTransformer):
    """Calls are looked up; thoroughly, so are the calls without parentheses, see `implicit`."""

    def __init__(self, names: tuple[str, ...], thorough: bool) -> None:
        self.call, self.attribute, self.assignment, self.operator, self.item, self.iteration, self.context, *rest = names
        self.slice, self.handled, self.managed = rest
        self.thorough = thorough

    def through(self, name: str, node: Any, *args: Any) -> Any:
        """A call of what stands in a cell, at the place of a node."""
        found = ast.Call(ast.Name(name, ast.Load()), list(args), [])
        ast.copy_location(found, node)
        return ast.copy_location(found.func, node) and found

    def visit_Call(self, node: ast.Call) -> Any:
        if isinstance(node.func, ast.Attribute) and node.func.attr not in KIND_NAMES:
            node.func.value = self.visit(node.func.value)
        else:
            node.func = self.visit(node.func)
        return self.called(node)

    def called(self, node: ast.Call) -> Any:
        """A call whose function is looked up."""
        node.args = [self.visit(a) for a in node.args]
        node.keywords = [self.visit(k) for k in node.keywords]
        node.func = self.through(self.call, node.func, node.func)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        self.generic_visit(node)
        if not (self.thorough or node.attr in KIND_NAMES) or not isinstance(node.ctx, ast.Load):
            return node
        return self.through(self.attribute, node, node.value, ast.Constant(node.attr))

    def visit_Assign(self, node: ast.Assign) -> Any:
        self.generic_visit(node)
        target = node.targets[0]
        if not self.thorough or len(node.targets) > 1 or not isinstance(target, ast.Attribute):
            return node
        done = self.through(self.assignment, node, node.value, target.value, ast.Constant(target.attr))
        return ast.copy_location(ast.Expr(done), node)

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        self.generic_visit(node)
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        starred = any(isinstance(part, ast.Starred) for part in parts)
        if not self.thorough or starred or not isinstance(node.ctx, ast.Load):
            return node
        made = [self._sliced(part) if isinstance(part, ast.Slice) else part for part in parts]
        key = ast.Tuple(made, ast.Load()) if isinstance(node.slice, ast.Tuple) else made[0]
        return self.through(self.item, node, node.value, ast.copy_location(key, node.slice))

    def _sliced(self, node: ast.Slice) -> Any:
        ends = [ast.copy_location(ast.Constant(None), node) if e is None else e for e in (node.lower, node.upper, node.step)]
        return self.through(self.slice, node, *ends)

    def visit_withitem(self, node: ast.withitem) -> Any:
        self.generic_visit(node)
        through = self.context if self.thorough else self.managed
        node.context_expr = self.through(through, node.context_expr, node.context_expr)
        return node

    def visit_Try(self, node: Any) -> Any:
        """The blocks of a `try` are announced with what its handlers wait for, see `raising`."""
        self.generic_visit(node)
        if node.handlers:
            node.body = [self._announced(node.body, [h.type or ast.Constant(None) for h in node.handlers])]
        if _leaves(node.finalbody):
            if node.handlers:
                inner = type(node)(node.body, node.handlers, node.orelse, [])
                node = ast.copy_location(ast.Try([ast.copy_location(inner, node)], [], [], node.finalbody), node)
            node.body = [self._announced(node.body, [ast.Constant(None)])]
        return node

    visit_TryStar = visit_Try

    def _announced(self, body: list[Any], kinds: list[Any]) -> Any:
        args = ast.arguments([], [], None, [], [], None, [])
        given = ast.copy_location(ast.Lambda(args, ast.Tuple(copy.deepcopy(kinds), ast.Load())), body[0])
        return ast.copy_location(ast.With([ast.withitem(self.through(self.handled, body[0], given))], body), body[0])

    def visit_AsyncWith(self, node: ast.AsyncWith) -> Any:
        return node

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        return self._operation(node, type(node.op), "left", "right")

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        return self._operation(node, type(node.op), "operand")

    def visit_Compare(self, node: ast.Compare) -> Any:
        self.generic_visit(node)
        name = OPERATORS.get(type(node.ops[0]))
        named = _is_none(node.left) or _is_none(node.comparators[0])
        told = isinstance(node.ops[0], (ast.In, ast.NotIn)) or (isinstance(node.ops[0], (ast.Is, ast.IsNot)) and not named)
        if not (self.thorough or told) or len(node.ops) > 1 or name is None:
            return node
        return self.through(self.operator, node, ast.Constant(name), node.left, node.comparators[0])

    def visit_FormattedValue(self, node: ast.FormattedValue) -> Any:
        self.generic_visit(node)
        spec = node.format_spec or ast.copy_location(ast.Constant(""), node)
        return self.through(self.operator, node, ast.Constant("formatted"), node.value, ast.Constant(node.conversion), spec)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> Any:
        self.generic_visit(node)
        return self.through(self.operator, node, ast.Constant("joined"), *node.values)

    def visit_Match(self, node: ast.Match) -> Any:
        """Each class of a pattern, and each True and False, becomes a stand-in that traced values match, too."""
        classes = []
        for case in node.cases:
            case.pattern = _Patterns(classes).visit(case.pattern)
        self.generic_visit(node)
        made = [self.through(self.operator, node, ast.Constant("class"), self.visit(c)) for c in classes]
        names = [ast.copy_location(ast.Name(f".class{k}", ast.Store()), node) for k in range(len(made))]
        return [ast.copy_location(ast.Assign([n], m), node) for n, m in zip(names, made, strict=True)] + [node]

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        self.generic_visit(node)
        name = OPERATORS.get(type(node.op))
        if not self.thorough or name is None or not isinstance(node.target, ast.Name):
            return node
        old = ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target)
        new = self.through(self.operator, node, ast.Constant("i" + name.rstrip("_")), old, node.value)
        return ast.copy_location(ast.Assign([node.target], new), node)

    def visit_For(self, node: ast.For) -> Any:
        return self._iterated(node)

    def visit_comprehension(self, node: ast.comprehension) -> Any:
        return self._iterated(node) if not node.is_async else self.generic_visit(node)

    def _iterated(self, node: Any) -> Any:
        self.generic_visit(node)
        node.iter = self.through(self.iteration, node.iter, node.iter)
        return node

    def _operation(self, node: Any, kind: type, *fields: str) -> Any:
        written = isinstance(getattr(node, fields[0]), (ast.Constant, ast.JoinedStr)) and kind is ast.Mod
        self.generic_visit(node)
        name = OPERATORS.get(kind)
        if not (self.thorough or written) or name is None:
            return node
        return self.through(self.operator, node, ast.Constant(name), *(getattr(node, f) for f in fields))
