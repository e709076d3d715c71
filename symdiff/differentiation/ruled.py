"""Derivatives of calls with whole arrays by the rule that the user declared for the function.

Assumes a `site` binding whose rule has a pullback or a pushforward. Guarantees that a body becomes a graph, which is fused,
batched and differentiated like other code; that a direction which nobody gave is the transposed other one. Refuses, with
`RuleError` at the rule's line, wrong numbers or shapes of derivatives, and a direction that is not linear.
"""

import math
from collections.abc import Callable
from typing import Any

from symdiff.differentiation.cotangents import Masked
from symdiff.differentiation.transforming import pull_cotangents
from symdiff.differentiation.vectorizing import vectorize_graph
from symdiff.errors import RuleError
from symdiff.ir.arrays.algebra import Arrays
from symdiff.ir.building import Builder
from symdiff.ir.graph import Graph, GraphOutput
from symdiff.ir.node import Atom, Constant, Node
from symdiff.rulebooks.declared import rules_in_force
from symdiff.rulebooks.sites import Kind, Site, fitting_rule, pulled_through_site, pushed_through_site
from symdiff.tracing.following.following import followed_calls
from symdiff.tracing.replaying import replay
from symdiff.tracing.state.attempt import Attempt
from symdiff.tracing.state.nesting import nested_trace
from symdiff.tracing.trace import definition_line
from symdiff.tracing.values.tracer import Tracer, traced_atom
from symdiff.vocabulary import structures

ZERO = Constant(0.0)


@pulled_through_site.written
def site_cotangents(sweep: Any, binding: Node, bar: Masked | None, conjugate: Masked | None) -> list[tuple[Atom, Atom]]:
    """The operands of a site with a cotangent each, from that of its result."""
    site: Site = binding.params.params["site"]
    b, arrays = sweep.builder, Arrays(sweep.builder, binding.origin)
    if conjugate is not None or bar is None:
        raise RuleError(f"{binding.origin}: the rule of {site.rule.name} ({site.rule.source}) is for real arrays")
    active = tuple(o in sweep.active for o in binding.operands)
    graph = _direction(site, "pullback", active, sweep.slopes.partials.rules)
    given = [arrays.broadcast_to(sweep.cotangents.unmasked(bar), binding.shape), binding.result, *binding.operands]
    found = _appended(graph, site, given, [True, True, *site.moving], b, binding.origin)
    pairs = []
    moving = site.moving or (True,) * len(binding.operands)
    for operand, is_moving, atom in zip(
        [o for o, a in zip(binding.operands, active, strict=True) if a],
        [m for m, a in zip(moving, active, strict=True) if a], found, strict=True,
    ):  # fmt: skip
        pairs.append((operand, atom if is_moving else arrays.sum(atom, (0,))))
    return pairs


@pushed_through_site.written
def site_tangents(builder: Builder, binding: Node, dots: dict[int, Atom], rules: Any) -> Atom:
    """The tangent of a site's result, from those of operands by their places."""
    site: Site = binding.params.params["site"]
    arrays = Arrays(builder, binding.origin)
    active = tuple(place in dots for place in range(len(binding.operands)))
    graph = _direction(site, "pushforward", active, rules)
    moving = [m for m, a in zip(site.moving, active, strict=True) if a] if site.moving else [True] * len(dots)
    tangents = [arrays.broadcast_to(dots[p], binding.operands[p].shape) for p in sorted(dots)]
    given = [*tangents, binding.result, *binding.operands]
    return _appended(graph, site, given, [*moving, True, *site.moving], builder, binding.origin)[0]


def _appended(graph: Graph, site: Site, given: list[Atom], moving: list[bool], b: Builder, origin: str) -> list[Atom]:
    """The outputs of a rule's graph, over the points where the site has some."""
    if site.moving:
        graph = vectorize_graph(graph, [0 if m else None for m in moving], site.count, 0)
    sources = [Tracer(b, a) if a.op != "const" else a.params for a in given]
    return [traced_atom(value, b, origin) for value in replay(graph, sources, b, origin)]


def _direction(site: Site, which: str, active: tuple[bool, ...], rules: Any) -> Graph:
    """A direction at one point: derivatives in, the packed result and the operands; derivatives out of those `active`."""
    own = _body_graph(site, which, active)
    if own is not None:
        return own
    other = _body_graph(site, "pullback" if which == "pushforward" else "pushforward", active)
    rule = site.rule
    if other is None:
        raise RuleError(
            f"{rule.source}: no derivative of {rule.name} for these arguments; write\n"
            f"    @sd.diffrule({rule.name}, pullback=True)\n"
            f"    def _(ds, out, {', '.join(f'{p}: sd.Array' for p in rule.parameters)}): return ..."
        )
    count = 1 if which == "pushforward" else sum(active)
    return _transposed(other, count, site, rules)


def _transposed(graph: Graph, count: int, site: Site, rules: Any) -> Graph:
    """The transposed of a graph that is linear in its first inputs."""
    linear = len(graph.inputs) - len(site.kinds) - 1
    pulled = pull_cotangents(graph, list(range(linear)), rules)
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
    assert count == len(outputs)
    return found


def _body_graph(site: Site, which: str, active: tuple[bool, ...]) -> Graph | None:
    """What a rule's body does with the derivatives, as a graph; None where there is no body that fits."""
    b = Builder()
    b.primal = False
    pull = which == "pullback"
    packed: Kind = (_single_shape(site), "d")
    first = [packed] if pull else [k for k, a in zip(site.kinds, active, strict=True) if a]
    seeds = [b.input(f"d{k}", *kind) for k, kind in enumerate(first)]
    result = b.input("out", *packed)
    operands = [b.input(f"x{k}", shape, "d") for k, (shape, _) in enumerate(site.kinds)]
    args = site.arguments([Tracer(b, o) for o in operands])
    rule = site.rule
    body = fitting_rule(rule.body.get(f"whole {which}", ()), args)
    if body is None:
        return None
    out = unpacked_results(site, b, result)
    if pull:
        found = _run(body, rule, site, unpacked_results(site, b, seeds[0]), out, *args)
        outputs = _argument_bars(found, site, active, args, b, body)
    else:
        given = iter(seeds)
        dots = [Tracer(b, next(given) if a else Arrays(b).broadcast_to(ZERO, kind[0]))
                for a, kind in zip(active, site.kinds, strict=True)]  # fmt: skip
        found = _run(body, rule, site, site.arguments(dots), out, *args)
        outputs = [_packed_results(found, site, b, body)]
    return b.graph(rule.name, tuple(GraphOutput(f"r{k}", o) for k, o in enumerate(outputs)), origin=rule.source)


def _single_shape(site: Site) -> tuple[int, ...]:
    return site.shape[1:] if site.moving else site.shape


def unpacked_results(site: Site, b: Builder, packed: Atom) -> Any:
    """The results of a site in the function's own structure."""
    arrays, found, start = Arrays(b), [], 0
    for shape, _ in site.results:
        size = math.prod(shape)
        part = packed if len(site.results) == 1 else arrays.reshape(arrays.getitem(packed, ((start, start + size, 1),)), shape)
        found.append(Tracer(b, part))
        start += size
    return structures.unflatten(site.out_tree, found)


def _run(body: Callable[..., Any], rule: Any, site: Site, *args: Any) -> Any:
    with nested_trace(body, f"the rule of {rule.name}", site.kinds):
        return followed_calls(body, Attempt(rules_in_force(), True))(*args)


def _argument_bars(
    found: Any, site: Site, active: tuple[bool, ...], args: tuple[Any, ...], b: Builder, body: Any
) -> list[Atom]:
    """The cotangents of the active operands, checked."""
    rule, where = site.rule, definition_line(body)
    bars = found if isinstance(found, tuple) and (len(args) > 1 or len(found) == 1) else (found,)
    if len(bars) != len(args):
        raise RuleError(f"{where}: the pullback of {rule.name} must return {len(args)} cotangents, one for each argument; "
                        f"it returns {len(bars)}")  # fmt: skip
    atoms: list[Atom] = []
    static = dict(site.static)
    place = operand = 0
    for name, arg, bar in zip(rule.parameters, args, bars, strict=True):
        leaves = structures.leaves(arg, none_is_leaf=True)
        given = [None] * len(leaves) if bar is None else structures.flatten(bar, none_is_leaf=True)[0]
        if len(given) != len(leaves):
            raise RuleError(f"{where}: the cotangent of {name} has {len(given)} arrays; {name} has {len(leaves)}")
        for value in given:
            if place not in static:
                if active[operand]:
                    atoms.append(_fitted(value, site.kinds[operand], f"{where}: the cotangent of {name}", b))
                operand += 1
            place += 1
    return atoms


def _packed_results(found: Any, site: Site, b: Builder, body: Any) -> Atom:
    """The tangents of all results as one array."""
    where = f"{definition_line(body)}: the tangent of {site.rule.name}"
    given = structures.flatten(found, none_is_leaf=True)[0]
    if len(given) != len(site.results):
        raise RuleError(f"{where} has {len(given)} arrays; {site.rule.name} returns {len(site.results)}")
    atoms = [_fitted(value, kind, where, b) for value, kind in zip(given, site.results, strict=True)]
    arrays = Arrays(b)
    return atoms[0] if len(atoms) == 1 else arrays.concatenate([arrays.reshape(a, (math.prod(a.shape),)) for a in atoms], 0)


def _fitted(value: Any, kind: Kind, where: str, b: Builder) -> Atom:
    """A derivative that a body returned, in the shape of what it belongs to; None is zero."""
    atom = ZERO if value is None else traced_atom(value, b, where)
    if atom.shape != kind[0] and atom.shape != ():
        raise RuleError(f"{where} has shape {atom.shape}; {kind[0]} is expected")
    return Arrays(b).broadcast_to(b.cast(atom, "d"), kind[0])
