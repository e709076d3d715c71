"""Notebooks are stored with their outputs; each is executed anew, and gives them again.

`pytest tests/test_notebooks.py --update-notebooks` stores what has changed, and nothing else: an output that agrees with the
stored one, pictures to the byte, stays as it is, so that a second update changes nothing. Two outputs agree when

- their texts do, white space aside; floating-point numbers in them to six digits or to 1e-12, since the last digits differ
  between processors; addresses (0x7f...) count as equal;
- in cells tagged `measured`, all numbers count as equal (times);
- pictures are of one kind, and their widths and heights differ by a tenth at most, since fonts differ;
- in cells tagged `machine`, there is some output (what is installed decides which).

What is stored names no path, no time of a run and no kernel but `python3`.
"""

import base64
import json
import math
import re
import struct
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))
NUMBER = re.compile(r"(?<![\w.])([-+]?(?:\d+\.\d*|\.\d+|\d+(?=e[-+]?\d))(?:e[-+]?\d+)?)")
ADDRESS = re.compile(r"\b0x[0-9a-f]+\b")
FIGURE = re.compile(r"\d[\d.,]*(?:e[-+]?\d+)?")
PATHS = re.compile(r"""(?:^|[\s"'(=:])(?:/(?:[\w.-]+/)+[\w.-]+|[A-Za-z]:\\\w)""", re.MULTILINE)
FONTS = re.compile(r"^Matplotlib is building the font cache.*\n?", re.MULTILINE)  # said once, where it is new
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def executed(path):
    """The notebook with its outputs, without what differs from run to run."""
    notebook = nbformat.read(path, as_version=4)
    options = {"timeout": 300, "kernel_name": "python3", "record_timing": False}
    NotebookClient(notebook, resources={"metadata": {"path": str(path.parent)}}, **options).execute()
    notebook.metadata = nbformat.from_dict(METADATA)
    for cell in notebook.cells:
        cell.metadata = nbformat.from_dict({"tags": cell.metadata["tags"]} if cell.metadata.get("tags") else {})
        if cell.cell_type == "code":
            cell.outputs = joined(cell.outputs)
    return notebook


def joined(outputs):
    """Outputs with the pieces of one stream as one."""
    found = []
    for output in outputs:
        if output.output_type == "stream":
            output.text = FONTS.sub("", output.text)
            if found and found[-1].output_type == "stream" and found[-1].name == output.name:
                found[-1].text += output.text
                continue
        if output.get("text") != "":
            found.append(output)
    return found


def contents(outputs):
    """(kind, text) of each stream and of each form of each output."""
    for output in outputs:
        if output.output_type == "stream":
            yield output.name, output.text
        else:
            yield from sorted(output.get("data", {"error": "\n".join(output.get("traceback", []))}).items())


def size(kind, value):
    """Width and height of a picture."""
    if kind == "image/png":
        return struct.unpack(">II", base64.b64decode(value)[16:24])
    return tuple(float(re.search(rf'<svg[^>]*\b{side}="([\d.]+)', value)[1]) for side in ("width", "height"))


def texts_agree(stored, found, measured):
    stored, found = (" ".join(ADDRESS.sub("0x", text).split()) for text in (stored, found))
    if measured:
        return FIGURE.sub("#", stored).split() == FIGURE.sub("#", found).split()
    return len(NUMBER.findall(stored)) == len(NUMBER.findall(found)) and all(
        math.isclose(float(a), float(b), rel_tol=1e-6, abs_tol=1e-12) if k % 2 else a.split() == b.split()
        for k, (a, b) in enumerate(zip(NUMBER.split(stored), NUMBER.split(found), strict=True))
    )


def agree(stored, found, tags):
    """Whether the outputs of a cell agree, by the rules above."""
    if "machine" in tags:
        return bool(stored) == bool(found)
    stored, found = list(contents(stored)), list(contents(found))
    if [kind for kind, _ in stored] != [kind for kind, _ in found]:
        return False
    for (kind, old), (_, new) in zip(stored, found, strict=True):
        if kind.startswith("image/"):
            if not all(0.9 <= a / b <= 1.1 for a, b in zip(size(kind, old), size(kind, new), strict=True)):
                return False
        elif not texts_agree(old, new, "measured" in tags):
            return False
    return True


def pictures(outputs):
    return [value for kind, value in contents(outputs) if kind.startswith("image/")]


def shown(outputs):
    return "\n".join(
        f"[{kind}] {value if not kind.startswith('image/') else size(kind, value)}" for kind, value in contents(outputs)
    )


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::RuntimeWarning")
def test_notebook_gives_its_outputs(path, update_notebooks):
    stored, found = nbformat.read(path, as_version=4), executed(path)
    cells = [(old, new) for old, new in zip(stored.cells, found.cells, strict=True) if new.cell_type == "code"]
    for old, new in cells:
        if not agree(old.outputs, new.outputs, new.metadata.get("tags", [])):
            command = "pytest tests/test_notebooks.py --update-notebooks stores what has changed"
            told = f"{path.name}: {command}\n{new.source}\n-- stored\n{shown(old.outputs)}\n-- found\n{shown(new.outputs)}"
            assert update_notebooks, told
        elif new.metadata.get("tags") or pictures(old.outputs) == pictures(new.outputs):
            new.outputs = old.outputs
    if update_notebooks:
        nbformat.write(found, path)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_what_is_stored_is_the_same_everywhere(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert notebook.metadata == METADATA
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert any(cell.outputs for cell in code)
    for cell in notebook.cells:
        assert set(cell.metadata) <= {"tags"} and set(cell.metadata.get("tags", [])) <= {"measured", "machine"}
    for cell in code:
        for kind, value in contents(cell.outputs):
            assert kind not in ("stderr", "error"), cell.source
            if not kind.startswith("image/png"):
                found = PATHS.search(re.sub(r"https?://[^\s\"']*", "", value))
                assert not found, f"{path.name}: {found[0]} in {value[:200]}"
    assert path.stat().st_size < 600_000
    assert (
        path.read_text(encoding="utf-8")
        == json.dumps(json.loads(path.read_text(encoding="utf-8")), indent=1, ensure_ascii=False) + "\n"
    )


AGREE = {
    "last digits": ("[0.1 2.00000001]", "[ 0.1  2.00000002]", [], True),
    "noise": ("error 2.2e-16", "error 4.4e-16", [], True),
    "a number": ("x = 0.1", "x = 0.2", [], False),
    "a sign": ("x = -0.5", "x = 0.5", [], False),
    "an integer": ("7 operations", "8 operations", [], False),
    "a word": ("7 operations", "7 steps", [], False),
    "a longer one": ("1.0 2.0", "1.0 2.0 3.0", [], False),
    "an address": ("<f at 0x7f12>", "<f at 0x7ff3>", [], True),
    "a time": ("1000 points 12.5 us", "1000 points 9 us", ["measured"], True),
    "a time, told otherwise": ("1000 points 12.5 us", "1000 points 9 ms", ["measured"], False),
    "what is installed": ("no GPU", "one GPU", ["machine"], True),
}


@pytest.mark.parametrize("name", AGREE)
def test_outputs_agree_by_the_rules(name):
    old, new, tags, wanted = AGREE[name]
    stored, found = ([nbformat.v4.new_output("stream", name="stdout", text=text)] for text in (old, new))
    assert agree(stored, found, tags) is wanted
    assert not agree(stored, [], tags)


def test_pictures_agree_by_kind_and_size():
    def picture(width, kind="image/svg+xml"):
        value = (
            f'<svg height="30pt" version="1.1" width="{width}pt">'
            if "svg" in kind
            else base64.b64encode(b"." * 16 + struct.pack(">II", width, 30)).decode()
        )
        return [nbformat.v4.new_output("display_data", data={kind: value, "text/plain": "<Figure>"})]

    for kind in ("image/svg+xml", "image/png"):
        assert agree(picture(100, kind), picture(105, kind), [])
        assert not agree(picture(100, kind), picture(130, kind), [])
    assert not agree(picture(100), picture(100, "image/png"), [])
