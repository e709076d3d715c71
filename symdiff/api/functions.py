"""The callable behind every transform: flattening, specialising, calling, and looking inside.

Assumes deterministic functions of numbers and arrays in nested containers. Guarantees one specialisation for each
signature (structure, shapes, dtypes, static values), made on the first call and kept; thread-safe calls; fresh results.
Refuses wrong arguments with errors that name the function's file and line.
"""

import copy
import inspect
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import optree

from symdiff.api.arguments import (
    Call,
    is_differentiable_argument,
    is_integer_argument,
    is_own,
    on_device,
)
from symdiff.api.compiled import (
    Compiled,
    Guarded,
    Kept,
    add_specialisation,
    compiled_of,
    kept_specialisation,
    try_specialisation,
)
from symdiff.api.contents import moving_call, refused_inputs
from symdiff.api.device import DeviceCompiled, Near, Placed, check_device, placed_on_device, shorter_device_call
from symdiff.api.expressions import argument_function, argument_positions, formula_of
from symdiff.api.fitting import SizedCompiled
from symdiff.api.forms import Forms, setting
from symdiff.api.sizing import graphs_for_sizes
from symdiff.codegen.source import MISS
from symdiff.differentiation.mapping import loops_as_arrays, loops_pay
from symdiff.errors import (
    ArgumentError,
    BackendError,
    InvariantError,
    OptionError,
    ShapeError,
    SymdiffError,
    TraceError,
    forgive_error,
)
from symdiff.ir.building import Builder, active_builders
from symdiff.ir.graph import Derivation, Graph, derivation_of, note_derivation, note_written
from symdiff.ir.hidden import NONE, Captured, Hidden, Replaced
from symdiff.ir.node import has_loops
from symdiff.pipeline import Options, program_of
from symdiff.rulebooks.declared import depend_on_rules, rules_in_force
from symdiff.runtime import engine
from symdiff.runtime.fastcall import Machine
from symdiff.runtime.guards import Door, Given, Guard, guarded, machine_guards_fit
from symdiff.runtime.vectorcall import direct_vectorcall, vectorcall_table_offset, with_vectorcall, without_vectorcall
from symdiff.simplification.activity import work_of_columns
from symdiff.tracing.captures.watching import Moved, Watch
from symdiff.tracing.following.following import followed_error_line
from symdiff.tracing.loops.keeping import IN_FILES
from symdiff.tracing.replaying import decide_again, innermost, replay
from symdiff.tracing.state.attempt import beside_traces, need_all_contents
from symdiff.tracing.state.raising import check_signal
from symdiff.tracing.trace import OwnArray, definition_line, function_name, function_signature, signature_of_input, trace_leaves
from symdiff.tracing.unrolling.scalarizing import UNROLLED, WHOLE, settled
from symdiff.tracing.values.kinds import IDENTITY, INTEGERS, LAYOUT, SCALARS, traced_argument_kind
from symdiff.tracing.values.layouts import traced_layout, traced_order
from symdiff.tracing.values.tracer import Tracer
from symdiff.vocabulary import structures
from symdiff.vocabulary.choices import COMMON, LOOPING, TARGETS, check_options, is_integer_option, target_of
from symdiff.vocabulary.libraries import hide_frames, is_library, user_line
from symdiff.vocabulary.locks import free_in_children
from symdiff.vocabulary.plain import own_class, packed
from symdiff.vocabulary.seams import Seam

costed = Seam("the cost of a derivative")
read = Seam("the reading form of a derivative")
read_page = Seam("the page of a derivative")
exported_source = Seam("the file of a derivative")
stored = Seam("a file on the disk")
REPLACED = 100  # calls that are begun anew because another thread replaces what the function captures
COLUMNS = 16  # of a Jacobian up to which zeros among them are not worth rounds that are written out
LONGEST = 20_000  # operations of a derivative by many columns, from which on they are
LONG = "long"  # a note of graphs
_OF_PROCESS = "_lock _threads _door _near _forms _watch _machines _guards _guard _looked".split()
GUARDS = 8  # short ways of one function that are kept beside the one in use, for calls that alternate
_OURS = "{}: {}: {}: traced values do not take this here, where f itself does; write it with plain NumPy, on a copy: y.copy()"
_MISSED = (ZeroDivisionError, OverflowError, ValueError, TypeError, BufferError, TraceError)


def _owns_out(f: Callable[..., Any], signature: inspect.Signature | None) -> bool:
    """Whether a function of the user's has an argument that `out=` would give: a library's is the array for its result."""
    if isinstance(f, Function):
        return f.owns_out
    found = None if signature is None else signature.parameters.get("out")
    if found is None or found.kind not in (found.POSITIONAL_OR_KEYWORD, found.KEYWORD_ONLY):
        return False
    code = getattr(inspect.unwrap(f), "__code__", None)
    if code is None:
        return (getattr(f, "__module__", None) or type(f).__module__).partition(".")[0] not in ("numpy", "scipy")
    return not is_library(code.co_filename)


class Function:
    """A derivative (or a traced function) as a callable; see the functions of this module for what each computes."""

    differentiates = True
    choices: tuple[str, ...] = ()  # options beside those that all have
    hides = True  # larger arrays that the function captures are inputs
    keeps_loops = True  # of long functions, by themselves
    has_columns = False  # for each differentiated number, which all pass through the rounds of loops that are kept
    is_second = False  # whether these are second derivatives
    keeps_signature = True
    extra = 0

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        made: Self = object.__new__(with_vectorcall(cls))
        return made

    def __init__(
        self,
        f: Callable[..., Any],
        argnums: int | Sequence[int] = 0,
        **options: Any,
    ) -> None:
        f = argument_function(f)
        self.expression = formula_of(f)
        if self.expression is not None:
            argnums = argument_positions(self.expression, argnums)
        known = ("argnums", *self.choices, *COMMON) if self.differentiates else (*self.choices, *COMMON)
        check_options(self.suffix or "the function", {"argnums": argnums} | options if self.differentiates else options, known)
        exact, fastmath = bool(options.get("exact", False)), bool(options.get("fastmath", False))
        if exact and fastmath:
            raise OptionError(f"{user_line()}: {self.suffix}: exact=True and fastmath=True exclude each other")
        self.f = f
        self.argnums = int(argnums) if is_integer_option(argnums) else tuple(map(int, argnums))  # type: ignore[arg-type]
        self.rules = options.get("rules")
        self.options = Options(exact, fastmath)
        self.backend = options.get("backend", "auto")
        self.scalarize = options.get("scalarize")
        self.paths = options.get("paths")
        self.loops = options.get("loops")
        self.frozen = bool(options.get("frozen", False))
        self.signature = function_signature(f)
        self.owns_out = _owns_out(f, self.signature)
        self.name = function_name(f)
        self.where = definition_line(f)
        self.__name__ = f"{self.name}_{self.suffix}" if self.suffix else self.name
        self.__doc__ = inspect.getdoc(f)
        self.__wrapped__ = f
        self._compiled = Kept()
        self.traced_last: Graph | None = None
        self._kinds = 0  # what the function has asked of the kinds of its arguments
        self._compared: list[Any] = []  # what it has asked to be one of them
        self._contents: dict[Any, Any] = {}
        self._start()

    suffix = ""

    def _start(self) -> None:
        """What neither copies nor pickles have."""
        self._machines: set[Any] = set()
        self._guards: dict[Any, Guard] = {}
        self._guard: Guard | None = None
        self._looked: tuple[Watch, int] | None = None  # what is looked at before machine code is called
        self._door: Callable[..., Any] | None = None
        self._forms: Forms | None = None
        self._lock = threading.RLock()
        free_in_children(self._lock)
        self._threads = threading.local()
        self._watch = self._watching()
        self._near: Near | None = None
        depend_on_rules(self)

    def _watching(self, earlier: Watch | None = None) -> Watch:
        """What the function captures; nothing where it is frozen: each specialisation keeps what it read when it was made."""
        return Watch(len) if self.frozen else Watch(self.f, earlier)

    def positions(self, count: int) -> tuple[int, ...]:
        """The differentiated argument positions, negative ones counted from the end."""
        wanted = (self.argnums,) if isinstance(self.argnums, int) else self.argnums
        for n in wanted:
            if not -count <= n < count:
                raise ShapeError(f"{self.where}: argnums={self.argnums}, but {self.name} is called with {count} arguments")
        found = tuple(n % count for n in wanted)
        if len(set(found)) < len(found):
            raise ShapeError(f"{self.where}: argnums={self.argnums} names an argument of {self.name} twice")
        return found

    # -- calling

    def __call__(self, /, *args: Any, out: Any = None, **kwargs: Any) -> Any:
        if out is not None and self.owns_out:
            raise ArgumentError(
                f"{user_line()}: {self.name} ({self.where}) has an argument `out` of its own, so that out= may mean that one "
                "or the array for the result; give the argument by position, or another name"
            )
        watch = self._watch
        if self._door is not None and not kwargs and not watch.elsewhere:
            self.refresh()
            found = _tried(self._door or _declined, args, out)
            if found is not MISS and self._is_own(watch):
                return found
        return self._long_way(*args, out=out, **kwargs)

    def refresh(self) -> None:
        """Drop what was traced, where a value that the function captures has changed."""
        if self._watch and self._watch.changed():
            self._forget()

    def outdate(self) -> None:
        """A rule is declared: the next call drops what was traced."""
        self._watch.incomplete = True
        direct_vectorcall(self, 0)

    def _forget(self) -> None:
        """Drop what was traced."""
        with self._lock:
            self._door = self._near = self._guard = None
            self._forms = None
            direct_vectorcall(self, 0)
            self._machines = {machine for machine in self._machines if machine.running}
            self._guards = {key: guard for key, guard in self._guards.items() if guard.running}
            self._compiled.clear()
            self._contents = {}
            self._watch = self._watching(self._watch)

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Any:
        call, watch = Call(self, args, kwargs, self.extra), self._watch
        if call.has_settings and not active_builders():
            call = moving_call(self, call, self._contents)
        fed = self._fed(call)
        if active_builders() or any(isinstance(leaf, Tracer) for leaf in fed):
            inlined = self._inline(call, fed)
            if inlined is not None:
                return inlined[0]
            with beside_traces():
                return self._long_way(*args, out=out, **kwargs)
        if any(isinstance(leaf, Placed) for leaf in fed):
            found = self._on_device(call)
            result = found.call(fed, out)
            if structures.holds_settings(found.tree):
                return result if out is not None else structures.with_settings(result, call.given_leaves)
            self._approach(shorter_device_call(found, args, kwargs, fed), watch)
            return result
        key = self.signature_of(call)
        compiled, found = try_specialisation(self._compiled.get(key), fed, out)
        if compiled is None:
            compiled = self.specialised(call, key)
            found = compiled.attempt(fed, out)
            if found is MISS and isinstance(compiled, Guarded):  # rounded to the other side of a limit
                found = compiled.unchecked.call(fed, out)
        with self._lock:
            if self._is_kept(watch):
                self._open(call, args, kwargs, compiled)
        try:
            found = compiled.call(fed, out) if found is MISS else found
            if call.has_settings and out is None:
                return structures.with_settings(found, call.given_leaves)
            return found
        except Exception as error:
            refused = error
        self.run(call, fed)
        if call.has_settings and refused_inputs(self, call, self._contents):
            return self._call(args, kwargs, out)
        raise refused

    def _approach(self, near: Near | None, watch: Watch) -> None:
        """Take a short way from now on."""
        with self._lock:
            if self._is_kept(watch):
                self._near = near

    def _is_kept(self, watch: Watch) -> bool:
        """Whether what was made under a watch may be kept: unless another thread has found it stale, or reads other state."""
        return watch is self._watch and not watch.elsewhere

    def _is_own(self, watch: Watch) -> bool:
        """Whether what was found since this watch held is of what this thread reads."""
        return self._is_kept(watch) or not (watch.personal or self._watch.personal)

    def _keep(self, key: Any, made: Any, watch: Watch) -> Any:
        """A new specialisation, which is kept where it may be."""
        with self._lock:
            if self._is_kept(watch):
                self._compiled[key] = made
        return made

    def _on_device(self, call: Call) -> DeviceCompiled:
        """The specialisation for CuPy arrays."""
        key = ("device", self.signature_of(call))
        with self._lock:
            compiled = self._compiled.get(key)
            if compiled is None:
                built = self._built(call, "merge", hide=False)
                compiled = self._compiled[key] = DeviceCompiled(*built, self.options)
        return compiled

    def run(self, call: Call, fed: list[Any]) -> None:
        """The function as it stands, for the exception that it raises, which has the values in its message."""
        leaves = list(call.leaves)
        for place, leaf in zip(call.traced, fed, strict=False):
            leaves[place] = leaves[place] if is_own(leaves[place]) else leaf
        leaves = [leaf.plain if is_own(leaf) else leaf for leaf in leaves]
        args, kwargs = structures.unflatten(call.tree, leaves)
        self.f(*args, **kwargs)

    def _fed(self, call: Call) -> list[Any]:
        """The leaves that the graph takes as inputs, in order."""
        own = [call.leaves[i] for i in call.traced]
        return [leaf.view(np.ndarray) if type(leaf) is OwnArray else leaf for leaf in own] + self._extra_leaves(call)

    def extra_places(self, call: Call) -> list[int]:
        """Which leaves of what stands after the function's own arguments the graph takes."""
        return [k for k, leaf in enumerate(structures.all_leaves(call.extra)) if is_differentiable_argument(leaf)]

    def _extra_leaves(self, call: Call) -> list[Any]:
        if not self.extra:
            return []
        given = structures.all_leaves(call.extra)
        return [given[k] for k in self.extra_places(call)]

    @property
    def compares(self) -> bool:
        """Whether the function has asked which object an argument is or how it lies, which no short way looks at."""
        return bool(self._kinds & (IDENTITY | LAYOUT))

    @property
    def asks_kinds(self) -> bool:
        """Whether the function has asked of which kinds its arguments are."""
        return bool(self._kinds)

    def signature_of(self, call: Call) -> Any:
        """What calls of one specialisation have in common."""
        chosen, lies = set(call.traced), traced_layout if self.compares else traced_order
        parts = [
            (*signature_of_input(leaf, self.where), lies(leaf), self._kinds and (traced_argument_kind(leaf), own_class(leaf)))
            if i in chosen
            else (type(leaf), setting(leaf), self.compares and isinstance(leaf, np.ndarray) and lies(leaf))
            for i, leaf in enumerate(call.leaves)
        ]
        if self._kinds & IDENTITY:
            holders = [own for own, _ in structures.containers(call.given)]
            places = {id(value): i for i, value in enumerate([*call.leaves, *holders, *self._compared])}
            parts += [(places[id(value)],) for value in (*(call.leaves[i] for i in call.traced), *holders)]
        return (call.tree, tuple(call.marks), tuple(parts), tuple(call.wrt))

    def specialised(self, call: Call, key: Any, mode: str | None = None) -> Compiled:
        """A new specialisation, or a kept one whose path turns out to be taken."""
        with self._lock:
            earlier = self._compiled.get(key)
            if earlier is not None and not isinstance(earlier, Guarded):
                return earlier  # another thread was faster
            kinds = self._kinds
            graph = self._traced_at(call, (mode or self.paths) if earlier is None else "guard")
            if kinds != self._kinds:  # earlier results were kept without the kinds of their arguments
                self._compiled.clear()
                self._door, self._forms = None, None
                direct_vectorcall(self, 0)
                key, earlier = self.signature_of(call), None
            compiled: Compiled | None = kept_specialisation(earlier, graph)
            if compiled is None:
                compiled = self._compiled_at(call, graph)
                dropped = self._compiled.dropped
                if not self._watch.elsewhere:
                    self._compiled[key] = add_specialisation(compiled, earlier)
                if self._compiled.dropped > dropped:
                    self._forms = None
        return compiled

    def _compiled_at(self, call: Call, graph: Graph) -> Compiled:
        """A graph's derivative compiled; loops that were kept by themselves are written out where that is better."""
        kept = self.loops is None and has_loops(graph.bindings)
        try:
            derived = self._derived(call, graph)
            if not kept or LONG in graph.notes or loops_pay(derived[0]):
                compiled = compiled_of(*derived, self.options, self.backend)
                if not kept or compiled.has_code:
                    return compiled
        except SymdiffError:
            if not kept:
                raise
        return compiled_of(*self._built(call, self.paths), self.options, self.backend)

    def _open(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any], compiled: Compiled) -> None:
        """Let later calls like this one take a short way to a specialisation: machine code itself, or by the form of their
        arguments.
        """
        if self.compares or call.is_foreign or compiled.door is None:
            return
        flat = all(p.isidentifier() for p in call.paths) and len(self._extra_leaves(call)) == len(call.extra)
        in_order = not any(traced_order(call.leaves[i]) for i in call.traced)
        fits = not call.has_settings and in_order and (not self._kinds or self._fits_doors(call, compiled))
        if fits and flat and compiled.direct and not kwargs:
            self._door = compiled.entry
            if compiled.machine is not None:
                self._quicken(compiled.machine, compiled.hidden)
            else:
                self._quicken(guarded_door(self._door))
            if not any(is_integer_argument(arg) or packed(arg) is not arg for arg in args):
                return
        form, way = call.form(self, args, kwargs), compiled.leaf_door
        if self.owns_out or form is None or way is None:
            return
        self._forms = self._forms or Forms()
        self._forms.like(form, args, kwargs).add(structures.all_leaves((*args, *kwargs.values())), way, compiled.has_settings)
        exactly = in_order and not self._kinds and compiled.direct and isinstance(compiled.machine, Machine)
        given = form.given(args, kwargs) if exactly else None
        stays = self._door is not None and (bool(kwargs) or self._door is compiled.entry)
        if given is not None and not stays:
            self._door = None
            self._quicken(compiled.machine, compiled.hidden, given)
        elif self._door is self._forms.door or not (stays or kwargs):
            self._door = self._forms.door
            self._quicken(guarded_door(self._door))  # also where it is that already: there may be more to look at

    def _fits_doors(self, call: Call, compiled: Any) -> bool:
        """Whether doors, which take numbers of any kind, may stand where kinds matter: machine code declines arrays."""
        kinds = [traced_argument_kind(call.leaves[i]) for i in call.traced]
        arrays = any(kind.array and kind.given for kind in kinds)
        return not self._kinds & (SCALARS | INTEGERS) and compiled.machine is not None and not arrays

    def _quicken(self, machine: Any, hidden: Hidden = NONE, given: Given | None = None) -> None:
        """Calls go to machine code first, and are `_declined` by it. The code lives as long as this object."""
        self._guard, self._looked = None, None
        direct_vectorcall(self, 0)  # another thread may call meanwhile
        self._machines = {machine, *(m for m in self._machines if m.running)}  # what a call is in cannot be freed
        old = list(self._guards.items())
        self._guards = dict([*(pair for pair in old[:-GUARDS] if pair[1].running), *old[-GUARDS:]])
        if self.owns_out:
            direct_vectorcall(self, 0)
        elif not self._watch and given is None and not isinstance(machine, Door):
            self._looked = self._watch, self._watch.version
            direct_vectorcall(self, machine.vectorcall)
            if self._watch.incomplete:  # a rule was declared meanwhile
                direct_vectorcall(self, 0)
        else:
            self._guarded(machine, hidden, given)

    def _guarded(self, machine: Machine, hidden: Hidden, given: Given | None) -> None:
        """Machine code after a look at what the function captures."""
        offset = vectorcall_table_offset(self)
        fixed = () if given is None else (given.names, *((at, id(value)) for at, value in given.fixed.items()))
        looked = self._watch, self._watch.version
        key = (machine, *looked, fixed)
        found = self._guards.get(key)
        address = 0
        owner = 0 if isinstance(machine, Machine | Door) else id(self)  # what declines itself asks its owner for the long way
        if offset is not None and machine_guards_fit() and not engine.supported():
            if found is None:
                found = Guard(machine, self._watch.rows(), hidden.place, hidden.arrays, Captured, owner, given)
                if self._watch.changed():  # while the guard took down what holds
                    return
                self._guards[key] = found
            address = guarded(offset)
        self._guard, self._looked = found, looked
        direct_vectorcall(self, address, found.address if address and found is not None else 0)
        if self._watch.incomplete:  # a rule was declared meanwhile
            direct_vectorcall(self, 0)

    def _declined(self, /, *args: Any, out: Any = None, **kwargs: Any) -> Any:
        """The way of arguments that machine code does not take, after a look at what the function captures."""
        watch = self._watch
        looked = not watch.elsewhere and self._looked == (watch, watch.version)
        found = self._short_way(args, kwargs, out) if looked else MISS
        return self._long_way(*args, out=out, **kwargs) if found is MISS else found

    def _short_way(self, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Any:
        """The result by the way that arguments of this form took before, or `MISS`."""
        forms = self._forms  # another thread may drop them meanwhile
        return MISS if forms is None else _tried(forms.named_door(kwargs), (*args, *kwargs.values()), out)

    def _long_way(self, /, *args: Any, out: Any = None, **kwargs: Any) -> Any:
        for _ in range(REPLACED):
            if self._watch.elsewhere:
                break
            guard = self._guard
            versions = [] if guard is None else guard.versions()
            self.refresh()  # other specialisations may capture what the fast one does not
            watch = self._watch
            if guard is not None and guard is self._guard:
                guard.refresh(versions)
            try:
                found = self._any_way(args, kwargs, out)
            except Exception as error:
                traced = isinstance(error, TraceError)
                again = traced and (isinstance(error, Replaced) or (self._watch and self._watch.changed()))
                if self._is_own(watch) and (not again or isinstance(error, Moved)):
                    hide_frames(error)
                    raise
                if isinstance(error, SymdiffError):
                    forgive_error(error)
            else:
                if self._is_own(watch):
                    return found
            # another thread has replaced what the function captures
        else:
            return self._any_way(args, kwargs, out)
        own = getattr(self._threads, "own", None)
        if own is None:
            own = self._threads.own = self.apart()
        return own(*args, out=out, **kwargs)

    def apart(self) -> "Function":
        """The same without what was traced, for a thread that has its own of what the function reads."""
        return copy.copy(self)

    def _any_way(self, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Any:
        found = self._short_way(args, kwargs, out)
        if found is not MISS:
            return found
        shorter = self._near  # another thread may drop it meanwhile
        if shorter is not None and not kwargs and not active_builders():
            found = shorter(args, out)
            if found is not MISS:
                return found
        device = on_device(args, kwargs)
        if device or self.backend == "cupy":
            check_device(self.backend, device, self.name)
            args, kwargs = placed_on_device((args, kwargs))
        return self._call(args, kwargs, out)

    def __reduce__(self) -> Any:
        return _blank, (without_vectorcall(type(self)),), self.__getstate__()

    def _traced(self, call: Call, parent: Builder | None, mode: str | None = None, hide: bool = True, backend: str = "") -> Any:
        """The function traced; with `hide`, larger arrays that it captures become inputs, else they are constants.

        Loops are kept where the option says so and the `backend` can take them, in long functions by themselves, written out
        elsewhere.
        """
        mode = mode or self.paths
        watch, hide = None if self.frozen else self._watch, hide and self.hides
        where = call.leaves, call.tree, call.traced, call.paths
        try:
            in_file = mode == "merge" and backend in TARGETS
            loops = self._loops_for(backend, call, in_file)
            traced = trace_leaves(self.f, *where, parent, self._rules(), mode, watch, hide, loops, _holding(call))
            is_long = loops is None and self._may_keep(call, backend) and self._is_long(traced, call)
            if is_long:  # the derivative, with its rounds written out
                shorter = trace_leaves(self.f, *where, parent, self._rules(), mode, watch, hide, "keep", _holding(call))
                is_long = has_loops(shorter.graph.bindings)
                traced = shorter if is_long else traced
        except Exception as error:
            if watch is not None and isinstance(error, (NameError, AttributeError)):
                watch.incomplete = True
            hide_frames(error)
            raise
        self._kinds |= traced.kinds
        self._compared += [value for value in traced.compared if not any(value is known for known in self._compared)]
        differentiated = sum(math.prod(traced.graph.inputs[k].node.shape) for k in _wrt_inputs(call))
        written = traced.graph
        most = 0 if is_long else IN_FILES if in_file and has_loops(written.bindings) else UNROLLED
        if is_long:
            written.notes[LONG] = True
        traced.graph = settled(written, False if call.whole else self.scalarize, differentiated, most)
        if call.whole:
            traced.graph.notes[WHOLE] = True
        note_written(traced.graph, written)
        return traced

    def _loops_for(self, backend: str, call: Call, in_file: bool) -> str | None:
        """Which loops are kept, see `trace_leaves`."""
        if not self._may_keep(call, backend):
            return None
        if call.whole:
            return "keep"
        columns = sum(math.prod(getattr(call.leaves[i], "shape", ())) for i in call.wrt) if self.has_columns else 0
        kept = "file" if in_file else "auto"
        return self.loops or (kept if self.keeps_loops and columns <= COLUMNS else None)

    def _may_keep(self, call: Call, backend: str) -> bool:
        written_out = self.options.exact or self.scalarize or self.loops == "unroll"
        return not written_out and (call.whole or backend in LOOPING)

    def _is_long(self, traced: Any, call: Call) -> bool:
        """Whether a derivative by many columns would be long, written out."""
        if not self.has_columns or not self.keeps_loops:
            return False
        wrt = [traced.graph.inputs[k].node for k in _wrt_inputs(call)]
        return work_of_columns(traced.graph, wrt, self.is_second) > LONGEST

    def _rules(self) -> Any:
        return rules_in_force(self.rules)

    def _built(self, call: Call, mode: str | None = None, hide: bool = True, backend: str = "") -> tuple[Graph, Any]:
        return self.stages(call, mode, hide, backend)[1:]

    def stages(
        self, call: Call, mode: str | None = None, hide: bool = True, backend: str = "",
        finish: Callable[[Graph], Graph] | None = None,
    ) -> tuple[Graph, Graph, Any]:  # fmt: skip
        """The graph of the function, that of the transform and the structure of its result; where arguments name sizes, the
        graphs for any size, with that of the transform after `finish`.
        """
        if not call.is_sized():
            traced = self._traced(call, None, mode, hide, backend)
            if traced.captured:
                need_all_contents()
            derived, tree = self._derived(call, traced.graph)
            if self.loops is None and not call.whole and not loops_pay(derived):
                return self.stages(call, mode, hide)
            return traced.graph, derived, tree
        if self.scalarize:
            raise TraceError(f"{self.where}: scalarize=True takes numbers for sizes; {self.name} is asked for with names")
        trees = []

        def at(sizes: Mapping[str, int]) -> tuple[Graph, ...]:
            primal, derived, tree = self.stages(call.at(sizes), mode, hide, backend)
            trees.append(tree)
            if finish is not None:
                finished = finish(derived)
                finished.notes |= derived.notes
                derived = finished
            return (primal,) if derived is primal else (primal, derived)

        graphs = graphs_for_sizes(self.where, call.leaves, at)
        primal, derived = graphs[0], graphs[-1]
        if (derivation := derivation_of(derived)) is not None:
            note_derivation(derived, derivation._replace(primal=primal))
        self.traced_last = derived
        return primal, derived, trees[0]

    def _traced_at(self, call: Call, mode: str | None, hide: bool = True) -> Graph:
        """The function's graph for a call; where the function raises, its own exception."""
        try:
            traced = self._traced(call, None, mode, hide, self.backend if hide else "")
            if traced.captured:
                need_all_contents()
            return traced.graph  # type: ignore[no-any-return]
        except (SymdiffError, InvariantError):
            raise
        except Exception as error:
            check_signal(error)
            met = error
        self.run(call, [])
        raise TraceError(_OURS.format(followed_error_line(met), type(met).__name__, met)) from met

    def _derived(self, call: Call, primal: Graph) -> tuple[Graph, Any]:
        wrt = _wrt_inputs(call)
        derived = self.derive(primal, wrt)
        self.traced_last = derived
        if derived is not primal:
            note_derivation(
                derived, Derivation(self.suffix, primal, tuple(wrt), getattr(self, "order", 1), self.rules, call.point())
            )
        if not self.frozen:
            self._watch.require_unmoved(self.where)  # by the bodies of rules
        return derived, self.tree(call, primal)

    def _inline(self, call: Call, fed: list[Any]) -> tuple[Any] | None:
        """The result as traced values of the enclosing trace; None when no traced value takes part."""
        parent = innermost(fed)
        traced = self._traced(call, parent)
        if parent is None and not traced.captured:
            return None
        if parent is None or traced.captured:
            parent = max([t.builder for t in traced.captured] + ([parent] if parent else []), key=lambda b: b.level)
        wrt = _wrt_inputs(call)
        captured = traced.captured
        own = len(call.traced)
        graph = self.derive(traced.graph, wrt)
        sources = [*fed[:own], *captured, *fed[own:]]
        decide_again(traced.graph, sources, parent, user_line())
        flat = replay(graph, sources, parent, user_line())
        tree = self.tree(call, traced.graph)
        return (flat[0] if tree is None else structures.unflatten(tree, flat),)

    # -- what the kinds of derivative say

    def derive(self, graph: Graph, wrt: list[int]) -> Graph:
        """The Graph of this transform, from the traced function's."""
        return graph

    def tree(self, call: Call, graph: Graph) -> Any:
        """The structure of the result, None for a single leaf."""
        return graph.out_tree

    def _by_argument(self, call: Call, leaf_tree: Any = None) -> Any:
        """A structure like the differentiated arguments, `leaf_tree` at each leaf."""
        args = structures.unflatten(call.tree, range(len(call.leaves)))[0]
        count = len(args)
        chosen = set(call.wrt)
        inner = 0 if leaf_tree is None else leaf_tree

        def shaped(position: int) -> Any:
            return structures.map_leaves(
                lambda i: inner if i in chosen else structures.Kept(call.setting(i)), args[position % count]
            )

        if isinstance(self.argnums, int):
            return shaped(self.argnums)
        return tuple(shaped(n) for n in self.argnums)

    # -- looking inside

    def own_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """The function's own arguments: a tangent, cotangent or vector after them is left away."""
        args = placed_on_device(args)
        if self.extra and self.signature is not None:
            try:
                self.signature.bind(*args[: -self.extra], **kwargs)
            except TypeError:
                return args
            return args[: -self.extra]
        return args

    def graph(self, /, *args: Any, **kwargs: Any) -> Graph:
        """The Graph of this function at example arguments (numbers, arrays, `Spec`s)."""
        return self._built(self._example(args, kwargs), backend=self.backend)[0]

    def _example(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        """The function's own arguments in an example call."""
        self.refresh()
        return Call(self, self.own_arguments(args, kwargs), placed_on_device(kwargs), 0)

    def compile(self, /, *args: Any, backend: str = "auto", **kwargs: Any) -> Compiled | DeviceCompiled | SizedCompiled:
        """A compiled specialisation at example arguments, for a backend; where `Spec`s name sizes, one for any.

        Captured numbers, and arrays whose contents the trace needed, stay in it as they are now; this function itself follows.
        """
        check_options(f"{self.__name__}.compile", {"backend": backend})
        call = self._example(args, kwargs)
        if call.is_sized():
            if backend == "cupy":
                raise BackendError(f"{self.where}: backend 'cupy' takes numbers in place of named sizes")
            finish = loops_as_arrays if backend == "numpy" else None
            return SizedCompiled(*self.stages(call, "merge", backend=backend, finish=finish)[1:], self.options, backend)
        if backend == "cupy":
            return DeviceCompiled(*self._built(call, "merge", hide=False), self.options)
        return compiled_of(*self._built(call, backend=backend), self.options, backend)

    def program(self, /, *args: Any, **kwargs: Any) -> Any:
        """The Program (numbered, shared instructions) at example arguments."""
        return program_of(self.graph(*args, **kwargs), self.options, self.__name__)

    def source(self, /, *args: Any, target: str = "numpy", **kwargs: Any) -> str:
        """The text of a stand-alone file for a target, "numpy", "python", "c", "cupy" or "cuda"."""
        check_options(f"{self.__name__}.source", {"target": target})
        return exported_source(self, args, kwargs, target).text

    def export(self, path: Any, *args: Any, target: str | None = None, **kwargs: Any) -> None:
        """Write a stand-alone file for a target, by default that of the path's suffix (.c, .cu, .cuh) or "numpy"; written
        whole or not at all. With target "c", a header stands beside it.
        """
        target = target_of(path) if target is None else target
        check_options(f"{self.__name__}.export", {"target": target})
        stored(path, exported_source(self, args, kwargs, target))

    def cost(self, /, *args: Any, **kwargs: Any) -> Any:
        """Operations of the function, of this derivative and of both together; see `sd.cost`."""
        return costed(self, args, kwargs)

    def plot(self, /, *args: Any, ax: Any = None, **kwargs: Any) -> Any:
        """The picture of the graph at example arguments, or the Axes that it is drawn into; see `Graph.plot`."""
        return self.graph(*args, **kwargs).plot(ax)

    def __repr__(self) -> str:
        return f"<{self.__name__} of {self.where}>"

    @property
    def formula(self) -> Any:
        """What a person would print for the derivative that was traced last; before the first call, how to see one."""
        return read(self)

    def _repr_latex_(self) -> str | None:
        formula = self.formula
        return formula.latex if formula.equations else None

    def _repr_html_(self) -> str:
        return read_page(self)  # type: ignore[no-any-return]

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(f"{self!r}\n{self.formula.unicode}")

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        for name in (*_OF_PROCESS, "signature"):
            del state[name]
        state["_compiled"], state["traced_last"], state["_contents"] = Kept(), None, {}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.signature = function_signature(self.f)
        self._start()


def _wrt_inputs(call: Call) -> list[int]:
    """The places of the differentiated leaves among those that are traced."""
    places = {i: k for k, i in enumerate(call.traced)}
    return [places[i] for i in call.wrt]


def _holding(call: Call) -> Any:
    """The arguments, where some are containers or objects."""
    return None if all(path.isidentifier() for path in call.paths) else call.given


def _tried(door: Callable[..., Any], args: tuple[Any, ...], out: Any) -> Any:
    """The result of a door; `MISS` where it raises, too: the long way finds out why, or computes what Python's math cannot."""
    if active_builders():  # traced values may be among the arguments, whose refusals the trace would note
        return MISS
    try:
        return door(*args, out=out)
    except _MISSED:
        return MISS


def guarded_door(door: Any) -> Door:
    """A door behind a look at what the function captures."""

    def through(*args: Any, out: Any = None, **named: Any) -> Any:
        return MISS if named else _tried(door, args, out)

    return Door(through, door)


def _declined(*args: Any, out: Any = None) -> Any:
    """The door of a function that has forgotten its traces."""
    return MISS


def _blank(kind: type[Function]) -> Function:
    """An instance without state, for copies and pickles."""
    return kind.__new__(kind)


class Plain(Function):
    """A function itself, traced and compiled."""

    differentiates = False

    def positions(self, count: int) -> tuple[int, ...]:
        return ()


def transform_tree(shape: Any) -> Any:
    tree = structures.structure(shape)
    return None if optree.treespec_is_leaf(tree) else tree
