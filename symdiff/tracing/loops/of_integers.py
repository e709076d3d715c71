"""Loops of integers alone, which Python runs as they are: they make pairs, neighbours and places, and have no formula to keep.

Assumes the text of a loop before a clone rewrites it. Guarantees that such a loop reads nothing but integers, truths, texts and
what holds these, and calls nothing but builtins, so that no argument tells what it makes.
"""

import ast
import builtins
from collections import ChainMap, deque
from typing import Any

import numpy as np

from symdiff.tracing.loops.items import Header

_PARTS = (
    ast.For, ast.While, ast.If, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Pass, ast.Break, ast.Continue, ast.Name,
    ast.Constant, ast.Tuple, ast.List, ast.Set, ast.Dict, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp,
    ast.comprehension, ast.Compare, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.IfExp, ast.Subscript, ast.Slice, ast.Call,
    ast.Attribute, ast.Starred, ast.operator, ast.unaryop, ast.cmpop, ast.boolop, ast.expr_context,
)  # fmt: skip
_CALLED = (
    abs, all, any, bool, dict, divmod, enumerate, filter, frozenset, int, len, list, map, max, min, pow, range, reversed, set,
    sorted, sum, tuple, zip,
)  # fmt: skip
_METHODS = frozenset(
    "add append appendleft clear copy count discard extend get index insert items keys pop popleft remove setdefault sort "
    "update values".split()
)
_SIZES = ("shape", "size", "ndim")
_TYPES = (int, bool, str, type(None), range)
_MOST = 4_096  # items of what it reads


def integer_names(*parts: Any) -> list[str] | None:
    """The names that parts of a function read, where their text makes integers alone of such; None else. How long an array
    is, and its shape, are integers whatever it holds.
    """
    found = set()
    stack = list(parts)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Constant):
            same = isinstance(node.value, (int, str, type(None)))
        elif isinstance(node, ast.Attribute):
            same = node.attr in (*_METHODS, *_SIZES)
        else:
            same = isinstance(node, _PARTS) and not isinstance(node, (ast.Div, ast.MatMult))
        if not same:
            return None
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            found.add(node.id)
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
        measured = [node.value] if isinstance(node, ast.Attribute) and node.attr in _SIZES else []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len":
            measured = node.args
        stack += [p for p in ast.iter_child_nodes(node) if not (p in measured and isinstance(p, ast.Name))]
    return sorted(found)


def are_integers(values: Any, names: tuple[str, ...], frame: Any, terms: Any) -> bool:
    """Whether what a loop runs over, and what the names hold, are integers and what holds these. Names are the frame's, those
    of a comprehension its function's `terms`.
    """
    cells = [] if terms is None else zip(terms.__code__.co_freevars, terms.__closure__ or (), strict=True)
    try:
        own = {name: cell.cell_contents for name, cell in cells if name in names}
    except ValueError:  # a name that is not bound yet
        return False
    around = (frame.f_locals, frame.f_globals) if terms is None else (own, terms.__globals__)
    held = ChainMap(*around, vars(builtins))
    stack = [values, *(held[name] for name in names if name in held)]
    count = 0
    while stack:
        value = stack.pop()
        count += 1
        kind = type(value)
        if kind is Header:
            stack += [value.function, *value.args, *value.options.values()]
        elif kind in (list, tuple, set, frozenset, deque):
            stack += value
        elif kind is dict:
            stack += [*value, *value.values()]
        elif kind is np.ndarray and value.dtype.kind in "iub":
            count += value.size
        elif not (kind in _TYPES or issubclass(kind, (np.integer, np.bool_)) or any(value is f for f in _CALLED)):
            return False
        if count + len(stack) > _MOST:
            return False
    return True
