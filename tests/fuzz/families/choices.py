"""Transforms and their methods with random options, good and bad: a good one works, a bad one is refused by name, with the line
of the call and with what is possible."""

import random

import numpy as np

import symdiff as sd

from ..harness import RIGHT, Verdict, Wrong

TRANSFORMS = ("grad", "value_and_grad", "jacobian", "hessian", "derivative", "jvp", "vjp", "hvp", "wirtinger", "vmap")
BAD = {
    "argnum": [1], "argnums": ["x", 0.5, (0, "x"), None, True, {0}, np.array([0])], "rules": [5, "all", {}, "mine.rules"],
    "exact": ["yes", 1, None, []], "fastmath": [None, 2, "no"], "frozen": [1, "yes", None],
    "backend": ["fast", 3, None, [], "C"],
    "scalarize": ["no", 3, 0], "paths": ["all", 1, True, ["merge"]], "threads": ["many", 0, -1, 2.5, True], "outaxes": [0],
    "mode": ["both", 1, None], "order": [2.5, 0, -1, "2", True, None], "in_axes": ["x", 1, 2.0, None, (None,), {"x": 0}, True],
    "out_axes": ["x", 1, 0.0, (0,), True], "target": ["c"], "out": [np.empty(2)],
}  # fmt: skip
GOOD = {
    "exact": [True, False], "fastmath": [False], "frozen": [True, False], "backend": ["auto", "numpy", "native"],
    "scalarize": [None, True, False], "paths": [None, "merge", "guard"], "rules": [None, sd.Rulebook()],
}  # fmt: skip
_OWN = {"mode": ["auto", "forward", "reverse"], "order": [1, 2, np.int64(2)], "argnums": [0, (0,), [0], np.int64(0)],
        "in_axes": [0, -1, (0,), [-1]], "out_axes": [None, 0, -1], "threads": [None, 1, 2]}  # fmt: skip
_OF = {"mode": ("jacobian",), "order": ("derivative",), "in_axes": ("vmap",), "out_axes": ("vmap",), "threads": ("vmap",)}
_ELSEWHERE = {
    "backend": lambda g, v: g.compile(1.5, backend=v), "target": lambda g, v: g.source(1.5, target=v),
    "rules": lambda g, v: sd.explain(g.f, 1.5, rules=v), "paths": lambda g, v: sd.trace(g.f, 1.5, paths=v),
    "primitives": lambda g, v: sd.trace(g.f, 1.5, primitives=v), "order": lambda g, v: sd.check_grads(g.f, (1.5,), order=v),
    "rtol": lambda g, v: sd.check_grads(g.f, (1.5,), rtol=v), "shape": lambda g, v: sd.Spec(v),
    "dtype": lambda g, v: sd.Spec((), v),
    "exact": lambda g, v: g(1.5, exact=v), "argnums": lambda g, v: g.cost(1.5, argnums=v),
    "backed": lambda g, v: g.graph(1.5, backed=v), "tagret": lambda g, v: g.source(1.5, tagret=v),
}  # fmt: skip
_WORSE = ["fast", 2.5, [3], -1, {}]


def square(x):
    return x * x


def trial(source: random.Random) -> Verdict:
    return source.choice([_bad, _bad, _good, _elsewhere])(source)


def _bad(source):
    name, option = source.choice(TRANSFORMS), source.choice(list(BAD))
    value = source.choice(BAD[option])
    others = {n: source.choice(GOOD[n]) for n in source.sample(list(GOOD), 2) if n != option}
    if name == "vmap" and option == "argnums":
        return RIGHT
    return _refused(lambda: getattr(sd, name)(square, **others, **{option: value}), option, f"sd.{name}(f, {option}={value!r})")


def _elsewhere(source):
    option, value = source.choice(list(_ELSEWHERE)), source.choice(_WORSE)
    if (option, value) in (("rtol", 2.5), ("shape", [3]), ("shape", "fast")):
        return RIGHT
    return _refused(lambda: _ELSEWHERE[option](sd.grad(square), value), option, f"{option}={value!r} of a method")


def _refused(call, option, shown):
    try:
        call()
    except sd.SymdiffError as error:
        if option in str(error) and "choices.py:" in str(error):
            return RIGHT
        raise Wrong(f"{shown}: {error}") from None
    raise Wrong(f"{shown} is taken without a word")


def _good(source):
    name = source.choice(TRANSFORMS)
    own = [n for n in _OWN if name in _OF.get(n, () if name in ("derivative", "vmap") else TRANSFORMS)]
    options = {n: source.choice(GOOD[n]) for n in source.sample(list(GOOD), source.randint(0, 3))}
    options |= {n: source.choice(_OWN[n]) for n in own if source.random() < 0.5}
    if options.get("exact") and options.get("backend") == "native":
        return RIGHT
    g = getattr(sd, name)(square, **options)
    args = (np.array([1.5, 2.5]),) if name == "vmap" else (1.5, 1.0) if name in ("jvp", "vjp", "hvp") else (1.5,)
    if isinstance(options.get("argnums"), (tuple, list)) and name in ("jvp", "hvp"):
        args = (1.5, (1.0,))
    if name == "vmap":
        right = [2.25, 6.25]
    else:
        slope = 2.0 if name in ("hessian", "hvp") or options.get("order", 1) == 2 else 3.0
        right = [2.25, slope] if name in ("value_and_grad", "jvp", "vjp") else [slope, 0.0] if name == "wirtinger" else [slope]
    found = [float(leaf) for leaf in _leaves(g(*args))]
    if found != right:
        raise Wrong(f"sd.{name}(square, {options}){args} = {found}, {right} expected")
    return RIGHT


def _leaves(value):
    return [leaf for v in value for leaf in _leaves(v)] if isinstance(value, (tuple, list)) or np.ndim(value) else [value]
