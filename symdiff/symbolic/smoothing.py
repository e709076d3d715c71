"""Squares of roots, as the sweeps see them: sqrt(s)**2 is s, |x|**2 is x*x, hypot(x, y)**2 is x*x + y*y.

Assumes bindings in order. Guarantees the same values where these are real, and derivatives of every order where the root
has a kink and its square has none. What the user wrote is computed as it stands. Refuses nothing.
"""

from symdiff.ops import is_complex
from symdiff.symbolic.building import Builder
from symdiff.symbolic.graph import Atom, Binding, Constant


def smoothed(bindings: list[Binding], builder: Builder) -> list[Binding]:
    """The bindings with squares of roots in terms of what is under the root; new symbols are bound on the builder."""
    roots = {b.symbol: b for b in bindings if _is_root(b)}
    if not roots:
        return bindings
    found = []
    for binding in bindings:
        root = roots.get(binding.operands[0]) if binding.operands else None
        power = _even_power(binding, roots) if root else 0
        root = root if power else None
        found += [binding] if root is None else _square(binding, root, power, builder)
    return found


def _is_root(binding: Binding) -> bool:
    if binding.op == "pow":
        exponent = binding.operands[1]
        return isinstance(exponent, Constant) and exponent.value == 0.5 and not is_complex(binding.dtype)
    return binding.op in ("sqrt", "abs", "hypot") and not is_complex(binding.dtype)


def _even_power(binding: Binding, roots: dict[Atom, Binding]) -> int:
    """n of x**n, a power of a root (2 of a product of equal roots), when it is even and positive, else 0."""
    if binding.op == "mul":
        first, second = (roots.get(o) for o in binding.operands)
        return 2 if first and second and (first.op, first.operands) == (second.op, second.operands) else 0
    exponent = binding.operands[1] if binding.op == "pow" else None
    if not isinstance(exponent, Constant) or isinstance(exponent.value, (bool, complex)):
        return 0
    return int(exponent.value) if exponent.value > 0 and exponent.value % 2 == 0 else 0


def _square(binding: Binding, root: Binding, power: int, builder: Builder) -> list[Binding]:
    """`binding`, a power of a root, in terms of what is under the root; unchanged where that has no such form."""

    def bound(op: str, *operands: Atom) -> Binding:
        builder.origin = binding.origin
        builder.emit(op, operands)
        return builder.bindings[-1]

    def same(op: str, *operands: Atom) -> Binding:
        return Binding(binding.symbol, op, operands, None, binding.origin, binding.primal)

    under = root.operands[0]
    if root.op in ("sqrt", "pow"):
        return [same("cast", under) if power == 2 else same("pow", under, Constant(power // 2))]
    if root.op == "hypot":
        if power > 2:
            return [binding]
        squares = [bound("mul", x, x) for x in root.operands]
        return [*squares, same("add", *(b.symbol for b in squares))]
    if not is_complex(under.dtype or "d"):
        return [same("mul", under, under) if power == 2 else same("pow", under, Constant(power))]
    if power > 2:
        return [binding]
    mirrored = bound("conj", under)
    product = bound("mul", under, mirrored.symbol)
    return [mirrored, product, same("real", product.symbol)]
