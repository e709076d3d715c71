"""The picture of the README: the graph of its first example's gradient. `python -m benchmarks.pictures` draws it again.

Assumes matplotlib. Guarantees the same bytes for the same README and versions of symdiff and matplotlib. Refuses nothing.
"""

import contextlib
import io
import re
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PICTURE = HERE / "energy.svg"


def drawn() -> Any:
    """The picture."""
    example = re.search(r"```python\n(.*?)```", (HERE.parent / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    found: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(example[1] if example else "", "demo.py", "exec"), found)
    return found["df"].graph(found["x"]).plot(layout="layers")


if __name__ == "__main__":
    drawn().save(PICTURE)
