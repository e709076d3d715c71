"""Numbers with their first and second derivative along a line: programs run on them take one path, and differentiate that."""

import math


class Jet:
    """A value, its first and its second derivative; `size` is the largest number met, `kinked` whether it met a kink."""

    def __init__(self, value: float, first: float = 0.0, second: float = 0.0, size: float = 0.0, kinked: bool = False) -> None:
        self.value, self.first, self.second = value, first, second
        self.size = max(size, abs(value), abs(first), abs(second))
        self.kinked = kinked

    @property
    def is_regular(self) -> bool:
        return all(map(math.isfinite, (self.value, self.first, self.second, self.size)))

    def through(self, value: float, slope: float, bend: float, kinked: bool = False) -> "Jet":
        """A function of it with these derivatives."""
        second = slope * self.second + bend * self.first**2
        return Jet(value, slope * self.first, second, max(self.size, abs(slope), abs(bend)), self.kinked or kinked)

    def __add__(self, other):
        o = jet(other)
        return joined(self.value + o.value, self.first + o.first, self.second + o.second, self, o)

    def __mul__(self, other):
        o = jet(other)
        second = self.second * o.value + 2 * self.first * o.first + self.value * o.second
        return joined(self.value * o.value, self.first * o.value + self.value * o.first, second, self, o)

    def __pow__(self, power):
        x = self.value
        if x < 0 and power != int(power):
            return irregular()
        if x == 0 and power < 2 and power not in (0, 1):
            return Jet(0.0, math.nan, math.nan) if power > 0 else irregular()
        return self.through(
            x**power, power * x ** (power - 1), power * (power - 1) * (x ** (power - 2) if power > 2 or x else 1.0)
        )

    def __neg__(self):
        return self * -1.0

    def __sub__(self, other):
        return self + -jet(other)

    def __rsub__(self, other):
        return jet(other) + -self

    def __truediv__(self, other):
        o = jet(other)
        x = o.value
        return self * o.through(1 / x, -1 / x**2, 2 / x**3) if x else irregular()

    def __rtruediv__(self, other):
        return jet(other) / self

    __radd__, __rmul__ = __add__, __mul__

    def told(self) -> float:
        """The value, for comparisons, which what is not regular cannot decide."""
        if math.isnan(self.value):
            raise ArithmeticError
        return self.value

    def __lt__(self, other):
        return self.told() < jet(other).told()

    def __le__(self, other):
        return self.told() <= jet(other).told()

    def __gt__(self, other):
        return self.told() > jet(other).told()

    def __ge__(self, other):
        return self.told() >= jet(other).told()

    def __eq__(self, other):
        return self.told() == jet(other).told()

    def __ne__(self, other):
        return self.told() != jet(other).told()

    __hash__ = None


def jet(value) -> Jet:
    return value if isinstance(value, Jet) else Jet(float(value))


def joined(value: float, first: float, second: float, a: Jet, b: Jet) -> Jet:
    return Jet(value, first, second, max(a.size, b.size), a.kinked or b.kinked)


def irregular() -> Jet:
    return Jet(math.nan, math.nan, math.nan)


def _exp(x):
    x = jet(x)
    e = math.exp(x.value) if x.value < 700 else math.inf
    return x.through(e, e, e)


def _log(x):
    x = jet(x)
    return x.through(math.log(x.value), 1 / x.value, -1 / x.value**2) if x.value > 0 else irregular()


def _sqrt(x):
    return jet(x) ** 0.5


def _atan(x):
    x = jet(x)
    slope = 1 / (1 + x.value**2)
    return x.through(math.atan(x.value), slope, -2 * x.value * slope**2)


def _atan2(y, x):
    y, x = jet(y), jet(x)
    if x.value == 0 == y.value or not math.isfinite(x.value + y.value) or (y.value == 0 and x.value < 0):
        return irregular()
    found = _atan(y / x) if abs(x.value) > abs(y.value) else -1 * _atan(x / y)
    return Jet(math.atan2(y.value, x.value), found.first, found.second, found.size, found.kinked)


def functions() -> dict:
    """The functions of a program, on jets."""
    return {
        "sin": lambda x: jet(x).through(math.sin(jet(x).value), math.cos(jet(x).value), -math.sin(jet(x).value)),
        "exp": _exp, "log": _log, "sqrt": _sqrt, "atan": _atan, "atan2": _atan2,
        "hypot": lambda x, y: _sqrt(jet(x) * x + jet(y) * y),
        "where": lambda c, a, b: a if c else b,
    }  # fmt: skip
