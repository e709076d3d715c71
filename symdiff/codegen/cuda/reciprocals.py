"""Divisions by a number whose reciprocal is there already, as products with it, for CUDA.

A division of doubles takes a GPU about twenty instructions, a product one: logistic value and derivative take 80 instructions
a point instead of 140. Assumes a Program of point values. Guarantees the same values within rounding: only divisions by
numbers that are known to be at least `LEAST` change, so that no reciprocal overflows.
"""

import math

from symdiff.lowering.program import Instr, Output, Program, live_only

LEAST = 1e-300  # single precision stays: CuPy's kernels take its subnormal numbers, and so small reciprocals, as zero


def with_reciprocals(program: Program) -> Program:
    """The Program with fewer divisions; a reciprocal comes before the first product with it."""
    instrs, bounds = program.instrs, _lower_bounds(program.instrs)
    reciprocals: dict[int, int] = {}
    for position, instr in enumerate(instrs):
        if _is_reciprocal(instrs, instr) and bounds[instr.operands[1]] >= LEAST:
            reciprocals[instr.operands[1]] = position
    if not reciprocals:
        return program
    order: dict[int, int] = {}  # from old positions to new ones
    made: list[Instr] = []
    for position, instr in enumerate(instrs):
        reciprocal = reciprocals.get(instr.operands[1], position) if instr.op == "div" and instr.dtype == "d" else position
        needed = [position] if reciprocal == position else [instrs[reciprocal].operands[0], reciprocal, position]
        for place in needed:
            if place in order:
                continue
            op, operands = instrs[place].op, instrs[place].operands
            if place == position != reciprocal:
                op, operands = "mul", (operands[0], reciprocal)
            order[place] = len(made)
            made.append(instrs[place]._replace(op=op, operands=tuple(order[o] for o in operands)))
    origins = [program.origins[place] for place in order] if program.origins else []
    outputs = tuple(Output(o.name, o.shape, o.dtype, tuple(order[c] for c in o.cells)) for o in program.outputs)
    return live_only(Program(program.name, program.inputs, outputs, made, origins, program.operations_before))


def _is_reciprocal(instrs: list[Instr], instr: Instr) -> bool:
    if instr.op != "div" or instr.dtype != "d":
        return False
    one = instrs[instr.operands[0]]
    return one.op == "const" and one.dtype == "d" and one.payload == 1


def _lower_bounds(instrs: list[Instr]) -> list[float]:
    """Numbers that the real values are never below, NaN aside; -inf where nothing is known."""
    bounds: list[float] = []
    for instr in instrs:
        own = [bounds[o] for o in instr.operands]
        bound = -math.inf
        if instr.op == "const" and isinstance(instr.payload, float | int):
            bound = float(instr.payload)
        elif instr.op in ("exp", "exp2", "abs", "sqrt", "hypot") or (instr.op == "mul" and len(set(instr.operands)) == 1):
            bound = 0.0
        elif instr.op == "cosh":
            bound = 1.0
        elif instr.op == "add":
            bound = own[0] + own[1]
        elif instr.op == "mul" and min(own) >= 0:
            bound = own[0] * own[1]
        elif instr.op == "max":
            bound = max(own)
        elif instr.op == "min":
            bound = min(own)
        elif instr.op == "select":
            bound = min(own[1:])
        bounds.append(bound if instr.dtype in "fd" and not math.isnan(bound) else -math.inf)
    return bounds
