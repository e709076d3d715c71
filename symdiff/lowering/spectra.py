"""Fourier transforms of half spectra and of real numbers, as transforms that do half of the work.

Assumes graphs in the array regime. Guarantees the same values up to rounding. Other transforms stay.
"""

import numpy as np

from symdiff.ir.arrays.algebra import Arrays
from symdiff.ir.building import array_atom
from symdiff.ir.graph import Graph
from symdiff.ir.node import ArrayConstant, Atom, Node
from symdiff.lowering.expanding import expanded
from symdiff.vocabulary.heads import Shape, half_weights
from symdiff.vocabulary.ops import is_complex


def halved(graph: Graph) -> Graph:
    """The graph with half of bfft(x) of a real x as a transform from real numbers, and real(bfft(u, 0, ...)) as one to them."""
    if not any(b.op in ("fft", "bfft") for b in graph.bindings):
        return graph
    return _to_real(_of_real(graph))


def _of_real(graph: Graph) -> Graph:
    def is_half(binding: Node) -> bool:
        transform = binding.operands[0] if binding.op == "getitem" else binding
        if transform.op not in ("fft", "bfft") or is_complex(transform.operands[0].dtype or "d"):
            return False
        return binding is not transform and bool(
            binding.params.params["key"] == _half_key(transform.shape, transform.params.params["axis"])
        )

    def half(a: Arrays, binding: Node, operands: tuple[Atom, ...]) -> Atom:
        transform = operands[0]
        found = a.bind("rfft", transform.operands[0], axis=transform.params.params["axis"])
        return a.emit("conj", found) if transform.op == "bfft" else found

    return expanded(graph, {"getitem": half}, {b for b in graph.bindings if is_half(b)})


def _to_real(graph: Graph) -> Graph:
    def filled(transform: Node) -> Node | None:
        """The `put` that fills a half spectrum with zeros, where it is transformed."""
        found = transform.operands[0] if transform.op in ("fft", "bfft") else transform
        if found.op != "put" or not is_complex(found.operands[0].dtype or "d"):
            return None
        whole = _half_key(found.shape, transform.params.params["axis"]) == found.params.params["key"]
        return found if whole and found.operands[0].op != "const" else None

    def real_transform(a: Arrays, binding: Node, operands: tuple[Atom, ...]) -> Atom:
        transform = operands[0]
        put = filled(transform)
        assert put is not None
        axis = transform.params.params["axis"]
        n = put.shape[axis]
        weights = half_weights(n).reshape((-1,) + (1,) * (len(put.shape) - axis - 1))
        u = _unweighted(put.operands[0], weights)
        if u is None:
            u = a.emit("mul", put.operands[0], array_atom((1 / weights).astype("f" if binding.dtype == "f" else "d")))
        return a.bind("brfft", a.emit("conj", u) if transform.op == "fft" else u, n=n, axis=axis)

    return expanded(
        graph, {"real": real_transform}, {b for b in graph.bindings if b.op == "real" and filled(b.operands[0]) is not None}
    )


def _half_key(shape: Shape, axis: int) -> tuple[tuple[int, int, int], ...]:
    """The region of a half spectrum in a whole one."""
    return tuple((0, n // 2 + 1 if i == axis else n, 1) for i, n in enumerate(shape))


def _unweighted(product: Node, weights: np.ndarray) -> Atom | None:
    """The other factor of a product with the weights."""
    for k, operand in enumerate(product.operands if product.op == "mul" else ()):
        if isinstance(operand, ArrayConstant) and np.array_equal(operand.value, weights):
            return product.operands[1 - k]  # type: ignore[no-any-return]
    return None
