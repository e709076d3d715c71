"""Which operations have a trait: the column `traits` of their rows, for numbers and for whole arrays, read the other way.

Assumes the rows. Guarantees that all that rooms ask of an operation by its name stands in its row, in words that are told here.
Refuses words without a meaning or without a row, with `InvariantError`.
"""

from symdiff.errors import InvariantError
from symdiff.vocabulary.heads import HEADS
from symdiff.vocabulary.ops import OPS

TRAITS = {
    # what it is
    "arithmetic": "one of the four operations of arithmetic",
    "polynomial": "of a quotient of polynomials, with constant powers",
    "compares": "gives the truth of an order or of equality",
    "logic": "joins truths",
    "linear": "linear in its operands together, over the real numbers",
    "termwise": "each term of a sum may be taken by itself",
    "bilinear": "linear in each of two operands",
    "scales": "multiplies by what does not depend on one operand",
    "mixes": "not holomorphic: depends on the conjugate",
    "real_valued": "real for real and complex operands",
    "widened": "real numbers and arrays of several dtypes take the common one",
    "any_dtype": "its operands do not tell its dtype",
    # its values
    "flat": "has the derivative zero wherever it has one",
    "steps": "has whole values, and jumps from one to the next",
    "jumps": "has jumps beside those of its rule",
    "pole": "infinite where an operand is a certain number",
    "cut": "has a branch cut in the complex plane",
    "before_cut": "hands on to a branch cut on which side a zero lies",
    "root": "a root or an absolute value of a sum of powers",
    "exponential": "infinite for large finite operands",
    "reciprocal": "its value of -x is the reciprocal of that of x",
    "grows": "grows by a power of its operands at most",
    "keeps_growth": "grows as its fastest operand does",
    "analytic": "analytic within its domain",
    "chooses": "is one of some analytic values, whichever is the largest or the least",
    "thin": "takes a value on a set without inside where its operand does",
    "asks": "a condition that follows from those of its operands",
    "keeps_zero": "hands the sign of a zero on",
    "loses_zero": "nothing of the sign of a zero is left",
    "positive": "never a minus zero",
    "whole": "gives integers for integers",
    # what becomes of it
    "folded": "of constants it is worked out with digits to spare",
    "in_forms": "stands in the forms that are rewritten",
    "cheap": "takes no longer than loading a number",
    "slow": "takes many instructions of machine code",
    "libm": "C's library has it for real numbers",
    "complex_libm": "C's library has it for complex numbers",
    "numpy_vectors": "NumPy has vectors of it",
    "raises": "Python raises where IEEE arithmetic has a value",
    "raises_complex": "Python's `cmath` raises where IEEE arithmetic has a value",
    "not_in_place": "NumPy reads its operands after it has begun to write",
    # whole arrays
    "of_axes": "works along axes, by its parameter `axes`",
    "of_axis": "works along an axis, by its parameter `axis`",
    "of_last_axes": "works on the last axes",
    "lower": "its matrices are lower triangular",
    "upper": "its matrices are upper triangular",
    "decomposes": "of a matrix's eigenvalues or singular values, or of the vectors that belong to these",
    "spectral": "has the vectors of its first operand's decomposition, and the values that are its second operand",
    "reduces": "its result is made of those cells that count",
    "cellwise": "in a series each coefficient takes its cells by the value's places",
    "picks": "its cells are some of its operand's",
    "rearranges": "its cells are its operand's, in another shape or order",
    "gathers": "its cells are its operand's at places that are operands",
    "overwrites": "its first operand's cells, some of which are replaced",
    "takes_places": "its second operand tells places",
    "tells_places": "its cells are places, which jump",
    "masked": "hands on which cells of a cotangent are zero",
    "moves_constants": "of a constant array it is one",
    "integral": "of arrays of integers it is one",
    "moves_truths": "moves truths as well as numbers",
    "written_out": "of few cells it is written as that many moves",
    "fills": "fills an array that is given to it",
}
_HAVING: dict[str, set[str]] = {trait: set() for trait in TRAITS}
_TRAITS = {name: row.traits for name, row in OPS.items()} | {name: row.traits for name, row in HEADS.items()}
for _name, _own in _TRAITS.items():
    for _trait in _own.split():
        if _trait not in TRAITS:
            raise InvariantError(f"{_name}: the trait {_trait!r} has no meaning; one of {', '.join(TRAITS)}")
        _HAVING[_trait].add(_name)
CONDITIONS = frozenset(name for name, row in OPS.items() if row.result == "bool")


def operations(*traits: str) -> frozenset[str]:
    """The names of the operations that have one of the traits.

    >>> sorted(operations("bilinear"))
    ['convolve', 'convolve_inside', 'matmul', 'mul']
    """
    return frozenset().union(*(_HAVING[trait] for trait in traits))
