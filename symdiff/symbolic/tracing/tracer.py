"""The Tracer: a stand-in for a number or an array that records what is done to it.

Assumes that the user's function runs in one thread at a time per trace. Guarantees that every operation becomes one
binding with NumPy's shape and dtype and the user's file:line. Refuses, with `TraceError`, what would need the value:
a key, a formatted text, compiled code.
"""

import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from symdiff.errors import TraceError, TruthError
from symdiff.symbolic.building import Builder, array_atom
from symdiff.symbolic.graph import ArrayConstant, Atom, Constant, Var
from symdiff.symbolic.tracing.attempt import current_reading, note_shown, note_stuck
from symdiff.symbolic.tracing.kinds import NUMPY, PYTHON, Kind, answered, asked, joined, kind_of
from symdiff.symbolic.tracing.libraries import short_name, short_names
from symdiff.symbolic.tracing.operators import Operators
from symdiff.symbolic.tracing.raising import awaits, check_operator


def user_line() -> str:
    """The "file.py:line" of the innermost frame outside symdiff and other libraries."""
    frame = sys._getframe(2)
    while frame is not None:
        path = frame.f_code.co_filename
        short = short_names.get(path)
        if short is None:
            short = short_name(path)
        if short:
            return f"{short}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return "?"


def is_traced(value: Any) -> bool:
    """Whether a value is traced, or an array of traced numbers."""
    return isinstance(value, Tracer) or (isinstance(value, np.ndarray) and value.dtype == object)


def builder_of(values: Any) -> Builder:
    """The innermost builder among the tracers in `values`."""
    found: Builder | None = None
    for value in values:
        if isinstance(value, Tracer) and (found is None or value.builder.level > found.level):
            found = value.builder
    if found is None:
        raise TraceError(f"{user_line()}: no traced value among the arguments")
    return found


def atom_of(value: Any, builder: Builder, origin: str) -> Atom:
    """A value as an operand: a symbol of this builder, a captured one of an enclosing trace, or a constant."""
    if isinstance(value, Tracer):
        return value.atom if value.builder is builder else _captured(value, builder, origin)
    if type(value) in (int, float, complex, bool):
        return Constant(value)
    if isinstance(value, (np.ndarray, np.generic)):
        if value.dtype == object:
            return array_of_objects(value, builder, origin)
        if value.dtype.kind not in "biufc":
            raise TraceError(f"{origin}: dtype {value.dtype} cannot be traced; use floating or complex numbers")
        reading = current_reading()
        if reading is not None and value.ndim:
            reading.meet(value)
        return array_atom(value)
    if isinstance(value, (list, tuple)):
        return array_of_objects(np.array(value, dtype=object), builder, origin)
    if isinstance(value, (float, int, complex)):
        return Constant(complex(value) if isinstance(value, complex) else value + 0)
    raise TraceError(f"{origin}: {type(value).__name__} cannot be combined with a traced value; numbers and NumPy arrays can")


def _captured(tracer: "Tracer", builder: Builder, origin: str) -> Var:
    parent = builder.parent
    while parent is not None and parent is not tracer.builder:
        parent = parent.parent
    if parent is None:
        raise TraceError(
            f"{origin}: a traced value from an earlier or a different call is used here; "
            "do not keep traced values in globals or attributes, return them instead"
        )
    symbol = builder.captures.get(tracer.atom)
    if symbol is None:
        symbol = builder.captures[tracer.atom] = builder.input(
            f"captured{len(builder.captures)}", tracer.shape, tracer.atom.dtype
        )
        builder.captured.append(tracer)
        if tracer.atom in tracer.builder.fixed:
            builder.fixed.add(symbol)
    return symbol


def need_contents(value: "Tracer") -> None:
    """A traced value is asked for what only its contents tell: one of captured arrays alone can tell them, see `reading`."""
    reading = current_reading()
    if reading is not None:
        reading.need(value)


def array_of_objects(cells: np.ndarray, builder: Builder, origin: str) -> Var | ArrayConstant:
    """An array of numbers and traced scalars (nested lists of them, equal-length arrays included) as one symbol."""
    flat = cells.ravel().tolist()
    if any(isinstance(c, (np.ndarray, Tracer)) and c.shape != () for c in flat):
        raise TraceError(f"{origin}: an array of arrays of different shapes; use np.stack or np.concatenate")
    atoms = [atom_of(c, builder, origin) for c in flat]
    if any(isinstance(a, Var) for a in atoms):
        codes = [a.dtype if a.dtype is not None else np.asarray(a.value).dtype.char for a in atoms]
        joined = np.result_type(*(np.dtype(c) for c in codes))
        shape = cells.shape
        code = joined.char if joined.char in "fdFD?" else "d"
        return builder.bind("array", tuple(atoms), shape, code, None, origin)
    return ArrayConstant(np.array([a.value for a in atoms]).reshape(cells.shape))


_UNFOLLOWED = "code that is not followed (compiled, eval, or an assignment into an array made elsewhere)"
_CELLS = 1_000  # cells of a captured array that become traced numbers each; beyond, it is a constant there
_NUMBER = "write it with NumPy or math, copy such an array with np.array(y), or keep the function opaque with sd.primitive"


class Tracer(Operators):
    """A traced scalar (shape ()) or array. Everything NumPy can do elementwise, and moving cells, is recorded."""

    __slots__ = ("__weakref__", "atom", "builder", "dtype", "kind", "shape")
    __array_priority__ = 1000.0

    def __init__(self, builder: Builder, atom: Var, kind: Kind = NUMPY) -> None:
        self.builder = builder
        self.atom = atom
        self.kind = kind
        self.shape: tuple[int, ...] = atom.shape
        self.dtype: Any = np.dtype(atom.dtype)

    def of_kind(self, kind: Kind) -> Any:
        """The same number as one of Python's, or NumPy's."""
        return (type(self) if self.whole else Tracer)(self.builder, self.atom, kind)

    def asked(self, question: Callable[[Any], Any]) -> Any:
        """What a question says of a value of this kind, dtype and shape."""
        return answered(question, self.dtype.char, self.shape, self.whole, self.kind)

    whole = False  # an integer

    def named(self) -> str:
        """The name of the type that the value has for Python."""
        return str(self.asked(lambda value: type(value).__name__))

    # -- operators

    def _binary(self, op: str, left: Any, right: Any) -> Any:
        if op in BITS or (op in ARITHMETIC and (self.dtype.char == "?" or type(left) is bool or type(right) is bool)):
            from symdiff.symbolic.tracing.truths import on_truths

            if all(isinstance(v, NUMBERS) for v in (left, right)):
                return on_truths(op, left, right, joined(kind_of(left), kind_of(right)))
        return record_on(op, left, right)

    def _unary(self, op: str) -> Any:
        if op in SIGNS and (self.dtype.char == "?" or op == "not"):
            from symdiff.symbolic.tracing.truths import signed

            return signed(op, self)
        return Tracer(self.builder, record(self.builder, op, (self.atom,), user_line()), self.kind)

    # -- what needs the value

    def _refuse(self, what: str, instead: str) -> TraceError:
        need_contents(self)
        return TraceError(f"{user_line()}: {what} needs the value of a traced argument; {instead}")

    def __hash__(self) -> int:
        note_stuck()
        raise self._refuse("a key of a dict or set, or hash(x),", "take a static key, such as an int")

    def __float__(self) -> float:
        note_stuck()
        raise self._refuse(_UNFOLLOWED, _NUMBER)

    def __complex__(self) -> complex:
        note_stuck()
        raise self._refuse(_UNFOLLOWED, _NUMBER)

    def __int__(self) -> int:
        from symdiff.symbolic.tracing.integers import as_int

        return as_int(self).__index__()  # type: ignore[no-any-return]

    def __index__(self) -> int:
        if self.dtype.kind == "b" and self.shape == ():
            if self.asked(lambda value: isinstance(value, np.generic)):
                raise TypeError(f"{user_line()}: {self.named()!r} object cannot be interpreted as an integer")
            return int(self)
        raise self._refuse("an index or range(x)", "write int(x), or pass the argument as an int, which is static")

    def __bool__(self) -> bool:
        origin = user_line()
        if self.size != 1:
            raise TruthError(f"{origin}: a condition on an array of shape {self.shape}; use np.any, np.all or np.where")
        need_contents(self)
        path = self.builder.path
        if path is None:
            raise self._refuse("a condition (if, while, and, or, min, max)", "use np.where, np.minimum, np.maximum, np.clip")
        one = self.reshape(()) if self.shape else self
        if not isinstance(one, Tracer):
            return bool(one)
        truth = one if one.dtype.char == "?" else one != 0
        return path.decide(truth.atom, origin)  # type: ignore[no-any-return]

    def __floor__(self) -> Any:
        return self._whole("floor")

    def __ceil__(self) -> Any:
        return self._whole("ceil")

    def __trunc__(self) -> Any:
        return self._whole("trunc")

    def _whole(self, op: str) -> Any:
        from symdiff.symbolic.tracing.integers import Integer

        return Integer.of(Tracer._unary(self, op).of_kind(PYTHON))

    def __round__(self, digits: int | None = None) -> Any:
        if self.asked(lambda value: not hasattr(value, "__round__")):
            raise TypeError(f"{user_line()}: type {self.named()} doesn't define __round__ method")
        if digits is None:
            return self._whole("rint")
        from symdiff.symbolic.tracing.builtin_functions import rounded

        return rounded(self, digits).of_kind(self.kind)

    def __format__(self, spec: str) -> str:
        if spec:
            raise self._refuse(f"a text with the number in the format {spec!r}", "leave it out; print(x) shows a traced value")
        return repr(self)

    @property
    def __cuda_array_interface__(self) -> Any:
        raise self._refuse("a function of CuPy's", "write np.sin, np.sum, ...: the derivative runs on CuPy arrays all the same")

    def __setitem__(self, key: Any, value: Any) -> None:
        from symdiff.symbolic.tracing.mutable import assign

        need_contents(self)
        assign(self, key, value)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        if self.dtype.kind == "b" and self.shape:
            note_stuck()  # a mask of an array made elsewhere, whose items a thorough run sees
        if dtype is not None and np.dtype(dtype).char != "O":
            note_stuck()
            raise self._refuse("conversion to a NumPy array of numbers", "leave the dtype out, or use np.stack")
        if self.size > _CELLS:
            need_contents(self)
        cells = np.empty(self.size, dtype=object)
        for i, cell in enumerate(self._line() if self.shape else [self]):
            cells[i] = cell
        cells = cells.reshape(self.shape)
        cells.flags.writeable = copy is True  # np.asarray would share memory: what is written there would be lost
        return cells

    def _line(self) -> Any:
        """The cells in one axis; no view that the user has made."""
        from symdiff.symbolic.arrays.algebra import Arrays

        atom = Arrays(self.builder, user_line()).reshape(self.atom, (self.size,))
        return self._like(atom) if isinstance(atom, Var) else atom.value

    def _like(self, atom: Var) -> Any:
        """A value of the same kind."""
        return Tracer(self.builder, atom)

    # -- arrays

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def T(self) -> Any:
        return np.transpose(self)  # type: ignore[call-overload]

    @property
    def real(self) -> Any:
        return self._unary("real") if self.dtype.kind == "c" else self

    @property
    def imag(self) -> Any:
        return self._unary("imag") if self.dtype.kind == "c" else self * 0.0

    @property
    def flat(self) -> Iterator[Any]:
        return iter(self.ravel())

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a traced scalar")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        if not self.shape:
            raise TypeError("iteration over a traced scalar")
        return (self[i] for i in range(self.shape[0]))

    def __getitem__(self, key: Any) -> Any:
        origin = user_line()
        if type(key) is int and len(self.shape) == 1:
            n = self.shape[0]
            if not -n <= key < n:
                raise IndexError(f"{origin}: index {key} is out of bounds for axis 0 with size {n}")
            atom = self.builder.bind("item", (self.atom,), (), self.dtype.char, key % n, origin)
            return Tracer(self.builder, atom)
        from symdiff.symbolic.tracing.functions import get_item

        return get_item(self, key, origin)

    def reshape(self, *shape: Any, **order: Any) -> Any:
        """The cells in another shape: `x.reshape(3, 1)` or `x.reshape((3, 1))`."""
        return np.reshape(self, shape[0] if len(shape) == 1 else shape, **order)  # type: ignore[call-overload]

    def transpose(self, *axes: Any) -> Any:
        """The axes in another order: `x.transpose(1, 0)` or `x.transpose((1, 0))`."""
        return np.transpose(self, (axes[0] if len(axes) == 1 else axes) or None)  # type: ignore[call-overload]

    def astype(self, dtype: Any, **_: Any) -> Any:
        """The value with another dtype."""
        if np.dtype(dtype).kind in "iu" and self.dtype.kind != "c":
            from symdiff.symbolic.tracing.integers import truncated

            return truncated(self)
        if np.dtype(dtype).kind == "b":
            return self if self.dtype.kind == "b" else self != 0
        char = np.dtype(dtype).char
        if char not in "fdFD" or (self.dtype.kind == "c" and char in "fd"):
            raise TraceError(f"{user_line()}: astype({dtype}) of a traced value of {self.dtype}; take x.real first")
        cast = self.builder.cast(self.atom, char)
        kind = NUMPY if self.kind.python else self.kind
        if self.shape and cast is self.atom:
            from symdiff.symbolic.tracing.whole import WholeMutable

            return WholeMutable.of(self.builder, cast, self.dtype)  # a copy, as NumPy's
        return Tracer(self.builder, cast, kind)  # type: ignore[arg-type]

    def copy(self) -> Any:
        """The same values in an array of its own, which can be assigned to."""
        from symdiff.symbolic.tracing.mutable import copied

        return copied(self) if self.shape else self

    def __copy__(self) -> Any:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Any:
        return self.copy()

    def flatten(self, order: str = "C") -> Any:
        """The cells in one axis, in memory of their own."""
        return np.ravel(self, order=order).copy() if self.shape else np.ravel(self)  # type: ignore[call-overload]

    def fill(self, value: Any) -> None:
        """Every cell gets the value."""
        self[...] = value

    def item(self, *index: int) -> Any:
        """One cell, as a number of Python's."""
        cell = self.ravel()[index[0] if index else 0] if self.shape else self
        return cell.of_kind(PYTHON) if isinstance(cell, Tracer) else cell

    def compress(self, condition: Any, axis: int | None = None) -> Any:
        """The cells, or lines along an axis, for which a constant condition holds."""
        return np.compress(condition, self, axis=axis)  # type: ignore[call-overload]

    def sort(self, axis: int = -1, kind: Any = None) -> None:
        """The cells in order, in place."""
        self[...] = np.sort(self, axis=axis)  # type: ignore[call-overload]

    def tolist(self) -> Any:
        """Nested lists of traced scalars."""
        return [row.tolist() for row in self] if self.shape else self.item()

    def __getattr__(self, name: str) -> Any:
        # NumPy calls x.exp() and its like on the cells of object arrays.
        if name.startswith("conj") and self.kind.python:
            return lambda: self._unary("conj") if self.dtype.kind == "c" else self
        if name in _METHODS or isinstance(getattr(np, name, None), np.ufunc):
            function = getattr(np, name)
            return lambda *args, **kwargs: function(self, *args, **kwargs)
        if name == "is_integer" and self.asked(lambda value: hasattr(value, name)):
            return lambda: (self == Tracer._unary(self, "trunc")) & np.isfinite(self)  # type: ignore[call-overload]
        if not name.startswith("__"):
            need_contents(self)
            if self.asked(lambda value: hasattr(value, name)):
                raise self._refuse(f".{name} of a {self.named()}", "write it with NumPy or math")
        raise AttributeError(f"{user_line()}: {self.named()!r} object has no attribute {name!r}")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        from symdiff.symbolic.tracing.functions import call_ufunc

        return call_ufunc(ufunc, method, inputs, kwargs, user_line())

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        from symdiff.symbolic.tracing.functions import call_function

        return call_function(function, args, kwargs, user_line())

    def __repr__(self) -> str:
        need_contents(self)
        if not note_shown() and short_name(sys._getframe(1).f_code.co_filename):
            note_stuck()
            raise self._refuse(
                "a text with the number, made here,", "make it with str(x) or an f-string, and print or raise it"
            )
        return f"<traced {self.atom.name} shape={self.shape} dtype={self.dtype}>"


_METHODS = frozenset(
    """
    sum prod mean dot ravel reshape transpose squeeze swapaxes conj conjugate cumsum cumprod trace diagonal
    clip min max take repeat var std round any all
    argmax argmin argsort argpartition choose compress nonzero ptp put searchsorted
    """.split()
)


NUMBERS = (Tracer, int, float, complex, np.ndarray, np.generic)
BITS = frozenset({"and", "or", "xor", "lshift", "rshift"})
ARITHMETIC = frozenset({"add", "sub", "mul", "div", "floordiv", "mod", "pow"})
SIGNS = frozenset({"neg", "pos", "abs", "not"})


def record_on(op: str, left: Any, right: Any, kind: Kind | None = None) -> Any:
    """An operator between two operands recorded; `NotImplemented` for operands that are no numbers."""
    origin = user_line()
    if isinstance(left, Tracer) and isinstance(right, Tracer) and left.builder is right.builder:
        builder = left.builder
        operands: tuple[Atom, ...] = (left.atom, right.atom)
        kind = kind or (left.kind if left.kind is right.kind and not left.kind.array else joined(left.kind, right.kind))
    else:
        own = [kind_of(value) for value in (left, right) if not isinstance(value, (list, tuple))]
        kind = kind or joined(*own)
        for value in (left, right):
            if isinstance(value, (list, tuple)) and not kind.python:
                asked(kind)
                continue
            if not isinstance(value, NUMBERS):
                if hasattr(value, "__cuda_array_interface__"):
                    raise TraceError(f"{origin}: a CuPy array beside a traced value; pass it as an argument")
                return NotImplemented
        builder = builder_of((left, right))
        operands = (atom_of(left, builder, origin), atom_of(right, builder, origin))
    found = Tracer(builder, record(builder, op, operands, origin), kind)
    if awaits():
        check_operator(op, left, right, found)
    return found


def record(builder: Builder, op: str, operands: tuple[Atom, ...], origin: str) -> Var:
    """An elementwise operation on operands of this builder."""
    return builder.emit(op, operands, None, origin)  # type: ignore[return-value]


IN_PLACE = frozenset({"copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask"})
VIEWS = frozenset(
    """
    getitem reshape ravel transpose squeeze expand_dims swapaxes moveaxis flip flipud fliplr rot90 broadcast_to atleast_1d
    atleast_2d diagonal
    """.split()
)
