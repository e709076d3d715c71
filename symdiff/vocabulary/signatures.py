"""Types of calls: what is called, and what it is given."""

from collections.abc import Callable
from typing import Any

Function = Callable[..., Any]
Lookup = Callable[[Any], Any]  # of one thing for another, as of what to call in place of a function
Arguments = tuple[Any, ...]
Keywords = dict[str, Any]
