"""Pieces of text that the emitters share: wrapped lists, docstrings, literals, dtype names.

Assumes short parts without newlines. Guarantees lines of at most 100 characters where the parts allow it. Refuses nothing.
"""

import math
from typing import Any

WIDTH = 100
_DTYPES = {"?": "bool_", "f": "float32", "d": "float64", "F": "complex64", "D": "complex128"}


def dtype_text(code: str) -> str:
    """NumPy's name of a dtype code.

    >>> dtype_text("D")
    'complex128'
    """
    return _DTYPES[code]


def wrapped(opening: str, parts: list[str], closing: str, indent: str) -> list[str]:
    """`opening part, part, ... closing` on one line, or on several with the parts indented."""
    line = f"{indent}{opening}{', '.join(parts)}{closing}"
    if len(line) <= WIDTH:
        return [line]
    if not opening:
        opening, closing = "(", f"){closing}"
    lines = [f"{indent}{opening}"]
    current = ""
    for part in parts:
        if current and len(indent) + 5 + len(current) + len(part) + 2 > WIDTH:
            lines.append(f"{indent}    {current}")
            current = ""
        current += f"{' ' if current else ''}{part},"
    if current:
        lines.append(f"{indent}    {current}")
    lines.append(f"{indent}{closing}")
    return lines


def docstring(doc: str) -> list[str]:
    """A docstring, indented as the first statement of a function."""
    if not doc:
        return []
    escaped = doc.replace("\\", "\\\\").replace('"""', "'''")
    first, *rest = escaped.splitlines()
    if not rest:
        return [f'    """{line}' if i == 0 else f"    {line}" for i, line in enumerate(_folded(first + '"""'))]
    lines = [f'    """{_folded(first)[0]}', *(f"    {line}" for line in _folded(first)[1:])]
    lines += [f"    {line}".rstrip() for line in rest]
    return [*lines, '    """']


def _folded(text: str) -> list[str]:
    lines = [""]
    for word in text.split(" "):
        if lines[-1] and len(lines[-1]) + len(word) + 1 > WIDTH - 7:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + word
    return lines


def number_literal(value: Any, module: str = "np") -> str:
    """A constant as text with all its bits; infinities and NaN in the words of a module, "np" or "math".

    >>> number_literal(0.25j), number_literal(float("-inf"))
    ('0.25j', '-np.inf')
    """
    if isinstance(value, complex):
        if value.real == 0 and math.copysign(1.0, value.real) > 0 and 0 < value.imag < math.inf:
            short = f"{value.imag:g}"
            return f"{short if float(short) == value.imag else repr(value.imag)}j"
        return f"complex({number_literal(value.real, module)}, {number_literal(value.imag, module)})"
    if isinstance(value, float) and not math.isfinite(value):
        return f"{module}.nan" if value != value else f"{module}.inf" if value > 0 else f"-{module}.inf"
    return repr(value)
