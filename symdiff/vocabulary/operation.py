"""What one operation is: the type of the rows of the vocabulary.

Assumes nothing. Guarantees that every spelling of an operation stands in its row. Refuses, with `MissingPackageError`,
to compute a special function where SciPy is not installed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from symdiff.errors import MissingPackageError


@dataclass(frozen=True, slots=True)
class Op:
    """One operation. `result` is "same" (the operands' common dtype), "bool", "real" or "complex" (its counterparts).

    `numpy` is the name of the NumPy function, or `special.name` of SciPy's, whose `item` picks one of several results.
    `python` and `python_complex` are expression templates over already parenthesised operands, None where the plain
    language has none. `c` and `cuda` are function names of C99 and CUDA. `real_only`: no kernel for complex numbers.
    `counts`: the kernel takes its first operand as an integer. `traits`: what else is known of it, in words of `TRAITS`.
    """

    name: str
    arity: int
    numpy: str
    python: str | None
    python_complex: str | None = None
    commutes: bool = False
    result: str = "same"
    cost: int = 1
    item: int | None = None
    real_only: bool = False
    counts: bool = False
    c: str | None = None
    cuda: str | None = None
    traits: str = ""

    @property
    def is_special(self) -> bool:
        """Whether SciPy computes it."""
        return self.numpy.startswith("special.")

    @property
    def cuda_name(self) -> str | None:
        """The CUDA function, which is C's where nothing else is said."""
        return self.cuda or self.c

    @property
    def takes_out(self) -> bool:
        """Whether the NumPy function is a ufunc with one result, so that it writes into a given array."""
        return self.item is None and self.name not in ("polygamma", "zeta")

    def spelled(self, *operands: str) -> str:
        """The call as NumPy text: `np.sin(x)`, `special.airy(x)[0]`."""
        module = "" if self.is_special else "np."
        if self.counts:
            operands = (f"np.asarray({operands[0]}).astype(int)", *operands[1:])
        return f"{module}{self.numpy}({', '.join(operands)})" + ("" if self.item is None else f"[{self.item}]")

    def function(self) -> Callable[..., Any]:
        """The function that computes it with NumPy or SciPy. Raises `MissingPackageError` without SciPy."""
        if self.name == "edge":
            return lambda x: np.multiply(x, 0.0)
        function = getattr(scipy_special(), self.numpy.partition(".")[2]) if self.is_special else getattr(np, self.numpy)
        item = self.item
        if self.counts:
            return lambda n, *rest: function(np.asarray(n).astype(int), *rest)
        return function if item is None else lambda *operands: function(*operands)[item]


def scipy_special() -> Any:
    """The module `scipy.special`; raises `MissingPackageError` with the command that installs it."""
    try:
        from scipy import special  # type: ignore[import-untyped]
    except ImportError:
        raise MissingPackageError("special functions need SciPy: pip install 'symdiff[special]'") from None
    return special
