"""NumPy's generalised ufuncs as functions of C, for machine code: decompositions, solutions and transforms of arrays in memory.

Assumes nothing: where NumPy has another object by a name, or of another layout, there is none. Guarantees the bits of NumPy's
own functions, which call the same loops; what these raise as an error sets the processor's flag of invalid operations.

Source of the interface: NumPy's C-API, `PyUFuncObject` and `PyUFuncGenericFunction`; the rows, `numpy.linalg` and `numpy.fft`.
"""

import ctypes
import functools
import importlib
import itertools
import math
import re
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from symdiff.vocabulary.heads import Shape
from symdiff.vocabulary.ops import bytes_of_code, part_of_code

PREFIX = "numpy."  # of their names in machine code
_MODULES = {"linalg": "numpy.linalg._umath_linalg", "fft": "numpy.fft._pocketfft_umath"}
# By heads: NumPy's gufunc, and which of its results are the head's, those of several behind one another.
GUFUNCS: dict[str, tuple[str, tuple[int, ...]]] = {
    "inv": ("linalg.inv", (0,)), "solve": ("linalg.solve", (0,)), "det": ("linalg.det", (0,)),
    "det_sign": ("linalg.slogdet", (0,)), "log_abs_det": ("linalg.slogdet", (1,)), "cholesky": ("linalg.cholesky_lo", (0,)),
    "eigenvalues": ("linalg.eigvalsh_lo", (0,)), "eigenvectors": ("linalg.eigh_lo", (1,)), "eigh": ("linalg.eigh_lo", (0, 1)),
    "singular_values": ("linalg.svd", (0,)), "left_vectors": ("linalg.svd_s", (0,)), "right_vectors": ("linalg.svd_s", (2,)),
    "svd": ("linalg.svd_s", (0, 1, 2)), "fft": ("fft.fft", (0,)), "bfft": ("fft.ifft", (0,)), "brfft": ("fft.irfft", (0,)),
    "rfft": ("fft.rfft_n_{parity}", (0,)), "inverse_transposed": ("linalg.inv", (0,)),
}  # fmt: skip
_DOUBLE = "dD"  # in which NumPy computes these, also where it is given single precision
_TURNED = {"inverse_transposed"}  # their result is written with its last two axes in the other order
_Array = tuple[Shape, str]  # by its shape and dtype
_HEAD = object.__basicsize__  # bytes before the fields of a ufunc: four ints, then pointers to loops and to data


class Operand(NamedTuple):
    """What a loop is given: the operand `given` of the head, the part of its result from the byte `start` on, or a number; else
    an array of its own.
    """

    shape: Shape
    code: str
    given: int | None = None
    start: int | None = None
    number: float | None = None


class Gufunc(NamedTuple):
    """A loop, with the name of its function and, "" for none, of its data; its sizes and the bytes between cells."""

    name: str
    data: str
    operands: tuple[Operand, ...]
    sizes: tuple[int, ...]
    steps: tuple[int, ...]


def numpy_gufunc(head: str, result: _Array, given: list[_Array], axis: int | None) -> Gufunc | None:
    """The loop that computes a head of arrays in C order along an axis, None for the last; None where there is no such loop."""
    if head not in GUFUNCS or any(0 in shape for shape, _ in (result, *given)) or axis not in (None, len(given[0][0]) - 1):
        return None
    name, wanted = GUFUNCS[head]
    name = name.format(parity="odd" if given[0][0][-1:] and given[0][0][-1] % 2 else "even")
    found = _gufunc(name)
    if found is None or any(code not in _DOUBLE for _, code in (result, *given)):
        return None
    ins, outs = map(_cores, str(found.signature).split("->"))
    numbers = [part_of_code(given[0][1])] * (len(ins) - len(given))
    taken = "".join([code for _, code in given] + numbers)
    made = {types.partition("->")[0]: types.partition("->")[2] for types in found.types}.get(taken, "")
    told = [(shape, core) for (shape, _), core in zip(given, ins, strict=False)]
    leads = {shape[: len(shape) - len(core)] for shape, core in told}
    sizes = _sizes([*told, (result[0], outs[wanted[0]])] if len(wanted) == 1 else told)
    if len(leads) > 1 or sizes is None or any(made[place : place + 1] != result[1] for place in wanted):
        return None
    (lead,) = leads
    operands = [Operand(shape, code, given=k) for k, (shape, code) in enumerate(given)]
    operands += [Operand((), code, number=1.0) for code in numbers]
    start = 0
    for place, (core, code) in enumerate(zip(outs, made, strict=True)):
        shape = (*lead, *(sizes[size] for size in core))
        operands.append(Operand(shape, code, start=start if place in wanted else None))
        start += math.prod(shape) * bytes_of_code(code) if place in wanted else 0
    if start != math.prod(result[0]) * bytes_of_code(result[1]) or (len(wanted) > 1 and lead):
        return None
    symbol = f"{PREFIX}{name}.{taken}.{made}"
    data = f"{symbol}.data" if gufunc_addresses(symbol)[1] else ""
    named = dict.fromkeys(itertools.chain(*ins, *outs))
    steps = _steps(operands, [tuple(sizes[size] for size in core) for core in (*ins, *outs)], head in _TURNED)
    return Gufunc(symbol, data, tuple(operands), (math.prod(lead), *(sizes[size] for size in named)), steps)


def _cores(side: str) -> list[tuple[str, ...]]:
    """The names of the sizes of each operand, by one side of a signature."""
    return [tuple(re.findall(r"\w+", core)) for core in re.findall(r"\(([^)]*)\)", side)]


def _sizes(arrays: Iterable[tuple[Shape, tuple[str, ...]]]) -> dict[str, int] | None:
    """The sizes that the last axes of arrays tell, by their names; None where they contradict each other."""
    sizes: dict[str, int] = {}
    for shape, core in arrays:
        for size, n in zip(core, shape[len(shape) - len(core) :], strict=True):
            if sizes.setdefault(size, n) != n:
                return None
    sizes.setdefault("p", min(sizes.get("m", 0), sizes.get("n", 0)))
    return sizes


def _steps(operands: list[Operand], cores: list[tuple[int, ...]], turned: bool) -> tuple[int, ...]:
    """The bytes from one array of each operand to the next, then those along the axes of each."""
    items = [bytes_of_code(operand.code) for operand in operands]
    outer = [0 if o.number is not None else math.prod(c) * n for o, c, n in zip(operands, cores, items, strict=True)]
    inner = [[n * math.prod(c[place + 1 :]) for place in range(len(c))] for c, n in zip(cores, items, strict=True)]
    if turned:
        inner[-1].reverse()
    return (*outer, *itertools.chain(*inner))


@functools.cache
def _gufunc(name: str) -> np.ufunc | None:
    """NumPy's object, if it is laid out as is known here."""
    module, _, own = name.partition(".")
    try:
        found = getattr(importlib.import_module(_MODULES[module]), own, None)
    except ImportError:
        return None
    if not isinstance(found, np.ufunc) or found.signature is None:
        return None
    counts = (ctypes.c_int * 3).from_address(id(found) + _HEAD)
    ntypes = ctypes.c_int.from_address(id(found) + _HEAD + 32).value
    fits = [*counts] == [found.nin, found.nout, found.nargs] and ntypes == found.ntypes
    return found if fits else None


@functools.cache
def gufunc_addresses(symbol: str) -> tuple[int, int]:
    """The addresses of a loop's function and of its data, 0 for none, by the function's name in machine code."""
    name, ins, outs = symbol.removeprefix(PREFIX).rsplit(".", 2)
    found = _gufunc(name)
    assert found is not None
    pointers = ctypes.POINTER(ctypes.c_void_p)
    functions, data = (pointers.from_address(id(found) + _HEAD + at) for at in (16, 24))
    place = found.types.index(f"{ins}->{outs}")
    return int(functions[place] or 0), int((data[place] if data else 0) or 0)
