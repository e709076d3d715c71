"""Rounds whose products of rows, columns and numbers make up products of matrices; against the same loops written out."""

import ctypes
import itertools
import re

import numpy as np
import pytest
from inside import engine, llvm_product, looped_function, loops_as_arrays, program_of

import symdiff as sd

RNG = np.random.default_rng(11)
WIDE, LONG, ROW = RNG.normal(size=(5, 7)), RNG.normal(size=(9, 7)), RNG.normal(size=7)
TALL, INPUTS = RNG.normal(size=(30, 24)), RNG.normal(size=(40, 20))
STATE, INPUT = RNG.normal(size=(16, 16)) / 16, RNG.normal(size=(16, 20)) / 6


def columns_times(a):
    c = np.zeros((7, 7))
    for i in range(7):
        c[i] = a[:, i] @ a
    return np.sum(c * c)


def sums_of_columns(a, w):
    s = 0.0
    for i in range(7):
        s = s + np.sum(a[:, i]) * w[i]
    return s * s


def outer_products(a):
    s = np.zeros((7, 7))
    for i in range(9):
        s = s + np.outer(a[i], np.sin(a[i]))
    return np.sum(s * s)


def outer_products_of_three(a):
    s = np.zeros((7, 2, 7))
    for i in range(9):
        s = s + a[i, :, None, None] * np.array([1.0, 2.0])[:, None] * np.cos(a[i])
    return np.sum(s * s * np.arange(7))


def blocks(a):
    s = np.zeros((3, 3))
    for i in range(8):
        s = s + a[i : i + 2, :3].T @ a[i : i + 2, 3:6]
    return np.sum(s * s)


def triangle(a):
    c = np.zeros((24, 24))
    for i in range(24):
        c[i:, i] = c[i, i:] = a[:, i] @ a[:, i:]
    return np.sum(c * c)


def masked(a):
    s = np.zeros((7, 7))
    for i in range(9):
        s = s + np.where(np.arange(7) > 2, np.outer(a[i], a[i]), 0.0)
    return np.sum(s * s)


def diagonals(a):
    s = 0.0
    for i in range(9):
        s = s + np.trace(np.outer(a[i], a[i])) * np.outer(a[i], a[i])[2, 3]
    return s


def recurrent(w, u, inputs):
    h = np.zeros(16)
    for k in range(len(inputs)):
        h = np.tanh(w @ h + u @ inputs[k])
    return h @ h


def recurrent_energies(w, u, inputs):
    h, s = np.ones(16), 0.0
    for k in range(len(inputs)):
        h = np.tanh(w @ h + u @ inputs[-1 - k])
        s += h @ h
    return s


def states_in_rows(w, x):
    made, h = np.zeros((40, 20)), np.ones(16)
    for k in range(40):
        h = np.sin(w @ h)
        made[k] = h @ x
    return np.sum(made * made)


# The loops that stay, and the products of matrices beside them, in value and gradient.
CASES = {
    columns_times: ((WIDE,), 0, 3), sums_of_columns: ((WIDE, ROW), 0, 0), outer_products: ((LONG,), 0, 3),
    outer_products_of_three: ((LONG,), 0, 3), blocks: ((LONG,), 0, 3), triangle: ((TALL,), 2, 3), masked: ((LONG,), 0, 1),
    diagonals: ((LONG,), 0, 0), recurrent: ((STATE, INPUT, INPUTS), 2, 6), recurrent_energies: ((STATE, INPUT, INPUTS), 2, 6),
    states_in_rows: ((STATE, INPUT), 2, 4),
}  # fmt: skip


@pytest.mark.parametrize("f", CASES, ids=lambda f: f.__name__)
def test_rounds_together_are_products_of_matrices(f):
    args, loops, products = CASES[f]
    wrt = tuple(range(len(args)))
    df = sd.value_and_grad(f, wrt, loops="keep", scalarize=False)
    ops = [b.op for b in loops_as_arrays(df.graph(*args)).bindings]
    assert (ops.count("loop"), ops.count("matmul")) == (loops, products)
    value, gradients = sd.value_and_grad(f, wrt, loops="unroll")(*args)
    np.testing.assert_allclose(value, f(*args), rtol=1e-12)
    for backend in ("auto", "native", "numpy", "python"):
        found, slopes = df.compile(*args, backend=backend)(*args)
        np.testing.assert_allclose(found, value, rtol=1e-11)
        for one, other in zip(slopes, gradients, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


def test_complex_numbers():
    def holomorphic(w, u, inputs):
        h, s = np.zeros(16, complex), np.zeros((16, 20), complex)
        for k in range(len(inputs)):
            h = np.sin(w @ h + u @ inputs[k])
            s += np.outer(h, inputs[k])
        return np.sum(s * s)

    args = tuple(a * (1 + 0.1j) for a in CASES[recurrent][0])
    kept, written = (sd.grad(holomorphic, (0, 1, 2), loops=loops, scalarize=False)(*args) for loops in ("keep", "unroll"))
    for one, other in zip(kept, written, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10)


def test_cheap_parts_of_rounds_stay_in_their_loop():
    """What would be written to memory only to be read again."""

    def f(x, y):
        h, s = 1.0, np.zeros(7)
        for k in range(9):
            h = np.sin(h * x[k])
            s = s + h * y[k]
        return np.sum(s * s)

    found = loops_as_arrays(sd.value_and_grad(f, (0, 1), loops="keep", scalarize=False).graph(LONG[:, 0], LONG))
    assert [b.op for b in found.bindings].count("loop") == 2
    (loop,) = [b.params for b in found.bindings if b.op == "loop" and not b.params.backward]
    assert loop.sums == 1


def test_elementary_functions_of_cells_in_vectors():
    """In machine code LLVM takes ours in the place of libm's; in files and single precision they stay."""

    def f(x, y):
        for _ in range(12):
            x = np.tanh(x * 1.1) + np.sin(y) * np.cos(x) + np.arctan2(x, y) * np.abs(x) ** 0.3
        return np.sum(x * np.exp(-x))

    args = RNG.normal(size=(2, 203))
    wanted, slopes = sd.value_and_grad(f, (0, 1), loops="unroll", backend="numpy")(*args)
    df = sd.value_and_grad(f, (0, 1), loops="keep")
    found, kept = df(*args)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    np.testing.assert_allclose(kept, slopes, rtol=1e-10, atol=1e-12)
    ending = looped_function(program_of(df.graph(*args), loops=True), "kernel", 4).text
    assert {f"_ZGV_LLVM_N4{v}" for v in ("v_tanh(vec4_tanh)", "v_sin(vec4_sincos.0)", "vv_pow(vec4_pow)")} <= set(
        re.findall(r"_ZGV_LLVM_N4\w+\([\w.]+\)", ending)
    )
    plain = looped_function(program_of(df.graph(*args), loops=True), "kernel").text
    ordered = looped_function(program_of(df.graph(*args), loops=True), "kernel", 4, True).text
    assert "_ZGV" not in plain and "_ZGV" not in ordered
    single = sd.grad(f, loops="keep")(*args.astype(np.float32))
    np.testing.assert_allclose(single, slopes[0], rtol=2e-2, atol=2e-3)


def test_recurrences_of_large_states():
    """Products with vectors, of blocks and elementary functions in one function."""
    args = RNG.normal(size=(64, 64)) / 64, RNG.normal(size=(64, 48)) / 48, RNG.normal(size=(70, 48))

    def f(w, u, x):
        h, s = np.zeros(64), 0.0
        for k in range(len(x)):
            h = np.tanh(w @ h + u @ x[k])
            s += h @ h
        return s

    value, slopes = sd.value_and_grad(f, (0, 1, 2), loops="unroll", backend="numpy")(*args)
    df = sd.value_and_grad(f, (0, 1, 2))
    assert any(b.op == "loop" for b in df.graph(*args).bindings)
    found, kept = df(*args)
    np.testing.assert_allclose(found, value, rtol=1e-12)
    for one, other in zip(kept, slopes, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


SIZES = [1, 4, 5, 24, 25, 49, 130]


@pytest.mark.skipif(not engine.machine_fuses(), reason="the machine has no products with one rounding")
@pytest.mark.parametrize("code", "df")
def test_products_in_machine_code(code):
    lanes = engine.machine_lanes()
    entry = f"define void @entry(ptr %c, ptr %a, ptr %b, {', '.join(f'i64 %n{k}' for k in range(8))}) {{\n"
    entry += f"  call void @product.{code}(ptr %c, ptr %a, ptr %b, {', '.join(f'i64 %n{k}' for k in range(8))})\n  ret void\n}}"
    product, declared = llvm_product(code, lanes)
    machine = engine.Code("\n".join([*declared.values(), product, entry, ""]), 1, "none")
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, *[ctypes.c_long] * 8)(machine.address("entry"))
    for m, n, k in itertools.product(SIZES, SIZES, [1, 7, 127, 128, 300]):
        for turned in itertools.product((False, True), repeat=2):
            a, b = (RNG.normal(size=s[::-1] if t else s).astype(code) for s, t in zip([(m, k), (k, n)], turned, strict=True))
            c = RNG.normal(size=(m + 1, n)).astype(code)
            left, right = (x.T if t else x for x, t in zip((a, b), turned, strict=True))
            wanted = c + 0
            wanted[:m] += left @ right
            strides = [s // a.itemsize for s in (*left.strides, *right.strides)]
            call(c.ctypes.data, a.ctypes.data, b.ctypes.data, m, n, k, *strides, n)
            np.testing.assert_allclose(c, wanted, rtol=0, atol=k * np.finfo(code).eps * 30)
            assert np.array_equal(c[m], wanted[m])
