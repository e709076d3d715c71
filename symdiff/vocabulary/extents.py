"""Extents of axes that are known at a call only: n, n + 1, 2*n - 1, affine expressions of named sizes.

Guarantees that two extents are equal only where they are for all sizes, and that an order between them is told where it holds
for all sizes. Refuses the rest, and what needs the number itself, with `TraceError`: never a wrong shape. A symbol is never
broadcast, even where it will be 1.
"""

import functools
import keyword
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from symdiff.errors import InvariantError, TraceError

_LARGE = 10**6


class Size(NamedTuple):
    """A number of cells, or of rounds, that has a name; it is `least` or more, and not above `most` where that is known."""

    name: str
    least: int = 1
    most: int | None = None

    def bounds(self) -> str:
        """The numbers that it may be: "n", "n >= 2", "3 <= n <= 100"."""
        if self.most is not None:
            return f"{self.least} <= {self.name} <= {self.most}"
        return f"{self.name} >= {self.least}" if self.least else self.name


class Extent:
    """`constant` and a multiple of each of some sizes, never none; with integers as operands, what becomes a number is one."""

    __slots__ = ("constant", "terms")

    def __init__(self, constant: int, terms: tuple[tuple[Size, int], ...]) -> None:
        self.constant = constant
        self.terms = terms

    def at(self, sizes: Mapping[str, int]) -> int:
        """The number where the sizes are known."""
        missing = [size.name for size, _ in self.terms if size.name not in sizes]
        if missing:
            raise InvariantError(f"{self}: no argument and no loop tells {missing[0]}")
        return self.constant + sum(times * sizes[size.name] for size, times in self.terms)

    def __add__(self, other: Any) -> "int | Extent":
        if not isinstance(other, (int, np.integer, Extent)):
            return NotImplemented
        terms = dict(self.terms)
        for size, times in other.terms if isinstance(other, Extent) else ():
            terms[size] = terms.get(size, 0) + times
        return _reduced(self.constant + (other.constant if isinstance(other, Extent) else int(other)), terms)

    def __mul__(self, other: Any) -> "int | Extent":
        if isinstance(other, Extent):
            raise TraceError(
                f"({self})*({other}) is no affine expression of sizes; fewer axes of symbols, or their numbers, work"
            )
        if not isinstance(other, (int, np.integer)):
            return NotImplemented
        return _reduced(self.constant * int(other), {size: times * int(other) for size, times in self.terms})

    def __neg__(self) -> "int | Extent":
        return self * -1

    def __sub__(self, other: Any) -> "int | Extent":
        return self + (-other)  # type: ignore[no-any-return]

    def __rsub__(self, other: Any) -> "int | Extent":
        return (-self) + other  # type: ignore[no-any-return]

    __radd__, __rmul__ = __add__, __mul__

    def __floordiv__(self, other: int) -> "int | Extent":
        if self.constant % other or any(times % other for _, times in self.terms):
            raise TraceError(f"({self})/{other} is not a whole number for all sizes")
        return _reduced(self.constant // other, {size: times // other for size, times in self.terms})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Extent) and (self.constant, self.terms) == (other.constant, other.terms)

    def __hash__(self) -> int:
        return hash((self.constant, self.terms))

    def _is_positive(self, asked: str) -> bool:
        """Whether it is 1 or more for all sizes; an error where that depends on them."""
        ends = [(size.least, math.inf if size.most is None else size.most, times) for size, times in self.terms]
        if self.constant + sum(times * (low if times > 0 else high) for low, high, times in ends) >= 1:
            return True
        if self.constant + sum(times * (high if times > 0 else low) for low, high, times in ends) <= 0:
            return False
        known = ", ".join(size.bounds() for size, _ in self.terms)
        raise TraceError(f"whether {asked} depends on the sizes, of which {known} is known")

    def __gt__(self, other: Any) -> bool:
        return _is_positive(self - other, f"{self} > {other}")

    def __ge__(self, other: Any) -> bool:
        return _is_positive(self - other + 1, f"{self} >= {other}")

    def __lt__(self, other: Any) -> bool:
        return _is_positive(other - self, f"{self} < {other}")

    def __le__(self, other: Any) -> bool:
        return _is_positive(other - self + 1, f"{self} <= {other}")

    def __bool__(self) -> bool:
        return self > 0

    def __index__(self) -> int:
        raise TraceError(f"{self} is a number at a call only, and is asked for before; a loop or an array operation may work")

    __int__ = __index__

    def __float__(self) -> float:
        return float(self.__index__())

    def __str__(self) -> str:
        text = "".join(f"{times:+d}*{size.name}" for size, times in self.terms) + (
            f"{self.constant:+d}" if self.constant else ""
        )
        return text.removeprefix("+").replace("+1*", "+").replace("-1*", "-").removeprefix("1*")

    __repr__ = __str__

    def __reduce__(self) -> tuple[Any, ...]:
        return Extent, (self.constant, self.terms)


Count = int | Extent
Shape = tuple[Any, ...]  # of numbers and extents


def _reduced(constant: int, terms: Mapping[Size, int]) -> Count:
    kept = tuple(sorted((size, times) for size, times in terms.items() if times))
    return Extent(constant, kept) if kept else constant


def _is_positive(difference: Count, asked: str) -> bool:
    return difference._is_positive(asked) if isinstance(difference, Extent) else difference > 0


def extent(name: str, least: int = 1) -> Extent:
    """A size by its name."""
    return Extent(0, ((Size(name, least), 1),))


_TERM = re.compile(r"([+-]?)(?:(\d+)(?:\*([^\W\d]\w*))?|([^\W\d]\w*)(?:\*(\d+))?)")


def extent_of_text(text: str) -> Count:
    """An affine expression of named sizes, which are 0 or more: "n", "n+1", "2*n - m". Raises `ValueError` for other texts."""
    given = re.sub(r" *([-+*]) *", r"\1", text.strip(" "))
    found: Count = 0
    place = 0
    while place < len(given) or not place:
        term = _TERM.match(given, place)
        if term is None or (place and not term[1]) or keyword.iskeyword(name := term[3] or term[4] or ""):
            raise ValueError(f"{text!r} is no affine expression of named sizes, as n, n + 1 or 2*n - m")
        times = int(f"{term[1]}{term[2] or term[5] or 1}")
        found = found + (times * extent(name, 0) if name else times)
        place = term.end()
    return found


def extents_in(value: Any) -> Iterator[Extent]:
    """The extents in a shape, or in other static parameters."""
    if isinstance(value, Extent):
        yield value
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from extents_in(part)
    elif isinstance(value, dict):
        yield from extents_in(tuple(value.values()))


def names_in_extents(value: Any) -> set[str]:
    """The names of the sizes in a shape, or in other static parameters."""
    return {size.name for found in extents_in(value) for size, _ in found.terms}


def sizes_in(value: Any) -> list[Size]:
    """The sizes of which a shape, or other static parameters, speak, in order."""
    return list(dict.fromkeys(size for found in extents_in(value) for size, _ in found.terms))


def renamed_sizes(value: Any, names: Mapping[str, str]) -> Any:
    """A shape, or other static parameters, with other names of sizes."""
    if isinstance(value, Extent):
        return _reduced(value.constant, {size._replace(name=names.get(size.name, size.name)): t for size, t in value.terms})
    if isinstance(value, dict):
        return {key: renamed_sizes(part, names) for key, part in value.items()}
    if isinstance(value, tuple) and any(True for _ in extents_in(value)):
        parts = [renamed_sizes(part, names) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value


def numbers(value: Any, sizes: Mapping[str, int]) -> Any:
    """A shape, or other static parameters, with the numbers of its extents."""
    if isinstance(value, Extent):
        return value.at(sizes)
    if isinstance(value, dict):
        return {key: numbers(part, sizes) for key, part in value.items()}
    if type(value) is tuple and any(True for _ in extents_in(value)):
        return tuple(numbers(part, sizes) for part in value)
    return value


def has_extents(counts: Iterable[Any]) -> bool:
    """Whether some numbers, as of cells along axes, are told by a call."""
    return any(isinstance(n, Extent) for n in counts)


def solved(shapes: list[tuple[str, Shape, tuple[int, ...]]]) -> dict[str, int]:
    """The sizes that given shapes tell, from (name, shape, given shape). Raises `ValueError` where there are none such."""
    sizes: dict[str, int] = {}
    pairs = [(name, n, m) for name, shape, given in shapes for n, m in zip(shape, given, strict=False) if isinstance(n, Extent)]
    for _ in pairs:
        for name, n, m in pairs:
            open_ = [(size, times) for size, times in n.terms if size.name not in sizes]
            if len(open_) == 1:
                (size, times), = open_  # fmt: skip
                rest = m - n.constant - sum(t * sizes[s.name] for s, t in n.terms if s.name in sizes)
                if rest % times or rest // times < size.least or (size.most is not None and rest // times > size.most):
                    raise ValueError(f"{name} has {m} cells along an axis of {n}, for any {size.bounds()}")
                sizes[size.name] = rest // times
    return sizes


@functools.total_ordering
class Amount:
    """A count that sizes tell, as a polynomial of them: coefficients by products of names.

    Two are compared as where all sizes are large.
    """

    __slots__ = ("terms",)

    def __init__(self, terms: Mapping[tuple[str, ...], int]) -> None:
        self.terms = {names: times for names, times in terms.items() if times}

    @classmethod
    def of(cls, count: "Count | Amount") -> "Amount":
        """A number, an extent or an amount."""
        if isinstance(count, Amount):
            return count
        if not isinstance(count, Extent):
            return cls({(): int(count)})
        return cls({(): count.constant, **{(size.name,): times for size, times in count.terms}})

    def __add__(self, other: Any) -> "Amount":
        terms = dict(self.terms)
        for names, times in Amount.of(other).terms.items():
            terms[names] = terms.get(names, 0) + times
        return Amount(terms)

    def __mul__(self, other: Any) -> "Amount":
        product: dict[tuple[str, ...], int] = {}
        for names, times in self.terms.items():
            for more, factor in Amount.of(other).terms.items():
                key = tuple(sorted(names + more))
                product[key] = product.get(key, 0) + times * factor
        return Amount(product)

    __radd__, __rmul__ = __add__, __mul__

    def at(self, sizes: Mapping[str, int]) -> int:
        """The number where the sizes are known."""
        return sum(times * math.prod(sizes[name] for name in names) for names, times in self.terms.items())

    def names(self) -> set[str]:
        """The names of the sizes."""
        return {name for names in self.terms for name in names}

    def many(self) -> int:
        """The count where all sizes are large."""
        return sum(times * _LARGE ** len(names) for names, times in self.terms.items())

    def __truediv__(self, other: Any) -> float:
        return self.many() / Amount.of(other).many()

    def __rtruediv__(self, other: Any) -> float:
        return Amount.of(other).many() / self.many()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (int, Extent, Amount)) and self.terms == Amount.of(other).terms

    def __lt__(self, other: Any) -> bool:
        return self.many() < Amount.of(other).many()

    def __hash__(self) -> int:
        return hash(frozenset(self.terms.items()))

    def __bool__(self) -> bool:
        return bool(self.terms)

    def __str__(self) -> str:
        ordered = sorted(self.terms.items(), key=lambda term: (-len(term[0]), term[0]))
        parts = ["*".join([f"{times:+d}", *_powers(names)]) for names, times in ordered]
        return re.sub(r"(^|[+-])1\*", r"\1", "".join(parts).removeprefix("+")) or "0"

    __repr__ = __str__


def _powers(names: tuple[str, ...]) -> list[str]:
    return [name if names.count(name) == 1 else f"{name}**{names.count(name)}" for name in dict.fromkeys(names)]


def counted(count: Any, times: Any) -> Any:
    """A product of two counts, a number where both are."""
    return count * times if isinstance(count, int) and isinstance(times, int) else Amount.of(count) * times


def cells_of_extents(shape: Shape) -> dict[tuple[str, ...], int]:
    """The number of cells as a polynomial of sizes: coefficients by products of names. Equal ones are equal for all sizes."""
    total = Amount({(): 1})
    for n in shape:
        total = total * n
    return total.terms


def reshaped_extents(old: Shape, shape: Shape) -> Shape:
    """The new shape of an array. Raises `ValueError` where it has another number of cells for some sizes."""
    if any(type(n) is Extent for n in (*old, *shape)) and cells_of_extents(old) != cells_of_extents(shape):
        raise ValueError(f"an array of shape {old} has not the cells of one of {shape} for all sizes")
    return shape


def broadcast_extents(*shapes: Shape) -> Shape:
    """The shape to which shapes broadcast. Raises `ValueError` where they do not, or not for all sizes."""
    kinds = {type(n) for shape in shapes for n in shape}
    if kinds <= {int}:
        return np.broadcast_shapes(*shapes)
    rank = max(map(len, shapes))
    columns = list(zip(*((1,) * (rank - len(s)) + tuple(s) for s in shapes), strict=True))
    if Extent not in kinds:
        named = [[n for n in column if isinstance(n, Example)] for column in columns]
        return tuple(next((e for e in some if e == n), n) for some, n in zip(named, np.broadcast_shapes(*shapes), strict=True))
    found = [{n for n in column if n != 1} or {1} for column in columns]
    if any(len(kinds) > 1 for kinds in found):
        raise ValueError(f"shapes {' and '.join(map(str, shapes))} do not broadcast for all sizes")
    return tuple(kinds.pop() for kinds in found)


def sliced_extent(n: Count, part: tuple[Any, Any, int]) -> Any:
    """How many cells a slice with its ends written out has of `n`. Raises `ValueError` where it leaves these."""
    start, stop, step = part
    if not any(type(end) is Extent for end in (n, start, stop)):
        return len(range(n)[slice(*part)])
    last = start if stop is None else stop - 1 if step > 0 else stop + 1
    low, high = (start, last) if step > 0 else (0 if stop is None else last, start)
    if not (low >= 0 and high < n and high - low >= -1):
        raise ValueError(f"the cells {low} to {high} are not among {n}")
    return (high - low) // abs(step) + 1


def written_out(part: slice, n: Count) -> tuple[Any, Any, int]:
    """A slice of an axis of `n`, a symbol, as its first cell, its stop, and its step."""
    step = 1 if part.step is None else part.step
    ends = [end if end is None or not isinstance(end, int) or end >= 0 else n + end for end in (part.start, part.stop)]
    if step > 0:
        return (0 if ends[0] is None else ends[0], n if ends[1] is None else ends[1], step)
    return (n - 1 if ends[0] is None else ends[0], ends[1], step)


class Example(int):
    """A number that stands for an expression of sizes where text is made: it counts as the number and is shown as the other.

    Sums and products are examples again; what else becomes of it is a plain number, and the texts of two examples differ.
    """

    amounts: frozenset[Amount]  # of which the largest is meant

    def __new__(cls, number: int, *amounts: Amount) -> "Example":
        made = super().__new__(cls, number)
        made.amounts = frozenset(amounts)
        return made

    def _with(self, other: Any, number: int, join: Callable[[Amount, Amount], Amount]) -> int:
        if len(self.amounts) > 1 or (isinstance(other, Example) and len(other.amounts) > 1):
            return number
        (own,), (amount,) = self.amounts, other.amounts if isinstance(other, Example) else (Amount.of(int(other)),)
        found = join(own, amount)
        return type(self)(number, found) if found.terms.keys() - {()} else number

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, int):
            return NotImplemented
        return self._with(other, int(self) + int(other), lambda a, b: a + b)

    def __mul__(self, other: Any) -> Any:
        if not isinstance(other, int):
            return NotImplemented
        return self._with(other, int(self) * int(other), lambda a, b: a * b)

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> Any:
        return self * -1

    def __sub__(self, other: Any) -> Any:
        return self + -other if isinstance(other, int) else NotImplemented

    def __rsub__(self, other: Any) -> Any:
        return -self + other if isinstance(other, int) else NotImplemented

    def __str__(self) -> str:
        texts = sorted(_spaced(str(amount)) for amount in self.amounts)
        return texts[0] if len(texts) == 1 else f"max({', '.join(texts)})"

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        text = str(self)
        return f"({text})" if " " in text and not text.startswith("max") else text


def spaced_extent(count: Count) -> str:
    """An extent as it is written in programs: n - 1."""
    return _spaced(str(count))


def _spaced(text: str) -> str:
    return re.sub(r"(?<=.)([-+])", r" \1 ", text)


def example(count: Count, sizes: Mapping[str, int]) -> int:
    """An extent as an example of it."""
    return Example(count.at(sizes), Amount.of(count)) if isinstance(count, Extent) else count


def examples(value: Any, sizes: Mapping[str, int]) -> Any:
    """A shape, or other static parameters, with examples of its extents."""
    if isinstance(value, Extent):
        return example(value, sizes)
    if isinstance(value, dict):
        return {key: examples(part, sizes) for key, part in value.items()}
    if type(value) is tuple and any(True for _ in extents_in(value)):
        return tuple(examples(part, sizes) for part in value)
    return value


def larger(a: int, b: int) -> int:
    """The larger one of two numbers, for all sizes where they are examples."""
    if not isinstance(a, Example) and not isinstance(b, Example):
        return max(a, b)
    if b == 0 or a == 0:
        return a or b
    amounts = {*_amounts(a), *_amounts(b)}
    return Example(max(a, b), *amounts) if len(amounts) > 1 else a


def _amounts(count: int) -> Iterable[Amount]:
    return count.amounts if isinstance(count, Example) else (Amount.of(count),)


def equal_counts(a: int, b: int) -> bool:
    """Whether two numbers are equal, for all sizes where they are examples."""
    return a == b and frozenset(_amounts(a)) == frozenset(_amounts(b))
