"""Kinks of kinks at their ties: the rows give one slope, whichever way a derivative is computed."""

import numpy as np
import pytest

import symdiff as sd

TIES = {
    "maximum(x, abs(minimum(x, 0)))": lambda x: np.maximum(x, np.abs(np.minimum(x, 0))),
    "maximum(x, abs(maximum(x, 0)))": lambda x: np.maximum(x, np.abs(np.maximum(x, 0))),
    "maximum(0, minimum(x, 0))": lambda x: np.maximum(0, np.minimum(x, 0)),
    "abs(abs(x) - x)": lambda x: np.abs(np.abs(x) - x),
    "maximum(abs(x), x)": lambda x: np.maximum(np.abs(x), x),
    "minimum(abs(x), x)": lambda x: np.minimum(np.abs(x), x),
    "maximum(x, -x)": lambda x: np.maximum(x, -x),
    "abs(maximum(x, 0) - minimum(x, 0))": lambda x: np.abs(np.maximum(x, 0) - np.minimum(x, 0)),
    "maximum(x, hypot(x, x))": lambda x: np.maximum(x, np.hypot(x, x)),
    "minimum(x, hypot(x, x))": lambda x: np.minimum(x, np.hypot(x, x)),
    "clip(maximum(x, 0))": lambda x: np.clip(np.maximum(x, 0), 0, 1),
    "maximum(clip(x))": lambda x: np.maximum(np.clip(x, 0, 1), x),
    "where(x > 0, x, abs(x))": lambda x: np.where(x > 0, x, np.abs(x)),
    "maximum(sqrt(x*x), x)": lambda x: np.maximum(np.sqrt(x * x), x),
    "maximum(x, where)": lambda x: np.maximum(x, np.where(x > 0, x, -x)),
    "fmax(clip(-x), -x)": lambda x: np.fmax(np.clip(-x, -1.0, 0.0), -x),
    "sqrt(minimum**2) + minimum": lambda x: np.sqrt(np.minimum(x, 0.0) ** 2) + np.minimum(2.0 * x, x),
    "maximum(minimum(x/2, 2*x), 0)": lambda x: np.maximum(np.minimum(0.5 * x, 2.0 * x), 0),
    "clip(sqrt(max(stack)**2))": lambda x: np.clip(np.sqrt(np.max(np.stack([-x + 0 * x, 0 * x]), axis=0) ** 2), 0.0, 1.0),
    "sqrt(min(stack)**2)": lambda x: np.sqrt(np.min(np.stack([x + 0 * x, 0 * x]), axis=0) ** 2),
    "abs(max(list))": lambda x: np.abs(np.max(np.array([x, 0 * x]), axis=0)),
}


def summed(f):
    return lambda x: np.sum(f(x))


def filed(f, target, folder):
    path = folder / "made.py"
    sd.grad(f).export(path, 0.0, target=target)
    space = {"__name__": "made"}
    exec(compile(path.read_text(), str(path), "exec"), space)
    return space[space["__all__"][0]](0.0)


@pytest.mark.parametrize("name", TIES)
def test_one_slope_by_all_ways(name, tmp_path):
    f = TIES[name]
    slope = sd.grad(f)(0.0)
    assert np.isfinite(slope)
    ways = {
        "derivative at points": sd.derivative(f)(np.zeros(3)),
        "vmap": sd.vmap(sd.grad(f))(np.zeros(3)),
        "vjp": sd.vjp(f)(0.0, 1.0)[1],
        "forward": np.diagonal(sd.jacobian(f, mode="forward")(np.zeros(2))),
        **{
            f"exact={e} {n}": sd.grad(summed(f), exact=e)(np.zeros(n))
            for e, n in ((True, 1), (False, 9), (False, 99), (True, 99))
        },
        "numpy": sd.grad(f, backend="numpy")(0.0),
        **{f"{target} file": filed(f, target, tmp_path) for target in ("numpy", "python")},
    }
    for way, found in ways.items():
        assert np.all(found == slope), (way, found, slope)
