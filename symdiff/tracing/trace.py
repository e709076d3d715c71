"""Runs a plain Python function on tracers and returns the Graph of what it did.

Assumes that the function is deterministic and that its arguments are nested containers of numbers and arrays. Guarantees
one binding for each operation, with the user's file:line, and that integers, strings, Booleans, None and callables stay
static unless they are differentiated. Refuses, with `TraceError`, results that are neither numbers nor arrays.
"""

import contextvars
import decimal
import functools
import inspect
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from symdiff.errors import PathsError, SymdiffError, TraceError, forgive_error, note_error, noted_errors
from symdiff.ir.branches import branches_of
from symdiff.ir.building import Builder, active_builders, array_atom, atom_dtype
from symdiff.ir.evaluating import binding_values
from symdiff.ir.graph import FOLLOWED, Graph, GraphOutput
from symdiff.ir.hidden import KEY, Hidden
from symdiff.ir.loops import repeated_bindings
from symdiff.ir.node import ArrayConstant, Constant
from symdiff.tracing.branches.paths import Path, Run, Unmergeable, followed
from symdiff.tracing.captures.reaching import Found
from symdiff.tracing.captures.restoring import Outside
from symdiff.tracing.captures.watching import Watch
from symdiff.tracing.following.doors import holds_traced_inside
from symdiff.tracing.following.entering import noticed
from symdiff.tracing.following.following import followed_calls
from symdiff.tracing.following.reading import Reading
from symdiff.tracing.loops.collected import plain_list
from symdiff.tracing.loops.keeping import IN_FILES, LOOPS, SHORT, Again, Keeping, Tired, check_patience
from symdiff.tracing.state.attempt import Attempt, Contents, Stuck, current, current_reading
from symdiff.tracing.state.nesting import nested_trace
from symdiff.tracing.state.raising import check_signal
from symdiff.tracing.unrolling.choosing import WORK
from symdiff.tracing.values.integers import Integer
from symdiff.tracing.values.kinds import NUMPY, Kind, traced_argument_kind, unheard
from symdiff.tracing.values.layouts import traced_order
from symdiff.tracing.values.storage import CELLS
from symdiff.tracing.values.tracer import Tracer, traced_atom
from symdiff.vocabulary import structures
from symdiff.vocabulary.choices import check_options, is_integer_option
from symdiff.vocabulary.extents import Example, Extent, Shape, extent_of_text
from symdiff.vocabulary.libraries import Line, is_users, name_unless_library
from symdiff.vocabulary.literals import identifier
from symdiff.vocabulary.plain import EXACT, check_plain
from symdiff.vocabulary.signatures import Arguments, Function, Keywords

PROBED = 5_000  # operations up to which kept loops are compared with the plain function
TRIES = 60  # runs of a function after which no more is tried to keep its loops
PRECISION = 1e-8  # of that comparison: sums may be regrouped


@dataclass(frozen=True, slots=True)
class Spec:
    """Stands for an argument: a shape and a dtype. A size that only a call tells has a name, and may be "n + 1" or "2*n".

    What is made from such a Spec serves all sizes for which the function is traced to the same graph.

    >>> Spec((8,))
    Spec(shape=(8,), dtype='float64')
    >>> Spec(("n", 3)), Spec("n+1", "float32")
    (Spec(shape=(n, 3), dtype='float64'), Spec(shape=(n+1,), dtype='float32'))
    """

    shape: Shape = ()
    dtype: Any = "float64"

    def __post_init__(self) -> None:
        check_options("Spec", {"shape": self.shape, "dtype": self.dtype})
        given = (self.shape,) if is_integer_option(self.shape) or isinstance(self.shape, (str, Extent)) else self.shape
        sizes = [extent_of_text(n) if isinstance(n, str) else n if isinstance(n, (Extent, Example)) else int(n) for n in given]
        object.__setattr__(self, "shape", tuple(sizes))


@dataclass(frozen=True, slots=True)
class TracedSpec(Spec):
    """Stands for an argument as it is traced; `order` tells how it lies in memory, as `traced_order` does, `apart` whether
    otherwise than new arrays do. `own` is the dtype of integers and truths, `counted` that of integers that are taken as
    floating-point numbers.
    """

    order: Shape = ()
    own: np.dtype | None = None
    counted: np.dtype | None = None
    apart: bool = False


def is_static(leaf: Any) -> bool:
    """Whether an argument leaf is part of the signature rather than traced: an integer, Boolean, string, None, callable."""
    if isinstance(leaf, (bool, int, str, bytes, type(None), np.bool_, np.integer)) or callable(leaf):
        return True
    return isinstance(leaf, np.ndarray) and leaf.dtype.kind not in "fcO"


class PointNumber(float):
    """An integer or a truth, as at one of many points, which is traced as such: the same number as a double, its `own` dtype
    and its `kind`, of Python's or of NumPy's.
    """

    def __new__(cls, value: Any, own: np.dtype, kind: Kind = NUMPY) -> "PointNumber":
        self = super().__new__(cls, value)
        self.own = own
        self.kind = kind
        return self

    own: np.dtype
    kind: Kind

    @property
    def plain(self) -> Any:
        """The number as the function itself takes it."""
        return int(self) if self.kind.python else self.own.type(self)


class OwnArray(np.ndarray):
    """An array of integers or truths that is traced as such: the same numbers as doubles, and its `own` dtype."""

    @classmethod
    def of(cls, array: np.ndarray) -> "OwnArray":
        """For an array of them."""
        found = array.astype(float).view(cls)
        found.own = array.dtype
        return found

    own: np.dtype

    @property
    def plain(self) -> np.ndarray:
        """The array as the function itself takes it."""
        return self.view(np.ndarray).astype(self.own)


def own_dtype(leaf: Any) -> np.dtype | None:
    """The dtype of the integers or truths that what stands for an argument stands for; None where it is for numbers."""
    return getattr(leaf, "own", None) if isinstance(leaf, (Spec, PointNumber, OwnArray)) else None


def _range_of(own: np.dtype) -> tuple[float, float]:
    """The numbers that an argument of integers or truths may have, of those that doubles hold."""
    if own.kind == "b":
        return 0.0, 1.0
    limits = np.iinfo(own)
    return max(limits.min, -EXACT), min(limits.max, EXACT)


def integer_dtype(leaf: Any) -> Any:
    """The dtype of an argument that is an integer, or an array of them, and is taken as floating-point; None of others."""
    if isinstance(leaf, (np.ndarray, np.generic)):
        return leaf.dtype if leaf.dtype.kind in "iu" else None
    return np.dtype(int) if type(leaf) is int else getattr(leaf, "counted", None) if isinstance(leaf, Spec) else None


def taken_dtype(leaf: Any) -> Any:
    """The dtype of an argument that is taken as another one: of integers, or of bytes in another order."""
    return integer_dtype(leaf) or (leaf.dtype if isinstance(leaf, np.ndarray) and not leaf.dtype.isnative else None)


def traced_type(leaf: Any, where: str) -> tuple[Shape, str]:
    """Shape and dtype code of a traced argument leaf."""
    check_plain(where, leaf)
    if isinstance(leaf, (Tracer, Spec, np.ndarray, np.generic)):
        return tuple(leaf.shape), atom_dtype(np.dtype(leaf.dtype), where)
    if isinstance(leaf, complex):
        return (), "D"
    if isinstance(leaf, (float, int)):
        return (), "d"
    raise TraceError(f"{where}: an argument of type {type(leaf).__name__} cannot be traced; numbers and NumPy arrays can")


def signature_of_input(leaf: Any, where: str) -> tuple[Any, ...]:
    """What a traced argument leaf has in common with others of one specialisation, its layout apart."""
    return traced_type(leaf, where), own_dtype(leaf), getattr(leaf, "kind", None), taken_dtype(leaf)


def definition_line(f: Function) -> str:
    """The "file.py:line" where a function is defined."""
    inner = inspect.unwrap(f)
    code = getattr(inner, "__code__", None)
    if code is None and type(inner).__module__.startswith("symdiff."):
        return getattr(inner, "where", "?")
    return Line.of(code.co_filename, code.co_firstlineno) if code else "?"


def function_name(f: Function) -> str:
    """A name for generated code: the function's own, `f` for a lambda."""
    name = getattr(f, "__name__", type(f).__name__)
    return identifier(name) if isinstance(name, str) and name.isidentifier() else "f"


def traced_argument_names(f: Function, count: int) -> list[str]:
    """The parameter names for `count` positional arguments."""
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        return [f"x{i}" for i in range(count)]
    names: list[str] = []
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}{i}" for i in range(count - len(names))]
        elif len(names) < count:
            names.append(parameter.name)
    return names + [f"x{i}" for i in range(len(names), count)]  # those that a derivative adds


def traced_path_name(path: str) -> str:
    """A Python identifier for an argument path: `m.W` gives `m_W`, `p['a'][0]` gives `p_a_0`."""
    return identifier(path)


@dataclass(slots=True)
class Traced:
    """A Graph with what the caller needs to feed it: which leaves are inputs, and tracers captured from outer traces.

    `called` are the functions that were called by name. `kinds`: what was asked of the kinds of arguments, see `kinds`;
    `compared`: what was asked to be one of them.
    """

    graph: Graph
    places: list[int]
    captured: list[Any]
    called: tuple[Any, ...]
    kinds: int
    compared: list[Any]


def trace_leaves(
    f: Function,
    leaves: list[Any],
    tree: Any,
    traced: list[int],
    paths: list[str],
    parent: Builder | None,
    rules: Any = None,
    mode: str | None = None,
    watch: Watch | None = None,
    hide: bool = True,
    loops: str | None = None,
    given: Any = None,
) -> Traced:
    """Trace f over flattened `(args, kwargs)`: leaves at the positions `traced` become inputs, the others stay.

    `given` are these arguments in their structure, for questions about which object one is.

    `mode` says what becomes of conditions on traced values, see `paths.followed`. A first try follows calls; where a traced
    value meets code that was not followed, a second one follows everything. What the tries change outside f is put back.

    `loops`: with "keep" those that are proved to be the same are kept, with "auto" in long functions only, with "file" in those
    that are long to read.

    With `hide`, the large arrays of `watch` become inputs, too, after those of the leaves. The watch is told what else was
    called, and which arrays it must compare by content.
    """
    types = [traced_type(leaves[place], definition_line(f)) for place in traced]
    inputs = frozenset(traced)
    settings = [None if place in inputs else _setting(leaf) for place, leaf in enumerate(leaves)]
    with nested_trace(f, function_name(f), (tree, types, settings)), _noting():
        read = _given(leaves, tree)
        states = structures.states(structures.unflatten(tree, leaves))
        outside = Outside((f, *read, Found(states)), definition_line(f))
        holders = [] if given is None else structures.containers(given)
        outermost = parent is None and not active_builders()
        keeping = Keeping() if loops == "keep" else None
        patient = least = {"auto": SHORT, "file": IN_FILES}.get(loops or "", 0)
        tries = 0
        many: Any = None  # the paths that there were with all loops written out

        def tried(reading: Reading | None) -> Traced:
            nonlocal tries, keeping, patient, many, mode
            thorough = keeping is not None
            while True:
                tries += 1
                keeping = keeping if tries < TRIES else None  # then all loops are written out
                try:
                    attempt = Attempt(rules, thorough, reading, keeping, patient)
                    made = _traced(f, leaves, tree, traced, paths, parent, attempt, mode, outside, many, holders)
                    if keeping is not None:
                        keeping.check_lengths()
                        outside.restore()  # the probe begins with what the trace has begun with
                    if keeping is None or not keeping.kept or _agrees_with_plain(f, leaves, tree, traced, made.graph):
                        break
                    keeping.unkept("a probe of kept loops gives another value than the plain function")
                except Stuck:
                    thorough = True
                except Again:
                    pass
                except Unmergeable as problem:
                    if problem is not many:
                        raise
                    patient, keeping, mode, many = least, None, "guard", None  # written out again, where one path is short
                except (Tired, SymdiffError) as error:
                    if isinstance(error, Tired) or (patient and isinstance(error, PathsError)):
                        forgive_error(error)  # a loop that counts its rounds is one path
                        many = error.many if isinstance(error, Tired) else None
                        patient, thorough, keeping = 0, True, Keeping(least)
                    elif keeping is None or not keeping.kept:
                        raise
                    else:  # refused with all loops written out, too, or right there
                        keeping.unkept(str(error).partition("\n")[0])
                finally:
                    outside.restore()
            outside.require_restored()
            return made

        if watch is None or not outermost:
            found = tried(None if outermost else current_reading())
            if watch is not None:
                watch.begin()
                watch.include((*found.called, *read))
            outer = current()
            for called in found.called if outer is not None else ():
                outer.known.setdefault(called)  # type: ignore[union-attr]
            return found
        watch.begin()
        watch.include(read)
        while True:
            wary = watch.asks
            watch.compare([c for c in watch.large if not hide or c.now() is None])
            reading = Reading(watch) if watch.large else None
            with noticed(watch.outside) if wary else nullcontext():
                result = _read(tried, reading)
            if result is not None:
                watch.require_unmoved(definition_line(f))
                watch.include(result.called)
                if watch.asks and not wary:
                    continue
            elif reading is not None:
                watch.compare(reading.needed)
            if result is not None and set(watch.large) <= set(() if reading is None else reading.captured):
                return result


@contextmanager
def _noting() -> Iterator[None]:
    """Errors are noted for the trace that this one is a part of."""
    try:
        yield
    except SymdiffError as error:
        note_error(error)
        raise


def _setting(leaf: Any) -> Any:
    """What tells a leaf that is not traced from others."""
    return (type(leaf), leaf) if isinstance(leaf, (bool, int, str, bytes, type(None))) else id(leaf)


def _agrees_with_plain(f: Function, leaves: list[Any], tree: Any, traced: list[int], graph: Graph) -> bool:
    """Whether a graph with loops of few operations has the function's value at the arguments, where these are known."""
    loops = [b.params for b in graph.bindings if b.op == "loop"]
    given = [leaves[place] for place in traced]
    if len(given) != len(graph.inputs) or any(isinstance(v, (Tracer, Spec)) for v in given):
        return True
    operations, steps = graph.operations(), repeated_bindings(graph.bindings)
    if any(loop.sizes() for loop in loops) or max(steps, operations if isinstance(operations, int) else 0) > PROBED:
        return True
    args, kwargs = structures.unflatten(tree, [v.copy() if isinstance(v, np.ndarray) else v for v in leaves])
    with unheard():
        try:
            plain = structures.leaves(contextvars.copy_context().run(_alone, f, args, kwargs))
        except Exception as error:
            check_signal(error)
            return True  # the graph's own checks raise it
        values = binding_values(graph, tuple(given))
        found = [values.get(o.atom, o.atom.params) for o in graph.outputs]
        return len(found) == len(plain) and all(
            np.shape(a) == np.shape(b) and np.allclose(a, b, PRECISION, PRECISION, equal_nan=True)
            for a, b in zip(found, plain, strict=True)
        )


def _given(leaves: list[Any], tree: Any) -> list[Found]:
    """What the function can read of its arguments beside numbers and texts: their classes, callables, other objects' state."""
    kinds = {cls for cls in (*map(type, leaves), *_nodes(tree)) if is_users(cls) and not issubclass(cls, Tracer)}
    kept = structures.objects_of(structures.marks(structures.unflatten(tree, leaves)))
    return [Found(value) for value in (*kinds, *filter(callable, leaves), *kept)]


def _nodes(tree: Any) -> Iterator[type]:
    """The classes of the containers in a structure."""
    if tree.type is not None:
        yield tree.type
        for child in tree.children():
            yield from _nodes(child)


def _read(tried: Callable[[Reading | None], Traced], reading: Reading | None) -> Traced | None:
    """A trace with captured arrays as inputs; None where it needs the contents of some of them."""
    try:
        found = tried(reading)
    except Contents:
        return None
    except Exception as error:
        check_signal(error)
        if reading is None:
            raise
        reading.needed = list(reading.captured)  # they may be what it could not do
        return None
    branches = branches_of(found.graph)
    if reading is not None and branches is not None and branches.raised:
        reading.needed = list(reading.captured)  # they may be what raises
    return None if reading is not None and reading.needed else found


def _traced(
    f: Function,
    leaves: list[Any],
    tree: Any,
    traced: list[int],
    paths: list[str],
    parent: Builder | None,
    attempt: Attempt,
    mode: str | None,
    outside: Outside,
    many: Unmergeable | None,
    holders: list[tuple[Any, list[Any]]],
) -> Traced:
    stack = active_builders()
    outer = parent or (stack[-1] if stack else None)
    where = definition_line(f)
    name = function_name(f)
    reading = attempt.reading if outer is None else None
    arrays = [] if reading is None else reading.captured
    names = traced_input_names([paths[place] for place in traced] + [captured.name for captured in arrays])
    types = [traced_type(leaves[place], where) for place in traced]

    def run(path: Path) -> Run:
        builder = path.builder = Builder(outer)
        builder.path = path
        if attempt.patient:
            builder.patience = attempt.patient // WORK + 1
            builder.tired = functools.partial(check_patience, [0, 0], attempt.patient)
        filled, attempt.given, attempt.integers = list(leaves), {}, {}
        for place, called, (shape, code) in zip(traced, names, types, strict=False):
            symbol = builder.input(called, shape, "d" if code == "?" else code, paths[place])
            own, order = own_dtype(leaves[place]), traced_order(leaves[place])
            truths = own is not None and own.kind == "b"
            known = own is None or (isinstance(leaves[place], np.ndarray) and not shape)
            kind = traced_argument_kind(leaves[place]) if known else getattr(leaves[place], "kind", NUMPY)
            filled[place] = made = (Tracer if own is None or truths else Integer).argument(builder, symbol, kind, order)
            attempt.given[id(made)] = made, leaves[place]
            taken = taken_dtype(leaves[place])
            if taken is not None and taken.kind in "fc":
                made.given_as(taken)
            if own is not None:
                path.discrete.add(symbol)
                path.reaches(symbol, *_range_of(own))
            if (counted := own if own is not None and not truths else integer_dtype(leaves[place])) is not None:
                attempt.integers[symbol] = counted
                made.note_integers(counted)
            if truths:
                filled[place] = (made != 0).of_kind(kind) if known else made != 0
        if reading is not None:
            reading.begin(builder, names[len(traced) :])
        args, kwargs = structures.unflatten(tree, filled)
        standing = structures.containers((args, kwargs)) if holders else []
        attempt.holders = {id(made): (made, own) for (made, _), (own, _) in zip(standing, holders, strict=True)}
        depth = len(stack)
        stack.append(builder)
        try:
            with noted_errors() as refusals, nullcontext() if attempt.keeping is None else attempt.keeping.watching():
                result = contextvars.copy_context().run(_alone, followed_calls(f, attempt), args, kwargs)
                if holders:
                    _check_given_twice(standing, holders, where)
                if attempt.keeping is not None and attempt.keeping.collected:
                    result = structures.map_leaves(plain_list, result)
                done = Run(builder, *traced_outputs(result, builder, name, where))
        except Exception as error:
            kept = path.problem or (refusals[0] if refusals and not isinstance(error, SymdiffError) else _hidden(error))
            if kept is not None:
                raise kept from None
            if isinstance(error, IndexError):
                raise _explained(error) from None
            raise
        else:
            if path.problem is not None or refusals:
                raise path.problem or refusals[0]
            return done
        finally:
            del stack[depth:]

    def tired(many: Unmergeable | None) -> None:
        if attempt.looped:
            raise Tired(many)

    given = [leaves[place] for place in traced] + ([] if reading is None else reading.arrays)
    found, notes = followed(run, mode, given, outer, outside, tired if attempt.patient else None, many)
    doc = inspect.getdoc(f) or ""
    graph = found.builder.graph(name, found.outputs, found.out_tree, origin=where, doc=doc, notes=notes)
    if attempt.keeping is not None:
        counted = [b.params.counted for b in graph.bindings if b.op == "loop" and b.params.tested]
        if len(counted) > len(set(counted)):  # those of several paths
            raise attempt.keeping.unkept("its rounds are counted on several paths of the function")
        graph.notes[LOOPS] = attempt.keeping.told()
    if attempt.followed:
        graph.notes[FOLLOWED] = ", ".join(
            f"{name} {sys.modules[name.lower()].__version__}" for name in sorted(attempt.followed)
        )
    if reading is not None:
        _keep_read(graph, reading, len(traced))
    return Traced(graph, traced, found.builder.captured, tuple(attempt.known), attempt.kinds, attempt.compared)


def _check_given_twice(standing: list[Any], holders: list[Any], where: str) -> None:
    """Refuse functions that change a container or object which is given twice: the changes would be seen in one place alone."""
    counts = Counter(id(own) for own, _ in holders if type(own) is not tuple)
    for (made, before), (own, _) in zip(standing, holders, strict=True):
        if counts[id(own)] > 1:
            now = structures.containers(made)[0][1]
            if len(now) != len(before) or any(a is not b for a, b in zip(now, before, strict=True)):
                raise TraceError(f"{where}: changes a {type(own).__name__} that is given twice; give a copy in one place")


def _hidden(error: BaseException) -> BaseException | None:
    """What ended the run, where the function's own `finally`, which it passed, has raised this in place of it."""
    before = error.__context__
    while before is not None and (isinstance(before, Exception) or not type(before).__module__.startswith("symdiff.")):
        before = before.__context__
    return before


def _alone(f: Function, args: Arguments, kwargs: Keywords) -> Any:
    """A call in a context of its own, whose settings end with it."""
    decimal.setcontext(decimal.getcontext().copy())
    return f(*args, **kwargs)


def _keep_read(graph: Graph, reading: Reading, place: int) -> None:
    """Leave those captured arrays as inputs that the graph reads."""
    branches = branches_of(graph)
    graphs = [graph] if branches is None or branches.conditions is None else [graph, branches.conditions]
    symbols = {o.atom for g in graphs for o in g.outputs} | {o for g in graphs for b in g.bindings for o in b.operands}
    inputs, arrays = reading.used(graph.inputs, symbols)
    for g in graphs:
        g.inputs = inputs
    if arrays:
        graph.notes[KEY] = Hidden(place, arrays)


def traced_input_names(paths: list[str]) -> list[str]:
    """Different Python identifiers for argument paths."""
    used: dict[str, None] = {}
    for path in paths:
        name = traced_path_name(path)
        while name in used:
            name += "_"
        used[name] = None
    return [*used]


def _explained(error: IndexError) -> Exception:
    """The same error, or a `TraceError` where NumPy's says nothing of its cause: that the index is a traced number."""
    if "valid indices" not in str(error):
        return error
    places = traceback.extract_tb(error.__traceback__)
    place = next((p for p in reversed(places) if name_unless_library(p.filename)), places[-1])
    where = Line.of(place.filename, place.lineno)
    return TraceError(f"{where}: an index must be an integer: write int(x), or x.astype(int) for an array of them")


def traced_outputs(result: Any, builder: Builder, name: str, where: str) -> tuple[tuple[GraphOutput, ...], Any]:
    """The result's leaves as outputs of the builder, and its structure."""
    leaves, tree = structures.flatten(result, none_is_leaf=True)
    if not leaves:
        raise TraceError(f"{where}: {name} returns no number or array")
    if holds_traced_inside(structures.states(result)):
        raise TraceError(
            f"{where}: {name} returns an object that holds a traced value beside the fields that its constructor takes; let it "
            "take all of them, compute the others in a property, or return numbers"
        )
    outputs = []
    for i, leaf in enumerate(leaves):
        if leaf is None or isinstance(leaf, (str, bytes)) or callable(leaf):
            raise TraceError(f"{where}: {name} returns {type(leaf).__name__}; return numbers, arrays, lists or tuples of them")
        atom = traced_atom(leaf, builder, where)
        if atom.op == "const" and (code := getattr(leaf, "dtype", np.dtype(float))).char in "egG":
            raise TraceError(f"{where}: {name} returns {code}; convert it by astype(float)")
        if isinstance(atom, ArrayConstant) and atom.value.size > CELLS:
            atom = array_atom(atom.value.astype(np.dtype(atom_dtype(atom.value.dtype))))
        elif isinstance(atom, ArrayConstant):
            atom = builder.array([Constant(v) for v in atom.value.ravel().tolist()], atom.shape, atom_dtype(atom.value.dtype))
        elif isinstance(atom, Constant) and isinstance(atom.value, int):
            atom = Constant(atom.value, "?") if isinstance(atom.value, bool) else Constant(float(atom.value))
        outputs.append(GraphOutput("f" if len(leaves) == 1 else f"f{i}", atom))
    return tuple(outputs), tree


def function_signature(f: Function) -> inspect.Signature | None:
    """The signature of a function, None where Python does not know it, or where a transform adds arguments."""
    if not getattr(f, "keeps_signature", True):
        return None
    try:
        return inspect.signature(f)
    except (TypeError, ValueError):
        return None


def traced_argument_paths(f: Function, args: Arguments, kwargs: Keywords) -> list[str]:
    """A readable path for every leaf of `(args, kwargs)`: x, m.W, p['a'][0]."""
    names = traced_argument_names(f, len(args))
    paths = []
    for accessor in structures.structure_paths((args, kwargs)):
        head = names[accessor[1].entry] if accessor[0].entry == 0 else str(accessor[1].entry)
        rest = accessor[2:]
        paths.append(head + "".join(entry.codify("") for entry in rest))
    return paths
