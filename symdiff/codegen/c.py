"""Plan to C99: a function over pointers to the cells of its arguments and results, with nothing but libm behind it.

Assumes a point Plan. Guarantees the Program's order of operations, and NumPy's treatment of NaN, ties and signed zeros where
the compiler keeps to IEEE 754. Refuses special functions but erf, erfc and what `formulas` makes of libm's functions, opaque
primitives, and functions that C99 lacks for complex numbers, with `BackendError`.
"""

from typing import Any, ClassVar

from symdiff.codegen.c_like import INDENT, RESERVED, Dialect, comment
from symdiff.codegen.c_nests import CNests
from symdiff.codegen.formulas import formula_program
from symdiff.codegen.names import Names
from symdiff.codegen.nest_heads import refuse_heads
from symdiff.codegen.source import Source, Wanted
from symdiff.codegen.text import indented
from symdiff.errors import BackendError
from symdiff.ir.node import Node
from symdiff.lowering.plan import Plan
from symdiff.lowering.program import Input, Output, Program
from symdiff.lowering.walks import nodes_with_bodies, uses_of
from symdiff.vocabulary.extents import names_in_extents, sizes_in
from symdiff.vocabulary.operation import Op
from symdiff.vocabulary.traits import operations

_PARTS = {"conj": "conj", "real": "creal", "imag": "cimag", "abs": "cabs"}
_COMPLEX = operations("complex_libm")
_SPECIAL = frozenset({"erf", "erfc"})


class C99(Dialect):
    """C99, complex numbers by <complex.h>."""

    types: ClassVar[dict[str, str]] = {"d": "double", "f": "float", "D": "double complex", "F": "float complex", "?": "bool"}
    library = "C99's libm"

    def function(self, op: Op) -> str | None:
        return op.c if not op.is_special or op.name in _SPECIAL else None

    def complex_literal(self, real: str, imag: str, code: str) -> str:
        return f"({real} + {imag} * I)"

    def on_complex(self, node: Node, places: str) -> str:
        suffix = "f" if node.dtype in "fF" else ""
        if node.op in _PARTS:
            return f"{_PARTS[node.op]}{suffix}({places})"
        if node.op in _COMPLEX:
            return f"c{node.op}{suffix}({places})"
        raise BackendError(f"{node.op} of complex numbers is not part of C99")

    def precisions(self, codes: set[str]) -> list[str]:
        return ["f"] if codes == {"f"} else ["d"] if codes else []


class Declared(C99):
    """What a declaration has, in words of C++, too."""

    types: ClassVar[dict[str, str]] = C99.types | {"D": "double _Complex", "F": "float _Complex"}
    restrict = ""


LANGUAGE, DECLARED = C99(), Declared()


def emit(plan: Plan, **asked: Any) -> Source:
    """The Plan as the C file that is `asked` for, `Wanted`. A function with checks returns an int, 0 or the number of the
    exception."""
    program, want = plan.program, Wanted(**asked)
    names, raised, doc = Names(RESERVED, plain=True), want.raised, want.doc
    entry = names.fresh(want.name)
    guard = names.fresh(f"{entry.upper()}_H")
    arguments = [names.fresh(leaf.name) for leaf in program.inputs]
    targets = [names.fresh(o.name) for o in program.outputs]
    if raised:
        codes = [f"  {k + 1}  {error}" for k, error in enumerate(raised)]
        doc = "\n".join([doc, "", "Returns 0; or the number of a path that has no result, and nothing is written:", *codes])
    head = f"{'int' if raised else 'void'} {entry}"
    told = names_in_extents(tuple(leaf.shape for leaf in program.inputs))
    sizes = {size: names.fresh(size) for size in sorted(told)}
    if problem := refuse_heads(program, LANGUAGE.library):
        raise BackendError(problem)
    if names_in_extents(tuple(o.shape for o in program.outputs)) - told:
        raise BackendError(f"{program.name}: a result as long as a call tells is not part of C's functions; python has them")
    words, bounds = CNests(LANGUAGE, names, dict(sizes), entry), _bounded(program, sizes)
    read = {node.params[0] for node, uses in zip(program.nodes, uses_of(program), strict=True) if node.op == "input" and uses}
    unread = [f"(void){argument};" for place, argument in enumerate(arguments) if place not in read]
    lines = [*unread, *bounds, *words.body(program, arguments, targets), *(["return 0;"] if program.checks else [])]
    formulas = [formula_program(name, code)[0] for name, found in LANGUAGE.formulas(words.printed).items() for code in found]
    nodes = [*nodes_with_bodies(program), *(node for formula in formulas for node in formula.nodes)]
    dtypes = {node.dtype for node in nodes} | {leaf.dtype for leaf in program.leaves}
    included = _included(dtypes, "math.h", *(["stdlib.h"] if words.grown or bounds else []))
    support = [*(text for _, text in LANGUAGE.helpers(words.printed, "static")), *words.helpers(), *words.declared_tables()]
    signature = LANGUAGE.signature(program, arguments, targets, head, sizes.values())
    function = [*signature, "{", *indented(lines), "}", *words.defined_tables()]
    text = "\n".join([comment(want.header, doc), *included, "", *support, *function]) + "\n"
    about = comment(want.header, "\n".join([doc, "", *_described(program, arguments, targets, sizes)]))
    declared = _included({leaf.dtype for leaf in program.leaves} & {"?"})
    declared += DECLARED.signature(program, arguments, targets, head, sizes.values())
    companion = _HEADER.format(about=about, guard=guard, declared="\n".join(declared) + ";")
    return Source(text, entry, "c", companion=companion)


def _bounded(program: Program, sizes: dict[str, str]) -> list[str]:
    """The statements that end the process at sizes for which the function is not."""
    lines = []
    for size in sizes_in(tuple(leaf.shape for leaf in program.inputs)):
        tests = [f"{sizes[size.name]} < {size.least}"]
        tests += [] if size.most is None else [f"{sizes[size.name]} > {size.most}"]
        if size.least > 0 or size.most is not None:
            lines += [f"if ({' || '.join(tests)})", f"{INDENT}abort();"]
    return lines


_HEADER = """{about}
#ifndef {guard}
#define {guard}

#ifdef __cplusplus
extern "C" {{
#endif

{declared}

#ifdef __cplusplus
}}
#endif

#endif /* {guard} */
"""


def _described(program: Program, arguments: list[str], targets: list[str], sizes: dict[str, str]) -> list[str]:
    """A line for each parameter: what it is, and its shape."""
    width = max(map(len, [*sizes.values(), *arguments, *targets]), default=0)
    bounds = {size.name: size.bounds() for size in sizes_in(tuple(leaf.shape for leaf in program.inputs))}
    told = [f"{text:{width}}  long, a size, any {bounds[size]}" for size, text in sizes.items()]
    taken = [f"{a:{width}}  {_shape(leaf)}, is read" for a, leaf in zip(arguments, program.inputs, strict=True)]
    made = [
        f"{t:{width}}  {_shape(o)}, is written; it must not overlap others"
        for t, o in zip(targets, program.outputs, strict=True)
    ]
    return ["Arrays lie in C order, the last index running fastest.", "", *(f"  {line}" for line in [*told, *taken, *made])]


def _shape(leaf: Input | Output) -> str:
    cells = "".join(f"[{n}]" for n in leaf.shape)
    return f"{LANGUAGE.types[leaf.dtype]}{cells or (' *' if isinstance(leaf, Output) else '')}"


def _included(codes: set[str], *others: str) -> list[str]:
    """The headers for numbers of these dtypes, and others."""
    found = {*others, *(["complex.h"] if codes & {"D", "F"} else []), *(["stdbool.h"] if "?" in codes else [])}
    return [f"#include <{name}>" for name in sorted(found)]
