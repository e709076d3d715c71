"""Views of arrays made in a traced function, `out=`, and what arrays can do: as NumPy has it, or refused by name and line."""

import copy
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import symdiff as sd

pytestmark = pytest.mark.filterwarnings("ignore:Setting the shape:DeprecationWarning")  # NumPy 2.5

X = np.array([0.3, -0.7, 1.2, 0.5])


class Box:
    def __init__(self, a):
        self.a = a


def picked_by_a_mask(x):
    v = x[x > 0]
    w = v
    v *= 2
    return np.sum(x) + np.sum(w)


def picked_and_assigned(x):
    y = x * 1.5
    v = y[y > 0]
    w = v
    v *= 2
    v[0] = 7
    return np.sum(w) * np.sum(y)


def parts(x):
    z = x * (1 + 2j)
    z.real[1] = 5
    z.imag *= 2
    z.imag = z.imag + 1
    return np.sum(z * z).real


def flat(x):
    y = x * 2
    y.flat[2] = x[0]
    s = y.reshape(2, 2)
    s.flat[1:3] = 3 * x[1]
    return np.sum(y * y) * sum(y.flat)


def zero_dimensional(x):
    y = x * 2
    v = y[1, ...]
    v += 1
    v *= x[0]
    s = np.zeros(())
    t = s
    s += x[0]
    s[...] *= x[1]
    return np.sum(y * y) + t * 2 + float(np.zeros(()))


def pieces(x):
    y = x * 2
    a, b = np.split(y, 2)
    a *= b
    return np.sum(y**3)


def diagonals(x):
    a = np.outer(x, x)
    d = np.einsum("ii->i", a)
    d += x
    a.T[0] *= 2
    return np.sum(a**2)


def in_place_functions(x):
    a = np.outer(x, x)
    np.fill_diagonal(a, x[0])
    np.add.at(a, (slice(1, 3), 0), x[:2])
    np.put(a, [1, 2], x[:2])
    np.copyto(a[2], x, where=x > 0)
    return np.sum(a**3)


def out(x):
    y = np.zeros(4)
    q, r = np.zeros(4), np.zeros(4)
    np.sin(x, out=y)
    np.multiply(y, x, out=y[::-1])
    np.add(y, 1, out=y, where=x > 0)
    np.modf(x, out=(q, r))
    np.sum(np.outer(x, y), axis=0, out=r)
    np.clip(x, 0, 1, q)
    np.take(x, [1, 2], out=y[:2])
    return np.sum(y * q + r)


def in_place_operators(x):
    y = +x
    z = y
    z %= 0.65
    z @= np.outer(x, x)
    return np.sum(y)


def traced_rows(x):
    a = np.outer(x, x)
    k = int(np.argmax(x))
    r = a[k]
    r *= 2
    a[k, 0] = 3
    s = r[::-1]
    s[0] = x[0]
    return np.sum(a * a) * np.sum(r)


def rows(x):
    a = np.outer(x, x)
    for row in a:
        row -= row.mean()
    for i, row in enumerate(a.T):
        row[i] = 1
    return np.sum(a**3)


def copies_and_none(x):
    y = np.asarray(x * 2)
    z = np.asarray(y)
    z += 1
    w = np.ravel(y)
    w *= x
    u = y.flatten()
    u *= 9
    c = y.conj()
    c *= 2
    return y @ y


def kept_elsewhere(x):
    a = x.reshape(2, 2) * 1.5
    boxes = {"b": [Box(a.T)]}
    a[0] = 1
    boxes["b"][0].a[1] *= x[:2]
    return np.sum(a**2)


def order_in_memory(x):
    a = (x.reshape(2, 2) + 1).T
    b = a * 2
    b.reshape(-1)[0] = 5  # a copy: the product lies in memory as its operand
    c = np.zeros_like(a)
    c.ravel()[1:] = x[1:]
    a.copy().reshape(-1)[0] = 7
    return np.sum(a * b + c)


def windows(x):
    y = np.concatenate([x, x]) * 2
    w = np.lib.stride_tricks.as_strided(y, (3, 4), (y.strides[0] * 2, y.strides[0]))
    v = np.lib.stride_tricks.sliding_window_view(y, 3)
    y[2] = x[0]
    w[0, 1] = 5
    return np.sum(w**2) * np.sum(v)


def shape_set(x):
    y = x * 2
    z = y[:]
    z.shape = (2, 2)
    z[0] = x[2]
    return np.sum(y * y)


def numbers(x):
    return np.sum(np.sin(np.r_[x, 1.0])) + Fraction(1, 3) * x[0] + np.sum(x[1], axis=0) + (x * 2).reshape(2, 2).item(1, 0)


FUNCTIONS = [
    picked_by_a_mask, picked_and_assigned, parts, flat, zero_dimensional, pieces, diagonals, in_place_functions, out,
    in_place_operators, traced_rows, rows, copies_and_none, kept_elsewhere, order_in_memory, windows, shape_set, numbers,
]  # fmt: skip


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_values_and_slopes(f):
    value, gradient = sd.value_and_grad(f)(X.copy())
    assert value == pytest.approx(f(X.copy()), rel=1e-12)
    steps = 1e-6 * np.eye(4)
    np.testing.assert_allclose(gradient, [(f(X + e) - f(X - e)) / 2e-6 for e in steps], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "made", ["np.full((2, 2), x[0])", "np.full((2, 2), x[:2], order='F')", "np.array(x[0])", "np.full((), x[0])"]
)
@pytest.mark.parametrize(
    "view",
    [
        *("v.T", "np.transpose(v)", "np.ravel(v)", "v.ravel()[::2]", "v.reshape(-1)", "np.expand_dims(v, 0)", "np.squeeze(v)"),
        *("np.flip(v)", "np.einsum('...->...', v)", "v[None]", "v[...]", "v.copy()", "np.atleast_1d(v)"),
        "np.moveaxis(v, 0, -1)",
    ],
)
def test_a_write_through_a_view_of_a_new_array_is_seen(made, view):
    text = f"def f(x):\n    v = {made}\n    w = {view}\n    w[...] *= 3\n    return np.sum(v) * x[1] + np.sum(w)\n"
    space = {"np": np}
    exec(compile(text, "new_views.py", "exec"), space)
    try:
        wanted = space["f"](X)
    except (ValueError, TypeError, np.exceptions.AxisError):
        return  # an array of shape () has no axes
    assert sd.value_and_grad(space["f"])(X)[0] == pytest.approx(wanted, rel=1e-12)


OVERLAPPING = [
    *(f"v.flat[{key}] = {value}" for key in ("1:3", "::-1", "[1, 1, 3]", "np.array([True, False, True, True])")
      for value in ("v", "v[1:]", "v.flat", "v[:0]")),
    *(f"v.flat = {value}" for value in ("v", "v[1:]", "v[::-1]", "v[1::2]", "v.reshape(2, 2).T", "v.flat", "v[:0]")),
    *(f"np.putmask(v, v < 1, {value})" for value in ("v[:0]", "[]", "v[1:]", "w[:3]", "w[1]", "v")),
    *(f"np.place(v, v > 9, {value})" for value in ("w[:0]", "[]", "w[:3]")),
    *(f"np.put(v, [3, 0, 3], {value})" for value in ("v[:0]", "[]", "v[1:]", "w[1]")),
    *(f"np.fill_diagonal(v.reshape({shape}), {value}, {wrap})" for shape in ("2, 2", "4, 1", "1, 4")
      for value in ("w[:0]", "w[:2]", "v[1:]", "w[1]") for wrap in (True, False)),
]  # fmt: skip


@pytest.mark.parametrize("statement", OVERLAPPING)
def test_values_that_are_few_or_lie_in_the_array_itself_are_read_as_numpy_reads_them(statement):
    text = f"def f(x):\n    v, w = np.sin(x), x * 2\n    {statement}\n    return np.sum(v * np.arange(4)) + np.sum(w)\n"
    space = {"np": np}
    exec(compile(text, "overlapping.py", "exec"), space)
    test_values_and_slopes(space["f"])


ONE_CELL = (
    "add multiply hypot logaddexp logaddexp2 subtract divide power maximum fmax arctan2 fmod logical_xor copysign".split()
)


@pytest.mark.parametrize("name", ONE_CELL)
@pytest.mark.parametrize("method", ["reduce", "accumulate", "reduceat"])
def test_reductions_of_one_cell_begin_as_numpys_do(name, method):
    arguments = (([0],) if method == "reduceat" else ()), {"axis": -1}
    test_values_and_slopes(
        lambda x: np.sum(getattr(getattr(np, name), method)(x[:, None], *arguments[0], **arguments[1]) * x[0])
    )


SQUARE = np.arange(1.0, 10.0).reshape(3, 3)
ARGUMENTS = (
    "(y)", "(y, y)", "(y, 0)", "(y, 1)", "(y, 3)", "(y, -1)", "(y, (9,))", "(y, (0, 1))", "(y, 0, 1)", "(y, (2, 3, 3))",
    "('ij->ji', y)", "('ii->i', y)", "(y, y > 2)", "(y, [0, 1])", "(y, [0, 1], 1.0)", "(y, y > 2, 1.0)", "(y, 2.0)",
    "(y, 1.0, out=y)", "(y, out=y)", "(y, y, out=y)", "(y, 1, 2, y)", "(y, 0, y[0])", "(y, copy=False)", "(y, None, y)",
    "(y, axis=0, out=y)", "(y, axis=1, out=y[1])",
)  # fmt: skip
LEFT_OUT = frozenset("empty_like save savez savez_compressed savetxt test frexp spacing nextafter ptp vecdot".split())


def touched(found, y):
    """What the arrays hold after each was assigned to."""
    arrays = [a for a in (found if isinstance(found, (tuple, list)) else (found,)) if np.ndim(a)]
    total = 0.0
    for a in arrays:
        total = total + np.sum(np.arange(a.size) * np.ravel(a))
        if a.dtype.kind in "fc":
            a[...] = a * 0.5 + 1.0
    return total + np.sum(np.arange(9.0).reshape(3, 3) * y)


@pytest.mark.parametrize("arguments", ARGUMENTS)
def test_every_function_gives_numpys_views_and_writes_numpys_out(arguments):
    agreed = 0
    for name in sorted(dir(np)):
        function = getattr(np, name)
        if name.startswith("_") or not callable(function) or isinstance(function, type) or name in LEFT_OUT:
            continue
        text = f"def f(x):\n    y = x * 2\n    return touched(np.{name}{arguments}, y)\n"
        space = {"np": np, "touched": touched}
        exec(compile(text, f"views_of_{name}.py", "exec"), space)
        try:
            with np.errstate(all="ignore"):
                wanted = space["f"](SQUARE.copy())
        except Exception:
            continue  # not NumPy's arguments, or a view that cannot be written
        try:
            found = sd.trace(space["f"], SQUARE)(SQUARE)
        except sd.SymdiffError as error:
            assert ".py:" in str(error), name
            continue
        np.testing.assert_allclose(found, wanted, rtol=1e-9, err_msg=name)
        agreed += 1
    assert agreed >= 1


@pytest.mark.parametrize("name", [n for n in dir(np.ndarray) if not n.startswith("_")])
def test_every_attribute_of_an_array_works_or_is_refused_with_the_line(name):
    def f(x):
        y = x * 2
        found = getattr(y, name)
        for given in ((), (0,), ([0],), ((9,),), (0, 1), (y,)) if callable(found) else ():
            try:
                found = found(*given)
                break
            except TypeError:
                continue
        return touched(found if isinstance(found, (np.ndarray, type(y))) else 0.0, y)

    try:
        wanted = f(SQUARE)
    except Exception:
        wanted = None
    try:
        found = sd.trace(f, SQUARE)(SQUARE)
    except sd.SymdiffError as error:
        assert "test_views.py:" in str(error)
    except (ValueError, IndexError):
        assert wanted is None
    else:
        assert wanted is None or found == pytest.approx(wanted, rel=1e-9)


def assigned_through_a_broadcast(x):
    y = x * 2
    np.broadcast_to(y, (2, 4))[0, 0] = 1
    return y


def columns_of_picked(x):
    v = x.reshape(2, 2)[x[:2] > -5]
    c = v[:, 0]
    v *= 2
    return np.sum(c)


def another_kind(x):
    i = np.argsort(x)
    i += 0.5
    return np.sum(i)


def beyond(x):
    y = x * 1
    return np.sum(np.lib.stride_tricks.as_strided(y, (9,), y.strides))


def other_bytes(x):
    return np.sum((x * 1j).view(float))


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (assigned_through_a_broadcast, "read-only"),
        (columns_of_picked, "copy it first"),
        (another_kind, "another kind"),
        (beyond, "beyond the array"),
        (other_bytes, "x.real, x.imag"),
        (lambda x: np.nditer(x * 1)[0], "x.flat"),
        (lambda x: np.sum(np.add(x, 1.0, where=x > 0)), "where"),
        (lambda x: np.multiply(x, 2, out=x), "x = x.copy"),
        (lambda x: x.T.reshape(-1)[1:].fill(0.0) or np.sum(x), "x = x.copy"),
        (lambda x: np.sum(np.bmat([[x, x]])), "np.block"),
    ],
)
def test_refusals(f, message):
    with pytest.raises(sd.TraceError, match=rf"test_views.py:\d+: .*{message}"):
        sd.trace(f, X)


# -- arguments whose axes lie in memory in another order


def flat_written(x):
    y = x * 2
    y.reshape(-1)[1] = 100.0
    return y


def zeros_written(x):
    y = np.zeros_like(x)
    y.reshape(-1)[1] = 1.0
    return y + x


def kept_copy(x):
    y = x.copy("K")
    y.ravel()[1] = 100.0
    return y * x


def told(x):
    return x * x.strides[0] + x.flags.c_contiguous


@pytest.mark.parametrize("f", [flat_written, zeros_written, kept_copy, told, np.sin, lambda x: x[1, 0] * x[0, ::-1] @ x])
@pytest.mark.parametrize("backend", ["auto", "numpy", "python"])
def test_arguments_lie_in_memory_as_they_are_given(f, backend):
    weights = np.arange(9.0).reshape(3, 3)
    df = sd.value_and_grad(lambda x: np.sum(f(x) * weights), backend=backend, scalarize=True)
    x = np.arange(1.0, 10.0).reshape(3, 3)
    turned, step = np.asfortranarray(x), 1e-6 * np.eye(9).reshape(9, 3, 3)
    for given in (x, turned, turned, x, x.T, x):
        value, slope = df(given)
        assert value == pytest.approx(np.sum(f(given) * weights))
        moved = [given.copy("K") for _ in range(9)]
        for y, change in zip(moved, step, strict=True):
            y += change
        found = [(np.sum(f(y) * weights) - np.sum(f(given) * weights)) / 1e-6 for y in moved]
        np.testing.assert_allclose(slope.ravel(), found, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("make", [lambda a, b: np.r_[a, b], lambda a, b: np.c_[a, b], lambda a, b: np.full(2, a)])
def test_arrays_made_of_single_cells_hold_what_these_were(make):
    def f(x):
        y = x.copy()
        made = make(y[0, ...], y[1, ...])
        y[:2] = 9.0
        return made

    x = np.array([1.5, 0.5, 2.0])
    np.testing.assert_array_equal(sd.jvp(f)(x, np.ones(3))[0], f(x))


def test_arrays_that_a_function_broadcasts_stay_writeable():
    held = np.arange(3.0)
    np.testing.assert_array_equal(sd.grad(lambda x: np.multiply(*np.broadcast_arrays(held, x)).sum())(np.ones(1)), [3.0])
    assert held.flags.writeable


def itself_reshaped(x):
    y = np.outer(x, x)
    z = np.broadcast_arrays(y, y[:1])[0]
    z.shape = (-1,)
    y[0] = 2.0
    return np.sum(z * z) + y.size * x[0] + y.ndim


def raised_in_rank(x):
    y = x * 1.5
    z = np.atleast_1d(y).real
    z.shape = (2, 2)
    return y @ y


def picked_from_what_is_picked(x):
    y = x * 1.5
    z = y[y > 0.2]
    z[z > 0.8] *= 1.5
    return np.sum(z)


@pytest.mark.parametrize("f", [itself_reshaped, raised_in_rank, picked_from_what_is_picked])
def test_functions_that_give_an_array_itself_give_no_view_of_it(f):
    np.testing.assert_allclose(sd.jvp(f)(X, np.ones(4))[0], f(X))


WITHOUT_SOURCE = """
def written(x):
    y = x * 1.5
    y.__array__()[0] = 9.0
    return np.sum(y)

def masked(x):
    y = x * 1.5
    np.ma.asarray(y).data[0] = 9.0
    return np.sum(y)

def single(x):
    y = x * 1.5
    z = np.ma.asarray(y[0, ...]).data
    y *= 2.0
    return np.sum(z)

def opened(x):
    y = x * 1.5
    z = y.__array__().reshape(2, 2)
    z.setflags(write=True)
    z[0] = 9.0
    return np.sum(y)
"""
FILLING = [
    "np.add(z, x[0], z)", "np.clip(y, 0, 1, z)", "np.matmul(np.outer(x, x), x, z)", "np.modf(y, z, np.empty(4))", "z += x",
    "np.round(x, 1, z)", "np.copyto(z, x)", "np.cumsum(x, out=z)", "np.put(z, [0, 1], x[:2])", "np.add.at(z, [0], x[:1])",
    "np.fill_diagonal(z.reshape(2, 2), x[0])", "z.sort()", "z.fill(x[0])", "np.maximum.accumulate(x, 0, None, z)",
]  # fmt: skip


@pytest.mark.parametrize("name", ["written", "masked", "single", "opened", *FILLING])
def test_arrays_that_code_without_source_makes_are_not_written_through(name):
    space = {"np": np}
    text = f"def filled(x):\n    y = x * 1.5\n    z = y.__array__()\n    {name}\n    return np.sum(y)\n"
    exec(compile(text if name in FILLING else WITHOUT_SOURCE, "nowhere.py", "exec"), space)
    with pytest.raises(sd.TraceError, match=r"nowhere\.py:\d+: .*(y = y|y\.copy\(\)|copy it|numbers first|ma\.core\.asarray)"):
        sd.grad(space["filled" if name in FILLING else name])(X)


def an_array_of_objects(x):
    y = np.empty(4, dtype=object)
    y[:] = list(x)
    return y


VIEWS_OF_OBJECTS = [
    lambda y: np.reshape(y, (2, 2)), np.ravel, np.transpose, np.atleast_2d, lambda y: np.diagonal(np.reshape(y, (2, 2))),
    lambda y: np.split(y, 2)[0], lambda y: np.broadcast_arrays(y, y)[0], lambda y: np.expand_dims(y, 0), np.real, np.squeeze,
    lambda y: np.flip(np.flip(y)), lambda y: np.moveaxis(y.reshape(2, 2), 0, 1), np.require,
    lambda y: y[:2], lambda y: next(iter(y.reshape(2, 2))), lambda y: np.broadcast_to(y, (2, 4)), np.copy,
    np.lib.stride_tricks.as_strided, lambda y: np.asarray(y, dtype=object), lambda y: np.array(y, dtype=object),
    lambda y: np.hsplit(y, 2)[0], lambda y: np.einsum("i->i", y), lambda y: np.add(y, 1.0, y), lambda y: np.add(y, y[1], out=y),
]  # fmt: skip


@pytest.mark.parametrize("view", VIEWS_OF_OBJECTS)
@pytest.mark.parametrize("make", [lambda x: x * 1, lambda x: np.array([*x], dtype=object), an_array_of_objects])
def test_views_of_arrays_of_objects_show_every_change(make, view):
    def f(x):
        y = make(x)
        z = view(y)
        y[0] = x[3] * 7
        found = z.ravel()[0] * x[1]
        if z.flags.writeable:
            z[(0,) * z.ndim] = x[2] * 3
        return found + y[0] * x[2]

    for x in (X, X[::-1].copy()):
        np.testing.assert_allclose(sd.value_and_grad(f)(x)[0], f(x))


@pytest.mark.parametrize("held", [lambda p: p.coeffs, lambda p: p.__array__(), lambda p: np.ravel(a=p.coeffs)])
def test_arrays_that_an_object_of_a_library_holds_are_not_new(held):
    def f(x):
        p = np.poly1d([1.0, 2.0, 3.0])
        held(p)[0] = x[0]
        return p(x[1])

    with pytest.raises(sd.TraceError, match=r"test_views.py:\d+"):
        sd.grad(f)(X)


@pytest.mark.parametrize("join", [lambda a: np.c_[a, a], lambda a: np.r_[a, a], lambda a: np.hstack([a, a])])
def test_what_is_joined_lies_in_memory_as_numpy_lays_it(join):
    def f(x):
        joined = join(np.transpose(np.outer(x, x)))
        joined.reshape(-1)[1] = 7.0 * x[0]  # writes into a copy where the cells lie column by column
        return np.sum(joined * np.arange(1.0, joined.size + 1).reshape(joined.shape))

    x = np.array([0.5, -1.5, 2.0])
    np.testing.assert_allclose(sd.value_and_grad(f)(x)[0], f(x))


MAKERS_OF_0D = {
    "copy": lambda y: y.copy(), "astype": lambda y: y.astype(float), "copy.copy": copy.copy, "deepcopy": copy.deepcopy,
    "array": np.array, "np.copy": np.copy, "array.astype": lambda y: np.array(y).astype(float), "zeros_like": np.zeros_like,
    "full": lambda y: np.full((), y), "part": lambda y: np.array([y, 1.0])[0, ...], "squeezed": lambda y: np.squeeze(y),
    "real": lambda y: y.astype(complex).real, "number": lambda y: np.float64(y) * 1.0, "its own": lambda y: y,
    "integer": lambda y: y.astype(int),
}  # fmt: skip
WRITERS_OF_0D = [
    "w = v; w += 1", "v[None][0] = 0.3", "w = v.reshape(1, 1); w *= 2", "w = np.ravel(v); w[0] = 3.0", "w = v.T; w -= 1",
    "np.multiply(v, 2, out=v)", "w = np.asarray(v); w += 1", "w = v.view(); w *= 2",
]  # fmt: skip


@pytest.mark.parametrize("writer", WRITERS_OF_0D)
@pytest.mark.parametrize("maker", MAKERS_OF_0D)
def test_arrays_of_shape_0_are_storage_like_any_other(maker, writer):
    space = {"np": np, "made": MAKERS_OF_0D[maker]}
    exec(f"def f(y):\n    v = made(y)\n    {writer}\n    return v * 2 + 0.5 * y", space)
    for make in (np.array, np.float64):
        try:
            wanted = space["f"](make(1.483))
        except (TypeError, ValueError):
            continue
        if maker in ("its own", "squeezed") and make is np.array:
            with pytest.raises(sd.TraceError, match="the caller's own array"):
                sd.grad(space["f"])(make(1.483))
        else:
            assert sd.value_and_grad(space["f"])(make(1.483))[0] == pytest.approx(wanted)


# -- what NumPy does not take as `out=`

OUTS = """
np.sum(m, axis=0, out=m2)|m.sum(0, out=m2)|np.add.reduce(x, 0, None, y)|np.add.reduce(m, out=m2)|np.prod(x, axis=0, out=y)
np.mean(m, axis=0, out=m2)|np.var(m, axis=0, out=m2)|np.max(m, 0, m2)|np.median(m, axis=0, out=m2)|np.nansum(m, 0, out=m2)
np.dot(x, x, out=y)|np.dot(m, m, m2[::-1])|np.dot(m, m, out=m2.T)|np.round(x, 1, out=m2)
np.cumsum(x, out=m2)|np.add.accumulate(x, 0, None, m2)|np.take(x, [0, 1], out=y)|np.concatenate([x, x], out=y)
np.outer(x, x, out=y)|np.add(m, 1, out=y)|np.add(x, 1j, out=y)|np.einsum("ij->i", m, out=m2)|m.trace(out=y)
""".replace("\n", "|").strip("|")


@pytest.mark.parametrize("call", OUTS.split("|"))
def test_arrays_that_numpy_does_not_take_as_out_are_refused(call):
    text = f"def f(x):\n    y, m, m2 = x*1, np.multiply.outer(x, x), np.multiply.outer(x, x)\n    {call}\n    return y + m2[0]"
    exec(compile(text, "outs.py", "exec"), scope := {"np": np})
    if "accumulate" not in call:  # where NumPy writes something
        with pytest.raises((TypeError, ValueError)):
            scope["f"](X)
    with pytest.raises(sd.TraceError, match=r"outs\.py:3: np"):
        sd.trace(scope["f"], X)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.where(x.T > 0, x.T, np.max(x)),
        lambda x: np.max(np.asfortranarray(x), axis=0, keepdims=True, where=x > 0, initial=0.5),
        lambda x: np.clip(x.T, np.min(x), x.T[0]),
    ],
)
def test_arrays_of_masks_and_numbers_lie_in_memory_as_numpys(f):
    def written(x):
        y = f(x)
        y.reshape(-1)[1] = 7.0
        y[-1:] += 1.0
        return y

    x = np.outer(X, X[:3])
    np.testing.assert_array_equal(sd.jvp(written)(x, x)[0], written(x))


REDUCED = ["np.add.reduce", "np.multiply.reduce", "np.maximum.reduce", "np.minimum.reduce", "np.sum", "np.max", "np.prod"]


@pytest.mark.parametrize("name", REDUCED)
def test_reductions_of_some_cells_write_all_results(name):
    """With `where=`, which tells the cells that are reduced, not those of `out`."""

    def f(x):
        y = np.ones((2, 3)) * x[0, 0]
        eval(name)(x, axis=0, out=y[0], where=x > 0, initial=0.5)
        return y

    x = np.array([[-1.0, 2.0, 0.5], [-2.0, -1.0, 3.0]])
    np.testing.assert_array_equal(sd.jvp(f)(x, x)[0], f(x))


def test_largest_complex_numbers_of_no_traced_cells():
    f = lambda z: z / np.max(z * 0 + 2, initial=-9, where=[False])  # noqa: E731
    z = np.array([[1 + 2j, 3.0]])
    found = sd.jvp(f, scalarize=True)(z, z)
    np.testing.assert_array_equal(found, (f(z), f(z)))


OVERLAPPING = {
    "np.vecdot(y, y, out=y[0])": "",
    "np.vecdot(y, y, out=y)": "before it has read",
    "np.vecdot(y[0], y[1], out=y[0])": "before it has read",
    "np.matmul(y, y, out=y)": "",
    "np.matmul(y, y.T, out=y.T)": "",
    "np.matvec(y, y[0], out=y[0])": "",
    "np.dot(y, y, out=y)": "",
    "np.einsum('ij,jk->ik', y, y, out=y[::-1])": "",
    "np.einsum('ij->ji', y, out=y)": "",
    "np.cumsum(y, axis=0, out=y[::-1])": "",
    "np.add.accumulate(y, axis=1, out=y.T)": "",
    "np.add.reduceat(y, [0, 1, 2], axis=0, out=y[::-1])": "",
    "np.sum(y, axis=1, out=y[0])": "",
    "np.std(y, axis=1, out=y[0])": "",
    "np.ptp(y, axis=1, out=y[0])": "before it has read",
    "np.take(y, [2, 1, 0], axis=0, out=y, mode='clip')": "",
    "np.stack([y[2], y[1], y[0]], out=y)": "before it has read",
    "np.stack([y[0], y[1], y[2]], out=y)": "",
    "np.concatenate([y[1:], y[:1]], out=y)": "before it has read",
    "np.choose([1, 0, 1], [y[0], y[1]], out=y[0])": "",
    "np.round(y, 1, out=y.T)": "",
    "np.add(y[:2], y[1:], out=y[1:])": "",
    "np.put(w, [0, 1], [7.0, 8.0])": "more than once",
    "np.place(w, w > 0, [7.0, 8.0])": "more than once",
}


@pytest.mark.parametrize("call", OVERLAPPING)
def test_out_that_shares_memory_with_what_is_read(call):
    scope = {"np": np}
    overlapping = "w = np.lib.stride_tricks.as_strided(y, (2, 2), (8, 8))"
    exec(f"def f(x):\n    y = np.sin(x) + 1.5\n    {overlapping}\n    {call}\n    return y", scope)
    x = np.arange(9.0).reshape(3, 3)
    for options in ({}, {"scalarize": False}):
        if OVERLAPPING[call]:
            with pytest.raises(sd.TraceError, match=OVERLAPPING[call]):
                sd.jvp(scope["f"], **options)(x, x)
        else:
            np.testing.assert_allclose(sd.jvp(scope["f"], **options)(x, x)[0], scope["f"](x))


REDUCED = [
    u
    for u in vars(np).values()
    if isinstance(u, np.ufunc) and u.nin == 2 and u.nout == 1 and "dd->d" in u.types and not u.signature
]


@pytest.mark.parametrize("ufunc", dict.fromkeys(REDUCED), ids=lambda u: u.__name__)
def test_reductions_of_one_cell_are_no_views(ufunc):
    for method, shape, axis in itertools.product(("reduce", "accumulate"), [(1, 3), (3, 1), (1,)], (0, 1)):
        if axis >= len(shape) or shape[axis] > 1:
            continue

        def f(x, method=method, axis=axis):
            t = x * 1.0
            r = getattr(ufunc, method)(t, axis=axis)
            t += 1
            if np.ndim(r):
                r[...] *= 2
            return t, r

        x = np.linspace(0.5, 1.5, math.prod(shape)).reshape(shape)
        try:
            traced = sd.trace(f, x)(x)
        except sd.TraceError:
            continue
        for found, wanted in zip(traced, f(x), strict=True):
            assert np.allclose(found, wanted)
