"""`python -m benchmarks`: the tables of speed and operations, as Markdown, from one run on this machine."""

import argparse
import datetime
import importlib.metadata
import importlib.util
import os
import platform
import time
from collections.abc import Sequence
from pathlib import Path

import symdiff
from benchmarks import counting, floors, plot, tables
from benchmarks.cases import cases
from benchmarks.contenders import ALL, compiled_c
from benchmarks.measuring import Measurement, Row

EXPLAINED = """Every answer is checked against the one by hand before it is timed. A time is the least of {rounds} rounds, in
which all contenders of a case take turns; ratios compare, times depend on the machine. symdiff, CasADi, symengine, heyoka and
C leave their answers in arrays made before; CasADi and C have their pointers bound before; JAX and PyTorch are given arrays of
their own kind. Packages use the threads they use by themselves. C is compiled with `{flags}`;
"direct call" is a builtin without arguments, the cheapest call Python has. `symdiff` is the public function with `out=`,
"`.kernel`" the bare builtin.

Columns: *f*, a call of the function itself by the same contender; *ratio*, the derivative's time to it; *to best peer*, to
the fastest package that is not symdiff; *to C*, to C behind a direct call; *one-off*, tracing, compiling and first call, in
a process that has derived another function before."""


def machine() -> str:
    """The processor, its cores, and the versions, on one line."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        names = [line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = names[0] if names else model
    packages = ("numpy", "sympy", "llvmlite")
    versions = [f"{name} {importlib.metadata.version(name)}" for name in packages if importlib.util.find_spec(name)]
    described = ", ".join([f"Python {platform.python_version()}", *versions, f"symdiff {symdiff.__version__}"])
    return f"{model}, {os.cpu_count()} cores, {platform.system()}; {described}"


def peers() -> str:
    """Which peers are compared, with their versions, and a line for each that is not installed here."""
    names = dict.fromkeys([*(c.package for c in ALL if c.package), *counting.PACKAGES])
    found = [f"{name} {importlib.metadata.version(name)}" for name in names if importlib.util.find_spec(name)]
    absent = [f"- {name}: not installed here, left out" for name in names if not importlib.util.find_spec(name)]
    if not compiled_c.is_possible():
        absent.append("- C by hand: no compiler called cc or no Python.h here, left out")
    return "\n".join([f"Compared: {', '.join(found)}.", *([""] if absent else []), *absent])


def document(measured: Sequence[Sequence[Row]], left_out: Sequence[str], rounds: int, picture: Path | None) -> str:
    """The header and all tables."""
    parts = [
        "# Benchmarks",
        f"{datetime.date.today()}, {machine()}.",
        peers(),
        EXPLAINED.format(rounds=rounds, flags=" ".join(compiled_c.FLAGS)),
        f"## Where symdiff stands\n\n{tables.summary(measured)}",
        f"## What no program can do without\n\n{floors.floor_table(measured, rounds)}",
        f"## Operations\n\n{counting.EXPLAINED}\n\n{counting.operation_table()}",
    ]
    if picture is not None:
        parts.append(f"## Growth\n\n![time of the derivative to that of the function]({picture.name})")
    parts.append(f"## All contenders\n\n{tables.problems(measured)}")
    if left_out:
        parts.append("## Left out\n\n" + "\n".join(f"- {line}" for line in left_out))
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Print the tables, or write them and the picture to files."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("problems", nargs="*", help="problems to measure, by the beginning of their names (default: all)")
    parser.add_argument("--quick", action="store_true", help="small sizes: for trying the command, not for figures")
    parser.add_argument("--patience", type=float, help="seconds that building may take (default: 30, quick: 2)")
    parser.add_argument("-o", "--output", type=Path, help="the Markdown file; a picture with its name and .svg goes beside it")
    options = parser.parse_args()
    rounds = 2 if options.quick else 7
    os.environ["SYMDIFF_CACHE"] = "off"  # one-off costs are those of a first process
    measurement = Measurement(rounds, options.patience or (2.0 if options.quick else 30.0))
    start = time.perf_counter()
    measurement.warm_up(next(case for case in cases(True) if case.name == "logistic"))
    measured = [rows for case in cases(options.quick, options.problems) if (rows := measurement.rows(case))]
    picture = None
    if options.output and importlib.util.find_spec("matplotlib") and plot.panels(measured):
        picture = options.output.with_suffix(".svg")
        plot.draw(measured, picture)
    text = document(measured, measurement.left_out, rounds, picture)
    if options.output:
        options.output.write_text(text, encoding="utf-8")
        print(f"{len(measured)} cases in {time.perf_counter() - start:.0f} s")
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
