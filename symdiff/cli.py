"""The command line: `symdiff export`, `symdiff check`, `symdiff show`, `symdiff rules`.

Assumes functions given as `module:function` or `path/to/file.py:function`, importable from the current directory.
Guarantees exit code 0 for success, 1 for a file that no longer matches, 2 for a user's error, told without a traceback.
Refuses arguments it cannot read with the way to write them.
"""

import argparse
import difflib
import importlib
import importlib.util
import os
import re
import shlex
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from symdiff import transforms
from symdiff.errors import ExportError, RuleError, RuleWarning, SymdiffError
from symdiff.exporting import exported, write, write_source
from symdiff.symbolic.arrays.rules import structural_rules
from symdiff.symbolic.importing import load_rules, table_text
from symdiff.symbolic.rule_checking import check_rules
from symdiff.symbolic.rule_text import rule_text
from symdiff.symbolic.rulebook import default_rules
from symdiff.symbolic.tracing.libraries import short_name
from symdiff.symbolic.tracing.trace import Spec, argument_names
from symdiff.version import __version__

KINDS: dict[str, Callable[..., Any]] = {
    "grad": transforms.grad,
    "value_and_grad": transforms.value_and_grad,
    "jacobian": transforms.jacobian,
    "hessian": transforms.hessian,
    "derivative": transforms.derivative,
    "jvp": transforms.jvp,
    "vjp": transforms.vjp,
    "hvp": transforms.hvp,
    "wirtinger": transforms.wirtinger,
}
_COMMAND = re.compile(r"^(?:#| \*)   (symdiff export .+)$", re.MULTILINE)


def parser() -> argparse.ArgumentParser:
    """The argument parser, with its help texts."""
    top = argparse.ArgumentParser(prog="symdiff", description="Derivatives you can read, run and keep.")
    top.add_argument("--version", action="version", version=f"symdiff {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, text in (
        ("export", "write the derivative of a function as a stand-alone source file"),
        ("show", "print the formula of a derivative and what it costs"),
    ):
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("function", help="module:function or path/to/file.py:function")
        command.add_argument(
            "--arg", action="append", default=[], metavar="NAME=SPEC",
            help="shape, dtype or value of an argument: x=8, A=3,4, z=8:complex128, n=int:5, s=scalar (the default)",
        )  # fmt: skip
        command.add_argument("--wrt", default=None, help="arguments to differentiate by, with commas (default: the first)")
        command.add_argument("--kind", choices=sorted(KINDS), default="grad", help="which derivative (default: grad)")
        command.add_argument("--order", type=int, default=1, help="of --kind derivative: which one (default: 1)")
        command.add_argument(
            "--scalarize", action="store_true", help="unroll arrays of any size to numbers, which every target takes"
        )
        if name == "export":
            command.add_argument(
                "--target", choices=("numpy", "python", "c", "cupy", "cuda"), default="numpy", help="default: numpy"
            )
            command.add_argument("-o", "--output", help="the file to write (default: standard output)")
    check = commands.add_parser("check", help="tell whether generated files still match their functions")
    check.add_argument("files", nargs="+", help="files written by symdiff export")
    _add_rules(commands.add_parser("rules", help="list, show, check and import derivative rules"))
    return top


def _add_rules(rules: argparse.ArgumentParser) -> None:
    commands = rules.add_subparsers(dest="rules_command", required=True, metavar="COMMAND")
    listed = commands.add_parser("list", help="the functions that have a rule")
    listed.add_argument("file", nargs="?", help="a rule table or a Julia rule file (default: the package's own rules)")
    show = commands.add_parser("show", help="the formulas of a function's rule, as text and LaTeX")
    show.add_argument("name", help="erf, or scipy.special.erf")
    check = commands.add_parser("check", help="compare every rule with its function in 50 digits")
    check.add_argument("file", nargs="?", help="a rule table or a Julia rule file (default: the package's own rules)")
    check.add_argument("--points", type=int, default=16, help="points for each rule, real and complex (default: 16)")
    imported = commands.add_parser("import", help="turn a Julia rule file into a table")
    imported.add_argument("file", help="a file in the syntax of DiffRules.jl, ChainRules.jl or Yota.jl")
    imported.add_argument("-o", "--output", help="the table to write (default: standard output)")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    options = parser().parse_args(arguments)
    try:
        code = _run(options)
        sys.stdout.flush()
        return code
    except SymdiffError as error:
        print(f"symdiff: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # who reads the output has seen enough of it
    except Exception as error:
        # Tracing runs the user's function, which may raise anything: told by its line, without our frames.
        frames = traceback.extract_tb(error.__traceback__)
        place = next((frame for frame in reversed(frames) if short_name(frame.filename)), frames[-1])
        print(f"symdiff: {Path(place.filename).name}:{place.lineno}: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    return 0


def _run(options: argparse.Namespace) -> int:
    if options.command == "check":
        return _check(options.files)
    if options.command == "rules":
        return _rules(options)
    function, args = _function(options)
    if options.command == "show":
        from symdiff.display import graph_text

        print(graph_text(function.graph(*args)))
        print()
        print(function.cost(*args))
        return 0
    source = exported(function, args, {}, options.target, command_line(options))
    if options.output:
        write_source(options.output, source)
    else:
        sys.stdout.write(source.text)
    return 0


def command_line(options: argparse.Namespace) -> str:
    """The command that makes the same text again, without the output file."""
    words = ["symdiff", "export", options.function]
    for spec in options.arg:
        words += ["--arg", spec]
    if options.wrt:
        words += ["--wrt", options.wrt]
    if options.kind != "grad":
        words += ["--kind", options.kind]
    if options.order != 1:
        words += ["--order", str(options.order)]
    if options.scalarize:
        words.append("--scalarize")
    return shlex.join([*words, "--target", options.target])


def _function(options: argparse.Namespace) -> tuple[Any, tuple[Any, ...]]:
    f = load_function(options.function)
    names = argument_names(f, 1000)
    specs = dict(_spec(text) for text in options.arg)
    unknown = set(specs) - set(names)
    if unknown:
        raise ExportError(f"{options.function} has no argument {sorted(unknown)[0]!r}; it has {', '.join(names)}")
    wrt = options.wrt.split(",") if options.wrt else names[:1]
    for name in wrt:
        if name not in names:
            raise ExportError(f"{options.function} has no argument {name!r}; it has {', '.join(names)}")
    numbers = tuple(names.index(n) for n in wrt)
    count = max([names.index(n) for n in specs] + list(numbers), default=-1) + 1
    count = max(count, _required(f))
    args = tuple(specs.get(n, Spec()) for n in names[:count])
    argnums = numbers[0] if len(numbers) == 1 else numbers
    unrolled = True if options.scalarize else None
    if options.order == 1:
        function = KINDS[options.kind](f, argnums=argnums, scalarize=unrolled)
        return function, (*args, *[Spec()] * function.extra)
    if options.kind != "derivative" or options.order < 1:
        raise ExportError(f"--order {options.order}: a positive order of --kind derivative; there is also --kind hessian")
    return transforms.derivative(f, options.order, argnums, scalarize=unrolled), args


def _required(f: Callable[..., Any]) -> int:
    import inspect

    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in kinds and p.default is p.empty for p in inspect.signature(f).parameters.values())


def _spec(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    shape, _, dtype = value.partition(":")
    try:
        if not equals or not name.isidentifier():
            raise ValueError
        if shape == "int":
            return name, int(dtype)
        if shape == "str":
            return name, dtype
        if dtype and dtype not in ("float32", "float64", "complex64", "complex128"):
            raise ValueError
        sizes = () if shape in ("scalar", "") else tuple(int(n) for n in shape.split(","))
        return name, Spec(sizes, dtype or "float64")
    except ValueError:
        raise ExportError(
            f"--arg {text!r} cannot be read; write NAME=SHAPE[:DTYPE], as x=8, A=3,4, z=scalar:complex128, or n=int:5"
        ) from None


def load_function(place: str) -> Callable[..., Any]:
    """The function at `module:function` or `path/to/file.py:function`. Importing runs the module, as Python does."""
    module_name, colon, path = place.rpartition(":")
    if not colon or not module_name or not path:
        raise ExportError(f"{place!r} names no function; write module:function or path/to/file.py:function")
    try:
        if module_name.endswith(".py"):
            spec = importlib.util.spec_from_file_location(Path(module_name).stem, module_name)
            if spec is None or spec.loader is None or not Path(module_name).is_file():
                raise ExportError(f"{module_name}: no such file")
            found: Any = importlib.util.module_from_spec(spec)
            sys.modules.setdefault(Path(module_name).stem, found)
            spec.loader.exec_module(found)
        else:
            sys.path.insert(0, "")
            try:
                found = importlib.import_module(module_name)
            finally:
                sys.path.remove("")
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, SyntaxError) as error:
        raise ExportError(f"{place}: {error}") from None
    if not callable(found):
        raise ExportError(f"{place} is {type(found).__name__}, not a function")
    return found  # type: ignore[no-any-return]


def _rules(options: argparse.Namespace) -> int:
    if options.rules_command == "import":
        text, problems = table_text(options.file)
        _report(problems)
        if options.output:
            write(options.output, text)
        else:
            sys.stdout.write(text)
        return 1 if problems else 0
    if options.rules_command == "show":
        names = {options.name, getattr(getattr(np, options.name, None), "__name__", options.name)}
        found = [r for r in default_rules().values() if not names.isdisjoint((r.name, f"{r.module}.{r.name}"))]
        structural = structural_rules().get(options.name)
        if structural is not None:
            print(structural)
            return 0
        if not found:
            known = {r.name for r in default_rules().values()} | set(structural_rules())
            near = difflib.get_close_matches(options.name, known, 3)
            raise RuleError(f"no rule for {options.name!r}{'; ' if near else ''}{', '.join(near)}")
        print("\n\n".join(rule_text(rule) for rule in found))
        return 0
    book = default_rules()
    if options.file:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuleWarning)  # the problems are told below
            book = load_rules(options.file)
    _report(book.problems)
    shown = [rule for rule in book.values() if not rule.name.startswith("_")]
    if options.rules_command == "list":
        for rule in shown:
            print(f"{rule.module}.{rule.name}({', '.join(rule.parameters)})")
        if not options.file:
            print("\n".join(str(rule).partition("\n")[0] for rule in structural_rules().values()))
        return 1 if book.problems else 0
    report = check_rules(shown, options.points)
    print(report)
    return 1 if report.failed or book.problems else 0


def _report(problems: Sequence[str]) -> None:
    for problem in problems:
        print(f"symdiff: {problem}", file=sys.stderr)


def _check(files: Sequence[str]) -> int:
    failed = 0
    for name in files:
        try:
            old = Path(name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ExportError(f"{name}: {error}") from None
        command = _COMMAND.search(old)
        if command is None:
            raise ExportError(f"{name}: no `symdiff export` command in its header, so it cannot be made again")
        try:
            options = parser().parse_args(shlex.split(command.group(1))[1:])
        except SystemExit:
            raise ExportError(f"{name}: the command in its header cannot be read: {command.group(1)}") from None
        function, args = _function(options)
        new = exported(function, args, {}, options.target, command_line(options)).text
        if new == old:
            print(f"{name}: up to date")
            continue
        failed = 1
        print(f"{name}: differs from what {options.function} gives now")
        sys.stdout.writelines(difflib.unified_diff(old.splitlines(True), new.splitlines(True), name, "regenerated"))
    return failed
