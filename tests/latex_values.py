r"""The LaTeX of reading forms back to values: what is printed must be the derivative, not like it.

    page      = "$$\begin{aligned}" row {"\\" row} "\end{aligned}$$"
    row       = ["\text{with}\quad"] left "&=" sum  |  "&" text
    places    = ", \quad i = " first ", \ldots, " last        after a row that stands for one at each place
    sum       = ["-"] product {("+" | "-") product}
    product   = power {["\cdot" | "\,"] power}
    power     = primary ["^{" (sum | n "/" n) "}"]
    primary   = number | name | "\sum_{i=" first "}^{" last "} " product
              | "\prod_{i=" first [",\, i \neq " place] "}^{" last "} " power | "\frac{" sum "}{" sum "}"
              | "\sqrt" ["[" n "]"] "{" sum "}" | "\left(" sum "\right)" | "\left[" condition "\right]"
              | "\left|{" sum "}\right|" | "\left\lfloor{" sum "}\right\rfloor" | "\overline{" sum "}" | cases | function
    function  = head ["^{" n "}"] ["{"] "\left(" sum {"," sum} "\right)" ["}"]   where a head is \sin, \operatorname{..}, J_{1},
                \log \Gamma, \Phi^{-1} (the inverse)
    cases     = "\begin{cases}" sum "&" ("\text{if}\:" condition | "\text{otherwise}") {"\\" ...} "\end{cases}"
    condition = sum ("<" | "\leq" | ">" | "\geq" | "=" | "\neq") sum, joined by \wedge and \vee, in \neg or parentheses

Names are those of the arguments and of the rows above that are not results.
"""

import itertools
import math
import re

import numpy as np
from inside import OPS, default_rules

TOKEN = re.compile(r"\\operatorname\{[^{}]*\}|\\text\{[^{}]*\}|\\(?:begin|end)\{\w+\}|\\[a-zA-Z]+|\\.|\d+(?:\.\d+)?|[^\s\\]")
COMPARE = {"<": np.less, "\\leq": np.less_equal, ">": np.greater, "\\geq": np.greater_equal, "=": np.equal}
COMPARE |= {"\\neq": np.not_equal}
CONSTANTS = {"\\pi": math.pi, "e": math.e, "i": 1j, "\\gamma": np.euler_gamma, "\\infty": math.inf, "\\text{NaN}": math.nan}


def _function(name):
    from scipy import special

    plain = {
        "\\sin": np.sin, "\\cos": np.cos, "\\tan": np.tan, "\\sinh": np.sinh, "\\cosh": np.cosh, "\\tanh": np.tanh,
        "\\cot": lambda x: 1 / np.tan(x), "\\log": np.log, "\\arcsin": np.arcsin, "\\arccos": np.arccos,
        "\\arctan": np.arctan, "\\max": lambda *a: max(a), "\\min": lambda *a: min(a), "\\Gamma": special.gamma,
        "\\operatorname{asinh}": np.arcsinh, "\\operatorname{acosh}": np.arccosh, "\\operatorname{atanh}": np.arctanh,
        "\\operatorname{asin}": np.arcsin, "\\operatorname{acos}": np.arccos, "\\operatorname{atan}": np.arctan,
        "\\operatorname{atan}_{2}": np.arctan2, "\\operatorname{arctan2}": np.arctan2,
        "\\operatorname{sign}": np.sign, "\\operatorname{sgn}": np.sign, "\\operatorname{re}": np.real,
        "\\operatorname{im}": np.imag, "\\operatorname{erf}": special.erf, "\\operatorname{erfc}": special.erfc,
        "\\operatorname{mod}": np.mod, "\\log_{10}": np.log10, "\\log_{2}": np.log2,
        "\\psi": special.polygamma, "\\log \\Gamma": special.gammaln, "\\log \\operatorname{B}": special.betaln,
        "\\Phi": special.ndtr, "\\Phi inverse": special.ndtri,
        **{f"R_{{{c.upper()}}}": getattr(special, f"ellipr{c}") for c in "cdfgj"},
        **{f"\\operatorname{{{name}}}'": getattr(special, f"{name}p") for name in ("ber", "bei", "ker", "kei")},
        "\\operatorname{Ai}": lambda x: special.airy(x)[0], "\\operatorname{Bi}": lambda x: special.airy(x)[2],
        "\\operatorname{Ai}'": lambda x: special.airy(x)[1], "\\operatorname{Bi}'": lambda x: special.airy(x)[3],
    }  # fmt: skip
    if name in plain:
        return plain[name]
    inner = name[14:-1].replace("\\_", "_")
    if inner in OPS:
        return OPS[inner].function()
    rule = next((r for key, r in default_rules().items() if key[:2] == ("symdiff.special", inner)), None)
    return rule.value if rule else getattr(special, inner)


CELL = re.compile(r"(\\bar\{\S+?\}|[^\s_{}()]+|\\mathrm\{\w+\}'?)_\{([a-z])([+-]\d+)?\}")
PLACES = re.compile(r", \\quad (\w+) = (\d+), \\ldots, (\d+)$")


class Parser:
    """One expression, evaluated as it is read. `names` are the LaTeX of names with their numbers."""

    def __init__(self, text, names):
        self.names = dict(names)
        self.tokens = []
        known = sorted((*names, *CONSTANTS), key=len, reverse=True)
        place = 0
        while place < len(text):
            if text[place].isspace() or text.startswith("\\,", place):
                place += 1 if text[place].isspace() else 2
                continue
            cell = CELL.match(text, place)
            if cell and cell[0] not in names and any(n.startswith(f"{cell[1]}_{{") and n[-2].isdigit() for n in names):
                self.tokens.append((cell[0], True))
                place = cell.end()
                continue
            name = next((n for n in known if text.startswith(n, place) and self._ends(text, place, n)), None)
            found = name or TOKEN.match(text, place)[0]
            self.tokens.append((found, name is not None))
            place += len(found)
        self.place = 0

    @staticmethod
    def _ends(text, place, name):
        """Whether a name ends here: \\pi is not the beginning of \\pitchfork, x not of x_{0}."""
        rest = text[place + len(name) :]
        return not (name[-1].isalpha() and name[0] == "\\" and rest[:1].isalpha()) and not rest.startswith("_{")

    def peek(self, ahead=0):
        place = self.place + ahead
        return self.tokens[place][0] if place < len(self.tokens) else ""

    def take(self, *wanted):
        found = self.peek()
        if wanted and found not in wanted:
            raise ValueError(f"{found!r} where {wanted} should be: {' '.join(t for t, _ in self.tokens)}")
        self.place += 1
        return found

    def value(self):
        found = self.sum()
        if self.peek():
            raise ValueError(f"{self.peek()!r} is left over: {' '.join(t for t, _ in self.tokens)}")
        return found

    def sum(self):
        total = -self.product() if self.peek() == "-" and self.take() else self.product()
        while self.peek() in ("+", "-"):
            total = total + self.product() if self.take() == "+" else total - self.product()
        return total

    def product(self):
        found = self.power()
        while self.peek() not in ("", "+", "-", "/", ")", "}", "]", ",", "&", "\\\\", "\\right", "\\wedge", "\\vee", *COMPARE):
            if self.peek().startswith("\\end"):
                break
            if self.peek() in ("\\cdot", "\\bmod"):
                if self.take() == "\\bmod":
                    found = np.mod(found, self.power())
                    continue
            elif self.peek()[0].isdigit():
                raise ValueError(f"a number stands between symbols: {' '.join(t for t, _ in self.tokens)}")
            found = found * self.power()
        return found

    def power(self):
        base = self.primary()
        if self.peek() == "^":
            exponent = self.exponent()
            return np.power(base + 0.0, exponent) if not isinstance(base, complex) else base**exponent
        return base

    def exponent(self):
        self.take("^")
        self.take("{")
        found = self.sum()
        if self.peek() == "/":
            self.take()
            found = found / self.sum()
        self.take("}")
        return found

    def braced(self):
        self.take("{")
        found = self.sum()
        self.take("}")
        return found

    def primary(self):
        token, is_name = self.tokens[self.place] if self.place < len(self.tokens) else ("", False)
        self.place += 1
        cell = CELL.fullmatch(token) if is_name and token not in self.names else None
        if cell:
            return self.names[f"{cell[1]}_{{{self.names[cell[2]] + int(cell[3] or 0)}}}"]
        if token in ("\\sum", "\\prod"):
            return self.series(token)
        if is_name:
            return self.names[token] if token in self.names else CONSTANTS[token]
        if token[0].isdigit():
            return float(token)
        if token == "\\frac":
            over = self.braced()
            return np.divide(over, self.braced())
        if token == "\\sqrt":
            degree = 2.0
            if self.peek() == "[":
                self.take()
                degree = self.sum()
                self.take("]")
            inside = self.braced()
            return np.cbrt(inside) if degree == 3 and not isinstance(inside, complex) else np.power(inside + 0.0, 1 / degree)
        if token == "\\left":
            return self.bracketed()
        if token in ("\\overline", "\\bar"):
            return np.conj(self.braced())
        if token == "\\begin{cases}":
            return self.cases()
        return self.function(token)

    def series(self, sign):
        for expected in ("_", "{"):
            self.take(expected)
        index = self.take()
        self.take("=")
        first = int(self.sum())
        left_out = None
        if self.peek() == ",":
            for expected in (",", index, "\\neq"):
                self.take(expected)
            left_out = int(self.sum())
        for expected in ("}", "^"):
            self.take(expected)
        last = int(self.braced())
        start, total = self.place, 0.0 if sign == "\\sum" else 1.0
        for place in range(first, last + 1):
            self.place = start
            self.names[index] = place
            if sign == "\\sum":
                total = total + self.product()
            else:
                factor = self.power()
                total = total * (1.0 if place == left_out else factor)
        return total

    def bracketed(self):
        opening = self.take("(", "|", "[", "\\lfloor", "\\lceil")
        if opening == "[":
            holds = float(self.condition())
            self.take("\\right")
            self.take("]")
            return holds
        found = self.braced() if opening != "(" else self.sum()
        self.take("\\right")
        self.take(")", "|", "\\rfloor", "\\rceil")
        return {"(": lambda x: x, "|": np.abs, "\\lfloor": np.floor, "\\lceil": np.ceil}[opening](found)

    def function(self, head):
        below = ""
        if self.peek() == "_":
            self.take()
            self.take("{")
            while self.peek() != "}":
                below += self.take()
            self.take("}")
            below = below.strip("{}")  # SymPy writes log_{10}, J_{1}
        if self.peek() == "'":
            head += self.take()
        if head == "\\log" and self.peek() in ("\\Gamma", "\\operatorname{B}"):
            head += f" {self.take()}"
        raised = self.exponent() if self.peek() == "^" else 1
        if head == "\\Phi" and raised == -1:
            head, raised = f"{head} inverse", 1
        braced = self.peek() == "{" and self.take()
        self.take("\\left")
        self.take("(")
        args = [self.sum()]
        while self.peek() == ",":
            self.take()
            args.append(self.sum())
        self.take("\\right")
        self.take(")")
        if braced:
            self.take("}")
        if head in ("J", "Y", "I", "K"):
            from scipy import special

            found = getattr(special, f"{head.lower()}v")(Parser(below, self.names).value(), *args)
        else:
            if head == "\\psi":
                args = [int(below or 0), *args]
            found = _function(head + (f"_{{{below}}}" if below and head != "\\psi" else ""))(*args)
        return found**raised if raised != 1 else found

    def cases(self):
        result = None
        while True:
            value = self.sum()
            self.take("&")
            word = self.take("\\text{if}", "\\text{otherwise}")
            holds = True
            if word == "\\text{if}":
                self.take("\\:")
                holds = self.condition()
            if holds and result is None:
                result = value
            if self.take("\\\\", "\\end{cases}") == "\\end{cases}":
                return result

    def condition(self):
        found = self.conjunction()
        while self.peek() == "\\vee":
            self.take()
            other = self.conjunction()
            found = found or other
        return found

    def conjunction(self):
        found = self.comparison()
        while self.peek() == "\\wedge":
            self.take()
            other = self.comparison()
            found = found and other
        return found

    def comparison(self):
        if self.peek() == "\\neg":
            self.take()
            return not self.comparison()
        if self.peek() == "\\left" and self.peek(1) == "(":
            start = self.place
            try:
                self.place += 2
                found = self.condition()
                self.take("\\right")
                self.take(")")
                if self.peek() in ("\\wedge", "\\vee", "\\\\", "\\end{cases}", "\\right"):
                    return found
            except ValueError:
                pass
            self.place = start
        left = self.sum()
        return bool(COMPARE[self.take(*COMPARE)](left, self.sum()))


def page_values(latex, names):
    """The values of the results of a page at numbers for the names, by their left sides."""
    body = latex.removeprefix("$$\\begin{aligned}\n").removesuffix("\n\\end{aligned}$$")
    rows = body.split(" \\\\\n")
    known, results, pieces = dict(names), [], []
    inside = False
    for row in rows:
        if "&=" not in row:
            continue
        left, _, right = row.partition(" &= ")
        inside = inside or left.startswith("\\text{with}\\quad ")
        (pieces if inside else results).append((left.removeprefix("\\text{with}\\quad "), right))
    with np.errstate(all="ignore"):
        for at, group in itertools.groupby(pieces, lambda piece: (found := PLACES.search(piece[1])) and found.groups()):
            if at is None:
                for left, right in group:
                    known[left] = Parser(right, known).value()
                continue
            rows = [(left, PLACES.sub("", right)) for left, right in group]  # x_{k+1} of x_{k}, round by round
            rounds = range(int(at[1]), int(at[2]) + 1)
            for is_later, order in ((True, rounds), (False, rounds[::-1])):  # those of x_{k} of x_{k+1} backwards
                for place in order:
                    for left, right in rows:
                        if (f"{at[0]}+1" in left) == is_later:
                            left = left.replace(f"{at[0]}+1", str(place + 1)).replace(f"{{{at[0]}}}", f"{{{place}}}")
                            known[left] = Parser(right, {**known, at[0]: place}).value()
        values = {}
        for left, right in results:
            places = PLACES.search(right)
            if places is None:
                values[left] = Parser(right, known).value()
                continue
            for place in range(int(places[2]), int(places[3]) + 1):
                at = {**known, places[1]: place}
                values[left, place] = Parser(right[: places.start()], at).value()
        return values
