"""Sums of monomials back to a Program: powers and products share their parts, sums take the sign that costs least.

Assumes a Polynomial whose sums may have been factored. Guarantees a numbered Program in depth-first order of its outputs,
with the dtypes of the original.
"""

import heapq
import itertools
from collections import Counter
from collections.abc import Set
from itertools import combinations, pairwise

from symdiff.ir.node import Number
from symdiff.lowering.program import Program, is_leaf, numbering_key
from symdiff.lowering.sharing.monomials import Form, Monomial, Polynomial
from symdiff.lowering.sharing.signs import monomials_under
from symdiff.lowering.table import Table
from symdiff.lowering.walks import live_only, uses_of
from symdiff.vocabulary.ops import is_complex, join_dtype_codes, real_counterpart

_Pair = tuple[int, int]
LONG = 12  # factors up to which a product's pairs are all looked at


def absorb_negations(program: Program) -> Program:
    """-(k*x), -(k/x) and -(a - b) as (-k)*x, (-k)/x and b - a where the inner value has no other use."""
    if not any(node.op == "neg" and program.nodes[node.operands[0]].op in ("mul", "div", "sub") for node in program.nodes):
        return program
    uses = uses_of(program)
    place: list[int] = []
    table = Table()
    for node in program.nodes:
        inner = program.nodes[node.operands[0]] if node.op == "neg" else None
        if inner is not None and uses[node.operands[0]] == 1 and inner.op in ("mul", "div", "sub"):
            a, b = inner.operands
            if inner.op == "sub":
                place.append(table.put("sub", (place[b], place[a]), node.dtype, None, node.origin))
                continue
            constant, other = (b, a) if inner.op == "mul" and program.nodes[a].op != "const" else (a, b)
            old = program.nodes[constant]
            if old.op == "const":  # one of the factors, for the other may be the same constant
                negative = table.put("const", (), old.dtype, -old.params)
                place.append(table.put(inner.op, (negative, place[other]), node.dtype, None, node.origin))
                continue
        place.append(table.put(node.op, tuple([place[o] for o in node.operands]), node.dtype, node.params, node.origin))
    return program.over(table.nodes, place)


class Products:
    """Products as lists of factors, whose frequent pairs become factors of their own (as in byte-pair encoding)."""

    def __init__(self) -> None:
        self.lists: list[list[int]] = []
        self.pairs: dict[int, _Pair] = {}

    def share(self, fresh_start: int) -> None:
        """Replace the most frequent pair of factors until every pair is unique; ties go to pairs that complete a product."""
        found = _Pairs([factors for factors in self.lists if len(factors) > 1])
        for symbol in itertools.count(fresh_start):
            pair = found.replaced(symbol)
            if pair is None:
                return
            self.pairs[symbol] = pair


class _Pairs:
    """Pairs of factors: in `heap` as often as they occurred when they were counted last."""

    def __init__(self, lists: list[list[int]]) -> None:
        self.lists = lists
        self.having: dict[int, set[int]] = {}  # the lists that have a factor
        self.odd: set[int] = set()  # those that are long, or have a factor twice
        self.whole: Counter[_Pair] = Counter()  # the lists that are a pair
        for index, factors in enumerate(lists):
            for factor in factors:
                self.having.setdefault(factor, set()).add(index)
            self._look(index)
        even = [combinations(factors, 2) for index, factors in enumerate(lists) if index not in self.odd]
        counts = Counter(itertools.chain.from_iterable(even))
        for index in self.odd:
            counts.update(_counted(lists[index]))
        self.heap = [(-times, not self.whole[pair], pair) for pair, times in counts.items() if times > 1]
        heapq.heapify(self.heap)

    def _look(self, index: int) -> None:
        factors = self.lists[index]
        if len(factors) == 2:
            self.whole[factors[0], factors[1]] += 1
        if len(factors) > LONG or len(set(factors)) < len(factors):
            self.odd.add(index)

    def _places(self, pair: _Pair) -> list[tuple[int, int]]:
        """The lists that have a pair, and how often each does."""
        a, b = pair
        both = self.having[a] & (self.odd if a == b else self.having[b])
        if self.odd.isdisjoint(both):
            return [(index, 1) for index in both]
        found = []
        for index in both:
            factors = self.lists[index]
            if len(factors) > LONG:
                times = _counted(factors).get(pair, 0)
            else:
                times = factors.count(a) // 2 if a == b else min(factors.count(a), factors.count(b))
            if times:
                found.append((index, times))
        return found

    def replaced(self, symbol: int) -> _Pair | None:
        """The next pair, for which the symbol stands from now on; entries of the heap that have become rarer are put back."""
        while self.heap:
            negated, _, pair = heapq.heappop(self.heap)
            places = self._places(pair)
            times = sum([times for _, times in places])
            if times == -negated:
                self._replace(pair, sorted(places), symbol)
                return pair
            self._push(pair, times)
        return None

    def _replace(self, pair: _Pair, places: list[tuple[int, int]], symbol: int) -> None:
        touched: dict[_Pair, int] = {}
        self.having[symbol] = {index for index, _ in places}
        odd = not self.odd.isdisjoint(self.having[symbol])
        for index, times in places:
            factors = self.lists[index]
            long = _counted(factors) if len(factors) > LONG else None
            if len(factors) == 2:
                self.whole[factors[0], factors[1]] -= 1
            for part in pair * times:
                factors.remove(part)
            for part in pair:
                if part not in factors:
                    self.having[part].discard(index)
            rest = len(factors)
            factors += [symbol] * times
            self.odd.discard(index)
            self._look(index)
            made = [(c, symbol) for c in factors[: rest + times - 1]] if long is None else _counted(factors).keys() - long
            for one in made:
                touched[one] = touched.get(one, 0) + 1
        for again in sorted(touched):
            self._push(again, sum([times for _, times in self._places(again)]) if odd else touched[again])

    def _push(self, pair: _Pair, times: int) -> None:
        if times > 1:
            heapq.heappush(self.heap, (-times, not self.whole[pair], pair))


def _counted(factors: list[int]) -> dict[_Pair, int]:
    """The pairs of a sorted list; of long lists the neighbouring ones only, which keeps the work linear."""
    once = dict.fromkeys(factors, 1)
    if len(factors) > LONG:
        count = factors.count
        return {(a, b): count(a) // 2 if a == b else min(count(a), count(b)) for a, b in pairwise(factors)}
    found = dict.fromkeys(combinations(once, 2), 1)
    if len(once) < len(factors):
        several = [(a, m) for a in once if (m := factors.count(a)) > 1]
        found.update({(a, a): m // 2 for a, m in several})
        found.update({(a, b): min(m, n) for (a, m), (b, n) in combinations(several, 2)})
    return found


def needed_forms(poly: Polynomial, sums: dict[int, list[Form]], order: list[int]) -> list[Form]:
    """The forms of all atoms and results."""
    found = [form for atom in order for form in monomials_under(poly, sums, atom)]
    return found + [poly.forms[c] for c in poly.cells]


def _unsigned(form: Form) -> Form:
    """A form without its sign."""
    c, monomial = form
    return (c if isinstance(c, complex) else abs(c)), monomial


def common_divisors(poly: Polynomial, forms: list[Form]) -> Set[int]:
    """The atoms that divide several different products of the derivative."""
    kept = {m for m in poly.quotients if len(m) != 1 or m[0][1] != -1}
    divides = Counter(atom for monomial in {m for _, m in forms} - kept for atom, e in monomial if e < 0)
    return {atom for atom, products in divides.items() if products > 1}


class Lowering(Table):
    """Emits nodes for atoms and forms, each once.

    An atom of `reciprocals` becomes the factor 1/atom in products of the derivative.
    """

    def __init__(self, poly: Polynomial, sums: dict[int, list[Form]], reciprocals: Set[int] = frozenset()) -> None:
        super().__init__()
        self.poly = poly
        self.sums = sums
        self.reciprocals = reciprocals
        self.program = poly.program
        self.single = all(i.dtype in "fF?" for i in self.program.nodes)
        self._atoms: dict[int, int] = {}
        self._fractions: dict[Form, tuple[list[int], Monomial, list[int]]] = {}
        self._magnitudes: dict[Form, int] = {}
        self._factors: dict[tuple[Number, Monomial], list[int]] = {}
        self._needed: set[tuple[Number, Monomial]] = set()  # products in numerators
        self.products = Products()
        self._constants: dict[tuple[object, ...], int] = {}
        self._constant_values: dict[int, Number] = {}
        self._pair_values: dict[int, int] = {}

    def lower(self, order: list[int]) -> Program:
        """The Program, whose atoms come in this order."""
        program, forms = self.program, self.poly.forms
        wanted = dict.fromkeys([_unsigned(form) for form in needed_forms(self.poly, self.sums, order)])
        self._fractions = {key: self._fraction(key) for key in wanted}
        self.products.share(3 * (len(self.poly.atoms) + len(self._constants)) + 1_000_000)
        for atom in order:
            self._lower_atom(atom)
        place = {c: self._form(forms[c], program.nodes[c].dtype) for c in program.results}
        return live_only(absorb_negations(program.over(self.nodes, place)))

    def _fraction(self, key: Form) -> tuple[list[int], Monomial, list[int]]:
        """The factors of a form without its sign, its divisor and the divisor's factors."""
        upper, lower = self._split(key[1])
        self._needed.add((key[0], upper))
        return self._product(key[0], upper), lower, self._product(1, lower)

    def _split(self, monomial: Monomial) -> tuple[Monomial, Monomial]:
        """Numerator (with reciprocals as negative exponents) and denominator."""
        if not [e for _, e in monomial if e < 0]:
            return monomial, ()
        kept = monomial in self.poly.quotients
        upper, lower = [], []
        for atom, e in monomial:
            if e > 0 or (not kept and atom in self.reciprocals):
                upper.append((atom, e))
            else:
                lower.append((atom, -e))
        return tuple(upper), tuple(lower)

    def _product(self, c: Number, monomial: Monomial) -> list[int]:
        """The factors of a product, one list for all its uses, in which pairs will be shared."""
        factors = self._factors.get((c, monomial))
        if factors is None:
            factors = [3 * a if e > 0 else 3 * a + 2 for a, e in monomial for _ in range(abs(e))]
            if c != 1:
                name = self._constants.setdefault(numbering_key(c), 3 * len(self._constants) + 1)
                self._constant_values[name] = c
                factors.append(name)
            factors.sort()
            self._factors[c, monomial] = factors
            self.products.lists.append(factors)
        return factors

    # -- emitting

    def _factor(self, factor: int) -> int:
        """The value of an atom, a constant, or a shared pair (their parts first, with an explicit stack)."""
        found = self._known(factor)
        stack = [factor] if found is None else []
        while stack:
            top = stack[-1]
            if self._known(top) is not None:
                stack.pop()
                continue
            a, b = self.products.pairs[top]
            missing = [f for f in (a, b) if self._known(f) is None]
            if missing:
                stack += missing
                continue
            self._pair_values[top] = self._multiply(self._known(a), self._known(b))  # type: ignore[arg-type]
        return self._known(factor) if found is None else found  # type: ignore[return-value]

    def _known(self, factor: int) -> int | None:
        if factor in self.products.pairs:
            return self._pair_values.get(factor)
        if factor % 3 == 0:
            return self._atoms[factor // 3]
        if factor % 3 == 2:
            divisor = self._atoms[factor // 3]
            unit = self._constant(1.0)
            return self.put("div", (unit, divisor), self._common(unit, divisor))
        return self._constant(self._constant_values[factor])

    def _constant(self, value: Number) -> int:
        code = ("F" if self.single else "D") if isinstance(value, complex) else ("f" if self.single else "d")
        return self.put("const", (), code, value if isinstance(value, complex) else float(value))

    def _multiply(self, a: int, b: int) -> int:
        return self.put("mul", (a, b), self._common(a, b))

    def _common(self, a: int, b: int) -> str:
        """The dtype of an operation on two values; a constant has no precision of its own."""
        first, second = self.nodes[a], self.nodes[b]
        for constant, other in ((first, second), (second, first)):
            if constant.op == "const" and other.op != "const":
                if isinstance(constant.params, complex) and not is_complex(other.dtype):
                    return "F" if other.dtype == "f" else "D"
                return str(other.dtype)
        return join_dtype_codes(first.dtype, second.dtype)

    def _chain(self, factors: list[int]) -> int:
        values = [self._factor(f) for f in factors]
        if len(values) > 1:  # real factors first, which halves the work; a constant last, where it can take up a sign
            values.sort(key=lambda v: (is_complex(self.nodes[v].dtype), self.nodes[v].op == "const"))
        result = values[0]
        for value in values[1:]:
            result = self._multiply(result, value)
        return result

    def _magnitude(self, form: Form) -> int:
        """The value of a form without its sign."""
        key = _unsigned(form)
        found = self._magnitudes.get(key)
        if found is None:
            found = self._magnitudes[key] = self._quotient(*self._fractions[key])
        return found

    def _quotient(self, factors: list[int], lower: Monomial, divisor_factors: list[int]) -> int:
        numerator = self._chain(factors) if factors else self._constant(1.0)
        if not lower:
            return numerator
        if len(lower) == 1 and lower[0][1] == 2 and (1, lower) not in self._needed:
            # n/d/d costs what n/(d*d) costs, and d*d can overflow where the result does not.
            divisor = self._atoms[lower[0][0]]
            once = self.put("div", (numerator, divisor), self._common(numerator, divisor))
            return self.put("div", (once, divisor), self._common(once, divisor))
        denominator = self._chain(divisor_factors)
        return self.put("div", (numerator, denominator), self._common(numerator, denominator))

    def _form(self, form: Form, dtype: str, origin: str = "") -> int:
        c, monomial = form
        if not monomial:
            code = real_counterpart(dtype) if not isinstance(c, complex) and is_complex(dtype) else dtype
            value = self.put("const", (), code, c if isinstance(c, complex) else float(c))
            return self._as(value, dtype)
        value = self._magnitude((c, monomial))
        if not isinstance(c, complex) and c < 0:
            value = self.put("neg", (value,), self.nodes[value].dtype, None, origin)
        return self._as(value, dtype)

    def _as(self, value: int, dtype: str) -> int:
        return value if dtype == "?" else self.as_dtype(value, dtype)

    def _lower_atom(self, atom: int) -> None:
        entry = self.poly.atoms[atom]
        if entry.sum is not None:
            self._atoms[atom] = self._lower_sum(atom, entry.dtype, entry.origin)
        elif entry.product is not None:
            self._atoms[atom] = self._form(entry.product, entry.dtype, entry.origin)
        else:
            node = entry.node
            assert node is not None
            if is_leaf(node):
                self._atoms[atom] = self.put(node.op, (), node.dtype, node.params, entry.origin)
                return
            codes = [self.program.nodes[o].dtype for o in node.operands]
            operands = tuple(self._form(f, code) for f, code in zip(entry.operands, codes, strict=True))
            self._atoms[atom] = self.put(node.op, operands, node.dtype, node.params, entry.origin)

    def _lower_sum(self, atom: int, dtype: str, origin: str) -> int:
        terms = self.sums[atom]
        positive = [t for t in terms if isinstance(t[0], complex) or t[0] > 0]
        if not positive:
            term = self._term(terms[0], dtype)
            result = self.put("neg", (term,), self.nodes[term].dtype)
            rest = terms[1:]
        else:
            lead = terms[0]
            if not isinstance(lead[0], complex) and lead[0] < 0 and len(terms) > 1:
                second = terms[1]
                if isinstance(second[0], complex) or second[0] > 0:
                    terms = [second, lead, *terms[2:]]
                else:
                    terms = [positive[0], *(t for t in terms if t is not positive[0])]
            result = self._term(terms[0], dtype)
            rest = terms[1:]
        for c, monomial in rest:
            value = self._term((c, monomial), dtype)
            code = self._common(result, value)
            minus = not isinstance(c, complex) and c < 0
            result = self.put("sub" if minus else "add", (result, value), code, None, origin)
        # Where the complex terms of a sum cancel, it is a real one, and may be another's part; who reads it widens it.
        return self._as(result, dtype if is_complex(self.nodes[result].dtype) else real_counterpart(dtype))

    def _term(self, form: Form, dtype: str) -> int:
        """The value of a term without its sign."""
        c, monomial = form
        if monomial:
            return self._magnitude(form)
        code = real_counterpart(dtype) if not isinstance(c, complex) else dtype
        return self.put("const", (), code, c if isinstance(c, complex) else abs(float(c)))
