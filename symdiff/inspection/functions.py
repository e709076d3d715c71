"""The functions of NumPy, SciPy and Python that a trace follows, and what it refuses, as tables in Markdown.

Assumes the rows of what stands for functions, of the rules and of the refusals. Guarantees text that depends on these rows and
on NumPy's own signatures alone.
"""

import itertools
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np

from symdiff.rulebooks.book import default_rules, distributions_followed, functions_instead
from symdiff.tracing.library.distributions import METHODS, QUANTILES
from symdiff.tracing.values.standing import STANDING, Row, followed_keywords
from symdiff.vocabulary.ops import OPS

_HEAD = """# Functions that are followed

In a traced function these functions of NumPy's, SciPy's and Python's take traced values, with the keywords that stand here; a
keyword that is refused must have its default, else the error names it. Methods of arrays (`x.sum()`) are NumPy's functions of
their name. This file is made of the rows themselves: `symdiff functions > FUNCTIONS.md`; the keywords are those of
NumPy {version}.
"""


def shown_functions() -> str:
    """All tables, in the order of their sections.

    >>> "| `np.diff` | a, n, axis, prepend, append |" in shown_functions()
    True
    """
    import_module("symdiff.tracing.library")  # whose files enter the rows
    parts = [_HEAD.format(version=".".join(np.__version__.split(".")[:2]))]
    parts += [_names(f"Elementwise: {title}", names) for title, names in _elementwise().items()]
    rows = {row.name: (function, row) for function, row in STANDING.items() if not row.name.startswith("ufunc.")}
    sections = {"np.linalg.": "np.linalg", "np.fft.": "np.fft", "np.": "NumPy", "scipy.": "SciPy", "": "Python"}
    for prefix, title in sections.items():
        own = {name: rows.pop(name) for name in sorted(rows) if name.startswith(prefix)}
        parts.append(_table(title, own))
    parts.append(_methods("Distributions: scipy.stats", distributions_followed()))
    groups: dict[str, list[str]] = {}
    for name, text in functions_instead().items():
        groups.setdefault(text, []).append(name)
    lines = [f"| {', '.join(f'`{n}`' for n in sorted(names))} | {text} |" for text, names in groups.items()]
    parts.append(
        "\n".join(["## Refused", "", "| function, method or keyword | what works in its place |", "|---|---|", *lines, ""])
    )
    return "\n".join(parts)


def _elementwise() -> dict[str, list[str]]:
    operations = {f"np.{op.numpy}" for op in OPS.values() if isinstance(getattr(np, op.numpy or "", None), np.ufunc)}
    ruled = {(module, name.partition("[")[0]) for module, name, _ in default_rules() if not name.startswith("_")}
    packages = itertools.groupby(sorted(ruled), key=lambda pair: pair[0])
    found = {module: {f"{module.replace('numpy', 'np')}.{name}" for _, name in pairs} for module, pairs in packages}
    found["numpy"] |= operations
    return {module: sorted(names) for module, names in found.items()}


def _names(title: str, names: list[str]) -> str:
    return f"## {title}\n\n{', '.join(f'`{name}`' for name in names)}\n"


def _methods(title: str, rows: Mapping[str, frozenset[str]]) -> str:
    kept = {name: ", ".join(m for m in (*METHODS, *QUANTILES) if m in methods) for name, methods in rows.items()}
    lines = [f"| {', '.join(f'`{n}`' for n in kept if kept[n] == text)} | {text} |" for text in dict.fromkeys(kept.values())]
    return "\n".join([f"## {title}", "", "| distributions | methods |", "|---|---|", *lines, ""])


def _table(title: str, rows: dict[str, tuple[Any, Row]]) -> str:
    lines = [f"## {title}", "", "| function | keywords | refused |", "|---|---|---|"]
    for name, (function, row) in rows.items():
        works, refused = ([], []) if row.always else followed_keywords(function)
        lines.append(f"| `{name}` | {', '.join(works) or 'all'} | {', '.join(refused)} |".replace("|  |", "| |"))
    return "\n".join([*lines, ""])
