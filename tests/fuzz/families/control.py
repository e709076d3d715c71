"""Programs with try, with, finally and remembered values around operations that raise, against plain runs and differences."""

import builtins
import cmath
import contextlib
import linecache
import math
import random
import statistics
from typing import Any

import numpy as np

import symdiff as sd

from ..harness import RIGHT, Verdict, Wrong

RISKY = ("math.log({})", "math.sqrt({})", "math.exp(300*{})", "1/{}", "math.asin({})", "math.pow({}, -1.5)", "{}**-2.0",
         "2.0 // {}", "[1.0, 2.0, 4.0][int({})]", "math.log({}, 2.0)", "math.atanh({})",
         "{}/({} - 1.0)", "math.log1p({})", "10.0**(200*{})",
         "math.fmod({}, {} - 1.0)", "{{1: 2.0}}[int({})]*x", "math.acosh({})",
         "float(np.log({}))", "int(1.5*{})*x", "cmath.log({}).real", "cmath.atanh({}).real", "cmath.exp(400*{}).real",
         "statistics.geometric_mean([{}, 1.0])", "statistics.harmonic_mean([{}, 1.0])", "statistics.variance([{}])",
         "np.linalg.cholesky(np.array([[2.0, {}], [{}, x]]))[1, 1]")  # fmt: skip
REFUSED = ("float(f'{{{}:.3f}}')*x", "{{x: 2.0}}[{}]*x", "hash({})*x", "decimal({})*x", "round({}, 2).hex() and x")
KINDS = ("ValueError", "ZeroDivisionError", "OverflowError", "ArithmeticError", "(ValueError, ArithmeticError)", "Exception",
         "", "IndexError", "LookupError", "(KeyError, ValueError, OverflowError)",
         "np.linalg.LinAlgError", "statistics.StatisticsError")  # fmt: skip
POINTS = (-2.0, -1.0, -0.5, 0.0, 0.0, 0.5, 1.0, 1.0, 1.5, 2.0, 3.0, 40.0)
OWN = ("KeyError", "IndexError", "RuntimeError")  # exceptions that are no arithmetic


class Writer:
    """Lines of a program of x and y; t is what it works on."""

    def __init__(self, source: random.Random) -> None:
        self.source = source
        self.lines: list[str] = []
        self.depth = 0

    def put(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    def text(self) -> str:
        self.put(1, "t = x*1.0")
        for _ in range(self.source.randint(1, 3)):
            self.statement(1)
        self.put(1, "return t + 0.5*x*y")
        return "\n".join(["def f(x, y):", *self.lines])

    def smooth(self) -> str:
        return self.source.choice(["x", "y", "x*y", "t", "(t + y)", "x*x", "(x - 1.0)", "(2.0 - y)", "math.sin(t)", "3.0*x"])

    def risky(self) -> str:
        form = self.source.choice(RISKY + RISKY + REFUSED)
        return form.format(*[self.smooth()] * form.count("{}"))

    def change(self, indent: int) -> None:
        self.put(indent, f"t = {self.source.choice(['t*0.5 + ', '', ''])}{self.smooth()}")

    def risk(self, indent: int) -> None:
        source = self.source
        kind = source.choice(["plain", "plain", "plain", "raise", "nested", "helper", "loop"])
        if kind == "raise":
            self.put(indent, f"if {self.smooth()} {source.choice(['<', '>=', '=='])} {source.choice(POINTS)}:")
            self.put(indent + 1, f"raise {source.choice(['ValueError', 'ZeroDivisionError', 'KeyError'])}('here')")
        elif kind == "nested" and self.depth < 2:
            self.statement(indent)
        elif kind == "helper":
            self.put(indent, f"t = (lambda x: {self.risky()})({self.smooth()})")
        elif kind == "loop":
            self.put(indent, f"for v in (x, {self.smooth()}):")
            self.put(indent + 1, f"t = t + v*{self.risky()}")
            return
        self.put(indent, f"t = {self.risky()}")

    def statement(self, indent: int) -> None:
        source = self.source
        self.depth += 1
        kind = source.choice(["try", "try", "try", "finally", "suppress", "equal", "equal", "memo", "manager"])
        if kind == "equal":
            c = source.choice(POINTS)
            name = source.choice("xy")
            self.put(
                indent, f"if {name} {source.choice(['== ', 'in (7.0, '])}{c}".replace("(7.0, " + str(c), f"(7.0, {c})") + ":"
            )
            self.put(indent + 1, f"t = {source.choice([str(c * c), f'{c}*{name}', self.smooth(), '0.25'])}")
            self.put(indent, "else:")
            self.put(indent + 1, f"t = {source.choice([f'{name}*{name}', f'math.sin({name})', self.smooth()])}")
        elif kind == "memo":
            self.put(indent, f"t = remembered({source.choice('xy')})")
        elif kind in ("suppress", "manager"):
            named = source.choice(["ValueError", "ArithmeticError", "Exception", "ValueError, ZeroDivisionError"])
            self.put(indent, "with " + (f"contextlib.suppress({named}):" if kind == "suppress" else "quiet():"))
            self.risk(indent + 1)
        else:
            self.put(indent, "try:")
            self.risk(indent + 1)
            if kind == "try" or source.random() < 0.5:
                named = source.choice(KINDS)
                self.put(indent, f"except {named}:" if named else "except:")
                self.change(indent + 1)
                if source.random() < 0.2:
                    self.put(indent + 1, "return t")
                if source.random() < 0.2:
                    self.put(indent, "else:")
                    self.change(indent + 1)
                last = source.random() < 0.1
            else:
                last = True
            if last:
                self.put(indent, "finally:")
                self.change(indent + 1)
                if source.random() < 0.4:
                    self.put(indent + 1, "return t*y")
        self.depth -= 1


@contextlib.contextmanager
def quiet() -> Any:
    """Keeps arithmetic errors to itself."""
    try:
        yield
    except ArithmeticError:
        pass


def remembering(key: float) -> Any:
    """A function that keeps a value that it had, and gives it back at its argument."""

    def remembered(x: Any) -> Any:
        if x == key:
            return value
        return math.sin(x) * x + math.exp(-x)

    value = math.sin(key) * key + math.exp(-key)
    return remembered


def defined(text: str, key: float) -> Any:
    name = f"<control {hash(text)} {key}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    free = {
        "math": math,
        "np": np,
        "cmath": cmath,
        "statistics": statistics,
        "contextlib": contextlib,
        "quiet": quiet,
        "remembered": remembering(key),
    }
    exec(compile(text, name, "exec"), free | {"decimal": __import__("decimal").Decimal})
    namespace = free | {"decimal": __import__("decimal").Decimal, "__builtins__": builtins}
    exec(compile(text, name, "exec"), namespace)
    return namespace["f"]


def outcome(f: Any, *args: Any) -> Any:
    try:
        with np.errstate(all="ignore"):
            found = f(*args)
    except sd.SymdiffError:
        raise
    except Exception as error:
        return type(error).__name__
    return complex(found) if isinstance(found, complex) else float(found)


def trial(source: random.Random) -> Verdict:
    key = source.choice(POINTS)
    text = Writer(source).text()
    f = defined(text, key)
    option = source.choice([None, None, "guard"])
    gradient = sd.value_and_grad(f, (0, 1), paths=option)
    refused = ""
    for _ in range(5):
        at = [source.choice(POINTS), source.choice(POINTS)]
        wanted = outcome(f, *at)
        slopes = [slope(f, at, place) for place in (0, 1)]
        try:
            with np.errstate(all="ignore"):
                found = gradient(*at)
        except sd.SymdiffError as error:
            refused = str(error)
            continue
        except Exception as error:
            if type(error).__name__ != wanted and not (isinstance(wanted, str) and wanted not in OWN):
                raise Wrong(f"{text}\nat {at}: {error!r}, {wanted} wanted") from None
            continue
        if isinstance(wanted, (str, complex)):
            if wanted in OWN:
                raise Wrong(f"{text}\nat {at}: {found}, {wanted} wanted")
            continue  # arithmetic that nobody handles is IEEE's, and what comes after it may raise
        if not np.isclose(found[0], wanted, rtol=1e-9, atol=1e-9, equal_nan=True):
            raise Wrong(f"{text}\nat {at} (key {key}): value {found[0]}, {wanted} wanted")
        for own, expected, name in zip(found[1], slopes, "xy", strict=True):
            if expected is not None and not np.isclose(own, expected, rtol=1e-4, atol=1e-4):
                raise Wrong(f"{text}\nat {at} (key {key}): slope by {name} {own}, {expected} wanted")
    return Verdict("refused", refused) if refused else RIGHT


def slope(f: Any, at: list[float], place: int) -> float | None:
    """The slope along an axis where f is differentiable, by differences; None where it is not, or they cannot tell."""
    beside = [(1.0, 0.7) if place == 0 else (0.7, 1.0), (1.0, -0.7) if place == 0 else (-0.7, 1.0)]
    along = [_slope(f, at, step) for step in (*beside, (1.0, 0.0) if place == 0 else (0.0, 1.0))]
    if None in along or abs((along[0] + along[1]) / 2 - along[2]) > 1e-3 * (1 + abs(along[2])):
        return None  # the axis alone, or what lies beside it, goes another way
    return along[2]


def _slope(f: Any, at: list[float], direction: tuple[float, float]) -> float | None:
    def moved(step: float) -> Any:
        return outcome(f, *(a + step * d for a, d in zip(at, direction, strict=True)))

    values = [moved(k * 1e-4) for k in (-2, -1, 0, 1, 2)]
    if not all(isinstance(v, float) and math.isfinite(v) and abs(v) < 1e4 for v in values):
        return None
    a, b, c, d, e = values
    sides = [(3 * c - 4 * b + a) / 2e-4, (4 * d - 3 * c - e) / 2e-4]
    middle = (d - b) / 2e-4
    if max(abs(s - middle) for s in sides) > 1e-4 * (1 + abs(middle)):
        return None
    return (8 * (d - b) - (e - a)) / 12e-4
