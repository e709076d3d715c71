"""Forward and reverse sweeps over the bindings of a Graph, of numbers or whole arrays, appending the derivative's to a Builder.

Assumes a rulebook with a rule for every operation on the way. Guarantees that constants are never
differentiated, that only partials on a path from input to output are built, that a cotangent masked by a select stays
masked to the end, and that a zero partial times an infinite cotangent behind a singular head is zero. Refuses missing
rules with `RuleError`, and derivatives by complex inputs that depend on their conjugates with `NonHolomorphicError`.

Source of the method: Griewank and Walther, Evaluating Derivatives, 2nd ed., chapters 3 and 13; the pair of cotangents by
z and its conjugate is Wirtinger's calculus.
"""

import heapq
from typing import Any, NamedTuple

from symdiff.errors import NonHolomorphicError
from symdiff.ops import is_complex
from symdiff.symbolic.arrays.algebra import Arrays
from symdiff.symbolic.arrays.rules import pulled_back, pushed_forward
from symdiff.symbolic.building import Builder, is_constant, is_same
from symdiff.symbolic.graph import Atom, Binding, Constant, Var
from symdiff.symbolic.partials import ZERO, Partials, active_symbols, is_structural
from symdiff.symbolic.saturation import Saturation
from symdiff.symbolic.shifting import shifted
from symdiff.symbolic.sign_factors import watch_signs
from symdiff.symbolic.smoothing import smoothed
from symdiff.symbolic.vanishing import Vanishing

_MOVING = frozenset({"reshape", "transpose", "getitem", "diagonal", "concatenate", "item", "sum"})
_STEEP = frozenset({"div", "log", "log2", "log10", "log1p", "pow", "call"})  # their partials can be infinite


class Masked(NamedTuple):
    """A cotangent that counts only where `mask` holds (everywhere when it is None)."""

    value: Atom
    mask: Atom | None


class Arm(NamedTuple):
    """One arm of a select: where a condition is true, or false, within an outer mask."""

    outer: Atom | None
    condition: Atom
    true: bool

    @property
    def other(self) -> "Arm":
        """The other arm."""
        return self._replace(true=not self.true)


class Care(NamedTuple):
    """What a product of a cotangent and a partial minds: zero where `guard` holds, where the partial, or the cotangent, is.

    The last two tell what the operands become.
    """

    guard: Atom | None
    tainted: bool
    steep: bool
    opened: bool
    taints: bool


class Flow:
    """One reverse sweep: cotangents that wait, by symbols and by their conjugates.

    Behind a singular head a symbol is `tainted`: its cotangent may be infinite where a partial is zero. Where a mask was
    resolved to zeros it is `opened`: its cotangent may be zero where a partial is infinite.
    """

    def __init__(self, mirrored: bool) -> None:
        self.mirrored = mirrored
        self.bars: dict[Atom, list[Masked]] = {}
        self.conjugates: dict[Atom, list[Masked]] = {}
        self.tainted: set[Atom] = set()
        self.opened: set[Atom] = set()


class Reverse:
    """Reverse sweeps: from cotangents of outputs to cotangents of inputs.

    For a real-valued output the cotangents of complex intermediates come in conjugate pairs, and twice the one by z is
    carried alone (`mirrored`). Otherwise the cotangent by the conjugate is carried only where one arises.
    """

    def __init__(
        self, builder: Builder, bindings: list[Binding], wrt: list[Var], rules: Any, earlier: "Reverse | None" = None
    ) -> None:
        """`earlier` are sweeps over the same bindings by other inputs, from which the analysis is taken."""
        self.builder = builder
        self.written = bindings if earlier is None else earlier.written
        self.bindings = bindings = shifted(smoothed(bindings, builder), builder) if earlier is None else earlier.bindings
        watch_signs(builder, bindings)
        self.wrt = wrt
        self.partials = Partials(builder, bindings, rules)
        self.saturation = Saturation(builder, bindings, self.partials.bounds) if earlier is None else earlier.saturation
        self.vanishing = Vanishing(builder, bindings, self.partials) if earlier is None else earlier.vanishing
        inputs: set[Atom] = set(wrt)
        self.active = active_symbols(bindings, inputs)
        self.position = {b.symbol: i for i, b in enumerate(bindings) if b.symbol not in inputs}
        self.mixing: str | None = None
        self.arrays = Arrays(builder)
        self.arms: dict[Atom, Arm] = {}
        self.masks: dict[Arm, Atom] = {}

    def sweep(self, seeds: dict[Atom, Atom], mirrored: bool) -> tuple[dict[Var, Atom], dict[Var, Atom]]:
        """Cotangents by the inputs `wrt`, and by their conjugates; structurally zero ones are left out."""
        flow = Flow(mirrored)
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
            symbol = binding.symbol
            if symbol not in bars and symbol not in conjugates:
                continue
            self.builder.origin = binding.origin
            below = [o for o, _ in self.saturation.slopes(binding) or ()]
            for operand in (*binding.operands, *below):
                if operand in self.active and operand in self.position:
                    heapq.heappush(pending, -self.position[operand])
            bar = self._total(bars.pop(symbol, None))
            if bar is not None and is_constant(self.arrays.repeated(bar.value)[0], 0):
                bar = None
            if bar is not None and mirrored and not is_complex(binding.dtype):
                bar = Masked(self.builder.real(bar.value), bar.mask)
            conjugate = self._total(conjugates.pop(symbol, None))
            if bar is not None or conjugate is not None:
                self._push(binding, bar, conjugate, flow)
        found = {v: self._settled(bars[v]) for v in self.wrt if v in bars}
        found_conjugate = {v: self._settled(conjugates[v]) for v in self.wrt if v in conjugates}
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

    def _total(self, parts: list[Masked] | None) -> Masked | None:
        if not parts:
            return None
        groups = self._grouped(parts)
        if len(groups) == 1:
            mask, values = next(iter(groups.items()))
            return Masked(self._sum(values), mask)
        return Masked(self._everywhere(groups), self._union(list(groups)))

    def _grouped(self, parts: list[Masked]) -> dict[Atom | None, list[Atom]]:
        """Cotangents by their masks, those of both arms of a select as one."""
        groups: dict[Atom | None, list[Atom]] = {}
        for part in parts:
            groups.setdefault(part.mask, []).append(part.value)
        while (mask := next((m for m in groups if m in self.arms and self._beside(m) in groups), None)) is not None:
            self._join(mask, groups)
        return groups

    def _everywhere(self, groups: dict[Atom | None, list[Atom]]) -> Atom:
        """Cotangents by their masks in one sum, zero where none counts."""
        return self._sum([self._unmasked(Masked(self._sum(values), mask)) for mask, values in groups.items()])

    def _beside(self, mask: Atom | None) -> Atom | None:
        """The mask of the other arm; the mask itself where it is no arm, or has no other."""
        arm = self.arms.get(mask)  # type: ignore[arg-type]
        return mask if arm is None else self.masks.get(arm.other, ZERO)

    def _join(self, mask: Atom | None, groups: dict[Atom | None, list[Atom]]) -> None:
        """Cotangents of both arms become one within the outer mask."""
        arm = self.arms[mask]  # type: ignore[index]
        own, other = groups.pop(mask), groups.pop(self._beside(mask))
        true, false = (own, other) if arm.true else (other, own)
        joined = groups.setdefault(arm.outer, [])
        for value in list(true):
            twin = next((v for v in false if is_same(v, value)), None)
            if twin is not None:
                true.remove(value)
                false.remove(twin)
                joined.append(value)
        if true or false:
            joined.append(self.builder.select(arm.condition, *(self._sum(v) if v else ZERO for v in (true, false))))

    def _union(self, masks: list[Atom | None]) -> Atom | None:
        """Where one of some masks holds, None for everywhere."""
        if None in masks:
            return None
        union: Atom | None = None
        for mask in masks:
            if not any(outer in masks for outer in self._around(mask)):
                union = mask if union is None else self.builder.emit("or", (union, mask))  # type: ignore[arg-type]
        return union

    def _around(self, mask: Atom | None) -> list[Atom | None]:
        """The masks within which a mask was made."""
        found: list[Atom | None] = []
        while (arm := self.arms.get(mask)) is not None and arm.outer is not None:  # type: ignore[arg-type]
            mask = arm.outer
            found.append(mask)
        return found

    def _sum(self, values: list[Atom]) -> Atom:
        values = self.arrays.by_region(values) if self.builder.structural and len(values) > 1 else values
        total = values[0]
        for value in values[1:]:
            total = self.builder.add(total, value)
        return total

    def _unmasked(self, part: Masked) -> Atom:
        return part.value if part.mask is None else self.builder.select(part.mask, part.value, ZERO)

    def _settled(self, parts: list[Masked]) -> Atom:
        return self._everywhere(self._grouped(parts))

    def _push(self, binding: Binding, bar: Masked | None, conjugate: Masked | None, flow: "Flow") -> None:
        if binding.op == "select":
            self._push_select(binding, bar, conjugate, flow)
        elif is_structural(binding):
            self._push_structural(binding, bar, conjugate, flow)
        else:
            self._push_elementwise(binding, bar, conjugate, flow)

    def _push_elementwise(self, binding: Binding, bar: Masked | None, conjugate: Masked | None, flow: "Flow") -> None:
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
            through = bar if bar is None or overflowed is None else self._masked(bar, b.emit("not", (overflowed,)))
            counts = self.partials.counts(binding, place)
            through = through if through is None or counts is None else self._armed(through, *counts)
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

    def _care(self, binding: Binding, bar: Masked | None, flow: "Flow") -> "Care":
        """What products with the partials of a binding must mind."""
        guard: Atom | None = None
        taint = binding.symbol in flow.tainted
        singular = self.partials.is_singular(binding)
        if singular:
            if self.partials.is_root_of_squares(binding):
                guard = self.builder.emit("eq", (binding.operands[0], Constant(0.0)))
            else:
                taint = True
        opened = binding.symbol in flow.opened
        steep = opened and (singular or binding.op in _STEEP)
        if singular and guard is None and bar is not None and self.vanishing.together(bar.value, binding):
            return Care(None, binding.symbol in flow.tainted, True, opened, taint)
        return Care(guard, taint, steep, opened, taint)

    def _times(self, cotangent: Masked | None, partial: Atom | None, care: "Care") -> Masked | None:
        if cotangent is None or partial is None:
            return None
        b = self.builder
        value = b.mul(cotangent.value, partial)
        if care.guard is not None:
            value = b.select(care.guard, ZERO, value)
        elif care.tainted and not isinstance(partial, Constant):
            value = _zero_times_infinity(b, partial, cotangent.value, value)
        if care.steep and not isinstance(cotangent.value, Constant):
            value = _zero_times_infinity(b, cotangent.value, partial, value)
        return Masked(value, cotangent.mask)

    def _put(self, item: Masked | None, operand: Atom, where: dict[Atom, list[Masked]], flow: "Flow", care: "Care") -> None:
        if care.taints:
            flow.tainted.add(operand)
        if care.opened:
            flow.opened.add(operand)
        if item is not None:
            where.setdefault(operand, []).append(self._fitted(item, operand, flow))

    def _masked(self, cotangent: Masked, mask: Atom) -> Masked:
        both = mask if cotangent.mask is None else self.builder.emit("and", (cotangent.mask, mask))
        return Masked(cotangent.value, both)

    def _armed(self, cotangent: Masked, condition: Atom, true: bool) -> Masked:
        """A cotangent of a select as that of one of its arms."""
        arm = Arm(cotangent.mask, condition, true)
        if arm not in self.masks:
            mask = condition if true else self.builder.emit("not", (condition,))
            self.masks[arm] = mask = self._masked(cotangent, mask).mask  # type: ignore[assignment]
            self.arms.setdefault(mask, arm)
        return Masked(cotangent.value, self.masks[arm])

    def _fitted(self, item: Masked, operand: Atom, flow: "Flow") -> Masked:
        """A cotangent with the operand's shape: summed where the operand was broadcast."""
        if item.value.shape == operand.shape:
            return item
        if item.mask is not None:
            flow.opened.add(operand)
        return Masked(self.arrays.unbroadcast(self._unmasked(item), operand.shape), None)

    def _push_structural(self, binding: Binding, bar: Masked | None, conjugate: Masked | None, flow: "Flow") -> None:
        b = self.builder
        arrays = Arrays(b, binding.origin)
        opens = any(c is not None and c.mask is not None for c in (bar, conjugate)) and binding.op not in _MOVING
        for place, operand in enumerate(binding.operands):
            if operand not in self.active:
                continue
            if bar is not None:
                found = self._pulled(arrays, binding, place, bar)
                if found is not None:
                    flow.bars.setdefault(operand, []).append(found)
            if conjugate is not None:
                swapped = Masked(b.conj(conjugate.value), conjugate.mask)
                found = self._pulled(arrays, binding, place, swapped)
                if found is not None:
                    found = Masked(b.conj(found.value), found.mask)
                    where = flow.conjugates if is_complex(operand.dtype or "d") else flow.bars
                    where.setdefault(operand, []).append(found)
            if binding.symbol in flow.tainted:
                flow.tainted.add(operand)
            if opens or binding.symbol in flow.opened:
                flow.opened.add(operand)

    def _pulled(self, arrays: Arrays, binding: Binding, place: int, cotangent: Masked) -> Masked | None:
        """One cotangent through a structural binding; where cells are only moved, so is its mask."""
        if cotangent.mask is None or binding.op not in _MOVING:
            value = pulled_back(arrays, binding, place, self._unmasked(cotangent))
            return None if value is None else Masked(value, None)
        mask = arrays.broadcast_to(cotangent.mask, binding.shape)
        value = pulled_back(arrays, binding, place, cotangent.value)
        return None if value is None else Masked(value, pulled_back(arrays, binding, place, mask))

    def _mirrored(
        self, binding: Binding, operand: Atom, p: Atom | None, q: Atom | None, bar: Masked | None, care: "Care"
    ) -> list[Masked | None]:
        """Cotangents of complex symbols are doubled here: v = 2 df/dz."""
        b = self.builder
        if not is_complex(operand.dtype or "d"):
            return [self._times(bar, p, care)]  # the real part is taken once, of the total
        if not is_complex(binding.dtype):
            return [self._times(bar, None if p is None else b.mul(Constant(2), p), care)]
        crossed = self._times(bar, q, care)
        return [self._times(bar, p, care), None if crossed is None else Masked(b.conj(crossed.value), crossed.mask)]

    def _push_select(self, binding: Binding, bar: Masked | None, conjugate: Masked | None, flow: "Flow") -> None:
        b = self.builder
        condition = binding.operands[0]
        for place in (1, 2):
            operand = binding.operands[place]
            if operand not in self.active:
                continue
            for cotangent, where in ((bar, flow.bars), (conjugate, flow.conjugates)):
                if cotangent is None:
                    continue
                item = self._armed(cotangent, condition, place == 1)
                if is_complex(binding.dtype) and not is_complex(operand.dtype or "d"):
                    item = item if flow.mirrored or where is flow.bars else Masked(b.conj(item.value), item.mask)
                    where = flow.bars
                where.setdefault(operand, []).append(self._fitted(item, operand, flow))
            if binding.symbol in flow.tainted:
                flow.tainted.add(operand)
            if binding.symbol in flow.opened:
                flow.opened.add(operand)

    def _as_written(self, binding: Binding) -> str:
        """The operation on a binding's line that the user wrote, where the sweeps see another one."""
        near = [b for b in self.written if b.origin == binding.origin]
        if any(b.symbol is binding.symbol and b.op == binding.op for b in near):
            return binding.op
        return next((b.op for b in near if b.op in ("abs", "real", "imag", "conj")), binding.op)

    def refuse(self, conjugates: dict[Var, Atom]) -> None:
        """Raise `NonHolomorphicError` where a complex input's cotangent by its conjugate is structurally nonzero."""
        symbol = next((s for s in conjugates if is_complex(s.dtype)), None)
        if symbol is None:
            return
        cell = next((b for b in self.builder.bindings if b.symbol is symbol and b.op == "item"), None)
        name = symbol.name if cell is None else str(cell).partition(" = ")[2]
        raise NonHolomorphicError(
            f"{self.mixing or '?'} makes the output depend on the conjugate of {name}, so that there is no complex "
            "derivative; sd.wirtinger gives the derivatives by z and by its conjugate"
        )


class Forward:
    """Forward sweeps: from tangents of inputs to tangents of every symbol."""

    def __init__(self, builder: Builder, bindings: list[Binding], rules: Any) -> None:
        self.builder = builder
        self.bindings = bindings = shifted(smoothed(bindings, builder), builder)
        watch_signs(builder, bindings)
        self.partials = Partials(builder, bindings, rules)
        self.saturation = Saturation(builder, bindings, self.partials.bounds)
        self.vanishing = Vanishing(builder, bindings, self.partials)

    def sweep(self, seeds: dict[Atom, Atom]) -> dict[Atom, Atom]:
        """Tangents of all symbols that depend on the seeds."""
        b = self.builder
        outer = b.primal
        b.primal = False
        dots: dict[Atom, Atom] = dict(seeds)
        self.infinite: dict[Atom, Binding] = {}  # tangents that may be infinite, and the singular head that makes them so
        for binding in self.bindings:
            if binding.dtype in "?l":
                continue
            moving = [place for place, o in enumerate(binding.operands) if o in dots]
            if not moving:
                continue
            b.origin = binding.origin
            arrays = Arrays(b, binding.origin)
            if is_structural(binding):
                found = pushed_forward(arrays, binding, {place: dots[binding.operands[place]] for place in moving})
                if found is not None:
                    dots[binding.symbol] = found
                continue
            if binding.op == "select":
                arms = [dots.get(o, ZERO) for o in binding.operands[1:]]
                if arms[0] is not ZERO or arms[1] is not ZERO:
                    dots[binding.symbol] = arrays.broadcast_to(b.select(binding.operands[0], *arms), binding.shape)
                continue
            singular = self.partials.is_singular(binding)
            head = binding if singular else next((self.infinite[o] for o in binding.operands if o in self.infinite), None)
            if head is not None:
                self.infinite[binding.symbol] = head
            terms: list[Atom | None] = [b.mul(s, dots[o]) for o, s in self.saturation.slopes(binding) or () if o in dots]
            for place in self.saturation.remaining(binding):
                if place in moving:
                    terms.append(self._term(binding, place, dots[binding.operands[place]], singular))
            total: Atom | None = None
            for term in terms:
                if term is not None:
                    total = term if total is None else b.add(total, term)
            if total is not None:
                dots[binding.symbol] = arrays.broadcast_to(total, binding.shape)
        b.primal = outer
        return dots

    def _term(self, binding: Binding, place: int, dot: Atom, singular: bool) -> Atom | None:
        b = self.builder
        operand = binding.operands[place]
        p = self.partials.partial(binding, place)
        q = self.partials.partial(binding, place, conjugate=True) if is_complex(operand.dtype or "d") else None
        if q is not None and not is_complex(binding.dtype):
            # q is the conjugate of p here, and p*dot + conj(p*dot) twice the real part.
            return None if p is None else b.real(b.mul(b.mul(Constant(2), p), dot))
        term = None if p is None else b.mul(p, dot)
        if term is not None and singular and not isinstance(dot, Constant):
            if self.partials.is_root_of_squares(binding):
                term = b.select(b.emit("eq", (binding.operands[0], Constant(0.0))), ZERO, term)
            else:
                term = _zero_times_infinity(b, dot, p, term)
        elif term is not None and self._meets_infinity(p, operand):
            term = _zero_times_infinity(b, p, dot, term)  # type: ignore[arg-type]
        overflowed = None if term is None else self.saturation.overflowed(binding, place)
        if term is not None and overflowed is not None:
            term = b.select(overflowed, ZERO, term)
        counts = None if term is None else self.partials.counts(binding, place)
        if term is not None and counts is not None:
            condition, value = counts
            term = b.select(condition, term, ZERO) if value else b.select(condition, ZERO, term)
        if q is not None:
            crossed = b.mul(q, b.conj(dot))
            term = crossed if term is None else b.add(term, crossed)
        return term

    def _meets_infinity(self, partial: Atom | None, operand: Atom) -> bool:
        """Whether a partial may vanish where the operand's tangent is infinite."""
        head = self.infinite.get(operand)
        return partial is not None and head is not None and self.vanishing.together(partial, head)


def _zero_times_infinity(b: Builder, zero: Atom, infinite: Atom | None, product: Atom) -> Atom:
    """A product, zero where one factor is zero and the other not finite; elsewhere it stays open to differentiation."""
    if infinite is None or isinstance(infinite, Constant):
        return product
    overflow = b.emit("not", (b.emit("isfinite", (infinite,)),))
    return b.select(b.emit("and", (b.emit("eq", (zero, Constant(0.0))), overflow)), ZERO, product)
