"""What an expression of SymPy's says, computed with NumPy class by class: a second reader of formulas."""

import itertools

import numpy as np
import sympy as sp
from sympy.core.relational import Relational
from sympy.matrices.expressions.applyfunc import ElementwiseApplyFunction
from sympy.matrices.expressions.diagonal import DiagMatrix, DiagonalOf
from sympy.matrices.expressions.matexpr import MatrixElement
from sympy.matrices.expressions.slice import MatrixSlice


def value_of(expr, given):
    """The value of an expression, of names of arrays and numbers; that of a vector is a column."""

    def of(part):
        return value_of(part, given)

    def matrix(cell, rows, columns):
        return np.array([[float(cell(i, j)) for j in range(columns)] for i in range(rows)])

    if isinstance(expr, sp.MatrixSymbol):
        return np.asarray(given[expr.name], float).reshape(tuple(map(int, expr.shape)))
    if isinstance(expr, sp.Indexed):
        return given[str(expr.base.label)][tuple(int(of(k)) for k in expr.indices)]
    if isinstance(expr, MatrixElement):
        return of(expr.args[0])[int(of(expr.args[1])), int(of(expr.args[2]))]
    if isinstance(expr, sp.Symbol):
        return given[expr.name]
    if isinstance(expr, sp.MatMul):
        found = 1.0
        for part in map(of, expr.args):
            found = found @ part if np.ndim(found) == np.ndim(part) == 2 else found * part
        return found
    if isinstance(expr, (sp.MatAdd, sp.Add)):
        return sum(map(of, expr.args))
    if isinstance(expr, (sp.HadamardProduct, sp.Mul)):
        return np.prod([of(a) for a in expr.args], axis=0)
    if isinstance(expr, sp.HadamardPower):
        return of(expr.base) ** float(expr.exp)
    if isinstance(expr, sp.Transpose):
        return of(expr.arg).T
    if isinstance(expr, sp.Inverse):
        return np.linalg.inv(of(expr.arg))
    if isinstance(expr, sp.Pow):
        return np.float64(of(expr.base)) ** of(expr.exp)
    if isinstance(expr, (sp.Trace, sp.Determinant)):
        return (np.trace if isinstance(expr, sp.Trace) else np.linalg.det)(of(expr.arg))
    if isinstance(expr, (sp.OneMatrix, sp.ZeroMatrix, sp.Identity)):
        made = np.eye if isinstance(expr, sp.Identity) else np.ones if isinstance(expr, sp.OneMatrix) else np.zeros
        return made(int(expr.shape[0])) if made is np.eye else made(tuple(map(int, expr.shape)))
    if isinstance(expr, DiagMatrix):
        return np.diag(of(expr.args[0])[:, 0])
    if isinstance(expr, DiagonalOf):
        return np.diag(of(expr.arg)).reshape(-1, 1)
    if isinstance(expr, MatrixSlice):
        return of(expr.parent)[slice(*map(int, expr.rowslice)), slice(*map(int, expr.colslice))]
    if isinstance(expr, ElementwiseApplyFunction):
        cells, (d,) = of(expr.expr), expr.function.variables
        return matrix(lambda i, j: value_of(expr.function.expr, {**given, d.name: cells[i, j]}), *cells.shape)
    if isinstance(expr, sp.FunctionMatrix):
        first, second = (k.name for k in expr.lamda.variables)
        return matrix(lambda i, j: value_of(expr.lamda.expr, {**given, first: i, second: j}), *map(int, expr.shape))
    if isinstance(expr, sp.MatrixBase):
        return matrix(lambda i, j: of(expr[i, j]), *expr.shape)
    if isinstance(expr, sp.Sum):
        names = [limit[0].name for limit in expr.limits]
        places = itertools.product(*(range(int(limit[1]), int(limit[2]) + 1) for limit in expr.limits))
        return sum(value_of(expr.function, {**given, **dict(zip(names, k, strict=True))}) for k in places)
    if isinstance(expr, sp.Piecewise):
        return next(of(value) for value, condition in expr.args if condition == sp.true or of(condition))
    if isinstance(expr, (sp.And, sp.Or)):
        return (all if isinstance(expr, sp.And) else any)(map(of, expr.args))
    if isinstance(expr, sp.Not):
        return not of(expr.args[0])
    if isinstance(expr, Relational):
        return bool(expr.func(*(sp.Float(float(of(a))) for a in expr.args)))
    if not expr.args:
        return float(expr)
    return float(expr.func(*(sp.Float(of(a)) for a in expr.args)).evalf())
