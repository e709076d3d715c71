"""The command line: what it writes, its exit codes, and errors without tracebacks."""

import subprocess
import sys

import pytest

from symdiff.cli import main

SOURCE = '''
import numpy as np


def f(x, scale=2.0):
    """Sum of sines."""
    return scale*np.sum(np.sin(x))


def branch(x):
    return x if x > 0 else -x


def powers(x, n):
    return x**n


VALUE = 3
'''


@pytest.fixture
def demo(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo_module.py").write_text(SOURCE, encoding="utf-8")
    monkeypatch.delitem(sys.modules, "demo_module", raising=False)
    return tmp_path


@pytest.mark.parametrize("place", ["demo_module:f", "demo_module.py:f"])
@pytest.mark.parametrize("target", ["numpy", "python"])
def test_export_then_check_then_change(demo, place, target, capsys):
    arguments = ["export", place, "--arg", "x=3", "--wrt", "x", "--target", target]
    assert main([*arguments, "-o", "f_grad.py"]) == 0
    written = (demo / "f_grad.py").read_text(encoding="utf-8")
    assert f"symdiff {' '.join(arguments)}" in written
    assert main(arguments) == 0
    assert capsys.readouterr().out == written
    assert main(["check", "f_grad.py"]) == 0
    assert "up to date" in capsys.readouterr().out
    (demo / "f_grad.py").write_text(written.replace("scale", "factor", 1), encoding="utf-8")
    (demo / "demo_module.py").write_text(SOURCE.replace("np.sin", "np.cos"), encoding="utf-8")
    sys.modules.pop("demo_module", None)
    assert main(["check", "f_grad.py"]) == 1
    shown = capsys.readouterr().out
    assert "--- f_grad.py" in shown and "+++ regenerated" in shown and "\n-" in shown and "\n+" in shown


@pytest.mark.parametrize("kind", ["grad", "value_and_grad", "jacobian", "hessian"])
def test_every_kind_is_made_again_from_its_header(demo, kind, capsys):
    assert main(["export", "demo_module:f", "--arg", "x=2", "--kind", kind, "-o", "out.py"]) == 0
    assert main(["check", "out.py"]) == 0


def test_show_prints_formula_and_cost(demo, capsys):
    assert main(["show", "demo_module:f", "--arg", "x=2"]) == 0
    out = capsys.readouterr().out
    assert "2*cos(x0)" in out and "2*cos(x1)" in out and "operations" in out and "ratio" in out


def test_static_arguments(demo, capsys):
    assert main(["export", "demo_module:powers", "--arg", "x=scalar", "--arg", "n=int:3", "--target", "python"]) == 0
    assert "x*x" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["export", "nowhere:f"], "nowhere"),
        (["export", "demo_module:g"], "'g'"),
        (["export", "demo_module"], "module:function"),
        (["export", "demo_module:VALUE"], "not a function"),
        (["export", "missing.py:f"], "missing.py"),
        (["export", "demo_module:f", "--arg", "y=3"], "'y'"),
        (["export", "demo_module:f", "--arg", "x=three"], "x=three"),
        (["export", "demo_module:f", "--arg", "x=3:float16"], "float16"),
        (["export", "demo_module:f", "--arg", "x=3", "--wrt", "z"], "'z'"),
        (["export", "demo_module:branch", "--arg", "x=scalar"], "demo_module.py:11"),
        (["export", "demo_module:f", "--arg", "x=3", "-o", "no/such/folder/f.py"], "cannot be written"),
        (["check", "demo_module.py"], "no `symdiff export` command"),
        (["check", "missing_grad.py"], "missing_grad.py"),
        (["rules", "check", "missing.jl"], "missing.jl"),
        (["rules", "show", "sinn"], "sin"),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, list) else None,
)
def test_errors_are_one_line_on_stderr(demo, arguments, message, capsys):
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert message in captured.err and captured.err.startswith("symdiff: ")
    assert "Traceback" not in captured.err and not captured.out


@pytest.mark.parametrize(
    "arguments", [["--help"], ["export", "--help"], ["show", "--help"], ["check", "--help"], ["rules", "--help"]]
)
def test_help(arguments, capsys):
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 0
    assert "usage: symdiff" in capsys.readouterr().out


def test_as_a_module_in_its_own_process(demo):
    command = [sys.executable, "-m", "symdiff", "export", "demo_module:f", "--arg", "x=2"]
    result = subprocess.run(command, cwd=demo, capture_output=True, text=True, check=True)
    assert "def f_grad" in result.stdout and not result.stderr
    result = subprocess.run([*command[:4], "demo_module:g"], cwd=demo, capture_output=True, text=True, check=False)
    assert result.returncode == 2 and "Traceback" not in result.stderr


def test_rules_import_writes_a_table_that_loads(demo, capsys):
    (demo / "mine.jl").write_text(
        "@define_diffrule Base.sin(x) = :(cos(x))\n@define_diffrule Base.cos(x) = :(y)\n", encoding="utf-8"
    )
    assert main(["rules", "import", "mine.jl", "-o", "mine.rules"]) == 1
    assert "mine.jl:2: unknown name 'y'" in capsys.readouterr().err
    assert main(["rules", "check", "mine.rules"]) == 0
    assert main(["rules", "list", "mine.rules"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "numpy.sin(x)"
    (demo / "wrong.jl").write_text("@define_diffrule Base.sin(x) = :(sin(x))\n", encoding="utf-8")
    assert main(["rules", "check", "wrong.jl"]) == 1
    assert "WRONG (wrong.jl:1)" in capsys.readouterr().out
