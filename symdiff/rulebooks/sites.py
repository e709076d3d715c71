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
from symdiff.ir.graph import Graph
from symdiff.rulebooks.rule import Rule, rule_key
from symdiff.vocabulary import structures
from symdiff.vocabulary.seams import Seam

Kind = tuple[tuple[int, ...], str]  # shape and dtype code


@dataclass(frozen=True, slots=True)
class Site:
    """The static part of a `site` binding. `graph` is None for an opaque function.

    `tree` is the structure of the arguments, `static` those leaves of it that are no operands, by their places. `moving` tells
    which operands have a leading axis of `count` points; without points it is empty.
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

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array that the results are."""
        sizes = [math.prod(shape) for shape, _ in self.results]
        own = self.results[0][0] if len(sizes) == 1 else (sum(sizes),)
        return (self.count, *own) if self.moving else own

    def arguments(self, leaves: list[Any]) -> tuple[Any, ...]:
        """The arguments in their structure, the operands' leaves given."""
        static, given = dict(self.static), iter(leaves)
        whole = [static[k] if k in static else next(given) for k in range(len(static) + len(leaves))]
        return tuple(structures.unflatten(self.tree, whole))

    def __call__(self, *operands: Any, out: Any = None) -> Any:
        """The results as one array, point by point where there are points."""
        out = np.empty(self.shape) if out is None else out
        if not self.moving:
            self._pack(operands, out)
        for k in range(self.count) if self.moving else ():
            self._pack([o[k] if m else o for o, m in zip(operands, self.moving, strict=True)], out[k, ...])
        return out[()]

    def _pack(self, operands: Any, out: np.ndarray) -> None:
        """Write the results at one point into an array."""
        try:
            found = structures.leaves(self.function(*self.arguments(list(map(_locked, operands, self.kinds)))))
        except ValueError as error:
            if "read-only" not in str(error):
                raise
            told = f"{self.rule.source}: {self.rule.name} writes to an argument, whose array others read, too"
            raise TraceError(f"{told}; let it copy the array first: x = x.copy()") from error
        arrays = [np.asarray(f) for f in found]
        if [a.shape for a in arrays] != [shape for shape, _ in self.results]:
            shown = ", ".join(str(a.shape) for a in arrays)
            wanted = ", ".join(str(shape) for shape, _ in self.results)
            raise TraceError(f"{self.rule.source}: {self.rule.name} returns shapes {shown}; {wanted} were told")
        wrong = next((a.dtype for a in arrays if a.dtype.kind not in "biuf"), None)
        if wrong is not None:
            raise TraceError(
                f"{self.rule.source}: {self.rule.name} returns {wrong}; a primitive of arrays returns real numbers"
            )
        if len(arrays) == 1:
            out[...] = arrays[0]
            return
        start = 0
        for a in arrays:
            out[start : start + a.size].reshape(a.shape)[...] = a
            start += a.size

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


def fitting_rule(entries: Any, args: Any) -> Any:
    """The body whose annotations fit the arguments, the one with the most annotations first; None without one."""
    fits = [(wanted, body) for wanted, body in entries if all(map(_fits, wanted, args))]
    return max(fits, key=lambda entry: sum(map(bool, entry[0])), default=(None, None))[1]


def _fits(wanted: Any, value: Any) -> bool:
    if isinstance(wanted, type):
        return isinstance(value, wanted)
    shape, code = getattr(value, "shape", ()), getattr(value, "dtype", np.dtype(float))
    if wanted == "array":
        return shape != ()
    is_number = shape == () and not isinstance(value, (dict, list, tuple))
    is_complex = isinstance(value, complex) or np.dtype(code).kind == "c"
    return wanted == "" or (is_number and is_complex == (wanted == "complex"))


def takes_whole(rule: Rule, args: Any) -> bool:
    """Whether a rule is for these arguments as a whole, rather than number by number."""
    body = rule.body if isinstance(rule.body, dict) else {}
    if "shapes" in body:
        return True
    return any(fitting_rule(body.get(key, ()), args) is not None for key in WHOLE)


def whole_kinds(kinds: Any) -> bool:
    """Whether the annotations of a rule's body speak of arrays or structures."""
    return any(kind == "array" or isinstance(kind, type) for kind in kinds)


OWN = frozenset({"opaque", "shapes"})  # what a rule holds of its function beside bodies of derivatives
WHOLE = ("whole pullback", "whole pushforward")

pulled_through_site = Seam("the cotangents of a call with arrays")
pushed_through_site = Seam("the tangents of a call with arrays")
