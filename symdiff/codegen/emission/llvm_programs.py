"""Fused tasks over whole arrays as one LLVM function: kernels one after the other, numbers and work arrays in one memory.

Assumes tasks whose kernels have nests. Guarantees that the function writes nothing but the results and its memory. Refuses,
with `BackendError`, tasks that NumPy computes, and results that no kernel makes.
"""

import numpy as np

from symdiff.codegen.arrays.fusing import Clear
from symdiff.codegen.arrays.nesting import Nest
from symdiff.codegen.arrays.plan import ArrayPlan
from symdiff.codegen.arrays.program import Step, size
from symdiff.codegen.emission.llvm_arrays import array_function
from symdiff.codegen.emission.llvm_functions import functions as vector_functions
from symdiff.codegen.emission.llvm_lines import lanes_of
from symdiff.errors import BackendError
from symdiff.ops import dtype_of

MEMORY = 1 << 16  # bytes that are asked for at each call; larger work arrays are kept from call to call, by NumPy
INLINED = 4  # calls of an elementary function that take its lines in their place, so that its constants stay in registers
_LINE = 64  # bytes: work arrays begin at multiples of these


def functions(nests: dict[int, Nest], lanes: int, fused: bool) -> tuple[str, dict[int, Nest]]:
    """The functions "kernel0", "kernel1", ... of the nests by their tasks, and the nests that could be written."""
    texts: list[str] = []
    used: set[str] = set()
    declared: dict[str, str] = {}
    done: dict[int, Nest] = {}
    for index, nest in nests.items():
        try:
            count = 1 if nest.domain == (1,) else lanes_of(nest.program, lanes)
            text, own, needed = array_function(nest, f"kernel{index}", count, count if fused else 0)
        except BackendError:
            continue
        texts.append(text)
        used |= own
        declared |= needed
        done[index] = nest
    few = {symbol for symbol in used if sum(text.count(f"@{symbol}(") for text in texts) <= INLINED}
    bodies, needed = vector_functions(used, few)
    declared |= needed
    return "\n".join([*declared.values(), *bodies, *texts]), done


def whole_function(plan: ArrayPlan, name: str, alone: bool) -> tuple[str, int]:
    """A function `name(inputs..., outputs..., memory)` that runs all tasks, and the bytes of its memory.

    `alone`: it keeps Python's lock, else other threads may run meanwhile.
    """
    program = plan.program
    steps = program.steps
    places: dict[int, str] = {i: f"%in{step.params}" for i, step in enumerate(steps) if step.op == "input"}
    numbered = {o.value: k for k, o in enumerate(program.outputs) if o.shape == ()}
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
            elif steps[value].op == "const" and size(steps[value].shape) * dtype_of(steps[value].dtype).itemsize <= MEMORY:
                places[value] = f"@array{len(constants)}"
                constants.append(_constant(places[value], np.asarray(steps[value].params, dtype_of(steps[value].dtype))))
            else:
                raise BackendError(f"{program.name}: {steps[value].op} runs with NumPy")
        return places[value]

    for index, task in enumerate(plan.fused.tasks):
        if isinstance(task, Clear):
            lines += _cleared(task, place(task.value), steps[task.value], f"%c{index}")
        elif index in plan.nests:
            held = plan.nests[index].arrays
            if any(h.copied for h in held):
                raise BackendError(f"{program.name}: a view that needs a copy runs with NumPy")
            called = [place(h.value) for h in held]
            lines.append(f"  call void @kernel{index}({', '.join(f'ptr {c}' for c in called)})")
        else:
            raise BackendError(f"{program.name}: NumPy has a part in it")
    for k, output in enumerate(program.outputs):
        if places.get(_made(plan, output.value)) != f"%out{k}":
            raise BackendError(f"{program.name}: {output.name} is a copy")
    if taken > MEMORY:
        raise BackendError(f"{program.name}: {taken} bytes of work arrays")
    parameters = [f"ptr %in{k}" for k in range(len(program.inputs))] + [f"ptr %out{k}" for k in range(len(program.outputs))]
    parameters += ["ptr %memory"] if taken else []
    if not alone:
        lines = ["  %state = call ptr @PyEval_SaveThread()", *lines, "  call void @PyEval_RestoreThread(ptr %state)"]
    head = "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)"
    return "\n".join([head, *constants, f"define void @{name}({', '.join(parameters)}) {{", *lines, "  ret void", "}"]), taken


def _constant(name: str, value: np.ndarray) -> str:
    """The cells of an array as bytes of the module."""
    cells = "".join(f"\\{byte:02x}" for byte in value.tobytes())
    return f'{name} = private constant [{value.nbytes} x i8] c"{cells}", align {_LINE}'


def _made(plan: ArrayPlan, value: int) -> int:
    """The step whose array a reshaped result is."""
    steps = plan.program.steps
    while steps[value].op == "reshape":
        value = steps[value].operands[0]
    return value


def _cleared(task: Clear, place: str, step: Step, name: str) -> list[str]:
    """Zeros in an array, but for a region along its first axis."""
    cells, item = size(step.shape), dtype_of(step.dtype).itemsize
    parts = [(0, cells)]
    if task.besides:
        row = cells // step.shape[0]
        start, stop, _ = task.besides[0]
        parts = [(0, start * row), (stop * row, cells)]  # type: ignore[operator]
    lines = []
    for k, (first, end) in enumerate(parts):
        if end > first:
            lines.append(f"  {name}.{k} = getelementptr i8, ptr {place}, i64 {first * item}")
            lines.append(f"  call void @llvm.memset.p0.i64(ptr {name}.{k}, i8 0, i64 {(end - first) * item}, i1 false)")
    return lines
