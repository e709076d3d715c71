"""Which loops of a function are kept, what was found out about them, and why the others are not.

Assumes that a trace begins anew, its function's effects put back, where `Again` is raised. Guarantees that a loop that is not
kept for a reason is not tried again in this trace, and that nothing which happens in a symbolic round counts: an exception,
whoever catches it, ends the attempt.
"""

import gc
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import CellType, MethodType
from typing import Any

import numpy as np

from symdiff.ir.building import active_builders
from symdiff.ir.node import Node
from symdiff.tracing.loops.collected import end_all
from symdiff.tracing.loops.parts import is_cell, parts_of
from symdiff.tracing.state.attempt import Contents
from symdiff.tracing.state.raising import check_signal, is_defect
from symdiff.tracing.unrolling.choosing import WORK, cells_of_binding, cost_of_array, is_small
from symdiff.tracing.values.storage import root_of
from symdiff.tracing.values.tracer import Tracer
from symdiff.vocabulary.libraries import user_line

LOOPS = "loops"  # the note of a graph that tells what became of the loops
FEW = 4  # rounds up to which a loop is written out, unless its rounds make much code
NESTED = FEW**3  # the same of loops in loops that are, together
SHORT = 900  # work of a function, and of a loop's rounds together, up to which all is written out
INTEGERS = 100_000  # rounds of loops of integers alone, up to which Python runs them
IN_FILES = 100  # the same for functions that are written into files, for people to read
FILLED = 16  # rounds in which lists and deques may get their length
PEELED = 3  # rounds at either end that may be others than those between
Place = tuple[str, int, int]  # the file, line and column of a loop


class Again(BaseException):
    """A loop is not kept after all, or more of its rounds are peeled off; the trace begins anew."""


class Tired(BaseException):
    """A function that is written out has become long, or has too `many` paths; the trace begins anew, and keeps its loops."""

    def __init__(self, many: BaseException | None = None) -> None:
        super().__init__()
        self.many: Any = many


def work_of_binding(binding: Node) -> int:
    """The operations on cells of a small array, in which they are written out; what a large one is worth."""
    if binding.op in ("item", "array"):
        return 0
    return max(cells_of_binding(binding) if is_small(binding) else cost_of_array(binding), 1)


def code_of_binding(binding: Node) -> int:
    """The operations in the code for the arrays of a binding, or what is worth that many."""
    if binding.op == "loop":
        return sum(map(code_of_binding, binding.params.body.bindings))
    return 0 if not binding.shape else cells_of_binding(binding) if is_small(binding) else cost_of_array(binding)


def check_patience(known: list[int], least: int, bindings: list[Node]) -> int:
    """End a run in which more than `least` is written out; how many more bindings are within that in any case. `known` is how
    many bindings were looked at, and their work.
    """
    seen, work = known
    known[:] = len(bindings), work + sum(map(work_of_binding, bindings[seen:]))
    if known[1] > least:
        raise Tired
    return (least - known[1]) // WORK + 1


def paced(values: Any, least: int) -> Any:
    """What a loop that is written out runs over; the run ends where more than `least` is to come by its second round."""
    count = len(values) if type(values) in (range, list, tuple) else 0
    if isinstance(values, (np.ndarray, Tracer)) and values.shape:
        count = values.shape[0]
    return values if count <= FEW else _paced(values, count, least)


def _paced(values: Any, count: int, least: int) -> Iterator[Any]:
    bindings, begun = active_builders()[-1].bindings, 0
    for k, value in enumerate(values):
        if k == 2 and count * sum(map(work_of_binding, bindings[begun:])) > least:
            raise Tired
        begun = len(bindings)
        yield value


class Keeping:
    """What is known of the loops of one trace: `reasons` not to keep them, and rounds to peel off, by their places.

    Loops with less work than `least` are written out.
    """

    def __init__(self, least: int = 0) -> None:
        self.least = least
        self.reasons: dict[Place, str] = {}
        self.kept: set[Place] = set()
        self.whole: set[Place] = set()  # loops of integers alone
        self.counts, self.counting = 0, 0  # the rounds that these have run, and how many are under way
        self.most = INTEGERS
        self.lengths: dict[Place, float] = {}  # the most operations that the rounds of loops were together
        self.long: set[Place] = set()  # loops of few rounds that make much code for arrays
        self.peels: dict[Place, tuple[int, int]] = {}
        self.carrying: set[tuple[Place, str]] = set()  # loops that hand on a whole array, by its name
        self.holding: dict[Place, list[Any]] = {}  # the ways from names to arrays that loops hand on as a whole
        self.kinds: dict[tuple[Place, str], set[Any]] = {}  # of numbers that loops assign to items of lists, by their names
        self.growing: set[tuple[Place, int]] = set()  # lists with which rounds do more than append, by their numbers there
        self.uneven: set[tuple[Place, str]] = set()  # integers that rounds do not count on by one step, by their names
        self.several: dict[tuple[Place, str], list[Any]] = {}  # names that hold one of several structures, and these
        self.filling: dict[str, Place] = {}  # lines that make arrays of integers or truths which rounds of a loop change
        self.unlisted: set[tuple[Place, str]] = set()  # lists that stay lists, by their names
        self.plain: dict[int, tuple[Any, str]] = {}  # such arrays as NumPy has them, with their lines
        self.tables: dict[tuple[Place, int], int] = {}  # lists of which rounds read any items, and items of a round at most
        self.asked: set[tuple[Place, int]] = set()  # lists of which more is asked behind loops than their ends
        self.items: dict[int, tuple[Any, Any]] = {}  # what stands for items of lists in rounds, with these lists
        self.in_columns: dict[Place, list[Any]] = {}  # the ways from names to lists of which rounds of a loop change items
        self.not_columns: set[Any] = set()  # loops and such ways of which rounds do more than columns know
        self.viewed: set[Any] = set()  # the same, of which rounds change cells of the arrays that a list has
        self.columns: dict[int, Any] = {}  # these lists in loops that are being kept, by their identity
        self.settled: set[Place] = set()  # loops over lists of which it must be known which rounds appended to them
        self.collected: dict[int, Any] = {}  # what stands for lists behind loops
        self.standing: dict[int, Any] = {}  # what stands for lists
        self.takers: dict[Any, Any] = {}  # loops over what generators yield, by the frames of these
        self.raising: set[Place] = set()  # loops that are left where a round raises
        self.unsure: dict[Place, str] = {}  # loops that may bind no name, which is read elsewhere, and this as a reason
        self.written = 1  # rounds of the loops in loops that are being written out, together
        self.open: list[Any] = []  # loops of which a symbolic round is running
        self.counted: dict[Any, int] = {}  # loops whose rounds are counted, by the ways to them
        self.opened: set[type] = set()  # classes of which rounds hand on other objects
        self.doubtful: dict[int, Any] = {}  # what a loop gave that other names may have, too, with the loop
        self.attributes: dict[int, tuple[Any, Any]] = {}  # dicts that rounds change, and the objects whose attributes they are
        self._within: dict[Place, tuple[Place, ...]] = {}

    def is_few(self, place: Place, count: int | None) -> bool:
        """Whether a loop of so many rounds is written out, within those that are."""
        if count is None or count > FEW or (place in self.long and count > 1):
            return False
        return FEW * self.written <= NESTED or count * self.written <= NESTED

    def few(self, place: Place, values: Iterable[Any], count: int) -> Iterator[Any]:
        """What such a loop runs over; it is kept, if it can be, where its rounds make much code for arrays."""
        before, together = self.written, self.written * max(count, 1)
        bindings = active_builders()[-1].bindings
        begun = len(bindings)
        for k, value in enumerate(values):
            if k == 1 and count * sum(map(code_of_binding, bindings[begun:])) > SHORT:
                self.long.add(place)
                raise Again
            self.written = together
            try:
                yield value
            finally:
                self.written = before

    def runs(self, read: tuple[str, ...] | None, are_integers: Callable[[tuple[str, ...]], bool]) -> bool:
        """Whether a loop is of integers alone, which reads these names where its text may be; those in one that is are, too."""
        return bool(self.most) and read is not None and (self.counting > 0 or are_integers(read))

    def integers(self, place: Place, values: Iterable[Any]) -> Iterator[Any]:
        """What a loop of integers alone runs over; none is run where they have too many rounds together."""
        self.whole.add(place)
        self.counting += 1
        try:
            for value in values:
                self.counts += 1
                if self.counts > self.most:
                    self.most = 0
                    self.whole.clear()
                    raise Again
                yield value
        finally:
            self.counting -= 1

    def refuse(self, reason: str) -> Again:
        """Note that the innermost loop with a symbolic round running is not kept; what is to be raised."""
        place = self.open[-1].place
        if self.open[-1].items.given is not None:
            self.settled.add(place)
            return Again()
        for inner in [p for p, outer in self._within.items() if place in outer]:
            del self._within[inner], self.reasons[inner]  # it may be kept in rounds that are none of symbols
        self.reasons[place] = reason
        self.kept.discard(place)
        self.filling = {line: loop for line, loop in self.filling.items() if loop != place}
        self._within[place] = tuple(loop.place for loop in self.open[:-1])
        return Again()

    def also_of(self, key: tuple[Place, str], kinds: set[Any]) -> Again:
        """Note other kinds of numbers, which loops assign to items; what is to be raised."""
        found = self.kinds.setdefault(key, set())
        if kinds <= found:
            return self.refuse("the type of an item of a list depends on conditions")
        found |= kinds
        return Again()

    def end_columns(self, place: Place) -> None:
        """The lists that are columns for a loop are lists again."""
        for columns in self.columns.values():
            if columns.place == place:
                columns.end()
        self.columns = {known: columns for known, columns in self.columns.items() if columns.place != place}

    def columns_with(self, item: Any) -> Any:
        """The columns of the list that something is an item of, or stands for one; None for others."""
        return next((c for c in self.columns.values() if c.place_of(item) is not None), None)

    def refresh(self) -> None:
        """The items of lists that are columns have what is there now."""
        for columns in self.columns.values():
            columns.refresh()

    def _note_items(self, owner: Any) -> None:
        """A round changes what stands for an item of a list: the outermost loop that has the list has columns of it."""
        self.note_rows(self.items[id(owner)][1])

    def note_rows(self, listed: Any) -> None:
        """A round changes the items of a list by a number that it tells, likewise."""
        for loop in self.open:
            ways = loop.ways_to(lambda v: v is listed, True)
            known = self.in_columns.setdefault(loop.place, [])
            if ways and id(listed) not in loop.fresh:
                if ways[0] in known or (loop.place, ways[0]) in self.not_columns:
                    break
                known.append(ways[0])
                raise Again

    def keep(self, place: Place, operations: float) -> None:
        """Note a loop that is kept, with the operations of its rounds; it may be part of another one's symbolic round."""
        self.kept.add(place)
        self.lengths[place] = max(self.lengths.get(place, 0), math.inf if self.open else operations * self.written)

    def check_lengths(self) -> None:
        """A loop that is short whenever it runs is not kept."""
        short = {place for place in self.kept & self.lengths.keys() if self.lengths[place] <= self.least}
        self.reasons.update(dict.fromkeys(short, "it is short"))
        self.kept -= short
        if short:
            self.lengths.clear()  # those in them have others outside rounds of symbols
            raise Again

    def unkept(self, reason: str) -> Again:
        """Note that no loop is kept; what is to be raised."""
        self.reasons.update(dict.fromkeys(self.kept, reason))
        self.kept.clear()
        return Again()

    def peel(self, first: int, last: int, reason: str, most: int = PEELED, around: bool = False) -> Again:
        """Peel more rounds off the innermost loop, or, with `around`, the innermost one that is no `while`, up to so many; what
        is to be raised.
        """
        loop = next((loop for loop in reversed(self.open) if around and not loop.asked), self.open[-1])
        place = loop.place
        before = self.peels.get(place, (0, 0))
        found = before[0] + first, before[1] + last
        if max(found) > most or loop.asked:
            return self.refuse(reason)
        self.peels[place] = found
        return Again()

    @property
    def stands(self) -> bool:
        """Whether there may be what stands for others."""
        return bool(self.open or self.kept)

    def check_identity(self, *operands: Any) -> None:
        """What is looked at is none of the objects, lists and arrays that stand for others in a round, or behind a loop."""
        if not any(o is None for o in operands):
            self._check_alone(operands)

    def check_told_apart(self, *values: Any) -> None:
        """What is looked up by its identity, also in a tuple or list, is none of the objects that stand for others."""
        waiting, seen = [*values], dict[int, Any]()
        while waiting:
            value = waiting.pop()
            if id(value) in seen or (is_cell(value) and not np.shape(value)):
                continue
            seen[id(value)] = value
            if type(value) in (list, tuple, set, frozenset, dict):
                waiting += value
            elif isinstance(value, MethodType):
                waiting.append(value.__self__)
            elif (found := parts_of(value)) is not None:
                waiting += found.parts
        self._check_alone(v for v in seen.values() if type(v) not in (list, tuple, dict))

    def check_first(self, owner: Any) -> None:
        """An object is about to keep what it is asked for: one of the round's own."""
        if self.open and not any(id(owner) in loop.fresh for loop in self.open):
            raise self.refuse("a round asks for a cached property of an object that was there before")

    def _check_alone(self, values: Iterable[Any]) -> None:
        for value in values:
            if any(id(value) in loop.copies for loop in self.open):
                raise self.refuse("a round asks which of several objects a value is")
            if id(value) in self.doubtful:
                raise self._doubt(value, "it is asked which object is meant that a loop may have given another name")
            watch = root_of(value.held.storage).watch if isinstance(value, Tracer) and value.held is not None else None
            if watch is not None:
                watch()

    def _doubt(self, value: Any, reason: str) -> BaseException:
        """The loop that may have given a value another name is not kept; what is to be raised."""
        self.open.append(self.doubtful[id(value)][1])
        return self.refuse(reason)

    def made(self, value: Any) -> Any:
        """What is made here a round may change."""
        if self.open:
            self.open[-1].fresh[id(value)] = value
            if type(value) in (dict, set):
                self.check_told_apart(value)
        return value

    def fills(self, array: np.ndarray) -> bool:
        """Whether rounds change an array of integers or truths that NumPy has made here: it is to be traced."""
        line = user_line()
        if array.dtype in (np.dtype(int), np.dtype(bool)) and line not in self.filling:
            self.plain[id(array)] = array, line
        return line in self.filling

    def _fill(self, owner: Any) -> None:
        """A round changes such an array, or a view of one: it is to be traced."""
        while isinstance(owner, np.ndarray):
            if id(owner) in self.plain:
                self.filling[self.plain[id(owner)][1]] = self.open[-1].place
                raise Again
            owner = owner.base

    def note_taken(self, values: Any) -> None:
        """A round takes items of what may be an iterator from before."""
        if self.open and hasattr(type(values), "__next__"):
            self.open[-1].taken.append(values)

    def check_change(self, owner: Any, grows: bool = False) -> None:
        """An object, list or dict is about to be changed in place; `grows`: items are appended to a list."""
        if not self.open and not self.doubtful:
            return
        name, owner = type(owner).__name__, self._owner(owner)
        columns = self.columns.get(id(owner)) or self.columns_with(owner)
        if columns is not None:
            raise columns.refuse()
        for loop in reversed(self.open):
            if id(owner) in loop.fresh or loop.stands(owner):
                return
            if id(owner) in self.doubtful:
                break
            if id(owner) in self.items:
                self._note_items(owner)
            _, owner = loop.copies.get(id(owner), (None, owner))
            if isinstance(owner, CellType) and loop.is_of_round(owner.cell_contents):
                continue  # a name of the loop, or of a function that the round has called
            self._fill(owner)
            if not loop.states.take(owner, grows):
                raise self.refuse(f"a round changes a {name} that was there before")
        if id(owner) in self.doubtful:
            raise self._doubt(owner, f"a {name} is changed that the loop may have given another name")

    def _owner(self, value: Any) -> Any:
        """The object of which a dict has the attributes; other values as they are."""
        if type(value) is not dict or any(id(value) in loop.fresh for loop in self.open):
            return value
        if id(value) not in self.attributes:
            found = (held for held in gc.get_referrers(value) if getattr(held, "__dict__", None) is value)
            self.attributes[id(value)] = value, next(found, value)
        return self.attributes[id(value)][1]

    def check_bound(self, error: BaseException) -> None:
        """A name has no value that rounds may have given it: loops that may have done so are not kept."""
        if self.unsure and isinstance(error, NameError):
            self.kept.difference_update(self.unsure)
            self.reasons.update(self.unsure)
            raise Again from None

    def check_raised(self, error: Exception, before: int, own: bool) -> None:
        """An exception passes a handler around which so many rounds were open: `own` ones of the function may, in one round."""
        if len(self.open) > before or not own:
            raise self.failed(error) from None

    def doubts(self) -> bool:
        """Whether rounds have taken integers for counted, which they are not from now on."""
        guessed = {(loop.place, name) for loop in self.open for name in loop.guessed}
        self.uneven |= guessed
        return bool(guessed)

    def failed(self, error: BaseException) -> BaseException:
        """What is to be raised where a symbolic round raises: it took integers for counted that are not, or the first round is
        another one, or the loop is not kept; a defect of ours.
        """
        if is_defect(error):
            return error
        if self.doubts():
            return Again()
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        return self.refuse(reason) if self.peels.get(self.open[-1].place, (0, 0))[0] else self.peel(1, 0, reason)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """A run of the function: where it ends with a symbolic round open, it begins anew."""
        self.open.clear()
        self.written = 1
        self.counts = self.counting = 0
        self.unsure.clear()
        self.doubtful.clear()
        self.attributes.clear()
        self.items.clear()
        self.columns.clear()
        self.plain.clear()
        try:
            yield
        except Again:
            raise
        except (KeyboardInterrupt, SystemExit, MemoryError, Contents):
            raise
        except BaseException as error:
            check_signal(error)
            self.check_bound(error)
            if self.open:
                raise self.failed(error) from None
            raise
        finally:
            for grown in reversed([*self.standing.values()]):
                grown.end()
            end_all(self.collected.values())
            self.collected.clear()
        if self.open:
            raise self.refuse("an exception of a round was caught")

    def told(self) -> dict[str, str]:
        """What became of each loop, by its line."""
        found = dict.fromkeys(self.whole, "written out: it is of integers alone")
        found |= dict.fromkeys(self.kept, "kept") | {p: f"written out: {r}" for p, r in self.reasons.items()}
        return {f"{file.rpartition('/')[2]}:{line}": found[file, line, column] for file, line, column in sorted(found)}
