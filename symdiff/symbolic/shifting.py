"""Sums of exponentials as the sweeps see them: with the largest exponential taken out, so that nothing overflows.

Assumes bindings in order. Guarantees that a logarithm of a sum of exponentials, and a quotient of two, has derivatives that
are finite where such a sum overflows or vanishes and its slope does not: log(exp(a) + exp(b)) is m + log(exp(a - m) +
exp(b - m)), m being the rounded maximum, whose derivative counts as zero. What the user wrote is computed as it stands.
Refuses nothing: what it cannot take apart stays.
"""

import math

from symdiff.symbolic.arrays.algebra import Arrays, kept_shape
from symdiff.symbolic.bounds import Bounds
from symdiff.symbolic.building import Builder, is_constant
from symdiff.symbolic.graph import Atom, Binding, Constant
from symdiff.symbolic.growth import Growth, exponent, exponential
from symdiff.symbolic.likeness import Likeness

ZERO, ONE = Constant(0.0), Constant(1.0)
_LOGARITHMS = {"log": 1.0, "log2": 1 / math.log(2), "log10": 1 / math.log(10), "log1p": 1.0}
_MOVING = frozenset({"reshape", "transpose", "getitem", "broadcast_to", "item"})


def shifted(bindings: list[Binding], builder: Builder) -> list[Binding]:
    """The bindings with logarithms and quotients of sums of exponentials in a form that does not overflow."""
    growth = Growth(bindings, Bounds(bindings))
    return _Shifting(bindings, builder, growth).run() if growth.explosive else bindings


class _Shifting:
    def __init__(self, bindings: list[Binding], builder: Builder, growth: Growth) -> None:
        self.bindings = bindings
        self.builder = builder
        self.arrays = Arrays(builder)
        self.growth = growth
        self.made = growth.made
        self.likeness = Likeness(bindings)
        self._tops: dict[Atom, Atom | None] = {}

    def run(self) -> list[Binding]:
        found: list[Binding] = []
        start = len(self.builder.bindings)
        for binding in self.bindings:
            self.builder.origin = self.arrays.origin = binding.origin
            seen = self._seen(binding) if binding.dtype in "fd" else None
            found += self.builder.bindings[start:]
            start = len(self.builder.bindings)
            found.append(binding if seen is None else Binding(binding.symbol, "cast", (seen,), None, binding.origin, False))
        return found

    def _seen(self, binding: Binding) -> Atom | None:
        """What a binding is for the sweeps; None where that is what it is."""
        op, operands = binding.op, binding.operands
        if op in _LOGARITHMS and (operands[0] in self.growth.explosive or self._share(operands[0])):
            return self._logarithm(op, operands[0])
        if op == "div" and all(o in self.growth.explosive for o in operands):
            return self._quotient(*operands)
        return None

    # -- logarithms

    def _logarithm(self, op: str, x: Atom) -> Atom | None:
        """The logarithm of a share, a quotient or a sum of exponentials."""
        b = self.builder
        made = self.made[x]
        share = None if op == "log1p" else self._share(x)
        if share is None and op != "log1p" and made.op == "div" and all(o in self.growth.explosive for o in made.operands):
            share = made.operands[0], made.operands[1]
        if share is not None:
            return b.emit("sub", tuple(self._plain_logarithm(op, o) for o in share))
        if made.op in _MOVING:
            found = self._logarithm(op, made.operands[0])
            return None if found is None else self._moved(made, found)
        if x in self.growth.alone or not self._is_sum(x):
            return None
        if op == "log1p":
            op, x = "log", self._made("add", ONE, x)
        top = self._rounded_top(x)
        if top is None:
            return None
        return b.add(b.emit(op, (self._scaled(x, top),)), b.mul(Constant(_LOGARITHMS[op]), top))

    def _plain_logarithm(self, op: str, x: Atom) -> Atom:
        """The logarithm of a value that is an exponential, or a sum of some."""
        b = self.builder
        binding = self.made.get(x)
        argument = None if binding is None else exponential(binding)
        if argument is not None:
            return b.mul(Constant(argument[1] * _LOGARITHMS[op]), argument[0])
        found = self._logarithm(op, x) if x in self.growth.explosive else None
        return b.emit(op, (x,)) if found is None else found

    def _share(self, x: Atom) -> tuple[Atom, Atom] | None:
        """(b, a + b) of 1 - a/(a + b) where an exponential is among the two; None for anything else."""
        made = self.made.get(x)
        if made is None or made.op != "sub" or not is_constant(made.operands[0], 1):
            return None
        quotient = self.made.get(made.operands[1])
        whole = self.made.get(quotient.operands[1]) if quotient is not None and quotient.op == "div" else None
        if whole is None or whole.op != "add" or whole.symbol not in self.growth.explosive:
            return None
        part = quotient.operands[0]  # type: ignore[union-attr]
        for a, b in (whole.operands, whole.operands[::-1]):
            if (is_constant(a, 1) and is_constant(part, 1)) or self.likeness.same(a, part):
                return b, whole.symbol
        return None

    # -- quotients

    def _quotient(self, above: Atom, below: Atom) -> Atom | None:
        first, second = self.made[above], self.made[below]
        if {first.op, second.op} == {"sinh", "cosh"} and self.likeness.same(*first.operands, *second.operands):
            slope = self.builder.emit("tanh", first.operands)
            return slope if first.op == "sinh" else self.builder.emit("div", (ONE, slope))
        top = self._rounded_top(below)
        if top is None or self._top(above) is None:
            return None
        return self.builder.emit("div", (self._scaled(above, top), self._scaled(below, top)))

    # -- sums of exponentials

    def _is_sum(self, x: Atom) -> bool:
        """Whether a value adds up several exponentials."""
        binding = self.made[x]
        while binding.op in ("mul", "div", "neg", "cast", "pow", "reshape"):
            binding = self.made[next(o for o in binding.operands if o in self.growth.explosive)]
        return binding.op in ("add", "sub", "sum")

    def _rounded_top(self, x: Atom) -> Atom | None:
        """About the largest exponent in a sum of exponentials, as a number whose derivative is zero."""
        top = self._top(x)
        return top if top is None or isinstance(top, Constant) else self.builder.emit("rint", (top,))

    def _top(self, x: Atom) -> Atom | None:
        """An exponent of the size of a value's logarithm; None for what is not taken apart."""
        if x not in self.growth.explosive:
            return ZERO
        if x not in self._tops:
            self._tops[x] = self._top_of(self.made[x])
        return self._tops[x]

    def _top_of(self, binding: Binding) -> Atom | None:
        b, op, operands = self.builder, binding.op, binding.operands
        argument = exponential(binding)
        if argument is not None:
            return b.mul(Constant(argument[1]), argument[0])
        if op == "cosh":
            return b.emit("abs", (operands[0],))
        power = exponent(binding)
        tops = [self._top(o) for o in operands[: 1 if power > 0 else None]]
        if any(t is None for t in tops):
            return None
        if op in ("add", "sub"):
            return b.emit("max", tuple(tops))  # type: ignore[arg-type]
        if op == "mul":
            return b.add(*tops)  # type: ignore[arg-type]
        if op == "div":
            return tops[0] if tops[1] is ZERO else b.emit("sub", tuple(tops))  # type: ignore[arg-type]
        if op in ("neg", "cast"):
            return tops[0]
        if power > 0:
            return b.mul(operands[1], tops[0])  # type: ignore[arg-type]
        if op == "sum":
            return self.arrays.bind("amax", tops[0], axes=binding.params.params["axes"])  # type: ignore[arg-type]
        return self._moved(binding, tops[0]) if op in _MOVING else None  # type: ignore[arg-type]

    def _scaled(self, x: Atom, top: Atom) -> Atom:
        """x*exp(-top), without the exponentials of x where these are large."""
        b = self.builder
        if x not in self.growth.explosive:
            return x if is_constant(top, 0) else b.mul(x, b.emit("exp", (b.neg(top),)))
        binding = self.made[x]
        op, operands = binding.op, binding.operands
        power = exponent(binding)
        argument = exponential(binding)
        if argument is not None:
            return b.emit("exp", (b.emit("sub", (b.mul(Constant(argument[1]), argument[0]), top)),))
        if op == "cosh":
            w = operands[0]
            both = (b.emit("exp", (b.emit("sub", (v, top)),)) for v in (w, b.neg(w)))
            return b.mul(Constant(0.5), b.add(*both))
        if op in ("add", "sub"):
            return b.emit(op, tuple(self._scaled(o, top) for o in operands))
        if op == "neg":
            return b.neg(self._scaled(operands[0], top))
        if op == "cast":
            return b.cast(self._scaled(operands[0], top), binding.dtype)
        if power > 0:
            return b.emit("pow", (self._scaled(operands[0], b.mul(Constant(1.0 / power), top)), operands[1]))
        if op == "sum":
            shape, axes = operands[0].shape, binding.params.params["axes"]
            spread = self.arrays.reshape(top, kept_shape(shape, axes)) if top.shape else top
            return self.arrays.sum(self._scaled(operands[0], spread), axes)
        if op in _MOVING:
            return self._moved(binding, self._scaled(operands[0], top))
        return self._scaled_product(op, operands, top)

    def _scaled_product(self, op: str, operands: tuple[Atom, ...], top: Atom) -> Atom:
        """A product's or quotient's factors, each with its own exponential taken out but the first."""
        b = self.builder
        first, second = operands
        if op == "mul" and first not in self.growth.explosive:
            first, second = second, first
        if second not in self.growth.explosive:
            return b.emit(op, (self._scaled(first, top), second))
        own = self._rounded_top(second)
        assert own is not None
        left = b.emit("sub" if op == "mul" else "add", (top, own))
        return b.emit(op, (self._scaled(first, left), self._scaled(second, own)))

    def _moved(self, binding: Binding, x: Atom) -> Atom:
        if binding.op == "item":
            return self.builder.bind("item", (x,), (), x.dtype or "d", binding.params)
        return self.arrays.bind(binding.op, x, **binding.params.params)

    def _made(self, op: str, *operands: Atom) -> Atom:
        """A new operation that is taken apart like those of the function."""
        found = self.builder.emit(op, operands)
        self.made[found] = self.builder.bindings[-1]
        if any(o in self.growth.explosive for o in operands):
            self.growth.explosive.add(found)
        return found
