"""The command line: what it writes, its exit codes, and errors without tracebacks."""

import os
import subprocess
import sys

import pytest
from inside import KINDS, main

SOURCE = '''
import numpy as np


def f(x, scale=2.0):
    """Sum of sines."""
    return scale*np.sum(np.sin(x))


def noisy(x):
    return np.random.normal()*x


def powers(x, n):
    return x**n


def two(x, y):
    return np.sum(x)*y


def modulus(z):
    return np.abs(z)**2


def misspelled(x):
    return undefined*x


def beyond(x):
    return x[5]


VALUE = 3
'''


@pytest.fixture
def demo(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo_module.py").write_text(SOURCE, encoding="utf-8")
    (tmp_path / "failing.py").write_text("raise RuntimeError('at import')\n", encoding="utf-8")
    (tmp_path / "unfinished.py").write_text("f = (\n", encoding="utf-8")
    (tmp_path / "wrong_header.py").write_text("#   symdiff export demo_module:f --colour red\n", encoding="utf-8")
    for name in ("demo_module", "failing", "unfinished"):
        monkeypatch.delitem(sys.modules, name, raising=False)
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


@pytest.mark.parametrize(
    "arguments",
    [
        *(
            ["demo_module:f", "--arg", "x=2", "--kind", kind]
            for kind in sorted(KINDS)
            if kind not in ("derivative", "wirtinger")
        ),
        ["demo_module:powers", "--arg", "n=int:3", "--kind", "derivative"],
        ["demo_module:powers", "--arg", "n=int:3", "--kind", "derivative", "--order", "2"],
        ["demo_module:modulus", "--arg", "z=scalar:complex128", "--kind", "wirtinger"],
        ["demo_module:two", "--arg", "x=2,3:float32", "--arg", "y=scalar", "--wrt", "x,y"],
        ["demo_module.py:f", "--arg", "x=0"],
    ],
    ids=" ".join,
)
def test_every_kind_is_made_again_from_its_header(demo, arguments, capsys):
    assert main(["export", *arguments, "-o", "out.py"]) == 0
    assert not capsys.readouterr().out
    before = (demo / "out.py").read_bytes()
    assert main(["check", "out.py"]) == 0
    assert (demo / "out.py").read_bytes() == before


def test_wrt_chooses_the_arguments(demo, capsys):
    arguments = ["export", "demo_module:two", "--arg", "x=3", "--target", "python"]
    assert main([*arguments, "--wrt", "y"]) == 0
    only = capsys.readouterr().out
    assert main([*arguments, "--wrt", "y,x"]) == 0
    both = capsys.readouterr().out
    assert "returns df_dy float64." in only and "returns df_dy float64, df_dx float64[3]." in both


def test_check_looks_at_every_file(demo, capsys):
    for name in ("first.py", "second.py", "third.py"):
        assert main(["export", "demo_module:f", "--arg", "x=2", "-o", name]) == 0
    (demo / "second.py").write_text((demo / "second.py").read_text(encoding="utf-8") + "# edited\n", encoding="utf-8")
    assert main(["check", "first.py", "second.py", "third.py"]) == 1
    out = capsys.readouterr().out
    assert "first.py: up to date" in out and "second.py: differs" in out and "\n-# edited" in out
    assert out.endswith("third.py: up to date\n")


def test_show_prints_formula_and_cost(demo, capsys):
    assert main(["show", "demo_module:f", "--arg", "x=2"]) == 0
    out = capsys.readouterr().out
    assert "2⋅cos(x₀)" in out and "2⋅cos(x₁)" in out and "operations" in out and "ratio" in out


def test_static_arguments(demo, capsys):
    assert main(["export", "demo_module:powers", "--arg", "x=scalar", "--arg", "n=int:3", "--target", "python"]) == 0
    assert "x*x" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["export", "nowhere:f"], "nowhere"),
        (["export", "demo_module:g"], "'g'"),
        (["export", "demo_module"], "module:function"),
        (["export", ":f"], ":f"),
        (["export", "demo_module:VALUE"], "not a function"),
        (["export", "missing.py:f"], "missing.py"),
        (["export", "demo_module:f", "--arg", "y=3"], "'y'"),
        (["export", "demo_module:f", "--arg", "x=three"], "x=three"),
        (["export", "demo_module:f", "--arg", "x=3:float16"], "float16"),
        (["export", "demo_module:f", "--arg", "x=3", "--wrt", "z"], "'z'"),
        (["export", "demo_module:noisy", "--arg", "x=scalar"], "demo_module.py:11"),
        (["export", "demo_module:two", "--arg", "x=3", "--kind", "jacobian", "--wrt", "x,q"], "'q'"),
        (["export", "demo_module:f", "--arg", "x=3", "--order", "2"], "--order 2: a positive order of --kind derivative"),
        (["export", "demo_module:modulus", "--arg", "z=scalar:complex128"], "wirtinger"),
        (["export", "demo_module:misspelled"], "undefined"),
        (["show", "demo_module:beyond", "--arg", "x=3"], "out of bounds"),
        (["show", "failing:f"], "at import"),
        (["show", "failing.py:f"], "at import"),
        (["show", "unfinished.py:f"], "unfinished.py"),
        (["export", "demo_module:f", "--arg", "x=3", "-o", "no/such/folder/f.py"], "cannot be written"),
        (["check", "demo_module.py"], "no `symdiff export` command"),
        (["check", "missing_grad.py"], "missing_grad.py"),
        (["check", "wrong_header.py"], "cannot be read"),
        (["rules", "check", "missing.jl"], "missing.jl"),
        (["rules", "show", "sinn"], "sin"),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, list) else None,
)
def test_errors_go_to_stderr_without_a_traceback(demo, arguments, message, capsys):
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert message in captured.err and "symdiff: " in captured.err
    assert "Traceback" not in captured.err and not captured.out


@pytest.mark.parametrize(
    "arguments", [[], ["bogus"], ["check"], ["export", "demo_module:f", "--target", "fortran"]], ids=" ".join
)
def test_wrong_usage_exits_with_2(arguments, capsys):
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 2
    assert "usage: symdiff" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["--help"], ["export", "--help"], ["show", "--help"], ["check", "--help"], ["rules", "--help"]]
)
def test_help(arguments, capsys):
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 0
    assert "usage: symdiff" in capsys.readouterr().out


def test_as_a_module_in_its_own_process(demo):
    def run(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "symdiff", *arguments], cwd=demo, capture_output=True, text=True, check=False
        )

    result = run("export", "demo_module:f", "--arg", "x=2", "-o", "out.py")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert run("check", "out.py").returncode == 0
    (demo / "demo_module.py").write_text(SOURCE.replace("np.sin", "np.cos"), encoding="utf-8")
    result = run("check", "out.py")
    assert result.returncode == 1 and "\n-" in result.stdout and "\n+" in result.stdout and not result.stderr
    result = run("export", "demo_module:g")
    assert result.returncode == 2 and result.stderr.startswith("symdiff: ") and len(result.stderr.splitlines()) == 1


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


def test_rules_of_whole_arrays_are_listed_and_shown(capsys):
    assert main(["rules", "list"]) == 0
    assert "matmul(x, y)" in capsys.readouterr().out
    assert main(["rules", "show", "matmul"]) == 0
    assert "unbroadcast(ds @ T(y), x)" in capsys.readouterr().out
    assert main(["rules", "show", "cumsum"]) == 0
    assert "linear" in capsys.readouterr().out


def test_arrays_are_unrolled_for_every_target(demo, capsys):
    export = ["export", "demo_module:two", "--arg", "x=3000", "--target", "c"]
    assert main(export) == 2
    assert "--scalarize" in capsys.readouterr().err
    assert main([*export[:3], "x=3", "--scalarize", *export[4:], "-o", "two.c"]) == 0
    assert "--arg x=3 --scalarize --target c" in (demo / "two.c").read_text(encoding="utf-8")
    assert main(["check", "two.c"]) == 0


def test_readers_that_stop_reading(demo):
    command = [sys.executable, "-m", "symdiff", "rules", "show", "sin"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
@pytest.mark.parametrize("command", [["check", "pipe.py"], ["rules", "list", "pipe.rules"], ["rules", "import", "pipe.jl"]])
def test_files_that_are_none_are_refused(command, demo):
    os.mkfifo(demo / command[-1])
    process = [sys.executable, "-m", "symdiff", *command]
    done = subprocess.run(process, cwd=demo, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(f"symdiff: {command[-1]}: ") and "is no regular file" in done.stderr


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("x=", "--arg 'x=' cannot be read"),
        ("x=99999999999999", "at most 100000000 cells"),
        ("x=-3", "cannot be read"),
        ("q=3", "has no argument 'q'; it has x, scale\n"),
        ("x1=3", "has no argument 'x1'; it has x, scale\n"),
    ],
)
def test_arguments_that_a_function_cannot_have(spec, message, demo, capsys):
    assert main(["show", "demo_module:f", "--arg", spec]) == 2
    assert message in capsys.readouterr().err


def test_check_says_that_it_imports_modules(capsys):
    with pytest.raises(SystemExit):
        main(["check", "--help"])
    assert "imported" in capsys.readouterr().out
