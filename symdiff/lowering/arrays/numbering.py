"""Graph to ArrayProgram: value numbering of operations on whole arrays, and sums of regions gathered into one array.

Assumes the array regime. Guarantees that equal operations on equal operands become one step, that constants keep their
bits, and that zeros around a region are not made only to be added. The door between the wings, as `numbering` is for
scalars.
"""

from typing import Any

import numpy as np

from symdiff.ir.building import dtype_code
from symdiff.ir.graph import Graph
from symdiff.ir.node import ArrayConstant, Atom, Constant
from symdiff.lowering.arrays.program import ASSEMBLE, ArrayOutput, ArrayProgram, Step, live_steps
from symdiff.lowering.program import Input, constant_key
from symdiff.vocabulary.ops import OPS, check_cast, real_counterpart


def number_arrays(graph: Graph, name: str | None = None) -> ArrayProgram:
    """The ArrayProgram of a Graph of whole arrays."""
    table = _Table()
    values: dict[Atom, int] = {}
    inputs = tuple(Input(leaf.name, leaf.node.shape, leaf.node.dtype) for leaf in graph.inputs)
    for place, leaf in enumerate(graph.inputs):
        values[leaf.node] = table.put(Step("input", (), leaf.node.shape, leaf.node.dtype, place, True), graph.origin)

    def value_of(atom: Atom, code: str) -> int:
        found = values.get(atom)
        if found is not None:
            return found
        if isinstance(atom, ArrayConstant):
            value = atom.value.astype(dtype_code(atom.value.dtype), copy=False)  # integers count as float64
            return table.put(Step("const", (), atom.shape, value.dtype.char, value, True), "")
        assert isinstance(atom, Constant)
        return table.number(atom.value, code)

    for binding in graph.bindings:
        op, code, shape = binding.op, binding.dtype, binding.shape
        around = code
        if op in OPS and (OPS[op].result in ("bool", "real") or op == "select"):
            typed = [dtype_code(np.dtype(o.dtype)) for o in binding.operands if o.dtype is not None]
            around = code if op == "select" or not typed else typed[0]
        operands = tuple(
            value_of(o, "?" if op == "select" and i == 0 and isinstance(o, Constant) else around)
            for i, o in enumerate(binding.operands)
        )
        params: Any = None
        if op == "call":
            params = binding.params.function
        elif op == "item":
            source = binding.operands[0]
            at = tuple((int(i), int(i) + 1, 1) for i in np.unravel_index(binding.params, source.shape))
            cell = table.put(Step("getitem", operands, (1,) * len(source.shape), code, {"key": at}, True), binding.origin)
            op, operands, params = "reshape", (cell,), {"shape": ()}
        elif op == "array":
            op, params = "cells", {"shape": shape}
        elif op not in OPS:
            params = binding.params.params
        if op == "edge":
            values[binding] = table.number(0.0, code)
            continue
        if op == "cast" and table.steps[operands[0]].dtype == code:
            values[binding] = operands[0]
            continue
        if op == "select" and table.steps[operands[0]].op == "not":
            operands = (table.steps[operands[0]].operands[0], operands[2], operands[1])
        if op in OPS and OPS[op].commutes and operands[0] > operands[1]:
            operands = (operands[1], operands[0])
        values[binding] = table.put(Step(op, operands, shape, code, params, binding.primal), binding.origin)

    outputs = []
    for output in graph.outputs:
        value = value_of(output.atom, output.dtype)
        step = table.steps[value]
        if step.dtype != output.dtype:
            check_cast(step.dtype, output.dtype)
            value = table.put(Step("cast", (value,), step.shape, output.dtype, None, step.primal), "")
        outputs.append(ArrayOutput(output.name, output.shape, output.dtype, value))
    program = live_steps(ArrayProgram(name or graph.name, inputs, tuple(outputs), table.steps, table.origins))
    return live_steps(gathered(program))


class _Table:
    """Steps so far, found again by operation, operands and parameters."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.origins: list[str] = []
        self._seen: dict[tuple[Any, ...], int] = {}

    def put(self, step: Step, origin: str) -> int:
        key = (step.op, step.operands, step.shape, step.dtype, _key(step))
        found = self._seen.get(key)
        if found is None:
            found = self._seen[key] = len(self.steps)
            self.steps.append(step)
            self.origins.append(origin)
        return found

    def number(self, value: bool | int | float | complex, code: str) -> int:
        if code in "FD" and not isinstance(value, complex):
            code = real_counterpart(code)
        if code not in "?FD":
            value = float(value)  # type: ignore[arg-type]
        return self.put(Step("const", (), (), code, value, True), "")


def _key(step: Step) -> Any:
    params = step.params
    if step.op == "const":
        return (params.shape, params.tobytes()) if isinstance(params, np.ndarray) else constant_key(params)
    if isinstance(params, dict):
        return tuple((k, v.tobytes() if isinstance(v, np.ndarray) else v) for k, v in params.items())
    return params


def gathered(program: ArrayProgram) -> ArrayProgram:
    """Sums of `put` steps that nothing else uses, as one `assemble` step: parts are added in their regions of one array."""
    steps = program.steps
    uses = [0] * len(steps)
    for step in steps:
        for operand in step.operands:
            uses[operand] += 1
    for output in program.outputs:
        uses[output.value] += 1
    parts: dict[int, list[tuple[int, Any]]] = {}
    made: list[Step] = []
    for position, step in enumerate(steps):
        if step.op == "put" and step.dtype != "?":
            parts[position] = [(step.operands[0], step.params["key"])]
        elif step.op == "add" and all(steps[o].shape == step.shape and steps[o].dtype == step.dtype for o in step.operands):
            found: list[tuple[int, Any]] = []
            for operand in step.operands:
                if operand in parts and uses[operand] == 1:
                    found += parts[operand]
                else:
                    found.append((operand, tuple((0, n, 1) for n in step.shape)))
            if any(o in parts and uses[o] == 1 for o in step.operands):
                parts[position] = found
        made.append(step)
        if position in parts:
            listed = parts[position]
            made[-1] = Step(
                ASSEMBLE,
                tuple(v for v, _ in listed),
                step.shape,
                step.dtype,
                {"keys": tuple(k for _, k in listed)},
                step.primal,
            )
    return ArrayProgram(program.name, program.inputs, program.outputs, made, program.origins)
