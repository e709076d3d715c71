"""A graph of whole arrays as values in the normal form of `matrix_terms`, a binding by a row.

Assumes the plain whole-array graphs of tracing and of `differentiation`, none of them unrolled. Guarantees exact numbers: a
float is the short fraction that it rounds, or itself. What only guards the machine's formula (a shift of an exponent, a limit
at one point) is left away and noted: the values are those of the derivative wherever they are finite and not at a kink. Raises
`Wordless` for what has no row.
"""

import itertools
import math
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp

from symdiff.inspection.exact import exact_number
from symdiff.inspection.matrix_terms import Algebra, Factor, Open, Place, Shape, Term, Value, Wordless, own_places
from symdiff.ir.graph import Graph
from symdiff.ir.node import ArrayConstant, Atom, Constant, Node
from symdiff.vocabulary.extents import Extent
from symdiff.vocabulary.ops import OPS, is_complex

LIMIT = 1500  # bindings, beyond which nobody reads a formula
SMALL = 64  # cells of a constant array that are looked at


@dataclass(frozen=True, slots=True)
class Flat:
    """The cells of a value, in C order, in another shape."""

    value: Value
    shape: Shape


def _free_name(letters: str, taken: Container[str]) -> str:
    """The first letter that is not taken, else the first of all with a number."""
    numbered = (f"{letters[0]}_{k}" for k in itertools.count(1))
    return next(name for name in itertools.chain(letters, numbered) if name not in taken)


def _array_key(array: np.ndarray) -> bytes:
    return f"{array.dtype.str}{array.shape}".encode() + array.tobytes()


class Values:
    """The values of a graph: of its inputs, its bindings and its outputs. For readers of the
    function `counted`, the number of cells by which a mean of its divides is a symbol, of which `counts` tells the number, and
    softmax a function."""

    def __init__(self, graph: Graph, names: Sequence[str], counted: Graph | None = None) -> None:
        if len(graph.bindings) > LIMIT:
            raise Wordless(f"{len(graph.bindings)} bindings")
        self.algebra = Algebra()
        self.algebra.soft = counted is not None
        self.arrays: dict[str, np.ndarray] = {}  # constant arrays by the names they get
        self.notes: list[str] = []
        self._names = set(names)
        self._extents = {n for leaf in graph.inputs for n in leaf.shape}
        self.counts: dict[str, int] = {}
        self._counted: set[Atom] = set() if counted is None else set(_mean_counts(counted))
        for atom in _mean_counts(counted) if counted else ():
            self.algebra.counts[int(atom.params)] = self.count(int(atom.params))
        self._found: dict[Atom, Value | Flat] = {}
        self._constants: dict[bytes, str] = {}
        for leaf, name in zip(graph.inputs, names, strict=True):
            if any(isinstance(n, Extent) for n in leaf.shape):
                raise Wordless("extents that are symbols")
            self._found[leaf.node] = self.algebra.symbol(name, leaf.shape)
        for binding in graph.bindings:
            self._found[binding] = self._made(binding)
        self.outputs = [self.of(o.atom) for o in graph.outputs]

    def of(self, atom: Atom) -> Value:
        """The value of an atom."""
        if atom in self._counted:
            return self.algebra.number(self.count(int(atom.params)))
        if isinstance(atom, Constant):
            return self.algebra.number(exact_number(atom.value))
        if isinstance(atom, ArrayConstant):
            return self._array(atom.value)
        found = self._found[atom]
        if isinstance(found, Flat):
            raise Wordless("reshape")
        return found

    @property
    def known(self) -> dict[Atom, Value]:
        """The values of bindings."""
        return {atom: value for atom, value in self._found.items() if isinstance(value, Value)}

    def extent(self, number: int) -> Any:
        """A number of cells by those of inputs."""
        more = next((k for k in (0, 1, 2) if number + k in self._extents), 0)
        return self.count(number + more) - more

    def count(self, number: int) -> Any:
        """The symbol of a number of cells."""
        name = next((n for n, count in self.counts.items() if count == number), None)
        if name is None:
            name = _free_name("nmN", self._names | self.counts.keys())
            self.counts[name] = number
        return sp.Symbol(name, integer=True, positive=True)

    def _array(self, array: np.ndarray) -> Value:
        """A constant array: a number, an identity, or a name."""
        array = array.astype(float) if array.dtype == bool else array
        if array.size and (array == array.ravel()[0]).all():
            return self.algebra.number(exact_number(array.ravel()[0].item()), array.shape)
        if array.ndim == 2 and array.shape[0] == array.shape[1] > 1:
            first = array[0, 0]
            if first and np.array_equal(array, first * np.eye(len(array))):
                return self.algebra.scaled(self._delta(array.shape, Place(0), Place(1)), exact_number(first.item()))
        key, turned = _array_key(array), _array_key(array.T)
        if array.ndim == 2 and turned != key and turned in self._constants:
            return self.algebra.moved(self._array(array.T), {0: Place(1), 1: Place(0)}, array.shape)
        if key not in self._constants:
            name = _free_name("C" if array.ndim > 1 else "c", self._names)
            self._names.add(name)
            self._constants[key] = name
            self.arrays[name] = array
        return self.algebra.symbol(self._constants[key], array.shape)

    def _delta(self, shape: Shape, one: Place, two: Place) -> Value:
        return self.algebra.single(Factor(self.algebra.what("delta"), (one, two)), shape)

    # -- bindings

    def _made(self, binding: Node) -> "Value | Flat":
        op = binding.op
        operands: list[Any] = [self._found.get(o) or self.of(o) for o in binding.operands]
        flat = next((o for o in operands if isinstance(o, Flat)), None)
        if flat is not None or op == "reshape":
            return self._reshaped(binding, operands, flat)
        return self._plain(binding, operands)

    def _reshaped(self, binding: Node, operands: list[Any], flat: "Flat | None") -> "Value | Flat":
        """An operation on cells that are to stand in another shape: it is done where they stand."""
        if flat is None:
            flat = Flat(operands[0], binding.shape)
        if binding.op == "reshape":
            return _reshape(self.algebra, flat.value, binding.shape) or Flat(flat.value, binding.shape)
        if binding.op == "sum" and len(binding.params.params["axes"]) == len(flat.shape):
            return self.algebra.summed(flat.value, range(len(flat.value.shape)))
        same = [o.value if isinstance(o, Flat) and o.shape == flat.shape else o for o in operands]
        if any(isinstance(o, Flat) or (o.labels and o.shape != flat.value.shape) for o in same) or binding.shape != flat.shape:
            raise Wordless("reshape")
        if any(o.labels and isinstance(given, Value) for o, given in zip(same, operands, strict=True)):
            raise Wordless("reshape")
        shape = flat.value.shape
        moved = [self.algebra.moved(o, {}, ()) if not o.labels else o for o in same]
        return Flat(self._plain(binding.on(binding.operands), moved, shape), flat.shape)

    def _plain(self, binding: Node, operands: list[Value], shape: Shape | None = None) -> Value:
        op, shape = binding.op, binding.shape if shape is None else shape
        if op in _ROWS:
            params = {} if binding.params is None or op in ("item", "array") else binding.params.params
            return _ROWS[op](Step(self, binding, operands, params))
        if op in OPS and op not in ("call", "input", "const"):
            made = self._elementwise(binding, operands)
            return made if made.shape == shape else self.algebra.add(made, self.algebra.number(0, shape))
        raise Wordless(op)

    def _elementwise(self, binding: Node, operands: list[Value]) -> Value:
        op, a = binding.op, self.algebra
        numbers = [v.number for v in operands]
        if op in ("cast", "edge"):
            return operands[0]
        if op == "add":
            return a.add(*operands)
        if op == "sub":
            return a.add(operands[0], a.scaled(operands[1], -1))
        if op == "neg":
            return a.scaled(operands[0], -1)
        if op == "mul":
            return a.mul(*operands)
        if op == "div" and a.soft and _is_share(binding):
            return self._noted(operands[0], "away from kinks")
        if op == "div":
            return a.mul(operands[0], a.power(operands[1], -1))
        if op == "pow" and numbers[1] is not None and numbers[1].is_Rational:
            return a.power(operands[0], numbers[1])
        if op == "sqrt":
            return a.power(operands[0], sp.S.Half)
        if op in ("conj", "real") and not is_complex(binding.operands[0].dtype or "d"):
            return operands[0]
        if op == "hypot":
            return a.power(a.add(*(a.power(v, 2) for v in operands)), sp.S.Half)
        if op == "select":
            return self._selected(binding, operands)
        if op == "exp":
            return self._exp(operands[0])
        if op == "log":
            return self._log(operands[0])
        if all(n is not None and n.is_number and n.is_real for n in numbers):
            return self._folded(op, [float(n) for n in numbers], binding.shape)
        return a.call(op, operands)

    def _folded(self, op: str, numbers: list[float], shape: Shape) -> Value:
        with np.errstate(all="ignore"):
            return self.algebra.number(exact_number(np.asarray(OPS[op].function()(*numbers)).item()), shape)

    def _selected(self, binding: Node, operands: list[Value]) -> Value:
        """A brace; where the derivative chose between its formula and a limit at one point, the formula."""
        condition, yes, no = operands
        tested = binding.operands[0]
        if condition.number is not None:
            return yes if condition.number else no
        is_masked = not binding.primal and isinstance(binding.operands[2], ArrayConstant)  # what is decomposed in one way
        if no.number is sp.nan or is_masked:
            return yes
        plain = all(o.op == "const" for o in binding.operands[1:])
        if not binding.primal and not plain:
            if tested.op == "isfinite":
                return self._noted(yes, "where all is finite")
            if is_thin(tested):
                return self._noted(no, "away from kinks")
            if tested.op == "ne":
                return self._noted(yes, "away from kinks")
        if yes is no:
            return yes
        return self.algebra.call("select", operands)

    def _noted(self, value: Value, note: str) -> Value:
        if note not in self.notes:
            self.notes.append(note)
        return value

    def _exp(self, x: Value) -> Value:
        """exp(x): powers of what x has logarithms of, then what shifts whole rows by their extreme, then the rest."""
        a = self.algebra
        if x.number is not None:
            return a.number(sp.exp(x.number), x.shape)
        logs, others = a.split(x, lambda t: not t.bound and len(t.factors) == 1 and _is_call(t.factors[0], "log"))
        found = [a.number(1, x.shape)]
        for term in logs.terms:
            (factor,) = term.factors
            found.append(a.power(a.moved(factor.what.parts[1], dict(enumerate(factor.at)), x.shape), term.coefficient))
        parted = a.split(others, lambda t: _is_shift(t, x.labels))
        return a.mul(*found, *(a.call("exp", [part]) for part in parted if part.terms))

    def _log(self, x: Value) -> Value:
        """log(x), the shift of an exponent taken out."""
        a = self.algebra
        if x.number is not None:
            return a.number(sp.log(x.number), x.shape)
        term = a.one_term(x)
        shifts = [f for f in term.factors if _is_call(f, "exp") and all(_is_shift(t) for t in f.what.parts[1].terms)]
        if not shifts:
            return a.call("log", [x])
        rest = term._replace(factors=[f for f in term.factors if f not in shifts])
        taken = [a.scaled(a.moved(f.what.parts[1], dict(enumerate(f.at)), x.shape), f.power) for f in shifts]
        return a.add(a.call("log", [a.value(x.shape, [rest])]), *taken)


def _is_call(factor: Factor, op: str) -> bool:
    return factor.what.calls(op) and factor.power == 1


def _is_shift(term: Open | Term, labels: list[int] | None = None) -> bool:
    """Whether a term is an extreme, rounded or not, or a logarithm, of fewer axes than `labels`."""
    if len(term.factors) != 1 or (labels is not None and set(term.factors[0].labels) >= set(labels)):
        return False
    what = term.factors[0].what
    if what.calls("rint") and what.parts[1].terms:
        return _is_shift(what.parts[1].terms[0])
    return (what.kind == "head" and what.parts[0] in ("amax", "amin")) or what.calls("log")


def _mean_counts(graph: Graph) -> list[Atom]:
    """The constants by which the user's means divide: how many cells a sum has."""
    found: list[Atom] = []
    for b in graph.bindings:
        if b.op != "div" or not isinstance(b.operands[1], Constant) or b.operands[1].value is True:
            continue
        total = b.operands[0]
        while total.op in ("reshape", "broadcast_to", "cast"):
            (total,) = total.operands
        if total.op == "sum" and b.operands[1].value == math.prod(
            total.operands[0].shape[k] for k in total.params.params["axes"]
        ):
            found.append(b.operands[1])
    return found


# -- structural operations


@dataclass(frozen=True, slots=True)
class Step:
    """A binding with the values of its operands."""

    values: Values
    binding: Node
    operands: list[Value]
    params: dict[str, Any]

    @property
    def a(self) -> Algebra:
        """Where values are made."""
        return self.values.algebra

    @property
    def x(self) -> Value:
        """The first operand."""
        return self.operands[0]

    @property
    def shape(self) -> Shape:
        """The shape of the result."""
        return self.binding.shape


def _reshape(a: Algebra, x: Value, shape: Shape) -> Value | None:
    """Axes of one cell come and go, equal cells take any shape; None for others."""
    if not x.labels:
        return a.moved(x, {}, shape)
    old = [(k, n) for k, n in enumerate(x.shape) if n != 1]
    new = [(k, n) for k, n in enumerate(shape) if n != 1]
    if [n for _, n in old] != [n for _, n in new]:
        return None
    return a.moved(x, {one: Place(two) for (one, _), (two, _) in zip(old, new, strict=True)}, shape)


def _getitem(s: Step) -> Value:
    places = {}
    for k, (start, _, step) in enumerate(s.params["key"]):
        places[k] = Place(None, 1, start) if s.shape[k] == 1 else Place(k, step, start)
    return s.a.moved(s.x, places, s.shape)


def _placed(a: Algebra, x: Value, key: Any, shape: Shape) -> Value:
    """Zeros with x in a region: brackets, and shifted labels."""
    x = a.broadcast(x, (*(len(range(n)[slice(*k)]) for n, k in zip(shape, key, strict=True)),))
    places, brackets = {}, []
    for k, (start, stop, step) in enumerate(key):
        extent = x.shape[k]
        if extent == shape[k] and step == 1:
            continue
        if extent == 1 and shape[k] != 1:
            brackets.append(Factor(a.what("delta"), (Place(k), Place(None, 1, start))))
        elif step == 1:
            places[k] = Place(k, 1, -start)
            brackets.append(Factor(a.what("inside", start, stop, shape[k]), (Place(k),)))
        elif step == -1:
            places[k] = Place(k, -1, start)
            if extent != shape[k]:
                brackets.append(Factor(a.what("inside", start - extent + 1, start + 1, shape[k]), (Place(k),)))
        else:
            raise Wordless("every second cell")
    moved = [a.fresh(t, places) for t in x.terms]
    return a.value(shape, [t._replace(factors=t.factors + brackets) for t in moved])


def _set(s: Step) -> Value:
    x, y = s.operands
    kept, new = (_placed(s.a, part, s.params["key"], s.shape) for part in (s.a.number(1), y))
    return s.a.add(x, s.a.scaled(s.a.mul(x, kept), -1), new)


def _concatenate(s: Step) -> Value:
    axis, start, parts = s.params["axis"], 0, []
    for x in s.operands:
        key = [(0, n, 1) for n in s.shape]
        key[axis] = (start, start + x.shape[axis], 1)
        start += x.shape[axis]
        parts.append(_placed(s.a, x, key, s.shape))
    return s.a.add(*parts)


def _embed(s: Step) -> Value:
    last = len(s.shape) - 1
    return s.a.mul(s.a.moved(s.x, {}, s.shape), s.values._delta(s.shape, Place(last - 1), Place(last)))


def _matmul(a: Algebra, x: Value, y: Value, result: Shape) -> Value:
    if x.shape[-1] == 1:
        y = a.moved(y, {}, y.shape)
    lead = result[:-2] if len(x.shape) > 1 else ()
    if len(x.shape) == 1:
        return a.summed(a.mul(x, y), (0,))
    rank, shape = len(lead), (*lead, x.shape[-2], x.shape[-1], y.shape[-1])

    def placed(v: Value, row: int) -> Value:
        """A factor among the axes of both; the rows of the second are the columns of the first."""
        first = len(v.shape) - 2
        return a.moved(v, {k: Place(k + rank - first + row * (k >= first)) for k in range(len(v.shape))}, shape)

    return a.summed(a.mul(placed(x, 0), placed(y, 1)), (rank + 1,))


def _item(s: Step) -> Value:
    at = np.unravel_index(s.binding.params, s.x.shape)
    return s.a.moved(s.x, {k: Place(None, 1, int(i)) for k, i in enumerate(at)}, ())


def _array(s: Step) -> Value:
    if len(s.operands) > SMALL or len(s.shape) > 2 or 1 in s.shape:
        raise Wordless("an array of cells")
    if all(x is s.x for x in s.operands):
        return s.a.moved(s.x, {}, s.shape)
    return s.a.single(Factor(s.a.what("cells", *s.operands, s.shape), own_places(s.shape)), s.shape)


def _headed(a: Algebra, name: str, x: Value, shape: Shape) -> Value:
    """A function of a whole matrix."""
    if len(x.shape) != 2:
        raise Wordless(f"{name} of stacked matrices")
    if x.shape == (1, 1):
        return a.power(x, -1) if name == "inv" else a.moved(x, {}, shape)
    return a.single(Factor(a.what("head", name, x, shape), own_places(shape)), shape)


def _turned(a: Algebra, x: Value) -> Value:
    return a.moved(x, {0: Place(1), 1: Place(0)}, x.shape[::-1])


def _inverse(a: Algebra, x: Value) -> Value:
    """The inverse; of a matrix that is transposed, the inverse transposed."""
    term = x.terms[0] if len(x.shape) == 2 and len(x.terms) == 1 else None
    if term is not None and len(term.factors) == 1 and term.factors[0].what.kind != "delta":
        (factor,), coefficient = term.factors, term.coefficient
        if [p.label for p in factor.at] == [1, 0]:
            return _turned(a, _inverse(a, _turned(a, x)))
        if factor.what.kind == "head" and factor.what.parts[0] == "inv" and factor.power == 1:
            return a.scaled(factor.what.parts[1], 1 / coefficient)
        if coefficient != 1:
            return a.scaled(_inverse(a, a.scaled(x, 1 / coefficient)), 1 / coefficient)
    return _headed(a, "inv", x, x.shape)


def _cofactors(s: Step) -> Value:
    s.values._noted(s.x, "where the matrix has an inverse")
    return s.a.mul(_headed(s.a, "det", s.x, ()), _turned(s.a, _inverse(s.a, s.x)))


def _logsumexp(s: Step) -> Value:
    return s.values._log(s.a.summed(s.values._exp(s.x), s.params["axes"]))


def _along(s: Step, total: Value) -> Value:
    """Sums over axes, repeated along them."""
    kept = [k for k in range(len(s.shape)) if k not in s.params["axes"]]
    return s.a.moved(total, {n: Place(k) for n, k in enumerate(kept)}, s.shape)


def _softmax(s: Step) -> Value:
    made = s.values._exp(s.x)
    return s.a.mul(made, s.a.power(_along(s, s.a.summed(made, s.params["axes"])), -1))


def _log_softmax(s: Step) -> Value:
    return s.a.add(s.x, s.a.scaled(_along(s, _logsumexp(s)), -1))


def _extreme(s: Step) -> Value:
    """The largest or smallest cells along axes."""
    axes = s.params["axes"]
    kept = [k for k in range(len(s.x.shape)) if k not in axes]
    order = {k: Place(n) for n, k in enumerate([*kept, *axes])}
    inner = s.a.moved(s.x, order, tuple(s.x.shape[k] for k in (*kept, *axes)))
    shape = tuple(s.x.shape[k] for k in kept)
    return s.a.single(Factor(s.a.what("head", s.binding.op, inner, shape), own_places(shape)), shape)


def _determinant(s: Step) -> Value:
    return _headed(s.a, "det", s.x, ())


_ROWS: dict[str, Callable[[Step], Value]] = {
    "getitem": _getitem, "set": _set, "concatenate": _concatenate, "embed": _embed, "item": _item, "array": _array,
    "cells": _array, "cofactors": _cofactors, "logsumexp": _logsumexp, "softmax": _softmax, "log_softmax": _log_softmax,
    "amax": _extreme, "amin": _extreme, "det": _determinant,
    "broadcast_to": lambda s: s.a.broadcast(s.x, s.shape),
    "transpose": lambda s: s.a.moved(s.x, {old: Place(new) for new, old in enumerate(s.params["axes"])}, s.shape),
    "sum": lambda s: s.a.summed(s.x, s.params["axes"]),
    "put": lambda s: _placed(s.a, s.x, s.params["key"], s.shape),
    "diagonal": lambda s: s.a.moved(s.x, {len(s.shape): Place(len(s.shape) - 1)}, s.shape),
    "matmul": lambda s: _matmul(s.a, *s.operands, s.shape),
    "solve": lambda s: _matmul(s.a, _inverse(s.a, s.x), s.operands[1], s.shape),
    "inv": lambda s: _inverse(s.a, s.x), "inverse_transposed": lambda s: _turned(s.a, _inverse(s.a, s.x)),
    "log_abs_det": lambda s: s.a.call("log", [s.a.call("abs", [_determinant(s)])]),
    "det_sign": lambda s: s.a.call("sign", [_determinant(s)]),
}  # fmt: skip


def _is_share(binding: Node) -> bool:
    """Whether a derivative divides a one among zeros by the number of ones, of which there is one but for ties."""
    one, total = binding.operands
    while total.op in ("reshape", "broadcast_to"):
        (total,) = total.operands
    return (
        not binding.primal
        and one.op == "select"
        and is_thin(one.operands[0])
        and total.op == "sum"
        and total.operands == (one,)
    )


def is_thin(condition: Any) -> bool:
    """Whether a condition, an atom or a term, holds at single points only."""
    op = condition.op
    return op == "eq" or (op in ("and", "or") and (any if op == "and" else all)(map(is_thin, condition.operands)))
