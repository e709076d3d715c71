"""SymPy expressions as tapes: flat lists of steps, made once with an explicit stack, played over the values of each trace.

Assumes that equal heads with equal parts are the same value. Guarantees one step for each different part, whatever the depth,
and time linear in the parts; integers that are known (indices, bounds) are computed exactly, before anything is bound.
Refuses, with `TraceError`, heads without a counterpart, and symbols that are not among the arguments.
"""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import sympy as sp
from sympy.core.function import AppliedUndef

from symdiff.errors import TraceError
from symdiff.inspection.sympy_heads import LEAF, ROWS, Row, row_of_own
from symdiff.inspection.sympy_values import Playing, Value
from symdiff.ir.building import Builder
from symdiff.ir.graph import Graph, GraphOutput, from_sympy
from symdiff.tracing.following.following import follow
from symdiff.vocabulary.literals import printable

Step = tuple[Callable[..., Value] | str, tuple[int, ...]]
_SHOWN = 60  # characters of an expression in a message


class Tape:
    """Steps over places: each place is a leaf that is given, a known value, or what a step computes of earlier places.

    `arguments` are taken as leaves whatever their heads; `functions` stand for functions of SymPy by their names.
    """

    def __init__(
        self, arguments: Iterable[Any] = (), functions: dict[str, Callable[..., Any]] | None = None, use_imps: bool = True
    ) -> None:
        self.arguments = frozenset(arguments)
        self.functions = functions or {}
        self.use_imps = use_imps
        self.leaves: dict[Any, int] = {}
        self.counts: set[Any] = set()  # leaves that must be whole numbers: bounds, indices, extents
        self.implementations: list[Callable[..., Any]] = []
        self.over: dict[int, int] = {}  # places that are 1 over another one
        self.minus: dict[int, int] = {}  # places that are another one's negative
        self.whole = False  # whether a step is on whole matrices
        self._heads = {type(a) for a in self.arguments}
        self._known: list[tuple[int, Value]] = []
        self._steps: list[tuple[int, Callable[..., Value] | str, tuple[int, ...]]] = []
        self._count = 0
        self._places: dict[int, int] = {}
        self._kept: list[Any] = []  # what identities in `_places` belong to
        self._equal: dict[Any, int] = {}

    def place(self, root: Any) -> int:
        """The place of an expression."""
        places = self._places
        opened: dict[int, tuple[Row, Sequence[Any]]] = {}
        stack = [root]
        while stack:
            expr = stack[-1]
            if id(expr) in places:
                stack.pop()
                continue
            found = opened.get(id(expr))
            if found is None:
                row = self._row(expr)
                parts = row.parts(expr, self)
                found = opened[id(expr)] = row, parts
                self._kept += (expr, parts)
                missing = [p for p in parts if id(p) not in places]
                if missing:
                    stack += reversed(missing)
                    continue
            row, parts = found
            subject = expr if type(parts) in (tuple, list) else parts  # with a body of its own
            places[id(expr)] = row.close(self, subject, [places[id(p)] for p in parts])
            del opened[id(expr)]
            stack.pop()
        return places[id(root)]

    def _row(self, expr: Any) -> Row:
        kind = type(expr)
        if kind in self._heads and expr in self.arguments:
            return LEAF
        name = kind.__name__
        if self.functions and name in self.functions and isinstance(expr, sp.Basic):
            return self._implemented(self.functions[name])
        if self.use_imps and (implementation := getattr(kind, "_imp_", None)) is not None:
            return self._implemented(implementation)
        row = _row_of(kind)
        if row is None and isinstance(expr, sp.Expr) and expr.is_number:
            return _EVALUATED
        if row is None:
            raise TraceError(f"SymPy's {_named(expr)} is not known here{_way_out(expr)}")
        return row

    def _implemented(self, function: Callable[..., Any]) -> Row:
        """A function of the user's, which is followed."""
        self.implementations.append(function)
        return Row(lambda expr, tape: expr.args, lambda tape, expr, places: tape.step(_called(function), *places))

    def leaf(self, expr: Any) -> int:
        """The place of what is given at a call."""
        place = self.leaves.get(expr)
        if place is None:
            place = self.leaves[expr] = self._next()
        return place

    def known(self, value: Value) -> int:
        """The place of a number that is known."""
        key = (type(value), repr(value))
        if key not in self._equal:
            place = self._equal[key] = self._next()
            self._known.append((place, value))
        return self._equal[key]

    def step(self, compute: Callable[..., Value] | str, *places: int) -> int:
        """The place of what `compute`, an operation or a function of the playing and values, gives of others."""
        key = (compute, places)
        place = self._equal.get(key)
        if place is None:
            place = self._equal[key] = self._next()
            self._steps.append((place, compute, places))
        return place

    def inner(self, expr: Any, bound: Sequence[Any]) -> tuple["Tape", list[Any]]:
        """The tape of an expression with symbols of its own, and the leaves that it takes from this one."""
        tape = Tape(self.arguments - set(bound), self.functions, self.use_imps)
        tape.end = [tape.place(expr)]
        tape.trim()
        self.implementations += tape.implementations
        self.counts |= tape.counts - set(bound)
        return tape, [leaf for leaf in tape.leaves if leaf not in bound]

    end: Sequence[int] = ()

    def _next(self) -> int:
        self._count += 1
        return self._count - 1

    def play(self, playing: Playing, given: dict[Any, Value]) -> list[Value]:
        """The values at the places `end`, of those of the leaves."""
        values: list[Value] = [None] * self._count
        for leaf, place in self.leaves.items():
            values[place] = given[leaf]
        for place, value in self._known:
            values[place] = value
        for place, compute, places in self._steps:
            args = [values[p] for p in places]
            values[place] = playing.emit(compute, *args) if type(compute) is str else compute(playing, *args)  # type: ignore[operator]
        return [values[p] for p in self.end]

    def trim(self) -> None:
        """Leave out the steps that no end needs."""
        needed = set(self.end)
        kept = []
        for step in reversed(self._steps):
            if step[0] in needed:
                kept.append(step)
                needed.update(step[2])
        self._steps = kept[::-1]
        self._places, self._kept, self._equal = {}, [], {}


_EVALUATED = Row(lambda expr, tape: (), lambda tape, expr, places: tape.known(_evaluated(expr)))


@functools.lru_cache(maxsize=4096)
def _row_of(kind: type) -> Row | None:
    return next((ROWS[k] for k in kind.__mro__ if k in ROWS), None) or row_of_own(kind)


def _evaluated(expr: Any) -> Value:
    """The number that an expression without symbols is."""
    try:
        found = complex(sp.N(expr, 30))
    except TypeError:
        raise TraceError(f"SymPy's {_named(expr)} is not known here{_way_out(expr)}") from None
    return found if found.imag else found.real


def _called(function: Callable[..., Any]) -> Callable[..., Value]:
    return lambda playing, *values: playing.call(follow(function), *values)


def _named(expr: Any) -> str:
    try:
        text = printable(str(expr))
    except RecursionError:
        text = ""
    return f"{type(expr).__name__}{f' ({text[:_SHOWN]})' if text else ''}"


def _way_out(expr: Any) -> str:
    name = type(expr).__name__
    if isinstance(expr, AppliedUndef):
        return f"; make it an argument, or give it a body by implemented_function, or by modules={{'{name}': function}}"
    return f"; rewrite it (expr.doit(), expr.rewrite(...)), make it an argument, or give it by modules={{'{name}': function}}"


# -- containers of expressions


def sympy_leaves(expr: Any, leaf: Callable[[Any], Any]) -> Any:
    """Nested lists, tuples and dictionaries of expressions, with `leaf` of each in its place."""
    if isinstance(expr, sp.Dict):
        return {_key(k): sympy_leaves(v, leaf) for k, v in expr.items()}
    if isinstance(expr, dict):
        return {k: sympy_leaves(v, leaf) for k, v in expr.items()}
    if isinstance(expr, (list, tuple, sp.Tuple)):
        found = [sympy_leaves(e, leaf) for e in expr]
        return found if isinstance(expr, list) else type(expr)(*found) if hasattr(expr, "_fields") else tuple(found)
    return leaf(expr)


def _key(key: Any) -> Any:
    return key.name if isinstance(key, sp.Symbol) else key


def expression_of_sympy(value: Any) -> Any:
    """A leaf as an object of SymPy's."""
    if isinstance(value, (sp.Basic, sp.MatrixBase, sp.NDimArray)):
        return value
    if isinstance(value, sp.Poly):
        return value.as_expr()
    try:
        return sp.sympify(value, strict=True)
    except sp.SympifyError:
        raise TraceError(f"{type(value).__name__} is no expression of SymPy's") from None


@from_sympy.written
def graph_from_sympy(inputs: Any, outputs: Any, name: str) -> Graph:
    """The graph of SymPy expressions over symbols, matrix symbols and indexed bases of known shapes."""
    are_own = outputs is None  # the symbols of the expressions, in the order of their names
    inputs, outputs = ((), inputs) if are_own else (inputs, outputs)
    symbols = list(inputs) if isinstance(inputs, (list, tuple, sp.Tuple)) else [inputs]
    several = isinstance(outputs, (list, tuple))
    tape = Tape(symbols)
    tape.end = [tape.place(expression_of_sympy(e)) for e in (outputs if several else [outputs])]
    tape.trim()
    symbols = sorted(tape.leaves, key=sympy_name) if are_own else symbols
    builder = Builder()
    builder.origin = f"sympy:{name}"
    given = {s: builder.input(sympy_name(s), sympy_shape(s), "d") for s in symbols}
    found = resolved_leaves(tape, given, name)
    playing = Playing(builder, builder.origin)
    atoms = [playing.atom(v) for v in tape.play(playing, found)]
    return builder.graph(name, tuple(GraphOutput(f"{name}{i}" if several else name, a) for i, a in enumerate(atoms)))


def sympy_name(symbol: Any) -> str:
    """The name of a symbol, a matrix symbol or an indexed base; the text of another expression."""
    name = getattr(symbol, "name", None)
    return name if isinstance(name, str) else str(symbol)


def sympy_shape(symbol: Any) -> tuple[int, ...]:
    """The shape of a symbol's value. Raises `TraceError` where it is not known."""
    shape = getattr(symbol, "shape", None)
    if shape is None and isinstance(symbol, sp.IndexedBase):
        raise TraceError(f"{symbol}: give its shape, IndexedBase({str(symbol)!r}, shape=(3,))")
    if any(not n.is_Integer for n in map(sp.sympify, shape or ())):
        raise TraceError(f"{symbol}: its shape {shape} is not known; write it with numbers")
    return tuple(map(int, shape or ()))


def resolved_leaves(tape: Tape, given: dict[Any, Value], name: str) -> dict[Any, Value]:
    """What each leaf of a tape is: given, or an extent of what is. Raises `TraceError` for other symbols."""
    found = dict(given)
    for symbol, value in given.items():
        for extent, n in zip(getattr(symbol, "shape", None) or (), getattr(value, "shape", ()), strict=False):
            if extent in tape.leaves and extent not in found:
                found[extent] = int(n)
    unused = [symbol for symbol in given if symbol not in tape.leaves]
    for leaf in tape.leaves:
        alike = [symbol for symbol in unused if leaf not in found and sympy_name(symbol) == sympy_name(leaf)]
        if len(alike) == 1:  # x for x[i], or for an x of other assumptions, as where names are printed
            found[leaf] = found[alike[0]]
        if leaf not in found:
            known = ", ".join(map(sympy_name, given))
            raise TraceError(f"{name}: {printable(sympy_name(leaf))} is not among the arguments{f' {known}' if known else ''}")
    return found
