"""Plan to CUDA C++: a device function over pointers to the cells of its arguments and results, as a header file.

Assumes a point Plan. Guarantees the Program's order of operations, and NumPy's treatment of NaN, ties and signed zeros where
the compiler keeps to IEEE 754; complex numbers are structures of two reals in the file itself. Refuses opaque primitives and
functions that CUDA lacks, with `BackendError`.
"""

from symdiff.codegen.emission.c_like import RESERVED, Dialect, Spelled, comment
from symdiff.codegen.emission.cuda_functions import COMPLEX_NAMES, REAL_NAMES, complex_types, device_functions, macros
from symdiff.codegen.emission.expressions import ATOM
from symdiff.codegen.emission.names import Names
from symdiff.codegen.plan import Plan
from symdiff.codegen.program import Instr, Program
from symdiff.codegen.source import Source
from symdiff.errors import BackendError
from symdiff.operation import Op

DEVICE = "__device__ inline"
CUDA_RESERVED = (
    *RESERVED,
    *"""
    asm catch class const_cast delete dynamic_cast explicit export friend mutable namespace new operator private protected
    public reinterpret_cast static_cast template this throw try typeid typename using virtual wchar_t alignas alignof constexpr
    decltype noexcept nullptr static_assert thread_local bool complex64 complex128 dim3 threadIdx blockIdx blockDim gridDim
    warpSize __device__ __global__ __shared__ real imag conj expit logit digamma INFINITY NAN
    """.split(),
)


class Cuda(Dialect):
    """CUDA C++."""

    types = {"d": "double", "f": "float", "D": "complex128", "F": "complex64", "?": "bool"}
    library = "CUDA's device functions"
    restrict = "__restrict__"

    def function(self, op: Op) -> str | None:
        return op.cuda_name

    def complex_literal(self, real: str, imag: str, code: str) -> str:
        return f"{self.types[code]}({real}, {imag})"

    def on_complex(self, instr: Instr, places: str) -> str:
        if instr.op not in COMPLEX_NAMES:
            raise BackendError(f"{instr.op} of complex numbers is not part of {self.library}")
        return f"{COMPLEX_NAMES[instr.op]}({places})"

    def on_reals(self, instr: Instr, op: Op, places: str) -> Spelled:
        if instr.op in REAL_NAMES:
            return f"{REAL_NAMES[instr.op]}({places})", ATOM, (0,) * op.arity
        return super().on_reals(instr, op, places)

    def precisions(self, codes: set[str]) -> list[str]:
        return sorted(codes & {"f", "d"})


LANGUAGE = Cuda()


def emit(plan: Plan, *, name: str, style: str = "export", header: str = "", doc: str = "", result: str = "tuple") -> Source:
    """The Plan as a header file with one device function."""
    program = plan.program
    if plan.kind != "point":
        raise BackendError(f"{program.name}: the CUDA target takes one point; target cupy has the kernel over many")
    names, arguments, targets = argument_names(program, name)
    function = LANGUAGE.function_text(program, f"{DEVICE} void {name_of(name)}", names, arguments, targets)
    text = "\n".join([comment(header, doc), "#pragma once\n", *preamble([program], function), *function]) + "\n"
    return Source(text, name_of(name), "cuda")


def name_of(name: str) -> str:
    """The name of a function that is free in CUDA C++."""
    return Names(CUDA_RESERVED).fresh(name)


def argument_names(program: Program, name: str) -> tuple[Names, list[str], list[str]]:
    """The names of a device function's arguments and results, beside its own."""
    names = Names((*CUDA_RESERVED, name_of(name)))
    arguments = [names.fresh(leaf.name) for leaf in program.inputs]
    return names, arguments, [names.fresh(o.name) for o in program.outputs]


def preamble(programs: list[Program], functions: list[str], summed: frozenset[str] = frozenset()) -> list[str]:
    """What stands before the functions of programs: complex types, and functions that CUDA lacks."""
    codes = summed | {c.dtype for p in programs for c in (*p.instrs, *p.inputs, *p.outputs)}
    types = complex_types(set(codes), "__device__")
    own = device_functions(programs, DEVICE, summed)
    shared = LANGUAGE.helpers([i for p in programs for i in p.instrs], DEVICE)
    text = "\n".join([*own, *shared, *functions])
    return [*macros(text), *types, *own, *shared]
