"""What depends on the index of a loop alone: its values in all rounds; and the conditions of a symbolic round.

Assumes a known number of rounds. Guarantees that a condition on the index is decided only where it is the same in all rounds
that are traced; where it turns at an end, those rounds are peeled off; other conditions make paths, which are merged. Refuses,
by `Again`, what cannot be decided.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from symdiff.ir.building import Builder
from symdiff.ir.evaluating import applied, value_of
from symdiff.ir.loops import MOST
from symdiff.ir.node import ArrayConstant, Atom
from symdiff.simplification.conditions import Conditions
from symdiff.simplification.interning import Values
from symdiff.simplification.intervals import Fact, whole_ends
from symdiff.tracing.branches.paths import LIMIT, Decision, Path
from symdiff.tracing.loops.keeping import PEELED, Keeping
from symdiff.vocabulary.ops import OPS
from symdiff.vocabulary.walking import worked_out

MOST_PATHS = 32  # of a round


class RoundPath(Path):
    """The conditions of one symbolic round of `rounds`, whose index is `k`."""

    is_round = True

    def __init__(
        self, loop: Any, values: Values, forced: tuple[Decision, ...], builder: Builder, k: Atom, rounds: int | None, done: int
    ) -> None:
        super().__init__(values, forced, LIMIT - MOST_PATHS + done)
        self.refusal = f"a round has more than {MOST_PATHS} paths, which is as many as are merged"
        self.loop = loop
        self.keeping: Keeping = loop.keeping
        self.builder = builder
        self._indices: dict[Atom, Any] = {k: None if rounds is None else np.arange(float(rounds))}
        self._affine: dict[Atom, Any] = {k: (0, 1)}
        self._captures, self._rounds = 0, rounds
        self._begun: dict[Builder, int] = {}  # the bindings of enclosing builders before the round
        outer = builder.parent
        while outer is not None:
            self._begun[outer], outer = len(outer.bindings), outer.parent
        self.reaches(k, 0, MOST if rounds is None else rounds - 1)

    def number(self, atom: Atom) -> int:
        """The number of an atom; of captured ones, what is known outside is known here."""
        found = super().number(atom)
        builder = self.builder
        assert builder is not None
        while self._captures < len(builder.captured):
            outer = builder.captured[self._captures]
            self._captures += 1
            path = outer.builder.path
            known = None if path is None else path.fact(outer.atom)
            if known is not None and (known.whole or not outer.shape):
                symbol = builder.captures[outer.atom]
                self._known._narrow(super().number(symbol), known)
        return found

    def has_begun(self, builder: Builder, atom: Atom) -> bool:
        """Whether an atom of an enclosing builder was made since the round has begun."""
        return any(b is atom for b in builder.bindings[self._begun[builder] :])

    def fact(self, atom: Atom) -> Fact:
        """What is known of a value; of a function of the index, its range."""
        values = self.in_rounds(atom)
        if values is None or values.dtype.kind != "f" or np.isnan(values).any():
            return super().fact(atom)
        return Fact(float(values.min()), float(values.max()), nan=False, finite=bool(np.isfinite(values).all()))

    def known(self, atom: Atom) -> bool | None:
        """Whether a condition holds in all rounds, or on this path; None where that is open."""
        values = self.in_rounds(atom)
        if values is None:
            return self._known.known(self.number(atom))
        return bool(values.any()) if values.all() or not values.any() else None

    def takes(self, atom: Atom) -> None:
        """Take a condition as true: there is no round where it is not."""
        self._known.learn(self.number(atom), True)

    def beyond(self, atoms: list[Atom], most: float) -> Callable[[Atom], tuple[float, float]]:
        """Where integers are, by what computes them, if some are known to be at most so large, and nothing else is known but
        which round it is, and what is known outside.
        """
        known, builder = Conditions(self.values), self.builder
        assert builder is not None
        if self._rounds is not None:
            known._narrow(
                self.number(builder.inputs[0].node), Fact(0.0, self._rounds - 1.0, nan=False, finite=True, whole=True)
            )
        for outer, symbol in zip(builder.captured, builder.captures.values(), strict=True):
            found = None if outer.builder.path is None else outer.builder.path.fact(outer.atom)
            if found is not None and found.whole:
                known._narrow(self.number(symbol), found)
        for atom in atoms:
            known._narrow(self.number(atom), Fact(-most, most, nan=False, finite=True, whole=True))

        return lambda atom: whole_ends(known.of(self.number(atom)))

    def in_rounds(self, atom: Atom) -> Any:
        """The values in all rounds of what depends on the index alone; None for anything else, and for constants."""
        return worked_out(atom, self._indices, lambda a: () if a.op == "const" else a.operands, self._evaluated)

    def tell(self, columns: Mapping[Atom, np.ndarray]) -> None:
        """The values in all rounds of what depends on more than the index are known."""
        self._indices = {atom: values for atom, values in self._indices.items() if values is not None} | dict(columns)

    def affine(self, atom: Atom) -> tuple[int, int] | None:
        """The integers a and b of what is a + b*k; None for anything else."""
        return worked_out(atom, self._affine, lambda a: () if a.op == "const" else a.operands, self._linear)  # type: ignore[no-any-return]

    def _linear(self, atom: Atom) -> tuple[int, int] | None:
        if atom.op == "const":
            return (int(atom.params), 0) if atom.shape == () and atom.params == int(atom.params) else None
        parts = [self._affine.get(o) or self._linear(o) if o.op == "const" else self._affine[o] for o in atom.operands]
        if None in parts or atom.op not in ("add", "sub", "mul", "neg", "cast"):
            return None
        if atom.op == "mul" and parts[0][1] and parts[1][1]:
            return None
        (a, b), (c, d) = parts[0], parts[-1]
        if atom.op == "mul":
            return a * c, a * d + b * c
        sign = {"add": 1, "sub": -1}.get(atom.op, 0)
        return (-a, -b) if atom.op == "neg" else (a + sign * c, b + sign * d)

    def _evaluated(self, atom: Atom) -> Any:
        if atom.op == "gather" and isinstance(atom.operands[0], ArrayConstant) and not atom.shape:
            places = self._indices.get(atom.operands[1])
            return None if places is None else value_of(atom.operands[0], {})[places.astype(int)]
        if atom.op not in OPS or atom.shape or any(o.shape for o in atom.operands):
            return None
        given = [o.params if o.op == "const" else self._indices[o] for o in atom.operands]
        if any(v is None for v in given) or not any(isinstance(v, np.ndarray) for v in given):
            return None
        with np.errstate(all="ignore"):
            return applied(atom, np.broadcast_arrays(*given))

    def decide(self, atom: Atom, origin: str) -> bool:
        """How a condition turns out: as in all rounds, or on this path."""
        values = self.in_rounds(atom)
        if values is None:
            known = len(self.decisions)
            found = super().decide(atom, origin)
            self.loop.chooses |= len(self.decisions) > known
            return found
        truths = values.astype(bool)
        turns = np.flatnonzero(truths[1:] != truths[:-1]) + 1
        if not turns.size:
            return bool(truths[0])
        if self.loop.tested:
            return super().decide(atom, origin)
        first, last = int(turns[0]), len(truths) - int(turns[-1])
        self.keeping.open.append(self.loop)  # whose index it is
        if turns.size == 1 and min(first, last) <= PEELED:
            raise self.keeping.peel(*((first, 0) if first <= last else (0, last)), f"{origin}: a condition on its index")
        if turns.size == 2 and max(first, last) <= PEELED:
            raise self.keeping.peel(first, last, f"{origin}: a condition on its index")
        self.keeping.open.pop()
        return super().decide(atom, origin)

    def changed(self, storage: Any, reason: str) -> BaseException:
        """What is to be raised where a round changes an array that was made outside."""
        owner = next((loop for loop in self.keeping.open if loop.outer is storage.builder), self.loop)
        return owner.carry(storage, reason)  # type: ignore[no-any-return]

    def changed_inside(self, storage: Any, reason: str) -> BaseException:
        """What is to be raised where a round changes an array that it was handed."""
        if self.keeping.open[-1] is not self.loop:
            self.keeping.open.append(self.loop)
        return self.loop.carry(storage, reason)  # type: ignore[no-any-return]
