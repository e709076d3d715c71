"""LLVM IR under construction: numbered values, and the functions that they call.

Assumes float32, float64 and truth values, one number or a vector of them. Guarantees one instruction for each call of a
method, in order.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from symdiff.lowering.program import Output, Program
from symdiff.vocabulary.ops import bytes_of_code, check_dtype_cast, is_complex, part_of_code, parts_of_code
from symdiff.vocabulary.traits import operations

TYPES = {"d": "double", "f": "float", "?": "i1"}
LIBM = operations("libm")
# What `llvm_functions` has: each operation's function, and which of that one's results it is.
_OWN = "exp10 erfcx ndtr log_ndtr expit log_expit logit xlogy xlog1py cosm1 exprel".split()
VECTORS = {name: (name, 0) for name in [*(LIBM - {"nextafter"}), *_OWN]} | {"sin": ("sincos", 0), "cos": ("sincos", 1)}
_SINGLE = frozenset("exp log sincos tanh pow".split())  # whose name ends in _single where results are float32
# The functions with two results, most of them on the two parts of complex numbers.
PAIRS = frozenset("sincos sincos_single cexp clog csqrt csin ccos ctan csinh ccosh ctanh cpow".split())

Value = tuple[str, ...]  # one operand text, or two for real and imaginary part


def lanes_of(program: Program, lanes: int) -> int:
    """The numbers that are computed at once, where a vector holds `lanes` of float64: twice as many of float32."""
    return 2 * lanes if all(i.dtype in "?fF" for i in program.nodes) else lanes


class Lines:
    """IR under construction: numbered values and the functions that they call. `lanes` numbers are computed at once."""

    def __init__(self, lanes: int = 1, prefix: str = "v", width: int = 0, most: int = 0) -> None:
        self.lanes = lanes
        self.width = width  # lanes of the functions that stand for libm's, 0 where there are none
        self.most = most or min(width, 1)  # calls of such a function that are made together, 0 where there are none
        self.used: dict[str, str] = {}  # functions of `llvm_functions`, and what declares each
        self.in_cells = False  # whether what is said is computed for each cell of an array
        self.prefix = prefix
        self.text: list[str] = []
        self.declared: dict[str, str] = {}
        self.count = 0

    def kind(self, code: str) -> str:
        """The IR type of a dtype code, a vector where several numbers are computed at once."""
        return TYPES[code] if self.lanes == 1 else f"<{self.lanes} x {TYPES[code]}>"

    def put(self, text: str) -> str:
        """One instruction; its value's name."""
        self.count += 1
        name = f"%{self.prefix}{self.count}"
        self.run(f"{name} = {text}")
        return name

    def run(self, *lines: str) -> None:
        """Instructions without a value, and labels."""
        self.text += [line if line.endswith(":") else f"  {line}" for line in lines]

    @contextmanager
    def loop(
        self, stop: str, step: int = 1, start: str = "0", more: str = "slt", carried: Sequence[tuple[str, str, str, str]] = ()
    ) -> Iterator[str]:
        """A loop around the lines inside, and its index; without `stop` it is left by a branch to its end.

        `carried` are values that rounds hand on: kind, name, the first one, and the name of the next one.
        """
        self.count += 1
        label = f"l{self.count}"
        k = f"%{label}.k"
        self.run(f"br label %{label}.before", f"{label}.before:", f"br label %{label}", f"{label}:")
        for kind, name, first, following in [("i64", k, start, f"%{label}.next"), *carried]:
            self.run(f"{name} = phi {kind} [{first}, %{label}.before], [{following}, %{label}.latch]")
        inside = self.put(f"icmp {more} i64 {k}, {stop}") if stop else "true"
        self.run(f"br i1 {inside}, label %{label}.body, label %{label}.exit", f"{label}.body:")
        yield k
        self.run(f"br label %{label}.latch", f"{label}.latch:", f"%{label}.next = add nsw i64 {k}, {step}")
        self.run(f"br label %{label}", f"{label}.exit:")

    def literal(self, value: float | bool, code: str) -> str:
        """A constant with all its bits."""
        if code == "?":
            plain = "true" if value else "false"
        else:
            exact = value if code == "d" else struct.unpack("f", struct.pack("f", value))[0]
            plain = f"0x{struct.unpack('<Q', struct.pack('<d', exact))[0]:016X}"
        return plain if self.lanes == 1 else f"<{', '.join([f'{TYPES[code]} {plain}'] * self.lanes)}>"

    def call(self, name: str, code: str, *operands: str) -> str:
        """A call of an intrinsic or of libm on operands of one dtype; libm takes vectors number by number."""
        if name in VECTORS and (self.width or name not in LIBM):
            function, place = VECTORS[name]
            return self.formula(function, code, *operands)[place]
        if not name.startswith("llvm."):
            return self.by_lanes(name, code, *operands)
        kind = self.kind(code)
        full = f"{name}.{'v' + str(self.lanes) if self.lanes > 1 else ''}{'f64' if code == 'd' else 'f32'}"
        self.declared[full] = f"declare {kind} @{full}({', '.join([kind] * len(operands))})"
        return self.put(f"call {kind} @{full}({', '.join(f'{kind} {o}' for o in operands)})")

    def by_lanes(self, name: str, code: str, *operands: str, more: Sequence[str] = ()) -> str:
        """A call of a function of C for each number, with `more` behind its operands."""
        full, plain = name + ("f" if code == "f" else ""), TYPES[code]
        kinds = [*[plain] * len(operands), *(typed.split()[0] for typed in more)]
        self.declared[full] = f"declare {plain} @{full}({', '.join(kinds)})"
        if self.lanes == 1:
            return self.put(f"call {plain} @{full}({', '.join([*(f'{plain} {o}' for o in operands), *more])})")
        result = "undef"
        for lane in range(self.lanes):
            parts = [self.lane(o, code, lane) for o in operands]
            found = self.put(f"call {plain} @{full}({', '.join([*(f'{plain} {p}' for p in parts), *more])})")
            result = self.put(f"insertelement {self.kind(code)} {result}, {plain} {found}, i32 {lane}")
        return result

    def lane(self, value: str, code: str, place: int) -> str:
        """One number of a vector."""
        return self.put(f"extractelement {self.kind(code)} {value}, i32 {place}")

    def repeated(self, plain: str, number: str, count: int) -> str:
        """A vector of one number."""
        kind = f"<{count} x {plain}>"
        one = self.put(f"insertelement {kind} undef, {plain} {number}, i32 0")
        return self.put(f"shufflevector {kind} {one}, {kind} undef, <{count} x i32> zeroinitializer")

    def formula(self, name: str, code: str, *operands: str) -> Value:
        """A function of `llvm_functions`; one number takes the same way as a vector of `width`, float32 that of float64."""
        width = self.width or self.lanes
        if code == "f":
            operands = tuple(self.put(f"fpext {self.kind('f')} {o} to {self.kind('d')}") for o in operands)
        if self.lanes < width:
            operands = tuple(self.repeated("double", o, width) for o in operands)
        results = self._called(name, code, width, operands)
        if self.lanes < width:
            results = [self.put(f"extractelement <{width} x double> {r}, i32 0") for r in results]
        if code == "f":
            results = [self.put(f"fptrunc {self.kind('d')} {r} to {self.kind('f')}") for r in results]
        return tuple(results)

    def formulas(self, name: str, code: str, calls: list[list[str]]) -> list[Value]:
        """A function of `llvm_functions` for several numbers at once, by the operands of each."""
        if len(calls) == 1:
            return [self.formula(name, code, *calls[0])]
        width = 1 << (len(calls) - 1).bit_length()
        vectors = []
        for numbers in zip(*calls, strict=True):
            if code == "f":
                numbers = tuple(self.put(f"fpext float {n} to double") for n in numbers)
            vector = self.repeated("double", numbers[-1], width)
            for lane, number in enumerate(numbers[:-1]):
                vector = self.put(f"insertelement <{width} x double> {vector}, double {number}, i32 {lane}")
            vectors.append(vector)
        found = []
        results = self._called(name, code, width, vectors)
        for lane in range(len(calls)):
            parts = [self.put(f"extractelement <{width} x double> {r}, i32 {lane}") for r in results]
            found.append(tuple(parts if code == "d" else [self.put(f"fptrunc double {p} to float") for p in parts]))
        return found

    def _called(self, name: str, code: str, width: int, operands: Sequence[str]) -> list[str]:
        """The results of a function for vectors of `width` float64, for results that are float32 where `code` says so."""
        if code == "f" and name in _SINGLE:
            name = f"{name}_single"
        symbol = f"vec{width}_{name}"
        kind = TYPES["d"] if width == 1 else f"<{width} x double>"
        returned = f"{{ {kind}, {kind} }}" if name in PAIRS else kind
        self.used[symbol] = f"declare {returned} @{symbol}({', '.join([kind] * len(operands))}) readnone nounwind willreturn"
        found = self.put(f"call {returned} @{symbol}({', '.join(f'{kind} {o}' for o in operands)})")
        return [self.put(f"extractvalue {returned} {found}, {k}") for k in (0, 1)] if name in PAIRS else [found]

    def select(self, condition: str, code: str, yes: str, no: str) -> str:
        """yes where condition else no."""
        kind = self.kind(code)
        return self.put(f"select {self.kind('?')} {condition}, {kind} {yes}, {kind} {no}")

    def compare(self, predicate: str, code: str, a: str, b: str) -> str:
        """A floating-point comparison."""
        return self.put(f"fcmp {predicate} {self.kind(code)} {a}, {b}")

    def op(self, name: str, code: str, a: str, b: str) -> str:
        """One of fadd, fsub, fmul, fdiv, frem, and, or, xor."""
        return self.put(f"{name} {self.kind(code)} {a}, {b}")

    def neg(self, code: str, a: str) -> str:
        """-a."""
        return self.put(f"fneg {self.kind(code)} {a}")

    # -- values and memory

    def converted(self, value: Value, old: str, new: str) -> Value:
        """A value with another dtype."""
        if old == new:
            return value
        check_dtype_cast(old, new)
        part = part_of_code(new)
        own = part_of_code(old)
        found = value
        if own != part:
            how = "uitofp" if own == "?" else "fpext" if part == "d" else "fptrunc"
            found = tuple(self.put(f"{how} {self.kind(own)} {v} to {self.kind(part)}") for v in value)
        if is_complex(new) and not is_complex(old):
            return found[0], self.literal(0.0, part)
        return found

    def truth(self, value: Value, code: str) -> str:
        """Whether a value is not zero."""
        if code == "?":
            return value[0]
        part = part_of_code(code)
        tests = [self.compare("une", part, v, self.literal(0.0, part)) for v in value]
        return tests[0] if len(tests) == 1 else self.op("or", "?", *tests)

    def read(self, pointer: str, code: str, cell: int = 0) -> Value:
        """The value of one cell."""
        if code == "?":
            return (self.put(f"trunc i8 {self.put(f'load i8, ptr {self.place(pointer, cell, code)}')} to {TYPES['?']}"),)
        part, step = part_of_code(code), parts_of_code(code)
        places = (self.place(pointer, cell * step + k, part) for k in range(step))
        return tuple(self.put(f"load {TYPES[part]}, ptr {place}") for place in places)

    def place(self, pointer: str, number: int, part: str) -> str:
        """Where a number lies behind a pointer."""
        kind = "i8" if part == "?" else TYPES[part]
        return self.put(f"getelementptr {kind}, ptr {pointer}, i64 {number}") if number else pointer

    def clear_cells(self, pointer: str, output: Output) -> None:
        """Zeros in all cells of an output."""
        self.declared["memset"] = "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)"
        count = len(output.cells) * bytes_of_code(output.dtype)
        self.run(f"call void @llvm.memset.p0.i64(ptr {pointer}, i8 0, i64 {count}, i1 false)")

    def write(self, pointer: str, value: Value, code: str, cell: int = 0) -> None:
        """Write one cell."""
        if code == "?":
            byte = self.put(f"zext i1 {value[0]} to i8")
            self.run(f"store i8 {byte}, ptr {self.place(pointer, cell, code)}")
            return
        part = part_of_code(code)
        for k, v in enumerate(value):
            self.run(f"store {TYPES[part]} {v}, ptr {self.place(pointer, cell * len(value) + k, part)}")

    def gathered(self, pointers: list[str], code: str, others: str = "poison") -> Value:
        """A vector of cells, one at each pointer, and `others` in its other lanes."""
        cells = [self.read(pointer, code) for pointer in pointers]
        part, found = part_of_code(code), []
        for numbers in zip(*cells, strict=True):
            vector = others
            for lane, number in enumerate(numbers):
                vector = self.put(f"insertelement {self.kind(part)} {vector}, {TYPES[part]} {number}, i32 {lane}")
            found.append(vector)
        return tuple(found)

    def scattered(self, pointers: list[str], value: Value, code: str) -> None:
        """Write a vector's numbers into a cell at each pointer."""
        for lane, pointer in enumerate(pointers):
            self.write(pointer, tuple(self.lane(part, part_of_code(code), lane) for part in value), code)

    def line(self, pointer: str, code: str, count: int) -> Value:
        """A vector of the first `count` of cells side by side, 0 in its other lanes."""
        part, parts = part_of_code(code), parts_of_code(code)
        plain = "i8" if part == "?" else TYPES[part]
        kind = f"<{count * parts} x {plain}>"
        whole = self.put(f"load {kind}, ptr {pointer}, align {bytes_of_code(part)}")
        if part == "?":
            whole = self.put(f"icmp ne {kind} {whole}, zeroinitializer")
        if parts == 1 and count == self.lanes:
            return (whole,)
        places = [[lane * parts + k if lane < count else count * parts for lane in range(self.lanes)] for k in range(parts)]
        return tuple(self.shuffled(part, whole, "zeroinitializer", own, count * parts) for own in places)

    def write_line(self, pointer: str, code: str, count: int, value: Value, how: str = "") -> None:
        """Write the first `count` numbers of a vector into cells side by side; `how`: aligned otherwise."""
        part, parts = part_of_code(code), len(value)
        whole = value[0]
        if parts > 1 or count < self.lanes:
            places = [k // parts + k % parts * self.lanes for k in range(count * parts)]
            whole = self.shuffled(part, whole, value[1] if parts > 1 else "zeroinitializer", places)
        plain = TYPES[part]
        if part == "?":
            whole, plain = self.put(f"zext <{count} x i1> {whole} to <{count} x i8>"), "i8"
        self.run(f"store <{count * parts} x {plain}> {whole}, ptr {pointer}, align {how or bytes_of_code(part)}")

    def shuffled(self, code: str, first: str, second: str, places: Sequence[int], size: int = 0) -> str:
        """The numbers of two vectors, of `size`, at some places."""
        kind = f"<{size or self.lanes} x {TYPES[code]}>"
        mask = ", ".join(f"i32 {place}" for place in places)
        return self.put(f"shufflevector {kind} {first}, {kind} {second}, <{len(places)} x i32> <{mask}>")


class _Value:
    """A value's name in the lines of a function."""

    __slots__ = ("body", "name")

    def __init__(self, body: Any, name: str) -> None:
        self.body = body
        self.name = name


def _on_reals(name: str) -> Callable[[Real, Real | float], Real]:
    """An operation on two numbers."""
    return lambda x, y: Real(x.body, x.body.op(name, x.code, x.name, real(x, y).name), x.code)


def _compared(predicate: str) -> Callable[[Real, Real | float], Mask]:
    """A comparison; none of NaN holds but "uno"."""
    return lambda x, y: Mask(x.body, x.body.compare(predicate, x.code, x.name, real(x, y).name))


def _on_masks(name: str) -> Callable[[Mask, Mask], Mask]:
    return lambda x, y: Mask(x.body, x.body.op(name, "?", x.name, y.name))


def _on_bits(name: str) -> Callable[[Bits, Bits | int], Bits]:
    def operation(x: Bits, y: Bits | int) -> Bits:
        lanes = x.body.lanes
        constant = str(y) if lanes == 1 else f"<{', '.join([f'i64 {y}'] * lanes)}>"
        return Bits(x.body, x.body.put(f"{name} {x.body.whole} {x.name}, {y.name if isinstance(y, Bits) else constant}"))

    return operation


class Real(_Value):
    """A vector of float64, or of another dtype `code`."""

    __slots__ = ("code",)

    def __init__(self, body: Lines, name: str, code: str = "d") -> None:
        super().__init__(body, name)
        self.code = code

    __add__ = __radd__ = _on_reals("fadd")
    __mul__ = __rmul__ = _on_reals("fmul")
    __sub__, __truediv__ = _on_reals("fsub"), _on_reals("fdiv")
    __lt__, __le__, __gt__, __ge__ = (_compared(predicate) for predicate in ("olt", "ole", "ogt", "oge"))
    equals = _compared("oeq")

    def __rsub__(self, other: float) -> Real:
        return real(self, other) - self

    def __rtruediv__(self, other: float) -> Real:
        return real(self, other) / self

    def __neg__(self) -> Real:
        return Real(self.body, self.body.neg(self.code, self.name), self.code)

    def __abs__(self) -> Real:
        return call_intrinsic("llvm.fabs", self)

    def missing(self) -> Mask:
        """Where this is NaN."""
        return _compared("uno")(self, self)

    def negative(self) -> Mask:
        """Where the sign bit is set, -0.0 included."""
        return copysign(1.0, self) < 0.0

    def bits(self) -> Bits:
        """The same bits as integers."""
        return Bits(self.body, self.body.put(f"bitcast {self.body.kind('d')} {self.name} to {self.body.whole}"))


class Mask(_Value):
    """A vector of truth values."""

    __slots__ = ()

    __and__, __or__, __xor__ = (_on_masks(name) for name in ("and", "or", "xor"))

    def __invert__(self) -> Mask:
        return Mask(self.body, self.body.op("xor", "?", self.name, self.body.literal(True, "?")))


class Bits(_Value):
    """A vector of 64-bit integers."""

    __slots__ = ()

    __add__, __sub__, __and__, __or__ = (_on_bits(name) for name in ("add", "sub", "and", "or"))
    __xor__, __lshift__, __rshift__ = (_on_bits(name) for name in ("xor", "shl", "lshr"))

    def real(self) -> Real:
        """The same bits as float64."""
        return Real(self.body, self.body.put(f"bitcast {self.body.whole} {self.name} to {self.body.kind('d')}"))

    def last(self) -> Mask:
        """Where the number is odd."""
        return Mask(self.body, self.body.put(f"trunc {self.body.whole} {self.name} to {self.body.kind('?')}"))


def real(like: Real, value: Real | float) -> Real:
    """A constant as a vector like another one; a vector as it is."""
    return value if isinstance(value, Real) else Real(like.body, like.body.literal(value, like.code), like.code)


def call_intrinsic(name: str, *operands: Real) -> Real:
    """An intrinsic, or another function on vectors."""
    body, code = operands[0].body, operands[0].code
    return Real(body, body.call(name, code, *(o.name for o in operands)), code)


def where(mask: Mask, yes: Real | float, no: Real | float) -> Real:
    """yes where the mask holds, no elsewhere."""
    like = next((v for v in (yes, no) if isinstance(v, Real)), Real(mask.body, ""))
    return Real(mask.body, mask.body.select(mask.name, like.code, real(like, yes).name, real(like, no).name), like.code)


def copysign(size: Real | float, sign: Real) -> Real:
    """A size with another number's sign."""
    return call_intrinsic("llvm.copysign", real(sign, size), sign)


# The operations on numbers, and on truths, that are an operator or a method.
OPERATORS: dict[str, Callable[..., Any]] = {
    **{op: getattr(operator, name) for op, name in {"div": "truediv", "and": "and_", "not": "invert"}.items()},
    **{op: getattr(operator, op) for op in "add sub mul neg abs lt le gt ge".split()},
    "eq": Real.equals, "ne": _compared("une"), "fmod": _on_reals("frem"), "isnan": Real.missing, "select": where,
}  # fmt: skip
