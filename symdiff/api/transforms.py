"""What users call: each transform takes a plain function and returns a function that can be traced and transformed again.

Assumes deterministic functions of numbers and arrays in nested containers. Guarantees one specialisation for each
signature (structure, shapes, dtypes, static values), made on the first call and kept; thread-safe calls; fresh results.
Refuses wrong arguments with errors that name the function's file and line.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from symdiff.api.batching import Derivative, Vectorised
from symdiff.api.declaring import opaque_primitives
from symdiff.api.derivatives import (
    Gradient,
    Hessian,
    HessianProduct,
    Jacobian,
    Pullback,
    Pushforward,
    Taylor,
    ValueAndGradient,
    Wirtinger,
)
from symdiff.api.expressions import argument_function
from symdiff.api.functions import Function
from symdiff.api.sizing import at_sizes, graphs_for_sizes, named_extents
from symdiff.ir.graph import Graph
from symdiff.rulebooks.declared import rules_in_force
from symdiff.tracing.captures.watching import Watch
from symdiff.tracing.trace import (
    definition_line,
    function_name,
    function_signature,
    is_static,
    trace_leaves,
    traced_argument_paths,
)
from symdiff.vocabulary import structures
from symdiff.vocabulary.choices import check_call, check_options


def grad(f: Callable[..., Any], argnums: int | Sequence[int] = 0, **options: Any) -> Function:
    """The gradient of a scalar function by argument `argnums`, in that argument's own structure and shape.

    dtype: `result_type(output, input)`. With a tuple of argnums the result is a tuple. Options: `rules`, `exact`,
    `fastmath`, `backend`, `scalarize`, and `paths`, which says what becomes of `if`, `while` and the like on the arguments'
    values: "merge" joins all paths (up to 64) into one formula, "guard" keeps the path taken together with its conditions and
    traces anew where they fail, None merges where it can. Raises `ShapeError` when called on a function whose result is not
    one scalar.

    f may be a graph of `trace`, or an expression of SymPy's, a matrix, or lists, tuples and dictionaries of them: its arguments
    are then its symbols in the order of their names, and `argnums` may be symbols (`sd.grad(x*sp.sin(y), (x, y))`);
    `sd.lambdify` gives them another order. So for every transform.

    `frozen=True`: what f captures is read when it is traced, and not looked at before a call; each specialisation keeps it.

    >>> import numpy as np
    >>> grad(lambda x: x[0]*x[1]**2)(np.array([3.0, 2.0]))
    array([ 4., 12.])
    """
    return Gradient(f, argnums, **options)


def value_and_grad(f: Callable[..., Any], argnums: int | Sequence[int] = 0, **options: Any) -> Function:
    """The pair (value, gradient), computed together; see `grad`.

    >>> import numpy as np
    >>> value_and_grad(lambda x: x**3)(2.0)
    (np.float64(8.0), np.float64(12.0))
    """
    return ValueAndGradient(f, argnums, **options)


def jacobian(f: Callable[..., Any], argnums: int | Sequence[int] = 0, *, mode: str = "auto", **options: Any) -> Function:
    """All partials: the output's axes, then the input's. `mode` is "auto" (fewer operations), "forward" or "reverse".

    >>> import numpy as np
    >>> jacobian(lambda x: [x[0]*x[1], x[1]])(np.array([3.0, 2.0]))
    [array([2., 3.]), array([0., 1.])]
    """
    return Jacobian(f, argnums, mode=mode, **options)


def hessian(f: Callable[..., Any], argnums: int | Sequence[int] = 0, **options: Any) -> Function:
    """Second partials of a scalar function: the input's axes twice. Each symmetric pair is computed once.

    >>> import numpy as np
    >>> hessian(lambda x: x[0]*x[1]**2)(np.array([3.0, 2.0]))
    array([[0., 4.],
           [4., 6.]])
    """
    return Hessian(f, argnums, **options)


def derivative(f: Callable[..., Any], order: int = 1, argnums: int = 0, **options: Any) -> Function:
    """The n-th derivative of a scalar function of a scalar; called with an array, elementwise.

    From order 3 it is the n-th coefficient of the series of `taylor` times n!, which takes O(n^2) operations, unless n
    derivatives one after the other take fewer.

    >>> import numpy as np
    >>> derivative(np.sin, order=2)(0.5) == -np.sin(0.5)
    np.True_
    """
    return Derivative(f, argnums, order=order, **options)


def jvp(f: Callable[..., Any], argnums: int | Sequence[int] = 0, **options: Any) -> Function:
    """(*args, tangent) -> (value, tangent of the value).

    >>> import numpy as np
    >>> jvp(lambda x: x*x)(3.0, 1.0)
    (np.float64(9.0), np.float64(6.0))
    """
    return Pushforward(f, argnums, **options)


def taylor(f: Callable[..., Any], order: int, argnums: int | Sequence[int] = 0, **options: Any) -> Function:
    """(*args, v) -> (c0, ..., cn), the coefficients of f(x + t*v) = c0 + c1*t + ... + cn*t**n + ... for real t, n = `order`.

    Each coefficient has the structure, the shapes and the dtypes of f's result (`result_type(output, input)`), and v those of
    the argument, as in `jvp`; c0 is the value, c1 the tangent, and factorial(k)*ck the k-th derivative along v, which `jet` of
    JAX returns. Elementwise functions, sums and products, `solve` and the like take O(n^2) operations, by recurrences from
    the rules. Mixed partials are those along sums of directions: for c2 as a function of v, d2f/dxdy is
    c2((1, 1)) - c2((1, 0)) - c2((0, 1)); the partial by n arguments is the sum over subsets S of (-1)**(n - |S|)*cn(sum of S).
    Near a point where both parts of a quotient vanish, as in sin(x)/x at 0, digits cancel, as in derivatives one after the
    other. Raises `RuleError` where there is no rule.

    Source of the method: Griewank and Walther, Evaluating Derivatives, 2nd ed., chapter 13.

    >>> import numpy as np
    >>> taylor(np.exp, 3)(0.0, 2.0)
    (np.float64(1.0), np.float64(2.0), np.float64(2.0), np.float64(1.3333333333333333))
    """
    return Taylor(f, argnums, order=order, **options)


def vjp(f: Callable[..., Any], argnums: int | Sequence[int] = 0, **options: Any) -> Function:
    """(*args, cotangent) -> (value, cotangent of the arguments).

    >>> import numpy as np
    >>> vjp(lambda x: x*x)(3.0, 1.0)
    (np.float64(9.0), np.float64(6.0))
    """
    return Pullback(f, argnums, **options)


def hvp(f: Callable[..., Any], argnums: int | Sequence[int] = 0, **options: Any) -> Function:
    """(*args, v) -> H v, the product of the Hessian with a vector, forward over reverse.

    >>> import numpy as np
    >>> hvp(lambda x: x**3)(2.0, 1.0)
    np.float64(12.0)
    """
    return HessianProduct(f, argnums, **options)


def wirtinger(f: Callable[..., Any], argnums: int | Sequence[int] = 0, **options: Any) -> Function:
    """z -> (df/dz, df/dzbar), the derivatives by z and by its conjugate as if the two were independent.

    With z = x + 1j*y, df/dz = (df/dx - 1j*df/dy)/2 and df/dzbar = (df/dx + 1j*df/dy)/2; a holomorphic f has df/dzbar = 0.
    For a real-valued f the two are conjugates, and 2*df/dzbar = df/dx + 1j*df/dy points along the steepest ascent:
    z - step*2*df/dzbar goes down. That is the gradient of PyTorch; `jax.grad` gives 2*df/dz, its conjugate. The derivative
    by a real argument is its plain one, beside a zero. Of arrays and structures each of the two is a Jacobian, as `jacobian`
    gives it.

    >>> import numpy as np
    >>> wirtinger(lambda z: np.abs(z)**2)(3.0 + 4.0j)
    (np.complex128(3-4j), np.complex128(3+4j))
    """
    return Wirtinger(f, argnums, **options)


def vmap(
    f: Callable[..., Any], in_axes: Any = 0, out_axes: Any = None, *, threads: int | None = None, **options: Any
) -> Function:
    """f at many points at once: `in_axes` (for all arguments, or one entry each) is 0 for points first, -1 for points
    last, None for an argument that all points share; `out_axes` defaults to the first of `in_axes`.

    Machine code takes arrays of any strides as they are, and runs in `threads` threads, None for as many as pay; the result
    is the same to the last bit. What NumPy computes runs in one.

    >>> import numpy as np
    >>> vmap(grad(lambda x: x[0]*x[1]))(np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([[2., 1.],
           [4., 3.]])
    """
    return Vectorised(f, in_axes=in_axes, out_axes=out_axes, threads=threads, **options)


def trace(
    f: Callable[..., Any], *args: Any, primitives: Any = (), rules: Any = None, paths: str | None = None,
    loops: str | None = None, **kwargs: Any,
) -> Graph:  # fmt: skip
    """The Graph of f at example arguments (numbers, arrays, or `Spec`s; integers stay static).

    `primitives` are functions that stay opaque. `paths` says what becomes of `if`, `while` and the like on traced values:
    "merge" all paths into one graph, "guard" the one taken at the arguments, None merges where it can. With loops="keep",
    a Python loop becomes one binding whose body is traced once, where it is proved to be the same; `notes["loops"]` tells
    which are, and why the others are written out. Raises `TraceError` at the user's line for what cannot be traced.

    >>> print(trace(lambda x: x*x + 1.0, 3.0).expr)
    x*x + 1
    """
    f = argument_function(f)
    check_options("trace", {"primitives": primitives, "rules": rules, "paths": paths, "loops": loops})
    check_call(function_signature(f), f"{function_name(f)} ({definition_line(f)})", args, kwargs)
    leaves, tree = structures.flatten((args, kwargs), none_is_leaf=True)
    traced = [i for i, leaf in enumerate(leaves) if not is_static(leaf)]
    rules = rules_in_force(rules)
    if primitives:
        rules = rules + opaque_primitives(primitives)
    where = tree, traced, traced_argument_paths(f, args, kwargs)
    if not named_extents(leaves):
        return trace_leaves(f, leaves, *where, None, rules, paths, Watch(f), loops=loops, given=(args, kwargs)).graph

    def at(sizes: Mapping[str, int]) -> tuple[Graph, ...]:
        return (trace_leaves(f, at_sizes(leaves, sizes), *where, None, rules, paths, Watch(f), loops=loops or "keep").graph,)

    return graphs_for_sizes(definition_line(f), leaves, at)[0]
