"""The ratio of the derivative's time to the function's, against n.

Assumes rows of one run, and matplotlib. Guarantees the same bytes for the same rows. Refuses nothing.
"""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.measuring import Row

COLOURS = {
    "symdiff, .kernel": "#c2185b",
    "symdiff": "#f06292",
    "C by hand, direct call": "#212121",
    "by hand, Python and NumPy": "#9e9e9e",
    "numba, by hand": "#795548",
    "CasADi": "#1565c0",
    "heyoka": "#00897b",
    "symengine Lambdify(cse=True)": "#7cb342",
    "SymPy lambdify(cse=True)": "#fbc02d",
    "JAX, jit": "#6a1b9a",
    "PyTorch": "#ef6c00",
    "autograd": "#90a4ae",
}


def panels(cases: Sequence[Sequence[Row]]) -> dict[str, dict[str, list[tuple[int, float]]]]:
    """For each problem measured at several sizes, each contender's ratios as pairs (n, ratio)."""
    found: dict[str, dict[str, list[tuple[int, float]]]] = {}
    for rows in cases:
        for row in rows:
            if row.ratio is not None and row.contender.label in COLOURS:
                found.setdefault(row.case.name, {}).setdefault(row.contender.label, []).append((row.case.n, row.ratio))
    return {name: lines for name, lines in found.items() if len({n for line in lines.values() for n, _ in line}) > 1}


def draw(cases: Sequence[Sequence[Row]], path: Path) -> None:
    """Write the picture, a panel for each problem."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    drawn = panels(cases)
    style = {"svg.hashsalt": "symdiff", "svg.fonttype": "none", "font.size": 9, "path.simplify": False}
    with pyplot.rc_context(style):
        rows = -(-len(drawn) // 2)
        figure, axes = pyplot.subplots(rows, 2, figsize=(9, 3.1 * rows + 0.6), squeeze=False, layout="constrained")
        for axis, (name, lines) in zip(axes.flat, drawn.items(), strict=False):
            for label, points in lines.items():
                axis.plot(*zip(*points, strict=True), "o-", color=COLOURS[label], label=label, linewidth=1.3, markersize=3)
            axis.set(title=name, xscale="log", yscale="log", xlabel="n", ylabel="time to that of f")
            axis.grid(color="#eeeeee")
            axis.spines[["top", "right"]].set_visible(False)
        for axis in axes.flat[len(drawn) :]:
            axis.set_visible(False)
        named = dict(pair for axis in axes.flat for pair in zip(*reversed(axis.get_legend_handles_labels()), strict=True))
        figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=4, frameon=False)
        figure.savefig(path, format="svg", metadata={"Date": None})
        pyplot.close(figure)
