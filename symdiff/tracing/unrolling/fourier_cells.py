"""Fourier transforms of traced cells, written out: the heads `fft`, `bfft` and `rfft` in the unrolled regime.

Assumes an array of traced and plain numbers. Guarantees the transform by the mixed-radix recursion of Cooley and Tukey (Math.
Comp. 19, 1965), a matrix product for prime lengths.
"""

import cmath
import math
from typing import Any

import numpy as np

from symdiff.vocabulary.signatures import Function

_QUARTERS = (1, 1j, -1, -1j)


def unrolled_transform(sign: int, half: bool = False) -> Function:
    """The transform with exponents of a sign; `half`: only its numbers of frequency 0 to n//2."""

    def transformed(x: Any, axis: int) -> np.ndarray:
        lines = np.moveaxis(np.asarray(x, dtype=object), axis, -1)
        n = lines.shape[-1]
        found = np.empty((*lines.shape[:-1], n // 2 + 1 if half else n), dtype=object)
        for place in np.ndindex(lines.shape[:-1]):
            found[place] = _line(list(lines[place]), sign)[: found.shape[-1]]
        return np.moveaxis(found, -1, axis)

    return transformed


def _root(k: int, n: int, sign: int) -> complex:
    """exp(sign*2j*pi*k/n), its quarters exact."""
    quarter, rest = divmod(4 * (sign * k % n), n)
    return _QUARTERS[quarter] if not rest else cmath.exp(2j * math.pi * (sign * k % n) / n)


def _turned(x: Any, k: int, n: int, sign: int) -> Any:
    root = _root(k, n, sign)
    return x if root == 1 else -x if root == -1 else root * x


def _line(cells: list[Any], sign: int) -> list[Any]:
    n = len(cells)
    radix = next((p for p in range(2, math.isqrt(n) + 1) if n % p == 0), n)
    if radix == 2:
        even, odd = _line(cells[::2], sign), _line(cells[1::2], sign)
        odd = [_turned(x, k, n, sign) for k, x in enumerate(odd)]
        return [a + b for a, b in zip(even, odd, strict=True)] + [a - b for a, b in zip(even, odd, strict=True)]
    parts = [_line(cells[r::radix], sign) if radix < n else [cells[r]] for r in range(radix)]
    count = n // radix if n else 1
    found = []
    for k in range(n):
        terms = [_turned(part[k % count], r * k, n, sign) for r, part in enumerate(parts)]
        found.append(sum(terms[1:], start=terms[0]))
    return found


FOURIER_CELLS = {"fft": unrolled_transform(-1), "bfft": unrolled_transform(1), "rfft": unrolled_transform(-1, half=True)}
