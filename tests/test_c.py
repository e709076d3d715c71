"""The C target: files compile without a warning and compute what the plain backend computes."""

import ctypes
import itertools
import re
import shutil
import subprocess

import numpy as np
import pytest
from inside import Plain, main

import symdiff as sd

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler (cc, gcc or clang) here")


def compiled(path):
    """The shared library of an exported file, compiled with every warning an error."""
    library = path.with_suffix(".so")
    flags = ["-std=c99", "-O2", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", "-pedantic", "-shared", "-fPIC"]
    result = subprocess.run(
        [COMPILER, *flags, str(path), "-o", str(library), "-lm"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr + path.read_text()
    return ctypes.CDLL(str(library))


def called(path, name, args, shapes, dtype=np.float64, result=None):
    function = getattr(compiled(path), name)
    passed = [
        np.ascontiguousarray(a, dtype=dtype).ctypes.data_as(ctypes.c_void_p)
        if np.ndim(a)
        else (ctypes.c_float if dtype == np.float32 else ctypes.c_double)(a)
        for a in args
    ]
    results = [np.full(shape, np.nan, dtype=result or dtype) for shape in shapes]
    function(*passed, *(r.ctypes.data_as(ctypes.c_void_p) for r in results))
    return results


def cubic(x):
    """A cubic form."""
    return x[0] ** 3 - 3 * x[0] * x[1] ** 2 + x[2] / x[1]


def everything(x, y):
    a = np.maximum(x, y) + np.minimum(x, 2.0) * np.sign(y) - np.remainder(x, y) + np.floor_divide(x, y)
    b = np.where((x > y) | ~(x < 1.0), np.logaddexp(x, y), np.logaddexp2(x, y)) + np.hypot(x, y) * np.arctan2(y, x)
    c = np.exp(-x) + np.log1p(np.abs(y)) + np.sqrt(np.abs(x)) + np.cbrt(y) + np.tanh(x) + np.power(np.abs(x), y)
    return a * b + c + np.floor(x) + np.rint(y) + np.copysign(x, y) + np.where(np.isfinite(x), 1.0, np.inf)


@needs_compiler
def test_real_functions(tmp_path):
    path = tmp_path / "cubic_vg.c"
    x = np.array([0.3, 0.7, -2.0])
    f = sd.value_and_grad(cubic)
    f.export(path, x, target="c")
    value, gradient = called(path, "cubic_value_and_grad", [x], [(), (3,)])
    np.testing.assert_array_equal(value, f(x)[0])
    np.testing.assert_array_equal(gradient, f(x)[1])
    header = path.with_suffix(".h").read_text()
    assert "void cubic_value_and_grad(const double *x" in header and "#ifndef CUBIC_VALUE_AND_GRAD_H" in header
    caller = tmp_path / "caller.c"
    caller.write_text('#include "cubic_vg.h"\n#include "cubic_vg.h"\nint main(void) { return 0; }\n')
    subprocess.run(
        [COMPILER, "-std=c99", "-Wall", "-Werror", str(caller), str(path), "-lm", "-o", str(tmp_path / "run")], check=True
    )


@needs_compiler
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_every_operation(dtype, tmp_path):
    path = tmp_path / "made.c"
    f = Plain(everything, backend="numpy")
    for k, (x, y) in enumerate([(0.7, 1.3), (-2.5, 1.5), (3.0, -0.5), (0.0, 2.0)]):
        path = tmp_path / f"made{k}.c"
        x, y = dtype(x), dtype(y)
        f.export(path, x, y, target="c")
        (found,) = called(path, "everything", [x, y], [()], dtype, f(x, y).dtype)
        np.testing.assert_allclose(found, f(x, y), rtol=1e-13 if dtype == np.float64 else 1e-5)


@needs_compiler
def test_complex_numbers(tmp_path):
    def f(z):
        return z[0] * np.exp(z[1]) + (2 - 1j) * z[1] / z[0]

    z = np.array([1.5 - 0.5j, -0.25 + 2j])
    path = tmp_path / "made.c"
    sd.grad(f).export(path, z, target="c")
    (found,) = called(path, "f_grad", [z], [(2,)], np.complex128)
    np.testing.assert_allclose(found, sd.grad(f)(z), rtol=1e-14)


@needs_compiler
def test_truths_that_are_asked_whether_they_are_finite(tmp_path):
    f = lambda x: np.sum(np.isfinite(x > 0) * x - np.isnan(x > 1))  # noqa: E731
    sd.grad(f).export(tmp_path / "asked.c", np.ones(3), target="c")
    (slope,) = called(tmp_path / "asked.c", "f_grad", [np.array([1.0, -2.0, 3.0])], [(3,)])
    np.testing.assert_array_equal(slope, np.ones(3))


@needs_compiler
def test_booleans_and_reserved_names(tmp_path):
    def branch(int, double):
        return np.where(int > double, int * double, np.where(int != 0.0, double, 1.0))

    path = tmp_path / "made.c"
    sd.grad(branch, (0, 1)).export(path, 1.0, 1.0, target="c")
    for x, y in ((2.0, 1.0), (0.5, 3.0), (0.0, 1.0)):
        found = called(path, "branch_grad", [x, y], [(), ()])
        assert tuple(map(float, found)) == tuple(map(float, sd.grad(branch, (0, 1))(x, y)))


@needs_compiler
def test_error_functions(tmp_path):
    special = pytest.importorskip("scipy.special")
    path = tmp_path / "made.c"

    def tails(x):
        return special.erf(x) * special.erfc(2 * x)

    sd.grad(tails).export(path, 0.3, target="c")
    (found,) = called(path, "tails_grad", [0.3], [()])
    assert float(found) == pytest.approx(float(sd.grad(tails)(0.3)), rel=1e-14)


@needs_compiler
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_what_libm_lacks_has_formulas(tmp_path, dtype):
    special = pytest.importorskip("scipy.special")
    one = [np.sign, special.expit, special.log_expit, special.logit, special.cosm1, special.exprel, special.ndtr]
    two = [np.maximum, np.minimum, np.remainder, np.floor_divide, np.logaddexp, np.logaddexp2, special.xlogy, special.xlog1py]

    def lacking(x, y):
        return [*(f(x) for f in one), *(f(x, y) for f in two)]

    path = tmp_path / "made.c"
    Plain(lacking).export(path, dtype(0.3), dtype(0.4), target="c")
    function, number = compiled(path).lacking, ctypes.c_float if dtype == np.float32 else ctypes.c_double
    found = np.empty(len(one) + len(two), dtype)
    places = [-700.0, -2.5, -0.0, 0.0, 1e-20, 0.3, 0.6, 1.0, 2.5, 80.0, np.inf, -np.inf, np.nan]
    for x, y in itertools.product(map(dtype, places), map(dtype, (-1.5, 0.0, 0.7, 2.5, np.inf, np.nan))):
        function(number(x), number(y), *(ctypes.c_void_p(found[k:].ctypes.data) for k in range(len(found))))
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(found, lacking(x, y), 4 * np.finfo(dtype).eps, np.finfo(dtype).tiny, err_msg=f"{x} {y}")


@needs_compiler
def test_a_path_that_raises_returns_its_number(tmp_path):
    def guarded(x, a):
        norm = np.sqrt(x[0] ** 2 + x[1] ** 2)
        if norm == 0:
            raise ZeroDivisionError("no direction")
        for k in range(2):
            if x[k] < 0:
                raise ValueError(f"negative: {x[k]}")
        return x[0] * a / norm

    path = tmp_path / "made.c"
    df = sd.value_and_grad(guarded)
    df.export(path, np.ones(2), 1.0, target="c")
    header = path.with_suffix(".h").read_text()
    assert "int guarded_value_and_grad(" in header and "3  ValueError: negative: {x[1]}" in header and "Returns 0; or" in header
    function = compiled(path).guarded_value_and_grad
    for point, code in (([3.0, 4.0], 0), ([0.0, 0.0], 1), ([-3.0, -4.0], 2), ([3.0, -4.0], 3)):
        x, value, slopes = np.array(point), np.full((), 7.0), np.full(2, 7.0)
        pointers = [r.ctypes.data_as(ctypes.c_void_p) for r in (x, value, slopes)]
        assert function(pointers[0], ctypes.c_double(2.0), *pointers[1:]) == code
        expected = df(x, 2.0) if code == 0 else (7.0, [7.0, 7.0])
        np.testing.assert_allclose(value, expected[0], rtol=1e-15)
        np.testing.assert_allclose(slopes, expected[1], rtol=1e-15)


def test_refusals_and_the_command_line(tmp_path):
    special = pytest.importorskip("scipy.special")
    with pytest.raises(sd.BackendError, match="libm"):
        sd.grad(lambda x: special.gamma(x)).source(0.3, target="c")
    with pytest.raises(sd.ExportError, match="one point"):
        sd.vmap(sd.grad(cubic)).source(np.ones((4, 3)), target="c")
    with pytest.raises(sd.BackendError, match="fft of whole arrays is not part of C99's libm; scalarize=True"):
        sd.grad(lambda x: np.sum(np.abs(np.fft.fft(x)))).source(np.ones(3000), target="c")
    module = tmp_path / "demo.py"
    module.write_text("def f(x):\n    return x[0]**2*x[1]\n")
    made = tmp_path / "f_grad.c"
    assert main(["export", f"{module}:f", "--arg", "x=2", "--target", "c", "-o", str(made)]) == 0
    assert "df_dx[0] = " in made.read_text() and made.with_suffix(".h").exists()
    assert main(["check", str(made)]) == 0
    module.write_text("def f(x):\n    return x[0]**2*x[1] + x[1]\n")
    assert main(["check", str(made)]) == 1


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs a C compiler")
def test_complex_arguments_that_nothing_reads(tmp_path):
    path = tmp_path / "unread.c"
    sd.grad(lambda x, z: x**2).export(path, 1.3, 1 + 2j, target="c")
    for file in (path, path.with_suffix(".h")):
        command = ["gcc", "-std=c99", "-fsyntax-only", "-Wall", "-Werror", "-x", "c", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


CPP = """
    alignas alignof and_eq asm auto bitand bitor bool case catch char char8_t char16_t char32_t compl concept const consteval
    constexpr constinit const_cast co_await co_return co_yield decltype default delete do double dynamic_cast enum explicit
    export extern false float friend goto inline int long mutable namespace new noexcept not_eq nullptr operator or_eq private
    protected public register reinterpret_cast requires short signed sizeof static static_assert static_cast struct switch
    template this thread_local throw true typedef typeid typename union unsigned using virtual void volatile wchar_t xor xor_eq
""".split()


@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")
def test_headers_are_c_plus_plus_whatever_arguments_are_called(tmp_path):
    f = eval(f"lambda {', '.join(CPP)}: {' + '.join(f'{name}**2' for name in CPP)}")
    sd.grad(f, tuple(range(len(CPP)))).export(tmp_path / "f.c", *np.linspace(0.5, 1.5, len(CPP)), target="c")
    (tmp_path / "use.cpp").write_text('#include "f.h"\n')
    subprocess.run(["g++", "-std=c++20", "-fsyntax-only", "use.cpp"], cwd=tmp_path, check=True)


@pytest.mark.parametrize("target", ["c", "cuda", "cupy"])
def test_a_function_of_empty_arrays_has_a_file(target):
    assert "f_of_nothing_grad" in sd.grad(f_of_nothing).source(np.ones(0), target=target)


def f_of_nothing(x):
    return np.sum(x * x)


def negated(x):
    m = -x
    s = -m[0] * x[1] - -m[1] + 0.2 * np.sum(np.sin(-m))
    return s + np.sum(-m) / (x[0] * x[0] + 1.0) - x[0] / (x[1] * x[1] + 1.0) + x[0] ** -m[1]


def negated_arrays(x):
    y = np.cumsum(np.sin(x))
    z = -y
    return np.sum(np.sin(-z) * y) + np.sum(np.exp(-(z * x) * -1.0))


def negated_in_rounds(x):
    s = x[0]
    for k in range(60):
        t = -s
        s = s + 0.2 * np.sin(-t) * x[k % len(x)]
    return s


@pytest.mark.parametrize("options", [{}, {"exact": True}, {"scalarize": False}, {"loops": "keep"}], ids=str)
@pytest.mark.parametrize("f", [negated, negated_arrays, negated_in_rounds], ids=lambda f: f.__name__)
def test_no_two_signs_meet(f, options):
    """C would decrement what follows them."""
    x = np.linspace(0.4, 0.7, 120 if f is negated_arrays else 3)
    for transform in (sd.value_and_grad, sd.vjp):
        given = (x, 1.0) if transform is sd.vjp else (x,)
        for target in ("c", "python", "numpy"):
            text = transform(f, **options).source(*given, target=target)
            code = [line.split("//")[0].split("#")[0] for line in text.splitlines()]
            assert not any(re.search(r"--[\w(]", line) for line in code if not line.lstrip().startswith("*")), target
