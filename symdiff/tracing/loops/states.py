"""Objects, dicts and lists from before a loop that its rounds change: what they hold is handed on, and they stay themselves.

Assumes that rounds show what they change (`keeping.check_change`). A round that changes something unknown is void: it is put
back, and in the next round of symbols it holds symbols from the beginning. Guarantees that all who know it see the change,
in the rounds and behind them.
"""

import dis
import gc
from collections.abc import Iterable
from typing import Any

from symdiff.tracing.loops.collected import Collected
from symdiff.tracing.loops.growing import Growing
from symdiff.tracing.loops.parts import Parts, parts_of
from symdiff.vocabulary.libraries import is_ours


class Left(BaseException):
    """A generator is not gone on with, for its taker has been left."""

    def __init__(self, taker: Any) -> None:
        super().__init__()
        self.taker = taker


class Taker:
    """A loop over what a generator yields: what its names hold the rounds in the generator hand on, too. `moved`, `values` and
    `unbound`: what names are set to before its own rounds, or behind the last one.
    """

    def __init__(
        self, keeping: Any, values: Any, names: tuple[str, ...], apart: set[str], targets: Any, behind: Any, frame: Any
    ) -> None:
        self.keeping = keeping
        self.frame = frame
        self.all_names = names
        self.names = tuple(n for n in names if n not in apart)
        self.targets = targets
        self.behind = behind
        self.waits = False  # for what is yielded
        self.moved, self.values, self.unbound = False, {}, []
        self._left = False
        self._generator = values
        self._yields = values.gi_frame
        keeping.takers[self._yields] = self

    def __iter__(self) -> "Taker":
        return self

    def __next__(self) -> Any:
        if self._left:
            raise StopIteration
        self.moved, self.values, self.unbound = False, {}, []
        self.waits = True
        try:
            return next(self._generator)
        except Left as left:
            if left.taker is not self:
                raise
            self._left = True
            raise StopIteration from None
        except StopIteration:
            self._end()
            raise
        finally:
            self.waits = False

    def leave(self) -> None:
        """The loop ends with this round."""
        if not self.keeping.open:
            self._end()
        elif self not in self.keeping.open[-1].takers():
            raise self.keeping.refuse("what takes what a round yields may be left")
        else:
            self.keeping.open[-1].left_by(self)

    def _end(self) -> None:
        """It takes nothing any more of the generator, which ends, if nobody else has it."""
        self._left = True
        del self.keeping.takers[self._yields], self._generator, self._yields, self.frame  # which have itself, too

    def handles(self, frames: list[Any]) -> bool:
        """Whether the generator does more when it is left than to end, or others have it, who may go on."""
        generator, known = self._generator, [self, vars(self), *(frame.f_locals for frame in frames)]
        users = [frame for frame in frames if not is_ours(frame.f_code.co_filename)]
        named = id(generator) in {id(value) for frame in users for value in frame.f_locals.values()}
        known += [taker._generator for taker in self.keeping.takers.values() if is_ours(taker._generator.gi_code.co_filename)]
        others = set(map(id, gc.get_referrers(generator))).difference(map(id, known), map(id, frames))
        return (
            named
            or bool(others)
            or any(step.opname == "PUSH_EXC_INFO" for step in dis.get_instructions(self._generator.gi_code))
        )

    def held(self) -> dict[str, Any]:
        """What its names hold, apart from those that the loop binds to what is yielded."""
        found = {**self.frame.f_locals, **self.values}
        return {n: found[n] for n in self.names if n in found and n not in self.unbound and n not in self.targets}

    def hold(self, old: Any, new: Any) -> None:
        """Names that hold a value hold another one."""
        found = self.frame.f_locals
        self.values |= {n: new for n in self.all_names if found.get(n) is old and n not in self.names}
        self.moved = True


class Held:
    """The names of a `Taker` that hold something before a loop of its generator."""

    def __init__(self, taker: Taker) -> None:
        self.taker = taker
        self.names = tuple(taker.held())

    def parts(self) -> Parts:
        """What they hold."""
        found = {name: value for name, value in self.taker.held().items() if name in self.names}
        return Parts(Held, tuple(found), tuple(found.values()))

    def into(self, parts: Iterable[Any]) -> None:
        """They hold these parts, and the others of the taker nothing."""
        taker = self.taker
        taker.moved, taker.values = True, dict(zip(self.names, parts, strict=True))
        taker.unbound = [n for n in taker.names if n not in (*self.names, *taker.targets)]


class State:
    """Stands for what is changed, beside the names of a loop."""

    __slots__ = ("owner",)

    def __init__(self, owner: Any) -> None:
        self.owner = owner

    def into(self, like: Parts, parts: Iterable[Any]) -> None:
        """It holds other parts, by names like those."""
        self.owner.into(parts) if isinstance(self.owner, Held) else like.into(self.owner, parts)


def parts_in(owner: Any) -> Parts | None:
    """The parts of what is changed."""
    return owner.parts() if isinstance(owner, Held) else parts_of(owner)


class States:
    """Those of one loop, by their identity, with what they held before it, and lists that only grow; `found` are new: they
    must be put back.
    """

    def __init__(self, loop: Any) -> None:
        self.loop = loop
        self.known: dict[int, tuple[State, Parts]] = {}
        self.growing: dict[int, Growing] = {}
        self.found = False

    def __contains__(self, value: Any) -> bool:
        return id(value) in self.known

    def take(self, owner: Any, grows: bool = False, alone: bool = False) -> bool:
        """Whether something may be changed, which is looked at before it is; `grows`: items are appended to a list, which a
        name of the loop's frame holds `alone`.
        """
        if id(owner) in self.growing:
            self.growing[id(owner)].refuse()
            return True
        key = self.loop.place, len(self.known) + len(self.growing)
        if grows and type(owner) in (list, Growing, Collected) and owner not in self and key not in self.loop.keeping.growing:
            self.growing[id(owner)] = Growing(self.loop, owner, key, alone)
            self.found = True
            return True
        parts = None if owner in self else parts_in(owner)
        if parts is not None and not issubclass(parts.kind, tuple):
            parts = parts._replace(parts=tuple(map(self.loop.before, parts.parts)))
            self.known[id(owner)] = State(owner), parts
            self.found = True
        return owner in self

    def put_back(self) -> None:
        """Undo what the rounds did."""
        for state, parts in self.known.values():
            state.into(parts, parts.parts)
        self.found = False
