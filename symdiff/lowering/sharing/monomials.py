"""A Program as sums of monomials: the form in which common factors and powers can be seen.

Assumes a numbered Program. Guarantees that products are flattened to coefficient times powers of atoms, that sums of the
value part keep their order and their parentheses, that sums of the derivative part are flattened and like terms
collected, and that coefficients are only merged exactly in the value part. Refuses to expand: a sum in a product is an atom.
"""

import math
from collections.abc import Set
from dataclasses import dataclass, field

from symdiff.ir.node import Node, Number
from symdiff.lowering.program import Program
from symdiff.lowering.walks import uses_of
from symdiff.vocabulary.ops import is_complex
from symdiff.vocabulary.traits import operations

Monomial = tuple[tuple[int, int], ...]  # (atom, exponent), by atom
Form = tuple[Number, Monomial]  # coefficient and monomial
MAX_DEGREE = 24  # a longer product becomes an atom, so that long chains stay linear
SHARED_DEGREE = 6  # so does a product used more than once beyond this degree
MAX_EXPONENT = 1024
_ARITHMETIC = operations("polynomial") | {"const"}


@dataclass(slots=True)
class Sum:
    """Terms coefficient times monomial in order; `primal` sums keep their order and are never collected."""

    terms: list[Form]
    dtype: str
    primal: bool
    origin: str


@dataclass(slots=True)
class Atom:
    """What products see as one factor: a node on forms, a product, or a sum."""

    node: Node | None = None
    operands: tuple[Form, ...] = ()
    product: Form | None = None
    sum: Sum | None = None
    dtype: str = "d"
    origin: str = ""


@dataclass(slots=True)
class Polynomial:
    """Atoms, and the form of every output cell."""

    program: Program
    atoms: list[Atom] = field(default_factory=list)
    forms: list[Form] = field(default_factory=list)  # by node of the original Program
    quotients: set[Monomial] = field(default_factory=set)  # divisions of the value part, which stay divisions
    cells: list[int] = field(init=False)  # the values of checks and outputs

    def __post_init__(self) -> None:
        self.cells = self.program.results

    def copied(self) -> "Polynomial":
        """The same, apart from this."""
        atoms = [a if a.sum is not None else Atom(a.node, a.operands, a.product, None, a.dtype, a.origin) for a in self.atoms]
        return Polynomial(self.program, atoms, list(self.forms), self.quotients)


def monomial_form(atom: int) -> Form:
    """An atom as a form."""
    return 1, ((atom, 1),)


def degree(monomial: Monomial) -> int:
    """The number of factors, counted with multiplicity."""
    return sum(abs(e) for _, e in monomial)


def times(a: Monomial, b: Monomial) -> Monomial:
    """The product of two monomials."""
    if not a:
        return b
    if not b:
        return a
    exponents = dict(a)
    for atom, e in b:
        exponents[atom] = exponents.get(atom, 0) + e
    return tuple(sorted((atom, e) for atom, e in exponents.items() if e))


def is_exact_factor(a: Number, b: Number) -> bool:
    """Whether a*b is exact for sure: one is a signed power of two, or both are small integers."""
    for x in (a, b):
        if not isinstance(x, complex) and abs(math.frexp(x)[0]) == 0.5:
            return True
    if isinstance(a, complex) or isinstance(b, complex):
        return False
    return float(a).is_integer() and float(b).is_integer() and abs(a * b) < 2**53


def plain(c: Number) -> Number:
    """A coefficient, real where it can be: as keys a complex number and the real one that it is equal to are the same."""
    return c.real if isinstance(c, complex) and c.imag == 0 else c


def program_polynomial(program: Program, fastmath: bool, fixed: Set[int] = frozenset()) -> Polynomial:
    """The Program as sums of monomials; the `fixed` nodes stay as they are."""
    return _Reader(program, fastmath, fixed).read()


class _Reader:
    def __init__(self, program: Program, fastmath: bool, fixed: Set[int]) -> None:
        self.program = program
        self.fixed = fixed
        self.fastmath = fastmath
        self.result = Polynomial(program)
        self.uses = uses_of(program)
        self.sum_atoms: dict[int, int] = {}  # by identity of the Sum
        self.sum_uses: dict[int, int] = {}
        self.mixed = len({self._precision(i.dtype) for i in program.nodes if i.dtype != "?"}) > 1

    def read(self) -> Polynomial:
        for position, node in enumerate(self.program.nodes):
            self.result.forms.append(self._form(position, node))
        return self.result

    def _atom(self, **parts: object) -> int:
        self.result.atoms.append(Atom(**parts))  # type: ignore[arg-type]
        return len(self.result.atoms) - 1

    def _form(self, position: int, node: Node) -> Form:
        forms = self.result.forms
        operands = [forms[o] for o in node.operands]
        fixed = position in self.fixed and node.op != "const"
        if node.op in _ARITHMETIC and not fixed and not self._is_mixed(node):
            primal = node.primal and not self.fastmath
            found: Form | None = None
            if node.op == "const":
                if node.dtype != "?" and self._is_coefficient(node.params):
                    found = node.params, ()
            elif node.op == "neg":
                found = -operands[0][0], operands[0][1]
            elif node.op == "mul":
                found = self._product(operands[0], operands[1], primal)
            elif node.op == "div":
                found = self._quotient(operands[0], operands[1], primal)
                if primal and found is not None:
                    self.result.quotients.add(found[1])
            elif node.op == "pow":
                found = self._power(node, operands)
            elif node.op in ("add", "sub"):
                return self._sum(position, node, operands, primal)
            if found is not None:
                for factor, _ in found[1]:
                    if factor in self.sum_uses:  # a sum behind a sign or in a product is used as often as these are
                        self.sum_uses[factor] += self.uses[position] - 1
                size = degree(found[1])
                if size > MAX_DEGREE or (size > SHARED_DEGREE and self.uses[position] > 1):
                    return monomial_form(self._atom(product=found, dtype=node.dtype, origin=node.origin))
                return found
        scale = 1 if fixed or node.op != "select" or node.primal else self._scale(node, operands)
        return scale, monomial_form(self._atom(node=node, operands=tuple(operands), dtype=node.dtype, origin=node.origin))[1]

    def _scale(self, node: Node, operands: list[Form]) -> float:
        """The half of a root's slope beside zero in a derivative's select, taken out of it: squares have a factor 2."""
        zero = [arm.op == "const" and arm.params == 0 for arm in (self.program.nodes[o] for o in node.operands[1:])]
        place = 1 + zero.index(False) if any(zero) and not all(zero) else 0
        factor, monomial = operands[place]
        if not place or factor not in (0.5, -0.5) or all(e > 0 for _, e in monomial):
            return 1
        operands[place] = (1 if factor == 0.5 else -1), monomial
        return 0.5

    def _is_mixed(self, node: Node) -> bool:
        """Whether an operation widens an operand, which keeps the two precisions apart."""
        own = self._precision(node.dtype)
        return self.mixed and any(self._precision(self.program.nodes[o].dtype) != own for o in node.operands)

    @staticmethod
    def _precision(code: str) -> str:
        return {"f": "single", "F": "single", "d": "double", "D": "double", "?": "bool"}[code]

    @staticmethod
    def _is_coefficient(value: object) -> bool:
        if isinstance(value, complex) and value.imag == 0:
            return False  # it makes a real product complex
        return isinstance(value, (int, float, complex)) and value == value and value != 0 and abs(value) != math.inf

    def _constant(self, value: Number) -> int:
        return self._atom(node=Node("const", (), (), "D" if isinstance(value, complex) else "d", value))

    def _product(self, a: Form, b: Form, primal: bool) -> Form | None:
        if primal and not is_exact_factor(a[0], b[0]):
            return None
        if primal and self._cancels(a[1], b[1]):
            return None
        coefficient = a[0] * b[0]
        if not self._is_coefficient(coefficient):
            return None
        return coefficient, times(a[1], b[1])

    @staticmethod
    def _cancels(a: Monomial, b: Monomial) -> bool:
        exponents = dict(a)
        return any(exponents.get(atom, 0) * e < 0 for atom, e in b)

    def _quotient(self, a: Form, b: Form, primal: bool) -> Form | None:
        inverse = tuple((atom, -e) for atom, e in b[1])
        if isinstance(b[0], complex) or abs(math.frexp(b[0])[0]) != 0.5:
            return None if not inverse else self._over(a, b, inverse, primal)
        if primal and self._cancels(a[1], inverse):
            return None
        return a[0] * (1 / b[0]), times(a[1], inverse)

    def _over(self, a: Form, b: Form, inverse: Monomial, primal: bool) -> Form | None:
        """a/b with a coefficient in b: exact integer quotients merge, others leave the division alone."""
        if primal or isinstance(a[0], complex) or isinstance(b[0], complex) or a[0] % b[0]:
            return None
        return a[0] // b[0], times(a[1], inverse)

    def _power(self, node: Node, operands: list[Form]) -> Form | None:
        exponent = self.program.nodes[node.operands[1]]
        n = exponent.params
        if exponent.op != "const" or isinstance(n, (complex, bool)) or not abs(n) <= MAX_EXPONENT or n != int(n):
            return None
        n = int(n)
        coefficient, monomial = operands[0]
        if n == 0:
            return 1, ()
        if coefficient not in (1, -1) or not monomial:
            base = self._atom(product=operands[0], dtype=node.dtype)
            return 1, ((base, n),)
        return coefficient ** abs(n), tuple((atom, e * n) for atom, e in monomial)

    def _sum(self, position: int, node: Node, operands: list[Form], primal: bool) -> Form:
        left, right = operands
        sign = 1 if node.op == "add" else -1
        grown = self._open_sum(node.operands[0], left, primal)
        if grown is not None:
            total, scale = grown
        else:
            total, scale = Sum([left], node.dtype, primal, ""), 1
            self._atom(sum=total, dtype=node.dtype)
            self.sum_atoms[id(total)] = len(self.result.atoms) - 1
        if not primal:
            other = self._open_sum(node.operands[1], right, primal)
            if other is not None and other[0] is not total:
                self._absorb(total, other[0], other[1] * sign * scale)
            else:
                total.terms.append((right[0] * sign * scale, right[1]))
        else:
            total.terms.append((right[0] * sign * scale, right[1]))
        total.origin = node.origin
        total.dtype = node.dtype
        atom = self.sum_atoms[id(total)]
        self.result.atoms[atom].dtype = node.dtype
        self.sum_uses[atom] = self.uses[position]
        return scale, ((atom, 1),)

    def _absorb(self, total: Sum, other: Sum, factor: int) -> None:
        """Another sum's terms, which it hands over: chains of sums stay linear in memory."""
        if factor == 1 and len(total.terms) < len(other.terms):
            other.terms[:0] = total.terms
            total.terms = other.terms
        else:
            total.terms += other.terms if factor == 1 else [(c * factor, m) for c, m in other.terms]
        atom = self.sum_atoms.pop(id(other))
        del self.sum_uses[atom]
        self.result.atoms[atom].sum = None

    def _open_sum(self, operand: int, form: Form, primal: bool) -> tuple[Sum, int] | None:
        """A sum that only this node uses, and its sign: it can be continued in place."""
        coefficient, monomial = form
        if self.uses[operand] != 1 or len(monomial) != 1 or monomial[0][1] != 1 or coefficient not in (1, -1):
            return None
        if primal and (coefficient == -1 or self.program.nodes[operand].op not in ("add", "sub")):
            return None
        found = self.result.atoms[monomial[0][0]].sum
        if (
            found is None
            or self.sum_uses[monomial[0][0]] != 1
            or found.primal != primal
            or is_complex(found.dtype) != is_complex(self.program.nodes[operand].dtype)
        ):
            return None
        return found, int(coefficient)  # type: ignore[arg-type]


def collect_monomials(terms: list[Form]) -> list[Form]:
    """Like terms of a derivative's sum added up; terms that cancel are dropped."""
    found: dict[tuple[tuple[int, int], ...], Form] = {}
    for c, monomial in terms:
        before = found.get(monomial)
        found[monomial] = (c if before is None else plain(before[0] + c), monomial)
    kept = [t for t in found.values() if t[0] != 0]
    return kept or [next(iter(found.values()))]
