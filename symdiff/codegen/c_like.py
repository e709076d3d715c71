"""What C and CUDA C++ have in common: types, literals, expressions, comments, and the functions that either lacks.

Assumes a Program of point values. Guarantees the Program's order of operations, and NumPy's treatment of NaN, ties and signed
zeros where the compiler keeps to IEEE 754. Refuses opaque primitives, and functions that a language lacks, with `BackendError`.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, ClassVar

from symdiff.codegen.expressions import ATOM, SIGN, Ends, Spelled, Statements, emit_statements, parenthesis_levels
from symdiff.codegen.formulas import FORMULAS, formula_program
from symdiff.codegen.names import Names
from symdiff.codegen.text import indented
from symdiff.errors import BackendError
from symdiff.ir.node import Node
from symdiff.lowering.program import Program, takes_complex
from symdiff.vocabulary.literals import WIDTH, c_comment_literal, folded, printable_lines
from symdiff.vocabulary.operation import Op
from symdiff.vocabulary.ops import OPS, is_complex
from symdiff.vocabulary.traits import operations

INDENT = "    "
_ARITHMETIC = {"add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "div": "{0} / {1}", "neg": "-{0}"}
_LOGIC = {"and": "{0} && {1}", "or": "{0} || {1}", "xor": "!{0} != !{1}", "not": "!{0}"}
_WRITTEN = _ARITHMETIC | _LOGIC | {op: OPS[op].python or "" for op in operations("compares")} | {"select": "{0} ? {1} : {2}"}
_ORDERED = frozenset(op for op in operations("compares") if OPS[op].python_complex is None)
# The functions that a file has where its language lacks them.
_CALLED = {name: f"special_{name}" if OPS[name].is_special else f"np_{OPS[name].numpy}" for name in FORMULAS}


_REAL = """
    acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh drem erf erfc exp exp10 exp2 expm1 fabs fdim finite floor
    fma fmax fmin fmod frexp gamma hypot ilogb j0 j1 jn ldexp lgamma llrint llround log log10 log1p log2 logb lrint lround modf
    nan nearbyint nextafter nexttoward pow pow10 remainder remquo rint round scalb scalbln scalbn significand sin sincos sinh
    sqrt tan tanh tgamma trunc y0 y1 yn
""".split()
_COMPLEX = """
    cabs cacos cacosh carg casin casinh catan catanh ccos ccosh cexp cimag clog clog10 conj cpow cproj creal csin csinh csqrt
    ctan ctanh
""".split()
# Words of C11 and C++, and names that their libraries, and macros of common headers and compilers, have.
RESERVED = frozenset(
    f"{name}{suffix}" for name in (*_REAL, *_COMPLEX) for suffix in ("", "f", "l")
) | frozenset(
    """
    auto break case char const continue default do double else enum extern float for goto if inline int long register
    restrict return short signed sizeof static struct switch typedef union unsigned void volatile while bool true false
    and and_eq alignas alignof asm bitand bitor catch class compl concept const_cast constexpr consteval constinit co_await
    co_return co_yield decltype delete dynamic_cast explicit export friend mutable namespace new noexcept not not_eq nullptr
    operator or or_eq private protected public reinterpret_cast requires static_assert static_cast template this thread_local
    throw try typeid typename typeof typeof_unqual using virtual char8_t char16_t char32_t wchar_t xor xor_eq fortran
    main abort abs assert atexit atof atoi atol calloc clock div exit free getenv index labs llabs malloc memcmp memcpy memmove
    memset printf putchar puts qsort rand read realloc signal sprintf srand strcat strchr strcmp strcpy strlen strtod system
    time write
    I EOF NULL BUFSIZ CLOCKS_PER_SEC DOMAIN EDOM EILSEQ ERANGE HUGE HUGE_VAL HUGE_VALF HUGE_VALL INFINITY MATH_ERREXCEPT
    MATH_ERRNO MAXFLOAT NAN OVERFLOW PLOSS RAND_MAX SING TLOSS UNDERFLOW complex errno far fpclassify imaginary isfinite
    isgreater isgreaterequal isinf isless islessequal islessgreater isnan isnormal isunordered i386 linux math_errhandling
    max min near offsetof signbit signgam small stderr stdin stdout thread_local unix vector pixel
    M_1_PI M_2_PI M_2_SQRTPI M_E M_LN10 M_LN2 M_LOG10E M_LOG2E M_PI M_PI_2 M_PI_4 M_SQRT1_2 M_SQRT2
    FP_FAST_FMA FP_FAST_FMAF FP_FAST_FMAL FP_ILOGB0 FP_ILOGBNAN FP_INFINITE FP_NAN FP_NORMAL FP_SUBNORMAL FP_ZERO
    """.split()
) | frozenset(_CALLED.values())  # fmt: skip


class Dialect:
    """How one language of the C family spells a Program; what the languages do in their own ways, its subclasses say."""

    types: ClassVar[dict[str, str]] = {}
    written: ClassVar[dict[str, str]] = _WRITTEN
    library = ""  # what an operation is missing from
    restrict = "restrict"

    def function(self, op: Op) -> str | None:
        """The name of the library's function for real numbers, in double precision."""
        raise NotImplementedError

    def complex_literal(self, real: str, imag: str, code: str) -> str:
        """A complex constant, from the texts of its parts."""
        raise NotImplementedError

    def on_complex(self, node: Node, places: str) -> str:
        """The template of a function of complex numbers; `places` are its operands."""
        raise NotImplementedError

    def lacking(self, what: str) -> BackendError:
        """The error for what the language cannot compute."""
        return BackendError(f"{what} is not part of {self.library}")

    def literal(self, value: Any, code: str) -> str:
        """A constant as text with all its bits."""
        if isinstance(value, bool) or code == "?":
            return "true" if value else "false"
        if isinstance(value, complex):
            part = "f" if code == "F" else "d"
            return self.complex_literal(self.literal(value.real, part), self.literal(value.imag, part), code)
        value = float(value)
        if not math.isfinite(value):
            return "NAN" if value != value else "INFINITY" if value > 0 else "-INFINITY"
        return repr(value) + ("f" if code in "fF" else "")

    def spelling(self, program: Program, position: int) -> Spelled:
        """Template, level and operand levels of one instruction."""
        node = program.nodes[position]
        op = OPS[node.op]
        if node.op == "call":
            raise self.lacking(node.params.__name__)
        on_complex = takes_complex(program, node)
        if on_complex and node.op in _ORDERED:
            raise self.lacking(f"the order of complex numbers ({node.op})")
        if node.op in self.written:
            return Spelled(self.written[node.op], *parenthesis_levels(node.op, op.arity, self.written[node.op]))
        if node.op == "cast":
            return self.cast(node.dtype, program.nodes[node.operands[0]].dtype)
        places = ", ".join(f"{{{k}}}" for k in range(op.arity))
        if on_complex:
            return Spelled(self.on_complex(node, places))
        return self.on_reals(node, op, places)

    def cast(self, code: str, source: str) -> Spelled:
        """A value of one dtype as another."""
        return Spelled(f"({self.types[code]}){{0}}", SIGN, (ATOM,))

    def on_reals(self, node: Node, op: Op, places: str) -> Spelled:
        """A function of real numbers."""
        if node.op in ("conj", "real", "imag"):
            return Spelled("0.0" if node.op == "imag" else "{0}", ATOM, (ATOM,))
        if node.op in ("isnan", "isinf", "isfinite"):
            return Spelled(f"{node.op}({{0}})")
        name = self.function(op)
        if name is None:
            if node.op in _CALLED:
                return Spelled(f"{_CALLED[node.op]}({places})")
            raise self.lacking(node.op)
        return Spelled(f"{name}{'f' if node.dtype in 'fF' else ''}({places})")

    def body(
        self, program: Program, read: Callable[[int, int], str], names: Names,
        ends: Ends | None = None, wished: Mapping[int, str] = MappingProxyType({}),
    ) -> Statements:  # fmt: skip
        """The statements of a Program, and the expression of every output value.

        `read` gives the text of an argument's cell, `ends` the lines of a check; `wished` are names of values.
        """
        return emit_statements(
            program,
            read,
            lambda node: self.literal(node.params, node.dtype),
            self.spelling,
            names,
            declare=lambda code: f"const {self.types[code]} ",
            ends=ends,
            wished=wished,
            stop=";",
        )

    def signature(
        self, program: Program, arguments: list[str], targets: list[str], head: str, sizes: Iterable[str] = ()
    ) -> list[str]:
        """The function's head: sizes, numbers by value, arrays as pointers to their cells in C order, results last."""
        parts, pointer = [f"long {size}" for size in sizes], f"*{self.restrict} " if self.restrict else "*"
        for leaf, argument in zip(program.inputs, arguments, strict=True):
            kind = self.types[leaf.dtype]
            parts.append(f"{kind} {argument}" if leaf.shape == () else f"const {kind} {pointer}{argument}")
        parts += [f"{self.types[o.dtype]} {pointer}{target}" for o, target in zip(program.outputs, targets, strict=True)]
        return c_signature(head, parts)

    def formulas(self, nodes: list[Node]) -> dict[str, set[str]]:
        """The functions that are printed by their formulas, each before those that call it, with its dtypes."""
        found: dict[str, set[str]] = {}
        for name in reversed(FORMULAS):
            if self.function(OPS[name]) is None:
                called = [n for f, codes in found.items() for c in codes for n in formula_program(f, c)[0].nodes]
                codes = {i.dtype for i in [*nodes, *called] if i.op == name and not is_complex(i.dtype)}
                found[name] = set(self.precisions(codes))
        return {name: found[name] for name in reversed(found) if found[name]}

    def helpers(self, nodes: list[Node], qualifier: str) -> list[tuple[str, str]]:
        """What the instructions need and the language lacks: the functions' names, with their types, and texts."""
        return [
            (f"{self.types[code]}_{_CALLED[name]}", self.formula_text(name, code, qualifier))
            for name, codes in self.formulas(nodes).items()
            for code in sorted(codes)
        ]

    def formula_text(self, name: str, code: str, qualifier: str) -> str:
        """A function of `formulas`."""
        program, wished = formula_program(name, code)
        parameters = [leaf.name for leaf in program.inputs]
        ended = replace(program, outputs=(), checks=(program.outputs[0].value,))
        names = Names((*RESERVED, *parameters), plain=True)
        try:
            lines, _ = self.body(ended, lambda k, _: parameters[k], names, lambda _, found: [f"return {found};"], wished)
        except BackendError:
            raise self.lacking(name) from None
        kind = self.types[code]
        head = f"{qualifier} {kind} {_CALLED[name]}({', '.join(f'{kind} {p}' for p in parameters)})"
        return "\n".join([head, "{", *indented(lines), "}"]) + "\n"

    def precisions(self, codes: set[str]) -> list[str]:
        """The real types for which a function is written."""
        raise NotImplementedError


def c_signature(head: str, parts: list[str]) -> list[str]:
    """A function's head on one line, or with a parameter a line."""
    line = f"{head}({', '.join(parts)})"
    if len(", ".join(parts)) < 80 and len(line) <= WIDTH:
        return [line]
    return [f"{head}(", *(f"{INDENT}{p}{',' if k < len(parts) - 1 else ')'}" for k, p in enumerate(parts))]


def comment(header: Sequence[str], doc: str) -> str:
    """The file's first comment, from the lines of its header and a docstring."""
    lines = [part for line in printable_lines(doc) for part in (folded(line) if len(line) > WIDTH else [line])] if doc else []
    return c_comment_literal([*header, *([""] if doc else []), *lines])
