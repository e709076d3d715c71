"""What the command line takes: its arguments, and the functions that they name.

Assumes functions given as `module:function` or `path/to/file.py:function`, importable from the current directory, its `src`
folder or the packages that the file belongs to. Refuses arguments it cannot read with the way to write them.
"""

import argparse
import importlib
import importlib.util
import inspect
import math
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from symdiff.api import transforms
from symdiff.errors import ExportError
from symdiff.tracing.trace import Spec, traced_argument_names
from symdiff.vocabulary.choices import TARGETS
from symdiff.vocabulary.extents import Extent, extent_of_text
from symdiff.vocabulary.version import __version__

TABLE = "[tool.symdiff.files] in pyproject.toml"
_KINDS = "grad value_and_grad jacobian hessian derivative jvp taylor vjp hvp wirtinger"
KINDS: dict[str, Callable[..., Any]] = {name: getattr(transforms, name) for name in _KINDS.split()}
LARGEST = 10**8  # cells of an argument
DTYPES = frozenset(
    ["", "float32", "float64", "complex64", "complex128", "bool", *(f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64))]
)
MANY = 1000  # arguments of a function that takes any number


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
        listed = f" (default: write the files of {TABLE})" if name == "export" else ""
        command.add_argument("function", nargs="?", help=f"module:function or path/to/file.py:function{listed}")
        command.add_argument("--expr", help='a formula in place of a function: "sin(x)*exp(-x*y)"')
        command.add_argument(
            "--arg", action="append", default=[], metavar="NAME=SPEC",
            help="shape, dtype or value of an argument: x=8, A=3,4, z=8:complex128, rows=32:int64, n=int:5, s=scalar (the "
            "default); with names for any size: A=m,n+1",
        )  # fmt: skip
        command.add_argument("--wrt", default=None, help="arguments to differentiate by, with commas (default: the first)")
        command.add_argument("--kind", choices=sorted(KINDS), default="grad", help="which derivative (default: grad)")
        command.add_argument(
            "--order", type=int, default=1, help="of --kind derivative: which one; of --kind taylor: the last (default: 1)"
        )
        command.add_argument(
            "--scalarize", action="store_true", help="unroll arrays of any size to numbers, which every target takes"
        )
        if name == "export":
            command.add_argument(
                "--target", choices=TARGETS, help="default: by the suffix .c, .cu or .cuh of the file, or numpy"
            )
            command.add_argument("-o", "--output", help="the file to write (default: standard output)")
    text = "tell whether generated files still match their functions"
    warning = "A file is generated anew from the function that its header names, so its module is imported and run."
    check = commands.add_parser("check", help=text, description=f"{text}. {warning}")
    check.add_argument("files", nargs="*", help=f"files written by symdiff export (default: those of {TABLE})")
    commands.add_parser(
        "functions", help="list the functions of NumPy, SciPy and Python that are followed, with their keywords"
    )
    _add_rules(commands.add_parser("rules", help="list, show, check and import derivative rules"))
    return top


def _add_rules(rules: argparse.ArgumentParser) -> None:
    commands = rules.add_subparsers(dest="rules_command", required=True, metavar="COMMAND")
    listed = commands.add_parser("list", help="the functions that have a rule, and where it comes from")
    listed.add_argument("file", nargs="?", help="a rule table or a Julia rule file (default: the package's own rules)")
    show = commands.add_parser("show", help="the formulas of a function's rule, as text and LaTeX")
    show.add_argument("name", help="erf, or scipy.special.erf")
    check = commands.add_parser("check", help="compare every rule with its function in 50 digits")
    check.add_argument("file", nargs="?", help="a rule table or a Julia rule file (default: the package's own rules)")
    check.add_argument("--points", type=int, default=16, help="points for each rule, real and complex (default: 16)")
    imported = commands.add_parser("import", help="turn a Julia rule file into a table")
    imported.add_argument("file", help="a file in the syntax of DiffRules.jl, ChainRules.jl or Yota.jl")
    imported.add_argument("-o", "--output", help="the table to write (default: standard output)")


def command_line(options: argparse.Namespace) -> str:
    """The command that makes the same text again, without the output file."""
    words = ["symdiff", "export", *(["--expr", options.expr] if options.expr is not None else [options.function])]
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


def function_from_options(options: argparse.Namespace) -> tuple[Any, tuple[Any, ...]]:
    if (options.function is None) == (options.expr is None):
        raise ExportError("give a function, as module:function, or a formula by --expr; one of the two")
    f: Any = _formula(options.expr) if options.function is None else load_from_command_line(options.function)
    variadic = any(p.kind is p.VAR_POSITIONAL for p in inspect.signature(f).parameters.values())
    names = traced_argument_names(f, MANY if variadic else len(_positional(f)))
    specs = dict(_spec(text) for text in options.arg)
    wrt = options.wrt.split(",") if options.wrt else names[:1]
    for name in sorted(specs) + wrt:
        if name not in names:
            own = f"{', '.join(names[: len(_positional(f)) + variadic])}{' and so on' if variadic else ''}"
            what = options.function or "the formula"
            raise ExportError(f"{what} has no argument {name!r}; it has {own or 'none that is given by position'}")
    numbers = tuple(names.index(n) for n in wrt)
    count = max([names.index(n) for n in specs] + list(numbers), default=-1) + 1
    count = max(count, _required(f))
    args = tuple(specs.get(n, Spec()) for n in names[:count])
    argnums = numbers[0] if len(numbers) == 1 else numbers
    unrolled = True if options.scalarize else None
    ordered = options.kind in ("derivative", "taylor")
    if options.order < 1 or (options.order > 1 and not ordered):
        raise ExportError(
            f"--order {options.order}: a positive order of --kind derivative or taylor; there is also --kind hessian"
        )
    order = {"order": options.order} if ordered else {}
    function = KINDS[options.kind](f, argnums=argnums, scalarize=unrolled, **order)
    return function, (*args, *[Spec()] * function.extra)


def _formula(text: str) -> Callable[..., Any]:
    """The function of a formula's names, in their order."""
    from symdiff.inspection.sympy_functions import expression_function
    from symdiff.inspection.sympy_text import sympy_of_text

    return expression_function(sympy_of_text(text, {}))


def _positional(f: Callable[..., Any]) -> list[inspect.Parameter]:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p for p in inspect.signature(f).parameters.values() if p.kind in kinds]


def _required(f: Callable[..., Any]) -> int:
    return sum(p.default is p.empty for p in _positional(f))


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
        if dtype not in DTYPES:
            raise ValueError
        sizes = () if shape == "scalar" else tuple(extent_of_text(n) for n in shape.split(","))
        known = [n for n in sizes if not isinstance(n, Extent)]
        if min(known, default=0) < 0 or math.prod(known) > LARGEST:
            raise ValueError
        return name, Spec(sizes, dtype or "float64")
    except ValueError:
        raise ExportError(
            f"--arg {text!r} cannot be read; write NAME=SHAPE[:DTYPE], as x=8, A=3,4, z=scalar:complex128, rows=32:int64, or "
            f"n=int:5, with at most {LARGEST} cells; or with names for sizes that a call tells, as A=m,n+1"
        ) from None


def load_from_command_line(place: str) -> Callable[..., Any]:
    """The function at `module:function` or `path/to/file.py:function`. Importing runs the module, as Python does."""
    module_name, colon, path = place.rpartition(":")
    if not colon or not module_name or not path:
        raise ExportError(f"{place!r} names no function; write module:function or path/to/file.py:function")
    try:
        if module_name.endswith(".py"):
            found = module_of_file(Path(module_name))
        else:
            found = imported_from(module_name, roots_of_modules())
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, SyntaxError) as error:
        raise ExportError(f"{place}: {error}") from None
    if not callable(found):
        raise ExportError(f"{place} is {type(found).__name__}, not a function")
    return found  # type: ignore[no-any-return]


def module_of_file(path: Path) -> Any:
    """The module in a file: under the names of the packages that it belongs to, or else by itself and run anew."""
    if not path.is_file():
        raise ExportError(f"{path}: no such file")
    folder, names = path.resolve().parent, [path.stem]
    while (folder / "__init__.py").is_file():
        names.insert(0, folder.name)
        folder = folder.parent
    if len(names) > 1:
        return imported_from(".".join(names if names[-1] != "__init__" else names[:-1]), [str(folder)])
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ExportError(f"{path}: no such file")
    found = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, found)
    spec.loader.exec_module(found)
    return found


def roots_of_modules() -> list[str]:
    """The folders in which modules are looked for first: the current one and that of its project, and their `src`."""
    here = Path.cwd()
    project = next((folder for folder in here.parents if (folder / "pyproject.toml").is_file()), here)
    folders = dict.fromkeys(part for folder in (here, project) for part in (folder, folder / "src"))
    return [str(folder) for folder in folders if folder.is_dir()]


def imported_from(name: str, roots: list[str]) -> Any:
    """A module by its name, looked for in some folders first."""
    sys.path[:0] = roots
    try:
        return importlib.import_module(name)
    finally:
        for root in roots:
            sys.path.remove(root)
