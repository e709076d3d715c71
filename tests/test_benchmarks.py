"""The benchmark command runs, and refuses wrong answers; its figures are looked at by people."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks import timing

ROOT = Path(__file__).parents[1]


def test_the_command_writes_every_table(tmp_path):
    written = tmp_path / "results.md"
    result = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--quick", "--points", "3000", "-o", str(written)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    text = written.read_text(encoding="utf-8")
    titles = ("# Benchmarks", "## Growth", "## One point", "## Many points", "## Operations")
    assert all(f"\n{title}" in f"\n{text}" for title in titles)
    assert "3000 points, points first" in text and "3000 points, points last" in text
    assert text.count("\n| --- |") == 6
    for row in ("Rosenbrock loop", "product", "chain of sines", "symdiff, out= given", "lambdify(cse=True)", "floor"):
        assert f"| {row}" in text
    assert "| cubic | 24 | 34 | 42 |" in text


def test_a_wrong_answer_is_refused_before_it_is_timed():
    timing.checked({"right": lambda: (1.0, np.array([2.0, 3.0]))}, [1.0, 2.0, 3.0])
    with pytest.raises(AssertionError, match="wrong gives another answer"):
        timing.checked({"wrong": lambda: (1.0, np.array([2.0, 3.1]))}, [1.0, 2.0, 3.0])
    with pytest.raises(AssertionError, match="unwritten gives another answer"):
        timing.checked({"unwritten": lambda: np.full(3, np.nan)}, [1.0, 2.0, 3.0])


def test_times_are_shown_with_their_unit():
    assert [timing.shown(t) for t in (2.0, 1.5e-3, 2.5e-6, 4e-8)] == ["2 s", "1.5 ms", "2.5 us", "40 ns"]
