"""Operations to SymPy expressions: a binding's right-hand side, one operation on expressions.

Guarantees unevaluated heads, so that nothing is expanded, reordered or cancelled; conditions are Booleans of SymPy's, with no
brace inside: a comparison of braces is one of their cases. Refuses, with `TraceError`, loops.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import sympy as sp
from sympy.codegen import cfunctions, numpy_nodes, scipy_nodes
from sympy.core.expr import Expr
from sympy.core.relational import Relational
from sympy.functions.elementary.piecewise import ExprCondPair
from sympy.logic.boolalg import Boolean, BooleanFunction
from sympy.printing.latex import LatexPrinter
from sympy.printing.pretty.stringpict import prettyForm, stringPict

from symdiff.errors import TraceError
from symdiff.ir.node import Constant, Node, sympy_expression, sympy_symbol
from symdiff.rulebooks.elsewhere import ELSEWHERE, plain_formula
from symdiff.rulebooks.rule import apply
from symdiff.vocabulary.extents import Count, Extent
from symdiff.vocabulary.heads import Static
from symdiff.vocabulary.ops import OPS
from symdiff.vocabulary.traits import CONDITIONS, operations


def _head(name: str) -> type[Any]:
    """A head of our own: a condition, which stands in a Piecewise, or a function of numbers."""
    row = OPS.get(name)
    own: dict[str, Any] = {"__module__": __name__, "_latex": _function_latex}
    if name in SIGNS:
        own["_pretty"] = lambda self, printer: signed_text(SIGNS[name][1], self.args, printer)
    if row is not None and row.result == "bool":
        return type(name, (BooleanFunction,), own | {"eval": classmethod(lambda cls, *args: _computed(name, args))})
    return type(name, (sp.Function,), own | {"_eval_evalf": lambda self, precision: _computed(name, self.args)})


def _computed(name: str, args: tuple[Any, ...]) -> Any:
    """What NumPy or SciPy computes of numbers; None for anything else."""
    if name not in OPS or not all(arg.is_number for arg in args):
        return None
    values = [complex(arg) for arg in args]
    with np.errstate(all="ignore"):
        return number(OPS[name].function()(*(v if v.imag else v.real for v in values)).item())


def _function_latex(self: Any, printer: Any, exp: Any = None) -> str:
    """A call; SymPy prints functions of its own by their names, which have other arguments."""
    name = type(self).__name__
    head = SIGNS[name][0] if name in SIGNS else rf"\operatorname{{{name.replace('_', chr(92) + '_')}}}"
    return signed_latex(head, self.args, printer, exp)


def signed_latex(head: str, args: Sequence[Any], printer: Any, exp: Any = None) -> str:
    """A call of a function by its sign, in which # stands for the first argument."""
    texts = list(map(printer._print, args))
    if "#" in head:
        head = head.replace("#", texts.pop(0))
    text = rf"\left({', '.join(texts)}\right)"
    if exp is not None and ("^" in head or " " in head):
        return rf"\left({head}{text}\right)^{{{exp}}}"
    return head + ("" if exp is None else f"^{{{exp}}}") + text


def signed_text(head: str, args: Sequence[Any], printer: Any) -> Any:
    """A call in a terminal, by the sign of the function."""
    return prettyForm(*stringPict.next(head, prettyForm(*printer._print_seq(args, delimiter=", ").parens())))


# What books write for functions that SymPy has not: as LaTeX, and as text.
SIGNS = {
    "gammaln": (r"\log \Gamma", "log Γ"), "betaln": (r"\log \operatorname{B}", "log B"),
    "ndtr": (r"\Phi", "Φ"), "ndtri": (r"\Phi^{-1}", "Φ⁻¹"),
    **{f"ellipr{c}": (f"R_{{{c.upper()}}}", f"R_{c.upper()}") for c in "cdfgj"},
    **{f"{name}p": (rf"\operatorname{{{name}}}'", f"{name}′") for name in ("ber", "bei", "ker", "kei")},
}  # fmt: skip


class _Printer(LatexPrinter):
    """SymPy's printer, which has no power of a Piecewise."""

    def _print_Piecewise(self, expr: Any, exp: Any = None) -> str:
        text = super()._print_Piecewise(expr)
        return text if exp is None else rf"\left({text}\right)^{{{exp}}}"


def latex(expr: Any, **settings: Any) -> str:
    """An expression that `build_sympy` made as LaTeX."""
    return _Printer(settings).doprint(expr)  # type: ignore[no-any-return]


class _CubeRoot(cfunctions.Cbrt):  # type: ignore[misc]
    """The real cube root, which has values."""

    def _eval_evalf(self, precision: int) -> Any:
        return _computed("cbrt", self.args)


def head_named(name: str) -> Any:
    """The head of SymPy's of this name."""
    return next(getattr(module, name) for module in (sp, cfunctions, numpy_nodes, scipy_nodes) if hasattr(module, name))


def _by_formula(op: str) -> Any:
    formula = plain_formula(op)
    assert formula is not None

    def emit(op: str, operands: tuple[Any, ...], payload: Any) -> Any:
        return number(payload) if op == "const" else build_sympy(op, list(operands))

    return lambda *args: apply(formula, args, None, emit)


HEADS_READ = {op: [head_named(name) for name in row.sympy if name.isidentifier()] for op, row in ELSEWHERE.items()}
_FUNCTIONS: dict[str, Any] = {
    **{op: _by_formula(op) if row.sympy[0] == "=" else HEADS_READ[op][0] for op, row in ELSEWHERE.items() if row.sympy[0]},
    "sqrt": lambda x: sp.Pow(x, sp.Rational(1, 2), evaluate=False), "cbrt": _CubeRoot,
    "isnan": lambda x: sp.Ne(x, x, evaluate=False),
    "isinf": lambda x: sp.Eq(sp.Abs(x, evaluate=False), sp.oo, evaluate=False),
    "isfinite": lambda x: sp.Lt(sp.Abs(x, evaluate=False), sp.oo, evaluate=False),
    "select": lambda c, a, b: _chosen(c, a, b), "ellipeinc": lambda *args: sp.elliptic_e(*args, evaluate=False),
}  # fmt: skip
CASES = 24  # rows of braces in a comparison, beyond which it stands over the braces
_COMPARED = CONDITIONS - operations("logic")
_LOGICAL = operations("logic")
_OWN: dict[str, Any] = {}
_OP_OF: dict[Any, str] = {head: op for op, head in _FUNCTIONS.items() if isinstance(head, type)}


def number(value: Any) -> sp.Expr:
    """A Python number as SymPy's: integral floats as integers are shown the way people write them."""
    if isinstance(value, bool):
        return sp.true if value else sp.false
    if isinstance(value, complex):
        return number(value.real) + sp.I * number(value.imag) if value.real else sp.I * number(value.imag)
    if isinstance(value, float):
        if math.isnan(value):
            return sp.nan
        if math.isinf(value):
            return sp.oo if value > 0 else -sp.oo
        return sp.Integer(int(value)) if value == int(value) and abs(value) < 2**53 else sp.Float(value)
    return sp.Integer(value)


def build_sympy(op: str, args: list[Any]) -> Any:
    """One operation as an unevaluated SymPy expression."""
    args = [_condition(a) if op in _LOGICAL or (op == "select" and k == 0) else _number(a) for k, a in enumerate(args)]
    if op == "add" or (op in ("sum", "fsum") and len(args) > 1):  # calls of Python's, compensated
        return sp.Add(*_parts_of(sp.Add, args), evaluate=False)
    if op == "sub":
        return sp.Add(*_parts_of(sp.Add, [args[0], negated_sympy(args[1])]), evaluate=False)
    if op == "mul":
        return sp.Mul(*_parts_of(sp.Mul, args), evaluate=False)
    if op == "div":
        return sp.Mul(*_parts_of(sp.Mul, [args[0]]), sp.Pow(args[1], -1, evaluate=False), evaluate=False)
    if op == "neg":
        return negated_sympy(args[0])
    if op == "pow":
        return sp.Pow(*args, evaluate=False)
    if op in ("cast", "edge"):
        return args[0]
    head = _FUNCTIONS.get(op) or _own(op)
    if op in _COMPARED:
        return _by_cases(lambda *plain: _related(head, plain), args)
    return head(*args, evaluate=False) if isinstance(head, type) else head(*args)


def _related(head: Any, args: Sequence[Any]) -> Any:
    """A relation; of numbers, whether it holds, which only an inequality does of NaN."""
    if any(arg.has(sp.nan) and not arg.has(sp.Piecewise) for arg in args):
        return sp.sympify(head is sp.Ne)
    if all(arg.is_number for arg in args):
        return head(*(arg.doit() for arg in args)).doit()
    return head(*args, evaluate=False) if isinstance(head, type) else head(*args)


def _by_cases(relation: Any, args: list[Any]) -> Any:
    """A relation of numbers; of braces, which stand in no condition of SymPy's, one for each of their cases."""
    brace = next((p for arg in args for p in _braces(arg)), None)
    if brace is None or sum(len(p.args) for arg in args for p in arg.atoms(sp.Piecewise)) > CASES:
        return relation(*args)
    (yes, condition), *rest = brace.args
    no = rest[0][0] if len(rest) == 1 else sp.Basic.__new__(sp.Piecewise, *rest)
    one, two = (_by_cases(relation, [_replaced(arg, brace, case) for arg in args]) for case in (yes, no))
    if one == two:
        return one
    other = condition.negated if isinstance(condition, Relational) else sp.Not(condition, evaluate=False)
    cases = [_both(c, held) for c, held in ((condition, one), (other, two)) if held != sp.false]
    return cases[0] if len(cases) == 1 else sp.Or(*cases, evaluate=False)


def _both(condition: Any, held: Any) -> Any:
    return condition if held == sp.true else sp.And(condition, held, evaluate=False)


def _braces(expr: Any) -> Iterator[Any]:
    """The braces in an expression, without those inside others, and inside sums and heads of our own."""
    if isinstance(expr, sp.Piecewise):
        yield expr
    elif expr.has(sp.Piecewise) and not isinstance(expr, sp.Sum) and not _is_closed(expr):
        for arg in expr.args:
            yield from _braces(arg)


def _is_closed(expr: Any) -> bool:
    return getattr(expr, "is_closed", False)


def _replaced(expr: Any, old: Any, new: Any) -> Any:
    """The expression with one part for another, as it stands."""
    if expr == old:
        return new
    args = [_replaced(arg, old, new) for arg in expr.args] if expr.has(old) and not _is_closed(expr) else expr.args
    return expr if args is expr.args else expr.func(*args, evaluate=False)


def _own(op: str) -> Any:
    """Our own head of an operation."""
    if op not in _OWN:
        _OWN[op] = _head(op)
        _OP_OF[_OWN[op]] = op
    return _OWN[op]


def operation_of_sympy(kind: Any) -> str | None:
    """The operation that a head stands for, be it SymPy's; None for another."""
    return _OP_OF.get(kind)


def _is_condition(expr: Any) -> bool:
    return isinstance(expr, Boolean) and not isinstance(expr, sp.Expr)


def _condition(expr: Any) -> Any:
    """A number as a condition: whether it is not zero. A symbol stands for either."""
    if isinstance(expr, sp.Piecewise) and [pair[0] for pair in expr.args] == [1, 0] and expr.args[1][1] == sp.true:
        return expr.args[0][1]
    if _is_condition(expr) or expr.is_Symbol:
        return expr
    return _by_cases(lambda plain: _related(sp.Ne, [plain, sp.S.Zero]), [expr])


def _number(expr: Any) -> Any:
    """A condition as a number: 1 where it holds, else 0."""
    return _chosen(expr, sp.S.One, sp.S.Zero) if _is_condition(expr) else expr


def _chosen(condition: Any, a: Any, b: Any) -> Any:
    """A Piecewise as it stands: SymPy's own constructors simplify conditions, evaluate=False or not, for minutes."""
    if condition in (sp.true, sp.false):
        return a if condition == sp.true else b
    return piecewise([(a, condition), *(b.args if isinstance(b, sp.Piecewise) else [(b, sp.true)])])


def piecewise(rows: list[tuple[Any, Any]]) -> Any:
    """A Piecewise of values and conditions as they stand, the last one true; a value that is the only one for itself."""
    possible = [(value, condition) for value, condition in rows if condition != sp.false]
    if possible[0][1] == sp.true:
        return possible[0][0]
    return sp.Basic.__new__(sp.Piecewise, *(sp.Tuple.__new__(ExprCondPair, *row) for row in possible))


def _parts_of(head: Any, args: list[Any]) -> list[Any]:
    """The first operand's own parts first: `a + b + c` is one sum, `a + (b + c)` keeps its parentheses."""
    first = list(args[0].args) if isinstance(args[0], head) else [args[0]]
    return first + args[1:]


def negated_sympy(expr: Any) -> Any:
    """-expr without distributing the sign over a sum."""
    if expr.is_Number:
        return -expr
    if isinstance(expr, sp.Mul):
        head, *rest = expr.args
        if head.is_Number:
            return sp.Mul(*rest, evaluate=False) if head == -1 else sp.Mul(-head, *rest, evaluate=False)
        return sp.Mul(-1, *expr.args, evaluate=False)
    return sp.Mul(-1, expr, evaluate=False)


class NodeSymbol(sp.Symbol):
    """The symbol of a node; two are equal only when they stand for the same node."""

    __slots__ = ("node",)

    def __new__(cls, node: Node) -> "NodeSymbol":
        self = Expr.__new__(cls)
        self.name = node.name
        self.node = node
        self._assumptions = _PLAIN._assumptions
        self._assumptions_orig = _PLAIN._assumptions_orig
        self._assumptions0 = _PLAIN._assumptions0
        return self

    def __hash__(self) -> int:
        return hash(self.node)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NodeSymbol) and other.node is self.node

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __reduce__(self) -> tuple[Any, ...]:  # type: ignore[override]
        return NodeSymbol, (self.node,)

    def __getnewargs_ex__(self) -> tuple[Any, ...]:
        return (self.node,), {}


_PLAIN = sp.Symbol("x")


@sympy_symbol.written
def symbol(node: Node) -> Any:
    """A node as a SymPy atom: a number, or a symbol, also for an array of numbers."""
    return number(node.params) if isinstance(node, Constant) else NodeSymbol(node)


def _affine(extent: Count) -> Any:
    """A number of cells, or a place, as a SymPy expression."""
    if not isinstance(extent, Extent):
        return sp.Integer(extent)
    return sp.Add(extent.constant, *(times * sp.Symbol(size.name, integer=True) for size, times in extent.terms))


@sympy_expression.written
def sympy_of_binding(binding: Node) -> Any:
    """The right-hand side of one binding over its symbols."""
    op, operands, params = binding.op, binding.operands, binding.params
    if op == "item":
        base = operands[0]
        cell = (params,) if len(base.shape) == 1 else map(int, np.unravel_index(params, base.shape))
        return sp.IndexedBase(base.name, shape=tuple(map(_affine, base.shape)))[tuple(map(_affine, cell))]
    if op == "loop":
        raise TraceError(
            f"{binding.origin}: a loop of {params.rounds} rounds is no expression; its body's bindings have theirs"
        )
    if op == "part":
        return sp.Symbol(str(binding).partition(" = ")[2])
    if op == "size":
        return _affine(params)
    args = [symbol(o) for o in operands]
    if isinstance(params, Static):
        return _own(op)(*args, *map(_parameter, params.params.values()), evaluate=False)
    return build_sympy(op if op != "call" else params.__name__, args)


def _parameter(value: Any) -> Any:
    """A static parameter, axes or an index for example."""
    if isinstance(value, tuple):
        return sp.Tuple(*map(_parameter, value))
    if isinstance(value, np.ndarray):
        return sp.ImmutableDenseNDimArray(value.tolist())
    if isinstance(value, Extent):
        return _affine(value)
    return sp.sympify(value) if isinstance(value, (bool, int, float)) else sp.Symbol(str(value))
