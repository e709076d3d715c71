"""A graph as a picture: a box for each operation with its formula and the user's line, inputs above, outputs below.

Assumes matplotlib, which is imported when something is drawn, and takes Graphviz' layout where its program `dot` is there.
Guarantees that boxes do not overlap and hold their text. Graphs with more operations than boxes are folded: bindings that
follow each other at one line are one box, then boxes that follow each other, and the picture says so.
"""

import io
import os
import shutil
import sys
import threading
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any, NamedTuple

from symdiff.errors import ExportError, MissingPackageError
from symdiff.inspection.pictures.layering import Layout, Point, shown_by_dot, shown_layers
from symdiff.inspection.pictures.plotting import BLUE, GREEN, GREY, ORANGE, check_axes, matplotlib_module
from symdiff.ir import graph as graphs
from symdiff.ir.graph import Graph, node_type
from symdiff.ir.node import Node
from symdiff.vocabulary.choices import check_options
from symdiff.vocabulary.libraries import user_line
from symdiff.vocabulary.literals import printable
from symdiff.vocabulary.locks import free_in_children
from symdiff.vocabulary.ops import OPS

BOXES = 60  # of a picture, where nothing else is said
SIZE, SMALL, COLUMN = 9.0, 7.0, 0.61  # of letters, in points; the width of one in sizes
EACH = 1000  # boxes that a picture of every step may have, for it to be proposed
LONGEST, HEADLINE, WIDEST = (
    44,
    110,
    960.0,
)  # columns of a line and of the first one; points of a picture, which is made smaller beyond
_FILLS = {
    "input": ("#e3f1fb", BLUE),
    "value": ("#ffffff", GREY),
    "derivative": ("#e2f4ee", GREEN),
    "output": ("#fdf1d8", ORANGE),
}
_PLAIN = dict.fromkeys(("Date", "Creator", "Format", "Type"))
_lock = threading.RLock()
free_in_children(_lock)
_TELLS = {"value": "your operations", "derivative": "the derivative's"}


class Box(NamedTuple):
    """What a box says, line by line, the first one larger; `kind` is input, value (the user's own), derivative or output."""

    kind: str
    lines: tuple[str, ...]

    @property
    def size(self) -> Point:
        """Width and height in points."""
        letters = [SIZE] + [SMALL] * (len(self.lines) - 1)
        wide = max(_columns(line) * COLUMN * size for line, size in zip(self.lines, letters, strict=True))
        return max(wide + 12.0, 30.0), sum(1.3 * size for size in letters) + 8.0


@dataclass(frozen=True, slots=True, repr=False)
class Diagram:
    """The picture of a graph: `boxes`, and `edges` between them by their places. Jupyter shows it; `save` writes a file."""

    title: str
    boxes: tuple[Box, ...]
    edges: tuple[tuple[int, int], ...]
    remark: str = ""
    layout: str | None = None

    def __repr__(self) -> str:
        return f"<picture of {self.title}: {len(self.boxes)} boxes>"

    def save(self, path: Any) -> None:
        """Write the picture; the name's ending says how: .svg, .png, .pdf. The same picture has the same bytes as SVG.

        Raises `MissingPackageError` without matplotlib, `ExportError` for an ending that it does not write.
        """
        _, figure = self._drawn()
        with _same_bytes():
            try:
                figure.savefig(path, dpi=200, metadata=_PLAIN if str(path).endswith(".svg") else None)
            except ValueError as error:
                raise ExportError(f"{user_line()}: {path}: {error}") from None

    def draw(self, ax: Any) -> Any:
        """Draw into Axes, which are returned; letters are as large as the axes allow when they are drawn into."""
        check_axes(ax)
        return self._fill(ax, self._placed())

    def _placed(self) -> Layout:
        sizes = [box.size for box in self.boxes]
        last = [place for place, box in enumerate(self.boxes) if box.kind == "output"]
        dot = None if self.layout == "layers" else shutil.which("dot")
        if self.layout == "dot" and dot is None:
            raise MissingPackageError(
                f"{user_line()}: plot: layout='dot' needs Graphviz' program dot; layout='layers' does without it"
            )
        return shown_by_dot(dot, sizes, self.edges, last) if dot else shown_layers(sizes, self.edges, last)

    def _drawn(self) -> tuple[Any, Any]:
        """The picture in a figure of its own size."""
        figures = matplotlib_module("figure")
        placed = self._placed()
        left, low, right, high = self._extent(placed)
        scale = min(1.0, WIDEST / (right - left)) / 72
        figure = figures.Figure(figsize=((right - left) * scale, (high - low) * scale))
        return self._fill(figure.add_axes((0, 0, 1, 1)), placed), figure

    def _extent(self, placed: Layout) -> tuple[float, float, float, float]:
        """Left, bottom, right and top of boxes, title and legend, in points."""
        wide = max(placed.width, _columns(self.title) * COLUMN * SIZE, _columns(self._legend()) * COLUMN * SMALL + 30)
        spare = (wide - placed.width) / 2
        return -spare - 8, -28.0, placed.width + spare + 8, placed.height + 28

    def _legend(self) -> str:
        return "    ".join([*(text for kind, text in self._told()), *([self.remark] if self.remark else [])])

    def _told(self) -> list[tuple[str, str]]:
        """The kinds of operations, where there are several."""
        kinds = {box.kind for box in self.boxes}
        return [(kind, text) for kind, text in _TELLS.items() if kind in kinds] if "derivative" in kinds else []

    def _fill(self, ax: Any, placed: Layout) -> Any:
        patches, path = matplotlib_module("patches"), matplotlib_module("path").Path
        left, low, right, high = self._extent(placed)
        ax.set(xlim=(left, right), ylim=(low, high), aspect="equal")
        ax.set_axis_off()
        inside = ax.get_window_extent()
        points = 72 / ax.figure.dpi
        scale = min(inside.width * points / (right - left), inside.height * points / (high - low))

        def write(x: float, y: float, text: str, size: float, **options: Any) -> None:
            ax.text(x, y, text, size=size * scale, family="monospace", parse_math=False, **options)

        for curve in placed.curves:
            codes = [path.MOVETO] + [path.CURVE4] * (len(curve) - 1)
            arrow = patches.FancyArrowPatch(
                path=path(curve, codes), arrowstyle="-|>", mutation_scale=7 * scale, shrinkA=0, shrinkB=0,
                color="#8a8a8a", linewidth=0.9 * scale, zorder=1, clip_on=False, capstyle="butt", joinstyle="miter",
            )  # fmt: skip
            ax.add_patch(arrow)
        for box, (x, y) in zip(self.boxes, placed.places, strict=True):
            (width, height), (fill, edge) = box.size, _FILLS[box.kind]
            corner = patches.FancyBboxPatch(
                (x - width / 2 + 4, y - height / 2 + 4), width - 8, height - 8, boxstyle="round,pad=4",
                facecolor=fill, edgecolor=edge, linewidth=1.1 * scale, zorder=2, clip_on=False,
            )  # fmt: skip
            ax.add_patch(corner)
            top = y + height / 2 - 4
            for k, line in enumerate(box.lines):
                size = SMALL if k else SIZE
                write(x, top - 0.62 * size, line, size, ha="center", va="center", color="#555555" if k else "black", zorder=3)
                top -= 1.3 * size
        write(left + 8, high - 6, self.title, SIZE, ha="left", va="top", weight="bold")
        x = left + 8
        for kind, text in self._told():
            fill, edge = _FILLS[kind]
            ax.add_patch(patches.Rectangle((x, low + 8), 8, 8, facecolor=fill, edgecolor=edge, linewidth=1.1 * scale))
            write(x + 12, low + 12, text, SMALL, ha="left", va="center", color="#555555")
            x += 12 + (_columns(text) + 3) * COLUMN * SMALL
        write(x, low + 12, self.remark, SMALL, ha="left", va="center", color="#555555")
        return ax

    def _repr_svg_(self) -> str:
        text = io.StringIO()
        _, figure = self._drawn()
        with _same_bytes():
            figure.savefig(text, format="svg", metadata=_PLAIN)
        return text.getvalue()


@contextmanager
def _same_bytes() -> Iterator[None]:
    """Settings by which matplotlib writes the same SVG each time, with text as text; they are of all threads."""
    own = {"svg.hashsalt": "symdiff", "svg.fonttype": "none", "font.monospace": ["DejaVu Sans Mono"]}
    with _lock, matplotlib_module().rc_context(own):
        yield


def _columns(text: str) -> int:
    """How many letters wide a text is."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


@graphs.plotted.written
def shown_diagram(graph: Graph, ax: Any = None, **options: Any) -> Any:
    """The picture of a graph, or the Axes that it is drawn into; see `Graph.plot`."""
    check_options("plot", options, ("boxes", "layout"))
    drawing = _Drawing(graph, options.get("boxes", BOXES))
    diagram = Diagram(printable(_shortened(graph.headline(), HEADLINE)), *drawing.parts(), options.get("layout"))
    return diagram if ax is None else diagram.draw(ax)


class _Drawing:
    """The boxes and edges of a graph, in at most so many boxes."""

    def __init__(self, graph: Graph, most: int) -> None:
        self.graph = graph
        self.boxes: list[Box] = []
        self.edges: dict[tuple[int, int], None] = {}
        self.at: dict[Node, int] = {}
        self.names: dict[Node, str] = {}
        self.derived: set[Node] = set()
        self.cells = _cells_of_notebook()
        for binding in graph.bindings:
            if not binding.primal or not self.derived.isdisjoint(binding.operands):
                self.derived.add(binding)
        self.folded = len(graph.bindings) + len(graph.inputs) + len(graph.outputs) > most
        self.ends = max(1, most // 5) if self.folded else most  # boxes of inputs, and of outputs
        self.room = max(1, most - min(self.ends, len(graph.inputs)) - min(self.ends, len(graph.outputs)))

    def parts(self) -> tuple[tuple[Box, ...], tuple[tuple[int, int], ...], str]:
        """Boxes, edges and the remark."""
        bindings = self._take_inputs()
        runs = list(self._runs(bindings))
        if not self.folded:
            runs = [[binding] for binding in bindings]
        elif len(runs) > self.room:
            runs = [[binding for run in runs[i:j] for binding in run] for i, j in _cuts(len(runs), self.room)]
        for run in runs:
            self._take_run(run)
        for group in _groups(self.graph.outputs, self.ends):
            self._add("output", (_listed([o.name for o in group], "outputs"),), [o.atom for o in group])
        all_ = len(bindings) + len(self.graph.inputs) + len(self.graph.outputs)
        more = f"plot(boxes={all_}) shows each" if all_ < EACH else "plot(boxes=...) shows more"
        remark = f"{len(bindings):,} steps folded into {len(runs)} boxes; {more}" if self.folded else ""
        return tuple(self.boxes), tuple(self.edges), remark

    def _take_inputs(self) -> list[Node]:
        """Boxes for the inputs; where only cells of one are read, for each of these cells. The bindings that are left."""
        bindings = self.graph.bindings
        read = {o for b in bindings if b.op != "item" for o in b.operands} | {o.atom for o in self.graph.outputs}
        for binding in bindings:
            if binding.op == "item":
                self.names[binding] = _right_side(binding, self.names)
        cells: dict[Node, list[Node]] = {}
        if not self.folded:
            for binding in bindings:
                if binding.op == "item" and binding.operands[0].op == "input" and binding.operands[0] not in read:
                    cells.setdefault(binding.operands[0], []).append(binding)
        for group in _groups(self.graph.inputs, self.ends):
            leaves = [leaf.node for leaf in group]
            if len(leaves) == 1 and leaves[0] in cells:
                for cell in cells[leaves[0]]:
                    self._add("input", (self.names[cell],), [], [cell])
            else:
                shape = node_type(leaves[0]) if len(leaves) == 1 and leaves[0].shape else ""
                self._add("input", (_listed([leaf.name for leaf in leaves], "inputs"), shape), [], leaves)
        return [b for b in bindings if b not in self.at]

    def _runs(self, bindings: Sequence[Node]) -> Iterator[list[Node]]:
        """Bindings that follow each other at one line, all the user's or all the derivative's."""
        for _, run in groupby(bindings, lambda b: (b.origin, b in self.derived)):
            yield list(run)

    def _take_run(self, run: list[Node]) -> None:
        if len(run) == 1:
            binding = run[0]
            own = self.names.get(binding)
            text = own or f"{binding.name} = {_right_side(binding, self.names)}"
            shape, place = node_type(binding) if binding.shape else "", "" if own else self._place(binding.origin)
            lines = [text, "  ".join(filter(None, [shape, place]))]
            if binding.op == "loop":
                lines += *_counted(binding.params.body.bindings), self._place(_lines_of(binding.params.body.bindings))
        else:
            lines = [*_counted(run), self._place(_lines_of(run))]
        kind = "derivative" if self.derived.issuperset(run) else "value"
        self._add(kind, lines, [o for b in run for o in b.operands], run)

    def _place(self, place: str) -> str:
        """A file and its lines, a notebook's cell by its number."""
        file, colon, lines = place.partition(":")
        return f"{self.cells.get(file, file)}{colon}{lines}"

    def _add(self, kind: str, lines: Sequence[str], operands: Sequence[Node], holds: Sequence[Node] = ()) -> None:
        place = len(self.boxes)
        self.boxes.append(Box(kind, tuple(printable(_shortened(line, LONGEST)) for line in lines if line)))
        self.at.update(dict.fromkeys(holds, place))
        for operand in operands:
            source = self.at.get(operand, place)
            if source != place:
                self.edges[source, place] = None


def _right_side(binding: Node, names: dict[Node, str]) -> str:
    """The operation as a formula over names."""
    operands = [names.get(o) or o.name for o in binding.operands]
    row = OPS.get(binding.op)
    template = None if row is None else row.python_complex or row.python
    if template and "." not in template:
        return template.format(*(f"({name})" if name.startswith("-") else name for name in operands))
    if binding.op in ("item", "part", "loop", "size"):
        return binding.told(names).partition(" = ")[2]
    if binding.op == "array":
        return f"[{', '.join(operands)}]"
    if binding.op == "call":
        return f"{binding.params.__name__}({', '.join(operands)})"
    parameters = [] if binding.params is None else [f"{key}={value}" for key, value in binding.params.items()]
    return f"{binding.op}({', '.join([*operands, *parameters])})"


def _counted(run: Sequence[Node]) -> tuple[str, str]:
    """How many operations there are, and the most frequent kinds."""
    kinds = Counter(b.op for b in run if b.op != "item").most_common()
    listed = [f"{count} {kind}" for kind, count in kinds[:3]] + ["..."] * (len(kinds) > 3)
    operations = sum(count for _, count in kinds)
    total = f"{operations:,} operation{'' if operations == 1 else 's'}" if operations else f"{len(run):,} cells"
    return total, ", ".join(listed)


def _cuts(count: int, groups: int) -> list[tuple[int, int]]:
    """Bounds of so many groups of nearly equal size."""
    bounds = [count * k // groups for k in range(groups + 1)]
    return list(pairwise(bounds))


def _groups(leaves: Sequence[Any], most: int) -> list[Sequence[Any]]:
    return [leaves[i:j] for i, j in _cuts(len(leaves), max(1, min(len(leaves), most))) if i < j]


def _listed(names: list[str], what: str) -> str:
    return names[0] if len(names) == 1 else f"{len(names)} {what}, {names[0]} ... {names[-1]}"


def _cells_of_notebook() -> dict[str, str]:
    """What IPython calls its cells, by the names of their files, where it runs."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    found = getattr(getattr(shell, "compile", None), "_filename_map", {})
    return {os.path.basename(path): f"In[{number}]" for path, number in found.items()}


def _lines_of(run: Sequence[Node]) -> str:
    """The places of a run: file.py:3-17, another file after it."""
    files: dict[str, list[int]] = {}
    for binding in run:
        file, _, line = binding.origin.rpartition(":")
        if line.isdecimal():
            files.setdefault(file, []).append(int(line))
    return ", ".join(f"{f}:{min(n)}" + (f"-{max(n)}" if max(n) > min(n) else "") for f, n in files.items())


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."
