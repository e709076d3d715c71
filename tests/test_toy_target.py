"""A target in one file, made from what ARCHITECTURE.md says about adding one: Julia, at one point and over many.

Julia runs the text where there is one; a small evaluator of what the target prints does everywhere.
"""

import math
import shutil
import subprocess

import numpy as np
import pytest
from inside import FORMULAS, OPS, Names, Plain, Source, Spelled, emit_statements, formula_program, parenthesis_levels
from inside import plan_of as planned

import symdiff as sd

SIGNS = {"add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "div": "{0} / {1}", "neg": "-{0}"}
CALLS = {
    **{op: f"({{0}} {sign} {{1}})" for op, sign in zip("lt le gt ge eq ne".split(), "< <= > >= == !=".split(), strict=True)},
    **{"and": "({0} & {1})", "or": "({0} | {1})", "xor": "xor({0}, {1})", "not": "!({0})", "select": "ifelse({0}, {1}, {2})"},
    **{
        op: f"{op}({{0}})"
        for op in "exp sin cos tan sqrt log log1p exp2 expm1 abs floor isnan isinf isfinite sinh cosh tanh".split()
    },
    **{"pow": "pow({0}, {1})", "fmod": "rem({0}, {1})", "copysign": "copysign({0}, {1})"},
}


def spelled(program, position):
    """A node as a template, how tightly it binds, and how tightly its operands must."""
    node = program.nodes[position]
    if node.op in SIGNS:
        return Spelled(SIGNS[node.op], *parenthesis_levels(node.op, len(node.operands), SIGNS[node.op]))
    template = CALLS.get(node.op)
    if template is None and node.op in FORMULAS:
        template = f"{node.op}_({', '.join(f'{{{k}}}' for k in range(OPS[node.op].arity))})"
    if template is None or node.dtype not in "d?":
        raise sd.BackendError(f"{node.op} ({node.dtype}) is not part of Julia's target")
    return Spelled(template)


def number(node):
    value = node.params
    return "NaN" if value != value else str(value).lower().replace("inf", "Inf")


def body(program, read, names):
    return emit_statements(program, read, number, spelled, names)


def lacking(program, found):
    """The functions that programs need and Julia lacks, each after those that it calls, by their formulas."""
    for node in program.nodes:
        if node.op in FORMULAS and node.op not in CALLS and node.op not in found:
            row, _ = formula_program(node.op, "d")
            lacking(row, found)
            names = [leaf.name for leaf in row.inputs]
            lines, values = body(row, lambda place, _, names=names: names[place], Names(names, plain=True))
            found[node.op] = function(f"{node.op}_", names, lines, values[row.outputs[0].value])
    return found


def function(name, parameters, lines, result):
    return [f"function {name}({', '.join(parameters)})", *(f"    {line}" for line in lines), f"    return {result}", "end"]


def indexed(name, shape, cell, axis):
    """A cell of an array, whose points lie along its first or last axis; Julia counts from 1."""
    places = [str(k + 1) for k in np.unravel_index(cell, shape)] if shape else []
    places = ["k", *places] if axis == 0 else [*places, "k"] if axis == -1 else places
    return f"{name}[{', '.join(places)}]" if places else name


def emit(plan, *, name, style="export", header=(), doc="", result=None):
    """The plan as a Julia function, which fills its results, its last arguments; a plan of many points is a loop over them."""
    program, many = plan.program, plan.kind == "batch"
    names = Names(["k", *OPS, *(f"{f}_" for f in FORMULAS), "end", "function", "return", "for"], plain=True)
    entry, leaves = names.fresh(name), program.leaves
    axes = [*plan.in_axes, *plan.out_axes] if many else [None] * len(leaves)
    arrays = [names.fresh(leaf.name) for leaf in leaves]
    lines, values = body(program, lambda p, cell: indexed(arrays[p], leaves[p].shape, cell, axes[p]), names)
    for place, output in enumerate(program.outputs, len(program.inputs)):
        for cell, value in enumerate(output.cells):
            target = indexed(arrays[place], output.shape, cell, axes[place])
            lines.append(f"{target if '[' in target else f'{target}[1]'} = {values[value]}")
    if many:
        first = next(k for k, axis in enumerate(axes) if axis is not None)
        size = f"size({arrays[first]}, {1 if axes[first] == 0 else len(leaves[first].shape) + 1})"
        lines = [f"for k in 1:{size}", *(f"    {line}" for line in lines), "end"]
    parts = [*lacking(program, {}).values(), function(entry, arrays, lines, "nothing")]
    comments = [f"# {line}" for line in [*header, *doc.splitlines()]]
    return Source("\n".join([*comments, *("\n".join([*part, ""]) for part in parts)]), entry, "julia")


class Cells(np.ndarray):
    """An array of Julia's: it counts from 1, and a number is its first cell."""

    def __getitem__(self, key):
        return super().__getitem__(tuple(np.atleast_1d(key) - 1) if self.ndim else ())

    def __setitem__(self, key, value):
        super().__setitem__(tuple(np.atleast_1d(key) - 1) if self.ndim else (), value)


def ran(source, args, shapes):
    """The results of a text: of Julia where it is there, else of the text as Python, whose expressions are spelled alike."""
    if shutil.which("julia"):
        given = ", ".join(repr(a) if np.ndim(a) == 0 else f"reshape({np.ravel(a, 'F').tolist()}, {np.shape(a)})" for a in args)
        made = ", ".join(f"r{k}" for k in range(len(shapes)))
        text = [source.text, "pow(x, y) = x^y", *(f"r{k} = zeros{s or '(1)'}" for k, s in enumerate(shapes))]
        text += [f"{source.entry}({given}, {made})", f"foreach(r -> println(join(vec(r), ' ')), ({made},))"]
        out = subprocess.run(["julia", "-e", "\n".join(text)], capture_output=True, text=True, check=True).stdout
        return [np.array(row.split(), float).reshape(s, order="F") for row, s in zip(out.splitlines(), shapes, strict=True)]
    lines = [line for line in source.text.splitlines() if line.strip() != "end"]
    lines = [f"{line}:" if line.split()[:1] and line.split()[0] in ("function", "for") else line for line in lines]
    text = "\n".join(lines).replace("function ", "def ").replace("in 1:size", "in rounds").replace("!(", "not (")
    known = {name: getattr(np, name) for name in "exp sin cos log1p floor isnan isfinite abs copysign".split()}
    known |= {"ifelse": lambda c, a, b: a if c else b, "rem": np.fmod, "xor": lambda a, b: a != b, "nothing": None}
    known |= {"Inf": math.inf, "NaN": math.nan, "rounds": lambda a, axis: range(1, a.shape[axis - 1] + 1)}
    exec(text, known)
    results = [np.zeros(s).view(Cells) for s in shapes]
    with np.errstate(all="ignore"):
        known[source.entry](*(float(a) if np.ndim(a) == 0 else a.view(Cells) for a in args), *results)
    return [r.view(np.ndarray) for r in results]


def test_one_point():
    df = sd.value_and_grad(lambda x, p: np.sin(x[0]) * np.exp(-x[1] * p) + np.logaddexp(x[0], p), (0, 1))
    x, p = np.array([0.3, -1.2]), 0.7
    found = ran(emit(planned(df.program(x, p), "point"), name="f"), (x, p), [(), (2,), ()])
    value, slopes = df(x, p)
    np.testing.assert_allclose(found[0], value, rtol=1e-15)
    np.testing.assert_allclose(np.hstack([found[1], found[2]]), np.hstack([slopes[0], slopes[1]]), rtol=1e-14)


def test_many_points_and_what_julia_lacks():
    f = Plain(lambda x, y: [np.remainder(x[0], y) + x[1], np.floor_divide(y, x[0]), np.sign(y) * np.maximum(x[0], x[1])])
    x, y = np.array([[3.5, -2.0], [-7.25, 2.0], [np.nan, 1.0]]), np.array([2.0, -3.0, 1.0])
    plan = planned(f.program(x[0], y[0]), "batch", (0, -1), (0, 0, 0))
    source = emit(plan, name="f", header=["Made by a test."])
    assert "for k in 1:size(x, 1)" in source.text and "mod_(x[k, 1], y[k])" in source.text
    for result, wanted in zip(ran(source, (x, y), [(3,)] * 3), zip(*map(f, x, y), strict=True), strict=True):
        np.testing.assert_array_equal(result, wanted)


def test_what_it_cannot_say_is_refused():
    with pytest.raises(sd.BackendError, match="atan2"):
        emit(planned(Plain(np.arctan2).program(0.3, 0.4), "point"), name="f")
