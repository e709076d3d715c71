"""What each of SymPy's heads becomes: a table of rows, each with the parts of an expression and what is done with their values.

Assumes the meaning that SymPy's printers for NumPy and SciPy give a head. Guarantees that quotients stay quotients, differences
differences and whole powers powers with an integer; sums and products of many terms run along an axis. Refuses, with
`TraceError`, bounds that are not known.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import sympy as sp
from sympy.codegen import numpy_nodes
from sympy.core.function import AppliedUndef
from sympy.matrices import expressions as matrices
from sympy.matrices.expressions.applyfunc import ElementwiseApplyFunction
from sympy.matrices.expressions.blockmatrix import BlockDiagMatrix
from sympy.matrices.expressions.dotproduct import DotProduct
from sympy.matrices.expressions.matexpr import MatrixElement
from sympy.tensor.array import ArrayComprehension, NDimArray
from sympy.tensor.array.expressions import array_expressions as arrays

from symdiff.api.derivatives import Pushforward
from symdiff.errors import TraceError
from symdiff.inspection.expressions import HEADS_READ, head_named, operation_of_sympy
from symdiff.inspection.sympy_values import CellByCell, Playing, Value
from symdiff.ir.building import active_builders
from symdiff.ir.node import Node
from symdiff.rulebooks.book import table_folder
from symdiff.rulebooks.rule import apply
from symdiff.rulebooks.tables import Template, parse_formula, read_lines
from symdiff.vocabulary.ops import OPS

UNROLLED = 64  # terms up to which a sum or product is written out


class Row(NamedTuple):
    """`parts(expr, tape)` are the expressions below; `close(tape, expr, places)` gives the place of the whole."""

    parts: Callable[[Any, Any], Sequence[Any]]
    close: Callable[[Any, Any, list[int]], int]


def _args(expr: Any, tape: Any) -> Sequence[Any]:
    return expr.args  # type: ignore[no-any-return]


def _none(expr: Any, tape: Any) -> Sequence[Any]:
    return ()


def _made(
    compute_of: Callable[[Any], Callable[..., Value] | str],
    parts: Callable[[Any, Any], Sequence[Any]] = _args,
    whole: bool = False,
) -> Row:
    """What an operation, or a function of the playing and values, made for the expression gives of all parts; `whole` where it
    is on matrices."""

    def close(tape: Any, expr: Any, places: list[int]) -> int:
        tape.whole = tape.whole or whole
        return tape.step(compute_of(expr), *places)  # type: ignore[no-any-return]

    return Row(parts, close)


def _of(compute: Callable[..., Value] | str, parts: Callable[[Any, Any], Sequence[Any]] = _args, whole: bool = False) -> Row:
    """An operation, or a function of the playing and values, of all parts."""
    return _made(lambda expr: compute, parts, whole)


def _folded(op: str) -> Row:
    """An operation of two for any number of parts, from the left."""
    return Row(_args, lambda tape, expr, places: _chain(tape, op, places))


def _chain(tape: Any, op: str, places: list[int]) -> int:
    result, *rest = places
    for place in rest:
        result = tape.step(op, result, place)
    return result


# -- numbers and arithmetic


def _number(tape: Any, expr: Any, places: list[int]) -> int:
    if not expr.is_Rational:
        return tape.known(float(expr))  # type: ignore[no-any-return]

    def quotient(above: int) -> int:
        place = tape.known(above)
        return place if expr.q == 1 else tape.step("div", place, tape.known(int(expr.q)))  # type: ignore[no-any-return]

    found = quotient(int(expr.p))
    if expr < 0:
        tape.minus[found] = quotient(-int(expr.p))
    return found


def _constant(value: Any) -> Row:
    return Row(_none, lambda tape, expr, places: tape.known(value))


def _factors(expr: Any, tape: Any) -> Sequence[Any]:
    first = expr.args[0]
    return expr.args[1:] if first.is_Rational else expr.args  # type: ignore[no-any-return]


def _product(tape: Any, expr: Any, places: list[int]) -> int:
    """A quotient of the factors by those that are powers with negative exponents."""
    first = expr.args[0]
    above: list[int] = []
    below: list[int] = []
    negative, size = False, 1
    if first.is_Rational:
        negative, size = bool(first < 0), abs(int(first.p))
        below += [tape.known(int(first.q))] if first.q != 1 else []
    for place in places:
        if place in tape.minus:
            negative, place = not negative, tape.minus[place]
        (below if place in tape.over else above).append(tape.over.get(place, place))

    def scaled(coefficient: int) -> int:
        factors = above if coefficient == 1 and above else [tape.known(coefficient), *above]
        result = _chain(tape, "mul", factors)
        return tape.step("div", result, _chain(tape, "mul", below)) if below else result  # type: ignore[no-any-return]

    positive = scaled(size)
    if not negative:
        return positive
    found = tape.step("neg", positive) if size == 1 and above else scaled(-size)
    tape.minus[found] = positive
    return found  # type: ignore[no-any-return]


def _sum(tape: Any, expr: Any, places: list[int]) -> int:
    """The terms from the first positive one on; what is negative is subtracted."""
    start = next((k for k, p in enumerate(places) if p not in tape.minus), 0)
    result, *rest = [places[start], *places[:start], *places[start + 1 :]]
    for place in rest:
        negative = tape.minus.get(place)
        result = tape.step("add", result, place) if negative is None else tape.step("sub", result, negative)
    return result


def _power(tape: Any, expr: Any, places: list[int]) -> int:
    base, power = places
    exponent = expr.exp
    if expr.base is sp.E:
        return tape.step("exp", power)  # type: ignore[no-any-return]
    if not exponent.is_Rational:
        return tape.step("pow", base, power)  # type: ignore[no-any-return]
    size = abs(exponent)
    found = base
    if size == sp.S.Half:
        found = tape.step("sqrt", base)
    elif size != 1:
        found = tape.step("pow", base, tape.known(int(size) if size.is_Integer else float(size)))
    if exponent < 0:
        found, below = tape.step("div", tape.known(1), found), found
        tape.over[found] = below
    return found


# -- conditions


def _pairs(expr: Any, tape: Any) -> Sequence[Any]:
    return [part for pair in expr.args for part in pair.args]


def _piecewise(tape: Any, expr: Any, places: list[int]) -> int:
    """The first whose condition holds, NaN where none does."""
    result = tape.known(math.nan)
    for position in range(len(places) - 2, -1, -2):
        sure = expr.args[position // 2].args[1] is sp.true
        result = places[position] if sure else tape.step("select", places[position + 1], places[position], result)
    return result  # type: ignore[no-any-return]


def _all_equal(playing: Playing, first: Value, *others: Value) -> Value:
    """Whether truths are all the same."""
    result: Value = True
    for other in others:
        result = playing("and", result, playing("eq", first, other))
    return result


def _singularity(playing: Playing, x: Value, start: Value, power: Value) -> Value:
    if playing.whole(power, "the exponent of a SingularityFunction") < 0:
        raise TraceError(f"{playing.origin}: a SingularityFunction with a negative exponent has no values")
    return playing("select", playing("lt", x, start), 0.0, playing("pow", playing("sub", x, start), power))


# -- functions that are written with others


def _factorial(playing: Playing, n: Value) -> Value:
    return math.factorial(n) if type(n) is int and 0 <= n <= 170 else playing("gamma", playing("add", n, 1))


def _binomial(playing: Playing, n: Value, k: Value) -> Value:
    return math.comb(n, k) if type(n) is type(k) is int and n >= 0 <= k else playing("binom", n, k)


def _polygamma(playing: Playing, n: Value, x: Value) -> Value:
    return playing("digamma", x) if type(n) is int and n == 0 else playing("polygamma", n, x)


def _log_gamma(playing: Playing, x: Value) -> Value:
    return playing("loggamma" if _is_complex(playing, x) else "gammaln", x)


def _is_complex(playing: Playing, x: Value) -> bool:
    atom = playing.atom(x)
    return isinstance(atom.params, complex) if atom.op == "const" else atom.dtype in "FD"


def _sinc(playing: Playing, x: Value) -> Value:
    return playing.call(np.sinc, playing("div", x, math.pi))


def _lambert(playing: Playing, x: Value, branch: Value = 0) -> Value:
    if type(branch) is not int or branch != 0:
        raise TraceError(f"{playing.origin}: LambertW has its principal branch here; branch {branch} has no counterpart")
    logarithm = playing("log", playing("add", x, 0j))
    # SciPy's wrightomega takes another branch for imaginary parts of pi, which the arguments below 0 have.
    below = playing("sub", logarithm, 1j * float(np.spacing(math.pi)))
    found = playing("wrightomega", playing("select", playing("ge", playing("imag", logarithm), math.pi), below, logarithm))
    if _is_complex(playing, x):
        return found
    return playing("select", playing("ge", x, -math.exp(-1)), playing("real", found), math.nan)


def _hyper(playing: Playing, *values: Value) -> Value:
    *parameters, z, count = values
    p = playing.whole(count, "count")
    op = {(0, 1): "hyp0f1", (1, 1): "hyp1f1", (2, 1): "hyp2f1"}.get((p, len(parameters) - p))
    if op is None:
        raise TraceError(f"{playing.origin}: of SymPy's hyper, 0F1, 1F1 and 2F1 are known here")
    return playing(op, *parameters, z)


def _hyper_parts(expr: Any, tape: Any) -> Sequence[Any]:
    return [*expr.ap, *expr.bq, expr.argument, sp.Integer(len(expr.ap))]


def _rewritten(target: Any) -> Row:
    """What SymPy writes with other functions."""

    def opened(expr: Any, tape: Any) -> Sequence[Any]:
        found = expr.rewrite(target)
        if type(found) is type(expr):
            raise TraceError(f"SymPy's {type(expr).__name__} is not written with other functions for these arguments")
        return (found,)

    return Row(opened, _first)


def _first(tape: Any, expr: Any, places: list[int]) -> int:
    return places[0]


def _by_formulas() -> dict[Any, Row]:
    """The rows of `rules/sympy.table`: heads, and what they are with operations, for each number of operands."""
    formulas: dict[str, dict[int, Template]] = {}
    for where, (head, formula) in read_lines(table_folder() / "sympy.table"):
        name, _, operands = head.rstrip(")").partition("(")
        parameters = tuple(map(str.strip, operands.split(",")))
        formulas.setdefault(name, {})[len(parameters)] = parse_formula(formula, parameters, where)

    def row(name: str) -> Row:
        def compute(playing: Playing, *values: Value) -> Value:
            formula = formulas[name].get(len(values))
            if formula is None:
                raise TraceError(f"{playing.origin}: SymPy's {name} of {len(values)} arguments is not known here")
            return apply(formula, values, None, lambda op, args, payload: payload if op == "const" else playing(op, *args))

        return _of(compute)

    return {head_named(name): row(name) for name in formulas}


# -- bodies with symbols of their own


class _Body:
    """A tape with symbols of its own: called with their values, then those of what it takes from outside."""

    def __init__(self, tape: Any, expr: Any, bound: Sequence[Any]) -> None:
        self.bound = tuple(bound)
        self.tape, self.free = tape.inner(expr, self.bound)
        self.varying = [not isinstance(leaf, (sp.IndexedBase, sp.MatrixExpr)) for leaf in self.free]

    def play(self, playing: Playing, own: Sequence[Value], free: Sequence[Value]) -> Value:
        given = dict(zip((*self.bound, *self.free), (*own, *free), strict=True))
        return self.tape.play(playing, given)[0]


class _Opened(tuple):  # type: ignore[type-arg]
    """Parts of an expression: leading ones, then what a body over symbols of its own takes from outside."""

    expr: Any
    body: _Body

    def __new__(cls, tape: Any, expr: Any, inner: Any, bound: Sequence[Any] = (), leading: Sequence[Any] = ()) -> "_Opened":
        body = _Body(tape, inner, bound)
        self = super().__new__(cls, (*leading, *body.free))
        self.expr, self.body = expr, body
        return self


def _rank(value: Value) -> int:
    return len(getattr(value, "shape", ()))


def _reduced(op: str, combine: Any) -> Row:
    """`Sum` and `Product`: written out, or along an axis where they have many terms."""

    def opened(expr: Any, tape: Any) -> Sequence[Any]:
        limit = expr.limits[-1]
        if len(limit) != 3:
            raise TraceError(f"SymPy's {type(expr).__name__} over {limit[0]} has no bounds: give them, or use expr.doit()")
        k, low, high = limit
        inner = expr.function if len(expr.limits) == 1 else expr.func(expr.function, *expr.limits[:-1])
        tape.counts |= low.free_symbols | high.free_symbols
        return _Opened(tape, expr, inner, (k,), (low, high))

    def close(tape: Any, found: Any, places: list[int]) -> int:
        body, name = found.body, type(found.expr).__name__
        tape.whole = tape.whole or body.tape.whole

        def bound(playing: Playing, value: Value) -> int:
            if isinstance(value, np.ndarray):
                raise CellByCell  # it depends on the place along an axis
            return playing.whole(value, f"a bound of {name}")

        def compute(playing: Playing, low: Value, high: Value, *free: Value) -> Value:
            first, last = bound(playing, low), bound(playing, high)
            if last < first - 1:
                raise TraceError(f"{playing.origin}: {name} from {first} to {last} has no terms; exchange its bounds")
            if last - first >= UNROLLED and not body.tape.whole:
                try:
                    return along(playing, np.array(range(first, last + 1), dtype=object), free)
                except CellByCell:
                    pass
            result: Value = 0 if op == "add" else 1
            for k in range(first, last + 1):
                term = body.play(playing, (k,), free)
                result = term if k == first else playing(op, result, term)
            return result

        def along(playing: Playing, k: np.ndarray, free: Sequence[Value]) -> Value:
            rank = max([_rank(v) for v, varying in zip(free, body.varying, strict=True) if varying], default=0)
            terms = body.play(playing, (k.reshape(-1, *[1] * rank),), free)
            if _rank(terms) <= rank:
                return playing("mul" if op == "add" else "pow", terms, len(k))
            return playing.call(lambda t: combine(t, axis=0), terms)

        return tape.step(compute, *places)  # type: ignore[no-any-return]

    return Row(opened, close)


def _derivative_parts(expr: Any, tape: Any) -> Sequence[Any]:
    found = _Opened(tape, expr, expr.expr)
    for symbol, order in expr.variable_count:
        if not order.is_Integer:
            raise TraceError(f"SymPy's Derivative by {symbol} {order} times: the order must be a number")
        for leaf in found:
            if leaf != symbol and isinstance(leaf, (AppliedUndef, sp.Derivative)) and symbol in leaf.free_symbols:
                raise TraceError(f"SymPy's Derivative of {leaf} by {symbol} is not known here; make it an argument")
    return found


def _derivative(tape: Any, found: Any, places: list[int]) -> int:
    """Tangents along ones, as often as the orders say."""
    expr, body = found.expr, found.body
    wanted = [(body.free.index(v), int(n)) if v in body.free else None for v, n in expr.variable_count if n]
    if None in wanted:
        return tape.known(0)  # type: ignore[no-any-return]
    places_by = sorted({place for place, _ in wanted})  # type: ignore[misc]

    def compute(playing: Playing, *free: Value) -> Value:
        def function(*own: Any) -> Any:
            inner = Playing(active_builders()[-1], playing.origin)
            values = [inner.value(playing.traced(v)) if isinstance(v, Node) else v for v in free]
            for place, value in zip(places_by, own, strict=True):
                values[place] = inner.value(value)
            return inner.traced(body.play(inner, (), values))

        result: Callable[..., Any] = function
        for place, order in wanted:  # type: ignore[misc]
            for _ in range(order):
                result = _tangent(result, places_by.index(place))
        given = [playing.traced(free[place]) for place in places_by]
        return playing.value(result(*(float(v) if isinstance(v, int) else v for v in given)))

    return tape.step(compute, *places)  # type: ignore[no-any-return]


def _tangent(function: Callable[..., Any], place: int) -> Callable[..., Any]:
    pushed = Pushforward(function, place)
    return lambda *values: pushed(*values, np.ones(np.shape(values[place]))[()])[1]


def _with_body(found: Any) -> Callable[..., Value]:
    """The body, its own symbols bound to the first parts."""
    body, count = found.body, len(found.body.bound)
    return lambda playing, *v: body.play(playing, v[:count], v[count:])


# -- arrays and matrices


def _cells(shape_of: Callable[[Any], tuple[int, ...]], flat: Callable[[Any], Sequence[Any]]) -> Row:
    def cells(expr: Any) -> Callable[..., Value]:
        return lambda playing, *values: playing.cells(values, shape_of(expr))

    return _made(cells, lambda expr, tape: list(flat(expr)), whole=True)


def _numpy(function: Callable[..., Any], parts: Callable[[Any, Any], Sequence[Any]] = _args) -> Row:
    """A function of NumPy's, of all parts."""
    return _of(lambda playing, *values: playing.call(function, *values), parts, whole=True)


def _counted(parts: Callable[[Any], Sequence[Any]], compute: Callable[..., Value], whole: bool = False) -> Row:
    """What has indices, or extents, among its parts."""

    def opened(expr: Any, tape: Any) -> Sequence[Any]:
        found = parts(expr)
        for part in found:
            if not isinstance(part, (sp.IndexedBase, sp.MatrixExpr, sp.MatrixBase, NDimArray)):
                tape.counts |= part.free_symbols
        return found

    return _of(compute, opened, whole)


def _filled(function: Callable[..., Any]) -> Row:
    def compute(playing: Playing, *shape: Value) -> Value:
        return playing.value(function(tuple(playing.whole(n, "an extent") for n in shape)))

    return _counted(lambda expr: expr.shape, compute, whole=True)


def _multiplied(playing: Playing, *values: Value) -> Value:
    result, *rest = values
    for value in rest:
        if _rank(result) and _rank(value):
            result = playing.call(np.matmul, result, value)
        else:
            result = playing("mul", result, value)
    return result


def _matrix_power(playing: Playing, base: Value, power: Value) -> Value:
    return playing.call(lambda a: np.linalg.matrix_power(a, playing.whole(power, "the power of a matrix")), base)


def _dot(playing: Playing, a: Value, b: Value) -> Value:
    return playing.call(lambda u, v: np.sum(np.ravel(u) * np.ravel(v)), a, b)


def _matrix_slice(expr: Any) -> Callable[..., Value]:
    def part(bounds: Any, size: Any) -> slice:
        if not all(n.is_Integer for n in map(sp.sympify, (*bounds, size))):
            raise TraceError("SymPy's MatrixSlice needs bounds that are numbers")
        return slice(*map(int, bounds))

    key = part(expr.rowslice, expr.parent.shape[0]), part(expr.colslice, expr.parent.shape[1])
    return lambda playing, a: playing.call(lambda m: m[key], a)


def _blocks(expr: Any) -> Callable[..., Value]:
    rows, columns = expr.blockshape

    def compute(playing: Playing, *values: Value) -> Value:
        return playing.call(lambda *m: np.block([list(m[r * columns : (r + 1) * columns]) for r in range(rows)]), *values)

    return compute


def _function_matrix_parts(expr: Any, tape: Any) -> Sequence[Any]:
    i, j = sp.Dummy("i", integer=True), sp.Dummy("j", integer=True)
    rows, columns = expr.shape
    return _Opened(tape, expr, expr.lamda(i, j), (i, j), (sp.S.Zero, rows - 1, sp.S.Zero, columns - 1))


def _comprehension_parts(expr: Any, tape: Any) -> Sequence[Any]:
    bounds = [bound for limit in expr.limits for bound in limit[1:]]
    tape.counts |= {symbol for bound in bounds for symbol in bound.free_symbols}
    return _Opened(tape, expr, expr.function, [limit[0] for limit in expr.limits], bounds)


def _comprehension(found: Any) -> Callable[..., Value]:
    body, count = found.body, 2 * len(found.body.bound)

    def compute(playing: Playing, *values: Value) -> Value:
        bounds = [playing.whole(v, f"a bound of {type(found.expr).__name__}") for v in values[:count]]
        ranges = [range(low, high + 1) for low, high in zip(bounds[::2], bounds[1::2], strict=True)]
        cells = tuple(body.play(playing, k, values[count:]) for k in itertools.product(*ranges))
        return playing.cells(cells, tuple(map(len, ranges)))

    return compute


def _groups(summed: bool) -> Row:
    """Axes in groups: each summed over its diagonal, or the diagonal as one axis after the others."""

    def compute_of(expr: Any) -> Callable[..., Value]:
        first = {int(axis): int(group[0]) for group in expr.args[1:] for axis in group}

        def compute(playing: Playing, array: Value) -> Value:
            axes = [first.get(k, k) for k in range(_rank(array))]
            together = list(dict.fromkeys(first.values()))
            kept = [k for k in axes if k not in together] + together * (not summed)
            return playing.call(lambda a: np.einsum(a, axes, kept), array)

        return compute

    return _made(compute_of, lambda expr, tape: (expr.expr,), whole=True)


def _outer(*arrays: Any) -> Any:
    result, *rest = arrays
    for array in rest:
        result = np.tensordot(result, array, axes=0)
    return result


def _shaped(function: Callable[..., Any], setting_of: Callable[[Any], Any]) -> Row:
    """A function of NumPy's of an array and of integers that the expression tells."""

    def compute_of(expr: Any) -> Callable[..., Value]:
        setting = tuple(map(int, setting_of(expr)))
        return lambda playing, a: playing.call(lambda m: function(m, setting), a)

    return _made(compute_of, lambda expr, tape: (expr.expr,))


def _refused(why: str) -> Row:
    def opened(expr: Any, tape: Any) -> Sequence[Any]:
        raise TraceError(f"SymPy's {type(expr).__name__} {why}")

    return Row(opened, lambda tape, expr, places: 0)


def row_of_own(kind: type) -> Row | None:
    """The row of a head that expressions of graphs have for an operation of ours; None for another."""
    op = operation_of_sympy(kind)
    return None if op is None or op not in OPS else _of(op)


LEAF = Row(_none, lambda tape, expr, places: tape.leaf(expr))
_NUMBER = Row(_none, _number)
_APPLIED = _made(_with_body, lambda e, tape: _Opened(tape, e, e.function.expr, e.function.variables, (e.expr,)))
_FUNCTIONS: dict[Any, Callable[..., Value]] = {
    sp.sinc: _sinc, sp.SingularityFunction: _singularity, sp.arg: lambda r, z: r.call(np.angle, z),
    sp.factorial: _factorial, sp.binomial: _binomial, sp.polygamma: _polygamma, sp.loggamma: _log_gamma,
    sp.LambertW: _lambert,
}  # fmt: skip
_LEAVES = (sp.Symbol, sp.IndexedBase, sp.Idx, sp.MatrixSymbol, arrays.ArraySymbol)
_CELL = _counted(lambda e: e.args, lambda playing, base, *index: playing.item(base, index))
_BLOCKS = _made(_blocks, lambda e, tape: list(e.blocks.flat()), whole=True)
ROWS: dict[Any, Row] = {
    **{head: _of(op) for op, heads in HEADS_READ.items() for head in heads},
    **{head: _folded(op) for op in ("max", "min", "and", "or", "xor") for head in HEADS_READ[op]},
    **_by_formulas(),
    **{head: _of(function) for head, function in _FUNCTIONS.items()}, **dict.fromkeys(_LEAVES, LEAF),
    sp.Number: _NUMBER, sp.NumberSymbol: _NUMBER, type(sp.I): _constant(1j), type(sp.zoo): _constant(math.nan),
    type(sp.true): _constant(True), type(sp.false): _constant(False),
    sp.Add: Row(_args, _sum), sp.Mul: Row(_factors, _product), sp.Pow: Row(lambda e, tape: (e.base, e.exp), _power),
    numpy_nodes.maximum: _folded("max"), numpy_nodes.minimum: _folded("min"), sp.Equivalent: _of(_all_equal),
    sp.Contains: Row(lambda expr, tape: [expr.args[1].as_relational(expr.args[0])], _first),
    sp.UnevaluatedExpr: Row(_args, _first), sp.catalan: _rewritten(sp.gamma), sp.factorial2: _rewritten(sp.gamma),
    sp.fibonacci: _rewritten(sp.sqrt), sp.lucas: _rewritten(sp.sqrt),
    sp.dirichlet_eta: _rewritten(sp.zeta), sp.riemann_xi: _rewritten(sp.zeta),
    sp.Piecewise: Row(_pairs, _piecewise), sp.hyper: _of(_hyper, _hyper_parts),
    sp.Sum: _reduced("add", np.sum), sp.Product: _reduced("mul", np.prod),
    sp.Derivative: Row(_derivative_parts, _derivative),
    sp.Subs: _made(_with_body, lambda e, tape: _Opened(tape, e, e.expr, e.variables, e.point)),
    sp.Integral: _refused("is not computed here: evaluate it by expr.doit(), or write a Sum over nodes"),
    sp.DiracDelta: _refused("has no values; leave it away, or integrate it by SymPy"),
    sp.Indexed: _CELL, MatrixElement: _CELL,
    arrays.ArrayElement: _counted(lambda e: (e.name, *e.indices), lambda playing, base, *index: playing.item(base, index)),
    sp.MatrixBase: _cells(lambda e: e.shape, lambda e: e.flat()),
    NDimArray: _cells(lambda e: e.shape, lambda e: sp.flatten(e.tolist()) if e.shape else [e[()]]),
    matrices.MatAdd: _folded("add"), matrices.MatMul: _of(_multiplied, whole=True),
    matrices.HadamardProduct: _folded("mul"), matrices.HadamardPower: _of("pow"),
    matrices.MatPow: _of(_matrix_power, whole=True),
    matrices.Inverse: _numpy(np.linalg.inv, lambda e, tape: e.args[:1]), matrices.Transpose: _numpy(np.transpose),
    matrices.Adjoint: _numpy(lambda a: np.conjugate(np.transpose(a))), matrices.Trace: _numpy(np.trace),
    matrices.Determinant: _numpy(np.linalg.det), sp.KroneckerProduct: _numpy(np.kron), DotProduct: _of(_dot, whole=True),
    matrices.MatrixSlice: _made(_matrix_slice, lambda e, tape: (e.parent,)),
    matrices.BlockMatrix: _BLOCKS, BlockDiagMatrix: _BLOCKS,
    matrices.DiagMatrix: _numpy(lambda a: np.diag(np.ravel(a))),
    matrices.DiagonalMatrix: _numpy(lambda a: a * np.eye(*a.shape)),
    matrices.DiagonalOf: _numpy(lambda a: np.reshape(np.diagonal(a), (-1, 1))),
    matrices.Identity: _filled(lambda shape: np.eye(*shape)), matrices.ZeroMatrix: _filled(np.zeros),
    matrices.OneMatrix: _filled(np.ones), matrices.FunctionMatrix: _made(_comprehension, _function_matrix_parts, whole=True),
    ArrayComprehension: _made(_comprehension, _comprehension_parts, whole=True),
    ElementwiseApplyFunction: _APPLIED,
    arrays.ArrayElementwiseApplyFunc: _APPLIED, arrays.ArrayAdd: _folded("add"),
    arrays.ArrayTensorProduct: _of(lambda playing, *v: playing.call(_outer, *v), whole=True),
    arrays.ArrayContraction: _groups(True), arrays.ArrayDiagonal: _groups(False),
    arrays.PermuteDims: _shaped(np.transpose, lambda e: e.permutation.array_form), arrays.ZeroArray: _filled(np.zeros),
    arrays.OneArray: _filled(np.ones),
    arrays.Reshape: _shaped(np.reshape, lambda e: e.shape),
}  # fmt: skip
