# ruff: noqa: E501 - lines of programs
"""Random expressions of what Python makes of values: truths, integers, types, identity, texts, patterns, attributes."""

import linecache
import math
import numbers
import operator
import random
import typing
import zlib
from collections import abc
from typing import Any

import numpy as np

import symdiff as sd

from ..harness import RIGHT, Verdict, Wrong

KINDS = (float, np.float64, np.array, np.float32, lambda value: np.array([value]))
TYPES = "float int bool complex np.floating np.float64 np.ndarray np.bool_ np.generic numbers.Real object (int, float)".split(
    " ", 10
)
ABSTRACT = "abc.Iterable abc.Sized abc.Hashable typing.SupportsIndex typing.SupportsComplex typing.SupportsFloat numbers.Integral".split()
OF_TRUTHS = ("{} + {}", "{} * {}", "{} - {}", "{} & {}", "{} | {}", "{} ^ {}", "{} == {}", "sum([{}, {}])", "max({}, {})")
SCALE = 3.0


def trial(source: random.Random) -> Verdict:
    text = program(source)
    name = f"<meaning {zlib.crc32(text.encode())}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    space: dict[str, Any] = {"np": np, "math": math, "numbers": numbers, "operator": operator, "abc": abc, "typing": typing}
    exec(compile(text, name, "exec"), space)
    f = space["f"]
    kind = source.choice(KINDS)
    transform = sd.jvp(f)
    for _ in range(2):  # another point, and perhaps another kind: a specialisation that is kept may not fit
        point = kind(round(source.uniform(-SCALE, SCALE) * 4) / 4 + 0.0625)
        refusal = compared(f, transform, point, text)
        if refusal:
            return Verdict("refused", refusal)
        kind = source.choice([kind, *KINDS[:3]]) if kind in KINDS[:3] else kind
    return RIGHT


def compared(f: Any, transform: Any, point: Any, text: str) -> str:
    with np.errstate(all="ignore"):
        plain = outcome(f, point)
        try:
            traced = outcome(lambda x: transform(x, np.ones_like(x) if np.shape(x) else 1.0)[0], point)
        except sd.SymdiffError as error:
            return str(error)
    if isinstance(plain, type) and not isinstance(traced, type) and issubclass(plain, AttributeError):
        return ""  # numbers of Python's have what NumPy's have
    if isinstance(plain, type) and issubclass(plain, ArithmeticError):
        return ""  # divisions by zero go on in IEEE arithmetic
    same = (
        plain is traced if isinstance(plain, type) or isinstance(traced, type) else np.allclose(plain, traced, equal_nan=True)
    )
    if not same:
        raise Wrong(f"{text}\n{point!r}: {plain} for the plain function, {traced}")
    return ""


def outcome(f: Any, point: Any) -> Any:
    try:
        return np.asarray(f(point)).astype(float).ravel()
    except sd.SymdiffError:
        raise
    except Exception as error:
        return next(
            k
            for k in (TypeError, AttributeError, KeyError, IndexError, ValueError, ArithmeticError, Exception)
            if isinstance(error, k)
        )


def program(source: random.Random) -> str:
    lines = ["def f(x):", f"    t = {truth(source, 2)}", f"    n = {whole(source, 2)}"]
    kind = source.randrange(7)
    if kind == 0:
        lines += ["    match " + source.choice(["x", "t", "n", "(x, t)", "[n, t]"]) + ":", *cases(source), "    return x * 7.0"]
    elif kind == 1:
        lines += ["    try:", f"        return x * x.{source.choice('shape size ndim hex is_integer real bit_length'.split())}",
                  "    except (AttributeError, TypeError):", "        return x * 5.0"]  # fmt: skip
    elif kind == 2:
        lines += [f"    if {asked(source)}:", "        return x * x", f"    return x * ({whole(source, 2)})"]
    elif kind == 3:
        lines += [
            f"    v = {mixed(source, 2)}",
            f"    if {kept(source)}:",
            "        return x * x",
            f"    return x * ({kept(source)}) + v * 1.5",
        ]
    else:
        lines += [f"    return x * ({source.choice([whole, truth, number])(source, 3)}) + ({source.choice(['t', 'n', 'x'])})"]
    return "\n".join(lines) + "\n"


def cases(source: random.Random) -> list[str]:
    found = []
    for _ in range(source.randint(1, 3)):
        one = source.choice(
            "float() float(y) int() bool() True False None 1 2.0 np.float64() np.bool_() object() str()".split()
        )
        pattern = source.choice(
            [one, f"{one} if x > 0", f"{one} as z", f"({one}, {source.choice(['True', '_', 'bool()', 'np.bool_()'])})"]
        )
        found += [f"        case {pattern}:", f"            return x * {source.randint(2, 9)}.0"]
    return found


def asked(source: random.Random) -> str:
    value = source.choice(["x", "t", "n", f"({truth(source, 1)})", f"({whole(source, 1)})", f"({number(source, 1)})"])
    return source.choice([
        f"isinstance({value}, {source.choice(TYPES)})", f"type({value}) is {source.choice(TYPES[:6])}",
        f"hasattr({value}, {source.choice(['shape', 'hex', 'dtype', 'bit_length', '__len__'])!r})", f"np.isscalar({value})",
        f"{value} is True", f"{value} is not False", f"{value} is None", f"{value} is np.True_", f"{value} == 'a'", f"{value} in (1, 2.0)",
        f"{value} == None", f"{value} == [1]", f"getattr({value}, 'ndim', None) is None", f"str({value}) == 'True'",
        f"{value}.__class__ is float", f"operator.is_({value}, True)", f'len(f"""{{{value}}}""") > 3', f"type({value}) in (float, int)",
        f"'%s' % ({value},) == '1'", f"isinstance({value}, float | np.floating)",
    ])  # fmt: skip


def mixed(source: random.Random, depth: int) -> str:
    """A number that may be of one of several kinds."""
    if not depth:
        return source.choice(
            "x 1 True 2.5 -1 np.float32(1.5) x*2 -x abs(x) +x x.imag x.real int(x) np.asarray(x) np.array(x)".split()
        )
    a, b, c = (mixed(source, depth - 1) for _ in range(3))
    return source.choice([
        f"({a}, {b})[int({truth(source, 0)})]", f"max({a}, {b})", f"min({a}, {b}, {c})", f"sorted([{a}, {b}, {c}])[{source.randrange(3)}]",
        f"sum([{a}, {b}, {c}])", f"(({a}) if {truth(source, 0)} else ({b}))", f"(({a}) and ({b}))", f"(({a}) * ({b}))", f"(-({a}))",
        f"(({a}) + ({truth(source, 0)}))", f"np.asarray({a}).item()", f"np.asarray({a}).tolist()", f"np.where({truth(source, 0)}, {a}, {b})",
        f"np.clip({a}, -1, 2)", f"np.sum({a})", f"math.trunc({a})", f"np.round({a}, 1)", f"round({a})", f"abs({a})", f"np.real({a})",
        f"({a}).conjugate()", f"(np.bool_({source.randrange(2)}) {source.choice('|&^')} ({truth(source, 0)}))", f"math.prod([{a}, {b}])",
    ])  # fmt: skip


def kept(source: random.Random) -> str:
    """A question about `v`."""
    named = source.choice("shape hex dtype bit_length is_integer as_integer_ratio item __len__ __round__ __trunc__".split())
    return source.choice([
        f"isinstance(v, {source.choice(ABSTRACT)})", f"isinstance(v, {source.choice(TYPES)})", f"type(v) is {source.choice(TYPES[:6])}",
        "len(type(v).__name__)", f"hasattr(v, {named!r})", "(v > 0) is np.True_", "(v > 0) is True", "~(v > 1)", "~v", "v & 1", "v is True",
        "-(v > 0)", "v.is_integer()", "~float(v).is_integer()", "[1.0, 2.0, 3.0][v]", "len([1] * v)", "~np.allclose(v, 2.0)",
        "-np.array_equal(v, x)", "v == 'a'", "~(v == 'a')", "(v > 0) + (v > -1)", "(v > 0) - (x > 0)", "isinstance(v > 0, bool)",
        "type(v * 2).__name__ == 'int'", "type(v + np.float32(2)).__name__ == 'float32'", "type(-v) is type(v)", "v // 2", "v ** 2",
        "round(v, 1)", "len(type(round(v)).__name__)", "np.isscalar(v)", "divmod(v, 2)[1]", "v.__class__ is int", "v in (1, 2.5)",
    ])  # fmt: skip


def truth(source: random.Random, depth: int) -> str:
    if not depth:
        return f"({source.choice(['x', 'x', '-x', 'x*x'])} {source.choice('< > <= >= == !='.split())} {source.randint(-2, 2)})"
    a, b = truth(source, depth - 1), truth(source, depth - 1)
    return source.choice([
        f"~{a}", f"(not {a})", f"({a} and {b})", f"({a} or {b})", f"({source.choice(OF_TRUTHS).format(a, b)})", f"np.logical_not({a})",
        f"bool({a})", f"({a} is {b})", f"-{a}", f"+{a}", f"abs({a})", f"np.add({a}, {b})", f"({a} ^ True)", a, a,
    ])  # fmt: skip


def whole(source: random.Random, depth: int) -> str:
    if not depth:
        return source.choice(
            ["int(x)", "round(x)", "math.floor(x)", f"int({truth(source, 0)})", truth(source, 0), "math.ceil(-x)"]
        )
    a, b = whole(source, depth - 1), source.choice([str(source.randint(-3, 5)), whole(source, depth - 1)])
    return source.choice([
        f"({a} {source.choice('+ - * & | ^ << >> // % **'.split())} {b})", f"~({a})", f"-({a})", f"abs({a})", f"divmod({a}, 3)[1]",
        f"len([1] * ({a}))", f"[2, 3, 5][({a}) % 3]", f"(2, 7)[{truth(source, 0)}]", f"{{True: 2, False: 3}}[{truth(source, 0)}]",
        f"sum([{a}, {b}])", f"(({a}) if {truth(source, 1)} else {b})", f"len('ab' * ({a}))", a,
    ])  # fmt: skip


def number(source: random.Random, depth: int) -> str:
    if not depth:
        return source.choice(["x", "x / 2", "2.5", "x * x"])
    a, b = number(source, depth - 1), number(source, depth - 1)
    return source.choice([
        f"({a} {source.choice('+ - * // %'.split())} {b})", f"({a} and {b})", f"({a} or {b})", f"({a} if {truth(source, 1)} else {b})",
        f"round({a}, 1)", f"divmod({a}, 2)[0]", f"({truth(source, 1)}) * {a}", f"(w := {a}) + w", f"{a} ** 2",
        f"math.isclose({a}, {b})", f"float({a})", f"max({a}, {b})", f"min({a}, {b}, key=lambda v: -v)",
    ])  # fmt: skip
