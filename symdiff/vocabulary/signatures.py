"""Types of calls: what is called, what it is given, and the names that it finds around it."""

from collections.abc import Callable
from typing import Any

Function = Callable[..., Any]
Lookup = Callable[[Any], Any]  # of one thing for another, as of what to call in place of a function
Arguments = tuple[Any, ...]
Keywords = dict[str, Any]
Namespace = dict[str, Any]  # names, and what they hold
