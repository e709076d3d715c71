"""Roots as the sweeps see them: a*sqrt(s)*b*sqrt(s) is a*s*b, |x|**2 x*x, sqrt(x*x) and max(x, -x) |x|, |exp(w)| exp(Re w).

Assumes bindings in order. Guarantees the same values where these are real, and derivatives of every order where the root
has a kink or a vertical slope and its square, or x*sqrt(x), has none, however they are spelled. What the user wrote is
computed as it stands.
"""

import math

from symdiff.ir.arrays.algebra import Arrays
from symdiff.ir.building import Builder, is_constant
from symdiff.ir.invariants import binding_with
from symdiff.ir.node import Atom, Constant, Node
from symdiff.simplification.facts import Facts
from symdiff.vocabulary.ops import is_complex

_LONG = 16  # factors of a product that are looked at
_ROOTS = {"sqrt": 1 / 2, "cbrt": 1 / 3}
_SCALING = frozenset({"mul", "neg", "div", "cast"})


def smoothed(bindings: list[Node], builder: Builder) -> list[Node]:
    """The bindings with products of equal roots in terms of what is under them; new symbols are bound on the builder."""
    if not any(_is_root(b) or b.op in ("max", "min", "pow", "hypot") for b in bindings):
        return bindings
    return _Smoothing(bindings, builder).run()


def _even(exponent: Atom) -> int:
    """A constant exponent that is even and positive, else 0."""
    if not isinstance(exponent, Constant) or isinstance(exponent.value, (bool, complex)):
        return 0
    return int(exponent.value) if exponent.value > 0 and exponent.value % 2 == 0 else 0


def _is_root(binding: Node) -> bool:
    if is_complex(binding.dtype):
        return False
    if binding.op == "pow":
        exponent = binding.operands[1]
        return isinstance(exponent, Constant) and exponent.value == 0.5
    return binding.op in ("sqrt", "abs", "hypot")


def _fraction(binding: Node) -> float:
    """The exponent of a square root or another power that is no integer, 0 for anything else."""
    if binding.op == "sqrt" and not is_complex(binding.dtype):
        return 0.5
    exponent = binding.operands[1] if binding.op == "pow" and not is_complex(binding.dtype) else None
    if not isinstance(exponent, Constant) or isinstance(exponent.value, complex):
        return 0.0
    return float(exponent.value) if exponent.value > 0 and exponent.value % 1 else 0.0


class _Smoothing:
    def __init__(self, bindings: list[Node], builder: Builder) -> None:
        self.bindings = bindings
        self.builder = builder
        self.made: dict[Atom, Node] = {}
        self.likeness = self.bounds = Facts(bindings)
        self.rooted: set[Atom] = set()  # what has a root among its factors

    def run(self) -> list[Node]:
        found: list[Node] = []
        start = len(self.builder.bindings)
        for binding in self.bindings:
            self.builder.origin = binding.origin
            seen = self._seen(binding)
            for new in (*self.builder.bindings[start:], seen):
                found.append(new)
                self.made[new.result] = new
                if _is_root(new) or _fraction(new) or (new.op in _SCALING and self.rooted.intersection(new.operands)):
                    self.rooted.add(new.result)
            start = len(self.builder.bindings)
        return found

    def _seen(self, binding: Node) -> Node:
        """A binding as the sweeps see it."""
        op, operands = binding.op, binding.operands
        found: Atom | None = None
        if op in ("max", "min"):
            found = self._of_opposites(op, *operands)
        elif op == "sqrt" or (op == "pow" and _is_root(binding)):
            found = self._of_squares(operands[0])
        elif op == "abs" and self.bounds.of(operands[0]).low >= 0.0:
            found = operands[0]
        elif op == "abs":
            found = self._of_exponential(operands[0])
        elif op == "hypot":
            found = self._of_lengths(*operands)
        if op == "mul" and not is_complex(binding.dtype) and self.rooted.intersection(operands):
            factors = self._factors(binding)
            found = self._product(factors) or self._fractional(factors)
        elif op == "pow" and operands[0] in self.rooted and (power := _even(operands[1])):
            found = self._power(self._factors(self.made[operands[0]]), power)
        if found is None and op == "pow" and operands[0] in self.made and not is_complex(binding.dtype):
            found = self._power_of_power(self.made[operands[0]], operands[1])
        return binding if found is None else self._renamed(found, binding)

    def _renamed(self, found: Atom, binding: Node) -> Node:
        """The binding of what was found, under the symbol of `binding`."""
        bindings = self.builder.bindings
        if bindings and bindings[-1].result is found:
            last = bindings.pop()
            if last.shape == binding.shape and last.dtype == binding.dtype:
                return binding_with(binding, last.op, last.operands, last.params)
            bindings.append(last)
        if found.shape != binding.shape:
            found = Arrays(self.builder, binding.origin).broadcast_to(found, binding.shape)
        return binding_with(binding, "cast", (found,))

    def _of_opposites(self, op: str, x: Atom, y: Atom) -> Atom | None:
        """max(x, -x) and min(x, -x)."""
        for a, b in ((x, y), (y, x)):
            made = self.made.get(b)
            if made is not None and made.op == "neg" and self.likeness.same(made.operands[0], a) and a.shape == b.shape:
                size = self.builder.emit("abs", (a,))
                return size if op == "max" else self.builder.emit("neg", (size,))
        return None

    def _of_squares(self, under: Atom) -> Atom | None:
        """The root of a sum of squares of multiples of one value."""
        if under in self.made and is_complex(self.made[under].dtype):
            return None
        terms, found = [under], []
        while terms:
            made = self.made.get(terms[-1])
            if made is not None and made.op == "add" and len(found) + len(terms) < _LONG:
                terms[-1:] = reversed(made.operands)
                continue
            found += self._squares(terms.pop()) or [(under, math.nan)]
        (base, _), *rest = found
        return self._size(base, math.fsum(f for _, f in found)) if all(self._alike(base, x) for x, _ in rest) else None

    def _squares(self, term: Atom) -> list[tuple[Atom, float]]:
        """x and c of a term c*x*x, none for another one."""
        product, factor = self.likeness.multiple(term)
        made = self.made.get(product)
        if made is not None and made.op == "pow" and is_constant(made.operands[1], 2):
            base, each = self.likeness.multiple(made.operands[0])
            return [(base, factor * each * each)]
        if made is None or made.op != "mul":
            return []
        (base, first), (other, second) = map(self.likeness.multiple, made.operands)
        return [(base, factor * first * second)] if self._alike(base, other) else []

    def _alike(self, x: Atom, y: Atom) -> bool:
        return x.shape == y.shape and self.likeness.same(x, y)

    def _size(self, x: Atom, square: float) -> Atom | None:
        """|x| times the root of a positive number."""
        if not square > 0 or is_complex(x.dtype or "d"):
            return None
        size = self.builder.emit("abs", (x,))
        return size if square == 1 else self.builder.mul(Constant(math.sqrt(square)), size)

    def _of_lengths(self, x: Atom, y: Atom) -> Atom | None:
        """hypot of multiples of one value."""
        if is_constant(x, 0) or is_constant(y, 0):
            return self.builder.emit("abs", (y if is_constant(x, 0) else x,))
        (base, first), (other, second) = self.likeness.multiple(x), self.likeness.multiple(y)
        return self._size(base, first * first + second * second) if self._alike(base, other) else None

    def _of_exponential(self, power: Atom) -> Atom | None:
        """|exp(w)| of a complex w is exp(Re w)."""
        made = self.made.get(power)
        if made is None or made.op != "exp" or not is_complex(made.dtype):
            return None
        return self.builder.emit("exp", (self._real_part(made.operands[0]),))

    def _real_part(self, w: Atom) -> Atom:
        product = self.made.get(w)
        if product is not None and product.op == "mul":
            for c, t in (product.operands, product.operands[::-1]):
                if isinstance(c, Constant) and not is_complex(t.dtype or "D"):
                    return self.builder.mul(self.builder.real(c), t) if complex(c.value).real else Constant(0.0)
        return self.builder.real(w)

    def _factors(self, product: Node) -> list[tuple[str, Atom]]:
        """The factors and divisors of a product, each with "mul", "div" or, for a sign, "neg"."""
        found: list[tuple[str, Atom]] = []
        pending: list[Atom] = [product.result]
        self.made[product.result] = product
        while pending:
            atom = pending.pop()
            binding = self.made.get(atom) if atom in self.rooted or atom is product.result else None
            if binding is None or binding.op not in ("mul", "neg", "div") or len(found) + len(pending) > _LONG:
                found.append(("mul", atom))
            elif binding.op == "mul":
                pending += reversed(binding.operands)
            elif binding.op == "neg":
                found.append(("neg", atom))
                pending.append(binding.operands[0])
            else:
                found.append(("div", binding.operands[1]))
                pending.append(binding.operands[0])
        return found

    def _product(self, factors: list[tuple[str, Atom]]) -> Atom | None:
        """A product in which the first pair of equal roots is replaced; None where there is none."""
        roots = [k for k, (op, a) in enumerate(factors) if op == "mul" and a in self.rooted and _is_root(self.made[a])]
        for place, first in enumerate(roots):
            for second in roots[place + 1 :]:
                square = self._pair(self.made[factors[first][1]], self.made[factors[second][1]])
                if square is not None:
                    return self._multiplied(square, [f for k, f in enumerate(factors) if k not in (first, second)])
        return None

    def _fractional(self, factors: list[tuple[str, Atom]]) -> Atom | None:
        """A product in which a root meets what is under it, x*sqrt(x), as one power; None where there is none."""
        for first, (op, root) in enumerate(factors):
            power = _fraction(self.made[root]) if op == "mul" and root in self.rooted else 0.0
            under = self.made[root].operands[0] if power else root
            if not power or self.bounds.of(under).powers:
                continue
            for second, (how, other) in enumerate(factors):
                more = self._exponent(other, under) if how == "mul" and second != first else 0.0
                if more:
                    found = self.builder.emit("pow", (under, Constant(power + more)))
                    return self._multiplied(found, [f for k, f in enumerate(factors) if k not in (first, second)])
        return None

    def _exponent(self, atom: Atom, base: Atom) -> float:
        """n of a power base**n, 0 for anything else."""
        if self.likeness.same(atom, base):
            return 1.0
        made = self.made.get(atom)
        if made is None or made.op not in ("mul", "pow") or not self.likeness.same(made.operands[0], base):
            return 0.0
        if made.op == "mul":
            return 2.0 if self.likeness.same(made.operands[1], base) else 0.0
        n = made.operands[1]
        return float(n.value) if isinstance(n, Constant) and not isinstance(n.value, complex) and n.value > 0 else 0.0

    def _sizes(self, x: Atom, y: Atom) -> Atom | None:
        """|x|*|y|, where one is a multiple of the other."""
        (first, sign), (second, other) = self.likeness.direction(x), self.likeness.direction(y)
        if first != second:
            return None
        product = self.builder.real(self.builder.emit("mul", (x, self.builder.conj(y))))
        return product if sign == other else self.builder.emit("neg", (product,))

    def _pair(self, root: Node, other: Node) -> Atom | None:
        """The product of two roots of the same."""
        if root.op == other.op == "abs":
            return self._sizes(root.operands[0], other.operands[0])
        return self._even_power(root, 2) if self.likeness.same(root.result, other.result) else None

    def _power(self, factors: list[tuple[str, Atom]], power: int) -> Atom | None:
        """A product with roots among its factors to an even power."""
        found: Atom | None = None
        rest = []
        for op, atom in factors:
            binding = self.made.get(atom)
            square = self._even_power(binding, power) if op == "mul" and binding is not None and _is_root(binding) else None
            if square is not None:
                found = square if found is None else self.builder.mul(found, square)
            elif op != "neg":
                rest.append((op, atom))
        if found is None:
            return None
        return self._multiplied(found, [(op, self._raised(atom, power)) for op, atom in rest])

    def _power_of_power(self, base: Node, exponent: Atom) -> Atom | None:
        """A positive integer power of a root: what is under it to the product of the exponents, where that has a slope."""
        power = _ROOTS.get(base.op, 0.0)
        if base.op == "pow" and isinstance(base.operands[1], Constant) and not isinstance(base.operands[1].value, complex):
            power = float(base.operands[1].value)
        if not 0 < power < 1 or not isinstance(exponent, Constant) or isinstance(exponent.value, (bool, complex)):
            return None
        n, under = exponent.value, base.operands[0]
        product = n / 3 if base.op == "cbrt" else n * power
        if n % 1 or product < 1 or (base.op == "cbrt" and product % 1) or self.bounds.of(under).powers:
            return None
        return (
            under
            if product == 1
            else self.builder.emit("pow", (under, Constant(int(product) if product % 1 == 0 else product)))
        )

    def _raised(self, atom: Atom, power: int) -> Atom:
        if isinstance(atom, Constant):
            return Constant(atom.value**power, atom.dtype)
        return self.builder.emit("pow", (atom, Constant(power)))

    def _multiplied(self, square: Atom, rest: list[tuple[str, Atom]]) -> Atom:
        b = self.builder
        for op, atom in rest:
            square = b.neg(square) if op == "neg" else b.mul(square, atom) if op == "mul" else b.emit("div", (square, atom))
        return square

    def _even_power(self, root: Node, power: int) -> Atom | None:
        """A power of a root in terms of what is under the root; None where that has no such form."""
        b = self.builder
        under = root.operands[0]
        if root.op in ("sqrt", "pow"):
            return under if power == 2 else b.emit("pow", (under, Constant(power // 2)))
        if root.op == "abs" and not is_complex(under.dtype or "d"):
            return b.emit("mul", (under, under)) if power == 2 else b.emit("pow", (under, Constant(power)))
        if power > 2:
            return None
        if root.op == "hypot":
            return b.emit("add", tuple(self._squared(x) for x in root.operands))
        return b.emit("real", (b.emit("mul", (under, b.emit("conj", (under,)))),))

    def _squared(self, x: Atom) -> Atom:
        root = self.made.get(x)
        square = self._even_power(root, 2) if root is not None and _is_root(root) else None
        return self.builder.emit("mul", (x, x)) if square is None else square
