"""Programs of whole arrays for readers: elementwise operations as they are written, the others as functions of arrays.

Assumes a graph that does not become few enough cells. Guarantees terms that NumPy's broadcasting reads as the graph does: a
shape that no operand of an elementwise operation tells is written, and so is each parameter.
"""

from graphlib import TopologicalSorter
from typing import Any

import numpy as np
import sympy as sp

from symdiff.inspection.reading.composing import Composer
from symdiff.inspection.reading.equations import Equation
from symdiff.inspection.reading.formula import Formula
from symdiff.inspection.reading.lines import Line, composed_lines
from symdiff.inspection.reading.matrix_heads import CallOf, PartOf, Verbatim
from symdiff.inspection.reading.names import unicode_name
from symdiff.inspection.reading.naming import Names, input_names
from symdiff.inspection.reading.terms import Term, inside_first
from symdiff.inspection.reading.written import Writer, cell_name
from symdiff.ir.graph import Graph
from symdiff.ir.node import ArrayConstant, Atom, Constant, Node
from symdiff.rulebooks.calls import called_name
from symdiff.vocabulary.extents import broadcast_extents
from symdiff.vocabulary.heads import head_parameter, key_literal
from symdiff.vocabulary.ops import OPS, is_complex

_CALLED, _PART, _TEXT = "function ", "part ", "text "  # what a call is, before its name


def array_formula(graph: Graph) -> Formula:
    """The bindings of a graph as equations, over names of what stands more than once."""
    program = _Program(graph)
    results = [Line(sp.Symbol(o.name), program.term(o.atom)) for o in graph.outputs]
    named = [Line(sp.Symbol(symbol.parts[0]), term) for symbol, term in program.named.items()]
    kept, taken = set(program.found.values()), [*program.own, *program.writer.bits]
    equations, where = composed_lines(program.writer, results, named, {}, taken, kept, _ProgramComposer)
    where = (*where[len(named) :], *where[: len(named)])
    return Formula(equations, _in_order(where) if named else where, tuple(program.notes))


def _in_order(where: tuple[Equation, ...]) -> tuple[Equation, ...]:
    """Equations, each after those of the names that it uses."""
    by_name = {e.left: e for e in where}
    order = TopologicalSorter({e.left: e.right.free_symbols & by_name.keys() for e in where}).static_order()
    return tuple(by_name[left] for left in order)


class _ArrayWriter(Writer):
    """Writes terms of arrays."""

    def assumed(self, term: Term, condition: Term, holds: bool) -> Term:
        """A condition tells nothing of what functions of arrays take, whose cells are others."""
        seen: set[Term] = set()
        for found in inside_first(term, seen):
            if found.op.startswith((_CALLED, _PART)):
                return term
            seen.add(found)
        return super().assumed(term, condition, holds)


class _Program:
    """The terms of a graph; `named` are those that loops use, by their names."""

    def __init__(self, graph: Graph) -> None:
        self.writer = _ArrayWriter()
        self.named: dict[Term, Term] = {}
        self.notes: list[str] = []
        inputs = input_names(graph.inputs)
        arrays = [f"{name}[]" for name, leaf in zip(inputs, graph.inputs, strict=True) if leaf.shape]
        self.own = [*inputs, *arrays, *(output.name for output in graph.outputs)]
        self._names = Names(self.own)
        self._shapes: dict[Term, tuple[Any, ...]] = {}  # of symbols and calls of functions of arrays
        self._constants: dict[Any, Term] = {}
        self.found: dict[Atom, Term] = {}
        for leaf, name in zip(graph.inputs, inputs, strict=True):
            self.found[leaf.node] = self._symbol(name, leaf.node)
        for binding in graph.bindings:
            self.found[binding] = self._term_of(binding)

    def term(self, atom: Atom) -> Term:
        """The term of an atom, whose shape it may have by broadcasting only."""
        if isinstance(atom, Constant):
            return self.writer.number(atom.value)
        return self._constant(atom.value, atom) if isinstance(atom, ArrayConstant) else self.found[atom]

    def _symbol(self, name: str, atom: Atom) -> Term:
        found = self.writer.symbol(name, is_complex(atom.dtype))
        self._shapes[found] = atom.shape
        return found

    def _constant(self, array: np.ndarray, atom: Atom) -> Term:
        """A constant array: the number in its cells, or a name."""
        if array.size and (array == array.flat[0]).all():
            return self.writer.number(array.flat[0].item())
        found = self._named_constant(array, "C" if array.ndim > 1 else "c", "constants")
        self._shapes[found] = atom.shape
        return found

    def _named_constant(self, array: np.ndarray, wanted: str, what: str) -> Term:
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._constants:
            name = self._names.next(wanted)
            self._constants[key] = self.writer.symbol(name, array.dtype.kind == "c")
            self.notes.append(f"{unicode_name(name)} is an array of {what} of shape {array.shape}")
        return self._constants[key]

    def _shape(self, term: Term) -> tuple[Any, ...]:
        """The shape of what is written."""
        for found in inside_first(term, self._shapes):
            self._shapes[found] = broadcast_extents(*(self._shapes[t] for t in found.below()))
        return self._shapes[term]

    def _whole(self, atom: Atom) -> Term:
        """The term of an atom with its shape."""
        found = self.term(atom)
        if self._shape(found) == atom.shape:
            return found
        return self._called(f"{_CALLED}broadcast_to", [found, self._text(f"shape={atom.shape}")], atom)

    def _text(self, text: str) -> Term:
        return self.writer.call(_TEXT + text)

    def _called(self, name: str, args: list[Term], atom: Atom) -> Term:
        """A call of a function of arrays."""
        found = self.writer.call(name, *args)
        found.is_complex = found.is_complex or is_complex(atom.dtype)
        self._shapes[found] = atom.shape
        return found

    def _term_of(self, binding: Node) -> Term:
        op, operands, params = binding.op, binding.operands, binding.params
        if op in OPS and op != "call":
            return self.writer.emit(op, tuple(map(self.term, operands)))
        if op == "broadcast_to" or (op == "reshape" and _is_leading(operands[0].shape, binding.shape)):
            return self.term(operands[0])
        if op == "size":
            return self._text(str(params))
        if op == "loop":
            return self._loop(binding)
        args = [self._whole(o) for o in operands]
        if op in ("item", "getitem", "part"):
            return self._part(binding, args[0])
        if op == "array" and len(binding.shape) > 1:
            args.append(self._text(f"shape={binding.shape}"))
        parameters = [] if op in ("array", "call", "site") or params is None else params.params.items()
        args += [self._parameter(key, value) for key, value in parameters]
        return self._called(_CALLED + called_name(binding), args, binding)

    def _parameter(self, key: str, value: Any) -> Term:
        """A parameter as it is written; many places by a name."""
        if not isinstance(value, np.ndarray) or value.size < 2:
            return self._text(f"{key}={head_parameter(key, value) if not isinstance(value, np.ndarray) else value.tolist()}")
        return self._text(f"{key}={unicode_name(self._named_constant(value, 'p', 'places').parts[0])}")

    def _part(self, binding: Node, base: Term) -> Term:
        """Cells of an array, or a result of a loop."""
        whole = binding.operands[0]
        if binding.op == "item" and whole.op == "input":
            return self._symbol(cell_name(base.parts[0], whole.shape, binding.params), binding)
        if binding.op == "item":
            text = cell_name("", whole.shape, binding.params)
        elif binding.op == "part":
            text = f".{whole.params.results[binding.params].name}"
        else:
            text = f"[{key_literal(binding.params.params['key'], whole.shape)}]"
        return self._called(_PART + text, [base], binding)

    def _loop(self, binding: Node) -> Term:
        """A loop, in the words of the graph, over names."""
        names = {o: unicode_name(self._name_of(o)) for o in binding.operands if not isinstance(o, (Constant, ArrayConstant))}
        found = self._symbol(self._names.next(None), binding)
        self.notes.append(binding.told({**names, binding: unicode_name(found.parts[0])}))
        return found

    def _name_of(self, atom: Atom) -> str:
        term = self._whole(atom)
        if term.kind == "symbol":
            return str(term.parts[0])
        symbol = next((s for s, t in self.named.items() if t is term), None)
        if symbol is None:
            symbol = self._symbol(self._names.next(None), atom)
            self.named[symbol] = term
        self.found[atom] = symbol
        return str(symbol.parts[0])


def _is_leading(before: tuple[Any, ...], after: tuple[Any, ...]) -> bool:
    """Whether a shape has become another by further axes in front, which broadcasting adds by itself."""
    more = len(after) - len(before)
    return more >= 0 and after == (1,) * more + before


class _ProgramComposer(Composer):
    """Makes expressions of terms of programs."""

    def _called(self, op: str, made: list[Any], term: Term) -> Any:
        if op.startswith(_CALLED):
            return CallOf(sp.Symbol(op.removeprefix(_CALLED)), *made)
        if op.startswith(_PART):
            return PartOf(*made, sp.Symbol(op.removeprefix(_PART)))
        return Verbatim(sp.Symbol(op.removeprefix(_TEXT))) if op.startswith(_TEXT) else super()._called(op, made, term)
