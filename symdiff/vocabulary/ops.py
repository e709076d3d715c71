"""The closed vocabulary of scalar operations, shared by both wings.

One row an operation: arity, whether its operands commute, the kind of its result, and its spelling in plain Python (for
real and for complex operands) and in NumPy. Assumes nothing. Guarantees that every instruction of a Program and every
step of a rule names a row of `OPS`. Unknown names are the callers' errors.
"""

import numpy as np

from symdiff.errors import InvariantError
from symdiff.vocabulary import special_operations
from symdiff.vocabulary.operation import Op


def _unary(names: str, module_complex: bool) -> list[Op]:
    rows = []
    for pair in names.split():
        name, _, numpy = pair.partition(":")
        both = f"cmath.{name}({{0}})" if module_complex else None
        rows.append(Op(name, 1, numpy or name, f"math.{name}({{0}})", both, c=name))
    return rows


_ROWS = [
    Op("input", 0, "", None, cost=0),
    Op("const", 0, "", None, cost=0),
    Op("call", -1, "", None),  # an opaque function of the user's, with any number of operands
    Op("cast", 1, "astype", "{0}", "{0}", cost=0),
    Op("add", 2, "add", "{0} + {1}", "{0} + {1}", commutes=True),
    Op("sub", 2, "subtract", "{0} - {1}", "{0} - {1}"),
    Op("mul", 2, "multiply", "{0}*{1}", "{0}*{1}", commutes=True),
    Op("div", 2, "divide", "{0}/{1}", "{0}/{1}"),
    Op("neg", 1, "negative", "-{0}", "-{0}"),
    Op("pow", 2, "power", "math.pow({0}, {1})", "{0}**{1}", c="pow"),
    *_unary("sqrt exp sin cos tan sinh cosh tanh", True),
    *_unary("asin:arcsin acos:arccos atan:arctan asinh:arcsinh acosh:arccosh atanh:arctanh log log10", True),
    *_unary("cbrt exp2 expm1 log2 log1p", False),
    Op("atan2", 2, "arctan2", "math.atan2({0}, {1})", c="atan2"),
    Op("hypot", 2, "hypot", "math.hypot({0}, {1})", commutes=True, c="hypot"),
    Op("logaddexp", 2, "logaddexp", None, commutes=True),
    Op("logaddexp2", 2, "logaddexp2", None, commutes=True),
    Op("abs", 1, "abs", "abs({0})", "abs({0})", result="real", c="fabs"),
    Op("sign", 1, "sign", None),
    Op("floor", 1, "floor", None, c="floor"),
    Op("ceil", 1, "ceil", None, c="ceil"),
    Op("trunc", 1, "trunc", None, c="trunc"),
    Op("rint", 1, "rint", None, c="rint"),
    Op("fmod", 2, "fmod", "math.fmod({0}, {1})", c="fmod"),
    Op("mantissa", 1, "frexp", "math.frexp({0})[0]", item=0, real_only=True),
    Op("exponent", 1, "frexp", "(math.frexp({0})[1] + 0.0)", item=1, real_only=True),
    Op("nextafter", 2, "nextafter", "math.nextafter({0}, {1})", real_only=True, c="nextafter"),
    Op("mod", 2, "remainder", None),
    Op("floordiv", 2, "floor_divide", None),
    Op("copysign", 2, "copysign", "math.copysign({0}, {1})", c="copysign"),
    Op("max", 2, "maximum", None, commutes=True),
    Op("min", 2, "minimum", None, commutes=True),
    Op("fmax", 2, "fmax", None, commutes=True, c="fmax"),
    Op("fmin", 2, "fmin", None, commutes=True, c="fmin"),
    Op("lt", 2, "less", "{0} < {1}", result="bool"),
    Op("le", 2, "less_equal", "{0} <= {1}", result="bool"),
    Op("gt", 2, "greater", "{0} > {1}", result="bool"),
    Op("ge", 2, "greater_equal", "{0} >= {1}", result="bool"),
    Op("eq", 2, "equal", "{0} == {1}", "{0} == {1}", commutes=True, result="bool"),
    Op("ne", 2, "not_equal", "{0} != {1}", "{0} != {1}", commutes=True, result="bool"),
    Op("and", 2, "logical_and", "{0} and {1}", commutes=True, result="bool"),
    Op("or", 2, "logical_or", "{0} or {1}", commutes=True, result="bool"),
    Op("xor", 2, "logical_xor", "{0} != {1}", commutes=True, result="bool"),
    Op("not", 1, "logical_not", "not {0}", result="bool"),
    Op("isnan", 1, "isnan", "math.isnan({0})", "cmath.isnan({0})", result="bool"),
    Op("isinf", 1, "isinf", "math.isinf({0})", "cmath.isinf({0})", result="bool"),
    Op("isfinite", 1, "isfinite", "math.isfinite({0})", "cmath.isfinite({0})", result="bool"),
    Op("select", 3, "where", "{1} if {0} else {2}", "{1} if {0} else {2}"),
    Op("conj", 1, "conjugate", "{0}", "{0}.conjugate()"),
    Op("real", 1, "real", "{0}", "{0}.real", result="real"),
    Op("imag", 1, "imag", "0.0", "{0}.imag", result="real"),
    Op("edge", 1, "", "{0}", "{0}", cost=0),  # a zero in whose place a kink stands: its derivative is NaN
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


def is_complex(code: str) -> bool:
    """Whether a dtype code is one of the two complex ones."""
    return code in "FD"


def check_dtype_cast(old: str | None, new: str) -> None:
    """Raise `InvariantError` where a complex value would be taken for a real one, which `real` alone makes of it."""
    if new not in "FD" and old is not None and old in "FD":
        raise InvariantError(f"a complex value ({old}) stands where a real one ({new}) is declared")


def dtype_of_code(code: str) -> np.dtype:
    """The NumPy dtype of a one-letter code."""
    return np.dtype(code)
