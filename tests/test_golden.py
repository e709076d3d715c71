"""Generated files, byte for byte: a changed byte is an interface change. `pytest --update-golden` rewrites them."""

import shlex
import subprocess
import sys
from pathlib import Path

import golden_functions as g
import numpy as np
import pytest
from inside import main

import symdiff as sd

FOLDER = Path(__file__).parent / "golden"
FILES = {
    "polynomial_grad.py": (sd.grad(g.polynomial, (0, 1)), (1.0, 1.0), "numpy"),
    "polynomial_plain.py": (sd.value_and_grad(g.polynomial, (0, 1)), (1.0, 1.0), "python"),
    "linear_form_hessian.py": (sd.hessian(g.linear_form), (np.ones(3),), "numpy"),
    "bump_points.py": (sd.vmap(sd.value_and_grad(g.bump, (0, 1))), (np.ones(4), np.ones(4)), "numpy"),
    "rotation_derivative.py": (sd.derivative(g.rotation, order=2), (1j,), "python"),
    "residuals_jacobian.py": (sd.jacobian(g.residuals), (np.ones(3),), "numpy"),
    "kinked_plain.py": (sd.grad(g.kinked), (1.0,), "python"),
    "logistic_value_and_grad.py": (sd.value_and_grad(g.logistic), (1.0,), "numpy"),
    "layer_value_and_grad.py": (
        sd.value_and_grad(g.layer, (0, 1)),
        (np.ones((256, 512)), np.ones((256, 1)), np.ones((512, 128))),
        "numpy",
    ),
    "bump_points_cupy.py": (sd.vmap(sd.value_and_grad(g.bump, (0, 1))), (np.ones(4), np.ones(4)), "cupy"),
    "layer_value_and_grad_cupy.py": (
        sd.value_and_grad(g.layer, (0, 1)),
        (np.ones((256, 512)), np.ones((256, 1)), np.ones((512, 128))),
        "cupy",
    ),
    "differences_grad.py": (sd.grad(g.differences), (np.ones(100_000),), "numpy"),
}


@pytest.mark.parametrize("name", FILES)
def test_generated_file(name, update_golden):
    function, args, target = FILES[name]
    text = function.source(*args, target=target)
    path = FOLDER / name
    if update_golden:
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text, "pytest --update-golden rewrites it; the change log needs a line"


@pytest.mark.parametrize("name", FILES)
def test_the_command_in_the_header_makes_the_same_file(name, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(FOLDER.parent)
    text = (FOLDER / name).read_text(encoding="utf-8")
    command = text.splitlines()[1].removeprefix("#   ")
    path = tmp_path / name
    if command.startswith("symdiff export "):
        assert main([*shlex.split(command)[1:], "-o", str(path)]) == 0
        assert main(["check", str(FOLDER / name)]) == 0
    else:
        exec(command, {"symdiff": sd, "path": path, **vars(g)})
    assert path.read_text(encoding="utf-8") == text


def test_no_stale_golden_files():
    assert {p.name for p in FOLDER.glob("*.py")} == set(FILES)


@pytest.mark.parametrize("seed", ["0", "1", "2"])
def test_the_same_bytes_under_every_hash_seed(seed):
    code = (
        "import sys; sys.path.insert(0, 'tests'); import test_golden as t\n"
        "for name, (f, args, target) in t.FILES.items(): sys.stdout.write(f.source(*args, target=target))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=FOLDER.parents[1], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
    )
    assert result.stdout.decode() == "".join((FOLDER / name).read_text(encoding="utf-8") for name in FILES)
