"""CUDA source compiled as plain C++ and run on the CPU: what RawKernel does, without a GPU."""

import ctypes
import functools
import hashlib
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

COMPILER = shutil.which("g++") or shutil.which("clang++")
SHIM = Path(__file__).parent / "cuda_shim.h"
TYPES = {"double": "d", "float": "f", "complex128": "D", "complex64": "F", "bool": "?", "long long": "q"}
_KERNEL = re.compile(r'extern "C" __global__ void (\w+)\(([^)]*)\)')
_folder = tempfile.TemporaryDirectory(prefix="cuda_on_cpu_")


@functools.cache
def library(code):
    """The shared library of CUDA source, and the parameters of its kernels as (dtype code, whether a pointer)."""
    kernels = {name: [_parameter(part) for part in parameters.split(",")] for name, parameters in _KERNEL.findall(code)}
    entries = []
    for name, parameters in kernels.items():
        passed = ", ".join(f"*({kind} {'*' if pointer else ''}*)a[{k}]" for k, (kind, pointer) in enumerate(parameters))
        meets = "true" if "__sync" in code else "false"
        entries.append(
            f"static void {name}_call(void **a) {{ {name}({passed}); }}\n"
            f'extern "C" void {name}_launch(unsigned x, unsigned y, unsigned t, void **a)'
            f" {{ launch({name}_call, {meets}, x, y, t, a); }}\n"
        )
    stem = Path(_folder.name) / hashlib.sha256(code.encode()).hexdigest()[:16]
    source, built = stem.with_suffix(".cpp"), stem.with_suffix(".so")
    source.write_text(f'#include "{SHIM}"\n{code}\n{"".join(entries)}')
    flags = ["-std=c++14", "-O0", "-ffp-contract=off", "-Wall", "-Wno-unknown-pragmas", "-Wno-unused-function", "-Werror"]
    command = [COMPILER, *flags, "-shared", "-fPIC", str(source), "-o", str(built)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr + code
    return ctypes.CDLL(str(built)), kernels


def _parameter(text):
    kind, pointer = text.rpartition(" ")[0].replace("__restrict__", " ").strip(), "*" in text
    return kind.replace("*", "").replace("const", "").strip(), pointer


def launch(code, name, grid, block, args):
    """Run a kernel: arrays (NumPy's) by their address, numbers by value, each checked against the kernel's parameters."""
    built, kernels = library(code)
    parameters = kernels[name]
    assert len(args) == len(parameters), f"{name} takes {len(parameters)} arguments, {len(args)} given"
    assert min(*grid, *block) > 0 and max(block) <= 1024 and len(grid) <= 2 and len(block) == 1, (grid, block)
    held = [_passed(name, arg, *parameter) for arg, parameter in zip(args, parameters, strict=True)]
    array = (ctypes.c_void_p * len(held))(*(ctypes.addressof(h) for h in held))
    x, y = (*grid, 1)[:2]
    getattr(built, f"{name}_launch")(ctypes.c_uint(x), ctypes.c_uint(y), ctypes.c_uint(block[0]), array)


def _passed(name, arg, kind, pointer):
    code = TYPES[kind]
    if pointer:
        assert isinstance(arg, np.ndarray) and arg.dtype.char == code, f"{name}: {arg!r} for {kind} *"
        return ctypes.c_void_p(arg.ctypes.data)
    value = np.int64(arg) if type(arg) is int else np.float64(arg) if type(arg) is float else arg
    assert isinstance(value, np.generic) and value.dtype == np.dtype(code), f"{name}: {arg!r} for {kind}"
    return (ctypes.c_char * value.itemsize).from_buffer_copy(value.tobytes())
