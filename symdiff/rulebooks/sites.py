"""Calls with whole arrays of functions that have a rule of their own: what a `site` binding holds.

Assumes arguments and results of known shapes. Guarantees that sites of one function with equal arguments are equal, so that
equal calls are computed once; that several results travel as one array, which is taken apart again; and that an opaque function
gets arrays that it cannot write to. Refuses, with `TraceError`, results of other shapes than those that were told.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from symdiff.errors import TraceError
from symdiff.ir.arrays.algebra import Arrays
from symdiff.ir.graph import Graph
from symdiff.ir.node import Atom
from symdiff.rulebooks.rule import Rule, rule_key
from symdiff.vocabulary import structures
from symdiff.vocabulary.seams import Seam

Kind = tuple[tuple[int, ...], str]  # shape and dtype code


@dataclass(frozen=True, slots=True)
class Site:
    """The static part of a `site` binding. `graph` is None for an opaque function.

    `tree` is the structure of the arguments, `static` those leaves of it that are no operands, by their places. `moving` tells
    which operands have a leading axis of `count` points; without points it is empty. `single` is the graph at one point.
    """

    key: tuple[Any, ...]
    rule: Rule = field(compare=False)
    function: Any = field(compare=False)
    tree: Any = field(compare=False)
    static: tuple[tuple[int, Any], ...] = field(compare=False)
    kinds: tuple[Kind, ...] = field(compare=False)
    out_tree: Any = field(compare=False)
    results: tuple[Kind, ...] = field(compare=False)
    graph: Graph | None = field(compare=False)
    moving: tuple[bool, ...] = ()
    count: int = 0
    single: Graph | None = field(default=None, compare=False)

    @property
    def code(self) -> str:
        """The dtype code of the array that the results are."""
        return np.result_type(*(code for _, code in self.results)).char

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array that the results are."""
        sizes = [math.prod(shape) for shape, _ in self.results]
        own = self.results[0][0] if len(sizes) == 1 else (sum(sizes),)
        return (self.count, *own) if self.moving else own

    def arguments(self, leaves: list[Any]) -> tuple[Any, ...]:
        """The arguments in their structure, the operands' leaves given."""
        return tuple(structures.unflatten(self.tree, self._with_static(leaves, dict(self.static))))

    def _with_static(self, leaves: list[Any], static: dict[int, Any]) -> list[Any]:
        """All leaves, those of operands given."""
        given = iter(leaves)
        return [static[k] if k in static else next(given) for k in range(len(static) + len(leaves))]

    def __call__(self, *operands: Any, out: Any = None) -> Any:
        """The results as one array, point by point where there are points."""
        out = np.empty(self.shape, self.code) if out is None else out
        together = self.rule.body.get("vmap") if self.moving and isinstance(self.rule.body, dict) else None
        if together is not None:
            moving = structures.unflatten(
                self.tree, self._with_static(list(self.moving), dict.fromkeys(dict(self.static), False))
            )
            self._pack(lambda *args: together(tuple(moving), *args), operands, out, (self.count,))
        elif not self.moving:
            self._pack(self.function, operands, out)
        for k in range(self.count) if self.moving and together is None else ():
            self._pack(self.function, [o[k] if m else o for o, m in zip(operands, self.moving, strict=True)], out[k, ...])
        return out[()]

    def _pack(self, function: Any, operands: Any, out: np.ndarray, points: tuple[int, ...] = ()) -> None:
        """Write the results at one point, or at all of them, into an array."""
        try:
            found = structures.leaves(function(*self.arguments(list(map(_locked, operands, self.kinds)))))
        except ValueError as error:
            if "read-only" not in str(error):
                raise
            told = f"{self.rule.source}: {self.rule.name} writes to an argument, whose array others read, too"
            raise TraceError(f"{told}; let it copy the array first: x = x.copy()") from error
        arrays = [np.asarray(f) for f in found]
        told_shapes = [(*points, *shape) for shape, _ in self.results]
        if [a.shape for a in arrays] != told_shapes:
            shown, wanted = (", ".join(map(str, shapes)) for shapes in ([a.shape for a in arrays], told_shapes))
            raise TraceError(f"{self.rule.source}: {self.rule.name} returns shapes {shown}; {wanted} were told")
        for a, (_, code) in zip(arrays, self.results, strict=True):
            if a.dtype.kind not in ("biufc" if code in "FD" else "biuf"):
                kind = f"{a.dtype}; numbers as {np.dtype(code)} were told"
                raise TraceError(
                    f"{self.rule.source}: {self.rule.name} returns {kind}; shapes= may tell sd.Spec(shape, dtype) of a result"
                )
        if len(arrays) == 1:
            out[...] = arrays[0]
            return
        start = 0
        for a, shape in zip(arrays, told_shapes, strict=True):
            size = math.prod(shape[len(points) :])
            out[..., start : start + size].reshape(shape)[...] = a
            start += size

    def __repr__(self) -> str:
        settings = [f"{place}: {value!r}" for place, value in self.static]
        return f"{self.rule.name}({', '.join(settings)})" if settings else self.rule.name


def _locked(value: Any, kind: Kind) -> Any:
    """An operand as the function gets it: in its own dtype, and not to be written to."""
    if not kind[0]:
        return value.item() if isinstance(value, np.generic) else value
    found = np.asarray(value).astype(kind[1], copy=False).view()
    found.flags.writeable = False
    return found


def site_key(function: Any, tree: Any, static: Any, kinds: Any) -> tuple[Any, ...]:
    """What equal calls have in common."""
    return rule_key(function), tree, static, kinds


def site_results(arrays: Arrays, site: Site, packed: Atom, is_typed: bool = True) -> list[Atom]:
    """The results at one point, each with its own shape and, if `is_typed`, dtype, from the array that they are."""
    b, found, start = arrays.builder, [], 0
    for shape, code in site.results:
        size = math.prod(shape)
        part = packed if len(site.results) == 1 else arrays.getitem(packed, ((start, start + size, 1),))
        if is_typed:
            part = part if code in "FD" else b.real(part)
            part = part if part.dtype == code else b.cast(part, code)
        found.append(arrays.reshape(part, shape))
        start += size
    return found


def fitting_rule(entries: Any, args: Any) -> Any:
    """The body whose annotations fit the arguments, the one that says most of them first; None without one."""
    fits = [(wanted, body) for wanted, body in entries if all(map(_fits, wanted, args))]
    return max(
        fits, key=lambda entry: sum(1 if isinstance(w, type) else len(w.split()) for w in entry[0]), default=(None, None)
    )[1]


def _fits(wanted: Any, value: Any) -> bool:
    if isinstance(wanted, type):
        return isinstance(value, wanted)
    shape, code = (
        getattr(value, "shape", ()),
        getattr(value, "dtype", np.dtype(type(value) if isinstance(value, complex) else float)),
    )
    kind = "complex" if np.dtype(code).kind == "c" else "real"
    is_leaf = not isinstance(value, (dict, list, tuple))
    return wanted in ("", "array", f"{kind} array") if is_leaf and shape != () else wanted == "" or (is_leaf and wanted == kind)


def takes_whole(rule: Rule, args: Any) -> bool:
    """Whether a rule is for these arguments as a whole, rather than number by number."""
    body = rule.body if isinstance(rule.body, dict) else {}
    if "shapes" in body:
        return True
    return any(fitting_rule(body.get(key, ()), args) is not None for key in WHOLE)


def whole_kinds(kinds: Any) -> bool:
    """Whether the annotations of a rule's body speak of arrays or structures."""
    return any(isinstance(kind, type) or kind.endswith("array") for kind in kinds)


OWN = frozenset({"opaque", "shapes", "vmap"})  # what a rule holds of its function beside bodies of derivatives
WHOLE = ("whole pullback", "whole pushforward")

pulled_through_site = Seam("the cotangents of a call with arrays")
pushed_through_site = Seam("the tangents of a call with arrays")
