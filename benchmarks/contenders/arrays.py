"""Packages that differentiate functions of arrays: JAX, PyTorch and autograd.

Assumes NumPy's arguments. Guarantees arrays of the package's own kind, made before, and that a call has ended when it
returns. Refuses what `takes` excludes.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.calls import Call
from benchmarks.cases import BOTH, JACOBIAN, Case
from benchmarks.contenders.contender import PEER, Contender
from benchmarks.words import problems_in, torch_words

# JAX


def _jax() -> Any:
    import jax
    import jax.numpy

    jax.config.update("jax_enable_x64", True)
    return jax


def _compiled(function: Callable[..., Any], case: Case, answers: Callable[[Any], Any]) -> Call:
    """Compiled by jit; the call waits for its result."""
    jax = _jax()
    batched = jax.vmap(function, in_axes=case.axis, out_axes=case.axis) if case.kind == "batch" else function
    run, args = jax.jit(batched), tuple(map(jax.numpy.asarray, case.args))
    return Call(lambda: jax.block_until_ready(run(*args)), answers=answers)


def _jax_value(case: Case) -> Call:
    return _compiled(case.f(problems_in(_jax().numpy)), case, lambda value: (value,))


def _jax_derivative(case: Case) -> Call:
    jax = _jax()
    f = case.f(problems_in(jax.numpy))
    if case.complex_of_real:  # grad is for real results
        return _compiled(lambda x: jax.jvp(f, (x,), (1.0,)), case, lambda pair: (pair[1], pair[0]))
    holomorphic = {"holomorphic": case.is_complex}
    if case.asks == JACOBIAN:
        return _compiled(jax.jacobian(f, case.wrt, **holomorphic), case, tuple)
    if case.asks == BOTH:
        return _compiled(jax.value_and_grad(f, case.wrt, **holomorphic), case, lambda pair: (*pair[1], pair[0]))
    return _compiled(jax.grad(f, case.wrt, **holomorphic), case, tuple)


# PyTorch and autograd


def _variables_first(case: Case, f: Callable[..., Any]) -> Callable[..., Any]:
    """f at many points: the variables have to be rows."""
    return (lambda x: f(x.T)) if case.kind == "batch" and case.axis == 0 else f


def _tensors(case: Case, wrt: tuple[int, ...] = ()) -> list[Any]:
    import torch

    return [torch.tensor(np.asarray(a), requires_grad=i in wrt) for i, a in enumerate(case.args)]


def _torch_value(case: Case) -> Call:
    return Call(_variables_first(case, case.f(problems_in(torch_words()))), tuple(_tensors(case)))


def _torch_derivative(case: Case) -> Call:
    import torch

    f = _variables_first(case, case.f(problems_in(torch_words())))
    if case.asks == JACOBIAN:
        return Call(torch.func.jacrev(f, case.wrt), tuple(_tensors(case)), answers=tuple)
    args = _tensors(case, case.wrt)
    leaves = [args[i] for i in case.wrt]

    def gradients() -> Any:
        value = f(*args)
        found = torch.autograd.grad(value, leaves, torch.ones_like(value))
        return (*found, value.detach()) if case.asks == BOTH else found

    return Call(gradients, answers=lambda found: [g.conj().resolve_conj() if case.is_complex else g for g in found])


def _takes(case: Case) -> bool:
    return not case.complex_of_real and not (case.asks == JACOBIAN and case.is_complex)


def _autograd_value(case: Case) -> Call:
    import autograd.numpy

    return Call(_variables_first(case, case.f(problems_in(autograd.numpy))), case.args)


def _autograd_derivative(case: Case) -> Call:
    import autograd
    import autograd.numpy

    f = _variables_first(case, case.f(problems_in(autograd.numpy)))
    if case.asks == JACOBIAN:
        by_argument = [autograd.jacobian(f, i) for i in case.wrt]
        return Call(lambda: tuple(jacobian(*case.args) for jacobian in by_argument), answers=tuple)
    together = autograd.make_vjp(f, case.wrt if len(case.wrt) > 1 else case.wrt[0])

    def gradients() -> Any:
        pullback, value = together(*case.args)
        found = pullback(np.ones_like(value))
        found = found if len(case.wrt) > 1 else (found,)
        return (*found, value) if case.asks == BOTH else found

    return Call(gradients, answers=tuple)


CONTENDERS = (
    Contender("JAX, jit", PEER, _jax_derivative, _jax_value, package="jax"),
    Contender("PyTorch", PEER, _torch_derivative, _torch_value, _takes, "torch"),
    Contender("autograd", PEER, _autograd_derivative, _autograd_value, _takes, "autograd"),
)
