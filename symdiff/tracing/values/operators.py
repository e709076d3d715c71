"""Python's operators, by the names of the operations that they record.

Assumes a subclass with `_binary`, `_unary`, a shape and item assignment. Guarantees that `0 + x` is x, as at the start of
`sum`, and that in-place operators change arrays and name numbers anew.
"""

from typing import Any

import numpy as np

from symdiff.errors import TraceError
from symdiff.vocabulary.libraries import user_line
from symdiff.vocabulary.seams import Seam

repetition = Seam("a list, tuple or text so many times")

_SEQUENCES = (list, tuple, str, bytes, bytearray)


def check_modulus(*operands: Any) -> None:
    """Refuse `pow(x, n, m)` of traced numbers."""
    raise TraceError(
        f"{user_line()}: pow({', '.join('xnm')}) with a modulus of a traced number; write x**n % m where x**n is below 2**53"
    )


class Operators:
    """What stands left or right of an operator, or before it."""

    __slots__ = ()
    shape: tuple[int, ...]
    dtype: Any
    kind: Any

    def _binary(self, op: str, left: Any, right: Any) -> Any:
        raise NotImplementedError

    def _unary(self, op: str) -> Any:
        raise NotImplementedError

    def __add__(self, other: Any) -> Any:
        return self._binary("add", self, other)

    def __radd__(self, other: Any) -> Any:
        if type(other) is int and other == 0 and self.dtype.kind not in "bc":
            return +self  # the start of Python's sum(); 0 + z is not z where -0.0 is a part of it
        return self._binary("add", other, self)

    def __sub__(self, other: Any) -> Any:
        return self._binary("sub", self, other)

    def __rsub__(self, other: Any) -> Any:
        return self._binary("sub", other, self)

    def __mul__(self, other: Any) -> Any:
        return self._repeated(other) if isinstance(other, _SEQUENCES) else self._binary("mul", self, other)

    def __rmul__(self, other: Any) -> Any:
        return self._repeated(other) if isinstance(other, _SEQUENCES) else self._binary("mul", other, self)

    def _repeated(self, values: Any) -> Any:
        """A list, tuple or text so many times; an array takes a list as an array."""
        return self._binary("mul", values, self) if self.kind.array or self.shape else repetition(values, self)

    def __truediv__(self, other: Any) -> Any:
        return self._binary("div", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return self._binary("div", other, self)

    def __floordiv__(self, other: Any) -> Any:
        return self._binary("floordiv", self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._binary("floordiv", other, self)

    def __mod__(self, other: Any) -> Any:
        return self._binary("mod", self, other)

    def __rmod__(self, other: Any) -> Any:
        return self._binary("mod", other, self)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __pow__(self, other: Any, modulo: Any = None) -> Any:
        if modulo is not None:
            check_modulus(self, other, modulo)
        return self._binary("pow", self, other)

    def __rpow__(self, other: Any) -> Any:
        return self._binary("pow", other, self)

    def __matmul__(self, other: Any) -> Any:
        return np.matmul(self, other)  # type: ignore[call-overload]

    def __rmatmul__(self, other: Any) -> Any:
        return np.matmul(other, self)  # type: ignore[call-overload]

    def _in_place(self, op: str, other: Any) -> Any:
        raise NotImplementedError

    def __iadd__(self, other: Any) -> Any:
        return self._in_place("add", other)

    def __isub__(self, other: Any) -> Any:
        return self._in_place("sub", other)

    def __imul__(self, other: Any) -> Any:
        return self._in_place("mul", other)

    def __itruediv__(self, other: Any) -> Any:
        return self._in_place("truediv", other)

    def __ifloordiv__(self, other: Any) -> Any:
        return self._in_place("floordiv", other)

    def __imod__(self, other: Any) -> Any:
        return self._in_place("mod", other)

    def __ipow__(self, other: Any) -> Any:
        return self._in_place("pow", other)

    def __imatmul__(self, other: Any) -> Any:
        return self._in_place("matmul", other)

    def __iand__(self, other: Any) -> Any:
        return self._in_place("and_", other)

    def __ior__(self, other: Any) -> Any:
        return self._in_place("or_", other)

    def __ixor__(self, other: Any) -> Any:
        return self._in_place("xor", other)

    def __ilshift__(self, other: Any) -> Any:
        return self._in_place("lshift", other)

    def __irshift__(self, other: Any) -> Any:
        return self._in_place("rshift", other)

    def __neg__(self) -> Any:
        return self._unary("neg")

    def __abs__(self) -> Any:
        return self._unary("abs")

    def __lt__(self, other: Any) -> Any:
        return self._binary("lt", self, other)

    def __le__(self, other: Any) -> Any:
        return self._binary("le", self, other)

    def __gt__(self, other: Any) -> Any:
        return self._binary("gt", self, other)

    def __ge__(self, other: Any) -> Any:
        return self._binary("ge", self, other)

    def __eq__(self, other: Any) -> Any:  # type: ignore[override]
        return self._binary("eq", self, other)

    def __ne__(self, other: Any) -> Any:  # type: ignore[override]
        return self._binary("ne", self, other)

    def __and__(self, other: Any) -> Any:
        return self._binary("and", self, other)

    def __rand__(self, other: Any) -> Any:
        return self._binary("and", other, self)

    def __or__(self, other: Any) -> Any:
        return self._binary("or", self, other)

    def __ror__(self, other: Any) -> Any:
        return self._binary("or", other, self)

    def __xor__(self, other: Any) -> Any:
        return self._binary("xor", self, other)

    def __rxor__(self, other: Any) -> Any:
        return self._binary("xor", other, self)

    def __lshift__(self, other: Any) -> Any:
        return self._binary("lshift", self, other)

    def __rlshift__(self, other: Any) -> Any:
        return self._binary("lshift", other, self)

    def __rshift__(self, other: Any) -> Any:
        return self._binary("rshift", self, other)

    def __rrshift__(self, other: Any) -> Any:
        return self._binary("rshift", other, self)

    def __invert__(self) -> Any:
        return self._unary("not")
