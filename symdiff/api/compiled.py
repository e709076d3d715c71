"""A Graph made callable: argument checks, backends, `out=`; what its paths ask is computed in the program itself.

Assumes a Graph whose inputs are the traced argument leaves in order. Guarantees right answers or a clear error for every
shape, dtype, stride and overlap; fresh arrays without `out=`; nothing written when an error is raised; that a path's derivative
is given for arguments that take this path only, and that arguments whose path raises raise the function's exception. Refuses
wrong shapes, dtypes and layouts with `ShapeError`.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import optree

from symdiff.api.arguments import arrays_of_out
from symdiff.api.forms import Making
from symdiff.codegen.source import MISS
from symdiff.errors import ArgumentError, BackendError, InvariantError, ShapeError, TraceError
from symdiff.ir.branches import Branches, branches_of
from symdiff.ir.evaluating import binding_values
from symdiff.ir.graph import Graph
from symdiff.ir.hidden import hidden_of, visible_input_count
from symdiff.ir.node import has_loops
from symdiff.lowering.arrays.fusing import Fused
from symdiff.lowering.program import Program, is_nest
from symdiff.pipeline import (
    Options,
    call_program_of,
    check_backend,
    door_of,
    gufunc_of,
    machine_of,
    numpy_of,
)
from symdiff.runtime.engine import new_machine_bytes
from symdiff.tracing.unrolling.scalarizing import scalarize
from symdiff.tracing.values.tracer import Tracer
from symdiff.vocabulary import structures
from symdiff.vocabulary.ops import dtype_of_code, is_complex
from symdiff.vocabulary.plain import as_plain_array, check_digits, check_plain, check_targets, is_plain_target, packed

KEPT_PATHS = 32  # guarded paths of one signature that are kept, those that were taken last
KEPT = 256  # specialisations of one function that are kept, the newest
KEPT_BYTES = 2**26  # of their machine code
_MATH_ERRORS = (ZeroDivisionError, OverflowError, ValueError, TypeError, BufferError)


class Kept(dict[Any, Any]):
    """Specialisations by their keys: the newest, as many as `KEPT` and `KEPT_BYTES` allow; `dropped` counts the others."""

    def __init__(self) -> None:
        super().__init__()
        self.dropped = 0
        self._bytes: dict[Any, int] = {}

    def __setitem__(self, key: Any, made: Any) -> None:
        """Keep what this thread has just made."""
        self.pop(key, None)
        self._bytes[key] = self._bytes.pop(key, 0) + new_machine_bytes()
        super().__setitem__(key, made)
        while len(self) > KEPT or (len(self) > 1 and sum(self._bytes.values()) > KEPT_BYTES):
            oldest = next(iter(self._bytes))
            del self._bytes[oldest], self[oldest]
            self.dropped += 1

    def clear(self) -> None:
        """Drop all."""
        super().clear()
        self._bytes.clear()


class Compiled:
    """One specialisation: call it with the traced leaves in order. `tree` is the result's optree structure."""

    def __init__(self, graph: Graph, tree: Any, options: Options, backend: str = "auto") -> None:
        check_backend(backend)
        self.graph = graph
        self.hidden = hidden_of(graph)
        self.tree = structures.with_own_arrays(tree)
        self.options = options
        self.backend = backend
        self.program: Program | Fused = self._numbered()
        self._whole = isinstance(self.program, Fused)
        codes = set() if self._whole else {node.dtype for node in self.program.nodes}
        codes |= {leaf.dtype for leaf in (*self.program.inputs, *self.program.outputs)}
        self._doubles = not codes & {"f", "F"}
        self._leaf = tree is None or optree.treespec_is_leaf(tree)
        count = len(self.program.outputs)
        self._flat = count > 1 and not self._leaf and tree == structures.structure((0,) * count)
        nested = None if self._leaf or self._flat else _nested(structures.unflatten(tree, range(count)))
        self._nested = nested if structures.leaves(nested) == list(range(count)) else None  # or it holds settings, too
        self._exact_types = tuple(np.dtype(i.dtype) for i in self.program.inputs)
        self.door, self.machine = self._doors()
        self._nest = isinstance(self.program, Program) and is_nest(self.program)
        self._apart = self._whole or (self.machine is not None and self._nest)  # results overlap no argument

    def _numbered(self) -> Program | Fused:
        """The program that is compiled."""
        return call_program_of(self.graph, self.options, self.backend)

    def _doors(self) -> tuple[Any, Any]:
        """The generated function, and the machine code that it is, if it is that."""
        return door_of(self.program, self.backend, self.options.exact, self._nested)

    @functools.cached_property
    def has_settings(self) -> bool:
        """Whether settings among the arguments, as they are in each call, stand in results."""
        return structures.holds_settings(self.tree)

    @property
    def has_code(self) -> bool:
        """Whether calls run as machine code, or as arrays."""
        return self.machine is not None or self._whole

    @functools.cached_property
    def entry(self) -> Callable[..., Any] | None:
        """The door as calls from outside take it: it is given the captured arrays, too, as they are at each call."""
        door = self.door
        if door is None or not self.hidden.arrays:
            return door
        fill, own, count = self.hidden.fill, visible_input_count(self.graph), len(self.program.inputs)

        def through(*args: Any, out: Any = None) -> Any:
            if len(args) != own:
                return MISS
            given = fill(args, count)
            found = door(*given, out=out)
            return door(*map(packed, given), out=out) if found is MISS else found

        return through

    @functools.cached_property
    def leaf_door(self) -> Callable[..., Any] | None:
        """The generated function over leaves in order, with results in their structure."""
        door = self.entry
        if door is None or self.direct:
            return door
        expected = None if self.tree is None else structures.structure(structures.unflatten(self.tree, self.program.outputs))
        make = Making(self.tree, len(self.program.outputs) > 1)

        def through(*leaves: Any, out: Any = None) -> Any:
            if out is None:
                found = door(*leaves)
                return MISS if found is MISS else make(found)
            targets, shape = structures.flatten(out)
            if (expected is not None and shape != expected) or door(*leaves, out=self._joined(targets)) is MISS:
                return MISS
            return out

        return through

    @property
    def kernel(self) -> Callable[..., Any]:
        """The bare builtin of the native backend: inputs, then larger arrays that the function captures, then outputs;
        contiguous arrays of exactly the traced types.

        Raises `TypeError` for any other argument, and `BackendError` where there is no machine code.
        """
        if self._whole and self.machine is None:
            raise BackendError(f"{self.program.name}: NumPy has a part in it, so that there is no kernel")
        if self.machine is None:
            self.machine = machine_of(self.program, self._nested)  # type: ignore[arg-type]
        name = self.program.name

        def refuse(*args: Any, **kwargs: Any) -> Any:
            taken = ", ".join(f"{i.name} {dtype_of_code(i.dtype).name}{list(i.shape) or ''}" for i in self.program.inputs)
            raise TypeError(f"{name}: other arguments than it was compiled for: {taken}")

        return self.machine.builtin(refuse)  # type: ignore[no-any-return]

    @functools.cached_property
    def gufunc(self) -> np.ufunc:
        """This function as a NumPy generalised ufunc over the traced leaves: any leading axes broadcast, and `out`, `axes`,
        `axis` and `casting` are NumPy's. Overlapping arrays are right, and other threads run meanwhile.

        A point's shape is part of it, so that a float64 array of 8 numbers and a number give `(8),()->(8)`. Numbers of
        other dtypes are cast as NumPy casts safely. It sets no floating-point flags and so never warns. A ufunc cannot be
        pickled; pickle the function or this object.

        Raises `BackendError` where there is no machine code, for whole arrays, results in other structures than a tuple,
        empty arrays, truth values, functions that NumPy computes faster, and more arrays than NumPy's ufuncs take.

        >>> import symdiff as sd
        >>> slope = sd.grad(lambda x, a: a*x[0]*x[1]).compile(np.ones(2), 1.0).gufunc    # doctest: +SKIP
        >>> slope(np.array([[1.0, 2.0], [3.0, 4.0]]), [1, 10])                           # doctest: +SKIP
        array([[ 2.,  1.],
               [40., 30.]])
        """
        name = self.program.name
        if isinstance(self.program, Fused) or (self._nest and not has_loops(self.program.nodes)):
            raise BackendError(f"{name}: whole arrays run with NumPy and broadcast by themselves; a gufunc takes small arrays")
        if self.program.checks:
            raise BackendError(f"{name}: a ufunc has a result at every point, and a path of the function has none; use vmap")
        if not is_flat_tree(self.tree, len(self.program.outputs)):
            raise BackendError(f"{name}: a gufunc returns one array or a tuple of them, not {self.tree}")
        return gufunc_of(self.program)  # type: ignore[no-any-return]

    @property
    def _gives_structure(self) -> bool:
        """Whether the door takes and returns results in a structure that is no plain tuple."""
        return self.machine is not None and self._nested is not None

    @property
    def direct(self) -> bool:
        """Whether the door takes and returns results in their structure."""
        return self._leaf or self._flat or self._gives_structure

    @functools.cached_property
    def _numpy_kernel(self) -> Any:
        if self._nest:
            return functools.partial(_evaluated, self.graph)
        return numpy_of(self.program)

    def __call__(self, *leaves: Any, out: Any = None) -> Any:
        """The result at the traced leaves in order; see `call`."""
        if len(leaves) != visible_input_count(self.graph):
            raise ArgumentError(f"{self.program.name} takes {visible_input_count(self.graph)} arguments ({len(leaves)} given)")
        return self.call(list(leaves), out)

    def __reduce__(self) -> tuple[Any, ...]:
        graph = self.graph if self._whole or self._nest else scalarize(self.graph)
        return Compiled, (graph, self.tree, self.options, self.backend)

    def call(self, leaves: list[Any], out: Any = None) -> Any:
        """The result at the traced leaves."""
        found = self.attempt(leaves, out)
        if found is MISS:
            raise InvariantError(f"{self.program.name}: compiled code declines arguments that were brought into its form")
        return found

    def attempt(self, leaves: list[Any], out: Any = None) -> Any:
        """The result at the traced leaves, checked and normalised first; `MISS` where a check of the program holds."""
        if len(leaves) != visible_input_count(self.graph):
            names = ", ".join(i.name for i in self.program.inputs[: visible_input_count(self.graph)])
            raise ShapeError(f"{self.program.name}: {len(leaves)} numbers or arrays are given, one each expected for {names}")
        args = [self._argument(i, leaf) for i, leaf in enumerate(self.hidden.fill(leaves, len(self.program.inputs)))]
        targets = None if out is None else self._targets(out)
        flat = self._run(args, targets)
        if flat is None:
            return MISS
        if out is not None:
            return out
        if self._leaf:
            return flat[0]
        return tuple(flat) if self._flat else structures.unflatten(self.tree, flat)

    def _joined(self, leaves: list[Any]) -> Any:
        """Result arrays as the door takes and returns them: in their structure, or in one tuple."""
        if self._gives_structure:
            return structures.unflatten(self.tree, leaves)
        return tuple(leaves) if len(self.program.outputs) > 1 else leaves[0]

    def _parts(self, found: Any) -> list[Any]:
        """The results that the door returns, in order."""
        if self._gives_structure:
            return structures.leaves(found)
        return list(found) if len(self.program.outputs) > 1 else [found]

    def _run(self, args: list[Any], targets: list[Any] | None) -> list[Any] | None:
        """The results; None where a check of the program holds."""
        if self._apart:
            return self._run_apart(args, targets)
        try:
            result = MISS if self.door is None else self.door(*args, out=None if targets is None else self._joined(targets))
            if result is not MISS:
                return self._parts(result)
        except _MATH_ERRORS:
            pass  # Python's math raises where IEEE arithmetic has a value; NumPy computes it
        several = len(self.program.outputs) > 1
        result = self._numpy_kernel(*args, out=None if targets is None else tuple(targets) if several else targets[0])
        if result is MISS:
            return None
        return list(result) if several else [result]

    def _run_apart(self, args: list[Any], targets: list[Any] | None) -> list[Any] | None:
        """Results that are not contiguous, or overlap arguments, are computed elsewhere and copied."""
        door = self.door
        assert door is not None
        if targets is None or all(map(is_plain_target, targets)):
            found = door(*args, out=None if targets is None else self._joined(targets))
            if found is not MISS:
                return self._parts(found)
        found = door(*args)
        if found is MISS:
            return None
        results = self._parts(found)
        for target, value in zip(targets or [], results, strict=False):
            target[...] = value
        return results

    def _argument(self, place: int, leaf: Any) -> Any:
        expected, name = self.program.inputs[place], self.program.name
        value = plain_argument(name, expected, self._exact_types[place], leaf)
        if value.shape != expected.shape:
            raise ShapeError(f"{name}: {expected.name} has shape {value.shape}, {expected.shape} expected")
        if expected.shape:
            return value
        return value.item() if self._doubles else value[()]

    def _targets(self, out: Any) -> list[Any]:
        outputs, name = self.program.outputs, self.program.name
        leaves = arrays_of_out(name, out, self.tree, len(outputs))
        check_targets(name, leaves, [(o.name, o.shape, o.dtype) for o in outputs])
        return leaves


def plain_argument(name: str, expected: Any, dtype: np.dtype, leaf: Any) -> np.ndarray:
    """An argument as an array of the dtype that is expected, of any shape."""
    if isinstance(leaf, Tracer):
        raise TraceError(f"{name}: compiled code takes numbers; call the derivative itself in a traced function")
    check_plain(f"{name}: {expected.name}", leaf)
    value = np.asarray(leaf)
    check_digits(f"{name}: {expected.name}", leaf if type(leaf) is int else value)
    if type(leaf) is int and value.dtype.kind not in "biufc" and abs(leaf) < 2**1023:
        value = np.asarray(float(leaf))
    if value.dtype.kind not in "biufc":
        raise ShapeError(f"{name}: {expected.name} has dtype {value.dtype}, {dtype} expected")
    if value.dtype.kind == "c" and not is_complex(expected.dtype):
        raise ShapeError(f"{name}: {expected.name} is complex, {dtype} expected; trace it with a complex argument")
    return as_plain_array(value, dtype)


def _evaluated(graph: Graph, *args: Any, out: Any = None) -> Any:
    """The results of a graph with loops by NumPy, round by round; `MISS` where a check of its program holds."""
    branches = branches_of(graph)
    if branches is not None and any(branches.flags(args)):
        return MISS
    values = binding_values(graph, args)
    found = [np.asarray(values[o.atom] if o.atom.op != "const" else o.atom.value, np.dtype(o.dtype))[()] for o in graph.outputs]
    several = len(found) > 1
    for target, value in zip(() if out is None else out if several else (out,), found, strict=False):
        target[...] = value
    return tuple(found) if several else found[0]


def _nested(value: Any) -> Any:
    """A structure of output places, if machine code makes it: of tuples, lists and dictionaries by names; else None."""
    if type(value) in (tuple, list):
        parts = type(value)(_nested(v) for v in value)
        return None if any(part is None for part in parts) else parts
    if type(value) is dict:
        named = {key: _nested(v) for key, v in value.items() if type(key) is str and key.isidentifier() and key.isascii()}
        return named if len(named) == len(value) and all(part is not None for part in named.values()) else None
    return value if isinstance(value, int) else None


def is_flat_tree(tree: Any, count: int) -> bool:
    """Whether the result is one array, or a tuple of them."""
    if tree is None or optree.treespec_is_leaf(tree):
        return True
    found = structures.unflatten(tree, range(count))
    return count > 1 and type(found) is tuple and [type(item) for item in found] == [int] * count


class Checked(Compiled):
    """A specialisation that has results for some arguments only."""

    def __init__(self, graph: Graph, tree: Any, options: Options, backend: str = "auto") -> None:
        branches = branches_of(graph)
        assert branches is not None and branches.conditions is not None
        self.branches: Branches = branches
        self.asked: Compiled | None = None  # the checks, where loops are among what is computed: then they come first
        if has_loops((*graph.bindings, *branches.conditions.bindings)):
            flags = structures.structure((0,) * len(branches.conditions.outputs))
            self.asked = Compiled(branches.conditions, flags, options, backend)
        super().__init__(graph, tree, options, backend)

    def _numbered(self) -> Program | Fused:
        if self.asked is not None:
            return self.unchecked.program
        return call_program_of(self.graph, self.options, self.backend, self.branches.conditions)

    def _doors(self) -> tuple[Any, Any]:
        if self.asked is None:
            return super()._doors()
        asked, computed, count = self.asked.door, self.unchecked.door, len(self.asked.program.inputs)
        if asked is None or computed is None or any(o.shape for o in self.asked.program.outputs):
            return None, None

        def checked(*args: Any, out: Any = None) -> Any:
            flags = asked(*args[:count])
            if flags is MISS or (any(flags) if type(flags) is tuple else flags):
                return MISS
            return computed(*args, out=out)

        return checked, None

    @property
    def _gives_structure(self) -> bool:
        return super()._gives_structure if self.asked is None else self.unchecked._gives_structure

    @property
    def has_code(self) -> bool:
        return super().has_code if self.asked is None else self.unchecked.has_code

    def attempt(self, leaves: list[Any], out: Any = None) -> Any:
        if self.asked is None:
            return super().attempt(leaves, out)
        given = self.hidden.fill(leaves, len(self.graph.inputs))[: len(self.branches.conditions.inputs)]  # type: ignore[union-attr]
        return MISS if any(map(np.any, self.asked.call(given))) else self.unchecked.attempt(leaves, out)

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
    return (Guarded if branches.guarded else Checked)(graph, tree, options, backend)


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
