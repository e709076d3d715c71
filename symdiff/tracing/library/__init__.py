"""What stands for NumPy's, SciPy's and Python's functions: the rows are there when this package is imported."""

from symdiff.tracing.library import (
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
from symdiff.tracing.values import exact_numbers, texts

THEMES = (
    arrays, builtin_functions, calculus, comparing, exact_numbers, fourier, linear_algebra, making, mathematics, polynomials,
    scipy_functions, searching, shaping, statistics, texts, ufunc_methods,
)  # fmt: skip
