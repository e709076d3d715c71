"""The end of a loop's rounds in symbols: the loop is bound, and names, lists and arrays are set to what it gives.

Assumes rounds that agree (`carrying.Carrying`). Guarantees that names behind the loop hold what the last round has given them,
lists and arrays what all rounds have, and that what rounds raise is raised behind it.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from symdiff.ir.arrays.algebra import Arrays
from symdiff.ir.building import Builder, active_builders, array_atom, dtype_of_atoms
from symdiff.ir.constants import data_of
from symdiff.ir.loops import MOST, repeated_bindings, work_of
from symdiff.ir.node import Atom, Constant, Node
from symdiff.tracing.loops.assembling import Carried, Round, Stacked, bound_loop, zero_of
from symdiff.tracing.loops.carrying import LEAF, EarlierItem, GivenItem, HandedOn, RaisedIn, Several
from symdiff.tracing.loops.collected import Rows
from symdiff.tracing.loops.growing import Growing
from symdiff.tracing.loops.indices import RoundPath
from symdiff.tracing.loops.keeping import Again, work_of_binding
from symdiff.tracing.loops.of_data import OfData
from symdiff.tracing.loops.parts import Parts
from symdiff.tracing.loops.states import Left, State
from symdiff.tracing.loops.stores import ArrayStore, CarriedStore
from symdiff.tracing.values.integers import Integer, integer, is_inexact
from symdiff.tracing.values.kinds import NUMPY, PYTHON, Form, kind_of_several
from symdiff.tracing.values.selecting import pattern
from symdiff.tracing.values.spans import reach
from symdiff.tracing.values.storage import root_of
from symdiff.tracing.values.tracer import Tracer, raises_behind, traced_atom

_CHOICES = 6  # conditions in a row, of which all paths are merged


class Closing:
    """The part of a loop's rounds that ends them."""

    def _finish(self, outer: Builder, count: int | None, found: Any, skeletons: dict[str, Any]) -> None:
        """The loop is bound, and the names are set to what it gives."""
        run, path, k, _, _ = found
        work = repeated_bindings(run.builder.bindings, lambda b: work_of(b) * work_of_binding(b))
        many = count is None or (self.chooses and count > _CHOICES)  # paths, if the loop was written out
        operations = math.inf if many else count * work
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
        if self.leaves:
            carried.append(
                Carried("going", run.builder.inputs[1 + len(self.symbols)].node, Constant(True), run.outputs[-1].atom)
            )
        test = run.outputs[-2].atom if self.tested else None
        data = self._of_data(outer, run.builder, k, count, carried, test)
        path.tell(data.columns)
        stores = {} if self.decides else {item: item.store for item in self.given}
        told = {item: self._told(item, path) for item, store in stores.items() if not (self.tested and store.collects)}
        for grown in self.states.growing.values() if not self.decides else ():
            grown.prepare(self.tested or any(known is None for item, known in told.items() if item.store is grown))
        given = [(item, atom) for item, known in told.items() for atom, _ in self.given[item][known is not None :]]
        stacked = [Stacked("y", atom, *item.store.rows(count)) for item, atom in given]
        name = self._counting(outer) if self.tested else ""
        made = Round(run.builder, k, count, path.in_rounds, self.origin, test, name, data)
        results, stacks = bound_loop(outer, made, carried, stacked)
        rounds = stacks.pop() if self.tested else None
        if rounds is not None and rounds.op != "const" and outer.path is not None:
            outer.path.reaches(rounds, 0, MOST if count is None else count)
        if self.decides:
            self.keeping.open.pop()
            self.keeping.keep(self.place, operations)
            known = integer(outer, rounds)  # type: ignore[arg-type]
            self.count = known if type(known) is int else known.of_kind(PYTHON).decided()
            if self.keeping.is_few(self.place, self.count):
                self.keeping.open.append(self)
                raise self.keeping.refuse("few rounds are alike")
            return
        leaves = []
        counted = count if rounds is None else rounds.params if rounds.op == "const" else Integer(outer, rounds, PYTHON)
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
            elif isinstance(name, RaisedIn):
                raised[name.key] = self._joined(s, whole)
            elif isinstance(name, EarlierItem):
                windows[name.store, name.place] = self._joined(s, whole)
            elif isinstance(name, CarriedStore):
                self._joined(s, whole)
        if not self.begins:
            self._forget(skeletons)
        self._watch()
        behind = {value: leaf for (value, *_), leaf in zip(self.handed, leaves, strict=True)}
        for c in self.carried:
            self.values.update(c.close(traced_atom(behind[c.value], outer, self.origin)))
        self.keeping.refresh()
        self.keeping.open.pop()
        whole = iter(stacks)
        rows: dict[GivenItem, list[tuple[Any, list[Form]]]] = {}
        for item, known in told.items():
            cells = self.given[item]
            rows[item] = [(known if known is not None and not n else next(whole), f) for n, (_, f) in enumerate(cells)]
            if isinstance(item.store, ArrayStore):
                item.store.close(rows[item][0][0], count)  # type: ignore[arg-type]
        for grown in self.states.growing.values():
            if not grown.slots:
                grown.end(iter(()))
            elif self.tested:
                ends = [windows[grown, n] for n in range(len(grown.before))]
                grown.collect(self._asking(grown), None, ends, windows[grown, -1])
            else:
                self._list(grown, [(slot.structure, rows[GivenItem(grown, n)]) for n, slot in enumerate(grown.slots)], count)
        self._stand_in(False)
        for name, cells in self.listed.items():
            cells.into(self.items_of[name])
            self.values[name] = self.items_of[name]
        self.moved = True
        self.unbound = [name for name in self.names if name not in self.values]
        self.keeping.keep(self.place, operations)
        for key, truth in raised.items():
            error = self.errors[key]
            if is_inexact(error) and (not isinstance(truth, Tracer) or truth.atom.op == "const") and truth:
                self.keeping.open.append(self)  # written out, what data tell is exact
                raise self.keeping.refuse(str(error))
            if not isinstance(error, Left):
                raises_behind(truth, error)  # type: ignore[arg-type]
            elif truth:
                raise error

    def _of_data(
        self, outer: Builder, inside: Builder, k: Node, count: int | None, carried: list[Carried], test: Atom | None
    ) -> OfData:
        """What no argument tells of the round."""
        pairs = zip(inside.captures.values(), inside.captured, strict=True)
        around = {symbol: traced_atom(x, outer, self.origin) for symbol, x in pairs}

        def value(atom: Atom) -> Any:
            data = data_of(atom, outer.data)
            return None if data is None else data.value

        outside = {symbol: value(x) for symbol, x in around.items()}
        data = OfData(inside.bindings, k, carried, [value(c.begin) for c in carried], outside)
        if data.known and (test is None or data.told(test)):
            given = [atom for cells in self.given.values() for atom, _ in cells if data.told(atom)]
            data.work_out(k, count, [*data.places(), *given], test)
        return data

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
                rows = Rows(mask, traced, forms, lambda leaves: self._joined(spread, leaves), spread is LEAF)
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

    def _told(self, item: "GivenItem", path: RoundPath) -> Any:
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
        if stack.op == "const":
            return self._behind(self.outer, array_atom(stack.params[n]), forms)
        return self._behind(self.outer, self.outer.bind("item", (stack,), (), stack.dtype or "d", n, self.origin), forms)

    def _joined(self, spread: Any, leaves: Iterator[Any]) -> Any:
        if isinstance(spread, Several):
            which, *ways = [self._joined(s, leaves) for s in (spread.which, *spread.ways)]
            return ways[which if type(which) is int else which.decided()]
        if not isinstance(spread, Parts):
            if spread is not LEAF and self.stands(spread.value):
                return spread.value.behind
            return next(leaves) if spread is LEAF else spread.value
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

    def _counted(self, value: HandedOn | None, atom: Atom, given: list[Any], count: Any, path: RoundPath) -> Any:
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
        if atom.op == "const" and not atom.shape and kind in (NUMPY, PYTHON):
            (form,) = found
            number = np.dtype(form.whole or form.code).type(atom.params)
            return number.item() if kind.python else number
        return Integer(outer, atom, kind) if all(f.whole for f in found) else Tracer(outer, atom, kind)

    def _undecided(self) -> int:
        if self.outer not in active_builders():
            return 0
        self.keeping.open.append(self)
        raise self.keeping.refuse("the type of a value behind it depends on conditions in it")
