"""NumPy's discrete Fourier transforms on traced arrays: their sizes, norms and axes around three linear heads.

Assumes numbers of any kind for complex transforms, real ones for `rfft`. Guarantees NumPy's results; the heads `fft` and `bfft`
(backwards, not divided by n) are symmetric matrices, each its own transpose. Refuses complex input of real transforms, with
`TraceError`.
"""

import math
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from symdiff.tracing.values.operands import bound, part_of
from symdiff.tracing.values.standing import Array, stands_for
from symdiff.vocabulary.heads import Shape, half_weights

_BACKWARDS = {None: "forward", "backward": "forward", "ortho": "ortho", "forward": "backward"}


def _sized(x: Any, n: int | None, axis: int) -> Any:
    """The array with n cells along an axis, cut or filled with zeros."""
    if n is None or n == x.shape[axis]:
        return x
    if n < 1:
        raise ValueError(f"invalid number of data points ({n}) specified")
    if n < x.shape[axis]:
        return part_of(x, axis, slice(0, n))
    return np.pad(x, [(0, n - x.shape[axis] if i == axis else 0) for i in range(x.ndim)])


def _transformed(head: str, x: Any, n: int | None, axis: int, norm: str | None) -> Any:
    """The transform, divided as the norm of a forward one says."""
    axis = normalize_axis_index(axis, x.ndim)
    x = _sized(x, n, axis)
    n = x.shape[axis]
    if not n:
        raise ValueError("invalid number of data points (0) specified")
    found, scale = bound(head, x, axis=axis), _scale(n, norm)
    return found if scale == 1 else found * scale


def _scale(n: int, norm: str | None) -> float:
    if norm not in _BACKWARDS:
        raise ValueError(f'invalid norm value {norm}; should be "backward", "ortho" or "forward"')
    return 1.0 if norm in (None, "backward") else 1 / n if norm == "forward" else 1 / math.sqrt(n)


def _other(norm: str | None) -> str | None:
    return _BACKWARDS.get(norm, norm)


def _real(a: Any, n: int | None, axis: int, norm: str | None) -> Any:
    if a.dtype.kind == "c":
        raise ValueError("real numbers are needed; fft transforms complex ones")
    return _transformed("rfft", a, n, axis, norm)


def _of_half(z: Any, n: int | None, axis: int, norm: str | None) -> Any:
    """The real part of a transform in which all but the ends of the half spectrum count twice."""
    axis = normalize_axis_index(axis, z.ndim)
    n = 2 * (z.shape[axis] - 1) if n is None else int(n)
    if n < 1:
        raise ValueError(f"invalid number of data points ({n}) specified")
    half = n // 2 + 1
    weights = half_weights(n).reshape((-1,) + (1,) * (z.ndim - axis - 1)).astype(z.dtype.char.lower())
    whole = _sized(_sized(z, half, axis) * weights, n, axis)
    found, scale = _transformed("bfft", whole, None, axis, None).real, _scale(n, _other(norm))
    return found if scale == 1 else found * scale


def _named(name: str, transform: Any) -> Any:
    """A transform along one axis under its name."""

    @stands_for(getattr(np.fft, name), f"scipy.fft.{name}")
    def stand(a: Array, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
        return transform(a, n, axis, norm)

    return stand


fft, ifft, rfft, irfft, *_ = (
    _named(name, transform)
    for name, transform in {
        "fft": lambda a, n, axis, norm: _transformed("fft", a, n, axis, norm),
        "ifft": lambda a, n, axis, norm: _transformed("bfft", a, n, axis, _other(norm)),
        "rfft": _real,
        "irfft": _of_half,
        "hfft": lambda a, n, axis, norm: _of_half(np.conj(a), n, axis, _other(norm)),
        "ihfft": lambda a, n, axis, norm: np.conj(_real(a, n, axis, _other(norm))),
    }.items()
)


# -- several axes


def _axes(x: Any, s: Any, axes: Any) -> tuple[Shape, tuple[int | None, ...]]:
    if axes is None:
        axes = range(x.ndim) if s is None else range(x.ndim - len(s), x.ndim)
    places = tuple(normalize_axis_index(int(i), x.ndim) for i in axes)
    if s is not None and len(s) != len(places):
        raise ValueError("shape and axes have different lengths")
    return places, (None,) * len(places) if s is None else tuple(None if n in (-1, None) else int(n) for n in s)


def _over(name: str, *steps: Any) -> Any:
    """A transform along several axes, one after the other, and along the last two; `steps` says how, and in which order."""

    def whole(a: Array, s: Any = None, axes: Any = None, norm: str | None = None) -> Any:
        ways = list(zip(*_axes(a, s, axes), strict=True))
        order = [(steps[way is ways[-1]], *way) for way in ways]
        order = order[::-1] if steps[0] is steps[1] else order[-1:] + order[:-1] if name == "rfftn" else order
        for one, axis, n in order:
            a = one(a, n, axis, norm)
        return a

    def planes(a: Array, s: Any = None, axes: Any = (-2, -1), norm: str | None = None) -> Any:
        return whole(a, s, axes, norm)

    for own, stand in ((name, whole), (f"{name[:-1]}2", planes)):
        stands_for(getattr(np.fft, own), f"scipy.fft.{own}")(stand)
    return whole


fftn, ifftn, rfftn, irfftn = (
    _over(name, *steps)
    for name, steps in {"fftn": (fft, fft), "ifftn": (ifft, ifft), "rfftn": (fft, rfft), "irfftn": (ifft, irfft)}.items()
)


def _shifted(sign: int) -> Any:
    def shifted(x: Array, axes: Any = None) -> Any:
        places = range(x.ndim) if axes is None else np.atleast_1d(axes).tolist()
        return np.roll(x, [sign * (x.shape[axis] // 2) for axis in places], places)

    return shifted


stands_for(np.fft.fftshift, "scipy.fft.fftshift")(_shifted(1))
stands_for(np.fft.ifftshift, "scipy.fft.ifftshift")(_shifted(-1))
