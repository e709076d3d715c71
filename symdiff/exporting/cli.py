"""The command line: `symdiff export`, `symdiff check`, `symdiff show`, `symdiff rules`.

Assumes what `commands` does; `check` imports the modules that the headers of its files name. Guarantees exit code 0 for
success, 1 for a file that no longer matches, 2 for a user's error, told without a traceback, 3 for a file of another format.
"""

import argparse
import difflib
import io
import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from contextlib import chdir, redirect_stdout
from pathlib import Path

import numpy as np

from symdiff.errors import ExportError, RuleError, RuleWarning, SymdiffError
from symdiff.exporting.commands import function_from_options, parser
from symdiff.exporting.files import write, write_export_file
from symdiff.exporting.project import listed_source, project_files
from symdiff.exporting.regenerating import compare, made_by
from symdiff.inspection.functions import shown_functions
from symdiff.inspection.rules import shown_rule
from symdiff.rulebooks.book import default_rules
from symdiff.rulebooks.checking import check_rules
from symdiff.rulebooks.importing import load_rules, table_text
from symdiff.rulebooks.installed import installed_rules
from symdiff.rulebooks.structural import structural_rules
from symdiff.vocabulary.libraries import name_unless_library
from symdiff.vocabulary.literals import printable_lines

CUT_OFF = 128 + 13  # the exit code of a shell's commands that SIGPIPE has ended: what was not said is no success


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    options = parser().parse_args(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):  # generated files are in UTF-8, formulas as far as a terminal has their signs
        sys.stdout.reconfigure(encoding="utf-8" if options.command == "export" else None, errors="backslashreplace")
    try:
        code = _run(options)
        sys.stdout.flush()
        return code
    except SymdiffError as error:
        _tell(f"symdiff: {error}")
        return 2
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # who reads the output has seen enough of it
        return CUT_OFF
    except Exception as error:
        # Tracing runs the user's function, which may raise anything: told by its line, without our frames.
        frames = traceback.extract_tb(error.__traceback__)
        place = next((frame for frame in reversed(frames) if name_unless_library(frame.filename)), frames[-1])
        _tell(f"symdiff: {Path(place.filename).name}:{place.lineno}: {type(error).__name__}: {error}")
        return 2


def _tell(message: str) -> None:
    """A message for a person, on which no character of the user's names and texts acts."""
    print("\n".join(printable_lines(message)), file=sys.stderr)


def _run(options: argparse.Namespace) -> int:
    if options.command == "check":
        return _check(options.files)
    if options.command == "rules":
        return _rules(options)
    if options.command == "functions":
        sys.stdout.write(shown_functions())
        return 0
    if options.command == "export" and options.function is None and options.expr is None:
        return _export_listed()
    with redirect_stdout(sys.stderr):  # what the user's module prints is no part of the answer
        if options.command == "show":
            function, args = function_from_options(options)
            answer = f"{function.graph(*args).formula}\n\n{function.cost(*args)}\n"
        else:
            source, _ = made_by(options, options.output or "")
            answer = source.text
    if options.command == "export" and options.output:
        write_export_file(options.output, source)
    else:
        sys.stdout.write(answer)
    return 0


def _export_listed() -> int:
    """Write the files that the project lists; a file whose code would stay the same is left as it is."""
    folder, files = project_files(Path.cwd())
    with chdir(folder):
        for name, words in files.items():
            path, made = Path(name), listed_source(name, words)
            kept = path.is_file() and compare(path, made).state == "same"
            if not kept:
                write_export_file(path, made[0])
            print(f"{name}: {'up to date' if kept else 'written'}")
    return 0


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
        book = default_rules() + installed_rules()
        found = [r for r in book.values() if not names.isdisjoint((r.name, f"{r.module}.{r.name}"))]
        structural = structural_rules().get(options.name)
        if structural is not None:
            print(structural)
            return 0
        if not found:
            known = {r.name for r in book.values()} | set(structural_rules())
            near = difflib.get_close_matches(options.name, known, 3)
            raise RuleError(f"no rule for {options.name!r}{'; ' if near else ''}{', '.join(near)}")
        print("\n\n".join(shown_rule(rule) for rule in found))
        return 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuleWarning)  # the problems are told below
        book = load_rules(options.file) if options.file else default_rules() + installed_rules()
    _report(book.problems)
    shown = [rule for rule in book.values() if not rule.name.startswith("_")]
    if options.rules_command == "list":
        for rule in shown:
            head = f"{rule.module}.{rule.name}({', '.join(rule.parameters)})"
            print(head if options.file else f"{head:40} {rule.source}")
        if not options.file:
            print("\n".join(str(rule).partition("\n")[0] for rule in structural_rules().values()))
        return 1 if book.problems else 0
    report = check_rules([rule for rule in shown if not rule.is_user_function], options.points)
    print(report)
    return 1 if report.failed or book.problems else 0


def _report(problems: Sequence[str]) -> None:
    for problem in problems:
        _tell(f"symdiff: {problem}")


def _check(files: Sequence[str]) -> int:
    """Compare files with what their functions give now; 1 where one differs, 3 where one has another format, 2 for errors."""
    folder, listed = (Path(), dict.fromkeys(files)) if files else project_files(Path.cwd())
    states = set()
    with chdir(folder):
        for name, words in listed.items():
            try:
                found = compare(Path(name), None if words is None else listed_source(name, words))
            except ExportError as error:
                _tell(f"symdiff: {error}")
                states.add("error")
                continue
            states.add(found.state)
            print("\n".join(printable_lines(found.text)))
    return next((code for state, code in (("error", 2), ("differs", 1), ("format", 3)) if state in states), 0)
