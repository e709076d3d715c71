"""Follows what the user's function calls: every call in a clone of it asks `follow` what to call instead.

Assumes calls from clones (see `cloning`), in the thread that traces. Guarantees that nothing is patched: other threads, and
code outside a trace, see the plain functions. Followed are the user's Python functions, methods, constructors, partial
functions, callables and cached functions, in any module that is not a library's (see `libraries`); functions with a rule
are recorded; Python's and NumPy's own that need a number or make an array have stand-ins. Refuses, with `TraceError` at the
user's line, library functions that cannot take traced values, and random numbers drawn without a seed.
"""

import copy
import dis
import functools
import inspect
import operator
import random
import sys
import traceback
import types
from typing import Any

import numpy as np

from symdiff.errors import SymdiffError, TraceError, forgive_error
from symdiff.rulebooks.book import outside_word
from symdiff.rulebooks.sites import OWN
from symdiff.tracing.captures.mentioning import calls_outside, nested_codes
from symdiff.tracing.captures.reaching import Found
from symdiff.tracing.captures.telling import Cache, Unfollowed, is_opaque_capture
from symdiff.tracing.following import reading
from symdiff.tracing.following.cloning import OPERATORS, Rewriter, clone
from symdiff.tracing.following.constructing import constructor, follow_replace
from symdiff.tracing.following.doors import holds_traced_inside, is_door_closed
from symdiff.tracing.following.guarding import guarded, of_scipy, public_name, told
from symdiff.tracing.following.implicit import (
    COMPENSATED,
    PLAIN,
    SPECIAL,
    cells,
    follow_special_method,
    follow_sum,
    iterated,
    operate,
)  # fmt: skip
from symdiff.tracing.following.loads import Loads
from symdiff.tracing.following.numpys import DISPATCHER, Made, OfCells, answering, of_lists, takes_lists
from symdiff.tracing.following.outside import (
    OUTSIDE,
    RANDOM_MODULES,
    SEEDED,
    UNSEEDED,
    asked_again,
    dated,
    drawing,
    drawn,
    looking,
    noting_use,
    reading_file,
    refuse_clock,
    seeding,
    watch_files,
)  # fmt: skip
from symdiff.tracing.following.substitution import substituted
from symdiff.tracing.library.builtin_functions import kind_of
from symdiff.tracing.library.cupy_names import instead_of_cupy
from symdiff.tracing.library.distributions import formula_part, of_distribution
from symdiff.tracing.library.making import fresh_numpy_array
from symdiff.tracing.library.ordering import sort_list
from symdiff.tracing.library.shaping import instead_of_vectorize
from symdiff.tracing.loops.collected import with_lists
from symdiff.tracing.loops.gates import FILLING, check_kept_call, must_show
from symdiff.tracing.loops.handing import given_to, listed, made, rounds, storing
from symdiff.tracing.loops.items import header
from symdiff.tracing.loops.iterators import WRITTEN, written_in_python
from symdiff.tracing.loops.rewriting import NAMES, Kept
from symdiff.tracing.state.attempt import Attempt, Stuck, current, current_keeping, need_all_contents
from symdiff.tracing.state.raising import handled
from symdiff.tracing.values.operands import takes_traced
from symdiff.tracing.values.standing import STANDING, way_out
from symdiff.tracing.values.texts import method
from symdiff.tracing.values.tracer import Tracer, is_traced
from symdiff.vocabulary import structures
from symdiff.vocabulary.libraries import is_library, is_users, line_unless_library, module_of, root_of_class
from symdiff.vocabulary.seams import Seam
from symdiff.vocabulary.signatures import Function

_CALLING: dict[tuple[str, str], int | None] = {
    **{("builtins", n): 0 for n in ("map", "filter")},
    **{("builtins", n): None for n in ("max", "min", "sorted")},
    **{("itertools", n): 0 for n in "starmap takewhile dropwhile filterfalse".split()},
    **{("itertools", n): 1 for n in ("accumulate", "groupby")},
    **{("numpy", n): 0 for n in ("fromfunction", "apply_along_axis", "apply_over_axes")},
    ("_functools", "reduce"): 0,
    ("_operator", "call"): 0,
}  # functions that call an argument, and its place; None for a keyword only
_NEW = ("list", "dict", "set", "sorted")  # what gives a new object
_ITERATING = frozenset("list tuple set dict zip enumerate map filter max min sorted any all".split())
_DISPATCHING = frozenset(nested_codes(functools.singledispatchmethod.__get__.__code__))
_DISPATCHED = getattr(functools, "_singledispatchmethod_get", None)  # in place of that function, from Python 3.14 on
_CUPY = frozenset({"cupy", "cupyx"})
_INERT = ("math", "cmath", "symdiff")  # modules whose functions call no argument
_HARMLESS = ("builtins", "math", "cmath", "_operator", "itertools", "_functools", "functools", "collections", "numpy", "abc")
_HASHED = (types.FunctionType, types.BuiltinFunctionType, np.ufunc, DISPATCHER)  # kinds told apart by identity
_SLOTS = (types.WrapperDescriptorType, types.MethodDescriptorType)
_Cached = type(functools.lru_cache(len))
_TELLING = frozenset(
    """get count index remove pop setdefault fromkeys getitem __getitem__ contains __contains__ countOf indexOf is_ is_not hash
        id set frozenset dict Counter str repr format""".split()
)  # what may tell objects apart by their identity


def follow(f: Any) -> Any:
    """What to call in place of f."""
    attempt = current()
    if attempt is None:
        return f
    keeping = attempt.keeping
    if keeping is not None:
        if keeping.open and type(f) is type(np.copyto) and f in FILLING:
            return functools.partial(_filling, keeping, f, _followed(f, attempt))
        check_kept_call(keeping, f)
        tells = type(f) is _Cached or getattr(f, "__name__", "") in _TELLING
        if tells and keeping.stands and not _is_users_own(getattr(f, "__func__", f)):
            check = keeping.check_identity if f in (id, operator.is_, operator.is_not) else keeping.check_told_apart
            return functools.partial(_telling, check, _followed(f, attempt))
    return _followed(f, attempt)


def _filling(keeping: Any, f: Any, found: Any, *args: Any, **kwargs: Any) -> Any:
    """A call of what fills an array: in a round one that shows its changes."""
    if not args or not isinstance(args[0], Tracer):
        raise keeping.refuse(f"a round calls {f.__name__}")
    return found(*args, **kwargs)


def _telling(check: Any, found: Any, *args: Any, **kwargs: Any) -> Any:
    """A call of what may tell objects apart by their identity."""
    check(*args, *kwargs.values())
    return found(*args, **kwargs)


def _followed(f: Any, attempt: Attempt) -> Any:
    kind = type(f)
    if kind is types.FunctionType and ".call" in f.__code__.co_freevars and attempt.rules is None:
        return f  # made inside a clone
    if kind is types.MethodType:
        return _method(f, attempt)
    if kind is types.MethodWrapperType and f.__name__ == "__call__":
        return follow(f.__self__)
    if kind is types.BuiltinMethodType and type(f.__self__) is not types.ModuleType and f.__self__ is not None:
        return _bound(f, attempt)
    if kind not in _HASHED and not isinstance(f, type):
        return _found(f, attempt)
    found = attempt.known.get(f)
    if found is None:
        found = _found(f, attempt)
        if not (kind is types.FunctionType and "<locals>" in f.__qualname__):  # inner functions come and go
            attempt.known[f] = found
    keeping = attempt.keeping
    if keeping is None:
        return found
    if keeping.open and kind is types.FunctionType and _is_users_own(f):
        shown = any(name.startswith(".") for name in getattr(getattr(found, "__code__", None), "co_freevars", ()))
        if not shown and must_show(f.__code__):
            raise keeping.refuse(f"a round calls {f.__qualname__}, whose source is not at hand")
    return with_lists(f, found) if keeping.collected and not _is_users_own(f) else found


def _is_users_own(f: Any) -> bool:
    return is_users(f) if isinstance(f, type) else type(f) is types.FunctionType and not is_library(f.__code__.co_filename)


def _found(f: Any, attempt: Attempt) -> Any:
    kind = type(f)
    key = tuple(v if type(v) is str else None for v in (getattr(f, "__module__", None), getattr(f, "__name__", None)))
    rule = None if attempt.rules is None else attempt.rules.of(f)
    if rule is not None:
        return _ruled(f, rule, attempt)
    if not (isinstance(f, type) or _CUPY.isdisjoint(map(root_of_class, (f, kind)))):
        return instead_of_cupy(f, follow)
    if kind is types.FunctionType and (f in WRITTEN or not is_library(f.__code__.co_filename)):
        return _cloned(f, attempt)
    asks = key[0] == "builtins" and key[1] in SPECIAL
    row = STANDING.get(f) if kind in _HASHED or kind is type or isinstance(f, type) else None
    found = row.stand if row is not None and row.always else f
    found = _calling(found, _CALLING[key]) if key in _CALLING else found
    if attempt.thorough and key[0] == "builtins" and key[1] in _ITERATING:
        found = _iterating(found, key[1] in ("max", "min"))
        found = _making(found, attempt) if key[1] in _NEW else found
        return _written(f, found) if f is list and attempt.keeping is not None else found
    if found is not f:
        found = Made(found) if attempt.thorough and key[0] == "numpy" else found
        return follow_special_method(key[1], found, follow) if asks else found
    if asks:
        return follow_special_method(key[1], _handing(f), follow)
    if kind in _SLOTS and f.__objclass__ in (bool, int, float, complex):
        return _slot(f)
    if key == ("dataclasses", "replace"):
        return functools.partial(follow_replace, follow)
    if (attempt.thorough or COMPENSATED) and key == ("builtins", "sum"):
        return functools.partial(follow_sum, follow)
    if attempt.thorough and key[0] == "_operator" and key[1] in OPERATORS.values():
        return functools.partial(operate, follow, key[1])
    public = public_name(f)
    if public in STANDING:
        return of_scipy(f, public)
    if way_out(public, ""):
        return told(f, public)
    if kind is _DISPATCHED:
        return _dispatched(f, f._obj, f._cls)
    if kind is types.FunctionType:
        part = formula_part(f)
        return _function(f, attempt) if part is None else part if part is not f else _cloned(f, attempt)
    if isinstance(f, type):
        return _class(f, attempt)
    if kind in _HASHED:
        return _library(f, attempt)
    return _object(f, attempt)


def _ruled(f: Any, rule: Any, attempt: Attempt) -> Any:
    """A function with a rule, whose bodies are code that the derivative runs."""
    bodies = rule.body if isinstance(rule.body, dict) else {}
    run = tuple(body for key, found in bodies.items() if key not in OWN for _, body in found)
    attempt.known[Found((*run, bodies.get("shapes")))] = None
    if attempt.reading is not None and not is_library(getattr(getattr(f, "__code__", None), "co_filename", "<string>")):
        attempt.reading.need_all()  # it may read the arrays wherever it is run
    return _recorded(f, rule)


def _cloned(f: types.FunctionType, attempt: Attempt) -> Any:
    """A function of the user's."""
    keeps = attempt.keeping is not None and attempt.thorough
    if attempt.reading is None:
        found = clone(f, KEPT | CELLS, True, _Keeping) if keeps else clone(f, CELLS, attempt.thorough)
        if found is None:
            attempt.known[Unfollowed(f)] = None
            _note_loops(f.__code__, attempt)
        return found or _announced(substituted(f, _alone))
    found = clone(f, KEPT | LOADED, True, _KeepingLoads) if keeps else clone(f, LOADED, attempt.thorough, Loads)
    if found is None:
        attempt.reading.need_all()
        _note_loops(f.__code__, attempt)
    return found


def _note_loops(code: types.CodeType, attempt: Attempt) -> None:
    """Loops of a function without source are written out."""
    if attempt.keeping is not None and any("JUMP_BACKWARD" in i.opname for i in dis.get_instructions(code)):
        place = code.co_filename, code.co_firstlineno, 0
        attempt.keeping.reasons[place] = "the source of its function is not found; put that into a file or a notebook"


class _Keeping(Kept, Rewriter):
    """Loops may be kept."""


class _KeepingLoads(Kept, Loads):
    """Loops may be kept, and loads are looked up."""


def _alone(f: Any) -> Any:
    """What code without source calls in place of f: what a random generator draws is not followed, so it needs a seed."""
    found = follow(f)
    if not any(f is made for made in UNSEEDED):
        return found

    def seeded(*args: Any, **kwargs: Any) -> Any:
        if f is random.SystemRandom or all(v is None for v in (*args, *kwargs.values())):
            raise TraceError(drawn(f))
        return found(*args, **kwargs)

    return seeded


def _announced(f: types.FunctionType) -> Any:
    """A function whose source is not the user's: what it handles is not known."""
    if not _handles(f.__code__):
        return f

    @functools.wraps(f)
    def announced(*args: Any, **kwargs: Any) -> Any:
        with handled(lambda: None):
            return f(*args, **kwargs)

    @functools.wraps(f)
    def yielding(*args: Any, **kwargs: Any) -> Any:
        with handled(lambda: None):
            return (yield from f(*args, **kwargs))

    return yielding if inspect.isgeneratorfunction(f) else announced


def _handles(code: types.CodeType) -> bool:
    """Whether a function, or one nested in it, handles exceptions."""
    return bool(code.co_exceptiontable) or any(map(_handles, nested_codes(code)))


def _function(f: types.FunctionType, attempt: Attempt) -> Any:
    """A library's Python function: one that Python made around the user's, or one like `_library`'s others."""
    if f in (copy.copy, copy.deepcopy):
        return _making(_library(f, attempt), attempt)
    if f.__code__ in _DISPATCHING:
        return _dispatched(f, **inspect.getclosurevars(f).nonlocals)
    registry = getattr(f, "registry", None)
    if registry is not None and hasattr(f, "dispatch"):
        return lambda *args, **kwargs: follow(f.dispatch(_kind(args[0])))(*args, **kwargs)  # type: ignore[attr-defined]
    inner = getattr(f, "__wrapped__", None)
    if isinstance(inner, types.FunctionType) and not is_library(inner.__code__.co_filename):
        cells = (types.CellType(follow(inner)) if c.cell_contents is inner else c for c in f.__closure__ or ())
        return _announced(types.FunctionType(f.__code__, f.__globals__, f.__name__, f.__defaults__, tuple(cells)))
    return _library(f, attempt)


def _dispatched(f: Any, obj: Any, cls: Any, **_: Any) -> Any:
    """A method of `functools.singledispatchmethod`, bound to an object."""
    dispatch = f.register.__self__.dispatcher.dispatch
    return lambda *args, **kwargs: follow(dispatch(_kind(args[0])).__get__(obj, cls))(*args, **kwargs)


def _kind(value: Any) -> Any:
    return kind_of(value)


def _method(f: types.MethodType, attempt: Attempt) -> Any:
    inner = f.__func__
    if inner is Tracer.__array__:
        return functools.partial(STANDING[np.asarray].stand, f.__self__)
    rule = None if attempt.rules is None else attempt.rules.of(f)
    if rule is not None:
        return _ruled(f, rule, attempt)
    if isinstance(f.__self__, Tracer):
        return f
    found = attempt.known.get(inner) if type(inner) is types.FunctionType else None
    if found is None:
        module = module_of(type(f.__self__))
        if module in RANDOM_MODULES:
            return drawing(f, f.__self__, attempt)
        if module.startswith("scipy.stats."):
            return _of_distribution(f, attempt)
        found = follow(inner) if type(inner) in (types.FunctionType, _Cached) else inner
    return f if found is inner else types.MethodType(found, f.__self__)


def _of_distribution(f: types.MethodType, attempt: Attempt) -> Any:
    """A method of one of SciPy's distributions: a formula is followed, what calls it is not."""
    if f.__name__.startswith("_") and f.__name__ != "__call__" and type(f.__func__) is types.FunctionType:
        attempt.followed.add("SciPy")
        return types.MethodType(_cloned(f.__func__, attempt), f.__self__)
    plain = _handing(guarded(f))

    def method(*args: Any, **kwargs: Any) -> Any:
        if not holds_traced_inside((args, kwargs, f.__self__)):
            return plain(*args, **kwargs)
        return of_distribution(f.__self__, f.__name__, follow, args, kwargs)

    return method


def _bound(f: Any, attempt: Attempt) -> Any:
    """A method of a builtin type."""
    owner = f.__self__
    if type(owner) in (list, dict) and f.__name__ == "copy":
        return _making(f, attempt)
    if type(owner) is list:
        return functools.partial(sort_list, owner) if f.__name__ == "sort" else f
    if isinstance(owner, str):
        return method(owner, f)
    if isinstance(owner, np.ndarray):
        return _of_array(f, owner, attempt)
    if isinstance(owner, np.ufunc):
        return OfCells(f)
    if module_of(type(owner)) in RANDOM_MODULES:
        return drawing(f, owner, attempt)
    if outside_word(module_of(owner), f.__name__) == "clock":
        return refuse_clock(f)
    if isinstance(owner, type) and f.__name__ == "__subclasses__":
        return asked_again(f, attempt)
    if is_opaque_capture(owner):
        return _handing(noting_use(f, owner, attempt))
    return _handing(guarded(f)) if is_door_closed(f) else f if type(owner) in PLAIN else _handing(f)


def _of_array(f: Any, owner: np.ndarray, attempt: Attempt) -> Function:
    """A method of a plain array: with traced arguments, NumPy's function of that name."""
    function = getattr(np, f.__name__, None)

    def method(*args: Any, **kwargs: Any) -> Any:
        traced = owner.dtype == object or takes_traced(args, kwargs)
        if traced and function is not None and owner.dtype != object:
            return follow(function)(owner, *args, **kwargs)
        result = f(*args, **kwargs)
        return fresh_numpy_array(result, (owner, *args, *kwargs.values())) if attempt.thorough else result

    return method


def _library(f: Any, attempt: Attempt) -> Any:
    """A function of a library: as it stands, but told apart where it cannot take traced values."""
    module = getattr(f, "__module__", None) or ""
    name = getattr(f, "__name__", "")
    root = module.partition(".")[0]
    outside = outside_word(module, name)
    if outside in OUTSIDE:
        return OUTSIDE[outside](f, attempt)
    if name in SEEDED or (name == "seed" and module == "numpy.random"):
        return seeding(f, attempt)
    if module in (*RANDOM_MODULES, "numpy.random", "secrets"):
        return drawing(f, None, attempt)
    if root == "numpy" and type(f) is types.FunctionType and not module.startswith("numpy.testing"):
        f = answering(f, f"{module}.{name}", attempt)
    if outside == "state":
        return asked_again(f, attempt)
    if root == "numpy" or type(f) is np.ufunc:
        if type(f) is DISPATCHER and takes_lists(f):
            f = of_lists(f)
        elif type(f) is np.ufunc or type(f) is DISPATCHER:
            f = OfCells(f)
        return Made(f) if attempt.thorough else f
    return f if root in _INERT else _handing(f) if root in _HARMLESS else _handing(guarded(f))


def _object(f: Any, attempt: Attempt) -> Any:
    kind = type(f)
    if kind is functools.partial:
        return functools.partial(follow(f.func), *f.args, **f.keywords)
    if kind is _Cached:
        return _remembered(f, attempt)
    if kind is operator.methodcaller:
        made, given = f.__reduce__()[:2]  # with keywords, the first is a partial
        name, *rest = (*getattr(made, "args", ()), *given)
        return lambda owner: follow(getattr(owner, name))(*rest, **getattr(made, "keywords", {}))
    if kind is np.vectorize:
        return functools.partial(_vectorized, f)
    public = public_name(kind)
    if way_out(public, ""):
        return told(f, public)
    if module_of(kind).startswith("scipy.stats."):
        return follow(f.__call__)
    compiled = getattr(f, "py_func", None)  # numba's functions keep their Python one
    if isinstance(compiled, types.FunctionType):
        return follow(compiled)
    method = getattr(kind, "__call__", None)  # noqa: B004
    if isinstance(method, types.FunctionType) and (method in STANDING or not is_library(method.__code__.co_filename)):
        return types.MethodType(follow(method), f)
    if getattr(f, "__module__", None) == "numpy.random" or getattr(f, "__name__", None) in SEEDED:
        return _library(f, attempt)
    return _handing(guarded(f)) if is_door_closed(f) or is_door_closed(kind) else _handing(f)


def _slot(f: Any) -> Function:
    """A method of a builtin number's type, such as `float.__add__`."""
    return lambda owner, *args: (getattr(owner, f.__name__) if isinstance(owner, Tracer) else functools.partial(f, owner))(
        *args
    )


def _calling(f: Function, place: int | None) -> Function:
    """A function that calls one of its arguments: it is followed."""

    def calling(*args: Any, **kwargs: Any) -> Any:
        args = tuple(follow(a) if i == place and callable(a) else a for i, a in enumerate(args))
        return f(*args, **{k: follow(v) if callable(v) and not isinstance(v, Tracer) else v for k, v in kwargs.items()})

    return calling


def _handing(f: Function) -> Function:
    """A function of a library that may hand its arguments to code in C: one that finds something outside is followed."""
    if any(f is own for own in reading.FRAMES | reading.RUNNING):
        return f

    def handing(*args: Any, **kwargs: Any) -> Any:
        keeping = current_keeping()
        for value in args if keeping is not None else ():
            keeping.note_taken(value)
        return f(*map(_handed, args), **{k: _handed(v) for k, v in kwargs.items()})

    return handing


def _handed(value: Any) -> Any:
    return follow(value) if type(value) in _CARRIED and calls_outside(value) else value


_CARRIED = (
    types.FunctionType, types.BuiltinFunctionType, types.MethodType, functools.partial, staticmethod, classmethod,
)  # fmt: skip


def _iterating(f: Function, compares: bool) -> Function:
    """A function that runs over its arguments, or `compares` several: the user's own iterators are followed."""

    def iterating(*args: Any, **kwargs: Any) -> Any:
        return f(*(args if compares and len(args) > 1 else [iterated(follow, a) for a in args]), **kwargs)

    return iterating


def _written(f: Any, found: Function) -> Function:
    """A function of Python's as one in Python, where this is to be followed."""

    def written(*args: Any, **kwargs: Any) -> Any:
        own = written_in_python(f, args, kwargs)
        return found(*args, **kwargs) if own is None else follow(own)(*args)

    return written


def _making(f: Function, attempt: Attempt) -> Function:
    """A function that gives a new object, which a round of a loop may change."""
    keeping = attempt.keeping
    return f if keeping is None else lambda *args, **kwargs: keeping.made(f(*args, **kwargs))


recorded_call = Seam("a call of a function with a rule")


def _recorded(f: Function, rule: Any) -> Function:
    def recorded(*args: Any, **kwargs: Any) -> Any:
        given = (*args, *kwargs.values())
        if not any(map(is_traced, given)) and not any(map(is_traced, structures.leaves(given))):
            return f(*args, **kwargs)
        return recorded_call(f, rule, args, kwargs)

    return recorded


def _vectorized(f: Any, *args: Any, **kwargs: Any) -> Any:
    if not takes_traced(args, kwargs):
        return f(*args, **kwargs)
    return instead_of_vectorize(f, follow(f.pyfunc), args, kwargs)


# -- cached functions


def _remembered(f: Any, attempt: Attempt) -> Function:
    """A function behind `lru_cache`: what it keeps counts, results of this run are kept for this run only.

    Traced arguments are told apart by identity.
    """

    def remembered(*args: Any, **kwargs: Any) -> Any:
        before = f.cache_info()
        if not holds_traced_inside((args, kwargs)):
            attempt.known[Cache(f)] = None
            if before.currsize:
                need_all_contents()
                result = f(*args, **kwargs)
                if f.cache_info().misses == before.misses:
                    return result
        key = (f, *(_identity(a) for a in args), *((k, _identity(v)) for k, v in sorted(kwargs.items())))
        if key not in attempt.memo:
            attempt.memo[key] = (follow(f.__wrapped__)(*args, **kwargs), args, kwargs)  # the arguments keep their identity
        return attempt.memo[key][0]

    return remembered


def _identity(value: Any) -> Any:
    if isinstance(value, Tracer):
        return (Tracer, hash(value) if value.has_memory() else id(value))  # arrays have no hash
    if type(value) is tuple:
        return tuple(map(_identity, value))
    try:
        hash(value)
    except SymdiffError as error:  # an object that holds traced values
        forgive_error(error)
        return (type(value), id(value))
    return (type(value), value)


def _class(cls: Any, attempt: Attempt) -> Any:
    if cls.__name__ in SEEDED and module_of(cls) in RANDOM_MODULES:
        return seeding(cls, attempt)
    if cls is np.memmap:
        return reading_file(cls, attempt)
    if cls is np.datetime64:
        return dated(cls)
    found = constructor(cls, follow)
    if found is cls and is_door_closed(cls):
        return _handing(guarded(cls))
    if module_of(cls).partition(".")[0] in _HARMLESS or not _is_of_files(cls):
        return _handing(cls) if found is cls else found
    return _handing(looking(found, watch_files))


@functools.lru_cache(maxsize=4096)
def _is_of_files(cls: Any) -> bool:
    """Whether a class of a library may read a file that its constructor is told."""
    return (
        is_library(getattr(sys.modules.get(module_of(cls)), "__file__", None) or "")
        or module_of(cls) in sys.builtin_module_names
    )


def followed_error_line(error: BaseException) -> str:
    """The user's innermost line that an exception passed."""
    lines = [line for frame, at in traceback.walk_tb(error.__traceback__) if (line := line_unless_library(frame, at))]
    return lines[-1] if lines else "?"


def followed_calls(f: Function, attempt: Attempt) -> Function:
    """f with its calls followed; raises `Stuck` where only a thorough run can go on."""

    def run(*args: Any, **kwargs: Any) -> Any:
        with attempt:
            try:
                result = follow(f)(*args, **kwargs)
            except Exception as error:
                if attempt.stuck and not attempt.thorough:
                    raise Stuck from None
                if isinstance(error.__cause__, TraceError) and not isinstance(error, SymdiffError):
                    raise error.__cause__ from None  # NumPy's error about our own
                if isinstance(error, TypeError) and "Tracer" in str(error):
                    raise TraceError(
                        f"{followed_error_line(error)}: {error}: compiled code asks an object for its number"
                    ) from error
                raise
        if attempt.stuck and not attempt.thorough:
            raise Stuck
        return result

    return run


CELLS = cells(follow)
LOADED = CELLS | reading.cells(follow, _CALLING)
_KEPT = (*(functools.partial(f, follow) for f in (rounds, header, given_to, listed)), storing, made)
KEPT = dict(zip(NAMES, map(types.CellType, _KEPT), strict=True))
