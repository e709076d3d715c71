"""Transforms with random options, good and bad: a good one works, a bad one is refused by name and with what is possible."""

import random

import symdiff as sd

from ..harness import RIGHT, Verdict, Wrong

TRANSFORMS = ("grad", "value_and_grad", "jacobian", "hessian", "derivative", "jvp", "vjp", "hvp", "wirtinger", "vmap")
BAD = {
    "argnum": [1], "argnums": ["x", 0.5, (0, "x"), None], "rules": [5, "all"], "exact": ["yes", 1], "fastmath": [None, 2],
    "backend": ["fast", 3], "scalarize": ["no", 3], "paths": ["all", 1], "threads": ["many"],
}  # fmt: skip


def trial(source: random.Random) -> Verdict:
    name, option = source.choice(TRANSFORMS), source.choice(list(BAD))
    value = source.choice(BAD[option])
    try:
        getattr(sd, name)(lambda x: x * x, **{option: value})
    except (sd.SymdiffError, TypeError, ValueError) as error:
        if option in str(error):
            return RIGHT
        raise Wrong(f"sd.{name}(f, {option}={value!r}): {error}") from None
    raise Wrong(f"sd.{name}(f, {option}={value!r}) is taken without a word")
