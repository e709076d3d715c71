"""A function's first and second derivatives at a point in every mode, on every backend, against the answers that are right."""

import numpy as np
import pytest

import symdiff as sd

BACKENDS = ["numpy", "python", "native", "exact numpy", "exact python"]
MODES = ["unrolled", "whole", "unrolled exact", "whole exact", "native"]


def options_of(backend):
    if backend == "native":
        pytest.importorskip("llvmlite", reason="machine code needs llvmlite")
    return {"backend": backend.split()[-1], "exact": backend.startswith("exact")}


def check(found, expected, rtol=1e-12, atol=0.0):
    """Compare with the answer; a tuple lists answers that are equally right."""
    answers = expected if isinstance(expected, tuple) else (expected,)
    if not any(np.allclose(found, answer, rtol=rtol, atol=atol, equal_nan=True) for answer in answers):
        raise AssertionError(f"{found}, not {expected}")


def check_number(f, x, first, second, backend):
    """The derivatives of a function of a number; `second` None is not asked."""
    options = options_of(backend)
    check(sd.grad(f, **options)(x), first)
    check(sd.jvp(f, **options)(x, 1.0)[1], first)
    if second is None:
        return
    check(sd.grad(sd.grad(f), **options)(x), second)
    if backend != "numpy":
        return  # the graphs are the same
    check(sd.jvp(sd.grad(f), **options)(x, 1.0)[1], second)
    check(sd.grad(lambda x: sd.jvp(f)(x, 1.0)[1], **options)(x), second)
    check(sd.jvp(lambda x: sd.jvp(f)(x, 1.0)[1], **options)(x, 1.0)[1], second)


def check_elementwise(f, x, first, second, exact):
    """The same over whole arrays, and over points."""
    options = {"scalarize": False, "exact": exact}
    points = np.full((2, 3), x)

    def total(x):
        return np.sum(f(x))

    check(sd.grad(total, **options)(points), first)
    check(sd.jvp(f, **options)(points, np.ones_like(points))[1], first)
    if second is None:
        return
    check(sd.hvp(total, **options)(points, np.ones_like(points)), second)
    if exact:
        return  # the graphs are the same
    check(sd.vmap(sd.grad(f))(points[0]), first)
    check(sd.grad(lambda x: np.sum(sd.grad(total)(x)), **options)(points), second)
    check(sd.vmap(sd.grad(sd.grad(f)))(points[0]), second)


def check_array(f, x, gradient, hessian, mode):
    """Gradient and Hessian of a function of an array; `hessian` None is not asked."""
    options = options_of("native" if mode == "native" else "numpy")
    options |= {"exact": mode.endswith("exact")}
    if mode == "auto":
        options["backend"] = "auto"
    if mode.startswith("whole"):
        options |= {"scalarize": False, "backend": "auto"}
    check(sd.grad(f, **options)(x), gradient, atol=1e-14)
    check(sd.jacobian(f, mode="forward", **options)(x), gradient, atol=1e-14)
    if hessian is not None:
        check(sd.hessian(f, **options)(x), hessian, atol=1e-14)
        check(sd.jacobian(sd.jacobian(f, mode="forward"), mode="forward", **options)(x), hessian, atol=1e-14)
