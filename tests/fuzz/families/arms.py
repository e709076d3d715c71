"""Piecewise code whose arms are singular where they are not taken, against the derivatives of the arms that are, by jets."""

import itertools
import linecache
import math
import random

import numpy as np

import symdiff as sd

from ..harness import RIGHT, Verdict, Wrong
from ..jets import Jet, functions

_programs = itertools.count()
POINTS = (-2.0, -1.0, -0.5, 0.0, 0.0, 0.04045, 0.5, 1.0, 2.0)
POWERS = ("2.4", "(1/2.4)", "0.5", "-0.5", "1.5", "(1/3)", "-2", "0.42", "3")


class Writer:
    """Lines of a program whose arms have conditions that keep the singular ones apart from the others."""

    def __init__(self, source: random.Random) -> None:
        self.source = source
        self.names = ["x", "y", "z"]
        self.lines: list[str] = []
        self.count = 0

    def text(self) -> str:
        for _ in range(self.source.randint(1, 5)):
            self.statement(1)
        total = " + ".join(self.smooth() for _ in range(self.source.randint(1, 3)))
        return "\n".join(["def f(p):", "    x, y, z = p[0], p[1], p[2]", *self.lines, f"    return {total}"])

    def put(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    def name(self) -> str:
        return self.source.choice(self.names)

    def smooth(self) -> str:
        a, b = self.name(), self.name()
        return self.source.choice(
            [a, f"{a}*{b}", f"({a} + 2*{b})", f"sin({a})", f"({a} - {b})*{a}", f"exp(-{a}*{a})", f"3*{a}"]
        )

    def singular(self, u: str) -> str:
        """What is regular for u > 0 only."""
        w, power = self.smooth(), self.source.choice(POWERS)
        forms = [f"({u})**{power}", f"log({u})", f"sqrt({u})", f"1/({u})", f"{w}/({u})", f"log({u})/({u})", f"atan({w}/({u}))"]
        forms += [f"exp(-1/({u}))", f"atan2({w}, {u})", f"{w}*({u})**{power}", f"sqrt({u})*{w}/({u})", f"({w}/({u}))**2"]
        forms += [f"(({u} + 0.055)/1.055)**{power}", f"sin(sqrt({u}))/({u})", f"({u})*log({u})", f"hypot({w}, sqrt({u}))"]
        return self.source.choice(forms)

    def statement(self, indent: int) -> None:
        source = self.source
        self.count += 1
        t, u = f"t{self.count}", self.smooth()
        kind = source.choice(["if", "if", "where", "chroma", "total", "grey", "nested", "reuse"])
        at = source.choice(["0", "0", "0.04045", "0.5"])
        if kind == "where":
            self.put(indent, f"{t} = where({u} > {at}, {self.singular(u)}, {self.smooth()})")
        elif kind == "chroma":
            v = self.smooth()
            self.put(indent, f"c{t} = {source.choice([f'hypot({u}, {v})', f'sqrt(({u})**2 + ({v})**2)'])}")
            self.put(indent, f"if c{t} {source.choice(['== 0', '<= 1e-9', '< 0.5'])}:")
            self.put(indent + 1, f"{t} = {self.smooth()}")
            self.put(indent, "else:")
            self.put(indent + 1, f"{t} = {source.choice([f'{v}/c{t}', f'atan2({u}, {v})', f'c{t}**0.42', f'log(c{t})*{u}'])}")
        elif kind == "total":
            self.put(indent, f"s{t} = {u} + {self.name()}")
            self.put(indent, f"if s{t} {source.choice(['!=', '>'])} 0:")
            self.put(indent + 1, f"{t} = {self.name()}/s{t}")
            self.put(indent, "else:")
            self.put(indent + 1, f"{t} = {self.smooth()}")
        elif kind == "grey":
            self.grey(indent, t, u)
        else:
            self.put(indent, f"u{t} = {u}")
            self.put(indent, f"if u{t} > {at}:")
            self.put(indent + 1, f"{t} = {self.singular(f'u{t}')}")
            if kind == "reuse":
                self.put(indent + 1, f"{t} = {t}*{self.singular(f'u{t}')} + {self.smooth()}")
            if kind == "nested":
                self.put(indent, f"elif u{t} < -1:")
                self.put(indent + 1, f"{t} = {self.singular(f'-u{t}')}")
            self.put(indent, "else:")
            self.put(indent + 1, f"{t} = {self.smooth()}")
        self.names.append(t)

    def grey(self, indent: int, t: str, u: str) -> None:
        """A value of its own where something is zero, which the other arm has too, beyond a pole: as u/(1 + 3/u) at 0."""
        c = f"c{t}"
        self.put(indent, f"{c} = {self.source.choice(['{0}', '({0})**2', '(({0})**2)**0.42', 'sqrt(({0})**2)']).format(u)}")
        forms = ["{w}/(3.0/{c} + 0.5)", "{w}*exp(-1/{c})", "{w}/(1/{c})**2", "{c}/(1 + {w}/{c})", "{w}/(1 + ({w}/{c})**2)"]
        beside = self.source.choice(forms).format(w=self.smooth(), c=c)
        arms = [f"{t} = {self.source.choice(['0.0', '0', f'{self.smooth()}*0'])}", f"{t} = {beside}"]
        is_zero = self.source.random() < 0.6
        self.put(indent, f"if {c} {'==' if is_zero else '!='} 0:")
        self.put(indent + 1, arms[not is_zero])
        self.put(indent, "else:")
        self.put(indent + 1, arms[is_zero])


def trial(source: random.Random) -> Verdict:
    text = Writer(source).text()
    module = source.choice([math, np])
    f, oracle = defined(text, plain(module)), defined(text, functions())
    calls = {"jvp": sd.jvp(f), "gradient": sd.value_and_grad(f), "forward": sd.jacobian(f), "hvp": sd.hvp(f)}
    order = source.choice(["jvp", "gradient", "gradient", "forward", "hvp", "hvp"])
    for _ in range(4):
        at = np.array([source.choice(POINTS) for _ in range(3)])
        direction = np.array([source.uniform(-1, 1) for _ in range(3)])
        with np.errstate(all="ignore"):
            try:
                wanted = oracle([Jet(float(a), float(d)) for a, d in zip(at, direction, strict=True)])
            except ArithmeticError:
                continue
            wanted = wanted if isinstance(wanted, Jet) else Jet(float(wanted))
            if not wanted.is_regular or wanted.kinked or wanted.size > 1e8:
                continue
            try:
                found = called(order, calls[order], at, direction)
            except sd.SymdiffError as error:
                return Verdict("refused", str(error))
        expected = wanted.second if order == "hvp" else wanted.first
        if not abs(found - expected) <= 1e-7 * (1 + wanted.size):
            raise Wrong(
                f"{text}\n{module.__name__}, {order} at {at.tolist()} along {direction.tolist()}: {found}, {expected} wanted"
            )
    return RIGHT


def called(order: str, call: object, at: np.ndarray, direction: np.ndarray) -> float:
    """The derivative along a direction, or the second one."""
    if order == "jvp":
        return float(call(at, direction)[1])
    if order == "hvp":
        return float(call(at, direction) @ direction)
    return float((call(at)[1] if order == "gradient" else call(at)) @ direction)


def plain(module: object) -> dict:
    """The names of a program: of one module, as far as this has them."""
    found = {n: getattr(module, n) for n in ("sin", "exp", "log", "sqrt", "hypot")} | {"where": np.where}
    return found | {n: getattr(module, n if hasattr(module, n) else n.replace("a", "arc", 1)) for n in ("atan", "atan2")}


def defined(text: str, names: dict) -> object:
    """The function of a text."""
    name = f"<arms {next(_programs)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    namespace = dict(names)
    exec(compile(text, name, "exec"), namespace)
    return namespace["f"]
