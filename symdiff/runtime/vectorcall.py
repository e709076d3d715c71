"""Classes whose instances take calls straight to machine code, by Python's vectorcall protocol (PEP 590).

Assumes a class with a `__call__` and a dictionary for its instances. Guarantees that an instance is called through `__call__`
until `direct_vectorcall` gives it machine code, and that its class is a subclass of the plain one. On Pythons that
have no such protocol the plain class serves.
"""

import ctypes
import functools
import sys
from typing import Any

_HAVE_VECTORCALL, _DEFAULT = 1 << 11, 1 << 18
_SSIZE, _READONLY = 19, 1
_MEMBERS = 72
_POINTER = ctypes.sizeof(ctypes.c_void_p)


class _Member(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("kind", ctypes.c_int),
        ("offset", ctypes.c_ssize_t),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class _Slot(ctypes.Structure):
    _fields_ = (("number", ctypes.c_int), ("value", ctypes.c_void_p))


class _Spec(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("basicsize", ctypes.c_int),
        ("itemsize", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("slots", ctypes.POINTER(_Slot)),
    )


@functools.cache
def with_vectorcall(plain: type) -> type:
    """The subclass of a class, under the same name, whose instances have two more fields: the address of their vectorcall,
    and that of a table for it.

    The fields are empty at first, and Python calls `__call__` then.
    """
    if sys.implementation.name != "cpython" or plain in _kept:
        return plain
    size = plain.__basicsize__
    members = (_Member * 2)(_Member(b"__vectorcalloffset__", _SSIZE, size, _READONLY, None), _Member())
    slots = (_Slot * 2)(_Slot(_MEMBERS, ctypes.addressof(members)), _Slot(0, None))
    name = f"{plain.__module__}.{plain.__qualname__}".encode()
    spec = _Spec(name, size + 2 * _POINTER, 0, _DEFAULT | _HAVE_VECTORCALL, slots)
    make = ctypes.pythonapi.PyType_FromSpecWithBases
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object]
    made: type = make(ctypes.addressof(spec), (plain,))
    made.__doc__ = plain.__doc__
    _kept[made] = (name, members)
    return made


_kept: dict[type, Any] = {}  # what Python reads as long as the class lives


def without_vectorcall(kind: type) -> type:
    """The class that `with_vectorcall` made a class from; any other class itself."""
    return kind.__base__ if kind in _kept else kind  # type: ignore[return-value]


def direct_vectorcall(instance: Any, address: int, table: int = 0) -> bool:
    """Send calls of an instance to the vectorcall function at an address, whose code must live as long as the instance.

    `table` is the address of what that function finds at `vectorcall_table_offset`. False where the instance's class has no
    such fields.
    """
    kind = type(instance)
    if kind in _kept:
        fields = (ctypes.c_void_p * 2).from_address(id(instance) + kind.__base__.__basicsize__)  # type: ignore[union-attr]
        fields[0] = None  # never the function with another one's table
        fields[1] = table or None
        fields[0] = address or None
    return kind in _kept


def vectorcall_table_offset(instance: Any) -> int | None:
    """Where an instance has the address of its table; None where its class has no field for it."""
    kind = type(instance)
    return kind.__base__.__basicsize__ + _POINTER if kind in _kept else None  # type: ignore[union-attr]
