"""Kernels of whole arrays as machine code: builtins that take arrays as they are, for generated functions to call.

Assumes that generated code hands over contiguous arrays of the dtypes and sizes that a kernel was made for, and NumPy's own
numbers. Guarantees that other threads run while a large kernel does, and that code lives as long as a function has its
builtins. Refuses, with `TypeError`, numbers of another kind.
"""

import ctypes
import threading
import weakref
from collections.abc import Callable
from typing import Any, ClassVar

from symdiff.codegen.llvm.programs import llvm_nest_functions
from symdiff.ir.node import Node
from symdiff.lowering.arrays.fusing import Call, Clear, Fused, Kernel, Sink, Task
from symdiff.lowering.arrays.nesting import Nest, moving_nest, nest, nest_content, picking_nest, product_nest
from symdiff.lowering.program import cell_program, domain_size
from symdiff.runtime.engine import DATA, Code, machine_fuses, machine_lanes
from symdiff.runtime.fastcall import MethodDef, machine_object_name, with_python_functions
from symdiff.vocabulary.locks import free_in_children
from symdiff.vocabulary.ops import is_complex

_REDUCING = {"sum": "sum", "amax": "max", "amin": "min"}  # heads and the sinks that compute them
_METH_FASTCALL = 0x0080
LARGE = 1 << 15  # operations from which on other threads run meanwhile
CALL = 500  # operations that take less than a call from Python
PRODUCT = 1 << 12  # multiplications up to which a product of matrices takes less time in loops than in a call of NumPy
_VALUE = 16  # where a number's value lies in its object


class Kernels:
    """The kernels of fused tasks: `nests`, `names` of their functions and `builtins` by the place of the task; `text` is
    their IR. Tasks that do the same with other arrays have one function.
    """

    _made: ClassVar[Any] = weakref.WeakValueDictionary()  # the builtins that functions hold; a call holds its own
    _lock: ClassVar[Any] = threading.RLock()
    free_in_children(_lock)

    def __init__(self, program: Fused) -> None:
        self.program = program
        nodes = program.program.nodes
        wanted = {index: found for index, task in enumerate(program.tasks) if (found := _nest(nodes, task))}
        self.before, self.texts, self.names = llvm_nest_functions(wanted, machine_lanes(), machine_fuses())
        self.nests = {index: wanted[index] for index in self.names}

    @property
    def text(self) -> str:
        """The IR of all kernels."""
        return "\n".join([self.before, *self.texts.values()])

    def builtins(self) -> dict[int, Callable[..., None]]:
        """A builtin `kernel(arrays and numbers...)` for each nest; those compiled before, for another function or another
        path of this one, serve again.
        """
        keys = {index: (nest_content(found), *self._numbers(index)) for index, found in self.nests.items()}
        with self._lock:
            found = {key: self._made.get(key) for key in keys.values()}
            missing = {key: index for index, key in reversed(keys.items()) if found[key] is None}
            found |= self._compiled({key: missing[key] for key in reversed(missing)})
            self._made.update(found)
        return {index: found[key] for index, key in keys.items()}

    def _compiled(self, places: dict[Any, int]) -> dict[Any, Callable[..., None]]:
        """The builtins of the nests at some places."""
        if not places:
            return {}
        callers = {key: self._caller(index) for key, index in places.items()}
        entries = [self._entry(callers[key], index) for key, index in places.items()]
        texts = {name: self.texts[name] for name in (self.names[index] for index in places.values())}
        text = "\n".join([*_USED, self.before, *texts.values(), *entries])
        code = Code(with_python_functions(text), 1, "loops")
        make = ctypes.pythonapi.PyCFunction_NewEx
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
        found = {}
        for key, caller in callers.items():
            definition = MethodDef(caller.encode(), code.address(caller), _METH_FASTCALL, None)
            found[key] = make(ctypes.addressof(definition), (code, definition), None)
        return found

    def _numbers(self, index: int) -> list[bool]:
        """Which of a nest's arrays are NumPy numbers."""
        nodes = self.program.program.nodes
        results = {r.cells.array for r in self.nests[index].results}
        arrays = enumerate(self.nests[index].arrays)
        return [nodes[held.value].shape == () and not held.copied and k not in results for k, held in arrays]

    def _caller(self, index: int) -> str:
        """The name of the function that Python calls: the kernel's, with a letter for each array."""
        return f"{self.names[index]}.{''.join('na'[not number] for number in self._numbers(index))}"

    def _entry(self, caller: str, index: int) -> str:
        """The IR of the function that Python calls."""
        found = self.nests[index]
        lines = []
        numbers = self._numbers(index)
        for k, number in enumerate(numbers):
            lines += [
                f"  %a{k} = getelementptr ptr, ptr %args, i64 {k}",
                f"  %o{k} = load ptr, ptr %a{k}",
            ]
            if number:
                lines.append(f"  %p{k} = getelementptr i8, ptr %o{k}, i64 {_VALUE}")
            else:
                lines += [f"  %d{k} = getelementptr i8, ptr %o{k}, i64 {DATA}", f"  %p{k} = load ptr, ptr %d{k}"]
        called = f"  call void @{self.names[index]}({', '.join(f'ptr %p{k}' for k in range(len(numbers)))})"
        if max(found.program.operations(), 1) * domain_size(found.domain) >= LARGE:
            lines += ["  %state = call ptr @PyEval_SaveThread()", called, "  call void @PyEval_RestoreThread(ptr %state)"]
        else:
            lines.append(called)
        none = machine_object_name("none")
        head = f"define ptr @{caller}(ptr %self, ptr %args, i64 %nargs) nounwind {{"
        return "\n".join([head, *lines, f"  call void @Py_IncRef(ptr {none})", f"  ret ptr {none}", "}"])


_USED = (f"{machine_object_name('none')} = external global i8",)


def has_numpys_part(program: Fused) -> bool:
    """Whether there is no machine code for one of the tasks."""
    nodes = program.program.nodes
    return any(not isinstance(task, Clear) and _nest(nodes, task) is None for task in program.tasks)


def _nest(nodes: list[Node], task: Task) -> Nest | None:
    """The loops of a task, None where NumPy computes it."""
    kernel = _kernel(nodes, task)
    if kernel is not None:
        return nest(nodes, kernel, machine_lanes())
    if not isinstance(task, Call):
        return None
    if nodes[task.value].op != "matmul":
        return moving_nest(nodes, task) or picking_nest(nodes, task.value)
    first, second = (nodes[o].shape for o in nodes[task.value].operands)
    small = min(len(first), len(second)) > 1 and domain_size(first[-2:]) * second[-1] <= PRODUCT
    return product_nest(nodes, task.value) if small and domain_size(nodes[task.value].shape) * first[-1] else None


def _kernel(nodes: list[Node], task: Task) -> Kernel | None:
    """The kernel that a task is, or that computes a sum or an extreme of an array as it is."""
    if isinstance(task, Kernel):
        return task if domain_size(task.domain) else None
    if not isinstance(task, Call) or nodes[task.value].op not in _REDUCING:
        return None
    node = nodes[task.value]
    source = nodes[node.operands[0]]
    kind = _REDUCING[node.op]
    if not domain_size(source.shape) or source.dtype == "?" or (kind != "sum" and is_complex(source.dtype)):
        return None
    return Kernel(
        source.shape,
        [node.operands[0]],
        cell_program("", (source.dtype,), source.dtype),
        [Sink(kind, task.value, node.params["axes"])],
    )
