"""Derivatives of calls with whole arrays by the rule that the user declared for the function.

Assumes a `site` binding whose rule has a pullback or a pushforward. Guarantees that a body becomes a graph, which is fused,
batched and differentiated like other code; that a direction which nobody gave is the transposed other one; that complex arrays
have the cotangents of Wirtinger's calculus, of which a pullback gives the one by z. Refuses, with
`RuleError` at the rule's line, wrong numbers or shapes of derivatives, and a direction that is not linear.
"""

import math
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from symdiff.differentiation.cotangents import Masked
from symdiff.differentiation.opening import typed
from symdiff.differentiation.transforming import pull_cotangents
from symdiff.differentiation.vectorizing import vectorize_graph
from symdiff.errors import NonHolomorphicError, RuleError
from symdiff.ir.arrays.algebra import Arrays
from symdiff.ir.building import Builder, active_builders, array_atom, is_constant
from symdiff.ir.graph import Graph, GraphOutput
from symdiff.ir.node import Atom, Constant, Node
from symdiff.rulebooks.declared import rules_in_force
from symdiff.rulebooks.sites import Kind, Site, fitting_rule, pulled_through_site, pushed_through_site, site_results
from symdiff.tracing.following.following import followed_calls
from symdiff.tracing.replaying import replay
from symdiff.tracing.state.attempt import Attempt
from symdiff.tracing.state.nesting import nested_trace
from symdiff.tracing.trace import definition_line
from symdiff.tracing.values.tracer import Tracer, traced_atom
from symdiff.vocabulary import structures
from symdiff.vocabulary.ops import is_complex, join_dtype_codes

ZERO = Constant(0.0)


@pulled_through_site.written
def site_cotangents(
    sweep: Any, binding: Node, bar: Masked | None, conjugate: Masked | None
) -> list[tuple[Atom, Atom | None, Atom | None]]:
    """The operands of a site with their cotangents, and those by their conjugates, from those of its result."""
    site: Site = binding.params.params["site"]
    b, arrays = sweep.builder, Arrays(sweep.builder, binding.origin)
    active = tuple(o in sweep.active for o in binding.operands)
    seeds = [None if c is None else arrays.broadcast_to(sweep.cotangents.unmasked(c), binding.shape) for c in (bar, conjugate)]
    if not sweep.mirrored:
        seeds = _of_real_results(arrays, site, *seeds)
    chosen = [(o, m) for o, m, a in zip(binding.operands, site.moving or (True,) * len(active), active, strict=True) if a]
    found: list[list[list[Atom]]] = [[[], []] for _ in chosen]  # by the operand, and by its conjugate
    for half, seed in enumerate(seeds):
        if seed is None:
            continue
        seed = b.conj(seed) if half else seed
        graph = _pulled(site, active, seed.dtype or "d", sweep.mirrored, sweep.slopes.partials.rules)
        given = [seed, binding.result, *binding.operands]
        atoms = _appended(graph, site, given, [True, True, *site.moving], b, binding.origin)
        for k, atom in enumerate(atoms):
            place, across = k % len(chosen), k // len(chosen)
            if is_constant(arrays.repeated(atom)[0], 0):
                continue
            atom = atom if chosen[place][1] else arrays.sum(atom, (0,))
            target = 0 if sweep.mirrored else half ^ across
            found[place][target].append(b.conj(atom) if half or (sweep.mirrored and across) else atom)
    totals = [[reduce(b.add, atoms) if atoms else None for atoms in halves] for halves in found]
    return [(o, by, across) for (o, _), (by, across) in zip(chosen, totals, strict=True)]


def _of_real_results(arrays: Arrays, site: Site, by: Atom | None, across: Atom | None) -> list[Atom | None]:
    """The cotangents of a packed result, where those of real ones by their conjugates are those by themselves."""
    b = arrays.builder
    is_real = np.concatenate([np.full(math.prod(shape), float(code not in "FD")) for shape, code in site.results])
    if across is None or not is_real.any() or is_real.all():
        return [by, across]
    own = array_atom(is_real)  # several results are one row
    moved = b.mul(own, across)
    return [moved if by is None else b.add(by, moved), b.emit("sub", (across, moved))]


@pushed_through_site.written
def site_tangents(builder: Builder, binding: Node, dots: dict[int, Atom], rules: Any) -> Atom:
    """The tangent of a site's result, from those of operands by their places."""
    site: Site = binding.params.params["site"]
    arrays = Arrays(builder, binding.origin)
    active = tuple(place in dots for place in range(len(binding.operands)))
    graph = _pushed(site, active, rules)
    moving = [m for m, a in zip(site.moving, active, strict=True) if a] if site.moving else [True] * len(dots)
    tangents = [arrays.broadcast_to(dots[p], binding.operands[p].shape) for p in sorted(dots)]
    given = [*tangents, binding.result, *binding.operands]
    found = _appended(graph, site, given, [*moving, True, *site.moving], builder, binding.origin)[0]
    return found if site.code in "FD" else builder.real(found)


def _appended(graph: Graph, site: Site, given: list[Atom], moving: list[bool], b: Builder, origin: str) -> list[Atom]:
    """The outputs of a rule's graph, over the points where the site has some."""
    typed = [a if a.op == "const" or a.dtype == leaf.dtype else b.cast(a, leaf.dtype)
             for a, leaf in zip(given, graph.inputs, strict=True)]  # fmt: skip
    if site.moving:
        graph = vectorize_graph(graph, [0 if m else None for m in moving], site.count, 0)
    sources = [Tracer(b, a) if a.op != "const" else a.params for a in typed]
    return [traced_atom(value, b, origin) for value in replay(graph, sources, b, origin)]


def _pulled(site: Site, active: tuple[bool, ...], code: str, mirrored: bool, rules: Any) -> Graph:
    """The cotangent of the packed result in, the result and the operands; out the cotangents of those `active`, then, of a rule
    that may depend on conjugates, those by their conjugates."""
    own = _body_graph(site, "pullback", active, code, mirrored)
    if own is not None:
        return own
    other = _body_graph(site, "pushforward", active, site.code, mirrored)
    if other is None:
        raise _no_direction(site)
    if is_complex(code) and not is_complex(site.code):
        b = Builder()
        b.inputs, b.bindings = list(other.inputs), list(other.bindings)
        b.after(other.bindings)
        other = b.graph(other.name, (GraphOutput("r0", b.cast(other.outputs[0].atom, code)),), origin=other.origin)
    return _transposed(other, site, rules, True)


def _pushed(site: Site, active: tuple[bool, ...], rules: Any) -> Graph:
    """Tangents of the operands `active` in, the packed result and the operands; out the tangent of the result."""
    own = _body_graph(site, "pushforward", active, site.code, False)
    if own is not None:
        return own
    other = _body_graph(site, "pullback", active, site.code, False)
    if other is None:
        raise _no_direction(site)
    return _transposed(other, site, rules, False)


def _no_direction(site: Site) -> RuleError:
    rule = site.rule
    return RuleError(
        f"{rule.source}: no derivative of {rule.name} for these arguments; write\n"
        f"    @sd.diffrule({rule.name}, pullback=True)\n"
        f"    def _(ds, out, {', '.join(f'{p}: sd.Array' for p in rule.parameters)}): return ..."
    )


def _transposed(graph: Graph, site: Site, rules: Any, both: bool) -> Graph:
    """The transposed of a graph that is linear in its first inputs; with `both` also by their conjugates."""
    linear = len(graph.inputs) - len(site.kinds) - 1
    pulled = pull_cotangents(graph, list(range(linear)), rules, both)
    outputs = pulled.outputs[len(graph.outputs) :]
    made = Builder()
    made.inputs = [*pulled.inputs[len(graph.inputs) :], *graph.inputs[linear:]]
    made.bindings = list(pulled.bindings)
    found = made.graph(graph.name, outputs, origin=graph.origin)
    firsts = {leaf.node for leaf in graph.inputs[:linear]}
    if any(o in firsts for b in found.bindings for o in b.operands) or any(o.atom in firsts for o in outputs):
        raise RuleError(
            f"{site.rule.source}: the rule of {site.rule.name} is not linear in derivatives, so it has no transposed"
        )
    return found


def _body_graph(site: Site, which: str, active: tuple[bool, ...], code: str, mirrored: bool) -> Graph | None:
    """What a rule's body does with the derivatives, as a graph; None where there is no body that fits.

    `code` is the dtype of the packed derivative; `mirrored`: that of a real result is real, else by a complex output, too.
    """
    b = Builder()
    b.primal = False
    arrays, pull, rule = Arrays(b), which == "pullback", site.rule
    shape = site.shape[1:] if site.moving else site.shape
    codes = ["d" if c in "l?" else c for _, c in site.kinds]
    first = [(shape, code)] if pull else [(k[0], c) for k, c, a in zip(site.kinds, codes, active, strict=True) if a]
    seeds = [b.input(f"d{k}", *kind) for k, kind in enumerate(first)]
    result = b.input("out", shape, site.code)
    operands = [b.input(f"x{k}", kind[0], c) for k, (kind, c) in enumerate(zip(site.kinds, codes, strict=True))]
    b.whole = {o: c for o, (_, c) in zip(operands, site.kinds, strict=True) if c in "l?"}
    args = site.arguments([Tracer(b, o) for o in operands])
    body = fitting_rule(rule.body.get(f"whole {which}", ()), args)
    if body is None:
        return None
    out = _structured(site, site_results(arrays, site, result), b)
    if pull:
        _check_holomorphic(site, active, body)
        is_typed = mirrored or not is_complex(code)
        found = _run(b, body, rule, site, _structured(site, site_results(arrays, site, seeds[0], is_typed), b), out, *args)
        outputs = _argument_bars(found, site, [(a, join_dtype_codes(code, c)) for a, c in zip(active, codes, strict=True)],
                                 args, b, body)  # fmt: skip
    else:
        given = iter(seeds)
        dots = [Tracer(b, next(given) if a else arrays.broadcast_to(b.cast(ZERO, c), kind[0]))
                for a, kind, c in zip(active, site.kinds, codes, strict=True)]  # fmt: skip
        found = _run(b, body, rule, site, site.arguments(dots), out, *args)
        outputs = [_packed_results(found, site, b, body)]
    return b.graph(rule.name, tuple(GraphOutput(f"r{k}", o) for k, o in enumerate(outputs)), origin=rule.source)


def _check_holomorphic(site: Site, active: tuple[bool, ...], body: Any) -> None:
    """Refuse one cotangent as the derivative of a real result by a complex argument, which has two."""
    by_complex = any(a and c in "FD" for a, (_, c) in zip(active, site.kinds, strict=True))
    if by_complex and any(code not in "FD" for _, code in site.results):
        raise NonHolomorphicError(
            f"{definition_line(body)}: {site.rule.name} gives real numbers of complex ones, so that one cotangent cannot be "
            "the derivative; a rule with pushforward=True, which returns the real tangent, gives both"
        )


def _structured(site: Site, parts: list[Atom], b: Builder) -> Any:
    """Results in the function's own structure."""
    return structures.unflatten(site.out_tree, [Tracer(b, part) for part in parts])


def _run(b: Builder, body: Callable[..., Any], rule: Any, site: Site, *args: Any) -> Any:
    """What a body returns, whose new arrays are of its own graph."""
    b.single = False  # numbers in bodies are NumPy's
    active_builders().append(b)
    try:
        with nested_trace(body, f"the rule of {rule.name}", site.kinds):
            return followed_calls(body, Attempt(rules_in_force(), True))(*args)
    finally:
        active_builders().pop()


def _argument_bars(
    found: Any, site: Site, wanted: list[tuple[bool, str]], args: tuple[Any, ...], b: Builder, body: Any
) -> list[Atom]:
    """The cotangents of the operands that are wanted, each in its dtype, checked."""
    rule, where = site.rule, definition_line(body)
    bars = found if isinstance(found, tuple) and (len(args) > 1 or len(found) == 1) else (found,)
    if len(bars) != len(args):
        raise RuleError(f"{where}: the pullback of {rule.name} must return {len(args)} cotangents, one for each argument; "
                        f"it returns {len(bars)}")  # fmt: skip
    atoms: list[Atom] = []
    static = dict(site.static)
    place = operand = 0
    for name, arg, bar in zip(rule.parameters, args, bars, strict=True):
        tree = structures.structure(arg, none_is_leaf=True)
        given = [None] * tree.num_leaves if bar is None else _leaves_like(tree, bar, f"{where}: the cotangent of {name}", name)
        for value in given:
            if place not in static:
                is_active, code = wanted[operand]
                if is_active:
                    atoms.append(_fitted(value, (site.kinds[operand][0], code), f"{where}: the cotangent of {name}", b))
                operand += 1
            place += 1
    return atoms


def _packed_results(found: Any, site: Site, b: Builder, body: Any) -> Atom:
    """The tangents of all results as one array."""
    where = f"{definition_line(body)}: the tangent of {site.rule.name}"
    given = _leaves_like(site.out_tree, found, where, site.rule.name)
    atoms = [_fitted(value, kind, where, b) for value, kind in zip(given, site.results, strict=True)]
    arrays = Arrays(b)
    if len(atoms) == 1:
        return atoms[0]
    flat = [arrays.reshape(a, (math.prod(a.shape),)) for a in atoms]
    return arrays.concatenate([a if a.dtype == site.code else b.cast(a, site.code) for a in flat], 0)


def _leaves_like(tree: Any, found: Any, where: str, what: str) -> list[Any]:
    """The arrays of a derivative, None for zero, which are where those are that it belongs to."""
    given, own = structures.flatten(found, none_is_leaf=True)
    if len(given) != tree.num_leaves:
        raise RuleError(f"{where} has {len(given)} arrays; {what} has {tree.num_leaves}")
    if len(given) > 1 and own.paths() != tree.paths():
        raise RuleError(f"{where} has its arrays at {_shown(own)}; {what} has them at {_shown(tree)}")
    return given


def _shown(tree: Any) -> str:
    return ", ".join("".join(f"[{key!r}]" for key in path) for path in tree.paths())


def _fitted(value: Any, kind: Kind, where: str, b: Builder) -> Atom:
    """A derivative that a body returned, in the shape of what it belongs to; None is zero."""
    atom = ZERO if value is None else traced_atom(value, b, where)
    if atom.shape != kind[0] and atom.shape != ():
        raise RuleError(f"{where} has shape {atom.shape}; {kind[0]} is expected")
    return typed(b, atom, *kind)
