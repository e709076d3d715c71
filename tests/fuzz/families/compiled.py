# ruff: noqa: E501 - lines of programs
"""Traced numbers given to compiled functions of SciPy, in every place, container and way of calling: refused, or right.

What such code does with objects that it does not know is not ours: it must not meet them. The process lives on, and the objects
that all arrays share keep their references.
"""

import functools
import gc
import linecache
import math
import random
import sys
import zlib
from typing import Any

import numpy as np
from scipy import fft, integrate, interpolate, linalg, ndimage, optimize, signal, spatial, special

import symdiff as sd

from ..harness import RIGHT, Verdict, Wrong

GRID = np.linspace(0.0, 1.0, 8)
CUBIC = interpolate.splrep(GRID, np.sin(3 * GRID))
PLANE = (GRID[[0, 0, 0, 0, 7, 7, 7, 7]], GRID[[0, 0, 0, 0, 7, 7, 7, 7]], np.arange(16.0) / 7, 3, 3)
OBJECTS = {
    "spline": interpolate.CubicSpline(GRID, np.cos(GRID)), "surface": interpolate.RectBivariateSpline(GRID, GRID, np.outer(GRID, GRID)),
    "table": interpolate.RegularGridInterpolator((GRID,), GRID**2), "tree": spatial.KDTree(GRID[:, None]),
    "line": interpolate.interp1d(GRID, GRID**2), "made": interpolate.BSpline(*CUBIC),
}  # fmt: skip
CALLS = {
    "interpolate.bisplev": ("{x}, 0.5, PLANE", "0.5, {x}, PLANE", "{v}, {v}, PLANE", "0.5, 0.5, (*PLANE[:2], {w}, 3, 3)"),
    "interpolate.splev": ("{x}, CUBIC", "0.5, (CUBIC[0], {w}, 3)", "{v}, CUBIC, 1"),
    "interpolate.splint": ("0.0, {x}, CUBIC", "{x}, 1.0, CUBIC"),
    "interpolate.splrep": ("GRID, {g}", "{g}, GRID"),
    "interpolate.griddata": ("GRID, {g}, 0.5", "GRID, GRID, {x}"),
    "interpolate.interpn": ("(GRID,), {g}, 0.5", "(GRID,), GRID, [{x}]"),
    "interpolate.make_interp_spline": ("GRID, {g}",),
    "optimize.brentq": ("lambda t: t - {x}, -9, 9", "math.sin, -1, {x}"),
    "optimize.fsolve": ("lambda t: t * t - {x}, 1.0", "lambda t: t - 2, {x}"),
    "optimize.leastsq": ("lambda t: t - {x}, [1.0]", "lambda t: t - 2, {v}"),
    "optimize.nnls": ("np.eye(2), {v}",),
    "integrate.quad": ("lambda t: {x} * t, 0, 1", "math.sin, 0, {x}"),
    "integrate.odeint": ("lambda y, t: -{x} * y, 1.0, GRID", "lambda y, t: -y, {x}, GRID"),
    "linalg.blas.ddot": ("{v}, {v}",), "linalg.blas.dnrm2": ("{v}",), "linalg.blas.dgemv": ("{x}, {m}, [1.0, 2.0]", "1.0, {m}, {v}"),
    "linalg.lapack.dgesv": ("np.eye(2), {v}", "{m}, [1.0, 2.0]"), "linalg.lapack.dpotrf": ("{m}",), "linalg.expm": ("{m}",),
    "linalg.lapack.dgtsv": ("[0.1], {v}, [0.1], [1.0, 2.0]", "[0.1], [2.0, 2.0], [{x}], {v}"),
    "linalg.solve_toeplitz": ("[2.0, 1.0], {v}",), "linalg.schur": ("{m}",), "linalg.solve_banded": ("(0, 0), [[2.0, 1.0]], {v}",),
    "ndimage.map_coordinates": ("GRID, [{v}]", "{g}, [[0.5]]"), "ndimage.gaussian_filter": ("{g}, 1.0", "GRID, {x}"),
    "signal.lfilter": ("[1.0], [1.0, 0.5], {v}", "{v}, [1.0], GRID"), "signal.sosfilt": ("[[1.0, 0, 0, 1, 0, 0]], {v}",),
    "signal.medfilt": ("{g}, 3",), "fft.fft": ("{g}",), "fft.dct": ("{g}",), "special.gamma": ("{x}",), "special.erf": ("{v}",),
    "special.jv": ("1, {x}",), "spatial.distance.cdist": ("[{v}], [[0.0, 0.0]]",), "spatial.ConvexHull": ("np.outer({g}, [1.0, 2.0])",),
    "spline": ("{x}", "{v}", "{x}, 1"), "surface": ("{x}, 0.5", "0.5, {x}", "{x}, 0.25, grid=False"), "table": ("[{x}]",),
    "tree.query": ("[{x}]",), "line": ("{x}",), "made": ("{x}",), "surface.integral": ("0, {x}, 0, 1",),
}  # fmt: skip
FORMS = {
    "x": ("x", "x * 1.5", "np.float64(0.3) * x", "np.exp(x)", "abs(x)"), "v": ("[x, 0.5]", "(x, x)", "np.array([x, 0.25])", "[[x], [x * x]]"),
    "w": ("np.full(16, x)", "[x] * 16", "np.arange(16.0) * x"), "m": ("[[x, 0.1], [0.2, 2.0]]", "np.array([[x, 0.0], [0.0, 1.0]])"),
    "g": ("GRID * x", "[x * t for t in GRID]", "np.sin(GRID + x)"),
}  # fmt: skip
WAYS = ("{f}({a})", "functools.partial({f})({a})", "(lambda *a, **k: {f}(*a, **k))({a})", "[{f}][0]({a})", "tried({f}, {a})")
TOOLS = """
def tried(f, *args, **kwargs):
    try:
        return f(*args, **kwargs)
    except (TypeError, ValueError):
        return 0.0
def f(x):
    found = TAKEN
    return float_sum(found) * x
def float_sum(found):
    return sum(map(float_sum, found)) if isinstance(found, (tuple, list)) else np.sum(found)
"""
SHARED = (np.dtype(float), np.dtype(object), np.dtype(bool), np.dtype(complex), np.dtype(int), float, np.ndarray)
TIMES = 5  # traces of a program, each of which might lose a reference
STEP = 1e-6


def trial(source: random.Random) -> Verdict:
    f, text = program(source)
    at = round(source.uniform(0.2, 0.8), 3)
    transform = source.choice([sd.grad, sd.value_and_grad, sd.derivative])
    found = outcome(transform, f, at)
    gc.freeze()  # what was there before is not collected meanwhile
    before = [sys.getrefcount(o) for o in SHARED]
    for _ in range(TIMES):
        outcome(transform, f, at)
    gc.collect()
    lost = [b - sys.getrefcount(o) for o, b in zip(SHARED, before, strict=True)]
    gc.unfreeze()
    if max(lost) >= TIMES:
        raise Wrong(f"{text}\nreferences are lost: {dict(zip(map(str, SHARED), lost, strict=True))}")
    try:
        slope = (f(at + STEP) - f(at - STEP)) / (2 * STEP)
    except Exception as error:
        if isinstance(found, Exception):
            return Verdict("refused", str(found))
        raise Wrong(f"{text}\n{found} where the plain function raises {error!r}") from None
    if isinstance(found, sd.SymdiffError):
        return Verdict("refused", str(found))
    if isinstance(found, Exception):
        raise Wrong(f"{text}\n{found!r} where the plain function raises nothing")
    found = found[1] if isinstance(found, tuple) else found
    if not math.isclose(found, slope, rel_tol=1e-4, abs_tol=1e-4):
        raise Wrong(f"{text}\nat {at}: {found}, {slope} by differences")
    return RIGHT


def outcome(transform: Any, f: Any, at: float) -> Any:
    """The derivative, or the exception in its place."""
    try:
        return transform(f)(at)
    except (sd.SymdiffError, ArithmeticError, TypeError, ValueError, AttributeError) as error:
        return error


def program(source: random.Random) -> tuple[Any, str]:
    name = source.choice(list(CALLS))
    given = source.choice(CALLS[name]).format(**{k: source.choice(v) for k, v in FORMS.items()})
    text = TOOLS.replace("TAKEN", source.choice(WAYS).format(f=name, a=given))
    file = f"<compiled {zlib.crc32(text.encode())}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    modules = (fft, integrate, interpolate, linalg, ndimage, optimize, signal, spatial, special)
    space = {m.__name__.rpartition(".")[2]: m for m in modules} | OBJECTS
    space |= {"np": np, "math": math, "functools": functools, "GRID": GRID, "CUBIC": CUBIC, "PLANE": PLANE}
    exec(compile(text, file, "exec"), space)
    return space["f"], text
