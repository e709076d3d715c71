"""Whole arrays: value and gradient against derivatives written by hand, and against packages that happen to be installed.

Assumes float64. Guarantees that every answer is checked against the one written by hand before it is timed, and that all
candidates of a row take turns. Refuses nothing: packages that are not installed are left out.
"""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import symdiff as sd
from benchmarks import timing
from benchmarks.tables import rosenbrock_gradient


@dataclass(frozen=True, slots=True)
class Problem:
    """A function of arrays in the words of NumPy (`np` is passed as its first argument), and its derivative by hand.

    `wrt` are the positions of the arguments that are differentiated.
    """

    name: str
    f: Callable[..., Any]
    args: tuple[Any, ...]
    by_hand: Callable[..., Any]
    wrt: tuple[int, ...] = (0,)
    with_value: bool = True


def rosenbrock(xp: Any, x: Any) -> Any:
    """Rosenbrock's function by slices."""
    return xp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def layer(xp: Any, W: Any, b: Any, X: Any) -> Any:
    """The sum of a layer's activations."""
    return xp.sum(xp.tanh(W @ X + b))


def layer_by_hand(W: Any, b: Any, X: Any) -> Any:
    """Value and gradients of the layer by W and b."""
    activations = np.tanh(W @ X + b)
    slopes = 1 - activations * activations
    return activations.sum(), slopes @ X.T, slopes.sum(1, keepdims=True)


def summed_product(xp: Any, W: Any, X: Any) -> Any:
    """The sum of all cells of a product of matrices."""
    return xp.sum(W @ X)


def summed_product_by_hand(W: Any, X: Any) -> Any:
    """Its gradients need no product of matrices."""
    return np.tile(X.sum(1), (len(W), 1)), np.tile(W.sum(0)[:, None], (1, X.shape[1]))


def trace(xp: Any, A: Any, B: Any) -> Any:
    """The trace of a product of matrices."""
    return xp.trace(A @ B)


def trace_by_hand(A: Any, B: Any) -> Any:
    """The gradients are the transposed factors."""
    return B.T.copy(), A.T.copy()


def mixture(xp: Any, alpha: Any, mu: Any, scale: Any, X: Any) -> Any:
    """The log likelihood of a mixture of Gaussians with diagonal scales, up to a constant."""
    y = (X[:, None, :] - mu) * xp.exp(scale)
    inner = alpha + xp.sum(scale, 1) - 0.5 * xp.sum(y * y, 2)
    top = xp.max(inner, 1, keepdims=True)
    ends = xp.max(alpha)
    return xp.sum(xp.log(xp.sum(xp.exp(inner - top), 1)) + top[:, 0]) - len(X) * (xp.log(xp.sum(xp.exp(alpha - ends))) + ends)


def mixture_by_hand(alpha: Any, mu: Any, scale: Any, X: Any) -> Any:
    """Value and gradients by weights, means and scales."""
    factors = np.exp(scale)
    y = (X[:, None, :] - mu) * factors
    inner = alpha + scale.sum(1) - 0.5 * (y * y).sum(2)
    top = inner.max(1, keepdims=True)
    parts = np.exp(inner - top)
    totals = parts.sum(1, keepdims=True)
    p = parts / totals
    ends = alpha.max()
    weights = np.exp(alpha - ends)
    value = np.sum(np.log(totals) + top) - len(X) * (np.log(weights.sum()) + ends)
    weighted = p[:, :, None] * y
    by_scale = p.sum(0)[:, None] - (weighted * y).sum(0)
    return value, p.sum(0) - len(X) * weights / weights.sum(), weighted.sum(0) * factors, by_scale


def problems(quick: bool) -> list[Problem]:
    """All problems with their arguments."""
    rng = np.random.default_rng(0)
    sizes = (10**3, 10**4) if quick else (10**3, 10**4, 10**5, 10**6, 10**7)
    found = [
        Problem(f"Rosenbrock by slices, n = {n:,}", rosenbrock, (np.arange(1, n + 1) / n,), rosenbrock_gradient) for n in sizes
    ]
    W, b, X = rng.standard_normal((256, 512)) / 20, rng.standard_normal((256, 1)), rng.standard_normal((512, 128))
    found.append(Problem("layer 256 x 512 x 128, by W and b", layer, (W, b, X), layer_by_hand, (0, 1)))
    found.append(Problem("sum(W X), gradients", summed_product, (W, X), summed_product_by_hand, (0, 1), with_value=False))
    A, B = rng.standard_normal((512, 512)), rng.standard_normal((512, 512))
    found.append(Problem("trace(A B), 512 x 512, gradients", trace, (A, B), trace_by_hand, (0, 1), with_value=False))
    points, scale = rng.standard_normal((1000, 10)), rng.standard_normal((25, 10)) / 10
    args = (rng.standard_normal(25), rng.standard_normal((25, 10)), scale, points)
    found.append(Problem("mixture of 25 Gaussians, 1000 points of 10", mixture, args, mixture_by_hand, (0, 1, 2)))
    return found


def _symdiff(problem: Problem) -> timing.Candidates:
    def f(*args: Any) -> Any:
        return problem.f(np, *args)

    transform = sd.value_and_grad if problem.with_value else sd.grad
    made = transform(f, problem.wrt)
    gradients = tuple(np.empty_like(problem.args[i]) for i in problem.wrt)
    out = (np.empty(()), gradients) if problem.with_value else gradients

    def flat(answer: Any) -> Any:
        return (answer[0], *answer[1]) if problem.with_value else answer

    return {"symdiff": lambda: flat(made(*problem.args)), "symdiff, out=": lambda: flat(made(*problem.args, out=out))}


def _autograd(problem: Problem) -> timing.Candidates:
    import autograd
    import autograd.numpy as anp

    def f(*args: Any) -> Any:
        return problem.f(anp, *args)

    made = (autograd.value_and_grad if problem.with_value else autograd.grad)(f, problem.wrt)

    def flat() -> Any:
        answer = made(*problem.args)
        return (answer[0], *answer[1]) if problem.with_value else answer

    return {"autograd": flat}


def _jax(problem: Problem) -> timing.Candidates:
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    made = jax.jit((jax.value_and_grad if problem.with_value else jax.grad)(lambda *a: problem.f(jnp, *a), problem.wrt))
    args = tuple(jnp.asarray(a) for a in problem.args)

    def flat() -> Any:
        answer = jax.block_until_ready(made(*args))
        return (answer[0], *answer[1]) if problem.with_value else answer

    return {"JAX, jit": flat}


class _TorchWords:
    """The words of NumPy that the problems use, in PyTorch's."""

    def __init__(self) -> None:
        import torch

        self.torch = torch
        self.tanh, self.exp, self.log, self.trace = torch.tanh, torch.exp, torch.log, torch.trace

    def sum(self, x: Any, axis: Any = None) -> Any:
        return self.torch.sum(x) if axis is None else self.torch.sum(x, axis)

    def max(self, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        return self.torch.max(x) if axis is None else self.torch.amax(x, axis, keepdim=keepdims)


def _torch(problem: Problem) -> timing.Candidates:
    words = _TorchWords()
    args = [words.torch.tensor(a, requires_grad=i in problem.wrt) for i, a in enumerate(problem.args)]
    leaves = [args[i] for i in problem.wrt]

    def flat() -> Any:
        value = problem.f(words, *args)
        gradients = [g.numpy() for g in words.torch.autograd.grad(value, leaves)]
        return [float(value.detach()), *gradients] if problem.with_value else gradients

    return {"PyTorch": flat}


PEERS = {"jax": _jax, "torch": _torch, "autograd": _autograd}


def table(quick: bool, rounds: int) -> str:
    """A row for each problem: the time of f, and of value and gradient by each candidate, with ratios to the one by hand."""
    peers = [name for name in PEERS if importlib.util.find_spec(name) is not None]
    labels = {"jax": "JAX, jit", "torch": "PyTorch", "autograd": "autograd"}
    columns = ["by hand", "symdiff", "symdiff, out=", *(labels[p] for p in peers)]
    heads = ["problem", "f", *(c if c == "by hand" else f"{c} (to by hand)" for c in columns), "symdiff out= to f"]
    lines = [f"| {' | '.join(heads)} |", f"| {' | '.join('---' for _ in heads)} |"]
    for problem in problems(quick):
        candidates: timing.Candidates = {"by hand": lambda problem=problem: problem.by_hand(*problem.args)}
        candidates |= _symdiff(problem)
        for name in peers:
            candidates |= PEERS[name](problem)
        timing.checked(candidates, problem.by_hand(*problem.args), 1e-7)
        times = timing.medians(candidates | {"f": lambda problem=problem: problem.f(np, *problem.args)}, rounds)
        cells = [timing.shown(times["f"])]
        for column in columns:
            text = timing.shown(times[column])
            cells.append(text if column == "by hand" else f"{text} ({times[column] / times['by hand']:.2f})")
        lines.append(f"| {problem.name} | {' | '.join(cells)} | {times['symdiff, out='] / times['f']:.2f} |")
    return "\n".join(lines)


def layer_floor(rounds: int) -> str:
    """The layer against what it cannot do without: two products of matrices, one tanh pass, one pass over the activations."""
    problem = next(p for p in problems(True) if p.f is layer)
    W, _, X = problem.args
    product, gradient = np.empty((256, 128)), np.empty_like(W)

    def floor() -> Any:
        np.matmul(W, X, out=product)
        np.tanh(product, out=product)
        np.multiply(product, product, out=product)
        np.matmul(product, X.T, out=gradient)

    times = timing.medians({"symdiff": _symdiff(problem)["symdiff, out="], "floor": floor}, rounds)
    return (
        f"The layer's value and gradient with `out=` take {times['symdiff'] / times['floor']:.2f} times two such products, "
        "one tanh pass and one pass over the activations, all into arrays made before."
    )
