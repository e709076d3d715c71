"""Exported files: they run where symdiff is not, keep their promises, and are written whole or not at all."""

import importlib.util
import inspect
import math
import os
import re
import shlex
import socket
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from inside import main
from scipy import special

import symdiff as sd


def several(x, y):
    """Two results."""
    return [x * y, np.sin(x)]


def pair(x):
    return x[0] * x[1], np.array([x[0], np.exp(x[1])])


def holomorphic(z):
    return z**3 + np.exp(1j * z)


def mixed(z):
    return np.abs(z) ** 2 + z


def keyword_only(x, *, scale=2.0):
    return scale * x**2


def chain(x):
    return x[0] * x[1] + x[0] * x[2]


def product(x, y):
    return np.sum(x) * y


MATRIX = np.cos(np.arange(12.0)).reshape(3, 4)


def layer(W, b, X):
    return np.sum(np.tanh(W @ X + b))


def regions(x):
    y = np.zeros_like(x)
    y[1:-1] = x[2:] * x[:-2]
    return np.sum(y * y) + np.max(x)


def algebra(a, b):
    return np.linalg.solve(a, b) + np.linalg.det(a) * np.sort(b)


def moves(x):
    picked = np.concatenate([x[[0, 2]], np.pad(x[:1], ((0, 0), (1, 0)))[:, :4]])
    return np.sum(np.cumsum(picked, axis=0) * np.triu(picked)) + np.sum(np.diag(picked[:, :3]) ** 3) + x[1, 2] * x[0, 0]


CASES = {
    "grad": (sd.grad(lambda x: x[0] ** 3 * np.sin(x[1])), (np.array([0.3, 0.4]),)),
    "scalar": (sd.grad(lambda x: np.log(x) * x), (0.7,)),
    "two": (sd.value_and_grad(lambda x, y: np.sum(x) * y**2, (0, 1)), (np.array([1.0, 2.0, 3.0]), 0.5)),
    "list": (sd.jacobian(several, (0, 1)), (0.3, 0.4)),
    "tuple": (sd.jacobian(pair), (np.array([0.3, 0.4]),)),
    "hessian": (sd.hessian(lambda x: x[0] * x[1] ** 2 + np.exp(x[2])), (np.array([1.0, 2.0, 3.0]),)),
    "third": (sd.derivative(np.sin, order=3), (0.3,)),
    "complex": (sd.derivative(holomorphic), (0.3 + 0.4j,)),
    "wirtinger": (sd.wirtinger(mixed), (0.3 + 0.4j,)),
    "matrix": (sd.grad(lambda a: np.sum(a @ a)), (np.array([[1.0, 2.0], [3.0, 4.0]]),)),
    "single": (sd.grad(lambda x: np.sum(np.sin(x))), (np.array([0.3, 0.4], dtype=np.float32),)),
    "plain": (sd.vmap(lambda x: x**2), (np.array([0.3, 0.4]),)),
    "layer": (sd.value_and_grad(layer, (0, 1), scalarize=False), (MATRIX, np.ones((3, 1)), MATRIX.T)),
    "regions": (sd.value_and_grad(regions), (np.linspace(0.1, 1, 1200),)),
    "algebra": (sd.jacobian(algebra), (MATRIX @ MATRIX.T + 3 * np.eye(3), np.arange(1.0, 4.0))),
    "moves": (sd.grad(moves, scalarize=False), (MATRIX,)),
    "many layers": (sd.vmap(sd.grad(layer, scalarize=False), in_axes=(0, None, None)),
                    (np.stack([MATRIX, 2 * MATRIX]), np.ones((3, 1)), MATRIX.T)),
}  # fmt: skip


REMADE = {
    "whole arrays": (sd.value_and_grad(layer, (0, 1), scalarize=False), (MATRIX, np.ones((3, 1)), MATRIX.T)),
    "a long array": (sd.grad(regions), (np.linspace(0.1, 1, 2000),)),
    "many layers": (sd.vmap(sd.grad(layer, scalarize=False), in_axes=(0, None, None)),
                    (np.stack([MATRIX, 2 * MATRIX]), np.ones((3, 1)), MATRIX.T)),
    "exact": (sd.value_and_grad(chain, exact=True), (np.ones(3),)),
    "keyword": (sd.grad(keyword_only), (1.0,), {"scale": 3.0}),
    "argnums": (sd.grad(product, (0, 1)), (np.ones(3), 1.0)),
    "integer": (sd.grad(product), (np.ones(3), np.int64(2))),
    "truth": (sd.grad(product), (np.ones(3), True)),
    "single": (sd.grad(chain), (np.ones(3, np.float32),)),
    "derivative": (sd.derivative(holomorphic), (1j,)),
    "points": (sd.vmap(sd.grad(product, (0, 1))), (np.ones((4, 3)), np.ones(4))),
    "points first": (sd.vmap(chain, in_axes=-1, out_axes=0), (np.ones((3, 4)),)),
    "single points": (sd.vmap(chain), (np.ones((4, 3), np.float32),)),
    "tangent": (sd.jvp(product, 1), (np.ones(3), 1.0, 1.0)),
    "exact tangent": (sd.jvp(product, exact=True), (np.ones(3), 1.0, np.ones(3))),
    "cotangent": (sd.vjp(product, (0, 1)), (np.ones(3), 1.0, 1.0)),
    "curvature": (sd.hvp(product), (np.ones(3), 1.0)),
    "second": (sd.derivative(holomorphic, 2), (1j,)),
    "forward": (sd.jacobian(product, mode="forward"), (np.ones(3), 1.0)),
}  # fmt: skip


@pytest.mark.parametrize("name", REMADE)
def test_the_command_in_the_header_makes_the_same_file(name, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parent)
    function, args, *keywords = REMADE[name]
    text = function.source(*args, **(keywords[0] if keywords else {}))
    command = text.splitlines()[1].removeprefix("#   ")
    path = tmp_path / "made.py"
    if command.startswith("symdiff export "):
        assert main([*shlex.split(command)[1:], "-o", str(path)]) == 0
    else:
        exec(command, {**globals(), "symdiff": sd, "path": path, __name__: sys.modules[__name__]})
    assert path.read_text(encoding="utf-8") == text


def flat(result):
    if isinstance(result, (tuple, list)):
        return [v for part in result for v in flat(part)]
    return np.ravel(result).tolist()


def loaded(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, module.__all__[0])


def bare_signature(function):
    """A signature without its annotations."""
    found = inspect.signature(function)
    parameters = [p.replace(annotation=p.empty) for p in found.parameters.values()]
    return str(found.replace(parameters=parameters, return_annotation=found.empty))


def targets(name):
    only_numpy = ("single", "plain", "algebra", "many layers")
    return ["numpy"] if name in only_numpy else ["numpy", "python"]


@pytest.mark.parametrize(("name", "target"), [(n, t) for n in CASES for t in targets(n)])
def test_a_file_runs_where_symdiff_is_not(name, target, tmp_path):
    function, args = CASES[name]
    path = tmp_path / "made.py"
    function.export(path, *args, target=target)
    text = path.read_text(encoding="utf-8")
    modules = ["symdiff", "sympy", "optree"] + (["numpy"] if target == "python" else [])
    flattening = "np.ravel(r).tolist()" if target == "numpy" else "[r]"
    code = f"""
import sys
for name in {modules!r}:
    sys.modules[name] = None
import made
{"import numpy as np" if target == "numpy" else ""}
def flat(r):
    return [v for part in r for v in flat(part)] if isinstance(r, (tuple, list)) else {flattening}
print(repr(flat(getattr(made, made.__all__[0])(*{[np.asarray(a).tolist() for a in args]!r}))))
"""
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    found = eval(result.stdout, {"nan": math.nan, "inf": math.inf})
    np.testing.assert_allclose(found, flat(function(*args)), rtol=1e-13 if name != "single" else 1e-6)
    assert str(tmp_path) not in text


@pytest.mark.parametrize("target", ["numpy", "python"])
def test_out_is_filled_and_overlap_is_right(target, tmp_path):
    path = tmp_path / "made_reverse.py"
    sd.grad(lambda x: x[0] ** 2 * x[1] + x[2]).export(path, np.ones(3), target=target)
    function = loaded(path)
    x = np.array([1.0, 2.0, 3.0])
    expected = np.array(function(x.copy()))
    out = np.full(3, np.nan)
    assert function(x, out=out) is out
    np.testing.assert_array_equal(out, expected)
    both = np.array([1.0, 2.0, 3.0, 0.0])
    function(both[:3], out=both[1:])
    np.testing.assert_array_equal(both[1:], expected)
    with pytest.raises(ValueError, match="expected"):
        function(np.ones(4))


def test_results_over_an_argument_that_points_share(tmp_path):
    slopes = sd.vmap(sd.grad(lambda x, w: np.sum(np.sin(x * w)) + w[0] * x[1]), in_axes=(0, None), out_axes=0)
    slopes.export(tmp_path / "made_shared.py", sd.Spec((5, 3)), sd.Spec((3,)))
    function, x, w = loaded(tmp_path / "made_shared.py"), np.linspace(-1, 1, 60_000).reshape(-1, 3), np.array([0.5, 1.0, 1.5])
    out = np.empty_like(x)
    out[0] = w
    np.testing.assert_array_equal(function(x, out[0], out=out), function(x, w))


def stencil(u):
    u = u.copy()
    u[1:-1, 1:-1] = np.sin(u[:-2, 1:-1] + u[2:, 1:-1]) * u[1:-1, 1:-1]
    return np.sum(u[::2, ::-1] * u[1::2])


def centred(u):
    return np.mean((u - np.mean(u, axis=0)) ** 2 * np.sum(u, axis=1)[:, None]) + np.max(np.cumsum(u, axis=1) @ u.T)


def picked(u):
    return np.sum(np.sort(u, axis=0)[3] * np.take(u, [2, 5, 5], axis=0)) + np.linalg.det(u[:10, :10] + 3 * np.eye(10))


def points_of(u):
    return np.array([u[0] * np.exp(u[1]), u[2] / u[0]])


@pytest.mark.parametrize("f", [stencil, centred, picked, points_of])
def test_every_line_in_place_has_its_formula(f, tmp_path):
    if f is points_of:
        derivative, x = sd.vmap(sd.jacobian(f)), np.linspace(1, 2, 30).reshape(10, 3)
    else:
        derivative, x = sd.value_and_grad(f), np.sin(np.arange(8000.0)).reshape(80, 100)
    derivative.export(tmp_path / "made_in_place.py", x)
    lines = (tmp_path / "made_in_place.py").read_text(encoding="utf-8").splitlines()
    bounds = [k for k, line in enumerate(lines) if line.startswith("def ")]
    steps = [line for line in lines[bounds[0] : bounds[1]] if re.search(r"\bout=|np\.copyto|\.at\(", line)]
    assert len(steps) > 5 and [line for line in steps if "  # " not in line] == []
    named = re.findall(r"^ +(\w+) = (\w+)\[", "\n".join(lines[bounds[0] : bounds[1]]), re.MULTILINE)
    assert all(re.match(rf"(?:{re.escape(source)}_|[vw]\w*\d$|b\d$)", name) for name, source in named if source != "slot0"), (
        named
    )
    found, expected = loaded(tmp_path / "made_in_place.py")(x), derivative(x)
    for a, b in zip(found, expected, strict=True) if isinstance(found, tuple) else [(found, expected)]:
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("target", ["numpy", "python"])
def test_out_of_several_results(target, tmp_path):
    path = tmp_path / "made_several.py"
    sd.value_and_grad(product, (0, 1)).export(path, np.ones(3), 1.0, target=target)
    function = loaded(path)
    x = np.array([1.0, 2.0, 3.0])
    out = (np.empty(()), (x, np.empty(()))) if target == "numpy" else ([0.0], (x, [0.0]))
    assert function(x, 5.0, out=out) is out
    assert flat(out) == [30.0, 5.0, 5.0, 5.0, 6.0]


@pytest.mark.parametrize(("target", "out"), [("numpy", np.empty(())), ("python", [0.0])])
def test_a_scalar_result_fills_out_and_returns_it(target, out, tmp_path):
    path = tmp_path / "made_scalar.py"
    sd.export(sd.grad(np.sin), path, 0.3, target=target)
    assert loaded(path)(0.3, out=out) is out
    assert flat(out) == [math.cos(0.3)]


@pytest.mark.parametrize("target", ["numpy", "python"])
@pytest.mark.parametrize("shape", [(4, 1), (1, 4), (3, 2)])
def test_matrices_of_another_shape_are_refused(target, shape, tmp_path):
    path = tmp_path / "made_matrix.py"
    sd.grad(lambda a: np.sum(a @ a)).export(path, np.ones((2, 2)), target=target)
    with pytest.raises(ValueError, match="expected"):
        loaded(path)(np.ones(shape).tolist())


def test_out_of_another_shape_is_refused(tmp_path):
    path = tmp_path / "made_shape.py"
    sd.grad(chain).export(path, np.ones(3))
    out = np.zeros((2, 3))
    with pytest.raises(ValueError):
        loaded(path)(np.ones(3), out=out)
    assert not out.any()


def test_a_batch_file_keeps_its_promises(tmp_path):
    path = tmp_path / "made_batch.py"
    batch = sd.vmap(sd.value_and_grad(lambda x, y: x * np.exp(y), (0, 1)))
    x, y = np.linspace(0, 1, 10_000), np.linspace(-1, 1, 10_000)
    batch.export(path, x, y)
    function = loaded(path)
    computed = sd.vmap(batch.inner, backend="numpy")(x, y)
    for found, wanted in zip(flat(function(x, y)), flat(computed), strict=True):
        assert found == wanted
    with pytest.raises(ValueError, match="9999 points in y, 10000 in x"):
        function(x, y[1:])
    with pytest.raises(ValueError, match="expected"):
        function(x[:, None], y)
    assert [a.shape for a in function(x[:0], y[:0])[:1]] == [(0,)]
    out = np.empty_like(x), (x.copy(), np.empty_like(x))
    assert function(out[1][0], y, out=out) is out
    np.testing.assert_array_equal(flat(out), flat(function(x, y)))
    tracemalloc.start()
    try:
        function(x, y, out=out)
        assert tracemalloc.get_traced_memory()[1] < 20_000
    finally:
        tracemalloc.stop()


SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -3.5, 1000.0, -1000.0, 1e200, math.inf, -math.inf, math.nan]
IEEE = {
    "divide": lambda x: 1 / x,
    "logarithm": np.log,
    "exponential": lambda x: np.exp(x) - np.expm1(-x),
    "roots": lambda x: np.sqrt(x) + x**1.5 + x**-2,
    "powers": lambda x: x**x + 2.0**x,
    "hyperbolic": lambda x: np.sinh(x) + np.arctanh(x) + np.cosh(x),
    "trigonometric": lambda x: np.sin(x) * np.tan(x) + np.arcsin(x),
    "kinks": lambda x: np.maximum(x, 1.0) * np.abs(x) + np.sign(x) * x,
    "logaddexp": lambda x: np.logaddexp(x, 1.0),
    "mod": lambda x: np.mod(x, 0.7) * x,
    "remainder of zero": lambda x: np.mod(0.7, x) * x,
    "remainder by zero": lambda x: (x % 0.0) * x,
    "whole quotients": lambda x: (x // 0.0) * x + (0.7 // x),
    "floor": lambda x: np.floor(x) * x,
    "ceil": lambda x: np.ceil(x) * x,
    "trunc": lambda x: np.trunc(x) * x,
    "rint": lambda x: np.rint(x) * x,
    "largest": lambda x: np.maximum(x, 0.5) * np.fmin(x, 1.0),
    **{name: lambda x, name=name: getattr(special, name)(x) * 2.0 for name in "expit log_expit logit ndtr cosm1".split()},
    "xlogy": lambda x: special.xlogy(x, x) + special.xlog1py(2.0, x),
}


@pytest.mark.parametrize("name", IEEE)
def test_python_files_follow_ieee(name, tmp_path):
    function = sd.value_and_grad(IEEE[name])
    path = tmp_path / "made_ieee.py"
    function.export(path, 1.0, target="python")
    plain = loaded(path)
    for x in SPECIAL:
        np.testing.assert_allclose(plain(x), function(x), rtol=1e-12, err_msg=f"at {x}")


def test_files_of_paddings_of_a_number():
    padded = sd.jvp(lambda x: (x, np.pad(x, 0, constant_values=2.0)), scalarize=False)
    scope = {}
    exec(padded.source(1.5, 1.0), scope)
    assert scope["f_jvp"](1.5, 1.0) == ((1.5, 1.5), (1.0, 1.0))


def test_python_files_of_complex_functions_do_not_raise(tmp_path):
    path = tmp_path / "made_complex.py"
    sd.derivative(lambda z: 1 / z + np.exp(z)).export(path, 1j, target="python")
    function = loaded(path)
    assert not np.isfinite(function(0j)) and not np.isfinite(function(1000 + 1j))


def test_python_files_take_numpy_numbers(tmp_path):
    path = tmp_path / "made_numbers.py"
    sd.value_and_grad(lambda x: np.sum(1 / x)).export(path, np.ones(2), target="python")
    value, slope = loaded(path)(np.array([0.0, 2.0]))
    assert (value, *slope) == (math.inf, -math.inf, -0.25)


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "f.py"
    path.write_text("old", encoding="utf-8")

    def fails(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fails)
    with pytest.raises(sd.ExportError, match="No space left"):
        sd.grad(np.sin).export(path, 0.3)
    assert path.read_text(encoding="utf-8") == "old" and os.listdir(tmp_path) == ["f.py"]
    monkeypatch.undo()
    with pytest.raises(sd.ExportError, match="cannot be written"):
        sd.grad(np.sin).export(tmp_path / "missing" / "f.py", 0.3)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(sd.ExportError, match="cannot be written"):
        sd.grad(np.sin).export(tmp_path / "f.py", 0.3)


def test_what_cannot_be_exported():
    @sd.primitive
    def opaque(x):
        return float(x) ** 2

    sd.diffrule(opaque)(lambda out, x: 2 * x)
    with pytest.raises(sd.ExportError, match="opaque"):
        sd.value_and_grad(lambda x: opaque(x)).source(2.0)
    with pytest.raises(sd.ExportError, match="there are"):
        sd.grad(np.sin).source(2.0, target="fortran")
    scipy = pytest.importorskip("scipy.special")
    with pytest.raises(sd.SymdiffError, match="plain Python"):
        sd.grad(lambda x: scipy.j0(x)).source(2.0, target="python")


def test_files_pass_the_default_rules_of_a_linter(tmp_path):
    if importlib.util.find_spec("ruff") is None:
        pytest.skip("ruff is not installed; pip install symdiff[dev]")
    for name, (function, args) in CASES.items():
        for target in targets(name):
            function.export(tmp_path / f"{name}_{target}.py", *args, target=target)
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout


def test_files_pass_a_strict_type_checker(tmp_path):
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("mypy is not installed; pip install symdiff[dev]")
    for name, (function, args) in CASES.items():
        for target in targets(name):
            function.export(tmp_path / f"{name}_{target}.py".replace(" ", "_"), *args, target=target)
    command = [sys.executable, "-m", "mypy", "--strict", "--allow-untyped-calls", "--cache-dir", str(tmp_path / "cache"), "."]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout


def every_text():
    return "".join(function.source(*args, target=t) for name, (function, args) in CASES.items() for t in targets(name))


@pytest.mark.parametrize("seed", ["0", "1", "2"])
def test_the_same_bytes_under_every_hash_seed(seed):
    code = "import sys, test_exporting; sys.stdout.write(test_exporting.every_text())"
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, cwd=Path(__file__).parent, env=environment, capture_output=True, text=True, check=True)
    assert result.stdout == every_text()


def test_no_dates_hosts_or_places():
    text = every_text()
    words = (os.getcwd(), str(Path.home()), str(Path(__file__).parent), sys.prefix, socket.gethostname())
    assert not [word for word in words if len(word) > 3 and word in text]
    assert not re.search(r"\b20[23]\d\b|\d\d:\d\d", text)


@pytest.mark.parametrize("target", ["numpy", "python"])
def test_the_users_docstring_survives(target, tmp_path):
    def quoted(x):
        """Keeps \\alpha, "quotes" and '''triples'''.

            An indented line.

        The last.
        """
        return x * x

    path = tmp_path / "made_quoted.py"
    sd.grad(quoted).export(path, 1.0, target=target)
    doc = inspect.getdoc(loaded(path))
    assert doc.startswith("Gradient of quoted. Takes x float64; returns df_dx float64.")
    assert doc.endswith("Keeps \\alpha, \"quotes\" and '''triples'''.\n\n    An indented line.\n\nThe last.")


def test_arguments_left_at_their_defaults_are_told(tmp_path):
    def damped(x, rate=2.0, *, shift=0.5):
        return np.exp(-rate * x) + shift * x

    path = tmp_path / "made_defaults.py"
    sd.grad(damped).export(path, 1.0)
    assert bare_signature(loaded(path)) == "(x, rate=2.0, *, shift=0.5, out=None)"
    assert "Made with rate=2.0, shift=0.5." in " ".join(inspect.getdoc(loaded(path)).split())
    assert loaded(path)(1.0) == sd.grad(damped)(1.0)
    sd.grad(damped).export(path, 1.0, 3.0)
    assert bare_signature(loaded(path)) == "(x, rate=2.0, *, shift=0.5, out=None)"
    assert loaded(path)(1.0, 3.0) == sd.grad(damped)(1.0, 3.0)


CAPTURED = np.arange(90.0)


def weighted(x, w=None, kind="plain"):
    return np.sum(x * x) if w is None else np.sum(w * x * x)


def powered(x, n, *, sign=1, shift):
    return sign * x**n + shift


def captured(x):
    return np.sum(x * x * CAPTURED)


def captured_with_setting(x, n=2):
    return np.sum(x**n * CAPTURED)


def captured_default(x, w=CAPTURED):
    return np.sum(x * w)


def picked(x, places):
    return np.sum(x[places] ** 2)


X = np.array([1.0, 2.0, 3.0])
LONG = np.arange(90.0) / 7
OWN_ARGUMENTS = {
    "left out": (sd.grad(weighted), (X,), {}, "(x, w=None, kind='plain', out=None)"),
    "given": (sd.grad(weighted), (X, None, "other"), {}, "(x, w=None, kind='plain', out=None)"),
    "traced": (sd.grad(weighted), (X, X), {}, "(x, w=None, kind='plain', out=None)"),
    "by name": (sd.grad(powered), (2.0, 3), {"shift": 0.5}, "(x, n, *, sign=1, shift, out=None)"),
    "by name and a setting": (sd.grad(powered), (2.0, 3), {"sign": -1, "shift": 0.5}, "(x, n, *, sign=1, shift, out=None)"),
    "tangent": (sd.jvp(weighted), (X, X + 1), {}, "(x, x_dot, *, w=None, kind='plain', out=None)"),
    "tangent after settings": (sd.hvp(weighted), (X, None, "plain", X), {}, "(x, w, kind, x_dot, out=None)"),
    "cotangent": (sd.vjp(powered), (2.0, 3, 0.7), {"shift": 0.5}, "(x, n, f_bar, *, sign=1, shift, out=None)"),
    "captured": (sd.jvp(captured), (LONG, LONG + 1), {}, "(x, x_dot, CAPTURED, out=None)"),
    "captured and a default": (sd.grad(captured_with_setting), (LONG,), {}, "(x, n=2, *, CAPTURED, out=None)"),
    "a captured default": (sd.grad(captured_default), (LONG,), {}, "(x, w, out=None)"),
    "places": (sd.grad(picked), (X, np.array([2, 0])), {}, "(x, places, out=None)"),
    "many places": (sd.grad(picked), (LONG, np.arange(0, 80)), {}, "(x, places, out=None)"),
}


@pytest.mark.parametrize("target", ["numpy", "python"])
@pytest.mark.parametrize("name", OWN_ARGUMENTS)
def test_files_have_the_arguments_of_the_function(name, target, tmp_path):
    function, args, kwargs, signature = OWN_ARGUMENTS[name]
    path = tmp_path / "made_own_arguments.py"
    function.export(path, *args, target=target, **kwargs)
    file = loaded(path)
    assert bare_signature(file) == signature
    own = {"CAPTURED": CAPTURED} if name.startswith("captured") else {"w": CAPTURED} if "captured" in name else {}
    for one, other in zip(np.atleast_1d(file(*args, **kwargs, **own)), np.atleast_1d(function(*args, **kwargs)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


@pytest.mark.parametrize("target", ["numpy", "python"])
@pytest.mark.parametrize(
    ("name", "args", "kwargs"),
    [
        ("left out", (X, X), {}), ("left out", (X, None, "other"), {}), ("left out", (X, 1), {}), ("left out", (X, True), {}),
        ("given", (X,), {}), ("given", (X, None, 3), {}), ("given", (X, X, "other"), {}),
        ("by name", (2.0, 2), {"shift": 0.5}), ("by name", (2.0, True), {"shift": 0.5}),
        ("by name", (2.0, 3), {"sign": -1, "shift": 0.5}), ("tangent after settings", (X, X, "plain", X), {}),
        ("tangent", (X, X), {"w": X}), ("captured and a default", (LONG, CAPTURED), {"CAPTURED": CAPTURED}),
        ("places", (X, np.array([0, 2])), {}), ("many places", (LONG, np.arange(1, 81)), {}),
    ],
)  # fmt: skip
def test_other_settings_than_the_files_are_refused(name, args, kwargs, target, tmp_path):
    function, examples, named, _ = OWN_ARGUMENTS[name]
    path = tmp_path / "made_other_settings.py"
    function.export(path, *examples, target=target, **named)
    before = [np.copy(a) if isinstance(a, np.ndarray) else a for a in args]
    with pytest.raises(ValueError, match="expected: this file was made for that; generate another one"):
        loaded(path)(*args, **kwargs)
    for one, other in zip(args, before, strict=True):
        np.testing.assert_array_equal(one, other)


def test_argument_names_that_generated_code_uses_itself(tmp_path):
    def hostile(np, math, v0, df_dnp):
        return np * math + v0 * np**2 + df_dnp / np

    expected = sd.grad(hostile)(2.0, 3.0, 4.0, 5.0)
    for target in ("numpy", "python"):
        path = tmp_path / f"made_hostile_{target}.py"
        sd.grad(hostile).export(path, 2.0, 3.0, 4.0, 5.0, target=target)
        assert loaded(path)(2.0, 3.0, 4.0, 5.0) == expected


def test_integer_arrays_are_told():
    def picked(x, labels):
        return np.sum(x[labels])

    text = sd.grad(picked).source(np.ones(5), np.array([1, 3]))
    assert "Made with labels=int64[2]." in " ".join(text.split())


def test_headers_tell_where_a_derivative_may_not_be_finite():
    def f(x, y):
        return x * np.sqrt(x) + np.arcsin(y) + np.sqrt(1.0 + x * x) + np.hypot(x, y)

    line = f.__code__.co_firstlineno + 1
    places = f"x == 0 in sqrt(x) of test_exporting.py:{line}; abs(x) == 1 in asin(x) of test_exporting.py:{line}"
    for target in ("numpy", "python", "c"):
        header = " ".join(sd.grad(f, (0, 1)).source(0.5, 0.5, target=target)[:900].replace("#", "").replace("*", "").split())
        assert f"May be infinite or NaN where {places}." in header
    assert "May be" not in sd.grad(lambda x: np.sqrt(1.0 + x * x)).source(0.5)
    many = sd.grad(lambda x: sum(np.sqrt(x[k]) for k in range(3)) + np.cbrt(x[0]) + np.arccos(x[1]) + x[2] ** 0.3)
    assert many.source(np.ones(3)).partition("May be")[2].partition("from typing")[0].count(" in ") == 4


@pytest.mark.parametrize(
    "name", ["start", "n", "point", "work", "result", "Result", "special", "slot0", "v0", "_work", "_local", "f_grad"]
)
def test_arguments_with_names_of_a_files_own(name, tmp_path):
    made = {"np": np}
    exec(f"def f({name}, y): return np.exp({name}) * y * {name}", made)
    exec(f"def whole({name}, y): return np.sum(np.exp({name}) * y * {name})", made)
    points, array = (np.linspace(0.0, 1.0, 5), np.linspace(1.0, 2.0, 5)), (np.linspace(0.0, 1.0, 300), np.ones(300))
    cases = [
        (sd.value_and_grad(made["f"]), (2.0, 3.0), "numpy"),
        (sd.value_and_grad(made["f"]), (2.0, 3.0), "python"),
        (sd.vmap(sd.value_and_grad(made["f"])), points, "numpy"),
        (sd.grad(made["whole"]), array, "numpy"),
    ]
    for k, (df, args, target) in enumerate(cases):
        path = tmp_path / f"file{k}.py"
        df.export(path, *args, target=target)
        exported = loaded(path)
        named = {} if name == "_work" else {name: args[0]}  # what a file's functions are called has another name there
        for found in (exported(*args), exported(*args[: 1 - len(named)], y=args[1], **named)):
            for a, b in zip(np.atleast_1d(found), np.atleast_1d(df(*args)), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-14)


@pytest.mark.parametrize("target", ["python", "numpy"])
def test_files_give_empty_results(target):
    def doubled(x):
        return np.sum(x) + np.sum(x)

    space = {}
    exec(sd.grad(doubled, scalarize=False).source(np.zeros((2, 0)), target=target), space)
    assert np.shape(space["doubled_grad"](np.zeros((2, 0)) if target == "numpy" else [[], []])) == (2, 0)
