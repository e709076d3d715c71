"""What a value is for Python beside its number: its digits as an integer, its class, whether it is the same object."""

import math
import numbers
import operator

import numpy as np
import pytest
from inside import structures

import symdiff as sd

BIG = 2**53 + 1  # the first integer that no double holds
BIGS = np.array([BIG, BIG + 2])
WHOLE = {  # what keeps all digits of integers, or is refused
    "argument": (lambda x, n: x * (n - 2**53), (2.0, BIG)),
    "array": (lambda x, n: x * (n - 2**53).sum(), (2.0, BIGS)),
    "index": (lambda x, n: x[n - BIG].sum(), (np.arange(1.0, 4.0), BIGS)),
    "captured": (lambda x: x * (BIG - 2**53), (2.0,)),
    "captured_array": (lambda x: x * (BIGS - 2**53).sum(), (2.0,)),
    "beside_truths": (lambda x: x * ((x > 0) * BIG - 2**53), (2.0,)),
    "factorial": (lambda x: x**25 / math.factorial(25), (2.0,)),
    "result": (lambda x: (x, BIG), (2.0,)),
    "results": (lambda x: BIGS + 0 * int(x), (2.0,)),
    "branch": (lambda x: (BIG if x > 0 else int(x)) - 2**53 + 0 * x, (2.0,)),
    "select": (lambda x: x * (np.where(x > 0, BIG, 3) - 2**53), (2.0,)),
    "select_array": (lambda x: x * (np.where(x > 0, BIGS, 3) - 2**53).sum(), (2.0,)),
    "list": (lambda x: x * ([1, BIG][int(x > 0)] - 2**53), (2.0,)),
    "taken": (lambda x: x * (BIGS[(x > 0).astype(int)] - 2**53).sum(), (np.array([1.0, -1.0]),)),
    "stored": (lambda x: x * (stored(x.astype(int)) - 2**53).sum(), (np.array([1.0, -1.0]),)),
    "stacked": (lambda x: x * (np.array([int(x), BIG]) - 2**53).sum(), (2.0,)),
    "maximum": (lambda x: x * (np.maximum(int(x), BIG) - 2**53), (2.0,)),
    "max": (lambda x: x * (max(x, BIG) - 2**53), (2.0,)),
    "clip": (lambda x: x * (np.clip(np.argsort(x), BIG, None) - 2**53).sum(), (np.array([1.0, -1.0]),)),
    "argmax": (lambda x: x * (np.argmax(x) + BIGS - 2**53), (np.array([1.0, -1.0]),)),
    "searched": (lambda x: x * np.searchsorted(BIGS, int(x)), (2.0,)),
    "multiplied": (lambda x: x * (np.floor(x).astype(int) * 3**33 % 10), (np.array([7.0, 8.0]),)),
    "multiply": (lambda x: x * (np.multiply(np.floor(x).astype(int), 3**33) % 10), (np.array([7.0, 8.0]),)),
    "power": (lambda x: x * (int(x) ** 20 % 10), (7.0,)),
    "power_of_array": (lambda x: x * (x.astype(np.int64) ** 20 % 10), (np.array([7.0, 8.0]),)),
    "product": (lambda x: x * (np.prod(x.astype(int) ** 15) % 10), (np.array([7.0, 8.0]),)),
    "running_product": (lambda x: x * (np.cumprod(x.astype(int) ** 15) % 10), (np.array([7.0, 8.0]),)),
    "shifted": (lambda x: x * ((np.argmax(x) + 1 << 53) + 1 & 7), (np.array([7.0, 8.0]),)),
    "compared": (lambda x: 1.0 * x if x == BIG else 2.0 * x, (2.0**53,)),
    "ordered": (lambda x: 1.0 * x if x < BIG else 2.0 * x, (2.0**53,)),
    "compared_array": (lambda x: x * (x.astype(int) < BIG), (np.array([1.0, -1.0]),)),
    "sum": (lambda x: x * (sum([int(x), BIG]) - 2**53), (2.0,)),
    "remainder": (lambda x: x * (BIG % int(x)), (2.0,)),
    "quotient": (lambda x: x * (BIG // int(x) - 2**52), (2.0,)),
}


def stored(n):
    n[0] = BIG
    return n


@pytest.mark.parametrize("name", WHOLE)
def test_integers_keep_their_digits_or_are_refused(name):
    f, args = WHOLE[name]
    wanted = structures.leaves(f(*(np.copy(a)[()] if isinstance(a, np.ndarray) else a for a in args)))
    dots = np.zeros(np.shape(args[0]))
    for take in (lambda: sd.jvp(f)(*args, dots)[0], lambda: sd.jvp(f, backend="numpy")(*args, dots)[0]):
        try:
            found = structures.leaves(take())
        except (sd.TraceError, OverflowError) as refusal:
            assert "2**53" in str(refusal) and ".py:" in str(refusal)
            continue
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(a, b)


def twice(n):
    return (n - 2.0**53) * 2.0


@pytest.mark.parametrize("backend", ["auto", "numpy", "python"])
@pytest.mark.parametrize("before", [1.0, 5, None], ids=str)
@pytest.mark.parametrize("n", [BIG, np.int64(BIG), np.uint64(2**63 + 1), 2**70 + 1, -BIG, 10**400], ids=lambda n: str(n)[:20])
def test_differentiated_integers_that_no_double_holds(backend, before, n):
    g = sd.value_and_grad(twice, backend=backend)
    if before is not None:
        g(before)
    for _ in range(2):
        with pytest.raises(sd.TraceError, match="2\\*\\*53"):
            g(n)
    assert g(2**60) == (twice(2.0**60), 2.0)


@pytest.mark.parametrize("backend", ["auto", "numpy"])
def test_arrays_of_integers_that_no_double_holds(backend):
    g = sd.value_and_grad(lambda n: np.sum(n * 2.0), backend=backend)
    doors = [g, sd.value_and_grad(lambda p: np.sum(p["n"] * 2.0), backend=backend), sd.vmap(twice, backend=backend),
             sd.derivative(twice, backend=backend), sd.vmap(sd.grad(twice), backend=backend),
             g.compile(np.ones(2), backend=backend), sd.vmap(twice).compile(np.ones(2), backend=backend)]  # fmt: skip
    for k, door in enumerate(doors):
        for first in (np.ones(2), np.array([1, 2**60])):
            door({"n": first} if k == 1 else first)
            for n in (BIGS, BIGS[::-1], np.array([2**63 + 1, 1], np.uint64)):
                with pytest.raises(sd.TraceError, match="2\\*\\*53"):
                    door({"n": n} if k == 1 else n)


POINTWISE = {
    "power": lambda n: n**2 % 10,
    "large_power": lambda n: n**20 % 10,
    "large_product": lambda n: n * 3**30 * 3**10 % 10,
    "quotient": lambda n: n // 2 + n / 2,
    "class": lambda n: n * (2.0 if isinstance(n, np.integer) else 3.0),
    "index": lambda n: np.arange(20.0)[n],
    "bits": lambda n: (n & 3) + (n << 2) + (n >> 1),
    "branch": lambda n: n * 2.0 if n > 6 else n - 1,
}


@pytest.mark.parametrize("name", POINTWISE)
@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8])
@pytest.mark.parametrize("backend", ["auto", "numpy"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_integers_of_many_points_are_integers(name, dtype, backend):
    """Or are refused where doubles cannot hold them; floating-point numbers after them are none."""
    f, points = POINTWISE[name], np.arange(5, 9, dtype=dtype)
    v = sd.vmap(f, backend=backend)
    g = sd.vmap(sd.value_and_grad(lambda x, n: x * x * f(n)), backend=backend)
    for _ in range(2):
        try:
            found = v(points), g(np.full(4, 1.5), points)
        except OverflowError as refusal:
            assert name.startswith("large") and ("2**53" in str(refusal) or dtype is not np.int64)
            continue
        wanted = np.array([f(n) for n in points.astype(np.int64)])
        np.testing.assert_array_equal(found[0], wanted)
        np.testing.assert_allclose(found[1], (2.25 * wanted, 3.0 * wanted))
    if name == "class":
        np.testing.assert_array_equal(v(points.astype(float)), 3.0 * points)
    slopes = sd.vmap(sd.grad(lambda n: n * n * 0.5), backend=backend)
    if dtype is np.uint8:
        with pytest.raises(sd.TraceError, match="wraps round"):
            slopes(points)
        return
    np.testing.assert_array_equal(slopes(points), points.astype(float))


@pytest.mark.parametrize("f", [lambda n: n * 2, lambda n: -n, lambda n: n - 7, lambda n: n << 7, lambda n: np.add(n, n) / 2.0])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int32])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_integers_of_many_points_that_wrap_round_are_refused(f, dtype):
    """Others are what NumPy gives, also where the ones before were refused."""
    most = np.iinfo(dtype).max
    v = sd.vmap(f)
    for points in (np.array([1, most], dtype), np.array([8, 9], dtype), np.array([1, 8], dtype), np.array([3, 4], dtype)):
        wanted = np.array([f(n) for n in points], float)
        if (wanted == np.array([f(int(n)) for n in points], float)).all():
            np.testing.assert_array_equal(v(points), wanted)
        else:
            with pytest.raises(OverflowError, match=rf"\.py:\d+: an integer beyond {np.dtype(dtype)}"):
                v(points)


BITS_AND_TRUTHS = {
    "xor": lambda n, b: n ^ 3, "xor_of_both": lambda n, b: 5 ^ (n + b), "invert": lambda n, b: ~n * 2.0,
    "or": lambda n, b: n | 4, "ufunc": lambda n, b: np.bitwise_xor(n, 3), "not": lambda n, b: ~b,
    "shift": lambda n, b: (n << 2) + (1 << abs(n)),
    "truth_xor": lambda n, b: b ^ True, "sum_of_truths": lambda n, b: b + b, "branch": lambda n, b: 3.0 if ~b else n ^ 1,
    "class": lambda n, b: (n ^ 3) * (2.0 if isinstance(n, np.integer) and isinstance(b, np.bool_) else 3.0),
    "loop": lambda n, b: sum(0.5 * i for i in range(abs(int(n)))) + (n ^ 1),
}  # fmt: skip


@pytest.mark.parametrize("name", BITS_AND_TRUTHS)
@pytest.mark.parametrize("backend", ["auto", "numpy"])
def test_bits_and_truths_of_many_points(name, backend):
    f, n, b = BITS_AND_TRUTHS[name], np.array([5, 3, 7, 0, -2, 3]), np.array([True, False, True, True, False, True])
    wanted = np.array([f(*point) for point in zip(n, b, strict=True)], float)
    for order in (slice(None), slice(None, None, -1)):
        np.testing.assert_array_equal(sd.vmap(f, backend=backend)(n[order], b[order]), wanted[order])
        slope = sd.vmap(sd.grad(lambda x, n, b: x * x * f(n, b)), backend=backend)(np.full(6, 1.5), n[order], b[order])
        np.testing.assert_allclose(slope, 3.0 * wanted[order])


# -- which object a value is

Z = np.array([1.0, 2.0])
OBJECTS = {  # functions of two arguments, which may be one
    "is": lambda a, b: np.sum(a * b) if a is b else 3 * np.sum(a + b),
    "is_not": lambda a, b: np.sum(a) if a is not b else 3 * np.sum(b),
    "operator": lambda a, b: np.sum(a) if operator.is_(a, b) else 3 * np.sum(b),
    "among": lambda a, b: np.sum(a) if any(a is one for one in [b]) else 3 * np.sum(b),
    "captured": lambda a, b: np.sum(a) if a is Z else 3 * np.sum(b),
    "inside": lambda a, b: sd.value_and_grad(lambda p, q: np.sum(p) if p is q else 3 * np.sum(q))(a, b)[0] * 2,
    "view": lambda a, b: np.sum(a) if a[...] is b else 3 * np.sum(b),
    "copy": lambda a, b: np.sum(a) if a.copy() is a else 3 * np.sum(b),
    "asarray": lambda a, b: np.sum(a) if np.asarray(a) is b else 3 * np.sum(b),
    "cells": lambda a, b: np.sum(a) if a[0] is b[0] else 3 * np.sum(b),
}


@pytest.mark.parametrize("name", OBJECTS)
@pytest.mark.parametrize("backend", ["auto", "numpy"])
def test_which_object_an_argument_is(name, backend):
    f, other = OBJECTS[name], Z.copy()
    g, h = sd.value_and_grad(f, backend=backend), sd.value_and_grad(lambda p: f(p["a"], p["b"]), backend=backend)
    v = sd.vmap(lambda a, b, x: f(a, b) * x, in_axes=(None, None, 0), backend=backend)
    for a, b in [(Z, other), (Z, Z), (other, Z), (other, other)] * 2:
        wanted = f(a, b)
        assert g(a, b)[0] == h({"a": a, "b": b})[0] == wanted
        np.testing.assert_array_equal(v(a, b, Z), wanted * Z)


@pytest.mark.parametrize("pick", [max, min, lambda a, b: sorted([a, b])[0], lambda a, b: +a, lambda a, b: float(a)])
def test_which_object_a_number_is_is_refused(pick):
    def f(a, b):
        return 2 * a * b if pick(a, b) is a else a * b

    with pytest.raises(sd.TraceError, match=r"test_values_of_python\.py:\d+: `is` between numbers"):
        sd.grad(f)(1.5, 2.5)


# -- of which class an argument is

ASKED = {
    "int": lambda n: n * (2.0 if isinstance(n, int) else 3.0),
    "float": lambda n: n * (2.0 if isinstance(n, float) else 3.0),
    "either": lambda n: n * (2.0 if isinstance(n, (int, float)) else 3.0),
    "type": lambda n: n * (2.0 if type(n) is int else 3.0),
    "integral": lambda n: n * (2.0 if isinstance(n, numbers.Integral) else 3.0),
    "numpys": lambda n: n * (2.0 if isinstance(n, np.integer) else 3.0),
    "attribute": lambda n: n * (2.0 if hasattr(n, "bit_length") else 3.0),
    "name": lambda n: n * float(len(type(n).__name__)),
    "scalar": lambda n: n * (2.0 if np.isscalar(n) else 3.0),
    "number": lambda n: n * (2.0 if isinstance(n, numbers.Number) else 3.0),
    "match": lambda n: matched(n),
}


def matched(n):
    match n:
        case int():
            return n * 2.0
        case float():
            return n * 3.0
    return n * 4.0


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("backend", ["auto", "numpy"])
def test_of_which_class_an_argument_is(name, backend):
    """Of a differentiated integer, which is taken as a floating-point number, only what holds for both is told."""
    f = ASKED[name]
    g, v = sd.value_and_grad(f, backend=backend), sd.value_and_grad(lambda x, n: f(n) * x, backend=backend)
    values = [1, 1.0, np.int64(1), np.float64(1), np.array(1), np.array(1.0)]
    for n in [*values, *values[::-1]]:
        wanted = f(n)
        assert v(1.0, n)[0] == wanted
        if isinstance(n, float) or name in ("scalar", "number"):
            assert g(n)[0] == wanted
            continue
        try:
            assert g(n)[0] == wanted
        except sd.TraceError as refusal:
            assert "an integer" in str(refusal) and ".py:" in str(refusal)


# -- powers of negative numbers, and items of numbers


@pytest.mark.parametrize(
    "f", [lambda x: (x**1.5).imag, lambda x: (pow(x, 0.5) + 1).imag, lambda x: 2 * (x**0.5).imag, lambda x: (x**1.5).real]
)
def test_complex_powers_of_negative_numbers_are_never_real_ones(f):
    assert np.isnan(sd.value_and_grad(f)(-2.0)).all()
    assert sd.value_and_grad(f)(4.0)[0] == f(4.0)
    assert sd.grad(lambda x: (x**2 + x).imag)(-2.0) == 0.0


def first(x):
    try:
        return x[()] * 2
    except TypeError:
        return x * 3


def test_items_of_numbers():
    for x in (0.5, np.float64(0.5), np.array(0.5), 0.5):
        assert sd.value_and_grad(first)(x) == (first(x), 3.0 if type(x) is float else 2.0)


@pytest.mark.parametrize("x", [3, np.int64(3), np.uint32(3), 3.0, np.float64(3), np.float32(3)])
def test_numbers_are_named_anew_where_an_array_changes(x):
    def f(y):
        before = y
        y += 1
        return before * 10.0 + y

    for derivative in (sd.jvp(f), sd.value_and_grad(f)):
        arguments = (x, 1.0) if derivative.extra else (x,)
        assert derivative(*arguments)[0] == 34.0


# -- the dtype that NumPy has

SHORT = {
    "items": lambda n: n[0] * n,
    "without NaN": lambda n: np.nan_to_num(n) * n,
    "differences": lambda n: np.diff(n),
    "products of pairs": lambda n: np.einsum("i,i->i", n, n),
    "sums of products": lambda n: np.einsum("i,i->", n, n),
    "copies of a cell": lambda n: np.full(3, n[0]) * 2,
    "on a diagonal": lambda n: np.diag(n) * 2,
    "in order": lambda n: np.sort(n) * 2,
    "at a place": lambda n: n[np.argmax(n)] * n,
    "at places": lambda n: n[np.argsort(-1.0 * n)] * n,
    "where": lambda n: np.where(n > 5, n, 1) * n,
    "pieces": lambda n: np.split(n, 3)[0] * n[1],
    "quotients": lambda n: np.divmod(n, 2)[0] * n,
    "fractions": lambda n: np.modf(n)[1] / 3,
    "smallest of": lambda n: np.min(n, initial=2.5) + n * 1.5,
    "with a truth": lambda n: (n[0] > 3) * n * 2,
    "wider": lambda n: n.astype(np.int64) * n,
    "summed": lambda n: np.sum(n) * n,
    "multiplied": lambda n: np.prod(n) * 2.5,
    "halves": lambda n: n / 2,
    "single": lambda n: n * np.float32(0.3),
    "in an array": lambda n: put_in(np.zeros(3, n.dtype), n) * 3,
    "as many as it": lambda n: np.iinfo(n.dtype).max - n * 0.5,
    "of which dtype": lambda n: n * 1.5 if np.issubdtype(n.dtype, np.integer) else n * 2.5,
    "computed ones": lambda n: n * 1.5 if (n * 1).dtype.kind in "iu" else n * 2.5,
    "cells": lambda n: n * 1.5 if isinstance(n[0], np.integer) else n * 2.5,
    "joined dtypes": lambda n: n * 1.5 if np.result_type(n, np.int8).kind == "i" else n * 2.5,
}


def put_in(y, n):
    y[0], y[1:] = n[0], n[1:]
    return y


@pytest.mark.parametrize("name", SHORT)
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int64])
@pytest.mark.parametrize("way", ["differentiated", "differentiated points", "points", "points beside", "many", "exact"])
def test_integers_are_computed_in_numpys_dtype_or_refused(name, dtype, way):
    """Differentiated, where it wraps round; at a point, where it does there."""
    f, n = SHORT[name], np.array([[3, 120, 9], [7, 50, 90], [2, 3, 1]], dtype)
    ways = {
        "differentiated": lambda: np.stack([sd.jvp(f)(p, np.ones(3))[0] for p in n]),
        "differentiated points": lambda: sd.vmap(sd.jvp(f))(n, np.ones((3, 3)))[0],
        "points": lambda: sd.vmap(f)(n),
        "points beside": lambda: sd.vmap(sd.value_and_grad(lambda x, n: np.sum(f(n)) * x))(np.ones(3), n)[0],
        "many": lambda: np.stack([several(sd.value_and_grad(lambda x, n: np.sum(f(n)) * x), n)]),
        "exact": lambda: np.stack([sd.jvp(f, exact=True)(p, np.ones(3))[0] for p in n]),
    }
    with np.errstate(all="ignore"):
        wanted = np.stack([f(p) for p in n])
    if way in ("points beside", "many"):
        wanted = wanted.reshape(3, -1).sum(1) * 1.0
        wanted = wanted[None] if way == "many" else wanted
    try:
        found = ways[way]()
    except (sd.SymdiffError, OverflowError) as refusal:
        assert "test_values_of_python.py:" in str(refusal)
        return
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def several(g, n):
    """Values at points that come one after the other, as settings and then as inputs."""
    return np.array([g(1.0, p)[0] for _ in range(2) for p in n])[-len(n) :]


OF_PATHS = {
    "a single one beside a number": lambda x: max(5.1, x[0]),
    "the larger of a number": lambda x: max(0.1, x[0]),
    "in arithmetic": lambda x: max(5.1, x[0]) * 1.1,
    "with an array": lambda x: max(5.1, x[0]) * x,
    "sorted": lambda x: sorted([5.1, x[0], x[1]])[2],
    "truths": lambda x: x if x[0] < 0 else x > 1,
    "a truth": lambda x: x[0] > 1 if x[0] > 0 else x[0],
    "single arrays": lambda x: x.astype(float) if x[0] < 0 else x,
    "double arrays": lambda x: x.astype(float) if x[0] > 0 else x,
    "numbers": lambda x: 0.0 if x[0] < 0 else x.sum(),
    "complex": lambda x: x * 1j if x[0] < 0 else x,
    "cells of constants": lambda x: np.asarray([*np.zeros_like(x)]) % x[:1],
}


@pytest.mark.parametrize("name", OF_PATHS)
@pytest.mark.parametrize("paths", [None, "guard"])
def test_results_are_of_the_dtype_of_the_path_that_is_taken(name, paths):
    f, x = OF_PATHS[name], np.array([0.3, 0.7, 1.9], np.float32)
    f, v = sd.jvp(OF_PATHS[name], paths=paths), sd.vmap(OF_PATHS[name])
    for _ in range(2):
        for point in (x, -x, x + 5):
            found, wanted = f(point, x)[0], OF_PATHS[name](point)
            np.testing.assert_array_equal(found, wanted)
            weak = type(wanted) is float and wanted == float(np.float32(wanted))  # which takes the other paths' dtype
            assert np.asarray(found).dtype == (np.float32 if weak and paths is None else np.asarray(wanted).dtype)
    with np.errstate(all="ignore"):
        wanted = np.stack([OF_PATHS[name](p) for p in (x, x + 5)])
    found = v(np.stack([x, x + 5]))
    np.testing.assert_array_equal(found, wanted)
    assert found.dtype == wanted.dtype


def test_a_function_sees_its_own_names():
    def f(x):
        inner = 2
        found = [name in seen for seen in (dir(), locals(), vars()) for name in ("x", "inner", "other")]
        return x * sum(k * truth for k, truth in enumerate(found))

    def looped(x):
        s = 0.0
        for k in range(40):
            s = s * 0.5 + x * ("late" in dir())
            late = k
        return s + 0 * late

    for function in (f, looped):
        assert sd.value_and_grad(function, loops="keep")(0.5) == pytest.approx((function(0.5), 2 * function(0.5)))
