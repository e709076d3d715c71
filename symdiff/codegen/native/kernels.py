"""Kernels of whole arrays as machine code: builtins that take arrays as they are, for generated functions to call.

Assumes that generated code hands over contiguous arrays of the dtypes and sizes that a kernel was made for, and NumPy's own
numbers. Guarantees that other threads run while a large kernel does, and that code lives as long as its builtins. Refuses,
with `TypeError`, numbers of another kind.
"""

import ctypes
from collections.abc import Callable

from symdiff.codegen.arrays.fusing import Call, Fused, Kernel, Sink, Task
from symdiff.codegen.arrays.nesting import Nest, nest, product_nest
from symdiff.codegen.arrays.program import Step, size
from symdiff.codegen.emission.llvm_lines import VECTORS
from symdiff.codegen.emission.llvm_programs import functions
from symdiff.codegen.native.engine import DATA, Code, Passes, fused, lanes
from symdiff.codegen.native.fastcall import FUNCTIONS, MethodDef, bind_names, object_name
from symdiff.codegen.program import Input, Instr, Output, Program
from symdiff.ops import is_complex

_REDUCING = {"sum": "sum", "amax": "max", "amin": "min"}  # heads and the sinks that compute them
_METH_FASTCALL = 0x0080
LARGE = 1 << 15  # operations from which on other threads run meanwhile
PRODUCT = 1 << 12  # multiplications up to which a product of matrices takes less time in loops than in a call of NumPy
FUNCTIONS_WORTH = 5000  # calls of elementary functions for which LLVM's passes take their time
_VALUE = 16  # where a number's value lies in its object


class Kernels:
    """The kernels of fused tasks: `nests` and `builtins` by the place of the task; `text` is their IR, to be compiled after
    the `passes` that pay.
    """

    def __init__(self, program: Fused) -> None:
        self.program = program
        steps = program.program.steps
        wanted = {index: found for index, task in enumerate(program.tasks) if (found := _nest(steps, task))}
        self.text, self.nests = functions(wanted, lanes(), fused())
        called = sum(size(n.domain) * sum(i.op in VECTORS for i in n.program.instrs) for n in self.nests.values())
        self.passes: Passes = "all" if called >= FUNCTIONS_WORTH else "loops"

    def builtins(self) -> dict[int, Callable[..., None]]:
        """A builtin `kernel(arrays and numbers...)` for each nest."""
        bind_names()
        entries = [self._entry(index, found) for index, found in self.nests.items()]
        code = Code("\n".join([*FUNCTIONS, *_USED, self.text, *entries]), 2, self.passes)
        make = ctypes.pythonapi.PyCFunction_NewEx
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
        found = {}
        for index in self.nests:
            definition = MethodDef(f"kernel{index}".encode(), code.address(f"call{index}"), _METH_FASTCALL, None)
            found[index] = make(ctypes.addressof(definition), (code, definition), None)
        return found

    def _entry(self, index: int, found: Nest) -> str:
        """The IR of the function that Python calls."""
        steps = self.program.program.steps
        results = {r.cells.array for r in found.results}
        lines = []
        for k, held in enumerate(found.arrays):
            lines += [
                f"  %a{k} = getelementptr ptr, ptr %args, i64 {k}",
                f"  %o{k} = load ptr, ptr %a{k}",
            ]
            if steps[held.value].shape == () and not held.copied and k not in results:
                lines.append(f"  %p{k} = getelementptr i8, ptr %o{k}, i64 {_VALUE}")
            else:
                lines += [f"  %d{k} = getelementptr i8, ptr %o{k}, i64 {DATA}", f"  %p{k} = load ptr, ptr %d{k}"]
        called = f"  call void @kernel{index}({', '.join(f'ptr %p{k}' for k in range(len(found.arrays)))})"
        if max(found.program.operations(), 1) * size(found.domain) >= LARGE:
            lines += ["  %state = call ptr @PyEval_SaveThread()", called, "  call void @PyEval_RestoreThread(ptr %state)"]
        else:
            lines.append(called)
        none = object_name("none")
        head = f"define ptr @call{index}(ptr %self, ptr %args, i64 %nargs) nounwind {{"
        return "\n".join([head, *lines, f"  call void @Py_IncRef(ptr {none})", f"  ret ptr {none}", "}"])


_USED = (f"{object_name('none')} = external global i8",)


def _nest(steps: list[Step], task: Task) -> Nest | None:
    """The loops of a task, None where NumPy computes it."""
    kernel = _kernel(steps, task)
    if kernel is not None:
        return nest(steps, kernel, lanes())
    if not isinstance(task, Call) or steps[task.value].op != "matmul":
        return None
    shapes = [steps[o].shape for o in steps[task.value].operands]
    small = all(len(shape) == 2 for shape in shapes) and 0 < size(shapes[0]) * shapes[1][1] <= PRODUCT
    return product_nest(steps, task.value) if small else None


def _kernel(steps: list[Step], task: Task) -> Kernel | None:
    """The kernel that a task is, or that computes a sum or an extreme of an array as it is."""
    if isinstance(task, Kernel):
        return task if size(task.domain) else None
    if not isinstance(task, Call) or steps[task.value].op not in _REDUCING:
        return None
    step = steps[task.value]
    source = steps[step.operands[0]]
    kind = _REDUCING[step.op]
    if not size(source.shape) or source.dtype == "?" or (kind != "sum" and is_complex(source.dtype)):
        return None
    cell = Program(
        step.op,
        (Input("x", (), source.dtype),),
        (Output("y", (), source.dtype, (0,)),),
        [Instr("input", (), source.dtype, (0, 0))],
    )
    return Kernel(source.shape, [step.operands[0]], cell, [Sink(kind, task.value, step.params["axes"])])
