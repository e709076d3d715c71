"""Source: generated text with its entry point, and the sentinel by which generated functions decline a call.

Assumes text that defines a function named `entry`. Guarantees a digest of the text.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from symdiff.vocabulary.literals import comment_literal


class Miss:
    """What a generated function returns when its arguments are not exactly those it was made for."""

    def __repr__(self) -> str:
        return "MISS"


MISS = Miss()


@dataclass(frozen=True, slots=True)
class PythonFile:
    """A file of Python in its parts.

    `header` are the lines of its first comment, `standard` the modules of the standard library that it imports, `packages` its
    other imports; `head` blocks and `support` functions stand before `functions`, of which the first is the entry.
    """

    header: tuple[str, ...]
    standard: frozenset[str] = frozenset()
    packages: tuple[str, ...] = ()
    head: tuple[str, ...] = ()
    support: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()

    def source(self, entry: str, target: str) -> "Source":
        """The file as text, with the name of its first function."""
        standard = [f"import {module}" for module in sorted(self.standard)]
        between = [""] if standard and self.packages else []
        imports = "".join(f"{line}\n" for line in [*standard, *between, *self.packages])
        blocks = "".join(f"\n{block}\n" for block in self.head)
        functions = "".join(f"\n\n{text}\n" for text in [*self.support, *self.functions])
        return Source(comment_literal(self.header) + imports + blocks + functions, entry, target, file=self)

    def with_entry(self, text: str, standard: frozenset[str], support: Sequence[str]) -> "PythonFile":
        """The file with another entry before its own, which imports modules of the standard library and calls `support`."""
        return replace(
            self, standard=self.standard | standard, support=(*support, *self.support), functions=(text, *self.functions)
        )


@dataclass(frozen=True, slots=True)
class Source:
    """Generated text for a target, the name of the function it defines, and global names it needs besides its imports.

    `companion` is the text of a C header; `file` the parts of a stand-alone file of Python.
    """

    text: str
    entry: str
    target: str
    names: tuple[tuple[str, object], ...] = ()
    companion: str = ""
    file: PythonFile | None = field(default=None, repr=False)

    @property
    def digest(self) -> str:
        """The first eight hex digits of the SHA-256 of the text."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:8]

    def __str__(self) -> str:
        return self.text
