"""What stands for NumPy's, SciPy's and Python's functions: the rows are there when this package is imported."""

from symdiff.tracing.library import (  # noqa: F401
    arrays,
    builtin_functions,
    calculus,
    comparing,
    fourier,
    linear_algebra,
    making,
    mathematics,
    polynomials,
    scipy_functions,
    searching,
    shaping,
    statistics,
    ufunc_methods,
)
from symdiff.tracing.values import texts  # noqa: F401
