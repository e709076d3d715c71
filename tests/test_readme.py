"""Every Python block of the README runs."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)\n```", README.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_block_runs(block, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "block.py"
    file.write_text(block, encoding="utf-8")
    exec(compile(block, str(file), "exec"), {"__name__": "block"})
    assert capsys.readouterr().out
