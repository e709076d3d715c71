"""Plan to CUDA C++: a device function over pointers to the cells of its arguments and results, as a header file.

Assumes a point Plan. Guarantees the Program's order of operations, and NumPy's treatment of NaN, ties and signed zeros where
the compiler keeps to IEEE 754; complex numbers are structures of two reals in the file itself. Refuses opaque primitives and
functions that CUDA lacks, with `BackendError`.
"""

from typing import ClassVar

from symdiff.codegen.emission.c_like import RESERVED, Dialect, Spelled, comment
from symdiff.codegen.emission.cuda_functions import (
    COMPLEX_NAMES,
    DEVICE,
    guarded,
    header_support,
    macros,
    support,
)
from symdiff.codegen.emission.cuda_special import NAMES as REAL_NAMES
from symdiff.codegen.emission.expressions import ATOM, in_reading_order
from symdiff.codegen.emission.names import Names
from symdiff.codegen.plan import Plan
from symdiff.codegen.program import Instr, Program
from symdiff.codegen.source import Source
from symdiff.errors import BackendError
from symdiff.operation import Op

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

    types: ClassVar[dict[str, str]] = {"d": "double", "f": "float", "D": "complex128", "F": "complex64", "?": "bool"}
    library = "CUDA's device functions"
    restrict = "__restrict__"
    # Complex structures have no truth of their own but by `!`.
    logic: ClassVar[dict[str, str]] = {
        "and": "(!!{0} && !!{1})",
        "or": "(!!{0} || !!{1})",
        "xor": "(!{0} != !{1})",
        "not": "!{0}",
    }

    def function(self, op: Op) -> str | None:
        return op.cuda_name

    def complex_literal(self, real: str, imag: str, code: str) -> str:
        return f"{self.types[code]}({real}, {imag})"

    def on_complex(self, instr: Instr, places: str) -> str:
        if instr.op not in COMPLEX_NAMES:
            raise BackendError(f"{instr.op} of complex numbers is not part of {self.library}")
        return f"{COMPLEX_NAMES[instr.op]}({places})"

    def spelling(self, program: Program, position: int) -> Spelled:
        template, level, needed = super().spelling(program, position)
        instr = program.instrs[position]
        codes = [program.instrs[o].dtype for o in in_reading_order(program, position)]
        if instr.op != "cast" and "F" in codes and "D" in (instr.dtype, *codes):  # structures do not widen by themselves
            for k, code in enumerate(codes):
                if code == "F":
                    template = template.replace(f"{{{k}}}", f"complex128_of({{{k}}})")
        return template, level, needed

    def cast(self, code: str, source: str) -> Spelled:
        if code in "FD" and source in "FD":
            return f"{self.types[code]}_of({{0}})", ATOM, (0,)
        return super().cast(code, source)

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
    text = "\n".join([comment(header, doc), "#pragma once\n", *preamble([program], function, header=True), *function]) + "\n"
    return Source(text, name_of(name), "cuda")


def name_of(name: str) -> str:
    """The name of a function that is free in CUDA C++."""
    return Names(CUDA_RESERVED).fresh(name)


def argument_names(program: Program, name: str) -> tuple[Names, list[str], list[str]]:
    """The names of a device function's arguments and results, beside its own."""
    names = Names((*CUDA_RESERVED, name_of(name)))
    arguments = [names.fresh(leaf.name) for leaf in program.inputs]
    return names, arguments, [names.fresh(o.name) for o in program.outputs]


def preamble(
    programs: list[Program], functions: list[str], summed: frozenset[str] = frozenset(), header: bool = False
) -> list[str]:
    """What stands before the functions of programs: complex types, and functions that CUDA lacks.

    In a `header`, which may be included beside others, each is guarded.
    """
    instrs = [i for p in programs for i in p.instrs]
    shared = LANGUAGE.helpers(instrs, DEVICE)
    if header:
        shared = [guarded("_".join(text.removeprefix(DEVICE).partition("(")[0].split()), text) for text in shared]
    own = [*(header_support(programs) if header else support(programs, summed)), *shared]
    return [*macros("\n".join([*own, *functions])), *own]
