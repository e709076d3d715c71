"""The rules in force: the package's tables, and what users declare.

Assumes rules of function objects. Guarantees that a declared rule is seen by every later call, also of derivatives that are
compiled already.
"""

import functools
import threading
import weakref
from typing import Any

from symdiff.ir.building import active_builders
from symdiff.rulebooks.book import Rulebook, default_rules
from symdiff.rulebooks.installed import installed_rules
from symdiff.rulebooks.rule import Rule
from symdiff.rulebooks.sites import OWN
from symdiff.vocabulary.locks import free_in_children

_lock = threading.RLock()
free_in_children(_lock)
_declared: Rulebook | None = None
_depending: weakref.WeakSet[Any] = weakref.WeakSet()  # derivatives, whose `outdate` is called when a rule is declared


def rules_in_force(passed: Rulebook | None = None) -> Rulebook:
    """The tables of symdiff and other packages, what `diffrule` and `primitive` declared, a rulebook passed on."""
    book = _tables() if _declared is None else _declared
    return book if passed is None else book + passed


@functools.cache
def _tables() -> Rulebook:
    installed = installed_rules()
    return default_rules() + installed if installed else default_rules()


def is_opaque_function(function: Any) -> bool:
    """Whether a function is a primitive, which runs as it stands in every call."""
    rule = None if _declared is None else _declared.of(function)
    return rule is not None and isinstance(rule.body, dict) and not rule.body.keys().isdisjoint(OWN)


def put_rule_in_force(rule: Rule) -> None:
    """Have a rule in force from now on, and tell what is compiled already."""
    global _declared
    with _lock:
        _declared = rules_in_force() + Rulebook([rule])
        depending = list(_depending)
    if active_builders() and "<locals>" in getattr(rule.function, "__qualname__", ""):
        return  # of a function that the traced one makes anew in every run
    for function in depending:
        function.outdate()


def depend_on_rules(function: Any) -> None:
    """Tell a derivative of rules that are declared from now on, for as long as it lives."""
    with _lock:
        _depending.add(function)
