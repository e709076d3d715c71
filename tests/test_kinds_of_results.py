"""Whether NumPy gives a number or an array without axes: names of numbers do not see what is added to them in place."""

import importlib.util

import numpy as np
import pytest

import symdiff as sd

OF_NUMBERS = """
np.nan_to_num(s) | np.nan_to_num(s, nan=1.0) | np.nan_to_num(np.asarray(s)) | np.round(s) | np.around(s, 2)
np.fix(s) | np.trunc(s) | np.sinc(s) | np.i0(s) | np.select([s > 0], [s], 0.0)
np.piecewise(s, [s > 0], [lambda v: v, 0.0]) | np.where(s > 0, s, 1.0) | np.clip(s, 0, 1) | np.copy(s) | np.asarray(s)
np.array(s) | np.squeeze(s) | np.interp(s, [0.0, 1.0], [0.0, 2.0]) | np.real(s) | np.angle(s + 0j)
np.imag(s + 1j * s) | np.conj(s) | np.choose(0, [s, s]) | np.inner(s, s) | np.dot(s, s) | np.multiply(s, s)
np.kron(s, s) | np.broadcast_to(s, ()) | np.full((), s) | np.reshape(s, ()) | np.max(s) | np.mean(s) | np.sum(s)
np.prod(s) | np.polyval([1.0, 2.0], s) | np.heaviside(s, 0.5) | np.hypot(s, s) | np.positive(s) | np.abs(s)
np.sign(s) | np.transpose(s) | np.asanyarray(s) | np.ones_like(s) | np.full_like(s, 2.0)
np.vectorize(lambda v: v * 2)(s) | np.deg2rad(s) | np.float64(s) | np.ldexp(s, 2) | np.modf(s)[0]
np.divmod(s, 2.0)[1] | np.frexp(s)[0] | np.fmin(s, 1) | np.floor_divide(s, 0.3) | np.copysign(s, -1)
np.float_power(s, 2) | np.isclose(s, 1.0) | np.isnan(s) | np.logical_and(s > 0, s < 1) | np.digitize(s, [0.0, 1.0])
np.polynomial.polynomial.polyval(s, [1.0, 2.0]) | np.polynomial.Polynomial([1.0, 2.0])(s) | np.where(True, s, s)
"""
OF_ARRAYS = """
np.ravel(s)[0] | np.trapezoid(x) | np.take(x, 0) | np.linalg.norm(x) | np.einsum("i,i", x, x)
np.einsum("i,i->", x, x) | np.tensordot(x, x, 1) | np.inner(x, x) | np.vdot(x, x) | np.trace(np.outer(x, x))
np.reshape(x[:1], ()) | x[:1].reshape(()) | np.quantile(x, 0.5) | np.median(x) | np.average(x)
np.average(x, weights=x) | np.std(x) | np.ptp(x) | np.cov(x) | np.corrcoef(x)
np.linalg.det(np.outer(x, x) + np.eye(3)) | np.nansum(x) | np.nanmax(x) | np.nanmedian(x) | np.logaddexp.reduce(x)
np.add.reduce(x) | np.squeeze(x[:1]) | x[:1].squeeze() | x.sum() | x.dot(x) | x @ x
np.linalg.multi_dot([x, np.eye(3), x]) | np.apply_along_axis(np.sum, 0, x) | np.count_nonzero(x) | np.argmax(x)
x[:1].item() | np.any(x > 0) | np.amin(x, axis=0)
"""
OF_ARRAYS_WITHOUT_AXES = """
a[()] | a.item() | a.copy() | a + 1 | a**2 | -a | np.exp(a) | np.add(a, 1) | a.sum() | a.real | a.T | a.clip(0, 1)
a.round() | np.clip(a, 0, 1) | np.round(a) | a.reshape(()) | a.squeeze() | a.ravel()[0] | a.astype(float) | abs(a)
a * a | a.max()
"""
LINES = [line for text in (OF_NUMBERS, OF_ARRAYS, OF_ARRAYS_WITHOUT_AXES) for line in text.strip().splitlines()]
FUNCTION = """
def f{place}(x):
    s = x[0]
    a = np.asarray(s)
    told = [isinstance(r, kind) for r in ({values},) for kind in (np.ndarray, float, np.generic, int)]
    return x[0] * sum(2.0**k * float(t) for k, t in enumerate(told))
"""


@pytest.fixture(scope="module")
def functions(tmp_path_factory):
    path = tmp_path_factory.mktemp("kinds") / "kinds_of_results.py"
    parts = [FUNCTION.format(place=k, values=", ".join(line.split(" | "))) for k, line in enumerate(LINES)]
    path.write_text("import numpy as np\n" + "\n".join(parts))
    spec = importlib.util.spec_from_file_location("kinds_of_results", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("place", range(len(LINES)), ids=LINES)
def test_results_are_of_numpys_kind(functions, place):
    f, x = getattr(functions, f"f{place}"), np.array([0.3, 0.6, 0.9])
    assert sd.value_and_grad(f)(x)[0] == f(x)


def test_a_number_that_is_added_to_is_another_one():
    def f(x):
        cleaned = np.nan_to_num(x[0])
        before = cleaned
        cleaned += 1.0
        return before * x[0]

    value, slope = sd.value_and_grad(f)(np.array([0.3, 0.6]))
    assert (value, *slope) == (f(np.array([0.3, 0.6])), 0.6, 0.0)
