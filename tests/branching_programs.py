"""Random programs with branches, loops and mutation; the oracle is the program itself, plain and by the complex step.

`python tests/branching_programs.py 1000 7` compares 1000 programs from seed 7 on; the suite takes a sample.
"""

import functools
import gc
import linecache
import math
import random
import sys
import warnings

import numpy as np
from inside import Plain, binding_values
from stepped_numbers import STEP, Notes, Stepped, names

import symdiff as sd

POINTS = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -3.0, np.nan, np.inf, -np.inf]
GUARDED = 3  # points at which a program is compared whose paths are traced one by one


class Writer:
    """Writes one random program, line by line."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lines = []
        self.loops = 0
        self.caught = False  # where what `math` raises of constants would be caught
        self.raises = self.random.random() < 0.2
        self.unsafe = self.random.random() < 0.3  # logarithms of zero, roots of negative numbers
        large = self.random.random() < 0.15
        self.size, self.depth = (4, 3) if large else (3, 2)
        kinds = ["table", "array", "list", "again"]
        self.used = self.random.sample(kinds, self.random.randint(0, 3))

    def text(self):
        self.lines = [
            "def helper(u, v):",
            f"    if {self.condition(['u', 'v'])}:",
            f"        return {self.expression(['u', 'v'])}",
            f"    return {self.expression(['u', 'v'])}",
            "",
        ]
        if "again" in self.used:
            self.lines += [
                "def again(u, n):",
                f"    if n == 0 or {self.condition(['u'], 1)}:",
                f"        return {self.expression(['u'], 1)}",
                f"    return again({self.expression(['u'], 1)}, n - 1) {self.random.choice('+-*')} {self.expression(['u'], 1)}",
                "",
            ]
        self.lines += ["def program(x, y):", "    a, b, cells = x, y, [x, y, 0.5]"]
        known = ["x", "y", "a", "b"]
        if "table" in self.used:
            self.put(1, "table = {'p': x, 'q': 0.5}")
            known += ["table['p']", "table['q']", "table.get('r', 1.5)"]
        if "array" in self.used:
            self.put(1, "z = np.zeros(3)")
            self.put(1, f"z[{self.random.randrange(3)}] = {self.expression(['x', 'y'], 1)}")
            known += ["z[0]", "z[1]", "z[2]", "np.sum(z)"]
        if "list" in self.used:
            known += ["cells[-1]", "len(cells)"]
        for _ in range(self.random.randint(1, self.size)):
            self.statement(1, self.depth, known)
        rest = [f"cells[{self.random.randrange(3)}]"]
        rest += [k for k in ("table['p']", "np.sum(z)") if k in known] + (["cells[-1]"] if "list" in self.used else [])
        self.put(1, f"return {self.expression(['a', 'b', 'cells[2]'])} + {' + '.join(rest)}")
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
        if self.random.random() < 0.3 and not self.caught:
            forms = self.functions(one, two)
        else:
            forms = [f"({one} + {two})", f"({one} - {two})", f"({one} * {two})", f"({one} / (1.5 + {two}*{two}))", f"-{one}"]
            forms += [f"np.sin({one})", f"np.tanh({one})", f"np.sqrt(1.0 + {one}*{one})", f"abs({one})"]
        return self.random.choice(forms + (self.choices(names, one, two) if depth == 2 else []))

    def functions(self, one, two):
        if self.unsafe:
            return [f"np.log({one})", f"math.sqrt({one})", f"math.log({one})", f"np.sqrt({one})", f"math.atan2({one}, {two})"]
        safe = [f"math.log(1.5 + {one}*{one})", f"math.hypot({one}, {two})", f"math.atan2({one}, 1.0 + abs({two}))"]
        safe += [f"math.{name}({one})" for name in ("sin", "exp", "tanh", "floor")]
        return [*safe, f"np.exp(-{one}*{one})", f"float({one})", f"({one})**{self.random.choice((2, 3))}"]

    def choices(self, names, one, two):
        three = self.atom(names)
        forms = [f"({one} if {self.condition(names, 1)} else {two})", f"max({one}, {two})", f"min({one}, {two})"]
        forms += [f"({one} if {self.condition(names, 0)} else {two} if {self.condition(names, 0)} else {three})"]
        several = [f"max({one}, {two}, {three})", f"min([{three}, {one}, {two}])", f"sorted([{one}, {two}])[1]"]
        several += [f"functools.reduce(max, [{one}, {two}, {three}])"]
        several += [f"sorted([{one}, {two}, {three}])[{self.random.randrange(3)}]"]
        forms.append(self.random.choice(several))
        if "x" in names and not self.caught:
            forms += [f"helper({one}, {two})"] + ([f"again({one}, 2)"] if "again" in self.used else [])
        return forms

    def condition(self, names, depth=2):
        one, two = self.expression(names, 1), self.atom(names)
        sign = self.random.choice(["<", "<=", ">", ">=", "==", "!="])
        forms = [f"{one} {sign} {two}"] * 3 + [f"{self.atom(names)} < {one} <= {two}", f"abs({one}) < {two}"]
        if depth:
            more = self.condition(names, depth - 1)
            forms += [f"{one} > {two} and {more}", f"{one} < {two} or {more}", f"not ({more})"]
            forms += [f"any(v > {two} for v in cells)"] if "x" in names else []
        return self.random.choice(forms)

    def statement(self, indent, depth, names, loop=False):
        kinds = ["assign", "assign", "cell", "augment", "if", "if", "for", "while", "sort", "return", "leave", "raise", "try"]
        kind = self.random.choice([*kinds, *(k for k in self.used if k != "again")])
        if depth == 0 and kind in ("if", "for", "while", "try"):
            kind = "assign"
        getattr(self, f"{kind}_", self.assign_)(indent, depth, names, loop)

    def assign_(self, indent, depth, names, loop):
        self.put(indent, f"{self.random.choice('ab')} = {self.expression(names)}")

    def augment_(self, indent, depth, names, loop):
        self.put(indent, f"{self.random.choice('ab')} {self.random.choice('+-*')}= {self.expression(names)}")

    def cell_(self, indent, depth, names, loop):
        self.put(indent, f"cells[{self.random.randrange(3)}] {self.random.choice(['', '+', '*'])}= {self.expression(names, 1)}")

    def table_(self, indent, depth, names, loop):
        sign = self.random.choice(["", "+", "-"])
        self.put(indent, f"table['{self.random.choice('pq' if sign else 'pqr')}'] {sign}= {self.expression(names, 1)}")
        if self.random.random() < 0.3:
            self.put(indent, "b = sum(table.values())")

    def array_(self, indent, depth, names, loop):
        target = self.random.choice(["z[0]", "z[1]", "z[2]", "z[-1]", "z[1:]"])
        self.put(indent, f"{target} {self.random.choice(['', '+', '*'])}= {self.expression(names, 1)}")

    def list_(self, indent, depth, names, loop):
        one = self.expression(names, 1)
        forms = [f"cells.append({one})", f"cells.insert(1, {one})", f"cells.extend([{one}, b])", "cells.reverse()"]
        forms += ["cells.sort()", "a = cells.pop() if len(cells) > 3 else b"]
        self.put(indent, self.random.choice(forms))

    def if_(self, indent, depth, names, loop):
        self.put(indent, f"if {self.condition(names)}:")
        self.block(indent + 1, depth - 1, names, loop)
        if self.random.random() < 0.5:
            self.put(indent, f"elif {self.condition(names, 1)}:")
            self.block(indent + 1, depth - 1, names, loop)
        if self.random.random() < 0.6:
            self.put(indent, "else:")
            self.block(indent + 1, depth - 1, names, loop)

    def for_(self, indent, depth, names, loop):
        if self.loops == 2:
            return self.assign_(indent, depth, names, loop)
        self.loops += 1
        over = self.random.choice([f"k in range({self.random.randint(1, 3)})", "k in (x, y)", "k in cells[:2]"])
        self.put(indent, f"for {over}:")
        self.block(indent + 1, depth - 1, [*names, "k"], True)
        if self.random.random() < 0.2:
            self.put(indent, "else:")
            self.block(indent + 1, 0, names, False)

    def while_(self, indent, depth, names, loop):
        if self.loops == 2:
            return self.assign_(indent, depth, names, loop)
        self.loops += 1
        count = f"n{self.loops}"
        self.put(indent, f"{count} = 0")
        if self.random.random() < 0.3:
            self.put(indent, "while True:")
            self.put(indent + 1, f"if {count} == 2 or {self.condition(names, 1)}:")
            self.put(indent + 2, "break")
        else:
            self.put(indent, f"while {count} < 3 and ({self.condition(names, 1)}):")
        self.put(indent + 1, f"{count} += 1")
        self.block(indent + 1, depth - 1, names, False)

    def sort_(self, indent, depth, names, loop):
        order = self.random.choice(["", ", reverse=True"])
        if self.random.random() < 0.3:
            three = ", ".join(self.expression(names, 1) for _ in range(3))
            self.put(indent, f"a, b, cells[2] = sorted([{three}]{order})")
        else:
            self.put(indent, f"a, b = sorted([{self.expression(names, 1)}, {self.expression(names, 1)}]{order})")

    def return_(self, indent, depth, names, loop):
        self.put(indent, f"if {self.condition(names, 1)}:")
        self.put(indent + 1, f"return {self.expression(names)}")

    def leave_(self, indent, depth, names, loop):
        if not loop:
            return self.assign_(indent, depth, names, loop)
        self.put(indent, f"if {self.condition(names, 1)}:")
        self.put(indent + 1, self.random.choice(["break", "continue"]))

    def raise_(self, indent, depth, names, loop):
        if not self.raises:
            return self.assign_(indent, depth, names, loop)
        self.put(indent, f"if {self.condition(names, 1)}:")
        self.put(indent + 1, f"raise {self.random.choice(['ValueError', 'KeyError'])}('line {len(self.lines)}')")

    def try_(self, indent, depth, names, loop):
        self.put(indent, "try:")
        self.caught = True
        self.assign_(indent + 1, depth, names, loop)
        self.put(indent + 1, f"if {self.condition(names, 1)}:")
        self.put(indent + 2, "raise ValueError('inside')")
        self.caught = False
        self.put(indent, "except ValueError:")
        self.assign_(indent + 1, depth, names, loop)

    def block(self, indent, depth, names, loop):
        for _ in range(self.random.randint(1, 2)):
            self.statement(indent, depth, names, loop)


def defined(text, name, free):
    """The function `program` of a text with free names."""
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    namespace = dict(free)
    exec(compile(text, name, "exec"), namespace)
    return namespace["program"]


def program(seed):
    """A program of two numbers, and its text."""
    text = Writer(seed).text()
    return defined(text, f"<program {seed}>", {"np": np, "math": math, "functools": functools}), text


def outcome(function, *args):
    """What a call gives: its result, or its exception as type and text."""
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*args)
    except (ValueError, KeyError, ArithmeticError) as error:
        return type(error).__name__, str(error)


def slopes(function, x, y):
    """The gradient on the path taken, by the complex step."""
    points = (Stepped(complex(x, STEP)), Stepped(y)), (Stepped(x), Stepped(complex(y, STEP)))
    return [getattr(outcome(function, *args), "value", 0j).imag / STEP for args in points]


def same(found, wanted, tolerance):
    """Whether two outcomes are equal: bit by bit without a tolerance, but for NaN."""
    if isinstance(wanted, tuple) or isinstance(found, tuple):
        return type(wanted) is type(found) and found == wanted
    if tolerance:
        return bool(np.isclose(found, wanted, rtol=tolerance, atol=tolerance, equal_nan=True))
    return np.float64(found).tobytes() == np.float64(wanted).tobytes() or bool(np.isnan(found) and np.isnan(wanted))


DOMAIN = ("ValueError", "math domain error")


class Once:
    """Traces a program for several transforms of it, its merged paths once."""

    def __init__(self, trace):
        self.trace = trace
        self.merged = None

    def __call__(self, call, parent, mode=None, hide=True, backend=""):
        if self.merged is not None and mode != "guard":
            return self.merged
        found = self.trace(call, parent, mode, hide, backend)
        branches = found.graph.notes.get("branches")
        if branches is None or not branches.guarded:
            self.merged = found
        return found


class Comparison:
    """One program, traced in one of the ways, compared with itself."""

    open = 0  # numbers that rounding leaves open

    def __init__(self, seed):
        self.seed = seed
        self.function, self.text = program(seed)
        self.notes = Notes()
        text = self.text.replace("cells.sort()", "cells[:] = sorted(cells)")
        self.plain, self.stepped = (defined(text, f"<oracle {seed}>", names(s, self.notes)) for s in (False, True))
        self.chosen = chosen = random.Random(seed)
        self.exact = chosen.random() < 0.5
        self.backend = "numpy" if self.exact else chosen.choice(["python"] * 5 + ["numpy", "native"])
        if self.backend == "python" and "cells.sort()" in self.text:
            self.backend = "numpy"  # more than eight numbers are put in order as a whole array
        paths = chosen.choice([None, None, None, "guard"])
        options = {"exact": self.exact, "backend": self.backend}
        self.gradient = sd.value_and_grad(self.function, (0, 1), paths=paths, **options)
        self.value = Plain(self.function, exact=not self.exact, backend="numpy") if chosen.random() < 0.3 else None
        if self.value is not None:
            self.gradient._traced = self.value._traced = Once(self.gradient._traced)

    def points(self, count):
        for k in range(count):
            if k == GUARDED and "kept" in self.kind():
                return
            x = np.float64(self.chosen.choice([self.chosen.choice(POINTS), self.chosen.uniform(-3, 3)]))
            y = np.float64(self.chosen.choice([self.chosen.choice(POINTS), self.chosen.uniform(-3, 3)]))
            yield x, x if self.chosen.random() < 0.1 else y

    def kind(self):
        compiled = next(iter(self.gradient._compiled.values()), None)
        return "always raises" if compiled is None else str(compiled.graph.notes.get("branches", "no branches"))

    def at(self, x, y):
        self.notes.tied = self.notes.traded = False
        wanted = outcome(self.plain, x, y)
        if self.notes.traded:  # zeros of both signs may change places, which arctan2 makes a difference of 2 pi
            Comparison.open += 1
            return
        bits = "math." not in self.text and not self.notes.tied
        found = outcome(self.gradient, x, y)
        if self.value is not None:
            self.check("value alone", outcome(self.value, x, y), wanted, x, y, not self.exact, bits)
        if isinstance(wanted, tuple) or isinstance(found[1], str):
            return self.check("gradient", found, wanted, x, y, self.exact, bits)
        self.check("value", found[0], wanted, x, y, self.exact, bits)
        if np.isfinite([x, y, wanted]).all():
            expected = slopes(self.stepped, x, y)
            for side, slope, own in zip("xy", found[1], expected, strict=True):
                if np.isfinite(own) and not self.notes.tied and not same(slope, own, 1e-7):
                    self.differ(f"slope by {side}", slope, own, x, y)

    def check(self, what, found, wanted, x, y, exact, bits):
        tolerance = 0.0 if exact and bits else 1e-12 if exact else 1e-9
        own = outcome(self.function, x, y)
        if same(found, wanted, tolerance) or same(found, own, tolerance):  # `math` of constants is Python's
            return
        if isinstance(found, tuple) and found == DOMAIN and "sort" in self.text and not np.isfinite([x, y]).all():
            Comparison.open += 1  # that, on the path on which a NaN in order leaves only NaN, that of an infinity too
        else:
            self.differ(what, found, wanted, x, y, exact and bits)

    def differ(self, what, found, wanted, x, y, sure=False):
        """Raise, but where rounding may make the difference: in sums of large terms, and where a condition is about equal."""
        if not sure and not isinstance(found, tuple) and not isinstance(wanted, tuple) and self.is_open(found, wanted, x, y):
            Comparison.open += 1
            return
        way = f"{'exact' if self.exact else 'default'}, {self.backend}, {self.gradient.paths}"
        raise AssertionError(f"seed {self.seed} at {x!r}, {y!r} ({way})\n{self.text}\n{what}: {found!r}, {wanted!r} wanted")

    def is_open(self, found, wanted, x, y):
        graph = sd.value_and_grad(self.function, (0, 1), paths=self.gradient.paths).graph(x, y)
        with np.errstate(all="ignore"):
            largest = max(np.max(np.abs(v)) for v in binding_values(graph, (x, y)).values() if np.size(v))
        if not np.isfinite(largest) or abs(found - wanted) <= 1e-12 * largest:
            return True
        near = [outcome(self.plain, x * (1 + s), y * (1 + t)) for s in (1e-13, -1e-13) for t in (1e-13, -1e-13)]
        return not all(same(n, near[0], 1e-9) for n in near)


def compare(seed, count=8):
    """Compare a program, traced, with itself; returns how it was traced."""
    comparison = Comparison(seed)
    for x, y in comparison.points(count):
        comparison.at(x, y)
    return comparison.kind()


if __name__ == "__main__":
    total, first = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    kinds = {}
    gc.freeze()
    for seed in range(first, first + total):
        kind = compare(seed)
        kind = kind.partition(",")[0] if "kept" not in kind else "kept"
        kinds[kind] = kinds.get(kind, 0) + 1
    print(f"{total} programs, no difference, {Comparison.open} numbers open; {dict(sorted(kinds.items()))}")
