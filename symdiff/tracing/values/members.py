"""What NumPy's arrays have, of a traced value: its shape, its parts, its cells in other shapes and orders.

Assumes a class with cells, a kind and a dtype (see `tracer`). Guarantees NumPy's views and copies. Refuses, with `TraceError`,
what reads the same bytes as other numbers.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from symdiff.errors import TraceError
from symdiff.ir.node import Atom, Constant
from symdiff.tracing.values.flat import Flat
from symdiff.tracing.values.kinds import PYTHON, example_of_form
from symdiff.tracing.values.layouts import traced_memory
from symdiff.tracing.values.operators import Operators
from symdiff.tracing.values.storage import Lens, View, memory_order, storage_memory
from symdiff.vocabulary.heads import Shape
from symdiff.vocabulary.libraries import user_line
from symdiff.vocabulary.seams import Seam

copy_of = Seam("a copy of an array")


class Members(Operators):
    """The attributes and methods of NumPy's arrays that are written with its functions."""

    __slots__ = ()

    @property
    def shape(self) -> Shape:
        return self._shape

    @shape.setter
    def shape(self, value: Any) -> None:
        found = np.reshape(self, value)  # type: ignore[call-overload]
        if found.held is None or found.held.storage is not self.shared().storage:
            raise TraceError(f"{user_line()}: this shape needs a copy; write y = y.reshape({value})")
        self._held, self._shape = found.held, found.shape

    @property
    def itemsize(self) -> int:
        return self.own_dtype().itemsize  # type: ignore[no-any-return]

    @property
    def nbytes(self) -> int:
        return self.size * self.itemsize

    @property
    def strides(self) -> Shape:
        lies = traced_memory(self)
        return tuple(step * self.itemsize // lies.itemsize for step in lies.strides)

    @property
    def flags(self) -> Any:
        return traced_memory(self).flags if self.has_memory() else self.dtype.type(0).flags

    @property
    def device(self) -> str:
        return "cpu"

    mT, T = property(lambda self: np.matrix_transpose(self)), property(lambda self: np.transpose(self))

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def real(self) -> Any:
        return self._part("real") if self.dtype.kind == "c" else self

    @real.setter
    def real(self, value: Any) -> None:
        self.real[...] = value

    @property
    def imag(self) -> Any:
        if self.dtype.kind == "c":
            return self._part("imag")
        self.asked(lambda value: type(value.imag))
        if (
            not self._shape and self.kind.python and _is_of_powers(self.atom)
        ):  # of negative numbers, which are complex in Python
            return np.where(np.isnan(self), self, 0.0).of_kind(self.kind)  # type: ignore[call-overload]
        return np.imag(
            np.broadcast_to(np.zeros((), self.form.whole or self.dtype), self.shape)
            if self.shape
            else example_of_form(self.form._replace(kind=self.settled().kind))
        )

    @imag.setter
    def imag(self, value: Any) -> None:
        if self.dtype.kind != "c":
            raise TraceError(
                f"{user_line()}: the imaginary part of real numbers is assigned to; make the array with dtype=complex"
            )
        self.imag[...] = value

    def _part(self, name: str) -> Any:
        """The real or imaginary part: of an array a view."""
        if not self.has_memory():
            return self._unary(name)
        axes = memory_order(self._place())
        if axes != tuple(range(self.ndim)):
            return np.transpose(np.transpose(self, axes)._part(name), tuple(map(axes.index, range(self.ndim))))
        shared = self.shared()  # in a round it is the round's from now on
        found = self._unary(name)

        def save(atom: Any) -> None:
            part = found.like(atom)
            self[...] = part + 1j * self.imag if name == "real" else self.real + 1j * part

        of = self._place()
        layout = storage_memory(of.shape, [2 * step for step in of.strides])
        lens = Lens(shared, (name,), self.shape, found.dtype.char, lambda: self._unary(name).atom, save, layout)
        return found.like(View.over(lens))

    @property
    def flat(self) -> Any:
        return Flat(self)

    @flat.setter
    def flat(self, value: Any) -> None:
        value = value.cells() if isinstance(value, Flat) else value
        if isinstance(value, Operators) and self._place().flags.f_contiguous and not value._place().flags.f_contiguous:
            value = value.copy()  # as NumPy's setter does
        self.flat[...] = value

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a traced scalar")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        if not self.shape:
            raise TypeError("iteration over a traced scalar")
        return (self[i] for i in range(self.shape[0]))

    def __contains__(self, value: Any) -> bool:
        if not self.shape:
            raise TypeError(f"{user_line()}: a traced scalar has no items to look through")
        return bool(np.any(self == value))

    def reshape(self, *shape: Any, **order: Any) -> Any:
        """The cells in another shape: `x.reshape(3, 1)` or `x.reshape((3, 1))`."""
        return np.reshape(self, shape[0] if len(shape) == 1 else shape, **order)  # type: ignore[call-overload]

    def transpose(self, *axes: Any) -> Any:
        """The axes in another order: `x.transpose(1, 0)` or `x.transpose((1, 0))`."""
        return np.transpose(self, (axes[0] if len(axes) == 1 else axes) or None)  # type: ignore[call-overload]

    def copy(self, order: str = "C") -> Any:
        """The same values in an array of its own, which can be assigned to."""
        return copy_of(self, np.copy(self._place(), order=order)) if self.has_memory() else self  # type: ignore[call-overload]

    def conj(self) -> Any:
        """The conjugate; real numbers are themselves, no copy of them."""
        return np.conj(self) if self.dtype.kind == "c" else self

    conjugate = conj

    def __deepcopy__(self, memo: Any = None) -> Any:
        return self.copy()

    __copy__ = __deepcopy__

    def flatten(self, order: str = "C") -> Any:
        """The cells in one axis, in memory of their own."""
        return np.ravel(self, order=order).copy()  # type: ignore[call-overload]

    def fill(self, value: Any) -> None:
        """Every cell gets the value."""
        self[...] = value

    def item(self, *index: Any) -> Any:
        """One cell, by its number or by an index for each axis; of a single one without: a number of Python's."""
        place = index[0] if len(index) == 1 and isinstance(index[0], tuple) else index
        if not place and self.size != 1:
            raise ValueError("can only convert an array of size 1 to a Python scalar")
        cell = self[tuple(place)] if len(place) > 1 else np.ravel(self)[place[0] if place else 0]  # type: ignore[call-overload]
        return cell.of_kind(PYTHON) if isinstance(cell, Operators) else cell.item() if isinstance(cell, np.generic) else cell

    def view(self, dtype: Any = None, type: Any = None) -> Any:
        """The same cells in another object."""
        if (dtype is not None and dtype is not np.ndarray and np.dtype(dtype) != self.dtype) or type not in (None, np.ndarray):
            raise TraceError(
                f"{user_line()}: x.view({dtype}) reads the same bytes as other numbers; take x.real, x.imag or x.astype"
            )
        return self[...] if self.has_memory() else self

    def partition(self, kth: Any, axis: int = -1, **options: Any) -> None:
        """The cells with the kth in its place, in place."""
        self[...] = np.partition(self, kth, axis=axis)  # type: ignore[call-overload]

    def compress(self, condition: Any, axis: int | None = None) -> Any:
        """The cells, or lines along an axis, for which a constant condition holds."""
        return np.compress(condition, self, axis=axis)  # type: ignore[call-overload]

    def sort(self, axis: int = -1, kind: Any = None) -> None:
        """The cells in order, in place."""
        self[...] = np.sort(self, axis=axis)  # type: ignore[call-overload]

    def tolist(self) -> Any:
        """Nested lists of traced scalars."""
        return [row.tolist() for row in self] if self.shape else self.item()


def _is_of_powers(atom: Atom) -> bool:
    """Whether a value is computed of powers that are no whole ones."""
    seen, waiting = set[Atom](), [atom]
    while waiting:
        found = waiting.pop()
        if found.op == "pow" and not (isinstance(found.operands[1], Constant) and float(found.operands[1].value).is_integer()):
            return True
        new = [o for o in found.operands if o not in seen]
        seen.update(new)
        waiting += new
    return False
