"""Rule tables that other packages ship, by an entry point: packages as pip installs them, in a process of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FUNCTIONS = """
print("imported")
import numpy as np
def bump(x):
    return np.exp(-x**2)
def scaled(x, k):
    return k*bump(x)
"""
TABLE = """
# bump has another derivative than its body, so that the tests see whose counts
{name}.bump(x)      | itself | -3*x*out          | yes | -2..2        |
{name}.scaled(x, k) | itself | -2*x*out; out/k   | yes | -2..2, 1..3  |
"""


def install(site, name, table, value=None, version="1.2"):
    folder = site / name / "tables"
    folder.mkdir(parents=True)
    (site / name / "__init__.py").write_text(FUNCTIONS)
    (folder / "own.rules").write_text(table)
    info = site / f"{name}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(f"[symdiff.rules]\n{name} = {value or name + '.tables'}\n")


def run(site, *command):
    checkout = Path(__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), str(checkout)])}
    return subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True, timeout=120)


@pytest.fixture
def site(tmp_path):
    install(tmp_path, "bumps", TABLE.format(name="bumps"))
    return tmp_path


def test_the_rules_of_a_package_count(site):
    code = (
        "import symdiff as sd, numpy as np, math; sd.grad(np.sin)(1.0); print('not yet'); import bumps\n"
        "assert abs(sd.grad(bumps.bump)(0.5) + 1.5*math.exp(-0.25)) < 1e-15\n"
        "assert sd.grad(lambda x: bumps.scaled(x, 2.0))(0.5) == -2*math.exp(-0.25)\n"
        "assert sd.vmap(sd.grad(bumps.bump))(np.ones(3)).shape == (3,)\n"
        "def bump(x): return 2*x\n"
        "assert sd.grad(bump)(0.5) == 2.0\n"
        "print(sd.grad(bumps.bump).source(0.5))"
    )
    found = run(site, "-W", "error", "-c", code)
    assert found.returncode == 0, found.stderr
    assert found.stdout.startswith("not yet\nimported\n")


def test_the_list_names_where_each_comes_from(site):
    found = run(site, "-m", "symdiff", "rules", "list")
    assert found.returncode == 0 and "imported" not in found.stdout
    lines = found.stdout.splitlines()
    assert any(line.split() == "bumps.bump(x) bumps 1.2, own.rules:3".split() for line in lines)
    assert any(line.startswith("numpy.sin(x) ") and "numpy.rules:" in line for line in lines)
    shown = run(site, "-m", "symdiff", "rules", "show", "bumps.bump").stdout
    assert "bumps 1.2, own.rules:3" in shown and "by x: -3*x*out" in shown


def test_conflicts_and_faults_are_named(site):
    install(site, "others", TABLE.format(name="bumps") + "numpy.sin(x) | sin | 5*x | yes | -1..1 |\n", version="0.3")
    install(site, "faulty", "faulty.bump(x) | itself | y | yes | 0..1 |\nfaulty.scaled(x)\n")
    install(site, "nowhere", "", value="nowhere.missing")
    install(site, "absent", "", value="no_such_package")
    found = run(site, "-m", "symdiff", "rules", "list")
    assert found.returncode == 1
    for words in [
        "bumps.bump has rules of bumps 1.2, own.rules:3 and others 0.3, own.rules:3; none of them counts",
        "numpy.sin has a rule of symdiff (numpy.rules:",
        "and one of others 0.3, own.rules:5",
        "faulty 1.2: own.rules:1: unknown name 'y'",
        "faulty 1.2: own.rules:2: 1 columns",
        "nowhere 1.2: the entry point symdiff.rules names nowhere.missing, where there are no *.rules files",
        "absent 1.2: the entry point symdiff.rules names no_such_package",
    ]:
        assert words in found.stderr, words
    code = (
        "import symdiff as sd, numpy as np, bumps, math\n"
        "print(sd.grad(bumps.bump)(0.5) == -math.exp(-0.25), sd.grad(np.sin)(0.0))"
    )
    found = run(site, "-c", code)
    assert found.stdout.splitlines() == ["imported", "True 1.0"]
    assert found.stderr.count("RuleWarning") == 1 and "none of them counts" in found.stderr
