"""The oracle finds what differs between two states, leaves out what is listed, and says which lines of the list have no use."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.oracle import __main__ as oracle
from tests.oracle import comparing

CHUNK = "fuzz layouts 0 3"


@pytest.fixture(scope="module")
def record():
    """What the tree sees of a few cases."""
    return oracle.recorded(sys.executable, True, CHUNK, None).splitlines()


def changed(record, part, change):
    """The record with the first observation of a part changed."""
    lines = [json.loads(line) for line in record]
    found = next(entry for _, seen in lines for entry in seen or [] if entry[1] == part)
    found[2] = change(found[2])
    return [json.dumps(line) for line in lines]


def test_two_runs_of_the_tree_see_the_same(record):
    again = oracle.recorded(sys.executable, True, CHUNK, None).splitlines()
    assert len(record) == 6 and comparing.differences(comparing.read(record), comparing.read(again)) == []


@pytest.mark.parametrize(
    "part, change",
    [
        ("values", lambda seen: [*seen, "another"] if isinstance(seen, list) else [seen]),
        ("operations", lambda seen: seen.replace("operations", "operation")),
        ("exceptions", lambda seen: f"{seen}."),
        ("files", lambda seen: [seen[0], seen[1]] if isinstance(seen, str) else "another text"),
        ("allocations", lambda seen: [seen]),
    ],
)
def test_a_difference_is_found_and_may_be_listed(record, part, change):
    before, now = comparing.read(record), comparing.read(changed(record, part, change))
    ((found, case, what),) = comparing.differences(before, now)
    assert found == part and case in before and what
    listed = comparing.Listed(f"# head\nfuzz/* | {part} | wanted\nnone* | values | never met\n")
    assert listed.covers(part, case) and not listed.covers(part, "golden/a.py")
    assert listed.unused() == ["none* | values | never met"]


def test_ulps_are_told():
    def case(bits):
        return [json.dumps(["a", [["grad", "values", ["#", "float64", "<f8", [], bits]]]])]

    ((_, _, what),) = comparing.differences(*(comparing.read(case(f"{k:02x}0000000000f03f")) for k in (0, 3)))
    assert what == "grad #1: float64 <f8 [] 1.0 -> float64 <f8 [] 1.0000000000000007 (3 ulp)"


def test_a_process_that_dies_is_told():
    whole, died = ([json.dumps(["a", None]), json.dumps(["a", []])], [json.dumps(["a", None])])
    assert [line[0] for line in comparing.differences(comparing.read(whole), comparing.read(died))] == ["exceptions"]


def test_a_line_of_the_list_has_a_reason():
    with pytest.raises(ValueError, match="case pattern"):
        comparing.Listed("fuzz/* | values |")
    comparing.Listed(Path(comparing.__file__).with_name("differences.txt").read_text(encoding="utf-8"))
