"""The reader of Julia rule files: each construct against mathematics written out in Python, and files that mean harm."""

import ast
import math
from pathlib import Path

import pytest
from inside import MAX_BYTES, formula_template, formulas_by_name, julia, read_julia

from symdiff.errors import RuleError

TABLES = Path(__file__).parent / "tables"
CONSTRUCTS = TABLES / "julia_constructs.jl"
X, Y, OUT = 0.7, 1.9, 0.3
NAMES = "sin cos tan exp log sqrt sinh cosh erf atan2 fmod pi e inf nan isnan"
MATHEMATICS = {name: getattr(math, name) for name in NAMES.split()}
MATHEMATICS |= {
    "abs": abs, "max": max, "min": min, "real": lambda z: complex(z).real, "imag": lambda z: complex(z).imag,
    "conj": lambda z: complex(z).conjugate(), "sign": lambda x: math.copysign(1, x) if x else 0.0, "inv": lambda x: 1 / x,
}  # fmt: skip


def evaluate(partial, **values):
    """The value of a partial with Python's own numbers; the formulas are those of this file."""
    return eval(ast.unparse(ast.fix_missing_locations(partial)), {"__builtins__": {}}, MATHEMATICS | values)


def read(tmp_path, text):
    path = tmp_path / "rules.jl"
    path.write_text(text, encoding="utf-8")
    return read_julia(path)


def partial_of(tmp_path, formula):
    rows, problems = read(tmp_path, f"@define_diffrule Base.f(x, y) = :({formula}), :NaN")
    assert not problems
    assert rows[0].partials[1] is None
    return rows[0].partials[0]


VALUES = [
    # precedences
    ("-x^2", -(X**2)), ("-x^y", -(X**Y)), ("x^-y", X**-Y), ("x^y^x", X ** (Y**X)), ("x - y - 1", X - Y - 1),
    ("x / y / 2", X / Y / 2), ("x / y * 2", X / Y * 2), ("x + y * 2^x", X + Y * 2**X), ("x \\ y", Y / X),
    ("x \\ y \\ 2", 2 / (Y / X)), ("1//3 * x", X / 3), ("x^1//2", X / 2), ("-x * -y", X * Y), ("2 * -x + y", Y - 2 * X),
    ("!(x > y) && y > 1 || x > 9 ? 1 : 2", 1), ("x > 9 && y > 9 || y > 1 ? 1 : 2", 1), ("x > y || y > 1 && x < 0 ? 1 : 2", 2),
    ("x > y ? 1 : x > 0 ? 2 : 3", 2), ("x < 1 ? y > 9 ? 1 : 2 : 3", 2), ("(x > 0) & (y < 0) | (x < y) ? 1 : 2", 1),
    # juxtaposition
    ("2x", 2 * X), ("2x^2", 2 * X**2), ("1 / 2x", 1 / (2 * X)), ("2^2x", 2 ** (2 * X)), ("2(x + 1)", 2 * (X + 1)),
    ("2(x + 1)y", 2 * (X + 1) * Y), ("(x + 1)y", (X + 1) * Y), ("2π", 2 * math.pi), ("2sin(x)^2", 2 * math.sin(X) ** 2),
    ("√2x", math.sqrt(2) * X), ("√x^2", X), ("2√x", 2 * math.sqrt(X)), ("-2x", -2 * X), ("y / 2x * 3", Y / (2 * X) * 3),
    ("1 / 2 * x", X / 2), ("2$x", 2 * X), ("√√x", X**0.25),
    # numbers and constants
    ("1.0f0 + x", 1 + X), ("1e-3x", 1e-3 * X), ("0x10", 16), ("1_000", 1000), (".5x", X / 2), ("2.", 2.0), ("1.5e2", 150.0),
    ("π + pi", 2 * math.pi), ("ℯ", math.e), ("exp(1)", math.e), ("im * im * x", -X), ("Inf", math.inf), ("true + false", 1),
    ("$logtwo", math.log(2)), ("logπ", math.log(math.pi)), ("$twoπ", 2 * math.pi), ("sqrtπ", math.sqrt(math.pi)),
    ("$invsqrtπ", 1 / math.sqrt(math.pi)), ("$logten", math.log(10)), ("sqrt2π", math.sqrt(2 * math.pi)),
    ("quartπ", math.pi / 4), ("fourπ", 4 * math.pi), ("halfπ", math.pi / 2), ("x / $twoπ", X / (2 * math.pi)),
    # comparisons
    ("0 < x < y ? 1 : 2", 1), ("0 < x > y ? 1 : 2", 2), ("0 ≤ x <= y ≥ 1 ? 1 : 2", 1), ("x ≠ y ? 1 : 2", 1),
    ("x != x ? 1 : 2", 2), ("x == x ? 1 : 2", 1), ("x >= y ? 1 : 2", 2),
    # Booleans are numbers: partials, arithmetic, strong zeros
    ("x > y", 0), ("!(x > y)", 1), ("isnan(x)", 0), ("(x > y) + 1", 1), ("-(x < y)", -1), ("(x > y) * log(-x)", 0),
    ("log(-x) * (x > y)", 0), ("(x < y) * y", Y), ("x < y ? x < y : x > y", 1), ("ifelse(x < y, y > x, 5)", 1),
    ("2(x < y)", 2), ("x^(x > y)", 1),
    # conditions and blocks
    ("ifelse(x > y, 1, 2)", 2), ("if x > y 1 else 2 end", 2), ("if x > y; 1; elseif x > 0; 2; else; 3; end", 2),
    ("if x > y\n 1\nelseif x > 9\n 2\nelse\n 3\nend", 3), ("begin\n z = x\n\n z + 1\nend", X + 1), ("z = x^2; 2z", 2 * X**2),
    ("(z = x^2; 2z)", 2 * X**2), ("begin a = x; b = a + y; a * b end", X * (X + Y)), ("(x = y; x)", Y), ("z = w = x; 1", None),
    ("if x > y; z = 1 else z = 2 end; z", 2), ("z = 5; if x > y; z = 1 end; z", None), ("x > y ? (z = 1) : (z = 2); z", 2),
    ("z = 5; if x > y; z = 1; 0 else 0 end; z", 5), ("if x > y; u = 1; u else 2 end", 2),
    ("if x < y; x = 2y; 0 else 0 end; x", 2 * Y),
    ("if x > y; u = 1; u else 2 end; u", None), ("x > y && (z = 1) > 0 ? 1 : 2", None), ("if x > y; 1 end", None),
    ("begin\n x -y\nend", X - Y), ("x +\n y", X + Y), ("max(x,\n y)", Y),
    # calls and their conventions
    ("Base.Math.sin(x)", math.sin(X)), ("SpecialFunctions.erf(x)", math.erf(X)), ("$(Base.sin)(x)", math.sin(X)),
    ("$(_abs_deriv)($x)", 1), ("one(x) + zero(y)", 1), ("oftype(x, 2)", 2), ("float(x)", X), ("T(y)", Y),
    ("convert(Float64, y)", Y), ("log(2, x)", math.log2(X)), ("atan(y, x)", math.atan2(Y, X)), ("rem(y, x)", math.fmod(Y, X)),
    ("y % x", math.fmod(Y, X)), ("+(x, y)", X + Y), ("-(x)", -X), ("Base.:*(x, y)", X * Y), ("Base.:\\(x, y)", Y / X),
    ("isa(x, Real) ? 1 : 2", 1), ("x isa Complex ? 1 : 2", 2), ("isa(im * x, Complex{T}) ? 1 : 2", 1), ("iszero(x) ? 1 : 2", 2),
    ("signbit(-x) ? 1 : 2", 1), ("abs(real(conj(x - im)))", X), ("sign(-x)", -1), ("sin.(x) .* y .^ 2", math.sin(X) * Y**2),
    ("angle(im * x)", math.pi / 2), ("$x + $(y) + $(x * y)", X + Y + X * Y), ("x::Real + y", X + Y),
    ("1 / #= a #= nested =# comment =# x", 1 / X), ("1 / # to the end\n x", 1 / X),
]  # fmt: skip


@pytest.mark.parametrize(("formula", "expected"), [v for v in VALUES if v[1] is not None], ids=lambda v: str(v)[:30])
def test_formulas_have_julias_values(formula, expected, tmp_path):
    assert evaluate(partial_of(tmp_path, formula), x=X, y=Y) == pytest.approx(expected, rel=1e-15)


REFUSED = [formula for formula, expected in VALUES if expected is None] + [
    "x.field", "x.a.b", "x[1]", "x'", "x y", "[x, y]", "{x}", '"text"', "x |> sin", "y -> y", "unknown", "$unknown",
    "@eval x", "x = ", "", "x +", "x ? y", "(x", "x)", "x === y", "return x", "for i in 1:2; x end",
    "f(x; k = 1)", "f(x...)", "ifelse(x > y, 1)",
    "signbit()", "one()", "log()", "atan(1, 2, 3)", "+(x, y, x)", "x isa Integer", "x isa AbstractArray",
    "isa(x, Union{Real, T})", "1e999", "9" * 400, "x\u00b0", "`ls`", "\\", "begin end", "(,)", "let z = 1, w = 2; z end",
]  # fmt: skip


@pytest.mark.parametrize("formula", REFUSED, ids=lambda f: f[:30])
def test_what_is_no_formula_is_a_problem_and_the_next_rule_is_read(formula, tmp_path):
    rows, problems = read(
        tmp_path, f"\n@define_diffrule Base.f(x, y) = :({formula}), :NaN\n@define_diffrule Base.g(x) = :(2)\n"
    )
    assert [row.name for row in rows] == ["g"]
    assert [problem.line for problem in problems] == [2]
    assert 0 < len(problems[0].reason) <= 200


def test_unknown_callees_are_left_to_the_caller(tmp_path):
    call = partial_of(tmp_path, "Some.Package.Li2(x)")
    assert isinstance(call, ast.Call)
    assert ast.unparse(call) == "Li2(x)"


EXPECTED = {
    ("Base", "sin"): (("θ",), [math.cos(X)]), ("Base", "^"): (("x", "y"), [Y * X ** (Y - 1), X**Y * math.log(X)]),
    ("Base.Math", "sinh"): (("lambda_",), [math.cosh(X)]), ("Base", "tan"): (("out_",), [1 + math.tan(X) ** 2]),
    ("Base", "expm1"): (("e_",), [math.exp(X)]), ("Base", "-"): (("ε", "ε_"), [1, -1]), ("Base", "max"): (("x", "y"), [0, 1]),
    ("Base", "abs2"): (("x",), [2 * X]), ("SpecialFunctions", "erf"): (("x",), [2 / math.sqrt(math.pi) * math.exp(-X * X)]),
    ("SpecialFunctions", "besselk"): (("ν", "x"), [None, None]), ("Base", "exp"): (("x",), [OUT]),
    ("Base", "sqrt"): (("x",), [1 / (2 * OUT)]), ("Base", "\\"): (("x", "y"), [-OUT / X, 1 / X]), ("Base", "+"): (("x",), [1]),
    ("Base", "cos"): (("Ω",), [-math.sin(X)]), ("Base", "hypot"): (("x", "y"), [X / OUT, Y / OUT]),
    ("Base", "sign"): (("x",), [0]), ("Base", "ldexp"): (("x", "y"), [2**Y, None]),
    ("Base", "atan"): (("y", "x"), [Y / (X * X + Y * Y), -X / (X * X + Y * Y)]),
    ("Base", "*"): (("x", "y"), [Y, X]), ("Base", "log"): (("x",), [1 / X]), ("Base", "tanh"): (("x",), [1 - OUT**2]),
    ("Base", "min"): (("x", "y"), [None, 0]), ("Base", "identity"): (("x",), [1]),
}  # fmt: skip


def test_the_table_of_constructs():
    rows, _ = read_julia(CONSTRUCTS)
    assert {(row.module, row.name): row.parameters for row in rows} == {key: value[0] for key, value in EXPECTED.items()}
    assert len(rows) == len(EXPECTED)
    for row in rows:
        values = dict(zip(row.parameters, (X, Y), strict=False)) | {"out": OUT}
        expected = EXPECTED[row.module, row.name][1]
        found = [None if p is None else evaluate(p, **values) for p in row.partials]
        assert found == [None if e is None else pytest.approx(e, rel=1e-15) for e in expected], row.name


def test_every_partial_of_the_table_is_lowered():
    for row in read_julia(CONSTRUCTS)[0]:
        for partial in filter(None, row.partials):
            assert formula_template(partial, row.parameters, row.name, formulas_by_name()).steps or isinstance(
                partial, ast.Name
            )


def test_rows_say_where_they_are_and_what_their_arguments_are():
    lines = CONSTRUCTS.read_text(encoding="utf-8").splitlines()
    rows = {row.name: row for row in read_julia(CONSTRUCTS)[0]}
    for row in rows.values():
        assert "rule" in lines[row.line - 1]
        assert len(row.kinds) == len(row.parameters) == len(row.partials)
    assert rows["hypot"].kinds == ("Real", "Real")
    assert rows["sqrt"].kinds == ("Union{Real, Complex, T}",)
    assert rows["identity"].kinds == ("Complex",)
    assert rows["sin"].kinds == (None,)
    assert [rows[name].out_name for name in ("exp", "cos", "tanh", "*", "sin")] == ["Ω", None, "y", None, None]


def test_the_table_of_constructs_reports_what_it_cannot_read():
    lines = CONSTRUCTS.read_text(encoding="utf-8").splitlines()
    problems = read_julia(CONSTRUCTS)[1]
    words = [
        (".$f", "`for`"),
        (" g(", "`let`"),
        (" f(", "`function`"),
        ("Array", "elementwise"),
        ("sin(ds)", "ds times"),
        ("(x) 1", ""),
    ]
    assert len(problems) == len(words)
    for problem, (text, reason) in zip(problems, words, strict=True):
        assert text in lines[problem.line - 1] and reason in problem.reason


@pytest.mark.parametrize(
    ("pullback", "expected"),
    [
        ("ds", 1), ("-ds", -1), ("x * ds", X), ("ds * x / 2", X / 2), ("-(ds * x)", -X), ("sin(x) * (ds / x)", math.sin(X) / X),
        ("ds * x + ds", X + 1), ("ds / y", 1 / OUT), ("(z = sin(x); z * ds)", math.sin(X)), ("(x > 0) * ds", 1),
        ("ds * ds", None), ("ds^2", None), ("x / ds", None), ("sin(ds)", None), ("ds + 1", None), ("x", None),
        ("(ds > 0 ? ds : 0)", None), ("(x > 0 ? ds : 1)", None),
    ],
)  # fmt: skip
def test_pullbacks(pullback, expected, tmp_path):
    rows, problems = read(tmp_path, f"@diffrule f(x::Real) x {pullback}")
    if expected is None:
        assert not rows and len(problems) == 1
    else:
        assert evaluate(rows[0].partials[0], x=X, out=OUT) == pytest.approx(expected, rel=1e-15)


def test_spaces_separate_a_macros_arguments_but_not_within_brackets(tmp_path):
    rows, problems = read(tmp_path, "@scalar_rule f(x, y) x -y\n@scalar_rule g(x, y) (x -y, max(x -1, 0))\n")
    assert not problems
    assert [[ast.unparse(p) for p in row.partials] for row in rows] == [["x", "-y"], ["x - y", "max(x - 1, 0)"]]


def test_local_names_share_their_node(tmp_path):
    product = partial_of(tmp_path, "z = sin(x); z * z")
    assert product.left is product.right


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("x", "x"),
        ("α", "α"),
        ("ϵ", "ε"),
        ("lambda", "lambda_"),
        ("out", "out_"),
        ("ds", "ds_"),
        ("pi", "pi_"),
        ("x₁", "x1"),
        ("x′", "x_p"),
    ],
)
def test_identifiers(name, expected):
    assert julia.julia_identifier(name) == expected
    assert expected.isidentifier()


RULE = "@define_diffrule Base.f(x) = :("
HOSTILE = {
    "parentheses": RULE + "(" * 9000 + "x" + ")" * 9000 + ")", "dollars": RULE + "$" * 9000 + "x)",
    "roots": RULE + "√" * 4000 + "x)",
    "minuses": RULE + "-" * 4000 + "x)", "colons": RULE + ":(" * 2000 + "x", "powers": RULE + "x^" * 2000 + "x)",
    "elseif": RULE + "if x; 1 " + "elseif x; 1 " * 1100 + "else 2 end)", "begins": RULE + "begin " * 2000 + "x)",
    "ternaries": RULE + "x > 0 ? " * 1200 + "x)", "factors": RULE + "(1)" + "f(x)" * 1150 +")",
    "sum": RULE + "x + " * 2000 + "x)",
    "tokens": RULE + "max(" + "x, " * 3000 + "x))", "locals": RULE + "a = x + x; " + "a = a * a; " * 60 + "a)",
    "linear locals": RULE + "a = x; " + "a = a + 1; " * 600 + "a)",
    "branches": RULE + "a = x; " + "x > 0 ? (a = a + a) : (a = 1); " * 60 + "a)",
    "seeded locals": "@diffrule f(x::Real) x begin a = x + x; " + "a = a * a; " * 60 + "ds * a end",
    "arguments": "@define_diffrule Base.f(" + ", ".join(f"x{i}" for i in range(3000)) + ") = :(1)",
    "types": "@scalar_rule f(x::Union{" + "{" * 6000 + ") 1", "macros": "@define_diffrule " * 1000,
}  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_rules_are_problems(text, tmp_path):
    rows, problems = read(tmp_path, text + "\n@define_diffrule Base.g(x) = :(2)\n")
    assert {row.name for row in rows} <= {"g"}
    assert problems and all(len(problem.reason) <= 200 for problem in problems)


def test_the_bounds_leave_room_for_long_rules(tmp_path):
    assert evaluate(partial_of(tmp_path, "(" * 40 + "x" + ")" * 40), x=X) == X
    assert evaluate(partial_of(tmp_path, "a = x; " + "a = a + x; " * 60 + "a"), x=1.0) == 61.0
    chain = " ".join(f"elseif x > {9 - i}; {i}" for i in range(9))
    assert evaluate(partial_of(tmp_path, f"if x > 9; 0 {chain} else 10 end"), x=X) == 10


@pytest.mark.parametrize("character", "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\x00")
def test_invisible_characters_are_refused_even_in_comments(character, tmp_path):
    with pytest.raises(RuleError, match=r"rules\.jl:2: "):
        read(tmp_path, f"\n# {character}\n")


@pytest.mark.parametrize("raw", [b"\xff\xfe", b"@define_diffrule Base.f(x) = :(\xc3)", b"\xed\xa0\x80"])
def test_files_that_are_no_text_are_refused(raw, tmp_path):
    path = tmp_path / "binary.jl"
    path.write_bytes(raw)
    with pytest.raises(RuleError, match=r"binary\.jl: not UTF-8"):
        read_julia(path)


def test_large_files_are_not_read_whole(tmp_path):
    path = tmp_path / "large.jl"
    with path.open("wb") as file:
        file.truncate(2**40)  # sparse: a terabyte that only a bounded read survives
    with pytest.raises(RuleError, match=rf"more than {MAX_BYTES} bytes"):
        read_julia(path)


def test_long_lines_are_refused(tmp_path):
    assert read(tmp_path, "#" * 20_000) == ([], [])
    with pytest.raises(RuleError, match=r"rules\.jl:2: a line of 20001 characters"):
        read(tmp_path, "\n" + "#" * 20_001)
