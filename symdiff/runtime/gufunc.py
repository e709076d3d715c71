"""A NumPy generalised ufunc over compiled code, made through NumPy's C interface without a compiler.

Assumes NumPy 2. Guarantees that everything the ufunc points to lives as long as it does, and dies with it. Refuses, with
`BackendError`, programs that no ufunc can compute, and NumPys whose ufunc objects are laid out in another way than here.
"""

import ctypes
import functools
import platform
from typing import Any

import numpy as np

from symdiff.codegen.llvm.gufunc import loop_module
from symdiff.codegen.math.lines import lanes_of
from symdiff.errors import BackendError
from symdiff.lowering.program import Program
from symdiff.runtime.batch import batch_problem, compile_effort
from symdiff.runtime.engine import Code, machine_fuses, machine_lanes, numpy_api_address
from symdiff.vocabulary.ops import dtype_of_code

_ABI = 0x2000000  # of NumPy 2
_GET_VERSION, _FROM_FUNCTION = 0, 31  # slots of the array and the ufunc interface
_NO_IDENTITY = -1
# Offsets in PyUFuncObject, part of NumPy's binary interface.
_FUNCTIONS, _DATA, _NTYPES, _NAME, _OBJECT = 32, 40, 48, 56, 88


class _Kept:
    """What a ufunc points to: the machine code, and the C arrays and texts."""

    def __init__(self, program: Program, code: Code) -> None:
        leaves = program.leaves
        self.code = code
        self.functions = (ctypes.c_void_p * 1)(code.address("loop"))
        self.data = (ctypes.c_void_p * 1)(None)
        self.types = ctypes.create_string_buffer(bytes(dtype_of_code(leaf.dtype).num for leaf in leaves))
        self.name = ctypes.create_string_buffer(program.name.encode())
        self.signature = ctypes.create_string_buffer(machine_signature(program).encode())
        given = ", ".join(f"{i.name} {dtype_of_code(i.dtype)}" for i in program.inputs)
        made = ", ".join(f"{o.name} {dtype_of_code(o.dtype)}" for o in program.outputs)
        self.doc = ctypes.create_string_buffer(
            f"Compiled by symdiff: {given} -> {made}; signature {machine_signature(program)}.".encode()
        )


def machine_gufunc(program: Program) -> np.ufunc:
    """The ufunc of a Program: its inputs and outputs, broadcast over any axes before theirs."""
    problem = batch_problem(program)
    if problem:
        raise BackendError(problem)
    sizes = [size for leaf in program.leaves for size in leaf.shape]
    if not program.inputs or 0 in sizes:
        raise BackendError(f"{program.name}: a ufunc needs arguments, and arrays that are not empty; call it directly")
    make = _constructor()
    text = loop_module(program, lanes_of(program, machine_lanes()), machine_fuses(), _exceptions())
    kept = _Kept(program, Code(text, compile_effort(program)))
    counts = (1, len(program.inputs), len(program.outputs), _NO_IDENTITY)
    addresses = [ctypes.addressof(part) for part in (kept.functions, kept.data, kept.types)]
    texts = [ctypes.addressof(part) for part in (kept.name, kept.doc)]
    try:
        made: np.ufunc = make(*addresses, *counts, *texts, 0, ctypes.addressof(kept.signature))
    except ValueError as error:
        raise BackendError(f"{program.name}: NumPy makes no ufunc of it ({error}); call it directly") from None
    _keep(made, kept)
    return made


def machine_signature(program: Program) -> str:
    """The shapes of a point in NumPy's notation, as in "(8),()->(8)"."""
    inputs, outputs = (
        ",".join(f"({','.join(map(str, leaf.shape))})" for leaf in leaves) for leaves in (program.inputs, program.outputs)
    )
    return f"{inputs}->{outputs}"


@functools.cache
def _constructor() -> Any:
    """PyUFunc_FromFuncAndDataAndSignature. Raises `BackendError` where NumPy's interface is not the one known here."""
    from numpy._core import _multiarray_umath  # type: ignore[attr-defined]

    version = ctypes.PYFUNCTYPE(ctypes.c_uint)(numpy_api_address(_GET_VERSION))()
    if version != _ABI:
        raise BackendError(f"ufuncs need the binary interface of NumPy 2; NumPy {np.__version__} has version {version:#x}")
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = ctypes.cast(get(_multiarray_umath._UFUNC_API, None), ctypes.POINTER(ctypes.c_void_p))
    if table[0] != id(np.ufunc):
        raise BackendError(f"ufuncs need NumPy's table of functions, which NumPy {np.__version__} has changed")
    pointer, number = ctypes.c_void_p, ctypes.c_int
    kinds = (pointer, pointer, pointer, number, number, number, number, pointer, pointer, number, pointer)
    return ctypes.PYFUNCTYPE(ctypes.py_object, *kinds)(table[_FROM_FUNCTION])


def _keep(made: np.ufunc, kept: _Kept) -> None:
    """Let the ufunc own what it points to: it has a field for an object, which it releases when it dies."""
    where = id(made)
    expected = {
        _FUNCTIONS: ctypes.addressof(kept.functions),
        _DATA: ctypes.addressof(kept.data),
        _NAME: ctypes.addressof(kept.name),
        _OBJECT: 0,
    }
    found = {offset: ctypes.c_size_t.from_address(where + offset).value for offset in expected}
    if found != expected or ctypes.c_int.from_address(where + _NTYPES).value != 1:
        raise BackendError(f"ufuncs of NumPy {np.__version__} are laid out in another way than this version knows")
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
    ctypes.c_size_t.from_address(where + _OBJECT).value = id(kept)


def _exceptions() -> int:
    """FE_ALL_EXCEPT of fenv.h."""
    return 0x3D if platform.machine().lower() in ("x86_64", "amd64") else 0x1F
