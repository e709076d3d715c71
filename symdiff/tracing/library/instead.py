"""Functions of SciPy that cannot be followed, and what works in their place.

Assumes public names. Guarantees that an error about one of them says how its derivative is had.
"""

import sys
from typing import Any


def _opaque(derivative: str) -> str:
    return f"keep your function around it opaque with sd.primitive and give {derivative} with sd.diffrule"


_IMPLICIT = f"by the implicit function theorem: {_opaque('that')}"
_ROOT = f"at a root r of g(r, p) = 0 the derivative by p is -(dg/dp)/(dg/dr), {_IMPLICIT}"
_MINIMUM = f"at a minimum m of g(m, p) the derivative by p is -(d2g/dm dp)/(d2g/dm2), {_IMPLICIT}"
_INTEGRAL = (
    f"its derivative is the integral of the integrand's, and the integrand at the ends (Leibniz): {_opaque('that')}; "
    "scipy.integrate.fixed_quad, np.trapezoid and sums over nodes are followed"
)
_SOLUTION = (
    "a loop of Runge-Kutta steps written with NumPy is followed; or solve for the sensitivities dy/dp beside y (the implicit "
    f"function theorem for equations in time): {_opaque('them')}"
)
_SPLINE = (
    "a spline is linear in its values, so at fixed points multiply them by the matrix CubicSpline(x, np.eye(len(x)))(points); "
    f"for a traced point {_opaque('spline.derivative()(x)')}, by nodes the implicit function theorem; np.interp is followed"
)
_SURFACE = f"{_opaque('its derivative')}; np.interp is followed"
_OF_EIGH = "for a symmetric matrix write it with w, v = np.linalg.eigh(a): (v*f(w)) @ v.T"
_NAMES = {
    "integrate": {
        _INTEGRAL: "quad dblquad tplquad nquad quad_vec romberg quadrature cubature",
        _SOLUTION: "solve_ivp odeint solve_bvp ode RK45 RK23 DOP853 Radau BDF LSODA",
    },
    "optimize": {
        _ROOT: "brentq brenth bisect ridder toms748 newton fsolve root root_scalar fixed_point",
        _MINIMUM: "minimize minimize_scalar least_squares leastsq curve_fit fmin fmin_bfgs fmin_l_bfgs_b linprog brute "
        "differential_evolution dual_annealing shgo basinhopping milp nnls lsq_linear",
    },
    "interpolate": {
        _SPLINE: "CubicSpline CubicHermiteSpline make_interp_spline make_smoothing_spline UnivariateSpline "
        "InterpolatedUnivariateSpline interp1d splrep splev BSpline PPoly BarycentricInterpolator KroghInterpolator",
        _SURFACE: "PchipInterpolator Akima1DInterpolator RegularGridInterpolator interpn griddata RectBivariateSpline "
        "RBFInterpolator",
    },
    "linalg": {
        "np.linalg.solve(a, b) is followed": "lu_factor lu_solve lu solve_banded solveh_banded",
        _OF_EIGH: "sqrtm logm funm signm fractional_matrix_power",
    },
}
INSTEAD = {
    (f"scipy.{package}", name): text
    for package, groups in _NAMES.items()
    for text, names in groups.items()
    for name in names.split()
}


def scipy_public_name(f: Any) -> tuple[str, str]:
    """The package and the name by which a function or class of SciPy is known; two empty texts for anything else."""
    module, name = getattr(f, "__module__", None) or "", getattr(f, "__name__", "")
    if type(module) is not str or type(name) is not str or not module.startswith("scipy."):
        return "", ""
    package = ".".join(module.split(".")[:2])
    return (package, name) if getattr(sys.modules.get(package), name, None) is f else ("", "")
