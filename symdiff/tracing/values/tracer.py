"""The Tracer: a stand-in for a number or an array that records what is done to it.

Assumes that the user's function runs in one thread at a time per trace. Guarantees that every operation becomes one
binding with NumPy's shape and dtype and the user's file:line. Refuses, with `TraceError`, what would need the value:
a key, a formatted text, compiled code.
"""

import abc
import functools
import operator
import sys
import types
import typing
import weakref
from fractions import Fraction
from typing import Any

import numpy as np

from symdiff.errors import TraceError, TruthError
from symdiff.ir.arrays.algebra import Arrays
from symdiff.ir.building import Builder, active_builders, array_atom
from symdiff.ir.node import ArrayConstant, Atom, Constant, Node
from symdiff.rulebooks.book import functions_instead
from symdiff.tracing.state.attempt import (
    awaits,
    current,
    current_reading,
    given_argument,
    need_contents,
    note_kinds,
    note_shown,
    note_stuck,
)
from symdiff.tracing.state.raising import may_catch
from symdiff.tracing.values.kinds import (
    ARRAY,
    NUMPY,
    PYTHON,
    SCALARS,
    Form,
    Kind,
    answered,
    integers_held,
    note_integers,
)
from symdiff.tracing.values.layouts import in_traced_order, lying_as, traced_memory
from symdiff.tracing.values.members import Members
from symdiff.tracing.values.runs import array_of_cells
from symdiff.tracing.values.storage import Storage, View, root_of, storage_cells, storage_memory
from symdiff.vocabulary.heads import Shape
from symdiff.vocabulary.libraries import is_compiled_library, is_library, is_numpys, name_unless_library, user_line
from symdiff.vocabulary.plain import check_digits, check_plain, own_class
from symdiff.vocabulary.seams import Seam
from symdiff.vocabulary.signatures import Function, Lookup

whole_number = Seam("a traced number as an integer")
integer_of = Seam("the integer that a traced number stands for")
truncation = Seam("a traced number without its fraction")
kind_after = Seam("the kind of what an operator gives")
rounded_value = Seam("a traced number rounded to digits")
assigned = Seam("an assignment to cells")
item_of = Seam("an item of an array")
ufunc_called = Seam("a ufunc of traced values")
function_called = Seam("a function of traced values")


def is_traced(value: Any) -> bool:
    """Whether a value is traced, or an array of traced numbers."""
    return isinstance(value, Tracer) or (isinstance(value, np.ndarray) and value.dtype == object)


def traced_builder(values: Any) -> Builder:
    """The innermost builder among the tracers in `values`."""
    found: Builder | None = None
    for value in values:
        if isinstance(value, Tracer) and (found is None or value.builder.level > found.level):
            found = value.builder
    if found is None:
        raise TraceError(f"{user_line()}: no traced value among the arguments")
    return found


def home_builder(builder: Builder) -> Builder:
    """Where memory is made for values of a builder: in the round of a loop, where one runs."""
    inner = active_builders()[-1] if active_builders() else builder
    return inner if inner.level > builder.level and inner.path is not None and inner.path.is_round else builder


def is_in_rounds() -> bool:
    """Whether a round of a loop is under way behind which exceptions are raised."""
    path = active_builders()[-1].path if active_builders() else None
    return path is not None and path.is_round and not awaits()


def raises_behind(condition: Any, error: Exception) -> bool:
    """Raise an exception where a condition holds; or, in a round of a loop, whether its values are taken where it does not
    hold alone, and the exception is raised behind the loop.
    """
    if isinstance(condition, Tracer) and is_in_rounds():
        return active_builders()[-1].path.loop.raises(np.any(condition), error)  # type: ignore[no-any-return, union-attr]
    if np.any(condition):
        raise error
    return False


def traced_atom(value: Any, builder: Builder, origin: str, rounds: bool = False) -> Atom:
    """A value as an operand: a symbol of this builder, a captured one of an enclosing trace, or a constant. Integers that no
    double holds are operands of what `rounds` them, as NumPy and Python do beside floating-point numbers.
    """
    if isinstance(value, Tracer):
        return value.atom if value.builder is builder else _captured(value, builder, origin)
    if not rounds:
        check_digits(origin, value)
    if type(value) in PLAIN_NUMBERS:
        return Constant(value)
    check_plain(origin, value)
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
        return Constant(complex(value) if isinstance(value, complex) else int(value) if isinstance(value, int) else value + 0)
    if isinstance(value, Fraction):
        return Constant(float(value))
    raise TraceError(f"{origin}: {type(value).__name__} cannot be combined with a traced value; numbers and NumPy arrays can")


def _captured(tracer: "Tracer", builder: Builder, origin: str) -> Node:
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
        builder.captured.append(Tracer(tracer.builder, tracer.atom))
        note_integers(symbol, tracer.integers_held())
        if tracer.atom in tracer.builder.fixed:
            builder.fixed.add(symbol)
    return symbol


def array_of_objects(cells: np.ndarray, builder: Builder, origin: str) -> Atom:
    """An array of numbers and traced scalars (nested lists of them, equal-length arrays included) as one symbol."""
    flat = cells.ravel().tolist()
    if any(isinstance(c, (np.ndarray, Tracer)) and c.shape != () for c in flat):
        raise TraceError(f"{origin}: an array of arrays of different shapes; use np.stack or np.concatenate")
    atoms = [traced_atom(c, builder, origin) for c in flat]
    if cells.shape == ():
        return atoms[0]
    codes = [np.asarray(a.value).dtype.char if a.dtype is None else a.dtype for a in atoms]
    joined = np.result_type(*codes) if codes else np.dtype(float)
    if any(a.op != "const" for a in atoms):
        code = joined.char if joined.char in "fdFD?" else "d"
        return array_of_cells(builder, atoms, cells.shape, code, origin)
    return ArrayConstant(np.array([a.value for a in atoms], joined).reshape(cells.shape))


_UNFOLLOWED = "code that is not followed (compiled, eval, or an assignment into an array made elsewhere)"
_CALLERS = "the caller's own array is assigned to; take a copy first: x = x.copy()"
_ASKING_FOR_OTHERS = frozenset(
    f.__code__.co_filename for f in (abc.ABCMeta.__instancecheck__, functools.singledispatch, typing.runtime_checkable)
)  # of libraries that ask what their caller asks
_CELLS = 1_000  # cells of a captured array that become traced numbers each; beyond, it is a constant there
_NUMBER = "write it with NumPy or math, copy such an array with np.array(y), or keep the function opaque with sd.primitive"


@functools.cache
def _method(name: str) -> Function:
    """The method of arrays that NumPy's function of this name stands for."""
    function = getattr(np, name)

    def method(x: Any, *args: Any, **kwargs: Any) -> Any:
        return function(x, *args, **kwargs)

    method.__name__ = name
    return method


def _number_as(kind: type) -> Function:
    """The method by which Python asks for a number of its own."""

    def number(self: Any) -> Any:
        known = self._constant()
        if known is not None:
            return kind(known)
        note_stuck()
        raise self._refuse(_UNFOLLOWED, _NUMBER)

    return number


class Tracer(Members):
    """A traced scalar (shape ()) or array. Everything NumPy can do elementwise, and moving cells, is recorded."""

    __slots__ = ("__weakref__", "_dtype", "_held", "_shape", "_value", "builder", "kind")
    __array_priority__ = 1000.0

    def __init__(self, builder: Builder, atom: Node, kind: Kind = NUMPY) -> None:
        self.builder = builder
        self._value: Any = atom
        self._held: View | None = None
        self.kind = kind
        self._shape: Shape = atom.shape
        self._dtype: Any = np.dtype(atom.dtype)

    @classmethod
    def showing(cls, builder: Builder, view: View, dtype: Any) -> Any:
        """The cells that a view shows."""
        self = object.__new__(cls)
        self.builder = builder
        self._value = None
        self._held = view
        self.kind = ARRAY
        self._shape = view.place.shape
        self._dtype = dtype
        return self

    @classmethod
    def argument(cls, builder: Builder, symbol: Node, kind: Kind = ARRAY, strides: Shape = ()) -> "Tracer":
        """A value of the caller's, which is not assigned to; its `strides` as `traced_order` tells them."""
        self = cls(builder, symbol, kind)
        if strides:
            like = storage_memory(symbol.shape, strides)
            self._held = storage_cells(builder, symbol, self.dtype.char, like, user_line(), _CALLERS)
        elif symbol.shape:
            self._held = View.over(Storage(builder, symbol, self.dtype.char, _CALLERS))
        return self

    def given_as(self, dtype: Any) -> None:
        """The function sees this dtype, whose bytes stand in another order."""
        self._dtype = dtype

    def of_kind(self, kind: Kind) -> Any:
        """The same number as one of Python's, which are of double precision, or NumPy's."""
        wide = _WIDE.get(self.dtype.char) if kind.python and not kind.several else None
        atom = self.atom if wide is None else self.builder.cast(self.atom, wide)
        found = (type(self) if self.whole else Tracer)(self.builder, atom, kind)
        if kind.array and not kind.several:
            found.shared()  # it has memory, as an array of any shape
        return found

    @property
    def form(self) -> Form:
        """What the value is for Python."""
        return Form(self._dtype.char, self.own_dtype().char if self.whole else "", self.kind, self.shape)

    def settled(self) -> Any:
        """The value itself, or where its kind is one of several, as the one that conditions tell."""
        if not self.kind.several:
            return self
        code, whole, kind, _ = self.kind.several.which()
        found = Tracer(self.builder, self.atom, kind)
        if code == "?":
            return (found != 0).of_kind(kind)
        return whole_number(found) if whole else found if found.dtype.char == code else found.astype(code).of_kind(kind)

    def asked(self, question: Lookup) -> Any:
        """What a question says of a value of this kind, dtype and shape, or of an argument of a class of its own."""
        if own_class(own := given_argument(self)) is not None:
            note_kinds(SCALARS)
            return question(own)
        dtype = self.own_dtype()
        return answered(question, Form(self._dtype.char, dtype.char if dtype.kind in "iu" else "", self.kind, (0,) * self.ndim))

    whole = False  # an integer

    def named(self) -> str:
        """The name of the type that the value has for Python."""
        return str(self.asked(lambda value: type(value).__name__))

    def _class(self) -> type:
        """`x.__class__`, which `isinstance` asks: in the user's code, followed or not, the class of the number or the array."""
        frame = sys._getframe(1)
        while (path := frame.f_code.co_filename) in _ASKING_FOR_OTHERS:
            frame = frame.f_back  # type: ignore[assignment]
        return type(self) if is_library(path) else self.asked(type)

    __class__ = property(_class)  # type: ignore[assignment]

    # -- the cells

    @property
    def atom(self) -> Any:
        """The value as a symbol (or a constant), as it is now."""
        return self._value if self._held is None else self._held.atom(user_line)

    @property
    def held(self) -> View | None:
        """The cells that an array shows; None for a number, and for a value that nobody assigns to or has a view of yet."""
        return self._held

    def _shown(self) -> np.ndarray | None:
        """The cells one by one, where they are kept so."""
        return None if self.held is None else self.held.storage.shown(self.held.place)

    def shared(self) -> View:
        """The cells that the array shows, from now on kept where views find them."""
        if self._held is None:
            home = home_builder(self.builder)
            if home is not self.builder and home.path.has_begun(self.builder, self._value):
                self._value, self.builder = traced_atom(self, home, user_line()), home
            callers, dtype = self.kind.array and self.kind.given, self.integers_held()
            self._held = View.over(Storage(self.builder, self._value, self.dtype.char, _CALLERS if callers else ""))
            self._held.storage.counted = dtype
        return self._held

    def is_of_integers(self) -> bool:
        """Whether NumPy has integers here, which are arguments taken as floating-point numbers or computed of them."""
        return not self.whole and self.integers_held() is not None

    def integers_held(self) -> Any:
        """The dtype that NumPy has for integers here; None for other numbers."""
        return integers_held(self.atom, self.whole) if self._held is None else root_of(self._held.storage).counted

    def note_integers(self, dtype: Any) -> None:
        """Note that NumPy has integers of a dtype here, or other numbers."""
        dtype = dtype if dtype.kind in "iu" else None
        if self._held is not None:
            root_of(self._held.storage).counted = dtype
        if self._held is None or self._held.place is self._held.storage.memory:
            note_integers(self.atom, dtype)

    def has_memory(self) -> bool:
        """Whether the value is an array, of shape () too, which others may see the cells of."""
        if self._shape or self._held is not None:
            return True
        kind = self.kind
        if not (kind.array or kind.given or kind.several):
            return False
        return bool(self.asked(lambda value: isinstance(value, np.ndarray)))

    def like(self, found: Any) -> Any:
        """A symbol, or the cells of a view, as a value of the same kind."""
        kind = type(self)
        if isinstance(found, View):
            return kind.showing(self.builder, found, self.dtype)
        if found.op == "const":
            return self._number(found)
        if self._held is not None and (dtype := root_of(self._held.storage).counted) is not None:
            note_integers(found, dtype)
        return kind(self.builder, found)

    def _number(self, found: Any) -> Any:
        return self.dtype.type(found.value) if found.shape == () else found.value

    def _cell(self, key: Shape, origin: str) -> Atom:
        """The cell at a place on each axis."""
        number, steps = 0, None
        if self._held is not None:
            number, steps = self._held.first(), self._held.place.strides
        for axis, (k, n) in enumerate(zip(key, self._shape, strict=True)):
            if not -n <= k < n:
                raise IndexError(f"{origin}: index {k} is out of bounds for axis {axis} with size {n}")
            number = number * n + k % n if steps is None else number + k % n * steps[axis]
        if self._held is not None:
            return self._held.storage.cell(number, origin)  # type: ignore[no-any-return]
        return self.builder.bind("item", (self._value,), (), self._dtype.char, number, origin)

    # -- operators

    _binary: Function  # `operations` has these
    _unary: Function

    def _in_place(self, op: str, other: Any) -> Any:
        """`y += x`: an array changes, a number is named anew."""
        result = getattr(operator, op)(self, other)
        if not self.has_memory():
            return result
        if np.ndim(result) > self.ndim:
            shapes = (str(shape).replace(" ", "") for shape in (self.shape, np.shape(result)))
            told = "non-broadcastable output operand with shape {} doesn't match the broadcast shape {}"
            raise ValueError(f"{user_line()}: {told.format(*shapes)}")
        self[...] = result
        return self

    def __pos__(self) -> Any:
        if self.dtype.kind == "b":
            return self._unary("pos")
        return in_traced_order(self.copy(), (self,)) if self.shape else self.of_kind(kind_after("pos", self))

    # -- what needs the value

    def _refuse(self, what: str, instead: str) -> TraceError:
        need_contents(self)
        return TraceError(f"{user_line()}: {what} needs the value of a traced argument; {instead}")

    def __hash__(self) -> int:
        if self.kind.several:
            return hash(self.settled())
        if self.has_memory():
            raise TypeError(
                f"{user_line()}: unhashable type: {self.named()!r}, as in Python; take a static key, such as an int"
            )
        note_stuck()
        raise self._refuse("a key of a dict or set, or hash(x),", "take a static key, such as an int")

    def _constant(self) -> Any:
        """A single cell that holds a number; None for others."""
        cells = self._shown() if self._held is not None and self.size == 1 else None
        cell = None if cells is None else cells.flat[0]
        return cell.value if isinstance(cell, Constant) else None

    __float__, __complex__ = map(_number_as, (float, complex))

    def __int__(self) -> int:
        known = self._constant()
        if known is not None:
            return int(known)
        return integer_of(self).__index__()  # type: ignore[no-any-return]

    def __index__(self) -> int:
        if self.kind.several:
            return operator.index(self.settled())
        if self.dtype.kind == "b" and self.shape == ():
            if self.asked(lambda value: isinstance(value, np.generic)):
                raise TypeError(f"{user_line()}: {self.named()!r} object cannot be interpreted as an integer")
            return int(self)
        raise self._refuse("an index or range(x)", "write int(x), or pass the argument as an int, which is static")

    def __bool__(self) -> bool:
        origin = user_line()
        if self.size != 1:
            raise TruthError(f"{origin}: a condition on an array of shape {self.shape}; use np.any, np.all or np.where")
        known = self._constant()
        if known is not None:
            return bool(known)
        need_contents(self)
        path = self.builder.path
        if path is None:
            raise self._refuse("a condition (if, while, and, or, min, max)", "use np.where, np.minimum, np.maximum, np.clip")
        one = self.reshape(()) if self.shape else self
        if not isinstance(one, Tracer):
            return bool(one)
        truth = one if one.dtype.char == "?" else one != 0
        return path.decide(truth.atom, origin)  # type: ignore[no-any-return]

    def _whole(self, op: str) -> Any:
        return whole_number(Tracer._unary(self, op).of_kind(PYTHON))

    __floor__ = functools.partialmethod(_whole, "floor")
    __ceil__ = functools.partialmethod(_whole, "ceil")
    __trunc__ = functools.partialmethod(_whole, "trunc")

    def __round__(self, digits: int | None = None) -> Any:
        if self.asked(lambda value: not hasattr(value, "__round__")):
            raise TypeError(f"{user_line()}: type {self.named()} doesn't define __round__ method")
        if digits is None:
            return self._whole("rint")
        own = self.shape == () and self.asked(lambda value: not isinstance(value, np.generic))
        found = rounded_value(self, digits) if own else np.round(self, digits)  # type: ignore[call-overload]
        return found.of_kind(kind_after("round", self)) if self.shape == () else found

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise self._refuse("pickle.dumps(x)", "copy.deepcopy copies what holds x")

    def __format__(self, spec: str) -> str:
        if spec:
            raise self._refuse(f"a text with the number in the format {spec!r}", "leave it out; print(x) shows a traced value")
        return repr(self)

    @property
    def __cuda_array_interface__(self) -> Any:
        raise self._refuse("a function of CuPy's", "write np.sin, np.sum, ...: the derivative runs on CuPy arrays all the same")

    def __setitem__(self, key: Any, value: Any) -> None:
        if self._held is not None and self._held.is_callers():
            need_contents(self)
        assigned(self, key, value)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        attempt = current()
        if is_compiled_library(sys._getframe(1).f_code.co_filename) and not (attempt is not None and attempt.opened):
            raise self._refuse("a library's compiled code", _NUMBER)
        if self.dtype.kind == "b" and self.shape:
            note_stuck()  # a mask of an array made elsewhere, whose items a thorough run sees
        if dtype is not None and np.dtype(dtype).char != "O":
            note_stuck()
            raise self._refuse("conversion to a NumPy array of numbers", "leave the dtype out, or use np.stack")
        if self.size > _CELLS:
            need_contents(self)
        flat = np.empty(self.size, dtype=object)
        for i, cell in enumerate(self._line() if self.shape else [self.of_kind(self.kind) if self.has_memory() else self]):
            flat[i] = cell
        shares = copy is not True and self.has_memory()  # what is written would be lost
        flat.flags.writeable = not shares
        cells = flat.reshape(self.shape)
        if shares:
            root_of(self.shared().storage).images.append(weakref.ref(flat))
        asks = attempt is not None and not attempt.opened and (shares or self.kind.python)
        if asks and is_numpys(sys._getframe(1).f_code.co_filename):
            note_stuck()  # NumPy makes an array of objects, whose cells have the memory and the kinds of these
        return cells

    def _line(self) -> Any:
        """The cells in one axis; no view that the user has made."""
        atom = Arrays(self.builder, user_line()).reshape(self.atom, (self.size,))
        return self.like(atom)

    # -- arrays

    @property
    def dtype(self) -> Any:
        """NumPy's own for the user; here, integers are held as floating-point numbers."""
        asks = self.whole or ((attempt := current()) is not None and attempt.integers)
        return self.own_dtype() if asks and not is_library(sys._getframe(1).f_code.co_filename) else self._dtype

    def own_dtype(self) -> Any:
        """The dtype that NumPy has."""
        return self.integers_held() or (np.dtype(int) if self.whole else self._dtype)

    @dtype.setter
    def dtype(self, value: Any) -> None:
        raise TraceError(f"{user_line()}: x.dtype = {value} reads the same bytes as other numbers; write x = x.astype({value})")

    def _place(self) -> np.ndarray:
        return self.shared().layout() if self.has_memory() else np.zeros((), np.int8)

    def __getitem__(self, key: Any) -> Any:
        if not self._shape and may_catch() and self.asked(lambda value: not hasattr(value, "__getitem__")):
            raise TypeError(f"{user_line()}: {self.named()!r} object is not subscriptable")
        origin = user_line()
        parts = key if type(key) is tuple else (key,)
        if len(parts) == len(self._shape) and parts and all(type(part) is int for part in parts):
            return self.like(self._cell(parts, origin))
        return item_of(self, key, origin)

    def astype(self, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True) -> Any:
        """The value with another dtype."""
        if isinstance(dtype, (Tracer, np.ndarray)):
            raise TypeError("Cannot construct a dtype from an array")
        if not copy and np.dtype(dtype) == self.dtype and self._lies_in(order):
            return self
        if np.dtype(dtype).kind in "iu" and self.dtype.kind != "c":
            if self.dtype.kind != "b":  # 0 and 1 are in all
                check_wide(dtype)
            found = truncation(self)
            found.note_integers(np.dtype(dtype))
            return self._ordered(found, order) if self.shape else found.of_kind(ARRAY if self.has_memory() else NUMPY)
        if np.dtype(dtype).kind == "b":
            return self._ordered(self.copy() if self.dtype.kind == "b" else self != 0, order)
        char = np.dtype(dtype).char
        if char not in "fdFD" or (self.dtype.kind == "c" and char in "fd"):
            raise TraceError(f"{user_line()}: astype({dtype}) of a traced value of {self.dtype}; take x.real first")
        home = home_builder(self.builder) if self.has_memory() else self.builder
        atom = traced_atom(self, home, user_line())
        cast = home.cast(atom, char)
        if cast is atom and self.is_of_integers():
            cast = home.emit("mul", (cast, Constant(1.0)), None, user_line())
        if not self.has_memory():
            return self.like(cast) if isinstance(cast, Constant) else Tracer(home, cast)  # type: ignore[arg-type]
        place = self._place().astype(np.int8, order=order)  # type: ignore[call-overload]
        return Tracer.showing(home, storage_cells(home, cast, char, place, user_line()), np.dtype(char))

    def _lies_in(self, order: str) -> bool:
        """Whether the cells lie in memory in an order."""
        if order == "K" or not self.has_memory() or len(self._shape) < 2:
            return True
        place = traced_memory(self)
        return np.may_share_memory(place.astype(place.dtype, order=order, copy=False), place)

    def _ordered(self, found: Any, order: str) -> Any:
        """A new array of this shape whose cells lie in an order."""
        return lying_as(found, self._place().astype(np.int8, order=order)) if len(self._shape) > 1 else found  # type: ignore[call-overload]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # NumPy asks each value for several
            raise AttributeError(f"a traced value has no attribute {name!r}")
        instead = functions_instead().get(f"ndarray.{name}")
        if instead is not None:
            raise self._refuse(f"x.{name}", instead)
        # NumPy calls x.exp() and its like on the cells of object arrays.
        if name.startswith("conj") and self.kind.python:
            return lambda: self._unary("conj") if self.dtype.kind == "c" else self
        if name in _METHODS or isinstance(getattr(np, name, None), np.ufunc):
            return types.MethodType(_method(name), self)
        if name == "is_integer" and self.asked(lambda value: hasattr(value, name)):
            return lambda: ((self == Tracer._unary(self, "trunc")) & np.isfinite(self)).of_kind(PYTHON)  # type: ignore[call-overload]
        need_contents(self)
        if self.asked(lambda value: hasattr(value, name)):
            raise self._refuse(f".{name} of a {self.named()}", "write it with NumPy or math")
        raise AttributeError(f"{user_line()}: {self.named()!r} object has no attribute {name!r}")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return ufunc_called(ufunc, method, inputs, kwargs, user_line())

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return function_called(function, args, kwargs, user_line())

    def __repr__(self) -> str:
        need_contents(self)
        path = sys._getframe(1).f_code.co_filename
        if not note_shown() and (path == "<string>" or name_unless_library(path)):
            note_stuck()
            raise self._refuse(
                "a text with the number, made here,", "make it with str(x) or an f-string, and print or raise it"
            )
        return f"<traced {self.atom.name} shape={self.shape} dtype={self.dtype}>"


_METHODS = frozenset(name for name in dir(np.ndarray) if callable(getattr(np, name, None)))  # which are NumPy's functions


NUMBERS = (Tracer, int, float, complex, np.ndarray, np.generic, Fraction)
PLAIN_NUMBERS = frozenset({int, float, complex, bool})
_WIDE = {"f": "d", "F": "D"}
BITS = frozenset({"and", "or", "xor", "lshift", "rshift"})
ARITHMETIC = frozenset({"add", "sub", "mul", "div", "floordiv", "mod", "pow"})
SIGNS = frozenset({"neg", "pos", "abs", "not"})


def check_wide(dtype: Any) -> None:
    """Refuse integers that wrap round before doubles, in which they are computed, lose digits."""
    if np.dtype(dtype) != np.int64:
        raise TraceError(
            f"{user_line()}: a traced value as {np.dtype(dtype)}, whose arithmetic wraps round; use astype(int), or keep it "
            "floating"
        )
