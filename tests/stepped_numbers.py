"""Numbers of the complex step, and the names by which a program runs on them, or plainly with what symdiff documents.

A program that is run with `names(False)` gives the values that its traced one has to give, with `names(True)` the slopes: the
only differences from Python are IEEE results where `math` raises, NaN in all of three numbers in order where one is, and
equal shares at ties.
"""

import cmath
import functools
import itertools
import math
import operator
import types

import numpy as np

STEP = 1e-100
NAN = complex(math.nan, math.nan)


class Stepped:
    """A real number with a tiny imaginary part: its real part is computed, and compared, as the real number is."""

    def __init__(self, value):
        self.value = complex(value)

    def _compared(name):
        def compare(self, other):
            return bool(getattr(np.float64(self.value.real), name)(real_of(other)))

        return compare

    __lt__, __le__, __gt__, __ge__ = map(_compared, ("__lt__", "__le__", "__gt__", "__ge__"))
    __eq__, __ne__ = map(_compared, ("__eq__", "__ne__"))
    __hash__ = None

    def _computed(operation, stepped=None):
        def operate(self, other):
            return joined(operation, stepped or operation, self, other)

        def reflected(self, other):
            return joined(operation, stepped or operation, other, self)

        return operate, reflected

    __add__, __radd__ = _computed(operator.add)
    __sub__, __rsub__ = _computed(operator.sub)
    __mul__, __rmul__ = _computed(operator.mul, lambda a, b: complex(0.0, a.real * b.imag + a.imag * b.real))
    __truediv__, __rtruediv__ = _computed(operator.truediv)

    def __neg__(self):
        return Stepped(-self.value)

    def __pow__(self, exponent):
        product = functools.reduce(operator.mul, [self] * exponent)
        return Stepped(complex(np.float64(self.value.real) ** exponent, product.value.imag))

    def __abs__(self):
        a = self.value
        return Stepped(a if a.real > 0 else -a if a.real < 0 else complex(abs(a.real), 0.0))

    def __bool__(self):
        return bool(self.value.real)

    def _of_one(name, stepped=None):
        def compute(self):
            return joined(getattr(np, name), stepped or getattr(cmath, name), self)

        return compute

    sin, cos, tanh, exp, log = map(_of_one, ("sin", "cos", "tanh", "exp", "log"))
    sqrt = _of_one("sqrt", lambda a: cmath.sqrt(a) if a.real else NAN)  # no slope, or an infinite one
    floor = _of_one("floor", lambda a: 0j)

    def hypot(self, other):
        return joined(np.hypot, lambda a, b: cmath.sqrt(a * a + b * b) if a.real or b.real else 0j, self, other)

    def arctan2(self, other):
        return joined(np.arctan2, _turned, self, other)


def _turned(y, x):
    size = x.real * x.real + y.real * y.real
    return complex(0.0, (y.imag * x.real - x.imag * y.real) / size if size else 0.0)


def real_of(value):
    return np.float64(value.value.real if isinstance(value, Stepped) else value)


def joined(operation, stepped, *operands):
    """The real part by the operation itself, the imaginary one by its complex counterpart."""
    real = operation(*map(real_of, operands))
    try:
        imag = stepped(*(o.value if isinstance(o, Stepped) else complex(o) for o in operands)).imag
    except (ValueError, OverflowError, ZeroDivisionError):
        imag = math.nan
    return Stepped(complex(real, imag))


class Notes:
    """What a run met that is left open: three or more numbers in order of which two are equal."""

    tied = False


def extreme(name, wins):
    """`max` or `min`, with equal shares at ties."""

    def among(*args, **kwargs):
        values = list(args[0] if len(args) == 1 else args)
        if not any(isinstance(v, Stepped) for v in values):
            return {"max": max, "min": min}[name](values, **kwargs)
        top = functools.reduce(lambda a, b: b if wins(b, a) else a, values)
        tied = [v for v in values if v == top] or [top]
        steps = [v.value.imag for v in tied if isinstance(v, Stepped)]
        return Stepped(complex(real_of(top), sum(steps) / len(tied)))

    return among


def in_order(notes, stepped):
    """`sorted`, with NaN in all of three numbers and more where one is."""
    largest, least = (extreme("max", operator.gt), extreme("min", operator.lt)) if stepped else (max, min)

    def ordered(values, reverse=False):
        values = list(values)
        if len(values) == 2:
            values = values[::-1] if reverse else values
            found = [least(*values), largest(*reversed(values))]
            return found[::-1] if reverse else found
        if any(v != v for v in values):
            return [np.float64(np.nan)] * len(values)
        found = sorted(values, reverse=reverse)
        notes.tied = notes.tied or any(a == b for a, b in itertools.pairwise(found))
        return found

    return ordered


def names(stepped, notes):
    """What a program's free names stand for."""

    def number(value):
        return value if isinstance(value, Stepped) else np.float64(value)

    def of_numpy(name):
        return lambda *args: getattr(np, name)(*map(number, args))

    mathematics = {name: of_numpy(name) for name in ("sin", "cos", "tanh", "exp", "log", "sqrt", "floor", "hypot")}
    if stepped:
        two = {name: lambda a, b, name=name: getattr(_raised(a), name)(b) for name in ("hypot", "arctan2")}
        mathematics |= {"hypot": two["hypot"], "floor": lambda a: _raised(a).floor()}
    mathematics["atan2"] = two["arctan2"] if stepped else of_numpy("arctan2")
    found = {"math": types.SimpleNamespace(**mathematics), "functools": functools, "np": np, "sorted": in_order(notes, stepped)}
    if stepped:
        numpy = {name: of_numpy(name) for name in ("sin", "tanh", "sqrt", "exp", "log")}
        numpy |= {
            "zeros": lambda n: np.array([0.0] * n, dtype=object),
            "sum": lambda cells: functools.reduce(operator.add, cells),
        }
        found |= {"np": types.SimpleNamespace(**numpy), "float": number, "max": extreme("max", operator.gt)}
        found["min"] = extreme("min", operator.lt)
    return found


def _raised(value):
    return value if isinstance(value, Stepped) else Stepped(value)
