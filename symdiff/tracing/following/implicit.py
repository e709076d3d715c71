"""Calls without parentheses: properties, operators, items, loops and `with`, whose code may be the user's.

Assumes code cloned for a thorough run (see `cloning`). Guarantees Python's own order: an operator asks the left operand,
then the right one. `__getattr__`, `__contains__` and the special methods behind slices run as they stand.
"""

import functools
import operator
import types
from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np

from symdiff.tracing.library.builtin_functions import attribute_of, is_other, pattern
from symdiff.tracing.library.functions import asked_with_zeros, turned
from symdiff.tracing.library.making import fresh_numpy_array
from symdiff.tracing.library.summing import traced_fsum
from symdiff.tracing.loops.gates import check_kept_context
from symdiff.tracing.loops.handing import made as note_made
from symdiff.tracing.loops.handing import storing as check_kept_owner
from symdiff.tracing.loops.items import item_by_number
from symdiff.tracing.loops.keeping import paced
from symdiff.tracing.state.attempt import current, current_keeping
from symdiff.tracing.state.raising import handled, managed
from symdiff.tracing.values.answers import Call
from symdiff.tracing.values.integers import Integer
from symdiff.tracing.values.kinds import asked
from symdiff.tracing.values.operands import as_array, holds_traced
from symdiff.tracing.values.texts import Text, format_traced, join_traced_texts, of_text
from symdiff.tracing.values.traced_keys import is_traced_key, item_of, read, value_of
from symdiff.tracing.values.tracer import Tracer, is_traced
from symdiff.tracing.values.truths import traced_is
from symdiff.vocabulary.libraries import is_library, user_line
from symdiff.vocabulary.signatures import Function, Lookup

SPECIAL = frozenset("abs float complex round len iter next divmod".split())  # builtins that ask an object's own method
PLAIN = frozenset({float, int, complex, bool, str, list, tuple, dict, Tracer, Integer, np.ndarray, types.ModuleType})
JOINING = type(np.r_).__bases__
_REFLECTED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}
# What the running Python's `sum` does: whether it keeps what rounding loses of a term, by the total's type and the term's,
# which totals it keeps so, and from which total it goes on to which.
_OWN = (int, float, complex, np.float64)
_TERMS = [(float, float), (float, int), *((complex, kind) for kind in (complex, float, np.float64, int))]
_LOST = {(total, term): sum([total(1e16), term(1), term(1)]) != 1e16 for total, term in _TERMS}
COMPENSATED = frozenset(total for (total, term), lost in _LOST.items() if lost and total is term)
_STEPS = {(int, int), (int, float), (int, complex), (float, complex)}
_END = object()  # of an iterator of the user's
_COMPARED = (tuple, list, dict, deque, types.MethodType)  # with what they hold
_UNCHANGED = (Tracer, int, float, complex, str, tuple, np.generic)  # by what an operator does in place, or seen to be
_IN_PLACE = frozenset("iadd isub imul itruediv ifloordiv imod ipow imatmul iand ior ixor".split())


def _within(text: Any, values: Any) -> bool:
    """`text in values`."""
    if type(text) is Text and isinstance(values, str):
        return text.__contains__(values)  # refused, as for all that depends on its letters
    _looking_for(text)
    return text in values


def _looking_for(*values: Any) -> None:
    """What is looked up, compared or shown by its identity, where it is an object."""
    keeping = current_keeping()
    if keeping is not None and keeping.stands:
        keeping.check_told_apart(*values)


_ASKING = {
    "in_": _within, "not_in": lambda a, b: not _within(a, b),
    "is_": traced_is, "is_not": is_other, "class": pattern, "formatted": format_traced,
    "joined": join_traced_texts,
}  # fmt: skip


def follow_special_method(name: str, function: Function, call: Lookup) -> Function:
    """A builtin such as `abs`: of an object of the user's, by its own followed method."""

    def asked(*args: Any, **kwargs: Any) -> Any:
        method = _method(args[0], f"__{name}__") if args else None
        if name == "next" and args and (keeping := current_keeping()) is not None:
            keeping.note_taken(args[0])
        return function(*args, **kwargs) if method is None else call(method)(*args, **kwargs)

    return asked


def cells(call: Lookup) -> dict[str, types.CellType]:
    """What clones find in their cells, by name."""
    found = (
        call,
        *(functools.partial(f, call) for f in (attribute, assign, operate, item, iterated, entered)),
        slice,
        handled,
        managed,
    )
    return dict(zip(NAMES, map(types.CellType, found), strict=True))


NAMES = (".call", ".attribute", ".assign", ".operate", ".item", ".iterated", ".entered", ".slice", ".handled", ".managed")


@functools.lru_cache(maxsize=1024)
def written(kind: type) -> bool:
    """Whether the user wrote a class, or one that it inherits from."""
    functions = (v for c in kind.__mro__ for v in vars(c).values() if isinstance(v, types.FunctionType))
    return any(not is_library(f.__code__.co_filename) for f in functions)


def _method(owner: Any, name: str) -> Any:
    """A special method of an object of the user's; None for other objects."""
    kind = type(owner)
    return None if kind in PLAIN or not written(kind) else getattr(kind, name, None)


def attribute(call: Lookup, owner: Any, name: str) -> Any:
    """`owner.name`; a property of the user's is followed."""
    kind = type(owner)
    if isinstance(owner, Tracer):
        return attribute_of(owner, name)
    if kind in PLAIN:
        return getattr(owner, name)
    if name == "__dict__":
        _looking_for(owner)
    found = _looked_up(owner, name)
    if isinstance(found, property) and isinstance(found.fget, types.FunctionType):
        return call(found.fget)(owner.__self__ if kind is super else owner)
    return _cached(call, owner, name, found) if isinstance(found, functools.cached_property) else getattr(owner, name)


def _looked_up(owner: Any, name: str) -> Any:
    if type(owner) is not super:
        return getattr(type(owner), name, None)
    order = owner.__self_class__.__mro__
    rest = order[order.index(owner.__thisclass__) + 1 :]
    return next((vars(c)[name] for c in rest if name in vars(c)), None)


def _cached(call: Lookup, owner: Any, name: str, found: Any) -> Any:
    """A cached property: kept for this run only, so that no traced value stays in the object."""
    attempt = current()
    if attempt is None or name in vars(owner):
        return getattr(owner, name)
    key = (id(owner), name)
    if key not in attempt.memo:
        if attempt.keeping is not None:
            attempt.keeping.check_first(owner)
        attempt.memo[key] = (call(found.func)(owner), owner)
    return attempt.memo[key][0]


def assign(call: Lookup, value: Any, owner: Any, name: str) -> None:
    """`owner.name = value`; the setter of a property is followed."""
    found = None if type(owner) in PLAIN else _looked_up(owner, name)
    if isinstance(found, property) and isinstance(found.fset, types.FunctionType):
        call(found.fset)(owner, value)
    else:
        setattr(owner, name, value)


def operate(call: Lookup, name: str, *operands: Any) -> Any:
    """An operator; the special methods of the user's classes are followed."""
    if name in _ASKING:
        if name in ("is_", "is_not") and (keeping := current_keeping()) is not None:
            keeping.check_identity(*operands)
        if name == "formatted":
            _looking_for(*operands)
        return _ASKING[name](*operands)
    if name in ("eq", "ne") and isinstance(operands[0], _COMPARED):
        _looking_for(*operands)
    if name == "mod" and isinstance(operands[0], str):
        return of_text(operator.mod, *operands)
    if name in _IN_PLACE and not isinstance(operands[0], _UNCHANGED):
        check_kept_owner(operands[0], name == "iadd")
    if all(_method(o, "__class__") is None for o in operands):
        result = getattr(operator, name)(*operands)
        if name not in _IN_PLACE:
            return fresh_numpy_array(result, operands) if type(result) is np.ndarray else note_made(result)
        return result
    bare = name.rstrip("_")
    if len(operands) == 1:
        return call(getattr(operands[0], f"__{bare}__"))()
    first, second = operands
    plain = bare[1:] if bare in _IN_PLACE else bare
    ways = [(first, second, plain), (second, first, _REFLECTED.get(plain, f"r{plain}"))]
    if type(second) is not type(first) and isinstance(second, type(first)):
        ways.reverse()
    for owner, other, way in ([(first, second, bare)] if bare in _IN_PLACE else []) + ways:
        method = getattr(type(owner), f"__{way}__", None)
        if method is not None:
            result = call(method)(owner, other)
            if result is not NotImplemented:
                return result
    return getattr(operator, name)(*operands)


def follow_sum(call: Lookup, values: Any, /, start: Any = 0) -> Any:
    """`sum(values, start)` in the running Python's steps: what it keeps of its own numbers is kept here."""
    total = start
    row: list[tuple[Any, bool]] = []
    kept = _number(start) if COMPENSATED and type(start) is not bool else None
    for value in iterated(call, values):
        term = (kept, _number(value)) if kept in COMPENSATED else None
        if term in _LOST:
            row.append((value, _LOST[term]))
            continue
        total, row = operate(call, "add", _in_a_row(total, row), value), []
        if kept is not None:
            step = (kept, _number(total))
            kept = step[1] if step in _STEPS else None
    return _in_a_row(total, row)


def _in_a_row(total: Any, row: list[tuple[Any, bool]]) -> Any:
    values, lost = [v for v, _ in row], [k for _, k in row]
    if not any(map(is_traced, (total, *values))):
        return sum(values, total) if row else total
    if len(row) < 2 or not any(lost):  # the first sum of two is rounded once in any way
        return functools.reduce(operator.add, values, total)
    return traced_fsum([total, *values], tuple(lost))


def _number(value: Any) -> type | None:
    """Which of Python's numbers a value is, or NumPy's that Python takes for one of its own; None for anything else."""
    if not isinstance(value, Tracer):
        return int if type(value) is bool else type(value) if type(value) in _OWN else None
    form = value.form
    if form.shape or form.kind.array:
        return None
    asked(form.kind)
    if not form.kind.python:
        return np.float64 if form.code == "d" and not form.whole else None
    return int if form.whole or form.code == "?" else {"d": float, "D": complex}.get(form.code)


def item(call: Lookup, owner: Any, key: Any) -> Any:
    """`owner[key]`."""
    kind = type(owner)
    if isinstance(owner, dict):
        _looking_for(key)
    if kind is np.ndarray and is_traced_key(key):
        return read(owner, key, user_line())
    if kind in (list, tuple) and isinstance(key, Integer):
        found = item_by_number(owner, key)
        return item_of(owner, key) if found is None else found(key)
    if kind is dict and isinstance(key, Integer) and (found := value_of(owner, key)) is not None:
        return found
    method = _method(owner, "__getitem__")
    if method is not None:
        return call(method)(owner, key)
    if isinstance(owner, JOINING):  # np.r_ makes new arrays
        return joined_by(owner, key)
    return owner[key]


def joined_by(owner: Any, key: Any) -> Any:
    """`np.r_[key]` or `np.c_[key]`."""
    found = owner[key]
    found = as_array(found) if np.size(found) and holds_traced(found) else fresh_numpy_array(found, ())
    if not isinstance(found, Tracer):
        return found
    call = Call.of(owner.__getitem__, (key,), {})
    asked = getattr(asked_with_zeros(call), "dtype", found.dtype)
    asked = found.dtype if asked.kind == "O" else asked
    cast = found.builder.cast(found.atom, found.dtype.char if asked.kind in "iu" else asked.char)
    joined = Tracer(found.builder, cast)  # type: ignore[arg-type]
    return turned(call, Integer.of(joined) if asked.kind in "iu" else joined)


def iterated(call: Lookup, values: Any) -> Any:
    """What a loop runs over."""
    attempt = current()
    if attempt is not None and attempt.keeping is not None:
        attempt.keeping.note_taken(values)
    if attempt is not None and attempt.patient:
        attempt.looped, values = True, paced(values, attempt.patient)
    if attempt is not None and not attempt.thorough:
        return values
    method = _method(values, "__iter__")
    found = call(method)(values) if isinstance(method, types.FunctionType) else values
    step = _method(found, "__next__")
    return found if step is None else iter(functools.partial(_next, call(step), found), _END)


def _next(step: Function, iterator: Any) -> Any:
    try:
        return step(iterator)
    except StopIteration:
        return _END


@dataclass(eq=False)
class _Entered:
    """A context manager of the user's, followed."""

    _call: Lookup
    _owner: Any

    def __enter__(self) -> Any:
        return self._call(type(self._owner).__enter__)(self._owner)

    def __exit__(self, *error: Any) -> Any:
        return self._call(type(self._owner).__exit__)(self._owner, *error)


def entered(call: Lookup, owner: Any) -> Any:
    """What `with` enters."""
    followed = _method(owner, "__enter__") is not None
    keeping = current_keeping()
    if keeping is not None and not followed:
        check_kept_context(keeping, owner)
    return managed(owner, _Entered(call, owner) if followed else owner)
