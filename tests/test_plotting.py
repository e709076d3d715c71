"""Pictures: what is drawn are the values of derivatives, boxes say what the graph does, no line crosses a pole."""

import inspect
import itertools
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from inside import broken_intervals, shown_by_dot, shown_layers

import symdiff as sd

matplotlib = pytest.importorskip("matplotlib", reason="pictures need matplotlib: pip install 'symdiff[plot]'")
pyplot = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def closed():
    pyplot.switch_backend("agg")
    yield
    pyplot.close("all")


def energy(x):
    r = x[0] ** 2 + x[1] ** 2
    return r * np.exp(-r)


def rounds(x):
    for k in range(100):
        y = np.sin(x)
        x = y + k
    return x


# -- graphs


def line_of(f, nth):
    return f"test_plotting.py:{inspect.getsourcelines(f)[1] + nth}"


def arrows(picture):
    return {(picture.boxes[a].lines[0], picture.boxes[b].lines[0]) for a, b in picture.edges}


def test_boxes_of_a_graph():
    picture = sd.trace(energy, np.ones(2)).plot()
    squares = ("v1 = x[0]**2", line_of(energy, 1)), ("v3 = x[1]**2", line_of(energy, 1))
    assert [box.lines for box in picture.boxes] == [
        ("x[0]",),
        ("x[1]",),
        *squares,
        ("v4 = v1 + v3", line_of(energy, 1)),
        ("v5 = -v4", line_of(energy, 2)),
        ("v6 = exp(v5)", line_of(energy, 2)),
        ("v7 = v4*v6", line_of(energy, 2)),
        ("f",),
    ]
    assert [box.kind for box in picture.boxes] == ["input"] * 2 + ["value"] * 6 + ["output"]
    assert ("x[1]", "v3 = x[1]**2") in arrows(picture) and ("v7 = v4*v6", "f") in arrows(picture)
    assert len(picture.edges) == 9
    assert picture.remark == ""


def test_a_derivative_tells_its_own_operations_from_the_users():
    derivative = sd.value_and_grad(energy)
    picture = derivative.plot(np.ones(2))
    graph = derivative.graph(np.ones(2))
    kinds = {box.lines[0].split(" = ")[0]: box.kind for box in picture.boxes}
    assert kinds["v6"] == "value" and kinds["f"] == kinds["df_dx"] == "output"
    own = {b.name for b in graph.bindings if not b.primal}
    assert own and all(kinds[name] == "derivative" for name in own)
    assert kinds[graph.outputs[1].atom.name] == "derivative"  # its cells put together
    assert "the derivative's" in text_of(picture)


def text_of(picture):
    return picture._repr_svg_()


def test_a_cell_of_a_notebook_has_its_number(monkeypatch):
    shell = SimpleNamespace(compile=SimpleNamespace(_filename_map={__file__: 7}))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    steps = [box for box in sd.trace(energy, np.ones(2)).plot().boxes if box.kind == "value"]
    assert steps[0].lines[1] == line_of(energy, 1).replace("test_plotting.py", "In[7]")
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    assert sd.trace(energy, np.ones(2)).plot().boxes[2].lines[1] == line_of(energy, 1)


@pytest.mark.parametrize("layout", [None, "layers"])
def test_svg(layout, tmp_path):
    picture = sd.grad(energy).graph(np.ones(2)).plot(layout=layout)
    text = text_of(picture)
    assert text.startswith("<?xml") and text == text_of(picture)
    for box in picture.boxes:
        assert f">{box.lines[0]}</text>" in text
    picture.save(tmp_path / "graph.svg")
    assert (tmp_path / "graph.svg").read_text(encoding="utf-8") == text
    picture.save(tmp_path / "graph.png")
    assert (tmp_path / "graph.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(sd.ExportError, match=r"test_plotting.py.*xyz"):
        picture.save(tmp_path / "graph.xyz")


def test_axes_given_are_returned():
    ax = pyplot.figure().add_subplot()
    assert sd.trace(energy, np.ones(2)).plot(ax) is ax
    assert "v5 = -v4" in {text.get_text() for text in ax.texts}
    assert sd.grad(energy).plot(np.ones(2), ax=ax) is ax
    assert sd.plot(np.sin, (0, 1), ax=ax) is ax
    assert sd.cost(energy, np.ones(2)).plot(ax) is ax
    for call in (lambda: sd.trace(np.sin, 1.0).plot(3), lambda: sd.plot(np.sin, (0, 1), ax=3)):
        with pytest.raises(sd.OptionError, match=r"test_plotting.py.*Axes"):
            call()


FOLDED = {
    "one line after the other": (rounds, (1.0,), 60),
    "fewer boxes than lines": (rounds, (1.0,), 7),
    "one box": (rounds, (1.0,), 1),
    "many inputs": (lambda d: sum(d.values()), ({f"k{i}": 1.0 * i for i in range(90)},), 20),
    "many outputs": (lambda x: [x * k for k in range(90)], (1.0,), 20),
}


@pytest.mark.parametrize("name", FOLDED)
def test_large_graphs_are_folded(name):
    f, args, most = FOLDED[name]
    graph = sd.trace(f, *args)
    picture = graph.plot(boxes=most)
    assert len(picture.boxes) <= max(most, 3)
    assert "folded" in picture.remark and f"{len(graph.bindings)} steps" in picture.remark
    assert picture.remark in text_of(picture)
    assert all(a < b for a, b in picture.edges)
    reached = {0}
    for a, b in sorted(picture.edges, key=lambda edge: edge[1]):
        reached |= {b} if a in reached else set()
    assert len(picture.boxes) - 1 in reached  # the last output needs the first input


def test_what_is_folded_is_counted():
    steps = [box for box in sd.trace(rounds, 1.0).plot(boxes=22).boxes if box.kind == "value"]
    assert sum(int(box.lines[0].split()[0]) for box in steps) == 200
    first, last = line_of(rounds, 2), line_of(rounds, 3).rpartition(":")[2]
    assert all(box.lines[1:] == ("5 sin, 5 add", f"{first}-{last}") for box in steps)


PROGRAMS = {
    "no operation": (lambda x: x, (1.0,), "x", "f"),
    "a constant": (lambda x: 3.0, (1.0,), "x", "f"),
    "a choice": (lambda x: x * x if x > 0 else -x, (1.0,), "v3 = v1 if v0 else v2", "v0 = x > 0"),
    "arrays": (
        lambda W, x: np.sum(W @ x, axis=0),
        (np.ones((3, 2)), np.ones((2, 2))),
        "v0 = matmul(W, x)",
        "v1 = sum(v0, axes=(0,))",
    ),
    "a power and a quotient": (lambda x, y: 2 / x**3 - y, (1.0, 2.0), "v0 = x**3", "v1 = 2/v0"),
    "no input": (lambda n: np.sin(1.0) * n, (3,), "f"),
    "negative numbers": (lambda x: (-2.0) ** x - x * (-3.0), (1.0,), "v0 = (-2.0)**x", "v1 = x*(-3.0)"),
    "names": (lambda p: p["a $b$"] + p["<c>"], ({"a $b$": 1.0, "<c>": 2.0},), "p_a_b", "p_c"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    f, args, *wanted = PROGRAMS[name]
    picture = sd.trace(f, *args).plot()
    assert set(wanted) <= {box.lines[0] for box in picture.boxes}
    assert text_of(picture)


def test_a_loop_tells_what_a_round_does():
    from test_loop_bindings import stencil

    boxes = {box.lines[0]: box.lines[1:] for box in stencil().plot().boxes}
    (told,) = (lines for text, lines in boxes.items() if text.startswith("v0 = loop k < n-2"))
    assert told[:2] == ("6 operations", "2 mul, 2 add, 1 sub, ...") and told[2].startswith("test_loop_bindings.py:")
    assert boxes["u"] == ("f64[n]",)


def test_a_long_program_is_drawn_quickly():
    def long(x):
        for k in range(5000):
            x = np.sin(x) + k
        return x

    picture = sd.trace(long, 1.0).plot()
    assert picture.remark.startswith("10,000 steps")
    assert "10,000 operations" in text_of(picture)


def rectangles(layout, sizes):
    return [(x - w / 2, x + w / 2, y - h / 2, y + h / 2) for (x, y), (w, h) in zip(layout.places, sizes, strict=True)]


def check_layout(layout, sizes, edges):
    boxes = rectangles(layout, sizes)
    for a, b in itertools.combinations(boxes, 2):
        assert a[1] <= b[0] + 1e-6 or b[1] <= a[0] + 1e-6 or a[3] <= b[2] + 1e-6 or b[3] <= a[2] + 1e-6
    for left, right, low, high in boxes:
        assert left >= -1e-6 and low >= -1e-6 and right <= layout.width + 1e-6 and high <= layout.height + 1e-6
    for (a, b), curve in zip(edges, layout.curves, strict=True):
        assert len(curve) % 3 == 1
        assert boxes[a][0] <= curve[0][0] <= boxes[a][1] and curve[0][1] == pytest.approx(boxes[a][2], abs=1)
        assert boxes[b][0] <= curve[-1][0] <= boxes[b][1] and curve[-1][1] == pytest.approx(boxes[b][3], abs=1)


@pytest.mark.parametrize("seed", range(6))
def test_layers(seed):
    rng = np.random.default_rng(seed)
    sizes = [(float(w), float(h)) for w, h in zip(rng.uniform(20, 160, 40), rng.uniform(10, 40, 40), strict=True)]
    edges = sorted({(int(rng.integers(0, k)), k) for k in range(3, 40) for _ in range(2)})
    layout = shown_layers(sizes, edges, [39])
    check_layout(layout, sizes, edges)
    assert layout == shown_layers(sizes, edges, [39])
    assert all(layout.places[a][1] > layout.places[b][1] for a, b in edges)
    sources = set(range(40)) - {b for _, b in edges}
    assert all(layout.places[k][1] + sizes[k][1] / 2 <= layout.height for k in sources)
    assert layout.places[39][1] == min(y for _, y in layout.places)
    for curve, (a, b) in zip(layout.curves, edges, strict=True):  # not through a box in between
        for box, rectangle in enumerate(rectangles(layout, sizes)):
            knots = curve[3:-1:3]
            assert box in (a, b) or not any(
                rectangle[0] < x < rectangle[1] and rectangle[2] < y < rectangle[3] for x, y in knots
            )


DOT = """\
import re, sys
text = sys.stdin.read()
nodes = re.findall(r"^(\\d+) \\[width=([\\d.]+) height=([\\d.]+)\\]", text, re.M)
edges = re.findall(r"^(\\d+) -> (\\d+)", text, re.M)
assert "rank=source 0 1" in text and "rank=sink 2" in text
print("graph 1 2 3")
for k, (name, w, h) in enumerate(nodes):
    print("node", name, 0.5 * k + 0.5, 2.5 - k, w, h, "_ solid box black lightgrey")
for a, b in edges:
    print("edge", a, b, 4, *[0.25 * n for n in range(8)], "solid black")
print("stop")
"""


def test_the_layout_of_graphviz(tmp_path):
    """Its program is stood in for: what it is told, and how its answer is read."""
    dot = tmp_path / "dot"
    dot.write_text(f"#!{sys.executable}\n{DOT}")
    dot.chmod(0o755)
    layout = shown_by_dot(str(dot), [(36.0, 18.0)] * 3, [(0, 2), (1, 2)], [2])
    assert layout.places == [(36.0, 180.0), (72.0, 108.0), (108.0, 36.0)]
    assert layout.curves[1] == [(0.0, 18.0), (36.0, 54.0), (72.0, 90.0), (108.0, 126.0)]
    assert (layout.width, layout.height) == (144.0, 216.0)
    dot.write_text(f"#!{sys.executable}\nraise SystemExit('no fonts')\n")
    with pytest.raises(sd.BackendError, match=r"no fonts.*layers"):
        shown_by_dot(str(dot), [(36.0, 18.0)], [], [])


def test_settings_are_the_users_again_after_several_threads():
    before = dict(matplotlib.rcParams)
    picture = sd.trace(np.sin, 1.0).plot()
    threads = [threading.Thread(target=picture._repr_svg_) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert dict(matplotlib.rcParams) == before


def test_graphviz_is_missing(monkeypatch):
    monkeypatch.setenv("PATH", "")
    picture = sd.trace(np.sin, 1.0).plot(layout="dot")
    with pytest.raises(sd.MissingPackageError, match=r"test_plotting.py.*layers"):
        text_of(picture)
    assert text_of(sd.trace(np.sin, 1.0).plot())


# -- curves


def curves(ax):
    return [line.get_data() for line in ax.get_lines()]


def test_curves_are_the_derivatives_values():
    f, a = (lambda x, a, n: np.exp(-a * x) * x**n), 0.7
    ax = sd.plot(f, (0.5, 3.0), args=(a, 2), order=2)
    (x, value), (x1, slope), (x2, second) = curves(ax)
    assert (x == x1).all() and (x == x2).all() and (x[0], x[-1]) == (0.5, 3.0) and len(x) == 400
    np.testing.assert_allclose(value, f(x, a, 2), rtol=1e-14)
    np.testing.assert_array_equal(slope, sd.derivative(f)(x, a, 2))
    np.testing.assert_allclose(second, sd.derivative(f, order=2)(x, a, 2), rtol=1e-12)


def test_labels_are_the_left_sides_of_the_formulas():
    def height(t_0):
        return np.sin(t_0)

    ax = sd.plot(height, (0.0, 1.0), order=2)
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["$f$", r"$\frac{d f}{d t_{0}}$", r"$\frac{d^{2} f}{d t_{0}^{2}}$"]
    assert (ax.get_xlabel(), ax.get_title()) == ("$t_{0}$", "height")
    ax = sd.plot(lambda x, a: a * x, (0.0, 1.0), args=(2.0,))
    assert ax.get_legend().get_texts()[1].get_text() == r"$\frac{\partial f}{\partial x}$"
    assert len(sd.plot(np.sin, (0.0, 1.0), order=4).get_legend().get_texts()) == 5
    assert sd.plot(lambda semi_major: semi_major**2, (0.0, 1.0)).get_xlabel() == r"$\mathrm{semi\_major}$"


@pytest.mark.parametrize("name", "_ __ x_ _x x_1 x_1_2 speed_max lambda_ \u03b1_0 xhat x_dot vec".split())
def test_names_are_labels(name):
    found: dict = {}
    exec(f"def f({name}, y): return np.sin({name}) * y", {"np": np}, found)
    for ax in (sd.plot(found["f"], (0.0, 1.0), args=(2.0,)), sd.plot(found["f"], (0.0, 1.0), (0.0, 1.0))):
        ax.figure.canvas.draw()
        assert ax.get_xlabel().strip("$")


def test_points_are_those_given():
    for points in (np.array([0.0, 0.5, 2.0]), [0, 1, 2, 5], np.arange(3), np.linspace(0, 1, 9, dtype=np.float32)):
        (x, value), (_, slope) = curves(sd.plot(np.sin, points))
        np.testing.assert_array_equal(x, points)
        np.testing.assert_allclose(slope, np.cos(np.asarray(points, dtype=float)), rtol=1e-6)
        np.testing.assert_allclose(value, np.sin(np.asarray(points, dtype=float)), rtol=1e-6)


def test_a_curve_for_each_cell():
    ax = sd.plot(lambda t: {"a": np.array([np.sin(t), np.cos(t)]), "b": t * t}, (0.0, 1.0))
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    x = np.linspace(0.0, 1.0, 400)
    wanted = [np.sin(x), np.cos(x), x * x, np.cos(x), -np.sin(x), 2 * x]
    assert len(labels) == len(set(labels)) == 6
    for (_, y), expected in zip(curves(ax), wanted, strict=True):
        np.testing.assert_allclose(y, expected, atol=1e-14)
    with pytest.raises(sd.ShapeError, match="50 cells"):
        sd.plot(lambda t: t * np.arange(50), (0.0, 1.0))


GAPS = {
    "a pole between samples": (lambda x: 1 / x, [0.0], [0.0]),
    "a pole at a sample": (lambda x: 1 / (x + 1), [-1.0], [-1.0]),
    "an even pole": (lambda x: 1 / (x - 0.3) ** 2, [0.3], [0.3]),
    "tan": (lambda x: np.tan(2 * x), [-np.pi / 4, np.pi / 4], [-np.pi / 4, np.pi / 4]),
    "a jump": (lambda x: np.floor(x) * x, [0.5 - 0.5], None),
    "a kink": (abs, [], [0.0]),
    "a branch": (lambda x: x * x if x < 0.4 else x + 1, [0.4], [0.4]),
    "a logarithm": (lambda x: np.log(abs(x - 0.1)), [0.1], [0.1]),
    "a cusp": (lambda x: np.cbrt(x - 0.01), [], [0.01]),
    "steep but continuous": (lambda x: np.tanh(1e5 * (x - 0.2345)), [], []),
    "fast": (lambda x: np.sin(900 * x), [], []),
    "smooth": (lambda x: np.exp(-x * x), [], []),
    "constant": (lambda x: 1.5, [], []),
    "half of it": (np.log, None, None),
}


def raising(x):
    if x == 0:
        raise ValueError("nothing at 0")
    return x if x < 0 else x + 1


@pytest.mark.parametrize("name", GAPS)
def test_gaps(name):
    f, *wanted = GAPS[name]
    ax = sd.plot(f, (-1.0, 1.0))
    for (x, y), places in zip(curves(ax), wanted, strict=True):
        gap = np.flatnonzero(np.isnan(x))
        assert np.isnan(y[gap]).all()
        steps = np.diff(x[~np.isnan(x)])
        assert (steps > 0).all()
        if places is not None and name != "a jump":
            assert len(gap) == len(places)
            for k, place in zip(gap, places, strict=True):
                assert x[k - 1] <= place <= x[k + 1] and x[k + 1] - x[k - 1] <= 2 * steps.max() + 1e-12
    assert np.isfinite(ax.get_ylim()).all()
    if "pole" in name:
        assert max(map(abs, ax.get_ylim())) < 1e4  # not what a sample beside a pole happens to be


def test_a_peak_is_shown_whole_beside_a_jump():
    (_, y), _ = curves(ax := sd.plot(lambda x: 10 * np.exp(-100 * x * x) + (x > 0.5), (-1.0, 1.0)))
    assert ax.get_ylim()[1] > np.nanmax(y) > 9


def test_points_that_stand_alone_are_dots():
    ax = sd.plot(np.floor, np.arange(10))
    assert ax.get_lines()[0].get_markevery() == list(range(0, 20, 2)) and not ax.get_lines()[1].get_markevery()


def test_rounding_is_no_jump():
    for dtype in (np.float64, np.float32):
        x, _ = curves(sd.plot(lambda x: np.sin(x) ** 2 + np.cos(x) ** 2, np.linspace(0, 9, 300, dtype=dtype)))[0]
        assert len(x) == 300


def test_a_jump_is_found_wherever_it_is():
    x = np.linspace(0.0, 1.0, 12)
    for place in np.random.default_rng(0).uniform(0.0, 1.0, 50):
        for g in (lambda t, p=place: (t > p) + t, lambda t, p=place: 1 / (t - p), lambda t, p=place: 1 / (t - p) ** 2):
            broken = np.flatnonzero(broken_intervals(g, x, g(x)))
            assert x[broken[0]] <= place <= x[broken[0] + 1] and len(broken) == 1


def rosenbrock(x, y, a=1.0, b=100.0):
    return (a - x) ** 2 + b * (y - x * x) ** 2


@pytest.mark.parametrize("together", [False, True])
def test_a_field_of_gradients(together):
    if together:
        ax = sd.plot(lambda x: rosenbrock(x[0], x[1]), [(-2, 2), (-1, 3)])
    else:
        ax = sd.plot(rosenbrock, (-2, 2), (-1, 3), args=(1.0, 100.0))
    arrows = next(c for c in ax.collections if isinstance(c, matplotlib.quiver.Quiver))
    x, y, u, v = (np.asarray(part, dtype=float) for part in (arrows.X, arrows.Y, arrows.U, arrows.V))
    g_x, g_y = sd.vmap(sd.grad(rosenbrock, (0, 1)))(x, y)
    steep = np.hypot(g_x, g_y)
    np.testing.assert_allclose(u * g_y, v * g_x, atol=1e-9)
    assert (u * g_x + v * g_y > 0).all()
    np.testing.assert_allclose(np.hypot(u, v), steep / (steep + np.median(steep)), rtol=1e-12)
    filled = next(c for c in ax.collections if isinstance(c, matplotlib.contour.QuadContourSet))
    grid_x, grid_y = np.meshgrid(np.linspace(-2, 2, 121), np.linspace(-1, 3, 121))
    np.testing.assert_allclose(filled.zmax, rosenbrock(grid_x, grid_y).max(), rtol=1e-12)
    assert ax.get_aspect() == 1.0
    assert (ax.get_xlabel(), ax.get_ylabel()) == (("$x_{0}$", "$x_{1}$") if together else ("$x$", "$y$"))


def test_fields_at_the_edge():
    ax = sd.plot(lambda x, y: np.sqrt(x) / y, (-1.0, 1.0), (0.0, 1000.0))  # half of it is not there, axes of two scales
    arrows = next(c for c in ax.collections if isinstance(c, matplotlib.quiver.Quiver))
    assert arrows.Umask.any() and not arrows.Umask.all()
    assert ax.get_aspect() == "auto"
    for flat in (lambda x, y: 1.0, lambda x, y: np.exp(1e4 * x * y), lambda x, y: np.sqrt(-1 - x * x)):
        assert sd.plot(flat, (-1.0, 1.0), (0.0, 1.0)).get_xlabel() == "$x$"


def test_an_exception_between_points_is_a_gap_and_at_one_the_functions_own():
    for x, _ in curves(sd.plot(raising, np.array([-3.0, -1.0, 1.0, 3.0]))):
        assert np.isnan(x).tolist() == [False, False, True, False, False]
    with pytest.raises(ValueError, match="nothing at 0"):
        sd.plot(raising, np.linspace(-1.0, 1.0, 5))


REFUSED = {
    "complex values": (lambda: sd.plot(lambda x: np.exp(1j * x), (0, 1)), sd.ArgumentError, "complex values.*f.x..real"),
    "a complex field": (lambda: sd.plot(lambda x, y: x + 1j * y, (0, 1), (0, 1)), sd.ArgumentError, "complex values"),
    "complex points": (lambda: sd.plot(np.exp, np.array([1j, 2])), sd.ShapeError, "real"),
    "a number": (lambda: sd.plot(np.exp, 1.0), sd.ShapeError, "interval"),
    "text": (lambda: sd.plot(np.exp, "ab"), sd.ShapeError, "interval"),
    "ragged": (lambda: sd.plot(np.exp, [1, (2, 3)]), sd.ShapeError, "interval"),
    "one point": (lambda: sd.plot(np.exp, [1.0]), sd.ShapeError, "interval"),
    "a grid": (lambda: sd.plot(np.exp, np.ones((2, 2))), sd.ShapeError, "interval"),
    "backwards": (lambda: sd.plot(np.exp, (1, 0)), sd.ShapeError, "increase"),
    "without end": (lambda: sd.plot(np.exp, (0, np.inf)), sd.ShapeError, "finite"),
    "no function": (lambda: sd.plot(3, (0, 1)), sd.ArgumentError, "not a function"),
    "order 0": (lambda: sd.plot(np.exp, (0, 1), order=0), sd.OptionError, "positive"),
    "order of a field": (lambda: sd.plot(rosenbrock, (0, 1), (0, 1), order=2), sd.OptionError, "order 1"),
    "args": (lambda: sd.plot(rosenbrock, (0, 1), args=2.0), sd.ArgumentError, "tuple"),
    "an argument is missing": (lambda: sd.plot(rosenbrock, (0, 1)), sd.ArgumentError, "'y'"),
    "a field of arrays": (lambda: sd.plot(lambda x, y: [x, y], (0, 1), (0, 1)), sd.ShapeError, "one number"),
    "boxes": (lambda: sd.trace(np.sin, 1.0).plot(boxes=0), sd.OptionError, "positive"),
    "layout": (lambda: sd.trace(np.sin, 1.0).plot(layout="neato"), sd.OptionError, "layers"),
    "an option": (lambda: sd.trace(np.sin, 1.0).plot(box=3), sd.OptionError, "did you mean boxes"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    call, error, message = REFUSED[name]
    with pytest.raises(error, match=message) as found:
        call()
    assert "test_plotting.py" in str(found.value)
    assert not pyplot.get_fignums()


# -- cost


def test_bars_of_cost():
    cost = sd.cost(lambda x: x[0] ** 3 * np.exp(x[1]) - x[0], np.ones(2))
    ax = cost.plot()
    found = {}
    for bars in ax.containers:
        for name, bar in zip(("value", "derivative", "both"), bars, strict=True):
            found.setdefault(name, {})[bars.get_label()] = bar.get_width()
    for name, counts in found.items():
        assert {kind: n for kind, n in counts.items() if n} == getattr(cost, name).by_kind
    assert [t.get_text() for t in ax.get_yticklabels()] == [f"{n}  {getattr(cost, n).operations}" for n in found]
    assert not sd.cost(lambda x: 1.0, 2.0).plot().get_legend()
    many = sd.cost(lambda x: sum(f(x) for f in (np.sin, np.exp, np.tan, np.sqrt, np.tanh, np.log, np.cosh, np.arctan)), 0.5)
    bars = {c.get_label(): [bar.get_width() for bar in c] for c in many.plot().containers}
    assert "others" in bars
    totals = np.sum(list(bars.values()), axis=0)
    assert totals.tolist() == [many.value.operations, many.derivative.operations, many.both.operations]


# -- without matplotlib

MISSING = """
import sys
import numpy as np
import symdiff as sd
x = sd.trace(np.sin, 1.0)
assert "matplotlib" not in sys.modules
picture = x.plot()
cost = sd.cost(np.sin, 1.0)
assert "matplotlib" not in sys.modules and [box.lines[0] for box in picture.boxes] == ["x", "v0 = sin(x)", "f"]
sys.modules["matplotlib"] = None
for call in (lambda: sd.plot(np.sin, (0, 1)), picture._repr_svg_, lambda: picture.save("x.svg"), cost.plot):
    try:
        call()
    except sd.MissingPackageError as error:
        assert "pip install 'symdiff[plot]'" in str(error)
    else:
        raise AssertionError(call)
"""


def test_matplotlib_is_asked_for_when_something_is_drawn():
    subprocess.run([sys.executable, "-W", "error", "-c", textwrap.dedent(MISSING)], check=True)


def test_the_picture_of_the_readme(monkeypatch):
    """`python -m benchmarks.pictures` draws it again."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1]))
    from benchmarks.pictures import PICTURE, drawn

    text, picture = PICTURE.read_text(encoding="utf-8"), drawn()
    assert len(text) < 30_000
    for box in picture.boxes:
        for line in box.lines:
            assert f">{line}</text>" in text
