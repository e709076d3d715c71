"""Arrays of random layouts, dtypes and classes through random doors, with random arrays for the results.

The plain function on plain copies gives the values, complex steps its slopes; memory beside a result, and everything where a
call is refused, must stay as it was. An array of another class is right where the plain function of it gives this value.
"""

import random
from typing import Any

import numpy as np

import symdiff as sd

from ..harness import RIGHT, Verdict, Wrong

SHAPES = ((), (1,), (3,), (2, 3), (0,), (2, 0), (80,), (80,), (9, 10), (9, 10))
TERMS = (
    "np.sin(x)*y",
    "x*y + y",
    "np.exp(x*0.5)*y",
    "x*x - 2*y*x",
    "np.cos(x*y)",
    "x/(y*y + 2.0)",
    "np.tanh(x) + y*c",
    "x*c*c*y",
)
PARTS = ("", "", "x = np.cumsum(x)", "x = np.linalg.solve(np.eye(len(x)) + 0.1, x)")  # NumPy computes the last
DOORS = ("grad", "value_and_grad", "jvp", "vmap first", "vmap last", "derivative", "dict", "compiled", "kernel", "gufunc",
         "numpy file", "python file", "captured")  # fmt: skip
DTYPES = ("f8",) * 6 + (">f8", ">f8", "f4", ">f4", "f2", "g", "i8", ">i4", "u1", "?", "c16", ">c16")
FILE_ERRORS = (ValueError, TypeError, IndexError)


class Tagged(np.ndarray):
    """A class of a user's, which means another thing by a product."""

    def __mul__(self, other: Any) -> Any:
        return np.asarray(self) * other * 2.0

    __rmul__ = __mul__


def trial(source: random.Random) -> Verdict:
    return _Trial(source).run()


class _Trial:
    def __init__(self, source: random.Random) -> None:
        self.source = source
        self.door = source.choice(DOORS)
        whole = self.door not in ("derivative", "gufunc", "python file")
        self.shape = source.choice(SHAPES if whole else SHAPES[:6])
        part = source.choice(PARTS) if len(self.shape) == 1 and self.shape[0] > 1 and whole else ""
        self.text = "def f(x, y, c=c):\n" + (f"    {part}\n" if part else "") + f"    return {source.choice(TERMS)}"
        self.notes: list[str] = []

    def run(self) -> Verdict:
        c = self.values(self.shape)
        scope: dict[str, Any] = {"np": np, "c": c if self.door == "captured" else 1.5}
        exec(self.text, scope)
        f = scope["f"]
        several = self.door.startswith("vmap")
        points = (*self.shape, 4) if self.door == "vmap last" else (4, *self.shape)
        x, y = (self.laid(self.values(points if several else self.shape)) for _ in range(2))
        if self.door == "derivative":
            y = 0.7
        if self.source.random() < 0.1:
            y = x
            self.notes.append("y is x")
        if self.door == "captured":
            scope["c"] = self.laid(c)
            f.__defaults__ = (scope["c"],)
        if self.door in ("derivative", "gufunc", "python file"):
            f.__defaults__ = (1.5,)
        return self.compared(f, x, y)

    def values(self, shape: tuple[int, ...]) -> np.ndarray:
        return np.array([self.source.uniform(-1.5, 1.5) for _ in range(int(np.prod(shape)))]).reshape(shape)

    # -- layouts

    def laid(self, array: np.ndarray, out: bool = False) -> Any:
        """The numbers in another dtype, layout and class."""
        source, n = self.source, array.ndim
        dtype = np.dtype("f8" if source.random() < 0.5 else source.choice(DTYPES))
        if self.door == "dict" and dtype.kind in "iu?b":
            dtype = np.dtype("f8")  # integers beside floating numbers are settings there
        array = np.asarray(abs(array) * 3 if dtype.kind in "iu?" else array).astype(dtype)
        if dtype.kind == "c":
            array = np.asarray(array + 0.25j, dtype)
        how = source.choice(["plain", "packed", "packed", "fortran", "reversed", "strided", "field", "repeated", "memmap"])
        array = self.stored(array, how, out)
        if not out and source.random() < 0.15:
            array.flags.writeable = False
            how += " read-only"
        kind = source.choice(["matrix", "masked", "masked", "recarray", "Tagged"]) if source.random() < 0.2 else ""
        if kind == "matrix" and n == 2:
            array = array.view(np.matrix)
        elif kind == "masked":
            array = np.ma.MaskedArray(array, mask=np.arange(array.size).reshape(array.shape) % 2 == 0, copy=False)
        elif kind in ("recarray", "Tagged"):
            array = array.view({"recarray": np.recarray, "Tagged": Tagged}[kind])
        elif kind == "":
            if not out and n == 0 and source.random() < 0.5:
                array, kind = array[()], "number"
            elif not out and self.door in ("compiled", "gufunc", "numpy file") and source.random() < 0.1:
                array, kind = array.tolist(), "list"
        self.notes.append(f"{dtype} {how} {kind}".strip())
        return array

    def stored(self, array: np.ndarray, how: str, out: bool) -> np.ndarray:
        shape, n = array.shape, array.ndim
        if how == "packed":
            room = np.zeros(array.nbytes + 16, "u1")
            found = room[1 : 1 + array.nbytes].view(array.dtype) if array.nbytes else room[:0].view(array.dtype)
            found = found.reshape(shape)
        elif how == "fortran":
            found = np.empty(shape[::-1], array.dtype).T
        elif how == "reversed" and n:
            found = np.empty(shape, array.dtype)[(slice(None, None, -1),) * n]
        elif how == "strided" and n:
            found = np.zeros((*shape[:-1], 2 * shape[-1]), array.dtype)[..., ::2]
        elif how == "field":
            found = np.zeros(shape, [("a", "i1"), ("b", array.dtype)])["b"]  # memory that belongs to records
        elif how == "repeated" and n and array.size:
            found = np.lib.stride_tricks.as_strided(array[:1].copy(), shape, (0, *array.strides[1:]))
            if out:
                return found
            return np.broadcast_to(array[:1], shape)
        elif how == "memmap" and array.size:
            return array.copy().view(np.memmap)
        else:
            return array.copy()
        found[...] = array
        return found

    # -- the comparison

    def compared(self, f: Any, x: Any, y: Any) -> Verdict:
        try:
            wanted = self.wanted(f, x, y)
        except Exception as error:
            return Verdict("refused", f"the plain function raises {error}")
        outs = self.outs(wanted, x, y) if self.source.random() < 0.6 and self.door != "dict" else None
        before = [np.array(a) for a in outs or ()]
        rooms = [_room(a) for a in outs or ()]
        kept = [room.copy() for room in rooms]
        arguments = [np.array(a) for a in (x, y)]
        try:
            d = self.opened(f, x, y)
            for _ in range(2):
                for array, old in zip(outs or (), before, strict=True):
                    if not _meets(array, x) and not _meets(array, y) and array.flags.writeable:
                        array[...] = old
                found = self.called(d, x, y, outs)
                self.check(f, found, wanted, outs, x, y, arguments)
                if outs is not None and any(_meets(a, b) for a in outs for b in (x, y)):
                    break
        except sd.SymdiffError as error:
            refused = error
        except FILE_ERRORS as error:
            if self.door not in ("kernel", "gufunc", "numpy file", "python file"):
                raise self.wrong(f"{type(error).__name__}: {error}") from None
            refused = error
        else:
            return RIGHT
        for array, old in zip(outs or (), before, strict=True):
            if array.dtype.kind != "V" and not np.array_equal(np.asarray(array), old, equal_nan=True):
                raise self.wrong(f"refused, but out is written: {refused}")
        for room, old in zip(rooms, kept, strict=True):
            if self.door != "gufunc" and not np.array_equal(room, old):
                raise self.wrong(f"refused, but memory is written: {refused}")
        if self.is_easy(outs):
            raise self.wrong(f"refused: {refused}")
        return Verdict("refused", f"{refused}".splitlines()[0])

    def is_easy(self, outs: Any) -> bool:
        """Whether there was nothing to refuse."""
        return outs is None and self.door != "kernel" and all(n in ("float64 plain", "float64 memmap") for n in self.notes)

    def wanted(self, f: Any, x: Any, y: Any) -> list[np.ndarray]:
        x, y = (np.array(np.asarray(a), dtype=complex if np.asarray(a).dtype.kind == "c" else float) for a in (x, y))
        defaults = f.__defaults__
        f.__defaults__ = tuple(np.array(np.asarray(v), dtype=complex if np.iscomplexobj(v) else float)[()] for v in defaults)
        try:
            with np.errstate(all="ignore"):
                if self.door.startswith("vmap"):
                    axis = 0 if self.door == "vmap first" else -1
                    cells = [f(a, b) for a, b in zip(np.moveaxis(x, axis, 0), np.moveaxis(y, axis, 0), strict=True)]
                    return [np.stack(cells, axis=axis)]
                if self.door == "jvp":
                    return [np.asarray(f(x, y)), _step(f, x, y, np.ones_like(x))]
                if self.door == "derivative":
                    return [_step(f, x, y, np.ones_like(x))]
                slopes = np.zeros(x.shape, np.result_type(f(x, y), x))
                for place in np.ndindex(x.shape):
                    unit = np.zeros_like(x)
                    unit[place] = 1.0
                    slopes[place] = np.sum(_step(f, x, y, unit))
                return [np.asarray(np.sum(f(x, y))), slopes] if self.door == "value_and_grad" else [slopes]
        finally:
            f.__defaults__ = defaults

    def outs(self, wanted: list[np.ndarray], x: Any, y: Any) -> list[np.ndarray]:
        self.notes.append("out:")
        made = []
        for k, value in enumerate(wanted):
            near = [a for a in (x, y, *made) if type(a) is np.ndarray and a.shape == value.shape and a.flags.writeable]
            if near and self.source.random() < 0.3:
                made.append(self.source.choice(near))
                self.notes.append(f"{k} is an argument or another out")
            elif value.ndim == 1 and value.size > 1 and type(x) is np.ndarray and x.base is None and self.source.random() < 0.1:
                made.append(np.lib.stride_tricks.as_strided(x[1:], value.shape) if x.size > value.size else x[::-1])
                self.notes.append(f"{k} overlaps x")
            elif self.source.random() < 0.4:
                made.append(np.full(value.shape, 7.0))
                self.notes.append("plain")
            else:
                made.append(self.laid(np.full(value.shape, 7.0), out=True))
        if self.source.random() < 0.05 and made[-1].flags.writeable:
            made[-1].flags.writeable = False
            self.notes.append("last read-only")
        return made

    def opened(self, f: Any, x: Any, y: Any) -> Any:
        """The callable of the door."""

        def total(x: Any, y: Any) -> Any:
            return np.sum(f(x, y))

        plain = [np.array(np.asarray(a), dtype=complex if np.asarray(a).dtype.kind == "c" else float) for a in (x, y)]
        if self.door == "value_and_grad":
            return sd.value_and_grad(total)
        if self.door == "jvp":
            d = sd.jvp(f)
            return lambda x, y, **out: d(x, y, np.ones(np.shape(x)), **out)
        if self.door.startswith("vmap"):
            return sd.vmap(f, 0 if self.door == "vmap first" else -1)
        if self.door == "derivative":
            return sd.derivative(f)
        if self.door == "dict":
            d = sd.grad(lambda p: total(p["a"], p["b"][0]))
            return lambda x, y: d({"a": x, "b": (y,)})["a"]
        d = sd.grad(total)
        if self.door in ("compiled", "kernel", "gufunc"):
            found = d.compile(*plain)
            return found if self.door == "compiled" else getattr(found, self.door)
        if self.door.endswith("file"):
            scope: dict[str, Any] = {}
            exec(d.source(*plain, target=self.door.split()[0]), scope)
            return scope["total_grad"]
        return d

    def called(self, d: Any, x: Any, y: Any, outs: Any) -> list[Any]:
        if outs is None:
            found = d(x, y)
            return list(found) if isinstance(found, tuple) else [found]
        found = d(x, y, out=tuple(outs) if len(outs) > 1 else outs[0])
        if self.door == "gufunc":
            return list(outs)
        if found is not outs[0] and not (isinstance(found, tuple) and all(a is b for a, b in zip(found, outs, strict=True))):
            raise self.wrong(f"a call with out returns {found!r}")
        return list(outs)

    def check(self, f: Any, found: list[Any], wanted: list[Any], outs: Any, x: Any, y: Any, arguments: list[Any]) -> None:
        if self.door == "gufunc" and any(a.size > 1 and 0 in a.strides for a in outs or ()):
            return  # NumPy's own, which writes one number after another into a cell
        tolerance = 1e-4 if any("32" in n or ">f4" in n for n in self.notes) else 3e-2 if "float16" in str(self.notes) else 1e-9
        for got, value in zip(found, wanted, strict=True):
            a = np.asarray(got)
            if a.dtype.kind not in "fc" or a.shape != value.shape or not np.allclose(a, value, tolerance, tolerance):
                raise self.wrong(f"{got!r:.300}\nexpected {value!r:.300}")
            if outs is None and isinstance(got, np.ndarray) and type(got) is np.ndarray:
                free = got.base is None or self.door not in ("grad", "value_and_grad", "jvp", "compiled", "dict")
                if not got.flags.writeable or not free or _meets(got, x) or _meets(got, y):
                    raise self.wrong("the result is not fresh")
        for a, old in zip((x, y), arguments, strict=True):
            if not any(_meets(o, a) for o in outs or ()) and not np.array_equal(np.array(a), old, equal_nan=True):
                raise self.wrong("an argument is changed")
        for a in (x, y, *(f.__defaults__ if "*c" in self.text else ())):
            if isinstance(a, np.ndarray) and type(a) not in (np.ndarray, np.memmap, np.recarray) and self.door != "gufunc":
                raise self.wrong(f"{type(a).__name__} is taken as if it were a plain array")
        self.fits(outs)

    def fits(self, outs: Any) -> None:
        """No results in arrays that cannot hold them all."""
        for k, a in enumerate(outs or ()):
            if self.door == "gufunc":
                continue
            if a.size > 1 and any(s == 0 and n > 1 for s, n in zip(a.strides, a.shape, strict=True)):
                raise self.wrong("out has one cell for several numbers")
            if type(a) not in (np.ndarray, np.memmap, np.recarray):
                raise self.wrong(f"out of class {type(a).__name__}")
            if any(a.size and np.shares_memory(a, b) for b in outs[:k]):
                raise self.wrong("results in one and the same memory")

    def wrong(self, how: str) -> Wrong:
        return Wrong(f"{self.text}\n{self.door}, shape {self.shape}, {'; '.join(self.notes)}\n{how}")


def _step(f: Any, x: np.ndarray, y: np.ndarray, unit: np.ndarray) -> np.ndarray:
    """The slope of an analytic function along a direction: a complex step, for complex numbers central differences."""
    if x.dtype.kind == "c" or y.dtype.kind == "c" or any(np.iscomplexobj(v) for v in f.__defaults__):
        h = 1e-6
        return np.asarray((f(x + h * unit, y) - f(x - h * unit, y)) / (2 * h))
    return np.asarray(np.imag(f(x + 1e-40j * unit, y)) / 1e-40)


def _meets(a: Any, b: Any) -> bool:
    return isinstance(b, np.ndarray) and isinstance(a, np.ndarray) and a.size > 0 and b.size > 0 and np.shares_memory(a, b)


def _room(array: np.ndarray) -> np.ndarray:
    """The memory that an array lies in, as far as it can be seen."""
    whole: Any = array
    while isinstance(whole.base, np.ndarray):
        whole = whole.base
    whole = np.asarray(whole)
    return whole if whole.dtype.kind != "V" else whole[whole.dtype.names[0]]
