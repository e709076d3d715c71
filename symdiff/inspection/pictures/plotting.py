"""Functions and their derivatives as curves, contours with gradients, and counted operations as bars.

Assumes matplotlib, which is imported when something is drawn. Guarantees that what is drawn are the values that symdiff's
`vmap` computes, and that no line crosses a pole or a jump. Refuses complex values, and functions of more than two variables.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import sympy as sp

from symdiff.api.batching import Vectorised
from symdiff.api.derivatives import Jacobian, ValueAndGradient
from symdiff.api.functions import Function, Plain
from symdiff.errors import ArgumentError, MissingPackageError, OptionError, ShapeError, SymdiffError
from symdiff.inspection.costing import Cost, charted
from symdiff.inspection.pictures.sampling import POLE, broken_intervals
from symdiff.inspection.reading.equations import Slope, TotalSlope
from symdiff.inspection.reading.names import latex_name
from symdiff.inspection.reading.printing import latex_of
from symdiff.tracing.trace import definition_line, function_name
from symdiff.vocabulary import structures
from symdiff.vocabulary.choices import check_options
from symdiff.vocabulary.libraries import user_line
from symdiff.vocabulary.literals import printable

BLUE, ORANGE, GREEN, RED, PURPLE, SKY = "#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9"
GREY = "#8a8a8a"  # these colours are those of Okabe and Ito, which the colour-blind tell apart
COLOURS = (BLUE, RED, GREEN, PURPLE, ORANGE, SKY)
DASHES = ("-", "--", "-.", ":")
POINTS, FIELD, ARROWS = 400, 121, 17  # of an interval: along a curve, along a side of contours, of arrows
CURVES, LEVELS = 12, 13  # of one picture
LARGEST = 1e250  # of what matplotlib draws contours


def matplotlib_module(name: str = "") -> Any:
    """A module of matplotlib; raises `MissingPackageError` with the command that installs it."""
    try:
        return import_module(f"matplotlib.{name}".rstrip("."))
    except ImportError:
        raise MissingPackageError("pictures need matplotlib: pip install 'symdiff[plot]'") from None


def check_axes(ax: Any) -> None:
    """Raise `OptionError` where `ax` is not matplotlib's."""
    if not hasattr(ax, "transData"):
        raise OptionError(f"{user_line()}: plot: ax={type(ax).__name__}: Axes of matplotlib are needed")


def _axes(ax: Any, size: tuple[float, float]) -> Any:
    """The Axes given, or those of a new figure, which a notebook shows."""
    if ax is None:
        return matplotlib_module("pyplot").figure(figsize=size, layout="constrained").add_subplot()
    check_axes(ax)
    return ax


def plot(f: Callable[..., Any], x: Any, y: Any = None, *, args: tuple[Any, ...] = (), order: int = 1, ax: Any = None) -> Any:
    """Draw f and its derivatives up to `order` over x; over x and y, contours of f(x, y) with the field of its gradient.

    `x` and `y` are intervals, as a pair of numbers, or increasing arrays of points. A pair of pairs, `[(-2, 2), (-1, 3)]`, are
    the intervals of the two cells of a function of one array. `args` are the arguments that follow, the same at all points.
    A result of several cells has a curve for each. Lines are labelled as the left sides of their formulas, and have a gap
    where f is not finite, has a pole or jumps. An arrow has the direction of the gradient and is longer where it is steeper:
    its length is |g|/(|g| + m), where m is the median of |g|; where one axis is over four times as long as the other, both
    count as equally long. Returns matplotlib's Axes, those of `ax` where it is given.

    Raises `ShapeError` for points that are neither, `ArgumentError` where f is complex, `MissingPackageError` without
    matplotlib.

    >>> import pytest
    >>> pyplot = pytest.importorskip("matplotlib.pyplot")
    >>> import numpy as np
    >>> lines = plot(np.sin, (0.0, 3.0)).get_lines()
    >>> x, slopes = lines[1].get_data()
    >>> np.allclose(slopes, np.cos(x))
    True
    >>> pyplot.close("all")
    """
    check_options("plot", {"order": order})
    matplotlib_module()
    if not callable(f):
        raise ArgumentError(f"{user_line()}: plot: {type(f).__name__} is not a function")
    if not isinstance(args, (tuple, list)):
        raise ArgumentError(f"{user_line()}: plot: args={args!r}: a tuple of the arguments that follow is needed")
    both = y is None and _is_pair_of_axes(x)
    if y is None and not both:
        return _draw_curves(f, _samples(x, POINTS, "x"), args, order, ax)
    if order != 1:
        raise OptionError(
            f"{user_line()}: plot: order={order!r}: of a function of two variables the gradient is drawn, order 1"
        )
    sides = (x[0], x[1]) if both else (x, y)
    return _draw_field(_Field(f, both, args), sides, ax)


def _is_pair_of_axes(x: Any) -> bool:
    return isinstance(x, (tuple, list)) and len(x) == 2 and all(np.ndim(side) == 1 for side in x)


def _samples(x: Any, count: int, name: str) -> np.ndarray:
    """The points of an interval or of an array."""
    try:
        values = np.asarray(x)
    except ValueError:
        values = np.empty(0)
    if values.ndim != 1 or len(values) < 2 or values.dtype.kind not in "iuf":
        raise ShapeError(f"{user_line()}: plot: {name} must be a pair of real numbers, an interval, or an array of real points")
    values = values if values.dtype.kind == "f" else values.astype(float)
    if not np.all(np.isfinite(values)) or not np.all(values[:-1] < values[1:]):
        raise ShapeError(f"{user_line()}: plot: {name} must be finite and increase from each point to the next")
    return np.linspace(values[0], values[1], count) if isinstance(x, (tuple, list)) and len(x) == 2 else values


def _real(value: Any, name: str, f: Callable[..., Any]) -> np.ndarray:
    found = np.asarray(value)
    if found.dtype.kind == "c":
        raise ArgumentError(
            f"{user_line()}: plot: {name} ({definition_line(f)}) has complex values; draw real ones, as in "
            "sd.plot(lambda x: f(x).real, x), with abs(f(x)) or f(x).imag"
        )
    return found.astype(float)


def _left_side(name: str, variable: str, order: int, total: bool = True) -> str:
    """The n-th derivative of an output as the left side of its formula, in LaTeX; not `total` where there are other inputs.

    >>> print(_left_side("f", "x", 2))
    \\frac{d^{2} f}{d x^{2}}
    """
    top, below = sp.Symbol(name), [sp.Symbol(variable)] * order
    return latex_of((TotalSlope if total else Slope)(top, *below) if order else top)


class _Curve(NamedTuple):
    """One cell of f or of a derivative of it at increasing points, and what it is between them."""

    label: str
    colour: str
    style: str
    y: np.ndarray
    broken: np.ndarray

    @property
    def reach(self) -> tuple[float, float]:
        """From where to where it is shown: with a pole not to the cell that happens to lie beside it."""
        finite = self.y[np.isfinite(self.y)]
        if not len(finite):
            return np.inf, -np.inf
        low, high = finite.min(), finite.max()
        if (self.broken == POLE).any():
            near, far = np.quantile(finite, [0.1, 0.9])
            spare = 0.5 * (far - near) or np.inf
            low, high = max(near - spare, low), min(far + spare, high)
        return float(low), float(high)

    def pieces(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[int]]:
        """Points and values with NaN where it is broken, and the places of points that stand alone."""
        breaks = np.flatnonzero(self.broken) + 1
        x = np.insert(x, breaks, np.nan)
        y = np.insert(np.where(np.isfinite(self.y), self.y, np.nan), breaks, np.nan)
        gap = np.isnan(np.concatenate([[np.nan], y, [np.nan]]))
        return x, y, np.flatnonzero(gap[:-2] & ~gap[1:-1] & gap[2:]).tolist()


def _draw_curves(f: Callable[..., Any], x: np.ndarray, args: tuple[Any, ...], order: int, ax: Any) -> Any:
    name = function_name(f)
    function = f if isinstance(f, Function) else Plain(f)
    graph = function.graph(x[0], *args)
    variable, total = graph.inputs[0].name, len(graph.inputs) == 1
    cells = [(o.name, index) for o in graph.outputs for index in np.ndindex(o.shape)]
    if len(cells) * (order + 1) > CURVES:
        raise ShapeError(
            f"{user_line()}: plot: {name} ({definition_line(f)}) has {len(cells)} cells; choose one, as in f(x)[0]"
        )
    curves = []
    for k in range(order + 1):
        many = Vectorised(function, in_axes=(0, *[None] * len(args)))

        def at(points: np.ndarray, many: Function = many) -> np.ndarray:
            leaves = [_real(leaf, name, f) for leaf in structures.leaves(many(points, *args))]
            return np.concatenate([leaf.reshape(len(points), -1) for leaf in leaves], axis=1)

        values = at(x)
        for cell, (output, index) in enumerate(cells):
            y = values[:, cell]
            broken = broken_intervals(_between(at, cell), x, y)
            left, place = _left_side(output, variable, k, total), f"_{{{', '.join(map(str, index))}}}" if index else ""
            label = rf"\left({left}\right){place}" if place and k else left + place
            colour, style = (cell, DASHES[k % len(DASHES)]) if len(cells) > 1 else (k, "-")
            curves.append(_Curve(label, COLOURS[colour % len(COLOURS)], style, y, broken))
        function = Jacobian(function, 0)
    ax = _axes(ax, (6.4, 4.0))
    _draw_lines(ax, x, curves)
    ax.set_xlabel(f"${latex_name(variable)}$")
    if name != "f":
        ax.set_title(printable(name), fontsize="medium", parse_math=False)
    return ax


def _between(at: Callable[[np.ndarray], np.ndarray], cell: int) -> Callable[[np.ndarray], np.ndarray]:
    """A cell at points that nobody asked for: NaN where the function raises an exception of its own."""

    def found(points: np.ndarray) -> np.ndarray:
        try:
            return at(points)[:, cell]
        except SymdiffError:
            raise
        except Exception:
            alone = [np.array([point]) for point in points]
            return np.concatenate([found(point) for point in alone]) if len(points) > 1 else np.full(len(points), np.nan)

    return found


def _draw_lines(ax: Any, x: np.ndarray, curves: Sequence[_Curve]) -> None:
    for curve in curves:
        x_, y_, alone = curve.pieces(x)
        ax.plot(
            x_, y_, color=curve.colour, linestyle=curve.style, label=f"${curve.label}$", linewidth=1.8,
            marker="." if alone else "", markersize=4, markevery=alone,
        )  # fmt: skip
    low, high = min(curve.reach[0] for curve in curves), max(curve.reach[1] for curve in curves)
    if any((curve.broken == POLE).any() for curve in curves) and low < high:
        ax.set_ylim(low - 0.05 * (high - low), high + 0.05 * (high - low))
    ax.grid(color="#e6e6e6", linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize="large")


class _Field:
    """A function of two variables, or of an array of two cells, over points."""

    def __init__(self, f: Callable[..., Any], together: bool, args: tuple[Any, ...]) -> None:
        self.f, self.together, self.args = f, together, args
        self.name = function_name(f)
        shared = [None] * len(args)
        axes = (0, *shared) if together else (0, 0, *shared)
        function = f if isinstance(f, Function) else Plain(f)
        self._value = Vectorised(function, in_axes=axes)
        self._both = Vectorised(ValueAndGradient(f, 0 if together else (0, 1)), in_axes=axes)

    def _points(self, x: np.ndarray, y: np.ndarray) -> tuple[Any, ...]:
        x, y = x.ravel(), y.ravel()
        return (np.stack([x, y], axis=1), *self.args) if self.together else (x, y, *self.args)

    def value(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """f at the points of a grid."""
        found = _real(self._value(*self._points(x, y)), self.name, self.f)
        if found.shape != (x.size,):
            raise ShapeError(f"{user_line()}: plot: contours need one number for f; {self.name} has shape {found.shape[1:]}")
        return found.reshape(x.shape)

    def gradient(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The two partials at the points of a grid."""
        found = self._both(*self._points(x, y))[1]
        first, second = found.T if self.together else found
        return first.reshape(x.shape), second.reshape(x.shape)

    def names(self, x: float, y: float) -> tuple[str, str, str]:
        """LaTeX of the function and of its variables."""
        graph = Plain(self.f).graph(
            *(leaf[0] for leaf in self._points(np.array([x]), np.array([y]))[: 2 - self.together]), *self.args
        )
        named = [latex_name(name) for name in (graph.outputs[0].name, *(leaf.name for leaf in graph.inputs))]
        return (named[0], f"{named[1]}_{{0}}", f"{named[1]}_{{1}}") if self.together else (named[0], named[1], named[2])


def _draw_field(field: _Field, sides: tuple[Any, Any], ax: Any) -> Any:
    fine = [_samples(side, FIELD, name) for side, name in zip(sides, "xy", strict=True)]
    coarse = [_inner(side, points) for side, points in zip(sides, fine, strict=True)]
    values = field.value(*np.meshgrid(*fine))
    labels = [f"${latex}$" for latex in field.names(fine[0][0], fine[1][0])]
    x, y = np.meshgrid(*coarse)
    u, v = field.gradient(x, y)
    spans = [float(np.ptp(points)) for points in fine]
    equal = max(spans) <= 4 * min(spans)
    u, v = (u, v) if equal else (u * spans[0], v * spans[1])  # by coordinates in which both axes are equally long
    with np.errstate(all="ignore"):
        steep = np.hypot(u, v)
        known = np.isfinite(steep) & (steep > 0)
        middle = float(np.median(steep[known])) if known.any() else 1.0
        share = np.where(known, 1 / (steep + middle), np.nan)  # of a length of less than 1
    ax = _axes(ax, (5.8, float(np.clip(4.6 * spans[1] / spans[0] + 0.6, 2.4, 6.4)) if equal else 4.8))
    finite = np.ma.masked_where(~(np.abs(values) < LARGEST), values)
    levels = _levels(finite.compressed())
    if len(levels) > 1:
        colours = matplotlib_module("colors")
        norm = colours.BoundaryNorm(levels, 256, extend="both")
        filled = ax.contourf(*fine, finite, levels=levels, cmap="YlGnBu", norm=norm, extend="both", alpha=0.75)
        ax.contour(*fine, finite, levels=levels, colors="white", linewidths=0.7, linestyles="solid")
        ax.figure.colorbar(filled, ax=ax, label=labels[0], shrink=0.9, ticks=levels, format="%g")
    ax.quiver(
        x, y, u * share, v * share, angles="xy" if equal else "uv", pivot="mid", units="width", scale_units="width",
        scale=ARROWS / 1.2, width=0.004, headwidth=4, headlength=4, headaxislength=3.6, minlength=0.1, color="#333333",
    )  # fmt: skip
    ax.set(xlim=(fine[0][0], fine[0][-1]), ylim=(fine[1][0], fine[1][-1]))
    if equal:
        ax.set_aspect("equal")
    ax.locator_params(nbins=6)
    ax.set_xlabel(labels[1])
    ax.set_ylabel(labels[2])
    ax.set_title(printable(f"{field.name} and its gradient"), fontsize="medium", parse_math=False)
    return ax


def _levels(values: np.ndarray) -> np.ndarray:
    """Where contours are: about equally many cells lie between them, and they have two digits."""
    if not len(values):
        return values
    return np.unique([float(f"{level:.1e}") for level in np.quantile(values, np.linspace(0.03, 0.97, LEVELS))])


def _inner(side: Any, points: np.ndarray) -> np.ndarray:
    """Where arrows are: half a step within an interval, or at points of an array."""
    if isinstance(side, (tuple, list)) and len(side) == 2:
        half = (points[-1] - points[0]) / (2 * ARROWS)
        return np.linspace(points[0] + half, points[-1] - half, ARROWS)
    return points[:: -(-len(points) // ARROWS)]


@charted.written
def cost_chart(cost: Cost, ax: Any = None) -> Any:
    """Bars of counted operations by their kinds; see `Cost.plot`."""
    rows = {"value": cost.value, "derivative": cost.derivative, "both": cost.both}
    total: Counter[str] = Counter()
    for row in rows.values():
        total.update(row.by_kind)
    kinds = [kind for kind, _ in total.most_common()]
    if len(kinds) > len(COLOURS):
        kinds = [*kinds[: len(COLOURS)], "others"]
    ax = _axes(ax, (6.4, 2.4))
    most = max([1, *(row.operations for row in rows.values())])
    starts = dict.fromkeys(rows, 0)
    for kind, colour in zip(kinds, (*COLOURS, GREY), strict=False):
        counts = {
            name: row.by_kind.get(kind, 0) if kind != "others" else sum(row.by_kind.values()) - starts[name]
            for name, row in rows.items()
        }
        bars = ax.barh(list(rows), list(counts.values()), left=list(starts.values()), color=colour, label=kind, height=0.62)
        texts = [str(n) if n > 0.04 * most else "" for n in counts.values()]
        letters = "white" if colour in (BLUE, RED, GREEN, GREY) else "black"
        ax.bar_label(bars, texts, label_type="center", color=letters, fontsize=9)
        starts = {name: starts[name] + counts[name] for name in rows}
    ax.set_yticks(range(len(rows)), [f"{name}  {row.operations:,}" for name, row in rows.items()])
    ax.invert_yaxis()
    ax.set_xlabel(f"operations; both / value = {cost.ratio:.3g}")
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    if kinds:
        ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    return ax
