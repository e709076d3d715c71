"""An exception in which a path of a function ends, as Python text.

Assumes Python's own exceptions and `np.linalg.LinAlgError`. Guarantees the message of the user's exception, with the values
of the arguments that it has. Refuses nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

POINT = {0: "[point]", -1: "[..., point]", None: ""}  # what picks a point, by the axis of points


class Place(NamedTuple):
    """An argument, or a cell of one: `cell` is "" or as in "[0, 1]"."""

    name: str
    cell: str = ""

    def text(self, shown: Mapping[str, str]) -> str:
        """The expression for it; "" where there is none."""
        return shown[self.name] + self.cell if self.name in shown else ""

    def __str__(self) -> str:
        return self.name + self.cell


Message = tuple[str | Place, ...]


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception: the name of its class, and its arguments: messages, or Python's texts for constants."""

    kind: str
    arguments: tuple[Message | Place | str, ...]

    def text(self, shown: Mapping[str, str]) -> str:
        """The call that makes the exception; `shown` are the expressions for arguments, which are only named otherwise."""
        return f"{self.kind}({', '.join(_spelled(a, shown) for a in self.arguments)})"

    def at_point(self, place: str, shown: Mapping[str, str]) -> list[str]:
        """The statements that raise it with a note of the point; `shown` may use the name `point`."""
        return [
            f"point = int({place})",
            f"error = {self.text(shown)}",
            'error.add_note(f"at point {point}")',
            "raise error",
        ]

    def __str__(self) -> str:
        says = ["".join(map(str, a)) if isinstance(a, tuple) and not isinstance(a, Place) else str(a) for a in self.arguments]
        return f"{self.kind}: {', '.join(says)}" if says else self.kind


def _spelled(argument: Message | Place | str, shown: Mapping[str, str]) -> str:
    if isinstance(argument, str):
        return argument
    if isinstance(argument, Place):
        return argument.text(shown) or repr(str(argument))
    texts = [part.text(shown) if isinstance(part, Place) else "" for part in argument]
    if not any(texts):
        return _quoted("".join(map(str, argument)))
    escaped = [str(part).replace("{", "{{").replace("}", "}}") for part in argument]
    return "f" + _quoted("".join(f"{{{text}}}" if text else plain for text, plain in zip(texts, escaped, strict=True)))


def _quoted(text: str) -> str:
    """A string literal, in double quotes where that is possible."""
    return f'"{text}"' if text.isprintable() and '"' not in text and "\\" not in text else repr(text)
