"""Program to LLVM IR: the inner loop of a NumPy generalised ufunc.

Assumes what NumPy hands to such loops: `args` with the addresses, `steps` as `llvm_batch` has them, `dims` that begin with
the number of points. Guarantees vectors of points at any steps, and results one after another where NumPy reduces or
accumulates.
"""

import math

from symdiff.codegen.llvm.batch import BatchModule, Layout
from symdiff.codegen.llvm.layouts import Array
from symdiff.codegen.math.lines import Lines
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
    lines = Lines(prefix="g")
    count = lines.put("load i64, ptr %dims")
    kinds = len(leaves) + sum(len(leaf.shape) for leaf in leaves)
    steps = [lines.put(f"load i64, ptr {lines.put(f'getelementptr i64, ptr %steps, i64 {k}')}") for k in range(kinds)]
    if not any(leaf.shape for leaf in leaves) and (len(program.inputs), len(program.outputs)) == (2, 1):
        _call_dependent(lines, steps[2], count)
    for name in ("last", "first"):
        if name in choices:
            _call_fitting(lines, module.arrays(choices[name]), steps, name, count)
    lines.run(f"call void @any(ptr %args, ptr %steps, i64 0, i64 {count})", "br label %end", "end:")
    lines.run(f"%cleared = call i32 @feclearexcept(i32 {exceptions})", "ret void")
    head = ["declare i32 @feclearexcept(i32)", "define void @loop(ptr %args, ptr %dims, ptr %steps, ptr %nothing) {", "entry:"]
    return "\n".join([module.text(), *head, *lines.text, "}"]) + "\n"


def _call_fitting(lines: Lines, arrays: list[Array], steps: list[str], name: str, count: str) -> None:
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
    condition = "true"
    for k, step in wanted:
        condition = lines.put(f"and i1 {condition}, {lines.put(f'icmp eq i64 {steps[k]}, {step}')}")
    lines.run(f"br i1 {condition}, label %is.{name}, label %not.{name}", f"is.{name}:")
    lines.run(f"call void @{name}(ptr %args, ptr %steps, i64 0, i64 {count})", "br label %end", f"not.{name}:")


def _call_dependent(lines: Lines, step: str, count: str) -> None:
    """Point by point where a result is the next point's input: `reduce` and `accumulate` of a function of two numbers."""
    first = lines.put("load ptr, ptr %args")
    result = lines.put(f"load ptr, ptr {lines.put('getelementptr ptr, ptr %args, i64 2')}")
    start, target = (lines.put(f"ptrtoint ptr {pointer} to i64") for pointer in (first, result))
    chained = lines.put(f"icmp eq i64 {lines.put(f'sub i64 {target}, {start}')}, {step}")
    chained = lines.put(f"or i1 {chained}, {lines.put(f'icmp eq i64 {step}, 0')}")
    lines.run(f"br i1 {chained}, label %single, label %free", "single:")
    with lines.loop(count) as i:
        following = lines.put(f"add i64 {i}, 1")
        lines.run(f"call void @any(ptr %args, ptr %steps, i64 {i}, i64 {following})")
    lines.run("br label %end", "free:")
