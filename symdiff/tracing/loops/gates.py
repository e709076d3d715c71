"""What a symbolic round may call: functions that change nothing but what they return.

Assumes that writes to traced arrays are noticed where they are kept (`values.storage`), other writes to items and attributes,
contexts and handlers where clones show them (`handing.storing`, `state.raising`). Guarantees that a round calls functions of
the user's whose code, with that nested in it, sets no global, and Python's and NumPy's own of the lists below; variables of
other functions that they set are shown as changed.
"""

import abc
import contextlib
import dis
import functools
import inspect
import types
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from symdiff.tracing.loops.growing import Growing
from symdiff.tracing.loops.keeping import Keeping
from symdiff.tracing.values.tracer import Tracer
from symdiff.vocabulary.libraries import is_library, is_users, module_of

_WRITING = frozenset(
    "STORE_GLOBAL DELETE_GLOBAL STORE_NAME DELETE_NAME DELETE_DEREF IMPORT_NAME IMPORT_FROM LOAD_BUILD_CLASS".split()
)
_SHOWN = frozenset(
    "STORE_SUBSCR STORE_SLICE STORE_ATTR DELETE_ATTR DELETE_SUBSCR BEFORE_WITH SETUP_WITH PUSH_EXC_INFO".split()
)  # what clones show
_CONTEXTS = (np.errstate, contextlib.nullcontext, contextlib.suppress)
_LIBRARIES = frozenset(
    "numpy scipy builtins math cmath _operator itertools functools _functools collections copy dataclasses statistics "
    "symdiff".split()
)  # whose functions change nothing but what they return, apart from these
_CHANGING = frozenset(
    "save savez savez_compressed savetxt load loadtxt genfromtxt fromfile tofile put put_along_axis place putmask copyto "
    "fill_diagonal seterr seterrcall setbufsize set_printoptions printoptions errstate vectorize frompyfunc nditer shuffle at "
    "apply_along_axis apply_over_axes fromfunction piecewise fromiter memmap setflags itemset resize rvs "
    "setattr delattr exec eval anext print input open globals locals vars dir breakpoint exit quit setitem delitem call iadd "
    "iand iconcat ifloordiv ilshift imatmul imod imul ior ipow irshift isub itruediv ixor sumprod".split()
)
FILLING = frozenset({np.put, np.put_along_axis, np.place, np.putmask, np.copyto, np.fill_diagonal})
_READING = frozenset("copy count get index items keys values".split())
_REMAKING = frozenset("resize setflags itemset".split())
_OWNERS = (str, bytes, int, float, complex, tuple, np.generic)
_WAITING = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_ARRAYS = frozenset(
    "sum prod mean std var min max dot copy reshape ravel transpose astype conj conjugate any all cumsum cumprod flatten "
    "squeeze swapaxes trace diagonal clip round argmax argmin item tolist repeat take".split()
)


def check_kept_call(keeping: Keeping, f: Any) -> None:
    """Refuse what a symbolic round may not call, and what changes a list or dict that a loop may have given another name."""
    owner = getattr(f, "__self__", None)
    if type(owner) in (list, dict, deque):
        if f.__name__ not in _READING:
            keeping.check_change(owner, f.__name__ in ("append", "extend"))
    elif keeping.open:
        if not _is_pure(f):
            raise keeping.refuse(f"a round calls {getattr(f, '__qualname__', None) or type(f).__name__}")
        inner = getattr(f, "__func__", f)
        for cell in shared_cells(inner) if type(inner) is types.FunctionType else ():
            keeping.check_change(cell)


def check_kept_context(keeping: Keeping, owner: Any) -> None:
    """Refuse a library's context that a symbolic round may not enter."""
    if keeping.open and not isinstance(owner, _CONTEXTS):
        raise keeping.refuse(f"a round enters a {type(owner).__name__}")


def _is_pure(f: Any) -> bool:
    """Whether a call changes nothing from before, or shows it."""
    if isinstance(f, np.ufunc):
        return any("O" not in loop for loop in f.types)  # of numbers
    if isinstance(f, types.MethodType):
        if isinstance(f.__self__, (Growing, Tracer)):
            return isinstance(f.__self__, Growing) or f.__name__ not in _REMAKING
        return _is_pure(f.__func__)
    if isinstance(f, functools.partial):
        return _is_pure(f.func)
    if isinstance(f, type):
        return not is_users(f) or _makes_plainly(f)
    if isinstance(f, types.FunctionType) and not is_library(f.__code__.co_filename):
        return is_pure_code(f.__code__)
    owner = getattr(f, "__self__", None)
    if owner is not None and not isinstance(owner, types.ModuleType):
        return isinstance(owner, (*_OWNERS, np.ufunc)) or (type(owner) is np.ndarray and f.__name__ in _ARRAYS)
    if isinstance(f, types.WrapperDescriptorType):
        return issubclass(f.__objclass__, _OWNERS)
    if is_users(type(f)):
        return _is_pure(type(f).__call__)
    module, name = module_of(f), getattr(f, "__name__", "")
    return module.partition(".")[0] in _LIBRARIES and not module.startswith("numpy.random") and name not in _CHANGING


def _makes_plainly(cls: Any) -> bool:
    """Whether a class is the user's, and to make an object of it runs no code of his that is not followed; or Python's own
    exceptions.
    """
    if isinstance(cls, type) and issubclass(cls, Exception) and cls.__module__ == "builtins":
        return True
    if type(cls) not in (type, abc.ABCMeta) or not is_users(cls):
        return False
    frozen = getattr(getattr(cls, "__dataclass_params__", None), "frozen", False)
    news = (object.__new__, tuple.__new__)
    return (frozen or cls.__setattr__ is object.__setattr__) and (
        cls.__new__ in news or isinstance(cls.__new__, types.FunctionType)
    )


@functools.lru_cache(maxsize=4096)
def must_show(code: types.CodeType) -> bool:
    """Whether a function, or one nested in it, assigns to items or attributes, enters contexts or handles exceptions."""
    own = any(step.opname in _SHOWN for step in dis.get_instructions(code))
    return own or any(must_show(c) for c in code.co_consts if isinstance(c, types.CodeType))


def shared_cells(f: types.FunctionType) -> Iterator[types.CellType]:
    """The variables of functions around f that f, or a function nested in it, sets."""
    return (
        cell for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True) if name in _set_names(f.__code__)
    )


@functools.lru_cache(maxsize=4096)
def _set_names(code: types.CodeType) -> frozenset[str]:
    own = {step.argval for step in dis.get_instructions(code) if step.opname == "STORE_DEREF"}
    inner = (_set_names(c) for c in code.co_consts if isinstance(c, types.CodeType))
    return frozenset(own).union(*inner).intersection(code.co_freevars)


@functools.lru_cache(maxsize=4096)
def is_pure_code(code: types.CodeType) -> bool:
    """Whether a function's code, and that nested in it, sets nothing but its own names."""
    if code.co_flags & _WAITING:
        return False
    for step in dis.get_instructions(code):
        if step.opname in _WRITING:
            return False
        if step.opname == "BINARY_OP" and step.argrepr.endswith("="):
            continue  # in place: `operate` looks at what it changes
    return all(is_pure_code(c) for c in code.co_consts if isinstance(c, types.CodeType))
