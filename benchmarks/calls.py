"""Calls, and their times in one run.

Assumes calls without side effects but into their own outputs. Guarantees interleaved measurements, so that a slow moment
of the machine meets all calls, and no cost of the measurement's own but a loop's. Refuses an answer that differs from the
reference.
"""

import timeit
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

LEAST = 0.01  # seconds a round of one call lasts at least, so that the clock's own time does not count
MOST = 2.0  # seconds after which a call is not measured again


def alone(returned: Any) -> tuple[Any, ...]:
    """The answers of a call that returns a single one."""
    return (returned,)


@dataclass(frozen=True, slots=True)
class Call:
    """`function(*arguments, **keywords)`; `answers` makes what it returns the derivatives, then the value if asked for."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    keywords: Mapping[str, Any] = field(default_factory=dict)
    answers: Callable[[Any], Any] = alone

    def __call__(self) -> Any:
        """What the function returns."""
        return self.function(*self.arguments, **self.keywords)

    def timer(self) -> timeit.Timer:
        """A timer whose statement calls the function itself, with everything in local variables."""
        places = [f"a{i}" for i in range(len(self.arguments))]
        stated = ", ".join([*places, *(f"{name}={name}" for name in self.keywords)])
        names = ", ".join(["function", *places, *self.keywords])
        parts = (self.function, *self.arguments, *self.keywords.values())
        return timeit.Timer(f"function({stated})", f"{names}, = parts", globals={"parts": parts})


def flat(answers: Any) -> Any:
    """All numbers of some answers, one after another."""
    return np.concatenate([np.ravel(np.asarray(part)) for part in answers])


def check(name: str, answers: Any, expected: Any, tolerance: float = 1e-9) -> None:
    """Raise `AssertionError` where answers differ from the expected numbers, relative to the largest of them."""
    scale = float(np.max(np.abs(expected), initial=0.0))
    np.testing.assert_allclose(flat(answers), expected, tolerance, tolerance * scale, err_msg=f"{name} gives another answer")


def times(calls: Mapping[Hashable, Call], rounds: int) -> dict[Any, float]:
    """The seconds of one call of each: the least of interleaved rounds, the collector off."""
    timers = {key: call.timer() for key, call in calls.items()}
    repeats = {key: _repeats(timer) for key, timer in timers.items()}
    found: dict[Any, list[float]] = {key: [] for key in calls}
    for _ in range(rounds):
        for key, timer in timers.items():
            if sum(found[key]) * repeats[key] < MOST:
                found[key].append(timer.timeit(repeats[key]) / repeats[key])
    return {key: min(seconds) for key, seconds in found.items()}


def _repeats(timer: timeit.Timer) -> int:
    """How often a call is made in a round; small counts first, as the first calls are slower."""
    count, seconds = 1, timer.timeit(1)
    while seconds < LEAST / 10:
        count *= 10
        seconds = timer.timeit(count)
    return max(1, round(LEAST / (seconds / count)))
