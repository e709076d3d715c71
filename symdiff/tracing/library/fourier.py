"""NumPy's discrete Fourier transforms on traced arrays: their sizes, norms and axes around three linear heads.

Assumes numbers of any kind for complex transforms, real ones for `rfft`. Guarantees NumPy's results; the heads `fft` and `bfft`
(backwards, not divided by n) are symmetric matrices, each its own transpose. Refuses complex input of real transforms, with
`TraceError`.
"""

import math
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from symdiff.tracing.values.operands import traced_operands, traced_result
from symdiff.tracing.values.standing import Array, stands_for
from symdiff.vocabulary.heads import half_weights

_BACKWARDS = {None: "forward", "backward": "forward", "ortho": "ortho", "forward": "backward"}


def _sized(x: Any, n: int | None, axis: int) -> Any:
    """The array with n cells along an axis, cut or filled with zeros."""
    if n is None or n == x.shape[axis]:
        return x
    if n < 1:
        raise ValueError(f"invalid number of data points ({n}) specified")
    if n < x.shape[axis]:
        return x[(slice(None),) * axis + (slice(0, n),)]
    return np.pad(x, [(0, n - x.shape[axis] if i == axis else 0) for i in range(x.ndim)])


def _transformed(head: str, x: Any, n: int | None, axis: int, norm: str | None) -> Any:
    """The transform, divided as the norm of a forward one says."""
    axis = normalize_axis_index(axis, x.ndim)
    x = _sized(x, n, axis)
    n = x.shape[axis]
    if not n:
        raise ValueError("invalid number of data points (0) specified")
    a, (atom,) = traced_operands(x)
    found = traced_result(a, a.bind(head, atom, axis=axis))
    scale = _scale(n, norm)
    return found if scale == 1 else found * scale


def _scale(n: int, norm: str | None) -> float:
    if norm not in _BACKWARDS:
        raise ValueError(f'invalid norm value {norm}; should be "backward", "ortho" or "forward"')
    return 1.0 if norm in (None, "backward") else 1 / n if norm == "forward" else 1 / math.sqrt(n)


@stands_for(np.fft.fft, "scipy.fft.fft")
def fft(a: Array, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    return _transformed("fft", a, n, axis, norm)


@stands_for(np.fft.ifft, "scipy.fft.ifft")
def ifft(a: Array, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    return _transformed("bfft", a, n, axis, _other(norm))


def _other(norm: str | None) -> str | None:
    return _BACKWARDS.get(norm, norm)


@stands_for(np.fft.rfft, "scipy.fft.rfft")
def rfft(a: Array, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    if a.dtype.kind == "c":
        raise ValueError("real numbers are needed; fft transforms complex ones")
    return _transformed("rfft", a, n, axis, norm)


@stands_for(np.fft.irfft, "scipy.fft.irfft")
def irfft(z: Array, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
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


@stands_for(np.fft.hfft, "scipy.fft.hfft")
def hfft(a: Array, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    return irfft(np.conj(a), n, axis, _other(norm))


@stands_for(np.fft.ihfft, "scipy.fft.ihfft")
def ihfft(a: Array, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    return np.conj(rfft(a, n, axis, _other(norm)))


# -- several axes


def _axes(x: Any, s: Any, axes: Any) -> tuple[tuple[int, ...], tuple[int | None, ...]]:
    if axes is None:
        axes = range(x.ndim) if s is None else range(x.ndim - len(s), x.ndim)
    places = tuple(normalize_axis_index(int(i), x.ndim) for i in axes)
    if s is not None and len(s) != len(places):
        raise ValueError("shape and axes have different lengths")
    return places, (None,) * len(places) if s is None else tuple(None if n in (-1, None) else int(n) for n in s)


@stands_for(np.fft.fftn, "scipy.fft.fftn")
def fftn(a: Array, s: Any = None, axes: Any = None, norm: str | None = None) -> Any:
    return _over(fft, a, s, axes, norm)


@stands_for(np.fft.ifftn, "scipy.fft.ifftn")
def ifftn(a: Array, s: Any = None, axes: Any = None, norm: str | None = None) -> Any:
    return _over(ifft, a, s, axes, norm)


def _over(one: Any, x: Any, s: Any, axes: Any, norm: str | None) -> Any:
    places, sizes = _axes(x, s, axes)
    for axis, n in reversed(list(zip(places, sizes, strict=True))):
        x = one(x, n, axis, norm)
    return x


@stands_for(np.fft.rfftn, "scipy.fft.rfftn")
def rfftn(x: Array, s: Any = None, axes: Any = None, norm: str | None = None) -> Any:
    places, sizes = _axes(x, s, axes)
    x = rfft(x, sizes[-1], places[-1], norm)
    for axis, n in zip(places[:-1], sizes[:-1], strict=True):
        x = fft(x, n, axis, norm)
    return x


@stands_for(np.fft.irfftn, "scipy.fft.irfftn")
def irfftn(x: Array, s: Any = None, axes: Any = None, norm: str | None = None) -> Any:
    places, sizes = _axes(x, s, axes)
    for axis, n in zip(places[:-1], sizes[:-1], strict=True):
        x = ifft(x, n, axis, norm)
    return irfft(x, sizes[-1], places[-1], norm)


def _of_planes(one: Any) -> Any:
    def planes(a: Array, s: Any = None, axes: Any = (-2, -1), norm: str | None = None) -> Any:
        return one(a, s, axes, norm)

    return planes


for _function in (fftn, ifftn, rfftn, irfftn):
    _name = f"{_function.__name__[:-1]}2"
    stands_for(getattr(np.fft, _name), f"scipy.fft.{_name}")(_of_planes(_function))


def _shifted(sign: int) -> Any:
    def shifted(x: Array, axes: Any = None) -> Any:
        places = range(x.ndim) if axes is None else np.atleast_1d(axes).tolist()
        return np.roll(x, [sign * (x.shape[axis] // 2) for axis in places], places)

    return shifted


stands_for(np.fft.fftshift, "scipy.fft.fftshift")(_shifted(1))
stands_for(np.fft.ifftshift, "scipy.fft.ifftshift")(_shifted(-1))
