"""Source: generated text with its entry point, and the sentinel by which generated functions decline a call.

Assumes text that defines a function named `entry`. Guarantees a digest of the text.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from symdiff.codegen.exceptions import Raised
from symdiff.codegen.sizes import Sizes
from symdiff.codegen.text import Result
from symdiff.vocabulary.literals import comment_literal, literal


class Miss:
    """What a generated function returns when its arguments are not exactly those it was made for."""

    def __repr__(self) -> str:
        return "MISS"


MISS = Miss()


@dataclass(frozen=True, slots=True)
class Wanted:
    """What text is wanted: its function's `name`, whether for a file or in style "runtime" for this process, which takes
    arguments in the program's own form or declines others; the lines of the first comment and a docstring; the outputs'
    places in the `result`; the exceptions of the program's checks; `sizes`, where the program is an example for any size.
    """

    name: str
    style: str = "export"
    header: Sequence[str] = ()
    doc: str = ""
    result: Result | None = None
    raised: Sequence[Raised] = ()
    sizes: Sizes | None = None


@dataclass(frozen=True, slots=True)
class PythonFile:
    """A file of Python in its parts.

    `header` are the lines of its first comment, `standard` and `packages` its imports, from the standard library and others;
    `head` blocks stand before `functions`, the mathematics first, and what they call, `support`, after them; `types` are
    those of the arguments.
    """

    header: tuple[str, ...]
    standard: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    head: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    support: tuple[str, ...] = ()
    types: tuple[str, ...] = ()

    def source(self, entry: str, target: str) -> "Source":
        """The file as text, with the name of the function that it is for."""
        standard = sorted(set(self.standard), key=lambda line: (line.startswith("from"), line))
        between = [""] if standard and self.packages else []
        imports = "".join(f"{line}\n" for line in [*standard, *between, *self.packages])
        blocks = "".join(f"\n{block}\n" for block in (f"__all__ = [{literal(entry)}]", *self.head))
        functions = "".join(f"\n\n{text}\n" for text in [*self.functions, *self.support])
        return Source(comment_literal(self.header) + imports + blocks + functions, entry, target, file=self)

    def with_entry(self, text: str, standard: Sequence[str], support: Sequence[str]) -> "PythonFile":
        """The file with another function that it is for, which has imports and calls support of its own."""
        return replace(
            self,
            standard=(*self.standard, *standard),
            functions=(*self.functions, text),
            support=(*support, *self.support),
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
