"""The generated files of a project: those that its pyproject.toml lists, and what they are made of.

Assumes a table `[tool.symdiff.files]` of the file's path, beside pyproject.toml, and the arguments of `symdiff export` for it.
Refuses tables it cannot read, and projects without one, with `ExportError`.

    [tool.symdiff.files]
    "src/models/loss_grad.py" = "models.loss:loss --arg x=8 --wrt x --target numpy"
"""

import io
import shlex
import tomllib
from contextlib import redirect_stderr
from pathlib import Path

from symdiff.errors import ExportError
from symdiff.exporting.commands import TABLE, parser
from symdiff.exporting.regenerating import Made, made_by


def project_files(folder: Path) -> tuple[Path, dict[str, list[str]]]:
    """The folder of the nearest pyproject.toml that lists files, from `folder` upwards, and the arguments for each file."""
    for place in (folder, *folder.parents):
        table = place / "pyproject.toml"
        if not table.is_file():
            continue
        try:
            found = tomllib.loads(table.read_text(encoding="utf-8")).get("tool", {}).get("symdiff", {}).get("files")
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise ExportError(f"{table}: {error}") from None
        if found is None:
            continue
        if not isinstance(found, dict) or not all(isinstance(text, str) for text in found.values()):
            raise ExportError(f'{table}: [tool.symdiff.files] takes lines as "grad.py" = "module:function --arg x=8"')
        return place, {name: _words(text, f"{table}: {name}") for name, text in found.items()}
    raise ExportError(f"no files are given, and no {TABLE} lists some, from {folder} upwards")


def listed_source(name: str, words: list[str]) -> Made:
    """What a listed file is made of."""
    told = io.StringIO()
    try:
        with redirect_stderr(told):
            options = parser().parse_args(["export", *words])
    except SystemExit:
        raise ExportError(f"{TABLE}: {name}: {told.getvalue().rpartition('error: ')[2].strip()}") from None
    if options.output:
        raise ExportError(f"{TABLE}: {name}: -o {options.output}: the file is named before the `=`")
    try:
        return made_by(options, name)
    except ExportError as error:
        raise ExportError(f"{name}: {error}") from None


def _words(text: str, where: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise ExportError(f"{where}: {error}: {text}") from None
