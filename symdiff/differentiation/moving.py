"""Derivatives through bindings that move, pick, add up or multiply cells: where cells are only moved, so are their masks.

Assumes the rules of `structural.table`. Guarantees that cells that a binding leaves out have a mask that says so, where the
partials behind them can be infinite; that a derivative is unmasked before it is added to others; and that a mask is forgotten
where nothing behind it can be infinite.
"""

import math
from typing import Any

import numpy as np

from symdiff.differentiation.cotangents import Cotangents, Masked, Soft
from symdiff.differentiation.steepness import Steepness
from symdiff.ir.arrays.algebra import Arrays
from symdiff.ir.node import ArrayConstant, Atom, Constant, Node
from symdiff.rulebooks.structural import rule_pullback, rule_pushforward
from symdiff.vocabulary.extents import Extent
from symdiff.vocabulary.heads import HEADS
from symdiff.vocabulary.seams import Seam
from symdiff.vocabulary.traits import operations

slopes_of_values = Seam("the slopes of values of a matrix")
_MOVING = operations("masked") | {"item"}
_SELECTING = operations("picks", "gathers") | {"item"}  # the others have the cotangent zero
_REDUCING = operations("reduces")
_STATIC = operations("picks") | {"item"}
_SPECTRAL = operations("spectral")
_ONCE = operations("picks", "rearranges") | {"item"}  # each cell of the result is one of these
_KNOWN = 10_000  # cells up to which it is worked out which ones are left out
_SHORT = 64  # cells of a mask that generated files may spell out; a longer one is one stretch


def pulled(sweep: Any, binding: Node, place: int, part: Masked, conjugated: bool = False) -> Masked | None:
    """One cotangent, by a value or by its conjugate, through a structural binding."""
    masks: Cotangents = sweep.cotangents
    steepness: Steepness = sweep.slopes.steepness
    op, b, arrays = binding.op, sweep.builder, Arrays(sweep.builder, binding.origin)
    behind = steepness.is_behind(binding.operands[place])
    moving = op in _MOVING
    value = masks.hard(part).value if moving else masks.unmasked(part)
    found = rule_pullback(arrays, binding, place, b.conj(value) if conjugated else value, *_slopes(sweep, binding))
    if found is None:
        return None
    found = b.conj(found) if conjugated else found
    return masks.softened(_masked(masks, arrays, binding, place, Masked(found, part.mask, part.clean), moving, behind), [part])


def _masked(masks: Cotangents, a: Arrays, binding: Node, place: int, part: Masked, moving: bool, behind: bool) -> Masked:
    """A cotangent that has gone through a structural binding, with the mask that goes with it."""
    leaves_out = binding.op in _SELECTING and behind
    mask = part.mask
    if not (behind or moving) or (mask is None and not leaves_out):
        return Masked(part.value)
    if mask is None and (known := _left(binding)) is not None:
        return Masked(part.value, known, True)
    if not (moving or leaves_out):
        if mask is not None and binding.op in _REDUCING:
            whole = a.broadcast_to(mask, binding.shape)
            return Masked(part.value, a.spread(whole, part.value.shape, binding.params.params["axes"]), True)
        some = masks.anywhere(mask)
        return Masked(part.value, some, some is not None, (Soft(part.value, part.value),))
    moved = rule_pullback(a, binding, place, a.broadcast_to(Constant(True) if mask is None else mask, binding.shape))
    return Masked(part.value, moved, mask is None or part.clean or not moving)


def pushed(sweep: Any, binding: Node, parts: dict[int, Masked], before: bool) -> Masked | None:
    """The tangent of the result of a structural binding; `before`: partials that come after it can be infinite."""
    masks: Cotangents = sweep.masks
    arrays = Arrays(masks.builder, binding.origin)
    settled = {p: arrays.broadcast_to(masks.unmasked(t), binding.operands[p].shape) for p, t in parts.items()}
    found = rule_pushforward(arrays, binding, settled, *_slopes(sweep, binding))
    if found is None or not before:
        return None if found is None else Masked(found)
    given = list(parts.values())
    if any(part.mask is None for part in given):
        return masks.softened(Masked(found), given)
    if binding.op in _ONCE:
        whole = arrays.broadcast_to(parts[0].mask, binding.operands[0].shape)  # type: ignore[arg-type]
        return masks.softened(Masked(found, rule_pushforward(arrays, binding, {0: whole}), True), given)
    union = masks.union([masks.anywhere(part.mask) for part in given])
    return masks.softened(Masked(found, union, union is not None), given)


def _slopes(sweep: Any, binding: Node) -> tuple[Atom, ...]:
    """Those that the rules of spectral heads take."""
    return (slopes_of_values(sweep.builder, binding, sweep.slopes),) if binding.op in _SPECTRAL else ()


def _left(binding: Node) -> Atom | None:
    """Which cells of an array a binding reads; None where that is long to say, or known at a call only."""
    shape = binding.operands[0].shape
    if binding.op not in _STATIC or any(isinstance(n, Extent) for n in (*shape, *binding.shape)) or math.prod(shape) > _KNOWN:
        return None
    mask = np.zeros(math.prod(shape), dtype=bool)
    if binding.op == "item":
        mask[binding.params] = True
    else:
        places = HEADS[binding.op].function(np.arange(mask.size).reshape(shape), **binding.params.params)
        mask[np.asarray(places).ravel()] = True
    return ArrayConstant(mask.reshape(shape)) if mask.size <= _SHORT or np.count_nonzero(np.diff(mask)) < 3 else None
