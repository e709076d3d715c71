"""What a formula of arrays says as it is shown, computed with NumPy: its heads, names and indices read as a person reads them.

A vector is a column; a vector of ones has the length that its neighbour asks for.
"""

import itertools
import re

import numpy as np
import sympy as sp
from sympy.core.relational import Relational

CELL = re.compile(r"(\w+)\[(.*)\]")


class Ones:
    """A column of ones, or a row of them."""

    def __init__(self, row=False):
        self.row = row


class Identity:
    """A number times the identity, of the size that its neighbour asks for."""

    def __init__(self, number=1.0):
        self.number = number


def times(one, other):
    """A product of numbers, matrices and vectors of ones."""
    if isinstance(one, Identity) or isinstance(other, Identity):
        number, rest = (one.number, other) if isinstance(one, Identity) else (other.number, one)
        return Identity(number * rest) if np.ndim(rest) == 0 and not isinstance(rest, Ones) else times(number, rest)
    if isinstance(one, Ones) and isinstance(other, Ones):
        return 1.0 if not one.row else NotImplemented
    if isinstance(other, Ones):
        return one if np.ndim(one) == 0 or other.row else np.sum(one, axis=1, keepdims=True)
    if isinstance(one, Ones):
        return other if np.ndim(other) == 0 or not one.row else np.sum(other, axis=0, keepdims=True)
    if (
        np.ndim(one) == 0
        or np.ndim(other) == 0
        or (one.shape == (1, 1) and other.shape[0] > 1)
        or (other.shape == (1, 1) and one.shape[1] > 1)
    ):
        return one * other
    return one @ other


def is_sum(one, other):
    """Whether a vector of ones adds up the rows or columns of its neighbour."""
    if isinstance(one, Ones) and one.row:
        return np.ndim(other) == 2
    return isinstance(other, Ones) and not other.row and np.ndim(one) == 2


def formula_values(formula, given, shapes):
    """The arrays that the equations of a formula say, of these shapes."""
    given = {name: np.asarray(v, float) for name, v in given.items()}
    definitions = {e.left: e.right for e in formula.where if isinstance(e.left, sp.Symbol)}
    return [equation_value(e, given, definitions, shape) for e, shape in zip(formula.equations, shapes, strict=True)]


def equation_value(equation, given, definitions, shape):
    names = indices_of(equation.left)
    if not names:
        found = Reader(given, definitions, {}, shape).of(equation.right)
        found = 1.0 if isinstance(found, Ones) else found.number * np.eye(shape[0]) if isinstance(found, Identity) else found
        return np.reshape(found, ()) if shape == () else np.broadcast_to(found, (*shape, 1)[:2]).reshape(shape)
    cells = np.empty(shape)
    for place in np.ndindex(shape):
        cells[place] = Reader(given, definitions, dict(zip(names, place, strict=True)), shape).of(equation.right)
    return cells


def indices_of(left):
    """The indices of a left side, in order."""
    symbols = [s for s in sp.preorder_traversal(left) if isinstance(s, sp.Symbol)]
    matches = [m for s in symbols if (m := CELL.fullmatch(s.name))]
    return [k.strip() for m in matches for k in m[2].split(",")]


class Reader:
    """Values of expressions, by names of arrays, definitions, indices, and the shape of the result."""

    def __init__(self, given, definitions, indices, shape):
        self.given, self.definitions, self.indices, self.shape = given, definitions, indices, shape

    def of(self, expr):
        kind = type(expr).__name__
        if hasattr(self, kind):
            return getattr(self, kind)(*expr.args)
        if isinstance(expr, sp.Symbol):
            return self.symbol(expr)
        if isinstance(expr, Relational):
            return np.vectorize(lambda a, b: bool(expr.func(sp.Float(float(a)), sp.Float(float(b)))))(*map(self.of, expr.args))
        if isinstance(expr, (sp.And, sp.Or)):
            return (np.logical_and if isinstance(expr, sp.And) else np.logical_or).reduce([self.of(a) for a in expr.args])
        if isinstance(expr, sp.MatrixBase):
            return np.array([[self.of(c) for c in row] for row in expr.tolist()], float)
        if not expr.args:
            return float(expr)
        function = getattr(np, {"Abs": "abs"}.get(kind, kind), None)
        if function is not None and kind not in ("det", "tr"):
            return function(*map(self.of, expr.args))
        return np.vectorize(lambda *a: float(expr.func(*map(sp.Float, a)).evalf()))(*map(self.of, expr.args))

    def symbol(self, symbol):
        match = CELL.fullmatch(symbol.name)
        if match:
            return self.given[match[1]][tuple(int(eval(k, {}, self.indices)) for k in match[2].split(","))]
        if symbol.name in self.indices:
            return self.indices[symbol.name]
        found = next((v for k, v in self.definitions.items() if k.name == symbol.name), None)
        if found is not None:
            return self.of(found)
        if symbol.name == "I":
            return Identity()
        array = self.given[symbol.name]
        return array.reshape(-1, 1) if array.ndim == 1 else array[()]

    def Add(self, *terms):
        found = [self.of(t) for t in terms]
        if any(isinstance(f, Identity) for f in found):
            size = next((len(f) for f in found if np.ndim(f) == 2 and f.shape[0] > 1), self.shape and self.shape[0])
            found = [f.number * np.eye(size) if isinstance(f, Identity) else f for f in found]
        return sum(1.0 if isinstance(f, Ones) else f for f in found)

    def Mul(self, *factors):
        brackets = [self.of(f) for f in factors if type(f).__name__ == "Bracketed"]
        if any(np.ndim(b) == 0 and b == 0 for b in brackets):  # what stands before it need not be defined
            return 0.0
        values = [self.of(f) for f in factors]
        while len(values) > 1:  # first what adds up rows or columns
            inward = (k for k, (a, b) in enumerate(itertools.pairwise(values)) if is_sum(a, b))
            k = next(inward, 0)
            values[k : k + 2] = [times(values[k], values[k + 1])]
        return values[0]

    def Pow(self, base, power):
        return np.power(self.of(base), self.of(power))

    def Grouped(self, inner):
        return self.of(inner)

    Scalar = Grouped

    def CellOf(self, word, *at):
        return self.of(word)[tuple(int(self.of(k)) for k in at)]

    def Marked(self, word, mark):
        if type(word).__name__ == "Unit" and word.args:
            return np.eye(self.shape[-1])[[int(word.args[0])]]
        found = self.of(word)
        if isinstance(found, Ones):
            return Ones(True)
        found = found if int(mark) == 0 else np.linalg.inv(found)
        return found if int(mark) == 1 or np.ndim(found) == 0 else found.T

    def Cellwise(self, *parts):
        return np.prod(np.broadcast_arrays(*map(self.of, parts)), axis=0)

    def CellQuotient(self, over, under):
        return self.of(over) / self.of(under)

    def CellPower(self, word, power):
        return self.of(word) ** float(power)

    def Norm(self, word, kind):
        return np.linalg.norm(self.of(word))

    def Unit(self, *place):
        return np.eye(self.shape[0])[:, [int(place[0])]] if place else Ones()

    def Not(self, condition):
        return np.logical_not(self.of(condition))

    def Softmax(self, word, rows):
        found = np.exp(self.of(word))
        return found / found.sum(axis=1 if rows == 1 else 0, keepdims=True)

    def Bracketed(self, condition):
        return np.where(self.of(condition), 1.0, 0.0)

    def Piecewise(self, *rows):
        conditions = [condition == sp.true or self.of(condition) for _, condition in rows]
        if any(np.ndim(c) for c in conditions):
            return np.select([np.broadcast_to(c, np.shape(conditions[0])) for c in conditions], [self.of(v) for v, _ in rows])
        return next(self.of(value) for value, condition in rows if condition == sp.true or self.of(condition))

    def Sum(self, cell, *limits):
        ranges = [range(int(self.of(low)), int(self.of(high)) + 1) for _, low, high in limits]
        total = 0.0
        for place in itertools.product(*ranges):
            own = self.indices | {limit[0].name: k for limit, k in zip(limits, place, strict=True)}
            total += Reader(self.given, self.definitions, own, self.shape).of(cell)
        return total

    def ExtremeOver(self, name, cell, *indices):
        places = [range(self._extent(cell, index.name)) for index in indices]
        found = (
            Reader(self.given, self.definitions, self.indices | dict(zip(map(str, indices), at, strict=True)), self.shape).of(
                cell
            )
            for at in itertools.product(*places)
        )
        return {"max": max, "min": min}[name.name](found)

    def _extent(self, cell, index):
        """How many values an index has: as many as the axis of an array in whose cells it stands."""
        matches = [m for s in cell.free_symbols if (m := CELL.fullmatch(s.name))]
        return next(self.given[m[1]].shape[k] for m in matches for k, at in enumerate(m[2].split(",")) if at.strip() == index)

    def diag(self, word):
        found = self.of(word)
        return np.diag(found).reshape(-1, 1) if found.shape[1] > 1 else np.diag(found[:, 0])

    def tr(self, word):
        return np.trace(self.of(word))

    def det(self, word):
        return np.linalg.det(self.of(word))

    def Max(self, *parts):
        return max(map(self.of, parts))

    def Min(self, *parts):
        return min(map(self.of, parts))
