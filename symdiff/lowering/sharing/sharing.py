"""Program to Program with the fewest operations: powers, common factors, reciprocals, constants and signs.

Assumes a Program that passes `check_program`. Guarantees the same values up to rounding, by the semantics of the value
(sums of the value part keep their order and their parentheses); the cheapest of the competing forms wins. Refuses
nothing; above `MAX_TRIED` nodes only the one that wins most often is tried.
"""

from dataclasses import replace

from symdiff.ir.node import Node
from symdiff.lowering.cuts import before_cuts, promote_program
from symdiff.lowering.program import Program
from symdiff.lowering.sharing.exponentials import with_reciprocals
from symdiff.lowering.sharing.factoring import Factoring, Fresh, Terms, take_out_constants
from symdiff.lowering.sharing.monomials import Atom, Polynomial, Sum, collect_monomials, program_polynomial
from symdiff.lowering.sharing.powers import Lowering, common_divisors, needed_forms
from symdiff.lowering.sharing.signs import Signs, dissolve_single_terms, monomial_order
from symdiff.lowering.table import Table
from symdiff.lowering.walks import live_only, program_cone
from symdiff.vocabulary.ops import join_dtype_codes

MAX_TRIED = 5_000


def share(program: Program, *, fastmath: bool = False, checks: int = 0) -> Program:
    """The cheapest of: numbered only, products shared, sums factored as well, divisors shared as reciprocals as well.

    The first `checks` outputs are computed as they stand, but for powers, and before the others.
    """
    fitting = promote_program(program)
    before = fitting.operations()
    fitting = with_reciprocals(fitting, program_cone(fitting, tuple(o.cells[0] for o in fitting.outputs[:checks])))
    as_it_is = fitting is program and not any(node.op == "pow" for node in program.nodes)
    plain = program if as_it_is else expand_powers(fitting)
    program = plain if checks else fitting
    fixed = program_cone(program, tuple(o.cells[0] for o in program.outputs[:checks])) | before_cuts(program)
    tried = len(program.nodes) <= MAX_TRIED
    poly = program_polynomial(program, fastmath, fixed)
    written = ((i, a.sum) for i, a in enumerate(poly.atoms) if a.sum is not None)
    sums = {i: total.terms if total.primal else collect_monomials(total.terms) for i, total in written}
    order = monomial_order(poly, sums)
    sums = {i: sums[i] for i in order if i in sums}
    before_factoring = poly.copied()
    factored = _factored(poly, sums, order)
    candidates = [plain]
    if tried and factored != sums:
        candidates += _lowered(before_factoring, sums, order, False)
    candidates += _lowered(poly, factored, monomial_order(poly, factored), tried)
    return replace(min(candidates, key=Program.operations), operations_before=before)


class _NewSums(Fresh):
    def __init__(self, poly: Polynomial) -> None:
        self.poly = poly

    def __call__(self, terms: Terms, like: list[int]) -> int:
        atoms = self.poly.atoms
        code = atoms[like[0]].dtype
        for other in like:
            code = join_dtype_codes(code, atoms[other].dtype)
        primal = any(s.primal for s in (atoms[a].sum for a in like) if s is not None)
        origin = atoms[like[0]].origin
        atoms.append(Atom(sum=Sum([], code, primal, origin), dtype=code, origin=origin))
        return len(atoms) - 1


def _factored(poly: Polynomial, sums: dict[int, Terms], order: list[int]) -> dict[int, Terms]:
    """The sums, those with new ones in them from which common factors are taken out."""
    fresh = _NewSums(poly)
    real = {i: t for i, t in sums.items() if not _repeats(t)}
    others = {i: t for i, t in sums.items() if i not in real}
    Factoring(real, fresh).run()
    take_out_constants(real, _products(poly, order), fresh)
    Factoring(real, fresh).run()
    return real | others


def _lowered(poly: Polynomial, sums: dict[int, Terms], order: list[int], reciprocals: bool) -> list[Program]:
    """The program of sums of products and, if wanted, once more where divisors can be shared as reciprocals."""
    dissolve_single_terms(poly, sums, order)
    order = monomial_order(poly, sums)
    Signs(poly, sums, order).settle()
    found = [Lowering(poly, sums).lower(order)]
    divisors = common_divisors(poly, needed_forms(poly, sums, order)) if reciprocals else frozenset()
    return [*found, Lowering(poly, sums, divisors).lower(order)] if divisors else found


def _products(poly: Polynomial, live: list[int]) -> Terms:
    """The forms outside sums: outputs, operands of functions, products that are atoms."""
    found = [poly.forms[c] for c in sorted(set(poly.cells))]
    for i in sorted(live):
        entry = poly.atoms[i]
        found += [entry.product] if entry.product is not None else entry.operands
    return found


def _repeats(terms: Terms) -> bool:
    """Whether a monomial occurs twice (a value part whose like terms must stay apart)."""
    return len({m for _, m in terms}) < len(terms)


def expand_powers(program: Program) -> Program:
    """The Program with integer powers as multiplications that share their squares, numbered anew."""
    table = Table()
    place: list[int] = []
    for node in program.nodes:
        operands = tuple([place[o] for o in node.operands])
        exponent = program.nodes[node.operands[1]] if node.op == "pow" else None
        if exponent is not None and (n := integer_power(program.nodes, node)) is not None:
            place.append(_power(table, operands[0], n, node))
        elif exponent is not None and exponent.op == "const" and exponent.params == 0.5 and node.dtype in "fd":
            place.append(table.put("sqrt", operands[:1], node.dtype, None, node.origin, node.primal))
        else:
            place.append(table.put(node.op, operands, node.dtype, node.params, node.origin, node.primal))
    return live_only(program.over(table.nodes, place))


def integer_power(nodes: list[Node], node: Node) -> int | None:
    """The exponent of a power that is a product of factors of its own dtype, or divided by one; None for others."""
    n = nodes[node.operands[1]].params if nodes[node.operands[1]].op == "const" else None
    if not (isinstance(n, float) and n.is_integer() and abs(n) <= 1024):
        return None
    return int(n) if nodes[node.operands[0]].dtype == node.dtype else None


def _power(table: Table, base: int, n: int, node: Node) -> int:
    code = node.dtype

    def times(a: int, b: int) -> int:
        return table.put("mul", (a, b), code, None, node.origin, node.primal)

    if n == 0:
        return table.put("const", (), code, 1j * 0 + 1 if code in "FD" else 1.0, node.origin)
    result: int | None = None
    square, rest = base, abs(n)
    while rest:
        if rest % 2:
            result = square if result is None else times(square, result)
        rest //= 2
        if rest:
            square = times(square, square)
    assert result is not None
    if n > 0:
        return result
    unit = table.put("const", (), "d" if code in "dD" else "f", 1.0, node.origin)
    return table.put("div", (unit, result), code, None, node.origin, node.primal)
