"""Every Python block of the README runs."""

import re
from pathlib import Path

import pytest
from inside import main

README = Path(__file__).parents[1] / "README.md"
TEXT = README.read_text(encoding="utf-8")
COMMANDS = [
    line.split("#")[0].strip()
    for block in re.findall(r"```sh\n(.*?)\n```", TEXT, re.DOTALL)
    for line in block.splitlines()
    if line.startswith("symdiff ")
]
BLOCKS = re.findall(r"```python\n(.*?)\n```", TEXT, re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_block_runs(block, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "block.py"
    file.write_text(block, encoding="utf-8")
    exec(compile(block, str(file), "exec"), {"__name__": "block"})
    assert capsys.readouterr().out


@pytest.mark.parametrize("command", COMMANDS)
def test_command_runs(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("mine.jl").write_text("@define_diffrule Base.sin(x) = :(cos(x))\n", encoding="utf-8")
    assert main(command.split()[1:]) == 0
    assert capsys.readouterr().out
