"""Derivatives by hand in C, compiled here.

Assumes `formulas.c`, a compiler called `cc` and Python's headers. Guarantees pointers that are bound before: "direct call" is
a builtin without arguments, the cheapest call there is, "ctypes" a foreign function with its arguments converted. Refuses
nothing: without compiler or headers these contenders do not take part, and the head of the results says so.
"""

import ctypes
import functools
import platform
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.calls import Call
from benchmarks.cases import Case
from benchmarks.contenders.contender import HAND, Contender

SOURCES = [Path(__file__).parents[1] / name for name in ("formulas.c", "direct.c")]
HEADERS = Path(sysconfig.get_paths()["include"])
FLAGS = ["-O3", "-march=native", "-fopenmp-simd", "-fcx-limited-range"]
NOARGS = 0x0004  # METH_NOARGS


class _Arrays(ctypes.Structure):
    _fields_ = (("run", ctypes.c_void_p), ("n", ctypes.c_long), ("x", ctypes.c_void_p), ("y", ctypes.c_void_p))


class _Method(ctypes.Structure):
    """PyMethodDef."""

    _fields_ = (("name", ctypes.c_char_p), ("run", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p))


@functools.cache
def library() -> ctypes.PyDLL:
    """`formulas.c`, compiled; a PyDLL, whose calls keep the interpreter's lock as a builtin's do."""
    flags = [*FLAGS, "-mprefer-vector-width=512"] if platform.machine() in ("x86_64", "AMD64") else FLAGS
    vectors = ["-lmvec"] if platform.libc_ver()[0] == "glibc" and platform.machine() == "x86_64" else []
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder) / "formulas.so"
        subprocess.run(["cc", *flags, "-shared", "-fPIC", f"-I{HEADERS}", "-o", built, *SOURCES, *vectors, "-lm"], check=True)
        return ctypes.PyDLL(str(built))


@dataclass(frozen=True, slots=True)
class Bound:
    """A function of `formulas.c` and its two arrays; whoever calls `builtin` or `foreign` must keep this."""

    name: str
    n: int
    x: Any
    y: Any
    _kept: list[Any] = field(default_factory=list)

    def foreign(self) -> tuple[Any, tuple[Any, ...]]:
        """The foreign function and its arguments."""
        run = library()[self.name]
        run.restype = None
        return run, (ctypes.c_long(self.n), ctypes.c_void_p(self.x.ctypes.data), ctypes.c_void_p(self.y.ctypes.data))

    def builtin(self) -> Callable[[], None]:
        """A builtin without arguments, the bound addresses in the place of its own object."""
        c = library()
        run, call = (ctypes.cast(f, ctypes.c_void_p).value for f in (c[self.name], c.direct))
        arrays = bytes(_Arrays(run, self.n, self.x.ctypes.data, self.y.ctypes.data))
        method = _Method(self.name.encode(), call, NOARGS, None)
        self._kept.append(method)
        made = ctypes.pythonapi.PyCFunction_NewEx
        made.restype, made.argtypes = ctypes.py_object, [ctypes.POINTER(_Method), ctypes.py_object, ctypes.c_void_p]
        return made(method, arrays, None)  # type: ignore[no-any-return]


def _function(case: Case, value: bool) -> str:
    kind = {"batch": "first" if case.axis == 0 else "last"}.get(case.kind, "point")
    name = case.formula.__name__ + ("_complex" if case.is_complex and case.function == "cubic" else "")
    return f"{name}_value_{kind}" if value else f"{name}_{kind}"


def _bound(case: Case, value: bool) -> Bound:
    count = np.size(case.value()) if value else case.outputs * (case.n if case.kind == "batch" else 1)
    dtype = complex if case.is_complex or case.complex_of_real else float
    return Bound(_function(case, value), case.n, case.packed, np.full(count, np.nan, dtype))


def _direct(case: Case, value: bool = False) -> Call:
    bound = _bound(case, value)
    return Call(bound.builtin(), answers=lambda _: (bound.y,))


def _through_ctypes(case: Case, value: bool = False) -> Call:
    bound = _bound(case, value)
    return Call(*bound.foreign(), answers=lambda _: (bound.y,))


def is_possible() -> bool:
    """Whether there is a compiler, and Python's headers."""
    return shutil.which("cc") is not None and (HEADERS / "Python.h").is_file()


def _takes(case: Case) -> bool:
    return case.formula is not None and is_possible()


CONTENDERS = (
    Contender("C by hand, direct call", HAND, _direct, functools.partial(_direct, value=True), _takes),
    Contender(
        "C by hand, ctypes",
        HAND,
        _through_ctypes,
        functools.partial(_through_ctypes, value=True),
        lambda case: _takes(case) and case.kind == "point",
    ),
)
