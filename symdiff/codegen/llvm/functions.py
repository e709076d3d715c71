"""Elementary functions on vectors of float64, as LLVM IR: the functions of a module that `Lines.call` has used.

Assumes fused multiply-add. Guarantees at most 2 ulp for exp, log, sin, cos and tanh, 4 for other functions of real numbers, 5
of the size of a complex result other than a power; C99's results at infinities, NaN, zeros and subnormals; the same bits for
any number of lanes. What a method does not reach is handed to libm, number by number.

The formulas stand in `vectors`, one file a family.
"""

import functools
import inspect
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable

from symdiff.codegen.formulas import formula_program
from symdiff.codegen.math import circular, complex, exponentials, hyperbolic, inverse, logarithms, powers, single, special
from symdiff.codegen.math.lines import Real
from symdiff.codegen.math.numbers import Body

Formula = Callable[..., Real | tuple[Real, ...]]

FUNCTIONS: dict[str, Formula] = {
    function.__name__: function
    for function in (
        exponentials.exp, exponentials.exp2, exponentials.exp10, exponentials.expm1,
        logarithms.log, logarithms.log2, logarithms.log10, logarithms.log1p,
        circular.sincos, circular.tan,
        hyperbolic.sinh, hyperbolic.cosh, hyperbolic.tanh, hyperbolic.asinh, hyperbolic.acosh, hyperbolic.atanh,
        inverse.asin, inverse.acos, inverse.atan, inverse.atan2,
        powers.pow, powers.cbrt, powers.hypot,
        special.erf, special.erfc, special.erfcx, special.ndtr, special.log_ndtr,
        single.exp_single, single.log_single, single.sincos_single, single.tanh_single, single.pow_single,
        complex.cexp, complex.clog, complex.csqrt, complex.csin, complex.ccos, complex.ctan, complex.csinh, complex.ccosh,
        complex.ctanh, complex.cpow,
    )
}  # fmt: skip
FUNCTIONS |= {name: functools.partial(special.tabulated, name) for name in special.TABULATED}


INLINED = 10_000  # lines of functions, about a second of LLVM's, up to which it may put them in the place of their calls


def llvm_vector_functions(
    symbols: Iterable[str], inlined: Collection[str] = (), callers: Iterable[str] = ()
) -> tuple[list[str], dict[str, str]]:
    """The IR of functions and of what they call, and the declarations that they need: `vec4_exp` is exp of four numbers.

    `inlined`: those whose lines LLVM is to put in the place of their calls; none, where the `callers` call many.
    """
    texts: dict[str, str] = {}
    declared: dict[str, str] = {}
    waiting = sorted(symbols, reverse=True)
    while waiting:
        symbol = waiting.pop()
        if symbol not in texts:
            texts[symbol], body = _function(symbol, " alwaysinline" if symbol in inlined else "")
            declared.update(body.declared)
            waiting += sorted(body.used, reverse=True)
    calls = Counter(symbol for text in callers for symbol in _CALLED.findall(text))
    if sum(count * texts[symbol].count("\n") for symbol, count in calls.items() if symbol in texts) > INLINED:
        texts = {symbol: text.replace(" readnone nounwind", " noinline readnone nounwind", 1) for symbol, text in texts.items()}
    return list(texts.values()), declared


_CALLED = re.compile(r"call [^@\n]*@(vec\d+_\w+)\(")


def _function(symbol: str, inlined: str) -> tuple[str, Body]:
    """One function and the lines that it was made of."""
    lanes, _, name = symbol.removeprefix("vec").partition("_")
    body = Body(int(lanes))
    function = FUNCTIONS[name]
    if name in special.TABULATED:
        parameters = [leaf.name for leaf in formula_program(name, "d")[0].inputs]
    else:
        parameters = list(inspect.signature(function).parameters)
    found = function(*(body.argument(f"%{p}") for p in parameters))
    results = found if isinstance(found, tuple) else (found,)
    kind = body.kind("d")
    returned, value = kind, results[0].name
    if len(results) > 1:
        returned, value = f"{{ {', '.join([kind] * len(results))} }}", "undef"
        for place, result in enumerate(results):
            value = body.put(f"insertvalue {returned} {value}, {kind} {result.name}, {place}")
    arguments = ", ".join(f"{kind} %{p}" for p in parameters)
    lines = "\n".join(body.text)
    head = f"define private {returned} @{symbol}({arguments}){inlined} readnone nounwind willreturn"
    return f"{head} {{\n{lines}\n  ret {returned} {value}\n}}\n", body
