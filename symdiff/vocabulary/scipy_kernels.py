"""SciPy's special functions of real numbers as functions of C, for machine code.

Assumes nothing: without SciPy, or where it has no such function of float64, there is none. Guarantees the bits of SciPy's own
ufuncs, which call the same kernels.

Source of the interface: `scipy.special.cython_special`, whose functions other code may call.
"""

import ctypes
import functools
import re

from symdiff.vocabulary.ops import OPS

PREFIX = "scipy."  # of their names in machine code
MORE = ("i32 0",)  # the argument that follows the numbers: no method of Python's is asked for


@functools.cache
def scipy_kernel(op: str) -> int:
    """The address of the function of C, of `OPS[op].arity` numbers, that computes an operation; 0 where there is none."""
    row = OPS[op]
    if not row.is_special or row.item is not None or row.counts:
        return 0
    try:
        from scipy.special import cython_special  # type: ignore[import-untyped]
    except ImportError:
        return 0
    name = row.numpy.partition(".")[2]
    wanted = f"double ({'double, ' * row.arity}int __pyx_skip_dispatch)".encode()
    for found, capsule in cython_special.__pyx_capi__.items():
        if re.fullmatch(rf"(__pyx_fuse_\d+)?{name}", found) and _NAME(capsule) == wanted:
            return int(_POINTER(capsule, wanted))
    return 0


_NAME = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
_POINTER = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
