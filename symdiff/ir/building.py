"""The Builder: an append-only list of bindings, filled by tracing, by sweeps and by scalarizing.

Assumes operands that it bound itself or that are its inputs. Guarantees a shape and a dtype for every binding by NumPy's
rules (Python numbers weak, NumPy's typed, NEP 50), and that its folding methods (`add`, `mul`, ...) drop only structural
zeros and ones. Refuses values of an unrelated trace.
"""

import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from symdiff.errors import InvariantError, TraceError
from symdiff.ir.graph import Graph, GraphInput, GraphOutput, live_bindings
from symdiff.ir.loops import SEVERAL, Loop, trimmed_bindings
from symdiff.ir.node import ArrayConstant, Atom, Constant, Node, has_loops
from symdiff.vocabulary.extents import Count, Extent, broadcast_extents
from symdiff.vocabulary.heads import Static
from symdiff.vocabulary.ops import OPS, check_dtype_cast, is_complex, real_counterpart
from symdiff.vocabulary.traits import operations

_WEAK = {bool: True, int: 1, float: 1.0, complex: 1j}
_SINGLE = {int: "f", float: "f", complex: "F"}
_FLOATING = "fdFD?"
_FACTORS = operations("scales") - {"cast"}  # operations that derivatives of whole arrays remember
_COMPARING = operations("compares")
_LOGIC = operations("logic")
_SCALING = operations("scales", "termwise")
_BLOCK = 2**16 - 1  # bindings after which memory is looked at
_BYTES = 3_000  # that a binding takes, with all that is made of it: 6000 rounds of a loop, 84 000 bindings, 200 MB
_cache: dict[tuple[Any, ...], str] = {}
_active = threading.local()


def atom_dtype(dtype: np.dtype, origin: str = "") -> str:
    """One of "?", "f", "d", "F", "D" for a dtype; integers and float16 count as the float they promote to."""
    char = np.dtype(dtype).char
    if char in _FLOATING:
        return char
    if np.dtype(dtype).kind in "iu":
        return "d"
    raise TraceError(f"{origin}: dtype {dtype} cannot be traced; use float32, float64, complex64 or complex128")


def dtype_of_atoms(operands: tuple[Atom, ...]) -> str:
    """The common dtype code of operands, as `np.result_type` gives it for NumPy values and weak Python numbers."""
    key = tuple(o.dtype if o.dtype is not None else type(o.value) for o in operands)
    code = _cache.get(key)
    if code is None:
        values = [np.dtype(k) if isinstance(k, str) else _WEAK[k] for k in key]
        code = _cache[key] = atom_dtype(np.result_type(*values))
    return code


def _is_truth(operand: Atom) -> bool:
    """Whether an operand is a truth, a known one too: paths join known ones to one that is not."""
    return operand.dtype == "?" or (operand.op == "const" and type(operand.params) is bool)


def active_builders() -> "list[Builder]":
    """The builders of the traces that this thread is in, outermost first."""
    try:
        return _active.stack  # type: ignore[no-any-return]
    except AttributeError:
        _active.stack = []
        return _active.stack


def memory_for_bindings() -> float:
    """Bytes that the process may use, infinite where the platform does not tell."""
    if not hasattr(os, "sysconf"):
        return float("inf")
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    room = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return room if limit == resource.RLIM_INFINITY else min(room, limit)


def check_binding_memory(count: int, origin: str) -> None:
    """Raise `TraceError` where so many bindings need more memory than there is."""
    needed, room = count * _BYTES, memory_for_bindings()
    if needed > room:
        raise TraceError(
            f"{origin}: more than {count} operations, which need about {needed / 1e9:.1f} GB of {room / 1e9:.1f} GB; "
            "fewer rounds of a loop, or operations on whole arrays in place of cells, need less"
        )


def is_same_atom(a: Atom, b: Atom) -> bool:
    """Whether two atoms are one symbol, or constants of the same type and bits."""
    if a is b:
        return True
    if not isinstance(a, Constant) or not isinstance(b, Constant) or a.dtype != b.dtype:
        return False
    return type(a.value) is type(b.value) and repr(a.value) == repr(b.value) and a.value == a.value


class Builder:
    """Inputs and bindings under construction. `parent` is the builder of the enclosing trace, if any."""

    def __init__(self, parent: "Builder | None" = None) -> None:
        self.parent = parent
        self.level: int = 0 if parent is None else parent.level + 1
        self.bindings: list[Node] = []
        self.inputs: list[GraphInput] = []
        self.captures: dict[Atom, Node] = {}
        self.captured: list[Any] = []
        self.structural: dict[Atom, Node] = {}  # what is known of whole arrays, by their symbols
        self.sums: dict[tuple[Atom, tuple[int, ...]], Atom] = {}  # the sums of arrays over axes that there are
        self.wider: dict[
            Atom, tuple[Node, tuple[int, ...]]
        ] = {}  # loops that have the results of others, see `loops.trimmed_bindings`
        self.data: dict[Atom, Any] = {}  # what constants alone tell, see `constants.data_of`
        self.signs: Any = None  # the signs that are factors of values, see `sign_factors`
        self.fixed: set[Atom] = set()  # inputs that are captured arrays, and what is computed of these alone
        self.path: Any = None  # the conditions of the run that fills it, see `tracing.paths`
        self.origin = ""
        self.single = False  # what is derived is in single precision
        self.primal = True
        self.in_round = False  # of a loop, where inputs may depend on what other rounds have
        self.patience = 0  # bindings after which `tired` is asked for how many more
        self.tired: Callable[[list[Node]], int] = lambda _: 0
        self.whole: dict[Atom, str] = {}  # inputs that are whole numbers or truths for functions that are called
        self._count = 0
        self.work: list[int] = [0] if parent is None else parent.work  # bindings made so far, in traces inside as well
        self.begun = self.work[0]

    def input(self, name: str, shape: tuple[int, ...], dtype: str, path: str = "") -> Node:
        """A new input symbol."""
        symbol = Node("input", (), shape, dtype, None, "", True, name)
        self.inputs.append(GraphInput(symbol, path or name))
        return symbol

    def fresh_input(self, name: str, shape: tuple[int, ...], dtype: str) -> GraphInput:
        """A new input, with a name that none has."""
        while any(leaf.name == name for leaf in self.inputs):
            name += "_"
        self.input(name, shape, dtype)
        return self.inputs[-1]

    def bind(
        self, op: str, operands: tuple[Atom, ...], shape: tuple[int, ...], dtype: str, params: Any = None, origin: str = ""
    ) -> Node:
        """Append `symbol = op(operands)` and return the symbol; no cell of a real array is complex."""
        if op == "array":
            for cell in operands:
                check_dtype_cast("D" if isinstance(cell.params, complex) else cell.dtype, dtype)
            whole = stack_of_cells(operands)
            if whole is not None and (whole.shape, whole.dtype) == (shape, dtype):
                return whole
        bound = Node(op, operands, shape, dtype, params, origin or self.origin, self.primal, f"v{self._count}")
        self._count += 1
        self.work[0] += 1
        if self._count == self.patience:
            self.patience += self.tired(self.bindings)
        if not self._count & _BLOCK:
            check_binding_memory(self._count, bound.origin)
        if self.fixed and operands and all(o.op == "const" or o in self.fixed for o in operands):
            self.fixed.add(bound)
        self.bindings.append(bound)
        if self.signs is not None:
            self.signs.note(bound)
        return bound

    def after(self, bindings: list[Node]) -> None:
        """Go on with names that none of some bindings has, which are to stand beside new ones."""
        taken = (int(b.name[1:]) for b in bindings if b.name[1:].isdecimal())
        self._count = max(self._count, 1 + max(taken, default=-1))

    def at(self, binding: Node) -> None:
        """Go on at the line of a binding, in its precision."""
        self.origin = binding.origin
        self.single = binding.dtype in ("f", "F")

    def in_precision(self, operands: tuple[Atom, ...]) -> tuple[Atom, ...]:
        """Numbers of no dtype that meet nothing but each other, in the precision of what is derived."""
        if not self.single or not all(isinstance(o, Constant) and o.dtype is None for o in operands):
            return operands
        return tuple(self.cast(o, _SINGLE[type(o.value)]) if type(o.value) in _SINGLE else o for o in operands)

    def emit(self, op: str, operands: tuple[Atom, ...], payload: Any = None, origin: str = "") -> Atom:
        """An elementwise operation, its dtype and broadcast shape worked out."""
        if op == "const":
            return Constant(payload)
        operands = (operands[0], *self.in_precision(operands[1:])) if op == "select" else self.in_precision(operands)
        if self.structural and not self.primal:
            found = self._narrowed(op, operands, payload, origin)
            if found is not None:
                return found
        row = OPS[op]
        if op == "select":
            code = dtype_of_atoms(operands[1:])
            if code != "?":
                operands = (operands[0], *(self._as_number(o, code, origin) for o in operands[1:]))
        elif row.result == "bool":
            code = "?"
            if op in _LOGIC:  # of numbers whether they are 0
                operands = tuple(o if _is_truth(o) else self.emit("ne", (o, Constant(0)), None, origin) for o in operands)
            elif op not in _COMPARING or dtype_of_atoms(operands) != "?":  # a truth beside a number is 0 or 1
                operands = tuple(self._as_number(o, "d", origin) for o in operands)
        elif op == "cast":
            check_dtype_cast(operands[0].dtype, payload)
            code = payload
        else:
            code = dtype_of_atoms(operands)
            if code == "?" and op != "real":
                # NumPy counts Booleans as small integers in arithmetic; as floats they count the same.
                operands = tuple(self.emit("cast", (o,), "d", origin) if o.dtype == "?" else o for o in operands)
                code = "d"
            elif code != "?" and any(_is_truth(o) for o in operands):
                operands = tuple(self._as_number(o, real_counterpart(code), origin) for o in operands)
            if row.real_only and is_complex(code):
                where = f"{origin or self.origin}: "
                raise TraceError(f"{where}SciPy computes {row.numpy} of real numbers only; a complex one is given")
            if row.result == "real":
                code = real_counterpart(code)
            elif row.result == "complex":
                code = "F" if code in "fF" else "D"
        shapes = [o.shape for o in operands if o.shape != ()]
        if not shapes:
            shape: tuple[int, ...] = ()
        elif len(shapes) == 1:
            shape = shapes[0]
        else:
            try:
                shape = broadcast_extents(*shapes)
            except ValueError:
                listed = " and ".join(str(s) for s in shapes)
                raise TraceError(f"{origin or self.origin}: {op}: shapes {listed} do not broadcast") from None
        symbol = self.bind(op, operands, shape, code, None, origin)
        if op in _FACTORS and self.structural and not self.primal:
            self.structural[symbol] = symbol
        return symbol

    def _as_number(self, operand: Atom, code: str, origin: str) -> Atom:
        """A truth value as 0 or 1."""
        if isinstance(operand, Constant) and isinstance(operand.value, bool):
            return Constant(int(operand.value))
        return self.emit("cast", (operand,), code, origin) if operand.dtype == "?" else operand

    def _narrowed(self, op: str, operands: tuple[Atom, ...], payload: Any, origin: str) -> Atom | None:
        """An operation in a derivative on broadcast or diagonal arrays: done on what they hold; None for other operands."""
        by = [self.structural.get(o) for o in operands]
        if any(b is not None and b.op == "broadcast_to" for b in by):
            narrow = tuple(
                b.operands[0] if b is not None and b.op == "broadcast_to" else o for o, b in zip(operands, by, strict=True)
            )
            folding = {"mul": self.mul, "add": self.add, "neg": self.neg}.get(op)
            found = folding(*narrow) if folding else self.emit(op, narrow, payload, origin)
            try:
                shape = broadcast_extents(*(o.shape for o in operands))
            except ValueError:
                return None
            return found if found.shape == shape else self._whole("broadcast_to", found, shape=shape)
        diagonal = [b is not None and b.op == "embed" for b in by]
        numbers = all(d or not o.shape for d, o in zip(diagonal, operands, strict=True))
        if op in _SCALING and numbers and sum(diagonal) == 1 and (diagonal[0] or op != "div"):
            inside = (b.operands[0] if b is not None and d else o for o, b, d in zip(operands, by, diagonal, strict=True))
            return self._whole("embed", self.emit(op, tuple(inside), payload, origin))
        return None

    def _whole(self, head: str, operand: Atom, **params: Any) -> Atom:
        (operand,) = self.in_precision((operand,))
        code = dtype_of_atoms((operand,))
        shape = params.get("shape", (*operand.shape, *operand.shape[-1:]))
        symbol = self.bind(head, (operand,), shape, code, Static(head, params))
        self.structural[symbol] = symbol
        return symbol

    def folded(self, op: str, operands: tuple[Atom, ...], payload: Any = None) -> Atom:
        """An operation, without structural zeros and ones."""
        folding: dict[str, Callable[..., Atom]] = {
            "add": self.add, "sub": self.sub, "mul": self.mul, "neg": self.neg, "conj": self.conj, "real": self.real,
        }  # fmt: skip
        return folding[op](*operands) if op in folding else self.emit(op, operands, payload)

    def add(self, a: Atom, b: Atom) -> Atom:
        """a + b, without structural zeros; in derivatives of whole arrays nothing is added to its own negative."""
        if a.op == "bundle" and b.op == "bundle":
            return self.bundle(tuple(map(self.add, a.operands, b.operands)))
        if is_constant(a, 0):
            return b
        if is_constant(b, 0):
            return a
        if any(self._is_negative(x, y) for x, y in ((a, b), (b, a))):
            return Constant(0.0)
        return self.emit("add", (a, b))

    def sub(self, a: Atom, b: Atom) -> Atom:
        """a - b, constants folded."""
        if isinstance(a, Constant) and isinstance(b, Constant):
            return Constant(a.value - b.value)
        return self.emit("sub", (a, b))

    def _is_negative(self, a: Atom, b: Atom) -> bool:
        """Whether b is known to be -a."""
        if isinstance(a, Constant):
            return not self.primal and isinstance(b, Constant) and a.value == -b.value
        by = self.structural.get(b)
        return by is not None and by.op == "neg" and by.operands[0] is a and not by.primal

    def mul(self, a: Atom, b: Atom) -> Atom:
        """a*b; a factor of exactly 1 is dropped and -1 becomes a negation. In a derivative sign(x)*sign(x) is 1."""
        if self.signs is not None and not self.primal and (found := self.signs.product(a, b)) is not None:
            return found  # type: ignore[no-any-return]
        for x, y in ((a, b), (b, a)):
            if isinstance(x, Constant):
                if x.value == 1 and not isinstance(x.value, complex):
                    return y
                if x.value == -1 and not isinstance(x.value, complex):
                    return self.neg(y)
                if isinstance(y, Constant) and isinstance(x.value, int) and isinstance(y.value, int):
                    return Constant(x.value * y.value)
                if x.value == 2 and isinstance(y, Constant):
                    return Constant(y.value + y.value)
        return self.emit("mul", (a, b))

    def neg(self, a: Atom) -> Atom:
        """-a, constants folded; the negative of -b is b."""
        if isinstance(a, Constant):
            return Constant(-a.value, a.dtype)
        return a.operands[0] if a.op == "neg" and not a.primal else self.emit("neg", (a,))

    def select(self, condition: Atom, a: Atom, b: Atom) -> Atom:
        """a where condition else b."""
        if a.op == "bundle":
            others = b.operands if b.op == "bundle" else (b,) * len(a.operands)
            return self.bundle(tuple(self.select(condition, x, y) for x, y in zip(a.operands, others, strict=True)))
        return a if is_same_atom(a, b) else self.emit("select", (condition, a, b))

    def conj(self, a: Atom) -> Atom:
        """The conjugate; a real value is its own."""
        if isinstance(a, Constant):
            return Constant(a.value.conjugate(), a.dtype) if isinstance(a.value, complex) else a
        return self.emit("conj", (a,)) if a.dtype in "FD" else a

    def real(self, a: Atom) -> Atom:
        """The real part; a real value is its own."""
        if isinstance(a, Constant):
            return Constant(a.value.real, None) if isinstance(a.value, complex) or a.dtype in ("F", "D") else a
        return self.emit("real", (a,)) if a.dtype in "FD" else a

    def cast(self, a: Atom, code: str) -> Atom:
        """a with the dtype `code`."""
        if isinstance(a, Constant):
            check_dtype_cast("D" if isinstance(a.value, complex) else None, code)
            return Constant(complex(a.value) if code in "FD" else a.value, code)
        return a if a.dtype == code else self.emit("cast", (a,), code)

    def array(self, cells: list[Atom], shape: tuple[int, ...], dtype: str) -> Node:
        """An array of scalar cells in C order."""
        return self.bind("array", tuple(cells), shape, dtype)

    def bundle(self, atoms: tuple[Atom, ...]) -> Node:
        """Several values as one, which is taken apart again: what stands for the results of a loop in its derivative."""
        return self.bind("bundle", atoms, (), SEVERAL)

    def loop(self, loop: Loop, operands: tuple[Atom, ...], origin: str = "") -> Node:
        """A loop, whose results are its parts."""
        if self.primal and any(b.op == "loop" and b.params.counted == loop.counted for b in self.bindings if loop.tested):
            raise InvariantError(f"{origin}: two loops count {loop.counted}")
        return self.bind("loop", operands, (), SEVERAL, loop, origin)

    def part(self, several: Node, place: int) -> Atom:
        """One result of a binding of several."""
        if several.op == "bundle":
            return several.operands[place]
        _, shape, dtype = several.params.results[place]
        return self.bind("part", (several,), shape, dtype, place, several.origin)

    def size(self, extent: Count) -> Atom:
        """The number that an extent is, at a call."""
        return self.bind("size", (), (), "d", extent) if isinstance(extent, Extent) else Constant(float(extent))

    def graph(self, name: str, outputs: tuple[GraphOutput, ...], out_tree: Any = None, **facts: Any) -> Graph:
        """The finished Graph, without dead bindings."""
        if has_loops(self.bindings):
            live, outputs = trimmed_bindings(self.bindings, outputs, self.wider)
        else:
            live = live_bindings(self.bindings, outputs)
        return Graph(name, tuple(self.inputs), outputs, live, out_tree, **facts)


def is_constant(atom: Atom, value: float) -> bool:
    """Whether an atom is that number (a structural zero or one, for example)."""
    return isinstance(atom, Constant) and not isinstance(atom.value, complex) and bool(atom.value == value)


def stack_of_cells(cells: Sequence[Atom]) -> Node | None:
    """The rows that a loop gives, of which these are all cells in their order; None for other cells."""
    whole: Any = cells[0].operands[0] if cells and cells[0].op == "item" else None
    if whole is None or whole.op != "part" or whole.shape != (len(cells),):
        return None
    same = all(a.op == "item" and a.operands[0] is whole and a.params == n for n, a in enumerate(cells))
    return whole if same else None


def array_atom(value: np.ndarray) -> Atom:
    """A constant atom of a NumPy scalar or array; its dtype is kept, since NumPy's numbers are typed."""
    if value.ndim:
        return ArrayConstant(value)
    code = value.dtype.char
    item = value.item()
    return Constant(item, None if code == "O" else code)
