"""`x.flat`: the cells of an array in one axis.

Assumes a traced array. Guarantees NumPy's iterator, whose items are numbers and whose slices are copies. Refuses places out of
bounds, with `IndexError`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from symdiff.errors import TraceError
from symdiff.tracing.values.operators import Operators
from symdiff.vocabulary.libraries import user_line


@dataclass(eq=False, slots=True)
class Flat:
    """`x.flat`: the cells in one axis, to read, to loop over and to assign to."""

    _array: Any

    def __len__(self) -> int:
        return self._array.size

    def __iter__(self) -> Iterator[Any]:
        return (self[k] for k in range(len(self)))

    def __next__(self) -> Any:
        raise TraceError(
            f"{user_line()}: next() of x.flat, which counts its own steps; write cells = iter(x.flat), and next(cells)"
        )

    def __getitem__(self, key: Any) -> Any:
        x = self._array
        found = (np.ravel(x) if x.ndim != 1 else x)[key]  # type: ignore[call-overload]
        return found.copy() if isinstance(found, Operators) else found

    def __setitem__(self, key: Any, value: Any) -> None:
        x = self._array
        try:
            chosen = np.arange(x.size)[key]
        except IndexError as error:
            raise IndexError(f"{user_line()}: {error}") from None
        value = value.cells() if isinstance(value, Flat) else value
        if not chosen.shape and np.ndim(value):
            raise ValueError(f"{user_line()}: an array for one cell")
        if np.size(value) != 1:
            if not np.size(value):
                return
            if isinstance(value, Operators) and value.dtype == x.dtype and x.shared().overlaps(value.shared()):
                for k, number in enumerate(chosen.ravel()):  # each is read after the ones before were written
                    x[np.unravel_index(number, x.shape)] = value[np.unravel_index(k % value.size, value.shape)]
                return
            value = np.resize(np.ravel(value), chosen.shape)  # type: ignore[call-overload]
        if x.shape == ():
            x[...] = np.ravel(value)[0]  # type: ignore[call-overload]
            return
        x[np.unravel_index(chosen, x.shape)] = value

    def cells(self) -> Any:
        """The cells as NumPy's functions take them: a view where they lie in a row."""
        return np.ravel(self._array)  # type: ignore[call-overload]

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.copy().__array__(dtype, copy)

    def copy(self) -> Any:
        """The cells in memory of their own."""
        return self[:]
