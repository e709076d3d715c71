"""Where the sign of a zero matters: 1/x, arctan2, copysign and branch cuts tell 0.0 from -0.0.

Assumes bindings in order. Guarantees to name every value of whose zeros an operation tells the sign, but for those that are
never -0.0; results of the function count as equal whichever zero they are.
"""

from symdiff.ir.node import Atom, Constant, Node
from symdiff.vocabulary.traits import operations

# Operations that hand the sign of a zero on to their result, and those in whose result there is nothing of it.
_KEEPING = operations("keeps_zero") | {"item", "array"}
_LOSING = operations("loses_zero")
_POSITIVE = operations("positive")


def signed_zero_bindings(bindings: list[Node]) -> set[Atom]:
    """Sums with zero of which the sign of a zero is told; empty where there are none."""
    if not any(b.op in ("add", "sub") and any(is_zero_atom(o) for o in b.operands) for b in bindings):
        return set()
    told: set[Atom] = set()
    for binding in reversed(bindings):
        if binding.op in _LOSING and binding.dtype not in "FD" and not _is_complex(binding):
            continue
        handed = binding.op in _KEEPING and not _is_complex(binding)
        for place, operand in enumerate(binding.operands):
            own = handed or (binding.op == "div" and place == 0 and binding.dtype not in "FD")
            if not own or binding in told:
                told.add(operand)
    return told - {b for b in bindings if _is_never_negative(b)}


def is_zero_atom(atom: Atom) -> bool:
    """Whether an atom is the number 0.0 or -0.0."""
    return isinstance(atom, Constant) and not isinstance(atom.value, complex) and atom.value == 0


def _is_complex(binding: Node) -> bool:
    return any(o.dtype is not None and o.dtype in "FD" for o in binding.operands)


def _is_never_negative(binding: Node) -> bool:
    """Whether a value is never -0.0: squares and lengths."""
    same = binding.op == "mul" and binding.operands[0] is binding.operands[1] and binding.dtype not in "FD"
    return same or binding.op in _POSITIVE
