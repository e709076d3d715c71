"""Whether a derivative by a complex argument exists: what depends on its conjugate, and the line that makes it so.

Of a function with a rule of the user's own it is told by the operations of its traced body: one of holomorphic operations
passes. Refuses, with `NonHolomorphicError`, cotangents by the conjugates of inputs; one partial as the derivative of a
real-valued function of a complex argument; and a body in which the result depends on the argument's conjugate, unless the rule
says that it holds for complex values.
"""

from collections.abc import Iterable

from symdiff.errors import NonHolomorphicError
from symdiff.ir.graph import Graph
from symdiff.ir.node import Atom, Node
from symdiff.vocabulary.ops import is_complex
from symdiff.vocabulary.traits import operations

_BOTH = operations("mixes")


def check_conjugates(bindings: Iterable[Node], conjugates: dict[Node, Atom], mixing: str | None) -> None:
    """Raise `NonHolomorphicError` where a complex input's cotangent by its conjugate is structurally nonzero.

    `mixing` tells the line and the operation.
    """
    symbol = next((s for s in conjugates if is_complex(s.dtype)), None)
    if symbol is None:
        return
    cell = next((b for b in bindings if b.result is symbol and b.op == "item"), None)
    name = symbol.name if cell is None else str(cell).partition(" = ")[2]
    raise NonHolomorphicError(
        f"{mixing or '?'} makes the output depend on the conjugate of {name}, so that there is no complex "
        "derivative; sd.wirtinger gives the derivatives by z and by its conjugate"
    )


def head_as_written(written: list[Node], binding: Node) -> str:
    """The operation on a binding's line that the user wrote, where the sweeps see another one."""
    near = [b for b in written if b.origin == binding.origin]
    if any(b.result is binding.result and b.op == binding.op for b in near):
        return binding.op
    return next((b.op for b in near if b.op in ("abs", "real", "imag", "conj")), binding.op)


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
