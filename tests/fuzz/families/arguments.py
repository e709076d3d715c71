"""Functions with random signatures, called in random ways: with and without extra arrays, keywords and out=, after one another.

Each result is compared with a fresh derivative's and with the plain function's slope, computed by a complex step; the caller's
arrays must be what they were.
"""

import random

import numpy as np

import symdiff as sd

from ..harness import RIGHT, Verdict, Wrong

KINDS = ("required", "none", "number", "keyword", "keyword none", "several", "pair")


def trial(source: random.Random) -> Verdict:
    shape = source.choice([(), (1,), (3,), (2, 2), (70,)])
    text, parameters = _program(source)
    captured = np.array([source.uniform(0.5, 2.0) for _ in range(source.choice([1, 100]))])
    space = {"np": np, "captured": captured}
    exec(compile(text, "<arguments>", "exec"), space)
    f = space["f"]
    kind = source.choice(["grad", "value_and_grad", "hvp", "jvp", "vmap"])
    options = {"backend": source.choice(["auto", "auto", "auto", "auto", "numpy", "python"])} if shape != (70,) else {}
    options |= {"scalarize": True} if options.get("backend") == "python" else {}
    g = _made(kind, f, options)
    shown, verdict = [text, f"g = {kind}(f, {options})"], RIGHT
    for _ in range(source.randint(2, 6)):
        args, kwargs = _arguments(source, parameters, shape, kind)
        names = [f"{n}={np.shape(v)}" for n, v in kwargs.items()]
        shown.append(f"g({', '.join([*(str(_shape(a)) for a in args), *names])})")
        verdict = _called(g, _made(kind, f, options), kind, f, args, kwargs, source, "\n".join(shown)) or verdict
    return verdict


def _made(kind, f, options):
    if kind != "vmap":
        return getattr(sd, kind)(f, **options)
    return sd.vmap(sd.grad(f), **{n: v for n, v in options.items() if n == "backend"})


def _program(source):
    """The text of a function of x and up to four more arguments, and these with their kinds."""
    parameters = [
        (name, source.choice(KINDS)) for name in source.sample(["a", "b", "c", "w", "out", "y"], source.randint(0, 4))
    ]
    order = {kind: k for k, kind in enumerate(("required", "pair", "none", "number", "several", "keyword", "keyword none"))}
    parameters.sort(key=lambda p: order[p[1]])
    kept, seen = [], False
    for name, kind in parameters:
        if kind == "several" and seen:
            continue
        seen |= kind == "several"
        kept.append((name, kind))
    head, starred = ["x"], False
    body = ["    s = np.sum(x*x*x) + np.sum(captured)*np.sum(x)"]
    for name, kind in kept:
        if kind.startswith("keyword") and not starred and not seen:
            head.append("*")
            starred = True
        head.append({"required": name, "pair": name, "none": f"{name}=None", "number": f"{name}=0.5", "several": f"*{name}",
                     "keyword": f"{name}=0.25", "keyword none": f"{name}=None"}[kind])  # fmt: skip
        factor = source.choice(["2.0", "0.5", "3.0"])
        if kind == "several":
            body.append(f"    for item in {name}:\n        s = s + {factor}*np.sum(item*x*x)")
        elif kind == "pair":
            body.append(f"    s = s + {factor}*np.sum({name}['q']*x) + np.sum({name}['p']*x*x)")
        else:
            body.append(f"    if {name} is not None:\n        s = s + {factor}*np.sum({name}*x*x)")
    return f"def f({', '.join(head)}):\n" + "\n".join([*body, "    return s"]) + "\n", kept


def _arguments(source, parameters, shape, kind):
    """Arguments of one call, those of a derivative included; now and then one too many."""

    def value(scalar=False):
        found = np.array([source.uniform(-1.0, 1.0) for _ in range(int(np.prod((2, *shape) if kind == "vmap" else shape)))])
        found = found.reshape((2, *shape) if kind == "vmap" else shape)
        return float(found) if found.shape == () and source.random() < 0.5 else found

    args, kwargs, named = [value()], {}, False
    for name, what in parameters:
        if what == "several":
            args += [value() for _ in range(0 if named else source.randint(0, 2))]
        elif what in ("required", "pair") or source.random() < 0.6:
            given = {"p": value(), "q": value()} if what == "pair" else value()
            if (
                what.startswith("keyword")
                or (named and what not in ("required", "pair"))
                or (what in ("none", "number") and source.random() < 0.3)
            ):
                kwargs[name] = given
            else:
                args.append(given)
        else:
            named = True
    if kind in ("hvp", "jvp"):
        args.append(value())
    if source.random() < 0.05:
        args.append(value())
    return args, dict(sorted(kwargs.items(), key=lambda _: source.random()))


def _called(g, fresh, kind, f, args, kwargs, source, shown):
    before = [leaf.copy() for leaf in _arrays((args, kwargs))]
    error = None
    try:
        found = g(*args, **kwargs)
    except (sd.SymdiffError, TypeError) as caught:
        error = caught
    try:
        wanted = fresh(*args, **kwargs)
    except (sd.SymdiffError, TypeError) as caught:
        if error is None:
            raise Wrong(f"{shown}: a fresh one raises {caught!r}") from None
        if isinstance(error, sd.SymdiffError):
            return Verdict("refused", str(error))
        raise Wrong(f"{shown}: {error!r}") from None
    if error is not None:
        raise Wrong(f"{shown}: {error!r}; a fresh one does not raise")
    for old, now in zip(before, _arrays((args, kwargs)), strict=True):
        if not np.array_equal(old, now):
            raise Wrong(f"{shown}: the caller's array {old} is {now} now")
    _equal(found, wanted, 1e-12, shown)
    if kind == "grad":
        _equal(found, _slope(f, args, kwargs), 1e-9, shown)
    if kind in ("grad", "vmap") and source.random() < 0.4 and isinstance(found, np.ndarray):
        out = np.full_like(found, 7.0)
        try:
            g(*args, out=out, **kwargs)
        except sd.ArgumentError:
            return Verdict("refused", "an argument called out")
        _equal(out, wanted, 1e-12, f"{shown} with out=")
    return None


def _slope(f, args, kwargs):
    x = np.asarray(args[0], dtype=float)
    found = np.zeros(x.shape)
    for place in np.ndindex(x.shape):
        moved = x.astype(complex)
        moved[place] += 1e-30j
        found[place] = np.imag(f(moved, *args[1:], **kwargs)) / 1e-30
    return found


def _arrays(value):
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in _arrays(item)]
    if isinstance(value, dict):
        return [leaf for _, item in sorted(value.items()) for leaf in _arrays(item)]
    return [value] if isinstance(value, np.ndarray) else []


def _shape(value):
    return {k: np.shape(v) for k, v in value.items()} if isinstance(value, dict) else np.shape(value)


def _equal(found, wanted, tolerance, shown):
    found, wanted = (v if isinstance(v, tuple) else (v,) for v in (found, wanted))
    for a, b in zip(found, wanted, strict=True):
        if np.shape(a) != np.shape(b) or not np.allclose(a, b, rtol=tolerance, atol=tolerance):
            raise Wrong(f"{shown} = {a}, {b} expected")
