"""What a traced value is for Python: a number of its own, NumPy's scalar, or an array.

Assumes a dtype and a shape beside it. Guarantees that the kind of a result is what Python and NumPy give for values of the
operands' kinds; that what is asked of a type, of an attribute or of a truth is answered for the value's own kind, and is noted
in the run where another kind of argument would be answered otherwise: calls are then told apart by the kinds of their
arguments. A value picked among several kinds is of the one that conditions tell, once this matters. Refuses, with `TraceError`,
types that depend on too many conditions, and what NumPy rounds, or wraps round, of integers that are taken as other numbers.
"""

import contextlib
import functools
import itertools
import operator
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from symdiff.errors import TraceError
from symdiff.ir.node import ArrayConstant, Atom, Constant
from symdiff.tracing.state.attempt import current, note_kinds
from symdiff.vocabulary.heads import Shape
from symdiff.vocabulary.libraries import user_line
from symdiff.vocabulary.signatures import Function, Lookup
from symdiff.vocabulary.traits import operations

# What a run has asked: whether a number is Python's or NumPy's, whether it is an array of shape (), whether it is an integer,
# whether two arguments are one object, how an argument lies in memory.
SCALARS, ARRAYS, INTEGERS, IDENTITY, LAYOUT = 1, 2, 4, 8, 16


class Kind(NamedTuple):
    """`python`: a number of Python's own; `array`: an array, of shape () too; `given`: as the arguments of this call are;
    `several`: one of several, of which `python` and `array` hold if they hold for all.
    """

    python: bool = False
    array: bool = False
    given: bool = False
    several: Any = None

    @property
    def each(self) -> "set[Kind]":
        """The kinds that it is one of."""
        return {form.kind for form in self.several.forms} if self.several else {self}


class Form(NamedTuple):
    """What a number or an array is for Python: its dtype, NumPy's dtype of integers, "" for others, its kind, its shape."""

    code: str
    whole: str
    kind: Kind
    shape: Shape = ()


class Several(NamedTuple):
    """The forms that a value may have, how it is decided which, and through how many operations."""

    forms: frozenset[Form]
    which: Callable[[], Form]
    depth: int = 0


NUMPY, PYTHON, ARRAY = Kind(), Kind(python=True), Kind(array=True)
WHOLE = np.dtype(int).char  # of integers of Python's
_NUMBERS = {"d": float, "D": complex, "?": bool}
_MOST = 20_000  # results that are known
_DEEPEST = 100  # operations behind which the form of a value is still decided
OPERATORS: dict[str, Function] = {
    name: getattr(operator, name)
    for name in "add sub mul floordiv mod pow lt le gt ge eq ne neg pos abs xor lshift rshift".split()
} | {"div": operator.truediv, "and": operator.and_, "or": operator.or_, "not": operator.invert, "round": lambda x: round(x, 1)}
OPERATORS |= {name: operator.attrgetter(name) for name in ("real", "imag")}


def kind_of(value: Any) -> Kind:
    """The kind of an operand, traced or not."""
    own = getattr(value, "kind", None)
    if type(own) is Kind:
        return own
    if isinstance(value, (bool, int, float, complex)) and not isinstance(value, np.generic):
        return PYTHON
    return ARRAY if isinstance(value, np.ndarray) else NUMPY


def traced_argument_kind(value: Any) -> Kind:
    """The kind of an argument: a number may be of another one in the next call."""
    value = getattr(value, "plain", value) if isinstance(value, float) else value  # what a point of many stands for
    if not isinstance(value, (int, float, complex, np.generic, np.ndarray)) or np.shape(value) != ():
        return kind_of(value)
    return kind_of(value)._replace(given=True)


@functools.cache
def joined_kind(*kinds: Kind) -> Kind:
    """The kind of what an operator gives: Python's where all operands are."""
    fixed = any(not k.python and not k.given for k in kinds)
    return Kind(all(k.python for k in kinds), False, not fixed and any(k.given for k in kinds))


def traced_form(value: Any) -> Form:
    """What an operand is, traced or not."""
    form = getattr(value, "form", None)
    if type(form) is Form:
        return form
    if isinstance(value, (bool, int, float, complex)) and not isinstance(value, np.generic):
        code = "?" if isinstance(value, bool) else "d" if isinstance(value, (int, float)) else "D"
        return Form(code, WHOLE if isinstance(value, int) and code == "d" else "", PYTHON)
    dtype = np.asarray(value).dtype
    return Form(dtype.char, dtype.char if dtype.kind in "iu" else "", kind_of(value), np.shape(value))


def kind_of_several(forms: list[Form], which: Callable[[], int]) -> Kind:
    """The kind of a value that is one of several."""
    kinds = [f.kind for f in forms]
    if len(set(forms)) == 1:
        return kinds[0]
    found = [f for form in forms for f in (form.kind.several.forms if form.kind.several else (form,))]

    def told() -> Form:
        form = forms[which()]
        return form.kind.several.which() if form.kind.several else form

    depth = max(k.several.depth if k.several else 0 for k in kinds) + 1
    return _several(frozenset(found), told, depth)


def _several(forms: frozenset[Form], which: Callable[[], Form], depth: int) -> Kind:
    kinds = [f.kind for f in forms]
    if len(forms) == 1:
        return kinds[0]
    if depth > _DEEPEST:
        which = _undecided
    python, array = all(k.python for k in kinds), all(k.array for k in kinds)
    return Kind(python, array, any(k.given for k in kinds), Several(forms, which, depth))


def _undecided() -> Form:
    raise TraceError(f"{user_line()}: a number's type depends on too many conditions; convert it by float(x) where it is made")


def resulting(key: Any, question: Function, operands: tuple[Form, ...]) -> Form | None:
    """The form of what Python or NumPy gives for operands of these forms; None where it raises. `key` names the question."""
    several = [f.kind.several for f in operands if f.kind.several]
    if not several:
        return _resulting(key, question, operands)
    ways = itertools.product(*(f.kind.several.forms if f.kind.several else (f,) for f in operands))
    found = [_resulting(key, question, way) for way in ways]
    if None in found:
        return None

    def which() -> Form:
        told = tuple(f.kind.several.which() if f.kind.several else f for f in operands)
        return _resulting(key, question, told)  # type: ignore[return-value]

    forms = frozenset(found)  # type: ignore[arg-type]
    kind = _several(forms, which, max(s.depth for s in several) + 1)
    return next(iter(forms))._replace(whole=WHOLE if all(form.whole for form in forms) else "", kind=kind)


_known: dict[Any, Form | None] = {}


def _resulting(key: Any, question: Function, operands: tuple[Form, ...]) -> Form | None:
    """The form of a result; given where that depends on the kinds of arguments."""
    place = key, operands
    if place not in _known:
        if len(_known) >= _MOST:
            _known.clear()
        own = _asked_for(question, operands)
        if own is not None and any(f.kind.given for f in operands):
            others = [
                _asked_for(question, tuple(f._replace(kind=kind) if f.kind.given else f for f in operands))
                for kind in (PYTHON, NUMPY, ARRAY)
            ]
            own = own._replace(kind=own.kind._replace(given=any(o is None or o.kind != own.kind for o in others)))
        _known[place] = own
    return _known[place]


def _asked_for(question: Function, operands: tuple[Form, ...]) -> Form | None:
    samples = tuple(map(traced_sample, operands))
    places = tuple(v * 0 if f.whole else v for v, f in zip(samples, operands, strict=True))  # which every axis has
    for given in (samples, places):
        try:
            with unheard():
                return traced_form(question(*given))
        except IndexError:
            continue
        except (TypeError, ValueError, ArithmeticError, AttributeError, np.linalg.LinAlgError):
            return None
    return None


@contextlib.contextmanager
def unheard() -> Iterator[None]:
    """A block in which NumPy is asked with sample numbers, whose warnings nobody is to hear."""
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        yield


def traced_sample(form: Form) -> Any:
    """Ones of a form; those of an array are one number in memory."""
    if form.shape:
        return np.broadcast_to(np.ones((), form.whole or form.code), form.shape)
    found = example_of_form(form)
    return np.ones_like(found) if form.kind.array else type(found)(1)


def example_of_form(form: Form) -> Any:
    """A number of a form, or an array without cells."""
    dtype = np.dtype(form.whole or form.code)
    if form.shape or form.kind.array:
        return np.empty((0,) * len(form.shape), dtype)
    return (int if form.whole else _NUMBERS.get(form.code, dtype.type))(0) if form.kind.python else dtype.type(0)


def answered(question: Lookup, form: Form) -> Any:
    """What a question says of a value; noted where it says something else of another kind of argument."""
    kind = form.kind
    if kind.several:
        found = [answered(question, other) for other in kind.several.forms]
        return found[0] if all(other == found[0] for other in found) else answered(question, kind.several.which())
    own = question(example_of_form(form))
    if not kind.given:
        return own
    for other in (PYTHON, NUMPY, ARRAY):
        if question(example_of_form(form._replace(kind=other))) != own:
            asked(kind, ARRAYS if kind.array or other.array else SCALARS)
    for other in (kind, PYTHON, NUMPY) if form.code in "fd" else ():
        if question(example_of_form(form._replace(kind=other, whole="" if form.whole else WHOLE))) != own:
            asked(kind, INTEGERS)
    return own


def asked(kind: Kind, what: int = SCALARS) -> None:
    """Note that a result depends on the kind of an argument."""
    if kind.given:
        note_kinds(what)


# -- the dtypes of integers, which are held as floating-point numbers: traced ones, and arguments that are differentiated

_COMPUTED = (operations("whole") - {"max", "min"}) | {"pow"}
_MOVED = operations("integral") | {"max", "min", "item", "array", "select"}
_AT_PLACES = operations("takes_places")
_GROWING = frozenset("dot vdot inner outer matmul tensordot einsum kron convolve correlate diff ediff1d cross vander".split())


def dtype_of_integers(atom: Atom, among: bool = False) -> Any:
    """The dtype that NumPy has for a value that is computed of integers alone, or None; unless it is `among` them, only where
    there are some.
    """
    attempt = current()
    known = {} if attempt is None else attempt.integers
    if not (known or (among and attempt is not None)) or isinstance(atom, (Constant, ArrayConstant)):
        return None
    waiting = [atom]
    while waiting:
        found = waiting[-1]
        parts = found.operands[1:] if found.op == "select" else found.operands
        if found.op in _AT_PLACES:
            parts = (parts[0], *parts[2:])
        closed = found.op in _COMPUTED or found.op in _MOVED
        missing = [p for p in parts if p not in known] if closed and found not in known else []
        waiting += missing
        if not missing:
            waiting.pop()
            if found not in known:
                dtype = _joined([known[p] for p in parts]) if closed and parts else _of_constant(found)
                known[found] = np.dtype(int) if dtype is _WEAK and found.op in ("select", "array") else dtype
    return known[atom]


def integers_held(held: Atom | np.ndarray, among: bool = False) -> Any:
    """The dtype that NumPy has for a value, or an array of them, computed of integers alone; None for others."""
    cells = held.flat if isinstance(held, np.ndarray) else (held,)
    known = [_of_constant(a) if isinstance(a, (Constant, ArrayConstant)) else dtype_of_integers(a, among) for a in cells]
    return None if (joined := _joined(known)) is _WEAK else joined


def note_integers(atom: Atom, dtype: Any) -> None:
    """Note which integers NumPy has for a value; None for other numbers."""
    attempt = current()
    told = attempt is not None and (dtype is not None or attempt.integers)
    if told and not isinstance(atom, (Constant, ArrayConstant)):
        attempt.integers[atom] = dtype  # type: ignore[union-attr]


def check_wrapping(dtype: Any, op: str) -> None:
    """Refuse an operation on integers, taken as floating-point numbers, of a dtype in which it wraps round."""
    if dtype not in (None, _WEAK) and (dtype.itemsize < 4 or (dtype.kind == "u" and op in ("sub", "neg", "not"))):
        refuse_wrapping(dtype)


def check_given(dtype: Any, function: Any) -> None:
    """Refuse what a function computes of integers, taken as floating-point numbers, in a dtype that is rough or wraps round."""
    if dtype.char == "e":
        refuse_wrapping("a short integer dtype")
    computes = isinstance(function, np.ufunc) or getattr(function, "__name__", "") in _GROWING
    if dtype.kind in "iu" and computes:
        check_wrapping(dtype, "sub" if function in (np.subtract, np.negative, np.diff) else "")


def _joined(dtypes: list[Any]) -> Any:
    if None in dtypes:
        return None
    given = [d for d in dtypes if d is not _WEAK]
    return np.result_type(*given) if given else _WEAK


_WEAK = np.dtype(bool)  # of Python's own integers, which take any dtype


def _of_constant(atom: Atom) -> Any:
    if atom.op == "cast" and atom.operands[0].dtype == "?":
        return _WEAK  # a truth as an integer
    if isinstance(atom, ArrayConstant):
        return atom.value.dtype if atom.value.dtype.kind in "iu" else None
    if not isinstance(atom, Constant) or not isinstance(atom.value, (int, np.integer)):
        return None
    return _WEAK if atom.dtype is None else np.dtype(atom.dtype) if np.dtype(atom.dtype).kind in "iu" else None


def refuse_integers(what: str) -> None:
    """Refuse what NumPy would round."""
    raise TraceError(
        f"{user_line()}: {what} an argument of integers, which NumPy would round to integers and the derivative takes as "
        "floating-point numbers; pass it as float(n) or n.astype(float)"
    )


def refuse_wrapping(dtype: Any) -> None:
    """Refuse arithmetic that is another one than that of floating-point numbers."""
    raise TraceError(
        f"{user_line()}: arithmetic of an argument of {dtype}, which wraps round or is rough where that of floating-point "
        "numbers, as which the derivative takes it, is not; pass it as n.astype(float), or n.astype(int)"
    )
