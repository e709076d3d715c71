"""Compiled graphs of branching functions: what their paths ask is computed in the program itself, before it writes a result.

Assumes Graphs whose notes hold `Branches`. Guarantees that a path's derivative is given for arguments that take this path
only, that arguments whose path raises raise the function's exception with nothing written, and that conditions are computed
with the operations and the order in which the function has them. Refuses bare kernels, which could not tell what they decline.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from symdiff.api.compiled import Compiled
from symdiff.codegen.source import MISS
from symdiff.errors import BackendError
from symdiff.ir.branches import Branches, branches_of
from symdiff.ir.graph import Graph
from symdiff.lowering.arrays.fusing import Fused
from symdiff.lowering.program import Program
from symdiff.pipeline import Options, program_of

KEPT_PATHS = 32  # guarded paths of one signature that are kept, those that were taken last


class Checked(Compiled):
    """A specialisation that has results for some arguments only."""

    def __init__(self, graph: Graph, tree: Any, options: Options, backend: str = "auto") -> None:
        branches = branches_of(graph)
        assert branches is not None and branches.conditions is not None
        self.branches: Branches = branches
        super().__init__(graph, tree, options, backend)

    def _numbered(self) -> Program | Fused:
        return program_of(self.graph, self.options, checks=self.branches.conditions)

    @functools.cached_property
    def unchecked(self) -> Compiled:
        """The same without its checks: rounding may put an argument on the other side of a limit than the function does."""
        return Compiled(self.graph, self.tree, self.options, self.backend)

    def call(self, leaves: list[Any], out: Any = None) -> Any:
        found = self.attempt(leaves, out)
        if found is not MISS:
            return found
        self.branches.check(self.program.name, tuple(self.hidden.fill(leaves, len(self.graph.inputs))))
        return self.unchecked.call(leaves, out)

    @property
    def kernel(self) -> Callable[..., Any]:
        raise BackendError(f"{self.program.name}: the function branches, and a bare kernel cannot check the path; call it")

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), *super().__reduce__()[1:])


class Raising(Checked):
    """All paths of a function, some of which end in an exception."""


class Guarded(Checked):
    """One path of a function, among `kept` ones, the one taken last first."""

    def __init__(self, graph: Graph, tree: Any, options: Options, backend: str = "auto") -> None:
        super().__init__(graph, tree, options, backend)
        self.kept: list[Guarded] = [self]

    @functools.cached_property
    def path(self) -> str:
        """What tells this path from others."""
        return specialised_path(self.graph)


def compiled_of(graph: Graph, tree: Any, options: Options, backend: str = "auto") -> Compiled:
    """A Graph made callable, with the checks that its branches need."""
    branches = branches_of(graph)
    if branches is None or branches.conditions is None:
        return Compiled(graph, tree, options, backend)
    return (Guarded if branches.guarded else Raising)(graph, tree, options, backend)


def specialised_path(graph: Graph) -> str:
    """What tells a guarded path from others, "" for a graph that is no such path."""
    branches = branches_of(graph)
    guarded = branches is not None and branches.guarded and branches.conditions is not None
    return branches.conditions.fingerprint() if guarded else ""  # type: ignore[union-attr]


def try_specialisation(compiled: Compiled | None, leaves: list[Any], out: Any) -> tuple[Compiled | None, Any]:
    """The specialisation for these leaves, None where they take a path that is not kept; and its result, or `MISS`."""
    if not isinstance(compiled, Guarded):
        return compiled, MISS if compiled is None else compiled.attempt(leaves, out)
    for kept in compiled.kept:
        found = kept.attempt(leaves, out)
        if found is not MISS:
            if kept is not compiled.kept[0]:
                compiled.kept = [kept, *(k for k in compiled.kept if k is not kept)]
            return kept, found
    return None, MISS


def kept_specialisation(compiled: Compiled | None, graph: Graph) -> Guarded | None:
    """The kept specialisation for the path that a function, traced as `graph`, takes."""
    kept = compiled.kept if isinstance(compiled, Guarded) else []
    path = specialised_path(graph) if kept else ""
    return next((k for k in kept if k.path == path), None)


def add_specialisation(compiled: Compiled, earlier: Compiled | None) -> Compiled:
    """A new specialisation, which keeps earlier paths of the same signature."""
    if isinstance(compiled, Guarded) and isinstance(earlier, Guarded):
        compiled.kept = [compiled, *earlier.kept[: KEPT_PATHS - 1]]
    return compiled


class RaisingBatch:
    """A kernel over points, after a look whether a point takes a path that raises.

    `conditions` computes these paths' conditions over the points of the first arguments, `run` is the function at one point.
    """

    def __init__(
        self, kernel: Any, branches: Branches, conditions: Any, axes: Sequence[int | None], run: Callable[[list[Any]], None]
    ) -> None:
        self.kernel = kernel
        self.branches = branches
        self._conditions = conditions
        self._axes = axes
        self._run = run

    def call(self, leaves: list[Any], out: Any = None) -> Any:
        """Results with a points axis, from leaves with one."""
        own = leaves[: len(self._axes)]
        flags = np.array(self._conditions.call(own), dtype=bool).reshape(len(self.branches.raised), -1)
        if flags.any():
            self._raise(own, int(np.argmax(flags.any(axis=0))), flags)
        return self.kernel.call(leaves, out)

    def _raise(self, leaves: list[Any], point: int, flags: np.ndarray) -> None:
        try:
            self._run([_at(leaf, axis, point) for leaf, axis in zip(leaves, self._axes, strict=True)])
        except Exception as error:
            error.add_note(f"at point {point}")
            raise
        error = self.branches.exception(flags[:, point])
        assert error is not None
        raise error


def _at(leaf: Any, axis: int | None, point: int) -> Any:
    if axis is None or not np.ndim(leaf):
        return leaf
    return np.asarray(leaf)[point] if axis == 0 else np.asarray(leaf)[..., point]
