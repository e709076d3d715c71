"""Operations of value and gradient, symdiff's and those of other packages' generated code, by one rule.

Assumes generated Python, or CasADi's list of instructions. Guarantees one rule, that of `sd.cost`: one operation is one of
+ - * / negation, comparison, select or function call; an integer power counts its multiplications. Generated Python is run and
checked before it is counted. Refuses syntax whose cost the rule does not say.
"""

import ast
import importlib.util
import inspect
import math
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import symdiff as sd
from benchmarks import formulas, tables
from benchmarks.calls import check, flat
from benchmarks.cases import BOTH, GRADIENT, JACOBIAN, Case, cases
from benchmarks.contenders import symbols
from benchmarks.words import scalar_words

EXPLAINED = """Counted by one rule: one operation is one of + - * / negation, comparison, select, function call; an
integer power counts its multiplications. `sd.cost` counts symdiff's; all partials, so a Jacobian for the heart systems. The
others are the packages' generated code for value and gradient together."""

ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div)
CONVERSIONS = {"array", "asarray", "float64", "zeros", "empty", "ndarray"}


def multiplications(exponent: int) -> int:
    """Those of an integer power by squaring."""
    n = abs(exponent)
    return max(0, n.bit_length() + n.bit_count() - 2) + (exponent < 0)


def operations(source: str) -> int:
    """The operations of one generated Python function."""
    function = next(node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef))
    return sum(_cost(node) for statement in function.body for node in ast.walk(statement))


def _cost(node: ast.AST) -> int:
    if isinstance(node, ast.BinOp):
        if isinstance(node.op, ast.Pow):
            return multiplications(_integer(node.right))
        if isinstance(node.op, ARITHMETIC):
            return 1
        raise ValueError(f"no cost is known for {ast.unparse(node)}")
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
        return 0 if name in CONVERSIONS else 1
    if isinstance(node, ast.UnaryOp):
        return int(isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant))
    return int(isinstance(node, (ast.Compare, ast.IfExp)))


def _integer(node: ast.AST) -> int:
    value = ast.literal_eval(node)
    if value != int(value):
        raise ValueError(f"no cost is known for the power {value}")
    return int(value)


def _values_and_partials(case: Case, words: Any, names: list[Any]) -> list[Any]:
    (value,) = symbols.outputs(case, words, names)
    return [*(value.diff(name) for name in names), value]


def wrenfold(case: Case) -> str:
    """The Python that wrenfold generates."""
    import wrenfold as wf
    from wrenfold import sym, type_info

    described = wf.FunctionDescription(case.function)
    number = type_info.ScalarType(type_info.NumericType.Float)
    names = [described.add_input_argument(f"x{i}", number) for i in range(case.inputs)]
    for i, answer in enumerate(_values_and_partials(case, scalar_words(sym), names)):
        described.add_output_argument(f"y{i}", False, answer)
    return wf.PythonGenerator().generate(wf.transpile(described))  # type: ignore[no-any-return]


def symforce(case: Case) -> str:
    """The Python that SymForce generates."""
    import symforce.symbolic as sf
    from symforce import codegen
    from symforce.codegen.codegen_config import ZeroEpsilonBehavior
    from symforce.values import Values

    names = [sf.Symbol(f"x{i}") for i in range(case.inputs)]
    answers = _values_and_partials(case, scalar_words(sf), names)
    made = codegen.Codegen(
        inputs=Values(**{str(name): name for name in names}),
        outputs=Values(**{f"y{i}": answer for i, answer in enumerate(answers)}),
        config=codegen.PythonConfig(zero_epsilon_behavior=ZeroEpsilonBehavior.ALLOW),
        name=case.function,
    )
    with tempfile.TemporaryDirectory() as folder:
        files = made.generate_function(output_dir=folder).generated_files
        return next(text for file in files if "def " in (text := Path(file).read_text(encoding="utf-8")))


def sympy(case: Case) -> str:
    """The Python of `lambdify(cse=True)`."""
    return inspect.getsource(symbols.lambdified(case))


def casadi(case: Case) -> int:
    """CasADi's instructions that are neither inputs, outputs nor constants."""
    import casadi as ca

    x = ca.SX.sym("x", case.inputs)
    function = ca.Function("f", [x], symbols.casadi_answers(case, x, derivative=True))
    kinds = [function.instruction_id(i) for i in range(function.n_instructions())]
    return sum(kind not in (ca.OP_INPUT, ca.OP_OUTPUT, ca.OP_CONST) for kind in kinds)


PACKAGES: dict[str, Callable[[Case], str | int]] = {
    "wrenfold": wrenfold,
    "symforce": symforce,
    "sympy": sympy,
    "casadi": casadi,
}


def checked(source: str, case: Case) -> str:
    """The same source, after its answers at the case's point were found right."""
    names = {**vars(math), "np": np}
    exec(source, names)
    function = next(node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef))
    answers = names[function](*flat(case.args).tolist())
    check(f"generated code of {case.name}", flat(answers), case.expected())
    return source


def _counted(package: str, case: Case) -> str:
    if case.asks == JACOBIAN or case.is_complex or case.complex_of_real or case.function == "real_through_complex":
        return ""
    both = replace(case, asks=BOTH, formula=formulas.cubic_with_value) if case.asks == GRADIENT else case
    made = PACKAGES[package](both)
    return str(made if isinstance(made, int) else operations(checked(made, both)))


def operation_table() -> str:
    """A Markdown table: operations of value, derivative and both, and of both by others."""
    present = [name for name in PACKAGES if importlib.util.find_spec(name)]
    rows = []
    for case in cases(quick=True, kinds=("point", "unrolled")):
        if case.kind == "unrolled" and case.n != 10:
            continue
        argnums = case.wrt if len(case.wrt) > 1 else case.wrt[0]
        cost = sd.cost(sd.grad(case.f(), argnums) if len(case.wrt) > 1 else case.f(), *case.args)
        counts = [str(part.operations) for part in (cost.value, cost.derivative, cost.both)]
        rows.append([case.name, *counts, f"{cost.ratio:.2f}", *(_counted(name, case) for name in present)])
    return tables.table(["problem", "value", "derivative", "both", "both to value", *present], rows)
