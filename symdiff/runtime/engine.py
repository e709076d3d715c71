"""LLVM IR to machine code in this process, and the addresses of NumPy's and Python's own objects.

Code is made for this processor, or for what the environment variable `SYMDIFF_CPU` names when code is first made: "native"; a
level as "x86-64-v3"; either with some of LLVM's features, as "x86-64-v3,avx512f". The width of vectors follows.

Assumes llvmlite 0.44 or later (the extra `native`). Guarantees that compiling is thread-safe and that code lives as long as
the engine that made it. Refuses, with `MissingPackageError`, to work without llvmlite, and, with `BackendError`, where NumPy's
array objects are laid out in another way than this module knows.
"""

import ctypes
import ctypes.util
import functools
import hashlib
import os
import platform
import re
import sys
import threading
import weakref
from typing import Any, Literal

import numpy as np

from symdiff.errors import BackendError, MissingPackageError
from symdiff.runtime import cache
from symdiff.vocabulary.plain import WRITTEN
from symdiff.vocabulary.scipy_kernels import PREFIX, scipy_kernel
from symdiff.vocabulary.version import __version__

Passes = Literal["none", "loops", "all"]
_BASE = "64bit cmov cx8 fxsr mmx sse sse2".split()
_SECOND = [*_BASE, *"crc32 cx16 popcnt sahf sse3 sse4.1 sse4.2 ssse3".split()]
_THIRD = [*_SECOND, *"avx avx2 bmi bmi2 f16c fma lzcnt movbe xsave".split()]
_FOURTH = [*_THIRD, *"avx512bw avx512cd avx512dq avx512f avx512vl".split()]
_LEVELS = {"x86-64": _BASE, "x86-64-v2": _SECOND, "x86-64-v3": _THIRD, "x86-64-v4": _FOURTH}
_lock = threading.RLock()  # held over every call of LLVM
if hasattr(os, "register_at_fork"):  # a fork waits for what other threads compile: its child could never go on with that
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)
LIBM = """
exp sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh log log10 cbrt exp2 expm1 log2 log1p pow atan2 hypot
nextafter fmod sqrt erf erfc fma feclearexcept fetestexcept
""".split()
_SCIPYS = re.compile(rf"^declare [^@\n]*@{re.escape(PREFIX)}(\w+)\(", re.MULTILINE)
LARGEST = 20_000  # instructions of one function; beyond, LLVM takes much more than linear time
# Offsets in PyArrayObject, part of NumPy's binary interface.
DATA, NDIM, SHAPE, DESCR, FLAGS = 16, 24, 32, 56, 64


@functools.cache
def load_llvmlite() -> Any:
    """llvmlite's binding, initialised. Raises `MissingPackageError` with the command that installs it."""
    with _lock:
        try:
            import llvmlite.binding as binding  # type: ignore[import-untyped]
        except ImportError:
            raise MissingPackageError("machine code needs llvmlite: pip install 'symdiff[native]'") from None
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        _add_libm(binding)
    return binding


def _add_libm(binding: Any) -> None:
    """Tell LLVM where C's functions are."""
    library = ctypes.CDLL(ctypes.util.find_library("m"))
    for name in LIBM:
        for full in (name, f"{name}f", f"c{name}"):
            function = getattr(library, full, None)
            if function is not None:
                binding.add_symbol(full, ctypes.cast(function, ctypes.c_void_p).value)


@functools.cache
def supported() -> str:
    """Why machine code cannot be used here; "" where it can."""
    try:
        load_llvmlite()
        check_api_structs()
    except (MissingPackageError, BackendError) as error:
        return str(error)
    return ""


def check_api_structs() -> None:
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
        and flags & WRITTEN == WRITTEN
        and platform.machine().lower() in ("x86_64", "amd64", "aarch64", "arm64")
    )
    if not fits:
        raise BackendError(f"machine code does not know the array objects of NumPy {np.__version__} on {platform.machine()}")


@functools.cache
def _features() -> Any:
    """What the processor has, by LLVM's names."""
    with _lock:
        host = load_llvmlite().get_host_cpu_features()
    if not _asked():
        return host
    base, changes = _asked()[0], _asked()[1:]
    chosen = {name for name, has in host.items() if has} if base == "native" else set(_LEVELS[base])
    for change in changes:
        (chosen.discard if change.startswith("-") else chosen.add)(change.lstrip("+-"))
    missing = sorted(name for name in chosen if not host.get(name))
    if missing:
        raise BackendError(f"SYMDIFF_CPU={','.join(_asked())}: this processor has no {', '.join(missing)}")
    return type(host)({name: name in chosen for name in host})


def check_processor() -> None:
    """Raise `BackendError` where `SYMDIFF_CPU` asks for what is not known, or not there."""
    if os.environ.get("SYMDIFF_CPU") and not supported():
        _features()


def _asked() -> list[str]:
    """What `SYMDIFF_CPU` asks for: a base, then features. Raises `BackendError` for a base that is not known."""
    words = [word.strip().lower() for word in os.environ.get("SYMDIFF_CPU", "native").split(",") if word.strip()]
    if words and words[0] not in ("native", *_LEVELS):
        words.insert(0, "native")
    unknown = [w for w in words[1:] if w.lstrip("+-") not in load_llvmlite().get_host_cpu_features()]
    if unknown:
        known = ", ".join(("native", *_LEVELS))
        raise BackendError(
            f"SYMDIFF_CPU: {', '.join(unknown)} is unknown; {known} and LLVM's names of features after it are possible"
        )
    return [] if words in ([], ["native"]) else words


def _name() -> str:
    """The processor that machine code is tuned for."""
    base = (_asked() or ["native"])[0]
    return str(load_llvmlite().get_host_cpu_name()) if base == "native" else base


@functools.cache
def machine_lanes() -> int:
    """The float64 numbers that the machine's widest vectors hold."""
    features = _features()
    return 8 if features.get("avx512f") else 4 if features.get("avx2") else 2


@functools.cache
def machine_fuses() -> bool:
    """Whether the machine multiplies and adds with one rounding."""
    return bool(_features().get("fma")) or platform.machine().lower() in ("aarch64", "arm64")


class Code:
    """Compiled IR. The addresses of its functions are good as long as this object lives."""

    def __init__(self, text: str, effort: int, passes: Passes = "all") -> None:
        """Compile IR text, or take what the cache holds for it. Effort 0 spends the least time, 2 the most.

        `passes`: how LLVM rearranges the text first. Straight-line code that numbering has shared needs "none"; "loops"
        puts functions where the text asks for it in the place of their calls and brings the variables of loops into
        registers, at a third of the time that "all" take, which pay for loops over elementary functions.
        """
        binding = load_llvmlite()
        with _lock:
            key = "" if "inttoptr" in text else hashlib.sha256(f"{_stamp()}\n{effort} {passes}\n{text}".encode()).hexdigest()
            compiled = cache.load(key) if key else None  # addresses of this process mean nothing to others
            if compiled is None:
                compiled = _compiled(text, effort, passes)
                if key:
                    cache.store_machine_code(key, compiled)
            for op in set(_SCIPYS.findall(text)):
                binding.add_symbol(f"{PREFIX}{op}", scipy_kernel(op))
            context = binding.create_context()
            target = binding.Target.from_default_triple().create_target_machine(opt=0, jit=True)  # which the engine deletes
            self._engine = binding.create_mcjit_compiler(binding.parse_assembly("", context), target)
            self._engine.add_object_file(binding.ObjectFileRef.from_data(compiled))
            self._engine.finalize_object()
            self._state: Any = None
            if "@symdiff_state" in text:
                self._state = (ctypes.c_int64 * 4).from_address(self._engine.get_global_value_address("symdiff_state"))
        _made.bytes = getattr(_made, "bytes", 0) + len(compiled) + _ENGINE
        # Not by reference counts alone: the garbage collector would delete the context before the engine that uses it.
        weakref.finalize(self, _dispose, self._engine, context).atexit = False

    @property
    def running(self) -> bool:
        """Whether a call, in this thread or another, is inside the `COUNTED` function; it cannot be freed then."""
        return bool(self._state[0] % _CALL)

    def improve(self, calls: int, maker: Any, held: int) -> None:
        """Call `maker`, which has to live as long as this and has so many bytes, after some calls of the `COUNTED` function."""
        _made.bytes += held
        self._state[0], self._state[3] = -_CALL * calls, id(maker)

    def become(self, other: "Code") -> None:
        """Run another code's function in the `COUNTED` one from now on, which has to live as long as this."""
        self._state[1:3] = other._state[1:3]  # no call comes between

    def address(self, name: str) -> int:
        """The address of a function."""
        with _lock:
            return int(self._engine.get_function_address(name))


# A function @called(self, args, counted, names, @symdiff_known) is entered through one that counts: the calls inside, which the
# interpreter's lock keeps right, and _CALL times those that are to come before there is better code, below zero; then the
# function and its table; who makes better ones.
_CALL, _NEVER = 1 << 20, 1 << 62
COUNTED = f"""
@symdiff_state = global {{ i64, ptr, ptr, ptr }} {{ i64 {-_NEVER}, ptr @called, ptr @symdiff_known, ptr null }}
define ptr @call(ptr %self, ptr %args, i64 %counted, ptr %names) noinline optnone nounwind {{
  %state = getelementptr i64, ptr @symdiff_state, i64 0
  %before = load i64, ptr %state
  %inside = add i64 %before, {_CALL + 1}
  store i64 %inside, ptr %state
  %few = icmp slt i64 %inside, 0
  br i1 %few, label %ready, label %often
often:
  %never = sub i64 %inside, {_NEVER}
  store i64 %never, ptr %state
  %makerat = getelementptr i64, ptr %state, i64 3
  %maker = load ptr, ptr %makerat
  %made = call ptr @PyObject_CallNoArgs(ptr %maker)
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %error, label %better
error:
  call void @PyErr_Clear()
  br label %ready
better:
  call void @Py_DecRef(ptr %made)
  br label %ready
ready:
  %calledat = getelementptr i64, ptr %state, i64 1
  %called = load ptr, ptr %calledat
  %knownat = getelementptr i64, ptr %state, i64 2
  %known = load ptr, ptr %knownat
  %found = call ptr %called(ptr %self, ptr %args, i64 %counted, ptr %names, ptr %known)
  %after = load i64, ptr %state
  %outside = sub i64 %after, 1
  store i64 %outside, ptr %state
  ret ptr %found
}}
"""


def _dispose(engine: Any, context: Any) -> None:
    with _lock:
        engine.close()
        context.close()


_made = threading.local()
_ENGINE = 80_000  # bytes of an engine without its code


def new_machine_bytes() -> int:
    """The bytes of the code that this thread has made since it last asked, its engines with it."""
    found, _made.bytes = getattr(_made, "bytes", 0), 0
    return found


@functools.cache
def _compiler(effort: int) -> Any:
    """What compiles for this processor; it keeps 0.3 MB of tables, which no engine needs."""
    target = load_llvmlite().Target.from_default_triple()
    return target.create_target_machine(cpu=_name(), features=_features().flatten(), opt=effort, jit=True)


def _compiled(text: str, effort: int, passes: Passes) -> bytes:
    """IR text as an object file's content."""
    binding = load_llvmlite()
    context = binding.create_context()  # the common one would keep every constant ever seen
    found = _object_file(f'target triple = "{binding.get_default_triple()}"\n{text}', effort, passes, context)
    context.close()
    return found


def _object_file(text: str, effort: int, passes: Passes, context: Any) -> bytes:
    binding, machine = load_llvmlite(), _compiler(effort)
    module = binding.parse_assembly(text, context)
    if os.environ.get("SYMDIFF_CHECK") == "1":
        module.verify()
    if passes != "none":
        options = binding.create_pipeline_tuning_options(speed_level=max(effort, 1))
        options.loop_interleaving = effort > 1  # takes up to 80 % of the time for loops over vectors, whose calls gain nothing
        builder = binding.create_pass_builder(machine, options)
        manager = builder.getModulePassManager() if passes == "all" else binding.create_new_module_pass_manager()
        if passes == "loops":
            manager.add_always_inliner_pass()
            manager.add_global_dead_code_eliminate_pass()
            manager.add_sroa_pass()
            manager.add_instruction_combine_pass()
            manager.add_loop_rotate_pass()
            manager.add_instruction_combine_pass()
            manager.add_simplify_cfg_pass()
        manager.run(module, builder)
    return bytes(machine.emit_object(module))


@functools.cache
def _stamp() -> str:
    """All besides text and effort that machine code depends on."""
    import llvmlite

    binding = load_llvmlite()
    processor = f"{binding.get_default_triple()} {_name()} {_features().flatten()}"
    return f"{__version__} {llvmlite.__version__} {binding.llvm_version_info} {sys.version} {np.__version__} {processor}"


def add_machine_symbol(name: str, address: int) -> None:
    """Give an address of this process a name that IR may refer to."""
    with _lock:
        load_llvmlite().add_symbol(name, address)


@functools.cache
def numpy_api_address(slot: int) -> int:
    """The address of a function of NumPy's C interface, by its slot."""
    from numpy._core import _multiarray_umath  # type: ignore[attr-defined]

    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = ctypes.cast(get(_multiarray_umath._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))
    return int(table[slot] or 0)


def python_api_address(name: str) -> int:
    """The address of a function of Python's C interface."""
    return int(ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0)
