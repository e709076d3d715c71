"""From cases to rows: every contender built, checked, and timed against the others of its case.

Assumes cases of growing size in order. Guarantees that no answer is timed that was not checked, and a line for everything
that is left out. Refuses a wrong answer with `AssertionError`.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.calls import Call, check, flat, times
from benchmarks.cases import Case
from benchmarks.contenders import ALL, Contender

TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class Row:
    """The seconds of a contender at a case: one call of f, one of what is asked, and building and first call together."""

    case: Case
    contender: Contender
    value: float | None
    derivative: float
    once: float

    @property
    def ratio(self) -> float | None:
        """The derivative's time to the function's."""
        return None if self.value is None else self.derivative / self.value


@dataclass(slots=True)
class Measurement:
    """Builds and times; a contender that would take longer than `patience` seconds to build is left out, with a line."""

    rounds: int
    patience: float
    contenders: Sequence[Contender] = ALL
    left_out: list[str] = field(default_factory=list)
    _history: dict[tuple[str, str], list[tuple[int, float]]] = field(default_factory=dict)

    def warm_up(self, case: Case) -> None:
        """Import all packages and use them once, so that a one-off cost is that of one function."""
        for contender in self.contenders:
            if contender.is_installed and contender.takes(case):
                contender.derivative(case)()

    def rows(self, case: Case) -> list[Row]:
        """A row for each contender that takes the case."""
        expected, value = case.expected(), flat([case.value()])
        calls: dict[tuple[Contender, str], Call] = {}
        once = {}
        for contender in self.contenders:
            if not (contender.is_installed and contender.takes(case) and self._is_quick_enough(contender, case)):
                continue
            built = self._build(contender, case, expected)
            if built is None:
                continue
            calls[contender, "derivative"], once[contender] = built
            itself = contender.value(case)
            if itself is not None:
                check(f"f by {contender.label} of {case.name}", itself.answers(itself()), value, TOLERANCE)
                calls[contender, "value"] = itself
        seconds = times(calls, self.rounds)
        return [Row(case, c, seconds.get((c, "value")), seconds[c, "derivative"], spent) for c, spent in once.items()]

    def _build(self, contender: Contender, case: Case, expected: Any) -> tuple[Call, float] | None:
        """The call, checked, and the seconds of building it and of its first run; None when it cannot be built."""
        history = self._history.setdefault((contender.label, case.name), [])
        start = time.perf_counter()
        try:
            call = contender.derivative(case)
            returned = call()
        except RecursionError:  # a known limit of packages that walk expressions by recursion
            self.left_out.append(f"{contender.label} of {case.name}, n = {case.n:,}: its recursion is too deep")
            history.append((case.n, math.inf))
            return None
        spent = time.perf_counter() - start
        history.append((case.n, spent))
        check(f"{contender.label} of {case.name}", call.answers(returned), expected, TOLERANCE)
        if spent > self.patience:
            self.left_out.append(f"{contender.label} of {case.name}, n = {case.n:,}: {spent:.1f} s to build and run once")
            return None
        return call, spent

    def _is_quick_enough(self, contender: Contender, case: Case) -> bool:
        """Whether building takes less than the patience, judged by smaller sizes: growth is linear or worse."""
        history = self._history.get((contender.label, case.name), [])
        smaller = [(n, seconds) for n, seconds in history if n < case.n]
        if not smaller or case.kind != "unrolled":  # whole arrays take as long to build at any size
            return True
        expected = extrapolated(smaller, case.n)
        if expected <= self.patience:
            return True
        about = f"about {expected:.0f} s to build" if expected < math.inf else "its recursion is too deep"
        self.left_out.append(f"{contender.label} of {case.name}, n = {case.n:,}: {about}")
        return False


def extrapolated(smaller: Sequence[tuple[int, float]], n: int) -> float:
    """The seconds expected at size n, along the power of n that the last two sizes show, but at least linear."""
    (last, seconds), power = smaller[-1], 1.0
    if len(smaller) > 1 and seconds < math.inf:
        before, less = smaller[-2]
        power = max(power, math.log(seconds / less) / math.log(last / before))
    return seconds * (n / last) ** power
