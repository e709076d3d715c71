"""Paths that end in an exception: in the program itself on every backend, in files, and over points."""

import ctypes
import importlib.util
import math
import shutil
import subprocess

import numpy as np
import pytest
from inside import Plain, branches_of, program_of, scalarize

import symdiff as sd

NATIVE = importlib.util.find_spec("llvmlite") is not None
BACKENDS = ("python", "numpy", *(["native"] if NATIVE else []))


def checked(x, a):
    """Cells, a value in between, nested conditions, and every kind of argument of an exception."""
    for k in range(2):
        if x[k] < 0:
            raise ValueError(f'negative {x[k]} in {{braces}} and "quotes" % {a}', k)
    if np.sum(x) > a:
        raise KeyError(a)
    norm = np.sqrt(x[0] * x[0] + x[1] * x[1])
    if norm > 2.0:
        if not x[0] > 1.0:
            raise OverflowError
        if a > 9.0 and x[1] != 0.5:
            raise IndexError("far", 2.5)
        return norm * x[1]
    return x[0] * x[1] / (1.0 + norm)


def logs(x):
    """What Python's math raises for itself beside what the function raises."""
    if np.log(x) > 3.0:
        raise ValueError(f"large {x}")
    if x == -2.0:
        raise ZeroDivisionError("two")
    return np.sqrt(x) / (x - 1.0)


def wide(x):
    """Whole arrays; the value is part of what is checked."""
    total = np.sum(x * x)
    if total > 1e4:
        raise OverflowError("large")
    if np.any(np.isnan(x)):
        raise ValueError("nan")
    return total


POINTS = {
    checked: [([p, q], a) for p in (-1.0, 0.3, 1.5, 2.5) for q in (-0.5, 0.5, 0.0, 2.0) for a in (1.0, 3.0, 10.0)],
    logs: [(v,) for v in (-3.0, -2.0, 0.0, 0.5, 1.0, 2.0, 20.0, 21.0, np.inf, np.nan)],
    wide: [(np.full(600, v),) for v in (0.0, 1.0, 4.0, 4.1, np.nan, np.inf)],
}


def outcome(f, *args):
    """The result of a call, or type and arguments of its exception."""
    try:
        with np.errstate(all="ignore"):
            return f(*args)
    except Exception as error:
        return type(error), tuple(map(str, error.args))


def plain(f, args):
    return outcome(f, *(np.array(a) if isinstance(a, list) else np.float64(a) if np.ndim(a) == 0 else a for a in args))


def loaded(text, name):
    names = {}
    exec(compile(text, "made.py", "exec"), names)
    return names[name]


def same(found, expected, args):
    raises = isinstance(expected, tuple) and isinstance(expected[0], type)
    if raises:
        assert found == expected, args
    else:
        assert not (isinstance(found, tuple) and isinstance(found[0], type)), (args, found)
        np.testing.assert_allclose(found[0], expected, rtol=1e-13, err_msg=str(args))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("f", [checked, logs])
def test_calls_raise_what_the_function_raises(f, backend):
    df = sd.value_and_grad(f, backend=backend)
    for args in POINTS[f]:
        same(outcome(df, *map(np.array, args)), plain(f, args), args)


@pytest.mark.parametrize("backend", ["numpy", "auto"])
def test_whole_arrays_raise(backend):
    df = sd.value_and_grad(wide, backend=backend)
    for args in POINTS[wide]:
        same(outcome(df, *args), plain(wide, args), args)
        total, slope = np.full((), 7.0), np.full(600, 7.0)
        if isinstance(outcome(df, *args)[0], type):
            with pytest.raises((ValueError, OverflowError)):
                df(*args, out=(total, slope))
            assert total == 7.0 and np.all(slope == 7.0)
        else:
            df(*args, out=(total, slope))
            np.testing.assert_array_equal(slope, 2 * args[0])


@pytest.mark.parametrize("target", ["numpy", "python"])
@pytest.mark.parametrize("f", [checked, logs, wide])
def test_files_raise_what_the_function_raises(f, target):
    args = POINTS[f][0]
    text = sd.value_and_grad(f).source(*(np.array(a) for a in args), target=target)
    assert f"def {f.__name__}_path" not in text  # conditions stand in the function itself
    made = loaded(text, f"{f.__name__}_value_and_grad")
    for args in POINTS[f]:
        if f is not wide or not np.isnan(args[0]).any():
            same(outcome(made, *args), plain(f, args), args)


def test_a_file_reads_as_written_by_hand():
    text = sd.grad(checked).source(np.ones(2), 9.0)
    body = text[text.index("    with np.errstate") :].splitlines()
    assert body[1:7] == [
        "        if x0 < 0.0:",
        "            raise ValueError(f'negative {x0} in {{braces}} and \"quotes\" % {a}', 0)",
        "        if x1 < 0.0:",
        "            raise ValueError(f'negative {x1} in {{braces}} and \"quotes\" % {a}', 1)",
        "        if x0 + x1 > a:",
        "            raise KeyError(a)",
    ]
    assert "        if v2 and not (x0 > 1.0):\n            raise OverflowError()\n" in text
    assert text.count("np.sqrt") == 1


def test_values_in_between_are_not_named():
    def f(x):
        y = x * 3.0
        if y > 1:
            raise ValueError(f"large {y}", y)
        return y

    assert 'raise ValueError("large <computed>", "<computed>")' in sd.grad(f).source(0.1)


def steered(x, a):
    """A loop between two checks, one of a cell, one of what the loop gives."""
    if x[1, 2] < 0:
        raise ValueError(f"{x[1, 2]} in {a}")
    path = np.empty(300)
    for k in range(300):
        path[k] = a
        a = a + 0.01 * np.sin(a) * x[k % 2, k % 3]
    if path[299] > 3:
        raise OverflowError("far")
    return path


STEERED = [(np.full((2, 3), cell), a) for cell in (0.5, -0.5, 2.0) for a in (0.3, 3.1)]


@pytest.mark.parametrize("target, shape", [("numpy", (2, 3)), ("python", (2, 3)), ("python", ("m", 3))])
def test_files_with_loops_raise_what_the_function_raises(target, shape):
    text = Plain(steered, loops="keep").source(sd.Spec(shape), 0.3, target=target)
    assert "for k in range(300)" in text and len(text.splitlines()) < 150
    made = loaded(text, "steered")
    for x, a in STEERED:
        found, expected = outcome(made, x, a), outcome(steered, x, a)
        same(found if isinstance(expected, tuple) else (found,), expected, (x, a))


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no compiler called cc")
def test_c_with_loops_returns_the_number_of_an_exception_and_writes_nothing(tmp_path):
    (tmp_path / "f.c").write_text(Plain(steered, loops="keep").source(np.ones((2, 3)), 0.3, target="c"))
    subprocess.run(
        ["cc", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o", tmp_path / "f.so", tmp_path / "f.c", "-lm"], check=True
    )
    run = ctypes.CDLL(str(tmp_path / "f.so")).steered
    for x, a in STEERED:
        path, expected = np.full(300, 7.0), outcome(steered, x, a)
        number = run(ctypes.c_void_p(x.ctypes.data), ctypes.c_double(a), ctypes.c_void_p(path.ctypes.data))
        assert number == {ValueError: 1, OverflowError: 2}.get(expected[0] if isinstance(expected, tuple) else None, 0)
        np.testing.assert_allclose(path, np.full(300, 7.0) if number else expected, rtol=1e-13)


@pytest.mark.parametrize("backend", [b for b in BACKENDS if b != "numpy"])
def test_nothing_is_written_when_a_call_raises(backend):
    df = sd.value_and_grad(checked, backend=backend)
    x = np.array([0.3, 0.5])
    value, slope = np.full((), 7.0), np.full(2, 7.0)
    df(x, 3.0, out=(value, slope))
    expected = value.copy(), slope.copy()
    for bad in ([-1.0, 0.5], [2.5, 2.0]):
        with pytest.raises((ValueError, KeyError)):
            df(np.array(bad), 3.0, out=(value, slope))
        np.testing.assert_array_equal(slope, expected[1])
        assert value == expected[0]


def test_what_paths_ask_is_computed_once():
    for f, args in ((checked, (np.ones(2), 9.0)), (logs, (2.0,))):
        graph = sd.value_and_grad(f).graph(*args)
        conditions = branches_of(graph).conditions
        program = program_of(graph, checks=conditions)
        assert len(program.checks) == len(conditions.outputs)
        parts = program_of(graph).operations(), program_of(scalarize(conditions)).operations()
        assert program.operations() <= sum(parts) - (5 if f is checked else 0)
        assert program.by_kind()["sqrt"] == 1


def test_a_check_that_is_the_value_costs_nothing_more():
    def f(x):
        energy = x[0] * x[1] + x[0] * x[2]
        if energy < 0:
            raise ValueError("negative")
        return energy

    graph = Plain(f).graph(np.ones(3))
    program = program_of(graph, checks=branches_of(graph).conditions)
    assert program.by_kind() == {"mul": 2, "add": 1, "lt": 1}  # as it stands: no factor is taken out of what decides


@pytest.mark.skipif(not NATIVE, reason="llvmlite is not installed")
@pytest.mark.parametrize("n", [4, 600])
def test_long_machine_code_raises(n):
    """Both as one function and in parts."""

    def f(x):
        total = x[0]
        for k in range(1, n):
            total = total * 0.5 + x[k] * x[k - 1]
        if total > 10.0:
            raise ValueError("large")
        return total

    df = sd.value_and_grad(f, backend="native")
    x = np.linspace(0.0, 1.0, n)
    value, slope = df(x)
    assert value == pytest.approx(f(x), rel=1e-12)
    out = np.full((), 7.0), np.full(n, 7.0)
    for _ in range(2):
        with pytest.raises(ValueError, match="large"):
            df(100.0 * x, out=out)
        with pytest.raises(ValueError, match="large"):
            df(100.0 * x)
    assert out[0] == 7.0 and np.all(out[1] == 7.0)
    np.testing.assert_array_equal(df(x)[1], slope)


@pytest.mark.skipif(not NATIVE, reason="llvmlite is not installed")
def test_whole_arrays_with_checks_are_one_piece_of_machine_code():
    def f(x, y):
        total = np.sum(x * y)
        if total > 1e6:
            raise ValueError("large")
        return total * np.sum(np.exp(x)), total

    x, y = np.linspace(0, 1, 900), np.linspace(1, 2, 900)
    compiled = Plain(f).compile(x, y)
    assert compiled.machine is not None
    np.testing.assert_allclose(compiled(x, y), f(x, y), rtol=1e-13)
    with pytest.raises(ValueError, match="large"):
        compiled(1e4 * x, y)


SINES = np.sin(np.arange(100.0))


def interpolated(x, rounds=12):
    total = 0.0
    for k in range(1, rounds):
        place = x[0] * k
        i = int(place)
        total += (1 - (place - i)) * SINES[i] + (place - i) * SINES[i + 1]
    return total


@pytest.mark.skipif(not NATIVE, reason="llvmlite is not installed")
@pytest.mark.parametrize("rounds", [2, 12, 100])
def test_places_that_arguments_tell_are_read_in_machine_code(rounds):
    def f(x):
        return interpolated(x, rounds)

    x = np.array([0.7123, 0.2])
    compiled = Plain(f).compile(x)
    assert compiled.has_code
    df, out = sd.value_and_grad(f), (np.full((), 7.0), np.full(2, 7.0))
    for scale in (1.0, -0.31, 0.013, 1.29):
        value, slope = df(scale * x)
        assert value == pytest.approx(f(scale * x), rel=1e-13)
        assert slope[0] == pytest.approx((f(scale * x + [1e-7, 0]) - f(scale * x)) / 1e-7, rel=1e-4, abs=1e-5)
    for bad, error in ((200.0, IndexError), (math.nan, ValueError), (math.inf, OverflowError), (1e17, IndexError)):
        for call in (f, lambda x: df(x, out=out)):
            with pytest.raises(error):
                call(np.array([bad, 0.2]))
    assert out[0] == 7.0 and np.all(out[1] == 7.0)
    points = np.array([[0.7123, 0.2], [0.31, 0.1], [-0.2, 0.0]])
    together = sd.vmap(sd.grad(f))
    np.testing.assert_allclose(together(points), [sd.grad(f)(p) for p in points], rtol=1e-12)
    points[1, 0], target = 200.0, np.full((3, 2), 7.0)
    with pytest.raises(IndexError) as caught:
        together(points, out=target)
    assert "at point 1" in caught.value.__notes__ and np.all(target == 7.0)


def test_points_in_files_are_named_and_nothing_is_written():
    for n, axis in ((2, 0), (2, -1), (400, 0), (400, -1)):

        def f(x, a):
            if x[1] > a:
                raise ValueError(f"{x[1]} is above {a}")
            return np.sum(x * x) * a

        points = np.tile(np.linspace(0.0, 1.0, n), (5, 1))
        points = points if axis == 0 else np.ascontiguousarray(points.T)
        made = loaded(sd.vmap(sd.grad(f), in_axes=(axis, None)).source(points, 3.0), "f_grad")
        np.testing.assert_allclose(made(points, 3.0), 6.0 * points)
        bad = points.copy()
        bad[(3, 1) if axis == 0 else (1, 3)] = 4.5
        out = np.full(points.shape, 7.0)
        with pytest.raises(ValueError, match=r"4.5 is above 3.0") as caught:
            made(bad, 3.0, out=out)
        assert caught.value.__notes__ == ["at point 3"] and np.all(out == 7.0)


def test_ufuncs_refuse():
    if NATIVE:
        with pytest.raises(sd.BackendError, match="a ufunc has a result at every point"):
            _ = sd.grad(checked).compile(np.ones(2), 9.0).gufunc


def test_rounding_at_a_limit_gives_the_functions_answer():
    """Machine code may round an exponential to the other side; then the function itself decides."""

    def f(x):
        if np.exp(x) >= 2.0:
            raise ValueError("two")
        return x * x

    df = sd.grad(f)
    x = np.log(2.0)
    for k in range(-4, 5):
        v = x + k * np.spacing(x)
        found, expected = outcome(df, v), outcome(f, v)
        raised = isinstance(found, tuple)
        assert raised == isinstance(expected, tuple) or abs(k) < 2


def test_linalg_errors_stand_in_files_that_need_numpy():
    def pivot(a):
        if a <= 0:
            raise np.linalg.LinAlgError(f"not positive definite: {a}")
        return np.log(a)

    space = {}
    exec(sd.grad(pivot).source(1.0), space)
    assert space["pivot_grad"](4.0) == 0.25
    with pytest.raises(np.linalg.LinAlgError, match=r"not positive definite: -1\.0"):
        space["pivot_grad"](-1.0)
    with pytest.raises(sd.ExportError, match=r"test_raising.py:\d+: a path raises numpy.linalg.LinAlgError; .*target 'numpy'"):
        sd.grad(pivot).source(1.0, target="python")
