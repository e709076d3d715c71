"""The stages in order: trace, differentiate, scalarize, number, share, plan, emit, load.

Assumes nothing beyond its stages' own invariants, which it checks between stages when `SYMDIFF_CHECK=1`. Guarantees
that stages are put together nowhere else, and that emitters are imported when they are first used. Refuses backends and
targets it does not know, with `BackendError`.
"""

import gc
import importlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from symdiff.codegen.llvm import parts as llvm_parts
from symdiff.codegen.llvm import scalar as llvm
from symdiff.codegen.python import has_single_precision, lacking_in_python
from symdiff.codegen.sizes import NAMES_OF_FILES, Sizes
from symdiff.codegen.source import MISS, Source
from symdiff.differentiation.lifting import lift_invariants
from symdiff.differentiation.mapping import loops_as_arrays
from symdiff.errors import BackendError, ExportError
from symdiff.ir.generalising import counts_in, example_graph, first_sizes
from symdiff.ir.graph import Graph, check_graph
from symdiff.ir.invariants import check_bindings
from symdiff.ir.joining import counted_apart, join_graphs, renamed_graph
from symdiff.ir.loops import sizes_of_binding
from symdiff.ir.node import Node, has_loops
from symdiff.lowering.arrays.fusing import Call, Fused, fuse
from symdiff.lowering.arrays.gathering import assemble_steps
from symdiff.lowering.arrays.nesting import Nest
from symdiff.lowering.arrays.plan import ArrayPlan, check_array_plan, writes
from symdiff.lowering.arrays.planning import plan_arrays
from symdiff.lowering.checking import check_program
from symdiff.lowering.expanding import computable, lower_fastmath
from symdiff.lowering.numbering import number, with_numbers
from symdiff.lowering.plan import Plan
from symdiff.lowering.program import Program, domain_size, is_nest, is_view_step, program_content, with_checks
from symdiff.lowering.sharing.sharing import share
from symdiff.lowering.small_matrices import with_small_matrices_as_cells
from symdiff.lowering.spectra import halved
from symdiff.lowering.walks import live_only
from symdiff.runtime import engine
from symdiff.runtime.fastcall import ARGUMENTS, Machine, is_native
from symdiff.runtime.loading import load
from symdiff.tracing.unrolling.scalarizing import UNROLLED, in_unrolled_regime, scalarize, settled, unroll_calls
from symdiff.vocabulary.choices import TARGETS
from symdiff.vocabulary.extents import extents_in, sizes_in
from symdiff.vocabulary.ops import dtype_of_code
from symdiff.vocabulary.traits import operations

# Machine code by statements: up to WHOLE it is one function; up to QUICK it is optimised once it is called often: that takes
# three to nine times as long, and makes it 1.0 to 1.4 times as fast, the more values wait in registers.
WHOLE, QUICK = 2_000, 20_000
EXAMPLES = 3  # of sizes, at which text for any size is the same


@dataclass(frozen=True, slots=True)
class Options:
    """How values may be rearranged: `exact` keeps operations and order, `fastmath` lets sums of values go, too."""

    exact: bool = False
    fastmath: bool = False


DEFAULT = Options()
_AT_PLACES = operations("takes_places")


def program_of(
    graph: Graph, options: Options = DEFAULT, name: str | None = None, checks: Graph | None = None, loops: bool = False,
    most: int = UNROLLED,
) -> Program | Fused:  # fmt: skip
    """The shared Program of a Graph, with the fewest operations that `options` allow; fused tasks for whole arrays.

    `checks` is a Graph over the same inputs, whose outputs become the Program's checks. With `loops`, those whose rounds can
    be taken at once stay loops, too, and whole arrays are a Program, small matrices by their cells; rounds are `settled` with
    `most`.
    """
    count = 0 if checks is None else len(checks.outputs)
    if checks is not None:
        checks = settled(checks)
        name, graph = name or graph.name, join_graphs(checks, counted_apart(graph, checks.bindings))
    graph = with_small_matrices_as_cells(graph) if loops else loops_as_arrays(graph)
    if has_loops(graph.bindings) or is_sized(graph) or (loops and not in_unrolled_regime(graph)):
        return looped_of(graph, options, name, count, most)
    if not in_unrolled_regime(graph):
        return fused_of(graph, options, name, count)
    checking = os.environ.get("SYMDIFF_CHECK") == "1"
    with without_collector():
        flat = unroll_calls(scalarize(graph))
        if checking:
            check_graph(flat)
            check_bindings(flat)
        program = number(flat, fold=not options.exact, name=name)
        if not options.exact:
            program = share(program, fastmath=options.fastmath, checks=count)
        program = with_checks(program, count) if count else program
        if checking:
            check_program(program)
    return program


def is_sized(graph: Graph | Program) -> bool:
    """Whether the arguments have sizes that a call tells."""
    return any(True for leaf in graph.inputs for _ in extents_in(leaf.shape))


def _looping(program: Program, what: str) -> str:
    """Why `what` does not take a program that has loops; "" where it has none."""
    if not is_nest(program):
        return ""
    return (
        f"{program.name}: loops whose rounds need each other, or whose number a call tells, are for machine code "
        f"and the targets python, numpy, c and cuda, for many points cupy; {what} takes loops of a known number of "
        "rounds written out (scalarize=True)"
    )


def looped_of(
    graph: Graph, options: Options = DEFAULT, name: str | None = None, checks: int = 0, most: int = UNROLLED
) -> Program:  # fmt: skip
    """The Program of a Graph with loops, whose bodies are programs: of numbers and shared, where there are only numbers. The
    first outputs are the program's `checks`.
    """
    with without_collector():
        whole = lift_invariants(computable(unroll_calls(graph), options.exact))

        def lowered(body: Graph) -> Program:
            body = body if any(sizes_of_binding(b) or _moves_cells(b) for b in body.bindings) else settled(body, most=most)
            found = program_of(body, options) if in_unrolled_regime(body) else looped_of(body, options, most=most)
            assert isinstance(found, Program)
            return found

        program = number(whole, fold=not options.exact, name=name, whole=True, lower=lowered)
        program = with_checks(program, checks) if checks else program
        if os.environ.get("SYMDIFF_CHECK") == "1":
            check_graph(whole)
            check_bindings(whole)
            check_program(program)
        return program


def _moves_cells(binding: Node) -> bool:
    """Whether cells of arrays are read or changed at places: written out, each is a choice between all cells."""
    inside = binding.params.body.bindings if binding.op == "loop" else ()
    return binding.op in _AT_PLACES or any(map(_moves_cells, inside))


def call_program_of(graph: Graph, options: Options, backend: str, checks: Graph | None = None) -> Program | Fused:
    """The Program of a Graph that a backend calls, `checks` as those of `program_of`. In machine code loops in loops stay,
    since arrays of all their rounds would be made and read again; NumPy has those. Plain Python has no arrays. Small arrays
    that NumPy would take a part in are one function of machine code, too, if it is no long one, but for small matrices, of
    which it tells singular ones.
    """
    if backend == "python":
        return program_of(graph, options, checks=checks, loops=True)
    machine = backend in ("auto", "native") and not options.exact
    if machine and has_loops(graph.bindings):
        stay = any(map(_has_loops_inside, graph.bindings)) or with_small_matrices_as_cells(graph) is not graph
        looped = program_of(graph, options, checks=checks, loops=stay)
        if isinstance(looped, Program) and not machine_problem(looped):
            return looped
    found = program_of(graph, options, checks=checks)
    if machine and isinstance(found, Fused) and _waits_for_calls(found) and with_small_matrices_as_cells(graph) is graph:
        looped = program_of(graph, options, checks=checks, loops=True)
        if isinstance(looped, Program) and _is_whole(looped) and not machine_problem(looped):
            return looped
    return found


def _is_whole(program: Program) -> bool:
    """Whether a program is short enough to be one function."""
    return sum(not is_view_step(node) for node in program.nodes) <= WHOLE


def _waits_for_calls(program: Fused) -> bool:
    """Whether NumPy has a part in tasks that take less time than calls from Python, and what is handed to these, one by one."""
    from symdiff.runtime.kernels import CALL, has_numpys_part

    nodes, tasks = program.program.nodes, program.tasks
    handed = sum(len(nodes[task.value].operands) for task in tasks if isinstance(task, Call))
    made = sum(domain_size(nodes[value].shape) for task in tasks for value in writes(nodes, task))
    return program.operations() + made <= CALL * (len(tasks) + handed) and has_numpys_part(program)


def _has_loops_inside(binding: Node) -> bool:
    return binding.op == "loop" and has_loops(binding.params.body.bindings)


def points_program_of(graph: Graph, options: Options = DEFAULT, device: bool = False) -> Program | None:
    """The Program of a Graph that is computed for many points together, on a GPU by a thread each; None where all points'
    arrays are one array.
    """
    if in_unrolled_regime(graph):
        found = program_of(graph, options)
        assert isinstance(found, Program)
        return found
    if not has_loops(graph.bindings):
        return None
    looped = program_of(graph, options, loops=True)  # as whole arrays all rounds of all points would be made and read again
    return None if isinstance(looped, Fused) or _problem_over_points(looped, device) else looped


def _problem_over_points(program: Program, device: bool) -> str:
    """Why a program with loops is not computed for many points together; "" where it is."""
    if device:
        from symdiff.codegen.cuda.header import lacking_in_cuda

        return lacking_in_cuda(program)
    from symdiff.runtime.batch import batch_problem

    return engine.supported() or _unsettled(program) or batch_problem(program)


def fused_of(graph: Graph, options: Options = DEFAULT, name: str | None = None, checks: int = 0) -> Fused:
    """The fused tasks of a Graph of whole arrays, whose first outputs are the program's `checks`."""
    checking = os.environ.get("SYMDIFF_CHECK") == "1"

    known: dict[Any, Program] = {}  # a loop makes the same kernel in every round

    def shared(kernel: Program) -> Program:
        if options.exact:
            return kernel
        key = program_content(kernel)
        if key not in known:
            known[key] = share(kernel, fastmath=options.fastmath)
        found = known[key]
        return replace(found, inputs=kernel.inputs)

    with without_collector():
        whole = computable(halved(unroll_calls(lower_fastmath(graph) if options.fastmath else graph)), options.exact)
        check_bindings(whole)
        program = assemble_steps(number(whole, fold=not options.exact, name=name, whole=True))
        if checks:
            program = with_checks(program, checks)
        if checking:
            check_graph(whole)
            check_program(program)
        fused = fuse(program, shared, options.exact)
        while not options.exact and (numbers := fused.numbers()):
            fused = fuse(with_numbers(fused.program, numbers), shared)
        return fused


def plan_of(program: Program | Fused, kind: str = "point", in_axes: Any = None, out_axes: Any = None) -> Plan | ArrayPlan:
    """The Plan of a Program for one point, or for a batch with these points axes; the ArrayPlan of fused tasks."""
    if isinstance(program, Fused):
        return array_plan_of(program)
    count = (len(program.inputs), len(program.outputs)) if kind == "batch" else (0, 0)
    inputs, outputs = (given if given is not None else (0,) * n for given, n in zip((in_axes, out_axes), count, strict=True))
    return Plan(program, kind, inputs, outputs)


def check_plan_of(checks: Graph, in_axes: tuple[int | None, ...]) -> Plan:
    """The Plan of the checks that a Graph's outputs are, for a batch of points."""
    program = program_of(settled(checks, True), Options(exact=True))
    assert isinstance(program, Program)
    return Plan(live_only(with_checks(program, len(program.outputs))), "batch", in_axes, ())


def array_plan_of(fused: Fused, nests: Mapping[int, Nest] | None = None) -> ArrayPlan:
    """The ArrayPlan of fused tasks, those with `nests` as machine code."""
    plan = plan_arrays(fused, nests)
    if os.environ.get("SYMDIFF_CHECK") == "1":
        check_array_plan(plan)
    return plan


def source_of(plan: Plan | ArrayPlan, target: str, **layout: Any) -> Source:
    """The Plan as text for a target."""
    if target not in TARGETS:
        raise BackendError(f"unknown target {target!r}; there are {', '.join(TARGETS)}")
    problem = "" if isinstance(plan, ArrayPlan) else _looping(plan.program, f"target {target!r}")
    looped = not isinstance(plan, ArrayPlan) and is_nest(plan.program)
    kind = "arrays" if isinstance(plan, ArrayPlan) else plan.kind
    kind = {"point": "loops", "batch": "batch of loops"}[kind] if looped else kind
    emitter = EMITTERS.get((target, kind))
    if emitter is None:
        whole = f"whole arrays are computed by NumPy and CuPy; target {target!r} takes numbers and small arrays, "
        whole += "to which scalarize=True (--scalarize) unrolls them"
        points = f"target {target!r} takes one point: call it in a loop over the points, or choose numpy or cupy"
        raise BackendError({"arrays": whole, "batch": points}.get(kind, problem))
    if emitter == "point_files":
        layout["target"] = target
    return importlib.import_module(f"symdiff.codegen.{emitter}").emit(plan, **layout)  # type: ignore[no-any-return]


# Who writes which kind of plan for a target, a module of `codegen` each.
EMITTERS = {
    ("numpy", "point"): "point_files", ("numpy", "batch"): "numpy_batch", ("numpy", "arrays"): "numpy_arrays",
    ("numpy", "loops"): "point_files", ("numpy", "batch of loops"): "numpy_batch",
    ("python", "point"): "point_files", ("python", "loops"): "point_files", ("c", "point"): "c", ("c", "loops"): "c",
    ("cuda", "point"): "cuda.header", ("cuda", "loops"): "cuda.header",
    ("cupy", "point"): "cuda.cupy", ("cupy", "batch"): "cuda.cupy", ("cupy", "batch of loops"): "cuda.cupy",
    ("cupy", "arrays"): "cuda.cupy_arrays",
}  # fmt: skip


def kernel_of(plan: Plan | ArrayPlan, target: str, name: str, **layout: Any) -> Any:
    """A loaded function of the Plan, for calls from within the process."""
    with without_collector():
        return load(source_of(plan, target, name=name, style="runtime", **layout))


def check_backend(backend: str) -> None:
    """Raise `BackendError` where a backend that makes machine code is asked for another processor's, or for none's."""
    if backend in ("auto", "native"):
        engine.check_processor()


def backend_of(program: Program | Fused, backend: str, exact: bool) -> str:
    """Who computes a program: the backend that is asked for, or the first of native, python and numpy that can; NumPy in
    Python's place what is in single precision.

    Machine code keeps no order of operations, so that with `exact` it is not chosen by itself. Raises `BackendError` with the
    reason where the one asked for cannot, or none.
    """
    if backend == "auto":
        ways = [way for way in ("native", "python", "numpy") if not (exact and way == "native")]
    else:
        ways = ["numpy" if backend == "python" and _in_single_precision(program) else backend]
    problem = ""
    for way in ways:
        problem = _problem(program, way)
        if not problem:
            return way
    raise BackendError(problem)


def _in_single_precision(program: Program | Fused) -> bool:
    return isinstance(program, Program) and has_single_precision(program)


def _problem(program: Program | Fused, backend: str) -> str:
    """Why a backend does not compute a program; "" where it does."""
    whole = isinstance(program, Fused)
    if backend == "native":
        return engine.supported() if whole else machine_problem(program)
    if backend == "python":
        words = "whole arrays need the numpy or the native backend; scalarize=True unrolls them"
        return f"{program.name}: {words}" if whole else lacking_in_python(program)
    return ""


def _unsettled(program: Program, called: bool = False) -> str:
    """Why there is no machine code for a program with loops, from which NumPy may be `called` or not; "" where there is."""
    if not is_nest(program):
        return ""
    if any(True for leaf in program.leaves for _ in extents_in(leaf.shape)):
        return f"{program.name}: arguments and results whose sizes a call tells are for the python target"
    from symdiff.codegen.nest_heads import refuse_heads

    return refuse_heads(program, "machine code", called)


def machine_problem(program: Program) -> str:
    """Why there is no machine code for a program; "" where there is."""
    if problem := engine.supported() or _unsettled(program, True):
        return problem
    if not is_native(program):
        return f"{program.name}: machine code takes up to {ARGUMENTS} floating-point arguments and results, real and complex"
    return llvm.lacking_in_llvm(program)


def door_of(
    program: Program | Fused, backend: str, exact: bool, result: Any = None
) -> tuple[Callable[..., Any] | None, Machine | None]:
    """The function that takes any arguments of a program and declines with `MISS`, and its machine code where that is the
    function; None where NumPy computes loops round by round.

    It takes the leaves in order and `out=`. `result`: see `machine_of`. Raises what `backend_of` raises.
    """
    way = backend_of(program, backend, exact)
    if way == "native":
        found = array_kernel_of(program, result) if isinstance(program, Fused) else machine_of(program, result, exact)
        return (found.builtin(), found) if isinstance(found, Machine) else (found, None)
    if way == "numpy":
        if isinstance(program, Fused):
            return numpy_of(program), None
        return (None if is_nest(program) else _numbers_door_of(program)), None
    if isinstance(program, Program) and is_nest(program):
        return looped_function_of(program), None
    return kernel_of(plan_of(program), "python", program.name), None


def looped_function_of(program: Program) -> Callable[..., Any]:
    """The function in plain Python of a program with loops: that of its file, with arrays for results."""
    source = source_of(plan_of(program), "python", name=program.name)
    function = load(replace(source, names=(("MISS", MISS),)))  # its text declines where a check of the program holds
    outputs, several = program.outputs, len(program.outputs) > 1
    kinds = [dtype_of_code(i.dtype) for i in program.inputs]

    def door(*args: Any, out: Any = None) -> Any:
        if [np.asarray(a).dtype for a in args] != kinds or not all(np.asarray(a).flags.c_contiguous for a in args):
            return MISS
        found = function(*(a.tolist() if type(a) is np.ndarray else a for a in args))
        if found is MISS:
            return MISS
        flat = found if several else (found,)
        made = [np.array(value, dtype_of_code(o.dtype))[()] for value, o in zip(flat, outputs, strict=True)]
        for target, value in zip(() if out is None else out if several else (out,), made, strict=False):
            target[...] = value
        return (tuple(made) if several else made[0]) if out is None else out

    return door


def _numbers_door_of(program: Program) -> Callable[..., Any]:
    """NumPy's function of a program of numbers, for new results of arguments that have the program's own form."""
    function = numpy_of(program)
    kinds = [dtype_of_code(i.dtype) for i in program.inputs]
    numbers = [(k, (kinds[k].type, type(kinds[k].type().item()))) for k, i in enumerate(program.inputs) if not i.shape]
    arrays = [(k, kinds[k], i.shape) for k, i in enumerate(program.inputs) if i.shape]

    def fits(value: Any, kind: np.dtype, shape: Any) -> bool:
        return type(value) is np.ndarray and value.dtype is kind and value.shape == shape and value.flags.c_contiguous

    def door(*args: Any, out: Any = None) -> Any:
        if out is not None or len(args) != len(kinds) or any(type(args[k]) not in known for k, known in numbers):
            return MISS
        return function(*args) if all(fits(args[k], kind, shape) for k, kind, shape in arrays) else MISS

    return door


def numpy_of(program: Program | Fused) -> Callable[..., Any]:
    """The function of a program that calls NumPy."""
    return kernel_of(plan_of(program), "numpy", program.name)  # type: ignore[no-any-return]


def machine_of(program: Program, result: Any = None, exact: bool = False) -> Machine:
    """The Program as machine code, from which Python builtins are made; `result` gives the outputs' places in a structure.

    `exact`: sums of loops are taken round by round.

    Raises `BackendError` where there is none for it.
    """
    if problem := machine_problem(program):
        raise BackendError(problem)
    together = engine.machine_lanes() if engine.machine_fuses() else 0
    with without_collector():
        if is_nest(program):
            from symdiff.codegen.llvm.nests import looped_function

            looped = looped_function(program, "kernel", together, exact)
            effort, passes = _effort(looped.text)
            return Machine(
                program,
                looped.text,
                effort,
                looped.memory,
                True,
                result,
                passes,
                looped.grows,
                looped.work,
                called=looped.called,
            )
        size = llvm_parts.llvm_statement_count(program)
        if size <= WHOLE:
            text, workspace = llvm.point_function(program, "kernel", together), 0
        else:
            text, workspace = llvm_parts.in_parts(program, "kernel", together)
        return Machine(program, text, int(size <= QUICK), workspace, result=result, passes="none", work=size)


def _effort(text: str) -> tuple[int, Any]:
    """How hard LLVM tries on a program with loops, and its passes: by its instructions, some ten for each operation."""
    size = text.count("\n") // 10
    return (1, "all") if size <= WHOLE else (1, "loops") if size <= QUICK else (0, "none")


def sized_function_of(graph: Graph, options: Options = DEFAULT, backend: str = "auto") -> Callable[..., list[Any]]:
    """The function of a Graph with named sizes: machine code, or plain Python, for loops, NumPy for whole arrays, unless a
    backend is asked for. It takes arrays and numbers, and returns the list of the results.

    Raises `BackendError` where there is none, and `ExportError` where NumPy's text is not the same for all sizes.
    """
    count = len(graph.outputs)
    looped = has_loops(graph.bindings)
    if backend == "numpy" or (backend == "auto" and not looped):

        def written(example: Graph, _: Graph | None, sizes: Sizes) -> Source:
            plan = plan_of(program_of(example, options))
            return source_of(plan, "numpy", name=example.name, style="export", sizes=sizes)

        function = load(sized_source_of(with_free_sizes(graph, graph.name) or graph, None, written))
        return lambda *args: list(function(*args)) if count > 1 else [function(*args)]
    program = program_of(graph, options, loops=True)
    assert isinstance(program, Program)
    from symdiff.codegen.nest_heads import refuse_heads

    problem = engine.supported() or refuse_heads(program, "machine code")
    if not problem and (options.exact or not is_native(program)):
        problem = f"{program.name}: machine code takes up to {ARGUMENTS} floating-point arguments, and keeps no order"
    if backend == "native" and problem:
        raise BackendError(problem)
    if backend != "python" and not problem:
        from symdiff.codegen.llvm.nests import looped_function
        from symdiff.runtime.sizes import SizedMachine

        with without_collector():
            made = looped_function(program, "kernel", engine.machine_lanes() if engine.machine_fuses() else 0)
            return SizedMachine(program, made, *_effort(made.text))
    plain = looped_function_of(program)
    return lambda *args: list(plain(*args)) if count > 1 else [plain(*args)]


def with_free_sizes(graph: Graph, name: str) -> Graph | None:
    """The graph, whose sizes have no name that a file has for something else; None where it has no named sizes."""
    sizes = sizes_in(tuple(leaf.shape for leaf in graph.inputs))
    if not sizes:
        return None
    own = {leaf.name for leaf in graph.inputs} | {o.name for o in graph.outputs} | {name, f"{name}_steps"}
    taken = own | NAMES_OF_FILES
    return renamed_graph(graph, {size.name: f"{size.name}_size" for size in sizes if size.name in taken})


def sized_source_of(graph: Graph, checks: Graph | None, written: Callable[[Graph, Graph | None, Sizes], Source]) -> Source:
    """The text for any size that is `written` for each example of a graph and of its `checks`.

    Raises `ExportError` where the text is not the same for all.
    """
    counts = counts_in(*([graph] if checks is None else [checks, graph]))
    told = Sizes(tuple(leaf.shape for leaf in graph.inputs), counts)
    sources = []
    for turn in range(EXAMPLES):
        at = first_sizes(graph, turn)
        also = None if checks is None else example_graph(checks, at, counts)
        sources.append(written(example_graph(graph, at, counts), also, told))
    first, *others = sources
    for other in others:
        for line, found in zip(first.text.splitlines(), other.text.splitlines(), strict=False):
            if line != found:
                raise ExportError(
                    f"{first.entry}: no text for any size: {line.strip()!r} at one is {found.strip()!r} at another"
                )
        if first.text != other.text:
            raise ExportError(f"{first.entry}: no text for any size: it is longer at one than at another")
    return first


def array_kernel_of(fused: Fused, result: Any = None) -> Machine | Callable[..., Any]:
    """Fused tasks as machine code: all of them, where NumPy has no part in them; else a function that calls the kernels."""
    from symdiff.codegen.llvm.programs import llvm_arrangement, whole_function
    from symdiff.runtime.kernels import LARGE, Kernels

    with without_collector():
        kernels = Kernels(fused)
        plan = array_plan_of(fused, kernels.nests)
        arrangement = llvm_arrangement(plan) if is_native(fused) else None
        if arrangement is None:  # NumPy calls the kernels
            return kernel_of(plan, "numpy", fused.name, builtins=kernels.builtins())
        text = whole_function(plan, arrangement, "kernel", kernels.names, fused.operations() < LARGE)
        work = fused.operations()
        return Machine(
            fused, f"{kernels.text}\n{text}", 1, arrangement.memory, apart=True, result=result, passes="loops", work=work
        )


def gufunc_of(program: Program) -> Any:
    """The Program as a NumPy generalised ufunc. Raises `BackendError` where there is none for it."""
    from symdiff.runtime.gufunc import machine_gufunc

    if problem := engine.supported() or _looping(program, "a ufunc"):
        raise BackendError(problem)
    with without_collector():
        return machine_gufunc(program)


def batch_kernel_of(
    program: Program, in_axes: tuple[int | None, ...], out_axes: tuple[int, ...], options: Options, backend: str = "auto",
    threads: int | None = None,
) -> Any:  # fmt: skip
    """The function of a Program over points: machine code where there is some, else NumPy over blocks in one thread."""
    from symdiff.runtime.batch import NativeBatch, batch_problem

    if backend == "native" or (backend == "auto" and not options.exact and not engine.supported()):
        problem = batch_problem(program) or _unsettled(program)
        if not problem:
            with without_collector():
                return NativeBatch(program, in_axes, out_axes, threads)
        if backend == "native":
            raise BackendError(problem)
    return kernel_of(plan_of(program, "batch", in_axes, out_axes), "numpy", program.name)


@contextmanager
def without_collector() -> Iterator[None]:
    """Python's cyclic garbage collector doubles the time of building large programs; it is off meanwhile."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
