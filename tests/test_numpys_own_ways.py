"""What NumPy gives a view for, reads while it writes, or raises for some matrices: as NumPy has it, or refused."""

import cmath
import math
import operator
import statistics

import numpy as np
import pytest

import symdiff as sd

pytestmark = pytest.mark.filterwarnings("ignore:Setting the shape:DeprecationWarning")  # NumPy 2.5
X = np.array([1.6, 0.7, 1.9, 1.2])


def written(line):
    """A function that runs a line on an array `v`, and then changes what it gave, or what it was given."""
    space = {"np": np}
    for name, change in (("given", "v"), ("made", "w")):
        text = f"def {name}(x):\n    v = x * 1.0\n    w = {line}\n    {change} *= 2\n    return np.sum(v) + 3 * np.sum(w)\n"
        exec(compile(text, f"{name}.py", "exec"), space)
    return space["given"], space["made"]


@pytest.mark.parametrize(
    "line",
    [
        "np.astype(v, float, copy=False)", "np.astype(v, float)", "np.ma.getdata(v)", "np.ma.getdata(v, subok=False)",
        "np.polyder(v, 0)", "np.polyder(v)", "np.linalg.matrix_power(v.reshape(2, 2), 1)",
        "np.linalg.matrix_power(v.reshape(2, 2), 2)", "np.apply_over_axes(np.sum, v, ())", "np.nan_to_num(v, copy=False)",
        "np.nan_to_num(v)", "np.diff(v, 0)", "np.broadcast_arrays(v, v)[0]", "np.tile(v, 1)", "np.roll(v, 0)", "np.r_[v, v]",
        "np.ravel((v + 1j * v).real)", "(v + 1j * v).real[1:]", "np.ascontiguousarray((v + 1j * v).imag)",
    ],
)  # fmt: skip
def test_views_where_numpy_has_them(line):
    for f in written(line):
        value, slope = sd.jvp(f)(X, np.ones(4))
        np.testing.assert_allclose(value, f(X.copy()), rtol=1e-12)
        np.testing.assert_allclose(slope, (f(X + 0.5) - f(X - 0.5)), rtol=1e-9)


@pytest.mark.parametrize("shown", ["a.ravel()", "a.T.ravel()", "a.reshape(-1)", "a.astype(a.dtype, copy=False, order='C')"])
@pytest.mark.parametrize(
    "made",
    [
        "np.array([v, v], order='F')", "np.array([v, v])", "np.asarray([list(v), list(v)], order='F')",
        "np.asfortranarray([v, v])", "np.require([v, v], requirements='F')", "np.array([v[0], v[1]], ndmin=2, order='F')",
        "np.outer(v, v).astype(float, order='F')", "np.outer(v, v).astype(float, order='F', copy=False)",
        "np.outer(v, v).astype(int, order='F')", "np.outer(v, v).T.astype(int, order='C')", "np.outer(v, v).T.astype(int)",
        "np.outer(v, v).T.astype(int).astype(float)",
        "np.outer(v, v).T.copy('K').astype(float, order='C', copy=False)", "np.outer(v, v).astype(int, 'F').astype(np.int64)",
        "np.ones_like([v, v], order='F') * v",
        "(np.outer(v, v).T * 1j).imag", "np.asfortranarray(np.outer(v, v) + 0j).real",
        "np.fft.fft(np.outer(v[:2], v).T, axis=0).real",
    ],
)  # fmt: skip
def test_orders_that_are_asked_for_decide_between_views_and_copies(made, shown):
    space = {"np": np}
    text = f"def f(x):\n    v = x * 1.0\n    a = {made}\n    w = {shown}\n    w.flat[1] = 5\n    return np.sum(a * a * v[0])\n"
    exec(compile(text, "ordered.py", "exec"), space)
    assert sd.value_and_grad(space["f"])(X)[0] == pytest.approx(space["f"](X), rel=1e-13)


def parts_in_memory(x):
    c = x + 1j * x
    r = c.real
    w, t, s = np.ravel(r), c.reshape(2, 2).T.imag.reshape(-1), r.reshape(2, 2)
    r[0] = 9.0
    return np.sum(w) + 2 * np.sum(t) + 3 * np.sum(s * s)


def at_with_overlap(x):
    v = x * 1.0
    np.add.at(v, [1, 2, 3], v[:3])
    return v


def picked(x):
    v = x[x > 1.0]
    w = np.nan_to_num(v, copy=False)
    w *= 2
    v.shape = (-1, 1)
    np.round(v, 1, out=v)
    return np.sum(v * w) * x[1]


def joined_parts(x):
    v = np.r_[x, x]
    c = v + 1j * v
    q = c.imag
    q += 1
    c.real *= 2
    return (c * c).real


def joined_and_rounded(x):
    v = np.c_[x, x]
    v.fill(1.11)
    w = v.reshape(1, -1)
    w.round(1, out=w)
    return v + x[0]


def converted_by_itself(x):
    v = x * 1.0
    w = v.__array__()
    v *= 2
    w += 1
    return v * w


def broadcast_to_itself(x):
    v = x * 1.0
    w = np.broadcast_arrays(v, v)[0]
    v[0] = 2.0
    return w * v


def along_numbers(x):
    return np.cumsum(x[0], axis=0) + np.ptp(x.sum(), axis=-1) + x[np.argsort(x[..., 0], axis=0)] + np.argmax(x[1], axis=0)


def traces(x):
    m = x.reshape(2, 2)
    return np.einsum("ii", m) + np.einsum("ii->", m) + np.einsum(m, [0, 0]) + np.einsum("", x[0]) + np.einsum("...ii", m)


def triangular_inverse(x):
    return np.linalg.pinv(x.reshape(2, 2), hermitian=True)


@pytest.mark.parametrize(
    "f",
    [parts_in_memory, at_with_overlap, picked, joined_parts, joined_and_rounded, converted_by_itself,
     broadcast_to_itself, along_numbers, traces,
     triangular_inverse],
)  # fmt: skip
def test_values_and_slopes(f):
    value, slope = sd.jvp(f)(X, np.ones(4))
    np.testing.assert_allclose(value, f(X.copy()), rtol=1e-12)
    wanted = (np.asarray(f(X + 1e-6)) - np.asarray(f(X - 1e-6))) / 2e-6
    np.testing.assert_allclose(slope, wanted, rtol=1e-6, atol=1e-7)


def two_in_one(x):
    v = x * 2
    np.modf(v, out=(v, v.view()))
    return v


def placed_while_read(x):
    v = x * 1.0
    np.place(v, v > 1, v)
    return v


def masked_image(x):
    v = x * 1.0
    w = np.ma.masked_array(v, [0, 1, 0, 0])
    v *= 2
    return w.filled(0.0)


def stacked_chain(x):
    return np.linalg.multi_dot([x.reshape(1, 2, 2), x.reshape(1, 2, 2)])


@pytest.mark.parametrize("f", [two_in_one, placed_while_read, masked_image, stacked_chain])
def test_what_depends_on_numpys_order_is_refused(f):
    with pytest.raises(sd.TraceError, match=r"test_numpys_own_ways\.py:\d+"):
        sd.jvp(f)(X, np.ones(4))


def assigned(line):
    """A function that runs a line on an array of nine cells, and on its matrix."""
    text = f"def f(x):\n    v = np.r_[x, 2*x, x[0]]\n    M = v.reshape(3, 3)\n    {line}\n    return v*np.arange(1, 10)\n"
    space = {"np": np}
    exec(compile(text, "assigned.py", "exec"), space)
    return space["f"]


@pytest.mark.parametrize(
    "line",
    ["M[:, 2] = M[1]", "M[1] = M[:, 2]", "M[:, 2][::-1] = M[1, ::-1]", "v[1:5] = v[0:8:2]", "v[0:8:2] = v[1:5]",
     "M[:, 2] = M[None, 1]", "np.copyto(M[1], M[:, 2])", "v[v > 1.5] = v[:6]", "for j in range(3): M[:, j] = M[1]",
     "for j in range(3): M[1] = M[:, j]", "for j in range(3): M[j] = M[:, (j + 1) % 3]", "M[:, np.argmin(x) + 1] = M[1]"],
)  # fmt: skip
@pytest.mark.parametrize("loops", ["keep", "unroll"])
def test_assignments_that_read_what_they_have_written_are_refused(line, loops):
    with pytest.raises(sd.TraceError, match=r"assigned\.py:4: .*while it changes it; assign a copy"):
        sd.trace(assigned(line), X, loops=loops)


@pytest.mark.parametrize(
    "line",
    ["M[:, 2] = M[1].copy()", "M[0] = M[:, 0]", "M[1] = M[:, 1]", "M[2] = M[:, 1]", "M[:2, 1] = M[1, :2]", "v[1:] = v[:-1]",
     "v[:-1] = v[1:]", "v[4:8] = v[0:8:2]", "v[8:0:-2] = v[0:4]", "v[8:0:-2] = v[3::-1]", "v[:] = v[::-1]", "M[:] = M.T",
     "M[1:2] = M[:, 0]", "v[[1, 2, 3]] = v[:3]", "M[1, [0, 1, 2]] = M[:, 1]", "v[:] = v[2:3]", "v[v > 1.5] = v[v > 1.5]*2",
     "v[v > 1.5] = v[3:]", "for j in range(3): M[0] = M[:, 0]", "for j in range(3): M[j] = M[:, 0]",
     "for j in range(2): M[j] = M[j + 1]",
     "for j in range(3): M[j] = M[:, (j + 1) % 3].copy()", "for j in range(2): M[j, :2] = M[1, 1:]"],
)  # fmt: skip
def test_assignments_that_read_first_are_numpys(line):
    f = assigned(line)
    np.testing.assert_array_equal(sd.trace(f, X)(X), f(X))


def inverted(a):
    try:
        return np.sum(np.linalg.inv(a))
    except np.linalg.LinAlgError:
        return 4 * a[0, 0]


def solved(a):
    try:
        return np.sum(np.linalg.solve(a, a[0]) * np.array([1.0, 3.0]))
    except ValueError:
        return a[0, 1] * a[0, 0]


def shifted(a):
    for k in range(3):
        try:
            return np.sum(np.linalg.cholesky(a + 2 * k * np.eye(2)))
        except np.linalg.LinAlgError:
            continue
    return a[1, 1]


def powered(a):
    try:
        return np.sum(np.linalg.matrix_power(a, -2))
    except Exception:
        return 4 * a[0, 1]


def stacked(a):
    try:
        return np.sum(np.linalg.inv(np.stack([a, a + 1.0])))
    except np.linalg.LinAlgError:
        return 3 * a[0, 1]


MATRICES = [np.array(m) for m in ([[2.0, 1], [1, 3]], [[1.0, 1], [1, 1]], [[1.0, 2], [2, 1]], [[-9.0, 2], [2, 4]])]


@pytest.mark.parametrize("options", [{}, {"paths": "merge"}, {"paths": "guard"}, {"exact": True}], ids=str)
@pytest.mark.parametrize("f", [inverted, solved, shifted, powered, stacked])
def test_linear_algebra_raises_what_the_function_catches(f, options):
    for matrices in (MATRICES, MATRICES[::-1]):
        g = sd.value_and_grad(f, **options)
        for m in matrices:
            np.testing.assert_allclose(g(m)[0], f(m), rtol=1e-9)
    np.testing.assert_allclose(sd.vmap(f)(np.stack(MATRICES)), [f(m) for m in MATRICES], rtol=1e-9)
    assert sd.grad(inverted)(MATRICES[1]).tolist() == [[4.0, 0.0], [0.0, 0.0]]


def test_values_of_singular_matrices():
    for m in (np.zeros((2, 2)), np.array([[1.0, 0], [0, 0]])):
        for f in (lambda m: np.linalg.cond(m, 1), lambda m: np.sum(np.abs(np.linalg.qr(m)[1]) * [[1.0, 2], [3, 4]])):
            value, slope = sd.value_and_grad(f)(m)
            assert value == f(m)
            assert not np.isfinite(slope).all()
    assert sd.jvp(np.linalg.cond)(np.zeros((2, 2)), np.ones((2, 2)))[0] == np.inf


@pytest.mark.parametrize("paths", [None, "guard"])
@pytest.mark.parametrize(
    "risky, points",
    [
        (lambda x: statistics.geometric_mean([x, 1.0]), (0.0, -1.0, 2.0)),
        (lambda x: statistics.variance([x]), (1.0,)),
        (lambda x: statistics.harmonic_mean([x - 1, 1.0]), (0.0, 3.0)),
        (lambda x: cmath.log(x).real, (0.0, 2.0)),
        (lambda x: cmath.log10(x).real, (0.0, 2.0)),
        (lambda x: cmath.atanh(x).real, (1.0, 0.5, -1.0)),
        (lambda x: cmath.exp(x).real, (1000.0, 1.0)),
        (lambda x: cmath.cosh(x).real, (-1000.0, 1.0)),
        (lambda x: abs(complex(x, x)), (1.7e308, 1.0)),
        (lambda x: math.fsum([x + 1e308, 1e308, 1e308]), (1.0,)),
    ],
)
def test_handlers_get_what_other_modules_raise(risky, points, paths):
    def f(x):
        try:
            return risky(x)
        except Exception as error:
            return 4 * x + 5 + len(type(error).__name__) * x

    for order in (points, points[::-1]):
        g = sd.value_and_grad(f, paths=paths)
        for x in order:
            np.testing.assert_allclose(g(x)[0], f(x), rtol=1e-12)


def test_an_equality_of_arrays_of_cells_chooses_the_value_only():
    def f(x):
        if np.array_equal([x], [1.0]):
            return x
        return x * x

    assert [sd.grad(f, paths=paths)(1.0) for paths in (None, "merge", "guard")] == [2.0, 2.0, 2.0]


def test_an_array_of_a_number_is_an_array():
    def f(x):
        y = np.asarray(x)
        return x * (2 if isinstance(y, np.ndarray) else 3)

    assert sd.grad(f)(2.5) == 2.0


ODD = {  # a line, and its arguments: a number as one cell along an axis, axes of several operands, nothing to do
    "np.repeat(x, 2, axis=-1)": (0.7, np.array(0.7)),
    "np.squeeze(x, axis=0)": (0.7, np.array(0.7)),
    "np.take(x, [0, 0], axis=0)": (0.7, np.array(0.7)),
    "np.flip(x) * 2": (0.7, np.array(0.7), X),
    "np.argmax(x, axis=0, keepdims=True) + x": (0.7, X),
    "np.compress([True], x, axis=0)": (np.array(0.7), X),
    "np.compress(x[:2] > 1.0, x)": (X,),
    "np.extract(x[:3] > 1.0, x)": (X,),
    "np.diff(x, n=0, prepend=1.0)": (0.7, X),
    "np.linalg.vecdot(x, [1.0, 2.0], axis=0)": (X.reshape(2, 2), np.stack([X, X + 1, X, X, X - 1, X]).reshape(2, 3, 4)),
    "np.linalg.vecdot(x, x, axis=-2)": (X.reshape(2, 2),),
    "np.geomspace(x, 2.0, 3)": (0.7, X, X.reshape(2, 2)),
    "np.geomspace(x, 2 * x, 4, axis=-1)": (X, X.reshape(2, 2)),
    "np.geomspace(-2.0, -x, 4, endpoint=False)": (X,),
    "np.logspace(x, 1.0, 3, axis=-1)": (X,),
    "np.logspace(0.5, 1.0, 3, base=x)": (0.7, X, X.reshape(2, 2)),
    "np.linspace(-x, x, 4, dtype=int) * 1.5": (2.5, X),
    "np.subtract.reduce(x, initial=0.5)": (X,),
    "np.divide.accumulate(x[:0])": (X,),
    "np.add.accumulate(x, dtype=bool) * x": (X,),
    "np.sum(x, dtype=bool) * x": (0.7, X),
    "np.cumprod(x - 0.7, dtype=bool) * x": (X + 0.1,),
}


def agrees(f, x, **options):
    expected, v = f(x), np.cos(np.arange(np.size(x))).reshape(np.shape(x))
    value, slope = sd.jvp(f, **options)(x, v if np.shape(x) else float(v))
    assert np.shape(value) == np.shape(expected)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    np.testing.assert_allclose(slope, (f(x + 1e-6 * v) - f(x - 1e-6 * v)) / 2e-6, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("line", ODD)
@pytest.mark.parametrize("scalarize", [None, False])
def test_odd_arguments_mean_what_they_mean_in_numpy(line, scalarize):
    for x in ODD[line]:
        agrees(eval(f"lambda x: {line}", {"np": np}), x, scalarize=scalarize)


@pytest.mark.parametrize("x", [0.7, X])
def test_methods_of_ufuncs_take_lists(x):
    agrees(lambda x: np.logaddexp.reduce([x, 2 * x, x + 1]), x)
    agrees(lambda x: np.logaddexp.reduce([x, 2 * x], axis=-1, initial=0.5), x)
    agrees(lambda x: np.copysign.accumulate([x, 2 * x]), x)
    agrees(lambda x: np.logical_or.reduce([x]) * x, x)
    agrees(lambda x: np.maximum.reduce([x, 2 * x, x * x]), x)
    agrees(lambda x: np.logaddexp.outer([np.sum(x), 1.0], x), x)


@pytest.mark.parametrize("paths", [None, "guard"])
def test_what_a_mask_picked_is_written_to_place_by_place(paths):
    def f(x):
        picked = x[x > 1.0]
        copied = np.array(picked)
        np.add.at(copied, [0, 1, 0], x[1])
        np.multiply.at(picked, [0, 0], x[1])
        return np.sum(copied) + np.sum(picked)

    agrees(f, X, paths=paths)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.astype(int) * np.float32(1.1), lambda x: x.astype(np.int64) + x, lambda x: x.astype(int) / 3,
        lambda x: np.sqrt(x.astype(int)), lambda x: np.int64(x[0]) / 3, lambda x: np.rint(x).astype(int).sum() / 3,
        lambda x: int(x[0]) / 3, lambda x: round(x[0]) / 3, lambda x: (x > 2).astype(int) * x,
    ],
)  # fmt: skip
def test_integers_of_single_precision_are_computed_in_double(f):
    x = np.array([3.7, 2.2], np.float32)
    value, expected = sd.jvp(f)(x, x)[0], f(x)
    assert np.asarray(value).dtype == np.asarray(expected).dtype
    np.testing.assert_array_equal(value, expected)


@pytest.mark.parametrize(
    "f",
    [
        lambda x, a: a * x, lambda x, a: x + a, lambda x, a: np.hypot(x, a), lambda x, a: x**a, lambda x, a: np.maximum(x, a),
        lambda x, a: x * math.sin(a), lambda x, a: np.sin(a) * x, lambda x, a: float(x[0]) * x, lambda x, a: int(x[0]) - x,
    ],
)  # fmt: skip
@pytest.mark.parametrize("scalarize", [True, False])
def test_arrays_of_single_precision_stay_so_beside_numbers_of_python(f, scalarize):
    x = np.array([3.7, 2.2], np.float32)
    value, expected = sd.jvp(f, scalarize=scalarize)(x, 2.0, x)[0], f(x, 2.0)
    assert value.dtype == expected.dtype
    np.testing.assert_allclose(value, expected, rtol=3e-7)


M = "(x > 1.0)"  # truths
KEPT = [  # truths and integers stay these: sums of truths are truths, and integers cut what is written into them
    f"{M} @ {M}", f"np.dot({M}, {M})", f"np.vdot({M}, {M})", f"np.inner({M}, {M})", f"np.einsum('i,i->', {M}, {M})",
    f"np.tensordot({M}, {M}, 1)", f"np.vecdot({M}, {M})", f"np.outer({M}, {M}) + True", f"np.kron({M}, {M}) + True",
    f"np.outer({M}, {M}) @ np.outer({M}, {M}) + True", f"np.convolve({M}, {M}) + True", f"np.tril(np.outer({M}, {M})) + True",
    f"np.maximum.accumulate({M}) + True", f"np.array(list({M})) + True",
    f"np.array([[a, True] for a in {M}]) + True", f"np.multiply.accumulate({M}) + 1",
    f"np.linalg.matrix_power(1 * np.outer({M}, {M}), 2)",
    f"into(np.where({M}, 1, 2))", f"into(np.square(1 * {M}))", f"into(np.sum([1 * {M}, 1 * {M}], axis=0))",
    f"into(np.outer(x.astype(int), 1 * {M})[1])", f"into(np.select([{M}], [3], 4))", "into(np.sign(x.astype(int)))",
    f"into(np.convolve(1 * {M}, x.astype(int)))", f"into(np.nan_to_num(1 * {M}))",
    f"into(np.pad(1 * {M}, 1))", f"np.full_like(np.where({M}, 1, 2), 0.7)", f"np.insert(np.where({M}, 1, 2), 1, 0.7)",
    f"np.pad(np.where({M}, 1, 2), 1, constant_values=x[0])",
    "np.pad(np.array([1, 7, 4]), 3, mode='linear_ramp', end_values=x[0])",
    f"np.pad(np.where({M}, 1, 8), 2, mode='mean')", f"np.pad(np.where({M}, 1, 8), 3, mode='linear_ramp')",
    "np.mean(x, dtype=int)", f"np.sum({M}, initial=1.7)", f"np.sum({M}, initial=x[0])",
    f"np.max(-np.where({M}, 1, 2), initial=-0.5)", "np.min(np.array([[3, 4]]), initial=0.5, where=x[0] > 0) + 0*x[0]",
    "np.sum(np.any(x > 0))*3", "int(np.sum(np.any(x > 0)))//2", "np.sum(x[0] > 0) // 2", "np.prod(np.any(x > 0)) + 1",
    f"np.min(1 * {M}, initial=x[0] - 1.7)", "np.prod(x > 0, initial=2.7)",
    f"into(np.array(list(np.outer(1 * {M}, [1, 2]))))", f"into(np.array([1 * {M}, {M}]))",
    f"into(np.array([{M} + 1, [1, 2, 3, 4]]))",
    "np.where(np.logical_not(x - 0.7), x, 2 * x)", "np.where(np.logical_not(1 * (x > 1.0)), x, 2 * x)",
    "np.logical_or(x, 4) + 0.7", "np.logical_and(x, 3 * x) + 0.7", "np.logical_and(x - 0.7, x).sum()",
    "np.logical_not(x) + 0.7",
    "np.logical_or(0.0, x) | np.logical_and(1 * (x > 1), 2)", "np.logical_xor(x, 4) | np.logical_xor(4, x)",
    "np.logical_xor(x - 0.7, 2 * x - 1.4)",
    f"np.sum({M}) % 0", f"np.sum({M}) // np.sum(x > 5)", f"(1 * {M}) // (1 * (x < 1.0))", f"np.floor_divide(3, 1 * {M})",
    f"np.divmod(3, 1 * {M})", f"divmod(1 * {M}, 1 * (x < 1.0))", f"np.fmod(5 * (x > 0), 1 * {M})",
    f"np.outer(1 * {M}, 1 * {M}) % np.outer(1 * {M}, 1 * {M})",
    f"np.fmod(2, {M})", f"2 % {M}", f"np.int64(2) % {M}", f"np.array([1, 0, 2, 3]) // {M}",
    f"into({M} ** np.array([1, 0, 2, 3]))", "np.min(x).flags.writeable * x",
    f"(len(x[{M}]) < 9) + True", f"len(x[{M}]) + np.float32(0.1)",
    f"x[{M}].size / np.float32(3)", "x.astype('f4') < float(x[1])", "x.astype('f4') // float(x[1])",
    "x if np.argmin(x).dtype == int else 2 * x", f"x * np.iinfo((1 * {M}).dtype).bits", "x.astype(np.argsort(x).dtype) / 2",
    f"np.where({M}, np.int32(2), np.int32(1)).nbytes * x", f"getattr(np.sum({M}), 'dtype').itemsize * x",
    f"np.full(3, 0.7, dtype={M}.sum().dtype)", f"np.sum(np.where({M}, np.int32(2**31 - 1), np.int32(5)))",
    f"np.where({M}, 2, 1) * 3 + {M}.astype(np.int32) * np.int32(2**31 - 1)", "True", "np.bool_(x.size > 5)", "(x[0], True)[1]",
    "np.piecewise(x, [x < 1.7, x < 1.0], [np.sin, lambda v: 2 * v, 1.5])",
    "np.piecewise(x, [x > 0, x > 1.0, x > 1.5], [1, 2, 3])",
    "changed(operator.imul, np.zeros_like(x) + 1.0, 3.0)", "changed(operator.setitem, np.ones(4), 0, 0.3)",
    "changed(operator.iadd, np.ones((2, 2)).T, np.ones(2))",
]  # fmt: skip


def into(v):
    v[0] = 0.7
    v[1:2] = [1.9]
    return v / 2


def changed(operation, v, *rest):
    v[1] = 5.0
    operation(v, *rest)
    return v


@pytest.mark.parametrize("line", KEPT)
@pytest.mark.parametrize("options", [{}, {"exact": True}, {"scalarize": True}, {"scalarize": False}], ids=str)
def test_truths_integers_and_operators_are_numpys(line, options):
    f = eval(f"lambda x: {line}", {"np": np, "operator": operator, "into": into, "changed": changed})
    with np.errstate(divide="ignore"):
        value, expected = sd.jvp(f, **options)(X, X)[0], f(X)
    np.testing.assert_array_equal(value, expected)
    assert (np.asarray(value).dtype == bool) == (np.asarray(expected).dtype == bool)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.c_[x > 1.0, x > 1.5] + True, lambda x: np.r_[x > 1.0, True] + True,
        lambda x: into(np.r_[1 * (x > 1.0), 3]), lambda x: np.r_["-1", np.float64(3.0) + (2 * x).flat, x],
        lambda x: np.r_[x.astype("f4"), 0.5], lambda x: np.c_[x.astype("f4"), x], lambda x: np.r_[1:3, x],
        lambda x: np.r_["0,2", x, x],
    ],
)  # fmt: skip
def test_what_is_joined_by_brackets_is_of_numpys_dtype(f):
    value, expected = sd.jvp(f)(X, X)[0], f(X)
    np.testing.assert_array_equal(value, expected)
    assert value.dtype == expected.dtype


@pytest.mark.parametrize("x", [X, np.tile(X, 5000)], ids=["few", "many"])
def test_products_of_many_truths_are_truths(x):
    f = lambda x: ((x > 1.0) @ (x > 1.0)) * x  # noqa: E731
    np.testing.assert_array_equal(sd.jvp(f)(x, x)[0], f(x))


@pytest.mark.parametrize(
    "line",
    [
        "np.where(x > 1.0, np.uint8(200), np.uint8(100)) * np.uint8(2)",
        "(x > 1.0).astype(np.uint8) * np.uint8(200) * np.uint8(2)",
        "np.where(x > 1.0, np.int8(100), np.int8(1)) + np.int8(100)", "(x > 1.0) * np.uint8(200) * 2",
        "np.sum(x) * 0 + np.full(2, (x > 1.0)[0] * np.uint8(200)) * 2",
        "(np.diag((x > 1.0) * np.uint8(100)) * 3).sum() * x",
    ],
)  # fmt: skip
def test_arithmetic_that_wraps_is_refused(line):
    """At arguments where it does; at others the value is NumPy's."""
    f = eval(f"lambda x: {line}", {"np": np})
    g = sd.jvp(f)
    np.testing.assert_array_equal(g(X * 0, X)[0], f(X * 0))
    with pytest.raises(OverflowError, match=r"wraps round|beyond"):
        g(X, X)


BEYOND = [  # results that int32 does not hold
    f"np.where({M}, np.int32(2**31 - 1), 5) + 1", f"{M}.astype(np.int32) * np.int32(2**31 - 1) + np.int32(1)",
    f"abs(np.where({M}, np.int32(-2**31), np.int32(1)))",
    f"np.where({M}, np.int32(9), np.int32(1)) @ np.full(4, np.int32(2**28))",
    f"np.kron(np.where({M}, np.int32(70000), np.int32(1)), np.full(2, np.int32(70000)))",
]  # fmt: skip


@pytest.mark.parametrize("line", BEYOND)
def test_integers_beyond_int32_are_refused_and_others_are_not(line):
    f = eval(f"lambda x: {line}", {"np": np})
    with pytest.raises(OverflowError, match="beyond int32"):
        sd.jvp(f)(X, X)
    np.testing.assert_array_equal(sd.jvp(f)(X - 1.5, X)[0], f(X - 1.5))


@pytest.mark.parametrize(
    "line", [f"into(np.r_[{M}, 2])", f"np.c_[{M}, {M}] + True", f"r_[{M}, True] + True", "np.c_[x, x] * 2"]
)
def test_brackets_join_in_functions_without_source(line):
    f = eval(f"lambda x: {line}", {"np": np, "into": into, "r_": np.r_})
    value, expected = sd.jvp(f)(X, X)[0], f(X)
    np.testing.assert_array_equal(value, expected)
    assert (value.dtype == bool) == (expected.dtype == bool)


@pytest.mark.parametrize(
    "line",
    [
        "scaled(np.zeros((2, 2), np.float32), 1e-3) + y[0]", "np.ones((2, 2)) / y[0]",
        "np.concatenate((np.interp(y, [0.0, 0.4, 2.0], [0.5, 2.0, 1.0], left=0.3), y), dtype='f4')",
        "scaled(np.ones((2, 2)), y[1])", "np.sum(y, initial=np.float64(0.1))",
        "np.full((2, 2), np.float32(0.1)) * y[0] * 0.1",
    ],
)  # fmt: skip
@pytest.mark.parametrize("options", [{}, {"exact": True}, {"scalarize": True}, {"scalarize": False}], ids=str)
@pytest.mark.parametrize("code", ["f", "d"])
def test_single_precision_beside_double(line, options, code):
    x = X.astype(code)
    f = eval(f"lambda x: (lambda y: {line})(x.astype('f4'))", {"np": np, "scaled": scaled})
    for transform in (sd.jvp, sd.vmap):
        value = transform(f, **options)(x, x)[0] if transform is sd.jvp else sd.vmap(f, **options)(x[None])[0]
        assert value.dtype == f(x).dtype
        np.testing.assert_allclose(value, f(x), rtol=3e-7 if value.dtype == np.float32 else 1e-15)


def scaled(v, by):
    for row in np.split(v, 2):
        row *= by
    return v


def test_cotangents_of_truths_are_numbers():
    f = lambda x: (np.linalg.inv(x).min(), x[0, 0] > 0, x > 0)  # noqa: E731
    x = np.array([[0.3, 0.7], [0.2, -0.5]])
    np.testing.assert_array_equal(
        sd.vjp(f)(x, (0.5, 0.3, np.ones((2, 2))))[1], sd.grad(lambda x: 0.5 * np.linalg.inv(x).min())(x)
    )


def test_paths_join_known_truths_in_sums():
    def f(x):
        v = 2 * x
        v[-1] = 1
        np.add(v, bool((x > 0.55).all()), out=v)
        return np.average(v, weights=(x > 1.0) + 1)

    for x in (X.reshape(2, 2), X.reshape(2, 2) - 1.2):
        value, slope = sd.value_and_grad(f)(x)
        np.testing.assert_allclose(value, f(x), rtol=1e-14)
        np.testing.assert_allclose(np.sum(slope), (f(x + 1e-6) - f(x - 1e-6)) / 2e-6, rtol=1e-8)


SHUFFLED = [
    "np.random.default_rng(3).shuffle(v)", "np.random.default_rng(3).shuffle(v, axis=1)", "np.random.RandomState(3).shuffle(v)",
    "np.random.default_rng(3).shuffle(v.T)", "np.random.default_rng(3).shuffle(v[0])",
    "np.random.default_rng(3).shuffle(v[::2])", "random.Random(3).shuffle(v[0])",
]  # fmt: skip


@pytest.mark.parametrize("line", SHUFFLED)
def test_rows_are_shuffled_as_numpys_are(line, tmp_path):
    text = f"import random\nimport numpy as np\n\n\ndef f(x):\n    v = 2 * x\n    {line}\n    return v\n"
    path = tmp_path / "shuffled.py"
    path.write_text(text)
    space = {}
    exec(compile(text, str(path), "exec"), space)
    f = space["f"]
    x = np.arange(12.0).reshape(4, 3)
    np.testing.assert_array_equal(sd.jvp(f)(x, x)[0], f(x))


@pytest.mark.parametrize("name", "sqrt log log2 log10 arccos arcsin arctanh power logn".split())
def test_functions_of_emath_are_real_ones_or_raise(name):
    f = {"power": lambda x: np.emath.power(x, 0.3), "logn": lambda x: np.emath.logn(2, x)}.get(name)
    f = f or (lambda x: getattr(np.emath, name)(x))
    x = np.array([0.3, 0.7])
    value, slope = sd.jvp(f)(x, np.ones(2))
    np.testing.assert_allclose(value, f(x), rtol=1e-15)
    np.testing.assert_allclose(slope, (f(x + 1e-6) - f(x - 1e-6)) / 2e-6, rtol=1e-8)
    with pytest.raises(ValueError, match="is complex here"):
        sd.jvp(f)(x - 2, x)
    z = x - 2 + 0j
    np.testing.assert_allclose(sd.jvp(f)(z, z)[0], f(z), rtol=1e-15)


@pytest.mark.parametrize("line", ["np.var(x, dtype=bool)", "np.std(x, dtype=int, ddof=1)", "x.var(dtype=int)"])
def test_variances_in_integers_are_refused(line):
    with pytest.raises(sd.TraceError, match="leave dtype= away"):
        sd.jvp(eval(f"lambda x: {line}", {"np": np}))(X, X)


SHOWN_TWICE = [  # arrays that show cells more than once: what stays of them is not what they showed before
    "w[k] = 5.0", "w[w > 1] = 5.0", "w[x > 1] = 5.0", "np.copyto(w, 5.0, where=x > 1)", "np.putmask(w, w > 1, 5.0)",
    "np.add(w, 5.0, out=w, where=[True, False, False, True])", "np.place(w, w > 1, 5.0)",
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:future versions:FutureWarning", "ignore:Numpy has detected:DeprecationWarning")
@pytest.mark.parametrize("line", SHOWN_TWICE)
@pytest.mark.parametrize("view", ["np.meshgrid(v, v, copy=False)[0]", "np.lib.stride_tricks.as_strided(v, (4, 4), (0, 8))"])
def test_cells_shown_twice_are_not_assigned_to_by_conditions(line, view, tmp_path):
    path = tmp_path / "twice.py"
    body = f"    v = 2 * x\n    w = {view}\n    k = int(np.argmax(x))\n    {line}\n    return np.sum(v)\n"
    path.write_text(f"import numpy as np\n\n\ndef f(x):\n{body}")
    space = {}
    exec(compile(path.read_text(), str(path), "exec"), space)
    with pytest.raises(sd.TraceError, match="more than once"):
        sd.jvp(space["f"])(X, X)


@pytest.mark.parametrize("f", [lambda x: x[:0], lambda x: np.zeros((2, 0)), lambda x: (x * 2, x[:0])], ids=["0", "2x0", "both"])
@pytest.mark.parametrize("target", ["c", "python", "numpy"])
@pytest.mark.parametrize("n", [0, 2])
def test_files_of_results_without_cells(f, target, n):
    text = sd.jvp(f).source(np.ones(n), np.ones(n), target=target)
    if target != "c":
        space = {}
        exec(text, space)
        found, expected = space[space["__all__"][0]](np.ones(n).tolist(), np.ones(n).tolist())[0], f(np.ones(n))
        several = isinstance(expected, tuple)
        assert [np.size(v) for v in (found if several else (found,))] == [
            np.size(v) for v in (expected if several else (expected,))
        ]


@pytest.mark.parametrize("options", [{}, {"exact": True}, {"scalarize": True}, {"scalarize": False}], ids=str)
def test_no_truths_beside_whole_arrays(options):
    value, _ = sd.jvp(lambda x: (np.zeros(0, bool), x * 2, np.isin([], [0, 1])), **options)(X, X)
    assert value[0].shape == value[2].shape == (0,) and value[0].dtype == value[2].dtype == bool
    np.testing.assert_array_equal(value[1], 2 * X)


def test_shuffles_in_functions_without_source_are_refused():
    space = {"np": np}
    exec("def f(x):\n    v = 2 * x\n    np.random.default_rng(3).shuffle(v)\n    return v\n", space)
    with pytest.raises(sd.TraceError, match="shuffles"):
        sd.jvp(space["f"])(np.ones((3, 2)), np.ones((3, 2)))


SINGLE = np.array([1.0, 2.0], "f4")
IN_SINGLE = {
    "ne": lambda x: np.insert(x, 1, 0.7) != 0.7,
    "lt": lambda x: np.insert(x, 1, 0.7) < 0.7,
    "equal": lambda x: np.equal(np.append(x, np.float32(0.7)), 0.7),
    "where": lambda x: np.where(np.array([np.float32(0.7), x[0]]) == 0.7, x[0], 2 * x[0]),
    "isclose": lambda x: np.isclose(np.insert(x, 1, 0.7), 0.7, rtol=0, atol=0),
    "double": lambda x: np.insert(x, 1, 0.7) == np.float64(0.7),
    "block_diag": lambda x: pytest.importorskip("scipy.linalg").block_diag(x, x),
    "hankel": lambda x: pytest.importorskip("scipy.linalg").hankel(x),
    "convolution_matrix": lambda x: pytest.importorskip("scipy.linalg").convolution_matrix(x, 3),
    "set cell": lambda x: _with_a_number(np.linalg.eigh(np.outer(x, x))[0]),
    "complex": lambda x: np.abs(np.insert(x, 0, 0.25) * (1 + 1j)) ** 2,
    "number": lambda x: (1.1 / 1.09, x),
    "number beside sorted": lambda x: (1.1 / 1.09, np.sort(x)),
}


def _with_a_number(v):
    v.flat[0] = -0.523
    return np.sum(np.log1p(v**2) * 1.5)


@pytest.mark.parametrize("name", IN_SINGLE)
@pytest.mark.parametrize("options", [{}, {"exact": True}, {"scalarize": False}, {"backend": "numpy"}], ids=str)
def test_numbers_beside_single_precision(name, options):
    f = IN_SINGLE[name]
    expected = f(SINGLE)
    many = expected if isinstance(expected, tuple) else (expected,)
    found, batch = sd.jvp(f, **options)(SINGLE, SINGLE)[0], sd.vmap(f, **options)(SINGLE[None])
    found, batch = (v if isinstance(expected, tuple) else (v,) for v in (found, batch))
    for mine, point, plain in zip(found, batch, many, strict=True):
        assert np.asarray(mine).dtype == point.dtype == np.asarray(plain).dtype
        np.testing.assert_allclose(mine, plain, rtol=1e-6)
        np.testing.assert_allclose(point[0], plain, rtol=1e-6)


def grown_in_place(x):
    a = np.outer(x, x)
    a += np.stack([a]) * 0.5
    return np.sum(a)


def summed_onto_itself(x):
    a = np.array(x[0])
    return np.sum(a.cumsum(0, out=a)) * x[0]


def placed_among_complex(x):
    return np.searchsorted([0.5, 2.0], x[0] + 1j)[()] * x[0]


def required_to_own(x):
    w = np.require(np.roll(np.outer(x, x), 1), requirements=["O", "W"])
    w[0, 1] = 9.0
    return np.sum(w)


@pytest.mark.parametrize(("f", "kind", "text"), [
    (grown_in_place, ValueError, r"non-broadcastable output operand with shape \(4,4\)"),
    (summed_onto_itself, sd.TraceError, "leave out= away"),
    (placed_among_complex, sd.TraceError, "which have no order; take np.abs"),
    (required_to_own, sd.TraceError, "take a copy"),
])  # fmt: skip
def test_what_numpy_does_not_take_or_nobody_knows_is_an_error(f, kind, text):
    with pytest.raises(kind, match=text):
        sd.grad(f)(X)
