"""Python's operators, by the names of the operations that they record.

Assumes a subclass with `_binary`, `_unary`, `_in_place`, a shape and item assignment. Guarantees that `0 + x` is x, as at the
start of `sum`, and that in-place operators change arrays and name numbers anew.
"""

from typing import Any

import numpy as np

from symdiff.errors import TraceError
from symdiff.vocabulary.heads import Shape
from symdiff.vocabulary.libraries import user_line
from symdiff.vocabulary.seams import Seam
from symdiff.vocabulary.signatures import Function

repetition = Seam("a list, tuple or text so many times")

_SEQUENCES = (list, tuple, str, bytes, bytearray)


def check_modulus(*operands: Any) -> None:
    """Refuse `pow(x, n, m)` of traced numbers."""
    raise TraceError(
        f"{user_line()}: pow({', '.join('xnm')}) with a modulus of a traced number; write x**n % m where x**n is below 2**53"
    )


def _left(op: str) -> Function:
    return lambda self, other: self._binary(op, self, other)


def _right(op: str) -> Function:
    """The method of the right operand."""
    return lambda self, other: self._binary(op, other, self)


def _both(op: str) -> tuple[Function, Function]:
    return _left(op), _right(op)


def _before(op: str) -> Function:
    return lambda self: self._unary(op)


def _changing(op: str) -> Function:
    return lambda self, other: self._in_place(op, other)


class Operators:
    """What stands left or right of an operator, or before it."""

    __slots__ = ()
    shape: Shape
    dtype: Any
    kind: Any

    def __radd__(self, other: Any) -> Any:
        if type(other) is int and other == 0 and self.dtype.kind not in "bc":
            return +self  # type: ignore[operator]  # the start of Python's sum(); 0 + z is not z where -0.0 is a part of it
        return self._binary("add", other, self)  # type: ignore[attr-defined]

    def __mul__(self, other: Any) -> Any:
        return self._times("mul", self, other)

    def __rmul__(self, other: Any) -> Any:
        return self._times("mul", other, self)

    def _times(self, op: str, left: Any, right: Any) -> Any:
        """A product; a list, tuple or text so many times, where an array takes a list as an array."""
        values = right if left is self else left
        if isinstance(values, _SEQUENCES) and not (self.kind.array or self.shape):
            return repetition(values, self)
        return self._binary(op, left, right)  # type: ignore[attr-defined]

    def __pow__(self, other: Any, modulo: Any = None) -> Any:
        if modulo is not None:
            check_modulus(self, other, modulo)
        return self._binary("pow", self, other)  # type: ignore[attr-defined]

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __matmul__(self, other: Any) -> Any:
        return np.matmul(self, other)  # type: ignore[call-overload]

    def __rmatmul__(self, other: Any) -> Any:
        return np.matmul(other, self)  # type: ignore[call-overload]

    __add__, __rpow__ = _left("add"), _right("pow")
    __sub__, __rsub__ = _both("sub")
    __truediv__, __rtruediv__ = _both("div")
    __floordiv__, __rfloordiv__ = _both("floordiv")
    __mod__, __rmod__ = _both("mod")
    __and__, __rand__ = _both("and")
    __or__, __ror__ = _both("or")
    __xor__, __rxor__ = _both("xor")
    __lshift__, __rlshift__ = _both("lshift")
    __rshift__, __rrshift__ = _both("rshift")
    __lt__, __le__, __gt__, __ge__, __eq__, __ne__ = map(_left, "lt le gt ge eq ne".split())
    __neg__, __abs__, __invert__ = map(_before, "neg abs not".split())
    __iadd__, __isub__, __imul__, __itruediv__, __ifloordiv__, __imod__, __ipow__, __imatmul__ = map(
        _changing, "add sub mul truediv floordiv mod pow matmul".split()
    )
    __iand__, __ior__, __ixor__, __ilshift__, __irshift__ = map(_changing, "and_ or_ xor lshift rshift".split())


def asked_first(cls: Any) -> Any:
    """A class whose objects are asked before a left operand of a class that it inherits from."""
    for name in "add sub mul truediv floordiv mod pow and or xor".split():
        setattr(cls, f"__r{name}__", _right({"truediv": "div"}.get(name, name)))
    return cls
