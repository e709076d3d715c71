"""The arguments of one call: flattened, and which leaves are traced and which differentiated.

Assumes a `Function`'s own arguments, then those that its transform adds. Guarantees leaves in the order of the structure.
Refuses, with errors that name the function's file and line, arguments that do not fit it or hold no number.
"""

import copy
import enum
import itertools
from collections.abc import Container, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from symdiff.api.forms import INTEGERS, Form, Taking
from symdiff.errors import ShapeError, TraceError
from symdiff.tracing.trace import OwnArray, PointNumber, Spec, TracedSpec, is_static, traced_argument_paths
from symdiff.tracing.values.kinds import NUMPY, PYTHON
from symdiff.tracing.values.tracer import Tracer
from symdiff.vocabulary import structures
from symdiff.vocabulary.choices import check_call
from symdiff.vocabulary.extents import Extent, numbers
from symdiff.vocabulary.plain import check_digits, check_plain

_PLAIN = (int, float, complex, str, bytes, type(None), np.ndarray, np.generic, Tracer, Spec)
_HOST = frozenset({np.ndarray, float, int, complex, np.float64, np.float32, np.complex128, np.complex64})


class Call:
    """Arguments of one call, flattened: leaves, structure, which leaves are traced and which differentiated."""

    __slots__ = ("extra", "given", "has_settings", "is_foreign", "leaves", "marks", "paths", "traced", "tree", "whole", "wrt")

    def __init__(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], extra: int = 0) -> None:
        count = len(args) - extra
        if count < 0:
            raise ShapeError(f"{function.where}: {function.name} needs its arguments and then {extra} more")
        self.extra = args[count:]
        self.whole = False  # arrays stay whole and loops are kept, as for any size
        own = args[:count]
        if function.expression is not None:
            own = tuple(function.expression.taken(k, arg) for k, arg in enumerate(own))
        check_call(function.signature, f"{function.name} ({function.where})", own, kwargs)
        own, kwargs = _placed(function, own, kwargs)
        count = len(own)
        self.given = own, kwargs
        self.leaves, self.tree, self.marks = structures.structure_taken_apart(own, kwargs)
        self.paths = traced_argument_paths(function.f, own, kwargs)
        groups: list[int] = []
        for position, arg in enumerate(own):
            groups += [position] * structures.structure(arg, none_is_leaf=True).num_leaves
        groups += [-1] * (len(self.leaves) - len(groups))
        wanted = function.positions(count)
        self.wrt = [i for n in wanted for i in _chosen([i for i, g in enumerate(groups) if g == n], self.leaves)]
        chosen = set(self.wrt)
        self.leaves = [leaf if i in chosen else _as_traced(leaf) for i, leaf in enumerate(self.leaves)]
        self.traced = [i for i, leaf in enumerate(self.leaves) if i in chosen or not is_static(leaf)]
        check_plain(function.where, *(self.leaves[i] for i in self.traced))
        check_digits(function.where, *(self.leaves[i] for i in self.traced))
        if not self.wrt and function.differentiates:
            kinds = ", ".join(dict.fromkeys(type(own[n]).__name__ for n in wanted if n < count))
            raise TraceError(
                f"{function.where}: {function.name}: argument {function.argnums} ({kinds}) holds no float, complex number or "
                "array of them"
            )
        # Whether some leaves are no inputs, or are although they hold integers or truths; bytes stand in another order.
        self.has_settings = len(self.traced) < len(self.leaves) or any(map(is_own, self.leaves))
        self.is_foreign = any(isinstance(leaf, np.ndarray) and not leaf.dtype.isnative for leaf in self.leaves)

    def form(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Form | None:
        """The form of the arguments of this call; None where the function's own are others than those."""
        count = len(args) - len(self.extra)
        given, tree, marks = structures.structure_taken_apart((*args, *kwargs.values()), {})
        sizes = [part.num_leaves for part in tree.children()[0].children()]
        leaves = [range(end - size, end) for size, end in zip(sizes, itertools.accumulate(sizes), strict=True)]
        names = dict(zip(kwargs, range(len(args), len(sizes)), strict=True))
        placed = structures.leaves(_placed(function, tuple(range(count)), names))
        order = list(itertools.chain.from_iterable(leaves[k] for k in placed))
        first = leaves[count].start if self.extra else 0
        more = [first + k for k in function.extra_places(self)]
        own = {k: _own_dtype(given[k], leaf) for k, leaf in zip(order, self.leaves, strict=False)}
        own |= {k: _own_dtype(given[k], given[k]) for k in more}
        same = len(order) == len(self.leaves) and all(
            leaf is given[k] or own[k] is not None for k, leaf in zip(order, self.leaves, strict=True)
        )
        if not same:
            return None
        traced = [*(order[i] for i in self.traced), *more]
        fixed = tuple(sorted({*range(len(given))} - {*traced}))
        taking = Taking(tree, marks)
        return Form(
            fixed, tuple((k, own.get(k)) for k in traced), None if taking.is_flat else taking, function.asks_kinds, order
        )

    @property
    def given_leaves(self) -> list[Any]:
        """The leaves as they are given."""
        return structures.all_leaves(self.given)

    def setting(self, place: int) -> Any:
        """What stands in results for a leaf that is no input, or one whose numbers are told at each call."""
        return structures.Setting(place) if is_own(self.leaves[place]) else self.leaves[place]

    def standing_for(self, function: Any, own: tuple[Any, ...], kwargs: dict[str, Any]) -> "Call":
        """The same call for arguments in whose places stand those of one point."""
        found = copy.copy(self)
        found.given = _placed(function, own, kwargs)
        found.marks = structures.structure_taken_apart(*found.given)[2]
        return found

    def with_inputs(self, places: Container[int]) -> "Call":
        """The same call, its integers and arrays of integers and truths at these places as inputs."""
        found = copy.copy(self)
        found.leaves = [_own(leaf) if k in places else leaf for k, leaf in enumerate(self.leaves)]
        found.traced = [k for k in range(len(self.leaves)) if k in places or k in self.traced]
        return found

    def is_sized(self) -> bool:
        """Whether there are `Spec`s that name sizes among the arguments."""
        return any(isinstance(v, Spec) and any(isinstance(n, Extent) for n in v.shape) for v in self.leaves)

    def at(self, sizes: Mapping[str, int]) -> "Call":
        """The same call with numbers for sizes."""
        found = copy.copy(self)
        found.leaves = [replace(v, shape=numbers(v.shape, sizes)) if isinstance(v, Spec) else v for v in self.leaves]
        found.whole = True
        return found

    def point(self) -> tuple[tuple[str, Any], ...]:
        """The numbers among the traced leaves, with their paths."""
        leaves = ((self.paths[i], self.leaves[i]) for i in self.traced)
        return tuple((path, leaf) for path, leaf in leaves if isinstance(leaf, (int, float, complex)))


def _as_traced(leaf: Any) -> Any:
    """What stands for an argument that is not differentiated; that for integers and truths is traced as such."""
    own = np.dtype(leaf.dtype) if type(leaf) is Spec else None
    return leaf if own is None or own.kind not in "iub" else TracedSpec(leaf.shape, np.dtype(float), own=own)


def is_own(leaf: Any) -> bool:
    """Whether a leaf is an input although it holds integers or truths."""
    return type(leaf) in (OwnArray, PointNumber)


def _own(leaf: Any) -> Any:
    if isinstance(leaf, np.ndarray):
        return OwnArray.of(leaf)
    return PointNumber(leaf, np.dtype(type(leaf)), PYTHON if type(leaf) is int else NUMPY)


def _own_dtype(value: Any, leaf: Any) -> np.dtype | None:
    """The dtype of an argument that counts as numbers although it holds integers or truths, where it is traced as `leaf`."""
    return np.dtype(int) if isinstance(value, INTEGERS) else leaf.own if type(leaf) is OwnArray else None


def _placed(function: Any, own: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments, those that are differentiated by position although they are given by name in their places."""
    wanted = (function.argnums,) if isinstance(function.argnums, int) else function.argnums
    if not kwargs or function.signature is None or not function.differentiates or max(wanted, default=-1) < len(own):
        return own, kwargs
    names = [p.name for p in function.signature.parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    for name in names[len(own) : max(wanted) + 1]:
        if name not in kwargs:
            break
        own, kwargs = (*own, kwargs[name]), {k: v for k, v in kwargs.items() if k != name}
    return own, kwargs


def _chosen(places: list[int], leaves: list[Any]) -> list[int]:
    """The leaves of an argument that are differentiated: integers beside floating ones are settings, and stay as they are."""
    found = [i for i in places if is_differentiable_argument(leaves[i])]
    floating = [i for i in found if not is_integer_argument(leaves[i])]
    return floating or found


def is_integer_argument(leaf: Any) -> bool:
    """Whether a leaf is an integer or an array of integers."""
    if isinstance(leaf, (np.ndarray, np.generic)):
        return leaf.dtype.kind in "iu"
    return isinstance(leaf, int)


def is_differentiable_argument(leaf: Any) -> bool:
    """Whether a leaf is a number or an array of numbers."""
    if isinstance(leaf, (bool, str, bytes, np.bool_, type(None), enum.Enum)):
        return False
    if isinstance(leaf, (np.ndarray, np.generic)):
        return leaf.dtype.kind in "iufcO"
    return isinstance(leaf, (int, float, complex, Tracer, Spec))


def is_device_array(value: Any) -> bool:
    """Whether a value lives on a GPU: a CuPy array, or another package's array that CuPy can look at."""
    if isinstance(value, _PLAIN):
        return False
    if is_of_cupy(value):  # which would build the whole interface to say that it has one
        return hasattr(type(value), "__cuda_array_interface__")
    return hasattr(value, "__cuda_array_interface__")


def is_of_cupy(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "cupy"


def on_device(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether there is a device array among the leaves of arguments."""
    if not kwargs and all(type(arg) in _HOST for arg in args):
        return False
    return any(map(is_device_array, structures.leaves((args, kwargs), none_is_leaf=True)))


def point_shape(shape: tuple[int, ...], axis: int | None) -> tuple[int, ...]:
    """The shape of one of the points along an axis."""
    return shape if axis is None else shape[1:] if axis == 0 else shape[:-1]


def points_shape(shape: tuple[int, ...], axis: int | None, count: int) -> tuple[int, ...]:
    """The shape of so many points."""
    return shape if axis is None else (count, *shape) if axis == 0 else (*shape, count)


def point_of(array: Any, axis: int | None, k: int) -> Any:
    """One of the points along an axis."""
    return array if axis is None else array[k if axis == 0 else (..., k)]


def common_points(where: str, counts: dict[int, str]) -> int:
    """The number of points, from those that arguments have. Raises `ShapeError` where they differ."""
    if len(counts) != 1:
        listed = ", ".join(f"{n} in {name}" for n, name in counts.items()) or "none"
        raise ShapeError(f"{where}: the arguments have different numbers of points: {listed}")
    return next(iter(counts))


def arrays_of_out(where: str, out: Any, tree: Any, count: int) -> list[Any]:
    """The arrays of `out` for results of a structure, in order. Raises `ShapeError` for another structure."""
    place = object()
    shown = place if tree is None else structures.unflatten(tree, [place] * count)
    places, expected = structures.flatten(shown, none_is_leaf=True)
    given, found = structures.flatten(out, none_is_leaf=True)
    if found != expected:
        raise ShapeError(f"{where}: out has structure {found}, {expected} expected")
    return [leaf for leaf, wanted in zip(given, places, strict=True) if wanted is place]
