"""Reverse sweeps over the bindings of a Graph, of numbers or whole arrays, appending the derivative's to a Builder.

Assumes a rulebook with a rule for every operation on the way. Guarantees that constants are never
differentiated, that only partials on a path from input to output are built, that a cotangent masked by a select stays
masked to the end, and that a cotangent that is zero counts for nothing where a partial is infinite. Refuses missing
rules with `RuleError`, and derivatives by complex inputs that depend on their conjugates with `NonHolomorphicError`.

Source of the method: Griewank and Walther, Evaluating Derivatives, 2nd ed., chapters 3 and 13; the pair of cotangents by
z and its conjugate is Wirtinger's calculus.
"""

import heapq
from typing import Any, NamedTuple

from symdiff.differentiation.cotangents import Cotangents, Masked
from symdiff.differentiation.partials import Partials, has_structural_partials
from symdiff.differentiation.steepness import Steepness
from symdiff.differentiation.vanishing import Vanishing, derivative_at_zero
from symdiff.errors import NonHolomorphicError
from symdiff.ir.arrays.algebra import Arrays
from symdiff.ir.building import Builder, is_constant
from symdiff.ir.loops import pulled_through
from symdiff.ir.node import Atom, Constant, Node
from symdiff.rulebooks.structural import rule_pullback
from symdiff.simplification.activity import active_symbols
from symdiff.simplification.saturation import Saturation
from symdiff.simplification.seen import known_bindings
from symdiff.simplification.sign_factors import watch_signs
from symdiff.vocabulary.ops import is_complex

_MOVING = frozenset({"reshape", "transpose", "getitem", "diagonal", "concatenate", "item", "sum"})
_SELECTING = frozenset({"getitem", "item", "take", "take_along", "gather", "diagonal"})  # the others have the cotangent zero


class Care(NamedTuple):
    """What a product of a cotangent and a partial minds: zero where `guard` is, or where the cotangent is.

    `opened` tells what the operands become.
    """

    guard: Atom | None
    steep: bool
    opened: bool


class Flow:
    """One reverse sweep: cotangents that wait, by symbols and by their conjugates.

    Where a mask was resolved to zeros, or cells are left out, a symbol is `opened`: its cotangent may be zero where a partial
    is infinite.
    """

    def __init__(self, mirrored: bool) -> None:
        self.mirrored = mirrored
        self.bars: dict[Atom, list[Masked]] = {}
        self.conjugates: dict[Atom, list[Masked]] = {}
        self.opened: set[Atom] = set()


class Reverse:
    """Reverse sweeps: from cotangents of outputs to cotangents of inputs.

    For a real-valued output the cotangents of complex intermediates come in conjugate pairs, and twice the one by z is
    carried alone (`mirrored`). Otherwise the cotangent by the conjugate is carried only where one arises.
    """

    def __init__(
        self, builder: Builder, bindings: list[Node], wrt: list[Node], rules: Any, earlier: "Reverse | None" = None
    ) -> None:
        """`earlier` are sweeps over the same bindings by other inputs, from which the analysis is taken."""
        self.builder = builder
        self.written = bindings if earlier is None else earlier.written
        facts = known_bindings(bindings, builder, wrt) if earlier is None else earlier.partials.facts
        self.bindings = bindings = facts.bindings
        watch_signs(builder, facts)
        self.wrt = wrt
        self.partials = Partials(builder, facts, rules)
        self.saturation = Saturation(builder, facts) if earlier is None else earlier.saturation
        self.vanishing = Vanishing(builder, bindings, self.partials) if earlier is None else earlier.vanishing
        self.steepness = Steepness(bindings, self.partials) if earlier is None else earlier.steepness
        inputs: set[Atom] = set(wrt)
        self.active = active_symbols(bindings, inputs)
        self.position = {b.result: i for i, b in enumerate(bindings) if b.result not in inputs}
        self.mixing: str | None = None
        self.arrays = Arrays(builder)
        self.cotangents = Cotangents(builder, self.arrays)

    def sweep(
        self, seeds: dict[Atom, Atom], mirrored: bool, flow: Flow | None = None
    ) -> tuple[dict[Node, Atom], dict[Node, Atom]]:
        """Cotangents by the inputs `wrt`, and by their conjugates; structurally zero ones are left out.

        A `flow` says what is known of the seeds, and keeps what becomes known.
        """
        flow = Flow(mirrored) if flow is None else flow
        bars, conjugates = flow.bars, flow.conjugates
        pending: list[int] = []  # a heap of positions, so that a sweep costs what it reaches
        for symbol, seed in seeds.items():
            if symbol in self.active:
                bars[symbol] = [Masked(seed, None)]
                if symbol in self.position:
                    heapq.heappush(pending, -self.position[symbol])
        outer = self.builder.primal
        self.builder.primal = False
        while pending:
            binding = self.bindings[-heapq.heappop(pending)]
            symbol = binding.result
            if symbol not in bars and symbol not in conjugates:
                continue
            self.builder.origin = binding.origin
            below = [o for o, _ in self.saturation.slopes(binding) or ()]
            for operand in (*binding.operands, *below):
                if operand in self.active and operand in self.position:
                    heapq.heappush(pending, -self.position[operand])
            bar = self.cotangents.total(bars.pop(symbol, None))
            if bar is not None and is_constant(self.arrays.repeated(bar.value)[0], 0):
                bar = None
            if bar is not None and mirrored and not is_complex(binding.dtype):
                bar = Masked(self.builder.real(bar.value), bar.mask)
            conjugate = self.cotangents.total(conjugates.pop(symbol, None))
            if bar is not None or conjugate is not None:
                self._push(binding, bar, conjugate, flow)
        found = {v: self.cotangents.settled(bars[v]) for v in self.wrt if v in bars}
        found_conjugate = {v: self.cotangents.settled(conjugates[v]) for v in self.wrt if v in conjugates}
        if mirrored:
            for v in found:
                if not is_complex(v.dtype):
                    found[v] = self.builder.real(found[v])
            for v in self.wrt:
                if is_complex(v.dtype) and v in found:
                    found[v] = self.builder.mul(Constant(0.5), found[v])
                    found_conjugate[v] = self.builder.conj(found[v])
        self.builder.primal = outer
        return found, found_conjugate

    def _push(self, binding: Node, bar: Masked | None, conjugate: Masked | None, flow: "Flow") -> None:
        if binding.op == "select":
            self._push_select(binding, bar, conjugate, flow)
        elif binding.op == "loop":
            self._push_loop(binding, bar, conjugate, flow)
        elif has_structural_partials(binding):
            self._push_structural(binding, bar, conjugate, flow)
        else:
            self._push_elementwise(binding, bar, conjugate, flow)

    def _push_elementwise(self, binding: Node, bar: Masked | None, conjugate: Masked | None, flow: "Flow") -> None:
        b = self.builder
        care = self._care(binding, bar, flow)
        for operand, slope in self.saturation.slopes(binding) or ():
            if operand in self.active:
                self._put(self._times(bar, slope, care), operand, flow.bars, flow, care)
        for place in self.saturation.remaining(binding):
            operand = binding.operands[place]
            if operand not in self.active:
                continue
            p = self.partials.partial(binding, place)
            q = self.partials.partial(binding, place, conjugate=True) if is_complex(operand.dtype or "d") else None
            if q is not None and self.mixing is None:
                self.mixing = f"{binding.origin}: {self._as_written(binding)}"
            overflowed = self.saturation.overflowed(binding, place)
            through = bar if bar is None or overflowed is None else self.cotangents.masked(bar, b.emit("not", (overflowed,)))
            counts = self.partials.counts(binding, place) or self.steepness.counts(b, binding, place)
            through = through if through is None or counts is None else self.cotangents.armed(through, *counts)
            if flow.mirrored:
                for item in self._mirrored(binding, operand, p, q, through, care):
                    self._put(item, operand, flow.bars, flow, care)
                continue
            pc, qc = (None if x is None else b.conj(x) for x in (p, q))
            self._put(self._times(through, p, care), operand, flow.bars, flow, care)
            if is_complex(operand.dtype or "d"):
                self._put(self._times(bar, q, care), operand, flow.conjugates, flow, care)
                if is_complex(binding.dtype):
                    self._put(self._times(conjugate, qc, care), operand, flow.bars, flow, care)
                    self._put(self._times(conjugate, pc, care), operand, flow.conjugates, flow, care)
            else:
                self._put(self._times(conjugate, pc, care), operand, flow.bars, flow, care)

    def _care(self, binding: Node, bar: Masked | None, flow: "Flow") -> "Care":
        """What products with the partials of a binding must mind."""
        opened = binding.result in flow.opened
        if not self.partials.is_singular(binding):
            return Care(None, opened and self.steepness.is_steep(binding), opened)
        if self.partials.is_root_of_squares(binding):
            return Care(binding.operands[0], opened, opened)
        return Care(None, opened or (bar is not None and self.vanishing.together(bar.value, binding)), opened)

    def _times(self, cotangent: Masked | None, partial: Atom | None, care: "Care") -> Masked | None:
        if cotangent is None or partial is None:
            return None
        b = self.builder
        if care.guard is not None:
            partial = derivative_at_zero(b, care.guard, partial)
        value = b.mul(cotangent.value, partial)
        if care.steep and not isinstance(cotangent.value, Constant):
            value = self.vanishing.zero_times_infinity(cotangent.value, partial, value)
        return Masked(value, cotangent.mask)

    def _put(self, item: Masked | None, operand: Atom, where: dict[Atom, list[Masked]], flow: "Flow", care: "Care") -> None:
        if care.opened:
            flow.opened.add(operand)
        if item is not None:
            where.setdefault(operand, []).append(self._fitted(item, operand, flow))

    def _fitted(self, item: Masked, operand: Atom, flow: "Flow") -> Masked:
        """A cotangent with the operand's shape: summed where the operand was broadcast."""
        if item.value.shape == operand.shape:
            return item
        if item.mask is not None:
            flow.opened.add(operand)
        return Masked(self.arrays.unbroadcast(self.cotangents.unmasked(item), operand.shape), None)

    def _push_structural(self, binding: Node, bar: Masked | None, conjugate: Masked | None, flow: "Flow") -> None:
        b = self.builder
        arrays = Arrays(b, binding.origin)
        opens = any(c is not None and c.mask is not None for c in (bar, conjugate)) and binding.op not in _MOVING
        for place, operand in enumerate(binding.operands):
            if operand not in self.active:
                continue
            if bar is not None:
                found = self._pulled(arrays, binding, place, bar)
                counts = self.steepness.counts(b, binding, place)
                found = found if found is None or counts is None else self.cotangents.armed(found, *counts)
                if found is not None:
                    flow.bars.setdefault(operand, []).append(found)
            if conjugate is not None:
                swapped = Masked(b.conj(conjugate.value), conjugate.mask)
                found = self._pulled(arrays, binding, place, swapped)
                if found is not None:
                    found = Masked(b.conj(found.value), found.mask)
                    where = flow.conjugates if is_complex(operand.dtype or "d") else flow.bars
                    where.setdefault(operand, []).append(found)
            leaves_out = binding.op in _SELECTING and self.steepness.is_behind(operand)
            if opens or leaves_out or binding.result in flow.opened:
                flow.opened.add(operand)

    def _push_loop(self, binding: Node, bar: Masked | None, conjugate: Masked | None, flow: "Flow") -> None:
        """All operands at once: their cotangents come from one loop."""
        if conjugate is not None:
            raise NonHolomorphicError(
                f"{self.mixing} makes the output depend on the conjugate of a loop's result; sd.jvp takes this"
            )
        if bar is not None:
            self.mixing = self.mixing or f"{binding.origin}: a loop"
            for place, found in pulled_through(self, binding, bar.value, flow).items():
                flow.bars.setdefault(binding.operands[place], []).append(Masked(found, None))

    def _pulled(self, arrays: Arrays, binding: Node, place: int, cotangent: Masked) -> Masked | None:
        """One cotangent through a structural binding; where cells are only moved, so is its mask."""
        if cotangent.mask is None or binding.op not in _MOVING:
            value = rule_pullback(arrays, binding, place, self.cotangents.unmasked(cotangent))
            return None if value is None else Masked(value, None)
        mask = arrays.broadcast_to(cotangent.mask, binding.shape)
        value = rule_pullback(arrays, binding, place, cotangent.value)
        return None if value is None else Masked(value, rule_pullback(arrays, binding, place, mask))

    def _mirrored(
        self, binding: Node, operand: Atom, p: Atom | None, q: Atom | None, bar: Masked | None, care: "Care"
    ) -> list[Masked | None]:
        """Cotangents of complex symbols are doubled here: v = 2 df/dz."""
        b = self.builder
        if not is_complex(operand.dtype or "d"):
            return [self._times(bar, p, care)]  # the real part is taken once, of the total
        if not is_complex(binding.dtype):
            return [self._times(bar, None if p is None else b.mul(Constant(2), p), care)]
        crossed = self._times(bar, q, care)
        return [self._times(bar, p, care), None if crossed is None else Masked(b.conj(crossed.value), crossed.mask)]

    def _push_select(self, binding: Node, bar: Masked | None, conjugate: Masked | None, flow: "Flow") -> None:
        b = self.builder
        condition = binding.operands[0]
        for place in (1, 2):
            operand = binding.operands[place]
            if operand not in self.active:
                continue
            for cotangent, where in ((bar, flow.bars), (conjugate, flow.conjugates)):
                if cotangent is None:
                    continue
                item = self.cotangents.armed(cotangent, condition, place == 1)
                if is_complex(binding.dtype) and not is_complex(operand.dtype or "d"):
                    item = item if flow.mirrored or where is flow.bars else Masked(b.conj(item.value), item.mask)
                    where = flow.bars
                where.setdefault(operand, []).append(self._fitted(item, operand, flow))
            if binding.result in flow.opened:
                flow.opened.add(operand)

    def _as_written(self, binding: Node) -> str:
        """The operation on a binding's line that the user wrote, where the sweeps see another one."""
        near = [b for b in self.written if b.origin == binding.origin]
        if any(b.result is binding.result and b.op == binding.op for b in near):
            return binding.op
        return next((b.op for b in near if b.op in ("abs", "real", "imag", "conj")), binding.op)

    def refuse(self, conjugates: dict[Node, Atom]) -> None:
        """Raise `NonHolomorphicError` where a complex input's cotangent by its conjugate is structurally nonzero."""
        symbol = next((s for s in conjugates if is_complex(s.dtype)), None)
        if symbol is None:
            return
        cell = next((b for b in self.builder.bindings if b.result is symbol and b.op == "item"), None)
        name = symbol.name if cell is None else str(cell).partition(" = ")[2]
        raise NonHolomorphicError(
            f"{self.mixing or '?'} makes the output depend on the conjugate of {name}, so that there is no complex "
            "derivative; sd.wirtinger gives the derivatives by z and by its conjugate"
        )
