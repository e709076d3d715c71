"""The device functions that CUDA lacks: complex numbers as two reals, and what `cuda_special` has.

Assumes programs of point values. Guarantees that a file holds only the functions that it calls, each before its callers, and
that NaN and infinities pass as C99 has it where the real functions do. The formulas of the inverse functions are Kahan's
(Branch cuts for complex elementary functions, 1987); division is Smith's.
"""

import re

import numpy as np

from symdiff.codegen.cuda.special import NEEDS as _REAL_NEEDS
from symdiff.codegen.cuda.special import REAL as _REAL
from symdiff.codegen.expressions import printed_operands
from symdiff.ir.node import Node
from symdiff.lowering.program import Program

# {c} is the complex type, {t} its real one, {f} the suffix of real functions.
_STRUCT = """struct {c} {{
    {t} re, im;
    {c}() = default;
    __device__ {c}({t} re, {t} im = 0) : re(re), im(im) {{}}
}};
"""
_OPERATORS = {
    "neg c": "{c} operator-({c} z) {{ return {c}(-z.re, -z.im); }}",
    "add cc": "{c} operator+({c} x, {c} y) {{ return {c}(x.re + y.re, x.im + y.im); }}",
    "add rc": "{c} operator+({t} x, {c} y) {{ return {c}(x + y.re, y.im); }}",
    "add cr": "{c} operator+({c} x, {t} y) {{ return {c}(x.re + y, x.im); }}",
    "sub cc": "{c} operator-({c} x, {c} y) {{ return {c}(x.re - y.re, x.im - y.im); }}",
    "sub rc": "{c} operator-({t} x, {c} y) {{ return {c}(x - y.re, -y.im); }}",
    "sub cr": "{c} operator-({c} x, {t} y) {{ return {c}(x.re - y, x.im); }}",
    "mul cc": "{c} operator*({c} x, {c} y) {{ return {c}(x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re); }}",
    "mul rc": "{c} operator*({t} x, {c} y) {{ return {c}(x * y.re, x * y.im); }}",
    "mul cr": "{c} operator*({c} x, {t} y) {{ return {c}(x.re * y, x.im * y); }}",
    "div cc": """{c} operator/({c} x, {c} y)
{{
    if (fabs{f}(y.re) >= fabs{f}(y.im)) {{
        if (y.re == 0)
            return {c}(x.re / fabs{f}(y.re), x.im / fabs{f}(y.re));
        const {t} r = y.im / y.re, s = 1 / (y.re + y.im * r);
        return {c}((x.re + x.im * r) * s, (x.im - x.re * r) * s);
    }}
    const {t} r = y.re / y.im, s = 1 / (y.im + y.re * r);
    return {c}((x.re * r + x.im) * s, (x.im * r - x.re) * s);
}}""",
    "div rc": "{c} operator/({t} x, {c} y) {{ return {c}(x, 0) / y; }}",
    "div cr": "{c} operator/({c} x, {t} y) {{ return {c}(x.re / y, x.im / y); }}",
    "eq cc": "bool operator==({c} x, {c} y) {{ return x.re == y.re && x.im == y.im; }}",
    "ne cc": "bool operator!=({c} x, {c} y) {{ return x.re != y.re || x.im != y.im; }}",
    "truth": "bool operator!({c} z) {{ return z.re == 0 && z.im == 0; }}",
}
_FUNCTIONS = {
    "of": "{c} {c}_of({other} z) {{ return {c}(z.re, z.im); }}",
    "real": "{t} real({c} z) {{ return z.re; }}",
    "imag": "{t} imag({c} z) {{ return z.im; }}",
    "conj": "{c} conj({c} z) {{ return {c}(z.re, -z.im); }}",
    "abs": "{t} abs({c} z) {{ return hypot{f}(z.re, z.im); }}",
    "isnan": "bool isnan({c} z) {{ return isnan(z.re) || isnan(z.im); }}",
    "isinf": "bool isinf({c} z) {{ return isinf(z.re) || isinf(z.im); }}",
    "isfinite": "bool isfinite({c} z) {{ return isfinite(z.re) && isfinite(z.im); }}",
    "sign": """{c} np_sign({c} z)
{{
    const {t} r = hypot{f}(z.re, z.im);
    return r == 0 ? {c}(0, 0) : {c}(z.re / r, z.im / r);
}}""",
    "exp": """{c} exp({c} z)
{{
    const {t} r = exp{f}(z.re);
    return z.im == 0 ? {c}(r, z.im) : {c}(r * cos{f}(z.im), r * sin{f}(z.im));
}}""",
    "exp2": "{c} exp2({c} z) {{ return exp({c}(0.6931471805599453{f} * z.re, 0.6931471805599453{f} * z.im)); }}",
    "expm1": """{c} expm1({c} z)
{{
    const {t} s = sin{f}(z.im / 2);
    return {c}(expm1{f}(z.re) * cos{f}(z.im) - 2 * s * s, exp{f}(z.re) * sin{f}(z.im));
}}""",
    "log": """{c} log({c} z)
{{
    const {t} r = hypot{f}(z.re, z.im), angle = atan2{f}(z.im, z.re);
    if (!(r > 0.7{f} && r < 1.4{f}))
        return {c}(log{f}(r), angle);
    // Near the unit circle |z|^2 - 1 is taken without rounding errors.
    const {t} a = fmax{f}(fabs{f}(z.re), fabs{f}(z.im)), b = fmin{f}(fabs{f}(z.re), fabs{f}(z.im));
    const {t} aa = a * a, bb = b * b;
    return {c}(log1p{f}((aa - 1) + bb + (fma{f}(a, a, -aa) + fma{f}(b, b, -bb))) / 2, angle);
}}""",
    "log1p": """{c} log1p({c} z)
{{
    if (fabs{f}(z.re) > 0.5{f} || fabs{f}(z.im) > 0.5{f})
        return log({c}(1 + z.re, z.im));
    return {c}(log1p{f}(z.re * (2 + z.re) + z.im * z.im) / 2, atan2{f}(z.im, 1 + z.re));
}}""",
    "log2": """{c} log2({c} z)
{{
    const {c} w = log(z);
    return {c}(w.re * 1.4426950408889634{f}, w.im * 1.4426950408889634{f});
}}""",
    "log10": """{c} log10({c} z)
{{
    const {c} w = log(z);
    return {c}(w.re * 0.4342944819032518{f}, w.im * 0.4342944819032518{f});
}}""",
    "sqrt": """{c} sqrt({c} z)
{{
    if (z.re == 0 && z.im == 0)
        return {c}(0, z.im);
    if (isinf(z.im))
        return {c}(fabs{f}(z.im), z.im);
    const {t} s = sqrt{f}(fabs{f}(z.re) / 2 + hypot{f}(z.re, z.im) / 2);
    return z.re >= 0 ? {c}(s, z.im / (2 * s)) : {c}(fabs{f}(z.im) / (2 * s), copysign{f}(s, z.im));
}}""",
    "sin": "{c} sin({c} z) {{ return {c}(sin{f}(z.re) * cosh{f}(z.im), cos{f}(z.re) * sinh{f}(z.im)); }}",
    "cos": "{c} cos({c} z) {{ return {c}(cos{f}(z.re) * cosh{f}(z.im), -sin{f}(z.re) * sinh{f}(z.im)); }}",
    "sinh": "{c} sinh({c} z) {{ return {c}(sinh{f}(z.re) * cos{f}(z.im), cosh{f}(z.re) * sin{f}(z.im)); }}",
    "cosh": "{c} cosh({c} z) {{ return {c}(cosh{f}(z.re) * cos{f}(z.im), sinh{f}(z.re) * sin{f}(z.im)); }}",
    "tanh": """{c} tanh({c} z)
{{
    if (fabs{f}(z.re) > 22)
        return {c}(copysign{f}(1.0{f}, z.re), 4 * sin{f}(z.im) * cos{f}(z.im) * exp{f}(-2 * fabs{f}(z.re)));
    const {t} t = tan{f}(z.im), b = 1 + t * t, s = sinh{f}(z.re), d = 1 + b * s * s;
    return {c}(b * cosh{f}(z.re) * s / d, t / d);
}}""",
    "tan": """{c} tan({c} z)
{{
    const {c} w = tanh({c}(-z.im, z.re));
    return {c}(w.im, -w.re);
}}""",
    "asin": """{c} asin({c} z)
{{
    const {c} a = sqrt({c}(1 - z.re, -z.im)), b = sqrt({c}(1 + z.re, z.im));
    return {c}(atan2{f}(z.re, a.re * b.re - a.im * b.im), asinh{f}(a.re * b.im - a.im * b.re));
}}""",
    "acos": """{c} acos({c} z)
{{
    const {c} a = sqrt({c}(1 - z.re, -z.im)), b = sqrt({c}(1 + z.re, z.im));
    return {c}(2 * atan2{f}(a.re, b.re), asinh{f}(b.re * a.im - b.im * a.re));
}}""",
    "acosh": """{c} acosh({c} z)
{{
    const {c} a = sqrt({c}(z.re - 1, z.im)), b = sqrt({c}(z.re + 1, z.im));
    return {c}(asinh{f}(a.re * b.re + a.im * b.im), 2 * atan2{f}(a.im, b.re));
}}""",
    "asinh": """{c} asinh({c} z)
{{
    const {c} w = asin({c}(z.im, -z.re));
    return {c}(-w.im, w.re);
}}""",
    "atanh": """{c} atanh({c} z)
{{
    const {t} x = fabs{f}(z.re), y = z.im;
    const {t} re = log1p{f}(4 * x / ((1 - x) * (1 - x) + y * y)) / 4;
    return {c}(copysign{f}(re, z.re), atan2{f}(2 * y, (1 - x) * (1 + x) - y * y) / 2);
}}""",
    "atan": """{c} atan({c} z)
{{
    const {c} w = atanh({c}(-z.im, z.re));
    return {c}(w.im, -w.re);
}}""",
    "pow": """{c} pow({c} x, {c} y)
{{
    if (y.re == 0 && y.im == 0)
        return {c}(1, 0);
    if (x.re == 0 && x.im == 0 && y.re > 0)
        return {c}(0, 0);
    return exp(y * log(x));
}}""",
}
_NEEDS = {
    "exp2": ["exp"], "log1p": ["log"], "log2": ["log"], "log10": ["log"], "tan": ["tanh"], "asin": ["sqrt"], "acos": ["sqrt"],
    "acosh": ["sqrt"], "asinh": ["sqrt", "asin"], "atan": ["atanh"], "pow": ["exp", "log", "mul cc"], "div rc": ["div cc"],
    **_REAL_NEEDS,
}  # fmt: skip
COMPLEX_NAMES = {name: "np_sign" if name == "sign" else name for name in _FUNCTIONS}
DEVICE = "__device__ inline"


def _types(code: str) -> dict[str, str]:
    single = code in "fF"
    names = ("complex64", "complex128") if single else ("complex128", "complex64")
    return {"c": names[0], "other": names[1], "t": "float" if single else "double", "f": "f" if single else ""}


# What the functions are called, and what they call.
NAMES_OF_SUPPORT = frozenset(
    word
    for text in (*_FUNCTIONS.values(), *_REAL.values())
    for code in "fdFD"
    for word in re.findall(r"[A-Za-z_]\w*(?=\()", text.format(**_types(code)))
) | {"complex64", "complex128"}
_MACROS = {
    "INFINITY": "#ifndef INFINITY\n#define INFINITY __int_as_float(0x7f800000)\n#endif\n",
    "NAN": "#ifndef NAN\n#define NAN __int_as_float(0x7fffffff)\n#endif\n",
}


class Support:
    """The complex types, operators and functions, and the special functions, that programs call: `used` has them as (name,
    dtype code), `codes` the complex dtypes; `summed` are the dtypes of which sums are taken."""

    def __init__(self, programs: list[Program], summed: frozenset[str]) -> None:
        self.programs = programs
        self.used: set[tuple[str, str]] = set()
        codes = set(summed)
        for code in summed & {"F", "D"}:
            self.need("add cc", code)
        for program in programs:
            codes |= {value.dtype for values in (program.nodes, program.leaves) for value in values}
            for position, node in enumerate(program.nodes):
                self.need_for(node, [program.nodes[o].dtype for o in printed_operands(program, position)])
        self.codes = sorted(codes & {"F", "D"}, reverse=True)

    def need_for(self, node: Node, codes: list[str]) -> None:
        """What an operation on operands of some dtypes calls."""
        on = max((c for c in [node.dtype, *codes] if c in "FD"), key="FD".index, default="")
        if not on:
            self.need(node.op if node.op in _REAL else "", node.dtype)
            return
        kinds = "".join("c" if c in "FD" else "r" for c in codes)
        if node.op == "cast" and kinds == "c":
            self.need("of", node.dtype)
        if on == "D" and "F" in codes:
            self.need("of", on)
        for name in (f"{node.op} {kinds}", f"{node.op} cc" if node.op in ("eq", "ne") else "", node.op):
            self.need(name, on)
        if node.op in ("and", "or", "xor", "not"):
            self.need("truth", on)

    def need(self, name: str, code: str) -> None:
        """A function, and those that it calls."""
        if (name in _OPERATORS or name in _FUNCTIONS or name in _REAL) and (name, code) not in self.used:
            self.used.add((name, code))
            for other in _NEEDS.get(name, ()):
                self.need(other, code)

    def texts(self) -> list[str]:
        """Their texts; functions of one line stand together."""
        texts = [text for table in _TABLES for _, text in _texts(self.used, table)]
        spaced = [
            text if "\n" not in text and after and "\n" not in after else f"{text}\n"
            for text, after in zip(texts, [*texts[1:], ""], strict=False)
        ]
        return [*(_struct(c) for c in self.codes), *spaced]

    def guarded_texts(self) -> list[str]:
        """The same for a header file, each part guarded, so that several such files can be included: complex types come with
        all their operators."""
        found = []
        for code in self.codes:
            operators = [text for _, text in _texts({(name, code) for name in _OPERATORS}, _OPERATORS)]
            found.append(guarded(_types(code)["c"], _struct(code) + "\n" + "\n".join(operators)))
        return [*found, *(guarded(name, text) for table in _TABLES[1:] for name, text in _texts(self.used, table))]

    def macros(self) -> list[str]:
        """What stands for names of <math.h> in texts of ours, which the run-time compiler does not have."""
        needed = {macro for name, _ in self.used for macro in _NEEDS.get(name, ())}
        constants = [np.asarray(node.params) for program in self.programs for node in program.nodes if node.op == "const"]
        parts = [part for value in constants for part in (value.real, value.imag)]
        tests = (("NAN", np.isnan), ("INFINITY", np.isinf))
        needed |= {name for name, test in tests if any(test(part).any() for part in parts)}
        return [definition for name, definition in _MACROS.items() if name in needed]


_TABLES = _OPERATORS, _FUNCTIONS, _REAL


def guarded(name: str, text: str) -> str:
    """A definition that is made once where several headers have it."""
    macro = f"SYMDIFF_{name.upper()}"
    body = text.rstrip("\n")
    return f"#ifndef {macro}\n#define {macro}\n{body}\n#endif\n"


def _struct(code: str) -> str:
    return _STRUCT.format(**_types(code))


def _texts(used: set[tuple[str, str]], table: dict[str, str]) -> list[tuple[str, str]]:
    """The texts of functions of a table, under names of their own, each after those that it calls."""
    order: dict[str, str] = {}
    for name, text in table.items():
        for needed in _NEEDS.get(name, ()):
            if needed in table:
                order.setdefault(needed, table[needed])
        order.setdefault(name, text)
    return [
        (f"{_types(code)['c' if code in 'FD' else 't']}_{name}", _folded(f"{DEVICE} {text.format(**_types(code))}"))
        for name, text in order.items()
        for code in "fdFD"
        if (name, code) in used
    ]


def _folded(text: str) -> str:
    """A function of one line, on several where it is long."""
    head, brace, body = text.partition(" { return ")
    return f"{head}\n{{\n    return {body[:-2]}\n}}" if brace and "\n" not in text and len(text) > 110 else text


def cuda_type(code: str) -> str:
    """The type of a dtype code."""
    return _types(code)["c" if code in "FD" else "t"]
