"""Whether what stands for a library's function gives what the function itself gives: it is asked, with sample numbers.

Assumes a result, and the call that it is the result of. Guarantees shapes, dtypes and errors of the function's own, and that no
argument is passed over: what a stand-in does not read has its default. Refuses differences, with `TraceError` at the user's
line. Answers are kept by the function, its plain arguments, and the shapes, dtypes and kinds of traced ones.
"""

import dis
import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from symdiff.errors import TraceError
from symdiff.tracing.state.raising import check_signal
from symdiff.tracing.values.integers import Integer, integers_of
from symdiff.tracing.values.kinds import Form, asked, check_given, traced_form, traced_sample, unheard
from symdiff.tracing.values.operands import as_array, holds_traced
from symdiff.tracing.values.tracer import Tracer
from symdiff.vocabulary import structures
from symdiff.vocabulary.heads import Shape
from symdiff.vocabulary.libraries import user_line
from symdiff.vocabulary.signatures import Arguments, Function, Keywords, Lookup

_MOST = 20_000  # answers that are known
_LARGEST = 1 << 13  # cells that are asked with
STEERING = frozenset(
    """assume_unique copy device kind method optimize overwrite_input stable subok overwrite_a overwrite_b overwrite_x
        overwrite_ab check_finite lapack_driver workers plan driver""".split()
)  # what changes nothing, or how something is computed alone
_NARROWER = {
    ("d", "f"),
    ("D", "F"),
}  # constants beside cells of single precision have a dtype of their own in arrays of objects
_SINGLE = (np.dtype("f"), np.dtype("F"))
_NUMBERS = (Tracer, Integer, int, float, complex, bool)
_known: dict[Any, "Answer | None"] = {}


Parts = tuple[tuple[Shape, str], ...]


class Answer(NamedTuple):
    """Shape and dtype of each part of a result, or the error that there is instead."""

    parts: Parts
    error: str = ""


@dataclass(eq=False, slots=True)
class Call:
    """A call of a library's function: its arguments one after the other, and their `tree`, the structure of `(args, kwargs)`,
    None of numbers by position.
    """

    function: Any
    leaves: Sequence[Any]
    tree: Any
    _forms: tuple[Form | None, ...] | None = None

    @property
    def forms(self) -> tuple[Form | None, ...]:
        """The forms of the traced arguments, None for others."""
        if self._forms is None:
            self._forms = tuple(traced_form(v) if isinstance(v, Tracer) else None for v in self.leaves)
        return self._forms

    @property
    def traced(self) -> list[Tracer]:
        """The traced arguments."""
        return [v for v in self.leaves if isinstance(v, Tracer)]

    def result(self, leaves: Iterable[Any]) -> Any:
        """What the function gives for other arguments in the same places."""
        args, kwargs = (leaves, {}) if self.tree is None else structures.unflatten(self.tree, list(leaves))
        return self.function(*args, **kwargs)

    def shown(self, sample: Lookup) -> Any:
        """What the function gives for something in place of each traced argument."""
        return self.result(sample(v) if isinstance(v, Tracer) else v for v in self.leaves)

    @classmethod
    def of(cls, function: Any, args: Arguments, kwargs: Keywords) -> "Call":
        """By its arguments as they are given."""
        return cls(function, *structures.flatten((args, kwargs), none_is_leaf=True))

    def tried(self, numbers: Callable[[Form, int], Any]) -> "Answer | Exception":
        """The answer for these numbers in place of traced values, or what is raised."""
        given = [numbers(f, k) if f is not None else v for k, (v, f) in enumerate(zip(self.leaves, self.forms, strict=True))]
        with unheard():
            try:
                found = self.result(given)
            except Exception as error:  # whichever a library raises
                check_signal(error)
                return error
        return Answer(tuple(_told_of(v) for v in structures.all_leaves(found)))


def check_read(implementation: Function, bound: inspect.BoundArguments, name: str) -> None:
    """Refuse arguments that the implementation does not read, unless they are its defaults."""
    for key in unread(implementation):
        default = bound.signature.parameters[key].default
        value = bound.arguments.get(key, default)
        if default is not inspect.Parameter.empty and (type(value), repr(value)) != (type(default), repr(default)):
            raise TraceError(f"{user_line()}: {name}({key}=...) of a traced value is not supported; leave {key} away")


signature_of = functools.lru_cache(maxsize=1024)(inspect.signature)


@functools.lru_cache(maxsize=1024)
def unread(implementation: Function) -> tuple[str, ...]:
    """The parameters that an implementation does not read."""
    code = getattr(inspect.unwrap(implementation), "__code__", None)
    if code is None:
        return ()
    read = {name for i in dis.get_instructions(code) if i.opname.startswith("LOAD") for name in _names(i.argval)}
    parameters = signature_of(implementation).parameters
    return tuple(n for n in parameters if n not in read and n not in code.co_cellvars and n not in STEERING)


def _names(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def check_answer(function: Any, name: str, args: Arguments, kwargs: Keywords, found: Any) -> Any:
    """A result, of truths or integers where the function gives these; another shape or dtype, or an error, is refused."""
    plain = not kwargs and all(type(v) in _NUMBERS for v in args)
    leaves, tree = (args, None) if plain else structures.flatten((args, kwargs), none_is_leaf=True)
    return check_call(Call(function, leaves, tree), name, found)


def check_call(call: Call, name: str, found: Any) -> Any:
    """`check_answer` of a call."""
    function, leaves, tree = call.function, call.leaves, call.tree
    if any((callable(v) and not isinstance(v, type)) or (isinstance(v, np.ndarray) and v.dtype == object) for v in leaves):
        return found
    forms = call.forms
    results = [found] if isinstance(found, Tracer) else structures.all_leaves(found)
    of_cells = [isinstance(v, np.ndarray) and v.dtype == object and holds_traced(v) for v in results]
    if any(of_cells):  # traced cells, which are no array yet
        results = [as_array(v) if c else v for v, c in zip(results, of_cells, strict=True)]
        found = structures.unflatten(structures.flatten(found, none_is_leaf=True)[1], results)
    arrays = [v for v in (*leaves, *results) if isinstance(v, (Tracer, np.ndarray))]
    counted = [isinstance(v, Tracer) and v.is_of_integers() for v in leaves]
    if any(counted):
        _note_integers(call, counted, results)
    if any(getattr(leaf, "dtype", None) in _SINGLE for leaf in leaves):
        for f in (f for f in forms if f is not None and not f.shape):
            asked(f.kind)  # it matters whether a number is Python's
    numbers = all(f is None or (f.code != "?" and not f.whole) for f in forms)
    if any(f is not None and f.kind.several for f in forms) or (numbers and sum(v.size for v in arrays) > _LARGEST):
        return found
    key = function, tree, forms, tuple(None if f is not None else _told(v) for v, f in zip(leaves, forms, strict=True))
    if key not in _known:
        if len(_known) >= _MOST:
            _known.clear()
        _known[key] = _asked(call)
    answer = _known[key]
    if answer is None:
        return found
    if answer.error:
        raise TraceError(f"{user_line()}: {name}: {answer.error}")
    own = tuple(_told_of(v) for v in results)
    if any(of_cells) and [mine[0] for mine in own] == [asked[0] for asked in answer.parts]:
        narrow = [c and (mine[1], asked[1]) in _NARROWER for c, mine, asked in zip(of_cells, own, answer.parts, strict=True)]
        results = [v.astype(asked[1]) if n else v for v, n, asked in zip(results, narrow, answer.parts, strict=True)]
        found = structures.unflatten(structures.flatten(found, none_is_leaf=True)[1], results)
        own = tuple(_told_of(v) for v in results)
    if not _agree(own, answer):
        answer = _known[key] = _varied(call, own, answer)
    if answer is None:
        return found
    if not _agree(own, answer):
        raise TraceError(
            f"{user_line()}: {name} with these arguments gives {_listed(answer.parts)}, which is not followed "
            f"(it would be {_listed(own)}); use other arguments, or write it with simpler functions"
        )
    if all(mine[1] == asked[1] for mine, asked in zip(own, answer.parts, strict=True)):
        return found
    computed = function.__name__ if any(f is not None and f.whole for f in forms) else ""  # counts of truths are exact
    typed = [_of_numpys(computed, value, code) for value, (_, code) in zip(results, answer.parts, strict=True)]
    return (
        typed[0] if isinstance(found, Tracer) else structures.unflatten(structures.flatten(found, none_is_leaf=True)[1], typed)
    )


def _of_numpys(name: str, value: Any, code: str) -> Any:
    """A traced number, held as a floating one, as the truth or the integer that NumPy has."""
    if type(value) not in (Tracer, Integer) or value.dtype.kind != "f" or code not in "?bhilqBHILQ":
        return value
    if code == "?":
        return (value != 0).of_kind(value.kind)
    return integers_of(value, np.dtype(code), name)


def check_written(function: Any, name: str, args: Arguments, kwargs: Keywords, out: Any) -> None:
    """Refuse arrays that NumPy does not take as `out=` of this call, for their shape, dtype or order in memory."""
    call = Call.of(function, args, {**kwargs, "out": out})
    targets = {id(o) for o in (out if isinstance(out, tuple) else (out,))}

    def sample(form: Form, place: int) -> Any:
        if id(call.leaves[place]) not in targets:
            return traced_sample(form)
        lies = call.leaves[place].flags
        lasting = form.shape if lies.c_contiguous or lies.f_contiguous else (*form.shape, 2)
        found = np.zeros(lasting, form.whole or form.code, "C" if lies.c_contiguous else "F")
        return found if found.ndim == len(form.shape) else found[..., 0]

    answer = call.tried(sample)
    if isinstance(answer, (TypeError, ValueError)) and not isinstance(answer, np.linalg.LinAlgError):
        raise TraceError(f"{user_line()}: {name}: {answer}")


def _note_integers(call: Call, counted: list[bool], results: list[Any]) -> None:
    """Note which results are of integers, where arguments are that the derivative takes as floating-point numbers."""
    dtypes = [v.integers_held() or np.dtype(int) if c else None for v, c in zip(call.leaves, counted, strict=True)]

    def sample(form: Form, place: int) -> Any:
        found = np.asarray(traced_sample(form)).astype(dtypes[place] or form.whole or form.code)
        return found if form.shape or form.kind.array else found[()]

    answer = call.tried(sample)
    for value, (_, code) in zip(results, answer.parts, strict=False) if isinstance(answer, Answer) else ():
        if isinstance(value, Tracer):
            value.note_integers(np.dtype(code))
            check_given(np.dtype(code), call.function)


def raises_itself(function: Any, args: Arguments, kwargs: Keywords) -> bool:
    """Whether a function raises for numbers of these shapes, too."""
    return not callable(function) or not isinstance(Call.of(function, args, kwargs).tried(_numbers), Answer)


def _told(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.dtype.char, value.shape, value.tobytes()
    return type(value), repr(value)


def _told_of(value: Any) -> tuple[Shape, str]:
    value = value if isinstance(value, (Tracer, np.ndarray)) else np.asarray(value)
    return tuple(value.shape), value.dtype.char


def _agree(own: Parts, answer: Answer) -> bool:
    """Whether shapes and dtypes are the same; whole numbers are held as others."""
    return len(own) == len(answer.parts) and all(
        mine[0] == asked[0] and (mine[1] == asked[1] or (asked[1] not in "fdFDegG" and mine[1] not in "FD"))
        for mine, asked in zip(own, answer.parts, strict=True)
    )


def _listed(parts: Parts) -> str:
    return ", ".join(f"{np.dtype(code)} of shape {shape}" for shape, code in parts)


def _asked(call: Call) -> Answer | None:
    """The function's answer for numbers; None where it depends on these."""
    raised: list[Exception] = []
    for numbers in (_numbers, lambda form, place: traced_sample(form)):
        found = call.tried(numbers)
        if isinstance(found, Answer):
            return found
        raised.append(found)
    structural = (TypeError, ValueError, IndexError)
    if any(isinstance(e, np.linalg.LinAlgError) or not isinstance(e, structural) for e in raised):
        return None
    return Answer((), str(raised[0]))


def _varied(call: Call, own: Parts, answer: Answer) -> Answer | None:
    """The answer for other numbers, where it is ours for some of these; None where shapes depend on them."""
    for k in range(12):
        found = call.tried(functools.partial(_turning, k))
        if isinstance(found, Answer) and _agree(own, found):
            return found
        if isinstance(found, Answer) and [shape for shape, _ in found.parts] != [shape for shape, _ in answer.parts]:
            return None
    return answer


def _numbers(form: Form, place: int) -> Any:
    """Numbers between 0 and 1 that differ; square matrices are positive definite. Integers are 0, a place on every axis."""
    if form.whole:
        return traced_sample(form) * 0
    if form.code == "?" or not form.shape:
        return np.array(traced_sample(form)) if form.shape else traced_sample(form)
    found = 0.5 + 0.4 * np.cos(1.3 * (np.arange(int(np.prod(form.shape))) + 17 * place) ** 2).reshape(form.shape)
    if len(form.shape) > 1 and form.shape[-1] == form.shape[-2]:
        found = np.ones(form.shape) + np.diag(np.arange(2.0, 2.0 + form.shape[-1]))
    return found.astype(form.code)


def _turning(k: int, form: Form, place: int) -> Any:
    """Numbers of both signs and zero, some of them of matrices and polynomials with complex roots; truths of both kinds."""
    if not form.shape:
        return _numbers(form, place)
    found = np.cos(1.3 * (np.arange(int(np.prod(form.shape))) + k + 17 * place) ** 2).reshape(form.shape)
    if form.whole or form.code == "?" or k % 4 == 3:
        found = np.rint(found)
    return (found > 0 if form.code == "?" else found).astype(np.array(traced_sample(form)).dtype)
