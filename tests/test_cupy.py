"""CuPy arrays, with a stand-in for CuPy that runs kernels on the CPU and refuses hidden copies to the host."""

import dataclasses
import importlib
import importlib.util
import inspect
import pickle
import sys
import threading
import types
from pathlib import Path

import cuda_on_cpu
import cupy_standin
import golden_functions as g
import numpy as np
import pytest
import test_array_plans
import test_array_programs
import test_gpu
from inside import Plain, main, structures

import symdiff as sd

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks import gpu

pytestmark = pytest.mark.skipif(cuda_on_cpu.COMPILER is None, reason="no C++ compiler (g++ or clang++) here")
RNG = np.random.default_rng(5)
counters = cupy_standin.counters


@pytest.fixture
def cp(monkeypatch):
    yield cupy_standin.installed(monkeypatch)
    assert not counters.refused, "something would have waited for the device"


def cubic(x):
    return x[0] ** 3 - 3 * x[0] * x[1] ** 2 + x[2] / x[1]


def moved(cp, value):
    """A structure with its arrays on the device."""
    return structures.map_leaves(lambda leaf: cp.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf, value)


def agree(cp, f, *args, rtol=1e-12):
    """Results on the device are those on the host; a second call with `out` makes nothing on the device."""
    with np.errstate(all="ignore"):
        wanted = f(*args)
    given = moved(cp, args)
    found = f(*given)
    assert structures.structure(found) == structures.structure(wanted)
    for a, b in zip(structures.leaves(found), structures.leaves(wanted), strict=True):
        assert isinstance(a, cp.ndarray) and a.shape == np.shape(b) and a.dtype == b.dtype
        np.testing.assert_allclose(a.get(), b, rtol, rtol * np.max(np.abs(b), initial=0))
    counters.__init__()
    out = structures.map_leaves(lambda a: cp.empty(a.shape, a.dtype), found)
    counters.__init__()
    assert f(*given, out=out) is out
    for a, b in zip(structures.leaves(out), structures.leaves(found), strict=True):
        np.testing.assert_array_equal(a.get(), b.get())
    return counters.launches, counters.allocations


# -- points


@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128", "complex64"])
def test_points_are_one_launch_in_either_layout(cp, axis, dtype):
    f = sd.vmap(sd.value_and_grad(cubic), in_axes=axis)
    x = RNG.standard_normal((50, 3)).astype(dtype) + np.ones(3, dtype)
    tolerance = 1e-13 if dtype in ("float64", "complex128") else 1e-4
    assert agree(cp, f, x if axis == 0 else x.T.copy(), rtol=tolerance) == (1, 0)


def test_any_strides(cp):
    f = sd.vmap(sd.grad(cubic))
    x = RNG.standard_normal((40, 6)) + 2
    device = cp.asarray(x)
    for key in (np.s_[::2, ::2], np.s_[::-1, 1:4], np.s_[5:, 5:2:-1]):
        out = cp.empty((80, 7))[:: 80 // len(x[key]), ::2][: len(x[key]), :3]
        for given in (None, out):
            found = f(device[key], out=given)
            np.testing.assert_allclose(found.get(), f(x[key]), rtol=1e-13)


def test_an_out_that_overlaps_an_argument_is_right(cp):
    f = sd.vmap(sd.grad(cubic))
    x = RNG.standard_normal((30, 3)) + 2
    room = cp.empty((31, 3))
    for source, target in ((np.s_[:-1], np.s_[1:]), (np.s_[1:], np.s_[1:]), (np.s_[:-1], np.s_[-2::-1])):
        room[source] = cp.asarray(x)
        f(room[source], out=room[target])
        np.testing.assert_allclose(room[target].get(), f(x), rtol=1e-13)


def test_no_points_and_many(cp):
    f = sd.vmap(sd.grad(cubic))
    assert f(cp.zeros((0, 3))).shape == (0, 3) and "cubic_grad_points" not in counters.names
    x = RNG.standard_normal((100_000, 3)) + 3
    np.testing.assert_allclose(f(cp.asarray(x)).get(), f(x), rtol=1e-12)


def test_arguments_that_all_points_share(cp):
    def f(x, rate, w):
        return np.sin(x[0] * rate) * w[0, 1] + x[1] * w[1, 2]

    h = sd.vmap(sd.value_and_grad(f, (0, 1, 2)), in_axes=(0, None, None))
    x, w = RNG.standard_normal((20, 2)), RNG.standard_normal((2, 3))
    wanted = h(x, 0.7, w)
    for rate in (0.7, np.float64(0.7), cp.asarray(np.array(0.7))):
        found = h(cp.asarray(x), rate, cp.asarray(w))
        for a, b in zip(structures.leaves(found), structures.leaves(wanted), strict=True):
            np.testing.assert_allclose(a.get(), b, rtol=1e-13)


def test_an_elementwise_derivative_keeps_the_shape(cp):
    f = sd.derivative(g.logistic)
    x = RNG.standard_normal((4, 5))
    assert agree(cp, f, x) == (1, 0)
    np.testing.assert_allclose(f(cp.asarray(x.T)).get(), f(x.T), rtol=1e-14)
    np.testing.assert_allclose(f(cp.asarray(np.arange(4))).get(), f(np.arange(4)), rtol=1e-14)
    scattered = cp.empty((4, 9))[:, ::2]
    f(cp.asarray(x), out=scattered)
    np.testing.assert_allclose(scattered.get(), f(x), rtol=1e-14)


# -- one point


@dataclasses.dataclass
class Model:
    W: object
    b: object


def test_structures_and_numbers(cp):
    def loss(m, x, scale):
        return np.sum((m.W @ x + m.b) ** 2) * scale

    m = Model(RNG.standard_normal((2, 3)), RNG.standard_normal(2))
    x = RNG.standard_normal(3)
    wanted = sd.value_and_grad(loss)(m, x, 2.0)
    value, gradient = sd.value_and_grad(loss)(Model(cp.asarray(m.W), cp.asarray(m.b)), cp.asarray(x), 2.0)
    assert isinstance(gradient, Model) and value.shape == ()
    np.testing.assert_allclose(value.get(), wanted[0])
    np.testing.assert_allclose(gradient.W.get(), wanted[1].W)
    assert agree(cp, sd.grad(cubic), RNG.standard_normal(3) + 2) == (1, 0)
    assert agree(cp, sd.hessian(cubic), RNG.standard_normal(3) + 2) == (1, 0)
    f = sd.jvp(cubic)
    found = f(cp.asarray(x + 3), cp.asarray(m.W[0]))
    np.testing.assert_allclose([p.get() for p in found], f(x + 3, m.W[0]))


def test_the_same_function_serves_host_and_device(cp):
    for backend in ("auto", "auto", "python", "numpy"):
        f = sd.grad(cubic, backend=backend)
        x = np.array([1.0, 2.0, 3.0])
        first = f(x)
        if backend == "auto":
            np.testing.assert_allclose(f(cp.asarray(x)).get(), first)
            np.testing.assert_array_equal(f(x), first)
            continue
        with pytest.raises(sd.BackendError, match=r"test_cupy.py:\d+: cubic: backend '\w+' takes NumPy arrays"):
            f(cp.asarray(x))
    h = sd.derivative(lambda x: x**3)
    assert h(2.0) == 12.0
    for number in (3.0, 4.0):
        found = h(cp.asarray(np.array(number)))
        assert isinstance(found, cp.ndarray) and found.get() == 3 * number**2
    assert h(2.0) == 12.0 and not counters.refused
    compiled = pickle.loads(pickle.dumps(sd.grad(cubic).compile(cp.asarray(x), backend="cupy")))
    np.testing.assert_allclose(compiled(cp.asarray(x)).get(), first)


def root(x):
    if x < 0:
        raise ValueError("negative")
    return x**0.5


def test_wrong_arguments_name_the_line(cp):
    x, host = cp.asarray(np.ones(3)), np.ones(3)
    product = sd.grad(lambda a, b: a @ b)
    with pytest.raises(sd.ArgumentError, match=r"test_cupy.py:\d+: a NumPy array of shape \(3,\) beside CuPy arrays"):
        product(x, host)
    with pytest.raises(sd.BackendError, match=r"test_cupy.py:\d+: cubic: backend 'cupy' takes CuPy arrays"):
        sd.grad(cubic, backend="cupy")(host)
    with pytest.raises(sd.ShapeError, match=r"out for df_dx is ndarray; a CuPy array is needed"):
        sd.grad(cubic)(x, out=np.empty(3))
    with pytest.raises(sd.ShapeError, match=r"out for df_dx is float64 \(4,\); float64 \(3,\) expected"):
        sd.grad(cubic)(x, out=cp.empty(4))
    with pytest.raises(sd.ShapeError, match=r"different numbers of points: 3 in a, 4 in b"):
        sd.vmap(lambda a, b: a * b)(x, cp.empty(4))
    with pytest.raises(sd.TraceError, match=r"a CuPy array beside a traced value; pass it as an argument"):
        sd.grad(lambda a: np.sum(a * x))(host)
    with pytest.raises(sd.TraceError, match=r"a CuPy array beside a traced value; pass it as an argument"):
        sd.grad(lambda a: np.sum(x * a))(host)
    with pytest.raises(sd.BackendError, match=r"raising ValueError at .*; on a GPU no exception can be raised: use np.where"):
        sd.derivative(root)(cp.asarray(np.ones(4)))
    with pytest.raises(sd.BackendError, match="unknown backend"):
        sd.grad(cubic, backend="gpu")
    compiled = sd.grad(cubic).compile(sd.Spec(3), backend="cupy")
    with pytest.raises(sd.ShapeError, match=r"x has shape \(4,\), \(3,\) expected"):
        compiled(cp.empty(4))
    with pytest.raises(sd.ArgumentError, match="a CuPy array is needed"):
        compiled(host)


def test_without_cupy_the_extra_is_named(cp, monkeypatch):
    x = cp.asarray(np.ones(3))
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(sd.MissingPackageError, match=r"pip install 'symdiff\[gpu\]'"):
        sd.grad(cubic)(x)


def test_arrays_of_other_packages_are_looked_at_through_cupy(cp, monkeypatch):
    class Foreign(cupy_standin.ndarray):
        pass

    Foreign.__module__ = "elsewhere"
    x = RNG.standard_normal(3) + 2
    monkeypatch.setattr(cp, "asarray", lambda a: cupy_standin.ndarray(a.host))
    np.testing.assert_allclose(sd.grad(cubic)(Foreign(x)).get(), sd.grad(cubic)(x), rtol=1e-14)


# -- functions of CuPy's


def test_functions_of_cupy_are_traced(cp):
    def f(x):
        return cp.sum(cp.sin(x) * cp.maximum(x, 0.5)) + cp.linalg.norm(x)

    def by_name(x):
        return np.sum(np.sin(x) * np.maximum(x, 0.5)) + np.linalg.norm(x)

    exp = cp.exp
    x = RNG.standard_normal(5)
    np.testing.assert_allclose(sd.grad(f)(cp.asarray(x)).get(), sd.grad(by_name)(x), rtol=1e-13)
    np.testing.assert_allclose(sd.grad(f)(x), sd.grad(by_name)(x), rtol=1e-13)
    assert sd.derivative(lambda x: exp(x) * cp.asarray(x))(1.0) == pytest.approx(2 * np.e)

    class Callable:
        def __call__(self, x):
            return cp.sin(x)

    assert sd.derivative(Callable())(1.0) == pytest.approx(np.cos(1.0))
    assert sd.grad(lambda x: (cp.zeros(5) + cp.array(x))[2])(x).tolist() == [0, 0, 1, 0, 0]


def test_functions_of_cupy_that_cannot_be_replaced_say_so(cp):
    with pytest.raises(sd.TraceError, match=r"test_cupy.py:\d+: cupy.asnumpy of a traced value has no counterpart in NumPy"):
        sd.derivative(lambda x: cp.asnumpy(x))(1.0)


def scaled(x, a):
    return np.sum(x) * a


@pytest.mark.parametrize("x", [4, 3000], ids=["point", "whole array"])
@pytest.mark.parametrize(
    "given", [None, "3", 2 + 1j, np.complex64(2 + 1j), np.array([1.0, 2.0]), np.str_("3"), [1.0]], ids=repr
)
def test_what_is_no_number_is_refused_by_files(cp, given, x):
    space = {}
    exec(sd.grad(scaled).source(np.ones(x), 2.0, target="cupy"), space)
    array = cp.asarray(np.ones(x))
    for number in (3, 3.0, True, np.float32(3), np.int8(3), np.array(3.0)):
        assert space["scaled_grad"](array, number).get()[0] == float(number)
    with pytest.raises(TypeError, match=r"^a is .*; a number of float64 is expected"):
        space["scaled_grad"](array, given)
    with pytest.raises(TypeError, match=r"^a is a CuPy array; a number of the host"):
        space["scaled_grad"](array, cp.asarray(np.array(3.0)))


# -- whole arrays


@pytest.mark.parametrize("f", test_array_programs.PROGRAMS, ids=lambda f: f.__name__)
def test_programs_of_whole_arrays(cp, f):
    args = test_array_programs.PROGRAMS[f]
    _, allocations = agree(cp, sd.value_and_grad(f, tuple(range(len(args)))), *args, rtol=1e-11)
    # What CuPy makes itself: linear algebra and convolutions take no `out`.
    makes = {"gaussian_process": 14, "convolution": 3}
    assert allocations <= makes.get(f.__name__, 0), counters.names


def test_a_layer_with_bias_is_one_kernel_between_two_products(cp):
    f = sd.value_and_grad(g.layer, (0, 1))
    args = RNG.standard_normal((60, 50)) / 8, RNG.standard_normal((60, 1)), RNG.standard_normal((50, 70))
    assert agree(cp, f, *args) == (4, 0)
    assert counters.names == ["matmul", "layer_grad_kernel0", "layer_grad_sum_rows_d", "matmul"]


EDGES = next(m.args[1] for m in test_array_plans.test_edge_shapes.pytestmark if m.name == "parametrize")


@pytest.mark.parametrize(("h", "args"), EDGES)
def test_edge_shapes(cp, h, args):
    agree(cp, Plain(h, scalarize=False), *args)
    agree(cp, sd.grad(lambda *a: np.sum(np.sin(h(*a))), tuple(range(len(args))), scalarize=False), *args)


KINKS = next(m.args[1] for m in test_array_plans.test_kinks.pytestmark if m.name == "parametrize")


@pytest.mark.parametrize(("f", "x", "expected"), KINKS)
def test_kinks(cp, f, x, expected):
    found = sd.grad(f, scalarize=False)(cp.asarray(np.array(x, dtype=float)))
    np.testing.assert_allclose(found.get(), expected, atol=1e-15)


REGIONS = next(m.args[1] for m in test_array_plans.test_one_value_added_to_several_regions.pytestmark if m.args[0] == "h")


@pytest.mark.parametrize("h", REGIONS)
def test_one_value_added_to_several_regions(cp, h):
    agree(cp, sd.value_and_grad(lambda x: np.sum(h(x)), scalarize=False), RNG.standard_normal((100, 3)))


def heat(u):
    inside = u[1:-1] + 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
    return np.sum(np.sin(inside) ** 2)


def apart(x):
    return np.sum(np.sin(x[:3]) * x[-3:]) + np.sum(np.cos(x[1:4]) * x[2:5])


def turned(x):
    return np.sum(np.sin(x[::-1, 1:]) * x[:, :-1]) + np.sum(np.cos(x[1::2] * x[:-1:2]))


def test_parts_of_an_array_are_added_cell_by_cell_in_one_launch(cp):
    f = sd.grad(heat, scalarize=False)
    assert agree(cp, f, RNG.standard_normal(1000)) == (2, 0)
    assert counters.names == ["fill", "heat_grad_kernel0"]
    text = f.source(np.ones(1000), target="cupy")
    assert "// 1000 cells, to which 3 parts are added." in text
    assert "1000 cells, to which" not in sd.grad(apart, scalarize=False).source(np.ones(1000), target="cupy")
    agree(cp, sd.grad(apart, scalarize=False), RNG.standard_normal(1000))
    agree(cp, sd.grad(turned, scalarize=False), RNG.standard_normal((40, 30)))
    for shape in ((1000,), (30, 40), (5, 6, 7)):
        agree(cp, sd.grad(heat, scalarize=False), RNG.standard_normal(shape))
    agree(cp, sd.value_and_grad(lambda u: heat(u) + heat(u * u), scalarize=False), RNG.standard_normal((30, 40)))


def sums(x):
    s = np.sin(x)
    return [np.sum(s, 0), np.sum(s, 1), np.sum(s), np.sum(np.cos(x), tuple(range(x.ndim - 1))), np.cos(x), np.sum(x * s, -1)]


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [(s, "float64") for s in [(5, 6, 7), (1, 9), (9, 1), (4, 3000), (70, 100, 2), (120, 70)]]
    + [((3000, 4), "float32"), ((30, 40), "complex128")],
)
def test_sums_along_any_axes(cp, shape, dtype):
    x = RNG.standard_normal(shape).astype(dtype) * (1 + 0.5j if dtype == "complex128" else 1)
    _, allocations = agree(cp, Plain(sums, scalarize=False), x, rtol=1e-12 if dtype != "float32" else 1e-4)
    assert allocations == 0


@pytest.mark.parametrize("scalarize", [True, False])
def test_precisions_mix(cp, scalarize):
    x = RNG.standard_normal((4, 5))
    single = (x + 1j * x).astype(np.complex64)
    f = Plain(lambda a, b: [a * b + np.conj(a), b - a, np.where(b > 0, a, b)], scalarize=scalarize)
    agree(cp, f, single, x, rtol=1e-6)
    agree(cp, f, x.astype(np.float32), x, rtol=1e-6)
    agree(cp, Plain(lambda a, b: [a * b, a / b, a == b], scalarize=scalarize), single, x + 1j, rtol=1e-6)


def test_linear_algebra_and_transforms_of_it(cp):
    A = RNG.standard_normal((4, 4)) + 3 * np.eye(4)
    for f in (np.linalg.det, lambda A: np.sum(np.linalg.inv(A)), lambda A: np.linalg.slogdet(A)[1],
              lambda A: np.sum(np.linalg.eigh(A + A.T)[0] ** 2), lambda A: np.sum(np.linalg.solve(A, A.T))):  # fmt: skip
        agree(cp, sd.value_and_grad(f, scalarize=False), A, rtol=1e-10)
    agree(cp, sd.hessian(test_array_plans.rosenbrock, scalarize=False), RNG.standard_normal(20))
    agree(cp, sd.vmap(sd.grad(lambda x: np.sum(np.sin(x)) ** 2, scalarize=False)), A)
    agree(cp, sd.wirtinger(lambda z: np.sum(np.abs(z) ** 2), scalarize=False), A[0] + 1j * A[1])
    agree(cp, sd.grad(lambda x, r: np.sum(np.sin(x) * r) * r, (0, 1), scalarize=False), A, 0.3)
    agree(cp, sd.derivative(lambda x: np.sum(np.sin(x * np.arange(300.0)))), np.linspace(0, 1, 6))


def test_results_are_never_shared_and_outputs_may_overlap_arguments(cp):
    f = sd.grad(test_array_plans.rosenbrock, scalarize=False)
    x = RNG.standard_normal(500)
    device = cp.asarray(x)
    first = f(device)
    kept = first.get()
    f(cp.asarray(x + 1))
    np.testing.assert_array_equal(first.get(), kept)
    scattered = cp.empty((500, 2))[:, 1]
    f(device, out=scattered)
    np.testing.assert_array_equal(scattered.get(), kept)
    f(device, out=device)
    np.testing.assert_array_equal(device.get(), kept)


def test_every_thread_device_and_stream_has_work_arrays_of_its_own(cp, monkeypatch):
    f = sd.value_and_grad(g.layer, (0, 1))
    host = [RNG.standard_normal(shape) for shape in ((50, 60), (50, 1), (60, 70))]
    args = moved(cp, host)
    fresh = []

    def called():
        before = counters.allocations
        f(*args)
        fresh.append(counters.allocations - before)

    called()
    called()
    monkeypatch.setattr(cupy_standin.Stream, "now", 7)
    called()
    monkeypatch.setattr(cupy_standin.Device, "now", 1)
    args[:] = moved(cp, host)
    called()
    called()
    thread = threading.Thread(target=called)
    thread.start()
    thread.join()
    assert fresh[1] == fresh[4] == 3 and fresh[0] == fresh[2] == fresh[3] == fresh[5] > 3


# -- files


def test_exported_files_need_cupy_only(cp, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "symdiff", None)
    W, b, X = RNG.standard_normal((40, 30)), RNG.standard_normal((40, 1)), RNG.standard_normal((30, 20))
    points = RNG.standard_normal((60, 3)) + 2
    for f, args in (
        (sd.value_and_grad(g.layer, (0, 1)), (W, b, X)),
        (sd.vmap(sd.value_and_grad(cubic)), (points,)),
        (sd.grad(cubic), (points[0],)),
        (sd.grad(test_array_programs.embedding), test_array_programs.PROGRAMS[test_array_programs.embedding]),
    ):
        path = tmp_path / "made.py"
        with monkeypatch.context() as restored:
            restored.delitem(sys.modules, "symdiff")
            f.export(path, *args, target="cupy")
            wanted = structures.leaves(f(*args))
        names = {}
        exec(path.read_text(), names)
        assert "Needs CuPy only" in path.read_text() and "numpy" not in path.read_text()
        made = next(v for k, v in names.items() if k.endswith("_grad"))
        found = structures.leaves(made(*moved(cp, args)))
        for a, b_ in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a.get(), b_, rtol=1e-11, atol=1e-11)
        with pytest.raises(TypeError, match="a CuPy array is needed"):
            made(*args)
        with pytest.raises(ValueError, match=r"expected"):
            made(*(a[..., :-1] for a in moved(cp, args)))
        with pytest.raises(ValueError, match=r"complex128 .* float64 .* expected"):
            made(*(a.astype(complex) for a in moved(cp, args)))


def test_exact_programs_are_compiled_without_contraction(cp):
    text = sd.grad(cubic, exact=True).source(np.ones(3), target="cupy")
    assert '("--fmad=false",)' in text
    assert "fmad" not in sd.grad(cubic).source(np.ones(3), target="cupy")
    layer = sd.grad(g.layer, exact=True).source(np.ones((256, 512)), np.ones((256, 1)), np.ones((512, 128)), target="cupy")
    assert '("--fmad=false",)' in layer


def test_the_command_line_writes_whole_arrays(tmp_path):
    module = tmp_path / "demo.py"
    module.write_text("import numpy as np\n\n\ndef f(x):\n    return np.sum(np.sin(x) * x)\n")
    made = tmp_path / "f_grad.py"
    assert main(["export", f"{module}:f", "--arg", "x=5000", "--target", "cupy", "-o", str(made)]) == 0
    assert "cp.RawKernel" in made.read_text()
    assert main(["check", str(made)]) == 0


# -- the benchmark


def test_the_benchmark_command_says_where_there_is_no_gpu(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "cupy", None)
    monkeypatch.setattr(sys, "argv", ["gpu"])
    monkeypatch.setattr(gpu.importlib.util, "find_spec", lambda name: None)
    assert gpu.main() == 2
    assert "Nothing was measured" in capsys.readouterr().err


def test_the_benchmark_writes_its_tables(cp, monkeypatch, tmp_path):
    monkeypatch.setattr(gpu, "_jax", lambda: None)
    monkeypatch.setattr(gpu, "_torch", lambda: None)
    monkeypatch.setattr(sys, "argv", ["gpu", "--points", "2000", "--size", "30", "--rounds", "2", "-o", str(tmp_path / "t.md")])
    assert gpu.main() == 0
    text = (tmp_path / "t.md").read_text()
    assert "stand-in, 8 GiB; CUDA 13.0" in text and text.count("\n| --- |") == 4 and text.count("| symdiff, out= given |") == 4


def test_the_benchmark_takes_other_packages(cp, monkeypatch):
    """JAX's words, spoken by symdiff."""
    numpy = types.SimpleNamespace(exp=np.exp, sum=np.sum, tanh=np.tanh)
    derived = {"grad": sd.grad, "vmap": sd.vmap, "value_and_grad": sd.value_and_grad, "numpy": numpy}
    same = {"jit": lambda f: f, "block_until_ready": lambda found: found}
    dlpack = types.SimpleNamespace(from_dlpack=lambda a: a.host)
    monkeypatch.setattr(gpu, "_jax", lambda: types.SimpleNamespace(dlpack=dlpack, **derived, **same))
    monkeypatch.setattr(gpu, "_torch", lambda: types.SimpleNamespace(__spec__=None))
    text = gpu.document(1000, 1, 20)
    assert text.count("| JAX, jit(") == 4 and text.count("Left out: PyTorch (AttributeError: ") == 4


# -- what is for a GPU runs with the stand-in, too


globals().update({f"test_on_gpu_{k.removeprefix('test_')}": f for k, f in vars(test_gpu).items() if k.startswith("test_")})


# -- the stand-in


@pytest.mark.skipif(importlib.util.find_spec("cupy") is None, reason="CuPy is not installed")
def test_the_stand_in_has_cupys_signatures():
    cupy = importlib.import_module("cupy")
    for home, known in ((cupy, cupy_standin.KNOWN), (cupy.linalg, vars(cupy_standin.linalg))):
        for name, function in known.items():
            if hasattr(function, "__signature__"):
                own = list(function.__signature__.parameters.values())
                theirs = list(inspect.signature(getattr(home, name)).parameters.values())
                assert [(p.name, p.kind, p.default) for p in own] == [(p.name, p.kind, p.default) for p in theirs], name
    for name in ("empty", "asarray", "array", "ascontiguousarray", "empty_like", "may_share_memory", "broadcast_to", "reshape",
                 "copyto", "diagonal", "put_along_axis", "asnumpy"):  # fmt: skip
        own, theirs = (inspect.signature(getattr(home, name)).parameters for home in (cupy_standin, cupy))
        assert [(p.name, p.kind) for p in own.values()] == [(p.name, p.kind) for p in theirs.values()], name
    public = [name for name in vars(cupy_standin.ndarray) if not name.startswith("_") and name not in ("host", "device_id")]
    assert all(hasattr(cupy.ndarray, name) for name in public)
    for kind in ("Device", "Stream", "Event", "MemoryHook", "MemoryPool"):
        own = [name for name in vars(getattr(cupy_standin, kind)) if not name.startswith("_") and name != "now"]
        assert all(hasattr(getattr(cupy.cuda, kind), name) for name in own), kind


def pendulum(p):
    angle, speed = p[0], p[1]
    for _ in range(400):
        angle, speed = angle + 0.01 * speed, speed - 0.01 * np.sin(angle) * p[2]
    return angle


def approached(a):
    x = 1.0 + a
    while abs(x * x - a) > 1e-12 * a:
        x = 0.5 * (x + a / x)
    return x


def history(x):
    found = np.zeros(300)
    for k in range(300):
        found[k] = x
        x = 3.6 * x * (1.0 - x)
    return np.sum(found**2) * 1e-3


def test_each_point_of_a_device_has_rounds_of_its_own(cp):
    points = RNG.uniform(0.2, 0.8, (40, 3))
    for axis in (0, -1):
        given = points if axis == 0 else np.ascontiguousarray(points.T)
        agree(cp, sd.vmap(sd.value_and_grad(pendulum), in_axes=axis), given)
    agree(cp, sd.vmap(sd.jvp(pendulum), in_axes=0), points, points[::-1].copy())
    agree(cp, sd.vmap(sd.grad(history)), points[:, 0].copy(), rtol=1e-9)
    agree(cp, sd.vmap(lambda x: approached(x)), points[:, 0].copy())
    df = sd.vmap(sd.grad(pendulum))
    text = df.source(cp.asarray(points), target="cupy")
    assert "for (long k" in text and len(text.splitlines()) < 200
    space = {}
    exec(text, space)
    np.testing.assert_allclose(space["pendulum_grad"](cp.asarray(points)).get(), df(points), 1e-12)


def test_rounds_that_are_counted_back_are_written_out_on_a_device(cp):
    with pytest.raises(sd.TraceError, match="more than 64 paths"):  # their number is known at the call only
        sd.vmap(sd.grad(approached))(cp.asarray(np.array([1.0, 2.0])))
