"""`python -m tests.oracle --reference ENV/bin/python`: the same cases in two interpreters, and where what they saw differs.

The reference is an environment with the wheel of an earlier state and the packages of the tests. Cases are the functions of
benchmarks, golden files and scientific code, the suite's tests that need nothing inside symdiff, and programs of the fuzzer.
Exits with 1 where a difference is not listed in differences.txt. What the reference saw is kept beside it.
"""

import argparse
import collections
import concurrent.futures
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from . import comparing

ROOT = Path(__file__).parents[2]
CHUNK = 50  # programs of one process
MINUTES = 60  # that a process may take
COLLECTIONS = ("golden", "scientific", "problems")
APART = {"architecture", "benchmarks", "cupy", "fuzz", "golden", "gpu", "notebooks", "oracle", "readme", "scientific", "style"}
SETTINGS = {"PYTHONHASHSEED": "0", "SYMDIFF_CACHE": "off", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
BOOT = """
import sys, os
root, is_tree, chunk = sys.argv[1:]
if is_tree == "1":
    sys.path.insert(0, root)
import symdiff
if (os.path.dirname(symdiff.__path__[0]) == root) != (is_tree == "1"):
    sys.exit(f"symdiff was imported from {symdiff.__path__[0]}")
if not chunk:
    versions = [__import__(name).__version__ for name in ("numpy", "scipy", "sympy", "llvmlite")]
    sys.exit(print(symdiff.__path__[0], sys.version.split()[0], *versions))
sys.path += [root, root + "/tests"]
from tests.oracle import worker
worker.main(chunk, os.fdopen(os.dup(1), "w"))
"""


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m tests.oracle", description=__doc__)
    parser.add_argument("--reference", type=Path, required=True, help="the interpreter of the reference's environment")
    parser.add_argument("--programs", type=int, default=5000, help="how many programs of the fuzzer, of all families together")
    parser.add_argument("--part", action="append", choices=comparing.PARTS, help="only differences of these parts")
    parser.add_argument("--chunk", action="append", help='only chunks that begin so, as "functions golden" or "fuzz views"')
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at a time")
    parser.add_argument("--differences", type=Path, default=Path(__file__).with_name("differences.txt"), help="another list")
    options = parser.parse_args(arguments)
    begun = time.monotonic()
    chunks = [c for c in chunks_of(options.programs) if not options.chunk or c.startswith(tuple(options.chunk))]
    before, now = both(options.reference, chunks, options.jobs)
    listed = comparing.Listed(options.differences.read_text(encoding="utf-8"))
    parts = options.part or comparing.PARTS
    found = comparing.differences(before, now, parts)
    new = [line for line in found if not listed.covers(*line[:2])]
    print(report(new))
    for line in listed.unused(parts):
        print(f"unused: {line}")
    seen = collections.Counter(part for case in now.values() for part, _ in case.values())
    print(f"{len(now)} cases: " + ", ".join(f"{seen[part]} {part}" for part in comparing.PARTS))
    print(f"{len(found) - len(new)} listed differences, {len(new)} others, {time.monotonic() - begun:.0f} s")
    return int(bool(new))


def report(lines):
    """Differences by part and case."""
    return "\n".join(
        f"== {part}: {sum(line[0] == part for line in lines)}\n"
        + "\n".join(f"{case}: {what}" for p, case, what in sorted(lines) if p == part)
        for part in comparing.PARTS
        if any(line[0] == part for line in lines)
    )


def chunks_of(programs):
    """All chunks of cases, those that take long first."""
    families = sorted(path.stem for path in (ROOT / "tests/fuzz/families").glob("[a-z]*.py"))
    inner = re.compile(r"^\s*(from symdiff[. ]|import symdiff\.)", re.M)
    files = sorted(path for path in (ROOT / "tests").glob("test_*.py") if path.stem.removeprefix("test_") not in APART)
    found = [f"tests {path.name}" for path in files if not inner.search(path.read_text(encoding="utf-8"))]
    found += [f"functions {kind}" for kind in reversed(COLLECTIONS)]
    for place, family in enumerate(families):
        count = programs // len(families) + (place < programs % len(families))
        found += [f"fuzz {family} {k} {min(CHUNK, count - k)}" for k in range(0, count, CHUNK)]
    return found


def both(reference, chunks, jobs):
    """What each side saw; the reference's is kept in a folder of its environment."""
    kept = reference.parents[1] / "oracle"
    kept.mkdir(exist_ok=True)
    told, _ = run(reference, False, "")
    side = told.encode() + digest(Path(told.split()[0]))
    keys = {chunk: kept / hashlib.sha1(side + chunk.encode() + sources(chunk)).hexdigest() for chunk in chunks}
    records = ({}, {})
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        tasks = [pool.submit(recorded, sys.executable, True, chunk, None) for chunk in chunks]
        tasks += [pool.submit(recorded, reference, False, chunk, path) for chunk, path in keys.items()]
        for place, task in enumerate(tasks):
            records[place >= len(chunks)].update(comparing.read(task.result().splitlines()))
    return records[1], records[0]


def recorded(python, is_tree, chunk, path):
    """What one side sees of a chunk, from a file where it is kept."""
    if path is not None and path.exists():
        return path.read_text(encoding="utf-8")
    text, has_ended = run(python, is_tree, chunk)
    if path is not None and has_ended:
        path.write_text(text, encoding="utf-8")
    return text


def run(python, is_tree, chunk):
    """What the worker prints, and whether it came to its end."""
    command = [str(python), "-P", "-c", BOOT, str(ROOT), str(int(is_tree)), chunk]
    options = {"cwd": tempfile.gettempdir(), "env": {**os.environ, **SETTINGS}, "timeout": 60 * MINUTES}
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    except subprocess.TimeoutExpired as error:
        return (error.stdout or b"").decode().rpartition("\n")[0], False
    if done.returncode and not done.stdout:
        raise SystemExit(f"{chunk or python}: {done.stderr[-2000:]}")
    return done.stdout, not done.returncode


def digest(*folders):
    """A digest of all files that a case may depend on."""
    files = [path for folder in folders for path in ([folder] if folder.is_file() else sorted(folder.rglob("*")))]
    texts = [path.read_bytes() for path in files if path.suffix in (".py", ".rules", ".table")]
    return hashlib.sha1(b"".join(texts)).digest()


def sources(chunk):
    tests = ROOT / "tests"
    if chunk.startswith("fuzz"):
        return digest(tests / "oracle", tests / "fuzz")
    return digest(ROOT / "benchmarks", tests / "oracle", tests / "scientific", *tests.glob("*.py"))


if __name__ == "__main__":
    sys.exit(main())
