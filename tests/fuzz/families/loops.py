"""Functions with loops that are kept where they can be, against plain Python and against the same loops written out."""

import collections
import linecache
import math
import random
from typing import Any

import numpy as np

import symdiff as sd

from ..harness import RIGHT, Verdict, Wrong

STARTS = (
    "a, b, c = 0.3, p, 0", "a, b, c = p, 0.4, 0.0", "a, b, c = 0, p*p, x[0]", "a, b, c = x[1], 1, 0.2", "a, b, c = 1.0, 0.5, p",
)  # fmt: skip
BUMP = """bump = None
    def bump(v):
        nonlocal b, c
        b, c = 0.8*b + 0.1*v, c + 0.01
        return b*c"""
MADE = (
    "y = [0.5, x[0]]", "y = [0.5, x[0]]; same = y", "z = np.zeros(len(x))", "z = x.copy()", "z = np.zeros(len(x)); same_z = z",
    "n = 0", "n = 3", "flag = False", "last = None", "kept = {'s': 0.1}", "pair = (0.2, p)", "w = np.array([p, 0.5])",
    "rows = np.outer(x, np.array([1.0, 0.5]))", "calls = []", "total = 0", "m = 0.3*np.outer(x, x)",
    "m = np.zeros((len(x), len(x)))", "z = x.copy(); v = z[1:]", "m = np.outer(x, x); part = m[1]",
    "m = x[:, None]*x; part = m[:, 0]", "past = collections.deque([p, x[1]], maxlen=2)", "queue = [p, 0.2, x[2]]",
    "queue = [0.3, p]; also = queue", BUMP,
    "hist = [(p, 0.1)]", "arrs = [x[:2].copy()]", "box = {'h': [], 'n': 0}",
)  # fmt: skip
HELPERS = """
STATE = {"calls": 0}
def square(v):
    return v*v + 0.1
def two(u, v):
    t = u
    for q in range(6):
        t = 0.5*t + 0.1*v*q
    return t, v
def change(cells, v):
    cells[0] = v
    return v
def counted(v):
    STATE["calls"] += 1
    return v + 0.01*STATE["calls"]
def walk(x, p):
    q = p
    for k in range(len(x)):
        q = 0.8*q + 0.1*x[k]
        if q > 0.4:
            q = 0.9*q
        yield k, q
def twice(x, p):
    for k, q in walk(x, p):
        yield 0.5*q
        yield q*p
def clipped(v):
    if v > 0.5:
        return 0.5 + 0.1*v
    return v
"""


class Writer:
    """The lines of a function of x and p; `has` are the names there are."""

    def __init__(self, source: random.Random) -> None:
        self.source = source
        self.indices: list[str] = []
        self.has: set[str] = set()

    def pick(self, *options: str) -> str:
        return self.source.choice(options)

    def text(self) -> str:
        lines = [self.pick(*STARTS)]
        for made in MADE:
            if self.source.random() < 0.35:
                lines.append(made)
                self.has |= {name.split(" =")[0].strip() for name in made.split(";")}
        for _ in range(self.source.randint(1, 2)):
            lines += self.loop()
        ends = ["a + 0.5*b + 0.25*c"]
        ends += [f"np.sum(np.sin({n}))" for n in ("z", "rows", "w", "same_z", "m", "v", "part") if n in self.has]
        ends += [f"sum(v*v for v in {n})" for n in ("y", "same") if n in self.has]
        ends += [
            f"0.1*{n}"
            for n in ("past[0]", "queue[0]", "also[1]", "n", "total", "kept['s']", "pair[0]", "float(flag)", "len(calls)")
            if self.known(n)
        ]
        ends += ["sum(u*v for u, v in hist)"] if "hist" in self.has else []
        ends += ["np.sum(np.sin(np.array(arrs)))"] if "arrs" in self.has else []
        ends += ["sum(box['h']) + 0.1*box['n']"] if "box" in self.has else []
        ends += ["0.1*(last or 0)"] if "last" in self.has else []
        return "\n    ".join(["def f(x, p):", *lines, f"return {' + '.join(ends)}"])

    def known(self, text: str) -> bool:
        return text.split("[")[0].split("(")[-1].rstrip(")") in self.has

    def index(self) -> str:
        i = self.pick(*self.indices)
        return self.pick(
            i, i, i, f"{i} + 1", f"{i} - 1", f"{i} - 2", "0", "-1", f"(2*{i}) % len(x)", f"len(x) - 1 - {i}", f"-{i}"
        )

    def leaf(self) -> str:
        i = self.pick(*self.indices)
        found = ["a", "b", "c", "p", f"0.1*{i}", "0.7", f"x[{self.index()}]", f"x[{self.index()}]", "2"]
        found += ["y[-1]", "y[-2]", f"y[{i}]"] if "y" in self.has else []
        found += ["same[-1]"] if "same" in self.has else []
        found += [f"z[{i} - 1]", f"z[{self.index()}]", "z[0]", "np.sum(z)"] if "z" in self.has else []
        found += [f"same_z[{i} - 1]"] if "same_z" in self.has else []
        found += [f"rows[{i}, 1]", f"rows[{i}] @ rows[0]"] if "rows" in self.has else []
        found += ["w[0]", "np.sum(w*w)"] if "w" in self.has else []
        found += ["hist[-1][0]", "hist[-1][1]*len(hist)*0.1"] if "hist" in self.has else []
        found += ["arrs[-1][0]", "np.sum(arrs[-1])"] if "arrs" in self.has else []
        j = self.pick(*self.indices)
        found += [f"m[{i}, {j}]", f"m[{self.index()}, {j}]", f"m[{i}] @ m[{j}]", f"np.sum(m[{i}])"] if "m" in self.has else []
        found += [f"{n}[{k}]" for n in ("v", "part") if n in self.has for k in (i, "0")]
        found += [n for n in ("kept['s']", "pair[1]", "0.1*n", "0.1*total") if self.known(n.removeprefix("0.1*"))]
        found += [f"past[{k}]" for k in ("0", "-1", f"{i} % 2") if "past" in self.has]
        found += [f"queue[{k}]" for k in ("0", "-1", f"{i} % 2") if "queue" in self.has]
        found += ["also[1]"] if "also" in self.has else []
        return self.pick(*found)

    def value(self, depth: int = 2) -> str:
        if depth == 0:
            return self.leaf()
        left, right = self.value(depth - 1), self.value(depth - 1)
        plain = f"({self.leaf()}, {self.leaf()})"
        return self.pick(
            f"({left} + {right})", f"({left} - {right})", f"0.5*{left}*{right}", f"math.sin({left})",
            f"{left}/(2 + {right}**2)",
            f"max({left}, {right})", f"({left} if {self.test()} else {right})", f"square({left})", f"two({left}, {right})[0]",
            f"clipped({left})", f"np.tanh({left})", f"abs({left})", f"sum([{left}, {right}])",
            f"sum(0.1*v for v in {plain})", f"(t := {left})*(0.3 + t)", f"sum((t := v) for v in {plain})*t",
            "sum(v for _, v in walk(x, b))", "sum(twice(x, p))",
        )  # fmt: skip

    def test(self) -> str:
        i = self.pick(*self.indices)
        found = [f"{i} == 0", f"{i} % 3 == 1", f"{i} > 1", f"{i} == len(x) - 2", f"a > {self.leaf()}", f"{i} > 2 and b < 0.4",
                 f"not {self.leaf()} < c", f"x[{i}] < 0.5 or a > b"]  # fmt: skip
        found += ["flag"] if "flag" in self.has else []
        found += ["n > 4", "n % 2"] if "n" in self.has else []
        found += ["last is None"] if "last" in self.has else []
        return self.pick(*found)

    def statements(self, depth: int) -> list[str]:
        found: list[str] = []
        for _ in range(self.source.randint(1, 3)):
            found += self.statement(depth)
        return found

    def statement(self, depth: int) -> list[str]:
        i, chance = self.pick(*self.indices), self.source.random()
        if chance < 0.35:
            return [f"{self.pick(*'abc')} {self.pick('=', '=', '+=')} {self.pick('', '0.1*')}math.sin({self.value()})"]
        if chance < 0.55:
            return [self.effect(i)]
        if chance < 0.8 and depth:
            jump = [self.pick("continue", "break", "break")] if self.source.random() < 0.3 else []
            found = [f"if {self.test()}:", *("    " + line for line in (*self.statements(depth - 1), *jump))]
            if self.source.random() < 0.5:
                found += ["else:", *("    " + line for line in self.statements(depth - 1))]
            return found
        if chance < 0.9 and depth and len(self.indices) < 3:
            return self.loop()
        if chance < 0.95 and depth:
            risk = self.pick("math.sqrt", "math.log", "1/", "abs") + f"({self.value(1)})"
            raised = [f"if {self.test()}:", "    raise ValueError(1)"] if self.source.random() < 0.4 else []
            body = [*self.statements(depth - 1), *raised, f"{self.pick(*'abc')} = {risk}"]
            kind = self.pick("ValueError", "(ValueError, ZeroDivisionError)", "ArithmeticError", "Exception as error")
            found = ["try:", *("    " + line for line in body), f"except {kind}:"]
            found += ["    " + line for line in self.statements(depth - 1)]
            return [*found, "finally:", "    a = 0.9*a"] if self.source.random() < 0.2 else found
        return [
            self.pick(f"a, b = b, 0.9*a + 0.1*{self.value(1)}", "a, b, c = b, c, 0.5*a", f"t = {self.value(1)}; c = 0.5*c + t")
        ]

    def effect(self, i: str) -> str:
        found = ["b *= 0.9"]
        if "y" in self.has:
            found += [f"y.append({self.value(1)})"] * 3
            found += [f"y += [{self.value(1)}]", f"y[0] = {self.value(1)}", "y = y[1:] + [a]"]
        if "z" in self.has:
            found += [f"z[{self.pick(i, i, f'{i} + 1', '3', f'{i} - 1')}] {self.pick('=', '=', '+=')} {self.value(1)}"] * 4
            found += ["z = 0.5*z + a", "z += 0.1*b", "change(z, 0.3*a)", "z[1:3] = a"]
        if "rows" in self.has:
            found += [f"rows[{i}, 0] = {self.value(1)}", f"rows[{i}] = 0.5*rows[{i}]", f"rows[{i}] = a*x[0]"]
        if "m" in self.has:
            j, sign = self.pick(*self.indices), self.pick("=", "=", "+=", "*=")
            found += [f"m[{i}, {j}] {sign} {self.value(1)}"] * 3
            found += [f"m[{j}, {self.index()}] {sign} {self.value(1)}", f"m[{i}] = 0.5*m[{j}]", f"m[:, {i}] = a", "m = 0.5*m",
                      f"m[{i}, {i}:] -= 0.1*m[0, {i}:]", "m *= 0.9"]  # fmt: skip
        for view in ("v", "part"):
            found += [f"{view}[{self.pick(i, '0', '2')}] = {self.value(1)}", f"{view} *= 0.9"] if view in self.has else []
        if "w" in self.has:
            found += ["w = np.tanh(w + a)", "w = w*b", "w[0] = 0.5*a", "w += 0.1*x[0]"]
        found += ["n += 1", "n += 2", f"n = {i}", "n = n*2 % 7"] if "n" in self.has else []
        found += [f"flag = {self.test()}", "flag = not flag", "flag = True"] if "flag" in self.has else []
        found += [f"last = {i}", "last = a"] if "last" in self.has else []
        found += [f"kept['s'] = {self.value(1)}", "kept['s'] += 0.1*a"] if "kept" in self.has else []
        found += [f"pair = (pair[1], {self.value(1)})"] if "pair" in self.has else []
        found += ["calls.append(1)"] if "calls" in self.has else []
        found += [f"total = total + {self.value(1)}"] * 3 if "total" in self.has else []
        found += [f"past.append({self.value(1)})", f"past[{i} % 2] = a", "past.rotate(1)"] if "past" in self.has else []
        found += [f"hist.append(({self.value(1)}, {i}*0.1))", "hist += [(b, a), (c, p)]"] if "hist" in self.has else []
        if "arrs" in self.has:
            found += ["arrs.append(0.9*arrs[-1] + a)", f"arrs.append(np.array([b, {self.value(1)}]))", "arrs.append(arrs[-1])"]
        found += [f"box['h'].append({self.value(1)})", "box['h'].append(a); box['n'] += 1"] if "box" in self.has else []
        for name in ("queue", "also"):
            if name in self.has:
                found += [f"{name}.append({self.value(1)}); c = queue.pop(0)", f"queue.insert(0, b); {name}.pop()"]
                found += [f"{name}[1] = {self.value(1)}", "queue.append(a)", "del queue[0]; queue += [b]"]
        found += [f"a = bump({self.value(1)})", "bump(a)"] if "bump" in self.has else []
        found += [f"np.add.at(z, {i}, {self.value(1)})", f"np.add.at(z, [0, 1, 0], {self.leaf()})"] if "z" in self.has else []
        return self.pick(*found, "a = counted(a)") if self.source.random() < 0.95 else "STATE['calls'] += 1"

    def loop(self) -> list[str]:
        i = "ijk"[len(self.indices)]
        ranges = ["range(len(x) - 1)", "range(1, len(x) - 1)", "range(len(x) - 2, -1, -1)", "range(6)", "range(1, 8, 2)"]
        ranges += [
            f"range({r.format(o)})" for o in self.indices for r in ("{}", "{} + 1, len(x)", "{}, 7", "{}, -1, -1", "0, {}, 2")
        ]
        heads = [f"for {i} in {self.pick(*ranges)}:"] * 4
        heads += [f"for {i}, e in enumerate(x[1:]):", f"for {i}, (e, g) in enumerate(zip(x, x[::-1])):",
                  f"for {i} in reversed(range(1, 8)):", f"for {i}, e in walk(x, {self.pick('p', 'a')}):",
                  f"for {i}, e in walk(x, p):", f"for {i}, e in enumerate(twice(x[:4], b)):"]  # fmt: skip
        head = self.pick(*heads)
        if self.source.random() < 0.15:
            self.indices.append(i)
            end = self.pick(f"{i} < 7", f"{i} < 9 and a < 2", f"abs(a) < 5 and {i} < 8")
            lines = [f"{i} = 0", f"while {end}:", f"    {i} += 1", *("    " + s for s in self.statements(1))]
            self.indices.pop()
            return lines
        self.indices.append(i)
        lines = [head, *("    " + line for line in self.statements(2))]
        self.indices.pop()
        return lines


def made(text: str, name: str) -> Any:
    """The function of a program, whose source is at hand."""
    whole = HELPERS + text + "\n"
    linecache.cache[name] = (len(whole), None, whole.splitlines(True), name)
    space: dict[str, Any] = {"math": math, "np": np, "collections": collections}
    exec(compile(whole, name, "exec"), space)
    return space["f"]


def differences(f: Any, x: np.ndarray, p: float) -> np.ndarray | None:
    """Central differences by all numbers; None where two steps disagree, as at a kink or a jump."""
    found = []
    for step in (1e-5, 2e-6):
        rows = []
        for k in range(x.size + 1):
            ends = []
            for sign in (1, -1):
                moved = x.copy()
                moved[k : k + 1] += sign * step
                f.__globals__["STATE"]["calls"] = 0
                ends.append(f(moved, p + sign * step * (k == x.size)))
            rows.append((ends[0] - ends[1]) / (2 * step))
        found.append(np.array(rows, dtype=float))
    return found[1] if np.allclose(*found, rtol=1e-4, atol=1e-5) else None


def trial(source: random.Random) -> Verdict:
    """One program: its value, and its derivative, with loops that are kept."""
    text = Writer(source).text()
    f = made(text, f"<loops {source.random()}>")
    x = np.array([source.uniform(0.1, 0.9) for _ in range(8)])
    p = source.uniform(0.2, 0.8)
    paths = None if source.random() < 0.1 else "guard"
    found: list[Any] = []
    for function in (lambda: f(x, p), lambda: sd.trace(f, x, p, paths=paths, loops="keep")):
        f.__globals__["STATE"]["calls"] = 0
        try:
            found.append(function())
        except Exception as error:
            found.append(error)
    plain, kept = found
    if isinstance(plain, Exception):
        return Verdict("refused", f"{type(plain).__name__}: {plain}")
    if isinstance(kept, Exception):
        f.__globals__["STATE"]["calls"] = 0
        try:
            sd.trace(f, x, p, paths=paths)
        except sd.SymdiffError as error:
            return Verdict("refused", str(error))
        if isinstance(kept, sd.BackendError):
            return Verdict("refused", str(kept))
        raise Wrong(f"{text}\nkept loops: {type(kept).__name__}: {kept}; the value is {plain}") from kept
    value = kept(x, p)
    shown = f"{kept.notes.get('loops')}\nx={x.tolist()}, p={p}"
    if not np.allclose(value, plain, rtol=1e-9, atol=1e-11, equal_nan=True):
        f.__globals__["STATE"]["calls"] = 0
        if not np.allclose(plain, f(x * (1 + 4e-15), p), rtol=1e-9, atol=1e-11, equal_nan=True):
            return Verdict("refused", "the value has no digits")
        raise Wrong(f"{text}\nis {plain}, with kept loops {value}\n{shown}")
    if "kept" not in kept.notes["loops"].values():
        return Verdict("refused", shown)
    expected = differences(f, x, p)
    f.__globals__["STATE"]["calls"] = 0
    try:
        by_x, by_p = sd.grad(f, argnums=(0, 1), paths=paths, loops="keep", scalarize=False)(x, p)
    except sd.BackendError as error:
        return Verdict("refused", str(error))
    if expected is not None and not np.allclose(np.append(by_x, by_p), expected, rtol=1e-4, atol=1e-4):
        raise Wrong(f"{text}\nhas differences {expected}, with kept loops derivatives {by_x}, {by_p}\n{shown}")
    return RIGHT
