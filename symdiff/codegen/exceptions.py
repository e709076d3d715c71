"""An exception in which a path of a function ends, as Python text.

Assumes Python's own exceptions and `np.linalg.LinAlgError`. Guarantees the message of the user's exception, with the values
of the arguments that it has.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from symdiff.vocabulary.literals import Shown, literal, message_literal

POINT = {0: "[point]", -1: "[..., point]", None: ""}  # what picks a point, by the axis of points


class Place(NamedTuple):
    """An argument, or a cell of one: `cell` is "" or as in "[0, 1]"."""

    name: str
    cell: str = ""

    def text(self, shown: Mapping[str, str]) -> str:
        """The expression for it, that of a cell itself or of the argument; "" where there is none."""
        return shown.get(str(self)) or (shown[self.name] + self.cell if self.name in shown else "")

    def __str__(self) -> str:
        return self.name + self.cell


Message = tuple[str | Place, ...]


class Constant(NamedTuple):
    """A value that has a literal."""

    value: object

    def __str__(self) -> str:
        return literal(self.value)


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception: the name of its class, and its arguments: messages, places, or constants that have a literal."""

    kind: str
    arguments: tuple[Message | Place | Constant, ...]

    def places(self) -> list[Place]:
        """The arguments that the exception tells of."""
        parts = [part for a in self.arguments for part in (a if type(a) is tuple else (a,))]
        return [part for part in parts if isinstance(part, Place)]

    def text(self, shown: Mapping[str, str]) -> str:
        """The call that makes the exception; `shown` are the expressions for arguments, which are only named otherwise."""
        return f"{self.kind}({', '.join(_spelled(a, shown) for a in self.arguments)})"

    def at_point(self, k: int, place: str, shown: Mapping[str, str], start: str = "") -> list[str]:
        """The statements that raise it, the k-th, with a note of the point after `start`; `shown` may use `point`."""
        number = f"{start} + point" if start else "point"
        return [
            f"point = int({place})",
            f"error{k} = {self.text(shown)}",
            f'error{k}.add_note(f"at point {{{number}}}")',
            f"raise error{k}",
        ]

    def __str__(self) -> str:
        texts = [a if type(a) is tuple else (a,) for a in self.arguments]
        says = ["".join(f"{{{part}}}" if isinstance(part, Place) else str(part) for part in text) for text in texts]
        return f"{self.kind}: {', '.join(says)}" if says else self.kind


def _spelled(argument: Message | Place | Constant, shown: Mapping[str, str]) -> str:
    if isinstance(argument, Constant):
        return literal(argument.value)
    if isinstance(argument, Place):
        return argument.text(shown) or literal(str(argument))
    texts = [(part, part.text(shown) if isinstance(part, Place) else "") for part in argument]
    return message_literal(*(Shown(text) if text else str(part) for part, text in texts))
