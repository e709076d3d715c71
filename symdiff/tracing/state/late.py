"""Functions that are looked up when they are called, wherever code without source reads them.

Assumes a lookup that gives the function to be called. Guarantees that a `Late` is in all else the function, or the object with
methods, itself; only `is` tells them apart.
"""

import types
from typing import Any

from symdiff.vocabulary.signatures import Lookup


def itself(value: Any) -> Any:
    """The function behind a `Late`; other values as they are."""
    return object.__getattribute__(value, "_function") if type(value) is Late else value


class Late:
    """A function that is looked up when it is called: functions may call each other. In all else it is the function.

    Code such as `table[0](x)` reads objects as if it called them.
    """

    __slots__ = ("_call", "_function")

    def __init__(self, function: Any, call: Lookup) -> None:
        object.__setattr__(self, "_function", function)
        object.__setattr__(self, "_call", call)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        call = object.__getattribute__(self, "_call")
        return call(itself(self))(*args, **kwargs)

    def __getattribute__(self, name: str) -> Any:
        found = getattr(itself(self), name)
        return Late(found, object.__getattribute__(self, "_call")) if type(found) is types.MethodType else found

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(itself(self), name, value)

    def __delattr__(self, name: str) -> None:
        delattr(itself(self), name)

    def __instancecheck__(self, value: Any) -> bool:
        return isinstance(value, itself(self))

    def __getitem__(self, key: Any) -> Any:
        return itself(self)[key]

    def __bool__(self) -> bool:
        return bool(itself(self))

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        return self if owner is None else types.MethodType(self, owner)

    def __eq__(self, other: object) -> bool:
        return itself(self) is itself(other)

    def __hash__(self) -> int:
        return hash(itself(self))

    def __repr__(self) -> str:
        return repr(itself(self))

    def __dir__(self) -> list[str]:
        return dir(itself(self))
