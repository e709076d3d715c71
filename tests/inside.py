"""Where the parts of symdiff stand that tests look into: no other test names an inner module.

`from inside import Graph, engine` gives names and modules alike, imported when they are asked for, since some need packages
that are optional.
"""

from importlib import import_module

NAMES = {
    "symdiff.exporting.cli": "KINDS main",
    "symdiff.lowering.arrays.fusing": "Kernel",
    "symdiff.codegen.cuda.points": "point_kernel",
    "symdiff.codegen.cuda.wide": "wide_kernel",
    "symdiff.codegen.llvm.batch": "BatchModule",
    "symdiff.codegen.llvm.functions": "FUNCTIONS functions",
    "symdiff.codegen.math.lines": "LIBM PAIRS VECTORS",
    "symdiff.runtime.engine": "fused lanes",
    "symdiff.runtime.fastcall": "ARGUMENTS Machine",
    "symdiff.runtime.kernels": "Kernels",
    "symdiff.runtime.memory": "USUAL largest",
    "symdiff.runtime.vectorcall": "direct plain_class with_vectorcall",
    "symdiff.lowering.program": "Input Output Program content_of",
    "symdiff.lowering.walks": "live_only",
    "symdiff.lowering.sharing.sharing": "share",
    "symdiff.codegen.source": "MISS",
    "symdiff.inspection.display": "graph_latex graph_text",
    "symdiff.api.functions": "Function Plain",
    "symdiff.vocabulary.heads": "HEADS",
    "symdiff.vocabulary.literals": "Shown docstring formatted identifier literal printable starred",
    "symdiff.lowering.numbering": "number",
    "symdiff.vocabulary.ops": "OPS dtype_of",
    "symdiff.pipeline": "Options fused_of kernel_of plan_of program_of source_of",
    "symdiff.rulebooks.structural": "structural_rules",
    "symdiff.ir.branches": "branches_of",
    "symdiff.ir.building": "Builder",
    "symdiff.ir.evaluating": "applied values_of",
    "symdiff.inspection.expressions": "build latex",
    "symdiff.ir.node": "Node",
    "symdiff.ir.hidden": "SMALL hidden_of",
    "symdiff.simplification.implications": "Implications",
    "symdiff.rulebooks.importing": "formulas_by_name load_rules our_rule",
    "symdiff.simplification.interning": "Numbered Values",
    "symdiff.ir.invariants": "check_binding rebound",
    "symdiff.rulebooks.julia": "MAX_BYTES read_julia",
    "symdiff.rulebooks.checking": "check_rule condition exactly primal_of",
    "symdiff.rulebooks.book": "REASONS Rulebook default_rules without_derivative",
    "symdiff.tracing.unrolling.scalarizing": "scalarize",
    "symdiff.rulebooks.tables": "lower_formula parse_formula",
    "symdiff.tracing.values.tracer": "Tracer",
}
MODULES = {
    "batch": "symdiff.runtime.batch",
    "branching": "symdiff.api.branching",
    "building": "symdiff.ir.building",
    "cache": "symdiff.runtime.cache",
    "cloning": "symdiff.tracing.following.cloning",
    "engine": "symdiff.runtime.engine",
    "following": "symdiff.tracing.following.following",
    "gufunc": "symdiff.runtime.gufunc",
    "julia": "symdiff.rulebooks.julia",
    "kernels": "symdiff.runtime.kernels",
    "llvm": "symdiff.codegen.llvm.scalar",
    "llvm_parts": "symdiff.codegen.llvm.parts",
    "monomials": "symdiff.lowering.sharing.monomials",
    "paths": "symdiff.tracing.branches.paths",
    "pipeline": "symdiff.pipeline",
    "pool": "symdiff.runtime.pool",
    "structures": "symdiff.vocabulary.structures",
    "trace": "symdiff.tracing.trace",
}
_PLACES = {name: module for module, names in NAMES.items() for name in names.split()}


def __getattr__(name):
    if name in MODULES:
        return import_module(MODULES[name])
    if name not in _PLACES:
        raise AttributeError(f"tests look for {name}, and inside.py does not know where it is")
    return getattr(import_module(_PLACES[name]), name)
