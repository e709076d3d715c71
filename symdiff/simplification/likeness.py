"""Which values of a list of bindings are the same however they are spelled, and which have the same sign.

Assumes bindings in order. Guarantees that values found equal are, up to rounding: x**2 counts as x*x, x @ x of vectors as the
sum of products; and that values of one direction are constant multiples of each other. What it cannot
tell is different.
"""

from symdiff.ir.building import is_constant
from symdiff.ir.node import Atom, Constant, Known, Node
from symdiff.simplification.interning import Values
from symdiff.vocabulary.heads import Static

Direction = tuple[int, int]  # the number of a value, or of a difference turned one way, and the sign of the factor to it


class Likeness:
    """Numbers of values, equal ones the same; worked out when the first is asked for."""

    def __init__(self, bindings: list[Node]) -> None:
        self.made: dict[Atom, Node] = {b.result: b for b in bindings}
        self._values = Values()
        self._numbers: dict[Atom, int] = {}

    def same(self, a: Atom, b: Atom) -> bool:
        """Whether two atoms have one value."""
        return a is b or self.number(a) == self.number(b)

    def direction(self, atom: Atom) -> Direction:
        """What has the sign of the atom, without constant factors, and whether it is the same sign (1) or the other (-1)."""
        sign = 1
        while (binding := self.made.get(atom)) is not None:
            op, operands = binding.op, binding.operands
            if op == "sub":
                first, second = (self.number(o) for o in operands)
                turned = -sign if second < first else sign
                return self._values.put("sub", (min(first, second), max(first, second)), (), "d"), turned
            if op in ("neg", "cast"):
                sign, atom = (-sign if op == "neg" else sign), operands[0]
                continue
            place = 0 if op in ("mul", "div") and _is_factor(operands[1]) else 1
            if op not in ("mul", "div") or not _is_factor(operands[1 - place]) or (op == "div" and place == 1):
                break
            sign, atom = (-sign if operands[1 - place].value < 0 else sign), operands[place]
        return self.number(atom), sign

    def multiple(self, atom: Atom) -> tuple[Atom, float]:
        """What an atom is a multiple of, without constant factors, and their product."""
        factor = 1.0
        while (binding := self.made.get(atom)) is not None and binding.op in ("neg", "mul", "div"):
            operands = binding.operands
            if binding.op == "neg":
                factor, atom = -factor, operands[0]
                continue
            place = 0 if _is_factor(operands[-1]) else 1
            if not _is_factor(operands[1 - place]) or (binding.op == "div" and place):
                break
            scale = float(operands[1 - place].value)  # type: ignore[union-attr]
            factor, atom = factor * scale if binding.op == "mul" else factor / scale, operands[place]
        return atom, factor

    def number(self, atom: Atom) -> int:
        """The number of an atom's value."""
        stack = [atom]
        while stack:
            top = stack[-1]
            binding = self.made.get(top)
            missing = [] if binding is None else [o for o in binding.operands if o not in self._numbers]
            if top in self._numbers or not missing:
                if top not in self._numbers:
                    self._numbers[top] = self._put(top, binding)
                stack.pop()
            else:
                stack += missing
        return self._numbers[atom]

    def _put(self, atom: Atom, binding: Node | None) -> int:
        v = self._values
        if isinstance(atom, Known):
            return v.constant(atom)
        if binding is None:
            return v.put("input", (), atom.shape, atom.dtype, atom)
        operands = tuple(self._numbers[o] for o in binding.operands)
        if binding.op == "pow" and is_constant(binding.operands[1], 2):
            return v.put("mul", (operands[0], operands[0]), binding.shape, binding.dtype)
        if binding.op == "matmul" and all(len(o.shape) == 1 for o in binding.operands):
            product = v.put("mul", operands, binding.operands[0].shape, binding.dtype)
            return v.put("sum", (product,), (), binding.dtype, Static("sum", {"axes": (0,)}))
        return v.put(binding.op, operands, binding.shape, binding.dtype, binding.params)


def _is_factor(atom: Atom) -> bool:
    return isinstance(atom, Constant) and not isinstance(atom.value, complex) and atom.value != 0
