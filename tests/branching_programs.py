"""Random programs with branches and loops, and the oracle for them: the program itself, plain and by the complex step.

`python tests/branching_programs.py 1000 7` compares 1000 programs from seed 7 on; the suite takes a sample.
"""

import cmath
import linecache
import random
import sys
import warnings

import numpy as np

import symdiff as sd
from symdiff.functions import Plain

STEP = 1e-100
POINTS = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -3.0, np.nan, np.inf, -np.inf]


class Stepped:
    """A real number with a tiny imaginary part: compared by its real part, so that it takes the path of the real number."""

    def __init__(self, value):
        self.value = complex(value)

    def _compared(name):
        def compare(self, other):
            return getattr(self.value.real, name)(other.value.real if isinstance(other, Stepped) else float(other))

        return compare

    __lt__, __le__, __gt__, __ge__ = map(_compared, ("__lt__", "__le__", "__gt__", "__ge__"))
    __eq__, __ne__ = map(_compared, ("__eq__", "__ne__"))
    __hash__ = None

    def _computed(compute):
        def operate(self, other=0.0):
            return Stepped(compute(self.value, other.value if isinstance(other, Stepped) else complex(other)))

        return operate

    __add__ = __radd__ = _computed(lambda a, b: a + b)
    __sub__ = _computed(lambda a, b: a - b)
    __rsub__ = _computed(lambda a, b: b - a)
    __mul__ = __rmul__ = _computed(lambda a, b: complex(a.real * b.real, a.real * b.imag + a.imag * b.real))
    __truediv__ = _computed(lambda a, b: a / b)
    __rtruediv__ = _computed(lambda a, b: b / a)
    __neg__ = _computed(lambda a, b: -a)
    __abs__ = _computed(lambda a, b: a if a.real >= 0 else -a)
    sin = _computed(lambda a, b: cmath.sin(a))
    tanh = _computed(lambda a, b: cmath.tanh(a))
    sqrt = _computed(lambda a, b: cmath.sqrt(a))

    def __pow__(self, exponent):
        return self if exponent == 1 else self * self ** (exponent - 1)

    def __bool__(self):
        return bool(self.value.real)


class Writer:
    """Writes one random program, line by line."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lines = []
        self.loops = 0
        self.raises = self.random.random() < 0.2

    def text(self):
        self.lines = [
            "def helper(u, v):",
            f"    if {self.condition(['u', 'v'])}:",
            f"        return {self.expression(['u', 'v'])}",
            f"    return {self.expression(['u', 'v'])}",
            "",
            "def program(x, y):",
            "    a, b, cells = x, y, [x, y, 0.5]",
        ]
        for _ in range(self.random.randint(1, 4)):
            self.statement(1, 3, ["x", "y", "a", "b"])
        self.put(1, f"return {self.expression(['a', 'b', 'cells[2]'])} + cells[{self.random.randrange(3)}]")
        return "\n".join(self.lines) + "\n"

    def put(self, indent, line):
        self.lines.append("    " * indent + line)

    def atom(self, names):
        if self.random.random() < 0.25:
            return self.random.choice(["0.5", "1.0", "2", "-1.5", "0.0", "3"])
        return self.random.choice([*names, "cells[0]"] if "x" in names else names)

    def expression(self, names, depth=2):
        if depth == 0 or self.random.random() < 0.2:
            return self.atom(names)
        one, two = self.expression(names, depth - 1), self.expression(names, depth - 1)
        forms = [f"({one} + {two})", f"({one} - {two})", f"({one} * {two})", f"({one} / (1.5 + {two}*{two}))", f"-{one}"]
        forms += [f"np.sin({one})", f"np.tanh({one})", f"np.sqrt(1.0 + {one}*{one})"]
        if depth == 2:
            forms += [f"({one} if {self.condition(names, 1)} else {two})", f"max({one}, {two})", f"min({one}, {two})"]
            forms += [f"helper({one}, {two})"] if "x" in names else []
        return self.random.choice(forms)

    def condition(self, names, depth=2):
        one, two = self.expression(names, 1), self.atom(names)
        sign = self.random.choice(["<", "<=", ">", ">=", "==", "!="])
        forms = [f"{one} {sign} {two}"] * 3 + [f"{self.atom(names)} < {one} <= {two}", f"abs({one}) < {two}"]
        if depth:
            more = self.condition(names, depth - 1)
            forms += [f"{one} > {two} and {more}", f"{one} < {two} or {more}", f"not ({more})"]
        return self.random.choice(forms)

    def statement(self, indent, depth, names, loop=False):
        kind = self.random.choice(["assign", "cell", "if", "if", "for", "while", "sort", "return", "leave", "raise"])
        if depth == 0 or kind == "assign":
            self.put(indent, f"{self.random.choice('ab')} = {self.expression(names)}")
        elif kind == "cell":
            self.put(indent, f"cells[{self.random.randrange(3)}] {self.random.choice(['', '+'])}= {self.expression(names, 1)}")
        elif kind == "if":
            self.put(indent, f"if {self.condition(names)}:")
            self.block(indent + 1, depth - 1, names, loop)
            if self.random.random() < 0.5:
                self.put(indent, f"elif {self.condition(names, 1)}:")
                self.block(indent + 1, depth - 1, names, loop)
            if self.random.random() < 0.6:
                self.put(indent, "else:")
                self.block(indent + 1, depth - 1, names, loop)
        elif kind == "for" and self.loops < 2:
            self.loops += 1
            self.put(indent, f"for k in range({self.random.randint(1, 3)}):")
            self.block(indent + 1, depth - 1, [*names, "k"], True)
        elif kind == "while" and self.loops < 2:
            self.loops += 1
            count = f"n{self.loops}"
            self.put(indent, f"{count} = 0")
            self.put(indent, f"while {count} < 3 and ({self.condition(names, 1)}):")
            self.put(indent + 1, f"{count} += 1")
            self.block(indent + 1, depth - 1, names, False)
        elif kind == "sort":
            self.put(indent, f"a, b = sorted([{self.expression(names, 1)}, {self.expression(names, 1)}])")
        elif kind == "return" and self.random.random() < 0.5:
            self.put(indent, f"if {self.condition(names, 1)}:")
            self.put(indent + 1, f"return {self.expression(names)}")
        elif kind == "leave" and loop:
            self.put(indent, f"if {self.condition(names, 1)}:")
            self.put(indent + 1, self.random.choice(["break", "continue"]))
        elif kind == "raise" and self.raises:
            self.put(indent, f"if {self.condition(names, 1)}:")
            self.put(indent + 1, f"raise {self.random.choice(['ValueError', 'KeyError'])}('line {len(self.lines)}')")
        else:
            self.put(indent, f"{self.random.choice('ab')} = {self.expression(names)}")

    def block(self, indent, depth, names, loop):
        for _ in range(self.random.randint(1, 2)):
            self.statement(indent, depth, names, loop)


def program(seed):
    """A program of two numbers, and its text."""
    text = Writer(seed).text()
    name = f"<program {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    namespace = {"np": np}
    exec(compile(text, name, "exec"), namespace)
    return namespace["program"], text


def outcome(function, *args):
    """What a call gives: its result, or its exception as type and text."""
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*args)
    except (ValueError, KeyError) as error:
        return type(error).__name__, str(error)


def slopes(function, x, y):
    """The gradient on the path taken, by the complex step."""
    return [np.imag(getattr(outcome(function, *args), "value", 0.0)) / STEP
            for args in ((Stepped(complex(x, STEP)), Stepped(y)), (Stepped(x), Stepped(complex(y, STEP))))]  # fmt: skip


def same(found, wanted, tolerance):
    if isinstance(wanted, tuple) or isinstance(found, tuple):
        return found == wanted
    return bool(np.isclose(found, wanted, rtol=tolerance, atol=tolerance, equal_nan=True))


def compare(seed, count=8):
    """Compare a program, traced, with itself; returns how it was traced."""
    function, text = program(seed)
    chosen = random.Random(seed)
    exact, default = Plain(function, exact=True, backend="numpy"), Plain(function)
    gradient = sd.value_and_grad(function, (0, 1), paths=chosen.choice([None, None, "guard"]))
    extremes = any(f"{name}(" in text for name in ("min", "max", "sorted"))  # operations: NaN wins, ties share
    for _ in range(count):
        x, y = (np.float64(chosen.choice([chosen.choice(POINTS), chosen.uniform(-3, 3)])) for _ in range(2))
        if extremes and np.isnan([x, y]).any():
            continue
        wanted = outcome(function, x, y)
        where = f"seed {seed} at {x!r}, {y!r}\n{text}\nwanted {wanted}"
        found = outcome(exact, x, y)
        assert same(found, wanted, 0.0), f"{where}, exact {found}"
        found = outcome(default, x, y)
        assert same(found, wanted, 1e-9), f"{where}, default {found}"
        found = outcome(gradient, x, y)
        if isinstance(wanted, tuple):
            assert found == wanted, f"{where}, gradient {found}"
        elif np.isfinite([x, y]).all() and not (extremes and {x, y} & set(POINTS)):
            assert same(found[0], wanted, 1e-9), f"{where}, value beside gradient {found}"
            expected = slopes(function, x, y)
            assert all(map(same, found[1], expected, [1e-7] * 2)), f"{where}, gradient {found[1]}, {expected} expected"
    compiled = next(iter(gradient._compiled.values()), None)
    return "always raises" if compiled is None else str(compiled.graph.notes.get("branches", "no branches"))


if __name__ == "__main__":
    total, first = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    kinds = {}
    for seed in range(first, first + total):
        kind = compare(seed)
        kind = kind.partition(",")[0] if "kept" not in kind else "kept"
        kinds[kind] = kinds.get(kind, 0) + 1
    print(f"{total} programs, no difference; {dict(sorted(kinds.items()))}")
