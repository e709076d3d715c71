"""NumPy's products of arrays and its linear algebra, on traced arrays.

Assumes one traced array among the operands. Guarantees NumPy's shapes; every contraction becomes products of matrices, or
elementwise products and a sum. Refuses shapes that do not fit, with `TraceError`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from symdiff.ir.arrays import reducing
from symdiff.ir.arrays.algebra import Arrays
from symdiff.ir.arrays.indexing import region_key
from symdiff.ir.arrays.moving import atom_size, bind_diagonal, bind_moveaxis, bind_ravel, bind_tril
from symdiff.ir.node import Atom, Constant
from symdiff.vocabulary.ops import is_complex

Function = Callable[..., Any]


def bind_vecdot(a: Arrays, x: Atom, y: Atom, axis: int = -1) -> Atom:
    x = a.emit("conj", x) if is_complex(x.dtype or "d") else x
    return _dotted(a, *(bind_moveaxis(a, v, axis, -1) for v in (x, y)))


def _dotted(a: Arrays, x: Atom, y: Atom) -> Atom:
    if x.shape[-1] != y.shape[-1]:
        raise ValueError(f"shapes {x.shape} and {y.shape} do not fit: {x.shape[-1]} is not {y.shape[-1]}")
    return reducing.bind_sum(a, a.emit("mul", x, y), -1)


def bind_matmul(a: Arrays, x: Atom, y: Atom) -> Atom:
    if not x.shape or not y.shape:
        raise ValueError("a number takes no part in a matrix product; use *")
    if len(x.shape) == 1 and len(y.shape) == 1:
        return _dotted(a, x, y)
    left = a.reshape(x, (1, *x.shape)) if len(x.shape) == 1 else x
    right = a.reshape(y, (*y.shape, 1)) if len(y.shape) == 1 else y
    found = a.matmul(left, right)
    if len(x.shape) == 1:
        return a.reshape(found, (*found.shape[:-2], found.shape[-1]))
    return a.reshape(found, found.shape[:-1]) if len(y.shape) == 1 else found


def bind_matvec(a: Arrays, x: Atom, y: Atom) -> Atom:
    found = a.matmul(x, a.reshape(y, (*y.shape, 1)))
    return a.reshape(found, found.shape[:-1])


def bind_vecmat(a: Arrays, x: Atom, y: Atom) -> Atom:
    x = a.emit("conj", x) if is_complex(x.dtype or "d") else x
    found = a.matmul(a.reshape(x, (*x.shape[:-1], 1, x.shape[-1])), y)
    return a.reshape(found, (*found.shape[:-2], found.shape[-1]))


def bind_dot(a: Arrays, x: Atom, y: Atom) -> Atom:
    if not x.shape or not y.shape:
        return a.emit("mul", x, y)
    if len(x.shape) == 1 and len(y.shape) == 1:
        return _dotted(a, x, y)
    if len(y.shape) <= 2:
        return bind_matmul(a, x, y)
    return bind_tensordot(a, x, y, ([len(x.shape) - 1], [len(y.shape) - 2]))


def bind_vdot(a: Arrays, x: Atom, y: Atom) -> Atom:
    return bind_vecdot(a, bind_ravel(a, x), bind_ravel(a, y))


def bind_inner(a: Arrays, x: Atom, y: Atom) -> Atom:
    if not x.shape or not y.shape:
        return a.emit("mul", x, y)
    if len(x.shape) == 1 and len(y.shape) == 1:
        return _dotted(a, x, y)
    return bind_tensordot(a, x, y, ([len(x.shape) - 1], [len(y.shape) - 1]))


def bind_outer(a: Arrays, x: Atom, y: Atom) -> Atom:
    return a.emit("mul", a.reshape(x, (atom_size(x), 1)), a.reshape(y, (1, atom_size(y))))


def bind_tensordot(a: Arrays, x: Atom, y: Atom, axes: Any = 2) -> Atom:
    if isinstance(axes, int):
        axes = (list(range(len(x.shape) - axes, len(x.shape))), list(range(axes)))
    left, right = normalize_axis_tuple(axes[0], len(x.shape)), normalize_axis_tuple(axes[1], len(y.shape))
    if [x.shape[i] for i in left] != [y.shape[i] for i in right]:
        raise ValueError(f"shapes {x.shape} and {y.shape} do not fit along axes {left} and {right}")
    rows = tuple(i for i in range(len(x.shape)) if i not in left)
    columns = tuple(i for i in range(len(y.shape)) if i not in right)
    count = int(np.prod([x.shape[i] for i in left], dtype=int))
    shape = (*(x.shape[i] for i in rows), *(y.shape[i] for i in columns))
    height, width = (int(np.prod([of.shape[i] for i in kept], dtype=int)) for of, kept in ((x, rows), (y, columns)))
    first = a.reshape(a.transpose(x, (*rows, *left)), (height, count))
    second = a.reshape(a.transpose(y, (*right, *columns)), (count, width))
    return a.reshape(a.matmul(first, second), shape)


def bind_kron(a: Arrays, x: Atom, y: Atom) -> Atom:
    rank = max(len(x.shape), len(y.shape))
    first = (1,) * (rank - len(x.shape)) + x.shape
    second = (1,) * (rank - len(y.shape)) + y.shape
    left = a.reshape(x, tuple(n for m in first for n in (m, 1)))
    right = a.reshape(y, tuple(n for m in second for n in (1, m)))
    return a.reshape(a.emit("mul", left, right), tuple(m * n for m, n in zip(first, second, strict=True)))


def bind_cross(a: Arrays, x: Atom, y: Atom, axis: int = -1) -> Atom:
    x, y = bind_moveaxis(a, x, axis, -1), bind_moveaxis(a, y, axis, -1)
    if x.shape[-1] != 3 or y.shape[-1] != 3:
        raise ValueError(f"cross products need three cells along the axis, not {x.shape[-1]} and {y.shape[-1]}")

    def part(of: Atom, k: int) -> Atom:
        return a.getitem(of, region_key(of.shape, len(of.shape) - 1, slice(k, k + 1)))

    def minor(i: int, j: int) -> Atom:
        return a.emit("sub", a.emit("mul", part(x, i), part(y, j)), a.emit("mul", part(x, j), part(y, i)))

    parts = [minor(1, 2), minor(2, 0), minor(0, 1)]
    return bind_moveaxis(a, a.concatenate(parts, len(parts[0].shape) - 1), -1, axis)


def bind_trace(a: Arrays, x: Atom, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Atom:
    return reducing.bind_sum(a, bind_diagonal(a, x, offset, axis1, axis2), -1)


def bind_convolve(a: Arrays, x: Atom, y: Atom, mode: str = "full") -> Atom:
    if len(x.shape) != 1 or len(y.shape) != 1:
        raise ValueError("arrays with one axis are needed")
    longer, shorter = (x, y) if atom_size(x) >= atom_size(y) else (y, x)
    if mode == "valid":
        return a.bind("convolve_inside", longer, shorter)
    count = {"full": atom_size(longer) + atom_size(shorter) - 1, "same": atom_size(longer)}[mode]
    first = (atom_size(shorter) - 1) // 2 if mode == "same" else 0
    return a.getitem(a.bind("convolve", x, y), ((first, first + count, 1),))


def bind_correlate(a: Arrays, x: Atom, y: Atom, mode: str = "valid") -> Atom:
    other = a.flip(a.emit("conj", y) if is_complex(y.dtype or "d") else y)
    if mode != "same":
        return bind_convolve(a, x, other, mode)
    longer, shorter = max(atom_size(x), atom_size(y)), min(atom_size(x), atom_size(y))
    first = shorter // 2 if atom_size(y) > atom_size(x) else (shorter - 1) // 2
    return a.getitem(bind_convolve(a, x, other, "full"), ((first, first + longer, 1),))


def bind_einsum(a: Arrays, spec: str, *operands: Atom, optimize: Any = False) -> Atom:
    spec = spec.replace(" ", "")
    inputs, arrow, output = spec.partition("->")
    names = inputs.split(",")
    if len(names) != len(operands):
        raise ValueError(f"{spec!r} names {len(names)} operands, {len(operands)} are given")
    free = [c for c in map(chr, range(ord("A"), ord("Z") + 1)) if c not in spec]
    widest = 0
    for k, name in enumerate(names):
        if "..." in name:
            count = len(operands[k].shape) - len(name) + 3
            widest = max(widest, count)
            names[k] = name.replace("...", "".join(free[-count:]) if count else "")
    around = "".join(free[-widest:]) if widest else ""
    if not arrow:
        every = "".join(names)
        output = around + "".join(sorted(c for c in set(every) if every.count(c) == 1 and c not in around))
    output = output.replace("...", around)
    terms = [_once(a, x, name) for x, name in zip(operands, names, strict=True)]
    while len(terms) > 1:
        (x, first), (y, second), *rest = terms
        needed = output + "".join(name for _, name in rest)
        terms = [_contracted(a, x, first, y, second, needed), *rest]
    x, name = terms[0]
    x, name = _summed(a, x, name, output)
    missing = set(output) - set(name)
    if missing or len(set(output)) != len(output):
        raise ValueError(f"{spec!r}: the result's letters must occur once each, and in an operand")
    found = a.transpose(x, tuple(name.index(c) for c in output))
    if 0 in found.shape or all(0 not in o.shape for o in operands):
        return found
    return a.emit("add", found, Constant(0.0))  # of no terms, which is no minus zero


def _once(a: Arrays, x: Atom, name: str) -> tuple[Atom, str]:
    """An operand with each letter once: repeated letters name a diagonal."""
    if len(name) != len(x.shape):
        raise ValueError(f"{name!r} names {len(name)} axes of an array of shape {x.shape}")
    for letter in dict.fromkeys(name):
        while name.count(letter) > 1:
            first = name.index(letter)
            second = name.index(letter, first + 1)
            if x.shape[first] != x.shape[second]:
                raise ValueError(f"axis {letter!r} has sizes {x.shape[first]} and {x.shape[second]}")
            x = bind_diagonal(a, x, 0, first, second)
            name = name[:first] + name[first + 1 : second] + name[second + 1 :] + letter
    return x, name


def _summed(a: Arrays, x: Atom, name: str, needed: str) -> tuple[Atom, str]:
    """Axes that nobody needs are summed."""
    axes = tuple(i for i, c in enumerate(name) if c not in needed)
    return a.sum(x, axes), "".join(c for c in name if c in needed)


def _contracted(a: Arrays, x: Atom, first: str, y: Atom, second: str, needed: str) -> tuple[Atom, str]:
    """Two operands as one product: of matrices where axes are summed, else elementwise."""
    x, first = _summed(a, x, first, needed + second)
    y, second = _summed(a, y, second, needed + first)
    sizes: dict[str, int] = {}
    for name, shape in ((first, x.shape), (second, y.shape)):
        for c, n in zip(name, shape, strict=True):
            if sizes.get(c, n) != n and 1 not in (n, sizes[c]):
                raise ValueError(f"axis {c!r} has sizes {sizes[c]} and {n}")
            sizes[c] = n if sizes.get(c, 1) == 1 else sizes[c]
    x = a.broadcast_to(x, tuple(sizes[c] for c in first))
    y = a.broadcast_to(y, tuple(sizes[c] for c in second))
    both = [c for c in first if c in second and c in needed]
    summed = [c for c in first if c in second and c not in needed]
    rows = [c for c in first if c not in second]
    columns = [c for c in second if c not in first]

    def ordered(of: Atom, name: str, letters: list[str], shape: list[int]) -> Atom:
        return a.reshape(a.transpose(of, tuple(name.index(c) for c in letters)), tuple(shape))

    def total(letters: list[str]) -> int:
        return int(np.prod([sizes[c] for c in letters], dtype=int))

    lead = [sizes[c] for c in both]
    result = both + rows + columns
    if summed and (rows or columns):
        left = ordered(x, first, [*both, *rows, *summed], [*lead, total(rows), total(summed)])
        right = ordered(y, second, [*both, *summed, *columns], [*lead, total(summed), total(columns)])
        found = a.matmul(left, right)
    else:
        left = ordered(
            x,
            first,
            [*both, *rows, *summed],
            [*lead, *(sizes[c] for c in rows), *([1] * len(columns)), *(sizes[c] for c in summed)],
        )
        right = ordered(
            y,
            second,
            [*both, *columns, *summed],
            [*lead, *([1] * len(rows)), *(sizes[c] for c in columns), *(sizes[c] for c in summed)],
        )
        found = a.emit("mul", left, right)
        if summed:
            rank = len(found.shape)
            found = a.sum(found, tuple(range(rank - len(summed), rank)))
    return a.reshape(found, tuple(sizes[c] for c in result)), "".join(result)


# -- linear algebra


def square_atom(x: Atom) -> Atom:
    """x, when its last two axes are square matrices; else a `ValueError`."""
    if len(x.shape) < 2 or x.shape[-1] != x.shape[-2]:
        raise ValueError(f"square matrices are needed, not shape {x.shape}")
    return x


def bind_inv(a: Arrays, x: Atom) -> Atom:
    return a.bind("inv", square_atom(x))


def bind_solve(a: Arrays, x: Atom, b: Atom) -> Atom:
    if len(b.shape) == 1:
        found = a.bind("solve", square_atom(x), a.reshape(b, (*b.shape, 1)))
        return a.reshape(found, found.shape[:-1])
    return a.bind("solve", square_atom(x), b)


def bind_det(a: Arrays, x: Atom) -> Atom:
    return a.bind("det", square_atom(x))


def bind_slogdet(a: Arrays, x: Atom) -> tuple[Atom, Atom]:
    return a.bind("det_sign", square_atom(x)), a.bind("log_abs_det", x)


def bind_hermitian(a: Arrays, x: Atom) -> Atom:
    """The Hermitian matrices of which LAPACK reads the lower triangles."""
    below = bind_tril(a, square_atom(x), -1)
    if not is_complex(x.dtype or "d"):
        return a.emit("add", bind_tril(a, x), a.mirrored(below))
    return a.emit("add", a.emit("add", below, a.mirrored(below)), a.embed(a.emit("real", a.diagonal(x))))


def bind_matrix_power(a: Arrays, x: Atom, n: int) -> Atom:
    if n < 0:
        return bind_matrix_power(a, bind_inv(a, x), -n)
    result: Atom | None = None
    power = square_atom(x)
    while n:
        if n & 1:
            result = power if result is None else a.matmul(result, power)
        n >>= 1
        if n:
            power = a.matmul(power, power)
    if result is not None:
        return result
    return a.embed(a.broadcast_to(Constant(1.0, x.dtype), x.shape[:-1]))


def bind_multi_dot(a: Arrays, parts: Any) -> Atom:
    ranks = [len(part.shape) for part in parts]
    if any(rank != 2 for rank in ranks[1:-1]) or not {ranks[0], ranks[-1]} <= {1, 2}:
        raise ValueError(f"matrices are needed, and vectors only at the ends, not shapes {[part.shape for part in parts]}")
    found = parts[0]
    for part in parts[1:]:
        found = bind_matmul(a, found, part)
    return found  # type: ignore[no-any-return]


PRODUCTS: dict[str, Function] = {
    function.__name__.removeprefix("bind_"): function
    for function in (
        bind_vecdot, bind_matmul, bind_matvec, bind_vecmat, bind_dot, bind_vdot, bind_inner, bind_outer, bind_tensordot,
        bind_kron, bind_cross, bind_trace, bind_convolve, bind_correlate,
    )
}  # fmt: skip
LINALG: dict[str, Function] = {
    function.__name__.removeprefix("bind_"): function
    for function in (bind_inv, bind_solve, bind_det, bind_slogdet, bind_matrix_power, bind_multi_dot)
}
