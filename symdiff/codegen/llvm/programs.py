"""Fused tasks over whole arrays as one LLVM function: kernels one after the other, numbers and work arrays in one memory.

Assumes tasks whose kernels have nests. Guarantees that the function writes nothing but the results and its memory. Refuses,
with `BackendError`, tasks that NumPy computes, and results that no kernel makes.
"""

import functools

import numpy as np

from symdiff.codegen.llvm.arrays import array_function
from symdiff.codegen.llvm.functions import functions as vector_functions
from symdiff.codegen.llvm.scalar import returning
from symdiff.codegen.math.lines import Lines, lanes_of
from symdiff.errors import BackendError
from symdiff.ir.node import Node
from symdiff.lowering.arrays.fusing import Clear
from symdiff.lowering.arrays.nesting import Nest, content_of
from symdiff.lowering.arrays.plan import ArrayPlan, writes
from symdiff.lowering.program import size
from symdiff.vocabulary.ops import dtype_of

MEMORY = 1 << 16  # bytes that are asked for at each call; larger work arrays are kept from call to call, by NumPy
INLINED = 4  # calls of an elementary function that take its lines in their place, so that its constants stay in registers
_LINE = 64  # bytes: work arrays begin at multiples of these


def functions(nests: dict[int, Nest], lanes: int, fused: bool) -> tuple[str, dict[str, str], dict[int, str]]:
    """Functions for the nests of tasks, equal nests sharing one: what comes before all of them, their texts by name, and the
    names by the tasks. A nest that cannot be written has none.
    """
    texts: dict[str, str] = {}
    used: set[str] = set()
    declared: dict[str, str] = {}
    known: dict[tuple[object, ...], str] = {}
    for index, nest in nests.items():
        key = content_of(nest)
        if key in known:
            continue
        known[key] = ""
        try:
            count = 1 if nest.domain == (1,) else lanes_of(nest.program, lanes)
            text, own, needed = array_function(nest, f"kernel{index}", count, count if fused else 0)
        except BackendError:
            continue
        known[key] = f"kernel{index}"
        texts[known[key]] = text
        used |= own
        declared |= needed
    few = {symbol for symbol in used if sum(text.count(f"@{symbol}(") for text in texts.values()) <= INLINED}
    bodies, needed = vector_functions(used, few)
    declared |= needed
    names = {index: known[content_of(nest)] for index, nest in nests.items() if known[content_of(nest)]}
    return "\n".join([*declared.values(), *bodies]), texts, names


def whole_function(plan: ArrayPlan, name: str, kernels: dict[int, str], alone: bool) -> tuple[str, int]:
    """A function `name(inputs..., outputs..., memory)` that runs all tasks, and the bytes of its memory.

    That of a program with checks returns whether one of them holds, and has written no result then.

    `kernels`: the names of the functions of tasks that have nests. `alone`: it keeps Python's lock, else other threads may
    run meanwhile.
    """
    program = plan.program
    nodes = program.nodes
    places: dict[int, str] = {i: f"%in{node.params[0]}" for i, node in enumerate(nodes) if node.op == "input"}
    early = {v for task in plan.fused.tasks[: plan.fused.checked] for v in writes(nodes, task)}
    numbered = {o.value: k for k, o in enumerate(program.outputs) if o.shape == () and o.value not in early}
    lines: list[str] = []
    constants: list[str] = []
    taken = 0

    def room(count: int) -> str:
        nonlocal taken
        lines.append(f"  %m{taken} = getelementptr i8, ptr %memory, i64 {taken}")
        taken += -(-count // _LINE) * _LINE
        return f"%m{taken - -(-count // _LINE) * _LINE}"

    slots = [room(dtype_of(code).itemsize * cells) for code, cells in plan.slots]

    def place(value: int) -> str:
        if value not in places:
            kind, k = plan.places.get(value, ("", 0))
            if kind == "number":
                places[value] = f"%out{numbered[value]}" if value in numbered else room(16)
            elif kind in ("output", "work"):
                places[value] = f"%out{k}" if kind == "output" else slots[k]
            elif nodes[value].op == "const" and size(nodes[value].shape) * dtype_of(nodes[value].dtype).itemsize <= MEMORY:
                places[value] = f"@array{len(constants)}"
                constants.append(_constant(places[value], np.asarray(nodes[value].params, dtype_of(nodes[value].dtype))))
            else:
                raise BackendError(f"{program.name}: {nodes[value].op} runs with NumPy")
        return places[value]

    for index, task in enumerate(plan.fused.tasks):
        if program.checks and index == plan.fused.checked:
            lines += _checked([place(check) for check in program.checks], alone)
        if isinstance(task, Clear):
            lines += _cleared(task, place(task.value), nodes[task.value], f"%c{index}")
        elif index in plan.nests:
            held = plan.nests[index].arrays
            if any(h.copied for h in held):
                raise BackendError(f"{program.name}: a view that needs a copy runs with NumPy")
            called = [place(h.value) for h in held]
            lines.append(f"  call void @{kernels[index]}({', '.join(f'ptr {c}' for c in called)})")
        else:
            raise BackendError(f"{program.name}: NumPy has a part in it")
    if program.checks and plan.fused.checked == len(plan.fused.tasks):
        lines += _checked([place(check) for check in program.checks], alone)
    for k, output in enumerate(program.outputs):
        made = _made(plan, output.value)
        if made in early:
            count = size(output.shape) * dtype_of(output.dtype).itemsize
            lines.append(f"  call void @llvm.memcpy.p0.p0.i64(ptr %out{k}, ptr {place(made)}, i64 {count}, i1 false)")
        elif places.get(made) != f"%out{k}":
            raise BackendError(f"{program.name}: {output.name} is a copy")
    if taken > MEMORY:
        raise BackendError(f"{program.name}: {taken} bytes of work arrays")
    parameters = [f"ptr %in{k}" for k in range(len(program.inputs))] + [f"ptr %out{k}" for k in range(len(program.outputs))]
    parameters += ["ptr %memory"] if taken else []
    if not alone:
        lines = ["  %state = call ptr @PyEval_SaveThread()", *lines, "  call void @PyEval_RestoreThread(ptr %state)"]
    head = ["declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)", "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"]
    kind, end = ("i1", "ret i1 false") if program.checks else ("void", "ret void")
    opening = f"define {kind} @{name}({', '.join(parameters)}) {{"
    return "\n".join([*head, *constants, opening, *lines, f"  {end}", "}"]), taken


def _checked(places: list[str], alone: bool) -> list[str]:
    """The end of the function where a check holds."""
    lines = Lines(prefix="k")
    total = functools.reduce(lambda a, b: lines.put(f"or i8 {a}, {b}"), [lines.put(f"load i8, ptr {p}") for p in places])
    end = returning(lines.put(f"icmp ne i8 {total}, 0"), "checked")
    if not alone:
        end.insert(-2, "  call void @PyEval_RestoreThread(ptr %state)")
    return [*lines.text, *end]


def _constant(name: str, value: np.ndarray) -> str:
    """The cells of an array as bytes of the module."""
    cells = "".join(f"\\{byte:02x}" for byte in value.tobytes())
    return f'{name} = private constant [{value.nbytes} x i8] c"{cells}", align {_LINE}'


def _made(plan: ArrayPlan, value: int) -> int:
    """The node whose array a reshaped result is."""
    nodes = plan.program.nodes
    while nodes[value].op == "reshape":
        value = nodes[value].operands[0]
    return value


def _cleared(task: Clear, place: str, node: Node, name: str) -> list[str]:
    """Zeros in an array, but for a region along its first axis."""
    cells, item = size(node.shape), dtype_of(node.dtype).itemsize
    parts = [(0, cells)]
    if task.besides:
        row = cells // node.shape[0]
        start, stop, _ = task.besides[0]
        parts = [(0, start * row), (stop * row, cells)]  # type: ignore[operator]
    lines = []
    for k, (first, end) in enumerate(parts):
        if end > first:
            lines.append(f"  {name}.{k} = getelementptr i8, ptr {place}, i64 {first * item}")
            lines.append(f"  call void @llvm.memset.p0.i64(ptr {name}.{k}, i8 0, i64 {(end - first) * item}, i1 false)")
    return lines
