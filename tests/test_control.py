"""The function's own control flow: handlers get what Python raises, refusals are reported, equalities choose values only."""

import contextlib
import functools
import math
import warnings

import numpy as np
import pytest
from inside import Thinness

import symdiff as sd


def logarithm(x):
    try:
        return math.log(x)
    except ValueError:
        return x * x


def quotient(x):
    try:
        return 1 / x
    except ZeroDivisionError:
        return 5 * x


def exponential(x):
    try:
        return math.exp(x)
    except (ArithmeticError, TypeError):
        return 4 * x


def bare(x):
    try:
        y = math.asin(x)
    except:  # noqa: E722
        y = 3 * x
    return y * x


def suppressed(x):
    y = 2 * x
    with contextlib.suppress(ValueError):
        y = math.sqrt(x)
    return y


def finally_returns(x):
    y = x
    try:
        y = math.log(x)
    finally:
        return y * y  # noqa: B012


def in_a_helper(x):
    def helper(v):
        return math.acosh(v)

    try:
        return helper(x - 1)
    except ValueError:
        return x**3


@contextlib.contextmanager
def quiet():
    try:
        yield
    except ArithmeticError:
        pass


def managed(x):
    y = 7 * x
    with quiet():
        y = x**-2
    return y


def strict(x):
    with np.errstate(divide="raise", invalid="raise"):
        try:
            return np.log(x)
        except FloatingPointError:
            return 6 * x


def warned(x):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return np.sqrt(x)
        except RuntimeWarning:
            return 3 * x


def whole(x):
    try:
        return int(x) * x
    except ValueError:
        return 0.0 * x if math.isinf(x) else 2.0
    except OverflowError:
        return 8.0


def another_kind(x):
    try:
        try:
            return math.sqrt(x)
        except KeyError:
            return 0.0
    except ValueError:
        return 9 * x


def assigned(x):
    try:
        x[0] = 1.0
    except TypeError:
        return x * x
    return x


HANDLED = [
    (logarithm, -1.0, 1.0, -2.0), (logarithm, 2.0, math.log(2.0), 0.5), (logarithm, 0.0, 0.0, 0.0),
    (quotient, 0.0, 0.0, 5.0), (quotient, 2.0, 0.5, -0.25), (quotient, np.float64(0.0), math.inf, -math.inf),
    (exponential, 1000.0, 4000.0, 4.0), (exponential, 0.0, 1.0, 1.0), (bare, 2.0, 12.0, 12.0), (bare, 0.0, 0.0, 0.0),
    (suppressed, -1.0, -2.0, 2.0), (suppressed, 4.0, 2.0, 0.25), (finally_returns, -2.0, 4.0, -4.0),
    (finally_returns, 1.0, 0.0, 0.0), (in_a_helper, 1.0, 1.0, 3.0), (managed, 0.0, 0.0, 7.0), (managed, 1.0, 1.0, -2.0),
    (strict, np.float64(0.0), 0.0, 6.0), (strict, np.float64(-1.0), -6.0, 6.0), (strict, np.float64(1.0), 0.0, 1.0),
    (warned, np.float64(-1.0), -3.0, 3.0), (warned, np.float64(4.0), 2.0, 0.25), (whole, math.nan, 2.0, 0.0),
    (whole, math.inf, 8.0, 0.0), (whole, 2.5, 5.0, 2.0), (another_kind, -1.0, -9.0, 9.0), (assigned, np.float64(3.0), 9.0, 6.0),
]  # fmt: skip


@pytest.mark.parametrize("paths", [None, "guard"])
def test_handlers_get_what_python_raises(paths):
    for f, x, value, slope in HANDLED:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert sd.value_and_grad(f, paths=paths)(x) == (value, slope), (f.__name__, x)


def test_outside_of_handlers_results_are_ieees():
    found = sd.value_and_grad(lambda x: math.log(x))(-1.0)
    assert np.isnan(found[0]) and found[1] == -1.0


def formatted(x):
    try:
        return float(f"{x:.3f}") * x
    except:  # noqa: E722
        return 7.0


def keyed(x):
    with contextlib.suppress(Exception):
        return {x: 1.0}[x] * x
    return 3.0


def left(x):
    try:
        return {x: 1.0}[x] * x
    finally:
        return 3.0  # noqa: B012, SIM107


def hidden(x):
    try:
        return sd.grad(lambda v: {v: v}[v])(x)
    except Exception:
        return 2.0


def translated(x):
    try:
        return {x: 1.0}[x]
    except Exception as error:
        raise RuntimeError("lost") from error


@pytest.mark.parametrize("f", [formatted, keyed, left, hidden, translated])
def test_a_refusal_is_reported_whatever_the_function_does_with_it(f):
    with pytest.raises(sd.TraceError, match=r"test_control\.py:\d+"):
        sd.grad(f)(1.0)


def test_an_error_that_numpy_has_too_can_be_handled():
    def either(x):
        try:
            return x if x > 0 else -x
        except ValueError:
            return np.sum(np.abs(x))

    assert sd.grad(either)(np.array([1.0, -2.0])).tolist() == [1.0, -1.0]
    assert sd.grad(either)(np.float64(-2.0)) == -1.0


# -- equalities


class Remembering:
    def __init__(self, key):
        self.value = self.computed(key)
        self.key = key

    def computed(self, x):
        return math.sin(x) * x + math.exp(-x)

    def __call__(self, x):
        return self.value if x == self.key else self.computed(x)


KEY = np.array([1.0, 2.0, 3.0])


def skipping(x):
    total = 0.0
    for k in range(x.shape[0]):
        if x[k] == 0:
            continue
        total = total + (k + 1) * x[k]
    return total


EQUAL = [
    (lambda x: math.sin(1.5) * 1.5 if x == 1.5 else math.sin(x) * x, 1.5, math.sin(1.5) + 1.5 * math.cos(1.5)),
    (lambda x: x * math.cos(x) if x else 0.0, 0.0, 1.0),
    (lambda x: x if x in (0.0, 1.0) else x**3, 1.0, 3.0),
    (lambda x: 3 + x if x == 2 else x**2 + 1, 2.0, 4.0),
    (lambda x: np.where(x == 2.0, 4.0, x * x), 2.0, 4.0),
    (lambda x: np.where(x != 2.0, x * x, 4.0), 2.0, 4.0),
    (lambda x: np.where(2 * x - 4 == 0, 4.0, x * x), 2.0, 4.0),
    (lambda x: np.sum(x * x) if not np.array_equal(x, KEY) else 14.0, KEY, 2 * KEY),
    (lambda x: 14.0 if (x == KEY).all() else x @ x, KEY, 2 * KEY),
    (skipping, np.zeros(3), KEY), (skipping, np.zeros(12), np.arange(1.0, 13.0)),
    (lambda x: math.sin(x) / x if x != 0 else 1.0, 0.0, 0.0),
    (lambda x: 1 - x * x / 6 if x == 0 else math.sin(x) / x, 0.0, 0.0),
    (lambda x: 5.0 if x == 0 else x, 0.0, 0.0),  # a jump: the arm's own
    (lambda x: x if np.floor(x) == 1 else x**2, 1.0, 1.0),  # holds all around
    (lambda x: 3 * x if np.maximum(x, 0) == 0 else x, 0.0, 3.0),
    (lambda x: 2.0 * x if x == x else 0.0, 0.0, 2.0),
]  # fmt: skip


@pytest.mark.parametrize("paths", [None, "guard"])
@pytest.mark.parametrize("case", range(len(EQUAL)))
def test_an_equality_chooses_the_value_only(case, paths):
    f, x, slope = EQUAL[case]
    np.testing.assert_allclose(sd.grad(f, paths=paths)(x), slope, rtol=1e-12)
    direction = np.ones_like(x)
    np.testing.assert_allclose(sd.jvp(f, paths=paths)(x, direction)[1], np.sum(slope), rtol=1e-12)


def test_a_remembered_value_does_not_stop_derivatives_of_any_order():
    memo = Remembering(0.75)
    for order in (1, 2, 3):
        assert sd.derivative(memo, order=order)(0.75) == pytest.approx(sd.derivative(memo.computed, order=order)(0.75))
    assert sd.hessian(memo)(0.75) == pytest.approx(sd.hessian(memo.computed)(0.75))


def test_an_arm_beside_which_nothing_is_finite_keeps_its_own_derivatives():
    assert sd.hessian(lambda x: 1 - x * x / 6 if x == 0 else math.sin(x) / x)(0.0) == pytest.approx(-1 / 3)


def test_an_equality_of_an_argument_that_stays_is_a_condition():
    def power(x, n):
        return x * x if n == 1.0 else x**n

    assert sd.grad(power)(1.0, 1.0) == 2.0


# -- explanations


def test_explanations_of_merged_and_guarded_paths():
    assert not sd.explain(logarithm, 0.0).differentiable
    assert sd.explain(skipping, np.zeros(12)).differentiable
    found = sd.explain(lambda x: x if x > 0 else math.log(x - 5), 0.0)
    assert "differentiable" in str(found)

    def strictly(x):
        if x < 0:
            raise ValueError("negative")
        return abs(x)

    assert "it raises ValueError: negative" in sd.explain(strictly, 0.0).note
    assert "the branch of value" in str(sd.explain(lambda x: np.where(np.where(x > 0, x > 1, x < 1), x, 2 * x), 0.0))


def chroma(J, C):
    """Back from an appearance: grey divides by nothing on its own path, and by zero beside it."""
    t = (C / math.sqrt(J)) ** (1 / 0.9)
    if t == 0.0:
        a = 0.0
    else:
        p = 3.0 / t
        a = (J + 0.3) / (p + 0.5)
    return J**1.5 + a * J


@pytest.mark.parametrize("paths", ["merge", "guard"])
def test_the_arm_taken_counts_where_the_one_beside_passes_a_pole(paths):
    np.testing.assert_allclose(sd.grad(chroma, (0, 1), paths=paths)(4.0, 0.0), (3.0, 0.0))


SWALLOWED = {
    "except": "try: a = {0: 1.5, 1: x}[int(x)]\n    except Exception: a = -x",
    "bare": "try: a = {0: 1.5, 1: x}[int(x)]\n    except: a = -x",
    "suppress": "a = -x\n    with contextlib.suppress(Exception): a = {0: 1.5, 1: x}[int(x)]",
    "manager": "a = -x\n    with Kept(): a = {0: 1.5, 1: x}[int(x)]",
}


class Kept:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        return True


@pytest.mark.parametrize("paths", [None, "guard"])
@pytest.mark.parametrize("name", SWALLOWED)
def test_defects_of_ours_are_no_exceptions_that_a_handler_gets(name, paths, tmp_path, monkeypatch):
    path = tmp_path / "written.py"
    path.write_text(f"def f(x):\n    {SWALLOWED[name]}\n    return a*x\n")
    space = {"contextlib": contextlib, "Kept": Kept}
    exec(compile(path.read_text(), str(path), "exec"), space)
    for x in (0.5, 1.5, 2e44, -3.5):  # the third beyond all of NumPy's integers
        np.testing.assert_allclose(sd.value_and_grad(space["f"], paths=paths)(x)[0], space["f"](x))

    monkeypatch.setattr(Thinness, "_parts_of", functools.partial(int, "broken"))  # which raises TypeError
    with pytest.raises(sd.TraceError, match=r"written.py:\d.*a defect of symdiff"):
        sd.grad(space["f"], paths=paths)(1.5)


@pytest.mark.parametrize("x", [0.5, -0.5, 1.5])
def test_managers_keep_exceptions_in_thorough_runs(x):
    def f(x):
        a = {0: 1.5, 1: 2.0}[int(x)]  # which only a thorough run follows
        with Kept():
            a = a * math.sqrt(x)
        return a * x

    assert sd.value_and_grad(f)(x)[0] == f(x)


def test_functions_inside_those_without_source_handle_what_python_raises():
    space = {"math": math}
    exec("def f(x):\n  def g(y):\n    try: return math.sqrt(y)\n    except ValueError: return -y\n  return g(x)*x", space)
    exec("def h(y):\n  try: yield math.sqrt(y)\n  except ValueError: yield -y\ndef g(x): return sum(h(x))*x", space)
    for x in (0.25, -0.25):
        assert sd.value_and_grad(space["f"])(x)[0] == space["f"](x)
        assert sd.value_and_grad(space["g"])(x)[0] == space["g"](x)


class Scaled(contextlib.ContextDecorator):
    """A decorator of Python's own that keeps some exceptions to itself."""

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        return kind is ValueError


@Scaled()
def scaled(x):
    return math.log(x) if x < 5 else 2 * x


def around(x):
    found = scaled(x)
    return x * x if found is None else found


@pytest.mark.parametrize("x", [0.5, -0.5, 6.0])
def test_decorators_of_python_that_handle_are_followed(x):
    value, slope = sd.value_and_grad(around)(x)
    assert value == around(x)
    np.testing.assert_allclose(slope, (around(x + 1e-6) - around(x - 1e-6)) / 2e-6, rtol=1e-6)


def bound_in_a_try(x):
    s = x
    try:
        for k in range(3000):
            s = 0.5 * s + np.sin(s + k) * x
        t = s
    finally:
        t = t * 0.5
    return t


@pytest.mark.parametrize("x", [0.5, 1.7])
def test_what_ends_a_trace_passes_a_finally_that_raises(x):
    assert sd.value_and_grad(bound_in_a_try)(x)[0] == pytest.approx(bound_in_a_try(x), rel=1e-12)
