"""`python -m benchmarks`: the tables of speed and operations, as Markdown, from one run on this machine."""

import argparse
import datetime
import os
import platform
from pathlib import Path

import numpy
import sympy

import symdiff
from benchmarks import arrays, cubic, peers, tables


def machine() -> str:
    """The processor, its cores, and the versions, on one line."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        names = [line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = names[0] if names else model
    versions = f"Python {platform.python_version()}, NumPy {numpy.__version__}, SymPy {sympy.__version__}"
    return f"{model}, {os.cpu_count()} cores, {platform.system()}; {versions}, symdiff {symdiff.__version__}"


GROWTH = """Called plainly: f on Python numbers and on a NumPy array; the gradient takes the array. One-off cost: trace,
differentiate, share, emit, load and the first call, the best of three. `auto` takes the Python backend here; `numpy`
is the other one that serves a point."""

ONE_POINT = """From an array of eight numbers. symdiff with `out=`, "into an array" and the packages leave their answer in
one array; the others return a list of numbers."""

MANY_POINTS = """symdiff leaves its answer in one array laid out like the points; the rows of lambdify and by hand return a
list of eight arrays, which nobody has put together."""

ARRAYS = """Value and gradient, or the gradients alone where it says so, in float64; NumPy's own threads in products of
matrices, one thread elsewhere. By hand is NumPy as people write it, without buffers."""

OPERATIONS = """Counted by `sd.cost`; all partials, so a Jacobian for the heart systems. The counts elsewhere are known
ones, not measured here."""


def document(points: int, quick: bool) -> str:
    """The header and all tables."""
    sizes, rounds = ((10, 100), 3) if quick else ((10, 100, 1000, 10_000), 9)
    parts = [
        "# Benchmarks",
        f"{datetime.date.today()}, {machine()}. {peers.presence()}",
        f"Every answer is checked before it is timed; a time is the median of {rounds} rounds, in which all candidates of a "
        "row or table take turns. Ratios compare; times depend on the machine.",
        f"## Growth\n\n{GROWTH}\n\n{tables.growth(sizes, rounds)}",
        f"## One point: the gradient of an eight-variable cubic\n\n{ONE_POINT}\n\n{cubic.one_point(rounds)}",
        f"## Many points: the same gradient\n\n{MANY_POINTS}\n\n{cubic.many_points(points, rounds)}",
        f"## Whole arrays\n\n{ARRAYS}\n\n{arrays.table(quick, rounds)}\n\n{arrays.layer_floor(rounds)}",
        f"## Operations\n\n{OPERATIONS}\n\n{tables.operations()}",
    ]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Print the tables, or write them to a file."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes: for trying the command, not for figures")
    parser.add_argument("--points", type=int, help="points of the many-points tables (default: 1000000, quick: 10000)")
    parser.add_argument("-o", "--output", help="the file to write (default: standard output)")
    options = parser.parse_args()
    text = document(options.points or (10_000 if options.quick else 1_000_000), options.quick)
    if options.output:
        Path(options.output).write_text(text, encoding="utf-8")
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
