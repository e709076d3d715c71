"""CUDA source: compiled for GPUs where a compiler is, and as plain C++ run on the CPU against the numpy target."""

import ctypes
import ctypes.util
import importlib.util
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import cuda_on_cpu
import golden_functions as g
import numpy as np
import pytest
import random_programs
from inside import Plain, kernel_of, lacking_in_cuda, main, plan_of, point_kernel, program_of, wide_kernel

import symdiff as sd

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks import problems

needs_compiler = pytest.mark.skipif(cuda_on_cpu.COMPILER is None, reason="no C++ compiler (g++ or clang++) here")
NVCC = shutil.which("nvcc")
RNG = np.random.default_rng(7)


def on_cpu(program, axis, x, y):
    """The results of the kernel over points, run on the CPU; arrays with gaps between their numbers."""
    plan = plan_of(program, "batch", (axis, axis), (axis,) * len(program.outputs))
    code, name = point_kernel(plan, program.name, frozenset())
    n = len(x)
    given = [spread(x), spread(y if axis == 0 else y.T)]
    shapes = [(n, *o.shape) if axis == 0 else (*o.shape, n) for o in program.outputs]
    results = [spread(np.full(s, 7, o.dtype)) for s, o in zip(shapes, program.outputs, strict=True)]
    args = [part for a in (*given, *results) for part in strided(a, axis)]
    cuda_on_cpu.launch(code, name, (2,), (8,), [*args, n])
    return code, results


def spread(a):
    room = np.empty((*a.shape[:-1], 2 * a.shape[-1] + 1), a.dtype)
    room[...] = 3
    view = room[..., 1::2]
    view[...] = a
    return view


def strided(a, axis):
    steps = [s // a.itemsize for s in a.strides]
    return [a, steps[axis], *(steps[1:] if axis == 0 else steps[:-1])]


@needs_compiler
@pytest.mark.parametrize("code", ["d", "f", "D", "F"])
@pytest.mark.parametrize("seed", range(6))
def test_random_programs_agree_with_numpy_within_a_running_error_bound(code, seed):
    program = random_programs.random_program(seed, code)
    x, y = random_programs.points(RNG, code)
    values = random_programs.values_and_bounds(program, x, y)
    plan = plan_of(program, "batch", (0, 0), (0,) * len(program.outputs))
    expected = kernel_of(plan, "numpy", "made")(x, y)
    checked = cells = 0
    for axis in (0, -1):
        _, results = on_cpu(program, axis, x, y)
        for output, result, wanted in zip(program.outputs, results, expected, strict=True):
            for k, cell in enumerate(output.cells):
                own = result if output.shape == () else result[:, k] if axis == 0 else result[k]
                other = wanted if output.shape == () else wanted[:, k]
                bound = 2 * values[cell][1] + np.finfo(own.dtype).tiny
                with np.errstate(invalid="ignore", over="ignore"):
                    sure = np.isfinite(other) & (bound < 1e-2 * np.abs(other))
                    assert np.all(np.abs(own - other)[sure] <= bound[sure]), (code, seed, output.name)
                cells += len(sure)
                checked += np.count_nonzero(sure)
    assert checked > cells / 2


@needs_compiler
@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("code", ["d", "f", "D", "F"])
def test_wide_accesses_change_no_bit(code, axis):
    program = random_programs.random_program(3, code, 16)
    given = [np.tile(a, (7,) + (1,) * (a.ndim - 1)) for a in random_programs.points(RNG, code)]
    for n in (204, 31, 1) if axis == 0 else (204, 4):
        x, y = given[0][:n], given[1][:n] if axis == 0 else np.ascontiguousarray(given[1][:n].T)
        plan = plan_of(program, "batch", (axis, axis), (axis,) * len(program.outputs))
        text, name = point_kernel(plan, program.name, frozenset())
        wide = wide_kernel(plan, program.name, frozenset())
        found = []
        for kernel in (name, wide.kernel):
            shapes = [(n, *o.shape) if axis == 0 else (*o.shape, n) for o in program.outputs]
            results = [np.full(s, 7, o.dtype) for s, o in zip(shapes, program.outputs, strict=True)]
            args = [strided(a, axis) for a in (x, y, *results)]
            if kernel == wide.kernel:
                args = [part[:1] + part[len(part) - keep :] for part, keep in zip(args, wide.passed, strict=True)]
            block = 8 if kernel == name else wide.block
            cuda_on_cpu.launch(text + wide.text, kernel, (2,), (block,), [*(p for part in args for p in part), n])
            found.append(results)
        for a, b in zip(*found, strict=True):
            np.testing.assert_array_equal(a, b)


@needs_compiler
def test_a_reciprocal_serves_all_divisions_by_a_number_that_is_never_small():
    def bell(x):
        return 1 / (1 + x * x)

    both = sd.vmap(sd.value_and_grad(bell))
    x = np.array([-np.inf, -800, -745, -710, -709.5, -700, -30, -1, -0.0, 0, 1e-320, 0.5, 40, 708, 800, np.inf, np.nan])
    text = both.source(x, target="cupy").partition('r"""')[2].partition('"""')[0]
    assert text.partition("bell_value_and_grad_points")[0].count(" / ") == 1
    found = np.empty(len(x)), np.empty(len(x))
    args = [part for a in (x, *found) for part in (a, 1)]
    cuda_on_cpu.launch(text, "bell_value_and_grad_points", (1,), (32,), [*args, len(x)])
    with np.errstate(all="ignore"):
        for a, b in zip(found, both(x), strict=True):
            np.testing.assert_allclose(a, b, rtol=6 * np.finfo(float).eps, atol=5e-324)
    exact = sd.vmap(sd.value_and_grad(bell, exact=True)).source(x, target="cupy")
    assert exact.partition("bell_value_and_grad_points")[0].count(" / ") == 2

    def small(x, y):
        return [1 / x, y / x, 1 / (x * x + 1), y / (x * x + 1)]

    text = Plain(small).source(1.0, 1.0, target="cupy").partition("extern")[0]
    assert text.count(" / ") == 3 and "y / x" in text


def everything(x, y):
    a = np.maximum(x, y) + np.minimum(x, 2.0) * np.sign(y) - np.remainder(x, y) + np.floor_divide(x, y)
    b = np.where((x > y) | ~(x < 1.0), np.logaddexp(x, y), np.logaddexp2(x, y)) + np.hypot(x, y) * np.arctan2(y, x)
    c = np.exp(-x) + np.log1p(np.abs(y)) + np.sqrt(np.abs(x)) + np.cbrt(y) + np.tanh(x) + np.power(np.abs(x), y)
    d = np.frexp(x)[0] + np.frexp(y)[1] + np.fmod(x, y) + np.copysign(x, y) + np.nextafter(x, y)
    return [a, b, c, d, np.floor(x) + np.rint(y), np.where(np.isfinite(x), 1.0, np.inf), np.where(np.isnan(x), np.nan, x)]


SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 1e300, -1e-310, np.inf, -np.inf, np.nan]


@needs_compiler
@pytest.mark.parametrize("code", ["d", "f"])
def test_signed_zeros_infinities_and_nan(code):
    x, y = (a.ravel().astype(code) for a in np.meshgrid(SPECIAL[:6] + SPECIAL[8:], SPECIAL[:6] + SPECIAL[8:]))
    program = Plain(everything).program(x[0], y[0])
    plan = plan_of(program, "batch", (0, 0), (0,) * 7)
    code_text, name = point_kernel(plan, "everything", frozenset())
    results = [np.empty(len(x), o.dtype) for o in program.outputs]
    cuda_on_cpu.launch(code_text, name, (1,), (32,), [part for a in (x, y, *results) for part in (a, 1)] + [len(x)])
    eps = np.finfo(code).eps
    with np.errstate(all="ignore"):  # NumPy's float32 functions differ by some units from one processor to another
        wanted = everything(x.astype(float), y.astype(float))
        wanted[3] = everything(x, y)[3]  # exact functions, but for the neighbours of a number
    for result, value in zip(results, wanted, strict=True):
        np.testing.assert_allclose(result, value, rtol=4 * eps, atol=32 * eps)


ONE = "exp exp2 expm1 log log1p log2 log10 sqrt sin cos tan sinh cosh tanh arcsin arccos arctan arcsinh arccosh arctanh".split()


@needs_compiler
@pytest.mark.parametrize("code", ["D", "F"])
def test_complex_functions_on_both_sides_of_their_branch_cuts(code):
    line = np.array([-3.7, -1.5, -1.0, -0.6, -1e-3, -0.0, 0.0, 1e-3, 0.4, 1.0, 2.5, 30.0])
    z = (line[:, None] + 1j * line[None, :]).ravel()
    z.real, z.imag = np.repeat(line, len(line)), np.tile(line, len(line))  # signs of zeros kept
    near = np.exp(1j * np.linspace(0, 6, 20)) * (1 + np.linspace(-1e-9, 1e-9, 20))
    z = np.concatenate([z, near]).astype(code)
    program = Plain(lambda z: [getattr(np, name)(z) for name in ONE]).program(z[0])
    plan = plan_of(program, "batch", (0,), (0,) * len(ONE))
    text, kernel = point_kernel(plan, "f", frozenset())
    results = [np.empty(len(z), code) for _ in ONE]
    cuda_on_cpu.launch(text, kernel, (1,), (64,), [part for a in (z, *results) for part in (a, 1)] + [len(z)])
    with np.errstate(all="ignore"):
        for name, result in zip(ONE, results, strict=True):
            wanted = getattr(np, name)(z.astype("D"))
            fine = np.isfinite(wanted) & np.isfinite(wanted.astype(code))
            least = 1.0 if name == "log1p" else np.finfo(code).tiny  # NumPy's own takes the logarithm of 1 + z
            scale = np.maximum(np.abs(wanted[fine]), least)
            assert np.max(np.abs(result[fine] - wanted[fine]) / scale) < 40 * np.finfo(code).eps, name


SPECIAL_FUNCTIONS = {
    "erf gammaln psi expit ndtr log_ndtr rgamma gamma log_expit i0 i1 i0e i1e exprel cosm1 erfcx": (-20, 20),
    "loggamma exp1 k0 k0e k1 k1e": (0, 1.5),
    "loggamma exp1 k0 k0e k1 k1e i0e i1e": (1, 200),
}


@needs_compiler
@pytest.mark.parametrize("names", SPECIAL_FUNCTIONS)
def test_special_functions(names):
    special = pytest.importorskip("scipy.special")

    def f(x):
        return [getattr(special, name)(x) for name in names.split()]

    x = np.concatenate([RNG.uniform(*SPECIAL_FUNCTIONS[names], 300), [1e-8, 0.5, 1.0, 0.999, 1.001, 2.0, 50.0, 600.0]])
    check_special(f, names.split(), x)


@needs_compiler
def test_special_functions_of_two_numbers():
    special = pytest.importorskip("scipy.special")
    names = "xlogy xlog1py beta betaln zeta polygamma-1 polygamma-2 polygamma-7".split()

    def f(x, y, z):
        found = [special.xlogy(x, y), special.xlog1py(x, y), special.beta(x, y), special.betaln(x, y), special.zeta(x + 1, y)]
        return [*found, *(special.polygamma(n, z) for n in (1, 2, 7))]

    x, y = RNG.uniform(0.01, 30, (2, 300))
    check_special(f, names, x, y, RNG.uniform(-3, 27, 300))  # numbers of its own: next to poles a rounded y - 3.0 is another


def check_special(f, names, *args):
    """Values within a few units in the last place of their own size, or of 1 near the zeros of some."""
    program = Plain(f).program(*(a[0] for a in args))
    for code, tolerance in (("d", 4e-13), ("f", 1e-4)):
        given = [a.astype(code) for a in args]
        program = Plain(f).program(*(a[0] for a in given))
        plan = plan_of(program, "batch", (0,) * len(args), (0,) * len(names))
        text, kernel = point_kernel(plan, "f", frozenset())
        results = [np.empty(len(args[0]), o.dtype) for o in program.outputs]
        passed = [part for a in (*given, *results) for part in (a, 1)]
        cuda_on_cpu.launch(text, kernel, (1,), (64,), [*passed, len(args[0])])
        with np.errstate(all="ignore"):
            for name, result, wanted in zip(names, results, f(*(a.astype(float) for a in given)), strict=True):
                size, limits = np.abs(wanted), np.finfo(code)
                fine = (size < limits.max / 1e3) & (size > limits.tiny * 1e3)
                near = {"psi": 1.0, "gammaln": 1.0, "betaln": 1.0, "loggamma": 1.0, "cosm1": 1e-3}.get(name, 0.0)
                scale = np.maximum(size[fine], near)
                error = np.abs(result[fine] - wanted[fine]) / scale
                assert np.max(error) <= tolerance, (name, code, args[0][fine][np.argmax(error)])


def sources():
    """CUDA source of many kinds: every operation, complex functions, sums of whole arrays."""
    x = np.ones(3)
    plans = [
        plan_of(Plain(everything).program(1.0, 1.0), "batch", (0, 0), (0,) * 7),
        plan_of(Plain(everything).program(np.float32(1), np.float32(1)), "batch", (0, 0), (0,) * 7),
        plan_of(Plain(lambda z: [getattr(np, n)(z) for n in ONE]).program(1j), "batch", (0,), (0,) * len(ONE)),
        plan_of(Plain(lambda z, w: [z * w + 1, w / z, 2.0 * z**w]).program(1j, np.complex64(1j)), "batch", (0, -1), (0,) * 3),
        plan_of(sd.jacobian(lambda p: np.array([p[0] * np.exp(p[1]), p[2]])).program(x), "batch", (0,), (-1,)),
    ]
    wide = [wide_kernel(plan, "made", frozenset()) for plan in plans]
    assert [w is not None for w in wide] == [True, True, False, True, True]  # 31 complex functions take their time
    texts = [point_kernel(plan, "made", frozenset())[0] + (w.text if w else "") for plan, w in zip(plans, wide, strict=True)]
    whole = sd.value_and_grad(g.layer, (0, 1)).source(
        np.ones((256, 512)), np.ones((256, 1)), np.ones((512, 128)), target="cupy"
    )
    squares = Plain(lambda z: [np.sum(z * np.exp(z), axis=0), np.sum(z * z)], scalarize=False)
    more = squares.source(np.ones((3000, 7), complex), target="cupy")
    points = sd.vmap(sd.value_and_grad(lambda x: x[0] * np.exp(x[1] * x[2]))).source(np.ones((4, 3)), target="cupy")
    if importlib.util.find_spec("scipy"):
        from scipy import special

        names = "erf psi expit log_ndtr rgamma i0e i1e exprel cosm1 loggamma exp1 k0 k0e k1 k1e erfinv ndtri j0 y1".split()
        many = Plain(lambda x: [*(getattr(special, name)(x) for name in names), special.polygamma(2, x), special.beta(x, x)])
        for number in (1.0, np.float32(1)):
            plan = plan_of(many.program(number), "batch", (0,), (0,) * (len(names) + 2))
            texts.append(point_kernel(plan, "made", frozenset())[0])
    return [*texts, *(text.partition('r"""')[2].partition('"""')[0] for text in (whole, more, points))]


def kernels_of_ptx(text):
    """The global and local accesses of each kernel of PTX."""
    accesses = re.compile(r"\b((?:ld|st)\.(?:global|local)[.\w]*)")
    parts = text.split(".visible .entry ")[1:]
    return {part.partition("(")[0].strip(): Counter(accesses.findall(part)) for part in parts}


@pytest.mark.skipif(NVCC is None, reason="no nvcc here")
def test_kernels_over_points_that_lie_together_move_16_bytes_at_a_time(tmp_path):
    x = np.ones((8, 16))
    for name, function, arg, loads, stores in (
        ("cubic_grad_pieces", sd.vmap(sd.grad(problems.cubic), in_axes=-1), x, 8, 8),
        ("logistic_value_and_grad_pieces", sd.vmap(sd.value_and_grad(problems.logistic)), x[0], 1, 2),
        ("chebyshev_grad_leaves_pieces", sd.vmap(sd.grad(problems.chebyshev)), x[0].astype(complex), 1, 1),
        ("cubic_grad_rows", sd.vmap(sd.grad(problems.cubic)), x.T.copy(), 4, 4),
    ):
        source = tmp_path / "made.cu"
        source.write_text(function.source(arg, target="cupy").partition('r"""')[2].partition('"""')[0])
        keep = ["-keep", "-keep-dir", str(tmp_path)]
        command = [NVCC, "-arch=sm_90", "-cubin", "-Xptxas", "-v", *keep, str(source), "-o", f"{source}.cubin"]
        compiled = subprocess.run(command, capture_output=True, text=True, check=False)
        assert compiled.returncode == 0, compiled.stderr
        counts = kernels_of_ptx((tmp_path / "made.ptx").read_text())[name]
        last = {"ld.global.nc.f64": 1, "st.global.f64": 1} if "rows" in name else {}  # what fills no warp, in a loop
        assert counts == {"ld.global.nc.v4.u32": loads, "st.global.cs.v4.s32": stores, **last}, (name, arg.dtype)
        report = compiled.stderr.partition(f"'{name}'")[2].partition("Compile time")[0]
        assert "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads" in report
        assert int(re.search(r"Used (\d+) registers", report)[1]) <= 64, report


@pytest.mark.skipif(NVCC is None, reason="no nvcc here")
def test_nvcc_compiles_it_for_several_architectures(tmp_path):
    architectures = [part for n in (75, 90) for part in ("-gencode", f"arch=compute_{n},code=compute_{n}")]
    for k, text in enumerate(sources()):
        source = tmp_path / f"made{k}.cu"
        source.write_text(text)
        command = [NVCC, *architectures, "-fatbin", "-Werror", "all-warnings", str(source), "-o", f"{source}.fatbin"]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr + text


def run_time_compiler():
    """NVRTC as a library, from the CUDA toolkit or from NVIDIA's package; None without."""
    places = [ctypes.util.find_library("nvrtc")]
    if NVCC:
        places += map(str, Path(NVCC).resolve().parents[1].glob("lib*/libnvrtc.so"))
        places += map(str, Path("/usr/local").glob("cuda*/lib64/libnvrtc.so"))
    if importlib.util.find_spec("nvidia"):
        for folder in importlib.util.find_spec("nvidia").submodule_search_locations:
            places += map(str, Path(folder).glob("c*/lib/libnvrtc.so.*"))
    return next((ctypes.CDLL(p) for p in places if p), None)


@pytest.mark.parametrize("architecture", ["compute_75", "compute_80", "compute_90"])
def test_the_run_time_compiler_compiles_it(architecture):
    library = run_time_compiler()
    if library is None:
        pytest.skip("no libnvrtc here; pip install nvidia-cuda-nvrtc brings it, without a GPU")
    for text in sources():
        program, size = ctypes.c_void_p(), ctypes.c_size_t()
        assert library.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"made.cu", 0, None, None) == 0
        options = (ctypes.c_char_p * 2)(f"-arch={architecture}".encode(), b"-std=c++14")
        status = library.nvrtcCompileProgram(program, 2, options)
        library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        library.nvrtcGetProgramLog(program, log)
        assert status == 0 and not log.value.strip(), log.value.decode() + text


@needs_compiler
def test_header_files_stand_together(tmp_path):
    """Two exported functions, and a third of ours that calls them, in one file."""
    for name, function, args in (
        ("one.cuh", sd.derivative(g.rotation, order=2), (1j,)),
        ("two.cuh", sd.wirtinger(lambda z: np.abs(z) ** 2 + np.exp(z)), (1j,)),
        ("three.cuh", sd.grad(g.kinked), (1.0,)),
        ("four.cuh", sd.grad(lambda x: np.sign(x) * np.maximum(x, 1.0)), (1.0,)),
    ):
        function.export(tmp_path / name, *args, target="cuda")
    includes = "\n".join((tmp_path / f"{name}.cuh").read_text() for name in ("one", "two", "three", "four"))
    code = includes.replace("#pragma once", "") + (
        '\nextern "C" __global__ void both(const complex128 *z, complex128 *a, double *b)\n'
        "{\n    rotation_derivative(z[threadIdx.x], &a[threadIdx.x]);\n"
        "    kinked_grad(z[threadIdx.x].re, &b[threadIdx.x]);\n}\n"
    )
    z, a, b = RNG.standard_normal(9) + 1j * RNG.standard_normal(9), np.empty(9, complex), np.empty(9)
    cuda_on_cpu.launch(code, "both", (1,), (9,), [z, a, b])
    np.testing.assert_allclose(a, sd.derivative(g.rotation, order=2)(z), rtol=1e-13)
    np.testing.assert_allclose(b, [sd.grad(g.kinked)(x) for x in z.real], rtol=1e-13)


def swing(q, p, table):
    for k in range(300):
        p = p - 0.01 * np.sin(q) * table[k % 40]
        q = q + 0.01 * p
    return q * q + p * p


def scanned(q, p, table):
    steps = np.cumsum(table**3) * q
    return np.sum(steps * np.flip(table)) + np.max(table) * p + np.sum(np.maximum(table, q))


def turned(q, p, table):
    z = np.exp(1j * table) * q
    return np.abs(np.sum(z * z[::-1])) ** 2 + p


@needs_compiler
@pytest.mark.parametrize("f", [swing, scanned, turned])
def test_header_files_have_loops(f):
    args = 0.3, 0.7, RNG.uniform(0.2, 1.2, size=40)
    df = sd.value_and_grad(f, (0, 1, 2), loops="keep", scalarize=False)
    text = df.source(*args, target="cuda")
    assert "for (long " in text and len(text.splitlines()) < 150
    code = text.replace("#pragma once", "") + (
        '\nextern "C" __global__ void run(double q, double p, const double *t, double *f, double *a, double *b, double *c)\n'
        f"{{\n    {f.__name__}_value_and_grad(q, p, t, f, a, b, c);\n}}\n"
    )
    results = [np.empty(1), np.empty(1), np.empty(1), np.empty(40)]
    cuda_on_cpu.launch(code, "run", (1,), (1,), [*args, *results])
    value, slopes = df(*args)
    for found, expected in zip(results, (value, *slopes), strict=True):
        np.testing.assert_allclose(found, np.reshape(expected, found.shape), 1e-12, 1e-12)


def orbit(q, p, table):
    for k in range(1500):
        q = q + 0.01 * np.sin(p * q) * table[k % 40]
    return q


@pytest.mark.parametrize(
    "f, order, reason", [(swing, 0, ""), (swing, 1, ""), (turned, 1, ""), (orbit, 0, ""), (orbit, 1, "more than 1000 cells")]
)
def test_a_look_at_a_program_tells_whether_there_is_a_device_function(f, order, reason):
    args = 0.3, 0.7, RNG.uniform(0.2, 1.2, size=40)
    graph = sd.grad(f, loops="keep").graph(*args) if order else sd.trace(f, *args, loops="keep")
    found = lacking_in_cuda(program_of(graph, loops=True))
    assert reason in found and bool(reason) == bool(found)


def test_the_command_line_and_refusals(tmp_path):
    module = tmp_path / "demo.py"
    module.write_text("def f(x):\n    return x[0]**2*x[1]\n")
    for target, name in (("cuda", "f_grad.cuh"), ("cupy", "f_grad.py")):
        made = tmp_path / name
        assert main(["export", f"{module}:f", "--arg", "x=2", "--target", target, "-o", str(made)]) == 0
        assert main(["check", str(made)]) == 0
    with pytest.raises(sd.ExportError, match="one point"):
        sd.vmap(sd.grad(g.polynomial)).source(np.ones(4), np.ones(4), target="cuda")
    with pytest.raises(sd.BackendError, match="fft of whole arrays is not part of CUDA's device functions; scalarize=True"):
        sd.grad(lambda x: np.sum(np.abs(np.fft.fft(x)))).source(np.ones(3000), target="cuda")
    with pytest.raises(sd.BackendError, match="an array of 3000 cells within a function"):
        sd.grad(lambda x: np.sum(np.cumsum(x) ** 2)).source(np.ones(3000), target="cuda")
    with pytest.raises(TypeError, match="have no order"):
        Plain(lambda z: np.where(z > 1j, 1.0, 2.0)).source(1j, target="cuda")
    special = pytest.importorskip("scipy.special")
    with pytest.raises(sd.BackendError, match="not part of CUDA's device functions"):
        Plain(lambda x: special.kv(0.5, x)).source(0.3, target="cuda")


@needs_compiler
@pytest.mark.parametrize("turn", [1.0, 1j])
def test_a_large_constant_of_a_device_function_stands_below_it(turn):
    """Complex ones, structures that are made in the function, stand at its beginning."""
    table = (np.linspace(0.1, 0.9, 81) * turn).tolist()

    def walked(x, y):
        for k in range(150):
            x = x + 0.01 * np.sin(y) * abs(table[k * k % 81] + 0.5)
        return x

    df = sd.grad(walked, 1, loops="keep")
    text = df.source(0.1, 0.2, target="cuda").replace("#pragma once", "")
    assert (text.index("cells[] = {") > text.index("cos(y)")) if turn == 1.0 else "cells[]" not in text
    y, found = RNG.uniform(size=5), np.empty(5)
    head = '\nextern "C" __global__ void run(const double *y, double *found)'
    cuda_on_cpu.launch(
        text + head + "\n{\n    walked_grad(0.1, y[threadIdx.x], &found[threadIdx.x]);\n}\n", "run", (1,), (5,), [y, found]
    )
    np.testing.assert_allclose(found, [df(0.1, at) for at in y], rtol=1e-12)
