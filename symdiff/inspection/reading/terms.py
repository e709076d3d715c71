"""Terms: expressions in one normal form, made in time linear in what they are made of.

A term is a number, a symbol, a sum of terms with exact coefficients, a product of powers with rational exponents, a call, or a
brace of cases. Like terms and powers of equal bases are collected as they meet; nothing is expanded, and the order in which
parts first stood is kept. Equal terms are one object, so that a derivation whose formula, written out, would be exponential
stays as long as its program. Numbers are exact: a float is the decimal that it prints, or the multiple of pi that it rounds.

Assumes real powers to be taken where they are defined: sqrt(x)*sqrt(x) is x, but sqrt(x**2) is not.
"""

import math
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

from symdiff.inspection.exact import ONCE, exact_multiple
from symdiff.inspection.reading.names import printed_width
from symdiff.vocabulary.traits import CONDITIONS, operations

_QUOTIENTS = frozenset({2, 3, 4, 6, 7, 8, 9, 12, 16})  # what stands below a fraction bar rather than in a decimal
WIDE = 10**9  # widths beyond are not told apart
MERGED = 12  # parts up to which a sum or product that stands in another becomes parts of that: more would be copied each time
_UNIT = ("i ",)  # the parts of the imaginary unit
_MARKS = {"matmul": 1, "dot": 1, "T": 1, "inv": 2, "inv_T": 2, "norm": 2, "norm_F": 3, "ones": 1, "eye": 1}  # widths
_SIDES = {"lt": "<", "le": "<=", "eq": "=", "ge": ">=", "gt": ">"}  # where a comparison holds
_REAL = operations("real_valued") | CONDITIONS


class Term:
    """One term. `parts` depends on `kind`: number (value,); symbol (name,); sum ((term, coefficient), ...); product
    ((base, exponent), ...); call (op, term, ...); brace ((condition, term), ..., (None, term)).

    `op` is the operation of a call, "" of another; `needs` is a set of bits, one a symbol; `width` how wide it is printed,
    about; `depth` how deep it is nested; `place` tells which of two terms was made first; `is_complex` whether its value may
    be; `has_brace` whether a brace is among its parts.
    """

    __slots__ = ("depth", "has_brace", "is_complex", "kind", "needs", "op", "parts", "place", "width")

    def __init__(self, kind: str, parts: tuple[Any, ...], place: int) -> None:
        self.kind = kind
        self.parts = parts
        self.place = place
        self.op: str = parts[0] if kind == "call" else ""
        below = self.below()
        self.depth = 1 + max((t.depth for t in below), default=0)
        self.needs = 0
        for t in below:
            self.needs |= t.needs
        self.is_complex = any(t.is_complex for t in below) and self.op not in _REAL
        self.has_brace = kind == "brace" or any(t.has_brace for t in below)
        self.width = min(WIDE, _width(self))

    def below(self) -> tuple["Term", ...]:
        """The terms that it is made of."""
        if self.kind in ("sum", "product"):
            return tuple(t for t, _ in self.parts)
        if self.kind == "brace":
            return tuple(t for row in self.parts for t in row if t is not None)
        return self.parts[1:]

    @property
    def operands(self) -> tuple["Term", ...]:
        """Those of a call."""
        return self.parts[1:]

    @property
    def factors(self) -> tuple[tuple["Term", Fraction], ...]:
        """The powers whose product it is."""
        return self.parts if self.kind == "product" else () if self is ONE else ((self, ONCE),)

    @property
    def multiple(self) -> tuple["Term", Fraction]:
        """The term and the number whose product it is."""
        return self.parts[0] if self.kind == "sum" and len(self.parts) == 1 else (self, ONCE)

    @property
    def is_condition(self) -> bool:
        """Whether it is true or false, rather than a number."""
        return self.op in CONDITIONS

    def __repr__(self) -> str:
        return f"{self.kind}{self.parts}"


@lru_cache(4096)
def number_width(value: Fraction) -> int:
    """How wide a number is printed."""
    return len(number_text(abs(value))) + (value < 0)


def number_text(value: Fraction) -> str:
    """A number as people write it: 3, 1/2, 0.1, 1.5e-05, 1/8.314."""
    over, under = number_parts(value)
    return over if under == "1" else f"{over}/{under}"


@lru_cache(4096)
def number_parts(value: Fraction) -> tuple[str, str]:
    """What stands above and below the fraction bar of a number."""
    above, below = abs(value.numerator), value.denominator
    sign = "-" if value < 0 else ""
    if (below == 1 and above < 10**15) or (below in _QUOTIENTS and above < 1000):
        return f"{sign}{above}", str(below)
    near = repr(above / below)
    exact = Fraction(near) == abs(value)
    if exact and len(near) <= 9:
        return sign + near, "1"
    if not exact and below <= 1000 and above <= 10**6:
        return (f"{sign}{above // 10}", repr(below / 10)) if above % 10 == 0 and below > 10 else (f"{sign}{above}", str(below))
    quotients = [
        (len(over) + len(under), over, under)
        for times in (1, 2, 4, 5, 8)
        for ten in range(-12, 7)
        if (over := _decimal(above * times * Fraction(10) ** ten)) and (under := _decimal(below * times * Fraction(10) ** ten))
    ]
    length, over, under = min((q for q in quotients if len(q[1]) <= 5 and float(q[2]) < 1e5), default=(WIDE, "", ""))
    return (sign + over, under) if length < len(near) else (sign + near, "1")


def _decimal(value: Fraction) -> str:
    """A number from 1 on as a short decimal, "" for others."""
    text = repr(float(value)).removesuffix(".0")
    return text if value >= 1 and len(text) <= 12 and "e" not in text and Fraction(text) == value else ""


def _width(term: Term) -> int:
    if term.kind == "number":
        return number_width(term.parts[0])
    if term.kind == "symbol":
        return printed_width(term.parts[0])
    if term.kind == "sum":
        return 3 * len(term.parts) - 3 + sum(_scaled_width(t, c) for t, c in term.parts)
    if term.kind == "product":
        return sum(_power_width(t, e) for t, e in term.parts) + (any(e < 0 for _, e in term.parts))
    if term.kind == "brace":
        return 6 * len(term.parts) + sum(t.width for t in term.below())
    op, *args = term.parts
    if op == "exp":
        return 1 + args[0].width
    if op.startswith("unit "):
        return 2
    if op in _MARKS:
        return _MARKS[op] + sum(t.width + 2 * (t.kind == "sum") for t in args)
    if op == "pow":
        return _power_width(args[0], ONCE) + args[1].width
    return len(op) + 2 * len(args) + sum(t.width for t in args)


def _scaled_width(term: Term, coefficient: Fraction) -> int:
    if term is ONE:
        return number_width(abs(coefficient))
    own = term.width + (2 if term.kind == "sum" and abs(coefficient) != 1 else 0)
    return own if abs(coefficient) == 1 else own + number_width(abs(coefficient))


def _power_width(base: Term, exponent: Fraction) -> int:
    exponent = abs(exponent)
    if base.op == "exp":
        return base.width + (exponent != 1)
    bare = base.kind in ("symbol", "number") or (base.op and exponent == 1)
    own = base.width + (0 if bare else 2)
    return own if exponent == 1 else own + (1 if exponent in (Fraction(1, 2), 2, 3) else number_width(exponent))


def inside_first(term: Any, known: Container[Any], below: Callable[[Any], Iterable[Any]] = Term.below) -> Iterator[Any]:
    """What is not known of a term and its parts, each after its own; the caller makes it known."""
    stack = [term]
    while stack:
        missing = [t for t in below(stack[-1]) if t not in known]
        stack += missing
        if not missing and (found := stack.pop()) not in known:
            yield found


ONE = Term("number", (Fraction(1),), 0)
ZERO = Term("number", (Fraction(0),), 0)


class Terms:
    """Makes terms, each of equal ones once. `bits` has a bit of each symbol, in the order in which they were named."""

    def __init__(self) -> None:
        self._made: dict[Any, Term] = {}
        self.bits: dict[str, int] = {}
        self.complex: set[str] = {"i"}
        self._count = 2

    # -- making

    def _interned(self, kind: str, parts: tuple[Any, ...]) -> Term:
        key = kind, frozenset(parts) if kind in ("sum", "product") else parts
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = Term(kind, parts, self._count)
            self._count += 1
        return found

    def symbol(self, name: str, is_complex: bool = False) -> Term:
        """A symbol by its name."""
        found = self._interned("symbol", (name,))
        if name not in self.bits:
            self.bits[name] = 1 << len(self.bits)
        found.needs = self.bits[name]
        found.is_complex = found.is_complex or is_complex
        return found

    @property
    def unit(self) -> Term:
        """The imaginary unit."""
        return self.symbol(*_UNIT, True)

    def number(self, value: Any) -> Term:
        """A Python number, exactly."""
        if isinstance(value, Fraction):
            return self._rational(value)
        if isinstance(value, bool):
            return self.call("true" if value else "false")
        if isinstance(value, int):
            return self._rational(Fraction(value))
        if isinstance(value, complex):
            real, imaginary = self.number(value.real), self.mul([self.number(value.imag), self.unit])
            return self.add([(real, ONCE), (imaginary, ONCE)])
        value = float(value)
        if math.isnan(value):
            return self.call("nan")
        if math.isinf(value):
            return self.scaled(self.call("inf"), Fraction(1 if value > 0 else -1))
        found = exact_multiple(value)
        if found is None:
            return self._rational(Fraction(f"{value:.15g}"))  # the digits that are printed
        return self.scaled(self.mul([self.power(self.constant(name), e) for name, e in found[1]]), found[0])

    def constant(self, name: str) -> Term:
        """A number that has a name."""
        if name.isdigit():
            return self._rational(Fraction(int(name)))
        if name.startswith("log"):
            return self.call("log", self._rational(Fraction(int(name[3:]))))
        if name == "e":
            return self.call("exp", ONE)
        return self.call(name)

    def _rational(self, value: Fraction) -> Term:
        if value == 1:
            return ONE
        return ZERO if value == 0 else self._interned("number", (value,))

    def scaled(self, term: Term, coefficient: Fraction) -> Term:
        """A term times a number."""
        return self.add([(term, coefficient)]) if term.kind != "sum" else self.mul([term, self._rational(coefficient)])

    def neg(self, term: Term) -> Term:
        """A term times -1."""
        return self.scaled(term, Fraction(-1))

    def add(self, items: Iterable[tuple[Term, Fraction]]) -> Term:
        """The sum of terms times coefficients, like ones collected; a sum times another number than 1 or -1 stays together."""
        found: dict[Term, Fraction] = {}
        for term, coefficient in items:
            if term is ZERO:
                continue
            if term.kind == "number":
                parts: Any = ((ONE, term.parts[0]),)
            elif term.kind == "sum" and (len(term.parts) == 1 or (abs(coefficient) == 1 and len(term.parts) <= MERGED)):
                parts = term.parts
            else:
                parts = ((term, ONCE),)
            for t, c in parts:
                c = c if coefficient is ONCE else coefficient if c is ONCE else c * coefficient
                found[t] = found[t] + c if t in found else c
        parts = [(t, c) for t, c in found.items() if c]
        if not parts:
            return ZERO
        if len(parts) == 1:
            term, coefficient = parts[0]
            if term is ONE:
                return self._rational(coefficient)
            if coefficient == 1:
                return term
        return self._interned("sum", tuple(parts))

    def plus(self, *terms: Term) -> Term:
        """The sum of terms."""
        return self.add([(t, ONCE) for t in terms])

    def mul(self, terms: Iterable[Term]) -> Term:
        """The product of terms, powers of equal bases collected."""
        return self.powers([(t, ONCE) for t in terms])

    def power(self, base: Term, exponent: Fraction) -> Term:
        """A term to a rational power."""
        return self.powers([(base, exponent)])

    def powers(self, factors: Iterable[tuple[Term, Fraction]]) -> Term:
        """The product of powers."""
        coefficient = ONCE
        found: dict[Term, Fraction] = {}
        pending = list(factors)[::-1]
        while pending:
            while pending:
                base, exponent = pending.pop()
                whole = exponent.denominator == 1
                if whole and base.kind == "number":
                    if base is ZERO and exponent <= 0:
                        return self.call("inf") if exponent < 0 else ONE
                    coefficient *= base.parts[0] ** int(exponent)
                elif whole and _is_multiple(base):
                    ((term, c),) = base.parts
                    coefficient *= c ** int(exponent)
                    pending.append((term, exponent))
                elif _merges(base) and (whole or all(_is_root(b, e) for b, e in base.parts)):
                    pending += [(b, e * exponent) for b, e in reversed(base.parts)]
                elif base is ZERO:
                    return ZERO if exponent > 0 else self.call("inf")
                elif base.kind != "number" or base is not ONE:
                    found[base] = found.get(base, Fraction(0)) + exponent
            for base, exponent in list(found.items()):
                if exponent == 0:
                    del found[base]
                elif exponent.denominator == 1 and (base.kind == "number" or _merges(base) or _is_multiple(base)):
                    pending.append((base, found.pop(base)))
                elif base.kind == "number" and (root := _root(base.parts[0], exponent)) is not None:
                    coefficient *= root
                    del found[base]
                elif base.kind == "number" and (more := _whole_part(base.parts[0], exponent)):
                    coefficient *= base.parts[0] ** more
                    found[base] = exponent - more
                elif exponent % 2 == 0 and base.op == "abs" and not base.parts[1].is_complex:
                    pending.append((base.parts[1], found.pop(base)))
                elif base.parts == _UNIT and exponent.denominator == 1 != exponent:
                    turns = int(exponent) % 4
                    del found[base]
                    coefficient *= -1 if turns > 1 else 1
                    if turns % 2:
                        found[base] = ONCE
        if coefficient == 0:
            return ZERO
        parts = tuple((b, e) for b, e in found.items() if e)
        if not parts:
            return self._rational(coefficient)
        if len(parts) == 1 and parts[0][1] == 1:
            term = parts[0][0]
            if coefficient == 1:
                return term
            if coefficient == -1 and term.kind == "sum":
                return self.add([(t, -c) for t, c in term.parts])
        else:
            term = self._interned("product", parts)
        return term if coefficient == 1 else self._interned("sum", ((term, coefficient),))

    def call(self, op: str, *args: Term) -> Term:
        """A function of terms, by the name of its operation."""
        if op == "exp":
            return self._exp(args[0])
        if op in ("conj", "real", "imag") and not args[0].is_complex:
            return ZERO if op == "imag" else args[0]
        if op in ("real", "imag") and (part := self._real_part(args[0], op)) is not None:
            return part
        if op == "conj":
            return self._conj(args[0])
        if op == "abs":
            return self._abs(args[0])
        if op == "log" and args[0] is ONE:
            return ZERO
        return self._interned("call", (op, *args))

    def _exp(self, arg: Term) -> Term:
        """exp(c*t) as a power of exp(t), so that equal ones meet."""
        if arg is ZERO:
            return ONE
        logs = [(t, c) for t, c in arg.parts if t.op == "log" and c.denominator == 1] if arg.kind == "sum" else []
        if logs or arg.op == "log":
            rest = self.add([p for p in arg.parts if p not in logs]) if logs else ZERO
            return self.powers([(self._exp(rest), ONCE), *((t.parts[1], c) for t, c in logs or [(arg, ONCE)])])
        c = ONCE
        if arg.kind == "number" and arg is not ONE:
            c, arg = arg.parts[0], ONE
        elif _is_multiple(arg):
            arg, c = arg.multiple
        elif arg.kind == "sum" and all(coefficient < 0 for _, coefficient in arg.parts):
            c, arg = -c, self.add([(t, -k) for t, k in arg.parts])
        return self.power(self._interned("call", ("exp", arg)), c)

    def _real_part(self, arg: Term, op: str) -> Term | None:
        """The real or imaginary part of a sum, or of i times a real number; None for another term."""
        if arg.kind == "sum":
            return self.add([(self.call(op, t), c) for t, c in arg.parts])
        if (self.unit, 1) not in arg.factors:
            return None
        rest = self.powers([(b, e) for b, e in arg.factors if b is not self.unit])
        return None if rest.is_complex else ZERO if op == "real" else rest

    def _conj(self, arg: Term) -> Term:
        if arg.parts == _UNIT:
            return self.neg(arg)
        if arg.kind == "sum":
            return self.add([(self.call("conj", t), c) for t, c in arg.parts])
        if arg.kind == "product" and all(e.denominator == 1 for _, e in arg.parts):
            return self.powers([(self.call("conj", b), e) for b, e in arg.parts])
        if arg.op == "conj":
            return arg.operands[0]
        if arg.op in ("exp", "sin", "cos", "tan", "sinh", "cosh", "tanh"):
            return self.call(arg.op, self.call("conj", *arg.operands))
        return self._interned("call", ("conj", arg))

    def _abs(self, arg: Term) -> Term:
        """What is known to be positive, or a power, stands before or around the bars."""
        if arg.kind == "number":
            return self._rational(abs(arg.parts[0]))
        if _is_multiple(arg):
            ((term, c),) = arg.parts
            return self.scaled(self._abs(term), abs(c))
        positive = [(b, e) for b, e in arg.factors if _is_positive(b) or (not b.is_complex and 0 in (e % 2, e.denominator % 2))]
        rest = [f for f in arg.factors if f not in positive]
        inside, power = rest[0] if len(rest) == 1 else (self.powers(rest), ONCE)
        return self.powers([*positive, *([(self._interned("call", ("abs", inside)), power)] if rest else [])])

    def brace(self, rows: Sequence[tuple[Term, Term]], otherwise: Term) -> Term:
        """Cases: the first whose condition holds; braces in the last are rows of the same one."""
        flat: list[tuple[Term | None, Term]] = []
        for condition, value in rows:
            if condition.op == "true":
                otherwise = value
                break
            if condition.op == "false":
                continue
            if flat and flat[-1][1] is value:
                condition = self.call("or", flat.pop()[0], condition)  # type: ignore[arg-type]
            if value.kind == "brace" and value.parts[-1][1] is otherwise and condition is rows[-1][0]:
                flat += [(self.call("and", condition, c), v) for c, v in value.parts[:-1]]
            else:
                flat.append((condition, value))
        if otherwise.kind == "brace":
            flat += [(c, v) for c, v in otherwise.parts[:-1] if all(c is not earlier for earlier, _ in flat)]
            otherwise = otherwise.parts[-1][1]
        if otherwise.op == "nan" and flat:
            otherwise = flat.pop()[1]
        if len(flat) > 1 and _is_exhausted([condition for condition, _ in flat]):
            otherwise = flat.pop()[1]
        while flat and flat[-1][1] is otherwise:
            flat.pop()
        if not flat:
            return otherwise
        return self._interned("brace", (*flat, (None, otherwise)))


def _is_positive(term: Term) -> bool:
    """Whether it is a positive number, or the exponential of a real one."""
    return not term.is_complex and (term.kind == "number" or term.op in ("exp", "pi", "gamma_E"))


def _whole_part(value: Fraction, exponent: Fraction) -> int:
    """The whole powers of a number, in a power of it, that stand with the coefficient: of a whole number a root is left below
    the fraction bar, sqrt(2) as 2/sqrt(2), so that equal ones meet."""
    return math.ceil(exponent) if value > 1 and value.denominator == 1 else int(exponent)


def _is_exhausted(conditions: list[Any]) -> bool:
    """Whether one of some conditions holds for all numbers: x < y, x = y, x > y."""
    covered: dict[Any, set[str]] = {}
    for c in conditions:
        covered.setdefault(c.operands, set()).update(_SIDES.get(c.op, ""))
    return any(len(found) == 3 for found in covered.values())


def _merges(term: Term) -> bool:
    """Whether it is a product whose factors become those of a product that it is a part of."""
    return term.kind == "product" and len(term.parts) <= MERGED


def _is_root(base: Term, exponent: Fraction) -> bool:
    """Whether a power is positive wherever it is real, so that further roots may be taken of it."""
    return exponent.denominator > 1 or (not base.is_complex and base.op in ("exp", "abs", "norm", "norm_F"))


def _is_multiple(term: Term) -> bool:
    """Whether it is a number times another term."""
    return term.kind == "sum" and len(term.parts) == 1


def _root(value: Fraction, exponent: Fraction) -> Fraction | None:
    """An exact power of a positive number, None where there is none."""
    if value <= 0 or exponent.denominator > 6:
        return None
    parts = []
    for n in (value.numerator, value.denominator):
        near = round(n ** (1 / exponent.denominator)) if n < 10**15 else 0
        if near**exponent.denominator != n:
            return None
        parts.append(near)
    return Fraction(*parts) ** exponent.numerator
