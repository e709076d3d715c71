"""Plan to CUDA C++: a device function over pointers to the cells of its arguments and results, as a header file.

Assumes a point Plan. Guarantees the Program's order of operations, and NumPy's treatment of NaN, ties and signed zeros where
the compiler keeps to IEEE 754; complex numbers are structures of two reals in the file itself. Refuses opaque primitives and
functions that CUDA lacks, with `BackendError`.
"""

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from symdiff.codegen.c_like import RESERVED, Dialect, comment
from symdiff.codegen.c_nests import LOCAL, CNests
from symdiff.codegen.cuda.functions import COMPLEX_NAMES, DEVICE, NAMES_OF_SUPPORT, Support, guarded
from symdiff.codegen.cuda.special import NAMES as REAL_NAMES
from symdiff.codegen.expressions import ATOM, SUM, TERM, Expression, Spelled, printed_operands
from symdiff.codegen.formulas import formula_program
from symdiff.codegen.names import Names
from symdiff.codegen.nest_heads import refuse_heads
from symdiff.codegen.nest_values import whole_value
from symdiff.codegen.nest_words import Buffer, Index
from symdiff.codegen.source import Source, Wanted
from symdiff.codegen.text import indented
from symdiff.errors import BackendError
from symdiff.ir.node import Node
from symdiff.lowering.plan import Plan
from symdiff.lowering.program import Program, is_leaf
from symdiff.lowering.walks import programs_in
from symdiff.vocabulary.extents import Shape, names_in_extents
from symdiff.vocabulary.operation import Op
from symdiff.vocabulary.ops import OPS, is_complex
from symdiff.vocabulary.traits import operations

CUDA_RESERVED = RESERVED | NAMES_OF_SUPPORT | frozenset(
    """
    dim3 threadIdx blockIdx blockDim gridDim warpSize half int2 int4 float2 float4 double2 double4 normcdf normcdfinv rcbrt
    rhypot rsqrt sinpi cospi sincospi cyl_bessel_i0 cyl_bessel_i1 erfcinv erfcx erfinv norm norm3d norm4d rnorm CUDART_INF
    CUDART_NAN Piece T load_piece store_piece load_rows store_rows sum_of_lanes
    """.split()
)  # fmt: skip


_JOINS = operations("logic") - {"xor", "not"}


class Cuda(Dialect):
    """CUDA C++."""

    types: ClassVar[dict[str, str]] = {"d": "double", "f": "float", "D": "complex128", "F": "complex64", "?": "bool"}
    library = "CUDA's device functions"
    restrict = "__restrict__"

    def function(self, op: Op) -> str | None:
        return op.cuda_name

    def complex_literal(self, real: str, imag: str, code: str) -> str:
        return f"{self.types[code]}({real}, {imag})"

    def on_complex(self, node: Node, places: str) -> str:
        if node.op not in COMPLEX_NAMES:
            raise BackendError(f"{node.op} of complex numbers is not part of {self.library}")
        return f"{COMPLEX_NAMES[node.op]}({places})"

    def spelling(self, program: Program, position: int) -> Spelled:
        spelled = super().spelling(program, position)
        node = program.nodes[position]
        codes = [program.nodes[o].dtype for o in printed_operands(program, position)]
        if node.op in _JOINS and any(c in "FD" for c in codes):  # structures have no truth of their own but by `!`
            return spelled._replace(template=spelled.template.format("!!{0}", "!!{1}"), needed=(ATOM, ATOM))
        if node.op != "cast" and "F" in codes and "D" in (node.dtype, *codes):  # structures do not widen by themselves
            places = (f"complex128_of({{{k}}})" if c == "F" else f"{{{k}}}" for k, c in enumerate(codes))
            return spelled._replace(template=spelled.template.format(*places))
        return spelled

    def cast(self, code: str, source: str) -> Spelled:
        if code in "FD" and source in "FD":
            return Spelled(f"{self.types[code]}_of({{0}})")
        return super().cast(code, source)

    def on_reals(self, node: Node, op: Op, places: str) -> Spelled:
        if node.op in REAL_NAMES:
            return Spelled(f"{REAL_NAMES[node.op]}({places})")
        return super().on_reals(node, op, places)

    def precisions(self, codes: set[str]) -> list[str]:
        return sorted(codes & {"f", "d"})


LANGUAGE = Cuda()


class CudaNests(CNests):
    """Statements of a device function, whose only memory are its variables."""

    constant, qualifier = "const", DEVICE

    def stands_outside(self, value: np.ndarray) -> bool:
        return super().stands_outside(value) and not is_complex(value.dtype.char)  # structures are made in the function

    def buffer(self, name: str, shape: Shape, code: str) -> Buffer:
        found = super().buffer(name, shape, code)
        if self.large:
            raise LANGUAGE.lacking(f"an array of {math.prod(shape)} cells within a function")
        return found

    def store(self, buffer: Buffer, index: Index, value: Expression, add: bool = False) -> None:
        if add and is_complex(buffer.dtype):  # structures have no sum in place
            value, add = Expression(f"{self._cell(buffer, index)} + {value.at(TERM)}", SUM, 1), False
        super().store(buffer, index, value, add)


def device_function(program: Program, name: str) -> tuple[list[str], CudaNests]:
    """A function of pointers to the cells of arguments and results, and what it was said in."""
    if problem := _refused(program):
        raise BackendError(problem)
    names, arguments, targets = cuda_argument_names(program, name)
    words = CudaNests(LANGUAGE, names, {}, name_of(name))
    lines = words.body(program, arguments, targets)
    head = LANGUAGE.signature(program, arguments, targets, f"{DEVICE} void {name_of(name)}")
    return [*words.declared_tables(), *head, "{", *indented(lines), "}"], words


def _refused(program: Program) -> str:
    """Why there is no device function of a program, by its arguments and operations on arrays; "" where that is no reason."""
    if names_in_extents(tuple(leaf.shape for leaf in program.leaves)):
        return str(LANGUAGE.lacking(f"{program.name}: a size that a call tells"))
    return refuse_heads(program, LANGUAGE.library)


def lacking_in_cuda(program: Program) -> str:
    """Why a program may have no device function, "" where it has one: an array within it counts as one in memory."""
    if problem := _refused(program):
        return problem
    made = {whole_value(program, output) for output in program.outputs}  # in the memory of results
    for own in programs_in(program):
        for position, node in enumerate(own.nodes):
            try:
                if node.op in OPS and not is_leaf(node):
                    LANGUAGE.spelling(own, position)
            except BackendError as error:
                return str(error)
            shapes = [r.shape for r in node.params.results[: node.params.carried]] if node.op == "loop" else []
            shapes += [] if is_leaf(node) or (own is program and position in made) else [node.shape]
            if any(names_in_extents(shape) or math.prod(shape) > LOCAL for shape in shapes):
                return str(LANGUAGE.lacking(f"an array of more than {LOCAL} cells within a function"))
    return ""


def emit(plan: Plan, **asked: Any) -> Source:
    """The Plan as the header file that is `asked` for, `Wanted`, with one device function."""
    want = Wanted(raised=(), **asked)
    function, words = device_function(plan.program, want.name)
    helpers = [guarded(helper, text) for helper, text in zip(sorted(words.used), words.helpers(), strict=True)]
    before = preamble([*programs_in(plan.program)], header=True, printed=words.printed)
    text = [comment(want.header, want.doc), "#pragma once\n", *before, *helpers, *function, *words.defined_tables()]
    return Source("\n".join(text) + "\n", name_of(want.name), "cuda")


def name_of(name: str) -> str:
    """The name of a function that is free in CUDA C++."""
    return Names(CUDA_RESERVED, plain=True).fresh(name)


def cuda_argument_names(program: Program, name: str) -> tuple[Names, list[str], list[str]]:
    """The names of a device function's arguments and results, beside its own."""
    names = Names((*CUDA_RESERVED, name_of(name)), plain=True)
    arguments = [names.fresh(leaf.name) for leaf in program.inputs]
    return names, arguments, [names.fresh(o.name) for o in program.outputs]


def preamble(
    programs: list[Program], summed: frozenset[str] = frozenset(), header: bool = False, printed: Sequence[Node] = ()
) -> list[str]:
    """What stands before the functions of programs: complex types, and functions that CUDA lacks.

    In a `header`, which may be included beside others, each is guarded; `printed` are operations that its loops have, too.
    """
    nodes = [*(i for p in programs for i in p.nodes), *printed]
    formulas = [formula_program(name, c)[0] for name, codes in LANGUAGE.formulas(nodes).items() for c in sorted(codes)]
    support = Support([*programs, *formulas], summed)
    own = [guarded(name, text) if header else text for name, text in LANGUAGE.helpers(nodes, DEVICE)]
    return [*support.macros(), *(support.guarded_texts() if header else support.texts()), *own]
