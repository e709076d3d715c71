"""Special functions in machine code have the bits of SciPy's own."""

import subprocess
import sys
import zlib

import numpy as np
import pytest
from inside import OPS, VECTORS, scipy_kernel

import symdiff as sd

pytest.importorskip("scipy", reason="SciPy's kernels: pip install 'symdiff[special]'")
pytest.importorskip("llvmlite", reason="machine code needs llvmlite: pip install 'symdiff[native]'")
APART = {"zetac", "expn", "hyp0f1"}  # without a derivative; with warnings of SciPy's own at odd points
KERNELS = [name for name in OPS if scipy_kernel(name) and name not in VECTORS]


def in_rounds(op):
    function = OPS[op].function()

    def f(x):
        total = 0.0
        for k in range(40):
            total = 0.5 * total + function(*(0.5 * (j + 1) for j in range(1, OPS[op].arity)), x + 0.01 * k)
        return total

    return f


def test_there_are_kernels():
    assert {"gammaln", "digamma", "jv", "i0e", "betainc", "ellipk", "gammainc", "hyp2f1"} <= set(KERNELS)


@pytest.mark.parametrize("op", sorted({*KERNELS} - APART))
def test_the_bits_are_scipys(op):
    function, arity = OPS[op].function(), OPS[op].arity
    rng = np.random.default_rng(zlib.crc32(op.encode()))
    special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 1e-300, 1e300]
    points = [*rng.normal(0, 3, (40, arity)), *rng.uniform(0, 1, (40, arity)), *rng.choice(special, (40, arity))]
    df = sd.value_and_grad(lambda y, x: y + function(*x))
    for point in points:
        with np.errstate(all="ignore"):
            wanted = np.float64(function(*point))
        found = df(0.0, np.array(point))[0]
        assert found == wanted or (np.isnan(found) and np.isnan(wanted)), point
    assert next(iter(df._compiled.values())).machine is not None


@pytest.mark.parametrize("op", ["gammaln", "i0e", "jv", "betainc"])
def test_loops_of_special_functions_stay_loops_of_machine_code(op):
    f = in_rounds(op)
    df = sd.value_and_grad(f, loops="keep")
    assert df(0.3)[0] == pytest.approx(f(0.3), rel=1e-13)
    assert next(iter(df._compiled.values())).machine is not None
    points = np.array([0.3, 0.4, 0.1])
    np.testing.assert_allclose(sd.vmap(df)(points)[0], [f(p) for p in points], rtol=1e-13)


def test_code_from_the_cache_finds_them_in_another_process(tmp_path):
    (tmp_path / "counted.py").write_text(
        "import numpy as np, symdiff as sd\nfrom scipy import special\n"
        "def f(x):\n    return special.gammaln(x)*special.i1e(x) + special.jv(0.5, x)\n"
        "print(repr(sd.grad(f)(1.25)))\n"
    )
    run = [sys.executable, "counted.py"]
    first, second = (subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=True).stdout for _ in range(2))
    assert first == second != ""
