"""What users call: each transform takes a plain function and returns a function that can be traced and transformed again.

Assumes deterministic functions of numbers and arrays in nested containers. Guarantees one specialisation for each
signature (structure, shapes, dtypes, static values), made on the first call and kept; thread-safe calls; fresh results.
Refuses wrong arguments with errors that name the function's file and line.
"""

import inspect
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import optree

from symdiff.codegen.source import MISS
from symdiff.compiled import Batched, Compiled, check_backend
from symdiff.errors import ArgumentError, ShapeError, TraceError
from symdiff.pipeline import Options, program_of
from symdiff.symbolic import transforming
from symdiff.symbolic.building import Builder
from symdiff.symbolic.declaring import rules_in_force
from symdiff.symbolic.graph import ArrayConstant, Atom, Constant, Graph, GraphOutput, Var
from symdiff.symbolic.scalarizing import scalarize
from symdiff.symbolic.tracing.trace import (
    Spec,
    active_builders,
    definition_line,
    function_name,
    is_static,
    leaf_paths,
    leaf_type,
    trace_leaves,
)
from symdiff.symbolic.tracing.tracer import Tracer, atom_of, user_line

_MISSED = (ZeroDivisionError, OverflowError, ValueError, TypeError, BufferError)


class Call:
    """Arguments of one call, flattened: leaves, structure, which leaves are traced and which differentiated."""

    __slots__ = ("extra", "leaves", "paths", "traced", "tree", "wrt")

    def __init__(self, function: "Function", args: tuple[Any, ...], kwargs: dict[str, Any], extra: int = 0) -> None:
        count = len(args) - extra
        if count < 0:
            raise ShapeError(f"{function.where}: {function.name} needs its arguments and then {extra} more")
        self.extra = args[count:]
        own = args[:count]
        if function.signature is not None:
            try:
                function.signature.bind(*own, **kwargs)
            except TypeError as error:
                raise ArgumentError(f"{function.where}: {function.name}: {error}") from None
        self.leaves, self.tree = optree.tree_flatten((own, kwargs), none_is_leaf=True)
        self.paths = leaf_paths(function.f, own, kwargs)
        groups: list[int] = []
        for position, arg in enumerate(own):
            groups += [position] * optree.tree_structure(arg, none_is_leaf=True).num_leaves
        groups += [-1] * (len(self.leaves) - len(groups))
        wanted = function.positions(count)
        self.wrt = [i for i, g in enumerate(groups) if g in wanted and _differentiable(self.leaves[i])]
        chosen = set(self.wrt)
        self.traced = [i for i, leaf in enumerate(self.leaves) if i in chosen or not is_static(leaf)]
        if not self.wrt and function.differentiates:
            raise TraceError(f"{function.where}: {function.name}: argument {function.argnums} holds no number or array")


def _signature(f: Callable[..., Any]) -> inspect.Signature | None:
    """The signature of a plain function; None where Python does not know it, or where a transform adds arguments."""
    if isinstance(f, Function) and (f.extra or isinstance(f, Vectorised)):
        return None
    try:
        return inspect.signature(f)
    except (TypeError, ValueError):
        return None


def _differentiable(leaf: Any) -> bool:
    if isinstance(leaf, (bool, str, bytes, np.bool_, type(None))):
        return False
    if isinstance(leaf, (np.ndarray, np.generic)):
        return leaf.dtype.kind in "iufcO"
    return isinstance(leaf, (int, float, complex, Tracer, Spec))


class Function:
    """A derivative (or a traced function) as a callable; see the functions of this module for what each computes."""

    differentiates = True
    extra = 0

    def __init__(
        self,
        f: Callable[..., Any],
        argnums: int | Sequence[int] = 0,
        *,
        rules: Any = None,
        exact: bool = False,
        fastmath: bool = False,
        backend: str = "auto",
    ) -> None:
        if not callable(f):
            raise TraceError(f"{user_line()}: {type(f).__name__} is not a function")
        if exact and fastmath:
            raise ValueError("exact=True and fastmath=True exclude each other")
        check_backend(backend)
        self.f = f
        self.argnums = argnums if isinstance(argnums, int) else tuple(argnums)
        self.rules = rules
        self.options = Options(exact, fastmath)
        self.backend = backend
        self.signature = _signature(f)
        self.name = function_name(f)
        self.where = definition_line(f)
        self.__name__ = f"{self.name}_{self.suffix}" if self.suffix else self.name
        self.__doc__ = inspect.getdoc(f)
        self.__wrapped__ = f
        self._compiled: dict[Any, Any] = {}
        self._door: Callable[..., Any] | None = None
        self._lock = threading.Lock()

    suffix = ""

    def positions(self, count: int) -> tuple[int, ...]:
        """The differentiated argument positions, negative ones counted from the end."""
        wanted = (self.argnums,) if isinstance(self.argnums, int) else self.argnums
        for n in wanted:
            if not -count <= n < count:
                raise ShapeError(f"{self.where}: argnums={self.argnums}, but {self.name} is called with {count} arguments")
        return tuple(n % count for n in wanted)

    # -- calling

    def __call__(self, *args: Any, out: Any = None, **kwargs: Any) -> Any:
        if self._door is not None and not kwargs:
            try:
                result = self._door(*args, out=out)
                if result is not MISS:
                    return result
            except _MISSED:
                pass  # the long way finds out why, or computes what Python's math raises for
        return self._call(args, kwargs, out)

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Any:
        call = Call(self, args, kwargs, self.extra)
        fed = self._fed(call)
        if active_builders() or any(isinstance(leaf, Tracer) for leaf in fed):
            inlined = self._inline(call, fed)
            if inlined is not None:
                return inlined[0]
        compiled = self._specialised(call)
        return compiled.call(fed, out)

    def _fed(self, call: Call) -> list[Any]:
        """The leaves that the graph takes as inputs, in order."""
        return [call.leaves[i] for i in call.traced] + self._extra_leaves(call)

    def _extra_leaves(self, call: Call) -> list[Any]:
        return optree.tree_leaves(call.extra, none_is_leaf=True)

    def _key(self, call: Call) -> Any:
        chosen = set(call.traced)
        parts = [
            leaf_type(leaf, self.where)
            if i in chosen
            else (type(leaf), leaf.tobytes() if isinstance(leaf, np.ndarray) else leaf)
            for i, leaf in enumerate(call.leaves)
        ]
        return (call.tree, tuple(parts), tuple(call.wrt))

    def _specialised(self, call: Call) -> Compiled:
        key = self._key(call)
        compiled = self._compiled.get(key)
        if compiled is None:
            with self._lock:
                compiled = self._compiled.get(key)
                if compiled is None:
                    compiled = Compiled(*self._built(call), self.options, self.backend)
                    self._compiled[key] = compiled
        simple = len(call.traced) == len(call.leaves) and not self.extra and compiled.direct
        self._door = compiled.door if simple else None
        return compiled

    def _traced(self, call: Call, parent: Builder | None) -> Any:
        return trace_leaves(self.f, call.leaves, call.tree, call.traced, call.paths, parent, self._rules())

    def _rules(self) -> Any:
        return rules_in_force(self.rules)

    def _built(self, call: Call) -> tuple[Graph, Any]:
        traced = self._traced(call, None)
        wrt = [call.traced.index(i) for i in call.wrt]
        return self.derive(traced.graph, wrt), self.tree(call, traced.graph)

    def _inline(self, call: Call, fed: list[Any]) -> tuple[Any] | None:
        """The result as traced values of the enclosing trace; None when no traced value takes part."""
        parent = _innermost(fed)
        traced = self._traced(call, parent)
        if parent is None and not traced.captured:
            return None
        if parent is None or traced.captured:
            parent = max([t.builder for t in traced.captured] + ([parent] if parent else []), key=lambda b: b.level)
        wrt = [call.traced.index(i) for i in call.wrt]
        captured = traced.captured
        own = len(call.traced)
        graph = self.derive(traced.graph, wrt)
        sources = [*fed[:own], *captured, *fed[own:]]
        flat = replay(graph, sources, parent, user_line())
        tree = self.tree(call, traced.graph)
        return (flat[0] if tree is None else optree.tree_unflatten(tree, flat),)

    # -- what the kinds of derivative say

    def derive(self, graph: Graph, wrt: list[int]) -> Graph:
        """The Graph of this transform, from the traced function's."""
        return graph

    def tree(self, call: Call, graph: Graph) -> Any:
        """The structure of the result, None for a single leaf."""
        return graph.out_tree

    def _by_argument(self, call: Call, leaf_tree: Any = None) -> Any:
        """A structure like the differentiated arguments, `leaf_tree` at each leaf."""
        args = optree.tree_unflatten(call.tree, range(len(call.leaves)))[0]
        count = len(args)
        chosen = set(call.wrt)
        inner = 0 if leaf_tree is None else leaf_tree

        def shaped(position: int) -> Any:
            return optree.tree_map(lambda i: inner if i in chosen else None, args[position % count])

        if isinstance(self.argnums, int):
            return shaped(self.argnums)
        return tuple(shaped(n) for n in self.argnums)

    # -- looking inside

    def graph(self, *args: Any, **kwargs: Any) -> Graph:
        """The Graph of this function at example arguments (numbers, arrays, `Spec`s)."""
        call = Call(self, args, kwargs, 0)
        return self._built(call)[0]

    def compile(self, *args: Any, backend: str = "auto", **kwargs: Any) -> Compiled:
        """A compiled specialisation at example arguments, for a backend."""
        call = Call(self, args, kwargs, 0)
        return Compiled(*self._built(call), self.options, backend)

    def program(self, *args: Any, **kwargs: Any) -> Any:
        """The Program (numbered, shared instructions) at example arguments."""
        return program_of(self.graph(*args, **kwargs), self.options, self.__name__)

    def source(self, *args: Any, target: str = "numpy", **kwargs: Any) -> str:
        """The text of a stand-alone file for a target, "numpy" or "python"."""
        from symdiff.exporting import exported

        return exported(self, args, kwargs, target).text

    def export(self, path: Any, *args: Any, target: str = "numpy", **kwargs: Any) -> None:
        """Write a stand-alone file for a target; written whole or not at all."""
        from symdiff.exporting import exported, write

        write(path, exported(self, args, kwargs, target).text)

    def cost(self, *args: Any, **kwargs: Any) -> Any:
        """Operations of the function, of this derivative and of both together; see `sd.cost`."""
        from symdiff.costing import cost_of

        return cost_of(self, args, kwargs)

    def __repr__(self) -> str:
        return f"<{self.__name__} of {self.where}>"

    def _repr_latex_(self) -> str | None:
        from symdiff.display import function_latex

        return function_latex(self)

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        for name in ("_lock", "_door", "signature"):
            del state[name]
        state["_compiled"] = {}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.signature = _signature(self.f)
        self._lock = threading.Lock()
        self._door = None


def _innermost(values: list[Any]) -> Builder | None:
    builders = [v.builder for v in values if isinstance(v, Tracer)]
    return max(builders, key=lambda b: b.level) if builders else None


def replay(graph: Graph, sources: list[Any], builder: Builder, origin: str) -> list[Any]:
    """Append a scalar Graph to an enclosing trace, its inputs bound to `sources`; returns its outputs as traced values."""
    graph = scalarize(graph)
    atoms: dict[Atom, Atom] = {}
    for leaf, source in zip(graph.inputs, sources, strict=True):
        atom = atom_of(source, builder, origin)
        if leaf.symbol.shape == () and isinstance(atom, Constant):
            atom = Constant(complex(atom.value) if leaf.symbol.dtype in "FD" else float(atom.value), leaf.symbol.dtype)
        atoms[leaf.symbol] = atom
    for binding in graph.bindings:
        if binding.op == "item" and isinstance(atoms[binding.operands[0]], ArrayConstant):
            value = atoms[binding.operands[0]].value.ravel()[binding.params]
            atoms[binding.symbol] = Constant(value.item(), binding.dtype)
            continue
        operands = tuple(atoms.get(o, o) for o in binding.operands)
        atoms[binding.symbol] = builder.bind(
            binding.op, operands, binding.shape, binding.dtype, binding.params, binding.origin or origin
        )
    results: list[Any] = []
    for output in graph.outputs:
        atom = atoms.get(output.atom, output.atom)
        results.append(Tracer(builder, atom) if isinstance(atom, Var) else atom.value)
    return results


class Gradient(Function):
    suffix = "grad"

    def derive(self, graph: Graph, wrt: list[int]) -> Graph:
        return transforming.gradient(graph, wrt, self._rules(), False)[0]

    def tree(self, call: Call, graph: Graph) -> Any:
        return _tree_of(self._by_argument(call))


class ValueAndGradient(Function):
    suffix = "value_and_grad"

    def derive(self, graph: Graph, wrt: list[int]) -> Graph:
        return transforming.gradient(graph, wrt, self._rules(), True)[0]

    def tree(self, call: Call, graph: Graph) -> Any:
        return _tree_of((0, self._by_argument(call)))


class Jacobian(Function):
    suffix = "jacobian"
    mode = "auto"

    def derive(self, graph: Graph, wrt: list[int]) -> Graph:
        def operations(candidate: Graph) -> int:
            return program_of(candidate, self.options).operations()

        return transforming.jacobian(graph, wrt, self._rules(), self.mode, operations)

    def tree(self, call: Call, graph: Graph) -> Any:
        result = 0 if graph.out_tree is None else optree.tree_unflatten(graph.out_tree, [0] * len(graph.outputs))
        return _tree_of(optree.tree_map(lambda _: self._by_argument(call), result))


class Hessian(Function):
    suffix = "hessian"

    def derive(self, graph: Graph, wrt: list[int]) -> Graph:
        return transforming.hessian(graph, wrt, self._rules())

    def tree(self, call: Call, graph: Graph) -> Any:
        return _tree_of(self._by_argument(call, self._by_argument(call)))


class Pushforward(Function):
    suffix = "jvp"
    extra = 1

    def derive(self, graph: Graph, wrt: list[int]) -> Graph:
        return transforming.pushforward(graph, wrt, self._rules())

    def tree(self, call: Call, graph: Graph) -> Any:
        result = 0 if graph.out_tree is None else optree.tree_unflatten(graph.out_tree, [0] * len(graph.outputs))
        return _tree_of((result, result))


class Pullback(Pushforward):
    suffix = "vjp"

    def derive(self, graph: Graph, wrt: list[int]) -> Graph:
        return transforming.pullback(graph, wrt, self._rules())

    def tree(self, call: Call, graph: Graph) -> Any:
        result = 0 if graph.out_tree is None else optree.tree_unflatten(graph.out_tree, [0] * len(graph.outputs))
        return _tree_of((result, self._by_argument(call)))


class HessianProduct(Pushforward):
    suffix = "hvp"

    def derive(self, graph: Graph, wrt: list[int]) -> Graph:
        return transforming.hessian_product(graph, wrt, self._rules())

    def tree(self, call: Call, graph: Graph) -> Any:
        return _tree_of(self._by_argument(call))


class Wirtinger(Function):
    suffix = "wirtinger"

    def derive(self, graph: Graph, wrt: list[int]) -> Graph:
        return transforming.wirtinger(graph, wrt, self._rules())

    def tree(self, call: Call, graph: Graph) -> Any:
        each = self._by_argument(call)
        return _tree_of((each, each))


class Derivative(Function):
    """The n-th derivative of a scalar function; over an array of points, elementwise."""

    suffix = "derivative"
    order = 1

    def derive(self, graph: Graph, wrt: list[int]) -> Graph:
        for _ in range(self.order):
            graph = transforming.jacobian(graph, wrt, self._rules(), "reverse", lambda g: 0)
        graph.name = f"{self.name}_derivative"
        output = graph.outputs[0]
        graph.outputs = (GraphOutput(f"d{self.order if self.order > 1 else ''}f", output.atom),)
        return graph

    def tree(self, call: Call, graph: Graph) -> Any:
        return None

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Any:
        position = self.argnums % len(args) if isinstance(self.argnums, int) and args else 0
        points = args[position] if args else None
        if isinstance(points, Tracer) and points.shape:
            cells = [self(*args[:position], p, *args[position + 1 :], **kwargs) for p in points.ravel()]
            return np.reshape(np.stack(cells), points.shape)
        if not isinstance(points, (np.ndarray, list, tuple)) or np.ndim(points) == 0:
            return super()._call(args, kwargs, out)
        values = np.asarray(points)
        if values.dtype.kind in "iub":
            values = values.astype(float)
        scalar = Spec((), values.dtype)
        call = Call(self, (*args[:position], scalar, *args[position + 1 :]), kwargs)
        place = call.traced.index(call.wrt[0])
        key = ("elementwise", self._key(call))
        batched = self._compiled.get(key)
        if batched is None:
            program = program_of(self._built(call)[0], self.options)
            axes = tuple(0 if i == place else None for i in range(len(program.inputs)))
            batched = self._compiled[key] = Batched(program, axes, (0,), None)
        fed = self._fed(call)
        fed[place] = np.ravel(values)
        flat_out = None
        if out is not None:
            if not isinstance(out, np.ndarray) or out.shape != values.shape:
                raise ShapeError(f"{self.where}: out must be an array of shape {values.shape}")
            flat_out = out.reshape(-1) if out.flags.c_contiguous else None
        result = batched.call(fed, flat_out)
        if out is None:
            return result.reshape(values.shape)
        if flat_out is None:
            if out.dtype != result.dtype:
                raise ShapeError(f"{self.where}: out has dtype {out.dtype}, {result.dtype} expected")
            out[...] = result.reshape(values.shape)
        return out


class Vectorised(Function):
    """A function or derivative over many points at once."""

    differentiates = False
    suffix = "vmap"

    def __init__(self, f: Callable[..., Any], in_axes: Any, out_axes: Any, **options: Any) -> None:
        super().__init__(f, 0, **options)
        self.inner = f if isinstance(f, Function) else Plain(f, **options)
        self.in_axes = in_axes
        axes = in_axes if isinstance(in_axes, (tuple, list)) else (in_axes,)
        if any(a not in (0, -1, None) for a in axes) or all(a is None for a in axes):
            raise ShapeError(f"{self.where}: in_axes={in_axes!r}; 0 (points first), -1 (points last) and None are possible")
        self.out_axes = next(a for a in axes if a is not None) if out_axes is None else out_axes
        if self.out_axes not in (0, -1):
            raise ShapeError(f"{self.where}: out_axes={out_axes!r}; 0 (points first) and -1 (points last) are possible")

    def positions(self, count: int) -> tuple[int, ...]:
        return ()

    def _axes(self, count: int) -> list[int | None]:
        if not isinstance(self.in_axes, (tuple, list)):
            return [self.in_axes] * count
        if len(self.in_axes) != count:
            raise ShapeError(f"{self.where}: in_axes has {len(self.in_axes)} entries for {count} arguments")
        return list(self.in_axes)

    def point_arguments(self, args: tuple[Any, ...]) -> tuple[tuple[Any, ...], list[Any], list[int | None]]:
        """The arguments with each batched leaf replaced by the `Spec` of one point, the leaves and their axes."""
        axes = self._axes(len(args))
        shown, leaves, leaf_axes = [], [], []
        for arg, axis in zip(args, axes, strict=True):
            flat, tree = optree.tree_flatten(arg, none_is_leaf=True)
            points = []
            for leaf in flat:
                value = leaf
                if (axis is not None and not is_static(leaf)) or (isinstance(leaf, np.ndarray) and axis is not None):
                    value = leaf if isinstance(leaf, (Tracer, Spec)) else np.asarray(leaf)
                    if not value.shape:
                        raise ShapeError(f"{self.where}: a batched argument needs a points axis; got a single number")
                    dtype = np.dtype(value.dtype)
                    shape = value.shape[1:] if axis == 0 else value.shape[:-1]
                    points.append(Spec(shape, np.dtype(float) if dtype.kind in "iub" else dtype))
                    leaves.append(value)
                    leaf_axes.append(axis)
                else:
                    points.append(leaf)
                    if not is_static(leaf):
                        leaves.append(leaf)
                        leaf_axes.append(None)
            shown.append(optree.tree_unflatten(tree, points))
        return tuple(shown), leaves, leaf_axes

    def batched(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Batched, list[Any]]:
        """The batch kernel for these arguments, and the leaves to feed it."""
        shown, leaves, axes = self.point_arguments(args)
        inner = self.inner
        extra = inner.extra
        own, more = (shown[:-extra], shown[-extra:]) if extra else (shown, ())
        call = Call(inner, own, kwargs)
        rest = tuple((tuple(s.shape), str(s.dtype)) for s in optree.tree_leaves(more))
        key = (inner._key(call), rest, tuple(axes))
        found = self._compiled.get(key)
        if found is None:
            graph, tree = inner._built(call)
            program = program_of(graph, inner.options)
            outs = (self.out_axes,) * len(program.outputs)
            if len(axes) < len(program.inputs):
                axes = [*axes, *[None] * (len(program.inputs) - len(axes))]
            found = self._compiled[key] = Batched(program, tuple(axes), outs, tree)
        return found, leaves

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Any:
        if any(isinstance(leaf, Tracer) for leaf in optree.tree_leaves((args, kwargs), none_is_leaf=True)):
            return self._point_by_point(args, kwargs)
        batched, leaves = self.batched(args, kwargs)
        if kwargs:
            leaves = leaves + [v for v in optree.tree_leaves(kwargs, none_is_leaf=True) if not is_static(v)]
        return batched.call(leaves, out)

    def _point_by_point(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        axes = self._axes(len(args))
        count = next(
            leaf.shape[axis]
            for arg, axis in zip(args, axes, strict=True)
            if axis is not None
            for leaf in optree.tree_leaves(arg)
        )

        def point(k: int) -> Any:
            chosen = [
                arg if axis is None else optree.tree_map(lambda a, axis=axis: a[k] if axis == 0 else a[..., k], arg)
                for arg, axis in zip(args, axes, strict=True)
            ]
            return self.inner(*chosen, **kwargs)

        results = [point(k) for k in range(count)]
        return optree.tree_map(lambda *cells: np.stack(cells, axis=self.out_axes), *results)

    def graph(self, *args: Any, **kwargs: Any) -> Graph:
        """The Graph of one point."""
        return self.inner.graph(*self.point_arguments(args)[0], **kwargs)


class Plain(Function):
    """A function itself, traced and compiled."""

    differentiates = False

    def positions(self, count: int) -> tuple[int, ...]:
        return ()


def _tree_of(shape: Any) -> Any:
    tree = optree.tree_structure(shape)
    return None if optree.treespec_is_leaf(tree) else tree


def grad(f: Callable[..., Any], argnums: int | Sequence[int] = 0, **options: Any) -> Function:
    """The gradient of a scalar function by argument `argnums`, in that argument's own structure and shape.

    dtype: `result_type(output, input)`. With a tuple of argnums the result is a tuple. Options: `rules`, `exact`,
    `fastmath`, `backend`. Raises `ShapeError` when called on a function whose result is not one scalar.

    >>> grad(lambda x: x[0]*x[1]**2)(np.array([3.0, 2.0]))
    array([ 4., 12.])
    """
    return Gradient(f, argnums, **options)


def value_and_grad(f: Callable[..., Any], argnums: int | Sequence[int] = 0, **options: Any) -> Function:
    """The pair (value, gradient), computed together; see `grad`.

    >>> value_and_grad(lambda x: x**3)(2.0)
    (np.float64(8.0), np.float64(12.0))
    """
    return ValueAndGradient(f, argnums, **options)


def jacobian(f: Callable[..., Any], argnums: int | Sequence[int] = 0, *, mode: str = "auto", **options: Any) -> Function:
    """All partials: the output's axes, then the input's. `mode` is "auto" (fewer operations), "forward" or "reverse".

    >>> jacobian(lambda x: [x[0]*x[1], x[1]])(np.array([3.0, 2.0]))
    [array([2., 3.]), array([0., 1.])]
    """
    if mode not in ("auto", "forward", "reverse"):
        raise ValueError(f"mode={mode!r}; auto, forward and reverse are possible")
    function = Jacobian(f, argnums, **options)
    function.mode = mode
    return function


def hessian(f: Callable[..., Any], argnums: int | Sequence[int] = 0, **options: Any) -> Function:
    """Second partials of a scalar function: the input's axes twice. Each symmetric pair is computed once.

    >>> hessian(lambda x: x[0]*x[1]**2)(np.array([3.0, 2.0]))
    array([[0., 4.],
           [4., 6.]])
    """
    return Hessian(f, argnums, **options)


def derivative(f: Callable[..., Any], order: int = 1, argnums: int = 0, **options: Any) -> Function:
    """The n-th derivative of a scalar function of a scalar; called with an array, elementwise.

    >>> derivative(np.sin, order=2)(0.5) == -np.sin(0.5)
    np.True_
    """
    if not isinstance(order, int) or order < 1:
        raise ValueError(f"order={order!r}; a positive integer is needed")
    function = Derivative(f, argnums, **options)
    function.order = order
    return function


def jvp(f: Callable[..., Any], argnums: int | Sequence[int] = 0, **options: Any) -> Function:
    """(*args, tangent) -> (value, tangent of the value).

    >>> jvp(lambda x: x*x)(3.0, 1.0)
    (np.float64(9.0), np.float64(6.0))
    """
    return Pushforward(f, argnums, **options)


def vjp(f: Callable[..., Any], argnums: int | Sequence[int] = 0, **options: Any) -> Function:
    """(*args, cotangent) -> (value, cotangent of the arguments).

    >>> vjp(lambda x: x*x)(3.0, 1.0)
    (np.float64(9.0), np.float64(6.0))
    """
    return Pullback(f, argnums, **options)


def hvp(f: Callable[..., Any], argnums: int | Sequence[int] = 0, **options: Any) -> Function:
    """(*args, v) -> H v, the product of the Hessian with a vector, forward over reverse.

    >>> hvp(lambda x: x**3)(2.0, 1.0)
    np.float64(12.0)
    """
    return HessianProduct(f, argnums, **options)


def wirtinger(f: Callable[..., Any], argnums: int | Sequence[int] = 0, **options: Any) -> Function:
    """z -> (df/dz, df/dzbar), the derivatives by z and by its conjugate as if the two were independent.

    >>> wirtinger(lambda z: np.abs(z)**2)(3.0 + 4.0j)
    (np.complex128(3-4j), np.complex128(3+4j))
    """
    return Wirtinger(f, argnums, **options)


def vmap(f: Callable[..., Any], in_axes: Any = 0, out_axes: Any = None, **options: Any) -> Function:
    """f at many points at once: `in_axes` (for all arguments, or one entry each) is 0 for points first, -1 for points
    last, None for an argument that all points share; `out_axes` defaults to the first of `in_axes`.

    >>> vmap(grad(lambda x: x[0]*x[1]))(np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([[2., 1.],
           [4., 3.]])
    """
    return Vectorised(f, in_axes, out_axes, **options)
