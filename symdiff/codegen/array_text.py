"""Views and structural calls as NumPy text, as people write them: `x[1:]`, `W.T`, `np.matmul(W, X, out=v0)`.

Assumes nodes of a Program of whole arrays. Guarantees text that evaluates to the node's value. Refuses, with `ExportError`, to
write constant arrays beyond `LARGEST` numbers into a file.
"""

from collections.abc import Callable
from itertools import groupby
from typing import Any

import numpy as np

from symdiff.codegen.text import wrapped_text
from symdiff.errors import ExportError
from symdiff.ir.node import Node
from symdiff.vocabulary import structures
from symdiff.vocabulary.heads import HEADS, NUMPY, Shape, Slice, Words, key_literal
from symdiff.vocabulary.literals import number_literal
from symdiff.vocabulary.matrices import PADE, REACH

LARGEST = 10_000
_STRETCH = 20  # equal numbers that are written as one
Text = Callable[[int], str]


def region(text: str, key: tuple[Slice, ...], shape: Shape) -> str:
    """A region of an array as text; the array itself where the region is everything."""
    inside = key_literal(key, shape)
    return text if inside == "..." and all(k == (0, n, 1) for k, n in zip(key, shape, strict=True)) else f"{text}[{inside}]"


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
    node = nodes[value]
    source = node.operands[0]
    inner = nodes[source]
    if node.op == "reshape":
        indexed = _indexed(nodes, value, text)
        return indexed or _shaped(inner, node.shape, text(source), words.np)
    if node.op == "transpose":
        return _transposed(text(source), node.params["axes"])
    if node.op == "getitem":
        return region(text(source), node.params["key"], inner.shape)
    if node.op == "broadcast_to":
        return f"{words.np}.broadcast_to({text(source)}, {node.shape!r})"
    return HEADS[node.op].text.format(text(source), **words._asdict())


def _shaped(inner: Node, shape: Shape, text: str, np: str) -> str:
    """A reshape; a new last or first axis by None."""
    if inner.shape == ():
        return f"{np}.reshape({text}, {shape!r})"
    if shape == (*inner.shape, 1):
        return f"{text}[..., None]"
    if shape == (1, *inner.shape):
        return f"{text}[None]"
    return f"{text}.reshape({shape_text(shape)})"


def shape_text(shape: Shape) -> str:
    """A shape as arguments: 3, 4."""
    return ", ".join(map(str, shape)) if shape else "()"


def _indexed(nodes: list[Node], value: int, text: Text) -> str:
    """`x[3, 1:]`, where a region of single cells along some axes loses these axes; else ""."""
    node = nodes[value]
    inner = nodes[node.operands[0]]
    if inner.op != "getitem":
        return ""
    key = inner.params["key"]
    single = [n == 1 and k[2] == 1 and k[1] == k[0] + 1 for n, k in zip(inner.shape, key, strict=True)]
    if not any(single) or tuple(n for n, s in zip(inner.shape, single, strict=True) if not s) != node.shape:
        return ""
    source = inner.operands[0]
    shape = nodes[source].shape
    whole = [k == (0, n, 1) for k, n in zip(key, shape, strict=True)]
    parts = [
        str(k[0]) if s else ":" if all_of_it else key_literal((k,), (n,))
        for k, s, n, all_of_it in zip(key, single, shape, whole, strict=True)
    ]
    while len(parts) > 1 and parts[-1] == ":":
        parts.pop()
    return f"{text(source)}[{', '.join(parts)}]"


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
    filled = _FILLING.get(node.op)
    params = {k: named(v) if isinstance(v, np.ndarray) or k == "site" else _param(v) for k, v in (node.params or {}).items()}
    if filled is not None:
        return filled(node, texts, target, params, words.np)
    head = HEADS[node.op].text
    if node.op in ("sum", "prod", "amax", "amin") and len(node.params["axes"]) == len(nodes[node.operands[0]].shape):
        head = f"{head.partition('(')[0]}({{0}})"
    call, shown = (
        text.format(*texts, operands=", ".join(texts), **params, **words._asdict())
        for text in (head, "{0} @ {1}" if node.op == "matmul" else head.replace("{np}.", "").replace("{clip}", ""))
    )
    return [f"{call[:-1]}, out={target})  # {target} = {shown}"] if planned else [f"{target} = {around.format(call)}"]


def _param(value: Any) -> str:
    return repr(value[0] if isinstance(value, tuple) and len(value) == 1 and isinstance(value[0], int) else value)


def _cells(node: Node, texts: list[str], target: str, params: dict[str, str], np: str) -> list[str]:
    if len(set(texts)) == 1:
        return [f"{target}.fill({texts[0]})"]
    flat = target if len(node.shape) == 1 else f"{target}.reshape(-1)"
    return wrapped_text(f"{flat}[...] = [", texts, "]", "")


def _put(node: Node, texts: list[str], target: str, params: dict[str, str], np: str) -> list[str]:
    return [f"{target}.fill(0)", f"{_filled(target, node)} = {texts[0]}"]


def _filled(target: str, node: Node) -> str:
    """The region of a target that a node fills, as what stands before `=`."""
    found = region(target, node.params["key"], node.shape)
    return f"{found}[...]" if found == target else found


def _set(node: Node, texts: list[str], target: str, params: dict[str, str], np: str) -> list[str]:
    return [_copied(target, texts[0], np), f"{_filled(target, node)} = {texts[1]}"]


def _set_at(node: Node, texts: list[str], target: str, params: dict[str, str], np: str) -> list[str]:
    return [_copied(target, texts[0], np), f"{target}.reshape(-1)[{params['indices']}] = {texts[1]}"]


def _copied(target: str, text: str, np: str) -> str:
    return f"{np}.copyto({target}, {text})  # {target} = {text}"


def _scatter(node: Node, texts: list[str], target: str, params: dict[str, str], np: str) -> list[str]:
    return _added_at(target, params["indices"], params["indices"], texts[0], np)


def _scatter_at(node: Node, texts: list[str], target: str, params: dict[str, str], np: str) -> list[str]:
    return _added_at(target, _places(texts[1], node.shape[0], np), texts[1], texts[0], np)


def _assign_at(node: Node, texts: list[str], target: str, params: dict[str, str], np: str) -> list[str]:
    return [_copied(target, texts[0], np), f"{target}[{_places(texts[1], node.shape[0], np)}] = {texts[2]}"]


def _places(text: str, n: Any, np: str) -> str:
    """Whole numbers as places of rows, of which there are n."""
    return f"{np}.asarray({text}).astype({np}.intp).clip(0, {n - 1})"


def _added_at(target: str, places: str, shown: str, text: str, np: str) -> list[str]:
    return [f"{target}.fill(0)", f"{np}.add.at({target}, {places}, {text})  # {target}[{shown}] += {text}"]


def _embed(node: Node, texts: list[str], target: str, params: dict[str, str], np: str) -> list[str]:
    n = node.shape[-1]
    flat = f"{target}.reshape({', '.join(map(str, (*node.shape[:-2], n * n)))})"
    lead = "..., " if len(node.shape) > 2 else ""
    return [f"{target}.fill(0)", f"{flat}[{lead}::{n + 1}] = {texts[0]}"]


def _put_along(node: Node, texts: list[str], target: str, params: dict[str, str], np: str) -> list[str]:
    return [f"{np}.put_along_axis({target}, {texts[1]}, {texts[0]}, axis={params['axis']})"]


def _cofactors(node: Node, texts: list[str], target: str, params: dict[str, str], np: str) -> list[str]:
    """By singular values, so that singular matrices have them too."""
    n = node.shape[-1]
    return [
        *_singular_vectors(texts[0], np),
        f"others = {np}.prod({np}.where({np}.eye({n}, dtype=bool), 1.0, s[..., None, :]), -1)",
        f"sign = {np}.linalg.det(u) * {np}.linalg.det(vh)",
        f"u = ({np}.conj(u) * others[..., None, :]) @ {np}.conj(vh)",
        f"{target} = {np}.where(finite, sign[..., None, None] * u, {np}.nan)",
    ]


def _singular_vectors(x: str, np: str) -> list[str]:
    """As `heads._singular_vectors`."""
    return [
        f"finite = {np}.all({np}.isfinite({x}), axis=(-2, -1), keepdims=True)",
        f"u, s, vh = {np}.linalg.svd({np}.where(finite, {x}, 0.0))",
    ]


def _cofactors_along(node: Node, texts: list[str], target: str, params: dict[str, str], np: str) -> list[str]:
    n = node.shape[-1]
    return [
        *_singular_vectors(texts[0], np),
        f"own = {np}.eye({n}, dtype=bool)",
        f"others = {np}.prod({np}.where(own[:, None] | own, 1.0, s[..., None, None, :]), -1) * ~own",
        f"inner = {np}.conj(u.swapaxes(-1, -2)) @ {texts[1]} @ {np}.conj(vh.swapaxes(-1, -2))",
        "turned = -others * inner.swapaxes(-1, -2)",
        f"diagonal = {np}.diagonal(inner, axis1=-2, axis2=-1)",
        f"turned[..., range({n}), range({n})] = (others @ diagonal[..., None])[..., 0]",
        f"sign = {np}.linalg.det(u) * {np}.linalg.det(vh)",
        f"{target} = {np}.where(finite, sign[..., None, None] * ({np}.conj(u) @ turned @ {np}.conj(vh)), {np}.nan)",
    ]


def _inverse_transposed(node: Node, texts: list[str], target: str, params: dict[str, str], np: str) -> list[str]:
    """Where a matrix is singular, by its cofactors: infinite or NaN."""
    cofactors = _cofactors(node, texts, target, params, np)
    return [
        "try:",
        f"    {target} = {np}.linalg.inv({texts[0]}).swapaxes(-1, -2)",
        f"except {np}.linalg.LinAlgError:",
        *(f"    {line}" for line in cofactors),
        f"    {target} = {target} / {np}.linalg.det({texts[0]})[..., None, None]",
    ]


def _is_definite(node: Node, texts: list[str], target: str, params: dict[str, str], np: str) -> list[str]:
    return [
        f"{target} = {np}.ones({np}.shape({texts[0]})[:-2])",
        f"for k in {np}.ndindex({target}.shape):",
        "    try:",
        f"        {np}.linalg.cholesky({texts[0]}[k])",
        f"    except {np}.linalg.LinAlgError:",
        f"        {target}[k] = 0.0",
        f"{target} = {target}[()]",
    ]


def _expm(node: Node, texts: list[str], target: str, params: dict[str, str], np: str) -> list[str]:
    """As `matrices.expm`."""
    b = [repr(c) for c in PADE]
    return [
        f"a = {texts[0]}",
        f"u = {np}.max({np}.abs(a).sum(-2)) if a.size else 0.0",
        f"i = max(0, int({np}.ceil({np}.log2(u / {REACH!r})))) if 0 < u < {np}.inf else 0",
        "a = a / 2.0**i",
        f"s = {np}.eye({node.shape[-1]}, dtype=a.dtype)",
        "others = a @ a",
        "r = others @ others",
        "value = r @ others",
        f"u = value @ ({b[13]} * value + {b[11]} * r + {b[9]} * others)",
        f"u = a @ (u + {b[7]} * value + {b[5]} * r + {b[3]} * others + {b[1]} * s)",
        f"vh = value @ ({b[12]} * value + {b[10]} * r + {b[8]} * others)",
        f"vh = vh + {b[6]} * value + {b[4]} * r + {b[2]} * others + {b[0]} * s",
        f"{target} = {np}.linalg.solve(vh - u, vh + u)",
        "for _ in range(i):",
        f"    {target} = {target} @ {target}",
    ]


LOCALS = {
    "cofactors": "finite u s vh others sign", "inverse_transposed": "finite u s vh others sign", "is_definite": "k",
    "cofactors_along": "finite u s vh own others inner turned diagonal sign", "expm": "a u i s others r value vh",
}  # fmt: skip
_FILLING = {
    "expm": _expm,
    "cells": _cells,
    "cofactors": _cofactors,
    "cofactors_along": _cofactors_along,
    "inverse_transposed": _inverse_transposed,
    "is_definite": _is_definite,
    "put": _put,
    "set": _set,
    "set_at": _set_at,
    "scatter": _scatter,
    "scatter_at": _scatter_at,
    "assign_at": _assign_at,
    "embed": _embed,
    "put_along": _put_along,
}


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
    return "\n".join(wrapped_text(f"{words.np}.array([", parts, f"], dtype={words.np}.{_kind(value)}){shape}", ""))


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
    if value.ndim == 2 and value.dtype == float and np.array_equal(value, np.eye(*value.shape)):
        return f"{module}.eye({shape_text(value.shape if value.shape[0] != value.shape[1] else value.shape[:1])})"
    if value.ndim == 1 and value.size > 2 and value.dtype.kind == "i" and len(set(np.diff(value).tolist())) == 1:
        node = int(value[1] - value[0])
        if node:
            return f"{module}.arange({int(value[0])}, {int(value[-1]) + (1 if node > 0 else -1)}, {node})"
    first = value.flat[0] if value.size else None
    if value.size > 1 and value.tobytes() == np.full(value.shape, first).astype(value.dtype).tobytes():
        if first == 1 and value.dtype.kind == "f":
            kind = "" if value.dtype == float else f", dtype={module}.{_kind(value)}"
            return f"{module}.ones({value.shape!r}{kind})"
        number = number_literal(first.item(), module)  # type: ignore[union-attr]
        return f"{module}.full({value.shape!r}, {number}, dtype={module}.{_kind(value)})"
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
