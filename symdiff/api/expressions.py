"""What transforms take beside functions: graphs, and SymPy's expressions in nested containers.

Assumes that who gives an expression of SymPy's has imported it. Guarantees a callable that appends the same bindings to every
trace, with a signature of its own. Refuses what is neither.
"""

import inspect
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

from symdiff.errors import ShapeError, TraceError
from symdiff.ir.building import active_builders
from symdiff.ir.graph import Graph, spliced
from symdiff.ir.hidden import hidden_of, visible_input_count
from symdiff.tracing.replaying import decide_again, replay
from symdiff.tracing.values.operands import holds_traced
from symdiff.tracing.values.tracer import traced_atom
from symdiff.vocabulary import structures
from symdiff.vocabulary.choices import is_integer_option
from symdiff.vocabulary.libraries import user_line
from symdiff.vocabulary.seams import Seam

function_of_sympy = Seam("a function of SymPy expressions")


class Formula:
    """A function that is written down rather than run: each call appends its bindings to the running trace."""

    __name__: str
    __signature__: inspect.Signature
    where: str

    def place(self, wanted: Any) -> int:
        """The position of an argument by its name."""
        names = list(self.__signature__.parameters)
        if wanted in names:
            return names.index(wanted)
        raise ShapeError(f"{user_line()}: argnums={wanted!r}: the arguments are {', '.join(names)}")

    def taken(self, position: int, value: Any) -> Any:
        """An argument, as it is traced."""
        return value

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The result over traced values."""
        raise NotImplementedError


class GraphFunction(Formula):
    """A graph as a function of its inputs."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.__name__ = graph.name
        self.__doc__ = graph.doc or None
        self.where = graph.origin or user_line()
        names = [leaf.name for leaf in graph.inputs[: visible_input_count(graph)]]
        self.__signature__ = inspect.Signature([inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in names])

    def taken(self, position: int, value: Any) -> Any:
        """An argument: all inputs of a graph are floating numbers."""
        return float(value) if is_integer_option(value) else value

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The graph's bindings over traced values; over plain ones, its values."""
        try:
            args = self.__signature__.bind(*args, **kwargs).args
        except TypeError as error:
            raise ShapeError(f"{user_line()}: {self.__name__}: {error}; the inputs are {self.__signature__}") from None
        builders = active_builders()
        if not builders:
            return self.graph(*args)
        graph, builder = self.graph, builders[-1]
        sources = hidden_of(graph).fill(args, len(graph.inputs))
        for leaf, source in zip(graph.inputs, sources, strict=True):
            atom = traced_atom(source, builder, self.where)
            if atom.shape != leaf.shape or ((atom.dtype or "d") in "FD") > (leaf.dtype in "FD"):
                wanted = f"{leaf.name} of {graph.name} is {leaf.dtype}{leaf.shape}"
                raise ShapeError(f"{user_line()}: {wanted}; {atom.dtype}{atom.shape} is given")
        decide_again(graph, sources, builder, user_line())
        found = replay(graph, sources, builder, self.where)
        if graph.out_tree is not None:
            return structures.unflatten(graph.out_tree, found)
        return found[0] if len(found) == 1 else tuple(found)


@spliced.written
def splice(graph: Graph, args: tuple[Any, ...]) -> Any:
    """The value of a graph in a running trace where an argument is traced, else NotImplemented."""
    return GraphFunction(graph)(*args) if any(map(holds_traced, args)) else NotImplemented


def is_of_sympy(value: Any) -> bool:
    """Whether a value is an expression of SymPy's, or a container that holds one."""
    sympy = sys.modules.get("sympy")
    if sympy is None:
        return False
    kinds = (sympy.Basic, sympy.MatrixBase, sympy.NDimArray, sympy.FunctionClass)
    if isinstance(value, kinds):
        return True
    if callable(value):
        return False
    if isinstance(value, dict):
        value = tuple(value.values())
    return isinstance(value, (list, tuple)) and any(map(is_of_sympy, value))


def argument_function(f: Any) -> Any:
    """What a transform is given, as a function: one of an expression of SymPy's or of a graph, else as it is."""
    if type(f) is types.FunctionType:
        return f
    if isinstance(f, Graph):
        return GraphFunction(f)
    if is_of_sympy(f):
        return function_of_sympy(f)
    if not callable(f):
        raise TraceError(f"{user_line()}: {type(f).__name__} is not a function")
    return f


def formula_of(f: Callable[..., Any]) -> Formula | None:
    """The formula that a function, or a derivative of one, is made of."""
    inner = inspect.unwrap(f) if hasattr(f, "__wrapped__") else f
    return inner if isinstance(inner, Formula) else None


def argument_positions(formula: Formula, argnums: Any) -> int | Sequence[int]:
    """Positions of arguments that are given as positions, symbols or names."""
    if isinstance(argnums, (list, tuple, range)):
        return tuple(n if is_integer_option(n) else formula.place(n) for n in argnums)
    return argnums if is_integer_option(argnums) else formula.place(argnums)
