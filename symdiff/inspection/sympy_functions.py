"""Functions of SymPy expressions: what transforms take in place of a user's function, and `sd.lambdify`.

Assumes expressions over the given arguments, or over their own symbols in the order of their names. Guarantees the results of
`sympy.lambdify` with NumPy and SciPy in double precision: arrays broadcast, matrices are arrays, containers keep their kind.
Refuses what a tape refuses, when the function is made.
"""

import inspect
import keyword
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import sympy as sp
from sympy.core.function import AppliedUndef, FunctionClass

from symdiff.api.expressions import Formula, function_of_sympy
from symdiff.api.functions import Plain
from symdiff.errors import ArgumentError, OptionError, TraceError, noted_errors
from symdiff.inspection.from_sympy import Tape, expression_of_sympy, resolved_leaves, sympy_leaves, sympy_name
from symdiff.inspection.sympy_text import sympy_of_text
from symdiff.inspection.sympy_values import Playing, Value
from symdiff.ir.building import active_builders
from symdiff.tracing.values.tracer import Tracer
from symdiff.vocabulary import structures
from symdiff.vocabulary.libraries import user_line
from symdiff.vocabulary.literals import identifier

_MODULES = frozenset("numpy scipy math cmath mpmath sympy numexpr cupy jax tensorflow torch".split())
_NARROW = {"d": "f", "D": "F"}
_ELEMENT = re.compile(r"(.+)\[(\d+)\]")


class Expression(Formula):
    """A function of SymPy expressions, in nested lists, tuples and dictionaries; `arguments` may be nested, too."""

    def __init__(
        self,
        arguments: Sequence[Any] | None,
        expr: Any,
        name: str = "f",
        functions: dict[str, Any] | None = None,
        use_imps: bool = True,
        where: str = "",
    ) -> None:
        self.__name__ = name
        self.__doc__ = ""
        self.where = where or user_line()
        self._made = arguments, expr, name, functions, use_imps, self.where
        leaves = list(_flat(arguments or ()))
        if len(set(leaves)) < len(leaves):
            raise ArgumentError(f"{self.where}: an argument is given twice among {', '.join(map(sympy_name, leaves))}")
        self.tape = tape = Tape(leaves, functions, use_imps)
        places: list[int] = []

        def placed(leaf: Any) -> int:
            places.append(tape.place(expression_of_sympy(leaf)))
            return len(places) - 1

        try:
            with noted_errors():  # those that follow have the line
                self.result = sympy_leaves(expr, placed)
        except TraceError as error:
            raise TraceError(f"{self.where}: {error}") from None
        if not places:
            raise TraceError(f"{self.where}: there is no expression")
        tape.end = places
        tape.trim()
        if arguments is None:
            extents = _extents(tape.leaves)
            arguments = leaves = sorted((leaf for leaf in tape.leaves if leaf not in extents), key=sympy_name)
        self.arguments = tuple(arguments)
        self.function = tuple(tape.implementations)  # what they capture is watched
        self._parts = self._of_vectors(leaves)
        resolved_leaves(tape, dict.fromkeys(leaves) | dict.fromkeys([*_extents(leaves), *self._parts]), self.where)
        self.whole = [not tape.counts.isdisjoint(_flat((argument,))) for argument in self.arguments]
        self.__signature__ = inspect.Signature(
            [inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in _names(self.arguments)]
        )

    def __reduce__(self) -> Any:
        return Expression, self._made

    def _of_vectors(self, leaves: Sequence[Any]) -> dict[Any, tuple[Any, int]]:
        """The symbols that `DeferredVector`s stand for: `x[0]` is a symbol of that name."""
        vectors = {leaf.name: leaf for leaf in leaves if isinstance(leaf, sp.DeferredVector)}
        found = {}
        for leaf in self.tape.leaves if vectors else ():
            match = _ELEMENT.fullmatch(sympy_name(leaf))
            if match and match[1] in vectors:
                found[leaf] = vectors[match[1]], int(match[2])
        return found

    def place(self, wanted: Any) -> int:
        """The position of the argument that is, or holds, a symbol."""
        for position, argument in enumerate(self.arguments):
            if any(wanted == leaf or wanted == sympy_name(leaf) for leaf in _flat((argument,))):
                return position
        raise OptionError(
            f"{user_line()}: argnums={wanted}: give a position, or one of {', '.join(self.__signature__.parameters)}"
        )

    def taken(self, position: int, value: Any) -> Any:
        """An argument: integers count as numbers, unless they are bounds, indices or extents."""
        return value if position >= len(self.whole) or self.whole[position] else _floating(value)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The expression over traced values; over plain ones, its values."""
        bound = self.__signature__.bind(*args, **kwargs)
        args = bound.args
        builders = active_builders()
        if not builders:
            return Plain(self)(*args)
        playing = Playing(builders[-1], self.where)
        args = _narrowed(args)
        given: dict[Any, Value] = {}
        for name, argument, value in zip(self.__signature__.parameters, self.arguments, args, strict=True):
            self._give(given, argument, value, playing, name)
        for symbol, (vector, index) in self._parts.items():
            given[symbol] = playing.item(given[vector], (index,))
        values = self.tape.play(playing, resolved_leaves(self.tape, given, self.where))
        found = [_whole(playing.traced(playing.atom(v))) for v in values]
        return sympy_leaves(self.result, found.__getitem__)

    def _give(self, given: dict[Any, Value], argument: Any, value: Any, playing: Playing, name: str) -> None:
        if not isinstance(argument, (tuple, list)):
            given[argument] = _fitted(argument, playing.value(value), playing, name)
            return
        if isinstance(value, (np.ndarray, Tracer)) and value.ndim > 1 and value.shape[0] != len(argument):
            value = value.ravel()
        count = _count(value)
        if count != len(argument):
            size = "a number is given" if count is None else f"{count} are given"
            raise ArgumentError(f"{self.where}: argument {name} is a sequence of {len(argument)}; {size}")
        for k, inner in enumerate(argument):
            self._give(given, inner, value[k], playing, f"{name}[{k}]")


def _narrowed(args: Sequence[Any]) -> Sequence[Any]:
    """Python's numbers in single precision, where an array or a number of NumPy's is in it: they are weak (NEP 50)."""
    leaves, tree = structures.flatten(tuple(args), none_is_leaf=True)
    traced = [leaf for leaf in leaves if isinstance(leaf, Tracer)]
    if not any(t.dtype.char in _NARROW.values() for t in traced):
        return args
    weak = {id(t) for t in traced if t.dtype.char in _NARROW and not t.shape and t.asked(lambda v: type(v) in (float, complex))}
    found = [leaf.astype(_NARROW[leaf.dtype.char]) if id(leaf) in weak else leaf for leaf in leaves]
    return structures.unflatten(tree, found)  # type: ignore[no-any-return]


def _count(value: Any) -> int | None:
    """The number of items of a sequence; None for anything else."""
    scalar = isinstance(value, (np.ndarray, Tracer)) and not value.shape
    return None if scalar or isinstance(value, Mapping) or not hasattr(value, "__len__") else len(value)


def _whole(value: Any) -> Any:
    return float(value) if type(value) is int else value


def _fitted(argument: Any, value: Value, playing: Playing, name: str) -> Value:
    """A value of an argument's shape: a vector may stand for a matrix of one column or row."""
    shape = getattr(argument, "shape", None)
    given = getattr(value, "shape", ())
    if shape is None or isinstance(argument, sp.IndexedBase):
        return value
    wanted = tuple(int(n) if getattr(n, "is_Integer", True) else None for n in shape)
    if len(given) == 1 and len(wanted) == 2 and 1 in wanted:
        whole = tuple(given[0] if n != 1 else 1 for n in wanted)
        value, given = playing.call(lambda v: np.reshape(v, whole), value), whole
    if len(given) != len(wanted) or any(n is not None and n != m for n, m in zip(wanted, given, strict=True)):
        raise ArgumentError(f"{playing.origin}: argument {name} has shape {given}; {tuple(shape)} is expected")
    return value


def _extents(leaves: Iterable[Any]) -> set[Any]:
    """The extents of matrices and arrays among leaves."""
    return {n for leaf in leaves for n in getattr(leaf, "shape", None) or ()}


def _flat(arguments: Iterable[Any]) -> Iterable[Any]:
    for argument in arguments:
        if isinstance(argument, (tuple, list)):
            yield from _flat(argument)
        else:
            yield argument


def _floating(value: Any) -> Any:
    if isinstance(value, (bool, np.bool_)):
        return value
    if isinstance(value, (int, np.integer)):
        return float(value)
    if isinstance(value, np.ndarray) and value.dtype.kind in "iu":
        return value.astype(float)
    if type(value) in (list, tuple):
        found = type(value)(map(_floating, value))
        return found if any(map(operator.is_not, found, value)) else value
    return value


def _names(arguments: Sequence[Any]) -> list[str]:
    """Different identifiers for arguments; that of q0, q1, ... is q."""
    names: list[str] = []
    for k, argument in enumerate(arguments):
        name = _several_name(argument, k) if isinstance(argument, (tuple, list)) else identifier(_head_name(argument))
        while name in names or keyword.iskeyword(name):
            name += "_"
        names.append(name)
    return names


def _several_name(arguments: Sequence[Any], place: int) -> str:
    """What several arguments have in common in their names; their place where that is nothing."""
    stems = {_head_name(leaf).rstrip("0123456789_") for leaf in _flat(arguments)}
    stem = stems.pop() if len(stems) == 1 else ""
    return identifier(stem) if stem.isidentifier() else f"arguments{place}"


def _head_name(leaf: Any) -> str:
    return leaf.func.__name__ if isinstance(leaf, AppliedUndef) else sympy_name(leaf)


@function_of_sympy.written
def expression_function(expr: Any, where: str = "") -> Expression:
    """The function of an expression, or of nested ones, that is given to a transform.

    Its arguments are its own symbols in the order of their names; a Lambda's, a polynomial's and a function's are in their own.
    """
    if isinstance(expr, sp.Lambda):
        return Expression(list(expr.signature), expr.expr, where=where)
    if isinstance(expr, FunctionClass):
        implementation = getattr(expr, "_imp_", None)
        several = min(expr.nargs) if isinstance(expr.nargs, sp.FiniteSet) else 1
        count = several if implementation is None else len(inspect.signature(implementation).parameters)
        symbols = sp.symbols(f"x:{count}") if count > 1 else (sp.Symbol("x"),)
        return Expression(symbols, expr(*symbols), identifier(expr.__name__), where=where)
    if isinstance(expr, sp.Poly):
        return Expression(list(expr.gens), expr.as_expr(), where=where)
    return Expression(None, expr, where=where)


# -- lambdify


def lambdify(
    args: Any,
    expr: Any,
    modules: Any = None,
    printer: Any = None,
    use_imps: bool = True,
    dummify: bool = False,
    cse: Any = False,
    docstring_limit: int | None = 1000,
    **options: Any,
) -> Plain:
    """A function of SymPy expressions at machine speed, which every transform takes; the calls of `sympy.lambdify`.

    `args` may be nested, and hold symbols, matrix symbols, applied functions, derivatives, or names; `expr` is an expression, a
    matrix (an array results), a text, or lists, tuples and dictionaries of them. Symbols take numbers or arrays, which
    broadcast. Everything is computed in double precision; of `modules` dictionaries count, by which functions of SymPy are
    replaced, traced like any of the user's. `dummify`, `cse` and `docstring_limit` are taken and change nothing: names are made
    valid, and common parts are computed once, always. `options` are those of every transform. Raises `TraceError` for a head
    that is not known, or a symbol that is not among the arguments.

    >>> import sympy as sp
    >>> x, y = sp.symbols("x y")
    >>> f = lambdify([x, y], sp.sin(x)*y**2)
    >>> f(0.5, 2.0) == 4*np.sin(0.5)
    np.True_
    """
    if printer is not None:
        raise OptionError(f"{user_line()}: lambdify: nothing is printed; give functions by modules={{'name': function}}")
    functions = _replaced(modules)
    if isinstance(args, (set, frozenset)):
        raise OptionError(f"{user_line()}: lambdify: a set has no order; give a list of arguments")
    several = isinstance(args, (str, list, tuple, sp.Tuple, sp.MatrixBase, sp.NDimArray)) or (
        not isinstance(args, sp.Basic) and hasattr(args, "__iter__")
    )
    listed = _arguments(args.replace(",", " ").split() if isinstance(args, str) else list(args) if several else [args])
    symbols = {sympy_name(leaf): leaf for leaf in _flat(listed)}

    def read(leaf: Any) -> Any:
        try:
            with noted_errors():
                return sympy_of_text(leaf, symbols) if isinstance(leaf, str) else leaf
        except TraceError as error:
            raise TraceError(f"{user_line()}: {error}") from None

    return Lambdified(Expression(listed, sympy_leaves(expr, read), "f", functions, use_imps), **options)


class Lambdified(Plain):
    """A function of SymPy expressions, compiled for each kind of its arguments."""


def _arguments(args: Iterable[Any]) -> list[Any]:
    """Arguments as nested lists of SymPy's objects."""
    found: list[Any] = []
    for arg in args:
        if isinstance(arg, str):
            found.append(sp.Symbol(arg))
        elif isinstance(arg, (sp.MatrixBase, sp.NDimArray)):
            found.append(list(arg))
        elif isinstance(arg, (list, tuple, sp.Tuple)):
            found.append(tuple(_arguments(arg)))
        elif isinstance(arg, sp.Basic):
            found.append(arg)
        else:
            kind = type(arg).__name__
            raise OptionError(f"{user_line()}: lambdify: an argument is a symbol or a sequence of them, not {kind}")
    return found


def _replaced(modules: Any) -> dict[str, Callable[..., Any]]:
    """The functions that dictionaries among modules give, the first ones first."""
    found: dict[str, Callable[..., Any]] = {}
    for module in modules if isinstance(modules, (list, tuple)) else [] if modules is None else [modules]:
        if isinstance(module, Mapping):
            found = {str(k): f for k, f in module.items() if callable(f)} | found
            continue
        name = module if isinstance(module, str) else getattr(module, "__name__", "")
        if name not in _MODULES:
            raise OptionError(f"{user_line()}: lambdify: modules={module!r}: a dictionary of functions is possible, or numpy")
    return found
