"""Whether a function with a rule of the user's own may depend on the conjugate of an argument, by the operations of its body.

Assumes the traced body of a function. Guarantees that a body of holomorphic operations passes. Refuses, with
`NonHolomorphicError`, one partial as the derivative of a real-valued function of a complex argument, and of a body in which
the result depends on the argument's conjugate, unless the rule says that it holds for complex values.
"""

from symdiff.errors import NonHolomorphicError
from symdiff.ir.graph import Graph
from symdiff.ir.node import Atom, Node
from symdiff.vocabulary.ops import is_complex

_BOTH = frozenset({"real", "imag", "abs", "sign"})


def check_holomorphic(binding: Node, place: int, is_declared: bool) -> None:
    """Raise `NonHolomorphicError` where a call's rule cannot be the derivative by its complex argument `place`."""
    rule, operand = binding.params.rule, binding.operands[place]
    if not is_complex(operand.dtype or "d"):
        return
    name = rule.parameters[place]
    if not is_complex(binding.dtype):
        raise NonHolomorphicError(
            f"{binding.origin}: {rule.name} gives a real number of the complex {name}, so that one partial cannot be its "
            f"derivative; without the rule ({rule.source}), or with one for a function of real and imaginary parts, sd."
            "wirtinger gives the derivatives by z and by its conjugate"
        )
    body = binding.params.graph
    line = None if is_declared or body is None else nonholomorphic_line(body, body.inputs[place].node)
    if line is not None:
        raise NonHolomorphicError(
            f"{line}: {rule.name} depends on the conjugate of {name}, and its rule ({rule.source}) has one partial; where that "
            f"holds for complex values nevertheless, say so: def _(out, {name}: sd.Complex)"
        )


def nonholomorphic_line(graph: Graph, symbol: Atom) -> str | None:
    """The line of the last operation that brings the conjugate of an input into the output; None where none does."""
    plain, mirrored = {symbol}, set()
    line = None
    for binding in graph.bindings:
        operands = binding.operands[1:] if binding.op == "select" else binding.operands
        direct, crossed = (any(o in among for o in operands) for among in (plain, mirrored))
        if binding.dtype in "?l" or not (direct or crossed):
            continue
        if binding.op == "conj":
            direct, crossed = crossed, direct
        elif binding.op in _BOTH:
            direct = crossed = True
        if direct:
            plain.add(binding.result)
        if crossed:
            mirrored.add(binding.result)
            line = binding.origin if binding.op in (*_BOTH, "conj") else line
    return line if any(o.atom in mirrored for o in graph.outputs) else None
