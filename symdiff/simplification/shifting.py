"""Sums of exponentials as the sweeps see them: with the largest exponential taken out, so that nothing overflows.

Assumes bindings in order. Guarantees that a logarithm of a sum of exponentials, and a quotient of two, has derivatives that
are finite where such a sum overflows or vanishes and its slope does not: log(exp(a) + exp(b)) is m + log(exp(a - m) +
exp(b - m)), m being the rounded maximum, whose derivative counts as zero. What the user wrote is computed as it stands.
What it cannot take apart stays.
"""

import numpy as np

from symdiff.ir.arrays.algebra import Arrays, kept_shape
from symdiff.ir.building import Builder, is_constant
from symdiff.ir.node import Atom, Constant, Node
from symdiff.rulebooks.structural import moves_by_rule
from symdiff.simplification.facts import LOGARITHMS, Facts
from symdiff.simplification.rewriting import Forms, replaced
from symdiff.vocabulary.walking import worked_out

ZERO, ONE = Constant(0.0), Constant(1.0)
_DEEP = 40  # operations that are taken apart from within each other


def shifted(facts: Facts, builder: Builder) -> list[Node]:
    """The bindings with logarithms and quotients of sums of exponentials in a form that does not overflow."""
    return _Shifting(facts, builder).run() if facts.grows else facts.bindings


class _Shifting:
    """Sums of exponentials as mantissas and tops, x = m*exp(t).

    A value that several others use, and one that is moved, is taken apart once: what is added is linear in the graph.
    """

    def __init__(self, facts: Facts, builder: Builder) -> None:
        self.bindings = bindings = facts.bindings
        self.builder = builder
        self.arrays = Arrays(builder)
        self.facts = facts
        self.made = facts.made
        self.forms = Forms(facts.made, facts)
        self.shared = self._shared()
        self._places = {binding.result: place for place, binding in enumerate(bindings)}
        self._tops: dict[Atom, Atom | None] = {}
        self._rounded: dict[Atom, Atom] = {}
        self._pairs: dict[Atom, tuple[Atom, Atom]] = {}

    def run(self) -> list[Node]:
        return replaced(self.bindings, self.builder, lambda binding: self._seen(binding) if binding.dtype in "fd" else None)

    def _shared(self) -> set[Atom]:
        """The explosive values, no exponentials themselves, that are taken apart once for all that use them."""
        uses: dict[Atom, int] = {}
        for binding in self.bindings:
            for operand in binding.operands:
                if self.facts.is_explosive(operand):
                    uses[operand] = uses.get(operand, 0) + (2 if _moves(binding) else 1)
        found: set[Atom] = set()
        depths: dict[Atom, int] = {}
        for binding in self.bindings:
            symbol = binding.result
            if self.facts.is_explosive(symbol) and self.facts.exponential(binding) is None:
                depth = 1 + max((depths.get(o, 0) for o in binding.operands), default=0)
                if uses.get(symbol, 0) > 1 or depth > _DEEP:
                    found.add(symbol)
                depths[symbol] = 0 if symbol in found else depth
        return found

    def _seen(self, binding: Node) -> Atom | None:
        """What a binding is for the sweeps; None where that is what it is."""
        op, operands = binding.op, binding.operands
        self.arrays.origin = binding.origin
        if self.forms.first(binding, partials=True) is not None:
            return None
        if op in LOGARITHMS and (self.facts.is_explosive(operands[0]) or self._share(operands[0])):
            return self._logarithm(op, operands[0])
        if op == "div" and all(self.facts.is_explosive(o) for o in operands):
            return self._quotient(*operands)
        return None

    # -- logarithms

    def _logarithm(self, op: str, x: Atom) -> Atom | None:
        """The logarithm of a share, a quotient or a sum of exponentials."""
        b = self.builder
        made = self.made[x]
        share = None if op == "log1p" else self._share(x)
        if share is None and op != "log1p" and made.op == "div" and all(self.facts.is_explosive(o) for o in made.operands):
            share = made.operands[0], made.operands[1]
        if share is not None:
            return b.emit("sub", tuple(self._plain_logarithm(op, o) for o in share))
        if _moves(made):
            found = self._logarithm(op, made.operands[0])
            return None if found is None else self._moved(made, found)
        if self.facts.is_alone(x) or not self._is_sum(x):
            return None
        if op == "log1p":
            op, x = "log", b.emit("add", (ONE, x))
            self.facts.include(b.bindings[-1])  # which is taken apart like those of the function
        top = self._rounded_top(x)
        if top is None:
            return None
        return b.add(b.emit(op, (self._scaled(x, top),)), b.mul(Constant(LOGARITHMS[op]), top))

    def _plain_logarithm(self, op: str, x: Atom) -> Atom:
        """The logarithm of a value that is an exponential, or a sum of some."""
        b = self.builder
        binding = self.made.get(x)
        argument = None if binding is None else self.facts.exponential(binding)
        if argument is not None:
            return b.mul(Constant(argument[1] * LOGARITHMS[op]), argument[0])
        found = self._logarithm(op, x) if self.facts.is_explosive(x) else None
        return b.emit(op, (x,)) if found is None else found

    def _share(self, x: Atom) -> tuple[Atom, Atom] | None:
        """(b, a + b) of 1 - a/(a + b) where an exponential is among the two; None for anything else."""
        made = self.made.get(x)
        if made is None or made.op != "sub" or not is_constant(made.operands[0], 1):
            return None
        quotient = self.made.get(made.operands[1])
        whole = self.made.get(quotient.operands[1]) if quotient is not None and quotient.op == "div" else None
        if whole is None or whole.op != "add" or not self.facts.is_explosive(whole.result):
            return None
        part = quotient.operands[0]  # type: ignore[union-attr]
        for a, b in (whole.operands, whole.operands[::-1]):
            if (is_constant(a, 1) and is_constant(part, 1)) or self.facts.same(a, part):
                return b, whole.result
        return None

    # -- quotients

    def _quotient(self, above: Atom, below: Atom) -> Atom | None:
        top = self._rounded_top(below)
        if top is None or self._top(above) is None:
            return None
        return self.builder.emit("div", (self._scaled(above, top), self._scaled(below, top)))

    # -- sums of exponentials

    def _is_sum(self, x: Atom) -> bool:
        """Whether a value adds up several exponentials."""
        binding = self.made[x]
        while binding.op in ("mul", "div", "neg", "cast", "pow", "reshape"):
            binding = self.made[next(o for o in binding.operands if self.facts.is_explosive(o))]
        return binding.op in ("add", "sub", "sum")

    def _rounded_top(self, x: Atom) -> Atom | None:
        """About the largest exponent in a sum of exponentials, as a number whose derivative is zero."""
        top = self._top(x)
        if top is None or isinstance(top, Constant):
            return top
        if x not in self._rounded:
            self._rounded[x] = self.builder.emit("rint", (top,))
        return self._rounded[x]

    def _top(self, x: Atom) -> Atom | None:
        """An exponent of the size of a value's logarithm; None for what is not taken apart."""
        return worked_out(x, self._tops, self._sized_by, self._top_of)  # type: ignore[no-any-return]

    def _sized_by(self, atom: Atom) -> tuple[Atom, ...]:
        """The operands whose size tells that of a value which overflows."""
        binding = self.made.get(atom)
        own = binding is None or not self.facts.is_explosive(atom) or self.facts.exponential(binding) is not None
        return () if own else self._read_by(binding)  # type: ignore[arg-type]

    def _top_of(self, atom: Atom) -> Atom | None:
        if not self.facts.is_explosive(atom):
            return ZERO
        binding = self.made[atom]
        b, op, operands = self.builder, binding.op, binding.operands
        argument = self.facts.exponential(binding)
        if argument is not None:
            return b.mul(Constant(argument[1]), argument[0])
        if op == "cosh":
            return b.emit("abs", (operands[0],))
        power = self.facts.exponent(binding)
        tops = [self._tops[o] for o in self._read_by(binding)]
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
            whole = self.arrays.broadcast_to(tops[0], operands[0].shape)  # type: ignore[arg-type]
            return self.arrays.bind("amax", whole, axes=binding.params.params["axes"])
        return self._moved(binding, tops[0]) if _moves(binding) else None  # type: ignore[arg-type]

    def _scaled(self, x: Atom, top: Atom) -> Atom:
        """x*exp(-top), without the exponentials of x where these are large."""
        b = self.builder
        if not self.facts.is_explosive(x):
            return x if is_constant(top, 0) else b.mul(x, b.emit("exp", (b.neg(top),)))
        binding = self.made[x]
        argument = self.facts.exponential(binding)
        if argument is None and _moves(binding):
            inner = self.facts.exponential(self.made[binding.operands[0]])
            argument = None if inner is None else (self._moved(binding, inner[0]), inner[1])
        if argument is not None:
            return b.emit("exp", (b.emit("sub", (b.mul(Constant(argument[1]), argument[0]), top)),))
        narrow = binding.op == "sum" and np.broadcast_shapes(x.shape, top.shape) != x.shape
        if x not in self.shared and not _moves(binding) and not narrow:
            return self._expanded(x, top)
        mantissa, own = self._pair(x)
        return mantissa if own is top else b.mul(mantissa, b.emit("exp", (b.emit("sub", (own, top)),)))

    def _pair(self, x: Atom) -> tuple[Atom, Atom]:
        """m and t of x = m*exp(t); those of the shared values below it are worked out first, in order."""
        if x not in self._pairs:
            found, pending = {x}, [x]
            while pending:
                for operand in self._read_by(self.made[pending.pop()]):
                    if self.facts.is_explosive(operand) and operand not in self._pairs and operand not in found:
                        found.add(operand)
                        if self.facts.exponential(self.made[operand]) is None:
                            pending.append(operand)
            needed = sorted((a for a in found if a in self.shared and a is not x), key=self._places.__getitem__)
            for atom in (*needed, x):
                self._pairs[atom] = self._paired(atom)
        return self._pairs[x]

    def _paired(self, x: Atom) -> tuple[Atom, Atom]:
        binding = self.made[x]
        if _moves(binding):
            mantissa, own = self._pairs.get(binding.operands[0]) or self._paired(binding.operands[0])
            return self._moved(binding, mantissa), self._moved(binding, own)
        top = self._rounded_top(x)
        assert top is not None
        return (self._scaled if self.facts.exponential(binding) is not None else self._expanded)(x, top), top

    def _expanded(self, x: Atom, top: Atom) -> Atom:
        """x*exp(-top) by the operands of x."""
        b, binding = self.builder, self.made[x]
        op, operands = binding.op, binding.operands
        power = self.facts.exponent(binding)
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
            spread = (
                self.arrays.reshape(self.arrays.broadcast_to(top, binding.shape), kept_shape(shape, axes)) if top.shape else top
            )
            return self.arrays.sum(self._scaled(operands[0], spread), axes)
        return self._scaled_product(op, operands, top)

    def _scaled_product(self, op: str, operands: tuple[Atom, ...], top: Atom) -> Atom:
        """A product's or quotient's factors, each with its own exponential taken out but the first."""
        b = self.builder
        first, second = operands
        if op == "mul" and not self.facts.is_explosive(first):
            first, second = second, first
        if not self.facts.is_explosive(second):
            return b.emit(op, (self._scaled(first, top), second))
        own = self._rounded_top(second)
        assert own is not None
        left = b.emit("sub" if op == "mul" else "add", (top, own))
        return b.emit(op, (self._scaled(first, left), self._scaled(second, own)))

    def _moved(self, binding: Node, x: Atom) -> Atom:
        """The cells of x, which may be repeated, where a binding moves them."""
        if isinstance(x, Constant):
            return x
        x = self.arrays.broadcast_to(x, binding.operands[0].shape)
        if binding.op == "item":
            return self.builder.bind("item", (x,), (), x.dtype or "d", binding.params)
        return self.arrays.bind(binding.op, x, **binding.params.params)

    def _read_by(self, binding: Node) -> tuple[Atom, ...]:
        """The operands that a value's size depends on: all but the exponent of a power."""
        return binding.operands[: 1 if self.facts.exponent(binding) > 0 else None]


def _moves(binding: Node) -> bool:
    """Whether an operation moves cells of its only operand."""
    return len(binding.operands) == 1 and moves_by_rule(binding)
