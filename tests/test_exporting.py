"""Exported files: they run where symdiff is not, keep their promises, and are written whole or not at all."""

import importlib.util
import math
import os
import subprocess
import sys

import numpy as np
import pytest

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
}


def flat(result):
    if isinstance(result, (tuple, list)):
        return [v for part in result for v in flat(part)]
    return np.ravel(result).tolist()


def loaded(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return next(v for k, v in vars(module).items() if callable(v) and v.__module__ == path.stem and not k.startswith("_"))


def targets(name):
    return ["numpy"] if name in ("single", "plain") else ["numpy", "python"]


@pytest.mark.parametrize(("name", "target"), [(n, t) for n in CASES for t in targets(n)])
def test_a_file_runs_where_symdiff_is_not(name, target, tmp_path):
    function, args = CASES[name]
    path = tmp_path / "made.py"
    function.export(path, *args, target=target)
    text = path.read_text(encoding="utf-8")
    entry = next(
        line.split()[1].partition("(")[0] for line in text.splitlines() if line.startswith("def ") and " _" not in line
    )
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
print(repr(flat(made.{entry}(*{[np.asarray(a).tolist() for a in args]!r}))))
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


def test_a_batch_file_keeps_its_promises(tmp_path):
    path = tmp_path / "made_batch.py"
    batch = sd.vmap(sd.value_and_grad(lambda x, y: x * np.exp(y), (0, 1)))
    x, y = np.linspace(0, 1, 10_000), np.linspace(-1, 1, 10_000)
    batch.export(path, x, y)
    function = loaded(path)
    for found, wanted in zip(flat(function(x, y)), flat(batch(x, y)), strict=True):
        assert found == wanted
    with pytest.raises(ValueError, match="9999 points in y, 10000 in x"):
        function(x, y[1:])
    with pytest.raises(ValueError, match="expected"):
        function(x[:, None], y)
    assert [a.shape for a in function(x[:0], y[:0])[:1]] == [(0,)]


def test_python_files_follow_ieee(tmp_path):
    path = tmp_path / "made_ieee.py"
    sd.value_and_grad(lambda x: np.exp(x) + np.log(x) + 1 / x + x**0.5).export(path, 1.0, target="python")
    function = loaded(path)
    assert function(1000.0)[0] == math.inf
    value, slope = function(0.0)
    assert math.isnan(value) or value == math.inf
    assert math.isnan(function(-1.0)[0]) and math.isnan(function(math.nan)[0])
    assert slope == math.inf or math.isnan(slope)


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
    with pytest.raises(sd.ExportError, match="structure"):
        sd.grad(lambda p: p["a"] ** 2).source({"a": 2.0})
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


def test_the_users_docstring_survives():
    text = sd.jacobian(several).source(0.3, 0.4)
    assert "Two results." in text and "float64" in text
