"""Numerical checks of derivatives: the oracle is the function itself, never another formula.

Assumes a function that is smooth at the given point. Guarantees central differences along a random direction, compared
in forward and reverse mode and, with `order=2`, for the gradient's own derivative. Refuses, with `AssertionError`, a
derivative that differs by more than the tolerance.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from symdiff.api import transforms
from symdiff.api.arguments import is_differentiable_argument, is_integer_argument
from symdiff.api.expressions import argument_function
from symdiff.vocabulary import structures
from symdiff.vocabulary.choices import COMMON, check_options


def in_gradient_check(leaf: Any) -> bool:
    """Whether a leaf of an argument is differentiated by floats."""
    return is_differentiable_argument(leaf) and not is_integer_argument(leaf)


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

    Real arguments: every float and every array of floats in them is differentiated, in containers, dataclasses and
    registered types too. `options` go to the transforms (`scalarize=False` checks the rules of whole arrays, for example).
    Raises `AssertionError` where they differ, `ValueError` where there is nothing to differentiate.

    >>> check_grads(lambda x: np.sin(x)*x, (0.7,))
    """
    f = argument_function(f)
    own = {"order": order, "rtol": rtol, "atol": atol, "seed": seed}
    check_options("check_grads", own | options, [*own, *COMMON])
    leaves, tree = structures.flatten(tuple(args), none_is_leaf=True)
    moving = [in_gradient_check(leaf) for leaf in leaves]
    argnums = tuple(i for i, arg in enumerate(args) if any(map(in_gradient_check, structures.leaves(arg, none_is_leaf=True))))
    if not argnums:
        raise ValueError("check_grads: no argument holds a float or an array of floats")
    rng = np.random.default_rng(seed)
    points = [np.asarray(leaf, dtype=float)[()] if m else leaf for leaf, m in zip(leaves, moving, strict=True)]
    direction = [rng.standard_normal(np.shape(p))[()] if m else None for p, m in zip(points, moving, strict=True)]

    def moved(step: float) -> Any:
        return structures.unflatten(tree, [p if d is None else p + step * d for p, d in zip(points, direction, strict=True)])

    step = 1e-6 * max(1.0, *(float(np.max(np.abs(p), initial=0.0)) for p, m in zip(points, moving, strict=True) if m))
    high, low = (structures.leaves(f(*moved(s))) for s in (step, -step))
    expected = [(np.asarray(b) - a) / (2 * step) for a, b in zip(low, high, strict=True)]
    full, tangents_in = structures.unflatten(tree, points), structures.unflatten(tree, direction)
    primal, tangent = transforms.jvp(f, argnums, **options)(*full, tuple(tangents_in[i] for i in argnums))
    tangents = structures.leaves(tangent)
    for found, wanted in zip(tangents, expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=rtol, atol=atol, err_msg="jvp differs from central differences")
    values, out_tree = structures.flatten(primal)
    weights = [rng.standard_normal(np.shape(value))[()] for value in values]
    _, bars = transforms.vjp(f, argnums, **options)(*full, structures.unflatten(out_tree, weights))
    along = structures.leaves(tuple(tangents_in[i] for i in argnums), none_is_leaf=True)
    pairs = zip(structures.leaves(bars, none_is_leaf=True), along, strict=True)
    reverse = sum(float(np.sum(b * d)) for b, d in pairs if d is not None)
    forward = sum(float(np.sum(w * t)) for w, t in zip(weights, tangents, strict=True))
    np.testing.assert_allclose(reverse, forward, rtol=rtol, atol=atol, err_msg="vjp and jvp disagree")
    if order > 1:

        def slopes(*xs: Any) -> Any:
            _, bars = transforms.vjp(f, argnums, **options)(*xs, structures.unflatten(out_tree, weights))
            return [leaf for leaf in structures.leaves(bars) if in_gradient_check(leaf)]

        check_grads(slopes, args, order - 1, rtol=rtol * 10, atol=atol * 10, seed=seed + 1, **options)
