"""Forces of the chain, and a few steps downhill."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from springs.energy_grad import energy_value_and_grad
from springs.energy_plain import energy_value_and_grad as plain_value_and_grad
from springs.relaxed_hessian import relaxed_hessian


def forces(x: ArrayLike) -> NDArray[np.float64]:
    """The force on each end of a spring."""
    _, slope = energy_value_and_grad(x)
    return -slope


def settled(x: list[float], steps: int = 100) -> tuple[float, list[float]]:
    """The energy and the places after some steps downhill, without NumPy."""
    value, slope = plain_value_and_grad(x)
    for _ in range(steps):
        x = [a - 0.1 * b for a, b in zip(x, slope, strict=True)]
        value, slope = plain_value_and_grad(x)
    return value, x


def stiffness(x: ArrayLike) -> NDArray[np.float64]:
    """The second derivatives of the energy with a floor."""
    return relaxed_hessian(x)
