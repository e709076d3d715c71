"""CuPy arrays as arguments: noticed without importing CuPy, traced by shape and dtype, computed where they are.

Assumes arrays of the current device. Guarantees CuPy arrays out (numbers as arrays of shape ()), launches on the current
stream that nobody waits for, and no copy between host and device but of numbers, which are passed by value. Refuses NumPy
arrays beside CuPy arrays, naming the user's line, and every argument that does not fit.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from symdiff.api.arguments import arrays_of_out, common_points, is_device_array, is_of_cupy, point_shape
from symdiff.api.kernels import WholeBatched
from symdiff.codegen.source import MISS
from symdiff.errors import ArgumentError, BackendError, MissingPackageError, ShapeError, TraceError
from symdiff.ir.branches import branches_of
from symdiff.ir.graph import Graph
from symdiff.lowering.arrays.fusing import Fused
from symdiff.pipeline import Options, kernel_of, plan_of, points_program_of, program_of
from symdiff.tracing.trace import Spec
from symdiff.tracing.values.tracer import Tracer
from symdiff.vocabulary import structures
from symdiff.vocabulary.libraries import user_line
from symdiff.vocabulary.ops import is_complex


class Placed(Spec):
    """A `Spec` with the device array that it stands for."""

    __slots__ = ("array",)

    def __init__(self, array: Any) -> None:
        super().__init__(tuple(array.shape), np.dtype(array.dtype))
        object.__setattr__(self, "array", array)


def device_module() -> Any:
    """The module CuPy; raises `MissingPackageError` with the command that installs it."""
    try:
        import cupy
    except ImportError:
        raise MissingPackageError("arrays on a GPU need CuPy: pip install 'symdiff[gpu]'") from None
    return cupy


def placed_on_device(value: Any) -> Any:
    """A structure with a `Placed` for each device array. Raises `ArgumentError` for NumPy arrays beside them."""
    leaves, tree = structures.flatten(value, none_is_leaf=True)
    found = [Placed(_as_cupy(leaf)) if is_device_array(leaf) else leaf for leaf in leaves]
    if any(isinstance(leaf, Placed) for leaf in found):
        for leaf in found:
            if isinstance(leaf, np.ndarray) and leaf.ndim and leaf.dtype.kind in "fc":
                raise ArgumentError(
                    f"{user_line()}: a NumPy array of shape {leaf.shape} beside CuPy arrays; cp.asarray moves it to the "
                    "device, x.get() moves the others to the host"
                )
            if isinstance(leaf, Tracer):
                raise TraceError(
                    f"{user_line()}: CuPy arrays beside traced values; give them as arguments of the outer function"
                )
    return structures.unflatten(tree, found)


def _as_cupy(array: Any) -> Any:
    """The array itself, or CuPy's view of another package's."""
    return array if is_of_cupy(array) else device_module().asarray(array)


def check_device(backend: str, device: bool, name: str) -> None:
    """Raise `BackendError` where a backend computes elsewhere than where the arguments are."""
    if device and backend not in ("auto", "cupy"):
        raise BackendError(
            f"{user_line()}: {name}: backend {backend!r} takes NumPy arrays; backend 'auto' takes CuPy arrays, too"
        )
    if backend == "cupy" and not device:
        raise BackendError(f"{user_line()}: {name}: backend 'cupy' takes CuPy arrays; cp.asarray(x) makes one")


class _Kernels:
    """The functions of a plan, one for each choice of the inputs that are numbers of the host."""

    def __init__(self, program: Any, tree: Any, options: Options, in_axes: Any = None, out_axes: Any = None) -> None:
        device_module()
        self.program = program
        self.tree = tree
        self.options = options
        self.in_axes = in_axes or (None,) * len(program.inputs)
        self.out_axes = out_axes or (None,) * len(program.outputs)
        self.plan = plan_of(program, "point" if in_axes is None else "batch", in_axes, out_axes)
        self._functions: dict[frozenset[int], Any] = {}

    def function(self, by_value: frozenset[int]) -> Any:
        """The generated function for these numbers of the host."""
        found = self._functions.get(by_value)
        if found is None:
            layout = {"by_value": by_value, "exact": self.options.exact}
            found = self._functions[by_value] = kernel_of(self.plan, "cupy", self.program.name, **layout)
        return found

    def call(self, leaves: list[Any], out: Any = None) -> Any:
        """The result at the traced leaves, which are `Placed`, CuPy arrays or numbers."""
        args = [self._argument(place, leaf) for place, leaf in enumerate(leaves)]
        by_value = frozenset(place for place, arg in enumerate(args) if isinstance(arg, np.generic))
        several = len(self.program.outputs) > 1
        given = None
        if out is not None:
            targets = self._targets(out)
            given = tuple(targets) if several else targets[0]
        result = self.function(by_value)(*args, out=given)
        if out is not None:
            return out
        flat = list(result) if several else [result]
        return flat[0] if self.tree is None else structures.unflatten(self.tree, flat)

    def _argument(self, place: int, leaf: Any) -> Any:
        leaf_in, axis = self.program.inputs[place], self.in_axes[place]
        dtype = np.dtype(leaf_in.dtype)
        value = leaf.array if isinstance(leaf, Placed) else leaf
        if not is_device_array(value):
            if np.ndim(value):
                raise ArgumentError(f"{self._where(place)} is {type(value).__name__}; a CuPy array is needed")
            value = np.asarray(value)[()]
        shape = tuple(value.shape)
        point = point_shape(shape, axis)
        if point != leaf_in.shape or len(shape) != len(leaf_in.shape) + (axis is not None):
            points = "" if axis is None else f" with the points {'first' if axis == 0 else 'last'}"
            raise ShapeError(f"{self._where(place)} has shape {shape}, {leaf_in.shape}{points} expected")
        if value.dtype.kind not in "biufc" or (value.dtype.kind == "c" and not is_complex(leaf_in.dtype)):
            raise ShapeError(f"{self._where(place)} has dtype {value.dtype}, {dtype} expected")
        return value.astype(dtype) if isinstance(value, np.generic) else value

    def _where(self, place: int) -> str:
        return f"{user_line()}: {self.program.name}: {self.program.inputs[place].name}"

    def _targets(self, out: Any) -> list[Any]:
        """The given results' arrays, in order."""
        where = f"{user_line()}: {self.program.name}"
        leaves = arrays_of_out(where, out, self.tree, len(self.program.outputs))
        for leaf, output, axis in zip(leaves, self.program.outputs, self.out_axes, strict=True):
            if not is_device_array(leaf):
                found = type(leaf).__name__
                raise ShapeError(f"{where}: out for {output.name} is {found}; a CuPy array is needed")
            shape = tuple(leaf.shape)
            if point_shape(shape, axis) != output.shape or leaf.dtype != np.dtype(output.dtype):
                dtype = np.dtype(output.dtype)
                raise ShapeError(
                    f"{where}: out for {output.name} is {leaf.dtype} {shape}; {dtype} {output.shape} expected"
                    + ("" if axis is None else " for each point")
                )
        return leaves


class Near:
    """The generated function behind arguments of the types of the last call, which are its inputs in order.

    `tree` is the result's structure; an `out` is taken where that is one array, or a tuple of them.
    """

    __slots__ = ("_flat", "_function", "_kinds", "_several", "_tree")

    def __init__(self, kernels: _Kernels, args: tuple[Any, ...]) -> None:
        self._kinds = tuple((type(a.array), a.dtype) if isinstance(a, Placed) else (type(a), None) for a in args)
        self._function = kernels.function(frozenset(k for k, (_, dtype) in enumerate(self._kinds) if dtype is None))
        self._tree = kernels.tree
        self._several = len(kernels.program.outputs)
        self._flat = self._several > 1 and kernels.tree == structures.structure((0,) * self._several)

    def __call__(self, args: tuple[Any, ...], out: Any) -> Any:
        """The result, or `MISS` for other arguments."""
        if len(args) != len(self._kinds):
            return MISS
        for arg, (kind, dtype) in zip(args, self._kinds, strict=True):
            if type(arg) is not kind or (dtype is not None and arg.dtype != dtype):
                return MISS
        if out is not None and self._tree is not None and not (self._flat and type(out) is tuple and len(out) == self._several):
            return MISS
        try:
            result = self._function(*args, out=out)
        except (TypeError, ValueError):
            return MISS  # the long way finds out why
        if self._tree is None or out is not None:
            return result
        return structures.unflatten(self._tree, result if self._several > 1 else [result])


def shorter_device_call(kernels: Any, args: tuple[Any, ...], kwargs: dict[str, Any], leaves: list[Any]) -> Near | None:
    """A shorter way for the next call, where the arguments are the leaves."""
    if kwargs or len(args) != len(leaves) or not isinstance(kernels, _Kernels):
        return None
    return Near(kernels, args) if all(a is leaf for a, leaf in zip(args, leaves, strict=True)) else None


def check_device_paths(graph: Graph) -> None:
    """Raise `BackendError` for a Graph of which some path raises an exception: nothing waits for a GPU to find out."""
    branches = branches_of(graph)
    if branches is not None and branches.conditions is not None:
        raise BackendError(
            f"{graph.name} ({graph.origin}) has {branches}; on a GPU no exception can be raised: use np.where, or NumPy arrays"
        )


class DeviceCompiled(_Kernels):
    """One specialisation for CuPy arrays: call it with the traced leaves in order."""

    def __init__(self, graph: Graph, tree: Any, options: Options) -> None:
        check_device_paths(graph)
        self.graph = graph
        super().__init__(program_of(graph, options), tree, options)

    def __call__(self, *leaves: Any, out: Any = None) -> Any:
        """The result at the traced leaves in order."""
        if len(leaves) != len(self.program.inputs):
            raise ArgumentError(f"{self.program.name} takes {len(self.program.inputs)} arguments ({len(leaves)} given)")
        return self.call(list(leaves), out)

    def __reduce__(self) -> tuple[Any, ...]:
        return DeviceCompiled, (self.graph, self.tree, self.options)


class DeviceBatched(_Kernels):
    """A Program over many points of CuPy arrays, in one launch."""

    def __init__(
        self,
        program: Any,
        in_axes: tuple[int | None, ...],
        out_axes: tuple[int, ...],
        tree: Any,
        options: Options,
        backend: str = "cupy",
    ) -> None:
        assert not isinstance(program, Fused)
        super().__init__(program, tree, options, in_axes, out_axes)

    def call(self, leaves: list[Any], out: Any = None) -> Any:
        """Results with a points axis, from leaves with one."""
        points: dict[int, str] = {}
        for leaf, leaf_in, axis in zip(leaves, self.program.inputs, self.in_axes, strict=True):
            if axis is not None and leaf.shape:
                points.setdefault(leaf.shape[axis], leaf_in.name)
        if points:
            common_points(f"{user_line()}: {self.program.name}", points)
        return super().call(leaves, out)


def device_points_kernel(
    graph: Graph, axes: Sequence[int | None], out_axis: int, tree: Any, options: Options, backend: str = "", threads: Any = None
) -> Any:
    """A graph of one point over many points of CuPy arrays: one launch, or arrays of all points."""
    program = points_program_of(graph, options, device=True)
    if program is None:
        return WholeBatched(graph, tree, list(axes), out_axis, options, DeviceCompiled)
    return DeviceBatched(program, tuple(axes), (out_axis,) * len(program.outputs), tree, options)
