"""What operations are elsewhere, in mpmath, for readers, in SymPy and Julia: the rows of `rules/operations.table`.

Assumes mpmath numbers at the caller's working precision. Guarantees NumPy's and SciPy's meaning of every operation, and
formulas that are parsed when they are asked for. Refuses malformed rows with `RuleError`.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import mpmath

from symdiff.errors import RuleError
from symdiff.rulebooks.book import table_folder
from symdiff.rulebooks.precision import NAMED, NATIVE, real_result, scipy_value
from symdiff.rulebooks.rule import apply
from symdiff.rulebooks.tables import Template, parse_formula, read_lines
from symdiff.vocabulary.ops import OPS


class Elsewhere(NamedTuple):
    """A row: names, or formulas after "=". `sympy` are the heads that are read, of which the first is written, too."""

    where: str
    parameters: tuple[str, ...]
    exactly: str
    read: str
    sympy: tuple[str, ...]
    julia: str


def _row(where: str, cells: list[str]) -> tuple[str, Elsewhere]:
    name, _, operands = cells[0].rstrip(")").partition("(")
    if len(cells) != 5 or name not in OPS:
        raise RuleError(f"{where}: operation(operands) | exactly | read | SymPy | Julia")
    _, exactly, read, heads, julia = cells
    parameters = tuple(map(str.strip, operands.split(",")))
    return name, Elsewhere(where, parameters, exactly, exactly if read == "=" else read, tuple(heads.split(", ")), julia)


ELSEWHERE = dict(_row(*line) for line in read_lines(table_folder() / "operations.table"))


@functools.cache
def plain_formula(op: str, column: str = "exactly") -> Template | None:
    """The formula of other operations that an operation is, "exactly" or as it is "read"; None where it has none."""
    row = ELSEWHERE.get(op)
    text = "" if row is None else getattr(row, column)
    return parse_formula(text[1:], row.parameters, row.where) if row is not None and text.startswith("=") else None


def exact_step(op: str, operands: tuple[Any, ...], payload: Any) -> Any:
    """A step of a formula in mpmath's working precision."""
    if op != "const":
        return OPERATIONS[op](*operands)
    number = NAMED[payload]() if isinstance(payload, str) else payload
    return number if isinstance(number, bool) else mpmath.mpmathify(number)


def _inverse(op: str, forward: str) -> Callable[..., Any]:
    """The inverse of an operation in its last operand, by Newton's method from SciPy's value."""
    function = _exactly(forward)

    def on(*args: Any) -> Any:
        *fixed, y = args
        return mpmath.findroot(lambda x: function(*fixed, x) - y, scipy_value(op, *args))

    return on


def _exactly(op: str) -> Callable[..., Any]:
    if op in NATIVE:
        return NATIVE[op]
    name = ELSEWHERE[op].exactly
    if name.startswith("inverse "):
        return _inverse(op, name.removeprefix("inverse "))
    if not name.startswith("="):
        return getattr(mpmath, name)  # type: ignore[no-any-return]

    def formula(*args: Any) -> Any:
        template = plain_formula(op)
        assert template is not None
        return apply(template.exact or template, args, None, exact_step)

    return formula


OPERATIONS: dict[str, Callable[..., Any]] = {
    name: _exactly(name) if row.result == "complex" else real_result(_exactly(name))
    for name, row in OPS.items()
    if name in NATIVE or name in ELSEWHERE
}
