"""`python -m tests.fuzz --minutes 10`: families in turn, in processes of their own, until the time is over.

Prints each bug with the command that repeats it, and a table of counts. Exits with 1 where a bug was found. `--record FILE`
keeps each program's verdict, and `--before FILE` names those that were right in an earlier record and are not now.
"""

import argparse
import collections
import json
import os
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from . import harness

CHUNK = 20  # trials of one process
Record = dict[str, list[str]]  # "family seed": [kind, why]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long to go on")
    parser.add_argument("--programs", type=int, help="how many programs of each family, instead of a time")
    parser.add_argument("--family", action="append", choices=harness.names(), help="only these families")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at a time")
    parser.add_argument("--record", type=Path, help="a JSON file for the verdicts")
    parser.add_argument("--before", type=Path, help="an earlier record to compare with")
    parser.add_argument("--chunk", nargs=3, metavar=("FAMILY", "FIRST", "COUNT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.chunk:
        return chunk(options.chunk[0], int(options.chunk[1]), int(options.chunk[2]))
    found = search(options.family or harness.names(), options.seed, options.minutes, options.programs, options.jobs)
    print(table(found))
    if options.record:
        options.record.write_text(json.dumps(found, indent=0))
    lost = compared(json.loads(options.before.read_text()), found) if options.before else []
    for line in lost:
        print(line)
    return int(bool(lost) or any(kind == "wrong" for kind, _ in found.values()))


def chunk(name: str, first: int, count: int) -> int:
    """Some trials, a line of JSON each."""
    for seed in range(first, first + count):
        print(json.dumps([seed, None]), flush=True)
        print(json.dumps([seed, *harness.run(name, seed)]), flush=True)
    return 0


def search(families: list[str], seed: int, minutes: float, programs: int | None, jobs: int) -> Record:
    """The verdicts of programs from each family, in turn."""
    end = time.monotonic() + 60 * minutes
    found: Record = {}
    running: list[tuple[subprocess.Popen[str], str]] = []
    turn = 0
    while True:
        first, name = seed + CHUNK * (turn // len(families)), families[turn % len(families)]
        over = time.monotonic() > end if programs is None else first >= seed + programs
        if over and not running:
            return found
        if not over:
            count = CHUNK if programs is None else min(CHUNK, seed + programs - first)
            command = [sys.executable, "-m", "tests.fuzz", "--chunk", name, str(first), str(count)]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            running.append((process, name))
            turn += 1
        if over or len(running) >= jobs:
            note(found, *running.pop(0))


def note(found: Record, process: "subprocess.Popen[str]", name: str) -> None:
    """Enter what a process printed; the trial that it died in is a bug."""
    text, _ = process.communicate()
    begun, other = None, []
    for line in text.splitlines():
        try:
            seed, kind, *why = json.loads(line)
        except (ValueError, TypeError):
            other.append(line)
            continue
        begun = seed if kind is None else None
        if kind is not None:
            enter(found, name, seed, kind, why[0])
    if begun is not None:
        enter(found, name, begun, "wrong", "\n".join(["the process died", *other[-20:]]))


def enter(found: Record, name: str, seed: int, kind: str, why: str) -> None:
    """One verdict; bugs are printed as they come."""
    found[f"{name} {seed}"] = [kind, why]
    if kind == "wrong":
        print(f"== python -m tests.fuzz --family {name} --seed {seed} --programs 1\n{why}\n", flush=True)


def table(found: Record) -> str:
    """Counts of verdicts by family."""
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for key, (kind, _) in found.items():
        counts[key.split()[0]][kind] += 1
    lines = [f"{'family':16}{'right':>8}{'refused':>8}{'wrong':>8}"]
    lines += [f"{name:16}{c['right']:8}{c['refused']:8}{c['wrong']:8}" for name, c in sorted(counts.items())]
    return "\n".join(lines)


def compared(before: Record, now: Record) -> list[str]:
    """The programs that were right and are not any more."""
    both = [key for key in before if key in now and before[key][0] == "right" != now[key][0]]
    return [f"was right: {key}: {now[key][0]}: {now[key][1].splitlines()[-1] if now[key][1] else ''}" for key in both]


if __name__ == "__main__":
    sys.exit(main())
