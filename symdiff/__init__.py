"""symdiff: derivatives of plain NumPy functions that you can read, run and keep."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from symdiff import special
from symdiff.errors import (
    ArgumentError,
    BackendError,
    ExportError,
    MissingPackageError,
    NonHolomorphicError,
    OptionError,
    RuleError,
    RuleWarning,
    ShapeError,
    SymdiffError,
    TraceError,
)
from symdiff.seams import wire
from symdiff.structures import by_path, register, update
from symdiff.symbolic.declaring import Array, Complex, Real, diffrule, primitive
from symdiff.symbolic.graph import Graph
from symdiff.symbolic.rule import Rule
from symdiff.symbolic.rulebook import Rulebook
from symdiff.symbolic.tracing.trace import Spec
from symdiff.transforms import derivative, grad, hessian, hvp, jacobian, jvp, trace, value_and_grad, vjp, vmap, wirtinger
from symdiff.version import __version__

if TYPE_CHECKING:
    from symdiff.checking import check_grads
    from symdiff.costing import cost
    from symdiff.explaining import explain
    from symdiff.exporting import export
    from symdiff.symbolic.importing import load_rules
    from symdiff.symbolic.rule_checking import check_rules

__all__ = [
    "ArgumentError",
    "Array",
    "BackendError",
    "Complex",
    "ExportError",
    "Graph",
    "MissingPackageError",
    "NonHolomorphicError",
    "OptionError",
    "Real",
    "Rule",
    "RuleError",
    "RuleWarning",
    "Rulebook",
    "ShapeError",
    "Spec",
    "SymdiffError",
    "TraceError",
    "__version__",
    "by_path",
    "check_grads",
    "check_rules",
    "cost",
    "derivative",
    "diffrule",
    "explain",
    "export",
    "grad",
    "hessian",
    "hvp",
    "jacobian",
    "jvp",
    "load_rules",
    "primitive",
    "register",
    "special",
    "trace",
    "update",
    "value_and_grad",
    "vjp",
    "vmap",
    "wirtinger",
]

# Imported when they are asked for: a fifth of the time that importing the rest takes.
_LATER = {
    "check_grads": "checking",
    "check_rules": "symbolic.rule_checking",
    "cost": "costing",
    "explain": "explaining",
    "export": "exporting",
    "load_rules": "symbolic.importing",
}
wire({
    "a binding as a SymPy expression": "symbolic.expressions",
    "the outputs of a graph as SymPy expressions": "symbolic.expressions",
    "a graph of SymPy expressions": "symbolic.expressions",
    "the value of a graph, binding by binding": "symbolic.evaluating",
    "a call of a function with a rule": "symbolic.tracing.recording",
    "the LaTeX of a graph": "display",
    "the LaTeX of a derivative": "display",
    "the cost of a derivative": "costing",
    "the file of a derivative": "exporting",
    "a file on the disk": "exporting",
})  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'symdiff' has no attribute {name!r}")
    globals()[name] = getattr(import_module(f"symdiff.{_LATER[name]}"), name)
    return globals()[name]


def __dir__() -> list[str]:
    return __all__
