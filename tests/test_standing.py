"""Every function that something stands for, with its keywords: NumPy's and SciPy's results, or an error that says why.

Run as a script, it tries all arrays with all values of keywords. The calls are made of the functions' own signatures:
what is named here are values by the names of parameters.
"""

import importlib
import inspect
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from inside import STANDING, shown_functions, stands_for

import symdiff as sd

M = np.array([[4.0, 1.1, 0.3], [1.0, 3.0, 0.2], [0.4, 0.5, 5.0]])
V = np.array([0.3, 1.7, -0.4, 2.5])
ARRAYS = {
    "line": V,
    "matrix": M,
    "wide": np.arange(6.0).reshape(2, 3) / 4 - 0.5,
    "cube": np.cos(np.arange(24.0)).reshape(2, 3, 4),
    "number": np.float64(0.7),
    "one": np.array([0.7]),
    "empty": np.zeros(0),
    "no rows": np.zeros((0, 3)),
    "single": V.astype(np.float32),
    "complex": V + 1j * V[::-1],
    "complex matrix": M + 0.3j * np.triu(M, 1) - 0.3j * np.tril(M, -1),
    "nan": np.array([0.3, np.nan, -0.4, 2.5]),
    "infinite": np.array([np.inf, 1.0, -np.inf, 0.0]),
    "signed zeros": np.array([0.0, -0.0, 1.0, 1.0]),
    "turned": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
}
# Values of parameters by their names: the first are those of required ones.
VALUES = {
    **dict.fromkeys(("axis", "axes"), (0, -1, None, (0, 1), 1)),
    **dict.fromkeys(("axis1", "axisa", "axisb", "axisc", "offset", "k"), (0, 1, -1)),
    **dict.fromkeys(("axis2", "destination", "start"), (1, 0, -1)),
    **dict.fromkeys(("keepdims", "where", "right", "sparse", "copy", "rowvar", "bias", "density", "equal_nan", "endpoint",
                     "retstep", "increasing", "wrap", "invert", "hermitian", "full_matrices", "compute_uv", "upper", "lower",
                     "transposed", "unit_diagonal", "eigvals_only", "left", "right", "pivoting", "include_initial", "stable",
                     "overwrite_a", "check_finite", "orthogonalize", "returned", "full", "cov", "assume_unique", "return_rank",
                     "overwrite_input", "subok", "optimize", "return_sign"), (True, False)),
    "dtype": (np.float32, np.complex128, np.float64),
    "initial": (0.5,),
    "q": (0.3, [0.1, 0.5], 1.0), "level": (0.3,), "ddof": (1, 0), "correction": (1,), "decimals": (2, -1), "n": (2, 5, 0,
    1), "m": (2,),
    "method": ("lower", "hazen", "weibull", "nearest", "bilinear"), "interpolation": ("lower",), "order": ("F", "K", 2),
    "kind": ("stable",), "kth": (1, -1), "shift": (1, -2), "reps": (2, (2, 1)), "repeats": (2,), "source": (0,),
    "shape": ((2, 2), (4, 3, 3)), "new_shape": ((2, 3), 5), "indices": (0, [0, -1], [[0, 1], [1, 0]]), "obj": (0, [0, 1], -1),
    "pad_width": (1, (2, 1)), "window_shape": (2, (2, 2)), "indices_or_sections": (1, 2, [1]), "deg": (1, 2), "N": (3, 0),
    "num": (4,),
    "ord": (2, 1, np.inf, "fro", "nuc", 0, 3, -2), "norm": ("ortho", "forward"), "side": ("right", "left"), "indexing": ("ij",),
    "mode": ("full", "same", "valid", "clip", "wrap", "edge", "mean", "reflect", "complete", "r"), "edge_order": (2,),
    "min": (0.1,), "max": (0.8,), "a_min": (0.1,), "a_max": (0.8,), "fill_value": (2.5,), "nan": (1.5,), "posinf": (3.0,),
    "neginf": (-3.0,), "prepend": (0.5,), "append": (0.5,), "to_end": (9.0,), "to_begin": ([1.0, 2.0],), "dx": (0.3,),
    "dim": (None,),
    "period": (2.0,), "left_": (0.1,), "discont": (1.0,), "base": (3.0,), "rtol": (0.1, 1e-3), "atol": (0.1,), "bins": (3,),
    "minlength": (6,), "fweights": ([1, 2, 1, 3],), "aweights": ([1.0, 2.0, 0.5, 1.0],), "UPLO": ("U",), "p": (1, -2),
    "ind": (1,),
    "rcond": (0.1,), "type": (2, 3, 1), "s": ((2, 2),), "trans": (1, 2), "assume_a": ("sym", "pos"), "window_length": (3,),
    "polyorder": (1,), "deriv": (1,), "delta": (0.5,), "sigma": (0.8,), "size": (3,), "fill": (0,), "cval": (0.5,), "tol":
    (0.1,),
    "mean": (0.4,), "bp": (2,), "zi": ([0.1],), "boundary": ("wrap",), "casting": ("unsafe",), "device": ("cpu",),
    "sections": (2,),
    "func1d": (np.sum,), "func": (np.sum,), "driver": ("gelsd",), "lapack_driver": ("gesdd",), "steps": (2,),
    **dict.fromkeys(("overwrite_b", "overwrite_x", "overwrite_ab", "overwrite_data", "writeable"), (True,)),
    "signature": ("dd->d",), "weights": ([1.0, 2.0, 0.5, 1.0], np.arange(9.0).reshape(3, 3) + 1), "w": ([1.0, 2.0, 0.5, 1.0],),
    "b": ([1.0, 2.0, 0.5, 1.0], np.eye(3) * 2), "x": ([0.0, 0.5, 2.0, 2.5],), "default": (0.7,), "workers": (1,),
    "plan": (None,),
    "tensor": (False, True), "lbnd": (0.5,), "scl": (2.0,),
    "cond": (0.1,), "subset_by_index": ([0, 1],), "subset_by_value": ([0.0, 4.0],), "lwork": (64,), "fillvalue": (0.5,),
    "padtype": ("even", None, "constant"), "padlen": (1, 0), "irlen": (4,), "output": (np.float32, None), "truncate": (2.0,),
    "radius": (2,), "origin": (1, -1), "sorter": ([0, 1, 2],), "y": ([0.5, 1.0, -2.0, 0.1],), "range": ((0.0, 2.0),),
}  # fmt: skip
ARRAYLIKE = """a x y b v m arr ary array arrays p q_ u w x1 x2 xp fp f z seq xi args start stop condition condlist
    choicelist values tup
    a1 a2 element test_elements in1 in2 data input c A B Q val weights to signal""".split()
PLACED = {"choose", "putmask", "place", "put", "copyto", "fill_diagonal", "put_along_axis"}  # which change an array
BASES = {
    "np.interp": lambda x: ((x, np.array([-1.0, 0.5, 2.0]), np.array([1.0, 3.0, -2.0])), {}),
    "np.einsum": lambda x: (("...i->...", x), {}),
    "np.linalg.multi_dot": lambda x: (([x, x, x],), {}),
    "np.select": lambda x: (([x > 1, x > 0], [x, 2 * x]), {}),
    "np.where": lambda x: ((x > 0, x, 2 * x), {}),
    "np.compress": lambda x: (([True, False, True], x), {}),
    "np.extract": lambda x: ((np.shape(x) == x.shape, x), {}),
    "np.take_along_axis": lambda x: ((x, np.argsort(np.zeros(x.shape), axis=-1)), {}),
    "np.linalg.cross": lambda x: ((x[:3], x[:3]), {}),
    "np.cross": lambda x: ((x[:3], x[:3]), {}),
    "np.bincount": lambda x: (([0, 2, 1, 2], x), {}),
    "np.histogram": lambda x: ((np.arange(x.size) / 4,), {"weights": x.ravel()}),
    "np.digitize": lambda x: ((x, [0.0, 1.0, 2.0]), {}),
    "np.searchsorted": lambda x: ((np.array([0.0, 1.0, 2.0]), x), {}),
    "np.geomspace": lambda x: ((abs(x) + 1, abs(x) + 5), {}),
    "np.resize": lambda x: ((x, (2, 3)), {}),
    "np.reshape": lambda x: ((x, (-1, 1)), {}),
    "np.broadcast_to": lambda x: ((x, (2, *x.shape)), {}),
    "np.apply_along_axis": lambda x: ((np.cumsum, 0, x), {}),
    "np.apply_over_axes": lambda x: ((np.sum, x, [0]), {}),
    "np.dsplit": lambda x: ((x[..., None], 1), {}),
    "np.linalg.tensorsolve": lambda x: ((x, x[..., 0]), {}),
    "np.linalg.tensorinv": lambda x: ((x,), {"ind": 1}),
    "np.argpartition": lambda x: ((x, 1), {}),
    "np.unravel_index": lambda x: ((np.arange(x.size), x.shape), {}),
    "scipy.linalg.solve_sylvester": lambda x: ((x, x, x), {}),
    "scipy.linalg.solve_continuous_lyapunov": lambda x: ((x, x), {}),
    "scipy.linalg.solve_discrete_lyapunov": lambda x: ((x / 9, x), {}),
    "scipy.signal.lfilter": lambda x: (([0.5, 0.2], [1.0, -0.3], x), {}),
    "scipy.signal.filtfilt": lambda x: (([0.5, 0.2], [1.0, -0.3], x), {"padlen": 2}),
    "scipy.signal.sosfilt": lambda x: (([[0.5, 0.2, 0.1, 1.0, -0.3, 0.1]], x), {}),
    "scipy.signal.sosfiltfilt": lambda x: (([[0.5, 0.2, 0.1, 1.0, -0.3, 0.1]], x), {"padlen": 2}),
    "scipy.linalg.cho_solve": lambda x: (((x, True), x), {}),
    "scipy.ndimage.convolve1d": lambda x: ((x, [0.2, 0.5]), {}),
    "scipy.ndimage.correlate1d": lambda x: ((x, [0.2, 0.5]), {}),
    "scipy.special.polygamma": lambda x: ((1, x), {}),
    "scipy.special.zeta": lambda x: ((abs(x) + 1.5, abs(x) + 1), {}),
}  # fmt: skip


UNLIKE = {
    "np.empty_like",  # has any numbers
    "np.result_type",  # gives no numbers
    "np.polydiv", "np.polymul", "np.polyadd", "np.polysub", "np.roots",  # whose lengths depend on zeros: these are kept
    "np.linalg.eig", "np.linalg.eigvals", "scipy.linalg.eig", "scipy.linalg.eigvals",  # complex always
    "np.linalg.eigh", "scipy.linalg.eigh",  # vectors up to their phase
}  # fmt: skip


def rows():
    """The functions that are asked through NumPy's protocols or by their public names."""
    found = {}
    for key, row in STANDING.items():
        name = row.name
        if row.always or name.startswith(("ufunc.", "symdiff.")) or name.rpartition(".")[2] in PLACED or name in UNLIKE:
            continue
        if isinstance(key, str):
            package, _, own = key.rpartition(".")
            if not hasattr(importlib.import_module(package), own):
                continue
            found[name] = getattr(importlib.import_module(package), own)
        else:
            found[name] = key
    return found


def base_call(name, function, x):
    """Arguments without keywords."""
    if name.startswith("np.polynomial.") and name.endswith(("mul", "fromroots", "2poly")):
        x = x[..., :3]  # with each coefficient there are twice as many ways
    if name in BASES:
        return BASES[name](x)
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return (x, x), {}
    args = []
    for p in parameters:
        if p.kind is p.VAR_POSITIONAL:
            args.append(x)
        elif p.default is p.empty and p.kind not in (p.KEYWORD_ONLY, p.VAR_KEYWORD):
            arraylike = p.name in ARRAYLIKE or p.name not in VALUES
            if p.name in ("arrays", "tup"):
                args.append([x, 2 * x])
            else:
                args.append(x if arraylike and (p.name != "m" or not args) else VALUES[p.name][0])
    return tuple(args), {}


def keywords_of(function, most=9):
    """The keywords of a function, each with its first values; `out` with the array for the result."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    named = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) and p.default is not p.empty]
    return [(name, value) for name in named for value in ((None,) if name == "out" else VALUES[name][:most])]


def outcome(name, function, label, keyword=None, value=None):
    """What is wrong, None where nothing is; whether the function itself gives a value; and what refuses it."""

    def f(x, result=None):
        args, options = base_call(name, function, x)
        given = {keyword: np.arange(x.shape[-1]) % 2 == 0 if keyword == "where" else value} if keyword else {}
        if keyword == "out" and result is not None:
            given["out"] = np.zeros(np.shape(result), result.dtype)
        return function(*args, **{**options, **given})

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            expected = f(ARRAYS[label].copy())
            if keyword == "out":
                expected = f(ARRAYS[label].copy(), expected)
        except Exception:  # whichever a library raises
            return None, False, ""
        try:
            got = sd.trace(lambda x: f(x, expected), ARRAYS[label])(ARRAYS[label])
        except (sd.SymdiffError, np.linalg.LinAlgError) as refused:
            return None, True, str(refused)
        except ValueError as raised:  # functions of np.emath, where they are complex
            return (None if " is complex here" in str(raised) else f"{raised}"), True, str(raised)
        except Exception as error:
            return f"{type(error).__name__}: {error}", True, ""
    return difference(expected, got, label == "single"), True, ""


def difference(expected, got, single):
    """What is wrong with a result; of infinities a trace may know less: a number that it gives is right."""
    if isinstance(expected, (tuple, list)):
        if len(expected) != len(got):
            return f"{len(got)} results for {len(expected)}"
        return next((d for pair in zip(expected, got, strict=True) if (d := difference(*pair, single))), None)
    e, g = np.asarray(expected), np.asarray(got)
    if e.shape != g.shape:
        return f"shape {g.shape} for {e.shape}"
    if e.dtype != g.dtype and e.dtype.kind in "fc":
        return f"dtype {g.dtype} for {e.dtype}"
    tolerance = 2e-5 if single or e.dtype.char in "fF" else 1e-9
    known = np.isfinite(g) if np.isinf(e).any() or np.isnan(e).any() else np.full(g.shape, True)
    if not np.allclose(e[known], g[known], rtol=tolerance, atol=tolerance):
        return f"{g.ravel()[:6]} for {e.ravel()[:6]}"
    return None


@pytest.mark.parametrize("name", sorted(rows()))
def test_results_are_the_functions_own(name):
    function = rows()[name]
    asked = [(label,) for label in ("line", "matrix", "no rows", "nan", "single")]
    _, square, _ = outcome(name, function, "matrix")
    asked += [("matrix" if square else "line", *pair) for pair in keywords_of(function, 2)]
    found = [(call, *outcome(name, function, *call)) for call in asked]
    assert [(call, wrong) for call, wrong, *_ in found if wrong] == []
    assert any(works and not refused for _, _, works, refused in found)


def test_keywords_are_refused_by_name():
    with pytest.raises(sd.TraceError, match=r"test_standing\.py:\d+: np\.quantile\(weights=\.\.\.\) .* leave weights away"):
        sd.trace(lambda x: np.quantile(x, 0.5, weights=x, method="inverted_cdf"), V)
    with pytest.raises(sd.TraceError, match=r"np\.sort\(order=\.\.\.\) .* leave order away"):
        sd.trace(lambda x: np.sort(x, order="a"), V)


def test_every_keyword_is_tried():
    """A parameter that a new version of NumPy has wants a value above."""
    named = {key for function in rows().values() for key, _ in keywords_of(function)}
    assert named - {"out"} <= set(VALUES)


def test_numpys_own_source_is_followed_where_its_row_says_so(tmp_path):
    def f(x):
        return np.polynomial.chebyshev.chebval(x[0], x[1:])

    assert np.allclose(sd.grad(f)(V), [V[2] + 4 * V[0] * V[3], 1, V[0], 2 * V[0] ** 2 - 1])
    sd.export(sd.grad(f), tmp_path / "made.py", V)
    header = (tmp_path / "made.py").read_text(encoding="utf-8").splitlines()[:4]
    assert f", NumPy {np.__version__}, " in " ".join(header)
    sd.export(sd.grad(lambda x: x[0] * x[1]), tmp_path / "other.py", V)
    assert f"NumPy {np.__version__}" not in (tmp_path / "other.py").read_text(encoding="utf-8")
    nan = np.array([0.3, np.nan])  # of which Python's comparisons would make a number
    with pytest.raises(
        sd.TraceError, match=r"test_standing\.py:\d+: numpy\.polynomial\.polyutils\.getdomain of a traced value"
    ):
        sd.trace(lambda x: np.polynomial.polyutils.getdomain(x), nan)


def test_a_function_of_others_is_one_decorated_function():
    def f(x):
        return np.sum(np.real_if_close(x * x, tol=1000))

    with pytest.raises(sd.TraceError, match=r"real_if_close of a traced value is not supported; x\.real"):
        sd.grad(f)(V)

    @stands_for(np.real_if_close)
    def real_if_close(a, tol=100):
        return a.real + 0 * tol

    try:
        assert np.array_equal(sd.grad(f)(V), 2 * V)
        assert "| `np.real_if_close` | a, tol | |" in shown_functions()
    finally:
        del STANDING[np.real_if_close]


def test_an_elementwise_function_is_one_row_and_its_rule(tmp_path):
    for folder in ("symdiff", "rules"):
        shutil.copytree(Path(__file__).parents[1] / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    row, rule = tmp_path / "symdiff/vocabulary/special_operations.py", tmp_path / "rules/scipy.rules"
    row.write_text(row.read_text(encoding="utf-8").replace('_ONE = """\n', '_ONE = """\nkolmogorov\n', 1), encoding="utf-8")
    slope = "-8*x*(exp(-2*x*x) - 4*exp(-8*x*x) + 9*exp(-18*x*x))"
    with rule.open("a", encoding="utf-8") as table:
        table.write(f"scipy.special.kolmogorov(x) | kolmogorov | {slope} | real | 0.8..2 | | 0..1 falling\n")
    program = """
import numpy as np, symdiff as sd
from scipy import special
x = np.array([0.9, 1.3])
near = (special.kolmogorov(x + 1e-6) - special.kolmogorov(x - 1e-6)) / 2e-6
for backend in ("numpy", "auto"):
    value, slope = sd.value_and_grad(lambda x: np.sum(special.kolmogorov(x)), backend=backend)(x)
    assert np.isclose(value, np.sum(special.kolmogorov(x))) and np.allclose(slope, near, rtol=1e-6)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_table_of_functions_is_up_to_date():
    text = (Path(__file__).parents[1] / "FUNCTIONS.md").read_text(encoding="utf-8")
    if f"NumPy {'.'.join(np.__version__.split('.')[:2])}." in text:
        assert text == shown_functions(), "symdiff functions > FUNCTIONS.md"


if __name__ == "__main__":
    for name, function in sorted(rows().items()):
        for label in ARRAYS:
            for pair in [(), *keywords_of(function)]:
                wrong, _, refused = outcome(name, function, label, *pair)
                if wrong or (refused and "--refused" in sys.argv):
                    print(name, label, *pair, wrong or f"refused: {refused}", flush=True)
