"""Whether a function is differentiable at a point, and if not, at which lines and what the derivative takes there.

Assumes a function that can be traced. Guarantees that what is reported lies on the way to the result at that point, and
that kinks which cancel are told from those that do not by the slopes beside the point. Refuses what tracing refuses.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from symdiff.api.arguments import Call
from symdiff.api.functions import Function, Plain
from symdiff.differentiation import transforming
from symdiff.errors import TraceError
from symdiff.inspection.kinks import Kink, kinks
from symdiff.ir.evaluating import binding_values, value_of
from symdiff.ir.graph import Graph
from symdiff.tracing.unrolling.scalarizing import settled
from symdiff.vocabulary import structures
from symdiff.vocabulary.choices import check_options

STEPS = (2.0**-18, 2.0**-22)  # distances, relative to the point, at which slopes and values are compared
DIRECTIONS = 3
NOISE = 1e-7
At = Callable[[list[np.ndarray], list[np.ndarray]], list[Any]]
COARSER = 2.0**11  # steps and noise in single precision


@dataclass(frozen=True, slots=True)
class Explanation:
    """`differentiable` at the point; the `entries` are the kinks, jumps, poles and boundaries there; `note` sums up."""

    name: str
    differentiable: bool
    entries: tuple[Kink, ...]
    note: str

    def __str__(self) -> str:
        return "\n".join([f"{self.name}: {self.note}", *(f"  {entry}" for entry in self.entries)])

    __repr__ = __str__


class _AtPoint(Plain):
    """The function itself, some arguments of which count as floating numbers."""

    positions = Function.positions
    hides = False


def _floating(args: tuple[Any, ...]) -> tuple[int, ...]:
    """The arguments that hold floating or complex numbers; the first where there are none."""
    kinds = [{np.asarray(leaf).dtype.kind for leaf in structures.leaves(arg)} for arg in args]
    return tuple(i for i, kind in enumerate(kinds) if kind & set("fc")) or tuple(range(len(args)))[:1]


def explain(f: Callable[..., Any], *args: Any, rules: Any = None, **kwargs: Any) -> Explanation:
    """Whether f is differentiable at `args`, and which choices its derivative makes there.

    Counted are the arguments that hold floating or complex numbers; where there are none, the first one.
    Each entry names the line, the operation, its operands' values and what was chosen: an element of the subdifferential
    at a kink, the branch taken where a condition compares equal numbers. Kinks that cancel are listed, too.

    >>> print(explain(lambda x: x*x, 0.0))
    f: differentiable; there is no kink, jump or pole
    >>> explain(lambda x: abs(x) + 1, 0.0).differentiable
    False
    """
    check_options("explain", {"rules": rules})
    function = _AtPoint(f, rules=rules, scalarize=False)
    function.argnums = _floating(args)
    call = Call(function, args, kwargs)
    graph = function.graph(*args, **kwargs)
    point = [
        np.asarray(call.leaves[i], dtype=np.dtype(leaf.node.dtype)) for i, leaf in zip(call.traced, graph.inputs, strict=True)
    ]
    values = binding_values(graph, tuple(point))
    entries = tuple(kinks(graph, values))
    if not all(np.all(np.isfinite(value_of(o.atom, values))) for o in graph.outputs):
        return Explanation(function.name, False, entries, "not differentiable; the value is not finite")

    def at(moved: list[np.ndarray], direction: list[np.ndarray]) -> list[Any]:
        """Values and slopes; on another path these are of its own graph."""
        try:
            return _flat(pushed, [*moved, *direction])
        except TraceError:
            leaves = list(call.leaves)
            for place, value in zip(call.traced, moved, strict=False):
                leaves[place] = value[()]
            args, kwargs = structures.unflatten(call.tree, leaves)
            return _flat(_pushed(function, function.graph(*args, **kwargs), len(moved)), [*moved, *direction])

    pushed = _pushed(function, graph, len(point))
    if not entries and _has_slope(at, point):
        return Explanation(function.name, True, (), "differentiable; there is no kink, jump or pole")
    try:
        differentiable, note = _judged(at, len(graph.outputs), point)
    except Exception as error:  # the function's own
        differentiable, note = False, f"not differentiable; beside the point it raises {type(error).__name__}: {error}"
    return Explanation(function.name, differentiable, entries, note)


def _pushed(function: Function, graph: Graph, count: int) -> Graph:
    return transforming.push_tangents(settled(graph), list(range(count)), function._rules())


def _has_slope(at: At, point: list[np.ndarray]) -> bool:
    """Whether the derivative along one direction is finite."""
    rng = np.random.default_rng(0)
    return all(np.all(np.isfinite(v)) for v in at(point, [_random(rng, x) for x in point]))


def _judged(along: At, count: int, point: list[np.ndarray]) -> tuple[bool, str]:
    """Whether values and slopes beside the point agree with those at it, along a few directions."""
    rng = np.random.default_rng(0)
    unit = COARSER if any(x.dtype.char in "fF" for x in point) else 1.0
    differentiable, note = True, "differentiable; the kinks cancel"
    for _ in range(DIRECTIONS):
        direction = [_random(rng, x) for x in point]

        def at(distance: float, direction: list[np.ndarray] = direction) -> tuple[np.ndarray, np.ndarray]:
            scale = unit * distance * max([1.0, *(float(np.max(np.abs(x), initial=0.0)) for x in point)])
            moved = [(x + scale * d).astype(x.dtype) for x, d in zip(point, direction, strict=True)]
            found = [np.ravel(v) for v in along(moved, direction)]
            return np.concatenate(found[:count]), np.concatenate(found[count:])

        value, slope = at(0.0)
        sides = [(at(step), at(-step)) for step in STEPS]
        everything = [value, slope, *(part for pair in sides for side in pair for part in side)]
        if not all(np.all(np.isfinite(part)) for part in everything):
            return False, "not differentiable; the value or the derivative is not finite at the point or beside it"
        jumps = [_gap(right[0], value) + _gap(left[0], value) for right, left in sides]
        kinks_ = [_gap(right[1], left[1]) for right, left in sides]
        if not _vanishes(jumps, value, unit):
            return False, "not differentiable; its value jumps"
        if not _vanishes(kinks_, slope, unit):
            return False, "not differentiable; the slopes beside the point differ"
        chosen = [_gap(right[1], slope) for right, _ in sides]
        if not _vanishes(chosen, slope, unit):
            note = (
                "differentiable, but the derivative is that of the branch taken, which differs from the slope beside the point"
            )
    return differentiable, note


def _flat(graph: Graph, args: list[np.ndarray]) -> list[Any]:
    values = binding_values(graph, tuple(args))
    return [value_of(o.atom, values) for o in graph.outputs]


def _random(rng: np.random.Generator, like: np.ndarray) -> np.ndarray:
    found = rng.standard_normal(like.shape)
    return np.asarray(found + 1j * rng.standard_normal(like.shape) if like.dtype.kind == "c" else found).astype(like.dtype)


def _gap(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.max(np.abs(a - b), initial=0.0))


def _vanishes(gaps: list[float], scale: np.ndarray, unit: float) -> bool:
    """Whether a gap goes to zero with the distance, which is 16 times smaller the second time, or is rounding."""
    return gaps[1] <= max(unit * NOISE * (1.0 + float(np.max(np.abs(scale), initial=0.0))), gaps[0] / 3)
