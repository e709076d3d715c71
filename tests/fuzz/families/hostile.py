"""Functions with odd and hostile names, keys, settings, docstrings and messages, exported to each target: a file parses, holds
and runs no foreign code, and one in Python gives the live function's result in its structure.
"""

import ast
import builtins
import collections
import dataclasses
import random
import re
import shutil
import subprocess
from typing import Any

import numpy as np
import optree

import symdiff as sd

from ..harness import RIGHT, Verdict, Wrong

COMPILER = shutil.which("gcc") or shutil.which("cc")
RAN: list[str] = []  # what a file must not reach
builtins.CANARY = RAN  # type: ignore[attr-defined]
HUGE = 10**5000
EVIL = "CANARY.append(1)"
NAMES = """
    inp np cp out self match type _ case print f df_dx v0 v1 r0 w0 x0 math cmath special threading _local work work_d
    x_rows value value0 target slot0 partial numbers_d partial_d kernel0 _kernel _kernel0 _code _checked _work kept key
    point error start stop rows i u s vh others inner own sign n m a b dataclasses MISS _divide _ieee _f_steps id sum len
    any zip float input list min max ValueError errno I NULL EOF complex restrict register signed isnan isinf NAN INFINITY
    M_PI threadIdx exp sin pow fabs y0 gamma linux operator half T double real conj np_maximum np_sign sum_of_lanes
    shared_d lane step __x__ __class__ __getattr__ _Big __double \u03b1 \ufb01 fi \u00aa \u0430 e\u0301 x1 X1 f_grad
    f_value_and_grad f_grad_leaves f_jacobian CANARY
""".split()
TEXTS = (
    f'"; {EVIL} #', f"'; {EVIL} #", f'"""\n{EVIL}\n"""', f"\n{EVIL}\n", f"*/ {EVIL}; /*", "\\", "\\\n", '"',
    '"""', "'''", '\\"""',
    f"{{{EVIL}}}", f"{{{{{EVIL}}}}}", "{", "}", "{0}", "%s%d", "??/", "//\\", "\r", f"\r{EVIL}", "\x0b", "\x00", "\x1b[31m",
    "\u202e", "\u2028",
    "\udc80", "\u00e9", "$x$ \\input{a}", "</script>", "a b", "1x", "", " ", "\t", "#", f"\f{EVIL}",
    "it's", 'say "hi"', f"<traced {EVIL}>",
)  # fmt: skip
BUILTINS = set("""
    any all zip range min max abs id len int float complex bool map list tuple type isinstance getattr hasattr enumerate
    hex repr str vars print sum round set iter next
    ValueError TypeError ZeroDivisionError OverflowError KeyError RuntimeError ArithmeticError
""".split())  # fmt: skip
MODULES = {"np", "cp", "math", "cmath", "threading", "special", "dataclasses", "hashlib", "copy"}
MODULES |= {"Any", "ArrayLike", "NDArray", "Sequence"}
KINDS = ("grad", "value_and_grad", "jacobian", "hessian", "jvp", "vjp", "hvp", "vmap")


class Odd(str):
    def __repr__(self) -> str:
        return EVIL

    __str__ = __format__ = lambda self, *_: EVIL  # type: ignore[assignment]


class Whole(int):
    __repr__ = __str__ = Odd.__repr__  # type: ignore[assignment]


class Thing:
    __repr__ = Odd.__repr__  # type: ignore[assignment]


def trial(source: random.Random) -> Verdict:
    f, args, told = program(source)
    kind = source.choice(KINDS)
    target = source.choice(["numpy", "numpy", "python", "c", "cupy", "cuda"])
    count = len(args)
    argnums: Any = source.choice([0, count - 1, tuple(range(count)), (0,)])
    if kind == "vmap":
        function: Any = sd.vmap(getattr(sd, source.choice(["grad", "value_and_grad"]))(f, argnums))
        args = tuple(mapped(lambda a: np.array([a, 2 * np.asarray(a)]) if is_number(a) else a, a) for a in args)
    else:
        function = getattr(sd, kind)(f, argnums)
    if kind in ("jvp", "hvp"):
        tangents = [mapped(lambda leaf: leaf if is_number(leaf) else None, arg) for arg in args]
        args = (*args, tangents[argnums] if isinstance(argnums, int) else tuple(tangents[n] for n in argnums))
    if kind == "vjp":
        args = (*args, 1.0)
    shown = "huge integers" if any(leaf == HUGE for leaf in leaves_of(args)[0] if type(leaf) is int) else ascii(args)
    told = f"{told}\nsd.{kind}(f, {argnums}).source(*{shown}, target={target!r})"
    try:
        text = function.source(*args, target=target)
    except (sd.SymdiffError, TypeError) as error:
        if isinstance(error, TypeError) and "in_axes" not in str(error):
            raise
        return Verdict("refused", str(error))
    try:
        text.encode()
        if target in ("c", "cuda"):
            check_c(text, target)
        else:
            check_python(text, target)
        if target in ("numpy", "python") and not (target == "python" and kind == "vmap"):
            compare(text, function, args)
    except Exception as error:
        raise Wrong(f"{told}\n{text}\n{type(error).__name__}: {error}") from None
    finally:
        ran = bool(RAN)
        RAN.clear()
    if ran:
        raise Wrong(f"{told}\n{text}\nforeign code ran")
    return RIGHT


def is_number(value: Any) -> bool:
    return isinstance(value, float) or (isinstance(value, np.ndarray) and value.dtype == float)


def program(source: random.Random) -> tuple[Any, tuple[Any, ...], str]:
    """A random function, arguments for it, and its text."""
    names = source.sample([n for n in NAMES if n.isidentifier()], source.choice([1, 2, 2, 3]))
    names = list({__import__("unicodedata").normalize("NFKC", n): n for n in names}.values())
    args, terms = [], []
    cells = source.choice([3, 3, 300])
    for name in names:
        value, uses = argument(source, name, cells)
        args.append(value)
        terms += uses
    lines = [f"def f({', '.join(names)}):"]
    if source.random() < 0.3:
        values = terms
        shown = source.choice(['f"{MESSAGE}{' + names[0] + '}"', "MESSAGE", "MESSAGE, 3.5, THING", "THING"])
        lines += [f"    if {values[0]} > 1e3:", f"        raise {source.choice(['ValueError', 'KeyError'])}({shown})"]
    body = source.choice([" * ".join, " + ".join])(
        [source.choice(["{}", "NP.exp(0.1*{})", "{}**2", "NP.abs({})"]).format(t) for t in terms]
    )
    lines.append(f"    return {body}")
    message, doc, name = (
        source.choice(TEXTS),
        source.choice(TEXTS) * source.choice([1, 1, 2]),
        source.choice([*TEXTS, *NAMES, "f"]),
    )
    space = {"NP": np, "MESSAGE": message, "THING": Thing()}
    exec("\n".join(lines), space)
    f = space["f"]
    f.__doc__, f.__name__, f.__module__ = doc, name, source.choice([*TEXTS, "demo"])
    f.__qualname__ = source.choice([*TEXTS, "f"])
    f.__code__ = f.__code__.replace(co_filename=source.choice(TEXTS).replace("\0", "") + ".py")
    return f, tuple(args), "\n".join([*lines, f"# {message!a} {doc!a} {name!a} {f.__module__!a} {f.__qualname__!a}"])


def argument(source: random.Random, name: str, cells: int) -> tuple[Any, list[str]]:
    """A value for an argument, and numbers made of it."""
    kind = source.choice(["number", "array", "array", "dict", "record", "list"])
    if kind == "number":
        return source.uniform(0.1, 1.0), [name]
    if kind == "array":
        return np.linspace(0.1, 1.0, cells), [f"NP.sum({name}[1:] * {name}[:-1])", f"({name} @ {name})"][
            : source.choice([1, 2])
        ]
    if kind == "list":
        return [0.5, {"a": 0.25}], [f"{name}[0]", f"{name}[1]['a']"]
    if kind == "record":
        made = dataclasses.make_dataclass("Record", ["value", "mode"], frozen=True)
        record = source.choice([made, collections.namedtuple("Record", ["value", "mode"])])
        return record(0.75, setting(source)), [f"{name}.value"]
    key = source.choice([*TEXTS, 3, 2.5, b"\n'\"", Odd("k"), Whole(4)])
    return {key: 0.5, "the mode": setting(source)}, [f"{name}[{plain(key)}]"]


def setting(source: random.Random) -> Any:
    return source.choice(
        [*TEXTS, 3, True, None, np.int64(4), np.True_, b"'\n\"{", Odd("o"), Whole(7), HUGE, np.sin, np.array([1, 2]), Thing]
    )


def plain(key: Any) -> str:
    kind = next(k for k in (str, bytes, int, float) if isinstance(key, k))
    return repr(kind.__getitem__(key, slice(None)) if kind in (str, bytes) else kind.__add__(key, 0))


def check_c(text: str, target: str) -> None:
    """The text is comments around words, numbers and signs; gcc reads a C file."""
    code = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    code = re.sub(r"//[^\n]*", " ", code)
    assert code.isascii() and "*/" not in code and "append(" not in code, "a comment ends early"
    assert re.fullmatch(r"[\w\s.,;:(){}\[\]<>=!&|*+/?%#'\"^~-]*", code)
    assert all(code.count(a) == code.count(b) for a, b in ("()", "{}", "[]"))
    if target == "c" and COMPILER:
        flags = ["-std=c99", "-fsyntax-only", "-Wall", "-Werror", "-Wno-unused", "-x", "c", "-"]
        found = subprocess.run([COMPILER, *flags], input=text.encode(), capture_output=True, check=False)
        assert not found.returncode, found.stderr.decode()[:500]


def check_python(text: str, target: str) -> None:
    """Every name that a function reads is its own, the file's or a known one, and nothing else is called."""
    tree = ast.parse(text)
    known = set(BUILTINS)
    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            known |= {alias.asname or alias.name for alias in node.names}
            assert known <= BUILTINS | MODULES, known
        elif isinstance(node, ast.FunctionDef):
            known.add(node.name)
        else:
            assert isinstance(node, ast.Assign), ast.dump(node)[:100]
            known |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    for function in (node for node in tree.body if isinstance(node, ast.FunctionDef)):
        own = {
            a.arg
            for node in ast.walk(function)
            if isinstance(node, ast.arguments)
            for a in (*node.args, *filter(None, [node.vararg, node.kwarg]))
        }
        own |= {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        read = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
        assert read <= own | known, f"{sorted(read - own - known)} is not defined"
        called = {n.func.id for n in ast.walk(function) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
        assert called <= known - own | {"function", "kind"}, f"{sorted(called & own)} is called"
    if target == "cupy":
        compile(text, "made", "exec")


def compare(text: str, function: Any, args: tuple[Any, ...]) -> None:
    """The file's function gives the live one's result in its structure, and fills an `out` of it."""
    space: dict[str, Any] = {"__name__": "made"}
    exec(compile(text, "made", "exec"), space)
    entry = space["__all__"][0]
    with np.errstate(all="ignore"):
        wanted = function(*args)
        found = space[entry](*args)
    same(found, wanted)


def same(found: Any, wanted: Any) -> None:
    leaves, tree = leaves_of(wanted, none_is_leaf=True)
    for one, other in zip(tree.flatten_up_to(found), leaves, strict=True):
        if is_number(other) or isinstance(other, np.floating):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-300)
        else:
            assert one is other or (np.all(one == other) and not isinstance(one, np.ndarray)) or np.array_equal(one, other)


def mapped(function, value):
    """A structure with `function` of each leaf."""
    leaves, tree = leaves_of(value)
    return optree.tree_unflatten(tree, map(function, leaves))


def leaves_of(value, **options):
    """The leaves of what symdiff takes for a structure, and the structure."""
    sd.by_path(value)  # where symdiff learns its classes
    return optree.tree_flatten(value, namespace="symdiff", **options)
