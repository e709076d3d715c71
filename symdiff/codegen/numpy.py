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

PLACES = ("{0}", "{1}", "{2}", "{3}")
_OF_ARRAYS = {"select": "np.where({0}, {1}, {2})", "cast": "{0}.astype(np.{kind})"}
_WRAPPED = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}


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
    op = OPS[node.op]
    kind = dtype_text(node.dtype)
    if node.op == "call":
        listed = ", ".join(f"{{{k}}}" for k in range(len(node.operands)))
        return f"np.{kind}({calls[id(node.params)]}({listed}))", ATOM, (0,) * len(node.operands)
    if node.shape and node.op in _OF_ARRAYS:
        return _OF_ARRAYS[node.op].format(*PLACES, kind=kind), ATOM, (ATOM,) if node.op == "cast" else (0, 0, 0)
    if node.shape and node.op == "pow":
        return "{0}**{1}", SIGN, (ATOM, ATOM)
    operands = [program.nodes[o] for o in printed_operands(program, position)]
    places, alone = list(PLACES[: op.arity]), all(o.op == "const" for o in operands)
    if alone:  # single precision is that of the numbers, where nothing else tells it
        kinds = [dtype_text("F" if isinstance(o.params, complex) else "f") if o.dtype in ("f", "F") else "" for o in operands]
        places = [f"np.{k}({p})" if k else p for k, p in zip(kinds, places, strict=True)]
    if node.op in ("add", "sub", "mul", "div", "neg"):
        if alone:
            return op.spelled(*places), ATOM, (0,) * op.arity
        level, needed = parenthesis_levels(node.op, op.arity)
        return op.python or "", level, needed
    if node.op in _WRAPPED:
        return f"({{0}} {_WRAPPED[node.op]} {{1}})", ATOM, (ATOM, ATOM)
    if node.op == "select":
        return f"np.{kind}({{1}} if {{0}} else {{2}})", ATOM, (0, ATOM, 0)
    if node.op == "cast":
        return f"np.{kind}({{0}})", ATOM, (0,)
    if node.op in ("real", "imag"):
        return f"{{0}}.{node.op}", ATOM, (ATOM,)
    if not node.shape and not op.takes_out and op.item is None:
        return f"np.{kind}({op.spelled(*places)})", ATOM, (0,) * op.arity  # a Python function gives a 0-d array
    return op.spelled(*places), ATOM, (0,) * op.arity


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
