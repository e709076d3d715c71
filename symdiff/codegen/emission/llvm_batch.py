"""Program to LLVM IR over many points: a loop over explicit vectors of points, and one over those that remain.

Assumes points that lie first or last in contiguous arrays. Guarantees the arithmetic of `llvm` for every point. Refuses what
`llvm` refuses.
"""

from symdiff.codegen.emission.llvm import computed, converted
from symdiff.codegen.emission.llvm_functions import functions
from symdiff.codegen.emission.llvm_lines import TYPES, Lines, Value
from symdiff.codegen.program import Program
from symdiff.errors import BackendError
from symdiff.ops import is_complex, real_counterpart

_BYTES = {"d": 8, "f": 4, "?": 1}


def batch_function(
    program: Program, name: str, in_axes: tuple[int | None, ...], out_axes: tuple[int, ...], lanes: int, fused: bool
) -> str:
    """A function `name(pointer, step between points, step between cells for each array..., first point, end)`, steps in bytes.

    Points that lie last are loaded and stored as vectors, others are gathered and scattered; an input without an axis of
    points is read once. `fused`: the machine has fused multiply-add, on which the functions of `llvm_functions` rely.
    """
    width = lanes if fused else 0
    used: set[str] = set()
    arrays = [f"in{i}" for i in range(len(program.inputs))] + [f"out{i}" for i in range(len(program.outputs))]
    parameters = [text for a in arrays for text in (f"ptr %{a}", f"i64 %{a}.point", f"i64 %{a}.cell")]
    declared: dict[str, str] = {}
    entry: list[str] = []
    if lanes > 1:
        counted = ", ".join(f"i64 {k}" for k in range(lanes))
        for array, axis in zip(arrays, [*in_axes, *out_axes], strict=True):
            if axis is None:
                continue
            entry += [
                f"  %{array}.one = insertelement <{lanes} x i64> undef, i64 %{array}.point, i32 0",
                f"  %{array}.all = shufflevector <{lanes} x i64> %{array}.one, <{lanes} x i64> undef, "
                f"<{lanes} x i32> zeroinitializer",
                f"  %{array}.lanes = mul <{lanes} x i64> %{array}.all, <{counted}>",
            ]
    text = [f"define void @{name}({', '.join(parameters)}, i64 %start, i64 %stop) {{", "entry:", *entry]
    if lanes > 1:
        text += _loop(program, "wide", lanes, "%start", "entry", in_axes, out_axes, declared, used, width, "tail")
        text += ["tail:", "  %middle = phi i64 [%wide.i, %wide.test]"]
        text += _loop(program, "rest", 1, "%middle", "tail", in_axes, out_axes, declared, used, width, "end")
    else:
        text += _loop(program, "rest", 1, "%start", "entry", in_axes, out_axes, declared, used, width, "end")
    text += ["end:", "  ret void", "}"]
    bodies, needed = functions(used)
    declared.update(needed)
    return "\n".join([*declared.values(), *bodies, *text]) + "\n"


def _loop(
    program: Program, label: str, lanes: int, first: str, before: str, in_axes: tuple[int | None, ...],
    out_axes: tuple[int, ...], declared: dict[str, str], used: set[str],
    width: int, after: str,
) -> list[str]:  # fmt: skip
    """One loop; it leaves to the block `after`, with `%label.i` the first point that it has not done."""
    lines = Lines(lanes, label, width)
    point = f"%{label}.i"
    loaded: dict[int, Value] = {}
    for position, instr in enumerate(program.instrs):
        if instr.op == "input":
            place, cell = instr.payload
            loaded[position] = _loaded(lines, f"in{place}", cell, instr.dtype, in_axes[place], point)
    values = computed(program, lines, loaded)
    for place, output in enumerate(program.outputs):
        for cell, value in enumerate(output.cells):
            own = converted(lines, values[value], program.instrs[value].dtype, output.dtype)
            _stored(lines, f"out{place}", cell, own, output.dtype, out_axes[place], point)
    declared.update(lines.declared)
    used.update(lines.used)
    return [
        f"  br label %{label}.test",
        f"{label}.test:",
        f"  {point} = phi i64 [{first}, %{before}], [%{label}.next, %{label}.body]",
        f"  %{label}.next = add i64 {point}, {lanes}",
        f"  %{label}.more = icmp sle i64 %{label}.next, %stop",
        f"  br i1 %{label}.more, label %{label}.body, label %{after}",
        f"{label}.body:",
        *lines.text,
        f"  br label %{label}.test",
    ]


def _address(lines: Lines, array: str, cell: int, part: int, code: str, axis: int | None, point: str) -> str:
    """The address of a cell's part at a point."""
    offset = lines.put(f"mul i64 %{array}.cell, {cell}")
    if axis is not None:
        moved = lines.put(f"mul i64 %{array}.point, {point}")
        offset = lines.put(f"add i64 {offset}, {moved}")
    if part:
        offset = lines.put(f"add i64 {offset}, {_BYTES[code]}")
    return lines.put(f"getelementptr i8, ptr %{array}, i64 {offset}")


def _everywhere(lines: Lines, verb: str, array: str, place: str, part: str) -> tuple[str, str, str, str]:
    """What a gather or scatter of all lanes needs: the intrinsic, typed pointers, the mask's type, and the full mask."""
    n = lines.lanes
    found = lines.put(f"getelementptr i8, ptr {place}, <{n} x i64> %{array}.lanes")
    name = f"llvm.masked.{verb}.v{n}{'f64' if part == 'd' else 'f32'}.v{n}p0"
    return name, f"<{n} x ptr> {found}", f"<{n} x i1>", f"<{', '.join(['i1 true'] * n)}>"


def _loaded(lines: Lines, array: str, cell: int, code: str, axis: int | None, point: str) -> Value:
    if code == "?":
        raise BackendError("Boolean arguments run with NumPy only")
    part = real_counterpart(code) if is_complex(code) else code
    kind, plain = lines.kind(part), TYPES[part]
    found = []
    for k in range(2 if is_complex(code) else 1):
        place = _address(lines, array, cell, k, part, axis, point)
        if lines.lanes == 1:
            found.append(lines.put(f"load {plain}, ptr {place}"))
        elif axis is None:
            single = lines.put(f"load {plain}, ptr {place}")
            found.append(lines.repeated(plain, single, lines.lanes))
        elif axis == -1 and not is_complex(code):
            found.append(lines.put(f"load {kind}, ptr {place}, align {_BYTES[part]}"))
        else:
            name, pointers, mask, true = _everywhere(lines, "gather", array, place, part)
            lines.declared[name] = f"declare {kind} @{name}(<{lines.lanes} x ptr>, i32, {mask}, {kind})"
            found.append(lines.put(f"call {kind} @{name}({pointers}, i32 {_BYTES[part]}, {mask} {true}, {kind} undef)"))
    return tuple(found)


def _stored(lines: Lines, array: str, cell: int, value: Value, code: str, axis: int, point: str) -> None:
    if code == "?":
        raise BackendError("Boolean results of many points run with NumPy only")
    part = real_counterpart(code) if is_complex(code) else code
    kind = lines.kind(part)
    for k, v in enumerate(value):
        place = _address(lines, array, cell, k, part, axis, point)
        if lines.lanes == 1:
            lines.text.append(f"  store {TYPES[part]} {v}, ptr {place}")
        elif axis == -1 and not is_complex(code):
            lines.text.append(f"  store {kind} {v}, ptr {place}, align {_BYTES[part]}")
        else:
            name, pointers, mask, true = _everywhere(lines, "scatter", array, place, part)
            lines.declared[name] = f"declare void @{name}({kind}, <{lines.lanes} x ptr>, i32, {mask})"
            lines.text.append(f"  call void @{name}({kind} {v}, {pointers}, i32 {_BYTES[part]}, {mask} {true})")
