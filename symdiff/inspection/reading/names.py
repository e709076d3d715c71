"""The user's names as a person writes them: `alpha2` with its index below, `x_dot` with a dot, words upright.

Assumes names as graphs have them: identifiers, attributes after dots, cells in brackets (`W[1, 0]`). Guarantees that text from
outside stays text: what LaTeX or a page reads as its own is escaped.
"""

import re
import unicodedata
from functools import lru_cache
from typing import NamedTuple

from symdiff.vocabulary.literals import printable

_NAMES = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon phi chi psi omega"
_CAPITALS = "Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega"  # that are none of Latin's
GREEK = {
    name: unicodedata.lookup(f"Greek {case} letter {name.lower().replace('lambda', 'lamda')}")
    for case, names in (("small", _NAMES), ("capital", _CAPITALS))
    for name in names.split()
}
_LETTERS = {letter: name for name, letter in GREEK.items()} | dict.fromkeys(("lam", "lamda", "lambd"), "lambda")
ACCENTS = {"dot": "\u0307", "ddot": "\u0308", "bar": "\u0304", "hat": "\u0302", "tilde": "\u0303"}
_CELL = re.compile(r"(.+?)\[([^\[\]]*)\]", re.DOTALL)
_DIGITS = re.compile(r"([^\W\d_]+|[^\W_]*[^\W\d_])(\d+)")
_WORD = re.compile(r"\w+(\.\w+)*")
# What LaTeX, or the page around it, reads as its own.
SPELLED = {c: rf"\{c}" for c in "{}$&#_%"} | {
    "\\": r"\backslash ", "^": r"\hat{}", "~": r"\tilde{}", "<": r"\lt ", ">": r"\gt ", "`": "'",
}  # fmt: skip
_BELOW = str.maketrans("0123456789+-(),aehijklmnoprstuvx", "₀₁₂₃₄₅₆₇₈₉₊₋₍₎,ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓ")


class Spelled(NamedTuple):
    """A name in its parts: accents over a base, indices below it."""

    base: str
    accents: tuple[str, ...]
    primes: int
    below: tuple[str, ...]
    cell: str


@lru_cache(4096)
def spelled(name: str) -> Spelled:
    """The parts of a name."""
    cell = _CELL.fullmatch(name)
    name, place = (cell[1], cell[2].replace(" ", "")) if cell else (name, "")
    if name.startswith("\\") and name[1:].partition("_")[0] in GREEK:
        name = name[1:]  # as people spell SymPy's symbols
    primes = len(name) - len(name.rstrip("'"))
    name = name.rstrip("'")
    if not _WORD.fullmatch(name):
        return Spelled(name, (), primes, (), place)
    name = name.rstrip("_") or name
    accents: list[str] = []
    head, _, last = name.rpartition("_")
    while head and last in ACCENTS:
        accents.insert(0, last)
        name = head
        head, _, last = name.rpartition("_")
    first, _, rest = name.partition("_")
    below: list[str] = []
    if rest and _is_letter(first) and "." not in name:
        name, below = first, [part for part in rest.split("_") if part]
    elif rest.replace("_", "").isdigit() and "." not in name:
        name, below = first, rest.split("_")
    digits = _DIGITS.fullmatch(name)
    if digits:
        name, below = digits[1], [digits[2], *below]
    return Spelled(name, tuple(accents), primes, tuple(below), place)


def _is_letter(word: str) -> bool:
    return (
        len(word) == 1 or word in GREEK or word in _LETTERS or bool((found := _DIGITS.fullmatch(word)) and _is_letter(found[1]))
    )


def _latex_word(word: str) -> str:
    """Letters and digits slanted, words upright."""
    if word in GREEK:
        return rf"\{word}"
    if word in _LETTERS:
        return rf"\{_LETTERS[word]}"
    if word.isdigit() or (len(word) == 1 and word.isalnum()):
        return word
    return r"\mathrm{" + "".join(SPELLED.get(c, c) for c in printable(word)) + "}"


def latex_name(name: str) -> str:
    """A name as LaTeX."""
    found = spelled(name)
    text = _latex_word(found.base)
    for accent in found.accents:
        text = rf"\{accent}{{{text}}}"
    text += "'" * found.primes
    below = [_latex_word(part) for part in found.below]
    if found.cell:
        below.append("".join(SPELLED.get(c, c) for c in printable(found.cell)))
    return f"{text}_{{{','.join(below)}}}" if below else text


def unicode_name(name: str) -> str:
    """A name as text with Greek letters, accents, and indices below where there are letters for them."""
    found = spelled(name)
    text = printable(GREEK.get(_LETTERS.get(found.base, found.base), found.base))
    for accent in found.accents:
        text += ACCENTS[accent] if len(text) == 1 else f"_{accent}"
    text += "′" * found.primes
    below = [GREEK.get(part, part) for part in found.below] + ([printable(found.cell)] if found.cell else [])
    if not below:
        return text
    index = ",".join(below)
    lowered = index.translate(_BELOW)
    small = all(c == "," or c != lowered[k] for k, c in enumerate(index))
    if small and "," not in index:
        return text + lowered
    return f"{text}[{index}]" if found.cell and not found.below else f"{text}_{index}"


def printed_width(name: str) -> int:
    """About how many letters wide a name is."""
    found = spelled(name)
    base = 1 if found.base in GREEK or found.base in _LETTERS else len(found.base)
    return base + sum(1 if part in GREEK else len(part) for part in found.below) + len(found.cell)
