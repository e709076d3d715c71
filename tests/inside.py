"""Where the parts of symdiff stand that tests look into: no other test names an inner module.

`from inside import Graph, engine` gives names and modules alike, imported when they are asked for, since some need packages
that are optional.
"""

from importlib import import_module

NAMES = {
    "symdiff.cli": "KINDS main",
    "symdiff.codegen.arrays.fusing": "Kernel",
    "symdiff.codegen.emission.cuda_points": "point_kernel",
    "symdiff.codegen.emission.cuda_wide": "wide_kernel",
    "symdiff.codegen.emission.llvm_batch": "BatchModule",
    "symdiff.codegen.emission.llvm_functions": "FUNCTIONS functions",
    "symdiff.codegen.emission.llvm_lines": "LIBM PAIRS VECTORS",
    "symdiff.codegen.native.engine": "fused lanes",
    "symdiff.codegen.native.fastcall": "ARGUMENTS Machine",
    "symdiff.codegen.native.kernels": "Kernels",
    "symdiff.codegen.native.memory": "USUAL largest",
    "symdiff.codegen.native.vectorcall": "direct plain_class with_vectorcall",
    "symdiff.codegen.program": "Input Instr Output Program content_of live_only",
    "symdiff.codegen.sharing": "share",
    "symdiff.codegen.source": "MISS",
    "symdiff.display": "graph_latex graph_text",
    "symdiff.functions": "Function Plain",
    "symdiff.heads": "HEADS",
    "symdiff.literals": "Shown docstring formatted identifier literal printable starred",
    "symdiff.numbering": "number",
    "symdiff.ops": "OPS dtype_of",
    "symdiff.pipeline": "Options fused_of kernel_of plan_of program_of source_of",
    "symdiff.symbolic.arrays.rules": "structural_rules",
    "symdiff.symbolic.branches": "branches_of",
    "symdiff.symbolic.building": "Builder",
    "symdiff.symbolic.evaluating": "values_of",
    "symdiff.symbolic.expressions": "build latex",
    "symdiff.symbolic.graph": "Binding Var",
    "symdiff.symbolic.hidden": "SMALL hidden_of",
    "symdiff.symbolic.implications": "Implications",
    "symdiff.symbolic.importing": "formulas_by_name load_rules our_rule",
    "symdiff.symbolic.interning": "Numbered Values",
    "symdiff.symbolic.invariants": "check_binding rebound",
    "symdiff.symbolic.julia": "MAX_BYTES identifier read_julia",
    "symdiff.symbolic.rule_checking": "check_rule condition exactly primal_of",
    "symdiff.symbolic.rulebook": "REASONS Rulebook default_rules without_derivative",
    "symdiff.symbolic.scalarizing": "scalarize",
    "symdiff.symbolic.tables": "lower_formula parse_formula",
    "symdiff.symbolic.tracing.tracer": "Tracer",
}
MODULES = {
    "batch": "symdiff.codegen.native.batch",
    "branching": "symdiff.branching",
    "building": "symdiff.symbolic.building",
    "cache": "symdiff.codegen.native.cache",
    "cloning": "symdiff.symbolic.tracing.cloning",
    "engine": "symdiff.codegen.native.engine",
    "following": "symdiff.symbolic.tracing.following",
    "gufunc": "symdiff.codegen.native.gufunc",
    "kernels": "symdiff.codegen.native.kernels",
    "llvm": "symdiff.codegen.emission.llvm",
    "llvm_parts": "symdiff.codegen.emission.llvm_parts",
    "monomials": "symdiff.codegen.monomials",
    "paths": "symdiff.symbolic.tracing.paths",
    "pipeline": "symdiff.pipeline",
    "pool": "symdiff.codegen.native.pool",
    "structures": "symdiff.structures",
    "trace": "symdiff.symbolic.tracing.trace",
}
_PLACES = {name: module for module, names in NAMES.items() for name in names.split()}


def __getattr__(name):
    if name in MODULES:
        return import_module(MODULES[name])
    if name not in _PLACES:
        raise AttributeError(f"tests look for {name}, and inside.py does not know where it is")
    return getattr(import_module(_PLACES[name]), name)
