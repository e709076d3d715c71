"""Signs of sums: each sum is computed with the sign that needs the fewest negations.

Assumes a Polynomial and its sums. Guarantees that every value keeps its sign: flipping a sum negates its terms and every
form in which it stands to an odd power.
"""

from collections.abc import Iterable

from symdiff.lowering.sharing.monomials import (
    MAX_DEGREE,
    SHARED_DEGREE,
    Form,
    Monomial,
    Polynomial,
    collect_monomials,
    degree,
    plain,
    times,
)

PASSES = 3


class Signs:
    """Forms where a negative coefficient costs a negation (outputs, operands), and sums where it costs none."""

    def __init__(self, poly: Polynomial, sums: dict[int, list[Form]], order: list[int]) -> None:
        self.poly = poly
        self.sums = sums
        self.forms = {atom: list(monomials_under(poly, sums, atom)) for atom in order}
        self.negative = {atom: sum(_negative(c) for c, _ in forms) for atom, forms in self.forms.items()}
        self.places: dict[int, dict[int, list[int]]] = {}  # of an atom in the forms of those that use it, to an odd power
        for user, forms in self.forms.items():
            for place, (_, monomial) in enumerate(forms):
                for factor, e in monomial:
                    if e % 2:
                        self.places.setdefault(factor, {}).setdefault(user, []).append(place)
        self.readers: dict[int, list[int]] = {}
        for cell in sorted(set(poly.cells)):
            for factor, e in poly.forms[cell][1]:
                if e % 2:
                    self.readers.setdefault(factor, []).append(cell)

    def settle(self) -> None:
        """Flip sums while that saves negations, the largest saving first."""
        atoms = self.poly.atoms
        sums = [atom for atom in self.forms if atoms[atom].sum is not None]
        for _ in range(PASSES):
            gains = [(self._gain(atom), atom) for atom in sums]
            promising = sorted((-gain, atom) for gain, atom in gains if gain > 0)
            for _, atom in promising:
                if self._gain(atom) > 0:
                    self._flip(atom)
            if not promising:
                break
        for atom, forms in self.forms.items():
            if atoms[atom].sum is not None:
                self.sums[atom] = forms
            elif atoms[atom].product is not None:
                atoms[atom].product = forms[0]
            else:
                atoms[atom].operands = tuple(forms)

    def _gain(self, atom: int) -> int:
        before = self._cost(atom)
        if not before:
            return 0
        self._flip(atom)
        after = self._cost(atom)
        self._flip(atom)
        return before - after

    def _cost(self, atom: int) -> int:
        cost = int(self._all_negative(atom))
        seen: set[Monomial] = set()
        for cell in self.readers.get(atom, ()):
            c, monomial = self.poly.forms[cell]
            if _negative(c) and (monomial not in seen or abs(c) != 1):
                seen.add(monomial)
                cost += 1
        for user, places in self.places.get(atom, {}).items():
            if self.poly.atoms[user].sum is not None:
                cost += self._all_negative(user)
            else:
                cost += sum(_negative(self.forms[user][place][0]) for place in places)
        return cost

    def _all_negative(self, atom: int) -> bool:
        return self.negative[atom] == len(self.forms[atom])

    def _flip(self, atom: int) -> None:
        self._negate(atom, range(len(self.forms[atom])))
        for user, places in self.places.get(atom, {}).items():
            self._negate(user, places)
        for cell in self.readers.get(atom, ()):
            c, monomial = self.poly.forms[cell]
            self.poly.forms[cell] = -c, monomial

    def _negate(self, atom: int, places: Iterable[int]) -> None:
        forms = self.forms[atom]
        for place in places:
            c, monomial = forms[place]
            forms[place] = -c, monomial
            self.negative[atom] += _negative(-c) - _negative(c)


def monomials_under(poly: Polynomial, sums: dict[int, list[Form]], atom: int) -> list[Form]:
    """The forms that an atom is made of."""
    entry = poly.atoms[atom]
    if entry.sum is not None:
        return sums[atom]
    return [entry.product] if entry.product is not None else list(entry.operands)


def monomial_order(poly: Polynomial, sums: dict[int, list[Form]]) -> list[int]:
    """The atoms that outputs need, operands first."""
    roots = [poly.forms[c] for c in poly.cells]
    order: list[int] = []
    done = bytearray(len(poly.atoms))
    stack = [a for _, m in reversed(roots) for a, _ in reversed(m)]
    while stack:
        atom = stack.pop()
        if atom < 0:  # its operands are done
            order.append(~atom)
        elif not done[atom]:
            done[atom] = 1
            stack.append(~atom)
            for _, monomial in reversed(monomials_under(poly, sums, atom)):
                for factor, _ in reversed(monomial):
                    if not done[factor]:
                        stack.append(factor)
    return order


def dissolve_single_terms(poly: Polynomial, sums: dict[int, list[Form]], order: list[int]) -> None:
    """Sums that factoring left with one term become part of the products that use them, unless these grow long."""
    single: dict[int, Form] = {}
    uses: dict[int, int] = {}
    for atom in order:
        for _, monomial in monomials_under(poly, sums, atom):
            for factor, _ in monomial:
                uses[factor] = uses.get(factor, 0) + 1

    def dissolved(form: Form) -> Form:
        c, monomial = form
        if not any(a in single for a, _ in monomial) or any(e < 0 and a in single and single[a][0] == 0 for a, e in monomial):
            return form
        result: Monomial = tuple((a, e) for a, e in monomial if a not in single)
        for a, e in monomial:
            if a in single:
                inner, factors = single[a]
                c = plain(c * inner**e)
                result = times(result, tuple((f, k * e) for f, k in factors))
        return c, result

    for atom in order:
        entry = poly.atoms[atom]
        if entry.sum is not None:
            terms = [dissolved(f) for f in sums[atom]]
            sums[atom] = terms if entry.sum.primal else collect_monomials(terms)
            c, monomial = sums[atom][0]
            longest = SHARED_DEGREE if uses.get(atom, 0) > 1 else MAX_DEGREE
            free = not entry.sum.primal and not isinstance(c, complex)
            if len(sums[atom]) == 1 and (free or c in (1, -1)) and monomial and degree(monomial) <= longest:
                single[atom] = sums[atom][0]
        elif entry.product is not None:
            entry.product = dissolved(entry.product)
        else:
            entry.operands = tuple(dissolved(f) for f in entry.operands)
    for cell in poly.cells:
        poly.forms[cell] = dissolved(poly.forms[cell])


def _negative(c: object) -> bool:
    return not isinstance(c, complex) and c < 0  # type: ignore[operator]
