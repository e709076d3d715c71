"""Graph to Program: value numbering, exact constant folding, dead code. The only stage that knows both wings.

Assumes the unrolled regime. Guarantees that equal operations on equal operands become one instruction, with commuting
operands in one order, and that only exactly rounded operations on constants are folded. Refuses, with `InvariantError`,
array operations that were not unrolled.
"""

import math
import operator
from collections.abc import Callable
from typing import Any

from symdiff.errors import InvariantError
from symdiff.ir.graph import Graph
from symdiff.ir.node import Atom, Constant
from symdiff.ir.zeros import signed_zeros
from symdiff.lowering.cuts import CUTS
from symdiff.lowering.program import Input, Instr, Output, Program, constant_key, live_only
from symdiff.vocabulary.ops import OPS, check_cast, real_counterpart

# Exactly rounded in IEEE 754, for real operands.
_FOLDED: dict[str, Callable[..., float]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "neg": operator.neg,
}


def number(graph: Graph, *, fold: bool = True, name: str | None = None) -> Program:
    """The Program of a scalar Graph. `fold` folds constants (not done with `exact=True`)."""
    inputs = tuple(Input(leaf.name, leaf.node.shape, leaf.node.dtype) for leaf in graph.inputs)
    table = _Table(fold, any(binding.op in CUTS for binding in graph.bindings))
    values: dict[Atom, int] = {}
    arrays: dict[Atom, tuple[Atom, ...]] = {}
    place = {leaf.node: i for i, leaf in enumerate(graph.inputs)}
    for leaf in graph.inputs:
        if leaf.node.shape == ():
            values[leaf.node] = table.put(Instr("input", (), leaf.node.dtype, (place[leaf.node], 0), True), graph.origin)

    def value_of(atom: Atom, code: str) -> int:
        found = values.get(atom)
        if found is None:
            assert isinstance(atom, Constant)
            found = table.constant(atom.value, code)
        return found

    signed = signed_zeros(graph.bindings)
    for binding in graph.bindings:
        op = binding.op
        if op == "array":
            arrays[binding] = binding.operands
            continue
        if op == "item":
            leaf = binding.operands[0]
            if leaf not in place:
                raise InvariantError(f"{binding}: item of an array that is not an input")
            payload = (place[leaf], binding.params)
            values[binding] = table.put(Instr("input", (), binding.dtype, payload, True), binding.origin)
            continue
        if op not in OPS:
            raise InvariantError(f"{binding}: not unrolled")
        row = OPS[op]
        code = binding.dtype
        around = _operand_code(binding.operands, code, row.result)
        operands = [value_of(o, "?" if op == "select" and i == 0 else around) for i, o in enumerate(binding.operands)]
        if op == "call":
            function = binding.params.function
            values[binding] = table.put(Instr(op, tuple(operands), code, function, binding.primal), binding.origin)
            continue
        values[binding] = table.apply(op, operands, code, binding.primal, binding.origin, binding in signed)

    outputs = []
    for output in graph.outputs:
        cells = arrays.get(output.atom, (output.atom,))
        numbers = tuple(table.as_dtype(value_of(c, output.dtype), output.dtype) for c in cells)
        outputs.append(Output(output.name, output.shape, output.dtype, numbers))
    program = Program(name or graph.name, inputs, tuple(outputs), table.instrs, table.origins)
    return live_only(program)


def _operand_code(operands: tuple[Atom, ...], code: str, result: str) -> str:
    """The dtype that weak constants among the operands take."""
    if result not in ("bool", "real"):
        return code
    codes = [o.dtype for o in operands if not isinstance(o, Constant)]
    if not codes:
        return "D" if any(isinstance(o.params, complex) for o in operands) else "d"
    return str(codes[0])


def _real(number: Any) -> float:
    return number.real if isinstance(number, complex) else float(number)


class _Table:
    """Instructions so far, found again by operation and operands."""

    def __init__(self, fold: bool, cuts: bool) -> None:
        self.fold = fold
        self.cuts = cuts  # a function has branch cuts, beside which z + 0 and z*1 are not z where -0.0 is a part of it
        self.instrs: list[Instr] = []
        self.origins: list[str] = []
        self._seen: dict[tuple[object, ...], int] = {}

    def put(self, instr: Instr, origin: str) -> int:
        payload = constant_key(instr.payload) if instr.op == "const" else instr.payload
        key = (instr.op, instr.operands, instr.dtype, payload)
        found = self._seen.get(key)
        if found is None:
            found = self._seen[key] = len(self.instrs)
            self.instrs.append(instr)
            self.origins.append(origin)
        elif instr.primal and not self.instrs[found].primal:
            self.instrs[found] = self.instrs[found]._replace(primal=True)
        return found

    def constant(self, value: bool | int | float | complex, code: str) -> int:
        if code in "FD":
            if not isinstance(value, complex):
                code = real_counterpart(code)
                value = float(value)
        elif code != "?":
            value = float(value)  # type: ignore[arg-type]
        return self.put(Instr("const", (), code, value), "")

    def as_dtype(self, value: int, code: str) -> int:
        """A value as an output of this dtype: constants are restated, others cast."""
        instr = self.instrs[value]
        if instr.dtype == code:
            return value
        if instr.op == "const":
            number = instr.payload
            return self.put(Instr("const", (), code, complex(number) if code in "FD" else number), "")
        check_cast(instr.dtype, code)
        return self.put(Instr("cast", (value,), code, None, instr.primal), self.origins[value])

    def apply(self, op: str, operands: list[int], code: str, primal: bool, origin: str, signed: bool = False) -> int:
        instrs = self.instrs
        if op == "edge":
            return self.constant(0.0, code)
        if op == "cast" and instrs[operands[0]].dtype == code:
            return operands[0]
        if op in ("add", "sub", "mul", "div", "pow", "atan2", "hypot", "max", "min", "fmax", "fmin"):
            operands = [self._widened(o, code) for o in operands]
        if self.fold and op in _FOLDED:
            if code == "d" and all(instrs[o].op == "const" for o in operands):
                folded = self._folded(op, operands)
                if folded is not None:
                    return self.constant(folded, code)
            same = None if primal and code in "FD" and self.cuts else self._neutral(op, operands, signed)
            if same is not None:
                return same
        if op == "select" and instrs[operands[0]].op == "not":
            operands = [instrs[operands[0]].operands[0], operands[2], operands[1]]
        if self.fold and op == "abs" and (power := self._real_power(operands[0])) is not None:
            return self.apply("exp", [self.apply("mul", power, code, primal, origin)], code, primal, origin)
        if OPS[op].commutes and operands[0] > operands[1]:
            operands.reverse()
        return self.put(Instr(op, tuple(operands), code, None, primal), origin)

    def _widened(self, value: int, code: str) -> int:
        """A float32 value in a float64 operation, restated as float64; real operands of complex ones stay real."""
        own = self.instrs[value].dtype
        wide = code if own in "FD" else real_counterpart(code)
        return value if own in (wide, "?") or (own in "fd" and own == wide) else self.as_dtype(value, wide)

    def _neutral(self, op: str, operands: list[int], signed: bool) -> int | None:
        """The other operand where one is a constant that leaves it as it is: x + 0, x - 0, x*1, x/1.

        -0.0 + 0.0 is 0.0: where the sign of a zero is `signed`, only the zero that leaves this as it is counts.
        """
        neutral = 0.0 if op in ("add", "sub") else 1.0
        for kept, dropped in ((0, -1), (-1, 0)) if OPS[op].commutes else ((0, -1),):
            constant = self.instrs[operands[dropped]]
            other = self.instrs[operands[kept]]
            if op != "neg" and constant.op == "const" and constant.payload == neutral and other.op != "const":
                if signed and op in ("add", "sub") and (math.copysign(1, _real(constant.payload)) > 0) == (op == "add"):
                    return None
                return operands[kept] if constant.dtype not in "FD" or other.dtype in "FD" else None
        return None

    def _real_power(self, value: int) -> list[int] | None:
        """Re(c) and t where a value is exp(c*t) with a complex constant and a real t: |exp(c*t)| is exp(Re(c)*t).

        That holds for infinite t, too, which cannot be said of exp(w) for any w.
        """
        power = self.instrs[value]
        product = self.instrs[power.operands[0]] if power.op == "exp" and power.dtype in "FD" else None
        if product is None or product.op != "mul":
            return None
        for c, t in (product.operands, product.operands[::-1]):
            constant = self.instrs[c]
            if constant.op == "const" and isinstance(constant.payload, complex) and self.instrs[t].dtype in "fd":
                return [self.constant(constant.payload.real, self.instrs[t].dtype), t]
        return None

    def _folded(self, op: str, operands: list[int]) -> float | None:
        numbers = [self.instrs[o].payload for o in operands]
        if not all(isinstance(n, float) for n in numbers):
            return None
        try:
            result = _FOLDED[op](*numbers)
        except ZeroDivisionError:
            return None
        return result if math.isfinite(result) else None
