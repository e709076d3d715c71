"""Rules of functions that share names: functions that are defined again, lambdas, closures, methods, local ones; and rules as
text, with constants that are towers of powers.

A function with a rule has the slope that its rule says, and no other one has it; where the rule's body reads it from outside,
the slope that stands there at each call. A constant is that of an evaluation in 60
digits, or refused.
"""

import ast
import random

import mpmath
import numpy as np
from mpmath import mp

import symdiff as sd

from ..harness import RIGHT, Verdict, Wrong


def trial(source: random.Random) -> Verdict:
    return _constant(source) if source.random() < 0.3 else _functions(source)


# -- functions that share names


def _functions(source):
    lines, wanted = ["made, state = [], []", "def read(n): return state[n][0]"], []
    for _ in range(source.randint(2, 6)):
        kind, name, power = source.choice(_KINDS), source.choice(["h", "g"]), source.randint(2, 5)
        lines += _made(kind, name, power)
        rule, changing = None, False
        if source.random() < 0.5:
            rule = source.choice([-7.0, 0.25, 11.0])
            forms = ["body", "named", "pullback", "primitive", "text"]
            form, slope = source.choice(forms), _outside(source, len(wanted), rule)
            lines += _declared(form, name, str(rule) if form == "text" else slope)
            changing = form != "text" and slope != str(rule)
        lines.append(f"state.append([{rule}])")
        wanted.append((power, rule, changing))
    text = "\n".join(lines)
    space = {"__name__": "rules_of_a_program", "sd": sd, "np": np}
    exec(compile(text, "<rules>", "exec"), space)
    x = source.uniform(0.5, 2.0)
    for f, held, (power, rule, changing) in zip(space["made"], space["state"], wanted, strict=True):
        right = power * x ** (power - 1) if rule is None else rule
        asked = {
            "itself": sd.grad(f), "called": sd.grad(lambda x, f=f: f(x)), "twice": sd.grad(lambda x, f=f: 2.0 * f(x)),
            "vmap": lambda x, f=f: sd.vmap(sd.grad(lambda y: f(y)))(np.array([x]))[0],
        }  # fmt: skip
        how = source.choice(list(asked))
        try:
            found = float(asked[how](x))
        except sd.SymdiffError as error:
            return Verdict("refused", str(error))
        if not np.isclose(found, right * (2.0 if how == "twice" else 1.0), rtol=1e-12):
            raise Wrong(f"{text}\nslope of {f} ({how}) at {x}: {found}, {right} expected")
        if changing:
            held[0] = 5.5
            if not np.isclose(float(asked[how](x)), 11.0 if how == "twice" else 5.5, rtol=1e-12):
                raise Wrong(f"{text}\nslope of {f} ({how}) at {x}, 5.5 in the state: {float(asked[how](x))}")
    return RIGHT


def _outside(source, place, rule):
    """The rule's slope as text: a number, or what reads it from a list, itself or through a function."""
    return source.choice([str(rule), str(rule), f"state[{place}][0]", f"read({place})"])


_KINDS = ("def", "lambda", "local", "closure", "method", "wrapped")


def _made(kind, name, power):
    """Lines that make a function x**power and put it into the list `made`."""
    made = {
        "def": [f"def {name}(x): return x**{power}"],
        "lambda": [f"{name} = lambda x: x**{power}"],
        "local": ["def outer():", f"    def {name}(x): return x**{power}", f"    return {name}", f"{name} = outer()"],
        "closure": ["def maker(n):", f"    def {name}(x): return x**n", f"    return {name}", f"{name} = maker({power})"],
        "method": ["class Model:", f"    n = {power}", f"    def {name}(self, x): return x**self.n",
                   f"{name} = Model().{name}"],
        "wrapped": ["import functools", "def around(inner):", "    @functools.wraps(inner)",
                    "    def outside(x): return 1.0*inner(x)", "    return outside",
                    "@around", f"def {name}(x): return x**{power}"],
    }[kind]  # fmt: skip
    return [*made, f"made.append({name})"]


def _declared(form, name, rule):
    """Lines that declare a rule of the function that was made last."""
    if form == "text":
        return [f"sd.diffrule('{name}(x)', x='{rule} + 0*x')"]
    if form == "pullback":
        return [f"sd.diffrule({name}, pullback=True)(lambda ds, out, x: ds*{rule})"]
    if form == "named":
        return [f"sd.diffrule({name}, wrt='x')(lambda out, x: {rule} + 0*out)"]
    opaque = [f"sd.primitive({name})"] if form == "primitive" else []
    return [*opaque, f"sd.diffrule({name})(lambda out, x: {rule})"]


# -- constants of rules as text


class _Beyond(Exception):
    """A constant that this evaluation does not compute."""


def _constant(source):
    text = _expression(source, source.randint(1, 4))

    def f(x):
        return x * x

    try:
        sd.diffrule("f(x)", x=f"x*({text})")
    except sd.RuleError as error:
        return Verdict("refused", str(error))
    found = float(sd.grad(f)(1.0))
    try:
        with mp.workdps(60):
            right = _value(text)
            right = float(right) if abs(right) < mpmath.mpf(10) ** 400 else float("inf")
    except (_Beyond, ZeroDivisionError):
        if np.isfinite(found) and found != 0.0:
            raise Wrong(f"{text} = {found}, which is no finite number") from None
        return RIGHT
    if not np.isclose(found, right, rtol=1e-12, atol=1e-300):
        raise Wrong(f"{text} = {found}, {right} expected")
    return RIGHT


def _expression(source, depth):
    if depth == 0 or source.random() < 0.1:
        return source.choice(["2", "3", "9", "10", "0.5", "pi", "e", "7", "1e30", "123456789", "1"])
    if source.random() < 0.25:
        return f"{source.choice(['exp', 'sqrt', 'gamma', 'log'])}({_expression(source, depth - 1)})"
    if source.random() < 0.1:
        return f"-{_expression(source, depth - 1)}"
    op = source.choice(["+", "-", "*", "/", "**", "**"])
    return f"({_expression(source, depth - 1)}{op}{_expression(source, depth - 1)})"


def _value(text):
    """The number that an expression of `_expression` gives."""

    def of(node):
        if isinstance(node, ast.Constant):
            return mpmath.mpf(node.value)
        if isinstance(node, ast.Name):
            return {"pi": mp.pi, "e": mp.e}[node.id] + mpmath.mpf(0)
        if isinstance(node, ast.UnaryOp):
            return -of(node.operand)
        if isinstance(node, ast.Call):
            name, x = node.func.id, of(node.args[0])
            pole = name == "gamma" and x <= 0 and x == mpmath.nint(x)
            if (name in ("exp", "gamma") and abs(x) > 5000) or pole or (name in ("sqrt", "log") and x <= 0):
                raise _Beyond
            return getattr(mpmath, name)(x)
        x, y = of(node.left), of(node.right)
        if isinstance(node.op, ast.Pow):
            if x <= 0 or abs(y * mpmath.log(x)) > 10000:
                raise _Beyond
            return x**y
        return {ast.Add: lambda: x + y, ast.Sub: lambda: x - y, ast.Mult: lambda: x * y, ast.Div: lambda: x / y}[
            type(node.op)
        ]()

    return of(ast.parse(text, mode="eval").body)
