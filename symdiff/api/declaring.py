"""Rules of the user's own: `@diffrule` in its three forms, `@primitive`, and which rules are in force.

Assumes rule bodies that are plain functions of traced values. Guarantees that a declared rule is visible in every later
call, also of derivatives that are compiled already, and one passed as `rules=` in that transform only; that it is the rule
of one function object, a bound method's of this method of this object: what a second run of the same `def` or `lambda` makes
has none until it is declared for it. Refuses, with `RuleError`, bodies whose parameters or results do not fit the function,
naming the rule's own line.
"""

import functools
import inspect
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from symdiff.errors import RuleError, TraceError
from symdiff.rulebooks.book import Rulebook
from symdiff.rulebooks.declared import put_rule_in_force, rules_in_force
from symdiff.rulebooks.rule import Rule
from symdiff.rulebooks.sites import OWN, whole_kinds
from symdiff.rulebooks.tables import parse_formula
from symdiff.tracing.trace import definition_line, function_name
from symdiff.vocabulary.choices import check_options
from symdiff.vocabulary.libraries import user_line


class Real:
    """Annotation of a rule's argument: the rule holds for real values."""


class Complex:
    """Annotation of a rule's argument: the rule holds for complex values."""


class Array:
    """Annotation of a rule's argument: a whole array, not a number; `Array[Real]` and `Array[Complex]` are of one kind."""

    def __class_getitem__(cls, kind: Any) -> Any:
        return types.GenericAlias(cls, (kind,))


def diffrule(
    target: Callable[..., Any] | str,
    *,
    wrt: str | None = None,
    pullback: bool = False,
    pushforward: bool = False,
    **partials: str,
) -> Any:
    """Declare the derivative of a function: its partials, in terms of its inputs and its own result `out`.

    It belongs to this function object: another one of the same name, also one that the same `def` made anew, has no rule.

    As a decorator over `def _(out, x, ...)`, which returns one partial, or a tuple with one for each argument; with
    `wrt="x"` the partial by that argument alone; with `pullback=True` over `def _(ds, out, x, ...)`, which returns the
    cotangents of the arguments, None for those without; with `pushforward=True` over `def _(dots, out, x, ...)`, where `dots`
    is a tuple of the arguments' tangents, which returns that of the result. `x: sd.Array` says that these are for whole arrays,
    `x: sd.Array[sd.Complex]` for complex ones, `x: dict` for structures; the direction that is not given is the other one
    transposed. A pullback of complex arrays is ds times f'(z), not its conjugate. As text,
    `diffrule("logistic(x)", x="out*(1 - out)")`, for the function that has this name where it is declared; where nothing has
    it yet, for the one that the module has under it when it is called.
    Raises `RuleError`.

    >>> def cube(x): return x*x*x
    >>> @diffrule(cube)
    ... def _(out, x): return 3*x*x
    """
    if isinstance(target, str):
        return _declare_text(target, partials)
    if partials:
        raise RuleError(f"{user_line()}: partials as text need the function as text, too: diffrule('f(x)', x='...')")
    check_options("diffrule", {"pullback": pullback, "pushforward": pushforward})
    names = _parameters(target)
    called = function_name(target)
    if wrt is not None and wrt not in names:
        raise RuleError(f"{user_line()}: {called} has no argument {wrt!r}; it has {', '.join(names)}")

    def declared(body: Callable[..., Any]) -> Callable[..., Any]:
        expected = len(names) + (2 if pullback or pushforward else 1)
        found = len(inspect.signature(body).parameters)
        if found != expected:
            form = ", ".join((["ds"] if pullback else ["dots"] if pushforward else []) + ["out", *names])
            raise RuleError(f"{definition_line(body)}: the rule of {called} takes ({form}); it has {found} parameters")
        earlier = rules_in_force().of(target)
        known = earlier.body if earlier is not None and isinstance(earlier.body, dict) else {}
        kinds = _kinds(body, len(names))
        whole = pushforward or (pullback and (whole_kinds(kinds) or "shapes" in known))
        if whole_kinds(kinds) and not whole:
            raise RuleError(
                f"{definition_line(body)}: the rule of {called} for whole arrays is one with pullback=True or pushforward=True"
            )
        bodies = {key: known[key] for key in known if wrt or any(kinds) or whole or key in OWN}
        key = ("whole " if whole else "") + ("pullback" if pullback else "pushforward" if pushforward else wrt or "all")
        others = [entry for entry in bodies.get(key, ()) if entry[0] != kinds]
        bodies[key] = ((kinds, body), *others)
        put_rule_in_force(_rule(target, names, bodies, definition_line(body)))
        return body

    return declared


def _parameters(function: Any) -> tuple[str, ...]:
    """The names of a function's arguments. Raises `RuleError` for what has none, and where they are not numbers by position."""
    try:
        found = inspect.signature(function).parameters
    except (TypeError, ValueError):
        shown = getattr(function, "__name__", repr(function))
        raise RuleError(f"{user_line()}: {shown} has no arguments that Python knows; a rule is for a function") from None
    name = function_name(function)
    by_name = next((p.name for p in found.values() if p.kind is p.KEYWORD_ONLY), None)
    if by_name is not None:
        raise RuleError(
            f"{user_line()}: {name} ({definition_line(function)}) takes {by_name} by name only; a rule is for "
            f"arguments that may be given by position: write def {name}({', '.join(found)})"
        )
    if next(iter(found), "") == "self" and isinstance(function, types.FunctionType):
        raise RuleError(
            f"{user_line()}: {function.__qualname__} is a method, whose self is no number; declare the rule for the method of "
            f"one object, sd.diffrule(a.{function.__name__}), or for a function of numbers that the method calls"
        )
    return tuple(found)


def _kinds(body: Callable[..., Any], count: int) -> tuple[Any, ...]:
    """The kinds that a rule's body asks of the arguments: "real", "complex", "array", a class of structures, or "" for any."""
    names = {Real: "real", Complex: "complex", Array: "array", float: "real", complex: "complex", np.ndarray: "array"}
    parameters = list(inspect.signature(body, eval_str=True).parameters.values())[-count:]
    kinds = [(p.annotation, _array_kind(p.annotation, names) or names.get(p.annotation)) for p in parameters]
    return tuple(name or (kind if isinstance(kind, type) and kind is not inspect.Parameter.empty and kind is not int else "")
                 for kind, name in kinds)  # fmt: skip


def _array_kind(annotation: Any, names: dict[Any, str]) -> str:
    """The kind of an array that an annotation as `Array[Complex]` tells; "" for others."""
    if getattr(annotation, "__origin__", None) is not Array:
        return ""
    kind = names.get(annotation.__args__[0])
    if kind not in ("real", "complex"):
        raise RuleError(f"{user_line()}: {annotation}: write sd.Array, sd.Array[sd.Real] or sd.Array[sd.Complex]")
    return f"{kind} array"


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
    put_rule_in_force(Rule(module=module, name=name, parameters=names, partials=templates, function=function, source=origin))


def _check_fits(function: Any, name: str, names: tuple[str, ...], origin: str) -> None:
    """Raise `RuleError` where a rule as text has other arguments than the function can be called with."""
    _parameters(function)
    try:
        inspect.signature(function).bind(*names)
    except TypeError as error:
        raise RuleError(f"{origin}: {name}({', '.join(names)}): {name} ({definition_line(function)}): {error}") from None


def primitive(
    function: Callable[..., Any] | None = None,
    *,
    shapes: Callable[..., Any] | str | None = None,
    vmap: Callable[..., Any] | None = None,
) -> Any:
    """Keep a function opaque: it is called as it stands, once for value and derivative together.

    Its derivative is a `diffrule`. Without `shapes`, scalars in and a scalar out. With them it takes arrays, structures and
    settings, and returns arrays: `shapes(*args)` gives the shape of its result, or a list of several, from arguments whose
    cells mean nothing, each in the arguments' common dtype, or `sd.Spec(shape, dtype)`; `shapes="run"` runs the function once,
    at ones (identities for square matrices). Results without a derivative are residuals for other functions with rules. Many
    points run it one by one, or all at once by `vmap(moving, *args)`: `moving` tells for each argument whether it has a leading
    axis of points, as results do. Arguments cannot be written to. Raises `RuleError`.

    >>> @primitive(shapes=lambda a: a.shape)
    ... def turned(a): return a[::-1].copy()
    >>> @diffrule(turned, pullback=True)
    ... def _(ds, out, a): return turned(ds)
    """
    if function is None:
        return functools.partial(primitive, shapes=shapes, vmap=vmap)
    names = _parameters(function)
    earlier = rules_in_force().of(function)
    bodies = dict(earlier.body) if earlier is not None and isinstance(earlier.body, dict) else {}
    bodies.pop("vmap", None)
    if vmap is not None:
        if shapes is None or not callable(vmap):
            raise RuleError(f"{user_line()}: vmap={vmap!r}; a function of (moving, *args), for a primitive with shapes=")
        bodies["vmap"] = vmap
    if shapes is None:
        bodies["opaque"] = _one_number(function)
    elif callable(shapes) or shapes == "run":
        bodies["shapes"] = shapes
    else:
        raise RuleError(f"{user_line()}: shapes={shapes!r}; a function of the arguments, or 'run'")
    put_rule_in_force(_rule(function, names, bodies, definition_line(function)))
    return function


def _one_number(function: Callable[..., Any]) -> Callable[..., Any]:
    """A primitive, whose result is looked at."""

    @functools.wraps(function)
    def checked(*args: Any) -> Any:
        found = function(*args)
        if type(found) in (float, np.float64):
            return found
        array = np.asarray(found)
        fits = array.shape == () and array.dtype.kind in ("biufc" if any(map(np.iscomplexobj, args)) else "biuf")
        if not fits and not (type(found) is int and array.dtype.kind == "O"):
            kind = f"an array of shape {array.shape}" if array.shape else type(found).__name__
            told = f"{definition_line(function)}: {function_name(function)} is a primitive"
            raise TraceError(f"{told} and must return one number for numbers; it returns {kind}")
        return found

    return checked


def opaque_primitives(functions: Any) -> Rulebook:
    """A rulebook that keeps functions opaque in one trace."""
    rules = []
    for function in functions:
        names = _parameters(function)
        rules.append(_rule(function, names, {"opaque": _one_number(function)}, definition_line(function)))
    return Rulebook(rules)
