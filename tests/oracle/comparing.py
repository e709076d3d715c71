"""Two records of the same cases: where they differ, and which differences are listed with a reason."""

import base64
import difflib
import fnmatch
import json
import zlib

import numpy as np

PARTS = ("values", "operations", "exceptions", "files", "allocations")
NOISE = 2  # KiB, by which peaks of memory differ where Python's own objects are freed at other times


def read(lines):
    """Cases with their observations, {case: {name: (part, what was seen)}}; a case that only begins has died."""
    found = {}
    for line in lines:
        case, seen = json.loads(line)
        entries = [["end", "exceptions", "the process died"]] if seen is None else seen
        counts = {}
        found[case] = {}
        for name, part, what in entries:
            name = f"{name} {part}" if part in ("operations", "allocations") else name
            counts[name] = counts.get(name, 0) + 1
            found[case][f"{name} #{counts[name]}"] = part, what
    return found


def differences(before, now, parts=PARTS):
    """The lines (part, case, what differs), of cases in order."""
    found = []
    for case in [*before, *(case for case in now if case not in before)]:
        a, b = before.get(case), now.get(case)
        if a is None or b is None:
            found.append(("exceptions", case, f"only in {'the tree' if a is None else 'the reference'}"))
            continue
        for key in [*a, *(key for key in b if key not in a)]:
            if a.get(key) != b.get(key) and not (" peak " in key and _near(a.get(key), b.get(key))):
                found.append(_difference(case, key, a.get(key), b.get(key)))
    return [line for line in found if line[0] in parts]


def _near(a, b):
    """Whether two peaks of memory are as near as those of equal programs."""
    peaks = [entry[1] for entry in (a, b) if entry is not None and type(entry[1]) is int]
    return len(peaks) == 2 and abs(peaks[0] - peaks[1]) <= NOISE


def _difference(case, key, a, b):
    if a is None or b is None:
        return (a or b)[0], case, f"{key}: only in {'the tree' if a is None else 'the reference'}: {_short((a or b)[1])}"
    part = a[0] if a[0] == b[0] else "exceptions"
    if part == "files":
        lines = difflib.unified_diff(_text(a[1]).splitlines(), _text(b[1]).splitlines(), "reference", "tree", "", "", 0, "")
        return part, case, "\n    ".join([f"{key}:", *list(lines)[2:12]])
    ulps = [_ulps(x, y) for x, y in zip(_arrays(a[1]), _arrays(b[1]), strict=False)]
    off = f" ({max(ulps):.3g} ulp)" if part == "values" and ulps and None not in ulps else ""
    return part, case, f"{key}: {_short(a[1])} -> {_short(b[1])}{off}"


def _arrays(seen):
    if isinstance(seen, list) and seen[:1] == ["#"]:
        return [seen]
    return [array for part in seen for array in _arrays(part)] if isinstance(seen, list) else []


def _cells(array):
    return np.frombuffer(bytes.fromhex(array[4]), array[2])


def _ulps(a, b):
    """By how many units in the last place the first cells of two arrays differ at most; None of other kinds."""
    if a[2:4] != b[2:4] or np.dtype(a[2]).kind not in "fc":
        return None
    kind = np.dtype(a[2]).type(0).real.dtype
    x, y = _cells(a).view(kind), _cells(b).view(kind)
    with np.errstate(all="ignore"):
        off = np.where((x == y) | (np.isnan(x) & np.isnan(y)), 0, np.abs(x - y) / np.spacing(np.maximum(np.abs(x), np.abs(y))))
    return float(np.max(off, initial=0))


def _text(seen):
    return zlib.decompress(base64.b85decode(seen[1])).decode() if isinstance(seen, list) and seen[0] == "zlib" else str(seen)


def _short(seen):
    if isinstance(seen, list) and seen[:1] == ["#"]:
        return f"{seen[1]} {seen[2]} {seen[3]} {', '.join(map(repr, _cells(seen)[:4].tolist()))}"
    text = _text(seen) if isinstance(seen, (str, list)) and seen[:1] in (["zlib"], *"") else None
    if isinstance(seen, list) and text is None:
        return "[" + ", ".join(_short(part) for part in seen[:4]) + "]"
    return str(seen if text is None else text)[:300]


class Listed:
    """The lines "case pattern | part | reason" of differences that are wanted."""

    def __init__(self, text):
        lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
        self.rows = [tuple(word.strip() for word in line.split("|", 2)) for line in lines]
        if any(len(row) < 3 or row[1] not in PARTS or not row[2] for row in self.rows):
            raise ValueError("a line of differences.txt is: case pattern | part | reason")
        self.used = set()

    def covers(self, part, case):
        rows = [row for row in self.rows if row[1] == part and fnmatch.fnmatchcase(case, row[0])]
        self.used.update(rows)
        return bool(rows)

    def unused(self, parts=PARTS):
        return [" | ".join(row) for row in self.rows if row not in self.used and row[1] in parts]
