"""Values that constants alone tell, worked out where places, conditions or what begins a loop ask for them.

Assumes atoms of one builder. Guarantees the evaluator's values; nothing is worked out of functions of the user's, of loops, or
of inputs.
"""

from typing import Any, NamedTuple

import numpy as np

from symdiff.ir.evaluating import applied, value_of
from symdiff.ir.node import Atom
from symdiff.vocabulary.steps import steps_of_table
from symdiff.vocabulary.walking import worked_out

_UNKNOWN = frozenset({"input", "loop", "part", "size", "call", "site"})


class Data(NamedTuple):
    """A value, and whether some table of it has no steps, that is: tells more than the numbers of rounds or cells do."""

    value: Any
    irregular: bool


def data_of(atom: Atom, known: dict[Atom, Data | None]) -> Data | None:
    """What constants alone tell of an atom; None where they tell nothing. `known` has what was worked out before."""

    def made(a: Atom) -> Data | None:
        if a.op == "const":
            return Data(value_of(a, {}), bool(a.shape) and steps_of_table(a.params) is None)
        given = [known[o] for o in a.operands]
        if a.op in _UNKNOWN or not given or None in given:
            return None
        with np.errstate(all="ignore"):
            return Data(applied(a, [d.value for d in given]), any(d.irregular for d in given))  # type: ignore[union-attr]

    return worked_out(atom, known, lambda a: a.operands, made)  # type: ignore[no-any-return]
