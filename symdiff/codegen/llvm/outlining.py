"""Parts of a long function as functions of their own: what LLVM asks of a loop it seeks in all the loops before it, and a
block without loops takes it more than linear time.

Assumes text of `nests`: loop `l<n>` goes from the branch to `l<n>.before` to the label `l<n>.exit`; the pointers that a
function is given, or makes at its beginning, are to arrays that do not overlap. Guarantees the same instructions in the same
order. A loop that is left by another way, or reads through a pointer that is made outside it, stays where it is.
"""

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator

PART = 400  # lines of a function, about, whose loops LLVM is done with soon
BLOCK = 10_000  # lines without a branch that it is done with soon, too
STRAIGHT = 1000  # lines of the parts of longer ones: with more, compiling takes longer, with fewer, calls do
_NAME = re.compile(r"%[\w.]+")
_HEAD = re.compile(r"  br label %(l\d+)\.before$")
_MADE = re.compile(r"  (%[\w.]+) = ")
_WORD = re.compile(r"[%@][\w.]+|\{[^{}]*\}|<\d+ x \w+>|\b(?:label|ptr|i\d+|double|float)\b")
_BOUND = re.compile(r"  (?:br|ret|switch|unreachable|%[\w.]+ = (?:phi|alloca))\b|\S")  # what is no line of a block like others


class Outlining:
    """The functions that parts of the function `name` become; `arrays` are its pointers, with what is known of them."""

    def __init__(self, name: str, arrays: Iterable[str], lines: list[str]) -> None:
        self.name = name
        self.arrays = {parameter.rpartition(" ")[2]: parameter for parameter in arrays}
        self.uses = _uses(lines)
        self.kinds = _kinds(lines)
        self.functions: list[str] = []
        self.lines = self._shorter(lines)

    def _shorter(self, lines: list[str]) -> list[str]:
        """The lines with calls in the place of loops that are short, where they are many, and of what stands between."""
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
        return self._between(kept)

    def _between(self, lines: list[str]) -> list[str]:
        """The lines with calls in the place of many in one block."""
        kept: list[str] = []
        for bound, block in itertools.groupby(lines, lambda line: bool(_BOUND.match(line))):
            run = list(block)
            if bound or len(run) <= BLOCK:
                kept += run
                continue
            for part in self._parts(run):
                kept += self._call(f"{self.name}.{len(self.functions)}", part)
        return kept

    def _parts(self, run: list[str]) -> Iterator[list[str]]:
        """Parts of a block between which no pointer is handed on."""
        part: list[str] = []
        due: Counter[str] = Counter()  # of pointers, by the lines that are to use them
        for line in run:
            part.append(line)
            made = _MADE.match(line)
            if made and self.kinds.get(made[1]) == "ptr":
                due[made[1]] = self.uses[made[1]]
            due -= Counter(set(_NAME.findall(line)) & set(due))
            if len(part) >= STRAIGHT and not due:
                yield part
                part = []
        yield part

    def _call(self, name: str, part: list[str]) -> list[str]:
        """A call in the place of a part; the part itself where it cannot stand alone."""
        own = {f"%{line[:-1]}": "label" for line in part if line.endswith(":")}
        own |= {m[1]: self.kinds.get(m[1], "") for line in part if (m := _MADE.match(line))}
        uses = _uses(part)
        given = {used: self.kinds[used] for used in uses if used not in own}
        left = {made: kind for made, kind in own.items() if uses[made] < self.uses[made]}
        if any(kind == "label" or (kind == "ptr" and used not in self.arrays) for used, kind in (given | left).items()):
            return part
        call = f"@{name}({', '.join(f'{kind} {used}' for used, kind in given.items())})"
        returned, ending, found = "void", ["  ret void"], [f"  call void {call}"]
        if left:
            returned = f"{{ {', '.join(left.values())} }}"
            self.kinds[f"%{name}"] = returned
            whole = ["undef", *(f"%{name}.{k}" for k in range(len(left)))]
            ending = [
                f"  {whole[k + 1]} = insertvalue {returned} {whole[k]}, {kind} {made}, {k}"
                for k, (made, kind) in enumerate(left.items())
            ]
            ending.append(f"  ret {returned} {whole[-1]}")
            found = [f"  %{name} = call {returned} {call}"]
            found += [f"  {made} = extractvalue {returned} %{name}, {k}" for k, made in enumerate(left)]
        parameters = [self.arrays.get(used, f"{kind} {used}") for used, kind in given.items()]
        self.functions += [f"define internal {returned} @{name}({', '.join(parameters)}) noinline nounwind {{", "entry:"]
        self.functions += [*part, *ending, "}"]
        self.uses += _uses(found)
        self.uses -= uses
        return found


def _uses(lines: Iterable[str]) -> Counter[str]:
    """In how many lines each name stands."""
    return Counter(used for line in lines for used in dict.fromkeys(_NAME.findall(line)))


def _kinds(lines: Iterable[str]) -> dict[str, str]:
    """The types of names that are used, "label" among them."""
    kinds: dict[str, str] = {}
    for line in lines:
        kind = ""
        for word in _WORD.findall(line.partition(" = ")[2] or line):
            if word[0] == "%":
                kinds[word] = kind if kind == "label" else kinds.get(word, kind)
            elif word[0] != "@":
                kind = word
    return kinds
