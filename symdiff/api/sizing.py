"""Graphs for any size: traces at some sizes that stand for all, and the sizes between which they do.

Assumes arguments among which `Spec`s name sizes. A function is traced, and differentiated, at some numbers for them; one graph
is made of these, and held against further traces: at the smallest sizes, where broadcasting and squeezing differ, at sizes
that follow each other, at equal ones, and at large ones. Guarantees a graph that has the value of the function's own at all
of these; where it begins or ceases to be, is found by halving and becomes a bound of the size. Refuses, with `TraceError` at
the user's line, functions whose graph is another one at each size.
"""

import itertools
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from symdiff.errors import SymdiffError, TraceError, forgive_error
from symdiff.ir.evaluating import binding_values
from symdiff.ir.generalising import FIRST, Differs, Sample, generalised_graph
from symdiff.ir.graph import Graph
from symdiff.ir.hidden import hidden_of
from symdiff.tracing.trace import Spec
from symdiff.vocabulary import structures
from symdiff.vocabulary.extents import Amount, Example, Extent, Size, extents_in, names_in_extents, numbers
from symdiff.vocabulary.libraries import is_library

SMALL = (0, 1, 2, 3, 4, 5, 8, 16)
LARGE = (257, 1009)
LARGEST = 10**5  # that is tried
COUNTED = 3  # rounds of a loop that counts them, at which rows and shapes are looked at
ROW = 4  # sizes after the first that are tried, too: an even one, a multiple of 3, ...
NEAR = 1e-9  # of values that are compared where graphs are built otherwise
Graphs = tuple[Graph, ...]


def named_extents(leaves: Sequence[Any]) -> list[Extent]:
    """The extents of arguments that are expressions of named sizes."""
    return [n for leaf in leaves if isinstance(leaf, Spec) for n in leaf.shape if isinstance(n, Extent)]


def at_sizes(value: Any, sizes: Mapping[str, int]) -> Any:
    """Arguments with numbers in place of named sizes."""
    return structures.map_leaves(lambda v: Spec(numbers(v.shape, sizes), v.dtype) if isinstance(v, Spec) else v, value)


def graphs_for_sizes(where: str, leaves: Sequence[Any], traced: Callable[[Mapping[str, int]], Graphs]) -> Graphs:
    """What `traced` gives at numbers for the sizes that arguments name, for any numbers within the bounds of the sizes."""
    return _Family(where, named_extents(leaves), traced).found()


class _Family:
    """The graphs of a function at several sizes."""

    def __init__(self, where: str, extents: list[Extent], traced: Callable[[Mapping[str, int]], Graphs]) -> None:
        self.where = where
        self.extents = extents
        self.traced = traced
        self.names = list(dict.fromkeys(size.name for n in extents for size, _ in n.terms))
        if len(self.names) > len(FIRST):
            raise TraceError(f"{where}: {len(self.names)} named sizes ({', '.join(self.names)}); {len(FIRST)} are possible")
        orders = (dict(zip(self.names, order, strict=False)) for order in (FIRST, FIRST[: len(self.names)][::-1]))
        self.first = next((sizes for sizes in orders if self.possible(sizes)), {})
        if not self.first:
            raise TraceError(f"{where}: sizes {', '.join(map(str, extents))} of arguments: one of them would be negative")
        self.core: list[tuple[Mapping[str, int], Graphs]] = []

    def possible(self, sizes: Mapping[str, int]) -> bool:
        """Whether no argument has a negative size."""
        return all(n.at(sizes) >= 0 for n in self.extents)

    def found(self) -> Graphs:
        """The graphs for any size."""
        together = {name: n + 3 + k for k, (name, n) in enumerate(self.first.items())}
        for sizes in (self.first, *({**self.first, name: n + 1} for name, n in self.first.items()), together):
            self.core.append((sizes, self.at(sizes)))
        self.merged([Size(name, 0) for name in self.names])
        asked = self.asked()
        bounded = [self.bounded(name, asked) for name in self.names]
        smallest = {size.name: size.least for size in bounded}
        equal = [{**self.first, a: self.first[b]} for a, b in itertools.combinations(self.names, 2)]
        turned = dict(zip(self.names, reversed(self.first.values()), strict=True))
        for sizes in [*equal, turned, *([smallest] if len(bounded) > 1 else [])]:
            if self.possible(sizes) and self.within(sizes, bounded) and (problem := self.problem(sizes)) is not None:
                raise problem
        return self.merged(bounded)

    def within(self, sizes: Mapping[str, int], bounded: Sequence[Size]) -> bool:
        return all(size.least <= sizes[size.name] and (size.most is None or sizes[size.name] <= size.most) for size in bounded)

    def at(self, sizes: Mapping[str, int]) -> Graphs:
        """The graphs at some sizes; what the function raises there names them."""
        try:
            return self.traced(sizes)
        except Exception as error:
            told = ", ".join(f"{name} = {n}" for name, n in sizes.items())
            if isinstance(error, SymdiffError):
                error.add_note(f"traced with {told}")
                raise
            raise TraceError(f"{self.where}: with {told}: {type(error).__name__}: {error}") from error

    def merged(self, sizes: Sequence[Size], *others: tuple[Mapping[str, int], Graphs]) -> Graphs:
        """The graphs at the core sizes, and at others, as one for all. Raises `Differs`."""
        columns = [*self.core, *others]
        count = len(self.core[0][1])
        return tuple(generalised_graph([Sample(at, graphs[k]) for at, graphs in columns], sizes) for k in range(count))

    def problem(self, sizes: Mapping[str, int]) -> TraceError | None:
        """Why the graphs are not the function's at some sizes; None where they are."""
        try:
            graphs = self.at(sizes)
        except SymdiffError as error:
            forgive_error(error)
            return TraceError(str(error))
        try:
            self.merged([Size(name, 0) for name in self.names], (sizes, graphs))
        except Differs as error:
            return None if self.agree(sizes, graphs) else error
        return None

    def agree(self, sizes: Mapping[str, int], graphs: Graphs) -> bool:
        """Whether the graphs for any size have the values of those at some sizes, which are built otherwise."""
        if max(sizes.values()) > max(FIRST):
            return False
        general = self.merged([Size(name, 0) for name in self.names])
        extents = [n for graph in general for n in _extents(graph)]
        if any(n.at(dict.fromkeys(names_in_extents(n), rounds) | sizes) < 0 for n in extents for rounds in (0, COUNTED)):
            return False
        return all(_same_values(one, other, sizes) for one, other in zip(general, graphs, strict=True))

    def asked(self) -> list[Amount]:
        """What the function compares with 0, in terms of the sizes."""
        found: list[Amount] = []
        watched = _watched(found)
        self.at({name: watched(n, Amount({(name,): 1})) for name, n in self.first.items()})
        return list(dict.fromkeys(found))

    def near(self, name: str, amount: Amount) -> list[int]:
        """The sizes around that at which an amount is 0."""
        zero, one, two = (amount.at({**self.first, name: n}) for n in range(3))
        if one == zero or two - one != one - zero:
            return []
        place = -zero // (one - zero)
        return [n for n in range(place - 1, place + 3) if 0 <= n <= LARGEST]

    def bounded(self, name: str, asked: list[Amount]) -> Size:
        """A size with the bounds between which the graphs are the function's."""
        first = self.first[name]
        known: dict[int, TraceError | None] = {first: None}

        def problem(n: int) -> TraceError | None:
            if n not in known:
                known[n] = self.problem({**self.first, name: n})
            return known[n]

        more = {n for amount in asked for n in self.near(name, amount) if n != first}
        sizes = (*SMALL, *range(first + 1, first + 1 + ROW), *LARGE, *more)
        tried = [n for n in sizes if self.possible({**self.first, name: n})]
        joint = {n for amount in asked if len(amount.names()) > 1 for n in self.near(name, amount)}
        for n in sorted(joint.intersection(tried)):
            if problem(n) is not None:  # it depends on how two sizes compare, which no bound of one says
                raise problem(n)  # type: ignore[misc]
        failing = [n for n in tried if problem(n) is not None]
        low = max((n for n in failing if n < first), default=-1)
        high = min((n for n in failing if n > first), default=None)
        if high is not None and high <= first + ROW:  # or from that size on by chance
            raise known[high]  # type: ignore[misc]
        least = self.possible_least(name) if low < 0 else _edge(low, min(n for n in tried if n > low), problem)
        most = None if high is None else _edge(high, max(n for n in (*tried, first) if n < high), problem)
        return Size(name, least, most)

    def possible_least(self, name: str) -> int:
        """The smallest number for a size at which no argument has a negative one."""
        return next(n for n in itertools.count() if self.possible({**self.first, name: n}))


def _watched(asked: list[Amount]) -> type[Example]:
    """Numbers that note what the user's code compares them with."""

    class Watched(Example):
        def _note(self, *others: Any) -> None:
            path = sys._getframe(2).f_code.co_filename
            users = not is_library(path) or os.path.dirname(path).endswith("following")  # what his operators are there
            for other in others if users and len(self.amounts) == 1 else ():
                if isinstance(other, (int, float)) and math.isfinite(other):
                    amount = other.amounts if isinstance(other, Example) else (Amount.of(math.floor(other)),)
                    asked.extend(own + a * -1 for own in self.amounts for a in amount)

        def __eq__(self, other: object) -> bool:
            self._note(other)
            return int(self) == other

        def __ne__(self, other: object) -> bool:
            self._note(other)
            return int(self) != other

        def __lt__(self, other: Any) -> bool:
            self._note(other)
            return int(self) < other

        def __le__(self, other: Any) -> bool:
            self._note(other)
            return int(self) <= other

        def __gt__(self, other: Any) -> bool:
            self._note(other)
            return int(self) > other

        def __ge__(self, other: Any) -> bool:
            self._note(other)
            return int(self) >= other

        def __mod__(self, other: Any) -> Any:
            number = int(self)
            self._note(*(number - number % other + other * k for k in range(2) if isinstance(other, int) and other))
            return number % other

        __hash__ = int.__hash__

    return Watched


def _extents(graph: Graph) -> Iterator[Extent]:
    """The shapes' extents in a graph, and its loops' numbers of rounds."""
    for binding in graph.bindings:
        yield from extents_in(binding.shape)
        if binding.op == "loop":
            yield from extents_in((binding.params.rounds,))
            yield from _extents(binding.params.body)


def _edge(bad: int, good: int, problem: Callable[[int], Any]) -> int:
    """The good number next to a bad one."""
    while abs(good - bad) > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if problem(middle) is None else (good, middle)
    return good


def _same_values(general: Graph, graph: Graph, sizes: Mapping[str, int]) -> bool:
    """Whether two graphs have the same results at some arguments of the second, and the first all shapes that it says."""
    rng, hidden = np.random.default_rng(0), hidden_of(graph)
    own = [leaf for k, leaf in enumerate(graph.inputs) if not 0 <= k - hidden.place < len(hidden.arrays)]
    for low, high in ((0.5, 1.5), (-2.0, 2.0)):
        args = [rng.uniform(low, high, leaf.shape).astype(leaf.dtype) for leaf in own]
        try:
            found, expected = (structures.leaves(g(*args)) for g in (general, graph))
            values = binding_values(general, tuple(args))
        except Exception as error:
            if isinstance(error, SymdiffError):
                forgive_error(error)
            return False
        if any(b.op != "loop" and np.shape(values[b]) != numbers(b.shape, sizes) for b in general.bindings):
            return False  # a slice is cut short, a size of 1 is spread
        if not _has_its_rows(general, sizes):
            return False
        for a, b in zip(found, expected, strict=True):
            if np.shape(a) != np.shape(b) or not np.allclose(a, b, NEAR, NEAR, equal_nan=True):
                return False
    return True


def _has_its_rows(graph: Graph, sizes: Mapping[str, int]) -> bool:
    """Whether the rows that loops read and give are among those that there are; `COUNTED`, where rounds are counted."""
    for binding in graph.bindings:
        if binding.op != "loop":
            continue
        loop = binding.params
        sizes = dict.fromkeys(names_in_extents(loop.rounds), COUNTED) | dict(sizes)
        arrays = [(p, o.shape[0]) for p, o in zip(loop.places(), binding.operands, strict=True) if p is not None]
        rounds = numbers(loop.rounds, sizes)
        for place, size in [*arrays, *loop.stacks] if rounds else ():
            rows = [numbers(place.at(k), sizes) for k in (0, rounds - 1)]
            if min(rows) < 0 or max(rows) >= numbers(size, sizes):
                return False
        if not _has_its_rows(loop.body, sizes):
            return False
    return True
