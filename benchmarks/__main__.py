"""`python -m benchmarks`: the tables of speed and operations, as Markdown, from one run on this machine."""

import argparse
import datetime
import os
import platform
import sys
from pathlib import Path

import numpy
import sympy

sys.path.insert(0, str(Path(__file__).parent))

import tables

import symdiff


def machine() -> str:
    """The processor, its cores, and the versions, on one line."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        names = [line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = names[0] if names else model
    versions = f"Python {platform.python_version()}, NumPy {numpy.__version__}, SymPy {sympy.__version__}"
    return f"{model}, {os.cpu_count()} cores, {platform.system()}; {versions}, symdiff {symdiff.__version__}"


def main() -> None:
    """Print the tables, or write them to a file."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes: for trying the command, not for figures")
    parser.add_argument("-o", "--output", help="the file to write (default: standard output)")
    options = parser.parse_args()
    sizes = (10, 100) if options.quick else (10, 100, 1000, 10_000)
    parts = [
        "# Benchmarks",
        f"{datetime.date.today()}, {machine()}. Every answer is checked before it is timed; times are the best of interleaved "
        "rounds. Ratios compare; times depend on the machine.",
        tables.missing_peers(),
        f"## Growth\n\n{tables.growth(sizes)}",
        f"## One point: the gradient of an eight-variable cubic\n\n{tables.one_point()}",
        f"## Many points\n\n{tables.many_points(10_000 if options.quick else 1_000_000)}",
        f"## Operations\n\n{tables.operations()}",
    ]
    text = "\n\n".join(part for part in parts if part) + "\n"
    if options.output:
        Path(options.output).write_text(text, encoding="utf-8")
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
