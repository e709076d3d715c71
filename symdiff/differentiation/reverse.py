"""Reverse sweeps over the bindings of a Graph, of numbers or whole arrays, appending the derivative's to a Builder.

They are the chain rule and the masks of `cotangents`, nothing else. Guarantees that constants are never differentiated, that
only partials on a path from input to output are built, and that a cotangent that counts nowhere meets no partial that is
infinite. Refuses missing rules with `RuleError`, and derivatives by complex inputs that depend on their conjugates with
`NonHolomorphicError`.

Source of the method: Griewank and Walther, Evaluating Derivatives, 2nd ed., chapters 3 and 13; the pair of cotangents by
z and its conjugate is Wirtinger's calculus.
"""

import cmath
import heapq
from collections.abc import Container
from typing import Any

from symdiff.differentiation.cotangents import Cotangents, Masked, Soft
from symdiff.differentiation.holomorphy import check_conjugates, head_as_written
from symdiff.differentiation.moving import pulled
from symdiff.differentiation.partials import has_structural_partials
from symdiff.differentiation.slopes import Slopes
from symdiff.errors import NonHolomorphicError
from symdiff.ir.arrays.algebra import Arrays
from symdiff.ir.building import Builder, is_constant
from symdiff.ir.loops import pulled_through
from symdiff.ir.node import Atom, Constant, Node
from symdiff.rulebooks.sites import pulled_through_site
from symdiff.simplification.activity import active_symbols
from symdiff.vocabulary.ops import is_complex

Bars = dict[Atom, list[Masked]]
Pair = tuple[dict[Node, Atom], dict[Node, Atom]]  # by inputs, and by their conjugates


class Reverse:
    """Reverse sweeps: from cotangents of outputs to cotangents of inputs.

    For a real-valued output the cotangents of complex intermediates come in conjugate pairs, and twice the one by z is
    carried alone (`mirrored`). Otherwise the cotangent by the conjugate is carried only where one arises.
    """

    def __init__(
        self, builder: Builder, bindings: list[Node], wrt: list[Node], rules: Any, earlier: "Reverse | None" = None
    ) -> None:
        """`earlier` are sweeps over the same bindings by other inputs, from which the slopes are taken."""
        self.builder = builder
        self.wrt = wrt
        self.slopes: Slopes = Slopes(builder, bindings, wrt, rules) if earlier is None else earlier.slopes
        self.active = active_symbols(self.slopes.bindings, wrt)
        inputs = set(wrt)
        self.position = {b.result: i for i, b in enumerate(self.slopes.bindings) if b.result not in inputs}
        self.mixing: str | None = None
        self.arrays = Arrays(builder)
        self.cotangents = Cotangents(builder, self.arrays)

    def sweep(self, seeds: dict[Atom, Atom], mirrored: bool, soft: Container[Atom] = ()) -> Pair:
        """Cotangents by the inputs `wrt`, and by their conjugates; structurally zero ones are left out. The `soft` seeds may
        be zero for what the sweep does not see."""
        b = self.builder
        self.mirrored = mirrored
        self.bars: Bars = {}
        self.conjugates: Bars = {}
        self.pending: list[int] = []  # a heap of positions, so that a sweep costs what it reaches
        for symbol, seed in seeds.items():
            if symbol in self.active:
                self._put(Masked(seed, soft=(Soft(seed, seed),) if symbol in soft else ()), symbol, self.bars)
        while self.pending:
            binding = self.slopes.bindings[-heapq.heappop(self.pending)]
            b.at(binding)
            bar, conjugate = (self.cotangents.total(bars.pop(binding.result, None)) for bars in (self.bars, self.conjugates))
            if bar is not None and is_constant(self.arrays.repeated(bar.value)[0], 0):
                bar = None
            elif bar is not None and mirrored and not is_complex(binding.dtype):
                bar = bar._replace(value=b.real(bar.value))
            if bar is not None or conjugate is not None:
                push = self._push_structural if has_structural_partials(binding) else self._push_elementwise
                (self._push_loop if binding.op == "loop" else push)(binding, bar, conjugate)
        found, crossed = ({v: self.cotangents.settled(bars[v]) for v in self.wrt if v in bars}
                          for bars in (self.bars, self.conjugates))  # fmt: skip
        for v in [*found] if mirrored else []:
            found[v] = b.mul(Constant(0.5), found[v]) if is_complex(v.dtype) else b.real(found[v])
            if is_complex(v.dtype):
                crossed[v] = b.conj(found[v])
        return found, crossed

    def _put(self, part: Masked | None, operand: Atom, where: Bars) -> None:
        """One term of a cotangent; those by the conjugate of a real operand are those by itself."""
        if part is None:
            return
        where = where if is_complex(operand.dtype or "d") else self.bars
        if part.value.shape != operand.shape:
            part = self.cotangents.fitted(part, operand.shape, self.slopes.steepness.is_behind(operand))
        if operand.op == "reshape" and part.value.op == "scatter_at":  # cells of an array are added to it one by one
            self._put(pulled(self, operand, 0, part, where is self.conjugates), operand.operands[0], where)
            return
        if operand in self.position and operand not in self.bars and operand not in self.conjugates:
            heapq.heappush(self.pending, -self.position[operand])
        where.setdefault(operand, []).append(part)

    def _push_elementwise(self, binding: Node, bar: Masked | None, conjugate: Masked | None) -> None:
        b = self.builder
        for operand, p, q, taken, soft in self.slopes.of(binding, self.active):
            if q is not None and self.mixing is None:
                self.mixing = f"{binding.origin}: {head_as_written(self.slopes.written, binding)}"
            bar_, conjugate_ = (c and self.cotangents.armed(c, taken, soft) for c in (bar, conjugate))
            if self.mirrored and is_complex(operand.dtype or "d") and not is_complex(binding.dtype):
                p, q = p and b.mul(Constant(2), p), None  # cotangents of complex symbols are doubled: v = 2 df/dz
            self._put(self._times(bar_, p), operand, self.bars)
            crossed = self._times(bar_, q)
            if self.mirrored:
                crossed = crossed and crossed._replace(value=b.conj(crossed.value))
            self._put(crossed, operand, self.bars if self.mirrored else self.conjugates)
            for partial, where in ((q, self.bars), (p, self.conjugates)) if conjugate_ is not None else ():
                self._put(self._times(conjugate_, partial and b.conj(partial)), operand, where)

    def _times(self, cotangent: Masked | None, partial: Atom | None) -> Masked | None:
        if cotangent is None or partial is None:
            return None
        value = self.builder.mul(cotangent.value, partial)
        scaled = isinstance(partial, Constant) and cmath.isfinite(partial.value)  # what is zero stays so
        found = Masked(value, cotangent.mask, cotangent.clean and scaled, cotangent.soft)
        return (
            self.cotangents.softened(found, [cotangent])
            if scaled and all(s.factor is cotangent.value for s in found.soft)
            else found
        )

    def _push_structural(self, binding: Node, bar: Masked | None, conjugate: Masked | None) -> None:
        if binding.op == "site":
            for operand, direct, crossed in pulled_through_site(self, binding, bar, conjugate):
                self._put(direct and Masked(direct), operand, self.bars)
                self._put(crossed and Masked(crossed), operand, self.conjugates)
                if crossed is not None or self.mirrored:
                    self.mixing = self.mixing or f"{binding.origin}: {binding.params.params['site'].rule.name}"
            return
        for place, operand in enumerate(binding.operands):
            taken = self.slopes.taken(binding, place) if operand in self.active else None
            for cotangent, where in ((bar, self.bars), (conjugate, self.conjugates)) if operand in self.active else ():
                found = cotangent and pulled(self, binding, place, cotangent, where is self.conjugates)
                self._put(found and self.cotangents.armed(found, taken), operand, where)

    def _push_loop(self, binding: Node, bar: Masked | None, conjugate: Masked | None) -> None:
        """All operands at once: their cotangents come from one loop."""
        if conjugate is not None:
            raise NonHolomorphicError(
                f"{self.mixing} makes the output depend on the conjugate of a loop's result; sd.jvp takes this"
            )
        if bar is not None:
            self.mixing = self.mixing or f"{binding.origin}: a loop"
            for place, found in pulled_through(self, binding, bar).items():
                self._put(found, binding.operands[place], self.bars)

    def refuse(self, conjugates: dict[Node, Atom]) -> None:
        """Raise `NonHolomorphicError` where a complex input's cotangent by its conjugate is structurally nonzero."""
        check_conjugates(self.builder.bindings, conjugates, self.mixing)
