"""Loops in loops over arrays that are written in place, as codes of linear algebra, filters and stencils have them.

A program is made line by line and run by NumPy as it grows, so that only lines stay that NumPy takes. Its value with kept loops
is held against NumPy's at two points, the derivative against that of the loops written out and against differences; and, by
turns, files for Python, NumPy and C, `jvp`, `hvp`, `vmap`.
"""

import ctypes
import linecache
import math
import pathlib
import random
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import symdiff as sd

from ..harness import RIGHT, Verdict, Wrong

N = 7
LONG = 1_500  # bindings from which on what is written out is not compiled again
ORDER = [3, 0, 5, 1, 6, 2, 4]
AGAIN = [2, 0, 2, 5, 1, 5, 6]
START = (
    "u = x.copy()", "u = np.zeros(n)", "u = 0.5*x + p", "u = np.empty(n); u[:] = x", "u = np.full(n, p)", "u = x*1j + 0.3",
    "v = np.zeros_like(x)", "v = np.sin(x)", "v = u", "v = u[::-1]", "v = A[0].copy()", "M = A.copy()", "M = np.zeros((n, n))",
    "M = np.outer(x, x)", "M = 0.2*A + np.eye(n)", "M = np.empty((n, n)); M[:] = A", "K = A.copy()", "K = np.zeros_like(A)",
    "K = M", "K = M.T", "K = A*(1 + 0.2j)", "m = 0", "m = 2", "s = 0.0", "s = p", "q = x[0]", "t = [x[0], p]",
    "c = np.zeros(n, dtype=int)",
    "z = np.zeros(n, dtype=complex)", "flag = False", "S = State(p, x[1])", "L = [[p, 0.0], [0.1, x[2]]]",
    "d = {'a': p, 'b': 0.2}",
)  # fmt: skip
HELPERS = """
@dataclass
class State:
    a: object
    b: object
    def step(self, w):
        self.a, self.b = self.b, 0.5*self.a + 0.1*w
        return self.a
def relax(u, i):
    u[i] = 0.5*u[i] + 0.1*u[i - 1]
def mean(u, i):
    return 0.5*(u[i] + u[i - 1])
def first(u, c):
    for j in range(len(u)):
        if u[j] > c:
            return j
    return -1
def some(v):
    if v > 0.4:
        return 0.4 + 0.1*v
    return v
"""
VECTORS, MATRICES, NUMBERS = ("u", "v", "z"), ("M", "K"), ("s", "q")
SPANS = ("range(n)", "range(1, n - 1)", "range(1, n)", "range(n - 1, -1, -1)", "range(n - 2, 0, -1)", "range(6)",
             "range(0, n, 2)",
         "reversed(range(1, n))")  # fmt: skip
WITHIN = ("range({i})", "range({i} + 1, n)", "range({i}, n)", "range({i} - 1, -1, -1)", "range(n)", "range(1, n - 1)",
          "range({i} + 1)", "range(5)", "range(n - {i})", "range(max(0, {i} - 2), min(n, {i} + 3))")  # fmt: skip


class Writer:
    """The lines of a function of x, A and p."""

    def __init__(self, source: random.Random) -> None:
        self.source = source
        self.indices: list[str] = []
        self.has: list[str] = []

    def pick(self, options: Any) -> Any:
        return self.source.choice(list(options))

    def chance(self, share: float) -> bool:
        return self.source.random() < share

    def of(self, names: tuple[str, ...]) -> list[str]:
        return [n for n in names if n in self.has]

    def place(self) -> str:
        i, j = self.pick(self.indices), self.pick(self.indices)
        found = [i] * 6 + [f"{i} - 1", f"{i} + 1", f"n - 1 - {i}", f"({i} + 1) % n", f"{i} % 3", "0", "-1", f"order[{i}]",
                     f"{i} - {j}",
                           f"-{i} - 1", f"{i} // 2", f"min({i} + 1, n - 1)", f"np.minimum({i} + 1, n - 1)"]  # fmt: skip
        found += ["m", "m % n", "m - 1"] if "m" in self.has else []
        found += [f"c[{i}]"] if "c" in self.has else []
        return self.pick(found)

    def cut(self) -> str:
        """A slice, and the same one shifted."""
        i, j = self.pick(self.indices), self.pick(self.indices)
        return self.pick((":", "1:-1", ":-1", "1:", f":{i}", f"{i}:", f"{i} + 1:", f"{i}:{i} + 2", f"{i} - 1:{i} + 2",
                     "::2", "::-1",
                          f"{j}:{i}", f"{i}::-1", f"max({i} - 1, 0):{i} + 1", f":{i} + 1", "2:", ":-2"))  # fmt: skip

    def vector(self, cut: str) -> str:
        """What broadcasts to a slice, mostly."""
        i, j = self.pick(self.indices), self.pick(self.indices)
        found = [f"{w}[{cut}]" for w in (*self.of(VECTORS), "x")] * 2
        found += [f"{w}[{i}, {cut}]" for w in (*self.of(MATRICES), "A")]
        found += [f"{w}[{cut}, {j}]" for w in (*self.of(MATRICES), "A")]
        found += [self.value(1), f"np.sin({w}[{cut}])" if (w := self.pick((*self.of(VECTORS), "x"))) else "x",
                  f"{self.pick((*self.of(VECTORS), 'x'))}[{self.cut()}]"]  # fmt: skip
        if cut == "1:-1":
            w = self.pick((*self.of(VECTORS), "x"))
            found += [f"({w}[:-2] + {w}[2:])", f"({w}[2:] - 2*{w}[1:-1] + {w}[:-2])"] * 3
        return self.pick(found)

    def leaf(self) -> str:
        i, j = self.pick(self.indices), self.pick(self.indices)
        w, W = self.pick((*self.of(VECTORS), "x")), self.pick((*self.of(MATRICES), "A"))
        found = ["p", "0.3", f"x[{self.place()}]", f"A[{self.place()}, {self.place()}]", f"0.1*{i}", *self.of(NUMBERS)]
        found += [f"{w}[{self.place()}]"] * 4 + [f"{W}[{self.place()}, {self.place()}]"] * 4
        found += [f"{W}[{i}, :{j}] @ {W}[:{j}, {self.place()}]", f"{W}[{i}, {j}:] @ {w}[{j}:]", f"np.sum({w}[{self.cut()}])",
                  f"{W}[{i}] @ {W}[{j}]", f"np.dot({W}[{i}, :{i}], {w}[:{i}])", f"np.sum({W}[{self.cut()}, {j}]*{w}[{i}])",
                  f"np.max({w}[{self.cut()}])", f"{w}[{self.cut()}].mean()", f"mean({w}, {i})",
                  f"np.sum({w}[order[:3]])", f"sum({w}[{j}] for {j} in range(n))", f"some({w}[{i}])"]  # fmt: skip
        found += [f"0.1*{n}" for n in ("m",) if n in self.has] + [f"0.1*c[{i}]" for n in ("c",) if n in self.has]
        found += ["t[-1]", "t[0]"] if "t" in self.has else []
        found += ["S.a", "S.b", "S.step(0.2)"] if "S" in self.has else []
        found += ["L[0][0]", f"L[{i} % 2][1]", "L[1][0]"] if "L" in self.has else []
        found += ["d['a']", "d['b']"] if "d" in self.has else []
        return self.pick(found)

    def value(self, depth: int = 2) -> str:
        if depth == 0:
            return self.leaf()
        a, b = self.value(depth - 1), self.value(depth - 1)
        return self.pick((f"({a} + {b})", f"({a} - {b})", f"0.5*{a}*{b}", f"np.sin({a})", f"{a}/(2 + {b}*{b})", a, a,
                     f"np.tanh({a})",
                          f"math.cos({a})", f"abs({a})", f"max({a}, {b})", f"({a} if {self.test()} else {b})",
                          f"np.where({a} > 0.3, {a}, {b})", f"float({a})"))  # fmt: skip

    def test(self) -> str:
        i, j = self.pick(self.indices), self.pick(self.indices)
        found = [f"{i} == 0", f"{i} % 2 == 0", f"{i} == {j}", f"{i} > {j}", f"{self.leaf()} > 0.3", f"{i} < n - 2",
                 f"{self.leaf()} < {self.leaf()}", f"{i} == n - 1", f"{i} and {self.leaf()} > 0",
                 f"{i} > 2 or {j} == 1"]  # fmt: skip
        found += ["flag"] if "flag" in self.has else []
        found += ["m > 3", "m % 2"] if "m" in self.has else []
        return self.pick(found)

    def write(self) -> str:
        i, j = self.pick(self.indices), self.pick(self.indices)
        op = self.pick(("=", "=", "+=", "+=", "-=", "*="))
        found = []
        for w in self.of(VECTORS):
            cut = self.cut()
            found += [f"{w}[{self.place()}] {op} {self.value()}"] * 4
            found += [f"{w}[{cut}] {op} {self.pick(('', '0.5*', '0.1*'))}{self.vector(cut)}"] * 4
            found += [f"{w}[1:-1] {op} 0.3*({w}[:-2] + {w}[2:])", f"{w} {op} {self.value(1)}", f"relax({w}, {i})",
                      f"{w}[{w} > 0.4] {op} {self.value(0)}", f"{w}[order] {op} x", f"np.add.at({w}, again, 0.1*x)",
                      f"{w}[order[{i}]] {op} {self.value(1)}", f"{w}[{i}], {w}[{j}] = {w}[{j}], {w}[{i}]",
                      f"{w}[:{i}] += 0.3*np.flip({w}[:{i}])", f"{w} = {w} + 0.1*{self.value(1)}",
                      f"{w}[:] = {self.vector(':')}",
                      f"w = {w}[{i}:]; w {op} 0.3", f"w = {w}[{self.cut()}]; w[0] {op} {self.value(0)}",
                      f"{w}[{i} - 1:{i} + 2] {op} {self.pick(('x', *self.of(VECTORS)))}[{i} - 1:{i} + 2]",
                      f"np.multiply({w}, 0.9, out={w})"]  # fmt: skip
        for W in self.of(MATRICES):
            cut = self.cut()
            V = self.pick((*self.of(MATRICES), "A"))
            found += [f"{W}[{self.place()}, {self.place()}] {op} {self.value()}"] * 4
            found += [f"{W}[{i}, {cut}] {op} 0.4*{self.vector(cut)}", f"{W}[{cut}, {j}] {op} 0.4*{self.vector(cut)}",
                      f"{W}[{i}] {op} 0.3*{V}[{j}]", f"{W}[:, {i}] {op} 0.3*{V}[:, {j}]", f"{W}[{i}][{j}] {op} {self.value(1)}",
                      f"{W}[{i} + 1:, {i}] /= 2 + {W}[{i}, {i}]**2",
                      f"{W}[{i} + 1:, {j}:] -= 0.1*np.outer({W}[{i} + 1:, {i}], {W}[{i}, {j}:])",
                      f"{W}[1:-1, 1:-1] {op} 0.2*({V}[:-2, 1:-1] + {V}[2:, 1:-1] + {V}[1:-1, :-2])",
                      f"{W}[{i}, 1:-1] {op} 0.3*({V}[{i}, :-2] + {V}[{i} - 1, 2:])", f"{W}[{i}, {i}:] {op} 0.5*{V}[{i}, {i}:]",
                      f"{W} {op} 0.1*{V}", f"row = {W}[{i}]; row[{j}] {op} {self.value(0)}",
                      f"{W}[:] = np.minimum({W}, np.add.outer({V}[:, {i}], {V}[{i}, :]))",
                      f"{W}[:{i}, {i}] {op} 0.2*{V}[{i}, :{i}]", f"{W}[order[{i}]] {op} 0.3*{V}[{j}]", f"{W}[{W} > 0.5] *= 0.7",
                      f"{W} = 0.5*({W} + {V})", f"{W}[{i}, :] = {self.vector(':')}"]  # fmt: skip
        if "u" in self.has and "v" in self.has:
            found += ["u, v = v, u", "u, v = v, u.copy()", "v = u", "u = v[:]"]
        if "M" in self.has and "K" in self.has:
            found += ["M, K = K, M", "K = M.copy()"]
        found += (
            [f"m {op} 1", "m = m + 1", f"m = {i}", "m = (m + 2) % n", "m = first(u, 0.3)"]
            if "m" in self.has and "u" in self.has
            else []
        )
        found += [f"{n} {op} {self.value()}" for n in self.of(NUMBERS)] * 2
        found += [f"t.append({self.value(1)})", f"t[0] = {self.value(1)}"] if "t" in self.has else []
        found += [f"c[{i}] = {j}", f"c[{i}] += 1", f"c[{j}] = c[{i}] + 1"] if "c" in self.has else []
        found += [f"flag = {self.test()}", "flag = not flag"] if "flag" in self.has else []
        found += (
            [f"S.a = {self.value(1)}", f"S.b += 0.1*{self.value(0)}", "S = State(S.b, S.a)", f"S.step({self.value(0)})"]
            if "S" in self.has
            else []
        )
        found += [f"L[0][1] = {self.value(1)}", f"L[{i} % 2][0] += {self.value(0)}", "L[0] = L[1]"] if "L" in self.has else []
        found += [f"d['a'] = {self.value(1)}", "d['a'], d['b'] = d['b'], 0.5*d['a']"] if "d" in self.has else []
        return self.pick(found) if found else "pass"

    def statements(self, depth: int) -> list[str]:
        found: list[str] = []
        for _ in range(self.source.randint(1, 3)):
            found += self.statement(depth)
        return found

    def statement(self, depth: int) -> list[str]:
        chance = self.source.random()
        if chance < 0.62 or not depth:
            return [self.write()]
        if chance < 0.82:
            jump = (
                [self.pick(("continue", "break", "break", "return s" if "s" in self.has else "break"))]
                if self.chance(0.3)
                else []
            )
            found = [f"if {self.test()}:", *("    " + line for line in (*self.statements(depth - 1), *jump))]
            if self.chance(0.4):
                found += ["else:", *("    " + line for line in self.statements(depth - 1))]
            return found
        return self.loop() if len(self.indices) < 3 else [self.write()]

    def loop(self) -> list[str]:
        i = "ijk"[len(self.indices)]
        heads = [f"for {i} in {self.pick(SPANS)}:"] * 4
        for outer in self.indices:
            heads += [f"for {i} in {self.pick(WITHIN).format(i=outer)}:"] * 3
        whole = self.pick((*self.of(VECTORS), "x"))
        heads += [f"for {i}, e in enumerate({whole}):", f"for {i} in order:", f"for {i}, (e, g) in enumerate(zip(x, A)):"]
        head = self.pick(heads)
        self.indices.append(i)
        count = self.chance(0.12)
        lines = self.statements(2)
        self.indices.pop()
        if count:
            lines = [
                f"{i} = 0",
                f"while {self.pick((f'{i} < n - 1', f'{i} < n - 1 and p < 5'))}:",
                *("    " + s for s in lines),
                f"    {i} += 1",
            ]
            return lines if not any("continue" in line for line in lines) else [head, *lines[2:-1]]
        end = ["else:", "    " + self.write()] if self.indices and self.chance(0.06) else []
        return [head, *("    " + line for line in lines), *end]

    def text(self) -> str:
        lines = ["n = len(x)"]
        for _ in range(self.source.randint(2, 5)):
            line = self.pick(START)
            name = line.split(" =")[0]
            if made("\n    ".join(["def f(x, A, p):", *lines, line, "return 0"])):
                lines.append(line)
                self.has.append(name)
        for _ in range(self.source.randint(1, 2)):
            for _ in range(40):
                more = self.loop()
                if len(more) < 25 and made("\n    ".join(["def f(x, A, p):", *lines, *more, "return 0"])):
                    lines += more
                    break
        ends = [f"np.sum({w}*{self.pick(('1', 'x', 'np.cos(' + w + ')'))})" for w in self.of(VECTORS)]
        ends += [f"np.sum(np.sin({W}))" for W in self.of(MATRICES)] + self.of(NUMBERS) + [f"0.1*{n}" for n in self.of(("m",))]
        ends += [f"{e}" for n, e in (("t", "sum(t)"), ("c", "0.1*c.sum()"), ("flag", "0.1*flag"), ("S", "S.a + 0.3*S.b"),
                     ("d", "d['a']"),
                                     ("L", "L[0][0] + 0.5*L[1][1] + 0.3*L[0][1]")) if n in self.has]  # fmt: skip
        total = " + ".join(dict.fromkeys(ends)) or "p"
        return "\n    ".join(["def f(x, A, p):", *lines, f"return {total}"])


def made(text: str) -> Callable[..., Any] | None:
    """The function of a program that NumPy takes, whose source is at hand."""
    whole = HELPERS + text + "\n"
    name = f"<nests {hash(whole)}>"
    linecache.cache[name] = (len(whole), None, whole.splitlines(True), name)
    space: dict[str, Any] = {
        "math": math,
        "np": np,
        "dataclass": dataclass,
        "order": ORDER,
        "again": AGAIN,
        "__name__": "nests",
    }
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", np.exceptions.ComplexWarning)
            exec(compile(whole, name, "exec"), space)
            for seed in (0, 1):
                x, A, p = point(random.Random(seed))
                if not np.all(np.abs(space["f"](x, A, p)) < 1e6):
                    return None
    except Exception:
        return None
    return space["f"]  # type: ignore[no-any-return]


def point(source: random.Random) -> tuple[np.ndarray, np.ndarray, float]:
    """Arguments."""
    x = np.array([source.uniform(0.1, 0.9) for _ in range(N)])
    return x, np.array([[source.uniform(-0.9, 0.9) for _ in range(N)] for _ in range(N)]), source.uniform(0.2, 0.8)


def real(f: Callable[..., Any]) -> Callable[..., Any]:
    """The real part of what a function gives."""

    def g(x: Any, A: Any, p: Any) -> Any:
        return np.real(f(x, A, p))

    return g


def differences(f: Callable[..., Any], args: Any) -> np.ndarray | None:
    """Central differences by all numbers; None where steps disagree, as at a kink or a jump."""
    flat = np.concatenate([np.ravel(a) for a in args])
    found = []
    for step in (1e-5, 3e-6):
        row = []
        for k in range(flat.size):
            ends = []
            for sign in (1, -1):
                moved = flat.copy()
                moved[k] += sign * step
                ends.append(f(moved[:N], moved[N:-1].reshape(N, N), float(moved[-1])))
            row.append((ends[0] - ends[1]) / (2 * step))
        found.append(np.array(row, dtype=float))
    return found[1] if np.allclose(*found, rtol=1e-4, atol=1e-5) else None


def flat(found: Any) -> np.ndarray:
    """Gradients as one vector."""
    return np.concatenate([np.ravel(np.asarray(g)) for g in found])


def close(a: Any, b: Any, scale: float = 1.0) -> bool:
    return np.allclose(a, b, rtol=1e-8 * scale, atol=1e-10 * scale * (1 + np.max(np.abs(b), initial=0.0)), equal_nan=True)


def trial(source: random.Random) -> Verdict:
    """One program."""
    text = Writer(source).text()
    plain = made(text)
    if plain is None:
        return Verdict("refused", "no program")
    f = real(plain)
    args, other = point(source), point(source)
    try:
        f(*args)
    except Exception as error:
        return Verdict("refused", f"the function itself raises {error}")
    paths = None if source.random() < 0.3 else "guard"
    options: dict[str, Any] = {"paths": paths, "loops": "keep"}
    scalar = source.choice((None, False))
    given = [a.tolist() if isinstance(a, np.ndarray) else a for a in args]
    told = f"{text}\nx, A, p = {given!r}\noptions {options}, scalarize={scalar}"
    first: dict[str, Any] = {}
    for loops in ("unroll", "keep"):
        own = scalar if loops == "keep" else None
        df = sd.value_and_grad(f, argnums=(0, 1, 2), paths=paths, loops=loops, scalarize=own)
        try:
            graph = df.graph(*args)
            value, *slopes = graph(*args)
            first[loops] = graph, (value, tuple(slopes))
        except sd.SymdiffError as error:
            first[loops] = None, error
    out, kept = first["unroll"][1], first["keep"][1]
    if isinstance(out, Exception):
        if not isinstance(kept, Exception):
            value = f(*args)
            if not close(kept[0], value):
                raise Wrong(f"{told}\nis {value}, with kept loops {kept[0]}; written out: {out}")
        return Verdict("refused", str(out))
    if isinstance(kept, Exception):
        if isinstance(kept, (sd.BackendError, sd.RuleError)):
            return Verdict("refused", str(kept))
        raise Wrong(f"{told}\nkept loops: {type(kept).__name__}: {kept}; written out it is {out[0]}")
    graph = first["keep"][0]
    notes = graph.notes.get("loops") or {}
    told += f"\nloops {notes}"
    value = f(*args)
    for name, found in (("kept", kept), ("written out", out)):
        if not close(found[0], value):
            raise Wrong(f"{told}\nis {value}, {name} {found[0]}")
    kept_slope, out_slope = flat(kept[1]), flat(out[1])
    expected = differences(f, args)
    if not close(kept_slope, out_slope, 100.0):
        which = "?" if expected is None else "kept" if np.allclose(out_slope, expected, rtol=1e-3, atol=1e-4) else "written out"
        if expected is not None or not np.allclose(kept_slope, out_slope, rtol=1e-5, atol=1e-6):
            raise Wrong(
                f"{told}\n{which} wrong: derivatives kept {kept_slope}\nwritten out {out_slope}\ndifferences {expected}"
            )
    if expected is not None and not np.allclose(kept_slope, expected, rtol=1e-3, atol=1e-4 * (1 + np.max(np.abs(expected)))):
        raise Wrong(f"{told}\nderivatives kept and written out {kept_slope}\ndifferences {expected}")
    if paths is None and graph.notes.get("branches") is None and not close(again := graph(*other)[0], f(*other)):
        raise Wrong(f"{told}\nat another point, {other!r}, is {f(*other)}, with kept loops {again}")
    if "kept" not in notes.values():
        return Verdict("refused", f"{text}\n{notes}")
    long = len(first["unroll"][0].bindings) > LONG
    ways = source.sample(sorted(WAYS), 2)
    for way in ways if not long else [w for w in ways if w not in ("hvp", "vmap")]:
        try:
            WAYS[way](f, args, options | {"scalarize": scalar}, kept, source)
        except Wrong as error:
            raise Wrong(f"{told}\n{way}: {error}") from None
        except sd.SymdiffError:
            continue
    return RIGHT


def way_file(target: str) -> Callable[..., None]:
    def way(f: Any, args: Any, options: Any, kept: Any, source: random.Random) -> None:
        df = sd.value_and_grad(f, argnums=(0, 1, 2), **options)
        text = df.source(*args, target=target)
        space: dict[str, Any] = {"__name__": "file"}
        code = str(text)
        exec(compile(code, f"<{target} file>", "exec"), space)
        found = space["g_value_and_grad"](
            *(a.tolist() if isinstance(a, np.ndarray) and target == "python" else a for a in args)
        )
        if not close(found[0], kept[0]) or not close(flat(found[1]), flat(kept[1]), 100.0):
            raise Wrong(f"the file gives {found}, the call {kept}\n{code}")

    return way


def way_native(f: Any, args: Any, options: Any, kept: Any, source: random.Random) -> None:
    df = sd.value_and_grad(f, argnums=(0, 1, 2), **options)
    found, other = df(*args), point(source)
    if not close(found[0], kept[0]) or not close(flat(found[1]), flat(kept[1]), 100.0):
        raise Wrong(f"machine code gives {found}, the graph {kept}")
    again = df(*other)[0]
    if not close(again, f(*other)):
        raise Wrong(f"at another point, {other!r}, is {f(*other)}, with kept loops {again}")


def way_c(f: Any, args: Any, options: Any, kept: Any, source: random.Random) -> None:
    if shutil.which("gcc") is None:
        return
    df = sd.value_and_grad(f, argnums=(0, 1, 2), **options)
    text = df.source(*args, target="c")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        (path / "f.c").write_text(str(text))
        done = subprocess.run(
            ["gcc", "-O1", "-shared", "-fPIC", "-o", path / "f.so", path / "f.c", "-lm"], capture_output=True, text=True
        )
        if done.returncode:
            raise Wrong(f"gcc: {done.stderr[:2000]}\n{text}")
        library = ctypes.CDLL(str(path / "f.so"))
        function = library.g_value_and_grad
        x, A, p = args
        value, outs = ctypes.c_double(), (np.full(N, 9.0), np.full((N, N), 9.0), ctypes.c_double())
        given = [x.ctypes.data_as(ctypes.c_void_p), np.ascontiguousarray(A).ctypes.data_as(ctypes.c_void_p), ctypes.c_double(p)]
        results = [
            ctypes.byref(value),
            outs[0].ctypes.data_as(ctypes.c_void_p),
            outs[1].ctypes.data_as(ctypes.c_void_p),
            ctypes.byref(outs[2]),
        ]
        function(*given, *results)
        found = (value.value, (outs[0], outs[1], outs[2].value))
        if not close(found[0], kept[0]) or not close(flat(found[1]), flat(kept[1]), 100.0):
            raise Wrong(f"the C file gives {found}, the call {kept}\n{text}")


def direction(source: random.Random) -> tuple[np.ndarray, np.ndarray, float]:
    rng = np.random.default_rng(source.randrange(10**6))
    return rng.uniform(-1, 1, N), rng.uniform(-1, 1, (N, N)), float(rng.uniform(-1, 1))


def way_jvp(f: Any, args: Any, options: Any, kept: Any, source: random.Random) -> None:
    v = direction(source)
    _, dot = sd.jvp(f, argnums=(0, 1, 2), **options)(*args, v)
    expected = float(flat(kept[1]) @ flat(v))
    if not np.allclose(dot, expected, rtol=1e-7, atol=1e-8 * (1 + np.abs(flat(kept[1])).sum())):
        raise Wrong(f"jvp along {v} is {dot}, the gradient gives {expected}")


def way_hvp(f: Any, args: Any, options: Any, kept: Any, source: random.Random) -> None:
    v = direction(source)
    found = flat(sd.hvp(f, argnums=(0, 1, 2), **options)(*args, v))
    expected = flat(sd.hvp(f, argnums=(0, 1, 2), paths=options["paths"], loops="unroll")(*args, v))
    if not np.allclose(found, expected, rtol=1e-6, atol=1e-7 * (1 + np.max(np.abs(expected)))):
        raise Wrong(f"hvp along {v} is {found}, with loops written out {expected}")


def way_vmap(f: Any, args: Any, options: Any, kept: Any, source: random.Random) -> None:
    points = [args, *(point(source) for _ in range(3))]
    stacked = [np.stack([np.asarray(q[k]) for q in points]) for k in range(3)]
    df = sd.grad(f, argnums=(0, 1, 2), **options)
    found = sd.vmap(df)(*stacked)
    for k, q in enumerate(points):
        try:
            expected = flat(df(*q))
        except sd.SymdiffError:
            return
        one = flat([part[k] for part in found])
        if not np.allclose(one, expected, rtol=1e-7, atol=1e-8 * (1 + np.max(np.abs(expected)))):
            raise Wrong(f"vmap at {q} gives {one}, the call {expected}")


WAYS: dict[str, Callable[..., None]] = {
    "native": way_native, "python": way_file("python"), "numpy": way_file("numpy"), "c": way_c, "jvp": way_jvp, "hvp": way_hvp,
    "vmap": way_vmap,
}  # fmt: skip
