"""Loops that were run round by round, as recurrences: what each round makes of the values of the one before.

Assumes statements in the body of a `while` of the user's, each run once a round. Guarantees that what is put together is the
same term in each round from the second on; None stands for loops of other kinds.
"""

from collections.abc import Iterator

import sympy as sp

from symdiff.inspection.reading.lines import Line
from symdiff.inspection.reading.patterns import Patterns
from symdiff.inspection.reading.slopes import Slopes
from symdiff.inspection.reading.sources import Sources, assigned_values
from symdiff.inspection.reading.terms import ONE, Term
from symdiff.inspection.reading.written import Writer, read_graph, term_of
from symdiff.ir.graph import Graph
from symdiff.ir.node import Atom, Node
from symdiff.vocabulary.ops import is_complex

FEWEST = 3  # rounds
WIDEST = 200  # printed width of a step


class Recurrence:
    """The rounds of a graph of numbers. `first` are the values of the first round, `steps` the others, `results` the terms of
    the outputs; symbols x[1], x[2], ... are the values of a variable, x'[1], ... their derivatives."""

    def __init__(self, graph: Graph, writer: Writer, known: dict[Atom, Term], rounds: dict[str, list[Node]]) -> None:
        self.writer = writer
        self.rounds = rounds
        cut = {
            b: writer.symbol(f"{name}[{k + 1}]", is_complex(b.dtype))
            for name, states in rounds.items()
            for k, b in enumerate(states)
        }
        self.terms = read_graph(graph, writer, known, cut)
        self.symbols = cut
        self.results = [term_of(output.atom, writer, known) for output in graph.outputs]
        self.patterns = Patterns(writer)
        self.index = "k" if "k" not in {name.partition("[")[0] for name in writer.bits} else self.patterns.indices[0]

    def holds(self) -> bool:
        """Whether all rounds from the second on are one."""
        return all(
            len({self._at_index(self.terms[b], k) for k, b in enumerate(states) if k}) == 1
            and max(self.terms[b].width for b in states) < WIDEST
            for states in self.rounds.values()
        )

    def _at_index(self, term: Term, place: int) -> Term:
        return self.patterns.at_index(term, place, self.index)

    def steps(self, slopes: Slopes, by: Term | None) -> Iterator[Line]:
        """The values, or their derivatives by a symbol, of the first round and of all others."""
        prime = "" if by is None else "'"
        for name, states in self.rounds.items():
            terms = [self.terms[b] if by is None else self.slope(self.terms[b], slopes, by) for b in states[:2]]
            yield Line(sp.Symbol(f"{name}{prime}[1]"), terms[0])
            next_ = sp.Symbol(f"{name}{prime}[{self.index}+1]")
            yield Line(next_, self._at_index(terms[1], 1), (self.index, 1, len(states) - 1))

    def slope(self, term: Term, slopes: Slopes, by: Term) -> Term:
        """The derivative of a term over the values of rounds, by the chain rule."""
        through = ((s, self.writer.primed(s)) for s in self.symbols.values() if term.needs & s.needs)
        return slopes.along(term, [(by, ONE), *through])


def recurrence_of(graph: Graph, writer: Writer, known: dict[Atom, Term], sources: Sources) -> Recurrence | None:
    """The rounds of the user's one `while`; None where there are few, or they differ."""
    rounds: dict[str, list[Node]] = {}
    for values in assigned_values(graph, sources, set(graph.bindings)).values():
        for name, bindings in values.items():
            if sources.loop_line(bindings[0].origin) is not None:
                if name in rounds:
                    return None
                rounds[name] = bindings
    counts = {len(bindings) for bindings in rounds.values()}
    arrays = {name.partition("[")[0] for name in writer.bits if "[" in name}
    if not counts or min(counts) < FEWEST - 1 or max(counts) < FEWEST or max(counts) > min(counts) + 1 or set(rounds) & arrays:
        return None
    found = Recurrence(graph, writer, dict(known), rounds)
    return found if found.holds() else None
