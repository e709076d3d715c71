"""Complex values that functions with branch cuts take: computed as NumPy does, so that zeros keep the signs that tell the side.

Assumes a Program. Guarantees that sums, products and quotients of the value part on the way to such a function are of two
complex numbers each, as NumPy makes them of a complex and a real one: (-1.5-0j)/1.3 lies above the cut, where the quotients of
the parts lie below it. Other values keep their real operands, which cost half as much.
"""

from dataclasses import replace

from symdiff.lowering.program import Instr, Program, live_only

CUTS = frozenset("log log2 log10 log1p sqrt pow asin acos atan asinh acosh atanh atan2 copysign".split())
_ARITHMETIC = frozenset({"add", "sub", "mul", "div"})
_PASSING = _ARITHMETIC | {"neg", "conj", "select", "cast", "imag"}


def before_cuts(program: Program) -> set[int]:
    """The positions of the complex values of the value part that reach functions with branch cuts by arithmetic alone."""
    instrs = program.instrs
    found: set[int] = set()
    for position in range(len(instrs) - 1, -1, -1):
        instr = instrs[position]
        if instr.primal and (instr.op in CUTS or (position in found and instr.op in _PASSING)):
            found.update(o for o in instr.operands if instrs[o].dtype in "FD" or instrs[o].op == "imag")
    return {p for p in found if instrs[p].primal and instrs[p].op in _PASSING}


def promoted(program: Program) -> Program:
    """The Program with the real operands of such values made complex."""
    strict = before_cuts(program)
    if not any(_is_mixed(program, p) for p in strict):
        return program
    instrs: list[Instr] = []
    origins: list[str] = []
    place: list[int] = []
    casts: dict[tuple[int, str], int] = {}

    def put(instr: Instr, origin: str) -> int:
        instrs.append(instr)
        origins.append(origin)
        return len(instrs) - 1

    def complex_of(operand: int, code: str, origin: str) -> int:
        own = program.instrs[operand]
        if own.dtype in "FD":
            return place[operand]
        if (operand, code) not in casts:
            number = Instr("const", (), code, complex(own.payload)) if own.op == "const" else None
            casts[operand, code] = put(number or Instr("cast", (place[operand],), code, None, True), origin)
        return casts[operand, code]

    for position, instr in enumerate(program.instrs):
        origin = program.origins[position] if program.origins else ""
        operands = tuple(place[o] for o in instr.operands)
        if position in strict and _is_mixed(program, position):
            operands = tuple(complex_of(o, instr.dtype, origin) for o in instr.operands)
        place.append(put(instr._replace(operands=operands), origin))
    outputs = tuple(replace(o, cells=tuple(place[c] for c in o.cells)) for o in program.outputs)
    return live_only(replace(program, instrs=instrs, origins=origins if program.origins else [], outputs=outputs))


def _is_mixed(program: Program, position: int) -> bool:
    instr = program.instrs[position]
    return instr.op in _ARITHMETIC and instr.dtype in "FD" and any(program.instrs[o].dtype in "fd" for o in instr.operands)
