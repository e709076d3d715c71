"""Programs over the whole surface: arrays, views, assignments, masks, branches, loops, helpers and structures, through every
transform, option, door and file; derivatives against central differences of the plain function in extended precision.

The plain function runs on `np.longdouble` arguments, with arrays of its own as wide. Where two step sizes disagree (a kink
within reach), only values are compared.
"""

import random
import types

import numpy as np

import symdiff as sd

from ..harness import RIGHT, Verdict, Wrong

WIDE = np.longdouble
STEP = float(np.finfo(WIDE).eps) ** (1 / 3)
ROUGH = 1e-5 if WIDE(1) + WIDE(1e-17) == 1 else 1e-7  # where the platform's longdouble is no wider than float64
ELEMENTWISE = ["np.sin({})", "np.tanh({})", "np.exp(-({})**2)", "np.sqrt(1.5 + ({})**2)", "np.log(2.0 + ({})**2)", "abs({})",
               "-({})", "({})**2", "({})**3", "1.0/(1.5 + ({})**2)", "np.arctan({})", "np.square({})", "np.cos({})",
               "np.maximum({}, 0.1)", "np.clip({}, -0.8, 0.9)", "1/(1 + np.exp(-({})))", "np.log1p(np.exp({}))"]  # fmt: skip
JOINING = ["{} + {}", "{} - {}", "{}*{}", "{}/(2.0 + {}**2)", "np.maximum({}, {})", "np.where({} > {}, 0.5, 1.5)",
           "np.hypot({}, 1.0 + {}**2)", "np.arctan2({}, 2.0 + {}**2)", "np.minimum({}, {})"]  # fmt: skip
REDUCING = ["np.sum({})", "np.mean({})", "np.max({})", "np.min({})", "np.sum(({})**2)", "np.linalg.norm({})",
            "np.prod(np.tanh({}))", "np.std({})", "np.ptp({})", "np.median({})"]  # fmt: skip


class Wider(types.ModuleType):
    """NumPy, whose makers of arrays make wide ones."""

    def __getattr__(self, name: str):
        if name == "interp":
            return _interp
        made = getattr(np, name)
        if name in ("zeros", "ones", "empty", "full", "eye", "linspace"):
            return lambda *args, **kwargs: made(*args, **{"dtype": WIDE, **kwargs})
        if name == "array":
            return lambda value, *args, **kwargs: made(value, *args, **{"dtype": WIDE, **kwargs})
        return made


def _interp(x, places, values):
    """NumPy's function, which knows float64 only."""
    k = np.clip(np.searchsorted(places, x, side="right") - 1, 0, len(places) - 2)
    found = values[k] + (x - places[k]) * (values[k + 1] - values[k]) / (places[k + 1] - places[k])
    return np.where(x < places[0], values[0], np.where(x > places[-1], values[-1], found))


class Writer:
    """Writes one program; `shapes` are those of its variables."""

    def __init__(self, source: random.Random) -> None:
        self.random = source
        self.lines: list[str] = []
        self.indent = 1
        self.count = 0
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.own: set[str] = set()

    def put(self, line: str) -> None:
        self.lines.append("    " * self.indent + line)

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def pick(self, test=lambda shape: True) -> str | None:
        found = [n for n, shape in self.shapes.items() if test(shape)]
        return self.random.choice(found) if found else None

    def bind(self, text: str, shape: tuple[int, ...], own: bool = False) -> None:
        name = self.name()
        self.put(f"{name} = {text}")
        self.shapes[name] = shape
        if own:
            self.own.add(name)

    # -- statements

    def elementwise(self) -> None:
        x = self.pick()
        self.bind(self.random.choice(ELEMENTWISE).format(x), self.shapes[x])

    def joining(self) -> None:
        x = self.pick()
        y = self.pick(lambda s: _fits(s, self.shapes[x])) or x
        text = self.random.choice(JOINING).format(x, y)
        self.bind(text, np.broadcast_shapes(self.shapes[x], self.shapes[y]))

    def reducing(self) -> None:
        x = self.pick(lambda s: s != ())
        if x is None:
            return
        shape = self.shapes[x]
        if len(shape) == 2 and self.random.random() < 0.5:
            axis = self.random.randrange(2)
            kept = self.random.random() < 0.5
            form = self.random.choice(["np.sum", "np.mean", "np.max", "np.cumsum", "np.sort"])
            if form in ("np.cumsum", "np.sort"):
                self.bind(f"{form}({x}, axis={axis})", shape)
            else:
                after = tuple(1 if k == axis else n for k, n in enumerate(shape)) if kept else (shape[1 - axis],)
                self.bind(f"{form}({x}, axis={axis}, keepdims={kept})", after)
        else:
            self.bind(self.random.choice(REDUCING).format(x), ())

    def moving(self) -> None:
        x = self.pick(lambda s: s != ())
        if x is None:
            return
        shape = self.shapes[x]
        n = shape[0]
        k = self.random.randrange(n)
        forms = [(f"{x}[{k}]", shape[1:]), (f"{x}[::-1]", shape), (f"{x}[{k}:]", (n - k, *shape[1:])),
                 (f"np.roll({x}, {k})", shape), (f"{x}[[{k}, 0, {k}]]", (3, *shape[1:])),
                 (f"np.flip({x})", shape), (f"{x}[..., None]", (*shape, 1)),
                 (f"np.concatenate([{x}, {x}[:{k}]])", (n + k, *shape[1:])), (f"np.stack([{x}, 2*{x}])", (2, *shape)),
                 (f"{x}.copy()", shape), (f"{x}.ravel()", (int(np.prod(shape)),)), (f"{x}.T", shape[::-1])]  # fmt: skip
        if len(shape) == 1:
            forms += [(f"{x}.reshape(-1, 1)", (n, 1)), (f"np.outer({x}, {x})", (n, n)),
                      (f"np.cumsum({x})", shape), (f"np.sort({x})", shape), (f"np.diff({x}, prepend=0.5)", shape),
                      (f"np.interp({x}, np.array([-1.0, 0.3, 2.0]), np.array([0.5, 1.0, -1.0]))", shape)]  # fmt: skip
        if len(shape) == 2 and max(shape) < 10:
            forms += [(f"{x} @ {x}.T", (n, n)), (f"np.einsum('ij,ij->i', {x}, {x})", (n,)), (f"np.trace({x} @ {x}.T)", ())]
        forms = [(t, s) for t, s in forms if len(s) <= 2 and int(np.prod(s)) <= 5000]
        text, after = self.random.choice(forms)
        self.bind(text, after, ".copy()" in text)

    def assigning(self) -> None:
        x = self.pick(lambda s: len(s) in (1, 2))
        if x is None:
            return
        shape = self.shapes[x]
        y = next((n for n in self.own if self.shapes[n] == shape), None)
        if y is None or self.random.random() < 0.5:
            self.bind(self.random.choice([f"{x}.copy()", f"np.zeros({shape})", f"np.ones({shape})"]), shape, True)
            y = f"v{self.count}"
        k = self.random.randrange(shape[0])
        s = self.pick(lambda s: s == ()) or "0.7"
        sign = self.random.choice(["", "+", "*", "-"])
        self.put(self.random.choice([
            f"{y}[{k}] {sign}= {s}", f"{y}[{k}:] {sign}= {x}[{k}:]", f"{y}[{x} > 0.2] {sign}= {s}",
            f"{y}[{x} > {s}] {sign}= 0.5", f"{y} {sign}= {x}", f"{y}[::-1] {sign}= {x}", f"{y}[...] = {x}*{s}",
            f"w = {y}[{k}:]; w {sign or '+'}= {s}",
            f"{y}[[0, {k}]] {sign}= {s}", f"np.multiply({y}, {s}, out={y})", f"{y}.ravel()[{k}] {sign}= {s}",
            f"{y}[{k}:, ...] {sign}= {s}",
        ]))  # fmt: skip

    def branching(self) -> None:
        s = self.pick(lambda s: s == ())
        if s is None or self.indent > 2:
            return
        r = self.pick(lambda s: s == ())
        name = self.name()
        sign, limit = self.random.choice(["<", ">", "<=", ">="]), self.random.choice(["0.3", f"{r} - 0.1", "-0.2", "1.0"])
        self.put(f"if {s} {sign} {limit}:")
        self.put(f"    {name} = {self.random.choice(ELEMENTWISE).format(s)}")
        self.put("else:")
        self.put(f"    {name} = {self.random.choice(JOINING).format(s, r)}")
        self.shapes[name] = ()

    def looping(self) -> None:
        x = self.pick(lambda s: len(s) == 1 and s[0] < 8)
        if x is None:
            return
        name = self.name()
        form = self.random.randrange(4)
        if form == 0:
            self.put(f"{name} = 0.0")
            self.put(f"for i, c in enumerate({x}):")
            self.put(f"    {name} += {self.random.choice(ELEMENTWISE).format('c')}*(i + 1)")
        elif form == 1:
            self.put(f"{name} = {x}[0]")
            self.put("for _ in range(4):")
            self.put(f"    {name} = np.sin({name}) + 0.3*{x}[-1]")
        elif form == 2:
            self.put(f"{name} = sum([c*c for c in {x}]) + max({x}[0], {x}[-1])")
        else:
            self.put(f"table = {{'a': {x}, 'b': [{x}[0], {x}[-1]]}}")
            self.put(f"{name} = helper(*table['b']) + table['a'][0]")
        self.shapes[name] = ()

    def text(self, arguments: dict[str, tuple[int, ...]], result: tuple[int, ...] | None) -> str:
        self.shapes.update(arguments)
        head = ["def helper(u, v):", "    return u*v if u > v else u - v", "", f"def program({', '.join(arguments)}):"]
        kinds = [self.elementwise, self.joining, self.reducing, self.moving, self.assigning, self.branching, self.looping]
        for _ in range(self.random.randint(2, 7)):
            self.random.choice(kinds)()
        found = list(self.shapes)[-3:]
        if result is None:
            self.put("return " + " + ".join(f"np.sum({n})" if self.shapes[n] else n for n in found))
        else:
            self.put(f"return {found[-1]}")
        return "\n".join(head + self.lines) + "\n"


def _fits(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    try:
        return int(np.prod(np.broadcast_shapes(a, b))) <= 5000
    except ValueError:
        return False


def trial(source: random.Random) -> Verdict:
    n = source.choice([1, 2, 3, 3, 5, 70])
    arguments: dict[str, tuple[int, ...]] = {"x": source.choice([(), (n,), (n,), (n, 3)]), "y": source.choice([(), (n,), (3,)])}
    scalar = source.random() < 0.8
    text = Writer(source).text(arguments, None if scalar else ())
    space: dict[str, object] = {"np": np}
    exec(compile(text, "<fuzz>", "exec"), space)  # the fuzzer's own text
    wide: dict[str, object] = {"np": Wider("np")}
    exec(compile(text, "<fuzz>", "exec"), wide)
    numbers = np.random.default_rng(source.randrange(2**32))
    args = [numbers.uniform(-1.5, 1.5, shape) if shape else float(numbers.uniform(-1.5, 1.5)) for shape in arguments.values()]
    options = {k: v for k, v in {
        "scalarize": source.choice([None, None, True, False]), "exact": source.choice([False, False, True]),
        "paths": source.choice([None, None, "guard", "merge"]),
        "backend": source.choice(["auto", "auto", "auto", "numpy", "python"]),
    }.items() if v not in (None, False, "auto")}  # fmt: skip
    try:
        return _compared(source, text, space["program"], wide["program"], args, options, numbers)
    except sd.SymdiffError as error:
        return Verdict("refused", f"{error}\n{text}")


def _compared(source, text, f, plain, args, options, numbers):
    def complain(what, ours, wanted):
        raise Wrong(f"{text}\n{what} {options} at {args!r}:\n{ours}\nwanted\n{wanted}")

    kept = [np.copy(a) for a in args]
    with np.errstate(all="ignore"):
        try:
            value = np.asarray(f(*args))
        except (ValueError, IndexError, TypeError):
            return RIGHT  # the program itself is none
    changed = any(not np.array_equal(a, k) for a, k in zip(args, kept, strict=True))
    if changed:
        return RIGHT
    v = [numbers.standard_normal(np.shape(a)) for a in args]

    def along(step):
        ends = [plain(*(WIDE(a) + s * step * WIDE(d) for a, d in zip(args, v, strict=True))) for s in (1, -1)]
        return np.asarray((ends[0] - ends[1]) / (2 * step), dtype=float)

    with np.errstate(all="ignore"):
        slope, again = along(WIDE(STEP)), along(WIDE(STEP) / 8)
    smooth = np.allclose(slope, again, rtol=1e-6, atol=1e-6)
    door = source.choice(["grad", "grad", "jvp", "vjp", "value_and_grad", "jacobian", "file"])
    scalar = value.shape == ()
    if door in ("grad", "value_and_grad", "file") and not scalar:
        door = "jvp"
    found = None
    if door == "jvp":
        ours, found = sd.jvp(f, (0, 1), **options)(*args, tuple(v))
    elif door == "vjp":
        w = numbers.standard_normal(value.shape)
        ours, (gx, gy) = sd.vjp(f, (0, 1), **options)(*args, w)
        found, slope = np.sum(gx * v[0]) + np.sum(gy * v[1]), np.sum(slope * w)
    elif door == "jacobian":
        jx, jy = sd.jacobian(f, (0, 1), **options)(*args)
        found = np.tensordot(jx, v[0], np.ndim(v[0])) + np.tensordot(jy, v[1], np.ndim(v[1]))
        ours = value
    else:
        df = sd.value_and_grad(f, (0, 1), **options)
        ours, (gx, gy) = df(*args)
        again_value, again_gradient = df(*args)
        if not (np.array_equal(ours, again_value, equal_nan=True) and all(map(_same, (gx, gy), again_gradient))):
            complain("a second call differs", again_gradient, (gx, gy))
        out = (np.empty_like(ours), tuple(np.full_like(g, np.nan) for g in (gx, gy)))
        df(*args, out=out)
        if not all(map(_same, (gx, gy), out[1])):
            complain("out= differs", out[1], (gx, gy))
        if door == "file" and "backend" not in options and "paths" not in options:
            target = source.choice(["numpy", "python"]) if all(np.size(a) < 10 for a in args) else "numpy"
            module: dict[str, object] = {}
            exec(df.source(*args, target=target), module)
            written = module[module["__all__"][0]]
            mine = written(*(a.tolist() if target == "python" and np.ndim(a) else a for a in args))
            flat = [np.asarray(part, dtype=float) for part in (mine[0], *(mine[1] if len(mine) == 2 else mine[1:]))]
            if not all(map(_close, flat, (ours, gx, gy))):
                complain(f"the {target} file differs", flat, (ours, gx, gy))
        found = np.sum(gx * v[0]) + np.sum(gy * v[1])
    if not np.allclose(ours, value, rtol=1e-10, atol=1e-12, equal_nan=True):
        complain(f"{door}: value", ours, value)
    if any(not np.array_equal(a, k) for a, k in zip(args, kept, strict=True)):
        complain(f"{door} changes its arguments", args, kept)
    if smooth and np.all(np.isfinite(slope)) and not np.allclose(found, slope, rtol=100 * ROUGH, atol=100 * ROUGH):
        complain(f"{door}: slope along {v!r}", found, slope)
    return RIGHT


def _close(a, b):
    return np.allclose(a, b, rtol=1e-9, atol=1e-12, equal_nan=True)


def _same(a, b):
    return np.array_equal(a, b, equal_nan=True)
