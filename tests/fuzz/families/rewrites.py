"""Exponentials, logarithms, sums, quotients and powers in random broadcasting shapes, first and second order.

What the sweeps rewrite before they differentiate must keep shapes, values and size. Gradients are compared with the complex
step of the plain function, products with Hessians with differences of these.
"""

import random

import numpy as np

import symdiff as sd

from ..harness import RIGHT, Verdict, Wrong

STEP = 1e-30
Term = tuple[str, tuple[int, ...]]  # a positive value as text, and its shape


class Writer:
    """Lines of a function of p, of shape (n,), whose values are all positive."""

    def __init__(self, source: random.Random) -> None:
        self.source = source
        self.n, self.m = (source.choice((2, 3, 5)), source.choice((1, 2, 4)))
        if source.random() < 0.1:
            self.n, self.m = source.choice(((40, 30), (300, 3), (3, 300)))
        self.lines: list[str] = []
        shapes = [(), (self.n,), (self.m,), (self.n, 1), (1, self.m), (self.n, self.m), (self.m, self.n)]
        values = np.random.default_rng(source.randrange(2**32))
        self.constants = {f"c{k}": values.uniform(0.2, 1.5, s) for k, s in enumerate(shapes)}
        self.terms: list[Term] = [("p", (self.n,)), *((name, c.shape) for name, c in self.constants.items())]
        self.active = ["p"]

    def put(self, text: str, shape: tuple[int, ...]) -> None:
        """A line more."""
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        self.terms.append((name, shape))
        self.active.append(name)

    def any(self, active: bool = True) -> Term:
        """One of the values, most often a late one that depends on p."""
        pool = [t for t in self.terms if not active or t[0] in self.active]
        return self.source.choice(pool[-4:] if self.source.random() < 0.7 else pool)

    def step(self) -> None:
        """A random line."""
        source, (x, shape) = self.source, self.any()
        kind = source.choice(("exp", "exp", "log", "binary", "binary", "binary", "sum", "move", "move", "power", "quotient"))
        if kind == "exp":
            text = source.choice(("np.exp({0})", "np.exp(-{0})", "np.exp({0} - 1)", "np.cosh({0})", "np.exp2({0}*0.5)"))
            self.put(text.format(f"({x}/(1 + {x}))" if source.random() < 0.6 else f"np.tanh({x})"), shape)
        elif kind == "log":
            self.put(source.choice(("np.log(1.5 + {0})", "np.log1p({0})", "np.log2(2 + {0})")).format(x), shape)
        elif kind == "power":
            self.put(f"({x})**{source.choice((2, 3, 0.5, 1.5, -1))}", shape)
        elif kind == "quotient":
            self.put(source.choice(("{0}/(1 + {0})", "1/(1 + {0})", "1 - 1/(1 + {0})", "np.sqrt({0})*{0}")).format(x), shape)
        elif kind == "sum" and shape:
            axis, keep = source.choice((None, *range(len(shape)))), source.random() < 0.5
            left = (0,) * len(shape) if axis is None else (axis,)
            kept = tuple(1 if axis is None or k == axis else s for k, s in enumerate(shape))
            gone = () if axis is None else tuple(s for k, s in enumerate(shape) if k not in left)
            self.put(f"np.{source.choice(('sum', 'mean'))}({x}, axis={axis}, keepdims={keep})", kept if keep else gone)
        elif kind == "move":
            self.move(x, shape)
        elif kind == "binary":
            self.binary(x, shape)

    def move(self, x: str, shape: tuple[int, ...]) -> None:
        """Cells in another shape."""
        if len(shape) == 1:
            text, found = self.source.choice(((f"{x}[:, None]", (*shape, 1)), (f"{x}[None]", (1, *shape)),
                                              (f"{x}.reshape(-1, 1)", (*shape, 1)), (f"{x}[::-1]", shape)))  # fmt: skip
            self.put(text, found)
        elif len(shape) == 2:
            size = shape[0] * shape[1]
            text, found = self.source.choice(
                (
                    (f"{x}.T", shape[::-1]),
                    (f"{x}.reshape(-1)", (size,)),
                    (f"{x}[0]", shape[1:]),
                    (f"{x}[:, -1]", shape[:1]),
                    (f"np.stack(({x}, {x}))[1]", shape),
                )
            )
            self.put(text, found)

    def binary(self, x: str, shape: tuple[int, ...]) -> None:
        """Two values of shapes that broadcast."""
        y, other = self.any(active=self.source.random() < 0.6)
        try:
            found = np.broadcast_shapes(shape, other)
        except ValueError:
            return
        if np.prod(found, initial=1.0) <= 2000:
            text = self.source.choice(
                ("{0} + {1}", "{0}*{1}", "{0}/({0} + {1})", "{1}/({0} + {1})", "{0}/{1}", "np.log({0} + {1})**2 + 1e-3")
            )
            self.put(text.format(x, y), found)


def trial(source: random.Random) -> Verdict:
    writer = Writer(source)
    while len(writer.lines) < source.randrange(3, 12):
        writer.step()
    shown = "\n    ".join(["def f(p):", *writer.lines, f"return np.sum(np.log(1 + {writer.active[-1]}))"])
    scope = {"np": np, **writer.constants}
    exec(shown, scope)
    f = scope["f"]
    rate = source.choice((1.0, 1.0, 3.0))
    p = np.array([source.uniform(0.1, rate) for _ in range(writer.n)])
    plain = stepped(f, p)
    if not np.all(np.isfinite(plain)) or np.max(abs(plain)) > 1e8:
        return RIGHT
    options = {"scalarize": source.choice((None, False)), "backend": source.choice(("auto", "numpy"))}
    shown += f"\n# p = {p.tolist()}, {options}"
    compare("grad", sd.grad(f, **options)(p), plain, 1e-7, shown)
    if source.random() < 0.4 and writer.n <= 5:
        v = np.array([source.uniform(-1, 1) for _ in p])
        near = (stepped(f, p + 1e-5 * v) - stepped(f, p - 1e-5 * v)) / 2e-5
        compare("hvp", sd.hvp(f, **options)(p, v), near, 1e-4, shown)
        compare("jvp", sd.jvp(f, **options)(p, v)[1], plain @ v, 1e-7, shown)
    return RIGHT


def stepped(f: object, p: np.ndarray) -> np.ndarray:
    """The gradient by the complex step."""
    return np.array([np.imag(f(p + 1j * STEP * (np.arange(p.size) == k))) / STEP for k in range(p.size)])  # type: ignore[operator]


def compare(what: str, found: object, wanted: object, tolerance: float, shown: str) -> None:
    """Raise where a result is far from the wanted one."""
    scale = 1e-6 + float(np.max(np.abs(wanted)))  # type: ignore[arg-type]
    if np.shape(found) != np.shape(wanted) or not np.all(np.abs(np.asarray(found) - wanted) <= tolerance * scale):  # type: ignore[operator]
        raise Wrong(f"{shown}\n{what}: {found}, not {wanted}")
