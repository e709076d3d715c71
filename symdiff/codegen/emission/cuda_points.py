"""The CUDA kernel of a Program over points: each thread loads a point, calls the device function and stores its results.

Assumes a Plan for a point or a batch. Guarantees any strides, any number of points (64-bit indices, a grid-stride loop), and
one launch. Refuses what `cuda` refuses.
"""

from symdiff.codegen.emission.c_like import INDENT, parameters
from symdiff.codegen.emission.cuda import CUDA_RESERVED, LANGUAGE, argument_names, name_of, preamble
from symdiff.codegen.emission.cuda_functions import DEVICE
from symdiff.codegen.emission.names import Names
from symdiff.codegen.plan import Plan
from symdiff.codegen.program import Input, Output

BLOCK, BLOCKS = 256, 65_535  # threads of a block, and the most blocks of a launch


def point_kernel(plan: Plan, name: str, by_value: frozenset[int]) -> tuple[str, str]:
    """The text of the device function and its kernel, and the kernel's name; inputs `by_value` are numbers of the host.

    The kernel takes, for every input and then for every output, a pointer, the stride of the points (for a batch) and the
    strides of the axes of a point, all in elements; a number by value; and for a batch the number of points.
    """
    function = name_of(name)
    kernel = f"{function}_{'points' if plan.kind == 'batch' else 'point'}"
    own, arguments, targets = argument_names(plan.program, name)
    lines = LANGUAGE.function_text(plan.program, f"{DEVICE} void {function}", own, arguments, targets)
    text = [*preamble([plan.program], lines), *lines, "", *_Kernel(plan, function, kernel, by_value).lines()]
    return "\n".join(text) + "\n", kernel


class _Kernel:
    def __init__(self, plan: Plan, function: str, kernel: str, by_value: frozenset[int]) -> None:
        self.plan = plan
        self.inputs, self.outputs = plan.program.inputs, plan.program.outputs
        self.function, self.kernel = function, kernel
        self.by_value = by_value
        self.names = Names((*CUDA_RESERVED, function, kernel, "i", "j", "n", "step"))
        self.arguments = [self.names.fresh(leaf.name) for leaf in self.inputs]
        self.targets = [self.names.fresh(o.name) for o in self.outputs]
        self.steps = {name: self.names.fresh(f"{name}_step") for name in (*self.arguments, *self.targets)}

    def lines(self) -> list[str]:
        loads: list[str] = []
        stores: list[str] = []
        passed = []
        for place, (leaf, name) in enumerate(zip(self.inputs, self.arguments, strict=True)):
            if place in self.by_value:
                passed.append(name)
            elif leaf.shape == ():
                passed.append(f"{name}[{self.offset(name)}]" if self.plan.kind == "batch" else f"*{name}")
            else:
                local = self.names.fresh(f"{name}_cells")
                loads += self.cells(leaf, name, local, "{local}[{k}] = {array}[{at}];", f"{LANGUAGE.types[leaf.dtype]} ")
                passed.append(local)
        for output, name in zip(self.outputs, self.targets, strict=True):
            if output.shape == ():
                passed.append(f"&{name}[{self.offset(name)}]" if self.plan.kind == "batch" else name)
            else:
                local = self.names.fresh(f"{name}_cells")
                declared, *copied = self.cells(
                    output, name, local, "{array}[{at}] = {local}[{k}];", f"{LANGUAGE.types[output.dtype]} "
                )
                loads.append(declared)
                stores += copied
                passed.append(local)
        body = [*loads, f"{self.function}({', '.join(passed)});", *stores]
        signature = parameters(f'extern "C" __global__ void {self.kernel}', self.parameters())
        if self.plan.kind == "point":
            return [*signature, "{", *(INDENT + line for line in body), "}"]
        return [
            *signature,
            "{",
            f"{INDENT}const long long step = (long long)gridDim.x * blockDim.x;",
            f"{INDENT}for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {{",
            *(INDENT * 2 + line for line in body),
            f"{INDENT}}}",
            "}",
        ]

    def offset(self, name: str) -> str:
        """Where a point begins."""
        return f"i * {self.steps[name]}" if self.plan.kind == "batch" else ""

    def parameters(self) -> list[str]:
        """The kernel's parameters, those of one array together."""
        found = []
        for place, (leaf, name) in enumerate(zip(self.inputs, self.arguments, strict=True)):
            kind = LANGUAGE.types[leaf.dtype]
            found.append(f"{kind} {name}" if place in self.by_value else self.array(f"const {kind}", leaf, name))
        found += [self.array(LANGUAGE.types[o.dtype], o, t) for o, t in zip(self.outputs, self.targets, strict=True)]
        return [*found, "long long n"] if self.plan.kind == "batch" else found

    def array(self, kind: str, leaf: Input | Output, name: str) -> str:
        """A pointer and its strides."""
        strides = [self.steps[name]] if self.plan.kind == "batch" else []
        strides += [f"{self.steps[name]}{axis}" for axis in range(len(leaf.shape))]
        return ", ".join([f"{kind} *__restrict__ {name}", *(f"long long {s}" for s in strides)])

    def cells(self, leaf: Input | Output, name: str, local: str, copy: str, kind: str) -> list[str]:
        """A local array for the cells of a point, and the loops that copy them; loops are unrolled, so cells are registers."""
        count = 1
        for n in leaf.shape:
            count *= n
        lines = [f"{kind}{local}[{max(count, 1)}];"]
        if not count:
            return lines
        letters = ["k"] if len(leaf.shape) == 1 else [f"k{axis}" for axis in range(len(leaf.shape))]
        cell, parts = "", [part for part in (self.offset(name),) if part]
        for axis, (letter, n) in enumerate(zip(letters, leaf.shape, strict=True)):
            lines.append(INDENT * axis + "#pragma unroll")
            lines.append(f"{INDENT * axis}for (int {letter} = 0; {letter} < {n}; ++{letter})")
            cell = letter if not cell else f"{n} * {f'({cell})' if axis > 1 else cell} + {letter}"
            parts.append(f"{letter} * {self.steps[name]}{axis}")
        copied = copy.format(local=local, k=cell, array=name, at=" + ".join(parts))
        return [*lines, INDENT * len(leaf.shape) + copied]
