"""Program to LLVM IR: the inner loop of a NumPy generalised ufunc.

Assumes what NumPy hands to such loops: `args` with the addresses, `steps` as `llvm_batch` has them, `dims` that begin with
the number of points. Guarantees vectors of points at any steps, and results one after another where NumPy reduces or
accumulates.
"""

import math

from symdiff.codegen.llvm.batch import BatchModule, Layout
from symdiff.codegen.llvm.layouts import Array
from symdiff.lowering.program import Program


def loop_module(program: Program, lanes: int, fused: bool, exceptions: int) -> str:
    """The IR of `loop(args, dims, steps, nothing)`; `exceptions` are those of `fenv.h`, which it clears at its end.

    The kernels compute both branches of a choice, so that flags would tell of what is in no result.
    """
    module = BatchModule(program, lanes, fused)
    leaves = program.leaves
    choices: dict[str, list[Layout]] = {"last": [("last", 0)] * len(leaves)}
    if any(leaf.shape for leaf in leaves):
        choices["first"] = [("first" if math.prod(leaf.shape) > 1 else "any", 0) for leaf in leaves]
    choices["any"] = [("any", 0)] * len(leaves)
    for name, layouts in choices.items():
        module.add(name, module.arrays(layouts), "private")
    arrays = module.arrays(choices["any"])
    text = [
        "define void @loop(ptr %args, ptr %dims, ptr %steps, ptr %nothing) {",
        "entry:",
        "  %n = load i64, ptr %dims",
        *_steps(arrays),
    ]
    if not any(leaf.shape for leaf in leaves) and (len(program.inputs), len(program.outputs)) == (2, 1):
        text += _dependent()
    for name in ("last", "first"):
        if name in choices:
            text += _fitting(module.arrays(choices[name]), name)
    text += ["  br label %any", "any:", "  call void @any(ptr %args, ptr %steps, i64 0, i64 %n)", "  br label %end", "end:"]
    text += [f"  %cleared = call i32 @feclearexcept(i32 {exceptions})", "  ret void", "}"]
    return "\n".join([module.text(), "declare i32 @feclearexcept(i32)", *text]) + "\n"


def _steps(arrays: list[Array]) -> list[str]:
    """All steps as values: `%s<k>`."""
    count = len(arrays) + sum(len(a.shape) for a in arrays)
    lines = []
    for k in range(count):
        lines += [f"  %p{k} = getelementptr i64, ptr %steps, i64 {k}", f"  %s{k} = load i64, ptr %p{k}"]
    return lines


def _fitting(arrays: list[Array], name: str) -> list[str]:
    """A call of the kernel `name` where the steps are those of its layouts."""
    wanted = []
    place = len(arrays)
    for k, array in enumerate(arrays):
        if array.layout == "last":
            wanted.append((k, array.item))
        elif array.layout == "first":
            step = array.item
            for axis in reversed(range(len(array.shape))):
                wanted.append((place + axis, step))
                step *= array.shape[axis]
        place += len(array.shape)
    lines, condition = [], "true"
    for k, step in wanted:
        lines.append(f"  %{name}.same{k} = icmp eq i64 %s{k}, {step}")
        lines.append(f"  %{name}.all{k} = and i1 {condition}, %{name}.same{k}")
        condition = f"%{name}.all{k}"
    return [
        *lines,
        f"  br i1 {condition}, label %is.{name}, label %not.{name}",
        f"is.{name}:",
        f"  call void @{name}(ptr %args, ptr %steps, i64 0, i64 %n)",
        "  br label %end",
        f"not.{name}:",
    ]


def _dependent() -> list[str]:
    """Point by point where a result is the next point's input: `reduce` and `accumulate` of a function of two numbers."""
    return [
        "  %first = load ptr, ptr %args",
        "  %result.at = getelementptr ptr, ptr %args, i64 2",
        "  %result = load ptr, ptr %result.at",
        "  %from = ptrtoint ptr %first to i64",
        "  %to = ptrtoint ptr %result to i64",
        "  %ahead = sub i64 %to, %from",
        "  %next = icmp eq i64 %ahead, %s2",
        "  %fixed = icmp eq i64 %s2, 0",
        "  %chained = or i1 %next, %fixed",
        "  br i1 %chained, label %single, label %free",
        "single:",
        "  %i = phi i64 [0, %entry], [%j, %compute]",
        "  %more = icmp slt i64 %i, %n",
        "  br i1 %more, label %compute, label %end",
        "compute:",
        "  %j = add i64 %i, 1",
        "  call void @any(ptr %args, ptr %steps, i64 %i, i64 %j)",
        "  br label %single",
        "free:",
    ]
