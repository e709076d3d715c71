"""Fused tasks over whole arrays as one LLVM function: kernels one after the other, numbers and work arrays in one memory.

`llvm_arrangement` tells beforehand whether there is such a function. Guarantees that it writes nothing but the results and its
memory.
"""

from dataclasses import dataclass, field

import numpy as np

from symdiff.codegen.llvm.arrays import llvm_array_function
from symdiff.codegen.llvm.functions import llvm_vector_functions as vector_functions
from symdiff.codegen.llvm.scalar import LINE, emitted_constant, kernel_frame, lacking_in_llvm, returning_checked
from symdiff.codegen.math.lines import Lines, lanes_of
from symdiff.ir.node import Node
from symdiff.lowering.arrays.fusing import Clear
from symdiff.lowering.arrays.nesting import Nest, nest_content
from symdiff.lowering.arrays.plan import ArrayPlan, writes
from symdiff.lowering.program import domain_size
from symdiff.vocabulary.ops import bytes_of_code, dtype_of_code

MEMORY = 1 << 16  # bytes of work arrays that are asked for at each call; larger ones are kept from call to call, by NumPy
INLINED = 4  # calls of an elementary function that take its lines in their place, so that its constants stay in registers
_NUMBER = 16  # bytes of any number


def llvm_nest_functions(nests: dict[int, Nest], lanes: int, fused: bool) -> tuple[str, dict[str, str], dict[int, str]]:
    """Functions for the nests of tasks, equal nests sharing one: what comes before all of them, their texts by name, and the
    names by the tasks. A nest that cannot be written has none.
    """
    texts: dict[str, str] = {}
    used: set[str] = set()
    declared: dict[str, str] = {}
    known: dict[tuple[object, ...], str] = {}
    keys = {index: nest_content(nest) for index, nest in nests.items()}
    for index, nest in nests.items():
        key = keys[index]
        if key in known:
            continue
        known[key] = ""
        if lacking_in_llvm(nest.program):
            continue
        alone = nest.domain == (1,) or any(r.kind == "scatter" and not r.cells.is_line() for r in nest.results)
        count = 1 if alone else lanes_of(nest.program, lanes)
        text, own, needed = llvm_array_function(nest, f"kernel{index}", count, count if fused else 0)
        known[key] = f"kernel{index}"
        texts[known[key]] = text
        used |= own
        declared |= needed
    few = {symbol for symbol in used if sum(text.count(f"@{symbol}(") for text in texts.values()) <= INLINED}
    bodies, needed = vector_functions(used, few)
    declared |= needed
    names = {index: known[key] for index, key in keys.items() if known[key]}
    return "\n".join([*declared.values(), *bodies]), texts, names


@dataclass(slots=True)
class Arrangement:
    """Where a function that runs all tasks of a plan finds each value: `places` are pointers in its IR, to arguments, results,
    `constants` of the module, and rooms of its memory, which begin at the offsets `rooms` and take `memory` bytes.
    """

    places: dict[int, str]
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    rooms: list[int] = field(default_factory=list)
    memory: int = 0

    def room(self, count: int, line: int = LINE) -> str:
        """A place in memory for so many bytes, up to a multiple of `line`."""
        self.rooms.append(self.memory)
        self.memory += max(-(-count // line), 1) * line  # arrays without cells have a place, too
        return f"%m{self.rooms[-1]}"


def llvm_arrangement(plan: ArrayPlan) -> Arrangement | None:
    """Where a function that runs all tasks keeps their values; None where NumPy has a part in them, a result is a copy of
    another array, or `MEMORY` does not hold the work arrays.
    """
    nodes, outputs, early = plan.program.nodes, plan.program.outputs, _early(plan)
    found = Arrangement({i: f"%in{node.params[0]}" for i, node in enumerate(nodes) if node.op == "input"})
    numbered = {o.value: k for k, o in enumerate(outputs) if o.shape == () and o.value not in early}
    slots = [found.room(bytes_of_code(code) * cells) for code, cells in plan.slots]
    if found.memory > MEMORY:
        return None
    used = list(plan.program.checks)
    for index, task in enumerate(plan.fused.tasks):
        if isinstance(task, Clear):
            used.append(task.value)
        elif index in plan.nests and not any(held.copied for held in plan.nests[index].arrays):
            used += [held.value for held in plan.nests[index].arrays]
        else:
            return None
    for value in dict.fromkeys(used):
        kind, k = plan.places.get(value, ("", 0))
        node = nodes[value]
        if kind == "number":
            found.places[value] = f"%out{numbered[value]}" if value in numbered else found.room(_NUMBER, _NUMBER)
        elif kind in ("output", "work"):
            found.places[value] = f"%out{k}" if kind == "output" else slots[k]
        elif node.op == "const" and domain_size(node.shape) * bytes_of_code(node.dtype) <= MEMORY:
            found.places[value] = name = f"@array{len(found.constants)}"
            found.constants[name] = np.asarray(node.params, dtype_of_code(node.dtype))
        elif value not in found.places:
            return None
    made = [_made(plan, o.value) for o in outputs]
    copied = any(v not in early and found.places.get(v) != f"%out{k}" for k, v in enumerate(made))
    return None if copied else found


def _early(plan: ArrayPlan) -> set[int]:
    """The values that are made before the checks are known."""
    return {v for task in plan.fused.tasks[: plan.fused.checked] for v in writes(plan.program.nodes, task)}


def whole_function(plan: ArrayPlan, found: Arrangement, name: str, kernels: dict[int, str], alone: bool) -> str:
    """A function `name(inputs..., outputs..., memory)` that runs all tasks.

    That of a program with checks returns whether one of them holds, and has written no result then.

    `kernels`: the names of the functions of tasks that have nests. `alone`: it keeps Python's lock, else other threads may
    run meanwhile.
    """
    program, places, early = plan.program, found.places, _early(plan)
    lines = [f"  %m{offset} = getelementptr i8, ptr %memory, i64 {offset}" for offset in found.rooms]
    for index, task in enumerate(plan.fused.tasks):
        if program.checks and index == plan.fused.checked:
            lines += _checked([places[check] for check in program.checks], alone)
        if isinstance(task, Clear):
            lines += _cleared(task, places[task.value], program.nodes[task.value], f"%c{index}")
        else:
            pointers = ", ".join(f"ptr {places[held.value]}" for held in plan.nests[index].arrays)
            lines.append(f"  call void @{kernels[index]}({pointers})")
    if program.checks and plan.fused.checked == len(plan.fused.tasks):
        lines += _checked([places[check] for check in program.checks], alone)
    for k, output in enumerate(program.outputs):
        made = _made(plan, output.value)
        if made in early:
            count = domain_size(output.shape) * bytes_of_code(output.dtype)
            lines.append(f"  call void @llvm.memcpy.p0.p0.i64(ptr %out{k}, ptr {places[made]}, i64 {count}, i1 false)")
    opening, end = kernel_frame(program, name, ["ptr %memory"] if found.memory else [])
    if not alone:
        lines = ["  %state = call ptr @PyEval_SaveThread()", *lines, "  call void @PyEval_RestoreThread(ptr %state)"]
    head = ["declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)", "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"]
    head += [emitted_constant(constant, value) for constant, value in found.constants.items()]
    return "\n".join([*head, opening, *lines, end])


def _checked(places: list[str], alone: bool) -> list[str]:
    """The end of the function where a check holds."""
    lines = Lines(prefix="k")
    end = returning_checked(lines, places)
    if not alone:
        end.insert(-2, "  call void @PyEval_RestoreThread(ptr %state)")
    return [*lines.text, *end]


def _made(plan: ArrayPlan, value: int) -> int:
    """The node whose array a reshaped result is."""
    nodes = plan.program.nodes
    while nodes[value].op == "reshape":
        value = nodes[value].operands[0]
    return value


def _cleared(task: Clear, place: str, node: Node, name: str) -> list[str]:
    """Zeros in an array, but for a region along its first axis."""
    cells, item = domain_size(node.shape), bytes_of_code(node.dtype)
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
