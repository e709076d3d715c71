"""LLVM IR to machine code in this process, and the addresses of NumPy's and Python's own objects.

Assumes llvmlite 0.44 or later (the extra `native`). Guarantees that compiling is thread-safe and that code lives as long as
the engine that made it. Refuses, with `MissingPackageError`, to work without llvmlite, and, with `BackendError`, where NumPy's
array objects are laid out in another way than this module knows.
"""

import ctypes
import ctypes.util
import functools
import platform
import threading
from typing import Any

import numpy as np

from symdiff.errors import BackendError, MissingPackageError

_lock = threading.Lock()
LIBM = """
exp sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh log log10 cbrt exp2 expm1 log2 log1p pow atan2 hypot
nextafter fmod sqrt
""".split()
LARGEST = 20_000  # instructions; beyond, LLVM takes more than linear time over one function
# Offsets in PyArrayObject, part of NumPy's binary interface.
DATA, NDIM, SHAPE, DESCR, FLAGS = 16, 24, 32, 56, 64
CONTIGUOUS, ALIGNED, WRITEABLE = 0x1, 0x100, 0x400


@functools.cache
def llvm() -> Any:
    """llvmlite's binding, initialised. Raises `MissingPackageError` with the command that installs it."""
    try:
        import llvmlite.binding as binding  # type: ignore[import-untyped]
    except ImportError:
        raise MissingPackageError("machine code needs llvmlite: pip install 'symdiff[native]'") from None
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    library = ctypes.CDLL(ctypes.util.find_library("m"))
    for name in LIBM:
        for full in (name, f"{name}f", f"c{name}"):
            function = getattr(library, full, None)
            if function is not None:
                binding.add_symbol(full, ctypes.cast(function, ctypes.c_void_p).value)
    return binding


@functools.cache
def supported() -> str:
    """Why machine code cannot be used here; "" where it can."""
    try:
        llvm()
        check_layout()
    except (MissingPackageError, BackendError) as error:
        return str(error)
    return ""


def check_layout() -> None:
    """Raise `BackendError` where array objects are not laid out as this module knows."""
    sample = np.arange(6.0).reshape(2, 3)
    where = id(sample)

    def word(offset: int) -> int:
        return int(ctypes.c_ssize_t.from_address(where + offset).value)

    shape = (ctypes.c_ssize_t * 2).from_address(word(SHAPE))
    flags = ctypes.c_int.from_address(where + FLAGS).value
    fits = (
        word(8) == id(np.ndarray)
        and word(DATA) == sample.ctypes.data
        and ctypes.c_int.from_address(where + NDIM).value == 2
        and list(shape) == [2, 3]
        and word(DESCR) == id(sample.dtype) == id(np.dtype("d"))
        and flags & CONTIGUOUS
        and flags & WRITEABLE
        and platform.machine().lower() in ("x86_64", "amd64", "aarch64", "arm64")
    )
    if not fits:
        raise BackendError(f"machine code does not know the array objects of NumPy {np.__version__} on {platform.machine()}")


@functools.cache
def lanes() -> int:
    """The float64 numbers that the machine's widest vectors hold."""
    features = llvm().get_host_cpu_features()
    return 8 if features.get("avx512f") else 4 if features.get("avx2") else 2


@functools.cache
def fused() -> bool:
    """Whether the machine multiplies and adds with one rounding."""
    return bool(llvm().get_host_cpu_features().get("fma")) or platform.machine().lower() in ("aarch64", "arm64")


class Code:
    """Compiled IR. The addresses of its functions are good as long as this object lives."""

    def __init__(self, text: str, effort: int) -> None:
        binding = llvm()
        with _lock:
            target = binding.Target.from_default_triple()
            features = binding.get_host_cpu_features().flatten()
            machine = target.create_target_machine(cpu=binding.get_host_cpu_name(), features=features, opt=effort, jit=True)
            module = binding.parse_assembly(f'target triple = "{binding.get_default_triple()}"\n{text}')
            module.verify()
            if effort:
                builder = binding.create_pass_builder(machine, binding.create_pipeline_tuning_options(speed_level=effort))
                builder.getModulePassManager().run(module, builder)
            self._engine = binding.create_mcjit_compiler(module, machine)
            self._engine.finalize_object()

    def address(self, name: str) -> int:
        """The address of a function."""
        return int(self._engine.get_function_address(name))


@functools.cache
def array_function(slot: int) -> int:
    """The address of a function of NumPy's C interface, by its slot."""
    from numpy._core import _multiarray_umath  # type: ignore[attr-defined]

    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = ctypes.cast(get(_multiarray_umath._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))
    return int(table[slot] or 0)


def python_function(name: str) -> int:
    """The address of a function of Python's C interface."""
    return int(ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0)
