"""Arrays that the traced function makes and assigns into: NumPy's meaning, or an error; never the caller's arrays."""

import functools

import numpy as np
import pytest
from numpy import zeros

import symdiff as sd


def heat(u0):
    u = np.zeros(6)
    u[1:-1] = u0
    for _ in range(4):
        new = u.copy()
        new[1:-1] += 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
        u = new
    return np.sum(u**2)


def recurrence(x):
    y = zeros(6)
    y[0], y[1] = x[0], x[1] * x[2]
    for i in range(2, 6):
        y[i] = y[i - 1] * y[i - 2] + i * x[3]
    return y[5]


def in_place(x):
    y = np.ones(4)
    alias = y
    y += x * 2
    y /= 3
    y **= 2
    y -= x
    return np.sum(alias * np.arange(4))


def views(x):
    y = np.empty((2, 4))
    y[...] = x
    flat = y.reshape(-1)
    flat[0] = x[2] * 7
    y.T[3, 1] = x[0]
    row = y[1]
    row[1:3] *= x[1]
    return np.sum(y * np.arange(8.0).reshape(2, 4))


def likes(x):
    y = np.zeros_like(x)
    y[::2] = x[::2] ** 2
    z = np.full_like(x, 2.0)
    z[1] = y[0]
    w = np.array([1.0, 2.0, 3.0, 4.0])
    w[w > 2] = x[:2]
    return np.sum(y * z * w)


def own_copy(x):
    x = x.copy()
    x[0] = 0
    x[1] = x[2] * x[3]
    s = np.sin(x)
    s[0] = 5 * x[1]
    return np.sum(s * x)


def gathered(x):
    y = np.array([x[0] * 2, 1.0, x[1], 3])
    z = np.sin(y)
    y[1] = x[2]
    y[2:] *= z[:2]
    return np.sum(np.exp(y) * z)


def matrix(x):
    a = np.eye(4)
    index = np.arange(4)
    a[index, index] = x
    a[0] = a[1] + 1
    return np.sum(a @ a)


def through_a_helper(x):
    def fill(target, values):
        for i, v in enumerate(values):
            target[i] = v * v

    y = np.linspace(0.0, 1.0, 4)
    fill(y, x[:2])
    return np.prod(y)


def after_a_reshape(x):
    y, w = x * 2, np.zeros(200)
    v, u = y.reshape(-1, 1), w.reshape(2, -1)
    y[0] = 1
    w[:4] = x**2
    return np.sum(v**2) * np.sum(u)


def constants_stay_numbers(x):
    a = np.array([[2.0, 1.0], [1.0, 3.0]])
    b = np.linalg.solve(a, np.array([1.0, 2.0]))
    weights = np.linspace(0.0, 1.0, 4)
    if weights.sum() > 1 and weights[1] < 0.5 and np.max(np.abs(a)) == 3:
        weights[0] = x[0]
    assert len(weights.tolist()) == 4 and np.sin(b).shape == (2,)
    return np.sum(weights * x) * b[0] * np.linalg.det(a)


@pytest.mark.parametrize(
    "f",
    [constants_stay_numbers, heat, recurrence, in_place, views, likes, own_copy, matrix, through_a_helper, after_a_reshape],
)
def test_value_and_gradient(f):
    x = np.array([0.7, 1.3, -0.4, 0.9])
    before = x.copy()
    value, gradient = sd.value_and_grad(f)(x)
    assert value == pytest.approx(f(x.copy()), rel=1e-14)
    step = 1e-6
    numeric = [(f(before + step * e) - f(before - step * e)) / (2 * step) for e in np.eye(4)]
    np.testing.assert_allclose(gradient, numeric, rtol=1e-6, atol=1e-7)
    np.testing.assert_array_equal(x, before)
    np.testing.assert_allclose(sd.vmap(sd.grad(f))(np.stack([x, x]))[1], gradient)


def test_dtypes():
    def single(x):
        y = np.zeros(2, dtype=np.float32)
        y[0] = x
        return y

    assert sd.jacobian(single)(0.3).dtype == np.float64 and sd.trace(single, 0.3)(0.3).dtype == np.float32

    def rotated(z):
        y = np.zeros(2, dtype=complex)
        y[0] = z * 1j
        y[1] = y[0] ** 2
        return y[1]

    assert sd.derivative(rotated)(0.3) == pytest.approx(-0.6)

    def counted(x):
        n = np.zeros(2, dtype=int)
        n[1] = 3
        return x[n[1]] * n.sum()

    assert sd.grad(counted)(np.ones(4)).tolist() == [0, 0, 0, 3]


def complex_into_real(x):
    y = np.zeros(2)
    y[0] = x[0] * 1j
    return y


def through_an_alias(x):
    y = x
    y *= 2
    return np.sum(x * y)


def through_a_reshape(x):
    y = x.reshape(-1)
    y *= 2
    return np.sum(x * y)


def into_a_slice_of_the_argument(x):
    x[1:] += 1
    return np.sum(x)


def out_of_bounds(x):
    y = np.zeros(2)
    y[5] = x[0]
    return y


def wrong_shape(x):
    y = np.zeros(2)
    y[:] = x
    return y


def into_the_argument(x):
    x[0] = 1.0
    return x


def traced_index(x):
    y = np.zeros(3)
    y[x[0]] = 1.0
    return y


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (complex_into_real, "dtype=complex"),
        (through_an_alias, "x = x.copy"),
        (through_a_reshape, "x = x.copy"),
        (into_a_slice_of_the_argument, "x = x.copy"),
        (wrong_shape, "broadcast"),
        (into_the_argument, "x = x.copy"),
        (traced_index, r"int\(x\)"),
    ],
)
def test_refusals(f, message):
    with pytest.raises(sd.TraceError, match=rf"test_mutation.py:\d+: .*{message}"):
        sd.jacobian(f)(np.ones(3))


def test_an_index_out_of_bounds_is_what_it_is_in_the_plain_call():
    with pytest.raises(IndexError, match="index 5 is out of bounds"):
        sd.jacobian(out_of_bounds)(np.ones(3))


N = 200


def regions(x):
    y = np.zeros(N)
    y[1:-1] = x[2:] - x[:-2]
    y[0] = x[0]
    y[5] *= 3
    y[10:20] += x[10:20] ** 2
    view = y[30:50]
    view[::2] = 1.0
    view *= x[30:50]
    y[[60, 61, 60]] = x[:3]
    y[-1] = x[3] * y[5]
    return np.sum(y * y * np.sin(x))


def columns(x):
    y = x.copy()
    y[0] = 0
    y[3:7] = y[4:8] * 2
    w = np.empty((N, 2))
    w[:, 0] = y
    w[:, 1] = 2 * y * x
    w[2] = x[:2]
    w[::3, 1] *= w[::3, 0]
    return np.sum(np.cos(w))


def recurrence(x):
    y = np.ones(N)
    for i in range(1, N):
        y[i] = y[i - 1] * 0.5 + np.sin(x[i])
    return y @ y


def in_place_operators(x):
    y = x * 2
    y += 1
    y *= x
    y[5:9] = 0
    y -= np.arange(N) / N
    return (y**3).sum()


def work_array(x):
    h = np.zeros((3, N))
    for t in range(3):
        h[t] = np.tanh(x * (t + 1) + (h[t - 1] if t else 0))
    return h.sum()


def new_axes(x):
    y = x * 3
    y[None, ::2] = y[1::2] * x[::2]
    z = np.ones(N)
    z[None] = z[:]
    z[None, 1:] = y[:-1]
    return np.sum(z * y * x)


@pytest.mark.parametrize("scalarize", [None, False, True])
@pytest.mark.parametrize("f", [regions, columns, recurrence, in_place_operators, work_array, new_axes])
def test_longer_arrays(f, scalarize):
    x = np.random.default_rng(0).standard_normal(N)
    before = x.copy()
    value, gradient = sd.value_and_grad(f, scalarize=scalarize)(x)
    np.testing.assert_array_equal(x, before)
    assert value == pytest.approx(f(x), rel=1e-12)
    d = np.cos(np.arange(N))
    step = 1e-6
    slope = (f(x + step * d) - f(x - step * d)) / (2 * step)
    assert gradient @ d == pytest.approx(slope, rel=1e-6, abs=1e-6)
    if f is not recurrence:
        slopes = sd.grad(f, scalarize=scalarize)
        curvature = (slopes(x + step * d) - slopes(x - step * d)) / (2 * step)
        np.testing.assert_allclose(sd.hvp(f, scalarize=scalarize)(x, d), curvature, rtol=1e-5, atol=1e-5)


def test_longer_arrays_refuse_what_does_not_fit():
    def misfit(x):
        y = np.zeros(N)
        y[:3] = x[:2]
        return y.sum()

    with pytest.raises(sd.TraceError, match=r"test_mutation.py:\d+: an array of shape \(2,\) for a region of shape \(3,\)"):
        sd.grad(misfit)(np.ones(N))


def test_a_large_array_stays_whole():
    def f(x):
        y = np.zeros_like(x)
        y[1:-1] = x[2:] - x[:-2]
        y[0] += 1
        return y @ y

    x = np.linspace(0, 1, 10**5)
    assert len(sd.grad(f).graph(x).bindings) < 40
    step = np.zeros_like(x)
    step[7] = 1e-6
    assert sd.grad(f)(x)[7] == pytest.approx((f(x + step) - f(x - step)) / 2e-6, abs=1e-9)


def live_views(x):
    u = x * 1.0
    tail = u[2:]
    u[3] = x[0] * 5
    middle = u[1:4]
    middle *= x[:3]
    tail[0] += 1
    return np.sum(tail**2) + np.sum(u)


def slices_of_computed_arrays(x):
    u = np.roll(x, 1)
    u[::2] = 0
    u[1::2] *= 3
    w = x + 1
    w[1:-1] += 1
    return np.sum(u**3) * np.sum(w**2)


def rows(x):
    u = np.outer(x, x)
    row = u[1]
    row += 1
    u[2, 1:] = x[1:]
    both = np.concatenate([x, x])
    both[3:5] = both[0:2]
    return np.sum(u**2) + np.sum(both**2)


def converted(x):
    u = x.astype(float)
    u[0] = 2
    return np.sum(u * u) * x[0]


@pytest.mark.parametrize("n", [6, 100])
@pytest.mark.parametrize("f", [live_views, slices_of_computed_arrays, rows, converted])
def test_views_of_computed_arrays_are_live(f, n):
    x = np.linspace(0.1, 1, n)
    value, gradient = sd.value_and_grad(f)(x)
    assert value == pytest.approx(f(x), rel=1e-13)
    for i in range(0, n, max(1, n // 6)):
        e = np.zeros(n)
        e[i] = 1e-6
        assert gradient[i] == pytest.approx((f(x + e) - f(x - e)) / 2e-6, rel=1e-6, abs=1e-6)


def test_asarray_shares_memory_as_numpy_does():
    def f(x):
        y = np.asarray(x)
        y[0] = 5
        return np.sum(x)

    with pytest.raises(sd.TraceError, match=r"test_mutation.py:\d+: .*take a copy first"):
        sd.grad(f)(np.ones(3))


def fresh():
    return np.zeros(6)


def through_a_maker(x):
    u = fresh()
    u[1:5] = x
    return np.sum(u**2)


class Model:
    def loss(self, x):
        u = np.zeros(6)
        u[1:5] = x
        return np.sum(u**2)


def scaled(k, x):
    u = np.zeros(6)
    u[1:5] = x * k
    return np.sum(u**2)


def test_makers_are_found_in_helpers_methods_partials_and_inner_traces():
    x = np.arange(4.0)
    for f, factor in ((through_a_maker, 2), (Model().loss, 2), (functools.partial(scaled, 2.0), 8)):
        np.testing.assert_allclose(sd.grad(f)(x), factor * x)
    total = sd.grad(lambda X: np.sum(sd.vmap(sd.grad(through_a_maker))(X)))(np.ones((3, 4)))
    np.testing.assert_allclose(total, 2.0)


@pytest.mark.parametrize("n", [5, 900])
def test_a_number_is_assigned_through_a_traced_mask(n):
    def clipped(x):
        y = np.zeros(len(x))
        y[:] = x * x
        y[y > 1.0] = 1.0
        inner = y[1:-1]
        inner[inner < 0.2] = x[0]  # a view: y changes, too
        z = np.exp(x)
        z[x < 0] = 0
        return np.sum(y * z)

    x = np.linspace(-1.3, 1.2, n)
    step = 1e-6
    differences = [(clipped(x + step * e) - clipped(x - step * e)) / (2 * step) for e in np.eye(n)[: min(n, 40)]]
    np.testing.assert_allclose(sd.grad(clipped)(x)[:40], differences, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(sd.trace(clipped, x)(x), clipped(x), rtol=1e-13)
    assert np.isfinite(sd.grad(lambda x: _rooted(x))(x)).all()


def _rooted(x):
    y = np.sqrt(x)
    y[x <= 0] = 0.0
    return np.sum(y)


def test_floating_indices_are_refused():
    def picked(x):
        y = x * 2
        y[x] = 1.0
        return np.sum(y)

    with pytest.raises(sd.TraceError, match=r"test_mutation.py:\d+: an index needs .* int\(x\)"):
        sd.grad(picked)(np.ones(3))


def test_functions_that_write_plain_numbers_in_place():
    """Arrays that take traced values later keep what NumPy writes into them before."""

    def f(x):
        y, z, s = np.zeros(4), np.zeros((2, 2)), np.array([3.0, 1.0, 2.0])
        np.put(y, [0], [5.0])
        np.putmask(y, np.arange(4) > 2, 7.0)
        np.place(y, np.arange(4) == 1, [2.0])
        np.copyto(y[2:3], 9.0)
        np.add.at(y, [0, 0], 1.0)
        np.fill_diagonal(z, 3.0)
        s.sort()
        y[1] += x[0]
        return np.sum(y * np.arange(1, 5)) * x[1] + np.sum(z) * x[2] + s[0] * x[2]

    x = np.array([1.0, 2.0, 3.0])
    assert sd.trace(f, x)(x) == f(x)


def test_small_arrays_filled_by_masks_stay_whole():
    """What a mask selects is one operation; its cells are not taken apart and put together again."""
    data = np.linspace(-3.0, 3.0, 40)

    def huber(x):
        r = data - x
        inside = np.abs(r) <= 1
        loss = np.empty_like(r)
        loss[inside] = 0.5 * r[inside] ** 2
        loss[~inside] = np.abs(r[~inside]) - 0.5
        return loss.mean()

    graph = sd.trace(huber, 0.2)
    assert not {"item", "take"} & {b.op for b in graph.bindings}
    assert graph(0.2) == pytest.approx(huber(0.2), rel=1e-14)
    assert sd.grad(huber)(0.2) == pytest.approx((huber(0.2 + 1e-6) - huber(0.2 - 1e-6)) / 2e-6, rel=1e-7)
    assert ".fill(0.0)" in sd.value_and_grad(huber, scalarize=False).source(0.2)


def test_a_whole_assignment_copies():
    """The cells are those of that moment, whatever is written into either array later."""

    def f(x):
        w, y, z = np.sin(x), np.zeros(3), np.zeros(3)
        y[...] = w
        z[...] = x
        once = np.sum(y) + np.sum(z)
        w[0] = 5.0
        y[1] = x[0]
        z[2] *= 2
        return once * np.sum(y * np.arange(1, 4)) + np.sum(w) * np.sum(z)

    x = np.array([0.3, 0.7, 1.1])
    np.testing.assert_allclose(sd.trace(f, x)(x), f(x), rtol=1e-14)
    differences = [(f(x + 1e-6 * e) - f(x - 1e-6 * e)) / 2e-6 for e in np.eye(3)]
    np.testing.assert_allclose(sd.grad(f)(x), differences, rtol=1e-8)


def test_arrays_that_the_class_makes_are_the_functions_own():
    def f(x):
        y, z = np.ndarray(3, dtype=np.float64), np.ndarray((2, 3), order="F")
        y[:] = x[:3] ** 2
        z[0], z[1] = x[3:], y
        return np.sum(y * z[0]) + np.sum(z) + float(isinstance(z, np.ndarray))

    x = np.arange(1.0, 7.0)
    assert sd.value_and_grad(f)(x)[0] == f(x)
    np.testing.assert_allclose(sd.grad(f)(x), np.concatenate([2 * x[:3] * (1 + x[3:]), 1 + x[:3] ** 2]))
    buffered = np.arange(3.0)
    assert sd.grad(lambda x: np.sum(x * np.ndarray(3, buffer=buffered)))(x[:3]).tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("n", [5, 64, 65, 70, 200])
def test_arrays_of_comprehensions_of_any_length_see_what_is_assigned(n):
    def f(x, change):
        y = np.array([a * 2 for a in x])
        change(y, x)
        y[1] += 1.0
        return np.sum(y**2) + 3 * y[0] * y[1] + y[-1]

    def one(y, x):
        y[0] = x[1]

    def twice(y, x):
        y[0] += 1.0
        y[0] += x[1]

    def several(y, x):
        y[:3] = x[1:4]
        y[[0, 2]] *= x[2]

    def repeated(y, x):
        np.add.at(y, [0, 1, 0], x[2])

    x = np.linspace(-1, 1, n)
    along = 1e-6 * np.cos(np.arange(n))
    for change in (one, twice, several, repeated):
        value, slope = sd.value_and_grad(lambda x: f(x, change))(x)  # noqa: B023
        assert value == pytest.approx(f(x, change), rel=1e-12)
        assert slope @ along == pytest.approx((f(x + along, change) - f(x - along, change)) / 2, rel=1e-6)
