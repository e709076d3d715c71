"""A loop's rounds as the clone of the user's function runs them: some as they are, and one in symbols for all the others.

Assumes loops that `rewriting` handed over. Guarantees that a loop is kept only where a round, run on symbols for its index and
for the values that rounds hand on, gives values of the same structure, types and kinds again, whichever way its conditions
turn; that nothing but names of the loop is changed in it; and that the rounds that are peeled off at the ends run as they are.
The other loops run as they are, round by round.
"""

import functools
import gc
import itertools
import sys
import types
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from symdiff.ir.building import Builder, active_builders
from symdiff.ir.graph import GraphOutput
from symdiff.ir.node import Node
from symdiff.simplification.interning import Values
from symdiff.tracing.branches.merging import Leaf
from symdiff.tracing.branches.paths import Decision, Run, joined_runs, next_decisions
from symdiff.tracing.loops.carrying import LEAF, Carrying, EarlierItem, GivenItem, HandedOn, RaisedIn, is_handed_value
from symdiff.tracing.loops.closing import Closing
from symdiff.tracing.loops.collected import Collected
from symdiff.tracing.loops.columns import assign
from symdiff.tracing.loops.growing import Growing
from symdiff.tracing.loops.holding import Holding
from symdiff.tracing.loops.indices import RoundPath
from symdiff.tracing.loops.items import Items, is_stepping, items_of, run_over
from symdiff.tracing.loops.keeping import Again, Keeping
from symdiff.tracing.loops.parts import COLUMNS
from symdiff.tracing.loops.states import Held, Left, State, States, Taker
from symdiff.tracing.loops.stores import ArrayStore, Listed
from symdiff.tracing.values.integers import Integer
from symdiff.tracing.values.kinds import PYTHON, traced_form
from symdiff.tracing.values.storage import Storage
from symdiff.tracing.values.tracer import Tracer, traced_atom

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
    and whether it yields; what it reads, where it is one of integers alone; its place.
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
    read: tuple[str, ...] | None
    place: tuple[int, int]


class KeptRounds(Carrying, Closing, Holding):
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
        self.chooses = False  # whether a round has conditions that its number does not tell
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
        self.numbered: dict[Any, Any] = {}  # what gives the items of lists by integers that rounds tell
        self.read: dict[int, Any] = {}  # such lists, and those in them
        self._doubted = self.tested  # whether others may have what rounds hand on
        self._rounds = self._run()

    def __iter__(self) -> "KeptRounds":
        return self

    def __next__(self) -> Any:
        self.moved, self.values, self.unbound = False, {}, []
        return next(self._rounds)

    def ends(self, goes_on: Any) -> bool:
        """What a `while` asks before a round: noted."""
        if np.shape(goes_on) or not (is_handed_value(goes_on) or isinstance(goes_on, np.bool_)):
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
        columns = {n: c.cells for n, c in enumerate(self.keeping.columns.values())}
        return {n: around[n] for n in self.shared if n in around} | self.frame.f_locals | self._passed | {COLUMNS: columns}

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
        if self.keeping.is_few(self.place, count - first - last):
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
        self.keeping.end_columns(self.place)

    def _stepped(self, values: Iterator[Any], count: Any, first: int, last: int) -> Iterator[Any]:
        """The rounds over an iterator, which goes on with them."""
        if self.tested or self.keeping.is_few(self.place, count - first - last):
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
        alone = {n for n in self.appended if n in self.frame.f_locals and self._is_alone(n)}
        self._check_reach()
        self.outer, self.count = outer, count
        self.stores: dict[Storage, ArrayStore] = {}
        self.listed = self._listed()
        self.of_items = [part for columns in self.keeping.columns.values() for part in columns.parts()]
        self.carried = self._carried()
        self._shared: list[Storage] = []
        apart = {n for n in (*self.stored, *self.reached) if n not in self.added}
        apart.update(n for c in self.carried for n in c.originals)
        self.names = tuple(n for n in self.names if n not in apart)
        entry = {n: v for n, v in self._bound().items() if n not in self.targets}
        self.unbinds: set[str] = set()
        for name, value in [item for item in self._bound().items() if item[0] in self.appended]:
            if type(value) in (list, Growing, Collected):
                self.states.take(value, True, name in alone)
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
        for held in (self.items_of, self.read, self.numbered):
            held.clear()  # or others would not find these lists alone

    def _rounds_of(self, entry: dict[str, Any], first: int) -> Iterator[Any]:
        """Rounds of symbols, and the loop that is made of them."""
        outer, count = self.outer, self.count
        skeletons: dict[Any, Any] = {}
        for _ in range(_TRIES):
            if self.states.found or not skeletons:
                self.states.put_back()
                skeletons = {name: self._begun(value, name) for name, value in entry.items() if name not in self.unbinds}
                skeletons |= {state: self._spread_parts(parts, "", ()) for state, parts in self.states.known.values()}
            skeletons |= {r: HandedOn("raised", False) for r in map(RaisedIn, self.errors) if r not in skeletons}
            for store in self._stores():
                windows = (EarlierItem(store, n) for n in store.asked_places())
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
        changed.update(self.states.growing)
        changed_cells = {id(c.storage) for c in self.carried} | set(map(id, self.stores))
        for columns in self.keeping.columns.values():
            if any(id(cells.shared().storage) in changed_cells for cells in columns.cells.values()):
                changed.update(map(id, columns.owner))
        if changed and any(id(value) in changed for value in run_over(self.items.over, self.keeping.columns)):
            self.keeping.open.append(self)
            raise self.keeping.refuse("a round changes what the loop runs over")
        if not changed.isdisjoint(self.read):
            self.keeping.open.append(self)
            raise self.keeping.refuse("a round changes a list of which it takes items by number")
        self._finish(outer, count, found, skeletons)

    def _is_alone(self, name: str) -> bool:
        """Whether nothing else holds what a name does, but for what notes that rounds have made it."""
        noted = sum(id(self.frame.f_locals[name]) in loop.fresh for loop in self.keeping.open)
        return references(self.frame, name) <= ALONE + noted

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
        own, taken = self.frame.f_locals, self.taken
        shared = [values for values in taken if sys.getrefcount(values) > _LISTED + 1]  # which is one name here
        if shared:
            holders = [h for h in gc.get_referrers(*shared) if h is not taken and h is not shared and h is not own]
            around = [loop.items for loop in self.keeping.open]
            if any(type(h) is not types.FrameType and (type(h) is not Items or any(h is i for i in around)) for h in holders):
                raise self.keeping.refuse("a round takes items of an iterator that was there before")
        taken.clear()

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
            self.symbols: list[tuple[HandedOn, Node]] = []
            self._entered: list[tuple[HandedOn, Tracer]] = []
            self.fresh, self.copies, self._met, self.guessed, self.taken = {}, {}, set(), [], []
            self.values = {}
            for name, s in skeletons.items():
                if isinstance(name, State):
                    name.into(s, [self._symbolic(part, builder, index) for part in s.parts])
                elif not isinstance(name, EarlierItem):
                    self.values[name] = self._symbolic(s, builder, index)
            self._passed = {}
            self.unbound = [name for name in self.names if name not in skeletons and name not in self.targets]
            for store in self._stores():
                known = (EarlierItem(store, n) for n in store.asked_places())
                store.begin({w.place: self._symbolic(skeletons[w], builder, index) for w in known if w in skeletons})
            self._stand_in(True)
            self.values.update(self.listed)
            for c in self.carried:
                symbol = builder.input(c.value.name, c.begin.shape, c.storage.code)
                self.symbols.append((c.value, symbol))
                if c.value.reach is not None:
                    path.reaches(symbol, *c.value.reach)
                self.values.update({name: self.standing(v) for name, v in c.copied(builder, symbol).items()})
            self.keeping.refresh()
            going = builder.input("going", (), "?") if self.leaves else None
            self._goes_on, self._left, self._raised = True, False, {}
            self.moved = True
            item = self.items.item(index + first if first else index)
            if self.items.goes_on is not None:
                path.reaches(traced_atom(item, builder, self.origin), *self.items.reach)
                self.ends(self.items.goes_on(item))
                self.below = [] if self.items.stop is None else [(item, self.items.stop)]
            if self.items.given is None or self.items.given(item):
                yield self.standing(self.items.of(item))
            elif not set(self.behind).difference(self.values).intersection(self.names):
                self._passed = dict(self.values)
            else:
                raise self.keeping.refuse("what rounds bind, of which there may be none, is read elsewhere")
            self._check_taken()
            for c in self.carried:
                c.settle(self._held())
            for item, name, value in self.of_items:
                assign(item, name, value)
            if not all(taker.waits for taker in self.takers()):
                raise self.keeping.refuse("what a round yields is taken by more than one loop")
            if self.states.found:
                active_builders().pop()
                self.keeping.open.pop()
                return None
            kept = (set(self.behind) - self.unbinds) | skeletons.keys()
            after: dict[Any, Any] = {n: v for n, v in self._bound().items() if n in kept}
            after.update({state: state.owner for state, _ in self.states.known.values()})
            for store in self._stores():
                after.update({GivenItem(store, n): value for n, value in enumerate(store.given(self.nothing))})
                after.update({EarlierItem(store, n): value for n, value in store.windows().items()})
            self.errors.update({key: error for key, (error, _) in self._raised.items()})
            truths = {key: truth is True or truth.of_kind(PYTHON) for key, (_, truth) in self._raised.items()}
            after.update({RaisedIn(key): truths.get(key, False) for key in self.errors})
            self._part(after, skeletons)
            leaves: list[Any] = []
            spread: dict[Any, Any] = {}
            shapes: dict[Any, list[Any]] = {}
            for name, value in after.items():
                begun = len(leaves)
                several = (self.place, name) in self.keeping.several
                spread[name] = self._way(name, value, leaves) if several else self._flat(value, leaves, isinstance(name, State))
                shapes[name] = [np.shape(v) for v in leaves[begun:]]
                if isinstance(name, GivenItem):
                    name.store.learn(name.place, spread[name], leaves[begun:])
            leaves += [c.given for c in self.carried]
            spread.update(dict.fromkeys(self.carried, LEAF))
            if self.tested:
                where = self._on_path() if self.endless else True
                leaves += [self._goes_on if where is True else np.logical_and(where, self._goes_on), not self._left]
                for truth in truths.values():
                    leaves[-1] = truth is not True and np.logical_and(leaves[-1], np.logical_not(truth))
            if given and spread.keys() != self._spreads.keys():  # another way through the round gives, raises or binds more
                for name in (spread.keys() ^ self._spreads.keys()) - skeletons.keys():
                    if isinstance(name, str):
                        self._unbind(name)
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

    def _unbind(self, name: str) -> None:
        """A round may leave a name unbound."""
        self.unbinds.add(name)
        self.keeping.unsure[self.place] = f"a round may leave {name} unbound, which is read elsewhere"

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
        return self.keeping.also_of((cells.loop.place, cells.name), kinds)
