"""Graphs as terms: what the user wrote, under the names that he gave.

Assumes bindings of numbers (arrays are cells). Guarantees textbook spellings of what machines compute another way (`expm1`,
`hypot`, `logaddexp`), and that a rule's branches for rounding are left out: of two arms with the same values the shorter one
stands, those at single points and for infinities are dropped.
"""

import operator
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from functools import reduce
from math import factorial
from typing import Any, ClassVar

import numpy as np

from symdiff.inspection.exact import HALF, ONCE
from symdiff.inspection.matrix_values import is_thin
from symdiff.inspection.reading.terms import ONE, ZERO, Term, Terms, inside_first
from symdiff.ir.graph import Graph
from symdiff.ir.node import Atom, Constant, Node
from symdiff.rulebooks.calls import extreme_by_rule
from symdiff.rulebooks.elsewhere import plain_formula
from symdiff.rulebooks.rule import apply
from symdiff.vocabulary.traits import operations

_CONSTANTS = {"pi": "pi", "e": "e", "euler": "gamma_E"}  # of formulas, by what they are called here
_OPPOSITE = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "eq": "ne", "ne": "eq"}


class Writer(Terms):
    """Makes terms of operations."""

    ONE_BRACE = True  # whether what is multiplied with a brace is written in each of its rows
    OWN = 14  # printed width of a piece that the user has named, which has its name where it stands twice

    def __init__(self) -> None:
        super().__init__()
        self.sites: dict[str, Node] = {}
        self.counts: Mapping[str, int] = {}  # symbols that are numbers of cells
        self.indices = 0  # the bits of symbols that are places of an index

    def site(self, binding: Node) -> str:
        """The operation that a call of a function with a rule of its own is; those of another of that name have another."""
        op = f"call {binding.params.__name__}"
        while op in self.sites and self.sites[op].params.rule.place != binding.params.rule.place:
            op += " "
        self.sites.setdefault(op, binding)
        return op

    def standing(self, name: str, term: Term) -> Term:
        """A symbol that stands for a term."""
        return self.symbol(name, term.is_complex)

    def primed(self, symbol: Term) -> Term:
        """The symbol of the derivative of a value of a round, x'[k] of x[k]."""
        return self.symbol(symbol.parts[0].replace("[", "'[", 1))

    def is_array(self, term: Term) -> bool:
        """Whether a term has cells."""
        return False

    def long(self, term: Term, often: bool) -> int:
        """The printed width from which on a piece is named that stands twice, or often: 20 are some 28 characters of text."""
        return 16 if often else 20

    def letter(self, term: Term) -> str | None:
        """What a piece without a name of the user's is called; None for any letter."""
        return None

    def emit(self, op: str, args: tuple[Term, ...]) -> Term:
        """One operation on terms."""
        if op in operations("logic"):
            return self._logical(op, args)
        if op == "select":
            condition, a, b = args
            return self.chosen(self._truth(condition), self.amount(a), self.amount(b))
        args = tuple(map(self.amount, args))
        if op in _OPPOSITE:
            if all(a.kind == "number" for a in args):
                return self.number(getattr(operator, op)(args[0].parts[0], args[1].parts[0]))
            return self.call(op, *args)
        spelled, formula = SPELLED.get((op, len(args))), plain_formula(op, "read")
        if formula is not None:
            return apply(formula.exact or formula, args, None, self.formula_step)
        return self.call(op, *args) if spelled is None else spelled(self, *args)

    def formula_step(self, op: str, args: tuple[Term, ...], payload: Any) -> Term:
        """A step of a formula of a table."""
        if op != "const":
            return self.emit(op, args)
        if payload in _CONSTANTS:
            return self.constant(_CONSTANTS[payload])
        return self.number(payload if isinstance(payload, (int, complex)) else float(payload))

    def unguarded(self, op: str, args: tuple[Term, ...]) -> Term:
        """One operation of a derivative that was made by the machine: without its branches for infinities and rounding."""
        if op in ("isfinite", "isnan", "isinf"):
            return self.number(op == "isfinite")
        if op in ("eq", "ne") and args[0] is args[1]:  # whether it is no NaN
            return self.number(op == "eq")
        if op != "select":
            return self.emit(op, args)
        condition, a, b = args
        return b if is_thin(condition) and a.parts != (HALF,) else self.emit(op, args)

    def raised(self, base: Term, exponent: Term) -> Term:
        """A power."""
        if exponent.kind == "number":
            return self.power(base, exponent.parts[0])
        if base is ONE:
            return ONE
        if base.parts == ("exp", ONE):
            return self.call("exp", exponent)
        return self.call("pow", base, exponent)

    def chosen(self, condition: Term, a: Term, b: Term) -> Term:
        """a where a condition holds, else b; each as it is where it counts."""
        if condition.op == "not":
            condition, a, b = condition.parts[1], b, a
        return self.brace([(condition, self.assumed(a, condition, True))], self.assumed(b, condition, False))

    def assumed(self, term: Term, condition: Term, holds: bool) -> Term:
        """A term where a condition holds, or does not: braces of the same condition are decided."""
        opposite = self._made.get(("call", (_OPPOSITE.get(condition.op), *condition.operands)), condition)

        def decided(found: Term) -> Term | None:
            if found.kind != "brace":
                return None
            rows = []
            for c, value in found.parts[:-1]:
                if c is not condition and c is not opposite:
                    rows.append((c, value))
                elif (c is condition) == holds:
                    return self.brace(rows, value)
            return self.brace(rows, found.parts[-1][1])

        return self.rewritten(term, decided) if term.has_brace else term

    def rewritten(self, term: Term, change: Callable[[Term], Term | None], done: dict[Term, Term] | None = None) -> Term:
        """A term with what `change` puts in the place of its parts, the innermost first; `done` keeps it for other terms."""
        done = {} if done is None else done
        for found in inside_first(term, done):
            rebuilt = self.rebuilt(found, done)
            changed = change(rebuilt)
            done[found] = rebuilt if changed is None else changed
        return done[term]

    def rebuilt(self, term: Term, parts: dict[Term, Term]) -> Term:
        """A term with other terms in the places of its parts."""
        if all(parts.get(t, t) is t for t in term.below()):
            return term
        if term.kind == "sum":
            return self.add([(parts[t], c) for t, c in term.parts])
        if term.kind == "product":
            return self.powers([(parts[t], e) for t, e in term.parts])
        if term.op:
            return self.emit(term.op, tuple(parts[t] for t in term.operands))
        *rows, (_, otherwise) = term.parts
        found = parts[otherwise]
        for c, v in reversed(rows):
            found = self.chosen(parts[c], parts[v], found)
        return found

    def _truth(self, term: Term) -> Term:
        """A number as a condition."""
        if term.is_condition or term.op in ("true", "false"):
            return term
        if term.kind == "number":
            return self.number(bool(term.parts[0]))
        return self.call("ne", term, ZERO)

    def amount(self, term: Term) -> Term:
        """A condition as a number: 1 where it holds."""
        if term.is_condition:
            return self.brace([(term, ONE)], ZERO)
        return {"true": ONE, "false": ZERO}.get(term.op, term)

    def _logical(self, op: str, args: tuple[Term, ...]) -> Term:
        args = tuple(map(self._truth, args))
        first, *_ = args
        if op == "not":
            if first.op in ("true", "false"):
                return self.number(first.op == "false")
            if first.op == "not":
                return first.operands[0]
            return self.call(_OPPOSITE[first.op], *first.operands) if first.op in _OPPOSITE else self.call("not", first)
        if op in ("and", "or"):
            idle, decisive = self.number(op == "and"), self.number(op == "or")
            kept = [a for a in dict.fromkeys(args) if a is not idle]
            if decisive in kept:
                return decisive
            if len(kept) < 2:
                return kept[0] if kept else idle
        return self.call(op, *args)


def _log_gamma(t: Writer, x: Term) -> Term:
    """The logarithm of the gamma function; of a small whole number, that of a factorial."""
    is_count = x.kind == "number" and x.parts[0].denominator == 1 and 1 <= x.parts[0] <= 8
    return t.call("log", t.number(factorial(int(x.parts[0]) - 1))) if is_count else t.call("gammaln", x)


# What a reader calls by another name than the machine, by operation and number of operands.
SPELLED: dict[tuple[str, int], Any] = {
    ("add", 2): lambda t, a, b: t.plus(a, b),
    ("sub", 2): lambda t, a, b: t.plus(a, t.neg(b)),
    ("mul", 2): lambda t, a, b: t.mul([a, b]),
    ("div", 2): lambda t, a, b: t.powers([(a, ONCE), (b, -ONCE)]),
    ("neg", 1): lambda t, a: t.neg(a),
    ("pow", 2): Writer.raised,
    ("sqrt", 1): lambda t, a: t.power(a, HALF),
    ("cast", 1): lambda t, a: a,
    ("edge", 1): lambda t, a: ZERO,
    ("gammaln", 1): _log_gamma,
    ("cotdg", 1): lambda t, a: t.call("cot", t.scaled(t.mul([t.call("pi"), a]), Fraction(1, 180))),
    **{(f"{letter}v", 2): lambda t, n, a, name=letter: t.call(f"{name}0", a) if n is ZERO else t.call(f"{name}v", n, a)
       for letter in "jyik"},
}  # fmt: skip


def cell_name(name: str, shape: tuple[int, ...], cell: int) -> str:
    """The name of one cell of an array: x[3], W[1,0]; of a number its own."""
    return name if not shape else f"{name}[{','.join(str(int(i)) for i in np.unravel_index(cell, shape))}]"


class Chains:
    """Sums and products of many operands, whose steps are used once: their parts are collected before a term is made."""

    KINDS: ClassVar = {"add": ("add", 1, 1), "sub": ("add", 1, -1), "mul": ("mul", 1, 1), "div": ("mul", 1, -1)}

    def __init__(self, graph: Graph, cut: Iterable[Atom] = ()) -> None:
        users: dict[Atom, list[str]] = {}
        for binding in graph.bindings:
            for operand in binding.operands:
                users.setdefault(operand, []).append(self.KINDS.get(binding.op, ("",))[0])
        results = {*(output.atom for output in graph.outputs), *cut}
        self._steps = {
            b for b in graph.bindings if b.op in self.KINDS and b not in results and users.get(b) == [self.KINDS[b.op][0]]
        }
        self._parts: dict[Atom, list[tuple[Term, Fraction]]] = {}

    def term(self, binding: Node, args: list[Term | None], writer: Writer) -> Term | None:
        """The term of a sum or product, None where it is a step of a longer one. Operands that are steps have no term."""
        kind, *signs = self.KINDS[binding.op]
        parts: list[tuple[Term, Fraction]] = []
        for operand, arg, sign in zip(binding.operands, args, signs, strict=True):
            found = [(writer.amount(arg), ONCE)] if arg is not None else self._parts.pop(operand)
            if sign < 0:
                found = [(t, -c) for t, c in found]
            if parts:
                parts += found
            else:
                parts = found
        if binding in self._steps:
            self._parts[binding] = parts
            return None
        return writer.add(parts) if kind == "add" else writer.powers(parts)


def read_graph(
    graph: Graph, writer: Writer, known: dict[Atom, Term], cut: Mapping[Atom, Term] | None = None
) -> dict[Atom, Term]:
    """Add the terms of a graph's numbers to those of its inputs; those for which symbols stand (`cut`) are returned."""
    cut = cut or {}
    chains = Chains(graph, cut)
    found: dict[Atom, Term] = {}
    for binding in graph.bindings:
        if binding.op == "array" or binding in known:
            continue
        term = _term_of_binding(binding, chains, writer, known)
        if term is not None and binding in cut:
            found[binding], term = term, cut[binding]
        if term is not None:
            known[binding] = term
    return found


def _term_of_binding(binding: Node, chains: Chains, writer: Writer, known: dict[Atom, Term]) -> Term | None:
    """The term of a binding, None where it is a step of a longer one."""
    if binding.op in chains.KINDS:
        args = [term_of(o, writer, known) if o in known or o.op == "const" else None for o in binding.operands]
        return chains.term(binding, args, writer)
    operands = tuple(term_of(o, writer, known) for o in binding.operands)
    if binding.op == "call":
        return _called(binding, operands, writer)
    return (writer.emit if binding.primal else writer.unguarded)(binding.op, operands)


def _called(binding: Node, args: tuple[Term, ...], writer: Writer) -> Term:
    """A call of a function with a rule of its own, under its name."""
    name = binding.params.__name__
    extreme = extreme_by_rule(binding)
    if extreme:
        return reduce(lambda a, b: writer.call(extreme, a, b), args)
    if name in ("sum", "fsum"):
        return writer.plus(*args)
    if name == "logsumexp" and binding.params.rule.module == "numpy":  # of cells
        return writer.call("log", writer.plus(*(writer.call("exp", a) for a in args)))
    return writer.call(writer.site(binding), *args)


def result_terms(graph: Graph, writer: Writer, known: dict[Atom, Term]) -> list[list[Term]]:
    """The cells of each result of a graph that was read."""
    arrays = {b: b.operands for b in graph.bindings if b.op == "array"}
    return [[term_of(cell, writer, known) for cell in arrays.get(o.atom, (o.atom,))] for o in graph.outputs]


def term_of(atom: Atom, writer: Writer, known: dict[Atom, Term]) -> Term:
    """The term of an atom that was read."""
    return writer.number(atom.value) if isinstance(atom, Constant) else known[atom]
