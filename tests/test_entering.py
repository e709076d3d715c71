"""Code of the user's that Python enters by itself: what it asks of a traced value is answered for the number, or refused."""

import contextlib
import cProfile
import functools
import linecache
import math
import numbers
import operator
import sys

import numpy as np
import pytest

import symdiff as sd

USES = {
    "__add__": "o + x", "__radd__": "sum([o])", "__getitem__": "o[0]", "__getattr__": "o.other", "__neg__": "-o", "p": "o.p",
    "__iter__": "sum(o)", "__enter__": "entered(o)", "d": "o.d", "__setitem__": "stored(o)", "__abs__": "abs(o)",
    "__matmul__": "o @ 1", "attrgetter": "operator.attrgetter('p')(o)", "__reversed__": "reversed(o)[0]", "__eq__": "o == 1",
    "wrapper": "calc.__call__(x)", "eval": "eval('calc(x)', {'calc': calc, 'x': x})", "__class_getitem__": "P[x]",
}  # fmt: skip
FOLLOWED = ("__add__", "__radd__", "__getitem__", "__neg__", "p", "__iter__", "__enter__", "wrapper")  # in a thorough run
TRUTHS = {"__lt__": "o < x", "__bool__": "o", "__contains__": "x in o", "__len__": "o"}
SPACE = {"__name__": __name__, **{m.__name__: m for m in (contextlib, functools, math, numbers, operator)}, "np": np}
ANSWERED = ["isinstance(v, float)", "isinstance(v, numbers.Real)", "not isinstance(v, np.ndarray)", "v.__class__ is float"]
ASKED = ["type(v) is float", "not hasattr(v, 'dtype')", "(v < 9) is True", "True is (v < 9)", "getattr(v, 'ndim', 5) == 5",
         "{float: 1}.get(type(v), 0)", "kind(v) is float", "dispatched(v)", "issubclass(type(v), float)"]  # fmt: skip


def program(question, name, use):
    """A function that makes an object o of x, whose method answers a question about x."""
    truth = name in TRUTHS
    answer = "true(self.v)" if truth else "calc(self.v)"
    lines = f"""
kind = type
@functools.singledispatch
def dispatched(v): return False
@dispatched.register
def _(v: float): return True
def true(v): return bool({question})
def calc(v): return v * v if {question} else 3.0 * v
def entered(o):
    with o as found: return found
def stored(o):
    o[0] = 1
    return o.v
class D:
    def __get__(self, owner, cls): return calc(owner.v)
class P:
    d = D()
    def __init__(self, v): self.v = v
    @property
    def p(self): return calc(self.v)
    def __exit__(self, *error): return False
    def {name}(self, *args): return {answer}
"""
    if name in ("p", "d", "attrgetter", "wrapper", "eval"):
        lines = "\n".join(lines.splitlines()[:-1])  # all that it needs is there
    lines = lines.replace("return calc(self.v)", "yield calc(self.v)") if name == "__iter__" else lines
    if name == "__setitem__":
        lines = lines.replace("(self, *args): return calc(self.v)", "(self, key, value): self.v = calc(self.v)")
    if name == "__class_getitem__":
        lines = lines.replace("(self, *args): return calc(self.v)", "(cls, v): return calc(v)")
    if name == "__reversed__":
        lines = lines.replace("(self, *args): return calc(self.v)", "(self): return [calc(self.v)]")
    return lines + f"\ndef f(x):\n    o = P(x)\n    return {f'(x if {use} else x * x)' if truth else f'({use})'} * x\n"


def made(text):
    name = f"<entering {len(linecache.cache)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    space = dict(SPACE)
    exec(compile(text, name, "exec"), space)
    return space["f"]


@pytest.mark.parametrize("name", [*USES, *TRUTHS])
@pytest.mark.parametrize("question", ANSWERED)
def test_a_traced_value_has_the_class_of_its_number(question, name):
    f = made(program(question, name, (USES | TRUTHS)[name]))
    value, slope = sd.value_and_grad(f)(0.7)
    assert value == pytest.approx(f(0.7)) and slope == pytest.approx((f(0.7 + 1e-6) - f(0.7 - 1e-6)) / 2e-6)


@pytest.mark.parametrize("name", [*USES, *TRUTHS])
@pytest.mark.parametrize("question", ASKED)
def test_other_questions_are_answered_or_refused(question, name):
    f = made(program(question, name, (USES | TRUTHS)[name]))
    try:
        value, slope = sd.value_and_grad(f)(0.7)
    except sd.TraceError as error:
        assert "<entering" in str(error) and name not in FOLLOWED
        return
    assert value == pytest.approx(f(0.7)) and slope == pytest.approx((f(0.7 + 1e-6) - f(0.7 - 1e-6)) / 2e-6)


class Pair:
    """Asks what its operands are, which are no numbers."""

    def __init__(self, x, y):
        self.x, self.y = x, y

    def __add__(self, other):
        if type(other) is not Pair:
            return NotImplemented
        return type(self)(self.x + other.x, self.y + other.y)

    def __lt__(self, other):
        return self.x < other.x if type(other) is Pair and hasattr(other, "x") else NotImplemented

    def __getattr__(self, name):
        try:
            return self.__dict__["_" + name]
        except KeyError:
            raise AttributeError(name) from None


@pytest.mark.parametrize(
    "f",
    [lambda x: (Pair(x, 1.0) + Pair(2.0, x)).x * x, lambda x: sorted([Pair(x, 1.0), Pair(0.1, x)])[0].y * x,
     lambda x: sum([Pair(x, x)], Pair(1.0, 2.0)).y * x, lambda x: x if hasattr(Pair(x, x), "z") else x * x],
)  # fmt: skip
def test_questions_about_other_objects_are_no_obstacle(f):
    assert sd.value_and_grad(f)(0.7)[0] == pytest.approx(f(0.7))


def test_the_class_is_that_of_the_argument_of_each_call():
    class Kinds:
        def __init__(self, v):
            self.v = v

        def __bool__(self):
            return isinstance(self.v, np.floating)

    def f(x):
        return x * x if Kinds(x) else 3.0 * x

    g = sd.grad(f)
    assert [g(0.5), g(np.float64(0.5)), g(np.array(0.5)), g(0.5)] == [3.0, 1.0, 3.0, 3.0]


def test_profilers_go_on():
    f = made(program("type(v) is float", "__add__", "o + x"))
    seen, names = [], set()

    def look(frame, event, arg):
        seen.append(event)
        names.add(frame.f_code.co_name)

    outer = sys.getprofile()
    sys.setprofile(look)
    try:
        found = sd.grad(f)(0.7), sys.getprofile() is look
    finally:
        sys.setprofile(outer)
    assert found == (pytest.approx(3 * 0.7**2), True) and "c_call" in seen
    assert "generic_visit" not in names  # of `ast`: no call of long work on syntax is looked at
    profile = cProfile.Profile()
    profile.enable()
    told = sys.getprofile()  # the profile itself; None where Python has another way for it (3.12)
    try:
        assert sd.hessian(f)(0.7) == pytest.approx(6 * 0.7) and sys.getprofile() is told
    finally:
        profile.disable()
        sys.setprofile(outer)


@pytest.mark.parametrize("dataclass", ["", "@dataclasses.dataclass\n"])
def test_classes_of_code_without_a_file_are_followed(dataclass):
    fields = "    v: object\n" if dataclass else "    def __init__(self, v): self.v = v\n"
    text = f"""import dataclasses
{dataclass}class P:
{fields}    def __add__(self, o): return self.v * 3.0 if isinstance(o, float) else o * self.v
def f(x): return P(x) + x
"""
    space = {"__name__": "written_in_exec"}
    exec(text, space)
    assert sd.value_and_grad(space["f"])(0.7) == (pytest.approx(2.1), 3.0)
