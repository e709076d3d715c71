"""The gradient of the cubic by hand, as a list, for `native_batches.py`.

Assumes eight variables. Guarantees common parts named once. Refuses nothing.
"""

from typing import Any


def factored(x: Any) -> list[Any]:
    """The gradient as one would write it, common parts named."""
    x0, x1, x2, x3, x4, x5, x6, x7 = x
    a, b, c, d = x4 * x4, x5 * x5, x6 * x6, x7 * x7
    return [
        x5 * (3 * d - b), x6 * (3 * a - c), x7 * (d - 3 * b), x4 * (a - 3 * c),
        3 * (x3 * (a - c) + 2 * x1 * x4 * x6), 3 * (x0 * (d - b) - 2 * x2 * x5 * x7),
        3 * (x1 * (a - c) - 2 * x3 * x4 * x6), 3 * (x2 * (d - b) + 2 * x0 * x5 * x7),
    ]  # fmt: skip
