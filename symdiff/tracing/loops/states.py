"""Objects, dicts and lists from before a loop that its rounds change: what they hold is handed on, and they stay themselves.

Assumes that rounds show what they change (`keeping.check_change`). A round that changes something unknown is void: it is put
back, and in the next round of symbols it holds symbols from the beginning. Guarantees that all who know it see the change,
in the rounds and behind them.
"""

from typing import Any

from symdiff.tracing.loops.parts import Parts, parts_of


class State:
    """Stands for what is changed, beside the names of a loop."""

    __slots__ = ("owner",)

    def __init__(self, owner: Any) -> None:
        self.owner = owner


class States:
    """Those of one loop, by their identity, with what they held before it; `found` are new: they must be put back."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[State, Parts]] = {}
        self.found = False

    def __contains__(self, value: Any) -> bool:
        return id(value) in self.known

    def take(self, owner: Any) -> bool:
        """Whether something may be changed, which is looked at before it is."""
        parts = None if owner in self else parts_of(owner)
        if parts is not None and not issubclass(parts.kind, tuple):
            self.known[id(owner)] = State(owner), parts
            self.found = True
        return owner in self

    def put_back(self) -> None:
        """Undo what the rounds did."""
        for state, parts in self.known.values():
            parts.into(state.owner, parts.parts)
        self.found = False
