"""Pieces of text that the emitters share: wrapped lists, dtype names, results in their structure.

Assumes short parts without newlines. Guarantees lines of at most 100 characters where the parts allow it.
"""

from collections.abc import Iterable, Sequence

from symdiff.vocabulary.literals import WIDTH

LARGE = 64  # cells, from which on a constant stands below the mathematics
_DTYPES = {"?": "bool_", "l": "intp", "f": "float32", "d": "float64", "F": "complex64", "D": "complex128"}


def dtype_text(code: str) -> str:
    """NumPy's name of a dtype code.

    >>> dtype_text("D")
    'complex128'
    """
    return _DTYPES[code]


def wrapped_text(opening: str, parts: list[str], closing: str, indent: str = "") -> list[str]:
    """`opening part, part, ... closing` on one line, or on several with the parts indented."""
    line = f"{indent}{opening}{', '.join(parts)}{closing}"
    if len(line) <= WIDTH:
        return [line]
    end = "" if not opening and len(parts) == 1 else ","  # which would make a tuple
    if not opening:
        opening, closing = "(", f"){closing}"
    lines = [f"{indent}{opening}"]
    current = ""
    for part in parts:
        if current and len(indent) + 5 + len(current) + len(part) + 2 > WIDTH:
            lines.append(f"{indent}    {current}")
            current = ""
        current += f"{' ' if current else ''}{part}{end}"
    if current:
        lines.append(f"{indent}    {current}")
    lines.append(f"{indent}{closing}")
    return lines


def indented(lines: Iterable[str]) -> list[str]:
    """Lines within a block of text."""
    return [f"    {line}" for line in lines]


def few_names(names: Sequence[str]) -> str:
    """Names side by side, of many the first."""
    return ", ".join(names if len(names) < 5 else [*names[:3], "..."])


def tuple_text(parts: Sequence[str]) -> str:
    """A tuple as text."""
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"


Result = int | tuple["Result", ...] | list["Result"]  # outputs by position, in the tuples and lists that a function returns


def emitted_result(count: int) -> Result:
    """The result of a function that returns one output, or several in a tuple."""
    return 0 if count == 1 else tuple(range(count))


def emits_flat_result(result: Result) -> bool:
    """Whether a result is one output, or outputs side by side."""
    return isinstance(result, int) or all(isinstance(part, int) for part in result)


def packed(result: Result, parts: Sequence[str], bare: bool = False) -> str:
    """The texts of outputs as one expression; `bare` leaves the parentheses of the outermost tuple away."""
    if isinstance(result, int):
        return parts[result]
    inside = ", ".join(packed(part, parts) for part in result)
    if isinstance(result, list):
        return f"[{inside}]"
    return inside if bare and len(result) > 1 else f"({inside}{',' if len(result) == 1 else ''})"


def unpacked(result: Result, names: Sequence[str], value: str) -> str:
    """The assignment of a result's outputs to names."""
    return f"{packed(_as_tuples(result), names, bare=True)} = {value}"


def _as_tuples(result: Result) -> Result:
    return result if isinstance(result, int) else tuple(map(_as_tuples, result))


def packed_lines(opening: str, result: Result, parts: Sequence[str], indent: str) -> list[str]:
    """`opening` and the texts of outputs, a line for each part of the outermost tuple or list."""
    if isinstance(result, int):
        return [f"{indent}{opening}{parts[result]}"]
    first, last = "[]" if isinstance(result, list) else "()"
    return [f"{indent}{opening}{first}", *(f"{indent}    {packed(part, parts)}," for part in result), f"{indent}{last}"]


def output_texts(result: Result, whole: str) -> list[str]:
    """The expression of each output in a result."""
    if isinstance(result, int):
        return [whole]
    return [text for k, part in enumerate(result) for text in output_texts(part, f"{whole}[{k}]")]


def number_type(code: str) -> str:
    """The type of a number."""
    return {"d": "float", "D": "complex", "?": "bool"}.get(code, "Any")


def nested_type(holder: str, shape: tuple[int, ...], kind: str) -> str:
    """The type of nested sequences."""
    for _ in shape:
        kind = f"{holder}[{kind}]"
    return kind
