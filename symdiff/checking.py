"""Numerical checks of derivatives: the oracle is the function itself, never another formula.

Assumes a function that is smooth at the given point. Guarantees central differences along a random direction, compared
in forward and reverse mode and, with `order=2`, for the gradient's own derivative. Refuses, with `AssertionError`, a
derivative that differs by more than the tolerance.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from symdiff import structures, transforms


def check_grads(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int = 2,
    *,
    rtol: float = 1e-5,
    atol: float = 1e-7,
    seed: int = 0,
    **options: Any,
) -> None:
    """Compare jvp and vjp of f at `args`, and with `order=2` of its gradient, with central differences.

    Real arguments; every array or float argument is differentiated. `options` go to the transforms (`scalarize=False`
    checks the rules of whole arrays, for example). Raises `AssertionError` where they differ.

    >>> check_grads(lambda x: np.sin(x)*x, (0.7,))
    """
    argnums = tuple(i for i, a in enumerate(args) if not isinstance(a, (int, str, bool)))
    rng = np.random.default_rng(seed)
    points = [np.asarray(args[i], dtype=float) for i in argnums]
    direction = [rng.standard_normal(p.shape) for p in points]

    def value(step: float) -> list[np.ndarray]:
        moved = list(args)
        for i, point, d in zip(argnums, points, direction, strict=True):
            moved[i] = (point + step * d)[()]
        return [np.asarray(v) for v in structures.leaves(f(*moved))]

    step = 1e-6 * max(1.0, *(float(np.max(np.abs(p), initial=0.0)) for p in points))
    expected = [(hi - lo) / (2 * step) for hi, lo in zip(value(step), value(-step), strict=True)]
    chosen = [p[()] for p in points]
    full = list(args)
    for i, point in zip(argnums, chosen, strict=True):
        full[i] = point
    primal, tangent = transforms.jvp(f, argnums, **options)(*full, tuple(d[()] for d in direction))
    tangents = structures.leaves(tangent)
    for found, wanted in zip(tangents, expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=rtol, atol=atol, err_msg="jvp differs from central differences")
    leaves, tree = structures.flatten(primal)
    weights = [rng.standard_normal(np.shape(leaf))[()] for leaf in leaves]
    _, bars = transforms.vjp(f, argnums, **options)(*full, structures.unflatten(tree, weights))
    reverse = sum(float(np.sum(b * d)) for b, d in zip(bars, direction, strict=True))
    forward = sum(float(np.sum(w * t)) for w, t in zip(weights, tangents, strict=True))
    np.testing.assert_allclose(reverse, forward, rtol=rtol, atol=atol, err_msg="vjp and jvp disagree")
    if order > 1:

        def projected(*xs: Any) -> Any:
            value = f(*xs)
            return sum(np.sum(np.asarray(w) * v) for w, v in zip(weights, structures.leaves(value), strict=True))

        slopes = transforms.grad(projected, argnums, **options)
        check_grads(slopes, args, order - 1, rtol=rtol * 10, atol=atol * 10, seed=seed + 1, **options)
