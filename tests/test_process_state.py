"""What a traced function asks of the process, of caches, files and objects written in C is compared before each call."""

import abc
import codecs
import collections
import contextvars
import copy
import csv
import datetime
import fileinput
import functools
import gc
import glob
import gzip
import hashlib
import importlib
import inspect
import io
import itertools
import logging
import math
import mimetypes
import mmap
import operator
import os
import pathlib
import random
import re
import socket
import subprocess
import sys
import threading
import time
import tokenize
import tracemalloc
import types
import weakref
import zipfile

import numpy as np
import pytest
from inside import functions_outside

import symdiff as sd


class Names:
    """1.0"""


class Register(metaclass=abc.ABCMeta):  # noqa: B024
    pass


class Local(threading.local):
    k = 1.0


@functools.lru_cache
def cached(n):
    return n * scale[0]


scale = [2.0]
texts = iter([1.0, 2.0, 3.0])
held = {"it": iter([1.0, 2.0, 3.0])}
counter = itertools.count(1)
pair = np.array([(1.0, 2.0)], dtype=[("a", "f8"), ("b", "f8")])
cells = np.array([1.0, 2.0]) / 3
stream = io.BytesIO(b"123")
local = Local()
seeds = np.random.SeedSequence(3)


def generating():
    while True:
        yield scale_of_generator[0]


def trapped(x):
    number = 1.0
    try:
        np.ones(1) / np.zeros(1)
    except FloatingPointError:
        number = 2.0
    return x * number


class Parent:
    pass


class Logger(logging.Logger):
    k = 1.0


class Weak(weakref.ref):
    pass


class Faced:
    pass


rows = np.array([(1.0, 2.0)], dtype=[("a", "f8"), ("b", "f8")])
records = np.rec.array([(1.0, 2.0)], dtype=[("a", "f8"), ("b", "f8")])
row, record = rows[0], records[0]
scale_of_generator, behind, faced, logger = [1.0], np.array([1.0, 2.0]), Faced(), Logger("tests")
faced.__array_interface__ = behind.__array_interface__  # type: ignore[attr-defined]
advanced, finalizer, children = generating(), weakref.finalize(Parent, print), list[object]()
next(advanced)


def renamed():
    threading.current_thread().name += "s"


CHANGES = {
    "iterator": (lambda x: x * sum(copy.copy(texts)), lambda: next(texts)),
    "iterator held": (lambda x: x * sum(copy.copy(held["it"])), lambda: next(held["it"])),
    "count": (lambda x: x * float(repr(counter)[6:-1]), lambda: next(counter)),
    "fields": (lambda x: x * pair["a"][0], lambda: setattr(pair.dtype, "names", ("b", "a"))),
    "flags": (lambda x: x * (1 + cells.flags.writeable), lambda: cells.setflags(write=False)),
    "shown": (lambda x: x * len(f"{cells}"), lambda: np.set_printoptions(precision=3)),
    "shown in a list": (lambda x: x * len(str([cells])), lambda: np.set_printoptions(precision=4)),
    "options": (lambda x: x * np.get_printoptions()["precision"], lambda: np.set_printoptions(precision=5)),
    "callback": (lambda x: x * (1 + (np.geterrcall() is None)), lambda: np.seterrcall(print)),
    "collector": (lambda x: x * (1 + gc.isenabled()), gc.disable),
    "digits": (lambda x: x * sys.get_int_max_str_digits(), lambda: sys.set_int_max_str_digits(5000)),
    "thread": (lambda x: x * len(threading.current_thread().name), renamed),
    "new name": (lambda x: x * getattr(sys, "symdiff_new", 1.0), lambda: setattr(sys, "symdiff_new", 2.0)),
    "builtin": (lambda x: x * symdiff_k, lambda: vars(__import__("builtins")).update(symdiff_k=2.0)),  # noqa: F821
    "variable": (lambda x: x * float(os.path.expandvars("$SYMDIFF_K")), lambda: os.environ.update(SYMDIFF_K="2.5")),
    "pattern": (lambda x: x * (1 + len(glob.glob("*.k"))), lambda: open("new.k", "w").close()),
    "position": (lambda x: x * (1 + stream.tell()), lambda: stream.seek(2)),
    "registered": (lambda x: x * (1 + isinstance(scale, Register)), lambda: Register.register(list)),
    "local class": (lambda x: x * local.k, lambda: setattr(Local, "k", 3.0)),
    "docstring": (lambda x: x * float(Names.__doc__), lambda: setattr(Names, "__doc__", "2.0")),
    "name": (lambda x: x * len(renamed.__name__), lambda: setattr(renamed, "__name__", "short")),
    "row": (lambda x: x * row["a"], lambda: rows.__setitem__("a", 4.0)),
    "row of a record array": (lambda x: x * record.a, lambda: records.__setitem__("a", 4.0)),
    "advanced generator": (lambda x: x * next(advanced), lambda: scale_of_generator.__setitem__(0, 3.0)),
    "subclasses": (lambda x: x * (1 + len(Parent.__subclasses__())), lambda: children.append(type("Child", (Parent,), {}))),
    "array interface": (lambda x: x * np.asarray(faced)[0], lambda: behind.__setitem__(0, 4.0)),
    "trapping": (trapped, lambda: np.seterr(divide="raise")),
    "finalizer": (lambda x: x * (1 + finalizer.alive), lambda: finalizer.detach()),
    "weak references": (lambda x: x * (1 + weakref.getweakrefcount(faced)), lambda: children.append(Weak(faced))),
    "handlers": (lambda x: x * (1 + len(logger.handlers)), lambda: logger.addHandler(logging.NullHandler())),
    "filters": (lambda x: x * (1 + len(logger.filters)), lambda: logger.addFilter(lambda record: True)),
    "propagation": (lambda x: x * (1 + logger.propagate), lambda: setattr(logger, "propagate", False)),
    "logger's attribute": (lambda x: x * getattr(logger, "foo", 1.0), lambda: setattr(logger, "foo", 2.0)),
    "logger's class": (lambda x: x * logger.k, lambda: setattr(Logger, "k", 2.0)),
    "limit of fields": (lambda x: x * csv.field_size_limit(), lambda: csv.field_size_limit(77)),
    "types of files": (lambda x: x * len(mimetypes.guess_type("a.qqz")[0] or "k"), lambda: mimetypes.add_type("a/b", ".qqz")),
    "stream": (lambda x: x * (1 + isinstance(sys.stdout, io.StringIO)), lambda: setattr(sys, "stdout", io.StringIO())),
    "memory traced": (lambda x: x * (1 + tracemalloc.is_tracing()), tracemalloc.start),
    "seeds": (lambda x: x * (1 + seeds.n_children_spawned), lambda: seeds.spawn(1)),
}


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    """What the changes leave behind is put back."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SYMDIFF_K", "1.5")
    monkeypatch.setattr(sys, "stdout", sys.stdout)
    limit = csv.field_size_limit()
    monkeypatch.setattr("builtins.symdiff_k", 1.0, raising=False)
    name, digits = threading.current_thread().name, sys.get_int_max_str_digits()
    with np.printoptions(), np.errstate(divide="ignore"):
        yield
    threading.current_thread().name = name
    sys.set_int_max_str_digits(digits)
    np.seterrcall(None)
    csv.field_size_limit(limit)
    tracemalloc.stop()
    gc.enable()
    vars(sys).pop("symdiff_new", None)


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_seen(name):
    f, change = CHANGES[name]
    g = sd.grad(f)
    before = f(1.0)
    assert g(0.5) == g(0.5) == before
    change()
    assert f(1.0) != before
    assert g(0.5) == g(0.5) == f(1.0)


def test_a_cached_function_gives_what_it_keeps():
    g = sd.grad(lambda x: x * cached(3))
    assert g(0.5) == 6.0
    scale[0] = 5.0
    assert cached(3) == 15.0 == g(0.5)
    scale[0] = 2.0
    assert cached(3) == 15.0 == g(0.5)
    cached.cache_clear()
    assert g(0.5) == 6.0 == cached(3)


def test_files_are_told_apart_by_place_and_by_their_last_change(tmp_path, monkeypatch):
    for folder, text in (("a", "2.0"), ("b", "3.0")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "k").write_text(text)
    monkeypatch.chdir(tmp_path / "a")

    def f(x):
        with open("k") as file:
            return x * float(file.read())

    g = sd.grad(f)
    assert g(0.5) == 2.0
    (tmp_path / "a" / "k").write_text("4.0")
    os.utime("k", (1e9, 1e9))
    assert g(0.5) == 4.0
    (tmp_path / "a" / "k").write_text("5.0")
    os.utime("k", (1e9, 1e9))
    assert g(0.5) == 5.0
    monkeypatch.chdir(tmp_path / "b")
    assert g(0.5) == 3.0


def write(number):
    """A number in files of several kinds."""
    with open("k", "w") as file:
        file.write(number)
    with gzip.open("k.gz", "wt") as packed:
        packed.write(number)
    with zipfile.ZipFile("k.zip", "w") as archive:
        archive.writestr("k", number)
    for name in ("k", "k.gz", "k.zip"):
        os.utime(name, (float(number), float(number)))


def of_handle(open_it):
    """A function that reads a file that stands open, whole and back to its start."""
    handle = open_it()

    def f(x):
        handle.seek(0)
        number = float(handle.read())
        handle.seek(0)
        return x * number

    return f


def mapped(x):
    with open("k", "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as memory:
        return x * float(memory[:])


def read_with(make):
    def f(x):
        with make() as file:
            return x * float(file.read())

    return f


READ: dict = {
    "gzip.open": lambda: read_with(lambda: gzip.open("k.gz", "rt")),  # noqa: SIM115
    "gzip.GzipFile": lambda: read_with(lambda: gzip.GzipFile("k.gz")),
    "zipfile": lambda: lambda x: x * float(zipfile.ZipFile("k.zip").read("k")),
    "io.FileIO": lambda: read_with(lambda: io.FileIO("k")),
    "fileinput": lambda: lambda x: x * float(next(fileinput.FileInput(["k"]))),  # noqa: SIM115
    "codecs": lambda: read_with(lambda: codecs.open("k")),  # noqa: SIM115
    "fdopen": lambda: read_with(lambda: os.fdopen(os.open("k", os.O_RDONLY))),
    "mmap": lambda: mapped,
    "handle": lambda: of_handle(lambda: open("k", "rb")),  # noqa: SIM115
    "text handle": lambda: of_handle(lambda: open("k")),  # noqa: SIM115
}


@pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
@pytest.mark.parametrize("name", READ)
def test_files_are_watched_however_they_are_read(name):
    write("2.0")
    f = READ[name]()
    g = sd.grad(f)
    assert g(0.5) == g(0.5) == 2.0
    write("3.0")
    assert g(0.5) == g(0.5) == 3.0


APART = {
    "run": lambda x: x * len(subprocess.run(["true"]).args),
    "check_output": lambda x: x * len(subprocess.check_output(["true"])),
    "popen": lambda x: x * len(os.popen("true").read()),
    "read": lambda x: x * len(os.read(0, 1)),
}


@pytest.mark.parametrize("name", APART)
def test_what_other_processes_say_is_refused(name):
    with pytest.raises(sd.TraceError, match=rf"test_process_state\.py:\d+: {name} reads from outside this process"):
        sd.grad(APART[name])(0.5)


digest, lock = hashlib.md5(b"1"), threading.Lock()
ASKED = {
    "hexdigest": lambda x: x * len(digest.hexdigest()),
    "locked": lambda x: x * (1 + lock.locked()),
    "cache_info": lambda x: x * (1 + cached.cache_info().currsize),
}


@pytest.mark.parametrize("name", ASKED)
def test_what_cannot_be_compared_is_refused(name):
    with pytest.raises(sd.TraceError, match=rf"test_process_state\.py:\d+: {name} asks a .* frozen=True"):
        sd.grad(ASKED[name])(0.5)
    assert sd.grad(ASKED[name], frozen=True)(0.5) == ASKED[name](1.0)


def test_locks_and_what_is_made_inside_are_no_state():
    def f(x):
        with lock:
            lines = io.StringIO("2.0\n")
            inner = threading.Lock()
            return x * float(lines.readline()) * (1 + inner.locked()) * int(hashlib.md5(b"1").hexdigest()[:1], 16)

    assert sd.grad(f)(0.5) == f(1.0)


class Silent:
    def __getattribute__(self, name):
        return {"k": 2.0}[name]


def test_an_object_that_does_not_tell_its_class_is_refused():
    silent = Silent()
    with pytest.raises(sd.TraceError, match=r"test_process_state\.py:\d+: an object of class Silent.* __class__"):
        sd.grad(lambda x: x * silent.k)(0.5)


def test_an_integer_is_no_batch():
    with pytest.raises(sd.ShapeError, match="points axis"):
        sd.vmap(sd.grad(lambda x: x * x))(2)


def test_classes_that_name_no_module():
    namespace = {"__builtins__": {"type": type}}
    exec("K = type('K', (), {'k': 2.0})\nk = K()\ndef f(x): return k.k * x", namespace)
    assert "__module__" not in vars(namespace["K"])
    g = sd.grad(namespace["f"])
    assert g(0.5) == 2.0
    namespace["K"].k = 3.0
    assert g(0.5) == 3.0


@pytest.mark.parametrize("f", [
    lambda x: x * sys.getrefcount(children), lambda x: x * len(inspect.currentframe().f_code.co_name),
    lambda x: x * len(sys._getframe().f_code.co_name), lambda x: x * os.umask(0),
    lambda x: x * (socket.getdefaulttimeout() or 2.0),
])  # fmt: skip
def test_what_a_trace_has_others_of_is_refused(f):
    with pytest.raises(sd.TraceError, match=r"test_process_state.py:\d+: .* pass it as an argument|pass what it gives"):
        sd.grad(f)(1.0)


def named_in_the_table():
    rows = [(module, *row) for module, rows in functions_outside().items() for row in rows]
    return [(module, name) for module, name, _ in rows if "*" not in name and importlib.util.find_spec(module)]


@pytest.mark.parametrize(("module", "name"), named_in_the_table())
def test_the_table_of_what_is_outside_names_functions_that_there_are(module, name):
    of = importlib.import_module(module)
    places = [of, getattr(of, "Path", None), getattr(of, "datetime", None), sys.modules.get(f"_{module}")]
    assert any(hasattr(place, name) for place in places)


def read_text():
    return float(pathlib.Path(setting).read_text())


def opened_text():
    with open(setting) as file:
        return float(file.read())


def tokenized_text():
    with tokenize.open(setting) as file:
        return float(file.read())


READS = {"cwd": lambda: float(len(os.getcwd())), "getenv": lambda: float(os.getenv("SYMDIFF_TEST_K")), "path": read_text,
         "open": opened_text, "array": lambda: float(large[2]),
         "matrix": lambda: float(np.trace(large.reshape(10, 10))), "library": tokenized_text,
         "text": lambda: float(str(long)), "subclasses": lambda: float(len(Base.__subclasses__()))}  # fmt: skip
setting, large, long = "", np.ones(100), np.array(0.123456789)


class Base:
    made: list[type] = []  # noqa: RUF012


class Entered:
    """Python enters this code by itself."""

    def __init__(self, read):
        self.read = read

    cached = functools.cached_property(lambda self: self.read())
    own = property(lambda self: self.read())
    reads = lambda self, _: self.read()  # noqa: E731
    __add__ = __radd__ = __getitem__ = lambda self, *_: self.read()
    __float__ = __abs__ = __call__ = lambda self: self.read()
    __int__ = __index__ = __len__ = __hash__ = lambda self: round(1000 * self.read())
    __lt__ = __eq__ = __contains__ = lambda self, other: self.read() > other

    def __bool__(self):
        return self.read() > 1.5

    def __getattr__(self, name):
        if name != "other":
            raise AttributeError(name)
        return self.read()

    __iter__ = __reversed__ = lambda self: iter([self.read()])
    __str__ = __format__ = lambda self, *_: str(self.read())

    def __array__(self, *_, **__):
        return np.array([self.read()])

    def __enter__(self):
        return self.read()

    def __exit__(self, *_):
        return None


class Only:
    """No function stands in the body of this class."""

    own = property(lambda self: read_now[0]())


class OfClass:
    def __get__(self, owner, kind):
        return read_now[0]()


class Meta(type):
    own = property(lambda cls: read_now[0]())
    __call__ = __getitem__ = lambda cls, *_: read_now[0]()


class Made(metaclass=Meta):
    described = OfClass()


class Subscripted:
    def __class_getitem__(cls, _):
        return read_now[0]()


read_now, only = [float], Only()
computed = types.ModuleType("computed")
computed.__getattr__ = lambda name: read_now[0]()


def within(o):
    with o as found:
        return found


def in_thread(o):
    found = []
    thread = threading.Thread(target=lambda: found.append(o.read()))
    thread.start()
    thread.join()
    return found[0]


ENTERING = {
    "property": lambda o: o.own, "cached": lambda o: Entered(o.read).cached, "add": lambda o: o + 1, "radd": lambda o: 1 + o,
    "item": lambda o: o[0], "call": lambda o: o(), "with": within, "iter": lambda o: sum(o),
    "for": lambda o: max([v + 0 for v in o]),
    "abs": abs, "float": float, "len": len, "lt": lambda o: 1 + (o < 1.5), "eq": lambda o: 1 + (o == 1.5),
    "map": lambda o: sum(map(o.reads, "ab")), "key": lambda o: max((1, -1), key=lambda v: v * (o.read() - 1.5)),
    "int": int, "bool": lambda o: 2 if o else 1, "hash": hash,
    "in": lambda o: 1 + (1.5 in o), "format": lambda o: float(f"{o}"),
    "star": lambda o: max(*o, 0), "array": lambda o: np.asarray(o)[0],
    "attribute": lambda o: o.other, "index": lambda o: range(10**6)[o],
    "next": lambda o: next(iter(o.read, None)), "listed": lambda o: 1 + (1.5 in [o]),
    "sqrt": math.sqrt, "factory": lambda o: collections.defaultdict(o.read)["a"],
    "reversed": lambda o: next(reversed(o)), "only": lambda o: only.own, "of class": lambda o: Made.described,
    "meta": lambda o: Made.own, "made": lambda o: Made(), "meta item": lambda o: Made[0],
    "class item": lambda o: Subscripted[0],
    "module": lambda o: computed.other, "thread": in_thread,
}  # fmt: skip
MAY_BE_REFUSED = frozenset(
    "call int bool hash in format star array attribute index next listed factory sqrt reversed made module thread".split()
) | {"of class", "class item"}


@pytest.fixture
def printing():
    with np.printoptions():
        yield


@pytest.fixture
def collecting():
    """Collections look only at what the test makes."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("use", ENTERING)
def test_code_that_python_enters_reads_the_process_at_each_call(use, read, tmp_path, monkeypatch, printing, collecting):
    o, enter = Entered(READS[read]), ENTERING[use]
    read_now[0] = READS[read]

    def state(k):
        (tmp_path / str(k)).mkdir(exist_ok=True)
        (tmp_path / "k").write_text(str(k))
        os.utime(tmp_path / "k", ns=(k, k))
        monkeypatch.chdir(tmp_path / (str(k) if k == 1 else "."))
        monkeypatch.setenv("SYMDIFF_TEST_K", str(k))
        large[[2, 22]] = k
        monkeypatch.setitem(globals(), "setting", str(tmp_path / "k"))
        np.set_printoptions(precision=k + 2)
        if read == "subclasses":
            Base.made[:] = [type("Derived", (Base,), {}) for _ in range(k)]
            gc.collect()  # those that were there before

    def f(x):
        return x * enter(o)

    g = sd.grad(f)
    for k in (1, 2, 2, 1):
        state(k)
        try:
            assert g(0.5) == f(1.0)
        except sd.TraceError as error:
            assert use in MAY_BE_REFUSED
            assert re.search(
                r"test_process_state\.py:\d+: .* (is entered by Python itself|thread is started), .* as an argument", str(error)
            )


@pytest.mark.parametrize("use", ["property", "add", "item", "attribute", "bool", "factory"])
def test_code_that_python_enters_asks_no_lock(use):
    lock = threading.Lock()
    o, enter = Entered(lambda: 2.0 if lock.locked() else 1.0), ENTERING[use]
    with pytest.raises(sd.TraceError):
        sd.grad(lambda x: x * enter(o))(0.5)


@pytest.mark.parametrize("read", [random.random, lambda: time.perf_counter(), lambda: np.random.rand()])
@pytest.mark.parametrize("use", ["property", "bool", "hash", "map", "next"])
def test_code_that_python_enters_reads_no_clock(use, read):
    o, enter = Entered(read), ENTERING[use]
    with pytest.raises(sd.TraceError):
        sd.grad(lambda x: x * enter(o))(0.5)


rng = random.Random(3)


def following(c, _):
    return next(iter(c, None))


HANDED = {
    "clock": lambda: time.perf_counter,
    "shared": lambda: np.random.random,
    "own": lambda: rng.random,
    "partial": lambda: functools.partial(os.urandom, 8),
    "method": lambda: functools.partial(operator.methodcaller("random"), rng),
    "date": lambda: datetime.datetime.now,
    "input": lambda: input,
}
TAKEN = {
    "iter": lambda c: next(iter(c, None)),
    "islice": lambda c: [*itertools.islice(iter(c, None), 1)][-1],
    "partial": lambda c: next(iter(functools.partial(c), None)),
    "default": lambda c: collections.defaultdict(c)["a"],
    "starmap": lambda c: next(itertools.starmap(c, itertools.repeat(()))),
    "context": lambda c: contextvars.copy_context().run(c),
    "slot": lambda c: type(c).__call__(c),
    "chain": lambda c: next(itertools.chain.from_iterable([iter(c, None)])),
    "fromiter": lambda c: np.fromiter(map(number, iter(c, None)), float, 1)[0],
}
HELD = {
    "iter": (lambda c: iter(c, None), next),
    "default": (collections.defaultdict, lambda o: o["a"]),
    "starmap": (lambda c: itertools.starmap(c, itertools.repeat(())), next),
    "filter": (lambda c: filter(bool, iter(c, None)), next),
    "partial": (functools.partial, lambda o: o()),
    "call": (lambda c: type("Called", (), {"__call__": staticmethod(c)})(), lambda o: o()),
    "property": (lambda c: type("Asked", (), {"p": property(functools.partial(following, c))})(), lambda o: o.p),
}  # fmt: skip


def number(found):
    return float(len(str(found)))


SOURCES = [(use, source) for use in TAKEN for source in HANDED if (use, source) != ("slot", "input")]  # which takes no other


@pytest.mark.parametrize(("use", "source"), SOURCES)
@pytest.mark.parametrize("within", [False, True], ids=["called", "property"])
def test_functions_that_code_in_c_calls_are_refused_there(use, source, within):
    take, given = TAKEN[use], HANDED[source]

    class Asked:
        @property
        def p(self):
            return number(take(given()))

    asked = Asked()
    with pytest.raises(sd.TraceError, match=r"test_process_state\.py"):
        sd.grad((lambda x: asked.p * x) if within else lambda x: number(take(given())) * x)(0.5)


@pytest.mark.parametrize("source", [s for s in HANDED if s != "input"])
@pytest.mark.parametrize("use", HELD)
def test_objects_in_c_that_call_them_are_refused_where_they_are_read(use, source):
    make, take = HELD[use]
    held = make(HANDED[source]())
    with pytest.raises(sd.TraceError):
        sd.grad(lambda x: number(take(held)) * x)(0.5)


def test_what_is_handed_on_and_not_called_is_no_obstacle():
    class Timed:
        def __init__(self, now=time.perf_counter):
            self.now, self.seen = now, collections.defaultdict(time.perf_counter)
            self.k = 2.0

    o = Timed()
    assert sd.grad(lambda x: o.k * x * x)(0.5) == 2.0
    assert sd.grad(lambda x: sorted([x, 2 * x], key=functools.partial(operator.mul, 2.0))[1] * x)(0.5) == 2.0
    inside = sd.grad(lambda x: next(iter(random.Random(3).random, None)) * x)
    assert inside(0.5) == random.Random(3).random() == inside(0.5)
