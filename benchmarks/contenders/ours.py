"""symdiff itself: each backend through the public call, and the bare builtin of machine code.

Assumes symdiff. Guarantees that results are left in arrays made before (`out=`). Refuses nothing.
"""

import functools
from typing import Any

import numpy as np

import symdiff as sd
from benchmarks.calls import Call
from benchmarks.cases import BOTH, JACOBIAN, Case
from benchmarks.contenders.contender import OURS, Contender, always
from symdiff.api.functions import Plain


def _transformed(case: Case, backend: str) -> Any:
    transform = {BOTH: sd.value_and_grad, JACOBIAN: sd.jacobian}.get(case.asks, sd.grad)
    made = transform(case.f(), case.wrt if len(case.wrt) > 1 else case.wrt[0], backend=backend)
    return sd.vmap(made, in_axes=case.axis, backend=backend) if case.kind == "batch" else made


def _itself(case: Case, backend: str) -> Any:
    return sd.vmap(case.f(), in_axes=case.axis, backend=backend) if case.kind == "batch" else Plain(case.f(), backend=backend)


def _derivatives_first(case: Case, result: Any) -> tuple[Any, ...]:
    value, derivatives = result if case.asks == BOTH else (None, result)
    parts = derivatives if isinstance(derivatives, tuple) else (derivatives,)
    return parts if value is None else (*parts, value)


def _arrays_like(result: Any) -> Any:
    return tuple(map(_arrays_like, result)) if isinstance(result, tuple) else np.full_like(result, np.nan)


def _leaves(result: Any) -> list[Any]:
    return [leaf for part in result for leaf in _leaves(part)] if isinstance(result, tuple) else [result]


def _public(function: Any, case: Case, answers: Any) -> Call:
    out = _arrays_like(function(*case.args))
    return Call(function, case.args, {"out": out}, answers)


def _bare(function: Any, case: Case, answers: Any) -> Call:
    out = _arrays_like(function(*case.args))
    kernel = function.compile(*case.args).kernel
    return Call(kernel, (*case.args, *_leaves(out)), answers=lambda _: answers(out))


def _contender(label: str, takes: Any, backend: str, door: Any = _public, package: str = "") -> Contender:
    def derivative(case: Case) -> Call:
        return door(_transformed(case, backend), case, functools.partial(_derivatives_first, case))  # type: ignore[no-any-return]

    def value(case: Case) -> Call:
        return door(_itself(case, backend), case, lambda result: (result,))  # type: ignore[no-any-return]

    return Contender(label, OURS, derivative, value, takes, package)


def _unrolled(case: Case) -> bool:
    return case.kind in ("point", "unrolled")


def _not_large(case: Case) -> bool:
    """The other backends of a large loop would cost a minute of a run, and show nothing new."""
    return case.kind != "unrolled" or case.n <= 1000


CONTENDERS = (
    _contender("symdiff, .kernel", _unrolled, "native", _bare, "llvmlite"),
    _contender("symdiff", always, "auto"),
    _contender("symdiff, backend python", lambda case: _unrolled(case) and _not_large(case), "python"),
    _contender("symdiff, backend numpy", _not_large, "numpy"),
)
