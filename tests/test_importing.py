"""Rule files of other languages: every construct, every problem reported, hostile files within bounds."""

import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from inside import our_rule

import symdiff as sd

TABLES = Path(__file__).parent / "tables"
DIFFRULES, CHAINRULES = TABLES / "diffrules_syntax.jl", TABLES / "chainrules_syntax.jl"


def load(path):
    with pytest.warns(sd.RuleWarning):
        return sd.load_rules(path)


@pytest.mark.parametrize("path", [DIFFRULES, CHAINRULES], ids=lambda p: p.stem)
def test_every_row_of_a_function_of_ours_is_right(path):
    book = load(path)
    known = [rule for rule in book.values() if rule.op or rule.primal]
    assert len(known) == {"diffrules_syntax": 31, "chainrules_syntax": 14}[path.stem]
    assert not sd.check_rules(known, points=4).failed


@pytest.mark.parametrize("path", [DIFFRULES, CHAINRULES], ids=lambda p: p.stem)
def test_what_cannot_be_read_is_reported_with_its_line(path):
    problems = load(path).problems
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(problems) == {"diffrules_syntax": 6, "chainrules_syntax": 2}[path.stem]
    for problem in problems:
        place, _, reason = problem.partition(": ")
        text = lines[int(place.rpartition(":")[2]) - 1]
        assert "rule" in text and reason, problem
    with pytest.raises(sd.RuleError, match=rf"{path.name}:\d+: "):
        sd.load_rules(path, strict=True)


def partials(text, tmp_path, *numbers, strict=True):
    path = tmp_path / "one.jl"
    path.write_text(text, encoding="utf-8")
    (rule,) = sd.load_rules(path, strict=strict).values()
    return rule.evaluate_known(*numbers)


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("-x^2", -9.0), ("2^-x", 0.125), ("2x^2", 18.0), ("1 / 2x", 1 / 6), ("2(x + 1)x", 24.0), ("x^2^2", 81.0),
        ("-x * 2", -6.0), ("6 / x / 2", 1.0), ("6 \\ x", 0.5), ("1//3", 1 / 3), ("7 % x", 1.0), ("1.5f0 * x", 4.5),
        ("0x10 + 1_000", 1016.0), ("√x^2", 3.0), ("1 < x < 4 ? 5 : 6", 5.0), ("x > 1 && !(x > 2) || x == 3 ? 1 : 2", 1.0),
        ("x ≤ 3 ? 1 : 0", 1.0), ("x ≠ 3", 0.0), ("(y = 2x; y * y)", 36.0), ("begin z = x; z + 1 end", 4.0),
        ("if x > 3; 1 elseif x > 2; 2 else 3 end", 2.0), ("x isa Real ? 1 : 2", 1.0), ("isa(x, Complex) ? 1 : 2", 2.0),
        ("max(x, 5) + min(x, 5)", 8.0), ("atan(x, 4)", np.arctan2(3.0, 4.0)), ("log(2, x)", np.log2(3.0)), ("rem(x, 2)", 1.0),
        ("x .* 2 ./ 3 .^ 2", 2 / 3), ("+(x, 1) * -(x)", -12.0), ("twoπ * x", 6 * np.pi), ("ℯ + π", np.e + np.pi),
        ("inv(x)", 1 / 3), ("Float64(x)", 3.0), ("Base.Math.sin(x)", np.sin(3.0)), ("sin.(x)", np.sin(3.0)), ("x |> f", None),
        ("x x", None),
        ("a = x; b = a * a; b * a", 27.0), ("1 / # a comment\n x", 1 / 3), ("[x]", None), ("x'", None), ("f(x) do y end", None),
        ('"text"', None), ("x; ", 3.0), ("", None), ("(x, x)", None), ("@eval x", None), ("x[1]", None), ("$(x)", 3.0),
    ],
)  # fmt: skip
def test_julia_expressions(formula, expected, tmp_path):
    text = f"@define_diffrule Base.sin(x) = :({formula})"
    if expected is None:
        with pytest.raises(sd.RuleError, match=r"one\.jl:1"):
            partials(text, tmp_path, 3.0)
    else:
        np.testing.assert_allclose(partials(text, tmp_path, 3.0)[0], expected, rtol=1e-15)


def test_pullbacks_are_linear_in_the_cotangent(tmp_path):
    for pullback in ("ds * ds", "ds^2", "x / ds", "sin(ds)", "ds + 1", "x", "ds > 0 ? ds : 0"):
        with pytest.raises(sd.RuleError, match=r"one\.jl:1"):
            partials(f"@diffrule sin(x::Real) x {pullback}", tmp_path, 3.0)
    assert partials("@diffrule sin(x::Real) x -(2 * ds - ds / x)", tmp_path, 4.0) == (-1.75,)


@pytest.mark.parametrize(
    "text",
    [
        "@define_diffrule Base.f(x) = :(" + "(" * 10**6 + "x" + ")" * 10**6 + ")",
        "\n".join("@define_diffrule Base.f(x) = :(" + "(" * 2000 for _ in range(200)),
        "x" * 10**7,
        "# \u202e right to left",
        "@define_diffrule Base.f(x) = :(x\x00)",
        "@define_diffrule Base.f(x) = :(a = x + x; " + "a = a * a; " * 60 + "a)",
        "@define_diffrule Base.f(x) = :(" + "-" * 5000 + "x)",
        "@define_diffrule Base.f(x) = :(" + "x + " * 4000 + "x)",
        "@define_diffrule Base.f(x) = :(if x" + " else" * 3000,
        "@define_diffrule Base.f(x) = :(run(`rm -rf /`))",
        "@define_diffrule Base.f(x) = :(x.__class__)",
        "@define_diffrule " * 5000,
        "@define_diffrule " + '"""\n' + '\\"""\n' * 16_000,
        "@define_diffrule " + '\\"' * 36_000,
        "#==#" * 4_000 + "\n@define_diffrule ",
        "@define_diffrule Base.f(" + ", ".join(f"x{i}" for i in range(3000)) + ") = :(1)",
    ],
    ids=range(16),
)
def test_hostile_files_end_soon(text, tmp_path):
    path = tmp_path / "hostile.jl"
    path.write_text(text, encoding="utf-8")
    start = time.perf_counter()
    with pytest.raises(sd.RuleError, match=r"hostile\.jl"):
        sd.load_rules(path, strict=True)
    assert time.perf_counter() - start < 10
    tracemalloc.start()  # in a run of its own: it makes reading several times slower
    with pytest.raises(sd.RuleError, match=r"hostile\.jl"):
        sd.load_rules(path, strict=True)
    assert tracemalloc.get_traced_memory()[1] < 200e6
    tracemalloc.stop()


def test_a_file_that_is_no_text(tmp_path):
    path = tmp_path / "binary.jl"
    path.write_bytes(b"@define_diffrule \xff\xfe")
    with pytest.raises(sd.RuleError, match=r"binary\.jl"):
        sd.load_rules(path)
    with pytest.raises(sd.RuleError, match="No such file"):
        sd.load_rules(tmp_path / "missing.jl")


def test_an_imported_rule_takes_the_place_of_ours(tmp_path):
    path = tmp_path / "mine.jl"
    path.write_text("@define_diffrule Base.sin(x) = :(7 * cos($x))\n", encoding="utf-8")
    mine = sd.load_rules(path)
    assert sd.grad(np.sin, rules=mine)(0.0) == 7.0
    assert sd.grad(np.sin)(0.0) == 1.0


@pytest.mark.parametrize(
    ("name", "arity", "expected"),
    [
        ("^", 2, "power"), ("\\", 2, "divide"), ("-", 1, "negative"), ("atan", 2, "arctan2"), ("erf", 2, "erf"),
        ("besselj", 2, "jv"), ("trigamma", 1, "trigamma"), ("log", 2, "log_base"), ("rem2pi", 1, "rem2pi"),
        ("logistic", 1, "logistic"),
    ],
)  # fmt: skip
def test_julia_names(name, arity, expected):
    assert our_rule("Base", name, arity).name == expected


DIFFRULES_FUNCTIONS = """
+/1 -/1 sqrt cbrt abs2 inv log log10 log2 log1p exp exp2 exp10 expm1 sin cos tan sec csc cot sind cosd tand secd cscd cotd sinpi
cospi asin acos atan asec acsc acot asind acosd atand asecd acscd acotd sinh cosh tanh sech csch coth asinh acosh atanh asech
acsch acoth sinc deg2rad mod2pi rad2deg abs +/2 -/2 */2 //2 \\/2 ^/2 atan/2 hypot/2 log/2 ldexp/2 mod/2 rem/2 max/2 min/2
gamma loggamma erf erfinv erfc logerfc erfcinv erfi erfcx logerfcx dawson digamma invdigamma trigamma airyai airyaiprime airybi
airybiprime airyaix airyaiprimex airybix airybiprimex besselj0 besselj1 bessely0 bessely1 sinint cosint ellipk ellipe expint/1
erf/2 besselj/2 besseli/2 bessely/2 besselk/2 besseljx/2 besselix/2 besselyx/2 besselkx/2 hankelh1/2 hankelh2/2 hankelh1x/2
hankelh2x/2 polygamma/2 beta/2 logbeta/2 expint/2 zeta/2 xlogx logistic logit log1psq log1pexp log1mexp log2mexp logexpm1
log1pmx logmxp1 xlogy/2 logaddexp/2 logsubexp/2 xlog1py/2
"""


def test_every_function_of_diffrules_has_a_rule():
    missing = []
    for word in DIFFRULES_FUNCTIONS.split():
        name, arity = word[:-2] if word[-2:] in ("/1", "/2") else word, 2 if word.endswith("/2") else 1
        if our_rule("Base", name, arity) is None:
            missing.append(word)
    nan_safe = "sqrt sin cos tan asin acos acosh atanh log log2 log10 log1p lgamma pow/2 max/2 min/2"
    for word in nan_safe.split():
        if our_rule("NaNMath", word.partition("/")[0], 2 if "/" in word else 1) is None:
            missing.append(f"NaNMath.{word}")
    assert not missing
