"""The Graph: named inputs, named outputs, and an ordered list of bindings, each one operation on earlier ones.

Assumes operations of `ops.OPS` for elementwise bindings and names of NumPy functions for structural ones. Guarantees
(checked by `check_graph`): every value is bound once, before it is used, with a shape, a dtype and the user's
file:line; constants keep their bits. To SymPy a binding is a symbol and one small expression over symbols, never a nested
one: SymPy flattens nested sums and products, which destroys the sharing that a reverse sweep creates.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from symdiff.errors import InvariantError
from symdiff.ir.node import ArrayConstant, Atom, Node, Number
from symdiff.vocabulary.extents import sizes_in
from symdiff.vocabulary.literals import printable, stem_of_steps
from symdiff.vocabulary.ops import OPS
from symdiff.vocabulary.seams import Seam

plotted = Seam("the picture of a graph")
sympy_expressions = Seam("the outputs of a graph as SymPy expressions")
from_sympy = Seam("a graph of SymPy expressions")
shared_by_sympy = Seam("common subexpressions of a graph by SymPy")
evaluated = Seam("the value of a graph, binding by binding")
spliced = Seam("a graph in a running trace")
read = Seam("the reading form of a graph")
read_page = Seam("the page of a graph")


@dataclass(frozen=True, slots=True)
class GraphInput:
    """An argument leaf: its node (which has name, shape and dtype) and its path in the argument structure."""

    node: Node
    path: str

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def shape(self) -> tuple[int, ...]:
        return self.node.shape

    @property
    def dtype(self) -> str:
        return str(self.node.dtype)


@dataclass(frozen=True, slots=True)
class GraphOutput:
    """A result leaf: a Python name, and the atom that holds it."""

    name: str
    atom: Atom

    @property
    def shape(self) -> tuple[int, ...]:
        return self.atom.shape

    @property
    def dtype(self) -> str:
        return self.atom.dtype or _code(self.atom.params)


def outputs_at(outputs: Iterable[GraphOutput], atoms: Mapping[Atom, Atom]) -> tuple[GraphOutput, ...]:
    """The outputs, of the atoms that stand for theirs, where there are such."""
    return tuple(GraphOutput(o.name, atoms.get(o.atom, o.atom)) for o in outputs)


def _code(value: Number) -> str:
    return "?" if isinstance(value, bool) else "D" if isinstance(value, complex) else "d"


@dataclass(slots=True)
class Graph:
    """A traced function. `in_tree` and `out_tree` are optree structures of arguments and result, None for flat tuples."""

    name: str
    inputs: tuple[GraphInput, ...]
    outputs: tuple[GraphOutput, ...]
    bindings: list[Node]
    out_tree: Any = None
    origin: str = ""
    doc: str = ""
    notes: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_sympy(cls, inputs: Any, outputs: Any = None, name: str = "f") -> "Graph":
        """A graph of SymPy expressions: `inputs` are symbols, `outputs` an expression or a list of them.

        Given expressions alone, their symbols are the inputs, in the order of their names. Arguments are float64: numbers for
        symbols, arrays for matrix symbols and indexed bases. Raises `TraceError` for a head without an operation of ours.

        >>> import sympy as sp
        >>> x, y = sp.symbols("x y")
        >>> float(Graph.from_sympy([x, y], x*sp.exp(y))(2.0, 0.0))
        2.0
        """
        return from_sympy(inputs, outputs, name)

    @property
    def expr(self) -> Any:
        """The outputs as plain SymPy, bindings inlined: one expression, or a list when there are several.

        Arrays that are used whole are `MatrixSymbol`s, vectors columns, and the outputs sums, products, transposes, inverses,
        traces of these, or cells over indices; three axes and more are `IndexedBase`s. Where only cells are used they are
        `Indexed`, and an output that is an array is a list of its cells. Limits that hold at single points only, of a norm at
        0 for example, are not among the cases.

        Raises `TraceError` where the inlined expression would have more than 20,000 nodes.

        >>> import numpy as np, symdiff as sd
        >>> print(sd.grad(lambda x, A: x @ A @ x).graph(np.ones(3), np.ones((3, 3))).expr)
        (A + A.T)*x
        """
        return sympy_expressions(self)

    def cse(self) -> tuple[list[tuple[Any, Any]], list[Any]]:
        """SymPy's common subexpressions of `expr`: (replacements, reduced expressions)."""
        return shared_by_sympy(self)  # type: ignore[no-any-return]

    def __call__(self, *args: Any) -> Any:
        """Evaluate binding by binding with NumPy; slow and simple, the second opinion for generated code. In a function that
        is traced, its bindings over traced values become part of that function.
        """
        return evaluated(self, args)

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """A picture: a box for each operation with its formula and your line, inputs above, outputs below.

        Jupyter shows it, and `.save("graph.svg")` writes it (also .png, .pdf); drawn into `ax`, Axes of matplotlib, these
        are returned. `boxes=60` is the most that are shown: beyond, operations that follow each other at one line are one
        box, and so on. `layout="dot"` places boxes by Graphviz' program of that name, `"layers"` without it, None by it where
        it is installed. Raises `MissingPackageError` without matplotlib when something is drawn.

        >>> import sympy as sp
        >>> x = sp.Symbol("x")
        >>> [box.lines[0] for box in Graph.from_sympy([x], x*x).plot().boxes]
        ['x', 'v0 = x**2', 'f']
        """
        return plotted(self, ax, **options)

    def __reduce__(self) -> tuple[Any, ...]:
        """Flat, operands by their places: pickling would go down a chain of nodes by recursion."""
        nodes: dict[Node, int] = {leaf.node: place for place, leaf in enumerate(self.inputs)}
        for binding in self.bindings:
            for operand in (*binding.operands, binding):
                nodes.setdefault(operand, len(nodes))
        for output in self.outputs:
            nodes.setdefault(output.atom, len(nodes))
        flat = [
            (type(n), n.op, tuple(nodes[o] for o in n.operands), n.shape, n.dtype, n.params, n.origin, n.primal, n.name)
            for n in nodes
        ]
        inputs = [leaf.path for leaf in self.inputs]
        outputs = [(o.name, nodes[o.atom]) for o in self.outputs]
        bindings = [nodes[b] for b in self.bindings]
        return _unflattened, (self.name, flat, inputs, outputs, bindings, self.out_tree, self.origin, self.doc, self.notes)

    def digest(self) -> str:
        """The first eight hex digits of `fingerprint`."""
        return self.fingerprint()[:8]

    def fingerprint(self) -> str:
        """The SHA-256 of the graph's text without origins, its symbols numbered in order, and of the cells of its arrays."""
        names = self.numbered_names()
        found = hashlib.sha256("\n".join([self.headline(), *(f"  {b.told(names)}" for b in self.bindings)]).encode())
        for binding in self.bindings:
            if binding.op == "loop":
                found.update(binding.params.fingerprint().encode())
            parameters: dict[str, Any] = getattr(binding.params, "params", {})
            for value in (*parameters.values(), *(o.value for o in binding.operands if isinstance(o, ArrayConstant))):
                if isinstance(value, np.ndarray):
                    found.update(f"{value.dtype.str}{value.shape}".encode() + value.tobytes())
        return found.hexdigest()

    def numbered_names(self) -> dict[Node, str]:
        """Names of the bindings by their order, beside those of the inputs."""
        stem = stem_of_steps([leaf.name for leaf in self.inputs])
        return {binding: f"{stem}{k}" for k, binding in enumerate(self.bindings)}

    def step_names(self) -> dict[Node, str]:
        """The names of bindings that are shown in place of their own, where inputs have such."""
        stem = stem_of_steps([leaf.name for leaf in self.inputs])
        return {} if stem == "v" else {b: f"{stem}{b.name.removeprefix('v')}" for b in self.bindings}

    def operations(self) -> int:
        """Elementwise operations of the scalar bindings as they stand, before sharing; with symbols, an expression of these."""
        loops = sum(b.params.operations() for b in self.bindings if b.op == "loop")
        return loops + sum(OPS[b.op].cost for b in self.bindings if b.op in OPS)  # type: ignore[no-any-return]

    def headline(self) -> str:
        """The first line of the text: name, inputs with their types, names of the outputs."""
        signature = ", ".join(f"{i.name}: {node_type(i.node)}" for i in self.inputs)
        return f"{self.name}({signature}) -> {', '.join(o.name for o in self.outputs)}"

    def _lines(self, names: Mapping[Node, str] = MappingProxyType({})) -> Iterator[str]:
        results: dict[Atom, list[str]] = {}
        for output in self.outputs:
            results.setdefault(output.atom, []).append(output.name)
        wide = max([8, *(len(node_type(b)) for b in self.bindings)])
        for binding in self.bindings:
            text = f"  {binding.told(names)}"
            end = f"= {', '.join(results[binding])}" if binding in results else ""
            yield f"{text:<36} {node_type(binding):<{wide}} {binding.origin:<20} {end}".rstrip()
            if binding.op == "loop":
                yield from binding.params.lines(names)

    def __str__(self) -> str:
        branches = self.notes.get("branches")
        count = f"{len(self.bindings)} bindings" + ("" if branches is None else f", {branches}")
        lines = [f"{self.headline()}{' ' * 10}{count}", *self._lines(self.step_names())]
        constants = [f"  {o.name} = {o.atom}" for o in self.outputs if o.atom.op == "const"]
        loops = [f"  loop at {place}: {what}" for place, what in self.notes.get("loops", {}).items() if what != "kept"]
        sizes = ", ".join(size.bounds() for size in sizes_in(tuple(i.shape for i in self.inputs)))
        return "\n".join(map(printable, lines + constants + loops + ([f"  for any {sizes}"] if sizes else [])))

    @property
    def formula(self) -> Any:
        """What a person would print for it: `print` it, or take `.latex`, `.unicode`, `.markdown`, `.mathml`, `.full`."""
        return read(self)

    def _repr_latex_(self) -> str:
        return self.formula.latex  # type: ignore[no-any-return]

    def _repr_html_(self) -> str:
        return read_page(self)  # type: ignore[no-any-return]

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(self.formula.unicode)


class Derivation(NamedTuple):
    """How a graph was derived: the kind of derivative, the graph of the function as it was written, the places of the inputs by
    which it was differentiated; for an n-th derivative its order, the rules that were passed, and the point of a path."""

    kind: str
    primal: Graph
    wrt: tuple[int, ...]
    order: int = 1
    rules: Any = None
    at: tuple[tuple[str, Any], ...] = ()


_DERIVED = "derivation"
FOLLOWED = "followed"  # the library, and its version, whose own source was traced
_WRITTEN = "written"


def derivation_of(graph: Graph) -> Derivation | None:
    """How a graph was derived, None for that of a function."""
    return graph.notes.get(_DERIVED)


def note_derivation(graph: Graph, derivation: Derivation) -> None:
    """Have a graph remember how it was derived."""
    graph.notes[_DERIVED] = derivation._replace(primal=written_graph(derivation.primal))


def written_graph(graph: Graph) -> Graph:
    """The graph as it was before its arrays became cells."""
    return graph.notes.get(_WRITTEN, graph)  # type: ignore[no-any-return]


def note_written(graph: Graph, written: Graph) -> None:
    """Have a graph of cells remember that of arrays."""
    if graph is not written:
        graph.notes[_WRITTEN] = written


def _unflattened(
    name: str, flat: list[tuple[Any, ...]], inputs: list[str], outputs: list[tuple[str, int]], bindings: list[int], *others: Any
) -> Graph:
    """The graph that was pickled."""
    nodes: list[Node] = []
    for kind, op, operands, *rest in flat:
        node = kind.__new__(kind)
        Node.__init__(node, op, tuple(nodes[o] for o in operands), *rest)
        nodes.append(node)
    leaves = tuple(GraphInput(node, path) for node, path in zip(nodes, inputs, strict=False))
    results = tuple(GraphOutput(called, nodes[place]) for called, place in outputs)
    return Graph(name, leaves, results, [nodes[place] for place in bindings], *others)


def node_type(node: Node) -> str:
    """The type of a value as printed: f64, c128[3, 4], bool."""
    names = {"?": "bool", "f": "f32", "d": "f64", "F": "c64", "D": "c128", "*": ""}
    kind = names.get(node.dtype, node.dtype)
    return kind + (f"[{', '.join(map(str, node.shape))}]" if node.shape else "")


def live_bindings(bindings: list[Node], outputs: tuple[GraphOutput, ...]) -> list[Node]:
    """The bindings that some output needs, in order."""
    needed: set[Atom] = {o.atom for o in outputs}
    kept = []
    for binding in reversed(bindings):
        if binding in needed:
            kept.append(binding)
            needed.update(binding.operands)
    kept.reverse()
    return kept


def check_graph(graph: Graph) -> None:
    """Raise `InvariantError` where the graph breaks its invariant."""
    bound: set[Atom] = {i.node for i in graph.inputs}
    if len(bound) != len(graph.inputs):
        raise InvariantError("two inputs share a symbol")
    for binding in graph.bindings:
        for operand in binding.operands:
            if operand.op != "const" and operand not in bound:
                raise InvariantError(f"{binding.name} uses {operand.name} before it is bound")
        if binding in bound:
            raise InvariantError(f"{binding.name} is bound twice")
        if binding.op == "loop":
            check_graph(binding.params.body)
        if binding.op in OPS and OPS[binding.op].arity not in (-1, len(binding.operands)):
            raise InvariantError(f"{binding}: wrong number of operands")
        bound.add(binding)
    for output in graph.outputs:
        if output.atom.op != "const" and output.atom not in bound:
            raise InvariantError(f"output {output.name} is not bound")
        if any(n < 0 for n in output.shape):
            raise InvariantError(f"output {output.name} has a negative size")
