"""Loops of a long function as functions of their own: what LLVM asks of a loop it seeks in all the loops before it.

Assumes text of `nests`: loop `l<n>` goes from the branch to `l<n>.before` to the label `l<n>.exit`; the pointers that a
function is given, or makes at its beginning, are to arrays that do not overlap. Guarantees the same instructions in the same
order. A loop that is left by another way, or makes what is used behind it, stays where it is.
"""

import re
from collections import Counter
from collections.abc import Iterable

PART = 400  # lines of a function, about, whose loops LLVM is done with soon
LONG = 10_000  # lines without a loop from which on optimising them takes longer than all else, for calls half as long
_NAME = re.compile(r"%[\w.]+")
_HEAD = re.compile(r"  br label %(l\d+)\.before$")
_MADE = re.compile(r"  (%[\w.]+) = ")
_WORD = re.compile(r"[%@][\w.]+|<\d+ x \w+>|\b(?:label|ptr|i\d+|double|float)\b")


class Outlining:
    """The functions that loops of the function `name` become; `arrays` are its pointers, with what is known of them."""

    def __init__(self, name: str, arrays: Iterable[str], lines: list[str]) -> None:
        self.name = name
        self.arrays = {parameter.rpartition(" ")[2]: parameter for parameter in arrays}
        self.uses = _uses(lines)
        self.functions: list[str] = []
        self.lines = self._shorter(lines)

    @property
    def attributes(self) -> str:
        """What LLVM is told of the function that is left."""
        straight = len(self.lines) > LONG and not any(map(_HEAD.match, self.lines))
        return "noinline optnone nounwind" if straight else "noinline nounwind"

    def _shorter(self, lines: list[str]) -> list[str]:
        """The lines with calls in the place of loops that are short, where they are many."""
        if len(lines) <= PART:
            return lines
        kept: list[str] = []
        k = 0
        while k < len(lines):
            head = _HEAD.match(lines[k])
            end = lines.index(f"{head[1]}.exit:", k) + 1 if head else k + 1
            part = lines[k:end]
            if head and len(part) > PART:
                part = [part[0], *self._shorter(part[1:-1]), part[-1]]
            kept += self._call(f"{self.name}.{head[1]}", part) if head and len(part) <= PART else part
            k = end
        return kept

    def _call(self, name: str, part: list[str]) -> list[str]:
        """A call in the place of a loop; the loop itself where it cannot stand alone."""
        own = {f"%{line[:-1]}" for line in part if line.endswith(":")} | {m[1] for line in part if (m := _MADE.match(line))}
        given: dict[str, str] = {}
        for line in part:
            kind = ""
            for word in _WORD.findall(line):
                if word[0] not in "%@":
                    kind = word
                elif word[0] == "%" and word not in own:
                    given[word] = kind
        uses = _uses(part)
        stays = any(uses[made] < self.uses[made] for made in own)
        if stays or any(kind == "label" or (kind == "ptr" and used not in self.arrays) for used, kind in given.items()):
            return part
        parameters = [self.arrays.get(used, f"{kind} {used}") for used, kind in given.items()]
        self.functions += [f"define internal void @{name}({', '.join(parameters)}) noinline nounwind {{", "entry:"]
        self.functions += [*part, "  ret void", "}"]
        return [f"  call void @{name}({', '.join(f'{kind} {used}' for used, kind in given.items())})"]


def _uses(lines: list[str]) -> Counter[str]:
    """In how many lines each name stands."""
    return Counter(used for line in lines for used in set(_NAME.findall(line)))
