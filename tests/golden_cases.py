"""The golden files: what each is made from, at which arguments, for which target. Uses symdiff's public names only."""

from dataclasses import dataclass

import golden_functions as g
import numpy as np


@dataclass
class Law:
    """The constants of `golden_functions.spring`."""

    stiffness: float
    rest: float


def files(sd):
    """{file: (transform, arguments, target)}, with the transforms of a symdiff."""
    bounds, swing = np.array([0.0, 9.0]), ({"x": 1.0, "v": (2.0,)}, Law(1.0, 2.0))
    return {
        "polynomial_grad.py": (sd.grad(g.polynomial, (0, 1)), (1.0, 1.0), "numpy"),
        "polynomial_plain.py": (sd.value_and_grad(g.polynomial, (0, 1)), (1.0, 1.0), "python"),
        "linear_form_hessian.py": (sd.hessian(g.linear_form), (np.ones(3),), "numpy"),
        "bump_points.py": (sd.vmap(sd.value_and_grad(g.bump, (0, 1))), (np.ones(4), np.ones(4)), "numpy"),
        "rotation_derivative.py": (sd.derivative(g.rotation, order=2), (1j,), "python"),
        "residuals_jacobian.py": (sd.jacobian(g.residuals), (np.ones(3),), "numpy"),
        "kinked_plain.py": (sd.grad(g.kinked), (1.0,), "python"),
        "logistic_value_and_grad.py": (sd.value_and_grad(g.logistic), (1.0,), "numpy"),
        "layer_value_and_grad.py": (
            sd.value_and_grad(g.layer, (0, 1)),
            (np.ones((256, 512)), np.ones((256, 1)), np.ones((512, 128))),
            "numpy",
        ),
        "bump_points_cupy.py": (sd.vmap(sd.value_and_grad(g.bump, (0, 1))), (np.ones(4), np.ones(4)), "cupy"),
        "layer_value_and_grad_cupy.py": (
            sd.value_and_grad(g.layer, (0, 1)),
            (np.ones((256, 512)), np.ones((256, 1)), np.ones((512, 128))),
            "cupy",
        ),
        "differences_grad.py": (sd.grad(g.differences), (np.ones(100_000),), "numpy"),
        "polynomial_value_and_grad.c": (sd.value_and_grad(g.polynomial, (0, 1)), (1.0, 1.0), "c"),
        "polynomial_value_and_grad.cuh": (sd.value_and_grad(g.polynomial, (0, 1)), (1.0, 1.0), "cuda"),
        "residuals_jacobian.c": (sd.jacobian(g.residuals), (np.ones(3),), "c"),
        "root_grad.py": (sd.grad(g.root), (2.0, bounds), "numpy"),
        "root_plain.py": (sd.grad(g.root), (2.0, [0.0, 9.0]), "python"),
        "root_grad.c": (sd.grad(g.root), (2.0, bounds), "c"),
        "root_points.py": (sd.vmap(sd.grad(g.root), (0, None)), (bounds + 1.0, bounds), "numpy"),
        "tax_value_and_grad.py": (sd.value_and_grad(g.tax, (0, 1)), (20.0, 0.2), "numpy"),
        "tax_plain.py": (sd.value_and_grad(g.tax, (0, 1)), (20.0, 0.2), "python"),
        "tax_value_and_grad.c": (sd.value_and_grad(g.tax, (0, 1)), (20.0, 0.2), "c"),
        "tax_value_and_grad.cuh": (sd.value_and_grad(g.tax, (0, 1)), (20.0, 0.2), "cuda"),
        "tax_points.py": (sd.vmap(sd.value_and_grad(g.tax, (0, 1))), (np.ones(4), np.ones(4)), "numpy"),
        "tax_points_cupy.py": (sd.vmap(sd.value_and_grad(g.tax, (0, 1))), (np.ones(4), np.ones(4)), "cupy"),
        "newton_grad.py": (sd.grad(g.newton), (2.0,), "numpy"),
        "newton_hvp.c": (sd.hvp(g.newton), (2.0, 1.0), "c"),
        "smoothed_value_and_grad.py": (sd.value_and_grad(g.smoothed, (0, 1)), (np.ones(4), 0.3), "numpy"),
        "smoothed_plain.py": (sd.value_and_grad(g.smoothed, (0, 1)), (np.ones(4), 0.3), "python"),
        "smoothed_points_last.py": (sd.vmap(sd.grad(g.smoothed), (-1, None)), (np.ones((4, 9)), 0.3), "numpy"),
        "pendulum_grad.py": (sd.grad(g.pendulum), (0.3, 1.0, 0.1), "numpy"),
        "pendulum_plain.py": (sd.grad(g.pendulum), (0.3, 1.0, 0.1), "python"),
        "pendulum_grad.c": (sd.grad(g.pendulum), (0.3, 1.0, 0.1), "c"),
        "pendulum_points.py": (sd.vmap(sd.grad(g.pendulum), (0, 0, None)), (np.ones(4), np.ones(4), 0.1), "numpy"),
        "recurrent_value_and_grad.py": (
            sd.value_and_grad(g.recurrent, (0, 1, 2, 3), loops="keep"),
            (np.ones((32, 16)), np.ones((32, 8)), np.ones(32), np.ones((50, 8))),
            "numpy",
        ),
        "eliminated_grad.py": (sd.grad(g.eliminated, loops="keep"), (np.eye(30),), "numpy"),
        "relaxed_value_and_grad.py": (
            sd.value_and_grad(g.relaxed, (0, 1), loops="keep"),
            (np.eye(20), np.ones(20)),
            "numpy",
        ),
        "hopped_grad.py": (sd.grad(g.hopped), (0.3, 0.1), "numpy"),
        "hopped_plain.py": (sd.grad(g.hopped), (0.3, 0.1), "python"),
        "hopped_points.py": (sd.vmap(sd.grad(g.hopped), (0, None)), (np.ones(4), 0.1), "numpy"),
        "hopped_points_cupy.py": (sd.vmap(sd.grad(g.hopped), (0, None)), (np.ones(4), 0.1), "cupy"),
        "hopped_grad.c": (sd.grad(g.hopped), (0.3, 0.1), "c"),
        "hopped_grad.cuh": (sd.grad(g.hopped), (0.3, 0.1), "cuda"),
        "weathered_grad.py": (sd.grad(g.weathered), (np.ones((80, 9, 9)),), "numpy"),
        "weathered_grad_cupy.py": (sd.grad(g.weathered), (np.ones((80, 9, 9)),), "cupy"),
        "spring_grad.py": (sd.grad(g.spring, (0, 1)), swing, "numpy"),
        "spring_plain.py": (sd.grad(g.spring, (0, 1)), swing, "python"),
        "spring_grad.c": (sd.grad(g.spring, (0, 1)), swing, "c"),
        "impedance_derivative.py": (sd.derivative(g.impedance, argnums=1), (1.0, 1j), "numpy"),
        "impedance_derivative.c": (sd.derivative(g.impedance, argnums=1), (1.0, 1j), "c"),
        "impedance_derivative.cuh": (sd.derivative(g.impedance, argnums=1), (1.0, 1j), "cuda"),
        "impedance_wirtinger.py": (sd.wirtinger(g.impedance, 1), (1.0, 1j), "python"),
        "impedance_points.py": (sd.vmap(sd.derivative(g.impedance, argnums=1)), (np.ones(4), np.full(4, 1j)), "numpy"),
    }
