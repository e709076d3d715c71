"""Where the parts of symdiff stand that tests look into: no other test names an inner module.

`from inside import Graph, engine` gives names and modules alike, imported when they are asked for, since some need packages
that are optional.
"""

from importlib import import_module

NAMES = {
    "symdiff.exporting.cli": "main",
    "symdiff.exporting.commands": "KINDS",
    "symdiff.lowering.arrays.fusing": "Clear Kernel",
    "symdiff.codegen.cuda.points": "point_kernel",
    "symdiff.codegen.cuda.wide": "wide_kernel",
    "symdiff.codegen.llvm.batch": "BatchModule",
    "symdiff.codegen.llvm.scalar": "point_function",
    "symdiff.codegen.llvm.functions": "FUNCTIONS llvm_vector_functions",
    "symdiff.codegen.math.lines": "LIBM PAIRS VECTORS",
    "symdiff.runtime.engine": "machine_fuses machine_lanes",
    "symdiff.runtime.fastcall": "ARGUMENTS Machine",
    "symdiff.runtime.kernels": "Kernels",
    "symdiff.runtime.memory": "USUAL largest_cache",
    "symdiff.runtime.vectorcall": "direct_vectorcall with_vectorcall without_vectorcall",
    "symdiff.lowering.checking": "check_program",
    "symdiff.lowering.program": "Input Output Program program_content",
    "symdiff.lowering.walks": "live_only",
    "symdiff.lowering.sharing.sharing": "share",
    "symdiff.codegen.source": "MISS Source",
    "symdiff.codegen.expressions": "ATOM emit_statements leaf_texts parenthesis_levels",
    "symdiff.codegen.formulas": "FORMULAS formula_program",
    "symdiff.codegen.names": "Names",
    "symdiff.inspection.reading.equations": "Equation",
    "symdiff.inspection.reading.formula": "Formula",
    "symdiff.inspection.reading.names": "latex_name unicode_name",
    "symdiff.inspection.reading.naming": "input_names",
    "symdiff.inspection.reading.reading": "formula_of",
    "symdiff.inspection.exact": "exact_multiple",
    "symdiff.inspection.reading.written": "Writer cell_name",
    "symdiff.api.functions": "Function Plain",
    "symdiff.vocabulary.heads": "HEADS Static",
    "symdiff.vocabulary.literals": "Shown c_comment_literal docstring_literal identifier literal message_literal printable",
    "symdiff.lowering.numbering": "number",
    "symdiff.vocabulary.ops": "OPS dtype_of_code",
    "symdiff.vocabulary.traits": "TRAITS operations",
    "symdiff.differentiation.series": "series_derivative",
    "symdiff.rulebooks.declared": "rules_in_force",
    "symdiff.pipeline": "Options fused_of kernel_of plan_of program_of source_of",
    "symdiff.rulebooks.structural": "structural_rules",
    "symdiff.ir.branches": "branches_of",
    "symdiff.ir.arrays.algebra": "Arrays",
    "symdiff.differentiation.mapping": "loops_as_arrays",
    "symdiff.differentiation.vectorizing": "vectorize_graph",
    "symdiff.ir.building": "Builder",
    "symdiff.ir.graph": "Derivation GraphOutput check_graph note_derivation",
    "symdiff.ir.loops": "Loop Place Stack counted_rounds trimmed_bindings",
    "symdiff.tracing.loops.leaving": "leave_by_break",
    "symdiff.vocabulary.extents": "broadcast_extents cells_of_extents extent numbers reshaped_extents sliced_extent solved",
    "symdiff.ir.evaluating": "applied binding_values",
    "symdiff.inspection.expressions": "build_sympy latex",
    "symdiff.inspection.reading.printing": "latex_of",
    "symdiff.inspection.sympy_heads": "ROWS",
    "symdiff.inspection.sympy_text": "sympy_of_text",
    "symdiff.ir.node": "ArrayConstant Constant Node",
    "symdiff.ir.hidden": "SMALL hidden_of",
    "symdiff.inspection.pictures.layering": "shown_by_dot shown_layers",
    "symdiff.inspection.pictures.sampling": "broken_intervals",
    "symdiff.simplification.equalities": "Thinness",
    "symdiff.simplification.conditions": "Conditions",
    "symdiff.simplification.facts": "Facts",
    "symdiff.simplification.rewriting": "rewritten",
    "symdiff.simplification.saturation": "Saturation",
    "symdiff.rulebooks.columns": "formula_locus rule_column",
    "symdiff.rulebooks.rewrites": "COMPLEX CONSTANTS rewrite_rules rewrites_by_operation",
    "symdiff.rulebooks.precision": "OPERATIONS",
    "symdiff.rulebooks.rule": "evaluate_formula",
    "symdiff.rulebooks.importing": "formulas_by_name load_rules our_rule",
    "symdiff.simplification.interning": "Numbered Values",
    "symdiff.ir.invariants": "binding_with check_binding check_bindings",
    "symdiff.rulebooks.julia": "MAX_BYTES read_julia",
    "symdiff.rulebooks.checking": "check_rule exact_formula formula_condition rule_primal",
    "symdiff.rulebooks.book": (
        "REASONS Rulebook default_rules distributions_followed functions_outside functions_without_rule operation_facts"
    ),
    "symdiff.tracing.unrolling.scalarizing": "scalarize",
    "symdiff.rulebooks.tables": "formula_template parse_formula",
    "symdiff.inspection.functions": "shown_functions",
    "symdiff.tracing.values.standing": "STANDING stands_for",
    "symdiff.tracing.values.tracer": "Tracer",
}
MODULES = {
    "batch": "symdiff.runtime.batch",
    "branching": "symdiff.api.compiled",
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
    "transforming": "symdiff.differentiation.transforming",
}
_PLACES = {name: module for module, names in NAMES.items() for name in names.split()}


def __getattr__(name):
    if name in MODULES:
        return import_module(MODULES[name])
    if name not in _PLACES:
        raise AttributeError(f"tests look for {name}, and inside.py does not know where it is")
    return getattr(import_module(_PLACES[name]), name)
