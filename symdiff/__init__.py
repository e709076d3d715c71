"""symdiff: derivatives of plain NumPy functions that you can read, run and keep."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from symdiff import special
from symdiff.api.declaring import Array, Complex, Real, diffrule, primitive
from symdiff.api.transforms import (
    derivative,
    grad,
    hessian,
    hvp,
    jacobian,
    jvp,
    taylor,
    trace,
    value_and_grad,
    vjp,
    vmap,
    wirtinger,
)
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
from symdiff.ir.graph import Graph
from symdiff.rulebooks.book import Rulebook
from symdiff.rulebooks.rule import Rule
from symdiff.tracing.trace import Spec
from symdiff.vocabulary.seams import wire_seams
from symdiff.vocabulary.structures import by_path, register, update
from symdiff.vocabulary.version import __version__

if TYPE_CHECKING:
    from symdiff.exporting.files import export
    from symdiff.inspection.checking import check_grads
    from symdiff.inspection.costing import cost
    from symdiff.inspection.explaining import explain
    from symdiff.inspection.pictures.plotting import plot
    from symdiff.inspection.sympy_functions import lambdify
    from symdiff.rulebooks.checking import check_rules
    from symdiff.rulebooks.importing import load_rules

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
    "lambdify",
    "load_rules",
    "plot",
    "primitive",
    "register",
    "special",
    "taylor",
    "trace",
    "update",
    "value_and_grad",
    "vjp",
    "vmap",
    "wirtinger",
]

# Imported when they are asked for: a fifth of the time that importing the rest takes.
_LATER = {
    "check_grads": "inspection.checking",
    "check_rules": "rulebooks.checking",
    "cost": "inspection.costing",
    "explain": "inspection.explaining",
    "export": "exporting.files",
    "lambdify": "inspection.sympy_functions",
    "load_rules": "rulebooks.importing",
    "plot": "inspection.pictures.plotting",
}
wire_seams({
    "the bars of a cost": "inspection.pictures.plotting",
    "the picture of a graph": "inspection.pictures.diagrams",
    "a node as a SymPy symbol": "inspection.expressions",
    "a binding as a SymPy expression": "inspection.expressions",
    "common subexpressions of a graph by SymPy": "inspection.matrix_expressions",
    "the outputs of a graph as SymPy expressions": "inspection.matrix_expressions",
    "a graph of SymPy expressions": "inspection.from_sympy",
    "a function of SymPy expressions": "inspection.sympy_functions",
    "the value of a graph, binding by binding": "ir.evaluating",
    "a graph in a running trace": "api.expressions",
    "a call of a function with a rule": "tracing.recording",
    "the cotangents of a call with arrays": "differentiation.ruled",
    "the tangents of a call with arrays": "differentiation.ruled",
    "the tangents of a loop": "differentiation.looping",
    "the cotangents of a loop": "differentiation.looping",
    "the slopes of values of a matrix": "differentiation.spectral",
    "the reading form of a graph": "inspection.reading.display",
    "the reading form of a derivative": "inspection.reading.display",
    "the page of a graph": "inspection.reading.display",
    "the page of a derivative": "inspection.reading.display",
    "the cost of a derivative": "inspection.costing",
    "the file of a derivative": "exporting.files",
    "a file on the disk": "exporting.files",
})  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'symdiff' has no attribute {name!r}")
    globals()[name] = getattr(import_module(f"symdiff.{_LATER[name]}"), name)
    return globals()[name]


def __dir__() -> list[str]:
    return __all__
