"""Sides of branch cuts: the signs of zeros are those of NumPy's complex arithmetic, which makes real operands complex."""

import numpy as np
import pytest

import symdiff as sd

CUT = {
    "over a number": lambda z: np.log(np.conj(z) / 1.3),
    "times a number": lambda z: np.log(1.3 * np.conj(z)),
    "plus a number": lambda z: np.log(np.conj(z) + 0.3),
    "minus a number": lambda z: np.sqrt(np.conj(z) - 0.3),
    "from a number": lambda z: np.sqrt(-2.5 - z),
    "from a conjugate": lambda z: np.arccos(4.5 + np.conj(z) * 1.3),
    "times minus one": lambda z: np.sqrt(-z * -1.0),
    "over minus one": lambda z: np.sqrt(-z / -1.0),
    "plus zero": lambda z: np.sqrt(np.conj(z) + 0.0),
    "times one": lambda z: np.sqrt(np.conj(-z) * 1.0 * -1.0),
    "over a real value": lambda z: np.arccosh(np.conj(z) / (2.0 + z.real)),
    "times a real value": lambda z: np.power(np.conj(z) * abs(z), 0.5),
    "plus a real value": lambda z: np.arcsin(np.conj(z) * 2 + z.real),
    "scaled twice": lambda z: np.log(2.0 * (np.conj(z) * 3.0) / 1.3),
    "a polynomial": lambda z: np.sqrt(3 * np.conj(z) ** 3 - 2.0 * np.conj(z + 2)),
    "sum": lambda z: np.sqrt(sum([np.conj(z), np.conj(z)])),
    "angle": lambda z: np.angle(np.conj(z) / 1.3) + 0j,
    "arctanh": lambda z: np.arctanh(2.0 - np.conj(z)),
    "reciprocal": lambda z: np.log(-2.0 / -z),
    "from parts": lambda z: np.log(z.real - 1j * z.imag),
}


@pytest.mark.parametrize("name", CUT)
def test_sides_of_branch_cuts_are_numpys(name):
    f = CUT[name]
    points = np.array([-1.5, np.conj(-1.5 + 0j), -1.5j * 1j, 0.5 - 1j])
    along = sd.value_and_grad(lambda p, z: f(p * z).imag)
    np.testing.assert_allclose([along(1.0, z)[0] for z in points], [f(np.float64(1.0) * z).imag for z in points], rtol=1e-12)
    np.testing.assert_allclose(sd.vmap(f)(points), [f(z) for z in points], rtol=1e-12)


@pytest.mark.parametrize("backend", ["native", "numpy", "python"])
def test_complex_powers_of_zero_are_numpys(backend):
    exponents = [0j, 2 + 1j, 0.5 + 0j, 1j, -1 + 0j, -1 + 1j, -1j]
    with np.errstate(all="ignore"):
        wanted = [np.power(0j, w) for w in exponents]
    powers = sd.vjp(np.power, (0, 1)).compile(0j, 1j, 1j, backend=backend)
    np.testing.assert_array_equal([powers(0j, w, 1j)[0] for w in exponents], wanted)


def test_powers_of_zero_with_exponent_zero_are_steep_in_the_exponent():
    assert sd.grad(lambda x: x**x)(0.0) == -np.inf and sd.grad(lambda y: 0.0**y)(2.0) == 0
    np.testing.assert_array_equal(sd.grad(lambda x, y: x**y, (0, 1))(0.0, 0.0), (0, -np.inf))
    assert not np.isfinite(sd.grad(lambda z: np.power(z, 2 * z))(0j))
