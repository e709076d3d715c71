"""Batches as machine code: any strides and layouts, outputs past the caches, threads, and the way for few points."""

import itertools
import multiprocessing
import sys
import time
from typing import Any, NamedTuple

import numpy as np
import pytest
from inside import USUAL, batch, largest_cache, pool
from threads import together

import symdiff as sd

pytest.importorskip("llvmlite", reason="machine code needs llvmlite: pip install 'symdiff[native]'")


class Pair(NamedTuple):
    first: Any
    second: Any


def mixed(x):
    """A function of three numbers whose gradient has three cells."""
    return x[0] ** 2 * x[1] + np.exp(-x[2]) * x[1]


def slope(x, axis=0):
    a, b, c = np.moveaxis(x, axis, 0)
    return np.stack([2 * a * b, a**2 + np.exp(-c), -np.exp(-c) * b], axis)


def numbers(shape, dtype="d"):
    made = np.random.default_rng(7).standard_normal(shape)
    return (made + 1j * made[::-1]).astype(dtype) if np.dtype(dtype).kind == "c" else made.astype(dtype)


def guarded(shape, dtype, offset=0):
    """An array in the middle of ones of its own, and a check that those are untouched; `offset` items from an aligned place."""
    size = int(np.prod(shape))  # of a number or a tuple
    whole = np.full(size + 64, 77, dtype)
    start = (-whole.ctypes.data % 64) // whole.itemsize + 16 + offset

    def check():
        assert (whole[:start] == 77).all() and (whole[start + size :] == 77).all()

    return whole[start : start + size].reshape(shape), check


def product(x):
    """Sums and products, of real and complex numbers."""
    return [x[0] * x[1] - x[2], (x[1] + 2.0) * x[2] * x[0]]


@pytest.mark.parametrize("cells", [1, 2, 3, 4, 5, 8, 9])
@pytest.mark.parametrize("dtype", ["f", "d", "F", "D"])
@pytest.mark.parametrize("axis", [0, -1])
def test_every_number_of_points_and_cells(cells, dtype, axis):
    def neighbours(x):
        return np.stack([x[k] * x[(k + 1) % cells] + x[k] for k in range(cells)])

    f = sd.vmap(neighbours, in_axes=axis, backend="native")
    for count in (0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33):
        x = numbers((count, cells) if axis == 0 else (cells, count), dtype)
        across = 1 if axis == 0 else 0
        wanted = x * np.roll(x, -1, across) + x
        out, check = guarded(x.shape, dtype)
        for found in (f(x), f(x, out=out)):
            assert found.dtype == x.dtype
            np.testing.assert_allclose(found, wanted, rtol=1e-5 if dtype in "fF" else 1e-13, atol=1e-6)
        check()


@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("order", ["C", "F"])
def test_views_are_read_and_written_where_they_are(axis, order):
    f = sd.vmap(sd.grad(mixed), in_axes=axis, backend="native")
    wide = np.array(numbers((12, 40)), order=order)
    views = [wide[2:5, 4:33], wide[::4, ::3], wide[::-4, ::-1], wide[8:5:-1, 1::2]]
    views += [np.broadcast_to(numbers((3, 1)), (3, 9)), np.broadcast_to(numbers((1, 9)), (3, 9))]
    for view in views:
        x = view.T if axis == 0 else view
        assert x.shape[1 if axis == 0 else 0] == 3
        wanted = slope(x, 1 if axis == 0 else 0)
        np.testing.assert_allclose(f(x), wanted, rtol=1e-14)
        room = np.full((2 * x.shape[0], 3 * x.shape[1]), np.nan)
        target = room[::2, 1::3]
        assert f(x, out=target) is target
        np.testing.assert_allclose(target, wanted, rtol=1e-14)
        target[...] = np.nan
        assert np.isnan(room).all()


def test_matrices_at_any_strides():
    f = sd.vmap(lambda a, b: a @ b, in_axes=(0, None), backend="native")
    a, b = numbers((6, 3, 2)), numbers((2, 2))
    for left in (a, a[:, ::-1], np.asfortranarray(a), a.transpose(0, 1, 2)[::2], np.repeat(a, 2, axis=2)[:, :, ::2]):
        for right in (b, b.T, b[::-1, ::-1]):
            np.testing.assert_allclose(f(left, right), left @ right, rtol=1e-13, atol=1e-14)
    out = np.empty((3, 2, 6)).transpose(2, 0, 1)
    f(a, b, out=out)
    np.testing.assert_allclose(out, a @ b, rtol=1e-13, atol=1e-14)


def test_outputs_that_overlap_inputs_or_are_misaligned():
    f = sd.vmap(sd.grad(mixed), backend="native")
    x = numbers((20, 3))
    wanted = slope(x, 1)
    for _ in range(3):
        own = np.concatenate([x, np.zeros((4, 3))])
        f(own[:20], out=own[:20])
        np.testing.assert_allclose(own[:20], wanted, rtol=1e-14)
        own = np.concatenate([x, np.zeros((4, 3))])
        f(own[:20], out=own[1:21])
        np.testing.assert_allclose(own[1:21], wanted, rtol=1e-14)
    odd = np.empty(20 * 3 * 8 + 1, np.uint8)[1:].view(float).reshape(20, 3)
    np.testing.assert_allclose(f(x, out=odd), wanted, rtol=1e-14)
    odd[...] = x
    np.testing.assert_allclose(f(odd), wanted, rtol=1e-14)


@pytest.fixture
def tiny_cache(monkeypatch):
    monkeypatch.setattr(batch, "last_cache", lambda: 4)


@pytest.mark.parametrize("dtype", ["f", "d", "F", "D"])
@pytest.mark.parametrize("cells", [1, 2, 3, 8, 16])
@pytest.mark.parametrize("axis", [0, -1])
def test_outputs_past_the_caches(tiny_cache, dtype, cells, axis):
    def neighbours(x):
        return np.stack([x[k] * x[(k + 1) % cells] + x[k] for k in range(cells)])

    f = sd.vmap(neighbours, in_axes=axis, backend="native")
    for count in (1, 5, 16, 100, 128, 1021):
        x = numbers((count, cells) if axis == 0 else (cells, count), dtype)
        wanted = x * np.roll(x, -1, 1 if axis == 0 else 0) + x
        for offset in range(0, 9, 1 if cells < 3 else 2):
            out, check = guarded(x.shape, dtype, offset)
            f(x, out=out)
            np.testing.assert_allclose(out, wanted, rtol=1e-5 if dtype in "fF" else 1e-13, atol=1e-6)
            check()


def test_stores_past_the_caches_are_emitted_where_memory_lies_right(tiny_cache, monkeypatch):
    texts = []
    compiled = batch._Kernel.__init__

    def recorded(self, text, effort):
        texts.append(text)
        compiled(self, text, effort)

    monkeypatch.setattr(batch._Kernel, "__init__", recorded)
    f = sd.vmap(product, in_axes=-1, backend="native")
    f(numbers((3, 128)), out=(guarded(128, "d", 3)[0], guarded(128, "d")[0]))
    assert "nontemporal" not in texts[0] and texts[-1].count("nontemporal") == 1
    f(numbers((3, 128)), out=(guarded(128, "d", 3)[0], guarded(128, "d", 11)[0]))
    assert texts[-1].count("nontemporal") == 2
    g = sd.vmap(sd.grad(mixed), backend="native")
    g(numbers((128, 3)))  # rows of 24 bytes
    assert "nontemporal" not in texts[-1]
    h = sd.vmap(lambda x: x * x, backend="native")
    h(numbers((32, 8)), out=guarded((32, 8), "d")[0])
    whole = texts[-1].count("nontemporal") // 2  # in the loop, and where few points remain
    assert whole
    for offset in range(1, 8):  # rows that begin within a line: each line is put together from two of them
        h(numbers((32, 8)), out=guarded((32, 8), "d", offset)[0])
        assert texts[-1].count("nontemporal") == whole
    compiled_so_far = len(texts)
    h(numbers((32, 8)), out=guarded((32, 16), "d", 1)[0][:, :8])  # rows with gaps between them: the code for few points
    assert len(texts) == compiled_so_far


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("cells", [2, 4, 8, 10])
def test_lines_of_rows_that_threads_share(tiny_cache, monkeypatch, threads, cells):
    monkeypatch.setattr(batch, "_GRAIN", 16)
    f = sd.vmap(sd.grad(lambda x: np.sum(x * x * x[0])), backend="native", threads=threads)
    x = numbers((203, cells))
    wanted = sd.vmap(sd.grad(lambda x: np.sum(x * x * x[0])), backend="numpy")(x)
    for offset in range(8):
        out, check = guarded(x.shape, "d", offset)
        f(x, out=out)
        np.testing.assert_allclose(out, wanted, rtol=1e-13)
        check()


def test_outputs_of_different_precision_past_the_caches(tiny_cache):
    def both(x, y):
        return [x * x + 1.0, y * x]

    f = sd.vmap(both, backend="native")
    x, y = numbers(1000, "f"), numbers(1000)
    first, second = f(x, y)
    assert first.dtype == np.float32 and second.dtype == np.float64
    np.testing.assert_allclose(first, x * x + 1, rtol=1e-6)
    np.testing.assert_allclose(second, x.astype(float) * y, rtol=1e-13)


# -- threads


@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("large", [False, True])
def test_threads_change_no_bit(axis, large, monkeypatch):
    if large:
        monkeypatch.setattr(batch, "last_cache", lambda: 4)

    def f(x):
        return np.sin(x[0]) * np.exp(x[1]) + x[2]

    x = numbers((3, 9001))
    x[0, ::97] *= 1e7  # such arguments of sin take another way, together with their neighbours
    x = x if axis == -1 else np.ascontiguousarray(x.T)
    wanted = sd.vmap(sd.grad(f), in_axes=axis, backend="native", threads=1)(x)
    np.testing.assert_allclose(wanted, sd.vmap(sd.grad(f), in_axes=axis, backend="numpy")(x), rtol=1e-13, atol=1e-15)
    for threads in (2, 3, 8, None):
        many = sd.vmap(sd.grad(f), in_axes=axis, backend="native", threads=threads)
        out = np.empty_like(wanted)
        for _ in range(4):
            np.testing.assert_array_equal(many(x), wanted)
            np.testing.assert_array_equal(many(x, out=out), wanted)


def test_parts_cover_all_points():
    for first, count, parts in ((0, 0, 3), (0, 1, 3), (5, 5000, 3), (3, 4096, 4), (0, 100_000, 7), (2, 2, 1)):
        ranges = pool.split(first, count, parts, 1024)
        assert ranges[0][0] == first and ranges[-1][1] == count and len(ranges) <= parts
        assert all(a[1] == b[0] and (a[1] - first) % 1024 == 0 for a, b in itertools.pairwise(ranges))


def test_threads_are_used_where_they_are_asked_for(monkeypatch):
    seen = []
    monkeypatch.setattr(
        pool, "run_in_threads", lambda function, parts: [seen.append(part) or function(*part) for part in parts]
    )
    x = numbers((5000, 3))
    np.testing.assert_allclose(sd.vmap(sd.grad(mixed), backend="native", threads=3)(x), slope(x, 1), rtol=1e-14)
    assert seen == [(0, 2048), (2048, 4096), (4096, 5000)]
    sd.vmap(sd.grad(mixed), backend="native")(x)  # too few to pay
    sd.vmap(sd.grad(mixed), backend="native", threads=1)(x)
    assert len(seen) == 3
    for bad in (0, -1, 1.5, True, "2"):
        with pytest.raises(ValueError, match=r"test_native_batches.*threads="):
            sd.vmap(mixed, threads=bad)


def test_many_python_threads_at_once():
    f = sd.vmap(sd.grad(mixed), backend="native", threads=4)
    failures = []

    def hammer(seed):
        for count in (1, 10, 5000, 20_000):
            x = np.random.default_rng(seed).standard_normal((count, 3))
            if not np.allclose(f(x), slope(x, 1), rtol=1e-13):
                failures.append(seed)

    together(hammer, range(16))
    assert not failures


def test_errors_of_a_part_are_raised():
    def fails(start, stop):
        if start:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        pool.run_in_threads(fails, [(0, 1), (1, 2)])


def _in_child(f, x, queue):
    queue.put(f(x).tolist())


@pytest.mark.skipif(not hasattr(sys, "getdlopenflags"), reason="only Unix forks")
def test_threads_after_a_fork():
    f = sd.vmap(sd.grad(mixed), backend="native", threads=2)
    x = numbers((4000, 3))
    wanted = f(x).tolist()  # the parent has its threads now
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=_in_child, args=(f, x, queue))
    process.start()
    assert queue.get(timeout=60) == wanted
    process.join()


def test_the_size_of_the_last_cache(tmp_path):
    for index, size in enumerate(("32K", "1024K", "24M")):
        (tmp_path / f"index{index}").mkdir()
        (tmp_path / f"index{index}" / "size").write_text(f"{size}\n")
    assert largest_cache(tmp_path) == 24 * 2**20
    (tmp_path / "index0" / "size").write_text("many")
    assert largest_cache(tmp_path) == USUAL == largest_cache(tmp_path / "nowhere")


# -- the way for few points


def quick(f, *args):
    """The function after calls that let it take the short way, which they must not change."""
    for _ in range(3):
        f(*args)
    return f


@pytest.mark.parametrize("axis", [0, -1])
def test_few_points_in_every_way_of_calling(axis):
    f = sd.vmap(sd.value_and_grad(mixed), in_axes=axis, backend="native")
    shaped = (lambda n: (n, 3)) if axis == 0 else (lambda n: (3, n))
    quick(f, numbers(shaped(10)))
    for count in (0, 1, 2, 10, 100, 5000):
        x = numbers(shaped(count))
        value, gradient = f(x)
        np.testing.assert_allclose(gradient, slope(x, 1 if axis == 0 else 0), rtol=1e-13)
        np.testing.assert_allclose(value, mixed(np.moveaxis(x, 1 if axis == 0 else 0, 0)), rtol=1e-13)
        assert value.flags.owndata and gradient.flags.owndata and gradient.flags.writeable and gradient.shape == x.shape
        out = np.empty(count), np.empty(x.shape)
        assert f(x, out=out) is out
        np.testing.assert_array_equal(out[0], value)
        np.testing.assert_array_equal(out[1], gradient)
    x = numbers(shaped(10))
    for other in (x[::-1], np.asfortranarray(x), x.astype(">f8"), x.astype(int)):
        np.testing.assert_allclose(f(other)[1], slope(np.asarray(other, float), 1 if axis == 0 else 0), rtol=1e-13)
    assert f(x.astype(np.float32))[1].dtype == np.float32
    own = x.copy()
    f(own, out=(np.empty(10), own))
    np.testing.assert_allclose(own, slope(x, 1 if axis == 0 else 0), rtol=1e-13)


def test_few_points_and_wrong_arguments():
    f = quick(sd.vmap(sd.grad(mixed), backend="native"), numbers((10, 3)))
    x = numbers((10, 3))
    locked = np.empty((10, 3))
    locked.flags.writeable = False
    for bad in (np.empty((9, 3)), np.empty((10, 3), np.float32), locked, 5):
        with pytest.raises(sd.ShapeError, match="out for df_dx"):
            f(x, out=bad)
    with pytest.raises(TypeError):
        f(x, unknown=1)
    with pytest.raises(sd.SymdiffError):
        f(x, x)
    np.testing.assert_allclose(f(x, out=None), slope(x, 1), rtol=1e-14)
    two = quick(sd.vmap(lambda a, b: a * b[0] + b[1], backend="native"), numbers(10), numbers((10, 2)))
    with pytest.raises(sd.ShapeError, match="different numbers of points"):
        two(numbers(10), numbers((9, 2)))


def test_few_points_with_shared_arrays_and_numbers():
    def f(a, p):
        return a[0] * p[1] + a[1] * p[0]

    shared = quick(sd.vmap(f, in_axes=(0, None), backend="native"), numbers((10, 2)), numbers(2))
    a, p = numbers((7, 2)), numbers(2)
    np.testing.assert_allclose(shared(a, p), a @ p[::-1], rtol=1e-13)
    own = np.concatenate([p, np.zeros(5)])
    np.testing.assert_allclose(shared(a, own[:2], out=own), a @ p[::-1], rtol=1e-13)
    scaled = sd.vmap(lambda x, k: k * x * x, in_axes=(0, None), backend="native")
    for k in (2.0, 3.0, np.float64(4.0), 5):
        np.testing.assert_array_equal(scaled(a, k), k * a * a)


def test_few_points_of_a_function_with_captured_values():
    scale = np.array([2.0])
    f = sd.vmap(lambda x: x * scale[0], backend="native")
    x = numbers(5)
    for k in (2.0, 3.0, 5.0, 7.0):
        scale[0] = k
        np.testing.assert_array_equal(f(x), k * x)


def test_references_are_counted():
    f = quick(sd.vmap(sd.value_and_grad(mixed), backend="native"), numbers((10, 3)))
    x, out = numbers((10, 3)), (np.empty(10), np.empty((10, 3)))
    objects = (x, out, *out, np.dtype("d"))
    counts = [sys.getrefcount(o) for o in objects]
    for _ in range(500):
        f(x)
        f(x, out=out)
        f(x, out=None)
        f(x[::-1])
        with pytest.raises(sd.ShapeError):
            f(x, out=(out[0], 3))
    assert [sys.getrefcount(o) for o in objects] == pytest.approx(counts, abs=5)


def test_named_tuples_stay_what_they_are():
    f = sd.vmap(lambda x: Pair(x * x, x + 1.0), backend="native")
    for _ in range(4):
        found = f(numbers(5))
        assert type(found) is Pair
        np.testing.assert_allclose(found.second, numbers(5) + 1)


def test_first_calls_of_many_elementary_functions_take_a_second():
    def f(x):
        s = x
        for _ in range(200):
            s = np.sin(s) * 0.9 + 0.1 * x
        return s

    x = np.linspace(0.0, 1.0, 50)
    begin = time.perf_counter()
    found = sd.vmap(f)(x)
    assert time.perf_counter() - begin < 4.0  # 12 s where LLVM puts each function in the place of its calls
    np.testing.assert_allclose(found, f(x), rtol=1e-13)


def test_an_integer_that_all_points_share_is_a_number():
    x = np.arange(6.0).reshape(3, 2)
    df = sd.vmap(sd.value_and_grad(lambda x, a: np.sum(x * x) * a**2, (0, 1)), in_axes=(0, None))
    for (value, slopes), (wanted, expected) in zip([df(x, 3), df(x, 4)], [df(x, 3.0), df(x, 4.0)], strict=True):
        np.testing.assert_array_equal(value, wanted)
        for slope, other in zip(slopes, expected, strict=True):
            np.testing.assert_array_equal(slope, other)
