"""Derivatives of terms by the plain chain rule, from the formulas of the rules in force.

Assumes rules whose formulas hold where they are tested. Guarantees derivatives in the terms of what is derived: shared parts
stay shared. A complex symbol has two derivatives, by itself and by its conjugate (Wirtinger's calculus).
"""

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np

from symdiff.differentiation.bodies import python_partials
from symdiff.errors import RuleError
from symdiff.inspection.exact import HALF, ONCE
from symdiff.inspection.matrix_values import is_thin
from symdiff.inspection.reading.terms import MERGED, ONE, ZERO, Term, inside_first
from symdiff.inspection.reading.written import Writer, read_graph, term_of
from symdiff.ir.building import Builder
from symdiff.ir.graph import Graph
from symdiff.ir.node import Node
from symdiff.rulebooks.precision import NAMED
from symdiff.rulebooks.rule import Rule, apply
from symdiff.rulebooks.tables import Template
from symdiff.vocabulary.ops import OPS

SAMPLES = 200  # points in the interval of a rule, and as many outside, at which the arms of its branches are compared
FAR = 1e3  # how far outside
_MANY = 24  # terms of a sum from which on it is known which of them need a symbol


class Slopes:
    """Derivatives of the terms of one writer."""

    def __init__(self, writer: Writer, rules: Any) -> None:
        self.writer = writer
        self.rules = rules
        self.has_kinks = False  # whether what was derived has points without a derivative that are left out
        self._found: dict[tuple[Term, Term, bool], Term] = {}
        self._partials: dict[Any, Term | None] = {}
        self._needing: dict[Term, dict[int, list[tuple[Term, Fraction]]]] = {}

    def along(self, term: Term, changes: Iterable[tuple[Term, Term]]) -> Term:
        """The change of a term with those of symbols."""
        t = self.writer
        return t.plus(*(t.mul([self.of(term, symbol), change]) for symbol, change in changes))

    def back(self, symbol: Term, uses: Iterable[tuple[Term, Term]]) -> Term:
        """The derivative by a symbol of the sum of terms times their weights."""
        t = self.writer
        return t.plus(*(t.mul([self.of(term, symbol), weight]) for term, weight in uses))

    def of(self, term: Term, symbol: Term, conjugate: bool = False) -> Term:
        """The derivative of a term by a symbol, or by its conjugate."""
        if not term.needs & symbol.needs:
            return ZERO
        key = (term, symbol, conjugate)
        if key not in self._found:
            for found in inside_first(key, self._found, self._below):
                self._found[found] = self._of(*found)
        return self._found[key]

    def _below(self, key: tuple[Term, Term, bool]) -> list[tuple[Term, Term, bool]]:
        """The derivatives of which one is made."""
        term, symbol, conjugate = key
        below = self._active(term, symbol)
        sides = (False, True) if symbol.is_complex and any(t.is_complex for t in below) else (conjugate,)
        return [(t, symbol, side) for t in below for side in sides]

    def found(self, terms: list[Term]) -> list[Term]:
        """The derivatives of some terms that have been asked for."""
        wanted = set(terms)
        return [slope for (term, _, _), slope in self._found.items() if term in wanted and slope.kind in ("sum", "product")]

    def _active(self, term: Term, symbol: Term) -> list[Term]:
        """The parts of a term that depend on a symbol."""
        if term.kind == "sum":
            return [t for t, _ in self._needed(term, symbol)]
        if term.kind == "brace":
            return [v for _, v in term.parts if v.needs & symbol.needs]
        return [t for t in term.below() if t.needs & symbol.needs]

    def _needed(self, term: Term, symbol: Term) -> list[tuple[Term, Fraction]]:
        """The terms of a sum that depend on a symbol."""
        if len(term.parts) < _MANY:
            return [(t, c) for t, c in term.parts if t.needs & symbol.needs]
        if term not in self._needing:
            index = self._needing[term] = {}
            for t, c in term.parts:
                bits = t.needs
                while bits:
                    lowest = bits & -bits
                    index.setdefault(lowest, []).append((t, c))
                    bits ^= lowest
        return self._needing[term].get(symbol.needs, [])

    def _of(self, term: Term, symbol: Term, conjugate: bool) -> Term:
        t = self.writer
        if term is symbol:
            return ZERO if conjugate else ONE
        if not term.needs & symbol.needs or term.is_condition:
            return ZERO

        def d(part: Term, side: bool = conjugate) -> Term:
            return self._found.get((part, symbol, side if symbol.is_complex else conjugate), ZERO)

        def mirrored(part: Term) -> Term:
            """The derivative of the conjugate of a part."""
            return t.call("conj", d(part, not conjugate))

        if term.kind == "sum":
            return self._by_common_sums(t.add([(d(part), c) for part, c in self._needed(term, symbol)]))
        if term.kind == "product":
            terms = []
            for k, (base, exponent) in enumerate(term.parts):
                if base.needs & symbol.needs and d(base) is not ZERO:
                    rest = [*term.parts[:k], *term.parts[k + 1 :]]
                    terms.append((t.powers([(d(base), ONCE), (base, exponent - 1), *rest]), exponent))
            return t.add(terms)
        if term.kind == "brace":
            return t.brace([(c, d(v)) for c, v in term.parts[:-1]], d(term.parts[-1][1]))
        op, *args = term.parts
        if op == "exp":
            return t.mul([d(args[0]), term])
        if op == "pow":
            base, exponent = args
            by_base = t.powers([(exponent, ONCE), (d(base), ONCE), (term, ONCE), (base, -ONCE)])
            return t.plus(by_base, *([] if d(exponent) is ZERO else [t.mul([d(exponent), t.call("log", base), term])]))
        if op in ("max", "min"):
            return self._of_extreme(op, *args, *map(d, args))
        if op == "conj":
            return mirrored(args[0])
        if op == "real":
            return t.scaled(t.plus(d(args[0]), mirrored(args[0])), HALF)
        if op == "imag":
            return t.mul([t.scaled(t.plus(d(args[0]), t.neg(mirrored(args[0]))), -HALF), t.unit])
        total = []
        for k, arg in enumerate(args):
            for conjugated in (False, True)[: 1 + arg.is_complex]:
                change = mirrored(arg) if conjugated else d(arg)
                found = None if change is ZERO else self.partial(term, k, conjugated)
                total += [] if found is None else [t.mul([found, change])]
        return t.plus(*total)

    def _by_common_sums(self, total: Term) -> Term:
        """A sum with a sum in front that all or some of its terms have as a factor: of u' + 2 u u' the factor u'."""
        t = self.writer
        parts = dict(total.parts) if total.kind == "sum" and len(total.parts) <= MERGED else {}
        factors = (
            b for p in parts if p.kind == "product" for b, e in p.parts if e == 1 and b.kind == "sum" and len(b.parts) > 1
        )
        for common in dict.fromkeys(factors):
            rest = [(p, c) for p, c in parts.items() if p is common or (p.kind == "product" and (common, 1) in p.parts)]
            first, times = common.parts[0]
            alone = parts.get(first, Fraction(0)) / times
            if alone and all(parts.get(p) == c * alone for p, c in common.parts):
                rest += [(common, alone)]
                gone = {p for p, _ in common.parts}
            else:
                gone = set()
            if len(rest) > 1:
                inside = t.add([(t.mul([p, t.power(common, -ONCE)]), c) for p, c in rest])
                parts = {p: c for p, c in parts.items() if p not in gone and all(p is not q for q, _ in rest)}
                parts[t.mul([common, inside])] = ONCE
        return t.add(parts.items()) if parts else total

    def _of_extreme(self, op: str, a: Term, b: Term, da: Term, db: Term) -> Term:
        """The derivative of the greater or the less of two, but where they are equal."""
        t = self.writer
        if a.kind == "number":
            a, b, da, db = b, a, db, da
        wins = t.emit("gt" if op == "max" else "lt", (a, b))
        if da is not db:
            self.has_kinks = True
        return t.brace([(wins, da)], db)

    def partial(self, term: Term, place: int, conjugate: bool) -> Term | None:
        """The partial of a call by an argument (by its conjugate), None where it is zero."""
        op, *args = term.parts
        if op == "cot":
            squared = self.writer.power(term, Fraction(2))
            return None if conjugate else self.writer.neg(self.writer.plus(ONE, squared))
        on_complex = any(a.is_complex for a in args)
        names = [self.writer.symbol(f" {k}", on_complex and a.is_complex) for k, a in enumerate(args)]
        out = self.writer.symbol(" out", term.is_complex)
        key = (op, len(args), place, conjugate, on_complex)
        if key not in self._partials:
            self._partials[key] = self._generic(op, names, out, place, conjugate, on_complex)
        found = self._partials[key]
        if found is None:
            return None
        stands: dict[Term, Term] = {**dict(zip(names, args, strict=True)), out: term}
        return self.writer.rewritten(found, stands.get)

    def _generic(self, op: str, names: list[Term], out: Term, place: int, conjugate: bool, on_complex: bool) -> Term | None:
        """A partial over symbols of the arguments and the result."""
        site = self.writer.sites.get(op)
        rule = self.rules.for_op(op) if site is None else site.params.rule
        if rule is None:
            raise RuleError(f"no derivative rule for {op}")
        if rule.body is not None:
            return None if conjugate else self._from_body(rule, site, names, out, place)
        templates = rule.conj_partials if conjugate else rule.partials_on(complex_=on_complex)
        template = None if templates is None else templates[place]
        if template is None:
            if conjugate:
                return None
            raise RuleError(f"{rule.name} has no derivative by {rule.parameters[place]}")
        formula = RuleFormula(self.writer, rule, names, out)
        found = formula.term(template)
        return None if found is ZERO else found

    def _from_body(self, rule: Rule, site: Any, names: list[Term], out: Term, place: int) -> Term | None:
        """A partial from the Python body of a rule."""
        builder = Builder()
        inputs = [builder.input(f"x{k}", (), "D" if n.is_complex else "d") for k, n in enumerate(names)]
        result = builder.input("out", (), "D" if out.is_complex else "d")
        binding = Node("call" if site is not None else rule.op or "", tuple(inputs), (), result.dtype,
                       None if site is None else site.params, rule.source)  # fmt: skip
        seen = _Standing(binding, result)
        atom = python_partials(rule, builder, seen, place)[place]
        known = {**dict(zip(inputs, names, strict=True)), result: out}
        for b in builder.bindings:
            b.primal = False  # its branches for rounding are left out
        read_graph(Graph("rule", (), (), builder.bindings), self.writer, known)
        found = term_of(atom, self.writer, known)
        return None if found is ZERO else found


class _Standing(Node):
    """A call whose result another node stands for."""

    __slots__ = ("result",)
    result: Node  # type: ignore[assignment]

    def __init__(self, binding: Node, result: Node) -> None:
        super().__init__(binding.op, binding.operands, binding.shape, binding.dtype, binding.params, binding.origin)
        self.result = result


class RuleFormula:
    """A rule's formula as a term, without the branches that are there for rounding."""

    def __init__(self, writer: Writer, rule: Rule, names: list[Term], out: Term) -> None:
        self.writer = writer
        self.rule = rule
        self.names = names
        self.out = out
        self._points: list[Any] | None = None

    def term(self, template: Template) -> Term:
        """The term of a template."""
        exact = template.exact or template
        chooses = bool(self.rule.interval) and any(op == "select" for op, _, _ in exact.steps)
        *args, out = zip((*self.names, self.out), self._sampled() if chooses else [None] * (len(self.names) + 1), strict=True)
        with np.errstate(all="ignore"):
            return apply(exact, tuple(args), out, self._step)[0]  # type: ignore[no-any-return]

    def _step(self, op: str, args: tuple[tuple[Term, Any], ...], payload: Any) -> tuple[Term, Any]:
        """A step as a term, and its values at the points where arms of branches are compared."""
        terms, values = zip(*args, strict=True) if args else ((), ())
        if op == "const":
            value = float(NAMED[payload]()) if isinstance(payload, str) else payload
            return self.writer.formula_step(op, (), payload), value if isinstance(value, (bool, complex)) else float(value)
        value = None if any(v is None for v in values) else OPS[op].function()(*values)
        return self._chosen(terms, values) if op == "select" else self.writer.unguarded(op, terms), value

    def _chosen(self, args: tuple[Term, ...], values: tuple[Any, ...]) -> Term:
        condition, a, b = args
        if b.op == "nan":
            return a
        if any(v is None for v in values) or (a.kind == "number" and (a.parts[0] == HALF or b.kind == "number")):
            return self.writer.emit("select", args)
        holds, first, second = np.broadcast_arrays(*values)
        if is_thin(condition):  # one of a step function may hold in intervals
            return self.writer.emit("select", args) if np.any(holds) else b
        close = np.isclose(first, second, rtol=1e-6, atol=0)
        finite = np.isfinite(first) & np.isfinite(second)
        by_first, by_second = (_often(close[where & finite]) for where in (holds, ~holds))
        if by_first and by_second:
            return min(a, b, key=lambda term: term.width)
        if by_first or (not np.any(holds) and self._is_remote(condition)):
            return b
        return a if by_second else self.writer.emit("select", args)

    def _is_remote(self, condition: Term) -> bool:
        """Whether a condition holds for numbers only that are larger than those of the samples."""
        if condition.op in ("and", "or"):
            return any(map(self._is_remote, condition.operands))
        return any(p.kind == "number" and abs(p.parts[0]) > FAR for p in condition.operands)

    def _sampled(self) -> list[Any]:
        """Points in the interval of the rule and far from it, and the function there."""
        if self._points is None:
            rng = np.random.default_rng(1)
            given = []
            for low, high in self.rule.interval:
                far = rng.choice([-1.0, 1.0], SAMPLES) * FAR ** rng.uniform(-1, 1, SAMPLES)
                given.append(np.concatenate([rng.uniform(low, high, SAMPLES), far]))
            if any(n.is_complex for n in self.names):
                turned = [0.3j * rng.uniform(0.1, 1, 2 * SAMPLES) if n.is_complex else 0.0 for n in self.names]
                given = [g + t for g, t in zip(given, turned, strict=True)]
            self._points = [*given, np.asarray(self.rule.value(*given))]
        return self._points


def _often(agreements: Any) -> bool:
    """Whether values agree at many of some points, which are more than a few; near poles rounding parts them."""
    return len(agreements) > 3 and bool(np.mean(agreements) > 0.3)
