"""Truncated series along a line: the coefficients of f(x + t*v) in t by recurrences, which the rows of the rules give.

Assumes a rulebook with a rule for every operation on the way. A binding y of u has y' = p(u, y)*u' with p from its row: the
operations of p are bindings like others, with series of their own, and coefficient k + 1 of y is coefficient k of that product
over k + 1. Operations that are known already are not bound again, so that sin and cos, or a Bessel function and its
neighbours, are each other's recurrence. Coefficients are made when they are asked for: order n takes O(n^2) operations.
Refuses missing rules with `RuleError`.

Source of the method: Griewank and Walther, Evaluating Derivatives, 2nd ed., chapter 13; lazy series by McIlroy, Squinting at
power series, 1990.
"""

import math
from collections.abc import Iterable
from functools import reduce
from typing import Any

import numpy as np

from symdiff.differentiation.cotangents import Taken
from symdiff.differentiation.naming import derivative_dtype
from symdiff.differentiation.opening import Opened
from symdiff.differentiation.partials import has_structural_partials
from symdiff.differentiation.slopes import Slope, Slopes
from symdiff.errors import RuleError
from symdiff.ir.arrays.algebra import Arrays
from symdiff.ir.building import Builder
from symdiff.ir.graph import Graph
from symdiff.ir.node import ArrayConstant, Atom, Constant, Node, has_loops
from symdiff.rulebooks.sites import pushed_through_site
from symdiff.rulebooks.structural import rule_of, rule_pushforward
from symdiff.simplification.activity import active_symbols
from symdiff.simplification.facts import known_column
from symdiff.simplification.removable import is_divided
from symdiff.tracing.unrolling.rounds import unrolled
from symdiff.vocabulary.heads import Static
from symdiff.vocabulary.ops import OPS, is_complex
from symdiff.vocabulary.traits import operations

ZERO = Constant(0.0)
_FLAT = operations("flat")
_LINEAR = operations("linear") & OPS.keys()
_CELLWISE = operations("cellwise") | {"item", "array"}
_SCALING = operations("scales")
_EXACT = ("const", "input", "item")  # numbers that are given
_DEPTH = 6  # operations whose rounding errors are followed
_PRODUCTS = operations("bilinear")
_POLES = operations("pole")


class _Missing(Exception):
    """A coefficient that is needed before another one."""


class Remembering(Builder):
    """Binds an operation on the same operands once, and knows which values depend on `moving` ones."""

    def __init__(self) -> None:
        super().__init__()
        self.moving: set[Atom] = set()
        self._bound: dict[Any, Node] | None = None  # rewrites before may take back what they bind
        self._shifts: dict[Atom, tuple[Atom, int]] = {}

    def remember(self, bindings: Iterable[Node], seeds: Iterable[Atom]) -> None:
        """Take note of what is bound already, and of what moves."""
        self.moving.update(seeds)
        self._bound = {}
        for binding in bindings:
            self._bound.setdefault(_key(binding.op, binding.operands, binding.dtype, binding.params), binding.result)
            self._follow(binding)

    def _follow(self, binding: Node) -> None:
        moves = binding.operands[1:] if binding.op == "select" else binding.operands
        if binding.dtype not in "?l" and binding.op not in _FLAT and not self.moving.isdisjoint(moves):
            self.moving.add(binding.result)

    def bind(
        self, op: str, operands: tuple[Atom, ...], shape: tuple[int, ...], dtype: str, params: Any = None, origin: str = ""
    ) -> Node:
        """The symbol of an operation, an earlier one where there is one."""
        key = _key(op, operands, dtype, params)
        found = None if self._bound is None else self._bound.get(key)
        if found is None:
            found = super().bind(op, operands, shape, dtype, params, origin)
            self._follow(found)
            if self._bound is not None:
                self._bound[key] = found
        return found

    def add(self, a: Atom, b: Atom) -> Atom:
        """a + b; an order moved up and down again, as those of a function's neighbours, is itself."""
        step = _step(b)
        return super().add(a, b) if step is None or a in self.moving else self._shifted(a, step)

    def sub(self, a: Atom, b: Atom) -> Atom:
        """a - b, as `add` has it."""
        step = _step(b)
        return super().sub(a, b) if step is None or a in self.moving else self._shifted(a, -step)

    def _shifted(self, a: Atom, step: int) -> Atom:
        base, shift = self._shifts.get(a, (a, 0))
        step += shift
        if step == 0:
            return base
        weak = isinstance(base, Constant) and not isinstance(base.value, bool)
        found = Constant(base.params + step, base.dtype) if weak else self.emit("add", (base, Constant(step)))
        self._shifts[found] = base, step
        return found

    def rate(self, first: Atom) -> Node:
        """A symbol of its own for the derivative of a value, which begins with that coefficient."""
        assert first.dtype is not None
        symbol = super().bind("cast", (first,), first.shape, first.dtype)
        self.moving.add(symbol)
        return symbol


def _key(op: str, operands: tuple[Atom, ...], dtype: str, params: Any) -> Any:
    of = tuple((type(o.params), repr(o.params), o.dtype) if isinstance(o, Constant) else o for o in operands)
    if isinstance(params, Static):
        return op, of, dtype, tuple((name, _hashed(value)) for name, value in params.params.items())
    return op, of, dtype, params if isinstance(params, (int, str, type(None))) else id(params)


def _step(atom: Atom) -> int | None:
    """A whole number without a dtype, by which orders are moved; None for other values."""
    value = atom.params if isinstance(atom, Constant) and atom.dtype is None else None
    return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and value in (1, 2, -1, -2) else None


def _hashed(value: Any) -> Any:
    try:
        hash(value)
    except TypeError:
        return id(value)
    return value


class Series:
    """The coefficients of values, from those of `seeds`: each is its value now and grows at the rate given."""

    def __init__(self, open_: Opened, seeds: dict[Atom, Atom], order: int, rules: Any) -> None:
        self.order = order
        assert isinstance(open_.builder, Remembering)
        self.builder = open_.builder
        self.arrays = Arrays(self.builder)
        self.seeds = seeds
        self.slopes = Slopes(self.builder, open_.bindings, seeds, rules, order, whole=True)
        self._facts = facts = self.slopes.facts
        self.builder.remember(facts.bindings, seeds)
        self._made = facts.made  # what the function has, and not a row
        self._poles = self._with_poles(facts.bindings)
        self._terms: dict[tuple[Atom, int], Atom | None] = {}
        self._slopes: dict[Atom, list[Slope]] = {}
        self._errors: dict[tuple[Atom, int], Atom | None] = {}
        self._scales: dict[Atom, Atom] = {}
        self.guarded: set[Atom] = set()  # values whose coefficients are NaN where they are lost
        self._rates: dict[Atom, Atom | None] = {}
        self._grown: dict[Atom, Atom] = {}  # symbols of rates, and whose they are

    def coefficient(self, atom: Atom, k: int) -> Atom | None:
        """The k-th coefficient of a value; None where it is zero."""
        pending = [(atom, k)]
        while pending:
            try:
                self._terms[pending[-1]] = self._expanded(*pending[-1])
                pending.pop()
            except _Missing as missing:
                pending.append(missing.args)
        return self._terms[atom, k]

    def _term(self, atom: Atom, k: int) -> Atom | None:
        if k == 0:
            return atom
        if atom not in self.builder.moving:
            return None
        if (atom, k) not in self._terms:
            raise _Missing(atom, k)
        return self._terms[atom, k]

    def _terms_to(self, atom: Atom, last: int) -> list[Atom | None]:
        return [self._term(atom, j) for j in range(last + 1)]

    def _expanded(self, atom: Atom, k: int) -> Atom | None:
        """A coefficient from those that are known. Raises `_Missing` for one that is not."""
        b = self.builder
        if k == 0 or atom not in b.moving:
            return self._term(atom, k)
        if atom in self.seeds:
            return self.seeds[atom] if k == 1 else None
        if atom in self._grown:
            return self._times(float(k + 1), self._term(self._grown[atom], k + 1))
        binding = self._made.get(atom, atom)
        b.at(binding)
        self.arrays.origin = binding.origin
        op, operands = binding.op, binding.operands
        if self._is_polynomial(atom):
            return self._by_rate(atom, k)
        if (parts := self._divided(binding)) is not None:
            return self._quotient(binding, *parts, k)
        if op in _PRODUCTS:
            return self._product(binding, k)
        if op in _LINEAR:
            found = self._sum(op, [self._term(o, k) for o in operands])
            if found is None or op not in ("add", "sub") or not self._poles.issuperset(operands):
                return found
            self.guarded.add(atom)
            return self._kept(atom, k, found, self._error(atom, k) or ZERO)
        if op == "select":
            arms = [self._term(o, k) for o in operands[1:]]
            return None if arms == [None, None] else b.select(operands[0], *(ZERO if a is None else a for a in arms))
        if op == "loop":
            raise RuleError(f"{binding.origin}: sd.taylor does not take a loop that stays a loop; sd.derivative does")
        if has_structural_partials(binding) and op != "site" and (op in _CELLWISE or rule_of(binding).tangents is None):
            moves = {place: self._spread(t, o) for place, o in enumerate(operands) if (t := self._term(o, k)) is not None}
            return rule_pushforward(self.arrays, binding, moves) if moves else None
        if op == "pow" and (product := self._multiplied(binding)) is not None:
            return self._term(product, k)
        if not has_structural_partials(binding) and op != "pow" and self._is_flat(binding):
            return self._along(binding, {s.operand: self._term(s.operand, k) for s in self._partials(binding)})
        found = self._by_rate(atom, k)
        return found if found is None else self._of_root(binding, k, found)

    def _of_root(self, binding: Node, k: int, found: Atom) -> Atom:
        """A coefficient of a root of what may vanish, such as a length, with the errors that its divisions by small values
        have made of those of its operands; as found for other operations."""
        op, result, b = binding.op, binding.result, self.builder
        if k < 2 or op not in ("sqrt", "hypot") or result not in self._made or not self._may_vanish(result):
            return found
        first = self._term(result, 1)
        errors = [(j, e) for o in binding.operands for j in range(k + 1) if (e := self._error(o, j)) is not None]
        if op == "hypot":
            errors.append((0, b.mul(self._limits(result)[0], self._size(result))))
        if first is None or not errors:
            return found
        steep = self._size(b.emit("div", (first, result)))
        grown = self._total(b.mul(e, self._raised(steep, k - j)) if j < k else e for j, e in errors) or ZERO
        if op == "sqrt":
            grown = b.emit("div", (grown, self._size(result)))
        self.guarded.add(result)
        return self._kept(result, k, found, grown)

    def _by_rate(self, atom: Atom, k: int) -> Atom | None:
        rate = self._rate(atom)
        last = None if rate is None else self._term(rate, k - 1)
        return last if last is None or k == 1 else self.builder.emit("div", (last, Constant(float(k))))

    def _is_polynomial(self, atom: Atom) -> bool:
        """Whether a value is such a polynomial as stands for others near a point."""
        return self.slopes.polynomials.of(atom) is not None

    # -- operations with a recurrence that is shorter than their row's, or needs no row

    def _product(self, binding: Node, k: int) -> Atom | None:
        """Cauchy's product; of a square each pair of terms once."""
        first, second = (self._terms_to(o, k) for o in binding.operands)
        b, square = self.builder, binding.op == "mul" and binding.operands[0] is binding.operands[1]
        if binding.op != "mul":
            x, y = binding.operands
            both = [(p, q) for p, q in zip(first, reversed(second), strict=True) if p is not None and q is not None]
            return self._total([self.arrays.bind(binding.op, self._spread(p, x), self._spread(q, y)) for p, q in both])
        pairs = list(zip(first, reversed(second), strict=True))[: (k + 1) // 2 if square else None]
        terms = [self._of(p, q) for p, q in pairs]
        if not square:
            return self._total(terms)
        middle = first[k // 2] if k % 2 == 0 else None
        return self._total([self._times(2.0, self._total(terms)), None if middle is None else b.mul(middle, middle)])

    def _divided(self, binding: Node) -> tuple[Atom, Atom] | None:
        """What is divided by what, also in functions whose rows are series near zero that end; None for others."""
        b, x = self.builder, binding.operands[0] if binding.operands else ZERO
        if binding.op == "div":
            under = binding.operands[1]
            return (x, under) if not self._saturates(binding) or self._may_vanish(under) else None
        if not is_divided(binding):
            return None
        angle = x if binding.op == "exprel" else b.mul(Constant(math.pi), x)
        return b.emit("expm1" if binding.op == "exprel" else "sin", (angle,)), angle

    def _quotient(self, binding: Node, over: Atom, under: Atom, k: int) -> Atom | None:
        """Coefficient k of a quotient, from those before it; where both vanish nearby, by what is left of them otherwise."""
        b, top, below = self.builder, self._term(over, k), self._terms_to(under, k)
        own = [self._term(binding.result, j) if below[k - j] is not None else None for j in range(k)]
        rest = self._total([self._of(p, q) for p, q in zip(own, below[:0:-1], strict=True)])
        found = self._sum("sub", [top, rest])
        if found is None:
            return None
        found = b.emit("div", (found, under))
        slope = below[1]
        if slope is not None and self._may_share_zero(binding.result, over, under):
            found = self._divided_by(under, slope, binding, over, k, found)
        if not self._facts.of(under).growth:
            return found
        return b.select(b.emit("and", (b.emit("isinf", (under,)), b.emit("eq", (binding.result, ZERO)))), ZERO, found)

    def _with_poles(self, bindings: list[Node]) -> set[Atom]:
        """What of the function may have poles, by its rows and what is known of its values, and what is made of such."""
        moving, found = self.builder.moving, set[Atom]()
        for b in bindings:
            if b.result in moving and (not found.isdisjoint(b.operands) or self._has_pole(b)):
                found.add(b.result)
        return found

    def _has_pole(self, binding: Node) -> bool:
        place = {"div": 1, "pow": 0, "log": 0, "log2": 0, "log10": 0}.get(binding.op)
        if place is None:
            return binding.op in _POLES or any(locus.kind == "pole" for locus in known_column(binding).loci)
        of = binding.operands[place]
        is_natural = binding.op == "pow" and self._multiplied(binding) is not None
        return of in self.builder.moving and not is_natural and self._may_vanish(of)

    def _may_share_zero(self, result: Atom, over: Atom, under: Atom) -> bool:
        """Whether a quotient that the function has, and not a row, may be regular where its divisor vanishes."""
        is_moving = result in self._made and over in self.builder.moving
        return is_moving and self._may_vanish(under) and self._reaches_zero(over)

    def _reaches_zero(self, atom: Atom) -> bool:
        """Whether a value may vanish where it moves, and not only by underflow."""
        pending, seen = [atom], {atom}
        while pending:
            made = self._made.get(top := pending.pop(), top)
            if top not in self.builder.moving or made.op in ("exp", "exp2", "exp10"):
                continue
            if made.op not in ("mul", "div", "neg", "cast", "pow"):
                if self._may_vanish(top):
                    return True
                continue
            parts = made.operands[: 1 if made.op in ("div", "pow") else None]
            pending += [o for o in parts if o not in seen]
            seen.update(parts)
        return False

    def _may_vanish(self, atom: Atom) -> bool:
        return self._facts.of(atom).may_be(0.0)

    def _divided_by(self, under: Atom, slope: Atom, binding: Node, over: Atom, k: int, found: Atom) -> Atom:
        """A coefficient of a quotient; NaN where dividing by a small number k times, which multiplies an error by its k-th
        power, has left no digit of it. What is regular there is no quotient but a polynomial."""
        b, result, (eps, least, _) = self.builder, binding.result, self._limits(binding.result)
        steep, before = self._size(b.emit("div", (slope, under))), self._term(binding.result, k - 1)
        rounded = [self._error(result, k - 1), None if before is None else b.mul(eps, self._size(before)), least]
        error = [b.mul(steep, self._total(rounded) or ZERO), self._share(self._error(over, k), under)]
        self.guarded.add(result)
        return self._kept(result, k, found, self._total(error) or ZERO)

    def _kept(self, result: Atom, k: int, found: Atom, error: Atom) -> Atom:
        """A coefficient that is known but for an error; NaN where not even its size is, and with it all its derivatives."""
        b, (eps, _, tiny) = self.builder, self._limits(result)
        self._errors[result, k] = error
        share = 1e4 * eps.params  # of the largest coefficient so far, which is enough
        size, before = self._size(found), self._scales.get(result)
        if before is None:
            before = b.emit("max", (self._size(result), Constant(tiny.params / share)))
        scale = self._scales[result] = b.emit("max", (before, size))
        enough = b.emit("max", (size, b.mul(Constant(share), scale)))
        return b.select(b.emit("le", (b.mul(Constant(1e3), error), enough)), found, b.mul(Constant(math.nan), found))

    def _limits(self, atom: Atom) -> tuple[Constant, Constant, Constant]:
        """The precision of a value's dtype, the least number, and the least one with all digits."""
        limits = np.finfo(atom.dtype or "d")
        return Constant(float(limits.eps)), Constant(float(limits.smallest_subnormal)), Constant(float(limits.tiny))

    def _error(self, atom: Atom, k: int, depth: int = 0) -> Atom | None:
        """The absolute error of a coefficient, to first order, by the sums that it is made of; None where it is a rounding.

        What lies deeper than `_DEPTH` operations counts as exact but for its own rounding.
        """
        if (atom, k) not in self._errors and atom in self.builder.moving and atom not in self.seeds and depth < _DEPTH:
            self._errors[atom, k] = self._total(self._losses(atom, k, depth + 1))
        return self._errors.get((atom, k))

    def _losses(self, atom: Atom, k: int, depth: int) -> list[Atom | None]:
        b, binding = self.builder, self._made.get(atom, atom)
        op, operands = binding.op, binding.operands
        if op == "pow":
            binding = self._multiplied(binding) or binding
            op, operands = binding.op, binding.operands
        if op in _LINEAR:
            terms = [self._term(o, k) for o in operands]
            is_rounded = len(operands) == 2 and None not in terms
            rounded = [t for o, t in zip(operands, terms, strict=True) if o.op not in _EXACT]
            if len(rounded) < len(terms):
                rounded.append(self._term(atom, k))
            sizes = self._total([self._size(t) for t in rounded if t is not None]) if is_rounded else None
            eps = (k + 1) * self._limits(atom)[0].params
            return [self._times(eps, sizes), *(self._error(o, k, depth) for o in operands)]
        if (parts := self._divided(binding)) is not None:
            over, under = parts
            own = [b.mul(self._limits(atom)[0], self._size(atom))] if k == 0 and self._may_share_zero(atom, *parts) else []
            by_under = self._by(self._term(atom, k), self._error(under, 0, depth))
            return [*own, self._share(self._error(over, k, depth), under), self._share(by_under, under)]
        if op == "mul":
            x, y = operands
            pairs = [(x, y, j) for j in range(k + 1)] + ([(y, x, j) for j in range(k + 1)] if y is not x else [])
            losses = [self._by(self._term(p, k - j), self._error(q, j, depth)) for p, q, j in pairs]
            return losses if y is not x else [self._times(2.0, loss) for loss in losses]
        if op == "select" and (errors := [self._error(o, k, depth) for o in operands[1:]]) != [None, None]:
            return [b.select(operands[0], *(e or ZERO for e in errors))]
        if has_structural_partials(binding) or op == "select" or atom in self._grown:
            return []
        slopes = self._partials(binding)
        by_slopes = [self._by(self._term(s.operand, k), self._error(s.partial, 0, depth)) for s in slopes if k and s.partial]
        return [*by_slopes, *(self._by(s.partial, self._error(s.operand, k, depth)) for s in slopes)]

    def known(self, atom: Atom, k: int) -> Atom | None:
        """A coefficient; NaN where the quotients and sums that it is made of have left no digit of it."""
        found = self.coefficient(atom, k)
        if found is None or not self.guarded or self._is_kept(atom):
            return found
        while True:
            try:
                error = self._error(atom, k)
                return found if error is None else self._kept(atom, k, found, error)
            except _Missing as missing:
                self.coefficient(*missing.args)

    def _is_kept(self, atom: Atom) -> bool:
        """Whether a value is guarded, or a multiple of one that is."""
        while atom not in self.guarded:
            made = self._made.get(atom, atom)
            moving = [o for o in made.operands if o in self.builder.moving]
            if made.op == "select":
                return all(self._is_polynomial(o) or self._is_kept(o) for o in moving)
            if made.op not in _SCALING or len(moving) != 1 or (made.op == "div" and made.operands[1] is moving[0]):
                return False
            atom = moving[0]
        return True

    def _by(self, factor: Atom | None, error: Atom | None) -> Atom | None:
        return None if factor is None or error is None else self.builder.mul(self._size(factor), error)

    def _share(self, error: Atom | None, divisor: Atom) -> Atom | None:
        return None if error is None else self._size(self.builder.emit("div", (error, divisor)))

    def _raised(self, atom: Atom, count: int) -> Atom:
        return self.builder.emit("pow", (atom, Constant(count)))

    def _size(self, atom: Atom) -> Atom:
        return self.builder.emit("abs", (atom,))

    def _multiplied(self, binding: Node) -> Atom | None:
        """A power with a natural exponent, by squaring; None for others."""
        base, exponent = binding.operands
        if not isinstance(exponent, Constant) or isinstance(exponent.value, complex):
            return None
        count = exponent.value
        if count != count or count < 1 or count != int(count) or count > 2**20:
            return None
        found: Atom | None = None
        for digit in bin(int(count))[2:]:
            found = base if found is None else self.builder.emit("mul", (found, found))
            if digit == "1" and found is not base:
                found = self.builder.emit("mul", (found, base))
        return found

    # -- the others, by their rows

    def _partials(self, binding: Node) -> list[Slope]:
        """The partials by values that move, and by their conjugates."""
        if binding.result not in self._slopes:
            found = self._slopes[binding.result] = []
            for place, slope in self.slopes.by_rows(binding, self.builder.moving):
                counts = None if place is None else self.slopes.partials.counts(binding, place)
                found.append(slope if counts is None else slope._replace(taken=Taken(*counts)))
        return self._slopes[binding.result]

    def _saturates(self, binding: Node) -> bool:
        """Whether it has partials of its own where an exponential in it overflows."""
        return self.slopes.saturation.slopes(binding)[0] is not None

    def _is_flat(self, binding: Node) -> bool:
        """Whether the partials are constant, as those of extremes are."""
        return all(p not in self.builder.moving for s in self._partials(binding) for p in (s.partial, s.conjugate))

    def _along(self, binding: Node, dots: dict[Atom, Atom | None]) -> Atom | None:
        """The partials times derivatives of the operands."""
        terms = []
        for slope in self._partials(binding):
            dot, p = dots[slope.operand], slope.partial
            if dot is None or (p is None and slope.conjugate is None):
                continue
            plain = p is not None and slope.conjugate is None
            term = self._scaled(p, dot) if plain else slope.along(self.builder, dot, binding)  # type: ignore[arg-type]
            if slope.taken is not None and term is not None:
                condition, holds = slope.taken
                term = self.builder.select(condition, *((term, ZERO) if holds else (ZERO, term)))
            terms.append(term)
        return self._total(terms)

    def _scaled(self, partial: Atom, dot: Atom) -> Atom:
        """A partial times a derivative: a quotient with a constant above needs no series of its own."""
        binding = self._made.get(partial, partial)
        if binding.op == "div" and binding.operands[0] not in self.builder.moving:
            return self.builder.emit("div", (self._of(binding.operands[0], dot), binding.operands[1]))
        return self._of(partial, dot)

    def _rate(self, atom: Atom) -> Atom | None:
        """The derivative of a value as a value with a series; None where it is zero. Raises `_Missing`."""
        if atom in self.seeds:
            return self.seeds[atom]
        if atom not in self.builder.moving:
            return None
        if atom not in self._rates:
            binding = self._made.get(atom, atom)
            self._rates[atom] = self._by_row(binding) if self._has_row(binding) else self._begun(atom)
        return self._rates[atom]

    def _has_row(self, binding: Node) -> bool:
        op = binding.op
        if self._is_polynomial(binding.result):
            return True
        if binding.result in self._grown or op in _LINEAR or op in _PRODUCTS or op == "select":
            return False
        if self._divided(binding) is not None:
            return False
        if op == "pow":
            return self._multiplied(binding) is None
        if has_structural_partials(binding):
            return op == "site" or (op not in _CELLWISE and rule_of(binding).tangents is not None)
        return not self._is_flat(binding)

    def _begun(self, atom: Atom) -> Atom | None:
        """The derivative of a value whose coefficients are known without it."""
        first = self._term(atom, 1)
        if first is None or isinstance(first, (Constant, ArrayConstant)):
            return first
        symbol = self.builder.rate(first)
        self._grown[symbol] = atom
        return symbol

    def _by_row(self, binding: Node) -> Atom | None:
        if has_structural_partials(binding):
            rates = [self._rate(o) for o in binding.operands]
            parts = {
                k: self._spread(r, o) for k, (r, o) in enumerate(zip(rates, binding.operands, strict=True)) if r is not None
            }
            if parts and binding.op == "site":
                return pushed_through_site(self.builder, binding, parts, self.slopes.partials.rules)
            return rule_pushforward(self.arrays, binding, parts) if parts else None
        if binding.op == "pow" and not self._saturates(binding) and (found := self._of_power(binding)) is not None:
            return found
        return self._along(binding, {s.operand: self._rate(s.operand) for s in self._partials(binding)})

    def _of_power(self, binding: Node) -> Atom | None:
        """The derivative of a power whose row would take a new power for each order; None where the row is better."""
        b, (base, exponent) = self.builder, binding.operands
        rates = [self._rate(o) for o in binding.operands]
        if exponent in b.moving and base in b.moving:
            logarithm = b.emit("log", (base,))
            by_base = None if rates[0] is None else b.emit("div", (self._of(exponent, rates[0]), base))
            by_exponent = None if rates[1] is None else self._of(logarithm, rates[1])
            return self._of(binding.result, self._total([by_base, by_exponent]))
        value = exponent.params if isinstance(exponent, Constant) else None
        if rates[0] is None or value is None or (not isinstance(value, complex) and value > 1):
            return None
        return b.emit("div", (b.mul(self._of(exponent, rates[0]), binding.result), base))

    # -- sums and products of coefficients, None for zero

    def _of(self, a: Atom | None, b: Atom | None) -> Any:
        """A product; an atom for two atoms."""
        return None if a is None or b is None else _folded(a, b) or self.builder.mul(a, b)

    def _times(self, factor: float, a: Atom | None) -> Atom | None:
        return self._of(Constant(factor), a)

    def _total(self, terms: Iterable[Atom | None]) -> Atom | None:
        there = [t for t in terms if t is not None]
        return reduce(self.builder.add, there) if there else None

    def _sum(self, op: str, terms: list[Atom | None]) -> Atom | None:
        """A linear operation on coefficients."""
        b, first = self.builder, terms[0]
        if len(terms) == 1:
            is_none = first is None or (op == "imag" and not is_complex(first.dtype or "d"))
            return None if is_none else first if op == "cast" else b.folded(op, (first,))  # type: ignore[arg-type]
        second = terms[1]
        if second is None or op == "add":
            return self._total(terms)
        return b.neg(second) if first is None else b.emit("sub", (first, second))

    def _spread(self, term: Atom | None, like: Atom) -> Atom:
        return self.arrays.broadcast_to(ZERO if term is None else term, like.shape)


def _folded(a: Atom, b: Atom) -> Atom | None:
    """The product of two of Python's numbers."""
    weak = all(isinstance(x, Constant) and x.dtype is None and not isinstance(x.value, bool) for x in (a, b))
    return Constant(a.params * b.params) if weak else None


def taylor_series(graph: Graph, wrt: list[int], order: int, rules: Any) -> Graph:
    """Inputs, then a direction for each of `wrt`; outputs, then each one's coefficients 1 to `order`, an order at a time. Loops
    of known rounds are written out.
    """
    open_ = Opened(unrolled(graph), wrt, builder=Remembering())
    seeds: dict[Atom, Atom] = {}
    for leaf, parts in zip(open_.wrt, open_.inputs, strict=True):
        seeds.update(zip(parts, open_.input(f"{leaf.name}_dot", leaf.shape, leaf.dtype), strict=True))
    series = Series(open_, seeds, order, rules)
    outputs = list(open_.graph.outputs)
    for k in range(1, order + 1):
        for output in open_.graph.outputs:
            code = reduce(derivative_dtype, [leaf.dtype for leaf in open_.wrt], output.dtype)
            terms = [series.known(a, k) for a in open_.outputs(output)]
            outputs.append(open_.output(f"{output.name}_t{k}", terms, output.shape, code))
    return open_.finished(outputs, f"{graph.name}_taylor")


def series_derivative(graph: Graph, place: int, order: int, rules: Any) -> tuple[Graph, bool]:
    """The derivative of an order by one number: the factorial times the coefficient; and whether it keeps digits that others
    lose, near common zeros of what is divided."""
    open_ = Opened(graph, [place], builder=Remembering())
    leaf, output = open_.wrt[0], open_.graph.outputs[0]
    series = Series(open_, {leaf: Constant(1.0)}, order, rules)
    factorial = float(math.factorial(order))
    for k in range(1, order):
        for atom in open_.outputs(output):
            series.known(atom, k)
    parts = [series._times(factorial, series.known(atom, order)) for atom in open_.outputs(output)]
    code = derivative_dtype(output.dtype, leaf.dtype)
    return open_.finished([open_.output("df", parts, output.shape, code)], f"{graph.name}_derivative"), bool(series.guarded)


def has_series(graph: Graph, place: int, order: int, rules: Any) -> bool:
    """Whether a derivative by a number is a factorial that there is in its dtype times the coefficient along it: the graph has
    no loop, and of a complex number no conjugate."""
    leaf = graph.inputs[place].node
    if leaf.shape or order > (34 if leaf.dtype in "fF" else 170) or has_loops(graph.bindings):
        return False
    if not is_complex(leaf.dtype):
        return True
    active = active_symbols(graph.bindings, {leaf})
    found = (b.params.rule if b.op == "call" else rules.for_op(b.op) for b in graph.bindings if b in active and b.op in OPS)
    return not any(rule is not None and rule.conj_partials for rule in found)
