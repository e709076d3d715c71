"""How a kernel sums a value over its whole domain: term by term, a product of two as a dot product.

Assumes a kernel's Program. Guarantees the same sum up to rounding, in fewer passes over the block: `sum(100*t*t + e*e)` is
`100*dot(t, t) + dot(e, e)`. A sum of anything but squares is one term.
"""

from typing import NamedTuple

from symdiff.lowering.program import Program
from symdiff.lowering.walks import uses_of


class Term(NamedTuple):
    """A coefficient times the sum of a node's value; `product`: of the product of its two operands."""

    coefficient: complex
    position: int
    product: bool


def terms_of(program: Program, place: int, full: list[bool], exact: bool = False) -> tuple[list[Term], set[int]]:
    """The terms of the sum of output `place`, and the nodes that need not be computed for it.

    `full` tells which values have the cells of the domain: only these are multiplied by a dot product. `exact` keeps the
    sum whole.
    """
    nodes, uses = program.nodes, uses_of(program)
    root = program.outputs[place].cells[0]
    if exact:
        return [Term(1.0, root, False)], set()
    skipped: set[int] = set()
    terms: list[Term] = []
    stack: list[tuple[complex, int]] = [(1.0, root)]
    while stack:
        scale, position = stack.pop()
        node = nodes[position]
        constants = [o for o in node.operands if nodes[o].op == "const"]
        numeric = node.dtype != "?" and uses[position] == 1 and all(nodes[o].dtype != "?" for o in node.operands)
        if numeric and node.op in ("add", "sub") and not constants:
            first, second = node.operands
            skipped.add(position)
            stack += [(-scale if node.op == "sub" else scale, second), (scale, first)]
        elif numeric and node.op == "neg":
            skipped.add(position)
            stack.append((-scale, node.operands[0]))
        elif numeric and node.op == "mul" and len(constants) == 1:
            other = next(o for o in node.operands if o not in constants)
            skipped.add(position)
            stack.append((scale * nodes[constants[0]].params, other))
        elif numeric and node.op == "mul" and all(full[o] and nodes[o].dtype == node.dtype for o in node.operands):
            skipped.add(position)
            terms.append(Term(scale, position, True))
        else:
            terms.append(Term(scale, position, False))
    squares = all(t.product and len(set(nodes[t.position].operands)) == 1 and t.coefficient.real > 0 for t in terms)
    if len(terms) > 1 and not squares:
        return [Term(1.0, root, False)], set()  # terms of either sign might cancel only together
    return terms, skipped
