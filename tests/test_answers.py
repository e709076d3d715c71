"""Keywords of NumPy's and SciPy's functions: followed, or refused by name; shapes, dtypes and errors are the functions' own."""

import numpy as np
import pytest
import scipy.linalg
import scipy.special

import symdiff as sd

V = np.array([3.0, 0.0, 2.0, 5.0])
SQUARE = np.array([[2.0, 1.0, 0.3], [0.5, 3.0, 0.2], [0.7, 0.1, 4.0]])
FOLLOWED = {
    "logical accumulate": (lambda x: np.logical_or.accumulate(x) * 1.0, V),
    "logical reduce of one": (lambda x: np.logical_or.reduce(x[:1]) * 1.0, V),
    "logical reduceat": (lambda x: np.logical_and.reduceat(x, [0, 3]) * 2.5, V),
    "dtype of accumulate": (lambda x: np.float_power.accumulate(x + 1), V.astype("f4")),
    "diagonal": (lambda a: scipy.linalg.solve(a, np.ones(3), assume_a="diagonal"), SQUARE),
    "tridiagonal": (lambda a: scipy.linalg.solve(a, np.ones(3), assume_a="tridiagonal"), SQUARE),
    "values of Hermitian": (lambda a: np.linalg.svd(a, compute_uv=False, hermitian=True), SQUARE),
    "one cell": (lambda a: scipy.linalg.solve_lyapunov(a, 0.3), np.array([[0.73]])),
    "None": (lambda x: (x == None) * 1.0, V),  # noqa: E711
    "text": (lambda x: (x != "a") * 1.0, V),
    "infinity": (lambda x: np.nanquantile(x, 0.5), np.array([0.0, 1.0, np.inf])),
    "order": (lambda x: scipy.special.yn(2.5, x) + scipy.special.kn(1.5, x), np.array([0.5])),
    "negative counts": (lambda x: scipy.special.pdtr(x, 1.5), np.array([-1.0, -0.3, 2.0])),
    "sign of zero": (lambda x: 1 / (x + 0), np.array([-0.0, 2.0])),
    "True": (lambda x: x[True], V),
    "list": (lambda x: np.array_split([x[0], x[1], x[2]], 2)[0], V),
}
REFUSED = {
    "vectors of Hermitian": (lambda a: np.linalg.svd(a, hermitian=True)[2], SQUARE),
    "order of sort": (lambda x: np.sort(x, order="a"), V),
    "dtype": (lambda x: np.ldexp(x, 2), V.astype("f4")),
    "axes": (lambda x: np.polynomial.hermite.hermgrid2d(x, x, np.ones((2, 2))), np.ones((2, 2))),
    "half precision": (lambda x: np.maximum.reduceat(x, [2, 1], dtype=np.float16), V),
    "half precision result": (lambda x: (x, np.float16(2)), V),
    "index": (lambda x: np.logical_or.reduceat(x, [0, -1]), V),
    "mode": (lambda x: np.correlate(x, x, mode="zz"), V),
    "axes of outer": (lambda a: np.linalg.outer(a, a), SQUARE),
    "length": (lambda x: np.vdot([x[0], x[1]], 1), V),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FOLLOWED)
def test_values_are_the_librarys(name):
    f, x = FOLLOWED[name]
    with np.errstate(all="ignore"):
        expected, got = f(x), sd.trace(f, x)(x)
    assert np.shape(got) == np.shape(expected)
    assert got.dtype == expected.dtype
    assert np.allclose(got, expected, equal_nan=True)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_followed_is_refused(name):
    f, x = REFUSED[name]
    with pytest.raises(sd.SymdiffError, match=r"test_answers\.py:"):
        sd.trace(f, x)


def test_slopes():
    assert np.isclose(sd.grad(np.expm1)(-40.0), np.exp(-40.0), rtol=1e-12)
    a, by, h = np.array([[1.0, 2.0], [0.3, 0.1]]), np.array([[0.3, 0.4], [0.2, -0.1]]), 1e-5

    def f(a):
        return np.linalg.pinv(a, rcond=0.3)

    assert np.allclose(sd.jvp(f)(a, by)[1], (f(a + h * by) - f(a - h * by)) / (2 * h), atol=1e-8)


def test_singular_matrices_have_their_rank():
    a = np.ones((3, 2))
    found, left, rank, _ = sd.trace(lambda a: np.linalg.lstsq(a, np.ones(3), rcond=1e-10), a)(a)
    assert np.allclose(found, 0.5)
    assert np.isnan(left).all()
    assert rank == 1


BINARY = [u for u in vars(np).values() if isinstance(u, np.ufunc) and not u.signature and {"ff->f", "ff->ff"} & {*u.types}]
SINGLE = np.array([0.5, 0.25, 0.75], np.float32)


@pytest.mark.parametrize("ufunc", dict.fromkeys(BINARY), ids=lambda u: u.__name__)
@pytest.mark.parametrize("first", [0.3, np.float64(0.3)], ids=["Python's", "NumPy's"])
def test_beside_single_precision_numbers_of_python_and_numpy_are_told_apart(ufunc, first):
    def f(z):
        found = ufunc(SINGLE, z)
        return np.sum(found[0] if ufunc.nout > 1 else found)

    second = np.float64(0.3) if type(first) is float else 0.3
    wanted = [f(first).dtype, f(second).dtype]
    call = sd.value_and_grad(f)
    assert [call(first)[0].dtype, call(second)[0].dtype] == wanted


@pytest.mark.parametrize("write", [
    lambda y: np.fill_diagonal(y, 0.5), lambda y: y.__setitem__(..., -0.3), lambda y: y.__setitem__((1, slice(2, 5)), 2),
    lambda y: y.__setitem__(([0, 1], [2, 3]), 0.25), lambda y: y.fill(0.5), lambda y: np.putmask(y, y > 0, 0.5),
    lambda y: np.copyto(y, 0.5, where=y > 0), lambda y: y.put([1, 2], 0.5), lambda y: np.place(y, y > 0.1, [0.5]),
])  # fmt: skip
@pytest.mark.parametrize("dtype", ["f4", "c8"])
def test_numbers_take_the_precision_of_the_array_that_they_are_written_to(write, dtype):
    def f(x):
        y = np.exp2(x * 1.5)
        write(y)
        return y

    x = np.linspace(0.1, 0.9, 100).reshape(10, 10).astype(dtype)
    found = sd.trace(f, x)(x)
    assert found.dtype == dtype
    assert found == pytest.approx(f(x), rel=1e-6)


def test_values_that_a_mask_puts_are_cast_safely():
    def f(x, values):
        y = x * 1
        np.putmask(y, y > 0.5, values)
        return np.sum(y)

    single = np.ones(3, np.float32)
    with pytest.raises((TypeError, sd.TraceError), match="safe"):
        sd.grad(f)(single, np.ones(3))
    assert sd.value_and_grad(f)(single, 0.5)[0] == np.float32(1.5)
