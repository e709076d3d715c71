"""One CUDA kernel of a whole-array program: a chain of elementwise operations, into arrays and into sums.

Assumes operands and results in contiguous arrays whose shapes are known. Guarantees that every cell is read before it is
written, constant index arithmetic (64-bit where an array needs it), and sums in an order that depends on the shapes alone.
Refuses what `cuda` refuses.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from symdiff.codegen.c_like import INDENT, c_signature
from symdiff.codegen.cuda.grids import BLOCK, BLOCKS, LONG, cuda_grid_loop, cuda_place
from symdiff.codegen.cuda.header import CUDA_RESERVED, LANGUAGE
from symdiff.codegen.expressions import Statements
from symdiff.codegen.names import Names
from symdiff.codegen.text import indented
from symdiff.lowering.arrays.fusing import Kernel, Sink
from symdiff.lowering.arrays.layouts import broadcast_strides, contiguous_strides
from symdiff.lowering.program import Program, domain_size
from symdiff.lowering.walks import live_only
from symdiff.vocabulary.heads import Shape

SUMMING = 1024  # the most blocks that add up one number
WIDE = 2**30  # cells from which indices take 64 bits
_SUM_HEAD = (
    "template <typename T> __device__ inline T sum_of_lanes(T value, T *shared, unsigned lane, unsigned lanes, unsigned step)"
)
SUM_DECLARED = f"""// The sum over the threads whose `lane` runs from 0 to `lanes`, a power of 2, `step` threads apart.
{_SUM_HEAD};
"""
SUM_OF_LANES = f"""{_SUM_HEAD}
{{
    shared[threadIdx.x] = value;
    __syncthreads();
    for (unsigned half = lanes / 2; half; half /= 2) {{
        if (lane < half)
            shared[threadIdx.x] = shared[threadIdx.x] + shared[threadIdx.x + half * step];
        __syncthreads();
    }}
    value = shared[threadIdx.x - lane * step];
    __syncthreads();
    return value;
}}
"""
SUM_ROWS = """// total[j] is the sum of partial[first + k * cells + j] over k; one block for each j.
extern "C" __global__ void {name}(
    const {t} *__restrict__ partial, long long first, long long rows, long long cells, {t} *__restrict__ total)
{{
    __shared__ {t} shared[256];
    {t} sum = 0;
    for (long long k = threadIdx.x; k < rows; k += blockDim.x)
        sum = sum + partial[first + k * cells + blockIdx.x];
    sum = sum_of_lanes(sum, shared, threadIdx.x, blockDim.x, 1);
    if (threadIdx.x == 0)
        total[blockIdx.x] = sum;
}}
"""
Sums = list[tuple[Sink, str, str]]  # with their dtypes and names


class Cells(NamedTuple):
    """Where the cells of a value lie: a variable of the Python function, an offset and strides in elements.

    `alone`: the variable is a number of the host.
    """

    variable: str
    code: str
    offset: int = 0
    strides: tuple[int, ...] = ()
    shape: Shape = ()
    alone: bool = False


@dataclass(slots=True)
class Total:
    """A sum whose parts lie in `partial`, from `first`: `rows` parts for each of `cells` results."""

    sink: Sink
    code: str
    first: int
    rows: int
    cells: int


@dataclass(slots=True)
class Launch:
    """The text of a kernel, its grid, the variables that it takes, and the sums that remain to be added up."""

    name: str
    lines: list[str]
    grid: tuple[int, ...]
    block: int
    passed: list[str]
    totals: list[Total] = field(default_factory=list)
    shared: frozenset[str] = frozenset()  # the dtypes of which threads of a block add up numbers
    fills: tuple[str, ...] = ()  # the variables whose arrays it writes


def split(kernel: Kernel) -> list[Kernel]:
    """The kernel as several in order, so that no two threads of a launch meet in a cell: one sum along axes at a time, and the
    parts of an array that is added up for themselves; what is stored, perhaps over an operand, in the last."""
    along = list(dict.fromkeys(s.axes for s in kernel.sinks if s.kind == "sum" and len(s.axes) < len(kernel.domain)))
    groups: list[list[Sink]] = [[s for s in kernel.sinks if s.kind == "sum" and s.axes == axes] for axes in along[1:]]
    parts: dict[int, list[Sink]] = {}
    for sink in sorted(kernel.sinks, key=lambda s: s.kind != "put"):
        if sink.kind in ("put", "add"):
            parts.setdefault(sink.value, []).append(sink)
    joined = [listed for listed in parts.values() if len(listed) > 1 and _beside(kernel.domain, listed)]
    apart = [listed for listed in parts.values() if listed not in joined]
    groups += joined
    for place in range(max(map(len, apart), default=0) - 1):
        groups.append([listed[place] for listed in apart if place < len(listed) - 1])
    rest = [listed[-1] for listed in apart]
    rest += [s for s in kernel.sinks if s.kind == "store" or (s.kind == "sum" and s.axes not in along[1:])]
    return [cuda_kernel_with(kernel, group) for group in [*groups, rest] if group]


def cuda_box(domain: Shape, sinks: list[Sink]) -> list[tuple[int, int]]:
    """The smallest region that holds those of all sinks: its first and last place along each axis."""
    found = []
    for axis, n in enumerate(domain):
        ends = [end for sink in sinks for end in (sink.key[axis][0], sink.key[axis][0] + (n - 1) * sink.key[axis][2])]
        found.append((min(ends), max(ends)))
    return found


def _beside(domain: Shape, sinks: list[Sink]) -> bool:
    """Whether regions lie close enough together to be added up cell by cell."""
    return domain_size(tuple(last - first + 1 for first, last in cuda_box(domain, sinks))) <= 2 * len(sinks) * domain_size(
        domain
    )


def joins_in_cuda(kernel: Kernel) -> bool:
    """Whether a kernel of `split` adds several parts to one array."""
    return len(kernel.sinks) > 1 and all(s.kind in ("put", "add") and s.value == kernel.sinks[0].value for s in kernel.sinks)


def cuda_kernel_with(kernel: Kernel, sinks: list[Sink]) -> Kernel:
    """The kernel with some of its sinks."""
    pairs = [(s, o) for s, o in zip(kernel.sinks, kernel.program.outputs, strict=True) if s in sinks]
    program = kernel.program
    kept = Program(program.name, program.inputs, tuple(o for _, o in pairs), program.nodes)
    return Kernel(kernel.domain, kernel.operands, live_only(kept), [s for s, _ in pairs], kernel.exact)


class KernelText:
    """The writer of one launch.

    `operands` are the cells of the kernel's operands, `targets` those of its sinks (for a sum the result's), `codes` the
    dtypes of the sums.
    """

    def __init__(self, name: str, kernel: Kernel, operands: list[Cells], targets: list[Cells]) -> None:
        self.kernel = kernel
        self.domain = kernel.domain
        self.cells = domain_size(self.domain)
        self.operands, self.targets = operands, targets
        sizes = [self.cells, *(domain_size(c.shape) for c in (*operands, *targets))]
        self.index = LONG if max(sizes) >= WIDE else "int"
        self.names = Names((*CUDA_RESERVED, name, "i", "o", "r", "c", "lane", "own", "step", "end", "shared", "partial",
                            *(f"{letter}{k}" for letter in "ic" for k in range(len(self.domain))),
                            *(f"{stem}_{code}" for stem in ("shared", "partial") for code in "fdFD")), plain=True)  # fmt: skip
        self.name = name
        self.params: dict[str, tuple[str, Cells]] = {}  # by Python variable: the name here, and some cells of it
        self.written: set[str] = set()
        self.used: set[int] = set()
        self.flat_used = False
        self.shared: set[str] = set()
        self.sums: Sums = []
        self.totals: list[Total] = []
        self.taken: dict[str, int] = {}  # how many parts of sums there are, by dtype
        self.axes: tuple[int, ...] = next(
            (s.axes for s in kernel.sinks if s.kind == "sum" and len(s.axes) < len(self.domain)), ()
        )
        self.kept = tuple(k for k in range(len(self.domain)) if k not in self.axes)

    # -- parameters and indices

    def parameter(self, cells: Cells) -> str:
        """The name here of a Python variable."""
        if cells.variable not in self.params:
            stem = cells.variable if cells.variable.isidentifier() else "a"
            own = self.names.fresh(stem)
            self.params[cells.variable] = own, cells
        return self.params[cells.variable][0]

    def declared(self) -> list[str]:
        """The parameters: numbers by value, arrays by pointers that only one name has."""
        found = []
        for variable, (own, cells) in self.params.items():
            kind = LANGUAGE.types[cells.code]
            const = "" if variable in self.written else "const "
            found.append(f"{kind} {own}" if cells.alone else f"{const}{kind} *__restrict__ {own}")
        return found

    def place(self, cells: Cells) -> str:
        """A cell as text."""
        name = self.parameter(cells)
        return name if cells.alone else f"{name}[{self.at(cells)}]"

    def at(self, cells: Cells) -> str:
        """The index of the current cell of the domain in an array, which is broadcast to the domain."""
        flat, strides = contiguous_strides(self.domain), broadcast_strides(cells.strides, cells.shape, self.domain)
        wide = [axis for axis, n in enumerate(self.domain) if n > 1]
        if self.domain and all(strides[axis] == flat[axis] for axis in wide):
            self.flat_used = True
            return cuda_place([(1, "i")], cells.offset)
        moving = [axis for axis in wide if strides[axis]]
        self.used.update(moving)
        return cuda_place([(strides[axis], f"i{axis}") for axis in moving], cells.offset)

    def flat_index(self) -> str:
        """The place of the current cell of the domain, from those along its axes."""
        strides = contiguous_strides(self.domain)
        found = cuda_place((strides[axis], f"i{axis}") for axis, n in enumerate(self.domain) if n > 1)
        return f"const {self.index} i = {found};"

    # -- the body of the loop

    def body(self) -> Statements:
        """The statements for one cell, and what each output is."""
        program = self.kernel.program
        lines: list[str] = []

        def read(place: int, _: int) -> str:
            text = self.place(self.operands[place])
            if self.operands[place].alone:
                return text
            name = self.names.numbered("x")
            lines.append(f"const {LANGUAGE.types[program.inputs[place].dtype]} {name} = {text};")
            return name

        steps, values = LANGUAGE.body(program, read, self.names)
        return [*lines, *steps], values

    def stores(self, values: dict[int, str]) -> list[str]:
        """The statements that put values into arrays."""
        lines = []
        for sink, target, output in zip(self.kernel.sinks, self.targets, self.kernel.program.outputs, strict=True):
            value = values[output.cells[0]]
            if sink.kind == "sum":
                continue
            place = self.place(target)
            self.written.add(target.variable)
            lines.append(f"{place} = {place} + {value};" if sink.kind == "add" else f"{place} = {value};")
        return lines

    def adding(self, values: dict[int, str]) -> list[str]:
        """The statements that add values up."""
        lines = []
        for sink, target, output in zip(self.kernel.sinks, self.targets, self.kernel.program.outputs, strict=True):
            if sink.kind == "sum":
                name = self.names.numbered("sum")
                lines.append(f"{name} = {name} + {values[output.cells[0]]};")
                self.sums.append((sink, target.code, name))
        return lines

    # -- the kernel

    def launch(self) -> Launch:
        """The kernel's text and how it is launched."""
        body, values = self.body()
        stores = [*self.stores(values), *self.adding(values)]
        if self.domain == ():
            return self.finished([*body, *stores], (1,), 1)
        inside = [*self.indices(), *body, *stores]
        return self.rows(inside) if self.axes else self.flat(inside)

    def finished(self, lines: list[str], grid: tuple[int, ...], block: int) -> Launch:
        """The kernel around its lines."""
        partial = sorted({t.code for t in self.totals})
        declared = [*self.declared(), *(f"{LANGUAGE.types[c]} *__restrict__ partial_{c}" for c in partial)]
        head = c_signature(f'extern "C" __global__ void {self.name}', declared)
        passed = [*self.params, *(f"partial_{c}" for c in partial)]
        return Launch(
            self.name,
            [*self.comment(), *head, "{", *indented(lines), "}", ""],
            grid,
            block,
            passed,
            self.totals,
            frozenset(self.shared),
            (*(v for v in self.params if v in self.written), *(f"partial_{c}" for c in partial)),
        )

    def comment(self) -> list[str]:
        """What the kernel goes over, and its cost."""
        count = self.kernel.program.operations()
        shape = " x ".join(map(str, self.domain))
        cells = f"{shape} cells, {count} operation{'' if count == 1 else 's'} each" if self.domain else "Numbers"
        return [f"// {cells}."]

    def flat(self, inside: list[str]) -> Launch:
        """A loop over all cells; sums over everything by block."""
        blocks = min(-(-self.cells // BLOCK), SUMMING if self.sums else BLOCKS)
        if self.cells < WIDE and not self.sums and blocks * BLOCK >= self.cells:
            first = [f"const {self.index} i = blockIdx.x * blockDim.x + threadIdx.x;"]
            loop = [*first, f"if (i < {self.cells}) {{", *indented(inside), "}"]
        else:
            loop = cuda_grid_loop("i", self.cells, inside, self.index)
        return self.finished([*self.accumulators(), *loop, *self.block_sums("blockIdx.x", blocks)], (blocks,), BLOCK)

    def accumulators(self) -> list[str]:
        """The sums' variables, and the memory that the threads of a block share for them."""
        self.shared |= {code for _, code, _ in self.sums}
        lines = [f"__shared__ {LANGUAGE.types[c]} shared_{c}[{BLOCK}];" for c in sorted(self.shared)]
        return [*lines, *(f"{LANGUAGE.types[code]} {name} = 0;" for _, code, name in self.sums)]

    def block_sums(self, block: str, blocks: int) -> list[str]:
        """The statements that add up sums over everything among the threads of a block, one part a block."""
        lines = []
        for sink, code, name in self.sums:
            if len(sink.axes) == len(self.domain):
                lines.append(f"{name} = sum_of_lanes({name}, shared_{code}, threadIdx.x, {BLOCK}, 1);")
                lines += ["if (threadIdx.x == 0)", f"{INDENT}{self.part(sink, code, blocks, 1, block, '0')} = {name};"]
        return lines

    def rows(self, inside: list[str]) -> Launch:
        """Sums along axes: o counts the results, r the cells that each adds up; some threads share a result."""
        results, along = (
            domain_size(tuple(self.domain[k] for k in self.kept)),
            domain_size(tuple(self.domain[k] for k in self.axes)),
        )
        trailing = self.axes == tuple(range(len(self.kept), len(self.domain)))
        lanes = min(BLOCK, _power(along)) if trailing else BLOCK // min(BLOCK, _power(results))
        together = BLOCK // lanes
        columns = -(-results // together)
        chunks = max(1, min(-(-along // (16 * lanes)), 512 // columns))
        chunk = -(-along // chunks)
        lane, own = (
            (f"threadIdx.x % {lanes}", f"threadIdx.x / {lanes}")
            if trailing
            else (f"threadIdx.x / {together}", f"threadIdx.x % {together}")
        )
        end = f"min({along}, ({self.index})(blockIdx.y + 1) * {chunk})" if chunks > 1 else str(along)
        first = f"({self.index})blockIdx.y * {chunk} + lane" if chunks > 1 else "lane"
        lines = [
            f"const int lane = {lane};",
            f"const {self.index} o = ({self.index})blockIdx.x * {together} + {own};",
            *self.accumulators(),
            f"if (o < {results})",
            f"{INDENT}for ({self.index} r = {first}; r < {end}; r += {lanes}) {{",
            *indented(indented(inside)),
            f"{INDENT}}}",
        ]
        for sink, code, name in self.sums:
            if len(sink.axes) < len(self.domain):
                lines.append(f"{name} = sum_of_lanes({name}, shared_{code}, lane, {lanes}, {1 if trailing else together});")
                row = f"({self.index})blockIdx.y * {results} + o"
                lines.append(f"if (lane == 0 && o < {results})")
                lines.append(f"{INDENT}{self.part(sink, code, chunks, results, row, 'o')} = {name};")
        ends = self.block_sums("blockIdx.y * gridDim.x + blockIdx.x", columns * chunks)
        return self.finished([*lines, *ends], (columns, chunks) if chunks > 1 else (columns,), BLOCK)

    def part(self, sink: Sink, code: str, rows: int, cells: int, row: str, cell: str) -> str:
        """Where a block leaves its part of a sum: among the parts, `rows` for each of `cells` results, or in the result where
        there is only one."""
        if rows > 1:
            first = self.taken.get(code, 0)
            self.taken[code] = first + rows * cells
            self.totals.append(Total(sink, code, first, rows, cells))
            return f"partial_{code}[{f'{first} + ' if first else ''}{row}]"
        target = self.targets[self.kernel.sinks.index(sink)]
        self.written.add(target.variable)
        at = cell if not target.offset else str(target.offset) if cell == "0" else f"{target.offset} + {cell}"
        return f"{self.parameter(target)}[{at}]"

    def indices(self) -> list[str]:
        """The indices along axes that the body uses."""
        strides = contiguous_strides(self.domain)
        lines = []
        if not self.axes:
            for axis in sorted(self.used):
                lines.append(f"const {self.index} i{axis} = {cuda_index('i', strides[axis], self.domain[axis], axis == 0)};")
            return lines
        kept, along = tuple(self.domain[k] for k in self.kept), tuple(self.domain[k] for k in self.axes)
        needed = set(self.used) | (set(range(len(self.domain))) if self.flat_used else set())
        for letter, axes, shape in (("o", self.kept, kept), ("r", self.axes, along)):
            for place, (axis, stride) in enumerate(zip(axes, contiguous_strides(shape), strict=True)):
                if axis in needed and self.domain[axis] > 1:
                    lines.append(f"const {self.index} i{axis} = {cuda_index(letter, stride, self.domain[axis], place == 0)};")
        if self.flat_used:
            lines.append(self.flat_index())
        return lines


def cuda_index(letter: str, stride: int, extent: int, first: bool) -> str:
    """An index along an axis, from a flat one."""
    text = letter if stride == 1 else f"{letter} / {stride}"
    return text if first else f"{text} % {extent}"


def _power(n: int) -> int:
    """The least power of 2 that is at least n."""
    return 1 << (n - 1).bit_length()


def cells_kernel(name: str, sources: list[Cells], target: Cells) -> Launch:
    """The kernel that puts numbers into the cells of an array."""
    kernel = Kernel((), [], Program("cells", (), (), []), [])
    text = KernelText(name, kernel, sources, [])
    lines = [f"{text.parameter(target)}[{target.offset + k}] = {text.place(source)};" for k, source in enumerate(sources)]
    text.written.add(target.variable)
    return text.finished(lines, (1,), 1)
