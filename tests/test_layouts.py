"""Arrays of every layout, dtype and class through every door; machine code for the processor that is asked for."""

import functools
import gc
import itertools
import math
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from inside import Plain as Function
from inside import engine

import symdiff as sd

X = np.linspace(-1, 2, 90)


def total(x):
    return np.sum(np.sin(x) * x)


def slope(x):
    x = np.asarray(x, dtype=float)
    return np.sin(x) + x * np.cos(x)


def packed(a):
    """The numbers one byte past where they should begin."""
    found = np.zeros(a.nbytes + 8, "u1")[1 : 1 + a.nbytes].view(a.dtype).reshape(a.shape)
    found[...] = a
    return found


def read_only(a):
    a = a.copy()
    a.flags.writeable = False
    return a


def noted(a):
    return a.astype(np.dtype("f8", metadata={"unit": "m"}))


LAYOUTS = {
    "packed": packed,
    "of records": lambda a: np.rec.fromarrays([a, a], dtype=[("a", "i1"), ("b", "f8")])["b"],
    "big-endian": lambda a: a.astype(">f8"),
    "packed big-endian": lambda a: packed(a.astype(">f8")),
    "reversed": lambda a: a[::-1].copy()[::-1],
    "strided": lambda a: np.repeat(a, 2, axis=0)[::2],
    "read-only": read_only,
    "one cell": lambda a: np.broadcast_to(a[:1], a.shape),
    "Fortran's": np.asfortranarray,
    "float32": lambda a: packed(a.astype("f4")),
    "integers": lambda a: np.rint(3 * a).astype(">i2"),
    "memmap": lambda a: a.copy().view(np.memmap),
    "metadata": noted,
}


@functools.cache
def made(kind):
    """A derivative that several calls share."""
    return sd.vmap(sd.grad(total)) if kind == "points" else sd.grad(lambda p: total(p["a"]))


def in_dict(x):
    return made("dict")({"a": x})["a"]


def of_points(x):
    return made("points")(x.reshape(9, 10)).ravel()


DOORS = {
    "grad": lambda: sd.grad(total),
    "numpy": lambda: sd.grad(total, backend="numpy"),
    "compiled": lambda: sd.grad(total).compile(X),
    "in a dict": lambda: in_dict,
    "kernels and NumPy": lambda: sd.grad(lambda x: total(np.sort(x))),
    "points": lambda: sd.vmap(sd.derivative(lambda x: np.sin(x) * x)),
    "whole points": lambda: of_points,
    "derivative": lambda: sd.derivative(lambda x: np.sin(x) * x),
    "captured": lambda: lambda x: sd.grad(lambda w: np.sum((np.sin(x) + x * np.cos(x)) * w))(np.ones(x.shape)),
    "file": lambda: loaded(sd.grad(total), X),
    "file of points": lambda: loaded(sd.vmap(sd.derivative(lambda x: np.sin(x) * x)), X),
}


def loaded(d, *args, target="numpy"):
    scope = {}
    exec(d.source(*args, target=target), scope)
    return next(scope[name] for name in scope if name.endswith(("_grad", "_derivative", "_vmap", "f")))


@pytest.mark.parametrize("door", DOORS)
def test_every_layout_is_right_at_every_door(door):
    d = DOORS[door]()
    for name, made in LAYOUTS.items():
        x = made(X)
        for _ in range(2):
            found = d(x)
            np.testing.assert_allclose(found, slope(x), rtol=2e-4 if name == "float32" else 1e-12, atol=1e-6, err_msg=name)
            assert type(found) is np.ndarray and found.flags.writeable


def foreign(a):
    class Quantity(np.ndarray):
        to_value = np.asarray

        def __array_finalize__(self, other):
            self.unit = "m"

    return [
        (a.view(np.recarray), "asarray"),
        (np.ma.masked_array(a, a > 0), r"filled\(\)"),
        (a.reshape(1, -1).view(np.matrix), "asarray"),
        (a.view(Quantity), "to_value"),
        (Tensor(a), r"detach\(\)"),
    ]


class Tensor:
    """Another library's array, which NumPy makes one of its own from."""

    def __init__(self, a):
        self.a = a
        self.shape, self.dtype = a.shape, a.dtype

    def __array__(self, dtype=None, copy=None):
        return self.a

    def detach(self):
        return self


class Plain(np.ndarray):
    """A class that changes nothing."""


@pytest.mark.parametrize("size", [3, 90])
def test_arrays_of_other_classes_are_refused_with_the_way_out(size):
    x = np.linspace(0.1, 1, size)
    for array, way in foreign(x):
        doors = [
            lambda a: sd.grad(total)(a),
            lambda a: sd.grad(lambda p: total(p["a"][0]))({"a": (a,)}),
            lambda a: sd.grad(total).compile(x)(a),
            lambda a: sd.vmap(sd.derivative(np.sin))(a),
            lambda a: sd.derivative(np.sin)(a),
            lambda a: sd.grad(lambda w: np.sum(w * a))(x),
            lambda a: sd.grad(lambda w: np.sum(np.where(w > 0, w, a)))(x),
            lambda a: loaded(sd.grad(total), x)(a),
        ]
        if isinstance(array, np.ndarray):
            doors += [
                lambda a: sd.grad(total)(x, out=a),
                lambda a: sd.vmap(sd.derivative(np.sin))(x, out=a),
                lambda a: loaded(sd.grad(total), x)(x, out=a),
            ]
        for k, door in enumerate(doors):
            named = k < 7 or (k in (8, 9) and array.shape == x.shape)
            match = way if named and not (k == 5 and isinstance(array, Tensor)) else ""
            with pytest.raises((sd.SymdiffError, TypeError, ValueError), match=match or None):
                door(array)
    np.testing.assert_allclose(sd.grad(total)(x.view(Plain)), slope(x))


def test_masked_numbers_in_python_files_are_refused():
    d = loaded(sd.grad(total), X[:3], target="python")
    assert d(X[:3].astype(">f8")) == d(X[:3].tolist()) == d(packed(X[:3]))
    for wrong in (np.ma.masked_array(X[:3]), X[:3] + 1j):
        with pytest.raises(TypeError, match="expected"):
            d(wrong)
    with pytest.raises(TypeError, match="expected"):
        d(X[:3], out=np.zeros(3, int))


@pytest.mark.parametrize("size", [3, 90])
@pytest.mark.parametrize("count", [2, 6])
def test_results_have_memory_of_their_own(size, count):
    x, room = np.linspace(0.1, 1, size), np.zeros(2 * size)

    def f(x, y):
        return tuple(np.sin(x * k) * y for k in range(count))

    plain = Function(f)
    for d in (plain, sd.vmap(f), loaded(plain, x, x)):
        expected = [np.array(a) for a in d(x, x + 1)]
        for outs in ([np.zeros(size) for _ in expected], list(np.zeros((size, count)).T)):
            for _ in range(2):
                d(x, x + 1, out=tuple(outs))
                np.testing.assert_allclose(outs, expected)
        for last in (room[:size], room[1 : 1 + size]):
            with pytest.raises((sd.ShapeError, ValueError), match=r"share memory|same memory"):
                d(x, x + 1, out=(room[:size], *(np.zeros(size) for _ in expected[2:]), last))
        assert not room.any()


def test_static_arrays_of_another_shape_are_another_signature():
    d = sd.grad(lambda x, k: np.sum(x * k.sum(axis=0)[0]), argnums=0)
    k = np.arange(6)
    np.testing.assert_allclose(d(np.ones(2), k.reshape(2, 3)), 3.0)
    np.testing.assert_allclose(d(np.ones(2), k.reshape(3, 2)), 6.0)


# -- the processor


def run(code, processor):
    environment = {**os.environ, "SYMDIFF_CPU": processor}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)


LANES = f"import {engine.__name__} as engine; print(engine.machine_lanes(), engine.machine_fuses())"


@pytest.mark.skipif(bool(engine.supported()), reason="needs llvmlite")
def test_machine_code_is_made_for_the_processor_that_is_asked_for():
    has = engine.load_llvmlite().get_host_cpu_features()
    if not has.get("avx2"):
        pytest.skip("not an x86 processor with AVX2")
    assert run(LANES, "x86-64-v3").stdout.split() == ["4", "True"]
    assert run(LANES, "x86-64-v2").stdout.split() == ["2", "False"]
    assert run(LANES, "native,-avx512f").stdout.split()[0] == "4"
    lacking = next(name for name, present in sorted(has.items()) if not present)
    assert f"this processor has no {lacking}" in run(LANES, f"x86-64-v3,{lacking}").stderr
    assert "unknown" in run(LANES, "wide").stderr


# -- the memory of compiled code, and arrays that are replaced meanwhile


def engines():
    gc.collect()
    return sum(isinstance(thing, engine.Code) for thing in gc.get_objects())


@pytest.mark.skipif(bool(engine.supported()), reason="needs llvmlite")
def test_code_is_freed_with_its_last_user():
    before = engines()
    d = sd.grad(lambda x: np.sum(np.sort(x) * np.sin(x)))
    for n in range(100, 105):
        d(np.ones(n))
    assert engines() > before
    del d
    assert engines() <= before + 1  # the checks of captured values are one for all


@pytest.mark.skipif(bool(engine.supported()), reason="needs llvmlite")
def test_stale_code_is_freed():
    scope = {"k": 1.0, "np": np}
    exec("def f(x): return np.sum(np.sin(x)*k)", scope)
    d = sd.grad(scope["f"])
    d(X[:3])
    before = engines()
    for k in range(10):
        scope["k"] = float(k)
        for _ in range(2):
            np.testing.assert_allclose(d(X[:3]), k * np.cos(X[:3]))
    assert engines() <= before + 2


def test_captured_arrays_of_changing_types_in_threads():
    arrays = [np.linspace(0, 1, 90), np.linspace(0, 1, 90).astype("f4"), np.linspace(0, 1, 90)[::-1].astype(">f8")]
    scope = {"c": arrays[0], "np": np}
    exec("def f(x): return np.sum(x*x*c)", scope)
    d, wrong, end = sd.grad(scope["f"]), [], time.monotonic() + 1.5
    expected = [2 * X * a for a in arrays]

    def replace():
        while time.monotonic() < end:
            for a in arrays:
                scope["c"] = a

    def call():
        while time.monotonic() < end:
            try:
                found = d(X)
            except Exception as error:
                wrong.append(error)
                return
            if not any(np.allclose(found, e, 1e-5) for e in expected):
                wrong.append(found)

    threads = [threading.Thread(target=t) for t in (replace, call, call, call)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


@pytest.mark.skipif(bool(engine.supported()), reason="needs llvmlite")
@pytest.mark.parametrize("derivative", ["sd.grad(lambda x: x * x)(2.0)", "sd.vmap(sd.grad(lambda x: x * x))(np.ones(2))"])
def test_processors_that_are_unknown_are_told(derivative):
    done = run(f"import numpy as np, symdiff as sd; {derivative}", "zen99")
    assert done.stderr.splitlines()[-1].startswith("symdiff.errors.BackendError: SYMDIFF_CPU: zen99 is unknown")


def written_flat(x):
    y = x + 1.0
    y.reshape(-1)[1] = 3.0
    return np.sum(y * np.arange(6.0).reshape(2, 3))


def written_like(x):
    y = np.zeros_like(x)
    y.ravel()[1] = 3.0
    return np.sum(y * np.arange(6.0).reshape(2, 3)) + np.sum(x)


def written_transposed(x):
    y = x.T.ravel()
    y[0] = 7.0
    return np.sum(x * np.arange(6.0).reshape(2, 3)) + np.sum(y)


@pytest.mark.parametrize("f", [written_flat, written_like, written_transposed])
def test_points_lie_in_memory_as_they_do(f):
    points = np.arange(24.0).reshape(4, 2, 3)
    for over in (sd.vmap(f), sd.vmap(sd.value_and_grad(f)), sd.vmap(lambda x, f=f: sd.vmap(f)(x[None])[0])):
        for axes in itertools.permutations(range(3)):
            given = points.transpose(axes).copy().transpose(np.argsort(axes))
            try:
                found = over(given)
            except sd.TraceError as error:
                assert f is written_transposed and "the caller's own array is assigned to" in str(error)
                continue
            np.testing.assert_array_equal(found[0] if isinstance(found, tuple) else found, [f(p) for p in given.copy("K")])


def test_arrays_beside_points_lie_in_memory_as_they_do():
    over = sd.vmap(lambda x, a: x * written_flat(a), in_axes=(0, None))
    a = np.arange(6.0).reshape(2, 3)
    for given in (a, np.asfortranarray(a), a):
        np.testing.assert_array_equal(over(np.ones(2), given), [written_flat(given)] * 2)


ASKED = {
    "contiguous": lambda x: x.flags.c_contiguous,
    "Fortran's": lambda x: np.isfortran(x),
    "by name": lambda x: x.flags["WRITEABLE"],
    "aligned": lambda x: x.flags.aligned,
    "own": lambda x: x.flags.owndata,
    "steps": lambda x: x.strides[0] == 32,
    "a part": lambda x: x[0].flags.c_contiguous,
    "turned": lambda x: x.T.flags.c_contiguous,
    "a copy": lambda x: np.ascontiguousarray(x) is x,
    "its flags": lambda x: np.ascontiguousarray(x).flags.c_contiguous,
    "required": lambda x: np.require(x, requirements="W") is x,
    "as it is": lambda x: np.asarray(x) is x,
    "in columns": lambda x: (x * 2).flags.owndata and np.isfortran(x + 1),
    "its dtype": lambda x: x.dtype == np.float64,
    "its copy's dtype": lambda x: x.copy().dtype.isnative,
}
APART = ("packed", "packed big-endian", "of records", "reversed", "strided", "read-only", "one cell")
REFUSED = {(asked, layout) for asked in ("a part", "turned") for layout in APART}


@pytest.mark.parametrize("asked", ASKED)
def test_what_is_asked_of_memory_is_told_for_each_layout(asked):
    question = ASKED[asked]

    def f(x):
        return x.sum() if question(x) else 2 * x.sum()

    own = np.arange(12.0).reshape(3, 4) + 1
    names = [name for name in LAYOUTS if name not in ("float32", "integers", "memmap", "noted")]
    for door in (sd.value_and_grad(f), sd.jvp(f)):
        for name in [*names, *reversed(names)]:
            x = LAYOUTS[name](own)
            try:
                found = door(x)[0] if door.extra == 0 else door(x, own)[0]
            except sd.TraceError as error:
                assert (asked, name) in REFUSED and "np.ascontiguousarray(x)" in str(error)
            else:
                assert found == f(x), name


LINE = np.arange(4.0) + 1
OVERLAPPING = {
    "rows": np.broadcast_to(LINE, (3, 4)),
    "columns": np.broadcast_to(LINE[:3, None], (3, 4)),
    "one cell": np.broadcast_to(2.0, (3, 4)),
    "turned rows": np.broadcast_to(LINE[:, None], (4, 3)).T,
    "windows": np.lib.stride_tricks.sliding_window_view(np.arange(6.0), 4),
    "Fortran's": np.asfortranarray(np.ones((3, 4))),
    "backwards": np.ones((3, 4))[::-1, ::-1],
    "an axis of one": np.ones((3, 4))[:, ::2].T[:, None],
}
ORDERED = {
    "number": lambda x, y: x + 1,
    "array": lambda x, y: y * x,
    "turned": lambda x, y: 2 * x.T,
    "chosen": lambda x, y: np.where(x > 1, x, y),
    "like": lambda x, y: np.zeros_like(x) + 0 * x.sum(),
    "copy": lambda x, y: x.copy("K"),
    "part": lambda x, y: np.sin(x[:2]),
    "cumulated": lambda x, y: np.cumsum(x, 0),
    "stacked": lambda x, y: np.stack([x, x + y]),
    "numbers": lambda x, y: np.nan_to_num(x),
    "pieces": lambda x, y: np.piecewise(x, [x > 1], [0.5]),
    "outer": lambda x, y: np.add.outer(x, y[0]),
}


PICKED = (
    lambda x, t: x[:, [0, 2]],
    lambda x, t: t[:, [0, 1]],
    lambda x, t: t[:, [0, 1], [1, 2]],
    lambda x, t: t[..., [True, False, True, True]],
    lambda x, t: x[np.asfortranarray([[0, 1], [2, 0]])],
    lambda x, t: x[:, None, [[0, 1], [2, 0]]],
    lambda x, t: x[:, np.argsort(x[0])],
    lambda x, t: t[:, np.argsort(x[:, 0]), 1],
    lambda x, t: x.T[:, np.argmax(x, 0)],
    lambda x, t: np.reshape(2 * x, (4, 3), order="F"),
    lambda x, t: np.delete(x, [0, 1], 1),
    lambda x, t: np.einsum("ij,j->ji", x, x[0]),
    lambda x, t: np.gradient(x)[1],
    lambda x, t: np.vectorize(lambda a: 2 * a)(np.broadcast_to(x[0], (3, 4))),
    lambda x, t: (2 * x).T.reshape(3, 4).T.copy(),
    lambda x, t: np.take(x, [0, 2], 1),
    lambda x, t: np.sort(t, 1),
)


@pytest.mark.parametrize("picked", PICKED)
def test_new_arrays_lie_as_numpys(picked):
    def steps(x, t):
        z = picked(x, t)
        return np.array([n > 1 and step for n, step in zip(z.shape, z.strides, strict=True)]) + 0.0 * np.sum(z)

    def written(x, t):
        z = picked(x, t)
        z.ravel()[1] = 9.0
        return z

    x, t = np.cos(np.arange(12.0)).reshape(3, 4), np.sin(np.arange(24.0)).reshape(2, 3, 4)
    for layout in (np.array, np.asfortranarray):
        for f in (steps, written):
            found = Function(f, backend="numpy", scalarize=False)
            np.testing.assert_array_equal(found(layout(x), layout(t)), f(layout(x), layout(t)))


@pytest.mark.parametrize("ordered", ORDERED)
def test_what_is_made_of_arguments_that_overlap_lies_as_numpys(ordered):
    def steps(x, y):
        z = ORDERED[ordered](x, y)
        return np.array([n > 1 and step for n, step in zip(z.shape, z.strides, strict=True)]) + 0.0 * np.sum(z)

    found = Function(steps, backend="numpy")
    for x, name in itertools.product(OVERLAPPING.values(), ("rows", "columns", "Fortran's", "an axis of one")):
        y = OVERLAPPING[name]
        if x.shape == y.shape:
            np.testing.assert_array_equal(found(x, y), steps(x, y))


@pytest.mark.parametrize("size", [4, 400])
def test_captured_arrays_tell_how_they_lie(size):
    held = np.ones((size, size))[::2, ::2]

    def f(x):
        return np.sum(held * x) * (1 if held.flags.c_contiguous else 2) + held.strides[0] + held.T.strides[0]

    x = np.ones(held.shape)
    assert sd.value_and_grad(f)(x)[0] == f(x)


@pytest.mark.parametrize("asked", ["contiguous", "steps", "strided"])
def test_points_tell_how_they_lie_where_they_lie_together(asked):
    question = (ASKED | {"strided": lambda x: np.lib.stride_tricks.as_strided(x, (2,), (8,))[1] > 1.5})[asked]
    rows = np.arange(12.0).reshape(3, 4)
    for axis in (0, -1):
        over = sd.vmap(lambda x: x.sum() if question(x) else 2 * x.sum(), in_axes=axis)
        for x in (rows, np.repeat(rows, 2, axis=1)[:, ::2], rows.T.copy().T):
            points = x if axis == 0 else x.T
            try:
                np.testing.assert_array_equal(over(x), [p.sum() if question(p) else 2 * p.sum() for p in points])
            except sd.TraceError as error:
                assert not points[0].flags.c_contiguous and "np.ascontiguousarray(x)" in str(error)


def test_layouts_of_arguments_of_inner_derivatives():
    inner = sd.grad(lambda y: y.sum() * (1 if y.flags.c_contiguous else 2))

    def f(x):
        return np.sum(inner(x) * x) + np.sum(inner(x * 2) * x)

    df = sd.value_and_grad(f)
    for x in (np.ones((3, 4)), np.ones((6, 8))[::2, ::2], np.ones((3, 4), order="F")):
        assert df(x)[0] == f(x)


def rounded_like(x):
    y = np.zeros_like(x)
    y[0] = x[0] * 0.37
    return 1.0 * y.sum()


def rounded_in_list(x):
    y = np.array([x[0], 2])
    y[0] = x[0] * 0.37
    return 1.0 * y.sum()


def rounded_in_full(x):
    y = np.full(2, x[0])
    y[0] = x[0] * 0.37
    return 1.0 * y.sum()


OF_INTEGERS = [
    *(rounded_like, rounded_in_list, rounded_in_full),
    lambda x: (x * x).sum() * 1.0,
    lambda x: (-x).sum() * 1.0,
    lambda x: (x**3).sum() * 0.5,
    lambda x: (x @ x) * 1.0,
    lambda x: (x / 7).sum(),
    lambda x: x.mean() ** 2,
]


@pytest.mark.parametrize("f", OF_INTEGERS)
@pytest.mark.parametrize("before", ["f8", "i8", "f4"])
def test_integers_are_not_taken_for_the_numbers_of_an_earlier_call(f, before):
    df, x, right = sd.value_and_grad(f), np.array([100, 20, 30, 60]), 0
    for code in (*[before] * 3, "i1", "u1", "i2", "i4", "i8", "f4", "f8", ">f8", ">i4"):
        try:
            found = df(x.astype(code))[0]
        except sd.TraceError as error:
            assert (np.dtype(code).kind in "iu" and "integers" in str(error)) or "wraps round" in str(error)
        else:
            assert np.allclose(found, f(x.astype(code)), rtol=1e-6)
            right += code[-2] == "f"
    assert right >= 3


def added_in_place(x):
    y = x.copy()
    y += np.arange(3) * 100
    return y * 1.0


ROUNDED = {
    "inserted": (lambda x: np.insert(x, 0, [0.5, 0.3]) * 1.0, ""),
    "inserted integers": (lambda x: np.insert(x, 0, [5, 3]) * 1.0, "right"),
    "padded": (lambda x: np.pad(x, 1, constant_values=0.5) * 1.0, ""),
    "padded with integers": (lambda x: np.pad(x, 1, constant_values=5) * 1.0, "right"),
    "ramp": (lambda x: np.pad(x, 2, "linear_ramp") * 1.0, ""),
    "edges": (lambda x: np.pad(x, 2, "edge") * 1.0, "right"),
    "pieces": (lambda x: np.piecewise(x, [x > 2], [0.5, 1]) * 1.0, ""),
    "pieces of integers": (lambda x: np.piecewise(x, [x > 2], [5, 1]) * 1.0, "right"),
    "in place": (added_in_place, "right"),
    "first": (lambda x: np.min(x, initial=1.5) * 1.0 + np.max(x, initial=7.5), "right"),
    "summed": (lambda x: np.sum(x, initial=1.5) + np.prod(x, where=x > 2, initial=2.5), "right"),
    "reduced": (lambda x: np.fmax.reduce(x, initial=7.5) + np.logaddexp.reduce(x, initial=1.5), "right"),
}


@pytest.mark.parametrize("name", ROUNDED)
def test_what_numpy_rounds_or_wraps_of_integers_is_refused(name):
    f, kind = ROUNDED[name]
    for code in ("i1", "u1", "i2", "i4", "i8"):
        x = np.array([3, 100, 2], code)
        try:
            found = sd.jvp(f)(x, np.ones(3))[0]
        except sd.TraceError as error:
            assert kind == "" or (name in ("in place", "summed", "reduced") and np.dtype(code).itemsize < 4)
            assert "integers" in str(error) or "wraps round" in str(error)
        else:
            assert kind == "right"
            np.testing.assert_array_equal(found, f(x))


CAPTURED = np.arange(10.0).reshape(2, 5) ** 1.5
MADE_OF_CAPTURED = {
    "0 + m": lambda m: 0 + m,
    "+m": lambda m: +m,
    "sum": lambda m: sum([m, m]),
    "choose": lambda m: np.choose((CAPTURED > 1).astype(int), [m, CAPTURED]),
    "select": lambda m: np.select([CAPTURED > 1], [m], 0),
    "interp": lambda m: np.interp(m, [0.0, 1, 2], [0, 2.0, 1]),
    "piecewise": lambda m: np.piecewise(m, [CAPTURED > 1], [lambda t: t, 0]),
    "vectorize": lambda m: np.vectorize(lambda t: 2 * t)(m),
    "where": lambda m: np.where(CAPTURED > 1, m, 0),
    "pad": lambda m: np.pad(m, 1, mode="edge"),
    "clip": lambda m: np.clip(m, 0, 1),
}


@pytest.mark.parametrize("name", MADE_OF_CAPTURED)
@pytest.mark.parametrize("layout", [np.array, np.asfortranarray, lambda a: np.asfortranarray(a[::-1])[::-1]], ids="CFR")
def test_cells_lie_in_memory_as_numpy_has_them(name, layout):
    """`ravel` shows an array's own cells, or others, by how they lie."""
    matrix = layout(CAPTURED)

    def f(x):
        v = MADE_OF_CAPTURED[name](matrix - x) + x[0]
        v.ravel()[1::2] = 3.0
        return v * np.arange(v.size).reshape(v.shape)

    x = np.arange(5.0) / 3
    np.testing.assert_allclose(sd.jvp(f)(x, x)[0], f(x), rtol=1e-13)


@pytest.mark.parametrize("options", [{}, {"backend": "numpy"}, {"paths": "guard"}], ids=str)
@pytest.mark.parametrize("kind", [int, bool, np.uint8, np.float32])
def test_arguments_of_settings_are_told_apart_by_their_layout(kind, options):
    def f(x, z):
        v = z * x[0] * 2.0
        v.ravel()[1::2] = x[1]
        return np.sum(v * np.arange(6.0).reshape(2, 3))

    x, first = np.array([1.0, 2.0]), np.arange(6).reshape(2, 3)
    given = [layout((first + k).astype(kind)) for k in range(12) for layout in (np.array, np.asfortranarray)]
    for order in (given, given[::-1], given[1:]):
        df, batch = sd.value_and_grad(f, **options), sd.vmap(f, in_axes=(0, None), **options)
        for z in order:
            assert [df(x, z)[0] for _ in range(3)] == [f(x, z)] * 3
            assert batch(x[None], z) == [f(x, z)]


ORDERS = {
    "C": lambda a: a,
    "F": np.asfortranarray,
    "backwards": lambda a: a[::-1],
    "mixed": lambda a: np.ascontiguousarray(a.swapaxes(0, -1)).swapaxes(0, -1),
    "repeated": lambda a: np.broadcast_to(a[:1], a.shape),
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("method", ["reduce", "accumulate", "outer", "reduceat"])
@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "fmax", "logaddexp", "subtract"])
def test_results_of_methods_of_ufuncs_lie_in_memory_as_numpys(name, method, order):
    ufunc = getattr(np, name)
    for shape in ((2, 3), (3, 2, 4), (4,)):
        for axis in range(len(shape)):

            def f(x, axis=axis):
                r = {
                    "outer": lambda: ufunc.outer(x, x[:2]),
                    "reduceat": lambda: ufunc.reduceat(x, [0, 1], axis=axis),
                }.get(method, lambda: getattr(ufunc, method)(x, axis=axis))()
                if np.ndim(r):
                    v = r.T.ravel()
                    v[...] = v * 2
                    w = r.ravel(order="C")
                    w[...] = w + 1
                return r

            x = ORDERS[order](np.linspace(0.5, 1.5, math.prod(shape)).reshape(shape) ** 2)
            try:
                traced = sd.trace(f, x)(x)
            except sd.TraceError:
                continue
            np.testing.assert_allclose(traced, f(x), rtol=1e-13)
