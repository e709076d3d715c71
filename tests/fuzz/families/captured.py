"""Functions that read numbers and functions through chains of holders outside them, any part of which changes between calls."""

import array
import collections
import contextvars
import dataclasses
import functools
import itertools
import linecache
import random
import threading
import types
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import symdiff as sd

from ..harness import RIGHT, Verdict, Wrong

POINT = 0.7
FUNCTIONS = (np.sin, np.cos, np.exp, np.tanh, lambda x: x * x, lambda x: 3.0 * x)
_numbers = itertools.count(1)


class Held(NamedTuple):
    """A value, the text that reads a number from the name of it, and what changes the value where it stands."""

    value: Any
    text: str
    change: Callable[[], None] | None


def number(source: random.Random) -> float:
    return round(source.uniform(0.5, 3.0), 3)


def leaf(source: random.Random) -> Held:
    """A number, memory with one, or a function."""
    kind = source.choice(("number", "array", "bytes", "typed", "function", "function", "whole", "defaults", "set"))
    if kind == "number":
        return Held(number(source), "{} * x", None)
    if kind == "function":
        return Held(source.choice(FUNCTIONS), "{}(x)", None)
    if kind == "defaults":

        def helper(x: Any, k: float = 1.5) -> Any:
            return k * x

        def redefine() -> None:
            if source.random() < 0.5:
                helper.__defaults__ = (number(source),)
            else:
                helper.__code__ = (lambda x, k: k * x * x).__code__

        return Held(helper, "{}(x)", redefine)
    if kind == "set":
        some = {number(source)}
        return Held(some, "sum({}) * x", lambda: some.add(number(source)))
    made: Any = {
        "array": lambda: np.array([number(source)]), "bytes": lambda: bytearray([source.randint(1, 9)]),
        "typed": lambda: array.array("d", [number(source)]), "whole": lambda: np.array([source.randint(1, 9)]),
    }[kind]()  # fmt: skip
    integral = kind in ("bytes", "whole")
    return Held(made, "{}[0] * x", lambda: made.__setitem__(0, source.randint(1, 9) if integral else number(source)))


class Slotted:
    __slots__ = ("k",)


class Base:
    k: Any = None


@dataclasses.dataclass
class Data:
    k: Any


class Computed:
    @property
    def k(self) -> Any:
        return self.inner["k"]

    def get(self) -> Any:
        return self.inner["k"]

    def __call__(self) -> Any:
        return self.k

    def __getitem__(self, key: Any) -> Any:
        return self.inner[key]

    def __getattr__(self, name: str) -> Any:
        if name != "other":
            raise AttributeError(name)
        return self.inner["k"]


ATTRIBUTED: dict[str, Callable[[], Any]] = {
    "instance": lambda: type("Law", (), {})(), "namespace": types.SimpleNamespace, "slots": Slotted, "local": threading.local,
    "module": lambda: types.ModuleType("settings"), "class": lambda: type("Law", (), {}), "function": lambda: lambda x: x,
    "data": lambda: Data(None), "error": lambda: ValueError("k"),
}  # fmt: skip
ITEMS: dict[str, Callable[[Any], Any]] = {
    "dict": lambda v: {"k": v},
    "ordered": lambda v: collections.OrderedDict(a=1.0, k=v),
    "user": lambda v: collections.UserDict(k=v),
    "default": lambda v: collections.defaultdict(float, k=v),
    "chain": lambda v: collections.ChainMap({}, {"k": v}),
}
PLACES: dict[str, Callable[[Any], Any]] = {
    "list": lambda v: [v], "deque": lambda v: collections.deque([v, 1.0]), "userlist": lambda v: collections.UserList([v]),
    "objects": lambda v: np.array([v, None, None], dtype=object),
}  # fmt: skip
OTHERS = ("tuple", "proxy", "partial", "cell", "variable", "inherited", "shadowed", "property", "method", "called", "item",
          "asked", "weak", "computed", "values", "bound")  # fmt: skip


def around(source: random.Random, inner: Callable[[], Held]) -> Held:
    """A holder of a held value."""
    held = inner()
    kind = source.choice((*ATTRIBUTED, *ITEMS, *PLACES, *OTHERS))

    def either(put: Callable[[Any], Any]) -> Callable[[], None]:
        """Put another value of the kind here, or change the one that is here."""
        state = [held]

        def change() -> None:
            now = state[0]
            if now.change is not None and source.random() < 0.6:
                now.change()
                return
            new = inner()
            if new.text != now.text:
                return
            state[0] = new
            put(new.value)

        return change

    if kind in ATTRIBUTED:
        owner = ATTRIBUTED[kind]()
        owner.k = held.value
        if kind == "class" and isinstance(held.value, types.FunctionType):
            owner.k = staticmethod(held.value)
            return Held(owner, held.text.format("{}.k"), held.change)
        return Held(owner, held.text.format("{}.k"), either(lambda v: setattr(owner, "k", v)))
    if kind in ITEMS or kind in PLACES:
        key: Any = "k" if kind in ITEMS else 0
        made = (ITEMS | PLACES)[kind](held.value)
        return Held(made, held.text.format(f"{{}}[{key!r}]"), either(lambda v: made.__setitem__(key, v)))
    table = {"k": held.value}
    change = either(lambda v: table.update(k=v))
    if kind in ("property", "method", "called", "item", "asked"):
        computed = Computed()
        computed.inner = table
        way = {"property": "{}.k", "method": "{}.get()", "called": "{}()", "item": "{}['k']", "asked": "{}.other"}[kind]
        return Held(computed, held.text.format(way), change)
    if kind == "tuple":
        return Held((held.value,), held.text.format("{}[0]"), held.change)
    if kind == "proxy":
        return Held(types.MappingProxyType(table), held.text.format("{}['k']"), change)
    if kind == "values":
        return Held(table.values(), held.text.format("[*{}][0]"), change)
    if kind == "bound":
        return Held(table.get, held.text.format("{}('k')"), change)
    if kind == "partial":
        return Held(functools.partial(lambda t: t["k"], table), held.text.format("{}()"), change)
    if kind == "cell":
        return Held(lambda: table["k"], held.text.format("{}()"), change)
    if kind == "variable":
        variable: contextvars.ContextVar[Any] = contextvars.ContextVar("k")
        variable.set(held.value)
        return Held(variable, held.text.format("{}.get()"), either(variable.set))
    if kind == "weak":
        referent = Data(held.value)
        reference = weakref.ref(referent)
        return Held(reference, held.text.format("{}().k"), either(lambda v: setattr(referent, "k", v)))
    if kind == "computed":
        plain = types.SimpleNamespace(ab=held.value)
        return Held(plain, held.text.format("getattr({}, 'a' + 'b')"), either(lambda v: setattr(plain, "ab", v)))
    value = staticmethod(held.value) if isinstance(held.value, types.FunctionType) else held.value
    parent = type("Parent", (Base,), {"k": value})
    law = type("Law", (parent,), {})()
    if kind == "inherited":
        return Held(
            law, held.text.format("{}.k"), None if value is not held.value else either(lambda v: setattr(parent, "k", v))
        )
    return Held(law, held.text.format("{}.k"), either(lambda v: setattr(law, "k", v)))


def chain(source: random.Random, depth: int) -> Callable[[], Held]:
    """Makes held values of one kind."""
    seed = source.random()

    def make() -> Held:
        own = random.Random(seed)  # the same kinds each time, of other numbers
        return leaf(_Kinds(own, source)) if depth == 0 else around(_Kinds(own, source), chain(own, depth - 1))

    return make


class _Kinds(random.Random):
    """Kinds from one source, numbers and what happens from another."""

    def __new__(cls, kinds: random.Random, numbers: random.Random) -> "_Kinds":
        return super().__new__(cls)

    def __init__(self, kinds: random.Random, numbers: random.Random) -> None:
        self.kinds, self.numbers = kinds, numbers

    def choice(self, seq: Any) -> Any:
        return self.kinds.choice(seq)

    def random(self) -> float:
        return self.numbers.random()

    def uniform(self, a: float, b: float) -> float:
        return self.numbers.uniform(a, b)

    def randint(self, a: int, b: int) -> int:
        return self.numbers.randint(a, b)


def program(source: random.Random) -> tuple[Any, str, list[Callable[[], None]]]:
    """A function, its text, and what may change."""
    names: dict[str, Any] = {"np": np}
    terms, changes = [], []
    roots: dict[str, Any] = {}
    for k in range(source.randint(1, 3)):
        held = chain(source, source.randint(0, 3))()
        name = f"r{k}"
        terms.append(held.text.format(name))
        (names if source.random() < 0.5 else roots)[name] = held.value
        if held.change is not None:
            changes.append(held.change)
    text = f"def made({', '.join(roots)}):\n    def f(x):\n        return x * x + {' + '.join(terms)}\n    return f\n"
    file = f"/captured/program{next(_numbers)}.py"
    if source.random() < 0.8:  # else the program has no source
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec"), names)
    return names["made"](**roots), text, changes


def outcome(g: Callable[[Any], Any]) -> Any:
    try:
        return float(g(POINT))
    except sd.SymdiffError as error:
        return error


def trial(source: random.Random) -> Verdict:
    f, text, changes = program(source)
    g = sd.grad(f, backend=source.choice(("auto", "auto", "numpy", "python")))
    for step in range(4):
        found = outcome(g)
        wanted = complex(f(POINT + 1e-20j)).imag / 1e-20
        if isinstance(found, sd.SymdiffError):
            return Verdict("refused", str(found))
        if abs(found - wanted) > 1e-9 * (1 + abs(wanted)):
            raise Wrong(f"{text}after {step} changes: {found}, should be {wanted}")
        outcome(g)
        if changes:
            source.choice(changes)()
    return RIGHT
