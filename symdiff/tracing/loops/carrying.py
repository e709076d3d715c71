"""What rounds hand on: values taken apart before a round, as symbols in it, and what the round gives against them.

Assumes the loop's own state (`rounds.KeptRounds`). Guarantees that a round which `_agrees` gives numbers and arrays of the
structures, types and kinds that it was given, counters and the ranges of integers among them; names that hold one of several
structures hand on which one it is.
"""

import math
import types
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from symdiff.ir.arrays.algebra import Arrays
from symdiff.ir.building import Builder, active_builders
from symdiff.ir.loops import MOST
from symdiff.ir.node import Atom
from symdiff.tracing.loops.assembling import zero_of
from symdiff.tracing.loops.growing import Growing, Slot
from symdiff.tracing.loops.indices import RoundPath
from symdiff.tracing.loops.keeping import FILLED, Again
from symdiff.tracing.loops.parts import Parts, leaves_of, parts_of
from symdiff.tracing.loops.states import parts_in
from symdiff.tracing.loops.stores import ArrayStore, CarriedStore, Listed
from symdiff.tracing.values.integers import Integer
from symdiff.tracing.values.kinds import Form, kind_of_several, traced_form
from symdiff.tracing.values.spans import moves, reach
from symdiff.tracing.values.tracer import Tracer
from symdiff.vocabulary.libraries import user_line

_NUMBERS = (float, complex, np.floating, np.complexfloating)
WIDE = 2.0**52  # integers that rounds hand on are taken to be within
_PASSES = 6  # rounds in symbols until it is known where integers stay
_WAYS = 4  # structures that a name may hold


class HandedOn:
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


class Several(NamedTuple):
    """What holds one of several structures: the number of that, and these."""

    which: Any
    ways: tuple[Any, ...]


class Same:
    """What is no number and no array: the same object, or an equal constant of Python's."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Same):
            return False
        a, b = self.value, other.value
        return a is b or (type(a) is type(b) and isinstance(a, (str, bytes, type(None), range, slice)) and a == b)

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, slots=True)
class GivenItem:
    """A cell or an item that a round gives: of which store, and the how manieth."""

    store: Any
    place: int


@dataclass(frozen=True, slots=True)
class EarlierItem:
    """One that a round before has given, counted backwards."""

    store: Any
    place: int


@dataclass(frozen=True, slots=True)
class RaisedIn:
    """Whether a round has raised an exception, by its class and text."""

    key: Any


LEAF, ABSENT = object(), object()


def _is_frozen(found: Any) -> bool:
    """Whether a structure is made of tuples alone."""
    return not isinstance(found, Parts) or (issubclass(found.kind, tuple) and all(map(_is_frozen, found.parts)))


def _of_zeros(structure: Any, forms: Iterator[Form], name: str) -> Any:
    """A structure of zeros, which nobody reads."""
    if isinstance(structure, Parts):
        return structure._replace(parts=tuple([_of_zeros(s, forms, f"{name}{n}") for n, s in enumerate(structure.parts)]))
    if structure is not LEAF:
        return structure.value
    form = next(forms)
    made = HandedOn(name, np.zeros(form.shape, form.code) if form.shape else np.zeros((), form.code).item())
    made.fixed, made.counts, made.forms = False, False, [form]
    made.reach = (0.0, 0.0) if form.whole else None
    return made


def _kept_by(f: types.FunctionType) -> list[Any]:
    """What a function has besides its code."""
    return [*(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values(), *(f.__closure__ or ())]


def is_handed_value(value: Any) -> bool:
    return isinstance(value, (Tracer, *_NUMBERS, bool, int))


class Carrying:
    """The part of a loop's rounds that knows what they hand on."""

    # -- structures

    def nothing(self, slot: Slot, builder: Builder | None = None) -> Any:
        """What stands for an item in a round that does not append it."""
        builder = self._path.builder if builder is None else builder

        def made(spread: Any) -> Any:
            if isinstance(spread, Parts):
                found = spread.together([made(s) for s in spread.parts])
                self.fresh[id(found)] = found
                return found
            if spread is not LEAF:
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
        """A value as nested `Parts`, of `HandedOn`s, and anything else as it is, or as what stands for it."""
        if id(value) in self.states.growing:
            return self.states.growing[id(value)]
        if self.is_carried(value):
            return value
        found = self._opened(value, above)
        if found is not None:
            return self._spread_parts(found._replace(own=value), name, (*above, id(value)))
        return HandedOn(name, value, (self.place, name) in self.keeping.uneven) if is_handed_value(value) else value

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

    def _grown(self, before: Any, after: Parts) -> BaseException | None:
        """What is to be raised where a round adds to a list or a deque, which may have its length after some rounds."""
        same = isinstance(before, Parts) and before[:2] == after[:2] and issubclass(after.kind, (list, deque))
        more = len(after.parts) - len(before.parts) if same else 0
        if more <= 0 or self.asked:
            return None
        room = (after.names[0] or 0) - len(before.parts) if after.kind is deque else 0
        return self.keeping.peel(max(1, -(-room // more)), 0, "rounds hand on values of different structures", FILLED)

    def _begun(self, value: Any, name: str) -> Any:
        """What a name holds before the loop, taken apart; the other structures that it may hold begin with zeros."""
        ways = self.keeping.several.get((self.place, name))
        if ways is None:
            return self._spread(value, name)
        own = self._which_way(name, value, [])
        which = HandedOn(f"{name}_way", own, True)
        begun = []
        for n, (structure, forms) in enumerate(ways):
            called = f"{name}{n}"
            begun.append(self._spread(value, called) if n == own else _of_zeros(structure, iter(forms), called))
        return Several(which, tuple(begun))

    def _which_way(self, name: str, value: Any, leaves: list[Any]) -> int:
        """The number of the structure of what a name holds."""
        ways = self.keeping.several[self.place, name]
        found = self._flat(value, leaves)
        given = [traced_form(v) for v in leaves]
        for n, (structure, forms) in enumerate(ways):
            if structure == found and [f.shape for f in forms] == [f.shape for f in given]:
                return n
        if len(ways) == _WAYS or (isinstance(found, Parts) and not _is_frozen(found)):
            self.keeping.open.append(self)
            raise self.keeping.refuse("the ways through a round give values of different structures")
        ways.append((found, given))
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
        return Several(LEAF, tuple([structure for structure, _ in ways]))

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
        if isinstance(spread, Several):
            which, *ways = [self._symbolic(s, builder, index) for s in (spread.which, *spread.ways)]
            return ways[which if type(which) is int else which.decided()]
        if not isinstance(spread, HandedOn):
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
        return self.standing(self._entered[-1][1])

    def standing(self, item: Any) -> Any:
        """What a round runs over, reads by number or is handed, whose parts stand for what was there before."""
        found = parts_of(item)
        if found is not None or isinstance(item, Listed) or getattr(item, "shape", ()):
            self.copies[id(item)] = item, None
        for part in found.parts if found is not None else ():
            self.standing(part)
        return item

    def _which(self) -> int:
        if self.outer not in active_builders():
            return 0  # who looks at a value after its trace
        raise self.keeping.peel(1, 0, f"{user_line()}: the type of a value is another one in the first round", around=True)

    def is_of_round(self, value: Any) -> bool:
        """Whether a value has traced parts that the round has computed, or been given."""
        builder = None if self._path is None else self._path.builder
        return any(isinstance(v, Tracer) and v.builder is builder for v in leaves_of(value, self.states))

    def _flat(self, value: Any, leaves: list[Any], whole: bool = False, above: tuple[int, ...] = ()) -> Any:
        """The structure of what a name holds behind a round, its numbers and arrays to the leaves; `whole`: of a state."""
        if self.is_carried(value):
            return Same(value)
        if is_handed_value(value):
            leaves.append(value)
            return LEAF
        found = parts_in(value) if whole else self._opened(value, above)
        if found is None and (value in self.states or not self.is_of_round(value)):
            if hasattr(type(value), "__next__"):
                raise self.keeping.refuse("a round makes an iterator that is not used up in it")
            if type(value) is types.FunctionType and any(map(self.is_of_round, _kept_by(value))):
                raise self.keeping.refuse("a round hands on a function that it makes")
            return Same(value)
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
        self.handed: list[tuple[HandedOn | None, Atom, list[Form], list[Any]]] = []
        place = iter(range(len(forms)))
        agrees = True
        self.given: dict[GivenItem, list[tuple[Atom, list[Form]]]] = {}
        for name, spread in self._spreads.items():
            if isinstance(name, GivenItem):
                self.given[name] = []
                self._give(name, spread, place, found)
                continue
            before = name.value if isinstance(name, CarriedStore) else skeletons.get(name, ABSENT)
            self._name = name
            agrees &= self._compared(before, spread, place, found)
        for store in self._stores():
            agrees &= store.agrees()
        for name in [n for n in skeletons if n not in self._spreads]:
            if not isinstance(name, str):
                raise self.keeping.refuse("a round deletes a name")
            self._unbind(name)  # as what an inner loop binds, of which there may be no round
            del skeletons[name]
            agrees = False
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
        elif spread is LEAF:
            n = next(place)
            if any(np.shape(v) != np.shape(found[4][n][0]) for v in found[4][n]):
                raise self.keeping.refuse("rounds give cells of different shapes")
            self.given[item].append((found[0].outputs[n].atom, found[3][n]))

    def _compared(self, before: Any, spread: Any, place: Iterator[int], found: Any) -> bool:
        run, path, _, forms, given = found
        if isinstance(spread, Several):
            pairs = zip((before.which, *before.ways), (spread.which, *spread.ways), strict=True)
            agrees = [self._compared(b, s, place, found) for b, s in pairs]
            return all(agrees)
        if isinstance(spread, Parts):
            parts: Any = [ABSENT] * len(spread.parts)
            if before is not ABSENT:
                self._open(Same(before), spread)
                alike = isinstance(before, Parts) and before[:2] == spread[:2] and len(before.parts) == len(spread.parts)
                if not alike:
                    raise self._grown(before, spread) or self._peeled("rounds hand on values of different structures")
                parts = before.parts
            agrees = [self._compared(b, s, place, found) for b, s in zip(parts, spread.parts, strict=True)]
            return all(agrees)
        if isinstance(spread, Same):
            if before is not ABSENT and (isinstance(before, (HandedOn, Parts)) or spread != Same(before)):
                self._open(Same(before), spread)
                raise self._peeled("rounds hand on other things than numbers and arrays")
            return True
        n = next(place)
        if before is not ABSENT and not isinstance(before, HandedOn):
            raise self._peeled("rounds hand on values of different structures")
        value = None if before is ABSENT else before
        atom = run.outputs[n].atom
        self.handed.append((value, atom, forms[n], given[n]))
        return value is None or self._taken(value, atom, forms[n], given[n], path)

    def _open(self, one: Any, other: Any) -> None:
        """Take objects of a class apart from now on, where rounds give several of them."""
        if isinstance(one, Same) and one != other:
            kind = other.kind if isinstance(other, Parts) else type(other.value) if isinstance(other, Same) else None
            if type(one.value) is kind and one.value not in self.states and parts_of(one.value) is not None:
                self.keeping.opened.add(kind)
                raise Again

    def _taken(self, value: HandedOn, atom: Atom, forms: list[Form], given: list[Any], path: RoundPath) -> bool:
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

    def _steps(self, value: HandedOn, atom: Atom, path: RoundPath) -> bool | None:
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

    def _reaches(self, value: HandedOn, ranges: Any) -> bool:
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
