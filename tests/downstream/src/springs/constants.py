"""The constants of the chain."""

STIFFNESS = 2.5
LENGTH = 1.0
