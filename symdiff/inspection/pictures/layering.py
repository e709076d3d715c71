"""Where the boxes of a picture lie, and the curves between them: in layers, from sources at the top to sinks at the bottom.

Assumes edges from earlier boxes to later ones. Guarantees boxes that do not overlap, sources in the first layer, what is said
to be last in the last one, and the same layout for the same boxes. Refuses nothing.

Sources of the method: Sugiyama, Tagawa, Toda (1981) for layers, places in between for long edges, and barycentres; the places
within a layer are a least-squares fit under distances, by isotonic regression (Barlow et al. 1972).
"""

import subprocess
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from symdiff.errors import BackendError

Point = tuple[float, float]
GAP, RISE, THIN = 16.0, 28.0, 8.0  # between boxes, between layers, width of the place of an edge that passes a layer
ORDERINGS, FITTINGS = 24, 60  # sweeps


class Layout(NamedTuple):
    """The middle of each box, the Bezier curves of each edge (a start, then three points a curve), and the extent."""

    places: list[Point]
    curves: list[list[Point]]
    width: float
    height: float


def shown_layers(sizes: Sequence[Point], edges: Sequence[tuple[int, int]], last: Sequence[int] = ()) -> Layout:
    """A layout of boxes of these widths and heights, `last` in the last layer; y goes up.

    >>> shown_layers([(10, 4), (10, 4), (10, 4)], [(0, 2), (1, 2)]).places
    [(5.0, 34.0), (31.0, 34.0), (18.0, 2.0)]
    """
    ranks = _ranks(len(sizes), edges, last)
    passing, parts = _passing(ranks, edges)
    widths = [size[0] for size in sizes] + [THIN] * len(passing)
    layers: list[list[int]] = [[] for _ in range(max(ranks, default=0) + 1)]
    for place, rank in enumerate([*ranks, *passing]):
        layers[rank].append(place)
    above: list[list[int]] = [[] for _ in widths]
    below: list[list[int]] = [[] for _ in widths]
    for upper, lower in dict.fromkeys(pair for part in parts for pair in pairwise(part)):
        above[lower].append(upper)
        below[upper].append(lower)
    layers = _ordered(layers, above, below)
    x = _fitted(layers, widths, above, below)
    x = [value - min(value - width / 2 for value, width in zip(x, widths, strict=True)) for value in x]
    heights = [max((sizes[place][1] for place in layer if place < len(sizes)), default=0.0) for layer in layers]
    total = sum(heights) + RISE * (len(heights) - 1)
    tops = [total - end - RISE * rank for rank, end in enumerate(accumulate(heights, initial=0.0))]
    y = [tops[rank] - heights[rank] / 2 for rank in [*ranks, *passing]]
    curves = []
    for part, port in zip(parts, _ports(parts, x, widths), strict=True):
        knots = [(x[part[0]], y[part[0]] - sizes[part[0]][1] / 2, 0.0)]
        for place in part[1:-1]:
            after = sum(x[k] for k in below[place]) / len(below[place]), y[below[place][0]]
            half = heights[passing[place - len(sizes)]] / 2
            slope = _slope((x[above[place][0]], y[above[place][0]]), (x[place], y[place]), after, half)
            knots += [(x[place] + slope * rise, y[place] + rise, slope) for rise in (half, -half)]
        curves.append(_curve([*knots, (port, y[part[-1]] + sizes[part[-1]][1] / 2, 0.0)]))
    extent = max((value + width / 2 for value, width in zip(x, widths, strict=True)), default=0.0)
    return Layout(list(zip(x, y, strict=True))[: len(sizes)], curves, extent, total)


def _ranks(count: int, edges: Sequence[tuple[int, int]], last: Sequence[int]) -> list[int]:
    """The layer of each box: one below the lowest that it needs."""
    ranks = [0] * count
    for upper, lower in sorted(edges, key=lambda edge: edge[1]):
        ranks[lower] = max(ranks[lower], ranks[upper] + 1)
    deepest = max(ranks, default=0)
    for place in last:
        ranks[place] = deepest
    return ranks


def _passing(ranks: list[int], edges: Sequence[tuple[int, int]]) -> tuple[list[int], list[list[int]]]:
    """The layers of places for edges that pass them, and the places along each edge; edges from one box share them."""
    passing: list[int] = []
    known: dict[tuple[int, int], int] = {}
    parts = []
    for upper, lower in edges:
        part = [upper]
        for rank in range(ranks[upper] + 1, ranks[lower]):
            if (upper, rank) not in known:
                known[upper, rank] = len(ranks) + len(passing)
                passing.append(rank)
            part.append(known[upper, rank])
        parts.append([*part, lower])
    return passing, parts


def _ordered(layers: list[list[int]], above: list[list[int]], below: list[list[int]]) -> list[list[int]]:
    """The order within each layer with the fewest crossings among those that sweeps of barycentres find."""
    best, fewest = layers, _crossings(layers, below)
    current = [list(layer) for layer in layers]
    for sweep in range(ORDERINGS):
        down = sweep % 2 == 0
        order = range(1, len(current)) if down else range(len(current) - 2, 0, -1)  # inputs keep their order
        for k in order:
            at = {place: i for i, place in enumerate(current[k - 1 if down else k + 1])}
            near = above if down else below
            here = {place: float(i) for i, place in enumerate(current[k])}
            here |= {p: sum(at[q] for q in near[p]) / len(near[p]) for p in current[k] if near[p]}
            current[k] = sorted(current[k], key=here.__getitem__)
        count = _crossings(current, below)
        if count < fewest:
            best, fewest = [list(layer) for layer in current], count
    return best


def _crossings(layers: list[list[int]], below: list[list[int]]) -> int:
    """The number of pairs of edges that cross."""
    found = 0
    for upper, lower in pairwise(layers):
        at = {place: i for i, place in enumerate(lower)}
        before: list[int] = []  # the ends so far, in order
        for end in (end for place in upper for end in sorted(at[q] for q in below[place])):
            k = bisect_right(before, end)
            found += len(before) - k
            before.insert(k, end)
    return found


def _fitted(layers: list[list[int]], widths: list[float], above: list[list[int]], below: list[list[int]]) -> list[float]:
    """Places along the layers, each as near to the mean of its neighbours as the widths beside it let it."""
    x = [0.0] * len(widths)
    for layer in layers:
        for place, end in zip(layer, accumulate(widths[p] + GAP for p in layer), strict=True):
            x[place] = end - widths[place] / 2
    straight = [width == THIN for width in widths]
    both = [a + b for a, b in zip(above, below, strict=True)]

    def mean(place: int, near: list[int]) -> float:
        weights = [1.0 + 7.0 * (straight[place] and straight[other]) + (straight[place] or straight[other]) for other in near]
        return sum(w * x[other] for w, other in zip(weights, near, strict=True)) / sum(weights) if near else x[place]

    for sweep in range(FITTINGS):
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            near = both if sweep > FITTINGS // 2 else below if sweep % 2 else above
            wanted = [mean(place, near[place]) for place in layer]
            room = [0.0, *accumulate((widths[a] + widths[b]) / 2 + GAP for a, b in pairwise(layer))]
            for place, value in zip(layer, _spaced(wanted, room, [4.0 if straight[p] else 1.0 for p in layer]), strict=True):
                x[place] = value
    return x


def _spaced(wanted: list[float], room: list[float], weights: list[float]) -> list[float]:
    """The values nearest to those wanted, at the distances of `room` or more: neighbours that would overlap are pooled."""
    pools: list[tuple[float, float, int]] = []  # mean, weight, count
    for value, shift, weight in zip(wanted, room, weights, strict=True):
        mean, heavy, count = value - shift, weight, 1
        while pools and pools[-1][0] >= mean:
            other, more, further = pools.pop()
            mean, heavy, count = (mean * heavy + other * more) / (heavy + more), heavy + more, count + further
        pools.append((mean, heavy, count))
    flat = [mean for mean, _, count in pools for _ in range(count)]
    return [mean + shift for mean, shift in zip(flat, room, strict=True)]


def _ports(parts: list[list[int]], x: list[float], widths: list[float]) -> list[float]:
    """Where each edge enters its box: side by side, in the order in which the edges come."""
    entering: dict[int, list[int]] = {}
    for k, part in enumerate(parts):
        entering.setdefault(part[-1], []).append(k)
    found = [0.0] * len(parts)
    for place, edges in entering.items():
        step = min(24.0, widths[place] / (len(edges) + 1))
        for i, k in enumerate(sorted(edges, key=lambda k: x[parts[k][-2]])):
            found[k] = x[place] + (i - (len(edges) - 1) / 2) * step
    return found


def _slope(before: Point, at: Point, after: Point, half: float) -> float:
    """That of the way through a layer: even where the way goes on to the same side, and steep enough to stay in its place."""
    even = (after[0] - before[0]) / (after[1] - before[1]) if (at[0] - before[0]) * (after[0] - at[0]) > 0 else 0.0
    most = 0.4 * GAP / max(half, 1.0)
    return max(-most, min(even, most))


def _curve(knots: Sequence[tuple[float, float, float]]) -> list[Point]:
    """The Bezier curves through knots, which are x, y and the slope there."""
    points = [knots[0][:2]]
    for (x0, y0, slope0), (x1, y1, slope1) in pairwise(knots):
        reach = (y1 - y0) * 0.45
        points += [(x0 + slope0 * reach, y0 + reach), (x1 - slope1 * reach, y1 - reach), (x1, y1)]
    return points


def shown_by_dot(dot: str, sizes: Sequence[Point], edges: Sequence[tuple[int, int]], last: Sequence[int] = ()) -> Layout:
    """The layout of Graphviz' program `dot`. Raises `BackendError` with its message where it fails."""
    sources = sorted(set(range(len(sizes))) - {lower for _, lower in edges} - set(last))
    text = ["digraph {", f"nodesep={GAP / 72} ranksep={RISE / 72}", "node [shape=box fixedsize=true label=_]"]
    text += [f"{k} [width={w / 72} height={h / 72}]" for k, (w, h) in enumerate(sizes)]
    text += [f"{{rank={rank} {' '.join(map(str, group))}}}" for rank, group in (("source", sources), ("sink", last)) if group]
    text += [f"{upper} -> {lower} [arrowhead=none]" for upper, lower in edges]
    run = subprocess.run([dot, "-Tplain"], input="\n".join([*text, "}"]), capture_output=True, text=True, check=False)
    lines = [line.split() for line in run.stdout.replace("\\\n", "").splitlines()]
    if run.returncode or not lines:
        raise BackendError(f"{dot} failed: {run.stderr.strip()}; layout='layers' does without it")
    places: list[Point] = [(0.0, 0.0)] * len(sizes)
    curves: dict[tuple[int, int], list[Point]] = {}
    for word, *rest in lines:
        if word == "node":
            places[int(rest[0])] = (72 * float(rest[1]), 72 * float(rest[2]))
        elif word == "edge":
            numbers = [72 * float(n) for n in rest[3 : 3 + 2 * int(rest[2])]]
            curves[int(rest[0]), int(rest[1])] = list(zip(numbers[::2], numbers[1::2], strict=True))
    return Layout(places, [curves[edge] for edge in edges], 72 * float(lines[0][2]), 72 * float(lines[0][3]))
