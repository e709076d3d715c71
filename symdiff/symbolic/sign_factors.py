"""Products of signs in derivatives: sign(x)*sign(x) is 1, at zero too, which is the mean of the limits from both sides.

Assumes bindings in order, then those that a builder makes for a derivative. Guarantees that a factor sign(x) that two values
share is left out of their product, however often they were scaled, negated or added up since. Refuses nothing.
"""

from symdiff.ops import is_complex
from symdiff.symbolic.building import Builder
from symdiff.symbolic.graph import Atom, Binding, Constant, Var
from symdiff.symbolic.likeness import Likeness

_MANY = 8  # signs that are kept track of in one value
_KEPT = frozenset({"neg", "cast", "div"})  # operations that leave a factor of their first operand in place
NONE: frozenset[int] = frozenset()


def watch_signs(builder: Builder, bindings: list[Binding]) -> None:
    """Have a builder leave out squares of signs, where the bindings that it differentiates can give some."""
    if builder.signs is None and any(b.op in ("abs", "sign") and not is_complex(b.dtype) for b in bindings):
        builder.signs = SignFactors(builder, bindings)


class SignFactors:
    """The factors sign(x) of the values on a builder, each by the number of x's direction."""

    def __init__(self, builder: Builder, bindings: list[Binding]) -> None:
        self.builder = builder
        self.likeness = Likeness(bindings)
        self.made: dict[Atom, Binding] = {}
        self._factors: dict[Atom, frozenset[int]] = {}
        for binding in bindings:
            self.note(binding)

    def note(self, binding: Binding) -> None:
        """Work out the factors of a new binding."""
        found = self._of(binding)
        if found:
            self._factors[binding.symbol] = found
            self.made[binding.symbol] = binding

    def _of(self, binding: Binding) -> frozenset[int]:
        op, operands = binding.op, binding.operands
        if op == "sign" and not is_complex(binding.dtype):
            return frozenset({self.likeness.direction(operands[0])[0]})
        if op == "mul":
            both = self.of(operands[0]) | self.of(operands[1])
            return both if len(both) <= _MANY else NONE
        if op in _KEPT:
            return self.of(operands[0])
        if op in ("add", "sub"):
            return self.of(operands[0]) & self.of(operands[1])
        if op == "select":
            arms = [self.of(o) for o in operands[1:] if not _is_zero(o)]
            return frozenset.intersection(*arms) if arms else NONE
        return NONE

    def of(self, atom: Atom) -> frozenset[int]:
        """The directions of the signs that are factors of a value."""
        return self._factors.get(atom, NONE)

    def product(self, a: Atom, b: Atom) -> Atom | None:
        """a*b without the signs that both have; None where they have none in common."""
        shared = self.of(a) & self.of(b)
        if not shared:
            return None
        direction = min(shared)
        return self.builder.mul(self._without(a, direction), self._without(b, direction))

    def _without(self, atom: Atom, direction: int) -> Atom:
        """A value divided by one of its signs."""
        b = self.builder
        if _is_zero(atom):
            return atom
        binding = self.made[atom]
        op, operands = binding.op, binding.operands
        if op == "sign":
            code = None if isinstance(atom, Var) and atom.shape == () else binding.dtype
            return Constant(float(self.likeness.direction(operands[0])[1]), code)
        if op == "mul":
            place = 0 if direction in self.of(operands[0]) else 1
            return b.mul(self._without(operands[place], direction), operands[1 - place])
        if op == "neg":
            return b.neg(self._without(operands[0], direction))
        if op == "cast":
            return b.cast(self._without(operands[0], direction), binding.dtype)
        if op == "div":
            return b.emit("div", (self._without(operands[0], direction), operands[1]))
        if op == "select":
            return b.select(operands[0], *(self._without(o, direction) for o in operands[1:]))
        return b.emit(op, tuple(self._without(o, direction) for o in operands))


def _is_zero(atom: Atom) -> bool:
    return isinstance(atom, Constant) and not isinstance(atom.value, complex) and atom.value == 0
