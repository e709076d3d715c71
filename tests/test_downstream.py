"""A package that commits files of ours and uses them where symdiff is not: checked, typed, built, run, and then changed."""

import importlib.util
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from inside import main

FOLDER = Path(__file__).parent / "downstream"
GENERATED = ("energy_grad.py", "energy_plain.py", "energy_gpu.py", "energy_grad.c", "energy_grad.h", "relaxed_hessian.py")
ALONE = """
import sys
for name in ("symdiff", "sympy", "optree", "llvmlite"):
    sys.modules[name] = None
sys.path.insert(0, sys.argv[1])
import numpy as np
from springs.forces import forces, settled, stiffness
x = [0.0, 1.5, 2.0, 3.5]
print(forces(x).tolist(), settled(x, 400)[0] < 1e-6, np.allclose(stiffness(x), stiffness(x).T))
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A copy of the package, in which commands run."""
    place = tmp_path / "downstream"
    shutil.copytree(FOLDER, place, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.chdir(place)
    for name in [name for name in sys.modules if name.partition(".")[0] == "springs"]:
        monkeypatch.delitem(sys.modules, name)
    yield place
    for name in [name for name in sys.modules if name.partition(".")[0] == "springs"]:
        del sys.modules[name]


def edited(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_committed_files_are_those_that_its_pyproject_lists(project, capsys, update_golden):
    before = {name: (project / "src/springs" / name).read_bytes() for name in GENERATED}
    assert main(["check"]) == 0, capsys.readouterr()
    assert capsys.readouterr().out.count("up to date") == 5
    for name in GENERATED:
        (project / "src/springs" / name).unlink()
    assert main(["export"]) == 0
    made = {name: (project / "src/springs" / name).read_bytes() for name in GENERATED}
    if update_golden:
        for name, text in made.items():
            (FOLDER / "src/springs" / name).write_bytes(text)
    assert made == before
    assert main(["export"]) == 0
    assert capsys.readouterr().out.count("up to date") == 5


def test_it_runs_where_symdiff_is_not(project):
    done = subprocess.run([sys.executable, "-c", ALONE, str(project / "src")], capture_output=True, text=True, check=True)
    x = np.array([0.0, 1.5, 2.0, 3.5])
    stretched = 2.5 * (np.diff(x) - 1.0)
    expected = np.append(stretched, 0.0) - np.append(0.0, stretched)
    assert done.stdout.split("]")[1].split() == ["True", "True"]
    np.testing.assert_allclose(eval(done.stdout.split("]")[0] + "]"), expected)


def test_its_wheel_runs_where_symdiff_is_not(project, tmp_path):
    if importlib.util.find_spec("setuptools") is None:
        pytest.skip("setuptools is not installed; pip install setuptools builds wheels")
    made = subprocess.run(
        [sys.executable, "-c", "from setuptools import build_meta; print(build_meta.build_wheel('dist'))"],
        cwd=project, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if "invalid command 'bdist_wheel'" in made.stderr:
        pytest.skip("this setuptools needs wheel; pip install 'setuptools>=70.1'")
    assert made.returncode == 0, made.stderr
    wheel = project / "dist" / made.stdout.split()[-1]
    with zipfile.ZipFile(wheel) as file:
        file.extractall(tmp_path / "installed")
    command = [sys.executable, "-c", ALONE, str(tmp_path / "installed")]
    assert "True True" in subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path).stdout


def test_a_strict_type_checker_accepts_it(project):
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("mypy is not installed; pip install symdiff[dev]")
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(project / "cache"), "src/springs"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def reformatted(text):
    """A file as formatters leave it: other line ends, breaks, quotes and order of imports, and remarks before and in it."""
    text = text.replace("from typing import Any\n\nimport numpy as np\n", "import numpy as np\n\nfrom typing import Any\n")
    text = text.replace("    v0 = x3 - x2 - 1.0\n", "    # The last spring.\n    v0 = (\n        x3 - x2 - 1.0\n    )\n")
    return ("# SPDX-License-Identifier: MIT\n\n" + text.replace('"x"', "'x'")).replace("\n", "\r\n")


def test_form_is_no_difference(project, capsys):
    path = project / "src/springs/energy_grad.py"
    path.write_bytes(reformatted(path.read_text(encoding="utf-8")).encode())
    edited(project / "src/springs/model.py", "def energy", "# A remark above the function.\n\n\ndef energy")
    c = project / "src/springs/energy_grad.c"
    edited(c, "    const double v0 = ", "    /* the last */ const double v0\n        = ")
    edited(c, " *   symdiff export springs.model:energy --arg", " *   symdiff export springs.model:energy\n * --arg")
    assert main(["check"]) == 0, capsys.readouterr()


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("energy_grad.py", "v0 = x3 - x2 - 1.0", "v0 = x3 - x2 - 1.5"),
        ("energy_grad.py", "return f, (", "return -f, ("),
        ("energy_plain.py", "2.5*v1", "2.5*v0"),
        ("energy_gpu.py", "1.25", "1.125"),
        ("energy_grad.c", "2.5 * v1", "2.5 / v1"),
        ("energy_grad.h", "const double *x", "double *x"),
    ],
)
def test_what_is_edited_is_found(name, old, new, project, capsys):
    edited(project / "src/springs" / name, old, new)
    assert main(["check"]) == 1
    out = capsys.readouterr().out
    assert f"{name.replace('.h', '.c')}: differs" in out and out.count("up to date") == 4
    if name.endswith(".h"):
        assert main(["check", f"src/springs/{name}"]) == 1


def test_a_changed_model_is_found(project, capsys):
    edited(project / "src/springs/constants.py", "2.5", "3.5")
    assert main(["check"]) == 1
    out = capsys.readouterr().out
    assert out.count("differs from what springs.model:energy gives now") == 4
    assert "-    v3 = 2.5 * v1" in out and "+    v3 = 3.5 * v1" in out


def test_states_in_the_exit_code(project, capsys):
    path = project / "src/springs/energy_plain.py"
    edited(path, ", format 2,", "")
    assert main(["check"]) == 3
    assert "energy_plain.py: has file format 1, this symdiff writes 2; export it anew" in capsys.readouterr().out
    (project / "src/springs/energy_grad.h").unlink()
    assert main(["check"]) == 2
    found = capsys.readouterr()
    assert "energy_grad.h: No such file" in found.err and found.out.count("up to date") == 3


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("", "lists some"),
        ("[tool.symdiff]\nfiles = ['a.py']", "takes lines as"),
        ("[tool.symdiff.files]\n'a.py' = 'springs.model:energy --arg \"x'", "No closing quotation"),
        ("[tool.symdiff.files", "pyproject.toml"),
        ("[tool.symdiff.files]\n'a.py' = 'springs.model:enrgy'", "a.py: springs.model:enrgy"),
        (
            "[tool.symdiff.files]\n'a.py' = 'springs.model:energy --target nump'",
            "a.py: argument --target: invalid choice: 'nump'",
        ),
        ("[tool.symdiff.files]\n'a.py' = 'springs.model:energy -o b.py'", "named before the `=`"),
    ],
)
def test_tables_that_cannot_be_read(table, message, project, capsys):
    (project / "pyproject.toml").write_text(table, encoding="utf-8")
    assert main(["export"]) == 2
    assert message in capsys.readouterr().err
    assert not (project / "a.py").exists()


def test_a_changed_line_of_the_table_is_found(project, capsys):
    edited(project / "pyproject.toml", "--kind value_and_grad --target python", "--kind grad --target python")
    assert main(["check"]) == 1
    assert "energy_plain.py: differs" in capsys.readouterr().out
    assert main(["export"]) == 0
    assert capsys.readouterr().out.count("written") == 1
    assert main(["check"]) == 0


def test_files_are_checked_from_folders_of_the_project(project, monkeypatch, capsys):
    monkeypatch.chdir(project / "src/springs")
    assert main(["check", "energy_plain.py"]) == 0, capsys.readouterr()


def test_a_file_within_a_package_has_its_relative_imports(project, capsys):
    assert main(["export", "src/springs/model.py:energy", "--arg", "x=3"]) == 0
    assert "energy_grad(" in capsys.readouterr().out


def test_a_call_in_a_header_runs_nothing_else(project, capsys):
    path = project / "evil.py"
    path.write_text(
        "# Generated by symdiff 0.1.0, format 2, from f (m.py:1). Do not edit; regenerate with\n"
        "#   symdiff.grad(springs.model.energy).export(path, os.system('touch pwned'), target='numpy')\n"
        "# graph 1cc09fc9, rules cc5d6dbc, float64.\n", encoding="utf-8",
    )  # fmt: skip
    assert main(["check", "evil.py"]) == 2
    assert "cannot be read here: os.system" in capsys.readouterr().err
    assert not (project / "pwned").exists()


def test_numba_compiles_the_steps():
    numba = pytest.importorskip("numba", reason="numba is not installed; pip install numba")
    spec = importlib.util.spec_from_file_location("energy_grad", FOLDER / "src/springs/energy_grad.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    x = (0.0, 1.5, 2.0, 3.5)
    assert numba.njit(module.energy_value_and_grad_steps)(*x) == module.energy_value_and_grad_steps(*x)
