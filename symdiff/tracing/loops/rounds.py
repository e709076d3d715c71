"""A loop's rounds as the clone of the user's function runs them: some as they are, and one in symbols for all the others.

Assumes loops that `rewriting` handed over. Guarantees that a loop is kept only where a round, run on symbols for its index and
for the values that rounds hand on, gives values of the same structure, types and kinds again, whichever way its conditions
turn; that nothing but names of the loop is changed in it; and that the rounds that are peeled off at the ends run as they are.
The other loops run as they are, round by round.
"""

import functools
import gc
import itertools
import math
import sys
import types
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from symdiff.ir.arrays.algebra import Arrays
from symdiff.ir.building import Builder, active_builders, dtype_of_atoms
from symdiff.ir.graph import GraphOutput
from symdiff.ir.loops import MOST, repeated_bindings, work_of
from symdiff.ir.node import Atom, Constant, Node
from symdiff.simplification.interning import Values
from symdiff.tracing.branches.merging import Leaf
from symdiff.tracing.branches.paths import Decision, Run, joined_runs, next_decisions
from symdiff.tracing.loops.assembling import Carried, Round, Stacked, bound_loop, zero_of
from symdiff.tracing.loops.collected import Collected, Rows
from symdiff.tracing.loops.growing import Growing, Slot
from symdiff.tracing.loops.indices import RoundPath
from symdiff.tracing.loops.items import Items, is_stepping, items_of, run_over
from symdiff.tracing.loops.keeping import Again, Keeping, work_of_binding
from symdiff.tracing.loops.parts import Parts, leaves_of, parts_of
from symdiff.tracing.loops.states import Held, Left, State, States, Taker, parts_in
from symdiff.tracing.loops.stores import ArrayStore, CarriedStore, Listed, bare
from symdiff.tracing.values.integers import Integer, integer
from symdiff.tracing.values.kinds import PYTHON, Form, kind_of_several, traced_form
from symdiff.tracing.values.selecting import Selected, pattern
from symdiff.tracing.values.spans import moves, reach
from symdiff.tracing.values.storage import Storage, root_of
from symdiff.tracing.values.stretches import Stretch
from symdiff.tracing.values.tracer import Tracer, raises_behind, traced_atom
from symdiff.vocabulary.libraries import user_line

_NUMBERS = (float, complex, np.floating, np.complexfloating)
WIDE = 2.0**52  # integers that rounds hand on are taken to be within
_PASSES = 6  # rounds in symbols until it is known where integers stay
_WAYS = 4  # structures that a name may hold
_TRIES = 12  # rounds in symbols until types and counters are known


def references(frame: Any, name: str) -> int:
    """How many hold what a name holds."""
    return sys.getrefcount(frame.f_locals[name])


def _alone() -> int:
    alone: list[Any] = []
    return references(sys._getframe(), "alone") + len(alone)


_LISTED = sys.getrefcount([object()][0]) + 1  # references to what a list holds
ALONE = _alone()  # references to a list that only a name holds


class Told(NamedTuple):
    """What the text says of a loop: the names that it binds, its head among these, lists that it appends to, what it
    assigns to items of or changes in place, what calls may change, names that are read elsewhere; whether it may be left,
    and whether it yields; its place.
    """

    names: tuple[str, ...]
    targets: tuple[str, ...]
    appended: tuple[str, ...]
    stored: tuple[str, ...]
    added: tuple[str, ...]
    reached: tuple[str, ...]
    behind: tuple[str, ...]
    leaves: bool
    yields: bool
    place: tuple[int, int]


class _Value:
    """A number or an array that the loop's names hold: how it is handed on, and of which forms it has been."""

    def __init__(self, name: str, begin: Any, uneven: bool = False) -> None:
        self.name = name
        self.begin = begin
        self.step = 0
        self.forms: list[Form] = []
        self.counts = type(begin) is int and not uneven
        self.fixed = type(begin) in (int, bool)  # as it is, until a round gives something else
        self.reach: tuple[float, float] | None = None  # between which integers it is, as far as rounds were run
        self.added: tuple[float, float] | None = None  # what a round adds at least and at most, where it adds to what was there
        self.base = (math.inf, -math.inf)  # between which integers it begins, or a round says what it is
        self.passes = 0
        if begin is not None and not self.fixed:
            self.forms.append(traced_form(begin))
            if isinstance(begin, Integer) and all(map(math.isfinite, reach(begin))):
                self.reach = reach(begin)

    def ends(self) -> tuple[float, float]:
        """Where an integer is behind the loop."""
        assert self.reach is not None
        added = (0.0, 0.0) if self.added is None else self.added
        return self.reach[0] + added[0], self.reach[1] + added[1]

    def is_whole(self) -> bool:
        """Whether it is an integer that is no expression of the index."""
        return not self.fixed and all(f.whole for f in self.forms)


class KeptRounds:
    """The rounds of a loop that may be kept; `values` are what names are set to before a round, or behind the last one."""

    def __init__(self, keeping: Keeping, place: Any, items: Items, told: Told, frame: Any) -> None:
        self.keeping = keeping
        self.place = place
        self.items = items
        self.names, self.targets, self.appended = told.names, told.targets, told.appended
        self.all_names = told.names
        self.stored, self.added = told.stored, told.added
        self.known = {*told.names, *told.reached}
        self.reached = tuple(n for n in told.reached if n not in (*told.stored, *told.added, *told.appended))
        code = frame.f_code
        self.shared = {*told.names}.difference(code.co_varnames, code.co_cellvars, code.co_freevars)  # with the module
        self.behind = (*told.behind, *self.shared)
        self.yields = told.yields
        self.leaves = told.leaves or place in keeping.raising
        self.tested = self.leaves or items.count is None or items.goes_on is not None
        self.endless = items.count is None
        self.begins = True  # whether there is a round in any case
        self.asked = self.tested or items.given is not None
        self.decides = False  # whether its number of rounds is to be known, as that of items of a list
        self.decided = False
        self.below: list[tuple[Any, Any]] = []  # an integer of a round, and one that it is below
        self.items_of: dict[str, list[Any]] = {}  # the lists that arrays stand for
        self.frame = frame
        self.origin = f"{place[0].rpartition('/')[2]}:{place[1]}"
        self.moved = False
        self.values: dict[str, Any] = {}
        self.unbound: list[str] = []
        self._goes_on: Any = True
        self._left = False
        self._passed: dict[str, Any] = {}  # what names hold in a round of which there is no item
        self.fresh: dict[int, Any] = {}  # what the round has made, by identity
        self.errors: dict[Any, BaseException] = {}  # what rounds may raise
        self.taken: list[Any] = []  # iterators of which the round has taken items
        self.guessed: list[str] = []  # integers that this round takes for counted
        self.states = States(self)
        self._met: set[int] = set()
        self._path: Any = None
        self.copies: dict[int, tuple[Any, Any]] = {}  # what stands for lists, dicts and objects from before, and these
        self._doubted = self.tested  # whether others may have what rounds hand on
        self._rounds = self._run()

    def __iter__(self) -> "KeptRounds":
        return self

    def __next__(self) -> Any:
        self.moved, self.values, self.unbound = False, {}, []
        return next(self._rounds)

    def ends(self, goes_on: Any) -> bool:
        """What a `while` asks before a round: noted."""
        if np.shape(goes_on) or not (_is_value(goes_on) or isinstance(goes_on, np.bool_)):
            raise self.keeping.refuse("a condition that is no number")
        traced = isinstance(goes_on, Tracer)
        self._goes_on = (goes_on if goes_on.dtype.char == "?" else goes_on != 0) if traced else bool(goes_on)
        self.begins = self.begins and self._goes_on is True
        if isinstance(self._goes_on, Tracer):
            self._path.takes(traced_atom(self._goes_on, self._path.builder, self.origin))
        return False

    def _on_path(self) -> Any:
        """Whether the enclosing runs are on their paths: beside them a loop might never end."""
        found: Any = True
        builder: Builder | None = self.outer
        while builder is not None:
            for atom, value in () if builder.path is None else builder.path.turned:
                truth = Tracer(builder, atom)  # type: ignore[arg-type]
                found = np.logical_and(found, truth if value else np.logical_not(truth))
            builder = builder.parent
        return found

    def raises(self, condition: Any, error: Exception) -> bool:
        """What a round raises where a condition holds ends the loop with it, and is raised behind the loop."""
        atom = traced_atom(condition, self._path.builder, self.origin)
        known = self._path.known(atom)
        if known:
            raise error
        if known is None:
            if not self.leaves:
                if not self.keeping.doubts():
                    self.keeping.raising.add(self.place)
                raise Again
            before = [truth for _, truth in self._raised.values()]
            alone = functools.reduce(lambda found, truth: np.logical_and(found, np.logical_not(truth)), before, condition)
            key = type(error), str(error)
            self._raised[key] = error, np.logical_or(self._raised[key][1], alone) if key in self._raised else alone
        return known is None

    def left_by(self, taker: Taker) -> None:
        """The loop ends with this round, and nothing behind it is done: what takes its items has been left."""
        known = [state for state, _ in self.states.known.values() if not isinstance(state.owner, Held)]
        frames = [t.frame for t in self.takers()]
        if known or self.carried or any(self._stores()) or any(t.handles(frames) for t in self.takers()):
            raise self.keeping.refuse("what takes what a round yields may be left")
        if not self.leaves:
            self.keeping.raising.add(self.place)
            raise Again
        self._raised[Left, ""] = Left(taker), True

    def leave(self) -> None:
        """The loop ends with this round."""
        if not self.leaves and not self.decided:
            self.keeping.raising.add(self.place)
            raise Again
        self._left = True

    def _held(self) -> dict[str, Any]:
        """What names hold, those of the module that the loop binds among them."""
        around = self.frame.f_globals
        return {n: around[n] for n in self.shared if n in around} | self.frame.f_locals | self._passed

    def _bound(self) -> dict[str, Any]:
        found = self._held()
        return {name: found[name] for name in self.names if name in found}

    def _run(self) -> Iterator[Any]:
        first, last = self.keeping.peels.get(self.place, (0, 0))
        count = self.items.count
        if is_stepping(self.items.over):
            yield from self._stepped(self.items.over, count, first, last)
            self.frame = None
            return
        if count is None or self.tested:
            yield from self._kept(0, count)
            self._end()
            return
        if self.keeping.is_few(count - first - last):
            self.keeping.reasons[self.place] = "few rounds are alike"
            yield from map(self.items.item, range(count))
            return
        yield from map(self.items.item, range(first))
        yield from self._kept(first, count - first - last)
        if last:
            self.values = {name: value for name, value in self.values.items() if name not in self.targets}
            self.unbound = [name for name in self.unbound if name not in self.targets]
        yield from map(self.items.item, range(count - last, count))
        self._end()

    def _end(self) -> None:
        """Nobody has the function's names and lists here any more."""
        self.frame = None
        for grown in self.states.growing.values():
            grown.owner = grown.behind = None

    def _stepped(self, values: Iterator[Any], count: Any, first: int, last: int) -> Iterator[Any]:
        """The rounds over an iterator, which goes on with them."""
        if self.tested or self.keeping.is_few(count - first - last):
            self.keeping.open.append(self)
            raise self.keeping.refuse("few rounds are alike, or a round may leave the iterator that it takes items of")
        yield from itertools.islice(values, first)
        found = items_of(values)
        if found is None or found.count != count - first:
            self.keeping.open.append(self)
            raise self.keeping.refuse("a round takes items of the iterator that the loop runs over")
        self.items = found
        yield from self._kept(0, count - first - last)
        deque(itertools.islice(values, count - first - last), maxlen=0)
        if last:
            self.values = {name: value for name, value in self.values.items() if name not in self.targets}
            self.unbound = [name for name in self.unbound if name not in self.targets]
        yield from values

    # -- rounds of symbols

    def _kept(self, first: int, count: int | None) -> Iterator[Any]:
        """Rounds of symbols until they say the same, and names set to what the loop gives."""
        outer = active_builders()[-1]
        self._check_reach()
        self.outer, self.count = outer, count
        self.stores: dict[Storage, ArrayStore] = {}
        self.listed = self._listed()
        self.carried = self._carried()
        self._shared: list[Storage] = []
        apart = {n for n in (*self.stored, *self.reached) if n not in self.added}
        apart.update(n for c in self.carried for n in c.originals)
        self.names = tuple(n for n in self.names if n not in apart)
        entry = {n: v for n, v in self._bound().items() if n not in self.targets}
        for value in [v for n, v in self._bound().items() if n in self.appended and type(v) in (list, Growing, Collected)]:
            self.states.take(value, True)
        for taker in self.takers():
            self.states.take(held := Held(taker))
            code = taker.frame.f_code
            if not set(taker.behind) & set(taker.names) <= set(held.names) or {*code.co_cellvars, *code.co_freevars} & set(
                held.names
            ):
                self.keeping.open.append(self)
                raise self.keeping.refuse("what takes what a round yields binds names that are read elsewhere")
        yield from self._rounds_of(entry, first)
        if self.decides:  # the loop again, as one of so many rounds, of which the last one may leave it
            assert self.count is not None
            self.tested = self.endless = self.leaves = self.decides = False
            self.begins = self.decided = True
            yield from self._rounds_of(entry, first)

    def _rounds_of(self, entry: dict[str, Any], first: int) -> Iterator[Any]:
        """Rounds of symbols, and the loop that is made of them."""
        outer, count = self.outer, self.count
        skeletons: dict[Any, Any] = {}
        for _ in range(_TRIES):
            if self.states.found or not skeletons:
                self.states.put_back()
                skeletons = {name: self._begun(value, name) for name, value in entry.items()}
                skeletons |= {state: self._spread_parts(parts, "", ()) for state, parts in self.states.known.values()}
            skeletons |= {r: _Value("raised", False) for r in map(_Raised, self.errors) if r not in skeletons}
            for store in self._stores():
                windows = (_Window(store, n) for n in store.asked_places())
                skeletons |= {
                    w: self._spread(store.first(w.place + 1), f"y{w.place + 1}") for w in windows if w not in skeletons
                }
            found = yield from self._paths(outer, first, count, skeletons)
            if found is not None and self._agrees(skeletons, found):
                break
        else:
            self.keeping.open.append(self)
            raise self.keeping.refuse("the types of what rounds hand on do not settle")
        lists = [part for items in self.items_of.values() for part in (items, *run_over(items))]
        changed = {id(owner) for owner in (*(state.owner for state, _ in self.states.known.values()), *lists)}
        if changed and any(id(value) in changed for value in run_over(self.items.over)):
            self.keeping.open.append(self)
            raise self.keeping.refuse("a round changes what the loop runs over")
        self._finish(outer, count, found, skeletons)

    def takers(self) -> Iterator[Taker]:
        """The loops that take what this one yields, and those that take what these yield."""
        taker = self.keeping.takers.get(self.frame) if self.yields else None
        while taker is not None:
            yield taker
            taker = self.keeping.takers.get(taker.frame)

    def _check_reach(self) -> None:
        for name, value in self.frame.f_locals.items():
            own = value is self or value is self.items.over or name not in self.known
            if not name.startswith(".") and hasattr(type(value), "__next__") and not own:
                self.keeping.open.append(self)
                raise self.keeping.refuse(f"a round may take items of the iterator {name}")

    def _check_taken(self) -> None:
        """What a round has taken items of is the round's own: nobody else has it."""
        while self.taken:
            own = self.frame.f_locals
            if sys.getrefcount(self.taken[-1]) > _LISTED:
                holders = [h for h in gc.get_referrers(self.taken[-1]) if h is not self.taken and h is not own]
                around = [loop.items for loop in self.keeping.open]
                if any(
                    type(h) is not types.FrameType and (type(h) is not Items or any(h is i for i in around)) for h in holders
                ):
                    raise self.keeping.refuse("a round takes items of an iterator that was there before")
            self.taken.pop()

    def _paths(self, outer: Builder, first: int, count: int | None, skeletons: dict[str, Any]) -> Iterator[Any]:
        """One round of symbols for each way that its conditions turn, and what they give, joined."""
        values = Values()
        forced: tuple[Decision, ...] | None = ()
        runs: list[tuple[Any, Run]] = []
        ends: list[tuple[list[Decision], Leaf]] = []
        given: list[list[Any]] = []
        ranges: list[Any] = []
        after: dict[str, Any] = {}
        for store in self._stores():
            store.anew()
        while forced is not None:
            builder = Builder(outer)
            k = builder.input("k", (), "d")
            path = builder.path = self._path = RoundPath(self, values, forced, builder, k, count, len(ends))
            self.keeping.open.append(self)
            active_builders().append(builder)
            index = self.index = Integer(builder, k, PYTHON)
            self.symbols: list[tuple[_Value, Node]] = []
            self._entered: list[tuple[_Value, Tracer]] = []
            self.fresh, self.copies, self._met, self.guessed, self.taken = {}, {}, set(), [], []
            self.values = {}
            for name, s in skeletons.items():
                if isinstance(name, State):
                    name.into(s, [self._symbolic(part, builder, index) for part in s.parts])
                elif not isinstance(name, _Window):
                    self.values[name] = self._symbolic(s, builder, index)
            self._passed = {}
            self.unbound = [name for name in self.names if name not in skeletons and name not in self.targets]
            for store in self._stores():
                known = (_Window(store, n) for n in store.asked_places())
                store.begin({w.place: self._symbolic(skeletons[w], builder, index) for w in known if w in skeletons})
            self._stand_in(True)
            self.values.update(self.listed)
            for c in self.carried:
                symbol = builder.input(c.value.name, c.begin.shape, c.storage.code)
                self.symbols.append((c.value, symbol))
                if c.value.reach is not None:
                    path.reaches(symbol, *c.value.reach)
                self.values.update(c.copied(builder, symbol))
            going = builder.input("going", (), "?") if self.leaves else None
            self._goes_on, self._left, self._raised = True, False, {}
            self.moved = True
            item = self.items.item(index + first if first else index)
            if self.items.goes_on is not None:
                path.reaches(traced_atom(item, builder, self.origin), *self.items.reach)
                self.ends(self.items.goes_on(item))
                self.below = [] if self.items.stop is None else [(item, self.items.stop)]
            if self.items.given is None or self.items.given(item):
                yield self._standing(self.items.of(item))
            elif not set(self.behind).difference(self.values).intersection(self.names):
                self._passed = dict(self.values)
            else:
                raise self.keeping.refuse("what rounds bind, of which there may be none, is read elsewhere")
            self._check_taken()
            if not all(taker.waits for taker in self.takers()):
                raise self.keeping.refuse("what a round yields is taken by more than one loop")
            if self.states.found:
                active_builders().pop()
                self.keeping.open.pop()
                return None
            after: dict[Any, Any] = {n: v for n, v in self._bound().items() if n in skeletons or n in self.behind}
            after.update({state: state.owner for state, _ in self.states.known.values()})
            for store in self._stores():
                after.update({_Item(store, n): value for n, value in enumerate(store.given(self.nothing))})
                after.update({_Window(store, n): value for n, value in store.windows().items()})
            self.errors.update({key: error for key, (error, _) in self._raised.items()})
            truths = {key: truth is True or truth.of_kind(PYTHON) for key, (_, truth) in self._raised.items()}
            after.update({_Raised(key): truths.get(key, False) for key in self.errors})
            self._part(after, skeletons)
            leaves: list[Any] = []
            spread: dict[Any, Any] = {}
            shapes: dict[Any, list[Any]] = {}
            for name, value in after.items():
                begun = len(leaves)
                several = (self.place, name) in self.keeping.several
                spread[name] = self._way(name, value, leaves) if several else self._flat(value, leaves, isinstance(name, State))
                shapes[name] = [np.shape(v) for v in leaves[begun:]]
                if isinstance(name, _Item):
                    name.store.learn(name.place, spread[name], leaves[begun:])
            leaves += [c.copy for c in self.carried]
            spread.update(dict.fromkeys(self.carried, _LEAF))
            if self.tested:
                where = self._on_path() if self.endless else True
                leaves += [self._goes_on if where is True else np.logical_and(where, self._goes_on), not self._left]
                for truth in truths.values():
                    leaves[-1] = truth is not True and np.logical_and(leaves[-1], np.logical_not(truth))
            if given and spread.keys() != self._spreads.keys():  # another way through the round gives or raises more
                active_builders().pop()
                self.keeping.open.pop()
                return None
            if given and (spread != self._spreads or shapes != self._shapes):
                for one, other in zip(self._spreads.values(), spread.values(), strict=False):
                    self._open(one, other)
                    self._open(other, one)
                for name in spread.keys() & self._spreads.keys():
                    if (spread[name], shapes[name]) != (self._spreads[name], self._shapes[name]):
                        raise self._other(name, "the ways through a round give values of different structures")
                raise self.keeping.refuse("the ways through a round give values of different structures")
            self._spreads, self._shapes = spread, shapes
            atoms = [traced_atom(v, builder, self.origin) for v in leaves]
            if going is not None:
                atoms[-2] = going if atoms[-2].op == "const" and atoms[-2].params else builder.emit("and", (going, atoms[-2]))
            outputs = tuple(GraphOutput(f"v{n}", a) for n, a in enumerate(atoms))
            active_builders().pop()
            self.keeping.open.pop()
            runs.append((path, Run(builder, outputs, None)))
            self._reach(leaves, ranges)
            given.append(leaves)
            ends.append((path.decisions, Leaf(tuple(path.number(o.atom) for o in outputs))))
            forced = next_decisions(path.decisions)
            self._note_shared(after)
        path, run = runs[0]
        if len(runs) > 1:
            self.keeping.open.append(self)
            run = joined_runs(values, runs, ends)
            path.builder = run.builder
            run = Run(run.builder, run.outputs, None)
            self.keeping.open.pop()
        self._ranges = dict(zip((o.atom for o in run.outputs), ranges, strict=True))
        forms = [[traced_form(v) for v in column] for column in zip(*given, strict=True)]
        return run, path, run.builder.inputs[0].node, forms, [list(c) for c in zip(*given, strict=True)]

    # -- cells that rounds give

    def _stores(self) -> Iterator[Any]:
        """The arrays and the lists to which rounds give cells."""
        yield from self.stores.values()
        yield from self.states.growing.values()

    def _stand_in(self, begins: bool) -> None:
        """The names that hold lists hold what stands for these, or these again."""
        for grown in self.states.growing.values():
            pair = (grown.owner, grown) if begins else (grown, grown.behind)
            found = self._held()
            self.values |= {n: pair[1] for n in self.all_names if found.get(n) is pair[0] and n not in self.names}
            for taker in self.takers():
                taker.hold(*pair)

    def stands(self, value: Any) -> bool:
        """Whether a value stands for a list that these rounds append to."""
        return type(value) is Growing and value.loop is self

    def _listed(self) -> dict[str, Listed]:
        """Lists whose items are assigned to, which nothing else holds, by their names."""
        held = self.frame.f_locals  # another dict would hold them, too
        found: dict[str, Listed] = {}
        for name in self.stored:
            listed = type(held.get(name)) is list and (self.place, name) not in self.keeping.unlisted
            if listed and name not in self.appended and references(self.frame, name) <= ALONE:
                made = Listed.of(name, self, held[name])
                if made is not None:
                    found[name], self.items_of[name] = made, held[name]
        return found

    def also_of(self, cells: Listed, kinds: set[Any]) -> BaseException:
        """A list gets an item of other kinds of floating numbers: what is to be raised."""
        found = self.keeping.kinds.setdefault((cells.loop.place, cells.name), set())
        if kinds <= found:
            return self.keeping.refuse("the type of an item of a list depends on conditions")
        found |= kinds
        return Again()

    # -- arrays that are handed on

    def _is_own(self, x: Any) -> bool:
        """Whether a value is an array of the enclosing run's, with memory of its own that nobody has as another array."""
        if not isinstance(x, Tracer) or not x.shape or x.builder is not self.outer:
            return False
        held = x.shared()
        storage = held.storage
        return (
            isinstance(storage, Storage) and storage.builder is self.outer and not storage.refusal
            and held.place is storage.memory and storage.guard is None and storage.code in "fdFD?" and not storage.images
        )  # fmt: skip

    def _carried(self) -> list[CarriedStore]:
        """The arrays that rounds change in place, or in other ways than row by row, each with its names."""
        held = self._held()
        found: dict[Storage, dict[str, Any]] = {}
        for name in (*self.stored, *self.added, *self.reached):
            wanted = name in self.added or (self.place, name) in self.keeping.carrying
            value = self.listed.get(name, held.get(name))
            if wanted and self._is_own(bare(value)):
                found.setdefault(bare(value).shared().storage, {})[name] = value
        stores = [CarriedStore(self, names) for names in found.values()]
        for c in stores:
            c.value = _Value(next(iter(c.originals)), c.begin)
        return stores

    def carry(self, storage: Storage, reason: str) -> BaseException:
        """Hand on an array as a whole where it has a name here; what is to be raised."""
        held = self._held()
        for name in (*self.stored, *self.reached):
            x = bare(self.listed.get(name, held.get(name)))
            if isinstance(x, Tracer) and x.held is not None and x.held.storage is storage:
                if (self.place, name) in self.keeping.carrying:
                    break
                self.keeping.carrying.add((self.place, name))
                return Again()
        return self.keeping.refuse(reason)

    def _part(self, after: dict[str, Any], skeletons: dict[str, Any]) -> None:
        """Names of parts of arrays that are handed on: nobody may need them behind the round."""
        copies = [c.copy.shared().storage for c in self.carried]
        held = self._held()
        if any(bare(held.get(n)) is not c.copy for c in self.carried for n in c.originals):
            raise self.keeping.refuse("an array that a round changes is named anew")
        for name, value in list(after.items()):
            if any(self._is_of_round_alone(x) for x in leaves_of(value, self.states)):
                if name in skeletons or name in self.behind or isinstance(name, _Item):
                    raise self.keeping.refuse(f"{name} may have another number of cells in each round")
                del after[name]
            elif any(root_of(x.held.storage) in copies for x in _arrays(value) if x.held is not None):
                if name in skeletons or name in self.behind or isinstance(name, _Item):
                    raise self.keeping.refuse(f"{name} may be a part of an array that a round changes")
                del after[name]

    def _is_of_round_alone(self, x: Any) -> bool:
        return isinstance(x, (Stretch, Selected, Listed)) or (type(x) is Collected and x.loop.outer is self._path.builder)

    def _note_shared(self, after: dict[str, Any]) -> None:
        """Arrays that several names, or the code around the loop, may have behind a round, which are then to be watched."""
        begun = {id(root_of(x.shared().storage)): v for v, x in self._entered}
        known: set[int] = set()
        for x in (x for value in after.values() for x in _arrays(value)):
            storage = root_of(x.shared().storage)
            value = begun.get(id(storage))
            begin = None if value is None else value.begin
            if storage.builder is not self._path.builder:
                self._shared.append(storage)
            elif id(storage) in known or begin is not None or storage.refusal:
                self._shared += [root_of(begin.shared().storage)] if isinstance(begin, Tracer) else [storage]
            known.add(id(storage))

    def _watch(self) -> None:
        """Changes of arrays that may be the same ones as others, behind the loop, are refused."""
        skipped = [v.begin for v, _ in self._entered] if self.tested else []
        self._shared += [root_of(x.shared().storage) for x in skipped if isinstance(x, Tracer)]
        if self._shared:
            made = [root_of(x.shared().storage) for value in self.values.values() for x in _arrays(value)]
            for storage in (*made, *self._shared):
                storage.watch = self._changed

    def _changed(self) -> None:
        self.keeping.open.append(self)
        raise self.keeping.refuse(f"{user_line()}: an array is changed that a loop may have given another name")

    def store_of(self, x: Tracer, writes: bool) -> ArrayStore | None:
        """Where the cells of an array are that rounds give; None for other arrays."""
        held = x.held
        if held is None:
            return None
        storage = held.storage
        store = self.stores.get(storage)
        whole = held.place is getattr(storage, "memory", None)
        if store is None and writes and storage.builder is not self._path.builder:
            ours = isinstance(storage, Storage) and storage.builder is self.outer and not storage.refusal and whole
            if not ours or storage.guard is not None or storage.code not in "fdFD" or isinstance(x, Integer) or storage.images:
                raise self._path.changed(root_of(storage), f"{user_line()}: a round assigns to cells of an array")
            store = self.stores[storage] = ArrayStore(self, x, self.outer)
        if store is not None and not whole:
            raise self.carry(storage, f"{user_line()}: a round needs a part of an array that it assigns to")
        return store

    def places_of(self, key: Any) -> Any:
        """The values of an index in all rounds; None where it depends on more than the round."""
        return self._path.in_rounds(key.atom) if isinstance(key, Integer) and key.builder is self._path.builder else None

    def same_in_rounds(self, value: Any) -> int | None:
        """The integer that a value is in all rounds; None for anything else."""
        line = self._path.affine(value.atom) if value.builder is self._path.builder else None
        return None if line is None or line[1] else line[0]

    def cell(self, key: Any, x: Tracer) -> tuple[Any, Any]:
        """An index of the first axis, and its values in all rounds, counted from the front."""
        key = key[0] if type(key) is tuple and len(key) == 1 else key
        places, size = self.places_of(key), x.shape[0]
        if places is None:
            raise self.carry(x.shared().storage, f"{user_line()}: a round needs a cell that its number does not tell")
        if places[0] < 0 and (places < 0).all():
            places = places + size
        if (places < 0).any() or (places >= size).any():
            raise self.keeping.peel(1, 0, f"{user_line()}: places that are counted from both ends, or out of bounds")
        return key, places

    # -- structures

    def nothing(self, slot: Slot, builder: Builder | None = None) -> Any:
        """What stands for an item in a round that does not append it."""
        builder = self._path.builder if builder is None else builder

        def made(spread: Any) -> Any:
            if isinstance(spread, Parts):
                found = spread.together([made(s) for s in spread.parts])
                self.fresh[id(found)] = found
                return found
            if spread is not _LEAF:
                return spread.value
            return self._zero(next(forms), builder)

        forms = iter(slot.forms)
        return made(slot.structure)

    def _opened(self, value: Any, above: tuple[int, ...]) -> Parts | None:
        """The parts of a list, a tuple, or of a dict or object where rounds are known to hand on others of its class."""
        found = None if value in self.states else parts_of(value)
        if found is None or not (found.kind in self.keeping.opened or issubclass(found.kind, (list, tuple))):
            return None
        if id(value) in above:
            self.keeping.open.append(self)
            raise self.keeping.refuse(f"a {found.kind.__name__} holds itself")
        return found

    def _spread(self, value: Any, name: str, above: tuple[int, ...] = ()) -> Any:
        """A value as nested `Parts`, of `_Value`s, and anything else as it is, or as what stands for it."""
        if id(value) in self.states.growing:
            return self.states.growing[id(value)]
        found = self._opened(value, above)
        if found is not None:
            return self._spread_parts(found._replace(own=value), name, (*above, id(value)))
        return _Value(name, value, (self.place, name) in self.keeping.uneven) if _is_value(value) else value

    def _spread_parts(self, found: Parts, name: str, above: tuple[int, ...]) -> Parts:
        names = found.names if len(found.names) == len(found.parts) else range(len(found.parts))
        called = [f"{name}{n}" if name else str(n) if str(n).isidentifier() else f"c{n}" for n in names]
        return found._replace(parts=tuple([self._spread(v, n, above) for n, v in zip(called, found.parts, strict=True)]))

    # -- names that hold one of several structures

    def _other(self, name: Any, reason: str) -> BaseException:
        """What is to be raised where a name may hold another structure in another round."""
        if not isinstance(name, str) or (self.place, name) in self.keeping.several:
            return self.keeping.refuse(reason)
        self.keeping.several[self.place, name] = []
        return Again()

    def _peeled(self, reason: str) -> BaseException:
        """What is to be raised where a name holds another structure behind a round than before: the first one, or any one."""
        if not self.asked and not self.keeping.peels.get(self.place, (0, 0))[0]:
            return self.keeping.peel(1, 0, reason)
        return self._other(self._name, reason)

    def _begun(self, value: Any, name: str) -> Any:
        """What a name holds before the loop, taken apart; the other structures that it may hold begin with zeros."""
        ways = self.keeping.several.get((self.place, name))
        if ways is None:
            return self._spread(value, name)
        own = self._which_way(name, value, [])
        which = _Value(f"{name}_way", own, True)
        begun = []
        for n, (structure, forms) in enumerate(ways):
            called = f"{name}{n}"
            begun.append(self._spread(value, called) if n == own else _of_zeros(structure, iter(forms), called))
        return _Several(which, tuple(begun))

    def _which_way(self, name: str, value: Any, leaves: list[Any]) -> int:
        """The number of the structure of what a name holds."""
        ways = self.keeping.several[self.place, name]
        found = self._flat(value, leaves)
        shapes = [np.shape(v) for v in leaves]
        for n, (structure, forms) in enumerate(ways):
            if structure == found and [f.shape for f in forms] == shapes:
                return n
        if len(ways) == _WAYS or (isinstance(found, Parts) and not _is_frozen(found)):
            self.keeping.open.append(self)
            raise self.keeping.refuse("the ways through a round give values of different structures")
        ways.append((found, [traced_form(v) for v in leaves]))
        return len(ways) - 1

    def _way(self, name: str, value: Any, leaves: list[Any]) -> Any:
        """What a name holds behind a round, and zeros for the other structures."""
        own: list[Any] = []
        ways = self.keeping.several[self.place, name]
        known = len(ways)
        which = self._which_way(name, value, own)
        if which == known:
            raise Again
        leaves.append(which)
        for n, (_, forms) in enumerate(ways):
            leaves += own if n == which else [self._zero(f, self._path.builder) for f in forms]
        return _Several(_LEAF, tuple([structure for structure, _ in ways]))

    def _zero(self, form: Form, builder: Builder) -> Any:
        atom: Any = zero_of(form.code)
        if form.shape:
            atom = Arrays(builder, self.origin).broadcast_to(atom, form.shape)
        return Integer(builder, atom, form.kind) if form.whole else Tracer(builder, atom, form.kind)

    def _symbolic(self, spread: Any, builder: Builder, index: Any) -> Any:
        if isinstance(spread, Parts):
            copy = spread.together([self._symbolic(s, builder, index) for s in spread.parts])
            self.copies[id(copy)] = copy, spread.own
            return copy
        if isinstance(spread, _Several):
            which, *ways = [self._symbolic(s, builder, index) for s in (spread.which, *spread.ways)]
            return ways[which if type(which) is int else which.decided()]
        if not isinstance(spread, _Value):
            return spread
        if spread.fixed:
            self.guessed += [spread.name] if spread.step else []
            return spread.begin if not spread.step else index * spread.step + spread.begin
        form = spread.forms[0]
        kind = form.kind if len(spread.forms) == 1 else kind_of_several(spread.forms, self._which)
        symbol = builder.input(spread.name, form.shape, form.code)
        self.symbols.append((spread, symbol))
        if all(f.whole for f in spread.forms):
            if spread.reach is not None:
                self._path.reaches(symbol, *spread.reach)
            return Integer(builder, symbol, kind)
        if not form.shape:
            return Tracer(builder, symbol, kind)
        self._entered.append((spread, Tracer.argument(builder, symbol, kind)))
        return self._entered[-1][1]

    def _standing(self, item: Any) -> Any:
        """What a round runs over, whose parts stand for what was there before."""
        found = parts_of(item)
        if found is not None and found.kind is not tuple:
            self.copies[id(item)] = item, None
        for part in found.parts if found is not None else ():
            self._standing(part)
        return item

    def _which(self) -> int:
        if self.outer not in active_builders():
            return 0  # who looks at a value after its trace
        raise self.keeping.peel(1, 0, f"{user_line()}: the type of a value is another one in the first round")

    def is_of_round(self, value: Any) -> bool:
        """Whether a value has traced parts that the round has computed, or been given."""
        builder = None if self._path is None else self._path.builder
        return any(isinstance(v, Tracer) and v.builder is builder for v in leaves_of(value, self.states))

    def _flat(self, value: Any, leaves: list[Any], whole: bool = False, above: tuple[int, ...] = ()) -> Any:
        """The structure of what a name holds behind a round, its numbers and arrays to the leaves; `whole`: of a state."""
        if _is_value(value):
            leaves.append(value)
            return _LEAF
        found = parts_in(value) if whole else self._opened(value, above)
        if found is None and (value in self.states or not self.is_of_round(value)):
            if hasattr(type(value), "__next__"):
                raise self.keeping.refuse("a round makes an iterator that is not used up in it")
            if type(value) is types.FunctionType and any(map(self.is_of_round, _kept_by(value))):
                raise self.keeping.refuse("a round hands on a function that it makes")
            return _Same(value)
        if found is None:
            found = parts_of(value)
            assert found is not None
            self.keeping.opened.add(found.kind)
        if not issubclass(found.kind, tuple) and not whole:
            self._doubted |= id(value) in self._met or id(value) not in self.fresh
            self._met.add(id(value))
            if id(value) in self.copies:
                own = self.copies[id(value)][1]
                self.keeping.doubtful[id(own)] = own, self
        return found._replace(parts=tuple([self._flat(v, leaves, False, (*above, id(value))) for v in found.parts]))

    # -- what a round gives against what it was given

    def _agrees(self, skeletons: dict[str, Any], found: Any) -> bool:
        """Whether all values are handed on as they were taken; else what is known of them has grown."""
        self.keeping.open.append(self)
        forms = found[3]
        self.handed: list[tuple[_Value | None, Atom, list[Form], list[Any]]] = []
        place = iter(range(len(forms)))
        agrees = True
        self.given: dict[_Item, list[tuple[Atom, list[Form]]]] = {}
        for name, spread in self._spreads.items():
            if isinstance(name, _Item):
                self.given[name] = []
                self._give(name, spread, place, found)
                continue
            before = name.value if isinstance(name, CarriedStore) else skeletons.get(name, _ABSENT)
            self._name = name
            agrees &= self._compared(before, spread, place, found)
        for store in self._stores():
            agrees &= store.agrees()
        for name in skeletons:
            if name not in self._spreads:
                raise self.keeping.refuse("a round deletes a name")
        if self.tested and self.given:
            within = self.outer.path is None or self.outer.path.is_round
            for item in self.given:
                if type(item.store) is Growing and item.store.collects:
                    continue
                if within or isinstance(item.store, ArrayStore):
                    raise item.store.unknown("rounds whose number is not known give cells of an array or a list")
                self.decides = True
        self.keeping.open.pop()
        return agrees

    def _give(self, item: Any, spread: Any, place: Iterator[int], found: Any) -> None:
        """Note what rounds give as cells or items."""
        if isinstance(spread, Parts):
            for part in spread.parts:
                self._give(item, part, place, found)
        elif spread is _LEAF:
            n = next(place)
            if any(np.shape(v) != np.shape(found[4][n][0]) for v in found[4][n]):
                raise self.keeping.refuse("rounds give cells of different shapes")
            self.given[item].append((found[0].outputs[n].atom, found[3][n]))

    def _compared(self, before: Any, spread: Any, place: Iterator[int], found: Any) -> bool:
        run, path, _, forms, given = found
        if isinstance(spread, _Several):
            pairs = zip((before.which, *before.ways), (spread.which, *spread.ways), strict=True)
            agrees = [self._compared(b, s, place, found) for b, s in pairs]
            return all(agrees)
        if isinstance(spread, Parts):
            parts: Any = [_ABSENT] * len(spread.parts)
            if before is not _ABSENT:
                self._open(_Same(before), spread)
                alike = isinstance(before, Parts) and before[:2] == spread[:2] and len(before.parts) == len(spread.parts)
                if not alike:
                    raise self._peeled("rounds hand on values of different structures")
                parts = before.parts
            agrees = [self._compared(b, s, place, found) for b, s in zip(parts, spread.parts, strict=True)]
            return all(agrees)
        if isinstance(spread, _Same):
            if before is not _ABSENT and (isinstance(before, (_Value, Parts)) or spread != _Same(before)):
                self._open(_Same(before), spread)
                raise self._peeled("rounds hand on other things than numbers and arrays")
            return True
        n = next(place)
        if before is not _ABSENT and not isinstance(before, _Value):
            raise self._peeled("rounds hand on values of different structures")
        value = None if before is _ABSENT else before
        atom = run.outputs[n].atom
        self.handed.append((value, atom, forms[n], given[n]))
        return value is None or self._taken(value, atom, forms[n], given[n], path)

    def _open(self, one: Any, other: Any) -> None:
        """Take objects of a class apart from now on, where rounds give several of them."""
        if isinstance(one, _Same) and one != other:
            kind = other.kind if isinstance(other, Parts) else type(other.value) if isinstance(other, _Same) else None
            if type(one.value) is kind and one.value not in self.states and parts_of(one.value) is not None:
                self.keeping.opened.add(kind)
                raise Again

    def _taken(self, value: _Value, atom: Atom, forms: list[Form], given: list[Any], path: RoundPath) -> bool:
        """Whether a value is handed on as it was taken."""
        if value.fixed:
            if value.counts and all(f.whole and f.kind.python for f in forms):
                counted = self._steps(value, atom, path)
                if counted is not None:
                    return counted
            if all(type(v) is bool and v is value.begin for v in given):
                return True
            if all(type(v) is int and v == value.begin for v in given) and not value.step:
                return True
            value.fixed = False
            value.forms = [traced_form(value.begin)]
            known = 0
        else:
            known = len(value.forms)
        for form in forms:
            for one in form.kind.several.forms if form.kind.several else (form,):
                if one not in value.forms:
                    value.forms.append(one)
        if len({f.code for f in value.forms}) > 1 or len({f.shape for f in value.forms}) > 1:
            raise self._peeled("rounds hand on values of different dtypes or shapes")
        within = not all(f.whole for f in value.forms) or self._reaches(value, self._ranges[atom])
        return within and len(value.forms) == known

    def _steps(self, value: _Value, atom: Atom, path: RoundPath) -> bool | None:
        """Whether an integer is counted on by the step that is known; None where it is none that the index tells."""
        step: int | None = None
        if atom.op == "const":
            step = int(atom.value) - value.begin  # type: ignore[attr-defined]
            agrees = step == value.step if not step else not value.step
            if agrees and not step:
                return True
            step = step if agrees else None
        elif self.tested and (line := path.affine(atom)) is not None:
            if line == (value.begin + value.step, value.step):
                return True
            step = line[1] or None
        elif (places := path.in_rounds(atom)) is not None and not np.diff(places, 2).any():
            step = int(places[1] - places[0])
            if step == value.step and places[0] == value.begin + step:
                return True
        if step is not None and step != value.step:
            value.step = step
            return False
        regular = atom.op == "const" or step is not None
        if regular and not self.tested and not self.keeping.peels.get(self.place, (0, 0))[0]:
            raise self.keeping.peel(1, 0, "an integer is counted irregularly")
        value.step = 0
        return None

    def _reach(self, leaves: list[Any], ranges: list[Any]) -> None:
        """Join, to those of other ways through the round, where integers are behind it: as far as is known, wherever they were
        before, and how far from there.
        """
        path = self._path
        taken = [(value, Integer(path.builder, symbol)) for value, symbol in self.symbols if value.is_whole()]
        known = path.beyond([x.atom for _, x in taken], WIDE)

        def wide(x: Any) -> tuple[float, float]:
            return known(x.atom) if isinstance(x, Tracer) and x.builder is path.builder else reach(x)

        for n, leaf in enumerate(leaves):
            found: dict[Any, tuple[float, float]] = {}
            if isinstance(leaf, (int, Integer)):
                found = {"known": reach(leaf)}
                for value, begin in taken:
                    if begin.shape == np.shape(leaf):
                        moved, away = moves(path, leaf, begin, wide, MOST / (self.count or MOST))
                        (low, high), (least, most) = found["known"], reach(value.begin)
                        if least <= low and high <= most:  # what is where it was before the loop is no step away
                            moved, away = (0.0, 0.0), (math.inf, -math.inf)
                        found |= {value: moved, (value, "away"): away}
            if n == len(ranges):
                ranges.append(found)
            else:
                both = ranges[n].keys() & found.keys()
                ranges[n] = {k: (min(ranges[n][k][0], found[k][0]), max(ranges[n][k][1], found[k][1])) for k in both}

    def _reaches(self, value: _Value, ranges: Any) -> bool:
        """Whether an integer stays between those that were assumed; else others are assumed."""
        known, (least, most) = reach(value.begin), ranges.get("known", (-math.inf, math.inf))
        if not all(map(math.isfinite, (*known, least, most))):
            return True
        low, high = value.reach or known
        if value.reach is not None and low <= least and most <= high:
            return True
        (back, on), away = (ranges.get(key, (-math.inf, math.inf)) for key in (value, (value, "away")))
        if value.added is not None:
            if value.added[0] <= back and on <= value.added[1] and value.base[0] <= away[0] and away[1] <= value.base[1]:
                return True
            raise self.keeping.refuse("an integer may become too large")
        value.passes += 1
        rounds = MOST if self.count is None else self.count
        if away[0] > -WIDE and away[1] < WIDE:  # by as much in each round, from where it began or was said to be
            value.base = min(known[0], away[0]), max(known[1], away[1])
            value.added = min(back, 0.0), max(on, 0.0)
            value.reach = value.base[0] + value.added[0] * (rounds - 1), value.base[1] + value.added[1] * (rounds - 1)
        elif value.passes < _PASSES:
            value.reach = min(low, least), max(high, most)
        else:
            raise self.keeping.refuse("an integer may become too large")
        return False

    # -- the end

    def _finish(self, outer: Builder, count: int | None, found: Any, skeletons: dict[str, Any]) -> None:
        """The loop is bound, and the names are set to what it gives."""
        run, path, k, _, _ = found
        work = repeated_bindings(run.builder.bindings, lambda b: work_of(b) * work_of_binding(b))
        operations = math.inf if count is None else count * work
        self.keeping.open.append(self)
        symbols = {value: run.builder.inputs[1 + n].node for n, (value, _) in enumerate(self.symbols)}
        carried: list[Carried] = []
        places: list[int | None] = []
        names = {"k"}
        for n, (value, atom, forms, _) in enumerate(self.handed):
            if value is not None and value.fixed:
                places.append(None)
                continue
            if value is None and (self._is_index(atom, forms, path) if not self.tested else atom.op == "const"):
                places.append(None)
                continue
            code = dtype_of_atoms((atom,))
            if value is None:
                begin: Atom = zero_of(code)
                symbol = Node("input", (), atom.shape, code, None, "", True, f"last{n}")
            else:
                begin, symbol = traced_atom(value.begin, outer, self.origin), symbols[value]
                if isinstance(begin, Constant) and begin.dtype is None:
                    begin = Constant(complex(begin.value) if symbol.dtype in "FD" else float(begin.value)
                                     if symbol.dtype in "fd" else begin.value, symbol.dtype)  # fmt: skip
            name = symbol.name
            while name in names:
                name += "_"
            names.add(name)
            places.append(len(carried))
            carried.append(Carried(name, symbol, begin, atom))
        stores = {} if self.decides else {item: item.store for item in self.given}
        told = {item: self._told(item, path) for item, store in stores.items() if not (self.tested and store.collects)}
        for grown in self.states.growing.values() if not self.decides else ():
            grown.prepare(self.tested or any(known is None for item, known in told.items() if item.store is grown))
        given = [(item, atom) for item, known in told.items() for atom, _ in self.given[item][known is not None :]]
        stacked = [Stacked("y", atom, *item.store.rows(count)) for item, atom in given]
        test, name, outputs = None, "", run.outputs
        if self.tested:
            test = outputs[-2].atom
            name = self._counting(outer)
        if self.leaves:
            carried.append(Carried("going", run.builder.inputs[1 + len(self.symbols)].node, Constant(True), outputs[-1].atom))
        made = Round(run.builder, k, count, path.in_rounds, self.origin, test, name)
        results, stacks = bound_loop(outer, made, carried, stacked)
        rounds = stacks.pop() if self.tested else None
        if rounds is not None and outer.path is not None:
            outer.path.reaches(rounds, 0, MOST if count is None else count)
        if self.decides:
            self.keeping.open.pop()
            self.keeping.keep(self.place, operations)
            self.count = integer(outer, rounds).of_kind(PYTHON).decided()  # type: ignore[arg-type]
            if self.keeping.is_few(self.count):
                self.keeping.open.append(self)
                raise self.keeping.refuse("few rounds are alike")
            return
        leaves = []
        counted = count if rounds is None else integer(outer, rounds).of_kind(PYTHON)
        for place, (value, atom, forms, given) in zip(places, self.handed, strict=True):
            if place is None:
                leaves.append(self._counted(value, atom, given, counted, path))
            else:
                if value is not None and value.reach is not None and outer.path is not None and results[place].op != "const":
                    outer.path.reaches(results[place], *value.ends())
                    if value.added is not None and value.base == reach(value.begin) and isinstance(value.begin, Integer):
                        went = value.added[0] * (count or MOST), value.added[1] * (count or MOST)
                        outer.path.moved[results[place]] = traced_atom(value.begin, outer, self.origin), went
                leaves.append(self._behind(outer, results[place], forms))
        whole, raised = iter(leaves), {}
        self.values = {}
        windows: dict[tuple[Any, int], Any] = {}
        for name, s in self._spreads.items():
            if isinstance(name, State):
                name.into(s, [self._joined(part, whole) for part in s.parts])
            elif isinstance(name, str):
                self.values[name] = self._joined(s, whole)
            elif isinstance(name, _Raised):
                raised[name.key] = self._joined(s, whole)
            elif isinstance(name, _Window):
                windows[name.store, name.place] = self._joined(s, whole)
            elif isinstance(name, CarriedStore):
                self._joined(s, whole)
        if not self.begins:
            self._forget(skeletons)
        self._watch()
        behind = {value: leaf for (value, *_), leaf in zip(self.handed, leaves, strict=True)}
        for c in self.carried:
            c.close(traced_atom(behind[c.value], outer, self.origin))
            self.values.update(c.originals)
        self.keeping.open.pop()
        whole = iter(stacks)
        rows: dict[_Item, list[tuple[Any, list[Form]]]] = {}
        for item, known in told.items():
            cells = self.given[item]
            rows[item] = [(known if known is not None and not n else next(whole), f) for n, (_, f) in enumerate(cells)]
            if isinstance(item.store, ArrayStore):
                item.store.close(rows[item][0][0], count)  # type: ignore[arg-type]
        for grown in self.states.growing.values():
            if self.tested:
                ends = [windows[grown, n] for n in range(len(grown.before))]
                grown.collect(self._asking(grown), None, ends, windows[grown, -1])
            else:
                self._list(grown, [(slot.structure, rows[_Item(grown, n)]) for n, slot in enumerate(grown.slots)], count)
        self._stand_in(False)
        for name, cells in self.listed.items():
            cells.into(self.items_of[name])
            self.values[name] = self.items_of[name]
        self.moved = True
        self.unbound = [name for name in self.names if name not in self.values]
        self.keeping.keep(self.place, operations)
        for key, truth in raised.items():
            if not isinstance(self.errors[key], Left):
                raises_behind(truth, self.errors[key])  # type: ignore[arg-type]
            elif truth:
                raise self.errors[key]

    def _asking(self, grown: Growing) -> Any:
        def whole() -> Any:
            self.keeping.asked.add(grown.key)
            raise Again

        return whole

    def _list(self, grown: Growing, items: list[tuple[Any, list[tuple[Any, list[Form]]]]], count: int) -> None:
        """A list gets the items that all rounds have given; those of one round lie one behind the other."""
        arrays, many = Arrays(self.outer, self.origin), len(items)
        masks = [cells[0][0] for _, cells in items]
        wholes = [[x for x, _ in cells[1:]] for _, cells in items]
        alike = len({tuple((x.shape, x.dtype) for x in own) for own in wholes}) == 1

        def joined(group: Any) -> Atom:
            parts = [arrays.reshape(x, (count, 1, *x.shape[1:])) for x in group]
            return arrays.reshape(arrays.concatenate(parts, 1), (count * many, *group[0].shape[1:])) if many > 1 else group[0]

        if alike:
            wholes = [[joined(group) for group in zip(*wholes, strict=True)]]
        known = all(isinstance(mask, np.ndarray) for mask in masks)

        def chosen() -> Iterator[Any]:
            return self._chosen(items, wholes, masks, count)

        if known or type(grown.owner) is Growing:
            grown.end(chosen())
            return
        rows = None
        if alike and all(spread == items[0][0] for spread, _ in items):
            truths = [Constant(True) if isinstance(m, np.ndarray) and m.all() else m for m in masks]
            if not any(isinstance(m, np.ndarray) for m in truths):
                truths = [arrays.broadcast_to(m, (count,)) if m.op == "const" else m for m in truths]
                columns = [[f for _, f in cells[1:]] for _, cells in items]
                forms = [[*dict.fromkeys(f for group in several for f in group)] for several in zip(*columns, strict=True)]
                traced = [Tracer(self.outer, x) for x in wholes[0]]
                traced = [Integer.of(x) if all(f.whole for f in fs) else x for x, fs in zip(traced, forms, strict=True)]
                spread, mask = items[0][0], Tracer(self.outer, joined(truths))
                rows = Rows(mask, traced, forms, lambda leaves: self._joined(spread, leaves), spread is _LEAF)
        grown.collect(chosen, rows, [], None)

    def _chosen(self, items: Any, wholes: list[list[Atom]], masks: list[Any], count: int) -> Iterator[Any]:
        """The items of a list, of which it must be known which rounds give them."""
        many = len(items)
        chosen = np.stack([self._pattern(mask) for mask in masks], 1) if items else np.ones((count, 0), bool)
        alike = len(wholes) < many
        kept = [chosen.ravel()] * many if alike else [*chosen.T]
        wholes = [[x if k.all() else Tracer(self.outer, x)[k].atom for x in own] for own, k in zip(wholes, kept, strict=False)]
        shown = [[Tracer(self.outer, x) if len(x.shape) > 1 else x for x in own] for own in wholes] * (many if alike else 1)
        for x in (x for row in shown for x in row if self._shared and isinstance(x, Tracer)):
            root_of(x.shared().storage).watch = self._changed
        places = [np.cumsum(k).reshape(-1, many if alike else 1)[:, n if alike else 0] - 1 for n, k in enumerate(kept)]
        for n, place in zip(*chosen.nonzero(), strict=True):
            spread, (_, *cells) = items[place]
            pairs = zip(shown[place], cells, strict=True)
            yield self._joined(spread, (self._cell(x, int(places[place][n]), forms) for x, (_, forms) in pairs))

    def _told(self, item: "_Item", path: RoundPath) -> Any:
        """Which rounds give an item to a list, where their number tells it."""
        atom = self.given[item][0][0]
        if type(item.store) is not Growing or self.count is None:
            return None
        return np.full(self.count, atom.value) if atom.op == "const" else path.in_rounds(atom)  # type: ignore[attr-defined]

    def _pattern(self, mask: Any) -> Any:
        """Which rounds give an item to a list, which must be known here."""
        if isinstance(mask, np.ndarray):
            return mask.astype(bool)
        path = self.outer.path
        if path is None or path.is_round or path.is_needed:
            self.keeping.open.append(self)
            raise self.keeping.refuse("conditions tell which rounds append to a list, and it must be known which")
        return pattern(Tracer(self.outer, mask))

    def _cell(self, stack: Any, n: int, forms: list[Form]) -> Any:
        if isinstance(stack, Tracer):
            return stack[n]
        return self._behind(self.outer, self.outer.bind("item", (stack,), (), stack.dtype or "d", n, self.origin), forms)

    def _joined(self, spread: Any, leaves: Iterator[Any]) -> Any:
        if isinstance(spread, _Several):
            which, *ways = [self._joined(s, leaves) for s in (spread.which, *spread.ways)]
            return ways[which if type(which) is int else which.decided()]
        if not isinstance(spread, Parts):
            if spread is not _LEAF and self.stands(spread.value):
                return spread.value.behind
            return next(leaves) if spread is _LEAF else spread.value
        made = spread.together([self._joined(s, leaves) for s in spread.parts])
        if self._doubted:
            self.keeping.doubtful[id(made)] = made, self
        for loop in self.keeping.open[-2:-1]:
            loop.fresh[id(made)] = made
        return made

    def _counting(self, outer: Builder) -> str:
        """A name for the number of rounds: the same one when the enclosing runs come here again by the same decisions."""
        way: list[Any] = [self.place]
        builder: Builder | None = outer
        while builder is not None:
            if builder.path is not None:
                way += tuple(d.value for d in builder.path.decisions), builder.path.counted
            builder = builder.parent
        if outer.path is None:
            way.append(len(self.keeping.counted))
        else:
            outer.path.counted += 1
        return f"rounds{self.keeping.counted.setdefault(tuple(way), len(self.keeping.counted) + 1)}"

    def _forget(self, skeletons: dict[str, Any]) -> None:
        """Names that only a round binds, of which there may be none."""
        if any(name in self.behind for name in self.names if name not in skeletons):
            self.keeping.unsure[self.place] = "what rounds bind, of which there may be none, is read elsewhere"
        self.values = {name: value for name, value in self.values.items() if name in skeletons}

    @staticmethod
    def _is_index(atom: Atom, forms: list[Form], path: RoundPath) -> bool:
        """Whether a value that only a round has is a number of Python's that the index tells."""
        if not all(f.whole and f.kind.python and not f.kind.several for f in forms):
            return False
        return atom.op == "const" or path.in_rounds(atom) is not None

    def _counted(self, value: _Value | None, atom: Atom, given: list[Any], count: Any, path: RoundPath) -> Any:
        if value is not None:
            return count * value.step + value.begin if value.counts and value.step else value.begin
        return given[0] if atom.op == "const" else int(path.in_rounds(atom)[-1])

    def of_forms(self, found: Any, forms: list[Form]) -> Any:
        """A number that is of one of several forms."""
        return found.of_kind(forms[0].kind if len(forms) == 1 else kind_of_several(forms, self._undecided))

    def _behind(self, outer: Builder, atom: Atom, forms: list[Form]) -> Any:
        found = [f for form in forms for f in (form.kind.several.forms if form.kind.several else (form,))]
        found = list(dict.fromkeys(found))
        kind = found[0].kind if len(found) == 1 else kind_of_several(found, self._undecided)
        if all(f.whole for f in found):
            return integer(outer, atom).of_kind(kind) if atom.op != "const" else int(atom.value)
        return Tracer(outer, atom, kind) if atom.op != "const" else atom.value  # type: ignore[arg-type]

    def _undecided(self) -> int:
        if self.outer not in active_builders():
            return 0
        self.keeping.open.append(self)
        raise self.keeping.refuse("the type of a value behind it depends on conditions in it")


class _Several(NamedTuple):
    """What holds one of several structures: the number of that, and these."""

    which: Any
    ways: tuple[Any, ...]


class _Same:
    """What is no number and no array: the same object, or an equal constant of Python's."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Same):
            return False
        a, b = self.value, other.value
        return a is b or (type(a) is type(b) and isinstance(a, (str, bytes, type(None), range, slice)) and a == b)

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, slots=True)
class _Item:
    """A cell or an item that a round gives: of which store, and the how manieth."""

    store: Any
    place: int


@dataclass(frozen=True, slots=True)
class _Window:
    """One that a round before has given, counted backwards."""

    store: Any
    place: int


@dataclass(frozen=True, slots=True)
class _Raised:
    """Whether a round has raised an exception, by its class and text."""

    key: Any


_LEAF, _ABSENT = object(), object()


def _is_frozen(found: Any) -> bool:
    """Whether a structure is made of tuples alone."""
    return not isinstance(found, Parts) or (issubclass(found.kind, tuple) and all(map(_is_frozen, found.parts)))


def _of_zeros(structure: Any, forms: Iterator[Form], name: str) -> Any:
    """A structure of zeros, which nobody reads."""
    if isinstance(structure, Parts):
        return structure._replace(parts=tuple([_of_zeros(s, forms, f"{name}{n}") for n, s in enumerate(structure.parts)]))
    if structure is not _LEAF:
        return structure.value
    form = next(forms)
    made = _Value(name, np.zeros(form.shape, form.code) if form.shape else np.zeros((), form.code).item())
    made.fixed, made.counts, made.forms = False, False, [form]
    made.reach = (0.0, 0.0) if form.whole else None
    return made


def _arrays(value: Any) -> Iterator[Tracer]:
    """The traced arrays in a value."""
    return (x for x in leaves_of(value) if isinstance(x, Tracer) and (x.shape or x.held is not None))


def _kept_by(f: types.FunctionType) -> list[Any]:
    """What a function has besides its code."""
    return [*(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values(), *(f.__closure__ or ())]


def _is_value(value: Any) -> bool:
    return isinstance(value, (Tracer, *_NUMBERS, bool, int))
