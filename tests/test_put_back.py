"""What a function changes outside itself while it is traced is put back, or the trace is refused; no traced value stays."""

import array
import collections
import contextvars
import ctypes
import decimal
import functools
import io
import itertools
import logging
import math
import queue
import threading
import types

import numpy as np
import pytest
from inside import trace as tracing
from threads import together

import symdiff as sd

kept = 2.0
numbers: list = [1.0]
table: dict = {"a": 1.0}
grouped: collections.defaultdict = collections.defaultdict(list)
ordered: collections.OrderedDict = collections.OrderedDict(a=1.0, b=2.0)
members: set = {1.0}
recent: collections.deque = collections.deque([1.0], maxlen=3)
waiting: queue.Queue = queue.Queue()
best: queue.PriorityQueue = queue.PriorityQueue()
setting: contextvars.ContextVar = contextvars.ContextVar("setting", default=1.0)
objects = np.array([1.0, None], dtype=object)
counts = np.zeros(3, int)
many = np.zeros(200)
buffer = bytearray(b"abc")
packed = array.array("d", [1.0])
foreign = (ctypes.c_double * 2)(1.0, 2.0)
module = types.ModuleType("module_of_tests")
module.a = 1.0  # type: ignore[attr-defined]
logger = logging.getLogger("test_put_back")
local = threading.local()
local.a = 1.0


class Meta(type):
    def __setattr__(cls, name, value):
        raise AttributeError("not here")


class Plain:
    last = 1.0
    log: tuple = ()


class Closed(metaclass=Meta):
    pass


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self):
        self.a = 1.0


class Listed(list):
    def append(self, item):
        self.tag = item
        super().append(item)


class Counting:
    n = 0

    @functools.cached_property
    def once(self):
        Counting.n += 1
        return float(Counting.n)


class Proud:
    def __init__(self):
        self.value = 1.0

    @property
    def shown(self):
        return self.value

    @shown.setter
    def shown(self, value):
        self.value = value


slotted, listed, counting, proud = Slotted(), Listed([1.0]), Counting(), Proud()
listed.tag = 1.0


def a_global(x):
    global kept
    y, kept = kept * x, x
    return y * x


def a_new_global(x):
    global fresh
    fresh = x
    return x * x


def a_deleted_global(x):
    global kept
    del kept
    return x * x


def an_own_attribute(x):
    an_own_attribute.last = x
    return x * x


def a_default(x, seen=[]):  # noqa: B006
    seen.append(x)
    return x * x


def defaults(x):
    a_default.__defaults__ = ([x],)
    return x * x


def a_cell():
    last = 1.0

    def f(x):
        nonlocal last
        y, last = last * x, x
        return y * x

    return f, lambda: last


in_cell, cell_shows = a_cell()


def stored(*statements):
    """A function that executes statements, in this file's globals."""
    body = "\n    ".join(statements)
    exec(f"def made(x):\n    {body}\n    return x*x", globals())
    return globals().pop("made")


def counted(x):
    counts[0] += 1
    numbers.append(x)
    return x * x * counts[0] * len(numbers)


def written(x):
    many[3:5] = 7.0
    np.add(many, 1.0, out=many)
    many.fill(2.0)
    return x * x * many[0]


def of_class_and_object(x):
    return counting.once * x * x


def on_paths(x):
    numbers.append(x)
    if x > 0:
        recent.append(x)
        return x * x * len(numbers)
    Plain.last = x
    return x * len(recent)


CHANGING = {
    "global": a_global,
    "new global": a_new_global,
    "deleted global": a_deleted_global,
    "own attribute": an_own_attribute,
    "default": a_default,
    "defaults": defaults,
    "cell": in_cell,
    "class": stored("Plain.last = x", "Plain.new = x"),
    "class by setattr": stored("setattr(Plain, 'last', x)"),
    "class by type": stored("type.__setattr__(Closed, 'last', x)"),
    "deleted of a class": stored("del Plain.last"),
    "class's tuple": stored("Plain.log += (x,)"),
    "slots": stored("slotted.a = x", "slotted.b = x"),
    "deleted slot": stored("del slotted.a"),
    "object": stored("proud.value = x", "proud.other = x"),
    "__dict__": stored("proud.__dict__ = {'value': x}"),
    "property": stored("proud.shown = x"),
    "list": stored("numbers[0] = x", "numbers.append(x)"),
    "dict": stored("table['b'] = x", "table['a'] = x", "table[1] = table.pop('a')"),
    "default dict": stored("grouped['a'].append(x)"),
    "ordered dict": stored("ordered['a'] = x", "ordered.move_to_end('a')"),
    "set": stored("members.add(3.0)", "members.discard(1.0)"),
    "deque": stored("recent.append(x)", "recent.append(x)", "recent.append(x)"),
    "queue": stored("waiting.put(x)"),
    "priority queue": stored("best.put(2.0)"),
    "context variable": stored("setting.set(x)"),
    "object array": stored("objects[0] = x", "objects[1] = [x]"),
    "array": counted,
    "large array": written,
    "bytearray": stored("buffer.extend(b'x')", "buffer[0] = 1"),
    "array of numbers": stored("packed.append(2.0)", "packed[0] = 5.0"),
    "foreign memory": stored("foreign[0] = 5.0"),
    "module": stored("module.a = x", "module.b = x"),
    "thread's own": stored("local.a = x", "local.b = x"),
    "list's subclass": stored("listed.append(x)"),
    "cached property beside a class": of_class_and_object,
    "globals()": stored("globals()['fresh'] = x"),
    "exec": stored("exec('global fresh; fresh = 1.0')"),
    "logger": stored("logger.setLevel(10)", "logger.last = x", "logger.isEnabledFor(10)"),
    "decimal": stored("decimal.getcontext().prec = 5"),
    "traps": stored("np.seterr(all='raise')"),
    "on paths": on_paths,
}


def state():
    """All that the functions change, and what holds it."""
    return [
        globals().get("kept", "none"), "fresh" in globals(), vars(an_own_attribute), a_default.__defaults__, cell_shows(),
        Plain.last, hasattr(Plain, "new"), Plain.log, hasattr(Closed, "last"), getattr(slotted, "a", "none"),
        hasattr(slotted, "b"),
        dict(vars(proud)), numbers[:], list(table.items()), dict(grouped), list(ordered.items()), sorted(members),
        list(recent), list(waiting.queue), waiting.unfinished_tasks, list(best.queue), setting.get(), list(objects),
        counts.tolist(), many.tolist(), bytes(buffer), list(packed), list(foreign), module.a, hasattr(module, "b"),
        logger.level, logger.isEnabledFor(10), hasattr(logger, "last"), decimal.getcontext().prec, np.geterr(),
        dict(vars(local)), list(listed), listed.tag, vars(counting), Counting.n,
    ]  # fmt: skip


@pytest.mark.parametrize("name", CHANGING)
def test_it_is_put_back(name):
    f, before = CHANGING[name], repr(state())
    expected = {"global": 4.0, "array": 4.0, "large array": 4.0, "on paths": 4.0}.get(name, 2.0)
    gradient, frozen = sd.grad(f), sd.grad(f, frozen=True)
    for x in (1.5, 0.5, 1.5):
        assert gradient(x) == frozen(x) == expected * x, name
        assert repr(state()) == before
    assert sd.vmap(gradient)(np.array([1.0, 2.0]))[1] == 2 * expected
    assert sd.grad(gradient)(1.5) == expected
    assert repr(state()) == before
    assert len(gradient._compiled) == 1


def test_what_is_put_back_is_as_the_plain_function_finds_it():
    gradient = sd.value_and_grad(a_global)
    assert gradient(1.5) == (4.5, 6.0) and kept == 2.0
    assert a_global(1.5) == 4.5 and kept == 1.5
    try:
        assert gradient(1.5)[0] == 1.5**3 and kept == 1.5
    finally:
        globals()["kept"] = 2.0


def test_an_exception_leaves_nothing_behind():
    before = repr(state())

    def f(x):
        Plain.last = x
        numbers.append(x)
        raise KeyError("here")

    with pytest.raises(sd.TraceError):
        sd.grad(stored("Plain.last = x", "slotted.a = x", "np.random.rand()"))(1.5)
    assert repr(state()) == before
    with pytest.raises(KeyError):
        sd.grad(f)(1.5)
    Plain.last = 1.0  # by the plain run that raises
    del numbers[1:]
    assert repr(state()) == before


text, simple, counter = io.StringIO("1\n2\n3\n"), queue.SimpleQueue(), itertools.count()
REFUSED = {
    "text": lambda x: float(text.readline()) * x,
    "write": lambda x: text.write("a") * x,
    "count": lambda x: next(counter) * x,
    "simple queue": lambda x: (simple.put(x), x * x)[1],
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_put_back_is_refused(name):
    with pytest.raises(sd.TraceError, match=r"test_put_back\.py:\d+: "):
        sd.grad(REFUSED[name])(1.5)


def test_texts_that_are_read_whole_are_not():
    lines = io.StringIO("2.0")
    gradient = sd.grad(lambda x: float(lines.getvalue()) * x)
    assert gradient(1.0) == 2.0
    lines.write("3")
    assert gradient(1.0) == 3.0


def of_a_dict():
    rates = {"rate": 2.0}
    return (lambda x: rates["rate"] * math.sin(x)), lambda k: rates.update(rate=k)


def of_a_list():
    rates = [1.0, 2.0]
    return (lambda x: rates[1] * np.sin(x)), lambda k: rates.__setitem__(1, k)


def of_an_object():
    rates = types.SimpleNamespace(rate=2.0)
    return (lambda x: rates.rate * np.sin(x)), lambda k: setattr(rates, "rate", k)


def of_a_method():
    class Model:
        def __init__(self):
            self.rate = 2.0

        def value(self, x):
            return self.rate * np.sin(x)

    model = Model()
    return model.value, lambda k: setattr(model, "rate", k)


def of_a_variable():
    def put(k):
        nonlocal rate
        rate = k

    rate = 2.0
    return (lambda x: rate * np.sin(x)), put


@pytest.mark.parametrize("make", [of_a_dict, of_a_list, of_an_object, of_a_method, of_a_variable])
def test_what_another_thread_writes_during_a_trace_stays(make, monkeypatch):
    f, put = make()
    plain, rates = tracing._traced, (3.0, 5.0)

    def overtaken(*args):
        together(put, rates[1:])
        return plain(*args)

    for last in rates[::-1]:  # the first one is what the trace began with
        put(rates[0])
        gradient = sd.grad(f)
        monkeypatch.setattr(tracing, "_traced", overtaken)
        gradient(0.0)
        monkeypatch.undo()
        assert f(1.0) == rates[1] * np.sin(1.0)
        put(last)
        assert gradient(0.0) == last
