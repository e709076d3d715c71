"""The kinds of derivative: what each makes of a traced function's Graph, and the structure of its result.

Assumes the machinery of `functions`. Guarantees results in the structures of the arguments and of the function's own
result, nested as in JAX. Refuses nothing of its own; `differentiation.transforming` does.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from symdiff.api.arguments import Call, is_differentiable_argument, is_integer_argument
from symdiff.api.functions import Function, transform_tree
from symdiff.differentiation import transforming
from symdiff.differentiation.series import taylor_series
from symdiff.errors import ShapeError
from symdiff.ir.graph import Graph
from symdiff.pipeline import program_of
from symdiff.tracing.trace import Spec
from symdiff.tracing.values.tracer import Tracer
from symdiff.vocabulary import structures


class Gradient(Function):
    suffix = "grad"

    def derive(self, graph: Graph, wrt: list[int]) -> Graph:
        return transforming.gradient(graph, wrt, self._rules(), False)

    def tree(self, call: Call, graph: Graph) -> Any:
        return transform_tree(self._by_argument(call))


class ValueAndGradient(Function):
    suffix = "value_and_grad"

    def derive(self, graph: Graph, wrt: list[int]) -> Graph:
        return transforming.gradient(graph, wrt, self._rules(), True)

    def tree(self, call: Call, graph: Graph) -> Any:
        return transform_tree((0, self._by_argument(call)))


class Jacobian(Function):
    suffix = "jacobian"
    has_columns = True
    choices = ("mode",)

    def __init__(self, f: Callable[..., Any], argnums: int | Sequence[int] = 0, **options: Any) -> None:
        super().__init__(f, argnums, **options)
        self.mode = options.get("mode", "auto")

    def derive(self, graph: Graph, wrt: list[int]) -> Graph:
        def operations(candidate: Graph) -> int:
            return program_of(candidate, self.options).operations()

        return transforming.jacobian(graph, wrt, self._rules(), self.mode, operations)

    def tree(self, call: Call, graph: Graph) -> Any:
        return transform_tree(structures.map_leaves(lambda _: self._by_argument(call), _result(graph)))


class Hessian(Function):
    suffix = "hessian"
    has_columns = is_second = True

    def derive(self, graph: Graph, wrt: list[int]) -> Graph:
        return transforming.hessian(graph, wrt, self._rules())

    def tree(self, call: Call, graph: Graph) -> Any:
        return transform_tree(self._by_argument(call, self._by_argument(call)))


class Pushforward(Function):
    suffix = "jvp"
    keeps_signature = False
    extra = 1
    extra_name = "tangent"

    def extra_structure(self, call: Call, primal: Graph) -> Any:
        """The structure of what stands after the arguments, 0 at each leaf."""
        return self._by_argument(call)

    def extra_places(self, call: Call) -> list[int]:
        """Those for each differentiated leaf; settings among them have no tangent."""
        args = structures.unflatten(call.tree, range(len(call.leaves)))[0]
        places = structures.leaves(args[self.argnums] if isinstance(self.argnums, int) else [args[n] for n in self.argnums])
        given = structures.leaves(call.extra, none_is_leaf=True)
        moving = [k for k, leaf in enumerate(given) if is_differentiable_argument(leaf)]
        if len(given) == len(places):
            chosen = set(call.wrt)
            moving = [k for k, place in enumerate(places) if place in chosen]
            self._check_settings([leaf for leaf, place in zip(given, places, strict=True) if place not in chosen])
        if len(moving) != len(call.wrt) or not all(is_differentiable_argument(given[k]) for k in moving):
            names = ", ".join(call.paths[i] for i in call.wrt)
            raise ShapeError(f"{self.where}: {self.__name__}: the {self.extra_name} is one number or array each for {names}")
        return moving

    def _check_settings(self, leaves: list[Any]) -> None:
        for leaf in leaves:
            if (
                is_differentiable_argument(leaf)
                and not is_integer_argument(leaf)
                and (isinstance(leaf, (Tracer, Spec)) or np.any(leaf))
            ):
                raise ShapeError(
                    f"{self.where}: {self.__name__}: the {self.extra_name} has {leaf!r} for an integer beside floating ones, "
                    "which is a setting and has no derivative; give None there, or a floating number in the argument"
                )

    def derive(self, graph: Graph, wrt: list[int]) -> Graph:
        return transforming.push_tangents(graph, wrt, self._rules())

    def tree(self, call: Call, graph: Graph) -> Any:
        result = _result(graph)
        return transform_tree((result, result))


class Taylor(Pushforward):
    suffix = "taylor"
    keeps_loops = False
    choices = ("order",)
    extra_name = "direction"

    def __init__(self, f: Callable[..., Any], argnums: int | Sequence[int] = 0, **options: Any) -> None:
        super().__init__(f, argnums, **options)
        self.order = int(options.get("order", 1))

    def derive(self, graph: Graph, wrt: list[int]) -> Graph:
        return taylor_series(graph, wrt, self.order, self._rules())

    def tree(self, call: Call, graph: Graph) -> Any:
        return transform_tree((_result(graph),) * (self.order + 1))


class Pullback(Pushforward):
    suffix = "vjp"
    extra_name = "cotangent"
    extra_places = Function.extra_places

    def extra_structure(self, call: Call, primal: Graph) -> Any:
        return _result(primal)

    def derive(self, graph: Graph, wrt: list[int]) -> Graph:
        return transforming.pull_cotangents(graph, wrt, self._rules())

    def tree(self, call: Call, graph: Graph) -> Any:
        return transform_tree((_result(graph), self._by_argument(call)))


class HessianProduct(Pushforward):
    suffix = "hvp"
    extra_name = "v"

    def derive(self, graph: Graph, wrt: list[int]) -> Graph:
        return transforming.hessian_product(graph, wrt, self._rules())

    def tree(self, call: Call, graph: Graph) -> Any:
        return transform_tree(self._by_argument(call))


class Wirtinger(Function):
    suffix = "wirtinger"
    has_columns = True

    def derive(self, graph: Graph, wrt: list[int]) -> Graph:
        return transforming.wirtinger(graph, wrt, self._rules())

    def tree(self, call: Call, graph: Graph) -> Any:
        each = structures.map_leaves(lambda _: self._by_argument(call), _result(graph))
        return transform_tree((each, each))


def _result(graph: Graph) -> Any:
    """The structure of a function's result, 0 at each leaf."""
    return 0 if graph.out_tree is None else structures.unflatten(graph.out_tree, [0] * len(graph.outputs))
