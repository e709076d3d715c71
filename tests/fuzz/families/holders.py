"""Functions whose loops change arrays and numbers that names, objects, dicts, lists and views have, against plain Python."""

import linecache
import random
from typing import Any

import numpy as np

import symdiff as sd

from ..harness import RIGHT, Verdict, Wrong

CLASSES = """
class Rod:
    def __init__(self, u, v):
        self.u, self.v, self.steps = u, v, 0
    def step(self):
        self.u[1:-1] += 0.1*(self.v[2:] - self.u[1:-1])
        self.steps += 1
    def swap(self):
        self.u, self.v = self.v, self.u
    def limit(self, y):
        self.u[:-1] += 0.2*(y[1:] - self.u[:-1])
        self.u = np.clip(self.u, -2, 2)
class Body:
    def __init__(self, p, v, r, w):
        self.p, self.v, self.r, self.w, self.n = p, v, r, w, 0
    def kick(self, a):
        self.v = self.v*0.9 - a*self.p
    def drift(self, t):
        self.p += t*self.v
        self.w = self.w + t*self.r
    def mix(self, other):
        self.p, other.p = 0.5*(self.p + other.p), 0.3*other.p
def shrink(y):
    y *= 0.95
"""
BEGUN = """N, s, h = len(x), 0.0, []
a, b, m, k = x.copy(), 0.5*x, np.outer(x, x), 0
rod, fields, parts = Rod(x*0.7, x*0.2), {"p": x*1.1, "q": np.cos(x)}, [x*0.3, x*0.4]
many = [x*0.1*j for j in range(12)]
bodies = [Body(v, 0.1*v, v*np.ones(2), np.zeros(2)) for v in x]
cells = [{"p": v*0.7, "v": 0.2, "n": 0, "r": v*np.ones(2), "w": np.zeros(2)} for v in x]
first = bodies[0]""".split("\n")
ARRAYS = ("a", "b", "rod.u", "rod.v", "fields['p']", "fields['q']", "parts[0]", "parts[1]", "many[3]", "m[1]", "m[:, 2]")
ENDS = """t = sum((i + 1)*(o.p + 2*o.v + 0.1*o.n + np.sum(o.r) + 3*o.w[1]) for i, o in enumerate(bodies))
t += sum((i + 1)*(c["p"] - c["v"] + 0.1*c["n"] + c["r"][0] - c["w"][1]) for i, c in enumerate(cells))
t += sum((i + 1)*np.sum(y) for i, y in enumerate((a, b, rod.u, rod.v, fields["p"], fields["q"], *parts, *many, m[1], m[:, 2])))
first.w *= 2
bodies[0].r[0] = 0.5
return s + 0.1*t + np.sum(m*m) + sum(np.sum(y)*(1 + i % 3) for i, y in enumerate(h)) + np.sum(first.r) + np.sum(first.w)
""".strip().split("\n")  # fmt: skip


class Writer:
    """The lines of a function of x; `named` are the names of arrays and of bodies or cells there are."""

    def __init__(self, source: random.Random) -> None:
        self.source = source
        self.rounds: list[str] = []
        self.arrays: list[str] = []
        self.items: list[str] = []
        self.theme = source.choice(("arrays", "items", "both"))

    def pick(self, *options: str) -> str:
        return self.source.choice(options)

    def text(self) -> str:
        lines = [*BEGUN, *([f"{self.pick(*ARRAYS[:8])} = {self.pick(*ARRAYS[:8])}"] if self.source.random() < 0.3 else [])]
        if self.source.random() < 0.3:
            lines.append(f"top = {self.pick('m[0]', 'm.T[1]', 'a[::-1]', 'a')}")
            self.arrays.append("top")
        return "\n    ".join(["def f(x):", *lines, *self.loop(), *ENDS])

    def array(self) -> str:
        return self.pick(*ARRAYS, *self.arrays, *self.arrays)

    def place(self) -> str:
        k = self.pick(*self.rounds)
        return self.pick(k, f"{k} - 1", f"({k} + 1) % N", f"({k}*3) % N", "0", "-1")

    def item(self, name: str) -> str:
        found = self.pick("bodies", "bodies", "cells") + f"[{self.place()}]"
        if self.items and self.source.random() < 0.5:
            found = self.pick(*self.items)
        return f"{found}['{name}']" if found.startswith("c") else f"{found}.{name}"

    def number(self) -> str:
        return self.pick(self.item("p"), f"0.5*{self.item('v')}", f"np.sin({self.item('p')})", "0.1*s", "0.3",
                         f"x[{self.place()}]", self.item("n"), f"0.1*np.sum({self.item('r')})",
                         f"0.1*{self.array()}[1]")  # fmt: skip

    def loop(self) -> list[str]:
        before = [*self.arrays], [*self.items]
        k = f"k{len(self.rounds)}"
        heads = [f"for {k} in range({self.pick('N', 'N', '3')}):"] * 3
        heads += [f"for {k}, q{k} in enumerate({self.pick('bodies', 'm', 'many')}):", f"for {k}, c{k} in enumerate(cells):"]
        head = self.pick(*heads)
        if " q" in head:
            (self.items if "bodies" in head else self.arrays).append(f"q{k}")
        if " c" in head:
            self.items.append(f"c{k}")
        self.rounds.append(k)
        body = [line for _ in range(self.source.randint(1, 4)) for line in self.statement()]
        self.rounds.pop()
        self.arrays, self.items = before
        return [head, *("    " + line for line in body)]

    def statement(self) -> list[str]:
        chance = self.source.random()
        if chance < 0.2 and len(self.rounds) < 3:
            return self.loop()
        if chance < 0.28:
            test = self.pick(
                f"{self.pick(*self.rounds)} % 3 == 0", f"{self.item('p')} > 0.3", "s > 0.2", f"np.sum({self.array()}) > 1"
            )
            return [f"if {test}:", *("    " + line for line in self.change())]
        if chance < 0.34:
            name = f"r{len(self.arrays)}"
            self.arrays.append(name)
            return [f"{name} = {self.pick(f'm[{self.place()}]', f'm[:, {self.place()}]', f'{self.array()}[:]')}"]
        if chance < 0.4:
            name = f"o{len(self.items)}"
            self.items.append(name)
            return [f"{name} = bodies[{self.place()}]"]
        return self.change()

    def change(self) -> list[str]:
        if self.theme == "arrays" or (self.theme == "both" and self.source.random() < 0.5):
            x, y = self.array(), self.array()
            made = self.pick(
                f"np.tanh({x})", f"0.5*{x} + 0.3*{y}", f"np.maximum({x}, 0.1*{y})", f"{x}.copy()", f"np.roll({x}, 1)"
            )
            held = self.pick(*ARRAYS[:8])
            return [self.pick(
                f"{x}[1:-1] += 0.1*({y}[2:] - {x}[1:-1])", f"{x} += 0.1*np.tanh({y})", f"{x}[{self.place()}] = {self.number()}",
                f"{held} = {made}", f"{held} = {made}", f"{held} = {y}", f"{held}, b = b, {held}", f"h.append({x})",
                f"h.append({x}.copy())", f"{x}[:] = {made}", f"shrink({x})", "rod.step()", "rod.swap()", f"rod.limit({y})",
                f"{x} *= 0.9", f"np.copyto({x}, {made})", f"m[{self.place()}] *= 0.95", f"s = 0.5*s + 0.1*np.sum({x}*{y})",
            )]  # fmt: skip
        p, r, sign = self.item(self.pick(*"pv")), self.item(self.pick(*"rw")), self.pick("=", "+=", "-=", "*=")
        other = self.pick(f"0.5*{self.item('r')}", self.item("w"), f"{self.item('r')} + 0.1", f"{self.item('w')}.copy()")
        return [self.pick(
            f"{p} {sign} 0.5*{self.number()}", f"{p} {sign} 0.5*{self.number()}", f"{r} = {other}",
            f"{r} {self.pick('+=', '-=')} {other}",
            f"{self.item('n')} += 1", f"{self.item('r')}[0] += 0.1", f"{p}, {self.item('p')} = {self.item('p')}, {p}",
            f"bodies[{self.place()}].kick(0.1)", f"bodies[{self.place()}].drift(0.05)", f"first.mix(bodies[{self.place()}])",
            f"s = 0.5*s + 0.3*{self.number()}",
        )]  # fmt: skip


def trial(source: random.Random) -> Verdict:
    """One program: its value, and its slope in a direction, with loops that are kept."""
    text, name = CLASSES + Writer(source).text() + "\n", f"<holders {source.random()}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    space: dict[str, Any] = {"np": np}
    exec(compile(text, name, "exec"), space)
    f, x = space["f"], np.array([source.uniform(-1.0, 1.5) for _ in range(9)])
    try:
        plain = f(x)
    except (IndexError, ValueError, NameError) as error:
        return Verdict("refused", str(error))
    try:
        value, slope = sd.value_and_grad(f, loops="keep")(x)
    except sd.SymdiffError as error:
        return Verdict("refused", str(error))
    if not np.isclose(value, plain, rtol=1e-9, atol=1e-12):
        raise Wrong(f"{text}\nis {plain}, with kept loops {value}\nx={x.tolist()}")
    e = np.array([source.uniform(-1.0, 1.0) for _ in range(9)])
    rises = [(f(x + step * e) - f(x - step * e)) / (2 * step) for step in (1e-6, 3e-7)]
    if np.isclose(*rises, rtol=1e-4, atol=1e-4) and not np.isclose(slope @ e, rises[0], rtol=1e-4, atol=1e-4):
        raise Wrong(f"{text}\nrises by {rises} along {e.tolist()}, with kept loops by {slope @ e}\nx={x.tolist()}")
    return RIGHT
