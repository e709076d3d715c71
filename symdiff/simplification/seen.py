"""A function's bindings as the sweeps see them, with what is known of the values: selects at equalities, rewrites, quotients
at common zeros, sums of exponentials.

Assumes bindings in order. Guarantees the same values; what the user wrote is computed as it stands.
"""

from collections.abc import Iterable
from functools import partial

from symdiff.ir.building import Builder
from symdiff.ir.node import Atom, Node
from symdiff.rulebooks.calls import kink_by_rule
from symdiff.simplification.equalities import simplified_selects
from symdiff.simplification.facts import Facts
from symdiff.simplification.piecewise import flattened
from symdiff.simplification.removable import regular
from symdiff.simplification.rewriting import rewritten
from symdiff.simplification.shifting import shifted
from symdiff.simplification.spectra import spectral


def known_bindings(bindings: list[Node], builder: Builder, wrt: Iterable[Atom], order: int = 2, whole: bool = False) -> Facts:
    """The facts of the bindings that take the place of these, which they hold, for derivatives up to an order, all of these
    themselves if `whole`; new symbols are bound on the builder."""
    facts = Facts(bindings)
    again = any(not b.primal for b in bindings)
    removing = partial(regular, wrt=wrt, order=order, again=again, whole=whole)
    flat = [flattened] if any(map(kink_by_rule, bindings)) else []
    for rewrite in (spectral, rewritten, *flat, removing, partial(simplified_selects, wrt=wrt), shifted):
        found = rewrite(facts, builder)
        facts = facts if found == facts.bindings else Facts(found)
    return facts
