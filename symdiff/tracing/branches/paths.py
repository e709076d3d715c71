"""Runs a function once for each way that its conditions on traced values can turn out, and makes one Graph of the runs.

Assumes a function that does the same whenever it is run with the same conditions. Guarantees a merged graph that is right
at every argument, of up to `LIMIT` paths, impossible ones left out; or, at given arguments, the path taken there together
with its conditions. Refuses, with `TraceError`, what can become neither.
"""

import math
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from symdiff.errors import PathsError, SymdiffError, TraceError
from symdiff.ir.branches import KEY, Branches, graph_exception
from symdiff.ir.building import Builder
from symdiff.ir.evaluating import applied
from symdiff.ir.graph import Graph, GraphOutput
from symdiff.ir.node import Atom, Constant, Node
from symdiff.simplification.conditions import Conditions
from symdiff.simplification.equalities import Thinness, agree
from symdiff.simplification.interning import Numbered, Values
from symdiff.simplification.intervals import Fact
from symdiff.tracing.branches.merging import Fork, Leaf, Tree, joined_paths, leaves, raising
from symdiff.tracing.captures.restoring import Outside
from symdiff.tracing.state.nesting import Endless
from symdiff.tracing.state.raising import check_signal, is_awaited
from symdiff.vocabulary.libraries import Line, name_unless_library

LIMIT = 64  # paths of one function that are merged
MERGED = 20_000  # bindings of all paths together that are merged where one path would do: half a second of tracing
ASKED = 10_000  # conditions of one path, decided ones included, after which paths are not merged: a loop may be endless
ASIDE = 16  # equalities met on one path that are looked at one after the other


class Unmergeable(BaseException):
    """The paths of a function cannot be merged. Not an `Exception`, so that the user's own handlers let it pass."""

    def __init__(self, reason: str, error: SymdiffError | None = None, many: bool = False) -> None:
        super().__init__(reason)
        self.error = error
        self.many = many  # whether there are too many
        self.first = math.inf  # how many conditions the first one has


@dataclass(frozen=True, slots=True)
class Decision:
    """A condition, by its number in the table, and how it turned out; `last` where the other way was taken before.

    `thin`: one way holds on a set without inside, as `x == c` does.
    """

    condition: int
    value: bool
    origin: str
    last: bool = False
    thin: bool = False


@dataclass(slots=True)
class Run:
    """What one run of the function gave."""

    builder: Builder
    outputs: tuple[GraphOutput, ...]
    out_tree: Any


class Path:
    """The conditions of one run: the first ones as they are forced, later ones true unless earlier ones decide them.

    With `given`, the values of the inputs, they turn out as they do there; but equalities that are met there are not, where
    `beside` has their numbers, or is None for all.
    """

    is_round = False  # of a loop that may be kept
    is_needed = False  # whether one path alone will not do, as in files

    def __init__(
        self,
        values: Values,
        forced: tuple[Decision, ...] = (),
        finished: int = 0,
        given: list[Any] | None = None,
        limit: float = math.inf,
        beside: frozenset[int] | None = frozenset(),
        after: "Path | None" = None,
    ) -> None:
        self.values = values
        self.longest: int = 0 if after is None else max(after.longest, after.work)  # bindings that an earlier path has made
        self.refusal = f"the function has more than {LIMIT} paths, which is as many as are merged"
        self.forced = forced
        self.given = given
        self.limit = limit  # bindings of all paths
        self.beside = beside
        self.met: list[int] = []  # equalities
        self.discrete: set[Atom] = set()  # inputs that are integers or truths, for which no equality is met
        self._thinness: Thinness | None = None
        self._thin: dict[int, bool | None] = {} if after is None else after._thin  # by conditions' numbers
        self.decisions: list[Decision] = []
        self.turned: list[tuple[Atom, bool]] = []  # the conditions that choose the path, and their values
        self.builder: Builder | None = None
        self.problem: Unmergeable | None = None
        self._room = LIMIT - finished - sum(not d.last for d in forced)
        self._numbered: Numbered | None = None
        self._known = Conditions(values)
        self._concrete: _Concrete | None = None
        self._asked = 0
        self.moved: dict[Atom, tuple[Atom, tuple[float, float]]] = {}  # integers of loops: where they began, how far they went
        self.counted = 0  # loops so far whose rounds are counted

    @property
    def work(self) -> int:
        """How many bindings the run has made, those of rounds of symbols and of traces inside among them."""
        return 0 if self.builder is None else self.builder.work[0] - self.builder.begun

    @property
    def is_given(self) -> bool:
        """Whether the values of the inputs are known."""
        return self.given is not None

    def number(self, atom: Atom) -> int:
        """The number of an atom of this run."""
        if self._numbered is None:
            assert self.builder is not None
            self._numbered = Numbered(self.values, self.builder)
        return self._numbered.of(atom)

    def value(self, atom: Atom) -> Any:
        """The value of an atom at the given arguments."""
        if self._concrete is None:
            assert self.builder is not None and self.given is not None
            self._concrete = _Concrete(self.builder, self.given)
        return self._concrete.of(atom)

    def fact(self, atom: Atom) -> Fact:
        """What its operations and the conditions so far tell of a value."""
        return self._known.of(self.number(atom))

    def reaches(self, atom: Atom, low: float, high: float) -> None:
        """Take an integer to be in a range."""
        self._known._narrow(self.number(atom), Fact(float(low), float(high), nan=False, finite=True, whole=True))

    def unmergeable(self, reason: str, many: bool = False) -> Unmergeable:
        """Why this path cannot be merged, also where a library in between keeps the exception to itself."""
        self.problem = self.problem or Unmergeable(reason, many=many)
        return self.problem

    def decide(self, atom: Atom, origin: str) -> bool:
        """How a condition turns out on this path."""
        self._asked += 1
        if self._asked > ASKED and self.given is None:
            raise self.unmergeable(f"{origin}: a loop has asked {ASKED} conditions, and may not end")
        number = self.number(atom)
        stripped, upright = number, True
        while self.values.nodes[stripped].op == "not":
            stripped, upright = self.values.nodes[stripped].operands[0], not upright
        known = self._known.known(stripped)
        if self.given is not None:
            value = self._met(atom, stripped, bool(self.value(atom)), upright)
        elif known is not None:
            return known == upright
        else:
            value = self._turned(atom, stripped, upright, origin)
        if known is None:
            self._known.learn(stripped, value)
            if self.given is not None:
                self.decisions.append(Decision(stripped, value, origin))
            if self._is_thin(atom) is None:  # of the path beside an equality more than the values there are taken
                self.turned.append((atom, value == upright))
        return value == upright

    def _met(self, atom: Atom, number: int, value: bool, upright: bool) -> bool:
        """How a condition turns out at the given arguments, or beside them; `value` is that of the atom there."""
        assert self.builder is not None
        known = self._known.known(number)
        if number in self.met:
            return bool(known)
        if known is not None or self._is_thin(atom) is not value:
            return value == upright
        self.met.append(number)
        return (value == upright) != (self.beside is None or number in self.beside)

    def _is_thin(self, atom: Atom) -> bool | None:
        number = self.number(atom)
        if number not in self._thin:
            assert self.builder is not None
            if self._thinness is None:
                self._thinness = Thinness([leaf.node for leaf in self.builder.inputs if leaf.node not in self.discrete])
            self._thinness.include(self.builder.bindings[len(self._thinness.made) :])
            self._thin[number] = self._thinness.of(atom)
        return self._thin[number]

    def _turned(self, atom: Atom, condition: int, first: bool, origin: str) -> bool:
        place = len(self.decisions)
        if place < len(self.forced):
            decision = self.forced[place]
            if decision.condition != condition:
                raise TraceError(
                    f"{origin}: the function asked for another condition when it was run again with the same decisions; "
                    "random numbers, and what it keeps from call to call, must not decide how it goes on"
                )
        else:
            self._room -= 1
            if self._room < 1:
                raise self.unmergeable(f"{origin}: {self.refusal}", many=True)
            assert self.builder is not None
            if (LIMIT - self._room) * max(self.work, self.longest) > self.limit:
                raise self.unmergeable(f"{origin}: the function has long paths")
            decision = Decision(condition, first, origin, thin=self._is_thin(atom) is not None)
        self.decisions.append(decision)
        return decision.value


class _Concrete:
    """The values of a run's symbols at given arguments, computed as far as they are asked for."""

    def __init__(self, builder: Builder, given: list[Any]) -> None:
        self.builder = builder
        self.values: dict[Atom, Any] = {}
        for leaf, value in zip(builder.inputs, given, strict=False):
            self.values[leaf.node] = np.asarray(value, dtype=np.dtype(leaf.node.dtype))[()]
        self._done = 0

    def of(self, atom: Atom) -> Any:
        with np.errstate(all="ignore"):
            for binding in self.builder.bindings[self._done :]:
                self.values[binding] = self._applied(binding)
        self._done = len(self.builder.bindings)
        return self._at(atom)

    def _applied(self, binding: Node) -> Any:
        """The value of a binding; what a function of the user's raises here is no condition, and meets no handler."""
        try:
            return applied(binding, [self._at(o) for o in binding.operands])
        except Exception as error:
            if not is_awaited(type(error)):
                raise
            path = self.builder.path
            text = f"{binding.origin}: {type(error).__name__} of a function that is not traced decides how the function goes on"
            raise path.unmergeable(text) from None

    def _at(self, atom: Atom) -> Any:
        if atom.op == "const":
            return atom.value
        if atom not in self.values:  # a symbol that this trace captured from an enclosing one
            place = list(self.builder.captures.values()).index(atom)
            tracer = self.builder.captured[place]
            self.values[atom] = tracer.builder.path.value(list(self.builder.captures)[place])
        return self.values[atom]


def path_argument_values(sources: list[Any]) -> list[Any] | None:
    """The values of arguments, those of traced ones at the arguments of their own trace; None where there are none."""
    found = []
    for source in sources:
        if hasattr(source, "builder"):
            path = source.builder.path
            if path is None or not path.is_given:
                return None
            found.append(path.value(source.atom))
        elif isinstance(source, (bool, int, float, complex, np.generic, np.ndarray)):
            found.append(source)
        else:
            return None
    return found


def followed(
    run: Callable[[Path], Run],
    mode: str | None,
    sources: list[Any],
    parent: Builder | None,
    outside: Outside,
    tired: Callable[[Unmergeable | None], None] | None,
    earlier: Unmergeable | None = None,
) -> tuple[Run, dict[str, Any]]:
    """The function's run, or its paths made one, and the notes of the graph. `mode` is None, "merge" or "guard".

    `sources` are the arguments, whose values tell the path where paths are not merged. What a run changes `outside` the
    function is put back before the next one. `tired` is called, if it is given, where paths are long or many, before anything
    else; what it is given is `earlier` in another try, which raises it where the paths are as many again.
    """
    outer = None if parent is None else parent.path
    if mode is None and outer is not None and outer.is_given:
        mode = "guard"
    given = None if mode == "merge" else path_argument_values(sources)
    if mode != "guard" and tired is not None:
        try:
            return _merged(run, outside, MERGED, mode == "merge")
        except Unmergeable as problem:
            outside.restore()
            earlier = problem if problem.many else None
            tired(earlier)
        except Endless as endless:
            outside.restore()
            if not endless.asked:
                raise  # each trace inside would be made again, too
            tired(None)
    if mode != "guard":
        try:
            return _merged(run, outside, math.inf if given is None else MERGED, mode == "merge", earlier)
        except Unmergeable as problem:
            outside.restore()
            if outer is not None and mode is None:
                outer.problem = outer.problem or problem
                raise
            if problem is earlier and tired is None and given is not None:
                raise
            if given is None:
                raise problem.error or _explained(str(problem)) from None
        except Endless as endless:
            outside.restore()
            if outer is not None or not endless.asked:
                raise
            if given is None:
                raise _explained(str(endless)) from None
    elif given is None:
        return _alone(run, outer)
    return _guarded(run, given, outside)


def _explained(reason: str) -> PathsError:
    return PathsError(
        f"{reason}. A call without paths='merge' keeps the path taken at its arguments, and vmap those of its points; files "
        "and traces without values need all paths: use np.where, bound the loop, or call the function"
    )


def _alone(run: Callable[[Path], Run], outer: Path | None) -> tuple[Run, dict[str, Any]]:
    """A function that must not branch, since no values are known to choose a path by."""
    path = Path(Values(), finished=LIMIT)
    path.refusal = "paths='guard' keeps the path taken at the arguments, and their values are not known here; leave it away"
    try:
        return run(path), {}
    except Unmergeable as problem:
        if outer is not None:
            raise
        raise PathsError(str(problem)) from None


def _guarded(run: Callable[[Path], Run], given: list[Any], outside: Outside) -> tuple[Run, dict[str, Any]]:
    """The path taken at the given values, and its conditions; where it meets an equality, the path beside it, too."""
    path = Path(Values(), given=given)
    try:
        found = run(path)
    except Unmergeable as problem:
        raise PathsError(str(problem)) from None
    if not path.decisions:
        return found, {}
    runs, results, ways = [(path, found)], [path.number(o.atom) for o in found.outputs], [_facts(path)]
    other = _beside(run, path, found, outside) if path.met else None
    if other is not None:
        runs.append(other)
        ways.append(_facts(other[0]))
        met = path.values.conjunction([(n, v) for n, v in ways[0] if (n, not v) in ways[1]])
        results = [
            path.values.select(met, a, other[0].number(o.atom), "") for a, o in zip(results, other[1].outputs, strict=True)
        ]
    holds = [path.values.conjunction(way) for way in ways]
    built, conditions = _built(path.values, runs, results, [path.values.conjunction([(h, False) for h in holds])])
    return built, {KEY: Branches(True, len(path.decisions), conditions)}


def _facts(path: Path) -> list[tuple[int, bool]]:
    return [(d.condition, d.value) for d in path.decisions]


def _beside(run: Callable[[Path], Run], path: Path, found: Run, outside: Outside) -> tuple[Path, Run] | None:
    """The path without the equalities met, where it gives the same values there: without all, or with those that matter."""
    whole = _aside(run, path, found, None, outside)
    if whole is not None or len(path.met) == 1:
        return whole
    best, without = None, frozenset[int]()
    for number in path.met[:ASIDE]:
        other = _aside(run, path, found, without | {number}, outside)
        if other is not None:
            best, without = other, without | {number}
    return best


def _aside(
    run: Callable[[Path], Run], path: Path, found: Run, beside: frozenset[int] | None, outside: Outside
) -> tuple[Path, Run] | None:
    """The path without some equalities; None where it cannot be taken, or its values differ at the given arguments."""
    outside.restore()
    other = Path(path.values, given=path.given, beside=beside, after=path)
    try:
        there = run(other)
    except (Exception, Unmergeable) as error:
        check_signal(error)
        return None
    if there.out_tree != found.out_tree or [o.shape for o in there.outputs] != [o.shape for o in found.outputs]:
        return None
    pairs = [(path.value(a.atom), other.value(b.atom)) for a, b in zip(found.outputs, there.outputs, strict=True)]
    return (other, there) if all(agree(a, b) for a, b in pairs) else None


def _merged(
    run: Callable[[Path], Run], outside: Outside, limit: float, widened: bool, earlier: Unmergeable | None = None
) -> tuple[Run, dict[str, Any]]:
    """All paths of the function as one run, unless they promise more than `limit` bindings, or give results of different
    dtypes, which only files and graphs of all paths have `widened`; or the first one asks as many conditions as that of an
    `earlier` try, which met too many paths.
    """
    first, path = None, None
    values = Values()
    ends: list[tuple[list[Decision], Leaf]] = []
    runs: list[tuple[Path, Run]] = []
    forced: tuple[Decision, ...] = ()
    while True:
        path = Path(values, forced, len(ends), limit=limit, after=path)
        path.is_needed = widened
        try:
            found = run(path)
        except Unmergeable as problem:
            problem.first = first or math.inf
            raise
        except SymdiffError as error:
            if not path.decisions:
                raise
            raise Unmergeable(str(error), error) from None
        except Endless as endless:
            endless.asked |= bool(path.decisions)
            raise
        except Exception as error:
            check_signal(error)
            if not path.decisions:
                raise
            ends.append((path.decisions, Leaf(None, graph_exception(_named(error, path.builder), _line_of(error)))))
        else:
            if not path.decisions and not ends:
                return found, {}
            if runs and not widened and not all(map(_of_one_dtype, found.outputs, runs[0][1].outputs)):
                where = path.decisions[-1].origin if path.decisions else ""
                raise Unmergeable(f"{where}: the paths of the function return results of different dtypes")
            runs.append((path, found))
            ends.append((path.decisions, Leaf(tuple(path.number(_exactly(o.atom)) for o in found.outputs))))
        first = first or len(path.decisions)
        if earlier is not None and first >= earlier.first:
            raise earlier
        following = next_decisions(path.decisions)
        if following is None:
            break
        forced = following
        outside.restore()
    if not runs:
        error = ends[0][1].error
        raise Unmergeable(f"every path of the function raises; the first one {type(error).__name__}: {error}")
    return _joined(values, runs, _tree(ends, 0))


def _exactly(result: Atom) -> Atom:
    """A number of Python's that no single one is, as one of double precision, which it stays beside results that are single."""
    known = isinstance(result, Constant) and result.dtype is None and type(result.value) is float
    return Constant(result.value, "d") if known and float(np.float32(result.value)) != result.value else result


def _of_one_dtype(one: GraphOutput, other: GraphOutput) -> bool:
    """Whether two results are of one dtype; a number of Python's takes that of others that hold it."""
    atoms = _exactly(one.atom), _exactly(other.atom)
    codes = {"D" if a.dtype is None and isinstance(a.value, complex) else a.dtype for a in atoms}  # type: ignore[union-attr]
    return len(codes) == 1 or (None in codes and "?" not in codes)


def next_decisions(decisions: list[Decision]) -> tuple[Decision, ...] | None:
    """How the conditions of the path behind one turn out, None behind the last one."""
    while decisions and decisions[-1].last:
        decisions = decisions[:-1]
    if not decisions:
        return None
    last = decisions[-1]
    return (*decisions[:-1], Decision(last.condition, not last.value, last.origin, True, last.thin))


def joined_runs(values: Values, runs: list[tuple[Path, Run]], ends: list[tuple[list[Decision], Leaf]]) -> Run:
    """All paths, none of which raises, as one run."""
    return _joined(values, runs, _tree(ends, 0))[0]


def _named(error: Exception, builder: Builder | None) -> Exception:
    """An exception with cells of arguments named in its message as the user knows them: x[0]."""
    error.args = tuple(str(a) if isinstance(a, str) else a for a in error.args)
    text = "".join(a for a in error.args if isinstance(a, str))
    for binding in builder.bindings if builder is not None and "<traced " in text else ():
        if binding.op == "item":
            array = binding.operands[0]
            index = ", ".join(str(int(i)) for i in np.unravel_index(binding.params, array.shape))
            old, new = f"<traced {binding.name} ", f"<traced {array}[{index}] "
            error.args = tuple(a.replace(old, new) if isinstance(a, str) else a for a in error.args)
    return error


def _line_of(error: Exception) -> str:
    """The innermost line of the user's that an exception passed."""
    frames = traceback.extract_tb(error.__traceback__)
    place = next((f for f in reversed(frames) if name_unless_library(f.filename)), frames[-1])
    return Line.of(place.filename, place.lineno)


def _tree(ends: list[tuple[list[Decision], Leaf]], depth: int) -> Tree:
    decisions, leaf = ends[0]
    if depth == len(decisions):
        return leaf
    first = decisions[depth]
    split = next(k for k, (others, _) in enumerate(ends) if others[depth].value != first.value)
    one, other = _tree(ends[:split], depth + 1), _tree(ends[split:], depth + 1)
    yes, no = (one, other) if first.value else (other, one)
    return Fork(first.condition, first.origin, yes, no, first.thin)


def _joined(values: Values, runs: list[tuple[Path, Run]], tree: Tree) -> tuple[Run, dict[str, Any]]:
    _, first = runs[0]
    for _, other in runs[1:]:
        shapes = [o.shape for o in other.outputs]
        if other.out_tree != first.out_tree or shapes != [o.shape for o in first.outputs]:
            raise Unmergeable(
                f"{tree.origin if isinstance(tree, Fork) else ''}: the paths of the function return results of different "
                "structures or shapes"
            )
    results = joined_paths(values, tree)
    assert results is not None
    ends = raising(tree)
    built, conditions = _built(values, runs, list(results), [values.conjunction(facts) for facts, _ in ends])
    return built, {KEY: Branches(False, len(leaves(tree)), conditions, tuple(error for _, error in ends))}


def _built(values: Values, runs: list[tuple[Path, Run]], results: list[int], conditions: list[int]) -> tuple[Run, Graph | None]:
    """Results by their numbers as one run, and conditions as a graph over the same inputs; None where there are none."""
    _, first = runs[0]
    own = len(first.builder.inputs) - len(first.builder.captures)
    builder = Builder(first.builder.parent)
    builder.path = first.builder.path
    symbols: dict[int, Atom] = {}
    for path, found in runs:
        for place, leaf in enumerate(found.builder.inputs):
            number = path.number(leaf.node)
            if number in symbols:
                continue
            if place < own:
                symbols[number] = leaf.node
                builder.inputs.append(leaf)
                continue
            symbols[number] = builder.input(f"captured{len(builder.captured)}", leaf.node.shape, leaf.node.dtype)
            builder.captures[list(found.builder.captures)[place - own]] = symbols[number]  # type: ignore[assignment]
            builder.captured.append(found.builder.captured[place - own])
    checks = Builder()
    checks.inputs = builder.inputs
    truths = values.rebuilt(checks, dict(symbols), conditions)
    atoms = values.rebuilt(builder, symbols, results)
    outputs = tuple(GraphOutput(o.name, atom) for o, atom in zip(first.outputs, atoms, strict=True))
    graph = checks.graph("path", tuple(GraphOutput(f"path{k}", atom) for k, atom in enumerate(truths)))
    return Run(builder, outputs, first.out_tree), graph if conditions else None
