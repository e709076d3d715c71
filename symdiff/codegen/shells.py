"""What the functions of stand-alone files have around their mathematics: checks of arguments and of `out`, annotations.

Assumes inputs and outputs of a Program. Guarantees one line a check, and annotations of NumPy's types that a strict type
checker accepts.
"""

from collections.abc import Sequence

from symdiff.codegen.text import Result, dtype_text, emits_flat_result, output_texts, wrapped_text
from symdiff.lowering.program import Input, Output

INDENT = "    "
UNEVALUATED = "from __future__ import annotations"  # in text for this process, whose functions are a file's
ARRAY = '''def _array(name: str, x: Any, kind: Any, shape: tuple[Any, ...]) -> NDArray[Any]:
    """x as a NumPy array of a dtype and shape, "n" for points; what would lose something is refused."""
    if hasattr(x, "__array__") and not isinstance(x, np.generic) and type(x) not in (np.ndarray, np.memmap):
        raise TypeError(f"{name} is {type(x).__name__}; a plain NumPy array, as of np.asarray(x), is expected")
    found = np.asarray(x)
    if found.dtype.kind not in ("biufc" if np.dtype(kind).kind == "c" else "biuf"):
        raise TypeError(f"{name} has numbers of {found.dtype}, {kind.__name__} is expected")
    if len(shape) != found.ndim or any(n not in (m, "n") for m, n in zip(found.shape, shape, strict=True)):
        raise ValueError(f"{name} has shape {found.shape}, ({', '.join(map(str, shape))}) is expected")
    return np.require(found, kind, ["C", "A"])'''
CHECK_OUT = '''def _check_out(arrays: Any, *expected: Any) -> None:
    """Raise ValueError where arrays for results are not writeable, of their shape and dtype, and apart."""
    for k, (a, (shape, kind)) in enumerate(zip(arrays, expected, strict=True)):
        if type(a) not in (np.ndarray, np.memmap) or a.shape != shape or a.dtype != kind or not a.flags.writeable:
            raise ValueError(f"out {k} is no writeable NumPy array of {kind.__name__} {shape}")
        repeated = any(s == 0 and n > 1 for s, n in zip(a.strides, a.shape, strict=True))
        if repeated or any(np.shares_memory(a, b) for b in arrays[:k]):
            raise ValueError(f"out {k} has the same memory for several numbers")'''
POINTS = '''def _points(**counts: int) -> int:
    """The number of points, in which all arguments agree."""
    first, n = next(iter(counts.items()))
    for name, count in counts.items():
        if count != n:
            raise ValueError(f"{count} points in {name}, {n} in {first}")
    return n'''


def checked_input(leaf: Input, argument: str, axis: int | None = None) -> str:
    """The call that checks and converts an argument; `axis` is that of its points."""
    sizes = [*(['"n"'] if axis == 0 else []), *map(str, leaf.shape), *(['"n"'] if axis == -1 else [])]
    shape = f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"
    return f'_array("{argument}", {argument}, np.{dtype_text(leaf.dtype)}, {shape})'


def emit_out_check(outputs: Sequence[Output], shapes: Sequence[str], result: Result) -> list[str]:
    """The check of a given `out`, before anything is computed."""
    parts = [f"({shape}, np.{dtype_text(o.dtype)})" for o, shape in zip(outputs, shapes, strict=True)]
    return wrapped_text("_check_out(", [targets_text(result), *parts], ")", "")


def targets_text(result: Result) -> str:
    """The arrays of `out`, side by side, as one tuple."""
    if isinstance(result, tuple) and emits_flat_result(result):
        return "out"
    places = output_texts(result, "out")
    return f"({', '.join(places)}{',' if len(places) == 1 else ''})"


def annotated_result(result: Result, kinds: Sequence[str]) -> str:
    """The type of a result, from those of its outputs."""
    if isinstance(result, int):
        return kinds[result]
    parts = [annotated_result(part, kinds) for part in result]
    if isinstance(result, list):
        return f"list[{' | '.join(dict.fromkeys(parts))}]" if parts else "list[Any]"
    return f"tuple[{', '.join(parts) or '()'}]"


def annotated_array(output: Output, points: bool = False) -> str:
    """The type of an output: NumPy's number, or an array of them."""
    kind = f"np.{dtype_text(output.dtype)}"
    return f"NDArray[{kind}]" if output.shape or points else kind
