"""The arrays that rounds change: those that are handed on as a whole, with all who have them, those of which rounds give the
rows, and others, which are watched.

Assumes the loop's own state (`rounds.KeptRounds`). Guarantees that who has an array from before, by a name or in an object, a
dict or a list, sees in a round and behind the loop what Python has there; where that is not known, the loop is not kept.
"""

from collections.abc import Callable, Iterator
from typing import Any

from symdiff.tracing.loops.carrying import GivenItem, HandedOn
from symdiff.tracing.loops.collected import Collected
from symdiff.tracing.loops.keeping import Again
from symdiff.tracing.loops.parts import at_way, leaves_of, parts_of, ways_alike, ways_to
from symdiff.tracing.loops.stores import ArrayStore, CarriedStore, Listed, bare
from symdiff.tracing.values.integers import Integer
from symdiff.tracing.values.selecting import Selected
from symdiff.tracing.values.storage import Lens, Storage, root_of
from symdiff.tracing.values.stretches import Stretch
from symdiff.tracing.values.tracer import Tracer
from symdiff.vocabulary.libraries import user_line


class Holding:
    """The part of a loop's rounds that knows the arrays that they change."""

    def _is_own(self, x: Any) -> bool:
        """Whether a value is an array of the enclosing run's, or a view of it, with memory that nobody has as another array."""
        if not isinstance(x, Tracer) or not x.shape or x.builder is not self.outer:
            return False
        storage = root_of(lens := x.shared().storage)
        while isinstance(lens, Lens) and lens.array is not None:
            lens = lens.array.shared().storage
        return (
            lens is storage and storage.builder is self.outer and not storage.refusal
            and storage.guard is None and storage.code in "fdFD?" and not storage.images
        )  # fmt: skip

    def _carried(self) -> list[CarriedStore]:
        """The arrays that rounds change in place, or in other ways than row by row, each with those who have it."""
        held = self._held()
        found: dict[Storage, tuple[dict[Any, Any], dict[Any, Any]]] = {}
        for name in dict.fromkeys((*self.stored, *self.added, *self.reached, *self.all_names)):
            wanted = name in self.added or (self.place, name) in self.keeping.carrying
            value = self.listed.get(name, held.get(name))
            if wanted and self._is_own(bare(value)):
                found.setdefault(root_of(bare(value).shared().storage), ({}, {}))[0][name] = value
            elif wanted and isinstance(value, Tracer) and value.held is not None:
                self._check_outer(root_of(value.held.storage))
        for way in self.keeping.holding.get(self.place, ()):
            value = at_way(held, way)
            if self._is_own(value):
                originals, holders = found.setdefault(root_of(value.shared().storage), ({}, {}))
                originals[way], holders[way] = value, at_way(held, way[:-1])
        stores = [CarriedStore(self, *told) for told in found.values()]
        for c in stores:
            first = next(iter(c.originals))
            names = parts_of(c.holders[first]).names if first in c.holders else ()  # type: ignore[union-attr]
            c.value = HandedOn(first if isinstance(first, str) else str(names[first[-1]]) if names else first[0], c.begin)
        return stores

    def ways_to(self, wanted: Callable[[Any], bool], named: bool = False) -> list[tuple[Any, ...]]:
        """The ways to something, from names that rounds do not bind, or to what these hold itself."""
        lasting = {name: value for name, value in self._held().items() if name not in self.names}
        return [(name,) for name, value in lasting.items() if named and wanted(value)] + ways_to(lasting, wanted)

    def _check_outer(self, storage: Storage) -> None:
        """A row, which rounds change, of an array from further out: rounds of the loops around it hand that on."""
        path = self.outer.path
        if path is not None and path.is_round and storage.builder is not self.outer and not storage.refusal:
            raise path.changed(storage, f"{user_line()}: a round assigns to cells of an array")

    def is_carried(self, value: Any) -> bool:
        """Whether a value is an array that objects, dicts or lists have, which is handed on as a whole."""
        return isinstance(value, Tracer) and any(value is c.originals[way] for c in self.carried for way in c.holders)

    def before(self, value: Any) -> Any:
        """For what stands for such an array the array itself."""
        return next((c.originals[way] for c in self.carried for way in c.holders if value is c.shown.get(way)), value)

    def carry(self, storage: Storage, reason: str) -> BaseException:
        """Hand on an array as a whole where it has a name here, or something with a name here has it; what is to be raised."""

        def is_meant(x: Any) -> bool:
            return isinstance(x, Tracer) and x.held is not None and root_of(x.held.storage) is storage

        held = self._held()
        for name in (*self.stored, *self.reached, *self.all_names):
            if is_meant(bare(self.listed.get(name, held.get(name)))) and (self.place, name) not in self.keeping.carrying:
                self.keeping.carrying.add((self.place, name))
                return Again()
        ways = self.keeping.holding.setdefault(self.place, [])
        found = [way for way in self.ways_to(is_meant) if way not in ways]
        ways += dict.fromkeys(way for known in found for way in ways_alike(held, known) if way not in ways)
        if found:
            return Again()
        return self.keeping.refuse(reason)

    def _part(self, after: dict[str, Any], skeletons: dict[str, Any]) -> None:
        """Names of parts of arrays that are handed on: nobody may need them behind the round."""
        copies = [c.given.shared().storage for c in self.carried]
        if len(set(map(id, copies))) < len(copies):
            raise self.keeping.refuse("a round gives one array several names")
        for name, value in list(after.items()):
            if any(self._is_of_round_alone(x) for x in leaves_of(value, self.states)):
                if name in skeletons or name in self.behind or isinstance(name, GivenItem):
                    raise self.keeping.refuse(f"{name} may have another number of cells in each round")
                del after[name]
            elif any(root_of(x.held.storage) in copies for x in arrays_in(value) if x.held is not None):
                if name in skeletons or name in self.behind or isinstance(name, GivenItem):
                    raise self.keeping.refuse(f"{name} may be a part of an array that a round changes")
                del after[name]

    def _is_of_round_alone(self, x: Any) -> bool:
        return isinstance(x, (Stretch, Selected, Listed)) or (type(x) is Collected and x.loop.outer is self._path.builder)

    def _note_shared(self, after: dict[str, Any]) -> None:
        """Arrays that several names, or the code around the loop, may have behind a round, which are then to be watched."""
        begun = {id(root_of(x.shared().storage)): v for v, x in self._entered}
        known: set[int] = set()
        for x in (x for value in after.values() for x in arrays_in(value) if not self.is_carried(x)):
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
            made = [root_of(x.shared().storage) for value in self.values.values() for x in arrays_in(value)]
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


def arrays_in(value: Any) -> Iterator[Tracer]:
    """The traced arrays in a value."""
    return (x for x in leaves_of(value) if isinstance(x, Tracer) and (x.shape or x.held is not None))
