"""What is derived: run by symdiff when files are made, never by users of the package."""

from typing import Any

import numpy as np

from .constants import LENGTH, STIFFNESS


def energy(x: Any) -> Any:
    """The energy of springs between neighbours on a line."""
    stretched = x[1:] - x[:-1] - LENGTH
    return 0.5 * STIFFNESS * np.sum(stretched**2)


def relaxed(x: Any) -> Any:
    """The energy with a soft floor."""
    return energy(x) + np.sum(np.log(1.0 + np.exp(-x)))
