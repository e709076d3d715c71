"""Constructors of the user's classes, followed: `__new__`, `__init__` and `__post_init__`.

Assumes classes without a metaclass that changes how they are called. Guarantees what Python's own construction does, in its
order; for dataclasses the fields, defaults and factories. Other classes are called as they stand.
"""

import dataclasses
import inspect
import types
from typing import Any

from symdiff.tracing.loops.handing import made as note_made
from symdiff.vocabulary.libraries import is_library, is_users
from symdiff.vocabulary.signatures import Arguments, Keywords, Lookup


def constructor(cls: Any, call: Lookup) -> Any:
    """What makes an object of a class; the class itself where the user wrote nothing that runs."""
    if type(cls).__call__ is not type.__call__ or issubclass(cls, BaseException):
        return cls
    written = any(
        isinstance(f, types.FunctionType) and not is_library(f.__code__.co_filename) for f in (cls.__new__, cls.__init__)
    )
    if not written or (
        _is_generated(cls) and not hasattr(cls, "__post_init__") and not any(map(_has_factory, dataclasses.fields(cls)))
    ):
        return (lambda *args, **kwargs: note_made(cls(*args, **kwargs))) if is_users(cls) else cls

    def construct(*args: Any, **kwargs: Any) -> Any:
        new = cls.__new__
        made = note_made(new(cls) if new is object.__new__ else call(new)(cls, *args, **kwargs))
        if isinstance(made, cls):
            init = type(made).__init__
            if _is_generated(type(made)):
                _fill(made, init, args, kwargs, call)
            else:
                (init if init is object.__init__ else call(init))(made, *args, **kwargs)
        return made

    return construct


def follow_replace(call: Lookup, obj: Any, /, **changes: Any) -> Any:
    """`dataclasses.replace`."""
    if not any(f.init is False and f.name in changes for f in dataclasses.fields(obj)):
        changes = {f.name: getattr(obj, f.name) for f in dataclasses.fields(obj) if f.init} | changes
        return call(type(obj))(**changes)
    return dataclasses.replace(obj, **changes)


def _is_generated(cls: type) -> bool:
    """Whether `dataclass` wrote the constructor of a class."""
    owner = next(c for c in cls.__mro__ if "__init__" in vars(c))
    parameters = vars(owner).get("__dataclass_params__")
    return parameters is not None and parameters.init


def _has_factory(field: Any) -> bool:
    return field.default_factory is not dataclasses.MISSING


def _fill(made: Any, init: Any, args: Arguments, kwargs: Keywords, call: Lookup) -> None:
    """What the constructor of a dataclass does."""
    signature = inspect.signature(init)
    given = signature.bind(made, *args, **kwargs).arguments
    passed = []
    for name, field in made.__dataclass_fields__.items():
        kind = field._field_type.name
        if kind == "_FIELD_CLASSVAR":
            continue
        if field.init and name in given:
            value = given[name]
        elif _has_factory(field):
            value = note_made(call(field.default_factory)())
        elif field.init:
            value = signature.parameters[name].default
        elif field.default is not dataclasses.MISSING:
            value = field.default
        else:
            continue
        if kind == "_FIELD_INITVAR":
            passed.append(value)
        else:
            object.__setattr__(made, name, value)
    if hasattr(made, "__post_init__"):
        call(made.__post_init__)(*passed)
