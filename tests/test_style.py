import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).parents[1]


@pytest.mark.parametrize("command", [["ruff", "check", "."], ["ruff", "format", "--check", "."], ["mypy"]], ids=" ".join)
def test_the_tree_passes(command):
    if importlib.util.find_spec(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed; pip install symdiff[dev]")
    result = subprocess.run([sys.executable, "-m", *command], cwd=TOP, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
