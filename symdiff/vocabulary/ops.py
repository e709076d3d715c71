"""The closed vocabulary of scalar operations, shared by both wings.

One row an operation: arity, whether its operands commute, the kind of its result, and its spelling in plain Python (for
real and for complex operands) and in NumPy. Assumes nothing. Guarantees that every instruction of a Program and every
step of a rule names a row of `OPS`. Unknown names are the callers' errors.
"""

import functools
from collections.abc import Callable

import numpy as np

from symdiff.errors import InvariantError
from symdiff.vocabulary import special_operations
from symdiff.vocabulary.operation import Op


def _unary(word: str, module_complex: bool, traits: str) -> Op:
    name, _, numpy = word.partition(":")
    both = f"cmath.{name}({{0}})" if module_complex else None
    return Op(name, 1, numpy or name, f"math.{name}({{0}})", both, c=name, traits=traits)


_ROWS = [
    Op("input", 0, "", None, cost=0),
    Op("const", 0, "", None, cost=0),
    Op("call", -1, "", None, traits="any_dtype not_in_place"),  # an opaque function of the user's, with any number of operands
    Op(
        "cast",
        1,
        "astype",
        "{0}",
        "{0}",
        cost=0,
        traits="termwise linear scales any_dtype before_cut not_in_place keeps_growth keeps_zero thin",
    ),
    Op(
        "add",
        2,
        "add",
        "{0} + {1}",
        "{0} + {1}",
        commutes=True,
        traits="linear cheap arithmetic before_cut widened folded keeps_growth whole polynomial keeps_zero analytic",
    ),
    Op(
        "sub",
        2,
        "subtract",
        "{0} - {1}",
        "{0} - {1}",
        traits="linear cheap arithmetic before_cut widened folded keeps_growth whole polynomial keeps_zero analytic",
    ),
    Op(
        "mul",
        2,
        "multiply",
        "{0}*{1}",
        "{0}*{1}",
        commutes=True,
        traits="bilinear scales cheap arithmetic before_cut widened folded keeps_growth whole polynomial keeps_zero analytic",
    ),
    Op(
        "div",
        2,
        "divide",
        "{0}/{1}",
        "{0}/{1}",
        traits="raises_complex raises scales arithmetic before_cut widened folded pole polynomial analytic grows",
    ),
    Op(
        "neg",
        1,
        "negative",
        "-{0}",
        "-{0}",
        traits="termwise linear scales cheap before_cut folded keeps_growth whole polynomial keeps_zero thin analytic",
    ),
    Op(
        "pow",
        2,
        "power",
        "math.pow({0}, {1})",
        "{0}**{1}",
        c="pow",
        traits="complex_libm slow libm raises_complex raises cut widened folded numpy_vectors pole polynomial grows",
    ),
    _unary("sqrt", True, traits="complex_libm raises cut folded root keeps_zero thin analytic grows"),
    _unary(
        "exp",
        True,
        traits="complex_libm libm raises_complex raises exponential in_forms loses_zero positive reciprocal folded "
        "numpy_vectors",
    ),
    _unary("sin", True, traits="complex_libm libm raises_complex raises keeps_zero thin analytic"),
    _unary("cos", True, traits="complex_libm libm raises_complex raises loses_zero thin analytic"),
    _unary("tan", True, traits="complex_libm libm raises_complex raises pole keeps_zero thin"),
    _unary("sinh", True, traits="complex_libm libm raises_complex raises exponential in_forms keeps_zero thin analytic"),
    _unary("cosh", True, traits="complex_libm libm raises_complex raises exponential loses_zero positive"),
    _unary("tanh", True, traits="complex_libm libm raises_complex keeps_zero"),
    _unary("asin:arcsin", True, traits="complex_libm libm raises_complex raises cut keeps_zero thin"),
    _unary("acos:arccos", True, traits="complex_libm libm raises_complex raises cut thin"),
    _unary("atan:arctan", True, traits="complex_libm libm raises_complex cut keeps_zero"),
    _unary("asinh:arcsinh", True, traits="complex_libm libm cut keeps_zero thin analytic"),
    _unary("acosh:arccosh", True, traits="complex_libm libm raises_complex raises cut"),
    _unary("atanh:arctanh", True, traits="complex_libm libm raises_complex raises cut pole keeps_zero"),
    _unary(
        "log",
        True,
        traits="complex_libm libm raises_complex raises loses_zero cut folded numpy_vectors pole thin analytic",
    ),
    _unary("log10", True, traits="libm raises_complex raises loses_zero cut numpy_vectors pole"),
    _unary("cbrt", False, traits="libm root keeps_zero thin"),
    _unary("exp2", False, traits="libm raises exponential loses_zero positive reciprocal numpy_vectors"),
    _unary("expm1", False, traits="libm raises exponential numpy_vectors keeps_zero"),
    _unary("log2", False, traits="libm raises loses_zero cut numpy_vectors pole"),
    _unary("log1p", False, traits="libm raises cut numpy_vectors pole keeps_zero thin"),
    Op("atan2", 2, "arctan2", "math.atan2({0}, {1})", c="atan2", traits="libm real_valued cut widened"),
    Op(
        "hypot",
        2,
        "hypot",
        "math.hypot({0}, {1})",
        commutes=True,
        c="hypot",
        traits="libm real_valued loses_zero positive widened root grows",
    ),
    Op("logaddexp", 2, "logaddexp", None, commutes=True, traits="slow numpy_vectors"),
    Op("logaddexp2", 2, "logaddexp2", None, commutes=True, traits="slow numpy_vectors"),
    Op(
        "abs",
        1,
        "abs",
        "abs({0})",
        "abs({0})",
        result="real",
        c="fabs",
        traits="mixes real_valued loses_zero positive cheap root whole thin grows chooses",
    ),
    Op("sign", 1, "sign", None, traits="mixes flat real_valued steps"),
    Op("floor", 1, "floor", "(math.floor({0}) + 0.0)", c="floor", traits="raises flat steps keeps_zero"),
    Op("ceil", 1, "ceil", "math.copysign(math.ceil({0}), {0})", c="ceil", traits="raises flat steps keeps_zero"),
    Op("trunc", 1, "trunc", "math.copysign(math.trunc({0}), {0})", c="trunc", traits="raises flat steps keeps_zero"),
    Op("rint", 1, "rint", "math.copysign(round({0}), {0})", c="rint", traits="raises flat steps keeps_zero"),
    Op("fmod", 2, "fmod", "math.fmod({0}, {1})", c="fmod", traits="raises"),
    Op("mantissa", 1, "frexp", "math.frexp({0})[0]", item=0, real_only=True),
    Op("exponent", 1, "frexp", "(math.frexp({0})[1] + 0.0)", item=1, real_only=True, traits="flat jumps"),
    Op("nextafter", 2, "nextafter", "math.nextafter({0}, {1})", real_only=True, c="nextafter", traits="libm"),
    Op("mod", 2, "remainder", "{0} % {1}", traits="slow whole raises"),
    Op("floordiv", 2, "floor_divide", "{0} // {1}", traits="slow flat whole raises"),
    Op("copysign", 2, "copysign", "math.copysign({0}, {1})", c="copysign", traits="jumps cheap cut in_forms"),
    Op("max", 2, "maximum", None, commutes=True, traits="widened in_forms whole keeps_zero chooses"),
    Op("min", 2, "minimum", None, commutes=True, traits="widened in_forms whole keeps_zero chooses"),
    Op("fmax", 2, "fmax", None, commutes=True, c="fmax", traits="widened keeps_zero"),
    Op("fmin", 2, "fmin", None, commutes=True, c="fmin", traits="widened keeps_zero"),
    Op("lt", 2, "less", "{0} < {1}", result="bool", traits="compares loses_zero cheap"),
    Op("le", 2, "less_equal", "{0} <= {1}", result="bool", traits="compares loses_zero cheap"),
    Op("gt", 2, "greater", "{0} > {1}", result="bool", traits="compares loses_zero cheap"),
    Op("ge", 2, "greater_equal", "{0} >= {1}", result="bool", traits="compares loses_zero cheap"),
    Op(
        "eq",
        2,
        "equal",
        "{0} == {1}",
        "{0} == {1}",
        commutes=True,
        result="bool",
        traits="compares loses_zero cheap asks in_forms",
    ),
    Op(
        "ne",
        2,
        "not_equal",
        "{0} != {1}",
        "{0} != {1}",
        commutes=True,
        result="bool",
        traits="compares loses_zero cheap asks in_forms",
    ),
    Op("and", 2, "logical_and", "{0} and {1}", commutes=True, result="bool", traits="logic loses_zero cheap asks"),
    Op("or", 2, "logical_or", "{0} or {1}", commutes=True, result="bool", traits="logic loses_zero cheap asks"),
    Op("xor", 2, "logical_xor", "(not {0}) != (not {1})", commutes=True, result="bool", traits="logic loses_zero cheap"),
    Op("not", 1, "logical_not", "not {0}", result="bool", traits="logic loses_zero cheap asks"),
    Op("isnan", 1, "isnan", "math.isnan({0})", "cmath.isnan({0})", result="bool", traits="loses_zero asks"),
    Op("isinf", 1, "isinf", "math.isinf({0})", "cmath.isinf({0})", result="bool", traits="loses_zero asks"),
    Op("isfinite", 1, "isfinite", "math.isfinite({0})", "cmath.isfinite({0})", result="bool", traits="loses_zero asks"),
    Op(
        "select",
        3,
        "where",
        "{1} if {0} else {2}",
        "{1} if {0} else {2}",
        traits="cheap before_cut not_in_place keeps_zero grows",
    ),
    Op("conj", 1, "conjugate", "{0}", "{0}.conjugate()", traits="termwise linear before_cut analytic"),
    Op("real", 1, "real", "{0}", "{0}.real", result="real", traits="termwise mixes linear real_valued not_in_place analytic"),
    Op("imag", 1, "imag", "0.0", "{0}.imag", result="real", traits="mixes linear real_valued before_cut not_in_place analytic"),
    Op("edge", 1, "", "{0}", "{0}", cost=0, traits="jumps"),  # a zero in whose place a kink stands: its derivative is NaN
]

OPS: dict[str, Op] = {row.name: row for row in [*_ROWS, *special_operations.ROWS]}

_RANK = {"?": 0, "f": 1, "d": 2, "F": 3, "D": 4}
_REAL = {"F": "f", "D": "d", "f": "f", "d": "d", "?": "d"}


def join_dtype_codes(first: str, second: str) -> str:
    """The common dtype of two dtype codes ("?", "f", "d", "F", "D"), as `np.result_type` gives it.

    >>> join_dtype_codes("d", "F"), join_dtype_codes("f", "F")
    ('D', 'F')
    """
    if first == second:
        return first
    if {first, second} == {"d", "F"}:
        return "D"
    return first if _RANK[first] > _RANK[second] else second


def real_counterpart(code: str) -> str:
    """The dtype code of the real part of a value: "F" gives "f", "D" gives "d"."""
    return _REAL[code]


is_complex: Callable[[str], bool] = "FD".__contains__  # whether a dtype code is one of the two complex ones


def part_of_code(code: str) -> str:
    """The dtype code of the numbers that lie in memory for a value: of "F" and "D" the real ones, others their own."""
    return _REAL[code] if code in "FD" else code


def parts_of_code(code: str) -> int:
    """How many numbers of `part_of_code` a value is."""
    return 2 if code in "FD" else 1


@functools.cache
def bytes_of_code(code: str) -> int:
    """The bytes of a value in memory."""
    return np.dtype(code).itemsize


def check_dtype_cast(old: str | None, new: str) -> None:
    """Raise `InvariantError` where a complex value would be taken for a real one, which `real` alone makes of it."""
    if new not in "FD" and old is not None and old in "FD":
        raise InvariantError(f"a complex value ({old}) stands where a real one ({new}) is declared")


def dtype_of_code(code: str) -> np.dtype:
    """The NumPy dtype of a one-letter code."""
    return np.dtype(code)
