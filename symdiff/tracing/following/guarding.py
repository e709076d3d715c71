"""Functions of libraries other than NumPy: told apart where they cannot take traced values.

Assumes that what stands for SciPy's functions is in their rows. Guarantees that without traced arguments the functions
themselves are called. Refuses, with `TraceError` at the user's line, those that are compiled, or fail, and names what works.
"""

import sys
from typing import Any

from symdiff.errors import SymdiffError, TraceError
from symdiff.ir.building import active_builders
from symdiff.tracing.following.doors import holds_traced_inside, is_door_closed, opened, without_traced
from symdiff.tracing.following.numpys import DISPATCHER, unfollowed
from symdiff.tracing.following.outside import watch_files
from symdiff.tracing.library.functions import turned
from symdiff.tracing.values.answers import Call, check_answer
from symdiff.tracing.values.assigning import untraced
from symdiff.tracing.values.operands import takes_traced
from symdiff.tracing.values.standing import STANDING, call_standing, way_out
from symdiff.tracing.values.tracer import Tracer, is_traced
from symdiff.vocabulary import structures
from symdiff.vocabulary.libraries import user_line
from symdiff.vocabulary.signatures import Function


def guarded(f: Function) -> Function:
    """A library's function: where it cannot take traced values, it is not called with them, or its errors become clear ones."""
    closed = is_door_closed(f)
    name = f"{getattr(f, '__module__', None) or ''}.{getattr(f, '__name__', type(f).__name__)}".lstrip(".").removeprefix(
        "function "
    )

    def guarded(*args: Any, **kwargs: Any) -> Any:
        watch_files(args, kwargs)
        if not holds_traced_inside((args, kwargs)):
            return without_traced(f, name, args, kwargs) if closed else f(*args, **kwargs)
        leaves = [v for v in structures.all_leaves((args, kwargs)) if is_traced(v)]
        if leaves and all(untraced(v) is not None for v in leaves):
            args, kwargs = structures.map_leaves(lambda v: untraced(v) if isinstance(v, Tracer) else v, (args, kwargs))
            return f(*args, **kwargs)
        if closed:
            raise TraceError(unfollowed(name, "it is compiled, or calls what is"))
        try:
            with opened():
                found = f(*args, **kwargs)
            if (getattr(f, "__module__", None) or "").startswith("scipy."):
                return turned(Call.of(f, args, kwargs), check_answer(f, name, args, kwargs, found))
            return found
        except SymdiffError:
            raise
        except Exception as error:
            raise TraceError(unfollowed(name, f"{type(error).__name__}: {error}")) from error

    return guarded


def of_scipy(f: Function, public: str) -> Function:
    """A function of SciPy's that is written with NumPy's where a value is traced."""

    def standing(*args: Any, **kwargs: Any) -> Any:
        if not takes_traced(args, kwargs):
            return f(*args, **kwargs)
        found = check_answer(f, public, args, kwargs, call_standing(f, STANDING[public], args, kwargs))
        return turned(Call.of(f, args, kwargs), found)

    return standing


def told(f: Function, public: str) -> Function:
    """A function that cannot be followed: where it meets traced values, the error says what works in its place."""

    def told(*args: Any, **kwargs: Any) -> Any:
        builders = active_builders()
        before = [len(b.bindings) for b in builders]
        refused = f"{user_line()}: {public} needs numbers, not traced values; {way_out(public)}"
        if holds_traced_inside((args, kwargs)):
            raise TraceError(refused)
        try:
            return without_traced(f, public.rpartition(".")[2], args, kwargs)
        except Exception as error:
            if before != [len(b.bindings) for b in builders]:
                raise TraceError(refused) from error
            raise

    return told


def public_name(f: Any) -> str:
    """The name by which a function or class of SciPy's, or one that NumPy does not dispatch, is known; else an empty text."""
    module, name = getattr(f, "__module__", None) or "", getattr(f, "__name__", "")
    if type(module) is not str or type(name) is not str or not module.startswith(("scipy.", "numpy")) or type(f) is DISPATCHER:
        return ""
    package = ".".join(module.split(".")[:2]) if module.startswith("scipy.") else "numpy"
    found = f"{package}.{name}".replace("numpy.", "np.")
    return found if getattr(sys.modules.get(package), name, None) is f else ""
