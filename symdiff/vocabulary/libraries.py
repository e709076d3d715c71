"""Which files belong to the user, and which to Python, NumPy and other libraries; the user's line that runs now.

Assumes file names of code objects. Guarantees one answer for what is followed, what is constant, and the line that an error
names: the standard library, symdiff and the packages of `LIBRARIES` are not the user's; every other file is, in site-packages
too, since a user's own package may be installed there.
"""

import builtins
import functools
import os
import sys
import sysconfig
import types
from typing import Any

import numpy as np

LIBRARIES = frozenset(
    """
    numpy scipy sympy mpmath optree llvmlite numba pandas matplotlib sklearn jax jaxlib torch tensorflow cupy IPython
    ipykernel pytest _pytest pluggy hypothesis
    """.split()
)
COMPILED = frozenset("scipy pandas sklearn numba llvmlite jax jaxlib torch tensorflow cupy matplotlib".split())  # in parts
_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_GRAPHS = "simplification differentiation lowering codegen tracing/branches"
_OF_GRAPHS = tuple(os.path.join(_ROOT, *room.split("/"), "") for room in _GRAPHS.split())
_NUMPY = os.path.dirname(os.path.abspath(np.__file__)) + os.sep
_STANDARD = tuple({os.path.join(sysconfig.get_path(name), "") for name in ("stdlib", "platstdlib")})
_SITES = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
FOLLOWED = "called ."  # among the globals of a copy of a function without source
short_names: dict[str, str] = {}


class Line(str):
    """A line of a file as "file.py:line", which knows where the file lies."""

    path: str

    @classmethod
    @functools.lru_cache(maxsize=65_536)
    def of(cls, path: str, number: int | None) -> "Line":
        """A line by the path of its file, and its number."""
        found = cls(f"{os.path.basename(path)}:{number}")
        found.path = path
        return found


def name_unless_library(path: str) -> str:
    """The last part of the name of a user's file; empty for a file of a library, and for text that has no file."""
    found = short_names.get(path)
    if found is None:
        found = short_names[path] = "" if _is_library(path) else os.path.basename(path)
    return found


def user_line() -> str:
    """The `Line` of the innermost frame outside symdiff and other libraries."""
    frame = sys._getframe(2)
    while frame is not None:
        line = line_unless_library(frame, frame.f_lineno)
        if line:
            return line
        frame = frame.f_back  # type: ignore[assignment]
    return "?"


def line_unless_library(frame: types.FrameType, number: int | None) -> str:
    """The `Line` of a frame of the user's, whose text may have no file; empty for one of a library."""
    path = frame.f_code.co_filename
    short = short_names.get(path)
    if short is None:
        short = name_unless_library(path)
    return Line.of(path, number) if short or FOLLOWED in frame.f_globals else ""


def hide_frames(error: Exception) -> None:
    """Leave out of a traceback what stands between the frame that catches the error and the first of the user's."""
    caught = error.__traceback__
    inner = caught.tb_next if caught is not None else None
    while inner is not None and not line_unless_library(inner.tb_frame, inner.tb_lineno):
        inner = inner.tb_next
    if caught is not None and inner is not None:
        caught.tb_next = inner


def is_library(path: str) -> bool:
    """Whether a file belongs to a library."""
    return name_unless_library(path) == "" and path != "<string>"


def module_of(thing: Any) -> str:
    """The module that a class or a function names as its own; empty where it names none."""
    name = getattr(thing, "__module__", None)
    return name if isinstance(name, str) else ""


MADE = 1 << 9  # in a type's flags: made at run time
IMMUTABLE = 1 << 8


def root_of_class(kind: type) -> str:
    return module_of(kind).partition(".")[0]


def root_of(value: Any) -> str:
    """The library that a module, a class or an object belongs to; Python's own for the user's."""
    if isinstance(value, types.ModuleType):
        return value.__name__.partition(".")[0] if is_librarys(value) else "builtins"
    kind = value if isinstance(value, type) else type(value)
    return "builtins" if is_users(kind) else root_of_class(kind)


def is_librarys(module: types.ModuleType) -> bool:
    """Whether a module is a library's, or Python's own, which a trace takes as constant."""
    file = vars(module).get("__file__")
    root = module.__name__.partition(".")[0]
    return is_library(file) if isinstance(file, str) else root in sys.builtin_module_names or root in sys.stdlib_module_names


def is_users(cls: type) -> bool:
    """Whether the user wrote a class, in Python."""
    if not cls.__flags__ & MADE or cls in (type, object):
        return False
    module = sys.modules.get(module_of(cls))
    if module in (None, builtins) or not is_librarys(module):  # a class made where no module is named has that of `object`
        return True
    return not cls.__flags__ & IMMUTABLE and cls.__qualname__.partition(".")[0] not in vars(module)  # made by a function there


def is_of_graphs(path: str) -> bool:
    """Whether a file is one of symdiff's that reason about graphs: nothing in it answers for NumPy or Python."""
    return path.startswith(_OF_GRAPHS)


def is_numpys(path: str) -> bool:
    """Whether a file is one of NumPy's."""
    return path.startswith(_NUMPY)


@functools.lru_cache(maxsize=1024)
def is_compiled_library(path: str) -> bool:
    """Whether a file belongs to a library whose compiled code is not made for traced values."""
    return _package(path) in COMPILED


def _is_library(path: str) -> bool:
    if path == "<string>" or path.startswith((_ROOT, _NUMPY, "<frozen ", "<__array_function__")):
        return True
    package = _package(path)
    return path.startswith(_STANDARD) if package is None else package in LIBRARIES


def _package(path: str) -> str | None:
    """The installed package of a file, if it is in one."""
    for site in _SITES:
        _, found, rest = path.rpartition(site)
        if found:
            return rest.split(os.sep)[0].removesuffix(".py")
    return None
