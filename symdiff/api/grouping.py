"""A function over points whose paths cannot be merged: the points that take one path are computed together.

Assumes graphs of numbers and small arrays, kept with their conditions. Guarantees that each point has the result of the path
that it takes, in its place. A path that no point took yet is traced at the first point that takes it.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from symdiff.api.arguments import point_shape, points_shape
from symdiff.api.kernels import Batched
from symdiff.errors import ShapeError
from symdiff.ir.branches import branches_of
from symdiff.ir.graph import Graph
from symdiff.pipeline import Options, program_of
from symdiff.tracing.unrolling.scalarizing import settled
from symdiff.vocabulary import structures
from symdiff.vocabulary.locks import free_in_children

KEPT_PATHS = 128  # paths of one function over points that are kept, those that were taken last


@dataclass(frozen=True, slots=True)
class Path:
    """Kernels over points: of the results, and of the condition under which a point takes another path, if there is one."""

    kernel: Batched
    declined: Batched | None

    def others(self, leaves: list[Any], count: int) -> np.ndarray:
        """Which of some points do not take this path."""
        if self.declined is None:
            return np.zeros(count, dtype=bool)
        return np.broadcast_to(self.declined.call(leaves[: len(self.declined.in_axes)]), (count,))


def vmap_path(graph: Graph, tree: Any, axes: Sequence[int | None], out_axis: int, options: Options) -> Path:
    """The kernels of a graph of one path; `axes` tell the points of its inputs, None where all points share one."""
    program: Any = program_of(graph, options)
    kernel = Batched(program, tuple(axes), (out_axis,) * len(program.outputs), tree, options)
    branches = branches_of(graph)
    if branches is None or branches.conditions is None:
        return Path(kernel, None)
    exact = Options(exact=True)
    conditions: Any = program_of(settled(branches.conditions, True), exact)
    own = tuple(axes[: len(conditions.inputs)])
    if all(axis is None for axis in own):
        return Path(kernel, None)  # what all points share decides
    return Path(kernel, Batched(conditions, own, (0,), None, exact, "numpy"))


class Grouped:
    """The paths of a function over points; `trace(k)` gives the path of the point k of a call."""

    def __init__(self, axes: Sequence[int | None], out_axis: int) -> None:
        self.axes = list(axes)
        self.out_axis = out_axis
        self._paths: list[Path] = []
        self._lock = threading.RLock()
        free_in_children(self._lock)

    def call(self, leaves: list[Any], count: int, trace: Callable[[int], Path]) -> Any:
        """The results at `count` points, in the structure of one."""
        rest = np.arange(count)
        known = list(self._paths)
        made: list[np.ndarray] = []
        tree: Any = None
        used: list[Path] = []
        while rest.size:
            new = not known
            path = trace(int(rest[0])) if new else known.pop(0)
            others = path.others(self._at(leaves, rest), rest.size).copy()
            if new:
                others[0] = False  # traced there, whatever rounding says
            here, rest = rest[~others], rest[others]
            if not here.size:
                continue
            used.append(path)
            parts, own = structures.flatten(path.kernel.call(self._at(leaves, here)))
            shapes = [points_shape(point_shape(p.shape, self.out_axis), self.out_axis, count) for p in parts]
            if not made:
                tree, made = own, [np.empty(shape, part.dtype) for part, shape in zip(parts, shapes, strict=True)]
            if own != tree or [w.shape for w in made] != shapes:
                raise ShapeError(
                    "points take paths with results of different structures or shapes; call the function point by point"
                )
            made = [w.astype(np.result_type(w, p), copy=False) for w, p in zip(made, parts, strict=True)]
            for whole, part in zip(made, parts, strict=True):
                np.moveaxis(whole, self.out_axis, 0)[here] = np.moveaxis(part, self.out_axis, 0)
        with self._lock:
            self._paths = [*used, *(p for p in self._paths if p not in used)][:KEPT_PATHS]
        return structures.unflatten(tree, made)

    def _at(self, leaves: list[Any], points: np.ndarray) -> list[Any]:
        """The leaves at some of the points."""
        return [
            leaf if axis is None else np.take(np.asarray(leaf), points, axis=axis)
            for leaf, axis in zip(leaves, self.axes, strict=True)
        ]
