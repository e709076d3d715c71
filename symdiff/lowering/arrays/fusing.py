"""Program of whole arrays to tasks: chains of elementwise nodes become kernels, also into sums and into regions of arrays.

Assumes a Program that passes `check_program`. Guarantees an order in which every task finds its operands, and
that a value which only its own kernel reads is never stored. Each kernel is a scalar Program, shared like any other, so
that its operations are the fewest.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from symdiff.ir.node import Node
from symdiff.lowering.program import ASSEMBLE, Input, Output, Program, domain_size, is_elementwise_step, is_leaf, is_view_step
from symdiff.lowering.table import Table
from symdiff.lowering.walks import live_only, program_cone
from symdiff.vocabulary.heads import HEADS, Shape, Slice
from symdiff.vocabulary.traits import operations

Share = Callable[[Program], Program]
LONGEST = 500  # nodes of a kernel: compiling takes more than linear time
_CHEAP = operations("cheap")
_AGAIN = 3  # cheap operations up to which a value is computed again rather than stored: as long as loading it takes


class Sink(NamedTuple):
    """What becomes of one value of a kernel.

    "store": it fills the array of node `value`; "sum": its sum over `axes` is node `value`; "add": it is added to the
    region `key` of the assembled node `value`; "put": it is the first to fill that region.
    """

    kind: str
    value: int
    axes: tuple[int, ...] = ()
    key: tuple[Slice, ...] = ()


@dataclass(slots=True)
class Kernel:
    """A chain of elementwise nodes over one domain: `program` has an input for each operand and an output for each sink.

    `exact`: sums are not taken apart.
    """

    domain: Shape
    operands: list[int]
    program: Program
    sinks: list[Sink]
    exact: bool = False


@dataclass(slots=True)
class Call:
    """One structural node; for an assembled one, `pending` are the parts that no kernel adds."""

    value: int
    pending: list[tuple[int, tuple[Slice, ...]]] = field(default_factory=list)


@dataclass(slots=True)
class Clear:
    """The array of an assembled node is filled with zeros, but for a region that the next kernel puts."""

    value: int
    besides: tuple[Slice, ...] = ()


Task = Kernel | Call | Clear


@dataclass(slots=True)
class Fused:
    """A Program of whole arrays and its tasks in order. After the first `checked` ones its checks are known, and nothing is
    written.
    """

    program: Program
    tasks: list[Task]
    checked: int = 0

    @property
    def name(self) -> str:
        """The program's name."""
        return self.program.name

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The program's inputs."""
        return self.program.inputs

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The program's outputs."""
        return self.program.outputs

    def numbers(self) -> dict[int, Any]:
        """The arrays that turned out to be one number in all cells when kernels were shared, by their values."""
        found = {}
        for kernel in (task for task in self.tasks if isinstance(task, Kernel)):
            program = kernel.program
            for sink, output in zip(kernel.sinks, program.outputs, strict=True):
                node = program.nodes[output.value]
                number = program.nodes[node.operands[0]] if node.op == "neg" else node
                if sink.kind == "store" and number.op == "const":
                    found[sink.value] = (number.params if number is node else -number.params) + 0.0  # no -0.0
        return found

    @property
    def scalars(self) -> list[Node]:
        """The nodes of all kernels."""
        return [node for task in self.tasks if isinstance(task, Kernel) for node in task.program.nodes]

    def operations(self) -> int:
        """Operations on cells: those of kernels times their cells, and what structural calls take."""
        return sum(self.by_kind().values())

    def by_kind(self) -> dict[str, int]:
        """How often each operation occurs, most frequent first."""
        counts: dict[str, int] = {}
        for task in self.tasks:
            if isinstance(task, Kernel):
                cells = domain_size(task.domain)
                for kind, n in task.program.by_kind().items():
                    counts[kind] = counts.get(kind, 0) + n * cells
                for sink in task.sinks:
                    if sink.kind in ("sum", "add"):
                        counts["add"] = counts.get("add", 0) + cells
            elif isinstance(task, Call):
                node = self.program.nodes[task.value]
                if node.op in HEADS:
                    shapes = [self.program.nodes[o].shape for o in node.operands]
                    cost = HEADS[node.op].cost(*shapes, **node.params)
                    counts[node.op] = counts.get(node.op, 0) + cost
        return dict(sorted(((k, n) for k, n in counts.items() if n), key=lambda item: (-item[1], item[0])))


def fuse(program: Program, share: Share, exact: bool = False) -> Fused:
    """The tasks of a program; `share` rewrites kernels, `exact` keeps sums whole."""
    return _Fusing(program, share, exact).fused()


class _Rooms:
    """The kernels by level and shape, none of which becomes too long to be compiled in one piece."""

    def __init__(self) -> None:
        self.members: dict[tuple[int, Shape], int] = {}
        self.next: dict[tuple[int, Shape], int] = {}  # from a full one on, the level that had room

    def taken(self, level: int, shape: Shape) -> int:
        """The first level from this one on with room, which it has for one node less."""
        passed = []
        while (further := self.next.get((level, shape))) is not None:
            passed.append((level, shape))
            level = further
        self.next.update(dict.fromkeys(passed, level))
        here = level, shape
        self.members[here] = self.members.get(here, 0) + 1
        if self.members[here] == LONGEST:
            self.next[here] = level + 1
        return level


class _Fusing:
    def __init__(self, program: Program, share: Share, exact: bool) -> None:
        self.program = program
        self.nodes = program.nodes
        self.share = share
        self.exact = exact
        self.users: list[list[int]] = [[] for _ in self.nodes]
        for position, node in enumerate(self.nodes):
            for operand in dict.fromkeys(node.operands):
                self.users[operand].append(position)
        self.results = {o.value for o in program.outputs} | set(program.checks)
        self.first = program_cone(program, program.checks)
        self.level = [0] * len(self.nodes)
        self.again = {position for position in range(len(self.nodes)) if self.is_quick(position)}
        self.place()
        self.sink()

    def is_quick(self, value: int) -> bool:
        """Whether a kernel computes a value in a few nodes from a single array and numbers, all of which it finds stored."""
        shape = self.nodes[value].shape
        found, waiting, arrays = {value}, [value], set()
        while waiting:
            node = self.nodes[waiting.pop()]
            if node.op not in _CHEAP or node.shape != shape or value in self.results:
                return False
            for operand in node.operands:
                if not self.together(operand, shape):
                    arrays |= {operand} if domain_size(self.nodes[operand].shape) > 1 else set()
                elif operand not in found:
                    found.add(operand)
                    waiting.append(operand)
            if len(found) > _AGAIN or len(arrays) > 1:
                return False
        return bool(shape)

    # -- levels

    def available(self, value: int) -> int:
        """The level from which a value can be read as an array."""
        node = self.nodes[value]
        if is_leaf(node):
            return 0
        return self.available(node.operands[0]) if is_view_step(node) else self.level[value] + 1

    def together(self, value: int, shape: Shape) -> bool:
        """Whether a value can be computed in the same kernel as a user over `shape`."""
        return is_elementwise_step(self.nodes[value]) and self.nodes[value].shape == shape

    def is_sum(self, value: int) -> bool:
        """Whether a node is a sum that ends a kernel."""
        node = self.nodes[value]
        return (
            node.op == "sum"
            and is_elementwise_step(self.nodes[node.operands[0]])
            and domain_size(self.nodes[node.operands[0]].shape) > 0
            and self.alike(value, node.operands[0])
        )

    def alike(self, value: int, other: int) -> bool:
        """Whether both of two values are needed for the checks, or none is."""
        return (value in self.first) == (other in self.first)

    def place(self) -> None:
        """The level of every node; those that the checks need lie below all others, from the level `base` on."""
        rooms = _Rooms()
        for position in sorted(self.first):
            self.level[position] = self.roomy(position, self.least(position, 0), rooms)
        self.base = 1 + max((self.level[p] for p in self.first), default=-1)
        for position in range(len(self.nodes)):
            if position not in self.first:
                self.level[position] = self.roomy(position, self.least(position, self.base), rooms)

    def roomy(self, position: int, level: int, rooms: "_Rooms") -> int:
        """The first level from this one on with room for a node; what is not in a kernel needs none."""
        node = self.nodes[position]
        return rooms.taken(level, node.shape) if is_elementwise_step(node) else level

    def least(self, position: int, base: int) -> int:
        """The lowest level, from `base` on, at which a node finds its operands; 0 for what is no task."""
        node = self.nodes[position]
        if is_leaf(node) or is_view_step(node):
            return 0
        if self.is_sum(position):
            source: int = node.operands[0]
            return self.level[source]
        shape = node.shape if is_elementwise_step(node) else None
        found = [self.level[o] if shape is not None and self.together(o, shape) else self.available(o) for o in node.operands]
        return max([base, *found])

    def sink(self) -> None:
        """Move nodes whose operands are kept anyway to the kernel that needs them, so that they are not kept as well.

        A result that no node reads moves to the kernel that needs its operands for another one.
        """
        for position in range(len(self.nodes) - 1, -1, -1):
            node = self.nodes[position]
            users = self.users[position]
            if not is_elementwise_step(node) or node.shape == () or (position in self.results and users):
                continue
            if position in self.program.checks:
                continue
            if not all(self.together(u, node.shape) for u in users):
                continue
            if users:
                later = min(self.level[u] for u in users)
            else:
                beside = [u for o in node.operands for u in self.users[o] if u != position and self.together(u, node.shape)]
                later = max((self.level[u] for u in beside), default=0)
            if later > self.level[position] and all(self.follows(o, position, later) for o in node.operands):
                self.level[position] = later

    def follows(self, value: int, user: int, level: int) -> bool:
        """Whether a value is kept without its user, or can be computed in a later kernel along with it."""
        shape = self.nodes[user].shape
        if self.kept(value, shape, user):
            return True
        return all(u == user or self.level[u] >= level for u in self.users[value]) and all(
            self.kept(o, shape, value) for o in self.nodes[value].operands
        )

    def kept(self, value: int, shape: Shape, besides: int) -> bool:
        """Whether a value is stored as an array even if the node `besides` does not read it here."""
        if not self.together(value, shape) or value in self.again:
            return True
        others = [u for u in self.users[value] if u != besides]
        return value in self.results or any(not self.joins(value, u) for u in others)

    def joins(self, value: int, user: int) -> bool:
        """Whether a user reads a value inside the kernel that computes it."""
        if self.is_sum(user):
            return True
        return (
            self.together(value, self.nodes[user].shape)
            and is_elementwise_step(self.nodes[user])
            and (self.level[user] == self.level[value])
        )

    # -- tasks

    def fused(self) -> Fused:
        groups: dict[tuple[int, Shape], list[int]] = {}
        order: list[tuple[int, int, tuple[int, Shape] | int]] = []
        for position, node in enumerate(self.nodes):
            if is_leaf(node) or is_view_step(node) or self.is_sum(position):
                continue
            if is_elementwise_step(node):
                key = (self.level[position], node.shape)
                if key not in groups:
                    order.append((self.level[position], position, key))
                groups.setdefault(key, []).append(position)
            else:
                order.append((self.level[position], position, position))
        tasks: list[Task] = []
        adders = self.adders(groups)
        taken: dict[int, set[int]] = {}
        for added in adders.values():
            for v, part in added:
                taken.setdefault(v, set()).add(part)
        cleared: set[int] = set()
        checked = -1
        for level, _, entry in sorted(order, key=lambda item: item[:2]):
            checked = len(tasks) if checked < 0 and level >= self.base else checked
            if isinstance(entry, int):
                node = self.nodes[entry]
                if node.op == ASSEMBLE:
                    if entry not in cleared:
                        tasks.append(Clear(entry))
                    pending = [(o, k) for i, (o, k) in enumerate(zip(node.operands, node.params["keys"], strict=True))
                               if i not in taken.get(entry, ())]  # fmt: skip
                    if pending:
                        tasks.append(Call(entry, pending))
                else:
                    tasks.append(Call(entry))
                continue
            puts: set[tuple[int, int]] = set()
            for value in dict.fromkeys(v for v, _ in adders.get(entry, ())):
                if value not in cleared:
                    cleared.add(value)
                    first = self.first_put(value, [part for v, part in adders[entry] if v == value])
                    puts |= {(value, first)} if first is not None else set()
                    tasks.append(Clear(value, () if first is None else self.nodes[value].params["keys"][first]))
            tasks.append(self.kernel(entry[1], groups[entry], adders.get(entry, []), puts))
        return Fused(self.program, tasks, checked if checked >= 0 else len(tasks))

    def first_put(self, value: int, parts: list[int]) -> int | None:
        """The part of an assembled array that may be put before the others of its kernel are added, None where none may.

        Blocks go up along the first axis. The part whose region lies farthest along it fills a cell before any other part
        reaches it.
        """
        node = self.nodes[value]
        keys = {part: node.params["keys"][part] for part in parts}
        for key in keys.values():
            if any(k != (0, n, 1) for k, n in zip(key[1:], node.shape[1:], strict=True)) or key[0][2] != 1:
                return None
        return max(parts, key=lambda part: keys[part][0][0])

    def adders(self, groups: dict[tuple[int, Shape], list[int]]) -> dict[tuple[int, Shape], list[tuple[int, int]]]:
        """For each kernel the parts of assembled arrays that it adds: (assembled node, place of the part)."""
        found: dict[tuple[int, Shape], list[tuple[int, int]]] = {}
        for position, node in enumerate(self.nodes):
            if node.op != ASSEMBLE:
                continue
            for place, operand in enumerate(node.operands):
                inside = self.nodes[operand]
                fits = (
                    inside.shape != ()
                    and inside.dtype == node.dtype
                    and domain_size(inside.shape)
                    and self.alike(position, operand)
                )
                if is_elementwise_step(inside) and fits:
                    found.setdefault((self.level[operand], inside.shape), []).append((position, place))
        return found

    def unrepeated(self, value: int) -> int:
        """What a broadcast array repeats, or the number that it holds: a kernel broadcasts by itself."""
        while self.nodes[value].op in ("broadcast_to", "reshape"):
            source = self.nodes[value].operands[0]
            if self.nodes[value].op == "reshape" and self.nodes[source].shape != ():
                break
            value = source
        return value

    def kernel(self, domain: Shape, members: list[int], added: list[tuple[int, int]], puts: set[tuple[int, int]]) -> Kernel:
        inside = {m: i for i, m in enumerate(members)}
        operands: list[int] = []
        table = Table()
        inputs: list[Input] = []
        numbers: dict[int, int] = {}

        def number(operand: int) -> int:
            found = numbers.get(operand)
            if found is not None:
                return found
            node = self.nodes[operand]
            if operand in self.again and self.together(operand, domain):
                return compute(operand)
            if node.op == "const" and node.shape == ():
                numbers[operand] = table.put("const", (), node.dtype, node.params, "", True)
            else:
                numbers[operand] = table.put("input", (), node.dtype, (len(operands), 0), "", True)
                operands.append(operand)
                inputs.append(Input(f"x{operand}", (), node.dtype))
            return numbers[operand]

        def compute(value: int) -> int:
            node = self.nodes[value]
            places = tuple([number(self.unrepeated(o)) for o in node.operands])
            numbers[value] = table.put(node.op, places, node.dtype, node.params, node.origin, node.primal)
            return numbers[value]

        for member in members:
            if member not in numbers:
                compute(member)
        sinks: list[Sink] = []
        outputs: list[Output] = []

        def drain(sink: Sink, member: int) -> None:
            sinks.append(sink)
            outputs.append(Output(f"y{len(sinks)}", (), self.nodes[member].dtype, (numbers[member],)))

        taken = {self.nodes[v].operands[place] for v, place in added}
        for member in members:
            users = self.users[member]
            for user in users:
                if self.is_sum(user):
                    drain(Sink("sum", user, self.nodes[user].params["axes"]), member)
            stored = member in self.results or any(
                not self.joins(member, u)
                and not (self.nodes[u].op == ASSEMBLE and member in taken)
                and not (member in self.again and self.together(u, domain))
                for u in users
            )
            if stored:
                drain(Sink("store", member), member)
        for value, place in added:
            node = self.nodes[value]
            if node.operands[place] in inside:
                kind = "put" if (value, place) in puts else "add"
                drain(Sink(kind, value, (), node.params["keys"][place]), node.operands[place])
        scalar = live_only(Program("kernel", tuple(inputs), tuple(outputs), table.nodes))
        shared = self.share(scalar)
        return _without_unused(Kernel(domain, operands, shared, sinks, self.exact))


def _without_unused(kernel: Kernel) -> Kernel:
    """The kernel without operands that its program does not read."""
    program = kernel.program
    used = sorted({i.params[0] for i in program.nodes if i.op == "input"})
    if len(used) == len(kernel.operands):
        return kernel
    place = {old: new for new, old in enumerate(used)}
    nodes = [i if i.op != "input" else Node("input", (), (), i.dtype, (place[i.params[0]], 0)) for i in program.nodes]
    slim = replace(program, inputs=tuple(program.inputs[u] for u in used), nodes=nodes)
    return replace(kernel, operands=[kernel.operands[u] for u in used], program=slim)
