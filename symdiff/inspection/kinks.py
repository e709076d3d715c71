"""Where a graph has kinks, jumps, poles, edges of domains and branch cuts at a point, and what its derivative takes there.

Assumes the values of all bindings at the point. Guarantees that a cell is reported only where the result depends on it: not
in a branch that is not taken, and not in cells that nobody reads. Heads it does not know are smooth.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from symdiff.ir.evaluating import rounds_of, value_of
from symdiff.ir.graph import Graph
from symdiff.ir.node import Atom, Constant, Node
from symdiff.rulebooks.calls import extreme_by_rule
from symdiff.rulebooks.columns import KINDS, formula_locus
from symdiff.rulebooks.rule import evaluate_formula
from symdiff.rulebooks.structural import moves_by_rule
from symdiff.simplification.activity import active_symbols, moving_in_rounds
from symdiff.simplification.equalities import Thinness, agree
from symdiff.simplification.facts import Facts, known_column
from symdiff.vocabulary.heads import HEADS
from symdiff.vocabulary.ops import OPS
from symdiff.vocabulary.traits import operations

Values = dict[Atom, Any]
_COMPARISONS, _LOGIC = operations("compares"), operations("logic")


@dataclass(frozen=True, slots=True)
class Kink:
    """One place: the user's line, the operation, its operands' values at the first such cell, and what was chosen there.

    `kind` is "kink", "jump", "pole", "edge", "cut" or "boundary"; `cells` is the number of such cells.
    """

    line: str
    operation: str
    operands: tuple[Any, ...]
    kind: str
    chosen: str
    cells: int = 1

    def __str__(self) -> str:
        inside = ", ".join(map(_shown, self.operands))
        many = f" at {self.cells} cells" if self.cells > 1 else ""
        return f"{self.line}  {self.operation}({inside}){many}: {self.kind}; {self.chosen}"


def _shown(value: Any) -> str:
    return str(value) if isinstance(value, (bool, np.bool_)) else f"{value:.6g}"


_ORDERED = {
    "argsort": ("sort", "equal cells keep their order"),
    "order": ("sort", "equal cells keep their order"),
    "eigenvalues": ("eigh", "equal eigenvalues keep LAPACK's"),
    "general_eigenvalues": ("eig", "equal eigenvalues keep LAPACK's"),
    "singular_values": ("svd", "equal singular values keep LAPACK's"),
}
_HALVES = "half of the slope goes to each"
_OF_MATRICES: dict[str, list[tuple[str, Callable[..., Any]]]] = {
    "searchsorted": [("jump", lambda a, v: np.isin(v, a))],
    "det_sign": [("jump", lambda x: np.linalg.det(x) == 0)],
    "log_abs_det": [("pole", lambda x: np.linalg.det(x) == 0)],
}
_PLACES = operations("tells_places")  # have no derivative, but jumps


def kinks(graph: Graph, values: Values) -> list[Kink]:
    """The places of a graph where it is not smooth, in order; those of a loop's rounds as one, with the first such round's
    values.
    """
    return _Places(graph, {leaf.node for leaf in graph.inputs}).at(values, {})


class _Places:
    """Where a graph, or a round of a loop, is not smooth, by the symbols that it is a function of."""

    def __init__(self, graph: Graph, moving: set[Atom]) -> None:
        self.graph = graph
        self.made = {b: b for b in graph.bindings}
        self.active = active_symbols(graph.bindings, moving)
        self.facts = Facts(graph.bindings)
        self.thinness = Thinness([leaf.node for leaf in graph.inputs])
        self.thinness.include(graph.bindings)
        self.inside: dict[Node, _Places] = {}

    def at(self, values: Values, sizes: dict[str, int]) -> list[Kink]:
        """Those at the values of all symbols; `sizes` are known."""
        read = _read(self.graph, values)
        counted = {b.params.counted: int(values[b][-1]) for b in self.graph.bindings if b.op == "loop" and b.params.tested}
        found = []
        with np.errstate(all="ignore"):
            for binding in self.graph.bindings:
                operands = [value_of(o, values) for o in binding.operands]
                if binding.op == "loop":
                    found += self._in_rounds(binding, operands, sizes | counted) if binding in read else []
                elif binding.op == "select":
                    found += _boundaries(binding, operands, self.made, values, read, self.thinness)
                elif binding.op == "part":
                    pass
                elif binding in self.active or (binding.op in _PLACES and not self.active.isdisjoint(binding.operands)):
                    squares = bool(self.facts.of(binding.operands[0]).powers) if binding.op in ("sqrt", "pow") else False
                    found += _at(binding, operands, values, read, squares)
        return found

    def _in_rounds(self, binding: Node, operands: list[Any], sizes: dict[str, int]) -> list[Kink]:
        loop = binding.params
        if binding not in self.inside:
            moving, _ = moving_in_rounds(loop, [p for p, o in enumerate(binding.operands) if o in self.active])
            self.inside[binding] = _Places(loop.body, {loop.body.inputs[p + 1].node for p in moving})
        found: dict[tuple[str, str, str], Kink] = {}
        for _, values, _ in rounds_of(loop, operands, sizes):
            for kink in self.inside[binding].at(values, sizes):
                key = kink.line, kink.operation, kink.kind
                found[key] = replace(found[key], cells=found[key].cells + kink.cells) if key in found else kink
        return [*found.values()]


def _at(binding: Node, operands: list[Any], values: Values, read: dict[Atom, Any], squares: bool) -> list[Kink]:
    reads = read.get(binding, np.zeros(binding.shape, bool))
    if binding.op in ("amax", "amin", "kth", "argmax", "argmin") or (binding.op == "call" and extreme_by_rule(binding)):
        return _ties(binding, operands, values[binding], reads)
    if binding.op in _ORDERED:
        return _neighbours(binding, operands[0] if binding.op in _PLACES else values[binding], reads)
    found = []
    for kind, hits, chosen in _loci(binding, operands):
        hits = np.asarray(hits) & reads
        if hits.any():
            kind, chosen = ("kink", f"of a sum of squares; {KINDS['kink']}") if squares and kind == "edge" else (kind, chosen)
            found.append(_kink(binding, operands, kind, chosen, hits))
    outside = np.isnan(values[binding]) & reads
    for operand in operands:
        outside = outside & ~(np.isnan(operand) if binding.op in OPS else np.any(np.isnan(operand)))
    if np.any(outside) and not found:
        found.append(_kink(binding, operands, "edge", "the value is not a number", np.asarray(outside)))
    return found


def _loci(binding: Node, operands: list[Any]) -> Iterator[tuple[str, Any, str]]:
    """The kinds of places where a function is not smooth, the cells at which it is there, and what is taken, by its row."""
    if binding.op == "call":
        for point, slopes in binding.params.rule.kinks:
            if len(point) == len(operands):
                hits = np.logical_and.reduce([np.equal(x, c) for x, c in zip(operands, point, strict=True)])
                yield "kink", hits, f"slope {', '.join(f'{v:g}' for v in slopes)} is taken"
    for kind, test in _OF_MATRICES.get(binding.op, ()):
        yield kind, test(*operands), KINDS[kind]
    for locus in known_column(binding).loci:
        if (binding.op, locus.kind) == ("pow", "jump") and isinstance(binding.operands[1], Constant):
            continue  # x**0 is 1
        x, *rest = operands
        on_axis = locus.kind == "cut" and np.iscomplexobj(x)  # where the cuts of complex numbers are
        if locus.kind != "cut" or on_axis or binding.op == "atan2":
            hits = evaluate_formula(formula_locus(locus), (np.real(x) if on_axis else x, *rest), None)
            yield locus.kind, hits & (np.imag(x) == 0) if on_axis else hits, locus.chosen


def _kink(binding: Node, operands: list[Any], kind: str, chosen: str, hits: Any) -> Kink:
    first = np.unravel_index(int(np.argmax(hits)), hits.shape)
    cells = []
    for operand in operands:
        if np.ndim(operand) == 0 or binding.op in OPS:
            cells.append(np.broadcast_to(operand, hits.shape)[first])
    operation = binding.params.__name__ if binding.op == "call" else binding.op
    return Kink(binding.origin, operation, tuple(c.item() for c in map(np.asarray, cells)), kind, chosen, int(hits.sum()))


def _ties(binding: Node, operands: list[Any], out: Any, reads: Any) -> list[Kink]:
    """Cells of an array, or operands, that are equal to the extreme of them, of which a place along an axis is the first's."""
    is_call, is_place = binding.op == "call", binding.op in _PLACES
    params = {"axes": 0} if is_call else binding.params.params
    axes = params["axis"] if is_place else params["axes"]
    x = np.stack(np.broadcast_arrays(*operands)) if is_call else operands[0]
    best = (np.max if binding.op == "argmax" else np.min)(x, axis=axes) if is_place else out
    count = np.sum(x == np.expand_dims(best, axes), axis=axes)
    hits = np.asarray(count > 1) & reads
    if not hits.any():
        return []
    most, kind = int(np.max(count[hits])), "jump" if is_place else "kink"
    if is_call:
        return [_kink(binding, operands, kind, _HALVES if len(x) == 2 else f"{most} equal numbers share the slope", hits)]
    chosen = f"the first of {most} equal cells is taken" if is_place else f"{most} equal cells share the slope"
    return [Kink(binding.origin, binding.op, (np.asarray(best)[hits].ravel()[0].item(),), kind, chosen, int(hits.sum()))]


def _neighbours(binding: Node, x: Any, reads: Any) -> list[Kink]:
    axis = binding.params.params.get("axis", -1) % np.ndim(x)
    equal = np.diff(np.sort(x, axis=axis), axis=axis) == 0
    if not equal.any() or not np.any(reads):
        return []
    value = np.delete(np.sort(x, axis=axis), -1, axis)[equal][0].item()
    name, chosen = _ORDERED[binding.op]
    return [Kink(binding.origin, name, (value,), "kink", chosen, int(equal.sum()))]


def _boundaries(
    binding: Node,
    operands: list[Any],
    made: dict[Atom, Node],
    values: Values,
    read: dict[Atom, Any],
    thinness: Thinness,
) -> list[Kink]:
    """A selection whose condition compares equal numbers."""
    found = []
    pending: list[Atom] = [binding.operands[0]]
    reads = read.get(binding, np.zeros(binding.shape, bool))
    while pending:
        comparison = made.get(pending.pop())
        if comparison is None:
            continue
        if comparison.op in _LOGIC:
            pending += comparison.operands
        if comparison.op not in _COMPARISONS:
            continue
        sides = [value_of(o, values) for o in comparison.operands]
        hits = np.broadcast_to(np.equal(*sides), binding.shape) & reads
        if hits.any():
            first = np.unravel_index(int(np.argmax(hits)), hits.shape)
            taken, other = (np.broadcast_to(v, hits.shape)[first] for v in operands[1:])
            first_taken = np.broadcast_to(operands[0], hits.shape)[first]
            if not first_taken:
                taken, other = other, taken
            same = "the other has the same value" if taken == other else f"the other's value is {_shown(other)}"
            is_beside = (
                binding.primal
                and binding.dtype != "?"
                and agree(taken, other)
                and thinness.of(binding.operands[0]) is bool(first_taken)
            )
            same += ", and its slope is taken" if is_beside else ""
            chosen = f"the branch of value {_shown(taken)} is taken, {same}"
            found.append(_kink(comparison, sides, "boundary", chosen, hits))
    return found


def _read(graph: Graph, values: Values) -> dict[Atom, Any]:
    """For each symbol the cells that the outputs depend on, branches not taken left out."""
    read: dict[Atom, Any] = {}

    def mark(atom: Atom, cells: Any) -> None:
        if atom.op != "const":
            read[atom] = read.get(atom, np.zeros(atom.shape, bool)) | cells

    for output in graph.outputs:
        mark(output.atom, np.ones(output.shape, bool))
    for binding in reversed(graph.bindings):
        cells = read.get(binding)
        if cells is None or not np.any(cells):
            continue
        if binding.op in ("loop", "part"):
            for operand in binding.operands:
                mark(operand, True)
        elif binding.op == "select":
            condition = binding.operands[0]
            holds = np.asarray(value_of(condition, values), bool)
            mark(condition, _gathered(cells, condition.shape))
            for operand, part in zip(binding.operands[1:], (cells & holds, cells & ~holds), strict=True):
                mark(operand, _gathered(part, operand.shape))
        elif binding.op in HEADS or binding.op in ("item", "array"):
            for operand, part in zip(binding.operands, _moved(binding, cells), strict=True):
                mark(operand, part)
        else:
            for operand in binding.operands:
                mark(operand, _gathered(cells, operand.shape))
    return read


def _gathered(cells: Any, shape: tuple[int, ...]) -> Any:
    """The cells of an operand that was broadcast."""
    away = np.ndim(cells) - len(shape)
    cells = np.any(cells, axis=tuple(range(away)))
    axes = tuple(i for i, n in enumerate(shape) if n == 1 != np.shape(cells)[i])
    return np.any(cells, axis=axes, keepdims=True)


def _moved(binding: Node, cells: Any) -> list[Any]:
    """The cells of each operand that a structural binding reads: those it moves there, else all."""
    shapes = [o.shape for o in binding.operands]
    if binding.op == "item":
        found = np.zeros(shapes[0], bool)
        found.reshape(-1)[binding.params] = True
        return [found]
    if binding.op == "array":
        return list(np.ravel(cells))
    if binding.op == "concatenate":
        axis = binding.params.params["axis"]
        return np.split(cells, np.cumsum([s[axis] for s in shapes])[:-1], axis=axis)
    if len(binding.operands) == 1 and moves_by_rule(binding):
        places = np.arange(int(np.prod(shapes[0]))).reshape(shapes[0])
        found = np.zeros(places.size, bool)
        found[np.asarray(binding.params.function(places))[cells]] = True
        return [found.reshape(shapes[0])]
    return [np.ones(s, bool) for s in shapes]
