"""The loops of `loops.py` as JAX wants them: `scan` where reverse mode is needed, `while_loop` under forward mode.

Assumes JAX with double precision. Guarantees functions of the same arguments, compiled by `jit`, whose calls have ended when
they return. What has no function here (steps of their own size, triple loops) takes no part.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from benchmarks import calls

jax.config.update("jax_enable_x64", True)


def compiled(f: Callable[..., Any], args: tuple[Any, ...], derived: tuple[int, ...]) -> calls.Call:
    """Value and gradient; `newton` has no reverse mode in JAX, and takes forward mode."""
    fixed = tuple(i for i, a in enumerate(args) if isinstance(a, int))
    if f is newton:
        run = jax.jit(lambda *a: (f(*a), jax.jacfwd(f, derived)(*a)))
    else:
        run = jax.jit(jax.value_and_grad(f, derived), static_argnums=fixed)
    moved = tuple(a if i in fixed else jnp.asarray(a) for i, a in enumerate(args))
    return calls.Call(lambda: jax.block_until_ready(run(*moved)), answers=lambda both: (both[0], *both[1]))


def rosenbrock(x: Any) -> Any:
    """Its sum over neighbours."""
    return lax.scan(
        lambda s, i: (s + 100.0 * (x[i + 1] - x[i] ** 2) ** 2 + (1 - x[i]) ** 2, None), 0.0, jnp.arange(len(x) - 1)
    )[0]


def product(x: Any) -> Any:
    """The product of all elements."""
    return lax.scan(lambda p, a: (p * a, None), 1.0, x)[0]


def chebyshev(x: Any, n: int) -> Any:
    """The polynomial of degree n by its recurrence."""
    return lax.scan(lambda ab, _: ((ab[1], 2 * x * ab[1] - ab[0]), None), (jnp.ones_like(x), x), None, n - 1)[0][1]


def sine_chain(a: Any, b: Any, n: int) -> Any:
    """Sines of sines."""
    return lax.scan(lambda s, i: (jnp.sin(s * a) + b * i, None), a, jnp.arange(n))[0]


def logistic(x: Any, r: Any, n: int) -> Any:
    """The logistic map."""
    return lax.scan(lambda x, _: (r * x * (1 - x), None), x, None, n)[0]


def pendulum(q: Any, p: Any, h: Any, n: int) -> Any:
    """A pendulum by the method of Runge and Kutta."""

    def step(y: Any, _: Any) -> Any:
        q, p = y
        a, b = p, -jnp.sin(q)
        c, d = p + h / 2 * b, -jnp.sin(q + h / 2 * a)
        e, g = p + h / 2 * d, -jnp.sin(q + h / 2 * c)
        i, j = p + h * g, -jnp.sin(q + h * e)
        return (q + h / 6 * (a + 2 * c + 2 * e + i), p + h / 6 * (b + 2 * d + 2 * g + j)), None

    q, p = lax.scan(step, (q, p), None, n)[0]
    return q * q + p


def bodies(r: Any, v: Any, h: Any, n: int) -> Any:
    """Three bodies, as rows of arrays."""
    masses, apart = jnp.array([1.0, 0.5, 0.3]), 1 - jnp.eye(3)

    def step(y: Any, _: Any) -> Any:
        r, v = y
        d = r[None] - r[:, None]
        a = jnp.sum((masses * apart / (jnp.sum(d * d, -1) + 0.01) ** 1.5)[:, :, None] * d, 1)
        v = v + h * a
        return (r + h * v, v), None

    r = lax.scan(step, (r, v), None, n)[0][0]
    return jnp.sum(r * r)


def filtered(x: Any, a: Any, b: Any) -> Any:
    """A recursive filter of second order."""

    def step(y: Any, u: Any) -> Any:
        new = b * u + a * y[0] - 0.2 * y[1]
        return (new, y[0]), new

    y = lax.scan(step, (x[1], x[0]), x[2:])[1]
    return x[0] ** 2 + x[1] ** 2 + jnp.sum(y**2)


def atoms(p: Any) -> Any:
    """The energy of all pairs, each counted once."""
    first, second = np.triu_indices(len(p), 1)

    def pair(e: Any, ij: Any) -> Any:
        d = p[ij[0]] - p[ij[1]]
        s = 1 / jnp.sum(d * d) ** 3
        return e + 4 * (s * s - s), None

    return lax.scan(pair, 0.0, (first, second))[0]


def newton(a: Any, tolerance: Any) -> Any:
    """A square root."""
    return lax.while_loop(lambda x: abs(x * x - a) > tolerance, lambda x: 0.5 * (x + a / x), a)


def matrix_product(a: Any, b: Any) -> Any:
    """The square of a product of matrices by loops over its rows and columns."""
    c = lax.scan(lambda _, row: (None, lax.scan(lambda _, column: (None, jnp.sum(row * column)), None, b.T)[1]), None, a)[1]
    return jnp.sum(c * c)


def stencil(u: Any, n: int) -> Any:
    """Diffusion in time."""
    u = lax.scan(lambda u, _: (u.at[1:-1].add(0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])), None), u, None, n)[0]
    return jnp.sum(u * u)
