"""Operators and elementwise functions of traced values, each recorded as one binding.

Assumes operands of which one is traced. Guarantees NumPy's dtype, numbers of Python's and short integers beside single
precision included, the order of complex numbers, and what Python raises where a handler waits for it. Refuses complex numbers
of Python's in comparisons, with `TypeError`, and CuPy's arrays, with `TraceError`.
"""

import functools
from collections.abc import Iterable
from typing import Any

import numpy as np

from symdiff.errors import TraceError
from symdiff.ir.building import Builder, dtype_of_atoms
from symdiff.ir.node import Atom, Constant, Node
from symdiff.tracing.state.attempt import awaits
from symdiff.tracing.state.raising import check_awaited_operator, check_awaited_range
from symdiff.tracing.values.kinds import (
    OPERATORS,
    Kind,
    asked,
    check_wrapping,
    dtype_of_integers,
    joined_kind,
    resulting,
    traced_form,
)
from symdiff.tracing.values.layouts import in_traced_order
from symdiff.tracing.values.tracer import (
    ARITHMETIC,
    BITS,
    NUMBERS,
    PLAIN_NUMBERS,
    SIGNS,
    Tracer,
    traced_atom,
    traced_builder,
)
from symdiff.tracing.values.tracer import kind_after as kinds_after
from symdiff.vocabulary.libraries import user_line
from symdiff.vocabulary.ops import is_complex
from symdiff.vocabulary.plain import check_digits
from symdiff.vocabulary.seams import Seam
from symdiff.vocabulary.signatures import Arguments
from symdiff.vocabulary.traits import operations

computed_truths = Seam("an operator on truths")
signed_truth = Seam("a sign before a truth")
_UNLIKE = (str, bytes, type(None))  # which no number is equal to
_NARROW = {"d": "f", "D": "F"}
_CUT = operations("cut")
_ORDERS = {"lt": "lt", "le": "lt", "gt": "gt", "ge": "gt"}


def operate(own: Tracer, op: str, left: Any, right: Any) -> Any:
    """An operator between a traced value and another one."""
    told = op in ARITHMETIC and (own._dtype.char == "?" or type(left) is bool or type(right) is bool)
    told = op in BITS or told or ((own.whole or own.kind.several) and getattr(right, "dtype", None) == np.bool_)
    if told and all(isinstance(v, NUMBERS) for v in (left, right)):
        left, right = (v.settled() if isinstance(v, Tracer) else v for v in (left, right))
        return computed_truths(op, left, right, kind_after(op, left, right))
    return record_on(op, left, right)


def operate_before(own: Tracer, op: str) -> Any:
    """An operator before a traced value, or a part of it."""
    if op in SIGNS and (own.dtype.char == "?" or op == "not"):
        return signed_truth(op, own.settled())
    found = in_traced_order(
        Tracer(own.builder, record(own.builder, op, (own.atom,), user_line(), (own,)), kind_after(op, own)), (own,)
    )
    if op == "abs" and own.kind.python and own.dtype.kind == "c" and awaits():
        check_awaited_range(found, (own,), "absolute value too large")
    return found


Tracer._binary, Tracer._unary = operate, operate_before


def _unanswered(_: Any) -> Any:
    return NotImplemented


def _said(op: str, own: Any, other: Any) -> tuple[Any, bool]:
    """What `own == other` gives: a truth of NumPy's, or nothing, so that Python gives one of its own."""
    found = OPERATORS[op](own, other)
    return (_unanswered, False) if type(found) is bool else (np.bool_, bool(found))


@kinds_after.written
def kind_after(op: str, *operands: Any) -> Kind:
    """The kind of what an operator, or an attribute, gives for these operands."""
    key = [op]
    for value in operands:
        if type(value) is Tracer and not value._shape and not value.kind.several:
            key.append((value._dtype.char, value.kind))
        elif type(value) in PLAIN_NUMBERS:
            key.append(type(value))
        else:
            return _kind_after(op, operands)
    place = tuple(key)
    found = _kinds_after.get(place)
    if found is None:
        found = _kinds_after[place] = _kind_after(op, operands)
    return found


_kinds_after: dict[tuple[Any, ...], Kind] = {}  # of numbers


def _kind_after(op: str, operands: Arguments) -> Kind:
    forms = tuple(map(traced_form, operands))
    question = None if any(form.shape for form in forms) else OPERATORS.get(op)
    found = None if question is None else resulting(op, question, forms)
    return joined_kind(*(form.kind for form in forms)) if found is None else found.kind


def record_on(op: str, left: Any, right: Any, kind: Kind | None = None) -> Any:
    """An operator between two operands recorded; `NotImplemented` for operands that are no numbers."""
    origin = user_line()
    of = left if isinstance(left, Tracer) else right
    other = right if of is left else left
    if isinstance(of, Tracer) and (type(other) in PLAIN_NUMBERS or (isinstance(other, Tracer) and other.builder is of.builder)):
        builder = of.builder
        if isinstance(other, Tracer):
            operands = (of.atom, other.atom)
        else:
            if op not in ARITHMETIC:
                check_digits(origin, other)
            operands = (of.atom, Constant(other)) if of is left else (Constant(other), of.atom)
    else:
        for value in (left, right):
            if isinstance(value, (list, tuple)) and isinstance(of, Tracer):
                asked(of.kind)
                if not of.kind.python:
                    continue
            if type(value) in _UNLIKE and op in ("eq", "ne") and isinstance(of, Tracer):
                if of.shape:
                    return np.full(of.shape, op == "ne")
                said = of.asked(lambda own, value=value: _said(op, own, value))
                return said[0](said[1])
            if not isinstance(value, NUMBERS):
                if hasattr(value, "__cuda_array_interface__"):
                    raise TraceError(f"{origin}: a CuPy array beside a traced value; pass it as an argument")
                return NotImplemented
        builder = traced_builder((left, right))
        rounds = op in ARITHMETIC
        operands = (traced_atom(left, builder, origin, rounds), traced_atom(right, builder, origin, rounds))
    if op in _ORDERS and any(is_complex(dtype_of_atoms((o,))) for o in operands):
        kinds = kind_after(op, left, right)
        asked(kinds)
        if kinds.python:
            raise TypeError(f"{origin}: {op!r} of complex numbers, which have no order; compare their abs, real or imag")
    result = record(builder, op, narrow_traced(builder, operands, left, right), origin, (left, right))
    found = Tracer(builder, result, kind or kind_after(op, left, right))
    if awaits():
        check_awaited_operator(op, left, right, found)
    return in_traced_order(found, (left, right))


def narrow_traced(builder: Builder, operands: tuple[Atom, ...], *values: Any) -> tuple[Atom, ...]:
    """Operands, numbers of Python's and short integers in single precision where they meet NumPy's numbers and arrays of it
    alone.
    """
    if len(values) < 2 or any(type(v) in PLAIN_NUMBERS for v in values):
        return operands
    if all(type(v) is Tracer and v._dtype.char in "dD" for v in values):
        return operands
    forms = tuple(map(traced_form, values))
    if not any(form.code in "fF" for form in forms) or any(form.kind.several for form in forms):
        return operands
    for form in forms:
        asked(form.kind)
    own = [form.whole or form.code for form in forms if not form.kind.python]
    if own and np.result_type(*own).char not in "fF":
        return operands
    return tuple(builder.cast(o, _NARROW.get(o.dtype, o.dtype)) if f.kind.python or f.whole else o
                 for o, f in zip(operands, forms, strict=True))  # fmt: skip


def _ordered(builder: Builder, op: str, operands: tuple[Atom, ...], origin: str) -> Node:
    """A comparison of complex numbers as NumPy makes it: by the real parts, then by the imaginary ones."""
    (a, b), (c, d) = ([builder.emit(part, (o,), None, origin) for o in operands] for part in ("real", "imag"))
    tie = builder.emit("and", (builder.emit("eq", (a, b), None, origin), builder.emit(op, (c, d), None, origin)), None, origin)
    return builder.emit("or", (builder.emit(_ORDERS[op], (a, b), None, origin), tie), None, origin)  # type: ignore[return-value]


def real_by_value(builder: Builder, values: Iterable[Atom]) -> Any:
    """Whether complex values are real ones for NumPy, as a condition: eigenvalues of real matrices are where all of them are,
    and so is what is computed from them with real numbers. None where they are complex in any case.
    """
    waiting = [v for v in values if is_complex(dtype_of_atoms((v,)))]
    seen, heads = set(waiting), []
    while waiting:
        found = waiting.pop()
        parts = [o for o in found.operands if o.op != "loop" and is_complex(dtype_of_atoms((o,)))]
        if found.op.startswith("general_eigen") and not parts:
            heads.append(Tracer(builder, found))
        elif not parts:
            return None
        waiting += [o for o in parts if o not in seen]
        seen.update(parts)
    truths = [np.all(head.imag == 0) for head in heads]
    return functools.reduce(np.logical_and, truths) if truths else None


def record(builder: Builder, op: str, operands: tuple[Atom, ...], origin: str, given: Arguments) -> Node:
    """An elementwise operation on operands of this builder, which are those of `given` values."""
    if op in _ORDERS and any(is_complex(dtype_of_atoms((o,))) for o in operands):
        return _ordered(builder, op, operands, origin)
    if op in _CUT and any(is_complex(dtype_of_atoms((o,))) for o in operands):
        real = real_by_value(builder, operands)
        if real is not None:
            parts = tuple(builder.real(o) if is_complex(dtype_of_atoms((o,))) else o for o in operands)
            either = [Tracer(builder, builder.emit(op, each, None, origin)) for each in (parts, operands)]
            return np.where(real, *either).atom  # type: ignore[attr-defined, no-any-return]
    found = builder.emit(op, operands, None, origin)  # type: ignore[assignment]
    if not all(v.whole for v in given if isinstance(v, Tracer)):  # traced integers are checked at each call
        check_wrapping(dtype_of_integers(found), op)
    return found
