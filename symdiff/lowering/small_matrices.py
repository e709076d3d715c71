"""Inverses, solutions and determinants of small matrices as operations on their cells, which machine code has.

Assumes square matrices without further axes. Guarantees elimination with the pivots of LAPACK's `getrf`, the largest cell of a
column, and nothing done below a column of zeros; of singular matrices the quotients by 0, as for numbers. Cofactors are sums of
products, of singular matrices, too.
"""

import itertools
from dataclasses import replace

import numpy as np

from symdiff.ir.arrays.algebra import Arrays
from symdiff.ir.building import Builder
from symdiff.ir.graph import Graph
from symdiff.ir.node import Atom, Constant, Node
from symdiff.lowering.expanding import Expansion, expanded
from symdiff.vocabulary.extents import Shape

LARGEST = 4  # rows of a matrix, above which there are too many operations


def with_small_matrices_as_cells(graph: Graph) -> Graph:
    """The graph with these operations on cells, in loops, too."""
    which: set[Atom] = {b for b in graph.bindings if _is_small(b) or _holds_small(b)}
    return expanded(graph, _CELLS, which)


def _is_small(binding: Node) -> bool:
    shapes: list[Shape] = [o.shape for o in binding.operands] if binding.op in _CELLS and binding.op != "loop" else []
    return all(len(s) == 2 for s in shapes) and bool(shapes) and shapes[0][0] in range(1, LARGEST + 1)


def _holds_small(binding: Node) -> bool:
    return binding.op == "loop" and any(_is_small(b) or _holds_small(b) for b in binding.params.body.bindings)


def _loop(a: Arrays, binding: Node, operands: tuple[Atom, ...]) -> Atom:
    params = replace(binding.params, body=with_small_matrices_as_cells(binding.params.body))
    return a.builder.loop(params, operands, binding.origin)


def _rows(a: Arrays, x: Atom) -> list[list[Atom]]:
    n, m = x.shape
    return [[a.cell(x, m * i + j) for j in range(m)] for i in range(n)]


def _matrix(a: Arrays, rows: list[list[Atom]], like: Node) -> Atom:
    if like.shape == (1, 1):
        return a.reshape(rows[0][0], like.shape)
    return a.builder.bind("array", tuple(itertools.chain(*rows)), like.shape, like.dtype, None, like.origin)


def _eliminated(b: Builder, rows: list[list[Atom]]) -> tuple[list[list[Atom]], Atom]:
    """The rows of a matrix, with more columns beside it, with zeros below its diagonal, and the sign of their order."""
    sign: Atom = Constant(1.0)
    rows = [list(row) for row in rows]
    n = len(rows)
    for k in range(n):
        for i in range(k + 1, n):
            larger = b.emit("gt", (b.emit("abs", (rows[i][k],)), b.emit("abs", (rows[k][k],))))
            upper, lower = rows[k], rows[i]
            rows[k] = [b.emit("select", (larger, v, u)) for u, v in zip(upper, lower, strict=True)]
            rows[i] = [b.emit("select", (larger, u, v)) for u, v in zip(upper, lower, strict=True)]
            sign = b.emit("select", (larger, b.neg(sign), sign))
        pivot = b.select(b.emit("eq", (rows[k][k], Constant(0.0))), Constant(1.0), rows[k][k]) if k + 1 < n else rows[k][k]
        for i in range(k + 1, n):
            ratio = b.emit("div", (rows[i][k], pivot))
            rows[i] = [b.sub(v, b.mul(ratio, u)) for u, v in zip(rows[k], rows[i], strict=True)]
            rows[i][: k + 1] = [Constant(0.0)] * (k + 1)
    return rows, sign


def _solution(b: Builder, matrix: list[list[Atom]], right: list[list[Atom]]) -> list[list[Atom]]:
    rows, _ = _eliminated(b, [u + v for u, v in zip(matrix, right, strict=True)])
    n = len(rows)
    found: list[list[Atom]] = [row[n:] for row in rows]
    for i in reversed(range(n)):
        for j in range(i + 1, n):
            found[i] = [b.sub(v, b.mul(rows[i][j], u)) for u, v in zip(found[j], found[i], strict=True)]
        found[i] = [b.emit("div", (v, rows[i][i])) for v in found[i]]
    return found


def _inverse(b: Builder, matrix: list[list[Atom]]) -> list[list[Atom]]:
    return _solution(b, matrix, [[Constant(v) for v in row] for row in np.eye(len(matrix)).tolist()])


def _product(b: Builder, factors: list[Atom]) -> Atom:
    return factors[0] if len(factors) == 1 else b.mul(_product(b, factors[:-1]), factors[-1])


def _determinant(b: Builder, matrix: list[list[Atom]]) -> Atom:
    rows, sign = _eliminated(b, matrix)
    return b.mul(sign, _product(b, [row[k] for k, row in enumerate(rows)]))


def _minor(b: Builder, matrix: list[list[Atom]]) -> Atom:
    """The determinant as a sum of products."""
    if len(matrix) < 2:
        return matrix[0][0] if matrix else Constant(1.0)
    found: Atom = Constant(0.0)
    for j, cell in enumerate(matrix[0]):
        term = b.mul(cell, _minor(b, [row[:j] + row[j + 1 :] for row in matrix[1:]]))
        found = (b.sub if j % 2 else b.add)(found, term) if j else term
    return found


def _cofactors(b: Builder, matrix: list[list[Atom]]) -> list[list[Atom]]:
    n = len(matrix)
    minors = [[_minor(b, [r[:j] + r[j + 1 :] for r in matrix[:i] + matrix[i + 1 :]]) for j in range(n)] for i in range(n)]
    return [[b.neg(v) if (i + j) % 2 else v for j, v in enumerate(row)] for i, row in enumerate(minors)]


_CELLS: dict[str, Expansion] = {
    "loop": _loop,
    "inv": lambda a, n, o: _matrix(a, _inverse(a.builder, _rows(a, o[0])), n),
    "inverse_transposed": lambda a, n, o: _matrix(a, [*map(list, zip(*_inverse(a.builder, _rows(a, o[0])), strict=True))], n),
    "solve": lambda a, n, o: _matrix(a, _solution(a.builder, _rows(a, o[0]), _rows(a, o[1])), n),
    "det": lambda a, n, o: _determinant(a.builder, _rows(a, o[0])),
    "log_abs_det": lambda a, n, o: _log_abs(a.builder, _determinant(a.builder, _rows(a, o[0]))),
    "det_sign": lambda a, n, o: a.builder.emit("sign", (_determinant(a.builder, _rows(a, o[0])),)),
    "cofactors": lambda a, n, o: _matrix(a, _cofactors(a.builder, _rows(a, o[0])), n),
}


def _log_abs(b: Builder, x: Atom) -> Atom:
    return b.emit("log", (b.emit("abs", (x,)),))
