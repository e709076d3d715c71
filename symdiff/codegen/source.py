"""Source: generated text with its entry point, and the sentinel by which generated functions decline a call.

Assumes text that defines a function named `entry`. Guarantees a digest of the text. Refuses nothing.
"""

import hashlib
from dataclasses import dataclass


class Miss:
    """What a generated function returns when its arguments are not exactly those it was made for."""

    def __repr__(self) -> str:
        return "MISS"


MISS = Miss()


@dataclass(frozen=True, slots=True)
class Source:
    """Generated text for a target, the name of the function it defines, and global names it needs besides its imports.

    `companion` is the text of a C header.
    """

    text: str
    entry: str
    target: str
    names: tuple[tuple[str, object], ...] = ()
    companion: str = ""

    @property
    def digest(self) -> str:
        """The first eight hex digits of the SHA-256 of the text."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:8]

    def __str__(self) -> str:
        return self.text
