# ruff: noqa: E501 - lines of programs
"""Random computations reached through classes, closures, descriptors, dispatch and iterators: the derivative is theirs."""

import contextlib
import functools
import itertools
import linecache
import math
import operator
import random
import types
import zlib
from typing import Any

import symdiff as sd

from ..harness import RIGHT, Verdict, Wrong

METHODS = {
    "__call__": "o()", "__neg__": "-o", "__abs__": "abs(o)", "__enter__": "entered(o)", "__next__": "next(o)", "get": "o.get()",
    "__float__": "float(o)", "__pos__": "+o", "__round__": "round(o)", "__invert__": "~o", "__trunc__": "math.trunc(o)",
}  # fmt: skip
OF_ONE = {
    "__getitem__": "o[1]", "__add__": "o + 1", "__radd__": "1 + o", "__matmul__": "o @ 1", "__getattr__": "o.other", "__mul__": "o * 2",
    "__lt__": "o < 1", "__rsub__": "2 - o", "__contains__": "float(1 in o)", "__pow__": "o ** 2", "__missing__": "o.__missing__(1)",
    "__truediv__": "o / 2", "__class_getitem__": "type(o).of(o, 1)", "__and__": "o & 1", "__eq__": "o == 1",
}  # fmt: skip
WAYS = (
    "{f}(x)", "(lambda v: {f}(v))(x)", "functools.partial({f}, x)()", "functools.reduce(lambda a, b: {f}(b), [1.0, x])",
    "list(map({f}, [x]))[0]", "list(itertools.accumulate([1.0, x], lambda a, b: a * {f}(b)))[1]", "operator.call({f}, x)",
    "list(itertools.starmap({f}, [(x,)]))[0]", "{{'k': {f}}}['k'](x)", "[g(v) for g in [{f}] for v in [x]][0]", "getattr(Space, 'g')(x)",
    "next(v for v in map({f}, [x]))", "max([x], key={f}) * {f}(x)", "operator.methodcaller('g', x)(Space)", "operator.attrgetter('g')(Space)(x)",
    "operator.itemgetter(0)([{f}])(x)", "functools.lru_cache({f})(x)", "generator({f}, x)", "wrapped({f})(x)", "managed({f}, x)",
    "types.MethodType(lambda s, v: {f}(v), 1)(x)", "dispatched(x)", "tried({f}, x)", "{f}.__call__(x)", "sum({f}(v) for v in (x, x))",
    "eval('{f}(v)', {{'v': x, '{f}': {f}, 'math': math}})", "sorted([{f}(x), 9.0])[0]", "(w := {f})(x)", "made(x)",
)  # fmt: skip
ASKING = (
    "(2.0 if isinstance(v, float) else 3.0) * v", "(v * v if type(v) is float else v)", "(v * v if (v < 9) is True else v)",
    "(v if hasattr(v, 'dtype') else v * 5.0)",
)  # fmt: skip
TOOLS = """
def entered(o):
    with o as value:
        return value
def generator(g, v):
    def inner():
        yield g(v)
    return next(inner())
def wrapped(g):
    @functools.wraps(g)
    def outer(*args, **kwargs):
        return g(*args, **kwargs)
    return outer
@contextlib.contextmanager
def manager(g, v):
    yield g(v)
def managed(g, v):
    with manager(g, v) as value:
        return value
def tried(g, v):
    try:
        return g(v)
    except Exception:
        return 2.0
class Space:
    g = staticmethod({f})
dispatched = functools.singledispatch({f})
made_in = dict(math=math)
exec("def made(v): return {formula}", made_in)
made = made_in["made"]
"""


def trial(source: random.Random) -> Verdict:
    text = program(source)
    name = f"<codevalues {zlib.crc32(text.encode())}>"
    if source.random() < 0.8 or any(asked in text for asked in ASKING):  # else the program has no source
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    space: dict[str, Any] = {m.__name__: m for m in (contextlib, functools, itertools, math, operator, types)}
    exec(compile(text, name, "exec"), space)
    f, at, h = space["f"], source.uniform(0.4, 1.4), 1e-6
    plain = f(at)
    slope = (f(at + h) - f(at - h)) / (2 * h)
    try:
        value, found = sd.jvp(f)(at, 1.0)
    except sd.SymdiffError as error:
        return Verdict("refused", str(error))
    if not (math.isclose(value, plain, rel_tol=1e-9) and math.isclose(found, slope, rel_tol=1e-4, abs_tol=1e-6)):
        raise Wrong(f"{text}\nat {at}: {plain} and {slope} for the plain function, {value} and {found}")
    return RIGHT


def program(source: random.Random) -> str:
    formula = source.choice(["math.sin(v) * v", "math.exp(v) + v", "math.atan(v) / v", "math.sqrt(v) * 3.0"])
    reached, ways = source.random() < 0.5, WAYS
    if reached and source.random() < 0.5:
        formula, ways = source.choice(ASKING), [w for w in WAYS if "eval" not in w and "__call__" not in w]
    text = f"def calc(v):\n    return {formula}\n" + TOOLS.format(f="calc", formula=formula)
    if reached:
        return text + f"def f(x):\n    return {source.choice(ways).format(f='calc')} * x\n"
    return text + of_class(source)


def of_class(source: random.Random) -> str:
    """An object that holds x, whose method, property or iterator computes."""
    kind = source.choice(
        ["method", "one", "property", "cached", "iterator", "descriptor", "setter", "super", "new", "meta", "attributes"]
    )
    held = "    def __init__(self, v):\n        self.v = v\n"
    own = f"class Own{source.choice(['', '(dict)', '(list)']) if kind in ('method', 'one') else ''}:\n" + held
    if kind in ("method", "one"):
        name, use = source.choice(list((METHODS if kind == "method" else OF_ONE).items()))
        own += f"    def {name}(self{', other=None' if kind == 'one' else ''}, *_):\n        return calc(self.v)\n"
        own += "    def __exit__(self, *error):\n        return False\n" if name == "__enter__" else ""
        own += "    def of(self, key):\n        return calc(self.v)\n"
        return own + f"def f(x):\n    o = Own(x)\n    return ({use}) * x\n"
    if kind in ("property", "cached"):
        own += f"    @{'property' if kind == 'property' else 'functools.cached_property'}\n    def p(self):\n        return calc(self.v)\n"
        return (
            own
            + f"def f(x):\n    return {source.choice(['Own(x).p', 'getattr(Own(x), {0!r})', 'operator.attrgetter({0!r})(Own(x))'])} * x\n".format(
                "p"
            )
        )
    if kind == "iterator":
        own += "    def __iter__(self):\n        yield calc(self.v)\n        yield 2.0\n"
        use = source.choice(["list(o)[0]", "sum(o)", "[v for v in o][0]", "max(o)", "tuple(o)[0]", "dict(enumerate(o))[0]", "math.prod(o)",
                             "[*o][0]", "next(iter(o))", "unpacked(o)", "list(zip(o, o))[0][1]", "sorted(o)[1]", "(lambda a, b: a)(*o)"])  # fmt: skip
        return own + f"def unpacked(o):\n    a, b = o\n    return a\ndef f(x):\n    o = Own(x)\n    return {use} * x\n"
    if kind == "descriptor":
        own = "class D:\n    def __get__(self, owner, cls):\n        return calc(owner.v)\n" + own + "    d = D()\n"
        return own + "def f(x):\n    return Own(x).d * x\n"
    if kind == "setter":
        own += "    def __setattr__(self, name, value):\n        object.__setattr__(self, name, calc(value))\n"
        return own + "def f(x):\n    return Own(x).v * x\n"
    if kind == "super":
        own += "    def g(self):\n        return calc(self.v)\nclass Sub(Own):\n    def g(self):\n        return super().g() * 2.0\n"
        return own + "def f(x):\n    return Sub(x).g() * x\n"
    if kind == "new":
        return "class Own(float):\n    def __new__(cls, v):\n        return calc(v)\ndef f(x):\n    return Own(x) * x\n"
    if kind == "meta":
        return "class M(type):\n    def __call__(cls, v):\n        return calc(v)\nclass Own(metaclass=M):\n    pass\ndef f(x):\n    return Own(x) * x\n"
    own += "    def __getattribute__(self, name):\n        return calc(object.__getattribute__(self, 'v'))\n"
    return own + "def f(x):\n    return Own(x).any * x\n"
