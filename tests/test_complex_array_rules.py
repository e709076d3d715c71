"""Rules and primitives of complex, single and mixed arrays, of structures, and of many points at once."""

import dataclasses
from typing import NamedTuple

import numpy as np
import pytest
import scipy.linalg

import symdiff as sd

RNG = np.random.default_rng(5)
Z = RNG.normal(size=(3, 3)) + 1j * RNG.normal(size=(3, 3)) + 3 * np.eye(3)
W = RNG.normal(size=3) + 1j * RNG.normal(size=3)
X = RNG.normal(size=(3, 3)) + 3 * np.eye(3)


@sd.primitive(shapes=lambda a: [a.shape, a.shape[:1]])
def factor(a):
    return scipy.linalg.lu_factor(a)


@sd.diffrule(factor, pullback=True)
def _(ds, out, a):
    return None


@sd.primitive(shapes=lambda a, lu, piv, b, trans: b.shape)
def solved(a, lu, piv, b, trans):
    return scipy.linalg.lu_solve((lu, piv.real.astype(int)), b, trans=trans)


@sd.diffrule(solved, pullback=True)
def _(ds, out, a: sd.Array, lu, piv, b, trans):
    back = solved(a, lu, piv, ds, 1 - trans)
    return -np.outer(out, back) if trans else -np.outer(back, out), None, None, back, None


def solve(a, b):
    return solved(a, *factor(a), b, 0)


@sd.primitive(shapes=lambda z: sd.Spec((), "float64"))
def real_size(z):
    return np.sqrt(np.sum(np.abs(z) ** 2))


@sd.diffrule(real_size, pushforward=True)
def _(dots, out, z):
    return np.real(np.sum(np.conj(z) * dots[0])) / out


@sd.primitive(shapes=lambda z: z.shape)
def turned(z):
    return np.conj(z) * z**2


@sd.diffrule(turned, pushforward=True)
def _(dots, out, z):
    return np.conj(dots[0]) * z**2 + 2 * np.conj(z) * z * dots[0]


def plain_turned(z):
    return np.conj(z) * z**2


def close(found, expected, rtol=1e-10):
    for f, e in zip(found if isinstance(found, tuple) else (found,), expected if isinstance(expected, tuple) else (expected,),
                    strict=True):  # fmt: skip
        assert np.asarray(f).dtype == np.asarray(e).dtype
        np.testing.assert_allclose(f, e, rtol=rtol, atol=1e-12)


def plain_solve(a, b):
    return np.linalg.solve(a, b)


def plain_size(z):
    return np.sqrt(np.sum(np.abs(z) ** 2))


PAIRS = {  # what is differentiated, of a function with a rule and of the same without one, and where
    "real parts of a complex solve": (lambda s, a: np.sum(np.abs(s(a, W)) ** 2), solve, plain_solve, X),
    "a complex matrix of a real one": (lambda s, a: np.sum(np.real(s(a + 1j * a.T, W) ** 2)), solve, plain_solve, X),
    "a real result": (lambda s, a: s(a * W), real_size, plain_size, X),
    "with conjugates": (lambda s, a: np.sum(np.real(s(a * W) * W)), turned, plain_turned, X),
    "a complex gradient of a real argument": (lambda s, a: np.sum(s(a * W)), turned, plain_turned, X),
    "conjugates of a holomorphic one": (lambda s, a: np.sum(np.conj(s(a + 1j, W)) * W), solve, plain_solve, X),
    "holomorphic": (lambda s, a: np.sum(s(a, W) ** 2), solve, plain_solve, Z),
}


@pytest.mark.parametrize("name", PAIRS)
def test_gradients_are_those_without_a_rule(name):
    f, with_rule, without, at = PAIRS[name]
    ours, plain = (lambda a: f(with_rule, a)), (lambda a: f(without, a))
    close(sd.grad(ours)(at), sd.grad(plain)(at))
    v = at[::-1] * 0.5
    close(sd.jvp(ours)(at, v), sd.jvp(plain)(at, v))
    if np.isrealobj(at) and not np.iscomplexobj(plain(at)):
        close(sd.hvp(ours)(at, v), sd.hvp(plain)(at, v), 1e-8)
        points = np.stack([at, 2 * at, at.T])
        close(sd.vmap(sd.grad(ours))(points), sd.vmap(sd.grad(plain))(points))


def test_partials_by_z_and_its_conjugate():
    close(sd.wirtinger(turned)(W), sd.wirtinger(plain_turned)(W))
    close(sd.wirtinger(lambda z: real_size(z) ** 2)(W), sd.wirtinger(lambda z: np.sum(np.abs(z) ** 2))(W))
    both = lambda f: lambda z: np.sum(np.conj(f(z)) * f(z) ** 2)  # noqa: E731
    close(sd.wirtinger(both(turned))(W), sd.wirtinger(both(plain_turned))(W))
    close(sd.jacobian(lambda b: solve(Z, b))(W), np.linalg.inv(Z))
    with pytest.raises(sd.NonHolomorphicError, match=r"turned makes the output depend on the conjugate"):
        sd.grad(lambda z: np.sum(turned(z)))(W)


def test_a_pullback_is_no_derivative_of_a_real_result_by_complex_numbers():
    def mean(z):
        return np.mean(np.abs(z))

    @sd.diffrule(mean, pullback=True)
    def _(ds, out, z: sd.Array):
        return ds * np.conj(z)

    with pytest.raises(
        sd.NonHolomorphicError, match=r"test_complex_array_rules.py:\d+: mean gives real numbers.*pushforward=True"
    ):
        sd.wirtinger(mean)(W)


def test_single_precision_stays_single():
    a, b = X.astype(np.float32), W.real.astype(np.float32)
    f = lambda a, b: np.sum(solve(a, b) ** 2)  # noqa: E731
    value, grads = sd.value_and_grad(f, (0, 1))(a, b)
    assert [np.asarray(g).dtype for g in (value, *grads)] == [np.float32] * 3
    expected = sd.grad(lambda a, b: np.sum(np.linalg.solve(a, b) ** 2), (0, 1))(a.astype(float), b.astype(float))
    np.testing.assert_allclose(grads[0], expected[0], rtol=1e-4, atol=1e-6)
    mixed = sd.grad(f, (0, 1))(X, b)
    assert mixed[0].dtype == np.float64
    np.testing.assert_allclose(mixed[0], expected[0], rtol=1e-6)
    c = Z.astype(np.complex64)
    assert sd.grad(lambda a: np.sum(solve(a, W.astype(np.complex64))))(c).dtype == np.complex64


@sd.primitive(shapes=lambda z, n: [sd.Spec(z.shape, "complex128"), sd.Spec((), "float64"), sd.Spec((n,), "float32")])
def several(z, n):
    return z**2, np.sum(np.real(z)), np.ones(n, np.float32)


@sd.diffrule(several, pushforward=True)
def _(dots, out, z, n):
    return 2 * z * dots[0], np.sum(np.real(dots[0])), None


def test_results_of_several_dtypes():
    first, second, third = sd.vmap(lambda z: several(z, 2))(Z)
    assert (first.dtype, second.dtype, third.dtype) == (np.complex128, np.float64, np.float32)
    close(first, Z**2)
    close(second, Z.real.sum(1))

    def f(a, of):
        z, s, ones = of(a * W)
        return np.sum(np.real(z * W)) * s + np.sum(ones)

    plain = lambda z: (z**2, np.sum(np.real(z)), np.ones(2))  # noqa: E731
    ours, expected = (lambda a: f(a, lambda z: several(z, 2))), (lambda a: f(a, plain))
    close(sd.grad(ours)(X[0]), sd.grad(expected)(X[0]))
    g, h = (lambda a, k=k: k(a) * (1 + 2j) + np.conj(k(a)) for k in (ours, expected))
    close(sd.jacobian(g)(X[0]), sd.jacobian(h)(X[0]))
    made = sd.vmap(sd.grad(ours))
    close(made(X), sd.vmap(sd.grad(expected))(X))


def test_files_of_complex_primitives(tmp_path, monkeypatch):
    made = sd.value_and_grad(lambda a: np.sum(np.abs(solve(a + 1j, W)) ** 2))
    made.export(tmp_path / "exported_complex.py", X)
    monkeypatch.syspath_prepend(str(tmp_path))
    module = __import__("exported_complex")
    value, grad = getattr(module, module.__all__[0])(X)
    close((value, grad), tuple(made(X)))


class Pair(NamedTuple):
    a: np.ndarray
    b: np.ndarray


@dataclasses.dataclass
class Line:
    slope: float
    at: np.ndarray


def test_structures_choose_the_rule():
    def total(p):
        return np.sum(p.a * p.b) if isinstance(p, Pair) else np.sum(p)

    @sd.diffrule(total, pullback=True)
    def _(ds, out, p: Pair):
        return Pair(ds * p.b, ds * p.a)

    @sd.diffrule(total, pullback=True)
    def _(ds, out, p: sd.Array[sd.Real]):
        return ds * 10 * np.ones(p.shape)

    @sd.diffrule(total, pullback=True)
    def _(ds, out, p: sd.Array[sd.Complex]):
        return ds * 20 * np.ones(p.shape)

    found = sd.grad(total)(Pair(X, X.T))
    close((found.a, found.b), (X.T, X))
    close(sd.grad(total)(X[0]), np.full(3, 10.0))
    close(sd.grad(total)(W), np.full(3, 20.0 + 0j))
    assert sd.grad(lambda x: total(np.array([x, x])))(2.0) == 20.0
    with pytest.raises(sd.RuleError, match=r"write sd.Array, sd.Array\[sd.Real\] or sd.Array\[sd.Complex\]"):

        @sd.diffrule(total, pullback=True)
        def _(ds, out, p: sd.Array[str]):
            return ds


CALLS = []


def many_products(moving, a, b):
    CALLS.append(moving)
    a, b = (x if m else x[None] for x, m in zip((a, b), moving, strict=True))
    return np.einsum(
        "nij,nj->ni", *np.broadcast_arrays(a, b[..., None])[:1], np.broadcast_to(b, (max(len(a), len(b)), b.shape[-1]))
    )


@sd.primitive(shapes=lambda a, b: b.shape, vmap=many_products)
def product(a, b):
    CALLS.append("one")
    return a @ b


@sd.diffrule(product, pullback=True)
def _(ds, out, a, b):
    return np.outer(ds, b), product(a.T, ds)


def test_points_by_a_rule_and_points_within_points():
    matrices, vectors = RNG.normal(size=(5, 3, 3)), RNG.normal(size=(4, 5, 3))
    CALLS.clear()
    close(sd.vmap(product)(matrices, vectors[0]), np.einsum("nij,nj->ni", matrices, vectors[0]))
    assert CALLS == [(True, True)]
    CALLS.clear()
    close(sd.vmap(sd.grad(lambda a, b: np.sum(product(a, b) ** 2)), in_axes=(None, 0))(X, vectors[0]),
          sd.vmap(sd.grad(lambda a, b: np.sum((a @ b) ** 2)), in_axes=(None, 0))(X, vectors[0]))  # fmt: skip
    assert CALLS == [(False, True)]

    def each(matrices, rows):
        return sd.vmap(lambda m, r: product(m, r))(matrices, rows)

    CALLS.clear()
    close(sd.vmap(each, in_axes=(None, 0))(matrices, vectors), np.einsum("nij,knj->kni", matrices, vectors))
    assert CALLS == [(True, True)]
    within = lambda m, v, one: np.sum(sd.vmap(lambda m, r: sd.vmap(one)(m, r), in_axes=(None, 0))(m, v) ** 2)  # noqa: E731
    closing = lambda m, v, one: np.sum(sd.vmap(lambda r: sd.vmap(one)(m, r))(v) ** 2)  # noqa: E731
    for total in (within, closing):
        grads = [sd.grad(lambda m, v, t=total, o=one: t(m, v, o), (0, 1))(matrices, vectors) for one in (product, np.matmul)]
        close(tuple(grads[0]), tuple(grads[1]))


def test_wrong_dtypes_are_told():
    @sd.primitive(shapes=lambda x: x.shape)
    def imaginary(x):
        return x * 1j

    with pytest.raises(
        sd.TraceError, match=r"imaginary returns complex128; numbers as float64 were told; shapes= may tell sd.Spec"
    ):
        sd.vmap(imaginary)(X)
    with pytest.raises(sd.RuleError, match=r"vmap=3; a function of \(moving, \*args\)"):
        sd.primitive(imaginary, shapes="run", vmap=3)


def test_series_through_primitives_factor_once():
    def f(t):
        a = X + t * X.T
        return np.sum(solve(a, W.real) ** 2)

    def plain(t):
        return np.sum(np.linalg.solve(X + t * X.T, W.real) ** 2)

    found, expected = (sd.taylor(g, 5)(0.1, 1.0) for g in (f, plain))
    np.testing.assert_allclose(np.array(found), np.array(expected), rtol=1e-9)
    np.testing.assert_allclose(sd.derivative(f, 4)(0.1), 24 * expected[4], rtol=1e-9)
