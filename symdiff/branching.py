"""Compiled graphs of branching functions: conditions are computed before anything else.

Assumes Graphs whose notes hold `Branches`. Guarantees that a path's derivative is given for arguments that take this path
only, that arguments whose path raises raise the function's exception with nothing written, and that conditions are computed
with the operations and the order in which the function has them. Refuses bare kernels, which could not check.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from symdiff import structures
from symdiff.codegen.source import MISS
from symdiff.compiled import Compiled
from symdiff.errors import BackendError, TraceError
from symdiff.pipeline import Options
from symdiff.symbolic.branches import Branches, branches_of
from symdiff.symbolic.graph import Graph
from symdiff.symbolic.hidden import visible
from symdiff.symbolic.scalarizing import is_scalar, settled

KEPT_PATHS = 32  # guarded paths of one signature that are kept, the newest
# Operations with one result only in every library; NumPy computes the conditions that have others.
_ROUNDED = frozenset(
    """
    input const cast add sub mul div neg sqrt abs floor ceil trunc rint max min lt le gt ge eq ne and or xor not isnan isinf
    isfinite select item array
    """.split()
)


class Checked(Compiled):
    """A specialisation that is for some arguments only."""

    def __init__(self, graph: Graph, tree: Any, options: Options, backend: str = "auto") -> None:
        branches = branches_of(graph)
        assert branches is not None and branches.conditions is not None
        self.branches: Branches = branches
        self._own = len(branches.conditions.inputs)
        self._conditions = conditions_of(branches.conditions)
        super().__init__(graph, tree, options, backend)

    def flags(self, leaves: list[Any]) -> tuple[Any, ...]:
        """The conditions at the traced leaves."""
        found = self._conditions.call(self.hidden.fill(leaves, len(self.graph.inputs))[: self._own])
        return found if isinstance(found, tuple) else (found,)

    def allows(self, leaves: list[Any]) -> bool:
        flags = self.flags(leaves)
        return bool(flags[0]) if self.branches.guarded else not any(flags)

    @property
    def quick(self) -> None:
        return None

    @property
    def entry(self) -> Callable[..., Any] | None:
        door, conditions = self.door, self._conditions.door
        if door is None or conditions is None:
            return None
        own, guarded = self._own, self.branches.guarded
        several = len(self._conditions.program.outputs) > 1

        def through(*args: Any, out: Any = None) -> Any:
            found = conditions(*args[:own])
            if found is MISS or guarded != bool(any(found) if several else found):
                return MISS
            return door(*args, out=out)

        return self._reading(through)

    @property
    def kernel(self) -> Callable[..., Any]:
        raise BackendError(f"{self.program.name}: the function branches, and a bare kernel cannot check the path; call it")

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), *super().__reduce__()[1:])


class Raising(Checked):
    """All paths of a function, some of which end in an exception."""

    def call(self, leaves: list[Any], out: Any = None) -> Any:
        error = self.branches.exception(self.flags(leaves))
        if error is not None:
            raise error
        return super().call(leaves, out)


class Guarded(Checked):
    """One path of a function, among `kept` ones, the newest first."""

    def __init__(self, graph: Graph, tree: Any, options: Options, backend: str = "auto") -> None:
        super().__init__(graph, tree, options, backend)
        self.kept: list[Guarded] = [self]

    def __call__(self, *leaves: Any, out: Any = None) -> Any:
        if len(leaves) == visible(self.graph) and not self.allows(list(leaves)):
            raise TraceError(
                f"{self.program.name}: compiled for the path taken at other arguments; call the function, which traces anew"
            )
        return super().__call__(*leaves, out=out)


def compiled_of(graph: Graph, tree: Any, options: Options, backend: str = "auto") -> Compiled:
    """A Graph made callable, with the checks that its branches need."""
    branches = branches_of(graph)
    if branches is None or branches.conditions is None:
        return Compiled(graph, tree, options, backend)
    return (Guarded if branches.guarded else Raising)(graph, tree, options, backend)


def fitting(compiled: Compiled | None, leaves: list[Any]) -> Compiled | None:
    """The specialisation for these leaves; None where the function must be traced at them."""
    if not isinstance(compiled, Guarded):
        return compiled
    return next((c for c in compiled.kept if c.allows(leaves)), None)


def beside(compiled: Compiled, earlier: Compiled | None) -> Compiled:
    """A new specialisation, which keeps earlier paths of the same signature."""
    if isinstance(compiled, Guarded) and isinstance(earlier, Guarded):
        others = [c for c in earlier.kept if str(c.branches.conditions) != str(compiled.branches.conditions)]
        compiled.kept = [compiled, *others[: KEPT_PATHS - 1]]
    return compiled


def conditions_of(graph: Graph) -> Compiled:
    """Conditions as the function computes them."""
    graph = settled(graph)
    count = len(graph.outputs)
    rounded = is_scalar(graph) and all(b.op in _ROUNDED for b in graph.bindings)
    tree = structures.structure((0,) * count) if count > 1 else None
    return Compiled(graph, tree, Options(exact=True), "auto" if rounded else "numpy")


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
