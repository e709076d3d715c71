"""The stages in order: trace, differentiate, scalarize, number, share, schedule, emit, load.

Assumes nothing beyond its stages' own invariants, which it checks between stages when `SYMDIFF_CHECK=1`. Guarantees
that stages are put together nowhere else. Refuses backends and targets it does not know, with `BackendError`.
"""

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from symdiff.codegen.emission import numpy as numpy_emission
from symdiff.codegen.emission import python as python_emission
from symdiff.codegen.loading import load
from symdiff.codegen.plan import Plan, check_plan
from symdiff.codegen.program import Program, check_program
from symdiff.codegen.scheduling import schedule
from symdiff.codegen.sharing import share
from symdiff.codegen.source import Source
from symdiff.errors import BackendError
from symdiff.numbering import number
from symdiff.symbolic.graph import Graph, check_graph
from symdiff.symbolic.scalarizing import expand_calls, scalarize

TARGETS: dict[str, ModuleType] = {"python": python_emission, "numpy": numpy_emission}


@dataclass(frozen=True, slots=True)
class Options:
    """How values may be rearranged: `exact` keeps operations and order, `fastmath` lets sums of values go, too."""

    exact: bool = False
    fastmath: bool = False


DEFAULT = Options()


def program_of(graph: Graph, options: Options = DEFAULT, name: str | None = None) -> Program:
    """The shared Program of a Graph, with the fewest operations that `options` allow."""
    checking = os.environ.get("SYMDIFF_CHECK") == "1"
    with collector_off():
        flat = expand_calls(scalarize(graph))
        if checking:
            check_graph(flat)
        program = number(flat, fold=not options.exact, name=name)
        if not options.exact:
            program = share(program, fastmath=options.fastmath)
        if checking:
            check_program(program)
    return program


def plan_of(program: Program, kind: str = "point", in_axes: Any = None, out_axes: Any = None) -> Plan:
    """The Plan of a Program for one point, or for a batch with these points axes."""
    plan = schedule(program, kind, in_axes, out_axes)
    if os.environ.get("SYMDIFF_CHECK") == "1":
        check_plan(plan)
    return plan


def source_of(plan: Plan, target: str, **layout: Any) -> Source:
    """The Plan as text for a target."""
    if target not in TARGETS:
        raise BackendError(f"unknown target {target!r}; there are {', '.join(TARGETS)}")
    return TARGETS[target].emit(plan, **layout)  # type: ignore[no-any-return]


def kernel_of(plan: Plan, target: str, name: str) -> Any:
    """A loaded function of the Plan, for calls from within the process."""
    with collector_off():
        return load(source_of(plan, target, name=name, style="runtime"))


@contextmanager
def collector_off() -> Iterator[None]:
    """Python's cyclic garbage collector doubles the time of building large programs; it is off meanwhile."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
