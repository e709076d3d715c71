"""ArrayPlan to NumPy: one line for each structural call, kernels as in-place ufuncs over blocks.

Assumes an ArrayPlan. Guarantees that a thread's second call allocates its results only, and with an `out` that overlaps no
input nothing at all (but for what `np.linalg` and sorting allocate themselves); IEEE results without warnings. Refuses, with
`ExportError`, to write large constant arrays into a file.
"""

from collections.abc import Mapping, Sequence
from string import Template
from typing import Any, ClassVar

import numpy as np

from symdiff.codegen.array_kernels import KernelLines
from symdiff.codegen.array_text import (
    added_text,
    clearing_text,
    constant_text,
    emit_step,
    imported_text,
    primitive_text,
    region,
    shape_text,
    support_texts,
    view_text,
    view_words,
)
from symdiff.codegen.exceptions import POINT
from symdiff.codegen.numpy import called, calls_scipy, emitted_globals
from symdiff.codegen.shells import INDENT, Shell, declining, unfit_array
from symdiff.codegen.source import Source, Wanted
from symdiff.codegen.text import dtype_text, few_names, indented, tuple_text, wrapped_text
from symdiff.ir.node import Node
from symdiff.lowering.arrays.fusing import Call, Clear, Kernel
from symdiff.lowering.arrays.plan import ArrayPlan, is_planned
from symdiff.lowering.arrays.planning import OVERWRITING
from symdiff.lowering.program import ASSEMBLE, domain_size, is_leaf, is_view_step
from symdiff.vocabulary.extents import equal_counts
from symdiff.vocabulary.literals import number_literal
from symdiff.vocabulary.plain import READABLE

_WORDS = ("work", "start", "stop", "rows", "found")
APART = Template('''def _apart(results: tuple[Any, ...], arrays: tuple[Any, ...]) -> list[Any]:
    """Arrays for results: those given, or new ones for what lies scattered or may share memory with arrays."""
    return [
        r if r.flags.$together and not any($np.may_share_memory(r, a) for a in arrays) else $np.empty(r.shape, r.dtype)
        for r in results
    ]''')


def emit(
    plan: ArrayPlan, *, builtins: Mapping[int, Any] | None = None, points: Sequence[int | None] = (), **asked: Any
) -> Source:
    """The plan as the NumPy function that is `asked` for, `Wanted`.

    `builtins` compute the kernels that have a nest in the plan; `points` are the axes of points in the arguments where they
    have some.
    """
    writer = ArrayWriter(plan, Wanted(**asked), points)
    functions = writer.functions()
    own = [(n, c) for n, c in writer.constants if not isinstance(c, np.ndarray)] if writer.exported else []
    aliases = {f: writer.names.fresh(f.__name__) for f in dict.fromkeys(c.function for _, c in own)}
    sites = [(n, c, aliases[c.function]) for n, c in own]
    arrays = [(n, c) for n, c in writer.constants if isinstance(c, np.ndarray)] if writer.exported else []
    compiled = [(writer.compiled[index], builtin) for index, builtin in (builtins or {}).items()]
    return writer.source(
        functions,
        special=calls_scipy(writer.scalars),
        packages=[*dict.fromkeys(imported_text(site, alias) for _, site, alias in sites)],
        constants=[(f"{n} = {constant_text(c)}", c.size) for n, c in arrays],
        support=[*(primitive_text(site, name, alias) for name, site, alias in sites), *writer.called_heads()],
        known=[] if writer.exported else [*emitted_globals(writer.scalars), *writer.constants, *compiled],
    )


class ArrayWriter(Shell):
    """Names, texts and places of the values of a plan, and the function that computes them in the words of a library."""

    support: ClassVar[dict[str, str]] = {
        **Shell.support, "_apart": APART.substitute(np="np", together="carray"),
    }  # fmt: skip

    def __init__(self, plan: ArrayPlan, want: Wanted, points: Sequence[int | None] = ()) -> None:
        self.plan = plan
        self.point_axes = points or (None,) * len(plan.program.inputs)
        self.nodes = plan.program.nodes
        self.scalars = plan.fused.scalars
        self.calls = called(self.scalars)
        words = (*_WORDS, *(("point", *(f"error{k}" for k in range(len(want.raised)))) if want.raised else ()))
        own = (*self.own_names(), *self.calls.values(), *words)
        super().__init__(plan.program, want, own)
        self.steps = self.names.fresh(f"{want.name}_steps")
        self.read = {node.params[0] for node in self.nodes if node.op == "input"}
        self.texts: dict[int, str] = {}
        self.constants: list[tuple[str, Any]] = []
        self.slot_names = [self.names.fresh(f"slot{k}") for k in range(len(plan.slots))]
        blocks = {code: f"blocks_{'b' if code == '?' else code}" for code in plan.scratch}
        self.scratch_names = {code: self.names.fresh(name) for code, name in blocks.items()}
        sums = {code: "partial" if code == "d" else f"partial_{code}" for code in plan.partial}
        self.partial_names = {code: self.names.fresh(name) for code, name in sums.items()}
        self.compiled = {index: self.names.fresh(f"kernel{index}") for index in plan.nests}
        self.cells: list[tuple[str, str]] = []
        numbers = [(o.value, t) for o, t in self.making if o.shape == ()]
        self.results = {v: t for v, t in reversed(numbers) if not is_leaf(self.nodes[v]) and not is_view_step(self.nodes[v])}
        self.exact = {o for o, node in enumerate(self.nodes) if node.op == "input"}
        self.known_ones: dict[tuple[int, str], str] = {}
        self.block_names: dict[tuple[str, int], str] = {}
        self.bound: dict[str, str] = {}
        for position, node in enumerate(self.nodes):
            if node.op == "input":
                self.texts[position] = self.arguments[node.params[0]]
            elif node.op == "const":
                self.texts[position] = self.constant(node)

    def called_heads(self) -> list[str]:
        """The functions that the file has for operations."""
        return support_texts((node.op for node in self.nodes), self.words.np)

    def own_names(self) -> tuple[str, ...]:
        """Further names that the file has for its own use."""
        return ()

    def constant(self, node: Node) -> str:
        if not isinstance(node.params, np.ndarray):
            return number_literal(node.params, self.words.np)
        return self.array(np.ascontiguousarray(node.params))

    def array(self, value: Any) -> str:
        """The name of a constant array, or of what calls an opaque function."""
        for name, known in self.constants:
            if known is value:
                return name
        site = not isinstance(value, np.ndarray)
        name = self.names.fresh(f"call_{value.rule.name}" if site else f"constant{len(self.constants)}")
        self.constants.append((name, value))
        return name

    def ones(self, count: int, code: str) -> str:
        """The name of a constant array of ones."""
        if (count, code) not in self.known_ones:
            self.known_ones[count, code] = self.array(np.ones(count, dtype=code))
        return self.known_ones[count, code]

    def text(self, value: int) -> str:
        """A value as an expression: a name, or a view of one."""
        found = self.texts.get(value)
        if found is None:
            node = self.nodes[value]
            assert is_view_step(node), f"v{value} ({node.op}) is read before it is made"
            found = view_text(self.nodes, value, self.typed, self.words)
            self.texts[value] = found
        return found

    def typed(self, value: int) -> str:
        """A value as NumPy is to see it: numbers, whose texts may be Python's, in their own dtype."""
        node, text = self.nodes[value], self.text(value)
        known = node.shape != () or node.dtype in "dl?" or value in self.exact
        return text if known else f"{self.words.np}.{dtype_text(node.dtype)}({text})"

    def view_name(self, value: int) -> str:
        """A name for a value that says what it shows: x_tail for `x[1:]`, W_T for `W.T`."""
        node = self.nodes[value]
        if is_view_step(node):
            return self.view_name(node.operands[0]) + view_words(self.nodes, value)
        text = self.text(value)
        return text if text.isidentifier() else "a"

    def bound_name(self, text: str, name: str) -> str:
        """The name of a view that has this text, `name` if it is free."""
        if text not in self.bound:
            self.bound[text] = self.names.fresh(name)
        return self.bound[text]

    def fresh(self) -> str:
        """The next name for a value."""
        return self.names.numbered("v")

    # -- the functions

    def functions(self) -> list[str]:
        """The functions of the steps and of all."""
        body = [*self.body(), *self.copies()]
        made = self.made_once()
        kept = [name for name, _ in made]
        arrays = [t for o, t in self.making if self.held(o)]
        taken = [*self.size_names, *(a for place, a in enumerate(self.arguments) if place in self.read), *arrays, *kept]
        returned = self.numbers_made()
        body += [f"return {', '.join(returned)}"] if returned else []
        kind = "Any" if returned or (self.program.checks and not self.raised) else "None"
        steps = wrapped_text(f"def {self.steps}(", [f"{name}: Any" for name in taken], f") -> {kind}:")
        shown = few_names(self.targets)
        work = [name for name in kept if name not in dict(self.constants)]
        work = work if len(work) < 5 else [*work[:2], "...", work[-1]]
        shown += f"; {', '.join(work)} hold intermediate values, one after another." if work else "."
        steps += [f'{INDENT}"""{shown}"""', *indented(body)]
        shell = [*self.accepted(), *self.arrays_for_results(self.apart())]
        shell += [f"{tuple_text(kept)[1:-1]} = {self.keep('work', [text for _, text in made])}"] if kept else []
        shell += [*self.call(taken), *self.returned(self.targets, self.filled())]
        return ["\n".join(steps), self.function(shell)]

    def body(self) -> list[str]:
        """The statements of the steps."""
        body: list[str] = []
        for index, task in enumerate(self.plan.fused.tasks):
            if index == self.plan.fused.checked:
                body += self.checks()
            if isinstance(task, Kernel):
                body += self.kernel(index, task)
            elif index in self.plan.nests:
                body += [*(self.made(task.value) if self.nodes[task.value].shape else []), *self.builtin(index)]
            else:
                body += self.structural(task)
        return body + (self.checks() if self.plan.fused.checked == len(self.plan.fused.tasks) else [])

    def call(self, taken: list[str]) -> list[str]:
        """The call of the steps, without NumPy's warnings."""
        numbers = [t for o, t in self.making if o.shape == ()]
        found = ", ".join(numbers)
        declines = bool(self.program.checks) and not self.raised
        lines = wrapped_text(f"{'found = ' if declines else f'{found} = ' if found else ''}{self.steps}(", taken, ")", INDENT)
        lines.insert(0, 'with np.errstate(all="ignore"):')
        if declines:
            lines += [*declining("found is MISS"), *([f"{found} = found"] if found else [])]
        return lines

    def checks(self) -> list[str]:
        """What ends the steps where a check holds: an exception, or the sentinel by which the caller is told."""
        lines = []
        names = [leaf.name for leaf in self.program.inputs]
        for k, value in enumerate(self.program.checks):
            text = self.text(value)
            if self.nodes[value].shape == ():
                lines.append(f"if {text}:")
                shown = dict(zip(names, self.arguments, strict=True))
                found = [f"raise {self.raised[k].text(shown)}"] if self.raised else ["return MISS"]
            else:
                lines.append(f"if {text}.any():")
                shown = {n: a + POINT[x] for n, a, x in zip(names, self.arguments, self.point_axes, strict=True)}
                found = self.raised[k].at_point(k, f"{text}.argmax()", shown)
            lines += indented(found)
        return lines

    def accepted(self) -> list[str]:
        """A runtime function declines arguments that are not exactly what it was made for."""
        lines = super().accepted()
        for leaf, argument in self.taking if not self.exported else ():
            if leaf.shape == ():
                kinds = "float, np.floating" + (", complex, np.complexfloating" if leaf.dtype in "FD" else "")
                lines += declining(f"not isinstance({argument}, ({kinds}))")
                lines.append(f"{argument} = np.{dtype_text(leaf.dtype)}({argument})")
            else:
                lines += declining(unfit_array(argument, leaf, READABLE))
        return lines

    def out_check(self) -> list[str]:
        """The checks of a given `out`."""
        return super().out_check() if self.exported else self.declined_out()

    def apart(self) -> list[str]:
        """The arrays that results are computed in: those given if they lie together and apart from arguments."""
        arrays = [(t, p) for (o, t), p in zip(self.making, self.places, strict=True) if self.held(o)]
        if not arrays:
            return []
        self.uses("_apart")
        read = [a for leaf, a in self.taking if self.lies(leaf, a)]
        computed, given = (tuple_text(names) for names in zip(*arrays, strict=True))
        return [f"{computed[1:-1]} = _apart({given}, {tuple_text(read)})"]

    def filled(self) -> list[str]:
        """The statements that fill an `out` with what was computed elsewhere."""
        lines = []
        for (output, target), place in zip(self.making, self.places, strict=True):
            copied = [f"if {target} is not {place}:", f"{INDENT}{self.words.np}.copyto({place}, {target})"]
            lines += copied if self.held(output) else [f"{place}[()] = {target}"]
        return lines

    def made_once(self) -> list[tuple[str, str]]:
        """The arrays that a thread keeps: names and how they are made."""
        made = []
        for name, (code, cells) in zip(self.slot_names, self.plan.slots, strict=True):
            made.append((name, f"np.empty({cells!s}, np.{dtype_text(code)})"))
        for code, (rows, cells) in sorted(self.plan.scratch.items()):
            made.append((self.scratch_names[code], f"np.empty(({rows}, {cells!s}), np.{dtype_text(code)})"))
        for code, (rows, blocks) in sorted(self.plan.partial.items()):
            made.append((self.partial_names[code], f"np.empty(({rows}, {blocks}), np.{dtype_text(code)})"))
        return made + [(name, f"np.empty((), np.{dtype_text(code)})") for name, code in self.cells]

    def block_name(self, code: str, row: int) -> str:
        """The name of a work block, the same in all kernels."""
        if (code, row) not in self.block_names:
            stem = "w" if code == "d" else "b" if code == "?" else f"w{code}"
            self.block_names[code, row] = self.names.fresh(f"{stem}{row}")
        return self.block_names[code, row]

    def numbers_made(self) -> list[str]:
        """The results that are numbers, as the steps return them."""
        found = []
        for output in self.program.outputs:
            if output.shape == ():
                node, text = self.nodes[output.value], self.text(output.value)
                found.append(text if not is_leaf(node) and not is_view_step(node) else f"np.{dtype_text(output.dtype)}({text})")
        return found

    def copies(self) -> list[str]:
        """Results that were not computed in their own arrays."""
        lines = []
        for k, output in enumerate(self.program.outputs):
            value = output.value
            if output.shape == ():
                lines += self.number_copied(k, value)
                continue
            while self.nodes[value].op == "reshape":
                value = self.nodes[value].operands[0]
            if self.plan.places.get(value) != ("output", k):
                source = self.nodes[output.value]
                lines.append(self.copy_text(k, self.text(source.operands[0] if source.op == "broadcast_to" else output.value)))
        return lines

    def copy_text(self, k: int, text: str) -> str:
        """The statement that fills a result with an array."""
        return f"{self.words.np}.copyto({self.targets[k]}, {text})  # {self.targets[k]} = {text}"

    def number_copied(self, k: int, value: int) -> list[str]:
        """The statement that fills a result with a number; numbers are returned here."""
        return []

    # -- places

    def made(self, value: int) -> list[str]:
        """The lines that give a value its array, under a name."""
        kind, k = self.plan.places[value]
        node = self.nodes[value]
        if kind == "output":
            output = self.program.outputs[k]
            if output.shape == node.shape:
                self.texts[value] = self.targets[k]
                return []
            self.texts[value] = self.names.fresh(f"{self.targets[k]}_{'flat' if len(node.shape) == 1 else 'view'}")
            return [f"{self.texts[value]} = {self.targets[k]}.reshape({shape_text(node.shape)})"]
        self.texts[value] = self.results.get(value) or self.fresh()
        if kind != "work":
            return []
        cells = self.plan.slots[k][1]
        own = domain_size(node.shape)
        part = self.slot_names[k] if equal_counts(own, cells) else f"{self.slot_names[k]}[:{own!s}]"
        return [f"{self.texts[value]} = {part}" + ("" if len(node.shape) == 1 else f".reshape({shape_text(node.shape)})")]

    # -- tasks

    def structural(self, task: Call | Clear) -> list[str]:
        """A call of the library."""
        value, node = task.value, self.nodes[task.value]
        if isinstance(task, Clear):
            return [*self.made(value), *clearing_text(self.text(value), task.besides, node.shape)]
        if node.op == ASSEMBLE:
            places = [(region(self.text(value), key, node.shape), self.text(o)) for o, key in task.pending]
            return [added_text(place, text, self.words.np) for place, text in places]
        source = node.operands[0] if node.operands else -1
        if node.op in OVERWRITING and self.plan.places.get(source) == self.plan.places[value]:
            texts = [self.text(o) for o in node.operands]
            self.texts[value] = self.text(source)
            return emit_step(self.nodes, value, texts, self.texts[value], True, self.array, self.words)[1:]
        return self.step(value)

    def step(self, value: int) -> list[str]:
        """A structural node with an array of its own."""
        node = self.nodes[value]
        texts = [self.text(o) for o in node.operands]
        planned = is_planned(node) and node.shape != ()
        return [*self.made(value), *emit_step(self.nodes, value, texts, self.texts[value], planned, self.array)]

    def kernel(self, index: int, task: Kernel) -> list[str]:
        stored: list[str] = []
        for sink in task.sinks:
            if sink.kind in ("store", "sum") and self.nodes[sink.value].shape != ():
                stored += self.made(sink.value)
            elif sink.kind in ("store", "sum") and task.domain != () and index not in self.plan.nests:
                self.texts[sink.value] = self.results.get(sink.value) or self.fresh()
        if index in self.plan.nests:
            return [*stored, *self.builtin(index)]
        return [*stored, *KernelLines(self, index, task).lines()]

    def builtin(self, index: int) -> list[str]:
        """The call of a compiled kernel; its numbers are read from arrays of one cell."""
        nest = self.plan.nests[index]
        made = {r.cells.array for r in nest.results}
        texts = []
        numbers = []
        for place, held in enumerate(nest.arrays):
            node = self.nodes[held.value]
            if place in made and node.shape == ():
                cell = self.names.numbered("cell")
                self.cells.append((cell, node.dtype))
                self.texts[held.value] = self.fresh()
                self.exact.add(held.value)
                numbers.append(f"{self.texts[held.value]} = {cell}[()]")
                texts.append(cell)
                continue
            text = self.text(held.value)
            if held.copied or (node.shape != () and self.plan.places.get(held.value) == ("fresh", 0)):
                text = f"np.ascontiguousarray({text})"
            elif node.shape == () and held.value not in self.exact:
                text = f"np.{dtype_text(node.dtype)}({text})"
            texts.append(text)
        return [f"{self.compiled[index]}({', '.join(texts)})", *numbers]
