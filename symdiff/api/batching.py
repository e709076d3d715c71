"""Many points at once: elementwise derivatives, and `vmap`.

Assumes functions of one point. Guarantees results with the points axis where it was asked for, computed by one kernel
over blocks of points. Refuses axes other than the first and the last, and arguments with different numbers of points.
"""

import copy
import functools
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from symdiff.api.arguments import Call, is_integer_argument, point_of, point_shape
from symdiff.api.device import Placed, check_device_paths, device_points_kernel, shorter_device_call
from symdiff.api.forms import Forms, Taking, setting
from symdiff.api.functions import Function, Plain, guarded_door
from symdiff.api.grouping import Grouped, Path, vmap_path
from symdiff.api.kernels import Batched, WholeBatched, checked_specialisation, points_kernel
from symdiff.codegen.source import MISS
from symdiff.differentiation import transforming
from symdiff.differentiation.series import has_series, series_derivative
from symdiff.errors import OptionError, PathsError, ShapeError, forgive_error
from symdiff.ir.branches import branches_of
from symdiff.ir.building import active_builders
from symdiff.ir.graph import Graph, GraphOutput
from symdiff.ir.hidden import hidden_of
from symdiff.ir.node import has_loops
from symdiff.pipeline import program_of
from symdiff.tracing.branches.paths import Unmergeable
from symdiff.tracing.captures.watching import Watch
from symdiff.tracing.replaying import innermost, replay
from symdiff.tracing.state.attempt import beside_traces, need_all_contents
from symdiff.tracing.trace import OwnArray, PointNumber, Spec, TracedSpec, is_static
from symdiff.tracing.unrolling.scalarizing import UNROLLED, in_unrolled_regime
from symdiff.tracing.values.layouts import lies_apart, traced_order, traced_points_order
from symdiff.tracing.values.tracer import Tracer
from symdiff.vocabulary import structures
from symdiff.vocabulary.libraries import user_line
from symdiff.vocabulary.plain import check_digits, check_plain, check_targets

_NUMBERS = (float, complex, np.float64, *"fdFD")  # of which machine code looks at all
_FEW = 100  # bindings of a lower derivative that a series has to have fewer than in proportion


def _is_ragged(points: Any) -> bool:
    """Whether nested lists are no array of numbers."""
    try:
        return np.asarray(points).dtype == object
    except ValueError:
        return True


class Derivative(Function):
    """The n-th derivative of a scalar function; over an array of points, elementwise."""

    suffix = "derivative"
    choices = ("order",)

    def __init__(self, f: Callable[..., Any], argnums: int = 0, **options: Any) -> None:
        super().__init__(f, argnums, **options)
        if not isinstance(self.argnums, int):
            raise OptionError(
                f"{user_line()}: derivative: argnums={argnums!r}: the position of one argument, an integer, is needed"
            )
        self.order = int(options.get("order", 1))

    def derive(self, graph: Graph, wrt: list[int]) -> Graph:
        series, keeps = None, False
        if self.order > 2 and has_series(graph, wrt[0], self.order, self._rules()):
            series, keeps = series_derivative(graph, wrt[0], self.order, self._rules())
        for k in range(0 if keeps else self.order):
            graph = transforming.jacobian(graph, wrt, self._rules(), "reverse", lambda g: 0)
            if series is not None and len(graph.bindings) > _FEW + len(series.bindings) * (k + 1) // self.order:
                break
        else:
            if series is not None and not keeps:
                series = min(series, graph, key=lambda g: program_of(g, self.options).operations())
        graph = graph if series is None else series
        graph.name = f"{self.name}_derivative"
        output = graph.outputs[0]
        graph.outputs = (GraphOutput(f"d{self.order if self.order > 1 else ''}f", output.atom),)
        return graph

    def tree(self, call: Call, graph: Graph) -> Any:
        return None

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Any:
        watch, position = self._watch, self.argnums % len(args) if isinstance(self.argnums, int) and args else 0
        points = args[position] if args else None
        if isinstance(points, (list, tuple)):
            if _is_ragged(points):
                raise ShapeError(f"{self.where}: derivative takes a number or an array of points; jacobian takes structures")
            points = np.asarray(points)
        if not isinstance(points, (np.ndarray, Placed, Tracer)) or not points.shape:
            return super()._call(args, kwargs, out)
        key = ("elementwise", position, len(args))
        many = self._compiled.get(key)
        if many is None:
            own = tuple(0 if i == position else None for i in range(len(args)))
            many = self._keep(key, Vectorised(self, in_axes=own, out_axes=0, backend=self.backend), watch)
        shape = points.shape
        flat = (points.array if isinstance(points, Placed) else points).reshape(-1)
        whole = out is not None and getattr(out, "shape", None) == shape and out.flags.c_contiguous
        found = many(*args[:position], flat, *args[position + 1 :], out=out.reshape(-1) if whole else None, **kwargs)
        if found.shape[1:]:
            raise ShapeError(
                f"{self.where}: at one point the derivative has shape {found.shape[1:]}, since other arguments are the same "
                "for all points; sd.vmap(sd.derivative(f)) takes points in several, sd.jacobian(f) whole arrays"
            )
        if out is None or whole or not isinstance(points, Placed):
            return out if whole else _given(out, found.reshape(shape), self.where)
        if type(out) is not type(found) or (out.shape, out.dtype) != (shape, found.dtype):
            raise ShapeError(f"{self.where}: out must be an array of shape {shape} and dtype {found.dtype}")
        out[...] = found.reshape(shape)
        return out


def _given(out: Any, result: Any, where: str) -> Any:
    """Results in the arrays of `out`, where it is given: all or none are written."""
    if out is None:
        return result
    targets, tree = structures.flatten(out)
    values, expected = structures.flatten(result)
    if tree != expected:
        raise ShapeError(f"{where}: out has structure {tree}, {expected} expected")
    check_targets(where, targets, [(f"result {k}", np.shape(v), np.asarray(v).dtype) for k, v in enumerate(values)])
    for target, value in zip(targets, values, strict=True):
        target[...] = value
    return out


class _Whole(Exception):
    """A path of whole arrays, which are not computed for several points together."""


class Vectorised(Function):
    """A function or derivative over many points at once."""

    differentiates = False
    keeps_signature = False
    suffix = "vmap"
    choices = ("in_axes", "out_axes", "threads")

    def __init__(self, f: Callable[..., Any], **options: Any) -> None:
        self._given = {name: value for name, value in options.items() if name not in self.choices}
        super().__init__(f, 0, **options)
        theirs = [name for name in self._given if name not in ("backend", "paths")]
        if isinstance(f, Function) and theirs:
            raise OptionError(f"{user_line()}: vmap: {', '.join(theirs)} belongs to {f.suffix or 'the function'} inside it")
        self.in_axes = options.get("in_axes", 0)
        self.threads = options.get("threads")
        axes = self.in_axes if isinstance(self.in_axes, (tuple, list)) else (self.in_axes,)
        out_axes = options.get("out_axes")
        self.out_axes = next(a for a in axes if a is not None) if out_axes is None else out_axes

    @functools.cached_property
    def inner(self) -> Function:
        """The function of one point."""
        f = self.f
        return f if isinstance(f, Function) and not isinstance(f, Vectorised) else Plain(f, **self._given)

    def _watching(self, earlier: Watch | None = None) -> Watch:
        return self.inner._watch

    def positions(self, count: int) -> tuple[int, ...]:
        return ()

    def _axes(self, count: int) -> list[int | None]:
        if not isinstance(self.in_axes, (tuple, list)):
            return [self.in_axes] * count
        if len(self.in_axes) != count:
            raise ShapeError(f"{self.where}: in_axes has {len(self.in_axes)} entries for {count} arguments")
        return list(self.in_axes)

    def _numbers(self, args: tuple[Any, ...]) -> set[int]:
        """The arguments whose integers are numbers like others: those that are differentiated, and tangents."""
        count = len(args) - self.inner.extra
        return {*self.inner.positions(count), *range(count, len(args))}

    def point_arguments(self, args: tuple[Any, ...]) -> tuple[tuple[Any, ...], list[Any], list[int | None]]:
        """The arguments with each batched leaf replaced by the `Spec` of one point, the leaves and their axes."""
        axes = self._axes(len(args))
        shown, leaves, leaf_axes = [], [], []
        numbers = self._numbers(args)
        for place, (arg, axis) in enumerate(zip(args, axes, strict=True)):
            flat, tree = structures.flatten(arg, none_is_leaf=True)
            points = []
            for leaf in flat:
                value = leaf
                static = is_static(leaf) and not (leaf is arg and place in numbers and is_integer_argument(leaf))
                if (axis is not None and not static) or (isinstance(leaf, np.ndarray) and axis is not None):
                    check_plain(self.where, leaf)
                    value = leaf if isinstance(leaf, (Tracer, Spec)) else np.asarray(leaf)
                    if not value.shape:
                        raise ShapeError(f"{self.where}: a batched argument needs a points axis; got a single number")
                    dtype = np.dtype(value.dtype)
                    shape = point_shape(value.shape, axis)
                    order = traced_points_order(value, axis)
                    apart = isinstance(value, np.ndarray) and value.size > 0 and lies_apart(value[0 if axis == 0 else (..., 0)])
                    own = dtype if dtype.kind in "iub" and place not in numbers else None
                    counted = dtype if dtype.kind in "iu" and place in numbers else None
                    kind = np.dtype(float) if dtype.kind in "iub" else dtype
                    points.append(TracedSpec(shape, kind, order, own, counted, apart))
                    leaves.append(value)
                    leaf_axes.append(axis)
                else:
                    points.append(leaf)
                    if not static:
                        leaves.append(leaf)
                        leaf_axes.append(None)
            shown.append(structures.unflatten(tree, points))
        return tuple(shown), leaves, leaf_axes

    def kernel(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, list[Any]]:
        """The batch kernel for these arguments, or their paths where these cannot be merged; and the leaves to feed it."""
        if self._watch is not self.inner._watch:  # the inner function has forgotten its traces, and watches anew
            self._forget()
        watch = self._watch
        shown, leaves, axes = self.point_arguments(args)
        inner = self.inner
        own = len(shown) - inner.extra
        call, more = Call(inner, shown[:own], kwargs).standing_for(inner, args[:own], kwargs), shown[own:]
        rest = tuple((tuple(getattr(s, "shape", ())), str(getattr(s, "dtype", "number"))) for s in structures.leaves(more))
        device = any(isinstance(leaf, Placed) for leaf in leaves)
        key = (inner.signature_of(call), rest, tuple(axes), device)
        found = self._compiled.get(key)
        if found is None:
            padded_axes = partial(_axes_of, axes)
            try:
                graph, found = kernel_over_points(inner, call, padded_axes, self.out_axes, device, self.backend, self.threads)
            except PathsError as error:
                if device or "merge" in (self.paths, inner.paths):
                    raise
                forgive_error(error)
                padded = [*axes, *[None] * sum(not is_static(v) for v in structures.leaves(kwargs, none_is_leaf=True))]
                return self._keep(key, Grouped(padded, self.out_axes), watch), leaves
            found = checked_specialisation(found, graph, padded_axes(graph), partial(inner.run, call))
            found = self._keep(key, found, watch)
        return found, leaves

    def _is_kept(self, watch: Watch) -> bool:
        return watch is self.inner._watch and super()._is_kept(watch)

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Any:
        need_all_contents()
        watch, given = self._watch, (*args, *kwargs.values())
        if any(isinstance(leaf, Tracer) for leaf in structures.leaves(given, none_is_leaf=True)):
            return self._point_by_point(args, kwargs)
        if active_builders():
            shown = self.point_arguments(args)[0]
            point = Call(self.inner, shown[: len(shown) - self.inner.extra], kwargs)
            if self.inner._traced(point, None).captured:  # the trace around it is told what it reads
                return self._each(args, kwargs)
            with beside_traces():
                return self._long_way(*args, out=out, **kwargs)
        kernel, leaves = self.kernel(args, kwargs)
        if kwargs:
            leaves = leaves + [v for v in structures.leaves(kwargs, none_is_leaf=True) if not is_static(v)]
        if isinstance(kernel, Grouped):
            return _given(out, self._grouped(kernel, leaves, args, kwargs), self.where)
        if self.inner.compares:
            return kernel.call(leaves, out)
        result = kernel.call(leaves, out)
        near = shorter_device_call(kernel, args, kwargs, leaves)
        self._approach(near, watch)
        form = self._form(kernel, leaves, args, kwargs, watch) if near is None else None
        if form is not None:
            with self._lock:
                if self._is_kept(watch):
                    self._forms = self._forms or Forms()
                    self._forms.like(form, args, kwargs)
                    if not kwargs:
                        self._door = self._forms.door
                        self._quicken(guarded_door(self._door))  # also where it is that already: there may be more to look at
        return result

    def _form(
        self, kernel: Any, fed: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any], watch: Watch
    ) -> "PointsForm | None":
        """The form of arguments whose leaves are `fed` to a kernel, those that are no settings; None for other leaves."""
        given = (*args, *kwargs.values())
        leaves, tree, marks = structures.structure_taken_apart(given, {})
        each = zip(given, [*self._axes(len(args)), *[None] * len(kwargs)], strict=True)
        axes = [axis for arg, axis in each for _ in structures.all_leaves(arg)]
        told = [_told(leaf, axis) for leaf, axis in zip(leaves, axes, strict=True)]
        taken = [id(leaf) for leaf in fed]
        known = frozenset(taken)
        places = [k for k, leaf in enumerate(leaves) if id(leaf) in known]
        if any(t is None for t in told) or [id(leaves[k]) for k in places] != taken:
            return None
        form = PointsForm(Taking(tree, marks), axes, told, places, kernel)
        if form.is_plain and not kwargs:
            form.often = weakref.ref(self), watch
        return form

    def go_straight(self, kernel: Batched, watch: Watch) -> None:
        """Calls go to machine code over points, which looks at all that there is to look at, where they do not yet."""
        machine = None if self._door is None else kernel.machine  # it may take long to make
        with self._lock:
            if machine is not None and self._door is not None and self._is_kept(watch):
                self._door = None
                self._quicken(machine)

    def apart(self) -> "Vectorised":
        found: Vectorised = copy.copy(self)
        found.inner = self.inner.apart()
        found._watch = found.inner._watch
        return found

    def _forget(self) -> None:
        if self._watch is self.inner._watch:
            self.inner._forget()
        super()._forget()

    def _point_by_point(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        shown, fed, leaf_axes = self.point_arguments(args)
        if not kwargs and not self.inner.extra:
            try:
                graph = self.inner.graph(*shown)
            except (PathsError, Unmergeable) as error:
                builder = innermost(fed)
                if builder is None or builder.path is None or not builder.path.is_given:
                    raise
                builder.path.problem = None
                if isinstance(error, PathsError):
                    forgive_error(error)
                return self._each(args, kwargs)
            count = next(leaf.shape[a] for leaf, a in zip(fed, leaf_axes, strict=True) if a is not None)
            branches = branches_of(graph)
            asks = branches is not None and branches.conditions is not None
            closed = len(graph.inputs) == len(fed)  # else it reads values of the enclosing trace
            own = any(b.op == "loop" and b.params.tested for b in graph.bindings)  # rounds that each point counts
            if closed and not asks and not own and (not in_unrolled_regime(graph) or count * len(graph.bindings) > UNROLLED):
                return self._whole(graph, shown, fed, leaf_axes)
        return self._each(args, kwargs)

    def _grouped(self, paths: Grouped, leaves: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The results at points that take different paths; one after the other where these are of whole arrays."""
        counts = {np.shape(leaf)[axis] for leaf, axis in zip(leaves, paths.axes, strict=True) if axis is not None}
        if len(counts) != 1 or 0 in counts:
            raise ShapeError(
                f"{self.where}: {sorted(counts)} points; the paths of {self.inner.name} need one number, and a point"
            )
        inner = self.inner

        def trace(k: int) -> Path:
            point = self._picked(args, k)
            call = Call(inner, point[: len(point) - inner.extra], kwargs)
            try:
                graph, tree = inner._derived(call, inner._traced_at(call, "guard", hide=False))
            except Exception as error:
                error.add_note(f"at point {k}")
                raise
            if not in_unrolled_regime(graph):
                raise _Whole
            return vmap_path(graph, tree, paths.axes, self.out_axes, inner.options)

        try:
            return paths.call(leaves, counts.pop(), trace)
        except _Whole:
            return self._each(args, kwargs)

    def _picked(self, args: tuple[Any, ...], k: int) -> tuple[Any, ...]:
        """The arguments of one point."""
        numbers = self._numbers(args)
        return tuple(
            arg if axis is None else structures.map_leaves(functools.partial(_picked, axis, k, place in numbers), arg)
            for place, (arg, axis) in enumerate(zip(args, self._axes(len(args)), strict=True))
        )

    def _each(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The results at one point after the other, each on its own path."""
        axes = self._axes(len(args))
        count = next(
            leaf.shape[axis]
            for arg, axis in zip(args, axes, strict=True)
            if axis is not None
            for leaf in structures.leaves(arg)
        )

        results = [self.inner(*self._picked(args, k), **kwargs) for k in range(count)]
        return structures.map_leaves(lambda *cells: np.stack(cells, axis=self.out_axes), *results)

    def _whole(self, graph: Graph, shown: tuple[Any, ...], fed: list[Any], axes: list[int | None]) -> Any:
        """All points of a trace at once."""
        whole = WholeBatched(graph, None, axes, self.out_axes, self.inner.options)
        builder = innermost(fed)
        assert builder is not None
        flat = replay(whole.over(whole.points(fed)), fed, builder, user_line())
        tree = self.inner.tree(Call(self.inner, shown, {}), self.inner._traced(Call(self.inner, shown, {}), None).graph)
        return flat[0] if tree is None else structures.unflatten(tree, flat)

    def graph(self, /, *args: Any, **kwargs: Any) -> Graph:
        """The Graph of one point."""
        return self.inner.graph(*self.point_arguments(args)[0], **kwargs)


def _picked(axis: int, k: int, number: bool, array: Any) -> Any:
    """A point of an array; its integers are numbers like others where the function takes them as a `number`."""
    if isinstance(array, Tracer) or (own := np.asarray(array).dtype).kind not in "iub":
        return point_of(array, axis, k)
    check_digits(user_line(), np.asarray(array))
    found = point_of(np.asarray(array), axis, k)
    if number:
        return found if own.kind in "iu" and found.shape else found.astype(float)[()]
    return OwnArray.of(found) if found.shape else PointNumber(found, own)


class PointsForm:
    """Calls over points whose arguments are like those in an earlier call, each leaf along its axis: to a kernel, which takes
    the leaves at some `places`. `often`: whose calls may go to its machine code from the second one on, while this watch holds.
    """

    __slots__ = ("_axes", "_kernel", "_places", "_short", "_taking", "_told", "is_plain", "often")

    def __init__(self, taking: Taking, axes: list[int | None], told: list[Any], places: list[int], kernel: Any) -> None:
        self._taking = taking
        self._axes = axes
        self._told = told
        self._places = places
        self._kernel = kernel
        self._short = isinstance(kernel, Batched) and all(told[k][0] in _NUMBERS and not told[k][2] for k in places)
        self.is_plain = self._short and kernel.is_flat and taking.is_flat and len(places) == len(told)
        self.often: tuple[weakref.ref[Vectorised], Watch] | None = None

    def is_like(self, other: Any) -> bool:
        """Whether arguments are told in the same way."""
        same = isinstance(other, PointsForm) and self._taking == other._taking
        return same and (self._axes, self._told) == (other._axes, other._told)

    def through(self, given: tuple[Any, ...], out: Any) -> Any:
        """The result of the kernel, or `MISS`."""
        leaves = self._taking(given)
        if leaves is None or [_told(leaf, axis) for leaf, axis in zip(leaves, self._axes, strict=True)] != self._told:
            return MISS
        inputs = [leaves[k] for k in self._places]
        if self.often is not None:
            owner, watch = self.often
            if (function := owner()) is not None:
                function.go_straight(self._kernel, watch)
        found = self._kernel.attempt(inputs) if self._short and out is None else MISS
        return self._kernel.call(inputs, out) if found is MISS else found


def _told(leaf: Any, axis: int | None) -> tuple[Any, Any, Any] | None:
    """What tells all of a leaf: the dtype of an array, its shape at one point, and how it lies there; of a number that all
    points share its type; of a static value the value. None of others.
    """
    kind = type(leaf)
    if kind in (float, complex, np.float64):
        return (kind, None, None) if axis is None else None
    if kind is np.ndarray and (axis is not None or leaf.dtype.kind in "fc"):
        known = leaf.dtype.kind in "iubfc" and leaf.dtype.isnative and (leaf.ndim or axis is None)
        return (leaf.dtype.char, point_shape(leaf.shape, axis), _order(leaf, axis)) if known else None
    return (kind, structures.Same(setting(leaf)), ()) if is_static(leaf) else None


def _order(array: np.ndarray, axis: int | None) -> tuple[int, ...]:
    """The axes of one point as they lie in memory; empty where that is their own order."""
    if array.flags.c_contiguous or array.ndim < 2:
        return ()
    return traced_order(array) if axis is None else traced_points_order(array, axis)


def kernel_over_points(
    function: Function, call: Call, axes: Callable[[Graph], list[int | None]], out_axis: int, device: bool, backend: str,
    threads: int | None = None,
) -> tuple[Graph, Any]:  # fmt: skip
    """The graph of a function at one point, and its kernel over many; `axes` gives the points axes of the graph's inputs.

    Loops are kept where each point can have rounds of its own.
    """
    for keeping in ("cupy" if device else backend, ""):
        graph, tree = function._built(call, hide=not device, backend=keeping)
        if device:
            check_device_paths(graph)
        made = device_points_kernel if device else points_kernel
        kernel = made(graph, axes(graph), out_axis, tree, function.options, backend, threads)
        if function.loops is not None or not (isinstance(kernel, WholeBatched) and has_loops(graph.bindings)):
            break
    return graph, kernel


def _axes_of(axes: list[int | None], graph: Graph) -> list[int | None]:
    """The points axes of a graph's inputs, of which captured arrays have none."""
    padded = hidden_of(graph).pad(axes)
    return [*padded, *[None] * (len(graph.inputs) - len(padded))]
