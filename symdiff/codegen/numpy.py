"""NumPy's words for one operation: on numbers, as an expression, and on arrays, in place.

Assumes nodes of a Program of any dtypes. Guarantees the dtypes of the Program.
"""

import threading
from collections.abc import Iterable, Mapping

import numpy as np

from symdiff.codegen.expressions import ATOM, SIGN, Spelled, parenthesis_levels, printed_operands
from symdiff.codegen.names import Names
from symdiff.codegen.text import dtype_text
from symdiff.ir.node import Node
from symdiff.lowering.program import Program
from symdiff.lowering.walks import uses_of
from symdiff.vocabulary.operation import scipy_special
from symdiff.vocabulary.ops import OPS
from symdiff.vocabulary.traits import operations

PLACES = ("{0}", "{1}", "{2}", "{3}")
_SIGNED = operations("arithmetic") | {"neg"}
_COMPARED = operations("compares")


def calls_scipy(nodes: Iterable[Node]) -> bool:
    """Whether operations are special functions of SciPy's."""
    return any(OPS[node.op].is_special for node in nodes)


def emitted_globals(nodes: list[Node]) -> list[tuple[str, object]]:
    """The globals of a function that runs in this process."""
    functions = {id(i.params): i.params for i in nodes if i.op == "call"}
    known: list[tuple[str, object]] = [("np", np), ("ndarray", np.ndarray), ("_local", threading.local())]
    known += [(name, functions[key]) for key, name in called(nodes).items()]
    return [*known, ("special", scipy_special())] if calls_scipy(nodes) else known


def called(nodes: list[Node]) -> dict[int, str]:
    """The names of the opaque functions that nodes call, by identity: two may have one name."""
    found: dict[int, str] = {}
    names = Names()
    for node in nodes:
        if node.op == "call" and id(node.params) not in found:
            found[id(node.params)] = names.fresh(f"call_{getattr(node.params, '__name__', '')}")
    return found


def spelling(program: Program, position: int, calls: Mapping[int, str]) -> Spelled:
    """Template, level and operand levels of one node on NumPy scalars; `calls` are the names of opaque functions."""
    node = program.nodes[position]
    op, own = OPS[node.op], f"np.{dtype_text(node.dtype)}"
    if node.op == "call":
        return Spelled(f"{own}({calls[id(node.params)]}({', '.join(f'{{{k}}}' for k in range(len(node.operands)))}))")
    if node.shape and node.op in ("select", "cast"):
        return Spelled("np.where({0}, {1}, {2})") if node.op == "select" else Spelled(f"{{0}}.astype({own})", ATOM, (ATOM,))
    if node.shape and node.op == "pow":
        return Spelled("{0}**{1}", SIGN, (ATOM, ATOM))
    operands = [program.nodes[o] for o in printed_operands(program, position)]
    places, alone = list(PLACES[: op.arity]), all(o.op == "const" for o in operands)
    if alone:  # single precision is that of the numbers, where nothing else tells it
        kinds = [dtype_text("F" if isinstance(o.params, complex) else "f") if o.dtype in ("f", "F") else "" for o in operands]
        places = [f"np.{k}({p})" if k else p for k, p in zip(kinds, places, strict=True)]
    if (node.op in _SIGNED and not alone) or node.op in _COMPARED or node.op == "select":
        around = f"{own}({{}})" if node.op == "select" else ""
        return Spelled(op.python or "", *parenthesis_levels(node.op, op.arity, op.python or ""), around)
    if node.op == "cast":
        return Spelled(f"{own}({{0}})")
    if node.op in ("real", "imag"):
        return Spelled(f"{{0}}.{node.op}", ATOM, (ATOM,))
    if not node.shape and not op.takes_out and op.item is None:
        return Spelled(f"{own}({op.spelled(*places)})")  # a Python function gives a 0-d array
    return Spelled(op.spelled(*places))


def joining_checks(program: Program) -> set[int]:
    """The operations that only join the conditions of checks."""
    uses = uses_of(program)
    found = set()
    stack = [check for check in program.checks if not uses[check]]
    while stack:
        position = stack.pop()
        node = program.nodes[position]
        if node.op in ("and", "or", "not"):
            found.add(position)
            stack += [o for o in node.operands if uses[o] == 1]
    return found


def emit_in_place(program: Program, position: int, operands: list[str], target: str, calls: Mapping[int, str]) -> str:
    """One node as a NumPy statement that writes into a given array; `calls` are the names of opaque functions."""
    node = program.nodes[position]
    nodes = [program.nodes[o] for o in node.operands]
    if node.op == "add" and printed_operands(program, position) != node.operands:
        operands, nodes = operands[::-1], nodes[::-1]
    if any(o.dtype in ("f", "F") for o in nodes):  # beside which NumPy takes Python's numbers as single ones
        operands = [f"np.{dtype_text(o.dtype)}({text})" if o.op == "const" and o.shape == () and o.dtype in ("d", "D") else text
                    for o, text in zip(nodes, operands, strict=True)]  # fmt: skip
    listed = ", ".join(operands)
    if node.op == "call":
        points = f"zip(*np.broadcast_arrays({listed}), strict=True)"
        return f"{target}[...] = [{calls[id(node.params)]}(*p) for p in {points}]"
    if node.op == "select":
        condition, yes, no = operands
        return f"np.copyto({target}, {no}); np.copyto({target}, {yes}, where={condition})"
    if node.op == "cast":
        return f"np.copyto({target}, {operands[0]}, casting='same_kind')"
    if node.op in ("real", "imag"):
        return f"np.copyto({target}, np.{node.op}({operands[0]}))"
    op = OPS[node.op]
    if not op.takes_out:
        return f"np.copyto({target}, {op.spelled(*operands)})"
    return op.spelled(*operands, f"out={target}")
