"""Products of a matrix's vectors with functions of its values, as V diag(g) V^H: one head, whose rule knows equal values.

Assumes bindings in order. Guarantees the same values up to rounding. So a root or a logarithm of a matrix by its eigenvalues,
or the orthogonal matrix that is nearest to one, has its derivative where values are equal, although the vectors have none.
"""

from symdiff.ir.arrays.algebra import Arrays
from symdiff.ir.building import Builder
from symdiff.ir.node import Atom, Constant, Node, Seen
from symdiff.simplification.facts import Facts
from symdiff.simplification.rewriting import replaced
from symdiff.vocabulary.heads import Static

_LEFT = {"eigenvectors": "with_eigenvalues", "left_vectors": "with_singular_values"}


def spectral(facts: Facts, builder: Builder) -> list[Node]:
    """The bindings with such products as spectral heads; new symbols are bound on the builder."""
    if not any(b.op in _LEFT for b in facts.bindings):
        return facts.bindings

    def factors(atom: Atom) -> tuple[Node, list[Atom]] | None:
        """The vectors whose columns a matrix has, and what they are multiplied with."""
        made = facts.node(atom)
        if made.op in _LEFT:
            return made, []
        if made.op == "matmul" and facts.node(made.operands[1]).op == "embed":
            found, factor = factors(made.operands[0]), facts.node(made.operands[1]).operands[0]
        elif made.op == "mul":
            first, second = made.operands
            matrix, factor = (first, second) if first.shape == made.shape else (second, first)
            found = factors(matrix) if factor.shape[-1:] == made.shape[-1:] and set(factor.shape[-2:-1]) <= {1} else None
        else:
            return None
        return None if found is None else (found[0], [*found[1], factor])

    def is_mirrored(atom: Atom, vectors: Node) -> bool:
        """Whether a matrix has the vectors of the other side, or conjugates of these, in its rows."""
        made, turned, conjugated = facts.node(atom), False, vectors.dtype not in ("F", "D")
        while made.op in ("transpose", "conj"):
            rank = len(made.shape)
            swaps = made.op == "transpose" and made.params.params["axes"] == (*range(rank - 2), rank - 1, rank - 2)
            if (made.op == "transpose") != swaps:
                return False
            turned, conjugated = turned != swaps, conjugated != (made.op == "conj")
            made = facts.node(made.operands[0])
        if vectors.op == "left_vectors":
            return made.op == "right_vectors" and not turned and facts.same(made.operands[0], vectors.operands[0])
        return turned and conjugated and facts.same(made.result, vectors.result)

    def seen(binding: Node) -> Seen | None:
        found = factors(binding.operands[0]) if binding.op == "matmul" and binding.primal else None
        if found is None or not is_mirrored(binding.operands[1], found[0]):
            return None
        a, (vectors, scales) = Arrays(builder, binding.origin), found
        n, lead = vectors.shape[-1], vectors.shape[:-2]
        g: Atom = Constant(1.0)
        for scale in scales:
            inner = a.reshape(scale, (*scale.shape[:-2], n)) if len(scale.shape) > 1 and scale.shape[-2] == 1 else scale
            g = builder.mul(g, inner)
        name = _LEFT[vectors.op]
        given = (vectors.operands[0], a.broadcast_to(builder.cast(g, vectors.dtype), (*lead, n)))
        return Seen(binding.result, name, given, Static(name, {}))

    return replaced(facts.bindings, builder, seen)
