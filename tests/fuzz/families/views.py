"""Programs that take views of arrays, write through them and through what they are views of, and hand them around.

Each is made line by line and run by NumPy as it grows, so that only lines stay that NumPy takes. Arguments that NumPy would
change must be refused.
"""

import random

import numpy as np

import symdiff as sd

from ..harness import RIGHT, Verdict, Wrong

HEAD = """
def shift(a, by):
    a += by
    return a


def cut(a):
    return a[1:]


class Box:
    def __init__(self, a):
        self.a = a


def f(x):
"""
FRESH = (
    "np.zeros({shape})", "np.zeros_like({a}.T)", "np.ones({shape})", "np.full({shape}, 0.3)", "np.zeros_like({a})",
    "{a} * {c}", "np.sin({a})", "{a}.copy()", "np.array({a})", "np.copy({a})", "+{a}", "{a} + 1j * {c} * {a}",
    "np.reshape(x, {shape}) * {c}", "np.resize(x, {shape})", "np.outer(x[:3], x[:4])", "np.stack([{a}, {a}])",
    "np.concatenate([{a}, {a}])", "np.cos({a}).copy()", "np.full_like({a}, 0.7)", "np.roll({a}, 1)", "{a}.astype({a}.dtype)",
    "np.where({a} > 0.1, {a}, 0.2)", "np.tile({a}, 2)", "np.r_[{a}, {a}]", "np.c_[{a}, {a}]",
)  # fmt: skip
VIEWS = (
    "{a}[1:]", "{a}[:-1]", "{a}[::2]", "{a}[::-1]", "{a}[0]", "{a}[-1]", "{a}[..., 0]", "{a}[0, ...]", "{a}[...]",
    "{a}[None]", "{a}[:, 1:]", "{a}[:, None]", "{a}[1:, 0]", "{a}.T", "{a}.reshape(-1)", "{a}.reshape(2, -1)",
    "{a}.T.reshape(-1)", "{a}.ravel()", "{a}.flatten()", "np.ravel({a})", "np.squeeze({a})", "{a}.squeeze()",
    "np.swapaxes({a}, 0, -1)", "{a}.swapaxes(0, 1)", "np.moveaxis({a}, 0, -1)", "np.transpose({a})", "np.expand_dims({a}, 0)",
    "np.atleast_1d({a})", "np.atleast_2d({a})", "np.atleast_3d({a})", "np.diagonal({a})", "np.diag({a})", "{a}.diagonal(1)",
    "np.einsum('ii->i', {a})", "np.einsum('ij->ji', {a})", "np.flip({a})", "np.flip({a}, 0)", "np.fliplr({a})",
    "np.flipud({a})", "np.rot90({a})", "{a}.real", "{a}.imag", "np.real({a})", "np.imag({a})", "np.asarray({a})",
    "np.asanyarray({a})", "np.ascontiguousarray({a})", "{a}.astype({a}.dtype, copy=False)", "np.split({a}, 2)[1]",
    "np.array_split({a}, 3)[0]", "np.hsplit({a}, 2)[0]", "np.broadcast_to({a}, (2,) + {a}.shape)", "{a}[[0, 1]]",
    "{a}[{a} > 0.2]", "np.take({a}, [0, 1])", "{a}.view()", "np.lib.stride_tricks.as_strided({a}, (2,), {a}.strides[-1:])",
    "np.array({a}, copy=False)", "cut({a})", "Box({a}).a", "[{a}, {a}][0]", "{a}[{a}.shape[0] // 2 :]",
    "np.compress([True, False], {a}, axis=0)", "{a}[()]", "{a}.conj()", "np.broadcast_arrays({a}, {a})[0]",
    "np.nan_to_num({a}, copy=False)", "np.require({a})", "{a}[int(np.argmax(x))]",
    "np.astype({a}, {a}.dtype, copy=False)", "np.ma.getdata({a})", "{a}.__array__()", "np.polyder({a}, 0)",
    "np.linalg.matrix_power({a}, 1)", "np.broadcast_arrays({a}, {a}[:1])[0]", "{a}.real[::2]", "{a}.T.imag",
    "np.apply_over_axes(np.sum, {a}, ())", "np.atleast_1d({a}, {a})[1]", "np.ma.asarray({a}).data", "np.diff({a}, 0)",
)  # fmt: skip
WRITES = (
    "{v}[...] = {e}", "{v}[:] = {e}", "{v}[0] = {e}", "{v}[-1] = {e}", "{v}[1:] = {e}", "{v}[::-1] = {e}",
    "{v}[..., 0] = {e}", "{v} += {e}", "{v} -= {e}", "{v} *= {e}", "{v} /= 1.5", "{v} **= 2", "{v}[1:] *= {e}",
    "{v}[0] += {e}", "{v}[[0, 1, 0]] = {e}", "{v}[{v} > 0.2] = {e}", "{v}[{v} > 0.2] *= {c}", "{v}.flat[1] = {e}",
    "{v}.flat[::2] = {c}", "{v}.fill({e})", "np.copyto({v}, {e})", "np.copyto({v}, {e}, where={v} > 0.1)",
    "np.put({v}, [0, 2], {c})", "np.place({v}, {v} > 0.3, {c})", "np.putmask({v}, {v} > 0.1, {e})",
    "np.fill_diagonal({v}, {c})", "np.add.at({v}, [0, 1, 0], {e})", "shift({v}, {e})", "np.multiply({v}, {e}, out={v})",
    "np.add({v}, {c}, {v})", "np.sin({v}, out={v})", "np.add({v}, 1.0, out={v}, where={v} > 0.2)", "np.cumsum({v}, out={v})",
    "np.clip({v}, -0.5, 0.5, out={v})", "np.clip({v}, -0.5, 0.5, {v})", "np.sum({v}, axis=0, out={a})",
    "np.take({v}, [1, 0], axis=0, out={v}[:2])", "np.dot({a}, {a}, out={v})", "np.matmul({a}, {a}, out={v})", "{v}.sort()",
    "for row in {v}: row *= {c}", "for row in {v}: row += {e}", "for k in range(len({v})): {v}[k] = {v}[k - 1] * {c}",
    "for k, row in enumerate({v}): row[k] = {c}", "[{v}, {a}][0][...] = {e}", "Box({v}).a[0] = {e}", "cut({v})[...] = {e}",
    "{v}.real[...] = {c}", "{v}.imag = {c}", "{v}.T[0] = {e}", "{v}.reshape(-1)[1] = {e}", "{v}.ravel()[:2] = {e}",
    "{v}.flatten()[:2] = 9.0", "np.modf({v}, out=({v}, {v}.copy()))", "{v}.put([1], {c})", "{v}.itemset(0, {c})",
    "np.negative({v}, {v})", "np.divmod({v}, 0.7, out=({v}.copy(), {v}))", "{v}.T.reshape(-1)[0] = {c}",
    "{v}[int(np.argmax(x))] *= {c}", "np.round({v}, 1, out={v})", "np.mean({v}, axis=0, out={a})", "{v} = {v} * {c}",
    "np.add.at({v}, [1, 2, 3], {v}[:3])", "{v}.shape = (-1,)", "{v}.round(1, out={v})",
    "np.modf({v}, out=({v}, {v}))", "np.place({v}, {v} > 0.1, {v})", "{v}.flat = {v}[-2:]", "{v}.imag += 1", "{v}.real *= 2",
    "{v} %= 0.7", "{v} //= 0.3", "np.put_along_axis({v}, np.argsort({v}, -1), {c}, -1)",
)  # fmt: skip
SCALARS = ("0.5", "1.5", "x[0]", "x[1] * x[2]", "-0.25", "np.sin(x[3])")


def trial(source: random.Random) -> Verdict:
    n = source.choice((4, 6, 8, 12, 72))
    x = np.round(np.random.default_rng(source.randrange(10**6)).uniform(-1, 1, n), 6)
    lines = grown(source, x, 3 + source.randrange(10))
    text = program(lines)
    f = compiled(text, f"views_{source.randrange(10**9)}.py")
    argument = x.copy()
    with np.errstate(all="ignore"):
        value = f(argument)
    changes = not np.array_equal(argument, x)
    direction = np.random.default_rng(1).uniform(-1, 1, n)
    try:
        found, gradient = sd.value_and_grad(f)(x.copy())
    except (sd.SymdiffError, IndexError) as error:
        if not isinstance(error, sd.SymdiffError) and ".py:" not in str(error):
            raise Wrong(f"{text}\n{type(error).__name__}: {error}") from None
        return Verdict("refused", str(error))
    except Exception as error:
        raise Wrong(f"{text}\nx = {x.tolist()}\n{type(error).__name__}: {error}") from error
    if changes:
        raise Wrong(f"{text}\nx = {x.tolist()}\nthe argument is assigned to, and this is not refused")
    if not np.allclose(found, value, rtol=1e-9, atol=1e-9, equal_nan=True):
        raise Wrong(f"{text}\nx = {x.tolist()}\nvalue {found}, NumPy's {value}")
    slopes = [slope(f, x, direction, step) for step in (1e-5, 1e-6)]
    if abs(slopes[0] - slopes[1]) > 1e-4 * (1 + abs(slopes[0])) or not np.isfinite(slopes).all():
        return RIGHT  # at a kink or a jump
    if not abs(gradient @ direction - slopes[1]) < 1e-3 * (1 + abs(slopes[1])):
        raise Wrong(f"{text}\nx = {x.tolist()}\nslope {gradient @ direction}, by differences {slopes[1]}")
    return RIGHT


def slope(f, x, direction, step):
    with np.errstate(all="ignore"):
        return (f(x + step * direction) - f(x - step * direction)) / (2 * step)


def grown(source: random.Random, x: np.ndarray, count: int) -> list[str]:
    """Lines that NumPy takes."""
    lines = [f"    a0 = {source.choice(('x * 1.5', 'np.reshape(x, (2, -1)) + 0.1', 'np.outer(x, x[:4])', 'x.copy()'))}"]
    names = ["a0"]
    for _ in range(4 * count):
        if len(lines) > count:
            break
        kind = source.random()
        arrays = {"a": source.choice(names), "v": source.choice(names), "c": source.choice(SCALARS)}
        if kind < 0.03:
            arrays["a"] = arrays["v"] = "x"
        arrays["e"] = source.choice(
            (*SCALARS, source.choice(names), f"{arrays['v']} * {source.choice(SCALARS)}", "np.sin({v})")
        )
        arrays["e"] = arrays["e"].format(**arrays)
        arrays["shape"] = source.choice(("4", "(2, 3)", "(3, 3)", "(2, 2, 2)", "(9, 9)", "(70,)"))
        pattern = source.choice(FRESH if kind < 0.15 else VIEWS if kind < 0.5 else WRITES)
        line = pattern.format(**arrays)
        new = f"a{len(names)}" if pattern not in WRITES else None
        line = f"    {line}" if new is None else f"    {new} = {line}"
        if works([*lines, line], x):
            lines.append(line)
            names += [new] if new else []
    lines.append(f"    return total({', '.join(names)})")
    return lines


def program(lines: list[str]) -> str:
    return HEAD + "\n".join(lines) + "\n"


def total(*arrays):
    found = 0.0
    for k, a in enumerate(arrays):
        found = found + np.sum(np.cos(np.real(a) + 0.1 * k)) + np.sum(np.sin(np.imag(a)))
        if np.ndim(a):
            found = found + np.ravel(np.real(a))[0] * 0.3
    return found


def compiled(text: str, name: str):
    space = {"np": np, "total": total}
    exec(compile(text, name, "exec"), space)
    return space["f"]


def works(lines: list[str], x: np.ndarray) -> bool:
    names = [line.split()[0] for line in lines if line.split()[1:2] == ["="] and line.split()[0].startswith("a")]
    try:
        with np.errstate(all="ignore"):
            found = compiled(program([*lines, f"    return {', '.join(names)},"]), "views.py")(x.copy())
    except Exception:
        return False
    sizes = [np.size(a) for a in found]
    return sum(sizes) < 2000 and all(np.size(a) and np.isfinite(a).all() and np.abs(a).max() < 50 for a in found)
