"""Whatever a function reads outside its arguments may change between calls: each kind of such state, one after the other."""

import array
import calendar
import collections
import contextvars
import copy
import copyreg
import ctypes
import dataclasses
import datetime
import decimal
import enum
import functools
import importlib
import io
import itertools
import logging
import math
import numbers
import operator
import os
import pathlib
import random
import shelve
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import types
import typing
import warnings
import weakref

import numpy as np
import pytest

import symdiff as sd

KINDS = {}


def kind(make):
    """A kind of captured state: `make` gives a function and what changes the state."""
    KINDS[make.__name__] = make
    return make


def setter(owner, name, value):
    return lambda: setattr(owner, name, value)


def namespace(code, **names):
    found = {"np": np, "__name__": "made", **names}
    exec(code, found)
    return found


def module(code="", **names):
    made = types.ModuleType("mymod")
    vars(made).update(names)
    exec(code, vars(made))
    return made


class Plain:
    k = 2.0

    def __init__(self, **names):
        vars(self).update(names)

    @classmethod
    def _of(cls, k):
        return cls(k=k)


# -- functions


@kind
def function_in_dict():
    cfg = {"act": np.sin}
    return (lambda x: cfg["act"](x) * x), lambda: cfg.update(act=np.exp)


@kind
def function_in_list():
    acts = [np.sin, np.cos]
    return (lambda x: acts[0](x) * x), lambda: acts.reverse()


@kind
def ufunc_in_cell():
    act = np.sin

    def change():
        nonlocal act
        act = np.exp

    return (lambda x: act(x) * x), change


@kind
def helper_in_cell():
    def helper(x):
        return 2 * x

    def change():
        nonlocal helper
        helper = lambda x: 3 * x * x  # noqa: E731

    return (lambda x: helper(x) * x), change


@kind
def helper_in_globals():
    names = namespace("def helper(x): return 2*x\ndef f(x): return helper(x)*x")
    return names["f"], lambda: exec("def helper(x): return 5*x", names)


@kind
def class_in_globals():
    names = namespace("class K:\n  k = 2.0\ndef f(x): return K.k*x*x")
    return names["f"], lambda: exec("class K:\n  k = 3.0", names)


@kind
def changed_code():
    def helper(x):
        return 2 * x

    def other(x):
        return 7 * x

    return (lambda x: helper(x) * x), setter(helper, "__code__", other.__code__)


@kind
def changed_own_code():
    def f(x):
        return x * x

    def other(x):
        return x * x * x

    return f, setter(f, "__code__", other.__code__)


@kind
def defaults_of_helper():
    def helper(x, k=2.0):
        return k * x

    return (lambda x: helper(x) * x), setter(helper, "__defaults__", (3.0,))


@kind
def keyword_defaults_of_helper():
    def helper(x, *, k=2.0):
        return k * x

    return (lambda x: helper(x) * x), lambda: helper.__kwdefaults__.update(k=5.0)


@kind
def mutable_default():
    def helper(x, ks=[2.0]):  # noqa: B006
        return ks[0] * x

    return (lambda x: helper(x) * x), lambda: helper.__defaults__[0].append(3.0) or helper.__defaults__[0].pop(0)


@kind
def function_attribute():
    def f(x):
        return f.scale * x * x

    f.scale = 2.0
    return f, setter(f, "scale", 3.0)


@kind
def function_attribute_appears():
    def f(x):
        return getattr(f, "scale", 1.0) * x * x

    return f, setter(f, "scale", 3.0)


@kind
def function_attributes_replaced():
    def f(x):
        return f.scale * x * x

    f.scale = 2.0
    return f, setter(f, "__dict__", {"scale": 5.0})


@kind
def closure_of_closure():
    k = 2.0

    def outer():
        def inner(x):
            return k * x

        return inner

    def change():
        nonlocal k
        k = 4.0

    return (lambda x: outer()(x) * x), change


@kind
def cell_of_helper():
    def make():
        k = 2.0

        def put(value):
            nonlocal k
            k = value

        return (lambda x: k * x), put

    helper, put = make()
    return (lambda x: helper(x) * x), lambda: put(3.0)


@kind
def partial_arguments():
    ks = [2.0]
    helper = functools.partial(lambda ks, x: ks[0] * x, ks)
    return (lambda x: helper(x) * x), lambda: ks.__setitem__(0, 3.0)


@kind
def partial_keywords():
    helper = functools.partial(lambda x, k: k * x, k=2.0)
    return (lambda x: helper(x) * x), lambda: helper.keywords.update(k=3.0)


@kind
def partial_function():
    def helper(x):
        return 2 * x

    inner = functools.partial(helper)
    return (lambda x: inner(x) * x), setter(helper, "__code__", (lambda x: 9 * x).__code__)


@kind
def bound_method_self():
    class Law:
        k = 1.0

        def value(self, x):
            return self.k * x

    law = Law()
    bound = law.value
    return (lambda x: bound(x) * x), setter(law, "k", 3.0)


@kind
def bound_builtin_method():
    d = {"k": 2.0}
    get = d.get
    return (lambda x: get("k") * x * x), lambda: d.update(k=3.0)


@kind
def wrapped_function():
    k = [2.0]

    def decorate(inner):
        @functools.wraps(inner)
        def outer(x):
            return inner(x) * k[0]

        return outer

    @decorate
    def helper(x):
        return x

    return (lambda x: helper(x) * x), lambda: k.__setitem__(0, 3.0)


@kind
def cached_function():
    k = [2.0]

    @functools.lru_cache
    def helper():
        return k[0]

    def change():
        k[0] = 3.0
        helper.cache_clear()

    return (lambda x: helper() * x * x), change


@kind
def dispatched_function():
    @functools.singledispatch
    def helper(x):
        return 2 * x

    return (lambda x: helper(x) * x), lambda: helper.register(float, lambda x: 5 * x)


@kind
def nested_derivative():
    k = [2.0]
    inner = sd.grad(lambda x: k[0] * x**3)
    return (lambda x: inner(x) * x), lambda: k.__setitem__(0, 3.0)


@kind
def vectorized_function():
    k = [2.0]
    helper = np.vectorize(lambda x: k[0] * x)
    return (lambda x: helper(x) * x), lambda: k.__setitem__(0, 3.0)


# -- classes and objects


@kind
def attribute():
    obj = Plain()
    return (lambda x: obj.k * x * x), setter(obj, "k", 3.0)


@kind
def attribute_replaced_by_function():
    obj = Plain(f=np.sin)
    return (lambda x: obj.f(x) * x), setter(obj, "f", np.exp)


@kind
def attributes_replaced():
    obj = Plain(a=2.0)
    return (lambda x: obj.a * x * x), setter(obj, "__dict__", {"a": 5.0})


@kind
def class_attribute_through_instance():
    Law = type("Law", (), {"k": 2.0})
    law = Law()
    return (lambda x: law.k * x * x), setter(Law, "k", 3.0)


@kind
def inherited_attribute():
    Base = type("Base", (), {"k": 2.0})
    law = type("Law", (Base,), {})()
    return (lambda x: law.k * x * x), setter(Base, "k", 3.0)


@kind
def overridden_in_subclass():
    Base = type("Base", (), {"k": 2.0})
    Law = type("Law", (Base,), {})
    law = Law()
    return (lambda x: law.k * x * x), setter(Law, "k", 3.0)


@kind
def instance_shadows_class():
    law = type("Law", (), {"k": 2.0})()
    return (lambda x: law.k * x * x), setter(law, "k", 3.0)


@kind
def other_class():
    A, B = type("A", (), {"k": 2.0}), type("B", (), {"k": 3.0})
    law = A()
    return (lambda x: law.k * x * x), setter(law, "__class__", B)


@kind
def other_bases():
    class A:
        k = 2.0

    class B:
        k = 3.0

    class Law(A):
        pass

    law = Law()
    return (lambda x: law.k * x * x), setter(Law, "__bases__", (B,))


@kind
def method_replaced():
    class Law:
        def value(self, x):
            return 2 * x

    law = Law()
    return (lambda x: law.value(x) * x), setter(Law, "value", lambda self, x: 3 * x)


@kind
def method_of_instance():
    class Law:
        def value(self, x):
            return 2 * x

    law = Law()
    return (lambda x: law.value(x) * x), setter(law, "value", lambda x: 3 * x)


@kind
def method_code():
    class Law:
        def value(self, x):
            return 2 * x

    law = Law()
    return (lambda x: law.value(x) * x), setter(Law.value, "__code__", (lambda self, x: 3 * x).__code__)


@kind
def class_method():
    class Law:
        k = 2.0

        @classmethod
        def value(cls, x):
            return cls.k * x

    return (lambda x: Law.value(x) * x), setter(Law, "k", 3.0)


@kind
def static_method():
    class Law:
        @staticmethod
        def value(x):
            return 2 * x

    return (lambda x: Law.value(x) * x), setter(Law, "value", staticmethod(lambda x: 3 * x))


@kind
def property_reads_global():
    names = namespace("K = 2.0\nclass Law:\n  @property\n  def k(self): return K\nlaw = Law()\ndef f(x): return law.k*x*x")
    return names["f"], lambda: names.update(K=3.0)


@kind
def property_calls_helper():
    names = namespace(
        "def h(): return 2.0\nclass Law:\n  @property\n  def k(self): return self.get()\n  def get(self): return h()\n"
        "law = Law()\ndef f(x): return law.k*x*x"
    )
    return names["f"], lambda: exec("def h(): return 3.0", names)


@kind
def property_replaced():
    class Law:
        @property
        def k(self):
            return 2.0

    law = Law()
    return (lambda x: law.k * x * x), setter(Law, "k", property(lambda self: 3.0))


@kind
def descriptor_state():
    class Field:
        def __init__(self, value):
            self.value = value

        def __get__(self, owner, kind):
            return self.value

    field = Field(2.0)
    Law = type("Law", (), {"k": field})
    law = Law()
    return (lambda x: law.k * x * x), setter(field, "value", 3.0)


@kind
def getattr_method():
    state = {"k": 2.0}

    class Law:
        def __getattr__(self, name):
            return state[name]

    law = Law()
    return (lambda x: law.k * x * x), lambda: state.update(k=3.0)


@kind
def operator_of_class():
    state = [2.0]

    class Law:
        def __mul__(self, other):
            return state[0] * other

    law = Law()
    return (lambda x: (law * 1.0) * x * x), lambda: state.__setitem__(0, 3.0)


@kind
def computed_name():
    obj = Plain(act_a=2.0)
    return (lambda x: getattr(obj, "act_" + "a") * x * x), setter(obj, "act_a", 3.0)


@kind
def missing_attribute_appears():
    obj = Plain()
    return (lambda x: getattr(obj, "rate", 1.0) * x * x), setter(obj, "rate", 3.0)


@kind
def attribute_deleted():
    obj = Plain(rate=3.0)
    return (lambda x: getattr(obj, "rate", 1.0) * x * x), lambda: delattr(obj, "rate")


@kind
def slots():
    class Law:
        __slots__ = ("k",)

    law = Law()
    law.k = 2.0
    return (lambda x: law.k * x * x), setter(law, "k", 3.0)


@kind
def inherited_slots():
    class Base:
        __slots__ = ("k",)

    class Law(Base):
        __slots__ = ("other",)

    law = Law()
    law.k = [2.0]
    return (lambda x: law.k[0] * x * x), lambda: law.k.__setitem__(0, 3.0)


@kind
def dataclass():
    @dataclasses.dataclass
    class Law:
        k: float = 2.0

    law = Law()
    return (lambda x: law.k * x * x), setter(law, "k", 3.0)


@kind
def dataclass_with_slots():
    @dataclasses.dataclass(slots=True)
    class Law:
        k: float = 2.0

    law = Law()
    return (lambda x: law.k * x * x), setter(law, "k", 3.0)


@kind
def enumeration():
    class Mode(enum.Enum):
        A = 2.0

    return (lambda x: Mode.A.value * x * x), setter(Mode.A, "_value_", 3.0)


@kind
def enumeration_attribute():
    class Mode(enum.Enum):
        A = 2.0

    Mode.A.scale = 2.0
    return (lambda x: Mode.A.scale * x * x), setter(Mode.A, "scale", 3.0)


@kind
def metaclass_attribute():
    class Meta(type):
        k = 2.0

    class Law(metaclass=Meta):
        pass

    return (lambda x: Law.k * x * x), setter(Meta, "k", 3.0)


@kind
def number_with_attributes():
    class Number(float):
        pass

    k = Number(2.0)
    k.scale = 2.0
    return (lambda x: k.scale * x * x), setter(k, "scale", 3.0)


@kind
def simple_namespace():
    cfg = types.SimpleNamespace(k=2.0)
    return (lambda x: cfg.k * x * x), setter(cfg, "k", 3.0)


@kind
def objects_in_lists_with_properties():
    class Law:
        def __init__(self, k):
            self._k = {"k": [k]}

        @property
        def k(self):
            return self._k["k"][0]

    laws = [Law(1.0), Law(2.0)]
    return (lambda x: sum(law.k for law in laws) * x * x), lambda: laws[1]._k["k"].__setitem__(0, 5.0)


@kind
def linked_objects():
    first = Plain(next=Plain(next=Plain(next=Plain(k=2.0))))
    return (lambda x: first.next.next.next.k * x * x), setter(first.next.next.next, "k", 3.0)


@kind
def exception_arguments():
    error = ValueError(2.0)
    return (lambda x: error.args[0] * x * x), setter(error, "args", (3.0,))


# -- containers


@kind
def set_items():
    ks = {2.0}
    return (lambda x: sum(ks) * x * x), lambda: ks.add(3.0)


@kind
def frozenset_of_objects():
    obj = Plain(k=2.0)
    ks = frozenset([obj])
    return (lambda x: sum(o.k for o in ks) * x * x), setter(obj, "k", 3.0)


@kind
def bytearray_items():
    ks = bytearray([2])
    return (lambda x: ks[0] * x * x), lambda: ks.__setitem__(0, 3)


@kind
def array_items():
    ks = array.array("d", [2.0])
    return (lambda x: ks[0] * x * x), lambda: ks.__setitem__(0, 3.0)


@kind
def memory_view():
    ks = bytearray([2])
    view = memoryview(ks)
    return (lambda x: view[0] * x * x), lambda: ks.__setitem__(0, 3)


@kind
def ctypes_array():
    ks = (ctypes.c_double * 2)(2.0, 1.0)
    return (lambda x: ks[0] * x * x), lambda: ks.__setitem__(0, 3.0)


@kind
def ctypes_number():
    k = ctypes.c_double(2.0)
    return (lambda x: k.value * x * x), setter(k, "value", 3.0)


@kind
def object_array():
    ks = np.array([2.0, [1.0]], dtype=object)
    return (lambda x: ks[0] * x * x), lambda: ks.__setitem__(0, 3.0)


@kind
def list_in_object_array():
    ks = np.array([2.0, [1.0]], dtype=object)
    return (lambda x: ks[1][0] * x * x), lambda: ks[1].__setitem__(0, 3.0)


@kind
def structured_array():
    ks = np.array([(2.0, 1)], dtype=[("k", "f8"), ("n", "i4")])
    return (lambda x: float(ks["k"][0]) * x * x), lambda: ks["k"].__setitem__(0, 3.0)


@kind
def integer_array():
    ks = np.array([2, 3])
    return (lambda x: int(ks[0]) * x * x), lambda: ks.__setitem__(0, 5)


@kind
def masked_array():
    ks = np.ma.masked_array([2.0, 3.0], [False, False])
    return (lambda x: float(ks.sum()) * x * x), lambda: ks.__setitem__(0, np.ma.masked)


@kind
def string_array():
    ks = np.array(["2.0"])
    return (lambda x: float(ks[0]) * x * x), lambda: ks.__setitem__(0, "3.0")


@kind
def dict_order():
    ks = {"a": 2.0, "b": 3.0}
    return (lambda x: next(iter(ks.values())) * x * x), lambda: ks.update(a=ks.pop("a"))


@kind
def dict_keys():
    ks = {2.0: None}
    return (lambda x: sum(ks) * x * x), lambda: (ks.clear(), ks.update({3.0: None}))


@kind
def ordered_dict():
    ks = collections.OrderedDict(a=2.0, b=3.0)
    return (lambda x: next(iter(ks.values())) * x * x), lambda: ks.move_to_end("a")


@kind
def default_dict():
    ks = collections.defaultdict(lambda: 1.0, a=2.0)
    return (lambda x: ks["a"] * x * x), lambda: ks.update(a=3.0)


@kind
def default_factory():
    ks = collections.defaultdict(lambda: 1.0)
    return (lambda x: ks["a"] * x * x), lambda: (ks.clear(), setattr(ks, "default_factory", lambda: 3.0))


@kind
def chain_map():
    inner = {"k": 2.0}
    ks = collections.ChainMap({}, inner)
    return (lambda x: ks["k"] * x * x), lambda: inner.update(k=3.0)


@kind
def chain_map_maps():
    ks = collections.ChainMap({}, {"k": 2.0})
    return (lambda x: ks["k"] * x * x), lambda: ks.maps.insert(0, {"k": 3.0})


@kind
def mapping_proxy():
    inner = {"k": 2.0}
    ks = types.MappingProxyType(inner)
    return (lambda x: ks["k"] * x * x), lambda: inner.update(k=3.0)


@kind
def dict_view():
    inner = {"k": 2.0}
    ks = inner.values()
    return (lambda x: sum(ks) * x * x), lambda: inner.update(k=3.0)


@kind
def counter():
    ks = collections.Counter("aa")
    return (lambda x: ks["a"] * x * x), lambda: ks.update("a")


@kind
def deque_items():
    ks = collections.deque([2.0, 3.0])
    return (lambda x: ks[0] * x * x), lambda: ks.rotate()


@kind
def user_dict():
    ks = collections.UserDict(k=2.0)
    return (lambda x: ks["k"] * x * x), lambda: ks.update(k=3.0)


@kind
def list_subclass():
    class Rates(list):
        pass

    ks = Rates([2.0])
    ks.scale = 2.0
    return (lambda x: ks[0] * ks.scale * x * x), setter(ks, "scale", 3.0)


@kind
def dict_subclass_missing():
    state = [2.0]

    class Rates(dict):
        def __missing__(self, key):
            return state[0]

    ks = Rates()
    return (lambda x: ks["a"] * x * x), lambda: state.__setitem__(0, 3.0)


@kind
def named_tuple():
    Pair = collections.namedtuple("Pair", "a b")
    pair = Pair([2.0], 1.0)
    return (lambda x: pair.a[0] * x * x), lambda: pair.a.__setitem__(0, 3.0)


@kind
def list_of_many():
    ks = [1.0] * 5000
    return (lambda x: ks[4321] * x * x), lambda: ks.__setitem__(4321, 3.0)


@kind
def weak_reference():
    first = Plain(k=2.0)
    ref = weakref.ref(first)
    return (lambda x: ref().k * x * x), setter(first, "k", 3.0)


@kind
def weak_value_dictionary():
    first, second = Plain(k=2.0), Plain(k=3.0)
    table = weakref.WeakValueDictionary(a=first)
    table.both = first, second
    return (lambda x: table["a"].k * x * x), lambda: table.update(a=second)


@kind
def proxy():
    obj = Plain(k=2.0)
    found = weakref.proxy(obj)
    return (lambda x: found.k * x * x), setter(obj, "k", 3.0)


@kind
def string_io():
    text = io.StringIO("2.0")

    def change():
        text.seek(0)
        text.write("3.0")

    return (lambda x: float(text.getvalue()) * x * x), change


# -- names


@kind
def builtin_is_shadowed():
    names = namespace("def f(x): return abs(-2.0)*x*x")
    return names["f"], lambda: names.update(abs=lambda x: 3.0)


@kind
def global_deleted():
    names = namespace("abs = lambda x: 3.0\ndef f(x): return abs(-2.0)*x*x")
    return names["f"], lambda: names.pop("abs")


@kind
def missing_name_appears():
    names = namespace("def f(x):\n  try:\n    k = K\n  except NameError:\n    k = 1.0\n  return k*x*x")
    return names["f"], lambda: names.update(K=3.0)


@kind
def globals_call():
    names = namespace("k = 2.0\ndef f(x): return globals()['k']*x*x")
    return names["f"], lambda: names.update(k=3.0)


@kind
def evaluated_text():
    names = namespace("k = 2.0\ndef f(x): return eval('k'+'')*x*x")
    return names["f"], lambda: names.update(k=3.0)


@kind
def module_attribute():
    cfg = module(k=2.0)
    return (lambda x: cfg.k * x * x), setter(cfg, "k", 3.0)


@kind
def module_attribute_appears():
    cfg = module()
    return (lambda x: getattr(cfg, "k", 1.0) * x * x), setter(cfg, "k", 3.0)


@kind
def computed_module_attribute():
    cfg = module(ab=2.0)
    return (lambda x: getattr(cfg, "".join(["a", "b"])) * x * x), setter(cfg, "ab", 3.0)


@kind
def module_variables():
    cfg = module(ab=2.0)
    return (lambda x: vars(cfg)["".join(["a", "b"])] * x * x), setter(cfg, "ab", 3.0)


@kind
def submodule():
    package = module(sub=module(k=2.0))
    return (lambda x: package.sub.k * x * x), setter(package.sub, "k", 3.0)


@kind
def submodule_replaced():
    package = module(sub=module(k=2.0))
    return (lambda x: package.sub.k * x * x), setter(package, "sub", module(k=3.0))


@kind
def module_passed_on():
    cfg = module(k=2.0)

    def helper(settings, x):
        return settings.k * x

    return (lambda x: helper(cfg, x) * x), setter(cfg, "k", 3.0)


@kind
def module_function():
    cfg = module("def h(x): return 2*x")
    return (lambda x: cfg.h(x) * x), lambda: exec("def h(x): return 3*x", vars(cfg))


@kind
def module_getattr():
    cfg = module("K = 2.0\ndef __getattr__(name): return K")
    return (lambda x: cfg.k * x * x), setter(cfg, "K", 3.0)


@kind
def import_inside():
    sys.modules["symdiff_mymod"] = module(k=2.0)

    def f(x):
        from symdiff_mymod import k

        return k * x * x

    return f, setter(sys.modules["symdiff_mymod"], "k", 3.0)


@kind
def import_of_module_inside():
    sys.modules["symdiff_mymod"] = module(k=2.0)

    def f(x):
        import symdiff_mymod as m

        return m.k * x * x

    return f, lambda: sys.modules.update(symdiff_mymod=module(k=3.0))


@kind
def computed_import():
    sys.modules["symdiff_mymod"] = module(k=2.0)

    def f(x):
        return importlib.import_module("symdiff_" + "mymod").k * x * x

    return f, setter(sys.modules["symdiff_mymod"], "k", 3.0)


@kind
def modules_table():
    sys.modules["symdiff_mymod"] = module(k=2.0)
    return (lambda x: sys.modules["symdiff_mymod"].k * x * x), setter(sys.modules["symdiff_mymod"], "k", 3.0)


# -- settings


@kind
def environment():
    os.environ["SYMDIFF_K"] = "2.0"
    return (lambda x: float(os.environ["SYMDIFF_K"]) * x * x), lambda: os.environ.update(SYMDIFF_K="3.0")


@kind
def environment_by_function():
    os.environ["SYMDIFF_K"] = "2.0"
    return (lambda x: float(os.getenv("SYMDIFF_K")) * x * x), lambda: os.environ.update(SYMDIFF_K="3.0")


@kind
def context_variable():
    k = contextvars.ContextVar("k", default=2.0)
    return (lambda x: k.get() * x * x), lambda: k.set(3.0)


@kind
def context_variable_with_list():
    k = contextvars.ContextVar("k")
    k.set([2.0])
    return (lambda x: k.get()[0] * x * x), lambda: k.get().__setitem__(0, 3.0)


@kind
def thread_local():
    state = threading.local()
    state.k = 2.0
    return (lambda x: state.k * x * x), setter(state, "k", 3.0)


@kind
def decimal_precision():
    decimal.getcontext().prec = 28

    def f(x):
        return float(decimal.Decimal(1) / decimal.Decimal(3)) * x * x

    return f, setter(decimal.getcontext(), "prec", 3)


@kind
def decimal_context():
    def f(x):
        return decimal.getcontext().prec * x * x

    decimal.getcontext().prec = 28
    return f, setter(decimal.getcontext(), "prec", 3)


THIRDS = np.array([decimal.Decimal(1), decimal.Decimal(2)], dtype=object)
DECIMALS = {
    "operator": lambda one: one / 3,
    "in_place": lambda one: operator.itruediv(one, 3),
    "plus": lambda one: +(one * decimal.Decimal("1.23456789")),
    "method": lambda one: one.fma(decimal.Decimal("1.23456789"), 1),
    "sum": lambda one: sum([one / 3, one / 7]),
    "objects": lambda one: (THIRDS / 3).sum(),
}


def decimals(compute, precision, name, value):
    """A function that computes with a decimal number from outside, in the context of its thread."""
    one = decimal.Decimal(1)
    decimal.getcontext().prec, decimal.getcontext().rounding = precision, decimal.ROUND_DOWN
    return (lambda x: float(compute(one)) * x * x), setter(decimal.getcontext(), name, value)


for _how, _compute in DECIMALS.items():
    KINDS[f"decimal_{_how}"] = functools.partial(decimals, _compute, 28, "prec", 2)
    KINDS[f"decimal_{_how}_rounded_up"] = functools.partial(decimals, _compute, 3, "rounding", decimal.ROUND_UP)


@kind
def decimal_context_of_the_module():
    decimal.DefaultContext.prec = 28
    return (lambda x: decimal.DefaultContext.prec * x * x), setter(decimal.DefaultContext, "prec", 3)


@kind
def decimal_context_of_another():
    context = decimal.Context(prec=28)
    return (lambda x: float(context.divide(1, 3)) * x * x), setter(context, "prec", 3)


@kind
def error_state():
    np.seterr(divide="warn")

    def f(x):
        return (3.0 if np.geterr()["divide"] == "ignore" else 2.0) * x * x

    return f, lambda: np.seterr(divide="ignore")


@kind
def file_contents(tmp="/tmp"):
    path = os.path.join(tmp, f"symdiff_kinds_{os.getpid()}.txt")

    def put(text):
        with open(path, "w") as file:
            file.write(text)

    def f(x):
        with open(path) as file:
            return float(file.read()) * x * x

    put("2.0")
    return f, lambda: put("3.25")


@kind
def path_contents(tmp="/tmp"):
    path = pathlib.Path(tmp, f"symdiff_kinds_{os.getpid()}.txt")
    path.write_text("2.0")
    return (lambda x: float(path.read_text()) * x * x), lambda: path.write_text("3.25")


@kind
def array_file(tmp="/tmp"):
    path = os.path.join(tmp, f"symdiff_kinds_{os.getpid()}.npy")
    np.save(path, np.array([2.0]))
    return (lambda x: float(np.load(path)[0]) * x * x), lambda: np.save(path, np.array([3.0, 1.0]))


# -- what objects of libraries hold in their classes, where iterators stand, and settings


def polynomial(cls, name):
    p = cls([1.0, 2.0, 3.0])
    return (lambda x: p(x)), lambda: operator.setitem(getattr(p, name), 0, -3.0)


@kind
def polynomial_window():
    return polynomial(np.polynomial.Polynomial, "window")


@kind
def legendre_domain():
    return polynomial(np.polynomial.Legendre, "domain")


@kind
def polynomial_window_of_its_class():
    def f(x):
        return np.polynomial.Chebyshev([1.0, 2.0, 3.0], [0.0, 2.0])(x)

    return f, lambda: operator.setitem(np.polynomial.Chebyshev.window, 1, 5.0)


@kind
def random_generator_state():
    draws = np.random.default_rng(3)
    return (lambda x: x * x * (draws.bit_generator.state["state"]["state"] % 1000)), draws.random


@kind
def count_shown():
    counter = itertools.count(3)
    return (lambda x: x * x * len(repr(counter))), lambda: [next(counter) for _ in range(9)]


@kind
def print_options():
    return (lambda x: x * x * np.get_printoptions()["precision"]), lambda: np.set_printoptions(precision=5)


@kind
def buffer_size():
    return (lambda x: x * x * np.getbufsize()), lambda: np.setbufsize(4096)


@kind
def recursion_limit():
    return (lambda x: x * x * sys.getrecursionlimit()), lambda: sys.setrecursionlimit(sys.getrecursionlimit() + 7)


@kind
def warning_filters():
    def f(x):
        try:
            warnings.warn("low", UserWarning, stacklevel=1)
        except UserWarning:
            return x * x
        return x * x * 2

    warnings.simplefilter("ignore")
    return f, lambda: warnings.simplefilter("error")


@kind
def level_of_a_named_logger():
    logger = logging.getLogger("symdiff_kinds")
    return (lambda x: x * x * logging.getLogger("symdiff_kinds").level), lambda: logger.setLevel(50)


# -- what every call has anew


@kind
def iterator():
    it = iter([2.0, 3.0, 4.0, 5.0, 6.0, 7.0])
    return (lambda x: next(it) * x * x), lambda: None


@kind
def generator():
    it = (float(k) for k in range(100))
    return (lambda x: next(it) * x * x), lambda: None


@kind
def count():
    it = itertools.count(1)
    return (lambda x: next(it) * x * x), lambda: None


@kind
def mapped():
    it = map(float, range(1, 100))
    return (lambda x: next(it) * x * x), lambda: None


@kind
def random_generator():
    rng = np.random.default_rng(0)
    return (lambda x: rng.random() * x * x), lambda: None


@kind
def random_generator_in_property():
    class Noise:
        rng = random.Random(0)

        @property
        def k(self):
            return self.rng.random()

    noise = Noise()
    return (lambda x: noise.k * x * x), lambda: None


@kind
def clock():
    return (lambda x: (time.time() % 1000) * x * x), lambda: time.sleep(0.002)


@kind
def date():
    return (lambda x: datetime.datetime.now().microsecond * x * x), lambda: time.sleep(0.002)


@kind
def logger_level():
    logger = logging.getLogger("symdiff_kinds")
    logger.setLevel(logging.INFO)

    def f(x):
        return (3.0 if logger.isEnabledFor(logging.DEBUG) else 2.0) * x * x

    return f, lambda: logger.setLevel(logging.DEBUG)


@kind
def class_of_module():
    kind = type("Settings", (types.ModuleType,), {"k": 2.0})
    cfg = kind("cfg")
    return (lambda x: cfg.k * x * x), setter(kind, "k", 3.0)


@kind
def match_arguments():
    class Pair:
        __match_args__ = ("a", "b")
        a, b = 2.0, 3.0

    pair = Pair()

    def f(x):
        match pair:
            case Pair(k):
                return k * x * x

    return f, setter(Pair, "__match_args__", ("b", "a"))


@kind
def constructor_of_class():
    state = [2.0]

    class Law:
        def __init__(self):
            self.k = state[0]

    return (lambda x: Law().k * x * x), lambda: state.__setitem__(0, 3.0)


@kind
def metaclass_call():
    state = [2.0]

    class Meta(type):
        def __call__(cls):
            made = type.__call__(cls)
            made.k = state[0]
            return made

    class Law(metaclass=Meta):
        pass

    return (lambda x: Law().k * x * x), lambda: state.__setitem__(0, 3.0)


@kind
def sparse_matrix():
    sparse = pytest.importorskip("scipy.sparse")
    matrix = sparse.csr_matrix(np.eye(2))
    return (lambda x: float(matrix.sum()) * x * x), lambda: matrix.data.__setitem__(0, 5.0)


@kind
def spline():
    interpolate = pytest.importorskip("scipy.interpolate")
    curve = interpolate.CubicSpline([0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 4.0, 9.0])
    return (lambda x: float(curve(0.5)) * x * x), lambda: curve.c.__imul__(2)


@kind
def function_of_python_numbers():
    ks = [2.0]
    scaled = np.frompyfunc(lambda a: a * ks[0], 1, 1)
    return (lambda x: scaled(3.0) * x * x), lambda: ks.__setitem__(0, 3.0)


@kind
def flat_iterator():
    array = np.array([2.0, 3.0])
    flat = array.flat
    return (lambda x: flat[0] * x * x), lambda: array.__setitem__(0, 5.0)


@kind
def module_that_computes_names():
    table = {"k": 2.0}
    made = module()
    made.__getattr__ = lambda name: table[name]
    return (lambda x: made.k * x * x), lambda: table.update(k=3.0)


@kind
def item_getter():
    ks = [2.0]
    first = operator.itemgetter(0)
    return (lambda x: first(ks) * x * x), lambda: ks.__setitem__(0, 3.0)


# -- what functions of Python's read, and what only they change


@kind
def annotations_by_type_hints():
    class Law:
        a: int

    return (lambda x: len(typing.get_type_hints(Law)) * x * x), lambda: Law.__annotations__.update(b=int)


@kind
def metadata_of_fields():
    @dataclasses.dataclass
    class Law:
        k: float = 2.0

    return (lambda x: dataclasses.fields(Law)[0].default * x * x), setter(Law.__dataclass_fields__["k"], "default", 3.0)


@kind
def state_of_a_librarys_own_object():
    return (lambda x: (calendar.firstweekday() + 1) * x * x), lambda: calendar.setfirstweekday(6)


@kind
def hook_of_the_system():
    def f(x):
        return (2.0 if sys.excepthook is sys.__excepthook__ else 3.0) * x * x

    return f, setter(sys, "excepthook", lambda *_: None)


@kind
def function_put_into_a_library():
    math.symdiff_k = lambda: 2.0
    return (lambda x: (math.symdiff_k() if hasattr(math, "symdiff_k") else 1.0) * x * x), lambda: delattr(math, "symdiff_k")


# -- code without source, whose calls of methods are not seen


@kind
def copied_generator_without_source():
    code = "import copy, random\nrng = random.Random(1)\ndef f(x): return copy.deepcopy(rng).random()*x*x"
    names = namespace(code)
    return names["f"], names["rng"].random


@kind
def class_without_source_in_place_of_a_module():
    names = namespace("import math\ndef f(x): return math.sin(x)*x")
    return names["f"], lambda: exec("class math:\n  sin = staticmethod(lambda x: 3*x)", names)


@kind
def lock_asked_without_source():
    lock = threading.Lock()
    return namespace("def f(x): return (2.0 if lock.locked() else 3.0)*x*x", lock=lock)["f"], lambda: None


@kind
def lock_held_without_source():
    names = namespace("def f(x):\n  with lock:\n    return k*x*x", lock=threading.Lock(), k=2.0)
    return names["f"], lambda: names.update(k=3.0)


@kind
def database_without_source():
    base = sqlite3.connect(":memory:")
    return namespace("def f(x): return base.execute('select 2.0').fetchone()[0]*x*x", base=base)["f"], lambda: None


# -- what Python's own classes call by themselves, and what they are made by


@kind
def hook_of_an_enumeration():
    names = namespace("""import enum
name = "LOW"
class Level(enum.Enum):
    LOW, HIGH = 2.0, 3.0
    @classmethod
    def _missing_(cls, value): return cls[name]
def f(x): return Level(7).value*x*x""")
    return names["f"], lambda: names.update(name="HIGH")


@kind
def class_made_by_a_library():
    law = types.new_class("Law", (), {}, lambda body: body.update(k=2.0))
    return (lambda x: law.k * x * x), setter(law, "k", 3.0)


@kind
def default_of_a_generated_constructor():
    @dataclasses.dataclass(kw_only=True)
    class Law:
        k: float
        scale: dataclasses.InitVar[float] = 2.0

        def __post_init__(self, scale):
            self.k = self.k * scale

    return (lambda x: Law(k=x).k * x), lambda: Law.__init__.__kwdefaults__.update(scale=3.0)


@kind
def module_imported_by_function_is_replaced():
    sys.modules["symdiff_mymod"] = module("K = 2.0")

    def f(x):
        return importlib.import_module("symdiff_mymod").K * x * x

    return f, lambda: sys.modules.update(symdiff_mymod=module("K = 3.0"))


@kind
def items_of_the_default_of_a_context_variable():
    held = {"k": 2.0}
    variable = contextvars.ContextVar("variable", default=held)
    return (lambda x: variable.get()["k"] * x * x), lambda: held.update(k=3.0)


@kind
def shelf():
    path = os.path.join(tempfile.mkdtemp(), "shelf")

    def f(x):
        with shelve.open(path) as held:
            return held.get("k", 2.0) * x * x

    return f, lambda: None


# -- what C holds, and where names come from


class Zone(datetime.tzinfo):
    def __init__(self, hours):
        self.hours = hours

    def utcoffset(self, _):
        return datetime.timedelta(hours=self.hours)

    def dst(self, _):
        return datetime.timedelta(0)


@kind
def zone_of_a_date():
    zone = Zone(2)
    at = datetime.datetime(2020, 1, 1, tzinfo=zone)
    return (lambda x: at.utcoffset().seconds * x * x), setter(zone, "hours", 3)


@kind
def zone_of_a_time():
    zone = Zone(2)
    at = datetime.time(1, tzinfo=zone)
    return (lambda x: at.utcoffset().seconds * x * x), setter(zone, "hours", 3)


@kind
def names_of_fields():
    fields = np.dtype([("ab", float)])
    return (lambda x: len(fields.names[0]) * x * x), setter(fields, "names", ("abc",))


@kind
def names_of_fields_of_an_array():
    rows = np.array([(2.0, 3.0)], dtype=[("a", float), ("b", float)])
    return (lambda x: rows["a"][0] * x * x), setter(rows.dtype, "names", ("b", "a"))


@kind
def names_of_fields_of_objects():
    rows = np.array([(2.0, 3.0)], dtype=[("a", object), ("b", object)])
    return (lambda x: rows["a"][0] * x * x), setter(rows.dtype, "names", ("b", "a"))


@kind
def index_in_an_itemgetter():
    class Place:
        at = 0

        def __index__(self):
            return self.at

    take = operator.itemgetter(Place())
    return (lambda x: take([2.0, 3.0]) * x * x), setter(Place, "at", 1)


@kind
def arguments_of_a_methodcaller():
    class Scaled:
        def by(self, first, then):
            return first[0] * then[0]

    first, scaled = [2.0], Scaled()
    call = operator.methodcaller("by", first, then=[3.0])
    return (lambda x: call(scaled) * x * x), lambda: first.append(first.pop() + 1)


@kind
def broadcast_position():
    pair = np.broadcast(np.arange(3.0), np.arange(3.0))
    return (lambda x: (1 + pair.index) * x * x), lambda: next(pair)


@kind
def nditer_position():
    cells = np.nditer(np.arange(3.0))
    return (lambda x: (1 + cells.iterindex) * x * x), lambda: [next(cells), next(cells)]


@kind
def nditer_memory():
    held = np.arange(3.0)
    cells = np.nditer(held)
    return (lambda x: (1 + cells.value) * x * x), lambda: held.fill(7.0)


@kind
def frame():
    def paused():
        k = 2.0
        while True:
            yield sys._getframe()
            k += 1

    frames = paused()
    held = next(frames)
    return (lambda x: held.f_locals["k"] * x * x), lambda: next(frames)


@kind
def traceback():
    try:
        raise ValueError
    except ValueError as error:
        held = error
    return (lambda x: held.__traceback__.tb_lineno * x * x), lambda: None


@kind
def registered_with_a_library():
    class Own:
        pass

    own = Own()
    return (lambda x: (2.0 if isinstance(own, numbers.Number) else 3.0) * x * x), lambda: numbers.Number.register(Own)


@kind
def reducer_of_copies():
    made = Plain(k=2.0)
    return (lambda x: copy.copy(made).k * x * x), lambda: copyreg.pickle(Plain, lambda _: (Plain._of, (3.0,)))


@kind
def builtins_of_its_own():
    found = namespace("def f(x): return abs(-2.0)*x*x", __builtins__={"abs": abs})
    return found["f"], lambda: found["__builtins__"].update(abs=lambda _: 3.0)


@kind
def globals_of_a_class():
    class Names(dict):
        def __missing__(self, _):
            return numbers[0]

    numbers, found = [2.0], Names()
    exec("def f(x): return k*x*x", found)
    return found["f"], lambda: numbers.append(numbers.pop() + 1)


@kind
def list_in_a_library_replaced(kept=sys.argv):
    return (lambda x: len(sys.argv) * x * x), setter(sys, "argv", [*kept, "more"])


@kind
def names_of_time_zones():
    def change():
        os.environ["TZ"] = "LONGER-3"
        time.tzset()

    return (lambda x: len(time.tzname[0]) * x * x), change


def outcome(g):
    try:
        return float(g(0.7))
    except sd.SymdiffError as error:
        return error


@pytest.fixture(autouse=True)
def settings():
    """What the kinds change of Python's and NumPy's own is put back."""
    errors, limit, buffer = np.geterr(), sys.getrecursionlimit(), np.getbufsize()
    arguments, zone = sys.argv, os.environ.get("TZ")
    classes = (np.polynomial.Polynomial, np.polynomial.Legendre, np.polynomial.Chebyshev)
    kept = [(held, held.copy()) for cls in classes for held in (cls.window, cls.domain)]
    with warnings.catch_warnings(), np.printoptions(), decimal.localcontext():
        yield
    decimal.DefaultContext.prec = 28
    for held, before in kept:
        held[:] = before
    sys.setrecursionlimit(limit)
    np.setbufsize(buffer)
    np.seterr(**errors)
    os.environ.pop("SYMDIFF_K", None)
    sys.argv = arguments
    copyreg.dispatch_table.pop(Plain, None)
    os.environ.pop("TZ", None)
    os.environ.update({} if zone is None else {"TZ": zone})
    time.tzset()
    sys.modules.pop("symdiff_mymod", None)
    calendar.setfirstweekday(0)
    sys.excepthook = sys.__excepthook__
    logging.getLogger("symdiff_kinds").setLevel(logging.NOTSET)


REFUSED = set(
    """
    shelf lock_asked_without_source database_without_source iterator generator count mapped random_generator
    random_generator_in_property clock date frame traceback
""".split()
)


ALONE = ("modules_table",)  # what reads every module of the process, here those of all tests


@pytest.mark.parametrize("backend", ["auto", "numpy"])
@pytest.mark.parametrize("name", KINDS)
def test_a_change_is_seen(name, backend):
    if name in ALONE:
        code = f"import test_captured_kinds as kinds; kinds.see_a_change({name!r}, {backend!r})"
        subprocess.run([sys.executable, "-c", code], cwd=pathlib.Path(__file__).parent, check=True)
    else:
        see_a_change(name, backend)


def see_a_change(name, backend):
    f, change = KINDS[name]()
    g = sd.grad(f, backend=backend)
    first = outcome(g)
    assert isinstance(first, sd.SymdiffError) is (name in REFUSED), first
    if name in REFUSED:
        assert ".py:" in str(first) or ("without_source" in name and "<string>:" in str(first))
        return
    assert outcome(g) == outcome(g) == first
    change()
    assert outcome(g) == outcome(g) == outcome(sd.grad(f, backend=backend)) != first
