"""Terms as SymPy expressions, in the order in which people write: numbers first, then letters, sums, functions, exponentials.

Assumes terms whose shared pieces have names. Guarantees unevaluated expressions of bounded depth.
"""

from collections.abc import Collection, Iterable, Mapping
from fractions import Fraction
from math import prod
from typing import Any

import sympy as sp
from sympy.core.relational import Relational

from symdiff.inspection.exact import ONCE
from symdiff.inspection.expressions import build_sympy, piecewise
from symdiff.inspection.matrix_words import sum_as_it_stands
from symdiff.inspection.reading.matrix_heads import Bracketed, ProductOver
from symdiff.inspection.reading.names import spelled
from symdiff.inspection.reading.patterns import PRODUCTS, SERIES
from symdiff.inspection.reading.terms import ONE, ZERO, Term, inside_first, number_parts
from symdiff.inspection.reading.written import Writer

CONSTANTS = {"pi": sp.pi, "inf": sp.oo, "nan": sp.nan, "true": sp.true, "false": sp.false, "gamma_E": sp.EulerGamma}
_RANKS = {"exp": 6, PRODUCTS: 7}  # of functions that stand behind others
_VARIABLES = frozenset("xyzt")  # letters that stand after those of coefficients
_NARROW = 4  # an exponential whose exponent is wider stands beside a fraction, not in it


class Composer:
    """Makes SymPy expressions of terms, of whose symbols `constants` stand for numbers."""

    def __init__(self, writer: Writer, constants: Collection[str] = ()) -> None:
        self.writer = writer
        self._constants = constants
        self._order = {name: k for k, name in enumerate(_in_order(writer.bits))}
        self._unit = writer.bits.get("i ", 0)
        self._made: dict[Term, Any] = {}

    def expression(self, term: Term) -> Any:
        """A term as an expression."""
        for found in inside_first(term, self._made):
            self._made[found] = self._spelled(found)
        return self._made[term]

    def _spelled(self, term: Term) -> Any:
        if term.kind == "number":
            return number_expression(term.parts[0])
        if term.kind == "symbol":
            return sp.I if term.parts[0] == "i " else sp.Symbol(term.parts[0])
        if term.kind == "sum":
            return self._sum(list(term.parts))
        if term.kind == "product":
            return self._product(dict(term.parts), ONCE)
        if term.kind == "brace":
            return piecewise([(self._made[v], sp.true if c is None else self._made[c]) for c, v in term.parts])
        return self._called(term.op, [self._made[a] for a in term.operands], term)

    def _called(self, op: str, made: list[Any], term: Term) -> Any:
        """A call of an operation, of operands that are made."""
        if op in CONSTANTS:
            return CONSTANTS[op]
        if op == "exp":
            return self._exp(term.operands[0], ONCE)
        if op == SERIES:
            return sum_as_it_stands(made[0], made[1:])
        if op == PRODUCTS:
            return ProductOver(*made[:4], *(sp.Symbol(s.name.strip("[]")) for s in made[4:]))
        if op in ("max", "min"):
            return build_sympy(op, [inner for m in made for inner in _operands(m, op)])
        if op == "cbrt":
            return sp.Pow(made[0], sp.Rational(1, 3), evaluate=False)
        return build_sympy(op.removeprefix("call ").rstrip(), made)

    def _sum(self, parts: list[tuple[Term, Fraction]]) -> Any:
        first = next((k for k, (_, c) in enumerate(parts) if c > 0), 0)
        parts.insert(0, parts.pop(first))
        parts[1:] = sorted(parts[1:], key=lambda part: not part[0].needs & ~self._unit)  # numbers first or last
        terms = [self._scaled(t, c) for t, c in parts]
        return terms[0] if len(terms) == 1 else sp.Add(*terms, evaluate=False)

    def _scaled(self, term: Term, coefficient: Fraction) -> Any:
        return number_expression(coefficient) if term is ONE else self._product(dict(term.factors), coefficient)

    def _exp(self, arg: Term, times: Fraction) -> Any:
        if arg is ONE:
            return sp.E if times == 1 else sp.Pow(sp.E, number_expression(times), evaluate=False)
        if times == 1:
            return sp.exp(self._made[arg], evaluate=False)
        return sp.exp(self._scaled(arg, times), evaluate=False)

    def _rank(self, part: tuple[Term, Fraction]) -> tuple[int, int]:
        base = part[0]
        if base.kind == "symbol":
            name = base.parts[0]
            kind = 0 if name in self._constants else 1 if name == "i " else 3 if spelled(name).base in _VARIABLES else 2
            return kind, self._order.get(name, 0)
        if base.kind == "number":
            return 0, 0
        if base.op == "pow" and base.operands[0].kind == "number":
            return -1, base.place
        if base.op:
            return (0 if base.op in CONSTANTS else _RANKS.get(base.op, 5)), base.place
        return (8 if base.kind == "brace" else 4 if base.needs & ~self._unit else 1), base.place

    def _product(self, powers: dict[Term, Fraction], coefficient: Fraction) -> Any:
        """A coefficient times powers: over a fraction bar or below, an exponential with a wide exponent beside."""
        over, under, beside = [], [], []
        for base, exponent in powers.items():
            if base.kind == "number" and exponent < 0 and coefficient.numerator % base.parts[0] == 0:  # 2/sqrt(2)
                powers, coefficient = powers | {base: exponent + 1}, coefficient / base.parts[0]
        whole, below = _split(abs(coefficient))
        raised: dict[Term, list[tuple[Term, Fraction]]] = {}
        for base, exponent in powers.items():
            if base.op == "pow":
                root, times = base.operands
                raised.setdefault(root, []).append((times, exponent))
        ordered = sorted(powers.items(), key=self._rank)
        for base, exponent in ordered:
            if base.op == "exp":
                (arg,) = base.operands
                (over if arg.width <= _NARROW or arg is ONE else beside).append(self._exp(arg, exponent))
                continue
            if base.op == "pow":
                root = base.operands[0]
                if raised[root]:  # the first of those of one base, whose exponents are added
                    exponents = self.writer.add([*raised[root], (ONE, powers.get(root, Fraction(0)))])
                    over.append(sp.Pow(self._made[root], self.expression(exponents), evaluate=False))
                    raised[root] = []
                continue
            if base in raised:
                continue
            sign, part = self._bracket(base) or (1, self._factor(base, exponent, powers))
            coefficient *= sign
            if exponent.denominator > 1 and _is_constant(base):  # sqrt(2 pi)
                roots = [b for b, e in ordered if e == exponent and _is_constant(b)]
                if base is not roots[0]:
                    continue
                numbers = prod(b.parts[0] for b in roots if b.kind == "number")
                parts = [number_expression(numbers)] * (numbers != 1) + [self._made[b] for b in roots if b.kind != "number"]
                part = parts[0] if len(parts) == 1 else sp.Mul(*parts, evaluate=False)
            if base.kind == "sum" and exponent % 2 == 1 and all(c < 0 for _, c in base.parts):
                part, coefficient = self._sum([(t, -c) for t, c in base.parts]), -coefficient
            (over if exponent > 0 else under).append(_power(part, abs(exponent)))
        if whole != 1 or not (over or beside):
            over.insert(0, number_expression(whole))
        if below != 1:
            under.insert(0, number_expression(below))
        if not over and beside:
            over, beside = beside, []
        if under and len(over) == 1 and below != 1 and len(under) == 1 and _has_fractions(over[0]):  # no fraction in another
            over, beside, under = [sp.Pow(under[0], -1, evaluate=False)], [over[0], *beside], []
        if under:
            bottom = under[0] if len(under) == 1 else sp.Mul(*under, evaluate=False)
            beside.insert(0, sp.Pow(bottom, -1, evaluate=False))
        factors = [*(f for f in over if f != 1 or not under), *beside]
        if coefficient < 0 and factors[0].is_Number:
            factors[0] = -factors[0]
        elif coefficient < 0:
            factors.insert(0, sp.S.NegativeOne)
        return factors[0] if len(factors) == 1 else sp.Mul(*factors, evaluate=False)

    def _factor(self, base: Term, exponent: Fraction, powers: Mapping[Term, Fraction]) -> Any:
        """The base of a power of a product."""
        return self._made[base]

    def _bracket(self, term: Term) -> Any:
        """A factor that is 1 or -1 where a condition holds, else 0, as Iverson's bracket with its sign; None for another."""
        values = [v for _, v in term.parts] if term.kind == "brace" and len(term.parts) == 2 else [ONE]
        number = next((v.parts[0] for v in values if v is not ZERO and v.kind == "number"), 0)
        if ZERO not in values or abs(number) != 1:
            return None
        condition = self._made[term.parts[0][0]]
        if values[0] is ZERO and not isinstance(condition, Relational):
            return None
        return number, Bracketed(condition.negated if values[0] is ZERO else condition)


def _in_order(names: Iterable[str]) -> list[str]:
    """Names of variables and cells: arrays as they first stand, their cells by their places."""
    arrays: dict[str, int] = {}
    keys = {}
    for name in names:
        array, _, place = name.partition("[")
        cell = [int(number) for number in place[:-1].split(",") if number.strip().isdigit()]
        keys[name] = arrays.setdefault(array, len(arrays)), cell
    return sorted(keys, key=keys.__getitem__)


def _has_fractions(expr: Any) -> bool:
    """Whether a term of a sum is a fraction with more than a number below."""
    terms = expr.args if isinstance(expr, sp.Add) else ()
    factors = [f for t in terms for f in (t.args if isinstance(t, sp.Mul) else (t,))]
    return any(isinstance(f, sp.Pow) and f.exp == -1 and not f.base.is_number for f in factors)


def _is_constant(term: Term) -> bool:
    return term.kind == "number" or term.op in CONSTANTS


def _power(part: Any, exponent: Fraction) -> Any:
    return part if exponent == 1 else sp.Pow(part, number_expression(exponent, True), evaluate=False)


def _operands(expr: Any, op: str) -> list[Any]:
    """The operands of an extreme within one of the same kind; else the expression itself."""
    return list(expr.args) if isinstance(expr, sp.Max if op == "max" else sp.Min) else [expr]


def _split(value: Fraction) -> tuple[Fraction, Fraction]:
    """A positive number as what stands above and below a fraction bar."""
    over, under = number_parts(value)
    return (Fraction(over), Fraction(under)) if under != "1" else (value, Fraction(1))


def number_expression(value: Fraction, exact: bool = False) -> Any:
    """A number as it is printed: an integer, a short fraction, or a decimal."""
    over, under = number_parts(value)
    if under != "1" or (exact and value.denominator < 10):
        if value.denominator < 1000 or under.isdigit():
            return sp.Rational(value.numerator, value.denominator)
        below = sp.Pow(_plain(under), -1, evaluate=False)
        return sp.Mul(*([] if over == "1" else [_plain(over)]), below, evaluate=False) if over != "1" else below
    return _plain(over)


def _plain(text: str) -> Any:
    return sp.Integer(text) if text.lstrip("-").isdigit() else sp.Float(float(text))
