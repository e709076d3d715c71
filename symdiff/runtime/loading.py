"""Source to callable: compiled under a stable pseudo file name that tracebacks and `inspect.getsource` can read.

Assumes text emitted by this package. Guarantees that loading is thread-safe and that the text stays readable as long as
the function lives.
"""

import linecache
import weakref
from collections.abc import Callable
from typing import Any

from symdiff.codegen.source import Source


def load(source: Source) -> Callable[..., Any]:
    """The function that the source defines."""
    filename = f"<symdiff {source.entry} {source.digest}>"
    namespace: dict[str, Any] = {"__name__": filename, **dict(source.names)}
    exec(compile(source.text, filename, "exec"), namespace)
    function: Callable[..., Any] = namespace[source.entry]
    # An entry without a modification time is never dropped by linecache.checkcache.
    linecache.cache[filename] = (len(source.text), None, source.text.splitlines(keepends=True), filename)
    weakref.finalize(function, linecache.cache.pop, filename, None)
    return function
