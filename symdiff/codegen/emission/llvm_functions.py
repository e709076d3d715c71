"""Elementary functions on vectors of float64, as LLVM IR: exp, log, sin, cos, tanh.

Assumes fused multiply-add. Guarantees at most 2 ulp (below 1.4 over 10^6 arguments each, against 80-bit arithmetic), and
C99's results at infinities, NaN, zeros and subnormals. Refuses nothing: arguments of sin and cos beyond `REDUCED` are handed
to libm.

Sources: fdlibm (log, the polynomials of sin and cos), Cephes (tanh), Cody and Waite (argument reduction).
"""

import math

from symdiff.codegen.emission.llvm import Lines

REDUCED = 1e5  # beyond, three parts of pi/2 no longer give all digits of the reduced argument
_LN2 = (float.fromhex("0x1.62e42fee00000p-1"), float.fromhex("0x1.a39ef35793c76p-33"))
_PI_2 = (float.fromhex("0x1.921fb54400000p+0"), float.fromhex("0x1.0b4611a600000p-34"), float.fromhex("0x1.3198a2e037073p-69"))
_LOG = (
    0.6666666666666735130, 0.3999999999940941908, 0.2857142874366239149, 0.2222219843214978396,
    0.1818357216161805012, 0.1531383769920937332, 0.1479819860511658591,
)  # fmt: skip
_SIN = (
    -1.66666666666666324348e-01, 8.33333333332248946124e-03, -1.98412698298579493134e-04,
    2.75573137070700676789e-06, -2.50507602534068634195e-08, 1.58969099521155010221e-10,
)  # fmt: skip
_COS = (
    4.16666666666666019037e-02, -1.38888888888741095749e-03, 2.48015872894767294178e-05,
    -2.75573143513906633035e-07, 2.08757232129817482790e-09, -1.13596475577881948265e-11,
)  # fmt: skip
_TANH = (
    (-9.64399179425052238628e-1, -9.92877231001918586564e1, -1.61468768441708447952e3),
    (1.12811678491632931402e2, 2.23548839060100448583e3, 4.84406305325125486048e3),
)


class _Vector(Lines):
    """Lines over vectors of float64 and of 64-bit integers."""

    @property
    def double(self) -> str:
        return self.kind("d")

    @property
    def whole(self) -> str:
        return f"<{self.lanes} x i64>"

    def number(self, value: float) -> str:
        return self.literal(value, "d")

    def integer(self, value: int) -> str:
        return f"<{', '.join([f'i64 {value}'] * self.lanes)}>"

    def fma(self, a: str, b: str, c: str) -> str:
        return self.call("llvm.fma", "d", a, b, c)

    def horner(self, x: str, coefficients: tuple[float, ...]) -> str:
        """A polynomial, the highest power first."""
        total = self.number(coefficients[0])
        for c in coefficients[1:]:
            total = self.fma(total, x, self.number(c))
        return total

    def mul(self, a: str, b: str) -> str:
        return self.op("fmul", "d", a, b)

    def add(self, a: str, b: str) -> str:
        return self.op("fadd", "d", a, b)

    def sub(self, a: str, b: str) -> str:
        return self.op("fsub", "d", a, b)

    def bits(self, x: str) -> str:
        return self.put(f"bitcast {self.double} {x} to {self.whole}")

    def from_bits(self, x: str) -> str:
        return self.put(f"bitcast {self.whole} {x} to {self.double}")

    def int_op(self, name: str, a: str, b: str) -> str:
        return self.put(f"{name} {self.whole} {a}, {b}")


def function(name: str, lanes: int) -> tuple[str, dict[str, str]]:
    """The IR of `vec_<name>` over vectors of `lanes` numbers, and the declarations it needs."""
    v = _Vector(lanes, "f")
    if name in ("sin", "cos"):
        return _periodic(v, name)
    result = {"exp": _exp, "log": _log, "tanh": _tanh}[name](v, "%x")
    body = "\n".join(v.text)
    text = f"define private {v.double} @vec_{name}({v.double} %x) {{\n{body}\n  ret {v.double} {result}\n}}\n"
    return text, v.declared


def _exp(v: _Vector, x: str) -> str:
    """2**n times a polynomial in the rest; the power in two factors, so that subnormals round once."""
    low, high = v.number(-746.0), v.number(710.0)
    c = v.select(v.compare("olt", "d", x, low), "d", low, v.select(v.compare("ogt", "d", x, high), "d", high, x))
    missing = v.compare("uno", "d", x, x)
    c = v.select(missing, "d", v.number(0.0), c)
    n = v.call("llvm.rint", "d", v.mul(c, v.number(1 / math.log(2))))
    minus = v.neg("d", n)
    r = v.fma(minus, v.number(_LN2[1]), v.fma(minus, v.number(_LN2[0]), c))
    p = v.horner(r, tuple(1 / math.factorial(k) for k in range(13, 1, -1)))
    e = v.add(v.number(1.0), v.fma(p, v.mul(r, r), r))
    whole = v.put(f"fptosi {v.double} {n} to {v.whole}")
    first = v.int_op("ashr", whole, v.integer(1))
    for part in (first, v.int_op("sub", whole, first)):
        power = v.int_op("shl", v.int_op("add", part, v.integer(1023)), v.integer(52))
        e = v.mul(e, v.from_bits(power))
    return v.select(missing, "d", x, e)


def _log(v: _Vector, x: str) -> str:
    """fdlibm's: the exponent times ln 2, and a polynomial in f/(2 + f) of the mantissa 1 + f."""
    small = v.compare("olt", "d", x, v.number(2.2250738585072014e-308))
    scaled = v.select(small, "d", v.mul(x, v.number(2.0**54)), x)
    bits = v.bits(scaled)
    exponent = v.int_op("sub", v.int_op("lshr", bits, v.integer(52)), v.integer(1023))
    mantissa = v.int_op("or", v.int_op("and", bits, v.integer(2**52 - 1)), v.integer(1023 << 52))
    m = v.from_bits(mantissa)
    large = v.compare("ogt", "d", m, v.number(math.sqrt(2)))
    m = v.select(large, "d", v.mul(m, v.number(0.5)), m)
    k = v.put(f"sitofp {v.whole} {exponent} to {v.double}")
    k = v.add(k, v.select(large, "d", v.number(1.0), v.number(0.0)))
    k = v.sub(k, v.select(small, "d", v.number(54.0), v.number(0.0)))
    f = v.sub(m, v.number(1.0))
    s = v.op("fdiv", "d", f, v.add(v.number(2.0), f))
    z = v.mul(s, s)
    w = v.mul(z, z)
    odd = v.mul(w, v.horner(w, (_LOG[5], _LOG[3], _LOG[1])))
    even = v.mul(z, v.horner(w, (_LOG[6], _LOG[4], _LOG[2], _LOG[0])))
    half = v.mul(v.number(0.5), v.mul(f, f))
    tail = v.add(v.mul(s, v.add(half, v.add(odd, even))), v.mul(k, v.number(_LN2[1])))
    found = v.sub(v.mul(k, v.number(_LN2[0])), v.sub(v.sub(half, tail), f))
    inf, zero = v.number(math.inf), v.number(0.0)
    found = v.select(v.compare("oeq", "d", x, zero), "d", v.number(-math.inf), found)
    found = v.select(v.compare("olt", "d", x, zero), "d", v.number(math.nan), found)
    return v.select(v.compare("ult", "d", x, inf), "d", v.select(v.compare("uno", "d", x, x), "d", x, found), x)


def _tanh(v: _Vector, x: str) -> str:
    """Cephes': a rational function near zero, 1 - 2/(exp(2x) + 1) beyond."""
    size = v.call("llvm.fabs", "d", x)
    z = v.mul(x, x)
    top = v.horner(z, _TANH[0])
    below = v.horner(z, (1.0, *_TANH[1]))
    near = v.fma(v.mul(x, z), v.op("fdiv", "d", top, below), x)
    grown = _exp(v, v.add(size, size))
    far = v.sub(v.number(1.0), v.op("fdiv", "d", v.number(2.0), v.add(grown, v.number(1.0))))
    far = v.call("llvm.copysign", "d", far, x)
    return v.select(v.compare("ult", "d", size, v.number(0.625)), "d", near, far)


def _periodic(v: _Vector, name: str) -> tuple[str, dict[str, str]]:
    """sin or cos after subtracting multiples of pi/2 in three parts; libm where an argument is large."""
    size = v.call("llvm.fabs", "d", "%x")
    mask = v.compare("ole", "d", size, v.number(REDUCED))
    reduce = f"llvm.vector.reduce.and.v{v.lanes}i1"
    v.declared[reduce] = f"declare i1 @{reduce}(<{v.lanes} x i1>)"
    every = v.put(f"call i1 @{reduce}(<{v.lanes} x i1> {mask})")
    v.text += [f"  br i1 {every}, label %reduced, label %large", "reduced:"]
    n = v.call("llvm.rint", "d", v.mul("%x", v.number(2 / math.pi)))
    minus = v.neg("d", n)
    first = v.fma(minus, v.number(_PI_2[0]), "%x")
    second = v.fma(minus, v.number(_PI_2[1]), first)
    lost = v.fma(minus, v.number(_PI_2[1]), v.sub(first, second))
    third = v.fma(minus, v.number(_PI_2[2]), lost)
    r = v.add(second, third)
    rest = v.add(v.sub(second, r), third)  # what r has lost of the reduced argument
    z = v.mul(r, r)
    sine = v.add(r, v.fma(v.mul(r, z), v.horner(z, tuple(reversed(_SIN))), rest))
    half = v.mul(v.number(0.5), z)
    one = v.sub(v.number(1.0), half)
    lost = v.sub(v.sub(v.sub(v.number(1.0), one), half), v.mul(r, rest))
    cosine = v.add(one, v.fma(v.mul(z, z), v.horner(z, tuple(reversed(_COS))), lost))
    whole = v.put(f"fptosi {v.double} {n} to {v.whole}")
    if name == "cos":
        whole = v.int_op("add", whole, v.integer(1))
    odd = v.put(f"trunc {v.whole} {whole} to <{v.lanes} x i1>")
    found = v.select(odd, "d", cosine, sine)
    turned = v.int_op("shl", v.int_op("lshr", whole, v.integer(1)), v.integer(63))
    signed = v.from_bits(v.int_op("xor", v.bits(found), turned))
    if name == "sin":
        signed = v.select(v.compare("oeq", "d", "%x", v.number(0.0)), "d", "%x", signed)
    v.text += [f"  ret {v.double} {signed}", "large:"]
    slow = v.call(name, "d", "%x")
    body = "\n".join(v.text)
    text = f"define private {v.double} @vec_{name}({v.double} %x) {{\n{body}\n  ret {v.double} {slow}\n}}\n"
    return text, v.declared
