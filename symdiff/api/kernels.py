"""Graphs over many points: one kernel over blocks of points, or the graph of all points, with captured arrays and checks.

Assumes graphs of one point, and leaves with a points axis where `axes` tells one. Guarantees results with the points axis where
it was asked for, and that points whose path raises raise the function's exception with nothing written. Refuses arguments with
different numbers of points.
"""

import functools
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from symdiff.api.arguments import common_points, point_of, point_shape, points_shape
from symdiff.api.compiled import Compiled, Kept, is_flat_tree
from symdiff.api.forms import Making
from symdiff.codegen.source import MISS
from symdiff.differentiation.vectorizing import vectorize_graph as over_points
from symdiff.errors import ShapeError
from symdiff.ir.branches import Branches, branches_of
from symdiff.ir.graph import Graph, outputs_at
from symdiff.ir.hidden import hidden_of
from symdiff.ir.joining import truths_as_numbers
from symdiff.ir.node import Constant, has_loops
from symdiff.lowering.program import Program
from symdiff.pipeline import Options, batch_kernel_of, check_backend, points_program_of
from symdiff.tracing.unrolling.scalarizing import settled
from symdiff.vocabulary import structures
from symdiff.vocabulary.locks import free_in_children
from symdiff.vocabulary.ops import is_complex
from symdiff.vocabulary.plain import check_digits, check_plain, check_targets


class Batched:
    """A Program over many points: one array of points for each batched leaf."""

    def __init__(
        self,
        program: Program,
        in_axes: tuple[int | None, ...],
        out_axes: tuple[int, ...],
        tree: Any,
        options: Options,
        backend: str = "auto",
        threads: int | None = None,
    ) -> None:
        check_backend(backend)
        self.program = program
        self.in_axes = in_axes
        self.out_axes = out_axes
        self.tree = tree
        self.kernel = batch_kernel_of(program, in_axes, out_axes, options, backend, threads)
        self._lock = threading.RLock()
        free_in_children(self._lock)
        self.is_flat = is_flat_tree(tree, len(program.outputs))
        self._made = Making(tree, len(program.outputs) > 1)

    @property
    def machine(self) -> Any:
        """The way for calls with few points and arguments that need no rearranging; None where there is none."""
        with self._lock:
            return self._machine

    @functools.cached_property
    def _machine(self) -> Any:
        return self.kernel.call() if hasattr(self.kernel, "call") else None

    @functools.cached_property
    def _short(self) -> Callable[..., Any]:
        machine = self.machine
        return _decline if machine is None else machine.builtin()  # type: ignore[no-any-return]

    def attempt(self, leaves: list[Any]) -> Any:
        """New results for few points by machine code, `MISS` where it declines."""
        found = self._short(*leaves)
        return found if found is MISS or self.is_flat else self._made(found)

    def call(self, leaves: list[Any], out: Any = None) -> Any:
        """Results with a points axis, from leaves with one."""
        args = []
        points: dict[int, str] = {}
        name = self.program.name
        for leaf, expected, axis in zip(leaves, self.program.inputs, self.in_axes, strict=True):
            check_plain(f"{name}: {expected.name}", leaf)
            value = np.asarray(leaf)
            check_digits(f"{name}: {expected.name}", leaf if type(leaf) is int else value)
            shape = value.shape
            if axis is not None and value.ndim:
                points.setdefault(shape[axis], expected.name)
                shape = point_shape(shape, axis)
            if shape != expected.shape or value.ndim != len(expected.shape) + (axis is not None):
                raise ShapeError(
                    f"{name}: {expected.name} has shape {value.shape}; a point of shape {expected.shape} with the points "
                    f"{'nowhere' if axis is None else 'first' if axis == 0 else 'last'} expected"
                )
            if value.dtype.kind == "c" and not is_complex(expected.dtype):
                raise ShapeError(f"{name}: {expected.name} is complex, {np.dtype(expected.dtype)} expected")
            args.append(value.astype(np.dtype(expected.dtype), copy=False))
        count = common_points(name, points)
        flat_out = None if out is None else self._targets(out, count)
        several = len(self.program.outputs) > 1
        given = None if flat_out is None else tuple(flat_out) if several else flat_out[0]
        result = self.kernel(*args, out=given)
        if out is not None:
            return out
        flat = list(result) if several else [result]
        return flat[0] if self.tree is None else structures.unflatten(self.tree, flat)

    def _targets(self, out: Any, count: int) -> list[Any]:
        leaves = structures.leaves(out)
        name = self.program.name
        if len(leaves) != len(self.program.outputs):
            raise ShapeError(f"{name}: out has {len(leaves)} arrays, {len(self.program.outputs)} expected")
        outputs = zip(self.program.outputs, self.out_axes, strict=True)
        wanted = [(o.name, points_shape(o.shape, axis, count), o.dtype) for o, axis in outputs]
        check_targets(name, leaves, wanted)
        return leaves


def _decline(*leaves: Any) -> Any:
    return MISS


class WholeBatched:
    """A graph of whole arrays over many points, compiled for each number of points."""

    def __init__(
        self, graph: Graph, tree: Any, axes: list[int | None], out_axis: int, options: Options, compiled: Any = Compiled
    ) -> None:
        self.graph = graph
        self.tree = tree
        self.axes = axes
        self.out_axis = out_axis
        self.options = options
        self._made = compiled
        self._compiled = Kept()
        self._lock = threading.RLock()
        free_in_children(self._lock)

    def points(self, leaves: list[Any]) -> int:
        """The number of points. Raises `ShapeError` where the arguments differ in it."""
        counts = {
            int(np.shape(leaf)[axis]): leaf_in.name
            for leaf, axis, leaf_in in zip(leaves, self.axes, self.graph.inputs, strict=True)
            if axis is not None
        }
        return common_points(self.graph.name, counts)

    def over(self, count: int) -> Graph:
        """The graph over a number of points."""
        numbers = {o.atom: Constant(o.atom.params, o.dtype) for o in self.graph.outputs if o.atom.op == "const" and not o.shape}
        graph = replace(self.graph, outputs=outputs_at(self.graph.outputs, numbers))  # whose dtype no operand tells
        return over_points(graph, self.axes, count, self.out_axis)

    def call(self, leaves: list[Any], out: Any = None) -> Any:
        """Results with a points axis, from leaves with one."""
        count = self.points(leaves)
        with self._lock:
            compiled = self._compiled.get(count)
            if compiled is None:
                compiled = self._compiled[count] = self._made(self.over(count), self.tree, self.options)
        return compiled.call(leaves, out)


def points_kernel(
    graph: Graph, axes: Sequence[int | None], out_axis: int, tree: Any, options: Options, backend: str = "auto",
    threads: int | None = None,
) -> Any:  # fmt: skip
    """A graph of one point over many: machine code for vectors of points where there is some, else arrays of all points."""
    program = points_program_of(graph, options)
    if program is None:
        return WholeBatched(graph, tree, list(axes), out_axis, options)
    return Batched(program, tuple(axes), (out_axis,) * len(program.outputs), tree, options, backend, threads)


class WithCaptured:
    """A kernel over points that is given captured arrays, too, as they are at each call."""

    def __init__(self, kernel: Any, graph: Graph) -> None:
        self.kernel = kernel
        self._hidden = hidden_of(graph)
        self._count = len(graph.inputs)

    def call(self, leaves: list[Any], out: Any = None) -> Any:
        """Results with a points axis, from leaves with one."""
        return self.kernel.call(self._hidden.fill(leaves, self._count), out)


def checked_specialisation(kernel: Any, graph: Graph, axes: Sequence[int | None], run: Callable[[list[Any]], None]) -> Any:
    """A kernel over points that reads what its graph captures, with the checks that the branches of the graph need.

    `run` is the function at one point.
    """
    found = _checked(kernel, graph, axes, run)
    return WithCaptured(found, graph) if hidden_of(graph).arrays else found


def _checked(kernel: Any, graph: Graph, axes: Sequence[int | None], run: Callable[[list[Any]], None]) -> Any:
    branches = branches_of(graph)
    if branches is None or branches.conditions is None:
        return kernel
    conditions, options, backend = settled(branches.conditions), Options(exact=True), "numpy"
    if has_loops(conditions.bindings):  # of which NumPy has none where each point has its own rounds
        conditions, options, backend = truths_as_numbers(conditions), Options(), "auto"
    own = list(axes[: len(conditions.inputs)])
    outs = (0,) * len(conditions.outputs)
    tree = structures.structure(outs)
    if all(axis is None for axis in own):
        found: Any = Compiled(conditions, tree, options, backend)
    else:
        found = points_kernel(conditions, own, 0, tree, options, backend)
    return RaisingBatch(kernel, branches, found, own, run)


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
            self._run([point_of(np.asarray(v), a, point) if np.ndim(v) else v for v, a in zip(leaves, self._axes, strict=True)])
        except Exception as error:
            error.add_note(f"at point {point}")
            raise
        error = self.branches.exception(flags[:, point])
        assert error is not None
        raise error
