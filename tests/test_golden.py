"""Generated files, byte for byte: a changed byte is an interface change. `pytest --update-golden` rewrites them."""

import subprocess
import sys
from pathlib import Path

import golden_cases
import pytest
from inside import main

import symdiff as sd

FOLDER = Path(__file__).parent / "golden"
FILES = golden_cases.files(sd)


@pytest.mark.parametrize("name", FILES)
def test_generated_file(name, update_golden):
    function, args, target = FILES[name]
    text = function.source(*args, target=target)
    path = FOLDER / name
    if update_golden:
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text, "pytest --update-golden rewrites it; the change log needs a line"


@pytest.mark.parametrize("name", FILES)
def test_the_command_in_the_header_makes_the_same_file(name, tmp_path, monkeypatch, update_golden, capsys):
    monkeypatch.syspath_prepend(FOLDER.parent)
    text = (FOLDER / name).read_text(encoding="utf-8")
    path = tmp_path / name
    function, args, target = FILES[name]
    function.export(path, *args, target=target)
    assert path.read_text(encoding="utf-8") == text
    if path.suffix == ".c":
        header, kept = path.with_suffix(".h"), FOLDER / f"{path.stem}.h"
        if update_golden:
            kept.write_bytes(header.read_bytes())
        assert header.read_bytes() == kept.read_bytes()
    assert main(["check", str(FOLDER / name)]) == 0, capsys.readouterr()
    assert capsys.readouterr().out == f"{FOLDER / name}: up to date\n"


def test_no_file_asks_what_is_finite():
    assert not [path.name for path in FOLDER.glob("*.*") if "isfinite" in path.read_text(encoding="utf-8")]


def test_no_stale_golden_files():
    headers = {f"{name}.h" for name, _, suffix in (n.rpartition(".") for n in FILES) if suffix == "c"}
    assert {p.name for p in FOLDER.glob("*.*")} == set(FILES) | headers


@pytest.mark.parametrize("seed", ["0", "1", "2"])
def test_the_same_bytes_under_every_hash_seed(seed):
    code = (
        "import sys; sys.path.insert(0, 'tests'); import test_golden as t\n"
        "for name, (f, args, target) in t.FILES.items(): sys.stdout.write(f.source(*args, target=target))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=FOLDER.parents[1], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
    )
    assert result.stdout.decode() == "".join((FOLDER / name).read_text(encoding="utf-8") for name in FILES)
