"""Functions that read the state of the process, of iterators, caches and files, and of objects written in C, between calls."""

import abc
import collections
import copy
import functools
import gc
import glob
import hashlib
import inspect
import io
import itertools
import linecache
import locale
import logging
import operator
import os
import pathlib
import queue
import random
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import symdiff as sd

from ..harness import RIGHT, Verdict, Wrong

POINT = 0.7
_numbers = itertools.count(1)
MODULES = {
    m.__name__: m
    for m in (copy, gc, glob, inspect, locale, logging, operator, os, pathlib, sys, threading)
} | {"np": np}  # fmt: skip
Read = tuple[str, Any, Callable[[], Any]]  # an expression that reads `{}`, what stands there, and what changes it


def _generator() -> Iterator[float]:
    for k in itertools.count(1):
        yield float(k)


def of_iterators(source: random.Random) -> Read:
    items = [source.uniform(1.0, 3.0) for _ in range(9)]
    made: Any = iter(items)
    if source.random() < 0.3:
        made = itertools.count(source.randint(1, 9))
        return "float(repr({})[6:-1])", made, functools.partial(next, made)
    if source.random() < 0.3:
        made = _generator()
        next(made)
        text = source.choice(("{}.gi_frame.f_locals['k']", "inspect.getgeneratorlocals({})['k']"))
        return text, made, functools.partial(next, made)
    return source.choice(("sum(copy.copy({}))", "operator.length_hint({})")), made, functools.partial(next, made)


def of_arrays(source: random.Random) -> Read:
    kind = source.choice(("flags", "names", "shown"))
    if kind == "names":
        pair = np.array([(1.0, 2.0)], dtype=[("a", "f8"), ("b", "f8")])
        return "{}['a'][0]", pair, lambda: setattr(pair.dtype, "names", pair.dtype.names[::-1])
    cells = np.array([source.uniform(1.0, 2.0) for _ in range(source.choice((1, 3, 40)))])
    if kind == "flags":
        return "(1 + {}.flags.writeable)", cells, lambda: cells.setflags(write=not cells.flags.writeable)
    text = source.choice(("len(str({}))", "len(repr([{}]))", "len(np.array2string({}))", "len('%s' % {})"))
    return text, cells, lambda: np.set_printoptions(precision=source.randint(1, 12))


def of_caches(source: random.Random) -> Read:
    held = [source.uniform(1.0, 2.0)]

    @functools.lru_cache(source.choice((None, 4)))
    def cached(n: int) -> float:
        return held[0] * n

    def change() -> None:
        source.choice((cached.cache_clear, lambda: cached(3), lambda: held.__setitem__(0, source.uniform(1.0, 2.0))))()

    return source.choice(("{}(3)", "{}(n=3)", "({0}(3) + {0}(4))", "{}.cache_info().currsize")), cached, change


def _rename(source: random.Random) -> Callable[[], None]:
    return lambda: setattr(threading.current_thread(), "name", "m" * source.randint(1, 9))


def of_settings(source: random.Random) -> Read:
    text, changes = source.choice((
        ("sys.getrecursionlimit()", lambda: sys.setrecursionlimit(source.randint(1000, 2000))),
        ("(1 + gc.isenabled())", source.choice((gc.disable, gc.enable))),
        ("gc.get_threshold()[0]", lambda: gc.set_threshold(source.randint(600, 900))),
        ("sys.get_int_max_str_digits()", lambda: sys.set_int_max_str_digits(source.randint(4000, 5000))),
        ("np.getbufsize()", lambda: np.setbufsize(source.choice((4096, 8192, 16384)))),
        ("np.get_printoptions()['precision']", lambda: np.set_printoptions(precision=source.randint(1, 9))),
        ("(2 if np.geterr()['under'] == 'ignore' else 3)", lambda: np.seterr(under=source.choice(("ignore", "warn")))),
        ("len(threading.current_thread().name)", _rename(source)),
        ("getattr(sys, 'symdiff_fuzz', 1.0)", lambda: setattr(sys, "symdiff_fuzz", source.uniform(1.0, 2.0))),
        ("float(os.path.expandvars('$SYMDIFF_FUZZ'))", lambda: os.environ.update(SYMDIFF_FUZZ=str(source.random()))),
        ("float(os.getenv('SYMDIFF_FUZZ', '1.5'))", lambda: os.environ.update(SYMDIFF_FUZZ=str(source.random()))),
        ("logging.getLogger('fuzz').getEffectiveLevel()", lambda: logging.getLogger("fuzz").setLevel(source.randint(1, 50))),
    ))  # fmt: skip
    return text, None, changes


def of_files(source: random.Random) -> Read:
    folder = pathlib.Path(source.folder)  # type: ignore[attr-defined]
    name = folder / f"{source.randint(0, 10**9)}.txt"

    def write() -> None:
        name.write_text(f"{source.randint(1, 9)}.5")
        os.utime(name, (1e9, 1e9))

    write()
    kind = source.choice(("text", "relative", "pattern", "there", "stream"))
    if kind == "text":
        return source.choice(("float(open({}).read())", "float(pathlib.Path({}).read_text())")), str(name), write
    if kind == "pattern":
        new = iter(range(99))
        return "len(glob.glob({} + '*'))", str(name), lambda: name.with_suffix(f".txt{next(new)}").touch()
    if kind == "there":
        text = source.choice(("(1 + os.path.exists({}))", "(1 + pathlib.Path({}).exists())"))
        return text, str(name), lambda: name.unlink() if name.exists() else write()
    if kind == "stream":
        stream = io.BytesIO(b"abcdef")
        return "(1 + {}.tell())", stream, lambda: stream.seek(source.randint(0, 5))
    return "len(os.path.abspath({}))", "v", lambda: os.chdir(source.choice((folder, "/", folder.parent)))


def of_metadata(source: random.Random) -> Read:
    def helper(x: "2.0") -> Any:
        """1.0"""
        return x

    class Law:
        """3.0"""

    made = source.choice((helper, Law))
    name = source.choice(("__doc__", "__name__", "__qualname__"))
    if name == "__doc__":
        return "float({}.__doc__)", made, lambda: setattr(made, name, str(source.randint(1, 9)))
    return f"len({{}}.{name})", made, lambda: setattr(made, name, "n" * source.randint(1, 9))


def of_classes(source: random.Random) -> Read:
    base: Any = abc.ABCMeta("Base", (), {})
    if source.random() < 0.5:
        kind = type("Kind", (), {})
        return "(1 + isinstance({}[0], {}[1]))", (kind(), base), lambda: base.register(kind)
    local: Any = type("Local", (threading.local,), {"k": 1.5})
    return "{}.k", local(), lambda: setattr(local, "k", source.uniform(1.0, 2.0))


def of_c(source: random.Random) -> Read:
    kind = source.choice(("lock", "queue", "hash", "seeds", "draws", "deque"))
    if kind == "lock":
        lock = threading.Lock()
        return "(1 + {}.locked())", lock, lambda: lock.release() if lock.locked() else lock.acquire()
    if kind == "queue":
        waiting: Any = source.choice((queue.SimpleQueue, queue.Queue))()
        return "(1 + {}.qsize())", waiting, lambda: waiting.put(1)
    if kind == "hash":
        digest = hashlib.md5(b"1")
        return "int({}.hexdigest()[:3], 16)", digest, lambda: digest.update(b"2")
    if kind == "seeds":
        seeds = np.random.SeedSequence(source.randint(1, 99))
        return "(1 + {}.n_children_spawned)", seeds, lambda: seeds.spawn(1)
    if kind == "draws":
        draws = np.random.default_rng(source.randint(1, 99))
        return "({}.bit_generator.state['state']['state'] % 1000)", draws, draws.random
    held = collections.deque([1.0, 2.0], maxlen=source.choice((None, 3)))
    return "sum({})", held, lambda: held.append(source.uniform(1.0, 2.0))


READS = (of_iterators, of_arrays, of_caches, of_settings, of_files, of_metadata, of_classes, of_c)


WAYS = {
    "name": ("{}", lambda v: v),
    "attribute": ("{}.held", lambda v: type("Holder", (), {"held": v})() if callable(v) else _Holder(v)),
    "item": ("{}['a.b'][0]", lambda v: {"a.b": [v]}),
    "pair": ("{}[1]", lambda v: (None, v)),
}  # how the function comes to a value, and what it is put into


class _Holder:
    def __init__(self, held: Any) -> None:
        self.held = held
        self.lock = threading.Lock()


def program(source: random.Random) -> tuple[Any, str, list[Callable[[], Any]]]:
    """A function, its text, and what may change."""
    names: dict[str, Any] = dict(MODULES)
    terms, changes, helpers = [], [], ""
    roots: dict[str, Any] = {}
    for k in range(source.randint(1, 3)):
        text, value, change = source.choice(READS)(source)
        way, put = WAYS[source.choice(("name", "item", "pair") if callable(value) else tuple(WAYS))]
        term = text.replace("{}", "{0}").format(way.format(f"r{k}"))
        (names if source.random() < 0.5 else roots)[f"r{k}"] = put(value)
        changes.append(change)
        if source.random() < 0.3:
            helpers += f"    def helper{k}():\n        return {term}\n"
            term = f"helper{k}()"
        terms.append(f"{term} * x")
    text = f"def made({', '.join(roots)}):\n{helpers}    def f(x):\n        return x * x + {' + '.join(terms)}\n    return f\n"
    file = f"/process/program{next(_numbers)}.py"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec"), names)
    return names["made"](**roots), text, changes


def outcome(g: Callable[[Any], Any]) -> Any:
    try:
        return float(g(POINT))
    except sd.SymdiffError as error:
        return error


def trial(source: random.Random) -> Verdict:
    here, options, errors = os.getcwd(), np.get_printoptions(), np.geterr()
    with tempfile.TemporaryDirectory() as folder:
        source.folder = folder  # type: ignore[attr-defined]
        try:
            return _compared(source)
        finally:
            os.chdir(here)
            np.set_printoptions(**options)
            np.seterr(**errors)
            np.setbufsize(8192)
            gc.enable()
            sys.setrecursionlimit(1000)
            threading.current_thread().name = "MainThread"
            os.environ.pop("SYMDIFF_FUZZ", None)
            vars(sys).pop("symdiff_fuzz", None)


def _compared(source: random.Random) -> Verdict:
    os.environ["SYMDIFF_FUZZ"] = "1.25"
    f, text, changes = program(source)
    g = sd.grad(f, backend=source.choice(("auto", "auto", "numpy")))
    for step in range(4):
        wanted = complex(f(POINT + 1e-20j)).imag / 1e-20
        found = outcome(g)
        if isinstance(found, sd.SymdiffError):
            return Verdict("refused", str(found))
        if abs(found - wanted) > 1e-9 * (1 + abs(wanted)):
            raise Wrong(f"{text}after {step} changes: {found}, should be {wanted}")
        outcome(g)
        try:
            source.choice(changes)()
        except StopIteration:
            return RIGHT
    return RIGHT
