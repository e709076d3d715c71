"""Views and structural calls as NumPy text, as people write them: `x[1:]`, `W.T`, `np.matmul(W, X, out=v0)`.

Assumes nodes of a Program of whole arrays. Guarantees text that evaluates to the node's value. Refuses, with `ExportError`, to
write constant arrays beyond `LARGEST` numbers into a file.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np

from symdiff.codegen.expressions import ATOM, Expression
from symdiff.codegen.text import tuple_text, wrapped_text
from symdiff.errors import ExportError
from symdiff.ir.node import Node
from symdiff.lowering.program import is_view_step
from symdiff.vocabulary import structures
from symdiff.vocabulary.extents import has_extents
from symdiff.vocabulary.heads import HEADS, NUMPY, Shape, Slice, Words, key_literal
from symdiff.vocabulary.literals import number_literal
from symdiff.vocabulary.matrices import sources_of
from symdiff.vocabulary.traits import operations

LARGEST = 10_000
_DIAGONALS = 3  # of a matrix that is written as their sum
_STRETCH = 20  # equal numbers that are written as one
Text = Callable[[int], str]
Size = Callable[[Any], str]
OVERWRITING = operations("overwrites")
PLACING = operations("fills") - {"cells"}


@dataclass(frozen=True, slots=True)
class Whole:
    """An array as an expression: `core`, of shape `cored`, in another shape, for which `own` is the expression if there is one;
    `spread`: by repeating cells. `is_new`: nothing else has its memory."""

    core: Expression
    cored: Shape
    shape: Shape
    own: Expression | None = None
    spread: bool = False
    is_new: bool = False
    turned: Expression | None = None  # what this is the transposed array of

    def text(self, np: str = "np", size: Size = str) -> Expression:
        """The array in its own shape; `size` is the text of a number of cells."""
        if self.own is not None or self.shape == self.cored:
            return self.own or self.core
        shape, cored, array = self.shape, self.cored, self.core.at(ATOM)
        if shape == ():
            return part_text(self.core, ["0"] * len(cored), self.core.depth)
        if cored == ():
            return Expression(f"{np}.reshape({self.core}, {tuple_text([*map(size, shape)])})", ATOM, self.core.depth)
        new = "[None]" if shape == (1, *cored) else "[:, None]" if shape == (*cored, 1) and len(cored) == 1 else ""
        new = new or ("[..., None]" if shape == (*cored, 1) else "")
        return Expression(array + (new or f".reshape({', '.join(map(size, shape)) or '()'})"), ATOM, self.core.depth)


class Part(Expression):
    """Some cells of an array, by the keys of its first axes."""

    __slots__ = ("array", "keys")

    def __init__(self, array: str, keys: tuple[str, ...], depth: int) -> None:
        super().__init__(f"{array}[{', '.join(keys)}]", ATOM, depth)
        self.array, self.keys = array, keys


def part_text(array: Expression, keys: Sequence[str], depth: int = 0) -> Expression:
    """Some cells of an array; those of a part of it by all keys at once, where axes are whole in one of both."""
    keys = list(keys)
    while keys and keys[-1] == ":":
        keys.pop()
    if not keys:
        return array
    if isinstance(array, Part):
        joined, axes = list(array.keys), [axis for axis, key in enumerate(array.keys) if ":" in key]
        joined += [":"] * max(0, len(keys) - len(axes))
        axes += range(len(array.keys), len(joined))
        if all(":" in (key, joined[axis]) for axis, key in zip(axes, keys, strict=False)):
            for axis, key in zip(axes, keys, strict=False):
                joined[axis] = key if joined[axis] == ":" else joined[axis]
            return Part(array.array, tuple(joined), depth)
    return Part(array.at(ATOM), tuple(keys), max(depth, array.depth))


def region(text: str, key: tuple[Slice, ...], shape: Shape) -> str:
    """A region of an array as text; the array itself where the region is everything."""
    return part_text(Expression(text, ATOM, 0), _keys(key, shape, str)).text


def _keys(key: tuple[Slice, ...], shape: Shape, size: Size) -> list[str]:
    """The key of each axis."""
    found = []
    for part, n in zip(key, shape, strict=True):
        start, stop, step = part
        if has_extents((start, stop, n)):
            ends = ["" if start == 0 else size(start), "" if stop is None or stop == n else size(stop)]
            found.append(":".join(ends) + ("" if step == 1 else f":{step}"))
        else:
            found.append(":" if part == (0, n, 1) else key_literal((part,), (n,)).replace("...", ":"))
    return found


def view_words(nodes: list[Node], value: int) -> str:
    """What a view shows of its operand, as the end of a name: _T for `x.T`, _tail for `x[1:]`."""
    node = nodes[value]
    inner, shape = nodes[node.operands[0]].shape, node.shape
    if node.op == "getitem":
        return region_words(node.params["key"], inner)
    if node.op == "reshape":
        if len(shape) > 1 and [n for n in inner if n != 1] == [n for n in shape if n != 1]:
            return "" if len(shape) < len(inner) else "_column" if shape[-1:] == (1,) else "_row"
        return "_flat" if len(shape) == 1 else f"_{'_by_'.join(map(str, shape))}"
    return {"transpose": "_T", "broadcast_to": "_repeated"}.get(node.op, f"_{node.op}")


def region_words(key: tuple[Slice, ...], shape: Shape) -> str:
    """What a region shows of an array, as the end of a name: _tail for `x[1:]`, _all_head for `x[:, :-1]`."""
    words = [_slice_word(part, n) for part, n in zip(key, shape, strict=True)]
    while words and words[-1] == "_all":
        words.pop()
    return "".join(words)


def _slice_word(part: Slice, n: int) -> str:
    """`x[1:]` is the tail, `x[:-2]` the head_2, `x[1:-1]` is inner; other slices are told by their numbers."""
    start, stop, step = part
    if step < 0:
        return "_reversed" if step == -1 and start == n - 1 and stop is None else f"_down_from_{start}_by_{-step}"
    end = n if stop is None or len(range(start, stop, step)) == len(range(start, n, step)) else stop
    if step == 2 and start < 2 and end == n:
        return "_odd" if start else "_even"
    if step > 1 or (end == start + 1 and n > 1):
        return ("_last" if end == n else f"_{start}") if step == 1 else f"_from_{start}_to_{end}_by_{step}"
    left, right = start, n - end
    if not left and not right:
        return "_all"
    if max(left, right) < 10 and (not left or not right or left == right):
        word = "_inner" if left == right else "_tail" if left else "_head"
        return word if max(left, right) == 1 else f"{word}_{max(left, right)}"
    return f"_from_{start}" * bool(left) + f"_to_{end}" * bool(right)


def added_text(place: str, text: str, np: str) -> str:
    """What is added to a region of an array."""
    return f"{np}.add({place}, {text}, out={place})  # {place} += {text}"


def clearing_text(text: str, besides: tuple[Slice, ...], shape: Shape) -> list[str]:
    """Zeros in an array, but for a region along its first axis."""
    if not besides:
        return [f"{text}.fill(0)"]
    start, stop, _ = besides[0]
    lines = [f"{text}[:{start}].fill(0)"] if start else []
    return lines + ([f"{text}[{stop if stop < shape[0] - 9 else stop - shape[0]}:].fill(0)"] if stop < shape[0] else [])  # type: ignore[operator]


def view_text(nodes: list[Node], value: int, text: Text, words: Words) -> str:
    """A view as an expression over what it looks at, in the words of a library."""
    return _view(nodes, value, text, words).text(words.np).text


def _view(nodes: list[Node], value: int, text: Text, words: Words) -> Whole:
    node = nodes[value]
    if not is_view_step(node):
        return Whole(Expression(text(value), ATOM, 0), node.shape, node.shape)
    return viewed(node, _view(nodes, node.operands[0], text, words), words)


def viewed(node: Node, whole: Whole, words: Words = NUMPY, size: Size = str) -> Whole:
    """A view of an array, or of a number; reshaped cells are seen in their first shape, and a region of one cell along an axis
    without the axis."""
    shape, source = node.shape, whole.text(words.np, size)
    if node.op == "reshape" and not whole.spread:
        return replace(whole, shape=shape, own=None, turned=None)
    if node.op == "reshape":
        return Whole(source, whole.shape, shape)
    if node.op == "broadcast_to":
        text = f"{words.np}.broadcast_to({source}, {tuple_text([*map(size, shape)])})"
        return Whole(source, whole.shape, shape, Expression(text, ATOM, source.depth), True, whole.shape == ())
    if node.op == "getitem":
        key = node.params["key"]
        keys = _keys(key, whole.shape, size)
        single = [m == 1 != n and step == 1 for m, n, (_, _, step) in zip(shape, whole.shape, key, strict=True)]
        core = part_text(source, [size(part[0]) if one else k for k, one, part in zip(keys, single, key, strict=True)])
        cored = tuple(n for n, one in zip(shape, single, strict=True) if not one)
        return Whole(core, cored, shape, part_text(source, keys))
    if node.op == "transpose" and not whole.spread and _in_order(node.params["axes"], whole.shape):
        return replace(whole, shape=shape, own=None, turned=None)  # a column as a row
    turned = node.op == "transpose" and node.params["axes"] == tuple(reversed(range(len(shape))))
    if turned and whole.turned is not None:
        return Whole(whole.turned, shape, shape)
    if node.op == "diagonal" and len(shape) == 1:
        return Whole(Expression(f"{words.np}.diag({source})", ATOM, source.depth), shape, shape)
    text = source.at(ATOM)
    text = (
        _transposed(text, node.params["axes"])
        if node.op == "transpose"
        else HEADS[node.op].text.format(text, **words._asdict())
    )
    return Whole(Expression(text, ATOM, source.depth), shape, shape, turned=source if turned else None)


def _in_order(axes: tuple[int, ...], shape: Shape) -> bool:
    """Whether axes of several cells keep their order."""
    kept = [a for a in axes if shape[a] != 1]
    return kept == sorted(kept)


def shape_text(shape: Shape) -> str:
    """A shape as arguments: 3, 4."""
    return ", ".join(map(str, shape)) if shape else "()"


def _transposed(text: str, axes: tuple[int, ...]) -> str:
    n = len(axes)
    if axes == tuple(reversed(range(n))):
        return f"{text}.T"
    moved = [i for i in range(n) if axes[i] != i]
    if len(moved) == 2:
        return f"{text}.swapaxes({moved[0]}, {moved[1]})"
    return f"{text}.transpose({', '.join(map(str, axes))})"


def emit_step(
    nodes: list[Node], value: int, texts: list[str], target: str, planned: bool, named: Callable[[np.ndarray], str],
    words: Words = NUMPY, around: str = "{}",
) -> list[str]:  # fmt: skip
    """The lines that compute a structural node into `target`, in the words of a library.

    `named` gives constant arrays their names; `around` goes around a call that makes an array of its own.
    """
    node = nodes[value]
    params = {
        k: named(v) if isinstance(v, np.ndarray) or k == "site" else static_text(v) for k, v in (node.params or {}).items()
    }
    if node.op in PLACING:
        start = _copied(target, texts[0], words.np) if node.op in OVERWRITING else f"{target}.fill(0)"
        return [start, *placing_lines(node, texts, target, params, words.np)]
    if node.op == "cells":
        return _cells(node, texts, target)
    call = call_text(nodes, value, texts, params, words)
    head = "{0} @ {1}" if node.op == "matmul" else _head(nodes, value).replace("{np}.", "").replace("{clip}", "")
    shown = head.format(*texts, operands=", ".join(texts), **params, **words._asdict())
    return [f"{call[:-1]}, out={target})  # {target} = {shown}"] if planned else [f"{target} = {around.format(call)}"]


def call_text(nodes: list[Node], value: int, texts: list[str], params: dict[str, str], words: Words = NUMPY) -> str:
    """The call that makes a new array, or a number."""
    return _head(nodes, value).format(*texts, operands=", ".join(texts), **params, **words._asdict())


def _head(nodes: list[Node], value: int) -> str:
    node = nodes[value]
    head = HEADS[node.op].text
    if node.op in ("sum", "prod", "amax", "amin", "any", "all") and len(node.params["axes"]) == len(
        nodes[node.operands[0]].shape
    ):
        head = f"{head.partition('(')[0]}({{0}})"
    return head


def static_text(value: Any) -> str:
    """A parameter of a call."""
    return repr(value[0] if isinstance(value, tuple) and len(value) == 1 and isinstance(value[0], int) else value)


def placing_lines(
    node: Node, texts: list[str], target: str, params: dict[str, str], np: str, add: bool = False
) -> list[str]:  # fmt: skip
    """What is put, or added, to some cells of an array."""
    if node.op in ("scatter", "scatter_at"):
        known = node.op == "scatter"
        places = shown = params["indices"] if known else texts[1]
        places = places if known else _places(texts[1], node.shape[0], np)
        return [f"{np}.add.at({target}, {places}, {texts[0]})  # {target}[{shown}] += {texts[0]}"]
    if node.op in ("put", "set"):
        place = region(target, node.params["key"], node.shape)
        place = f"{place}[...]" if place == target else place
    elif node.op == "assign_at":
        place = f"{target}[{_places(texts[1], node.shape[0], np)}]"
    elif node.op == "set_at":
        place = f"{target}.reshape(-1)[{params['indices']}]"
    else:  # embed
        n = node.shape[-1]
        flat = f"{target}.reshape({', '.join(map(str, (*node.shape[:-2], n * n)))})"
        place = f"{flat}[{'..., ' if len(node.shape) > 2 else ''}::{n + 1}]"
    return [f"{place} {'+=' if add else '='} {texts[-1 if node.op in OVERWRITING else 0]}"]


def _cells(node: Node, texts: list[str], target: str) -> list[str]:
    if len(set(texts)) == 1:
        return [f"{target}.fill({texts[0]})"]
    flat = target if len(node.shape) == 1 else f"{target}.reshape(-1)"
    return wrapped_text(f"{flat}[...] = [", texts, "]")


def _copied(target: str, text: str, np: str) -> str:
    return f"{np}.copyto({target}, {text})  # {target} = {text}"


def _places(text: str, n: Any, np: str) -> str:
    """Whole numbers as places of rows, of which there are n."""
    return f"{np}.asarray({text}).astype({np}.intp).clip(0, {n - 1})"


def support_texts(ops: Iterable[str], np: str) -> list[str]:
    """The functions of files that operations call."""
    heads = (HEADS[op] for op in ops if op in HEADS)
    return sources_of((head.function for head in heads if head.text.startswith("_")), np)


def constant_text(value: np.ndarray, words: Words = NUMPY) -> str:
    """A constant array as text in the words of a library, over several lines where it is long."""
    known = _pattern(value, words.np)
    if known:
        return known
    if value.size > LARGEST:
        raise ExportError(
            f"an array of {value.size} numbers that the function holds would be written into the file; pass it as an argument"
        )
    parts = _run([number_literal(v, words.np) for v in value.ravel().tolist()])
    shape = "" if value.ndim == 1 else f".reshape({shape_text(value.shape)})"
    return "\n".join(wrapped_text(f"{words.np}.array([", parts, f"], dtype={words.np}.{_kind(value)}){shape}"))


def _run(parts: list[str]) -> list[str]:
    """Literals, those between the first and the last as one where they are all alike, and long stretches of equal ones."""
    if len(parts) > 10 and len(set(parts[1:-1])) == 1:
        return [parts[0], f"*[{parts[1]}] * {len(parts) - 2}", parts[-1]]
    stretches = [(literal, len(list(same))) for literal, same in groupby(parts)]
    found = [[f"*[{literal}] * {count}"] if count > _STRETCH else [literal] * count for literal, count in stretches]
    return [literal for stretch in found for literal in stretch]


def _kind(value: np.ndarray) -> str:
    return "bool_" if value.dtype == bool else value.dtype.name


def _pattern(value: np.ndarray, module: str) -> str:
    """Identity matrices, triangles, ranges and repeated numbers as the calls that make them; "" for other arrays."""
    if value.ndim == 2 and value.dtype == bool:
        for k in range(1 - len(value), value.shape[1]):
            lower = np.tri(value.shape[0], value.shape[1], k, dtype=bool)
            for triangle, text in ((lower, f"{module}.tri"), (~lower, f"~{module}.tri")):
                if np.array_equal(value, triangle):
                    return f"{text}({shape_text(value.shape)}, k={k}, dtype=bool)"
    whole = value.dtype.kind == "i" or (value.dtype == float and np.array_equal(value, np.trunc(value)))
    if value.ndim == 1 and value.size > 2 and whole and len(set(np.diff(value).tolist())) == 1 and value[1] != value[0]:
        first, step = value[0].item(), (value[1] - value[0]).item()
        return f"{module}.arange({first}, {value[-1].item() + (1 if step > 0 else -1)}, {step})"
    first = value.flat[0] if value.size else None
    if value.size > 1 and value.tobytes() == np.full(value.shape, first).astype(value.dtype).tobytes():
        if first == 1 and value.dtype.kind == "f":
            kind = "" if value.dtype == float else f", dtype={module}.{_kind(value)}"
            return f"{module}.ones({value.shape!r}{kind})"
        number = number_literal(first.item(), module)  # type: ignore[union-attr]
        return f"{module}.full({value.shape!r}, {number}, dtype={module}.{_kind(value)})"
    is_real = value.ndim == 2 and min(value.shape) > 1 and value.dtype == float and np.isfinite(value).all()
    return _diagonals(value, module) if is_real else ""


def _diagonals(value: np.ndarray, module: str) -> str:
    """A matrix as multiples of a triangle and of three diagonals at most; "" for others."""
    n, m = value.shape
    own = shape_text(value.shape if n != m else (n,))
    ends = sorted((abs(k), -k, (max(-k, 0), max(k, 0))) for k in range(1 - n, m))  # the first cells of diagonals
    for below in (0.0, float(value[-1, 0])):
        found, parts = np.tri(n, m) * below, [(below, f"{module}.tri({own})")] * bool(below)
        others = [(-k, float(value[place] - found[place])) for _, k, place in ends if value[place] != found[place]]
        for k, number in others if len(others) <= _DIAGONALS else ():
            found = found + number * np.eye(n, m, k)
            parts.append((number, f"{module}.eye({own}{f', k={k}' if k else ''})"))
        if parts and found.tobytes() == value.tobytes():
            signs = [" + " if number > 0 else " - " for number, _ in parts]
            times = ["" if abs(number) == 1 else f"{number_literal(abs(number), module)} * " for number, _ in parts]
            texts = "".join(f"{sign}{factor}{text}" for sign, factor, (_, text) in zip(signs, times, parts, strict=True))
            return texts.removeprefix(" + ") if parts[0][0] > 0 else f"-{texts.removeprefix(' - ')}"
    return ""


def imported_text(site: Any, alias: str) -> str:
    """The import of an opaque function by its qualified name."""
    function = site.function
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "")
    if not module or module == "__main__" or not name.isidentifier():
        raise ExportError(
            f"{site.rule.source}: {site.rule.name} is a primitive, which a file imports by its name; define it at the top of a "
            "module that can be imported"
        )
    return f"from {module} import {name}" + ("" if alias == name else f" as {alias}")


def primitive_text(site: Any, name: str, alias: str) -> str:
    """The function of a file that calls an opaque function, and gives its results as one array."""
    static, count = dict(site.static), len(site.kinds)
    if len(site.rule.parameters) != count + len(static) or not all(isinstance(v, _WRITTEN) for v in static.values()):
        raise ExportError(
            f"{site.rule.source}: {site.rule.name} is a primitive that takes a structure or an object; files call "
            "primitives of arrays, numbers and texts"
        )
    operands = iter(range(count))
    moving = site.moving or (False,) * count
    args = [repr(static[k]) if k in static else next(operands) for k in range(count + len(static))]
    texts = [
        a
        if isinstance(a, str)
        else f"args[{a}]" + ("[k]" if moving[a] else "") + {"l": ".astype(int)", "?": ".astype(bool)"}.get(site.kinds[a][1], "")
        for a in args
    ]
    call = f"{alias}({', '.join(texts)})"
    several = len(site.results) > 1
    if not isinstance(structures.unflatten(site.out_tree, range(len(site.results))), (int, list, tuple)):
        raise ExportError(f"{site.rule.source}: {site.rule.name} returns a structure; files call primitives that return arrays")
    is_plain, kind = site.code == "d", f"np.{np.dtype(site.code).name}"
    shapes = ", ".join(repr(shape) for shape, _ in site.results)
    indent = "        " if site.moving else "    "
    place = "out[k, ...]" if site.moving else "out[...]"
    return "\n".join([
        f"def {name}(*given: Any, out: Any = None) -> Any:",
        f'    """What {alias} returns, as one array; it cannot write to its arguments."""',
        f"    out = np.empty({site.shape!r}{'' if is_plain else f', dtype={kind}'}) if out is None else out",
        "    args = [np.asarray(g).view() for g in given]",
        "    for array in args:",
        "        array.flags.writeable = False",
        *([f"    for k in range({site.count}):"] if site.moving else []),
        f"{indent}found = [np.asarray(r, dtype={'float' if is_plain else kind}) for r in {call if several else f'[{call}]'}]",
        f"{indent}if [f.shape for f in found] != [{shapes}]:",
        f'{indent}    raise ValueError(f"{alias} returns shapes {{[f.shape for f in found]}}, [{shapes}] were told")',
        f"{indent}{place} = {'np.concatenate([f.ravel() for f in found])' if several else 'found[0]'}",
        "    return out[()]",
    ])  # fmt: skip


_WRITTEN = (bool, int, str, type(None))
