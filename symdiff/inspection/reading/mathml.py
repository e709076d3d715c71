r"""The LaTeX of reading forms as presentation MathML (MathML Core), which browsers show by themselves.

Assumes the LaTeX that `printing` makes: commands with their parts in braces, blanks between factors. Guarantees text that is
escaped, alignment by style, and letters in place of what MathML Core has no attribute for (bold).
"""

import html
import re
from collections.abc import Iterable
from typing import NamedTuple

from symdiff.inspection.reading.names import GREEK

_TOKEN = re.compile(
    r"\\(text|mathrm|mathbf|operatorname\*?|begin|end)\{((?:\\.|\{\}|[^{}\\])*)\}|(\\(?:[a-zA-Z]+|.)|\d+(?:\.\d+)?)|(\s+)|(.)",
    re.DOTALL,
)
_ACCENTS = {"\\bar": "¯", "\\overline": "¯", "\\dot": "˙", "\\ddot": "¨", "\\hat": "^", "\\tilde": "~"}
_SIGNS = {
    "-": "−", "\\cdot": "⋅", "\\leq": "≤", "\\geq": "≥", "\\neq": "≠", "\\lt": "<", "\\gt": ">", "\\wedge": "∧", "\\vee": "∨",
    "\\neg": "¬", "\\bmod": "mod", "\\circ": "∘", "\\oslash": "⊘", "\\top": "⊤", "\\otimes": "⊗", "\\sum": "∑", "\\prod": "∏",
    "\\partial": "∂", "\\nabla": "∇", "\\prime": "′", "'": "′", "\\ldots": "…", "\\vdots": "⋮", "\\veebar": "⊻", "*": "∗",
}  # fmt: skip
_LETTERS = {f"\\{name}": letter for name, letter in GREEK.items()} | {
    "\\infty": "∞", "\\backslash": "\\", "\\varphi": "φ", "\\varepsilon": "ε", "\\Re": "ℜ", "\\Im": "ℑ",
}  # fmt: skip
_FENCES = {"\\lfloor": "⌊", "\\rfloor": "⌋", "\\lceil": "⌈", "\\rceil": "⌉", "\\lVert": "‖", "\\rVert": "‖",
           "\\{": "{", "\\}": "}", "\\langle": "⟨", "\\rangle": "⟩"}  # fmt: skip
_SPACES = {"\\;": "0.28em", "\\:": "0.22em", "\\,": "0.17em", "\\ ": "0.25em", "\\quad": "1em", "\\!": "0"}
_BOLD = {"1": "\U0001d7cf", "e": "\U0001d41e"}
_SPELLED = {r"\backslash ": "\\", r"\lt ": "<", r"\gt ": ">", r"\^{}": "^", r"\~{}": "~", r"\hat{}": "^", r"\tilde{}": "~"}
_ALIGNED = {"aligned": ("right", "left"), "cases": ("left", "left")}
_NAMED = {"\\operatorname"} | {
    f"\\{name}" for name in "sin cos tan cot sec csc sinh cosh tanh coth arcsin arccos arctan log ln exp max min det".split()
}
_APPLIED, _TIMES = "<mo>\u2061</mo>", "<mo>\u2062</mo>"


class _Token(NamedTuple):
    """A piece of LaTeX: a letter, number, sign or command by itself, else a command with the text in its braces."""

    kind: str
    text: str


def _tokens(latex: str) -> list[_Token]:
    return [
        _Token(f"\\{command}" if command else word or blank or other, inside or "")
        for command, inside, word, blank, other in (match.groups() for match in _TOKEN.finditer(latex))
    ]


def mathml_of(latex: str) -> str:
    """A formula in LaTeX, between dollar signs or not, as a MathML element."""
    body = _Reader(_tokens(latex.strip("$\n"))).row()
    return f'<math xmlns="http://www.w3.org/1998/Math/MathML" display="block">{body}</math>'


def _tagged(tag: str, *parts: str) -> str:
    name = tag.partition(" ")[0]
    return f"<{tag}>{''.join(parts)}</{name}>"


def _text(tag: str, text: str) -> str:
    return _tagged(tag, html.escape(text, quote=False))


def _plain(text: str) -> str:
    """Text without LaTeX's escapes."""
    for spelled, letter in _SPELLED.items():
        text = text.replace(spelled, letter)
    return re.sub(r"\\(.)", r"\1", text)


def _one(parts: Iterable[str]) -> str:
    """Elements as one."""
    found = list(parts)
    return found[0] if len(found) == 1 else _tagged("mrow", *found)


class _Reader:
    """Reads tokens from the left."""

    def __init__(self, tokens: list[_Token]) -> None:
        self.tokens = tokens
        self.place = 0

    def _peek(self) -> str:
        return self.tokens[self.place].kind if self.place < len(self.tokens) else ""

    def _take(self) -> _Token:
        self.place += 1
        return self.tokens[self.place - 1]

    def row(self, *ends: str) -> str:
        """The elements up to one of some tokens, as one."""
        found: list[str] = []
        operand = blank = False  # whether what stands last may be a factor, and a blank follows
        while self.place < len(self.tokens) and self._peek() not in ends:
            token = self._take()
            if token.kind.isspace():
                blank = True
                continue
            factor = token.kind not in _SIGNS and token.kind not in _SPACES and token.kind not in "+=,<>&"
            if operand and blank and factor:
                found.append(_TIMES)
            found.append(self._scripted(token))
            if token.kind in _NAMED and self._peek() in ("\\left", "{"):
                found.append(_APPLIED)
            operand, blank = factor, False
        return _one(found)

    def _group(self) -> str:
        """What stands in braces, or one token."""
        while self._peek().isspace():
            self._take()
        return self._primary(self._take())

    def _closed(self, end: str) -> str:
        found = self.row(end)
        self._take()
        return found

    def _scripted(self, token: _Token) -> str:
        """An element with what is written below and above it."""
        base = self._primary(token)
        below = above = ""
        while self._peek() in ("_", "^", "'"):
            mark = self._take().kind
            if mark == "_":
                below = self._group()
            else:
                above += self._group() if mark == "^" else _text("mo", "′")
        tags = ("munder", "mover", "munderover") if token.kind in ("\\sum", "\\prod") else ("msub", "msup", "msubsup")
        scripts = [s for s in (below, above) if s]
        return _tagged(tags[2] if len(scripts) == 2 else tags[0] if below else tags[1], base, *scripts) if scripts else base

    def _primary(self, token: _Token) -> str:
        kind, text = token
        if kind == "\\text":
            return _text("mtext", re.sub(r"^ | $", "\u00a0", _plain(text)))
        if kind == "\\mathbf":
            return _text("mi", _BOLD.get(text, text))
        if kind == "\\begin":
            return self._table(text)
        if kind in ("\\mathrm", "\\operatorname", "\\operatorname*"):
            return _text("mi" if len(text) > 1 else 'mi mathvariant="normal"', _plain(text))
        if kind == "{":
            return self._closed("}")
        if kind in ("\\frac", "\\binom"):
            return self._fraction(kind)
        if kind == "\\sqrt":
            return self._root()
        if kind == "\\left":
            return self._fenced()
        if kind in _ACCENTS:
            return _tagged("mover", self._group(), _text("mo", _ACCENTS[kind]))
        return f'<mspace width="{_SPACES[kind]}"/>' if kind in _SPACES else _leaf(kind)

    def _fraction(self, token: str) -> str:
        over, under = self._group(), self._group()
        if token == "\\frac":
            return _tagged("mfrac", over, under)
        return _tagged("mrow", "<mo>(</mo>", _tagged('mfrac linethickness="0"', over, under), "<mo>)</mo>")

    def _root(self) -> str:
        if self._peek() != "[":
            return _tagged("msqrt", self._group())
        self._take()
        degree = self._closed("]")
        return _tagged("mroot", self._group(), degree)

    def _fenced(self) -> str:
        parts = [_fence(self._take().kind, "prefix"), self.row("\\right", "\\middle")]
        while self._take().kind == "\\middle":
            parts += [_fence(self._take().kind, "infix"), self.row("\\right", "\\middle")]
        return _tagged("mrow", *parts, _fence(self._take().kind, "postfix"))

    def _table(self, kind: str) -> str:
        sides = _ALIGNED.get(kind, ("center",))
        rows: list[list[str]] = [[]]
        end = ""
        while end != "\\end":
            rows[-1].append(self.row("&", "\\\\", "\\end"))
            end = self._take().kind
            if end == "\\\\":
                rows.append([])
        cells = (
            _tagged("mtr", *(_tagged(f'mtd style="text-align: {sides[k % len(sides)]}"', cell) for k, cell in enumerate(row)))
            for row in rows
        )
        table = _tagged("mtable" + ' displaystyle="true"' * (kind == "aligned"), *cells)
        return _tagged("mrow", _fence("\\{", "prefix"), table) if kind == "cases" else table


def _fence(token: str, form: str) -> str:
    return "" if token == "." else _text(f'mo form="{form}" fence="true" stretchy="true"', _FENCES.get(token, token))


def _leaf(token: str) -> str:
    """One letter, number or sign."""
    if token[0].isdigit():
        return _text("mn", token)
    if token in _SIGNS or token in _FENCES:
        return _text("mo", _SIGNS.get(token) or _FENCES[token])
    if token in _LETTERS:
        return _text("mi", _LETTERS[token])
    if token[0] == "\\":
        name = token[1:]
        return _text("mi", name) if name.isalpha() else _text("mo", name)
    return _text("mi" if token.isalpha() else "mo", token)
