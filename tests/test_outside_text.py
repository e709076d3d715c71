"""Names, keys, settings, docstrings and messages from outside: in generated files they are literals, whatever they say."""

import ast
import builtins
import collections
import enum
import math
import os
import stat
import subprocess

import cuda_on_cpu
import cupy_standin
import numpy as np
import pytest
import sympy as sp
from inside import (
    Plain,
    Shown,
    c_comment_literal,
    docstring_literal,
    identifier,
    literal,
    main,
    message_literal,
    printable,
    structures,
)

import symdiff as sd

EVIL = "builtins.ran.append(1)"
HOSTILE = [
    "{__import__('builtins').ran.append(1)}", f'" + {EVIL} + "', f'"""\n{EVIL}\n"""', f"\nimport builtins; {EVIL}\n",
    f"*/ {EVIL} /*", "\\", '"', "'", '"""', "{", "}}", "\r\n", "\0", "\x1b[2J", "\u202e", "\u2028", "\udc80", "??/", "%d", "",
]  # fmt: skip


def shown(value):
    """A short name of a test."""
    return ascii(value)[:20] if not isinstance(value, int) or abs(value) < 100 else "huge"


class Mode(enum.IntEnum):
    FAST = 3


class Odd(str):
    def __repr__(self):
        return "__import__('builtins').ran.append(1)"

    __str__ = __repr__


class Thing:
    __repr__ = Odd.__repr__

    def __len__(self):
        return 1


@pytest.fixture
def ran(monkeypatch):
    """What code from outside would leave; nothing may."""
    found = []
    monkeypatch.setattr(builtins, "ran", found, raising=False)
    yield found
    assert not found


def made(function, *args, target="numpy"):
    """The function that a generated module is for."""
    text = function.source(*args, target=target)
    space = {}
    exec(compile(text, "made", "exec"), space)
    return space[space["__all__"][0]]


@pytest.mark.parametrize("target", ["numpy", "python"])
@pytest.mark.parametrize(
    "text", [*HOSTILE, Odd("k"), Mode.FAST, b"'\n\"{", 3, None, True, np.int64(5), np.True_, np.sin, 10**5000], ids=shown
)
def test_settings(text, target, ran):
    function = sd.grad(lambda p: p["x"] ** 2)
    p = {"x": 3.0, "mode": text}
    file = made(function, p, target=target)
    found = file(p)
    assert (found["x"] == 6.0 and found["mode"] is text) or found["mode"] == text
    with pytest.raises(ValueError, match="expected"):
        file({"x": 3.0, "mode": "another"})


@pytest.mark.parametrize("key", [*HOSTILE, Mode.FAST, b"'\n\"{", 2.5, math.inf, -0.0], ids=shown)
def test_keys(key, ran):
    p = {key: 3.0}
    assert made(sd.grad(lambda p: p[key] ** 2), p)(p) == {key: 6.0}


@pytest.mark.parametrize("key", [Thing(), math.nan], ids=["object", "nan"])
def test_keys_that_no_literal_finds(key, ran):
    with pytest.raises(sd.ExportError, match="cannot be written"):
        sd.grad(lambda p: p[key] ** 2).source({key: 3.0})


def test_fields_that_python_would_read_as_others():
    record = collections.namedtuple("Record", ["\ufb01"])
    with pytest.raises(sd.ExportError, match="Python would read another name"):
        sd.grad(lambda r: r[0] ** 2).source(record(2.0))


@pytest.mark.parametrize("target", ["numpy", "python", "c", "cupy", "cuda"])
@pytest.mark.parametrize("text", HOSTILE, ids=shown)
def test_names_of_functions_files_and_docstrings(text, target, ran):
    def f(x):
        return x * x

    f.__doc__ = f.__name__ = f.__module__ = f.__qualname__ = text
    f.__code__ = f.__code__.replace(co_filename=f"{text.replace(chr(0), '')}.py")
    source = sd.grad(f).source(3.0, target=target)
    source.encode()
    if target in ("c", "cuda"):
        assert source.count("*/") == source.count("/*") == 1
        return
    ast.parse(source)
    if target != "cupy":
        file = made(sd.grad(f), 3.0, target=target)
        spelled = text.encode("utf-8", "backslashreplace").decode()  # no docstring of Python 3.13 has half a pair
        assert file(3.0) == 6.0 and " ".join(spelled.split()) in " ".join(file.__doc__.split())


@pytest.mark.parametrize("target", ["numpy", "python"])
@pytest.mark.parametrize("text", HOSTILE, ids=shown)
def test_messages_of_exceptions(text, target, ran):
    def f(x):
        if x > 1.0:
            raise ValueError(text, f"{x}{text}", Thing(), 2.5, np.float64(0.5))
        return x

    file = made(sd.grad(f), 0.5, target=target)
    with pytest.raises(ValueError) as info:
        file(2.0)
    assert info.value.args == (text, f"2.0{text}", repr(Thing()), 2.5, 0.5)


NAMES = """
        inp np cp out self match type _ case f v0 x0 math work work_d x_rows value0 target kernel0 _kernel0 _code
    numbers_d partial_d key     errno I NULL EOF complex restrict register signed isnan exp pow y0 INFINITY NAN M_PI
    threadIdx np_maximum shared_d __x__ \u03b1     inner r a list len any float ValueError f_value_and_grad
""".split()


@pytest.mark.parametrize("name", NAMES)
def test_names_of_arguments(name, monkeypatch):
    space = {"np": np, "sum_": np.sum}
    body = f"math_.maximum(math_.exp({name}), 0.5) * {name} * y"
    exec(f"import numpy as math_\ndef f({name}, y):\n    return {body}", space)
    exec(f"def whole({name}, W):\n    return sum_(W.T @ {name}[::-1] * {name}[0])", space)
    f, whole = sd.value_and_grad(space["f"], (0, 1)), sd.value_and_grad(space["whole"], (0, 1), scalarize=False)
    for target in ("numpy", "python"):
        assert structures.leaves(made(f, 0.3, 0.7, target=target)(0.3, 0.7)) == pytest.approx(structures.leaves(f(0.3, 0.7)))
    args = np.linspace(0.1, 1.0, 5), np.arange(10.0).reshape(5, 2)
    for one, other in zip(structures.leaves(made(whole, *args)(*args)), structures.leaves(whole(*args)), strict=True):
        np.testing.assert_allclose(one, other)
    points = np.array([0.3, 0.4]), np.array([0.7, 0.2])
    batch = sd.vmap(f)
    for one, other in zip(structures.leaves(made(batch, *points)(*points)), structures.leaves(batch(*points)), strict=True):
        np.testing.assert_allclose(one, other)
    for function, given in ((f, (0.3, 0.7)), (whole, args), (batch, points)):
        assert "icp." not in function.source(*given, target="cupy")


@pytest.mark.skipif(cuda_on_cpu.COMPILER is None, reason="no C compiler here")
def test_names_of_arguments_in_c(tmp_path):
    parts = []
    for k, name in enumerate(NAMES):
        space = {"NP": np}
        exec(f"def f{k}({name}, y):\n    return NP.maximum(NP.exp({name}), NP.sign(y)) * {name} * NP.sqrt(y)", space)
        parts.append(sd.value_and_grad(space[f"f{k}"], (0, 1)).source(0.3, 0.7, target="c"))
    for k, part in enumerate(parts):
        (tmp_path / f"f{k}.c").write_text(part)
    command = ["cc", "-std=c99", "-Wall", "-Werror", "-fsyntax-only", *(f"f{k}.c" for k in range(len(parts)))]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr


@pytest.mark.skipif(cuda_on_cpu.COMPILER is None, reason="no C++ compiler here")
def test_an_argument_whose_name_ends_in_np_on_the_device(monkeypatch):
    cp = cupy_standin.installed(monkeypatch)
    f = sd.value_and_grad(lambda inp, W: np.sum(W @ inp), (0, 1), scalarize=False)
    inp, W = np.linspace(0.0, 1.0, 6).reshape(3, 2), np.ones((4, 3))
    _, (dinp, dW) = made(f, inp, W, target="cupy")(cp.asarray(inp), cp.asarray(W))
    wanted = f(inp, W)
    np.testing.assert_allclose(dinp.get(), wanted[1][0])
    np.testing.assert_allclose(dW.get(), wanted[1][1])


KINDS = {
    "value_and_grad": (sd.value_and_grad(lambda x, y: x * y, (0, 1)), (2.0, 3.0)),
    "one in a tuple": (sd.grad(lambda x: x * x, (0,)), (2.0,)),
    "hessian": (sd.hessian(lambda x, y: x * x * y, (0, 1)), (2.0, 3.0)),
    "jacobian": (sd.jacobian(lambda x, y: [x * y, (x, y * y)], (0, 1)), (2.0, 3.0)),
    "jvp": (sd.jvp(lambda x, y: (x * y,), (0, 1)), (2.0, 3.0, (1.0, 0.5))),
    "vjp": (sd.vjp(lambda x, y: [x * y, x], (0, 1)), (2.0, 3.0, [1.0, 0.5])),
    "hvp": (sd.hvp(lambda x, y: x * y * y, (0, 1)), (2.0, 3.0, (1.0, 0.5))),
    "wirtinger": (sd.wirtinger(lambda z: abs(z) ** 2), (1.0 + 2.0j,)),
    "vmap": (sd.vmap(sd.value_and_grad(lambda x, y: x * y, (0, 1))), (np.ones(3), np.ones(3))),
    "whole": (sd.value_and_grad(lambda x, y: np.sum(x * y), (0, 1), scalarize=False), (np.ones(3), np.ones(3))),
    "value": (Plain(lambda x: [x, [x * x]]), (2.0,)),
}


@pytest.mark.parametrize("target", ["numpy", "python"])
@pytest.mark.parametrize("name", KINDS)
def test_results_have_the_live_functions_structure(name, target):
    function, args = KINDS[name]
    if target == "python" and name in ("vmap", "whole"):
        pytest.skip("Python files have no points, and lists for arrays")
    wanted = function(*args)
    file = made(function, *args, target=target)
    found = file(*args)
    assert structures.structure(found) == structures.structure(wanted)
    for one, other in zip(structures.leaves(found), structures.leaves(wanted), strict=True):
        np.testing.assert_allclose(one, other)
    if target == "numpy":
        out = structures.map_leaves(lambda leaf: np.empty(np.shape(leaf), np.asarray(leaf).dtype), wanted)
        assert file(*args, out=out) is out
        for one, other in zip(structures.leaves(out), structures.leaves(wanted), strict=True):
            np.testing.assert_allclose(one, other)


def test_functions_of_one_name_are_told_apart():
    def opaque(scale):
        @sd.primitive
        def g(x):
            return scale * float(x)

        sd.diffrule(g)(lambda out, x: scale)
        return g

    one, other = opaque(2.0), opaque(5.0)
    assert sd.value_and_grad(lambda x: one(x) + other(x))(1.0) == (7.0, 7.0)


def test_only_the_headers_own_command_is_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.py").write_text("import builtins\nbuiltins.ran.append(1)\ndef f(x): return x\n")

    def f(x):
        return x * x

    f.__doc__ = "\n\n  symdiff export other:f --target c\n"
    sd.grad(f).export(tmp_path / "f.c", 1.0, target="c")
    assert main(["check", "f.c"]) == 2
    assert "no module has f" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Odd('a"'), "'a\"'"), (Mode.FAST, "3"), (np.float64(0.5), "0.5"), (-0.0, "-0.0"), (math.inf, 'float("inf")'),
        (complex(math.nan, -0.0), 'complex(float("nan"), -0.0)'), ((1, (b"x",)), "(1, (b'x',))"), (np.True_, "True"),
    ],
)  # fmt: skip
def test_literals(value, text):
    assert literal(value) == text
    with pytest.raises(sd.ExportError, match="cannot be written"):
        literal((1, Thing()))
    assert eval(literal(-(10**5000))) == -(10**5000)


@pytest.mark.parametrize("text", HOSTILE, ids=shown)
def test_every_kind_of_text(text, ran):
    assert eval(literal(text)) == text
    assert printable(text).isprintable()
    assert c_comment_literal([text]).count("*/") == 1 and c_comment_literal([text]).count("\n") == 3
    assert identifier(text).isidentifier() and identifier(text, plain=True).isascii()
    function = ast.parse("def f():\n" + "\n".join([*docstring_literal(f"x{text}x"), "    pass"])).body[0]
    assert isinstance(function.body[0].value, ast.Constant)
    x = {text: 2.0}
    assert eval(message_literal(text, Shown(f"x[{literal(text)}]", "!r"), "}"), {"x": x}) == f"{text}2.0}}"


@pytest.mark.skipif(os.name != "posix", reason="modes and links are POSIX")
def test_permissions_and_links_of_written_files(tmp_path):
    before = os.umask(0o027)
    try:
        path = tmp_path / "f.py"
        sd.grad(np.sin).export(path, 0.3)
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        path.chmod(0o600)
        (tmp_path / "link.py").symlink_to("f.py")
        path.write_text("old")
        sd.grad(np.sin).export(tmp_path / "link.py", 0.3)
    finally:
        os.umask(before)
    assert (tmp_path / "link.py").is_symlink() and "cos" in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and len(os.listdir(tmp_path)) == 2
    os.mkfifo(tmp_path / "pipe.py")
    for place in ("pipe.py", ".", "a\0b.py", "none/f.py"):
        with pytest.raises(sd.ExportError):
            sd.grad(np.sin).export(str(tmp_path / place), 0.3)
    with pytest.raises(sd.ExportError, match="another suffix"):
        sd.grad(np.sin).export(tmp_path / "f.h", 0.3, target="c")


def test_formulas_for_pages_and_terminals():
    for name in (r"\input{secret}", "</script>", "$$", "\x1b[2J", r"\def"):
        symbol = sp.Symbol(name)
        graph = sd.Graph.from_sympy([symbol], symbol * symbol)
        latex = graph._repr_latex_()
        assert not any(text in latex for text in (r"\input", "</", r"\def", "\x1b"))
        assert latex.count("$") - latex.count(r"\$") == 4
        assert "\x1b" not in str(graph)
    beta = sp.Symbol(r"\beta_1")
    assert r"\beta_{1}" in sd.Graph.from_sympy([beta], beta * beta)._repr_latex_()


ENCODED = "coding: utf-7 +AAo-builtins.ran.append(1)+AAo-"


@pytest.mark.parametrize("target", ["numpy", "python", "cupy"])
@pytest.mark.parametrize(
    ("parameter", "given"),
    [("encoding", 0.5), ("p", {ENCODED: 0.5}), ("p", {"k": 0.5, "mode": ENCODED}), ("p", {"coding=8": 0.5}), (ENCODED, 0.5)],
    ids=["argument", "key", "setting", "number", "file"],
)
def test_no_text_in_a_header_names_the_encoding_of_the_file(parameter, given, target, tmp_path, monkeypatch):
    monkeypatch.setattr(builtins, "ran", [], raising=False)
    filename = f"{parameter}.py" if parameter == ENCODED else "m.py"
    parameter = "p" if parameter == ENCODED else parameter
    of = "number" if isinstance(given, float) else "first"
    space = {"number": lambda p: p, "first": lambda p: next(iter(p.values()))}
    exec(compile(f"def f({parameter}):\n    return {of}({parameter})**2 + 0.0*len('\u03b1')", filename, "exec"), space)
    path = tmp_path / "made.py"
    sd.grad(space["f"]).export(path, given, target=target)
    made = {"__name__": "made"}
    code = compile(path.read_bytes(), str(path), "exec")
    if target != "cupy":
        exec(code, made)
        found = made["f_grad"](given)
        assert (found if isinstance(found, (float, np.floating)) else next(iter(found.values()))) == 1.0
    assert builtins.ran == []
