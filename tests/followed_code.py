"""Code as people write it, for test_following.py: helpers in another module, names imported with a star."""

from math import exp, log
from math import sqrt as root

from numpy import *  # noqa: F403

RATE = 0.7
FACTOR = 1.0


def growth(x):
    return exp(RATE * x) + root(x) * log(x + 1.0)


def rate():
    return RATE


def starred(x):
    return sin(x) * cos(x) + sum(array([x, 2.0 * x]) ** 2)  # noqa: F405


class Spring:
    """Attributes, a property, a private name, a class method, a static method."""

    scale = 2.0

    def __init__(self, stiffness, rest):
        self.stiffness = exp(stiffness)
        self.__rest = rest

    @property
    def period(self):
        return 2 * pi / root(self.stiffness)  # noqa: F405

    @classmethod
    def soft(cls, rest):
        return cls(log(cls.scale), rest)

    @staticmethod
    def _square(x):
        return pow(x, 2.0)

    def energy(self, x):
        return 0.5 * self.stiffness * self._square(x - self.__rest)


class Damped(Spring):
    """Inherits, and calls what it inherits through super."""

    def __init__(self, stiffness, rest, damping):
        super().__init__(stiffness, rest)
        self.damping = damping

    def energy(self, x):
        return super().energy(x) * exp(-self.damping)

    @property
    def period(self):
        return super().period * root(1.0 + self.damping)


def raises_within(x):
    s = 0.0
    for k in range(6):
        for m in range(5):
            assert s < 40, ("too large", k, m)
            s += exp(x) * (m + 1) / (12 + k)
        s = 0.9 * s
    return s
