"""The benchmarks run, and refuse wrong answers; their figures are looked at by people."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks import calls, counting, measuring, plot, tables
from benchmarks.cases import BOTH, Case, cases
from benchmarks.contenders import HAND, OURS, by_hand, compiled_c, ours
from benchmarks.contenders.contender import Contender

ROOT = Path(__file__).parents[1]
SMALL = [case for case in cases(quick=True) if case.kind != "unrolled" or case.n <= 20]


def labelled(case):
    return f"{case.name}, {case.n}"


@pytest.mark.parametrize("case", SMALL, ids=labelled)
def test_symdiff_gives_the_answers_written_by_hand(case):
    expected, value = case.expected(), calls.flat([case.value()])
    for contender in (*ours.CONTENDERS, by_hand.CONTENDERS[0]):
        if not (contender.is_installed and contender.takes(case)):
            continue
        for call, answer in ((contender.derivative(case), expected), (contender.value(case), value)):
            calls.check(contender.label, call.answers(call()), answer)


@pytest.mark.skipif(not compiled_c.is_possible(), reason="no compiler called cc, or no Python.h")
@pytest.mark.parametrize("case", [case for case in SMALL if case.formula is not None], ids=labelled)
def test_c_gives_the_answers_written_by_hand(case):
    expected, value = case.expected(), calls.flat([case.value()])
    for contender in compiled_c.CONTENDERS:
        if contender.takes(case):
            for call, answer in ((contender.derivative(case), expected), (contender.value(case), value)):
                assert call() is None
                calls.check(contender.label, call.answers(None), answer)


def test_hand_written_answers_are_the_known_ones():
    found = {(case.name, case.n): case.expected() for case in SMALL}
    np.testing.assert_allclose(found["cubic", 8], [936, 182, -352, -610, 132, -780, -984, 540])
    np.testing.assert_allclose(found["factored", 4], [137.148, 411.444, 274.296, 685.74, 107.7021])
    np.testing.assert_allclose(found["f10", 10][[0, 9, 10]], [34920, 128232, 1694064])
    np.testing.assert_allclose(found["chebyshev", 20], [3.9458090536, 0.9821301311], rtol=1e-9)
    np.testing.assert_allclose(found["complex_polynomial", 1], [1.97 + 1.94j, 0.693 + 1.986j])
    np.testing.assert_allclose(found["real_through_complex", 1], [2.0277796124, 2.5607790620], rtol=1e-9)
    gradient = found["rosenbrock by slices", 1000]
    assert gradient[-1] == pytest.approx(3699.60003333) and gradient[:-1].sum() == pytest.approx(-999)
    assert found["lse", 1000][:-1].sum() == pytest.approx(1)


def test_a_matrix_functions_value_is_the_known_one():
    value = next(case for case in SMALL if case.name == "matrix_function").value()
    assert value[0, 0] == pytest.approx(7.70055) and value.sum() == pytest.approx(7502.28)


def test_the_command_writes_every_table(tmp_path):
    written = tmp_path / "results.md"
    command = [sys.executable, "-m", "benchmarks", "--quick", "factored", "product", "lse", "-o", str(written)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    text = written.read_text(encoding="utf-8")
    for title in ("# Benchmarks", "## Where symdiff stands", "## Operations", "### factored", "### product", "### lse"):
        assert f"\n{title}\n" in f"\n{text}"
    assert "| 100 | symdiff | " in text and "| cubic | 24 | 34 | 42 |" in text
    assert written.with_suffix(".svg").is_file() == (importlib.util.find_spec("matplotlib") is not None)


def test_an_unknown_problem_is_named():
    with pytest.raises(ValueError, match="no problem 'quartic'; there are cubic"):
        cases(True, ["quartic"])


def test_a_wrong_answer_is_refused_before_it_is_timed():
    calls.check("right", (1.0, np.array([2.0, 3.0])), np.array([1.0, 2.0, 3.0]))
    for answers in ((1.0, np.array([2.0, 3.1])), np.full(3, np.nan), (1.0, 2.0)):
        with pytest.raises(AssertionError):
            calls.check("wrong", answers, np.array([1.0, 2.0, 3.0]))


def test_a_timed_call_is_the_function_itself():
    seen = []
    call = calls.Call(lambda a, b, *, out: seen.append((a, b, out)), (1, 2), {"out": 3})
    call.timer().timeit(2)
    assert seen == [(1, 2, 3)] * 2
    assert calls.times({"it": calls.Call(int)}, 1)["it"] > 0


def test_operations_are_counted_in_generated_code():
    assert counting.operations("def f(x):\n    y = -x**3*2.0\n    return np.array([exp(y) - 1.0 if x > 0 else x**2])") == 9
    assert [counting.multiplications(n) for n in (0, 1, 2, 3, 4, 7, -2)] == [0, 0, 1, 2, 2, 4, 2]
    with pytest.raises(ValueError, match=r"0\.5"):
        counting.operations("def f(x):\n    return x**0.5")


def row(label, n, derivative, value=1.0, side=OURS):
    case = Case("made up", "unrolled", "product", (np.ones(n),), n, BOTH)
    return measuring.Row(case, Contender(label, side, calls.Call, calls.Call), value, derivative, 2e-3)


def test_tables_show_times_with_their_unit_and_ratios():
    assert [tables.shown(t) for t in (2.0, 1.5e-3, 2.5e-6, 4e-8, None)] == ["2 s", "1.5 ms", "2.5 us", "40 ns", ""]
    rows = [[row("symdiff", 10, 2.0), row(tables.DIRECT, 10, 4.0, None, HAND)]]
    assert "| made up | 10 | value and gradient | 2 s |  |  |  | 0.50 |  |" in tables.summary(rows)
    assert f"| 10 | {tables.DIRECT} |  | 4 s |  |  | 1.00 | 2 ms |" in tables.problems(rows)


def test_what_takes_too_long_is_left_out_with_a_line():
    built = []

    def derivative(case):
        built.append(case.n)
        return calls.Call(lambda: case.expected(), answers=lambda answer: (answer,))

    slow = Contender("slow", OURS, derivative, lambda case: None)
    small, large = cases(True, ["product"])
    patient = measuring.Measurement(1, np.inf, (slow,))
    assert [r.case.n for case in (small, large) for r in patient.rows(case)] == [10, 100] and patient.left_out == []
    measurement = measuring.Measurement(1, 0.0, (slow,))
    assert measurement.rows(small) == measurement.rows(large) == []
    assert built == [10, 100, 10]
    assert measurement.left_out[0].startswith("slow of product, n = 10: ")
    assert measurement.left_out[1].startswith("slow of product, n = 100: about ")


def test_what_is_expected_follows_the_power_of_the_last_sizes():
    assert measuring.extrapolated([(10, 1.0)], 100) == pytest.approx(10.0)
    assert measuring.extrapolated([(10, 1.0), (20, 4.0)], 100) == pytest.approx(100.0)
    assert measuring.extrapolated([(10, 4.0), (20, 1.0)], 100) == pytest.approx(5.0)


@pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="matplotlib is not installed")
def test_the_picture_has_the_same_bytes_each_time(tmp_path):
    rows = [[row("symdiff", n, 2.0 * n), row("CasADi", n, 5.0)] for n in (10, 100)]
    for name in ("one.svg", "two.svg"):
        plot.draw(rows, tmp_path / name)
    drawn = (tmp_path / "one.svg").read_bytes()
    assert drawn == (tmp_path / "two.svg").read_bytes()
    assert b"made up" in drawn and b"CasADi" in drawn and b"20" + b"26" not in drawn
