"""The lines between the rooms: who may import whom."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1] / "symdiff"
OPTIONAL = {"llvmlite", "cupy", "scipy", "IPython", "matplotlib"}


def imports(path, top_level_only=False):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = tree.body if top_level_only else ast.walk(tree)
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def modules(folder):
    return sorted((ROOT / folder).rglob("*.py"))


def test_codegen_imports_neither_sympy_nor_the_other_wing():
    for path in modules("codegen"):
        for name in imports(path):
            assert not name.startswith(("sympy", "symdiff.symbolic")), f"{path.name} imports {name}"


def test_symbolic_does_not_import_codegen():
    for path in modules("symbolic"):
        for name in imports(path):
            assert not name.startswith("symdiff.codegen"), f"{path.name} imports {name}"


def test_codegen_stages_import_only_nouns():
    nouns = {"symdiff.codegen.program", "symdiff.codegen.plan", "symdiff.codegen.source"}
    for stage in ("scheduling", "loading"):
        found = {n for n in imports(ROOT / "codegen" / f"{stage}.py") if n.startswith("symdiff.codegen")}
        assert found <= nouns, f"{stage} imports {found - nouns}"


def test_optional_packages_are_imported_inside_functions():
    for path in modules("."):
        found = {name.split(".")[0] for name in imports(path, top_level_only=True)} & OPTIONAL
        assert not found, f"{path.name} imports {found} at the top"


def test_every_module_says_what_it_does():
    for path in modules("."):
        text = path.read_text(encoding="utf-8")
        assert not text.strip() or ast.get_docstring(ast.parse(text)), f"{path.name} has no docstring"
