"""A kernel as NumPy text: in-place ufuncs over all of a small domain, or over blocks of a large one.

Assumes the texts of the operands. Guarantees that intermediate values stay in blocks, that sums of blocks are added
pairwise, and that nothing but numbers is allocated.
"""

from functools import partial
from typing import Any

from symdiff.codegen.array_text import region, region_words, shape_text
from symdiff.codegen.expressions import emit_statements, formula, printed_operands
from symdiff.codegen.numpy import emit_in_place, spelling
from symdiff.codegen.text import dtype_text, indented
from symdiff.lowering.arrays.fusing import Kernel, Sink
from symdiff.lowering.arrays.plan import full_kernel_values
from symdiff.lowering.arrays.summing import terms_of
from symdiff.lowering.program import domain_size, is_leaf
from symdiff.vocabulary.heads import Shape
from symdiff.vocabulary.literals import number_literal

SHORT = 64  # sums along a shorter last axis: np.add.reduce takes 4 times as long at 10 cells as a product with ones


class KernelLines:
    """The lines of one kernel; `writer` knows names, texts and places."""

    def __init__(self, writer: Any, index: int, kernel: Kernel) -> None:
        self.writer = writer
        self.kernel = kernel
        self.program = kernel.program
        self.nodes = writer.nodes
        self.before: list[str] = []
        self.block: list[str] = []  # the lines for one block
        self.after: list[str] = []
        self.rows: dict[int, str] = {}
        self.cuts: dict[str, str] = {}  # the blocks of arrays by their texts
        self.counts_rows = False
        if kernel.domain != ():
            self.loop, self.plan = writer.plan.kernels[index]

    def lines(self) -> list[str]:
        """All lines, names bound before a loop first."""
        if self.kernel.domain == ():
            return self.numbers()
        self.say()
        if self.loop.axis is None:
            return [*self.before, *self.block, *self.after]
        extent = domain_size(self.kernel.domain) if self.loop.axis == -1 else self.kernel.domain[self.loop.axis]
        head = [f"stop = min(start + {self.loop.rows}, {extent})", *(["rows = stop - start"] if self.counts_rows else [])]
        loop = f"for start in range(0, {extent}, {self.loop.rows}):"
        return [*self.before, loop, *indented([*head, *self.block]), *self.after]

    # -- numbers

    def numbers(self) -> list[str]:
        """A kernel over numbers: plain expressions."""
        ends = list(zip(self.kernel.sinks, self.program.outputs, strict=True))
        results = self.writer.results
        wished = {o.cells[0]: results[sink.value] for sink, o in reversed(ends) if sink.value in results}
        lines, values = emit_statements(
            self.program, lambda place, _: self.writer.text(self.kernel.operands[place]),
            lambda node: number_literal(node.params), partial(spelling, calls=self.writer.calls), self.writer.names,
            wished=wished,
        )  # fmt: skip
        for sink, output in ends:
            text = values[output.cells[0]]
            if self.program.nodes[output.cells[0]].op == "const":
                text = f"np.{dtype_text(output.dtype)}({text})"
            if not text.isidentifier():
                name = results.get(sink.value) or self.writer.fresh()
                lines.append(f"{name} = {text}")
                text = name
            self.writer.texts[sink.value] = text
        return lines

    # -- arrays

    def say(self) -> None:
        """Write the lines for one block."""
        program, lines = self.program, self.block
        leaves = [(k, node.params, node.op == "input") for k, node in enumerate(program.nodes) if is_leaf(node)]
        names = {k: self.operand(self.kernel.operands[own[0]]) if given else number_literal(own) for k, own, given in leaves}
        summed, needless, coefficients = self.sums()
        slots = self.slots({self.plan.slots[p] for p in range(len(program.nodes)) if p not in needless})
        targets = self.targets()
        stored = {v: self.place(self.kernel.sinks[places[0][0]]) for v, places in self.plan.finals.items()}
        labels = {k: self.label(self.kernel.operands[node.params[0]]) if node.op == "input" else names[k]
                  for k, node in enumerate(program.nodes) if is_leaf(node)}  # fmt: skip
        for position, node in enumerate(program.nodes):
            if not is_leaf(node) and position not in needless:
                labels[position] = stored.get(position) or self.writer.fresh()
                shown = formula(node, [labels[o] for o in printed_operands(program, position)], self.writer.calls)
                slot, operands = self.plan.slots[position], [names[o] for o in node.operands]
                names[position] = slots[slot] if slot is not None else targets[self.plan.finals[position][0][0]]
                said = emit_in_place(program, position, operands, names[position], self.writer.calls)
                lines.append(f"{said}  # {labels[position]} = {shown}")
            for sink, row, product in summed.get(position, ()):
                if product:
                    first, second = (names[o] for o in node.operands)
                    text = f"np.dot({first}, {second})  # sum({'*'.join(labels[o] for o in node.operands)})"
                else:
                    text = f"{self.reduced(sink, position, names[position])}  # sum({labels[position]})"
                self.term(sink, row, text, coefficients[sink] == [1])
        written = {p: self.plan.finals[p][0][0] for p in self.plan.finals if self.plan.slots[p] is None}
        ends = list(enumerate(zip(self.kernel.sinks, program.outputs, strict=True)))
        ends.sort(key=lambda end: end[1][0].kind == "add")  # a region is put before others are added
        for place, (sink, output) in ends:
            value = output.cells[0]
            node = program.nodes[value]
            if sink.kind in ("store", "put"):
                if written.get(value) != place or is_leaf(node):
                    lines.append(f"np.copyto({targets[place]}, {names[value]})  # {self.place(sink)} = {labels[value]}")
            elif sink.kind == "add":
                target = targets[place]
                lines.append(f"np.add({target}, {names[value]}, out={target})  # {self.place(sink)} += {labels[value]}")
            elif sink in coefficients:
                self.total(sink, coefficients[sink])
            else:
                self.sum(sink, names[value], labels[value], is_leaf(node))

    def label(self, value: int) -> str:
        """What a value of the program is called in formulas."""
        text: str = self.writer.text(value)
        return text if len(text) < 20 else self.writer.view_name(value)

    def place(self, sink: Sink) -> str:
        """What a sink fills, in formulas."""
        return region(self.label(sink.value), sink.key, self.nodes[sink.value].shape) if sink.key else self.label(sink.value)

    def sums(self) -> tuple[dict[int, list[tuple[Sink, int, bool]]], set[int], dict[Sink, list[complex]]]:
        """The terms of sums over the whole domain by position (sink, row, whether a product), what they make needless,
        and the coefficients of each sum."""
        full = full_kernel_values(self.nodes, self.kernel, self.loop)
        by_position: dict[int, list[tuple[Sink, int, bool]]] = {}
        needless: set[int] = set()
        coefficients: dict[Sink, list[complex]] = {}
        row = 0
        for place, sink in enumerate(self.kernel.sinks):
            if sink.kind != "sum" or len(sink.axes) < len(self.kernel.domain):
                continue
            terms, skipped = terms_of(self.program, place, full, self.kernel.exact)
            needless |= skipped
            coefficients[sink] = [t.coefficient for t in terms]
            for term in terms:
                by_position.setdefault(term.position, []).append((sink, row, term.product))
                row += 1
        return by_position, needless, coefficients

    def operand(self, value: int) -> str:
        """An operand's block."""
        shape = self.nodes[value].shape
        text, name = self.writer.text(value), self.writer.view_name(value)
        if shape == () or self.loop.axis is None:
            return self.named(text, name)
        return self.cut(text, name, shape)

    def cut(self, text: str, name: str, shape: Shape) -> str:
        """The block of an array with the domain's shape, or with one that broadcasts to it."""
        domain, axis = self.kernel.domain, self.loop.axis
        if axis == -1:
            base = self.named(f"{text}.reshape(-1)", f"{name}_flat") if len(domain) > 1 else self.named(text, name)
            part = f"{base}[start:stop]"
        else:
            own = axis - (len(domain) - len(shape))
            base = self.named(text, name)
            if own < 0 or shape[own] != domain[axis]:
                return base
            part = f"{base}[{':, ' * own}start:stop]"
        if part not in self.cuts:
            self.cuts[part] = self.writer.bound_name(part, f"{base}_block")
            self.block.append(f"{self.cuts[part]} = {part}")
        return self.cuts[part]

    def named(self, text: str, name: str) -> str:
        """A name for a view, bound before the loop of the first kernel that reads it."""
        if text.isidentifier():
            return text
        if text not in self.writer.bound:
            self.before.append(f"{self.writer.bound_name(text, name)} = {text}")
        return self.writer.bound[text]  # type: ignore[no-any-return]

    def block_shape(self) -> str:
        """The shape of a block, the cut axis in terms of `rows`."""
        sizes = [str(n) for n in self.kernel.domain]
        sizes[self.loop.axis] = "rows"
        self.counts_rows = True
        return ", ".join(sizes)

    def slots(self, used: set[Any]) -> dict[tuple[str, int], str]:
        """The work blocks that are used, by slot."""
        found = {}
        domain, axis = self.kernel.domain, self.loop.axis
        cells = domain_size(domain)
        for code, rows in sorted(self.plan.work.items()):
            scratch = self.writer.scratch_names[code]
            for row in range(rows):
                if (code, row) not in used:
                    continue
                name = self.writer.block_name(code, row)
                found[code, row] = name
                if axis is None:
                    part = f"{scratch}[{row}, :{cells!s}]"
                    self.before.append(f"{name} = {part}" + ("" if len(domain) == 1 else f".reshape({shape_text(domain)})"))
                elif axis == -1 or len(domain) == 1:
                    self.block.append(f"{name} = {scratch}[{row}, :stop - start]")
                else:
                    inner = cells // domain[axis]
                    self.block.append(f"{name} = {scratch}[{row}, :rows * {inner}].reshape({self.block_shape()})")
        return found

    def targets(self) -> dict[int, str]:
        """The block that each stored or added value goes to, by sink."""
        found = {}
        for place, sink in enumerate(self.kernel.sinks):
            if sink.kind == "sum":
                continue
            text, name = self.writer.text(sink.value), self.writer.view_name(sink.value)
            if sink.kind in ("add", "put"):
                shape = self.nodes[sink.value].shape
                text, name = region(text, sink.key, shape), name + region_words(sink.key, shape)
            cut = self.loop.axis is not None
            found[place] = self.cut(text, name, self.kernel.domain) if cut else self.named(text, name)
        return found

    def repeated(self, block: str) -> str:
        """A number or a smaller operand as a block of its own."""
        shape = self.block_shape() if self.loop.axis not in (None, -1) else "stop - start" if self.loop.axis == -1 else ""
        return f"np.broadcast_to({block}, {f'({shape},)' if shape else repr(self.kernel.domain)})"

    def reduced(self, sink: Sink, position: int, block: str) -> str:
        """The sum of a block over everything."""
        node = self.program.nodes[position]
        if is_leaf(node):
            block = self.repeated(block)
        axis = "" if len(self.kernel.domain) == 1 or self.loop.axis == -1 else ", axis=None"
        kind = ", dtype=np.float64" if node.dtype == "?" else ""
        return f"np.add.reduce({block}{axis}{kind})"

    def sum(self, sink: Sink, block: str, label: str, repeated: bool) -> None:
        """A sum over some axes."""
        block = self.repeated(block) if repeated else block
        code = self.nodes[sink.value].dtype
        kind = ", dtype=np.float64" if code == "d" and self.is_bool(sink) else ""
        target = self.writer.text(sink.value)
        axes = repr(sink.axes[0] if len(sink.axes) == 1 else sink.axes)
        axis = self.loop.axis
        label, shown = self.label(sink.value), f"sum({label}, axis={axes})"
        if axis is None or axis not in sink.axes:
            own = 0 if axis is None else axis - sum(a < axis for a in sink.axes)
            part = target if axis is None else f"{target}[{':, ' * own}start:stop]"
            rank, length = len(self.kernel.domain), self.kernel.domain[-1]
            if sink.axes == (rank - 1,) and rank > 1 and length <= SHORT and not kind and not self.kernel.exact:
                self.block.append(f"np.matmul({block}, {self.writer.ones(length, code)}, out={part})  # {label} = {shown}")
            else:
                self.block.append(f"np.add.reduce({block}, axis={axes}{kind}, out={part})  # {label} = {shown}")
        else:
            shape = self.nodes[sink.value].shape
            rows = self.plan.work.get(code, 0)
            part = self.writer.names.fresh("sums")
            scratch = f"{self.writer.scratch_names[code]}[{rows}, :{domain_size(shape)}]"
            self.before += [f"{part} = {scratch}.reshape({shape_text(shape)})", f"{target}.fill(0)"]
            self.block.append(f"np.add.reduce({block}, axis={axes}{kind}, out={part})  # {part} = {shown}")
            self.block.append(f"np.add({target}, {part}, out={target})  # {label} += {part}")

    def is_bool(self, sink: Sink) -> bool:
        place = self.kernel.sinks.index(sink)
        return bool(self.program.nodes[self.program.outputs[place].value].dtype == "?")

    def term(self, sink: Sink, row: int, text: str, alone: bool) -> None:
        """A term of a sum over everything: at once, or for each block."""
        if self.loop.axis is None:
            self.rows[row] = self.writer.texts[sink.value] if alone else self.writer.names.numbered("sum")
            self.block.append(f"{self.rows[row]} = {text}")
            return
        partial = self.writer.partial_names[self.nodes[sink.value].dtype]
        self.block.append(f"{partial}[{row}, start // {self.loop.rows}] = {text}")
        self.rows[row] = f"np.add.reduce({partial}[{row}, :{self.loop.blocks}])"

    def total(self, sink: Sink, coefficients: list[complex]) -> None:
        """A sum over everything, of its terms."""
        text = ""
        for coefficient in coefficients:
            part = self.rows.pop(min(self.rows))
            if coefficient not in (1, -1):
                part = f"{number_literal(coefficient if coefficient.imag else coefficient.real)}*{part}"
            elif coefficient == -1:
                part = f"-{part}"
            text += part if not text else f" - {part[1:]}" if part.startswith("-") else f" + {part}"
        if text == self.writer.texts[sink.value]:
            return
        (self.block if self.loop.axis is None else self.after).append(f"{self.writer.texts[sink.value]} = {text}")
