"""Calls of an object over points straight to a batch kernel: what Python does for a call costs more than some hundred points.

Assumes a kernel over contiguous arrays. Guarantees what a `Machine` does: other arguments than those, large batches and outputs
that overlap an input go the long way, with nothing written; and that other threads run while the kernel takes longer than a
switch between them.
"""

import math
from typing import Any

from symdiff.lowering.program import Program
from symdiff.runtime.fastcall import Machine, Points
from symdiff.vocabulary.ops import bytes_of_code

_SWITCHED = 10_000  # nanoseconds of work from which on other threads may run


class BatchCall(Machine):
    """The function that Python calls over a kernel, which lives as long as this."""

    def __init__(self, program: Program, points: Points, kernel: Any, cost: float) -> None:
        """`kernel.address` is that of a function of `llvm_batch`, of which a point takes `cost` nanoseconds."""
        self.kernel = kernel
        text = _passing(program, points.axes, f"inttoptr (i64 {kernel.address} to ptr)", int(_SWITCHED / cost))
        super().__init__(program, text, 1, apart=True, passes="none", points=points)


def _passing(program: Program, axes: list[int | None], kernel: str, switched: int) -> str:
    """`kernel(addresses, count)`: the call, steps packed; without Python's lock where there are more points than `switched`."""
    leaves, steps = program.leaves, list[str | int]()
    for leaf, axis in zip(leaves, axes, strict=True):
        own = bytes_of_code(leaf.dtype)
        steps.append(0 if axis is None else own if axis == -1 else own * math.prod(leaf.shape))
    lines = [f"  %data = alloca [{len(leaves)} x ptr]"]
    for k, (leaf, axis) in enumerate(zip(leaves, axes, strict=True)):
        lines += [f"  %d{k} = getelementptr ptr, ptr %data, i64 {k}", f"  store ptr %a{k}, ptr %d{k}"]
        for place in range(len(leaf.shape)):
            step = bytes_of_code(leaf.dtype) * math.prod(leaf.shape[place + 1 :])
            lines += [f"  %n{k}.{place} = mul i64 %count, {step}"] if axis == -1 else []
            steps.append(f"%n{k}.{place}" if axis == -1 else step)
    lines.append(f"  %steps = alloca [{len(steps)} x i64]")
    for k, every in enumerate(steps):
        lines += [f"  %s{k} = getelementptr i64, ptr %steps, i64 {k}", f"  store i64 {every}, ptr %s{k}"]
    call = f"  call void {kernel}(ptr %data, ptr %steps, i64 0, i64 %count)"
    parameters = ", ".join(f"ptr %a{k}" for k in range(len(leaves)))
    return "\n".join([
        f"define private void @kernel({parameters}, i64 %count) {{", *lines, f"  %is = icmp sgt i64 %count, {switched}",
        "  br i1 %is, label %long, label %short", "short:", call, "  ret void", "long:",
        "  %state = call ptr @PyEval_SaveThread()", call, "  call void @PyEval_RestoreThread(ptr %state)", "  ret void", "}",
    ])  # fmt: skip
