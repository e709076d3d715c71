"""What a contender is: a way to a function's value and to its derivative.

Assumes a `Case` that `takes` accepts. Guarantees calls whose answers are the derivatives, then the value where asked for.
Refuses nothing.
"""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.calls import Call
from benchmarks.cases import Case

OURS, HAND, PEER = "symdiff", "by hand", "peer"


def always(case: Case) -> bool:
    """Takes every case."""
    return True


@dataclass(frozen=True, slots=True)
class Contender:
    """`value` and `derivative` make the calls that are timed; `value` is None where the function itself is not run.

    `package` is the module without which it does not take part; `side` is one of OURS, HAND and PEER.
    """

    label: str
    side: str
    derivative: Callable[[Case], Call]
    value: Callable[[Case], Call | None]
    takes: Callable[[Case], bool] = always
    package: str = ""

    @property
    def is_installed(self) -> bool:
        """Whether its package can be imported."""
        return not self.package or importlib.util.find_spec(self.package) is not None
