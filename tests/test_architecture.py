"""The rooms: who may import whom, as ARCHITECTURE.md says."""

import ast
import graphlib
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from inside import HEADS, OPS, TRAITS, operations

TOP = Path(__file__).parents[1]
ROOT = TOP / "symdiff"
FILES = sorted(ROOT.rglob("*.py"))
TABLE = dict(
    re.findall(r"^\| `([\w/.]+)` \|.*\| ([^|]*)\|$", (TOP / "ARCHITECTURE.md").read_text(encoding="utf-8"), re.MULTILINE)
)
ROOMS = list(TABLE)
OPTIONAL = {"llvmlite", "cupy", "scipy", "IPython", "matplotlib"}
MODULES = {".".join(path.relative_to(TOP).with_suffix("").parts).removesuffix(".__init__"): path for path in FILES}


def imports(path, top_level_only=False):
    """The modules that a file imports, in functions too."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = tree.body if top_level_only else ast.walk(tree)
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in MODULES else node.module


def ours(path):
    """The files of the package that a file imports."""
    return {MODULES[name] for name in imports(path) if name in MODULES}


def room_of(path):
    place = path.relative_to(ROOT)
    return place.parent.as_posix() if place.parent.parts else place.name


def entry(path):
    """Whether a file stands above all rooms."""
    return path in (ROOT / "__init__.py", ROOT / "__main__.py")


@pytest.mark.parametrize("path", [p for p in FILES if not entry(p)], ids=lambda p: p.relative_to(ROOT).as_posix())
def test_rooms_import_those_below_them_only(path):
    own = ROOMS.index(room_of(path))
    for other in ours(path):
        assert ROOMS.index(room_of(other)) >= own, f"{path.relative_to(ROOT)} imports {other.relative_to(ROOT)}"


def test_no_imports_go_in_a_circle():
    graphlib.TopologicalSorter({path: ours(path) - {path} for path in FILES}).prepare()


def test_every_room_is_there_and_there_are_not_too_many():
    found = {room_of(path) for path in FILES if not entry(path)}
    assert found == set(ROOMS)
    for room in (name for name in ROOMS if not name.endswith(".py")):
        files = sorted(path.stem for path in (ROOT / room).glob("*.py") if path.stem != "__init__")
        assert TABLE[room].strip() == ", ".join(files), f"ARCHITECTURE.md: {room} has {', '.join(files)}"
    for folder in {ROOT, *(path.parent for path in FILES)}:
        assert sum(1 for p in folder.iterdir() if (p / "__init__.py").exists()) <= 12
    assert sum(1 for path in ROOT.glob("*.py") if not entry(path)) <= 3


@pytest.mark.parametrize("room", ["codegen", "runtime", "lowering/sharing"])
def test_printers_and_machine_code_know_neither_sympy_nor_traced_values(room):
    for path in sorted((ROOT / room).rglob("*.py")):
        for name in imports(path):
            above = ("sympy", "symdiff.ir", "symdiff.tracing", "symdiff.differentiation", "symdiff.rulebooks")
            assert not name.startswith(above) or name == "symdiff.ir.node", f"{path.relative_to(ROOT)} imports {name}"


def test_optional_packages_are_imported_inside_functions():
    for path in FILES:
        found = {name.split(".")[0] for name in imports(path, top_level_only=True)} & OPTIONAL
        assert not found, f"{path.name} imports {found} at the top"


def test_every_module_says_what_it_does():
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        assert not text.strip() or ast.get_docstring(ast.parse(text)), f"{path.name} has no docstring"


def test_what_is_known_of_an_operation_stands_in_its_row():
    names = {*OPS, *HEADS}
    of_others = {"mathematics.py", "raising.py", "tracer.py", "lines.py", "special.py"}  # Python's, and formulas of a room
    found = []
    for path in FILES:
        if room_of(path) == "vocabulary" or path.name in of_others:
            continue
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            for part in ast.walk(node) if isinstance(node, (ast.Assign, ast.AnnAssign)) and not holds_code(node.value) else ():
                listed = words_in(part)
                if len(listed) > 2 and names.issuperset(listed):
                    found.append((path.relative_to(ROOT).as_posix(), part.lineno, *listed))
    assert found == [], "traits of rows in vocabulary/ops.py and heads.py, which traits.operations reads"


def holds_code(value):
    """Whether a table says for each name what to do, or what it is called elsewhere."""
    return isinstance(value, (ast.Dict, ast.DictComp)) or (isinstance(value, ast.BinOp) and holds_code(value.left))


def words_in(node):
    """The words of a literal set, list or tuple of texts, or of a text that is split."""
    if isinstance(node, (ast.Set, ast.List, ast.Tuple)):
        return [part.value for part in node.elts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    split = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "split"
    return str(node.func.value.value).split() if split and isinstance(node.func.value, ast.Constant) else []


def test_traits_have_rows():
    assert [trait for trait in TRAITS if not operations(trait)] == []


def test_tests_look_inside_through_one_file():
    public = {"symdiff", "symdiff.errors", "symdiff.special"}
    for path in sorted((TOP / "tests").rglob("*.py")):
        if path.name == "inside.py" or "golden" in path.parts:
            continue
        found = {name for name in imports(path) if name.split(".")[0] == "symdiff"} - public
        assert not found, f"{path.name} imports {found}; tests/inside.py is where inner names come from"


PASSED = """
import gc, os, sys
import symdiff as sd

sd.grad(lambda x: x**4)(2.0)  # reads the rules
gc.disable()  # what ends there passes files, too
top, passed = os.path.dirname(sd.__file__) + os.sep, [""]

def look(frame, event, _):
    name = frame.f_code.co_filename
    if event == "call" and name.startswith(top) and name != passed[-1]:
        passed.append(name)

sys.setprofile(look)
sd.grad(lambda x: x**3)(2.0)
sys.setprofile(None)
print(len(set(passed)) - 1, len(passed) - 1)
"""


def test_a_gradient_passes_few_files(tmp_path):
    environment = {**os.environ, "SYMDIFF_CHECK": "off", "SYMDIFF_CACHE": str(tmp_path)}  # as a process that begins
    done = subprocess.run([sys.executable, "-c", PASSED], capture_output=True, text=True, check=True, env=environment)
    files, changes = map(int, done.stdout.split())
    assert files <= 88 and changes <= 620


def test_every_folder_is_packaged():
    project = tomllib.loads((ROOT.parent / "pyproject.toml").read_text(encoding="utf-8"))
    folders = {".".join(path.relative_to(ROOT.parent).parent.parts) for path in FILES}
    assert folders <= set(project["tool"]["setuptools"]["packages"])
