"""Rules of the user's own: `@diffrule` in its three forms, `@primitive`, and which rules are in force.

Assumes rule bodies that are plain functions of traced values. Guarantees that a declared rule is visible in every later
call, also of derivatives that are compiled already, and one passed as `rules=` in that transform only; that it is the rule
of one function object, a bound method's of this method of this object: what a second run of the same `def` or `lambda` makes
has none until it is declared for it. Refuses, with `RuleError`, bodies whose parameters or results do not fit the function,
naming the rule's own line.
"""

import inspect
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from symdiff import structures
from symdiff.choices import check
from symdiff.errors import ArgumentError, RuleError, TraceError
from symdiff.symbolic.building import Builder, active_builders
from symdiff.symbolic.calls import CallSite
from symdiff.symbolic.graph import Constant
from symdiff.symbolic.rule import Rule
from symdiff.symbolic.rulebook import Rulebook, default_rules
from symdiff.symbolic.tables import parse_formula
from symdiff.symbolic.tracing.trace import definition_line, function_name, trace_leaves
from symdiff.symbolic.tracing.tracer import Tracer, atom_of, builder_of, user_line

_lock = threading.Lock()
_declared: Rulebook | None = None
_depending: weakref.WeakSet[Any] = weakref.WeakSet()  # derivatives, whose `outdate` is called when a rule is declared


class Real:
    """Annotation of a rule's argument: the rule holds for real values."""


class Complex:
    """Annotation of a rule's argument: the rule holds for complex values."""


class Array:
    """Annotation of a rule's argument: a whole array rather than a number."""


def rules_in_force(passed: Rulebook | None = None) -> Rulebook:
    """The package's tables, then what `diffrule` and `primitive` declared, then a rulebook passed to the transform."""
    book = default_rules() if _declared is None else _declared
    return book if passed is None else book + passed


def _declare(rule: Rule) -> None:
    global _declared
    with _lock:
        _declared = rules_in_force() + Rulebook([rule])
        depending = list(_depending)
    if active_builders() and "<locals>" in getattr(rule.function, "__qualname__", ""):
        return  # of a function that the traced one makes anew in every run
    for function in depending:
        function.outdate()


def depend(function: Any) -> None:
    """Tell a derivative of rules that are declared from now on, for as long as it lives."""
    with _lock:
        _depending.add(function)


def diffrule(target: Callable[..., Any] | str, *, wrt: str | None = None, pullback: bool = False, **partials: str) -> Any:
    """Declare the derivative of a function: its partials, in terms of its inputs and its own result `out`.

    It belongs to this function object: another one of the same name, also one that the same `def` made anew, has no rule.

    As a decorator over `def _(out, x, ...)`, which returns one partial, or a tuple with one for each argument; with
    `wrt="x"` the partial by that argument alone; with `pullback=True` over `def _(ds, out, x, ...)`, which returns the
    cotangents of the arguments. As text, `diffrule("logistic(x)", x="out*(1 - out)")`, for the function that has this name
    where it is declared; where nothing has it yet, for the one that the module has under it when it is called.
    Raises `RuleError`.

    >>> def cube(x): return x*x*x
    >>> @diffrule(cube)
    ... def _(out, x): return 3*x*x
    """
    if isinstance(target, str):
        return _declare_text(target, partials)
    if partials:
        raise RuleError(f"{user_line()}: partials as text need the function as text, too: diffrule('f(x)', x='...')")
    check("diffrule", {"pullback": pullback})
    names = _parameters(target)
    called = function_name(target)
    if wrt is not None and wrt not in names:
        raise RuleError(f"{user_line()}: {called} has no argument {wrt!r}; it has {', '.join(names)}")

    def declare(body: Callable[..., Any]) -> Callable[..., Any]:
        expected = len(names) + (2 if pullback else 1)
        found = len(inspect.signature(body).parameters)
        if found != expected:
            form = ", ".join((["ds"] if pullback else []) + ["out", *names])
            raise RuleError(f"{definition_line(body)}: the rule of {called} takes ({form}); it has {found} parameters")
        earlier = rules_in_force().of(target)
        known = earlier.body if earlier is not None and isinstance(earlier.body, dict) else {}
        kinds = _kinds(body, len(names), called)
        bodies = {key: known[key] for key in known if wrt or any(kinds) or key == "opaque"}
        key = "pullback" if pullback else wrt or "all"
        others = [entry for entry in bodies.get(key, ()) if entry[0] != kinds]
        bodies[key] = ((kinds, body), *others)
        _declare(_rule(target, names, bodies, definition_line(body)))
        return body

    return declare


def _parameters(function: Any) -> tuple[str, ...]:
    """The names of a function's arguments. Raises `RuleError` for what has none."""
    try:
        return tuple(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        shown = getattr(function, "__name__", repr(function))
        raise RuleError(f"{user_line()}: {shown} has no arguments that Python knows; a rule is for a function") from None


def _kinds(body: Callable[..., Any], count: int, name: str) -> tuple[str, ...]:
    """The kinds that a rule's body asks of the arguments: "real", "complex" or "" for any."""
    names = {Real: "real", Complex: "complex", float: "real", complex: "complex"}
    found = []
    for parameter in list(inspect.signature(body, eval_str=True).parameters.values())[-count:]:
        kind = parameter.annotation
        if kind is Array:
            raise RuleError(
                f"{definition_line(body)}: a rule of {name} for whole arrays; rules are for numbers in this version, "
                "and arrays are differentiated number by number"
            )
        found.append(names.get(kind, ""))
    return tuple(found)


def _rule(target: Callable[..., Any], names: tuple[str, ...], bodies: dict[str, Any], source: str) -> Rule:
    return Rule(
        module=getattr(target, "__module__", None) or type(target).__module__,
        name=getattr(target, "__name__", type(target).__name__),
        parameters=names,
        partials=(None,) * len(names),
        function=target,
        body=bodies,
        source=source,
    )


def _declare_text(head: str, partials: dict[str, str]) -> None:
    origin = user_line()
    name, _, rest = head.partition("(")
    names = tuple(n.strip() for n in rest.rstrip(") ").split(",") if n.strip())
    name = name.strip()
    if not name.isidentifier() or not names or set(partials) - set(names):
        raise RuleError(f"{origin}: {head!r} with partials {sorted(partials)}; write diffrule('f(x, y)', x='...', y='...')")
    templates = tuple(parse_formula(partials[n], names, origin) if n in partials else None for n in names)
    caller = sys._getframe(2)
    function = caller.f_locals.get(name, caller.f_globals.get(name))
    if function is not None:
        _check_fits(function, name, names, origin)
    module = getattr(function, "__module__", None) or caller.f_globals.get("__name__", "__main__")
    _declare(Rule(module=module, name=name, parameters=names, partials=templates, function=function, source=origin))


def _check_fits(function: Any, name: str, names: tuple[str, ...], origin: str) -> None:
    """Raise `RuleError` where a rule as text has other arguments than the function can be called with."""
    _parameters(function)
    try:
        inspect.signature(function).bind(*names)
    except TypeError as error:
        raise RuleError(f"{origin}: {name}({', '.join(names)}): {name} ({definition_line(function)}): {error}") from None


def primitive(function: Callable[..., Any]) -> Callable[..., Any]:
    """Keep a function opaque: it is called as it stands, once for value and derivative together.

    Its derivative is a `diffrule`. Scalars in, a scalar out. It runs in this process only: exporting it is an error.
    """
    names = _parameters(function)
    earlier = rules_in_force().of(function)
    bodies = dict(earlier.body) if earlier is not None and isinstance(earlier.body, dict) else {}
    bodies["opaque"] = function
    _declare(_rule(function, names, bodies, definition_line(function)))
    return function


def opaque_rules(functions: Any) -> Rulebook:
    """A rulebook that keeps functions opaque in one trace."""
    rules = []
    for function in functions:
        names = _parameters(function)
        rules.append(_rule(function, names, {"opaque": function}, definition_line(function)))
    return Rulebook(rules)


def in_order(function: Callable[..., Any], rule: Rule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """The arguments of a call, one for each that the rule has: those given by name in their places, and defaults."""
    if not kwargs and len(args) == len(rule.parameters):
        return args
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
    except TypeError as error:
        raise ArgumentError(f"{user_line()}: {rule.name}: {error}") from None
    bound.apply_defaults()
    found = tuple(bound.arguments.values())
    if len(found) != len(rule.parameters):
        raise RuleError(
            f"{user_line()}: {rule.name} of {len(found)} arguments; its rule ({rule.source}) has {', '.join(rule.parameters)}"
        )
    return found


def record_call(function: Callable[..., Any], rule: Rule, args: tuple[Any, ...]) -> Any:
    """A call of a function with a rule, as one binding; over arrays, elementwise."""
    origin = user_line()
    builder = builder_of([c for a in args for c in (a.ravel().tolist() if isinstance(a, np.ndarray) else [a])])
    atoms = [atom_of(a, builder, origin) for a in args]
    shape = np.broadcast_shapes(*(a.shape for a in atoms))
    if shape:
        grids = [np.broadcast_to(_grid(a, builder), shape).ravel() for a in args]
        cells = np.empty(len(grids[0]), dtype=object)
        cells[:] = [record_call(function, rule, point) for point in zip(*grids, strict=True)]
        return Tracer(builder, atom_of(cells.reshape(shape), builder, origin))  # type: ignore[arg-type]
    opaque = isinstance(rule.body, dict) and "opaque" in rule.body
    codes = ["D" if isinstance(a, Constant) and isinstance(a.value, complex) else a.dtype or "d" for a in atoms]
    graph = None
    code = "D" if "D" in codes else "F" if "F" in codes and "d" not in codes else "d" if "d" in codes else "f"
    if not opaque:
        leaves = [Tracer(builder, a) if not isinstance(a, Constant) else complex(a.value) if c in "FD" else float(a.value)
                  for a, c in zip(atoms, codes, strict=True)]  # fmt: skip
        _, tree = structures.flatten((tuple(leaves), {}))
        places = list(range(len(leaves)))
        graph = trace_leaves(function, leaves, tree, places, [f"x{i}" for i in places], builder, mode="merge").graph
        if len(graph.outputs) != 1 or graph.outputs[0].shape != ():
            raise TraceError(f"{origin}: {function.__name__} has a rule, so it must return one number for numbers")
        code = graph.outputs[0].dtype
    site = CallSite(function, rule, graph)
    return Tracer(builder, builder.bind("call", tuple(atoms), (), code, site, origin))


def _grid(value: Any, builder: Builder) -> np.ndarray:
    if isinstance(value, Tracer):
        return np.array(value, dtype=object)
    return np.asarray(value, dtype=object)
