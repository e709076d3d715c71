"""The benchmark command runs; its figures are looked at by people."""

import subprocess
import sys
from pathlib import Path


def test_the_command_prints_every_table():
    result = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--quick"],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    for title in ("## Growth", "## One point", "## Many points", "points last", "## Operations"):
        assert title in result.stdout
