"""What Python's operators do to truths and to integers, which is not what they do to other numbers.

Assumes operands of which one is traced, and the kind of the result. Guarantees Python's meaning for its own truths, which are
the integers 0 and 1, and NumPy's for its own, whose sum is `or`; operators on bits of integers are arithmetic, or are done on
numbers that a condition tells. Refuses as Python and NumPy do, with `TypeError`; what depends on each cell, with `TraceError`.
"""

import operator
from typing import Any

import numpy as np

from symdiff.errors import TraceError
from symdiff.ir.node import Atom
from symdiff.rulebooks.calls import extreme_by_rule
from symdiff.tracing.state.attempt import given_argument, given_holder, note_compared, note_kinds
from symdiff.tracing.values.integers import Integer, as_int, check_traced_power, is_integer_value
from symdiff.tracing.values.kinds import IDENTITY, PYTHON, Kind, asked
from symdiff.tracing.values.operations import computed_truths, kind_after, record, record_on, signed_truth
from symdiff.tracing.values.operators import repetition
from symdiff.tracing.values.tracer import BITS, Tracer
from symdiff.vocabulary.libraries import user_line

_SIGNS = {"add": "+", "sub": "-", "and": "&", "or": "|", "xor": "^", "lshift": "<<", "rshift": ">>"}
_NAMES = {"and": "and_", "or": "or_"}
_LOGICAL = {"add": "or", "mul": "and"}


def is_truth(value: Any) -> bool:
    """Whether a value is a truth, or an array of them."""
    return type(value) is bool or getattr(value, "dtype", None) == np.bool_


def number(value: Any) -> Any:
    """A truth as the integer that it is in Python; other values as they are."""
    if not is_truth(value):
        return value
    return as_int(value) if isinstance(value, Tracer) else value * 1


@computed_truths.written
def on_truths(op: str, left: Any, right: Any, kind: Kind) -> Any:
    """An operator on bits, or arithmetic with a truth."""
    both = is_truth(left) and is_truth(right)
    if both and op in BITS - {"lshift", "rshift"}:
        return record_on(op, left, right, kind)
    if op in BITS:
        if not all(is_truth(v) or is_integer_value(v) for v in (left, right)):
            raise _unsupported(_SIGNS[op], left, right)
        return _bits(op, number(left), number(right), kind)
    if both:
        asked(kind)
        if not kind.python:
            if op == "sub":
                raise _unsupported("-", left, right)
            if op in _LOGICAL:
                return record_on(_LOGICAL[op], left, right, kind)
            if op != "div":
                raise TraceError(f"{user_line()}: {op} of truths, which NumPy takes as int8; write x.astype(int) first")
    one, other = number(left), number(right)
    if is_integer_value(one) and is_integer_value(other):
        if op == "pow":
            check_traced_power(kind, other)
        result = one._binary(op, one, other) if isinstance(one, Tracer) else other._binary(op, one, other)
        return result.of_kind(kind)
    return record_on(op, left, right, kind)


@signed_truth.written
def truth_with_sign(op: str, value: Tracer) -> Any:
    """`-`, `+`, `abs` and `~` of a truth or an integer."""
    if not is_truth(value):
        return -value - 1 if isinstance(value, Integer) else _no_operand(op, value)
    asked(value.kind)
    if not value.kind.python:
        if op in ("neg", "pos"):
            raise TypeError(f"{user_line()}: NumPy's truths have no sign; use np.logical_not, or x.astype(int)")
        return value.of_kind(kind_after(op, value)) if op == "abs" else logical_not(value)
    whole = as_int(value).of_kind(PYTHON)
    return {"neg": operator.neg, "pos": operator.pos, "abs": operator.pos, "not": operator.invert}[op](whole)


def logical_not(value: Tracer) -> Tracer:
    """The other truth."""
    return Tracer(value.builder, record(value.builder, "not", (value.atom,), user_line(), (value,)), kind_after("not", value))


@repetition.written
def repeat_by_traced(values: Any, times: Any) -> Any:
    """`values * times` of a list, tuple or text by a traced number of Python's or NumPy's."""
    times = times.settled()
    asked(times.kind)
    if (is_truth(times) and not times.kind.python) or not (is_truth(times) or is_integer_value(times)):
        raise TypeError(f"{user_line()}: can't multiply sequence by non-int of type {times.named()!r}")
    return values * number(times).decided()


def traced_is(a: Any, b: Any) -> Any:
    """`a is b`."""
    if a is not b:
        a, b = (v.settled() if isinstance(v, Tracer) else v for v in (a, b))
    if a is b or a is None or b is None:
        return a is b
    if not (isinstance(a, Tracer) or isinstance(b, Tracer)):
        return _is_holder(a, b)
    if not isinstance(a, Tracer):
        a, b = b, a
    first, second = given_argument(a), given_argument(b) if isinstance(b, Tracer) else b
    if first is not None and (second is not None if isinstance(b, Tracer) else type(b) is np.ndarray):
        note_kinds(IDENTITY)
        note_compared(second)
        return traced_is(first, second)
    if is_integer_value(b) and not is_truth(b) and isinstance(a, Integer) and a.shape == ():
        raise TraceError(f"{user_line()}: `is` between integers, which may be one object or two; compare them by ==")
    if not (is_truth(a) and is_truth(b)) or a.shape != () or a.kind.array:
        if isinstance(b, Tracer) and a.shape == b.shape == () and (_may_be(a.atom, b.atom) or _may_be(b.atom, a.atom)):
            raise TraceError(f"{user_line()}: `is` between numbers, which may be one object or two; compare them by ==")
        return False
    asked(a.kind)
    kind = b.kind if isinstance(b, Tracer) else Kind(python=type(b) is bool)
    asked(kind)
    return False if a.kind.python != kind.python else logical_not(record_on("xor", a, b, PYTHON))


def _is_holder(a: Any, b: Any) -> bool:
    """Whether two containers or objects, which may stand for arguments, are one."""
    first, second = given_holder(a), given_holder(b)
    if first is None and second is None:
        return False
    if first is None or second is None or type(first) is tuple:  # others that are given twice are told apart by structure
        note_kinds(IDENTITY)
        note_compared(a if first is None else b if second is None else second)
    return (a if first is None else first) is (b if second is None else second)


def _may_be(value: Atom, other: Atom) -> bool:
    """Whether a value is another one, or picked among several of which it is one."""
    waiting = [value]
    while waiting:
        atom = waiting.pop()
        if atom is other:
            return True
        if atom.op == "select" or (atom.op != "const" and extreme_by_rule(atom)):
            waiting += atom.operands[atom.op == "select" :]
    return False


def _bits(op: str, one: Any, other: Any, kind: Kind) -> Any:
    if np.shape(one) or np.shape(other):
        raise TraceError(f"{user_line()}: `{_SIGNS[op]}` on an array of traced integers; only single ones have bits")
    if op == "and" and type(one) is int:
        one, other = other, one
    if type(other) is int and other >= 0:
        if op == "lshift":
            return (one * 2**other).of_kind(kind)
        if op == "rshift":
            return (one // 2**other).of_kind(kind)
        if op == "and" and other & (other + 1) == 0:
            return (one % (other + 1)).of_kind(kind)
    asked(kind)
    plain = [(int if kind.python else np.int64)(v.decided() if isinstance(v, Integer) else v) for v in (one, other)]
    return getattr(operator, _NAMES.get(op, op))(*plain)


def _unsupported(sign: str, left: Any, right: Any) -> TypeError:
    names = [v.named() if isinstance(v, Tracer) else type(v).__name__ for v in (left, right)]
    return TypeError(f"{user_line()}: unsupported operand type(s) for {sign}: {names[0]!r} and {names[1]!r}")


def _no_operand(op: str, value: Tracer) -> Any:
    raise TypeError(f"{user_line()}: bad operand type for unary ~: {value.named()!r}")
