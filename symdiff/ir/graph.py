"""The Graph: named inputs, named outputs, and an ordered list of bindings `symbol = one small SymPy expression`.

Assumes operations of `ops.OPS` for elementwise bindings and names of NumPy functions for structural ones. Guarantees
(checked by `check_graph`): every symbol is bound once, before it is used, with a shape, a dtype and the user's
file:line; constants keep their bits. Refuses to nest: an operand is a symbol or a constant, because SymPy flattens
nested sums and products, which destroys the sharing that a reverse sweep creates.
"""

import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import sympy as sp
from sympy.core.expr import AtomicExpr, Expr

from symdiff.errors import InvariantError
from symdiff.vocabulary.literals import printable
from symdiff.vocabulary.ops import OPS
from symdiff.vocabulary.seams import Seam

Number = bool | int | float | complex

sympy_expression = Seam("a binding as a SymPy expression")
sympy_expressions = Seam("the outputs of a graph as SymPy expressions")
from_sympy = Seam("a graph of SymPy expressions")
evaluated = Seam("the value of a graph, binding by binding")
shown = Seam("the LaTeX of a graph")


class Var(sp.Symbol):
    """A bound or input symbol with a shape and a dtype code. Two are equal only when they are the same object."""

    __slots__ = ("dtype", "shape")

    def __new__(cls, name: str, shape: tuple[int, ...] = (), dtype: str = "d") -> "Var":
        self = Expr.__new__(cls)
        self.name = name
        self.shape = shape
        self.dtype = dtype
        # What Symbol.__xnew__ sets for a plain commutative symbol, shared by all: 0.6 us instead of 2.7.
        self._assumptions = _PLAIN._assumptions
        self._assumptions_orig = _PLAIN._assumptions_orig
        self._assumptions0 = _PLAIN._assumptions0
        return self

    __hash__ = object.__hash__
    __eq__ = object.__eq__  # type: ignore[assignment]
    __ne__ = object.__ne__  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:  # type: ignore[override]
        return Var, (self.name, self.shape, self.dtype)

    def __getnewargs_ex__(self) -> tuple[Any, ...]:
        return (self.name, self.shape, self.dtype), {}


_PLAIN = sp.Symbol("x")


class Constant(AtomicExpr):
    """A number with its bits. `dtype` is None for Python's weak numbers, else the code of a NumPy scalar's dtype."""

    __slots__ = ("dtype", "value")
    shape: tuple[int, ...] = ()
    is_commutative = True
    is_number = True

    def __new__(cls, value: Number, dtype: str | None = None) -> "Constant":
        self = Expr.__new__(cls)
        self.value = value
        self.dtype = dtype
        return self

    __hash__ = object.__hash__
    __eq__ = object.__eq__  # type: ignore[assignment]
    __ne__ = object.__ne__  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:  # type: ignore[override]
        return Constant, (self.value, self.dtype)

    def _sympystr(self, printer: Any) -> str:
        return repr(self.value)


class ArrayConstant(AtomicExpr):
    """A read-only array that the user's function holds."""

    __slots__ = ("value",)
    is_commutative = True

    def __new__(cls, value: np.ndarray) -> "ArrayConstant":
        self = Expr.__new__(cls)
        self.value = np.array(value)
        self.value.flags.writeable = False
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    @property
    def dtype(self) -> str:
        return self.value.dtype.char

    __hash__ = object.__hash__
    __eq__ = object.__eq__  # type: ignore[assignment]
    __ne__ = object.__ne__  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:  # type: ignore[override]
        return ArrayConstant, (self.value,)

    def _sympystr(self, printer: Any) -> str:
        return f"array{list(self.value.shape)}"


Atom = Var | Constant | ArrayConstant


class Binding:
    """`symbol = op(operands)`. `params` holds the static arguments of a structural operation or of a call.

    `primal` tells that the user wrote the operation; derivatives and helpers of ours have it False.
    """

    __slots__ = ("op", "operands", "origin", "params", "primal", "symbol")

    def __init__(self, symbol: Var, op: str, operands: tuple[Atom, ...], params: Any, origin: str, primal: bool) -> None:
        self.symbol = symbol
        self.op = op
        self.operands = operands
        self.params = params
        self.origin = origin
        self.primal = primal

    @property
    def shape(self) -> tuple[int, ...]:
        return self.symbol.shape

    @property
    def dtype(self) -> str:
        return self.symbol.dtype

    @property
    def expr(self) -> sp.Expr:
        """The right-hand side as an unevaluated SymPy expression over symbols."""
        return sympy_expression(self.op, self.operands, self.params)

    def __str__(self) -> str:
        return self.told({})

    def told(self, names: Mapping[Atom, str]) -> str:
        """The binding as text, with other `names` of symbols than their own."""
        name = names.get(self.symbol, self.symbol.name)
        inside = [names.get(o) or str(o) for o in self.operands]
        if self.op == "item":
            index = ", ".join(str(int(i)) for i in np.unravel_index(self.params, self.operands[0].shape))
            return f"{name} = {inside[0]}[{index}]"
        if self.op == "call":
            return f"{name} = {self.params.__name__} {' '.join(inside)}"
        if self.params is not None and self.op != "array":
            inside += [f"{key}={value}" for key, value in self.params.items()]
        return f"{name} = {self.op} {' '.join(inside)}"


@dataclass(frozen=True, slots=True)
class GraphInput:
    """An argument leaf: its symbol (which has name, shape and dtype) and its path in the argument structure."""

    symbol: Var
    path: str

    @property
    def name(self) -> str:
        return self.symbol.name


@dataclass(frozen=True, slots=True)
class GraphOutput:
    """A result leaf: a Python name, and the atom that holds it."""

    name: str
    atom: Atom

    @property
    def shape(self) -> tuple[int, ...]:
        return self.atom.shape

    @property
    def dtype(self) -> str:
        return self.atom.dtype or _code(self.atom.value)


def _code(value: Number) -> str:
    return "?" if isinstance(value, bool) else "D" if isinstance(value, complex) else "d"


@dataclass(slots=True)
class Graph:
    """A traced function. `in_tree` and `out_tree` are optree structures of arguments and result, None for flat tuples."""

    name: str
    inputs: tuple[GraphInput, ...]
    outputs: tuple[GraphOutput, ...]
    bindings: list[Binding]
    out_tree: Any = None
    origin: str = ""
    doc: str = ""
    notes: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_sympy(cls, inputs: Any, outputs: Any, name: str = "f") -> "Graph":
        """A graph of SymPy expressions: `inputs` are symbols, `outputs` an expression or a list of them.

        Arguments are float64 scalars. Raises `TraceError` for a head without an operation of ours.

        >>> x, y = sp.symbols("x y")
        >>> float(Graph.from_sympy([x, y], x*sp.exp(y))(2.0, 0.0))
        2.0
        """
        return from_sympy(inputs, outputs, name)

    @property
    def expr(self) -> Any:
        """The outputs as plain SymPy, bindings inlined: one expression, or a list when there are several.

        Raises `TraceError` where the inlined expression would have more than 20,000 nodes.
        """
        return sympy_expressions(self)

    def cse(self) -> tuple[list[tuple[sp.Symbol, sp.Expr]], list[sp.Expr]]:
        """SymPy's common subexpressions of `expr`: (replacements, reduced expressions)."""
        exprs = self.expr
        return sp.cse(exprs if isinstance(exprs, list) else [exprs])

    def __call__(self, *args: Any) -> Any:
        """Evaluate binding by binding with NumPy; slow and simple, the second opinion for generated code."""
        return evaluated(self, args)

    def digest(self) -> str:
        """The first eight hex digits of `fingerprint`."""
        return self.fingerprint()[:8]

    def fingerprint(self) -> str:
        """The SHA-256 of the graph's text without origins, its symbols numbered in order, and of the cells of its arrays."""
        names = {binding.symbol: f"v{k}" for k, binding in enumerate(self.bindings)}
        found = hashlib.sha256("\n".join([self._headline(), *(f"  {b.told(names)}" for b in self.bindings)]).encode())
        for binding in self.bindings:
            parameters: dict[str, Any] = getattr(binding.params, "params", {})
            for value in (*parameters.values(), *(o.value for o in binding.operands if isinstance(o, ArrayConstant))):
                if isinstance(value, np.ndarray):
                    found.update(f"{value.dtype.str}{value.shape}".encode() + value.tobytes())
        return found.hexdigest()

    def operations(self) -> int:
        """Elementwise operations of the scalar bindings as they stand, before sharing."""
        return sum(OPS[b.op].cost for b in self.bindings if b.op in OPS)

    def _headline(self) -> str:
        signature = ", ".join(f"{i.name}: {typed(i.symbol)}" for i in self.inputs)
        return f"{self.name}({signature}) -> {', '.join(o.name for o in self.outputs)}"

    def _lines(self) -> Iterator[str]:
        results: dict[Atom, list[str]] = {}
        for output in self.outputs:
            results.setdefault(output.atom, []).append(output.name)
        wide = max([8, *(len(typed(b.symbol)) for b in self.bindings)])
        for binding in self.bindings:
            text = f"  {binding}"
            end = f"= {', '.join(results[binding.symbol])}" if binding.symbol in results else ""
            yield f"{text:<36} {typed(binding.symbol):<{wide}} {binding.origin:<20} {end}".rstrip()

    def __str__(self) -> str:
        branches = self.notes.get("branches")
        count = f"{len(self.bindings)} bindings" + ("" if branches is None else f", {branches}")
        lines = [f"{self._headline()}{' ' * 10}{count}", *self._lines()]
        constants = [f"  {o.name} = {o.atom}" for o in self.outputs if not isinstance(o.atom, Var)]
        return "\n".join(map(printable, lines + constants))

    def _repr_latex_(self) -> str:
        return shown(self)


def typed(symbol: Var) -> str:
    """The type of a symbol as printed: f64, c128[3, 4], bool."""
    names = {"?": "bool", "f": "f32", "d": "f64", "F": "c64", "D": "c128"}
    kind = names.get(symbol.dtype, symbol.dtype)
    return kind + (f"[{', '.join(map(str, symbol.shape))}]" if symbol.shape else "")


def live_bindings(bindings: list[Binding], outputs: tuple[GraphOutput, ...]) -> list[Binding]:
    """The bindings that some output needs, in order."""
    needed: set[Atom] = {o.atom for o in outputs}
    kept = []
    for binding in reversed(bindings):
        if binding.symbol in needed:
            kept.append(binding)
            needed.update(binding.operands)
    kept.reverse()
    return kept


def check_graph(graph: Graph) -> None:
    """Raise `InvariantError` where the graph breaks its invariant."""
    bound: set[Atom] = {i.symbol for i in graph.inputs}
    if len(bound) != len(graph.inputs):
        raise InvariantError("two inputs share a symbol")
    for binding in graph.bindings:
        for operand in binding.operands:
            if isinstance(operand, Var) and operand not in bound:
                raise InvariantError(f"{binding.symbol} uses {operand} before it is bound")
        if binding.symbol in bound:
            raise InvariantError(f"{binding.symbol} is bound twice")
        if binding.op in OPS and OPS[binding.op].arity not in (-1, len(binding.operands)):
            raise InvariantError(f"{binding}: wrong number of operands")
        bound.add(binding.symbol)
    for output in graph.outputs:
        if isinstance(output.atom, Var) and output.atom not in bound:
            raise InvariantError(f"output {output.name} is not bound")
        if math.prod(output.shape) < 0:
            raise InvariantError(f"output {output.name} has a negative size")
