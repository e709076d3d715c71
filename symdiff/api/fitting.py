"""A Graph with named sizes made callable: one compiled function for arguments of any size.

Assumes a Graph whose inputs are the traced argument leaves in order. Guarantees fresh arrays without `out=`, nothing written
when an error is raised, and that neither tracing nor compiling happens again at another size. Refuses, with `ShapeError`,
shapes that do not fit each other, sizes beyond the graph's bounds and other dtypes.
"""

from typing import Any

import numpy as np

from symdiff.api.arguments import arrays_of_out
from symdiff.api.compiled import plain_argument
from symdiff.errors import ArgumentError, BackendError, ShapeError
from symdiff.ir.branches import branches_of
from symdiff.ir.graph import Graph
from symdiff.ir.hidden import hidden_of, visible_input_count
from symdiff.pipeline import Options, check_backend, sized_function_of
from symdiff.runtime.sizes import sizes_of_arguments
from symdiff.vocabulary import structures
from symdiff.vocabulary.extents import numbers
from symdiff.vocabulary.plain import check_targets


class SizedCompiled:
    """One function for any size: call it with the traced leaves in order. `tree` is the result's optree structure.

    Loops run as machine code, or in plain Python where there is none, whole arrays by NumPy.
    """

    def __init__(self, graph: Graph, tree: Any, options: Options, backend: str = "auto") -> None:
        check_backend(backend)
        self.graph = graph
        self.hidden = hidden_of(graph)
        self.tree = tree
        self.options = options
        self.backend = backend
        self._branches = branches_of(graph)
        if self._branches is not None and self._branches.guarded:
            raise BackendError(f"{graph.name}: a path of a function is compiled for numbers in place of named sizes")
        self._function = sized_function_of(graph, options, backend)

    def __call__(self, *leaves: Any, out: Any = None) -> Any:
        """The result at the traced leaves in order."""
        graph, count = self.graph, visible_input_count(self.graph)
        if len(leaves) != count:
            raise ArgumentError(f"{graph.name} takes {count} arguments ({len(leaves)} given)")
        filled = self.hidden.fill(list(leaves), len(graph.inputs))
        args = [plain_argument(graph.name, leaf, np.dtype(leaf.dtype), v) for leaf, v in zip(graph.inputs, filled, strict=True)]
        try:
            sizes = sizes_of_arguments(graph.inputs, args)
        except ValueError as error:
            raise ShapeError(f"{graph.name}: {error}") from None
        targets = None if out is None else self._targets(out, sizes)
        if self._branches is not None:
            self._branches.check(graph.name, tuple(args))
        found = self._function(*args)
        if targets is None:
            return found[0] if self.tree is None else structures.unflatten(self.tree, found)
        for target, value in zip(targets, found, strict=True):
            target[...] = value
        return out

    def _targets(self, out: Any, sizes: dict[str, int]) -> list[Any]:
        outputs, name = self.graph.outputs, self.graph.name
        leaves = arrays_of_out(name, out, self.tree, len(outputs))
        check_targets(name, leaves, [(o.name, numbers(o.shape, sizes), o.dtype) for o in outputs])
        return leaves

    def __reduce__(self) -> tuple[Any, ...]:
        return SizedCompiled, (self.graph, self.tree, self.options, self.backend)
